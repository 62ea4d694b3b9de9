/* Programs of exchange and supervisor words for tests of the whole chip. */
#ifndef TESTS_SIM_CHIP_SUPPORT_H
#define TESTS_SIM_CHIP_SUPPORT_H

#include "device/ipu21/exchange.h"
#include "device/sim/chip.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRY = 0x4c014,
    CODE_WORDS = 512,
    FAR_LIMIT = 1 << 30,
    M8 = 8,
    M10 = 10,
    ZERO = 15 /* reads 0 */
};

/* Code of one tile, from ENTRY on. */
struct code {
    uint32_t words[CODE_WORDS];
    uint32_t count;
};

static inline void emit(struct code *code, uint32_t word)
{
    ck_assert_uint_lt(code->count, CODE_WORDS);
    code->words[code->count++] = word;
}

static inline uint32_t here(const struct code *code)
{
    return ENTRY + 4 * code->count;
}

static inline void emit_set(struct code *code, uint32_t csr, uint32_t value)
{
    emit(code, ipu21_setzi(M8, value));
    emit(code, ipu21_put(csr, M8));
}

/* Loads and stores of word `address` through m0; m1 is clobbered. */
static inline void emit_load(struct code *code, uint32_t reg, uint32_t address)
{
    emit(code, ipu21_setzi(1, address));
    emit(code, 0x01000000u | 1u << 20 | reg << 16 | (uint32_t)ZERO << 12);
}

static inline void emit_store(struct code *code, uint32_t reg, uint32_t address)
{
    emit(code, ipu21_setzi(1, address));
    emit(code, 0x4f000000u | 1u << 20 | reg << 16 | (uint32_t)ZERO << 12);
}

static inline void emit_jump(struct code *code, uint32_t address)
{
    emit(code, 0x13000000u | (uint32_t)ZERO << 20 | address >> 2);
}

/* Waits for the host for ever. */
static inline void emit_end(struct code *code)
{
    uint32_t loop = here(code);
    emit(code, ipu21_sync(IPU21_ZONE_HOST));
    emit_jump(code, loop);
}

static inline void load_code(struct sim_chip *chip, unsigned tile, const struct code *code)
{
    ck_assert(sim_chip_write(chip, tile, ENTRY, code->words, 4 * code->count));
}

static inline void load_everywhere(struct sim_chip *chip, const struct code *code)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        load_code(chip, i, code);
}

static inline uint32_t chip_word(const struct sim_chip *chip, unsigned tile, uint32_t address)
{
    uint32_t value = 0;
    ck_assert(sim_chip_read(chip, tile, address, &value, 4));
    return value;
}

static inline void put_chip_word(struct sim_chip *chip, unsigned tile, uint32_t address,
                                 uint32_t value)
{
    ck_assert(sim_chip_write(chip, tile, address, &value, 4));
}

static inline struct sim_chip *new_chip(unsigned threads, bool strict)
{
    struct sim_chip_options options = {.threads = threads, .strict = strict};
    struct sim_chip *chip = sim_chip_create(&options);
    ck_assert_ptr_nonnull(chip);
    return chip;
}

static inline int route(unsigned source, unsigned target)
{
    return ipu21_ttm(ipu21_physical(source), ipu21_physical(target));
}

/* The rows of one unicast transfer of at most 51 words, facts/exchange.md section 4. */
static inline void emit_send_row(struct code *code, unsigned source, unsigned target,
                                 uint32_t words, uint32_t address)
{
    emit(code, ipu21_delay((uint32_t)(112 - route(source, target))));
    emit(code, ipu21_send(words, address / 4,
                          ipu21_direction(ipu21_physical(source), ipu21_physical(target))));
}

static inline void emit_receive_row(struct code *code, unsigned source, unsigned target,
                                    uint32_t words, uint32_t address)
{
    uint32_t row = ipu21_row(ipu21_physical(target));
    emit(code, ipu21_delayxpic(113, 0, ipu21_physical(source)));
    emit(code, ipu21_delayxpic(words, 0, IPU21_MUX_NEUTRAL));
    emit(code, ipu21_delaypic(52 - words + 2 * row, 0, address / 4));
    emit(code, ipu21_delay(words + 5));
}

/* --- host packets, facts/host_protocol.md section 9 --- */

enum { HEADERS = 0x90000 /* where tests keep packet words */, WINDOW = 0x50200 };

static inline uint32_t id_bits(unsigned tile)
{
    uint32_t id = ipu21_physical(tile);
    return (id >> 1) << 16 | (id & 1) << 15;
}

/* Word 1: offset and length in units of 64 bytes (long) or 4 bytes. */
static inline uint32_t packet_place(unsigned tile, uint32_t offset, uint32_t bytes, bool is_long)
{
    uint32_t unit = is_long ? 64 : 4;
    return (ipu21_physical(tile) & 1) << 31 | offset / unit << 4 | (bytes / unit & 15);
}

static inline void put_read(struct sim_chip *chip, unsigned tile, uint32_t at, uint32_t offset,
                            uint32_t bytes, uint32_t address, bool last)
{
    bool is_long = bytes >= 64;
    uint32_t word = (is_long ? 0xe0000200u : 0xc0000200u) | (last ? 0x0c000000u : 0);
    put_chip_word(chip, tile, at, word | id_bits(tile) | (address - IPU21_HOST_WINDOW) >> 5);
    put_chip_word(chip, tile, at + 4, packet_place(tile, offset, bytes, is_long));
}

static inline void put_write(struct sim_chip *chip, unsigned tile, uint32_t at, uint32_t offset,
                             uint32_t bytes)
{
    bool is_long = bytes >= 64;
    put_chip_word(chip, tile, at, (is_long ? 0xa0000000u : 0x80000000u) | id_bits(tile));
    put_chip_word(chip, tile, at + 4, packet_place(tile, offset, bytes, is_long));
}

static inline void put_close(struct sim_chip *chip, unsigned tile, uint32_t at)
{
    put_read(chip, tile, at, 0, 0, 0x50180, true);
    put_chip_word(chip, tile, at + 4, (ipu21_physical(tile) & 1) << 31);
}

/* Adds `tile` to the two grant words at `at` of its owner. */
static inline void put_grant(struct sim_chip *chip, unsigned owner, uint32_t at, unsigned tile)
{
    uint32_t id = ipu21_physical(tile), k = 2 * (id / 64) + ((id >> 1) & 1);
    uint32_t address = at + (k < 24 ? 0 : 4), bit = k < 24 ? k : k - 24;
    put_chip_word(chip, owner, address, chip_word(chip, owner, address) | 1u << bit);
}

static inline unsigned owner_of(unsigned tile)
{
    return ipu21_logical(ipu21_physical(tile) & 0x3d);
}

static inline void emit_host_enter(struct code *code, unsigned tile, uint32_t zone)
{
    emit_set(code, IPU21_CSR_INCOMING_MUX, IPU21_MUX_HOST + (ipu21_physical(tile) & 0x3d));
    emit(code, ipu21_sync(zone));
}

static inline void emit_host_leave(struct code *code)
{
    emit(code, ipu21_sync(IPU21_ZONE_HOST));
    emit_set(code, IPU21_CSR_INCOMING_MUX, IPU21_MUX_NEUTRAL);
}

static inline void emit_sit_out(struct code *code)
{
    emit(code, ipu21_sans(1));
    emit(code, ipu21_sync(IPU21_ZONE_ANS));
}

/* Reads with the headers at `at`, one after the other. */
static inline void emit_read(struct code *code, uint32_t at, unsigned headers, uint32_t bytes)
{
    emit_set(code, IPU21_CSR_INCOMING_DCOUNT, bytes / 4);
    emit(code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
    for (unsigned i = 1; i < headers; i++)
        emit(code, ipu21_sendoff(2, 0, IPU21_SEND_BOTH));
    emit(code, ipu21_sync(IPU21_ZONE_RECEIVE));
}

/* One write of at most 64 words with the header at `at`, closed by the header behind it. */
static inline void emit_write(struct code *code, uint32_t at, uint32_t from, uint32_t words)
{
    emit_set(code, IPU21_CSR_INCOMING_DCOUNT, 1);
    emit(code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
    emit(code, ipu21_send(words, from / 4, IPU21_SEND_BOTH));
    if (words < 18)
        emit(code, ipu21_delay(18 - words));
    emit(code, ipu21_send(2, (at + 8) / 4, IPU21_SEND_BOTH));
    emit(code, ipu21_sync(IPU21_ZONE_RECEIVE));
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
