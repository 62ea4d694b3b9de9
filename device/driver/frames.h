/* Private to device/driver: an application as a secondary loader takes it, in batches of 64 tiles
 * and frames of 1,024 bytes: device/runtime/loader.h, facts/host_protocol.md section 4.
 *
 * Our loader takes frames by their index, so memory that no segment names is not sent: it is what
 * the autoloader left, zeros. A vendor's loader is sent every frame from the first to the last that
 * a segment names, and no fewer than the number below which it acknowledges nothing.
 */
#ifndef IPU_DRIVER_FRAMES_H
#define IPU_DRIVER_FRAMES_H

#include "base/error.h"
#include "device/ipu21/topology.h"
#include "device/package/package.h"
#include "device/runtime/loader.h"

#include <stdbool.h>

enum { FRAMES_BUFFER = LOADER_BUFFER_BYTES };

struct frames {
    const struct package *package;
    bool dense;                      /* for a vendor's loader */
    uint32_t first[IPU21_TILES + 1]; /* segment of each tile in package_segments(); the end */
};
/* IPU_ERR_CORRUPT when a segment lies where the loader cannot put it, a tile has nothing where the
 * loader enters its image, or the application starts where the loader does not go. */
IPU_MUST_CHECK int frames_begin(struct frames *frames, const struct package *package, bool dense,
                                struct ipu_error *error);
/* Writes batch `batch` into `buffer` (FRAMES_BUFFER bytes) and returns how many bytes it takes. */
uint32_t frames_write(const struct frames *frames, unsigned batch, uint8_t *buffer);

#endif
