/* Requests about jobs: info, status, list, cancel, watch, outputs, fetch: see proto/rpc.proto.
 *
 * Jobs that have not ended are answered from memory, the others from the store, off the loop.
 * Status and lists are open to all; events, outputs and cancelling only to the job's user, root,
 * and the daemon's own user.
 */
#include "daemon/conn.h"

#include "base/alloc.h"
#include "daemon/owner.h"
#include "daemon/pool.h"
#include "daemon/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int no_memory(struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_NO_MEMORY, "ipud is out of memory");
}

static void refuse(struct call *call)
{
    char text[96];
    snprintf(text, sizeof text, "job %" PRIu64 " belongs to another user", call->job);
    call_fail(call, IPU_ERR_INVALID, text);
}

static int run_load(struct store *store, struct storeq_op *op)
{
    return call_load_job(store, (struct call *)op);
}

/* --- info --- */

static uint64_t resident_bytes(void)
{
    char text[128] = "", *second;
    FILE *file = fopen("/proc/self/statm", "re"); /* pages: total, resident, ... */
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    strtoull(text, &second, 10);
    uint64_t resident = strtoull(second, NULL, 10);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

int call_info(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    struct daemon *daemon = call->daemon;
    Ipu__Rpc__Info info = IPU__RPC__INFO__INIT;
    char device[320];
    (void)request;
    (void)error;
    owner_describe(daemon->owner, device, sizeof device);
    info.version = (char *)DAEMON_VERSION;
    info.compiler_build = daemon->build;
    info.protocol = 1;
    info.pid = (uint32_t)getpid();
    info.started_us = daemon->started_us;
    info.state_dir = (char *)daemon->config->state_dir;
    info.socket = (char *)daemon->config->socket;
    info.device = (char *)daemon->config->device;
    info.device_state = device;
    info.resident_package = (char *)owner_resident(daemon->owner);
    info.workers = (uint32_t)daemon->config->workers;
    info.workers_busy = pool_busy(daemon->pool);
    info.connections = server_connections(daemon->server);
    info.draining = daemon->draining;
    info.degraded = (char *)storeq_degraded(daemon->store);
    info.memory_bytes = resident_bytes();
    info.worker_restarts = pool_deaths(daemon->pool);
    info.device_restarts = owner_deaths(daemon->owner);
    for (const struct job *job = daemon->jobs->list; job; job = job->next) {
        bool waits = job->state == JOB_QUEUED || job->state == JOB_WAITING;
        info.jobs_queued += waits;
        info.jobs_active += !waits;
    }
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_INFO, &info.base);
    return 0;
}

/* --- status and cancel --- */

static void reply_status(struct call *call)
{
    struct jobs_scratch scratch;
    Ipu__Rpc__JobStatus status;
    jobs_status(call->daemon->jobs, &call->row, &status, &scratch);
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_STATUS, &status.base);
}

int call_status(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    (void)error;
    call->job = ((const Ipu__Rpc__JobRequest *)request)->job;
    call_store(call, run_load, reply_status);
    return 0;
}

static void on_cancel(struct call *call)
{
    struct job *job = jobs_find(call->daemon->jobs, call->row.id);
    if (!call_may(call, call->row.uid)) {
        refuse(call);
        return;
    }
    if (job)
        jobs_stop(job, JOB_STOP_CANCEL);
    reply_status(call);
}

int call_cancel(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__JobRequest *wanted = (const Ipu__Rpc__JobRequest *)request;
    struct job *job = wanted->job ? jobs_find(call->daemon->jobs, wanted->job) : NULL;
    (void)error;
    call->job = wanted->job;
    if (job) { /* in memory: no need to wait for the store */
        call->row = job->row;
        on_cancel(call);
    } else {
        call_store(call, run_load, on_cancel);
    }
    return 0;
}

/* --- list --- */

static bool collect_job(void *context, const struct store_job *job)
{
    struct call *call = context;
    if (call->rows.size >= call->limit * sizeof *job) {
        call->more = true;
        return false;
    }
    buffer_append(&call->rows, job, sizeof *job);
    return true;
}

static int run_list(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    struct store_job_query query = {.before = call->before,
                                    .limit = (unsigned)call->limit + 1,
                                    .mine = call->mine,
                                    .active = call->active,
                                    .uid = call->uid};
    int rc = store_job_list(store, &query, collect_job, call, &op->error);
    return rc == 0 && call->rows.failed ? no_memory(&op->error) : rc;
}

static void reply_list(struct call *call)
{
    size_t count = call->rows.size / sizeof(struct store_job);
    const struct store_job *rows = (const struct store_job *)(void *)call->rows.data;
    Ipu__Rpc__JobList list = IPU__RPC__JOB_LIST__INIT;
    Ipu__Rpc__JobStatus *statuses = ipu_calloc(count + 1, sizeof *statuses);
    Ipu__Rpc__JobStatus **pointers = ipu_calloc(count + 1, sizeof(Ipu__Rpc__JobStatus *));
    struct jobs_scratch *scratch = ipu_calloc(count + 1, sizeof *scratch);
    if (statuses && pointers && scratch) {
        for (size_t i = 0; i < count; i++) {
            jobs_status(call->daemon->jobs, &rows[i], &statuses[i], &scratch[i]);
            statuses[i].n_results = 0;
            pointers[i] = &statuses[i];
        }
        list.n_jobs = count;
        list.jobs = pointers;
        list.more = call->more;
        call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_LIST, &list.base);
    } else {
        call_fail(call, IPU_ERR_NO_MEMORY, "ipud is out of memory");
    }
    ipu_free(statuses);
    ipu_free(pointers);
    ipu_free(scratch);
}

int call_list(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__ListRequest *list = (const Ipu__Rpc__ListRequest *)request;
    if (list->limit > 200)
        return ipu_error_set(error, IPU_ERR_LIMIT, "a list has at most 200 jobs a page");
    call->before = list->before;
    call->limit = list->limit ? list->limit : 50;
    call->mine = list->mine;
    call->active = list->active;
    call_store(call, run_list, reply_list);
    return 0;
}

/* --- watch --- */

static void on_watched(void *context)
{
    struct call *call = context;
    call->watch = NULL;
    call_end(call);
}

static void start_watch(struct call *call)
{
    struct job *job = jobs_find(call->daemon->jobs, call->row.id);
    if (!call_may(call, call->row.uid)) {
        refuse(call);
        return;
    }
    call->options.holds = job != NULL && call->options.follow;
    call->watch = watch_start(call->daemon, job, &call->row, &call->options, &call->conn->link,
                              call->number, on_watched, call);
    if (call->watch)
        watch_resume(call->watch);
    else
        call_fail(call, IPU_ERR_NO_MEMORY, "ipud is out of memory");
}

int call_watch(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__Watch *watch = (const Ipu__Rpc__Watch *)request;
    (void)error;
    call->job = watch->job;
    call->options = (struct watch_options){.from = watch->from,
                                           .follow = watch->follow,
                                           .logs_only = watch->logs_only,
                                           .profile = watch->profile,
                                           .level = watch->log_level};
    call_store(call, run_load, start_watch);
    return 0;
}

/* --- outputs --- */

static bool collect_output(void *context, const struct store_output *output)
{
    struct call *call = context;
    buffer_append(&call->rows, output, sizeof *output);
    return true;
}

static int run_outputs(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    int rc = call_load_job(store, call);
    if (rc == 0)
        rc = store_output_list(store, call->job, collect_output, call, &op->error);
    return rc == 0 && call->rows.failed ? no_memory(&op->error) : rc;
}

static void fill_output(const struct store_output *row, Ipu__Rpc__Output *output,
                        char digest[HASH_TEXT])
{
    ipu__rpc__output__init(output);
    hash_text(&row->digest, digest);
    output->name = (char *)row->name;
    output->type = row->type;
    output->n_shape = row->rank;
    output->shape = (uint64_t *)(uintptr_t)row->shape;
    output->bytes = row->bytes;
    output->digest = digest;
}

static void reply_outputs(struct call *call)
{
    Ipu__Rpc__Outputs reply = IPU__RPC__OUTPUTS__INIT;
    Ipu__Rpc__Output outputs[JOB_OUTPUTS], *pointers[JOB_OUTPUTS];
    char digests[JOB_OUTPUTS][HASH_TEXT];
    const struct store_output *rows = (const struct store_output *)(void *)call->rows.data;
    size_t count = call->rows.size / sizeof *rows;
    if (!call_may(call, call->row.uid)) {
        refuse(call);
        return;
    }
    for (size_t i = 0; i < count && i < JOB_OUTPUTS; i++) {
        fill_output(&rows[i], &outputs[i], digests[i]);
        pointers[i] = &outputs[i];
        reply.n_outputs++;
    }
    reply.outputs = pointers;
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_OUTPUTS, &reply.base);
}

int call_outputs(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    (void)error;
    call->job = ((const Ipu__Rpc__JobRequest *)request)->job;
    call_store(call, run_outputs, reply_outputs);
    return 0;
}

/* --- fetch --- */

static int not_there(struct call *call, const char *what)
{
    bool ended = job_state_terminal((enum job_state)call->row.state);
    return ipu_error_set(&call->op.error, IPU_ERR_NOT_FOUND, "job %" PRIu64 " has no %s%s",
                         call->job, what, ended ? "" : " yet");
}

static int find_output(struct store *store, struct call *call)
{
    int rc = store_output_list(store, call->job, collect_output, call, &call->op.error);
    const struct store_output *rows = (const struct store_output *)(void *)call->rows.data;
    size_t count = call->rows.size / sizeof *rows;
    if (rc)
        return rc;
    if (count == 0)
        return not_there(call, "outputs");
    if (call->name[0] == '\0' && count > 1)
        return ipu_error_set(&call->op.error, IPU_ERR_INVALID,
                             "job %" PRIu64 " has %zu outputs; name one", call->job, count);
    for (size_t i = 0; i < count; i++)
        if (call->name[0] == '\0' || strcmp(call->name, rows[i].name) == 0) {
            call->output = rows[i];
            return store_object_find(store, STORE_OUTPUT, &rows[i].digest, &call->object,
                                     &call->op.error);
        }
    return ipu_error_set(&call->op.error, IPU_ERR_NOT_FOUND, "job %" PRIu64 " has no output \"%s\"",
                         call->job, call->name);
}

static int find_search(struct store *store, struct call *call)
{
    bool known;
    int rc =
        store_workload_find(store, call->row.workload_key, &call->known, &known, &call->op.error);
    if (rc == 0 && !known)
        return not_there(call, "search state");
    if (rc == 0)
        rc = store_search_find(store, call->known.search_key, &call->search, &call->op.error);
    call->object = call->search.object;
    return rc;
}

static int find_object(struct store *store, struct call *call)
{
    struct ipu_error *error = &call->op.error;
    switch (call->kind) {
    case IPU__RPC__FETCH_KIND__FETCH_OUTPUT:
        return find_output(store, call);
    case IPU__RPC__FETCH_KIND__FETCH_PACKAGE:
        return call->row.has_package ? store_object_find(store, STORE_PACKAGE, &call->row.package,
                                                         &call->object, error)
                                     : not_there(call, "package");
    case IPU__RPC__FETCH_KIND__FETCH_PROFILE:
        return call->row.has_profile ? store_object_find(store, STORE_PROFILE, &call->row.profile,
                                                         &call->object, error)
                                     : not_there(call, "profile");
    case IPU__RPC__FETCH_KIND__FETCH_WORKLOAD:
        return store_object_find(store, STORE_WORKLOAD, &call->row.workload, &call->object, error);
    default:
        return find_search(store, call);
    }
}

static int run_fetch(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    int rc = call_load_job(store, call);
    if (rc || !call_may(call, call->row.uid))
        return rc;
    rc = find_object(store, call);
    if (rc == IPU_ERR_NOT_FOUND && strncmp(op->error.text, "store:", 6) == 0)
        return ipu_error_set(&op->error, rc,
                             "it is no longer stored: the cache needed the room; submit again");
    return rc;
}

static void on_fetched(void *context, int rc, const struct ipu_error *error)
{
    struct call *call = context;
    call->feed = NULL;
    if (rc)
        call_fail(call, rc, error->text);
    else
        call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_OK, NULL);
}

static void start_fetch(struct call *call)
{
    Ipu__Rpc__FetchBegin begin = IPU__RPC__FETCH_BEGIN__INIT;
    Ipu__Rpc__Output output;
    char digest[HASH_TEXT], output_digest[HASH_TEXT];
    if (!call_may(call, call->row.uid)) {
        refuse(call);
        return;
    }
    hash_text(&call->object.digest, digest);
    begin.job = call->job;
    begin.bytes = call->object.bytes;
    begin.digest = digest;
    if (call->kind == IPU__RPC__FETCH_KIND__FETCH_OUTPUT) {
        fill_output(&call->output, &output, output_digest);
        begin.output = &output;
    }
    call_send(call, IPU__RPC__FRAME_TYPE__REPLY_FETCH, &begin.base);
    call->feed = feed_start(call->daemon->store, &call->object, &call->conn->link,
                            IPU__RPC__FRAME_TYPE__REPLY_DATA, call->number, on_fetched, call);
    if (!call->feed)
        call_fail(call, IPU_ERR_NO_MEMORY, "ipud is out of memory");
}

int call_fetch(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__Fetch *fetch = (const Ipu__Rpc__Fetch *)request;
    if ((int)fetch->kind < 0 || fetch->kind > IPU__RPC__FETCH_KIND__FETCH_WORKLOAD)
        return ipu_error_set(error, IPU_ERR_INVALID, "there is no kind %d of things to fetch",
                             (int)fetch->kind);
    if (strlen(fetch->name) >= CALL_ARGUMENT)
        return ipu_error_set(error, IPU_ERR_LIMIT, "the name of the output is too long");
    call->job = fetch->job;
    call->kind = (int)fetch->kind;
    snprintf(call->name, sizeof call->name, "%s", fetch->name);
    call_store(call, run_fetch, start_fetch);
    return 0;
}
