/* module: device/driver */
/* The driver on a device node: everything from open() to a result goes through the code that a card
 * would see, and every way in which a card can fail ends in one sentence. */
#include "device/driver/configuration.h"
#include "device/driver/driver.h"
#include "device/driver/selftest.h"

#include "driver_package.h"
#include "kernel_linux_board.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <stdio.h>

static struct device_session *session;
static struct package *package;
static char configuration_path[64];
static struct device_options options;

static void setup(void)
{
    struct buffer file = {0};
    node_setup();
    fill_inputs();
    session = NULL;
    package = NULL;
    error = (struct ipu_error){0};
    snprintf(configuration_path, sizeof configuration_path, "/tmp/kernel-linux-%d.ipucfg",
             (int)getpid());
    configuration_append_sim(&file);
    ck_assert_int_eq(buffer_write_file(configuration_path, file.data, file.size), 0);
    buffer_free(&file);
    options = (struct device_options){
        .device = FAKE_NODE, .configuration = configuration_path, .flag_set = 1};
}

static void teardown(void)
{
    device_close(session);
    package_destroy(package);
    unlink(configuration_path);
    node_teardown();
}

static struct package *read_built(enum mode mode)
{
    struct buffer file = build(mode);
    struct package *read = NULL;
    ck_assert_msg(package_read(file.data, file.size, &read, &error) == 0, "%s", error.text);
    buffer_free(&file);
    return read;
}

/* Opens, loads and runs; the first code that is not 0. */
static int run_all(enum mode mode, struct device_summary *summary)
{
    package = read_built(mode);
    int code = device_open(&options, &session, &error);
    if (code == 0)
        code = device_load(session, package, &error);
    return code == 0 ? device_run(session, summary, &error) : code;
}

static void expect_text(const char *part)
{
    ck_assert_msg(strstr(error.text, part) != NULL, "\"%s\" is not in: %s", part, error.text);
}

/* --- what works --- */

START_TEST(package_gives_the_bytes_and_cycles_of_the_simulated_device)
{
    struct device_options plain = {.device = "sim", .threads = 1};
    struct device_summary here, there;
    struct device_session *other = NULL;
    size_t size, words, other_words;
    ck_assert_msg(run_all(FINE, &here) == 0, "%s\n%s", error.text,
                  session ? device_fault_report(session) : "");
    ck_assert_int_eq(device_open(&plain, &other, &error), 0);
    ck_assert_int_eq(device_load(other, package, &error), 0);
    ck_assert_int_eq(device_run(other, &there, &error), 0);
    const uint8_t *bytes = device_output(session, "y", &size);
    expect_y(bytes, size, x);
    ck_assert_mem_eq(bytes, device_output(other, "y", &size), size);
    ck_assert_uint_eq(here.cycles, there.cycles);
    ck_assert_uint_eq(here.minimum_cycles, there.minimum_cycles);
    const uint32_t *samples = device_samples(session, SECOND, &words);
    const uint32_t *other_samples = device_samples(other, SECOND, &other_words);
    ck_assert_uint_eq(words, other_words);
    ck_assert_uint_eq(samples[1] - samples[0], other_samples[1] - other_samples[0]);
    ck_assert_uint_gt(node.loads, 100);
    ck_assert_uint_gt(node.stores, 2000);
    ck_assert_uint_eq(here.bundles, 0); /* only a simulated device counts them */
    device_close(other);
}
END_TEST

static void count_step(void *context, const struct selftest_step *step)
{
    ck_assert_msg(step->outcome == SELFTEST_PASSED, "%s: %s\n%s", step->name, step->detail,
                  step->report);
    ++*(unsigned *)context;
}

START_TEST(self_test_passes)
{
    unsigned steps = 0;
    ck_assert_msg(device_selftest(&options, count_step, &steps, &error) == 0, "%s", error.text);
    ck_assert_uint_eq(steps, 8);
}
END_TEST

START_TEST(interrupted_ioctls_are_repeated)
{
    struct device_summary summary;
    node.ioctl_request = IPU21_HOST_BUFFER_ATTACH;
    node.ioctl_error = EINTR;
    node.limited = true;
    node.ioctl_failures = 3;
    ck_assert_msg(run_all(FINE, &summary) == 0, "%s", error.text);
    ck_assert_uint_eq(node.ioctl_failures, 0);
}
END_TEST

/* facts/driver.md section 1: by default each of these would end the process. */
START_TEST(signals_do_not_disturb_an_open_device)
{
    static const int signals[] = {44, 45, 46, 47, 48, 49, SIGUSR1, SIGTERM, SIGINT, SIGALRM};
    struct device_summary summary;
    sigset_t before, after, pending;
    struct sigaction action;
    sigprocmask(SIG_SETMASK, NULL, &before);
    node.signal = signals[_i];
    ck_assert_msg(run_all(FINE, &summary) == 0, "%s", error.text);
    node.signal = 0;
    size_t size;
    const uint8_t *bytes = device_output(session, "y", &size);
    expect_y(bytes, size, x);
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, signals[_i]), 1);
    if (signals[_i] < 44) /* such a signal is not lost: it comes when the device is closed */
        signal(signals[_i], SIG_IGN);
    device_close(session);
    session = NULL;
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 64; s++)
        ck_assert_int_eq(sigismember(&before, s), sigismember(&after, s));
    for (int s = 44; s <= 49; s++) {
        sigaction(s, NULL, &action);
        ck_assert(action.sa_handler == SIG_DFL);
    }
}
END_TEST

/* --- opening --- */

static const struct {
    int open_error, map_error, code;
    const char *text;
} openings[] = {
    {ENOENT, 0, IPU_ERR_NOT_FOUND, FAKE_NODE ": no device"},
    {ENXIO, 0, IPU_ERR_NOT_FOUND, "kernel module"},
    {EACCES, 0, IPU_ERR_IO, FAKE_NODE ": permission denied; join the group"},
    {EBUSY, 0, IPU_ERR_BUSY, FAKE_NODE " is busy: another process"},
    {EMFILE, 0, IPU_ERR_IO, FAKE_NODE ": cannot be opened: Too many open files"},
    {0, ENOMEM, IPU_ERR_IO, FAKE_NODE ": its registers cannot be mapped: Cannot allocate"},
};

START_TEST(failing_to_open_is_explained)
{
    node.open_error = openings[_i].open_error;
    node.map_error = openings[_i].map_error;
    ck_assert_int_eq(device_open(&options, &session, &error), openings[_i].code);
    ck_assert_ptr_null(session);
    expect_text(openings[_i].text);
    ck_assert_int_eq(node.fd, -1);
}
END_TEST

START_TEST(regular_file_is_no_device)
{
    options.device = configuration_path;
    ck_assert_int_eq(device_open(&options, &session, &error), IPU_ERR_INVALID);
    expect_text("is no device node");
}
END_TEST

/* --- ioctls --- */

static const struct {
    uint32_t request;
    const char *name;
} ioctls[] = {
    {IPU21_HOST_USER_ATTACH, "USER_ATTACH"},
    {IPU21_HOST_SET_IPU_ID, "SET_IPU_ID"},
    {IPU21_HOST_STOP_MONITORING, "STOP_MONITORING"},
    {IPU21_HOST_MAILBOX, "MAILBOX"},
    {IPU21_HOST_START_MONITORING, "START_MONITORING"},
    {IPU21_HOST_ACCUMULATE_ERRORS, "ACCUMULATE_ERRORS"},
    {IPU21_HOST_RESET_NOTIFY, "ioctl RESET"},
    {IPU21_HOST_SET_SECONDARY_ID, "SET_SECONDARY_IPU_ID"},
    {IPU21_HOST_HEXOPT_IDENTITY, "SET_HEXOPT_IDENTITY_TABLE"},
    {IPU21_HOST_BUFFER_DETACH_ALL, "BUFFER_DETACH_ALL"},
    {IPU21_HOST_BUFFER_ATTACH, "BUFFER_ATTACH"},
};

START_TEST(every_ioctl_that_fails_is_named)
{
    struct device_summary summary;
    node.ioctl_request = ioctls[_i].request;
    node.ioctl_error = EIO;
    ck_assert_int_eq(run_all(FINE, &summary), IPU_ERR_DEVICE_FAULT);
    expect_text(ioctls[_i].name);
    expect_text("Input/output error");
}
END_TEST

static const struct {
    int error, code;
    const char *text;
} refusals[] = {
    {EBUSY, IPU_ERR_BUSY, "another process has attached"},
    {ENODEV, IPU_ERR_DEVICE_FAULT, "has gone"},
    {ENOMEM, IPU_ERR_NO_MEMORY, "locked memory"},
    {ENOTTY, IPU_ERR_UNSUPPORTED, "kernel module is of another version"},
};

START_TEST(refused_attach_says_what_to_do)
{
    node.ioctl_request = IPU21_HOST_USER_ATTACH;
    node.ioctl_error = refusals[_i].error;
    ck_assert_int_eq(device_open(&options, &session, &error), refusals[_i].code);
    expect_text(refusals[_i].text);
}
END_TEST

START_TEST(controller_that_refuses_the_reset_is_a_fault)
{
    sim_board_fail(node.board, SIM_BOARD_MAIL_REFUSED, 0);
    ck_assert_int_eq(device_open(&options, &session, &error), IPU_ERR_DEVICE_FAULT);
    expect_text("answered the reset request 0x4078020e with 0x00000000");
}
END_TEST

/* --- a device that hangs or goes --- */

START_TEST(stuck_autoloader_times_out)
{
    struct device_summary summary;
    uint64_t begin = clock_ns();
    sim_board_fail(node.board, SIM_BOARD_LOADER_STUCK, (unsigned)_i);
    ck_assert_int_eq(run_all(FINE, &summary), IPU_ERR_TIMEOUT);
    expect_text(_i == 0 ? "filling the first tile in 2000 ms" : "filling the other tiles");
    ck_assert_uint_ge(clock_ns() - begin, UINT64_C(2000000000));
    ck_assert_uint_lt(node.slept_ns, UINT64_C(3000000000));
}
END_TEST

/* Mark 0 to 22: batches; 23 execute; 24 final; 25 announces, 26 starts the session. */
START_TEST(mark_that_never_clears_is_reported)
{
    static const struct {
        unsigned mark;
        const char *text, *report;
    } cases[] = {
        {0, "batch 0 of 23", "mark GS1 (0x302c): last set to 1, should read 0, reads 1"},
        {22, "batch 22 of 23", "mark GS1 (0x302c): last set to 1, should read 0, reads 1"},
        {23, "starting the application", "GS1 (0x302c): last set to 1, should read 0, reads 1"},
        {24, "first synchronisation", "GS1 (0x302c): last set to 23, should read 0, reads 23"},
        {26, "starting the host exchange session", "GS2 (0x3030): last set to 1"},
    };
    struct device_summary summary;
    uint64_t begin = clock_ns();
    sim_board_fail(node.board, SIM_BOARD_MARK_STUCK, cases[_i].mark);
    ck_assert_int_eq(run_all(FINE, &summary), IPU_ERR_TIMEOUT);
    expect_text(cases[_i].text);
    expect_text("in 10000 ms: mark GS");
    const char *report = device_fault_report(session);
    ck_assert_msg(strstr(report, cases[_i].report) != NULL, "%s", report);
    ck_assert_uint_ge(clock_ns() - begin, UINT64_C(10000000000));
    ck_assert_uint_lt(node.slept_ns, UINT64_C(11000000000));
}
END_TEST

START_TEST(stopped_tile_is_explained_by_the_debug_interface)
{
    struct device_summary summary;
    ck_assert_int_eq(run_all(TRAPS, &summary), IPU_ERR_DEVICE_FAULT);
    expect_text("call \"run\", host phase");
    expect_text("tile 100, supervisor: trap instruction (patched breakpoint 0) (PBRK0) at pc 0x4c");
    const char *report = device_fault_report(session);
    ck_assert(strstr(report, "1 contexts of 1 tiles stopped") != NULL);
    ck_assert(strstr(report, "tile 100 (physical 260), supervisor\n") != NULL);
    ck_assert(strstr(report, " in program+0x") != NULL);
    ck_assert(strstr(report, "  trap ") != NULL);
    ck_assert(strstr(report, "$m15=0x0") != NULL);
    ck_assert_ptr_null(strstr(report, "simulator"));
}
END_TEST

/* The device goes while it is used: at the first use, and at tenths of those of a whole run. */
START_TEST(unplugged_device_ends_in_an_error_wherever_it_happens)
{
    struct device_summary summary;
    ck_assert_msg(run_all(FINE, &summary) == 0, "%s", error.text);
    unsigned uses = node.loads + node.stores + node.ioctls;
    teardown();
    setup();
    sim_board_fail(node.board, SIM_BOARD_UNPLUG, uses / 10 * (unsigned)_i);
    ck_assert_msg(run_all(FINE, &summary) == IPU_ERR_DEVICE_FAULT, "%s", error.text);
    expect_text("has gone");
    ck_assert_uint_lt(node.slept_ns, UINT64_C(2000000000));
}
END_TEST

START_TEST(exhausted_memory_closes_the_node)
{
    ipu_alloc_fail_after(_i, 1);
    int code = device_open(&options, &session, &error);
    ipu_alloc_fail_after(-1, 0);
    if (code == 0)
        return;
    ck_assert_ptr_null(session);
    ck_assert_int_eq(node.fd, -1);
}
END_TEST

static void add_loops(TCase *t)
{
    tcase_add_loop_test(t, signals_do_not_disturb_an_open_device, 0, 10);
    tcase_add_loop_test(t, failing_to_open_is_explained, 0, 6);
    tcase_add_loop_test(t, every_ioctl_that_fails_is_named, 0, sizeof ioctls / sizeof *ioctls);
    tcase_add_loop_test(t, refused_attach_says_what_to_do, 0, 4);
    tcase_add_loop_test(t, stuck_autoloader_times_out, 0, 2);
    tcase_add_loop_test(t, mark_that_never_clears_is_reported, 0, 5);
    tcase_add_loop_test(t, unplugged_device_ends_in_an_error_wherever_it_happens, 0, 10);
    tcase_add_loop_test(t, exhausted_memory_closes_the_node, 0, 8);
}

int main(void)
{
    Suite *suite = suite_create("kernel_linux");
    TCase *t = tcase_create("node");
    if (!FAKE_SUPPORTED) {
        puts("kernel_linux: skipped, register accesses are only decoded on x86-64");
        return 0;
    }
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, package_gives_the_bytes_and_cycles_of_the_simulated_device);
    tcase_add_test(t, self_test_passes);
    tcase_add_test(t, interrupted_ioctls_are_repeated);
    tcase_add_test(t, regular_file_is_no_device);
    tcase_add_test(t, controller_that_refuses_the_reset_is_a_fault);
    tcase_add_test(t, stopped_tile_is_explained_by_the_debug_interface);
    add_loops(t);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
