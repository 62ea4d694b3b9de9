/* module: device/sim */
/* The secondary loader on the simulated tiles, through registers of the board alone: random images
 * of every size arrive byte for byte, and what is malformed stops the tile that sees it. */
#include "tests/unit/board_support.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "device/asm/asm.h"
#include "device/ipu21/exchange.h"
#include "device/kernels/sources.h"
#include "device/sim/chip.h"

#include <stdio.h>

/* What the tiles are sent. Payloads are random and follow from the seed. */
struct plan {
    uint64_t seed;
    uint16_t count[IPU21_TILES];  /* frames, by physical id */
    uint16_t *order[IPU21_TILES]; /* their indices in the order in which they are sent */
};

static struct sim_board *board;
static uint8_t *pages;
static struct plan plan;

/* Random plans: a few, or with IPUD_TEST_LEVEL=long many. */
static int rounds(void)
{
    const char *level = getenv("IPUD_TEST_LEVEL");
    return level && strcmp(level, "long") == 0 ? 40 : 2;
}

static void setup(void)
{
    board = new_board(2);
    pages = new_pages(BUFFER_BYTES);
    memset(&plan, 0, sizeof plan);
    reset_board(board);
    ck_assert_int_eq(attach(board, 0, pages, BUFFER_BYTES), 0);
    autoload_loader(board);
}

static void teardown(void)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        ipu_free(plan.order[i]);
    munmap(pages, BUFFER_BYTES);
    sim_board_destroy(board);
}

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return hash64_mix(*state);
}

/* --- plans --- */

static void plan_frames(unsigned physical, const uint16_t *indices, unsigned count)
{
    ipu_free(plan.order[physical]);
    plan.order[physical] = ipu_malloc(count * sizeof *indices);
    ck_assert_ptr_nonnull(plan.order[physical]);
    memcpy(plan.order[physical], indices, count * sizeof *indices);
    plan.count[physical] = (uint16_t)count;
}

/* Frames 0 to count - 1. */
static void plan_image(unsigned physical, unsigned count)
{
    uint16_t indices[LOADER_FRAMES];
    for (unsigned i = 0; i < count; i++)
        indices[i] = (uint16_t)i;
    plan_frames(physical, indices, count);
}

static void shuffle(uint16_t *indices, unsigned count, uint64_t *state)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned j = (unsigned)(random_next(state) % i);
        uint16_t swap = indices[j];
        indices[j] = indices[i - 1];
        indices[i - 1] = swap;
    }
}

/* Frame 0 and about one in `one_in` of the others, in any order. */
static void plan_random(unsigned physical, unsigned one_in, uint64_t *state)
{
    uint16_t indices[LOADER_FRAMES];
    unsigned count = 1;
    indices[0] = 0;
    for (unsigned i = 1; i < LOADER_FRAMES; i++)
        if (random_next(state) % one_in == 0)
            indices[count++] = (uint16_t)i;
    shuffle(indices, count, state);
    plan_frames(physical, indices, count);
}

static void plan_short_for_others(void)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        if (!plan.order[i])
            plan_image(i, 1);
}

/* --- payloads --- */

static void random_payload(uint8_t *payload, unsigned physical, unsigned index)
{
    uint64_t state = plan.seed ^ ((uint64_t)physical << 32 | index);
    for (unsigned i = 0; i < LOADER_PAYLOAD; i += 8) {
        uint64_t bits = random_next(&state);
        memcpy(payload + i, &bits, 8);
    }
    if (index != 0)
        return;
    /* Where the image is entered: nop, then wait for the host for ever. */
    static const uint32_t entry[] = {0x19e00000, 0x41800007, 0x40800000 | LOADER_ENTRY >> 2};
    memcpy(payload, entry, sizeof entry);
}

static void write_frame(uint8_t *at, unsigned physical, unsigned index, bool last)
{
    struct loader_frame frame = {.index = index, .tile = physical, .flags = last ? LOADER_LAST : 0};
    random_payload(frame.payload, physical, index);
    memset(frame.trailer, 0xff, sizeof frame.trailer);
    memcpy(at, &frame, sizeof frame);
}

static struct loader_descriptor *descriptors(void)
{
    return (struct loader_descriptor *)(void *)pages;
}

static struct loader_frame *frame_at(unsigned slot, unsigned i)
{
    return (struct loader_frame *)(void *)(pages + descriptors()[slot].offset +
                                           (size_t)i * LOADER_FRAME);
}

static void fill_batch(unsigned batch)
{
    uint32_t used = LOADER_DESCRIPTOR_BYTES;
    memset(pages, 0xff, LOADER_DESCRIPTOR_BYTES);
    for (unsigned slot = 0; slot < LOADER_SLOTS; slot++) {
        unsigned physical = batch * LOADER_SLOTS + slot, count = plan.count[physical];
        descriptors()[slot] = (struct loader_descriptor){used, count};
        for (unsigned i = 0; i < count; i++, used += LOADER_FRAME)
            write_frame(pages + used, physical, plan.order[physical][i], i + 1 == count);
    }
    ck_assert_uint_le(used, BUFFER_BYTES);
}

/* --- loading --- */

static bool send_batch(unsigned batch)
{
    fill_batch(batch);
    bool taken = rendezvous(board, IPU21_HOST_GS1, 1);
    /* The buffer is the host's again: whatever the device still read would be wrong. */
    memset(pages, 0x5a, 64 * 1024);
    return taken;
}

static bool execute(void)
{
    memset(pages, 0xff, LOADER_DESCRIPTOR_BYTES);
    return rendezvous(board, IPU21_HOST_GS1, 1);
}

static void abort_batch(unsigned batch)
{
    const struct sim_fault *fault = sim_chip_fault(sim_board_chip(board));
    ck_abort_msg("batch %u: %s", batch,
                 fault ? fault->text : sim_chip_explain(sim_board_chip(board)));
}

static void send_batches(unsigned first, unsigned end)
{
    for (unsigned batch = first; batch < end; batch++)
        if (!send_batch(batch))
            abort_batch(batch);
}

static void load(void)
{
    send_batches(0, LOADER_BATCHES);
    ck_assert(execute());
    ck_assert(rendezvous(board, IPU21_HOST_GS1, LOADER_FINAL_MARK));
}

/* --- comparing --- */

/* Uncovered frames that hold what is left of the autoloaded bytes (2 KiB), of host words, or of the
 * resident loader (frame 34). */
static bool may_be_used(unsigned index)
{
    uint32_t begin = loader_address(index), end = begin + LOADER_PAYLOAD;
    return begin < LOADER_BASE + 2048 || index == 34 ||
           (begin < IPU21_HOST_WINDOW_END && end > IPU21_HOST_WINDOW);
}

static void expect_frame(unsigned physical, unsigned index, bool covered)
{
    uint8_t expected[LOADER_PAYLOAD] = {0}, memory[LOADER_PAYLOAD];
    if (covered)
        random_payload(expected, physical, index);
    if (!sim_chip_read(sim_board_chip(board), ipu21_logical(physical), loader_address(index),
                       memory, sizeof memory) ||
        memcmp(memory, expected, sizeof memory) != 0)
        ck_abort_msg("physical tile %u, frame %u (%s) is wrong", physical, index,
                     covered ? "sent" : "not sent");
}

/* Every byte of the image, and that nothing beside it was touched. */
static void expect_tile(unsigned physical)
{
    bool covered[LOADER_FRAMES] = {false};
    for (unsigned i = 0; i < plan.count[physical]; i++)
        covered[plan.order[physical][i]] = true;
    for (unsigned i = 0; i < LOADER_FRAMES; i++)
        if (covered[i] || !may_be_used(i))
            expect_frame(physical, i, covered[i]);
}

/* All images; beside them is looked at in one tile of a row. */
static void expect_all(void)
{
    for (unsigned physical = 0; physical < IPU21_TILES; physical++) {
        if (physical % LOADER_SLOTS == 5)
            expect_tile(physical);
        for (unsigned i = 0; i < plan.count[physical]; i++)
            expect_frame(physical, plan.order[physical][i], true);
    }
}

/* --- what loads --- */

START_TEST(short_images_differ_from_tile_to_tile)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        plan_image(i, 1 + i % 5);
    load();
    expect_all();
}
END_TEST

/* Row 0 has the tiles that grant reads to all others after their own image is in place. */
static const unsigned full_rows[] = {0, 11, 22};

START_TEST(images_that_fill_all_of_sram_are_exact)
{
    unsigned row = full_rows[_i];
    for (unsigned i = row * LOADER_SLOTS; i < (row + 1) * LOADER_SLOTS; i++)
        plan_image(i, LOADER_FRAMES);
    plan_short_for_others();
    ck_assert_uint_eq(loader_address(LOADER_FRAMES), IPU21_LOAD_END);
    load();
    expect_all();
}
END_TEST

START_TEST(frames_may_come_in_any_order_and_leave_gaps)
{
    uint64_t state = 7 + (uint64_t)_i;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        plan_random(i, i % 7 == 0 ? 2 : 30, &state);
    load();
    expect_all();
}
END_TEST

START_TEST(single_frames_around_and_in_the_window_are_exact)
{
    /* Tile i gets frame 0 and one or two neighbours out of 14..35. */
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        uint16_t first = (uint16_t)(14 + i % 21);
        uint16_t indices[] = {0, first, (uint16_t)(first + 1)};
        plan_frames(i, indices, 2 + i / 21 % 2);
    }
    load();
    expect_all();
}
END_TEST

START_TEST(tile_without_frames_stands_out_until_the_start)
{
    plan_short_for_others();
    plan.count[777] = 0;
    send_batches(0, LOADER_BATCHES);
    ck_assert_ptr_null(sim_chip_fault(sim_board_chip(board)));
}
END_TEST

START_TEST(application_waits_for_the_final_mark)
{
    plan_short_for_others();
    send_batches(0, LOADER_BATCHES);
    ck_assert(execute());
    sim_board_run(board, PATIENCE, NULL);
    for (unsigned i = 0; i < IPU21_TILES; i++)
        ck_assert_uint_eq(sim_tile_pc(sim_chip_tile(sim_board_chip(board), i), 0),
                          LOADER_ENTRY + 4);
    uint64_t arrived = sim_chip_cycle(sim_board_chip(board));
    ck_assert(rendezvous(board, IPU21_HOST_GS1, LOADER_FINAL_MARK));
    ck_assert_uint_gt(sim_chip_cycle(sim_board_chip(board)), arrived);
    /* Its later syncs answer to GS2. */
    sim_board_write(board, IPU21_HOST_GS1, 1);
    sim_board_run(board, PATIENCE, NULL);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_GS1), 1);
    ck_assert(rendezvous(board, IPU21_HOST_GS2, 1));
}
END_TEST

START_TEST(board_can_be_reset_and_loaded_again)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        plan_image(i, 20);
    load();
    for (unsigned i = 0; i < IPU21_TILES; i++)
        plan.count[i] = 2;
    plan.seed = 99;
    reset_board(board);
    autoload_loader(board);
    load();
    expect_all();
}
END_TEST

/* --- what the host's pace changes: nothing --- */

static uint64_t load_in_steps(unsigned threads, uint64_t *state)
{
    sim_board_destroy(board);
    board = new_board(threads);
    reset_board(board);
    ck_assert_int_eq(attach(board, 0, pages, BUFFER_BYTES), 0);
    autoload_loader(board);
    for (unsigned batch = 0; batch < LOADER_BATCHES; batch++) {
        fill_batch(batch);
        sim_board_run(board, random_next(state) % 100000, NULL);
        sim_board_write(board, IPU21_HOST_GS1, 1);
        while (sim_board_read(board, IPU21_HOST_GS1) != 0)
            sim_board_run(board, 1 + random_next(state) % 5000, NULL);
        memset(pages, 0x5a, 64 * 1024);
    }
    ck_assert(execute());
    ck_assert(rendezvous(board, IPU21_HOST_GS1, LOADER_FINAL_MARK));
    return sim_chip_cycle(sim_board_chip(board));
}

START_TEST(delays_and_threads_change_neither_bytes_nor_cycles)
{
    uint64_t state = 3;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        plan_random(i, 100, &state);
    uint64_t cycles = load_in_steps(1, &state);
    ck_assert_uint_eq(load_in_steps(2, &state), cycles);
    expect_all();
}
END_TEST

/* --- what stops a tile --- */

enum { BAD = 3 * LOADER_SLOTS + 9 /* physical, in batch 3 */, BAD_SLOT = 9 };

/* The tile stands on trap `code`, and the host waits in vain. */
static void expect_trap(unsigned physical, enum loader_trap code)
{
    const struct sim_fault *fault = sim_chip_fault(sim_board_chip(board));
    uint32_t word = 0;
    ck_assert_ptr_nonnull(fault);
    ck_assert_uint_eq(fault->tile, ipu21_logical(physical));
    ck_assert_uint_eq(fault->etype, SIM_ETYPE_PBRK0);
    ck_assert(sim_chip_read(sim_board_chip(board), fault->tile, fault->pc, &word, 4));
    ck_assert_uint_eq(word, ipu21_trap(code));
    ck_assert_uint_ne(sim_board_read(board, IPU21_HOST_GS1), 0);
}

static void fill_bad_batch(void)
{
    plan_image(BAD, 40);
    plan_short_for_others();
    send_batches(0, BAD / LOADER_SLOTS);
    fill_batch(BAD / LOADER_SLOTS);
}

static void expect_refusal(enum loader_trap code)
{
    ck_assert(!rendezvous(board, IPU21_HOST_GS1, 1));
    expect_trap(BAD, code);
}

START_TEST(frame_of_another_tile_is_passed_over)
{
    fill_bad_batch();
    frame_at(BAD_SLOT, 38)->tile++;
    ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
    send_batches(BAD / LOADER_SLOTS + 1, LOADER_BATCHES);
    ck_assert(execute());
    for (unsigned i = 0; i < 40; i++)
        if (i != 38)
            expect_frame(BAD, i, true);
    expect_frame(BAD, 38, false);
}
END_TEST

START_TEST(frame_index_beyond_sram_traps)
{
    fill_bad_batch();
    frame_at(BAD_SLOT, 20)->index = LOADER_FRAMES;
    expect_refusal(LOADER_TRAP_INDEX);
}
END_TEST

START_TEST(torn_frame_traps)
{
    fill_bad_batch();
    frame_at(BAD_SLOT, 31)->trailer[15] = 0xfe;
    expect_refusal(LOADER_TRAP_TORN);
}
END_TEST

START_TEST(batch_cut_short_traps)
{
    fill_bad_batch();
    descriptors()[BAD_SLOT].frames = 25;
    expect_refusal(LOADER_TRAP_TRUNCATED);
}
END_TEST

START_TEST(start_before_the_last_batch_traps)
{
    fill_bad_batch();
    memset(&descriptors()[BAD_SLOT], 0xff, sizeof(struct loader_descriptor));
    expect_refusal(LOADER_TRAP_EARLY);
}
END_TEST

START_TEST(batch_after_the_last_one_traps)
{
    plan_short_for_others();
    send_batches(0, LOADER_BATCHES);
    memset(pages, 0xff, LOADER_DESCRIPTOR_BYTES);
    descriptors()[BAD_SLOT] = (struct loader_descriptor){LOADER_DESCRIPTOR_BYTES, 1};
    ck_assert(!rendezvous(board, IPU21_HOST_GS1, 1));
    const struct sim_fault *fault = sim_chip_fault(sim_board_chip(board));
    ck_assert_ptr_nonnull(fault);
    ck_assert_uint_eq(ipu21_physical(fault->tile) % LOADER_SLOTS, BAD_SLOT);
    expect_trap(ipu21_physical(fault->tile), LOADER_TRAP_LATE);
}
END_TEST

START_TEST(start_without_an_image_traps)
{
    plan_short_for_others();
    plan.count[BAD] = 0;
    send_batches(0, LOADER_BATCHES);
    ck_assert(!execute());
    expect_trap(BAD, LOADER_TRAP_NO_IMAGE);
}
END_TEST

START_TEST(disabled_exchange_block_is_named)
{
    plan_short_for_others();
    for (unsigned i = IPU21_HOST_PRIMARY_BLOCKS; i < IPU21_HOST_BLOCKS; i++)
        sim_board_write(board, IPU21_HOST_DCXCR(i), IPU21_HOST_DCXCR_DISABLED);
    ck_assert(!send_batch(0));
    const struct sim_fault *fault = sim_chip_fault(sim_board_chip(board));
    ck_assert_ptr_nonnull(fault);
    ck_assert_ptr_nonnull(strstr(fault->text, "exchange block is disabled (DCXCR)"));
    ck_assert_uint_ge(ipu21_physical(fault->tile) % 64, 32);
}
END_TEST

START_TEST(closed_window_is_named)
{
    plan_short_for_others();
    sim_board_write(board, IPU21_HOST_WINDOW_BASE, 0);
    ck_assert(!send_batch(0));
    const struct sim_fault *fault = sim_chip_fault(sim_board_chip(board));
    ck_assert_ptr_nonnull(fault);
    ck_assert_ptr_nonnull(strstr(fault->text, "closed (HEXOPT)"));
}
END_TEST

/* --- the numbers --- */

static const struct {
    const char *name;
    uint32_t value;
} numbers[] = {
    {"LOADER_BASE", LOADER_BASE},
    {"LOADER_IMAGE", LOADER_IMAGE},
    {"LOADER_PAYLOAD", LOADER_PAYLOAD},
    {"LOADER_FRAME", LOADER_FRAME},
    {"LOADER_FRAMES", LOADER_FRAMES},
    {"LOADER_BATCHES", LOADER_BATCHES},
    {"LOADER_WINDOW", IPU21_HOST_WINDOW},
    {"LOADER_TAIL", IPU21_LOAD_END},
    {"LOADER_STATE + STATE_WORDS * 4", IPU21_SRAM_END},
    {"TRAP_TORN", LOADER_TRAP_TORN},
    {"TRAP_INDEX", LOADER_TRAP_INDEX},
    {"TRAP_TRUNCATED", LOADER_TRAP_TRUNCATED},
    {"TRAP_NO_IMAGE", LOADER_TRAP_NO_IMAGE},
    {"TRAP_EARLY", LOADER_TRAP_EARLY},
    {"TRAP_LATE", LOADER_TRAP_LATE},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static const char *include_source(void *context, const char *name, size_t *length)
{
    (void)context;
    return source_find(name, length);
}

START_TEST(assembly_and_header_have_the_same_numbers)
{
    char text[2048] = "#include \"loader.inc\"\n.section .text.test, \"ax\"\n";
    struct buffer object = {0};
    struct asm_image image = {0};
    struct ipu_error error = {0};
    struct asm_options options = {.include = include_source};
    struct asm_link_options link = {.base = IPU21_SRAM_BASE};
    for (unsigned i = 0; i < NUMBERS; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ".long %s\n", numbers[i].name);
    }
    ck_assert_msg(asm_assemble("numbers", text, strlen(text), &options, &object, &error) == 0, "%s",
                  error.text);
    struct asm_object one = {object.data, object.size, "numbers"};
    ck_assert_msg(asm_link(&one, 1, &link, &image, &error) == 0, "%s", error.text);
    for (unsigned i = 0; i < NUMBERS; i++) {
        uint32_t value;
        memcpy(&value, image.bytes.data + 4 * (size_t)i, 4);
        ck_assert_msg(value == numbers[i].value, "%s is 0x%x and 0x%x", numbers[i].name, value,
                      numbers[i].value);
    }
    asm_image_free(&image);
    buffer_free(&object);
}
END_TEST

START_TEST(loader_fits_the_autoloader)
{
    struct buffer bytes = {0};
    struct ipu_error error = {0};
    ck_assert_msg(loader_build(&bytes, &error) == 0, "%s", error.text);
    ck_assert_uint_eq(bytes.size % 1024, 0);
    ck_assert_uint_le(bytes.size, 2048); /* may_be_used() */
    buffer_free(&bytes);
}
END_TEST

static Suite *loader_suite(void)
{
    Suite *suite = suite_create("loader");
    TCase *loads = tcase_create("loads");
    tcase_add_checked_fixture(loads, setup, teardown);
    tcase_set_timeout(loads, 60);
    tcase_add_test(loads, short_images_differ_from_tile_to_tile);
    tcase_add_loop_test(loads, images_that_fill_all_of_sram_are_exact, 0, 3);
    tcase_add_loop_test(loads, frames_may_come_in_any_order_and_leave_gaps, 0, rounds());
    tcase_add_test(loads, single_frames_around_and_in_the_window_are_exact);
    tcase_add_test(loads, tile_without_frames_stands_out_until_the_start);
    tcase_add_test(loads, application_waits_for_the_final_mark);
    tcase_add_test(loads, board_can_be_reset_and_loaded_again);
    tcase_add_test(loads, delays_and_threads_change_neither_bytes_nor_cycles);
    suite_add_tcase(suite, loads);

    TCase *stops = tcase_create("stops");
    tcase_add_checked_fixture(stops, setup, teardown);
    tcase_set_timeout(stops, 60);
    tcase_add_test(stops, frame_of_another_tile_is_passed_over);
    tcase_add_test(stops, frame_index_beyond_sram_traps);
    tcase_add_test(stops, torn_frame_traps);
    tcase_add_test(stops, batch_cut_short_traps);
    tcase_add_test(stops, start_before_the_last_batch_traps);
    tcase_add_test(stops, batch_after_the_last_one_traps);
    tcase_add_test(stops, start_without_an_image_traps);
    tcase_add_test(stops, disabled_exchange_block_is_named);
    tcase_add_test(stops, closed_window_is_named);
    suite_add_tcase(suite, stops);

    TCase *constants = tcase_create("constants");
    tcase_add_test(constants, assembly_and_header_have_the_same_numbers);
    tcase_add_test(constants, loader_fits_the_autoloader);
    suite_add_tcase(suite, constants);
    return suite;
}

int main(void)
{
    return board_run_suite(loader_suite());
}
