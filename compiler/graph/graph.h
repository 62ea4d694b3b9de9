/* The workload message, checked: a typed SSA graph with shapes, and its translation into a flow.
 *
 * graph_parse() turns untrusted bytes into a message (scan first, budgeted unpack). graph_check()
 * proves every rule of docs/WORKLOADS.md or fails with one sentence that names the operation, both
 * shapes or types, and what was expected. graph_flow() lowers the checked graph to the
 * two-dimensional form that the planner works on. The reference evaluates the graph, never the
 * flow, so that a fault in the translation shows. All results live in the caller's arena. Any
 * thread.
 */
#ifndef IPU_GRAPH_GRAPH_H
#define IPU_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/error.h"
#include "compiler/graph/flow.h"
#include "proto/workload.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRAPH_MAX_RANK = 8,
    GRAPH_MAX_VALUES = 1 << 16,
    GRAPH_MAX_REPEAT = 4096,
    GRAPH_MAX_NAME = 64,
    GRAPH_MAX_FLOW_OPS = 4096,
    GRAPH_MAX_HOST_BYTES = 1 << 30
};

enum graph_op_kind {
#define GRAPH_OP(id, name) GRAPH_##id,
#include "compiler/graph/ops.def"
#undef GRAPH_OP
    GRAPH_OP_KINDS
};

struct graph_value {
    uint32_t id;
    const char *name;
    unsigned rank;
    uint64_t shape[GRAPH_MAX_RANK];
    uint64_t elements;
    enum flow_type type;
    bool host; /* input or parameter */
    bool parameter;
    const Ipu__Workload__Data *data; /* host values */
};

struct graph_carried {
    uint32_t initial, inside, yielded, result; /* value indices */
};
struct graph_sequence {
    uint32_t inside;
    uint32_t *members; /* `count` value indices */
};

struct graph_region;
struct graph_op {
    enum graph_op_kind kind;
    const char *label;
    uint32_t inputs[2]; /* value indices */
    uint32_t result;
    bool transpose[2]; /* matmul */
    unsigned permutation[GRAPH_MAX_RANK];
    uint32_t count; /* repeat */
    unsigned carried_count, sequence_count;
    struct graph_carried *carried;
    struct graph_sequence *sequences;
    struct graph_region *body;
};
struct graph_region {
    unsigned op_count;
    struct graph_op *ops;
};

struct graph {
    const char *name;
    const Ipu__Workload__Workload *message;
    uint32_t value_count;
    struct graph_value *values;
    struct graph_region top;
    unsigned output_count;
    uint32_t *outputs; /* value indices */
    uint32_t tiles;
};

const char *graph_op_name(enum graph_op_kind kind);

/* Scans, then unpacks serialised bytes. The message lives in memory owned by *out until
 * graph_release(). */
struct graph_message;
IPU_MUST_CHECK int graph_parse(const void *data, size_t size, struct graph_message **out,
                               struct ipu_error *error);
const Ipu__Workload__Workload *graph_message(const struct graph_message *message);
void graph_release(struct graph_message *message);

IPU_MUST_CHECK int graph_check(const Ipu__Workload__Workload *message, struct arena *arena,
                               struct graph **out, struct ipu_error *error);

/* Elements of a host value as the workload gives or generates them, row-major in the value's type,
 * allocated in the arena. Refuses NaN and infinity (IPU_ERR_INVALID with the element's index). */
IPU_MUST_CHECK int graph_host_data(const struct graph *graph, uint32_t value, struct arena *arena,
                                   const uint8_t **data, uint64_t *bytes, struct ipu_error *error);

IPU_MUST_CHECK int graph_flow(const struct graph *graph, struct arena *arena, struct flow **out,
                              struct ipu_error *error);

/* The generator: element `index` of the stream `seed`, a standard normal draw; depends on nothing
 * else. */
double graph_normal(uint64_t seed, uint64_t index);

/* "[1, 17, 64]" into text; returns text. */
const char *graph_shape_text(const uint64_t *shape, unsigned rank, char *text, size_t size);

#endif
