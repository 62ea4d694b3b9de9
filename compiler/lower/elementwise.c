/* ADD, GELU, RELU, CAST: each block of the result is computed by the tile that owns it.
 *
 * The result takes the place of the first operand when that dies here and has the same layout.
 * An ADD that the plan fuses with the unary after it becomes one kernel where there is one (bias,
 * f16), else two calls in place.
 */
#include "compiler/lower/internal.h"

struct element {
    const struct flow_op *op;
    const struct flow_op *next; /* fused unary, or NULL */
    enum flow_type in, type;
};

struct element_block {
    struct operand a, b;
};

static enum kernel_family unary_family(enum flow_op_kind kind, enum flow_type in,
                                       enum flow_type out)
{
    if (kind == FLOW_CAST)
        return out == FLOW_F32 ? KERNEL_CAST_F16_F32 : KERNEL_CAST_F32_F16;
    if (kind == FLOW_GELU)
        return in == FLOW_F32 ? KERNEL_GELU_F32 : KERNEL_GELU_F16;
    return in == FLOW_F32 ? KERNEL_RELU_F32 : KERNEL_RELU_F16;
}

static enum kernel_family add_family(const struct element *e)
{
    bool wide = e->in == FLOW_F32;
    if (e->op->broadcast == FLOW_DENSE)
        return wide ? KERNEL_ADD_F32 : KERNEL_ADD_F16;
    if (e->op->broadcast != FLOW_ROW)
        return wide ? KERNEL_ADD_COLUMN_F32 : KERNEL_ADD_COLUMN_F16;
    if (e->next != NULL && !wide)
        return e->next->kind == FLOW_GELU ? KERNEL_BIAS_GELU_F16 : KERNEL_BIAS_RELU_F16;
    return wide ? KERNEL_ADD_ROW_F32 : KERNEL_ADD_ROW_F16;
}

static bool emit_unary(struct lower *l, uint32_t step, unsigned tile, enum kernel_family family,
                       struct program_ref in, struct program_ref out, uint32_t cells)
{
    struct program_call *call = call_plain(l, step, tile, family);
    if (call == NULL)
        return false;
    call_buffer(l, step, call, 0, in);
    call_buffer(l, step, call, 1, out);
    call_number(call, 2, cells * 16);
    return true;
}

static bool emit_add(struct lower *l, const struct element *e, uint32_t step,
                     const struct home_block *out, const struct element_block *in)
{
    enum kernel_family family = add_family(e);
    struct program_call *call = call_plain(l, step, out->tile, family);
    if (call == NULL)
        return false;
    call_buffer(l, step, call, 0, in->a.ref);
    call_buffer(l, step, call, 1, in->b.ref);
    call_buffer(l, step, call, 2, out->ref);
    if (e->op->broadcast == FLOW_DENSE) {
        call_number(call, 3, cells_of(&out->box) * 16);
    } else {
        call_number(call, 3, out->box.rows);
        call_number(call, 4, out->box.panels);
    }
    if (e->next == NULL || family == KERNEL_BIAS_GELU_F16 || family == KERNEL_BIAS_RELU_F16)
        return true;
    return emit_unary(l, step, out->tile, unary_family(e->next->kind, e->type, e->type), out->ref,
                      out->ref, cells_of(&out->box));
}

/* The second addend of a block. */
static bool second(struct lower *l, const struct element *e, const struct home_block *block,
                   struct operand *out)
{
    const struct flow_op *op = e->op;
    struct box box = block->box;
    if (op->broadcast == FLOW_ROW) {
        box.row = 0;
        box.rows = 1;
        return operand_box(l, op->b, &box, block->tile, true, out);
    }
    if (op->broadcast != FLOW_DENSE) {
        box.panel = 0;
        box.panels = 1;
    }
    if (op->broadcast == FLOW_SCALAR)
        return operand_mapped(l, op->b, &box, NULL, block->tile, out);
    if (op->row_map.axes > 0)
        return operand_mapped(l, op->b, &box, &op->row_map, block->tile, out);
    return operand_box(l, op->b, &box, block->tile, true, out);
}

static bool is_add(const struct element *e)
{
    return e->op->kind == FLOW_ADD;
}

/* The operand that the result may overwrite, as tensor + 1; 0 = none. */
static uint32_t overwritable(const struct lower *l, const struct element *e)
{
    if (is_host(l, e->op->a) || e->in != e->type || !dead_after(l, e->op->a))
        return 0;
    bool twice = is_add(e) && e->op->b == e->op->a;
    if (twice && (e->op->broadcast != FLOW_DENSE || e->op->row_map.axes > 0))
        return 0;
    return e->op->a + 1;
}

bool lower_elementwise(struct lower *l, const struct flow_op *op, const struct flow_op *next,
                       const struct plan_op *plan)
{
    uint32_t result = next ? next->out : op->out;
    struct element e = {op, next, l->flow->tensors[op->a].type, l->flow->tensors[result].type};
    if (!result_home(l, result, &plan->out, overwritable(l, &e)))
        return false;
    struct home *home = &l->homes[result];
    struct element_block *blocks = ARENA_ARRAY(l->arena, struct element_block, home->count);
    if (blocks == NULL)
        return lower_oom(l);
    for (uint32_t i = 0; i < home->count; i++) {
        const struct home_block *b = &home->blocks[i];
        if (!operand_box(l, op->a, &b->box, b->tile, true, &blocks[i].a) ||
            (is_add(&e) && !second(l, &e, b, &blocks[i].b)))
            return false;
    }
    uint32_t step;
    if (!fetch_flush(l, true) || !compute_open(l, &step))
        return false;
    for (uint32_t i = 0; i < home->count; i++) {
        const struct home_block *b = &home->blocks[i];
        bool good = is_add(&e) ? emit_add(l, &e, step, b, &blocks[i])
                               : emit_unary(l, step, b->tile, unary_family(op->kind, e.in, e.type),
                                            blocks[i].a.ref, b->ref, cells_of(&b->box));
        if (!good)
            return false;
    }
    home->ready = step;
    return true;
}
