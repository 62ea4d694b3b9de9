/* Partial sums of a product: where they lie, how they travel, who adds them.
 *
 * A slot is one partial of every cell: an inner range of the jobs. The owner of a block gathers its
 * cells of all slots at a constant distance and adds them in one call, in f32. What the owner has
 * computed itself stays where its product wrote it: in the middle of the slots when the block is
 * the whole job, in front of them when it is a contiguous part of a job and the gaps are small;
 * otherwise it is copied. Blocks with replicas always add in slot order, so that the replicas are
 * equal bit by bit.
 */
#include "compiler/lower/internal.h"

#include <stdlib.h>
#include <string.h>

enum { GAP_ALLOWANCE = 8192 };

struct slot {
    uint32_t inner, chunk; /* first inner panel of the job; number of the chunk */
};

struct reduce_block {
    struct program_ref in;
    uint32_t stride;
    uint32_t own, own_count; /* slots that lie in place already */
    bool own_leads;          /* they come first */
};

struct reduce {
    struct lower *l;
    const struct flow_op *op;
    const struct plan_op *plan;
    const struct home *home;
    uint32_t slot_count;
    struct slot *slots;
    uint32_t *job_slot; /* by job: its first slot */
    struct operand *outs;
    uint32_t *first_job; /* by tile */
    struct reduce_block *blocks;
};

static uint32_t chunks_of(const struct reduce *r, const struct plan_gemm_job *job)
{
    return (job->inners + r->plan->chunk - 1) / r->plan->chunk;
}

static uint32_t job_bytes(const struct plan_gemm_job *job)
{
    return job->rows * job->panels * 32;
}

/* --- slots ---------------------------------------------------------------------------------- */

static int compare_slots(const void *x, const void *y)
{
    const struct slot *a = x, *b = y;
    if (a->inner != b->inner)
        return a->inner < b->inner ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static uint32_t slot_find(const struct reduce *r, uint32_t inner)
{
    uint32_t lo = 0, hi = r->slot_count;
    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        if (r->slots[mid].inner < inner || (r->slots[mid].inner == inner && !r->slots[mid].chunk))
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static bool list_slots(struct reduce *r)
{
    const struct plan_op *plan = r->plan;
    uint32_t total = 0, n = 0;
    for (uint32_t i = 0; i < plan->job_count; i++)
        total += chunks_of(r, &plan->jobs[i]);
    r->slots = ARENA_ARRAY(r->l->arena, struct slot, total);
    r->job_slot = ARENA_ARRAY(r->l->arena, uint32_t, plan->job_count);
    if (r->slots == NULL || r->job_slot == NULL)
        return lower_oom(r->l);
    for (uint32_t i = 0; i < plan->job_count; i++)
        for (uint32_t c = 0; c < chunks_of(r, &plan->jobs[i]); c++)
            r->slots[n++] = (struct slot){plan->jobs[i].inner, c};
    qsort(r->slots, n, sizeof *r->slots, compare_slots);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || compare_slots(&r->slots[i], &r->slots[i - 1]) != 0)
            r->slots[r->slot_count++] = r->slots[i];
    if (r->slot_count > LOWER_MAX_SLOTS)
        return lower_fail(r->l, IPU_ERR_LIMIT, "%u partial sums of a cell, at most %d",
                          r->slot_count, LOWER_MAX_SLOTS);
    for (uint32_t i = 0; i < plan->job_count; i++)
        r->job_slot[i] = slot_find(r, plan->jobs[i].inner);
    return true;
}

/* --- where partials lie --------------------------------------------------------------------- */

static struct box job_box(const struct plan_gemm_job *job)
{
    return (struct box){job->row, job->rows, job->panel, job->panels};
}

static bool has_replicas(const struct home *home, const struct box *box)
{
    uint32_t lo = 0, hi = home->group_count; /* groups are sorted by (row, panel, rows, panels) */
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        const struct box *g = &home->groups[mid].box;
        if (box_equal(g, box))
            return home->groups[mid].count > 1;
        bool before = g->row != box->row       ? g->row < box->row
                      : g->panel != box->panel ? g->panel < box->panel
                      : g->rows != box->rows   ? g->rows < box->rows
                                               : g->panels < box->panels;
        if (before)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

/* The own job becomes part of the slots of block b. */
static bool join_whole(struct reduce *r, struct reduce_block *b, uint32_t j)
{
    const struct plan_gemm_job *job = &r->plan->jobs[j];
    uint32_t bytes = job_bytes(job);
    b->own = r->job_slot[j];
    b->own_count = chunks_of(r, job);
    b->stride = bytes;
    b->in =
        (struct program_ref){buffer_new(r->l, job->tile, (uint64_t)bytes * r->slot_count, 1), 0};
    r->outs[j] = (struct operand){ref_add(b->in, b->own * bytes), job->rows * 32};
    return r->l->code == 0;
}

static bool join_front(struct reduce *r, struct reduce_block *b, const struct box *box, uint32_t j)
{
    const struct plan_gemm_job *job = &r->plan->jobs[j];
    uint32_t bytes = cells_of(box) * 32, whole = job_bytes(job);
    uint32_t offset = (box->panel - job->panel) * job->rows * 32 + (box->row - job->row) * 32;
    uint32_t own = chunks_of(r, job), others = r->slot_count - own;
    uint32_t stride = own > 1 ? whole : whole - offset > bytes ? whole - offset : bytes;
    if ((uint64_t)stride * others > 2ull * bytes * others + GAP_ALLOWANCE)
        return false;
    uint64_t size = offset + (uint64_t)stride * r->slot_count;
    if (size < (uint64_t)whole * own)
        size = (uint64_t)whole * own;
    uint32_t buffer = buffer_new(r->l, job->tile, size, 1);
    b->own = r->job_slot[j];
    b->own_count = own;
    b->own_leads = true;
    b->stride = stride;
    b->in = (struct program_ref){buffer, offset};
    r->outs[j] = (struct operand){{buffer, 0}, job->rows * 32};
    return true;
}

static bool place_block(struct reduce *r, uint32_t index, bool *taken)
{
    const struct home_block *h = &r->home->blocks[index];
    struct reduce_block *b = &r->blocks[index];
    for (uint32_t j = r->first_job[h->tile]; j < r->first_job[h->tile + 1]; j++) {
        const struct box box = job_box(&r->plan->jobs[j]);
        if (taken[j] || !box_inside(&h->box, &box))
            continue;
        if (box_equal(&h->box, &box)) {
            taken[j] = true;
            return join_whole(r, b, j);
        }
        bool contiguous = h->box.rows == box.rows || h->box.panels == 1;
        if (!contiguous || has_replicas(r->home, &h->box) || !join_front(r, b, &h->box, j))
            continue;
        taken[j] = true;
        return r->l->code == 0;
    }
    b->stride = cells_of(&h->box) * 32;
    b->in =
        (struct program_ref){buffer_new(r->l, h->tile, (uint64_t)b->stride * r->slot_count, 1), 0};
    return r->l->code == 0;
}

static bool index_jobs(struct reduce *r)
{
    r->first_job = ARENA_ARRAY(r->l->arena, uint32_t, PROGRAM_TILES + 1);
    if (r->first_job == NULL)
        return lower_oom(r->l);
    for (uint32_t i = 0; i < r->plan->job_count; i++) {
        if (i > 0 && r->plan->jobs[i].tile < r->plan->jobs[i - 1].tile)
            return lower_fail(r->l, IPU_ERR_INTERNAL, "the jobs of a product are not sorted");
        r->first_job[r->plan->jobs[i].tile + 1]++;
    }
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        r->first_job[t + 1] += r->first_job[t];
    return true;
}

struct reduce *reduce_plan(struct lower *l, const struct flow_op *op, const struct plan_op *plan,
                           const struct home *home, struct operand *outs)
{
    struct reduce *r = ARENA_NEW(l->arena, struct reduce);
    bool *taken = ARENA_ARRAY(l->arena, bool, plan->job_count);
    struct reduce_block *blocks = ARENA_ARRAY(l->arena, struct reduce_block, home->count);
    if (r == NULL || taken == NULL || blocks == NULL) {
        lower_oom(l);
        return NULL;
    }
    *r = (struct reduce){
        .l = l, .op = op, .plan = plan, .home = home, .outs = outs, .blocks = blocks};
    if (!list_slots(r) || !index_jobs(r))
        return NULL;
    for (uint32_t i = 0; i < r->home->count; i++)
        if (!place_block(r, i, taken))
            return NULL;
    for (uint32_t j = 0; j < plan->job_count; j++) {
        const struct plan_gemm_job *job = &plan->jobs[j];
        if (taken[j])
            continue;
        uint64_t bytes = (uint64_t)job_bytes(job) * chunks_of(r, job);
        outs[j] = (struct operand){{buffer_new(l, job->tile, bytes, 1), 0}, job->rows * 32};
    }
    return l->code == 0 ? r : NULL;
}

/* --- exchange and sum ----------------------------------------------------------------------- */

/* One home for the partials of each slot, so that they travel like any value. */
static bool slot_homes(struct reduce *r, uint32_t step)
{
    struct lower *l = r->l;
    for (uint32_t s = 0; s < r->slot_count; s++) {
        struct home *h = &l->homes[l->tensor_count + s];
        memset(h, 0, sizeof *h);
        h->type = FLOW_F16;
        h->ready = step;
        h->blocks = ARENA_ARRAY(l->arena, struct home_block, r->plan->job_count);
        if (h->blocks == NULL)
            return lower_oom(l);
        for (uint32_t j = 0; j < r->plan->job_count; j++) {
            const struct plan_gemm_job *job = &r->plan->jobs[j];
            if (s < r->job_slot[j] || s >= r->job_slot[j] + chunks_of(r, job))
                continue;
            struct home_block *b = &h->blocks[h->count++];
            b->box = job_box(job);
            b->tile = job->tile;
            b->stride = r->outs[j].stride;
            b->ref = ref_add(r->outs[j].ref, (s - r->job_slot[j]) * job_bytes(job));
        }
        if (!home_index(l, h))
            return false;
    }
    return true;
}

static uint32_t slot_position(const struct reduce_block *b, uint32_t slot)
{
    if (!b->own_leads || slot >= b->own + b->own_count)
        return slot;
    return slot >= b->own ? slot - b->own : slot + b->own_count;
}

static bool fetch_slots(struct reduce *r)
{
    for (uint32_t i = 0; i < r->home->count; i++) {
        const struct home_block *h = &r->home->blocks[i];
        const struct reduce_block *b = &r->blocks[i];
        for (uint32_t s = 0; s < r->slot_count; s++) {
            if (s >= b->own && s < b->own + b->own_count)
                continue;
            struct program_ref to = ref_add(b->in, slot_position(b, s) * b->stride);
            if (!fetch_need(r->l, r->l->tensor_count + s, &h->box, h->tile, to, h->box.rows * 32))
                return false;
        }
    }
    return fetch_flush(r->l, false);
}

/* One call where the block is contiguous in its home, else one a panel. */
static bool sum_block(struct reduce *r, uint32_t step, const struct home_block *h,
                      const struct reduce_block *b)
{
    struct lower *l = r->l;
    uint32_t run = h->stride == h->box.rows * 32 ? h->box.panels : 1;
    for (uint32_t p = 0; p < h->box.panels; p += run) {
        struct program_call *call = call_plain(l, step, h->tile, KERNEL_REDUCE_F16);
        if (call == NULL)
            return false;
        call_buffer(l, step, call, 0, ref_add(b->in, p * h->box.rows * 32));
        call_number(call, 1, b->stride);
        call_buffer(l, step, call, 2, ref_add(h->ref, p * h->stride));
        call_number(call, 3, h->box.rows * run * 16);
        call_number(call, 4, r->slot_count);
    }
    return true;
}

bool reduce_emit(struct reduce *r, uint32_t step)
{
    struct lower *l = r->l;
    if (!slot_homes(r, step) || !fetch_slots(r))
        return false;
    if (step_next(l) > step + 1 || l->copies.count > 0) {
        if (!compute_open(l, &step))
            return false;
    }
    for (uint32_t i = 0; i < r->home->count; i++) {
        const struct home_block *h = &r->home->blocks[i];
        const struct reduce_block *b = &r->blocks[i];
        if (!sum_block(r, step, h, b))
            return false;
    }
    l->homes[r->op->out].ready = step;
    return true;
}
