/* module: device/kernels */
/* Kernel table, names, keys, weight order and assembly, without a device. */
#include "device/kernels/kernels.h"
#include "device/kernels/sources.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct kernel_spec gemm = {KERNEL_GEMM_F16, {1, 64, 32, 1, 2}};

START_TEST(every_family_has_a_source_and_named_arguments)
{
    const struct kernel_info *info = kernel_info((enum kernel_family)_i);
    size_t length;
    ck_assert_ptr_nonnull(source_find(info->source, &length));
    ck_assert_uint_gt(info->arg_count, 0);
    ck_assert_uint_le(info->arg_count, KERNEL_MAX_ARGS);
    ck_assert_uint_le(info->param_count, KERNEL_MAX_PARAMS);
    for (unsigned i = 0; i < info->arg_count; i++)
        ck_assert_ptr_nonnull(info->arg_names[i]);
    for (unsigned i = 0; i < info->param_count; i++)
        ck_assert_ptr_nonnull(info->param_names[i]);
    ck_assert_int_lt(info->distinct_a, (int)info->arg_count);
    ck_assert_int_lt(info->distinct_b, (int)info->arg_count);
}
END_TEST

START_TEST(every_family_assembles_under_its_own_name)
{
    struct kernel_spec spec = gemm;
    if (_i != KERNEL_GEMM_F16)
        spec = (struct kernel_spec){.family = (enum kernel_family)_i};
    struct buffer object = {0};
    struct ipu_error error = {0};
    ck_assert_msg(kernel_assemble(&spec, &object, &error) == 0, "%s", error.text);
    char name[KERNEL_NAME_BYTES];
    kernel_name(&spec, name);
    struct asm_object input = {object.data, object.size, name};
    struct asm_link_options options = {.base = 0x4d000};
    struct asm_image image = {0};
    ck_assert_msg(asm_link(&input, 1, &options, &image, &error) == 0, "%s", error.text);
    ck_assert_uint_eq(asm_image_symbol(&image, name), 0x4d000);
    asm_image_free(&image);
    buffer_free(&object);
}
END_TEST

START_TEST(assembly_is_deterministic)
{
    struct buffer a = {0}, b = {0};
    struct ipu_error error = {0};
    ck_assert_int_eq(kernel_assemble(&gemm, &a, &error), 0);
    ck_assert_int_eq(kernel_assemble(&gemm, &b, &error), 0);
    ck_assert_uint_eq(a.size, b.size);
    ck_assert_mem_eq(a.data, b.data, a.size);
    buffer_free(&a);
    buffer_free(&b);
}
END_TEST

START_TEST(gemm_names_tell_every_parameter)
{
    static const struct {
        uint32_t params[KERNEL_MAX_PARAMS];
        const char *name;
    } rows[] = {{{1, 64, 32, 1, 2}, "gemm_f16_interleaved_k64_c32_r1_r2"},
                {{0, 16, 16, 7, 7}, "gemm_f16_standard_k16_c16_r7_r7"},
                {{3, 1152, 64, 45, 46}, "gemm_f16_interleaved_far_k1152_c64_r45_r46"}};
    for (unsigned i = 0; i < 3; i++) {
        struct kernel_spec spec = {.family = KERNEL_GEMM_F16};
        memcpy(spec.params, rows[i].params, sizeof spec.params);
        char name[KERNEL_NAME_BYTES];
        kernel_name(&spec, name);
        ck_assert_str_eq(name, rows[i].name);
    }
}
END_TEST

START_TEST(impossible_parameters_are_refused)
{
    static const uint32_t bad[][KERNEL_MAX_PARAMS] = {
        {4, 64, 32, 1, 2}, {1, 0, 32, 1, 2},  {1, 24, 32, 1, 2}, {1, 64, 0, 1, 2},
        {1, 64, 40, 1, 2}, {1, 64, 32, 0, 2}, {1, 64, 32, 3, 2}, {1, 64, 32, 1, 769}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kernel_spec spec = {.family = KERNEL_GEMM_F16};
        memcpy(spec.params, bad[i], sizeof spec.params);
        struct buffer object = {0};
        struct ipu_error error = {0};
        ck_assert_int_lt(kernel_assemble(&spec, &object, &error), 0);
        ck_assert_ptr_nonnull(strstr(error.text, "kernel parameters"));
        buffer_free(&object);
    }
}
END_TEST

START_TEST(keys_differ_exactly_when_objects_may)
{
    char first[65], again[65], other[65];
    kernel_key(&gemm, first);
    kernel_key(&gemm, again);
    ck_assert_uint_eq(strlen(first), 64);
    ck_assert_str_eq(first, again);
    for (unsigned i = 0; i < KERNEL_MAX_PARAMS; i++) {
        struct kernel_spec spec = gemm;
        spec.params[i] += 16;
        kernel_key(&spec, other);
        ck_assert_str_ne(first, other);
    }
    struct kernel_spec relu = {.family = KERNEL_RELU_F16}, add = {.family = KERNEL_ADD_F16};
    kernel_key(&relu, first);
    kernel_key(&add, other);
    ck_assert_str_ne(first, other);
}
END_TEST

START_TEST(weight_slots_are_a_permutation_in_drain_order)
{
    bool seen[256] = {false};
    for (unsigned k = 0; k < 16; k++)
        for (unsigned n = 0; n < 16; n++) {
            unsigned slot = kernel_weight_slot(k, n);
            ck_assert_uint_lt(slot, 256);
            ck_assert(!seen[slot]);
            seen[slot] = true;
            /* Four successive inner elements share a slot of 64 bits. */
            ck_assert_uint_eq(slot % 4, k % 4);
            ck_assert_uint_eq(slot / 4 % 4, k / 4);
        }
    /* Columns 0..3 drain first: units 0, 1 of set 0 and of set 1. */
    static const unsigned units[] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
    for (unsigned n = 0; n < 16; n++)
        ck_assert_uint_eq(kernel_weight_slot(0, n) / 16, units[n]);
}
END_TEST

/* facts/measurements.tsv F01, F04, F08: what the reference's kernels take on hardware. */
START_TEST(prices_stay_below_the_reference)
{
    for (uint32_t rows = 1; rows <= 180; rows++)
        for (uint32_t k = 16; k <= 256; k += 48)
            for (uint32_t c = 16; c <= 64; c += 16) {
                struct kernel_spec spec = {KERNEL_GEMM_F16, {1, k, c, rows, rows}};
                const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 0, rows, 32 * rows, 32 * rows};
                uint32_t panels = (k / 16) * (c / 16), reference = 294 + panels * (4 * rows + 160);
                uint32_t cycles = kernel_cycles(&spec, args), full = (rows + 5) / 6 * 6;
                ck_assert_msg(cycles < reference &&
                                  cycles <= 120 + panels * (4 * full + (k > 16 ? 110 : 150)),
                              "rows %u k %u c %u: %u, reference %u", rows, k, c, cycles, reference);
            }
    struct kernel_spec gelu = {.family = KERNEL_GELU_F16}, reduce = {.family = KERNEL_REDUCE_F16};
    for (uint32_t count = 16; count <= 4096; count += 16) {
        const uint32_t gelu_args[KERNEL_MAX_ARGS] = {0, 0, count};
        uint32_t waves = (count + 95) / 96;
        ck_assert_uint_le(kernel_cycles(&gelu, gelu_args), 120 + 220 * waves);
        for (uint32_t partials = 2; partials <= 6; partials++) {
            const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 0, count, partials};
            uint32_t turns = (count + 47) / 48;
            ck_assert_uint_lt(kernel_cycles(&reduce, args),
                              282 + 6 * turns * (11 + 2 * (partials - 1)));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_table");
    TCase *tcase = tcase_create("table");
    tcase_add_loop_test(tcase, every_family_has_a_source_and_named_arguments, 0, KERNEL_FAMILIES);
    tcase_add_loop_test(tcase, every_family_assembles_under_its_own_name, 0, KERNEL_FAMILIES);
    tcase_add_test(tcase, assembly_is_deterministic);
    tcase_add_test(tcase, gemm_names_tell_every_parameter);
    tcase_add_test(tcase, impossible_parameters_are_refused);
    tcase_add_test(tcase, keys_differ_exactly_when_objects_may);
    tcase_add_test(tcase, weight_slots_are_a_permutation_in_drain_order);
    tcase_add_test(tcase, prices_stay_below_the_reference);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
