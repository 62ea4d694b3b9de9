/* The boundary of the kernel driver: what a process can do with /dev/ipu0, and no more. The
 * numbers are in device/ipu21/host.h.
 *
 * Two implementations: kernel_linux.c issues the ioctls and maps the register window of a device
 * node; kernel_sim.c hands everything to the board of a simulated device in this process. All code
 * above (boot, load, host exchange, tile debug) is the same for both and uses nothing else.
 *
 * A boundary is used by one thread. Register accesses are 32 bits wide, aligned, in program order.
 */
#ifndef IPU_DRIVER_KERNEL_H
#define IPU_DRIVER_KERNEL_H

#include "base/error.h"
#include "device/driver/driver.h"
#include "device/ipu21/host.h"

#include <stdint.h>

struct kernel;
struct kernel_ops {
    void (*close)(struct kernel *kernel);
    /* 0 or a negative errno value. */
    int (*ioctl)(struct kernel *kernel, uint32_t request, uintptr_t argument);
    uint32_t (*read)(struct kernel *kernel, uint32_t offset);
    void (*write)(struct kernel *kernel, uint32_t offset, uint32_t value);
    /* The device's own time, for timeouts: a monotonic clock for a card, cycles over the clock rate
     * for a simulated one. */
    uint64_t (*now_us)(struct kernel *kernel);
    /* Between two polls. A card: sleep. A simulated device: run for at most that much device time,
     * less when something that the host can see has changed. Returns early, with 0, when `cancel`
     * is set. Negative errno when the device is gone. */
    int (*pause)(struct kernel *kernel, uint32_t microseconds, const atomic_bool *cancel);
};
struct kernel {
    const struct kernel_ops *ops;
    const char *name; /* "sim", "/dev/ipu0" */
};

/* Opens the node and maps its window; USER_ATTACH and SET_IPU_ID are the caller's. Errors say which
 * call failed on which path and what to do (BUSY, DENIED, UNAVAILABLE...). */
IPU_MUST_CHECK int kernel_linux_open(const char *path, struct kernel **out,
                                     struct ipu_error *error);
/* A simulated device. */
IPU_MUST_CHECK int kernel_sim_open(const struct device_options *options, struct kernel **out,
                                   struct ipu_error *error);
/* The simulated device's own additions, which no card has; each does nothing on another kernel. */
struct buffer;
struct package;
/* From now on rows of the package are counted (strict devices). After the load: the loader runs
 * where they will lie. */
void kernel_sim_declare(struct kernel *kernel, const struct package *package);
/* Starts or ends the observation that the device was opened with. */
void kernel_sim_observe(struct kernel *kernel, bool on);
/* Appends the simulator's own account of a fault or deadlock, and where the tiles are. */
void kernel_sim_explain(struct kernel *kernel, struct buffer *text);
/* The same in a sentence: IPU_ERR_DEVICE_FAULT for a fault or deadlock, 0 for neither. */
int kernel_sim_verdict(struct kernel *kernel, struct ipu_error *error);
uint64_t kernel_sim_bundles(struct kernel *kernel);

#endif
