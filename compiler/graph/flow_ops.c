/* The operation half of graph_flow(): binds graph values to tensors and emits flow operations. See
 * flow.c and build.h. */
#include "compiler/graph/build.h"

#include <string.h>

static struct bound *bound_of(struct build *b, uint32_t value)
{
    return &b->bound[value];
}

static bool is_host(const struct build *b, uint32_t tensor)
{
    enum flow_source s = b->flow->tensors[tensor].source;
    return s == FLOW_INPUT || s == FLOW_PARAMETER || s == FLOW_SEQUENCE;
}

int build_permute(struct build *b, uint32_t tensor, struct flow_view view, uint64_t rows,
                  uint64_t columns, const char *label)
{
    struct flow_tensor t = {.source = FLOW_COMPUTED,
                            .type = b->flow->tensors[tensor].type,
                            .rows = rows,
                            .columns = columns,
                            .region = b->region};
    int out = build_tensor(b, &t);
    if (out < 0)
        return out;
    struct flow_op *op = build_op(b, FLOW_PERMUTE, label);
    if (!op)
        return b->error->code;
    op->a = tensor;
    op->out = (uint32_t)out;
    op->view = view;
    return out;
}

static bool same_view(const struct flow_view *a, const struct flow_view *b)
{
    return a->axes == b->axes && memcmp(a->axis, b->axis, a->axes * sizeof a->axis[0]) == 0;
}

/* The tensor that already reads the same host data in the same way, or -1. */
static int find_host(const struct build *b, const struct flow_tensor *t)
{
    if (t->source == FLOW_SEQUENCE)
        return -1;
    for (uint32_t i = 0; i < b->flow->tensor_count; i++) {
        const struct flow_tensor *o = &b->flow->tensors[i];
        if (o->source == t->source && o->host == t->host && o->rows == t->rows &&
            o->columns == t->columns && same_view(&o->view, &t->view))
            return (int)i;
    }
    return -1;
}

/* A host tensor of the same data with another view or form. Sequences derive every member. */
static int derive_host(struct build *b, uint32_t tensor, const struct flow_view *view,
                       uint64_t rows, uint64_t columns)
{
    struct flow_tensor t = b->flow->tensors[tensor];
    if (t.rows == rows && t.columns == columns && same_view(&t.view, view))
        return (int)tensor;
    t.rows = rows;
    t.columns = columns;
    t.view = *view;
    int known = find_host(b, &t);
    if (known >= 0)
        return known;
    if (t.source == FLOW_SEQUENCE) {
        uint32_t *members = ARENA_ARRAY(b->arena, uint32_t, t.member_count);
        if (!members)
            return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
        for (uint32_t i = 0; i < t.member_count; i++) {
            int member = derive_host(b, t.members[i], view, rows, columns);
            if (member < 0)
                return member;
            members[i] = (uint32_t)member;
        }
        t.members = members;
    }
    return build_tensor(b, &t);
}

static int matrix_of(struct build *b, struct bound bound, uint64_t elements, uint64_t columns,
                     const char *label)
{
    uint64_t rows = elements / columns;
    if (is_host(b, bound.tensor))
        return derive_host(b, bound.tensor, &bound.view, rows, columns);
    const struct flow_tensor *t = &b->flow->tensors[bound.tensor];
    if (view_is_identity(&bound.view) && t->columns == columns && t->rows == rows)
        return (int)bound.tensor;
    return build_permute(b, bound.tensor, bound.view, rows, columns, label);
}

int build_matrix(struct build *b, uint32_t value)
{
    const struct graph_value *v = &b->graph->values[value];
    int tensor = matrix_of(b, b->bound[value], v->elements, v->shape[v->rank - 1],
                           v->name[0] ? v->name : "rearrange");
    if (tensor >= 0 && !is_host(b, (uint32_t)tensor))
        b->bound[value] = (struct bound){(uint32_t)tensor, view_identity(v->elements)};
    return tensor;
}

/* Makes the bound view of a value the identity, for view operations that its strides do not allow.
 */
static int settle(struct build *b, uint32_t value)
{
    const struct graph_value *v = &b->graph->values[value];
    struct bound *bound = bound_of(b, value);
    uint64_t columns = v->shape[v->rank - 1], rows = v->elements / columns;
    int tensor = build_matrix(b, value);
    if (tensor >= 0 && is_host(b, (uint32_t)tensor))
        tensor = build_permute(b, (uint32_t)tensor, view_identity(v->elements), rows, columns,
                               "rearrange");
    if (tensor >= 0)
        *bound = (struct bound){(uint32_t)tensor, view_identity(v->elements)};
    return tensor;
}

static int transposed(struct build *b, uint32_t value, const unsigned *permutation,
                      struct bound *out)
{
    const struct graph_value *v = &b->graph->values[value];
    *out = b->bound[value];
    if (view_transpose(&b->bound[value].view, v->shape, v->rank, permutation, &out->view))
        return 0;
    int rc = settle(b, value);
    if (rc < 0)
        return rc;
    *out = b->bound[value];
    if (!view_transpose(&b->bound[value].view, v->shape, v->rank, permutation, &out->view))
        return build_fail(b, IPU_ERR_UNSUPPORTED, "a transpose is too irregular for the device");
    return 0;
}

/* --- operations ------------------------------------------------------------------------------- */

static int result_tensor(struct build *b, uint32_t value)
{
    const struct graph_value *v = &b->graph->values[value];
    struct flow_tensor t = {.source = FLOW_COMPUTED,
                            .type = v->type,
                            .name = v->name,
                            .region = b->region,
                            .columns = v->shape[v->rank - 1],
                            .rows = v->elements / v->shape[v->rank - 1]};
    int out = build_tensor(b, &t);
    if (out >= 0)
        b->bound[value] = (struct bound){(uint32_t)out, view_identity(v->elements)};
    return out;
}

static int matmul_operand(struct build *b, uint32_t value, bool transpose, const char *label)
{
    const struct graph_value *v = &b->graph->values[value];
    if (!transpose)
        return build_matrix(b, value);
    unsigned permutation[GRAPH_MAX_RANK];
    for (unsigned i = 0; i < v->rank; i++)
        permutation[i] = i;
    permutation[v->rank - 1] = v->rank - 2;
    permutation[v->rank - 2] = v->rank - 1;
    struct bound view;
    int rc = transposed(b, value, permutation, &view);
    if (rc < 0)
        return rc;
    return matrix_of(b, view, v->elements, v->shape[v->rank - 2], label);
}

static int emit_matmul(struct build *b, const struct graph_op *g)
{
    int a = matmul_operand(b, g->inputs[0], g->transpose[0], g->label);
    int w = a < 0 ? a : matmul_operand(b, g->inputs[1], g->transpose[1], g->label);
    int out = w < 0 ? w : result_tensor(b, g->result);
    if (out < 0)
        return out;
    struct flow_op *op = build_op(b, FLOW_GEMM, g->label);
    if (!op)
        return b->error->code;
    const struct graph_value *right = &b->graph->values[g->inputs[1]];
    op->a = (uint32_t)a;
    op->b = (uint32_t)w;
    op->out = (uint32_t)out;
    for (unsigned i = 0; i + 2 < right->rank; i++)
        op->batch *= (uint32_t)right->shape[i];
    return 0;
}

static int emit_unary(struct build *b, const struct graph_op *g, enum flow_op_kind kind)
{
    int a = build_matrix(b, g->inputs[0]);
    if (a < 0)
        return a;
    if (kind == FLOW_CAST && b->flow->tensors[a].type == b->graph->values[g->result].type) {
        b->bound[g->result] = b->bound[g->inputs[0]];
        return 0;
    }
    int out = result_tensor(b, g->result);
    if (out < 0)
        return out;
    struct flow_op *op = build_op(b, kind, g->label);
    if (!op)
        return b->error->code;
    op->a = (uint32_t)a;
    op->out = (uint32_t)out;
    return 0;
}

static bool full_shape(const struct graph_value *v, const struct graph_value *result)
{
    return v->elements == result->elements;
}

/* The first addend as a matrix of the result's form, expanding it when it broadcasts. */
static int full_addend(struct build *b, uint32_t value, const struct graph_value *r,
                       const char *label)
{
    const struct graph_value *v = &b->graph->values[value];
    struct bound bound = b->bound[value];
    if (!full_shape(v, r) &&
        !view_broadcast(&b->bound[value].view, v->shape, v->rank, r->shape, r->rank, &bound.view)) {
        int rc = settle(b, value);
        if (rc < 0)
            return rc;
        bound = b->bound[value];
        if (!view_broadcast(&b->bound[value].view, v->shape, v->rank, r->shape, r->rank,
                            &bound.view))
            return build_fail(b, IPU_ERR_UNSUPPORTED,
                              "a broadcast is too irregular for the device");
    }
    return matrix_of(b, bound, r->elements, r->shape[r->rank - 1], label);
}

/* Rows of `v` (all axes but the last) read as rows of the result. */
static bool row_map_of(const struct graph_value *v, const struct graph_value *r,
                       struct flow_view *map)
{
    uint64_t rows = v->elements / v->shape[v->rank - 1];
    struct flow_view identity = view_identity(rows);
    if (r->rank == 1) {
        *map = identity;
        return true;
    }
    return view_broadcast(&identity, v->shape, v->rank - 1, r->shape, r->rank - 1, map);
}

static int second_addend(struct build *b, const struct graph_op *g, struct flow_op *op)
{
    const struct graph_value *v = &b->graph->values[g->inputs[1]],
                             *r = &b->graph->values[g->result];
    uint64_t columns = v->shape[v->rank - 1], rows = v->elements / columns;
    bool wide = columns == r->shape[r->rank - 1];
    op->broadcast = wide ? FLOW_DENSE : FLOW_COLUMN;
    if (wide && rows == 1 && r->elements != columns)
        op->broadcast = FLOW_ROW;
    if (op->broadcast == FLOW_ROW || full_shape(v, r)) {
        int tensor = build_matrix(b, g->inputs[1]);
        op->b = (uint32_t)tensor;
        return tensor < 0 ? tensor : 0;
    }
    struct flow_view map;
    if (is_host(b, b->bound[g->inputs[1]].tensor) || !row_map_of(v, r, &map)) {
        op->broadcast = FLOW_DENSE;
        int tensor = full_addend(b, g->inputs[1], r, g->label);
        op->b = (uint32_t)tensor;
        return tensor < 0 ? tensor : 0;
    }
    if (!view_is_identity(&map) || rows != r->elements / r->shape[r->rank - 1])
        op->row_map = map;
    int tensor = build_matrix(b, g->inputs[1]);
    op->b = (uint32_t)tensor;
    return tensor < 0 ? tensor : 0;
}

static int emit_add(struct build *b, const struct graph_op *given)
{
    struct graph_op g = *given;
    const struct graph_value *r = &b->graph->values[g.result];
    const struct graph_value *left = &b->graph->values[g.inputs[0]],
                             *right = &b->graph->values[g.inputs[1]];
    bool swap = full_shape(left, r)
                    ? full_shape(right, r) && is_host(b, b->bound[g.inputs[0]].tensor)
                    : full_shape(right, r);
    if (swap) {
        g.inputs[0] = given->inputs[1];
        g.inputs[1] = given->inputs[0];
    }
    struct flow_op draft = {.kind = FLOW_ADD, .label = g.label, .batch = 1};
    int a = full_addend(b, g.inputs[0], r, g.label);
    int rc = a < 0 ? a : second_addend(b, &g, &draft);
    int out = rc < 0 ? rc : result_tensor(b, g.result);
    if (out < 0)
        return out;
    struct flow_op *op = build_op(b, FLOW_ADD, g.label);
    if (!op)
        return b->error->code;
    *op = draft;
    op->a = (uint32_t)a;
    op->out = (uint32_t)out;
    return 0;
}

static int emit_transpose(struct build *b, const struct graph_op *g)
{
    struct bound view;
    int rc = transposed(b, g->inputs[0], g->permutation, &view);
    if (rc == 0)
        b->bound[g->result] = view;
    return rc;
}

/* --- repeat ----------------------------------------------------------------------------------- */

static bool body_computes(const struct build *b, const struct graph_region *body, uint32_t value)
{
    const struct graph_value *values = b->graph->values;
    for (unsigned i = 0; i < body->op_count; i++) {
        const struct graph_op *op = &body->ops[i];
        if (op->kind == GRAPH_REPEAT || op->result != value)
            continue;
        if (op->kind == GRAPH_CAST)
            return values[op->inputs[0]].type != values[value].type;
        return op->kind != GRAPH_RESHAPE && op->kind != GRAPH_TRANSPOSE;
    }
    return false;
}

static bool loop_form(const struct build *b, const struct graph_op *g)
{
    if (b->region != 0 || g->count == 1)
        return false;
    for (unsigned i = 0; i < g->carried_count; i++) {
        if (!body_computes(b, g->body, g->carried[i].yielded))
            return false;
        for (unsigned k = 0; k < i; k++)
            if (g->carried[k].yielded == g->carried[i].yielded)
                return false;
    }
    for (unsigned i = 0; i < g->sequence_count; i++)
        for (uint32_t k = 0; k < g->count; k++)
            if (!is_host(b, b->bound[g->sequences[i].members[k]].tensor))
                return false;
    for (unsigned i = 0; i < g->body->op_count; i++)
        if (g->body->ops[i].kind == GRAPH_REPEAT)
            return false;
    return true;
}

static int unroll(struct build *b, const struct graph_op *g)
{
    struct bound *next = ARENA_ARRAY(b->arena, struct bound, g->carried_count);
    if (!next)
        return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
    for (unsigned i = 0; i < g->carried_count; i++)
        next[i] = b->bound[g->carried[i].initial];
    for (uint32_t n = 0; n < g->count; n++) {
        for (unsigned i = 0; i < g->carried_count; i++)
            b->bound[g->carried[i].inside] = next[i];
        for (unsigned i = 0; i < g->sequence_count; i++)
            b->bound[g->sequences[i].inside] = b->bound[g->sequences[i].members[n]];
        int rc = build_ops(b, g->body);
        if (rc < 0)
            return rc;
        for (unsigned i = 0; i < g->carried_count; i++)
            next[i] = b->bound[g->carried[i].yielded];
    }
    for (unsigned i = 0; i < g->carried_count; i++)
        b->bound[g->carried[i].result] = next[i];
    return 0;
}

static int plain_tensor(struct build *b, uint32_t value, enum flow_source source, uint32_t region)
{
    const struct graph_value *v = &b->graph->values[value];
    struct flow_tensor t = {.source = source,
                            .type = v->type,
                            .name = v->name,
                            .region = region,
                            .columns = v->shape[v->rank - 1],
                            .rows = v->elements / v->shape[v->rank - 1]};
    int rc = build_tensor(b, &t);
    if (rc >= 0)
        b->bound[value] = (struct bound){(uint32_t)rc, view_identity(v->elements)};
    return rc;
}

static int bind_sequence(struct build *b, const struct graph_op *g, const struct graph_sequence *s,
                         uint32_t region)
{
    uint32_t *members = ARENA_ARRAY(b->arena, uint32_t, g->count);
    if (!members)
        return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < g->count; i++) {
        int rc = build_matrix(b, s->members[i]);
        if (rc < 0)
            return rc;
        members[i] = (uint32_t)rc;
    }
    struct flow_tensor t = b->flow->tensors[members[0]];
    for (uint32_t i = 1; i < g->count; i++) {
        if (!same_view(&b->flow->tensors[members[i]].view, &t.view))
            return build_fail(b, IPU_ERR_UNSUPPORTED,
                              "the members of a sequence are rearranged in different ways; give "
                              "them as parameters of one form");
    }
    t.source = FLOW_SEQUENCE;
    t.name = b->graph->values[s->inside].name;
    t.region = region;
    t.member_count = g->count;
    t.members = members;
    int rc = build_tensor(b, &t);
    if (rc >= 0)
        b->bound[s->inside] = (struct bound){(uint32_t)rc, t.view};
    return rc;
}

static int emit_loop(struct build *b, const struct graph_op *g)
{
    struct flow_carried *carried = ARENA_ARRAY(b->arena, struct flow_carried, g->carried_count);
    /* The body may rearrange values of the enclosing region for itself; outside they keep what they
     * are bound to. */
    struct bound *outside =
        arena_memdup(b->arena, b->bound, b->graph->value_count * sizeof *b->bound);
    int region = build_open_region(b);
    if (!carried || !outside || region < 0)
        return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
    int rc = 0;
    for (unsigned i = 0; rc >= 0 && i < g->carried_count; i++) {
        rc = build_matrix(b, g->carried[i].initial);
        carried[i].initial = (uint32_t)rc;
        if (rc >= 0)
            rc = plain_tensor(b, g->carried[i].inside, FLOW_CARRIED, (uint32_t)region);
        carried[i].inside = (uint32_t)rc;
    }
    for (unsigned i = 0; rc >= 0 && i < g->sequence_count; i++)
        rc = bind_sequence(b, g, &g->sequences[i], (uint32_t)region);
    uint32_t outer = b->region;
    b->region = (uint32_t)region;
    if (rc >= 0)
        rc = build_ops(b, g->body);
    for (unsigned i = 0; rc >= 0 && i < g->carried_count; i++) {
        rc = build_matrix(b, g->carried[i].yielded);
        carried[i].yielded = (uint32_t)rc;
    }
    b->region = outer;
    memcpy(b->bound, outside, b->graph->value_count * sizeof *b->bound);
    for (unsigned i = 0; rc >= 0 && i < g->carried_count; i++) {
        rc = plain_tensor(b, g->carried[i].result, FLOW_RESULT, outer);
        carried[i].result = (uint32_t)rc;
    }
    struct flow_op *op = rc < 0 ? NULL : build_op(b, FLOW_REPEAT, g->label);
    if (!op)
        return b->error->code;
    op->count = g->count;
    op->region = (uint32_t)region;
    op->carried_count = g->carried_count;
    op->carried = carried;
    return 0;
}

static int build_one(struct build *b, const struct graph_op *g)
{
    switch (g->kind) {
    case GRAPH_MATMUL:
        return emit_matmul(b, g);
    case GRAPH_ADD:
        return emit_add(b, g);
    case GRAPH_GELU:
        return emit_unary(b, g, FLOW_GELU);
    case GRAPH_RELU:
        return emit_unary(b, g, FLOW_RELU);
    case GRAPH_CAST:
        return emit_unary(b, g, FLOW_CAST);
    case GRAPH_RESHAPE:
        b->bound[g->result] = b->bound[g->inputs[0]];
        return 0;
    case GRAPH_TRANSPOSE:
        return emit_transpose(b, g);
    default:
        return loop_form(b, g) ? emit_loop(b, g) : unroll(b, g);
    }
}

int build_ops(struct build *b, const struct graph_region *region)
{
    for (unsigned i = 0; i < region->op_count; i++) {
        int rc = build_one(b, &region->ops[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}
