/* All jobs that have not ended: accepting, queueing, sharing, cancelling, and what follows when a
 * worker or the device owner has done its part. Loop thread only.
 */
#ifndef IPU_DAEMON_JOBS_H
#define IPU_DAEMON_JOBS_H

#include "daemon/job.h"
#include "daemon/queue.h"

struct jobs {
    struct daemon *daemon;
    struct job *list;
    size_t count;
    struct queue compile, device;
    uv_timer_t flush;
    bool closed;
};

IPU_MUST_CHECK int jobs_create(struct daemon *daemon, struct jobs **out, struct ipu_error *error);
/* Stops the timer; `jobs` is freed with the loop's end by jobs_free(). */
void jobs_close(struct jobs *jobs);
void jobs_free(struct jobs *jobs);

/* Takes up a job that an earlier daemon has accepted. */
IPU_MUST_CHECK int jobs_restore(struct jobs *jobs, const struct store_job *row, uint64_t sequence,
                                struct ipu_error *error);

/* Accepts a job: inserted and committed before `done` is called with it. `workload` is pinned by
 * the caller; the pin passes to jobs. `row` needs uid, name, priority, detached, no_cache,
 * log_level. */
typedef void jobs_done_fn(void *context, struct job *job, int rc, const struct ipu_error *error);
void jobs_submit(struct jobs *jobs, const struct store_job *row,
                 const struct store_object *workload, jobs_done_fn *done, void *context);

struct job *jobs_find(const struct jobs *jobs, uint64_t id);
/* Asks a job to end as cancelled or timed out; what that means in each state stands in
 * job_states.def. */
void jobs_stop(struct job *job, enum job_stop why);
/* A connection begins or ceases to hold a job; the last one to leave cancels an attached job. */
void jobs_hold(struct job *job);
void jobs_release(struct job *job);

/* Whether the user may have one more compile at work; `jobs` is a struct jobs. */
bool jobs_may_compile(void *jobs, uint32_t uid);
/* Position in the line of its state, 1 = next, 0 = not waiting. */
unsigned jobs_position(const struct job *job);
/* Fills `status` from a row, and from the job when it is in memory. Strings refer to both and to
 * `scratch`. */
struct jobs_scratch {
    char workload[HASH_TEXT], package[HASH_TEXT], reason[STORE_REASON];
    char results[STORE_RESULTS];
    char *lines[16];
};
void jobs_status(const struct jobs *jobs, const struct store_job *row, Ipu__Rpc__JobStatus *status,
                 struct jobs_scratch *scratch);

/* --- what workers report --- */
/* The next job for a compile worker, moved to COMPILING; NULL when there is none. */
struct job *jobs_next_compile(struct jobs *jobs);
/* The next job whose outputs wait for their check; `prefer` (hex digest of a workload, or "") goes
 * first. */
struct job *jobs_next_check(struct jobs *jobs, const char *prefer);
/* The next job for the device, moved to RUNNING. */
struct job *jobs_next_run(struct jobs *jobs);
/* The package of a compiling job stands in job->package. */
void jobs_compiled(struct job *job);
/* Outputs and measurements stand in the job. */
void jobs_ran(struct job *job);
/* Nothing is known of these outputs yet: a worker compares them. */
void jobs_check_needed(struct job *job);
void jobs_checked(struct job *job, bool passed, const char *reason, const char *line);
/* The task of a job failed with an error of its own. */
void jobs_task_failed(struct job *job, int code, const char *text);
/* The process that worked on it died: tried again once. */
void jobs_task_died(struct job *job, const char *how);
/* Called by job.c when the outcome has been committed. */
void jobs_ended(struct job *job);

#endif
