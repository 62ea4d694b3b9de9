/* module: device/sim */
/* The quick part of `make fidelity`: rows and formulas of tests/fidelity against the simulator. */
#include "tests/fidelity/report.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ipu_error error;

START_TEST(quick_rows_and_formulas_meet_their_targets)
{
    struct report_options options = {.quick = true};
    struct report report;
    ck_assert_msg(report_run(&options, &report, &error) == 0, "%s", error.text);
    ck_assert_uint_ge(report.rows, 12);
    ck_assert_double_lt(report.median, 0.02);
    ck_assert_uint_eq(report.unexplained, 0);
    ck_assert_uint_eq(report.formulas_off, 0);
    ck_assert(report_passes(&report));
}
END_TEST

START_TEST(a_report_with_a_large_unexplained_error_does_not_pass)
{
    struct report good = {.rows = 3, .median = 0.01, .worst = 0.05, .formulas = 1};
    struct report median = good, row = good, formula = good, empty = {0};
    median.median = 0.02;
    row.unexplained = 1;
    formula.formulas_off = 1;
    ck_assert(report_passes(&good));
    ck_assert(!report_passes(&median));
    ck_assert(!report_passes(&row));
    ck_assert(!report_passes(&formula));
    ck_assert(!report_passes(&empty));
}
END_TEST

/* Every measurement has a program or a reason, once. */
START_TEST(every_measurement_is_in_the_table_once)
{
    enum { LAST = 480 };
    unsigned seen[LAST] = {0}, total = 0;
    const struct row *row;
    const struct skipped *skipped;
    for (size_t i = 0; (row = table_row(i)); i++, total++)
        seen[strtoul(row->id + 1, NULL, 10)]++;
    for (size_t i = 0; (skipped = table_skipped(i)); i++, total++)
        seen[strtoul(skipped->id + 1, NULL, 10)]++;
    for (unsigned i = 0; i < LAST; i++)
        ck_assert_msg(seen[i] <= 1, "M%03u stands twice", i);
    ck_assert_uint_eq(total, 320);
}
END_TEST

START_TEST(a_program_that_computes_something_else_fails)
{
    /* Ten words are no whole pairs of units for the sum: 20 elements leave four unsummed. */
    const uint32_t p[SUBJECT_PARAMETERS] = {20, 2};
    uint32_t cycles;
    ck_assert_int_eq(subject_find(SUBJECT_REDUCE)->measure(p, &cycles, &error),
                     IPU_ERR_CHECK_FAILED);
    ck_assert_ptr_nonnull(strstr(error.text, "reduce.S computed"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fidelity");
    TCase *test = tcase_create("fidelity");
    tcase_set_timeout(test, 120);
    tcase_add_test(test, quick_rows_and_formulas_meet_their_targets);
    tcase_add_test(test, a_report_with_a_large_unexplained_error_does_not_pass);
    tcase_add_test(test, every_measurement_is_in_the_table_once);
    tcase_add_test(test, a_program_that_computes_something_else_fails);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
