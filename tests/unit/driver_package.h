/* A package made by hand for tests of the driver: two tiles read their inputs from pages, transform
 * them and write them back, by the protocol of device/driver/call.h. */
#ifndef TESTS_DRIVER_PACKAGE_H
#define TESTS_DRIVER_PACKAGE_H

#include "device/package/package.h"

#include "sim_chip_support.h"

#include "base/buffer.h"

enum {
    FIRST = 0,    /* physical 0: its own column's owner */
    SECOND = 100, /* physical 260 */
    WORDS = 1500, /* of x for each tile: two batches */
    BATCHES = 2,
    STAGE = 0x50200,
    WEIGHT = 0x50000 + 0x3000,
    STORE = 0x80000, /* received stream */
    PACKETS = 0x90000,
    SAMPLE_AT = 8000 /* byte of the output stream */
};

/* --- tile programs --- */

/* Headers of a page's eight reads of 512 bytes, or sixteen writes of 256 bytes with closes. */
struct image {
    struct code code;
    uint32_t packets[512];
    unsigned packet_count;
};

static uint32_t add_packet(struct image *image, uint32_t first, uint32_t second)
{
    image->packets[image->packet_count] = first;
    image->packets[image->packet_count + 1] = second;
    image->packet_count += 2;
    return PACKETS + 4 * (image->packet_count - 2);
}

static uint32_t page_offset(unsigned tile)
{
    return 4096 + 4096 * tile;
}

static void emit_copy(struct code *code, uint32_t from, uint32_t to, uint32_t words)
{
    emit(code, ipu21_setzi(2, words - 1));
    emit(code, ipu21_setzi(1, from));
    emit(code, ipu21_setzi(3, to));
    uint32_t loop = here(code);
    emit(code, 0x01000000u | 1u << 20 | 0u << 16 | (uint32_t)ZERO << 12);
    emit(code, 0x4f000000u | 3u << 20 | 0u << 16 | (uint32_t)ZERO << 12);
    emit(code, ipu21_add(1, 1, 4));
    emit(code, ipu21_add(3, 3, 4));
    emit(code, ipu21_brnzdec(2, loop));
}

static void emit_grant(struct image *image, unsigned owner)
{
    /* Both tiles lie in different columns, so a grant names one tile. */
    unsigned target = owner == FIRST ? FIRST : SECOND;
    uint32_t id = ipu21_physical(target), k = 2 * (id / 64) + ((id >> 1) & 1);
    uint32_t at = add_packet(image, k < 24 ? 1u << k : 0, k < 24 ? 0 : 1u << (k - 24));
    emit(&image->code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
}

static void emit_input(struct image *image, unsigned tile, bool owner, bool target)
{
    struct code *code = &image->code;
    emit_host_enter(code, tile, owner ? IPU21_ZONE_HOST_MASTER : IPU21_ZONE_HOST);
    if (owner)
        emit_grant(image, tile);
    if (target) {
        uint32_t first = 0;
        for (unsigned i = 0; i < 4; i++) {
            uint32_t word = 0xe0000200u | id_bits(tile) | (STAGE + 1024 * i - 0x50000) >> 5;
            uint32_t at = add_packet(image, word | (i == 3 ? 0x0c000000u : 0),
                                     packet_place(tile, page_offset(tile) + 1024 * i, 1024, true));
            first = i == 0 ? at : first;
        }
        emit_read(code, first, 4, 4096);
    }
    emit_host_leave(code);
}

static void emit_output(struct image *image, unsigned tile, bool owner, bool target, bool first,
                        uint32_t from)
{
    struct code *code = &image->code;
    uint32_t host = owner ? IPU21_ZONE_HOST_MASTER : IPU21_ZONE_HOST;
    emit_host_enter(code, tile, first ? IPU21_ZONE_INTERNAL : host);
    if (owner)
        emit_grant(image, tile);
    if (target) {
        emit_set(code, IPU21_CSR_INCOMING_DCOUNT, 1);
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t at = add_packet(image, 0xa0000000u | id_bits(tile),
                                     packet_place(tile, page_offset(tile) + 256 * i, 256, true));
            emit(code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
            emit(code, ipu21_send(64, (from + 256 * i) / 4, IPU21_SEND_BOTH));
        }
        uint32_t at = add_packet(image, 0xcc00020cu | id_bits(tile), id_bits(tile) >> 15 << 31);
        emit(code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
        emit(code, ipu21_sync(IPU21_ZONE_RECEIVE));
    }
    emit_host_leave(code);
}

static void emit_sample(struct code *code, uint32_t address)
{
    emit(code, 0x41000000u | 0u << 16 | 0x60); /* m0 = SCOUNT_L */
    emit_store(code, 0, address);
}

/* m4 = m4 + m5 */
static void emit_sum(struct code *code)
{
    struct isa_inst inst = {.form = ISA_ADD_MR_MR_MR, .operand = {4, 4, 5}};
    uint32_t words[2];
    ck_assert(isa_encode(&inst, false, words));
    emit(code, words[0]);
}

enum mode { FINE, TRAPS, LOOPS, WRONG_REPLICA, SILENT };

/* x goes to STORE page by page; w is added to the first word; STORE goes back as y. */
static void emit_program(struct image *image, unsigned tile, enum mode mode)
{
    struct code *code = &image->code;
    bool target = tile == FIRST || tile == SECOND;
    bool owner = tile == FIRST || tile == owner_of(SECOND);
    emit_input(image, tile, owner, target); /* initialize */
    if (target)
        emit_copy(code, STAGE, WEIGHT, 1);
    uint32_t run = here(code);
    for (unsigned b = 0; b < BATCHES; b++) {
        emit_input(image, tile, owner, target);
        if (target)
            emit_copy(code, STAGE, STORE + 4096 * b, 1024);
    }
    if (target) {
        emit_sample(code, STORE + SAMPLE_AT);
        if (mode == TRAPS && tile == SECOND)
            emit(code, ipu21_trap(0));
        if (mode == LOOPS && tile == SECOND)
            emit_jump(code, here(code));
        emit_load(code, 4, STORE);
        emit_load(code, 5, WEIGHT);
        emit_sum(code);
        emit_store(code, 4, STORE);
        if (mode == WRONG_REPLICA && tile == SECOND)
            emit_store(code, 4, STORE + 4 * (WORDS - 1));
        emit(code, ipu21_delay(tile == FIRST ? 500 : 300));
        emit_sample(code, STORE + SAMPLE_AT + 4);
    }
    for (unsigned b = 0; b < BATCHES; b++)
        emit_output(image, tile, owner, target && !(mode == SILENT && b == 1), b == 0,
                    STORE + 4096 * b);
    emit_jump(code, run);
}

/* --- the package --- */

static uint32_t x[2 * WORDS], w[2];
static struct ipu_error error;

static void add_tile(struct package *p, unsigned tile, enum mode mode)
{
    static struct image image;
    memset(&image, 0, sizeof image);
    struct code *code = &image.code;
    bool idle = tile != FIRST && tile != SECOND && tile != owner_of(SECOND);
    /* The start sequence: final mark, then the session. */
    emit(code, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_set(code, IPU21_CSR_OUTGOING_BASE, 0); /* the loader leaves its own */
    emit(code, ipu21_sync(IPU21_ZONE_HOST));
    emit(code, ipu21_sync(IPU21_ZONE_HOST));
    uint32_t loop = here(code);
    if (idle) {
        emit_sit_out(code);
        emit_jump(code, loop);
    } else {
        emit_program(&image, tile, mode);
    }
    /* The loader falls through the word before the entry. */
    static uint32_t whole[1 + CODE_WORDS];
    whole[0] = ipu21_delay(1);
    memcpy(whole + 1, code->words, 4 * code->count);
    int blob = package_add_blob(p, whole, 4 * code->count + 4);
    ck_assert_int_ge(package_add_segment(p, tile, ENTRY - 4, blob, 0, 4 * code->count + 4), 0);
    if (image.packet_count == 0)
        return;
    blob = package_add_blob(p, image.packets, 4 * image.packet_count);
    ck_assert_int_ge(package_add_segment(p, tile, PACKETS, blob, 0, 4 * image.packet_count), 0);
}

static void add_nest(struct package *p, enum package_call call, unsigned tile, int tensor,
                     uint64_t host, uint32_t stream, uint32_t count)
{
    struct package_nest nest = {.tile = (uint16_t)tile,
                                .tensor = (uint16_t)tensor,
                                .dims = 1,
                                .host_offset = host,
                                .stream_offset = stream};
    nest.dim[0].count = count;
    nest.dim[0].host_stride = 1;
    nest.dim[0].stream_stride = 4;
    ck_assert_int_ge(package_add_nest(p, call, &nest), 0);
}

/* x is [2, WORDS], the rows go to the two tiles; the last element of row 0 is what both return. */
static struct buffer build(enum mode mode)
{
    struct package *p = package_create();
    struct package_info info = {.compiler = "0.1.0",
                                .workload = "by-hand",
                                .flag_set = 1,
                                .clock_hz = 1500000000,
                                .execution_tiles = SECOND + 1,
                                .final_mark = 23,
                                .entry = ENTRY,
                                .batches_in = {1, BATCHES},
                                .batches_out = {0, BATCHES},
                                .phases = {2, 2 * BATCHES + 2 * BATCHES - 1},
                                .estimated_cycles = 400};
    package_set_info(p, &info);
    for (unsigned t = 0; t < IPU21_TILES; t++)
        add_tile(p, t, mode);
    struct package_tensor tensors[] = {
        {.name = "w", .role = PACKAGE_PARAMETER, .type = PACKAGE_U32, .rank = 1, .shape = {2}},
        {.name = "x", .role = PACKAGE_INPUT, .type = PACKAGE_U32, .rank = 2, .shape = {2, WORDS}},
        {.name = "y",
         .role = PACKAGE_OUTPUT,
         .type = PACKAGE_U32,
         .rank = 1,
         .shape = {2 * WORDS - 1}},
    };
    tensors[0].data = (const uint8_t *)w;
    tensors[1].data = (const uint8_t *)x;
    tensors[0].bytes = sizeof w;
    tensors[1].bytes = sizeof x;
    tensors[2].bytes = sizeof x - 4;
    int weights = package_add_tensor(p, &tensors[0]), in = package_add_tensor(p, &tensors[1]);
    int out = package_add_tensor(p, &tensors[2]);
    add_nest(p, PACKAGE_INITIALIZE, FIRST, weights, 0, 0, 1);
    add_nest(p, PACKAGE_INITIALIZE, SECOND, weights, 1, 0, 1);
    add_nest(p, PACKAGE_RUN, FIRST, in, 0, 0, WORDS);
    add_nest(p, PACKAGE_RUN, SECOND, in, WORDS, 0, WORDS);
    add_nest(p, PACKAGE_RUN, FIRST, out, 0, 0, WORDS);
    add_nest(p, PACKAGE_RUN, SECOND, out, WORDS - 1, 4 * (WORDS - 1), 1);
    add_nest(p, PACKAGE_RUN, SECOND, out, WORDS, 0, WORDS - 1);
    struct package_step step = {.kind = PACKAGE_STEP_OVERALL, .name = "run", .kernel = ""};
    uint32_t index = (uint32_t)package_add_step(p, &step);
    ck_assert_int_ge(package_add_samples(p, FIRST, SAMPLE_AT, &index, 1), 0);
    ck_assert_int_ge(package_add_samples(p, SECOND, SAMPLE_AT, &index, 1), 0);
    ck_assert_int_ge(package_add_symbol(p, "program", ENTRY, 4 * CODE_WORDS), 0);
    struct buffer file = {0};
    ck_assert_msg(package_write(p, &file, &error) == 0, "%s", error.text);
    package_destroy(p);
    return file;
}

static inline void fill_inputs(void)
{
    for (uint32_t i = 0; i < 2 * WORDS; i++)
        x[i] = 3 * i + 1;
    x[2 * WORDS - 1] = x[WORDS - 1]; /* the replica */
    w[0] = 1000;
    w[1] = 2000;
}

static inline void expect_y(const uint8_t *bytes, size_t size, const uint32_t *input)
{
    ck_assert_uint_eq(size, 4 * (2 * WORDS - 1));
    for (uint32_t i = 0; i < 2 * WORDS - 1; i++) {
        uint32_t value, wanted = input[i];
        memcpy(&value, bytes + 4 * i, 4);
        wanted += i == 0 ? w[0] : i == WORDS ? w[1] : 0;
        ck_assert_uint_eq(value, wanted);
    }
}

#endif
