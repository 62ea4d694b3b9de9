/* The migrations: see schema.h.
 *
 * Objects are byte strings addressed by kind and SHA-256; their bytes stand in `chunks`, in rows of
 * 1 MiB whose id is object << 20 | index, so that no row is larger than a megabyte and a range is
 * one index walk. An object without digest is an upload that has not finished; those are dropped at
 * start. Times are microseconds since the epoch. Job states are the numbers of ipu.rpc.JobState.
 */
#include "schema/schema.h"

#include <stddef.h>

static const char *const migrations[] = {
    /* 1: objects, jobs, events, kernels, packages. */
    "CREATE TABLE objects("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " kind INTEGER NOT NULL,"
    " digest BLOB CHECK(digest IS NULL OR length(digest) = 32),"
    " bytes INTEGER NOT NULL CHECK(bytes >= 0),"
    " created_us INTEGER NOT NULL,"
    " used_us INTEGER NOT NULL,"
    " UNIQUE(kind, digest));"
    "CREATE INDEX objects_used ON objects(used_us);"
    "CREATE TABLE chunks("
    " id INTEGER PRIMARY KEY,"
    " data BLOB NOT NULL);"
    "CREATE TABLE jobs("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " uid INTEGER NOT NULL,"
    " name TEXT NOT NULL,"
    " state INTEGER NOT NULL CHECK(state BETWEEN 1 AND 9),"
    " priority INTEGER NOT NULL,"
    " detached INTEGER NOT NULL,"
    " no_cache INTEGER NOT NULL,"
    " log_level INTEGER NOT NULL,"
    " attempts INTEGER NOT NULL,"
    " code INTEGER NOT NULL,"
    " reason TEXT NOT NULL,"
    " workload BLOB NOT NULL,"
    " workload_key TEXT NOT NULL,"
    " package BLOB,"
    " package_cached INTEGER NOT NULL,"
    " profile BLOB,"
    " results TEXT NOT NULL,"
    " submitted_us INTEGER NOT NULL,"
    " started_us INTEGER NOT NULL,"
    " finished_us INTEGER NOT NULL,"
    " cycles INTEGER NOT NULL,"
    " compile_ms REAL NOT NULL,"
    " run_ms REAL NOT NULL,"
    " check_ms REAL NOT NULL,"
    " last_sequence INTEGER NOT NULL);"
    "CREATE INDEX jobs_active ON jobs(state) WHERE state < 6;"
    "CREATE INDEX jobs_uid ON jobs(uid, id);"
    "CREATE TABLE events("
    " job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    " sequence INTEGER NOT NULL,"
    " body BLOB NOT NULL,"
    " PRIMARY KEY(job, sequence)) WITHOUT ROWID;"
    "CREATE TABLE outputs("
    " job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    " position INTEGER NOT NULL,"
    " name TEXT NOT NULL,"
    " type INTEGER NOT NULL,"
    " shape TEXT NOT NULL,"
    " bytes INTEGER NOT NULL,"
    " digest BLOB NOT NULL,"
    " PRIMARY KEY(job, position)) WITHOUT ROWID;"
    "CREATE TABLE kernels("
    " key TEXT PRIMARY KEY,"
    " name TEXT NOT NULL,"
    " object INTEGER NOT NULL REFERENCES objects ON DELETE CASCADE) WITHOUT ROWID;"
    "CREATE INDEX kernels_object ON kernels(object);"
    "CREATE TABLE packages("
    " key TEXT PRIMARY KEY,"
    " object INTEGER NOT NULL REFERENCES objects ON DELETE CASCADE,"
    " estimated_cycles INTEGER NOT NULL,"
    " compile_ms REAL NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX packages_object ON packages(object);",
    /* 2: what is known of a workload file without reading it again; search states; counters. */
    "CREATE TABLE workloads("
    " key TEXT PRIMARY KEY,"
    " package_key TEXT NOT NULL,"
    " search_key TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " facts BLOB NOT NULL,"
    " used_us INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE searches("
    " key TEXT PRIMARY KEY,"
    " uid INTEGER NOT NULL,"
    " workload TEXT NOT NULL,"
    " object INTEGER NOT NULL REFERENCES objects ON DELETE CASCADE,"
    " attempts INTEGER NOT NULL,"
    " best_cycles INTEGER NOT NULL,"
    " updated_us INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX searches_object ON searches(object);"
    "CREATE TABLE counters("
    " kind INTEGER PRIMARY KEY,"
    " hits INTEGER NOT NULL DEFAULT 0,"
    " misses INTEGER NOT NULL DEFAULT 0,"
    " damaged INTEGER NOT NULL DEFAULT 0,"
    " evicted INTEGER NOT NULL DEFAULT 0);",
    /* 3: outputs that have passed their check. */
    "CREATE TABLE verdicts("
    " key TEXT PRIMARY KEY,"
    " line TEXT NOT NULL,"
    " used_us INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX verdicts_used ON verdicts(used_us);"
    "CREATE INDEX workloads_used ON workloads(used_us);",
};

int schema_version(void)
{
    return (int)(sizeof migrations / sizeof migrations[0]);
}

const char *schema_migration(int number)
{
    return number >= 1 && number <= schema_version() ? migrations[number - 1] : NULL;
}

const char *schema_create_pragmas(void)
{
    return "PRAGMA page_size = 16384; PRAGMA auto_vacuum = INCREMENTAL;";
}

const char *schema_connection_pragmas(void)
{
    /* Debian builds SQLite with secure_delete on: overwriting evicted megabytes buys nothing here.
     */
    return "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
           "PRAGMA secure_delete = OFF; PRAGMA journal_size_limit = 16777216;"
           "PRAGMA wal_autocheckpoint = 1024; PRAGMA cache_size = -8192;"
           "PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;";
}
