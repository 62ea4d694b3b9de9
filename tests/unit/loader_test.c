/* module: device/sim */
/* The secondary loader on the simulated tiles, through registers of the board alone: random images
 * of every size arrive byte for byte, and what is malformed stops the tile that sees it. */
#include "tests/unit/board_support.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "device/sim/chip.h"

#include <stdio.h>
#include <time.h>

/* What one tile is sent. `have[i]`: frame i; the payloads are random and follow from the seed. */
struct plan {
    uint64_t seed;
    uint16_t count[IPU21_TILES];  /* frames, by physical id */
    uint16_t *order[IPU21_TILES]; /* their indices in the order in which they are sent */
};

static struct sim_board *board;
static uint8_t *pages;
static struct plan plan;

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

static void load(void)
{
    for (unsigned batch = 0; batch < LOADER_BATCHES; batch++)
        if (!send_batch(batch))
            abort_batch(batch);
    ck_assert(execute());
    ck_assert(rendezvous(board, IPU21_HOST_GS1, LOADER_FINAL_MARK));
}

/* --- comparing --- */

/* Uncovered frames that hold what is left of the loader (its 2 KiB) or of host words. */
static bool may_be_used(unsigned index)
{
    uint32_t begin = loader_address(index), end = begin + LOADER_PAYLOAD;
    return begin < LOADER_BASE + 2048 || (begin < IPU21_HOST_WINDOW_END && end > IPU21_HOST_WINDOW);
}

static void expect_frame(unsigned physical, unsigned index, bool covered)
{
    uint8_t expected[LOADER_PAYLOAD] = {0}, memory[LOADER_PAYLOAD];
    if (covered)
        random_payload(expected, physical, index);
    ck_assert(sim_chip_read(sim_board_chip(board), ipu21_logical(physical), loader_address(index),
                            memory, sizeof memory));
    if (memcmp(memory, expected, sizeof memory) != 0)
        ck_abort_msg("physical tile %u, frame %u (%s) is wrong", physical, index,
                     covered ? "sent" : "not sent");
}

static void expect_tile(unsigned physical)
{
    bool covered[LOADER_FRAMES] = {false};
    for (unsigned i = 0; i < plan.count[physical]; i++)
        covered[plan.order[physical][i]] = true;
    for (unsigned i = 0; i < LOADER_FRAMES; i++)
        if (covered[i] || !may_be_used(i))
            expect_frame(physical, i, covered[i]);
}

static void expect_all(void)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        expect_tile(i);
}

START_TEST(short_images_differ_from_tile_to_tile)
{
    plan.seed = 1;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        plan_image(i, 1 + i % 5);
    load();
    expect_all();
}
END_TEST

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

START_TEST(timing)
{
    plan.seed = 1;
    uint16_t indices[21] = {0};
    for (unsigned i = 1; i < 21; i++)
        indices[i] = (uint16_t)(60 + i);
    for (unsigned i = 0; i < IPU21_TILES; i++)
        plan_frames(i, indices, 21);
    double fill = 0, run = 0, b = seconds();
    for (unsigned batch = 0; batch < LOADER_BATCHES; batch++) {
        double t = seconds();
        fill_batch(batch);
        fill += seconds() - t;
        t = seconds();
        ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
        run += seconds() - t;
    }
    uint64_t c = sim_board_cycle(board);
    double t = seconds();
    ck_assert(execute());
    run += seconds() - t;
    double e = seconds() - t;
    fprintf(stderr,
            "fill %.1f ms, load %.1f ms (execute %.1f), total %.1f; bundles %llu cycles %llu\n",
            fill * 1e3, run * 1e3, e * 1e3, (seconds() - b) * 1e3,
            (unsigned long long)sim_chip_bundles(sim_board_chip(board)), (unsigned long long)c);
}
END_TEST

static Suite *loader_suite(void)
{
    Suite *suite = suite_create("loader");
    TCase *loads = tcase_create("loads");
    tcase_add_checked_fixture(loads, setup, teardown);
    tcase_set_timeout(loads, 60);
    tcase_add_test(loads, short_images_differ_from_tile_to_tile);
    tcase_add_test(loads, timing);
    suite_add_tcase(suite, loads);
    (void)plan_random;
    (void)plan_short_for_others;
    (void)frame_at;
    return suite;
}

int main(void)
{
    return board_run_suite(loader_suite());
}
