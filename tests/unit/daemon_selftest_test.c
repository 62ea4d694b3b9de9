/* module: client */
/* The self-test of the device through the whole daemon, with the fake engine: its steps arrive, it
 * waits its turn, and whatever happens to it leaves the device to the jobs. */
#include "tests/unit/daemon_fixture.h"

static struct ipu_client *client;

static void start(const char *deed)
{
    setenv("FAKE_SELFTEST", deed, 1);
    fixture_start();
    client = fixture_connect();
    const Ipu__Rpc__Info *info;
    do { /* the owner may still be starting, which would be told as a wait */
        ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    } while (strcmp(info->device_state, "idle") != 0);
}

static void setup(void)
{
    fixture_make_dir();
}

static void teardown(void)
{
    ipu_close(client);
    fixture_teardown();
}

static int collect(void *context, const Ipu__Rpc__SelftestStep *step)
{
    static const char *const outcomes[] = {"passed", "failed", "skipped", "waiting"};
    buffer_printf(context, "%s:%s ", step->name, outcomes[step->outcome]);
    if (step->report[0])
        buffer_printf(context, "[%s] ", step->report);
    return 0;
}

static int leave(void *context, const Ipu__Rpc__SelftestStep *step)
{
    (void)context;
    (void)step;
    return IPU_ERR_CANCELLED;
}

static int run(struct ipu_client *by, struct buffer *text)
{
    text->size = 0;
    int rc = ipu_selftest(by, collect, text, &fx.error);
    buffer_append_zero(text, 1);
    return rc;
}

/* Waits until the fake engine has begun `n` tests. */
static void await_tests(unsigned n)
{
    for (int i = 0; i < 2000 && fixture_count("selftest -") < n; i++)
        poll(NULL, 0, 5);
    ck_assert_uint_ge(fixture_count("selftest -"), n);
}

static void expect_job_runs(const char *name)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, name, 1, NULL, NULL, &job, &status), 0);
    ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
}

START_TEST(steps_arrive_in_order_and_the_device_serves_jobs_again)
{
    struct buffer text = {0};
    const Ipu__Rpc__Info *info;
    start("");
    expect_job_runs("before");
    ck_assert_msg(run(client, &text) == 0, "%s", fx.error.text);
    ck_assert_str_eq((char *)text.data, "open:passed reset:passed kernel:passed ");
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_str_eq(info->resident_package, "");
    expect_job_runs("before");
    ck_assert_uint_eq(fixture_count("load before"), 2); /* the test had unloaded it */
    buffer_free(&text);
}
END_TEST

START_TEST(failed_step_brings_its_report_and_a_code)
{
    struct buffer text = {0};
    start("fail");
    ck_assert_int_eq(run(client, &text), IPU_ERR_DEVICE_FAULT);
    ck_assert_str_eq((char *)text.data, "open:passed reset:failed [expected mark 0x2000\nobserved "
                                        "mark 0x0000] kernel:skipped ");
    ck_assert_str_eq(fx.error.text, "reset: the mailbox is silent");
    expect_job_runs("after");
    buffer_free(&text);
}
END_TEST

START_TEST(test_waits_for_a_running_job_and_says_so)
{
    struct buffer text = {0};
    start("");
    uint64_t job = fixture_detach(client, "runhang", 1);
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_RUNNING);
    struct ipu_client *other = fixture_connect();
    const Ipu__Rpc__JobStatus *status;
    pid_t pid = fork();
    if (pid == 0) {
        poll(NULL, 0, 200);
        struct ipu_client *third = fixture_connect();
        _exit(ipu_cancel(third, job, &status, &fx.error) ? 1 : 0);
    }
    ck_assert_msg(run(other, &text) == 0, "%s", fx.error.text);
    ck_assert_str_eq((char *)text.data, ":waiting open:passed reset:passed kernel:passed ");
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ipu_close(other);
    buffer_free(&text);
}
END_TEST

START_TEST(second_test_is_refused_while_one_goes_on)
{
    struct buffer text = {0};
    start("slow");
    pid_t pid = fork();
    if (pid == 0) {
        struct ipu_client *first = fixture_connect();
        _exit(run(first, &text) ? 1 : 0);
    }
    const Ipu__Rpc__Info *info;
    await_tests(1);
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_str_eq(info->device_state, "being tested");
    ck_assert_int_eq(run(client, &text), IPU_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(fx.error.text, "another self-test"));
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_int_eq(run(client, &text), 0);
    buffer_free(&text);
}
END_TEST

static const char *const deeds[] = {"hang", "stubborn"};

START_TEST(reader_that_leaves_stops_the_test)
{
    struct buffer text = {0};
    start(deeds[_i]);
    ck_assert_int_eq(ipu_selftest(client, leave, NULL, &fx.error), IPU_ERR_CANCELLED);
    expect_job_runs("after");
    ck_assert_uint_eq(fixture_count("selftest -"), 1);
    buffer_free(&text);
}
END_TEST

START_TEST(client_that_dies_stops_the_test)
{
    start("hang");
    pid_t pid = fork();
    if (pid == 0) {
        struct buffer text = {0};
        (void)run(fixture_connect(), &text);
        _exit(0);
    }
    await_tests(1);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    expect_job_runs("after");
}
END_TEST

START_TEST(death_of_the_owner_ends_the_test_with_its_reason)
{
    struct buffer text = {0};
    start("crash");
    ck_assert_int_eq(run(client, &text), IPU_ERR_DEVICE_FAULT);
    ck_assert_msg(strstr(fx.error.text, "signal 6") != NULL, "%s", fx.error.text);
    ck_assert_str_eq((char *)text.data, "open:passed ");
    expect_job_runs("after");
    buffer_free(&text);
}
END_TEST

START_TEST(configured_files_reach_the_device)
{
    struct buffer text = {0};
    fx.options[0] = "--device-configuration";
    fx.options[1] = "/etc/hosts";
    start("");
    ck_assert_int_eq(run(client, &text), 0);
    ck_assert_uint_eq(fixture_count("selftest /etc/hosts"), 1);
    buffer_free(&text);
}
END_TEST

START_TEST(shutdown_ends_a_test)
{
    struct buffer text = {0};
    start("hang");
    pid_t pid = fork();
    if (pid == 0)
        _exit(run(fixture_connect(), &text) ? 7 : 0);
    await_tests(1);
    int status = fixture_end(SIGTERM);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    buffer_free(&text);
}
END_TEST

int main(int argc, char **argv)
{
    int code = fixture_dispatch(argc, argv);
    if (code >= 0)
        return code;
    Suite *suite = suite_create("daemon_selftest");
    TCase *tc = tcase_create("selftest");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, steps_arrive_in_order_and_the_device_serves_jobs_again);
    tcase_add_test(tc, failed_step_brings_its_report_and_a_code);
    tcase_add_test(tc, test_waits_for_a_running_job_and_says_so);
    tcase_add_test(tc, second_test_is_refused_while_one_goes_on);
    tcase_add_loop_test(tc, reader_that_leaves_stops_the_test, 0, 2);
    tcase_add_test(tc, client_that_dies_stops_the_test);
    tcase_add_test(tc, death_of_the_owner_ends_the_test_with_its_reason);
    tcase_add_test(tc, configured_files_reach_the_device);
    tcase_add_test(tc, shutdown_ends_a_test);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
