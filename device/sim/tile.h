/* One simulated tile: SRAM, supervisor, six workers, and the log of what it put on the exchange
 * fabric.
 *
 * A tile runs alone (one thread at a time, different tiles on different threads) until it needs the
 * rest of the chip: a synchronisation, or the settling of an exchange. It never looks at another
 * tile. The chip (device/sim/chip.h) settles exchanges from the event logs and releases
 * synchronisations. All cycle numbers are chip cycles: COUNT_L of every tile reads this clock.
 */
#ifndef IPU_SIM_TILE_H
#define IPU_SIM_TILE_H

#include "base/error.h"
#include "device/ipu21/isa.h"
#include "device/ipu21/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_tile;
struct sim_code; /* decoded worker code, shared between tiles with equal bytes */

/* How the host executes code; all paths compute the same bits, cycles and faults. */
enum sim_path {
    SIM_PATH_BEST,     /* what the host is found to have */
    SIM_PATH_PORTABLE, /* without the host's vector units */
    SIM_PATH_PLAIN     /* and one instruction at a time */
};

/* Why sim_tile_run() returned. */
enum sim_stop {
    SIM_STOP_SYNC, /* waits in `sync zone`, zone != LOCAL (local ones are resolved inside the tile)
                    */
    SIM_STOP_SETTLE, /* has exchange events since the last release and now touches memory or starts
                        workers */
    SIM_STOP_FAULT,  /* excepted; see sim_tile_fault() */
    SIM_STOP_LIMIT,  /* ran past the cycle limit it was given */
    SIM_STOP_HELD    /* the debug interface holds a context: sim_tile_break() */
};

/* Tile exception types, facts/isa_semantics.md section 1. */
enum sim_etype {
    SIM_ETYPE_NONE,
    SIM_ETYPE_RBRK,
    SIM_ETYPE_PBRK0,
    SIM_ETYPE_PBRK1,
    SIM_ETYPE_BOS,
    SIM_ETYPE_FP,
    SIM_ETYPE_CONFLICT,
    SIM_ETYPE_EXCONF,
    SIM_ETYPE_INVALID_ADDR,
    SIM_ETYPE_INVALID_OP,
    SIM_ETYPE_INVALID_PC,
    SIM_ETYPE_DBRK,
    SIM_ETYPE_INVALID_INSTR,
    SIM_ETYPE_EXERR,
    SIM_ETYPE_MEMERR,
    SIM_ETYPE_IBRK
};

struct sim_fault {
    enum sim_etype etype;
    unsigned tile;    /* logical */
    unsigned context; /* 0 supervisor, 1..6 workers 0..5 */
    uint32_t pc;
    uint64_t cycle;
    unsigned receive_error; /* facts/exchange.md section 7: 0 none .. 7 mode */
    char text[256];         /* what happened, with the disassembly */
};

/* One entry of the exchange log, in program order. `slot` = cycles since the release of the last
 * global sync (the release itself is slot 0 for every tile of the chip). */
enum sim_event_kind { SIM_EVENT_SEND, SIM_EVENT_XPIC, SIM_EVENT_PIC, SIM_EVENT_BASE_IN };
struct sim_event {
    uint8_t kind;
    uint8_t selector; /* XPIC, PIC: selector */
    uint8_t control;  /* SEND: sctl */
    uint8_t pad;
    uint32_t slot; /* SEND: slot of the first item. XPIC, PIC, BASE_IN: ISSUE slot; takes effect one
                      event later */
    uint32_t items; /* SEND: items, one per slot */
    uint32_t value; /* SEND: effective byte address of the first item. XPIC/PIC: control value.
                       BASE_IN: byte base */
    uint32_t pc;    /* of the instruction: for faults and for finding the row */
};

/* Exchange registers that outlive a row; the chip reads and updates them when it settles. */
struct sim_exchange_state {
    uint32_t incoming_mux, incoming_mux_pair;
    uint32_t
        incoming_pointer; /* byte, without base: what PIC last set, advanced by received items */
    uint32_t incoming_format;
    uint32_t incoming_base, outgoing_base;
    uint32_t incoming_dcount;
    uint32_t outgoing_pointer; /* byte cursor of the open outgoing stream */
    uint32_t ans_count;        /* global syncs that `sans` has agreed to sit out */
};

/* --- life --- `sram` is IPU21_SRAM_BYTES of zeroed memory owned by the chip (tile address
 * IPU21_SRAM_BASE is sram[0]). */
struct sim_tile *sim_tile_create(unsigned logical, uint8_t *sram);
void sim_tile_destroy(struct sim_tile *tile);
/* Decoded code for tiles to share (thread safe). Give the same one to every tile of a chip, before
 * the first run; it must outlive them. A tile without one decodes for itself, which costs about 16
 * bytes of host memory for each byte of worker code. */
struct sim_code *sim_code_create(enum sim_path path);
void sim_code_destroy(struct sim_code *code);
void sim_tile_share(struct sim_tile *tile, struct sim_code *code);
/* Forgets decoded code and all state but the SRAM (after a load) and starts the supervisor at
 * `entry_pc` in `cycle`. */
void sim_tile_reset(struct sim_tile *tile, uint32_t entry_pc, uint64_t cycle);

/* Runs until something stops the tile. Cycles never decrease. */
enum sim_stop sim_tile_run(struct sim_tile *tile, uint64_t cycle_limit);
/* Valid after SIM_STOP_SYNC: the zone, and the cycle at which the tile arrived. */
unsigned sim_tile_zone(const struct sim_tile *tile);
uint64_t sim_tile_cycle(const struct sim_tile *tile);
/* Lets a tile continue after SIM_STOP_SYNC at `cycle`. For a global zone (3..15) this starts a new
 * epoch: slot 0 = `cycle`. */
void sim_tile_release(struct sim_tile *tile, uint64_t cycle);
/* Lets a tile continue after SIM_STOP_SETTLE (also call before releasing a sync when the log is not
 * empty): clears the log. */
void sim_tile_settled(struct sim_tile *tile);

const struct sim_event *sim_tile_events(const struct sim_tile *tile, size_t *count);
struct sim_exchange_state *sim_tile_exchange(struct sim_tile *tile);
/* Cycle of slot 0 of the current epoch. */
uint64_t sim_tile_epoch(const struct sim_tile *tile);

/* The chip stored bytes into SRAM (exchange, loader): decoded code that overlaps must be dropped.
 */
void sim_tile_touched(struct sim_tile *tile, uint32_t address, uint32_t bytes);
/* Raises a fault found by the chip (receive errors, strict checks). */
void sim_tile_raise(struct sim_tile *tile, enum sim_etype etype, unsigned receive_error,
                    uint64_t cycle, const char *text);
const struct sim_fault *sim_tile_fault(const struct sim_tile *tile);

/* --- look --- for the debug interface, traces and tests. context 0 = supervisor, 1..6 workers. */
uint32_t sim_tile_pc(const struct sim_tile *tile, unsigned context);
uint32_t sim_tile_m(const struct sim_tile *tile, unsigned context, unsigned reg);
uint32_t sim_tile_a(const struct sim_tile *tile, unsigned worker, unsigned reg); /* worker 0..5 */
float sim_tile_accumulator(const struct sim_tile *tile, unsigned worker, unsigned index);
bool sim_tile_worker_active(const struct sim_tile *tile, unsigned worker);
uint64_t sim_tile_bundles(const struct sim_tile *tile); /* issued so far */

/* Issue cycle of the latest worker exit so far (0: none), or UINT64_MAX while a worker is active:
 * words that arrive earlier meet running workers (receive error 4 of facts/exchange.md section 7).
 */
uint64_t sim_tile_last_exit(const struct sim_tile *tile);

/* --- debug --- what the host's debug interface can do to a tile that is not running just now
 * (debug.c). Contexts as above. */
enum sim_context_status {
    SIM_CONTEXT_IDLE,
    SIM_CONTEXT_ACTIVE,
    SIM_CONTEXT_DEBUG,
    SIM_CONTEXT_FAULT
};
enum sim_context_status sim_tile_status(const struct sim_tile *tile, unsigned context);
/* Run-break: contexts of the mask stop before their next instruction, now or when they become
 * active. While one is held the whole tile stands. */
void sim_tile_break(struct sim_tile *tile, unsigned mask);
/* The supervisor stops before each `sync` (BOS). */
void sim_tile_break_on_sync(struct sim_tile *tile, bool on);
/* Ends the exception of a context, which goes on at its PC. Exceptions of the exchange stay. */
void sim_tile_clear(struct sim_tile *tile, unsigned context);
/* Executes one word in a context that an exception has stopped or in an idle worker. Only plain
 * instructions, loads, stores, branches, get, put and their like; a branch, or a put to PC, sets
 * where the context goes on. */
enum sim_injection { SIM_INJECTED, SIM_INJECT_REFUSED, SIM_INJECT_EXCEPTION };
enum sim_injection sim_tile_inject(struct sim_tile *tile, unsigned context, uint32_t word);
/* DBG_DATA, CSR 0x70, and EXCHANGE_CTL. */
uint32_t sim_tile_debug_data(const struct sim_tile *tile);
void sim_tile_set_debug_data(struct sim_tile *tile, uint32_t value);
uint32_t sim_tile_exchange_control(const struct sim_tile *tile);

/* For instruction tests: registers of an idle worker and a direct start without a supervisor. A
 * tile that was never reset has no running supervisor: sim_tile_run() then runs the started workers
 * and returns SIM_STOP_SYNC, zone 2, when the last has exited. */
void sim_tile_set_m(struct sim_tile *tile, unsigned context, unsigned reg, uint32_t value);
void sim_tile_set_a(struct sim_tile *tile, unsigned worker, unsigned reg, uint32_t value);
void sim_tile_start_worker(struct sim_tile *tile, unsigned worker, uint32_t pc,
                           uint32_t vertex_base);

#endif
