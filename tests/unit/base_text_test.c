/* module: base */
/* Tests of error sentences, log lines and digests: what a user reads, and that nothing outgrows its
 * place. */
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ipu_error error;
static char seen[8][4096];
static unsigned seen_count;

static void keep_line(void *context, const struct log_record *record)
{
    (void)context;
    ck_assert_uint_lt(seen_count, 8);
    log_format(record, seen[seen_count++], sizeof seen[0]);
}

/* --- errors --- */

START_TEST(wrapping_puts_each_station_in_front)
{
    int code = ipu_error_set(&error, IPU_ERR_NO_FIT, "needs %d KiB, has %d KiB", 712, 611);
    ck_assert_int_eq(code, IPU_ERR_NO_FIT);
    ck_assert_int_eq(ipu_error_wrap(&error, "operation %d (%s): ", 3, "matmul"), IPU_ERR_NO_FIT);
    ck_assert_int_eq(ipu_error_wrap(&error, "plan: "), IPU_ERR_NO_FIT);
    ck_assert_str_eq(error.text, "plan: operation 3 (matmul): needs 712 KiB, has 611 KiB");
    ck_assert_int_eq(ipu_error_set(NULL, IPU_ERR_IO, "nobody reads this"), IPU_ERR_IO);
    ck_assert_int_eq(ipu_error_wrap(NULL, "nor this"), IPU_ERR_INTERNAL);
}
END_TEST

START_TEST(sentence_that_outgrows_its_place_is_cut_from_the_end)
{
    ipu_error_set(&error, IPU_ERR_LIMIT, "%2000d|", 1);
    ck_assert_uint_eq(strlen(error.text), IPU_ERROR_TEXT - 1);
    ipu_error_wrap(&error, "front: ");
    ck_assert_uint_eq(strlen(error.text), IPU_ERROR_TEXT - 1);
    ck_assert_int_eq(strncmp(error.text, "front: ", 7), 0);
    ipu_error_wrap(&error, "%2000d", 1);
    ck_assert_uint_eq(strlen(error.text), IPU_ERROR_TEXT - 1);
    ck_assert_int_eq(error.code, IPU_ERR_LIMIT);
}
END_TEST

/* Scripts depend on these numbers (README). */
START_TEST(each_code_has_its_name_text_and_exit_code)
{
    static const struct {
        int code, exit_code;
        const char *name;
    } rows[] = {{IPU_OK, 0, "OK"},
                {IPU_ERR_CHECK_FAILED, 1, "CHECK_FAILED"},
                {IPU_ERR_INVALID, 2, "INVALID"},
                {IPU_ERR_NO_FIT, 3, "NO_FIT"},
                {IPU_ERR_DEVICE_FAULT, 4, "DEVICE_FAULT"},
                {IPU_ERR_TIMEOUT, 4, "TIMEOUT"},
                {IPU_ERR_UNREACHABLE, 5, "UNREACHABLE"},
                {IPU_ERR_CANCELLED, 6, "CANCELLED"},
                {-12345, 3, "UNKNOWN"},
                {17, 3, "UNKNOWN"}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_str_eq(ipu_err_name(rows[i].code), rows[i].name);
        ck_assert_int_eq(ipu_err_exit_code(rows[i].code), rows[i].exit_code);
        ck_assert_uint_gt(strlen(ipu_err_text(rows[i].code)), 1);
    }
}
END_TEST

/* --- log --- */

START_TEST(record_becomes_one_line_with_time_level_phase_and_fields)
{
    char line[200];
    struct log_record record = {1788729198793271u, LOG_LEVEL_INFO, "lower_mid", "did it", "k=1"};
    int length = log_format(&record, line, sizeof line);
    ck_assert_str_eq(line, "2026-09-06T21:13:18.793271Z  INFO lower_mid did it k=1");
    ck_assert_int_eq(length, (int)strlen(line));
    record = (struct log_record){0, LOG_LEVEL_ERROR, "", "bare", ""};
    log_format(&record, line, sizeof line);
    ck_assert_str_eq(line, "1970-01-01T00:00:00.000000Z ERROR bare");
    ck_assert_int_eq(log_format(&record, line, 5), 38); /* as snprintf does */
    ck_assert_str_eq(line, "1970");
    ck_assert_str_eq(log_level_name((enum log_level)77), "INFO");
}
END_TEST

START_TEST(events_below_the_level_or_without_a_sink_are_dropped)
{
    struct log log = {keep_line, NULL, LOG_LEVEL_WARN};
    log_event(&log, LOG_LEVEL_INFO, "p", "quiet", "%s", "");
    log_event(&log, LOG_LEVEL_WARN, NULL, "loud", "n=%d", 4);
    struct log_record record = {0, LOG_LEVEL_DEBUG, "", "quiet", ""};
    log_write(&log, &record);
    record.level = LOG_LEVEL_ERROR;
    log_write(&log, &record);
    log_write(NULL, &record);
    log_event(NULL, LOG_LEVEL_ERROR, "p", "nobody", "%s", "");
    log_event(&(struct log){.level = LOG_LEVEL_DEBUG}, LOG_LEVEL_ERROR, "p", "nobody", "%s", "");
    ck_assert_uint_eq(seen_count, 2);
    ck_assert_str_eq(strchr(seen[0], 'Z'), "Z  WARN loud n=4");
}
END_TEST

START_TEST(phase_tells_its_name_time_and_success)
{
    struct log log = {keep_line, NULL, LOG_LEVEL_INFO};
    struct log_phase phase = log_phase_begin(&log, "place");
    uint64_t begun = clock_ns();
    while (clock_ns() - begun < 2000000)
        ;
    log_phase_end(&phase, 0);
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_ptr_nonnull(
        strstr(seen[0], " INFO place package build phase finished phase=\"place\" elapsed_ms="));
    ck_assert_ptr_null(strstr(seen[0], "elapsed_ms=0 "));
    ck_assert_ptr_nonnull(strstr(seen[0], " success=false"));
}
END_TEST

START_TEST(file_sink_writes_whole_lines_even_of_long_records)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    static char fields[6000];
    memset(fields, 'f', sizeof fields - 1);
    log_sink_file(file, &(struct log_record){0, LOG_LEVEL_INFO, "p", "long", fields});
    log_sink_file(file, &(struct log_record){0, LOG_LEVEL_INFO, "p", "short", ""});
    rewind(file);
    static char line[8192];
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    ck_assert_uint_eq(strlen(line), 4095); /* cut, and still one line */
    ck_assert_int_eq(line[4094], '\n');
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    ck_assert_str_eq(strchr(line, 'Z'), "Z  INFO p short\n");
    ck_assert_ptr_null(fgets(line, sizeof line, file));
    fclose(file);
}
END_TEST

/* --- digests: FIPS 180-4's own examples --- */

START_TEST(digests_are_those_of_the_standard)
{
    static const struct {
        const char *text, *digest;
    } rows[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
    for (unsigned i = 0; i < 3; i++) {
        struct hash whole, pieces, parsed;
        char text[HASH_TEXT];
        ck_assert(hash_bytes(rows[i].text, strlen(rows[i].text), &whole));
        hash_text(&whole, text);
        ck_assert_str_eq(text, rows[i].digest);
        struct hash_state *state = hash_begin();
        for (const char *c = rows[i].text; *c; c++)
            hash_update(state, c, 1);
        ck_assert(hash_finish(state, &pieces));
        ck_assert(hash_equal(&whole, &pieces));
        ck_assert(hash_parse(text, &parsed));
        ck_assert(hash_equal(&whole, &parsed));
    }
    struct hash none;
    ck_assert(!hash_finish(NULL, &none));
    hash_update(NULL, "x", 1);
}
END_TEST

START_TEST(text_that_is_no_digest_is_refused)
{
    char text[HASH_TEXT] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    struct hash hash;
    for (unsigned i = 0; i < 64; i++) {
        char kept = text[i];
        for (const char *bad = "gG/:`@ A"; *bad; bad++) {
            text[i] = *bad;
            ck_assert(!hash_parse(text, &hash));
        }
        text[i] = '\0';
        ck_assert(!hash_parse(text, &hash));
        text[i] = kept;
    }
    ck_assert(hash_parse(text, &hash));
    ck_assert(!hash_parse("", &hash));
}
END_TEST

START_TEST(table_hash_is_fnv_and_tells_neighbours_apart)
{
    ck_assert_uint_eq(hash64("", 0), 0xcbf29ce484222325u);
    ck_assert_uint_eq(hash64("a", 1), 0xaf63dc4c8601ec8cu); /* the author's test vectors */
    ck_assert_uint_eq(hash64("foobar", 6), 0x85944171f73967e8u);
    ck_assert_uint_ne(hash64_mix(1), hash64_mix(2));
    ck_assert_uint_eq(hash64_mix(0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base_text");
    TCase *tc = tcase_create("text");
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, wrapping_puts_each_station_in_front);
    tcase_add_test(tc, sentence_that_outgrows_its_place_is_cut_from_the_end);
    tcase_add_test(tc, each_code_has_its_name_text_and_exit_code);
    tcase_add_test(tc, record_becomes_one_line_with_time_level_phase_and_fields);
    tcase_add_test(tc, events_below_the_level_or_without_a_sink_are_dropped);
    tcase_add_test(tc, phase_tells_its_name_time_and_success);
    tcase_add_test(tc, file_sink_writes_whole_lines_even_of_long_records);
    tcase_add_test(tc, digests_are_those_of_the_standard);
    tcase_add_test(tc, text_that_is_no_digest_is_refused);
    tcase_add_test(tc, table_hash_is_fnv_and_tells_neighbours_apart);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
