/* Runs one kernel on one simulated tile: the true runtime, a caller, the kernel, linked as a
 * program would be. The caller samples nothing: the cycle of its deliberate stop is compared with
 * that of the same program without the call. */
#ifndef IPU_TESTS_KERNEL_HARNESS_H
#define IPU_TESTS_KERNEL_HARNESS_H

#include "base/alloc.h"
#include "base/half.h"
#include "base/hash.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/timing.h"
#include "device/kernels/kernels.h"
#include "device/runtime/runtime.h"
#include "device/sim/tile.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

enum { HARNESS_ARGS = 0x58020, HARNESS_BRANCH_ZERO = 0x43f00000 };

struct harness {
    struct sim_tile *tile;
    uint8_t *sram;
    uint64_t random;
    uint32_t spread; /* allowed difference between the phases */
    uint64_t start;  /* cycle of the image's entry: moves the call against the barrel's phase */
    struct asm_image image;
    struct kernel_spec spec;
};

/* Without the call, a branch to address 0 stands in its place: the difference of the two stops is
 * what the call costs, from its own cycle to that of the next instruction. */
static const char harness_text[] = ".section .text.harness, \"ax\"\n"
                                   ".supervisor\n.align 8\n"
                                   ".globl program_entry\nprogram_entry:\n"
                                   "setzi $m0, 0x58020\n"
                                   "setzi $m7, 7\nsetzi $m8, 8\nsetzi $m9, 9\nsetzi $m11, 11\n"
                                   "nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\n"
                                   ".globl site\nsite:\n"
                                   "call $m10, kernel\n"
                                   "br $mzero\n";

static inline uint32_t peek32(const struct harness *h, uint32_t address)
{
    uint32_t value;
    memcpy(&value, h->sram + (address - IPU21_SRAM_BASE), 4);
    return value;
}

static inline void poke32(struct harness *h, uint32_t address, uint32_t value)
{
    memcpy(h->sram + (address - IPU21_SRAM_BASE), &value, 4);
}

static inline uint16_t peek16(const struct harness *h, uint32_t address)
{
    uint16_t value;
    memcpy(&value, h->sram + (address - IPU21_SRAM_BASE), 2);
    return value;
}

static inline void poke16(struct harness *h, uint32_t address, uint16_t value)
{
    memcpy(h->sram + (address - IPU21_SRAM_BASE), &value, 2);
}

static inline float peek_float(const struct harness *h, uint32_t address)
{
    float value;
    memcpy(&value, h->sram + (address - IPU21_SRAM_BASE), 4);
    return value;
}

static inline void poke_float(struct harness *h, uint32_t address, float value)
{
    memcpy(h->sram + (address - IPU21_SRAM_BASE), &value, 4);
}

static UNUSED uint32_t harness_random(struct harness *h)
{
    h->random = hash64_mix(h->random + 0x9e3779b97f4a7c15u);
    return (uint32_t)(h->random >> 32);
}

/* Roughly normal, standard deviation 1, exactly representable in f16. */
static UNUSED float harness_normal(struct harness *h)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (float)(harness_random(h) >> 8) / 16777216.0f;
    return half_to_float(half_from_float(sum - 6));
}

static UNUSED void harness_open(struct harness *h, const struct kernel_spec *spec)
{
    memset(h, 0, sizeof *h);
    h->random = 1;
    h->spec = *spec;
    h->spread = IPU21_SLOTS - 1;
    h->sram = ipu_calloc(1, IPU21_SRAM_BYTES);
    ck_assert_ptr_nonnull(h->sram);
    struct ipu_error error = {0};
    struct buffer objects[3] = {{0}};
    ck_assert_msg(kernel_assemble_runtime(&objects[0], &error) == 0, "%s", error.text);
    struct asm_options options = {0};
    ck_assert_msg(asm_assemble("harness", harness_text, strlen(harness_text), &options, &objects[1],
                               &error) == 0,
                  "%s", error.text);
    ck_assert_msg(kernel_assemble(spec, &objects[2], &error) == 0, "%s", error.text);
    char name[KERNEL_NAME_BYTES];
    kernel_name(spec, name);
    struct asm_object list[3];
    for (int i = 0; i < 3; i++)
        list[i] = (struct asm_object){objects[i].data, objects[i].size, name};
    /* The harness calls `kernel`: link the kernel alone first to learn its address. */
    struct asm_link_options alone = {.base = 0x4d000};
    struct asm_image kernel = {0};
    ck_assert_msg(asm_link(&list[2], 1, &alone, &kernel, &error) == 0, "%s", error.text);
    struct asm_symbol symbol = {"kernel", asm_image_symbol(&kernel, name)};
    ck_assert_uint_ne(symbol.address, 0);
    struct asm_link_options whole = {
        .base = IPU21_IMAGE_BASE, .externals = &symbol, .external_count = 1};
    ck_assert_msg(asm_link(list, 2, &whole, &h->image, &error) == 0, "%s", error.text);
    ck_assert_uint_eq(asm_image_symbol(&h->image, RT_SYMBOL_START), IPU21_IMAGE_BASE);
    ck_assert_uint_le(h->image.bytes.size, 0x4d000 - IPU21_IMAGE_BASE);
    ck_assert_uint_le(kernel.bytes.size, RT_STATE - 0x4d000);
    memcpy(h->sram + 0x10, h->image.bytes.data, h->image.bytes.size);
    memcpy(h->sram + (0x4d000 - IPU21_SRAM_BASE), kernel.bytes.data, kernel.bytes.size);
    asm_image_free(&kernel);
    for (int i = 0; i < 3; i++)
        buffer_free(&objects[i]);
    h->tile = sim_tile_create(0, h->sram);
    ck_assert_ptr_nonnull(h->tile);
}

static UNUSED void harness_close(struct harness *h)
{
    sim_tile_destroy(h->tile);
    asm_image_free(&h->image);
    ipu_free(h->sram);
}

/* Runs from the image's entry to the deliberate stop at address 0; returns its cycle. */
static UNUSED uint64_t harness_run(struct harness *h)
{
    sim_tile_reset(h->tile, IPU21_IMAGE_BASE + 4, h->start);
    for (;;) {
        enum sim_stop stop = sim_tile_run(h->tile, 100000000);
        if (stop == SIM_STOP_FAULT)
            break;
        ck_assert_int_ne(stop, SIM_STOP_LIMIT);
        if (stop == SIM_STOP_SETTLE)
            sim_tile_settled(h->tile);
        else
            sim_tile_release(h->tile, sim_tile_cycle(h->tile));
    }
    const struct sim_fault *fault = sim_tile_fault(h->tile);
    ck_assert_msg(fault->etype == SIM_ETYPE_INVALID_PC && fault->context == 0,
                  "context %u pc 0x%x: %s", fault->context, fault->pc, fault->text);
    return fault->cycle;
}

/* One call; checks the registers that the ABI keeps, the zero accumulators and the cost. */
static UNUSED uint32_t harness_call(struct harness *h, const uint32_t *args, unsigned count)
{
    uint32_t all[KERNEL_MAX_ARGS] = {0}, block[KERNEL_MAX_BLOCK];
    memcpy(all, args, count * 4);
    ck_assert(kernel_block(&h->spec, all, block));
    for (unsigned i = 0; i < kernel_block_words(h->spec.family); i++)
        poke32(h, HARNESS_ARGS + 4 * i, block[i]);
    uint32_t site = asm_image_symbol(&h->image, "site"), call = peek32(h, site);
    poke32(h, site, HARNESS_BRANCH_ZERO);
    uint64_t without = harness_run(h);
    poke32(h, site, call);
    uint64_t with = harness_run(h);
    static const unsigned kept[] = {7, 8, 9, 11};
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(sim_tile_m(h->tile, 0, kept[i]), kept[i]);
    for (unsigned w = 0; w < IPU21_WORKERS; w++) {
        ck_assert(!sim_tile_worker_active(h->tile, w));
        for (unsigned i = 0; i < 32; i++)
            ck_assert_float_eq(sim_tile_accumulator(h->tile, w, i), 0);
    }
    return (uint32_t)(with - without);
}

/* The longest call over the six phases of the barrel: what kernel_cycles() promises. Workers that
 * are not all equally busy make a call end up to five cycles earlier in some phases. */
static UNUSED uint32_t harness_cost(struct harness *h, const uint32_t *args, unsigned count)
{
    uint32_t most = 0, least = UINT32_MAX;
    for (h->start = 0; h->start < IPU21_SLOTS; h->start++) {
        uint32_t cycles = harness_call(h, args, count);
        most = cycles > most ? cycles : most;
        least = cycles < least ? cycles : least;
    }
    h->start = 0;
    ck_assert_uint_le(most - least, h->spread);
    return most;
}

#endif
