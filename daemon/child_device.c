/* `ipud --worker device`: owns the device.
 *
 * The session stays open and the package resident between tasks, so that running a package again
 * costs no load. The device lock file is held by flock from the first task on: nothing else of this
 * machine uses the device meanwhile, and a crash releases it. After a fault, a timeout or a
 * cancellation the session is closed and the next task opens it anew. With several inferences, each
 * must give the bytes of the first one; a difference is a device fault.
 */
#include "daemon/child.h"

#include "base/clock.h"
#include "proto/scan.h"
#include "proto/rpc.pb-c.h"
#include "proto/worker.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct owner {
    struct child *child;
    const struct engine *engine;
    const char *device, *lock_path;
    const char *configuration, *loader; /* files, or NULL for the defaults of the driver */
    uint32_t flag_set;
    void *session;
    int lock_fd;
    char resident[HASH_TEXT];
    struct buffer package;
    struct engine_package info;
};

static const char *option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return fallback;
}

static const char *file_option(int argc, char **argv, const char *name)
{
    const char *path = option(argc, argv, name, "");
    return path[0] ? path : NULL;
}

static void drop_session(struct owner *owner)
{
    if (owner->session)
        owner->engine->device_close(owner->session);
    owner->session = NULL;
    owner->resident[0] = '\0';
}

static bool cancelled(const struct owner *owner)
{
    return atomic_load(child_cancel(owner->child));
}

/* Takes the lock file; another process that holds it is waited for. */
static int lock_device(struct owner *owner, struct log *log, struct ipu_error *error)
{
    if (owner->lock_fd >= 0)
        return 0;
    int fd = open(owner->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return ipu_error_set(error, IPU_ERR_IO, "cannot open the device lock %s: %s",
                             owner->lock_path, strerror(errno));
    log_event(log, LOG_LEVEL_INFO, "", "waiting for hardware ownership", "path=%s",
              owner->lock_path);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int problem = errno;
        if (problem == EINTR)
            continue;
        if (problem != EWOULDBLOCK || cancelled(owner)) {
            close(fd);
            return problem == EWOULDBLOCK ? ipu_error_set(error, IPU_ERR_CANCELLED, "cancelled")
                                          : ipu_error_set(error, IPU_ERR_IO, "cannot lock %s: %s",
                                                          owner->lock_path, strerror(problem));
        }
        poll(NULL, 0, 20); /* there is no event for the release of a lock */
    }
    owner->lock_fd = fd;
    log_event(log, LOG_LEVEL_INFO, "", "acquired hardware ownership", "path=%s", owner->lock_path);
    return 0;
}

static void on_progress(void *context, const char *stage, double fraction)
{
    struct owner *owner = context;
    child_progress(owner->child, stage, fraction, 0, 0);
}

static struct device_options device_options(const struct owner *owner, unsigned threads,
                                            struct log *log)
{
    return (struct device_options){.device = owner->device,
                                   .configuration = owner->configuration,
                                   .loader = owner->loader,
                                   .flag_set = owner->flag_set,
                                   .threads = threads,
                                   .strict = true,
                                   .log = log,
                                   .cancel = child_cancel(owner->child)};
}

static int open_device(struct owner *owner, const Ipu__Worker__RunTask *task, struct log *log,
                       struct ipu_error *error)
{
    int rc = lock_device(owner, log, error);
    if (rc || owner->session)
        return rc;
    struct device_options options = device_options(owner, task->threads, log);
    options.timeout_ms = task->phase_timeout_ms;
    options.progress = on_progress;
    options.progress_context = owner;
    return owner->engine->device_open(&options, &owner->session, error);
}

/* Gets the package from the daemon, unless it is resident, and loads it. */
static int load_package(struct owner *owner, const Ipu__Worker__RunTask *task,
                        struct ipu_error *error)
{
    if (strcmp(owner->resident, task->package) == 0)
        return 0;
    owner->resident[0] = '\0';
    child_send(owner->child, IPU__WORKER__MESSAGE_TYPE__WORKER_NEED, NULL, 0);
    struct child_message *message = child_receive(owner->child);
    bool is_package = message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_PACKAGE;
    child_message_free(message);
    if (!is_package)
        return ipu_error_set(error, IPU_ERR_CORRUPT, "the package could not be read");
    struct buffer bytes = {0};
    int rc = child_receive_bytes(owner->child, task->package_bytes, &bytes, error);
    if (rc == 0)
        rc =
            owner->engine->device_load(owner->session, bytes.data, bytes.size, &owner->info, error);
    buffer_free(&owner->package);
    owner->package = bytes; /* the session may refer to it */
    if (rc == 0)
        snprintf(owner->resident, sizeof owner->resident, "%s", task->package);
    return rc;
}

/* --- outputs --- */

static int hash_outputs(struct owner *owner, struct hash *digest, struct ipu_error *error)
{
    struct engine_output output;
    struct hash_state *state = hash_begin();
    for (size_t i = 0; owner->engine->device_output(owner->session, i, &output); i++)
        hash_update(state, output.data, output.size);
    return hash_finish(state, digest) ? 0
                                      : ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
}

static int run_all(struct owner *owner, const Ipu__Worker__RunTask *task,
                   struct device_summary *summary, struct ipu_error *error)
{
    struct hash first, again;
    uint32_t inferences = task->inferences ? task->inferences : 1;
    for (uint32_t n = 0; n < inferences; n++) {
        int rc = owner->engine->device_run(owner->session, summary, error);
        if (rc == 0 && inferences > 1)
            rc = hash_outputs(owner, n ? &again : &first, error);
        if (rc)
            return rc;
        if (n && !hash_equal(&first, &again))
            return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                                 "inference %u of the resident package gave other outputs than "
                                 "inference 1",
                                 n + 1);
    }
    return 0;
}

static void send_stream(struct owner *owner, Ipu__Worker__StreamKind kind,
                        const struct engine_output *output)
{
    Ipu__Worker__Stream stream = IPU__WORKER__STREAM__INIT;
    stream.kind = kind;
    stream.bytes = output->size;
    stream.name = (char *)(output->name ? output->name : "");
    stream.type = output->type;
    stream.n_shape = output->rank;
    stream.shape = (uint64_t *)(uintptr_t)output->shape;
    child_send_message(owner->child, IPU__WORKER__MESSAGE_TYPE__WORKER_STREAM, &stream.base);
    child_send_bytes(owner->child, output->data, output->size);
}

static int send_results(struct owner *owner, const Ipu__Worker__RunTask *task,
                        struct ipu_error *error)
{
    struct engine_output output;
    for (size_t i = 0; owner->engine->device_output(owner->session, i, &output); i++)
        send_stream(owner, IPU__WORKER__STREAM_KIND__STREAM_OUTPUT, &output);
    if (task->profile == 1) /* PROFILE_NONE */
        return 0;
    struct buffer profile = {0};
    int rc = owner->engine->device_profile(owner->session, &profile, error);
    if (rc == 0 && profile.size) {
        output = (struct engine_output){.data = profile.data, .size = profile.size};
        send_stream(owner, IPU__WORKER__STREAM_KIND__STREAM_PROFILE, &output);
    }
    buffer_free(&profile);
    return rc;
}

static void send_ran(struct owner *owner, const struct device_summary *summary, double load_ms,
                     double run_ms)
{
    Ipu__Worker__Ran ran = IPU__WORKER__RAN__INIT;
    ran.cycles = summary->cycles;
    ran.minimum_cycles = summary->minimum_cycles;
    ran.samples = summary->samples;
    ran.estimated_cycles = owner->info.estimated_cycles;
    ran.input_bytes = owner->info.input_bytes;
    ran.weight_bytes = owner->info.weight_bytes;
    ran.tiles = owner->info.tiles;
    ran.active_tiles = owner->info.active_tiles;
    ran.sampled_tiles = owner->info.sampled_tiles;
    ran.load_ms = load_ms;
    ran.run_ms = run_ms;
    ran.package = owner->resident;
    child_send_message(owner->child, IPU__WORKER__MESSAGE_TYPE__WORKER_RAN, &ran.base);
}

static int run_task(struct owner *owner, const Ipu__Worker__RunTask *task, struct ipu_error *error)
{
    struct log *log = child_log(owner->child, task->log_level);
    struct device_summary summary = {0};
    uint64_t start = clock_ns();
    int rc = open_device(owner, task, log, error);
    if (rc == 0)
        rc = load_package(owner, task, error);
    uint64_t loaded = clock_ns();
    if (rc == 0)
        rc = run_all(owner, task, &summary, error);
    uint64_t ran = clock_ns();
    if (rc == 0)
        rc = send_results(owner, task, error);
    if (rc == 0)
        send_ran(owner, &summary, (double)(loaded - start) / 1e6, (double)(ran - loaded) / 1e6);
    return rc;
}

/* --- self-test --- */

static void on_selftest_step(void *context, const struct selftest_step *step)
{
    struct owner *owner = context;
    Ipu__Rpc__SelftestStep message = IPU__RPC__SELFTEST_STEP__INIT;
    message.index = step->index;
    message.count = step->count;
    message.name = (char *)(uintptr_t)step->name;
    message.outcome = (Ipu__Rpc__SelftestOutcome)step->outcome; /* numbered alike */
    message.detail = (char *)(uintptr_t)(step->detail ? step->detail : "");
    message.report = (char *)(uintptr_t)(step->report ? step->report : "");
    message.milliseconds = step->milliseconds;
    child_send_message(owner->child, IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST_STEP,
                       &message.base);
}

/* The test opens the device itself, so what was open is closed first. */
static void run_selftest(struct owner *owner, const Ipu__Worker__SelftestTask *task)
{
    struct ipu_error error = {0};
    Ipu__Worker__Failure end = IPU__WORKER__FAILURE__INIT;
    struct log *log = child_log(owner->child, task->log_level);
    struct device_options options = device_options(owner, task->threads, log);
    drop_session(owner);
    int rc = lock_device(owner, log, &error);
    if (rc == 0)
        rc = owner->engine->device_selftest(&options, on_selftest_step, owner, &error);
    end.code = rc;
    end.text = rc ? error.text : (char *)"";
    end.detail = (char *)"";
    child_send_message(owner->child, IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST_END, &end.base);
}

static void serve_selftest(struct owner *owner, const struct child_message *message)
{
    ProtobufCMessage *task = child_unpack(message, &ipu__worker__selftest_task__descriptor);
    if (!task)
        _exit(71); /* the daemon sees a dead owner and says so */
    run_selftest(owner, (Ipu__Worker__SelftestTask *)task);
    scan_free(task);
}

static void serve(struct owner *owner, const struct child_message *message)
{
    struct ipu_error error = {0};
    if (message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST) {
        serve_selftest(owner, message);
        return;
    }
    if (message->type != IPU__WORKER__MESSAGE_TYPE__WORKER_RUN)
        return; /* the rest of a task that has failed already */
    ProtobufCMessage *task = child_unpack(message, &ipu__worker__run_task__descriptor);
    int rc = task ? run_task(owner, (Ipu__Worker__RunTask *)task, &error)
                  : ipu_error_set(&error, IPU_ERR_INTERNAL, "device: malformed task");
    scan_free(task);
    if (rc == 0)
        return;
    const char *report = owner->session ? owner->engine->device_fault(owner->session) : "";
    child_send_failure(owner->child, rc, error.text, report);
    drop_session(owner);
}

int child_device_main(const struct engine *engine, int argc, char **argv)
{
    struct rlimit none = {0, 0};
    struct owner owner = {
        .engine = engine,
        .device = option(argc, argv, "--device", "sim"),
        .lock_path = option(argc, argv, "--lock", "device.lock"),
        .configuration = file_option(argc, argv, "--configuration"),
        .loader = file_option(argc, argv, "--loader"),
        .flag_set = (uint32_t)strtoul(option(argc, argv, "--flag-set", "0"), NULL, 10),
        .lock_fd = -1,
    };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    owner.child = child_create((int)strtol(option(argc, argv, "--fd", "3"), NULL, 10));
    if (!owner.child)
        return 70;
    Ipu__Worker__Ready ready = IPU__WORKER__READY__INIT;
    ready.engine = (char *)engine->name;
    child_send_message(owner.child, IPU__WORKER__MESSAGE_TYPE__WORKER_READY, &ready.base);
    for (;;) {
        struct child_message *message = child_receive(owner.child);
        serve(&owner, message);
        child_message_free(message);
    }
}
