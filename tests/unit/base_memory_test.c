/* module: base */
/* Tests of arena, buffer and whole-file helpers: contents, budgets, sizes that do not fit, a
 * failing allocation at every place, and files that cannot be read or written. */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/buffer.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena *arena;
static struct buffer buffer;
static char folder[64], path[4200];

static void setup(void)
{
    arena = arena_create(0);
    ck_assert_ptr_nonnull(arena);
    snprintf(folder, sizeof folder, "/tmp/base-memory-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    ipu_alloc_fail_after(-1, 0);
    arena_destroy(arena);
    buffer_free(&buffer);
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(system("chmod -R u+w . && rm -rf -- *"), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool holds(const uint8_t *bytes, size_t size, uint8_t value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* --- arena --- */

START_TEST(what_an_arena_gives_is_zeroed_aligned_and_apart)
{
    static uint8_t *given[3000];
    static size_t sizes[3000];
    for (unsigned i = 0; i < 3000; i++) {
        sizes[i] = i % 7 ? i % 97 : (size_t)i * 30; /* small ones, and some with a chunk alone */
        given[i] = arena_calloc(arena, sizes[i], 1);
        ck_assert_ptr_nonnull(given[i]);
        ck_assert_uint_eq((uintptr_t)given[i] % 16, 0);
        ck_assert(holds(given[i], sizes[i], 0));
        memset(given[i], (int)(i % 251 + 1), sizes[i]);
    }
    for (unsigned i = 0; i < 3000; i++)
        ck_assert(holds(given[i], sizes[i], (uint8_t)(i % 251 + 1)));
}
END_TEST

START_TEST(budget_is_held_and_told)
{
    struct arena *small = arena_create(1000);
    size_t given = 0;
    while (arena_calloc(small, 1, 33))
        given++;
    ck_assert_uint_eq(given, 1000 / 48); /* whole steps of 16 bytes count */
    ck_assert(arena_exhausted(small));
    ck_assert_uint_le(arena_used(small), 1000);
    ck_assert_ptr_nonnull(arena_calloc(small, 1, 16)); /* what still fits is given */
    arena_destroy(small);
    ck_assert(!arena_exhausted(arena));
}
END_TEST

START_TEST(product_that_overflows_is_refused)
{
    ck_assert_ptr_null(arena_calloc(arena, SIZE_MAX / 2, 4));
    ck_assert_ptr_null(arena_calloc(arena, SIZE_MAX, SIZE_MAX));
    ck_assert(arena_exhausted(arena));
    ck_assert_ptr_nonnull(arena_calloc(arena, 0, SIZE_MAX));
    ck_assert_ptr_nonnull(arena_calloc(arena, SIZE_MAX, 0));
}
END_TEST

START_TEST(copies_equal_their_originals)
{
    ck_assert_str_eq(arena_strdup(arena, "tile"), "tile");
    ck_assert_str_eq(arena_strdup(arena, ""), "");
    ck_assert_mem_eq(arena_memdup(arena, "a\0b", 3), "a\0b", 3);
    ck_assert_ptr_nonnull(arena_memdup(arena, NULL, 0));
    ck_assert_str_eq(arena_printf(arena, "%d:%s", 1471, "x"), "1471:x");
    char *wide = arena_printf(arena, "%300000d", 7); /* more than a chunk */
    ck_assert_uint_eq(strlen(wide), 300000);
    ck_assert_int_eq(wide[299999], '7');
}
END_TEST

START_TEST(arena_survives_a_failing_allocation)
{
    ipu_alloc_fail_after(0, 1);
    ck_assert_ptr_null(arena_create(0));
    ipu_alloc_fail_after(0, 0);
    ck_assert_ptr_null(arena_calloc(arena, 1, 8));
    ck_assert_ptr_null(arena_strdup(arena, "x"));
    ck_assert_ptr_null(arena_printf(arena, "%d", 1));
    ipu_alloc_fail_after(-1, 0);
    ck_assert(arena_exhausted(arena));
    ck_assert_str_eq(arena_strdup(arena, "later"), "later");
    arena_destroy(NULL);
}
END_TEST

/* --- allocation seam --- */

START_TEST(armed_failure_hits_the_call_it_names)
{
    for (int once = 0; once < 2; once++) {
        ipu_alloc_fail_after(2, once);
        void *first = ipu_malloc(1), *second = ipu_calloc(1, 1);
        char *third = ipu_strdup("x");
        void *fourth = ipu_realloc(NULL, 1);
        ipu_alloc_fail_after(-1, 0);
        ck_assert_ptr_nonnull(first);
        ck_assert_ptr_nonnull(second);
        ck_assert_ptr_null(third);
        ck_assert_int_eq(fourth != NULL, once);
        ipu_free(first);
        ipu_free(second);
        ipu_free(fourth);
    }
}
END_TEST

/* --- buffer --- */

START_TEST(buffer_keeps_what_is_appended)
{
    for (uint32_t i = 0; i < 1000; i++)
        buffer_append_u32(&buffer, i * 0x01020304u);
    buffer_append_zero(&buffer, 5);
    buffer_append(&buffer, "ab", 2);
    buffer_append(&buffer, NULL, 0);
    buffer_printf(&buffer, "%s-%03d", "tile", 7);
    ck_assert(!buffer.failed);
    ck_assert_uint_eq(buffer.size, 4000 + 5 + 2 + 8);
    static const uint8_t third[] = {0x0c, 0x09, 0x06, 0x03}; /* little end first */
    ck_assert_mem_eq(buffer.data + 12, third, 4);
    ck_assert(holds(buffer.data + 4000, 5, 0));
    ck_assert_mem_eq(buffer.data + 4005, "abtile-007", 10);
}
END_TEST

START_TEST(buffer_without_memory_stays_failed_and_keeps_its_bytes)
{
    buffer_append(&buffer, "kept", 4);
    char *large = calloc(1, 10000);
    ipu_alloc_fail_after(0, 1);
    buffer_append(&buffer, large, 10000);
    free(large);
    ck_assert(buffer.failed);
    buffer_append(&buffer, "more", 4);
    buffer_append_zero(&buffer, 1);
    buffer_append_u32(&buffer, 1);
    buffer_printf(&buffer, "x");
    ck_assert_uint_eq(buffer.size, 4);
    ck_assert_mem_eq(buffer.data, "kept", 4);
    buffer_free(&buffer);
    ck_assert(!buffer.failed);
}
END_TEST

START_TEST(size_beyond_all_memory_fails_without_touching_it)
{
    buffer_append_zero(&buffer, SIZE_MAX / 2);
    ck_assert(buffer.failed);
    ck_assert_uint_eq(buffer.size, 0);
}
END_TEST

/* --- files --- */

START_TEST(file_comes_back_as_written)
{
    static uint8_t data[300001];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    ck_assert_int_eq(buffer_write_file(in_folder("f"), data, sizeof data), 0);
    ck_assert_int_eq(buffer_read_file(&buffer, path, sizeof data), 0);
    ck_assert_uint_eq(buffer.size, sizeof data);
    ck_assert_mem_eq(buffer.data, data, sizeof data);
    buffer_free(&buffer);
    ck_assert_int_eq(buffer_read_file(&buffer, path, sizeof data - 1), -EFBIG);
    buffer_free(&buffer);
    ck_assert_int_eq(buffer_write_file(path, NULL, 0), 0);
    ck_assert_int_eq(buffer_read_file(&buffer, path, 0), 0);
    ck_assert_uint_eq(buffer.size, 0);
}
END_TEST

START_TEST(written_file_has_the_mode_that_the_mask_leaves)
{
    struct stat st;
    mode_t before = umask(027);
    ck_assert_int_eq(buffer_write_file(in_folder("f"), "x", 1), 0);
    ck_assert_int_eq(umask(before), 027);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0640);
}
END_TEST

START_TEST(what_an_earlier_writer_left_behind_is_passed_over)
{
    char stale[4300];
    in_folder("f");
    for (unsigned i = 0; i < 3; i++) {
        snprintf(stale, sizeof stale, "%s.tmp-%ld-%u", path, (long)getpid(), i);
        ck_assert_int_eq(symlink("/nowhere/else", stale), 0);
    }
    ck_assert_int_eq(buffer_write_file(path, "x", 1), 0);
    ck_assert_int_eq(buffer_read_file(&buffer, path, 1), 0);
    ck_assert_mem_eq(buffer.data, "x", 1);
}
END_TEST

START_TEST(files_that_cannot_be_read_say_why)
{
    ck_assert_int_eq(buffer_read_file(&buffer, in_folder("none"), 10), -ENOENT);
    ck_assert_int_eq(buffer_read_file(&buffer, folder, 10), -EISDIR);
    ck_assert_int_eq(buffer_read_file(&buffer, "/dev/zero", 100000), -EFBIG); /* no size to ask */
    buffer_free(&buffer);
    ck_assert_int_eq(buffer_write_file(in_folder("f"), "abc", 3), 0);
    ipu_alloc_fail_after(0, 1);
    ck_assert_int_eq(buffer_read_file(&buffer, path, 10), -ENOMEM);
}
END_TEST

static unsigned names_in_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "test $(ls -A '%s' | wc -l) -eq 0", folder);
    return system(command) != 0;
}

START_TEST(file_that_cannot_be_written_leaves_nothing)
{
    ck_assert_int_eq(buffer_write_file(in_folder("none/f"), "x", 1), -ENOENT);
    static char endless[4096];
    memset(endless, 'a', sizeof endless - 1);
    ck_assert_int_eq(buffer_write_file(endless, "x", 1), -ENAMETOOLONG);
    ck_assert_uint_eq(names_in_folder(), 0);
    ck_assert_int_eq(mkdir(in_folder("taken"), 0700), 0); /* a name that rename() cannot replace */
    ck_assert_int_eq(buffer_write_file(path, "x", 1), -EISDIR);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_uint_eq(names_in_folder(), 0);
}
END_TEST

static void add_tests(TCase *tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_an_arena_gives_is_zeroed_aligned_and_apart);
    tcase_add_test(tc, budget_is_held_and_told);
    tcase_add_test(tc, product_that_overflows_is_refused);
    tcase_add_test(tc, copies_equal_their_originals);
    tcase_add_test(tc, arena_survives_a_failing_allocation);
    tcase_add_test(tc, armed_failure_hits_the_call_it_names);
    tcase_add_test(tc, buffer_keeps_what_is_appended);
    tcase_add_test(tc, buffer_without_memory_stays_failed_and_keeps_its_bytes);
    tcase_add_test(tc, size_beyond_all_memory_fails_without_touching_it);
    tcase_add_test(tc, file_comes_back_as_written);
    tcase_add_test(tc, written_file_has_the_mode_that_the_mask_leaves);
    tcase_add_test(tc, what_an_earlier_writer_left_behind_is_passed_over);
    tcase_add_test(tc, files_that_cannot_be_read_say_why);
    tcase_add_test(tc, file_that_cannot_be_written_leaves_nothing);
}

int main(void)
{
    Suite *suite = suite_create("base_memory");
    TCase *tc = tcase_create("memory");
    suite_add_tcase(suite, tc);
    add_tests(tc);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
