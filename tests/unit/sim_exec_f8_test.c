/* module: device/sim */
/* f8 conversions: every code both ways, rounding, scales, overflow. */
#include "device/sim/core.h"
#include "tests/unit/sim_program.h"

#include "base/half.h"

#include <math.h>

static struct program p;
static struct sim_context *c;

static void setup(void)
{
    program_open(&p);
    c = &p.tile->context[1];
}

static void teardown(void)
{
    program_close(&p);
}

enum { F152 = 0, F143 = 2 }; /* FP_NFMT */

/* sign 1, exponent e, mantissa m; bias 8 or 16; facts/isa_semantics.md section 5. */
static double f8_value(uint32_t code, int format)
{
    if (code == 0x80)
        return (double)NAN;
    int m = format == F143 ? 3 : 2, bias = format == F143 ? 8 : 16;
    int exponent = (int)(code & 0x7f) >> m, mantissa = (int)code & ((1 << m) - 1);
    double value = exponent == 0 ? ldexp(mantissa, 1 - bias - m)
                                 : ldexp(mantissa + (1 << m), exponent - bias - m);
    return (code & 0x80) != 0 ? -value : value;
}

static void issue(unsigned form, unsigned r0, unsigned r1)
{
    struct sim_half h = {.form = (uint16_t)form, .r = {(uint8_t)r0, (uint8_t)r1}};
    ck_assert_int_eq(sim_handlers[form](c, &h), 0);
}

static float half_lane(unsigned reg, unsigned i)
{
    return half_to_float((uint16_t)(c->a[reg + i / 2] >> (16 * (i % 2))));
}

START_TEST(largest_and_smallest_values_are_as_documented)
{
    ck_assert(f8_value(0x7f, F143) == 240 && f8_value(0x7f, F152) == 57344);
    ck_assert(f8_value(1, F143) == 0x1p-10 && f8_value(1, F152) == 0x1p-17);
    c->fp_nfmt = F143;
    c->a[0] = 0x7f01;
    issue(ISA_F8V2TOF16_AR_AR, 1, 0);
    ck_assert(half_lane(1, 0) == 0x1p-10f && half_lane(1, 1) == 240);
    c->fp_nfmt = F152;
    issue(ISA_F8V2TOF16_AR_AR, 1, 0);
    ck_assert(half_lane(1, 0) == 0x1p-17f && half_lane(1, 1) == 57344);
}
END_TEST

START_TEST(every_code_widens_and_returns)
{
    int format = _i == 0 ? F152 : F143;
    c->fp_nfmt = (uint32_t)format;
    for (uint32_t code = 0; code < 256; code++) {
        c->a[0] = code | (code ^ 1) << 8 | code << 16 | code << 24;
        issue(ISA_F8V4TOF16_ARPAIR_AR, 2, 0);
        double want = f8_value(code, format);
        for (unsigned i = 0; i < 4; i++) {
            double lane_want = i == 1 ? f8_value(code ^ 1, format) : want;
            double got = (double)half_lane(2, i);
            ck_assert(isnan(lane_want) ? isnan(got) : got == lane_want);
        }
        c->a[4] = c->a[2];
        c->a[5] = c->a[3];
        c->a[6] = c->a[2];
        c->a[7] = c->a[3];
        issue(ISA_F16V8TOF8_ARPAIR_ARQUAD, 0, 4);
        ck_assert_uint_eq(c->a[1], code | (code ^ 1) << 8 | code << 16 | code << 24);
        issue(ISA_F16V2TOF8_AR_AR, 1, 4);
        ck_assert_uint_eq(c->a[1], code | (code ^ 1) << 8);
    }
}
END_TEST

/* The nearest code of a positive value by search; ties to the even mantissa. */
static uint32_t nearest(double value, int format)
{
    uint32_t best = 0;
    for (uint32_t code = 1; code < 128; code++) {
        double now = fabs(f8_value(code, format) - value);
        double before = fabs(f8_value(best, format) - value);
        if (now < before || (now == before && code % 2 == 0))
            best = code;
    }
    return best;
}

START_TEST(every_f16_rounds_to_the_nearest_f8)
{
    int format = _i == 0 ? F152 : F143;
    c->fp_nfmt = (uint32_t)format;
    for (uint32_t code = 0; code < 0x7c00; code += 3) {
        c->a[0] = code | (code | 0x8000) << 16;
        issue(ISA_F16V2TOF8_AR_AR, 1, 0);
        uint32_t want = nearest((double)half_to_float((uint16_t)code), format);
        uint32_t negative = want == 0 ? 0 : want | 0x80; /* no -0 */
        if (c->a[1] != (want | negative << 8))
            ck_abort_msg("%04x: %04x, expected %02x", code, c->a[1], want);
    }
}
END_TEST

START_TEST(scale_multiplies_in_both_directions)
{
    c->fp_nfmt = F143;
    c->fp_scl = 3;
    c->a[0] = 0x40; /* 1 */
    issue(ISA_F8V2TOF16_AR_AR, 1, 0);
    ck_assert(half_lane(1, 0) == 8);
    c->fp_scl = 64 - 3;
    issue(ISA_F16V2TOF8_AR_AR, 2, 1);
    ck_assert_uint_eq(c->a[2], 0x40);
}
END_TEST

START_TEST(overflow_saturates_or_is_nan)
{
    c->fp_nfmt = F143;
    c->a[0] = half_from_float(1000) | (uint32_t)half_from_float(-1000) << 16;
    issue(ISA_F16V2TOF8_AR_AR, 1, 0);
    ck_assert_uint_eq(c->a[1], 0xff7f);
    ck_assert_uint_eq(c->fp_sts, SIM_FP_OFLO);
    c->fp_ctl = SIM_FP_NANOO;
    issue(ISA_F16V2TOF8_AR_AR, 1, 0);
    ck_assert_uint_eq(c->a[1], 0x8080);
    c->fp_ctl = 0;
    c->a[0] = 0x7e00fc00; /* -inf, NaN */
    issue(ISA_F16V2TOF8_AR_AR, 1, 0);
    ck_assert_uint_eq(c->a[1], 0x8080);
}
END_TEST

START_TEST(stochastic_rounding_averages_out)
{
    enum { TRIALS = 4000 };
    c->fp_nfmt = F143;
    c->fp_ctl = SIM_FP_ESR;
    c->prng[0] = 0x123456789abcdefu;
    c->prng[1] = 0xfedcba987654321u;
    double sum = 0;
    c->a[0] = half_from_float(1 + 1.0f / 32); /* a quarter of a step */
    for (unsigned t = 0; t < TRIALS; t++) {
        issue(ISA_F16V2TOF8_AR_AR, 1, 0);
        sum += f8_value(c->a[1] & 255, F143);
    }
    ck_assert_double_eq_tol(sum / TRIALS, 1 + 1.0 / 32, 0.005);
}
END_TEST

START_TEST(f8_class_codes)
{
    c->fp_nfmt = F143;
    c->a[0] = 0x80 | 0 << 8 | 0x01 << 16 | 0xc0u << 24; /* NaN, 0, subnormal, -1 */
    issue(ISA_F8V4CLASS_AR_AR, 1, 0);
    ck_assert_uint_eq(c->a[1], 0x03070602);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("f8");
    TCase *tests = tcase_create("conversions");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, largest_and_smallest_values_are_as_documented);
    tcase_add_loop_test(tests, every_code_widens_and_returns, 0, 2);
    tcase_add_loop_test(tests, every_f16_rounds_to_the_nearest_f8, 0, 2);
    tcase_add_test(tests, scale_multiplies_in_both_directions);
    tcase_add_test(tests, overflow_saturates_or_is_nan);
    tcase_add_test(tests, stochastic_rounding_averages_out);
    tcase_add_test(tests, f8_class_codes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
