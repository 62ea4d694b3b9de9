/* module: compiler/lower */
/* Structure of lowered programs: aliases, copies, multicasts, merged exchanges, carried values; and
 * that the verifier refuses what is broken. */
#include "tests/unit/lower_flows.h"

static struct maker maker;

static struct program *lower(struct maker *m, struct plan_op *ops, uint32_t count)
{
    const struct plan plan = {.op_count = count, .ops = ops};
    struct program *p;
    struct ipu_error error;
    expect_ok(lower_program(&m->flow, &plan, m->arena, &p, &error), &error);
    expect_ok(lower_verify(&m->flow, p, &error), &error);
    return p;
}

static uint32_t count_steps(const struct program *p, enum program_step_kind kind)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->step_count; s++)
        n += p->steps[s].kind == kind;
    return n;
}

static const struct program_step *first_step(const struct program *p, enum program_step_kind kind)
{
    for (uint32_t s = 0; s < p->step_count; s++)
        if (p->steps[s].kind == kind)
            return &p->steps[s];
    ck_abort_msg("no such step");
}

static enum kernel_family family_of(const struct program *p, const struct program_call *c)
{
    return p->specs[c->spec].family;
}

static uint32_t count_calls(const struct program *p, enum kernel_family family)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->step_count; s++)
        for (uint32_t i = 0; i < p->steps[s].call_count; i++)
            n += family_of(p, &p->steps[s].calls[i]) == family;
    return n;
}

/* x[8 x 64] * w[64 x 64], a unary on top, both on a 2 x 2 grid. */
static struct program *gemm_and_unary(struct maker *m, uint32_t *y)
{
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    *y = maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 64, 1), 1);
    maker_output(m, maker_unary(m, FLOW_GELU, *y));
    struct plan_op ops[2] = {grid_gemm(m, 0, 2, 2, 1, 4, SCATTER_NONE), {.op = 1}};
    ops[1].out = ops[0].out;
    return lower(m, ops, 2);
}

START_TEST(host_operands_are_uploaded_without_any_exchange)
{
    uint32_t y;
    struct program *p = gemm_and_unary(&maker, &y);
    ck_assert_uint_eq(p->phase_count, 0);
    ck_assert_uint_eq(p->upload_count, 8); /* x and w on each of four tiles */
    ck_assert_uint_eq(p->download_count, 4);
    maker_end(&maker);
}
END_TEST

START_TEST(a_unary_on_the_same_layout_runs_in_place)
{
    uint32_t y;
    struct program *p = gemm_and_unary(&maker, &y);
    ck_assert_uint_eq(p->step_count, 2);
    for (uint32_t i = 0; i < 4; i++) {
        const struct program_call *gemm = &p->steps[0].calls[i], *gelu = &p->steps[1].calls[i];
        ck_assert_uint_eq(gelu->args[0].index, gelu->args[1].index);
        ck_assert_uint_eq(gemm->args[2].index, gelu->args[0].index);
    }
    maker_end(&maker);
}
END_TEST

START_TEST(a_value_that_is_read_again_is_not_overwritten)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    uint32_t y = maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 64, 1), 1);
    uint32_t z = maker_unary(m, FLOW_GELU, y);
    maker_output(m, maker_add(m, z, y, FLOW_DENSE));
    struct plan_op ops[3] = {grid_gemm(m, 0, 2, 2, 1, 4, SCATTER_NONE), {.op = 1}, {.op = 2}};
    ops[1].out = ops[2].out = ops[0].out;
    struct program *p = lower(m, ops, 3);
    const struct program_call *gelu = &p->steps[1].calls[0];
    ck_assert_uint_ne(gelu->args[0].index, gelu->args[1].index);
    maker_end(m);
}
END_TEST

START_TEST(replicas_of_a_box_are_one_multicast)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    uint32_t y = maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 32, 1), 1);
    maker_output(m, maker_gemm(m, y, maker_host(m, true, FLOW_F16, 32, 64, 1), 1));
    /* y: two tiles, one panel each; the second product needs all of y on four tiles. */
    struct plan_op ops[2] = {grid_gemm(m, 0, 1, 2, 1, 4, SCATTER_NONE),
                             grid_gemm(m, 1, 1, 4, 1, 4, SCATTER_NONE)};
    struct program *p = lower(m, ops, 2);
    const struct program_step *e = first_step(p, PROGRAM_EXCHANGE);
    ck_assert_uint_eq(p->phase_count, 1);
    ck_assert_uint_eq(e->transfer_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(e->transfers[i].tile, i);
        ck_assert_uint_eq(e->transfers[i].words, 8 * 8);
        ck_assert_uint_eq(e->transfers[i].target_count, 4); /* the own tile hears it too */
    }
    ck_assert_uint_eq(count_calls(p, KERNEL_COPY) + count_calls(p, KERNEL_COPY_LIST), 0);
    maker_end(m);
}
END_TEST

START_TEST(products_of_one_value_share_its_exchange)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    uint32_t y = maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 32, 1), 1);
    struct plan_op ops[4];
    ops[0] = grid_gemm(m, 0, 1, 2, 1, 4, SCATTER_NONE);
    for (unsigned i = 1; i < 4; i++) {
        maker_output(m, maker_gemm(m, y, maker_host(m, true, FLOW_F16, 32, 64, 1), 1));
        ops[i] = grid_gemm(m, i, i == 3 ? 2 : 1, 4, 1, 4, SCATTER_NONE);
    }
    struct program *p = lower(m, ops, 4);
    ck_assert_uint_eq(count_steps(p, PROGRAM_EXCHANGE), 1); /* the third joins the first's phase */
    maker_end(m);
}
END_TEST

START_TEST(scattered_sums_receive_every_other_partial)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    maker_output(m, maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 16, 1), 1));
    struct plan_op op = grid_gemm(m, 0, 1, 1, 4, 1, SCATTER_ROWS);
    struct program *p = lower(m, &op, 1);
    const struct program_step *e = first_step(p, PROGRAM_EXCHANGE);
    ck_assert_uint_eq(e->transfer_count, 4 * 3);
    for (uint32_t i = 0; i < e->transfer_count; i++)
        ck_assert_uint_eq(e->transfers[i].words, 2 * 8);
    ck_assert_uint_eq(count_calls(p, KERNEL_REDUCE_F16), 4);
    ck_assert_uint_eq(p->copied_bytes, 0);
    maker_end(m);
}
END_TEST

START_TEST(replicated_sums_add_in_one_order)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    maker_output(m, maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 16, 1), 1));
    struct plan_op op = grid_gemm(m, 0, 1, 1, 4, 1, SCATTER_REPLICATE);
    struct program *p = lower(m, &op, 1);
    const struct program_step *s = &p->steps[0];
    for (uint32_t t = 0; t < 4; t++) /* the own partial is slot t of every tile */
        ck_assert_uint_eq(s->calls[t].args[2].value, t * 8 * 32);
    maker_end(m);
}
END_TEST

START_TEST(row_counts_that_differ_by_one_share_a_kernel)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 17, 64, 1);
    maker_output(m, maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 16, 1), 1));
    struct plan_op op = grid_gemm(m, 0, 4, 1, 1, 4, SCATTER_NONE);
    struct program *p = lower(m, &op, 1);
    uint32_t gemms = 0;
    for (uint32_t i = 0; i < p->spec_count; i++)
        gemms += p->specs[i].family == KERNEL_GEMM_F16;
    ck_assert_uint_eq(gemms, 1);
    ck_assert_uint_eq(p->specs[p->steps[0].calls[0].spec].params[3], 4);
    ck_assert_uint_eq(p->specs[p->steps[0].calls[0].spec].params[4], 5);
    maker_end(m);
}
END_TEST

/* Body: y = x * W on one tile with `late` reading x after y. */
static struct program *carried(struct maker *m, bool late, uint32_t *store)
{
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 4, 16, 1);
    uint32_t inside = maker_repeat(m, 3, x);
    uint32_t y = maker_gemm(m, inside, maker_sequence(m, 3, 16, 16, 1), 1);
    uint32_t z = late ? maker_add(m, y, inside, FLOW_DENSE) : maker_unary(m, FLOW_RELU, y);
    maker_output(m, maker_yield(m, z));
    m->region = 1;
    struct plan_op ops[3] = {
        {0}, grid_gemm(m, 0, 1, 1, 1, 1, SCATTER_NONE), {.region = 1, .op = 1}};
    m->region = 0;
    ops[2].out = ops[1].out;
    struct program *p = lower(m, ops, 3);
    *store = p->downloads[0].from.buffer;
    return p;
}

START_TEST(a_yielded_value_is_written_into_the_store_when_it_is_free)
{
    uint32_t store;
    struct program *p = carried(&maker, false, &store);
    ck_assert_uint_eq(count_calls(p, KERNEL_COPY), 0);
    const struct program_step *last = &p->steps[p->step_count - 2];
    ck_assert_uint_eq(last->calls[0].args[1].index, store);
    maker_end(&maker);
}
END_TEST

START_TEST(a_yielded_value_is_copied_when_the_old_one_is_still_read)
{
    uint32_t store;
    struct program *p = carried(&maker, true, &store);
    ck_assert_uint_eq(count_calls(p, KERNEL_COPY), 1);
    maker_end(&maker);
}
END_TEST

START_TEST(sequences_lie_at_a_constant_distance_and_live_through_the_loop)
{
    uint32_t store, found = 0;
    struct program *p = carried(&maker, false, &store);
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        const struct program_buffer *b = &p->buffers[i];
        if (b->members != 3)
            continue;
        found++;
        ck_assert_uint_eq(b->bytes, 512);
        ck_assert(b->resident);
    }
    ck_assert_uint_eq(found, 1);
    ck_assert_uint_eq(p->upload_count, 1 + 3);
    maker_end(&maker);
}
END_TEST

START_TEST(f32_products_are_refused)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F32, 4, 16, 1);
    maker_output(m, maker_gemm(m, x, maker_host(m, true, FLOW_F16, 16, 16, 1), 1));
    struct plan_op op = grid_gemm(m, 0, 1, 1, 1, 1, SCATTER_NONE);
    const struct plan plan = {.op_count = 1, .ops = &op};
    struct program *p;
    struct ipu_error error;
    ck_assert_int_eq(lower_program(&m->flow, &plan, m->arena, &p, &error), IPU_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "gemm: matrix products are computed in f16"));
    maker_end(m);
}
END_TEST

START_TEST(a_plan_of_another_workload_is_refused)
{
    struct maker *m = &maker;
    uint32_t y;
    gemm_and_unary(m, &y);
    const struct plan plan = {.op_count = 0};
    struct program *p;
    struct ipu_error error;
    ck_assert_int_eq(lower_program(&m->flow, &plan, m->arena, &p, &error), IPU_ERR_INTERNAL);
    maker_end(m);
}
END_TEST

/* Budgets of the arena in steps below the size of any list, up to what is needed: each request is
 * refused once. */
START_TEST(every_request_that_is_refused_is_lack_of_memory)
{
    struct maker *m = &maker;
    struct program *p;
    struct ipu_error error;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    uint32_t y = maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 16, 1), 1);
    maker_output(m, maker_gemm(m, y, maker_host(m, true, FLOW_F16, 16, 32, 1), 1));
    struct plan_op ops[2] = {grid_gemm(m, 0, 1, 1, 4, 1, SCATTER_ROWS),
                             grid_gemm(m, 1, 2, 2, 1, 1, SCATTER_NONE)};
    const struct plan plan = {.op_count = 2, .ops = ops};
    struct arena *whole = arena_create(0);
    expect_ok(lower_program(&m->flow, &plan, whole, &p, &error), &error);
    size_t needed = arena_used(whole);
    arena_destroy(whole);
    for (size_t budget = 64; budget < needed; budget += 64) {
        struct arena *small = arena_create(budget);
        int code = lower_program(&m->flow, &plan, small, &p, &error);
        if (code != IPU_ERR_NO_MEMORY)
            ck_abort_msg("%zu of %zu bytes: code %d: %s", budget, needed, code, error.text);
        arena_destroy(small);
    }
    maker_end(m);
}
END_TEST

/* --- the verifier refuses ------------------------------------------------------------------- */

static struct program *split(struct maker *m)
{
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 8, 64, 1);
    maker_output(m, maker_gemm(m, x, maker_host(m, true, FLOW_F16, 64, 16, 1), 1));
    struct plan_op op = grid_gemm(m, 0, 1, 1, 4, 1, SCATTER_ROWS);
    return lower(m, &op, 1);
}

static void break_transfer(struct program *p)
{
    p->steps[1].transfers[0].targets[0].destination.offset += 32;
}
static void drop_transfer(struct program *p)
{
    p->steps[1].transfer_count--;
}
static void lengthen_transfer(struct program *p)
{
    p->steps[1].transfers[0].words += 1000;
}
static void drop_upload(struct program *p)
{
    p->upload_count--;
}
static void shorten_life(struct program *p)
{
    p->buffers[p->steps[2].calls[0].args[0].index].last = 0;
}
static void read_elsewhere(struct program *p)
{
    p->steps[2].calls[0].args[0].index = p->steps[2].calls[3].args[0].index;
}
static void forget_region(struct program *p)
{
    p->buffers[p->steps[0].calls[0].args[1].index].interleaved = false;
}
static void lose_output(struct program *p)
{
    p->download_count--;
}
static void alias_operands(struct program *p)
{
    p->steps[0].calls[0].args[0] = p->steps[0].calls[0].args[2];
}
static void send_to_itself(struct program *p)
{
    p->steps[1].transfers[0].targets[0].tile = p->steps[1].transfers[0].tile;
}

static void (*const damages[])(struct program *) = {
    break_transfer, drop_transfer, lengthen_transfer, drop_upload,    shorten_life,
    read_elsewhere, forget_region, lose_output,       alias_operands, send_to_itself};

START_TEST(the_verifier_refuses_a_damaged_program)
{
    struct program *p = split(&maker);
    struct ipu_error error;
    damages[_i](p);
    ck_assert_int_eq(lower_verify(&maker.flow, p, &error), IPU_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(error.text, "verify"));
    maker_end(&maker);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lower_program");
    TCase *t = tcase_create("structure");
    tcase_add_test(t, host_operands_are_uploaded_without_any_exchange);
    tcase_add_test(t, a_unary_on_the_same_layout_runs_in_place);
    tcase_add_test(t, a_value_that_is_read_again_is_not_overwritten);
    tcase_add_test(t, replicas_of_a_box_are_one_multicast);
    tcase_add_test(t, products_of_one_value_share_its_exchange);
    tcase_add_test(t, scattered_sums_receive_every_other_partial);
    tcase_add_test(t, replicated_sums_add_in_one_order);
    tcase_add_test(t, row_counts_that_differ_by_one_share_a_kernel);
    tcase_add_test(t, a_yielded_value_is_written_into_the_store_when_it_is_free);
    tcase_add_test(t, a_yielded_value_is_copied_when_the_old_one_is_still_read);
    tcase_add_test(t, sequences_lie_at_a_constant_distance_and_live_through_the_loop);
    tcase_add_test(t, f32_products_are_refused);
    tcase_add_test(t, a_plan_of_another_workload_is_refused);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_request_that_is_refused_is_lack_of_memory);
    tcase_add_loop_test(t, the_verifier_refuses_a_damaged_program, 0,
                        sizeof damages / sizeof *damages);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
