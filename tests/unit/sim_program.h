/* A little program writer for simulator tests: one tile, words by isa_encode(), registers by hand.
 */
#ifndef IPU_TESTS_SIM_PROGRAM_H
#define IPU_TESTS_SIM_PROGRAM_H

#include "device/ipu21/isa.h"
#include "device/sim/tile.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { CODE = 0x4c100, DATA = 0x58000, WIDE = 0x80000, FOREVER = 1 << 30 };

struct program {
    uint8_t *sram;
    struct sim_tile *tile;
    uint32_t at; /* where the next word goes */
};

#define I(form_, ...)                                                                              \
    (struct isa_inst)                                                                              \
    {                                                                                              \
        .form = ISA_##form_, .operand = { __VA_ARGS__ }                                            \
    }

static inline void program_open(struct program *p)
{
    p->sram = calloc(1, IPU21_SRAM_BYTES);
    p->tile = sim_tile_create(7, p->sram);
    ck_assert_ptr_nonnull(p->tile);
    p->at = CODE;
}

static inline void program_close(struct program *p)
{
    sim_tile_destroy(p->tile);
    free(p->sram);
}

static inline void poke32(struct program *p, uint32_t address, uint32_t value)
{
    memcpy(p->sram + (address - IPU21_SRAM_BASE), &value, sizeof value);
}

static inline void poke64(struct program *p, uint32_t address, uint64_t value)
{
    memcpy(p->sram + (address - IPU21_SRAM_BASE), &value, sizeof value);
}

static inline uint32_t peek32(const struct program *p, uint32_t address)
{
    uint32_t value;
    memcpy(&value, p->sram + (address - IPU21_SRAM_BASE), sizeof value);
    return value;
}

static inline uint64_t peek64(const struct program *p, uint32_t address)
{
    uint64_t value;
    memcpy(&value, p->sram + (address - IPU21_SRAM_BASE), sizeof value);
    return value;
}

/* Appends a raw word. */
static inline void put_word(struct program *p, uint32_t word)
{
    poke32(p, p->at, word);
    sim_tile_touched(p->tile, p->at, 4);
    p->at += 4;
}

/* Appends a lone instruction. */
static inline void put(struct program *p, struct isa_inst inst)
{
    uint32_t words[2];
    ck_assert_msg(isa_encode(&inst, false, words), "cannot encode %s",
                  isa_forms[inst.form].mnemonic);
    for (unsigned i = 0; i < isa_forms[inst.form].words; i++)
        put_word(p, words[i]);
}

/* Appends a bundle. */
static inline void put_bundle(struct program *p, struct isa_inst main_half,
                              struct isa_inst aux_half)
{
    uint32_t first[2], second[2];
    ck_assert(isa_encode(&main_half, true, first));
    ck_assert(isa_encode(&aux_half, true, second));
    put_word(p, first[0]);
    put_word(p, second[0]);
}

static inline void align8(struct program *p)
{
    if ((p->at & 7) != 0)
        put(p, I(SETZI_MR_ZIMM20, 14, 0));
}

static inline void put_exit(struct program *p)
{
    put(p, I(EXITZ_MR, 15));
}

/* Runs the program as worker `w` from CODE to its exit. */
static inline void run_worker_at(struct program *p, unsigned w, uint32_t pc)
{
    sim_tile_start_worker(p->tile, w, pc, DATA);
    enum sim_stop stop = sim_tile_run(p->tile, FOREVER);
    const struct sim_fault *fault = sim_tile_fault(p->tile);
    ck_assert_msg(stop == SIM_STOP_SYNC, "stop %d: %s", (int)stop, fault ? fault->text : "");
    ck_assert(!sim_tile_worker_active(p->tile, w));
}

static inline void run_worker(struct program *p)
{
    put_exit(p);
    run_worker_at(p, 0, CODE);
}

/* Runs the program as worker 0 and expects it to fault. */
static inline const struct sim_fault *run_to_fault(struct program *p)
{
    put_exit(p);
    sim_tile_start_worker(p->tile, 0, CODE, DATA);
    ck_assert_int_eq(sim_tile_run(p->tile, FOREVER), SIM_STOP_FAULT);
    return sim_tile_fault(p->tile);
}

/* Starts the supervisor at CODE in cycle 0 and runs it to its first stop. */
static inline enum sim_stop run_supervisor(struct program *p)
{
    sim_tile_reset(p->tile, CODE, 0);
    return sim_tile_run(p->tile, FOREVER);
}

static inline uint32_t a_reg(const struct program *p, unsigned reg)
{
    return sim_tile_a(p->tile, 0, reg);
}

static inline uint32_t m_reg(const struct program *p, unsigned reg)
{
    return sim_tile_m(p->tile, 1, reg);
}

static inline void set_a(struct program *p, unsigned reg, uint32_t value)
{
    sim_tile_set_a(p->tile, 0, reg, value);
}

static inline void set_m(struct program *p, unsigned reg, uint32_t value)
{
    sim_tile_set_m(p->tile, 1, reg, value);
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
