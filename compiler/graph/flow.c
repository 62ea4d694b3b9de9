/* graph_flow(): from the checked graph to two-dimensional tensors and operations.
 *
 * Requires a graph that graph_check() accepted. Every graph value becomes a (tensor, view) pair:
 * the view is a stack of axes with strides in the source, so that reshapes and transposes of host
 * tensors cost nothing; the pair is materialised as a tensor only where an operation needs it as a
 * matrix. Repeats whose shape the loop form cannot express (a yielded value that the body does not
 * compute, computed sequence members, a repeat inside a repeat) are unrolled. Operations that no
 * output needs are dropped.
 */
#include "compiler/graph/build.h"

#include <string.h>

int build_fail(const struct build *b, int code, const char *what)
{
    return ipu_error_set(b->error, code, "workload: %s", what);
}

static void *grow(struct build *b, void *old, unsigned count, unsigned *capacity, size_t size)
{
    if (count < *capacity)
        return old;
    unsigned wanted = *capacity ? *capacity * 2 : 64;
    void *fresh = arena_calloc(b->arena, wanted, size);
    if (!fresh)
        return NULL;
    if (count)
        memcpy(fresh, old, count * size);
    *capacity = wanted;
    return fresh;
}

int build_tensor(struct build *b, const struct flow_tensor *tensor)
{
    struct flow *f = b->flow;
    void *list = grow(b, f->tensors, f->tensor_count, &b->tensor_capacity, sizeof *f->tensors);
    if (!list)
        return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
    f->tensors = list;
    f->tensors[f->tensor_count] = *tensor;
    f->tensors[f->tensor_count].id = f->tensor_count;
    if (!tensor->name)
        f->tensors[f->tensor_count].name = "";
    return (int)f->tensor_count++;
}

struct flow_op *build_op(struct build *b, enum flow_op_kind kind, const char *label)
{
    struct build_region *r = &b->regions[b->region];
    if (++b->op_total > GRAPH_MAX_FLOW_OPS) {
        ipu_error_set(b->error, IPU_ERR_LIMIT,
                      "workload: more than %d operations after unrolling; use a repeat whose body "
                      "computes what it yields",
                      GRAPH_MAX_FLOW_OPS);
        return NULL;
    }
    void *list = grow(b, r->ops, r->count, &r->capacity, sizeof *r->ops);
    if (!list) {
        build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    r->ops = list;
    r->ops[r->count] = (struct flow_op){.kind = kind, .label = label, .batch = 1};
    return &r->ops[r->count++];
}

int build_open_region(struct build *b)
{
    void *list = grow(b, b->regions, b->region_count, &b->region_capacity, sizeof *b->regions);
    if (!list)
        return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
    b->regions = list;
    b->regions[b->region_count] = (struct build_region){.parent = b->region};
    return (int)b->region_count++;
}

static int host_value(struct build *b, uint32_t index)
{
    const struct graph_value *v = &b->graph->values[index];
    struct flow_host *h = &b->flow->hosts[b->flow->host_count];
    *h = (struct flow_host){
        .name = v->name, .parameter = v->parameter, .type = v->type, .rank = v->rank};
    memcpy(h->shape, v->shape, sizeof h->shape);
    int rc = graph_host_data(b->graph, index, b->arena, &h->data, &h->bytes, b->error);
    if (rc < 0)
        return rc;
    struct flow_tensor t = {.source = v->parameter ? FLOW_PARAMETER : FLOW_INPUT,
                            .type = v->type,
                            .name = v->name,
                            .host = b->flow->host_count++};
    t.columns = v->shape[v->rank - 1];
    t.rows = v->elements / t.columns;
    t.view = view_identity(v->elements);
    rc = build_tensor(b, &t);
    if (rc < 0)
        return rc;
    b->bound[index] = (struct bound){.tensor = (uint32_t)rc, .view = t.view};
    return 0;
}

static int add_outputs(struct build *b)
{
    struct flow *f = b->flow;
    f->outputs = ARENA_ARRAY(b->arena, struct flow_output, b->graph->output_count);
    if (!f->outputs)
        return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
    for (unsigned i = 0; i < b->graph->output_count; i++) {
        const struct graph_value *v = &b->graph->values[b->graph->outputs[i]];
        int tensor = build_matrix(b, b->graph->outputs[i]);
        if (tensor < 0)
            return tensor;
        enum flow_source source = f->tensors[tensor].source;
        if (source == FLOW_INPUT || source == FLOW_PARAMETER)
            tensor =
                build_permute(b, (uint32_t)tensor, view_identity(v->elements),
                              v->elements / v->shape[v->rank - 1], v->shape[v->rank - 1], v->name);
        if (tensor < 0)
            return tensor;
        struct flow_output *o = &f->outputs[f->output_count++];
        *o = (struct flow_output){.name = v->name, .tensor = (uint32_t)tensor, .rank = v->rank};
        memcpy(o->shape, v->shape, sizeof o->shape);
    }
    return 0;
}

/* --- dead code -------------------------------------------------------------------------------- */

static bool op_is_live(const struct flow_op *op, const bool *needed)
{
    if (op->kind != FLOW_REPEAT)
        return needed[op->out];
    for (unsigned i = 0; i < op->carried_count; i++)
        if (needed[op->carried[i].result])
            return true;
    return false;
}

static void need_members(const struct flow *f, bool *needed, uint32_t tensor)
{
    const struct flow_tensor *t = &f->tensors[tensor];
    needed[tensor] = true;
    if (t->source != FLOW_SEQUENCE)
        return;
    for (uint32_t i = 0; i < t->member_count; i++)
        needed[t->members[i]] = true;
}

/* Empties the regions of a repeat that nothing needs: no operation enters them any more. */
static void drop_region(struct build *b, uint32_t region)
{
    struct build_region *r = &b->regions[region];
    for (unsigned i = 0; i < r->count; i++)
        if (r->ops[i].kind == FLOW_REPEAT)
            drop_region(b, r->ops[i].region);
    r->count = 0;
}

static void sweep(struct build *b, uint32_t region, bool *needed);

/* What a live operation reads is needed, and so is what its body reads. */
static void need_sources(struct build *b, const struct flow_op *op, bool *needed)
{
    if (op->kind != FLOW_REPEAT) {
        need_members(b->flow, needed, op->a);
        if (op->kind == FLOW_GEMM || op->kind == FLOW_ADD)
            need_members(b->flow, needed, op->b);
        return;
    }
    for (unsigned k = 0; k < op->carried_count; k++) {
        need_members(b->flow, needed, op->carried[k].initial);
        need_members(b->flow, needed, op->carried[k].yielded);
    }
    sweep(b, op->region, needed);
}

static void sweep(struct build *b, uint32_t region, bool *needed)
{
    struct build_region *r = &b->regions[region];
    unsigned kept = 0;
    for (unsigned i = r->count; i-- > 0;) {
        struct flow_op *op = &r->ops[i];
        if (!op_is_live(op, needed)) {
            if (op->kind == FLOW_REPEAT)
                drop_region(b, op->region);
            op->out = UINT32_MAX;
            continue;
        }
        need_sources(b, op, needed);
    }
    for (unsigned i = 0; i < r->count; i++)
        if (r->ops[i].kind == FLOW_REPEAT ? op_is_live(&r->ops[i], needed)
                                          : r->ops[i].out != UINT32_MAX)
            r->ops[kept++] = r->ops[i];
    r->count = kept;
}

static unsigned region_depth(const struct build *b, uint32_t region, unsigned *depth)
{
    const struct build_region *r = &b->regions[region];
    unsigned deepest = 0;
    for (unsigned i = 0; i < r->count; i++) {
        const struct flow_op *op = &r->ops[i];
        if (op->kind == FLOW_REPEAT) {
            unsigned base = 0;
            for (unsigned k = 0; k < op->carried_count; k++)
                base = depth[op->carried[k].initial] > base ? depth[op->carried[k].initial] : base;
            unsigned body = region_depth(b, op->region, depth);
            for (unsigned k = 0; k < op->carried_count; k++)
                depth[op->carried[k].result] = base + body * op->count;
            deepest = base + body * op->count > deepest ? base + body * op->count : deepest;
            continue;
        }
        unsigned d = depth[op->a];
        if ((op->kind == FLOW_GEMM || op->kind == FLOW_ADD) && depth[op->b] > d)
            d = depth[op->b];
        depth[op->out] = d + (op->kind == FLOW_GEMM);
        deepest = depth[op->out] > deepest ? depth[op->out] : deepest;
    }
    return deepest;
}

static int finish(struct build *b)
{
    struct flow *f = b->flow;
    bool *needed = ARENA_ARRAY(b->arena, bool, f->tensor_count + 1);
    unsigned *depth = ARENA_ARRAY(b->arena, unsigned, f->tensor_count + 1);
    f->regions = ARENA_ARRAY(b->arena, struct flow_region, b->region_count);
    if (!needed || !depth || !f->regions)
        return build_fail(b, IPU_ERR_NO_MEMORY, "out of memory");
    for (unsigned i = 0; i < f->output_count; i++)
        needed[f->outputs[i].tensor] = true;
    sweep(b, 0, needed);
    f->region_count = b->region_count;
    for (unsigned i = 0; i < b->region_count; i++)
        f->regions[i] =
            (struct flow_region){b->regions[i].parent, b->regions[i].count, b->regions[i].ops};
    f->gemm_depth = region_depth(b, 0, depth);
    return 0;
}

int graph_flow(const struct graph *graph, struct arena *arena, struct flow **out,
               struct ipu_error *error)
{
    struct build b = {.graph = graph, .arena = arena, .error = error};
    unsigned hosts = 0;
    for (uint32_t i = 0; i < graph->value_count; i++)
        hosts += graph->values[i].host;
    b.flow = ARENA_NEW(arena, struct flow);
    b.bound = ARENA_ARRAY(arena, struct bound, graph->value_count + 1);
    if (!b.flow || !b.bound)
        return build_fail(&b, IPU_ERR_NO_MEMORY, "out of memory");
    b.flow->name = graph->name;
    b.flow->tiles = graph->tiles;
    b.flow->hosts = ARENA_ARRAY(arena, struct flow_host, hosts + 1);
    if (!b.flow->hosts)
        return build_fail(&b, IPU_ERR_NO_MEMORY, "out of memory");
    int rc = build_open_region(&b);
    for (uint32_t i = 0; rc >= 0 && i < graph->value_count; i++)
        if (graph->values[i].host)
            rc = host_value(&b, i);
    if (rc >= 0)
        rc = build_ops(&b, &graph->top);
    if (rc >= 0)
        rc = add_outputs(&b);
    if (rc >= 0)
        rc = finish(&b);
    if (rc < 0)
        return rc;
    *out = b.flow;
    return 0;
}
