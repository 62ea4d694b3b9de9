/* module: daemon */
/* The disk fails at every call in turn: the store answers with an error or goes on, and what it has
 * acknowledged is there afterwards, undamaged. */
#undef _FORTIFY_SOURCE /* the calls are defined here */
#include "tests/unit/fault_io.h"

#include "daemon/store.h"
#include "daemon/store_cache.h"

#include <check.h>
#include <sqlite3.h>

enum { MIB = 1 << 20, LARGE = MIB + 100, SMALL = 5000 };

static char dir[64];
static uint8_t *bytes; /* LARGE of them */

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/ipud-fault-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    bytes = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void remove_files(void)
{
    static const char *const names[] = {"ipud.db", "ipud.db-wal", "ipud.db-shm"};
    char path[128];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
}

static void teardown(void)
{
    remove_files();
    ck_assert_int_eq(rmdir(dir), 0);
    free(bytes);
}

/* What one life of the store has acknowledged. */
struct life {
    uint64_t queued, ended; /* job ids; 0 = not acknowledged */
    struct store_object large, small;
    bool has_large, has_small;
    int errors;
};

static void expect_sentence(struct life *life, int rc, struct ipu_error *error)
{
    if (rc == 0)
        return;
    life->errors++;
    ck_assert_int_lt(rc, 0);
    ck_assert_msg(error->text[0] != '\0', "an error without a sentence: %d", rc);
    error->text[0] = '\0';
}

/* Puts objects and a job in one batch; the ids are kept only when the batch is committed. */
static void first_batch(struct store *store, struct life *life)
{
    struct ipu_error error = {0};
    struct store_job job = {.uid = 7, .state = 1, .name = "n", .workload_key = "k"};
    struct store_object large, small;
    int rc = store_batch_begin(store, true, &error);
    expect_sentence(life, rc, &error);
    if (rc)
        return;
    int put_large = store_object_put(store, STORE_WORKLOAD, bytes, LARGE, &large, &error);
    expect_sentence(life, put_large, &error);
    int put_small = store_object_put(store, STORE_OUTPUT, bytes, SMALL, &small, &error);
    expect_sentence(life, put_small, &error);
    int insert = store_job_insert(store, &job, &error);
    expect_sentence(life, insert, &error);
    rc = store_batch_end(store, &error);
    expect_sentence(life, rc, &error);
    if (rc)
        return;
    life->has_large = put_large == 0;
    life->has_small = put_small == 0;
    life->large = large;
    life->small = small;
    life->queued = insert == 0 ? job.id : 0;
}

/* Ends the job, with caches, in a second batch. */
static void second_batch(struct store *store, struct life *life)
{
    struct ipu_error error = {0};
    struct store_job job;
    struct buffer kernel = {0};
    bool found;
    if (!life->queued)
        return;
    int rc = store_job_load(store, life->queued, &job, &error);
    expect_sentence(life, rc, &error);
    if (rc == 0)
        rc = store_batch_begin(store, true, &error);
    if (rc)
        return;
    rc = store_kernel_put(store, "kk", "gemm", bytes, 3000, &error);
    expect_sentence(life, rc, &error);
    rc = store_kernel_find(store, "kk", &kernel, &found, &error);
    expect_sentence(life, rc, &error);
    if (rc == 0 && found)
        ck_assert(kernel.size == 3000 && memcmp(kernel.data, bytes, 3000) == 0);
    rc = store_verdict_put(store, "vv", "line", &error);
    expect_sentence(life, rc, &error);
    job.state = 6;
    int update = store_job_update(store, &job, &error);
    expect_sentence(life, update, &error);
    rc = store_batch_end(store, &error);
    expect_sentence(life, rc, &error);
    life->ended = rc == 0 && update == 0 ? life->queued : 0;
    buffer_free(&kernel);
}

static struct life live(void)
{
    struct life life = {0};
    struct ipu_error error = {0};
    struct store *store;
    int rc = store_open(dir, 64 * MIB, NULL, &store, &error);
    expect_sentence(&life, rc, &error);
    if (rc)
        return life;
    first_batch(store, &life);
    second_batch(store, &life);
    (void)store_idle(store, 100);
    struct store_stats stats;
    expect_sentence(&life, store_cache_stats(store, &stats, &error), &error);
    store_close(store);
    return life;
}

static void expect_object(struct store *store, const struct store_object *object, size_t size)
{
    struct buffer out = {0};
    struct ipu_error error = {0};
    int rc = store_object_read(store, object, &out, &error);
    ck_assert_msg(rc == 0, "an acknowledged object is lost: %s", error.text);
    ck_assert(out.size == size && memcmp(out.data, bytes, size) == 0);
    buffer_free(&out);
}

static void expect_intact(void)
{
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *row;
    snprintf(path, sizeof path, "%s/ipud.db", dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &row, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(row), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(row, 0), "ok");
    sqlite3_finalize(row);
    sqlite3_close(db);
}

/* After the fault: the next life finds everything that was acknowledged, and works. */
static void expect_kept(const struct life *life)
{
    struct store *store;
    struct store_job job = {0};
    struct ipu_error error = {0};
    ck_assert_msg(store_open(dir, 64 * MIB, NULL, &store, &error) == 0, "%s", error.text);
    if (life->has_large)
        expect_object(store, &life->large, LARGE);
    if (life->has_small)
        expect_object(store, &life->small, SMALL);
    if (life->queued) {
        ck_assert_msg(store_job_load(store, life->queued, &job, &error) == 0, "%s", error.text);
        ck_assert(job.state == 1 || job.state == 6);
    }
    if (life->ended)
        ck_assert_int_eq(job.state, 6);
    store_close(store);
    expect_intact();
    struct life again = live();
    ck_assert_int_eq(again.errors, 0);
    ck_assert(again.ended && again.has_large && again.has_small);
}

static const struct {
    enum fault_call call;
    int error;
    bool forever;
} rows[] = {
    {FAULT_pwrite64, EIO, false},
    {FAULT_pwrite64, ENOSPC, false},
    {FAULT_pwrite64, ENOSPC, true},
    {FAULT_pwrite64, EINTR, false},
    {FAULT_pwrite64, FAULT_SHORT, false},
    {FAULT_pread64, EIO, false},
    {FAULT_pread64, EINTR, false},
    {FAULT_pread64, FAULT_SHORT, false},
    {FAULT_fdatasync, EIO, false},
    {FAULT_fdatasync, EIO, true},
    {FAULT_fsync, EIO, false},
    {FAULT_ftruncate64, EIO, false},
    {FAULT_ftruncate64, ENOSPC, true},
    {FAULT_mmap64, ENOMEM, false},
    {FAULT_mmap64, EIO, true},
    {FAULT_open64, EMFILE, false},
    {FAULT_open64, EACCES, true},
    {FAULT_open64, EINTR, false},
    {FAULT_fstat64, EIO, false},
    {FAULT_unlink, EIO, false},
    {FAULT_lock, EIO, false},
    {FAULT_read, EIO, false},
    {FAULT_write, EIO, false},
};

/* In a quick run every seventh use fails in turn, from another start for each row. */
START_TEST(nothing_acknowledged_is_lost_whichever_call_fails)
{
    const char *level = getenv("IPUD_TEST_LEVEL");
    bool every = level && strcmp(level, "long") == 0;
    int step = every ? 1 : rows[_i].call == FAULT_lock ? 60 : 7; /* SQLite waits for locks, 2 s */
    int nth = 1 + (step > 1 ? _i % step : 0), failed = 0;
    for (; nth < 2000; nth += step) {
        fault_arm(rows[_i].call, nth, rows[_i].error, rows[_i].forever);
        struct life life = live();
        int hits = atomic_load(&fault_hits);
        fault_disarm();
        if (hits == 0) { /* the life has fewer uses than that: it was a good one */
            ck_assert_int_eq(life.errors, 0);
            ck_assert(life.ended);
        }
        failed += life.errors > 0;
        expect_kept(&life);
        remove_files();
        if (hits == 0)
            break;
    }
    ck_assert_int_lt(nth, 2000);
    bool must_fail = rows[_i].call == FAULT_pwrite64 && rows[_i].error == EIO;
    ck_assert_msg(!must_fail || failed > 0, "no fault was noticed in any of %d lives", nth);
}
END_TEST

/* Only a batch that makes a promise waits for the disk. */
START_TEST(relaxed_batches_do_not_wait_for_the_disk)
{
    struct store *store;
    struct ipu_error error = {0};
    struct store_object object;
    ck_assert_int_eq(store_open(dir, 64 * MIB, NULL, &store, &error), 0);
    for (int i = 0; i < 3; i++) { /* the first write after a checkpoint syncs the log's header */
        int before = atomic_load(&fault_syncs);
        bool durable = i == 2;
        ck_assert_int_eq(store_batch_begin(store, durable, &error), 0);
        ck_assert_int_eq(
            store_object_put(store, STORE_OUTPUT, bytes, (size_t)(10 + i), &object, &error), 0);
        ck_assert_int_eq(store_batch_end(store, &error), 0);
        int syncs = atomic_load(&fault_syncs) - before;
        ck_assert_msg(i == 0 || (syncs > 0) == durable, "batch %d: %d syncs", i, syncs);
    }
    store_close(store);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_fault");
    TCase *tc = tcase_create("disk");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, nothing_acknowledged_is_lost_whichever_call_fails, 0,
                        sizeof rows / sizeof rows[0]);
    tcase_add_test(tc, relaxed_batches_do_not_wait_for_the_disk);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
