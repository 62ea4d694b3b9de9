/* The device owner process: see owner.h.
 *
 * One worker of kind "device". It gets the next waiting job as soon as it is idle; the package is
 * only sent when the child says that another one is resident. Invariant: device calls happen in the
 * child alone, so that a device that never answers costs one killed process. A child that cannot
 * start is tried again after a growing pause (worker.c), and jobs wait meanwhile.
 */
#include "daemon/owner.h"

#include "base/alloc.h"
#include "daemon/pool.h"
#include "daemon/worker.h"
#include "proto/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEST_LIMIT_MS = 180000 }; /* the steps have limits of their own, together a minute */
enum { TICK_MS = 100, PATH_TEXT = CONFIG_TEXT + 32 };

struct owner {
    struct daemon *daemon;
    struct worker worker;
    uv_timer_t timer;
    bool closing;
    struct selftest *test; /* waits or runs */
    bool testing;          /* the worker's task is a self-test */
    bool tested;           /* the last task was one: a job goes first */
    char resident[HASH_TEXT];
    char last_error[256];
    char lock[PATH_TEXT];
    char flag_set[16];
    const char *arguments[16];
};

static void give_run(struct owner *owner, struct job *job)
{
    const struct config *config = owner->daemon->config;
    Ipu__Worker__RunTask task = IPU__WORKER__RUN_TASK__INIT;
    char digest[HASH_TEXT];
    long limit = config->run_timeout_ms;
    if (job->facts.run_timeout_ms && job->facts.run_timeout_ms < limit)
        limit = job->facts.run_timeout_ms;
    hash_text(&job->package.object.digest, digest);
    worker_begin(&owner->worker, job, WORKER_TASK_RUN, limit);
    task.job = job->row.id;
    task.package = digest;
    task.package_bytes = job->package.object.bytes;
    task.log_level = job_log_level(job);
    task.threads = (uint32_t)config->threads;
    task.inferences = job->facts.inferences;
    task.profile = job->facts.profile;
    task.phase_timeout_ms = (uint32_t)limit;
    link_send_message(&owner->worker.proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_RUN, 0,
                      &task.base);
}

/* --- self-tests --- */

static void give_test(struct owner *owner)
{
    Ipu__Worker__SelftestTask task = IPU__WORKER__SELFTEST_TASK__INIT;
    owner->testing = owner->tested = true;
    owner->resident[0] = '\0';
    worker_begin(&owner->worker, NULL, WORKER_TASK_SELFTEST, TEST_LIMIT_MS);
    task.log_level = LOG_LEVEL_INFO;
    task.threads = (uint32_t)owner->daemon->config->threads;
    link_send_message(&owner->worker.proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST, 0,
                      &task.base);
}

static void end_test(struct owner *owner, int rc, const char *text)
{
    struct selftest *test = owner->test;
    owner->test = NULL;
    owner->testing = false;
    if (test)
        test->done(test->context, rc, text);
}

static int on_step(struct owner *owner, const struct frame *frame, struct ipu_error *error)
{
    Ipu__Rpc__SelftestStep *step =
        (Ipu__Rpc__SelftestStep *)worker_unpack(frame, &ipu__rpc__selftest_step__descriptor, error);
    if (!step)
        return IPU_ERR_PROTOCOL;
    if (owner->test)
        owner->test->step(owner->test->context, step);
    scan_free(&step->base);
    return 0;
}

static int on_test_end(struct owner *owner, const struct frame *frame, struct ipu_error *error)
{
    Ipu__Worker__Failure *end =
        (Ipu__Worker__Failure *)worker_unpack(frame, &ipu__worker__failure__descriptor, error);
    if (!end)
        return IPU_ERR_PROTOCOL;
    log_event(owner->daemon->log, end->code ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "device",
              "self-test ended", "code=%s reason=\"%s\"", ipu_err_name(end->code), end->text);
    worker_end(&owner->worker);
    end_test(owner, end->code, end->text);
    scan_free(&end->base);
    owner_kick(owner);
    return 0;
}

int owner_test(struct owner *owner, struct selftest *test, struct ipu_error *error)
{
    Ipu__Rpc__SelftestStep wait = IPU__RPC__SELFTEST_STEP__INIT;
    char text[400], device[320];
    if (owner->test || owner->testing)
        return ipu_error_set(error, IPU_ERR_BUSY,
                             "another self-test of the device waits or runs; try again later");
    if (owner->daemon->draining)
        return ipu_error_set(error, IPU_ERR_BUSY, "ipud is shutting down");
    owner->test = test;
    if (owner->worker.state != WORKER_IDLE) {
        owner_describe(owner, device, sizeof device);
        snprintf(text, sizeof text, "waits for the device, which is %s", device);
        wait.outcome = IPU__RPC__SELFTEST_OUTCOME__SELFTEST_WAITING;
        wait.name = (char *)"";
        wait.detail = text;
        test->step(test->context, &wait);
    }
    owner_kick(owner);
    return 0;
}

void owner_test_drop(struct owner *owner, const struct selftest *test)
{
    if (owner->test != test)
        return;
    owner->test = NULL;
    if (owner->testing)
        worker_stop(&owner->worker);
}

/* --- giving work --- */

void owner_kick(struct owner *owner)
{
    if (!owner || owner->closing || owner->worker.state != WORKER_IDLE)
        return;
    bool test_waits = owner->test && !owner->testing && !owner->daemon->draining;
    struct job *job = test_waits && !owner->tested ? NULL : jobs_next_run(owner->daemon->jobs);
    if (job) {
        owner->tested = false;
        give_run(owner, job);
    } else if (test_waits) {
        give_test(owner);
    }
}

static int on_message(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    struct job *job = worker->job;
    struct owner *owner = worker->daemon->owner;
    if (owner->testing && frame->type == IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST_STEP)
        return on_step(owner, frame, error);
    if (owner->testing && frame->type == IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST_END)
        return on_test_end(owner, frame, error);
    if (frame->type != IPU__WORKER__MESSAGE_TYPE__WORKER_NEED || !job)
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "unexpected message %u", frame->type);
    Ipu__Worker__PackageBytes package = IPU__WORKER__PACKAGE_BYTES__INIT;
    package.bytes = job->package.object.bytes;
    owner->resident[0] = '\0';
    link_send_message(&worker->proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_PACKAGE, 0,
                      &package.base);
    worker_feed(worker, &job->package.object);
    return 0;
}

static void on_settled(struct worker *worker)
{
    struct owner *owner = worker->daemon->owner;
    struct job *job = worker->job;
    const Ipu__Worker__Ran *ran = worker->ran;
    if (!ran) {
        worker_kill(worker);
        return;
    }
    job->cycles = ran->cycles;
    job->minimum_cycles = ran->minimum_cycles;
    job->samples = ran->samples;
    job->input_bytes = ran->input_bytes;
    job->weight_bytes = ran->weight_bytes;
    job->tiles = ran->tiles;
    job->active_tiles = ran->active_tiles;
    job->sampled_tiles = ran->sampled_tiles;
    job->row.run_ms = ran->load_ms + ran->run_ms;
    snprintf(owner->resident, sizeof owner->resident, "%s", ran->package);
    owner->last_error[0] = '\0';
    worker_end(worker);
    jobs_ran(job);
    pool_kick(owner->daemon->pool);
    owner_kick(owner);
}

static void on_idle(struct worker *worker)
{
    struct owner *owner = worker->daemon->owner;
    if (!owner || owner->closing)
        return;
    char how[96];
    proc_describe(&worker->proc, how, sizeof how);
    if (worker->state == WORKER_DOWN) {
        owner->resident[0] = '\0';
        snprintf(owner->last_error, sizeof owner->last_error, "the device owner died");
        worker_start(worker);
    }
    if (owner->testing &&
        worker->state != WORKER_BUSY) { /* it died, or gave the task up without an end */
        char text[160];
        snprintf(text, sizeof text, "the device owner gave the self-test up (%s)", how);
        end_test(owner, IPU_ERR_DEVICE_FAULT, text);
    }
    owner_kick(owner);
}

static void on_tick(uv_timer_t *timer)
{
    struct owner *owner = timer->data;
    worker_tick(&owner->worker);
}

int owner_create(struct daemon *daemon, struct owner **out, struct ipu_error *error)
{
    struct owner *owner = ipu_calloc(1, sizeof *owner);
    *out = owner;
    if (!owner)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    owner->daemon = daemon;
    bool sim = strcmp(daemon->config->device, "sim") == 0;
    const char *name = strrchr(daemon->config->device, '/');
    if (sim)
        snprintf(owner->lock, sizeof owner->lock, "%s/device.lock", daemon->config->state_dir);
    else
        snprintf(owner->lock, sizeof owner->lock, "/run/lock/%s.lock",
                 name ? name + 1 : daemon->config->device);
    snprintf(owner->flag_set, sizeof owner->flag_set, "%" PRIu32, daemon->flag_set);
    const char *arguments[] = {"ipud-device",
                               "--worker",
                               "device",
                               "--fd",
                               "3",
                               "--device",
                               daemon->config->device,
                               "--lock",
                               owner->lock,
                               "--configuration",
                               daemon->config->device_configuration,
                               "--loader",
                               daemon->config->device_loader,
                               "--flag-set",
                               owner->flag_set,
                               NULL};
    memcpy(owner->arguments, arguments, sizeof arguments);
    worker_init(&owner->worker, daemon, owner->arguments);
    owner->worker.kind = "device";
    owner->worker.message = on_message;
    owner->worker.settled = on_settled;
    owner->worker.idle = on_idle;
    worker_start(&owner->worker);
    uv_timer_init(daemon->loop, &owner->timer);
    owner->timer.data = owner;
    uv_timer_start(&owner->timer, on_tick, TICK_MS, TICK_MS);
    return 0;
}

void owner_describe(const struct owner *owner, char *text, size_t size)
{
    static const char *const names[] = {"restarting", "starting", "idle", "running", "restarting"};
    const char *name = owner->testing ? "being tested" : names[owner->worker.state];
    snprintf(text, size, "%s%s%s", name, owner->last_error[0] ? ": " : "", owner->last_error);
}

const char *owner_resident(const struct owner *owner)
{
    return owner->resident;
}

uint64_t owner_deaths(const struct owner *owner)
{
    return owner->worker.deaths;
}

bool owner_busy(const struct owner *owner)
{
    return owner->worker.state == WORKER_BUSY;
}

void owner_close(struct owner *owner)
{
    if (!owner->closing)
        uv_close((uv_handle_t *)&owner->timer, NULL);
    owner->closing = true;
    worker_kill(&owner->worker);
}

bool owner_closed(const struct owner *owner)
{
    return proc_free(&owner->worker.proc);
}

void owner_free(struct owner *owner)
{
    ipu_free(owner);
}
