/* From a solution to the plan that lowering reads: jobs, layouts, estimates.
 *
 * Jobs and blocks are sorted by tile, so plans are equal byte by byte when their recipes are.
 * A fused addition carries `fused_next`; the unary after it has no layout of its own. Fails only
 * for lack of memory.
 */
#include "compiler/plan/search.h"

#include "base/buffer.h"

#include <stdlib.h>

static int compare_jobs(const void *x, const void *y)
{
    const struct plan_gemm_job *a = x, *b = y;
    if (a->tile != b->tile)
        return a->tile < b->tile ? -1 : 1;
    if (a->batch != b->batch)
        return a->batch < b->batch ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->panel != b->panel)
        return a->panel < b->panel ? -1 : 1;
    return a->inner < b->inner ? -1 : a->inner > b->inner;
}

static struct plan_gemm_job job_at(const struct grid_strides *g, const struct model_op *op,
                                   const struct plan_choice *c, uint32_t index)
{
    uint32_t k = index % c->gk, j = index / c->gk % c->gn, i = index / c->gk / c->gn % c->gm;
    uint32_t b = index / c->gk / c->gn / c->gm;
    struct plan_gemm_job job = {
        .tile = (uint16_t)grid_tile(g, gemm_group(op->batch, c->gb, b), i, j, k),
        .batch = (uint16_t)b,
        .row = b * op->rows + cut_at(op->rows, c->gm, i),
        .inner = cut_at(op->inners, c->gk, k),
        .panel = cut_at(op->panels, c->gn, j)};
    job.rows = b * op->rows + cut_at(op->rows, c->gm, i + 1) - job.row;
    job.inners = cut_at(op->inners, c->gk, k + 1) - job.inner;
    job.panels = cut_at(op->panels, c->gn, j + 1) - job.panel;
    return job;
}

static bool emit_jobs(struct space *s, const struct model_op *op, const struct cand *cand,
                      struct arena *arena, struct plan_op *out)
{
    const struct plan_choice *c = &cand->choice;
    struct grid_strides g = grid_strides(c, s->tiles);
    out->job_count = op->batch * c->gm * c->gn * c->gk;
    out->jobs = ARENA_ARRAY(arena, struct plan_gemm_job, out->job_count);
    if (out->jobs == NULL)
        return false;
    for (uint32_t i = 0; i < out->job_count; i++)
        out->jobs[i] = job_at(&g, op, c, i);
    qsort(out->jobs, out->job_count, sizeof *out->jobs, compare_jobs);
    out->inner_parts = c->gk;
    out->chunk = c->chunk;
    out->row_passes = c->row_passes;
    out->panel_passes = c->panel_passes;
    out->weights_anywhere = (c->flags & CHOICE_ANYWHERE) != 0;
    if ((c->flags & CHOICE_STAGED) == 0)
        return true;
    const struct lay *staged = lay_staged(s, op->flow->a);
    return staged != NULL && lay_emit(staged, arena, &out->staged);
}

static bool emit_op(struct space *s, const struct solution *solution, uint32_t index,
                    struct arena *arena, struct plan_op *out)
{
    const struct model_op *op = &s->model->ops[index];
    struct op_cost cost = solution_op_cost(s, solution->pick, index);
    out->region = op->region;
    out->op = op->op;
    out->estimated_cycles = cost.cycles;
    out->estimated_exchange_cycles = cost.exchange;
    out->fused_next = op->fusable;
    if (op->flow->kind == FLOW_REPEAT || (op->op > 0 && s->model->ops[index - 1].fusable))
        return true;
    if (op->flow->kind == FLOW_GEMM &&
        !emit_jobs(s, op, candidate_get(s, index, solution->pick[index]), arena, out))
        return false;
    return lay_emit(s->value[index], arena, &out->out);
}

int emit_plan(struct space *space, const struct solution *solution, const struct memory_use *use,
              struct arena *arena, struct plan **out, struct ipu_error *error)
{
    struct buffer recipe = {0};
    struct plan *plan = ARENA_NEW(arena, struct plan);
    bool good = plan != NULL && solution_layouts(space, solution->pick) &&
                recipe_write(space, solution->pick, &recipe);
    if (good) {
        plan->op_count = space->model->op_count;
        plan->ops = ARENA_ARRAY(arena, struct plan_op, plan->op_count + 1);
        plan->recipe = arena_memdup(arena, recipe.data, recipe.size);
        plan->recipe_bytes = (uint32_t)recipe.size;
        plan->estimated_cycles = solution->cost.cycles;
        plan->estimated_exchange_cycles = solution->cost.exchange;
        plan->peak_tile_bytes = use->total;
        good = plan->ops != NULL && plan->recipe != NULL;
    }
    buffer_free(&recipe);
    for (uint32_t i = 0; good && i < space->model->op_count; i++)
        good = emit_op(space, solution, i, arena, &plan->ops[i]);
    if (!good)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the plan");
    *out = plan;
    return 0;
}
