/* module: device/driver */
/* The program ipu-run: exit codes, what goes to stdout and stderr, the files it reads and writes.
 * Its main() is called in the test's own process. */
#define main ipu_run_main
int ipu_run_main(int argc, char **argv);
#include "device/driver/ipu-run.c"
#undef main

#include "driver_package.h"
#include "proto/profile.pb-c.h"

#include <fcntl.h>
#include <unistd.h>

static char folder[64], package_path[96];
static struct buffer out, err;

static const char *path_of(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_package(enum mode mode)
{
    struct buffer file = build(mode);
    ck_assert_int_eq(buffer_write_file(package_path, file.data, file.size), 0);
    buffer_free(&file);
}

static void setup(void)
{
    snprintf(folder, sizeof folder, "/tmp/ipu-run-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(package_path, sizeof package_path, "%s/p.ipuexe", folder);
    fill_inputs();
}

static void teardown(void)
{
    static const char *const names[] = {"p.ipuexe", "x", "y", "profile", "out", "err"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    rmdir(folder);
    buffer_free(&out);
    buffer_free(&err);
}

static int redirect(FILE *stream, const char *name)
{
    fflush(stream);
    int saved = dup(fileno(stream));
    int file = open(path_of(name), O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(file, 0);
    dup2(file, fileno(stream));
    close(file);
    return saved;
}

static void restore(FILE *stream, int saved, const char *name, struct buffer *text)
{
    fflush(stream);
    dup2(saved, fileno(stream));
    close(saved);
    buffer_free(text);
    ck_assert_int_eq(buffer_read_file(text, path_of(name), 1 << 20), 0);
    buffer_append_zero(text, 1);
}

/* Runs with up to six arguments; returns the exit code. */
static int call(const char *a, const char *b, const char *c, const char *d, const char *e)
{
    const char *list[] = {"ipu-run", a, b, c, d, e, NULL};
    char *argv[7], storage[7][256];
    int argc = 0;
    for (; argc < 6 && list[argc]; argc++) {
        snprintf(storage[argc], sizeof storage[0], "%s", list[argc]);
        argv[argc] = storage[argc];
    }
    argv[argc] = NULL;
    optind = 0;
    int saved_out = redirect(stdout, "out"), saved_err = redirect(stderr, "err");
    int code = ipu_run_main(argc, argv);
    restore(stdout, saved_out, "out", &out);
    restore(stderr, saved_err, "err", &err);
    return code;
}

static bool printed(const struct buffer *text, const char *words)
{
    return strstr((const char *)text->data, words) != NULL;
}

START_TEST(run_prints_one_line_each_time_and_writes_the_output)
{
    char output[160];
    write_package(FINE);
    snprintf(output, sizeof output, "--output=y=%s", path_of("y"));
    ck_assert_int_eq(call(package_path, output, "--repeat=2", "--strict", "--threads=1"), 0);
    ck_assert_uint_eq(err.data[0], 0);
    ck_assert(printed(&out, " minimumTileCycles="));
    unsigned lines = 0;
    for (const char *at = (const char *)out.data; (at = strstr(at, "cycles=")) != NULL; at++)
        lines++;
    ck_assert_uint_eq(lines, 2);
    struct buffer y = {0};
    ck_assert_int_eq(buffer_read_file(&y, path_of("y"), 1 << 20), 0);
    expect_y(y.data, y.size, x);
    buffer_free(&y);
}
END_TEST

START_TEST(input_file_replaces_the_packages_own)
{
    static uint32_t other[2 * WORDS];
    char input[160], output[160];
    for (uint32_t i = 0; i < 2 * WORDS; i++)
        other[i] = i * i;
    other[2 * WORDS - 1] = other[WORDS - 1];
    write_package(FINE);
    ck_assert_int_eq(buffer_write_file(path_of("x"), other, sizeof other), 0);
    snprintf(input, sizeof input, "--input=x=%s", path_of("x"));
    snprintf(output, sizeof output, "--output=y=%s", path_of("y"));
    ck_assert_int_eq(call(package_path, input, output, NULL, NULL), 0);
    struct buffer y = {0};
    ck_assert_int_eq(buffer_read_file(&y, path_of("y"), 1 << 20), 0);
    expect_y(y.data, y.size, other);
    buffer_free(&y);
}
END_TEST

START_TEST(profile_is_written_and_announced)
{
    write_package(FINE);
    ck_assert_int_eq(call(package_path, "--profile", path_of("profile"), NULL, NULL), 0);
    ck_assert(printed(&out, " tiles=1472 samples=2\n"));
    struct buffer bytes = {0};
    ck_assert_int_eq(buffer_read_file(&bytes, path_of("profile"), 1 << 20), 0);
    Ipu__Profile__Profile *p = ipu__profile__profile__unpack(NULL, bytes.size, bytes.data);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(p->n_tiles, 2);
    ipu__profile__profile__free_unpacked(p, NULL);
    buffer_free(&bytes);
}
END_TEST

START_TEST(device_fault_exits_with_4_and_explains)
{
    write_package(TRAPS);
    ck_assert_int_eq(call(package_path, NULL, NULL, NULL, NULL), 4);
    ck_assert_uint_eq(out.data[0], 0);
    ck_assert(printed(&err, "ipu-run: device fault: running the application"));
    ck_assert(printed(&err, "tile 100 (physical 260), supervisor"));
    ck_assert(printed(&err, "in program+0x"));
}
END_TEST

START_TEST(delays_of_the_host_change_no_cycle)
{
    char first[256];
    write_package(FINE);
    ck_assert_int_eq(call(package_path, NULL, NULL, NULL, NULL), 0);
    snprintf(first, sizeof first, "%.*s", (int)strcspn((char *)out.data, " "), (char *)out.data);
    ck_assert_int_eq(call(package_path, "--jitter=300", NULL, NULL, NULL), 0);
    ck_assert_msg(printed(&out, first), "%s is not in %s", first, (char *)out.data);
}
END_TEST

START_TEST(files_for_the_device_are_used)
{
    char text[160];
    write_package(FINE);
    snprintf(text, sizeof text, "--configuration=%s", package_path);
    ck_assert_int_eq(call(package_path, text, NULL, NULL, NULL), 2);
    ck_assert(printed(&err, "this is no device configuration"));
    snprintf(text, sizeof text, "--loader=%s", package_path);
    ck_assert_int_eq(call(package_path, text, NULL, NULL, NULL), 2);
    ck_assert(printed(&err, "this is no ELF file"));
    ck_assert_int_eq(call(package_path, "--flag-headers=/nowhere", NULL, NULL, NULL), 2);
}
END_TEST

START_TEST(timeout_exits_with_4)
{
    write_package(LOOPS);
    ck_assert_int_eq(call(package_path, "--timeout", "100", NULL, NULL), 4);
    ck_assert(printed(&err, "timed out"));
}
END_TEST

START_TEST(flipped_byte_exits_with_3)
{
    write_package(FINE);
    struct buffer file = {0};
    ck_assert_int_eq(buffer_read_file(&file, package_path, 1 << 24), 0);
    file.data[file.size / 2] ^= 4;
    ck_assert_int_eq(buffer_write_file(package_path, file.data, file.size), 0);
    buffer_free(&file);
    ck_assert_int_eq(call(package_path, NULL, NULL, NULL, NULL), 3);
    ck_assert(printed(&err, "p.ipuexe: "));
}
END_TEST

static const struct {
    const char *arguments[3];
    const char *complaint;
} wrong[] = {
    {{NULL}, "one package is needed"},           {{"a", "b"}, "one package is needed"},
    {{"/nonexistent/x.ipuexe"}, "No such file"}, {{"a", "--repeat=0"}, "bad value: 0"},
    {{"a", "--threads=-1"}, "bad value: -1"},    {{"a", "--input=x"}, "bad value: x"},
    {{"a", "--nonsense"}, "nonsense"},
};

START_TEST(wrong_arguments_exit_with_2)
{
    const char *const *a = wrong[_i].arguments;
    ck_assert_int_eq(call(a[0], a[1], a[2], NULL, NULL), 2);
    ck_assert_msg(printed(&err, wrong[_i].complaint), "%s", err.data);
    ck_assert_uint_eq(out.data[0], 0);
}
END_TEST

START_TEST(unknown_names_exit_with_2)
{
    char text[160];
    write_package(FINE);
    snprintf(text, sizeof text, "--output=z=%s", path_of("y"));
    ck_assert_int_eq(call(package_path, text, NULL, NULL, NULL), 2);
    ck_assert(printed(&err, "no output called z"));
    snprintf(text, sizeof text, "--input=z=%s", package_path);
    ck_assert_int_eq(call(package_path, text, NULL, NULL, NULL), 2);
    ck_assert(printed(&err, "no input called z"));
    ck_assert_int_eq(call(package_path, "--device=/dev/ipu0", NULL, NULL, NULL), 2);
    ck_assert(printed(&err, "/dev/ipu0 needs a configuration file"));
}
END_TEST

START_TEST(help_goes_to_stdout)
{
    ck_assert_int_eq(call("--help", NULL, NULL, NULL, NULL), 0);
    ck_assert(printed(&out, "usage: ipu-run FILE.ipuexe"));
    ck_assert_uint_eq(err.data[0], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_ipu_run");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_set_timeout(core, 60);
    tcase_add_test(core, run_prints_one_line_each_time_and_writes_the_output);
    tcase_add_test(core, input_file_replaces_the_packages_own);
    tcase_add_test(core, profile_is_written_and_announced);
    tcase_add_test(core, device_fault_exits_with_4_and_explains);
    tcase_add_test(core, delays_of_the_host_change_no_cycle);
    tcase_add_test(core, files_for_the_device_are_used);
    tcase_add_test(core, timeout_exits_with_4);
    tcase_add_test(core, flipped_byte_exits_with_3);
    tcase_add_loop_test(core, wrong_arguments_exit_with_2, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(core, unknown_names_exit_with_2);
    tcase_add_test(core, help_goes_to_stdout);
    suite_add_tcase(suite, core);
    return run_suite(suite);
}
