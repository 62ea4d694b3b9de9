/* module: compiler/codegen */
/* Products in several passes, with weights anywhere and with a staged host operand, executed on the
 * simulated device: the same values as in one pass, in less memory. */
#include "tests/unit/codegen_flows.h"

static struct maker maker;

struct shape {
    uint32_t rows, inner, columns, gm, gn, gk, chunk;
    enum scatter scatter;
    uint32_t row_passes, panel_passes;
    bool anywhere, staged;
};

static const struct shape shapes[] = {
    {23, 80, 96, 1, 2, 1, 5, SCATTER_NONE, 4, 1, false, false},
    {23, 80, 96, 2, 2, 1, 5, SCATTER_NONE, 3, 3, true, false},
    {23, 80, 96, 1, 3, 1, 5, SCATTER_NONE, 1, 2, true, true},
    {40, 96, 80, 1, 2, 3, 2, SCATTER_ROWS, 3, 1, false, true},
    {40, 96, 80, 1, 1, 3, 2, SCATTER_PANELS, 3, 2, true, false},
    {40, 96, 80, 2, 2, 3, 1, SCATTER_ROWS, 4, 3, true, true},
    {13, 96, 40, 2, 3, 2, 3, SCATTER_NONE, 2, 1, false, false},
    {13, 96, 40, 2, 3, 2, 3, SCATTER_FOREIGN, 3, 1, true, false},
    {14, 200, 33, 1, 1, 4, 2, SCATTER_REPLICATE, 5, 2, false, true},
    {6, 200, 33, 2, 1, 1, 3, SCATTER_NONE, 2, 2, true, false}, /* chunks on one tile only */
    {7, 64, 48, 2, 1, 1, 4, SCATTER_NONE, 4, 1, true, true},  /* 3 rows in 4 passes: one is empty */
    {5, 40, 16, 1, 1, 1, 3, SCATTER_NONE, 5, 1, true, false}, /* a row a pass */
};

static struct plan_op pass_op(struct maker *m, unsigned op, const struct shape *s)
{
    struct plan_op out = grid_gemm(m, op, s->gm, s->gn, s->gk, s->chunk, s->scatter);
    out.row_passes = s->row_passes;
    out.panel_passes = s->panel_passes;
    out.weights_anywhere = s->anywhere;
    if (s->staged)
        out.staged = grid_layout(m, m->regions[0].ops[op].a, 3, 2, 17);
    return out;
}

START_TEST(passes_change_no_value)
{
    struct maker *m = &maker;
    const struct shape *s = &shapes[_i];
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, s->rows, s->inner, 1);
    uint32_t w = maker_host(m, true, FLOW_F16, s->inner, s->columns, 1 / sqrt(s->inner));
    maker_output(m, maker_gemm(m, x, w, 1));
    struct plan_op op = pass_op(m, 0, s);
    const struct plan plan = {.op_count = 1, .ops = &op};
    run_flow(m, &plan, CODEGEN_PROFILE_OVERALL, 2e-3);
    maker_end(m);
}
END_TEST

/* x.w, then (x.w).(v.u): left operand and weights are computed. */
START_TEST(computed_operands_pass_by)
{
    static const struct shape product[] = {
        {0, 0, 0, 1, 2, 1, 4, SCATTER_NONE, 2, 1, true, false},
        {0, 0, 0, 1, 2, 1, 4, SCATTER_NONE, 1, 3, false, false},
        {0, 0, 0, 2, 1, 2, 2, SCATTER_ROWS, 3, 3, true, false},
        {0, 0, 0, 1, 1, 2, 1, SCATTER_PANELS, 2, 5, false, false},
    };
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 22, 32, 1);
    uint32_t w = maker_host(m, true, FLOW_F16, 32, 56, 0.18);
    uint32_t v = maker_host(m, true, FLOW_F16, 56, 48, 1);
    uint32_t u = maker_host(m, true, FLOW_F16, 48, 90, 0.02);
    uint32_t a = maker_gemm(m, x, w, 1), b = maker_gemm(m, v, u, 1);
    maker_output(m, maker_gemm(m, a, b, 1));
    struct plan_op ops[3] = {grid_gemm(m, 0, 3, 2, 1, 4, SCATTER_NONE),
                             grid_gemm(m, 1, 4, 3, 1, 4, SCATTER_NONE),
                             pass_op(m, 2, &product[_i])};
    const struct plan plan = {.op_count = 3, .ops = ops};
    run_flow(m, &plan, CODEGEN_PROFILE_FULL, 3e-3);
    maker_end(m);
}
END_TEST

/* The sum of a pass must not overwrite the carried value that later passes read. */
START_TEST(passes_in_a_repeat_keep_the_carried_value)
{
    const struct shape s = {0, 0, 0, 1, 1, 4, 1, SCATTER_ROWS, 3, 1, true, false};
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 24, 64, 1);
    uint32_t inside = maker_repeat(m, 3, x);
    uint32_t w = maker_sequence(m, 3, 64, 64, 0.125);
    maker_gemm(m, inside, w, 1);
    struct plan_op ops[2] = {{.op = 0}, {0}};
    struct plan_op product = grid_gemm(m, 0, 1, 1, 4, 1, SCATTER_ROWS);
    product.row_passes = s.row_passes;
    ops[1] = product;
    maker_output(m, maker_yield(m, m->regions[1].ops[0].out));
    const struct plan plan = {.op_count = 2, .ops = ops};
    run_flow(m, &plan, CODEGEN_PROFILE_OVERALL, 5e-3);
    maker_end(m);
}
END_TEST

/* Bytes that live at once on the fullest tile. */
static uint64_t peak_bytes(const struct program *p)
{
    uint64_t most = 0;
    for (uint32_t s = 0; s < p->step_count; s++) {
        uint64_t live[PROGRAM_TILES] = {0};
        for (uint32_t i = 0; i < p->buffer_count; i++) {
            const struct program_buffer *b = &p->buffers[i];
            if (b->resident || (b->first <= s && s <= b->last))
                live[b->tile] += program_buffer_bytes(b);
            most = live[b->tile] > most ? live[b->tile] : most;
        }
    }
    return most;
}

START_TEST(passes_divide_the_memory_of_operands_and_partials)
{
    const struct shape whole = {0, 0, 0, 1, 2, 4, 4, SCATTER_ROWS, 1, 1, false, true};
    const struct shape parts = {0, 0, 0, 1, 2, 4, 4, SCATTER_ROWS, 8, 1, false, true};
    struct maker *m = &maker;
    struct program *program[2];
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 400, 256, 1);
    uint32_t w = maker_host(m, true, FLOW_F16, 256, 64, 0.06);
    maker_output(m, maker_gemm(m, x, w, 1));
    for (int i = 0; i < 2; i++) {
        struct plan_op op = pass_op(m, 0, i == 0 ? &whole : &parts);
        const struct plan plan = {.op_count = 1, .ops = &op};
        struct ipu_error error;
        expect_ok(lower_program(&m->flow, &plan, m->arena, &program[i], &error), &error);
    }
    /* Weights of 4 KiB, pieces of the result of 6.4 KB and, on six tiles, 34 KB of the staged
     * operand stay; beside them the operand box, the product and the slots of its sum, 102 KB, live
     * at once, or an eighth of them. */
    uint64_t fixed = 4096 + 6400 + 34176;
    ck_assert_uint_gt(peak_bytes(program[0]), 70000);
    ck_assert_uint_lt(peak_bytes(program[1]), fixed + 102400 / 8 + 1000);
    maker_end(m);
}
END_TEST

START_TEST(weights_anywhere_are_not_bound_to_interleaved_memory)
{
    struct maker *m = &maker;
    const struct shape s = {0, 0, 0, 1, 1, 1, 4, SCATTER_NONE, 1, 2, true, false};
    struct program *program;
    struct ipu_error error;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 4, 64, 1);
    maker_output(m, maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 64, 0.1), 1));
    struct plan_op op = pass_op(m, 0, &s);
    const struct plan plan = {.op_count = 1, .ops = &op};
    expect_ok(lower_program(&m->flow, &plan, m->arena, &program, &error), &error);
    unsigned weights = 0;
    for (uint32_t i = 0; i < program->upload_count; i++) {
        const struct program_upload *u = &program->uploads[i];
        if (u->form != PROGRAM_WEIGHTS)
            continue;
        ck_assert(!program->buffers[u->to.buffer].interleaved);
        ck_assert_uint_eq(program->buffers[u->to.buffer].bytes, 4 * 2 * 512);
        weights++;
    }
    ck_assert_uint_eq(weights, 2);
    maker_end(m);
}
END_TEST

/* The repeat is the first step: nothing runs before it that would date the upload earlier. */
START_TEST(inputs_read_in_a_repeat_live_to_its_end)
{
    struct maker *m = &maker;
    struct program *program;
    struct ipu_error error;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 24, 64, 1);
    uint32_t w = maker_host(m, false, FLOW_F16, 64, 64, 0.1);
    uint32_t y = maker_gemm(m, maker_repeat(m, 3, x), w, 1);
    maker_output(m, maker_yield(m, maker_unary(m, FLOW_GELU, y)));
    expect_ok(lower_program(&m->flow, plan_of(m, 5), m->arena, &program, &error), &error);
    ck_assert_int_eq(program->steps[0].kind, PROGRAM_REPEAT);
    unsigned seen = 0;
    for (uint32_t i = 0; i < program->upload_count; i++) {
        const struct program_upload *u = &program->uploads[i];
        if (u->tensor != w)
            continue;
        ck_assert_uint_eq(program->buffers[u->to.buffer].last, program->steps[0].other);
        seen++;
    }
    ck_assert_uint_gt(seen, 0);
    maker_end(m);
}
END_TEST

/* Little memory makes the planner choose passes by itself. */
START_TEST(plans_for_little_memory_equal_the_product)
{
    static const struct {
        uint32_t rows, dim, hidden, bytes;
    } flows[] = {{150, 256, 320, 30000}, {64, 400, 500, 36000}, {333, 128, 96, 17000}};
    struct maker *m = &maker;
    struct ipu_error error;
    struct plan_result result = {0};
    struct plan_options options = {
        .search_ms = 5, .finalists = 1, .threads = 1, .tile_bytes = flows[_i].bytes};
    uint32_t dim = flows[_i].dim, hidden = flows[_i].hidden;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, flows[_i].rows, dim, 1);
    uint32_t up = maker_host(m, true, FLOW_F16, dim, hidden, 1 / sqrt(dim));
    uint32_t down = maker_host(m, true, FLOW_F16, hidden, dim, 1 / sqrt(hidden));
    uint32_t h = maker_unary(m, FLOW_GELU, maker_gemm(m, x, up, 1));
    maker_output(m, maker_gemm(m, h, down, 1));
    expect_ok(plan_search(&m->flow, &options, m->arena, &result, &error), &error);
    const struct plan *plan = result.plans[0];
    expect_ok(plan_verify(&m->flow, plan, &error), &error);
    ck_assert_uint_le(plan->peak_tile_bytes, flows[_i].bytes);
    ck_assert_uint_gt(plan->ops[0].row_passes * plan->ops[0].panel_passes *
                          plan->ops[2].row_passes * plan->ops[2].panel_passes,
                      1);
    run_flow(m, plan, CODEGEN_PROFILE_OVERALL, 4e-3);
    maker_end(m);
}
END_TEST

/* --- what fits ------------------------------------------------------------------------------ */

/* Too large for the fast vocabulary: each was refused before there were passes. */
static const struct {
    uint32_t tiles, rows, dim, hidden;
} tight[] = {
    {64, 200, 1024, 4096},
    {64, 2000, 512, 2048},
    {64, 1, 2048, 4000},
    {128, 729, 1152, 4304},
};

START_TEST(tight_shapes_are_planned_and_placed)
{
    struct maker *m = &maker;
    struct compiled c;
    const struct codegen_options options = {.threads = 2, .compiler = "test"};
    maker_begin(m, tight[_i].tiles);
    uint32_t dim = tight[_i].dim, hidden = tight[_i].hidden;
    uint32_t x = maker_host(m, false, FLOW_F16, tight[_i].rows, dim, 1);
    uint32_t up = maker_host(m, true, FLOW_F16, dim, hidden, 1 / sqrt(dim));
    uint32_t down = maker_host(m, true, FLOW_F16, hidden, dim, 1 / sqrt(hidden));
    uint32_t h = maker_unary(m, FLOW_GELU, maker_gemm(m, x, up, 1));
    maker_output(m, maker_gemm(m, h, down, 1));
    memset(&c, 0, sizeof c);
    lower_and_place(m, plan_of(m, 5), &c, &options);
    maker_end(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("codegen_passes");
    TCase *t = tcase_create("passes");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, passes_change_no_value, 0, sizeof shapes / sizeof *shapes);
    tcase_add_loop_test(t, computed_operands_pass_by, 0, 4);
    tcase_add_test(t, passes_in_a_repeat_keep_the_carried_value);
    tcase_add_test(t, passes_divide_the_memory_of_operands_and_partials);
    tcase_add_test(t, weights_anywhere_are_not_bound_to_interleaved_memory);
    tcase_add_test(t, inputs_read_in_a_repeat_live_to_its_end);
    tcase_add_loop_test(t, plans_for_little_memory_equal_the_product, 0, 3);
    tcase_add_loop_test(t, tight_shapes_are_planned_and_placed, 0, sizeof tight / sizeof *tight);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
