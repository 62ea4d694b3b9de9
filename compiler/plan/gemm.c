/* GEMM choices made concrete: operand boxes, partial blocks, result layout, own cost.
 *
 * Grid: gb groups of batches x gm row parts x gn panel parts x gk inner parts. The job of (b, i, j,
 * k) computes rows part i of batch b times panel part j over inner part k. With gk = 1 the result
 * stays where it was computed. With gk > 1 the block (b, i, j) is cut into sr row parts x sp panel
 * parts, and part s goes to the partner k = s; or every partner keeps the whole block (replicate).
 * All layouts are separable; a choice whose layouts cannot be built for lack of memory is `bad`.
 * Passes (plan.h) multiply calls and exchanges of their smaller parts; layouts stay those of the
 * whole operation.
 */
#include "compiler/plan/internal.h"

#include "base/hash.h"
#include "device/kernels/kernels.h"

uint32_t gemm_group(uint32_t batch, uint32_t groups, uint32_t b)
{
    return (uint32_t)((uint64_t)b * groups / batch);
}

uint32_t gemm_chunks(uint32_t inners, uint32_t chunk)
{
    return (inners + chunk - 1) / chunk;
}

static uint32_t ceil_div(uint32_t n, uint32_t d)
{
    return (n + d - 1) / d;
}

/* As many passes as asked for, at least as many as the kernel's row count makes necessary. */
static bool passes_fix(const struct model_op *op, struct plan_choice *c)
{
    uint32_t rows = ceil_div(op->rows, c->gm), panels = ceil_div(op->panels, c->gn);
    uint32_t least = ceil_div(rows, KERNEL_GEMM_MAX_ROWS);
    bool stageable = op->a.kind == SOURCE_HOST && op->a.copies == 1;
    if (least > UINT8_MAX || ((c->flags & CHOICE_STAGED) != 0 && !stageable) ||
        (c->flags & ~(CHOICE_STAGED | CHOICE_ANYWHERE)) != 0)
        return false;
    c->row_passes = (uint8_t)(c->row_passes < least ? least : c->row_passes);
    c->panel_passes = c->panel_passes < 1 ? 1 : c->panel_passes;
    return c->row_passes <= rows && c->panel_passes <= panels;
}

struct gemm_pass gemm_pass_of(const struct model_op *op, const struct plan_choice *c)
{
    uint32_t rows = ceil_div(op->rows, c->gm), panels = ceil_div(op->panels, c->gn);
    struct gemm_pass p = {ceil_div(rows, c->row_passes), ceil_div(panels, c->panel_passes),
                          ceil_div(rows, c->sr), ceil_div(panels, c->sp)};
    p.piece_rows = p.piece_rows < p.rows ? p.piece_rows : p.rows;
    p.piece_panels = p.piece_panels < p.panels ? p.piece_panels : p.panels;
    return p;
}

bool gemm_choice_fix(const struct model_op *op, uint32_t tiles, struct plan_choice *c)
{
    if (c->gb == 0 || c->gm == 0 || c->gn == 0 || c->gk == 0 || c->gb > op->batch ||
        c->gm > op->rows || c->gn > op->panels || c->gk > op->inners || c->order >= GRID_ORDERS)
        return false;
    if ((uint64_t)c->gb * c->gm * c->gn * c->gk > tiles || c->offset >= tiles)
        return false;
    c->kind = CHOICE_GEMM;
    if (!passes_fix(op, c))
        return false;
    uint32_t inners = ceil_div(op->inners, c->gk);
    c->chunk = (uint16_t)ceil_div(inners, ceil_div(inners, PLAN_CHUNK_PANELS));
    if (c->gk == 1 || c->replicate) {
        c->replicate = c->gk > 1;
        c->sr = c->sp = 1;
        return true;
    }
    uint32_t rows = ceil_div(op->rows, c->gm), panels = ceil_div(op->panels, c->gn);
    if (c->sr == 0 || c->sp == 0 || c->sr > rows || c->sp > panels ||
        (uint32_t)c->sr * c->sp > c->gk)
        return false;
    return true;
}

/* Row cuts (b, i[, s]) of a matrix of batch * rows rows into space->row_cuts. */
static void push_row_cuts(struct space *s, uint32_t batch, uint32_t rows, uint32_t parts,
                          uint32_t sub)
{
    s->row_cuts.count = 0;
    for (uint32_t b = 0; b < batch; b++)
        for (uint32_t i = 0; i < parts; i++) {
            uint32_t from = cut_at(rows, parts, i), n = cut_at(rows, parts, i + 1) - from;
            uint32_t subs = sub < n ? sub : n;
            for (uint32_t x = 0; x < subs; x++)
                u32_push(s, &s->row_cuts, b * rows + from + cut_at(n, subs, x));
        }
    u32_push(s, &s->row_cuts, batch * rows);
}

static void push_panel_cuts(struct space *s, uint32_t panels, uint32_t parts, uint32_t sub)
{
    s->panel_cuts.count = 0;
    for (uint32_t j = 0; j < parts; j++) {
        uint32_t from = cut_at(panels, parts, j), n = cut_at(panels, parts, j + 1) - from;
        uint32_t subs = sub < n ? sub : n;
        for (uint32_t x = 0; x < subs; x++)
            u32_push(s, &s->panel_cuts, from + cut_at(n, subs, x));
    }
    u32_push(s, &s->panel_cuts, panels);
}

/* The left operand: rows (b, i) x inner parts, each on the tiles of all j. */
static struct lay *lay_left(struct space *s, const struct model_op *op, const struct plan_choice *c)
{
    push_row_cuts(s, op->batch, op->rows, c->gm, 1);
    push_panel_cuts(s, op->inners, c->gk, 1);
    struct grid_strides g = grid_strides(c, s->tiles);
    s->tiles_list.count = 0;
    for (uint32_t b = 0; b < op->batch; b++)
        for (uint32_t i = 0; i < c->gm; i++)
            for (uint32_t k = 0; k < c->gk; k++)
                for (uint32_t j = 0; j < c->gn; j++)
                    u32_push(s, &s->tiles_list,
                             grid_tile(&g, gemm_group(op->batch, c->gb, b), i, j, k));
    return lay_intern(s, c->gn);
}

/* The right operand: inner rows (b, k) x panel parts, each on the tiles of all i. The last panel
 * of inner rows of a batch may be partial: `depth` is the true inner size. */
static struct lay *lay_right(struct space *s, const struct model_op *op,
                             const struct plan_choice *c, uint32_t depth)
{
    s->row_cuts.count = s->tiles_list.count = 0;
    for (uint32_t b = 0; b < op->batch; b++)
        for (uint32_t k = 0; k < c->gk; k++)
            u32_push(s, &s->row_cuts, b * depth + 16 * cut_at(op->inners, c->gk, k));
    u32_push(s, &s->row_cuts, op->batch * depth);
    push_panel_cuts(s, op->panels, c->gn, 1);
    struct grid_strides g = grid_strides(c, s->tiles);
    for (uint32_t b = 0; b < op->batch; b++)
        for (uint32_t k = 0; k < c->gk; k++)
            for (uint32_t j = 0; j < c->gn; j++)
                for (uint32_t i = 0; i < c->gm; i++)
                    u32_push(s, &s->tiles_list,
                             grid_tile(&g, gemm_group(op->batch, c->gb, b), i, j, k));
    return lay_intern(s, c->gm);
}

/* The jobs' own blocks, on the tiles of all k: what is computed before the reduction. */
static struct lay *lay_partial(struct space *s, const struct model_op *op,
                               const struct plan_choice *c)
{
    push_row_cuts(s, op->batch, op->rows, c->gm, 1);
    push_panel_cuts(s, op->panels, c->gn, 1);
    struct grid_strides g = grid_strides(c, s->tiles);
    s->tiles_list.count = 0;
    for (uint32_t b = 0; b < op->batch; b++)
        for (uint32_t i = 0; i < c->gm; i++)
            for (uint32_t j = 0; j < c->gn; j++)
                for (uint32_t k = 0; k < c->gk; k++)
                    u32_push(s, &s->tiles_list,
                             grid_tile(&g, gemm_group(op->batch, c->gb, b), i, j, k));
    return lay_intern(s, c->gk);
}

static void push_scattered_row(struct space *s, const struct model_op *op,
                               const struct plan_choice *c, uint32_t b, uint32_t i, uint32_t x)
{
    struct grid_strides g = grid_strides(c, s->tiles);
    for (uint32_t j = 0; j < c->gn; j++) {
        uint32_t n = cut_at(op->panels, c->gn, j + 1) - cut_at(op->panels, c->gn, j);
        uint32_t subs = c->sp < n ? c->sp : n;
        for (uint32_t y = 0; y < subs; y++)
            u32_push(s, &s->tiles_list,
                     grid_tile(&g, gemm_group(op->batch, c->gb, b), i, j, x * c->sp + y));
    }
}

/* The reduced result scattered over the K partners. */
static struct lay *lay_scattered(struct space *s, const struct model_op *op,
                                 const struct plan_choice *c)
{
    push_row_cuts(s, op->batch, op->rows, c->gm, c->sr);
    push_panel_cuts(s, op->panels, c->gn, c->sp);
    s->tiles_list.count = 0;
    for (uint32_t b = 0; b < op->batch; b++)
        for (uint32_t i = 0; i < c->gm; i++) {
            uint32_t n = cut_at(op->rows, c->gm, i + 1) - cut_at(op->rows, c->gm, i);
            uint32_t subs = c->sr < n ? c->sr : n;
            for (uint32_t x = 0; x < subs; x++)
                push_scattered_row(s, op, c, b, i, x);
        }
    return lay_intern(s, 1);
}

/* A piece that is contiguous in its job's block is added where it lies, in front of or among the
 * received ones (compiler/lower/reduce.c); any other is copied. */
static bool piece_joins(const struct model_op *op, const struct plan_choice *c)
{
    return c->replicate || c->sr == 1 || ceil_div(ceil_div(op->panels, c->gn), c->sp) == 1;
}

/* Cycles of the exchange that brings partials to their owners. */
static uint32_t reduce_exchange(const struct model_op *op, const struct plan_choice *c,
                                uint32_t jobs)
{
    if (c->gk == 1)
        return 0;
    const struct gemm_pass p = gemm_pass_of(op, c);
    uint32_t block = p.rows * p.panels, piece = p.piece_rows * p.piece_panels;
    uint64_t receive = 8ull * piece * (c->gk - 1u), send = 8ull * block;
    uint64_t runs = (c->gk - 1ull) * (p.piece_rows == p.rows ? 1 : p.piece_panels) * jobs;
    if (!c->replicate && c->sr * c->sp >= c->gk)
        send -= 8ull * piece;
    uint64_t words = (receive > send ? receive : send) * jobs;
    /* Sent from the granule that receives: no overlap past the way of the first word. */
    uint64_t turns = (receive + send) * jobs - PLAN_PHASE_LATENCY;
    if (piece_joins(op, c) && (uint64_t)(piece * c->gk + block) * 32 < PLAN_GRANULE_BYTES &&
        (receive + send) * jobs > PLAN_PHASE_LATENCY && turns > words)
        words = turns;
    uint64_t cycles =
        plan_cost_phase(words, runs > UINT32_MAX ? UINT32_MAX : (uint32_t)runs, !c->replicate);
    uint64_t receives = runs * c->gb * c->gm * c->gn * c->gk;
    if (receives > PLAN_RECEIVES_FREE)
        cycles += (receives - PLAN_RECEIVES_FREE) / PLAN_RECEIVES_PER_CYCLE;
    cycles *= gemm_passes(c);
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}

/* Bytes by which the slots of joined partials can exceed their cells: the gaps between them. */
uint64_t gemm_gap_bytes(const struct model_op *op, const struct plan_choice *c)
{
    if (c->gk == 1 || c->replicate || !piece_joins(op, c))
        return 0;
    const struct gemm_pass p = gemm_pass_of(op, c);
    uint64_t piece = (uint64_t)p.piece_rows * p.piece_panels;
    uint64_t widest = ((uint64_t)p.rows * p.panels - piece) * 32 * (c->gk - 1u);
    uint64_t allowed = piece * 32 * (c->gk - 1u) + PLAN_GAP_BYTES;
    return widest < allowed ? widest : allowed;
}

static uint64_t reduce_compute(const struct model_op *op, const struct plan_choice *c,
                               uint32_t chunks, uint32_t jobs)
{
    uint32_t parts = c->gk * chunks;
    if (parts == 1)
        return 0;
    const struct gemm_pass p = gemm_pass_of(op, c);
    uint32_t cells = p.rows * p.panels;
    uint64_t cycles = 0;
    if (!c->replicate && c->gk > 1) {
        cells = p.piece_rows * p.piece_panels;
        if (!piece_joins(op, c))
            cycles = plan_cost_copy(cells * 32);
    }
    return (cycles + plan_cost_reduce(cells, parts)) * jobs;
}

/* Exact price of a small call, looked up in a direct-mapped table: a collision only costs time. */
static uint32_t small_call(struct space *s, uint32_t rows, uint32_t inners, uint32_t panels)
{
    uint64_t key = ((uint64_t)rows << 8 | inners << 4 | panels) + 1;
    uint64_t *slot = &s->gemm_prices[hash64_mix(key) & (GEMM_PRICE_SLOTS - 1)];
    if (*slot >> 32 != key) {
        *slot = key << 32 | plan_cost_gemm(rows, inners, panels);
        s->units += 2 + inners * panels;
    }
    return (uint32_t)*slot;
}

/* A call follows its panels one by one, so its exact price takes time in proportion. It grows by a
 * constant per column panel, and per two inner panels, once the pipeline is full. */
static uint64_t inner_call(struct space *s, uint32_t rows, uint32_t inners, uint32_t panels)
{
    enum { FULL = 8 };
    if (inners <= FULL + 1)
        return small_call(s, rows, inners, panels);
    uint32_t base = FULL - 2 + (inners & 1), steps = (inners - base) / 2;
    uint64_t at = small_call(s, rows, base, panels), next = small_call(s, rows, base + 2, panels);
    return at + steps * (next > at ? next - at : 0);
}

uint32_t gemm_call_cycles(struct space *space, uint32_t rows, uint32_t inners, uint32_t panels)
{
    if (rows > 1u << 20)
        return UINT32_MAX / 4;
    /* With many rows the first column already costs what the others do. */
    uint32_t base = rows < 24 && panels > 1 ? 2 : 1;
    uint64_t cycles = inner_call(space, rows, inners, base);
    if (panels > base) {
        uint64_t next = inner_call(space, rows, inners, base + 1);
        cycles += (uint64_t)(panels - base) * (next > cycles ? next - cycles : 0);
    }
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}

uint32_t gemm_compute_cycles(struct space *space, const struct model_op *op,
                             const struct plan_choice *c, uint32_t *exchange)
{
    const struct gemm_pass p = gemm_pass_of(op, c);
    uint32_t inners = ceil_div(op->inners, c->gk), jobs = ceil_div(op->batch, c->gb);
    uint32_t chunks = gemm_chunks(inners, c->chunk);
    uint64_t cycles = gemm_call_cycles(space, p.rows, inners - (chunks - 1) * c->chunk, p.panels);
    if (chunks > 1)
        cycles += (uint64_t)gemm_call_cycles(space, p.rows, c->chunk, p.panels) * (chunks - 1);
    if (c->flags & CHOICE_ANYWHERE)
        cycles += (uint64_t)inners * p.panels * PLAN_NARROW_PANEL;
    cycles = (cycles * jobs + reduce_compute(op, c, chunks, jobs)) * gemm_passes(c);
    *exchange = reduce_exchange(op, c, jobs);
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}

void gemm_ready(struct space *space, const struct model_op *op, struct cand *cand)
{
    const struct plan_choice *c = &cand->choice;
    cand->ready = true;
    cand->compute = gemm_compute_cycles(space, op, c, &cand->exchange);
    cand->parts = c->gk * gemm_chunks(ceil_div(op->inners, c->gk), c->chunk);
    cand->need_a = lay_left(space, op, c);
    cand->partial = lay_partial(space, op, c);
    cand->out = c->gk == 1 || c->replicate ? cand->partial : lay_scattered(space, op, c);
    cand->bad = cand->need_a == NULL || cand->partial == NULL || cand->out == NULL;
}

struct lay *gemm_right(struct space *space, const struct model_op *op, struct cand *cand)
{
    uint32_t depth = (uint32_t)space->model->flow->tensors[op->flow->a].columns;
    if (cand->need_b == NULL)
        cand->need_b = lay_right(space, op, &cand->choice, depth);
    return cand->need_b;
}
