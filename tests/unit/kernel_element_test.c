/* module: device/sim */
/* Elementwise kernels, bias kernels, casts and gathers on the simulated tile against plain models.
 */
#include "tests/unit/kernel_harness.h"

enum { A = 0x60000, B = 0x6c000, OUT = 0x90000, CANARY = 0xa5a5 };

static float get(const struct harness *h, bool f32, uint32_t base, uint32_t index)
{
    return f32 ? peek_float(h, base + 4 * index) : half_to_float(peek16(h, base + 2 * index));
}

static void put_normal(struct harness *h, bool f32, uint32_t base, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (f32)
            poke_float(h, base + 4 * i, harness_normal(h) * 1.0001f);
        else
            poke16(h, base + 2 * i, half_from_float(harness_normal(h)));
}

static float narrow(bool f32, float v)
{
    return f32 ? v : half_to_float(half_from_float_saturate(v));
}

static void set_guards(struct harness *h, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes + 512; i += 2)
        poke16(h, OUT - 256 + i, CANARY);
}

static void check_guards(const struct harness *h, uint32_t bytes)
{
    for (uint32_t i = 2; i <= 256; i += 2) {
        ck_assert_uint_eq(peek16(h, OUT - i), CANARY);
        ck_assert_uint_eq(peek16(h, OUT + bytes + i - 2), CANARY);
    }
}

static void check_cycles(struct harness *h, const struct kernel_spec *spec, const uint32_t *args)
{
    char name[KERNEL_NAME_BYTES];
    uint32_t cycles = harness_cost(h, args, KERNEL_MAX_ARGS);
    kernel_name(spec, name);
    ck_assert_msg(cycles == kernel_cycles(spec, args), "%s %u %u %u %u: %u cycles, not %u", name,
                  args[1], args[2], args[3], args[4], cycles, kernel_cycles(spec, args));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* --- elementwise ----------------------------------------------------------------------------- */

struct family {
    enum kernel_family family;
    bool f32, binary;
};

static const struct family elementwise[] = {
    {KERNEL_RELU_F16, false, false}, {KERNEL_ADD_F16, false, true},  {KERNEL_RELU_F32, true, false},
    {KERNEL_ADD_F32, true, true},    {KERNEL_GELU_F32, true, false},
};

static void element_case(struct harness *h, const struct kernel_spec *spec, const struct family *f,
                         uint32_t count, uint32_t out)
{
    uint32_t bytes = count * (f->f32 ? 4 : 2);
    double expected[512];
    set_guards(h, bytes);
    put_normal(h, f->f32, A, count);
    put_normal(h, f->f32, B, count);
    if (out == OUT)
        for (uint32_t i = 0; i < 128; i++)
            poke16(h, OUT + bytes + 2 * i, CANARY);
    for (uint32_t i = 0; i < count; i++) {
        float a = get(h, f->f32, A, i), b = get(h, f->f32, B, i);
        expected[i] = f->binary                      ? (double)narrow(f->f32, a + b)
                      : f->family == KERNEL_GELU_F32 ? gelu((double)a)
                                                     : (double)(a > 0 ? a : 0);
    }
    uint32_t unary_args[KERNEL_MAX_ARGS] = {A, out, count};
    uint32_t binary_args[KERNEL_MAX_ARGS] = {A, B, out, count};
    const uint32_t *args = f->binary ? binary_args : unary_args;
    harness_call(h, args, KERNEL_MAX_ARGS);
    double tolerance = f->family == KERNEL_GELU_F32 ? 1e-6 : 0;
    for (uint32_t i = 0; i < count; i++)
        ck_assert_double_le(fabs((double)get(h, f->f32, out, i) - expected[i]), tolerance);
    if (out == OUT)
        check_guards(h, bytes);
    check_cycles(h, spec, args);
}

START_TEST(elementwise_kernels_serve_any_count)
{
    const struct family *f = &elementwise[_i];
    struct harness h;
    struct kernel_spec spec = {.family = f->family};
    harness_open(&h, &spec);
    for (uint32_t count = 16; count <= 304; count += 16) {
        element_case(&h, &spec, f, count, OUT);
        element_case(&h, &spec, f, count, A);
        if (f->binary)
            element_case(&h, &spec, f, count, B);
    }
    harness_close(&h);
}
END_TEST

/* --- panel blocks and vectors ---------------------------------------------------------------- */

static const struct family vectors[] = {
    {KERNEL_ADD_ROW_F16, false, false},   {KERNEL_BIAS_GELU_F16, false, false},
    {KERNEL_BIAS_RELU_F16, false, false}, {KERNEL_ADD_ROW_F32, true, false},
    {KERNEL_ADD_COLUMN_F16, false, true}, {KERNEL_ADD_COLUMN_F32, true, true},
};

static double activate(enum kernel_family family, double v)
{
    return family == KERNEL_BIAS_GELU_F16   ? gelu(v)
           : family == KERNEL_BIAS_RELU_F16 ? (v > 0 ? v : 0)
                                            : v;
}

static void vector_case(struct harness *h, const struct kernel_spec *spec, const struct family *f,
                        uint32_t rows, uint32_t panels, uint32_t out)
{
    uint32_t count = rows * panels * 16, bytes = count * (f->f32 ? 4 : 2);
    static double expected[40 * 5 * 16];
    put_normal(h, f->f32, A, count);
    set_guards(h, bytes);
    put_normal(h, f->f32, B, 16 * (f->binary ? rows : panels));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t panel = i / (rows * 16), row = i / 16 % rows, lane = i % 16;
        float v = get(h, f->f32, B, f->binary ? row * 16 : panel * 16 + lane);
        expected[i] = activate(f->family, (double)narrow(f->f32, get(h, f->f32, A, i) + v));
    }
    uint32_t args[KERNEL_MAX_ARGS] = {A, B, out, rows, panels};
    harness_call(h, args, KERNEL_MAX_ARGS);
    double tolerance = f->family == KERNEL_BIAS_GELU_F16 ? 3e-3 : 0;
    for (uint32_t i = 0; i < count; i++)
        ck_assert_msg(fabs((double)get(h, f->f32, out, i) - expected[i]) <= tolerance,
                      "rows %u panels %u: element %u is %g, not %g", rows, panels, i,
                      (double)get(h, f->f32, out, i), expected[i]);
    if (out == OUT)
        check_guards(h, bytes);
    check_cycles(h, spec, args);
}

START_TEST(vector_kernels_serve_any_block)
{
    const struct family *f = &vectors[_i];
    struct harness h;
    struct kernel_spec spec = {.family = f->family};
    harness_open(&h, &spec);
    for (uint32_t rows = 1; rows <= 40; rows += rows < 8 ? 1 : 5)
        for (uint32_t panels = 1; panels <= 5; panels += 2) {
            vector_case(&h, &spec, f, rows, panels, OUT);
            vector_case(&h, &spec, f, rows, panels, A);
        }
    harness_close(&h);
}
END_TEST

START_TEST(bias_gelu_is_accurate_and_finite_for_every_f16)
{
    struct harness h;
    struct kernel_spec spec = {.family = KERNEL_BIAS_GELU_F16};
    harness_open(&h, &spec);
    for (uint32_t i = 0; i < 65536; i++)
        poke16(&h, A + 2 * i, (uint16_t)i);
    for (uint32_t i = 0; i < 16; i++)
        poke16(&h, 0xd0000 + 2 * i, 0);
    uint32_t args[KERNEL_MAX_ARGS] = {A, 0xd0000, 0x90000, 4096, 1};
    harness_call(&h, args, 5);
    for (uint32_t i = 0; i < 65536; i++) {
        double x = (double)half_to_float((uint16_t)i), y = (double)get(&h, false, 0x90000, i);
        if (!isfinite(x))
            continue;
        ck_assert_msg(isfinite(y) && fabs(y - gelu(x)) <= 2e-3 + 1.5e-3 * fabs(x), "gelu(%g) = %g",
                      x, y);
    }
    harness_close(&h);
}
END_TEST

/* --- casts ----------------------------------------------------------------------------------- */

START_TEST(casts_convert_every_element)
{
    bool widen = _i == 0;
    struct harness h;
    struct kernel_spec spec = {.family = widen ? KERNEL_CAST_F16_F32 : KERNEL_CAST_F32_F16};
    harness_open(&h, &spec);
    for (uint32_t count = 16; count <= 304; count += 16) {
        uint32_t bytes = count * (widen ? 4 : 2);
        set_guards(&h, bytes);
        put_normal(&h, !widen, A, count);
        if (!widen)
            poke_float(&h, A + 4, 1e6f);
        uint32_t args[KERNEL_MAX_ARGS] = {A, OUT, count};
        harness_call(&h, args, 3);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_float_eq(get(&h, widen, OUT, i), narrow(widen, get(&h, !widen, A, i)));
        check_guards(&h, bytes);
        check_cycles(&h, &spec, args);
    }
    harness_close(&h);
}
END_TEST

/* --- gathers --------------------------------------------------------------------------------- */

START_TEST(gathers_follow_the_table)
{
    uint32_t size = _i == 0 ? 2 : 4;
    struct harness h;
    struct kernel_spec spec = {.family = size == 2 ? KERNEL_GATHER16 : KERNEL_GATHER32};
    harness_open(&h, &spec);
    for (uint32_t i = 0; i < 0x4000; i += 4)
        poke32(&h, A + i, harness_random(&h));
    for (uint32_t count = 2; count <= 150; count += 2) {
        uint32_t bytes = count * size;
        set_guards(&h, bytes);
        for (uint32_t i = 0; i < count; i++)
            poke16(&h, B + 2 * i, (uint16_t)(harness_random(&h) % (0x4000 / size)));
        uint32_t args[KERNEL_MAX_ARGS] = {B, A, OUT, count};
        harness_call(&h, args, 4);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_mem_eq(h.sram + (OUT + size * i - IPU21_SRAM_BASE),
                             h.sram + (A + size * peek16(&h, B + 2 * i) - IPU21_SRAM_BASE), size);
        check_guards(&h, bytes);
        check_cycles(&h, &spec, args);
    }
    harness_close(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_element");
    TCase *tcase = tcase_create("element");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, elementwise_kernels_serve_any_count, 0, 5);
    tcase_add_loop_test(tcase, vector_kernels_serve_any_block, 0, 6);
    tcase_add_test(tcase, bias_gelu_is_accurate_and_finite_for_every_f16);
    tcase_add_loop_test(tcase, casts_convert_every_element, 0, 2);
    tcase_add_loop_test(tcase, gathers_follow_the_table, 0, 2);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
