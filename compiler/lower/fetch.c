/* From needs to transfers: which tile sends what to whom.
 *
 * Every need is cut along the blocks of the value's home into pieces. Equal pieces of one block
 * group wanted by several tiles become one multicast; the sending replica is the one that has sent
 * least so far. A piece that its own tile holds is received like the others when it travels anyway,
 * and copied locally when it does not. Runs that are contiguous at the source and at every
 * destination are merged. Requires homes that cover the needs (else IPU_ERR_INTERNAL).
 */
#include "compiler/lower/internal.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    uint32_t tensor, group;
    struct box box;
    uint32_t need;
    uint16_t tile;
    bool local;
};

struct flush {
    struct lower *l;
    uint32_t step; /* the exchange step, once there is one */
    bool open, hoist;
    struct vec pieces, rest;
};

bool fetch_need(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                struct program_ref to, uint32_t stride)
{
    struct need *n = vec_push(l, &l->needs, sizeof *n);
    if (n == NULL)
        return false;
    *n = (struct need){tensor, *box, (uint16_t)tile, to, stride};
    return true;
}

/* --- pieces --------------------------------------------------------------------------------- */

/* Pushes what is left of `whole` around `hole`. */
static bool push_rest(struct lower *l, struct vec *rest, const struct box *whole,
                      const struct box *hole)
{
    uint32_t row_end = whole->row + whole->rows, hole_end = hole->row + hole->rows;
    uint32_t right = hole->panel + hole->panels, end = whole->panel + whole->panels;
    const struct box parts[] = {
        {whole->row, hole->row - whole->row, whole->panel, whole->panels},
        {hole_end, row_end - hole_end, whole->panel, whole->panels},
        {hole->row, hole->rows, whole->panel, hole->panel - whole->panel},
        {hole->row, hole->rows, right, end - right},
    };
    for (unsigned i = 0; i < 4; i++) {
        if (cells_of(&parts[i]) == 0)
            continue;
        struct box *b = vec_push(l, rest, sizeof *b);
        if (b == NULL)
            return false;
        *b = parts[i];
    }
    return true;
}

static bool group_on_tile(const struct home *h, const struct home_group *g, unsigned tile)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (h->blocks[h->members[g->first + i]].tile == tile)
            return true;
    return false;
}

/* Takes the part of every open box of the need that group `g` holds. */
static bool take_group(struct flush *f, const struct home *h, uint32_t g, uint32_t need, bool local)
{
    const struct need *n = (const struct need *)f->l->needs.items + need;
    uint32_t open = f->rest.count;
    for (uint32_t i = 0; i < open;) {
        struct box whole = ((struct box *)f->rest.items)[i], common;
        if (!box_common(&whole, &h->groups[g].box, &common)) {
            i++;
            continue;
        }
        struct piece *p = vec_push(f->l, &f->pieces, sizeof *p);
        if (p == NULL)
            return false;
        *p = (struct piece){n->tensor, g, common, need, n->tile, local};
        struct box *boxes = f->rest.items;
        boxes[i] = boxes[--open];
        boxes[open] = boxes[--f->rest.count];
        if (!push_rest(f->l, &f->rest, &whole, &common))
            return false;
    }
    return true;
}

static bool cut_need(struct flush *f, uint32_t index)
{
    struct lower *l = f->l;
    const struct need *n = (const struct need *)l->needs.items + index;
    const struct home *h = &l->homes[n->tensor];
    if (!h->known)
        return lower_fail(l, IPU_ERR_INTERNAL, "value %u is read before it exists", n->tensor);
    f->rest.count = 0;
    struct box *whole = vec_push(l, &f->rest, sizeof *whole);
    if (whole == NULL)
        return false;
    *whole = n->box;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t g = 0; g < h->group_count && f->rest.count > 0; g++) {
            struct box common;
            if (!box_common(&n->box, &h->groups[g].box, &common))
                continue;
            if (pass == 0 && !group_on_tile(h, &h->groups[g], n->tile))
                continue;
            if (!take_group(f, h, g, index, pass == 0))
                return false;
        }
    if (f->rest.count > 0)
        return lower_fail(l, IPU_ERR_INTERNAL, "no tile holds all of value %u", n->tensor);
    return true;
}

static int compare_u32(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_place(const struct piece *a, const struct piece *b)
{
    int c = compare_u32(a->tensor, b->tensor);
    c = c ? c : compare_u32(a->group, b->group);
    c = c ? c : compare_u32(a->box.row, b->box.row);
    c = c ? c : compare_u32(a->box.panel, b->box.panel);
    c = c ? c : compare_u32(a->box.rows, b->box.rows);
    return c ? c : compare_u32(a->box.panels, b->box.panels);
}

static int compare_pieces(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    int c = compare_place(a, b);
    c = c ? c : compare_u32(a->tile, b->tile);
    return c ? c : compare_u32(a->need, b->need);
}

/* --- runs ----------------------------------------------------------------------------------- */

static struct program_ref piece_to(const struct lower *l, const struct piece *p, uint32_t panel)
{
    const struct need *n = (const struct need *)l->needs.items + p->need;
    uint32_t cell = program_cell_bytes(l->homes[p->tensor].type);
    return ref_add(n->to, (panel - n->box.panel) * n->stride + (p->box.row - n->box.row) * cell);
}

/* Panels that form one run at the source and at all destinations: all of the piece, or one. */
static uint32_t run_panels(const struct lower *l, const struct home_block *from,
                           const struct piece *pieces, uint32_t count)
{
    uint32_t run = pieces->box.rows * program_cell_bytes(l->homes[pieces->tensor].type);
    if (from->stride != run)
        return 1;
    for (uint32_t i = 0; i < count; i++)
        if (((const struct need *)l->needs.items)[pieces[i].need].stride != run)
            return 1;
    return pieces->box.panels;
}

static bool add_copy(struct lower *l, unsigned tile, struct program_ref from, struct program_ref to,
                     uint32_t bytes)
{
    struct local_copy *copies = l->copies.items;
    struct local_copy *last = l->copies.count > 0 ? &copies[l->copies.count - 1] : NULL;
    if (last != NULL && last->tile == tile && last->copy.source.buffer == from.buffer &&
        last->copy.destination.buffer == to.buffer &&
        last->copy.source.offset + last->copy.bytes == from.offset &&
        last->copy.destination.offset + last->copy.bytes == to.offset) {
        last->copy.bytes += bytes;
        return true;
    }
    struct local_copy *c = vec_push(l, &l->copies, sizeof *c);
    if (c == NULL)
        return false;
    *c = (struct local_copy){(uint16_t)tile, {from, to, bytes}};
    return true;
}

static bool copy_piece(struct lower *l, const struct piece *p)
{
    const struct home *h = &l->homes[p->tensor];
    const struct home_block *from = home_local(h, p->tile, &p->box);
    if (from == NULL)
        return lower_fail(l, IPU_ERR_INTERNAL, "a local piece is not local");
    uint32_t step = run_panels(l, from, p, 1);
    uint32_t bytes = p->box.rows * step * program_cell_bytes(h->type);
    for (uint32_t i = 0; i < p->box.panels; i += step) {
        struct box at = {p->box.row, p->box.rows, p->box.panel + i, step};
        if (!add_copy(l, p->tile, home_ref(from, &at, h->type), piece_to(l, p, at.panel), bytes))
            return false;
    }
    return true;
}

/* --- transfers ------------------------------------------------------------------------------ */

/* The exchange step: an earlier one of this region instance when everything is ready before it. */
static bool open_exchange(struct flush *f)
{
    struct lower *l = f->l;
    const struct need *needs = l->needs.items;
    uint32_t ready = 0;
    if (f->open)
        return true;
    f->open = true;
    for (uint32_t i = 0; i < l->needs.count; i++)
        if (l->homes[needs[i].tensor].ready > ready)
            ready = l->homes[needs[i].tensor].ready;
    for (uint32_t s = step_next(l); f->hoist && s > l->region_start && s - 1 > ready; s--)
        if (step_at(l, s - 1)->kind == PROGRAM_EXCHANGE) {
            f->step = s - 1;
            return true;
        }
    f->step = step_new(l, PROGRAM_EXCHANGE);
    return l->code == 0;
}

static bool send_run(struct flush *f, const struct home_block *from, const struct piece *pieces,
                     uint32_t count, uint32_t panel, uint32_t panels)
{
    struct lower *l = f->l;
    enum flow_type type = l->homes[pieces->tensor].type;
    struct open_step *open = (struct open_step *)l->open.items + f->step;
    struct program_transfer *t = vec_push(l, &open->transfers, sizeof *t);
    struct program_target *targets = ARENA_ARRAY(l->arena, struct program_target, count);
    if (t == NULL || targets == NULL)
        return lower_oom(l);
    struct box at = {pieces->box.row, pieces->box.rows, panel, panels};
    *t = (struct program_transfer){from->tile, home_ref(from, &at, type),
                                   cells_of(&at) * program_cell_bytes(type) / 4, count, targets};
    buffer_touch(l, t->source.buffer, f->step);
    buffer_at(l, t->source.buffer)->exchanged = true;
    for (uint32_t i = 0; i < count; i++) {
        targets[i] = (struct program_target){pieces[i].tile, piece_to(l, &pieces[i], panel)};
        buffer_touch(l, targets[i].destination.buffer, f->step);
        buffer_at(l, targets[i].destination.buffer)->exchanged = true;
    }
    return true;
}

static const struct home_block *choose_source(const struct lower *l, const struct piece *p)
{
    const struct home *h = &l->homes[p->tensor];
    const struct home_group *g = &h->groups[p->group];
    const struct home_block *best = NULL;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct home_block *b = &h->blocks[h->members[g->first + i]];
        if (best == NULL || l->load[b->tile] < l->load[best->tile])
            best = b;
    }
    return best;
}

/* Equal pieces for distinct tiles. A lone piece whose source is its own tile is a copy. */
static bool send_pieces(struct flush *f, const struct piece *pieces, uint32_t count)
{
    struct lower *l = f->l;
    bool travels = false;
    for (uint32_t i = 0; i < count; i++)
        travels |= !pieces[i].local;
    for (uint32_t i = 0; !travels && i < count; i++)
        if (!copy_piece(l, &pieces[i]))
            return false;
    if (!travels)
        return true;
    const struct home_block *from = choose_source(l, pieces);
    if (count == 1 && from->tile == pieces->tile)
        return copy_piece(l, pieces);
    if (!open_exchange(f))
        return false;
    uint32_t step = run_panels(l, from, pieces, count),
             end = pieces->box.panel + pieces->box.panels;
    l->load[from->tile] += cells_of(&pieces->box);
    for (uint32_t panel = pieces->box.panel; panel < end; panel += step)
        if (!send_run(f, from, pieces, count, panel, step))
            return false;
    return true;
}

/* A group of equal pieces, sorted by tile. A tile that wants the piece in several places gets it in
 * several rounds. */
static bool send_group(struct flush *f, struct piece *pieces, uint32_t count)
{
    struct lower *l = f->l;
    while (count > 0) {
        struct piece *later = ARENA_ARRAY(l->arena, struct piece, count);
        uint32_t now = 0, left = 0;
        if (later == NULL)
            return lower_oom(l);
        for (uint32_t i = 0; i < count; i++) {
            if (now > 0 && pieces[now - 1].tile == pieces[i].tile)
                later[left++] = pieces[i];
            else
                pieces[now++] = pieces[i];
        }
        if (!send_pieces(f, pieces, now))
            return false;
        pieces = later;
        count = left;
    }
    return true;
}

bool fetch_flush(struct lower *l, bool hoist)
{
    struct flush f = {.l = l, .hoist = hoist};
    memset(l->load, 0, PROGRAM_TILES * sizeof *l->load);
    for (uint32_t i = 0; i < l->needs.count; i++)
        if (!cut_need(&f, i))
            return false;
    struct piece *pieces = f.pieces.items;
    if (f.pieces.count > 0)
        qsort(pieces, f.pieces.count, sizeof *pieces, compare_pieces);
    for (uint32_t i = 0; i < f.pieces.count;) {
        uint32_t end = i + 1;
        while (end < f.pieces.count && compare_place(&pieces[i], &pieces[end]) == 0)
            end++;
        if (!send_group(&f, pieces + i, end - i))
            return false;
        i = end;
    }
    l->needs.count = 0;
    return l->code == 0;
}

/* --- local copies --------------------------------------------------------------------------- */

static int compare_copies(const void *x, const void *y)
{
    const struct local_copy *a = x, *b = y;
    int c = compare_u32(a->tile, b->tile);
    c = c ? c : compare_u32(a->copy.destination.buffer, b->copy.destination.buffer);
    return c ? c : compare_u32(a->copy.destination.offset, b->copy.destination.offset);
}

static bool emit_one(struct lower *l, uint32_t step, const struct local_copy *c)
{
    struct program_call *call = call_plain(l, step, c->tile, KERNEL_COPY);
    if (call == NULL)
        return false;
    call_buffer(l, step, call, 0, c->copy.source);
    call_buffer(l, step, call, 1, c->copy.destination);
    call_number(call, 2, c->copy.bytes);
    return true;
}

static bool emit_list(struct lower *l, uint32_t step, const struct local_copy *c, uint32_t count)
{
    struct program_list *list = vec_push(l, &l->lists, sizeof *list);
    struct program_call *call = call_plain(l, step, c->tile, KERNEL_COPY_LIST);
    if (list == NULL || call == NULL)
        return false;
    list->copies = ARENA_ARRAY(l->arena, struct program_copy, count);
    if (list->copies == NULL)
        return lower_oom(l);
    list->count = count;
    for (uint32_t i = 0; i < count; i++) {
        list->copies[i] = c[i].copy;
        buffer_touch(l, c[i].copy.source.buffer, step);
        buffer_touch(l, c[i].copy.destination.buffer, step);
    }
    call->args[0] = (struct program_arg){PROGRAM_LIST, l->lists.count - 1, 0};
    call_number(call, 1, count);
    return true;
}

bool compute_open(struct lower *l, uint32_t *step)
{
    struct local_copy *copies = l->copies.items;
    *step = step_new(l, PROGRAM_COMPUTE);
    if (l->copies.count > 0)
        qsort(copies, l->copies.count, sizeof *copies, compare_copies);
    for (uint32_t i = 0; i < l->copies.count;) {
        uint32_t end = i + 1;
        while (end < l->copies.count && copies[end].tile == copies[i].tile)
            end++;
        for (uint32_t k = i; k < end; k++)
            l->program->copied_bytes += copies[k].copy.bytes;
        bool good = end - i == 1 ? emit_one(l, *step, &copies[i])
                                 : emit_list(l, *step, &copies[i], end - i);
        if (!good)
            return false;
        i = end;
    }
    l->copies.count = 0;
    return l->code == 0;
}
