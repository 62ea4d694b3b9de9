/* module: client */
/* Cancelling a job in every state, and what leaving readers mean for attached and shared work. */
#include "tests/unit/daemon_fixture.h"

static struct ipu_client *client, *other;

static void setup(void)
{
    fixture_setup();
    client = fixture_connect();
    other = fixture_connect();
}

static void teardown(void)
{
    ipu_close(client);
    ipu_close(other);
    fixture_teardown();
}

static void cancel(uint64_t job)
{
    const Ipu__Rpc__JobStatus *status;
    ck_assert_msg(ipu_cancel(client, job, &status, &fx.error) == 0, "%s", fx.error.text);
}

static void expect_works(void)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "next", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
}

struct cancel_row {
    const char *name;
    Ipu__Rpc__JobState in;
    unsigned limit_ms;
};
static const struct cancel_row cancel_rows[] = {
    {"hang", IPU__RPC__JOB_STATE__JOB_COMPILING, 500},
    {"stubborn", IPU__RPC__JOB_STATE__JOB_COMPILING, 1500},
    {"runhang", IPU__RPC__JOB_STATE__JOB_RUNNING, 500},
    {"runstubborn", IPU__RPC__JOB_STATE__JOB_RUNNING, 1500},
};

START_TEST(work_in_progress_is_stopped)
{
    const struct cancel_row *row = &cancel_rows[_i];
    uint64_t job = fixture_detach(client, row->name, 1);
    fixture_await(client, job, row->in);
    uint64_t start = clock_ns();
    cancel(job);
    const Ipu__Rpc__JobStatus *status = fixture_follow(client, job);
    ck_assert_uint_lt((clock_ns() - start) / 1000000, row->limit_ms);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
    ck_assert_int_eq(status->code, IPU_ERR_CANCELLED);
    expect_works();
}
END_TEST

START_TEST(queued_job_leaves_at_once)
{
    fixture_await(client, fixture_detach(client, "hang", 1), IPU__RPC__JOB_STATE__JOB_COMPILING);
    (void)fixture_detach(client, "hang", 2);
    uint64_t job = fixture_detach(client, "plain", 3);
    ck_assert_int_eq(fixture_status(client, job)->state, IPU__RPC__JOB_STATE__JOB_QUEUED);
    ck_assert_uint_eq(fixture_status(client, job)->position, 2); /* one compile a user, of two */
    ck_assert_ptr_nonnull(strstr(fixture_status(client, job)->reason, "1 compiles at work"));
    uint64_t start = clock_ns();
    cancel(job);
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
    ck_assert_uint_lt(clock_ns() - start, 100000000u);
    cancel(1);
    cancel(2);
}
END_TEST

START_TEST(waiting_job_leaves_at_once)
{
    uint64_t first = fixture_detach(client, "runhang", 1);
    fixture_await(client, first, IPU__RPC__JOB_STATE__JOB_RUNNING);
    uint64_t job = fixture_detach(client, "plain", 3);
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_WAITING);
    ck_assert_uint_eq(fixture_status(client, job)->position, 1);
    ck_assert_str_eq(fixture_status(client, job)->reason, "waits for the device, which is running");
    cancel(job);
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
    cancel(first);
    ck_assert_uint_eq(fixture_count("run plain"), 0);
}
END_TEST

START_TEST(ended_job_cannot_be_cancelled)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(ipu_cancel(client, job, &status, &fx.error), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
}
END_TEST

START_TEST(cancelling_twice_is_harmless)
{
    uint64_t job = fixture_detach(client, "stubborn", 1);
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_COMPILING);
    cancel(job);
    cancel(job);
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
}
END_TEST

START_TEST(cancelled_owner_of_shared_work_leaves_it_to_the_other)
{
    uint64_t first = fixture_detach(client, "slow", 1), second = fixture_detach(client, "slow", 1);
    fixture_await(client, first, IPU__RPC__JOB_STATE__JOB_COMPILING);
    ck_assert_uint_eq(fixture_status(client, second)->shared_with, first);
    cancel(first);
    ck_assert_int_eq(fixture_follow(client, second)->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_int_eq(fixture_follow(client, first)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
    ck_assert_uint_eq(fixture_count("compile slow"), 1);
}
END_TEST

START_TEST(cancelled_sharer_does_not_stop_the_work)
{
    uint64_t first = fixture_detach(client, "slow", 1), second = fixture_detach(client, "slow", 1);
    cancel(second);
    ck_assert_int_eq(fixture_follow(client, first)->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ck_assert_int_eq(fixture_follow(client, second)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
}
END_TEST

static uint64_t attach(struct ipu_client *from, const char *name)
{
    struct buffer bytes = fixture_workload(name, 1, 0, NULL);
    struct ipu_submit submit = {.data = bytes.data, .size = bytes.size};
    uint64_t job = 0;
    ck_assert_int_eq(ipu_submit(from, &submit, &job, NULL, NULL, &fx.error), 0);
    buffer_free(&bytes);
    return job;
}

START_TEST(attached_job_ends_with_its_connection)
{
    uint64_t job = attach(other, "hang");
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_COMPILING);
    ipu_close(other);
    other = NULL;
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_CANCELLED);
}
END_TEST

START_TEST(attached_job_lives_while_another_reader_watches)
{
    uint64_t job = attach(other, "slow");
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_COMPILING);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t reader = fork(); /* watches until the end, and says how it went */
    if (reader == 0) {
        struct ipu_client *own = fixture_connect();
        char byte = 1;
        if (write(ends[1], &byte, 1) != 1)
            _exit(1);
        _exit(fixture_follow(own, job)->state == IPU__RPC__JOB_STATE__JOB_DONE ? 0 : 2);
    }
    char byte;
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    poll(NULL, 0, 50); /* the watch request is on its way: nothing tells when it has arrived */
    ipu_close(other);
    other = NULL;
    int status;
    ck_assert_int_eq(waitpid(reader, &status, 0), reader);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(detached_job_outlives_its_connection)
{
    uint64_t job = fixture_detach(other, "slow", 1);
    ipu_close(other);
    other = NULL;
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_DONE);
}
END_TEST

static int stop_reading(void *context, const Ipu__Rpc__Event *event)
{
    (void)context;
    return event->kind_case == IPU__RPC__EVENT__KIND_LOG ||
                   event->kind_case == IPU__RPC__EVENT__KIND_PROGRESS
               ? IPU_ERR_BUSY
               : 0;
}

START_TEST(reader_that_stops_can_go_on_where_it_was)
{
    uint64_t job = fixture_detach(client, "slow", 1), next;
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    const Ipu__Rpc__WatchEnd *end;
    watch.job = job;
    watch.follow = true;
    ck_assert_int_eq(ipu_watch(client, &watch, stop_reading, NULL, NULL, &next, &fx.error),
                     IPU_ERR_BUSY);
    ck_assert_int_eq(fixture_status(client, job)->state, IPU__RPC__JOB_STATE__JOB_COMPILING);
    watch.from = next;
    ck_assert_int_eq(ipu_watch(client, &watch, fixture_ignore, NULL, &end, &next, &fx.error), 0);
    ck_assert_int_eq(end->status->state, IPU__RPC__JOB_STATE__JOB_DONE);
}
END_TEST

START_TEST(wake_descriptor_ends_a_wait_and_keeps_the_connection)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    uint64_t job = fixture_detach(client, "hang", 1);
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    watch.job = job;
    watch.follow = true;
    ipu_set_wake_fd(client, ends[0]);
    ck_assert_int_eq(ipu_watch(client, &watch, fixture_ignore, NULL, NULL, NULL, &fx.error),
                     IPU_ERR_CANCELLED);
    ipu_set_wake_fd(client, -1);
    cancel(job);
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_CANCELLED);
}
END_TEST

int main(int argc, char **argv)
{
    int rc = fixture_dispatch(argc, argv);
    if (rc >= 0)
        return rc;
    Suite *suite = suite_create("daemon_cancel");
    TCase *tc = tcase_create("daemon_cancel");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 20);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, work_in_progress_is_stopped, 0,
                        sizeof cancel_rows / sizeof cancel_rows[0]);
    tcase_add_test(tc, queued_job_leaves_at_once);
    tcase_add_test(tc, waiting_job_leaves_at_once);
    tcase_add_test(tc, ended_job_cannot_be_cancelled);
    tcase_add_test(tc, cancelling_twice_is_harmless);
    tcase_add_test(tc, cancelled_owner_of_shared_work_leaves_it_to_the_other);
    tcase_add_test(tc, cancelled_sharer_does_not_stop_the_work);
    tcase_add_test(tc, attached_job_ends_with_its_connection);
    tcase_add_test(tc, attached_job_lives_while_another_reader_watches);
    tcase_add_test(tc, detached_job_outlives_its_connection);
    tcase_add_test(tc, reader_that_stops_can_go_on_where_it_was);
    tcase_add_test(tc, wake_descriptor_ends_a_wait_and_keeps_the_connection);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
