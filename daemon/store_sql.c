/* Statements of the store: prepare, bind, step, and what SQLite's results mean to us: see
 * store_sql.h.
 *
 * Invariant: a statement that has been stepped is reset before the function that stepped it
 * returns, so that no read transaction stays open. It fails by returning a negative code with a
 * sentence that tells what the disk or the database said.
 */
#include "daemon/store_sql.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const texts[SQL_STATEMENTS] = {
#define STATEMENT(name, text) [SQL_##name] = text,
#include "daemon/store_sql.def"
#undef STATEMENT
};

int sql_failed(struct store *store, int rc, struct ipu_error *error)
{
    int code = IPU_ERR_IO;
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        code = IPU_ERR_NO_MEMORY;
        break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        code = IPU_ERR_CORRUPT;
        break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        code = IPU_ERR_BUSY;
        break;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISUSE:
    case SQLITE_ERROR:
        code = IPU_ERR_INTERNAL;
        break;
    default:
        break;
    }
    store->io_errors += code == IPU_ERR_IO;
    const char *hint = (rc & 0xff) == SQLITE_FULL ? " (the disk is full)" : "";
    return ipu_error_set(error, code, "store: %s%s", sqlite3_errmsg(store->db), hint);
}

static int bind_one(sqlite3_stmt *statement, int index, char type, va_list *args)
{
    switch (type) {
    case 'i':
        return sqlite3_bind_int64(statement, index, va_arg(*args, int64_t));
    case 'd':
        return sqlite3_bind_double(statement, index, va_arg(*args, double));
    case 't':
        return sqlite3_bind_text(statement, index, va_arg(*args, const char *), -1, SQLITE_STATIC);
    case 'h': {
        const struct hash *hash = va_arg(*args, const struct hash *);
        return hash ? sqlite3_bind_blob(statement, index, hash->bytes, HASH_BYTES, SQLITE_STATIC)
                    : sqlite3_bind_null(statement, index);
    }
    case 'b': {
        const void *data = va_arg(*args, const void *);
        size_t size = va_arg(*args, size_t);
        if (size == 0)
            return sqlite3_bind_zeroblob(statement, index, 0);
        return sqlite3_bind_blob64(statement, index, data, size, SQLITE_STATIC);
    }
    default:
        return sqlite3_bind_null(statement, index);
    }
}

sqlite3_stmt *sql_bind(struct store *store, enum sql_statement which, struct ipu_error *error,
                       const char *format, ...)
{
    sqlite3_stmt **slot = &store->statements[which];
    int rc = SQLITE_OK;
    if (!*slot)
        rc = sqlite3_prepare_v3(store->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, slot, NULL);
    else
        sqlite3_reset(*slot);
    va_list args;
    va_start(args, format);
    for (int i = 0; rc == SQLITE_OK && format[i]; i++)
        rc = bind_one(*slot, i + 1, format[i], &args);
    va_end(args);
    if (rc == SQLITE_OK)
        return *slot;
    sql_failed(store, rc, error);
    return NULL;
}

int sql_step(struct store *store, sqlite3_stmt *statement, struct ipu_error *error)
{
    if (!statement)
        return error ? error->code : IPU_ERR_IO;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE) {
        sqlite3_reset(statement);
        return 0;
    }
    int code = sql_failed(store, rc, error);
    sqlite3_reset(statement);
    return code;
}

int sql_finish(struct store *store, sqlite3_stmt *statement, struct ipu_error *error)
{
    int rc;
    while ((rc = sql_step(store, statement, error)) > 0)
        ;
    return rc;
}

int sql_run(struct store *store, enum sql_statement which, struct ipu_error *error)
{
    return sql_finish(store, sql_bind(store, which, error, ""), error);
}

int64_t sql_number(struct store *store, sqlite3_stmt *statement, int64_t fallback)
{
    struct ipu_error ignored;
    if (!statement || sql_step(store, statement, &ignored) <= 0)
        return fallback;
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return value;
}

void sql_copy_text(sqlite3_stmt *statement, int column, char *text, size_t size)
{
    const unsigned char *value = sqlite3_column_text(statement, column);
    snprintf(text, size, "%s", value ? (const char *)value : "");
}

bool sql_copy_hash(sqlite3_stmt *statement, int column, struct hash *hash)
{
    const void *value = sqlite3_column_blob(statement, column);
    if (!value || sqlite3_column_bytes(statement, column) != HASH_BYTES) {
        memset(hash, 0, sizeof *hash);
        return false;
    }
    memcpy(hash->bytes, value, HASH_BYTES);
    return true;
}

int sql_guard_begin(struct store *store, struct ipu_error *error)
{
    return sql_run(store, SQL_SAVEPOINT, error);
}

int sql_guard_end(struct store *store, int rc, struct ipu_error *error)
{
    if (rc == 0)
        rc = sql_run(store, SQL_RELEASE, error);
    if (rc == 0)
        return 0;
    /* A full disk may have rolled the whole transaction back; then there is no savepoint left. */
    struct ipu_error ignored;
    if (!sqlite3_get_autocommit(store->db)) {
        (void)sql_run(store, SQL_ROLLBACK_TO, &ignored);
        (void)sql_run(store, SQL_RELEASE, &ignored);
    }
    store->bytes = (uint64_t)sql_number(store, sql_bind(store, SQL_OBJECT_SUM, &ignored, ""), 0);
    return rc;
}
