/* Flattens a flow into the planner's model: operations in execution order with resolved operands.
 *
 * Invariants: the model's operations stand in the order of plan.ops (region by region); positions
 * number them in execution order, a REPEAT taking one position before its body and one after it;
 * a result lives from `begin` to `end` inclusive. A carried value lives in the layout of the
 * operation that yields it, so that operation's result lives as long as the whole repeat.
 * Fails only when the arena is exhausted or when the flow breaks its own contract.
 */
#include "compiler/plan/internal.h"

#include "base/hash.h"

#include <string.h>

struct walk {
    struct model *model;
    uint32_t position;
    uint32_t next;       /* in model->order */
    uint32_t *repeat_of; /* by region: op index of its REPEAT */
};

static uint32_t resolve_depth_limit(const struct flow *flow)
{
    return flow->region_count + 2;
}

/* The producer of a value: follows carried values and results to the operation that yields. */
static struct model_source resolve(const struct walk *walk, uint32_t tensor)
{
    const struct model *m = walk->model;
    const struct flow *flow = m->flow;
    struct model_source source = {SOURCE_HOST, 0, tensor, 1};
    uint32_t at = tensor, fixed = tensor;
    for (uint32_t depth = 0; depth < resolve_depth_limit(flow); depth++) {
        const struct flow_tensor *t = &flow->tensors[at];
        if (t->source == FLOW_COMPUTED) {
            source.kind = SOURCE_OP;
            source.index = m->producer[at];
            return source;
        }
        if (t->source == FLOW_RESULT || (t->source == FLOW_CARRIED && depth == 0)) {
            fixed = m->carry[at]->inside;
            at = m->carry[at]->yielded;
            continue;
        }
        break;
    }
    if (flow->tensors[tensor].source == FLOW_CARRIED ||
        flow->tensors[tensor].source == FLOW_RESULT) {
        source.kind = SOURCE_FIXED;
        source.index = fixed;
        return source;
    }
    if (flow->tensors[tensor].source == FLOW_SEQUENCE)
        source.copies = m->ops[walk->repeat_of[flow->tensors[tensor].region]].flow->count;
    return source;
}

static void use(struct walk *walk, uint32_t tensor, uint32_t region, uint32_t position)
{
    const struct flow *flow = walk->model->flow;
    uint32_t home = flow->tensors[tensor].region;
    uint32_t end = position;
    while (region != home && region != 0) { /* a use inside a repeat lasts until the repeat ends */
        end = walk->model->ops[walk->repeat_of[region]].close;
        region = flow->regions[region].parent;
    }
    if (walk->model->last_use[tensor] < end)
        walk->model->last_use[tensor] = end;
}

static void number_region(struct walk *walk, uint32_t region, uint64_t executions)
{
    struct model *m = walk->model;
    const struct flow_region *r = &m->flow->regions[region];
    for (unsigned i = 0; i < r->op_count; i++) {
        uint32_t index = m->first_op[region] + i;
        struct model_op *op = &m->ops[index];
        op->flow = &r->ops[i];
        op->region = region;
        op->op = i;
        op->executions = executions;
        op->position = walk->position++;
        m->order[walk->next++] = index;
        if (op->flow->kind != FLOW_REPEAT) {
            m->producer[op->flow->out] = index;
            continue;
        }
        walk->repeat_of[op->flow->region] = index;
        for (unsigned c = 0; c < op->flow->carried_count; c++) {
            m->carry[op->flow->carried[c].inside] = &op->flow->carried[c];
            m->carry[op->flow->carried[c].result] = &op->flow->carried[c];
        }
        number_region(walk, op->flow->region, executions * op->flow->count);
        op->close = walk->position++;
    }
}

static void note_uses(struct walk *walk, const struct model_op *op)
{
    const struct flow_op *f = op->flow;
    if (f->kind != FLOW_REPEAT) {
        use(walk, f->a, op->region, op->position);
        if (f->kind == FLOW_GEMM || f->kind == FLOW_ADD)
            use(walk, f->b, op->region, op->position);
        return;
    }
    for (unsigned c = 0; c < f->carried_count; c++) {
        use(walk, f->carried[c].initial, op->region, op->position);
        use(walk, f->carried[c].yielded, f->region, op->close);
    }
}

static void shape_op(struct walk *walk, struct model_op *op)
{
    const struct flow *flow = walk->model->flow;
    const struct flow_op *f = op->flow;
    if (f->kind == FLOW_REPEAT)
        return;
    const struct flow_tensor *out = &flow->tensors[f->out];
    op->batch = f->kind == FLOW_GEMM && f->batch > 1 ? f->batch : 1;
    op->rows = (uint32_t)(out->rows / op->batch);
    op->panels = (uint32_t)plan_panels(out->columns);
    op->inners = f->kind == FLOW_GEMM ? (uint32_t)plan_panels(flow->tensors[f->a].columns) : 0;
    op->out_words = out->type == FLOW_F32 ? 16 : 8;
    op->a = walk->model->source[f->a];
    if (f->kind == FLOW_GEMM || f->kind == FLOW_ADD)
        op->b = walk->model->source[f->b];
}

static void note_life(struct walk *walk, struct model_op *op)
{
    struct model *m = walk->model;
    const struct flow_op *f = op->flow;
    if (f->kind != FLOW_REPEAT) {
        op->begin = op->position;
        op->end = m->last_use[f->out] > op->position ? m->last_use[f->out] : op->position;
        const struct flow_tensor *a = &m->flow->tensors[f->a];
        op->in_place = a->source == FLOW_COMPUTED && a->region == op->region &&
                       m->last_use[f->a] == op->position;
    }
}

/* A yielded result is written once per iteration but holds the carried value all the time. */
static void note_carried_life(struct walk *walk, const struct model_op *repeat)
{
    struct model *m = walk->model;
    for (unsigned c = 0; c < repeat->flow->carried_count; c++) {
        const struct flow_carried *carried = &repeat->flow->carried[c];
        struct model_source source = m->source[carried->inside];
        if (source.kind != SOURCE_OP)
            continue;
        struct model_op *root = &m->ops[source.index];
        uint32_t last = m->last_use[carried->result];
        last = last > repeat->close ? last : repeat->close;
        root->begin = root->begin < repeat->position ? root->begin : repeat->position;
        root->end = root->end > last ? root->end : last;
    }
}

static void note_fusable(struct model *m, uint32_t index)
{
    struct model_op *op = &m->ops[index];
    if (op->flow->kind != FLOW_ADD || op->flow->broadcast != FLOW_ROW || op->out_words != 8)
        return;
    if (op->op + 1 >= m->flow->regions[op->region].op_count)
        return;
    const struct model_op *next = &m->ops[index + 1];
    if (next->flow->kind != FLOW_GELU && next->flow->kind != FLOW_RELU)
        return;
    op->fusable = next->flow->a == op->flow->out && m->last_use[op->flow->out] == next->position &&
                  m->flow->tensors[next->flow->out].type == FLOW_F16;
}

static bool same_class(const struct model *m, const struct model_op *x, const struct model_op *y)
{
    const struct flow_op *f = x->flow, *g = y->flow;
    if (f->kind != g->kind || f->kind == FLOW_PERMUTE || f->kind == FLOW_REPEAT)
        return false;
    if (x->batch != y->batch || x->rows != y->rows || x->inners != y->inners ||
        x->panels != y->panels || x->out_words != y->out_words || x->fusable != y->fusable)
        return false;
    if ((x->a.kind == SOURCE_HOST) != (y->a.kind == SOURCE_HOST) ||
        (x->b.kind == SOURCE_HOST) != (y->b.kind == SOURCE_HOST))
        return false;
    if (f->kind == FLOW_GEMM && x->a.kind == SOURCE_HOST && x->a.copies != y->a.copies)
        return false;
    if (f->kind == FLOW_GEMM && m->flow->tensors[f->a].columns != m->flow->tensors[g->a].columns)
        return false;
    return (f->kind != FLOW_ADD ||
            (f->broadcast == g->broadcast && f->row_map.axes == 0 && g->row_map.axes == 0)) &&
           m->flow->tensors[f->a].type == m->flow->tensors[g->a].type;
}

static void classify(struct model *m, uint32_t index)
{
    for (uint32_t c = 0; c < m->class_count; c++) {
        if (same_class(m, &m->ops[index], &m->ops[m->class_op[c]])) {
            m->ops[index].class_index = c;
            return;
        }
    }
    m->class_op[m->class_count] = index;
    m->ops[index].class_index = m->class_count++;
}

static bool model_allocate(struct model *m, struct walk *walk, struct arena *arena)
{
    const struct flow *flow = m->flow;
    for (unsigned r = 0; r < flow->region_count; r++)
        m->op_count += flow->regions[r].op_count;
    m->ops = ARENA_ARRAY(arena, struct model_op, m->op_count + 1);
    m->order = ARENA_ARRAY(arena, uint32_t, m->op_count + 1);
    m->class_op = ARENA_ARRAY(arena, uint32_t, m->op_count + 1);
    m->first_op = ARENA_ARRAY(arena, uint32_t, flow->region_count + 1);
    m->producer = ARENA_ARRAY(arena, uint32_t, flow->tensor_count + 1);
    m->last_use = ARENA_ARRAY(arena, uint32_t, flow->tensor_count + 1);
    m->carry = ARENA_ARRAY(arena, struct flow_carried *, flow->tensor_count + 1);
    m->source = ARENA_ARRAY(arena, struct model_source, flow->tensor_count + 1);
    walk->repeat_of = ARENA_ARRAY(arena, uint32_t, flow->region_count + 1);
    return m->ops && m->order && m->class_op && m->first_op && m->producer && m->last_use &&
           m->carry && m->source && walk->repeat_of;
}

/* Refuses shapes past what the planner's 32-bit counts hold. */
static int check_sizes(const struct flow *flow, struct ipu_error *error)
{
    if (flow->tiles == 0 || flow->tiles > PLAN_MAX_TILES)
        return ipu_error_set(error, IPU_ERR_INVALID, "plan: %u tiles are not between 1 and %u",
                             flow->tiles, PLAN_MAX_TILES);
    for (unsigned t = 0; t < flow->tensor_count; t++) {
        const struct flow_tensor *tensor = &flow->tensors[t];
        if (tensor->rows == 0 || tensor->columns == 0 || tensor->rows > UINT32_MAX / 64 ||
            tensor->columns > UINT32_MAX / 64)
            return ipu_error_set(error, IPU_ERR_LIMIT,
                                 "plan: value %u%s%s has %llu x %llu elements: each side must be "
                                 "between 1 and %u",
                                 t, tensor->name && *tensor->name ? " " : "",
                                 tensor->name ? tensor->name : "", (unsigned long long)tensor->rows,
                                 (unsigned long long)tensor->columns, UINT32_MAX / 64);
    }
    return 0;
}

static void model_finish(struct walk *walk)
{
    struct model *m = walk->model;
    for (uint32_t i = 0; i < m->op_count; i++)
        note_uses(walk, &m->ops[i]);
    for (unsigned i = 0; i < m->flow->output_count; i++)
        m->last_use[m->flow->outputs[i].tensor] = UINT32_MAX;
    for (unsigned t = 0; t < m->flow->tensor_count; t++)
        m->source[t] = resolve(walk, t);
    for (uint32_t i = 0; i < m->op_count; i++) {
        shape_op(walk, &m->ops[i]);
        note_life(walk, &m->ops[i]);
    }
    /* Innermost repeats first: an outer carried value may rest on an inner one. */
    for (uint32_t i = m->op_count; i-- > 0;)
        if (m->ops[i].flow->kind == FLOW_REPEAT)
            note_carried_life(walk, &m->ops[i]);
    for (uint32_t i = 0; i < m->op_count; i++)
        note_fusable(m, i);
    for (uint32_t i = 0; i < m->op_count; i++)
        classify(m, i);
}

int model_build(const struct flow *flow, struct arena *arena, struct model **out,
                struct ipu_error *error)
{
    int status = check_sizes(flow, error);
    if (status != 0)
        return status;
    struct walk walk = {0};
    struct model *m = ARENA_NEW(arena, struct model);
    if (m == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the model");
    m->flow = flow;
    m->tiles = flow->tiles;
    walk.model = m;
    if (!model_allocate(m, &walk, arena))
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the model");
    memset(m->producer, 0xff, sizeof(uint32_t) * flow->tensor_count);
    uint32_t next = 0;
    for (unsigned r = 0; r < flow->region_count; r++) {
        m->first_op[r] = next;
        next += flow->regions[r].op_count;
    }
    number_region(&walk, 0, 1);
    if (walk.next != m->op_count)
        return ipu_error_set(error, IPU_ERR_INTERNAL,
                             "plan: the flow has regions that no repeat enters");
    model_finish(&walk);
    *out = m;
    return 0;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return hash64_mix(hash ^ hash64_mix(value + 0x9e3779b97f4a7c15u));
}

static uint64_t hash_view(uint64_t h, const struct flow_view *view)
{
    h = mix(h, view->axes);
    for (unsigned i = 0; i < view->axes; i++)
        h = mix(mix(h, view->axis[i].count), (uint64_t)view->axis[i].stride);
    return h;
}

static uint64_t hash_op(uint64_t h, const struct flow_op *op)
{
    h = mix(mix(mix(h, op->kind), op->a), op->out);
    h = mix(mix(mix(h, op->b), op->batch), op->broadcast);
    h = hash_view(hash_view(h, &op->row_map), &op->view);
    if (op->kind != FLOW_REPEAT)
        return h;
    h = mix(mix(h, op->count), op->region);
    for (unsigned i = 0; i < op->carried_count; i++) {
        const struct flow_carried *c = &op->carried[i];
        h = mix(mix(mix(mix(h, c->initial), c->inside), c->yielded), c->result);
    }
    return h;
}

/* Identity of everything in the flow that a plan depends on; weight data are no part of it. */
uint64_t model_hash(const struct flow *flow)
{
    uint64_t h = mix(mix(PLAN_COST_VERSION, flow->tiles), flow->tensor_count);
    for (unsigned t = 0; t < flow->tensor_count; t++) {
        const struct flow_tensor *tensor = &flow->tensors[t];
        h = mix(mix(mix(h, tensor->source), tensor->type), tensor->region);
        h = mix(mix(h, tensor->rows), tensor->columns);
    }
    for (unsigned r = 0; r < flow->region_count; r++) {
        h = mix(mix(h, flow->regions[r].parent), flow->regions[r].op_count);
        for (unsigned i = 0; i < flow->regions[r].op_count; i++)
            h = hash_op(h, &flow->regions[r].ops[i]);
    }
    for (unsigned i = 0; i < flow->output_count; i++)
        h = mix(h, flow->outputs[i].tensor);
    return h;
}
