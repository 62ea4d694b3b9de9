/* module: device/driver */
/* Reading device configurations, and the one that the simulated device comes with. */
#include "device/driver/configuration.h"

#include "base/alloc.h"
#include "device/ipu21/host.h"
#include "device/ipu21/topology.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct configuration configuration;
static struct buffer file;
static struct ipu_error error;

static void setup(void)
{
    configuration = (struct configuration){0};
    file = (struct buffer){0};
}

static void teardown(void)
{
    configuration_free(&configuration);
    buffer_free(&file);
}

static void begin_file(uint32_t count)
{
    buffer_append(&file, "IPUCFG1", 8);
    buffer_append_u32(&file, count);
}

static void add(uint32_t offset, uint32_t value)
{
    buffer_append_u32(&file, offset);
    buffer_append_u32(&file, value);
}

static int read_it(void)
{
    return configuration_read(file.data, file.size, "a.ipucfg", &configuration, &error);
}

static void expect_refused(int code, const char *part)
{
    ck_assert_int_eq(read_it(), code);
    ck_assert_msg(strncmp(error.text, "a.ipucfg: ", 10) == 0 && strstr(error.text, part) != NULL,
                  "%s", error.text);
    ck_assert_ptr_null(configuration.writes);
}

START_TEST(writes_are_read_in_order)
{
    begin_file(3);
    add(0x2000, 0x402);
    add(0x7fffc, 0xdeadbeef);
    add(0x2000, 1);
    ck_assert_int_eq(read_it(), 0);
    ck_assert_uint_eq(configuration.count, 3);
    ck_assert_uint_eq(configuration.writes[1].offset, 0x7fffc);
    ck_assert_uint_eq(configuration.writes[1].value, 0xdeadbeef);
    ck_assert_uint_eq(configuration.writes[2].value, 1);
}
END_TEST

START_TEST(empty_list_is_legal)
{
    begin_file(0);
    ck_assert_int_eq(read_it(), 0);
    ck_assert_uint_eq(configuration.count, 0);
}
END_TEST

START_TEST(cut_files_are_refused)
{
    begin_file(2);
    add(0x2000, 1);
    add(0x2004, 2);
    size_t whole = file.size;
    for (size_t size = 0; size < whole; size++) {
        file.size = size;
        ck_assert_int_eq(read_it(), IPU_ERR_INVALID);
    }
    expect_refused(IPU_ERR_INVALID, "should have 28 bytes and has 27");
}
END_TEST

START_TEST(trailing_bytes_are_refused)
{
    begin_file(1);
    add(0x2000, 1);
    buffer_append_zero(&file, 1);
    expect_refused(IPU_ERR_INVALID, "should have 20 bytes and has 21");
}
END_TEST

START_TEST(other_magic_is_refused)
{
    begin_file(0);
    file.data[6] = '2';
    expect_refused(IPU_ERR_INVALID, "does not begin with IPUCFG1");
}
END_TEST

START_TEST(huge_counts_are_refused_before_allocating)
{
    begin_file(UINT32_MAX);
    ipu_alloc_fail_after(0, 0);
    int code = read_it();
    ipu_alloc_fail_after(-1, 0);
    ck_assert_int_eq(code, IPU_ERR_LIMIT);
}
END_TEST

START_TEST(offsets_that_are_no_registers_are_refused)
{
    static const uint32_t offsets[] = {1, 2, 0x2002, 0x80000, 0x7fffd, 0xfffffffc};
    begin_file(2);
    add(0x2000, 1);
    add(offsets[_i], 1);
    expect_refused(IPU_ERR_INVALID, "register write 1 ");
}
END_TEST

START_TEST(exhausted_memory_is_an_error)
{
    begin_file(0);
    ipu_alloc_fail_after(0, 1);
    int code = read_it();
    ipu_alloc_fail_after(-1, 0);
    ck_assert_int_eq(code, IPU_ERR_NO_MEMORY);
}
END_TEST

/* --- files --- */

START_TEST(file_is_read_from_its_path)
{
    char path[] = "/tmp/ipucfg-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    begin_file(1);
    add(0x2000, 7);
    ck_assert_int_eq(buffer_write_file(path, file.data, file.size), 0);
    int code = configuration_read_file(path, &configuration, &error);
    unlink(path);
    ck_assert_int_eq(code, 0);
    ck_assert_uint_eq(configuration.writes[0].value, 7);
}
END_TEST

START_TEST(missing_file_is_named)
{
    ck_assert_int_eq(configuration_read_file("/nowhere/a.ipucfg", &configuration, &error),
                     IPU_ERR_NOT_FOUND);
    ck_assert(strstr(error.text, "/nowhere/a.ipucfg") != NULL);
}
END_TEST

START_TEST(oversized_file_is_refused)
{
    char path[] = "/tmp/ipucfg-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, 64 << 20), 0);
    close(fd);
    int code = configuration_read_file(path, &configuration, &error);
    unlink(path);
    ck_assert_int_eq(code, IPU_ERR_LIMIT);
}
END_TEST

/* --- the simulated device's own --- */

static size_t find(uint32_t offset)
{
    for (size_t i = 0; i < configuration.count; i++)
        if (configuration.writes[i].offset == offset)
            return i;
    ck_abort_msg("0x%x is not written", offset);
    return 0;
}

static void read_own(void)
{
    configuration_append_sim(&file);
    ck_assert(!file.failed);
    ck_assert_msg(read_it() == 0, "%s", error.text);
}

START_TEST(own_configuration_ends_with_run_breaks_of_tiles_in_logical_order)
{
    read_own();
    const struct configuration_write *w = configuration.writes + configuration.count - IPU21_TILES;
    for (unsigned tile = 0; tile < IPU21_TILES; tile++) {
        ck_assert_uint_eq(w[tile].offset, 0x30000 + ipu21_physical(tile) * 0x40 + 4);
        ck_assert_uint_eq(w[tile].value, 0x40000000);
    }
}
END_TEST

/* facts/driver.md section 4: ids at bits 3, 9, 15, 21 beside bit 1. */
START_TEST(own_configuration_sets_up_all_exchange_blocks)
{
    read_own();
    for (unsigned i = 0; i < 16; i++) {
        uint32_t offset = i < 8 ? 0x5404 + i * 0x400 : 0x1b804 + (i - 8) * 0x400;
        uint32_t id = i < 8 ? 0 : 1;
        ck_assert_uint_eq(configuration.writes[find(offset)].value,
                          2 | id << 3 | id << 9 | id << 15 | id << 21);
    }
}
END_TEST

START_TEST(own_configuration_routes_the_syncs)
{
    read_own();
    ck_assert_uint_eq(configuration.writes[find(0x4018)].value, 0xc00001bd);
    ck_assert_uint_eq(configuration.writes[find(0x401c)].value, 0x400001b4);
    ck_assert_uint_eq(configuration.writes[find(0x4020)].value, 0x400001b5);
    ck_assert_uint_eq(configuration.writes[find(0x1b400)].value, 0x400001b2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_configuration");
    TCase *t = tcase_create("configuration");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, writes_are_read_in_order);
    tcase_add_test(t, empty_list_is_legal);
    tcase_add_test(t, cut_files_are_refused);
    tcase_add_test(t, trailing_bytes_are_refused);
    tcase_add_test(t, other_magic_is_refused);
    tcase_add_test(t, huge_counts_are_refused_before_allocating);
    tcase_add_loop_test(t, offsets_that_are_no_registers_are_refused, 0, 6);
    tcase_add_test(t, exhausted_memory_is_an_error);
    tcase_add_test(t, file_is_read_from_its_path);
    tcase_add_test(t, missing_file_is_named);
    tcase_add_test(t, oversized_file_is_refused);
    tcase_add_test(t, own_configuration_ends_with_run_breaks_of_tiles_in_logical_order);
    tcase_add_test(t, own_configuration_sets_up_all_exchange_blocks);
    tcase_add_test(t, own_configuration_routes_the_syncs);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
