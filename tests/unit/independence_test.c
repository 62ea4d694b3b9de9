/* module: compiler */
/* The package is the program: what runs is what its bytes say, on any number of host threads. */
#include "tests/unit/e2e.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* One change to make while copying a package. */
struct change {
    int tile; /* -1 = none: XOR `mask` into the word at `address` of this tile */
    uint32_t address, mask;
    bool weight; /* or flip a bit of the first parameter's element 5 */
};

static struct e2e base; /* the seed workload, compiled and run once for all tests of a process */

static void setup(void)
{
    struct build_mlp p = {1, 17, 64, 128, 3, 64, 1, false, false, 0};
    ck_assert(build_siglip_mlp(&p, &base.workload));
    ck_assert_msg(e2e_run(&base, &(struct e2e_options){.threads = 2}) == 0, "%s", base.error.text);
    ck_assert(base.check.passed);
}

static void teardown(void)
{
    e2e_free(&base);
}

static void copy_tensors(const struct package *from, struct package *to, bool weight)
{
    size_t count;
    const struct package_tensor *t = package_tensors(from, &count);
    bool changed = false;
    for (size_t i = 0; i < count; i++) {
        struct package_tensor tensor = t[i];
        uint8_t *data = tensor.data ? malloc(tensor.bytes) : NULL;
        if (data)
            memcpy(data, tensor.data, tensor.bytes);
        if (data && weight && !changed && tensor.role == PACKAGE_PARAMETER) {
            data[11] ^= 0x40; /* exponent of element 5 */
            changed = true;
        }
        tensor.data = data;
        ck_assert_int_ge(package_add_tensor(to, &tensor), 0);
        free(data);
    }
    for (int call = 0; call < 2; call++) {
        const struct package_nest *n = package_nests(from, (enum package_call)call, &count);
        for (size_t i = 0; i < count; i++)
            ck_assert_int_ge(package_add_nest(to, (enum package_call)call, &n[i]), 0);
    }
}

static void copy_segments(const struct package *from, struct package *to, const struct change *c)
{
    size_t count;
    const struct package_segment *s = package_segments(from, &count);
    bool changed = c->tile < 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t *data = malloc(s[i].size);
        memcpy(data, s[i].data, s[i].size);
        if (s[i].tile == c->tile && c->address >= s[i].address &&
            c->address < s[i].address + s[i].size) {
            uint32_t word;
            memcpy(&word, data + (c->address - s[i].address), sizeof word);
            word ^= c->mask;
            memcpy(data + (c->address - s[i].address), &word, sizeof word);
            changed = true;
        }
        int blob = package_add_blob(to, data, s[i].size);
        ck_assert_int_ge(package_add_segment(to, s[i].tile, s[i].address, blob, 0, s[i].size), 0);
        free(data);
    }
    ck_assert(changed);
}

static void copy_plans(const struct package *from, struct package *to)
{
    size_t count;
    const struct package_row *r = package_rows(from, &count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_ge(package_add_row(to, r[i].tile, r[i].address, r[i].bytes, r[i].words), 0);
    const struct package_step *steps = package_steps(from, &count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_ge(package_add_step(to, &steps[i]), 0);
    const struct package_samples *l = package_sample_lists(from, &count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_ge(
            package_add_samples(to, l[i].tile, l[i].stream_offset, l[i].steps, l[i].count), 0);
    const struct package_symbol *symbols = package_symbols(from, &count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_ge(
            package_add_symbol(to, symbols[i].name, symbols[i].address, symbols[i].size), 0);
}

/* Copies the base package through the builder, the writer and the reader with one change, runs it,
 * and says whether it gave the base's output and cycles. */
static bool same_after(const struct change *c, unsigned threads)
{
    struct package *copy = package_create(), *read = NULL;
    struct buffer bytes = {0};
    struct ipu_error error;
    package_set_info(copy, package_get_info(base.package));
    copy_tensors(base.package, copy, c->weight);
    copy_segments(base.package, copy, c);
    copy_plans(base.package, copy);
    ck_assert_msg(package_write(copy, &bytes, &error) == 0, "%s", error.text);
    ck_assert_msg(package_read(bytes.data, bytes.size, &read, &error) == 0, "%s", error.text);
    struct device_options options = {
        .device = "sim", .threads = threads, .strict = true, .cycle_limit = 1 << 24};
    struct device_session *session = NULL;
    struct device_summary summary = {0};
    ck_assert_int_eq(device_open(&options, &session, &error), 0);
    bool same =
        device_load(session, read, &error) == 0 && device_run(session, &summary, &error) == 0;
    if (same) {
        size_t size, expected;
        const uint8_t *got = device_output(session, "output.0", &size);
        const uint8_t *want = device_output(base.session, "output.0", &expected);
        same = size == expected && memcmp(got, want, size) == 0 &&
               summary.cycles == base.summary.cycles;
    }
    device_close(session);
    package_destroy(copy);
    package_destroy(read);
    buffer_free(&bytes);
    return same;
}

START_TEST(unchanged_copy_runs_alike_on_one_and_two_threads)
{
    ck_assert(same_after(&(struct change){.tile = -1}, 1));
    ck_assert(same_after(&(struct change){.tile = -1}, 2));
}
END_TEST

START_TEST(one_changed_weight_changes_the_result)
{
    ck_assert(!same_after(&(struct change){.tile = -1, .weight = true}, 2));
}
END_TEST

/* Words of the GELU kernel as tile 0 executes them: registers and opcodes flipped at several
 * places. */
START_TEST(one_changed_instruction_changes_the_result_or_faults)
{
    size_t count, changed = 0;
    const struct package_symbol *s = package_symbols(base.package, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(s[i].name, "gelu_f16") != 0)
            continue;
        for (uint32_t offset = 0; offset < 12; offset += 4, changed++)
            ck_assert(!same_after(
                &(struct change){.tile = 0, .address = s[i].address + offset, .mask = 1u << 20},
                2));
    }
    ck_assert_uint_gt(changed, 0);
}
END_TEST

START_TEST(one_changed_exchange_word_changes_the_result_or_faults)
{
    size_t count, changed = 0;
    const struct package_row *r = package_rows(base.package, &count);
    for (size_t i = 0; i < count && changed < 4; i++) {
        if (r[i].words == 0)
            continue;
        ck_assert(!same_after(
            &(struct change){.tile = r[i].tile, .address = r[i].address, .mask = 1u << 19}, 2));
        changed++;
    }
    ck_assert_uint_gt(changed, 0);
}
END_TEST

START_TEST(threads_do_not_change_the_package)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct compile_options o = {.threads = threads};
        struct compile_result r = {0};
        struct ipu_error error;
        ck_assert_int_eq(compile_workload(base.workload.data, base.workload.size, &o, &r, &error),
                         0);
        ck_assert_uint_eq(r.package.size, base.compiled.package.size);
        ck_assert(memcmp(r.package.data, base.compiled.package.data, r.package.size) == 0);
        compile_result_free(&r);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("independence");
    TCase *t = tcase_create("independence");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, unchanged_copy_runs_alike_on_one_and_two_threads);
    tcase_add_test(t, one_changed_weight_changes_the_result);
    tcase_add_test(t, one_changed_instruction_changes_the_result_or_faults);
    tcase_add_test(t, one_changed_exchange_word_changes_the_result_or_faults);
    tcase_add_test(t, threads_do_not_change_the_package);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
