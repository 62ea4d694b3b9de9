/* Opening, migrating, batching and housekeeping of the store: see store.h.
 *
 * Invariants: the file carries our application id and a schema version that we know before any
 * statement touches it; `bytes` equals the sum over the objects table; inside a batch exactly one
 * transaction is open. Fails when the directory cannot be written, when the file is not ours, or
 * when it was written by a newer ipud.
 */
#include "daemon/store.h"

#include "base/alloc.h"
#include "daemon/store_cache.h"
#include "daemon/store_sql.h"
#include "schema/schema.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {
#define KIND(name, value, text) [value] = text,
#include "daemon/store_kinds.def"
#undef KIND
};

const char *store_kind_name(enum store_kind kind)
{
    return kind > STORE_NONE && (int)kind < STORE_KINDS ? kind_names[kind] : "none";
}

enum store_kind store_kind_parse(const char *text)
{
    for (int i = 1; i < STORE_KINDS; i++)
        if (strcmp(text, kind_names[i]) == 0)
            return (enum store_kind)i;
    return STORE_NONE;
}

static int exec(struct store *store, const char *sql, struct ipu_error *error)
{
    int rc = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sql_failed(store, rc, error);
}

static int64_t pragma_number(struct store *store, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static int migrate_one(struct store *store, int number, struct ipu_error *error)
{
    char set[96];
    snprintf(set, sizeof set, "PRAGMA user_version = %d; PRAGMA application_id = %d; COMMIT;",
             number, SCHEMA_APPLICATION_ID);
    int rc = exec(store, "BEGIN IMMEDIATE", error);
    if (rc == 0)
        rc = exec(store, schema_migration(number), error);
    if (rc == 0)
        rc = exec(store, set, error);
    if (rc && !sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    if (rc)
        return ipu_error_wrap(error, "cannot bring %s to schema version %d: ", store->path, number);
    log_event(store->log, LOG_LEVEL_INFO, "store", "schema migrated", "version=%d", number);
    return 0;
}

static int migrate(struct store *store, struct ipu_error *error)
{
    int64_t version = pragma_number(store, "PRAGMA user_version");
    int64_t id = pragma_number(store, "PRAGMA application_id");
    if (version < 0)
        return ipu_error_set(error, IPU_ERR_CORRUPT, "%s is not a database: %s", store->path,
                             sqlite3_errmsg(store->db));
    if (version > schema_version())
        return ipu_error_set(error, IPU_ERR_VERSION,
                             "%s has schema version %lld, written by a newer ipud; this one knows "
                             "versions up to %d. Upgrade ipud or use another state directory",
                             store->path, (long long)version, schema_version());
    int64_t tables = pragma_number(store, "SELECT count(*) FROM sqlite_schema");
    if (tables > 0 && id != SCHEMA_APPLICATION_ID)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "%s is a database of another program (application id %lld)",
                             store->path, (long long)id);
    int rc = tables > 0 ? 0 : exec(store, schema_create_pragmas(), error);
    if (rc == 0)
        rc = exec(store, schema_connection_pragmas(), error);
    for (int n = (int)version + 1; rc == 0 && n <= schema_version(); n++)
        rc = migrate_one(store, n, error);
    return rc;
}

/* What a crash left of uploads. */
static int drop_unfinished(struct store *store, struct ipu_error *error)
{
    for (;;) {
        int64_t id = sql_number(store, sql_bind(store, SQL_OBJECT_UNFINISHED, error, ""), 0);
        if (id == 0)
            return 0;
        int rc = store_object_delete(store, id, 0, error);
        if (rc)
            return rc;
    }
}

int store_open(const char *dir, uint64_t limit, struct log *log, struct store **out,
               struct ipu_error *error)
{
    *out = NULL;
    struct store *store = ipu_calloc(1, sizeof *store);
    size_t length = strlen(dir) + sizeof "/ipud.db";
    if (!store || !(store->path = ipu_malloc(length))) {
        ipu_free(store);
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "store: out of memory");
    }
    snprintf(store->path, length, "%s/ipud.db", dir);
    store->log = log;
    store->limit = limit;
    store->durable = true; /* schema_connection_pragmas() */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(store->path, &store->db, flags, NULL);
    if (rc != SQLITE_OK) {
        rc = ipu_error_set(error, IPU_ERR_IO, "cannot open %s: %s", store->path,
                           store->db ? sqlite3_errmsg(store->db) : "out of memory");
        goto fail;
    }
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, 2000);
    if ((rc = migrate(store, error)) || (rc = drop_unfinished(store, error)))
        goto fail;
    store->bytes = (uint64_t)sql_number(store, sql_bind(store, SQL_OBJECT_SUM, error, ""), 0);
    *out = store;
    return 0;
fail:
    store_close(store);
    return rc;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->db)
        store_notes_write(store);
    for (int i = 0; i < SQL_STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->db);
    ipu_free(store->pins);
    ipu_free(store->path);
    ipu_free(store);
}

int store_batch_begin(struct store *store, bool durable, struct ipu_error *error)
{
    int rc = 0;
    if (durable != store->durable) /* can only be changed between transactions */
        rc = sql_run(store, durable ? SQL_SYNC_FULL : SQL_SYNC_NORMAL, error);
    if (rc == 0)
        store->durable = durable;
    if (rc == 0)
        rc = sql_run(store, SQL_BEGIN, error);
    store->in_batch = rc == 0;
    return rc;
}

int store_batch_end(struct store *store, struct ipu_error *error)
{
    store->in_batch = false;
    /* An error such as a full disk can end the transaction early: nothing of the batch is kept. */
    int rc = sqlite3_get_autocommit(store->db)
                 ? ipu_error_set(error, IPU_ERR_IO,
                                 "store: the transaction was rolled back, "
                                 "as the disk is full or failing")
                 : sql_run(store, SQL_COMMIT, error);
    if (rc == 0)
        return 0;
    struct ipu_error ignored;
    if (!sqlite3_get_autocommit(store->db))
        (void)sql_run(store, SQL_ROLLBACK, &ignored);
    store->failures++;
    store->bytes = (uint64_t)sql_number(store, sql_bind(store, SQL_OBJECT_SUM, &ignored, ""), 0);
    return rc;
}

unsigned store_io_errors(const struct store *store)
{
    return store->io_errors;
}

uint64_t store_changes(const struct store *store)
{
    return (uint64_t)sqlite3_total_changes64(store->db);
}

bool store_idle(struct store *store, uint64_t keep_jobs)
{
    struct ipu_error ignored;
    store_notes_write(store);
    sqlite3_stmt *prune = sql_bind(store, SQL_JOB_PRUNE, &ignored, "i", (int64_t)keep_jobs);
    if (prune && sql_finish(store, prune, &ignored) == 0 && sqlite3_changes(store->db) > 0)
        return true;
    (void)sql_run(store, SQL_WORKLOAD_PRUNE, &ignored);
    (void)sql_run(store, SQL_VERDICT_PRUNE, &ignored);
    int64_t pages = sql_number(store, sql_bind(store, SQL_FREE_PAGES, &ignored, ""), 0);
    if (pages > 256) {
        sqlite3_exec(store->db, "PRAGMA incremental_vacuum(256)", NULL, NULL, NULL);
        return sql_number(store, sql_bind(store, SQL_FREE_PAGES, &ignored, ""), 0) < pages;
    }
    sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return false;
}
