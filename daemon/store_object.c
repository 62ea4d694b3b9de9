/* Objects: uploads, verified reads, pins, eviction: see store.h.
 *
 * Invariants: an object with a digest is complete and its bytes had that digest when it was
 * published; the sum of all objects, uploads included, stays under the cap at every commit; a
 * pinned object is never evicted. It fails when the disk does, when what is in use fills the cap,
 * or when stored bytes are damaged (then the object is gone afterwards).
 */
#include "daemon/store_cache.h"
#include "daemon/store_sql.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <inttypes.h>
#include <string.h>

enum { CHUNK_SHIFT = 20 };

struct store_upload {
    int64_t id; /* 0: small enough to stay in memory until its end */
    enum store_kind kind;
    uint64_t bytes, done;
    unsigned failures; /* of the store at the begin */
    int64_t next;      /* chunk */
    struct hash_state *hash;
    struct buffer piece; /* bytes that wait for a whole chunk */
};

struct store_reader {
    struct store_object object;
    uint64_t done;
    int64_t next;
    struct hash_state *hash;
};

/* --- pins --- */

static struct store_pin *find_pin(struct store *store, int64_t id)
{
    for (size_t i = 0; i < store->pin_count; i++)
        if (store->pins[i].id == id)
            return &store->pins[i];
    return NULL;
}

void store_pin(struct store *store, int64_t id)
{
    struct store_pin *pin = find_pin(store, id);
    if (pin) {
        pin->count++;
        return;
    }
    if (store->pin_count == store->pin_capacity) {
        size_t capacity = store->pin_capacity ? store->pin_capacity * 2 : 32;
        struct store_pin *pins = ipu_realloc(store->pins, capacity * sizeof *pins);
        if (!pins)
            return; /* an unpinned object can be evicted; its reader then gets an error */
        store->pins = pins;
        store->pin_capacity = capacity;
    }
    store->pins[store->pin_count++] = (struct store_pin){id, 1};
}

void store_unpin(struct store *store, int64_t id)
{
    struct store_pin *pin = find_pin(store, id);
    if (pin && --pin->count == 0)
        *pin = store->pins[--store->pin_count];
}

bool store_object_pinned(struct store *store, const struct store_object *object)
{
    struct ipu_error ignored;
    return find_pin(store, object->id) ||
           sql_number(store, sql_bind(store, SQL_OBJECT_PINNED, &ignored, "h", &object->digest), 1);
}

/* --- rows --- */

void store_object_row(sqlite3_stmt *statement, struct store_object *object)
{
    *object = (struct store_object){
        .id = sqlite3_column_int64(statement, 0),
        .kind = (enum store_kind)sqlite3_column_int(statement, 1),
        .bytes = (uint64_t)sqlite3_column_int64(statement, 3),
        .created_us = (uint64_t)sqlite3_column_int64(statement, 4),
        .used_us = (uint64_t)sqlite3_column_int64(statement, 5),
    };
    (void)sql_copy_hash(statement, 2, &object->digest);
}

static int one_object(struct store *store, sqlite3_stmt *statement, struct store_object *object,
                      struct ipu_error *error)
{
    int rc = sql_step(store, statement, error);
    if (rc == 0)
        return ipu_error_set(error, IPU_ERR_NOT_FOUND, "store: no such object");
    if (rc < 0)
        return rc;
    store_object_row(statement, object);
    sqlite3_reset(statement);
    return 0;
}

int store_object_get(struct store *store, int64_t id, struct store_object *object,
                     struct ipu_error *error)
{
    return one_object(store, sql_bind(store, SQL_OBJECT_GET, error, "i", id), object, error);
}

int store_object_find(struct store *store, enum store_kind kind, const struct hash *digest,
                      struct store_object *object, struct ipu_error *error)
{
    return one_object(store, sql_bind(store, SQL_OBJECT_FIND, error, "ih", (int64_t)kind, digest),
                      object, error);
}

int store_object_after(struct store *store, int64_t after, struct store_object *object,
                       struct ipu_error *error)
{
    return one_object(store, sql_bind(store, SQL_OBJECT_AFTER, error, "i", after), object, error);
}

void store_count(struct store *store, enum sql_statement which, enum store_kind kind)
{
    struct ipu_error ignored; /* a counter that cannot be raised is no reason to fail */
    (void)sql_finish(store, sql_bind(store, which, &ignored, "i", (int64_t)kind), &ignored);
}

int store_object_delete(struct store *store, int64_t id, uint64_t bytes, struct ipu_error *error)
{
    int rc = sql_guard_begin(store, error);
    if (rc)
        return rc;
    int64_t first = id << CHUNK_SHIFT, last = first | ((1 << CHUNK_SHIFT) - 1);
    rc = sql_finish(store, sql_bind(store, SQL_CHUNK_DELETE, error, "ii", first, last), error);
    if (rc == 0)
        rc = sql_finish(store, sql_bind(store, SQL_OBJECT_DELETE, error, "i", id), error);
    if (rc == 0)
        store->bytes -= bytes < store->bytes ? bytes : store->bytes;
    return sql_guard_end(store, rc, error);
}

/* --- eviction --- */

struct victim {
    int64_t id;
    enum store_kind kind;
    uint64_t bytes;
};
enum { VICTIMS = 64 };

/* The next least recently used objects that nothing holds. */
static int find_victims(struct store *store, struct victim victims[VICTIMS],
                        struct ipu_error *error)
{
    store_notes_write(store);
    sqlite3_stmt *rows = sql_bind(store, SQL_OBJECT_EVICTABLE, error, "");
    int n = 0, rc = 0;
    while (n < VICTIMS && (rc = sql_step(store, rows, error)) > 0) {
        int64_t id = sqlite3_column_int64(rows, 0);
        if (!find_pin(store, id))
            victims[n++] = (struct victim){id, (enum store_kind)sqlite3_column_int(rows, 1),
                                           (uint64_t)sqlite3_column_int64(rows, 2)};
    }
    if (rc < 0)
        return rc;
    sqlite3_reset(rows);
    return n;
}

int store_evict(struct store *store, uint64_t need, uint64_t limit, uint64_t *objects,
                uint64_t *bytes, struct ipu_error *error)
{
    struct victim victims[VICTIMS];
    while (need > limit || store->bytes > limit - need) {
        int n = need > limit ? 0 : find_victims(store, victims, error);
        if (n < 0)
            return n;
        if (n == 0)
            return ipu_error_set(error, IPU_ERR_LIMIT,
                                 "the store is full: %" PRIu64 " bytes are needed, the limit is "
                                 "%" PRIu64 " and %" PRIu64 " are in use by jobs",
                                 need, limit, store->bytes);
        for (int i = 0; i < n && store->bytes > limit - need; i++) {
            int rc = store_object_delete(store, victims[i].id, victims[i].bytes, error);
            if (rc)
                return rc;
            store_count(store, SQL_COUNT_EVICTED, victims[i].kind);
            if (objects)
                ++*objects;
            if (bytes)
                *bytes += victims[i].bytes;
        }
    }
    return 0;
}

/* --- uploads --- */

static void free_upload(struct store_upload *upload)
{
    struct hash unused;
    if (upload->hash)
        (void)hash_finish(upload->hash, &unused);
    buffer_free(&upload->piece);
    ipu_free(upload);
}

/* Makes room and the row of the object, all or nothing. Without a digest it is an upload in
 * progress. */
static int reserve(struct store *store, struct store_upload *upload, const struct hash *digest,
                   struct ipu_error *error)
{
    int64_t now = (int64_t)clock_wall_us();
    int rc = sql_guard_begin(store, error);
    if (rc)
        return rc;
    rc = store_evict(store, upload->bytes, store->limit, NULL, NULL, error);
    if (rc == 0)
        rc = sql_finish(store,
                        sql_bind(store, SQL_OBJECT_INSERT, error, "ihiii", (int64_t)upload->kind,
                                 digest, (int64_t)upload->bytes, now, now),
                        error);
    if (rc == 0) {
        upload->id = sqlite3_last_insert_rowid(store->db);
        store->bytes += upload->bytes;
    }
    return sql_guard_end(store, rc, error);
}

/* What can never fit is refused before its bytes come. */
static int check_limit(const struct store *store, uint64_t bytes, struct ipu_error *error)
{
    if (bytes <= store->limit)
        return 0;
    return ipu_error_set(error, IPU_ERR_LIMIT,
                         "the store is full: %" PRIu64 " bytes are needed, the limit is %" PRIu64,
                         bytes, store->limit);
}

int store_upload_begin(struct store *store, enum store_kind kind, uint64_t bytes,
                       struct store_upload **out, struct ipu_error *error)
{
    *out = NULL;
    if (bytes >> (2 * CHUNK_SHIFT))
        return ipu_error_set(error, IPU_ERR_LIMIT, "store: %" PRIu64 " bytes are too many", bytes);
    struct store_upload *upload = ipu_calloc(1, sizeof *upload);
    if (!upload || !(upload->hash = hash_begin())) {
        ipu_free(upload);
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "store: out of memory");
    }
    upload->kind = kind;
    upload->bytes = bytes;
    upload->failures = store->failures;
    int rc = bytes <= STORE_CHUNK ? check_limit(store, bytes, error)
                                  : reserve(store, upload, NULL, error);
    if (rc)
        free_upload(upload);
    else
        *out = upload;
    return rc;
}

static int upload_alive(struct store *store, const struct store_upload *upload,
                        struct ipu_error *error)
{
    if (upload->id == 0 || upload->failures == store->failures)
        return 0;
    return ipu_error_set(error, IPU_ERR_IO, "store: the disk failed during the upload; try again");
}

static int write_piece(struct store *store, struct store_upload *upload, struct ipu_error *error)
{
    int64_t id = (upload->id << CHUNK_SHIFT) | upload->next;
    int rc = sql_finish(
        store,
        sql_bind(store, SQL_CHUNK_INSERT, error, "ib", id, upload->piece.data, upload->piece.size),
        error);
    if (rc == 0) {
        upload->next++;
        upload->piece.size = 0;
    }
    return rc;
}

int store_upload_append(struct store *store, struct store_upload *upload, const void *data,
                        size_t size, struct ipu_error *error)
{
    int rc = upload_alive(store, upload, error);
    if (rc)
        return rc;
    if (size > upload->bytes - upload->done)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "upload: more bytes came than the %" PRIu64 " announced",
                             upload->bytes);
    hash_update(upload->hash, data, size);
    upload->done += size;
    const uint8_t *at = data;
    while (size) {
        size_t room = STORE_CHUNK - upload->piece.size;
        size_t n = size < room ? size : room;
        buffer_append(&upload->piece, at, n);
        if (upload->piece.failed)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "store: out of memory");
        at += n;
        size -= n;
        bool full = upload->piece.size == STORE_CHUNK && upload->id;
        if (full && (rc = write_piece(store, upload, error)))
            return rc;
    }
    return 0;
}

/* Names the uploaded bytes, or drops them in favour of the same bytes stored earlier. */
static int publish(struct store *store, struct store_upload *upload, const struct hash *digest,
                   struct store_object *object, struct ipu_error *error)
{
    int64_t now = (int64_t)clock_wall_us();
    int rc = store_object_find(store, upload->kind, digest, object, error);
    if (rc == 0) {
        store_note_use(store, object->id);
        return upload->id ? store_object_delete(store, upload->id, upload->bytes, error) : 0;
    }
    if (rc != IPU_ERR_NOT_FOUND)
        return rc;
    if (upload->id)
        rc = sql_finish(store,
                        sql_bind(store, SQL_OBJECT_PUBLISH, error, "hii", digest, now, upload->id),
                        error);
    else if ((rc = reserve(store, upload, digest, error)) == 0 && upload->bytes)
        rc = write_piece(store, upload, error);
    *object = (struct store_object){.id = upload->id,
                                    .kind = upload->kind,
                                    .bytes = upload->bytes,
                                    .digest = *digest,
                                    .created_us = (uint64_t)now,
                                    .used_us = (uint64_t)now};
    return rc;
}

int store_upload_finish(struct store *store, struct store_upload *upload,
                        struct store_object *object, struct ipu_error *error)
{
    struct hash digest;
    bool in_memory = upload->id == 0;
    int rc = upload_alive(store, upload, error);
    if (rc == 0 && upload->done != upload->bytes)
        rc = ipu_error_set(error, IPU_ERR_INVALID,
                           "upload: %" PRIu64 " bytes came, %" PRIu64 " were announced",
                           upload->done, upload->bytes);
    if (rc == 0 && upload->piece.size && upload->id)
        rc = write_piece(store, upload, error);
    if (rc == 0) {
        bool hashed = hash_finish(upload->hash, &digest);
        upload->hash = NULL;
        rc = hashed ? 0 : ipu_error_set(error, IPU_ERR_INTERNAL, "store: SHA-256 failed");
    }
    if (rc == 0 && (rc = sql_guard_begin(store, error)) == 0)
        rc = sql_guard_end(store, publish(store, upload, &digest, object, error), error);
    if (rc) {
        upload->id = in_memory ? 0 : upload->id; /* the guard has taken the row back */
        store_upload_abort(store, upload);
        return rc;
    }
    store_pin(store, object->id);
    free_upload(upload);
    return 0;
}

void store_upload_abort(struct store *store, struct store_upload *upload)
{
    struct ipu_error ignored; /* what stays is dropped at the next start */
    if (upload->id && upload->failures == store->failures)
        (void)store_object_delete(store, upload->id, upload->bytes, &ignored);
    free_upload(upload);
}

int store_object_put(struct store *store, enum store_kind kind, const void *data, size_t size,
                     struct store_object *object, struct ipu_error *error)
{
    struct store_upload *upload;
    int rc = store_upload_begin(store, kind, size, &upload, error);
    if (!upload)
        return rc;
    rc = store_upload_append(store, upload, data, size, error);
    if (rc) {
        store_upload_abort(store, upload);
        return rc;
    }
    rc = store_upload_finish(store, upload, object, error);
    if (rc == 0)
        store_unpin(store, object->id);
    return rc;
}

/* --- reading --- */

int store_reader_open(struct store *store, const struct store_object *object,
                      struct store_reader **out, struct ipu_error *error)
{
    struct store_reader *reader = ipu_calloc(1, sizeof *reader);
    *out = NULL;
    if (!reader || !(reader->hash = hash_begin())) {
        ipu_free(reader);
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "store: out of memory");
    }
    reader->object = *object;
    store_pin(store, object->id);
    *out = reader;
    return 0;
}

void store_reader_close(struct store *store, struct store_reader *reader)
{
    struct hash unused;
    if (!reader)
        return;
    store_unpin(store, reader->object.id);
    if (reader->hash)
        (void)hash_finish(reader->hash, &unused);
    ipu_free(reader);
}

static int damaged(struct store *store, const struct store_reader *reader, struct ipu_error *error)
{
    const struct store_object *object = &reader->object;
    char text[HASH_TEXT];
    struct store_object now;
    hash_text(&object->digest, text);
    if (store_object_get(store, object->id, &now, error) == IPU_ERR_NOT_FOUND)
        return ipu_error_set(error, IPU_ERR_NOT_FOUND, "store: %s %.16s is no longer stored",
                             store_kind_name(object->kind), text);
    store_count(store, SQL_COUNT_DAMAGED, object->kind);
    (void)store_object_delete(store, object->id, object->bytes, error);
    log_event(store->log, LOG_LEVEL_WARN, "store", "dropped damaged object",
              "kind=%s digest=%s bytes=%" PRIu64, store_kind_name(object->kind), text,
              object->bytes);
    return ipu_error_set(error, IPU_ERR_CORRUPT,
                         "store: the stored bytes of %s %.16s were damaged; it has been dropped",
                         store_kind_name(object->kind), text);
}

int store_reader_next(struct store *store, struct store_reader *reader, struct buffer *out,
                      bool *last, struct ipu_error *error)
{
    size_t before = out->size;
    uint64_t left = reader->object.bytes - reader->done;
    if (left > 0) {
        int64_t id = (reader->object.id << CHUNK_SHIFT) | reader->next++;
        sqlite3_stmt *row = sql_bind(store, SQL_CHUNK_GET, error, "i", id);
        int rc = sql_step(store, row, error);
        if (rc < 0 && rc != IPU_ERR_CORRUPT)
            return rc;
        size_t size = rc == 1 ? (size_t)sqlite3_column_bytes(row, 0) : 0;
        uint64_t expected = left < STORE_CHUNK ? left : STORE_CHUNK;
        if (size == expected) {
            buffer_append(out, sqlite3_column_blob(row, 0), size);
            hash_update(reader->hash, out->data + before, out->failed ? 0 : size);
        }
        if (rc == 1)
            sqlite3_reset(row);
        if (out->failed)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "store: out of memory");
        if (size != expected)
            return damaged(store, reader, error);
        reader->done += size;
    }
    *last = reader->done == reader->object.bytes;
    if (!*last)
        return 0;
    struct hash digest;
    bool good = reader->hash && hash_finish(reader->hash, &digest) &&
                hash_equal(&digest, &reader->object.digest);
    reader->hash = NULL;
    if (good)
        return 0;
    out->size = before;
    return damaged(store, reader, error);
}

int store_object_read(struct store *store, const struct store_object *object, struct buffer *out,
                      struct ipu_error *error)
{
    struct store_reader *reader;
    size_t before = out->size;
    int rc = store_reader_open(store, object, &reader, error);
    bool last = false;
    while (rc == 0 && reader && !last)
        rc = store_reader_next(store, reader, out, &last, error);
    if (rc)
        out->size = before;
    store_reader_close(store, reader);
    return rc;
}
