/* Private to compiler/graph: the state of one graph_flow() run, shared by flow.c, flow_ops.c and
 * view.c. */
#ifndef IPU_GRAPH_BUILD_H
#define IPU_GRAPH_BUILD_H

#include "compiler/graph/graph.h"

/* What a graph value is bound to: the elements of `tensor` read through `view` (strides in elements
 * of the tensor's source: the host tensor for host tensors and sequences, else the row-major
 * elements of the computed tensor). */
struct bound {
    uint32_t tensor;
    struct flow_view view;
};

struct build_region {
    uint32_t parent;
    unsigned count, capacity;
    struct flow_op *ops;
};

struct build {
    const struct graph *graph;
    struct arena *arena;
    struct ipu_error *error;
    struct flow *flow;
    struct bound *bound; /* by value index */
    unsigned tensor_capacity, region_capacity;
    unsigned region_count, region, op_total;
    struct build_region *regions;
};

int build_fail(const struct build *b, int code, const char *what);
int build_tensor(struct build *b, const struct flow_tensor *tensor);
struct flow_op *build_op(struct build *b, enum flow_op_kind kind, const char *label);
int build_open_region(struct build *b);
int build_ops(struct build *b, const struct graph_region *region);
/* The value as a tensor of rows x last axis, in row-major order of its shape. */
int build_matrix(struct build *b, uint32_t value);
/* Emits FLOW_PERMUTE: a tensor rows x columns whose element r (row-major) is row-major element
 * view(r) of `tensor`. */
int build_permute(struct build *b, uint32_t tensor, struct flow_view view, uint64_t rows,
                  uint64_t columns, const char *label);

struct flow_view view_identity(uint64_t elements);
bool view_is_identity(const struct flow_view *view);
/* Splits axes so that they refine `shape`; first[i] = index of the first axis of shape axis i,
 * first[rank] = count. False when the strides do not allow it or more than FLOW_MAX_PERMUTE_AXES
 * axes would be needed. */
bool view_refine(const struct flow_view *view, const uint64_t *shape, unsigned rank,
                 struct flow_view *out, unsigned first[GRAPH_MAX_RANK + 1]);
/* Axis i of the result is axis permutation[i] of `shape`; false as view_refine(). */
bool view_transpose(const struct flow_view *view, const uint64_t *shape, unsigned rank,
                    const unsigned *permutation, struct flow_view *out);
/* Repeats elements: reads a value of `shape` as one of `wide` by numpy broadcasting; false as
 * view_refine(). */
bool view_broadcast(const struct flow_view *view, const uint64_t *shape, unsigned rank,
                    const uint64_t *wide, unsigned wide_rank, struct flow_view *out);
/* Merges neighbouring axes that count on as one. */
void view_simplify(struct flow_view *view);

#endif
