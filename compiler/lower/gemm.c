/* GEMM: operand boxes, kernel calls, and the gathering of computed weights.
 *
 * A job computes one block over a range of inner panels, in chunks of at most `chunk` panels. With
 * one part and one chunk it writes the result's home; otherwise partials that lower_reduce() sums.
 * Jobs whose row counts differ by one share a kernel. Computed weights are fetched in panel order
 * and gathered into coefficient order, several inner panels a call.
 *
 * With several passes the jobs are cut into parts that run one after the other, each as a product
 * of its own into its part of the result. Rows are the outer loop, so that an operand is fetched
 * once for all panels; with computed weights panels are, so that weights are gathered once.
 */
#include "compiler/lower/internal.h"

#include <stdlib.h>
#include <string.h>

enum { GATHER_PANELS = 4, COEFFICIENT_BYTES = 512, FORM_WEIGHTS = 16 };

struct gemm {
    struct lower *l;
    const struct flow_op *op;
    const struct plan_op *plan; /* of the present pass: its jobs are parts of the operation's */
    uint32_t depth;             /* inner elements of one batch */
    uint32_t passes;
    bool final;                  /* jobs write the result itself */
    bool gathered;               /* computed weights are those of the pass before */
    uint32_t *whole;             /* by job of the pass: the operation's job */
    struct program_ref *gathers; /* by job of the operation: its computed weights */
};

struct job_operands {
    struct operand x, raw, out; /* raw: computed weights in panel order */
    struct program_ref w;
    uint32_t raw_rows;
};

/* --- weights -------------------------------------------------------------------------------- */

static struct box weight_box(const struct gemm *g, const struct plan_gemm_job *job)
{
    uint32_t from = job->inner * 16, left = g->depth - from, rows = job->inners * 16;
    return (struct box){job->batch * g->depth + from, rows < left ? rows : left, job->panel,
                        job->panels};
}

static bool host_weights(struct gemm *g, const struct plan_gemm_job *job, struct program_ref *w)
{
    struct lower *l = g->l;
    const struct flow_tensor *t = &l->flow->tensors[g->op->b];
    struct box box = weight_box(g, job);
    const struct box_key key = {g->op->b, job->tile, FORM_WEIGHTS, box, g->plan->chunk};
    struct box_entry *e = map_find(&l->uploaded, &key);
    if (e != NULL) {
        *w = e->operand.ref;
        return true;
    }
    uint32_t members = t->source == FLOW_SEQUENCE ? t->member_count : 1;
    w->buffer =
        buffer_new(l, job->tile, (uint64_t)job->inners * job->panels * COEFFICIENT_BYTES, members);
    w->offset = 0;
    const struct program_upload u = {.form = PROGRAM_WEIGHTS,
                                     .to = *w,
                                     .row = box.row,
                                     .rows = box.rows,
                                     .panel = box.panel,
                                     .panels = box.panels,
                                     .chunk = g->plan->chunk};
    if (l->code != 0 || !upload_new(l, g->op->b, &u))
        return false;
    e = map_add(l, &l->uploaded, &key);
    if (e == NULL)
        return false;
    e->operand.ref = *w;
    return true;
}

/* Brings computed weights to the tile in panel order, rows padded to whole inner panels. */
static bool raw_weights(struct gemm *g, const struct plan_gemm_job *job, struct job_operands *o)
{
    struct lower *l = g->l;
    struct box box = weight_box(g, job);
    struct program_ref *w = &g->gathers[g->whole[job - g->plan->jobs]];
    o->raw_rows = box.rows;
    if (!g->gathered)
        *w = (struct program_ref){
            buffer_new(l, job->tile, (uint64_t)job->inners * job->panels * COEFFICIENT_BYTES, 1),
            0};
    o->w = *w;
    if (l->code != 0 || g->gathered)
        return l->code == 0;
    const struct home_block *b = home_local(&l->homes[g->op->b], job->tile, &box);
    if (b != NULL && box.rows % 16 == 0) {
        o->raw = (struct operand){home_ref(b, &box, FLOW_F16), b->stride};
        return true;
    }
    o->raw.stride = job->inners * 16 * 32;
    o->raw.ref =
        (struct program_ref){buffer_new(l, job->tile, (uint64_t)o->raw.stride * job->panels, 1), 0};
    return l->code == 0 && fetch_need(l, g->op->b, &box, job->tile, o->raw.ref, o->raw.stride);
}

/* The table for GATHER_PANELS inner panels; fewer use its front. */
static bool weight_table(struct lower *l, uint32_t *index)
{
    if (l->weight_table == 0) {
        struct program_table *t = vec_push(l, &l->tables, sizeof *t);
        if (t == NULL)
            return false;
        t->count = GATHER_PANELS * 256;
        t->entries = ARENA_ARRAY(l->arena, uint16_t, t->count);
        if (t->entries == NULL)
            return lower_oom(l);
        for (unsigned k = 0; k < GATHER_PANELS * 16; k++)
            for (unsigned n = 0; n < 16; n++)
                t->entries[k / 16 * 256 + kernel_weight_slot(k % 16, n)] = (uint16_t)(k * 16 + n);
        l->weight_table = l->tables.count;
    }
    *index = l->weight_table - 1;
    return true;
}

static bool clear_padding(struct gemm *g, uint32_t step, const struct plan_gemm_job *job,
                          const struct job_operands *o)
{
    uint32_t rows = job->inners * 16 - o->raw_rows;
    for (uint32_t n = 0; rows > 0 && n < job->panels; n++) {
        struct program_call *call = call_plain(g->l, step, job->tile, KERNEL_FILL);
        if (call == NULL)
            return false;
        call_buffer(g->l, step, call, 0, ref_add(o->raw.ref, n * o->raw.stride + o->raw_rows * 32));
        call_number(call, 1, rows * 32);
        call_number(call, 2, 0);
    }
    return true;
}

static bool gather_panels(struct gemm *g, uint32_t step, unsigned tile, struct program_ref from,
                          struct program_ref to, uint32_t panels)
{
    uint32_t table = 0;
    if (!weight_table(g->l, &table))
        return false;
    for (uint32_t k = 0; k < panels; k += GATHER_PANELS) {
        uint32_t n = panels - k < GATHER_PANELS ? panels - k : GATHER_PANELS;
        struct program_call *call = call_plain(g->l, step, tile, KERNEL_GATHER16);
        if (call == NULL)
            return false;
        call->args[0] = (struct program_arg){PROGRAM_TABLE, table, 0};
        call_buffer(g->l, step, call, 1, ref_add(from, k * COEFFICIENT_BYTES));
        call_buffer(g->l, step, call, 2, ref_add(to, k * COEFFICIENT_BYTES));
        call_number(call, 3, n * 256);
    }
    return true;
}

static bool gather_weights(struct gemm *g, uint32_t step, const struct plan_gemm_job *job,
                           const struct job_operands *o)
{
    if (!clear_padding(g, step, job, o))
        return false;
    uint32_t at = 0;
    for (uint32_t c = 0; c < job->inners; c += g->plan->chunk) {
        uint32_t n = job->inners - c < g->plan->chunk ? job->inners - c : g->plan->chunk;
        for (uint32_t p = 0; p < job->panels; p++) {
            struct program_ref from = ref_add(o->raw.ref, p * o->raw.stride + c * 512);
            if (!gather_panels(g, step, job->tile, from, ref_add(o->w, at), n))
                return false;
            at += n * COEFFICIENT_BYTES;
        }
    }
    return true;
}

/* --- operands of a job ---------------------------------------------------------------------- */

static bool job_prepare(struct gemm *g, const struct plan_gemm_job *job, struct job_operands *o)
{
    struct lower *l = g->l;
    const struct box x = {job->row, job->rows, job->inner, job->inners};
    bool staged = g->plan->staged.count > 0;
    if (staged ? !operand_staged(l, g->op->a, &x, job->tile, &o->x)
               : !operand_box(l, g->op->a, &x, job->tile, false, &o->x))
        return false;
    bool good = is_host(l, g->op->b) ? host_weights(g, job, &o->w) : raw_weights(g, job, o);
    return good;
}

static bool final_output(struct gemm *g, const struct plan_gemm_job *job, struct job_operands *o)
{
    const struct home *home = &g->l->homes[g->op->out];
    const struct box box = {job->row, job->rows, job->panel, job->panels};
    const struct home_block *b = home_local(home, job->tile, &box);
    if (b == NULL)
        return lower_fail(g->l, IPU_ERR_INTERNAL, "tile %u computes a block it does not own",
                          job->tile);
    o->out = (struct operand){home_ref(b, &box, FLOW_F16), b->stride};
    return true;
}

/* --- kernels -------------------------------------------------------------------------------- */

/* Row counts that occur, ascending, without repetition. */
static uint32_t row_counts(const struct plan_op *plan, uint32_t *counts, uint32_t limit)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->job_count; i++) {
        uint32_t at = 0, rows = plan->jobs[i].rows;
        while (at < n && counts[at] < rows)
            at++;
        if ((at < n && counts[at] == rows) || n == limit)
            continue;
        memmove(counts + at + 1, counts + at, (n - at) * sizeof *counts);
        counts[at] = rows;
        n++;
    }
    return n;
}

struct row_pairs {
    uint32_t count, counts[64];
};

/* The kernel's two row counts for a job: neighbours that differ by one are paired upwards. */
static void row_pair(const struct row_pairs *pairs, uint32_t rows, uint32_t pair[2])
{
    for (uint32_t i = 0; i < pairs->count; i++) {
        bool paired = i + 1 < pairs->count && pairs->counts[i + 1] == pairs->counts[i] + 1;
        pair[0] = pairs->counts[i];
        pair[1] = paired ? pairs->counts[i + 1] : pairs->counts[i];
        if (rows == pair[0] || rows == pair[1])
            return;
        i += paired;
    }
    pair[0] = pair[1] = rows;
}

static bool emit_job(struct gemm *g, uint32_t step, const struct plan_gemm_job *job,
                     const struct job_operands *o, const struct row_pairs *pairs)
{
    uint32_t chunk = g->plan->chunk, weights = 0, pair[2];
    row_pair(pairs, job->rows, pair);
    for (uint32_t c = 0; c < job->inners; c += chunk) {
        uint32_t n = job->inners - c < chunk ? job->inners - c : chunk;
        struct kernel_spec spec;
        memset(&spec, 0, sizeof spec);
        spec.family = KERNEL_GEMM_F16;
        const uint32_t weights_kind = (o->x.stride > KERNEL_GEMM_NEAR_STRIDE ? 2u : 0u) |
                                      (g->plan->weights_anywhere ? 0u : 1u);
        const uint32_t params[] = {weights_kind, n * 16, job->panels * 16, pair[0], pair[1]};
        memcpy(spec.params, params, sizeof params);
        struct program_call *call = call_new(g->l, step, job->tile, &spec);
        if (call == NULL)
            return false;
        call_buffer(g->l, step, call, 0, ref_add(o->x.ref, c * o->x.stride));
        call_buffer(g->l, step, call, 1, ref_add(o->w, weights));
        call_buffer(g->l, step, call, 2,
                    ref_add(o->out.ref, c / chunk * job->panels * job->rows * 32));
        call_number(call, 3, job->rows);
        call_number(call, 4, o->x.stride);
        call_number(call, 5, o->out.stride);
        weights += n * job->panels * COEFFICIENT_BYTES;
    }
    return true;
}

static bool gemm_check(struct gemm *g)
{
    struct lower *l = g->l;
    const struct flow_tensor *t = l->flow->tensors;
    if (t[g->op->a].type != FLOW_F16 || t[g->op->b].type != FLOW_F16 ||
        t[g->op->out].type != FLOW_F16)
        return lower_fail(l, IPU_ERR_UNSUPPORTED, "matrix products are computed in f16 only");
    if (g->plan->chunk == 0 || g->plan->job_count == 0)
        return lower_fail(l, IPU_ERR_INTERNAL, "the plan of a product has no jobs");
    return true;
}

static bool gemm_jobs(struct gemm *g, struct job_operands *o, uint32_t *step)
{
    struct lower *l = g->l;
    const struct plan_gemm_job *jobs = g->plan->jobs;
    struct row_pairs pairs;
    pairs.count = row_counts(g->plan, pairs.counts, 64);
    for (uint32_t i = 0; i < g->plan->job_count; i++)
        if (!job_prepare(g, &jobs[i], &o[i]))
            return false;
    /* Fetched early, the operands of a later pass would live beside those of the first. */
    if (!fetch_flush(l, g->passes == 1) || !compute_open(l, step))
        return false;
    for (uint32_t i = 0; i < g->plan->job_count; i++) {
        if (!is_host(l, g->op->b) && !g->gathered && !gather_weights(g, *step, &jobs[i], &o[i]))
            return false;
        if (g->final && !final_output(g, &jobs[i], &o[i]))
            return false;
        if (!emit_job(g, *step, &jobs[i], &o[i], &pairs))
            return false;
    }
    return true;
}

/* Partials first, then their sum. */
static bool split_gemm(struct gemm *g, const struct home *home, struct job_operands *o)
{
    struct lower *l = g->l;
    uint32_t step;
    struct operand *outs = ARENA_ARRAY(l->arena, struct operand, g->plan->job_count);
    if (outs == NULL)
        return lower_oom(l);
    struct reduce *reduce = reduce_plan(l, g->op, g->plan, home, outs);
    if (reduce == NULL)
        return false;
    for (uint32_t i = 0; i < g->plan->job_count; i++)
        o[i].out = outs[i];
    return gemm_jobs(g, o, &step) && reduce_emit(reduce, step);
}

/* --- passes --------------------------------------------------------------------------------- */

struct pass {
    uint32_t row, rows, panel, panels; /* number and count of the pass along each axis */
};

/* The part of a job that belongs to a pass; false when there is none. */
static bool job_part(const struct plan_gemm_job *job, const struct pass *p,
                     struct plan_gemm_job *part)
{
    *part = *job;
    part->row += plan_pass_cut(job->rows, p->rows, p->row);
    part->rows = job->row + plan_pass_cut(job->rows, p->rows, p->row + 1) - part->row;
    part->panel += plan_pass_cut(job->panels, p->panels, p->panel);
    part->panels = job->panel + plan_pass_cut(job->panels, p->panels, p->panel + 1) - part->panel;
    return part->rows > 0 && part->panels > 0;
}

static bool pass_jobs(struct gemm *g, const struct plan_op *plan, const struct pass *p)
{
    struct plan_op *out = ARENA_NEW(g->l->arena, struct plan_op);
    if (out == NULL)
        return lower_oom(g->l);
    *out = *plan;
    out->job_count = 0;
    out->jobs = ARENA_ARRAY(g->l->arena, struct plan_gemm_job, plan->job_count);
    g->whole = ARENA_ARRAY(g->l->arena, uint32_t, plan->job_count);
    if (out->jobs == NULL || g->whole == NULL)
        return lower_oom(g->l);
    for (uint32_t i = 0; i < plan->job_count; i++)
        if (job_part(&plan->jobs[i], p, &out->jobs[out->job_count]))
            g->whole[out->job_count++] = i;
    g->plan = out;
    return true;
}

/* The part of the result's home that the jobs of a pass write: blocks cut along the jobs of the
 * first inner range, of which each cell has one. */
static bool pass_home(struct gemm *g, struct home *out)
{
    struct lower *l = g->l;
    const struct home *home = &l->homes[g->op->out];
    struct vec blocks = {0};
    if (g->passes == 1) {
        *out = *home;
        return true;
    }
    for (uint32_t i = 0; i < home->count; i++)
        for (uint32_t j = 0; j < g->plan->job_count; j++) {
            const struct plan_gemm_job *job = &g->plan->jobs[j];
            const struct box box = {job->row, job->rows, job->panel, job->panels};
            struct box common;
            if (job->inner != 0 || !box_common(&home->blocks[i].box, &box, &common))
                continue;
            struct home_block *b = vec_push(l, &blocks, sizeof *b);
            if (b == NULL)
                return false;
            *b = home->blocks[i];
            b->box = common;
            b->ref = home_ref(&home->blocks[i], &common, FLOW_F16);
        }
    *out = (struct home){.type = home->type, .blocks = blocks.items, .count = blocks.count};
    return home_index(l, out);
}

/* The next pass over rows fetches anew what other panels will want again. */
static void forget_operands(struct gemm *g)
{
    for (uint32_t i = 0; i < g->plan->job_count; i++) {
        const struct plan_gemm_job *job = &g->plan->jobs[i];
        const struct box x = {job->row, job->rows, job->inner, job->inners};
        operand_forget(g->l, g->op->a, &x, job->tile);
    }
}

static bool gemm_pass(struct gemm *g, const struct plan_op *plan, const struct pass *p)
{
    struct lower *l = g->l;
    struct home home;
    uint32_t step;
    if (!pass_jobs(g, plan, p))
        return false;
    if (g->plan->job_count == 0)
        return true;
    struct job_operands *o = ARENA_ARRAY(l->arena, struct job_operands, g->plan->job_count);
    if (o == NULL)
        return lower_oom(l);
    if (!g->final)
        return pass_home(g, &home) && split_gemm(g, &home, o);
    if (!gemm_jobs(g, o, &step))
        return false;
    l->homes[g->op->out].ready = step;
    return true;
}

static bool gemm_passes(struct gemm *g, const struct plan_op *plan)
{
    bool computed = !is_host(g->l, g->op->b);
    struct pass p = {.rows = plan->row_passes, .panels = plan->panel_passes};
    p.rows += p.rows == 0;
    p.panels += p.panels == 0;
    g->passes = p.rows * p.panels;
    for (uint32_t n = 0; n < g->passes; n++) {
        p.row = computed ? n % p.rows : n / p.panels;
        p.panel = computed ? n / p.rows : n % p.panels;
        g->gathered = computed && p.row > 0;
        if (!gemm_pass(g, plan, &p))
            return false;
        if (computed && p.rows > 1 && p.panels > 1)
            forget_operands(g);
    }
    return true;
}

bool lower_gemm(struct lower *l, const struct flow_op *op, const struct plan_op *plan)
{
    struct gemm g = {.l = l, .op = op, .plan = plan};
    if (!gemm_check(&g))
        return false;
    g.depth = (uint32_t)l->flow->tensors[op->a].columns;
    g.final = plan->inner_parts == 1;
    for (uint32_t i = 0; i < plan->job_count; i++)
        g.final &= plan->jobs[i].inners <= plan->chunk;
    g.gathers = ARENA_ARRAY(l->arena, struct program_ref, plan->job_count);
    if (g.gathers == NULL)
        return lower_oom(l);
    if (plan->staged.count > 0 && !staged_home(l, op->a, &plan->staged))
        return false;
    /* Sums that come in passes are written while later ones still read the operand. */
    bool late = !g.final && plan->row_passes <= 1 && plan->panel_passes <= 1;
    return result_home(l, op->out, &plan->out, late ? RESULT_LATE : 0) && gemm_passes(&g, plan);
}
