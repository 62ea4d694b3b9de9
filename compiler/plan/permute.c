/* Which source cells a permuted result needs, tile by tile.
 *
 * Every element of a block is traced to its source element; distinct source cells (one row, 16
 * columns) are counted. Past PERMUTE_TRACE_LIMIT elements the count is the upper bound of one cell
 * per element, at most all cells. Fails only for lack of memory.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"

enum { PERMUTE_TRACE_LIMIT = 1 << 22 };

struct trace {
    const struct flow_view *view;
    uint64_t columns;        /* of the result */
    uint64_t source_columns; /* of the operand */
    uint32_t source_panels;
    uint32_t *seen; /* by source cell: id of the tile that met it last */
    uint64_t cells;
};

/* Source flat index of result element `flat`. */
static int64_t view_at(const struct flow_view *view, uint64_t flat)
{
    int64_t at = 0;
    for (unsigned i = view->axes; i-- > 0;) {
        at += (int64_t)(flat % view->axis[i].count) * view->axis[i].stride;
        flat /= view->axis[i].count;
    }
    return at;
}

static uint32_t trace_row(struct trace *trace, uint32_t id, uint64_t row, uint64_t from,
                          uint64_t to)
{
    uint32_t found = 0;
    const struct flow_view *view = trace->view;
    uint64_t inner = view->axes ? view->axis[view->axes - 1].count : 1;
    int64_t stride = view->axes ? view->axis[view->axes - 1].stride : 0;
    for (uint64_t flat = row * trace->columns + from; flat < row * trace->columns + to;) {
        uint64_t run = inner - flat % inner, left = row * trace->columns + to - flat;
        run = run < left ? run : left;
        int64_t at = view_at(view, flat);
        for (uint64_t i = 0; i < run; i++, at += stride) {
            uint64_t r = (uint64_t)at / trace->source_columns;
            uint64_t cell = r * trace->source_panels + (uint64_t)at % trace->source_columns / 16;
            if (cell >= trace->cells || trace->seen[cell] == id)
                continue;
            trace->seen[cell] = id;
            found++;
        }
        flat += run;
    }
    return found;
}

static uint32_t trace_tile(struct trace *trace, const struct lay *out, uint32_t t)
{
    uint32_t found = 0;
    for (uint32_t i = out->own_at[t]; i < out->own_at[t + 1]; i++) {
        uint32_t r = out->own[i] / out->np, p = out->own[i] % out->np;
        uint64_t from = 16ull * out->panel_cut[p], to = 16ull * out->panel_cut[p + 1];
        to = to < trace->columns ? to : trace->columns;
        for (uint32_t row = out->row_cut[r]; row < out->row_cut[r + 1]; row++)
            found += trace_row(trace, t + 1, row, from, to);
    }
    return found;
}

static uint32_t bound_tile(const struct lay *out, uint32_t t, uint64_t cells)
{
    uint64_t elements = 0;
    for (uint32_t i = out->own_at[t]; i < out->own_at[t + 1]; i++) {
        uint32_t r = out->own[i] / out->np, p = out->own[i] % out->np;
        elements += 16ull * (out->row_cut[r + 1] - out->row_cut[r]) *
                    (out->panel_cut[p + 1] - out->panel_cut[p]);
    }
    return (uint32_t)(elements < cells ? elements : cells);
}

bool permute_cells(struct space *space, const struct model_op *op, const struct lay *out,
                   uint32_t *by_tile)
{
    const struct flow *flow = space->model->flow;
    const struct flow_tensor *a = &flow->tensors[op->flow->a], *to = &flow->tensors[op->flow->out];
    struct trace trace = {
        &op->flow->view, to->columns, a->columns, (uint32_t)plan_panels(a->columns), NULL, 0};
    trace.cells = a->rows * trace.source_panels;
    bool exact = to->rows * to->columns <= PERMUTE_TRACE_LIMIT;
    if (exact) {
        trace.seen = ipu_calloc(trace.cells, sizeof *trace.seen);
        if (trace.seen == NULL) {
            space->oom = true;
            return false;
        }
    }
    for (uint32_t t = 0; t < space->tiles; t++)
        by_tile[t] = exact ? trace_tile(&trace, out, t) : bound_tile(out, t, trace.cells);
    ipu_free(trace.seen);
    return true;
}
