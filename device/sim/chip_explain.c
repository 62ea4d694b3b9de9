/* Where every tile of a stopped chip is, for people: tiles in the same state at the same PC share a
 * line. For a deadlock the reason comes first.
 */
#include "device/sim/chip_core.h"

#include "base/buffer.h"

#include "device/ipu21/exchange.h"

#include <stdlib.h>
#include <string.h>

enum { EXPLAIN_LINES = 64, EXPLAIN_RANGES = 8 };

struct standing {
    uint32_t pc;
    uint32_t detail; /* words or syncs still waited for */
    uint16_t tile;
    uint8_t stop, zone;
    bool held;
};

static int compare(const void *a, const void *b)
{
    const struct standing *x = a, *y = b;
    if (x->stop != y->stop)
        return x->stop < y->stop ? -1 : 1;
    if (x->held != y->held)
        return x->held ? 1 : -1;
    if (x->zone != y->zone)
        return x->zone < y->zone ? -1 : 1;
    if (x->pc != y->pc)
        return x->pc < y->pc ? -1 : 1;
    if (x->detail != y->detail)
        return x->detail < y->detail ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

static bool same_group(const struct standing *x, const struct standing *y)
{
    return x->stop == y->stop && x->held == y->held && x->zone == y->zone && x->pc == y->pc &&
           x->detail == y->detail;
}

/* By a run-break: an exception of the tile itself is a fault. */
static bool is_held(const struct sim_tile *tile)
{
    for (unsigned c = 0; c <= IPU21_WORKERS && !sim_tile_fault(tile); c++)
        if (sim_tile_status(tile, c) == SIM_CONTEXT_DEBUG)
            return true;
    return false;
}

static struct standing stand(const struct sim_chip *chip, unsigned tile)
{
    const struct chip_tile *slot = &chip->tiles[tile];
    struct standing s = {.tile = (uint16_t)tile, .stop = slot->stop};
    if (slot->stop == CHIP_UNLOADED)
        return s;
    s.pc = sim_tile_pc(slot->tile, 0);
    s.held = is_held(slot->tile);
    if (slot->stop != CHIP_SYNC)
        return s;
    s.zone = slot->zone;
    if (slot->zone == IPU21_ZONE_RECEIVE)
        s.detail = slot->state->incoming_dcount;
    if (slot->zone == IPU21_ZONE_ANS)
        s.detail = slot->state->ans_count;
    return s;
}

static const char *zone_text(unsigned zone)
{
    static const char *const names[16] = {"receive",    "sit out",     "workers",    "internal",
                                          "host GS1",   "host GS1H",   "host GS2",   "host GS2H",
                                          "undefined",  "undefined",   "undefined",  "undefined",
                                          "GS1 master", "GS1H master", "GS2 master", "GS2H master"};
    return names[zone & 15];
}

static void print_state(struct buffer *out, const struct standing *s)
{
    switch (s->stop) {
    case CHIP_UNLOADED:
        buffer_printf(out, "not started");
        return;
    case CHIP_FAULT:
        buffer_printf(out, "stopped by a fault, pc 0x%x", s->pc);
        return;
    case CHIP_SYNC:
        buffer_printf(out, "in sync %u (%s), pc 0x%x", s->zone, zone_text(s->zone), s->pc);
        break;
    default:
        buffer_printf(out, "running, pc 0x%x%s", s->pc, s->held ? ", held by a run-break" : "");
        return;
    }
    if (s->held)
        buffer_printf(out, ", held by a run-break");
    if (s->zone == IPU21_ZONE_RECEIVE)
        buffer_printf(out, ", waits for %u words", s->detail);
    if (s->zone == IPU21_ZONE_ANS)
        buffer_printf(out, ", sits out %u more", s->detail);
}

static void print_tiles(struct buffer *out, const struct standing *s, size_t count)
{
    unsigned ranges = 0;
    for (size_t i = 0; i < count; ranges++) {
        size_t last = i;
        while (last + 1 < count && s[last + 1].tile == s[last].tile + 1)
            last++;
        if (ranges == EXPLAIN_RANGES) {
            buffer_printf(out, ",...");
            return;
        }
        buffer_printf(out, "%s%u", i ? "," : "", s[i].tile);
        if (last != i)
            buffer_printf(out, "-%u", s[last].tile);
        i = last + 1;
    }
}

/* Why the first tile of a group that waits for host words gets none. */
static void print_host_reason(const struct sim_chip *chip, struct buffer *out,
                              const struct standing *s)
{
    if (s->stop != CHIP_SYNC || s->zone != IPU21_ZONE_RECEIVE)
        return;
    if (!host_is_granted(&chip->host, s->tile))
        buffer_printf(out, "    tile %u has no XREQ grant from its column's owner, tile %u%s\n",
                      s->tile, host_owner(s->tile),
                      host_waits(&chip->settle.ports[s->tile]) ? "; its packets wait" : "");
    else if (host_waits(&chip->settle.ports[s->tile]))
        buffer_printf(out, "    tile %u has packets that are not complete\n", s->tile);
    else
        buffer_printf(out, "    tile %u has asked for fewer words than INCOMING_DCOUNT expects\n",
                      s->tile);
}

char *sim_chip_explain(const struct sim_chip *chip)
{
    static const char empty[] = "";
    struct buffer out = {0};
    struct standing all[IPU21_TILES];
    if (chip->deadlocked)
        buffer_printf(&out, "deadlock: %s\n", chip->reason);
    for (unsigned i = 0; i < IPU21_TILES; i++)
        all[i] = stand(chip, i);
    qsort(all, IPU21_TILES, sizeof *all, compare);
    unsigned lines = 0;
    for (size_t i = 0, count; i < IPU21_TILES; i += count) {
        for (count = 1; i + count < IPU21_TILES && same_group(&all[i], &all[i + count]);)
            count++;
        if (++lines > EXPLAIN_LINES) {
            buffer_printf(&out, "%zu more tiles in other places\n", IPU21_TILES - i);
            break;
        }
        buffer_printf(&out, "%zu tile%s (", count, count == 1 ? "" : "s");
        print_tiles(&out, &all[i], count);
        buffer_printf(&out, ") ");
        print_state(&out, &all[i]);
        buffer_append(&out, "\n", 1);
        print_host_reason(chip, &out, &all[i]);
    }
    buffer_append(&out, empty, 1);
    if (out.failed) {
        buffer_free(&out);
        return NULL;
    }
    return (char *)out.data;
}
