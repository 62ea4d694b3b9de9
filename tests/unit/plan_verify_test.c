/* module: compiler/plan */
/* Tests of plan_verify(): every kind of damage to a sound plan is found; and 500 random flows get
 * plans that it accepts. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "compiler/plan/plan_costs.h"
#include "tests/unit/plan_flows.h"

#include <check.h>
#include <stdio.h>

static struct arena *arena;
static struct ipu_error error;
static struct flow_builder *seed;
static struct plan *plan;

static struct plan *search(const struct flow_builder *b, uint32_t ms, int *status)
{
    struct plan_options options = {.search_ms = ms, .finalists = 1, .threads = 1};
    struct plan_result result = {0};
    *status = plan_search(&b->flow, &options, arena, &result, &error);
    if (*status != 0)
        return NULL;
    return result.plans[0];
}

static void setup(void)
{
    int status;
    arena = arena_create(0);
    seed = build_mlp(64, 17, 64, 128, 3);
    plan = search(seed, 5, &status);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(plan_verify(&seed->flow, plan, &error), 0);
}

static void teardown(void)
{
    free(seed);
    arena_destroy(arena);
}

static void expect_refused(const char *word)
{
    ck_assert_int_eq(plan_verify(&seed->flow, plan, &error), IPU_ERR_INTERNAL);
    ck_assert_msg(strstr(error.text, word) != NULL, "%s", error.text);
}

START_TEST(missing_job_is_found)
{
    plan->ops[1].job_count--;
    expect_refused("cover");
}
END_TEST

START_TEST(job_done_twice_is_found)
{
    plan->ops[3].jobs[0] = plan->ops[3].jobs[1];
    expect_refused("cover");
}
END_TEST

START_TEST(short_inner_range_is_found)
{
    for (uint32_t i = 0; i < plan->ops[3].job_count; i++)
        plan->ops[3].jobs[i].inners = 1;
    for (uint32_t i = 0; i < plan->ops[3].job_count; i++)
        plan->ops[3].jobs[i].inner = 0;
    expect_refused("inner");
}
END_TEST

START_TEST(wrong_number_of_inner_parts_is_found)
{
    plan->ops[1].inner_parts++;
    expect_refused("inner parts");
}
END_TEST

START_TEST(rows_past_the_value_are_found)
{
    plan->ops[1].jobs[plan->ops[1].job_count - 1].rows += 17;
    expect_refused("rows leave its batch");
}
END_TEST

START_TEST(panels_past_the_value_are_found)
{
    plan->ops[1].jobs[0].panels += 8;
    expect_refused("past its operands");
}
END_TEST

START_TEST(tile_past_the_last_is_found)
{
    plan->ops[1].jobs[plan->ops[1].job_count - 1].tile = 64;
    expect_refused("tile past");
}
END_TEST

START_TEST(block_on_a_foreign_tile_is_found)
{
    plan->ops[2].out.blocks[plan->ops[2].out.count - 1].tile = 99;
    expect_refused("tile past");
}
END_TEST

START_TEST(cell_without_owner_is_found)
{
    plan->ops[2].out.count--;
    expect_refused("without owner");
}
END_TEST

START_TEST(empty_block_is_found)
{
    plan->ops[2].out.blocks[0].rows = 0;
    expect_refused("empty");
}
END_TEST

START_TEST(unsorted_blocks_are_found)
{
    struct plan_block swap = plan->ops[2].out.blocks[0];
    plan->ops[2].out.blocks[0] = plan->ops[2].out.blocks[1];
    plan->ops[2].out.blocks[1] = swap;
    expect_refused("sorted");
}
END_TEST

START_TEST(missing_layout_is_found)
{
    plan->ops[2].out.count = 0;
    expect_refused("no layout");
}
END_TEST

START_TEST(too_long_f16_sums_are_found)
{
    plan->ops[3].chunk = PLAN_CHUNK_PANELS + 1;
    expect_refused("too many inner panels");
}
END_TEST

START_TEST(moved_final_product_is_found)
{
    struct flow_builder *b = build_begin(64); /* one inner panel: a product in one part */
    build_output(b, build_gemm(b, 0, build_tensor(b, 0, FLOW_INPUT, 40, 16), 64));
    int status;
    struct plan *single = search(b, 5, &status);
    ck_assert_int_eq(plan_verify(&b->flow, single, &error), 0);
    uint32_t last = single->ops[0].out.count - 1;
    single->ops[0].out.blocks[last].tile = 63;
    single->ops[0].jobs[last].tile = 62;
    ck_assert_int_eq(plan_verify(&b->flow, single, &error), IPU_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(error.text, "stay where it is computed"));
    free(b);
}
END_TEST

START_TEST(plan_of_another_flow_is_found)
{
    plan->op_count--;
    expect_refused("not those of the flow");
}
END_TEST

START_TEST(fused_operation_with_a_layout_is_found)
{
    plan->ops[1].fused_next = true;
    expect_refused("layout of its own");
}
END_TEST

/* --- random flows -------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    return hash64_mix(random_state += 0x9e3779b97f4a7c15u) % n;
}

static uint64_t random_size(void)
{
    static const uint64_t limits[] = {4, 20, 70, 300, 1200};
    return 1 + below(limits[below(5)]);
}

/* One more operation on `x`; returns its result. */
static uint32_t grow(struct flow_builder *b, uint32_t region, uint32_t x)
{
    uint64_t rows = b->tensors[x].rows, columns = b->tensors[x].columns;
    switch (below(6)) {
    case 0:
        return build_unary(b, region, below(2) ? FLOW_GELU : FLOW_RELU, x);
    case 1: {
        enum flow_broadcast how = (enum flow_broadcast)below(4);
        bool one_row = how == FLOW_ROW || how == FLOW_SCALAR;
        bool one_column = how == FLOW_COLUMN || how == FLOW_SCALAR;
        uint32_t second =
            build_tensor(b, 0, FLOW_PARAMETER, one_row ? 1 : rows, one_column ? 1 : columns);
        struct flow_op *op = build_op(b, region, FLOW_ADD, x, second, rows, columns);
        op->broadcast = how;
        return op->out;
    }
    case 2: {
        struct flow_op *op = build_op(b, region, FLOW_PERMUTE, x, x, columns, rows);
        op->view = (struct flow_view){2, {{columns, 1}, {rows, (int64_t)columns}}};
        return op->out;
    }
    case 3: {
        struct flow_op *op = build_op(b, region, FLOW_ADD, x, x, rows, columns);
        return op->out;
    }
    default:
        return build_gemm(b, region, x, random_size());
    }
}

static struct flow_builder *random_flow(unsigned index)
{
    static const uint32_t tiles[] = {64, 64, 128, 320, 1472};
    random_state = 1000 + index;
    struct flow_builder *b = build_begin(tiles[below(5)]);
    uint32_t x = build_tensor(b, 0, FLOW_INPUT, random_size(), random_size());
    unsigned steps = 1 + (unsigned)below(4);
    for (unsigned i = 0; i < steps; i++)
        x = grow(b, 0, x);
    if (below(3) == 0) {
        uint32_t region, inside = build_repeat(b, 1 + (unsigned)below(4), x, &region), y = inside;
        for (unsigned i = 0; i < 2; i++)
            y = grow(b, region, y);
        if (b->tensors[y].columns != b->tensors[inside].columns ||
            b->tensors[y].rows != b->tensors[inside].rows) {
            uint32_t w = build_tensor(b, 0, FLOW_PARAMETER, b->tensors[inside].columns,
                                      b->tensors[inside].columns);
            y = build_op(b, region, FLOW_GEMM, inside, w, b->tensors[inside].rows,
                         b->tensors[inside].columns)
                    ->out;
        }
        x = build_repeat_end(b, region, y);
    }
    build_output(b, x);
    return b;
}

START_TEST(random_flows_get_sound_plans)
{
    unsigned planned = 0;
    for (unsigned i = (unsigned)_i * 100; i < (unsigned)_i * 100 + 100; i++) {
        struct flow_builder *b = random_flow(i);
        int status;
        arena_destroy(arena);
        arena = arena_create(0);
        struct plan *p = search(b, 1, &status);
        ck_assert_msg(status == 0 || status == IPU_ERR_NO_FIT, "flow %u: %s", i, error.text);
        if (status == 0) {
            status = plan_verify(&b->flow, p, &error);
            ck_assert_msg(status == 0, "flow %u: %s", i, error.text);
            ck_assert_uint_le(p->peak_tile_bytes, PLAN_TILE_BYTES);
            planned++;
        }
        free(b);
    }
    ck_assert_uint_ge(planned, 98);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan verify");
    TCase *cases = tcase_create("verify");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, missing_job_is_found);
    tcase_add_test(cases, job_done_twice_is_found);
    tcase_add_test(cases, short_inner_range_is_found);
    tcase_add_test(cases, wrong_number_of_inner_parts_is_found);
    tcase_add_test(cases, rows_past_the_value_are_found);
    tcase_add_test(cases, panels_past_the_value_are_found);
    tcase_add_test(cases, tile_past_the_last_is_found);
    tcase_add_test(cases, block_on_a_foreign_tile_is_found);
    tcase_add_test(cases, cell_without_owner_is_found);
    tcase_add_test(cases, empty_block_is_found);
    tcase_add_test(cases, unsorted_blocks_are_found);
    tcase_add_test(cases, missing_layout_is_found);
    tcase_add_test(cases, too_long_f16_sums_are_found);
    tcase_add_test(cases, moved_final_product_is_found);
    tcase_add_test(cases, plan_of_another_flow_is_found);
    tcase_add_test(cases, fused_operation_with_a_layout_is_found);
    tcase_add_loop_test(cases, random_flows_get_sound_plans, 0, 5);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
