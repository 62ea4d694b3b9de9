/* module: compiler/graph */
/* Graph checks and the translation to a flow: each rule with the sentence that a user gets. */
#include "base/half.h"
#include "compiler/graph/graph.h"
#include "proto/build.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Ipu__Workload__ElementType T16 = IPU__WORKLOAD__ELEMENT_TYPE__F16;

struct fixture {
    struct workload_build b;
    struct arena *arena;
    struct graph_message *message;
    struct graph *graph;
    struct flow *flow;
    struct ipu_error error;
};

static void open_fixture(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    f->arena = arena_create(0);
    build_begin(&f->b, "test", 64);
}

static void close_fixture(struct fixture *f)
{
    graph_release(f->message);
    arena_destroy(f->arena);
    build_end(&f->b);
}

static int check_built(struct fixture *f)
{
    struct buffer bytes = {0};
    ck_assert(build_serialize(&f->b, &bytes));
    int rc = graph_parse(bytes.data, bytes.size, &f->message, &f->error);
    buffer_free(&bytes);
    if (rc == 0)
        rc = graph_check(graph_message(f->message), f->arena, &f->graph, &f->error);
    return rc;
}

static int flow_built(struct fixture *f)
{
    int rc = check_built(f);
    return rc ? rc : graph_flow(f->graph, f->arena, &f->flow, &f->error);
}

static uint32_t input2(struct fixture *f, const char *name, uint64_t rows, uint64_t columns)
{
    const uint64_t shape[2] = {rows, columns};
    return build_input(&f->b, name, T16, shape, 2, 1, 0);
}

static void expect_error(struct fixture *f, int code, const char *part)
{
    int rc = flow_built(f);
    ck_assert_msg(rc == code, "got %d (%s)", rc, f->error.text);
    ck_assert_msg(strstr(f->error.text, part), "\"%s\" lacks \"%s\"", f->error.text, part);
}

START_TEST(matmul_shape_mismatch_names_both_shapes_and_the_operation)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t y =
        build_matmul(&f.b, "up", input2(&f, "a", 3, 5), input2(&f, "b", 4, 7), false, false);
    build_output(&f.b, y, "y");
    expect_error(&f, IPU_ERR_INVALID, "(matmul 'up'): left is [3, 5] and right is [4, 7]");
    close_fixture(&f);
}
END_TEST

START_TEST(dangling_and_cyclic_values_are_refused)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t a = input2(&f, "a", 3, 5);
    uint32_t y = build_add(&f.b, "loop", a, a + 1); /* names its own result */
    build_output(&f.b, y, "y");
    expect_error(&f, IPU_ERR_INVALID, "dangling or part of a cycle");
    close_fixture(&f);
}
END_TEST

START_TEST(tiles_must_be_a_multiple_of_64)
{
    struct fixture f;
    open_fixture(&f);
    f.b.options.tiles = 63;
    build_output(&f.b, build_gelu(&f.b, "", input2(&f, "a", 3, 5)), "y");
    expect_error(&f, IPU_ERR_INVALID, "options.tiles is 63");
    close_fixture(&f);
}
END_TEST

START_TEST(f8_is_refused_as_unsupported)
{
    struct fixture f;
    open_fixture(&f);
    const uint64_t shape[2] = {2, 2};
    uint32_t a = build_input(&f.b, "a", IPU__WORKLOAD__ELEMENT_TYPE__F8_F143, shape, 2, 1, 0);
    build_output(&f.b, build_gelu(&f.b, "", a), "y");
    expect_error(&f, IPU_ERR_UNSUPPORTED, "f8");
    close_fixture(&f);
}
END_TEST

START_TEST(infinity_in_data_is_refused_with_its_element)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t a = input2(&f, "a", 1, 4);
    const uint16_t data[4] = {0, 0x3c00, 0x7c00, 0};
    build_raw(&f.b, data, sizeof data);
    build_output(&f.b, build_gelu(&f.b, "", a), "y");
    expect_error(&f, IPU_ERR_INVALID, "input a: element 2 is NaN or infinite");
    close_fixture(&f);
}
END_TEST

START_TEST(raw_data_of_the_wrong_size_is_refused)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t a = input2(&f, "a", 1, 4);
    build_raw(&f.b, "abcdef", 6);
    build_output(&f.b, build_gelu(&f.b, "", a), "y");
    expect_error(&f, IPU_ERR_INVALID, "has 6 bytes of raw data, but shape [1, 4] needs 8");
    close_fixture(&f);
}
END_TEST

START_TEST(unknown_operation_is_refused)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t y = build_gelu(&f.b, "", input2(&f, "a", 3, 5));
    build_output(&f.b, y, "y");
    ((Ipu__Workload__Operation *)f.b.operations[0].items[0])->kind_case =
        IPU__WORKLOAD__OPERATION__KIND__NOT_SET;
    expect_error(&f, IPU_ERR_INVALID, "unknown operation");
    close_fixture(&f);
}
END_TEST

START_TEST(body_values_are_not_visible_outside)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t a = input2(&f, "a", 3, 5);
    build_repeat(&f.b, "r", 2);
    uint32_t inside = build_carry(&f.b, a);
    uint32_t g = build_gelu(&f.b, "", inside);
    build_yield(&f.b, 0, g);
    build_repeat_end(&f.b);
    build_output(&f.b, build_relu(&f.b, "", g), "y");
    expect_error(&f, IPU_ERR_INVALID, "belongs to a repeat body");
    close_fixture(&f);
}
END_TEST

START_TEST(random_bytes_are_refused_without_a_crash)
{
    struct fixture f;
    open_fixture(&f);
    unsigned char bytes[512];
    srand(7);
    for (int round = 0; round < 2000; round++) {
        size_t n = (size_t)rand() % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)rand();
        struct graph_message *m = NULL;
        struct graph *g;
        if (graph_parse(bytes, n, &m, &f.error) == 0)
            ck_assert_int_lt(graph_check(graph_message(m), f.arena, &g, &f.error), 0);
        graph_release(m);
    }
    close_fixture(&f);
}
END_TEST

START_TEST(siglip_flow_keeps_the_loop)
{
    struct buffer bytes = {0};
    struct build_mlp p = {1, 17, 64, 128, 3, 64, 1, false, false, 0};
    ck_assert(build_siglip_mlp(&p, &bytes));
    struct fixture f = {.arena = arena_create(0)};
    ck_assert_int_eq(graph_parse(bytes.data, bytes.size, &f.message, &f.error), 0);
    ck_assert_int_eq(graph_check(graph_message(f.message), f.arena, &f.graph, &f.error), 0);
    ck_assert_int_eq(graph_flow(f.graph, f.arena, &f.flow, &f.error), 0);
    ck_assert_str_eq(f.flow->name, "siglip-mlp-f16-b1-t17-d64-h128-n3");
    ck_assert_uint_eq(f.flow->region_count, 2);
    ck_assert_uint_eq(f.flow->regions[0].op_count, 1);
    ck_assert_uint_eq(f.flow->regions[1].op_count, 3);
    ck_assert_uint_eq(f.flow->gemm_depth, 6);
    const struct flow_op *up = &f.flow->regions[1].ops[0];
    ck_assert_int_eq(f.flow->tensors[up->b].source, FLOW_SEQUENCE);
    ck_assert_uint_eq(f.flow->tensors[up->b].member_count, 3);
    ck_assert_uint_eq(f.flow->tensors[up->out].rows, 17);
    graph_release(f.message);
    arena_destroy(f.arena);
    buffer_free(&bytes);
}
END_TEST

START_TEST(transposed_parameter_is_read_through_a_view)
{
    struct fixture f;
    open_fixture(&f);
    build_output(&f.b,
                 build_matmul(&f.b, "", input2(&f, "a", 3, 5), input2(&f, "w", 7, 5), false, true),
                 "y");
    ck_assert_msg(flow_built(&f) == 0, "%s", f.error.text);
    ck_assert_uint_eq(f.flow->regions[0].op_count, 1);
    const struct flow_tensor *w = &f.flow->tensors[f.flow->regions[0].ops[0].b];
    ck_assert_uint_eq(w->rows, 5);
    ck_assert_uint_eq(w->columns, 7);
    ck_assert_uint_eq(w->view.axes, 2);
    ck_assert_int_eq(w->view.axis[0].stride, 1);
    ck_assert_int_eq(w->view.axis[1].stride, 5);
    close_fixture(&f);
}
END_TEST

START_TEST(transposed_result_becomes_a_permute)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t g = build_gelu(&f.b, "", input2(&f, "a", 3, 5));
    build_output(&f.b, build_relu(&f.b, "", build_transpose(&f.b, "", g, NULL, 0)), "y");
    ck_assert_msg(flow_built(&f) == 0, "%s", f.error.text);
    ck_assert_uint_eq(f.flow->regions[0].op_count, 3);
    const struct flow_op *p = &f.flow->regions[0].ops[1];
    ck_assert_int_eq(p->kind, FLOW_PERMUTE);
    ck_assert_uint_eq(p->view.axes, 2);
    ck_assert_uint_eq(p->view.axis[0].count, 5);
    ck_assert_int_eq(p->view.axis[0].stride, 1);
    ck_assert_int_eq(p->view.axis[1].stride, 5);
    close_fixture(&f);
}
END_TEST

START_TEST(reshape_that_keeps_the_last_axis_vanishes)
{
    struct fixture f;
    open_fixture(&f);
    const uint64_t shape[3] = {2, 3, 4}, flat[2] = {6, 4};
    uint32_t g = build_gelu(&f.b, "", build_input(&f.b, "a", T16, shape, 3, 1, 0));
    build_output(&f.b, build_relu(&f.b, "", build_reshape(&f.b, "", g, flat, 2)), "y");
    ck_assert_msg(flow_built(&f) == 0, "%s", f.error.text);
    ck_assert_uint_eq(f.flow->regions[0].op_count, 2);
    close_fixture(&f);
}
END_TEST

START_TEST(unneeded_operations_are_dropped)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t a = input2(&f, "a", 3, 5);
    build_gelu(&f.b, "dead", a);
    build_output(&f.b, build_relu(&f.b, "", a), "y");
    ck_assert_msg(flow_built(&f) == 0, "%s", f.error.text);
    ck_assert_uint_eq(f.flow->regions[0].op_count, 1);
    ck_assert_int_eq(f.flow->regions[0].ops[0].kind, FLOW_RELU);
    close_fixture(&f);
}
END_TEST

START_TEST(unneeded_repeat_leaves_no_operations_in_its_region)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t x = input2(&f, "a", 3, 5);
    build_repeat(&f.b, "r", 3);
    build_yield(&f.b, 0, build_gelu(&f.b, "", build_carry(&f.b, x)));
    build_repeat_end(&f.b);
    build_output(&f.b, build_relu(&f.b, "", x), "y");
    ck_assert_msg(flow_built(&f) == 0, "%s", f.error.text);
    ck_assert_uint_eq(f.flow->regions[0].op_count, 1);
    for (unsigned i = 1; i < f.flow->region_count; i++)
        ck_assert_uint_eq(f.flow->regions[i].op_count, 0);
    close_fixture(&f);
}
END_TEST

START_TEST(bias_is_a_row_broadcast_on_either_side)
{
    for (int side = 0; side < 2; side++) {
        struct fixture f;
        open_fixture(&f);
        const uint64_t shape[1] = {5};
        uint32_t a = build_gelu(&f.b, "", input2(&f, "a", 3, 5)),
                 bias = build_parameter(&f.b, "c", T16, shape, 1, 3, 1);
        build_output(&f.b, build_add(&f.b, "", side ? bias : a, side ? a : bias), "y");
        ck_assert_msg(flow_built(&f) == 0, "%s", f.error.text);
        const struct flow_op *add = &f.flow->regions[0].ops[1];
        ck_assert_int_eq(add->broadcast, FLOW_ROW);
        ck_assert_str_eq(f.flow->tensors[add->b].name, "c");
        close_fixture(&f);
    }
}
END_TEST

START_TEST(swapped_carried_values_unroll)
{
    struct fixture f;
    open_fixture(&f);
    uint32_t a = input2(&f, "a", 3, 5), c = input2(&f, "c", 3, 5);
    build_repeat(&f.b, "r", 3);
    uint32_t x = build_carry(&f.b, a), y = build_carry(&f.b, c);
    build_yield(&f.b, 0, y);
    build_yield(&f.b, 1, build_relu(&f.b, "", x));
    build_repeat_end(&f.b);
    build_output(&f.b, y + 1, "y");
    ck_assert_msg(flow_built(&f) == 0, "%s", f.error.text);
    ck_assert_uint_eq(f.flow->region_count, 1);
    ck_assert_uint_eq(f.flow->regions[0].op_count, 2);
    close_fixture(&f);
}
END_TEST

START_TEST(normal_draws_have_the_moments_of_a_normal)
{
    double sum = 0, square = 0, fourth = 0;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        double x = graph_normal(42, (uint64_t)i);
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
    }
    ck_assert_double_lt(fabs(sum / n), 0.01);
    ck_assert_double_lt(fabs(square / n - 1), 0.01);
    ck_assert_double_lt(fabs(fourth / n - 3), 0.06);
    ck_assert(graph_normal(1, 5) == graph_normal(1, 5) && graph_normal(1, 5) != graph_normal(2, 5));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("graph");
    TCase *t = tcase_create("graph");
    suite_add_tcase(s, t);
    tcase_add_test(t, matmul_shape_mismatch_names_both_shapes_and_the_operation);
    tcase_add_test(t, dangling_and_cyclic_values_are_refused);
    tcase_add_test(t, tiles_must_be_a_multiple_of_64);
    tcase_add_test(t, f8_is_refused_as_unsupported);
    tcase_add_test(t, infinity_in_data_is_refused_with_its_element);
    tcase_add_test(t, raw_data_of_the_wrong_size_is_refused);
    tcase_add_test(t, unknown_operation_is_refused);
    tcase_add_test(t, body_values_are_not_visible_outside);
    tcase_add_test(t, random_bytes_are_refused_without_a_crash);
    tcase_add_test(t, siglip_flow_keeps_the_loop);
    tcase_add_test(t, transposed_parameter_is_read_through_a_view);
    tcase_add_test(t, transposed_result_becomes_a_permute);
    tcase_add_test(t, reshape_that_keeps_the_last_axis_vanishes);
    tcase_add_test(t, unneeded_operations_are_dropped);
    tcase_add_test(t, unneeded_repeat_leaves_no_operations_in_its_region);
    tcase_add_test(t, bias_is_a_row_broadcast_on_either_side);
    tcase_add_test(t, swapped_carried_values_unroll);
    tcase_add_test(t, normal_draws_have_the_moments_of_a_normal);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
