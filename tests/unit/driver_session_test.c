/* module: device/driver */
/* Everything a session promises, with a package made by hand (driver_package.h). */
#include "device/driver/driver.h"
#include "device/driver/profile.h"
#include "proto/profile.pb-c.h"

#include "driver_package.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>

static struct package *package;
static struct device_session *session;

/* --- fixture --- */

static char log_text[16384];

static void keep_log(void *context, const struct log_record *record)
{
    (void)context;
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s %s\n", record->message, record->fields);
}

static struct log sink = {.sink = keep_log, .level = LOG_LEVEL_INFO};
static atomic_bool cancel;

static void open_session(struct device_options options)
{
    options.log = &sink;
    options.cancel = &cancel;
    options.threads = options.threads ? options.threads : 1;
    options.strict = true;
    ck_assert_msg(device_open(&options, &session, &error) == 0, "%s", error.text);
}

static void setup(void)
{
    fill_inputs();
    atomic_store(&cancel, false);
    log_text[0] = '\0';
    session = NULL;
    package = NULL;
}

static void teardown(void)
{
    device_close(session);
    package_destroy(package);
}

static struct package *read_built(enum mode mode)
{
    struct buffer file = build(mode);
    struct package *read = NULL;
    ck_assert_msg(package_read(file.data, file.size, &read, &error) == 0, "%s", error.text);
    buffer_free(&file);
    return read;
}

static void load(enum mode mode)
{
    package_destroy(package);
    package = read_built(mode);
    ck_assert_msg(device_load(session, package, &error) == 0, "%s\n%s", error.text,
                  device_fault_report(session));
}

static void expect_result(const uint32_t *input)
{
    size_t size;
    const uint8_t *bytes = device_output(session, "y", &size);
    ck_assert_ptr_nonnull(bytes);
    expect_y(bytes, size, input);
}

static void run_fine(struct device_summary *summary)
{
    ck_assert_msg(device_run(session, summary, &error) == 0, "%s\n%s", error.text,
                  device_fault_report(session));
}

/* --- what works --- */

START_TEST(run_returns_what_the_tiles_made_of_the_input)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    expect_result(x);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(cycles_come_from_the_tiles_samples)
{
    struct device_summary summary;
    size_t words;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    const uint32_t *first = device_samples(session, FIRST, &words);
    ck_assert_uint_eq(words, 2);
    const uint32_t *second = device_samples(session, SECOND, &words);
    ck_assert_uint_eq(summary.cycles, first[1] - first[0]);
    ck_assert_uint_eq(summary.minimum_cycles, second[1] - second[0]);
    ck_assert_uint_eq(summary.cycles - summary.minimum_cycles, 200);
    ck_assert_uint_eq(summary.samples, 2);
    ck_assert_uint_gt(summary.bundles, 2 * 5 * 2048);
    ck_assert_ptr_null(device_samples(session, 5, &words));
}
END_TEST

START_TEST(set_input_replaces_and_null_restores)
{
    struct device_summary summary;
    static uint32_t other[2 * WORDS];
    for (uint32_t i = 0; i < 2 * WORDS; i++)
        other[i] = 77 * i;
    other[2 * WORDS - 1] = other[WORDS - 1];
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    ck_assert_int_eq(device_set_input(session, "x", other, sizeof other, &error), 0);
    run_fine(&summary);
    expect_result(other);
    ck_assert_int_eq(device_set_input(session, "x", NULL, 0, &error), 0);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(wrong_inputs_are_refused)
{
    open_session((struct device_options){.device = "sim"});
    ck_assert_int_eq(device_set_input(session, "x", x, sizeof x, &error), IPU_ERR_INVALID);
    load(FINE);
    ck_assert_int_eq(device_set_input(session, "x", x, 8, &error), IPU_ERR_INVALID);
    ck_assert(strstr(error.text, "12000 bytes, not 8") != NULL);
    ck_assert_int_eq(device_set_input(session, "w", w, sizeof w, &error), IPU_ERR_NOT_FOUND);
    ck_assert_int_eq(device_set_input(session, "z", w, sizeof w, &error), IPU_ERR_NOT_FOUND);
}
END_TEST

START_TEST(events_are_logged_in_order)
{
    static const char *const events[] = {
        "opening IPU device path=\"sim\"",
        "IPU device attached path=sim",
        "initializing IPU device",
        "replaying device configuration register_writes=1496",
        "IPU device initialized",
        "loading application tile_count=1472 final_mark=23",
        "application loaded and initial synchronization completed tile_count=1472",
        "starting host exchange session startup_mark=23",
        "attaching host exchange pages pages=2",
        "host exchange session started",
        "invoking streaming host exchange call call=\"initialize\" command=0 phases=2",
        "invoking streaming host exchange call call=\"run\" command=0 phases=7"};
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    const char *at = log_text;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        const char *found = strstr(at, events[i]);
        ck_assert_msg(found != NULL, "\"%s\" is missing or out of order in:\n%s", events[i],
                      log_text);
        at = found + strlen(events[i]);
    }
}
END_TEST

START_TEST(resident_package_is_not_loaded_again)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    log_text[0] = '\0';
    load(FINE); /* another object, the same bytes */
    ck_assert_ptr_null(strstr(log_text, "loading application"));
    run_fine(&summary);
    expect_result(x);
    ck_assert(summary.load_ms == 0);
}
END_TEST

START_TEST(other_package_is_loaded)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    w[0] = 5;
    load(FINE);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(threads_change_neither_results_nor_cycles)
{
    struct device_summary one, two;
    open_session((struct device_options){.device = "sim", .threads = 1});
    load(FINE);
    run_fine(&one);
    device_close(session);
    open_session((struct device_options){.device = "sim", .threads = 3});
    load(FINE);
    run_fine(&two);
    expect_result(x);
    ck_assert_uint_eq(one.cycles, two.cycles);
    ck_assert_uint_eq(one.bundles, two.bundles);
}
END_TEST

static void expect_profile(const struct buffer *bytes, const struct device_summary *summary)
{
    Ipu__Profile__Profile *p = ipu__profile__profile__unpack(NULL, bytes->size, bytes->data);
    ck_assert_ptr_nonnull(p);
    ck_assert_str_eq(p->workload, "by-hand");
    ck_assert_str_eq(p->device, "sim");
    ck_assert_mem_eq(p->package.data, package_digest(package)->bytes, HASH_BYTES);
    ck_assert_uint_eq(p->cycles, summary->cycles);
    ck_assert_uint_eq(p->n_steps, 1);
    ck_assert_uint_eq(p->n_lists, 1);
    ck_assert_uint_eq(p->n_tiles, 2);
    ck_assert_uint_eq(p->tiles[1]->tile, SECOND);
    ck_assert_uint_eq(p->tiles[1]->physical, 260);
    ck_assert_uint_eq(p->tiles[0]->cycles[0], summary->cycles);
    ck_assert_uint_eq(p->tiles[1]->cycles[0], summary->minimum_cycles);
    ipu__profile__profile__free_unpacked(p, NULL);
}

START_TEST(profile_joins_steps_and_samples)
{
    struct device_summary summary = {0};
    struct buffer bytes = {0};
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    ck_assert_int_eq(profile_build(session, package, &summary, &bytes, &error), IPU_ERR_INVALID);
    run_fine(&summary);
    ck_assert_int_eq(profile_build(session, package, &summary, &bytes, &error), 0);
    expect_profile(&bytes, &summary);
    buffer_free(&bytes);
}
END_TEST

/* --- what fails --- */

static void expect_refused(struct device_options options, int code, const char *part)
{
    ck_assert_int_eq(device_open(&options, &session, &error), code);
    ck_assert_ptr_null(session);
    ck_assert_msg(strstr(error.text, part) != NULL, "%s", error.text);
}

START_TEST(card_without_a_configuration_is_refused)
{
    expect_refused((struct device_options){.device = "/dev/ipu0"}, IPU_ERR_INVALID,
                   "needs a configuration file");
}
END_TEST

START_TEST(device_that_is_no_path_is_refused)
{
    expect_refused((struct device_options){.device = "card", .configuration = "/nowhere/x"},
                   IPU_ERR_NOT_FOUND, "/nowhere/x");
    expect_refused((struct device_options){.device = "ipu0"}, IPU_ERR_INVALID,
                   "give \"sim\" or the path of a device node");
}
END_TEST

START_TEST(missing_files_of_the_device_are_named)
{
    expect_refused((struct device_options){.device = "sim", .configuration = "/nowhere/x"},
                   IPU_ERR_NOT_FOUND, "device configuration /nowhere/x");
    expect_refused((struct device_options){.device = "sim", .loader = "/nowhere/y"},
                   IPU_ERR_NOT_FOUND, "secondary loader /nowhere/y");
}
END_TEST

START_TEST(run_without_a_package_is_refused)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_INVALID);
}
END_TEST

START_TEST(fault_is_reported_and_the_next_load_recovers)
{
    struct device_summary summary;
    size_t size;
    open_session((struct device_options){.device = "sim"});
    load(TRAPS);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert(strstr(error.text, "running the application: call \"run\", host phase") != NULL);
    const char *report = device_fault_report(session);
    ck_assert(strstr(report, "tile 100 (physical 260), supervisor\n") != NULL);
    ck_assert(strstr(report, " in program+0x") != NULL);
    ck_assert(strstr(report, "trap") != NULL);
    ck_assert(strstr(report, "exception 2 (PBRK0): trap instruction") != NULL);
    ck_assert(strstr(report, "\n  -> 0x4c") != NULL);
    ck_assert(strstr(report, " $m15=0x0\n") != NULL);
    ck_assert(strstr(report, ", cycle ") != NULL);
    ck_assert_ptr_null(device_output(session, "y", &size));
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_INVALID);
    load(FINE);
    ck_assert_str_eq(device_fault_report(session), "");
    run_fine(&summary);
    expect_result(x);
}
END_TEST

/* The daemon's limit is that of a whole job: minutes, in which a call runs out of cycles. */
START_TEST(fault_is_named_whatever_the_limit)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim", .timeout_ms = 600000});
    load(TRAPS);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert_msg(strstr(error.text, "PBRK0 in tile 100, supervisor") != NULL, "%s", error.text);
}
END_TEST

START_TEST(faulted_package_is_loaded_again)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(TRAPS);
    ck_assert_int_ne(device_run(session, &summary, &error), 0);
    log_text[0] = '\0';
    load(TRAPS);
    ck_assert(strstr(log_text, "loading application") != NULL);
}
END_TEST

START_TEST(differing_copies_name_tensor_element_and_tiles)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(WRONG_REPLICA);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert_msg(strstr(error.text, "output y: element [1499] from tile 100 is not the same bits "
                                     "as from tile 0") != NULL,
                  "%s", error.text);
}
END_TEST

/* Tiles that do not write their second page must not return what lay there before. */
START_TEST(unwritten_page_is_not_taken_for_output)
{
    struct device_summary summary;
    size_t size;
    open_session((struct device_options){.device = "sim"});
    load(SILENT);
    run_fine(&summary);
    const uint8_t *bytes = device_output(session, "y", &size);
    ck_assert_uint_eq(bytes[4 * (1024 - 1)], (uint8_t)x[1023]);
    for (uint32_t i = 1024; i < WORDS; i++)
        ck_assert_uint_eq(bytes[4 * i], 0xa5);
}
END_TEST

START_TEST(call_beyond_the_cycle_limit_faults)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim", .cycle_limit = 3000000});
    load(LOOPS);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert_msg(strstr(error.text, "more than 3000000 cycles") != NULL, "%s", error.text);
    ck_assert(strstr(device_fault_report(session), "1 tile (100) running") != NULL);
}
END_TEST

START_TEST(phase_beyond_the_timeout_ends)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim", .timeout_ms = 200});
    load(LOOPS);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.text, "in 200 ms") != NULL, "%s", error.text);
}
END_TEST

static void *raise_cancel(void *argument)
{
    atomic_store(&cancel, true);
    return argument;
}

START_TEST(cancel_ends_a_run_and_the_session_recovers)
{
    struct device_summary summary;
    pthread_t thread;
    open_session((struct device_options){.device = "sim", .timeout_ms = 60000});
    load(LOOPS);
    ck_assert_int_eq(pthread_create(&thread, NULL, raise_cancel, NULL), 0);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_CANCELLED);
    pthread_join(thread, NULL);
    atomic_store(&cancel, false);
    load(FINE);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(exhausted_memory_is_an_error)
{
    struct device_options options = {.device = "sim", .threads = 1};
    long calls = _i;
    package = read_built(FINE);
    ipu_alloc_fail_after(calls, 1);
    int code = device_open(&options, &session, &error);
    if (code == 0)
        code = device_load(session, package, &error);
    ipu_alloc_fail_after(-1, 0);
    ck_assert_int_eq(code, IPU_ERR_NO_MEMORY);
}
END_TEST

static Suite *driver_suite(void)
{
    Suite *suite = suite_create("driver_session");
    TCase *works = tcase_create("works");
    tcase_add_checked_fixture(works, setup, teardown);
    tcase_set_timeout(works, 60);
    tcase_add_test(works, run_returns_what_the_tiles_made_of_the_input);
    tcase_add_test(works, cycles_come_from_the_tiles_samples);
    tcase_add_test(works, set_input_replaces_and_null_restores);
    tcase_add_test(works, wrong_inputs_are_refused);
    tcase_add_test(works, events_are_logged_in_order);
    tcase_add_test(works, resident_package_is_not_loaded_again);
    tcase_add_test(works, other_package_is_loaded);
    tcase_add_test(works, threads_change_neither_results_nor_cycles);
    tcase_add_test(works, profile_joins_steps_and_samples);
    suite_add_tcase(suite, works);

    TCase *fails = tcase_create("fails");
    tcase_add_checked_fixture(fails, setup, teardown);
    tcase_set_timeout(fails, 60);
    tcase_add_test(fails, card_without_a_configuration_is_refused);
    tcase_add_test(fails, device_that_is_no_path_is_refused);
    tcase_add_test(fails, missing_files_of_the_device_are_named);
    tcase_add_test(fails, run_without_a_package_is_refused);
    tcase_add_test(fails, fault_is_reported_and_the_next_load_recovers);
    tcase_add_test(fails, fault_is_named_whatever_the_limit);
    tcase_add_test(fails, faulted_package_is_loaded_again);
    tcase_add_test(fails, differing_copies_name_tensor_element_and_tiles);
    tcase_add_test(fails, unwritten_page_is_not_taken_for_output);
    tcase_add_test(fails, call_beyond_the_cycle_limit_faults);
    tcase_add_test(fails, phase_beyond_the_timeout_ends);
    tcase_add_test(fails, cancel_ends_a_run_and_the_session_recovers);
    tcase_add_loop_test(fails, exhausted_memory_is_an_error, 0, 8);
    suite_add_tcase(suite, fails);
    return suite;
}

int main(void)
{
    return run_suite(driver_suite());
}
