/* Private to device/driver: one opened device behind the kernel boundary, and what all stages of
 * the driver need of it: ioctls with sentences, registers, waiting for a register, the two marks,
 * random delays for tests. Used by one thread.
 *
 * A device that was unplugged reads all ones everywhere. Waits notice that; whoever looks at a
 * single register calls card_check() after it.
 */
#ifndef IPU_DRIVER_CARD_H
#define IPU_DRIVER_CARD_H

#include "device/driver/driver.h"
#include "device/driver/kernel.h"

#include <stdbool.h>

enum {
    CARD_MARK_MS = 10000, /* limits of facts/driver.md section 5 */
    CARD_AUTOLOADER_MS = 2000,
    CARD_DEBUG_MS = 100
};

enum card_mark { CARD_GS1 = IPU21_HOST_GS1, CARD_GS2 = IPU21_HOST_GS2 };

struct card {
    struct kernel *kernel;
    struct device_options options;
    uint64_t random;          /* state of the delays */
    uint16_t expected[2];     /* last value written to GS1, GS2: for reports */
    uint64_t call_end_us;     /* device time at which the call in progress has run too long */
    uint64_t call_cycles;     /* what it may take */
    bool attached, simulated; /* has pinned buffers; has a simulated device's additions */
};

/* Opens the boundary for options->device ("sim", NULL, or a path) and attaches this process. */
IPU_MUST_CHECK int card_open(struct card *card, const struct device_options *options,
                             struct ipu_error *error);
/* Detaches buffers and closes. Harmless on a zeroed card. */
void card_close(struct card *card);
const char *card_name(const struct card *card);

/* Issues an ioctl; what it says about a failure names it. */
IPU_MUST_CHECK int card_ioctl(struct card *card, uint32_t request, uintptr_t argument,
                              struct ipu_error *error);
IPU_MUST_CHECK int card_attach(struct card *card, uint32_t index, void *memory, uint32_t bytes,
                               struct ipu_error *error);
IPU_MUST_CHECK int card_detach_all(struct card *card, struct ipu_error *error);

uint32_t card_read(struct card *card, uint32_t offset);
void card_write(struct card *card, uint32_t offset, uint32_t value);
/* IPU_ERR_DEVICE_FAULT when the device has gone. */
IPU_MUST_CHECK int card_check(struct card *card, struct ipu_error *error);

/* Polls register `offset` until (value & mask) == wanted. `wall_ms`: also a limit of wall-clock
 * time, or 0. *seen is the last value read. 0, IPU_ERR_TIMEOUT (the sentence is the caller's),
 * IPU_ERR_CANCELLED, or what card_check() says. */
struct card_wait {
    uint32_t offset, mask, wanted;
    uint64_t end_us; /* of the device's own time */
    uint32_t wall_ms;
};
IPU_MUST_CHECK int card_wait(struct card *card, const struct card_wait *wait, uint32_t *seen,
                             struct ipu_error *error);
/* Device time `milliseconds` from now. */
uint64_t card_deadline_us(struct card *card, uint32_t milliseconds);

/* A call begins: its waits together may take options->cycle_limit, or a simulated device's default.
 */
void card_begin_call(struct card *card);
/* One rendezvous: memory is made visible, the mark is written and read back, and waited for until
 * it reads 0. IPU_ERR_TIMEOUT, IPU_ERR_DEVICE_FAULT (the call has run too long; the device has
 * gone), IPU_ERR_CANCELLED. */
IPU_MUST_CHECK int card_rendezvous(struct card *card, enum card_mark which, uint16_t value,
                                   struct ipu_error *error);
/* The halves of it. */
void card_mark_write(struct card *card, enum card_mark which, uint16_t value);
IPU_MUST_CHECK int card_mark_wait(struct card *card, enum card_mark which, struct ipu_error *error);

#endif
