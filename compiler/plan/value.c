/* Where a value lives under a plan: the one rule that lowering and verification share.
 *
 * Reads only the flow and the plan. The balanced layout must equal that of layout.c, which uses
 * the same grid function and the same cut.
 */
#include "compiler/plan/internal.h"

#include <string.h>

static const struct flow_op *repeat_of(const struct flow *flow, uint32_t region)
{
    const struct flow_region *parent = &flow->regions[flow->regions[region].parent];
    for (unsigned i = 0; region != 0 && i < parent->op_count; i++)
        if (parent->ops[i].kind == FLOW_REPEAT && parent->ops[i].region == region)
            return &parent->ops[i];
    return NULL;
}

static const struct flow_carried *carried_inside(const struct flow *flow, uint32_t tensor)
{
    const struct flow_op *op = repeat_of(flow, flow->tensors[tensor].region);
    for (unsigned c = 0; op != NULL && c < op->carried_count; c++)
        if (op->carried[c].inside == tensor)
            return &op->carried[c];
    return NULL;
}

static const struct flow_carried *carried_result(const struct flow *flow, uint32_t tensor)
{
    const struct flow_region *region = &flow->regions[flow->tensors[tensor].region];
    for (unsigned i = 0; i < region->op_count; i++)
        for (unsigned c = 0; region->ops[i].kind == FLOW_REPEAT && c < region->ops[i].carried_count;
             c++)
            if (region->ops[i].carried[c].result == tensor)
                return &region->ops[i].carried[c];
    return NULL;
}

static int balanced(const struct flow *flow, uint32_t tensor, struct arena *arena,
                    struct plan_layout *out, struct ipu_error *error)
{
    const struct flow_tensor *t = &flow->tensors[tensor];
    uint32_t panels = (uint32_t)plan_panels(t->columns), rows = (uint32_t)t->rows, gm, gn;
    lay_balanced_grid(rows, panels, flow->tiles, &gm, &gn);
    out->count = gm * gn;
    out->blocks = ARENA_ARRAY(arena, struct plan_block, out->count);
    if (out->blocks == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for a layout");
    for (uint32_t i = 0; i < out->count; i++) {
        struct plan_block *b = &out->blocks[i];
        b->tile = (uint16_t)i;
        b->row = cut_at(rows, gm, i / gn);
        b->rows = cut_at(rows, gm, i / gn + 1) - b->row;
        b->panel = cut_at(panels, gn, i % gn);
        b->panels = cut_at(panels, gn, i % gn + 1) - b->panel;
    }
    return 0;
}

static int computed(const struct flow *flow, const struct plan *plan, uint32_t tensor,
                    struct plan_layout *out, struct ipu_error *error)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *p = &plan->ops[i];
        const struct flow_op *op = &flow->regions[p->region].ops[p->op];
        if (op->kind == FLOW_REPEAT || op->out != tensor)
            continue;
        bool fused = i > 0 && plan->ops[i - 1].fused_next && plan->ops[i - 1].region == p->region;
        *out = fused ? plan->ops[i - 1].out : p->out;
        return 0;
    }
    return ipu_error_set(error, IPU_ERR_INTERNAL, "plan: value %u has no producer", tensor);
}

int plan_value_layout(const struct flow *flow, const struct plan *plan, uint32_t tensor,
                      struct arena *arena, struct plan_layout *out, struct ipu_error *error)
{
    uint32_t at = tensor, fixed = tensor;
    memset(out, 0, sizeof *out);
    enum flow_source first = flow->tensors[tensor].source;
    for (uint32_t depth = 0; depth < flow->region_count + 2; depth++) {
        enum flow_source source = flow->tensors[at].source;
        if (source == FLOW_COMPUTED)
            return computed(flow, plan, at, out, error);
        if (source != FLOW_RESULT && (source != FLOW_CARRIED || depth > 0))
            break;
        const struct flow_carried *carried =
            source == FLOW_RESULT ? carried_result(flow, at) : carried_inside(flow, at);
        if (carried == NULL)
            return ipu_error_set(error, IPU_ERR_INTERNAL, "plan: value %u belongs to no repeat",
                                 at);
        fixed = carried->inside;
        at = carried->yielded;
    }
    if (first == FLOW_CARRIED || first == FLOW_RESULT)
        return balanced(flow, fixed, arena, out, error);
    return 0;
}
