/* A compiler and a device for tests of the daemon: small, deterministic, and able to fail in every
 * way on demand. The words in a workload's name say what happens: "badgraph", "nofit", "crash",
 * "hang", "stubborn" (ignores cancellation), "slow", "kernel", "runfault", "runcrash", "runhang",
 * "runstubborn", "wrong", "checkcrash", "chatty" (20,000 log
 * records), "writer" (tries to make a file, fails when it can),
 * "spin" (uses CPU time without end), "hungry" (takes 1 GiB), "big" (8 MiB package and
 * output), "drift" (one other bit from the second run on), "once" (dies only the first time, marked
 * by the file $FAKE_MARK). A package is the workload's name and a checksum of its bytes; a run
 * gives that checksum; a check compares it with the workload. Every real call is noted in
 * $FAKE_LOG.
 */
#ifndef IPU_TESTS_FAKE_ENGINE_H
#define IPU_TESTS_FAKE_ENGINE_H

#include "base/alloc.h"
#include "base/hash.h"
#include "daemon/engine.h"
#include "proto/scan.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAKE_BIG = 8 << 20 };

static inline void fake_note(const char *what, const char *name)
{
    char line[200];
    const char *path = getenv("FAKE_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    int n = snprintf(line, sizeof line, "%s %s\n", what, name);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

static inline void fake_name(const void *workload, size_t size, char name[129])
{
    const uint8_t *span;
    size_t length;
    name[0] = '\0';
    if (scan_find_bytes(workload, size, 2, &span, &length) && span)
        snprintf(name, 129, "%.*s", (int)(length < 128 ? length : 128), (const char *)span);
}

/* Whether the deed named in the workload happens now: with "once", only the first time. */
static inline bool fake_does(const char *name, const char *word)
{
    if (!strstr(name, word))
        return false;
    const char *mark = getenv("FAKE_MARK");
    if (!strstr(name, "once") || !mark)
        return true;
    int fd = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static inline int fake_wait(const atomic_bool *cancel, bool stubborn, int ms,
                            struct ipu_error *error)
{
    for (int i = 0; ms < 0 || i < ms; i += 5) {
        if (!stubborn && atomic_load(cancel))
            return ipu_error_set(error, IPU_ERR_CANCELLED, "cancelled");
        poll(NULL, 0, 5);
    }
    return 0;
}

static inline int fake_keys(const void *workload, size_t size, const char *flag_headers,
                            struct compile_keys *keys, struct ipu_error *error)
{
    (void)flag_headers;
    struct hash hash;
    char name[129];
    fake_name(workload, size, name);
    if (!name[0])
        return ipu_error_set(error, IPU_ERR_INVALID, "this is no workload");
    if (strstr(name, "badgraph"))
        return ipu_error_set(error, IPU_ERR_INVALID, "operation 3 (matmul): shapes do not match");
    if (!hash_bytes(workload, size, &hash))
        return ipu_error_set(error, IPU_ERR_INTERNAL, "hash");
    hash_text(&hash, keys->package_key);
    if (!hash_bytes(name, strlen(name), &hash))
        return ipu_error_set(error, IPU_ERR_INTERNAL, "hash");
    hash_text(&hash, keys->search_key);
    return 0;
}

static inline int fake_compile(const void *workload, size_t size,
                               const struct compile_options *options, struct compile_result *result,
                               struct ipu_error *error)
{
    char name[129];
    struct hash hash;
    struct buffer kernel = {0};
    int rc = 0;
    fake_name(workload, size, name);
    fake_note("compile", name);
    if (strstr(name, "writer")) {
        const char *path = getenv("FAKE_MARK");
        int fd = open(path ? path : "/tmp/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            return ipu_error_set(error, IPU_ERR_INTERNAL, "a worker could write a file");
    }
    struct log_phase phase = log_phase_begin(options->log, "lower_mid");
    options->progress(options->progress_context, "lower_mid", 1000, 1);
    for (int i = 0; strstr(name, "chatty") && i < 20000; i++)
        log_event(options->log, LOG_LEVEL_INFO, "lower_mid", "tried a recipe",
                  "recipe=%d text=\"%0200d\"", i, i);
    volatile unsigned spins = 0;
    while (strstr(name, "spin"))
        spins = spins + 1;
    uint8_t *hoard = strstr(name, "hungry") ? malloc((size_t)1 << 30) : NULL;
    if (strstr(name, "hungry") && !hoard)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    free(hoard);
    if (strstr(name, "nofit"))
        return ipu_error_set(error, IPU_ERR_NO_FIT, "needs 712 KiB, has 611 KiB");
    bool later = strstr(name, "runcrash") || strstr(name, "checkcrash");
    if (!later && fake_does(name, "crash"))
        abort();
    if (strstr(name, "stubborn") && !strstr(name, "runstubborn"))
        rc = fake_wait(options->cancel, true, -1, error);
    else if (strstr(name, "hang") && !strstr(name, "runhang"))
        rc = fake_wait(options->cancel, false, -1, error);
    else if (strstr(name, "slow"))
        rc = fake_wait(options->cancel, false, 400, error);
    if (rc)
        return rc;
    if (strstr(name, "kernel")) {
        char key[65];
        memset(key, 'c', 64);
        key[64] = '\0';
        bool found = options->cache.find(options->cache.context, key, &kernel);
        if (found && (kernel.size != 6 || memcmp(kernel.data, "kernel", 6) != 0))
            return ipu_error_set(error, IPU_ERR_INTERNAL, "a wrong kernel came from the cache");
        fake_note(found ? "kernel-hit" : "kernel-miss", name);
        if (!found)
            options->cache.store(options->cache.context, key, "gemm", "kernel", 6);
        buffer_free(&kernel);
    }
    log_event(options->log, LOG_LEVEL_INFO, "lower_mid", "retained operator-plan finalist",
              "finalist=%d", 0);
    log_phase_end(&phase, 1);
    if (!hash_bytes(workload, size, &hash))
        return ipu_error_set(error, IPU_ERR_INTERNAL, "hash");
    buffer_append(&result->package, hash.bytes, 32);
    buffer_append(&result->package, name, sizeof name);
    if (strstr(name, "big"))
        buffer_append_zero(&result->package, FAKE_BIG);
    buffer_printf(&result->search_state, "attempt %s",
                  options->search_state_size ? "resumed" : "fresh");
    result->resumed = options->search_state_size > 0;
    result->search_attempts = 7;
    result->estimated_cycles = 1000;
    return 0;
}

static inline void fake_compile_free(struct compile_result *result)
{
    buffer_free(&result->package);
    buffer_free(&result->search_state);
}

static inline int fake_check(const void *workload, size_t size,
                             const struct compile_output *outputs, size_t count, unsigned threads,
                             struct log *log, struct compile_check *check, struct ipu_error *error)
{
    struct hash hash;
    char name[129];
    (void)threads;
    fake_name(workload, size, name);
    fake_note("check", name);
    log_event(log, LOG_LEVEL_INFO, "check", "evaluated host reference", "elapsed_ms=%d", 0);
    if (fake_does(name, "checkcrash"))
        abort();
    if (!hash_bytes(workload, size, &hash) || count != 1)
        return ipu_error_set(error, IPU_ERR_INTERNAL, "expected one output");
    check->passed = outputs[0].size >= 32 && memcmp(outputs[0].data, hash.bytes, 32) == 0 &&
                    !strstr(name, "wrong");
    if (!check->passed)
        snprintf(check->reason, sizeof check->reason, "output.0 differs from the reference");
    return 0;
}

static inline int fake_result_line(const void *workload, size_t size,
                                   const struct compile_measured *measured,
                                   const struct compile_check *check, struct buffer *line,
                                   struct ipu_error *error)
{
    char name[129];
    (void)check;
    (void)error;
    fake_name(workload, size, name);
    buffer_printf(line, "workload=%s cycles=%llu", name, (unsigned long long)measured->cycles);
    return 0;
}

struct fake_device {
    unsigned runs;
    struct device_options options;
    uint8_t package[32 + 129];
    struct buffer output;
};

static inline int fake_device_open(const struct device_options *options, void **session,
                                   struct ipu_error *error)
{
    struct fake_device *device = ipu_calloc(1, sizeof *device);
    if (!device)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    device->options = *options;
    log_event(options->log, LOG_LEVEL_INFO, "", "opening IPU device", "path=%s", options->device);
    *session = device;
    return 0;
}

static inline void fake_device_close(void *session)
{
    struct fake_device *device = session;
    buffer_free(&device->output);
    ipu_free(device);
}

static inline int fake_device_load(void *session, const void *package, size_t size,
                                   struct engine_package *info, struct ipu_error *error)
{
    struct fake_device *device = session;
    if (size < sizeof device->package)
        return ipu_error_set(error, IPU_ERR_CORRUPT, "the package is too short");
    memcpy(device->package, package, sizeof device->package);
    fake_note("load", (char *)device->package + 32);
    *info = (struct engine_package){1000, 64, 128, 1472, 64, 1};
    return 0;
}

static inline int fake_device_run(void *session, struct device_summary *summary,
                                  struct ipu_error *error)
{
    struct fake_device *device = session;
    const char *name = (char *)device->package + 32;
    int rc = 0;
    fake_note("run", name);
    if (strstr(name, "runfault"))
        return ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "tile 3: misaligned load");
    if (fake_does(name, "runcrash"))
        abort();
    if (strstr(name, "runstubborn"))
        rc = fake_wait(device->options.cancel, true, -1, error);
    else if (strstr(name, "runhang"))
        rc = fake_wait(device->options.cancel, false, -1, error);
    device->output.size = 0;
    buffer_append(&device->output, device->package, 32);
    if (strstr(name, "drift") && device->runs++)
        device->output.data[31] ^= 1;
    if (strstr(name, "big"))
        buffer_append_zero(&device->output, FAKE_BIG);
    summary->cycles = 16000;
    summary->minimum_cycles = 15000;
    summary->samples = 3;
    return rc;
}

static inline bool fake_device_output(void *session, size_t index, struct engine_output *output)
{
    struct fake_device *device = session;
    if (index)
        return false;
    *output = (struct engine_output){.name = "output.0",
                                     .type = 2,
                                     .rank = 1,
                                     .shape = {device->output.size / 2},
                                     .data = device->output.data,
                                     .size = device->output.size};
    return true;
}

static inline int fake_device_profile(void *session, struct buffer *out, struct ipu_error *error)
{
    (void)session;
    (void)error;
    buffer_printf(out, "profile of a fake run");
    return 0;
}

static inline const char *fake_device_fault(void *session)
{
    (void)session;
    return "tile 3, worker 2, PC 0x4c100: ld32 $m0, $mzero, $m1, 0";
}

/* What $FAKE_SELFTEST says: "fail" at the second step, "crash", "hang" until cancelled, "stubborn"
 * for ever, "slow" (300 ms), or nothing. */
static inline int fake_selftest(const struct device_options *options, selftest_callback callback,
                                void *context, struct ipu_error *error)
{
    static const char *const names[] = {"open", "reset", "kernel"};
    const char *deed = getenv("FAKE_SELFTEST");
    bool failed = false;
    int rc = 0;
    deed = deed ? deed : "";
    fake_note("selftest", options->configuration ? options->configuration : "-");
    for (unsigned i = 0; i < 3; i++) {
        struct selftest_step step = {i, 3, names[i], SELFTEST_PASSED, "as expected", "", 1.5};
        if (i == 1 && strcmp(deed, "crash") == 0)
            abort();
        if (i == 1 && strcmp(deed, "hang") == 0)
            rc = fake_wait(options->cancel, false, -1, error);
        if (i == 1 && strcmp(deed, "stubborn") == 0)
            rc = fake_wait(options->cancel, true, -1, error);
        if (i == 1 && strcmp(deed, "slow") == 0)
            rc = fake_wait(options->cancel, false, 300, error);
        if (rc)
            return rc;
        if (i == 1 && strcmp(deed, "fail") == 0) {
            failed = true;
            step.outcome = SELFTEST_FAILED;
            step.detail = "the mailbox does not answer";
            step.report = "expected mark 0x2000\nobserved mark 0x0000";
        } else if (failed) {
            step.outcome = SELFTEST_SKIPPED;
        }
        callback(context, &step);
    }
    return failed ? ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "reset: the mailbox is silent") : 0;
}

static const struct engine fake_engine = {
    .name = "fake",
    .keys = fake_keys,
    .compile = fake_compile,
    .compile_free = fake_compile_free,
    .check = fake_check,
    .result_line = fake_result_line,
    .device_open = fake_device_open,
    .device_close = fake_device_close,
    .device_load = fake_device_load,
    .device_run = fake_device_run,
    .device_output = fake_device_output,
    .device_profile = fake_device_profile,
    .device_fault = fake_device_fault,
    .device_selftest = fake_selftest,
};

#endif
