/* module: compiler/codegen */
/* End to end: flows are planned, lowered, placed, packaged and executed on the simulated device;
 * the outputs must equal a plain evaluation of the flow. */
#include "tests/unit/codegen_flows.h"

static struct maker maker;

static struct plan_layout layout_of(struct maker *m, const struct plan_block *blocks, uint32_t n)
{
    return (struct plan_layout){n, arena_memdup(m->arena, blocks, n * sizeof *blocks)};
}

START_TEST(one_gemm_on_one_tile_equals_the_product)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 5, 48, 1),
             w = maker_host(m, true, FLOW_F16, 48, 40, 0.2);
    maker_output(m, maker_gemm(m, x, w, 1));
    const struct plan_block block = {.tile = 3, .rows = 5, .panels = 3};
    struct plan_gemm_job job = {.tile = 3, .rows = 5, .inners = 3, .panels = 3};
    struct plan_op op = {.job_count = 1, .jobs = &job, .inner_parts = 1, .chunk = 3};
    op.out = layout_of(m, &block, 1);
    const struct plan plan = {.op_count = 1, .ops = &op};
    run_flow(m, &plan, CODEGEN_PROFILE_OVERALL, 1e-3);
    maker_end(m);
}
END_TEST

START_TEST(planned_gemm_equals_the_product)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 17, 64, 1),
             w = maker_host(m, true, FLOW_F16, 64, 128, 0.2);
    maker_output(m, maker_gemm(m, x, w, 1));
    run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_OVERALL, 1e-3);
    maker_end(m);
}
END_TEST

START_TEST(seed_repeat_equals_three_blocks)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 17, 64, 1);
    uint32_t inside = maker_repeat(m, 3, x);
    uint32_t up = maker_sequence(m, 3, 64, 128, 0.125), down = maker_sequence(m, 3, 128, 64, 0.09);
    uint32_t h = maker_unary(m, FLOW_GELU, maker_gemm(m, inside, up, 1));
    maker_output(m, maker_yield(m, maker_gemm(m, h, down, 1)));
    struct device_summary s = run_flow(m, plan_of(m, 60), CODEGEN_PROFILE_OVERALL, 6e-3);
    printf("seed cycles %llu\n", (unsigned long long)s.cycles);
    maker_end(m);
}
END_TEST

START_TEST(full_profile_covers_every_step)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 9, 40, 1);
    uint32_t inside = maker_repeat(m, 2, x);
    uint32_t up = maker_sequence(m, 2, 40, 72, 0.125), down = maker_sequence(m, 2, 72, 40, 0.09);
    uint32_t h = maker_unary(m, FLOW_RELU, maker_gemm(m, inside, up, 1));
    maker_output(m, maker_yield(m, maker_gemm(m, h, down, 1)));
    struct device_summary s = run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_FULL, 6e-3);
    ck_assert_uint_gt(s.samples, 1472);
    maker_end(m);
}
END_TEST

START_TEST(broadcast_adds_equal_the_sums)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 21, 50, 1),
             w = maker_host(m, true, FLOW_F16, 50, 37, 0.2);
    uint32_t bias = maker_host(m, true, FLOW_F16, 1, 37, 1),
             c = maker_host(m, true, FLOW_F16, 50, 1, 0.2);
    uint32_t y = maker_gemm(m, x, w, 1), column = maker_gemm(m, x, c, 1);
    uint32_t z = maker_add(m, y, bias, FLOW_ROW);
    maker_output(m, maker_unary(m, FLOW_GELU, z));
    maker_output(m, maker_add(m, y, column, FLOW_COLUMN));
    maker_output(m, maker_add(m, y, y, FLOW_DENSE));
    maker_output(m, maker_add(m, y, column, FLOW_SCALAR));
    run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_OVERALL, 3e-3);
    maker_end(m);
}
END_TEST

START_TEST(rows_are_mapped_in_general_position)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 12, 32, 1),
             w = maker_host(m, true, FLOW_F16, 32, 48, 0.2);
    uint32_t y = maker_gemm(m, x, w, 1);
    uint32_t small = maker_gemm(m, maker_host(m, false, FLOW_F16, 4, 32, 1), w, 1);
    uint32_t sum = maker_add(m, y, small, FLOW_DENSE);
    m->regions[0].ops[2].row_map = (struct flow_view){.axes = 2, .axis = {{3, 0}, {4, 1}}};
    maker_output(m, sum);
    run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_OVERALL, 3e-3);
    maker_end(m);
}
END_TEST

START_TEST(f32_chains_equal_their_evaluation)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 19, 33, 1),
             b = maker_host(m, true, FLOW_F32, 1, 33, 1);
    uint32_t y = maker_unary(m, FLOW_CAST, x);
    uint32_t z = maker_unary(m, FLOW_GELU, maker_add(m, y, b, FLOW_ROW));
    maker_output(m, z);
    maker_output(m, maker_unary(m, FLOW_CAST, maker_add(m, z, y, FLOW_DENSE)));
    run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_OVERALL, 1e-3);
    maker_end(m);
}
END_TEST

START_TEST(permuted_values_equal_their_view)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 18, 40, 1),
             w = maker_host(m, true, FLOW_F16, 40, 24, 0.2);
    uint32_t y = maker_gemm(m, x, w, 1);
    const struct flow_view transpose = {.axes = 2, .axis = {{24, 1}, {18, 24}}};
    maker_output(m, maker_permute(m, y, 24, 18, transpose));
    maker_output(m, maker_permute(m, x, 9, 80, (struct flow_view){.axes = 1, .axis = {{720, 1}}}));
    maker_output(m, maker_unary(m, FLOW_CAST, maker_permute(m, y, 24, 18, transpose)));
    run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_OVERALL, 2e-3);
    maker_end(m);
}
END_TEST

START_TEST(computed_weights_are_gathered)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 23, 30, 1),
             w = maker_host(m, true, FLOW_F16, 30, 45, 0.2);
    uint32_t y = maker_gemm(m, x, w, 1);
    const struct flow_view transpose = {.axes = 2, .axis = {{45, 1}, {23, 45}}};
    uint32_t t = maker_permute(m, y, 45, 23, transpose);
    maker_output(m, maker_gemm(m, y, t, 1));
    run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_OVERALL, 5e-3);
    maker_end(m);
}
END_TEST

START_TEST(batched_products_use_their_own_weights)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 5 * 7, 20, 1);
    uint32_t w = maker_host(m, true, FLOW_F16, 5 * 20, 26, 0.2);
    uint32_t y = maker_gemm(m, x, w, 5);
    uint32_t v = maker_host(m, false, FLOW_F16, 5 * 26, 9, 0.2);
    maker_output(m, maker_gemm(m, y, v, 5));
    run_flow(m, plan_of(m, 20), CODEGEN_PROFILE_OVERALL, 4e-3);
    maker_end(m);
}
END_TEST

static const struct {
    uint32_t rows, inner, columns, gm, gn, gk, chunk;
    enum scatter scatter;
} splits[] = {
    {9, 128, 48, 1, 1, 8, 1, SCATTER_ROWS},      /* one panel... several panels of few rows */
    {9, 128, 16, 1, 1, 8, 1, SCATTER_ROWS},      /* contiguous parts: the own partial leads */
    {7, 100, 80, 2, 1, 3, 3, SCATTER_PANELS},    /* whole panels */
    {13, 96, 40, 2, 3, 2, 3, SCATTER_NONE},      /* the first partner adds everything */
    {13, 96, 40, 2, 3, 2, 3, SCATTER_FOREIGN},   /* a tile without jobs adds */
    {6, 200, 33, 1, 1, 4, 2, SCATTER_REPLICATE}, /* replicas must be equal bit by bit */
    {6, 200, 33, 2, 1, 1, 3, SCATTER_NONE},      /* chunks on one tile only */
    {40, 320, 16, 1, 1, 5, 2, SCATTER_ROWS},     /* chunks and parts */
    {1, 2000, 20, 1, 1, 60, 3, SCATTER_NONE},    /* many parts of one row */
    {150, 64, 160, 1, 1, 4, 1, SCATTER_PANELS},  /* gaps too large: the own partial is copied */
};

START_TEST(split_products_are_summed)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, splits[_i].rows, splits[_i].inner, 1);
    uint32_t w = maker_host(m, true, FLOW_F16, splits[_i].inner, splits[_i].columns,
                            1 / sqrt(splits[_i].inner));
    maker_output(m, maker_gemm(m, x, w, 1));
    struct plan_op op = grid_gemm(m, 0, splits[_i].gm, splits[_i].gn, splits[_i].gk,
                                  splits[_i].chunk, splits[_i].scatter);
    const struct plan plan = {.op_count = 1, .ops = &op};
    run_flow(m, &plan, CODEGEN_PROFILE_OVERALL, 1e-3);
    maker_end(m);
}
END_TEST

START_TEST(long_streams_take_many_pages)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 90, 400, 1);
    uint32_t w = maker_host(m, true, FLOW_F16, 400, 150, 0.05);
    uint32_t y = maker_gemm(m, x, w, 1);
    uint32_t b = maker_host(m, false, FLOW_F16, 90, 150, 1);
    maker_output(m, y);
    maker_output(m, maker_add(m, y, b, FLOW_DENSE));
    struct plan_op ops[2] = {grid_gemm(m, 0, 1, 2, 1, 25, SCATTER_NONE), {.op = 1}};
    ops[0].jobs[1].tile = 47; /* of another column group than tile 0 */
    ops[0].out.blocks[1].tile = 47;
    ops[1].out = ops[0].out;
    const struct plan plan = {.op_count = 2, .ops = ops};
    run_flow(m, &plan, CODEGEN_PROFILE_OVERALL, 1e-3);
    maker_end(m);
}
END_TEST

START_TEST(a_run_without_inputs_starts_at_the_host)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, true, FLOW_F16, 4, 16, 1),
             w = maker_host(m, true, FLOW_F16, 16, 16, 1);
    maker_output(m, maker_gemm(m, x, w, 1));
    run_flow(m, plan_of(m, 5), CODEGEN_PROFILE_OVERALL, 1e-3);
    maker_end(m);
}
END_TEST

START_TEST(parameters_survive_a_repeat_that_starts_from_them)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, true, FLOW_F16, 6, 32, 1);
    uint32_t inside = maker_repeat(m, 4, x);
    uint32_t bias = maker_host(m, false, FLOW_F16, 1, 32, 0.5);
    maker_output(m, maker_yield(m, maker_add(m, inside, bias, FLOW_ROW)));
    run_flow(m, plan_of(m, 5), CODEGEN_PROFILE_FULL, 2e-3);
    maker_end(m);
}
END_TEST

/* y = x W; x' = gelu(x) + y: the old x is read after y exists, so the store is written late. */
START_TEST(values_read_late_in_a_repeat_keep_their_contents)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 20, 48, 1);
    uint32_t first = maker_unary(m, FLOW_RELU, x); /* computed initial value */
    uint32_t inside = maker_repeat(m, 3, first);
    uint32_t y = maker_gemm(m, inside, maker_sequence(m, 3, 48, 48, 0.1), 1);
    uint32_t z = maker_add(m, maker_unary(m, FLOW_GELU, inside), y, FLOW_DENSE);
    uint32_t result = maker_yield(m, z);
    maker_output(m, result);
    maker_output(m, maker_add(m, result, first, FLOW_DENSE));
    run_flow(m, plan_of(m, 10), CODEGEN_PROFILE_OVERALL, 5e-3);
    maker_end(m);
}
END_TEST

START_TEST(many_kernels_are_linked_past_the_host_window)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    /* All pairs of 1..5 follow each other: as many kernels. */
    static const uint8_t panels[] = {1, 2, 1, 3, 1, 4, 1, 5, 2, 2, 3, 2,
                                     4, 2, 5, 3, 3, 4, 3, 5, 4, 4, 5, 5};
    uint32_t columns = 16, y = maker_host(m, false, FLOW_F16, 11, 16, 1);
    struct plan_op ops[24];
    for (unsigned i = 0; i < 24; i++) {
        uint32_t next = 16 * panels[i];
        y = maker_gemm(m, y, maker_host(m, true, FLOW_F16, columns, next, 1 / sqrt(columns)), 1);
        ops[i] = grid_gemm(m, i, 1, 1, 1, 20, SCATTER_NONE);
        columns = next;
    }
    maker_output(m, y);
    const struct plan plan = {.op_count = 24, .ops = ops};
    struct compiled c;
    compile_flow(m, &plan, &c, CODEGEN_PROFILE_OVERALL);
    size_t count;
    const struct package_segment *s = package_segments(c.package, &count);
    uint32_t low = 0;
    for (size_t i = 0; i < count && s[i].tile == 0; i++)
        low += s[i].address >= 0x586e0 && s[i].address < 0x80000;
    ck_assert_uint_eq(low, 2);
    package_destroy(c.package);
    run_flow(m, &plan, CODEGEN_PROFILE_OVERALL, 2e-2);
    maker_end(m);
}
END_TEST

/* A host tensor of rows x columns read through a view of the same data. */
static uint32_t viewed(struct maker *m, bool parameter, uint64_t rows, uint64_t columns,
                       uint64_t elements, struct flow_view view)
{
    uint32_t t = maker_host(m, parameter, FLOW_F16, 1, elements, 0.3);
    m->tensors[t].rows = rows;
    m->tensors[t].columns = columns;
    m->tensors[t].view = view;
    return t;
}

static const struct {
    uint64_t rows, columns, elements;
    struct flow_view view;
} views[] = {
    {21, 35, 735, {2, {{21, 1}, {35, 21}}}},                 /* transposed */
    {24, 40, 960, {3, {{4, 6}, {6, 1}, {40, 24}}}},          /* two row axes */
    {12, 64, 768, {4, {{12, 64}, {4, 1}, {4, 16}, {4, 4}}}}, /* three column axes */
    {10, 48, 48, {2, {{10, 0}, {48, 1}}}},                   /* rows repeated */
    {20, 33, 20, {2, {{20, 1}, {33, 0}}}},                   /* columns repeated */
    {9, 8, 72, {2, {{6, 12}, {12, 1}}}},                     /* axes across rows */
    {8, 9, 72, {2, {{4, 1}, {18, 4}}}},                      /* the same, strided */
    {30, 18, 540, {3, {{5, 108}, {18, 1}, {6, 18}}}},        /* inner axes swapped */
};

START_TEST(host_views_feed_both_operands)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t v =
        viewed(m, _i % 2, views[_i].rows, views[_i].columns, views[_i].elements, views[_i].view);
    uint32_t rows = (uint32_t)views[_i].rows, columns = (uint32_t)views[_i].columns;
    maker_output(m, maker_gemm(m, v, maker_host(m, true, FLOW_F16, columns, 20, 0.2), 1));
    maker_output(m, maker_gemm(m, maker_host(m, false, FLOW_F16, 19, rows, 1), v, 1));
    maker_output(m, maker_unary(m, FLOW_RELU, v));
    run_flow(m, plan_of(m, 10), CODEGEN_PROFILE_OVERALL, 2e-3);
    maker_end(m);
}
END_TEST

START_TEST(chunked_weights_lie_chunk_by_chunk)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t v = viewed(m, true, 90, 40, 3600, (struct flow_view){2, {{90, 1}, {40, 90}}});
    maker_output(m, maker_gemm(m, maker_host(m, false, FLOW_F16, 7, 90, 1), v, 1));
    struct plan_op op = grid_gemm(m, 0, 1, 2, 1, 4, SCATTER_NONE);
    const struct plan plan = {.op_count = 1, .ops = &op};
    run_flow(m, &plan, CODEGEN_PROFILE_OVERALL, 2e-3);
    maker_end(m);
}
END_TEST

START_TEST(general_permutes_of_computed_values)
{
    static const struct flow_view two[] = {
        {3, {{4, 6}, {24, 24}, {6, 1}}},            /* heads apart */
        {4, {{3, 192}, {24, 1}, {2, 96}, {4, 24}}}, /* four axes */
        {2, {{12, 0}, {48, 1}}},                    /* one row again and again */
    };
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 24, 24, 1);
    uint32_t y = maker_unary(m, FLOW_GELU, x);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t p = maker_permute(m, y, 12, 48, two[i]);
        maker_output(m, p);
        maker_output(m, maker_permute(m, maker_unary(m, FLOW_CAST, y), 12, 48, two[i]));
    }
    run_flow(m, plan_of(m, 10), CODEGEN_PROFILE_OVERALL, 2e-3);
    maker_end(m);
}
END_TEST

/* Two carried values that feed each other. */
START_TEST(several_carried_values_advance_together)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t a = maker_host(m, false, FLOW_F16, 10, 32, 1),
             b = maker_host(m, true, FLOW_F16, 10, 32, 1);
    uint32_t in_a = maker_repeat(m, 3, a);
    struct flow_op *repeat = &m->ops[0][m->regions[0].op_count - 1];
    struct flow_carried *c = ARENA_ARRAY(m->arena, struct flow_carried, 2);
    uint32_t in_b = maker_tensor(m, FLOW_CARRIED, FLOW_F16, 10, 32);
    uint32_t w = maker_sequence(m, 3, 32, 32, 0.15);
    uint32_t next_a = maker_add(m, maker_gemm(m, in_b, w, 1), in_a, FLOW_DENSE);
    uint32_t next_b = maker_unary(m, FLOW_GELU, in_a);
    m->region = 0;
    uint32_t out_a = maker_tensor(m, FLOW_RESULT, FLOW_F16, 10, 32);
    uint32_t out_b = maker_tensor(m, FLOW_RESULT, FLOW_F16, 10, 32);
    c[0] = (struct flow_carried){a, in_a, next_a, out_a};
    c[1] = (struct flow_carried){b, in_b, next_b, out_b};
    repeat->carried = c;
    repeat->carried_count = 2;
    maker_output(m, out_a);
    maker_output(m, out_b);
    run_flow(m, plan_of(m, 10), CODEGEN_PROFILE_FULL, 4e-3);
    maker_end(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("codegen_run");
    TCase *t = tcase_create("run");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, one_gemm_on_one_tile_equals_the_product);
    tcase_add_test(t, planned_gemm_equals_the_product);
    tcase_add_test(t, seed_repeat_equals_three_blocks);
    tcase_add_test(t, full_profile_covers_every_step);
    tcase_add_test(t, broadcast_adds_equal_the_sums);
    tcase_add_test(t, rows_are_mapped_in_general_position);
    tcase_add_test(t, f32_chains_equal_their_evaluation);
    tcase_add_test(t, permuted_values_equal_their_view);
    tcase_add_test(t, computed_weights_are_gathered);
    tcase_add_test(t, batched_products_use_their_own_weights);
    tcase_add_loop_test(t, split_products_are_summed, 0, sizeof splits / sizeof *splits);
    tcase_add_test(t, long_streams_take_many_pages);
    tcase_add_test(t, a_run_without_inputs_starts_at_the_host);
    tcase_add_test(t, parameters_survive_a_repeat_that_starts_from_them);
    tcase_add_test(t, values_read_late_in_a_repeat_keep_their_contents);
    tcase_add_test(t, many_kernels_are_linked_past_the_host_window);
    tcase_add_loop_test(t, host_views_feed_both_operands, 0, sizeof views / sizeof *views);
    tcase_add_test(t, chunked_weights_lie_chunk_by_chunk);
    tcase_add_test(t, general_permutes_of_computed_values);
    tcase_add_test(t, several_carried_values_advance_together);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
