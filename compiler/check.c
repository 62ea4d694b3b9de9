/* Judging a run: host reference, comparison, and the result line. See compile.h. */
#include "compiler/compile.h"

#include "base/clock.h"
#include "compiler/graph/graph.h"
#include "compiler/reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    OUTLIER_FACTOR = 25
}; /* one element may be off by at most this many tolerances of the RMS */

struct loaded {
    struct graph_message *message;
    struct arena *arena;
    struct graph *graph;
    unsigned gemm_depth;
};

static void unload(struct loaded *l)
{
    graph_release(l->message);
    arena_destroy(l->arena);
}

static int load(const void *workload, size_t size, struct loaded *l, struct ipu_error *error)
{
    *l = (struct loaded){.arena = arena_create(0)};
    if (!l->arena)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "workload: out of memory");
    int rc = graph_parse(workload, size, &l->message, error);
    if (rc == 0)
        rc = graph_check(graph_message(l->message), l->arena, &l->graph, error);
    if (rc == 0 && l->graph)
        return 0;
    unload(l);
    return rc < 0 ? rc : IPU_ERR_INTERNAL;
}

/* GEMM depth from the graph itself, so that the tolerance does not depend on the flow. */
static unsigned region_depth(const struct graph_region *region, unsigned *depth)
{
    unsigned deepest = 0;
    for (unsigned i = 0; i < region->op_count; i++) {
        const struct graph_op *op = &region->ops[i];
        if (op->kind != GRAPH_REPEAT) {
            bool two = op->kind == GRAPH_MATMUL || op->kind == GRAPH_ADD;
            unsigned d = depth[op->inputs[0]];
            d = two && depth[op->inputs[1]] > d ? depth[op->inputs[1]] : d;
            depth[op->result] = d + (op->kind == GRAPH_MATMUL);
            deepest = depth[op->result] > deepest ? depth[op->result] : deepest;
            continue;
        }
        unsigned base = 0;
        for (unsigned k = 0; k < op->carried_count; k++)
            base = depth[op->carried[k].initial] > base ? depth[op->carried[k].initial] : base;
        unsigned body = region_depth(op->body, depth) * op->count;
        for (unsigned k = 0; k < op->carried_count; k++)
            depth[op->carried[k].result] = base + body;
        deepest = base + body > deepest ? base + body : deepest;
    }
    return deepest;
}

static unsigned graph_depth(struct loaded *l)
{
    unsigned *depth = ARENA_ARRAY(l->arena, unsigned, l->graph->value_count + 1);
    return depth ? region_depth(&l->graph->top, depth) : 1;
}

static const struct compile_output *find_output(const struct compile_output *outputs, size_t count,
                                                const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(outputs[i].name, name) == 0)
            return &outputs[i];
    return NULL;
}

static void judge(struct compile_check *check, const char *name, const struct reference_compare *c)
{
    check->maximum_absolute_error = fmax(check->maximum_absolute_error, c->maximum_absolute_error);
    check->relative_rms_error = fmax(check->relative_rms_error, c->relative_rms_error);
    check->cosine = fmin(check->cosine, c->cosine);
    double outlier = OUTLIER_FACTOR * check->tolerance * c->reference_rms;
    if (check->reason[0])
        return;
    if (!c->finite)
        snprintf(check->reason, sizeof check->reason, "output %s: element %llu is NaN or infinite",
                 name, (unsigned long long)c->worst_element);
    else if (!(c->relative_rms_error <= check->tolerance))
        snprintf(check->reason, sizeof check->reason,
                 "output %s: relative RMS error %.3g is above the tolerance %.3g", name,
                 c->relative_rms_error, check->tolerance);
    else if (c->reference_rms > 0 && c->maximum_absolute_error > outlier)
        snprintf(check->reason, sizeof check->reason,
                 "output %s: element %llu is off by %.3g, above the outlier bound %.3g", name,
                 (unsigned long long)c->worst_element, c->maximum_absolute_error, outlier);
}

static int check_all(struct loaded *l, const struct compile_output *outputs, size_t count,
                     float **values, struct compile_check *check, struct ipu_error *error)
{
    for (unsigned i = 0; i < l->graph->output_count; i++) {
        const struct graph_value *v = &l->graph->values[l->graph->outputs[i]];
        const struct compile_output *o = find_output(outputs, count, v->name);
        uint64_t bytes = v->elements * (v->type == FLOW_F16 ? 2 : 4);
        if (!o || o->size != bytes)
            return ipu_error_set(error, IPU_ERR_CHECK_FAILED,
                                 "output %s: the device returned %zu bytes, expected %llu", v->name,
                                 o ? o->size : 0, (unsigned long long)bytes);
        struct reference_compare c;
        reference_compare(values[i], o->data, v->type, v->elements, &c);
        if (!c.finite)
            c.cosine = c.relative_rms_error = 0;
        judge(check, v->name, &c);
    }
    check->passed = !check->reason[0];
    return 0;
}

int compile_check_outputs(const void *workload, size_t size, const struct compile_output *outputs,
                          size_t count, unsigned blas_threads, struct log *log,
                          struct compile_check *check, struct ipu_error *error)
{
    struct loaded l;
    int rc = load(workload, size, &l, error);
    if (rc < 0)
        return rc;
    *check = (struct compile_check){.cosine = 1};
    uint64_t start = clock_ns();
    log_event(log, LOG_LEVEL_INFO, "", "configured host reference BLAS", "threads=%u",
              blas_threads);
    float **values;
    rc = reference_evaluate(l.graph, blas_threads, l.arena, &values, error);
    check->reference_ms = (double)(clock_ns() - start) / 1e6;
    if (rc == 0) {
        log_event(log, LOG_LEVEL_INFO, "", "evaluated host reference", "elapsed_ms=%.0f",
                  check->reference_ms);
        check->tolerance = reference_tolerance(l.graph, graph_depth(&l));
        rc = check_all(&l, outputs, count, values, check, error);
    }
    unload(&l);
    return rc;
}

/* --- the result line -------------------------------------------------------------------------- */

static double gemm_flops(const struct graph *g, const struct graph_region *region)
{
    double flops = 0;
    for (unsigned i = 0; i < region->op_count; i++) {
        const struct graph_op *op = &region->ops[i];
        if (op->kind == GRAPH_REPEAT)
            flops += op->count * gemm_flops(g, op->body);
        if (op->kind != GRAPH_MATMUL)
            continue;
        const struct graph_value *a = &g->values[op->inputs[0]];
        uint64_t inner = a->shape[a->rank - (op->transpose[0] ? 2 : 1)];
        flops += 2.0 * (double)g->values[op->result].elements * (double)inner;
    }
    return flops;
}

static void benchmark_fields(const struct graph *g, struct buffer *line)
{
    const Ipu__Workload__Benchmark *b = g->message->benchmark;
    buffer_printf(line, "workload=%s", g->name[0] ? g->name : "unnamed");
    if (!b)
        return;
    buffer_printf(line,
                  " benchmark=%s batch=%llu tokens=%llu rows=%llu dimension=%llu "
                  "hiddenDimension=%llu blocks=%llu biases=%s",
                  b->family, (unsigned long long)b->batch, (unsigned long long)b->tokens,
                  (unsigned long long)(b->batch * b->tokens), (unsigned long long)b->dimension,
                  (unsigned long long)b->hidden_dimension, (unsigned long long)b->blocks,
                  b->biases ? "true" : "false");
}

int compile_result_line(const void *workload, size_t size, const struct compile_measured *m,
                        const struct compile_check *check, struct buffer *line,
                        struct ipu_error *error)
{
    struct loaded l;
    int rc = load(workload, size, &l, error);
    if (rc < 0)
        return rc;
    const Ipu__Workload__Options *options = l.graph->message->options;
    double clock = options && options->clock_hz ? (double)options->clock_hz : 1.5e9;
    double seconds = (double)m->cycles / clock;
    double effective = m->cycles ? gemm_flops(l.graph, &l.graph->top) / seconds / 1e12 : 0;
    double peak = clock * l.graph->tiles * 128 / 1e12;
    benchmark_fields(l.graph, line);
    buffer_printf(
        line,
        " activeTiles=%u executionTiles=%u inputBytes=%llu weightBytes=%llu cycles=%llu "
        "minimumTileCycles=%llu"
        " deviceMicroseconds=%.3f effectiveGemmTflops=%.3f peakTflops=%.3f efficiencyPercent=%.2f"
        " maximumAbsoluteError=%.6f relativeRmsError=%.6f estimatedCycles=%llu",
        m->active_tiles, l.graph->tiles, (unsigned long long)m->input_bytes,
        (unsigned long long)m->weight_bytes, (unsigned long long)m->cycles,
        (unsigned long long)m->minimum_cycles, seconds * 1e6, effective, peak,
        peak > 0 ? effective / peak * 100 : 0, check->maximum_absolute_error,
        check->relative_rms_error, (unsigned long long)m->estimated_cycles);
    unload(&l);
    return line->failed ? ipu_error_set(error, IPU_ERR_NO_MEMORY, "workload: out of memory") : 0;
}
