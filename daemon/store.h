/* The store: everything that survives a restart, and the only code that writes SQL.
 *
 * One struct store per state directory, used by one thread (the store thread of storeq.h, or a
 * test). Functions between store_batch_begin() and store_batch_end() share one transaction: nothing
 * of them may be told to anyone before the end has succeeded. Each fallible function is atomic by
 * itself: when it fails, the database is as before it. Objects are verified by SHA-256 on every
 * read; a damaged one is dropped, counted and reported as IPU_ERR_CORRUPT, which callers of caches
 * treat as a miss.
 */
#ifndef IPU_DAEMON_STORE_H
#define IPU_DAEMON_STORE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

enum store_kind {
    STORE_NONE,
#define KIND(name, value, text) STORE_##name = (value),
#include "daemon/store_kinds.def"
#undef KIND
};
enum { STORE_KINDS = 7, STORE_CHUNK = 1 << 20, STORE_KEY_TEXT = 65 };
const char *store_kind_name(enum store_kind kind);
/* STORE_NONE when there is no such kind. */
enum store_kind store_kind_parse(const char *text);

/* Opens (and creates or migrates) `dir`/ipud.db. `limit` is the cap of all objects, bytes. Uploads
 * that a crash left unfinished are dropped. */
IPU_MUST_CHECK int store_open(const char *dir, uint64_t limit, struct log *log, struct store **out,
                              struct ipu_error *error);
void store_close(struct store *store);
/* Group commit. After a failed end nothing since the begin has happened. A `durable` batch, and all
 * before it, survives a power cut when its end has succeeded; another survives only the death of
 * the process, and costs no wait for the disk. */
IPU_MUST_CHECK int store_batch_begin(struct store *store, bool durable, struct ipu_error *error);
IPU_MUST_CHECK int store_batch_end(struct store *store, struct ipu_error *error);
/* Counts since the open: statements that failed because of the disk, and rows written. */
unsigned store_io_errors(const struct store *store);
uint64_t store_changes(const struct store *store);
/* A slice of housekeeping for idle moments: prunes jobs beyond `keep_jobs` ended ones, returns free
 * pages, truncates the log. True when there is more to do. */
bool store_idle(struct store *store, uint64_t keep_jobs);

/* --- objects --- */
struct store_object {
    int64_t id;
    enum store_kind kind;
    uint64_t bytes;
    struct hash digest;
    uint64_t created_us, used_us;
    bool pinned;
    char key[STORE_KEY_TEXT]; /* a cache key that leads to it, or "" */
};
/* An upload in progress. Append pieces of any size; they must add up to `bytes`. Finishing
 * publishes the object (or finds that it exists already); the result is pinned until
 * store_unpin(). Up to STORE_CHUNK bytes stay in memory until the end, so that bytes which exist
 * already write nothing. Aborting or failing drops what was written. Evicts least recently used
 * objects to make room; IPU_ERR_LIMIT when what is in use leaves too little. */
struct store_upload;
IPU_MUST_CHECK int store_upload_begin(struct store *store, enum store_kind kind, uint64_t bytes,
                                      struct store_upload **out, struct ipu_error *error);
IPU_MUST_CHECK int store_upload_append(struct store *store, struct store_upload *upload,
                                       const void *data, size_t size, struct ipu_error *error);
IPU_MUST_CHECK int store_upload_finish(struct store *store, struct store_upload *upload,
                                       struct store_object *object, struct ipu_error *error);
void store_upload_abort(struct store *store, struct store_upload *upload);
/* The three steps at once; not pinned. */
IPU_MUST_CHECK int store_object_put(struct store *store, enum store_kind kind, const void *data,
                                    size_t size, struct store_object *object,
                                    struct ipu_error *error);
/* Looks an object up by digest. IPU_ERR_NOT_FOUND. */
IPU_MUST_CHECK int store_object_find(struct store *store, enum store_kind kind,
                                     const struct hash *digest, struct store_object *object,
                                     struct ipu_error *error);
/* Keeps an object from eviction until store_unpin(); counts. */
void store_pin(struct store *store, int64_t id);
void store_unpin(struct store *store, int64_t id);
/* Reads an object in order, at most STORE_CHUNK bytes a call, appended to `out`. The digest is
 * compared before the last piece is given out, so that nobody ever holds a whole damaged object.
 * The object is pinned while the reader exists. */
struct store_reader;
IPU_MUST_CHECK int store_reader_open(struct store *store, const struct store_object *object,
                                     struct store_reader **out, struct ipu_error *error);
IPU_MUST_CHECK int store_reader_next(struct store *store, struct store_reader *reader,
                                     struct buffer *out, bool *last, struct ipu_error *error);
void store_reader_close(struct store *store, struct store_reader *reader);
/* The whole object, verified, appended to `out`. */
IPU_MUST_CHECK int store_object_read(struct store *store, const struct store_object *object,
                                     struct buffer *out, struct ipu_error *error);

/* --- jobs --- */
enum { STORE_NAME = 129, STORE_REASON = 1024, STORE_RESULTS = 4096 };
struct store_job {
    uint64_t id;
    uint32_t uid;
    int state; /* ipu.rpc.JobState */
    int priority;
    bool detached, no_cache, package_cached, has_package, has_profile;
    int log_level;
    unsigned attempts;
    int code;
    struct hash workload, package, profile;
    char workload_key[STORE_KEY_TEXT];
    uint64_t submitted_us, started_us, finished_us;
    uint64_t cycles, last_sequence;
    double compile_ms, run_ms, check_ms;
    char name[STORE_NAME];
    char reason[STORE_REASON];
    char results[STORE_RESULTS]; /* lines separated by \n */
};
/* Inserts the job and sets its id; updates it; loads it (IPU_ERR_NOT_FOUND); id of the latest job
 * of a user. A terminal job never changes again: updating one is IPU_ERR_INTERNAL. */
IPU_MUST_CHECK int store_job_insert(struct store *store, struct store_job *job,
                                    struct ipu_error *error);
IPU_MUST_CHECK int store_job_update(struct store *store, const struct store_job *job,
                                    struct ipu_error *error);
IPU_MUST_CHECK int store_job_load(struct store *store, uint64_t id, struct store_job *job,
                                  struct ipu_error *error);
IPU_MUST_CHECK int store_job_latest(struct store *store, uint32_t uid, uint64_t *id,
                                    struct ipu_error *error);
struct store_job_query {
    uint64_t before; /* 0 = from the latest */
    unsigned limit;
    bool mine, active, oldest_first;
    uint32_t uid;
};
/* Calls `each` for the jobs asked for, latest first (or oldest first); a false result stops. */
IPU_MUST_CHECK int store_job_list(struct store *store, const struct store_job_query *query,
                                  bool (*each)(void *context, const struct store_job *job),
                                  void *context, struct ipu_error *error);

struct store_event {
    uint64_t sequence;
    const uint8_t *body; /* serialised ipu.rpc.Event */
    size_t size;
};
IPU_MUST_CHECK int store_event_add(struct store *store, uint64_t job,
                                   const struct store_event *event, struct ipu_error *error);
/* Events of `job` from `from` on, in order, at most `limit`. */
IPU_MUST_CHECK int store_event_list(struct store *store, uint64_t job, uint64_t from,
                                    unsigned limit,
                                    bool (*each)(void *context, const struct store_event *event),
                                    void *context, struct ipu_error *error);

enum { STORE_OUTPUT_NAME = 65, STORE_OUTPUT_RANK = 8 };
struct store_output {
    char name[STORE_OUTPUT_NAME];
    uint32_t type; /* ipu.workload.ElementType */
    unsigned rank;
    uint64_t shape[STORE_OUTPUT_RANK];
    uint64_t bytes;
    struct hash digest;
};
/* Replaces the outputs of a job. */
IPU_MUST_CHECK int store_output_set(struct store *store, uint64_t job,
                                    const struct store_output *outputs, size_t count,
                                    struct ipu_error *error);
IPU_MUST_CHECK int store_output_list(struct store *store, uint64_t job,
                                     bool (*each)(void *context, const struct store_output *output),
                                     void *context, struct ipu_error *error);

#endif
