/* Private to device/sim: the parts of a chip that its files share. */
#ifndef IPU_SIM_CHIP_CORE_H
#define IPU_SIM_CHIP_CORE_H

#include "device/sim/chip.h"
#include "device/sim/host.h"
#include "device/sim/observe.h"
#include "device/sim/settle.h"

/* --- chip_pool.c: helper threads for loops over tiles --- */
struct sim_pool;
/* `threads` including the caller's, 0 = one for each processor. NULL: out of memory. Threads that
 * cannot be started are done without. */
struct sim_pool *sim_pool_create(unsigned threads);
void sim_pool_destroy(struct sim_pool *pool);
/* Calls function(context, i) once for each i < count, on any thread; returns when all are done. A
 * NULL pool runs them in order on the caller's thread. */
void sim_pool_run(struct sim_pool *pool, size_t count, void (*function)(void *, size_t),
                  void *context);

/* --- the chip --- */
enum chip_stop {
    CHIP_UNLOADED, /* waits for sim_chip_start() */
    CHIP_READY,    /* may run */
    CHIP_SYNC,     /* waits in `zone` */
    CHIP_SETTLE,   /* waits for the round to be settled */
    CHIP_FAULT,
    CHIP_LIMIT
};

struct chip_tile {
    struct sim_tile *tile;
    struct sim_exchange_state *state;
    uint64_t cycle; /* of its last stop */
    uint8_t stop, zone;
    struct settle_list rows;
    bool rows_sorted;
};

struct sim_chip {
    uint8_t *sram;
    struct sim_code *code;
    struct sim_pool *pool;
    struct chip_tile tiles[IPU21_TILES];
    uint16_t ready[IPU21_TILES]; /* tiles that may run */
    unsigned ready_count;
    struct settle settle;
    struct host host;
    uint16_t marks[3]; /* by HSP group; 0 unused */
    uint16_t taken;    /* mark of GS1 that a sync has taken but that still shows */
    bool application;  /* a sync of GS2 has completed since the start */
    bool stop_on_marks, mark_cleared;
    bool rows_changed;
    uint64_t release; /* cycle of the last global sync */
    uint64_t limit;   /* of the run in progress */
    const atomic_bool *cancel;
    bool faulted;
    struct sim_fault fault;
    bool deadlocked;
    char reason[160];                    /* of a deadlock */
    const struct sim_observer *observer; /* or NULL */
    uint32_t watched[IPU21_TILES * SIM_OBSERVE_WATCHES];
};

/* chip_sync.c: what happens when no tile can run. */
enum chip_sync {
    CHIP_SYNC_GO, /* some tile may run again */
    CHIP_SYNC_HOST,
    CHIP_SYNC_DEADLOCK,
    CHIP_SYNC_FAULT
};
enum chip_sync chip_sync_resolve(struct sim_chip *chip);
/* observe.c: sim_tile_run() for an observed tile. */
enum sim_stop sim_observe_run(struct sim_chip *chip, struct sim_tile *tile, uint64_t limit);
/* chip_life.c: declared rows become those that settling counts. */
void chip_install_rows(struct sim_chip *chip);
/* Makes a stopped tile ready. */
void chip_make_ready(struct sim_chip *chip, unsigned tile);

#endif
