/* PERMUTE: fetch every source cell that a block needs, then gather its elements by a table.
 *
 * The cells of a block lie in ascending (panel, row) order, followed by a cell of zeros for the
 * padding where there is any. When the table would be the identity, the fetched cells are the
 * result and nothing is gathered. Blocks that need more cells than a table can name are done in
 * parts, panel by panel.
 */
#include "compiler/lower/internal.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_LIMIT = 65536 };

struct permute {
    struct lower *l;
    const struct flow_op *op;
    const struct flow_tensor *from, *to;
    uint32_t cell;
};

struct permute_part {
    uint16_t tile;
    struct box box; /* of the result */
    struct program_ref out;
    struct program_ref cells; /* fetched */
    uint32_t cell_count;
    bool identity, padded;
    uint16_t *table;
};

/* Source of element `at` of a box in panel order: *cell = panel << 32 | row, *lane its place in the
 * cell. False for padding. */
static bool source_of(const struct permute *p, const struct box *box, uint32_t at, uint64_t *cell,
                      uint32_t *lane)
{
    uint32_t row = box->row + at / 16 % box->rows;
    uint64_t column = 16ull * (box->panel + at / 16 / box->rows) + at % 16;
    if (column >= p->to->columns)
        return false;
    uint64_t from = (uint64_t)view_at(&p->op->view, row * p->to->columns + column);
    uint64_t c = from % p->from->columns;
    *cell = c / 16 << 32 | from / p->from->columns;
    *lane = (uint32_t)(c % 16);
    return true;
}

static int compare_u64(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

static uint32_t cell_rank(const uint64_t *cells, uint32_t count, uint64_t cell)
{
    uint32_t lo = 0, hi = count;
    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        if (cells[mid] <= cell)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* The distinct source cells of a box, ascending. NULL for lack of memory. */
static uint64_t *list_cells(const struct permute *p, const struct box *box, uint32_t *count,
                            bool *padded)
{
    uint32_t elements = cells_of(box) * 16, n = 0, lane, kept = 0;
    uint64_t *cells = ARENA_ARRAY(p->l->arena, uint64_t, elements);
    *padded = false;
    if (cells == NULL)
        return NULL;
    for (uint32_t at = 0; at < elements; at++) {
        bool real = source_of(p, box, at, &cells[n], &lane);
        *padded |= !real;
        n += real && (n == 0 || cells[n] != cells[n - 1]);
    }
    qsort(cells, n, sizeof *cells, compare_u64);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || cells[i] != cells[i - 1])
            cells[kept++] = cells[i];
    *count = kept;
    return cells;
}

/* Padding takes the cell of zeros after the others. When everything else is the identity, the
 * padding of the source cells serves as well. */
static bool fill_table(struct permute *p, struct permute_part *part, const uint64_t *cells)
{
    uint32_t count = cells_of(&part->box) * 16, lane = 0;
    part->table = ARENA_ARRAY(p->l->arena, uint16_t, count);
    if (part->table == NULL)
        return lower_oom(p->l);
    part->identity = part->cell_count == cells_of(&part->box);
    for (uint32_t at = 0; at < count; at++) {
        uint64_t cell;
        uint32_t index = part->cell_count * 16;
        if (source_of(p, &part->box, at, &cell, &lane)) {
            index = cell_rank(cells, part->cell_count, cell) * 16 + lane;
            part->identity &= index == at;
        }
        part->table[at] = (uint16_t)index;
    }
    return true;
}

/* --- fetching ------------------------------------------------------------------------------- */

static bool upload_run(struct permute *p, const struct box *run, struct program_ref to)
{
    const struct program_upload u = {.form = PROGRAM_CELLS,
                                     .to = to,
                                     .row = run->row,
                                     .rows = run->rows,
                                     .panel = run->panel,
                                     .panels = 1,
                                     .panel_stride = run->rows * p->cell};
    return upload_new(p->l, p->op->a, &u);
}

static bool fetch_cells(struct permute *p, struct permute_part *part, const uint64_t *cells)
{
    struct lower *l = p->l;
    for (uint32_t i = 0; i < part->cell_count;) {
        uint32_t n = 1;
        while (i + n < part->cell_count && cells[i + n] == cells[i] + n)
            n++;
        const struct box run = {(uint32_t)cells[i], n, (uint32_t)(cells[i] >> 32), 1};
        struct program_ref to = ref_add(part->cells, i * p->cell);
        bool good = is_host(l, p->op->a)
                        ? upload_run(p, &run, to)
                        : fetch_need(l, p->op->a, &run, part->tile, to, n * p->cell);
        if (!good)
            return false;
        i += n;
    }
    return true;
}

/* --- parts ---------------------------------------------------------------------------------- */

static bool prepare_part(struct permute *p, struct permute_part *part)
{
    struct lower *l = p->l;
    const struct flow_tensor *a = p->from;
    uint64_t *cells = list_cells(p, &part->box, &part->cell_count, &part->padded);
    if (cells == NULL)
        return lower_oom(l);
    if ((part->cell_count + 1) * 16 > TABLE_LIMIT)
        return lower_fail(l, IPU_ERR_LIMIT,
                          "a panel of a rearranged value takes its elements from %u cells of the "
                          "source; at most %d can be gathered",
                          part->cell_count, TABLE_LIMIT / 16 - 1);
    if (!fill_table(p, part, cells))
        return false;
    uint32_t members = a->source == FLOW_SEQUENCE ? a->member_count : 1;
    if (part->identity && members == 1) {
        part->cells = part->out;
    } else {
        part->identity = false;
        uint64_t bytes = (uint64_t)(part->cell_count + part->padded) * p->cell;
        part->cells = (struct program_ref){buffer_new(l, part->tile, bytes, members), 0};
    }
    return l->code == 0 && fetch_cells(p, part, cells);
}

static bool emit_part(struct permute *p, uint32_t step, const struct permute_part *part)
{
    struct lower *l = p->l;
    if (part->identity)
        return true;
    if (part->padded) {
        struct program_call *fill = call_plain(l, step, part->tile, KERNEL_FILL);
        if (fill == NULL)
            return false;
        call_buffer(l, step, fill, 0, ref_add(part->cells, part->cell_count * p->cell));
        call_number(fill, 1, p->cell);
        call_number(fill, 2, 0);
    }
    struct program_table *table = vec_push(l, &l->tables, sizeof *table);
    struct program_call *call =
        call_plain(l, step, part->tile, p->cell == 64 ? KERNEL_GATHER32 : KERNEL_GATHER16);
    if (table == NULL || call == NULL)
        return false;
    table->count = cells_of(&part->box) * 16;
    table->entries = part->table;
    call->args[0] = (struct program_arg){PROGRAM_TABLE, l->tables.count - 1, 0};
    call_buffer(l, step, call, 1, part->cells);
    call_buffer(l, step, call, 2, part->out);
    call_number(call, 3, table->count);
    return true;
}

/* Blocks whose elements may come from too many cells are cut into single panels. */
static bool list_parts(struct permute *p, const struct home *home, struct vec *parts)
{
    for (uint32_t i = 0; i < home->count; i++) {
        const struct home_block *b = &home->blocks[i];
        uint32_t step = (cells_of(&b->box) + 1) * 16 <= TABLE_LIMIT / 16 ? b->box.panels : 1;
        for (uint32_t n = 0; n < b->box.panels; n += step) {
            struct permute_part *part = vec_push(p->l, parts, sizeof *part);
            if (part == NULL)
                return false;
            part->tile = b->tile;
            part->box = (struct box){b->box.row, b->box.rows, b->box.panel + n, step};
            part->out = ref_add(b->ref, n * b->stride);
        }
    }
    return true;
}

bool lower_permute(struct lower *l, const struct flow_op *op, const struct plan_op *plan)
{
    const struct flow_tensor *t = l->flow->tensors;
    struct permute p = {l, op, &t[op->a], &t[op->out], program_cell_bytes(t[op->out].type)};
    struct vec list = {0};
    uint32_t step = step_next(l);
    bool gathers = false;
    if (!result_home(l, op->out, &plan->out, 0))
        return false;
    struct home *home = &l->homes[op->out];
    if (!list_parts(&p, home, &list))
        return false;
    struct permute_part *parts = list.items;
    for (uint32_t i = 0; i < list.count; i++) {
        if (!prepare_part(&p, &parts[i]))
            return false;
        gathers |= !parts[i].identity;
        home->read_only |= parts[i].identity && is_host(l, op->a);
    }
    if (!fetch_flush(l, false))
        return false;
    if ((gathers || l->copies.count > 0) && !compute_open(l, &step))
        return false;
    for (uint32_t i = 0; i < list.count; i++)
        if (!emit_part(&p, step, &parts[i]))
            return false;
    home->ready = step;
    home_touch(l, home, step);
    return true;
}
