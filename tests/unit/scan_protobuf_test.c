/* module: proto */
/* Tests of proto/scan: every way in which untrusted protobuf bytes can be wrong is refused before
 * protobuf-c sees them, quickly and without memory. */
#include "proto/scan.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "proto/rpc.pb-c.h"
#include "proto/workload.pb-c.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKLOAD (&ipu__workload__workload__descriptor)
#define STATUS   (&ipu__rpc__job_status__descriptor)

static struct ipu_error error;

static int scan_text(const ProtobufCMessageDescriptor *descriptor, const char *bytes, size_t size)
{
    return scan_message(descriptor, bytes, size, &scan_workload_limits, &error);
}

static void put_varint(struct buffer *b, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        buffer_append(b, &byte, 1);
        value >>= 7;
    } while (value);
}

/* A workload whose graph nests `levels` repeats: graph(5) / operations(1) / repeat(10) / body(4).
 */
static struct buffer nested(unsigned levels)
{
    struct buffer inner = {0};
    static const uint8_t tags[] = {0x22, 0x52, 0x0a};
    for (unsigned i = 0; i < levels; i++) {
        struct buffer outer = {0};
        buffer_append(&outer, &tags[i % 3], 1);
        put_varint(&outer, inner.size);
        buffer_append(&outer, inner.data, inner.size);
        buffer_free(&inner);
        inner = outer;
    }
    return inner;
}

START_TEST(valid_message_unpacks)
{
    Ipu__Rpc__JobStatus status = IPU__RPC__JOB_STATUS__INIT;
    status.job = 7;
    status.name = (char *)"na\xc3\xafve";
    status.progress = 0.5;
    uint8_t bytes[128];
    size_t size = ipu__rpc__job_status__pack(&status, bytes);
    ProtobufCMessage *out;
    ck_assert_int_eq(scan_unpack(STATUS, bytes, size, &scan_control_limits, &out, &error), 0);
    Ipu__Rpc__JobStatus *got = (Ipu__Rpc__JobStatus *)out;
    ck_assert_uint_eq(got->job, 7);
    ck_assert_str_eq(got->name, status.name);
    scan_free(out);
}
END_TEST

/* A workload whose graph field holds `levels` (a multiple of 3) nested messages. */
static struct buffer nested_workload(unsigned levels)
{
    struct buffer body = nested(levels), graph = {0};
    const uint8_t tag = 0x2a;
    buffer_append(&graph, &tag, 1);
    put_varint(&graph, body.size);
    buffer_append(&graph, body.data, body.size);
    buffer_free(&body);
    return graph;
}

START_TEST(ten_thousand_nested_messages_are_refused_quickly)
{
    struct buffer bomb = nested_workload(9999);
    uint64_t start = clock_ns();
    int rc = scan_message(WORKLOAD, bomb.data, bomb.size, &scan_workload_limits, &error);
    ck_assert_int_eq(rc, IPU_ERR_LIMIT);
    ck_assert_uint_lt(clock_ns() - start, 10000000u);
    ck_assert_ptr_nonnull(strstr(error.text, "64 nested messages"));
    buffer_free(&bomb);
}
END_TEST

START_TEST(nesting_is_allowed_up_to_the_cap)
{
    struct buffer inside = nested_workload(60), outside = nested_workload(63);
    ck_assert_int_eq(
        scan_message(WORKLOAD, inside.data, inside.size, &scan_workload_limits, &error), 0);
    ck_assert_int_eq(
        scan_message(WORKLOAD, outside.data, outside.size, &scan_workload_limits, &error),
        IPU_ERR_LIMIT);
    buffer_free(&inside);
    buffer_free(&outside);
}
END_TEST

struct bad_row {
    const char *bytes;
    size_t size;
    const char *says;
};
static const struct bad_row bad_rows[] = {
    {"\x08", 1, "varint"},                                          /* cut-off varint */
    {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, "varint"}, /* 70 bits */
    {"\x12\x05name", 6, "past the end"},                            /* length past the end */
    {"\x12\xff\xff\xff\xff\x07", 6, "past the end"},                /* 2 GiB length prefix */
    {"\x12\x02\xc3\x28", 4, "UTF-8"},                               /* broken sequence */
    {"\x12\x02\xc0\x80", 4, "UTF-8"},                               /* overlong NUL */
    {"\x12\x03\x61\x00\x62", 5, "UTF-8"},                           /* embedded NUL */
    {"\x12\x03\xed\xa0\x80", 5, "UTF-8"},                           /* surrogate */
    {"\x0b\x0c", 2, "wire type"},                                   /* group */
    {"\x0f", 1, "wire type"},                                       /* wire type 7 */
    {"\x10\x01", 2, "another wire type"},                           /* name as a varint */
    {"\x00\x01", 2, "field key"},                                   /* field number 0 */
    {"\x89\x01\x00\x00", 4, "cut off"},                             /* double of two bytes */
    {"\x80\x80\x80\x80\x80\x80", 6, "field key"},                   /* key that does not end */
};

START_TEST(malformed_bytes_are_refused)
{
    const struct bad_row *row = &bad_rows[_i];
    ck_assert_int_eq(scan_text(STATUS, row->bytes, row->size), IPU_ERR_INVALID);
    ck_assert_msg(strstr(error.text, row->says) != NULL, "row %d: %s", _i, error.text);
}
END_TEST

START_TEST(every_truncation_of_a_message_is_refused_or_harmless)
{
    Ipu__Rpc__JobStatus status = IPU__RPC__JOB_STATUS__INIT;
    char *lines[] = {(char *)"a=1", (char *)"b=2"};
    status.name = (char *)"n";
    status.n_results = 2;
    status.results = lines;
    status.cycles = 123456;
    uint8_t bytes[128];
    size_t size = ipu__rpc__job_status__pack(&status, bytes);
    for (size_t n = 0; n <= size; n++) {
        ProtobufCMessage *out;
        if (scan_unpack(STATUS, bytes, n, &scan_control_limits, &out, &error) == 0)
            scan_free(out);
        else
            ck_assert_ptr_null(out);
    }
}
END_TEST

START_TEST(element_count_is_capped)
{
    struct buffer b = {0};
    for (int i = 0; i < 5000; i++)
        buffer_append(&b, "\x92\x01\x00", 3); /* results: "" */
    ck_assert_int_eq(scan_message(STATUS, b.data, b.size, &scan_control_limits, &error),
                     IPU_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "4096 elements"));
    buffer_free(&b);
}
END_TEST

START_TEST(packed_elements_are_counted)
{
    struct buffer b = {0};
    buffer_append(&b, "\x1a", 1); /* Value.shape, packed */
    put_varint(&b, 5000);
    for (int i = 0; i < 5000; i++)
        buffer_append(&b, "\x01", 1);
    ck_assert_int_eq(scan_message(&ipu__workload__value__descriptor, b.data, b.size,
                                  &scan_control_limits, &error),
                     IPU_ERR_LIMIT);
    buffer_free(&b);
}
END_TEST

START_TEST(memory_amplification_stops_at_the_budget)
{
    struct buffer b = {0}; /* a workload of 100,000 empty inputs */
    for (int i = 0; i < 100000; i++)
        buffer_append(&b, "\x1a\x00", 2);
    struct scan_limits limits = scan_workload_limits;
    limits.memory = 1 << 20;
    ProtobufCMessage *out;
    ck_assert_int_eq(scan_unpack(WORKLOAD, b.data, b.size, &limits, &out, &error), IPU_ERR_LIMIT);
    ck_assert_ptr_null(out);
    ck_assert_ptr_nonnull(strstr(error.text, "memory"));
    buffer_free(&b);
}
END_TEST

START_TEST(oversized_input_is_refused)
{
    static uint8_t zero[(64 << 10) + 1];
    ck_assert_int_eq(scan_message(STATUS, zero, sizeof zero, &scan_control_limits, &error),
                     IPU_ERR_LIMIT);
}
END_TEST

START_TEST(failing_allocation_is_an_error_and_no_leak)
{
    Ipu__Rpc__JobStatus status = IPU__RPC__JOB_STATUS__INIT;
    status.name = (char *)"name";
    status.reason = (char *)"reason";
    uint8_t bytes[64];
    size_t size = ipu__rpc__job_status__pack(&status, bytes);
    ProtobufCMessage *out = NULL;
    int n = 0;
    for (; n < 50; n++) {
        ipu_alloc_fail_after(n, 1);
        int rc = scan_unpack(STATUS, bytes, size, &scan_control_limits, &out, &error);
        ipu_alloc_fail_after(-1, 0);
        if (rc == 0)
            break;
        ck_assert_ptr_null(out);
    }
    ck_assert_int_gt(n, 1);
    ck_assert_int_lt(n, 50);
    scan_free(out);
}
END_TEST

START_TEST(find_bytes_returns_the_last_occurrence)
{
    const uint8_t *span;
    size_t length;
    const char bytes[] = "\x08\x05\x12\x02xx\x3a\x01z\x12\x03yyy";
    ck_assert(scan_find_bytes(bytes, sizeof bytes - 1, 2, &span, &length));
    ck_assert_uint_eq(length, 3);
    ck_assert_mem_eq(span, "yyy", 3);
    ck_assert(scan_find_bytes(bytes, sizeof bytes - 1, 9, &span, &length));
    ck_assert_ptr_null(span);
    ck_assert(!scan_find_bytes(bytes, sizeof bytes - 2, 2, &span, &length));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scan");
    TCase *tc = tcase_create("scan");
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, valid_message_unpacks);
    tcase_add_test(tc, ten_thousand_nested_messages_are_refused_quickly);
    tcase_add_test(tc, nesting_is_allowed_up_to_the_cap);
    tcase_add_loop_test(tc, malformed_bytes_are_refused, 0,
                        (int)(sizeof bad_rows / sizeof bad_rows[0]));
    tcase_add_test(tc, every_truncation_of_a_message_is_refused_or_harmless);
    tcase_add_test(tc, element_count_is_capped);
    tcase_add_test(tc, packed_elements_are_counted);
    tcase_add_test(tc, memory_amplification_stops_at_the_budget);
    tcase_add_test(tc, oversized_input_is_refused);
    tcase_add_test(tc, failing_allocation_is_an_error_and_no_leak);
    tcase_add_test(tc, find_bytes_returns_the_last_occurrence);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
