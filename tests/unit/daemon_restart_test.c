/* module: client */
/* Deaths and restarts: of compile workers, of the device owner, of ipud itself. */
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
    client = NULL;
    fixture_teardown();
}

static void restart(int signal_number)
{
    ipu_close(client);
    int status = fixture_end(signal_number);
    ck_assert(signal_number == SIGKILL || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    uint64_t start = clock_ns();
    fixture_start();
    client = fixture_connect();
    ck_assert_uint_lt(clock_ns() - start, 1000000000u);
}

static void await_count(const char *line, unsigned count)
{
    for (int i = 0; i < 1000 && fixture_count(line) < count; i++)
        poll(NULL, 0, 5);
    ck_assert_uint_eq(fixture_count(line), count);
}

START_TEST(killed_compile_worker_costs_a_retry)
{
    fx.options[0] = "--workers";
    fx.options[1] = "1";
    restart(SIGTERM);
    uint64_t job = fixture_detach(client, "slow", 1);
    await_count("compile slow", 1);
    kill(fixture_child("ipud-compile", 0), SIGKILL);
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_uint_eq(fixture_count("compile slow"), 2);
    ck_assert_uint_eq(fixture_status(client, job)->attempts, 3); /* two compiles, one run */
}
END_TEST

START_TEST(killed_device_owner_costs_a_retry)
{
    uint64_t job = fixture_detach(client, "runhang", 1);
    await_count("run runhang", 1);
    kill(fixture_child("ipud-device", 0), SIGKILL);
    await_count("run runhang", 2);
    kill(fixture_child("ipud-device", 0), SIGKILL);
    const Ipu__Rpc__JobStatus *status = fixture_follow(client, job);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_FAILED);
    ck_assert_int_eq(status->code, IPU_ERR_DEVICE_FAULT);
    ck_assert_ptr_nonnull(strstr(status->reason, "signal 9"));
    const Ipu__Rpc__Info *info;
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_uint_eq(info->device_restarts, 2);
}
END_TEST

START_TEST(idle_workers_that_are_killed_come_back)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    pid_t pids[3] = {fixture_child("ipud-compile", 0), fixture_child("ipud-compile", 1),
                     fixture_child("ipud-device", 0)};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_gt(pids[i], 0);
        kill(pids[i], SIGKILL);
    }
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &job, &status), 0);
    ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
}
END_TEST

START_TEST(queued_and_interrupted_jobs_are_done_after_a_restart)
{
    uint64_t done, jobs[4];
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &done, &status), 0);
    for (unsigned i = 0; i < 4; i++)
        jobs[i] = fixture_detach(client, "slow", i);
    fixture_await(client, jobs[0], IPU__RPC__JOB_STATE__JOB_COMPILING);
    restart(_i == 0 ? SIGKILL : SIGTERM);
    for (unsigned i = 0; i < 4; i++) {
        status = fixture_follow(client, jobs[i]);
        ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
    }
    ck_assert_int_eq(fixture_status(client, done)->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_uint_eq(fixture_count("compile plain"), 1);
    ck_assert_uint_eq(fixture_count("run plain"), 1);
}
END_TEST

/* They wait for one of them, not for one another. */
START_TEST(equal_jobs_that_wait_at_a_restart_are_all_done_by_one_compile)
{
    enum { EQUAL = 6 };
    uint64_t jobs[EQUAL];
    for (unsigned i = 0; i < EQUAL; i++)
        jobs[i] = fixture_detach(client, "slow", 1);
    fixture_await(client, jobs[0], IPU__RPC__JOB_STATE__JOB_COMPILING);
    restart(SIGKILL);
    for (unsigned i = 0; i < EQUAL; i++) {
        const Ipu__Rpc__JobStatus *status = fixture_follow(client, jobs[i]);
        ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
    }
    ck_assert_uint_eq(fixture_count("compile slow"), 2); /* one was interrupted */
}
END_TEST

START_TEST(running_job_is_finished_before_a_stop)
{
    uint64_t job = fixture_detach(client, "slow", 1);
    await_count("compile slow", 1);
    restart(SIGTERM);
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_uint_eq(fixture_count("compile slow"), 1);
}
END_TEST

/* Reads the states of all jobs from the store itself: acknowledged ones must be there, each ended
 * once. */
static void check_states(const uint64_t *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Ipu__Rpc__JobStatus *status = fixture_follow(client, jobs[i]);
        ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "job %llu: state %d, %s",
                      (unsigned long long)jobs[i], (int)status->state, status->reason);
    }
}

static unsigned kill_cycles(void)
{
    const char *level = getenv("IPUD_TEST_LEVEL");
    return level && strcmp(level, "long") == 0  ? 1000
           : level && strcmp(level, "all") == 0 ? 50
                                                : 12;
}

START_TEST(kills_at_any_time_lose_nothing_and_complete_nothing_twice)
{
    enum { MOST = 1000, EACH = 3 };
    static uint64_t jobs[MOST * EACH];
    size_t count = 0;
    unsigned cycles = kill_cycles();
    srand(7);
    for (unsigned cycle = 0; cycle < cycles; cycle++) {
        for (unsigned i = 0; i < EACH; i++, count++)
            jobs[count] = fixture_detach(client, i == 2 ? "big" : "plain", cycle * EACH + i);
        poll(NULL, 0, rand() % 60);
        restart(SIGKILL);
    }
    check_states(jobs, count);
    sqlite3 *db;
    char path[128];
    sqlite3_stmt *statement;
    snprintf(path, sizeof path, "%s/ipud.db", fx.dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL), 0);
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}
END_TEST

START_TEST(second_daemon_on_the_state_directory_is_refused)
{
    pid_t second = fixture_spawn();
    int status;
    ck_assert_int_eq(waitpid(second, &status, 0), second);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    struct buffer text = {0};
    ck_assert_int_eq(buffer_read_file(&text, fx.stderr_path, 1 << 20), 0);
    buffer_append_zero(&text, 1);
    ck_assert_ptr_nonnull(
        strstr((char *)text.data, "ipud: another ipud is already serving the state directory"));
    buffer_free(&text);
    uint64_t ns;
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
}
END_TEST

START_TEST(live_socket_of_another_daemon_is_not_taken)
{
    char dir[64];
    snprintf(dir, sizeof dir, "%s", fx.dir);
    snprintf(fx.dir, sizeof fx.dir, "%.50s/second", dir);
    pid_t second = fixture_spawn();
    snprintf(fx.dir, sizeof fx.dir, "%s", dir);
    int status;
    ck_assert_int_eq(waitpid(second, &status, 0), second);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    uint64_t ns;
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
    ipu_close(client);
    client = fixture_connect(); /* the file is still ours */
}
END_TEST

START_TEST(stale_socket_is_replaced_and_ours_is_removed)
{
    ipu_close(client);
    fixture_end(SIGKILL);
    ck_assert_int_eq(access(fx.socket, F_OK), 0); /* stale */
    fixture_start();
    client = fixture_connect();
    ipu_close(client);
    client = NULL;
    int status = fixture_end(SIGTERM);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_ne(access(fx.socket, F_OK), 0);
}
END_TEST

START_TEST(file_that_is_no_socket_is_left_alone)
{
    ipu_close(client);
    client = NULL;
    fixture_end(SIGTERM);
    ck_assert_int_eq(buffer_write_file(fx.socket, "precious", 8), 0);
    pid_t pid = fixture_spawn();
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    struct buffer text = {0};
    ck_assert_int_eq(buffer_read_file(&text, fx.socket, 100), 0);
    ck_assert_uint_eq(text.size, 8);
    buffer_free(&text);
}
END_TEST

START_TEST(workers_do_not_outlive_a_killed_daemon)
{
    uint64_t job = fixture_detach(client, "stubborn", 1);
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_COMPILING);
    pid_t pids[3] = {fixture_child("ipud-compile", 0), fixture_child("ipud-compile", 1),
                     fixture_child("ipud-device", 0)};
    ipu_close(client);
    client = NULL;
    fixture_end(SIGKILL);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ne(pids[i], 0);
        for (int n = 0; n < 800 && kill(pids[i], 0) == 0; n++)
            poll(NULL, 0, 5);
        ck_assert_int_ne(kill(pids[i], 0), 0);
    }
}
END_TEST

int main(int argc, char **argv)
{
    int rc = fixture_dispatch(argc, argv);
    if (rc >= 0)
        return rc;
    Suite *suite = suite_create("daemon_restart");
    TCase *tc = tcase_create("daemon_restart");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 40);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, killed_compile_worker_costs_a_retry);
    tcase_add_test(tc, killed_device_owner_costs_a_retry);
    tcase_add_test(tc, idle_workers_that_are_killed_come_back);
    tcase_add_loop_test(tc, queued_and_interrupted_jobs_are_done_after_a_restart, 0, 2);
    tcase_add_test(tc, equal_jobs_that_wait_at_a_restart_are_all_done_by_one_compile);
    tcase_add_test(tc, running_job_is_finished_before_a_stop);
    tcase_add_test(tc, second_daemon_on_the_state_directory_is_refused);
    tcase_add_test(tc, live_socket_of_another_daemon_is_not_taken);
    tcase_add_test(tc, stale_socket_is_replaced_and_ours_is_removed);
    tcase_add_test(tc, file_that_is_no_socket_is_left_alone);
    tcase_add_test(tc, workers_do_not_outlive_a_killed_daemon);
    TCase *kills = tcase_create("kills");
    suite_add_tcase(suite, kills);
    tcase_set_timeout(kills, 30 + 2 * kill_cycles());
    tcase_add_checked_fixture(kills, setup, teardown);
    tcase_add_test(kills, kills_at_any_time_lose_nothing_and_complete_nothing_twice);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
