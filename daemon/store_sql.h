/* What the files of the store share: the handle, prepared statements, binding, savepoints. Private
 * to daemon/store*.c.
 */
#ifndef IPU_DAEMON_STORE_SQL_H
#define IPU_DAEMON_STORE_SQL_H

#include "daemon/store.h"

#include <sqlite3.h>

enum sql_statement {
#define STATEMENT(name, text) SQL_##name,
#include "daemon/store_sql.def"
#undef STATEMENT
    SQL_STATEMENTS
};

struct store_pin {
    int64_t id;
    unsigned count;
};

/* When an object was last used: not written yet. */
struct store_use {
    int64_t id;
    uint64_t us;
};
enum { STORE_USES = 64 };

struct store {
    sqlite3 *db;
    struct log *log;
    char *path;
    uint64_t limit;
    uint64_t bytes;     /* of all objects, finished or not */
    unsigned io_errors; /* statements that the disk made fail */
    unsigned failures;  /* failed batches: uploads from before one are lost */
    bool in_batch;
    bool durable; /* commits wait for the disk */
    struct store_pin *pins;
    size_t pin_count, pin_capacity;
    struct store_use uses[STORE_USES];
    size_t use_count;
    unsigned found[STORE_KINDS][2]; /* misses and hits that have not been written */
    sqlite3_stmt *statements[SQL_STATEMENTS];
};

/* Prepares (once), resets and binds: i int64, d double, t text, h hash or NULL, b pointer and
 * size_t, n NULL. NULL with the error set when it cannot. */
sqlite3_stmt *sql_bind(struct store *store, enum sql_statement which, struct ipu_error *error,
                       const char *format, ...);
/* One row: 1, no (more) row: 0, else a negative code with the sentence set. */
int sql_step(struct store *store, sqlite3_stmt *statement, struct ipu_error *error);
/* Steps to the end and resets. */
int sql_finish(struct store *store, sqlite3_stmt *statement, struct ipu_error *error);
/* sql_bind() without parameters, then sql_finish(). */
int sql_run(struct store *store, enum sql_statement which, struct ipu_error *error);
/* First column of the first row; `fallback` when there is none or it fails. */
int64_t sql_number(struct store *store, sqlite3_stmt *statement, int64_t fallback);
/* Sets the error from the database handle. */
int sql_failed(struct store *store, int rc, struct ipu_error *error);
void sql_copy_text(sqlite3_stmt *statement, int column, char *text, size_t size);
/* False when the column is NULL or no digest. */
bool sql_copy_hash(sqlite3_stmt *statement, int column, struct hash *hash);
/* Makes several statements atomic: begin, then end with the result so far, which it returns. */
int sql_guard_begin(struct store *store, struct ipu_error *error);
int sql_guard_end(struct store *store, int rc, struct ipu_error *error);

/* Drops an object with its chunks and the keys that lead to it. */
int store_object_delete(struct store *store, int64_t id, uint64_t bytes, struct ipu_error *error);
bool store_object_pinned(struct store *store, const struct store_object *object);
/* Evicts until `need` more bytes fit under `limit`; IPU_ERR_LIMIT when what is in use is too much.
 * Returns what was evicted in *objects and *bytes (may be NULL). */
int store_evict(struct store *store, uint64_t need, uint64_t limit, uint64_t *objects,
                uint64_t *bytes, struct ipu_error *error);
/* Notes that are written together: see store_notes.c. */
void store_note_use(struct store *store, int64_t id);
void store_note_hit(struct store *store, enum store_kind kind, bool hit);
void store_notes_write(struct store *store);
void store_count(struct store *store, enum sql_statement which, enum store_kind kind);
void store_object_row(sqlite3_stmt *statement, struct store_object *object);
int store_object_get(struct store *store, int64_t id, struct store_object *object,
                     struct ipu_error *error);

#endif
