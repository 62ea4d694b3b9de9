/* Loop nests between host tensors and streams.
 *
 * A host tensor is read through a view; columns of a tensor usually step through the host data with
 * few strides, and so do rows. Each axis of a box is cut into progressions (count, host stride,
 * stream stride on each of several levels); every pair of a row progression and a column
 * progression is one nest. Views whose rows and columns do not separate are written row by row.
 * Padding gets no nest, so it is zero.
 */
#include "compiler/codegen/internal.h"

#include <assert.h>
#include <string.h>

enum { LEVELS = 5, ROW_LEVELS = 3, WEIGHT_BYTES = 512 };

/* Elements at host + sum i[k] * level[k].host, stream + sum i[k] * level[k].stream. */
struct progression {
    int64_t host, stream;
    unsigned levels; /* innermost first */
    struct {
        uint32_t count;
        int64_t host, stream;
    } level[LEVELS];
};

struct points {
    struct progression *list;
    uint32_t count;
};

struct nester {
    const struct flow *flow;
    const struct program *program;
    const struct host_plan *plan;
    struct package *package;
    struct ipu_error *error;
    enum package_call call;
    uint16_t tile, tensor;
    struct points rows, columns;
    uint32_t limit; /* capacity of both */
};

/* --- progressions --------------------------------------------------------------------------- */

static bool same_shape(const struct progression *a, const struct progression *b)
{
    if (a->levels != b->levels)
        return false;
    for (unsigned k = 0; k < a->levels; k++)
        if (a->level[k].count != b->level[k].count || a->level[k].host != b->level[k].host ||
            a->level[k].stream != b->level[k].stream)
            return false;
    return true;
}

/* Folds equal neighbours at equal distances into one progression with one more level. */
static void fold(struct points *p, unsigned levels)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->count;) {
        struct progression first = p->list[i];
        uint32_t n = 1;
        int64_t host = 0, stream = 0;
        while (i + n < p->count && first.levels < levels && same_shape(&first, &p->list[i + n])) {
            int64_t dh = p->list[i + n].host - p->list[i + n - 1].host;
            int64_t ds = p->list[i + n].stream - p->list[i + n - 1].stream;
            if (n > 1 && (dh != host || ds != stream))
                break;
            host = dh;
            stream = ds;
            n++;
        }
        if (n > 1) {
            first.level[first.levels].count = n;
            first.level[first.levels].host = host;
            first.level[first.levels++].stream = stream;
        }
        p->list[kept++] = first;
        i += n;
    }
    p->count = kept;
}

static void compress(struct points *p, unsigned levels)
{
    for (unsigned k = 0; k < levels; k++)
        fold(p, levels);
}

static void point_add(struct points *p, int64_t host, int64_t stream)
{
    memset(&p->list[p->count], 0, sizeof *p->list);
    p->list[p->count].host = host;
    p->list[p->count++].stream = stream;
}

/* --- writing -------------------------------------------------------------------------------- */

static int add_nest(struct nester *n, const struct progression *a, const struct progression *b)
{
    struct package_nest nest = {.tile = n->tile, .tensor = n->tensor};
    const struct progression *parts[] = {a, b};
    nest.host_offset = (uint64_t)(a->host + b->host);
    nest.stream_offset = (uint32_t)(a->stream + b->stream);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = parts[i]->levels; k-- > 0;) {
            nest.dim[nest.dims].count = parts[i]->level[k].count;
            nest.dim[nest.dims].host_stride = parts[i]->level[k].host;
            nest.dim[nest.dims++].stream_stride = (int32_t)parts[i]->level[k].stream;
        }
    int code = package_add_nest(n->package, n->call, &nest);
    if (code < 0)
        return ipu_error_set(n->error, code, "codegen: a loop nest was refused");
    return 0;
}

static int add_product(struct nester *n)
{
    unsigned deepest = 1;
    compress(&n->rows, ROW_LEVELS);
    for (uint32_t r = 0; r < n->rows.count; r++)
        deepest = n->rows.list[r].levels > deepest ? n->rows.list[r].levels : deepest;
    compress(&n->columns, PACKAGE_NEST_DIMS - deepest);
    for (uint32_t r = 0; r < n->rows.count; r++)
        for (uint32_t c = 0; c < n->columns.count; c++) {
            int code = add_nest(n, &n->rows.list[r], &n->columns.list[c]);
            if (code != 0)
                return code;
        }
    return 0;
}

/* --- views ---------------------------------------------------------------------------------- */

static int64_t host_at(const struct flow_view *view, uint64_t flat)
{
    int64_t at = 0;
    for (unsigned i = view->axes; i-- > 0;) {
        assert(view->axis[i].count > 0);
        at += (int64_t)(flat % view->axis[i].count) * view->axis[i].stride;
        flat /= view->axis[i].count;
    }
    return at;
}

/* Whether element (row, column) lies at f(row) + g(column): the axes split at the columns. */
static bool separable(const struct flow_view *view, uint64_t columns)
{
    uint64_t inner = 1;
    for (unsigned i = view->axes; i-- > 0 && inner < columns;) {
        uint64_t count = view->axis[i].count;
        if (inner * count > columns)
            return columns % inner == 0 && count % (columns / inner) == 0;
        inner *= count;
    }
    return inner == columns;
}

static int reserve(struct nester *n, uint32_t points)
{
    if (points <= n->limit)
        return 0;
    return ipu_error_set(n->error, IPU_ERR_INTERNAL, "codegen: a box of %u lines is too large",
                         points);
}

/* --- boxes in panel order ------------------------------------------------------------------- */

struct cells {
    const struct flow_view *view;
    const struct flow_view *row_map;
    uint64_t columns; /* of the tensor */
    uint32_t row, rows, panel, panels, unit;
    int64_t stream, panel_stride;
};

static uint64_t source_row(const struct cells *c, uint32_t row)
{
    return c->row_map ? (uint64_t)host_at(c->row_map, row) : row;
}

static int64_t row_host(const struct cells *c, uint32_t row)
{
    return host_at(c->view, source_row(c, row) * c->columns);
}

/* Column points relative to the row's first element. */
static void list_columns(struct nester *n, const struct cells *c, uint64_t row)
{
    uint64_t from = 16ull * c->panel, to = 16ull * (c->panel + c->panels);
    int64_t base = host_at(c->view, row * c->columns);
    to = to < c->columns ? to : c->columns;
    n->columns.count = 0;
    for (uint64_t k = from; k < to; k++)
        point_add(&n->columns, host_at(c->view, row * c->columns + k) - base,
                  (int64_t)((k - from) / 16) * c->panel_stride +
                      (int64_t)(k % 16) * (int64_t)c->unit);
}

static int add_cells(struct nester *n, const struct cells *c)
{
    int64_t line = 16ll * c->unit;
    int code = reserve(n, c->rows > 16 * c->panels ? c->rows : 16 * c->panels);
    if (code != 0)
        return code;
    if (separable(c->view, c->columns)) {
        list_columns(n, c, 0);
        n->rows.count = 0;
        for (uint32_t r = 0; r < c->rows; r++)
            point_add(&n->rows, row_host(c, c->row + r), c->stream + r * line);
        return add_product(n);
    }
    for (uint32_t r = 0; r < c->rows && code == 0; r++) {
        list_columns(n, c, source_row(c, c->row + r));
        n->rows.count = 0;
        point_add(&n->rows, row_host(c, c->row + r), c->stream + r * line);
        code = add_product(n);
    }
    return code;
}

/* --- weights -------------------------------------------------------------------------------- */

/* Coefficient panels of one chunk: inner panels [first, first + count) of the box. */
struct weights {
    const struct program_upload *u;
    const struct flow_view *view;
    uint64_t columns;
    uint32_t first, count;
    int64_t stream;
};

static uint32_t weight_rows(const struct weights *w)
{
    uint32_t left = w->u->rows - 16 * w->first, all = 16 * w->count;
    return left < all ? left : all;
}

static int64_t weight_k(uint32_t k)
{
    return 2ll * kernel_weight_slot(k % 16, 0) + (int64_t)(k / 16) * WEIGHT_BYTES;
}

static void list_weight_columns(struct nester *n, const struct weights *w, uint64_t row)
{
    uint64_t from = 16ull * w->u->panel, to = from + 16ull * w->u->panels;
    int64_t base = host_at(w->view, row * w->columns);
    to = to < w->columns ? to : w->columns;
    n->columns.count = 0;
    for (uint64_t c = from; c < to; c++)
        point_add(&n->columns, host_at(w->view, row * w->columns + c) - base,
                  (int64_t)((c - from) / 16) * w->count * WEIGHT_BYTES +
                      2ll * kernel_weight_slot(0, (unsigned)(c % 16)));
}

/* The slot of (k, n) is the sum of those of (k, 0) and (0, n): both are bit fields of it. */
static int add_chunk(struct nester *n, const struct weights *w)
{
    uint32_t row = w->u->row + 16 * w->first, rows = weight_rows(w);
    int code = reserve(n, rows > 16 * w->u->panels ? rows : 16 * w->u->panels);
    if (code != 0)
        return code;
    bool one = separable(w->view, w->columns);
    n->rows.count = 0;
    for (uint32_t k = 0; k < rows && code == 0; k++) {
        if (!one)
            n->rows.count = 0;
        point_add(&n->rows, host_at(w->view, (uint64_t)(row + k) * w->columns),
                  w->stream + weight_k(k));
        if (one && k + 1 < rows)
            continue;
        list_weight_columns(n, w, one ? 0 : row + k);
        code = add_product(n);
    }
    return code;
}

static int add_weights(struct nester *n, const struct program_upload *u,
                       const struct flow_tensor *t, int64_t stream)
{
    uint32_t inners = (u->rows + 15) / 16;
    for (uint32_t c = 0; c < inners; c += u->chunk) {
        struct weights w = {.u = u, .view = &t->view, .columns = t->columns, .first = c};
        w.count = inners - c < u->chunk ? inners - c : u->chunk;
        w.stream = stream + (int64_t)c * u->panels * WEIGHT_BYTES;
        int code = add_chunk(n, &w);
        if (code != 0)
            return code;
    }
    return 0;
}

/* --- all of a program ----------------------------------------------------------------------- */

static int add_upload(struct nester *n, const struct program_upload *u)
{
    const struct flow_tensor *t = &n->flow->tensors[u->tensor];
    const struct program_buffer *b = &n->program->buffers[u->to.buffer];
    bool parameter = t->source == FLOW_PARAMETER;
    uint32_t member = n->plan->member_base[u->to.buffer] + u->member;
    int64_t stream =
        (int64_t)n->plan->stream_at[parameter ? HOST_INITIALIZE : HOST_RUN_IN][member] +
        u->to.offset;
    n->call = parameter ? PACKAGE_INITIALIZE : PACKAGE_RUN;
    n->tile = b->tile;
    n->tensor = (uint16_t)t->host;
    if (u->form == PROGRAM_WEIGHTS)
        return add_weights(n, u, t, stream);
    const struct cells c = {.view = &t->view,
                            .row_map = u->row_map,
                            .columns = t->columns,
                            .row = u->row,
                            .rows = u->rows,
                            .panel = u->panel,
                            .panels = u->panels,
                            .unit = t->type == FLOW_F32 ? 4 : 2,
                            .stream = stream,
                            .panel_stride = u->panel_stride};
    return add_cells(n, &c);
}

static int add_download(struct nester *n, uint32_t index)
{
    const struct program_download *d = &n->program->downloads[index];
    const struct flow_tensor *t = &n->flow->tensors[n->flow->outputs[d->output].tensor];
    struct flow_view view;
    memset(&view, 0, sizeof view);
    view.axes = 1;
    view.axis[0].count = t->rows * t->columns;
    view.axis[0].stride = 1;
    n->call = PACKAGE_RUN;
    n->tile = n->program->buffers[d->from.buffer].tile;
    n->tensor = (uint16_t)(n->flow->host_count + d->output);
    uint32_t unit = t->type == FLOW_F32 ? 4 : 2;
    const struct cells c = {.view = &view,
                            .columns = t->columns,
                            .row = d->row,
                            .rows = d->rows,
                            .panel = d->panel,
                            .panels = d->panels,
                            .unit = unit,
                            .stream = n->plan->download_stream[index],
                            .panel_stride = 16ll * unit * d->rows};
    return add_cells(n, &c);
}

static uint32_t most_lines(const struct program *p)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < p->upload_count; i++) {
        const struct program_upload *u = &p->uploads[i];
        most = u->rows > most ? u->rows : most;
        most = 16 * u->panels > most ? 16 * u->panels : most;
    }
    for (uint32_t i = 0; i < p->download_count; i++) {
        const struct program_download *d = &p->downloads[i];
        most = d->rows > most ? d->rows : most;
        most = 16 * d->panels > most ? 16 * d->panels : most;
    }
    return most;
}

int nests_add(const struct flow *flow, const struct program *program, const struct host_plan *plan,
              struct package *package, struct ipu_error *error)
{
    struct nester n = {
        .flow = flow, .program = program, .plan = plan, .package = package, .error = error};
    struct arena *arena = arena_create(0);
    int code = 0;
    n.limit = most_lines(program);
    n.rows.list = arena ? ARENA_ARRAY(arena, struct progression, n.limit) : NULL;
    n.columns.list = arena ? ARENA_ARRAY(arena, struct progression, n.limit) : NULL;
    if (n.rows.list == NULL || n.columns.list == NULL)
        code = ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory for loop nests");
    for (uint32_t i = 0; i < program->upload_count && code == 0; i++)
        code = add_upload(&n, &program->uploads[i]);
    for (uint32_t i = 0; i < program->download_count && code == 0; i++)
        code = add_download(&n, i);
    arena_destroy(arena);
    return code;
}
