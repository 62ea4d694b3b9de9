/* module: client */
/* A job's way through the whole daemon, with the fake engine: results, caches, sharing, failures.
 */
#include "tests/unit/daemon_fixture.h"

static struct ipu_client *client;

static void setup(void)
{
    fixture_setup();
    client = fixture_connect();
}

static void teardown(void)
{
    ipu_close(client);
    fixture_teardown();
}

static int collect(void *context, const Ipu__Rpc__Event *event)
{
    struct buffer *text = context;
    static const char *const states[] = {"none",      "queued",   "compiling", "waiting",
                                         "running",   "checking", "done",      "failed",
                                         "cancelled", "timed-out"};
    if (event->kind_case == IPU__RPC__EVENT__KIND_STATE)
        buffer_printf(text, "%s ", states[event->state->state]);
    else if (event->kind_case == IPU__RPC__EVENT__KIND_LOG)
        buffer_printf(text, "[%s] ", event->log->message);
    else if (event->kind_case == IPU__RPC__EVENT__KIND_PHASE)
        buffer_printf(text, "phase:%s ", event->phase->phase);
    else if (event->kind_case == IPU__RPC__EVENT__KIND_RESULT)
        buffer_printf(text, "results:%zu ", event->result->n_lines);
    else if (event->kind_case == IPU__RPC__EVENT__KIND_ERROR)
        buffer_printf(text, "error:%s ", event->error->text);
    return 0;
}

START_TEST(job_goes_from_queued_to_done_and_tells_about_it)
{
    struct buffer text = {0};
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "plain", 1, collect, &text, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_int_eq(status->code, 0);
    ck_assert_uint_eq(status->cycles, 16000);
    ck_assert_str_eq(status->name, "plain");
    ck_assert_uint_eq(status->n_results, 3);
    ck_assert_str_eq(status->results[1], "workload=plain cycles=16000");
    ck_assert_ptr_nonnull(strstr(status->results[0], " tiles=1472 samples=3 sampledTiles=1"));
    ck_assert_ptr_nonnull(strstr(status->results[2], "device=sim deviceTest=PASS"));
    ck_assert_msg(strncmp((char *)text.data, "queued compiling ", 17) == 0, "%s", text.data);
    static const char *const wanted[] = {
        "phase:lower_mid",      "[retained operator-plan finalist]",   "waiting running",
        "[opening IPU device]", "checking [evaluated host reference]", "results:3 done "};
    const char *at = (char *)text.data;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const char *found = strstr(at, wanted[i]);
        if (i != 1)
            ck_assert_msg(found != NULL, "no %s in %s", wanted[i], text.data);
        at = found && i != 0 ? found : at;
    }
    buffer_free(&text);
}
END_TEST

START_TEST(second_submission_comes_from_the_cache_without_compile_or_load)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "twice", 1, NULL, NULL, &job, &status), 0);
    ck_assert(!status->package_cached);
    uint64_t start = clock_ns();
    ck_assert_int_eq(fixture_run(client, "twice", 1, NULL, NULL, &job, &status), 0);
    uint64_t ms = (clock_ns() - start) / 1000000;
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert(status->package_cached);
    ck_assert_uint_eq(fixture_count("compile twice"), 1);
    ck_assert_uint_eq(fixture_count("load twice"), 1);
    ck_assert_uint_eq(fixture_count("run twice"), 2);
    ck_assert_msg(ms < 250, "it took %llu ms", (unsigned long long)ms);
}
END_TEST

static int take(void *context, const void *data, size_t size)
{
    buffer_append(context, data, size);
    return 0;
}

START_TEST(outputs_that_have_passed_are_not_compared_again)
{
    struct buffer text = {0};
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "same", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(fixture_run(client, "same", 1, collect, &text, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_str_eq(status->results[1], "workload=same cycles=16000");
    ck_assert_uint_eq(fixture_count("run same"), 2);
    ck_assert_uint_eq(fixture_count("check same"), 1);
    ck_assert_ptr_nonnull(
        strstr((char *)text.data, "[outputs equal those of a check that has passed]"));
    buffer_free(&text);
}
END_TEST

START_TEST(one_other_bit_in_the_outputs_is_found_although_the_package_is_known)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "drift", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_int_eq(fixture_run(client, "drift", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_FAILED);
    ck_assert_int_eq(status->code, IPU_ERR_CHECK_FAILED);
    ck_assert_uint_eq(fixture_count("check drift"), 2);
}
END_TEST

START_TEST(failed_check_is_done_again)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fixture_run(client, "wrong", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->code, IPU_ERR_CHECK_FAILED);
    ck_assert_uint_eq(fixture_count("check wrong"), 2);
}
END_TEST

START_TEST(no_cache_compiles_again_and_resumes_the_search)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    const Ipu__Rpc__SearchList *list;
    ck_assert_int_eq(fixture_run(client, "again", 1, NULL, NULL, &job, &status), 0);
    struct buffer bytes = fixture_workload("again", 1, 0, NULL);
    const Ipu__Rpc__WatchEnd *end;
    struct ipu_submit submit = {
        .data = bytes.data, .size = bytes.size, .no_cache = true, .event = fixture_ignore};
    ck_assert_int_eq(ipu_submit(client, &submit, &job, &end, NULL, &fx.error), 0);
    ck_assert(!end->status->package_cached);
    ck_assert_uint_eq(fixture_count("compile again"), 2);
    ck_assert_int_eq(ipu_search_list(client, 0, &list, &fx.error), 0);
    ck_assert_uint_eq(list->n_states, 1);
    ck_assert_uint_eq(list->states[0]->attempts, 7);
    Ipu__Rpc__Fetch fetch = IPU__RPC__FETCH__INIT;
    struct buffer state = {0};
    fetch.kind = IPU__RPC__FETCH_KIND__FETCH_SEARCH;
    ck_assert_int_eq(ipu_fetch(client, &fetch, take, &state, NULL, &fx.error), 0);
    ck_assert_mem_eq(state.data, "attempt resumed", 15);
    buffer_free(&state);
    buffer_free(&bytes);
}
END_TEST

START_TEST(outputs_package_profile_and_workload_can_be_fetched)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    const Ipu__Rpc__Outputs *outputs;
    const Ipu__Rpc__FetchBegin *begin;
    ck_assert_int_eq(fixture_run(client, "big", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_int_eq(ipu_outputs(client, job, &outputs, &fx.error), 0);
    ck_assert_uint_eq(outputs->n_outputs, 1);
    ck_assert_str_eq(outputs->outputs[0]->name, "output.0");
    ck_assert_uint_eq(outputs->outputs[0]->bytes, FAKE_BIG + 32);
    static const struct {
        Ipu__Rpc__FetchKind kind;
        size_t size;
    } rows[] = {{IPU__RPC__FETCH_KIND__FETCH_OUTPUT, FAKE_BIG + 32},
                {IPU__RPC__FETCH_KIND__FETCH_PACKAGE, FAKE_BIG + 32 + 129},
                {IPU__RPC__FETCH_KIND__FETCH_PROFILE, 21},
                {IPU__RPC__FETCH_KIND__FETCH_SEARCH, 13}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Ipu__Rpc__Fetch fetch = IPU__RPC__FETCH__INIT;
        struct buffer bytes = {0};
        fetch.job = job;
        fetch.kind = rows[i].kind;
        int rc = ipu_fetch(client, &fetch, take, &bytes, &begin, &fx.error);
        ck_assert_msg(rc == 0, "%zu: %s", i, fx.error.text);
        ck_assert_uint_eq(bytes.size, rows[i].size);
        ck_assert_uint_eq(begin->bytes, rows[i].size);
        buffer_free(&bytes);
    }
    struct buffer workload = fixture_workload("big", 1, 0, NULL), bytes = {0};
    Ipu__Rpc__Fetch fetch = IPU__RPC__FETCH__INIT;
    fetch.kind = IPU__RPC__FETCH_KIND__FETCH_WORKLOAD;
    ck_assert_int_eq(ipu_fetch(client, &fetch, take, &bytes, &begin, &fx.error), 0);
    ck_assert_uint_eq(bytes.size, workload.size);
    ck_assert_mem_eq(bytes.data, workload.data, bytes.size);
    fetch.kind = IPU__RPC__FETCH_KIND__FETCH_OUTPUT;
    fetch.name = (char *)"nope";
    ck_assert_int_eq(ipu_fetch(client, &fetch, take, &bytes, &begin, &fx.error), IPU_ERR_NOT_FOUND);
    buffer_free(&workload);
    buffer_free(&bytes);
}
END_TEST

struct failure_row {
    const char *name;
    Ipu__Rpc__JobState state;
    int code;
    const char *says;
    unsigned compiles, runs;
};
static const struct failure_row failure_rows[] = {
    {"badgraph", IPU__RPC__JOB_STATE__JOB_FAILED, IPU_ERR_INVALID, "shapes do not match", 0, 0},
    {"nofit", IPU__RPC__JOB_STATE__JOB_FAILED, IPU_ERR_NO_FIT, "712 KiB", 1, 0},
    {"crash", IPU__RPC__JOB_STATE__JOB_FAILED, IPU_ERR_INTERNAL, "died twice", 2, 0},
    {"once-crash", IPU__RPC__JOB_STATE__JOB_DONE, 0, "", 2, 1},
    {"runfault", IPU__RPC__JOB_STATE__JOB_FAILED, IPU_ERR_DEVICE_FAULT, "misaligned load", 1, 1},
    {"runcrash", IPU__RPC__JOB_STATE__JOB_FAILED, IPU_ERR_DEVICE_FAULT, "died twice", 1, 2},
    {"once-runcrash", IPU__RPC__JOB_STATE__JOB_DONE, 0, "", 1, 2},
    {"wrong", IPU__RPC__JOB_STATE__JOB_FAILED, IPU_ERR_CHECK_FAILED, "differs", 1, 1},
    {"checkcrash", IPU__RPC__JOB_STATE__JOB_FAILED, IPU_ERR_INTERNAL, "died twice", 1, 1},
    {"once-checkcrash", IPU__RPC__JOB_STATE__JOB_DONE, 0, "", 1, 1},
};

START_TEST(failure_ends_its_own_job_with_the_reason)
{
    const struct failure_row *row = &failure_rows[_i];
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    char line[64];
    ck_assert_int_eq(fixture_run(client, row->name, 1, NULL, NULL, &job, &status), 0);
    ck_assert_msg(status->state == row->state, "state %d: %s", (int)status->state, status->reason);
    ck_assert_int_eq(status->code, row->code);
    ck_assert_msg(strstr(status->reason, row->says) != NULL, "%s", status->reason);
    snprintf(line, sizeof line, "compile %s", row->name);
    ck_assert_uint_eq(fixture_count(line), row->compiles);
    snprintf(line, sizeof line, "run %s", row->name);
    ck_assert_uint_eq(fixture_count(line), row->runs);
    /* The next job of anyone is undisturbed. */
    ck_assert_int_eq(fixture_run(client, "next", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
}
END_TEST

START_TEST(failed_check_still_has_its_results)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "wrong", 1, NULL, NULL, &job, &status), 0);
    ck_assert_uint_eq(status->n_results, 3);
    ck_assert_ptr_nonnull(strstr(status->results[2], "deviceTest=FAIL"));
}
END_TEST

START_TEST(identical_work_in_flight_is_done_once)
{
    uint64_t jobs[6];
    for (int i = 0; i < 6; i++)
        jobs[i] = fixture_detach(client, "slow", 1);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(fixture_follow(client, jobs[i])->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_uint_eq(fixture_count("compile slow"), 1);
    ck_assert_uint_eq(fixture_count("run slow"), 6);
}
END_TEST

START_TEST(kernels_come_from_the_cache)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "kernel", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_int_eq(fixture_run(client, "kernel", 2, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_uint_eq(fixture_count("kernel-miss kernel"), 1);
    ck_assert_uint_eq(fixture_count("kernel-hit kernel"), 1);
}
END_TEST

START_TEST(history_of_an_ended_job_can_be_read_and_resumed)
{
    struct buffer live = {0}, stored = {0}, rest = {0};
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "plain", 1, collect, &live, &job, &status), 0);
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    const Ipu__Rpc__WatchEnd *end;
    uint64_t next;
    watch.job = job;
    ck_assert_int_eq(ipu_watch(client, &watch, collect, &stored, &end, &next, &fx.error), 0);
    ck_assert_str_eq((char *)live.data, (char *)stored.data);
    ck_assert_int_eq(end->status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    watch.from = next - 2;
    ck_assert_int_eq(ipu_watch(client, &watch, collect, &rest, &end, &next, &fx.error), 0);
    ck_assert_str_eq((char *)rest.data, "results:3 done ");
    buffer_free(&live);
    buffer_free(&stored);
    buffer_free(&rest);
}
END_TEST

START_TEST(logs_alone_can_be_read_by_level)
{
    struct buffer text = {0};
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &job, &status), 0);
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    watch.job = job;
    watch.logs_only = true;
    ck_assert_int_eq(ipu_watch(client, &watch, collect, &text, NULL, NULL, &fx.error), 0);
    ck_assert_ptr_nonnull(strstr((char *)text.data, "[retained"));
    ck_assert_ptr_null(strstr((char *)text.data, "done"));
    buffer_free(&text);
    watch.log_level = IPU__RPC__LOG_LEVEL__LOG_ERROR;
    ck_assert_int_eq(ipu_watch(client, &watch, collect, &text, NULL, NULL, &fx.error), 0);
    ck_assert_uint_eq(text.size, 0);
}
END_TEST

START_TEST(unknown_jobs_are_a_clear_error)
{
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(ipu_status(client, 99, &status, &fx.error), IPU_ERR_NOT_FOUND);
    ck_assert_str_eq(fx.error.text, "there is no job 99");
    ck_assert_int_eq(ipu_status(client, 0, &status, &fx.error), IPU_ERR_NOT_FOUND);
    ck_assert_int_eq(ipu_cancel(client, 99, &status, &fx.error), IPU_ERR_NOT_FOUND);
}
END_TEST

START_TEST(lists_show_the_latest_first)
{
    uint64_t job = 0;
    const Ipu__Rpc__JobStatus *status;
    const Ipu__Rpc__JobList *list;
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(fixture_run(client, "plain", i, NULL, NULL, &job, &status), 0);
    Ipu__Rpc__ListRequest request = IPU__RPC__LIST_REQUEST__INIT;
    request.limit = 2;
    ck_assert_int_eq(ipu_list(client, &request, &list, &fx.error), 0);
    ck_assert_uint_eq(list->n_jobs, 2);
    ck_assert(list->more);
    ck_assert_uint_eq(list->jobs[0]->job, job);
    request.active = true;
    ck_assert_int_eq(ipu_list(client, &request, &list, &fx.error), 0);
    ck_assert_uint_eq(list->n_jobs, 0);
}
END_TEST

START_TEST(compile_and_run_limits_end_the_job_as_timed_out)
{
    static const char *const names[] = {"hang", "stubborn", "runhang", "runstubborn"};
    Ipu__Workload__Options options = IPU__WORKLOAD__OPTIONS__INIT;
    options.compile_timeout_ms = 300;
    options.run_timeout_ms = 300;
    struct buffer bytes = fixture_workload(names[_i], 1, 0, &options);
    const Ipu__Rpc__WatchEnd *end;
    struct ipu_submit submit = {.data = bytes.data, .size = bytes.size, .event = fixture_ignore};
    uint64_t job, start = clock_ns();
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(ipu_submit(client, &submit, &job, &end, NULL, &fx.error), 0);
    ck_assert_int_eq(end->status->state, IPU__RPC__JOB_STATE__JOB_TIMED_OUT);
    ck_assert_int_eq(end->status->code, IPU_ERR_TIMEOUT);
    ck_assert_uint_lt(clock_ns() - start, 2500000000u);
    ck_assert_int_eq(fixture_run(client, "next", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    buffer_free(&bytes);
}
END_TEST

START_TEST(damaged_objects_are_rebuilt_and_counted)
{
    static const char *const kinds[] = {"package", "kernel"};
    uint64_t job;
    char command[400];
    const Ipu__Rpc__JobStatus *status;
    const Ipu__Rpc__CacheStats *stats;
    ck_assert_int_eq(fixture_run(client, "kernel", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(fixture_run(client, "other", 1, NULL, NULL, &job, &status), 0);
    snprintf(command, sizeof command,
             "UPDATE chunks SET data = CAST(x'41' || substr(data, 2) AS BLOB)"
             " WHERE id / 1048576 IN (SELECT id FROM objects WHERE kind = %d)",
             _i == 0 ? 2 : 3);
    fixture_sql(command);
    ck_assert_int_eq(fixture_run(client, "kernel", _i == 0 ? 1 : 2, NULL, NULL, &job, &status), 0);
    ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
    ck_assert_int_eq(ipu_cache_stats(client, &stats, &fx.error), 0);
    for (size_t i = 0; i < stats->n_kinds; i++)
        if (strcmp(stats->kinds[i]->kind, kinds[_i]) == 0)
            ck_assert_uint_eq(stats->kinds[i]->damaged, 1);
}
END_TEST

START_TEST(cache_commands_work_on_what_is_stored)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    const Ipu__Rpc__CacheList *list;
    const Ipu__Rpc__CacheWork *work;
    const Ipu__Rpc__CacheExplain *explain;
    const Ipu__Rpc__SearchState *search;
    const Ipu__Rpc__SearchList *states;
    ck_assert_int_eq(fixture_run(client, "kernel", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(ipu_cache_list(client, "kernel", 0, &list, &fx.error), 0);
    ck_assert_uint_eq(list->n_objects, 1);
    ck_assert_uint_eq(list->objects[0]->bytes, 6);
    ck_assert_uint_eq(strlen(list->objects[0]->key), 64);
    ck_assert_int_eq(ipu_cache_list(client, "nonsense", 0, &list, &fx.error), IPU_ERR_INVALID);
    ck_assert_int_eq(ipu_cache_verify(client, &work, &fx.error), 0);
    ck_assert_uint_eq(work->objects, 6);
    ck_assert_uint_eq(work->damaged, 0);
    ck_assert_int_eq(ipu_cache_explain(client, job, &explain, &fx.error), 0);
    ck_assert_uint_eq(strlen(explain->key), 64);
    ck_assert_uint_eq(strlen(explain->package), 64);
    ck_assert_int_eq(ipu_search_list(client, 0, &states, &fx.error), 0);
    char key[65];
    snprintf(key, sizeof key, "%s", states->states[0]->key);
    ck_assert_int_eq(ipu_search_show(client, key, &search, &fx.error), 0);
    ck_assert_ptr_nonnull(strstr(search->text, "attempts 7"));
    ck_assert_int_eq(ipu_search_drop(client, key, &fx.error), 0);
    ck_assert_int_eq(ipu_search_show(client, key, &search, &fx.error), IPU_ERR_NOT_FOUND);
    ck_assert_int_eq(ipu_cache_gc(client, 0, true, &work, &fx.error), 0);
    ck_assert_uint_eq(work->objects, 6);
    ck_assert_int_eq(ipu_cache_verify(client, &work, &fx.error), 0);
    ck_assert_uint_eq(work->objects, 0);
}
END_TEST

START_TEST(info_and_ping_answer_while_work_goes_on)
{
    const Ipu__Rpc__Info *info;
    uint64_t job = fixture_detach(client, "hang", 1), ns = 0;
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_COMPILING);
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_uint_eq(info->workers_busy, 1);
    ck_assert_uint_eq(info->jobs_active, 1);
    ck_assert_str_eq(info->device, "sim");
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
    ck_assert_uint_lt(ns, 50000000u);
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(ipu_cancel(client, job, &status, &fx.error), 0);
}
END_TEST

int main(int argc, char **argv)
{
    int rc = fixture_dispatch(argc, argv);
    if (rc >= 0)
        return rc;
    Suite *suite = suite_create("daemon_job");
    TCase *tc = tcase_create("daemon_job");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 20);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, job_goes_from_queued_to_done_and_tells_about_it);
    tcase_add_test(tc, second_submission_comes_from_the_cache_without_compile_or_load);
    tcase_add_test(tc, outputs_that_have_passed_are_not_compared_again);
    tcase_add_test(tc, one_other_bit_in_the_outputs_is_found_although_the_package_is_known);
    tcase_add_test(tc, failed_check_is_done_again);
    tcase_add_test(tc, no_cache_compiles_again_and_resumes_the_search);
    tcase_add_test(tc, outputs_package_profile_and_workload_can_be_fetched);
    tcase_add_loop_test(tc, failure_ends_its_own_job_with_the_reason, 0,
                        sizeof failure_rows / sizeof failure_rows[0]);
    tcase_add_test(tc, failed_check_still_has_its_results);
    tcase_add_test(tc, identical_work_in_flight_is_done_once);
    tcase_add_test(tc, kernels_come_from_the_cache);
    tcase_add_test(tc, history_of_an_ended_job_can_be_read_and_resumed);
    tcase_add_test(tc, logs_alone_can_be_read_by_level);
    tcase_add_test(tc, unknown_jobs_are_a_clear_error);
    tcase_add_test(tc, lists_show_the_latest_first);
    tcase_add_loop_test(tc, compile_and_run_limits_end_the_job_as_timed_out, 0, 4);
    tcase_add_loop_test(tc, damaged_objects_are_rebuilt_and_counted, 0, 2);
    tcase_add_test(tc, cache_commands_work_on_what_is_stored);
    tcase_add_test(tc, info_and_ping_answer_while_work_goes_on);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
