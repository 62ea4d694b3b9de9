/* Small flows built by hand for the planner's tests: tensors and operations are added one by one.
 */
#ifndef IPU_TESTS_UNIT_PLAN_FLOWS_H
#define IPU_TESTS_UNIT_PLAN_FLOWS_H

#include "compiler/plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { BUILD_TENSORS = 256, BUILD_OPS = 64, BUILD_REGIONS = 4 };

struct flow_builder {
    struct flow flow;
    struct flow_tensor tensors[BUILD_TENSORS];
    struct flow_op ops[BUILD_REGIONS][BUILD_OPS];
    struct flow_region regions[BUILD_REGIONS];
    struct flow_output outputs[8];
    struct flow_carried carried[4];
    uint32_t members[64][64];
    unsigned member_count;
};

static inline struct flow_builder *build_begin(uint32_t tiles)
{
    struct flow_builder *b = calloc(1, sizeof *b);
    b->flow.name = "test";
    b->flow.tiles = tiles;
    b->flow.tensors = b->tensors;
    b->flow.regions = b->regions;
    b->flow.outputs = b->outputs;
    b->flow.region_count = 1;
    for (unsigned r = 0; r < BUILD_REGIONS; r++)
        b->regions[r].ops = b->ops[r];
    return b;
}

static inline uint32_t build_tensor(struct flow_builder *b, uint32_t region,
                                    enum flow_source source, uint64_t rows, uint64_t columns)
{
    uint32_t id = b->flow.tensor_count++;
    b->tensors[id] = (struct flow_tensor){.id = id,
                                          .source = source,
                                          .type = FLOW_F16,
                                          .rows = rows,
                                          .columns = columns,
                                          .name = "",
                                          .region = region};
    return id;
}

static inline struct flow_op *build_op(struct flow_builder *b, uint32_t region,
                                       enum flow_op_kind kind, uint32_t a, uint32_t second,
                                       uint64_t rows, uint64_t columns)
{
    struct flow_op *op = &b->ops[region][b->regions[region].op_count++];
    *op = (struct flow_op){.kind = kind, .label = "", .a = a, .b = second, .batch = 1};
    op->out = build_tensor(b, region, FLOW_COMPUTED, rows, columns);
    return op;
}

/* out = a x fresh weights of `columns` columns. */
static inline uint32_t build_gemm(struct flow_builder *b, uint32_t region, uint32_t a,
                                  uint64_t columns)
{
    uint32_t w = build_tensor(b, region, FLOW_PARAMETER, b->tensors[a].columns, columns);
    return build_op(b, region, FLOW_GEMM, a, w, b->tensors[a].rows, columns)->out;
}

static inline uint32_t build_unary(struct flow_builder *b, uint32_t region, enum flow_op_kind kind,
                                   uint32_t a)
{
    return build_op(b, region, kind, a, a, b->tensors[a].rows, b->tensors[a].columns)->out;
}

static inline uint32_t build_sequence(struct flow_builder *b, uint32_t region, unsigned count,
                                      uint64_t rows, uint64_t columns)
{
    uint32_t *members = b->members[b->member_count++];
    for (unsigned i = 0; i < count; i++)
        members[i] = build_tensor(b, 0, FLOW_PARAMETER, rows, columns);
    uint32_t id = build_tensor(b, region, FLOW_SEQUENCE, rows, columns);
    b->tensors[id].members = members;
    b->tensors[id].member_count = count;
    return id;
}

/* Opens a repeat over one carried value; returns the value inside. build_repeat_end() closes it. */
static inline uint32_t build_repeat(struct flow_builder *b, unsigned count, uint32_t initial,
                                    uint32_t *region)
{
    *region = b->flow.region_count++;
    struct flow_op *op = &b->ops[0][b->regions[0].op_count++];
    *op = (struct flow_op){.kind = FLOW_REPEAT,
                           .label = "",
                           .count = count,
                           .region = *region,
                           .carried_count = 1,
                           .carried = &b->carried[*region]};
    op->carried->initial = initial;
    op->carried->inside = build_tensor(b, *region, FLOW_CARRIED, b->tensors[initial].rows,
                                       b->tensors[initial].columns);
    op->carried->result =
        build_tensor(b, 0, FLOW_RESULT, b->tensors[initial].rows, b->tensors[initial].columns);
    return op->carried->inside;
}

static inline uint32_t build_repeat_end(struct flow_builder *b, uint32_t region, uint32_t yielded)
{
    b->carried[region].yielded = yielded;
    return b->carried[region].result;
}

static inline void build_output(struct flow_builder *b, uint32_t tensor)
{
    b->outputs[b->flow.output_count++] = (struct flow_output){.name = "out", .tensor = tensor};
}

/* The seed workload: `count` times x -> gemm -> gelu -> gemm (facts/seed_log_fields.md 4). */
static inline struct flow_builder *build_mlp(uint32_t tiles, uint64_t rows, uint64_t dim,
                                             uint64_t hidden, unsigned count)
{
    struct flow_builder *b = build_begin(tiles);
    uint32_t region, x = build_tensor(b, 0, FLOW_INPUT, rows, dim);
    uint32_t inside = build_repeat(b, count, x, &region);
    uint32_t w1 = build_sequence(b, region, count, dim, hidden);
    uint32_t w2 = build_sequence(b, region, count, hidden, dim);
    uint32_t h = build_op(b, region, FLOW_GEMM, inside, w1, rows, hidden)->out;
    uint32_t g = build_unary(b, region, FLOW_GELU, h);
    uint32_t y = build_op(b, region, FLOW_GEMM, g, w2, rows, dim)->out;
    build_output(b, build_repeat_end(b, region, y));
    return b;
}

/* gemm -> gelu -> gemm without a loop: the full-size MLP. */
static inline struct flow_builder *build_mlp_once(uint32_t tiles, uint64_t rows, uint64_t dim,
                                                  uint64_t hidden)
{
    struct flow_builder *b = build_begin(tiles);
    uint32_t x = build_tensor(b, 0, FLOW_INPUT, rows, dim);
    uint32_t g = build_unary(b, 0, FLOW_GELU, build_gemm(b, 0, x, hidden));
    build_output(b, build_gemm(b, 0, g, dim));
    return b;
}

#endif
