/* Synchronisation, when no tile can run. Zones: facts/exchange.md section 8.
 *
 * Zone 0 ends when INCOMING_DCOUNT is 0 and zone 1 when no sync is left to sit out. A global sync
 * is complete when each tile waits in it or sits it out; each tile that sits out then has one fewer
 * left. External syncs also need a mark from the host, which they take (credits [G]); the mark
 * reads 0 from then on, that of GS1 from the next meeting on (chip.h). The first sync of GS2 after
 * a start answers to the mark in GS1, the final one of the load [G]; all others to that of their
 * own group.
 *
 * `sans` before other work: a tile counts as sitting out from when it stops, not from the `sans`
 * [G].
 */
#include "device/sim/chip_core.h"

#include "device/ipu21/exchange.h"
#include "device/ipu21/timing.h"

#include <stdio.h>

/* HSP group of an external zone, 0 for others. */
static unsigned zone_group(unsigned zone)
{
    switch (zone) {
    case 4:
    case 5:
    case 12:
    case 13:
        return 1;
    case 6:
    case 7:
    case 14:
    case 15:
        return 2;
    default:
        return 0;
    }
}

/* Zones that complete together. */
static unsigned zone_class(unsigned zone)
{
    unsigned group = zone_group(zone);
    return zone == IPU21_ZONE_INTERNAL ? 3 : group;
}

static void release(struct sim_chip *chip, unsigned tile, uint64_t cycle)
{
    struct chip_tile *slot = &chip->tiles[tile];
    struct settle_port *port = &chip->settle.ports[tile];
    if (port->last_store > (int64_t)cycle)
        settle_fault(port, SIM_ETYPE_EXERR, SETTLE_WORKERS, (int64_t)cycle,
                     sim_tile_pc(slot->tile, 0),
                     "words arrive until cycle %lld, after the sync that ended the exchange",
                     (long long)port->last_store - 1);
    port->last_store = 0;
    sim_tile_release(slot->tile, cycle);
    chip_make_ready(chip, tile);
}

/* Zones 0 and 1, which concern one tile. */
static void release_local(struct sim_chip *chip)
{
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct chip_tile *slot = &chip->tiles[i];
        if (slot->stop != CHIP_SYNC)
            continue;
        uint64_t cycle = slot->cycle;
        if (slot->zone == IPU21_ZONE_RECEIVE && slot->state->incoming_dcount == 0) {
            uint64_t done = host_done(&chip->settle.ports[i]);
            release(chip, i, done > cycle ? done : cycle + 1);
        } else if (slot->zone == IPU21_ZONE_ANS && slot->state->ans_count == 0) {
            release(chip, i, cycle + 1);
        }
    }
}

static bool sits_out(const struct chip_tile *slot)
{
    return slot->zone == IPU21_ZONE_ANS && slot->state->ans_count != 0;
}

struct meeting {
    unsigned zone_class; /* 0: nobody takes part */
    unsigned first;      /* a tile that takes part */
    uint64_t arrival;
};

static enum chip_sync deadlock(struct sim_chip *chip, const char *reason)
{
    snprintf(chip->reason, sizeof chip->reason, "%s", reason);
    return CHIP_SYNC_DEADLOCK;
}

/* Whether all tiles meet in one global sync; when not, the reason is noted. */
static bool find_meeting(struct sim_chip *chip, struct meeting *meeting)
{
    *meeting = (struct meeting){0};
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        const struct chip_tile *slot = &chip->tiles[i];
        if (slot->stop != CHIP_SYNC) {
            deadlock(chip, "the chip has not been started");
            return false;
        }
        if (slot->cycle > meeting->arrival)
            meeting->arrival = slot->cycle;
        if (sits_out(slot))
            continue;
        unsigned class = zone_class(slot->zone);
        if (class == 0) {
            deadlock(chip, slot->zone == IPU21_ZONE_RECEIVE
                               ? "a tile waits for host words that do not come"
                               : "a tile waits in a sync zone that does not exist");
            return false;
        }
        if (slot->state->ans_count != 0) {
            deadlock(chip, "a tile waits in a global sync that its `sans` has agreed to sit out");
            return false;
        }
        if (meeting->zone_class != 0 && meeting->zone_class != class) {
            deadlock(chip, "tiles wait in different sync zones");
            return false;
        }
        if (meeting->zone_class == 0) {
            meeting->zone_class = class;
            meeting->first = i;
        }
    }
    if (meeting->zone_class == 0)
        deadlock(chip, "every tile sits out a sync in which no tile takes part");
    return meeting->zone_class != 0;
}

static enum chip_sync complete(struct sim_chip *chip, const struct meeting *meeting,
                               uint64_t latency)
{
    uint64_t cycle = meeting->arrival + latency;
    if (!host_end_phase(&chip->host, &chip->settle))
        return CHIP_SYNC_FAULT;
    chip->release = cycle;
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct chip_tile *slot = &chip->tiles[i];
        bool out = sits_out(slot);
        if (out)
            slot->state->ans_count--;
        if (!out || slot->state->ans_count == 0)
            release(chip, i, cycle);
    }
    for (unsigned i = 0; i < IPU21_TILES; i++)
        if (chip->settle.ports[i].faulted)
            return CHIP_SYNC_FAULT;
    return CHIP_SYNC_GO;
}

/* All tiles have met: what they did since the last mark of GS1 is done. */
static void show_taken(struct sim_chip *chip)
{
    chip->mark_cleared = chip->mark_cleared || chip->taken != 0;
    chip->taken = 0;
}

static void take_mark(struct sim_chip *chip, unsigned group)
{
    if (group == 1)
        chip->taken = chip->marks[1];
    else
        chip->mark_cleared = true;
    chip->marks[group] = 0;
}

enum chip_sync chip_sync_resolve(struct sim_chip *chip)
{
    struct meeting meeting;
    release_local(chip);
    if (chip->ready_count != 0)
        return CHIP_SYNC_GO;
    if (!find_meeting(chip, &meeting))
        return CHIP_SYNC_DEADLOCK;
    show_taken(chip);
    if (meeting.zone_class == IPU21_ZONE_INTERNAL)
        return complete(chip, &meeting, IPU21_SYNC_INTERNAL);
    unsigned group = chip->application ? meeting.zone_class : 1;
    if (chip->marks[group] == 0)
        return CHIP_SYNC_HOST;
    if (meeting.zone_class == 2)
        chip->application = true;
    take_mark(chip, group);
    return complete(chip, &meeting, IPU21_SYNC_HOST);
}
