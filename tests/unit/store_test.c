/* module: daemon */
/* Tests of the store: what is acknowledged stays, what is damaged is dropped, the cap holds. */
#include "daemon/store.h"
#include "daemon/store_cache.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "schema/schema.h"

#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static char dir[64];
static struct store *store;
static struct ipu_error error;

static void sql(const char *format, const char *argument)
{
    char path[128], text[512];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/ipud.db", dir);
    snprintf(text, sizeof text, "%s%s", format, argument);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void open_store(uint64_t limit)
{
    ck_assert_msg(store_open(dir, limit, NULL, &store, &error) == 0, "%s", error.text);
}

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/ipud-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    open_store(64 * MIB);
}

static void teardown(void)
{
    char command[128];
    store_close(store);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static uint8_t *pattern(size_t size, unsigned seed)
{
    uint8_t *data = calloc(size + 1, 1);
    uint64_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(x >> 56);
    }
    return data;
}

static struct store_object put(enum store_kind kind, size_t size, unsigned seed)
{
    uint8_t *data = pattern(size, seed);
    struct store_object object;
    int rc = store_object_put(store, kind, data, size, &object, &error);
    ck_assert_msg(rc == 0, "%s", error.text);
    free(data);
    return object;
}

static void expect_bytes(const struct store_object *object, size_t size, unsigned seed)
{
    struct buffer out = {0};
    uint8_t *data = pattern(size, seed);
    ck_assert_msg(store_object_read(store, object, &out, &error) == 0, "%s", error.text);
    ck_assert_uint_eq(out.size, size);
    ck_assert(size == 0 || memcmp(out.data, data, size) == 0);
    buffer_free(&out);
    free(data);
}

static const size_t sizes[] = {0, 1, 1000, MIB - 1, MIB, MIB + 1, 3 * MIB + 17};

START_TEST(object_reads_back_what_was_put)
{
    struct store_object object = put(STORE_OUTPUT, sizes[_i], 3);
    expect_bytes(&object, sizes[_i], 3);
}
END_TEST

START_TEST(upload_takes_pieces_of_any_size)
{
    uint8_t *data = pattern(2 * MIB + 5, 9);
    struct store_upload *upload;
    ck_assert_int_eq(store_upload_begin(store, STORE_WORKLOAD, 2 * MIB + 5, &upload, &error), 0);
    size_t at = 0;
    for (size_t step = 1; at < 2 * MIB + 5; step = step * 3 + 1) {
        size_t n = 2 * MIB + 5 - at < step ? 2 * MIB + 5 - at : step;
        ck_assert_int_eq(store_upload_append(store, upload, data + at, n, &error), 0);
        at += n;
    }
    struct store_object object;
    ck_assert_int_eq(store_upload_finish(store, upload, &object, &error), 0);
    store_unpin(store, object.id);
    expect_bytes(&object, 2 * MIB + 5, 9);
    free(data);
}
END_TEST

START_TEST(upload_of_too_few_or_too_many_bytes_is_refused)
{
    struct store_upload *upload;
    struct store_object object;
    ck_assert_int_eq(store_upload_begin(store, STORE_WORKLOAD, 10, &upload, &error), 0);
    ck_assert_int_eq(store_upload_append(store, upload, "0123456789a", 11, &error),
                     IPU_ERR_INVALID);
    ck_assert_int_eq(store_upload_append(store, upload, "012", 3, &error), 0);
    ck_assert_int_eq(store_upload_finish(store, upload, &object, &error), IPU_ERR_INVALID);
    struct store_stats stats;
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_eq(stats.bytes, 0);
}
END_TEST

START_TEST(equal_bytes_are_stored_once)
{
    struct store_object a = put(STORE_KERNEL, 5000, 1), b = put(STORE_KERNEL, 5000, 1);
    struct store_stats stats;
    ck_assert_int_eq(a.id, b.id);
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_eq(stats.bytes, 5000);
    ck_assert_uint_eq(stats.kinds[STORE_KERNEL].objects, 1);
}
END_TEST

START_TEST(damaged_object_is_dropped_and_counted)
{
    const size_t size = 2 * MIB + 100;
    struct store_object object = put(STORE_PACKAGE, size, 5);
    struct buffer out = {0};
    struct store_stats stats;
    /* One byte of one chunk changes behind our back. */
    sql("UPDATE chunks SET data = CAST(substr(data, 1, 50) || x'99' || substr(data, 52) AS BLOB)"
        " WHERE id % 1048576 = ",
        _i == 0   ? "0"
        : _i == 1 ? "1"
                  : "2");
    ck_assert_int_eq(store_object_read(store, &object, &out, &error), IPU_ERR_CORRUPT);
    ck_assert_uint_eq(out.size, 0);
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_eq(stats.kinds[STORE_PACKAGE].damaged, 1);
    ck_assert_uint_eq(stats.kinds[STORE_PACKAGE].objects, 0);
    ck_assert_int_eq(store_object_find(store, STORE_PACKAGE, &object.digest, &object, &error),
                     IPU_ERR_NOT_FOUND);
    buffer_free(&out);
}
END_TEST

START_TEST(missing_or_short_chunk_is_damage)
{
    struct store_object object = put(STORE_PACKAGE, MIB + 100, 5);
    struct buffer out = {0};
    sql(_i == 0 ? "DELETE FROM chunks WHERE id % 1048576 = 1"
                : "UPDATE chunks SET data = x'00' WHERE id % 1048576 = 1",
        "");
    ck_assert_int_eq(store_object_read(store, &object, &out, &error), IPU_ERR_CORRUPT);
    buffer_free(&out);
}
END_TEST

START_TEST(damaged_kernel_row_is_a_miss_and_can_be_rebuilt)
{
    struct buffer object = {0};
    bool found;
    char key[65];
    memset(key, 'a', 64);
    key[64] = '\0';
    ck_assert_int_eq(store_kernel_put(store, key, "gemm", "code", 4, &error), 0);
    ck_assert_int_eq(store_kernel_find(store, key, &object, &found, &error), 0);
    ck_assert(found);
    sql("UPDATE chunks SET data = CAST('Code' AS BLOB)", "");
    object.size = 0;
    ck_assert_int_eq(store_kernel_find(store, key, &object, &found, &error), 0);
    ck_assert(!found);
    ck_assert_uint_eq(object.size, 0);
    ck_assert_int_eq(store_kernel_put(store, key, "gemm", "code", 4, &error), 0);
    ck_assert_int_eq(store_kernel_find(store, key, &object, &found, &error), 0);
    ck_assert(found);
    ck_assert_mem_eq(object.data, "code", 4);
    struct store_stats stats;
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_eq(stats.kinds[STORE_KERNEL].damaged, 1);
    ck_assert_uint_eq(stats.kinds[STORE_KERNEL].hits, 2);
    ck_assert_uint_eq(stats.kinds[STORE_KERNEL].misses, 1);
    buffer_free(&object);
}
END_TEST

START_TEST(least_recently_used_object_is_evicted_and_the_cap_holds)
{
    struct store_stats stats;
    struct store_object first = put(STORE_PACKAGE, 20 * MIB, 1);
    struct store_object second = put(STORE_PACKAGE, 20 * MIB, 2);
    (void)put(STORE_PACKAGE, 20 * MIB, 1); /* renews the use of the first */
    (void)put(STORE_PACKAGE, 20 * MIB, 3);
    (void)put(STORE_PACKAGE, 20 * MIB, 4);
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_le(stats.bytes, 64 * MIB);
    ck_assert_uint_eq(stats.kinds[STORE_PACKAGE].objects, 3);
    ck_assert_uint_eq(stats.kinds[STORE_PACKAGE].evicted, 1);
    ck_assert_int_eq(store_object_find(store, STORE_PACKAGE, &second.digest, &second, &error),
                     IPU_ERR_NOT_FOUND);
    expect_bytes(&first, 20 * MIB, 1);
}
END_TEST

START_TEST(pinned_objects_and_those_of_active_jobs_are_not_evicted)
{
    struct store_object pinned = put(STORE_PACKAGE, 20 * MIB, 1);
    struct store_object used = put(STORE_WORKLOAD, 20 * MIB, 2);
    struct store_job job = {.state = 1, .name = "n", .workload = used.digest};
    store_pin(store, pinned.id);
    ck_assert_int_eq(store_job_insert(store, &job, &error), 0);
    (void)put(STORE_OUTPUT, 20 * MIB, 3);
    (void)put(STORE_OUTPUT, 20 * MIB, 4);
    expect_bytes(&pinned, 20 * MIB, 1);
    expect_bytes(&used, 20 * MIB, 2);
    struct store_upload *upload;
    ck_assert_int_eq(store_upload_begin(store, STORE_OUTPUT, 40 * MIB, &upload, &error),
                     IPU_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "in use"));
    job.state = 6;
    ck_assert_int_eq(store_job_update(store, &job, &error), 0);
    store_unpin(store, pinned.id);
    ck_assert_int_eq(store_upload_begin(store, STORE_OUTPUT, 40 * MIB, &upload, &error), 0);
    store_upload_abort(store, upload);
}
END_TEST

START_TEST(unfinished_upload_is_gone_after_a_restart)
{
    struct store_upload *upload;
    uint8_t *data = pattern(3 * MIB, 1);
    ck_assert_int_eq(store_upload_begin(store, STORE_WORKLOAD, 4 * MIB, &upload, &error), 0);
    ck_assert_int_eq(store_upload_append(store, upload, data, 3 * MIB, &error), 0);
    free(data);
    store_close(store); /* as a crash would: the upload is not aborted */
    open_store(64 * MIB);
    struct store_stats stats;
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_eq(stats.bytes, 0);
    store_upload_abort(store, upload); /* only the memory is left of it */
}
END_TEST

START_TEST(failed_batch_leaves_nothing_and_kills_its_uploads)
{
    struct store_upload *upload, *small;
    struct store_object object;
    uint8_t *data = pattern(2 * MIB, 1);
    ck_assert_int_eq(store_batch_begin(store, true, &error), 0);
    ck_assert_int_eq(store_upload_begin(store, STORE_WORKLOAD, 2 * MIB, &upload, &error), 0);
    ck_assert_int_eq(store_upload_append(store, upload, data, 2 * MIB, &error), 0);
    ck_assert_int_eq(store_upload_begin(store, STORE_WORKLOAD, MIB, &small, &error), 0);
    ck_assert_int_eq(store_upload_append(store, small, data, MIB, &error), 0);
    /* A second begin is refused by SQLite; closing the transaction by hand stands in for the
     * rollback that a full disk causes. */
    ck_assert_int_ne(store_batch_begin(store, true, &error), 0);
    ck_assert_int_eq(store_batch_end(store, &error), 0);
    ck_assert_int_eq(store_batch_end(store, &error), IPU_ERR_IO);
    ck_assert_int_eq(store_upload_finish(store, upload, &object, &error), IPU_ERR_IO);
    /* What was in memory alone has lost nothing. */
    ck_assert_int_eq(store_upload_finish(store, small, &object, &error), 0);
    store_unpin(store, object.id);
    expect_bytes(&object, MIB, 1);
    free(data);
}
END_TEST

START_TEST(bytes_that_exist_already_write_nothing)
{
    struct store_object first = put(STORE_OUTPUT, 1000, 5);
    uint64_t changes = store_changes(store);
    struct store_object again = put(STORE_OUTPUT, 1000, 5);
    ck_assert_int_eq(first.id, again.id);
    ck_assert_uint_eq(store_changes(store), changes);
}
END_TEST

START_TEST(hits_write_nothing_and_are_counted_all_the_same)
{
    struct buffer object = {0};
    bool found;
    ck_assert_int_eq(store_kernel_put(store, "kk", "gemm", "kernel", 6, &error), 0);
    uint64_t changes = store_changes(store);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(store_kernel_find(store, i % 4 ? "kk" : "none", &object, &found, &error),
                         0);
    ck_assert_uint_eq(store_changes(store), changes);
    buffer_free(&object);
    store_close(store);
    open_store(64 * MIB);
    struct store_stats stats;
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_eq(stats.kinds[STORE_KERNEL].hits, 75);
    ck_assert_uint_eq(stats.kinds[STORE_KERNEL].misses, 25);
}
END_TEST

START_TEST(small_upload_that_finds_no_room_leaves_nothing)
{
    struct store_object used = put(STORE_OUTPUT, 63 * MIB + MIB / 2, 1), object;
    struct store_upload *upload;
    struct store_stats stats;
    uint8_t *data = pattern(MIB, 2);
    store_pin(store, used.id);
    ck_assert_int_eq(store_upload_begin(store, STORE_OUTPUT, MIB, &upload, &error), 0);
    ck_assert_int_eq(store_upload_append(store, upload, data, MIB, &error), 0);
    ck_assert_int_eq(store_upload_finish(store, upload, &object, &error), IPU_ERR_LIMIT);
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_eq(stats.bytes, 63 * MIB + MIB / 2);
    ck_assert_uint_eq(stats.kinds[STORE_OUTPUT].objects, 1);
    free(data);
}
END_TEST

START_TEST(verdict_is_found_by_its_key_alone)
{
    char line[STORE_RESULTS] = "";
    bool found = true;
    ck_assert_int_eq(store_verdict_find(store, "aa", line, &found, &error), 0);
    ck_assert(!found);
    ck_assert_int_eq(store_verdict_put(store, "aa", "workload=w cycles=5", &error), 0);
    ck_assert_int_eq(store_verdict_find(store, "aa", line, &found, &error), 0);
    ck_assert(found);
    ck_assert_str_eq(line, "workload=w cycles=5");
    ck_assert_int_eq(store_verdict_find(store, "ab", line, &found, &error), 0);
    ck_assert(!found);
}
END_TEST

START_TEST(job_reads_back_and_a_terminal_one_never_changes)
{
    struct store_job job = {.uid = 1000,
                            .state = 2,
                            .priority = -3,
                            .detached = true,
                            .no_cache = true,
                            .package_cached = true,
                            .has_package = true,
                            .log_level = 1,
                            .attempts = 2,
                            .code = -5,
                            .name = "siglip",
                            .reason = "why",
                            .results = "a=1\nb=2",
                            .workload_key = "abc",
                            .submitted_us = 10,
                            .started_us = 11,
                            .finished_us = 12,
                            .cycles = 99,
                            .compile_ms = 1.5,
                            .run_ms = 2.5,
                            .check_ms = 3.5,
                            .last_sequence = 77};
    memset(job.workload.bytes, 1, 32);
    memset(job.package.bytes, 2, 32);
    ck_assert_int_eq(store_job_insert(store, &job, &error), 0);
    struct store_job got;
    memset(&got, 0xff, sizeof got);
    ck_assert_int_eq(store_job_load(store, job.id, &got, &error), 0);
    ck_assert_uint_eq(got.uid, 1000);
    ck_assert_int_eq(got.priority, -3);
    ck_assert(got.detached && got.no_cache && got.package_cached && got.has_package);
    ck_assert(!got.has_profile);
    ck_assert_str_eq(got.name, "siglip");
    ck_assert_str_eq(got.reason, "why");
    ck_assert_str_eq(got.results, "a=1\nb=2");
    ck_assert_str_eq(got.workload_key, "abc");
    ck_assert(hash_equal(&got.workload, &job.workload) && hash_equal(&got.package, &job.package));
    ck_assert_double_eq(got.check_ms, 3.5);
    ck_assert_uint_eq(got.last_sequence, 77);
    ck_assert_int_eq(got.code, -5);
    job.state = 8;
    ck_assert_int_eq(store_job_update(store, &job, &error), 0);
    job.state = 6;
    ck_assert_int_eq(store_job_update(store, &job, &error), IPU_ERR_INTERNAL);
    ck_assert_int_eq(store_job_load(store, job.id, &got, &error), 0);
    ck_assert_int_eq(got.state, 8);
}
END_TEST

static bool collect_job(void *context, const struct store_job *job)
{
    buffer_printf(context, "%llu ", (unsigned long long)job->id);
    return true;
}

START_TEST(jobs_are_listed_by_owner_state_and_page)
{
    for (unsigned i = 0; i < 6; i++) {
        struct store_job job = {.uid = i % 2, .state = i < 4 ? 6 : 1, .name = "n"};
        ck_assert_int_eq(store_job_insert(store, &job, &error), 0);
    }
    static const struct {
        struct store_job_query query;
        const char *expect;
    } rows[] = {
        {{.limit = 10}, "6 5 4 3 2 1 "},         {{.limit = 2}, "6 5 "},
        {{.limit = 2, .before = 5}, "4 3 "},     {{.limit = 10, .mine = true, .uid = 1}, "6 4 2 "},
        {{.limit = 10, .active = true}, "6 5 "}, {{.limit = 10, .oldest_first = true}, "5 6 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buffer text = {0};
        ck_assert_int_eq(store_job_list(store, &rows[i].query, collect_job, &text, &error), 0);
        ck_assert_str_eq((char *)text.data, rows[i].expect);
        buffer_free(&text);
    }
    uint64_t id;
    ck_assert_int_eq(store_job_latest(store, 1, &id, &error), 0);
    ck_assert_uint_eq(id, 6);
    ck_assert_int_eq(store_job_latest(store, 7, &id, &error), IPU_ERR_NOT_FOUND);
}
END_TEST

static bool collect_event(void *context, const struct store_event *event)
{
    buffer_printf(context, "%llu%.*s ", (unsigned long long)event->sequence, (int)event->size,
                  (const char *)event->body);
    return true;
}

START_TEST(events_resume_from_a_sequence_number)
{
    struct store_job job = {.state = 1, .name = "n"};
    ck_assert_int_eq(store_job_insert(store, &job, &error), 0);
    for (uint64_t i = 1; i <= 5; i++) {
        struct store_event event = {i, (const uint8_t *)"abcde" + i - 1, 1};
        ck_assert_int_eq(store_event_add(store, job.id, &event, &error), 0);
    }
    struct buffer text = {0};
    ck_assert_int_eq(store_event_list(store, job.id, 3, 2, collect_event, &text, &error), 0);
    ck_assert_str_eq((char *)text.data, "3c 4d ");
    buffer_free(&text);
}
END_TEST

static bool check_output(void *context, const struct store_output *output)
{
    struct store_output *got = context;
    got[output->type] = *output;
    return true;
}

START_TEST(outputs_keep_name_type_and_shape)
{
    struct store_job job = {.state = 1, .name = "n"};
    struct store_output out[2] = {{.name = "y", .type = 1, .rank = 3, .shape = {1, 17, 64}},
                                  {.name = "z", .type = 2, .rank = 0, .bytes = 4}};
    struct store_output got[3] = {0};
    memset(out[0].digest.bytes, 7, 32);
    ck_assert_int_eq(store_job_insert(store, &job, &error), 0);
    ck_assert_int_eq(store_output_set(store, job.id, out, 1, &error), 0);
    ck_assert_int_eq(store_output_set(store, job.id, out, 2, &error), 0);
    ck_assert_int_eq(store_output_list(store, job.id, check_output, got, &error), 0);
    ck_assert_str_eq(got[1].name, "y");
    ck_assert_uint_eq(got[1].rank, 3);
    ck_assert_uint_eq(got[1].shape[2], 64);
    ck_assert(hash_equal(&got[1].digest, &out[0].digest));
    ck_assert_uint_eq(got[2].rank, 0);
    ck_assert_uint_eq(got[2].bytes, 4);
}
END_TEST

START_TEST(package_and_workload_keys_lead_to_their_rows)
{
    struct store_package package = {.object = put(STORE_PACKAGE, 100, 1), .estimated_cycles = 9};
    struct store_package got;
    struct store_workload workload = {
        .package_key = "pk", .search_key = "sk", .name = "w", .facts = {1, 2, 3}, .facts_size = 3};
    struct store_workload known;
    bool found;
    ck_assert_int_eq(store_package_put(store, "pk", &package, &error), 0);
    ck_assert_int_eq(store_workload_put(store, "wk", &workload, &error), 0);
    ck_assert_int_eq(store_workload_find(store, "wk", &known, &found, &error), 0);
    ck_assert(found && known.facts_size == 3);
    ck_assert_str_eq(known.search_key, "sk");
    ck_assert_int_eq(store_package_find(store, known.package_key, &got, &found, &error), 0);
    ck_assert(found);
    ck_assert_uint_eq(got.estimated_cycles, 9);
    ck_assert_int_eq(got.object.id, package.object.id);
    uint64_t objects, bytes;
    ck_assert_int_eq(store_cache_gc(store, 0, &objects, &bytes, &error), 0);
    ck_assert_uint_eq(objects, 1);
    ck_assert_uint_eq(bytes, 100);
    ck_assert_int_eq(store_package_find(store, "pk", &got, &found, &error), 0);
    ck_assert(!found);
}
END_TEST

START_TEST(search_states_are_found_by_unique_prefix)
{
    struct store_search a = {.key = "abcd1111", .workload = "w", .uid = 5, .attempts = 3};
    struct store_search got;
    a.object = put(STORE_SEARCH, 10, 1);
    ck_assert_int_eq(store_search_put(store, &a, &error), 0);
    snprintf(a.key, sizeof a.key, "abcd2222");
    ck_assert_int_eq(store_search_put(store, &a, &error), 0);
    ck_assert_int_eq(store_search_find(store, "abcd1", &got, &error), 0);
    ck_assert_str_eq(got.key, "abcd1111");
    ck_assert_int_eq(store_search_find(store, "abcd", &got, &error), IPU_ERR_INVALID);
    ck_assert_int_eq(store_search_find(store, "abcf", &got, &error), IPU_ERR_NOT_FOUND);
    ck_assert_int_eq(store_search_find(store, "ab", &got, &error), IPU_ERR_INVALID);
    ck_assert_int_eq(store_search_find(store, "abcd%", &got, &error), IPU_ERR_INVALID);
    ck_assert_int_eq(store_search_drop(store, "abcd2222", &error), 0);
    ck_assert_int_eq(store_search_find(store, "abcd", &got, &error), 0);
}
END_TEST

START_TEST(newer_schema_is_refused_with_a_sentence)
{
    store_close(store);
    sql("PRAGMA user_version = 99", "");
    store = NULL;
    ck_assert_int_eq(store_open(dir, MIB, NULL, &store, &error), IPU_ERR_VERSION);
    ck_assert_ptr_nonnull(strstr(error.text, "newer ipud"));
    ck_assert_ptr_nonnull(strstr(error.text, "99"));
}
END_TEST

START_TEST(foreign_database_and_garbage_are_refused)
{
    char path[128];
    store_close(store);
    store = NULL;
    snprintf(path, sizeof path, "%s/ipud.db", dir);
    ck_assert_int_eq(unlink(path), 0);
    if (_i == 0) {
        sql("CREATE TABLE t(x)", "");
        ck_assert_int_eq(store_open(dir, MIB, NULL, &store, &error), IPU_ERR_INVALID);
        return;
    }
    uint8_t *noise = pattern(65536, 3);
    ck_assert_int_eq(buffer_write_file(path, noise, 65536), 0);
    free(noise);
    ck_assert_int_eq(store_open(dir, MIB, NULL, &store, &error), IPU_ERR_CORRUPT);
}
END_TEST

START_TEST(every_older_schema_migrates_and_keeps_its_jobs)
{
    char path[128];
    sqlite3 *db;
    store_close(store);
    snprintf(path, sizeof path, "%s/ipud.db", dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, schema_migration(1), NULL, NULL, NULL), SQLITE_OK);
    char text[600];
    snprintf(text, sizeof text,
             "PRAGMA application_id = %d; PRAGMA user_version = 1;"
             "INSERT INTO jobs VALUES(41, 7, 'old', 1, 0, 1, 0, 0, 0, 0, '', zeroblob(32), 'k',"
             " NULL, 0, NULL, '', 5, 0, 0, 0, 0.0, 0.0, 0.0, 0)",
             SCHEMA_APPLICATION_ID);
    ck_assert_int_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    open_store(MIB);
    struct store_job job;
    ck_assert_int_eq(store_job_load(store, 41, &job, &error), 0);
    ck_assert_str_eq(job.name, "old");
    ck_assert_uint_eq(job.uid, 7);
}
END_TEST

START_TEST(idle_work_prunes_old_jobs_and_truncates_the_log)
{
    for (unsigned i = 0; i < 30; i++) {
        struct store_job job = {.state = i == 2 ? 1 : 6, .name = "n"};
        ck_assert_int_eq(store_job_insert(store, &job, &error), 0);
    }
    (void)put(STORE_OUTPUT, 8 * MIB, 1);
    uint64_t objects, bytes;
    ck_assert_int_eq(store_cache_gc(store, 0, &objects, &bytes, &error), 0);
    int rounds = 0;
    while (store_idle(store, 10) && rounds < 1000)
        rounds++;
    ck_assert_int_lt(rounds, 1000);
    struct store_job job;
    ck_assert_int_eq(store_job_load(store, 3, &job, &error), 0); /* still active */
    ck_assert_int_eq(store_job_load(store, 4, &job, &error), IPU_ERR_NOT_FOUND);
    ck_assert_int_eq(store_job_load(store, 21, &job, &error), 0);
    struct store_stats stats;
    ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
    ck_assert_uint_lt(stats.database_bytes, 6 * MIB);
}
END_TEST

START_TEST(failing_allocations_never_break_an_upload_half)
{
    struct store_stats stats;
    uint8_t *data = pattern(3000, 1);
    int n = 0;
    for (; n < 60; n++) {
        struct store_object object;
        ipu_alloc_fail_after(n, 1);
        int rc = store_object_put(store, STORE_OUTPUT, data, 3000, &object, &error);
        ipu_alloc_fail_after(-1, 0);
        ck_assert_int_eq(store_cache_stats(store, &stats, &error), 0);
        if (rc == 0)
            break;
        ck_assert_uint_eq(stats.bytes, 0);
    }
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, 60);
    free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tc = tcase_create("store");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, object_reads_back_what_was_put, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_test(tc, upload_takes_pieces_of_any_size);
    tcase_add_test(tc, upload_of_too_few_or_too_many_bytes_is_refused);
    tcase_add_test(tc, equal_bytes_are_stored_once);
    tcase_add_loop_test(tc, damaged_object_is_dropped_and_counted, 0, 3);
    tcase_add_loop_test(tc, missing_or_short_chunk_is_damage, 0, 2);
    tcase_add_test(tc, damaged_kernel_row_is_a_miss_and_can_be_rebuilt);
    tcase_add_test(tc, least_recently_used_object_is_evicted_and_the_cap_holds);
    tcase_add_test(tc, pinned_objects_and_those_of_active_jobs_are_not_evicted);
    tcase_add_test(tc, unfinished_upload_is_gone_after_a_restart);
    tcase_add_test(tc, failed_batch_leaves_nothing_and_kills_its_uploads);
    tcase_add_test(tc, bytes_that_exist_already_write_nothing);
    tcase_add_test(tc, small_upload_that_finds_no_room_leaves_nothing);
    tcase_add_test(tc, hits_write_nothing_and_are_counted_all_the_same);
    tcase_add_test(tc, verdict_is_found_by_its_key_alone);
    tcase_add_test(tc, job_reads_back_and_a_terminal_one_never_changes);
    tcase_add_test(tc, jobs_are_listed_by_owner_state_and_page);
    tcase_add_test(tc, events_resume_from_a_sequence_number);
    tcase_add_test(tc, outputs_keep_name_type_and_shape);
    tcase_add_test(tc, package_and_workload_keys_lead_to_their_rows);
    tcase_add_test(tc, search_states_are_found_by_unique_prefix);
    tcase_add_test(tc, newer_schema_is_refused_with_a_sentence);
    tcase_add_loop_test(tc, foreign_database_and_garbage_are_refused, 0, 2);
    tcase_add_test(tc, every_older_schema_migrates_and_keeps_its_jobs);
    tcase_add_test(tc, idle_work_prunes_old_jobs_and_truncates_the_log);
    tcase_add_test(tc, failing_allocations_never_break_an_upload_half);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
