/* The driver of lowering: liveness of values, result storage, the walk over regions, outputs.
 *
 * Positions number operations in execution order, a repeat having one before and one after its
 * body; a value from outside that a body uses is used at the end of the repeat. See lower.h.
 */
#include "compiler/lower/internal.h"

#include <string.h>

/* --- liveness ------------------------------------------------------------------------------- */

static void number_region(struct lower *l, uint32_t region, uint32_t *at)
{
    const struct flow_region *r = &l->flow->regions[region];
    for (unsigned i = 0; i < r->op_count; i++) {
        ++*at;
        if (r->ops[i].kind != FLOW_REPEAT)
            continue;
        number_region(l, r->ops[i].region, at);
        l->region_end[r->ops[i].region] = ++*at;
    }
}

static void note_use(struct lower *l, uint32_t tensor, uint32_t region, uint32_t at)
{
    while (region != 0 && region != l->flow->tensors[tensor].region) {
        at = l->region_end[region];
        region = l->flow->regions[region].parent;
    }
    if (at > l->last_use[tensor])
        l->last_use[tensor] = at;
}

static void find_uses(struct lower *l, uint32_t region, uint32_t *at)
{
    const struct flow_region *r = &l->flow->regions[region];
    for (unsigned i = 0; i < r->op_count; i++) {
        const struct flow_op *op = &r->ops[i];
        ++*at;
        if (op->kind != FLOW_REPEAT) {
            note_use(l, op->a, region, *at);
            if (op->kind == FLOW_GEMM || op->kind == FLOW_ADD)
                note_use(l, op->b, region, *at);
            continue;
        }
        for (unsigned c = 0; c < op->carried_count; c++)
            note_use(l, op->carried[c].initial, region, *at);
        find_uses(l, op->region, at);
        ++*at;
        for (unsigned c = 0; c < op->carried_count; c++) {
            note_use(l, op->carried[c].yielded, op->region, *at);
            if (l->yielded_for[op->carried[c].yielded] == 0)
                l->yielded_for[op->carried[c].yielded] = op->carried[c].inside + 1;
        }
    }
}

static bool prepare(struct lower *l)
{
    const struct flow *f = l->flow;
    uint32_t n = f->tensor_count;
    l->tensor_count = n;
    l->homes = ARENA_ARRAY(l->arena, struct home, (size_t)n + LOWER_MAX_SLOTS);
    l->last_use = ARENA_ARRAY(l->arena, uint32_t, n);
    l->yielded_for = ARENA_ARRAY(l->arena, uint32_t, n);
    l->region_end = ARENA_ARRAY(l->arena, uint32_t, f->region_count);
    l->first_op = ARENA_ARRAY(l->arena, uint32_t, f->region_count + 1);
    l->load = ARENA_ARRAY(l->arena, uint32_t, PROGRAM_TILES);
    l->program = ARENA_NEW(l->arena, struct program);
    if (!l->homes || !l->last_use || !l->yielded_for || !l->region_end || !l->first_op ||
        !l->load || !l->program)
        return lower_oom(l);
    for (uint32_t i = 0; i < f->region_count; i++)
        l->first_op[i + 1] = l->first_op[i] + f->regions[i].op_count;
    if (l->plan->op_count != l->first_op[f->region_count] || f->tiles > PROGRAM_TILES)
        return lower_fail(l, IPU_ERR_INTERNAL, "the plan is not one of this workload");
    uint32_t at = 0;
    number_region(l, 0, &at);
    at = 0;
    find_uses(l, 0, &at);
    for (unsigned i = 0; i < f->output_count; i++)
        l->last_use[f->outputs[i].tensor] = UINT32_MAX;
    l->program->tiles = f->tiles;
    l->iterations = 1;
    return true;
}

/* --- storage of results --------------------------------------------------------------------- */

static bool layout_is_home(const struct plan_layout *layout, const struct home *h)
{
    if (!h->known || layout->count != h->count)
        return false;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct plan_block *b = &layout->blocks[i];
        const struct box box = {b->row, b->rows, b->panel, b->panels};
        if (b->tile != h->blocks[i].tile || !box_equal(&box, &h->blocks[i].box))
            return false;
    }
    return true;
}

/* Whether the store of the carried value may be overwritten by this operation's result. */
static bool store_is_free(const struct lower *l, uint32_t inside, uint32_t in_place_of)
{
    uint32_t last = l->last_use[inside];
    if (last < l->position)
        return true;
    return last == l->position && (in_place_of == RESULT_LATE || in_place_of == inside + 1);
}

bool result_home(struct lower *l, uint32_t tensor, const struct plan_layout *layout,
                 uint32_t in_place_of)
{
    struct home *home = &l->homes[tensor];
    uint32_t inside = l->yielded_for[tensor];
    if (inside > 0 && layout_is_home(layout, &l->homes[inside - 1]) &&
        store_is_free(l, inside - 1, in_place_of)) {
        *home = l->homes[inside - 1];
        return true;
    }
    if (in_place_of > 0 && in_place_of != RESULT_LATE) {
        const struct home *old = &l->homes[in_place_of - 1];
        bool carried = l->flow->tensors[in_place_of - 1].source == FLOW_CARRIED;
        if (!carried && !old->read_only && layout_is_home(layout, old)) {
            *home = *old;
            return true;
        }
    }
    return home_from_layout(l, layout, l->flow->tensors[tensor].type, home);
}

/* --- the walk ------------------------------------------------------------------------------- */

static bool lower_op(struct lower *l, const struct flow_op *op, const struct flow_op *next,
                     uint32_t index)
{
    const struct plan_op *plan = &l->plan->ops[index];
    l->name = op->label;
    switch (op->kind) {
    case FLOW_GEMM:
        return lower_gemm(l, op, plan);
    case FLOW_PERMUTE:
        return lower_permute(l, op, plan);
    case FLOW_REPEAT:
        return lower_repeat(l, op, index);
    default:
        return lower_elementwise(l, op, next, plan);
    }
}

bool lower_region(struct lower *l, uint32_t region)
{
    const struct flow_region *r = &l->flow->regions[region];
    for (unsigned i = 0; i < r->op_count; i++) {
        uint32_t index = l->first_op[region] + i;
        const struct plan_op *plan = &l->plan->ops[index];
        l->position++;
        if (plan->region != region || plan->op != i)
            return lower_fail(l, IPU_ERR_INTERNAL, "the plan is not one of this workload");
        bool fused = plan->fused_next && i + 1 < r->op_count;
        if (!lower_op(l, &r->ops[i], fused ? &r->ops[i + 1] : NULL, index))
            return false;
        if (fused) {
            l->position++;
            i++;
        }
    }
    return true;
}

static bool list_outputs(struct lower *l)
{
    l->name = NULL;
    for (unsigned o = 0; o < l->flow->output_count; o++) {
        const struct home *h = &l->homes[l->flow->outputs[o].tensor];
        if (!h->known)
            return lower_fail(l, IPU_ERR_INTERNAL, "output %u is never computed", o);
        home_touch(l, h, step_next(l));
        for (uint32_t i = 0; i < h->count; i++) {
            const struct home_block *b = &h->blocks[i];
            struct program_download *d = vec_push(l, &l->downloads, sizeof *d);
            if (d == NULL)
                return false;
            *d = (struct program_download){o,           b->ref,       b->box.row,
                                           b->box.rows, b->box.panel, b->box.panels};
        }
    }
    return true;
}

int lower_program(const struct flow *flow, const struct plan *plan, struct arena *arena,
                  struct program **out, struct ipu_error *error)
{
    struct lower l = {.flow = flow, .plan = plan, .arena = arena, .error = error};
    if (!prepare(&l) || !lower_region(&l, 0) || !list_outputs(&l) || !program_finish(&l))
        return l.code != 0 ? l.code : ipu_error_set(error, IPU_ERR_INTERNAL, "lower: failed");
    *out = l.program;
    return 0;
}
