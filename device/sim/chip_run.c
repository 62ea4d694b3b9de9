/* The chip's loop: tiles run in parallel until each has stopped; then the round is settled, host
 * packets are served, and synchronisations that are complete release their tiles.
 *
 * A tile runs in slices so that a cancel is noticed soon; slices do not change what it computes.
 * The first fault of a round is the one with the lowest cycle, then tile.
 */
#include "device/sim/chip_core.h"

#include "device/ipu21/exchange.h"

enum {
    CHIP_SLICE = 1 << 16,     /* cycles between looks at the cancel flag */
    CHIP_MAX_EVENTS = 1 << 17 /* of one tile in one round: region 0 holds 53,248 instructions */
};

void chip_make_ready(struct sim_chip *chip, unsigned tile)
{
    chip->tiles[tile].stop = CHIP_READY;
    chip->ready[chip->ready_count++] = (uint16_t)tile;
}

static bool cancelled(const struct sim_chip *chip)
{
    return chip->cancel && atomic_load_explicit(chip->cancel, memory_order_relaxed);
}

/* A program that loops over exchange instructions without ever synchronising would fill the host's
 * memory with its log. */
static bool endless_row(struct sim_tile *tile)
{
    size_t count;
    sim_tile_events(tile, &count);
    if (count <= CHIP_MAX_EVENTS)
        return false;
    sim_tile_raise(tile, SIM_ETYPE_EXERR, 0, sim_tile_cycle(tile),
                   "more exchange events without a synchronisation than any row has");
    return true;
}

static bool observed(const struct sim_chip *chip, unsigned number)
{
    return chip->observer && chip->observer->tiles[number];
}

static enum sim_stop run_slices(struct sim_chip *chip, struct sim_tile *tile, unsigned number)
{
    /* Not always from the tile's clock: it stands while the supervisor waits for workers. */
    for (uint64_t until = sim_tile_cycle(tile);;) {
        bool far = until < chip->limit && chip->limit - until > CHIP_SLICE;
        until = far ? until + CHIP_SLICE : chip->limit;
        enum sim_stop stop =
            observed(chip, number) ? sim_observe_run(chip, tile, until) : sim_tile_run(tile, until);
        if (stop == SIM_STOP_LIMIT && endless_row(tile))
            return SIM_STOP_FAULT;
        if (stop != SIM_STOP_LIMIT || until == chip->limit || cancelled(chip))
            return stop;
    }
}

static void run_tile(struct sim_chip *chip, unsigned number)
{
    struct chip_tile *slot = &chip->tiles[number];
    struct settle_port *port = &chip->settle.ports[number];
    if (cancelled(chip))
        return;
    enum sim_stop stop = run_slices(chip, slot->tile, number);
    slot->cycle = sim_tile_cycle(slot->tile);
    if (stop == SIM_STOP_LIMIT && slot->cycle < chip->limit && !cancelled(chip))
        slot->cycle = chip->limit;
    slot->stop = stop == SIM_STOP_SYNC     ? CHIP_SYNC
                 : stop == SIM_STOP_SETTLE ? CHIP_SETTLE
                 : stop == SIM_STOP_FAULT  ? CHIP_FAULT
                                           : CHIP_READY;
    slot->zone = (uint8_t)sim_tile_zone(slot->tile);
    port->events = sim_tile_events(slot->tile, &port->event_count);
    port->epoch = sim_tile_epoch(slot->tile);
    port->stop_cycle = slot->cycle;
    port->went_on = slot->stop == CHIP_SETTLE;
}

static void run_one(void *context, size_t index)
{
    struct sim_chip *chip = context;
    if (!observed(chip, chip->ready[index]))
        run_tile(chip, chip->ready[index]);
}

static void run_observed(struct sim_chip *chip)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        if (observed(chip, i) && chip->tiles[i].stop == CHIP_READY)
            run_tile(chip, i);
}

static void keep_fault(struct sim_chip *chip, const struct sim_fault *fault)
{
    if (chip->faulted && (chip->fault.cycle < fault->cycle ||
                          (chip->fault.cycle == fault->cycle && chip->fault.tile <= fault->tile)))
        return;
    chip->faulted = true;
    chip->fault = *fault;
}

/* Faults of the fabric stop their tile as its own would. */
static void collect_faults(struct sim_chip *chip)
{
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct settle_port *port = &chip->settle.ports[i];
        struct chip_tile *slot = &chip->tiles[i];
        if (slot->stop == CHIP_FAULT)
            keep_fault(chip, sim_tile_fault(slot->tile));
        if (!port->faulted)
            continue;
        keep_fault(chip, &port->fault);
        sim_tile_raise(slot->tile, port->fault.etype, port->fault.receive_error, port->fault.cycle,
                       port->sentence);
        slot->stop = CHIP_FAULT;
    }
}

/* Runs every ready tile. False: one of them faulted. */
static bool run_ready(struct sim_chip *chip)
{
    unsigned kept = 0;
    bool sound = true;
    sim_pool_run(chip->pool, chip->ready_count, run_one, chip);
    if (chip->observer)
        run_observed(chip);
    for (unsigned i = 0; i < chip->ready_count; i++) {
        uint16_t number = chip->ready[i];
        if (chip->tiles[number].stop == CHIP_READY)
            chip->ready[kept++] = number;
        sound = sound && chip->tiles[number].stop != CHIP_FAULT;
    }
    chip->ready_count = kept;
    return sound;
}

/* Moves the round's words and serves host packets. */
static bool settle_round(struct sim_chip *chip)
{
    bool sound = settle_run(&chip->settle) && host_serve(&chip->host, &chip->settle);
    if (!sound)
        return false;
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct settle_port *port = &chip->settle.ports[i];
        if (port->event_count == 0)
            continue;
        sim_tile_settled(chip->tiles[i].tile);
        port->event_count = 0;
        if (chip->tiles[i].stop == CHIP_SETTLE)
            chip_make_ready(chip, i);
    }
    return true;
}

static enum sim_chip_state stopped(struct sim_chip *chip)
{
    collect_faults(chip);
    return SIM_CHIP_FAULTED;
}

void sim_chip_continue(struct sim_chip *chip, unsigned tile)
{
    struct chip_tile *slot = &chip->tiles[tile];
    if (slot->stop != CHIP_FAULT || sim_tile_fault(slot->tile))
        return;
    chip_make_ready(chip, tile);
    chip->faulted = false;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        if (chip->tiles[i].stop == CHIP_FAULT)
            keep_fault(chip, sim_tile_fault(chip->tiles[i].tile));
}

static bool mark_cleared(struct sim_chip *chip)
{
    bool cleared = chip->mark_cleared && chip->stop_on_marks;
    chip->mark_cleared = false;
    return cleared;
}

static enum sim_chip_state run_to_limit(struct sim_chip *chip)
{
    if (chip->faulted)
        return SIM_CHIP_FAULTED;
    for (;;) {
        if (!run_ready(chip))
            return stopped(chip);
        if (cancelled(chip))
            return SIM_CHIP_CANCELLED;
        if (chip->ready_count != 0)
            return SIM_CHIP_LIMIT;
        if (!settle_round(chip))
            return stopped(chip);
        if (chip->ready_count != 0)
            continue;
        switch (chip_sync_resolve(chip)) {
        case CHIP_SYNC_GO:
            if (mark_cleared(chip))
                return SIM_CHIP_LIMIT;
            break;
        case CHIP_SYNC_HOST:
            return SIM_CHIP_WAITS_FOR_HOST;
        case CHIP_SYNC_FAULT:
            return stopped(chip);
        case CHIP_SYNC_DEADLOCK:
            chip->deadlocked = true;
            return SIM_CHIP_DEADLOCK;
        }
    }
}

/* An observer's stop is a limit that nobody goes past. */
static uint64_t stop_cycle(const struct sim_chip *chip)
{
    return chip->observer && chip->observer->stop_at != 0 ? chip->observer->stop_at : UINT64_MAX;
}

enum sim_chip_state sim_chip_run(struct sim_chip *chip, uint64_t cycle_limit,
                                 const atomic_bool *cancel)
{
    uint64_t stop = stop_cycle(chip);
    if (chip->rows_changed)
        chip_install_rows(chip);
    chip->limit = cycle_limit < stop ? cycle_limit : stop;
    chip->cancel = cancel;
    enum sim_chip_state state = run_to_limit(chip);
    if (state != SIM_CHIP_LIMIT || chip->limit != stop || sim_chip_cycle(chip) < stop)
        return state;
    if (chip->observer->stopped)
        chip->observer->stopped(chip->observer->context, chip);
    return SIM_CHIP_CANCELLED;
}
