/* Solutions, the pool of the best of each layout family, and the work budget.
 *
 * A family is what makes plans alike for the exchange scheduler: per GEMM the class of its inner
 * split, the scatter direction and whether its operand travels; per elementwise operation whether
 * it stays in place. The pool holds at most one solution a family, best first, ties in order of
 * arrival.
 */
#include "compiler/plan/search.h"

#include "base/clock.h"
#include "base/hash.h"

#include <string.h>

bool solution_new(struct space *space, struct solution *solution)
{
    solution->pick = ARENA_ARRAY(space->arena, uint16_t, space->model->op_count + 1);
    solution->cost = (struct cost){UINT64_MAX, 0};
    space->oom |= solution->pick == NULL;
    return solution->pick != NULL;
}

void solution_copy(struct space *space, struct solution *to, const struct solution *from)
{
    memcpy(to->pick, from->pick, sizeof(uint16_t) * space->model->op_count);
    to->cost = from->cost;
}

static unsigned size_class(unsigned n)
{
    unsigned bits = 0;
    while (n > 1) {
        n >>= 1;
        bits++;
    }
    return bits;
}

/* Needs the layouts of the solution: an elementwise operation counts by whether it stays in place.
 */
uint64_t solution_family(struct space *space, const uint16_t *pick)
{
    uint64_t family = 1;
    if (!solution_layouts(space, pick))
        return 0;
    for (uint32_t i = 0; i < space->model->op_count; i++) {
        const struct model_op *op = &space->model->ops[i];
        if (op->flow->kind == FLOW_REPEAT)
            continue;
        struct cand *cand = candidate_get(space, i, pick[i]);
        const struct plan_choice *c = &cand->choice;
        const struct lay *out = space->value[i];
        uint64_t kind = solution_source(space, &op->a) == out;
        if (c->kind == CHOICE_GEMM)
            kind = 2 | (uint64_t)size_class(c->gk) << 8 |
                   (uint64_t)(c->replicate ? 2 : c->sr > 1) << 24 |
                   (uint64_t)(solution_op_cost(space, pick, i).exchange > cand->exchange) << 28;
        else if (kind == 0)
            kind = (uint64_t)size_class(out->nr) << 8 | (uint64_t)size_class(out->np) << 16;
        family = hash64_mix(family ^ hash64_mix(kind + i));
    }
    return family;
}

bool pool_open(struct pool *pool, struct space *space, unsigned capacity)
{
    pool->count = 0;
    pool->capacity = capacity;
    pool->list = ARENA_ARRAY(space->arena, struct solution, capacity + 1);
    pool->family = ARENA_ARRAY(space->arena, uint64_t, capacity + 1);
    if (pool->list == NULL || pool->family == NULL)
        return false;
    for (unsigned i = 0; i <= capacity; i++)
        if (!solution_new(space, &pool->list[i]))
            return false;
    return true;
}

static void pool_remove(struct pool *pool, unsigned at)
{
    struct solution freed = pool->list[at];
    for (unsigned i = at; i + 1 < pool->count; i++) {
        pool->list[i] = pool->list[i + 1];
        pool->family[i] = pool->family[i + 1];
    }
    pool->list[--pool->count] = freed;
}

bool pool_offer(struct pool *pool, struct space *space, const struct solution *solution)
{

    if (pool->count == pool->capacity &&
        solution->cost.cycles >= pool->list[pool->count - 1].cost.cycles)
        return false;
    uint64_t family = solution_family(space, solution->pick);
    for (unsigned i = 0; i < pool->count; i++) {
        if (pool->family[i] != family)
            continue;
        if (pool->list[i].cost.cycles <= solution->cost.cycles)
            return false;
        pool_remove(pool, i);
        break;
    }
    if (pool->count == pool->capacity)
        pool_remove(pool, pool->count - 1);
    unsigned at = pool->count++;
    struct solution free_slot = pool->list[at];
    for (; at > 0 && solution->cost.cycles < pool->list[at - 1].cost.cycles; at--) {
        pool->list[at] = pool->list[at - 1];
        pool->family[at] = pool->family[at - 1];
    }
    pool->list[at] = free_slot;
    pool->family[at] = family;
    solution_copy(space, &pool->list[at], solution);
    return true;
}

bool budget_over(struct space *space, struct budget *budget)
{
    if (space->oom || budget->deadline_hit || space->units >= budget->units)
        return true;
    if (budget->cancel != NULL && atomic_load_explicit(budget->cancel, memory_order_relaxed))
        return true;
    if (++budget->looks % 64 != 0)
        return false;
    uint64_t now = clock_ns();
    budget->deadline_hit = now >= budget->deadline_ns;
    if (budget->progress != NULL && now - budget->reported_ns > 50000000) {
        budget->reported_ns = now;
        budget->progress(budget->progress_context, budget->best, space->candidates,
                         (double)(now - budget->start_ns) / 1e9);
    }
    return budget->deadline_hit;
}
