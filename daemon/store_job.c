/* Jobs, their events and outputs: see store.h.
 *
 * Invariants: a job row that has reached a terminal state is never updated again (the statement
 * itself refuses, so no race between owner and canceller can complete a job twice); events of a job
 * are keyed by their sequence number. It fails when the disk does.
 */
#include "daemon/store_sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Binds all columns in the order of JOB_INSERT and JOB_UPDATE; `id` is ignored by the former. */
static sqlite3_stmt *bind_job(struct store *store, enum sql_statement which, const char *format,
                              const struct store_job *job, struct ipu_error *error)
{
    return sql_bind(store, which, error, format, (int64_t)job->uid, job->name, (int64_t)job->state,
                    (int64_t)job->priority, (int64_t)job->detached, (int64_t)job->no_cache,
                    (int64_t)job->log_level, (int64_t)job->attempts, (int64_t)job->code,
                    job->reason, &job->workload, job->workload_key,
                    job->has_package ? &job->package : NULL, (int64_t)job->package_cached,
                    job->has_profile ? &job->profile : NULL, job->results,
                    (int64_t)job->submitted_us, (int64_t)job->started_us, (int64_t)job->finished_us,
                    (int64_t)job->cycles, job->compile_ms, job->run_ms, job->check_ms,
                    (int64_t)job->last_sequence, (int64_t)job->id);
}

int store_job_insert(struct store *store, struct store_job *job, struct ipu_error *error)
{
    int rc = sql_finish(
        store, bind_job(store, SQL_JOB_INSERT, "itiiiiiiiththihtiiiidddi", job, error), error);
    if (rc == 0)
        job->id = (uint64_t)sqlite3_last_insert_rowid(store->db);
    return rc;
}

int store_job_update(struct store *store, const struct store_job *job, struct ipu_error *error)
{
    int rc = sql_finish(
        store, bind_job(store, SQL_JOB_UPDATE, "itiiiiiiiththihtiiiidddii", job, error), error);
    if (rc == 0 && sqlite3_changes(store->db) == 0)
        return ipu_error_set(error, IPU_ERR_INTERNAL,
                             "store: job %" PRIu64 " has ended already and cannot change", job->id);
    return rc;
}

static void job_row(sqlite3_stmt *row, struct store_job *job)
{
    *job = (struct store_job){
        .id = (uint64_t)sqlite3_column_int64(row, 0),
        .uid = (uint32_t)sqlite3_column_int64(row, 1),
        .state = sqlite3_column_int(row, 3),
        .priority = sqlite3_column_int(row, 4),
        .detached = sqlite3_column_int(row, 5) != 0,
        .no_cache = sqlite3_column_int(row, 6) != 0,
        .log_level = sqlite3_column_int(row, 7),
        .attempts = (unsigned)sqlite3_column_int(row, 8),
        .code = sqlite3_column_int(row, 9),
        .package_cached = sqlite3_column_int(row, 14) != 0,
        .submitted_us = (uint64_t)sqlite3_column_int64(row, 17),
        .started_us = (uint64_t)sqlite3_column_int64(row, 18),
        .finished_us = (uint64_t)sqlite3_column_int64(row, 19),
        .cycles = (uint64_t)sqlite3_column_int64(row, 20),
        .compile_ms = sqlite3_column_double(row, 21),
        .run_ms = sqlite3_column_double(row, 22),
        .check_ms = sqlite3_column_double(row, 23),
        .last_sequence = (uint64_t)sqlite3_column_int64(row, 24),
    };
    sql_copy_text(row, 2, job->name, sizeof job->name);
    sql_copy_text(row, 10, job->reason, sizeof job->reason);
    (void)sql_copy_hash(row, 11, &job->workload);
    sql_copy_text(row, 12, job->workload_key, sizeof job->workload_key);
    job->has_package = sql_copy_hash(row, 13, &job->package);
    job->has_profile = sql_copy_hash(row, 15, &job->profile);
    sql_copy_text(row, 16, job->results, sizeof job->results);
}

int store_job_load(struct store *store, uint64_t id, struct store_job *job, struct ipu_error *error)
{
    sqlite3_stmt *row = sql_bind(store, SQL_JOB_GET, error, "i", (int64_t)id);
    int rc = sql_step(store, row, error);
    if (rc == 0)
        return ipu_error_set(error, IPU_ERR_NOT_FOUND, "there is no job %" PRIu64, id);
    if (rc < 0)
        return rc;
    job_row(row, job);
    sqlite3_reset(row);
    return 0;
}

int store_job_latest(struct store *store, uint32_t uid, uint64_t *id, struct ipu_error *error)
{
    *id = (uint64_t)sql_number(store, sql_bind(store, SQL_JOB_LATEST, error, "i", (int64_t)uid), 0);
    return *id ? 0 : ipu_error_set(error, IPU_ERR_NOT_FOUND, "you have not submitted any job");
}

int store_job_list(struct store *store, const struct store_job_query *query,
                   bool (*each)(void *context, const struct store_job *job), void *context,
                   struct ipu_error *error)
{
    sqlite3_stmt *rows =
        query->oldest_first
            ? sql_bind(store, SQL_JOB_LIST_ACTIVE, error, "i", (int64_t)query->limit)
            : sql_bind(store, SQL_JOB_LIST, error, "iiiii", (int64_t)query->before,
                       (int64_t)query->mine, (int64_t)query->uid, (int64_t)query->active,
                       (int64_t)query->limit);
    int rc;
    while ((rc = sql_step(store, rows, error)) > 0) {
        struct store_job job;
        job_row(rows, &job);
        if (!each(context, &job))
            break;
    }
    if (rows)
        sqlite3_reset(rows);
    return rc < 0 ? rc : 0;
}

int store_event_add(struct store *store, uint64_t job, const struct store_event *event,
                    struct ipu_error *error)
{
    return sql_finish(store,
                      sql_bind(store, SQL_EVENT_INSERT, error, "iib", (int64_t)job,
                               (int64_t)event->sequence, event->body, event->size),
                      error);
}

int store_event_list(struct store *store, uint64_t job, uint64_t from, unsigned limit,
                     bool (*each)(void *context, const struct store_event *event), void *context,
                     struct ipu_error *error)
{
    sqlite3_stmt *rows =
        sql_bind(store, SQL_EVENT_LIST, error, "iii", (int64_t)job, (int64_t)from, (int64_t)limit);
    int rc;
    while ((rc = sql_step(store, rows, error)) > 0) {
        struct store_event event = {(uint64_t)sqlite3_column_int64(rows, 0),
                                    sqlite3_column_blob(rows, 1),
                                    (size_t)sqlite3_column_bytes(rows, 1)};
        if (!each(context, &event))
            break;
    }
    if (rows)
        sqlite3_reset(rows);
    return rc < 0 ? rc : 0;
}

/* --- outputs: the shape is stored as "1,17,64" --- */

static void shape_print(const struct store_output *output, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < output->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i ? "," : "",
                                 output->shape[i]);
}

static void shape_parse(const char *text, struct store_output *output)
{
    output->rank = 0;
    while (*text && output->rank < STORE_OUTPUT_RANK) {
        char *end;
        output->shape[output->rank++] = strtoull(text, &end, 10);
        text = *end == ',' ? end + 1 : "";
    }
}

int store_output_set(struct store *store, uint64_t job, const struct store_output *outputs,
                     size_t count, struct ipu_error *error)
{
    int rc = sql_guard_begin(store, error);
    if (rc)
        return rc;
    rc = sql_finish(store, sql_bind(store, SQL_OUTPUT_CLEAR, error, "i", (int64_t)job), error);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        char shape[STORE_OUTPUT_RANK * 21];
        shape_print(&outputs[i], shape, sizeof shape);
        rc = sql_finish(store,
                        sql_bind(store, SQL_OUTPUT_INSERT, error, "iititih", (int64_t)job,
                                 (int64_t)i, outputs[i].name, (int64_t)outputs[i].type, shape,
                                 (int64_t)outputs[i].bytes, &outputs[i].digest),
                        error);
    }
    return sql_guard_end(store, rc, error);
}

int store_output_list(struct store *store, uint64_t job,
                      bool (*each)(void *context, const struct store_output *output), void *context,
                      struct ipu_error *error)
{
    sqlite3_stmt *rows = sql_bind(store, SQL_OUTPUT_LIST, error, "i", (int64_t)job);
    int rc;
    while ((rc = sql_step(store, rows, error)) > 0) {
        struct store_output output = {.type = (uint32_t)sqlite3_column_int64(rows, 1),
                                      .bytes = (uint64_t)sqlite3_column_int64(rows, 3)};
        sql_copy_text(rows, 0, output.name, sizeof output.name);
        const unsigned char *shape = sqlite3_column_text(rows, 2);
        shape_parse(shape ? (const char *)shape : "", &output);
        (void)sql_copy_hash(rows, 4, &output.digest);
        if (!each(context, &output))
            break;
    }
    if (rows)
        sqlite3_reset(rows);
    return rc < 0 ? rc : 0;
}
