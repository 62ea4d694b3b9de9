/* Repeats that copy or fill memory, whole trips at a time.
 *
 * A body of {ld64step; st64step} or of {st64step} alone, with immediate steps and setzi (fnop is
 * one) beside them. Addresses of all trips are examined before the first one: aligned, inside SRAM,
 * stores not into decoded code. Anything else is left untouched to the ordinary loop, which faults
 * where it must. Trips are done in order, so that overlapping copies give what the instructions
 * give.
 */
#include "device/sim/core.h"

static const struct sim_half *step_half(const struct sim_op *op, unsigned form)
{
    const struct sim_half *half = &op->main;
    if (op->shape != SIM_BUNDLE_SETZI || half->form != form)
        return NULL;
    /* The delta may be written and is not the base; setzi leaves the data alone. */
    bool sound =
        half->r[4] == half->r[2] && half->r[1] != half->r[2] && (op->aux.r[0] & ~1u) != half->r[0];
    return sound ? half : NULL;
}

static const struct sim_half *load_half(const struct sim_op *op)
{
    return step_half(op, ISA_LD64STEP_ARPAIR_MR_MR_SIMM8);
}

static const struct sim_half *store_half(const struct sim_op *op)
{
    return step_half(op, ISA_ST64STEP_ARPAIR_MR_MR_SIMM8);
}

static bool is_copy(const struct sim_half *load, const struct sim_half *store)
{
    return load && store && load->r[0] == store->r[0] && load->r[2] != store->r[2] &&
           load->r[1] != store->r[2] && store->r[1] != load->r[2];
}

void sim_fused_mark_moves(struct sim_page *page)
{
    for (unsigned i = 0; i < SIM_PAGE_WORDS; i++) {
        struct sim_op *op = &page->ops[i];
        if (i + 2 < SIM_PAGE_WORDS && is_copy(load_half(op), store_half(op + 2)))
            op->fused = SIM_FUSED_COPY;
        else if (store_half(op))
            op->fused = SIM_FUSED_FILL;
    }
}

/* The accesses of one instruction in all trips. */
struct walk {
    uint32_t first;
    int32_t step;
    uint32_t low, high; /* the lowest byte and the one after the highest */
};

/* False: some access is not legal. */
static bool walk_set(const struct sim_context *c, const struct sim_half *half, uint32_t trips,
                     struct walk *walk)
{
    walk->first = c->m[half->r[1]] + c->m[half->r[2]];
    walk->step = half->imm * 8;
    int64_t last = (int64_t)walk->first + (int64_t)walk->step * (trips - 1);
    if (last < 0 || last > UINT32_MAX || !sim_accessible(walk->first, 8) ||
        !sim_accessible((uint32_t)last, 8))
        return false;
    walk->low = walk->step < 0 ? (uint32_t)last : walk->first;
    walk->high = (walk->step < 0 ? walk->first : (uint32_t)last) + 8;
    return true;
}

/* A store changes the decoding of its page and, in its first word, of the page before. */
static bool misses_code(const struct sim_tile *tile, const struct walk *walk)
{
    if (walk->low >= IPU21_REGION1_BASE)
        return true;
    uint32_t first = (walk->low - IPU21_SRAM_BASE) / SIM_PAGE_BYTES;
    uint32_t last = (walk->high - 1 - IPU21_SRAM_BASE) / SIM_PAGE_BYTES;
    for (uint32_t i = first > 0 ? first - 1 : 0; i <= last && i < SIM_PAGES; i++)
        if (tile->pages[i])
            return false;
    return true;
}

static void copy_trips(struct sim_context *c, const struct walk *from, const struct walk *to,
                       uint32_t trips)
{
    uint8_t *source = c->sram + (from->first - IPU21_SRAM_BASE);
    uint8_t *target = c->sram + (to->first - IPU21_SRAM_BASE);
    if (from->step == 8 && to->step == 8 && (from->high <= to->low || to->high <= from->low)) {
        memcpy(target, source, 8 * (size_t)trips);
        return;
    }
    for (uint32_t i = 0; i < trips; i++)
        memmove(target + (int64_t)i * to->step, source + (int64_t)i * from->step, 8);
}

static void fill_trips(struct sim_context *c, uint64_t value, const struct walk *to, uint32_t trips)
{
    uint8_t *target = c->sram + (to->first - IPU21_SRAM_BASE);
    for (uint32_t i = 0; i < trips; i++)
        memcpy(target + (int64_t)i * to->step, &value, 8);
}

static void set_beside(struct sim_context *c, const struct sim_op *op)
{
    c->a[op->aux.r[0]] = (uint32_t)op->aux.imm;
}

static uint64_t trips_done(struct sim_context *c, uint32_t trips, uint32_t body)
{
    uint64_t bundles = (uint64_t)trips * body;
    c->repeat_left -= trips;
    if (c->repeat_left == 0) {
        c->pc = c->repeat_end;
        c->repeat_end = SIM_NO_REPEAT;
    }
    c->bundles += bundles;
    c->cycle += bundles * IPU21_SLOTS;
    return bundles;
}

static uint64_t fill(struct sim_context *c, const struct sim_op *op, uint32_t trips)
{
    struct walk to;
    if (!walk_set(c, &op->main, trips, &to) || !misses_code(c->tile, &to))
        return 0;
    fill_trips(c, sim_pair(c, op->main.r[0]), &to, trips);
    set_beside(c, op);
    c->m[op->main.r[2]] += trips * (uint32_t)to.step;
    return trips_done(c, trips, 1);
}

static uint64_t copy(struct sim_context *c, const struct sim_op *op, uint32_t trips)
{
    const struct sim_half *load = &op->main, *store = &op[2].main;
    struct walk from, to;
    if (!walk_set(c, load, trips, &from) || !walk_set(c, store, trips, &to) ||
        !misses_code(c->tile, &to))
        return 0;
    copy_trips(c, &from, &to, trips);
    /* What the last trip loaded is what it stored. */
    uint32_t last = to.first + (trips - 1) * (uint32_t)to.step;
    sim_set_pair(c, load->r[0], sim_load64(c, last));
    set_beside(c, op);
    set_beside(c, op + 2);
    c->m[load->r[2]] += trips * (uint32_t)from.step;
    c->m[store->r[2]] += trips * (uint32_t)to.step;
    return trips_done(c, trips, 2);
}

uint64_t sim_fused_move(struct sim_context *c, const struct sim_op *op, uint64_t until)
{
    uint32_t body = op->fused == SIM_FUSED_COPY ? 2 : 1;
    if (c->repeat_first != c->pc || c->repeat_end != c->pc + 8 * body)
        return 0;
    uint64_t room = (until - c->cycle + IPU21_SLOTS - 1) / IPU21_SLOTS / body;
    uint32_t trips = c->repeat_left < room ? c->repeat_left : (uint32_t)room;
    if (trips == 0)
        return 0;
    return body == 2 ? copy(c, op, trips) : fill(c, op, trips);
}
