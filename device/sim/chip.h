/* The simulated chip: 1,472 tiles, the exchange fabric, synchronisation, host pages and marks.
 *
 * It executes the bytes that were loaded and knows nothing else. Results and cycles are the same
 * for any number of host threads. One owner thread; the chip starts its own helper threads inside a
 * call.
 */
#ifndef IPU_SIM_CHIP_H
#define IPU_SIM_CHIP_H

#include "base/error.h"
#include "device/ipu21/topology.h"
#include "device/sim/tile.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sim_chip;

struct sim_chip_options {
    unsigned threads; /* 0 = all cores */
    bool strict;      /* received words of each declared row are counted */
    enum sim_path path;
};

struct sim_chip *sim_chip_create(const struct sim_chip_options *options);
void sim_chip_destroy(struct sim_chip *chip);

/* Clears SRAM and state; every tile waits for a load. */
void sim_chip_reset(struct sim_chip *chip);
/* Loader: bytes into SRAM of a stopped logical tile. False when the range is outside the loadable
 * SRAM. */
bool sim_chip_write(struct sim_chip *chip, unsigned tile, uint32_t address, const void *data,
                    uint32_t size);
bool sim_chip_read(const struct sim_chip *chip, unsigned tile, uint32_t address, void *data,
                   uint32_t size);
/* Strict mode: the row at [address, address + bytes) of `tile` must receive `words` words each time
 * it runs. */
void sim_chip_declare_row(struct sim_chip *chip, unsigned tile, uint32_t address, uint32_t bytes,
                          uint32_t words);
/* Starts all tiles at `entry`. */
void sim_chip_start(struct sim_chip *chip, uint32_t entry);

/* Host side. Page `index` is attached memory of `bytes` (a multiple of 4096) that packets read and
 * write; device offsets follow in attach order. Marks are the HSP registers: which = 1 (GS1) or 2
 * (GS2). A mark lets one external sync of its group pass. GS2 then reads 0; GS1 reads 0 when all
 * tiles have reached their next sync: the loader has a single mark for "take the batch" and "the
 * batch is taken" [G]. */
bool sim_chip_attach(struct sim_chip *chip, unsigned index, void *memory, uint64_t bytes);
/* The same at a device offset of the caller's choice; NULL memory leaves a hole there. */
bool sim_chip_map(struct sim_chip *chip, unsigned index, void *memory, uint64_t offset,
                  uint64_t bytes);
void sim_chip_detach_all(struct sim_chip *chip);
/* What host packets may pass: bit p of `disabled` stops those of tiles at position p of their row
 * (physical id & 63), a closed window stops all. A new chip stops none. */
void sim_chip_route(struct sim_chip *chip, uint64_t disabled, bool closed);
/* Puts the same bytes at the base of SRAM of the first `tiles` tiles and zeroes all other SRAM. The
 * chip must be stopped; sim_chip_start() comes next. */
void sim_chip_broadcast(struct sim_chip *chip, unsigned tiles, const void *data, uint32_t size);
void sim_chip_set_mark(struct sim_chip *chip, unsigned which, uint16_t value);
uint16_t sim_chip_mark(const struct sim_chip *chip, unsigned which);

/* From now on sim_chip_run() also returns, with SIM_CHIP_LIMIT, when a mark has turned 0. */
void sim_chip_stop_on_marks(struct sim_chip *chip);

/* Runs until every tile waits for the host, has faulted or ended, or the cycle limit or cancel flag
 * stops it. */
enum sim_chip_state {
    SIM_CHIP_WAITS_FOR_HOST,
    SIM_CHIP_FAULTED,
    SIM_CHIP_DEADLOCK,
    SIM_CHIP_LIMIT,
    SIM_CHIP_CANCELLED
};
enum sim_chip_state sim_chip_run(struct sim_chip *chip, uint64_t cycle_limit,
                                 const atomic_bool *cancel);
/* The debug interface may have ended the exception that stopped a tile: it runs on with the rest of
 * the chip, which stands while any tile is at fault. */
void sim_chip_continue(struct sim_chip *chip, unsigned tile);
/* First fault by (cycle, tile), or NULL. */
const struct sim_fault *sim_chip_fault(const struct sim_chip *chip);
/* One line for each stopped group of tiles: state, PC; for deadlock reports. Caller frees. */
char *sim_chip_explain(const struct sim_chip *chip);
uint64_t sim_chip_cycle(const struct sim_chip *chip);
uint64_t sim_chip_bundles(const struct sim_chip *chip);
struct sim_tile *sim_chip_tile(struct sim_chip *chip, unsigned logical);

#endif
