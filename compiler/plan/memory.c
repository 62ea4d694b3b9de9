/* Exact byte accounting of a solution, tile by tile and step by step.
 *
 * Resident all the time: host operands in the boxes that their users need, once per member of a
 * sequence. By lifetime: results. While an operation runs: gathered operands, partials, received
 * partials; of an operation in passes, those of its largest pass. GEMM weights (unless they may lie
 * anywhere), products and partials count as interleaved (kernels.def); all else may lie anywhere,
 * but large buffers find no room in region 0. Every buffer is charged PLAN_BUFFER_OVERHEAD for its
 * tail and alignment. Fails (false) only for lack of memory.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"
#include "device/ipu21/memory.h"

#include <string.h>

struct tile_bytes {
    uint64_t standard, interleaved;
    uint64_t large, fitting; /* standard buffers too large to share region 0; the largest of them
                                that fits it alone */
};

struct tally {
    struct space *space;
    const uint16_t *pick;
    struct tile_bytes *now; /* by tile: resident, then at the present step */
    uint64_t largest_standard;
};

/* `pieces` allocations of `times` members each make up the bytes. */
static void add_bytes(struct tally *t, uint32_t tile, uint64_t bytes, uint64_t pieces,
                      uint64_t times, bool interleaved)
{
    struct tile_bytes *to = &t->now[tile];
    if (bytes == 0)
        return;
    uint64_t whole = bytes + pieces * times * PLAN_BUFFER_OVERHEAD;
    uint64_t piece = whole / (pieces ? pieces : 1);
    if (interleaved) {
        to->interleaved += whole;
        return;
    }
    to->standard += whole;
    t->largest_standard = piece > t->largest_standard ? piece : t->largest_standard;
    if (piece <= PLAN_REGION0_BYTES / 2)
        return;
    to->large += whole;
    if (piece <= PLAN_REGION0_BYTES && piece > to->fitting)
        to->fitting = piece;
}

static void add_cells(struct tally *t, const struct lay *lay, uint64_t cell_bytes, uint64_t times,
                      bool interleaved)
{
    for (uint32_t tile = 0; tile < t->space->tiles; tile++)
        add_bytes(t, tile, lay->cells[tile] * cell_bytes * times,
                  lay->own_at[tile + 1] - lay->own_at[tile], times, interleaved);
}

/* The same for blocks of which no more than rows x panels are there at a time. */
static void add_clipped(struct tally *t, const struct lay *lay, uint32_t rows, uint32_t panels,
                        uint64_t times, bool interleaved)
{
    for (uint32_t tile = 0; tile < t->space->tiles; tile++) {
        uint64_t cells = 0;
        for (uint32_t i = lay->own_at[tile]; i < lay->own_at[tile + 1]; i++) {
            uint32_t r = lay->own[i] / lay->np, p = lay->own[i] % lay->np;
            uint32_t nr = lay->row_cut[r + 1] - lay->row_cut[r];
            uint32_t np = lay->panel_cut[p + 1] - lay->panel_cut[p];
            cells += (uint64_t)(nr < rows ? nr : rows) * (np < panels ? np : panels);
        }
        add_bytes(t, tile, cells * 32 * times, lay->own_at[tile + 1] - lay->own_at[tile], times,
                  interleaved);
    }
}

/* GEMM weights in coefficient order: 512 bytes a panel of 16 inner rows. `most` output panels are
 * there at a time, each `parts`-th of them in a buffer of its own. */
static void add_weights(struct tally *t, const struct lay *need, uint64_t copies, uint32_t most,
                        uint32_t parts, bool interleaved)
{
    for (uint32_t tile = 0; tile < t->space->tiles; tile++) {
        uint64_t bytes = 0;
        for (uint32_t i = need->own_at[tile]; i < need->own_at[tile + 1]; i++) {
            uint32_t r = need->own[i] / need->np, p = need->own[i] % need->np;
            uint64_t inners = (need->row_cut[r + 1] - need->row_cut[r] + 15u) / 16u;
            uint32_t panels = need->panel_cut[p + 1] - need->panel_cut[p];
            bytes += inners * (panels < most ? panels : most) * 512;
        }
        add_bytes(t, tile, bytes * copies,
                  (need->own_at[tile + 1] - need->own_at[tile]) * (uint64_t)parts, copies,
                  interleaved);
    }
}

/* The second operand of a broadcast addition: what each block needs of it. */
static void add_second(struct tally *t, const struct model_op *op, const struct lay *out,
                       uint64_t cell_bytes, uint64_t copies)
{
    if (op->flow->broadcast == FLOW_DENSE || op->flow->row_map.axes != 0) {
        add_cells(t, out, cell_bytes, copies, false);
        return;
    }
    for (uint32_t tile = 0; tile < t->space->tiles; tile++) {
        uint64_t cells = 0, blocks = out->own_at[tile + 1] - out->own_at[tile];
        for (uint32_t i = out->own_at[tile]; i < out->own_at[tile + 1]; i++) {
            uint32_t r = out->own[i] / out->np, p = out->own[i] % out->np;
            if (op->flow->broadcast == FLOW_ROW)
                cells += out->panel_cut[p + 1] - out->panel_cut[p];
            else
                cells +=
                    op->flow->broadcast == FLOW_COLUMN ? out->row_cut[r + 1] - out->row_cut[r] : 1;
        }
        add_bytes(t, tile, cells * cell_bytes * copies, blocks, copies, false);
    }
}

static uint64_t cell_bytes(const struct space *s, uint32_t tensor)
{
    return s->model->flow->tensors[tensor].type == FLOW_F32 ? 64 : 32;
}

static bool seen_before(const struct tally *t, uint32_t index, bool second)
{
    const struct model *m = t->space->model;
    const struct model_op *op = &m->ops[index];
    uint32_t tensor = second ? op->b.tensor : op->a.tensor;
    for (uint32_t i = 0; i < index; i++) {
        const struct model_op *other = &m->ops[i];
        if (other->flow->kind != op->flow->kind || other->class_index != op->class_index)
            continue;
        if ((second ? other->b.tensor : other->a.tensor) == tensor &&
            t->pick[i] == t->pick[index] && t->space->value[i] == t->space->value[index])
            return true;
    }
    return false;
}

enum { ALWAYS = UINT32_MAX };

/* Parameters stay for good, inputs until their last use in a run. */
static bool lives_at(const struct tally *t, uint32_t tensor, uint32_t position)
{
    const struct model *m = t->space->model;
    if (m->flow->tensors[tensor].source != FLOW_INPUT)
        return position == ALWAYS;
    return position != ALWAYS && position <= m->last_use[tensor];
}

/* Host operands of an operation: those that stay always, or those that live at a position. */
static void add_resident(struct tally *t, uint32_t index, uint32_t position)
{
    struct space *s = t->space;
    const struct model_op *op = &s->model->ops[index];
    struct cand *cand = candidate_get(s, index, t->pick[index]);
    bool gemm = op->flow->kind == FLOW_GEMM;
    const struct lay *left = gemm ? cand->need_a : s->value[index];
    if (gemm && (cand->choice.flags & CHOICE_STAGED)) {
        left = lay_staged(s, op->flow->a);
        if (left == NULL)
            return;
    }
    if (op->a.kind == SOURCE_HOST && lives_at(t, op->a.tensor, position) &&
        !seen_before(t, index, false))
        add_cells(t, left, cell_bytes(s, op->flow->a), op->a.copies, false);
    if (op->b.kind != SOURCE_HOST || !lives_at(t, op->b.tensor, position) ||
        seen_before(t, index, true))
        return;
    if (gemm && gemm_right(s, op, cand) != NULL)
        add_weights(t, cand->need_b, op->b.copies, UINT32_MAX, cand->choice.panel_passes,
                    !(cand->choice.flags & CHOICE_ANYWHERE));
    else if (!gemm)
        add_second(t, op, s->value[index], cell_bytes(s, op->flow->b), op->b.copies);
}

/* A carried value that starts from the host is uploaded beside its storage. */
static void add_initial(struct tally *t, const struct model_op *op)
{
    struct space *s = t->space;
    for (unsigned c = 0; c < op->flow->carried_count; c++) {
        const struct flow_carried *carried = &op->flow->carried[c];
        const struct model_source *to = &s->model->source[carried->inside];
        struct lay *lay = solution_source(s, to);
        if (lay == NULL)
            continue;
        if (s->model->source[carried->initial].kind == SOURCE_HOST)
            add_cells(t, lay, cell_bytes(s, carried->inside), 1, false);
        if (to->kind == SOURCE_FIXED)
            add_cells(t, lay, cell_bytes(s, carried->inside), 1, false);
    }
}

/* The left operand as far as it is not there: `rows` of each box at a time. */
static void add_gathered(struct tally *t, const struct lay *from, const struct lay *need,
                         uint32_t rows)
{
    for (uint32_t tile = 0; tile < t->space->tiles; tile++) {
        uint64_t cells = 0;
        if (need->cells[tile] == 0 || traffic_local(from, need, tile))
            continue;
        for (uint32_t i = need->own_at[tile]; i < need->own_at[tile + 1]; i++) {
            uint32_t r = need->own[i] / need->np, p = need->own[i] % need->np;
            uint32_t nr = need->row_cut[r + 1] - need->row_cut[r];
            cells +=
                (uint64_t)(nr < rows ? nr : rows) * (need->panel_cut[p + 1] - need->panel_cut[p]);
        }
        add_bytes(t, tile, cells * 32, need->own_at[tile + 1] - need->own_at[tile], 1, false);
    }
}

/* Computed weights: gathered in coefficient order, beside them as they came, and a table. */
static void add_computed_weights(struct tally *t, const struct lay *need,
                                 const struct plan_choice *c, const struct gemm_pass *pass)
{
    add_weights(t, need, 1, pass->panels, 1, !(c->flags & CHOICE_ANYWHERE));
    add_clipped(t, need, UINT32_MAX, pass->panels, 1, false);
    for (uint32_t tile = 0; tile < t->space->tiles; tile++)
        if (need->cells[tile] > 0)
            add_bytes(t, tile, 4 * 512, 1, 1, false);
}

static void add_gemm_step(struct tally *t, uint32_t index)
{
    struct space *s = t->space;
    const struct model_op *op = &s->model->ops[index];
    struct cand *cand = candidate_get(s, index, t->pick[index]);
    const struct plan_choice *c = &cand->choice;
    const struct gemm_pass pass = gemm_pass_of(op, c);
    struct lay *a = solution_left(s, op, cand), *b = solution_source(s, &op->b);
    if (a != NULL)
        add_gathered(t, a, cand->need_a, pass.rows);
    if (b != NULL && gemm_right(s, op, cand) != NULL)
        add_computed_weights(t, cand->need_b, c, &pass);
    if (cand->parts == 1)
        return;
    add_clipped(t, cand->partial, pass.rows, pass.panels, cand->parts / c->gk, true);
    /* The slots of the sum: the product writes one of them. */
    add_clipped(t, cand->out, pass.rows, pass.panels, cand->parts, true);
    for (uint32_t tile = 0; tile < s->tiles; tile++) {
        uint64_t jobs = cand->partial->own_at[tile + 1] - cand->partial->own_at[tile];
        add_bytes(t, tile, gemm_gap_bytes(op, c) * jobs, 0, 1, true);
    }
}

static void add_elementwise_step(struct tally *t, uint32_t index)
{
    struct space *s = t->space;
    const struct model_op *op = &s->model->ops[index];
    struct lay *out = s->value[index];
    struct lay *a = solution_source(s, &op->a), *b = solution_source(s, &op->b);
    uint64_t in = cell_bytes(s, op->flow->a);
    if (op->flow->kind == FLOW_PERMUTE) {
        struct cand *cand = candidate_get(s, index, t->pick[index]);
        for (uint32_t tile = 0; tile < s->tiles; tile++) {
            add_bytes(t, tile, cand->cells[tile] * in, 1, 1, false);
            add_bytes(t, tile, out->cells[tile] * 32ull, 1, 1, false); /* index table */
        }
        return;
    }
    if (a != NULL && a != out)
        add_cells(t, out, in, 1, false);
    if (b != NULL && b != out)
        add_second(t, op, out, cell_bytes(s, op->flow->b), 1);
}

static bool writes_in_place(const struct tally *t, uint32_t index)
{
    const struct model_op *op = &t->space->model->ops[index];
    if (op->op > 0 && t->space->model->ops[index - 1].fusable)
        return true;
    return op->in_place && op->flow->kind != FLOW_GEMM && op->flow->kind != FLOW_PERMUTE &&
           op->a.kind == SOURCE_OP && t->space->value[op->a.index] == t->space->value[index] &&
           cell_bytes(t->space, op->flow->a) == cell_bytes(t->space, op->flow->out);
}

static void add_live(struct tally *t, uint32_t position)
{
    struct space *s = t->space;
    for (uint32_t i = 0; i < s->model->op_count; i++) {
        const struct model_op *op = &s->model->ops[i];
        if (op->flow->kind == FLOW_REPEAT || position < op->begin || position > op->end)
            continue;
        if (position == op->position && op->begin == op->position && writes_in_place(t, i))
            continue; /* the operand's storage stands for it */
        struct cand *cand = candidate_get(s, i, t->pick[i]);
        add_cells(t, s->value[i], op->out_words * 4ull, 1,
                  op->flow->kind == FLOW_GEMM && cand->parts == 1);
    }
}

static void note_peak(const struct tally *t, uint32_t op, struct memory_use *use)
{
    for (uint32_t tile = 0; tile < t->space->tiles; tile++) {
        const struct tile_bytes *b = &t->now[tile];
        uint64_t bound = b->interleaved + b->large - b->fitting;
        use->standard = b->standard > use->standard ? b->standard : use->standard;
        use->interleaved = b->interleaved > use->interleaved ? b->interleaved : use->interleaved;
        use->bound = bound > use->bound ? bound : use->bound;
        if (b->standard + b->interleaved > use->total) {
            use->total = b->standard + b->interleaved;
            use->tile = tile;
            use->op = op;
        }
    }
}

static void run_steps(struct tally *t, const struct tile_bytes *resident, struct memory_use *use)
{
    struct space *s = t->space;
    for (uint32_t n = 0; n < s->model->op_count; n++) {
        uint32_t index = s->model->order[n];
        const struct model_op *op = &s->model->ops[index];
        memcpy(t->now, resident, sizeof *resident * s->tiles);
        for (uint32_t i = 0; i < s->model->op_count; i++)
            if (s->model->ops[i].flow->kind != FLOW_REPEAT)
                add_resident(t, i, op->position);
        add_live(t, op->position);
        if (op->flow->kind == FLOW_GEMM)
            add_gemm_step(t, index);
        else if (op->flow->kind != FLOW_REPEAT)
            add_elementwise_step(t, index);
        note_peak(t, index, use);
    }
}

static void add_text(struct tally *t, struct memory_use *use)
{
    uint64_t *text = ipu_calloc(t->space->tiles, sizeof *text);
    t->space->oom |= text == NULL || !solution_text(t->space, t->pick, text);
    for (uint32_t tile = 0; text != NULL && tile < t->space->tiles; tile++) {
        t->now[tile].standard += text[tile];
        use->text = text[tile] > use->text ? text[tile] : use->text;
    }
    ipu_free(text);
}

bool solution_memory(struct space *space, const uint16_t *pick, struct memory_use *use)
{
    *use = (struct memory_use){0};
    if (!solution_layouts(space, pick))
        return false;
    struct tile_bytes *bytes = ipu_calloc(2 * (size_t)space->tiles, sizeof *bytes);
    struct tally t = {space, pick, bytes, 0};
    space->oom |= bytes == NULL;
    for (uint32_t i = 0; !space->oom && i < space->model->op_count; i++) {
        if (space->model->ops[i].flow->kind == FLOW_REPEAT)
            add_initial(&t, &space->model->ops[i]);
        else
            add_resident(&t, i, ALWAYS);
    }
    if (!space->oom && space->count_text)
        add_text(&t, use);
    if (!space->oom) {
        t.now = bytes + space->tiles;
        run_steps(&t, bytes, use);
    }
    use->largest_standard = t.largest_standard;
    ipu_free(bytes);
    space->units += 1 + (uint64_t)space->model->op_count * space->tiles / 100;
    return !space->oom;
}

bool memory_fits(const struct space *space, const struct memory_use *use)
{
    return memory_excess(space, use) == 0;
}

uint64_t memory_excess(const struct space *space, const struct memory_use *use)
{
    uint64_t most = PLAN_INTERLEAVED_BYTES, limit = space->limit;
    if (limit > PLAN_TILE_BYTES)
        most = IPU21_SRAM_END - IPU21_REGION1_BASE;
    uint64_t over = use->total > limit ? use->total - limit : 0;
    over += use->text > PLAN_TEXT_MOST ? use->text - PLAN_TEXT_MOST : 0;
    return over + (use->bound > most ? use->bound - most : 0);
}

/* Bytes that the candidate alone takes on its fullest tile, for the memory price. */
uint64_t candidate_bytes(struct space *s, uint32_t index, uint32_t pick)
{
    const struct model_op *op = &s->model->ops[index];
    struct cand *cand = candidate_get(s, index, pick);
    if (cand == NULL || cand->bad)
        return UINT64_MAX / 4;
    if (op->flow->kind != FLOW_GEMM) {
        const struct lay *out = cand->out ? cand->out : lay_balanced(s, op->flow->out);
        if (cand->out == NULL && op->in_place && op->flow->kind != FLOW_CAST)
            return 0; /* stays where its operand is */
        return out == NULL ? 0 : (uint64_t)out->max_cells * op->out_words * 4 * 2;
    }
    return gemm_choice_bytes(op, &cand->choice);
}

/* --- program text --------------------------------------------------------------------------- */

static uint64_t call_bytes(const struct model_op *op, const struct cand *cand, uint32_t t)
{
    const struct plan_choice *c = &cand->choice;
    uint64_t jobs = cand->partial->own_at[t + 1] - cand->partial->own_at[t];
    uint64_t owns = cand->out->own_at[t + 1] - cand->out->own_at[t];
    uint64_t bytes = jobs * gemm_passes(c) * PLAN_GEMM_CALL_BYTES * (cand->parts / c->gk);
    if (cand->parts == 1)
        return bytes;
    return bytes + owns * gemm_sums_of(op, c).calls * PLAN_REDUCE_CALL_BYTES;
}

/* Row passes cut every run into panels. */
static void cut_runs(struct space *s, const struct lay *a, const struct cand *cand)
{
    uint32_t passes = cand->choice.row_passes, inners = cand->need_a->max_panels;
    for (uint32_t t = 0; t < s->tiles && passes > 1; t++) {
        uint32_t least = s->receive_runs[t] > 0 ? inners : 0;
        s->receive_runs[t] = s->receive_runs[t] > least ? s->receive_runs[t] : least;
        s->receive_runs[t] *= passes;
        s->send_runs[t] *= passes * a->max_panels;
    }
}

static void add_op_text(struct space *s, const uint16_t *pick, uint32_t index, uint64_t *text)
{
    const struct model_op *op = &s->model->ops[index];
    struct cand *cand = candidate_get(s, index, pick[index]);
    bool gemm = op->flow->kind == FLOW_GEMM;
    const struct plan_choice *c = &cand->choice;
    struct lay *a = solution_left(s, op, cand), *b = solution_source(s, &op->b);
    uint64_t runs = 0;
    traffic_reset(s);
    if (a != NULL && op->flow->kind != FLOW_PERMUTE)
        traffic_add(s, a, gemm ? cand->need_a : s->value[index], 8);
    if (gemm && a != NULL)
        cut_runs(s, a, cand);
    if (b != NULL && (gemm || op->flow->row_map.axes == 0))
        traffic_add(s, b, gemm ? gemm_right(s, op, cand) : need_second(s, op, s->value[index]), 8);
    if (gemm && c->gk > 1)
        runs = gemm_sums_of(op, c).runs * (c->gk - 1u);
    for (uint32_t t = 0; t < s->tiles; t++) {
        uint64_t received = s->receive_runs[t], sent = s->send_runs[t];
        received += op->flow->kind == FLOW_PERMUTE ? cand->cells[t] : 0;
        sent += op->flow->kind == FLOW_PERMUTE ? cand->cells[t] : 0;
        if (gemm && cand->partial->cells[t] > 0)
            sent += runs;
        if (gemm && cand->out->cells[t] > 0)
            received += runs;
        text[t] += received * PLAN_RECEIVE_BYTES + sent * PLAN_SEND_BYTES;
        if (received + sent > 0)
            text[t] += (gemm ? 2 * gemm_passes(c) : 1u) * PLAN_ROW_PHASE_BYTES;
        text[t] += gemm ? call_bytes(op, cand, t) : 0;
    }
}

bool solution_text(struct space *s, const uint16_t *pick, uint64_t *text)
{
    memset(text, 0, s->tiles * sizeof *text);
    if (!solution_layouts(s, pick))
        return false;
    for (uint32_t i = 0; i < s->model->op_count; i++) {
        const struct model_op *op = &s->model->ops[i];
        if (op->flow->kind != FLOW_REPEAT && !(op->op > 0 && s->model->ops[i - 1].fusable))
            add_op_text(s, pick, i, text);
    }
    return !s->oom;
}
