/* module: device/asm */
/* What the assembler makes of source text: the C preprocessor, .macro and friends, expressions,
 * symbols, data, alignment, bundles, aliases, modes.
 */
#include "tests/unit/asm_util.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect_word(const char *source, uint32_t word)
{
    expect_words(source, &word, 1);
}

/* --- preprocessor --- */

START_TEST(dollar_is_punctuation_for_macros)
{
    expect_same("#define w_ptr m2:3\n#define base m4\n"
                "ld2x64pace $a0:1, $a2:3, $w_ptr+=, $base, 5\n",
                "ld2x64pace $a0:1, $a2:3, $m2:3+=, $m4, 5\n");
}
END_TEST

START_TEST(function_macros_substitute_stringify_and_paste)
{
    expect_same("#define ADD(a, b) add a, a, b\n#define REG(n) $m##n\nADD(REG(3), $m4)\n",
                "add $m3, $m3, $m4\n");
    expect_same("#define S(x) .ascii #x\nS(a \"b\" c)\n", ".ascii \"a \\\"b\\\" c\"\n");
    expect_same("#define V(f, ...) f __VA_ARGS__\nV(add, $m0, $m1, $m2)\n", "add $m0, $m1, $m2\n");
    expect_same("#define L(x, ...) .long x , ## __VA_ARGS__\nL(1)\nL(2, 3)\n", ".long 1, 2, 3\n");
    expect_same(".set B, 7\n#define A B\n#define B A + 1\n.long B\n", ".long 8\n");
}
END_TEST

START_TEST(macro_arguments_may_span_lines_and_nest)
{
    expect_same("#define MAX(a, b) ((a) * ((a) >= (b)) + (b) * ((b) > (a)))\n"
                ".long MAX(MAX(1, 9),\n  MAX(3,\n 4))\n",
                ".long 9\n");
    expect_same("#define CALL F\n#define F(x) x + 1\n.long CALL(2)\n", ".long 3\n");
    expect_same("#define F(x) x\n.long F\n.set F, 3\n", ".long 3\n");
}
END_TEST

START_TEST(long_macros_hold_several_statements)
{
    expect_same("#define TWO(r) \\\n  setzi r, 1 ; \\\n  add r, r, 2\nTWO($m1)\n",
                "setzi $m1, 1\nadd $m1, $m1, 2\n");
}
END_TEST

START_TEST(builtin_macros_tell_place_and_count)
{
    static const uint32_t words[] = {2, 0};
    expect_words("#define HERE __LINE__\n.long HERE\n.byte 0\n.align 4\n", words, 2);
    expect_same("\n\n.long __COUNTER__, __COUNTER__, __LINE__\n.ascii __FILE__\n",
                ".long 0, 1, 3\n.ascii \"t.S\"\n");
    expect_same("#define X 1\n.long X\n#undef X\n.set X, 2\n.long X\n#define X 3\n.long X\n",
                ".long 1, 2, 3\n");
}
END_TEST

START_TEST(conditionals_choose_by_c_expressions)
{
    static const struct {
        const char *condition;
        int holds;
    } cases[] = {{"__IPU__ && __IPU_ARCH_VERSION__ == 21", 1},
                 {"defined(NOPE) || !defined __IPU__", 0},
                 {"NOPE", 0},
                 {"(1 + 2 * 3) == 7 && (8 >> 1 | 1) == 5", 1},
                 {"1 ? 0 : 1", 0},
                 {"0 ? 1 / 0 : 1", 1},
                 {"0 && 1 / 0", 0},
                 {"-1 < 0 && ~0 == -1 && !0", 1},
                 {"1 << 4 >= 16 && 0x10 == 020 + 0b0", 1},
                 {"'A' == 65 && 7 % 4 == 3 && (6 ^ 3) == 5", 1},
                 {"CTXT_WORKERS == 6", 1},
                 {"CSR_W_FP_CLR__ZAACC__SHIFT == 3", 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char source[300];
        snprintf(source, sizeof(source), "#if %s\n.long 1\n#else\n.long 0\n#endif\n",
                 cases[i].condition);
        expect_word(source, (uint32_t)cases[i].holds);
    }
}
END_TEST

START_TEST(elif_takes_the_first_true_branch_only)
{
    static const char form[] = "#define N %d\n#if N == 1\n.long 11\n#elif N > 1\n"
                               "#ifdef X\n.long 99\n#else\n.long 12\n#endif\n#elif N > 2\n"
                               ".long 13\n#else\n.long 14\n#endif\n";
    static const uint32_t expected[] = {14, 11, 12, 12};
    for (int n = 0; n < 4; n++) {
        char source[300];
        snprintf(source, sizeof(source), form, n);
        expect_word(source, expected[n]);
    }
}
END_TEST

START_TEST(text_in_dead_branches_is_not_looked_at)
{
    expect_word("#if 0\n#error no\n#if garbage ((\n#endif\n#include \"nope\"\n'unclosed\n"
                "#else\n.long 5\n#endif\n",
                5);
    expect_word(".if 0\n bogus instruction\n .if also bogus (\n .endif\n .error \"no\"\n .else\n"
                ".long 5\n.endif\n",
                5);
}
END_TEST

static const char *one_include(void *context, const char *name, size_t *length)
{
    const char *text = context;
    if (strcmp(name, "inc/defs.h") != 0)
        return NULL;
    *length = strlen(text);
    return text;
}

START_TEST(includes_come_from_the_caller_and_share_macros)
{
    static char text[] = "#ifndef GUARD\n#define GUARD\n#define VALUE 3\n.long 1\n#endif\n";
    struct asm_options options = {.include = one_include, .include_context = text};
    static struct asm_words got;
    build_with("#include \"inc/defs.h\"\n#include <inc/defs.h>\n.long VALUE\n", &options, &got);
    ck_assert_uint_eq(got.count, 2);
    ck_assert_uint_eq(got.words[0], 1);
    ck_assert_uint_eq(got.words[1], 3);
    asm_image_free(&got.image);
}
END_TEST

START_TEST(command_line_defines_act_like_macros)
{
    struct asm_define defines[] = {{"ROWS", "17"}, {"FLAG", NULL}, {"REG", "$m5"}};
    struct asm_options options = {.defines = defines, .define_count = 3};
    static struct asm_words got;
    build_with("#if FLAG && ROWS > 16\n setzi REG, ROWS\n#endif\n", &options, &got);
    ck_assert_uint_eq(got.count, 1);
    ck_assert_uint_eq(got.words[0], 0x19500011);
    asm_image_free(&got.image);
}
END_TEST

START_TEST(a_macro_overrides_a_flag_number)
{
    expect_same("#define TAMP_F16V4_E4_P0 33\nf16v4hihov4amp $a0:1, $a2:3, $a4:5, "
                "TAMP_F16V4_E4_P0\n",
                "f16v4hihov4amp $a0:1, $a2:3, $a4:5, 33\n");
    expect_same("f16v4hihov4amp $a0:1, $a2:3, $a4:5, TAMP_F16V4_E4_P3\n",
                "f16v4hihov4amp $a0:1, $a2:3, $a4:5, 3\n");
}
END_TEST

START_TEST(the_tile_header_is_built_in)
{
    expect_word("#ifdef TMEM_REGION0_BASE_ADDR\n.long 9\n#else\n.long TMEM_REGION0_BASE_ADDR\n"
                "#endif\n",
                0x4c000);
    expect_word("#include \"arch/gc_tile_defines.h\"\n#ifdef TMEM_REGION0_BASE_ADDR\n"
                ".long CSR_S_FP_ICTL__INDEX + (CSR_S_FP_ICTL__NANOO__MASK << "
                "CSR_S_FP_ICTL__NANOO__SHIFT)\n#endif\n",
                0x100020);
    expect_word(".long CSR_W_FP_NFMT__INDEX\n", 0x109);
    expect_word(".long CSR_W_WSR__CTXTID_M1__MASK + CSR_W_WSR__CTXTID_M1__SIZE\n", 10);
}
END_TEST

START_TEST(comments_of_all_kinds_disappear)
{
    expect_same("nop // one ; nop\n# a comment, don't stop\n/* two\n lines */ nop /* x */ # y\n"
                "  # definitely text is a comment\n.ascii \"// # /* \"\n",
                "nop\nnop\n.ascii \"// # /* \"\n");
}
END_TEST

/* --- macros of the assembler --- */

START_TEST(macros_have_defaults_keywords_and_variable_arguments)
{
    expect_same(".macro m a, b=7, c:vararg\n add $m\\a, $m\\a, \\b\n \\c\n.endm\n"
                "m 1\nm 2, 9\nm b=3, a=4\nm 5, , add $m0, $m1, $m2\n",
                "add $m1, $m1, 7\nadd $m2, $m2, 9\nadd $m4, $m4, 3\nadd $m5, $m5, 7\n"
                "add $m0, $m1, $m2\n");
}
END_TEST

START_TEST(macro_text_joins_and_counts)
{
    expect_same(".macro m name\n\\name\\()_\\@: .long \\@\n.endm\nm x\nm x\n.long x_1 - x_0\n",
                ".long 0, 1, 4\n");
    expect_same(".macro two x\n\\x ; \\x\n.endm\ntwo nop\n", "nop\nnop\n");
    expect_same(".macro say s\n.ascii \\s\n.endm\n.ascii \"hi, you\"\n", ".ascii \"hi, you\"\n");
}
END_TEST

START_TEST(macros_expand_inside_bundles)
{
    expect_same(".macro aux\nfnop\n.endm\n.macro both\nnop\nfnop\n.endm\n{ nop ; aux }\n{ both }\n"
                "{\n both\n}\n",
                "{ nop ; fnop }\n{ nop ; fnop }\n{ nop\n fnop }\n");
}
END_TEST

START_TEST(macros_define_macros_and_can_be_purged)
{
    expect_same(".macro outer n\n.macro inner x\n.long \\n + \\x\n.endm\n.endm\nouter 10\ninner 5\n"
                ".purgem inner\n.macro inner x\n.long \\x\n.endm\ninner 1\n",
                ".long 15, 1\n");
}
END_TEST

START_TEST(macros_recurse_and_leave_early)
{
    expect_same(".macro count n\n.if \\n == 0\n.exitm\n.endif\n.long \\n\ncount \\n - 1\n.endm\n"
                "count 3\n.long 77\n",
                ".long 3, 2, 1, 77\n");
}
END_TEST

START_TEST(repetitions_nest_and_see_changing_symbols)
{
    expect_same(".set i, 0\n.rept 3\n.long i\n.rept 2\n.byte 9\n.endr\n.half 0\n.set i, i + 1\n"
                ".endr\n",
                ".long 0\n.byte 9, 9\n.half 0\n.long 1\n.byte 9, 9\n.half 0\n.long 2\n.byte 9, 9\n"
                ".half 0\n");
    expect_same(".irp r, 1, 2, 5\nadd $m\\r, $m0, \\r\n.endr\n.irpc d, 42\n.byte \\d\n.endr\n",
                "add $m1, $m0, 1\nadd $m2, $m0, 2\nadd $m5, $m0, 5\n.byte 4, 2\n");
    expect_same(".rept 0\nbogus\n.endr\nnop\n", "nop\n");
}
END_TEST

START_TEST(assembler_conditions_test_values_names_and_text)
{
    static const struct {
        const char *test;
        int holds;
    } cases[] = {{".if 2 > 1", 1},
                 {".ifeq 1 - 1", 1},
                 {".ifne 0", 0},
                 {".iflt -1", 1},
                 {".ifge -1", 0},
                 {".ifdef known", 1},
                 {".ifndef known", 0},
                 {".ifdef unknown", 0},
                 {".ifc a b, a b", 1},
                 {".ifnc x, x", 0},
                 {".ifb", 1},
                 {".ifnb text", 1},
                 {".ifeqs \"a\", \"a\"", 1},
                 {".if (2f - 1b) / 8 == 1", 0}};
    for (size_t i = 0; i + 1 < COUNT(cases); i++) {
        char source[200];
        snprintf(source, sizeof(source), ".set known, 1\n%s\n.long 1\n.else\n.long 0\n.endif\n",
                 cases[i].test);
        expect_word(source, (uint32_t)cases[i].holds);
    }
    expect_word(".set n, 2\n.if n == 1\n.long 1\n.elseif n == 2\n.long 2\n.elseif n == 2\n"
                ".long 3\n.else\n.long 4\n.endif\n",
                2);
}
END_TEST

/* --- expressions and symbols --- */

START_TEST(expressions_have_the_values_of_the_gnu_assembler)
{
    static const struct {
        const char *text;
        uint32_t value;
    } cases[] = {{"1 + 2 * 3", 7},
                 {"1 << 2 + 3", 7},
                 {"1 | 2 + 4", 7},
                 {"6 & 3 - 1", 1},
                 {"-8 / 2 + 010", 4},
                 {"~0 - 0b11", 0xfffffffc},
                 {"(1 < 2) + (2 <= 2) + (3 != 3)", 2},
                 {"!5 || 2 && 0", 0},
                 {"17 % 5 ^ 1", 3},
                 {"0xffffffff", 0xffffffff},
                 {"'a' + '\\n'", 107},
                 {"- - 5", 5},
                 {"1.0h", 0x3c00},
                 {"-2.0h", 0xc000},
                 {"infh", 0x7c00},
                 {"-infh", 0xfc00},
                 {"0.5h + 1", 0x3801},
                 {"6.103515625e-05h", 0x0400},
                 {"CTXT_WORKERS * 2", 12}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char source[100];
        snprintf(source, sizeof(source), ".long %s\n", cases[i].text);
        expect_word(source, cases[i].value);
    }
}
END_TEST

START_TEST(labels_work_forward_backward_and_by_number)
{
    static const uint32_t words[] = {0x19e00000, 0x40813000, 0x40813003, 0x40813003,
                                     0x0000000c, 0x40813000, 0x40813006};
    expect_words("1: start: nop\nbri 1b\nbri 1f\n1: bri 1b\n.long 1b - start\nbri start\n"
                 "2: bri 2b\n",
                 words, 7);
}
END_TEST

START_TEST(set_symbols_take_their_value_where_they_are_used)
{
    static const uint32_t words[] = {1, 2, 12};
    expect_words(".set x, 1\n.long x\nx = x + 1\n.long x\n.long later\n.equ later, 3 * 4\n", words,
                 3);
}
END_TEST

START_TEST(dot_is_the_current_address)
{
    static const uint32_t words[] = {8, ASM_TEST_BASE + 4, 0x19e00000};
    expect_words("a: .long b - a\n.long .\nb: nop\n", words, 3);
}
END_TEST

START_TEST(modifiers_choose_relocations)
{
    static const uint32_t words[] = {ASM_TEST_BASE + 8, (ASM_TEST_BASE + 8) >> 2,
                                     2u | 0x9801u << 16};
    expect_words(".long foo@abs@21\n.long foo@abs19@s2\nfoo: .half foo@relative@16@s2, "
                 "foo@abs@16@s3\n",
                 words, 3);
}
END_TEST

/* --- data and layout --- */

START_TEST(data_directives_lay_out_little_endian)
{
    static const uint32_t words[] = {0x04030201, 0xfffe1234, 0x00636261, 0xaabbccdd,
                                     0x00000000, 0x3f800000, 0x00000000};
    expect_words(".byte 1, 2, 3, 0x4\n.half 0x1234\n.short -2\n.asciz \"abc\"\n.quad 0xaabbccdd\n"
                 ".float 1.0\n.space 4\n",
                 words, 7);
    expect_same(".half 1.0h, infh\n.fill 2, 2, 0x101\n.ascii \"\\x41\\102\\n\\\\\"\n",
                ".long 0x7c003c00, 0x01010101\n.byte 0x41, 0x42, 10, 92\n");
}
END_TEST

START_TEST(code_is_aligned_with_nops_and_data_with_zeros)
{
    static const uint32_t words[] = {0x43a00000, 0x19e00000, 0x19e00000, 0x19e00000, 0x43a00000};
    expect_words("br $lr\n.align 16\nbr $lr\n", words, 5);
    expect_same(".data\n.byte 1\n.p2align 2\n.byte 2\n.balign 4, 0xff\n",
                ".data\n.long 1\n.byte 2, 0xff, 0xff, 0xff\n");
}
END_TEST

START_TEST(sections_collect_their_pieces)
{
    static const uint32_t words[] = {1, 3, 2, 4, 5, 0};
    expect_words(".section .text.a\n.long 1\n.section .data.b, \"aw\"\n.long 4\n"
                 ".section .text.a\n.long 3\n.pushsection .rodata\n.long 2\n.popsection\n"
                 ".data\n.long 5\n.bss\n.space 4\n.previous\n",
                 words, 6);
}
END_TEST

/* --- instructions --- */

START_TEST(aliases_become_real_instructions)
{
    static const struct {
        const char *alias, *real;
    } cases[] = {{"nop", "setzi $m14, 0"},
                 {"fnop", "setzi $a13, 0"},
                 {"mov $m1, $m2", "or $m1, $m2, 0"},
                 {"mov $a1, $a2", "or $a1, $a2, 0"},
                 {"mov $a0:1, $a2:3", "or64 $a0:1, $a2:3, $azeros"},
                 {"mov $m1, $a2", "atom $m1, $a2"},
                 {"zero $m3", "or $m3, $m15, $m15"},
                 {"zero $a3", "or $a3, $azero, $azero"},
                 {"zero $a2:3", "or64 $a2:3, $azeros, $azeros"},
                 {"movnz $m1, $m2, $m3", "movz $m1, $m2, $m3"},
                 {"swap16 $m1, $m2", "roll16 $m1, $m2, $m2"},
                 {"swap16 $a1, $a2", "roll16 $a1, $a2, $a2"},
                 {"strap", "put 255, $m15"},
                 {"get $a1, 2", "uget $a1, 2"},
                 {"put 2, $a1", "uput 2, $a1"},
                 {"sub $m1, $m2, 5", "add $m1, $m2, -5"},
                 {"ld32 $m1, $m2, 3", "ld32 $m1, $m2, $m15, 3"},
                 {"st64 $a0:1, $m2, 3", "st64 $a0:1, $m2, $mzero, 3"},
                 {"f16v4sisov2amp $a0:1, $a2:3, $a4:5, 1", "f16v4sisoamp $a0:1, $a2:3, $a4:5, 1"},
                 {"f16v4sisov2slic $a0:1, $a2:3, $a4:5, 1", "f16v4sisoslic $a0:1, $a2:3, $a4:5, 1"},
                 {"ldconst $m1, 0x1234", "setzi $m1, 0x1234"},
                 {"ldconst $m1, 0x89abcdef", "setzi $m1, 0xbcdef\nor $m1, $m1, 0x89a00000"},
                 {"ldconst $m1, -1", "setzi $m1, 0xfffff\nor $m1, $m1, 0xfff00000"},
                 {"ldconst $a1, 0x3f800000", "setzi $a1, 0\nor $a1, $a1, 0x3f800000"},
                 {"stm32step $m0, $m1, $m2", "stm32step $m0, $m1+=, $m2"}};
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_same(cases[i].alias, cases[i].real);
}
END_TEST

START_TEST(registers_have_many_names)
{
    static const struct {
        const char *one, *other;
    } cases[] = {{"br $lr", "br $m10"},
                 {"mov $sp, $fp", "mov $m11, $m9"},
                 {"mov $bp, $mzero", "mov $m8, $m15"},
                 {"mov $m0, $mworker_base", "mov $m0, $m12"},
                 {"mov $m0, $mvertex_base", "mov $m0, $m13"},
                 {"or64 $ap1, $ap7, $ap9", "or64 $a2:3, $a14:15, $azeros"},
                 {"ld128 $aq1, $m0, $m1, 2", "ld128 $a4:7, $m0, $m1, 2"},
                 {"ld128 $aq7, $m0, $m1, 2", "ld128 $a12:15, $m0, $m1, 2"},
                 {"tapack $mp2, $m0, $m1, $m2", "tapack $m4:5, $m0, $m1, $m2"},
                 {"ld64a32 $a1:3, $m0++, $m1, $m2", "ld64a32 $a0:3, $m0++, $m1, $m2"}};
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_same(cases[i].one, cases[i].other);
}
END_TEST

START_TEST(control_registers_are_numbers_of_the_mode)
{
    expect_same(".worker\nget $m0, $WSR\nuput $FP_CTL, $a0\nget $m1, $COUNT_L\n",
                "get $m0, 1\nuput 2, $a0\nget $m1, 96\n");
    expect_same(".supervisor\nput $CR, $m0\nput $INCOMING_MUX, $m1\nld128putcs $CWEI_3_1\n",
                "put 2, $m0\nput 160, $m1\nld128putcs 13\n");
}
END_TEST

START_TEST(send_names_words_and_branches_name_bytes)
{
    static const uint32_t words[] = {0x78200033, 0x40800001, 0x78000000u | 0x13002u << 3 | 3};
    expect_words("send 1, 6, 3\nbri 4\nhere: send 0, here, 3\n", words, 3);
}
END_TEST

START_TEST(optimisation_orders_bundles_and_shortens_repeats)
{
    static const uint32_t swapped[] = {0x99e00000, 0x9ad00000};
    expect_words(".allow_optimizations\n{ fnop ; nop }\n", swapped, 2);
    static const uint32_t kept[] = {0xc300a000, 0x9ad00000, 0x99e00000, 0x9ad00000};
    expect_words(".allow_optimizations\n{ rpt $m0, 0 ; fnop }\n{ nop ; fnop }\n", kept, 4);
    static const uint32_t lone[] = {0x19e00000, 0x4300a000, 0x99e00000, 0x9ad00000};
    expect_words(".allow_optimizations\nnop\n{ rpt $m0, 0 ; fnop }\n{ nop ; fnop }\n", lone, 4);
}
END_TEST

START_TEST(repeat_bodies_may_be_measured_by_labels)
{
    expect_same(".align 8\n{ rpt $m1, (2f - 1f) / 8 - 1 ; fnop }\n1:\n{ nop ; fnop }\n"
                "{ nop ; fnop }\n2:\n",
                ".align 8\n{ rpt $m1, 1 ; fnop }\n{ nop ; fnop }\n{ nop ; fnop }\n");
}
END_TEST

/* --- speed --- */

static double cpu_ms(void)
{
    struct timespec now;
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

START_TEST(a_kernel_of_300_lines_assembles_within_5_ms)
{
    static char source[32768];
    size_t used = (size_t)sprintf(source, "#define OUT $a2:3\n.macro amp p, x\n"
                                          "f16v4hihov4amp OUT, \\x, $a4:5, TAMP_F16V4_E4_P\\p\n"
                                          ".endm\n.section .text.k, \"ax\"\n.align 8\n.worker\n");
    for (int i = 0; i < 290; i++)
        used += (size_t)sprintf(
            source + used,
            i % 3 == 0 ? "{ ld2x64pace $azeros, $a0:1, $m2:3+=, $m4, 5 ; amp %d, $a0:1 }\n"
                       : "l%d: add $m1, $m1, (1f - l1) / 400 + CTXT_WORKERS // note\n",
            i % 3 == 0 ? i % 4 : i);
    snprintf(source + used, sizeof(source) - used, "1:\n");
    double best = 1e9;
    for (int round = 0; round < 7; round++) {
        struct buffer object = {0};
        struct ipu_error error = {0};
        double start = cpu_ms();
        ck_assert_msg(assemble_with(source, NULL, &object, &error) == 0, "%s", error.text);
        double took = cpu_ms() - start;
        best = took < best ? took : best;
        buffer_free(&object);
    }
#ifndef __SANITIZE_ADDRESS__
    ck_assert_msg(best < 5, "%.2f ms of processor time", best);
#endif
}
END_TEST

static void add_text_cases(Suite *suite)
{
    TCase *cpp = tcase_create("preprocessor"), *macros = tcase_create("macros");
    tcase_add_test(cpp, dollar_is_punctuation_for_macros);
    tcase_add_test(cpp, function_macros_substitute_stringify_and_paste);
    tcase_add_test(cpp, macro_arguments_may_span_lines_and_nest);
    tcase_add_test(cpp, long_macros_hold_several_statements);
    tcase_add_test(cpp, builtin_macros_tell_place_and_count);
    tcase_add_test(cpp, conditionals_choose_by_c_expressions);
    tcase_add_test(cpp, elif_takes_the_first_true_branch_only);
    tcase_add_test(cpp, text_in_dead_branches_is_not_looked_at);
    tcase_add_test(cpp, includes_come_from_the_caller_and_share_macros);
    tcase_add_test(cpp, command_line_defines_act_like_macros);
    tcase_add_test(cpp, a_macro_overrides_a_flag_number);
    tcase_add_test(cpp, the_tile_header_is_built_in);
    tcase_add_test(cpp, comments_of_all_kinds_disappear);
    tcase_add_test(macros, macros_have_defaults_keywords_and_variable_arguments);
    tcase_add_test(macros, macro_text_joins_and_counts);
    tcase_add_test(macros, macros_expand_inside_bundles);
    tcase_add_test(macros, macros_define_macros_and_can_be_purged);
    tcase_add_test(macros, macros_recurse_and_leave_early);
    tcase_add_test(macros, repetitions_nest_and_see_changing_symbols);
    tcase_add_test(macros, assembler_conditions_test_values_names_and_text);
    suite_add_tcase(suite, cpp);
    suite_add_tcase(suite, macros);
}

int main(void)
{
    Suite *suite = suite_create("asm_source");
    TCase *values = tcase_create("values"), *code = tcase_create("code");
    add_text_cases(suite);
    tcase_add_test(values, expressions_have_the_values_of_the_gnu_assembler);
    tcase_add_test(values, labels_work_forward_backward_and_by_number);
    tcase_add_test(values, set_symbols_take_their_value_where_they_are_used);
    tcase_add_test(values, dot_is_the_current_address);
    tcase_add_test(values, modifiers_choose_relocations);
    tcase_add_test(values, data_directives_lay_out_little_endian);
    tcase_add_test(values, code_is_aligned_with_nops_and_data_with_zeros);
    tcase_add_test(values, sections_collect_their_pieces);
    tcase_add_test(code, aliases_become_real_instructions);
    tcase_add_test(code, registers_have_many_names);
    tcase_add_test(code, control_registers_are_numbers_of_the_mode);
    tcase_add_test(code, send_names_words_and_branches_name_bytes);
    tcase_add_test(code, optimisation_orders_bundles_and_shortens_repeats);
    tcase_add_test(code, repeat_bodies_may_be_measured_by_labels);
    tcase_add_test(code, a_kernel_of_300_lines_assembles_within_5_ms);
    suite_add_tcase(suite, values);
    suite_add_tcase(suite, code);
    return run_suite(suite);
}
