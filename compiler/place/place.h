/* Placement: addresses for all buffers of a program.
 *
 * Each tile is placed by itself: buffers whose lifetimes meet may not overlap; buffers that a
 * kernel needs in region 1 lie there; operands that may not share a conflict granule do not
 * (over-read included); sources and destinations of one exchange lie in different granules where
 * there is room, because overlapping windows in one granule make the schedule longer. Tensor space
 * is [region0[tile], IPU21_REGION1_BASE) and region 1, so nothing shares a granule with row code as
 * long as region0[tile] is a granule boundary past the code. Deterministic.
 */
#ifndef IPU_PLACE_PLACE_H
#define IPU_PLACE_PLACE_H

#include "base/arena.h"
#include "base/error.h"
#include "compiler/lower/lower.h"

struct place_report {
    uint32_t standard_bytes;    /* of region 0, fullest tile: highest end - start */
    uint32_t interleaved_bytes; /* of region 1 */
    uint32_t soft_conflicts;    /* exchange pairs that had to share a granule */
};

/* Sets program->buffers[].address. IPU_ERR_NO_FIT says which tile needs how much where and what
 * there is. */
IPU_MUST_CHECK int place_program(struct program *program, const uint32_t region0[PROGRAM_TILES],
                                 struct arena *arena, struct place_report *report,
                                 struct ipu_error *error);

/* Proves a placement legal apart from the placer: ranges, overlaps in space and time, classes,
 * granules. For tests and debug builds. */
IPU_MUST_CHECK int place_verify(const struct program *program,
                                const uint32_t region0[PROGRAM_TILES], struct arena *arena,
                                struct ipu_error *error);

#endif
