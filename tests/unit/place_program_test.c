/* module: compiler/place */
/* Placement of hand-made programs: sharing by lifetime, regions, granules, refusals, and random
 * programs against the verifier. */
#include "base/hash.h"
#include "compiler/place/place.h"
#include "device/ipu21/memory.h"

#include <check.h>
#include <string.h>

enum { MOST = 4096, REGION0 = 0x5c000 };

static struct program program;
static struct program_buffer buffers[MOST];
static struct program_step steps[16];
static struct program_call calls[MOST];
static struct program_transfer transfers[16];
static struct program_target targets[16];
static struct kernel_spec specs[1];
static uint32_t region0[PROGRAM_TILES];
static struct arena *arena;

static void setup(void)
{
    memset(&program, 0, sizeof program);
    memset(steps, 0, sizeof steps);
    memset(specs, 0, sizeof specs);
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        region0[t] = REGION0;
    for (unsigned i = 0; i < 16; i++) {
        steps[i].name = "step";
        steps[i].kind = PROGRAM_EXCHANGE;
        steps[i].phase = i;
    }
    specs[0].family = KERNEL_GEMM_F16;
    program.buffers = buffers;
    program.steps = steps;
    program.step_count = 16;
    program.specs = specs;
    program.spec_count = 1;
    arena = arena_create(0);
}

static void teardown(void)
{
    arena_destroy(arena);
}

static uint32_t add(uint32_t bytes, uint32_t first, uint32_t last, bool interleaved)
{
    buffers[program.buffer_count] = (struct program_buffer){
        .bytes = bytes, .members = 1, .first = first, .last = last, .interleaved = interleaved};
    return program.buffer_count++;
}

static int place(struct place_report *report, struct ipu_error *error)
{
    int code = place_program(&program, region0, arena, report, error);
    if (code == 0 && place_verify(&program, region0, arena, error) != 0)
        ck_abort_msg("%s", error->text);
    return code;
}

static void place_ok(struct place_report *report)
{
    struct ipu_error error;
    if (place(report, &error) != 0)
        ck_abort_msg("%s", error.text);
}

START_TEST(buffers_that_live_together_are_apart)
{
    struct place_report report;
    uint32_t a = add(1024, 0, 4, false), b = add(1024, 4, 8, false);
    place_ok(&report);
    ck_assert_uint_ne(buffers[a].address, buffers[b].address);
}
END_TEST

START_TEST(buffers_with_disjoint_lives_share_memory)
{
    struct place_report report;
    for (uint32_t i = 0; i < 8; i++)
        add(100 * 1024, 2 * i, 2 * i + 1, false);
    place_ok(&report);
    ck_assert_uint_eq(report.standard_bytes, 100 * 1024);
    ck_assert_uint_eq(report.interleaved_bytes, 0);
}
END_TEST

START_TEST(resident_buffers_are_never_shared)
{
    struct place_report report;
    uint32_t a = add(2048, 0, 1, false), b = add(2048, 5, 6, false);
    buffers[a].resident = true;
    place_ok(&report);
    ck_assert_uint_ne(buffers[a].address, buffers[b].address);
}
END_TEST

START_TEST(interleaved_buffers_lie_in_region_1_and_others_in_region_0)
{
    struct place_report report;
    uint32_t a = add(64, 0, 1, true), b = add(64, 0, 1, false);
    place_ok(&report);
    ck_assert_uint_ge(buffers[a].address, IPU21_REGION1_BASE);
    ck_assert_uint_lt(buffers[b].address, IPU21_REGION1_BASE);
}
END_TEST

START_TEST(members_of_a_sequence_lie_in_one_run)
{
    struct place_report report;
    uint32_t a = add(1024, 0, 9, true), b = add(32, 0, 9, true);
    buffers[a].members = 5;
    place_ok(&report);
    ck_assert(buffers[b].address >= buffers[a].address + 5 * 1024 ||
              buffers[b].address < buffers[a].address);
}
END_TEST

START_TEST(operands_of_a_product_share_no_granule)
{
    struct place_report report;
    uint32_t x = add(300 * 1024, 0, 2, false), w = add(512, 0, 2, true), out = add(96, 0, 2, true);
    calls[0] = (struct program_call){
        .args = {{PROGRAM_BUFFER, x, 0}, {PROGRAM_BUFFER, w, 0}, {PROGRAM_BUFFER, out, 0}}};
    steps[1].kind = PROGRAM_COMPUTE;
    steps[1].calls = calls;
    steps[1].call_count = 1;
    place_ok(&report);
    ck_assert_uint_ge(buffers[x].address, IPU21_REGION1_BASE); /* too large for region 0 */
    ck_assert_uint_eq(ipu21_element_mask(buffers[x].address, 300 * 1024 + KERNEL_OVERREAD) &
                          ipu21_element_mask(buffers[out].address, 96),
                      0);
}
END_TEST

START_TEST(what_a_phase_sends_and_receives_lies_in_different_granules)
{
    struct place_report report;
    uint32_t from = add(64, 0, 2, false), to = add(64, 1, 2, false);
    targets[0].destination.buffer = to;
    transfers[0] = (struct program_transfer){
        .source = {from, 0}, .words = 16, .target_count = 1, .targets = targets};
    steps[1].transfers = transfers;
    steps[1].transfer_count = 1;
    place_ok(&report);
    ck_assert_uint_ne(ipu21_element(buffers[from].address), ipu21_element(buffers[to].address));
    ck_assert_uint_eq(report.soft_conflicts, 0);
}
END_TEST

START_TEST(granule_wishes_give_way_when_memory_is_short)
{
    struct place_report report;
    uint32_t from = add(400 * 1024, 0, 2, true), to = add(1024, 1, 2, true);
    add(15 * 1024 - 64, 0, 9, true);
    targets[0].destination.buffer = to;
    transfers[0] = (struct program_transfer){
        .source = {from, 0}, .words = 16, .target_count = 1, .targets = targets};
    steps[1].transfers = transfers;
    steps[1].transfer_count = 1;
    buffers[from].bytes = 399 * 1024;
    place_ok(&report);
    ck_assert_uint_ge(report.soft_conflicts, 1);
}
END_TEST

START_TEST(a_tile_without_room_is_refused_with_numbers)
{
    struct place_report report;
    struct ipu_error error;
    add(300 * 1024, 3, 5, true);
    add(200 * 1024, 4, 6, true);
    buffers[0].tile = buffers[1].tile = 7;
    ck_assert_int_eq(place(&report, &error), IPU_ERR_NO_FIT);
    ck_assert_ptr_nonnull(strstr(error.text, "tile 7 needs 512000 bytes"));
    ck_assert_ptr_nonnull(strstr(error.text, "interleaved"));
}
END_TEST

START_TEST(unused_buffers_take_no_room)
{
    struct place_report report;
    add(600 * 1024, UINT32_MAX, 0, true);
    add(64, 0, 1, true);
    place_ok(&report);
    ck_assert_uint_eq(report.interleaved_bytes, 64);
}
END_TEST

START_TEST(random_programs_are_placed_legally)
{
    uint64_t state = (uint64_t)_i + 1;
    struct place_report report;
    struct ipu_error error;
    for (uint32_t i = 0; i < 300; i++) {
        state = hash64_mix(state);
        uint32_t first = (uint32_t)(state % 14), length = (uint32_t)(state >> 8) % 4;
        uint32_t id =
            add(32 * (1 + (uint32_t)(state >> 16) % 300), first, first + length, (state >> 40) % 2);
        buffers[id].tile = (uint16_t)((state >> 44) % 5);
        buffers[id].resident = (state >> 50) % 16 == 0;
    }
    int code = place(&report, &error);
    if (code != 0)
        ck_abort_msg("%s", error.text);
}
END_TEST

START_TEST(the_verifier_refuses_overlaps_and_wrong_regions)
{
    struct place_report report;
    struct ipu_error error;
    uint32_t a = add(1024, 0, 4, true), b = add(1024, 4, 8, true);
    place_ok(&report);
    uint32_t good = buffers[a].address;
    buffers[a].address = buffers[b].address + 992;
    ck_assert_int_eq(place_verify(&program, region0, arena, &error), IPU_ERR_INTERNAL);
    buffers[a].address = REGION0;
    ck_assert_int_eq(place_verify(&program, region0, arena, &error), IPU_ERR_INTERNAL);
    buffers[a].address = IPU21_SRAM_END - 1024;
    ck_assert_int_eq(place_verify(&program, region0, arena, &error), IPU_ERR_INTERNAL);
    buffers[a].address = good;
    ck_assert_int_eq(place_verify(&program, region0, arena, &error), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("place_program");
    TCase *t = tcase_create("place");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, buffers_that_live_together_are_apart);
    tcase_add_test(t, buffers_with_disjoint_lives_share_memory);
    tcase_add_test(t, resident_buffers_are_never_shared);
    tcase_add_test(t, interleaved_buffers_lie_in_region_1_and_others_in_region_0);
    tcase_add_test(t, members_of_a_sequence_lie_in_one_run);
    tcase_add_test(t, operands_of_a_product_share_no_granule);
    tcase_add_test(t, what_a_phase_sends_and_receives_lies_in_different_granules);
    tcase_add_test(t, granule_wishes_give_way_when_memory_is_short);
    tcase_add_test(t, a_tile_without_room_is_refused_with_numbers);
    tcase_add_test(t, unused_buffers_take_no_room);
    tcase_add_loop_test(t, random_programs_are_placed_legally, 0, 10);
    tcase_add_test(t, the_verifier_refuses_overlaps_and_wrong_regions);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
