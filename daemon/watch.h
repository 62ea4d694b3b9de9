/* A watch: one reader of a job's events, on one call of a connection.
 *
 * History first (what is in the store and no longer in memory), then live events as they happen,
 * then the end. A reader that is too slow for the ring gets a gap marker. Loop thread only.
 */
#ifndef IPU_DAEMON_WATCH_H
#define IPU_DAEMON_WATCH_H

#include "daemon/job.h"
#include "daemon/link.h"

struct watch;

struct watch_options {
    uint64_t from;
    bool follow, logs_only, profile;
    Ipu__Rpc__LogLevel level;
    bool holds; /* leaving lets go of an attached job */
};

/* Called when the watch has sent its end and is gone. */
typedef void watch_done_fn(void *context);

/* Watches a job that is in memory (`job`) or has ended (`job` NULL, `row` its row). NULL when
 * memory runs out. */
struct watch *watch_start(struct daemon *daemon, struct job *job, const struct store_job *row,
                          const struct watch_options *options, struct link *link, uint32_t call,
                          watch_done_fn *done, void *context);
/* Ends it early: nothing more is sent, `done` is not called. */
void watch_drop(struct watch *watch);
/* The link has room. */
void watch_resume(struct watch *watch);
/* The job has new events, or has ended. */
void watch_wake(struct job *job);

#endif
