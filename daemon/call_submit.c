/* Submitting: begin, chunks, end: see proto/rpc.proto.
 *
 * The upload goes to the store as it comes; memory holds at most INTAKE_HIGH bytes of it, and
 * reading from the client pauses above that. The reply is sent when the job has been committed. It
 * fails when sizes do not add up, when the user has too many jobs waiting, or when the store cannot
 * take it.
 */
#include "daemon/conn.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint64_t WORKLOAD_LIMIT = (uint64_t)1 << 30;

static int check_name(const char *name, struct ipu_error *error)
{
    size_t length = strlen(name);
    bool printable = true;
    for (size_t i = 0; i < length; i++)
        printable = printable && (unsigned char)name[i] >= ' ' && name[i] != 127;
    if (length < STORE_NAME && printable)
        return 0;
    return ipu_error_set(error, IPU_ERR_INVALID, "a job's name is at most %d printable characters",
                         STORE_NAME - 1);
}

static int check_limits(const struct call *call, const Ipu__Rpc__SubmitBegin *begin,
                        struct ipu_error *error)
{
    const struct jobs *jobs = call->daemon->jobs;
    size_t waiting =
        queue_count_user(&jobs->compile, call->uid) + queue_count_user(&jobs->device, call->uid);
    if (call->daemon->draining)
        return ipu_error_set(error, IPU_ERR_BUSY, "ipud is shutting down; submit again later");
    if (begin->size == 0 || begin->size > WORKLOAD_LIMIT)
        return ipu_error_set(error, IPU_ERR_LIMIT,
                             "a workload file has 1 to %" PRIu64 " bytes, not %" PRIu64,
                             WORKLOAD_LIMIT, begin->size);
    if (begin->priority < -10 || begin->priority > 10)
        return ipu_error_set(error, IPU_ERR_INVALID, "a priority is -10 to 10, not %d",
                             begin->priority);
    if (begin->priority > 0 && !call_may(call, UINT32_MAX))
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "a priority above 0 is for root and the user of ipud");
    if (waiting >= (size_t)call->daemon->config->max_queued_per_user)
        return ipu_error_set(error, IPU_ERR_LIMIT,
                             "you have %zu jobs waiting, the limit of this ipud", waiting);
    return check_name(begin->name, error);
}

static void on_room(void *context)
{
    struct call *call = context;
    link_resume(&call->conn->link);
}

int call_submit_begin(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__SubmitBegin *begin = (const Ipu__Rpc__SubmitBegin *)request;
    int rc = check_limits(call, begin, error);
    if (rc)
        return rc;
    snprintf(call->row.name, sizeof call->row.name, "%s", begin->name);
    call->row.uid = call->uid;
    call->bytes = begin->size;
    call->row.detached = begin->detach;
    call->row.no_cache = begin->no_cache;
    call->row.priority = begin->priority;
    call->row.log_level = (int)begin->log_level;
    call->intake = intake_start(call->daemon->store, STORE_WORKLOAD, begin->size);
    if (!call->intake)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "ipud is out of memory");
    intake_on_drained(call->intake, on_room, call);
    return 0;
}

int call_submit_chunk(struct call *call, const struct frame *frame, struct ipu_error *error)
{
    if (!call->intake || call->in_store)
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "protocol: a chunk without an upload");
    if (frame->size == 0 || frame->size > intake_missing(call->intake))
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "the upload has more bytes than the %" PRIu64 " announced",
                             call->bytes);
    if (!intake_append(call->intake, frame->body, frame->size))
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "ipud is out of memory");
    if (intake_full(call->intake))
        link_pause(&call->conn->link);
    return 0;
}

/* --- the end: object, job, reply --- */

/* Jobs that have ended need nobody: a connection that submits for ever holds only live ones. */
static void let_ended_go(struct conn *conn)
{
    size_t kept = 0;
    for (size_t i = 0; i < conn->held_count; i++) {
        struct job *job = conn->held[i];
        if (!job_state_terminal(job->state)) {
            conn->held[kept++] = job;
            continue;
        }
        jobs_release(job);
        job_unref(job);
    }
    conn->held_count = kept;
}

static void hold(struct conn *conn, struct job *job)
{
    let_ended_go(conn);
    if (conn->held_count == conn->held_capacity) {
        size_t capacity = conn->held_capacity ? conn->held_capacity * 2 : 8;
        struct job **held = ipu_realloc(conn->held, capacity * sizeof(struct job *));
        if (!held)
            return; /* without memory the job is simply not attached */
        conn->held = held;
        conn->held_capacity = capacity;
    }
    job_ref(job);
    jobs_hold(job);
    conn->held[conn->held_count++] = job;
}

static void on_watched(void *context)
{
    struct call *call = context;
    call->watch = NULL;
    call_end(call);
}

static void answer(struct call *call, struct job *job)
{
    Ipu__Rpc__Submitted submitted = IPU__RPC__SUBMITTED__INIT;
    char digest[HASH_TEXT];
    struct conn *conn = call->conn;
    hash_text(&job->row.workload, digest);
    submitted.job = job->row.id;
    submitted.workload = digest;
    submitted.position = jobs_position(job);
    call_send(call, IPU__RPC__FRAME_TYPE__REPLY_SUBMITTED, &submitted.base);
    if (job->attached)
        hold(conn, job);
    if (!call->options.follow) {
        call_end(call);
        return;
    }
    call->options.from = 1;
    call->options.holds = true;
    call->watch = watch_start(call->daemon, job, NULL, &call->options, &conn->link, call->number,
                              on_watched, call);
    if (!call->watch)
        call_fail(call, IPU_ERR_NO_MEMORY, "ipud is out of memory; the job goes on");
    else
        watch_resume(call->watch);
}

static void on_job(void *context, struct job *job, int rc, const struct ipu_error *error)
{
    struct call *call = context;
    call->in_store = false;
    if (!call->conn) {
        /* Accepted, but nobody was there to be told: an attached job has lost its only holder. */
        if (job && job->attached)
            jobs_stop(job, JOB_STOP_CANCEL);
        call_end_orphan(call);
        return;
    }
    if (!job)
        call_fail(call, rc, error->text);
    else
        answer(call, job);
}

static void on_uploaded(void *context, int rc, const struct store_object *object,
                        const struct ipu_error *error)
{
    struct call *call = context;
    call->intake = NULL;
    if (rc) {
        call_fail(call, rc, error->text);
        return;
    }
    call->in_store = true;
    jobs_submit(call->daemon->jobs, &call->row, object, on_job, call);
}

int call_submit_end(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__SubmitEnd *end = (const Ipu__Rpc__SubmitEnd *)request;
    if (!call->intake || call->in_store || call->found)
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "protocol: the end of an upload twice");
    if (intake_missing(call->intake))
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "the upload ended %" PRIu64 " bytes short of its announced size",
                             intake_missing(call->intake));
    call->options.follow = end->watch;
    call->options.level = (Ipu__Rpc__LogLevel)call->row.log_level;
    call->found = true; /* the end has come */
    intake_finish(call->intake, on_uploaded, call);
    return 0;
}
