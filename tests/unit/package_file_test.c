/* module: device/package */
/* The package file: what is built is what is read, bytes are deterministic, and no damaged or lying
 * file is accepted. */
#include "device/package/package.h"

#include "base/alloc.h"
#include "device/ipu21/memory.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARAMETER_TILES = 3, ENTRY = 0x4c014 };

static const struct package_info info = {.compiler = "0.1.0",
                                         .workload = "two-tiles",
                                         .flag_set = 1,
                                         .clock_hz = 1500000000,
                                         .execution_tiles = 64,
                                         .final_mark = 23,
                                         .entry = ENTRY,
                                         .batches_in = {1, 2},
                                         .batches_out = {0, 3},
                                         .phases = {2, 9},
                                         .estimated_cycles = 123456789012};

static uint8_t bytes[4096];
static float weights[24];
static uint16_t input[32];

static void add_tensors(struct package *p)
{
    struct package_tensor t[] = {
        {"w", PACKAGE_PARAMETER, PACKAGE_F32, 2, {4, 6}, (const uint8_t *)weights, sizeof weights},
        {"x", PACKAGE_INPUT, PACKAGE_F16, 3, {2, 4, 4}, (const uint8_t *)input, sizeof input},
        {"y", PACKAGE_OUTPUT, PACKAGE_F16, 1, {100}, NULL, 200},
        {"samples", PACKAGE_SAMPLES, PACKAGE_U32, 1, {4}, NULL, 16}};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(package_add_tensor(p, &t[i]), i);
}

static void add_nests(struct package *p)
{
    for (unsigned tile = PARAMETER_TILES; tile-- > 0;) { /* out of order on purpose */
        struct package_nest n = {.tile = (uint16_t)(tile * 700),
                                 .tensor = 0,
                                 .dims = 2,
                                 .host_offset = 23,
                                 .stream_offset = 16 + 128 * tile,
                                 .dim = {{4, -6, 24}, {6, -1, 4}}};
        ck_assert_int_ge(package_add_nest(p, PACKAGE_INITIALIZE, &n), 0);
    }
    struct package_nest x = {.tile = 1471, .tensor = 1, .dims = 1, .dim = {{32, 1, 2}}};
    struct package_nest y = {.tile = 5, .tensor = 2, .dims = 1, .dim = {{100, 1, 2}}};
    struct package_nest s = {
        .tile = 5, .tensor = 3, .dims = 1, .stream_offset = 8192, .dim = {{4, 1, 4}}};
    ck_assert_int_ge(package_add_nest(p, PACKAGE_RUN, &x), 0);
    ck_assert_int_ge(package_add_nest(p, PACKAGE_RUN, &y), 0);
    ck_assert_int_ge(package_add_nest(p, PACKAGE_RUN, &s), 0);
}

static struct package *build(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    for (int i = 0; i < 24; i++)
        weights[i] = (float)i * 0.5f;
    for (int i = 0; i < 32; i++)
        input[i] = (uint16_t)(0x3c00 + i);
    struct package *p = package_create();
    ck_assert_ptr_nonnull(p);
    package_set_info(p, &info);
    int code = package_add_blob(p, bytes, 1000), rest = package_add_blob(p, bytes + 1000, 77 * 4);
    ck_assert_int_ge(package_add_segment(p, 1471, 0x80000, rest, 8, 300), 0);
    ck_assert_int_ge(package_add_segment(p, 0, 0x50000, rest, 0, 308), 0);
    ck_assert_int_ge(package_add_segment(p, 0, 0x4c010, code, 0, 1000), 0);
    add_tensors(p);
    add_nests(p);
    ck_assert_int_ge(package_add_row(p, 9, 0x60008, 36, 12), 0);
    ck_assert_int_ge(package_add_row(p, 9, 0x60000, 8, 7), 0);
    struct package_step steps[] = {{PACKAGE_STEP_COMPUTE, "repeat/up", "gemm", 0, 2, 1000},
                                   {PACKAGE_STEP_EXCHANGE, "repeat/up", "", 4, 2, 300}};
    ck_assert_int_eq(package_add_step(p, &steps[0]), 0);
    ck_assert_int_eq(package_add_step(p, &steps[1]), 1);
    static const uint32_t order[] = {0, 1, 0};
    ck_assert_int_ge(package_add_samples(p, 7, 8192, order, 3), 0);
    ck_assert_int_ge(package_add_samples(p, 5, 8192, order, 3), 0);
    ck_assert_int_ge(package_add_symbol(p, "second", 0x4c100, 64), 0);
    ck_assert_int_ge(package_add_symbol(p, "first", 0x4c010, 0), 0);
    return p;
}

static struct buffer written(const struct package *p)
{
    struct buffer out = {0};
    struct ipu_error error = {0};
    int code = package_write(p, &out, &error);
    ck_assert_msg(code == 0, "%s", error.text);
    return out;
}

static struct package *read_back(const struct buffer *file)
{
    struct ipu_error error = {0};
    struct package *p = NULL;
    int code = package_read(file->data, file->size, &p, &error);
    ck_assert_msg(code == 0, "%s", error.text);
    return p;
}

static void assert_refused(const void *data, size_t size, int expected)
{
    struct ipu_error error = {0};
    struct package *p = (struct package *)(void *)&error;
    int code = package_read(data, size, &p, &error);
    ck_assert_int_eq(code, expected);
    ck_assert_int_eq(error.code, expected);
    ck_assert_ptr_null(p);
    ck_assert_uint_gt(strlen(error.text), 10);
}

START_TEST(segments_come_back_sorted_with_their_bytes)
{
    struct package *p = build();
    struct buffer file = written(p);
    package_destroy(p);
    p = read_back(&file);
    memset(file.data, 0xee, file.size); /* the package owns its bytes */
    buffer_free(&file);
    size_t count;
    const struct package_segment *s = package_segments(p, &count);
    ck_assert_uint_eq(count, 3);
    ck_assert(s[0].tile == 0 && s[0].address == 0x4c010 && s[0].size == 1000);
    ck_assert(s[1].tile == 0 && s[1].address == 0x50000 && s[1].size == 308);
    ck_assert(s[2].tile == 1471 && s[2].address == 0x80000 && s[2].size == 300);
    ck_assert_mem_eq(s[0].data, bytes, 1000);
    ck_assert_mem_eq(s[2].data, bytes + 1008, 300);
    ck_assert_uint_eq(s[1].blob, s[2].blob);
    ck_assert_uint_eq(s[2].blob_offset, 8);
    package_destroy(p);
}
END_TEST

START_TEST(information_comes_back)
{
    struct package *p = build();
    struct buffer file = written(p);
    struct package *q = read_back(&file);
    const struct package_info *i = package_get_info(q);
    ck_assert_str_eq(i->compiler, "0.1.0");
    ck_assert_str_eq(i->workload, "two-tiles");
    ck_assert_uint_eq(i->clock_hz, info.clock_hz);
    ck_assert_uint_eq(i->estimated_cycles, info.estimated_cycles);
    ck_assert(i->flag_set == 1 && i->execution_tiles == 64 && i->final_mark == 23);
    ck_assert(i->entry == ENTRY && i->phases[1] == 9 && i->batches_out[1] == 3);
    ck_assert(hash_equal(package_digest(p), package_digest(q)));
    package_destroy(p);
    package_destroy(q);
    buffer_free(&file);
}
END_TEST

START_TEST(tensors_and_nests_come_back)
{
    struct package *built = build();
    struct buffer file = written(built);
    package_destroy(built);
    struct package *p = read_back(&file);
    size_t count;
    const struct package_tensor *t = package_tensors(p, &count);
    ck_assert_uint_eq(count, 4);
    ck_assert_int_eq(package_find_tensor(p, "y"), 2);
    ck_assert_int_eq(package_find_tensor(p, "z"), -1);
    ck_assert(t[1].rank == 3 && t[1].shape[0] == 2 && t[1].shape[2] == 4 && t[1].bytes == 64);
    ck_assert_mem_eq(t[0].data, weights, sizeof weights);
    ck_assert_ptr_null(t[2].data);
    const struct package_nest *n = package_nests(p, PACKAGE_INITIALIZE, &count);
    ck_assert_uint_eq(count, PARAMETER_TILES);
    for (unsigned i = 0; i < PARAMETER_TILES; i++) {
        ck_assert_uint_eq(n[i].tile, i * 700);
        ck_assert(n[i].dims == 2 && n[i].host_offset == 23 && n[i].stream_offset == 16 + 128 * i);
        ck_assert(n[i].dim[0].count == 4 && n[i].dim[0].host_stride == -6);
        ck_assert(n[i].dim[1].stream_stride == 4 && n[i].dim[1].host_stride == -1);
    }
    n = package_nests(p, PACKAGE_RUN, &count);
    ck_assert_uint_eq(count, 3);
    ck_assert(n[0].tile == 5 && n[0].tensor == 2 && n[1].tensor == 3 && n[2].tile == 1471);
    package_destroy(p);
    buffer_free(&file);
}
END_TEST

START_TEST(profile_plan_rows_and_symbols_come_back)
{
    struct package *built = build();
    struct buffer file = written(built);
    package_destroy(built);
    struct package *p = read_back(&file);
    size_t count;
    const struct package_row *r = package_rows(p, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert(r[0].tile == 9 && r[0].address == 0x60000 && r[0].bytes == 8 && r[0].words == 7);
    ck_assert(r[1].address == 0x60008 && r[1].words == 12);
    const struct package_step *s = package_steps(p, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert(s[1].kind == PACKAGE_STEP_EXCHANGE && s[1].phase == 4 && s[0].predicted == 1000);
    ck_assert_str_eq(s[0].kernel, "gemm");
    ck_assert_str_eq(s[1].name, "repeat/up");
    const struct package_samples *l = package_sample_lists(p, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert(l[0].tile == 5 && l[1].tile == 7 && l[0].count == 3 && l[0].stream_offset == 8192);
    ck_assert(l[1].steps[0] == 0 && l[1].steps[1] == 1 && l[1].steps[2] == 0);
    const struct package_symbol *y = package_symbols(p, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(y[0].name, "first");
    ck_assert(y[1].address == 0x4c100 && y[1].size == 64);
    package_destroy(p);
    buffer_free(&file);
}
END_TEST

START_TEST(equal_blobs_are_stored_once)
{
    struct package *p = package_create();
    static uint8_t block[100000];
    int first = package_add_blob(p, block, sizeof block);
    block[99999] = 1;
    int other = package_add_blob(p, block, sizeof block);
    block[99999] = 0;
    ck_assert_int_ne(first, other);
    for (int i = 0; i < 500; i++) { /* the table grows in between */
        uint32_t word = (uint32_t)i;
        ck_assert_int_eq(package_add_blob(p, &word, 4), i + 2);
    }
    ck_assert_int_eq(package_add_blob(p, block, sizeof block), first);
    package_destroy(p);
}
END_TEST

START_TEST(same_adds_give_the_same_bytes)
{
    struct package *a = build(), *b = build();
    struct buffer x = written(a), y = written(b);
    ck_assert_uint_eq(x.size, y.size);
    ck_assert_mem_eq(x.data, y.data, x.size);
    struct package *c = read_back(&x);
    struct buffer z = written(c); /* and a read package writes itself again */
    ck_assert_uint_eq(x.size, z.size);
    ck_assert_mem_eq(x.data, z.data, x.size);
    package_destroy(a);
    package_destroy(b);
    package_destroy(c);
    buffer_free(&x);
    buffer_free(&y);
    buffer_free(&z);
}
END_TEST

START_TEST(every_flipped_bit_is_refused)
{
    struct package *p = build();
    struct buffer file = written(p);
    for (size_t i = 0; i < file.size; i++) {
        uint8_t old = file.data[i];
        file.data[i] ^= (uint8_t)(1 << (i % 8));
        assert_refused(file.data, file.size, i >= 8 && i < 16 ? IPU_ERR_VERSION : IPU_ERR_CORRUPT);
        file.data[i] = old;
    }
    package_destroy(p);
    buffer_free(&file);
}
END_TEST

START_TEST(every_truncation_and_extension_is_refused)
{
    struct package *p = build();
    struct buffer file = written(p);
    for (size_t size = 0; size < file.size; size++)
        assert_refused(file.data, size, IPU_ERR_CORRUPT);
    buffer_append_zero(&file, 8);
    assert_refused(file.data, file.size, IPU_ERR_CORRUPT);
    package_destroy(p);
    buffer_free(&file);
}
END_TEST

/* Replaces the digest by the right one, as an attacker would. */
static void seal(struct buffer *file)
{
    struct hash digest;
    ck_assert(hash_bytes(file->data + 48, file->size - 48, &digest));
    memcpy(file->data + 16, digest.bytes, HASH_BYTES);
}

START_TEST(sealed_mutations_never_break_the_reader)
{
    struct package *p = build();
    struct buffer file = written(p);
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        struct buffer copy = {0};
        buffer_append(&copy, file.data, file.size);
        for (int k = 0; k < 1 + round % 3; k++) {
            seed = hash64_mix(seed + 0x9e3779b97f4a7c15u);
            copy.data[48 + seed % 600] = (uint8_t)(seed >> 32);
        }
        seal(&copy);
        struct ipu_error error = {0};
        struct package *q = NULL;
        int code = package_read(copy.data, copy.size, &q, &error);
        ck_assert(code == 0 || (code == IPU_ERR_CORRUPT && q == NULL && error.text[0]));
        package_destroy(q);
        buffer_free(&copy);
    }
    package_destroy(p);
    buffer_free(&file);
}
END_TEST

START_TEST(a_header_that_claims_much_memory_is_refused)
{
    struct buffer file = {0};
    uint64_t sizes[2] = {2 << 20, 0};
    buffer_append(&file, "IPUEXE1", 8);
    buffer_append_u32(&file, 1);
    buffer_append_zero(&file, 36);
    buffer_append(&file, sizes, sizeof sizes);
    for (int i = 0; i < 1 << 20;
         i++) /* an empty, unknown field each: protobuf-c keeps a record of every one */
        buffer_append(&file, "\x7a\x00", 2);
    seal(&file);
    assert_refused(file.data, file.size, IPU_ERR_CORRUPT);
    buffer_free(&file);
}
END_TEST

/* --- rules: each case breaks one, and the writer refuses it --- */

static void assert_unwritable(struct package *p, const char *what)
{
    struct buffer out = {0};
    struct ipu_error error = {0};
    int code = package_write(p, &out, &error);
    ck_assert_int_eq(code, IPU_ERR_INTERNAL);
    ck_assert_msg(strstr(error.text, what) != NULL, "expected '%s' in '%s'", what, error.text);
    buffer_free(&out);
    package_destroy(p);
}

static const struct {
    unsigned tile;
    uint32_t address, size;
    const char *what;
} bad_segments[] = {{0, 0x4c012, 8, "whole words"},  {0, 0x4c010, 6, "whole words"},
                    {0, 0x4c010, 0, "whole words"},  {0, 0x4bff0, 32, "loadable"},
                    {0, 0xe7bac, 8, "loadable"},     {0, 0xfffffff0, 32, "loadable"},
                    {1472, 0x4c010, 8, "tile 1472"}, {0, 0x4c3f0, 32, "overlap"}};

START_TEST(a_bad_segment_is_refused)
{
    struct package *p = build();
    int blob = package_add_blob(p, bytes, 64);
    ck_assert_int_ge(package_add_segment(p, bad_segments[_i].tile, bad_segments[_i].address, blob,
                                         0, bad_segments[_i].size),
                     0);
    assert_unwritable(p, bad_segments[_i].what);
}
END_TEST

static const struct {
    struct package_nest nest;
    enum package_call call;
    const char *what;
} bad_nests[] = {
    {{.tile = 1472, .tensor = 1}, PACKAGE_RUN, "tile 1472"},
    {{.tile = 1, .tensor = 1}, PACKAGE_INITIALIZE, "does not travel"},
    {{.tile = 1, .tensor = 0}, PACKAGE_RUN, "does not travel"},
    {{.tile = 1, .tensor = 1, .host_offset = 32}, PACKAGE_RUN, "starts outside"},
    {{.tile = 1, .tensor = 1, .stream_offset = 1}, PACKAGE_RUN, "misaligned"},
    {{.tile = 1, .tensor = 1, .stream_offset = 8192}, PACKAGE_RUN, "leaves"},
    {{.tile = 1, .tensor = 1, .dims = 1, .dim = {{33, 1, 2}}}, PACKAGE_RUN, "leaves"},
    {{.tile = 1, .tensor = 1, .dims = 1, .dim = {{2, -1, 2}}}, PACKAGE_RUN, "leaves"},
    {{.tile = 1, .tensor = 1, .dims = 1, .dim = {{2, 1, -2}}}, PACKAGE_RUN, "leaves"},
    {{.tile = 1, .tensor = 1, .dims = 1, .dim = {{2, 1, 1}}}, PACKAGE_RUN, "leaves"},
    {{.tile = 1, .tensor = 1, .dims = 1, .dim = {{0, 1, 2}}}, PACKAGE_RUN, "leaves"},
    {{.tile = 1, .tensor = 1, .dims = 2, .dim = {{1u << 31, 0, 0}, {1u << 31, 0, 0}}},
     PACKAGE_RUN,
     "leaves"},
    {{.tile = 1, .tensor = 1, .dims = 1, .dim = {{3, INT64_MAX, 2}}}, PACKAGE_RUN, "leaves"},
    {{.tile = 1, .tensor = 2, .stream_offset = 12288}, PACKAGE_RUN, "leaves"},
};

START_TEST(a_bad_nest_is_refused)
{
    struct package *p = build();
    ck_assert_int_ge(package_add_nest(p, bad_nests[_i].call, &bad_nests[_i].nest), 0);
    assert_unwritable(p, bad_nests[_i].what);
}
END_TEST

static const struct {
    struct package_tensor tensor;
    const char *what;
} bad_tensors[] = {
    {{"", PACKAGE_OUTPUT, PACKAGE_F32, 1, {1}, NULL, 4}, "name"},
    {{"x", PACKAGE_OUTPUT, PACKAGE_F32, 1, {1}, NULL, 4}, "two tensors"},
    {{"a", PACKAGE_OUTPUT, (enum package_type)4, 1, {1}, NULL, 4}, "type"},
    {{"a", PACKAGE_OUTPUT, PACKAGE_F32, 2, {1, 0}, NULL, 0}, "shape"},
    {{"a", PACKAGE_OUTPUT, PACKAGE_F32, 3, {1u << 31, 1u << 31, 4}, NULL, 0}, "shape"},
    {{"a", PACKAGE_OUTPUT, PACKAGE_F32, 9, {1}, NULL, 4}, "shape"},
    {{"a", PACKAGE_OUTPUT, PACKAGE_F32, 1, {3}, NULL, 8}, "8 bytes"},
    {{"a", PACKAGE_OUTPUT, PACKAGE_F32, 1, {1}, bytes, 4}, "may not have"},
    {{"a", PACKAGE_INPUT, PACKAGE_F32, 1, {1}, NULL, 4}, "lacks"},
};

START_TEST(a_bad_tensor_is_refused)
{
    struct package *p = build();
    ck_assert_int_ge(package_add_tensor(p, &bad_tensors[_i].tensor), 0);
    assert_unwritable(p, bad_tensors[_i].what);
}
END_TEST

static const struct {
    unsigned tile;
    uint32_t address, size, words;
    const char *what;
} bad_rows[] = {{1472, 0x60000, 8, 1, "tile 1472"},   {9, 0x60000, 16, 1, "overlap"},
                {3, 0x60004, 8, 1, "not executable"}, {3, 0x7fff8, 16, 1, "not executable"},
                {3, 0x80000, 8, 1, "not executable"}, {3, 0x60000, 8, 1u << 25, "receives"}};

START_TEST(a_bad_row_is_refused)
{
    struct package *p = build();
    ck_assert_int_ge(package_add_row(p, bad_rows[_i].tile, bad_rows[_i].address, bad_rows[_i].size,
                                     bad_rows[_i].words),
                     0);
    assert_unwritable(p, bad_rows[_i].what);
}
END_TEST

static const struct {
    unsigned tile;
    uint32_t offset, step;
    const char *what;
} bad_samples[] = {{5, 0, 0, "two sample lists"},
                   {1472, 0, 0, "tile 1472"},
                   {6, 12284, 0, "leave"},
                   {6, 2, 0, "leave"},
                   {6, 0, 2, "names step 2"}};

START_TEST(bad_samples_are_refused)
{
    struct package *p = build();
    uint32_t steps[] = {0, bad_samples[_i].step};
    ck_assert_int_ge(package_add_samples(p, bad_samples[_i].tile, bad_samples[_i].offset, steps, 2),
                     0);
    assert_unwritable(p, bad_samples[_i].what);
}
END_TEST

START_TEST(wrong_phase_counts_and_entries_are_refused)
{
    struct package_info wrong = info;
    wrong.phases[1] = 10;
    struct package *p = build();
    package_set_info(p, &wrong);
    assert_unwritable(p, "host phases");
    wrong = info;
    wrong.entry = 0x80000;
    p = build();
    package_set_info(p, &wrong);
    assert_unwritable(p, "entry");
}
END_TEST

START_TEST(a_failed_add_is_remembered_by_write)
{
    struct package *p = build();
    ck_assert_int_lt(package_add_segment(p, 0, 0x60000, 0, 996, 8), 0);
    struct buffer out = {0};
    struct ipu_error error = {0};
    int code = package_write(p, &out, &error);
    ck_assert_int_eq(code, IPU_ERR_INVALID);
    package_destroy(p);
    buffer_free(&out);
}
END_TEST

START_TEST(memory_failures_are_clean_errors)
{
    struct package *p = build();
    struct buffer file = written(p);
    int failures = 0;
    for (long n = 0;; n++) {
        struct ipu_error error = {0};
        struct buffer out = {0};
        struct package *q = NULL;
        ipu_alloc_fail_after(n, 0);
        int code = package_write(p, &out, &error);
        int other = package_read(file.data, file.size, &q, &error);
        ipu_alloc_fail_after(-1, 0);
        package_destroy(q);
        buffer_free(&out);
        if (code == 0 && other == 0)
            break;
        failures++;
    }
    ck_assert_int_gt(failures, 20);
    package_destroy(p);
    buffer_free(&file);
}
END_TEST

/* --- size --- */

/* Ten blocks of 1100 bytes that no other block equals. */
static void add_random_blocks(struct package *p, unsigned tile, uint8_t *data, uint64_t *seed)
{
    for (unsigned k = 0; k < 10; k++) {
        for (size_t i = 0; i < 1408; i += 8) {
            *seed = hash64_mix(*seed + 1);
            memcpy(data + i, seed, 8);
        }
        int blob = package_add_blob(p, data, 1100);
        package_add_segment(p, tile, 0x50000 + 4096 * k, blob, 0, 1100);
    }
}

static struct package *build_large(void)
{
    struct package *p = package_create();
    struct package_info large = info;
    large.batches_in[0] = 8;
    large.phases[0] = 16;
    package_set_info(p, &large);
    size_t size = 4 << 20;
    uint8_t *data = calloc(size, 1);
    struct package_tensor t = {"w", PACKAGE_PARAMETER, PACKAGE_F32, 1, {size / 4}, data, size};
    ck_assert_int_eq(package_add_tensor(p, &t), 0);
    uint64_t seed = 7;
    for (unsigned tile = 0; tile < 1472; tile++) {
        add_random_blocks(p, tile, data, &seed);
        for (unsigned k = 0; k < 100; k++) {
            struct package_nest n = {.tile = (uint16_t)tile,
                                     .dims = 3,
                                     .host_offset = tile * 512 + k,
                                     .stream_offset = 256 * k,
                                     .dim = {{2, 128, 128}, {4, 16, 32}, {8, 1, 4}}};
            package_add_nest(p, PACKAGE_INITIALIZE, &n);
        }
    }
    free(data);
    return p;
}

START_TEST(a_twenty_megabyte_package_is_written_and_read_quickly)
{
    struct package *p = build_large(), *q = NULL;
    struct buffer out = {0};
    struct ipu_error error = {0};
    /* Processor time: the host may be busy. */
    clock_t start = clock();
    ck_assert_int_eq(package_write(p, &out, &error), 0);
    clock_t middle = clock();
    ck_assert_int_eq(package_read(out.data, out.size, &q, &error), 0);
    clock_t end = clock();
    size_t count;
    package_nests(q, PACKAGE_INITIALIZE, &count);
    ck_assert_uint_eq(count, 147200);
    printf("package of %zu bytes: write %.1f ms, read %.1f ms\n", out.size,
           (double)(middle - start) * 1e3 / CLOCKS_PER_SEC,
           (double)(end - middle) * 1e3 / CLOCKS_PER_SEC);
    ck_assert_uint_gt(out.size, 20000000);
    ck_assert_uint_lt(out.size, 24000000); /* the nests stay small beside 20 MB of blobs */
#ifndef __SANITIZE_ADDRESS__
    ck_assert_int_lt(end - start, CLOCKS_PER_SEC * 2 / 5); /* 8 times the aim, for slow hosts */
#endif
    package_destroy(p);
    package_destroy(q);
    buffer_free(&out);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

int main(void)
{
    Suite *suite = suite_create("package file");
    TCase *tc = tcase_create("file");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, segments_come_back_sorted_with_their_bytes);
    tcase_add_test(tc, information_comes_back);
    tcase_add_test(tc, tensors_and_nests_come_back);
    tcase_add_test(tc, profile_plan_rows_and_symbols_come_back);
    tcase_add_test(tc, equal_blobs_are_stored_once);
    tcase_add_test(tc, same_adds_give_the_same_bytes);
    tcase_add_test(tc, every_flipped_bit_is_refused);
    tcase_add_test(tc, every_truncation_and_extension_is_refused);
    tcase_add_test(tc, sealed_mutations_never_break_the_reader);
    tcase_add_test(tc, a_header_that_claims_much_memory_is_refused);
    tcase_add_loop_test(tc, a_bad_segment_is_refused, 0, COUNT(bad_segments));
    tcase_add_loop_test(tc, a_bad_nest_is_refused, 0, COUNT(bad_nests));
    tcase_add_loop_test(tc, a_bad_tensor_is_refused, 0, COUNT(bad_tensors));
    tcase_add_loop_test(tc, a_bad_row_is_refused, 0, COUNT(bad_rows));
    tcase_add_loop_test(tc, bad_samples_are_refused, 0, COUNT(bad_samples));
    tcase_add_test(tc, wrong_phase_counts_and_entries_are_refused);
    tcase_add_test(tc, a_failed_add_is_remembered_by_write);
    tcase_add_test(tc, memory_failures_are_clean_errors);
    tcase_add_test(tc, a_twenty_megabyte_package_is_written_and_read_quickly);
    suite_add_tcase(suite, tc);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
