/* module: device/sim */
/* f32 instructions against double arithmetic rounded once, flags, class codes and conversions. */
#include "tests/unit/sim_program.h"

#include <math.h>
#include <stdio.h>

static struct program p;

static void setup(void)
{
    program_open(&p);
}

static void teardown(void)
{
    program_close(&p);
}

static uint32_t bits(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static float value_of(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

enum { QNAN = 0x7fc00000 };

/* Interesting and random operands; the same for every test. */
static uint32_t operand(unsigned i)
{
    static const uint32_t special[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                       0xff800000, 0x7fc00001, 0x7f800001, 1,          0x807fffff,
                                       0x7f7fffff, 0xff7fffff, 0x00800000, 0x4b800001, 0x3effffff};
    if (i < sizeof special / sizeof *special)
        return special[i];
    uint32_t x = i * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    /* Half of them with exponents near 1, so that sums mean something. */
    return (i & 1) != 0 ? x : (x & 0x807fffff) | (0x3c000000u + (x >> 4 & 7) * 0x00800000u);
}
enum { OPERANDS = 40 };

static double op_add(double b, double c)
{
    return b + c;
}
static double op_sub(double b, double c)
{
    return b - c;
}
static double op_mul(double b, double c)
{
    return b * c;
}
static double op_div(double b, double c)
{
    return b / c;
}
static double op_absadd(double b, double c)
{
    return fabs(b) + fabs(c);
}
static double op_max(double b, double c)
{
    return fmax(b, c);
}
static double op_min(double b, double c)
{
    return fmin(b, c);
}
static double op_absmax(double b, double c)
{
    return fmax(fabs(b), fabs(c));
}

struct binary {
    unsigned one, two, broadcast; /* ISA_COUNT: no such form */
    double (*operation)(double, double);
};
#define BINARY(name, b, op)                                                                        \
    {                                                                                              \
        ISA_F32##name##_AR_AR_AR, ISA_F32V2##name##_ARPAIR_ARPAIR_ARPAIR, b, op                    \
    }
static const struct binary binaries[] = {
    BINARY(ADD, ISA_F32V2ADD_ARPAIR_AR_B_ARPAIR, op_add),
    BINARY(SUB, ISA_F32V2SUB_ARPAIR_AR_B_ARPAIR, op_sub),
    BINARY(MUL, ISA_F32V2MUL_ARPAIR_AR_B_ARPAIR, op_mul),
    BINARY(ABSADD, ISA_COUNT, op_absadd),
    BINARY(MAX, ISA_COUNT, op_max),
    BINARY(MIN, ISA_COUNT, op_min),
    BINARY(ABSMAX, ISA_COUNT, op_absmax),
    {ISA_F32DIV_AR_AR_AR, ISA_COUNT, ISA_COUNT, op_div},
};

/* Rounding a double result of two f32 operands to f32 equals rounding once (53 >= 2 * 24 + 2). */
static uint32_t expected(const struct binary *row, uint32_t b, uint32_t c)
{
    float result = (float)row->operation((double)value_of(b), (double)value_of(c));
    return isnan(result) ? (uint32_t)QNAN : bits(result);
}

/* Zeros of either sign are the same maximum. */
static bool same(const struct binary *row, uint32_t got, uint32_t want)
{
    bool zeros = ((got | want) & 0x7fffffff) == 0;
    return got == want || (zeros && (row->operation == op_max || row->operation == op_min));
}

static void run_again(void)
{
    run_worker_at(&p, 0, CODE);
}

START_TEST(arithmetic_rounds_once)
{
    const struct binary *row = &binaries[_i];
    put(&p, (struct isa_inst){.form = (uint16_t)row->one, .operand = {0, 2, 4}});
    if (row->two != ISA_COUNT)
        put(&p, (struct isa_inst){.form = (uint16_t)row->two, .operand = {6, 2, 4}});
    if (row->broadcast != ISA_COUNT)
        put(&p, (struct isa_inst){.form = (uint16_t)row->broadcast, .operand = {8, 2, 4}});
    put_exit(&p);
    for (unsigned i = 0; i < OPERANDS; i++)
        for (unsigned j = 0; j < OPERANDS; j++) {
            uint32_t b0 = operand(i), b1 = operand(j + 3), c0 = operand(j), c1 = operand(i + 7);
            set_a(&p, 2, b0);
            set_a(&p, 3, b1);
            set_a(&p, 4, c0);
            set_a(&p, 5, c1);
            run_again();
            ck_assert_msg(same(row, a_reg(&p, 0), expected(row, b0, c0)), "%s %08x %08x: %08x",
                          isa_forms[row->one].mnemonic, b0, c0, a_reg(&p, 0));
            if (row->two != ISA_COUNT) {
                ck_assert(same(row, a_reg(&p, 6), expected(row, b0, c0)));
                ck_assert(same(row, a_reg(&p, 7), expected(row, b1, c1)));
            }
            if (row->broadcast != ISA_COUNT) {
                ck_assert(same(row, a_reg(&p, 8), expected(row, b0, c0)));
                ck_assert(same(row, a_reg(&p, 9), expected(row, b0, c1)));
            }
        }
}
END_TEST

struct compare {
    unsigned one, two, broadcast;
    int relation; /* bits: 1 less, 2 equal, 4 greater, 8 unordered */
};
#define COMPARE(name, relation)                                                                    \
    {                                                                                              \
        ISA_F32##name##_AR_AR_AR, ISA_F32V2##name##_ARPAIR_ARPAIR_ARPAIR,                          \
            ISA_F32V2##name##_ARPAIR_AR_B_ARPAIR, relation                                         \
    }
static const struct compare compares[] = {COMPARE(CMPEQ, 2), COMPARE(CMPNE, 13), COMPARE(CMPLT, 1),
                                          COMPARE(CMPLE, 3), COMPARE(CMPGT, 4),  COMPARE(CMPGE, 6)};

static uint32_t holds(const struct compare *row, uint32_t b, uint32_t c)
{
    float x = value_of(b), y = value_of(c);
    int outcome = isunordered(x, y) ? 8 : isless(x, y) ? 1 : isgreater(x, y) ? 4 : 2;
    return (row->relation & outcome) != 0 ? 0xffffffff : 0;
}

START_TEST(comparison_gives_all_ones_or_zero)
{
    const struct compare *row = &compares[_i];
    put(&p, (struct isa_inst){.form = (uint16_t)row->one, .operand = {0, 2, 4}});
    put(&p, (struct isa_inst){.form = (uint16_t)row->two, .operand = {6, 2, 4}});
    put(&p, (struct isa_inst){.form = (uint16_t)row->broadcast, .operand = {8, 2, 4}});
    put_exit(&p);
    for (unsigned i = 0; i < 20; i++)
        for (unsigned j = 0; j < 20; j++) {
            uint32_t b0 = operand(i), b1 = operand(j), c0 = operand(j), c1 = operand(j + 1);
            set_a(&p, 2, b0);
            set_a(&p, 3, b1);
            set_a(&p, 4, c0);
            set_a(&p, 5, c1);
            run_again();
            ck_assert_uint_eq(a_reg(&p, 0), holds(row, b0, c0));
            ck_assert_uint_eq(a_reg(&p, 6), holds(row, b0, c0));
            ck_assert_uint_eq(a_reg(&p, 7), holds(row, b1, c1));
            ck_assert_uint_eq(a_reg(&p, 9), holds(row, b0, c1));
        }
}
END_TEST

/* Long double is the oracle of the functions. */
struct function {
    unsigned form;
    long double (*f)(long double);
};
static long double f_oox(long double b)
{
    return 1 / b;
}
static long double f_oorx(long double b)
{
    return 1 / sqrtl(b);
}
static long double f_sigm(long double b)
{
    return 1 / (1 + expl(-b));
}
static const struct function functions[] = {
    {ISA_F32SQRT_AR_AR, sqrtl}, {ISA_F32OOX_AR_AR, f_oox},  {ISA_F32OORX_AR_AR, f_oorx},
    {ISA_F32EXP_AR_AR, expl},   {ISA_F32EXP2_AR_AR, exp2l}, {ISA_F32LN_AR_AR, logl},
    {ISA_F32LOG2_AR_AR, log2l}, {ISA_F32TANH_AR_AR, tanhl}, {ISA_F32SIGM_AR_AR, f_sigm}};

START_TEST(function_is_the_nearest_f32)
{
    put(&p, (struct isa_inst){.form = (uint16_t)functions[_i].form, .operand = {0, 1}});
    put_exit(&p);
    for (unsigned i = 0; i < 400; i++) {
        uint32_t b = operand(i);
        set_a(&p, 1, b);
        run_again();
        float want = (float)functions[_i].f((long double)value_of(b));
        uint32_t got = a_reg(&p, 0);
        ck_assert_msg(isnan(want) ? got == QNAN : got == bits(want), "%s(%a): %08x, expected %a",
                      isa_forms[functions[_i].form].mnemonic, (double)value_of(b), got,
                      (double)want);
    }
}
END_TEST

START_TEST(clamp_takes_its_limits_from_a_pair)
{
    set_a(&p, 2, bits(-1));
    set_a(&p, 3, bits(2));
    set_a(&p, 4, bits(-5));
    set_a(&p, 5, bits(1.5f));
    set_a(&p, 6, bits(3));
    set_a(&p, 7, bits(2));
    put(&p, I(F32CLAMP_AR_AR_ARPAIR, 0, 4, 2));
    put(&p, I(F32CLAMP_AR_AR_ARPAIR, 1, 6, 2));
    put(&p, I(F32V2CLAMP_ARPAIR_ARPAIR_ARPAIR, 8, 4, 2));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), bits(-1));
    ck_assert_uint_eq(a_reg(&p, 1), bits(2));
    ck_assert_uint_eq(a_reg(&p, 8), bits(-1));
    ck_assert_uint_eq(a_reg(&p, 9), bits(1.5f));
}
END_TEST

struct integer {
    unsigned form;
    uint32_t in, out;
    int mode;
};
static const struct integer integers[] = {
    {ISA_F32FROMI32_AR_AR, 0x80000000, 0xcf000000, 0},
    {ISA_F32FROMI32_AR_AR, 0x01000001, 0x4b800000, 0}, /* tie to even */
    {ISA_F32FROMI32_AR_AR, 0x01000003, 0x4b800002, 0},
    {ISA_F32FROMUI32_AR_AR, 0xffffffff, 0x4f800000, 0},
    {ISA_F32TOI32_AR_AR, 0x40200000, 2, 0},            /* 2.5 */
    {ISA_F32TOI32_AR_AR, 0x40200000, 3, 1},            /* up */
    {ISA_F32TOI32_AR_AR, 0xc0200000, (uint32_t)-3, 2}, /* down */
    {ISA_F32TOI32_AR_AR, 0xc0200000, (uint32_t)-2, 3}, /* to zero */
    {ISA_F32TOI32_AR_AR, 0x4f000000, 0x7fffffff, 0},   /* 2^31 saturates */
    {ISA_F32TOI32_AR_AR, 0xcf000001, 0x80000000, 0},
    {ISA_F32TOI32_AR_AR, 0x7fc00000, 0, 0},
    {ISA_F32TOUI32_AR_AR, 0x4f7fffff, 0xffffff00, 0},
    {ISA_F32TOUI32_AR_AR, 0xbf800000, 0, 0},
    {ISA_F32TOUI32_AR_AR, 0x4f800000, 0xffffffff, 0},
    {ISA_F32SUFROMUI_AR_AR, 0, 0xbf000000, 0},
    {ISA_F32SUFROMUI_AR_AR, 0x80000000, 0x2f000000, 0}, /* 2^-33 */
    {ISA_F32CLASS_AR_AR, 0x7fc00000, 2, 0},
    {ISA_F32CLASS_AR_AR, 0x80000000, 5, 0},
};

START_TEST(integer_conversion_gives_the_expected_word)
{
    const struct integer *row = &integers[_i];
    set_a(&p, 1, row->in);
    set_a(&p, 2, (uint32_t)row->mode << 16);
    put(&p, I(UPUT_UCSR8_AR, 2, 2)); /* FP_CTL.RND */
    put(&p, (struct isa_inst){.form = (uint16_t)row->form, .operand = {0, 1}});
    run_worker(&p);
    ck_assert_msg(a_reg(&p, 0) == row->out, "%s %08x: %08x, expected %08x",
                  isa_forms[row->form].mnemonic, row->in, a_reg(&p, 0), row->out);
}
END_TEST

START_TEST(f32int_rounds_by_its_mode)
{
    const float want[] = {-2, -2, -3, -2};
    set_a(&p, 1, bits(-2.5f));
    put(&p, I(F32INT_AR_AR_RND4, 0, 1, _i));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), bits(want[_i]));
}
END_TEST

START_TEST(class_codes_differ_for_every_class)
{
    const uint32_t words[] = {0xff800000, 0x7f800001, 0x7fc00000, 0xbf800000, 0x80000001,
                              0x80000000, 0,          1,          0x3f800000, 0x7f800000};
    put(&p, I(F32V2CLASS_AR_ARPAIR, 0, 2));
    put_exit(&p);
    uint32_t seen = 0;
    for (unsigned i = 0; i < 10; i++) {
        set_a(&p, 2, words[i]);
        set_a(&p, 3, words[9 - i]);
        run_again();
        uint32_t low = a_reg(&p, 0) & 255, high = a_reg(&p, 0) >> 8;
        ck_assert_uint_eq((seen >> low) & 1, 0);
        seen |= 1u << low;
        ck_assert_uint_lt(high, 16);
    }
}
END_TEST

/* --- flags --- */

struct flagged {
    unsigned form;
    uint32_t b, c, flags;
};
static const struct flagged flagged_rows[] = {
    {ISA_F32ADD_AR_AR_AR, 0x7f800000, 0xff800000, 1}, /* inf - inf */
    {ISA_F32MUL_AR_AR_AR, 0x7f7fffff, 0x40000000, 4},
    {ISA_F32DIV_AR_AR_AR, 0x3f800000, 0, 2},
    {ISA_F32DIV_AR_AR_AR, 0, 0, 1},
    {ISA_F32ADD_AR_AR_AR, 0x7fc00000, 0x3f800000, 0}, /* quiet NaN passes */
    {ISA_F32ADD_AR_AR_AR, 0x7f800000, 0x3f800000, 0},
    {ISA_F32ADD_AR_AR_AR, 0x3f800000, 0x3f800000, 0},
};

START_TEST(flags_accumulate_in_fp_sts)
{
    const struct flagged *row = &flagged_rows[_i];
    set_a(&p, 1, row->b);
    set_a(&p, 2, row->c);
    set_a(&p, 3, 0x3f800000);
    put(&p, (struct isa_inst){.form = (uint16_t)row->form, .operand = {0, 1, 2}});
    put(&p, I(F32ADD_AR_AR_AR, 4, 3, 3));
    put(&p, I(UGET_AR_UCSR8, 5, 0));
    put(&p, I(UPUT_UCSR8_AR, 1, 5)); /* FP_CLR */
    put(&p, I(UGET_AR_UCSR8, 6, 0));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 5), row->flags);
    ck_assert_uint_eq(a_reg(&p, 6), 0);
}
END_TEST

START_TEST(enabled_flag_faults_at_its_instruction)
{
    const struct flagged *row = &flagged_rows[_i];
    set_a(&p, 1, row->b);
    set_a(&p, 2, row->c);
    put(&p, I(SETZI_AR_ZIMM20, 3, (int32_t)row->flags));
    put(&p, I(UPUT_UCSR8_AR, 2, 3)); /* FP_CTL */
    put(&p, (struct isa_inst){.form = (uint16_t)row->form, .operand = {0, 1, 2}});
    const struct sim_fault *fault = run_to_fault(&p);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_FP);
    ck_assert_uint_eq(fault->pc, CODE + 8);
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void)
{
    Suite *suite = suite_create("f32");
    TCase *tests = tcase_create("arithmetic");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, arithmetic_rounds_once, 0, COUNT(binaries));
    tcase_add_loop_test(tests, comparison_gives_all_ones_or_zero, 0, COUNT(compares));
    tcase_add_loop_test(tests, function_is_the_nearest_f32, 0, COUNT(functions));
    tcase_add_test(tests, clamp_takes_its_limits_from_a_pair);
    tcase_add_loop_test(tests, integer_conversion_gives_the_expected_word, 0, COUNT(integers));
    tcase_add_loop_test(tests, f32int_rounds_by_its_mode, 0, 4);
    tcase_add_test(tests, class_codes_differ_for_every_class);
    tcase_add_loop_test(tests, flags_accumulate_in_fp_sts, 0, COUNT(flagged_rows));
    tcase_add_loop_test(tests, enabled_flag_faults_at_its_instruction, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
