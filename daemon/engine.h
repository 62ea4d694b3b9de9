/* What ipud needs from the compiler and from a device: one table of functions.
 *
 * engine_production calls compiler/compile.h and device/driver/driver.h. Tests of the daemon bring
 * a small table of their own, so that every way of failing can be provoked; it exists only in test
 * programs. All functions are called in child processes, one at a time, never in the daemon itself;
 * they may take long and poll `cancel`.
 */
#ifndef IPU_DAEMON_ENGINE_H
#define IPU_DAEMON_ENGINE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "compiler/compile.h"
#include "device/driver/driver.h"
#include "device/driver/selftest.h"

#include <stddef.h>
#include <stdint.h>

enum { ENGINE_RANK = 8 };

/* What the loaded package is, for result lines. */
struct engine_package {
    uint64_t estimated_cycles;
    uint64_t input_bytes,
        weight_bytes;       /* sent by the calls `run` and `initialize`, replicas included */
    uint32_t tiles;         /* of the chip image */
    uint32_t active_tiles;  /* distinct tiles that hold the first output */
    uint32_t sampled_tiles; /* tiles that the profile has a record of */
};

struct engine_output {
    const char *name;
    uint32_t type; /* ipu.workload.ElementType */
    unsigned rank;
    uint64_t shape[ENGINE_RANK];
    const uint8_t *data;
    size_t size;
};

struct engine {
    const char *name;

    /* The compiler: see compile.h. */
    int (*keys)(const void *workload, size_t size, const char *flag_headers,
                struct compile_keys *keys, struct ipu_error *error);
    int (*compile)(const void *workload, size_t size, const struct compile_options *options,
                   struct compile_result *result, struct ipu_error *error);
    void (*compile_free)(struct compile_result *result);
    int (*check)(const void *workload, size_t size, const struct compile_output *outputs,
                 size_t count, unsigned threads, struct log *log, struct compile_check *check,
                 struct ipu_error *error);
    int (*result_line)(const void *workload, size_t size, const struct compile_measured *measured,
                       const struct compile_check *check, struct buffer *line,
                       struct ipu_error *error);

    /* The device: see driver.h. load() takes the bytes of a package and makes it resident. */
    int (*device_open)(const struct device_options *options, void **session,
                       struct ipu_error *error);
    void (*device_close)(void *session);
    int (*device_load)(void *session, const void *package, size_t size, struct engine_package *info,
                       struct ipu_error *error);
    int (*device_run)(void *session, struct device_summary *summary, struct ipu_error *error);
    /* Output `index` of the last run; false when there is none. */
    bool (*device_output)(void *session, size_t index, struct engine_output *output);
    /* The .ipuprofile of the last run. */
    int (*device_profile)(void *session, struct buffer *out, struct ipu_error *error);
    const char *(*device_fault)(void *session);
    /* Opens, tests and closes the device: see selftest.h. */
    int (*device_selftest)(const struct device_options *options, selftest_callback callback,
                           void *context, struct ipu_error *error);
};

extern const struct engine engine_production;

#endif
