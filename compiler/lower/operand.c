/* Operands: the box of a value that a kernel reads on a tile, as an alias of its home, an upload
 * from the host, or a need for the next exchange.
 *
 * Host values are uploaded once per distinct box and tile; parameters stay for good. Members of a
 * sequence lie at a constant distance, so that the loop's argument blocks can move over them.
 * Boxes of computed values that were fetched are remembered and used again.
 */
#include "compiler/lower/internal.h"

#include <string.h>

enum { FORM_PLAIN, FORM_CONTIGUOUS, FORM_MAPPED, FORM_ROW_ZERO };

bool is_host(const struct lower *l, uint32_t tensor)
{
    enum flow_source s = l->flow->tensors[tensor].source;
    return s == FLOW_PARAMETER || s == FLOW_INPUT || s == FLOW_SEQUENCE;
}

bool dead_after(const struct lower *l, uint32_t tensor)
{
    return l->last_use[tensor] <= l->position;
}

/* --- host values ---------------------------------------------------------------------------- */

static bool upload_one(struct lower *l, uint32_t tensor, const struct program_upload *form)
{
    struct program_upload *u = vec_push(l, &l->uploads, sizeof *u);
    if (u == NULL)
        return false;
    *u = *form;
    u->tensor = tensor;
    buffer_touch(l, form->to.buffer, 0);
    if (l->flow->tensors[tensor].source == FLOW_PARAMETER)
        buffer_at(l, form->to.buffer)->resident = true;
    return true;
}

/* Uploads a host value, every member of a sequence into its own member of the buffer. */
bool upload_new(struct lower *l, uint32_t tensor, const struct program_upload *form)
{
    const struct flow_tensor *t = &l->flow->tensors[tensor];
    if (t->source != FLOW_SEQUENCE)
        return upload_one(l, tensor, form);
    struct program_upload u = *form;
    for (uint32_t i = 0; i < t->member_count; i++) {
        u.member = i;
        if (!upload_one(l, t->members[i], &u))
            return false;
    }
    return true;
}

static bool upload_box(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                       const struct flow_view *map, struct operand *out)
{
    const struct flow_tensor *t = &l->flow->tensors[tensor];
    struct program_upload u = {.form = PROGRAM_CELLS,
                               .row = box->row,
                               .rows = box->rows,
                               .panel = box->panel,
                               .panels = box->panels,
                               .row_map = map};
    u.panel_stride = box->rows * program_cell_bytes(t->type);
    uint32_t members = t->source == FLOW_SEQUENCE ? t->member_count : 1;
    u.to.buffer = buffer_new(l, tile, (uint64_t)u.panel_stride * box->panels, members);
    *out = (struct operand){u.to, u.panel_stride};
    return l->code == 0 && upload_new(l, tensor, &u);
}

/* --- computed values ------------------------------------------------------------------------ */

static bool local_operand(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                          bool contiguous, struct operand *out)
{
    const struct home *h = &l->homes[tensor];
    if (!h->known)
        return false;
    const struct home_block *b = home_local(h, tile, box);
    if (b == NULL)
        return false;
    if (contiguous && box->panels > 1 && b->stride != box->rows * program_cell_bytes(h->type))
        return false;
    *out = (struct operand){home_ref(b, box, h->type), b->stride};
    return true;
}

static bool fetch_box(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                      struct operand *out)
{
    uint32_t stride = box->rows * program_cell_bytes(l->flow->tensors[tensor].type);
    out->ref.buffer = buffer_new(l, tile, (uint64_t)stride * box->panels, 1);
    out->ref.offset = 0;
    out->stride = stride;
    return l->code == 0 && fetch_need(l, tensor, box, tile, out->ref, stride);
}

static bool remember(struct lower *l, struct box_map *map, const struct box_key *key,
                     const struct operand *operand)
{
    struct box_entry *e = map_add(l, map, key);
    if (e == NULL)
        return false;
    e->operand = *operand;
    return true;
}

/* A box of a value that has a home: an alias of it, or a need for the next exchange. */
static bool home_operand(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                         bool contiguous, struct operand *out)
{
    const struct box_key key = {tensor, (uint16_t)tile, FORM_PLAIN, *box, 0};
    if (local_operand(l, tensor, box, tile, contiguous, out))
        return true;
    const struct box_entry *e = map_find(&l->fetched, &key);
    if (e != NULL) {
        *out = e->operand;
        return true;
    }
    return fetch_box(l, tensor, box, tile, out) && remember(l, &l->fetched, &key, out);
}

bool operand_box(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                 bool contiguous, struct operand *out)
{
    if (!is_host(l, tensor))
        return home_operand(l, tensor, box, tile, contiguous, out);
    const struct box_key key = {tensor, (uint16_t)tile, FORM_PLAIN, *box, 0};
    const struct box_entry *e = map_find(&l->uploaded, &key);
    if (e != NULL) {
        *out = e->operand;
        return true;
    }
    return upload_box(l, tensor, box, tile, NULL, out) && remember(l, &l->uploaded, &key, out);
}

bool operand_staged(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                    struct operand *out)
{
    return home_operand(l, tensor, box, tile, false, out);
}

bool staged_home(struct lower *l, uint32_t tensor, const struct plan_layout *layout)
{
    struct home *home = &l->homes[tensor];
    enum flow_source source = l->flow->tensors[tensor].source;
    if (home->known)
        return true;
    if (source != FLOW_PARAMETER && source != FLOW_INPUT)
        return lower_fail(l, IPU_ERR_INTERNAL, "value %u cannot be staged", tensor);
    if (!home_from_layout(l, layout, l->flow->tensors[tensor].type, home))
        return false;
    home->read_only = true;
    for (uint32_t i = 0; i < home->count; i++) {
        const struct home_block *b = &home->blocks[i];
        const struct program_upload u = {.form = PROGRAM_CELLS,
                                         .to = b->ref,
                                         .row = b->box.row,
                                         .rows = b->box.rows,
                                         .panel = b->box.panel,
                                         .panels = b->box.panels,
                                         .panel_stride = b->stride};
        if (!upload_new(l, tensor, &u))
            return false;
    }
    return true;
}

void operand_forget(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile)
{
    const struct box_key key = {tensor, (uint16_t)tile, FORM_PLAIN, *box, 0};
    struct box_entry *e = map_find(&l->fetched, &key);
    if (e != NULL)
        e->dropped = true;
}

/* --- mapped rows ---------------------------------------------------------------------------- */

static uint32_t map_row(const struct flow_view *map, uint32_t row)
{
    return map == NULL ? 0 : (uint32_t)view_at(map, row);
}

static bool fetch_mapped(struct lower *l, uint32_t tensor, const struct box *box,
                         const struct flow_view *map, unsigned tile, struct operand *out)
{
    uint32_t cell = program_cell_bytes(l->flow->tensors[tensor].type);
    uint32_t stride = box->rows * cell, end = box->row + box->rows;
    out->ref = (struct program_ref){buffer_new(l, tile, (uint64_t)stride * box->panels, 1), 0};
    out->stride = stride;
    for (uint32_t r = box->row; l->code == 0 && r < end;) {
        uint32_t from = map_row(map, r), n = 1;
        while (r + n < end && map_row(map, r + n) == from + n)
            n++;
        const struct box run = {from, n, box->panel, box->panels};
        if (!fetch_need(l, tensor, &run, tile, ref_add(out->ref, (r - box->row) * cell), stride))
            return false;
        r += n;
    }
    return l->code == 0;
}

bool operand_mapped(struct lower *l, uint32_t tensor, const struct box *box,
                    const struct flow_view *map, unsigned tile, struct operand *out)
{
    if (!is_host(l, tensor))
        return fetch_mapped(l, tensor, box, map, tile, out);
    static const struct flow_view row_zero = {.axes = 0};
    return upload_box(l, tensor, box, tile, map ? map : &row_zero, out);
}
