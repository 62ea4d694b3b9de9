/* module: device/kernels */
/* Flag sets: what is read out of a tile header, how sets are told apart, what kernels do with them.
 */
#include "device/kernels/flag_set.h"
#include "device/kernels/kernels.h"

#include "flag_headers.h"

#include "base/alloc.h"
#include "device/ipu21/flags.h"

static const struct kernel_spec gemm = {KERNEL_GEMM_F16, {1, 64, 32, 1, 2}};
static struct ipu_error error;

static struct flag_set *read_set(void)
{
    struct flag_set *set = NULL;
    ck_assert_msg(flag_set_read(header_folder, &set, &error) == 0, "%s", error.text);
    ck_assert_ptr_nonnull(set);
    return set;
}

static void expect_refused(int code, const char *part)
{
    struct flag_set *set = NULL;
    ck_assert_int_eq(flag_set_read(header_folder, &set, &error), code);
    ck_assert_int_eq(error.code, code);
    ck_assert_msg(strstr(error.text, part) != NULL, "%s", error.text);
    ck_assert_ptr_nonnull(strstr(error.text, header_folder));
    ck_assert_ptr_null(set);
}

START_TEST(without_a_directory_the_set_is_ours)
{
    struct flag_set *set = (struct flag_set *)&error;
    uint32_t number = 0;
    ck_assert_int_eq(flag_set_read(NULL, &set, &error), 0);
    ck_assert_ptr_null(set);
    ck_assert_int_eq(flag_set_read("", &set, &error), 0);
    ck_assert_uint_eq(flag_set_number(NULL), IPU21_FLAG_SET);
    ck_assert_str_eq(flag_set_digest(NULL), "");
    ck_assert_int_eq(flag_set_number_of(NULL, &number, &error), 0);
    ck_assert_uint_eq(number, 1);
}
END_TEST

START_TEST(numbers_come_out_of_every_spelling)
{
    header_put("gc_tile_defines.h",
               "#define TAMP_F16V4_E4_P0 (1 << 4)\n.equ TAMP_F16V4_E4_P1, 0x11\n"
               ".set TSLIC_F16V4_1x3_W0, TAMP_F16V4_E4_P1 + 4\n"
               "TISTACC_P0 = 3\n");
    struct flag_set *set = read_set();
    static const struct asm_constant expected[] = {{"TAMP_F16V4_E4_P0", 16},
                                                   {"TAMP_F16V4_E4_P1", 17},
                                                   {"TSLIC_F16V4_1x3_W0", 21},
                                                   {"TISTACC_P0", 3}};
    size_t count;
    const struct asm_constant *found = flag_set_constants(set, &count);
    ck_assert_uint_eq(count, 4);
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(found[i].name, expected[i].name);
        ck_assert_int_eq(found[i].value, expected[i].value);
    }
    flag_set_free(set);
}
END_TEST

START_TEST(header_is_found_where_installations_have_it)
{
    static const char *const names[] = {"gc_tile_defines.h", "arch/gc_tile_defines.h", "ipu21.inc"};
    header_put_phases(names[_i], 20);
    struct flag_set *set = read_set();
    uint32_t number = 0;
    ck_assert_int_eq(flag_set_number_of(header_folder, &number, &error), 0);
    ck_assert_uint_eq(number, flag_set_number(set));
    flag_set_free(set);
}
END_TEST

START_TEST(header_may_include_its_neighbours_only)
{
    header_put("arch/gc_tile_defines.h", "#include \"more.h\"\n#include <arch/last.h>\n");
    header_put("arch/more.h", "#define TAMP_F16V4_E4_P0 5\n");
    header_put("arch/last.h", "#define TAMP_F16V4_E4_P1 6\n");
    struct flag_set *set = read_set();
    size_t count;
    flag_set_constants(set, &count);
    ck_assert_uint_eq(count, 2);
    flag_set_free(set);
    header_put("arch/gc_tile_defines.h", "#include \"../arch/more.h\"\n");
    expect_refused(IPU_ERR_INVALID, "../arch/more.h");
    header_put("arch/gc_tile_defines.h", "#include \"/etc/hostname\"\n");
    expect_refused(IPU_ERR_INVALID, "/etc/hostname");
    header_put("arch/gc_tile_defines.h", "#include \"gc_tile_defines.h\"\n");
    expect_refused(IPU_ERR_INVALID, "gc_tile_defines.h");
}
END_TEST

START_TEST(bad_headers_cost_one_clear_error)
{
    expect_refused(IPU_ERR_NOT_FOUND, "gc_tile_defines.h");
    header_put("gc_tile_defines.h", "#define SOMETHING 1\n");
    expect_refused(IPU_ERR_INVALID, "none of the names");
    header_put("gc_tile_defines.h", "#define TAMP_F16V4_E4_P2 64\n");
    expect_refused(IPU_ERR_INVALID, "TAMP_F16V4_E4_P2 is 64");
    header_put("gc_tile_defines.h", "#define TAMP_F16V4_E4_P2 -1\n");
    expect_refused(IPU_ERR_INVALID, "TAMP_F16V4_E4_P2 is -1");
    header_put("gc_tile_defines.h", "#define TAMP_F16V4_E4_P2 UNKNOWN\n");
    expect_refused(IPU_ERR_INVALID, "UNKNOWN");
    header_put("gc_tile_defines.h", "#if 1\n");
    expect_refused(IPU_ERR_INVALID, "#if");
    header_put("gc_tile_defines.h", "typedef int word;\n");
    expect_refused(IPU_ERR_INVALID, "gc_tile_defines.h:1");
}
END_TEST

START_TEST(sets_differ_exactly_when_numbers_do)
{
    header_put_phases("gc_tile_defines.h", 0);
    struct flag_set *first = read_set();
    header_put("gc_tile_defines.h", "/* the same, told otherwise */\n.set TAMP_F16V4_E4_P3, 3\n"
                                    "#define TAMP_F16V4_E4_P0 0\n#define TAMP_F16V4_E4_P1 1\n"
                                    "#define TAMP_F16V4_E4_P2 2\n#define OTHER 7\n");
    struct flag_set *same = read_set();
    header_put_phases("gc_tile_defines.h", 1);
    struct flag_set *other = read_set();
    ck_assert_str_eq(flag_set_digest(first), flag_set_digest(same));
    ck_assert_uint_eq(flag_set_number(first), flag_set_number(same));
    ck_assert_str_ne(flag_set_digest(first), flag_set_digest(other));
    ck_assert_uint_ne(flag_set_number(first), flag_set_number(other));
    ck_assert_uint_gt(flag_set_number(first), 0x7fffffff);
    flag_set_free(first);
    flag_set_free(same);
    flag_set_free(other);
}
END_TEST

/* Counts the words of two equally long objects that differ, and checks the change of each. */
static unsigned words_shifted(const struct buffer *a, const struct buffer *b, uint32_t shift)
{
    unsigned changed = 0;
    ck_assert_uint_eq(a->size, b->size);
    for (size_t at = 0; at + 4 <= a->size; at += 4) {
        uint32_t x, y;
        memcpy(&x, a->data + at, 4);
        memcpy(&y, b->data + at, 4);
        if (x == y)
            continue;
        changed++;
        ck_assert_uint_eq((y & 63) - (x & 63), shift);
        ck_assert_uint_eq(x >> 6, y >> 6);
    }
    return changed;
}

START_TEST(kernels_carry_the_numbers_of_the_set)
{
    struct buffer ours = {0}, theirs = {0};
    char our_key[65], their_key[65];
    header_put_phases("gc_tile_defines.h", 20);
    struct flag_set *set = read_set();
    ck_assert_int_eq(kernel_assemble_for(&gemm, NULL, &ours, &error), 0);
    ck_assert_msg(kernel_assemble_for(&gemm, set, &theirs, &error) == 0, "%s", error.text);
    /* Only flag fields change. */
    ck_assert_uint_ge(words_shifted(&ours, &theirs, 20), 8);
    kernel_key(&gemm, our_key);
    kernel_key_for(&gemm, set, their_key);
    ck_assert_str_ne(our_key, their_key);
    kernel_key_for(&gemm, NULL, their_key);
    ck_assert_str_eq(our_key, their_key);
    buffer_free(&ours);
    buffer_free(&theirs);
    flag_set_free(set);
}
END_TEST

START_TEST(kernel_never_falls_back_to_our_number)
{
    struct buffer object = {0};
    header_put("gc_tile_defines.h", "#define TAMP_F16V4_E4_P0 20\n#define TAMP_F16V4_E4_P1 21\n"
                                    "#define TAMP_F16V4_E4_P2 22\n");
    struct flag_set *set = read_set();
    ck_assert_int_eq(kernel_assemble_for(&gemm, set, &object, &error), IPU_ERR_COMPILE);
    ck_assert_msg(strstr(error.text, "TAMP_F16V4_E4_P3") != NULL, "%s", error.text);
    ck_assert_uint_eq(object.size, 0);
    flag_set_free(set);
}
END_TEST

START_TEST(every_failing_allocation_is_reported)
{
    int code = IPU_ERR_NO_MEMORY;
    long calls = 0;
    header_put_phases("gc_tile_defines.h", 20);
    for (; code != 0; calls += 1 + calls / 16) {
        struct flag_set *set = NULL;
        ipu_alloc_fail_after(calls, 1);
        code = flag_set_read(header_folder, &set, &error);
        ipu_alloc_fail_after(-1, 0);
        ck_assert_int_ne(code == 0, set == NULL);
        ck_assert(code == 0 || code == IPU_ERR_NO_MEMORY || code == IPU_ERR_NOT_FOUND ||
                  code == IPU_ERR_INVALID);
        flag_set_free(set);
    }
    ck_assert_int_gt(calls, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flag_set");
    TCase *tcase = tcase_create("flag_set");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, header_folder_make, header_folder_remove);
    tcase_add_test(tcase, without_a_directory_the_set_is_ours);
    tcase_add_test(tcase, numbers_come_out_of_every_spelling);
    tcase_add_loop_test(tcase, header_is_found_where_installations_have_it, 0, 3);
    tcase_add_test(tcase, header_may_include_its_neighbours_only);
    tcase_add_test(tcase, bad_headers_cost_one_clear_error);
    tcase_add_test(tcase, sets_differ_exactly_when_numbers_do);
    tcase_add_test(tcase, kernels_carry_the_numbers_of_the_set);
    tcase_add_test(tcase, kernel_never_falls_back_to_our_number);
    tcase_add_test(tcase, every_failing_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
