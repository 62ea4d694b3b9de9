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

int main(void)
{
    Suite *s = suite_create("codegen_run");
    TCase *t = tcase_create("run");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, one_gemm_on_one_tile_equals_the_product);
    tcase_add_test(t, planned_gemm_equals_the_product);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
