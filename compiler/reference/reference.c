/* Reference evaluation: see reference.h. One pass over the regions; every value gets an f32 array;
 * arrays live in the arena. */
#include "compiler/reference/reference.h"

#include "base/half.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

void openblas_set_num_threads(int threads);

struct evaluation {
    const struct graph *graph;
    struct arena *arena;
    struct ipu_error *error;
    float **values; /* by value index; NULL until computed */
    bool round;     /* PRECISION_DEVICE */
};

static int out_of_memory(struct evaluation *e)
{
    return ipu_error_set(e->error, IPU_ERR_NO_MEMORY, "reference: out of memory");
}

static float *allocate(struct evaluation *e, uint32_t value)
{
    e->values[value] = arena_calloc(e->arena, e->graph->values[value].elements, sizeof(float));
    return e->values[value];
}

static void round_value(const struct evaluation *e, uint32_t value)
{
    const struct graph_value *v = &e->graph->values[value];
    if (!e->round || v->type != FLOW_F16)
        return;
    float *x = e->values[value];
    for (uint64_t i = 0; i < v->elements; i++)
        x[i] = half_to_float(half_from_float_saturate(x[i]));
}

static int load_host(struct evaluation *e, uint32_t value)
{
    const struct graph_value *v = &e->graph->values[value];
    const uint8_t *data;
    uint64_t bytes;
    int rc = graph_host_data(e->graph, value, e->arena, &data, &bytes, e->error);
    if (rc < 0)
        return rc;
    float *x = allocate(e, value);
    if (!x)
        return out_of_memory(e);
    for (uint64_t i = 0; i < v->elements; i++) {
        uint16_t half;
        if (v->type == FLOW_F16) {
            memcpy(&half, data + 2 * i, sizeof half);
            x[i] = half_to_float(half);
        } else {
            memcpy(&x[i], data + 4 * i, sizeof x[i]);
        }
    }
    return 0;
}

static void matmul(const struct evaluation *e, const struct graph_op *op, float *out)
{
    const struct graph_value *a = &e->graph->values[op->inputs[0]],
                             *b = &e->graph->values[op->inputs[1]];
    const struct graph_value *r = &e->graph->values[op->result];
    int rows = (int)r->shape[r->rank - 2], columns = (int)r->shape[r->rank - 1];
    int inner = (int)a->shape[a->rank - (op->transpose[0] ? 2 : 1)];
    int a_columns = (int)a->shape[a->rank - 1], b_columns = (int)b->shape[b->rank - 1];
    uint64_t batches = r->elements / ((uint64_t)rows * (uint64_t)columns);
    uint64_t a_step = (uint64_t)rows * (uint64_t)inner,
             b_step = (uint64_t)inner * (uint64_t)columns;
    if (b->elements == b_step)
        b_step = 0;
    for (uint64_t i = 0; i < batches; i++)
        cblas_sgemm(CblasRowMajor, op->transpose[0] ? CblasTrans : CblasNoTrans,
                    op->transpose[1] ? CblasTrans : CblasNoTrans, rows, columns, inner, 1.0f,
                    e->values[op->inputs[0]] + i * a_step, a_columns,
                    e->values[op->inputs[1]] + i * b_step, b_columns, 0.0f,
                    out + i * (uint64_t)rows * (uint64_t)columns, columns);
}

/* Strides of `v` for walking the axes of `r` by numpy broadcasting; 0 where it repeats. */
static void broadcast_strides(const struct graph_value *v, const struct graph_value *r,
                              uint64_t strides[GRAPH_MAX_RANK])
{
    uint64_t step = 1;
    for (unsigned i = 0; i < r->rank; i++) {
        unsigned axis = r->rank - 1 - i;
        uint64_t n = i < v->rank ? v->shape[v->rank - 1 - i] : 1;
        strides[axis] = n == 1 ? 0 : step;
        step *= n;
    }
}

static void add(const struct evaluation *e, const struct graph_op *op, float *out)
{
    const struct graph_value *r = &e->graph->values[op->result];
    const float *a = e->values[op->inputs[0]], *b = e->values[op->inputs[1]];
    uint64_t sa[GRAPH_MAX_RANK], sb[GRAPH_MAX_RANK], index[GRAPH_MAX_RANK] = {0}, ia = 0, ib = 0;
    broadcast_strides(&e->graph->values[op->inputs[0]], r, sa);
    broadcast_strides(&e->graph->values[op->inputs[1]], r, sb);
    for (uint64_t i = 0; i < r->elements; i++) {
        out[i] = a[ia] + b[ib];
        for (unsigned axis = r->rank; axis-- > 0;) {
            ia += sa[axis];
            ib += sb[axis];
            if (++index[axis] < r->shape[axis])
                break;
            index[axis] = 0;
            ia -= sa[axis] * r->shape[axis];
            ib -= sb[axis] * r->shape[axis];
        }
    }
}

static void transpose(const struct evaluation *e, const struct graph_op *op, float *out)
{
    const struct graph_value *v = &e->graph->values[op->inputs[0]],
                             *r = &e->graph->values[op->result];
    uint64_t step[GRAPH_MAX_RANK], index[GRAPH_MAX_RANK] = {0}, from = 0, s = 1;
    for (unsigned i = v->rank; i-- > 0;) {
        step[i] = s;
        s *= v->shape[i];
    }
    const float *a = e->values[op->inputs[0]];
    for (uint64_t i = 0; i < r->elements; i++) {
        out[i] = a[from];
        for (unsigned axis = r->rank; axis-- > 0;) {
            from += step[op->permutation[axis]];
            if (++index[axis] < r->shape[axis])
                break;
            index[axis] = 0;
            from -= step[op->permutation[axis]] * r->shape[axis];
        }
    }
}

static float gelu(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.7978846f * (x + 0.044715f * x * x * x)));
}

static int evaluate_region(struct evaluation *e, const struct graph_region *region);

static int repeat(struct evaluation *e, const struct graph_op *op)
{
    float **next = ARENA_ARRAY(e->arena, float *, op->carried_count);
    if (!next)
        return out_of_memory(e);
    for (unsigned i = 0; i < op->carried_count; i++)
        next[i] = e->values[op->carried[i].initial];
    for (uint32_t n = 0; n < op->count; n++) {
        for (unsigned i = 0; i < op->carried_count; i++)
            e->values[op->carried[i].inside] = next[i];
        for (unsigned i = 0; i < op->sequence_count; i++)
            e->values[op->sequences[i].inside] = e->values[op->sequences[i].members[n]];
        int rc = evaluate_region(e, op->body);
        if (rc < 0)
            return rc;
        for (unsigned i = 0; i < op->carried_count; i++)
            next[i] = e->values[op->carried[i].yielded];
    }
    for (unsigned i = 0; i < op->carried_count; i++)
        e->values[op->carried[i].result] = next[i];
    return 0;
}

static void elementwise(const struct evaluation *e, const struct graph_op *op, float *out)
{
    const float *a = e->values[op->inputs[0]];
    uint64_t n = e->graph->values[op->result].elements;
    for (uint64_t i = 0; i < n; i++)
        out[i] = op->kind == GRAPH_GELU   ? gelu(a[i])
                 : op->kind == GRAPH_RELU ? (a[i] > 0 ? a[i] : 0)
                                          : a[i];
}

static int evaluate_op(struct evaluation *e, const struct graph_op *op)
{
    if (op->kind == GRAPH_REPEAT)
        return repeat(e, op);
    float *out = allocate(e, op->result);
    if (!out)
        return out_of_memory(e);
    if (op->kind == GRAPH_MATMUL)
        matmul(e, op, out);
    else if (op->kind == GRAPH_ADD)
        add(e, op, out);
    else if (op->kind == GRAPH_TRANSPOSE)
        transpose(e, op, out);
    else
        elementwise(e, op, out);
    round_value(e, op->result);
    return 0;
}

static int evaluate_region(struct evaluation *e, const struct graph_region *region)
{
    for (unsigned i = 0; i < region->op_count; i++) {
        int rc = evaluate_op(e, &region->ops[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int reference_evaluate(const struct graph *graph, unsigned blas_threads, struct arena *arena,
                       float ***values, struct ipu_error *error)
{
    const Ipu__Workload__Options *options = graph->message->options;
    struct evaluation e = {.graph = graph, .arena = arena, .error = error};
    e.round = !options || options->precision == IPU__WORKLOAD__PRECISION_POLICY__PRECISION_DEVICE;
    e.values = ARENA_ARRAY(arena, float *, graph->value_count + 1);
    *values = ARENA_ARRAY(arena, float *, graph->output_count + 1);
    if (!e.values || !*values)
        return out_of_memory(&e);
    if (blas_threads)
        openblas_set_num_threads((int)blas_threads);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < graph->value_count; i++)
        if (graph->values[i].host)
            rc = load_host(&e, i);
    if (rc == 0)
        rc = evaluate_region(&e, &graph->top);
    for (unsigned i = 0; rc == 0 && i < graph->output_count; i++)
        (*values)[i] = e.values[graph->outputs[i]];
    return rc;
}

void reference_compare(const float *reference, const uint8_t *device, enum flow_type type,
                       uint64_t elements, struct reference_compare *out)
{
    double difference = 0, ref = 0, dev = 0, dot = 0;
    *out = (struct reference_compare){.finite = true};
    for (uint64_t i = 0; i < elements; i++) {
        float d;
        uint16_t half;
        if (type == FLOW_F16) {
            memcpy(&half, device + 2 * i, sizeof half);
            d = half_to_float(half);
        } else {
            memcpy(&d, device + 4 * i, sizeof d);
        }
        double x = d, y = reference[i], error = fabs(x - y);
        if (!isfinite(x)) {
            out->finite = false;
            out->worst_element = i;
            return;
        }
        if (error > out->maximum_absolute_error) {
            out->maximum_absolute_error = error;
            out->worst_element = i;
        }
        difference += error * error;
        ref += y * y;
        dev += x * x;
        dot += x * y;
    }
    double n = elements ? (double)elements : 1;
    out->reference_rms = sqrt(ref / n);
    out->cosine = ref > 0 && dev > 0 ? dot / sqrt(ref * dev) : (ref == dev ? 1 : 0);
    if (ref > 0)
        out->relative_rms_error = sqrt(difference / ref);
    else
        out->relative_rms_error = sqrt(dev / n) > 1e-6 ? 1 : 0;
}

double reference_tolerance(const struct graph *graph, unsigned gemm_depth)
{
    const Ipu__Workload__Options *options = graph->message->options;
    if (options && options->relative_rms_tolerance > 0)
        return options->relative_rms_tolerance;
    return 2e-3 * (gemm_depth ? gemm_depth : 1);
}
