/* module: device/asm */
/* Every way to write a wrong source costs one clear message with file, line and column; limits
 * hold; and running out of memory at any point is an ordinary error.
 */
#include "base/alloc.h"
#include "tests/unit/asm_util.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

struct bad {
    const char *source, *place, *message;
};

static void check_all(const struct bad *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_error(cases[i].source, cases[i].place, cases[i].message);
}

#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof((cases)[0]))

START_TEST(wrong_operands_name_what_was_expected)
{
    static const struct bad cases[] = {
        {"nop\n  bogus $m0", "2:3", "unknown instruction 'bogus'"},
        {"add $m0, $m1, 70000", "1:15", "operand 3: expected a register $m0..$m15 or a number"},
        {"add $m0, $m1, 70000", "1:15", "-32768..32767 or a number 0..65535"},
        {"add $m0, $a1, $m2", "1:10", "operand 2: expected a register $m0..$m15"},
        {"add $m0, $m1", "1:13", "operand 3: expected"},
        {"add $m0, $m1, $m2, $m3", "1:20", "expected 3 operands, found 4"},
        {"f32add $a0, $a1:2, $a3", "1:13", "$a1:2 is not a register pair or quad"},
        {"f32v2add $a0:1, $a1, $a2:3", "1:17", "expected a register $a with :B or a register pair"},
        {"ld128 $a2:5, $m0, $m1, 0", "1:7", "is not a register pair or quad"},
        {"tapack $m1:2, $m0, $m0, $m0", "1:8", "is not a register pair"},
        {"ld32step $m0, $m1, $m2, 1", "1:20", "expected the suffix += (as in ld32step"},
        {"ldd16a32 $a0, $m0, $m1, $m2@", "1:15", "expected the suffix ++"},
        {"ldb16b16 $a0:1, $m0, $m1++, $m2", "1:29", "expected the suffix >>"},
        {"ld32 $m0, $m1, $m2+=, 1", "1:16", "expected no suffix"},
        {"ld32 $m0, $m1, 4096", "1:16", "a number 0..4095"},
        {"bri 6", "1:5", "an address 0..0x1ffffc, a multiple of 4"},
        {"send 64, 0, 3", "1:6", "a number 0..63"},
        {"send 0, 0x40000, 3", "1:9", "a word address 0..0x3ffff"},
        {"or $m0, $m1, 0x1001", "1:14", "a multiple of 0x100000"},
        {"setzi $m0, 0x100000", "1:12", "a number 0..1048575"},
        {"f16v4add $a0:1, $a1:BX, $a2:3", "1:21", "expected a register number, B, BL or BU"},
        {"get $m0, $NOPE", "1:10", "there is no register $NOPE"},
        {"addz $m0, $m1, -1", "1:16", "a number 0..65535"},
        {"ldconst $m0, 0x100000000", "1:14", "fits 32 bits"},
        {"mov $m0, $a0:1", "1:1", "mov: expected registers of one kind"},
        {"nop 1", "1:1", "nop: expected no operands"},
        {"ld2x64pace $a0:1, $a0:1, $m0:1+=, $m2, 0", "1:1", "two results go to the same register"},
        {"ld2x64pace $azeros, $azeros, $m0:1+=, $m2, 0", "1:1", "the same register"},
        {"add $m0, $m1, $m2 garbage", "1:19", "unexpected text after the operands: 'garbage'"}};
    CHECK_ALL(cases);
}
END_TEST

START_TEST(wrong_modes_are_refused)
{
    static const struct bad cases[] = {
        {".supervisor\nf32add $a0, $a1, $a2", "2:1", "instruction requires: Worker mode"},
        {".worker\nsync 2", "2:1", "instruction requires: Supervisor mode"},
        {".supervisor\n{ nop ; fnop }", "2:9", "instruction requires: Worker mode"},
        {".worker\nget $m0, $SSR", "2:10", "the CSR $SSR cannot be used in Worker mode"},
        {".supervisor\nget $m0, $WSR", "2:10", "the CSR $WSR cannot be used in Supervisor mode"},
        {".worker\nget $m0, $FP_CTL", "2:10", "does not reach the CSR $FP_CTL"},
        {".worker\nuget $a0, $WSR", "2:11", "does not reach the CSR $WSR"}};
    CHECK_ALL(cases);
    static const uint32_t sync = 0x41800002;
    expect_words(".worker\n.allow_invalid_execution_mode\nsync 2\n", &sync, 1);
    expect_error(
        ".worker\n.allow_invalid_execution_mode\n.error_on_invalid_execution_mode\nsync 2\n", "4:1",
        "Supervisor mode");
}
END_TEST

START_TEST(wrong_bundles_have_distinct_messages)
{
    static const struct bad cases[] = {
        {"{ }", "1:3", "the bundle is empty"},
        {"{ nop }", "1:7", "the bundle has one instruction"},
        {"{ nop ; fnop ; fnop }", "1:16", "a bundle has two instructions, not more"},
        {"nop\n{ nop\n fnop\n", "2:1", "this bundle has no end"},
        {"nop }", "1:5", "a bundle ends here that has not begun"},
        {"{ nop ; { fnop }", "1:9", "a bundle cannot begin inside a bundle"},
        {"{ fnop ; nop }", "1:3", "the first instruction of a bundle must be a main-lane one"},
        {"{ nop ; nop }", "1:9", "the second instruction of a bundle must be an aux-lane one"},
        {"{ exitz $m0 ; fnop }", "1:3", "exitz cannot stand in a bundle"},
        {"{ ld32 $a0, $m0, 1 ; f32add $a0, $a1, $a2 }", "1:22", "write the same register"},
        {"{ ld64 $a0:1, $m0, 1 ; f32add $a1, $a1, $a2 }", "1:24", "write the same register"},
        {"{ ldconst $m0, 0x12345678 ; fnop }", "1:3", "cannot stand in a bundle"},
        {"{ nop ; .long 1 }", "1:9", "only instructions can stand in a bundle"},
        {"{ l: nop ; fnop }", "1:3", "a label cannot stand inside a bundle"}};
    CHECK_ALL(cases);
    static const uint32_t loose[] = {0x99e00000, 0x99e00000};
    expect_words(".warn_on_invalid_bundles\n{ nop ; nop }\n", loose, 2);
}
END_TEST

START_TEST(wrong_repeat_bodies_are_refused)
{
    static const struct bad cases[] = {
        {".align 8\nrpt $m0, 0\n{ nop ; fnop }", "2:1", "must be aligned to 8 bytes"},
        {"{ rpt $m0, 0 ; fnop }\n{ nop ; fnop }", "1:3", "needs a section aligned to 8 bytes"},
        {".align 8\n{ rpt $m0, 1 ; fnop }\n{ nop ; fnop }\nnop\nnop", "4:1", "only bundles"},
        {".align 8\n{ rpt $m0, 0 ; fnop }\n{ br $m0 ; fnop }", "3:3", "control or system"},
        {".align 8\n{ rpt $m0, 0 ; fnop }\n{ nop ; uput 1, $a0 }", "3:9", "control or system"},
        {".align 8\n{ rpt $m0, 0 ; fnop }\n{ rpt 3, 0 ; fnop }\n{ nop ; fnop }", "3:3",
         "control or system"},
        {".align 8\n{ rpt $m0, 0 ; fnop }\n.long 0x99e00000, 0x9ad00000", "2:3", "only bundles"},
        {".align 8\n{ rpt $m0, 3 ; fnop }\n{ nop ; fnop }", "2:3", "beyond the end"},
        {".align 8\n{ rpt $m0, (2f - 1f) / 8 ; fnop }\n1: { nop ; fnop }\n2: nop\nnop", "4:1",
         "only bundles"},
        {".align 8\n{ rpt $m0, (2f - 1f) / 8 - 1 ; fnop }\n1: 2: nop", "2:12",
         "the value -1 does not fit: expected a number 0..255"}};
    CHECK_ALL(cases);
}
END_TEST

START_TEST(wrong_symbols_and_expressions_are_refused)
{
    static const struct bad cases[] = {
        {"a: nop\na: nop", "2:1", "symbol 'a' is already defined"},
        {"a: nop\n.set a, 1", "2:6", "already defined"},
        {".equiv a, 1\n.equiv a, 2", "2:8", "already defined"},
        {"bri 1b", "1:5", "there is no label 1 before this"},
        {"bri 1f", "1:5", "there is no label 1 after this"},
        {".long 5 +", "1:10", "expected a number, a symbol or ("},
        {".long (5", "1:9", "expected ')' of the expression"},
        {".long 5 5", "1:9", "unexpected text after .long"},
        {".long 08", "1:8", "not a digit of a number in base 8"},
        {".long 0x1ffffffff0000000000", "1:7", "does not fit 64 bits"},
        {".long 1.5", "1:7", "half-precision literal that ends in h"},
        {".half 70000.0h", "1:7", "overflows"},
        {".byte 256", "1:7", "the value 256 does not fit 1 bytes"},
        {".byte later\n.set later, -129", "1:7", "does not fit 1 bytes"},
        {".long a * 2\na:", "1:7", "not known to the assembler or the linker"},
        {".long a - b\n.section .x, \"a\"\na:\n.text\nb:", "1:7", "they are not in one section"},
        {".long a - nowhere\na:", "1:7", "symbol 'nowhere' is not defined"},
        {".set a, b\n.set b, a\n.long a", "3:7", "not known"},
        {".rept later\n.endr\n.set later, 1", "1:7", "whose value is known here"},
        {".long 1 / 0", "1:7", "not known"},
        {".long a@abs@7\na:", "1:8", "unknown symbol modifier"},
        {"ld32 $m0, $m1, a\na:", "1:16", "this operand cannot hold an address"},
        {"nop\n.long 'a", "2:7", "expected ' after the character"}};
    CHECK_ALL(cases);
}
END_TEST

START_TEST(wrong_directives_and_macros_are_refused)
{
    static const struct bad cases[] = {
        {".bogus 1", "1:1", "unknown directive '.bogus'"},
        {".align 3", "1:8", "power of two"},
        {".space -1", "1:8", "negative"},
        {".section .x, \"q\"", "1:17", "unknown section flag 'q'"},
        {".section .x, \"a\"\nnop", "2:1", "stands in section .x, which is not executable"},
        {".byte 1\nnop", "2:1", "aligned to 4 bytes"},
        {"nop\nsendpicp 0, 0, 0, 0, 0, 0", "2:1", "sendpicp must be aligned to 8 bytes"},
        {".bss\n.long 1", "2:1", "can only hold zeros"},
        {".popsection", "1:1", "there is no .pushsection"},
        {".previous", "1:1", "there is no previous section"},
        {".error \"stop here\"", "1:1", "stop here"},
        {".if 1\nnop", "1:1", "this .if has no .endif"},
        {".endif", "1:1", "there is no .if"},
        {".if 1\n.else\n.else\n.endif", "3:1", "already has an .else"},
        {".macro m\nnop", "1:1", "this .macro has no .endm"},
        {".endm", "1:1", "there is no .macro for this"},
        {".rept 2\nnop", "1:1", "has no .endr"},
        {".macro m\n.endm\n.macro m\n.endm", "3:8", "macro 'm' is already defined"},
        {".macro m a:req\n.endm\nm", "3:1", "needs a value for 'a'"},
        {".macro m a\n.endm\nm 1, 2", "3:6", "too many arguments"},
        {".macro m a:vararg, b\n.endm", "1:20", "must be the last one"},
        {".purgem m", "1:9", "there is no macro 'm'"},
        {".exitm", "1:1", "outside a macro"},
        {".macro m\nm\n.endm\nm", "2:1", "nested more than 64 deep"},
        {".macro m x\n add $m0, $m1, \\x\n.endm\nm $a0", "2:16", "expected"},
        {".macro m x\n add $m0, $m1, \\x\n.endm\nm $a0", "2:16", "(in m at t.S:4)"},
        {"@", "1:1", "expected a label, a directive or an instruction"}};
    CHECK_ALL(cases);
}
END_TEST

START_TEST(wrong_preprocessor_text_is_refused)
{
    static const struct bad cases[] = {
        {"#if 1\nnop", "1:1", "this #if has no #endif"},
        {"#endif", "1:2", "there is no #if"},
        {"#if 1\n#else\n#else\n#endif", "3:2", "second #else"},
        {"#if 1 +\n#endif", "1:8", "expected an expression"},
        {"#if (1\n#endif", "1:7", "expected )"},
        {"#if 1 / 0\n#endif", "1:10", "division by zero"},
        {"#if 1 2\n#endif", "1:7", "unexpected text after the expression"},
        {"#error this is wrong", "1:1", "#error this is wrong"},
        {"nop\n#include \"none.h\"", "2:1", "cannot find the include file 'none.h'"},
        {"#include none", "1:10", "expected \"file\" or <file>"},
        {"#define 5", "1:9", "expected a macro name"},
        {"#define F(x", "1:12", "expected , or )"},
        {"#define F(a, b) a\n.long F(1)", "2:7", "macro F: expected 2 arguments, found 1"},
        {"#define F(a) a\n.long F(1\n", "2:7", "its argument list has no closing )"},
        {"nop /* open\n", "1:5", "the comment has no end"}};
    CHECK_ALL(cases);
}
END_TEST

/* --- limits --- */

static const char *include_self(void *context, const char *name, size_t *length)
{
    (void)name;
    *length = strlen(context);
    return context;
}

START_TEST(endless_includes_end)
{
    static char text[] = "#include \"again\"\n";
    struct asm_options options = {.include = include_self, .include_context = text};
    struct buffer object = {0};
    struct ipu_error error;
    ck_assert_int_eq(assemble_with(text, &options, &object, &error), IPU_ERR_COMPILE);
    ck_assert_ptr_nonnull(strstr(error.text, "nested more than 32 deep"));
}
END_TEST

START_TEST(exploding_sources_end)
{
    static const struct bad cases[] = {
        {".rept 100000000\nnop\n.endr", "2:1", "more than 400000 statements"},
        {".rept 1000\n.rept 1000\nnop\n.endr\n.endr", "3:1", "more than 400000 statements"},
        {".space 5000000", "1:1", "beyond 4194304 bytes"},
        {".fill 4194304, 8, 1", "1:1", "beyond 4194304 bytes"},
        {"#define A B B B B B B B B\n#define B C C C C C C C C\n#define C D D D D D D D D\n"
         "#define D E E E E E E E E\n#define E F F F F F F F F\n#define F G G G G G G G G\n"
         "#define G H H H H H H H H\n#define H 1 + 1 + 1 + 1\n.long A",
         "9:1", "more than 2000000 tokens"},
        {".macro m a\nm \"\\a\\a\\a\\a\"\n.endm\nm 0123456789", "2:1", ""}};
    check_all(cases, 5);
    struct ipu_error error;
    struct buffer object = {0};
    ck_assert_int_eq(assemble_with(cases[5].source, NULL, &object, &error), IPU_ERR_COMPILE);
}
END_TEST

static char *repeated(const char *start, const char *unit, size_t count, const char *end)
{
    size_t size = strlen(start) + strlen(unit) * count + strlen(end) + 1;
    char *text = malloc(size), *at = text;
    ck_assert_ptr_nonnull(text);
    at += sprintf(at, "%s", start);
    for (size_t i = 0; i < count; i++)
        at += sprintf(at, "%s", unit);
    sprintf(at, "%s", end);
    return text;
}

START_TEST(deep_and_long_text_ends)
{
    static const struct {
        const char *start, *unit, *end, *message;
        size_t count;
    } cases[] = {{".long ", "(", "1", "nested too deep", 5000},
                 {".long ", "-", "1", "nested too deep", 5000},
                 {"#if ", "(", "1\n#endif", "nested too deep", 5000},
                 {"#if ", "!", "1\n#endif", "nested too deep", 5000},
                 {"", "#if 1\n", "", "nested more than 64 deep", 100},
                 {"", ".if 1\n", "", "nested more than 64 deep", 100},
                 {"#define F(x) x\n.long ", "F(", "1", "no closing )", 200},
                 {"nop //", "x", "", "", 100000},
                 {".ascii \"", "x", "\"", "longer than 65535", 70000},
                 {".long 1", " + 1", "", "", 5000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer object = {0};
        struct ipu_error error = {0};
        char *text = repeated(cases[i].start, cases[i].unit, cases[i].count, cases[i].end);
        int code = assemble_with(text, NULL, &object, &error);
        if (cases[i].message[0] != '\0') {
            ck_assert_int_eq(code, IPU_ERR_COMPILE);
            ck_assert_msg(strstr(error.text, cases[i].message) != NULL, "case %zu: %s", i,
                          error.text);
        }
        buffer_free(&object);
        free(text);
    }
}
END_TEST

START_TEST(running_out_of_memory_anywhere_is_an_error)
{
    static const char source[] =
        "#define N 2\n.macro m x\n.rept \\x\nld32 $m0, $m1, \\x\n.endr\n.endm\n.section .text.a\n"
        ".globl f\n.align 8\nf: m N\n{ rpt $m0, 0 ; fnop }\n{ nop ; fnop }\ncall $lr, g\n.data\n"
        "t: .long f, later\n.set later, 5\n";
    int succeeded = 0;
    for (long n = 0; n < 400 && !succeeded; n++) {
        struct buffer object = {0};
        struct ipu_error error = {0};
        ipu_alloc_fail_after(n, 0);
        int code = assemble_with(source, NULL, &object, &error);
        ipu_alloc_fail_after(-1, 0);
        ck_assert_msg(code == 0 || code == IPU_ERR_NO_MEMORY, "call %ld: code %d: %s", n, code,
                      error.text);
        succeeded = code == 0;
        if (code != 0)
            ck_assert_ptr_null(object.data);
        ck_assert(n > 3 || code != 0);
        buffer_free(&object);
    }
    ck_assert(succeeded);
}
END_TEST

START_TEST(errors_may_be_ignored_by_the_caller)
{
    struct buffer object = {0};
    ck_assert_int_eq(assemble_with("bogus", NULL, &object, NULL), IPU_ERR_COMPILE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asm_error");
    TCase *text = tcase_create("text"), *limits = tcase_create("limits");
    tcase_set_timeout(limits, 60);
    tcase_add_test(text, wrong_operands_name_what_was_expected);
    tcase_add_test(text, wrong_modes_are_refused);
    tcase_add_test(text, wrong_bundles_have_distinct_messages);
    tcase_add_test(text, wrong_repeat_bodies_are_refused);
    tcase_add_test(text, wrong_symbols_and_expressions_are_refused);
    tcase_add_test(text, wrong_directives_and_macros_are_refused);
    tcase_add_test(text, wrong_preprocessor_text_is_refused);
    tcase_add_test(limits, endless_includes_end);
    tcase_add_test(limits, exploding_sources_end);
    tcase_add_test(limits, deep_and_long_text_ends);
    tcase_add_test(limits, running_out_of_memory_anywhere_is_an_error);
    tcase_add_test(limits, errors_may_be_ignored_by_the_caller);
    suite_add_tcase(suite, text);
    suite_add_tcase(suite, limits);
    return run_suite(suite);
}
