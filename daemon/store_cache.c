/* Keys, search states and housekeeping of the store: see store_cache.h.
 *
 * Invariant: a key row refers to a complete object or is gone with it (foreign keys cascade), so a
 * hit can always be read; whether the bytes are still good is decided at each read. Entries of
 * caches may be dropped at any time. It fails when the disk does.
 */
#include "daemon/store_cache.h"

#include "base/clock.h"
#include "daemon/store_sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int store_kernel_find(struct store *store, const char *key, struct buffer *object, bool *found,
                      struct ipu_error *error)
{
    *found = false;
    int64_t id = sql_number(store, sql_bind(store, SQL_KERNEL_FIND, error, "t", key), 0);
    struct store_object row;
    int rc = id ? store_object_get(store, id, &row, error) : IPU_ERR_NOT_FOUND;
    if (rc == 0)
        rc = store_object_read(store, &row, object, error);
    if (rc == 0) {
        *found = true;
        store_note_use(store, id);
    }
    store_note_hit(store, STORE_KERNEL, rc == 0);
    return rc == IPU_ERR_NOT_FOUND || rc == IPU_ERR_CORRUPT ? 0 : rc;
}

int store_kernel_put(struct store *store, const char *key, const char *name, const void *data,
                     size_t size, struct ipu_error *error)
{
    struct store_object object;
    int rc = sql_guard_begin(store, error);
    if (rc)
        return rc;
    rc = store_object_put(store, STORE_KERNEL, data, size, &object, error);
    if (rc == 0)
        rc = sql_finish(store, sql_bind(store, SQL_KERNEL_PUT, error, "tti", key, name, object.id),
                        error);
    return sql_guard_end(store, rc, error);
}

int store_package_find(struct store *store, const char *key, struct store_package *package,
                       bool *found, struct ipu_error *error)
{
    *found = false;
    sqlite3_stmt *row = sql_bind(store, SQL_PACKAGE_FIND, error, "t", key);
    int rc = sql_step(store, row, error);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        store_note_hit(store, STORE_PACKAGE, false);
        return 0;
    }
    int64_t id = sqlite3_column_int64(row, 0);
    package->estimated_cycles = (uint64_t)sqlite3_column_int64(row, 1);
    package->compile_ms = sqlite3_column_double(row, 2);
    sqlite3_reset(row);
    rc = store_object_get(store, id, &package->object, error);
    if (rc)
        return rc;
    *found = true;
    store_note_use(store, id);
    store_note_hit(store, STORE_PACKAGE, true);
    return 0;
}

int store_package_put(struct store *store, const char *key, const struct store_package *package,
                      struct ipu_error *error)
{
    return sql_finish(store,
                      sql_bind(store, SQL_PACKAGE_PUT, error, "tiid", key, package->object.id,
                               (int64_t)package->estimated_cycles, package->compile_ms),
                      error);
}

int store_workload_find(struct store *store, const char *key, struct store_workload *workload,
                        bool *found, struct ipu_error *error)
{
    sqlite3_stmt *row = sql_bind(store, SQL_WORKLOAD_FIND, error, "t", key);
    int rc = sql_step(store, row, error);
    *found = rc > 0;
    if (rc <= 0)
        return rc;
    sql_copy_text(row, 0, workload->package_key, sizeof workload->package_key);
    sql_copy_text(row, 1, workload->search_key, sizeof workload->search_key);
    sql_copy_text(row, 2, workload->name, sizeof workload->name);
    size_t size = (size_t)sqlite3_column_bytes(row, 3);
    *found = size <= sizeof workload->facts;
    workload->facts_size = *found ? size : 0;
    memcpy(workload->facts, sqlite3_column_blob(row, 3), workload->facts_size);
    sqlite3_reset(row);
    return 0;
}

int store_workload_put(struct store *store, const char *key, const struct store_workload *workload,
                       struct ipu_error *error)
{
    return sql_finish(store,
                      sql_bind(store, SQL_WORKLOAD_PUT, error, "ttttbi", key, workload->package_key,
                               workload->search_key, workload->name, workload->facts,
                               workload->facts_size, (int64_t)clock_wall_us()),
                      error);
}

int store_verdict_find(struct store *store, const char *key, char line[STORE_RESULTS], bool *found,
                       struct ipu_error *error)
{
    sqlite3_stmt *row = sql_bind(store, SQL_VERDICT_FIND, error, "t", key);
    int rc = sql_step(store, row, error);
    *found = rc > 0;
    if (rc <= 0)
        return rc;
    sql_copy_text(row, 0, line, STORE_RESULTS);
    sqlite3_reset(row);
    return 0;
}

int store_verdict_put(struct store *store, const char *key, const char *line,
                      struct ipu_error *error)
{
    return sql_finish(
        store, sql_bind(store, SQL_VERDICT_PUT, error, "tti", key, line, (int64_t)clock_wall_us()),
        error);
}

/* --- search states --- */

static int search_row(struct store *store, sqlite3_stmt *row, struct store_search *search,
                      struct ipu_error *error)
{
    sql_copy_text(row, 0, search->key, sizeof search->key);
    search->uid = (uint32_t)sqlite3_column_int64(row, 1);
    sql_copy_text(row, 2, search->workload, sizeof search->workload);
    search->attempts = (uint64_t)sqlite3_column_int64(row, 4);
    search->best_cycles = (uint64_t)sqlite3_column_int64(row, 5);
    search->updated_us = (uint64_t)sqlite3_column_int64(row, 6);
    return store_object_get(store, sqlite3_column_int64(row, 3), &search->object, error);
}

int store_search_find(struct store *store, const char *key, struct store_search *search,
                      struct ipu_error *error)
{
    size_t digits = strspn(key, "0123456789abcdef");
    if (digits < 4 || digits > 64 || key[digits])
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "a search key is 4 to 64 lower-case hexadecimal digits, not \"%.80s\"",
                             key);
    sqlite3_stmt *row = sql_bind(store, SQL_SEARCH_FIND, error, "t", key);
    int rc = sql_step(store, row, error);
    if (rc == 0)
        return ipu_error_set(error, IPU_ERR_NOT_FOUND, "there is no search state %.64s", key);
    if (rc < 0)
        return rc;
    rc = search_row(store, row, search, error);
    bool exact = strcmp(search->key, key) == 0;
    int more = rc == 0 && !exact ? sql_step(store, row, error) : 0;
    sqlite3_reset(row);
    if (more > 0)
        return ipu_error_set(error, IPU_ERR_INVALID, "several search states begin with %.64s", key);
    return rc ? rc : more;
}

int store_search_put(struct store *store, const struct store_search *search,
                     struct ipu_error *error)
{
    return sql_finish(store,
                      sql_bind(store, SQL_SEARCH_PUT, error, "titiiii", search->key,
                               (int64_t)search->uid, search->workload, search->object.id,
                               (int64_t)search->attempts, (int64_t)search->best_cycles,
                               (int64_t)clock_wall_us()),
                      error);
}

int store_search_drop(struct store *store, const char *key, struct ipu_error *error)
{
    return sql_finish(store, sql_bind(store, SQL_SEARCH_DROP, error, "t", key), error);
}

int store_search_list(struct store *store, unsigned limit,
                      bool (*each)(void *context, const struct store_search *search), void *context,
                      struct ipu_error *error)
{
    sqlite3_stmt *rows = sql_bind(store, SQL_SEARCH_LIST, error, "i", (int64_t)limit);
    int rc;
    while ((rc = sql_step(store, rows, error)) > 0) {
        struct store_search search;
        rc = search_row(store, rows, &search, error);
        if (rc || !each(context, &search))
            break;
    }
    if (rows)
        sqlite3_reset(rows);
    return rc < 0 ? rc : 0;
}

/* --- housekeeping --- */

static uint64_t file_bytes(const char *path, const char *suffix)
{
    char name[4096];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int count_pinned(struct store *store, uint64_t *bytes, struct ipu_error *error)
{
    /* Everything that is not evictable: walk the evictable ones and subtract. */
    sqlite3_stmt *rows = sql_bind(store, SQL_OBJECT_EVICTABLE, error, "");
    uint64_t free_bytes = 0;
    int rc;
    while ((rc = sql_step(store, rows, error)) > 0) {
        bool held = false;
        for (size_t i = 0; i < store->pin_count && !held; i++)
            held = store->pins[i].id == sqlite3_column_int64(rows, 0);
        free_bytes += held ? 0 : (uint64_t)sqlite3_column_int64(rows, 2);
    }
    *bytes = store->bytes - free_bytes;
    return rc;
}

static struct store_kind_stats *kind_stats(struct store_stats *stats, sqlite3_stmt *row)
{
    int kind = sqlite3_column_int(row, 0);
    return &stats->kinds[kind > 0 && kind < STORE_KINDS ? kind : 0];
}

int store_cache_stats(struct store *store, struct store_stats *stats, struct ipu_error *error)
{
    store_notes_write(store);
    *stats = (struct store_stats){.bytes = store->bytes, .limit = store->limit};
    sqlite3_stmt *rows = sql_bind(store, SQL_OBJECT_STATS, error, "");
    int rc;
    while ((rc = sql_step(store, rows, error)) > 0) {
        struct store_kind_stats *kind = kind_stats(stats, rows);
        kind->objects = (uint64_t)sqlite3_column_int64(rows, 1);
        kind->bytes = (uint64_t)sqlite3_column_int64(rows, 2);
    }
    rows = rc < 0 ? NULL : sql_bind(store, SQL_COUNTERS, error, "");
    while (rc >= 0 && (rc = sql_step(store, rows, error)) > 0) {
        struct store_kind_stats *kind = kind_stats(stats, rows);
        kind->hits = (uint64_t)sqlite3_column_int64(rows, 1);
        kind->misses = (uint64_t)sqlite3_column_int64(rows, 2);
        kind->damaged = (uint64_t)sqlite3_column_int64(rows, 3);
        kind->evicted = (uint64_t)sqlite3_column_int64(rows, 4);
    }
    if (rc == 0)
        rc = count_pinned(store, &stats->pinned_bytes, error);
    stats->database_bytes = file_bytes(store->path, "") + file_bytes(store->path, "-wal");
    return rc;
}

int store_cache_list(struct store *store, enum store_kind kind, unsigned limit,
                     bool (*each)(void *context, const struct store_object *object), void *context,
                     struct ipu_error *error)
{
    store_notes_write(store);
    sqlite3_stmt *rows =
        sql_bind(store, SQL_OBJECT_LIST, error, "ii", (int64_t)kind, (int64_t)limit);
    int rc;
    while ((rc = sql_step(store, rows, error)) > 0) {
        struct store_object object;
        store_object_row(rows, &object);
        object.pinned = store_object_pinned(store, &object);
        sql_copy_text(rows, 6, object.key, sizeof object.key);
        if (!each(context, &object))
            break;
    }
    if (rows)
        sqlite3_reset(rows);
    return rc < 0 ? rc : 0;
}

int store_cache_gc(struct store *store, uint64_t target, uint64_t *objects, uint64_t *bytes,
                   struct ipu_error *error)
{
    *objects = *bytes = 0;
    int rc = sql_guard_begin(store, error);
    if (rc)
        return rc;
    rc = store_evict(store, 0, target, objects, bytes, error);
    if (rc == IPU_ERR_LIMIT) /* the rest is in use */
        rc = 0;
    return sql_guard_end(store, rc, error);
}
