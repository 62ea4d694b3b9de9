/* Improvement by local moves around the incumbent.
 *
 * A move changes the choice of one operation or of two neighbours: another candidate, a grid axis
 * one step finer or coarser, another tile order, another scatter of partials, or the grid that
 * lines up with the neighbouring product so that nothing travels between them. Moves slightly
 * uphill are taken early on; recipes tried before are not priced again. The sequence is a pure
 * function of the seed and the start.
 */
#include "compiler/plan/search.h"

#include "base/clock.h"
#include "base/hash.h"

#include <string.h>

struct chain {
    struct space *space;
    struct pool *pool;
    struct budget *budget;
    struct solution now, trial;
    uint64_t best;
    uint64_t random, draws;
    uint32_t *movable;
    uint32_t movable_count;
    uint64_t first_unit;
};

static uint64_t draw(struct chain *chain, uint64_t range)
{
    uint64_t value = hash64_mix(chain->random + ++chain->draws * 0x9e3779b97f4a7c15u);
    return range ? (value >> 11) % range : 0;
}

uint64_t solution_hash(struct space *space, const uint16_t *pick)
{
    uint64_t hash = 7;
    for (uint32_t i = 0; i < space->model->op_count; i++) {
        const struct model_op *op = &space->model->ops[i];
        if (op->flow->kind == FLOW_REPEAT)
            continue;
        const struct plan_choice *c = &space->classes[op->class_index].list[pick[i]].choice;
        hash = hash64_mix(hash ^ ((uint64_t)c->kind | (uint64_t)c->order << 8 |
                                  (uint64_t)c->replicate << 16 | (uint64_t)c->gb << 32 |
                                  (uint64_t)c->offset << 48));
        hash = hash64_mix(hash ^ ((uint64_t)c->gm | (uint64_t)c->gn << 16 | (uint64_t)c->gk << 32));
        hash =
            hash64_mix(hash ^ ((uint64_t)c->sr | (uint64_t)c->sp << 16 | (uint64_t)c->chunk << 32));
        hash ^= hash64_mix((uint64_t)c->flags | (uint64_t)c->row_passes << 8 |
                           (uint64_t)c->panel_passes << 16);
    }
    return hash;
}

static struct plan_choice choice_now(const struct chain *chain, uint32_t op)
{
    const struct space *s = chain->space;
    return s->classes[s->model->ops[op].class_index].list[chain->trial.pick[op]].choice;
}

/* Takes the choice for the trial; false when it is not legal. */
static bool set_choice(struct chain *chain, uint32_t op, struct plan_choice choice)
{
    struct space *s = chain->space;
    uint32_t at = candidate_find(s, s->model->ops[op].class_index, &choice);
    if (at >= UINT16_MAX)
        return false;
    chain->trial.pick[op] = (uint16_t)at;
    return true;
}

static uint16_t step_parts(struct chain *chain, uint32_t n, uint16_t parts)
{
    uint32_t size = (n + parts - 1) / parts, next;
    switch (draw(chain, 5)) {
    case 0:
        next = size > 1 ? (n + size - 2) / (size - 1) : parts;
        break;
    case 1:
        next = (n + size) / (size + 1);
        break;
    case 2:
        next = 2u * parts;
        break;
    case 3:
        next = (parts + 1u) / 2;
        break;
    default:
        next = 1 + (uint32_t)draw(chain, n < 64 ? n : 64);
        break;
    }
    next = next < 1 ? 1 : next > n ? n : next;
    return (uint16_t)next;
}

static uint32_t parts_size(uint32_t n, uint32_t parts)
{
    return (n + parts - 1) / parts;
}

/* A scatter of the partials that suits the grid: as many partners as there are pieces for. */
static void draw_scatter(struct chain *chain, const struct model_op *op, struct plan_choice *c)
{
    uint32_t rows = parts_size(op->rows, c->gm), panels = parts_size(op->panels, c->gn);
    uint32_t most = rows < c->gk ? rows : c->gk;
    c->replicate = draw(chain, 4) == 0;
    if (draw(chain, 3) == 0)
        c->sr = (uint16_t)(1 + draw(chain, most));
    else
        c->sr = (uint16_t)(draw(chain, 2) ? most : 1);
    uint32_t rest = c->gk / c->sr;
    c->sp = (uint16_t)(panels < rest ? panels : rest);
    if (c->sp < panels && c->sr == 1 && c->sp < c->gk)
        c->sp = (uint16_t)(panels < c->gk ? panels : c->gk);
}

static void shrink_to_tiles(const struct model_op *op, uint32_t tiles, struct plan_choice *c)
{
    while ((uint64_t)c->gb * c->gm * c->gn * c->gk > tiles) {
        uint16_t *largest = &c->gm;
        if (c->gn > *largest)
            largest = &c->gn;
        if (c->gk > *largest)
            largest = &c->gk;
        if (*largest == 1)
            largest = &c->gb;
        (*largest)--;
    }
    (void)op;
}

static bool move_grid(struct chain *chain, uint32_t index)
{
    const struct model_op *op = &chain->space->model->ops[index];
    struct plan_choice c = choice_now(chain, index);
    switch (draw(chain, op->batch > 1 ? 4 : 3)) {
    case 0:
        c.gm = step_parts(chain, op->rows, c.gm);
        break;
    case 1:
        c.gn = step_parts(chain, op->panels, c.gn);
        break;
    case 2:
        c.gk = step_parts(chain, op->inners, c.gk);
        break;
    default:
        c.gb = step_parts(chain, op->batch, c.gb);
        break;
    }
    shrink_to_tiles(op, chain->space->tiles, &c);
    draw_scatter(chain, op, &c);
    return set_choice(chain, index, c);
}

static bool move_order(struct chain *chain, uint32_t index)
{
    struct plan_choice c = choice_now(chain, index);
    c.order = (uint8_t)draw(chain, c.kind == CHOICE_GEMM ? GRID_ORDERS : 2);
    return c.kind != CHOICE_FOLLOW_A && c.kind != CHOICE_FOLLOW_B && set_choice(chain, index, c);
}

static bool move_scatter(struct chain *chain, uint32_t index)
{
    struct plan_choice c = choice_now(chain, index);
    draw_scatter(chain, &chain->space->model->ops[index], &c);
    return set_choice(chain, index, c);
}

static bool move_candidate(struct chain *chain, uint32_t index)
{
    const struct space *s = chain->space;
    uint64_t count = s->classes[s->model->ops[index].class_index].count;
    uint64_t reach = 1 + draw(chain, count); /* twice uniform: early ones more often */
    chain->trial.pick[index] = (uint16_t)draw(chain, reach);
    return true;
}

/* The product whose result reaches `index` through operations that keep its layout. */
static uint32_t product_before(const struct chain *chain, uint32_t index)
{
    const struct model *m = chain->space->model;
    const struct model_source *source = &m->ops[index].a;
    for (uint32_t depth = 0; depth < 8 && source->kind == SOURCE_OP; depth++) {
        const struct model_op *op = &m->ops[source->index];
        if (op->flow->kind == FLOW_GEMM)
            return source->index;
        if (op->flow->kind == FLOW_PERMUTE)
            break;
        source = &op->a;
    }
    return UINT32_MAX;
}

static const uint8_t swapped_order[GRID_ORDERS] = {1, 0, 4, 5, 2, 3}; /* j and k trade places */

/* Lines a product up with the one before it: columns there are inner parts here, or the reverse;
 * the remaining axis keeps its size as far as tiles allow. */
static bool move_match(struct chain *chain, uint32_t index)
{
    const struct model *m = chain->space->model;
    uint32_t before = product_before(chain, index);
    if (before == UINT32_MAX || before == index || m->ops[before].panels != m->ops[index].inners ||
        m->ops[before].rows != m->ops[index].rows || m->ops[before].batch != m->ops[index].batch)
        return false;
    struct plan_choice first = choice_now(chain, before), second = choice_now(chain, index);
    bool forward = draw(chain, 2) == 0;
    const struct plan_choice *from = forward ? &first : &second;
    struct plan_choice *to = forward ? &second : &first;
    const struct model_op *op = &m->ops[forward ? index : before];
    uint16_t rest = draw(chain, 2) ? 1 : forward ? to->gn : to->gk;
    to->gb = from->gb;
    to->gm = from->gm;
    to->gk = forward ? from->gn : rest;
    to->gn = forward ? rest : from->gk;
    to->order = swapped_order[from->order];
    to->offset = from->offset;
    while ((uint64_t)to->gb * to->gm * to->gn * to->gk > chain->space->tiles && rest > 1) {
        rest--;
        *(forward ? &to->gn : &to->gk) = rest;
    }
    draw_scatter(chain, op, to);
    return set_choice(chain, forward ? index : before, *to);
}

static bool move_one(struct chain *chain, uint32_t index)
{
    bool gemm = chain->space->model->ops[index].flow->kind == FLOW_GEMM;
    if (!gemm)
        return draw(chain, 4) == 0 ? move_order(chain, index) : move_candidate(chain, index);
    switch (draw(chain, 8)) {
    case 0:
    case 1:
        return move_candidate(chain, index);
    case 2:
    case 3:
        return move_grid(chain, index);
    case 4:
        return move_order(chain, index);
    case 5:
        return move_scatter(chain, index);
    default:
        return move_match(chain, index);
    }
}

static bool move_any(struct chain *chain)
{
    uint32_t at = (uint32_t)draw(chain, chain->movable_count);
    bool moved = move_one(chain, chain->movable[at]);
    if (draw(chain, 3) == 0 && chain->movable_count > 1)
        moved |= move_one(chain, chain->movable[(at + 1 + draw(chain, 2)) % chain->movable_count]);
    return moved;
}

/* How far uphill a move may lead: 1/32 of the best at first, nothing at the end. */
static uint64_t tolerance(const struct chain *chain)
{
    uint64_t done = chain->space->units - chain->first_unit;
    uint64_t all = chain->budget->units - chain->first_unit;
    if (all == 0 || done >= all)
        return 0;
    uint64_t share = chain->best / 32;
    return (uint64_t)((double)share * (double)(all - done) / (double)all);
}

static void step(struct chain *chain)
{
    struct space *s = chain->space;
    solution_copy(s, &chain->trial, &chain->now);
    s->units++;
    if (!move_any(chain) || visited_add(s, solution_hash(s, chain->trial.pick)))
        return;
    if (!solution_price(s, &chain->trial) ||
        chain->trial.cost.cycles > chain->now.cost.cycles + tolerance(chain))
        return;
    struct memory_use use;
    if (!solution_memory(s, chain->trial.pick, &use) || !memory_fits(s, &use))
        return;
    pool_offer(chain->pool, s, &chain->trial);
    solution_copy(s, &chain->now, &chain->trial);
    if (chain->trial.cost.cycles < chain->best)
        chain->best = chain->trial.cost.cycles;
}

static bool chain_open(struct chain *chain, const struct solution *start)
{
    struct space *s = chain->space;
    chain->movable = ARENA_ARRAY(s->arena, uint32_t, s->model->op_count + 1);
    if (chain->movable == NULL || !solution_new(s, &chain->now) || !solution_new(s, &chain->trial))
        return false;
    for (uint32_t n = 0; n < s->model->op_count; n++) {
        uint32_t i = s->model->order[n];
        bool joined = s->model->ops[i].op > 0 && s->model->ops[i - 1].fusable;
        if (s->model->ops[i].flow->kind != FLOW_REPEAT && !joined)
            chain->movable[chain->movable_count++] = i;
    }
    solution_copy(s, &chain->now, start);
    chain->best = start->cost.cycles;
    chain->first_unit = s->units;
    return chain->movable_count > 0;
}

void improve_run(struct space *space, const struct solution *start, struct pool *pool,
                 struct budget *budget, uint64_t seed)
{
    struct chain chain = {
        .space = space, .pool = pool, .budget = budget, .random = hash64_mix(seed + 1)};
    if (!chain_open(&chain, start))
        return;
    unsigned stuck = 0, steps = 0;
    uint64_t last = 0;
    while (!budget_over(space, budget)) {
        step(&chain);
        /* Back to the best or its runner-up now and then; stop when everything near was tried. */
        if (++steps % 256 == 0 && pool->count > 0)
            solution_copy(space, &chain.now, &pool->list[draw(&chain, 2) % pool->count]);
        budget->best = chain.best;
        stuck = space->candidates == last ? stuck + 1 : 0;
        last = space->candidates;
        if (stuck > 4000)
            break;
    }
}
