/* module: client */
/* A system call of the daemon, or of a worker, fails once: the daemon does not crash, every request
 * is answered or its connection closes, and what was acknowledged is finished, at the latest after
 * a restart. */
#undef _FORTIFY_SOURCE /* the calls are defined here */
#include "tests/unit/fault_io.h"

#include "tests/unit/daemon_fixture.h"

static bool long_run(void)
{
    const char *level = getenv("IPUD_TEST_LEVEL");
    return level && strcmp(level, "long") == 0;
}

/* Waits until the daemon serves (true) or has ended. */
static bool await_start(int *status)
{
    struct ipu_client *client;
    for (int i = 0; i < 4000; i++) {
        if (waitpid(fx.pid, status, WNOHANG) == fx.pid) {
            fx.pid = 0;
            return false;
        }
        if (ipu_connect(fx.socket, "test", &client, &fx.error) == 0) {
            ipu_close(client);
            return true;
        }
        poll(NULL, 0, 5);
    }
    ck_abort_msg("the daemon neither serves nor ends");
    return false;
}

static void expect_alive(const char *what)
{
    int status;
    pid_t ended = waitpid(fx.pid, &status, WNOHANG);
    ck_assert_msg(ended == 0, "%s: the daemon died with status %x", what, status);
}

/* One submission while the fault may strike; the job's number when it was acknowledged. */
static uint64_t submit_once(unsigned salt)
{
    struct ipu_client *client = NULL;
    uint64_t job = 0;
    const Ipu__Rpc__JobStatus *status;
    if (ipu_connect(fx.socket, "test", &client, &fx.error))
        return 0;
    ipu_set_timeout(client, 10000);
    int rc = fixture_run(client, "kernel", salt, NULL, NULL, &job, &status);
    ck_assert_msg(rc != IPU_ERR_TIMEOUT, "no answer: %s", fx.error.text);
    ck_assert(rc == 0 || fx.error.text[0]);
    if (rc == 0 && status->state != IPU__RPC__JOB_STATE__JOB_DONE)
        ck_assert_msg(status->reason[0] != '\0', "a job failed without a reason");
    ipu_close(client);
    return job;
}

/* After the fault: the same daemon, and after it another one, works as ever. */
static void expect_recovery(uint64_t job, unsigned salt)
{
    struct ipu_client *client = fixture_connect();
    uint64_t good;
    const Ipu__Rpc__JobStatus *status;
    if (job) {
        status = fixture_follow(client, job);
        ck_assert_int_ge(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
        ck_assert(status->state == IPU__RPC__JOB_STATE__JOB_DONE || status->reason[0]);
    }
    int rc = fixture_run(client, "kernel", salt, NULL, NULL, &good, &status);
    ck_assert_msg(rc == 0, "%s", fx.error.text);
    ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", status->reason);
    ipu_close(client);
}

struct row {
    const char *call, *role;
    int error, first, uses; /* the failing uses are first, first + 1, ... */
};

/* Uses before `first` belong to the loader and to main(); the end is where a submission is over. */
static const struct row rows[] = {
    {"read", "daemon", EIO, 1, 40},          {"read", "daemon", EINTR, 1, 40},
    {"write", "daemon", EIO, 1, 40},         {"write", "daemon", EINTR, 1, 40},
    {"write", "daemon", EPIPE, 1, 40},       {"write", "daemon", FAULT_SHORT, 1, 40},
    {"pwrite64", "daemon", EIO, 1, 160},     {"pwrite64", "daemon", ENOSPC, 1, 160},
    {"pread64", "daemon", EIO, 1, 20},       {"fdatasync", "daemon", EIO, 1, 16},
    {"ftruncate64", "daemon", ENOSPC, 1, 4}, {"mmap64", "daemon", ENOMEM, 1, 4},
    {"open64", "daemon", EMFILE, 1, 12},     {"open64", "daemon", EINTR, 1, 12},
    {"accept4", "daemon", EMFILE, 1, 6},     {"accept4", "daemon", ECONNABORTED, 1, 6},
    {"socketpair", "daemon", EMFILE, 1, 6},  {"mkdir", "daemon", EACCES, 1, 3},
    {"unlink", "daemon", EIO, 1, 3},         {"send", "compile", EPIPE, 1, 12},
    {"send", "compile", FAULT_SHORT, 1, 12}, {"send", "compile", EINTR, 1, 12},
    {"recv", "compile", ECONNRESET, 1, 8},   {"recv", "compile", EINTR, 1, 8},
    {"send", "device", EPIPE, 1, 12},        {"send", "device", FAULT_SHORT, 1, 12},
    {"recv", "device", ECONNRESET, 1, 8},    {"open64", "device", EACCES, 1, 4},
};

static void strike(const struct row *row, int nth)
{
    char text[96], what[96];
    int status = 0;
    snprintf(text, sizeof text, "%s %d %d %s", row->call, nth, row->error, row->role);
    snprintf(what, sizeof what, "%s: use %d of %s fails with %d", row->role, nth, row->call,
             row->error);
    fixture_make_dir();
    char once[96];
    snprintf(once, sizeof once, "%s/strike", fx.dir);
    setenv("FAULT_IO", text, 1);
    setenv("FAULT_ONCE", once, 1);
    fx.pid = fixture_spawn();
    unsetenv("FAULT_IO");
    uint64_t job = 0;
    if (await_start(&status)) {
        job = submit_once(1);
        for (unsigned i = 0; i < 4 && access(once, F_OK) != 0; i++)
            job = submit_once(10 + i); /* the fault waits for more uses */
        expect_alive(what);
    } else {
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%s: status %x", what, status);
        fixture_start();
    }
    expect_recovery(job, 2);
    expect_alive(what);
    status = fixture_end(SIGTERM);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: end %x", what, status);
    fixture_start();
    expect_recovery(job, 3);
    fixture_teardown();
}

START_TEST(one_failing_call_costs_at_most_one_request)
{
    const struct row *row = &rows[_i];
    int step = long_run() ? 1 : 1 + row->uses / 3;
    for (int nth = row->first + (long_run() ? 0 : _i % step); nth <= row->uses; nth += step)
        strike(row, nth);
}
END_TEST

int main(int argc, char **argv)
{
    fault_arm_from_environment(argc, argv);
    int code = fixture_dispatch(argc, argv);
    if (code >= 0)
        return code;
    Suite *suite = suite_create("daemon_io");
    TCase *tc = tcase_create("io");
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, one_failing_call_costs_at_most_one_request, 0,
                        sizeof rows / sizeof rows[0]);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
