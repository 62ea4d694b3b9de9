/* The flow of jobs: see jobs.h.
 *
 * Invariants: a job stands in the compile line exactly in QUEUED without `shares` and not
 * `looking`, in the device line exactly in WAITING; of all jobs with equal workload keys at most
 * one is compiled at a time, and the others wait for it, never for a job that waits or looks
 * itself; a job with a worker is in COMPILING, RUNNING or CHECKING. A job that could not be ended
 * because memory or the disk fails stays and is tried again.
 */
#include "daemon/jobs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/owner.h"
#include "daemon/pool.h"
#include "daemon/transfer.h"
#include "daemon/verdict.h"
#include "daemon/watch.h"
#include "proto/scan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FLUSH_MS = 100, RETRY_TICKS = 10, MAX_CRASHES = 2, MANY_ATTEMPTS = 12, LAST_PRIORITY = -10 };

static void kick(struct daemon *daemon)
{
    pool_kick(daemon->pool);
    owner_kick(daemon->owner);
}

/* --- lines --- */

static void push_line(struct job *job, struct queue *queue)
{
    /* A job that was interrupted again and again is never given up, but goes behind the others. */
    int priority = job->row.attempts >= MANY_ATTEMPTS ? LAST_PRIORITY : job->row.priority;
    struct queue_entry entry = {job->row.id, job->row.uid, priority, clock_ns()};
    if (!queue_push(queue, &entry))
        job_end(job, JOB_FAILED, IPU_ERR_NO_MEMORY, "ipud is out of memory");
}

unsigned jobs_position(const struct job *job)
{
    const struct jobs *jobs = job->daemon->jobs;
    uint64_t id = job->shares ? job->shares->row.id : job->row.id;
    if (job->state == JOB_QUEUED)
        return queue_position(&jobs->compile, id, clock_ns());
    return job->state == JOB_WAITING ? queue_position(&jobs->device, id, clock_ns()) : 0;
}

/* --- the list --- */

struct job *jobs_find(const struct jobs *jobs, uint64_t id)
{
    for (struct job *job = jobs->list; job; job = job->next)
        if (job->row.id == id)
            return job;
    return NULL;
}

static void link_job(struct jobs *jobs, struct job *job)
{
    struct job **at = &jobs->list;
    while (*at)
        at = &(*at)->next;
    job->next = NULL;
    *at = job;
    jobs->count++;
}

static void unlink_job(struct jobs *jobs, struct job *job)
{
    for (struct job **at = &jobs->list; *at; at = &(*at)->next)
        if (*at == job) {
            *at = job->next;
            jobs->count--;
            return;
        }
}

/* --- finding the package --- */

static void wait_for_device(struct job *job)
{
    job_move(job, JOB_WAITING, "waits for the device");
    push_line(job, &job->daemon->jobs->device);
    owner_kick(job->daemon->owner);
}

static void take_package(struct job *job, const struct store_package *package, bool cached)
{
    job->package = *package;
    job->has_package = true;
    transfer_pin(job->daemon->store, package->object.id); /* until the job ends */
    job->row.package = package->object.digest;
    job->row.has_package = true;
    job->row.package_cached = cached;
    if (!cached)
        job->row.compile_ms = package->compile_ms;
    wait_for_device(job);
}

static struct job *find_same(const struct jobs *jobs, const struct job *job)
{
    for (struct job *other = jobs->list; other; other = other->next)
        if (other != job && !other->shares && !other->looking && other->stop == JOB_STOP_NONE &&
            (other->state == JOB_QUEUED || other->state == JOB_COMPILING) &&
            strcmp(other->row.workload_key, job->row.workload_key) == 0)
            return other;
    return NULL;
}

/* Puts a queued job where its package will come from: a cache hit, another job, or the line. */
static void route(struct job *job, bool found)
{
    struct jobs *jobs = job->daemon->jobs;
    struct job *same = job->row.no_cache ? NULL : find_same(jobs, job);
    job->looking = false;
    if (found) {
        take_package(job, &job->package, true);
    } else if (same) {
        char reason[96];
        job->shares = same;
        snprintf(reason, sizeof reason,
                 "waits for job %" PRIu64 ", which compiles the same workload", same->row.id);
        job_set_reason(job, reason);
    } else {
        push_line(job, &jobs->compile);
        job_set_reason(job, "waits for a compile worker");
    }
    kick(job->daemon);
}

static void read_facts(struct job *job)
{
    static const struct scan_limits limits = {2, 32, 256, 1024};
    ProtobufCMessage *message;
    struct ipu_error ignored;
    if (scan_unpack(&ipu__worker__facts__descriptor, job->known.facts, job->known.facts_size,
                    &limits, &message, &ignored))
        return;
    job->facts = *(Ipu__Worker__Facts *)message; /* numbers only */
    scan_free(message);
}

/* What the store knows of a workload file: its object, keys, and a package. */
static int look_up(struct store *store, const struct store_job *row, struct store_object *workload,
                   struct store_workload *known, bool *is_known, struct store_package *package,
                   bool *found, struct ipu_error *error)
{
    *is_known = *found = false;
    int rc = store_object_find(store, STORE_WORKLOAD, &row->workload, workload, error);
    if (rc == 0)
        rc = store_workload_find(store, row->workload_key, known, is_known, error);
    if (rc == 0 && *is_known && !row->no_cache)
        rc = store_package_find(store, known->package_key, package, found, error);
    return rc;
}

/* --- accepting --- */

struct submission {
    struct storeq_op op;
    struct jobs *jobs;
    struct store_job row;
    struct store_object workload;
    struct store_workload known;
    struct store_package package;
    bool is_known, found;
    jobs_done_fn *done;
    void *context;
};

static int run_submit(struct store *store, struct storeq_op *op)
{
    struct submission *s = (struct submission *)op;
    int rc = store_job_insert(store, &s->row, &op->error);
    if (rc == 0)
        rc = look_up(store, &s->row, &s->workload, &s->known, &s->is_known, &s->package, &s->found,
                     &op->error);
    return rc;
}

static void begin_job(struct job *job, const struct submission *s)
{
    job->workload = s->workload;
    job->known = s->known;
    job->is_known = s->is_known;
    job->package = s->package;
    if (s->is_known)
        read_facts(job);
    if (job->row.name[0] == '\0')
        memcpy(job->row.name, s->known.name, sizeof job->row.name);
    log_event(job->daemon->log, LOG_LEVEL_INFO, "job", "job accepted",
              "job=%" PRIu64 " uid=%u name=\"%s\" bytes=%" PRIu64 " package_cached=%s", job->row.id,
              job->row.uid, job->row.name, s->workload.bytes, s->found ? "true" : "false");
}

static void announce(struct job *job)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__StateEvent state = IPU__RPC__STATE_EVENT__INIT;
    state.state = IPU__RPC__JOB_STATE__JOB_QUEUED;
    state.reason = job->row.reason;
    state.position = jobs_position(job);
    event.kind_case = IPU__RPC__EVENT__KIND_STATE;
    event.state = &state;
    job_event(job, &event, true);
}

static void on_submitted(struct storeq_op *op)
{
    struct submission *s = (struct submission *)op;
    struct job *job = op->rc ? NULL : job_create(s->jobs->daemon, &s->row, 1);
    if (op->rc == 0 && !job)
        op->rc = ipu_error_set(&op->error, IPU_ERR_NO_MEMORY, "ipud is out of memory");
    if (job) {
        link_job(s->jobs, job);
        job->looking = true; /* until it has been routed, below */
        begin_job(job, s);
        announce(job);
    }
    transfer_unpin(s->jobs->daemon->store, s->workload.id); /* the job row holds it from now on */
    s->done(s->context, job, op->rc, &op->error);
    if (job && job->state == JOB_QUEUED)
        route(job, s->found);
    ipu_free(s);
}

void jobs_submit(struct jobs *jobs, const struct store_job *row,
                 const struct store_object *workload, jobs_done_fn *done, void *context)
{
    struct submission *s = ipu_calloc(1, sizeof *s);
    struct ipu_error error;
    if (!s) {
        ipu_error_set(&error, IPU_ERR_NO_MEMORY, "ipud is out of memory");
        done(context, NULL, error.code, &error);
        return;
    }
    s->jobs = jobs;
    s->row = *row;
    s->row.state = JOB_QUEUED;
    s->row.submitted_us = clock_wall_us();
    s->row.workload = workload->digest;
    s->workload = *workload;
    s->done = done;
    s->context = context;
    char digest[HASH_TEXT], parts[256];
    hash_text(&workload->digest, digest);
    int n = snprintf(parts, sizeof parts, "workload %s compiler %s flags %s", digest,
                     jobs->daemon->build, jobs->daemon->flag_digest);
    struct hash key;
    if (!hash_bytes(parts, (size_t)n, &key))
        memset(&key, 0, sizeof key);
    hash_text(&key, s->row.workload_key);
    s->op.run = run_submit;
    s->op.done = on_submitted;
    storeq_push(jobs->daemon->store, &s->op);
}

/* --- taking up what an earlier daemon left --- */

static int run_restore(struct store *store, struct storeq_op *op)
{
    struct submission *s = (struct submission *)op;
    return look_up(store, &s->row, &s->workload, &s->known, &s->is_known, &s->package, &s->found,
                   &op->error);
}

static void on_restored(struct storeq_op *op)
{
    struct submission *s = (struct submission *)op;
    struct job *job = jobs_find(s->jobs, s->row.id);
    if (job && job->state == JOB_QUEUED && job->stop == JOB_STOP_NONE) {
        if (op->rc == IPU_ERR_NOT_FOUND) {
            job_end(job, JOB_FAILED, IPU_ERR_CORRUPT,
                    "the stored workload of the job was damaged and is gone; submit it again");
        } else if (op->rc) {
            job_end(job, JOB_FAILED, op->rc, op->error.text);
        } else {
            begin_job(job, s);
            route(job, s->found);
        }
    }
    ipu_free(s);
}

static void find_again(struct job *job)
{
    struct submission *s = ipu_calloc(1, sizeof *s);
    if (!s) {
        job_end(job, JOB_FAILED, IPU_ERR_NO_MEMORY, "ipud is out of memory");
        return;
    }
    job->looking = true;
    s->jobs = job->daemon->jobs;
    s->row = job->row;
    s->op.relaxed = true;
    s->op.run = run_restore;
    s->op.done = on_restored;
    storeq_push(job->daemon->store, &s->op);
}

int jobs_restore(struct jobs *jobs, const struct store_job *row, uint64_t sequence,
                 struct ipu_error *error)
{
    struct store_job again = *row;
    again.state = JOB_QUEUED;
    struct job *job = job_create(jobs->daemon, &again, sequence);
    if (!job)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    job->attached = false; /* who submitted it cannot hold it any more */
    link_job(jobs, job);
    log_event(jobs->daemon->log, LOG_LEVEL_INFO, "job", "job taken up again",
              "job=%" PRIu64 " was=%s attempts=%u", row->id,
              job_state_name((enum job_state)row->state), row->attempts);
    job_set_reason(job, row->state == JOB_QUEUED ? "ipud was restarted"
                                                 : "ipud was restarted; the job begins again");
    announce(job);
    find_again(job);
    return 0;
}

/* --- sharing --- */

/* `job` cannot deliver its package: the first job that waited for it does the work itself. */
static void hand_over(struct job *job, bool worker_goes_on)
{
    struct jobs *jobs = job->daemon->jobs;
    struct job *heir = NULL;
    for (struct job *other = jobs->list; other; other = other->next) {
        if (other->shares != job)
            continue;
        other->shares = heir;
        if (heir)
            continue;
        heir = other;
        if (worker_goes_on) {
            heir->worker = job->worker;
            heir->known = job->known;
            heir->is_known = job->is_known;
            heir->facts = job->facts;
            heir->package = job->package;
            heir->row.attempts++;
            pool_hand_over(job->worker, heir);
            job->worker = NULL;
            job_move(heir, JOB_COMPILING, "");
        } else {
            push_line(heir, &jobs->compile);
            job_set_reason(heir, "waits for a compile worker");
        }
    }
}

static bool has_followers(const struct job *job)
{
    for (struct job *other = job->daemon->jobs->list; other; other = other->next)
        if (other->shares == job)
            return true;
    return false;
}

static void fail_followers(struct job *job, enum job_state state, int code, const char *text)
{
    for (struct job *other = job->daemon->jobs->list; other; other = other->next)
        if (other->shares == job) {
            other->shares = NULL;
            job_end(other, state, code, text);
        }
}

/* --- stopping --- */

static void end_stopped(struct job *job)
{
    char text[96];
    if (job->stop == JOB_STOP_CANCEL) {
        job_end(job, JOB_CANCELLED, IPU_ERR_CANCELLED, "cancelled");
        return;
    }
    snprintf(text, sizeof text, "%s took longer than its limit", job_state_name(job->state));
    if (job->state == JOB_COMPILING)
        fail_followers(job, JOB_TIMED_OUT, IPU_ERR_TIMEOUT, text);
    job_end(job, JOB_TIMED_OUT, IPU_ERR_TIMEOUT, text);
}

void jobs_stop(struct job *job, enum job_stop why)
{
    struct jobs *jobs = job->daemon->jobs;
    if (job->state == JOB_ENDING || job_state_terminal(job->state) || job->stop != JOB_STOP_NONE)
        return;
    job->stop = why;
    if (job->state == JOB_QUEUED) {
        queue_remove(&jobs->compile, job->row.id);
        job->shares = NULL;
        hand_over(job, false);
        end_stopped(job);
    } else if (job->state == JOB_WAITING) {
        queue_remove(&jobs->device, job->row.id);
        end_stopped(job);
    } else if (job->state == JOB_COMPILING && why == JOB_STOP_CANCEL && has_followers(job)) {
        hand_over(job, true);
        end_stopped(job);
    } else if (job->worker) {
        worker_stop(job->worker);
    } else {
        end_stopped(job); /* CHECKING, no worker yet */
    }
    kick(job->daemon);
}

void jobs_hold(struct job *job)
{
    job->holders++;
}

void jobs_release(struct job *job)
{
    if (--job->holders == 0 && job->attached && !job->daemon->draining)
        jobs_stop(job, JOB_STOP_CANCEL);
}

/* --- work for workers --- */

bool jobs_may_compile(void *context, uint32_t uid)
{
    const struct jobs *jobs = context;
    long active = 0;
    for (const struct job *job = jobs->list; job; job = job->next)
        active += job->state == JOB_COMPILING && job->row.uid == uid;
    return active < jobs->daemon->config->max_active_per_user;
}

struct job *jobs_next_compile(struct jobs *jobs)
{
    if (jobs->daemon->draining || jobs->compile.count == 0)
        return NULL;
    struct job *job =
        jobs_find(jobs, queue_pick(&jobs->compile, clock_ns(), jobs_may_compile, jobs));
    if (job) {
        job->row.attempts++;
        job_move(job, JOB_COMPILING, "");
    }
    return job;
}

struct job *jobs_next_check(struct jobs *jobs, const char *prefer)
{
    struct job *first = NULL;
    for (struct job *job = jobs->list; job; job = job->next) {
        char digest[HASH_TEXT];
        if (job->state != JOB_CHECKING || job->worker || job->deciding ||
            job->stop != JOB_STOP_NONE)
            continue;
        hash_text(&job->row.workload, digest);
        if (strcmp(digest, prefer) == 0)
            return job;
        first = first ? first : job;
    }
    return first;
}

struct job *jobs_next_run(struct jobs *jobs)
{
    if (jobs->daemon->draining)
        return NULL;
    struct job *job = jobs_find(jobs, queue_pick(&jobs->device, clock_ns(), NULL, NULL));
    if (job) {
        job->row.attempts++;
        job_move(job, JOB_RUNNING, "");
    }
    return job;
}

/* --- what workers report --- */

void jobs_compiled(struct job *job)
{
    struct jobs *jobs = job->daemon->jobs;
    job->worker = NULL;
    for (struct job *other = jobs->list; other; other = other->next)
        if (other->shares == job) {
            other->shares = NULL;
            other->facts = job->facts;
            other->known = job->known;
            other->is_known = true;
            take_package(other, &job->package, true);
        }
    if (job->stop != JOB_STOP_NONE)
        end_stopped(job);
    else
        take_package(job, &job->package, job->row.package_cached);
}

void jobs_ran(struct job *job)
{
    job->worker = NULL;
    if (job->stop != JOB_STOP_NONE) {
        end_stopped(job);
        return;
    }
    job_move(job, JOB_CHECKING, "");
    job->deciding = true;
    verdict_find(job);
}

void jobs_check_needed(struct job *job)
{
    job->deciding = false;
    pool_kick(job->daemon->pool);
}

static void compose_results(struct job *job, bool passed, const char *line)
{
    char *at = job->row.results, *end = at + sizeof job->row.results;
    const char *device = job->daemon->config->device, *verdict = passed ? "PASS" : "FAIL";
    char package[HASH_TEXT], profile[HASH_TEXT];
    hash_text(&job->row.package, package);
    hash_text(&job->row.profile, profile);
    if (job->row.has_profile)
        at += snprintf(at, (size_t)(end - at),
                       "profile=%s tiles=%u samples=%" PRIu64 " sampledTiles=%u\n", profile,
                       job->tiles, job->samples, job->sampled_tiles);
    at += snprintf(at, (size_t)(end - at), "%.2000s\n", line);
    for (unsigned n = 1; job->facts.inferences > 1 && n <= job->facts.inferences && n <= 16; n++)
        at += snprintf(at, (size_t)(end - at), "referenceInference=%u numericalTest=%s\n", n,
                       verdict);
    snprintf(at, (size_t)(end - at), "package=%s tiles=%u device=%s %s=%s", package, job->tiles,
             device, strcmp(device, "sim") == 0 ? "deviceTest" : "hardwareTest", verdict);
}

void jobs_checked(struct job *job, bool passed, const char *reason, const char *line)
{
    job->worker = NULL;
    job->deciding = false;
    if (job->stop != JOB_STOP_NONE) {
        end_stopped(job);
        return;
    }
    job->row.cycles = job->cycles;
    compose_results(job, passed, line);
    if (passed)
        job_end(job, JOB_DONE, 0, "");
    else
        job_end(job, JOB_FAILED, IPU_ERR_CHECK_FAILED, reason[0] ? reason : "the check failed");
}

static void unpin_package(struct job *job)
{
    if (job->has_package)
        transfer_unpin(job->daemon->store, job->package.object.id);
    job->has_package = job->row.has_package = false;
}

static void unpin_outputs(struct job *job)
{
    for (size_t i = 0; i < job->output_count; i++)
        transfer_unpin(job->daemon->store, job->output_objects[i].id);
    job->output_count = 0;
    if (job->row.has_profile)
        transfer_unpin(job->daemon->store, job->profile.id);
}

/* Starts over from the beginning: what was stored for the job could not be read. */
static void recompile(struct job *job)
{
    if (job->state == JOB_CHECKING)
        job_move(job, JOB_WAITING, "");
    unpin_outputs(job);
    job->row.has_profile = false;
    unpin_package(job);
    job_move(job, JOB_QUEUED, "a stored object was damaged; the job begins again");
    find_again(job);
}

void jobs_task_failed(struct job *job, int code, const char *text)
{
    job->worker = NULL;
    if (job->stop != JOB_STOP_NONE) {
        if (job->state == JOB_COMPILING && job->stop == JOB_STOP_CANCEL)
            hand_over(job, false);
        end_stopped(job);
    } else if (code == IPU_ERR_CORRUPT && job->state != JOB_COMPILING &&
               ++job->crashes < MAX_CRASHES) {
        recompile(job);
    } else {
        enum job_state state = code == IPU_ERR_TIMEOUT ? JOB_TIMED_OUT : JOB_FAILED;
        if (job->state == JOB_COMPILING)
            fail_followers(job, state, code, text);
        job_end(job, state, code, text);
    }
    kick(job->daemon);
}

static void retry(struct job *job, const char *text)
{
    struct jobs *jobs = job->daemon->jobs;
    if (job->state == JOB_COMPILING) {
        job_move(job, JOB_QUEUED, text);
        push_line(job, &jobs->compile);
    } else if (job->state == JOB_RUNNING) {
        unpin_outputs(job);
        job->row.has_profile = false;
        job_move(job, JOB_WAITING, text);
        push_line(job, &jobs->device);
    } /* CHECKING: without a worker it is picked again */
}

void jobs_task_died(struct job *job, const char *how)
{
    char text[STORE_REASON];
    const char *what = job->state == JOB_RUNNING ? "the device owner" : "the compile worker";
    job->worker = NULL;
    if (job->stop != JOB_STOP_NONE) {
        jobs_task_failed(job, IPU_ERR_INTERNAL, how);
        return;
    }
    job->crashes++;
    if (job->crashes < MAX_CRASHES) {
        snprintf(text, sizeof text, "%s died (%s); the job is tried once more", what, how);
        retry(job, text);
    } else {
        snprintf(text, sizeof text, "%s died twice with this job (the last time: %s)", what, how);
        if (job->state == JOB_COMPILING)
            fail_followers(job, JOB_FAILED, IPU_ERR_INTERNAL, text);
        job_end(job, JOB_FAILED,
                job->state == JOB_RUNNING ? IPU_ERR_DEVICE_FAULT : IPU_ERR_INTERNAL, text);
    }
    kick(job->daemon);
}

void jobs_ended(struct job *job)
{
    struct daemon *daemon = job->daemon;
    log_event(daemon->log, LOG_LEVEL_INFO, "job", "job ended",
              "job=%" PRIu64 " state=%s code=%s cycles=%" PRIu64 " reason=\"%s\"", job->row.id,
              job_state_name(job->state), ipu_err_name(job->row.code), job->row.cycles,
              job->row.reason);
    unpin_outputs(job);
    unpin_package(job);
    unlink_job(daemon->jobs, job);
    watch_wake(job);
    job_unref(job);
    kick(daemon);
}

/* --- the manager itself --- */

static void on_flush(uv_timer_t *timer)
{
    struct jobs *jobs = timer->data;
    uint64_t tick = uv_now(timer->loop) / FLUSH_MS;
    for (struct job *job = jobs->list; job; job = job->next)
        if (job_dirty(job) && (!job->save_failed || tick % RETRY_TICKS == 0))
            job_save(job);
}

int jobs_create(struct daemon *daemon, struct jobs **out, struct ipu_error *error)
{
    struct jobs *jobs = ipu_calloc(1, sizeof *jobs);
    *out = jobs;
    if (!jobs)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    jobs->daemon = daemon;
    uint64_t ageing = (uint64_t)daemon->config->ageing_s * 1000000000u;
    queue_init(&jobs->compile, ageing);
    queue_init(&jobs->device, ageing);
    uv_timer_init(daemon->loop, &jobs->flush);
    jobs->flush.data = jobs;
    uv_timer_start(&jobs->flush, on_flush, FLUSH_MS, FLUSH_MS);
    return 0;
}

void jobs_close(struct jobs *jobs)
{
    if (!jobs->closed)
        uv_close((uv_handle_t *)&jobs->flush, NULL);
    jobs->closed = true;
}

void jobs_free(struct jobs *jobs)
{
    while (jobs->list) { /* jobs that the next daemon takes up */
        struct job *job = jobs->list;
        jobs->list = job->next;
        job_unref(job);
    }
    queue_free(&jobs->compile);
    queue_free(&jobs->device);
    ipu_free(jobs);
}
