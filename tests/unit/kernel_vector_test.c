/* module: device/sim */
/* Reduction, GELU, copies and fills on the simulated tile against plain models. */
#include "tests/unit/kernel_harness.h"

#include <stdio.h>

enum { IN = 0x60000, OUT = 0x90000, LIST = 0x5e000, CANARY = 0xa5a5 };

static float value(const struct harness *h, uint32_t base, uint32_t index)
{
    return half_to_float(peek16(h, base + 2 * index));
}

static void check_guards(const struct harness *h, uint32_t out, uint32_t bytes)
{
    for (uint32_t i = 2; i <= 256; i += 2) {
        ck_assert_uint_eq(peek16(h, out - i), CANARY);
        ck_assert_uint_eq(peek16(h, out + bytes + i - 2), CANARY);
    }
}

static void set_guards(struct harness *h, uint32_t out, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes + 512; i += 2)
        poke16(h, out - 256 + i, CANARY);
}

static void check_cycles(struct harness *h, const struct kernel_spec *spec, const uint32_t *args)
{
    char name[KERNEL_NAME_BYTES];
    uint32_t cycles = harness_cost(h, args, KERNEL_MAX_ARGS);
    kernel_name(spec, name);
    ck_assert_msg(cycles == kernel_cycles(spec, args), "%s %u %u %u %u %u: %u cycles, not %u", name,
                  args[0], args[1], args[2], args[3], args[4], cycles, kernel_cycles(spec, args));
}

/* --- reduce_f16 ------------------------------------------------------------------------------ */

static void reduce_case(struct harness *h, const struct kernel_spec *spec, uint32_t in,
                        uint32_t count, uint32_t partials, uint32_t out)
{
    uint32_t stride = count * 2 + 32;
    float expected[2048];
    set_guards(h, OUT, count * 2);
    memset(expected, 0, sizeof expected);
    for (uint32_t p = 0; p < partials; p++)
        for (uint32_t i = 0; i < count; i++) {
            float v = harness_normal(h) * (p == 1 ? 100.0f : 1.0f);
            poke16(h, in + p * stride + 2 * i, half_from_float(v));
            expected[i] += value(h, in + p * stride, i);
        }
    uint32_t args[KERNEL_MAX_ARGS] = {in, stride, out, count, partials};
    harness_call(h, args, 5);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(peek16(h, out + 2 * i), half_from_float_saturate(expected[i]));
    check_guards(h, OUT, count * 2);
    check_cycles(h, spec, args);
}

START_TEST(reduce_sums_any_number_of_partials)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_REDUCE_F16};
    static const uint32_t counts[] = {16, 32, 48, 80, 96, 112, 272, 1024};
    harness_open(&h, &spec);
    for (unsigned i = 0; i < 8; i++) {
        reduce_case(&h, &spec, IN, counts[i], (uint32_t)_i, OUT);
        reduce_case(&h, &spec, IN, counts[i], (uint32_t)_i, IN);
        reduce_case(&h, &spec, 0xa0000, counts[i], (uint32_t)_i, OUT);
        reduce_case(&h, &spec, 0xa0000, counts[i], (uint32_t)_i, 0xa0000);
    }
    harness_close(&h);
}
END_TEST

/* --- gelu_f16 -------------------------------------------------------------------------------- */

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

START_TEST(gelu_writes_every_element_and_no_other)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_GELU_F16};
    harness_open(&h, &spec);
    for (uint32_t count = 16; count <= 400; count += 16)
        for (uint32_t in_place = 0; in_place < 2; in_place++) {
            uint32_t in = in_place ? OUT : IN;
            set_guards(&h, OUT, count * 2);
            double expected[400];
            for (uint32_t i = 0; i < count; i++) {
                poke16(&h, in + 2 * i, half_from_float(harness_normal(&h)));
                expected[i] = gelu((double)value(&h, in, i));
            }
            uint32_t args[KERNEL_MAX_ARGS] = {in, OUT, count};
            harness_call(&h, args, 3);
            for (uint32_t i = 0; i < count; i++)
                ck_assert_double_eq_tol((double)value(&h, OUT, i), expected[i], 3e-3);
            check_guards(&h, OUT, count * 2);
            check_cycles(&h, &spec, args);
        }
    harness_close(&h);
}
END_TEST

START_TEST(gelu_is_accurate_and_finite_for_every_f16)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_GELU_F16};
    harness_open(&h, &spec);
    for (uint32_t i = 0; i < 65536; i++)
        poke16(&h, IN + 2 * i, (uint16_t)i);
    uint32_t args[KERNEL_MAX_ARGS] = {IN, 0x90000, 65536};
    harness_call(&h, args, 3);
    for (uint32_t i = 0; i < 65536; i++) {
        double x = (double)half_to_float((uint16_t)i), y = (double)value(&h, 0x90000, i);
        if (!isfinite(x))
            continue;
        ck_assert_msg(isfinite(y), "gelu(%g) = %g", x, y);
        ck_assert_msg(fabs(y - gelu(x)) <= 2e-3 + 1.5e-3 * fabs(x), "gelu(%g) = %g", x, y);
    }
    harness_close(&h);
}
END_TEST

START_TEST(gelu_has_a_small_relative_rms_error_on_normal_inputs)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_GELU_F16};
    double error = 0, norm = 0;
    harness_open(&h, &spec);
    for (uint32_t i = 0; i < 32768; i++)
        poke16(&h, IN + 2 * i, half_from_float(harness_normal(&h)));
    uint32_t args[KERNEL_MAX_ARGS] = {IN, OUT, 32768};
    harness_call(&h, args, 3);
    for (uint32_t i = 0; i < 32768; i++) {
        double x = (double)value(&h, IN, i), exact = 0.5 * x * (1 + erf(x / sqrt(2)));
        error += pow((double)value(&h, OUT, i) - exact, 2);
        norm += exact * exact;
    }
    ck_assert_double_lt(sqrt(error / norm), 8e-4);
    printf("gelu_f16: relative RMS error %.2e\n", sqrt(error / norm));
    harness_close(&h);
}
END_TEST

/* --- copies ---------------------------------------------------------------------------------- */

START_TEST(copy_moves_any_length_between_any_elements)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_COPY};
    static const uint32_t from[] = {0x60000, 0x60000, 0x84000, 0x67f00};
    static const uint32_t to[] = {0x90000, 0x61008, 0x86008, 0x6c008};
    static const uint32_t bytes[] = {8, 16, 40, 48, 56, 104, 504, 512, 520, 1000, 2048};
    harness_open(&h, &spec);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned j = 0; j < 11; j++) {
            uint32_t n = bytes[j];
            set_guards(&h, to[i], n);
            for (uint32_t k = 0; k < n; k += 4)
                poke32(&h, from[i] + k, harness_random(&h));
            uint32_t args[KERNEL_MAX_ARGS] = {from[i], to[i], n};
            harness_call(&h, args, 3);
            for (uint32_t k = 0; k < n; k += 4)
                ck_assert_uint_eq(peek32(&h, to[i] + k), peek32(&h, from[i] + k));
            check_guards(&h, to[i], n);
            check_cycles(&h, &spec, args);
        }
    harness_close(&h);
}
END_TEST

START_TEST(copy_list_makes_every_copy)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_COPY_LIST};
    harness_open(&h, &spec);
    for (uint32_t count = 1; count <= 20; count++) {
        uint32_t at = OUT, entries[20][3];
        for (uint32_t i = 0; i < count; i++) {
            uint32_t n = 8 * (1 + harness_random(&h) % 9);
            entries[i][0] = IN + 128 * (harness_random(&h) % 64);
            entries[i][1] = at;
            entries[i][2] = n;
            at += n;
            memcpy(h.sram + (LIST + 12 * i - IPU21_SRAM_BASE), entries[i], 12);
        }
        set_guards(&h, OUT, at - OUT);
        for (uint32_t k = 0; k < 64 * 128; k += 4)
            poke32(&h, IN + k, harness_random(&h));
        uint32_t args[KERNEL_MAX_ARGS] = {LIST, count};
        harness_call(&h, args, 2);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < entries[i][2]; k += 4)
                ck_assert_uint_eq(peek32(&h, entries[i][1] + k), peek32(&h, entries[i][0] + k));
        check_guards(&h, OUT, at - OUT);
        uint32_t cycles = harness_cost(&h, args, 2);
        ck_assert_uint_eq(cycles, kernel_copy_list_cycles((const uint32_t(*)[3])entries, count));
    }
    harness_close(&h);
}
END_TEST

START_TEST(fill_sets_any_length)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_FILL};
    harness_open(&h, &spec);
    for (uint32_t n = 8; n <= 400; n += 8) {
        set_guards(&h, OUT + 8, n);
        uint32_t args[KERNEL_MAX_ARGS] = {OUT + 8, n, 0x12345678};
        harness_call(&h, args, 3);
        for (uint32_t k = 0; k < n; k += 4)
            ck_assert_uint_eq(peek32(&h, OUT + 8 + k), 0x12345678);
        check_guards(&h, OUT + 8, n);
        check_cycles(&h, &spec, args);
    }
    harness_close(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_vector");
    TCase *tcase = tcase_create("vector");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, reduce_sums_any_number_of_partials, 1, 10);
    tcase_add_test(tcase, gelu_writes_every_element_and_no_other);
    tcase_add_test(tcase, gelu_is_accurate_and_finite_for_every_f16);
    tcase_add_test(tcase, gelu_has_a_small_relative_rms_error_on_normal_inputs);
    tcase_add_test(tcase, copy_moves_any_length_between_any_elements);
    tcase_add_test(tcase, copy_list_makes_every_copy);
    tcase_add_test(tcase, fill_sets_any_length);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
