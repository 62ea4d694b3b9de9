/* The device driver: open, load a package, run its calls, read back. The same code for every
 * transport.
 *
 * A transport is the narrow boundary of the kernel driver: register window, pinned host pages,
 * waiting. `sim` is the transport to the simulated chip in this process. One session per device; a
 * session is used by one thread. Functions may block for as long as their timeouts say, so an event
 * loop must not call them.
 */
#ifndef IPU_DRIVER_DRIVER_H
#define IPU_DRIVER_DRIVER_H

#include "base/error.h"
#include "base/log.h"
#include "device/package/package.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct device_session;
struct sim_observer; /* device/sim/observe.h */

struct device_options {
    const char *device;        /* "sim" or a device node such as "/dev/ipu0" */
    const char *configuration; /* IPUCFG1 file that the boot replays; NULL: sim uses this project's
                                  own, a card needs one */
    const char *loader;        /* ELF file with the secondary loader; NULL: device/runtime's own */
    /* Number of the flag set (device/kernels/flag_set.h) whose packages the device takes: 0 = sim:
     * ours; a card: none, until the vendor's header is configured. */
    uint32_t flag_set;
    uint32_t jitter_us; /* at most this random delay before each acknowledgement, for tests */
    uint64_t jitter_seed;
    unsigned threads;     /* sim: host threads, 0 = all cores */
    bool strict;          /* sim: count received words against the package's declarations */
    uint32_t timeout_ms;  /* per host phase, wall clock; 0 = 10 s of the device's own time */
    uint64_t cycle_limit; /* sim: fault when a call runs longer; 0 = 2^36 */
    const struct sim_observer *observer; /* sim: watches the calls, not the load; or NULL */
    struct log *log;
    const atomic_bool
        *cancel; /* may be NULL; polled: a call in progress ends with IPU_ERR_CANCELLED */
    void (*progress)(void *context, const char *stage, double fraction);
    void *progress_context;
};

struct device_summary {
    uint64_t cycles; /* max over execution tiles of end - start, from the tiles' own counters */
    uint64_t minimum_cycles;
    uint64_t samples; /* profile samples over all tiles */
    uint64_t bundles; /* sim: bundles executed, for benchmarks */
    double load_ms, initialize_ms, run_ms;
};

/* Opens the device and logs the events of facts/seed_log_fields.md section 2. */
IPU_MUST_CHECK int device_open(const struct device_options *options, struct device_session **out,
                               struct ipu_error *error);
void device_close(struct device_session *session);
/* Whether the device takes the package's flag set; device_load() asks first of all. 0, or
 * IPU_ERR_UNSUPPORTED with what to configure. */
IPU_MUST_CHECK int device_check_flags(const struct device_options *options,
                                      const struct package *package, struct ipu_error *error);
/* Loads every tile, waits for the first synchronisation, starts the host exchange session, calls
 * `initialize`. Skips the load when this very package (by digest) is resident. `package` must
 * outlive the session or the next load. */
IPU_MUST_CHECK int device_load(struct device_session *session, const struct package *package,
                               struct ipu_error *error);
/* Replaces the contents of an input for the coming runs; size must match. NULL data = the package's
 * own. */
IPU_MUST_CHECK int device_set_input(struct device_session *session, const char *name,
                                    const void *data, size_t size, struct ipu_error *error);
/* Calls `run` once. */
IPU_MUST_CHECK int device_run(struct device_session *session, struct device_summary *summary,
                              struct ipu_error *error);
/* Output bytes of the last run in tensor order (row-major elements); NULL when there is no such
 * output. */
const uint8_t *device_output(const struct device_session *session, const char *name, size_t *size);
/* Sample words of the last run of one tile: count + 1 words for the steps of
 * package_sample_lists(). NULL when it has none. */
const uint32_t *device_samples(const struct device_session *session, unsigned tile, size_t *words);
/* Multi-line explanation of the last fault (tile, context, PC, disassembly, cycle), or "". */
const char *device_fault_report(const struct device_session *session);

#endif
