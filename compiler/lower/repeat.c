/* REPEAT: carried values get a store, the body runs over it, results alias it.
 *
 * The store has the layout in which the body yields the value. Initial values are uploaded into it
 * (inputs), copied (parameters must survive), aliased or exchanged. The body writes the yielded
 * value straight into the store when nothing reads the old one any more (result_home()); otherwise
 * it is copied at the end of the body. Buffers from outside that the body uses live until its end.
 */
#include "compiler/lower/internal.h"

static bool upload_initial(struct lower *l, const struct flow_carried *c, struct home *store)
{
    for (uint32_t i = 0; i < store->count; i++) {
        const struct home_block *b = &store->blocks[i];
        const struct program_upload u = {.form = PROGRAM_CELLS,
                                         .to = b->ref,
                                         .row = b->box.row,
                                         .rows = b->box.rows,
                                         .panel = b->box.panel,
                                         .panels = b->box.panels,
                                         .panel_stride = b->stride};
        if (!upload_new(l, c->initial, &u))
            return false;
    }
    return true;
}

static bool push_copy(struct lower *l, const struct home_block *to, const struct operand *from,
                      enum flow_type type)
{
    struct local_copy *copy = vec_push(l, &l->copies, sizeof *copy);
    if (copy == NULL)
        return false;
    copy->tile = to->tile;
    copy->copy =
        (struct program_copy){from->ref, to->ref, cells_of(&to->box) * program_cell_bytes(type)};
    return true;
}

/* Copies a value, block by block, once the next flush has brought what is not here. */
struct pending {
    struct home_block to;
    struct operand from;
    enum flow_type type;
};

static bool copy_into(struct lower *l, uint32_t tensor, const struct home *store,
                      struct vec *pending)
{
    for (uint32_t i = 0; i < store->count; i++) {
        struct pending *p = vec_push(l, pending, sizeof *p);
        if (p == NULL)
            return false;
        p->to = store->blocks[i];
        p->type = store->type;
        if (!operand_box(l, tensor, &p->to.box, p->to.tile, true, &p->from))
            return false;
    }
    return true;
}

static bool flush_pending(struct lower *l, const struct vec *pending)
{
    const struct pending *p = pending->items;
    for (uint32_t i = 0; i < pending->count; i++)
        if (!push_copy(l, &p[i].to, &p[i].from, p[i].type))
            return false;
    return true;
}

static bool initial_is_free(const struct lower *l, const struct flow_op *op, unsigned index,
                            const struct home *store)
{
    const struct flow_carried *c = &op->carried[index];
    const struct home *h = &l->homes[c->initial];
    for (unsigned k = 0; k < op->carried_count; k++)
        if (k != index && op->carried[k].initial == c->initial)
            return false;
    return !h->read_only && dead_after(l, c->initial) &&
           l->flow->tensors[c->initial].source != FLOW_CARRIED && home_same_blocks(h, store);
}

static bool open_carried(struct lower *l, const struct flow_op *op, unsigned index,
                         struct vec *pending)
{
    const struct flow_carried *c = &op->carried[index];
    const struct flow_tensor *t = l->flow->tensors;
    struct plan_layout layout;
    l->code = plan_value_layout(l->flow, l->plan, c->inside, l->arena, &layout, l->error);
    if (l->code != 0)
        return false;
    struct home *store = &l->homes[c->inside];
    if (!home_from_layout(l, &layout, t[c->inside].type, store))
        return false;
    if (t[c->initial].source == FLOW_INPUT)
        return upload_initial(l, c, store);
    if (is_host(l, c->initial))
        return copy_into(l, c->initial, store, pending);
    if (initial_is_free(l, op, index, store)) {
        *store = l->homes[c->initial];
        return true;
    }
    for (uint32_t i = 0; i < store->count; i++) {
        const struct home_block *b = &store->blocks[i];
        if (!fetch_need(l, c->initial, &b->box, b->tile, b->ref, b->stride))
            return false;
    }
    return true;
}

static bool open_all(struct lower *l, const struct flow_op *op)
{
    struct vec pending = {0};
    uint32_t step;
    for (unsigned i = 0; i < op->carried_count; i++)
        if (!open_carried(l, op, i, &pending))
            return false;
    if (!fetch_flush(l, true) || !flush_pending(l, &pending))
        return false;
    return l->copies.count == 0 || compute_open(l, &step);
}

static bool shares_store(const struct home *value, const struct home *store)
{
    return value->count == store->count && value->count > 0 &&
           value->blocks[0].ref.buffer == store->blocks[0].ref.buffer;
}

static bool close_all(struct lower *l, const struct flow_op *op)
{
    struct vec pending = {0};
    uint32_t step;
    for (unsigned i = 0; i < op->carried_count; i++) {
        const struct flow_carried *c = &op->carried[i];
        const struct home *store = &l->homes[c->inside];
        if (c->yielded == c->inside ||
            (!is_host(l, c->yielded) && shares_store(&l->homes[c->yielded], store)))
            continue;
        if (l->flow->tensors[c->yielded].source == FLOW_CARRIED)
            return lower_fail(l, IPU_ERR_UNSUPPORTED,
                              "a repeat that only exchanges its carried values");
        if (!copy_into(l, c->yielded, store, &pending))
            return false;
    }
    if (!fetch_flush(l, true) || !flush_pending(l, &pending))
        return false;
    return l->copies.count == 0 || compute_open(l, &step);
}

/* Everything from outside that the body touches stays until the last iteration. */
static void extend_lifetimes(struct lower *l, const struct flow_op *op, uint32_t begin,
                             uint32_t end)
{
    for (unsigned i = 0; i < op->carried_count; i++) {
        home_touch(l, &l->homes[op->carried[i].inside], begin);
        home_touch(l, &l->homes[op->carried[i].inside], end);
    }
    for (uint32_t i = 0; i < l->buffers.count; i++) {
        struct program_buffer *b = buffer_at(l, i);
        if (b->first <= begin && b->last > begin && b->last < end)
            b->last = end;
    }
}

bool lower_repeat(struct lower *l, const struct flow_op *op, uint32_t plan_index)
{
    (void)plan_index;
    if (l->iterations > 1)
        return lower_fail(l, IPU_ERR_UNSUPPORTED, "a repeat inside a repeat");
    if (!open_all(l, op))
        return false;
    const char *name = l->name;
    uint32_t begin = step_new(l, PROGRAM_REPEAT);
    l->region_start = begin + 1;
    l->iterations = op->count;
    for (unsigned i = 0; i < op->carried_count; i++)
        l->homes[op->carried[i].inside].ready = begin;
    if (l->code != 0 || !lower_region(l, op->region))
        return false;
    l->position = l->region_end[op->region];
    l->name = name;
    if (!close_all(l, op))
        return false;
    uint32_t end = step_new(l, PROGRAM_REPEAT_END);
    if (l->code != 0)
        return false;
    step_at(l, begin)->other = end;
    step_at(l, end)->other = begin;
    step_at(l, begin)->iterations = step_at(l, end)->iterations = op->count;
    extend_lifetimes(l, op, begin, end);
    for (unsigned i = 0; i < op->carried_count; i++) {
        l->homes[op->carried[i].result] = l->homes[op->carried[i].inside];
        l->homes[op->carried[i].result].ready = end;
    }
    l->iterations = 1;
    l->region_start = end + 1;
    return true;
}
