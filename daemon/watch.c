/* Watches: see watch.h.
 *
 * Phases: HISTORY reads pages of stored events until it reaches what is in memory; LIVE sends from
 * the job's ring; a watch of an ended job is all HISTORY. Progress and profile chunks are not
 * stored, so history has holes in its numbers and no gap marker stands for them. Invariant: `next`
 * only grows, and nothing is sent while the link's queue is above LINK_HIGH.
 */
#include "daemon/watch.h"

#include "base/alloc.h"
#include "daemon/jobs.h"
#include "proto/scan.h"

#include <stdio.h>
#include <string.h>

enum watch_phase { WATCH_HISTORY, WATCH_LIVE };
enum { PAGE_EVENTS = 256, PAGE_BYTES = 256 << 10 };

struct watch {
    struct storeq_op op;
    struct daemon *daemon;
    struct watch *next_watch; /* of the job */
    struct job *job;          /* NULL: ended before the watch began */
    struct store_job row;
    struct watch_options options;
    struct link *link;
    uint32_t call;
    enum watch_phase phase;
    uint64_t next;  /* sequence number wanted next */
    uint64_t until; /* history: below this number */
    bool reading, dropped, page_full;
    struct buffer page; /* (sequence u64, size u64, body)* */
    watch_done_fn *done;
    void *context;
};

/* --- lists --- */

static void attach(struct watch *watch)
{
    job_ref(watch->job);
    watch->next_watch = watch->job->watches;
    watch->job->watches = watch;
    if (watch->options.holds)
        jobs_hold(watch->job);
}

static void detach(struct watch *watch)
{
    struct job *job = watch->job;
    if (!job)
        return;
    for (struct watch **at = &job->watches; *at; at = &(*at)->next_watch)
        if (*at == watch) {
            *at = watch->next_watch;
            break;
        }
    watch->job = NULL;
    if (watch->options.holds)
        jobs_release(job);
    job_unref(job);
}

static void free_watch(struct watch *watch)
{
    buffer_free(&watch->page);
    ipu_free(watch);
}

/* --- sending --- */

static bool room(const struct watch *watch)
{
    return watch->link->state == LINK_OPEN && link_queued(watch->link) < LINK_HIGH;
}

static void send_end(struct watch *watch)
{
    Ipu__Rpc__WatchEnd end = IPU__RPC__WATCH_END__INIT;
    Ipu__Rpc__JobStatus status;
    struct jobs_scratch scratch;
    jobs_status(watch->daemon->jobs, watch->job ? &watch->job->row : &watch->row, &status,
                &scratch);
    end.status = &status;
    end.next = watch->next;
    link_send_message(watch->link, IPU__RPC__FRAME_TYPE__REPLY_WATCH_END, watch->call, &end.base);
}

static void finish(struct watch *watch)
{
    watch_done_fn *done = watch->done;
    void *context = watch->context;
    send_end(watch);
    watch->dropped = true;
    detach(watch);
    if (!watch->reading)
        free_watch(watch);
    done(context);
}

static void send_gap(struct watch *watch, uint64_t last)
{
    Ipu__Rpc__Event event = IPU__RPC__EVENT__INIT;
    Ipu__Rpc__Gap gap = IPU__RPC__GAP__INIT;
    gap.first = watch->next;
    gap.last = last;
    event.sequence = last;
    event.job = watch->job->row.id;
    event.kind_case = IPU__RPC__EVENT__KIND_GAP;
    event.gap = &gap;
    link_send_message(watch->link, IPU__RPC__FRAME_TYPE__REPLY_EVENT, watch->call, &event.base);
    watch->next = last + 1;
}

/* --- live --- */

static void read_history(struct watch *watch);

static void pump_live(struct watch *watch)
{
    const struct watch_options *options = &watch->options;
    struct job *job = watch->job;
    while (room(watch) && watch->next < job->visible) {
        const struct event *event = events_get(&job->events, watch->next);
        if (!event) {
            send_gap(watch, job->events.first - 1);
            continue;
        }
        if (events_wanted(event, options->logs_only, options->profile, options->level))
            link_send(watch->link, IPU__RPC__FRAME_TYPE__REPLY_EVENT, watch->call, event->body,
                      event->size);
        watch->next++;
    }
    if (watch->next >= job->visible && room(watch) &&
        (job_state_terminal(job->state) || !options->follow))
        finish(watch);
}

static void pump(struct watch *watch)
{
    if (watch->dropped || watch->reading || !room(watch))
        return;
    if (watch->phase == WATCH_LIVE)
        pump_live(watch);
    else
        read_history(watch);
}

/* --- history --- */

static bool collect(void *context, const struct store_event *event)
{
    struct watch *watch = context;
    uint64_t head[2] = {event->sequence, event->size};
    if (event->sequence >= watch->until)
        return false;
    buffer_append(&watch->page, head, sizeof head);
    buffer_append(&watch->page, event->body, event->size);
    watch->page_full = watch->page.size > PAGE_BYTES;
    return !watch->page_full;
}

static int run_history(struct store *store, struct storeq_op *op)
{
    struct watch *watch = (struct watch *)op;
    return store_event_list(store, watch->row.id, watch->next, PAGE_EVENTS, collect, watch,
                            &op->error);
}

/* What a reader must know of a stored event to filter it. */
static bool stored_wanted(const struct watch *watch, const uint8_t *body, size_t size)
{
    static const struct scan_limits limits = {8, 4096, 1 << 20, 2 << 20};
    ProtobufCMessage *message;
    struct ipu_error ignored;
    if (scan_unpack(&ipu__rpc__event__descriptor, body, size, &limits, &message, &ignored))
        return false; /* a damaged row of the log is left out */
    const Ipu__Rpc__Event *stored = (const Ipu__Rpc__Event *)message;
    struct event event = {.kind = (uint8_t)stored->kind_case};
    if (stored->kind_case == IPU__RPC__EVENT__KIND_LOG)
        event.level = (uint8_t)stored->log->level;
    bool wanted = events_wanted(&event, watch->options.logs_only, watch->options.profile,
                                watch->options.level);
    scan_free(message);
    return wanted;
}

/* Sends a page; returns how many events it had. */
static unsigned send_page(struct watch *watch)
{
    unsigned n = 0;
    size_t at = 0;
    while (at < watch->page.size) {
        uint64_t head[2];
        memcpy(head, watch->page.data + at, sizeof head);
        at += sizeof head;
        if (stored_wanted(watch, watch->page.data + at, (size_t)head[1]))
            link_send(watch->link, IPU__RPC__FRAME_TYPE__REPLY_EVENT, watch->call,
                      watch->page.data + at, (size_t)head[1]);
        at += (size_t)head[1];
        watch->next = head[0] + 1;
        n++;
    }
    return n;
}

static void on_history(struct storeq_op *op)
{
    struct watch *watch = (struct watch *)op;
    watch->reading = false;
    if (watch->dropped) {
        free_watch(watch);
        return;
    }
    unsigned n = op->rc || watch->page.failed ? 0 : send_page(watch);
    if (watch->dropped)
        return;
    if (n >= PAGE_EVENTS || watch->page_full) {
        pump(watch);
    } else if (watch->job) {
        watch->phase = WATCH_LIVE;
        if (watch->next < watch->until)
            watch->next = watch->until; /* what is not stored is progress, and stale */
        pump(watch);
    } else {
        finish(watch);
    }
}

static void read_history(struct watch *watch)
{
    watch->reading = true;
    watch->page.size = 0;
    watch->page_full = false;
    watch->op.relaxed = true; /* reads */
    watch->op.run = run_history;
    watch->op.done = on_history;
    storeq_push(watch->daemon->store, &watch->op);
}

/* --- interface --- */

struct watch *watch_start(struct daemon *daemon, struct job *job, const struct store_job *row,
                          const struct watch_options *options, struct link *link, uint32_t call,
                          watch_done_fn *done, void *context)
{
    struct watch *watch = ipu_calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->daemon = daemon;
    watch->job = job;
    watch->row = job ? job->row : *row;
    watch->options = *options;
    watch->link = link;
    watch->call = call;
    watch->done = done;
    watch->context = context;
    watch->next = options->from ? options->from : 1;
    watch->until = job ? job->events.first : UINT64_MAX;
    if (job) {
        attach(watch);
        watch->phase = watch->next < watch->until ? WATCH_HISTORY : WATCH_LIVE;
    }
    /* The first events are sent from the loop's next turn, so that `done` cannot come before the
     * caller has our address: history needs one anyway, live is woken by the caller. */
    if (watch->phase == WATCH_HISTORY)
        read_history(watch);
    return watch;
}

void watch_drop(struct watch *watch)
{
    if (!watch || watch->dropped)
        return;
    watch->dropped = true;
    detach(watch);
    if (!watch->reading)
        free_watch(watch);
}

void watch_resume(struct watch *watch)
{
    pump(watch);
}

void watch_wake(struct job *job)
{
    struct watch *watch = job->watches;
    job_ref(job);
    while (watch) {
        struct watch *next = watch->next_watch; /* pump() may remove this one, never another */
        pump(watch);
        watch = next;
    }
    job_unref(job);
}
