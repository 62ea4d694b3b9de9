/* Prices and limits of the planner: one table, to be calibrated against schedules and runs.
 *
 * Kernel cycles come from kernel_cycles() (device/kernels/kernels.h), which equals the simulator;
 * everything here prices what is decided after planning (exchange rows, local copies, placement).
 * Units are cycles and bytes. Tags: [D] derived from the fabric model of facts/exchange.md,
 * [G] guess until calibrated.
 */
#ifndef IPU_PLAN_PLAN_COSTS_H
#define IPU_PLAN_PLAN_COSTS_H

#include "compiler/graph/flow.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PLAN_COST_VERSION = 1, /* raised when any price changes: stored search states lose validity */

    /* One exchange phase: internal sync 90 (facts/timing.md 3) and the call of the row [G]. */
    PLAN_PHASE_OVERHEAD = 130,
    /* From a sender's first word to the pointer slot of a receiver: 65..165 (facts/exchange.md). */
    PLAN_PHASE_LATENCY = 110,
    /* Extra events of a receiver per fragment: source select and pointer [G]. */
    PLAN_FRAGMENT_CYCLES = 1,
    /* Fewest events between two fragments at one port [G]. */
    PLAN_FRAGMENT_MINIMUM = 3,
    /* Time of a schedule over its bound, in 1/16: multicasts wait for each other. Reference's
     * median estimate/schedule is 0.83 (facts/compiler_pipeline.md 9). [G] */
    PLAN_SCHEDULE_SLACK = 17,

    /* Row bytes: 8 per send and receive, 8 per phase (facts/compiler_pipeline.md 8). */
    PLAN_ROW_FRAGMENT_BYTES = 8,
    PLAN_ROW_PHASE_BYTES = 8,

    /* Tensor space of a tile: 624 KiB less runtime, kernels, program, rows, host window. Planning
     * keeps a margin for placement (granule rules, alignment). [G] */
    PLAN_TILE_BYTES = 508 * 1024,
    PLAN_INTERLEAVED_BYTES = 408 * 1024,
    PLAN_BUFFER_OVERHEAD = 96, /* over-read tail of 64 and alignment of 32 (kernels.h) */

    /* Most inner panels summed in one f16 partial: keeps relative RMS below 2e-3. */
    PLAN_CHUNK_PANELS = 40,
    PLAN_MAX_TILES = 1472
};

/* Cycles of one kernel call on one tile. `cells` are 16-element cells; `parts` partials. */
uint32_t plan_cost_gemm(uint32_t rows, uint32_t inners, uint32_t panels);
uint32_t plan_cost_reduce(uint32_t cells, uint32_t parts);
uint32_t plan_cost_unary(enum flow_op_kind kind, enum flow_type in, enum flow_type out,
                         uint32_t cells);
uint32_t plan_cost_add(enum flow_broadcast broadcast, enum flow_type type, uint32_t rows,
                       uint32_t panels);
uint32_t plan_cost_bias_unary(enum flow_op_kind unary, uint32_t rows, uint32_t panels);
uint32_t plan_cost_copy(uint32_t bytes);
uint32_t plan_cost_gather(uint32_t elements, uint32_t element_bytes);

#endif
