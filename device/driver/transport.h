/* Private to device/driver: the narrow boundary to a device. One implementation for each kind of
 * device: transport_sim.c now; /dev/ipu0 will be register writes, pinned buffers and polling
 * (facts/driver.md).
 *
 * Calls come from the session's thread only. After a failed wait the device is in an unknown state:
 * reset() brings it back.
 */
#ifndef IPU_DRIVER_TRANSPORT_H
#define IPU_DRIVER_TRANSPORT_H

#include "base/buffer.h"
#include "base/error.h"
#include "device/driver/driver.h"

enum transport_mark { TRANSPORT_GS1 = 1, TRANSPORT_GS2 = 2 };

struct transport;

struct transport_ops {
    void (*close)(struct transport *transport);
    /* Stops the device and clears its memory, marks and pages. */
    int (*reset)(struct transport *transport, struct ipu_error *error);
    /* Fills the memory of every tile with the package's segments (and zeros). */
    int (*load)(struct transport *transport, const struct package *package,
                struct ipu_error *error);
    /* Starts all tiles. */
    int (*start)(struct transport *transport, uint32_t entry, struct ipu_error *error);
    /* Attaches the next page: page-aligned memory that stays valid until detach_all(). */
    int (*attach)(struct transport *transport, unsigned index, void *memory, uint64_t bytes,
                  struct ipu_error *error);
    void (*detach_all)(struct transport *transport);
    /* A call begins: its waits together may take `cycles` of a simulated device. */
    void (*begin)(struct transport *transport, uint64_t cycles);
    int (*mark_write)(struct transport *transport, enum transport_mark which, uint16_t value,
                      struct ipu_error *error);
    /* Waits until the mark reads 0. A timeout of 0 is 10 s of the device's own time. DEVICE_FAULT,
     * TIMEOUT or CANCELLED. */
    int (*mark_wait)(struct transport *transport, enum transport_mark which, uint32_t timeout_ms,
                     const atomic_bool *cancel, struct ipu_error *error);
    /* Appends what is known about a fault or about where the tiles are. `package` names addresses.
     */
    void (*explain)(struct transport *transport, const struct package *package,
                    struct buffer *text);
    /* Debug read of tile memory while the tile is stopped. */
    int (*read)(struct transport *transport, unsigned tile, uint32_t address, void *data,
                uint32_t size, struct ipu_error *error);
    uint64_t (*bundles)(struct transport *transport);
};

struct transport {
    const struct transport_ops *ops;
    const char *name; /* "sim" */
};

IPU_MUST_CHECK int transport_sim_open(const struct device_options *options, struct transport **out,
                                      struct ipu_error *error);

/* "symbol+0x10" for an address, or "". */
void transport_symbol(const struct package *package, uint32_t address, char *text, size_t size);

#endif
