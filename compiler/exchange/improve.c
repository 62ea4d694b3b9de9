/* From rules to the best known schedule of every component.
 *
 * exchange_construct() tries the rules of order.c and rounds.c on a component, cheap ones first,
 * until one comes close to the lower bound. exchange_improve() then works on whichever component
 * decides the horizon: it moves a piece that ends last to an earlier place of the order (or any
 * piece anywhere), lists the component anew, and keeps what is not worse; worse is a longer horizon
 * or, at equal horizons, more slots of pieces near the end. The budget counts steps of the search
 * for holes, not time, and random numbers are seeded by the component, so results do not depend on
 * the host. The best starts are kept apart and put back at the end. Fails only for lack of memory.
 */
#include "compiler/exchange/internal.h"

#include "base/hash.h"
#include "device/ipu21/exchange.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUDGET = 200000,      /* search steps of one unit of effort: about 10 ms */
    CHAIN_LIMIT = 200000, /* steps of the waste rule on one component */
    FEW_PIECES = 4096,    /* of a component that is worth all rules */
    MANY_PIECES = 60000,  /* of a component that is worth dispatching */
    TAIL = 24,            /* slots before the end whose use is worth avoiding */
    SLICE = 8             /* trials before the worst component is looked up again */
};

static uint32_t *order_of(const struct schedule *s, uint32_t component)
{
    return s->order + s->component_first[component];
}

static uint32_t count_of(const struct schedule *s, uint32_t component)
{
    return s->component_first[component + 1] - s->component_first[component];
}

/* --- construction --------------------------------------------------------------------------- */

/* Takes the placed component as its best when it is; `order` led to it. */
static void keep(struct schedule *s, uint32_t component, int32_t horizon, const uint32_t *order)
{
    uint32_t count = count_of(s, component), *kept = order_of(s, component);
    if (horizon >= s->component_horizon[component])
        return;
    s->component_horizon[component] = horizon;
    if (order != kept)
        memcpy(kept, order, count * sizeof *kept);
    for (uint32_t i = 0; i < count; i++)
        s->best[kept[i]] = s->pieces[kept[i]].start;
}

static void try_list(struct schedule *s, uint32_t component, const uint32_t *order)
{
    uint64_t before = s->steps;
    if (s->failed)
        return;
    exchange_clear(s, component);
    keep(s, component, exchange_list(s, order, count_of(s, component)), order);
    s->component_steps[component] = s->steps - before;
}

struct timed {
    int32_t start;
    uint32_t piece;
};

static int compare_timed(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static void try_dispatch(struct schedule *s, uint32_t component)
{
    uint32_t count = count_of(s, component);
    const uint32_t *pieces = s->component_piece + s->component_first[component];
    struct timed *timed = s->scratch.timed;
    exchange_clear(s, component);
    int32_t horizon = exchange_dispatch(s, component);
    if (horizon >= s->component_horizon[component])
        return;
    for (uint32_t i = 0; i < count; i++)
        timed[i] = (struct timed){s->pieces[pieces[i]].start, pieces[i]};
    qsort(timed, count, sizeof *timed, compare_timed);
    for (uint32_t i = 0; i < count; i++)
        s->scratch.trial[i] = timed[i].piece;
    keep(s, component, horizon, s->scratch.trial);
}

/* Tries rule number `rule` on a component; false when there is no such rule. The first one is
 * cheap; big components get few. */
static bool try_rule(struct schedule *s, uint32_t component, unsigned rule)
{
    uint32_t *trial = s->scratch.trial;
    uint32_t count = count_of(s, component);
    if (rule > 0 && count > (rule > 1 ? FEW_PIECES : MANY_PIECES))
        return false;
    switch (rule) {
    case 0:
        if (exchange_order_by_colour(s, component, trial) ||
            exchange_order_by_waste(s, component, CHAIN_LIMIT, trial))
            try_list(s, component, trial);
        else
            try_list(s, component, s->component_piece + s->component_first[component]);
        return true;
    case 1:
        try_dispatch(s, component);
        return true;
    case 2:
        exchange_order_by_rank(s, component, trial);
        try_list(s, component, trial);
        return true;
    case 3:
        try_list(s, component, s->component_piece + s->component_first[component]);
        return true;
    default:
        return false;
    }
}

static uint32_t longest(const struct schedule *s)
{
    uint32_t c = 0;
    for (uint32_t i = 1; i < s->components; i++) {
        if (s->component_horizon[i] > s->component_horizon[c])
            c = i;
    }
    return c;
}

static bool close_enough(const struct schedule *s, int32_t horizon)
{
    return (int64_t)horizon * 50 <= (int64_t)s->lower_bound * 51;
}

int exchange_construct(struct schedule *s)
{
    s->order = ARENA_ARRAY(s->arena, uint32_t, s->piece_count);
    s->best = ARENA_ARRAY(s->arena, int32_t, s->piece_count);
    s->component_horizon = ARENA_ARRAY(s->arena, int32_t, s->components + 1);
    s->component_steps = ARENA_ARRAY(s->arena, uint64_t, s->components + 1);
    s->scratch.trial = ARENA_ARRAY(s->arena, uint32_t, s->piece_count);
    s->scratch.timed = ARENA_ARRAY(s->arena, struct timed, s->piece_count);
    unsigned *rules = ARENA_ARRAY(s->arena, unsigned, s->components + 1);
    if (!rules || !s->order || !s->best || !s->component_horizon || !s->component_steps ||
        !s->scratch.trial || !s->scratch.timed)
        return ipu_error_set(s->error, IPU_ERR_NO_MEMORY, "exchange: out of memory for %u pieces",
                             s->piece_count);
    for (uint32_t c = 0; c < s->components; c++) {
        s->component_horizon[c] = INT32_MAX;
        try_rule(s, c, 0);
    }
    for (uint32_t c; s->components && !s->failed;) {
        c = longest(s);
        if (close_enough(s, s->component_horizon[c]) || !try_rule(s, c, ++rules[c]))
            break;
    }
    return 0;
}

/* --- search --------------------------------------------------------------------------------- */

struct search {
    struct schedule *s;
    int64_t *value;   /* of the current order of every component; INT64_MAX: not listed yet */
    uint32_t *stale;  /* trials since the horizon last shrank */
    uint64_t *random; /* generator of every component */
};

static uint32_t below(uint64_t *random, uint32_t n)
{
    *random += 0x9e3779b97f4a7c15u;
    return (uint32_t)(((hash64_mix(*random) >> 32) * n) >> 32);
}

static int32_t piece_end(const struct piece *p)
{
    return p->start + p->reach + p->words + IPU21_RECEIVE_GUARD;
}

/* Lists the order; its value: horizon first, then how much of the last slots is used. */
static int64_t list_value(struct search *x, uint32_t component, const uint32_t *order)
{
    struct schedule *s = x->s;
    uint32_t count = count_of(s, component);
    int64_t tail = 0;
    exchange_clear(s, component);
    int32_t horizon = exchange_list(s, order, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct piece *p = &s->pieces[order[i]];
        int32_t over = piece_end(p) - (horizon - TAIL);
        tail += over > 0 ? over : 0;
    }
    keep(s, component, horizon, order);
    return (int64_t)horizon * (INT64_C(1) << 32) + tail;
}

static void move(uint32_t *order, uint32_t from, uint32_t to)
{
    uint32_t piece = order[from];
    if (from < to)
        memmove(order + from, order + from + 1, (to - from) * sizeof *order);
    else
        memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = piece;
}

/* Moves a piece of those that end last in front of others, where such a piece is soon found; else
 * any piece. */
static void disturb(const struct search *x, uint32_t component, uint32_t *order)
{
    const struct schedule *s = x->s;
    uint64_t *random = &x->random[component];
    uint32_t count = count_of(s, component), from = below(random, count);
    int32_t late = (int32_t)(x->value[component] >> 32) - TAIL;
    for (uint32_t k = 0; k < 16 && piece_end(&s->pieces[order[from]]) < late; k++)
        from = below(random, count);
    move(order, from, below(random, from + 1));
}

/* One trial on a component. Its order is the best one that keep() has stored, which equal values
 * may have replaced. */
static void attempt(struct search *x, uint32_t component)
{
    struct schedule *s = x->s;
    uint32_t count = count_of(s, component), *current = order_of(s, component);
    uint32_t *trial = s->scratch.trial;
    int32_t before = s->component_horizon[component];
    if (x->value[component] == INT64_MAX) {
        x->value[component] = list_value(x, component, current);
    } else {
        memcpy(trial, current, count * sizeof *trial);
        for (uint32_t moves = 1 + below(&x->random[component], 2); moves; moves--)
            disturb(x, component, trial);
        int64_t value = list_value(x, component, trial);
        if (value <= x->value[component]) {
            x->value[component] = value;
            memcpy(current, trial, count * sizeof *trial);
        }
    }
    x->stale[component] = s->component_horizon[component] < before ? 0 : x->stale[component] + 1;
}

/* The component that decides the horizon, if it can still be improved; else the number of
 * components. */
static uint32_t worst(const struct search *x)
{
    const struct schedule *s = x->s;
    uint32_t c = longest(s);
    bool done =
        s->component_horizon[c] <= s->component_bound[c] || x->stale[c] > 200 + 4 * count_of(s, c);
    return done ? s->components : c;
}

int exchange_improve(struct schedule *s, unsigned effort)
{
    struct search x = {.s = s};
    if (effort == 0 || s->components == 0)
        return 0;
    x.value = ARENA_ARRAY(s->arena, int64_t, s->components);
    x.stale = ARENA_ARRAY(s->arena, uint32_t, s->components);
    x.random = ARENA_ARRAY(s->arena, uint64_t, s->components);
    if (!x.value || !x.stale || !x.random)
        return ipu_error_set(s->error, IPU_ERR_NO_MEMORY, "exchange: out of memory for a search");
    for (uint32_t c = 0; c < s->components; c++) {
        x.value[c] = INT64_MAX;
        x.random[c] = hash64_mix(c + 1);
    }
    uint64_t limit = s->steps + (uint64_t)effort * BUDGET;
    for (uint32_t c; (c = worst(&x)) < s->components && !s->failed;) {
        for (int i = 0; i < SLICE; i++) {
            if (s->steps + s->component_steps[c] > limit)
                return 0;
            attempt(&x, c);
        }
    }
    return 0;
}

void exchange_restore(struct schedule *s, uint32_t component)
{
    const uint32_t *order = order_of(s, component);
    uint32_t count = count_of(s, component);
    exchange_clear(s, component);
    for (uint32_t i = 0; i < count; i++)
        exchange_place(s, order[i], s->best[order[i]]);
}
