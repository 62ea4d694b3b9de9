/* The candidates of each class of operations.
 *
 * GEMM: every grid of distinct part sizes that fits the tiles gets a rough price from closed
 * forms; the best of every bucket (inner split x scatter x row split) survive, so that families
 * that pay off only with the right neighbours stay in. Each survivor comes in every tile order
 * that differs. Elementwise operations follow an operand or take a grid of their own. The order of
 * a list is a pure function of the flow. Fails only for lack of memory.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 5 * 3 * 12, BUCKET_KEEP = 4, CLASS_LIMIT = 30000 };

struct ranked {
    uint64_t proxy;
    uint64_t bytes; /* of the fullest tile */
    uint64_t index; /* in enumeration order: breaks ties */
    struct plan_choice choice;
};
struct bucket {
    unsigned count;
    struct ranked lean; /* least bytes; index 0 with count 0 = none */
    struct ranked best[BUCKET_KEEP];
};

/* Rough local price: compute and reduction, and a share of the operand's words when it travels. */
static uint32_t candidate_proxy(struct space *space, const struct model_op *op,
                                const struct plan_choice *c)
{
    uint32_t exchange, jobs = (op->batch + c->gb - 1u) / c->gb;
    uint64_t cycles = gemm_compute_cycles(space, op, c, &exchange);
    uint64_t rows = (op->rows + c->gm - 1u) / c->gm, panels = (op->panels + c->gn - 1u) / c->gn;
    uint64_t inners = (op->inners + c->gk - 1u) / c->gk;
    cycles += exchange;
    if (op->a.kind != SOURCE_HOST || (c->flags & CHOICE_STAGED))
        cycles += rows * inners * 8 * jobs * (c->gn > 1 ? 3 : 1) / 4;
    if (op->b.kind != SOURCE_HOST)
        cycles += inners * panels * 16 * 8 * jobs;
    uint64_t bytes = gemm_choice_bytes(op, c);
    if (bytes > space->limit) /* cannot fit even alone: behind all that can */
        cycles += 1000000000 + bytes / 64;
    return cycles > UINT32_MAX ? UINT32_MAX : (uint32_t)cycles;
}

static unsigned log2_of(unsigned n)
{
    unsigned bits = 0;
    while (n > 1) {
        n >>= 1;
        bits++;
    }
    return bits;
}

static unsigned bucket_of(const struct plan_choice *c)
{
    unsigned inner = c->gk == 1 ? 0 : c->gk <= 4 ? 1 : c->gk <= 8 ? 2 : c->gk <= 16 ? 3 : 4;
    unsigned scatter = c->replicate ? 2 : c->sr > 1 ? 1 : 0;
    return (inner * 3 + scatter) * 12 + log2_of(c->gm);
}

static int compare_ranked(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;
    if (a->proxy != b->proxy)
        return a->proxy < b->proxy ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void bucket_offer(struct bucket *bucket, const struct ranked *item)
{
    if (bucket->count == 0 || item->bytes < bucket->lean.bytes)
        bucket->lean = *item;
    if (bucket->count == BUCKET_KEEP) {
        if (compare_ranked(item, &bucket->best[BUCKET_KEEP - 1]) >= 0)
            return;
        bucket->count--;
    }
    unsigned at = bucket->count++;
    for (; at > 0 && compare_ranked(item, &bucket->best[at - 1]) < 0; at--)
        bucket->best[at] = bucket->best[at - 1];
    bucket->best[at] = *item;
}

struct enumeration {
    struct space *space;
    const struct model_op *op;
    uint32_t tiles;
    enum thrift thrift;
    uint64_t count;
    struct bucket *buckets;
};

static void offer_choice(struct enumeration *e, struct plan_choice choice)
{
    choice_thrift(e->op, e->thrift, &choice);
    if (!gemm_choice_fix(e->op, e->tiles, &choice))
        return;
    struct ranked item = {candidate_proxy(e->space, e->op, &choice),
                          gemm_choice_bytes(e->op, &choice), e->count++, choice};
    bucket_offer(&e->buckets[bucket_of(&choice)], &item);
}

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* One grid in its scatter variants: rows first, panels first, replicated. */
static void offer_grid(struct enumeration *e, unsigned gb, unsigned gm, unsigned gn, unsigned gk)
{
    struct plan_choice c = {.kind = CHOICE_GEMM,
                            .gb = (uint16_t)gb,
                            .gm = (uint16_t)gm,
                            .gn = (uint16_t)gn,
                            .gk = (uint16_t)gk,
                            .sr = 1,
                            .sp = 1};
    if (gk == 1) {
        offer_choice(e, c);
        return;
    }
    unsigned rows = (e->op->rows + gm - 1) / gm, panels = (e->op->panels + gn - 1) / gn;
    c.sr = (uint16_t)smaller(rows, gk);
    c.sp = (uint16_t)smaller(panels, gk / c.sr);
    offer_choice(e, c);
    c.sp = (uint16_t)smaller(panels, gk);
    c.sr = (uint16_t)smaller(rows, gk / c.sp);
    offer_choice(e, c);
    c.replicate = 1;
    offer_choice(e, c);
}

/* The next larger part count that makes parts smaller; n + 1 when there is none. */
static unsigned next_parts(unsigned n, unsigned parts)
{
    unsigned size = (n + parts - 1) / parts;
    return size <= 1 ? n + 1 : (n + size - 2) / (size - 1);
}

static void enumerate_rows(struct enumeration *e, unsigned gb, unsigned gn, unsigned gk)
{
    unsigned limit = e->tiles / (gb * gn * gk);
    for (unsigned gm = 1; gm <= e->op->rows && gm <= limit; gm = next_parts(e->op->rows, gm))
        offer_grid(e, gb, gm, gn, gk);
}

static void enumerate_gemm(struct enumeration *e)
{
    const struct model_op *op = e->op;
    for (unsigned gb = 1; gb <= op->batch && gb <= e->tiles; gb = next_parts(op->batch, gb)) {
        if (op->batch > 1 && gb * 4 < op->batch && gb * 4 < e->tiles)
            continue; /* batches are independent: never pile them up needlessly */
        for (unsigned gk = 1; gk <= op->inners && gb * gk <= e->tiles;
             gk = next_parts(op->inners, gk))
            for (unsigned gn = 1; gn <= op->panels && gb * gk * gn <= e->tiles;
                 gn = next_parts(op->panels, gn))
                enumerate_rows(e, gb, gn, gk);
    }
}

static uint32_t class_push(struct space *s, struct cand_class *class, struct plan_choice choice)
{
    if (class->count >= CLASS_LIMIT)
        return UINT32_MAX;
    if (class->count == class->capacity) {
        uint32_t capacity = class->capacity ? 2 * class->capacity : 64;
        struct cand *list = ipu_realloc(class->list, sizeof *list * capacity);
        if (list == NULL) {
            s->oom = true;
            return UINT32_MAX;
        }
        class->list = list;
        class->capacity = capacity;
    }
    class->list[class->count] = (struct cand){.choice = choice};
    return class->count++;
}

static uint32_t class_find(const struct cand_class *class, const struct plan_choice *choice)
{
    for (uint32_t i = 0; i < class->count; i++)
        if (memcmp(&class->list[i].choice, choice, sizeof *choice) == 0)
            return i;
    return UINT32_MAX;
}

/* Whether two orders number the tiles alike: axes of size one do not count. */
static bool same_strides(const struct plan_choice *c, unsigned one, unsigned other)
{
    struct plan_choice x = *c, y = *c;
    x.order = (uint8_t)one;
    y.order = (uint8_t)other;
    struct grid_strides a = grid_strides(&x, UINT16_MAX), b = grid_strides(&y, UINT16_MAX);
    return (c->gm == 1 || a.i == b.i) && (c->gn == 1 || a.j == b.j) && (c->gk == 1 || a.k == b.k);
}

static bool order_distinct(const struct plan_choice *c, unsigned order)
{
    for (unsigned earlier = 0; earlier < order; earlier++)
        if (same_strides(c, order, earlier))
            return false;
    return true;
}

static void push_orders(struct space *s, struct cand_class *class, struct plan_choice choice)
{
    for (unsigned order = 0; order < GRID_ORDERS; order++) {
        choice.order = 0;
        if (!order_distinct(&choice, order))
            continue;
        choice.order = (uint8_t)order;
        class_push(s, class, choice);
    }
}

/* All survivors, cheapest first; after the first `limit` only those that take less memory than
 * every one before them. */
static void push_survivors(struct space *s, struct cand_class *class, struct ranked *all,
                           unsigned count, unsigned limit)
{
    uint64_t least = UINT64_MAX;
    unsigned taken = 0;
    qsort(all, count, sizeof *all, compare_ranked);
    for (unsigned i = 0; i < count; i++) {
        if (i > 0 && all[i].index == all[i - 1].index)
            continue;
        if (taken++ < limit || all[i].bytes < least)
            push_orders(s, class, all[i].choice);
        least = all[i].bytes < least ? all[i].bytes : least;
    }
}

static bool candidates_gemm(struct space *s, const struct model_op *op, struct cand_class *class,
                            unsigned limit, enum thrift thrift)
{
    struct bucket *buckets = ipu_calloc(BUCKETS, sizeof *buckets);
    struct ranked *all = ipu_calloc(BUCKETS * (BUCKET_KEEP + 1), sizeof *all);
    if (buckets == NULL || all == NULL) {
        ipu_free(buckets);
        ipu_free(all);
        s->oom = true;
        return false;
    }
    struct enumeration e = {s, op, s->tiles, thrift, 0, buckets};
    enumerate_gemm(&e);
    unsigned count = 0;
    for (unsigned b = 0; b < BUCKETS; b++) {
        for (unsigned i = 0; i < buckets[b].count; i++)
            all[count++] = buckets[b].best[i];
        if (buckets[b].count > 0)
            all[count++] = buckets[b].lean;
    }
    push_survivors(s, class, all, count, limit);
    s->units += 1 + e.count / 64;
    ipu_free(buckets);
    ipu_free(all);
    return !s->oom;
}

static void push_grid(struct space *s, struct cand_class *class, uint32_t gm, uint32_t gn)
{
    for (uint8_t order = 0; order < 2; order++) {
        struct plan_choice c = {.kind = CHOICE_GRID,
                                .order = order,
                                .gb = 1,
                                .gm = (uint16_t)gm,
                                .gn = (uint16_t)gn,
                                .gk = 1,
                                .sr = 1,
                                .sp = 1};
        if ((order == 0 || (gm > 1 && gn > 1)) && class_find(class, &c) == UINT32_MAX)
            class_push(s, class, c);
    }
}

static void candidates_elementwise(struct space *s, const struct model_op *op,
                                   struct cand_class *class)
{
    struct plan_choice follow = {
        .kind = CHOICE_FOLLOW_A, .gb = 1, .gm = 1, .gn = 1, .gk = 1, .sr = 1, .sp = 1};
    bool permute = op->flow->kind == FLOW_PERMUTE;
    if (!permute && op->a.kind != SOURCE_HOST)
        class_push(s, class, follow);
    follow.kind = CHOICE_FOLLOW_B;
    if (op->flow->kind == FLOW_ADD && op->flow->broadcast == FLOW_DENSE &&
        op->flow->row_map.axes == 0 && op->b.kind > SOURCE_HOST)
        class_push(s, class, follow);
    uint32_t gm, gn, rows = op->rows, panels = op->panels;
    lay_balanced_grid(rows, panels, s->tiles, &gm, &gn);
    push_grid(s, class, gm, gn);
    gn = smaller(panels, s->tiles);
    assert(gn != 0); /* no value is empty */
    push_grid(s, class, smaller(rows, s->tiles / gn), gn);
    for (unsigned parts = 1; parts <= panels && parts <= s->tiles; parts *= 2)
        push_grid(s, class, smaller(rows, s->tiles / parts), parts);
    if (permute) /* whole cells of the source: rows in sixteens */
        for (unsigned parts = 1; parts <= panels && parts <= s->tiles; parts *= 2)
            push_grid(s, class, smaller((rows + 15) / 16, s->tiles / parts), parts);
}

bool candidates_enumerate(struct space *space, unsigned limit, enum thrift thrift)
{
    for (uint32_t c = 0; c < space->model->class_count; c++) {
        const struct model_op *op = &space->model->ops[space->model->class_op[c]];
        struct cand_class *class = &space->classes[c];
        bool gemm = op->flow->kind == FLOW_GEMM;
        if (gemm && !candidates_gemm(space, op, class, limit, thrift))
            return false;
        if (!gemm && op->flow->kind != FLOW_REPEAT && thrift == THRIFT_NONE)
            candidates_elementwise(space, op, class);
        class->ranked = class->count;
    }
    return !space->oom;
}

static bool grid_fix(const struct model_op *op, uint32_t tiles, const struct plan_choice *c)
{
    if (c->kind == CHOICE_FOLLOW_A)
        return op->flow->kind != FLOW_PERMUTE && c->gm == 1 && c->gn == 1;
    if (c->kind == CHOICE_FOLLOW_B)
        return op->flow->kind == FLOW_ADD && op->flow->broadcast == FLOW_DENSE &&
               op->flow->row_map.axes == 0 && c->gm == 1 && c->gn == 1;
    return c->kind == CHOICE_GRID && c->order < 2 && c->gm > 0 && c->gn > 0 && c->gm <= op->rows &&
           c->gn <= op->panels && (uint32_t)c->gm * c->gn <= tiles && c->offset < tiles;
}

uint32_t candidate_find(struct space *space, uint32_t class_index, const struct plan_choice *choice)
{
    struct cand_class *class = &space->classes[class_index];
    const struct model_op *op = &space->model->ops[space->model->class_op[class_index]];
    struct plan_choice fixed = *choice;
    if (op->flow->kind == FLOW_GEMM ? !gemm_choice_fix(op, space->tiles, &fixed)
                                    : !grid_fix(op, space->tiles, &fixed))
        return UINT32_MAX;
    uint32_t at = class_find(class, &fixed);
    if (at != UINT32_MAX)
        return at;
    return class_push(space, class, fixed);
}

static void grid_ready(struct space *space, const struct model_op *op, struct cand *cand)
{
    const struct plan_choice *c = &cand->choice;
    cand->ready = true;
    if (c->kind != CHOICE_GRID)
        return;
    cand->out = lay_grid(space, op->rows, op->panels, c->gm, c->gn, c->order, c->offset);
    cand->bad = cand->out == NULL;
    if (op->flow->kind != FLOW_PERMUTE || cand->bad)
        return;
    cand->cells = ARENA_ARRAY(space->arena, uint32_t, space->tiles);
    space->oom |= cand->cells == NULL;
    cand->bad = cand->cells == NULL || !permute_cells(space, op, cand->out, cand->cells);
}

struct cand *candidate_get(struct space *space, uint32_t op, uint32_t pick)
{
    const struct model_op *m = &space->model->ops[op];
    struct cand_class *class = &space->classes[m->class_index];
    if (pick >= class->count)
        return NULL;
    struct cand *cand = &class->list[pick];
    if (!cand->ready && m->flow->kind == FLOW_GEMM)
        gemm_ready(space, m, cand);
    else if (!cand->ready)
        grid_ready(space, m, cand);
    return cand;
}
