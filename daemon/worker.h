/* A worker: one child process and its one task. What compile workers and the device owner share:
 * starting, feeding, taking in streams, events, deadlines, stopping, dying.
 *
 * States: DOWN -> STARTING -> IDLE <-> BUSY, and DYING from all of them. Loop thread only.
 */
#ifndef IPU_DAEMON_WORKER_H
#define IPU_DAEMON_WORKER_H

#include "daemon/jobs.h"
#include "daemon/proc.h"
#include "daemon/transfer.h"

enum worker_state { WORKER_DOWN, WORKER_STARTING, WORKER_IDLE, WORKER_BUSY, WORKER_DYING };
enum worker_task {
    WORKER_NO_TASK,
    WORKER_TASK_COMPILE,
    WORKER_TASK_CHECK,
    WORKER_TASK_RUN,
    WORKER_TASK_SELFTEST
};
enum { WORKER_FEEDS = JOB_OUTPUTS + 1, WORKER_STOP_MS = 800, WORKER_BEAT_MS = 15000 };

struct worker {
    struct proc proc;
    struct daemon *daemon;
    const char *const *arguments;
    enum worker_state state;
    enum worker_task task;
    unsigned serial; /* of the task: answers of the store to an earlier one are dropped */
    struct job *job;
    char held[HASH_TEXT]; /* what the child keeps in memory between tasks */

    /* Objects that are being sent, one after another. */
    struct store_object feeds[WORKER_FEEDS];
    size_t feed_count, feed_next;
    struct feed *feed;

    /* The stream that is coming in, and how many finished ones are being stored. */
    struct intake *intake;
    Ipu__Worker__Stream *stream;
    unsigned storing;
    struct store_object package, search;
    bool has_search;
    Ipu__Worker__Compiled *compiled; /* came in while streams were still being stored */
    Ipu__Worker__Ran *ran;

    uint64_t deadline_ms, kill_ms, respawn_ms; /* loop time; 0 = none */
    unsigned failures;                         /* starts that did not get ready, in a row */
    uint64_t deaths;

    /* Of the kind: messages of its own; the task has ended; may start again. */
    int (*message)(struct worker *worker, const struct frame *frame, struct ipu_error *error);
    void (*settled)(struct worker *worker); /* nothing of the streams is in flight any more */
    void (*idle)(struct worker *worker);
    const char *kind;
};

void worker_init(struct worker *worker, struct daemon *daemon, const char *const *arguments);
/* Starts the process when it is down and its pause has passed. */
void worker_start(struct worker *worker);
/* Begins a task for `job`, which has been moved to its state; a self-test has no job. */
void worker_begin(struct worker *worker, struct job *job, enum worker_task task, long limit_ms);
/* Queues an object to be sent as WORKER_DATA; sending starts at once. */
void worker_feed(struct worker *worker, const struct store_object *object);
/* Tells the child to end its task; it is killed if it does not. */
void worker_stop(struct worker *worker);
/* The task is over, the child idle. */
void worker_end(struct worker *worker);
/* For the pool's and owner's timer: deadlines, heartbeats, restarts. */
void worker_tick(struct worker *worker);
void worker_kill(struct worker *worker);
/* Unpacks a message of a child; NULL (and the error) when it is malformed. */
ProtobufCMessage *worker_unpack(const struct frame *frame,
                                const ProtobufCMessageDescriptor *descriptor,
                                struct ipu_error *error);

#endif
