/* Physical exchange schedules: from transfers to rows of exchange instructions, and back for
 * verification.
 *
 * A phase is a set of transfers that all happen after one internal synchronisation. The scheduler
 * gives every transfer a start slot under the rules of facts/exchange.md sections 3, 4, 7 and 9 and
 * encodes one row per participating tile. Slot 0 is the first instruction of the row on every tile.
 * Rows end with `br $m10`, start 8-byte aligned, and use absolute addresses (both base registers
 * zero). Tile numbers are LOGICAL. Results are deterministic. Any thread; one arena per call.
 */
#ifndef IPU_EXCHANGE_EXCHANGE_H
#define IPU_EXCHANGE_EXCHANGE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

struct exchange_target {
    uint16_t tile;
    uint32_t address; /* byte, multiple of 4 */
};
/* `words` 32-bit words from src to every target (multicast is free at the sender). Longer than
 * IPU21_MAX_TRANSFER is split inside. A target may be the source tile only when another tile is a
 * target too. Transfers of one phase may not overlap in destination; a transfer may not read what
 * another one of the phase writes. */
struct exchange_transfer {
    uint16_t source;
    uint32_t address; /* byte, multiple of 4 */
    uint32_t words;
    uint32_t target_count;
    const struct exchange_target *targets;
};
struct exchange_phase {
    uint32_t count;
    const struct exchange_transfer *transfers;
    /* Conflict granules (ipu21_element() bit masks) that row code of each tile may touch; indexed
     * by tile, 1472 entries. No transfer may read or write them while the row runs: such a phase is
     * refused with IPU_ERR_INTERNAL. */
    const uint32_t *code_elements;
    /* Multicasts stay whole where splitting could lengthen a tile's row by more; 0 = 16 KiB. */
    uint32_t split_bytes;
};

struct exchange_row {
    uint32_t *words; /* NULL: the tile takes no part (sans 0; sync 1) */
    uint32_t count;
    uint32_t receive_words; /* what the package declares */
    uint32_t horizon;       /* events until the row returns */
};
struct exchange_schedule {
    struct exchange_row rows[1472]; /* by logical tile */
    uint32_t horizon;               /* max over tiles */
    /* No schedule of these transfers is shorter: over tiles, the words that one port must pass and
     * the shortest way before or after them. */
    uint32_t lower_bound;
    uint32_t maximum_row_bytes;
};

/* Schedules a phase and encodes its rows into `arena`. `effort` 0: greedy rules only, about 1 us a
 * transfer; each unit more searches for about 10 ms on the tiles that decide the horizon, and
 * splits multicasts to at most 32 tiles where that ends 2 % sooner. Equal phases and efforts give
 * equal rows, or IPU_ERR_NO_MEMORY; IPU_ERR_INTERNAL for a phase that breaks the rules above. */
IPU_MUST_CHECK int exchange_schedule(const struct exchange_phase *phase, unsigned effort,
                                     struct arena *arena, struct exchange_schedule *out,
                                     struct ipu_error *error);

/* Decodes the rows again, replays them on the route arithmetic and proves that exactly the
 * transfers happen: every destination word is written once from the right source word, nothing else
 * is written, no control, port or element rule is broken. Written apart from the scheduler: it
 * reads only the words. */
IPU_MUST_CHECK int exchange_verify(const struct exchange_phase *phase,
                                   const struct exchange_schedule *schedule, struct arena *arena,
                                   struct ipu_error *error);

/* A safe upper bound on the row bytes of each tile before anything is scheduled (1472 entries). */
void exchange_row_bounds(const struct exchange_phase *phase, uint32_t *bytes);

/* Estimate of the horizon at effort 1, for planning: from port and granule loads and a trial run
 * without holes, at most 32 passes over the phase. Usually within 10 %, nearly always within 20 %.
 */
uint32_t exchange_estimate(const struct exchange_phase *phase);

#endif
