/* module: device/sim */
/* f16 instructions, in the portable and the fast build: every code of the conversions, arithmetic
 * against an exact oracle, overflow modes, stochastic rounding. */
#include "device/sim/core.h"
#include "tests/unit/sim_program.h"

#include <math.h>

static struct program p;
static struct sim_context *c; /* worker 0 */

static void setup(void)
{
    program_open(&p);
    c = &p.tile->context[1];
}

static void teardown(void)
{
    program_close(&p);
}

/* --- the oracle: exact values in double, rounded by nearbyint --- */

static double half_value(uint32_t code)
{
    int exponent = (int)(code >> 10 & 31);
    double mantissa = (double)(code & 1023), value;
    if (exponent == 31)
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, -24);
    else
        value = ldexp(mantissa + 1024, exponent - 25);
    return (code & 0x8000) != 0 ? -value : value;
}

/* Nearest even; overflow saturates (NANOO = 0); NaN is 0x7e00. */
static uint32_t half_nearest(double value)
{
    if (isnan(value))
        return 0x7e00;
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    value = fabs(value);
    if (isinf(value))
        return sign | 0x7c00;
    int exponent = 0;
    frexp(value, &exponent);
    int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    double steps = nearbyint(ldexp(value, -unit));
    double rounded = ldexp(steps, unit);
    if (rounded > 65504)
        return sign | 0x7bff;
    if (rounded < ldexp(1, -14))
        return sign | (uint32_t)ldexp(rounded, 24);
    frexp(rounded, &exponent);
    return sign | ((uint32_t)(exponent + 14) << 10) |
           ((uint32_t)ldexp(rounded, 11 - exponent) & 1023);
}

static uint32_t bits(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

/* Both builds of a form: _i selects. */
static sim_exec *handler(unsigned form, int fast)
{
    return fast != 0 ? sim_handler(form, sim_host_is_fast()) : sim_handlers[form];
}

static struct sim_half operands(unsigned r0, unsigned r1, unsigned r2)
{
    return (struct sim_half){.r = {(uint8_t)r0, (uint8_t)r1, (uint8_t)r2}};
}

START_TEST(every_f16_code_widens_exactly)
{
    struct sim_half h = operands(0, 1, 2), pair = operands(2, 1, 0);
    for (uint32_t code = 0; code < 0x10000; code++) {
        c->a[1] = code | (code ^ 0x8000) << 16;
        ck_assert_int_eq(handler(ISA_F16TOF32_AR_AR, _i)(c, &h), 0);
        ck_assert_int_eq(handler(ISA_F16V2TOF32_ARPAIR_AR, _i)(c, &pair), 0);
        double want = half_value(code);
        uint32_t word = isnan(want) ? 0x7fc00000 : bits((float)want);
        if (c->a[0] != word || c->a[2] != word)
            ck_abort_msg("%04x: %08x %08x, expected %08x", code, c->a[0], c->a[2], word);
        uint32_t other = isnan(want) ? 0x7fc00000 : word ^ 0x80000000;
        if (c->a[3] != other)
            ck_abort_msg("%04x negated: %08x", code, c->a[3]);
    }
}
END_TEST

/* Around every f16 value and every tie between neighbours. */
START_TEST(f32_narrows_to_the_nearest_f16)
{
    struct sim_half one = operands(0, 1, 2), two = operands(2, 4, 0), four = operands(2, 4, 0);
    for (uint32_t code = 0; code < 0x7c00; code++) {
        float low = (float)half_value(code),
              tie =
                  (float)((half_value(code) + (code == 0x7bff ? 65536 : half_value(code + 1))) / 2);
        float values[4] = {low, tie, nextafterf(tie, 0), -nextafterf(tie, INFINITY)};
        for (unsigned i = 0; i < 4; i++)
            c->a[4 + i] = bits(values[i]);
        c->a[1] = c->a[5];
        handler(ISA_F32TOF16_AR_AR, _i)(c, &one);
        uint32_t want[4];
        for (unsigned i = 0; i < 4; i++)
            want[i] = half_nearest((double)values[i]);
        ck_assert_uint_eq(c->a[0], want[1] * 0x10001u);
        handler(ISA_F32V4TOF16_ARPAIR_ARQUAD, _i)(c, &four);
        ck_assert_uint_eq(c->a[2], want[0] | want[1] << 16);
        ck_assert_uint_eq(c->a[3], want[2] | want[3] << 16);
        handler(ISA_F32V2TOF16_AR_ARPAIR, _i)(c, &two);
        ck_assert_uint_eq(c->a[2], want[0] | want[1] << 16);
    }
}
END_TEST

START_TEST(overflow_saturates_or_gives_nan_and_raises_oflo)
{
    struct sim_half h = operands(0, 1, 0);
    const float values[] = {65520, -1e9f, 3e38f};
    for (unsigned i = 0; i < 3; i++) {
        c->a[1] = bits(values[i]);
        c->fp_sts = 0;
        c->fp_ctl = 0;
        handler(ISA_F32TOF16_AR_AR, _i)(c, &h);
        ck_assert_uint_eq(c->a[0] & 0xffff, values[i] < 0 ? 0xfbff : 0x7bff);
        ck_assert_uint_eq(c->fp_sts, SIM_FP_OFLO);
        c->fp_ctl = SIM_FP_NANOO;
        handler(ISA_F32TOF16_AR_AR, _i)(c, &h);
        ck_assert_uint_eq(c->a[0] & 0xffff, 0x7e00);
        c->fp_ctl = SIM_FP_OFLO;
        ck_assert_int_eq(handler(ISA_F32TOF16_AR_AR, _i)(c, &h), SIM_ETYPE_FP);
    }
    c->fp_ctl = 0;
    c->fp_sts = 0;
    c->a[1] = bits(INFINITY); /* no overflow: it was infinite before */
    handler(ISA_F32TOF16_AR_AR, _i)(c, &h);
    ck_assert_uint_eq(c->a[0] & 0xffff, 0x7c00);
    ck_assert_uint_eq(c->fp_sts, 0);
}
END_TEST

/* --- arithmetic --- */

static uint32_t half_operand(unsigned i)
{
    static const uint16_t special[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00,
                                       0x7d01, 1,      0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3555};
    if (i < sizeof special / sizeof *special)
        return special[i];
    return (i * 40503u) >> 3 & 0xffff;
}
enum { OPERANDS = 64 };

static double op_add(double x, double y)
{
    return x + y;
}
static double op_sub(double x, double y)
{
    return x - y;
}
static double op_mul(double x, double y)
{
    return x * y;
}
static double op_absadd(double x, double y)
{
    return fabs(x) + fabs(y);
}
static double op_max(double x, double y)
{
    return fmax(x, y);
}
static double op_min(double x, double y)
{
    return fmin(x, y);
}
static double op_absmax(double x, double y)
{
    return fmax(fabs(x), fabs(y));
}

struct family {
    unsigned two, four;
    unsigned two_low, two_high, four_low, four_high; /* ISA_COUNT: none */
    double (*operation)(double, double);
};
#define PLAIN(name, op)                                                                            \
    {                                                                                              \
        ISA_F16V2##name##_AR_AR_AR, ISA_F16V4##name##_ARPAIR_ARPAIR_ARPAIR, ISA_COUNT, ISA_COUNT,  \
            ISA_COUNT, ISA_COUNT, op                                                               \
    }
#define BROADCAST(name, op)                                                                        \
    {                                                                                              \
        ISA_F16V2##name##_AR_AR_AR, ISA_F16V4##name##_ARPAIR_ARPAIR_ARPAIR,                        \
            ISA_F16V2##name##_AR_AR_BL_AR, ISA_F16V2##name##_AR_AR_BU_AR,                          \
            ISA_F16V4##name##_ARPAIR_AR_BL_ARPAIR, ISA_F16V4##name##_ARPAIR_AR_BU_ARPAIR, op       \
    }
static const struct family families[] = {BROADCAST(ADD, op_add),  BROADCAST(SUB, op_sub),
                                         BROADCAST(MUL, op_mul),  PLAIN(ABSADD, op_absadd),
                                         PLAIN(MAX, op_max),      PLAIN(MIN, op_min),
                                         PLAIN(ABSMAX, op_absmax)};

/* The exact sum or product of two f16 fits a double. The sign of a zero maximum is free. */
static void check_lane(const struct family *f, uint32_t b, uint32_t y, uint32_t got)
{
    uint32_t want = half_nearest(f->operation(half_value(b), half_value(y)));
    bool zeros = ((got | want) & 0x7fff) == 0 && (f->operation == op_max || f->operation == op_min);
    if (got != want && !zeros)
        ck_abort_msg("%s %04x %04x: %04x, expected %04x", isa_forms[f->two].mnemonic, b, y, got,
                     want);
}

static uint32_t lane(const uint32_t *words, unsigned i)
{
    return words[i / 2] >> (16 * (i % 2)) & 0xffff;
}

static void check_form(const struct family *f, unsigned form, int fast, unsigned lanes, int half)
{
    if (form == ISA_COUNT)
        return;
    struct sim_half h = operands(0, 2, 4);
    handler(form, fast)(c, &h);
    for (unsigned i = 0; i < lanes; i++)
        check_lane(f, half < 0 ? lane(&c->a[2], i) : lane(&c->a[2], (unsigned)half),
                   lane(&c->a[4], i), lane(&c->a[0], i));
}

START_TEST(f16_arithmetic_rounds_once)
{
    const struct family *f = &families[_i / 2];
    int fast = _i % 2;
    for (unsigned i = 0; i < OPERANDS; i++)
        for (unsigned j = 0; j < OPERANDS; j++) {
            c->a[2] = half_operand(i) | half_operand(j + 5) << 16;
            c->a[3] = half_operand(j + 1) | half_operand(i + 9) << 16;
            c->a[4] = half_operand(j) | half_operand(i + 2) << 16;
            c->a[5] = half_operand(i + 3) | half_operand(j + 4) << 16;
            check_form(f, f->two, fast, 2, -1);
            check_form(f, f->four, fast, 4, -1);
            check_form(f, f->two_low, fast, 2, 0);
            check_form(f, f->two_high, fast, 2, 1);
            check_form(f, f->four_low, fast, 4, 0);
            check_form(f, f->four_high, fast, 4, 1);
        }
}
END_TEST

START_TEST(two_lane_form_leaves_its_neighbour_register_alone)
{
    struct sim_half h = operands(0, 2, 4);
    c->a[1] = 0x1234;
    handler(ISA_F16V2ADD_AR_AR_AR, _i)(c, &h);
    ck_assert_uint_eq(c->a[1], 0x1234);
}
END_TEST

struct compare {
    unsigned two, two_low, two_high, four, four_low, four_high;
    int relation; /* bits: 1 less, 2 equal, 4 greater, 8 unordered */
};
#define COMPARE(n, relation)                                                                       \
    {                                                                                              \
        ISA_F16V2##n##_AR_AR_AR, ISA_F16V2##n##_AR_AR_BL_AR, ISA_F16V2##n##_AR_AR_BU_AR,           \
            ISA_F16V4##n##_ARPAIR_ARPAIR_ARPAIR, ISA_F16V4##n##_ARPAIR_AR_BL_ARPAIR,               \
            ISA_F16V4##n##_ARPAIR_AR_BU_ARPAIR, relation                                           \
    }
static const struct compare compares[] = {COMPARE(CMPEQ, 2), COMPARE(CMPNE, 13), COMPARE(CMPLT, 1),
                                          COMPARE(CMPLE, 3), COMPARE(CMPGT, 4),  COMPARE(CMPGE, 6)};

static void check_compare(const struct compare *row, unsigned form, int fast, unsigned lanes,
                          int half)
{
    struct sim_half h = operands(0, 2, 4);
    handler(form, fast)(c, &h);
    for (unsigned i = 0; i < lanes; i++) {
        double x = half_value(half < 0 ? lane(&c->a[2], i) : lane(&c->a[2], (unsigned)half));
        double y = half_value(lane(&c->a[4], i));
        int outcome = isunordered(x, y) ? 8 : x < y ? 1 : x > y ? 4 : 2;
        ck_assert_uint_eq(lane(&c->a[0], i), (row->relation & outcome) != 0 ? 0xffff : 0);
    }
}

START_TEST(f16_comparison_gives_all_ones_or_zero)
{
    const struct compare *row = &compares[_i / 2];
    for (unsigned i = 0; i < 20; i++)
        for (unsigned j = 0; j < 20; j++) {
            c->a[2] = half_operand(i) | half_operand(j + 5) << 16;
            c->a[3] = half_operand(j) | half_operand(i + 9) << 16;
            c->a[4] = half_operand(j) | half_operand(i + 2) << 16;
            c->a[5] = half_operand(j) | half_operand(j + 4) << 16;
            check_compare(row, row->two, _i % 2, 2, -1);
            check_compare(row, row->two_low, _i % 2, 2, 0);
            check_compare(row, row->two_high, _i % 2, 2, 1);
            check_compare(row, row->four, _i % 2, 4, -1);
            check_compare(row, row->four_low, _i % 2, 4, 0);
            check_compare(row, row->four_high, _i % 2, 4, 1);
        }
}
END_TEST

START_TEST(f16_clamp_takes_low_and_high_half_as_limits)
{
    struct sim_half h = operands(0, 2, 4);
    c->a[2] = 0xc400 | 0x3800 << 16;  /* -4, 0.5 */
    c->a[3] = 0x4400 | 0x7e00u << 16; /* 4, NaN */
    c->a[4] = 0xbc00 | 0x4000 << 16;  /* -1 .. 2 */
    handler(ISA_F16V4CLAMP_ARPAIR_ARPAIR_AR, _i)(c, &h);
    ck_assert_uint_eq(c->a[0], 0xbc00 | 0x3800 << 16);
    ck_assert_uint_eq(c->a[1] & 0xffff, 0x4000);
    handler(ISA_F16V2CLAMP_AR_AR_AR, _i)(c, &h);
    ck_assert_uint_eq(c->a[0], 0xbc00 | 0x3800 << 16);
}
END_TEST

START_TEST(invalid_f16_operation_raises_inv)
{
    struct sim_half h = operands(0, 2, 4);
    c->a[2] = 0x7c00;
    c->a[4] = 0x7c00;
    handler(ISA_F16V2SUB_AR_AR_AR, _i)(c, &h);
    ck_assert_uint_eq(c->a[0], 0x7e00);
    ck_assert_uint_eq(c->fp_sts, SIM_FP_INV);
}
END_TEST

/* --- stochastic rounding --- */

START_TEST(stochastic_rounding_keeps_exact_values_and_averages_out)
{
    enum { TRIALS = 4000 };
    struct sim_half h = operands(0, 1, 0);
    c->fp_ctl = SIM_FP_ESR;
    c->prng[0] = 0x123456789abcdefu;
    c->prng[1] = 0xfedcba987654321u;
    /* 1 + 1/4 of a step of 2^-10, and the same below the subnormal limit. */
    const float values[] = {1 + 0x1p-12f, -(1 + 0x1p-12f), 0x1.8p-20f + 0x1p-26f};
    for (unsigned i = 0; i < 3; i++) {
        double sum = 0;
        for (unsigned t = 0; t < TRIALS; t++) {
            c->a[1] = bits(values[i]);
            handler(ISA_F32TOF16_AR_AR, _i)(c, &h);
            sum += half_value(c->a[0] & 0xffff);
        }
        double step = i == 2 ? 0x1p-24 : 0x1p-10;
        double error = fabs(sum / TRIALS - (double)values[i]) / step;
        ck_assert_msg(error < 0.04, "mean is off by %g steps", error);
    }
    for (uint32_t code = 0; code < 0x7c00; code += 7) {
        c->a[1] = bits((float)half_value(code));
        handler(ISA_F32TOF16_AR_AR, _i)(c, &h);
        ck_assert_uint_eq(c->a[0] & 0xffff, code);
    }
}
END_TEST

/* --- functions and lateral forms --- */

struct function {
    unsigned form;
    double (*f)(double);
};
static double f_sigm(double x)
{
    return 1 / (1 + exp(-x));
}
static const struct function functions[] = {
    {ISA_F16V2EXP_AR_AR, exp},   {ISA_F16V2EXP2_AR_AR, exp2}, {ISA_F16V2LN_AR_AR, log},
    {ISA_F16V2LOG2_AR_AR, log2}, {ISA_F16V2TANH_AR_AR, tanh}, {ISA_F16V2SIGM_AR_AR, f_sigm}};

START_TEST(f16_function_is_the_nearest_of_every_code)
{
    struct sim_half h = operands(0, 1, 0);
    for (uint32_t code = 0; code < 0x10000; code++) {
        c->a[1] = code | code << 16;
        sim_handlers[functions[_i].form](c, &h);
        double x = half_value(code), value = (double)(float)functions[_i].f(x);
        if (isinf(value) && !isinf(x) && x != 0)
            value = copysign(1e30, value); /* overflow: not an exact infinity */
        uint32_t want = half_nearest(value);
        if (c->a[0] != want * 0x10001u)
            ck_abort_msg("%s %04x: %08x, expected %04x", isa_forms[functions[_i].form].mnemonic,
                         code, c->a[0], want);
    }
}
END_TEST

START_TEST(lateral_forms_combine_neighbours)
{
    set_a(&p, 2, 0x3c00 | 0x4000 << 16);  /* 1, 2 */
    set_a(&p, 3, 0xc200u | 0x4400 << 16); /* -3, 4 */
    put(&p, I(F16V2SUM_AR_AR, 0, 2));
    put(&p, I(F16V4SUM_ARPAIR_ARPAIR, 4, 2));
    put(&p, I(F16V2MAXC_AR_AR, 1, 2));
    put(&p, I(F16V4MAXC_AR_ARPAIR, 6, 2));
    put(&p, I(F16V2CLASS_AR_AR, 7, 2));
    put(&p, I(F16V4CLASS_AR_ARPAIR, 8, 2));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), bits(3));
    ck_assert_uint_eq(a_reg(&p, 4), bits(3));
    ck_assert_uint_eq(a_reg(&p, 5), bits(1));
    ck_assert_uint_eq(a_reg(&p, 1), 0x40004000);
    ck_assert_uint_eq(a_reg(&p, 6), 0x44004000);
    ck_assert_uint_eq(a_reg(&p, 7), 0x0808);
    ck_assert_uint_eq(a_reg(&p, 8), 0x08030808);
}
END_TEST

START_TEST(symmetric_uniforms_are_centred)
{
    set_a(&p, 2, 0xffff0000);
    set_a(&p, 3, 0x80007fff);
    put(&p, I(F16V2SUFROMUI_AR_AR, 0, 2));
    put(&p, I(F16V4SUFROMUI_ARPAIR_ARPAIR, 4, 2));
    run_worker(&p);
    double want[] = {0x0.8p-16 - 0.5, 65535.5 / 65536 - 0.5, 32767.5 / 65536 - 0.5,
                     32768.5 / 65536 - 0.5};
    ck_assert_uint_eq(a_reg(&p, 0), half_nearest(want[0]) | half_nearest(want[1]) << 16);
    ck_assert_uint_eq(a_reg(&p, 4), half_nearest(want[0]) | half_nearest(want[1]) << 16);
    ck_assert_uint_eq(a_reg(&p, 5), half_nearest(want[2]) | half_nearest(want[3]) << 16);
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void)
{
    Suite *suite = suite_create("f16");
    TCase *tests = tcase_create("both builds");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, every_f16_code_widens_exactly, 0, 2);
    tcase_add_loop_test(tests, f32_narrows_to_the_nearest_f16, 0, 2);
    tcase_add_loop_test(tests, overflow_saturates_or_gives_nan_and_raises_oflo, 0, 2);
    tcase_add_loop_test(tests, f16_arithmetic_rounds_once, 0, 2 * COUNT(families));
    tcase_add_loop_test(tests, two_lane_form_leaves_its_neighbour_register_alone, 0, 2);
    tcase_add_loop_test(tests, f16_comparison_gives_all_ones_or_zero, 0, 2 * COUNT(compares));
    tcase_add_loop_test(tests, f16_clamp_takes_low_and_high_half_as_limits, 0, 2);
    tcase_add_loop_test(tests, invalid_f16_operation_raises_inv, 0, 2);
    tcase_add_loop_test(tests, stochastic_rounding_keeps_exact_values_and_averages_out, 0, 2);
    suite_add_tcase(suite, tests);
    TCase *single = tcase_create("functions");
    tcase_set_timeout(single, 60);
    tcase_add_checked_fixture(single, setup, teardown);
    tcase_add_loop_test(single, f16_function_is_the_nearest_of_every_code, 0, COUNT(functions));
    tcase_add_test(single, lateral_forms_combine_neighbours);
    tcase_add_test(single, symmetric_uniforms_are_centred);
    suite_add_tcase(suite, single);
    return run_suite(suite);
}
