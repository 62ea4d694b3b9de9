/* Whole-program plans: which tile computes what, and in which layout every value lives.
 *
 * A plan is a list of jobs per operation. Lowering derives every transfer from them, so the plan
 * holds each decision exactly once. Tiles are LOGICAL and below flow.tiles. Layouts are lists of
 * blocks of cells: rows [row, row + rows) x panels [panel, panel + panels), a panel being 16
 * columns. The blocks of one value cover every cell at least once; more often means replicas. Plans
 * are deterministic: the same flow, options and search state give the same plan for any number of
 * threads.
 */
#ifndef IPU_PLAN_PLAN_H
#define IPU_PLAN_PLAN_H

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "compiler/graph/flow.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct plan_block {
    uint16_t tile;
    uint16_t reserved;
    uint32_t row, rows;     /* rows > 0 */
    uint32_t panel, panels; /* panels > 0 */
};

struct plan_layout {
    uint32_t count;
    struct plan_block *blocks; /* sorted by (tile, row, panel) */
};

/* One GEMM call on one tile: rows of a (inside one batch), a range of inner panels, a range of
 * output panels. */
struct plan_gemm_job {
    uint16_t tile;
    uint16_t batch;
    uint32_t row, rows;
    uint32_t inner, inners;
    uint32_t panel, panels;
};

/* One operation (indices as in flow.regions[region].ops[op]). */
struct plan_op {
    uint32_t region, op;
    /* GEMM. Every (row, panel) cell is covered by `inner_parts` jobs that split K, each on its own
     * tile or in `local` chunks on one tile: within a job the inner range is computed in chunks of
     * at most `chunk` panels, each into a partial of its own (bounds the f16 rounding error); all
     * partials of a cell are summed in f32 by the tile that owns it in `out`. With one part and one
     * chunk the job's result is final and `out` equals the jobs' blocks. */
    uint32_t job_count;
    struct plan_gemm_job *jobs;
    uint32_t inner_parts;
    uint32_t chunk;
    /* GEMM: the jobs are worked off in row_passes x panel_passes parts, one after the other, each
     * with its own exchange: pass (i, j) is part i of the rows and part j of the panels of every
     * job (plan_pass_cut()). Trades exchanges for memory: only one pass's operands, partials and
     * gathered weights live at a time. At least 1; each job has at least as many rows and panels.
     */
    uint32_t row_passes, panel_passes;
    /* GEMM: weights may lie in either memory region, read 64 bits at a time. */
    bool weights_anywhere;
    /* GEMM whose left operand is a host tensor: it lives once, in this layout, and travels like a
     * computed value instead of being uploaded to every tile that needs it. Count 0: uploaded. */
    struct plan_layout staged;
    /* Layout in which the result lives. For elementwise operations: also the work distribution
     * (each block computes its cells). An elementwise operation whose layout equals its operand's
     * runs in place without any transfer. For REPEAT: unused. */
    struct plan_layout out;
    /* ADD directly followed by GELU/RELU on the same layout, fused into one kernel: set on the ADD;
     * the unary is then empty. */
    bool fused_next;
    uint32_t estimated_cycles; /* of this operation with its transfers, one execution */
    uint32_t estimated_exchange_cycles;
};

struct plan {
    uint32_t op_count;
    struct plan_op *ops; /* every op of every region, region by region, in order */
    uint64_t estimated_cycles, estimated_exchange_cycles; /* repeats multiplied in */
    uint64_t peak_tile_bytes;
    uint32_t recipe_bytes;
    const uint8_t *recipe; /* compact identity: equal recipes are equal plans */
};

struct plan_options {
    uint32_t search_ms; /* 0 = default budget; the first legal plan is always produced */
    unsigned finalists; /* how many distinct plans to return at most (1..8) */
    uint64_t seed;
    unsigned threads;
    uint32_t tile_bytes;  /* what a plan may fill of a tile; 0 = the default, then all there is */
    const uint8_t *state; /* serialised search state to resume, or NULL */
    size_t state_size;
    struct log *log;
    const atomic_bool *cancel;
    void (*progress)(void *context, uint64_t best_cycles, uint64_t candidates, double seconds);
    void *progress_context;
};

struct plan_result {
    unsigned count;
    bool resumed;          /* the given state was continued */
    struct plan *plans[8]; /* best first by estimated cycles */
    struct buffer *state; /* the caller's, set before the call: receives the serialised search state
                             (proto/plan.proto) in place of what it holds; NULL = not wanted */
};

/* Plans `flow`. Never fails for lack of a good plan: fails with IPU_ERR_NO_FIT (what needs how
 * much, what there is) only when no plan of its vocabulary fits the tiles (limits: plan_costs.h).
 * IPU_ERR_CANCELLED, IPU_ERR_NO_MEMORY, IPU_ERR_INVALID or _LIMIT for impossible shapes. */
IPU_MUST_CHECK int plan_search(const struct flow *flow, const struct plan_options *options,
                               struct arena *arena, struct plan_result *out,
                               struct ipu_error *error);

/* Checks coverage, ranges, tile bounds and memory of a plan against the flow; run between passes in
 * tests and debug builds. */
IPU_MUST_CHECK int plan_verify(const struct flow *flow, const struct plan *plan,
                               struct ipu_error *error);

/* The layout in which a value lives: of its producer; of the operation that yields it for carried
 * values and results of repeats; the balanced layout where a carried value has no such operation
 * (it yields itself, another carried value or a host tensor). Host values have no layout of their
 * own (count 0: any boxes). The layout of a unary fused into the addition before it is the
 * addition's. The blocks may be shared with the plan. */
IPU_MUST_CHECK int plan_value_layout(const struct flow *flow, const struct plan *plan,
                                     uint32_t tensor, struct arena *arena, struct plan_layout *out,
                                     struct ipu_error *error);

/* Feedback after physical scheduling: the refined cycles of a plan, so that the state remembers
 * measured-by-schedule costs. */
void plan_state_note(struct buffer *state, const struct plan *plan, uint64_t refined_cycles);

static inline uint64_t plan_panels(uint64_t columns)
{
    return (columns + 15) / 16;
}
/* First of n items that pass `i` of `passes` takes; a pass beyond n is empty. */
static inline uint32_t plan_pass_cut(uint32_t n, uint32_t passes, uint32_t i)
{
    return (uint32_t)((uint64_t)n * i / passes);
}

#endif
