/* module: device/package */
/* Fuzzes the package reader behind its digest.
 *
 * The input is a file whose sizes and digest are made to match first, so that mutations reach the
 * header and the tables; an odd first byte leaves the file as it is. What is accepted is written
 * again to a file that is read again and equal, and every span that it names is readable.
 */
#include "device/package/internal.h"
#include "tests/fuzz/seed.h"

#include <string.h>

static void put_u64(uint8_t *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t value = 0;
    for (unsigned i = 8; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* Keeps the header's size when the file has that many bytes; the blobs get the rest. */
static void mend(uint8_t *file, size_t size)
{
    struct hash digest;
    size_t left = size - PACKAGE_PREFIX;
    uint64_t header = get_u64(file + PACKAGE_SIZES_AT);
    if (header > left)
        header = left;
    put_u64(file + PACKAGE_SIZES_AT, header);
    put_u64(file + PACKAGE_SIZES_AT + 8, left - header);
    if (!hash_bytes(file + PACKAGE_SIZES_AT, size - PACKAGE_SIZES_AT, &digest))
        abort();
    memcpy(file + PACKAGE_DIGEST_AT, digest.bytes, HASH_BYTES);
}

static uint64_t sum(const uint8_t *data, uint64_t size)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < size; i++)
        total += data[i];
    return total;
}

static uint64_t walk(const struct package *package)
{
    size_t count;
    uint64_t total = 0;
    const struct package_segment *segments = package_segments(package, &count);
    for (size_t i = 0; i < count && i < 64; i++)
        total += sum(segments[i].data, segments[i].size);
    const struct package_tensor *tensors = package_tensors(package, &count);
    for (size_t i = 0; i < count; i++)
        if (tensors[i].data)
            total += sum(tensors[i].data, tensors[i].bytes);
    size_t steps;
    package_steps(package, &steps);
    const struct package_samples *lists = package_sample_lists(package, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < lists[i].count; k++)
            if (lists[i].steps[k] >= steps)
                abort();
    return total;
}

static void again(const struct package *package)
{
    struct buffer first = {0}, second = {0};
    struct package *copy;
    struct ipu_error error;
    if (package_write(package, &first, &error) ||
        package_read(first.data, first.size, &copy, &error)) {
        fprintf(stderr, "an accepted package does not survive: %s\n", error.text);
        abort();
    }
    if (walk(copy) != walk(package) || package_write(copy, &second, &error) ||
        second.size != first.size || memcmp(first.data, second.data, first.size) != 0)
        abort();
    package_destroy(copy);
    buffer_free(&first);
    buffer_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ipu_error error = {0};
    struct package *package;
    if (size < 1)
        return 0;
    uint8_t *file = malloc(size);
    if (!file)
        return 0;
    memcpy(file, data + 1, size - 1);
    if (data[0] % 2 == 0 && size - 1 >= PACKAGE_PREFIX)
        mend(file, size - 1);
    int rc = package_read(file, size - 1, &package, &error);
    free(file); /* a package owns what it names */
    if (rc == 0) {
        again(package);
        package_destroy(package);
    } else if (rc != error.code || error.text[0] == '\0') {
        abort();
    }
    return 0;
}

/* --- seed: two tiles with a parameter, an input, an output, a row and samples --- */

static void add_tables(struct package *p, const uint8_t *bytes)
{
    static const uint32_t steps[] = {0};
    struct package_tensor t[] = {{"w", PACKAGE_PARAMETER, PACKAGE_F32, 2, {4, 6}, bytes, 96},
                                 {"x", PACKAGE_INPUT, PACKAGE_F16, 3, {2, 4, 4}, bytes, 64},
                                 {"y", PACKAGE_OUTPUT, PACKAGE_F16, 1, {100}, NULL, 200},
                                 {"samples", PACKAGE_SAMPLES, PACKAGE_U32, 1, {2}, NULL, 8}};
    struct package_nest w = {.tile = 5, .dims = 1, .dim = {{24, 1, 4}}};
    struct package_nest x = {.tile = 700, .tensor = 1, .dims = 1, .dim = {{32, 1, 2}}};
    struct package_nest y = {.tile = 5, .tensor = 2, .dims = 1, .dim = {{100, 1, 2}}};
    struct package_nest s = {
        .tile = 5, .tensor = 3, .dims = 1, .stream_offset = 4096, .dim = {{2, 1, 4}}};
    struct package_step step = {PACKAGE_STEP_OVERALL, "overall", "", 0, 0, 100};
    for (unsigned i = 0; i < 4; i++)
        package_add_tensor(p, &t[i]);
    package_add_nest(p, PACKAGE_INITIALIZE, &w);
    package_add_nest(p, PACKAGE_RUN, &x);
    package_add_nest(p, PACKAGE_RUN, &y);
    package_add_nest(p, PACKAGE_RUN, &s);
    package_add_step(p, &step);
    package_add_samples(p, 5, 4096, steps, 1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct package_info info = {.compiler = "0.1.0",
                                             .workload = "seed",
                                             .flag_set = 1,
                                             .clock_hz = 1500000000,
                                             .execution_tiles = 64,
                                             .final_mark = 23,
                                             .entry = 0x4c014,
                                             .batches_in = {1, 1},
                                             .batches_out = {0, 2},
                                             .phases = {2, 5},
                                             .estimated_cycles = 1000};
    static uint8_t bytes[256];
    struct buffer out = {0};
    struct ipu_error error;
    struct package *p = package_create();
    (void)argc;
    (void)argv;
    if (!p)
        abort();
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    package_set_info(p, &info);
    int blob = package_add_blob(p, bytes, sizeof bytes);
    package_add_segment(p, 5, 0x4c000, blob, 0, 256);
    package_add_segment(p, 700, 0x4c000, blob, 64, 128);
    package_add_row(p, 5, 0x4c020, 32, 8);
    package_add_symbol(p, "entry", 0x4c014, 12);
    add_tables(p, bytes);
    if (package_write(p, &out, &error)) {
        fprintf(stderr, "the seed is refused: %s\n", error.text);
        abort();
    }
    fuzz_seed("mended", 0, out.data, out.size);
    fuzz_seed("whole", 1, out.data, out.size);
    buffer_free(&out);
    package_destroy(p);
    return 0;
}
