/* The simulator's own speed, without compiler and packages: scalar code on one core,
 * synchronisations of a chip that has nothing to do, loading, memory, growth with tiles. Each line
 * prints its target.
 *
 * CPU time stands beside wall time where others may be using the machine.
 */
#ifndef IPU_TESTS_BENCH_SIMULATOR_H
#define IPU_TESTS_BENCH_SIMULATOR_H

#include "base/clock.h"
#include "device/ipu21/exchange.h"
#include "device/ipu21/isa.h"
#include "device/sim/chip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    SIMB_CODE = 0x4c100,
    SIMB_DATA = 0x60000,
    SIMB_SYNCS = 200,
    SIMB_PACKAGE = 21 << 10 /* bytes a tile that a full-size package writes */
};

struct simb_program {
    uint32_t words[256], count;
};

#define SIMB(form_, ...)                                                                           \
    (struct isa_inst)                                                                              \
    {                                                                                              \
        .form = ISA_##form_, .operand = { __VA_ARGS__ }                                            \
    }

static inline void simb_put(struct simb_program *p, struct isa_inst inst)
{
    if (!isa_encode(&inst, false, &p->words[p->count++]))
        abort();
}

static inline void simb_bundle(struct simb_program *p, struct isa_inst first,
                               struct isa_inst second)
{
    if (!isa_encode(&first, true, &p->words[p->count]) ||
        !isa_encode(&second, true, &p->words[p->count + 1]))
        abort();
    p->count += 2;
}

static inline double simb_cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* setzi for the trips, then a loop of sixteen bundles and instructions as scalar kernels have them:
 * loads, stores, integer and f32 arithmetic, a branch. */
static inline void simb_scalar(struct simb_program *p, int trips)
{
    simb_put(p, SIMB(SETZI_MR_ZIMM20, 5, trips));
    uint32_t loop = SIMB_CODE + 4 * p->count;
    simb_put(p, SIMB(SETZI_MR_ZIMM20, 2, 0));
    for (int i = 0; i < 3; i++) {
        simb_bundle(p, SIMB(LD32STEP_AR_MR_MR_SIMM8, i, 13, 2, 1), SIMB(F32ADD_AR_AR_AR, 6, 6, 5));
        simb_bundle(p, SIMB(ADD_MR_MR_SIMM16, 3, 3, 5), SIMB(F32MUL_AR_AR_AR, 5, 0, 1));
        simb_put(p, SIMB(XOR_MR_MR_MR, 4, 4, 3));
        simb_put(p, SIMB(SHR_MR_MR_ZIMM12, 6, 4, 7));
        simb_bundle(p, SIMB(ST32_AR_MR_MR_ZIMM12, 6, 13, 15, 64 + i), SIMB(SETZI_AR_ZIMM20, 13, 0));
    }
    simb_put(p, SIMB(BRNZDEC_MR_WADDR19, 5, (int32_t)loop));
    simb_put(p, SIMB(EXITZ_MR, 15));
}

static inline void simb_bench_scalar(void)
{
    enum { TRIPS = 300000, ROUNDS = 5 };
    struct simb_program p = {0};
    uint8_t *sram = calloc(1, IPU21_SRAM_BYTES);
    struct sim_tile *tile = sim_tile_create(0, sram);
    double best = 0;
    simb_scalar(&p, TRIPS);
    memcpy(sram + (SIMB_CODE - IPU21_SRAM_BASE), p.words, 4 * p.count);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = sim_tile_bundles(tile);
        double start = simb_cpu_ms();
        sim_tile_start_worker(tile, 0, SIMB_CODE, SIMB_DATA);
        sim_tile_run(tile, UINT64_MAX);
        double rate = (double)(sim_tile_bundles(tile) - before) / ((simb_cpu_ms() - start) / 1e3);
        best = rate > best ? rate : best;
    }
    printf("bench=simulator scalarBundlesPerSecond=%.3g target=1e+08 (one core, CPU time, best of "
           "%d)\n",
           best, ROUNDS);
    sim_tile_destroy(tile);
    free(sram);
}

static inline void simb_load_all(struct sim_chip *chip, const void *data, uint32_t bytes)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        if (!sim_chip_write(chip, i, SIMB_CODE, data, bytes))
            abort();
}

/* All tiles do nothing but synchronise; each phase has an empty row. */
static inline void simb_bench_idle(unsigned threads)
{
    struct simb_program p = {0};
    struct sim_chip *chip = sim_chip_create(&(struct sim_chip_options){.threads = threads});
    simb_put(&p, SIMB(SETZI_MR_ZIMM20, 5, SIMB_SYNCS - 1));
    uint32_t loop = SIMB_CODE + 4 * p.count;
    simb_put(&p, SIMB(SYNC_ZIMM4, IPU21_ZONE_INTERNAL));
    simb_put(&p, SIMB(BRNZDEC_MR_WADDR19, 5, (int32_t)loop));
    simb_put(&p, SIMB(SYNC_ZIMM4, IPU21_ZONE_HOST));
    simb_load_all(chip, p.words, 4 * p.count);
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        sim_chip_start(chip, SIMB_CODE);
        uint64_t start = clock_ns();
        if (sim_chip_run(chip, UINT64_MAX, NULL) != SIM_CHIP_WAITS_FOR_HOST)
            abort();
        double ms = (double)(clock_ns() - start) / 1e6 / SIMB_SYNCS;
        best = ms < best ? ms : best;
    }
    printf("bench=simulator threads=%u idleTiles=%d phaseMs=%.3f target=1\n", threads, IPU21_TILES,
           best);
    sim_chip_destroy(chip);
}

static inline double simb_resident_gib(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu %lu", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * 4096 / (1 << 30);
}

/* Loads what a full-size package writes, then touches all SRAM. */
static inline void simb_bench_memory(void)
{
    double before = simb_resident_gib();
    uint8_t *image = malloc(IPU21_SRAM_BYTES);
    struct sim_chip *chip = sim_chip_create(&(struct sim_chip_options){.threads = 2});
    memset(image, 0x5a, IPU21_SRAM_BYTES);
    uint64_t start = clock_ns();
    simb_load_all(chip, image, SIMB_PACKAGE);
    double load = (double)(clock_ns() - start) / 1e6;
    simb_load_all(chip, image, IPU21_LOAD_END - SIMB_CODE);
    printf("bench=simulator loadMs=%.1f target=100 bytes=%llu\n", load,
           (unsigned long long)SIMB_PACKAGE * IPU21_TILES);
    printf("bench=simulator residentGiB=%.2f target=1.2 (all tiles resident)\n",
           simb_resident_gib() - before);
    sim_chip_destroy(chip);
    free(image);
}

#endif
