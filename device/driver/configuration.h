/* Private to device/driver: the register writes that bring a device from reset to work, in the
 * format IPUCFG1 (facts/host_protocol.md section 2): magic, count, then offset and value of each
 * write, little-endian, in order. A card has a recorded file; the simulator has ours.
 */
#ifndef IPU_DRIVER_CONFIGURATION_H
#define IPU_DRIVER_CONFIGURATION_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { CONFIGURATION_MAX_WRITES = 1 << 17 /* one for each register of the window */ };

struct configuration_write {
    uint32_t offset, value;
};
struct configuration {
    struct configuration_write *writes;
    size_t count;
};

/* Reads `data`, which messages call `name`. IPU_ERR_INVALID when it is no such file, IPU_ERR_LIMIT
 * when it has too many writes. The result is freed with configuration_free(). */
IPU_MUST_CHECK int configuration_read(const void *data, size_t size, const char *name,
                                      struct configuration *out, struct ipu_error *error);
IPU_MUST_CHECK int configuration_read_file(const char *path, struct configuration *out,
                                           struct ipu_error *error);
void configuration_free(struct configuration *configuration);

/* Appends the file that the simulated device comes with. Check `out->failed`. */
void configuration_append_sim(struct buffer *out);

#endif
