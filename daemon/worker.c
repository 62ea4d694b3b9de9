/* What compile workers and the device owner share: see worker.h.
 *
 * Invariants: BUSY exactly while `job` is set or a self-test goes on; at most one stream comes in
 * at a time, and its bytes reach the store in order; `settled` is called when the end message has
 * come and every stream of the task is in the store. A child that breaks the protocol, misses its
 * heartbeat or its deadline is killed, and its job is told. A process that does not get ready is
 * tried again after a pause that doubles up to 10 s.
 */
#include "daemon/worker.h"

#include "base/alloc.h"
#include "proto/scan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct scan_limits message_limits = {8, 1 << 16, 2 * FRAME_BULK_LIMIT, 8 << 20};

ProtobufCMessage *worker_unpack(const struct frame *frame,
                                const ProtobufCMessageDescriptor *descriptor,
                                struct ipu_error *error)
{
    ProtobufCMessage *out;
    return scan_unpack(descriptor, frame->body, frame->size, &message_limits, &out, error) ? NULL
                                                                                           : out;
}

/* --- events of the task --- */

static void on_log(struct worker *worker, const Ipu__Worker__Log *log)
{
    struct log_record record = {log->time_us,
                                (enum log_level)(log->level < 4 ? log->level : LOG_LEVEL_INFO),
                                log->phase, log->message, log->fields};
    if (worker->job)
        job_log_record(worker->job, &record);
    else if (worker->task == WORKER_TASK_SELFTEST)
        log_write(worker->daemon->log, &record);
}

static void on_phase(struct worker *worker, const Ipu__Worker__Phase *phase)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__PhaseEvent ended = IPU__RPC__PHASE_EVENT__INIT;
    if (!worker->job)
        return;
    snprintf(worker->job->phase, sizeof worker->job->phase, "%s", phase->phase);
    ended.phase = phase->phase;
    ended.elapsed_ms = phase->elapsed_ms;
    ended.success = phase->success;
    event.kind_case = IPU__RPC__EVENT__KIND_PHASE;
    event.phase = &ended;
    job_event(worker->job, &event, true);
}

static void on_progress(struct worker *worker, const Ipu__Worker__Progress *progress)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__ProgressEvent now = IPU__RPC__PROGRESS_EVENT__INIT;
    if (!worker->job)
        return;
    snprintf(worker->job->phase, sizeof worker->job->phase, "%s", progress->phase);
    worker->job->progress = progress->fraction < 0 ? 0 : progress->fraction;
    now.phase = progress->phase;
    now.fraction = progress->fraction;
    now.best_cycles = progress->best_cycles;
    now.candidates = progress->candidates;
    now.candidates_per_second = progress->candidates_per_second;
    now.since_improvement_ms = progress->since_improvement_ms;
    event.kind_case = IPU__RPC__EVENT__KIND_PROGRESS;
    event.progress = &now;
    job_event(worker->job, &event, false);
}

/* --- feeding --- */

static void feed_next(struct worker *worker);

static void on_fed(void *context, int rc, const struct ipu_error *error)
{
    struct worker *worker = context;
    worker->feed = NULL;
    if (rc == 0) {
        feed_next(worker);
        return;
    }
    /* The child gives the task up with our words; the job then decides what to do. */
    Ipu__Worker__Failure lost = IPU__WORKER__FAILURE__INIT;
    lost.code = rc;
    lost.text = (char *)error->text;
    lost.detail = (char *)"";
    worker->feed_count = worker->feed_next = 0;
    link_send_message(&worker->proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_DATA_LOST, 0,
                      &lost.base);
}

static void feed_next(struct worker *worker)
{
    if (worker->feed || worker->feed_next == worker->feed_count)
        return;
    const struct store_object *object = &worker->feeds[worker->feed_next++];
    worker->feed = feed_start(worker->daemon->store, object, &worker->proc.link,
                              IPU__WORKER__MESSAGE_TYPE__WORKER_DATA, 0, on_fed, worker);
    if (!worker->feed)
        worker_kill(worker);
}

void worker_feed(struct worker *worker, const struct store_object *object)
{
    assert(worker->feed_count < WORKER_FEEDS);
    worker->feeds[worker->feed_count++] = *object;
    feed_next(worker);
}

static void on_drained(struct proc *proc)
{
    struct worker *worker = proc->owner;
    if (worker->feed)
        feed_resume(worker->feed);
}

/* --- taking streams in --- */

static void settle(struct worker *worker)
{
    if ((worker->compiled || worker->ran) && worker->storing == 0 && !worker->intake)
        worker->settled(worker);
}

struct stored { /* what an intake was for */
    struct worker *worker;
    unsigned serial;
    Ipu__Worker__Stream *stream;
};

static void add_output(struct job *job, const Ipu__Worker__Stream *stream,
                       const struct store_object *object)
{
    struct store_output *output = &job->outputs[job->output_count];
    *output = (struct store_output){.type = stream->type,
                                    .bytes = object->bytes,
                                    .digest = object->digest,
                                    .rank = (unsigned)stream->n_shape};
    snprintf(output->name, sizeof output->name, "%s", stream->name);
    for (size_t i = 0; i < stream->n_shape && i < STORE_OUTPUT_RANK; i++)
        output->shape[i] = stream->shape[i];
    job->output_objects[job->output_count++] = *object;
}

static void take_object(struct worker *worker, const Ipu__Worker__Stream *stream,
                        const struct store_object *object)
{
    switch (stream->kind) {
    case IPU__WORKER__STREAM_KIND__STREAM_PACKAGE:
        worker->package = *object;
        break;
    case IPU__WORKER__STREAM_KIND__STREAM_SEARCH:
        worker->search = *object;
        worker->has_search = true;
        break;
    case IPU__WORKER__STREAM_KIND__STREAM_OUTPUT:
        add_output(worker->job, stream, object);
        break;
    default:
        worker->job->profile = *object;
        worker->job->row.profile = object->digest;
        worker->job->row.has_profile = true;
        break;
    }
}

static void on_stored(void *context, int rc, const struct store_object *object,
                      const struct ipu_error *error)
{
    struct stored *stored = context;
    struct worker *worker = stored->worker;
    bool current = worker->job && worker->serial == stored->serial && worker->state == WORKER_BUSY;
    if (rc == 0 && current)
        take_object(worker, stored->stream, object);
    else if (rc == 0)
        transfer_unpin(worker->daemon->store, object->id);
    else if (current)
        log_event(worker->daemon->log, LOG_LEVEL_ERROR, "worker", "cannot store what a worker made",
                  "job=%" PRIu64 " reason=\"%s\"", worker->job->row.id, error->text);
    scan_free(&stored->stream->base);
    ipu_free(stored);
    if (!current)
        return;
    worker->storing--;
    if (rc) { /* without its result the task has failed */
        struct job *job = worker->job;
        struct ipu_error copy = *error;
        worker_kill(worker);
        worker->job = NULL;
        jobs_task_failed(job, rc, copy.text);
        return;
    }
    settle(worker);
}

static void on_stream_room(void *context)
{
    struct worker *worker = context;
    link_resume(&worker->proc.link);
}

static int end_stream(struct worker *worker, struct ipu_error *error)
{
    struct stored *stored = ipu_calloc(1, sizeof *stored);
    if (!stored)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    stored->worker = worker;
    stored->serial = worker->serial;
    stored->stream = worker->stream;
    struct intake *intake = worker->intake;
    worker->stream = NULL;
    worker->intake = NULL;
    worker->storing++;
    intake_on_drained(intake, NULL, NULL);
    link_resume(&worker->proc.link);
    intake_finish(intake, on_stored, stored);
    return 0;
}

static enum store_kind stream_kind(const Ipu__Worker__Stream *stream)
{
    switch (stream->kind) {
    case IPU__WORKER__STREAM_KIND__STREAM_PACKAGE:
        return STORE_PACKAGE;
    case IPU__WORKER__STREAM_KIND__STREAM_SEARCH:
        return STORE_SEARCH;
    case IPU__WORKER__STREAM_KIND__STREAM_OUTPUT:
        return STORE_OUTPUT;
    case IPU__WORKER__STREAM_KIND__STREAM_PROFILE:
        return STORE_PROFILE;
    default:
        return STORE_NONE;
    }
}

static int on_stream(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    Ipu__Worker__Stream *stream =
        (Ipu__Worker__Stream *)worker_unpack(frame, &ipu__worker__stream__descriptor, error);
    if (!stream)
        return IPU_ERR_PROTOCOL;
    bool fits = worker->job && !worker->intake && stream_kind(stream) != STORE_NONE &&
                stream->n_shape <= STORE_OUTPUT_RANK && strlen(stream->name) < STORE_OUTPUT_NAME &&
                worker->job->output_count + worker->storing < JOB_OUTPUTS;
    if (fits)
        worker->intake = intake_start(worker->daemon->store, stream_kind(stream), stream->bytes);
    if (!worker->intake) {
        scan_free(&stream->base);
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "unexpected stream");
    }
    worker->stream = stream;
    intake_on_drained(worker->intake, on_stream_room, worker);
    return stream->bytes == 0 ? end_stream(worker, error) : 0;
}

static void send_profile_chunk(struct worker *worker, const struct frame *frame)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__ProfileChunk chunk = IPU__RPC__PROFILE_CHUNK__INIT;
    uint64_t offset = worker->stream->bytes - intake_missing(worker->intake);
    enum { PIECE = 256 << 10 }; /* an event fits a reply with room to spare */
    for (size_t at = 0; at < frame->size; at += PIECE) {
        chunk.offset = offset + at;
        chunk.total = worker->stream->bytes;
        chunk.data.data = (uint8_t *)(uintptr_t)frame->body + at;
        chunk.data.len = frame->size - at < PIECE ? frame->size - at : PIECE;
        event.time_us = 0;
        event.kind_case = IPU__RPC__EVENT__KIND_PROFILE;
        event.profile = &chunk;
        job_event(worker->job, &event, false);
    }
}

static int on_data(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    if (!worker->intake || frame->size > intake_missing(worker->intake))
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "unexpected data");
    if (worker->stream->kind == IPU__WORKER__STREAM_KIND__STREAM_PROFILE)
        send_profile_chunk(worker, frame);
    if (!intake_append(worker->intake, frame->body, frame->size))
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    if (intake_missing(worker->intake) == 0)
        return end_stream(worker, error);
    if (intake_full(worker->intake))
        link_pause(&worker->proc.link);
    return 0;
}

/* --- messages --- */

static int on_ready(struct worker *worker)
{
    worker->failures = 0;
    if (worker->state == WORKER_STARTING) {
        worker->state = WORKER_IDLE;
        worker->idle(worker);
    }
    return 0;
}

static int on_failed(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    Ipu__Worker__Failure *failure =
        (Ipu__Worker__Failure *)worker_unpack(frame, &ipu__worker__failure__descriptor, error);
    struct job *job = worker->job;
    if (!failure)
        return IPU_ERR_PROTOCOL;
    char text[STORE_REASON];
    snprintf(text, sizeof text, "%s%s%s", failure->text, failure->detail[0] ? "\n" : "",
             failure->detail);
    int code = failure->code < 0 ? failure->code : IPU_ERR_INTERNAL;
    scan_free(&failure->base);
    worker_end(worker);
    if (job)
        jobs_task_failed(job, code, text);
    worker->idle(worker);
    return 0;
}

static int on_event(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    const ProtobufCMessageDescriptor *descriptor =
        frame->type == IPU__WORKER__MESSAGE_TYPE__WORKER_LOG ? &ipu__worker__log__descriptor
        : frame->type == IPU__WORKER__MESSAGE_TYPE__WORKER_PHASE
            ? &ipu__worker__phase__descriptor
            : &ipu__worker__progress__descriptor;
    ProtobufCMessage *message = worker_unpack(frame, descriptor, error);
    if (!message)
        return IPU_ERR_PROTOCOL;
    if (descriptor == &ipu__worker__log__descriptor)
        on_log(worker, (Ipu__Worker__Log *)message);
    else if (descriptor == &ipu__worker__phase__descriptor)
        on_phase(worker, (Ipu__Worker__Phase *)message);
    else
        on_progress(worker, (Ipu__Worker__Progress *)message);
    scan_free(message);
    return 0;
}

static int on_ended(struct worker *worker, const struct frame *frame, struct ipu_error *error)
{
    bool ran = frame->type == IPU__WORKER__MESSAGE_TYPE__WORKER_RAN;
    ProtobufCMessage *message = worker_unpack(
        frame, ran ? &ipu__worker__ran__descriptor : &ipu__worker__compiled__descriptor, error);
    if (!message || worker->compiled || worker->ran || !worker->job) {
        scan_free(message);
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "unexpected end of a task");
    }
    if (ran)
        worker->ran = (Ipu__Worker__Ran *)message;
    else
        worker->compiled = (Ipu__Worker__Compiled *)message;
    settle(worker);
    return 0;
}

static int on_frame(struct proc *proc, const struct frame *frame, struct ipu_error *error)
{
    struct worker *worker = proc->owner;
    if (worker->state == WORKER_DYING)
        return 0;
    switch (frame->type) {
    case IPU__WORKER__MESSAGE_TYPE__WORKER_HEARTBEAT:
        return 0;
    case IPU__WORKER__MESSAGE_TYPE__WORKER_READY:
        return on_ready(worker);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_LOG:
    case IPU__WORKER__MESSAGE_TYPE__WORKER_PHASE:
    case IPU__WORKER__MESSAGE_TYPE__WORKER_PROGRESS:
        return on_event(worker, frame, error);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_STREAM:
        return on_stream(worker, frame, error);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_DATA:
        return on_data(worker, frame, error);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_COMPILED:
    case IPU__WORKER__MESSAGE_TYPE__WORKER_RAN:
        return on_ended(worker, frame, error);
    case IPU__WORKER__MESSAGE_TYPE__WORKER_FAILED:
        return on_failed(worker, frame, error);
    default:
        return worker->message(worker, frame, error);
    }
}

/* --- tasks --- */

void worker_begin(struct worker *worker, struct job *job, enum worker_task task, long limit_ms)
{
    assert(worker->state == WORKER_IDLE && !worker->job);
    worker->state = WORKER_BUSY;
    worker->task = task;
    worker->serial++;
    worker->job = job;
    if (job)
        job->worker = worker;
    worker->deadline_ms = uv_now(worker->daemon->loop) + (uint64_t)limit_ms;
    worker->kill_ms = 0;
    worker->has_search = false;
    worker->package = (struct store_object){0};
}

/* Forgets everything of the task. */
static void clear_task(struct worker *worker)
{
    feed_drop(worker->feed);
    intake_drop(worker->intake);
    if (worker->stream)
        scan_free(&worker->stream->base);
    if (worker->compiled)
        scan_free(&worker->compiled->base);
    if (worker->ran)
        scan_free(&worker->ran->base);
    worker->feed = NULL;
    worker->intake = NULL;
    worker->stream = NULL;
    worker->compiled = NULL;
    worker->ran = NULL;
    worker->storing = 0;
    worker->feed_count = worker->feed_next = 0;
    worker->deadline_ms = worker->kill_ms = 0;
    worker->task = WORKER_NO_TASK;
    if (worker->package.id)
        transfer_unpin(worker->daemon->store, worker->package.id);
    if (worker->has_search)
        transfer_unpin(worker->daemon->store, worker->search.id);
    worker->package.id = 0;
    worker->has_search = false;
}

void worker_end(struct worker *worker)
{
    clear_task(worker);
    worker->job = NULL;
    if (worker->state == WORKER_BUSY)
        worker->state = WORKER_IDLE;
    link_resume(&worker->proc.link);
}

void worker_stop(struct worker *worker)
{
    if (worker->state != WORKER_BUSY || worker->kill_ms)
        return;
    worker->kill_ms = uv_now(worker->daemon->loop) + WORKER_STOP_MS;
    link_send(&worker->proc.link, IPU__WORKER__MESSAGE_TYPE__WORKER_CANCEL, 0, NULL, 0);
}

void worker_kill(struct worker *worker)
{
    if (worker->state == WORKER_DOWN)
        return;
    worker->state = WORKER_DYING;
    proc_kill(&worker->proc);
}

/* --- life --- */

static void on_gone(struct proc *proc)
{
    struct worker *worker = proc->owner;
    struct job *job = worker->job;
    char how[96];
    bool was_starting = worker->state == WORKER_STARTING;
    proc_describe(proc, how, sizeof how);
    worker->state = WORKER_DOWN;
    worker->held[0] = '\0';
    clear_task(worker);
    worker->job = NULL;
    worker->failures = was_starting ? worker->failures + 1 : 0;
    uint64_t pause = worker->failures ? 100u << (worker->failures < 7 ? worker->failures : 7) : 0;
    worker->respawn_ms = uv_now(worker->daemon->loop) + pause;
    if (!worker->daemon->draining) {
        worker->deaths++;
        log_event(worker->daemon->log, LOG_LEVEL_WARN, "worker", "worker died",
                  "kind=%s job=%" PRIu64 " how=\"%s\"", worker->kind, job ? job->row.id : 0, how);
    }
    if (job)
        jobs_task_died(job, how);
    worker->idle(worker);
}

void worker_init(struct worker *worker, struct daemon *daemon, const char *const *arguments)
{
    worker->daemon = daemon;
    worker->arguments = arguments;
    worker->proc.owner = worker;
    worker->proc.frame = on_frame;
    worker->proc.drained = on_drained;
    worker->proc.gone = on_gone;
}

void worker_start(struct worker *worker)
{
    struct ipu_error error;
    if (worker->state != WORKER_DOWN || !proc_free(&worker->proc) ||
        uv_now(worker->daemon->loop) < worker->respawn_ms)
        return;
    if (proc_spawn(&worker->proc, worker->daemon->loop, worker->arguments, &error)) {
        worker->failures++;
        worker->respawn_ms = uv_now(worker->daemon->loop) + 1000;
        log_event(worker->daemon->log, LOG_LEVEL_ERROR, "worker", "cannot start a worker",
                  "kind=%s reason=\"%s\"", worker->kind, error.text);
        return;
    }
    worker->state = WORKER_STARTING;
}

void worker_tick(struct worker *worker)
{
    uint64_t now = uv_now(worker->daemon->loop);
    if (worker->state == WORKER_DOWN) {
        if (!worker->daemon->draining)
            worker_start(worker);
        return;
    }
    if (worker->proc.link.paused)
        worker->proc.beat_ms = now; /* we do not listen: its beats wait in the socket */
    if (worker->state != WORKER_DYING && now > worker->proc.beat_ms + WORKER_BEAT_MS) {
        log_event(worker->daemon->log, LOG_LEVEL_ERROR, "worker", "worker has no heartbeat",
                  "kind=%s", worker->kind);
        worker_kill(worker);
    } else if (worker->state == WORKER_BUSY && worker->kill_ms && now >= worker->kill_ms) {
        worker_kill(worker);
    } else if (worker->state == WORKER_BUSY && !worker->kill_ms && now >= worker->deadline_ms) {
        if (worker->job)
            jobs_stop(worker->job, JOB_STOP_TIMEOUT);
        else
            worker_stop(worker);
    }
}
