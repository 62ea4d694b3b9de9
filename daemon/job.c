/* One job: its state machine, its events, its saving: see job.h.
 *
 * Invariants, checked after every move: the move is allowed by job_states.def; a terminal state is
 * only entered by the commit of the row that says so; readers never see an event of an outcome that
 * is not committed (`visible`). Saving fails when the disk does; it is then tried again every
 * second by the flush timer of jobs.c, and nothing is lost meanwhile.
 */
#include "daemon/job.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/jobs.h"
#include "daemon/watch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BIT(state) (1u << JOB_##state)
struct state_row {
    const char *text;
    unsigned successors;
    const char *cancel;
};
static const struct state_row states[JOB_STATES] = {
#define STATE(name, number, text, successors, cancel) [JOB_##name] = {text, successors, cancel},
#include "daemon/job_states.def"
#undef STATE
};

const char *job_state_name(enum job_state state)
{
    return state < JOB_STATES && states[state].text ? states[state].text : "none";
}

bool job_state_allowed(enum job_state from, enum job_state to)
{
    return from < JOB_STATES && to < JOB_STATES && (states[from].successors & (1u << to)) != 0;
}

struct job *job_create(struct daemon *daemon, const struct store_job *row, uint64_t next_sequence)
{
    struct job *job = ipu_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->daemon = daemon;
    job->row = *row;
    job->state = job->told = (enum job_state)row->state;
    job->references = 1;
    job->attached = !row->detached;
    ipu__worker__facts__init(&job->facts);
    events_init(&job->events, next_sequence);
    job->visible = next_sequence;
    return job;
}

void job_ref(struct job *job)
{
    job->references++;
}

void job_unref(struct job *job)
{
    if (--job->references)
        return;
    assert(!job->save_busy && !job->watches);
    events_free(&job->events);
    buffer_free(&job->unsaved);
    buffer_free(&job->saving_events);
    ipu_free(job);
}

/* --- events --- */

static void keep_event(struct job *job, uint64_t sequence, const struct event *event)
{
    uint64_t head[2] = {sequence, event->size};
    buffer_append(&job->unsaved, head, sizeof head);
    buffer_append(&job->unsaved, event->body, event->size);
    if (job->unsaved.failed) { /* without memory the stored log has a hole; the live one has not */
        buffer_free(&job->unsaved);
    }
}

void job_event(struct job *job, Ipu__Rpc__Event *message, bool keep)
{
    message->job = job->row.id;
    const struct event *event = events_add(&job->events, message);
    if (!event)
        return;
    uint64_t sequence = events_next(&job->events) - 1;
    job->row.last_sequence = sequence;
    if (keep)
        keep_event(job, sequence, event);
    if (job->state == JOB_ENDING)
        return;
    job->visible = sequence + 1;
    watch_wake(job);
}

static void state_event(struct job *job, enum job_state state, const char *reason)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__StateEvent change = IPU__RPC__STATE_EVENT__INIT;
    change.state = (Ipu__Rpc__JobState)state;
    change.reason = (char *)reason;
    change.position = jobs_position(job);
    change.package_cached = job->row.package_cached;
    event.kind_case = IPU__RPC__EVENT__KIND_STATE;
    event.state = &change;
    job_event(job, &event, true);
}

static void error_event(struct job *job, int code, const char *text)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__Error error = IPU__RPC__ERROR__INIT;
    error.code = code;
    error.text = (char *)text;
    error.job = job->row.id;
    event.kind_case = IPU__RPC__EVENT__KIND_ERROR;
    event.error = &error;
    job_event(job, &event, true);
}

void job_result_lines(struct job *job)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__ResultEvent result = IPU__RPC__RESULT_EVENT__INIT;
    char text[STORE_RESULTS];
    char *lines[16];
    snprintf(text, sizeof text, "%s", job->row.results);
    for (char *at = strtok(text, "\n"); at && result.n_lines < 16; at = strtok(NULL, "\n"))
        lines[result.n_lines++] = at;
    result.lines = lines;
    event.kind_case = IPU__RPC__EVENT__KIND_RESULT;
    event.result = &result;
    job_event(job, &event, true);
}

unsigned job_log_level(const struct job *job)
{
    switch (job->row.log_level) {
    case IPU__RPC__LOG_LEVEL__LOG_DEBUG:
        return LOG_LEVEL_DEBUG;
    case IPU__RPC__LOG_LEVEL__LOG_WARN:
        return LOG_LEVEL_WARN;
    case IPU__RPC__LOG_LEVEL__LOG_ERROR:
        return LOG_LEVEL_ERROR;
    case IPU__RPC__LOG_LEVEL__LOG_NONE:
        return LOG_LEVEL_ERROR + 1;
    default:
        return LOG_LEVEL_INFO;
    }
}

void job_log_record(struct job *job, const struct log_record *record)
{
    static const Ipu__Rpc__LogLevel levels[] = {
        IPU__RPC__LOG_LEVEL__LOG_DEBUG, IPU__RPC__LOG_LEVEL__LOG_INFO,
        IPU__RPC__LOG_LEVEL__LOG_WARN, IPU__RPC__LOG_LEVEL__LOG_ERROR};
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__LogEvent message = IPU__RPC__LOG_EVENT__INIT;
    message.level = levels[record->level];
    message.phase = (char *)record->phase;
    message.message = (char *)record->message;
    message.fields = (char *)record->fields;
    event.time_us = record->time_us;
    event.kind_case = IPU__RPC__EVENT__KIND_LOG;
    event.log = &message;
    job_event(job, &event, true);
    log_write(job->daemon->log, record);
}

void job_log(struct job *job, enum log_level level, const char *phase, const char *message,
             const char *fields, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fields);
    vsnprintf(text, sizeof text, fields, args);
    va_end(args);
    struct log_record record = {clock_wall_us(), level, phase, message, text};
    if ((unsigned)level >= job_log_level(job))
        job_log_record(job, &record);
}

/* --- states --- */

void job_set_reason(struct job *job, const char *reason)
{
    snprintf(job->row.reason, sizeof job->row.reason, "%s", reason);
}

static void enter(struct job *job, enum job_state state)
{
    log_event(job->daemon->log, LOG_LEVEL_DEBUG, "job", "job moves",
              "job=%" PRIu64 " from=%s to=%s", job->row.id, job_state_name(job->state),
              job_state_name(state));
    if (!job_state_allowed(job->state, state))
        log_event(job->daemon->log, LOG_LEVEL_ERROR, "job", "forbidden move of a job",
                  "job=%" PRIu64 " from=%s to=%s", job->row.id, job_state_name(job->state),
                  job_state_name(state));
    assert(job_state_allowed(job->state, state));
    if (state != JOB_ENDING)
        job->told = state;
    job->state = state;
    job->phase[0] = '\0';
    job->progress = 0;
}

void job_move(struct job *job, enum job_state state, const char *reason)
{
    enter(job, state);
    job->row.state = (int)state;
    if ((state == JOB_COMPILING || state == JOB_RUNNING) && job->row.started_us == 0)
        job->row.started_us = clock_wall_us();
    job_set_reason(job, reason);
    state_event(job, state, reason);
    job->save_again = true;
}

void job_end(struct job *job, enum job_state state, int code, const char *reason)
{
    char text[STORE_REASON]; /* `reason` may stand in the row */
    snprintf(text, sizeof text, "%s", reason);
    enter(job, JOB_ENDING);
    job->row.state = (int)state;
    job->row.code = code;
    job->row.finished_us = clock_wall_us();
    job_set_reason(job, text);
    if (code && state != JOB_CANCELLED)
        error_event(job, code, text);
    if (job->row.results[0])
        job_result_lines(job);
    state_event(job, state, text);
    job_save(job);
}

/* --- saving --- */

static int save_events(struct store *store, const struct job *job, struct ipu_error *error)
{
    const struct buffer *bytes = &job->saving_events;
    size_t at = 0;
    while (at < bytes->size) {
        uint64_t head[2];
        memcpy(head, bytes->data + at, sizeof head);
        at += sizeof head;
        struct store_event event = {head[0], bytes->data + at, (size_t)head[1]};
        int rc = store_event_add(store, job->saving.id, &event, error);
        if (rc)
            return rc;
        at += (size_t)head[1];
    }
    return 0;
}

static int run_save(struct store *store, struct storeq_op *op)
{
    struct job *job = (struct job *)((char *)op - offsetof(struct job, save));
    int rc = save_events(store, job, &op->error);
    if (rc == 0 && job_state_terminal((enum job_state)job->saving.state) && job->output_count)
        rc = store_output_set(store, job->saving.id, job->outputs, job->output_count, &op->error);
    if (rc == 0)
        rc = store_job_update(store, &job->saving, &op->error);
    return rc;
}

static void on_saved(struct storeq_op *op)
{
    struct job *job = (struct job *)((char *)op - offsetof(struct job, save));
    job->save_busy = false;
    job->save_failed = op->rc != 0;
    if (op->rc) {
        log_event(job->daemon->log, LOG_LEVEL_DEBUG, "job", "cannot save a job yet",
                  "job=%" PRIu64 " reason=\"%s\"", job->row.id, op->error.text);
        job->save_again = true; /* the flush timer tries again */
    } else {
        job->saving_events.size = 0;
        if (job_state_terminal((enum job_state)job->saving.state)) {
            enter(job, (enum job_state)job->saving.state);
            job->visible = events_next(&job->events);
            jobs_ended(job);
        } else if (job->state == JOB_ENDING) {
            job_save(job);
        }
    }
    job_unref(job);
}

bool job_dirty(const struct job *job)
{
    return !job->save_busy && (job->save_again || job->unsaved.size);
}

void job_save(struct job *job)
{
    if (job->save_busy || job_state_terminal(job->state)) {
        job->save_again = !job_state_terminal(job->state);
        return;
    }
    buffer_append(&job->saving_events, job->unsaved.data, job->unsaved.size);
    if (job->saving_events.failed)
        buffer_free(&job->saving_events); /* the stored log gets a hole, the outcome is kept */
    job->unsaved.size = 0;
    job->saving = job->row;
    job->save_again = false;
    job->save_busy = true;
    job->save.run = run_save;
    job->save.done = on_saved;
    job->save.weight = job->saving_events.size;
    job->save.relaxed = !job_state_terminal((enum job_state)job->row.state);
    job_ref(job);
    storeq_push(job->daemon->store, &job->save);
}
