/* module: base */
/* Tests of the binary16 conversions on every value and on every point at which the rounding
 * changes, against exact arithmetic in double. */
#include "base/half.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HALF_INF = 0x7c00, HALF_MAX = 0x7bff, HALF_SIGN = 0x8000 };

/* The value of a finite half's magnitude; 0x7c00 is read as the next power of two. */
static double magnitude(unsigned half)
{
    unsigned exponent = half >> 10, mantissa = half & 1023;
    return exponent ? ldexp(1024 + mantissa, (int)exponent - 25) : ldexp(mantissa, -24);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A check of the library writes to its parent each time, which is too much for every half. */
static void same(uint32_t got, uint32_t wanted, unsigned half)
{
    if (got != wanted)
        ck_abort_msg("0x%x, expected 0x%x, at half 0x%04x", got, wanted, half);
}

START_TEST(every_finite_half_widens_exactly_and_comes_back)
{
    for (unsigned half = 0; half < HALF_INF; half++) {
        float wide = half_to_float((uint16_t)half);
        if ((double)wide != magnitude(half) || signbit(wide))
            ck_abort_msg("%04x is %a", half, (double)wide);
        float negative = half_to_float((uint16_t)(half | HALF_SIGN));
        same(bits_of(negative), bits_of(wide) | 0x80000000u, half);
        same(half_from_float(wide), half, half);
        same(half_from_float(negative), half | HALF_SIGN, half);
    }
}
END_TEST

START_TEST(infinity_and_nan_stay_what_they_are)
{
    for (unsigned sign = 0; sign <= HALF_SIGN; sign += HALF_SIGN) {
        same(bits_of(half_to_float((uint16_t)(HALF_INF | sign))), 0x7f800000u | sign << 16,
             HALF_INF | sign);
        same(half_from_float(sign ? -INFINITY : INFINITY), HALF_INF | sign, HALF_INF | sign);
        same(half_from_float_saturate(sign ? -INFINITY : INFINITY), HALF_INF | sign,
             HALF_INF | sign);
        for (unsigned payload = 1; payload < 1024; payload++) {
            float nan = half_to_float((uint16_t)(HALF_INF | sign | payload));
            same(bits_of(nan), 0x7f800000u | sign << 16 | payload << 13, HALF_INF | sign | payload);
            same(half_from_float(nan), HALF_INF | sign | payload | 0x200,
                 HALF_INF | sign | payload);
            same(half_from_float_saturate(nan), HALF_INF | sign | payload | 0x200,
                 HALF_INF | sign | payload);
        }
    }
    uint32_t low = 0x7f800001u; /* its payload has no bit that a half keeps */
    float nan;
    memcpy(&nan, &low, sizeof nan);
    ck_assert_uint_eq(half_from_float(nan), 0x7e00);
}
END_TEST

/* Between two neighbours: the middle goes to the even one, all else to the nearer one. */
START_TEST(every_halfway_point_rounds_to_even_and_its_neighbours_to_the_nearer)
{
    for (unsigned half = 0; half < HALF_INF; half++) {
        float middle = (float)((magnitude(half) + magnitude(half + 1)) / 2);
        unsigned even = half & 1 ? half + 1 : half;
        same(half_from_float(middle), even, half);
        same(half_from_float(-middle), even | HALF_SIGN, half);
        same(half_from_float(nextafterf(middle, 0)), half, half);
        same(half_from_float(nextafterf(middle, INFINITY)), half + 1, half);
        same(half_from_float(nextafterf(-middle, -INFINITY)), (half + 1) | HALF_SIGN, half);
    }
}
END_TEST

START_TEST(saturation_holds_finite_values_at_the_largest_half)
{
    static const float large[] = {65504, 65519.996f, 65520, 65536, 1e10f, 3.4e38f};
    for (unsigned i = 0; i < sizeof large / sizeof large[0]; i++) {
        ck_assert_uint_eq(half_from_float_saturate(large[i]), HALF_MAX);
        ck_assert_uint_eq(half_from_float_saturate(-large[i]), HALF_MAX | HALF_SIGN);
        ck_assert_uint_eq(half_from_float(large[i]), large[i] < 65520 ? HALF_MAX : HALF_INF);
    }
}
END_TEST

START_TEST(the_smallest_floats_become_a_signed_zero)
{
    static const float tiny[] = {0, 0x1p-149f, 0x1p-126f, 0x1p-25f};
    for (unsigned i = 0; i < sizeof tiny / sizeof tiny[0]; i++) {
        ck_assert_uint_eq(half_from_float(tiny[i]), 0);
        ck_assert_uint_eq(half_from_float(-tiny[i]), HALF_SIGN);
    }
    ck_assert_uint_eq(half_from_float(nextafterf(0x1p-25f, 1)), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base_half");
    TCase *tc = tcase_create("half");
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, every_finite_half_widens_exactly_and_comes_back);
    tcase_add_test(tc, infinity_and_nan_stay_what_they_are);
    tcase_add_test(tc, every_halfway_point_rounds_to_even_and_its_neighbours_to_the_nearer);
    tcase_add_test(tc, saturation_holds_finite_values_at_the_largest_half);
    tcase_add_test(tc, the_smallest_floats_become_a_signed_zero);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
