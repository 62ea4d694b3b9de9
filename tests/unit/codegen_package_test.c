/* module: compiler/codegen */
/* Packages as files: equal bytes for any thread count, separation of code and tensors, kernel
 * cache, log events, profile plans, refusals. */
#include "tests/unit/codegen_flows.h"

#include "compiler/compile.h"
#include "device/ipu21/memory.h"

static struct maker maker;

static uint32_t mlp(struct maker *m)
{
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 17, 64, 1);
    uint32_t inside = maker_repeat(m, 3, x);
    uint32_t up = maker_sequence(m, 3, 64, 128, 0.125), down = maker_sequence(m, 3, 128, 64, 0.09);
    uint32_t h = maker_unary(m, FLOW_GELU, maker_gemm(m, inside, up, 1));
    uint32_t y = maker_yield(m, maker_gemm(m, h, down, 1));
    maker_output(m, y);
    return y;
}

static struct package *package_of(struct maker *m, const struct plan *plan,
                                  const struct codegen_options *options)
{
    struct compiled c;
    memset(&c, 0, sizeof c);
    lower_and_place(m, plan, &c, options);
    expect_ok(
        codegen_package(&m->flow, c.program, c.schedule, options, m->arena, &c.package, &c.error),
        &c.error);
    return c.package;
}

START_TEST(threads_do_not_change_the_bytes)
{
    struct buffer files[2] = {{0}};
    struct ipu_error error;
    mlp(&maker);
    const struct plan *plan = plan_of(&maker, 10);
    for (unsigned i = 0; i < 2; i++) {
        const struct codegen_options options = {
            .threads = 1 + 3 * i, .profile = CODEGEN_PROFILE_FULL, .compiler = "test"};
        struct package *p = package_of(&maker, plan, &options);
        expect_ok(package_write(p, &files[i], &error), &error);
        package_destroy(p);
    }
    ck_assert_uint_eq(files[0].size, files[1].size);
    ck_assert_int_eq(memcmp(files[0].data, files[1].data, files[0].size), 0);
    buffer_free(&files[0]);
    buffer_free(&files[1]);
    maker_end(&maker);
}
END_TEST

START_TEST(rows_share_no_granule_with_tensors)
{
    struct compiled c;
    size_t count;
    mlp(&maker);
    compile_flow(&maker, plan_of(&maker, 10), &c, CODEGEN_PROFILE_OVERALL);
    const struct package_row *rows = package_rows(c.package, &count);
    ck_assert_uint_gt(count, 0);
    for (size_t i = 0; i < count; i++) {
        uint32_t touched = rows[i].bytes + IPU21_FETCH_AHEAD;
        ck_assert_uint_le(rows[i].address + touched, c.schedule->region0[rows[i].tile]);
        ck_assert_uint_eq(c.schedule->region0[rows[i].tile] % IPU21_ELEMENT_BYTES, 0);
    }
    for (uint32_t i = 0; i < c.program->buffer_count; i++) {
        const struct program_buffer *b = &c.program->buffers[i];
        if (b->first <= b->last)
            ck_assert_uint_ge(b->address, c.schedule->region0[b->tile]);
    }
    package_destroy(c.package);
    maker_end(&maker);
}
END_TEST

START_TEST(every_row_declares_what_its_tile_receives)
{
    struct compiled c;
    size_t count;
    uint64_t declared = 0;
    mlp(&maker);
    compile_flow(&maker, plan_of(&maker, 10), &c, CODEGEN_PROFILE_OVERALL);
    const struct package_row *rows = package_rows(c.package, &count);
    for (size_t i = 0; i < count; i++)
        declared += rows[i].words;
    ck_assert_uint_eq(declared, c.program->exchanged_words);
    package_destroy(c.package);
    maker_end(&maker);
}
END_TEST

/* --- cache ---------------------------------------------------------------------------------- */

struct shelf {
    unsigned finds, hits, stores, count;
    char keys[32][65];
    struct buffer objects[32];
};

static bool shelf_find(void *context, const char *key, struct buffer *object)
{
    struct shelf *s = context;
    s->finds++;
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->keys[i], key) == 0) {
            buffer_append(object, s->objects[i].data, s->objects[i].size);
            s->hits++;
            return true;
        }
    return false;
}

static void shelf_store(void *context, const char *key, const char *name, const void *object,
                        size_t size)
{
    struct shelf *s = context;
    ck_assert_uint_gt(strlen(name), 0);
    snprintf(s->keys[s->count], sizeof *s->keys, "%s", key);
    buffer_append(&s->objects[s->count++], object, size);
    s->stores++;
}

START_TEST(kernels_come_from_the_cache_the_second_time)
{
    static struct shelf shelf;
    const struct compile_cache cache = {shelf_find, shelf_store, &shelf};
    const struct codegen_options options = {.threads = 1, .cache = &cache, .compiler = "test"};
    struct buffer files[2] = {{0}};
    struct ipu_error error;
    mlp(&maker);
    const struct plan *plan = plan_of(&maker, 10);
    for (unsigned i = 0; i < 2; i++) {
        struct package *p = package_of(&maker, plan, &options);
        expect_ok(package_write(p, &files[i], &error), &error);
        package_destroy(p);
    }
    ck_assert_uint_gt(shelf.stores, 2);
    ck_assert_uint_eq(shelf.hits, shelf.stores);
    ck_assert_uint_eq(shelf.finds, 2 * shelf.stores);
    ck_assert_uint_eq(files[0].size, files[1].size);
    ck_assert_int_eq(memcmp(files[0].data, files[1].data, files[0].size), 0);
    for (unsigned i = 0; i < shelf.count; i++)
        buffer_free(&shelf.objects[i]);
    buffer_free(&files[0]);
    buffer_free(&files[1]);
    maker_end(&maker);
}
END_TEST

/* --- log ------------------------------------------------------------------------------------ */

static char lines[1 << 16];

static void keep_line(void *context, const struct log_record *record)
{
    size_t at = strlen(lines);
    (void)context;
    int length = log_format(record, lines + at, sizeof lines - at - 2);
    ck_assert_int_lt(length, (int)(sizeof lines - at - 2));
    lines[at + (size_t)length] = '\n';
}

static const char *const events[] = {
    "lowered graph for package construction logical_shards=",
    "compiling kernel source=gelu_f16.S name=gelu_f16 target=ipu21",
    "kernel artifact created key=",
    "phase=\"compile_runtime\"",
    "phase=\"compile_kernels\"",
    "phase=\"plan_kernels\"",
    "phase=\"link_runtime\"",
    "phase=\"place_storage\"",
    "phase=\"lower_exchanges\"",
    "phase=\"prepare_tile_code\"",
    "reused exchange optimization after validating relocated rows phase=0",
    "phase=\"size_tile_code\"",
    "phase=\"emit_tile_code\"",
    "phase=\"build_tile_images\"",
    "costed final placed program final_cycles=",
    "allocated package support memory linked_end=",
    "standard_ranges=[(",
};

START_TEST(the_log_tells_every_stage)
{
    struct log log = {.sink = keep_line, .level = LOG_LEVEL_INFO};
    const struct codegen_options options = {.threads = 1, .log = &log, .compiler = "test"};
    lines[0] = '\0';
    mlp(&maker);
    package_destroy(package_of(&maker, plan_of(&maker, 10), &options));
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (strstr(lines, events[i]) == NULL)
            ck_abort_msg("no \"%s\" in\n%s", events[i], lines);
    maker_end(&maker);
}
END_TEST

/* --- profile -------------------------------------------------------------------------------- */

START_TEST(profile_modes_sample_what_they_say)
{
    static const size_t expected[] = {0, 64, 1472};
    struct compiled c;
    size_t count;
    mlp(&maker);
    compile_flow(&maker, plan_of(&maker, 10), &c, (enum codegen_profile)_i);
    const struct package_samples *s = package_sample_lists(c.package, &count);
    ck_assert_uint_eq(count, expected[_i]);
    if (_i == CODEGEN_PROFILE_OVERALL)
        ck_assert_uint_eq(s[0].count, 1);
    if (_i == CODEGEN_PROFILE_FULL) {
        uint32_t phases = c.schedule->executed_phases;
        ck_assert_uint_gt(s[0].count, phases);         /* exchanges and kernels */
        ck_assert_uint_eq(s[count - 1].count, phases); /* an idle tile: exchanges alone */
    }
    package_destroy(c.package);
    maker_end(&maker);
}
END_TEST

START_TEST(the_refined_estimate_is_close_to_the_run)
{
    mlp(&maker);
    const struct plan *plan = plan_of(&maker, 30);
    struct compiled c;
    compile_flow(&maker, plan, &c, CODEGEN_PROFILE_OVERALL);
    uint64_t estimate = c.schedule->cycles;
    package_destroy(c.package);
    struct device_summary s = run_flow(&maker, plan, CODEGEN_PROFILE_OVERALL, 1e-2);
    printf("refined estimate %llu, run %llu cycles\n", (unsigned long long)estimate,
           (unsigned long long)s.cycles);
    ck_assert_uint_lt(estimate, s.cycles * 108 / 100);
    ck_assert_uint_gt(estimate, s.cycles * 92 / 100);
    maker_end(&maker);
}
END_TEST

/* Some tiles have no input, so they are through with the host long before the others. */
START_TEST(waiting_for_the_host_is_not_measured)
{
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 33, 96, 1);
    uint32_t up = maker_host(m, true, FLOW_F16, 96, 200, 0.1);
    uint32_t down = maker_host(m, true, FLOW_F16, 200, 96, 0.07);
    uint32_t h = maker_unary(m, FLOW_GELU, maker_gemm(m, x, up, 1));
    maker_output(m, maker_gemm(m, h, down, 1));
    const struct plan *plan = plan_of(m, 40);
    bool fed[64] = {false};
    unsigned without = 64;
    struct compiled c;
    compile_flow(m, plan, &c, CODEGEN_PROFILE_OVERALL);
    for (uint32_t i = 0; i < c.program->upload_count; i++)
        fed[c.program->buffers[c.program->uploads[i].to.buffer].tile] |=
            c.program->uploads[i].tensor == x;
    for (unsigned t = 0; t < 64; t++)
        without -= fed[t];
    ck_assert_uint_gt(without, 0);
    uint64_t estimate = c.schedule->cycles;
    package_destroy(c.package);
    struct device_summary s = run_flow(m, plan, CODEGEN_PROFILE_OVERALL, 1e-2);
    ck_assert_uint_lt(s.cycles, estimate * 108 / 100);
    maker_end(m);
}
END_TEST

START_TEST(summaries_count_replicas_and_padding)
{
    struct codegen_summary summary;
    struct compiled c;
    struct maker *m = &maker;
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 5, 20, 1);
    maker_output(m, maker_gemm(m, x, maker_host(m, true, FLOW_F16, 20, 33, 1), 1));
    struct plan_op op = grid_gemm(m, 0, 1, 3, 1, 2, SCATTER_NONE);
    const struct plan plan = {.op_count = 1, .ops = &op};
    compile_flow(m, &plan, &c, CODEGEN_PROFILE_NONE);
    codegen_summarise(&m->flow, c.program, &summary);
    ck_assert_uint_eq(summary.input_bytes, 3 * 5 * 2 * 32); /* three tiles, two panels */
    ck_assert_uint_eq(summary.weight_bytes, 3 * 2 * 512);
    ck_assert_uint_eq(summary.active_tiles, 3);
    package_destroy(c.package);
    maker_end(m);
}
END_TEST

static int compile_once(struct maker *m, const struct plan *plan, struct arena *arena,
                        struct package **package, struct ipu_error *error)
{
    static uint32_t region0[PROGRAM_TILES];
    const struct codegen_options options = {.threads = 1, .profile = CODEGEN_PROFILE_FULL};
    struct program *program;
    struct program_schedule *schedule;
    struct place_report report;
    int code = lower_program(&m->flow, plan, arena, &program, error);
    if (code == 0)
        code = codegen_reserve(&m->flow, program, &options, arena, region0, error);
    if (code == 0)
        code = place_program(program, region0, arena, &report, error);
    if (code == 0)
        code = program_schedule(program, region0, 1, &options, arena, &schedule, error);
    if (code == 0)
        code = codegen_package(&m->flow, program, schedule, &options, arena, package, error);
    return code;
}

/* The first package written becomes the pattern for the others. */
static void expect_same_file(struct package *package, struct buffer *whole)
{
    struct buffer file = {0};
    struct ipu_error error;
    expect_ok(package_write(package, &file, &error), &error);
    if (whole->size == 0)
        buffer_append(whole, file.data, file.size);
    ck_assert_uint_eq(file.size, whole->size);
    ck_assert_int_eq(memcmp(file.data, whole->data, file.size), 0);
    buffer_free(&file);
}

START_TEST(every_failing_allocation_is_one_clear_error)
{
    struct ipu_error error;
    struct buffer whole = {0};
    unsigned failures = 0;
    mlp(&maker);
    const struct plan *plan = plan_of(&maker, 5);
    for (long after = 1; after < 20000; after += 1 + after / 12) {
        struct package *package = NULL;
        struct arena *arena = arena_create(0);
        ipu_alloc_fail_after(after, 1);
        int code = compile_once(&maker, plan, arena, &package, &error);
        ipu_alloc_fail_after(-1, 0);
        if (code == 0)
            expect_same_file(package, &whole);
        arena_destroy(arena);
        package_destroy(package);
        if (code != 0 && code != IPU_ERR_NO_MEMORY)
            ck_abort_msg("allocation %ld: %d: %s", after, code, error.text);
        failures += code != 0;
    }
    ck_assert_uint_gt(failures, 10);
    buffer_free(&whole);
    maker_end(&maker);
}
END_TEST

START_TEST(a_cancelled_compile_stops)
{
    struct compiled c;
    struct ipu_error error;
    const atomic_bool yes = true;
    const struct codegen_options options = {.threads = 2};
    struct codegen_options cancelled = {.threads = 2, .cancel = &yes};
    struct program_schedule *schedule;
    mlp(&maker);
    memset(&c, 0, sizeof c);
    lower_and_place(&maker, plan_of(&maker, 5), &c, &options);
    ck_assert_int_eq(
        program_schedule(c.program, c.region0, 1, &cancelled, maker.arena, &schedule, &error),
        IPU_ERR_CANCELLED);
    ck_assert_int_eq(codegen_package(&maker.flow, c.program, c.schedule, &cancelled, maker.arena,
                                     &c.package, &error),
                     IPU_ERR_CANCELLED);
    maker_end(&maker);
}
END_TEST

/* --- refusals ------------------------------------------------------------------------------- */

START_TEST(code_that_leaves_region_0_is_refused_with_numbers)
{
    struct maker *m = &maker;
    struct program *program;
    struct ipu_error error;
    static uint32_t region0[PROGRAM_TILES];
    maker_begin(m, 64);
    uint32_t x = maker_host(m, false, FLOW_F16, 1, 16, 1);
    maker_output(m, maker_unary(m, FLOW_RELU, x));
    struct plan_op op = {.out = grid_layout(m, x, 1, 1, 0)};
    const struct plan plan = {.op_count = 1, .ops = &op};
    expect_ok(lower_program(&m->flow, &plan, m->arena, &program, &error), &error);
    struct program_step *s = &program->steps[0];
    struct program_call *many = ARENA_ARRAY(m->arena, struct program_call, 30000);
    for (uint32_t i = 0; i < 30000; i++)
        many[i] = s->calls[0];
    s->calls = many;
    s->call_count = 30000;
    const struct codegen_options options = {.threads = 1};
    ck_assert_int_eq(codegen_reserve(&m->flow, program, &options, m->arena, region0, &error),
                     IPU_ERR_NO_FIT);
    ck_assert_ptr_nonnull(strstr(error.text, "tile 0 needs 240"));
    maker_end(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("codegen_package");
    TCase *t = tcase_create("package");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, threads_do_not_change_the_bytes);
    tcase_add_test(t, rows_share_no_granule_with_tensors);
    tcase_add_test(t, every_row_declares_what_its_tile_receives);
    tcase_add_test(t, kernels_come_from_the_cache_the_second_time);
    tcase_add_test(t, the_log_tells_every_stage);
    tcase_add_loop_test(t, profile_modes_sample_what_they_say, 0, 3);
    tcase_add_test(t, the_refined_estimate_is_close_to_the_run);
    tcase_add_test(t, waiting_for_the_host_is_not_measured);
    tcase_add_test(t, summaries_count_replicas_and_padding);
    tcase_add_test(t, every_failing_allocation_is_one_clear_error);
    tcase_add_test(t, a_cancelled_compile_stops);
    tcase_add_test(t, code_that_leaves_region_0_is_refused_with_numbers);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
