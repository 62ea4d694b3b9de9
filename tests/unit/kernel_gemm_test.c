/* module: device/sim */
/* gemm_f16 on the simulated tile against a plain model that rounds where the kernel rounds. */
#include "tests/unit/kernel_harness.h"

enum {
    X = 0x60000,
    X_INTERLEAVED = 0xb8000,
    W = 0x80000,
    W_STANDARD = 0x70000,
    OUT = 0xc8000,
    CANARY = 0x7bcd
};

struct shape {
    uint32_t k, c, rows, r0, r1, x, w;
};

static float value(const struct harness *h, uint32_t base, uint32_t index)
{
    return half_to_float(peek16(h, base + 2 * index));
}

/* Partial sum of one panel in the AMP's order: four phases of four exact products. */
static float panel_sum(const struct harness *h, const struct shape *s, float sum, uint32_t row,
                       uint32_t column, uint32_t panel)
{
    uint32_t inner = s->k / 16;
    uint32_t x = (panel * s->rows + row) * 16, w = ((column / 16) * inner + panel) * 256;
    for (uint32_t phase = 0; phase < 4; phase++) {
        float p[4];
        for (uint32_t i = 0; i < 4; i++)
            p[i] = value(h, s->x, x + 4 * phase + i) *
                   value(h, s->w, w + kernel_weight_slot(4 * phase + i, column % 16));
        sum = sum + ((p[0] + p[1]) + (p[2] + p[3]));
    }
    return sum;
}

static float f16(float v)
{
    return half_to_float(half_from_float_saturate(v));
}

/* Workers with the code for one row keep two chains and add them at the end (a lone second row of
 * the two-row code does not); otherwise the sum is rounded after each panel. */
static uint16_t model(const struct harness *h, const struct shape *s, uint32_t row, uint32_t column)
{
    uint32_t inner = s->k / 16, n = (s->rows + 5) / 6, own = s->rows - row / n * n;
    bool chains = n != 2 && (own < n ? own : n) == 1;
    float sum[2] = {0, 0};
    for (uint32_t panel = 0; panel < inner; panel++) {
        float *chain = &sum[chains ? panel & 1 : 0];
        *chain = f16(panel_sum(h, s, *chain, row, column, panel));
    }
    return half_from_float_saturate(sum[0] + sum[1]);
}

static void fill(struct harness *h, const struct shape *s)
{
    for (uint32_t i = 0; i < s->k * s->rows; i++)
        poke16(h, s->x + 2 * i, half_from_float(harness_normal(h)));
    for (uint32_t i = 0; i < s->k * s->c; i++)
        poke16(h, s->w + 2 * i, half_from_float(harness_normal(h) * 0.125f));
    for (uint32_t i = 0; i < s->rows * s->c + 128; i++)
        poke16(h, OUT - 128 + 2 * i, CANARY);
}

static void check_values(const struct harness *h, const struct shape *s)
{
    for (uint32_t column = 0; column < s->c; column++)
        for (uint32_t row = 0; row < s->rows; row++) {
            uint32_t at = (column / 16 * s->rows + row) * 16 + column % 16;
            uint16_t expected = model(h, s, row, column);
            ck_assert_msg(peek16(h, OUT + 2 * at) == expected,
                          "k %u c %u rows %u: row %u column %u is %g, not %g", s->k, s->c, s->rows,
                          row, column, (double)value(h, OUT, at), (double)half_to_float(expected));
        }
    for (uint32_t i = 0; i < 64; i++) {
        ck_assert_uint_eq(peek16(h, OUT - 128 + 2 * i), CANARY);
        ck_assert_uint_eq(peek16(h, OUT + 2 * (s->rows * s->c + i)), CANARY);
    }
}

static void run(const struct shape *s, uint32_t weights)
{
    struct harness h;
    struct kernel_spec spec = {KERNEL_GEMM_F16, {weights, s->k, s->c, s->r0, s->r1}};
    harness_open(&h, &spec);
    h.spread = 5 * (s->k / 16) * (s->c / 16); /* launches */
    fill(&h, s);
    uint32_t args[KERNEL_MAX_ARGS] = {s->x, s->w, OUT, s->rows, s->rows * 32, s->rows * 32};
    harness_call(&h, args, 6);
    check_values(&h, s);
    uint32_t cycles = harness_cost(&h, args, 6);
    ck_assert_msg(cycles == kernel_cycles(&spec, args), "k %u c %u rows %u of %u, %u: %u, not %u",
                  s->k, s->c, s->rows, s->r0, s->r1, cycles, kernel_cycles(&spec, args));
    harness_close(&h);
}

START_TEST(every_row_count_matches_the_model_and_its_cost)
{
    uint32_t rows = (uint32_t)_i;
    static const uint32_t inner[] = {16, 32, 48, 64, 112, 144}, columns[] = {16, 48};
    for (unsigned i = 0; i < 6; i++)
        for (unsigned j = 0; j < 2; j++)
            run(&(struct shape){inner[i], columns[j], rows, rows, rows, X, W}, 1);
}
END_TEST

START_TEST(two_row_counts_share_one_kernel)
{
    static const uint32_t pairs[][2] = {{1, 2},   {1, 6},   {5, 6},   {6, 7},   {2, 12},
                                        {11, 12}, {12, 13}, {13, 14}, {16, 17}, {17, 18},
                                        {18, 19}, {23, 24}, {36, 37}, {41, 42}, {1, 40}};
    for (uint32_t weights = 0; weights < 4; weights++)
        for (unsigned i = 0; i < 2; i++) {
            const uint32_t *r = pairs[_i];
            uint32_t x = weights & 2 ? X_INTERLEAVED : X, w = weights & 1 ? W : W_STANDARD;
            run(&(struct shape){64, 32, r[i], r[0], r[1], x, w}, weights);
            run(&(struct shape){16, 32, r[i], r[0], r[1], x, w}, weights);
        }
}
END_TEST

START_TEST(long_inner_dimensions_and_many_rows_match)
{
    static const struct shape shapes[] = {
        {512, 16, 6, 6, 6, X, W},      {496, 32, 13, 13, 13, X, W},   {304, 16, 17, 17, 18, X, W},
        {64, 16, 92, 91, 92, X, W},    {48, 32, 128, 128, 128, X, W}, {48, 16, 129, 129, 129, X, W},
        {32, 16, 500, 500, 500, X, W}, {32, 16, 768, 767, 768, X, W}};
    run(&shapes[_i], 1);
}
END_TEST

/* A block of rows inside larger blocks: both strides beyond the rows. */
START_TEST(strided_blocks_leave_the_other_rows_alone)
{
    enum { BLOCK = 60 };
    uint32_t rows = (uint32_t)_i, weights = _i % 2 ? 3 : 1;
    struct shape s = {48, 32, rows, rows, rows, X, W};
    struct harness h;
    struct kernel_spec spec = {KERNEL_GEMM_F16, {weights, s.k, s.c, rows, rows}};
    harness_open(&h, &spec);
    fill(&h, &s);
    for (uint32_t i = 0; i < BLOCK * s.c; i++)
        poke16(&h, OUT + 2 * i, CANARY);
    uint32_t args[KERNEL_MAX_ARGS] = {0x64000, W, OUT, rows, BLOCK * 32, BLOCK * 32};
    for (uint32_t panel = 0; panel < s.k / 16; panel++)
        memcpy(h.sram + (0x64000 + panel * BLOCK * 32 - IPU21_SRAM_BASE),
               h.sram + (X + panel * rows * 32 - IPU21_SRAM_BASE), rows * 32);
    harness_call(&h, args, 6);
    for (uint32_t column = 0; column < s.c; column++)
        for (uint32_t row = 0; row < BLOCK; row++) {
            uint32_t at = (column / 16 * BLOCK + row) * 16 + column % 16;
            ck_assert_uint_eq(peek16(&h, OUT + 2 * at),
                              row < rows ? model(&h, &s, row, column) : CANARY);
        }
    harness_close(&h);
}
END_TEST

START_TEST(arguments_out_of_reach_are_refused)
{
    struct kernel_spec near = {KERNEL_GEMM_F16, {1, 48, 16, 18, 20}};
    struct kernel_spec far = {KERNEL_GEMM_F16, {3, 48, 16, 18, 20}};
    uint32_t block[KERNEL_MAX_BLOCK], stride = KERNEL_GEMM_NEAR_STRIDE;
    uint32_t args[KERNEL_MAX_ARGS] = {X, W, OUT, 18, stride, 18 * 32};
    ck_assert(kernel_block(&near, args, block));
    args[3] = 19; /* neither row count of the spec */
    ck_assert(!kernel_block(&near, args, block));
    args[3] = 20;
    args[4] = stride + 32;
    ck_assert(!kernel_block(&near, args, block));
    ck_assert(kernel_block(&far, args, block));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_gemm");
    TCase *tcase = tcase_create("gemm");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, every_row_count_matches_the_model_and_its_cost, 1, 41);
    tcase_add_loop_test(tcase, two_row_counts_share_one_kernel, 0, 15);
    tcase_add_loop_test(tcase, long_inner_dimensions_and_many_rows_match, 0, 8);
    tcase_add_loop_test(tcase, strided_blocks_leave_the_other_rows_alone, 1, 60);
    tcase_add_test(tcase, arguments_out_of_reach_are_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
