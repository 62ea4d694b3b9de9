/* module: proto */
/* Tests of the frame decoder: any split of the bytes gives the same frames, and nothing that is too
 * large or unknown gets memory. */
#include "proto/frame.h"

#include "base/alloc.h"
#include "proto/rpc.pb-c.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct frame_decoder decoder;
static struct ipu_error error;

static void setup(void)
{
    frame_decoder_init(&decoder, frame_request_limit);
}

static void teardown(void)
{
    frame_decoder_free(&decoder);
}

static void feed(const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        size_t room;
        uint8_t *to = frame_decoder_room(&decoder, &room);
        ck_assert_ptr_nonnull(to);
        size_t n = size < room ? size : room;
        memcpy(to, at, n);
        frame_decoder_filled(&decoder, n);
        at += n;
        size -= n;
    }
}

static void put(struct buffer *out, uint8_t type, uint32_t call, const void *body, uint32_t size)
{
    uint8_t header[FRAME_HEADER];
    frame_header(header, type, call, size);
    buffer_append(out, header, sizeof header);
    buffer_append(out, body, size);
}

START_TEST(frames_come_out_whole_however_they_are_split)
{
    struct buffer bytes = {0};
    struct frame frame;
    unsigned got = 0;
    put(&bytes, IPU__RPC__FRAME_TYPE__FRAME_PING, 7, NULL, 0);
    put(&bytes, IPU__RPC__FRAME_TYPE__FRAME_STATUS, 8, "\x08\x05", 2);
    put(&bytes, IPU__RPC__FRAME_TYPE__FRAME_PING, 9, NULL, 0);
    for (size_t at = 0; at < bytes.size;) {
        size_t n = (size_t)_i + 1 < bytes.size - at ? (size_t)_i + 1 : bytes.size - at;
        feed(bytes.data + at, n);
        at += n;
        int rc;
        while ((rc = frame_decoder_next(&decoder, &frame, &error)) > 0) {
            ck_assert_uint_eq(frame.call, 7 + got);
            ck_assert_uint_eq(frame.size, got == 1 ? 2 : 0);
            if (got == 1)
                ck_assert_mem_eq(frame.body, "\x08\x05", 2);
            got++;
        }
        ck_assert_int_eq(rc, 0);
        ck_assert(frame_decoder_partial(&decoder) ==
                  (at < bytes.size && got < 3 && at != 12 && at != 26));
    }
    ck_assert_uint_eq(got, 3);
    buffer_free(&bytes);
}
END_TEST

START_TEST(two_gibibyte_length_is_refused_without_memory)
{
    struct frame frame;
    feed("\x00\x00\x00\x80\x05\x00\x00\x00\x01\x00\x00\x00", 12);
    size_t before = decoder.bytes.capacity;
    ck_assert_int_eq(frame_decoder_next(&decoder, &frame, &error), IPU_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(error.text, "2147483648"));
    ck_assert_uint_eq(decoder.bytes.capacity, before);
    ck_assert_int_eq(frame_decoder_next(&decoder, &frame, &error), IPU_ERR_PROTOCOL);
}
END_TEST

struct limit_row {
    uint8_t type;
    uint32_t size;
    int rc;
};
static const struct limit_row limit_rows[] = {
    {IPU__RPC__FRAME_TYPE__FRAME_STATUS, 65536, 0},
    {IPU__RPC__FRAME_TYPE__FRAME_STATUS, 65537, IPU_ERR_PROTOCOL},
    {IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK, 1 << 20, 0},
    {IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK, (1 << 20) + 1, IPU_ERR_PROTOCOL},
    {0, 0, IPU_ERR_PROTOCOL},
    {IPU__RPC__FRAME_TYPE__REPLY_OK, 0, IPU_ERR_PROTOCOL},
    {255, 0, IPU_ERR_PROTOCOL},
};

START_TEST(each_type_has_its_limit)
{
    uint8_t header[FRAME_HEADER];
    struct frame frame;
    frame_header(header, limit_rows[_i].type, 1, limit_rows[_i].size);
    feed(header, sizeof header);
    ck_assert_int_eq(frame_decoder_next(&decoder, &frame, &error), limit_rows[_i].rc);
}
END_TEST

START_TEST(reserved_bytes_must_be_zero)
{
    uint8_t header[FRAME_HEADER];
    struct frame frame;
    frame_header(header, IPU__RPC__FRAME_TYPE__FRAME_PING, 1, 0);
    header[5 + _i] = 1;
    feed(header, sizeof header);
    ck_assert_int_eq(frame_decoder_next(&decoder, &frame, &error), IPU_ERR_PROTOCOL);
}
END_TEST

START_TEST(random_bytes_never_yield_more_than_was_read)
{
    struct frame frame;
    srand((unsigned)_i);
    for (int round = 0; round < 200; round++) {
        uint8_t noise[64];
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)(rand() % 3 ? rand() % 8 : rand());
        feed(noise, (size_t)(rand() % 64));
        int rc;
        while ((rc = frame_decoder_next(&decoder, &frame, &error)) > 0)
            ck_assert(frame.body + frame.size <= decoder.bytes.data + decoder.bytes.size);
        if (rc < 0) {
            frame_decoder_free(&decoder);
            setup();
        }
    }
}
END_TEST

START_TEST(memory_of_a_large_frame_is_bounded)
{
    struct buffer bytes = {0};
    struct frame frame = {0};
    static uint8_t body[1 << 20];
    put(&bytes, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK, 1, body, 1 << 20);
    for (size_t at = 0; at < bytes.size; at += 4096) {
        feed(bytes.data + at, bytes.size - at < 4096 ? bytes.size - at : 4096);
        int rc = frame_decoder_next(&decoder, &frame, &error);
        ck_assert_int_eq(rc, at + 4096 >= bytes.size);
    }
    ck_assert_uint_le(decoder.bytes.capacity, (1 << 20) + (256 << 10));
    ck_assert_uint_eq(frame.size, 1 << 20);
    buffer_free(&bytes);
}
END_TEST

START_TEST(no_room_without_memory)
{
    size_t room;
    ipu_alloc_fail_after(0, 1);
    ck_assert_ptr_null(frame_decoder_room(&decoder, &room));
    ipu_alloc_fail_after(-1, 0);
    ck_assert_ptr_nonnull(frame_decoder_room(&decoder, &room));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rpc_frame");
    TCase *tc = tcase_create("rpc_frame");
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, frames_come_out_whole_however_they_are_split, 0, 40);
    tcase_add_test(tc, two_gibibyte_length_is_refused_without_memory);
    tcase_add_loop_test(tc, each_type_has_its_limit, 0, sizeof limit_rows / sizeof limit_rows[0]);
    tcase_add_loop_test(tc, reserved_bytes_must_be_zero, 0, 3);
    tcase_add_loop_test(tc, random_bytes_never_yield_more_than_was_read, 0, 20);
    tcase_add_test(tc, memory_of_a_large_frame_is_bounded);
    tcase_add_test(tc, no_room_without_memory);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
