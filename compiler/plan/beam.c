/* Beam search over the operations in execution order, and the first legal plan.
 *
 * A state has picks for the operations so far. Operands whose producer is not picked yet (carried
 * values) are free at first and charged when the producer is picked. The beam keeps, after the
 * cheapest, the best state of each family of the latest pick. `memory_price` adds cycles per KiB
 * to each candidate; the first legal plan comes from a beam of width one under rising prices, then
 * from a repair that lowers the peak pick by pick. Deterministic; fails only for lack of memory.
 */
#include "compiler/plan/search.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    BEAM_MAX_WIDTH = 64,
    UNPICKED = UINT16_MAX,
    BASELINE_UNITS = 1000000 /* some seconds: refusals must not take minutes */
};

struct state {
    uint16_t *pick;
    uint64_t cost; /* cycles and memory price */
};

struct expansion {
    uint64_t cost;
    uint64_t family;
    uint64_t result; /* parent and layouts: equal ones are interchangeable */
    uint32_t parent, pick;
};

struct beam {
    struct space *space;
    unsigned width;
    uint32_t memory_price;
    uint32_t reach; /* candidates looked at, best proxies first */
    struct budget *budget;
    struct state states[BEAM_MAX_WIDTH], next[BEAM_MAX_WIDTH];
    unsigned count;
    struct expansion *expansions;
    uint32_t expansion_count, expansion_capacity;
};

static int compare_expansions(const void *x, const void *y)
{
    const struct expansion *a = x, *b = y;
    if (a->cost != b->cost)
        return a->cost < b->cost ? -1 : 1;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return a->pick < b->pick ? -1 : a->pick > b->pick;
}

/* Layout of the result of `index` under candidate `cand`; NULL when it rests on an unpicked one. */
static struct lay *result_layout(struct space *s, uint32_t index, const struct cand *cand)
{
    const struct model_op *op = &s->model->ops[index];
    if (op->op > 0 && s->model->ops[index - 1].fusable)
        return s->value[index - 1];
    if (cand->choice.kind != CHOICE_FOLLOW_A && cand->choice.kind != CHOICE_FOLLOW_B)
        return cand->out;
    const struct model_source *from = cand->choice.kind == CHOICE_FOLLOW_A ? &op->a : &op->b;
    if (from->kind == SOURCE_OP)
        return from->index == index ? lay_balanced(s, op->flow->out) : s->value[from->index];
    return lay_balanced(s, op->flow->out);
}

/* What earlier operations pay once `index` (a carried value's producer) has its layout. */
static uint64_t closing_cost(struct space *s, const uint16_t *pick, uint32_t index, struct lay *out)
{
    uint64_t cost = 0;
    for (uint32_t j = 0; j < s->model->op_count; j++) {
        const struct model_op *op = &s->model->ops[j];
        bool a = op->a.kind == SOURCE_OP && op->a.index == index;
        bool b = op->b.kind == SOURCE_OP && op->b.index == index;
        if (j == index || op->flow->kind == FLOW_REPEAT || pick[j] == UNPICKED || !(a || b) ||
            op->position > s->model->ops[index].position || s->value[j] == NULL)
            continue;
        struct lay *la = solution_left(s, op, candidate_get(s, j, pick[j]));
        struct lay *lb = solution_source(s, &op->b);
        struct op_cost with = price_op(s, j, pick[j], a ? out : la, b ? out : lb, s->value[j]);
        struct op_cost without = price_op(s, j, pick[j], a ? NULL : la, b ? NULL : lb, s->value[j]);
        cost += (uint64_t)(with.cycles - without.cycles) * op->executions;
    }
    return cost;
}

static uint64_t pick_family(const struct cand *cand)
{
    const struct plan_choice *c = &cand->choice;
    unsigned gm = 0, gk = 0;
    for (unsigned n = c->gm; n > 1; n >>= 1)
        gm++;
    for (unsigned n = c->gk; n > 1; n >>= 1)
        gk++;
    return (uint64_t)c->kind | gm << 8 | gk << 16 | (unsigned)(c->replicate ? 2 : c->sr > 1) << 24;
}

static bool expansion_push(struct beam *beam, struct expansion e)
{
    if (beam->expansion_count == beam->expansion_capacity) {
        uint32_t capacity = beam->expansion_capacity ? 2 * beam->expansion_capacity : 1024;
        struct expansion *list = ipu_realloc(beam->expansions, sizeof *list * capacity);
        if (list == NULL) {
            beam->space->oom = true;
            return false;
        }
        beam->expansions = list;
        beam->expansion_capacity = capacity;
    }
    beam->expansions[beam->expansion_count++] = e;
    return true;
}

static void expand_one(struct beam *beam, uint32_t parent, uint32_t index, uint32_t pick)
{
    struct space *s = beam->space;
    const struct model_op *op = &s->model->ops[index];
    struct cand *cand = candidate_get(s, index, pick);
    if (cand == NULL || cand->bad)
        return;
    struct lay *out = result_layout(s, index, cand);
    if (out == NULL)
        return;
    const struct state *state = &beam->states[parent];
    struct lay *a = solution_left(s, op, cand), *b = solution_source(s, &op->b);
    uint64_t cost = state->cost;
    if (op->op == 0 || !s->model->ops[index - 1].fusable)
        cost += price_op(s, index, pick, a, b, out).cycles * op->executions;
    cost += closing_cost(s, state->pick, index, out);
    uint64_t bytes = candidate_bytes(s, index, pick);
    if (beam->memory_price > 0)
        cost += bytes / 1024 * beam->memory_price;
    if (bytes > s->limit)
        cost += UINT64_MAX / 1024 + bytes; /* only if nothing else exists */
    bool open = op->a.kind == SOURCE_OP && a == NULL;
    uint64_t result = hash64_mix((uint64_t)parent << 32 | out->id);
    if (open && cand->need_a != NULL)
        result = hash64_mix(result ^ cand->need_a->id);
    expansion_push(beam, (struct expansion){cost, pick_family(cand), result, parent, pick});
}

static void expand(struct beam *beam, uint32_t index)
{
    struct space *s = beam->space;
    const struct model_op *op = &s->model->ops[index];
    beam->expansion_count = 0;
    for (unsigned p = 0; p < beam->count; p++) {
        if (beam->budget != NULL && budget_over(s, beam->budget))
            break;
        solution_layouts(s, beam->states[p].pick);
        uint32_t count = s->classes[op->class_index].count;
        count = count < beam->reach ? count : beam->reach;
        for (uint32_t c = 0; c < count && !s->oom; c++)
            expand_one(beam, p, index, c);
    }
    if (beam->expansion_count > 1)
        qsort(beam->expansions, beam->expansion_count, sizeof *beam->expansions,
              compare_expansions);
}

/* Whether one already taken makes this expansion superfluous. */
static bool covered(const struct beam *beam, const uint32_t *taken, unsigned count,
                    const struct expansion *e, bool by_family)
{
    for (unsigned i = 0; i < count; i++) {
        const struct expansion *other = &beam->expansions[taken[i]];
        if (other->result == e->result || (by_family && other->family == e->family))
            return true;
    }
    return false;
}

static unsigned select_states(const struct beam *beam, uint32_t *taken)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < beam->expansion_count && count < (beam->width + 1) / 2; i++)
        if (!covered(beam, taken, count, &beam->expansions[i], false))
            taken[count++] = i;
    for (uint32_t i = 0; i < beam->expansion_count && count < beam->width; i++)
        if (!covered(beam, taken, count, &beam->expansions[i], true))
            taken[count++] = i;
    for (uint32_t i = 0; i < beam->expansion_count && count < beam->width; i++)
        if (!covered(beam, taken, count, &beam->expansions[i], false))
            taken[count++] = i;
    return count;
}

static bool advance(struct beam *beam, uint32_t index)
{
    uint32_t taken[BEAM_MAX_WIDTH];
    struct space *s = beam->space;
    expand(beam, index);
    unsigned count = select_states(beam, taken);
    for (unsigned i = 0; i < count; i++) {
        assert(beam->expansions != NULL); /* what is taken was there */
        const struct expansion *e = &beam->expansions[taken[i]];
        memcpy(beam->next[i].pick, beam->states[e->parent].pick,
               sizeof(uint16_t) * s->model->op_count);
        beam->next[i].pick[index] = (uint16_t)e->pick;
        beam->next[i].cost = e->cost;
    }
    for (unsigned i = 0; i < count; i++) {
        struct state swap = beam->states[i];
        beam->states[i] = beam->next[i];
        beam->next[i] = swap;
    }
    beam->count = count;
    return count > 0 && !s->oom;
}

static bool beam_open(struct beam *beam, struct space *space)
{
    for (unsigned i = 0; i < beam->width; i++) {
        beam->states[i].pick = ARENA_ARRAY(space->arena, uint16_t, space->model->op_count + 1);
        beam->next[i].pick = ARENA_ARRAY(space->arena, uint16_t, space->model->op_count + 1);
        if (beam->states[i].pick == NULL || beam->next[i].pick == NULL) {
            space->oom = true;
            return false;
        }
    }
    for (uint32_t i = 0; i < space->model->op_count; i++)
        beam->states[0].pick[i] = space->model->ops[i].flow->kind == FLOW_REPEAT ? 0 : UNPICKED;
    beam->count = 1;
    return true;
}

static bool beam_walk(struct beam *beam)
{
    const struct model *m = beam->space->model;
    for (uint32_t n = 0; n < m->op_count; n++) {
        if (m->ops[m->order[n]].flow->kind == FLOW_REPEAT)
            continue;
        if (!advance(beam, m->order[n]))
            return false;
        if (beam->budget != NULL && budget_over(beam->space, beam->budget))
            return false;
    }
    return true;
}

bool beam_run(struct space *space, unsigned width, uint32_t reach, uint32_t memory_price,
              struct budget *budget, struct pool *pool)
{
    struct beam *beam = ipu_calloc(1, sizeof *beam);
    if (beam == NULL) {
        space->oom = true;
        return false;
    }
    beam->space = space;
    beam->width = width < BEAM_MAX_WIDTH ? width : BEAM_MAX_WIDTH;
    beam->memory_price = memory_price;
    beam->reach = reach;
    beam->budget = budget;
    bool found = false;
    if (beam_open(beam, space) && beam_walk(beam)) {
        for (unsigned i = 0; i < beam->count; i++) {
            struct solution solution = {beam->states[i].pick, {0, 0}};
            struct memory_use use;
            if (!solution_price(space, &solution) || !solution_memory(space, solution.pick, &use) ||
                !memory_fits(space, &use))
                continue;
            pool_offer(pool, space, &solution);
            found = true;
        }
    }
    ipu_free(beam->expansions);
    ipu_free(beam);
    return found;
}

/* The single change of one pick that lowers the excess most; false when none does. */
static bool repair_step(struct space *s, struct solution *best, struct memory_use *use)
{
    uint64_t least = memory_excess(s, use);
    uint32_t best_op = UINT32_MAX, best_pick = 0;
    for (uint32_t i = 0; i < s->model->op_count && !s->oom; i++) {
        if (s->model->ops[i].flow->kind == FLOW_REPEAT)
            continue;
        uint16_t kept = best->pick[i];
        uint32_t count = s->classes[s->model->ops[i].class_index].ranked;
        for (uint32_t c = 0; c < count; c++) {
            struct memory_use trial;
            best->pick[i] = (uint16_t)c;
            if (c == kept || !solution_memory(s, best->pick, &trial) ||
                memory_excess(s, &trial) >= least)
                continue;
            least = memory_excess(s, &trial);
            best_op = i;
            best_pick = c;
        }
        best->pick[i] = kept;
    }
    if (best_op == UINT32_MAX)
        return false;
    best->pick[best_op] = (uint16_t)best_pick;
    return solution_memory(s, best->pick, use);
}

/* The plan with the least memory that a beam of width one finds, repaired while that helps. */
static bool lean_run(struct space *s, uint64_t limit, struct solution *best, struct memory_use *use)
{
    struct beam *beam = ipu_calloc(1, sizeof *beam);
    if (beam == NULL) {
        s->oom = true;
        return false;
    }
    beam->space = s;
    beam->width = 1;
    beam->memory_price = 1 << 20;
    beam->reach = UINT32_MAX;
    bool walked = beam_open(beam, s) && beam_walk(beam);
    if (walked)
        memcpy(best->pick, beam->states[0].pick, sizeof(uint16_t) * s->model->op_count);
    ipu_free(beam->expansions);
    ipu_free(beam);
    if (!walked || !solution_memory(s, best->pick, use))
        return false;
    unsigned steps = 2 * s->model->op_count + 4;
    while (!memory_fits(s, use) && steps-- > 0 && s->units < limit && repair_step(s, best, use))
        continue;
    return memory_fits(s, use) && solution_price(s, best);
}

bool baseline_run(struct space *space, struct solution *best, struct memory_use *use)
{
    static const struct {
        uint32_t reach, memory_price;
    } tries[] = {{48, 8},         {48, 100},        {UINT32_MAX, 0},
                 {UINT32_MAX, 4}, {UINT32_MAX, 64}, {UINT32_MAX, 1024}};
    struct pool pool;
    struct budget budget = {.units = space->units + BASELINE_UNITS, .deadline_ns = UINT64_MAX};
    if (!pool_open(&pool, space, 1))
        return false;
    for (unsigned i = 0; i < sizeof tries / sizeof *tries && !space->oom; i++)
        if (beam_run(space, 1, tries[i].reach, tries[i].memory_price, &budget, &pool)) {
            solution_copy(space, best, &pool.list[0]);
            return solution_memory(space, best->pick, use);
        }
    return !space->oom && lean_run(space, budget.units, best, use);
}
