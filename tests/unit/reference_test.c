/* module: compiler/reference */
/* The host reference and its comparison: right results pass, and the faults that matter fail. */
#include "base/half.h"
#include "compiler/reference/reference.h"
#include "proto/build.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct arena *arena;
    struct graph_message *message;
    struct graph *graph;
    float **values;
    struct ipu_error error;
};

static void evaluate(struct fixture *f, struct buffer *bytes)
{
    f->arena = arena_create(0);
    ck_assert_msg(graph_parse(bytes->data, bytes->size, &f->message, &f->error) == 0, "%s",
                  f->error.text);
    ck_assert_msg(graph_check(graph_message(f->message), f->arena, &f->graph, &f->error) == 0, "%s",
                  f->error.text);
    ck_assert_msg(reference_evaluate(f->graph, 1, f->arena, &f->values, &f->error) == 0, "%s",
                  f->error.text);
    buffer_free(bytes);
}

static void release(struct fixture *f)
{
    graph_release(f->message);
    arena_destroy(f->arena);
}

static void seed_workload(struct fixture *f)
{
    struct buffer bytes = {0};
    struct build_mlp p = {1, 17, 64, 128, 3, 64, 1, false, false, 0};
    ck_assert(build_siglip_mlp(&p, &bytes));
    evaluate(f, &bytes);
}

static uint16_t *as_device(const float *x, uint64_t n)
{
    uint16_t *out = malloc(n * sizeof *out);
    for (uint64_t i = 0; i < n; i++)
        out[i] = half_from_float(x[i]);
    return out;
}

static struct reference_compare compare(const struct fixture *f, const uint16_t *device)
{
    struct reference_compare c;
    reference_compare(f->values[0], (const uint8_t *)device, FLOW_F16, 17 * 64, &c);
    return c;
}

START_TEST(seed_matches_a_plain_double_evaluation)
{
    struct fixture f;
    seed_workload(&f);
    const struct graph *g = f.graph;
    double x[17 * 64], h[17 * 128];
    for (int i = 0; i < 17 * 64; i++)
        x[i] = half_to_float(half_from_float((float)graph_normal(1, (uint64_t)i)));
    for (int block = 0; block < 3; block++) {
        for (int r = 0; r < 17; r++)
            for (int c = 0; c < 128; c++) {
                double s = 0;
                for (int k = 0; k < 64; k++)
                    s += x[r * 64 + k] * half_to_float(half_from_float(
                                             (float)(graph_normal((uint64_t)(2 + 2 * block),
                                                                  (uint64_t)(k * 128 + c)) /
                                                     8)));
                h[r * 128 + c] = 0.5 * s * (1 + tanh(0.7978845608 * (s + 0.044715 * s * s * s)));
            }
        for (int r = 0; r < 17; r++)
            for (int c = 0; c < 64; c++) {
                double s = 0;
                for (int k = 0; k < 128; k++)
                    s +=
                        h[r * 128 + k] *
                        half_to_float(half_from_float((
                            float)(graph_normal((uint64_t)(3 + 2 * block), (uint64_t)(k * 64 + c)) /
                                   sqrt(128))));
                x[r * 64 + c] = s;
            }
    }
    double error = 0, size = 0;
    for (int i = 0; i < 17 * 64; i++) {
        error += (x[i] - f.values[0][i]) * (x[i] - f.values[0][i]);
        size += x[i] * x[i];
    }
    ck_assert_double_lt(sqrt(error / size), 2e-3);
    ck_assert_double_gt(sqrt(size / (17 * 64)), 0.01);
    ck_assert_uint_eq(g->output_count, 1);
    release(&f);
}
END_TEST

START_TEST(rounded_reference_passes)
{
    struct fixture f;
    seed_workload(&f);
    uint16_t *device = as_device(f.values[0], 17 * 64);
    struct reference_compare c = compare(&f, device);
    ck_assert(c.finite && c.relative_rms_error <= reference_tolerance(f.graph, 6) &&
              c.cosine > 0.9999);
    free(device);
    release(&f);
}
END_TEST

START_TEST(zeros_a_permuted_row_and_a_wrong_tile_fail)
{
    struct fixture f;
    seed_workload(&f);
    double tolerance = reference_tolerance(f.graph, 6);
    uint16_t *device = as_device(f.values[0], 17 * 64), copy[64];
    uint16_t *zeros = calloc(17 * 64, sizeof *zeros);
    ck_assert_double_gt(compare(&f, zeros).relative_rms_error, tolerance);
    memcpy(copy, device, sizeof copy);
    memcpy(device, device + 64, sizeof copy);
    memcpy(device + 64, copy, sizeof copy);
    ck_assert_double_gt(compare(&f, device).relative_rms_error, tolerance);
    memcpy(device + 64, device, sizeof copy);
    memcpy(device, copy, sizeof copy);
    memset(device + 5 * 64 + 16, 0, 8 * sizeof *device); /* what one tile of 64 owns */
    ck_assert_double_gt(compare(&f, device).relative_rms_error, tolerance);
    free(device);
    free(zeros);
    release(&f);
}
END_TEST

START_TEST(nan_and_infinity_are_not_finite)
{
    float reference[2] = {1, 2};
    struct reference_compare c;
    const uint16_t nan_value[2] = {0x3c00, 0x7e00}, infinite[2] = {0x7c00, 0x4000};
    reference_compare(reference, (const uint8_t *)nan_value, FLOW_F16, 2, &c);
    ck_assert(!c.finite && c.worst_element == 1);
    reference_compare(reference, (const uint8_t *)infinite, FLOW_F16, 2, &c);
    ck_assert(!c.finite && c.worst_element == 0);
}
END_TEST

START_TEST(broadcast_transpose_and_batch_follow_numpy)
{
    struct workload_build b;
    build_begin(&b, "t", 64);
    const Ipu__Workload__ElementType t = IPU__WORKLOAD__ELEMENT_TYPE__F32;
    const uint64_t s1[3] = {2, 1, 3}, s2[2] = {4, 1};
    const float v1[6] = {1, 2, 3, 4, 5, 6}, v2[4] = {10, 20, 30, 40};
    uint32_t a = build_input(&b, "a", t, s1, 3, 0, 1);
    build_raw(&b, v1, sizeof v1);
    uint32_t c = build_input(&b, "c", t, s2, 2, 0, 1);
    build_raw(&b, v2, sizeof v2);
    const uint32_t permutation[3] = {2, 0, 1};
    build_output(&b, build_transpose(&b, "", build_add(&b, "", a, c), permutation, 3), "y");
    struct buffer bytes = {0};
    ck_assert(build_serialize(&b, &bytes));
    build_end(&b);
    struct fixture f;
    evaluate(&f, &bytes);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++)
                ck_assert_float_eq(f.values[0][(k * 2 + i) * 4 + j], v1[i * 3 + k] + v2[j]);
    release(&f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reference");
    TCase *t = tcase_create("reference");
    suite_add_tcase(s, t);
    tcase_add_test(t, seed_matches_a_plain_double_evaluation);
    tcase_add_test(t, rounded_reference_passes);
    tcase_add_test(t, zeros_a_permuted_row_and_a_wrong_tile_fail);
    tcase_add_test(t, nan_and_infinity_are_not_finite);
    tcase_add_test(t, broadcast_transpose_and_batch_follow_numpy);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
