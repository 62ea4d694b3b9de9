/* Private to compiler/graph: the state of one graph_check() run, shared by check.c (values) and
 * check_ops.c (operations). */
#ifndef IPU_GRAPH_CHECK_H
#define IPU_GRAPH_CHECK_H

#include "base/hash.h"
#include "compiler/graph/graph.h"

#include <stdarg.h>

struct check_slot {
    uint32_t id; /* 0 = empty */
    uint32_t index;
};

struct check {
    struct arena *arena;
    struct ipu_error *error;
    struct graph *graph;
    struct check_slot *slots;
    uint32_t slot_count; /* power of two */
    bool *visible;       /* by value index */
    uint64_t host_bytes;
    unsigned depth;
    char where[200]; /* "operation 3 (matmul 'up')" */
};

int check_fail(const struct check *c, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int check_lookup(const struct check *c, uint32_t id);
int check_define(struct check *c, const Ipu__Workload__Value *value, struct graph_value *v);
int check_use(const struct check *c, uint32_t id, const char *role);
int check_result(struct check *c, const Ipu__Workload__Value *declared, struct graph_value *v);
int check_region(struct check *c, const Ipu__Workload__Region *region, struct graph_region *out,
                 const char *prefix);

#endif
