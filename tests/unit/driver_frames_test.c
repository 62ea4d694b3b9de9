/* module: device/driver */
/* Packages as batches of frames: an independent reader puts the frames of every tile together again
 * and compares with the segments. */
#include "device/driver/frames.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "device/ipu21/memory.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct package *package;
static struct ipu_error error;
static struct frames frames;
static uint8_t *buffer, *memory, *expected;
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash64_mix(state) >> 33) % below;
}

static void setup(void)
{
    static const struct package_info info = {.compiler = "test",
                                             .workload = "frames",
                                             .flag_set = 1,
                                             .clock_hz = 1500000000,
                                             .execution_tiles = 64,
                                             .final_mark = 23,
                                             .entry = 0x4c014};
    package = package_create();
    package_set_info(package, &info);
    buffer = malloc(FRAMES_BUFFER);
    memory = malloc(IPU21_SRAM_BYTES);
    expected = malloc(IPU21_SRAM_BYTES);
    state = 1;
}

static void teardown(void)
{
    package_destroy(package);
    free(buffer);
    free(memory);
    free(expected);
}

static void add(unsigned tile, uint32_t address, uint32_t size)
{
    uint8_t *bytes = malloc(size);
    for (uint32_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(draw(255) + 1);
    int blob = package_add_blob(package, bytes, size);
    ck_assert_int_ge(package_add_segment(package, tile, address, blob, 0, size), 0);
    free(bytes);
}

/* Every tile can be entered; tile `special` is left to the test. */
static void add_entries(int special)
{
    static const uint32_t words[2] = {0x19e00000, 0x19e00000};
    int blob = package_add_blob(package, words, sizeof words);
    for (int tile = 0; tile < IPU21_TILES; tile++)
        if (tile != special)
            package_add_segment(package, (unsigned)tile, IPU21_IMAGE_BASE, blob, 0, 8);
}

static void serialise(void)
{
    struct buffer file = {0};
    struct package *read = NULL;
    ck_assert_msg(package_write(package, &file, &error) == 0, "%s", error.text);
    ck_assert_int_eq(package_read(file.data, file.size, &read, &error), 0);
    buffer_free(&file);
    package_destroy(package);
    package = read;
}

/* Puts the frames of slot `slot` of `batch` into `memory`; returns how many there are. */
static uint32_t place_slot(unsigned batch, unsigned slot, uint32_t used)
{
    uint32_t offset, count, index = 0, physical, flags, zero;
    memcpy(&offset, buffer + 8 * slot, 4);
    memcpy(&count, buffer + 8 * slot + 4, 4);
    ck_assert_uint_ge(offset, 4096);
    ck_assert_uint_le(offset + 1024 * count, used);
    for (uint32_t i = 0, last = 0; i < count; i++, last = index) {
        const uint8_t *frame = buffer + offset + 1024 * i;
        memcpy(&index, frame, 4);
        memcpy(&physical, frame + 4, 4);
        memcpy(&flags, frame + 8, 4);
        memcpy(&zero, frame + 12, 4);
        ck_assert(i == 0 || index > last);
        ck_assert_uint_lt(index, 643);
        ck_assert_uint_eq(physical, 64 * batch + slot);
        ck_assert_uint_eq(flags, i + 1 == count ? 0x08000000 : 0);
        ck_assert_uint_eq(zero, 0);
        for (unsigned k = 1008; k < 1024; k++)
            ck_assert_uint_eq(frame[k], 0xff);
        memcpy(memory + 0x10 + 992 * index, frame + 16, 992);
    }
    return count;
}

static void expect_tile(unsigned tile)
{
    size_t count;
    const struct package_segment *s = package_segments(package, &count);
    memset(expected, 0, IPU21_SRAM_BYTES);
    for (size_t i = 0; i < count; i++)
        if (s[i].tile == tile)
            memcpy(expected + (s[i].address - IPU21_SRAM_BASE), s[i].data, s[i].size);
    ck_assert_msg(memcmp(memory, expected, IPU21_SRAM_BYTES) == 0, "tile %u differs", tile);
}

/* Counts of the frames of each tile, if asked for. */
static void expect_all(bool dense, uint32_t *counts)
{
    ck_assert_msg(frames_begin(&frames, package, dense, &error) == 0, "%s", error.text);
    for (unsigned batch = 0; batch < 23; batch++) {
        memset(buffer, 0x5a, FRAMES_BUFFER);
        uint32_t used = frames_write(&frames, batch, buffer);
        for (unsigned slot = 0; slot < 64; slot++) {
            unsigned tile = ipu21_logical(64 * batch + slot);
            memset(memory, 0, IPU21_SRAM_BYTES);
            uint32_t count = place_slot(batch, slot, used);
            if (counts)
                counts[tile] = count;
            expect_tile(tile);
        }
        for (unsigned i = 8 * 64; i < 4096; i++)
            ck_assert_uint_eq(buffer[i], 0xff);
    }
}

START_TEST(random_segments_arrive_where_they_belong)
{
    add_entries(-1);
    for (unsigned i = 0; i < 400; i++) {
        uint32_t at = 0x50000 + 0x2000 * (i / 8), size = 4 * (1 + draw(1000));
        add(8 + i % 8 * 183, at + 4 * draw(500), size);
    }
    serialise();
    expect_all(_i != 0, NULL);
}
END_TEST

START_TEST(image_may_fill_all_that_a_loader_reaches)
{
    static uint32_t counts[IPU21_TILES];
    add_entries(700);
    add(700, 0x4c010, 643 * 992);
    serialise();
    expect_all(_i != 0, counts);
    ck_assert_uint_eq(counts[700], 643);
    ck_assert_uint_eq(counts[699], _i != 0 ? 17 : 1); /* at least 0x4134 bytes for a vendor's */
}
END_TEST

START_TEST(only_frames_of_segments_are_sent_to_our_loader)
{
    static uint32_t counts[IPU21_TILES];
    add_entries(-1);
    add(3, 0x80000, 4);
    add(3, 0x4c010 + 992 * 100 - 4, 8);
    serialise();
    expect_all(false, counts);
    ck_assert_uint_eq(counts[3], 4);
    ck_assert_uint_eq(counts[4], 1);
}
END_TEST

START_TEST(tile_without_an_entry_is_refused)
{
    add_entries(5);
    add(5, 0x4c018, 8);
    serialise();
    ck_assert_int_eq(frames_begin(&frames, package, false, &error), IPU_ERR_CORRUPT);
    ck_assert(strstr(error.text, "tile 5 has no instruction at 0x4c014") != NULL);
}
END_TEST

START_TEST(segment_below_the_image_is_refused)
{
    add_entries(5);
    add(5, 0x4c000, 64);
    serialise();
    ck_assert_int_eq(frames_begin(&frames, package, false, &error), IPU_ERR_CORRUPT);
    ck_assert(strstr(error.text, "tile 5: the segment at 0x4c000 lies below 0x4c010") != NULL);
}
END_TEST

START_TEST(other_entries_and_oversized_marks_are_refused)
{
    struct package_info info = *package_get_info(package);
    if (_i == 0)
        info.entry = 0x4c018;
    else
        info.final_mark = 0x10000; /* would be written as 0, which reads back at once */
    package_set_info(package, &info);
    add_entries(-1);
    serialise();
    ck_assert_int_eq(frames_begin(&frames, package, false, &error), IPU_ERR_CORRUPT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_frames");
    TCase *t = tcase_create("frames");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, random_segments_arrive_where_they_belong, 0, 2);
    tcase_add_loop_test(t, image_may_fill_all_that_a_loader_reaches, 0, 2);
    tcase_add_test(t, only_frames_of_segments_are_sent_to_our_loader);
    tcase_add_test(t, tile_without_an_entry_is_refused);
    tcase_add_test(t, segment_below_the_image_is_refused);
    tcase_add_loop_test(t, other_entries_and_oversized_marks_are_refused, 0, 2);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
