/* The checked workload as the compiler sees it: two-dimensional tensors and a short list of
 * operations.
 *
 * graph_check() (graph.h) turns a Workload message into a flow. Every value is a matrix of `rows` x
 * `columns`: columns is the last axis, rows the product of all leading axes. Reshapes that keep the
 * last axis vanish here; everything else that moves single elements becomes FLOW_PERMUTE, except on
 * host tensors, which are packed by the host in whatever order is wanted.
 */
#ifndef IPU_GRAPH_FLOW_H
#define IPU_GRAPH_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flow_type { FLOW_F16 = 2, FLOW_F32 = 1 };

enum flow_source {
    FLOW_PARAMETER, /* host tensor, sent once by `initialize` */
    FLOW_INPUT,     /* host tensor, sent by every `run` */
    FLOW_COMPUTED,  /* result of an operation */
    FLOW_CARRIED,   /* body view of a carried value of a repeat */
    FLOW_SEQUENCE,  /* body view of a sequence of host tensors: member i in iteration i */
    FLOW_RESULT     /* result of a repeat: the carried value after the last iteration */
};

enum { FLOW_MAX_PERMUTE_AXES = 8 };

/* How a matrix value is read from the row-major elements of a host tensor or, for FLOW_PERMUTE, of
 * another value: element (row, column) -> flat index r -> digits over `axis[].count` (first axis
 * slowest) -> sum of digit * stride. */
struct flow_view {
    unsigned axes;
    struct {
        uint64_t count;
        int64_t stride; /* elements of the source */
    } axis[FLOW_MAX_PERMUTE_AXES];
};

struct flow_tensor {
    uint32_t id; /* index in flow.tensors */
    enum flow_source source;
    enum flow_type type;
    uint64_t rows, columns;
    const char *name;      /* of the workload's value; "" when anonymous */
    uint32_t host;         /* PARAMETER, INPUT: index in flow.hosts */
    struct flow_view view; /* PARAMETER, INPUT: how to read the host tensor (transposes and reshapes
                              folded in) */
    uint32_t region;       /* region in which it is defined (0 = top) */
    uint32_t member_count; /* SEQUENCE: iterations */
    const uint32_t *
        members; /* SEQUENCE: tensor ids, one per iteration; each a host tensor of the same shape */
};

struct flow_host {
    const char *name;
    bool parameter;
    enum flow_type type;
    unsigned rank;
    uint64_t shape[8];
    const uint8_t *data; /* elements, row-major */
    uint64_t bytes;
};

enum flow_op_kind {
    FLOW_GEMM, /* out[B*M, N] = a[B*M, K] * w[b], b = row / M; see batch */
    FLOW_ADD,
    FLOW_GELU,
    FLOW_RELU,
    FLOW_CAST,
    FLOW_PERMUTE, /* out(row, column) = a[view] */
    FLOW_REPEAT
};

/* Broadcast of the second operand of FLOW_ADD (the first has the full shape). */
enum flow_broadcast {
    FLOW_DENSE,  /* same columns; rows by row_map */
    FLOW_ROW,    /* b has one row: bias */
    FLOW_COLUMN, /* b has one column */
    FLOW_SCALAR  /* one row and one column */
};

struct flow_carried {
    uint32_t initial; /* tensor of the enclosing region */
    uint32_t inside;  /* FLOW_CARRIED tensor */
    uint32_t yielded; /* tensor of the body (may be the carried tensor itself or a host tensor) */
    uint32_t result;  /* FLOW_RESULT tensor of the enclosing region */
};

struct flow_op {
    enum flow_op_kind kind;
    const char *label;
    uint32_t a, b, out; /* tensor ids; b: GEMM weights or second addend */
    uint32_t batch; /* GEMM: number of weight matrices B; b is a matrix of B*K rows and N columns */
    enum flow_broadcast broadcast;
    /* ADD, broadcast over rows in general position: row i of the result uses row map(i) of b, given
     * by the view over rows (axes/strides in rows of b); axes = 0 means the identity (DENSE,
     * COLUMN) or row 0 (ROW, SCALAR). */
    struct flow_view row_map;
    struct flow_view view; /* PERMUTE */
    /* REPEAT */
    uint32_t count;
    uint32_t region;
    unsigned carried_count;
    struct flow_carried *carried;
};

struct flow_region {
    uint32_t parent; /* region index; the top region is its own parent */
    unsigned op_count;
    struct flow_op *ops;
};

struct flow_output {
    const char *name;
    uint32_t tensor;
    unsigned rank;
    uint64_t shape[8];
};

struct flow {
    const char *name;
    unsigned tensor_count, host_count, region_count, output_count;
    struct flow_tensor *tensors;
    struct flow_host *hosts;
    struct flow_region *regions; /* regions[0] = top */
    struct flow_output *outputs;
    uint32_t tiles;      /* execution tiles, multiple of 64 */
    unsigned gemm_depth; /* longest chain of GEMMs, repeats multiplied out: scales the tolerance */
};

#endif
