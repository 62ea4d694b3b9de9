/* The compile workers: see pool.h.
 *
 * A worker takes checks before compiles, as a job that has run holds results that others wait for.
 * Invariant: everything that a worker asks of the store is answered for the task that asked: an
 * answer whose `serial` is old is dropped. What a compile made is linked to its keys in one store
 * operation, and only after its commit does the job go on.
 */
#include "daemon/pool.h"

#include "base/alloc.h"
#include "daemon/child.h"
#include "daemon/verdict.h"
#include "daemon/worker.h"
#include "proto/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TICK_MS = 100, KERNEL_LIMIT = FRAME_BULK_LIMIT };

struct pool {
    struct daemon *daemon;
    struct worker *workers;
    size_t count;
    uv_timer_t timer;
    bool closing;
    char memory[24], cpu[24], sandbox[24];
    const char *arguments[16];
};

/* --- answers of the store --- */

/* One question of a worker to the store. */
struct question {
    struct storeq_op op;
    struct worker *worker;
    unsigned serial;
    struct store_workload known;
    char workload_key[STORE_KEY_TEXT];
    bool no_cache;
    struct store_package package;
    struct store_search search;
    bool found, has_search;
    char kernel[STORE_KEY_TEXT], kernel_name[STORE_NAME];
    struct buffer object;
    uint32_t uid;
};

static struct question *ask(struct worker *worker,
                            int (*run)(struct store *store, struct storeq_op *op),
                            void (*done)(struct storeq_op *op))
{
    struct question *q = ipu_calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->op.run = run;
    q->op.done = done;
    q->op.relaxed = true; /* of caches: what a power cut takes is made again */
    q->worker = worker;
    q->serial = worker->serial;
    return q;
}

static bool current(const struct question *q)
{
    return q->worker->state == WORKER_BUSY && q->worker->serial == q->serial;
}

static void free_question(struct question *q)
{
    buffer_free(&q->object);
    ipu_free(q);
}

static int no_memory(struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
}

/* --- keys --- */

static int run_keys(struct store *store, struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    int rc = store_workload_put(store, q->workload_key, &q->known, &op->error);
    if (rc == 0 && !q->no_cache)
        rc = store_package_find(store, q->known.package_key, &q->package, &q->found, &op->error);
    if (rc || q->found)
        return rc;
    rc = store_search_find(store, q->known.search_key, &q->search, &op->error);
    q->has_search = rc == 0;
    if (q->has_search)
        store_pin(store, q->search.object.id);
    return rc == IPU_ERR_NOT_FOUND || rc == IPU_ERR_INVALID ? 0 : rc;
}

static void on_keys_known(struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    struct worker *worker = q->worker;
    Ipu__Worker__KeysAnswer answer = IPU__WORKER__KEYS_ANSWER__INIT;
    if (op->rc)
        q->found = q->has_search = false; /* a store that fails costs the caches, not the job */
    if (current(q)) {
        answer.cached = q->found;
        answer.search_bytes = q->has_search ? q->search.object.bytes : 0;
        link_send_message(&worker->proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_KEYS_ANSWER, 0,
                          &answer.base);
        if (q->has_search)
            worker_feed(worker, &q->search.object);
        worker->job->package = q->package;
        worker->job->row.package_cached = q->found;
    }
    if (q->has_search)
        transfer_unpin(worker->daemon->store, q->search.object.id);
    free_question(q);
}

static void note_keys(struct job *job, const Ipu__Worker__Keys *keys)
{
    struct store_workload *known = &job->known;
    memset(known, 0, sizeof *known);
    snprintf(known->package_key, sizeof known->package_key, "%s", keys->package_key);
    snprintf(known->search_key, sizeof known->search_key, "%s", keys->search_key);
    snprintf(known->name, sizeof known->name, "%s", keys->name);
    if (job->row.name[0] == '\0')
        memcpy(job->row.name, known->name, sizeof job->row.name);
    if (keys->facts) {
        job->facts = *keys->facts;
        job->facts.base.n_unknown_fields = 0;
        job->facts.base.unknown_fields = NULL;
        known->facts_size = ipu__worker__facts__get_packed_size(&job->facts);
        if (known->facts_size <= sizeof known->facts)
            ipu__worker__facts__pack(&job->facts, known->facts);
        else
            known->facts_size = 0;
    }
    job->is_known = true;
}

static int on_keys(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    Ipu__Worker__Keys *keys =
        (Ipu__Worker__Keys *)worker_unpack(frame, &ipu__worker__keys__descriptor, error);
    struct job *job = worker->job;
    if (!keys || !job) {
        scan_free((ProtobufCMessage *)keys);
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "unexpected keys");
    }
    note_keys(job, keys);
    scan_free(&keys->base);
    if (job->facts.compile_timeout_ms &&
        job->facts.compile_timeout_ms < worker->daemon->config->compile_timeout_ms)
        worker->deadline_ms = uv_now(worker->daemon->loop) + job->facts.compile_timeout_ms;
    struct question *q = ask(worker, run_keys, on_keys_known);
    if (!q)
        return no_memory(error);
    q->known = job->known;
    q->no_cache = job->row.no_cache;
    memcpy(q->workload_key, job->row.workload_key, sizeof q->workload_key);
    storeq_push(worker->daemon->store, &q->op);
    return 0;
}

/* --- kernels --- */

static int run_kernel_find(struct store *store, struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    return store_kernel_find(store, q->kernel, &q->object, &q->found, &op->error);
}

static void on_kernel_found(struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    Ipu__Worker__Kernel answer = IPU__WORKER__KERNEL__INIT;
    answer.key = q->kernel;
    answer.found = op->rc == 0 && q->found && q->object.size <= KERNEL_LIMIT;
    if (answer.found) {
        answer.object.data = q->object.data;
        answer.object.len = q->object.size;
    }
    if (current(q))
        link_send_message(&q->worker->proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_KERNEL_ANSWER, 0,
                          &answer.base);
    free_question(q);
}

static int run_kernel_store(struct store *store, struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    return store_kernel_put(store, q->kernel, q->kernel_name, q->object.data, q->object.size,
                            &op->error);
}

static void on_kernel_stored(struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    if (op->rc)
        log_event(q->worker->daemon->log, LOG_LEVEL_WARN, "store", "cannot keep a kernel",
                  "key=%.16s reason=\"%s\"", q->kernel, op->error.text);
    free_question(q);
}

static int on_kernel(struct worker *worker, const struct frame *frame, bool find,
                     struct ipu_error *error)
{
    Ipu__Worker__Kernel *kernel =
        (Ipu__Worker__Kernel *)worker_unpack(frame, &ipu__worker__kernel__descriptor, error);
    if (!kernel)
        return IPU_ERR_PROTOCOL;
    struct question *q = find ? ask(worker, run_kernel_find, on_kernel_found)
                              : ask(worker, run_kernel_store, on_kernel_stored);
    if (q) {
        snprintf(q->kernel, sizeof q->kernel, "%s", kernel->key);
        snprintf(q->kernel_name, sizeof q->kernel_name, "%s", kernel->name);
        buffer_append(&q->object, kernel->object.data, kernel->object.len);
    }
    scan_free(&kernel->base);
    if (!q || q->object.failed) {
        if (q)
            free_question(q);
        return no_memory(error);
    }
    storeq_push(worker->daemon->store, &q->op);
    return 0;
}

/* --- the end of a compile --- */

static int run_compiled(struct store *store, struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    int rc = store_package_put(store, q->known.package_key, &q->package, &op->error);
    if (rc == 0 && q->has_search)
        rc = store_search_put(store, &q->search, &op->error);
    return rc;
}

static void on_compiled(struct storeq_op *op)
{
    struct question *q = (struct question *)op;
    struct worker *worker = q->worker;
    if (current(q)) {
        struct job *job = worker->job;
        struct ipu_error error = op->error;
        int rc = op->rc;
        job->package = q->package;
        if (rc == 0)
            jobs_compiled(job); /* pins the package through the row before our pin goes */
        worker_end(worker);
        if (rc)
            jobs_task_failed(job, rc, error.text);
        pool_kick(worker->daemon->pool);
    }
    free_question(q);
}

static void link_results(struct worker *worker)
{
    struct job *job = worker->job;
    struct question *q = ask(worker, run_compiled, on_compiled);
    if (!q) {
        worker_kill(worker);
        return;
    }
    const Ipu__Worker__Compiled *compiled = worker->compiled;
    q->known = job->known;
    q->package =
        (struct store_package){worker->package, compiled->estimated_cycles, compiled->elapsed_ms};
    q->has_search = worker->has_search;
    q->search = (struct store_search){.uid = job->row.uid,
                                      .attempts = compiled->search_attempts,
                                      .best_cycles = compiled->estimated_cycles,
                                      .object = worker->search};
    memcpy(q->search.key, job->known.search_key, sizeof q->search.key);
    snprintf(q->search.workload, sizeof q->search.workload, "%s", job->known.name);
    storeq_push(worker->daemon->store, &q->op);
}

static void on_settled(struct worker *worker)
{
    struct job *job = worker->job;
    if (!worker->compiled) {
        worker_kill(worker); /* only the device owner runs */
    } else if (worker->compiled->skipped) {
        worker_end(worker);
        jobs_compiled(job);
        pool_kick(worker->daemon->pool);
    } else if (!worker->package.id) {
        worker_kill(worker); /* said that it compiled, but sent nothing */
    } else {
        link_results(worker);
    }
}

static int on_checked(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    Ipu__Worker__Checked *checked =
        (Ipu__Worker__Checked *)worker_unpack(frame, &ipu__worker__checked__descriptor, error);
    struct job *job = worker->job;
    if (!checked || !job || worker->task != WORKER_TASK_CHECK) {
        scan_free((ProtobufCMessage *)checked);
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "unexpected end of a check");
    }
    worker_end(worker);
    if (job->workload.bytes > CHILD_KEEP_BYTES)
        worker->held[0] = '\0';
    job->row.check_ms = checked->elapsed_ms;
    const char *line = checked->n_lines ? checked->lines[0] : "";
    if (checked->passed)
        verdict_keep(job, line);
    jobs_checked(job, checked->passed, checked->reason, line);
    scan_free(&checked->base);
    pool_kick(worker->daemon->pool);
    return 0;
}

static int on_message(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    switch (frame->type) {
    case IPU__WORKER__MESSAGE_TYPE__WORKER_KEYS:
        return on_keys(worker, frame, error);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_KERNEL_FIND:
        return on_kernel(worker, frame, true, error);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_KERNEL_STORE:
        return on_kernel(worker, frame, false, error);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_CHECKED:
        return on_checked(worker, frame, error);
    default:
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "unexpected message %u", frame->type);
    }
}

/* --- giving work --- */

static unsigned threads(const struct daemon *daemon)
{
    return (unsigned)daemon->config->threads;
}

/* Whether the child still has the workload; afterwards it will. */
static bool hold_workload(struct worker *worker, struct job *job, char digest[HASH_TEXT])
{
    hash_text(&job->row.workload, digest);
    bool held = strcmp(worker->held, digest) == 0;
    memcpy(worker->held, digest, HASH_TEXT);
    return held;
}

static void give_compile(struct worker *worker, struct job *job)
{
    Ipu__Worker__CompileTask task = IPU__WORKER__COMPILE_TASK__INIT;
    char digest[HASH_TEXT];
    worker_begin(worker, job, WORKER_TASK_COMPILE, worker->daemon->config->compile_timeout_ms);
    task.job = job->row.id;
    task.resident = hold_workload(worker, job, digest);
    task.workload = digest;
    task.workload_bytes = job->workload.bytes;
    task.log_level = job_log_level(job);
    task.threads = threads(worker->daemon);
    link_send_message(&worker->proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_COMPILE, 0, &task.base);
    if (!task.resident)
        worker_feed(worker, &job->workload);
}

static void give_check(struct worker *worker, struct job *job)
{
    Ipu__Worker__CheckTask task = IPU__WORKER__CHECK_TASK__INIT;
    Ipu__Worker__Stream streams[JOB_OUTPUTS], *pointers[JOB_OUTPUTS];
    char digest[HASH_TEXT];
    worker_begin(worker, job, WORKER_TASK_CHECK, worker->daemon->config->check_timeout_ms);
    for (size_t i = 0; i < job->output_count; i++) {
        ipu__worker__stream__init(&streams[i]);
        streams[i].kind = IPU__WORKER__STREAM_KIND__STREAM_OUTPUT;
        streams[i].name = job->outputs[i].name;
        streams[i].bytes = job->outputs[i].bytes;
        pointers[i] = &streams[i];
    }
    task.job = job->row.id;
    task.resident = hold_workload(worker, job, digest);
    task.workload = digest;
    task.workload_bytes = job->workload.bytes;
    task.log_level = job_log_level(job);
    task.threads = threads(worker->daemon);
    task.n_outputs = job->output_count;
    task.outputs = pointers;
    task.cycles = job->cycles;
    task.minimum_cycles = job->minimum_cycles;
    task.estimated_cycles = job->package.estimated_cycles;
    task.input_bytes = job->input_bytes;
    task.weight_bytes = job->weight_bytes;
    task.active_tiles = job->active_tiles;
    task.inferences = job->facts.inferences;
    link_send_message(&worker->proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_CHECK, 0, &task.base);
    if (!task.resident)
        worker_feed(worker, &job->workload);
    for (size_t i = 0; i < job->output_count; i++)
        worker_feed(worker, &job->output_objects[i]);
}

static void kick_worker(struct pool *pool, struct worker *worker)
{
    if (worker->state != WORKER_IDLE)
        return;
    struct job *job = jobs_next_check(pool->daemon->jobs, worker->held);
    if (job) {
        give_check(worker, job);
        return;
    }
    job = jobs_next_compile(pool->daemon->jobs);
    if (job)
        give_compile(worker, job);
}

void pool_kick(struct pool *pool)
{
    if (!pool || pool->closing)
        return;
    for (size_t i = 0; i < pool->count; i++)
        if (pool->workers[i].held[0]) /* a check goes to the worker that still has its workload */
            kick_worker(pool, &pool->workers[i]);
    for (size_t i = 0; i < pool->count; i++)
        kick_worker(pool, &pool->workers[i]);
}

void pool_hand_over(struct worker *worker, struct job *heir)
{
    worker->job = heir;
}

static void on_idle(struct worker *worker)
{
    struct pool *pool = worker->daemon->pool;
    if (pool && !pool->closing) {
        worker_start(worker);
        pool_kick(pool);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    for (size_t i = 0; i < pool->count; i++)
        worker_tick(&pool->workers[i]);
}

/* --- the pool itself --- */

int pool_create(struct daemon *daemon, struct pool **out, struct ipu_error *error)
{
    struct pool *pool = ipu_calloc(1, sizeof *pool);
    *out = pool;
    if (!pool)
        return no_memory(error);
    pool->daemon = daemon;
    pool->count = (size_t)daemon->config->workers;
    pool->workers = ipu_calloc(pool->count, sizeof *pool->workers);
    if (!pool->workers)
        return no_memory(error);
    snprintf(pool->memory, sizeof pool->memory, "%ld", daemon->config->worker_memory_mib);
    snprintf(pool->cpu, sizeof pool->cpu, "%ld", daemon->config->worker_cpu_s);
    snprintf(pool->sandbox, sizeof pool->sandbox, "%ld", daemon->config->sandbox);
    const char *arguments[] = {"ipud-compile",
                               "--worker",
                               "compile",
                               "--fd",
                               "3",
                               "--memory-mib",
                               pool->memory,
                               "--cpu-s",
                               pool->cpu,
                               "--sandbox",
                               pool->sandbox,
                               "--flag-headers",
                               daemon->config->flag_headers,
                               NULL};
    memcpy(pool->arguments, arguments, sizeof arguments);
    for (size_t i = 0; i < pool->count; i++) {
        struct worker *worker = &pool->workers[i];
        worker_init(worker, daemon, pool->arguments);
        worker->kind = "compile";
        worker->message = on_message;
        worker->settled = on_settled;
        worker->idle = on_idle;
        worker_start(worker);
    }
    uv_timer_init(daemon->loop, &pool->timer);
    pool->timer.data = pool;
    uv_timer_start(&pool->timer, on_tick, TICK_MS, TICK_MS);
    return 0;
}

unsigned pool_busy(const struct pool *pool)
{
    unsigned n = 0;
    for (size_t i = 0; i < pool->count; i++)
        n += pool->workers[i].state == WORKER_BUSY;
    return n;
}

uint64_t pool_deaths(const struct pool *pool)
{
    uint64_t n = 0;
    for (size_t i = 0; i < pool->count; i++)
        n += pool->workers[i].deaths;
    return n;
}

void pool_close(struct pool *pool)
{
    if (!pool->closing)
        uv_close((uv_handle_t *)&pool->timer, NULL);
    pool->closing = true;
    for (size_t i = 0; i < pool->count; i++)
        worker_kill(&pool->workers[i]);
}

bool pool_closed(const struct pool *pool)
{
    for (size_t i = 0; i < pool->count; i++)
        if (!proc_free(&pool->workers[i].proc))
            return false;
    return true;
}

void pool_free(struct pool *pool)
{
    ipu_free(pool->workers);
    ipu_free(pool);
}
