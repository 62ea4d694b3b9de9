/* module: device/driver */
/* Packing and gathering by random loop nests against a walk of every single element. */
#include "device/driver/stream.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 5, STREAM = BATCHES * PACKAGE_PAGE_BYTES, ELEMENTS = 60000, ROUNDS = 300 };

static uint64_t state;

static uint32_t below(uint32_t limit)
{
    state = hash64_mix(state + 0x9e3779b97f4a7c15u);
    return (uint32_t)(state % limit);
}

/* A nest of distinct stream places: mixed radix in stream order, loops then shuffled, some of them
 * turned around. */
static struct package_nest random_nest(uint32_t unit)
{
    struct package_nest nest = {.tile = (uint16_t)below(4), .dims = (uint8_t)below(5)};
    uint32_t stride = unit * (1 + below(3)), host = 1 + below(3);
    int64_t host_low = 0, host_high = 0, low = 0, high = 0;
    for (unsigned k = 0; k < nest.dims; k++) {
        uint32_t count = 1 + below(9);
        if (stride * count > STREAM / 4)
            count = 1;
        bool turned = below(4) == 0, host_turned = below(4) == 0;
        nest.dim[k].count = count;
        nest.dim[k].stream_stride = turned ? -(int32_t)stride : (int32_t)stride;
        nest.dim[k].host_stride = host_turned ? -(int64_t)host : (int64_t)host;
        *(turned ? &low : &high) += ((int64_t)count - 1) * nest.dim[k].stream_stride;
        *(host_turned ? &host_low : &host_high) += ((int64_t)count - 1) * nest.dim[k].host_stride;
        stride *= count * (1 + below(2));
        host *= count;
    }
    for (unsigned k = nest.dims; k > 1; k--) {
        unsigned j = below(k);
        struct package_nest before = nest;
        nest.dim[j] = before.dim[k - 1];
        nest.dim[k - 1] = before.dim[j];
    }
    ck_assert_int_lt(high - low, STREAM);
    ck_assert_int_lt(host_high - host_low, ELEMENTS);
    uint32_t room = (uint32_t)(STREAM - (high - low)) / unit;
    nest.stream_offset = (uint32_t)-low + unit * below(room);
    nest.host_offset = (uint64_t)-host_low + below((uint32_t)(ELEMENTS - (host_high - host_low)));
    return nest;
}

typedef void each_fn(void *context, int64_t host, int64_t stream);

static void each(const struct package_nest *nest, unsigned k, int64_t host, int64_t stream,
                 each_fn *visit, void *context)
{
    if (k >= PACKAGE_NEST_DIMS || k == nest->dims) {
        visit(context, host, stream);
        return;
    }
    for (uint32_t i = 0; i < nest->dim[k].count; i++)
        each(nest, k + 1, host + i * nest->dim[k].host_stride,
             stream + (int64_t)i * nest->dim[k].stream_stride, visit, context);
}

static struct package *new_package(enum package_type type, enum package_role role,
                                   const uint8_t *data)
{
    uint32_t in = role == PACKAGE_INPUT ? BATCHES : 0, out = role == PACKAGE_OUTPUT ? BATCHES : 0;
    struct package *package = package_create();
    struct package_info info = {.compiler = "0", .workload = "nests", .entry = 0x4c014};
    info.batches_in[PACKAGE_RUN] = in;
    info.batches_out[PACKAGE_RUN] = out;
    info.phases[PACKAGE_RUN] = 2 * in + (out ? 2 * out - 1 : 0);
    package_set_info(package, &info);
    struct package_tensor tensor = {.name = "t",
                                    .role = role,
                                    .type = type,
                                    .rank = 1,
                                    .shape = {ELEMENTS},
                                    .data = data,
                                    .bytes = ELEMENTS * (type == PACKAGE_F16 ? 2u : 4u)};
    ck_assert_int_eq(package_add_tensor(package, &tensor), 0);
    return package;
}

struct plain {
    const uint8_t *host;
    uint8_t *stream;
    uint32_t unit;
};

static void plain_fill(void *context, int64_t host, int64_t stream)
{
    const struct plain *p = context;
    memcpy(p->stream + stream, p->host + host * p->unit, p->unit);
}

START_TEST(filled_pages_are_those_of_a_plain_walk)
{
    uint32_t unit = _i % 2 ? 2 : 4;
    static uint8_t data[ELEMENTS * 4], wanted[4][STREAM], pages[IPU21_TILES * 4096];
    struct stream_contents contents;
    struct ipu_error error;
    state = (uint64_t)_i;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)below(255) + 1;
    struct package *package =
        new_package(unit == 2 ? PACKAGE_F16 : PACKAGE_F32, PACKAGE_INPUT, data);
    memset(wanted, 0, sizeof wanted);
    struct package_nest nest = random_nest(unit);
    struct plain p = {.host = data, .stream = wanted[nest.tile], .unit = unit};
    each(&nest, 0, (int64_t)nest.host_offset, nest.stream_offset, plain_fill, &p);
    ck_assert_int_ge(package_add_nest(package, PACKAGE_RUN, &nest), 0);
    ck_assert_int_eq(stream_contents_begin(&contents, package, &error), 0);
    for (uint32_t b = 0; b < BATCHES; b++) {
        memset(pages, 0, sizeof pages);
        stream_fill(package, PACKAGE_RUN, &contents, b, pages);
        for (unsigned t = 0; t < 4; t++)
            ck_assert_msg(memcmp(pages + 4096 * t, wanted[t] + 4096 * b, 4096) == 0,
                          "seed %d, batch %u, tile %u", _i, b, t);
    }
    stream_contents_end(&contents);
    package_destroy(package);
}
END_TEST

/* One nest gives every element; a random one gives some again, from another tile. */
START_TEST(gathered_outputs_come_back_and_copies_are_compared)
{
    static uint8_t wanted[ELEMENTS * 2], pages[IPU21_TILES * 4096];
    struct stream_store store;
    struct stream_outputs outputs = {0};
    struct ipu_error error;
    state = (uint64_t)_i;
    struct package *package = new_package(PACKAGE_F16, PACKAGE_OUTPUT, NULL);
    enum { SHARE = STREAM / 2 };
    for (uint32_t at = 0, tile = 10; at < ELEMENTS; at += SHARE, tile++) {
        uint32_t count = ELEMENTS - at < SHARE ? ELEMENTS - at : SHARE;
        struct package_nest all = {.tile = (uint16_t)tile, .dims = 1, .host_offset = at};
        all.dim[0].count = count;
        all.dim[0].host_stride = 1;
        all.dim[0].stream_stride = 2;
        ck_assert_int_ge(package_add_nest(package, PACKAGE_RUN, &all), 0);
    }
    struct package_nest nest = random_nest(2);
    nest.tile = 100;
    ck_assert_int_ge(package_add_nest(package, PACKAGE_RUN, &nest), 0);
    for (size_t i = 0; i < sizeof wanted; i++)
        wanted[i] = (uint8_t)below(256);
    static uint8_t stream[STREAM];
    struct plain p = {.host = wanted, .stream = stream, .unit = 2};
    memset(stream, 0, sizeof stream);
    each(&nest, 0, (int64_t)nest.host_offset, nest.stream_offset, plain_fill, &p);
    ck_assert_int_eq(stream_store_begin(&store, package, &error), 0);
    for (uint32_t b = 0; b < BATCHES; b++) {
        for (uint32_t at = 0, tile = 10; at < ELEMENTS; at += SHARE, tile++) {
            uint32_t from = 2 * at + 4096 * b, left = from < sizeof wanted ? 4096 : 0;
            if (from + left > sizeof wanted)
                left = (uint32_t)sizeof wanted - from;
            memcpy(pages + 4096 * tile, wanted + (left ? from : 0), left);
        }
        memcpy(pages + 4096 * 100, stream + 4096 * b, 4096);
        stream_take(&store, b, pages);
    }
    ck_assert_msg(stream_gather(&outputs, package, &store, &error) == 0, "%s", error.text);
    ck_assert_mem_eq(outputs.data[0], wanted, sizeof wanted);
    /* One flipped bit in a copy is found. */
    store.data[store.offset[100] + nest.stream_offset] ^= 1;
    ck_assert_int_eq(stream_gather(&outputs, package, &store, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert(strstr(error.text, "from tile 100 is not the same bits as from tile 1") != NULL);
    stream_outputs_end(&outputs);
    stream_store_end(&store);
    package_destroy(package);
}
END_TEST

START_TEST(element_without_a_tile_is_refused)
{
    struct stream_store store;
    struct stream_outputs outputs = {0};
    struct ipu_error error;
    struct package *package = new_package(PACKAGE_F32, PACKAGE_OUTPUT, NULL);
    struct package_nest nest = {.tile = 3, .dims = 1};
    nest.dim[0].count = 7;
    nest.dim[0].host_stride = 1;
    nest.dim[0].stream_stride = 4;
    ck_assert_int_ge(package_add_nest(package, PACKAGE_RUN, &nest), 0);
    ck_assert_int_eq(stream_store_begin(&store, package, &error), 0);
    ck_assert_int_eq(stream_gather(&outputs, package, &store, &error), IPU_ERR_CORRUPT);
    ck_assert(strstr(error.text, "names no tile for element [7]") != NULL);
    stream_outputs_end(&outputs);
    stream_store_end(&store);
    package_destroy(package);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_stream");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 60);
    tcase_add_loop_test(core, filled_pages_are_those_of_a_plain_walk, 0, ROUNDS);
    tcase_add_loop_test(core, gathered_outputs_come_back_and_copies_are_compared, 0, 60);
    tcase_add_test(core, element_without_a_tile_is_refused);
    suite_add_tcase(suite, core);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
