/* The price of operations and of whole solutions.
 *
 * An operation's price depends on its class, its candidate and the layouts of its operands and
 * result; it is remembered under those ids, so local moves reprice only what they touch. Estimates
 * add the slowest tile of each step. Fails (false) only for lack of memory.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <string.h>

struct lay *solution_source(struct space *s, const struct model_source *source)
{
    if (source->kind == SOURCE_OP)
        return s->value[source->index];
    if (source->kind == SOURCE_FIXED)
        return lay_balanced(s, source->index);
    return NULL;
}

struct lay *solution_left(struct space *s, const struct model_op *op, const struct cand *cand)
{
    if (op->flow->kind == FLOW_GEMM && cand != NULL && (cand->choice.flags & CHOICE_STAGED))
        return lay_staged(s, op->flow->a);
    return solution_source(s, &op->a);
}

enum { MARK_NONE, MARK_OPEN, MARK_DONE };

static struct lay *resolve_value(struct space *s, const uint16_t *pick, uint32_t index)
{
    const struct model_op *op = &s->model->ops[index];
    if (s->mark[index] == MARK_DONE)
        return s->value[index];
    if (s->mark[index] == MARK_OPEN) /* a carried value that follows itself */
        return lay_balanced(s, op->flow->out);
    s->mark[index] = MARK_OPEN;
    struct cand *cand = candidate_get(s, index, pick[index]);
    struct lay *lay = NULL;
    if (op->op > 0 && s->model->ops[index - 1].fusable) {
        lay = resolve_value(s, pick, index - 1);
    } else if (cand == NULL || cand->bad) {
        s->value[index] = NULL;
    } else if (cand->choice.kind == CHOICE_FOLLOW_A || cand->choice.kind == CHOICE_FOLLOW_B) {
        const struct model_source *from = cand->choice.kind == CHOICE_FOLLOW_A ? &op->a : &op->b;
        lay = from->kind == SOURCE_OP ? resolve_value(s, pick, from->index)
                                      : lay_balanced(s, op->flow->out);
    } else {
        lay = cand->out;
    }
    s->mark[index] = MARK_DONE;
    s->value[index] = lay;
    return lay;
}

bool solution_layouts(struct space *s, const uint16_t *pick)
{
    bool complete = true;
    memset(s->mark, MARK_NONE, s->model->op_count);
    for (uint32_t i = 0; i < s->model->op_count; i++)
        if (s->model->ops[i].flow->kind != FLOW_REPEAT)
            complete &= resolve_value(s, pick, i) != NULL;
    return complete && !s->oom;
}

/* The boxes of a broadcast second operand: one row, one panel, or both. */
static struct lay *need_broadcast(struct space *s, const struct lay *out, bool one_row,
                                  bool one_panel)
{
    s->row_cuts.count = s->panel_cuts.count = s->tiles_list.count = 0;
    uint32_t nr = one_row ? 1 : out->nr, np = one_panel ? 1 : out->np;
    for (uint32_t r = 0; r <= nr; r++)
        u32_push(s, &s->row_cuts, one_row ? r : out->row_cut[r]);
    for (uint32_t p = 0; p <= np; p++)
        u32_push(s, &s->panel_cuts, one_panel ? p : out->panel_cut[p]);
    uint32_t rows = one_row ? out->nr : 1, panels = one_panel ? out->np : 1;
    for (uint32_t cell = 0; cell < nr * np; cell++)
        for (uint32_t x = 0; x < rows * panels; x++) {
            uint32_t r = cell / np + x / panels, p = cell % np + x % panels;
            for (uint32_t q = 0; q < out->reps; q++)
                u32_push(s, &s->tiles_list, out->tile[(r * out->np + p) * out->reps + q]);
        }
    return lay_intern(s, rows * panels * out->reps);
}

struct lay *need_second(struct space *s, const struct model_op *op, struct lay *out)
{
    if (op->flow->row_map.axes != 0)
        return NULL;
    switch (op->flow->broadcast) {
    case FLOW_DENSE:
        return out;
    case FLOW_ROW:
        return need_broadcast(s, out, true, false);
    case FLOW_COLUMN:
        return need_broadcast(s, out, false, true);
    case FLOW_SCALAR:
        break;
    }
    return need_broadcast(s, out, true, true);
}

/* Rows picked by a map: every block receives its own size; a source sends each cell once. */
static void traffic_add_mapped(struct space *s, const struct lay *source, const struct lay *out,
                               uint32_t words)
{
    for (uint32_t t = 0; t < s->tiles; t++) {
        for (uint32_t i = out->own_at[t]; i < out->own_at[t + 1]; i++) {
            uint32_t r = out->own[i] / out->np, p = out->own[i] % out->np;
            uint32_t rows = out->row_cut[r + 1] - out->row_cut[r];
            uint32_t panels = out->panel_cut[p + 1] - out->panel_cut[p];
            s->receive[t] += rows * panels * words;
            s->receive_runs[t] += rows * panels;
        }
        for (uint32_t i = source->own_at[t]; i < source->own_at[t + 1]; i++) {
            uint32_t r = source->own[i] / source->np, p = source->own[i] % source->np;
            uint32_t rows = source->row_cut[r + 1] - source->row_cut[r];
            uint32_t panels = source->panel_cut[p + 1] - source->panel_cut[p];
            s->send[t] += rows * panels * words;
            s->send_runs[t] += rows * panels;
        }
    }
    s->unicast = true;
    s->units += 1 + s->tiles / 256;
}

static uint32_t words_of(const struct space *s, uint32_t tensor)
{
    return s->model->flow->tensors[tensor].type == FLOW_F32 ? 16 : 8;
}

/* An exchange in `phases` parts of which every word takes part `times` times. */
static uint32_t repeat_phases(uint32_t exchange, uint32_t phases, uint32_t times)
{
    uint64_t cycles = (uint64_t)exchange * times +
                      (uint64_t)(phases - times) * (PLAN_PHASE_OVERHEAD + PLAN_PHASE_LATENCY);
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}

static struct op_cost price_gemm(struct space *s, const struct model_op *op, struct cand *cand,
                                 const struct lay *a, const struct lay *b)
{
    const struct plan_choice *c = &cand->choice;
    uint32_t gather = 0, copy, phases = c->row_passes;
    traffic_reset(s);
    if (a != NULL)
        traffic_add(s, a, cand->need_a, 8);
    if (op->b.kind != SOURCE_HOST && b != NULL && gemm_right(s, op, cand) != NULL) {
        traffic_add(s, b, cand->need_b, 8);
        gather = plan_cost_gather(cand->need_b->max_cells * 16, 2);
        phases = gemm_passes(c); /* panels are the outer loop: rows travel for each */
    }
    uint32_t exchange = traffic_cycles(s, &copy);
    if (exchange > 0 && phases > 1)
        exchange = repeat_phases(exchange, phases, phases > c->row_passes ? c->panel_passes : 1u);
    return (struct op_cost){exchange + copy + gather + cand->compute + cand->exchange,
                            exchange + cand->exchange};
}

static uint32_t elementwise_compute(const struct space *s, uint32_t index, const struct lay *out)
{
    const struct model_op *op = &s->model->ops[index];
    const struct flow_op *f = op->flow;
    const struct flow *flow = s->model->flow;
    enum flow_type in = flow->tensors[f->a].type, to = flow->tensors[f->out].type;
    uint64_t cycles, calls = out->max_blocks - 1;
    if (op->fusable)
        cycles =
            (uint64_t)out->max_blocks * plan_cost_bias_unary(s->model->ops[index + 1].flow->kind,
                                                             out->max_rows, out->max_panels);
    else if (f->kind == FLOW_ADD && f->broadcast != FLOW_DENSE)
        cycles = (uint64_t)out->max_blocks *
                 plan_cost_add(f->broadcast, to, out->max_rows, out->max_panels);
    else if (f->kind == FLOW_ADD)
        cycles = plan_cost_add(f->broadcast, to, 1, out->max_cells) +
                 calls * plan_cost_add(f->broadcast, to, 1, 1);
    else
        cycles = plan_cost_unary(f->kind, in, to, out->max_cells) +
                 calls * plan_cost_unary(f->kind, in, to, 1);
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}

static struct op_cost price_permute(struct space *s, const struct model_op *op,
                                    const struct cand *cand, const struct lay *a,
                                    const struct lay *out)
{
    traffic_reset(s);
    uint32_t words = words_of(s, op->flow->a), copy;
    for (uint32_t t = 0; t < s->tiles; t++) {
        s->receive_runs[t] = cand->cells[t];
        s->receive[t] = cand->cells[t] * words;
    }
    for (uint32_t t = 0; a != NULL && t < s->tiles; t++)
        for (uint32_t i = a->own_at[t]; i < a->own_at[t + 1]; i++) {
            uint32_t r = a->own[i] / a->np, p = a->own[i] % a->np;
            uint32_t cells =
                (a->row_cut[r + 1] - a->row_cut[r]) * (a->panel_cut[p + 1] - a->panel_cut[p]);
            s->send[t] += cells * words;
            s->send_runs[t] += cells;
        }
    s->unicast = true;
    uint32_t exchange = traffic_cycles(s, &copy);
    uint32_t gather = plan_cost_gather(out->max_cells * 16, op->out_words / 4);
    return (struct op_cost){exchange + gather, exchange};
}

static struct op_cost price_elementwise(struct space *s, uint32_t index, struct lay *a,
                                        struct lay *b, struct lay *out)
{
    const struct model_op *op = &s->model->ops[index];
    uint32_t copy;
    traffic_reset(s);
    if (op->a.kind != SOURCE_HOST && a != NULL)
        traffic_add(s, a, out, words_of(s, op->flow->a));
    if (op->b.kind > SOURCE_HOST && b != NULL) {
        struct lay *need = need_second(s, op, out);
        if (need != NULL)
            traffic_add(s, b, need, words_of(s, op->flow->b));
        else
            traffic_add_mapped(s, b, out, words_of(s, op->flow->b));
    }
    uint32_t exchange = traffic_cycles(s, &copy);
    return (struct op_cost){exchange + copy + elementwise_compute(s, index, out), exchange};
}

static bool memo_grow(struct space *s)
{
    uint32_t slots = s->memo_slots * 2;
    struct memo_entry *memo = ipu_calloc(slots, sizeof *memo);
    if (memo == NULL)
        return false;
    for (uint32_t i = 0; i < s->memo_slots; i++) {
        if (s->memo[i].key == 0)
            continue;
        uint64_t at = s->memo[i].key & (slots - 1);
        while (memo[at].key != 0)
            at = (at + 1) & (slots - 1);
        memo[at] = s->memo[i];
    }
    ipu_free(s->memo);
    s->memo = memo;
    s->memo_slots = slots;
    return true;
}

/* The slot of a key: holds the key already, or is empty. */
static struct memo_entry *memo_slot(struct space *s, uint64_t key)
{
    if (s->memo_count * 2 > s->memo_slots && !memo_grow(s)) {
        s->oom = true;
        return NULL;
    }
    uint64_t at = key & (s->memo_slots - 1);
    while (s->memo[at].key != 0 && s->memo[at].key != key)
        at = (at + 1) & (s->memo_slots - 1);
    return &s->memo[at];
}

static uint64_t memo_key(uint64_t what, const struct lay *a, const struct lay *b,
                         const struct lay *out)
{
    uint64_t key = hash64_mix(what * 0x9e3779b97f4a7c15u + 1);
    key = hash64_mix(key ^ (a ? a->id : 0));
    key = hash64_mix(key ^ ((uint64_t)(b ? b->id : 0) << 20));
    key = hash64_mix(key ^ ((uint64_t)(out ? out->id : 0) << 40));
    return key | 1;
}

struct op_cost price_op(struct space *s, uint32_t index, uint32_t pick, struct lay *a,
                        struct lay *b, struct lay *out)
{
    const struct model_op *op = &s->model->ops[index];
    bool gemm = op->flow->kind == FLOW_GEMM;
    uint64_t what = (uint64_t)op->class_index << 20 | (gemm ? pick : 0);
    struct memo_entry *entry = memo_slot(s, memo_key(what, a, b, gemm ? NULL : out));
    if (entry == NULL)
        return (struct op_cost){UINT32_MAX / 4, 0};
    if (entry->key != 0)
        return entry->cost;
    struct op_cost cost;
    if (gemm)
        cost = price_gemm(s, op, candidate_get(s, index, pick), a, b);
    else if (op->flow->kind == FLOW_PERMUTE)
        cost = price_permute(s, op, candidate_get(s, index, pick), a, out);
    else
        cost = price_elementwise(s, index, a, b, out);
    entry = memo_slot(s, memo_key(what, a, b, gemm ? NULL : out));
    if (entry == NULL)
        return cost;
    s->memo_count += entry->key == 0;
    entry->key = memo_key(what, a, b, gemm ? NULL : out);
    entry->cost = cost;
    return cost;
}

/* Bringing the initial carried values into the layout in which the loop keeps them. */
static struct op_cost price_entry(struct space *s, const struct model_op *op)
{
    struct op_cost cost = {0, 0};
    const struct flow *flow = s->model->flow;
    traffic_reset(s);
    for (unsigned c = 0; c < op->flow->carried_count; c++) {
        const struct flow_carried *carried = &op->flow->carried[c];
        struct lay *source = solution_source(s, &s->model->source[carried->initial]);
        struct lay *need = solution_source(s, &s->model->source[carried->inside]);
        if (source != NULL && need != NULL)
            traffic_add(s, source, need, flow->tensors[carried->inside].type == FLOW_F32 ? 16 : 8);
    }
    uint32_t copy;
    cost.exchange = traffic_cycles(s, &copy);
    cost.cycles = cost.exchange + copy;
    return cost;
}

struct op_cost solution_op_cost(struct space *s, const uint16_t *pick, uint32_t index)
{
    const struct model_op *op = &s->model->ops[index];
    if (op->flow->kind == FLOW_REPEAT)
        return price_entry(s, op);
    if (op->op > 0 && s->model->ops[index - 1].fusable)
        return (struct op_cost){0, 0}; /* computed by the addition before it */
    struct lay *a = solution_left(s, op, candidate_get(s, index, pick[index]));
    return price_op(s, index, pick[index], a, solution_source(s, &op->b), s->value[index]);
}

bool solution_price(struct space *s, struct solution *solution)
{
    solution->cost = (struct cost){UINT64_MAX, 0};
    if (!solution_layouts(s, solution->pick))
        return false;
    struct cost total = {0, 0};
    for (uint32_t i = 0; i < s->model->op_count; i++) {
        struct op_cost cost = solution_op_cost(s, solution->pick, i);
        total.cycles += cost.cycles * s->model->ops[i].executions;
        total.exchange += cost.exchange * s->model->ops[i].executions;
    }
    s->candidates++;
    s->units += 1 + s->model->op_count / 16;
    if (s->oom)
        return false;
    solution->cost = total;
    return true;
}
