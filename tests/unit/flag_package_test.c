/* module: compiler */
/* Flag sets from the compiler's options to the device: keys, package and refusal, both ways. */
#include "tests/unit/e2e.h"

#include "device/kernels/flag_set.h"
#include "flag_headers.h"

static struct buffer workload;
static struct ipu_error error;

static void setup(void)
{
    struct build_mlp p = {1, 17, 64, 128, 3, 64, 1, false, false, 0};
    ck_assert(build_siglip_mlp(&p, &workload));
    header_folder_make();
    header_put_phases("gc_tile_defines.h", 20);
}

static void teardown(void)
{
    header_folder_remove();
    buffer_free(&workload);
}

static struct package *compile(const char *headers)
{
    struct compile_options options = {.threads = 2, .flag_headers = headers};
    struct compile_result result;
    struct package *package = NULL;
    ck_assert_msg(compile_workload(workload.data, workload.size, &options, &result, &error) == 0,
                  "%s", error.text);
    ck_assert_int_eq(package_read(result.package.data, result.package.size, &package, &error), 0);
    compile_result_free(&result);
    return package;
}

START_TEST(package_records_the_set_and_the_simulator_takes_only_ours)
{
    uint32_t number = 0;
    struct device_options options = {.device = "sim", .threads = 2};
    struct device_session *session = NULL;
    struct package *ours = compile(NULL), *theirs = compile(header_folder);
    ck_assert_int_eq(flag_set_number_of(header_folder, &number, &error), 0);
    ck_assert_uint_eq(package_get_info(ours)->flag_set, 1);
    ck_assert_uint_eq(package_get_info(theirs)->flag_set, number);
    ck_assert_int_eq(device_open(&options, &session, &error), 0);
    ck_assert_msg(device_load(session, ours, &error) == 0, "%s", error.text);
    ck_assert_int_eq(device_load(session, theirs, &error), IPU_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(error.text, "without flag_headers") != NULL, "%s", error.text);
    /* What was loaded before is untouched. */
    struct device_summary summary;
    ck_assert_msg(device_run(session, &summary, &error) == 0, "%s", error.text);
    device_close(session);
    package_destroy(ours);
    package_destroy(theirs);
}
END_TEST

START_TEST(card_takes_only_the_set_it_is_configured_for)
{
    uint32_t number = 0;
    struct package *ours = compile(NULL), *theirs = compile(header_folder);
    struct device_options card = {.device = "/dev/ipu0"};
    ck_assert_int_eq(flag_set_number_of(header_folder, &number, &error), 0);
    ck_assert_int_eq(device_check_flags(&card, ours, &error), IPU_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "no AMP flag numbers"));
    ck_assert_int_eq(device_check_flags(&card, theirs, &error), IPU_ERR_UNSUPPORTED);
    card.flag_set = number;
    ck_assert_int_eq(device_check_flags(&card, theirs, &error), 0);
    ck_assert_int_eq(device_check_flags(&card, ours, &error), IPU_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "is configured for set"));
    card.flag_set = number ^ 1;
    ck_assert_int_eq(device_check_flags(&card, theirs, &error), IPU_ERR_UNSUPPORTED);
    struct device_options sim = {.device = "sim", .flag_set = number};
    ck_assert_int_eq(device_check_flags(&sim, theirs, &error), IPU_ERR_UNSUPPORTED);
    package_destroy(ours);
    package_destroy(theirs);
}
END_TEST

START_TEST(package_key_tells_sets_apart_and_search_key_does_not)
{
    struct compile_keys ours, theirs, other;
    ck_assert_int_eq(compile_keys(workload.data, workload.size, &ours, &error), 0);
    ck_assert_int_eq(compile_keys_for(workload.data, workload.size, header_folder, &theirs, &error),
                     0);
    header_put_phases("gc_tile_defines.h", 24);
    ck_assert_int_eq(compile_keys_for(workload.data, workload.size, header_folder, &other, &error),
                     0);
    ck_assert_str_ne(ours.package_key, theirs.package_key);
    ck_assert_str_ne(theirs.package_key, other.package_key);
    ck_assert_str_eq(ours.search_key, theirs.search_key);
    ck_assert_int_eq(compile_keys_for(workload.data, workload.size, "", &other, &error), 0);
    ck_assert_str_eq(ours.package_key, other.package_key);
}
END_TEST

START_TEST(bad_header_directory_fails_the_compile_with_one_error)
{
    struct compile_options options = {.threads = 1, .flag_headers = "/nonexistent"};
    struct compile_result result;
    struct compile_keys keys;
    ck_assert_int_eq(compile_workload(workload.data, workload.size, &options, &result, &error),
                     IPU_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "flag headers /nonexistent"));
    ck_assert_int_eq(compile_keys_for(workload.data, workload.size, "/nonexistent", &keys, &error),
                     IPU_ERR_NOT_FOUND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flag_package");
    TCase *tcase = tcase_create("flag_package");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, package_records_the_set_and_the_simulator_takes_only_ours);
    tcase_add_test(tcase, card_takes_only_the_set_it_is_configured_for);
    tcase_add_test(tcase, package_key_tells_sets_apart_and_search_key_does_not);
    tcase_add_test(tcase, bad_header_directory_fails_the_compile_with_one_error);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
