/* module: device/package */
/* The command-line tools ipu-as and ipu-objdump, as a user runs them: exit codes, messages, output.
 * They stand beside the tests' folder; at test level "quick" they may not have been built, then
 * nothing runs.
 */
#include "base/buffer.h"
#include "device/package/package.h"
#include "tests/unit/asm_util.h"

#include <check.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char tools[4096], folder[64];
static char output[65536];

/* Runs `tool arguments` in the test's folder; standard output and error end up in `output`. */
static int run(const char *tool, const char *arguments)
{
    char command[8192];
    snprintf(command, sizeof(command), "cd %s && '%s/%s' %s 2>&1", folder, tools, tool, arguments);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t size = fread(output, 1, sizeof(output) - 1, pipe);
    output[size] = '\0';
    int status = pclose(pipe);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void put_file(const char *name, const void *data, size_t size)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    ck_assert_int_eq(buffer_write_file(path, data, size), 0);
}

static void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/asm_tools_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

static void expect_output(const char *text)
{
    ck_assert_msg(strstr(output, text) != NULL, "expected '%s' in:\n%s", text, output);
}

START_TEST(a_source_becomes_an_object_that_objdump_shows)
{
    put_text("k.S",
             "#include \"sub/def.h\"\n.section .text.k, \"ax\"\n.globl k\nk: setzi $m0, VALUE + "
             "MORE\n{ nop ; fnop }\ncall $lr, other\n.data\n.long 5\n");
    char command[200];
    snprintf(command, sizeof(command), "mkdir -p %s/inc/sub", folder);
    ck_assert_int_eq(system(command), 0);
    put_text("inc/sub/def.h", "#define VALUE 0x40\n");
    ck_assert_int_eq(run("ipu-as", "k.S -o k.o -DMORE=2 -Iinc"), 0);
    ck_assert_str_eq(output, "");
    ck_assert_int_eq(run("ipu-objdump", "-d k.o"), 0);
    expect_output("section .text.k (16 bytes");
    expect_output("k:\n       0:  19000042           setzi $m0, 0x42\n");
    expect_output("       4:  99e00000 9ad00000  { nop ; fnop }\n");
    expect_output("call $m10, 0x0  // reloc 8 other+0\n");
    ck_assert_ptr_null(strstr(output, ".data"));
}
END_TEST

START_TEST(options_may_stand_apart_and_in_any_order)
{
    put_text("k.S", "#if X == 3 && Y == 1\nnop\n#else\n#error wrong\n#endif\n");
    ck_assert_int_eq(run("ipu-as", "-o k.o -D X=3 -DY k.S"), 0);
}
END_TEST

START_TEST(built_in_sources_can_be_included)
{
    put_text("k.S", "#include \"runtime.inc\"\nnop\n");
    ck_assert_msg(run("ipu-as", "k.S -o k.o") == 0, "%s", output);
}
END_TEST

START_TEST(wrong_use_is_explained)
{
    static const char *const wrong[] = {
        "", "k.S", "-o k.o", "k.S -o", "k.S l.S -o k.o", "k.S -o k.o -x1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_int_eq(run("ipu-as", wrong[i]), 2);
        expect_output("usage: ipu-as");
    }
    static const char *const bad[] = {"",
                                      "-d",
                                      "k.o",
                                      "-d k.o l.o",
                                      "-d k.o --tile",
                                      "-d k.o --tile 1472",
                                      "-d k.o --tile -1",
                                      "-d k.o --tile x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(run("ipu-objdump", bad[i]), 2);
        expect_output("usage: ipu-objdump");
    }
}
END_TEST

START_TEST(bad_files_have_one_message_and_leave_no_object)
{
    put_text("bad.S", "nop\n  bogus $m0\n");
    ck_assert_int_eq(run("ipu-as", "bad.S -o bad.o"), 3);
    ck_assert_str_eq(output, "bad.S:2:3: unknown instruction 'bogus'\n");
    ck_assert_int_eq(run("ipu-objdump", "-d bad.o"), 3);
    expect_output("cannot read bad.o");
    ck_assert_int_eq(run("ipu-as", "none.S -o bad.o"), 2);
    expect_output("cannot read none.S");
    put_text("ok.S", "nop\n");
    ck_assert_int_eq(run("ipu-as", "ok.S -o none/ok.o"), 3);
    expect_output("cannot write none/ok.o");
    put_file("cut.o", "\177ELF\1\1\1", 7);
    ck_assert_int_eq(run("ipu-objdump", "-d cut.o"), 3);
    expect_output("cut.o: not a valid IPU object");
    ck_assert_int_ne(run("ipu-objdump", "-d ok.S"), 0);
    expect_output("ok.S: ");
}
END_TEST

static void write_package(const char *name)
{
    static const uint32_t code[] = {0x19e00000, 0x99e00000, 0x9ad00000, 0x43a00000};
    static const uint32_t data[] = {1, 2};
    struct package *package = package_create();
    struct package_info info = {.compiler = "test",
                                .workload = "objdump",
                                .flag_set = 1,
                                .clock_hz = 1500000000,
                                .execution_tiles = 64,
                                .final_mark = 23,
                                .entry = 0x4c014,
                                .batches_in = {0, 1},
                                .phases = {0, 2}};
    struct buffer file = {0};
    struct ipu_error error;
    ck_assert_ptr_nonnull(package);
    package_set_info(package, &info);
    int code_blob = package_add_blob(package, code, sizeof(code));
    int data_blob = package_add_blob(package, data, sizeof(data));
    ck_assert_int_ge(package_add_segment(package, 3, 0x4c010, code_blob, 0, sizeof(code)), 0);
    ck_assert_int_ge(package_add_segment(package, 7, 0x4c010, code_blob, 4, 12), 0);
    ck_assert_int_ge(package_add_segment(package, 7, 0x80000, data_blob, 0, sizeof(data)), 0);
    ck_assert_int_ge(package_add_symbol(package, "start", 0x4c010, 4), 0);
    ck_assert_msg(package_write(package, &file, &error) == 0, "%s", error.text);
    put_file(name, file.data, file.size);
    buffer_free(&file);
    package_destroy(package);
}

START_TEST(packages_show_the_code_of_one_tile)
{
    write_package("p.ipuexe");
    ck_assert_msg(run("ipu-objdump", "-d p.ipuexe") == 0, "%s", output);
    expect_output("tile 3, 0x4c010, 16 bytes\nstart:\n   4c010:  19e00000           nop\n");
    expect_output(
        "   4c014:  99e00000 9ad00000  { nop ; fnop }\n   4c01c:  43a00000           br $m10");
    ck_assert_int_eq(run("ipu-objdump", "-d p.ipuexe --tile 7"), 0);
    expect_output(
        "tile 7, 0x4c010, 12 bytes\nstart:\n   4c010:  99e00000 9ad00000  { nop ; fnop }\n");
    ck_assert_ptr_null(strstr(output, "80000"));
    ck_assert_int_eq(run("ipu-objdump", "-d p.ipuexe --tile 8"), 2);
    expect_output("tile 8 has no code");
}
END_TEST

static bool tools_are_needed(const char *self)
{
    char path[4096];
    if (realpath(self, path) == NULL)
        return true;
    snprintf(tools, sizeof(tools), "%s/..", dirname(path));
    const char *level = getenv("IPUD_TEST_LEVEL");
    char tool[4200];
    snprintf(tool, sizeof(tool), "%s/ipu-objdump", tools);
    return access(tool, X_OK) == 0 || level == NULL || strcmp(level, "quick") != 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    Suite *suite = suite_create("asm_tools");
    TCase *cases = tcase_create("tools");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    if (tools_are_needed(argv[0])) {
        tcase_add_test(cases, a_source_becomes_an_object_that_objdump_shows);
        tcase_add_test(cases, options_may_stand_apart_and_in_any_order);
        tcase_add_test(cases, built_in_sources_can_be_included);
        tcase_add_test(cases, wrong_use_is_explained);
        tcase_add_test(cases, bad_files_have_one_message_and_leave_no_object);
        tcase_add_test(cases, packages_show_the_code_of_one_tile);
    }
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
