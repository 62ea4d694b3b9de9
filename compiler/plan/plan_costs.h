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
#include "device/ipu21/timing.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PLAN_COST_VERSION = 3, /* raised when any price changes: stored search states lose validity */

    /* One exchange phase: entry 14, internal sync, call of the row 14, as code generation emits
     * them [D]. */
    PLAN_PHASE_OVERHEAD = 28 + IPU21_SYNC_INTERNAL,
    /* From slot 0 to the pointer slot of a receiver, and the guard behind the last word: fitted to
     * schedules of compiler/exchange over 8..9720 words, error under 6 % [F]. */
    PLAN_PHASE_LATENCY = 104,
    /* Fewest events between two runs at one port: source select and pointer [D]. */
    PLAN_RUN_MINIMUM = 3,
    /* Time of a schedule over its busiest port, in 1/16. Multicasts that several tiles hear wait
     * little; point-to-point traffic waits for both ends, the more partners a tile has: 1.0 with
     * 2, 1.2 with 4, 1.3 with 9, 1.4 with 18, 1.5 with 36 [F]. */
    PLAN_SCHEDULE_SLACK = 17,
    PLAN_PARTNER_SLACK_EIGHTHS = 11, /* more sixteenths, in 1/8, per doubling of the partners */
    /* Scheduling time: receives of one phase that cost no compile time worth mentioning; beyond,
     * one cycle for so many [G]. */
    PLAN_RECEIVES_FREE = 100000,
    PLAN_RECEIVES_PER_CYCLE = 64,

    /* What code generation reserves for a receive and a send, and beside them for a phase
     * (compiler/exchange/estimate.c); argument block and code of a product and of a sum [D]. */
    PLAN_RECEIVE_BYTES = 24,
    PLAN_SEND_BYTES = 8,
    PLAN_ROW_PHASE_BYTES = 8,
    PLAN_GEMM_CALL_BYTES = 44,
    PLAN_REDUCE_CALL_BYTES = 156,

    /* Tensor space of a tile: 624 KiB less runtime, kernels, program, rows, host window. Planning
     * keeps a margin for placement (granule rules, alignment). [G] */
    PLAN_TILE_BYTES = 508 * 1024,
    /* What is left beside the smallest program: plans over PLAN_TILE_BYTES are tried last, and
     * placement tells whether they fit. */
    PLAN_TILE_MOST = 548 * 1024,
    PLAN_TEXT_MOST = 144 * 1024, /* what region 0 has for rows and calls */
    /* Cycles that a coefficient panel takes longer when read 64 bits at a time: 64 loads, not 32.
     */
    PLAN_NARROW_PANEL = 32,
    /* Bytes of a pass that THRIFT_SOME aims at, and of one weight buffer. [G] */
    PLAN_PASS_BYTES = 64 * 1024,
    PLAN_WEIGHT_BUFFER = 56 * 1024,
    PLAN_INTERLEAVED_BYTES = 408 * 1024, /* region 1 */
    PLAN_REGION0_BYTES = 140 * 1024,     /* 0x5c000 to region 1, less the granule rules */
    PLAN_GAP_BYTES = 8192,               /* gaps that lowering allows between joined partials */
    PLAN_GRANULE_BYTES = 32768,          /* conflict granule of region 1 (facts/memory.md 2) */
    PLAN_BUFFER_OVERHEAD = 96,           /* over-read tail of 64 and alignment of 32 (kernels.h) */

    /* Most inner panels summed in one f16 partial: keeps relative RMS below 2e-3. */
    PLAN_CHUNK_PANELS = 40,
    PLAN_MAX_TILES = 1472
};

/* Cycles of an exchange phase whose busiest port passes `words` in `runs` runs; `unicast` when most
 * runs have one receiver. 0 when nothing moves. */
uint32_t plan_cost_phase(uint64_t words, uint32_t runs, bool unicast);
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
