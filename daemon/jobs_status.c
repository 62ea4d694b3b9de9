/* What is told about a job: its row, and what only memory knows: see jobs.h.
 *
 * Invariant: the outcome of a job is not told before it is committed. It cannot fail.
 */
#include "daemon/jobs.h"

#include "daemon/owner.h"
#include "daemon/pool.h"

#include <stdio.h>
#include <string.h>

static void split_lines(char *text, Ipu__Rpc__JobStatus *status, char *lines[16])
{
    status->results = lines;
    for (char *at = strtok(text, "\n"); at && status->n_results < 16; at = strtok(NULL, "\n"))
        lines[status->n_results++] = at;
}

/* What a waiting job waits for at this moment. */
static void explain_wait(const struct jobs *jobs, const struct job *job, char *text, size_t size)
{
    const struct daemon *daemon = jobs->daemon;
    char device[128];
    if (daemon->draining && (job->state == JOB_QUEUED || job->state == JOB_WAITING)) {
        snprintf(text, size, "ipud is shutting down; the job goes on at its next start");
    } else if (job->state == JOB_QUEUED && !job->shares &&
               !jobs_may_compile((void *)(uintptr_t)jobs, job->row.uid)) {
        snprintf(text, size, "waits: its user has %ld compiles at work, the limit for one user",
                 daemon->config->max_active_per_user);
    } else if (job->state == JOB_QUEUED && !job->shares) {
        snprintf(text, size, "waits for a compile worker: %u of %ld are busy",
                 pool_busy(daemon->pool), daemon->config->workers);
    } else if (job->state == JOB_WAITING) {
        owner_describe(daemon->owner, device, sizeof device);
        snprintf(text, size, "waits for the device, which is %s", device);
    }
}

void jobs_status(const struct jobs *jobs, const struct store_job *row, Ipu__Rpc__JobStatus *status,
                 struct jobs_scratch *scratch)
{
    struct job *job = jobs_find(jobs, row->id);
    if (job)
        row = &job->row;
    ipu__rpc__job_status__init(status);
    snprintf(scratch->reason, sizeof scratch->reason, "%s", row->reason);
    snprintf(scratch->results, sizeof scratch->results, "%s", row->results);
    hash_text(&row->workload, scratch->workload);
    scratch->package[0] = '\0';
    if (row->has_package)
        hash_text(&row->package, scratch->package);
    status->job = row->id;
    status->name = (char *)row->name;
    status->uid = row->uid;
    status->state = (Ipu__Rpc__JobState)row->state;
    status->code = row->code;
    status->reason = scratch->reason;
    status->priority = row->priority;
    status->attempts = row->attempts;
    status->submitted_us = row->submitted_us;
    status->started_us = row->started_us;
    status->finished_us = row->finished_us;
    status->workload = scratch->workload;
    status->package = scratch->package;
    status->package_cached = row->package_cached;
    status->cycles = row->cycles;
    status->compile_ms = row->compile_ms;
    status->run_ms = row->run_ms;
    status->check_ms = row->check_ms;
    status->detached = row->detached;
    status->last_sequence = row->last_sequence;
    split_lines(scratch->results, status, scratch->lines);
    if (!job)
        return;
    status->position = jobs_position(job);
    explain_wait(jobs, job, scratch->reason, sizeof scratch->reason);
    status->phase = job->phase;
    status->progress = job->progress;
    status->shared_with = job->shares ? job->shares->row.id : 0;
    if (job->state == JOB_ENDING) { /* not committed yet: nobody may be told the outcome */
        status->state = (Ipu__Rpc__JobState)job->told;
        status->code = 0;
        status->reason = (char *)"the outcome is being stored";
        status->n_results = 0;
        status->finished_us = 0;
    }
}
