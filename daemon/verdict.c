/* Verdicts: see verdict.h.
 *
 * Invariants: the key covers everything that the check looks at, with lengths, so that no two
 * different sets of outputs give one key; a store that fails costs the cache, not the job. The
 * operation holds a reference to its job.
 */
#include "daemon/verdict.h"

#include "base/alloc.h"
#include "daemon/jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct verdict {
    struct storeq_op op;
    struct job *job; /* of a search */
    char key[HASH_TEXT];
    char line[STORE_RESULTS];
    bool found;
};

static bool make_key(const struct job *job, char key[HASH_TEXT])
{
    char text[256];
    struct hash digest;
    struct hash_state *state = hash_begin();
    int n = snprintf(text, sizeof text,
                     "verdict %s cycles %" PRIu64 " %" PRIu64 " %" PRIu64 " bytes %" PRIu64
                     " %" PRIu64 " tiles %u inferences %u outputs %zu",
                     job->row.workload_key, job->cycles, job->minimum_cycles,
                     job->package.estimated_cycles, job->input_bytes, job->weight_bytes,
                     job->active_tiles, job->facts.inferences, job->output_count);
    hash_update(state, text, (size_t)n);
    for (size_t i = 0; i < job->output_count; i++) {
        hash_update(state, job->outputs[i].name, sizeof job->outputs[i].name);
        hash_update(state, job->outputs[i].digest.bytes, HASH_BYTES);
    }
    if (!hash_finish(state, &digest))
        return false;
    hash_text(&digest, key);
    return true;
}

static int run_find(struct store *store, struct storeq_op *op)
{
    struct verdict *verdict = (struct verdict *)op;
    return store_verdict_find(store, verdict->key, verdict->line, &verdict->found, &op->error);
}

static void on_found(struct storeq_op *op)
{
    struct verdict *verdict = (struct verdict *)op;
    struct job *job = verdict->job;
    if (job->state != JOB_CHECKING) {
        /* stopped meanwhile */
    } else if (op->rc == 0 && verdict->found) {
        job_log(job, LOG_LEVEL_INFO, "", "outputs equal those of a check that has passed",
                "outputs=%zu verdict=%.16s", job->output_count, verdict->key);
        jobs_checked(job, true, "", verdict->line);
    } else {
        jobs_check_needed(job);
    }
    job_unref(job);
    ipu_free(verdict);
}

void verdict_find(struct job *job)
{
    struct verdict *verdict = job->row.no_cache ? NULL : ipu_calloc(1, sizeof *verdict);
    if (!verdict || !make_key(job, verdict->key)) {
        ipu_free(verdict);
        jobs_check_needed(job);
        return;
    }
    job_ref(job);
    verdict->job = job;
    verdict->op.run = run_find;
    verdict->op.done = on_found;
    verdict->op.relaxed = true;
    storeq_push(job->daemon->store, &verdict->op);
}

static int run_keep(struct store *store, struct storeq_op *op)
{
    struct verdict *verdict = (struct verdict *)op;
    return store_verdict_put(store, verdict->key, verdict->line, &op->error);
}

static void on_kept(struct storeq_op *op)
{
    ipu_free(op);
}

void verdict_keep(const struct job *job, const char *line)
{
    struct verdict *verdict = ipu_calloc(1, sizeof *verdict);
    if (!verdict || !make_key(job, verdict->key) || strlen(line) >= sizeof verdict->line) {
        ipu_free(verdict);
        return; /* it is only checked again */
    }
    snprintf(verdict->line, sizeof verdict->line, "%s", line);
    verdict->op.run = run_keep;
    verdict->op.done = on_kept;
    verdict->op.relaxed = true;
    storeq_push(job->daemon->store, &verdict->op);
}
