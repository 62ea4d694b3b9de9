/* The scheduler from end to end: prepare, construct, improve, encode.
 *
 * With effort, phases with multicasts are also scheduled with their multicasts split: by the column
 * of the receivers, and into single transfers. A sender has slots to spare in a gather, and a split
 * multicast need not find all its receivers free at once; each component takes what is clearly
 * shorter. All state is in the caller's arena. The result depends on the phase and the effort only.
 * Fails for an illegal phase and for lack of memory.
 */
#include "compiler/exchange/internal.h"

#include <limits.h>
#include <string.h>

enum {
    MANY_PIECES = 20000, /* more: bounded search for holes */
    MANY_STEPS =
        2000000 /* of a search: phases that need more are not tried with split multicasts */
};

static int no_memory(const struct schedule *s)
{
    return ipu_error_set(s->error, IPU_ERR_NO_MEMORY, "exchange: out of memory for %u transfers",
                         s->phase->count);
}

/* In phases of many pieces, the search for holes is bounded: holes that old are rarely filled, and
 * looking costs most of the time. */
static int32_t look_back(const struct schedule *s)
{
    if (s->piece_count <= MANY_PIECES)
        return INT_MAX / 2;
    int64_t words = 0;
    for (uint32_t i = 0; i < s->piece_count; i++)
        words += s->pieces[i].words;
    return 256 + 16 * (int32_t)(words / s->piece_count);
}

static int solve(struct schedule *s, unsigned effort)
{
    int code = exchange_prepare(s);
    if (code)
        return code;
    s->look_back = look_back(s);
    code = exchange_order_prepare(s);
    if (!code)
        code = exchange_construct(s);
    if (!code && !s->failed)
        code = exchange_improve(s, effort);
    if (code || s->failed)
        return code ? code : no_memory(s);
    for (uint32_t c = 0; c < s->components; c++)
        exchange_restore(s, c);
    return s->failed ? no_memory(s) : 0;
}

/* Whether splitting could pay: there are multicasts, and the horizon is not near its bound. */
static bool split_may_pay(const struct schedule *s)
{
    int32_t horizon = 0;
    for (uint32_t c = 0; c < s->components; c++)
        horizon = s->component_horizon[c] > horizon ? s->component_horizon[c] : horizon;
    return s->target_count > s->piece_count && exchange_may_split(s->phase) &&
           (int64_t)horizon * 100 > (int64_t)s->lower_bound * 103;
}

/* The variant for each component: the least split one unless another saves 2 % more. */
static const struct schedule *choose(const struct schedule *variants, unsigned count,
                                     uint32_t component)
{
    const struct schedule *best = &variants[0];
    for (unsigned v = 1; v < count; v++) {
        int64_t horizon = variants[v].component_horizon[component];
        if (horizon * 102 <= (int64_t)best->component_horizon[component] * 100)
            best = &variants[v];
    }
    return best;
}

/* No choice of variants is shorter than this. */
static int32_t lower_bound(const struct schedule *variants, unsigned count)
{
    int32_t bound = 0;
    for (uint32_t c = 0; c < variants[0].components; c++) {
        int32_t least = variants[0].component_bound[c];
        for (unsigned v = 1; v < count; v++) {
            int32_t other = variants[v].component_bound[c];
            least = other < least ? other : least;
        }
        bound = least > bound ? least : bound;
    }
    return bound;
}

static int encode_rows(const struct schedule *variants, unsigned count,
                       struct exchange_schedule *out)
{
    const struct schedule *s = &variants[0];
    const struct schedule **by_tile = ARENA_ARRAY(s->arena, const struct schedule *, IPU21_TILES);
    if (!by_tile)
        return no_memory(s);
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const struct piece *p = &s->pieces[i];
        if (!by_tile[p->source])
            by_tile[p->source] = choose(variants, count, p->component);
        for (uint32_t k = 0; k < p->target_count; k++)
            by_tile[s->targets[p->target + k].tile] = by_tile[p->source];
    }
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        struct exchange_row *row = &out->rows[t];
        int code = by_tile[t] ? exchange_encode(by_tile[t], t, row) : 0;
        if (code)
            return code;
        out->horizon = row->horizon > out->horizon ? row->horizon : out->horizon;
        out->maximum_row_bytes =
            row->count * 4 > out->maximum_row_bytes ? row->count * 4 : out->maximum_row_bytes;
    }
    return 0;
}

int exchange_schedule(const struct exchange_phase *phase, unsigned effort, struct arena *arena,
                      struct exchange_schedule *out, struct ipu_error *error)
{
    struct schedule variants[EXCHANGE_SPLITS];
    unsigned count = 0;
    memset(out, 0, sizeof *out);
    do {
        variants[count] =
            (struct schedule){.phase = phase, .arena = arena, .error = error, .split = count};
        int code = solve(&variants[count++], effort);
        if (code)
            return code;
    } while (effort && count < EXCHANGE_SPLITS && split_may_pay(&variants[0]));
    out->lower_bound = (uint32_t)lower_bound(variants, count);
    return encode_rows(variants, count, out);
}
