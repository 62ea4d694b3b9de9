/* The operation rules of graph_check(): arity, types, shapes and scope of every operation kind. See
 * check.c. */
#include "compiler/graph/check.h"

#include <stdio.h>
#include <string.h>

static int both_shapes(const struct check *c, const struct graph_value *a,
                       const struct graph_value *b, const char *what)
{
    char left[128], right[128];
    return check_fail(c, IPU_ERR_INVALID, "left is %s and right is %s: %s",
                      graph_shape_text(a->shape, a->rank, left, sizeof left),
                      graph_shape_text(b->shape, b->rank, right, sizeof right), what);
}

static const char *type_name(enum flow_type type)
{
    return type == FLOW_F16 ? "f16" : "f32";
}

static int use_into(struct check *c, uint32_t id, const char *role, uint32_t *out)
{
    int index = check_use(c, id, role);
    if (index < 0)
        return index;
    *out = (uint32_t)index;
    return 0;
}

static int check_matmul(struct check *c, const Ipu__Workload__MatMul *m, struct graph_op *op,
                        struct graph_value *v)
{
    int rc = use_into(c, m->left, "left", &op->inputs[0]);
    if (rc == 0)
        rc = use_into(c, m->right, "right", &op->inputs[1]);
    if (rc < 0)
        return rc;
    op->transpose[0] = m->transpose_left;
    op->transpose[1] = m->transpose_right;
    const struct graph_value *a = &c->graph->values[op->inputs[0]],
                             *b = &c->graph->values[op->inputs[1]];
    if (a->type != FLOW_F16 || b->type != FLOW_F16)
        return check_fail(c, IPU_ERR_UNSUPPORTED,
                          "operands are %s and %s; matmul takes f16 (cast first)",
                          type_name(a->type), type_name(b->type));
    if (a->rank < 2 || b->rank < 2)
        return both_shapes(c, a, b, "both need at least two axes");
    uint64_t rows = a->shape[a->rank - (m->transpose_left ? 1 : 2)],
             inner = a->shape[a->rank - (m->transpose_left ? 2 : 1)];
    uint64_t right_inner = b->shape[b->rank - (m->transpose_right ? 1 : 2)];
    uint64_t columns = b->shape[b->rank - (m->transpose_right ? 2 : 1)];
    if (inner != right_inner)
        return both_shapes(c, a, b, "the inner axes differ (after the transpose flags)");
    bool shared = true;
    for (unsigned i = 0; i + 2 < b->rank; i++)
        shared = shared && b->shape[i] == 1;
    bool equal =
        a->rank == b->rank && memcmp(a->shape, b->shape, (a->rank - 2) * sizeof a->shape[0]) == 0;
    if (!equal && (!shared || b->rank > a->rank))
        return both_shapes(c, a, b,
                           "the leading axes must be equal, or all 1 or absent on the right");
    *v = (struct graph_value){.rank = a->rank, .type = FLOW_F16};
    memcpy(v->shape, a->shape, sizeof v->shape);
    v->shape[v->rank - 2] = rows;
    v->shape[v->rank - 1] = columns;
    return 0;
}

static int check_add(struct check *c, const Ipu__Workload__Add *m, struct graph_op *op,
                     struct graph_value *v)
{
    int rc = use_into(c, m->left, "left", &op->inputs[0]);
    if (rc == 0)
        rc = use_into(c, m->right, "right", &op->inputs[1]);
    if (rc < 0)
        return rc;
    const struct graph_value *a = &c->graph->values[op->inputs[0]],
                             *b = &c->graph->values[op->inputs[1]];
    if (a->type != b->type)
        return check_fail(c, IPU_ERR_INVALID, "operands are %s and %s; cast one of them first",
                          type_name(a->type), type_name(b->type));
    *v = (struct graph_value){.rank = a->rank > b->rank ? a->rank : b->rank, .type = a->type};
    for (unsigned i = 0; i < v->rank; i++) {
        uint64_t m1 = i < a->rank ? a->shape[a->rank - 1 - i] : 1,
                 m2 = i < b->rank ? b->shape[b->rank - 1 - i] : 1;
        if (m1 != m2 && m1 != 1 && m2 != 1)
            return both_shapes(c, a, b, "they do not broadcast");
        v->shape[v->rank - 1 - i] = m1 > m2 ? m1 : m2;
    }
    return 0;
}

static int check_unary(struct check *c, uint32_t input, struct graph_op *op, struct graph_value *v)
{
    int rc = use_into(c, input, "input", &op->inputs[0]);
    if (rc < 0)
        return rc;
    const struct graph_value *a = &c->graph->values[op->inputs[0]];
    *v = (struct graph_value){.rank = a->rank, .type = a->type};
    memcpy(v->shape, a->shape, sizeof v->shape);
    return 0;
}

static int check_cast(struct check *c, const Ipu__Workload__Operation *m, struct graph_op *op,
                      struct graph_value *v)
{
    int rc = check_unary(c, m->cast->input, op, v);
    if (rc < 0)
        return rc;
    Ipu__Workload__ElementType type =
        m->result ? m->result->type : IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED;
    if (type == IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED)
        return check_fail(c, IPU_ERR_INVALID, "the result of a cast must declare its type");
    if (type == IPU__WORKLOAD__ELEMENT_TYPE__F32)
        v->type = FLOW_F32;
    else if (type == IPU__WORKLOAD__ELEMENT_TYPE__F16)
        v->type = FLOW_F16;
    return 0; /* other types are refused by check_result() */
}

static int check_reshape(struct check *c, const Ipu__Workload__Operation *m, struct graph_op *op,
                         struct graph_value *v)
{
    int rc = check_unary(c, m->reshape->input, op, v);
    if (rc < 0)
        return rc;
    const Ipu__Workload__Value *r = m->result;
    if (!r || r->n_shape == 0 || r->n_shape > GRAPH_MAX_RANK)
        return check_fail(c, IPU_ERR_INVALID,
                          "the result of a reshape must declare a shape of 1 to %d axes",
                          GRAPH_MAX_RANK);
    const struct graph_value *a = &c->graph->values[op->inputs[0]];
    uint64_t elements = 1;
    for (size_t i = 0; i < r->n_shape; i++) {
        if (r->shape[i] == 0 || r->shape[i] > a->elements)
            elements = 0;
        elements *= elements > a->elements ? 0 : r->shape[i];
        v->shape[i] = r->shape[i];
    }
    v->rank = (unsigned)r->n_shape;
    if (elements != a->elements) {
        char from[128], to[128];
        return check_fail(c, IPU_ERR_INVALID,
                          "input is %s and the result is declared %s: the element counts differ",
                          graph_shape_text(a->shape, a->rank, from, sizeof from),
                          graph_shape_text(v->shape, v->rank, to, sizeof to));
    }
    return 0;
}

static int check_transpose(struct check *c, const Ipu__Workload__Transpose *m, struct graph_op *op,
                           struct graph_value *v)
{
    int rc = check_unary(c, m->input, op, v);
    if (rc < 0)
        return rc;
    const struct graph_value *a = &c->graph->values[op->inputs[0]];
    unsigned rank = a->rank, seen = 0;
    if (m->n_permutation != 0 && m->n_permutation != rank)
        return check_fail(c, IPU_ERR_INVALID, "the permutation names %zu axes but the input has %u",
                          m->n_permutation, rank);
    for (unsigned i = 0; i < rank; i++) {
        unsigned from = m->n_permutation ? m->permutation[i] : i;
        if (!m->n_permutation && rank >= 2 && i >= rank - 2)
            from = i == rank - 1 ? rank - 2 : rank - 1;
        if (from >= rank || (seen & 1u << from))
            return check_fail(c, IPU_ERR_INVALID, "the permutation is not a permutation of 0..%u",
                              rank - 1);
        seen |= 1u << from;
        op->permutation[i] = from;
        v->shape[i] = a->shape[from];
    }
    return 0;
}

/* --- repeat ----------------------------------------------------------------------------------- */

static bool same_form(const struct graph_value *a, const struct graph_value *b)
{
    return a->type == b->type && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

static struct graph_value form_of(const struct graph_value *a)
{
    struct graph_value v = {.rank = a->rank, .type = a->type, .elements = a->elements};
    memcpy(v.shape, a->shape, sizeof v.shape);
    return v;
}

static int check_carried_entry(struct check *c, const Ipu__Workload__Carried *m,
                               struct graph_carried *out)
{
    int rc = use_into(c, m->initial, "carried.initial", &out->initial);
    if (rc < 0)
        return rc;
    struct graph_value v = form_of(&c->graph->values[out->initial]);
    rc = check_result(c, m->inside, &v);
    if (rc < 0)
        return rc;
    out->inside = (uint32_t)rc;
    return 0;
}

static int check_sequence(struct check *c, const Ipu__Workload__Sequence *m, struct graph_op *op,
                          struct graph_sequence *out)
{
    if (m->n_members != op->count)
        return check_fail(c, IPU_ERR_INVALID,
                          "a sequence has %zu members but the repeat runs %u times", m->n_members,
                          op->count);
    out->members = ARENA_ARRAY(c->arena, uint32_t, op->count);
    if (!out->members)
        return check_fail(c, IPU_ERR_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < op->count; i++) {
        int rc = use_into(c, m->members[i], "sequence member", &out->members[i]);
        if (rc < 0)
            return rc;
        if (!same_form(&c->graph->values[out->members[i]], &c->graph->values[out->members[0]]))
            return both_shapes(c, &c->graph->values[out->members[0]],
                               &c->graph->values[out->members[i]],
                               "all members of a sequence need one shape and type");
    }
    struct graph_value v = form_of(&c->graph->values[out->members[0]]);
    int rc = check_result(c, m->inside, &v);
    if (rc < 0)
        return rc;
    out->inside = (uint32_t)rc;
    return 0;
}

static int check_yield(struct check *c, const Ipu__Workload__Carried *m, struct graph_carried *out)
{
    int rc = use_into(c, m->yielded, "carried.yielded", &out->yielded);
    if (rc < 0)
        return rc;
    const struct graph_value *a = &c->graph->values[out->yielded],
                             *b = &c->graph->values[out->inside];
    if (!same_form(a, b))
        return both_shapes(
            c, b, a, "a carried value and what the body yields for it need one shape and type");
    return 0;
}

static int check_repeat(struct check *c, const Ipu__Workload__Operation *m, struct graph_op *op,
                        const char *prefix)
{
    const Ipu__Workload__Repeat *r = m->repeat;
    if (r->count == 0 || r->count > GRAPH_MAX_REPEAT)
        return check_fail(c, IPU_ERR_INVALID, "count is %u; 1 to %d are allowed", r->count,
                          GRAPH_MAX_REPEAT);
    if (r->n_carried == 0)
        return check_fail(c, IPU_ERR_INVALID,
                          "a repeat needs at least one carried value, or it has no result");
    if (!r->body || r->body->n_operations == 0)
        return check_fail(c, IPU_ERR_INVALID, "the body has no operations");
    if (c->depth >= 8)
        return check_fail(c, IPU_ERR_LIMIT, "repeats are nested more than 8 deep");
    op->count = r->count;
    op->carried_count = (unsigned)r->n_carried;
    op->sequence_count = (unsigned)r->n_sequences;
    op->carried = ARENA_ARRAY(c->arena, struct graph_carried, r->n_carried);
    op->sequences = ARENA_ARRAY(c->arena, struct graph_sequence, r->n_sequences);
    op->body = ARENA_NEW(c->arena, struct graph_region);
    if (!op->carried || !op->sequences || !op->body)
        return check_fail(c, IPU_ERR_NO_MEMORY, "out of memory");
    char saved[sizeof c->where];
    memcpy(saved, c->where, sizeof saved);
    uint32_t first_inside = c->graph->value_count;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n_carried; i++)
        rc = check_carried_entry(c, r->carried[i], &op->carried[i]);
    for (size_t i = 0; rc == 0 && i < r->n_sequences; i++)
        rc = check_sequence(c, r->sequences[i], op, &op->sequences[i]);
    c->depth++;
    if (rc == 0)
        rc = check_region(c, r->body, op->body, prefix);
    c->depth--;
    memcpy(c->where, saved, sizeof saved);
    for (size_t i = 0; rc >= 0 && i < r->n_carried; i++)
        rc = check_yield(c, r->carried[i], &op->carried[i]);
    if (rc < 0)
        return rc;
    for (uint32_t i = first_inside; i < c->graph->value_count; i++)
        c->visible[i] = false;
    for (size_t i = 0; i < r->n_carried; i++) {
        struct graph_value v = form_of(&c->graph->values[op->carried[i].inside]);
        rc = check_result(c, r->carried[i]->result, &v);
        if (rc < 0)
            return rc;
        op->carried[i].result = (uint32_t)rc;
    }
    return 0;
}

/* --- regions ---------------------------------------------------------------------------------- */

static int check_kind(struct check *c, const Ipu__Workload__Operation *m, struct graph_op *op,
                      struct graph_value *v)
{
    switch (op->kind) {
    case GRAPH_MATMUL:
        return check_matmul(c, m->matmul, op, v);
    case GRAPH_ADD:
        return check_add(c, m->add, op, v);
    case GRAPH_GELU:
        return check_unary(c, m->gelu->input, op, v);
    case GRAPH_RELU:
        return check_unary(c, m->relu->input, op, v);
    case GRAPH_CAST:
        return check_cast(c, m, op, v);
    case GRAPH_RESHAPE:
        return check_reshape(c, m, op, v);
    default:
        return check_transpose(c, m->transpose, op, v);
    }
}

static bool kind_of(const Ipu__Workload__Operation *m, enum graph_op_kind *kind)
{
    switch (m->kind_case) {
    case IPU__WORKLOAD__OPERATION__KIND_MATMUL:
        *kind = GRAPH_MATMUL;
        return true;
    case IPU__WORKLOAD__OPERATION__KIND_ADD:
        *kind = GRAPH_ADD;
        return true;
    case IPU__WORKLOAD__OPERATION__KIND_GELU:
        *kind = GRAPH_GELU;
        return true;
    case IPU__WORKLOAD__OPERATION__KIND_RELU:
        *kind = GRAPH_RELU;
        return true;
    case IPU__WORKLOAD__OPERATION__KIND_CAST:
        *kind = GRAPH_CAST;
        return true;
    case IPU__WORKLOAD__OPERATION__KIND_RESHAPE:
        *kind = GRAPH_RESHAPE;
        return true;
    case IPU__WORKLOAD__OPERATION__KIND_TRANSPOSE:
        *kind = GRAPH_TRANSPOSE;
        return true;
    case IPU__WORKLOAD__OPERATION__KIND_REPEAT:
        *kind = GRAPH_REPEAT;
        return true;
    default:
        return false;
    }
}

/* Labels reach logs and profiles: keep to printable characters without spaces or quotes. */
static const char *label_of(struct check *c, const char *given, const char *prefix,
                            const char *kind, size_t position)
{
    if (!given[0])
        return arena_printf(c->arena, "%s%s%zu", prefix, kind, position);
    char *label = arena_printf(c->arena, "%.64s", given);
    for (char *p = label; p && *p; p++)
        if (*p <= ' ' || *p >= 127 || *p == '"' || *p == '\'' || *p == '=')
            *p = '_';
    return label;
}

static int check_operation(struct check *c, const Ipu__Workload__Operation *m, struct graph_op *op,
                           const char *prefix, size_t position)
{
    snprintf(c->where, sizeof c->where, "operation %s%zu", prefix, position);
    if (!kind_of(m, &op->kind))
        return check_fail(c, IPU_ERR_INVALID,
                          "unknown operation; this version knows matmul, add, gelu, relu, cast, "
                          "reshape, transpose, repeat");
    op->label = label_of(c, m->label, prefix, graph_op_name(op->kind), position);
    if (!op->label)
        return check_fail(c, IPU_ERR_NO_MEMORY, "out of memory");
    snprintf(c->where, sizeof c->where, "operation %s%zu (%s%s%.40s%s)", prefix, position,
             graph_op_name(op->kind), m->label[0] ? " '" : "", m->label[0] ? op->label : "",
             m->label[0] ? "'" : "");
    if (op->kind == GRAPH_REPEAT) {
        char inner[64];
        snprintf(inner, sizeof inner, "%.40s%zu.", prefix, position);
        return check_repeat(c, m, op, inner);
    }
    struct graph_value v;
    int rc = check_kind(c, m, op, &v);
    if (rc == 0)
        rc = check_result(c, m->result, &v);
    if (rc < 0)
        return rc;
    op->result = (uint32_t)rc;
    return 0;
}

int check_region(struct check *c, const Ipu__Workload__Region *region, struct graph_region *out,
                 const char *prefix)
{
    out->ops = ARENA_ARRAY(c->arena, struct graph_op, region->n_operations);
    if (!out->ops)
        return check_fail(c, IPU_ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < region->n_operations; i++) {
        int rc = check_operation(c, region->operations[i], &out->ops[i], prefix, i);
        if (rc < 0)
            return rc;
        out->op_count++;
    }
    return 0;
}
