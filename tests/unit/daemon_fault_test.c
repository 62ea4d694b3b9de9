/* module: client */
/* Faults of the machine: a disk that takes nothing more, memory that runs out at the Nth call,
 * readers that fall behind, settings that make no sense. The daemon answers or refuses, heals, and
 * never dies. */
#include "tests/unit/daemon_fixture.h"

#include "base/alloc.h"
#include "daemon/config.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

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

/* --- disk --- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    ck_assert_int_eq(prlimit(fx.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

START_TEST(full_disk_refuses_submissions_and_heals_by_itself)
{
    const Ipu__Rpc__Info *info;
    const Ipu__Rpc__JobStatus *status;
    struct buffer bytes = fixture_workload("plain", 1, 4 << 20, NULL);
    struct ipu_submit submit = {.data = bytes.data, .size = bytes.size, .detach = true};
    uint64_t job;
    limit_files(4096);
    int rc = ipu_submit(client, &submit, &job, NULL, NULL, &fx.error);
    ck_assert_msg(rc == IPU_ERR_IO, "%d %s", rc, fx.error.text);
    ck_assert_ptr_nonnull(strstr(fx.error.text, "store"));
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_str_ne(info->degraded, "");
    limit_files(RLIM_INFINITY);
    ck_assert_int_eq(fixture_run(client, "after", 1, NULL, NULL, &job, &status), 0);
    ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_str_eq(info->degraded, "");
    buffer_free(&bytes);
}
END_TEST

START_TEST(outcome_waits_for_the_disk_and_is_told_when_it_is_stored)
{
    const Ipu__Rpc__JobStatus *status;
    uint64_t job = fixture_detach(client, "hang", 1);
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_COMPILING);
    limit_files(4096);
    ck_assert_int_eq(ipu_cancel(client, job, &status, &fx.error), 0);
    poll(NULL, 0, 1500);
    status = fixture_status(client, job);
    ck_assert_msg(status->state != IPU__RPC__JOB_STATE__JOB_CANCELLED,
                  "an outcome was told that is not stored");
    limit_files(RLIM_INFINITY);
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
}
END_TEST

START_TEST(cache_cap_holds_under_load)
{
    ipu_close(client);
    fixture_end(SIGTERM);
    fx.options[0] = "--cache-limit-mib";
    fx.options[1] = "40";
    fixture_start();
    client = fixture_connect();
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    const Ipu__Rpc__CacheStats *stats;
    for (unsigned i = 0; i < 8; i++) { /* 16 MiB each */
        ck_assert_int_eq(fixture_run(client, "big", i, NULL, NULL, &job, &status), 0);
        ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
        ck_assert_int_eq(ipu_cache_stats(client, &stats, &fx.error), 0);
        ck_assert_uint_le(stats->bytes, stats->limit);
    }
    ck_assert_uint_gt(stats->evicted, 5);
    ck_assert_uint_lt(stats->database_bytes, 160 << 20);
}
END_TEST

START_TEST(job_that_cannot_fit_the_cache_fails_with_the_numbers)
{
    ipu_close(client);
    fixture_end(SIGTERM);
    fx.options[0] = "--cache-limit-mib";
    fx.options[1] = "16";
    fixture_start();
    client = fixture_connect();
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    struct buffer bytes = fixture_workload("plain", 1, 17 << 20, NULL);
    struct ipu_submit submit = {.data = bytes.data, .size = bytes.size, .detach = true};
    ck_assert_int_eq(ipu_submit(client, &submit, &job, NULL, NULL, &fx.error), IPU_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(fx.error.text, "the limit is 16777216"));
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    buffer_free(&bytes);
}
END_TEST

/* --- readers that fall behind --- */

struct reading {
    uint64_t next, lost, holes;
    bool slept;
};

static int read_slowly(void *context, const Ipu__Rpc__Event *event)
{
    struct reading *reading = context;
    if (event->kind_case == IPU__RPC__EVENT__KIND_GAP) {
        ck_assert_uint_eq(event->gap->first, reading->next);
        reading->lost += event->gap->last - event->gap->first + 1;
    } else {
        reading->holes += event->sequence - reading->next; /* what was not asked for */
    }
    reading->next = event->sequence + 1;
    if (!reading->slept && event->sequence > 10) {
        reading->slept = true;
        poll(NULL, 0, 1500); /* meanwhile the job says far more than is kept for us */
    }
    return 0;
}

START_TEST(slow_reader_sees_a_gap_and_can_read_it_later)
{
    struct reading reading = {.next = 1};
    const Ipu__Rpc__Info *info;
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "chatty", 1, read_slowly, &reading, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_uint_gt(reading.lost, 1000);
    ck_assert_uint_le(reading.holes, 1); /* the profile */
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_uint_lt(info->memory_bytes, 400u << 20);
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    struct reading again = {.next = 1, .slept = true};
    watch.job = job;
    int rc = ipu_watch(client, &watch, fixture_ignore, &again, NULL, &again.next, &fx.error);
    ck_assert_msg(rc == 0, "%s", fx.error.text);
    ck_assert_uint_gt(again.next, 20000);
}
END_TEST

/* --- memory --- */

START_TEST(allocation_failures_are_answered_and_leave_no_trace)
{
    char text[32];
    ipu_close(client);
    client = NULL;
    fixture_end(SIGTERM);
    int n = _i * 5;
    snprintf(text, sizeof text, "%d", n);
    setenv("FAKE_ALLOC_FAIL", text, 1);
    fx.pid = fixture_spawn();
    unsetenv("FAKE_ALLOC_FAIL");
    struct ipu_client *own = NULL;
    for (int i = 0; i < 400 && !own; i++) {
        int status;
        if (waitpid(fx.pid, &status, WNOHANG) == fx.pid) { /* refused to start: that is an answer */
            ck_assert_msg(WIFEXITED(status), "died with signal %d at allocation %d",
                          WTERMSIG(status), n);
            fixture_start();
        }
        if (ipu_connect(fx.socket, "test", &own, &fx.error))
            poll(NULL, 0, 5);
    }
    ck_assert_ptr_nonnull(own);
    ipu_close(own);
    client = fixture_connect();
    bool passed = false;
    for (unsigned i = 0; i < 3 && !passed; i++) { /* the failure may hit either of the first two */
        uint64_t job, ns;
        const Ipu__Rpc__JobStatus *status;
        int rc = fixture_run(client, "kernel", i, NULL, NULL, &job, &status);
        passed = rc == 0 && status->state == IPU__RPC__JOB_STATE__JOB_DONE;
        ck_assert_msg(passed || i < 2, "allocation %d: %d %s", n, rc, fx.error.text);
        if (rc == IPU_ERR_UNREACHABLE || rc == IPU_ERR_PROTOCOL) {
            ipu_close(client);
            client = fixture_connect();
        }
        ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
    }
}
END_TEST

START_TEST(worker_limits_end_the_job_that_exceeds_them)
{
#ifdef __SANITIZE_ADDRESS__
    if (_i == 1)
        return; /* the sanitizer's own memory is beyond any limit */
#endif
    ipu_close(client);
    fixture_end(SIGTERM);
    fx.options[0] = _i == 0 ? "--worker-cpu-s" : "--worker-memory-mib";
    fx.options[1] = _i == 0 ? "1" : "900";
    fixture_start();
    client = fixture_connect();
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, _i == 0 ? "spin" : "hungry", 1, NULL, NULL, &job, &status),
                     0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_FAILED);
    ck_assert_msg(strstr(status->reason, _i == 0 ? "CPU time limit" : "out of memory") != NULL,
                  "%s", status->reason);
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
}
END_TEST

START_TEST(sandboxed_worker_cannot_write_files)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "writer", 1, NULL, NULL, &job, &status), 0);
    ck_assert_str_eq(status->reason, "a worker could write a file"); /* the sandbox is off */
    ck_assert_int_eq(unlink(fx.mark), 0);
    ipu_close(client);
    fixture_end(SIGTERM);
    fx.options[0] = "--sandbox";
    fx.options[1] = "1";
    fixture_start();
    client = fixture_connect();
    ck_assert_int_eq(fixture_run(client, "writer", 1, NULL, NULL, &job, &status), 0);
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0) /* else this kernel has no Landlock */
        ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
}
END_TEST

/* --- settings --- */

struct config_row {
    const char *text;
    int code;
    const char *says;
};
static const struct config_row config_rows[] = {
    {"workers = 3\n# comment\n  run_timeout_ms=500 # more\n", 0, ""},
    {"workers = three\n", IPU_ERR_INVALID, "file:1: workers must be a number from 0 to 256"},
    {"\n\nwrokers = 3\n", IPU_ERR_INVALID, "file:3: there is no setting \"wrokers\""},
    {"workers\n", IPU_ERR_INVALID, "file:1: expected \"key = value\""},
    {"workers = 1000\n", IPU_ERR_INVALID, "from 0 to 256"},
    {"log_level = loud\n", IPU_ERR_INVALID, "debug, info, warn or error"},
    {"socket_mode = 999\n", IPU_ERR_INVALID, "octal"},
};

START_TEST(settings_are_checked_and_named)
{
    static struct config config;
    config_defaults(&config);
    int rc = config_parse(&config, config_rows[_i].text, "file", &fx.error);
    if (rc == 0) {
        snprintf(config.state_dir, sizeof config.state_dir, "/tmp/x");
        rc = config_finish(&config, &fx.error);
    }
    ck_assert_msg(rc == config_rows[_i].code, "%s", fx.error.text);
    if (rc)
        ck_assert_msg(strstr(fx.error.text, config_rows[_i].says) != NULL, "%s", fx.error.text);
    else
        ck_assert(config.workers == 3 && config.run_timeout_ms == 500);
}
END_TEST

START_TEST(command_line_wins_over_the_file)
{
    static struct config config;
    bool help;
    char path[96];
    snprintf(path, sizeof path, "%s/conf", fx.dir);
    ck_assert_int_eq(buffer_write_file(path, "workers = 3\ndrain_s = 7\n", 24), 0);
    char *argv[] = {(char *)"ipud", (char *)"--workers=2", (char *)"--config", path, NULL};
    ck_assert_int_eq(config_load(&config, 4, argv, &help, &fx.error), 0);
    ck_assert_int_eq(config.workers, 2);
    ck_assert_int_eq(config.drain_s, 7);
    argv[1] = (char *)"--nonsense";
    ck_assert_int_eq(config_load(&config, 2, argv, &help, &fx.error), IPU_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(fx.error.text, "--nonsense needs a value"));
}
END_TEST

/* An allocation failure for the daemon itself, not for its workers. */
static void arm(int argc, char **argv)
{
    const char *fail = getenv("FAKE_ALLOC_FAIL");
    if (fail && argc > 1 && strcmp(argv[1], "--state-dir") == 0) {
        ipu_alloc_fail_after(strtol(fail, NULL, 10), 1);
        unsetenv("FAKE_ALLOC_FAIL");
    }
}

int main(int argc, char **argv)
{
    arm(argc, argv);
    int rc = fixture_dispatch(argc, argv);
    if (rc >= 0)
        return rc;
    Suite *suite = suite_create("daemon_fault");
    TCase *tc = tcase_create("daemon_fault");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 40);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, full_disk_refuses_submissions_and_heals_by_itself);
    tcase_add_test(tc, outcome_waits_for_the_disk_and_is_told_when_it_is_stored);
    tcase_add_test(tc, cache_cap_holds_under_load);
    tcase_add_test(tc, job_that_cannot_fit_the_cache_fails_with_the_numbers);
    tcase_add_test(tc, slow_reader_sees_a_gap_and_can_read_it_later);
    tcase_add_loop_test(tc, allocation_failures_are_answered_and_leave_no_trace, 0, 60);
    tcase_add_loop_test(tc, worker_limits_end_the_job_that_exceeds_them, 0, 2);
    tcase_add_test(tc, sandboxed_worker_cannot_write_files);
    tcase_add_loop_test(tc, settings_are_checked_and_named, 0,
                        sizeof config_rows / sizeof config_rows[0]);
    tcase_add_test(tc, command_line_wins_over_the_file);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
