/* Code generation: from a lowered program to a finished package.
 *
 * compile.c calls, for every finalist: lower_program, codegen_reserve, place_program,
 * program_schedule, and for the winner codegen_package. All of it is deterministic: bytes do not
 * depend on threads, time or pointers. Tile memory is laid out like this (docs/ARCHITECTURE.md):
 *
 *   0x4c010  runtime and kernels, one image for all tiles
 *   0x50160  dummy destination of host packets; 0x50200 host staging page
 *   0x51200  data of the program: argument blocks, copy lists, tables, host headers
 *   0x58000  runtime state and worker scratch
 *   0x586e0  kernels that do not fit below, tile program, more data, exchange rows
 *   region0  next 16 KiB boundary: tensors
 */
#ifndef IPU_CODEGEN_CODEGEN_H
#define IPU_CODEGEN_CODEGEN_H

#include "base/log.h"
#include "compiler/exchange/exchange.h"
#include "compiler/lower/lower.h"
#include "device/package/package.h"

#include <stdatomic.h>

struct compile_cache; /* compiler/codegen/kernel_cache.h */
struct flag_set;      /* device/kernels/flag_set.h */

enum codegen_profile { CODEGEN_PROFILE_NONE, CODEGEN_PROFILE_OVERALL, CODEGEN_PROFILE_FULL };

struct codegen_options {
    unsigned threads;                  /* 0 = all cores */
    const struct compile_cache *cache; /* of kernel objects; may be NULL */
    enum codegen_profile profile;
    uint64_t clock_hz;            /* 0 = IPU21_CLOCK_HZ */
    const char *compiler;         /* version text for the package */
    const struct flag_set *flags; /* AMP and SLIC numbers of the kernels; NULL: ours */
    struct log *log;
    const atomic_bool *cancel;
};

/* First byte of tensor space in region 0 of each tile: what code, rows and data of the program take
 * at most, rounded up to a granule. IPU_ERR_NO_FIT when a tile's code leaves region 0. */
IPU_MUST_CHECK int codegen_reserve(const struct flow *flow, const struct program *program,
                                   const struct codegen_options *options, struct arena *arena,
                                   uint32_t region0[PROGRAM_TILES], struct ipu_error *error);

struct program_schedule {
    uint32_t phase_count;
    struct exchange_schedule **phases; /* by program_step.phase */
    uint32_t region0[PROGRAM_TILES];   /* the placement's */
    uint64_t cycles, exchange_cycles;  /* refined estimate of one run, repeats multiplied in */
    uint32_t exchange_table_bytes;     /* rows of the fullest tile */
    uint64_t horizon_cycles;           /* sum of all executed schedule lengths */
    uint32_t executed_phases;
};

/* Schedules the exchanges of a placed program and refines its cycles from the schedules and the
 * kernels' costs, tile by tile between synchronisations. */
IPU_MUST_CHECK int program_schedule(const struct program *program,
                                    const uint32_t region0[PROGRAM_TILES], unsigned effort,
                                    const struct codegen_options *options, struct arena *arena,
                                    struct program_schedule **out, struct ipu_error *error);

/* Builds the package, after proving the program, its placement and its rows with verifiers that
 * share no code with what made them. Places and schedules once more only when the linked kernels
 * turn out larger than reserved. The caller destroys *out. */
IPU_MUST_CHECK int codegen_package(const struct flow *flow, struct program *program,
                                   struct program_schedule *schedule,
                                   const struct codegen_options *options, struct arena *arena,
                                   struct package **out, struct ipu_error *error);

/* Bytes of the packed host streams, replicas and padding included: of the inputs of one run and of
 * the parameters; distinct tiles that hold output 0. */
struct codegen_summary {
    uint64_t input_bytes, weight_bytes;
    uint32_t active_tiles;
};
void codegen_summarise(const struct flow *flow, const struct program *program,
                       struct codegen_summary *out);

#endif
