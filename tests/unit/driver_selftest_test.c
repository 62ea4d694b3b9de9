/* module: device/driver */
/* The self-test of a device: on a sound one every step passes, and every step can fail. */
#include "device/driver/selftest.h"

#include "device/driver/selftest_build.h"
#include "device/driver/selftest_programs.h"
#include "device/driver/session.h"

#include "sim_chip_support.h"

#include "base/alloc.h"

#include <stdio.h>

static const char *const names[] = {"open",        "reset",    "configuration", "load",
                                    "synchronise", "exchange", "kernel",        "host pages"};
enum { STEPS = 8 };

static struct ipu_error error;
static struct seen {
    unsigned count;
    enum selftest_outcome outcomes[STEPS];
    char details[STEPS][600];
    atomic_bool *cancel; /* set after step `cancel_after` */
    unsigned cancel_after;
} seen;

static void note(void *context, const struct selftest_step *step)
{
    ck_assert_ptr_eq(context, &seen);
    ck_assert_uint_eq(step->index, seen.count);
    ck_assert_uint_eq(step->count, STEPS);
    ck_assert_str_eq(step->name, names[step->index]);
    ck_assert_str_eq(step->name, selftest_step_name(step->index));
    ck_assert_ptr_nonnull(step->report);
    ck_assert(step->detail[0] != '\0');
    seen.outcomes[seen.count] = step->outcome;
    snprintf(seen.details[seen.count], sizeof seen.details[0], "%s", step->detail);
    seen.count++;
    if (seen.cancel && seen.count == seen.cancel_after)
        atomic_store(seen.cancel, true);
}

static int test(struct device_options options)
{
    seen.count = 0;
    options.threads = 1;
    options.strict = true;
    int code = device_selftest(&options, note, &seen, &error);
    ck_assert_uint_eq(seen.count, STEPS);
    return code;
}

/* The first `passed` steps passed, the next failed, the others were skipped. */
static void expect_failure_at(unsigned passed)
{
    for (unsigned i = 0; i < STEPS; i++)
        ck_assert_msg(seen.outcomes[i] == (i < passed    ? SELFTEST_PASSED
                                           : i == passed ? SELFTEST_FAILED
                                                         : SELFTEST_SKIPPED),
                      "step %s %s: %s", names[i], selftest_outcome_name(seen.outcomes[i]),
                      seen.details[i]);
}

START_TEST(every_step_passes_on_the_simulated_device)
{
    int code = test((struct device_options){.device = "sim"});
    for (unsigned i = 0; i < STEPS; i++)
        ck_assert_msg(seen.outcomes[i] == SELFTEST_PASSED, "%s: %s", names[i], seen.details[i]);
    ck_assert_int_eq(code, 0);
    ck_assert(strstr(seen.details[6], "AMP") != NULL);
    ck_assert_ptr_null(selftest_step_name(STEPS));
}
END_TEST

START_TEST(missing_card_fails_the_first_step_and_skips_the_rest)
{
    ck_assert_int_eq(test((struct device_options){.device = "/nowhere/ipu0"}), IPU_ERR_INVALID);
    expect_failure_at(0);
    ck_assert_str_eq(seen.details[1], "not tried: step \"open\" failed");
    ck_assert_str_eq(seen.details[7], "not tried: step \"open\" failed");
}
END_TEST

START_TEST(cancelled_test_ends)
{
    atomic_bool cancel = false;
    seen.cancel = &cancel;
    seen.cancel_after = 3;
    ck_assert_int_eq(test((struct device_options){.device = "sim", .cancel = &cancel}),
                     IPU_ERR_CANCELLED);
    expect_failure_at(3);
}
END_TEST

/* --- programs that meet a wrong word --- */

struct sabotage {
    int (*program)(struct package **out);
    unsigned tile;
    uint32_t address; /* of a word that is changed */
};

static int exchange_program(struct package **out)
{
    return selftest_program_exchange(1, out, &error);
}

static int kernel_program(struct package **out)
{
    bool amp;
    return selftest_program_kernel(1, out, &amp, &error);
}

static int plain_kernel_program(struct package **out)
{
    bool amp;
    int code = selftest_program_kernel(7, out, &amp, &error);
    ck_assert(!amp);
    return code;
}

/* A copy of the package, with one bit of one word of a tile's memory changed (tile < 0: none). */
static struct package *copy_package(const struct package *from, int tile, uint32_t address)
{
    size_t count;
    bool hit = tile < 0;
    struct package *p = package_create(), *read = NULL;
    struct buffer bytes = {0};
    package_set_info(p, package_get_info(from));
    const struct package_segment *s = package_segments(from, &count);
    for (size_t i = 0; i < count; i++) {
        uint8_t *data = malloc(s[i].size);
        memcpy(data, s[i].data, s[i].size);
        if ((int)s[i].tile == tile && address >= s[i].address &&
            address - s[i].address < s[i].size) {
            data[address - s[i].address] ^= 1;
            hit = true;
        }
        int blob = package_add_blob(p, data, s[i].size);
        package_add_segment(p, s[i].tile, s[i].address, blob, 0, s[i].size);
        free(data);
    }
    const struct package_row *rows = package_rows(from, &count);
    for (size_t i = 0; i < count; i++)
        package_add_row(p, rows[i].tile, rows[i].address, rows[i].bytes, rows[i].words);
    const struct package_symbol *symbols = package_symbols(from, &count);
    for (size_t i = 0; i < count; i++)
        package_add_symbol(p, symbols[i].name, symbols[i].address, symbols[i].size);
    ck_assert(hit);
    ck_assert_int_eq(package_write(p, &bytes, &error), 0);
    ck_assert_int_eq(package_read(bytes.data, bytes.size, &read, &error), 0);
    buffer_free(&bytes);
    package_destroy(p);
    return read;
}

static struct device_session *open_sim(void)
{
    struct device_options options = {.device = "sim", .threads = 1, .strict = true};
    struct device_session *session;
    ck_assert_msg(device_open(&options, &session, &error) == 0, "%s", error.text);
    return session;
}

static const struct sabotage sabotages[] = {
    {exchange_program, SELFTEST_SECOND, SELFTEST_EXPECTED},
    {exchange_program, SELFTEST_SECOND, SELFTEST_EXPECTED + 4 * 31},
    {exchange_program, SELFTEST_FIRST, SELFTEST_SOURCE + 4 * 7},
    {kernel_program, 0, SELFTEST_EXPECTED + 4 * 15},
    {kernel_program, 0, SELFTEST_SOURCE + 7},
    {plain_kernel_program, 0, SELFTEST_EXPECTED},
};

START_TEST(wrong_word_stops_the_program_at_mismatch)
{
    const struct sabotage *s = &sabotages[_i];
    struct package *whole, *copies[2];
    struct device_session *session = open_sim();
    ck_assert_msg(s->program(&whole) == 0, "%s", error.text);
    copies[0] = copy_package(whole, -1, 0);
    copies[1] = copy_package(whole, (int)s->tile, s->address);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_msg(session_load(session, copies[i], &error) == 0, "%s", error.text);
        int code = card_rendezvous(&session->card, CARD_GS2, 1, &error);
        if (i == 0)
            ck_assert_msg(code == 0, "%s", error.text);
        else
            ck_assert_int_eq(session_fail(session, code, "test", &error), IPU_ERR_DEVICE_FAULT);
    }
    ck_assert_msg(strstr(device_fault_report(session), " in mismatch+0x0") != NULL, "%s",
                  device_fault_report(session));
    device_close(session);
    package_destroy(whole);
    package_destroy(copies[0]);
    package_destroy(copies[1]);
}
END_TEST

START_TEST(programs_report_exhausted_memory)
{
    struct package *package = NULL;
    bool amp;
    int failures = 0;
    for (long calls = _i; calls < 4000; calls += 97) {
        ipu_alloc_fail_after(calls, 1);
        int code = selftest_program_kernel(1, &package, &amp, &error);
        ipu_alloc_fail_after(-1, 0);
        /* The package reader cannot tell a message that is damaged from one that does not fit. */
        ck_assert_msg(code == 0 || code == IPU_ERR_NO_MEMORY || code == IPU_ERR_CORRUPT, "%d %s",
                      code, error.text);
        ck_assert((package != NULL) == (code == 0));
        failures += code != 0;
        package_destroy(package);
        package = NULL;
    }
    ck_assert_int_gt(failures, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_selftest");
    TCase *t = tcase_create("selftest");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_step_passes_on_the_simulated_device);
    tcase_add_test(t, missing_card_fails_the_first_step_and_skips_the_rest);
    tcase_add_test(t, cancelled_test_ends);
    tcase_add_loop_test(t, wrong_word_stops_the_program_at_mismatch, 0,
                        sizeof sabotages / sizeof *sabotages);
    tcase_add_loop_test(t, programs_report_exhausted_memory, 0, 3);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
