/* What a product takes of a tile's memory, and its variants that take less.
 *
 * Weights are stored once for all passes; operands that travel, partials and gathered weights exist
 * for one pass only. A thrifty choice lets weights lie in either region in buffers small enough to
 * fill gaps, lets a host operand travel instead of lying on every tile that wants it, and has as
 * many passes as bring the bytes of one pass under a target. Constant functions.
 */
#include "compiler/plan/internal.h"

static uint64_t ceil_div(uint64_t n, uint64_t d)
{
    return (n + d - 1) / d;
}

static bool travels(const struct model_op *op, const struct plan_choice *c)
{
    return op->a.kind != SOURCE_HOST || (c->flags & CHOICE_STAGED) != 0;
}

/* Bytes that a job needs only while one of its passes runs. */
static uint64_t pass_bytes(const struct model_op *op, const struct plan_choice *c)
{
    const struct gemm_pass pass = gemm_pass_of(op, c);
    uint64_t inners = ceil_div(op->inners, c->gk), bytes = 0;
    uint64_t parts = c->gk * (uint64_t)gemm_chunks((uint32_t)inners, c->chunk);
    if (travels(op, c))
        bytes += pass.rows * inners * 32;
    if (op->b.kind != SOURCE_HOST)
        bytes += pass.panels * inners * 1024;
    if (parts == 1)
        return bytes;
    uint64_t piece = (uint64_t)pass.piece_rows * pass.piece_panels;
    return bytes + (uint64_t)pass.rows * pass.panels * 32 * (parts / c->gk) + piece * 32 * parts;
}

static uint64_t weight_bytes(const struct model_op *op, const struct plan_choice *c)
{
    if (op->b.kind != SOURCE_HOST)
        return 0;
    return ceil_div(op->inners, c->gk) * ceil_div(op->panels, c->gn) * 512 * op->b.copies;
}

uint64_t gemm_choice_bytes(const struct model_op *op, const struct plan_choice *c)
{
    uint64_t rows = ceil_div(op->rows, c->gm), panels = ceil_div(op->panels, c->gn);
    uint64_t pieces = c->replicate ? 1 : (uint64_t)c->sr * c->sp;
    uint64_t bytes = weight_bytes(op, c) + pass_bytes(op, c) + rows * panels * 32 / pieces;
    if (!travels(op, c))
        bytes += rows * ceil_div(op->inners, c->gk) * 32 * op->a.copies;
    return bytes * ceil_div(op->batch, c->gb);
}

/* Fewest panel passes that keep a weight buffer small and a pass's gathered weights in bounds. */
static uint64_t panel_passes(const struct model_op *op, const struct plan_choice *c,
                             uint64_t target)
{
    uint64_t panels = ceil_div(op->panels, c->gn), inners = ceil_div(op->inners, c->gk);
    uint64_t parts = ceil_div(weight_bytes(op, c), PLAN_WEIGHT_BUFFER);
    if (op->b.kind != SOURCE_HOST)
        parts = ceil_div(panels * inners * 1024, target);
    parts = parts < 1 ? 1 : parts < panels ? parts : panels;
    return parts < UINT8_MAX ? parts : UINT8_MAX;
}

struct gemm_sums gemm_sums_of(const struct model_op *op, const struct plan_choice *c)
{
    const struct gemm_pass pass = gemm_pass_of(op, c);
    uint64_t rows = c->replicate ? 1 : c->sr, panels = c->replicate ? 1 : c->sp;
    uint64_t row_parts = ceil_div(c->row_passes, rows);
    uint64_t panel_parts = ceil_div(c->panel_passes, panels) + (c->panel_passes > 1 && panels > 1);
    uint64_t piece = ceil_div(ceil_div(op->panels, c->gn), panels);
    uint64_t single = row_parts * (piece + panel_parts - 1), whole = row_parts * panel_parts;
    bool cut = c->row_passes > 1 && c->row_passes != rows;
    return (struct gemm_sums){cut ? single : whole, pass.piece_rows == pass.rows ? whole : single};
}

/* Bytes of rows and argument blocks that the passes of a job take, roughly. */
static uint64_t pass_text(const struct model_op *op, const struct plan_choice *c)
{
    uint64_t inners = ceil_div(op->inners, c->gk), passes = gemm_passes(c), text = 0;
    uint64_t chunks = gemm_chunks((uint32_t)inners, c->chunk);
    if (travels(op, c))
        text += c->row_passes * inners * PLAN_RECEIVE_BYTES;
    text += passes * chunks * PLAN_GEMM_CALL_BYTES;
    if (c->gk * chunks == 1)
        return text;
    const struct gemm_sums sums = gemm_sums_of(op, c);
    text += sums.runs * (c->gk - 1u) * PLAN_RECEIVE_BYTES + passes * PLAN_SEND_BYTES;
    return text + sums.calls * PLAN_REDUCE_CALL_BYTES;
}

static bool set_row_passes(const struct model_op *op, uint64_t passes, struct plan_choice *c)
{
    uint64_t rows = ceil_div(op->rows, c->gm);
    /* Passes that end where pieces end: each piece is contiguous and belongs to one pass. */
    if (passes > 1)
        passes = ceil_div(passes, c->sr) * c->sr;
    if (passes > rows || passes > UINT8_MAX)
        return false;
    c->row_passes = (uint8_t)passes;
    return true;
}

/* The first number of passes under the target; without a target, the one that takes least. */
static void choose_row_passes(const struct model_op *op, uint64_t target, struct plan_choice *c)
{
    uint64_t least = UINT64_MAX;
    struct plan_choice best = *c;
    for (uint64_t n = 1; set_row_passes(op, n, c); n = c->row_passes + 1u) {
        uint64_t bytes = pass_bytes(op, c) + (target ? 0 : pass_text(op, c));
        if (bytes < least) {
            least = bytes;
            best = *c;
        }
        if (bytes <= target)
            break;
    }
    *c = best;
}

void choice_thrift(const struct model_op *op, enum thrift thrift, struct plan_choice *c)
{
    uint64_t jobs = ceil_div(op->batch, c->gb), target = PLAN_PASS_BYTES / jobs;
    if (thrift == THRIFT_NONE)
        return;
    c->flags = CHOICE_ANYWHERE;
    if (op->a.kind == SOURCE_HOST && op->a.copies == 1 && c->gn > 1)
        c->flags |= CHOICE_STAGED;
    c->row_passes = 1;
    c->panel_passes = (uint8_t)panel_passes(op, c, target > 0 ? target : 1);
    c->chunk = PLAN_CHUNK_PANELS; /* an upper bound; gemm_choice_fix() balances it */
    choose_row_passes(op, thrift == THRIFT_SOME ? target : 0, c);
}
