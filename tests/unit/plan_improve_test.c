/* module: compiler/plan */
/* Tests of the parts of the search: prices against a direct count, local moves from random starts,
 * the pool, the first plan's speed in work. */
#include "base/buffer.h"
#include "base/hash.h"
#include "compiler/plan/search.h"
#include "tests/unit/plan_flows.h"

#include <check.h>
#include <stdio.h>

static struct arena *arena;
static struct ipu_error error;
static struct model *model;
static struct space *space;
static struct flow_builder *builder;

static void open_space(struct flow_builder *b)
{
    builder = b;
    arena = arena_create(0);
    ck_assert_int_eq(model_build(&b->flow, arena, &model, &error), 0);
    ck_assert_int_eq(space_open(model, &space, &error), 0);
    ck_assert(candidates_enumerate(space, 48, THRIFT_NONE));
}

static void teardown(void)
{
    space_close(space);
    arena_destroy(arena);
    free(builder);
}

/* --- traffic ------------------------------------------------------------------------------- */

/* Owners of every cell of a layout as a bit per tile, built cell by cell. */
static uint8_t *owners(const struct lay *lay, uint32_t rows, uint32_t panels)
{
    uint8_t *map = calloc((size_t)rows * panels, 64);
    for (uint32_t r = 0; r < lay->nr; r++)
        for (uint32_t p = 0; p < lay->np; p++)
            for (uint32_t q = 0; q < lay->reps; q++)
                for (uint32_t i = lay->row_cut[r]; i < lay->row_cut[r + 1]; i++)
                    for (uint32_t j = lay->panel_cut[p]; j < lay->panel_cut[p + 1]; j++)
                        map[(i * panels + j) * 64 + lay->tile[(r * lay->np + p) * lay->reps + q]] =
                            1;
    return map;
}

/* Words that tile t must receive, counted one cell at a time. */
static uint32_t missing_words(const uint8_t *from, const uint8_t *need, uint32_t cells, uint32_t t)
{
    uint32_t words = 0;
    for (uint32_t c = 0; c < cells; c++)
        words += need[c * 64 + t] && !from[c * 64 + t] ? 8 : 0;
    return words;
}

START_TEST(received_words_equal_a_count_of_cells)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct cand *up = candidate_get(space, 1,
                                    (uint32_t)hash64_mix((uint64_t)_i) %
                                        space->classes[model->ops[1].class_index].count);
    struct cand *down = candidate_get(space, 3,
                                      (uint32_t)hash64_mix((uint64_t)_i + 999) %
                                          space->classes[model->ops[3].class_index].count);
    uint8_t *from = owners(up->out, 17, 8), *need = owners(down->need_a, 17, 8);
    traffic_reset(space);
    traffic_add(space, up->out, down->need_a, 8);
    for (uint32_t t = 0; t < 64; t++) {
        uint32_t words = missing_words(from, need, 17 * 8, t);
        /* A tile of several may hear its own part again instead of copying it. */
        ck_assert_uint_ge(space->receive[t], words);
        ck_assert_uint_le(space->receive[t], down->need_a->cells[t] * 8);
        ck_assert_int_eq(space->receive[t] == 0, words == 0);
        if (down->need_a->reps == 1)
            ck_assert_uint_eq(space->receive[t], words);
    }
    free(from);
    free(need);
}
END_TEST

START_TEST(each_cell_is_sent_once)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct lay *from = lay_grid(space, 17, 8, 17, 1, 0, 0);
    struct lay *need = lay_grid(space, 17, 8, 1, 8, 0, 32);
    traffic_reset(space);
    traffic_add(space, from, need, 8);
    uint32_t sent = 0, received = 0;
    for (uint32_t t = 0; t < 64; t++) {
        sent += space->send[t];
        received += space->receive[t];
    }
    ck_assert_uint_eq(sent, 17 * 8 * 8);
    ck_assert_uint_eq(received, 17 * 8 * 8);
    for (uint32_t t = 0; t < 17; t++)
        ck_assert_uint_eq(space->send[t], 8 * 8);
}
END_TEST

START_TEST(equal_layouts_are_one_and_cost_nothing)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct lay *one = lay_grid(space, 17, 8, 4, 4, 0, 0);
    uint32_t copy;
    ck_assert_ptr_eq(one, lay_grid(space, 17, 8, 4, 4, 0, 0));
    ck_assert_ptr_ne(one, lay_grid(space, 17, 8, 4, 4, 1, 0));
    traffic_reset(space);
    traffic_add(space, one, one, 8);
    ck_assert_uint_eq(traffic_cycles(space, &copy), 0);
    ck_assert_uint_eq(copy, 0);
}
END_TEST

START_TEST(box_inside_an_own_block_costs_nothing)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct lay *coarse = lay_grid(space, 16, 8, 1, 1, 0, 5);
    uint32_t copy;
    space->row_cuts.count = space->panel_cuts.count = space->tiles_list.count = 0;
    const uint32_t cuts[] = {0, 8, 16};
    for (unsigned i = 0; i < 3; i++)
        u32_push(space, &space->row_cuts, cuts[i]);
    u32_push(space, &space->panel_cuts, 0);
    u32_push(space, &space->panel_cuts, 8);
    u32_push(space, &space->tiles_list, 5);
    u32_push(space, &space->tiles_list, 5);
    struct lay *fine = lay_intern(space, 1);
    traffic_reset(space);
    traffic_add(space, coarse, fine, 8);
    ck_assert_uint_eq(traffic_cycles(space, &copy), 0);
    ck_assert_uint_eq(copy, 0);
    ck_assert(traffic_local(coarse, fine, 5));
    ck_assert(!traffic_local(fine, coarse, 5));
}
END_TEST

/* --- candidates ---------------------------------------------------------------------------- */

START_TEST(candidates_hold_every_cell_of_their_operands)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    const struct cand_class *class = &space->classes[model->ops[3].class_index];
    for (uint32_t i = 0; i < class->count; i++) {
        struct cand *c = candidate_get(space, 3, i);
        ck_assert(!c->bad);
        uint64_t products = 0;
        for (uint32_t t = 0; t < 64; t++)
            products += c->partial->cells[t];
        ck_assert_uint_eq(products, 17 * 4 * (uint64_t)c->choice.gk);
        ck_assert_uint_eq(c->out->row_cut[c->out->nr], 17);
        ck_assert_uint_eq(c->out->panel_cut[c->out->np], 4);
        ck_assert_uint_eq(gemm_right(space, &model->ops[3], c)->row_cut[c->choice.gk], 128);
    }
}
END_TEST

START_TEST(illegal_choices_are_refused)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct plan_choice good = space->classes[model->ops[1].class_index].list[0].choice;
    struct plan_choice c = good;
    ck_assert(gemm_choice_fix(&model->ops[1], 64, &c));
    c = good;
    c.gm = 18;
    ck_assert(!gemm_choice_fix(&model->ops[1], 64, &c));
    c = good;
    c.gn = 0;
    ck_assert(!gemm_choice_fix(&model->ops[1], 64, &c));
    c = good;
    c.order = GRID_ORDERS;
    ck_assert(!gemm_choice_fix(&model->ops[1], 64, &c));
    c = good;
    c.gm = 17;
    c.gn = 8;
    ck_assert(!gemm_choice_fix(&model->ops[1], 64, &c));
    c = good;
    c.offset = 64;
    ck_assert(!gemm_choice_fix(&model->ops[1], 64, &c));
}
END_TEST

START_TEST(call_prices_stay_near_the_exact_ones)
{
    static const uint32_t rows[] = {1, 3, 7, 18, 19, 81, 183}, inners[] = {1, 2, 5, 13, 15, 24, 40};
    static const uint32_t panels[] = {1, 2, 3, 5, 8};
    open_space(build_mlp(64, 17, 64, 128, 3));
    for (unsigned r = 0; r < 7; r++)
        for (unsigned k = 0; k < 7; k++)
            for (unsigned c = 0; c < 5; c++) {
                uint32_t exact = plan_cost_gemm(rows[r], inners[k], panels[c]);
                uint32_t price = gemm_call_cycles(space, rows[r], inners[k], panels[c]);
                ck_assert_uint_le(price * 100ull, exact * 102ull);
                ck_assert_uint_ge(price * 100ull, exact * 98ull);
            }
}
END_TEST

/* --- search -------------------------------------------------------------------------------- */

static void random_start(struct solution *start, uint64_t seed)
{
    struct memory_use use;
    ck_assert(solution_new(space, start));
    for (uint64_t draw = seed * 1000;; draw++) {
        for (uint32_t i = 0; i < model->op_count; i++) {
            uint32_t count = space->classes[model->ops[i].class_index].count;
            start->pick[i] = (uint16_t)(count ? hash64_mix(draw * 31 + i) % count : 0);
        }
        if (solution_price(space, start) && solution_memory(space, start->pick, &use) &&
            memory_fits(space, &use))
            return;
    }
}

START_TEST(local_moves_from_random_starts_reach_the_beam)
{
    open_space(_i % 2 ? build_mlp(128, 50, 96, 200, 2) : build_mlp(64, 17, 64, 128, 3));
    struct solution start;
    struct pool beam, pool;
    struct budget budget = {.units = UINT64_MAX, .deadline_ns = UINT64_MAX};
    ck_assert(pool_open(&beam, space, 8) && pool_open(&pool, space, 8));
    ck_assert(beam_run(space, 16, UINT32_MAX, 0, &budget, &beam));
    random_start(&start, (uint64_t)_i + 1);
    budget.units = space->units + 200000;
    improve_run(space, &start, &pool, &budget, (uint64_t)_i);
    ck_assert_uint_gt(start.cost.cycles, pool.list[0].cost.cycles);
    /* Within two per cent of each other: neither is stuck far from the optimum. */
    ck_assert_uint_le(pool.list[0].cost.cycles * 50, beam.list[0].cost.cycles * 51);
    ck_assert_uint_le(beam.list[0].cost.cycles * 50, pool.list[0].cost.cycles * 51);
}
END_TEST

START_TEST(price_of_a_solution_does_not_depend_on_history)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct solution a, b;
    random_start(&a, 5);
    random_start(&b, 6);
    uint64_t first = a.cost.cycles;
    ck_assert(solution_price(space, &b) && solution_price(space, &a));
    ck_assert_uint_eq(a.cost.cycles, first);
}
END_TEST

START_TEST(recipes_read_back_to_the_same_plan)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct solution a, b;
    struct buffer recipe = {0}, again = {0};
    random_start(&a, (uint64_t)_i + 7);
    ck_assert(solution_new(space, &b));
    ck_assert(recipe_write(space, a.pick, &recipe));
    ck_assert(recipe_read(space, recipe.data, recipe.size, &b));
    ck_assert_uint_eq(a.cost.cycles, b.cost.cycles);
    ck_assert(recipe_write(space, b.pick, &again));
    ck_assert_mem_eq(recipe.data, again.data, recipe.size);
    ck_assert(!recipe_read(space, recipe.data, recipe.size - 1, &b));
    recipe.data[4 + 22] = CHOICE_GRID;
    ck_assert(!recipe_read(space, recipe.data, recipe.size, &b));
    buffer_free(&recipe);
    buffer_free(&again);
}
END_TEST

START_TEST(pool_keeps_the_best_of_each_family)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct pool pool;
    struct solution s;
    ck_assert(pool_open(&pool, space, 4));
    for (uint64_t i = 0; i < 60; i++) {
        random_start(&s, i + 20);
        pool_offer(&pool, space, &s);
    }
    ck_assert_uint_eq(pool.count, 4);
    for (unsigned i = 1; i < pool.count; i++) {
        ck_assert_uint_ge(pool.list[i].cost.cycles, pool.list[i - 1].cost.cycles);
        for (unsigned j = 0; j < i; j++)
            ck_assert_uint_ne(pool.family[i], pool.family[j]);
    }
}
END_TEST

START_TEST(first_plan_takes_little_work)
{
    open_space(build_mlp_once(1472, 729, 1152, 4304));
    struct solution first;
    struct memory_use use;
    ck_assert(solution_new(space, &first));
    ck_assert(baseline_run(space, &first, &use));
    ck_assert(memory_fits(space, &use));
    ck_assert_uint_lt(space->units, 100000); /* about a tenth of a second */
}
END_TEST

START_TEST(memory_counts_every_resident_weight)
{
    open_space(build_mlp(64, 17, 64, 128, 3));
    struct solution s;
    struct memory_use use;
    random_start(&s, 3);
    ck_assert(solution_memory(space, s.pick, &use));
    struct cand *up = candidate_get(space, 1, s.pick[1]);
    uint64_t weights = 3ull * ((4 + up->choice.gk - 1u) / up->choice.gk) *
                       ((8 + up->choice.gn - 1u) / up->choice.gn) * 512;
    ck_assert_uint_ge(use.interleaved, weights);
    ck_assert_uint_ge(use.total, use.interleaved);
    ck_assert_uint_ge(use.total, use.standard);
}
END_TEST

START_TEST(large_buffers_count_against_region_1)
{
    /* A left operand of more than region 0 beside weights and products: 64 x 4000 x 512 x 512. */
    struct flow_builder *b = build_begin(64);
    uint32_t x = build_tensor(b, 0, FLOW_INPUT, 4000, 512);
    build_output(b, build_gemm(b, 0, x, 512));
    open_space(b);
    uint32_t count = space->classes[0].count;
    unsigned larger = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct memory_use use;
        uint16_t pick = (uint16_t)i;
        ck_assert(solution_memory(space, &pick, &use));
        ck_assert_uint_ge(use.bound, use.interleaved);
        if (use.largest_standard > PLAN_REGION0_BYTES) {
            ck_assert_uint_ge(use.bound, use.interleaved + PLAN_REGION0_BYTES);
            larger++;
        }
    }
    ck_assert_uint_gt(larger, 0);
}
END_TEST

START_TEST(lean_plans_fit_where_fast_ones_do_not)
{
    /* 64 tiles with 5 x 4 MiB of weights: no room for a second copy. */
    open_space(build_mlp(64, 200, 512, 2048, 5));
    struct solution first;
    struct memory_use use;
    ck_assert(solution_new(space, &first));
    ck_assert(baseline_run(space, &first, &use));
    ck_assert(memory_fits(space, &use));
    ck_assert_uint_gt(use.interleaved, 5 * 65536);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan improve");
    TCase *cases = tcase_create("improve");
    tcase_add_checked_fixture(cases, NULL, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, received_words_equal_a_count_of_cells, 0, 40);
    tcase_add_test(cases, each_cell_is_sent_once);
    tcase_add_test(cases, equal_layouts_are_one_and_cost_nothing);
    tcase_add_test(cases, box_inside_an_own_block_costs_nothing);
    tcase_add_test(cases, candidates_hold_every_cell_of_their_operands);
    tcase_add_test(cases, illegal_choices_are_refused);
    tcase_add_test(cases, call_prices_stay_near_the_exact_ones);
    tcase_add_loop_test(cases, local_moves_from_random_starts_reach_the_beam, 0, 4);
    tcase_add_test(cases, price_of_a_solution_does_not_depend_on_history);
    tcase_add_loop_test(cases, recipes_read_back_to_the_same_plan, 0, 5);
    tcase_add_test(cases, pool_keeps_the_best_of_each_family);
    tcase_add_test(cases, first_plan_takes_little_work);
    tcase_add_test(cases, memory_counts_every_resident_weight);
    tcase_add_test(cases, large_buffers_count_against_region_1);
    tcase_add_test(cases, lean_plans_fit_where_fast_ones_do_not);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
