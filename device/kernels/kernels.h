/* The tile kernels: names, sources, specialisation, arguments, operand rules and cycle costs.
 *
 * KERNEL ABI. A kernel is a supervisor routine: `call $m10, <entry>` with $m0 = byte address (a
 * multiple of 8) of its argument block, which kernel_block() makes from the arguments of
 * kernels.def. It may change $m0..$m6 and $m10, keeps $m7..$m9 and $m11, leaves every worker
 * inactive (`sync 2` passed) and returns with `br $m10`. Exchange base registers are untouched.
 * FP_ICTL is 0 while kernels run: overflow saturates, nothing traps. All accumulators are zero at
 * entry and at return; the runtime clears them at start. Kernels may use the worker scratch areas
 * (device/runtime/runtime.h).
 *
 * DATA. An f16 or f32 matrix block of R rows and P panels is stored in PANEL order: panel p
 * (16 columns) is R consecutive cells, a cell is 16 consecutive elements of one row (32 bytes f16,
 * 64 bytes f32). Columns past the logical width hold finite padding. The panel stride in bytes is
 * an argument where a block may be part of a larger one. Every buffer is 32-byte aligned and may be
 * over-read by up to KERNEL_OVERREAD bytes past its end.
 *
 * GEMM WEIGHTS. For each (column panel n, inner panel k), n outer, k inner: one 512-byte
 * coefficient panel of 16 x 16 f16 in the order of the CWEI slots, such that the product drains in
 * PANEL order. kernel_weight_slot() gives the position of element (k, n).
 *
 * Costs are closed forms that equal the simulator's cycle counts for the call (from the cycle of
 * the `call` instruction to the cycle in which the instruction after it issues); tests hold them
 * to that.
 */
#ifndef IPU_KERNELS_KERNELS_H
#define IPU_KERNELS_KERNELS_H

#include "base/error.h"
#include "device/asm/asm.h"

#include <stdbool.h>
#include <stdint.h>

struct flag_set;

enum kernel_family {
#define KERNEL(id, ...) KERNEL_##id,
#include "device/kernels/kernels.def"
#undef KERNEL
    KERNEL_FAMILIES
};

enum {
    KERNEL_MAX_PARAMS = 5,
    KERNEL_MAX_ARGS = 8,
    KERNEL_NAME_BYTES = 96,
    KERNEL_MAX_BLOCK = 42, /* words */
    /* Few-row GEMMs let idle workers read up to five cells past the last row of `x`. */
    KERNEL_OVERREAD = 192,
    /* Rows that one call can serve: what the GEMM's stride fields reach. */
    KERNEL_GEMM_MAX_ROWS = 768,
    /* x_stride up to this many bytes needs no bit 1 in the first GEMM parameter. */
    KERNEL_GEMM_NEAR_STRIDE = 4160,
    /* Atoms of 8 bytes, or copy-list entries, that a call can deal out to its workers. */
    KERNEL_MAX_UNITS = 300000,
    KERNEL_MAX_LIST = 32000
};

/* One specialised kernel: family and compile-time parameters (unused ones 0). For GEMM_F16:
 * {weights, K elements (multiple of 16), C columns (multiple of 16), smaller row count, larger row
 * count}: it serves calls with either row count. weights: bit 0 = they lie in interleaved memory,
 * bit 1 = x_stride may exceed KERNEL_GEMM_NEAR_STRIDE (costs a slot a panel). */
struct kernel_spec {
    enum kernel_family family;
    uint32_t params[KERNEL_MAX_PARAMS];
};

/* Where an operand must lie. */
enum kernel_operand {
    KERNEL_OPERAND_NONE,       /* the argument is a number */
    KERNEL_OPERAND_ANY,        /* either region */
    KERNEL_OPERAND_INTERLEAVED /* region 1 */
};

struct kernel_info {
    const char *name;   /* "gelu_f16" */
    const char *source; /* "gelu_f16.S" */
    unsigned param_count, arg_count;
    const char *const *param_names; /* -D names */
    const char *const *arg_names;
    enum kernel_operand operands[KERNEL_MAX_ARGS];
    /* Argument indices whose buffers may not share a conflict granule; -1 = no rule. */
    int distinct_a, distinct_b;
};

const struct kernel_info *kernel_info(enum kernel_family family);
/* Where argument `arg` of a call must lie: as in kernel_info(), but the weights of a GEMM that
 * reads them 64 bits at a time (bit 0 of its first parameter clear) may lie anywhere. */
enum kernel_operand kernel_operand_of(const struct kernel_spec *spec, unsigned arg);
/* "gemm_f16_interleaved_k64_c32_r1_r2"; also the entry symbol. */
void kernel_name(const struct kernel_spec *spec, char name[KERNEL_NAME_BYTES]);
/* Assembles the kernel from the embedded sources into an ELF object. */
IPU_MUST_CHECK int kernel_assemble(const struct kernel_spec *spec, struct buffer *object,
                                   struct ipu_error *error);
/* The same with the AMP and SLIC flag numbers of `flags` (flag_set.h; NULL: ours). A flag that the
 * set lacks and the kernel needs is IPU_ERR_COMPILE. */
IPU_MUST_CHECK int kernel_assemble_for(const struct kernel_spec *spec, const struct flag_set *flags,
                                       struct buffer *object, struct ipu_error *error);
/* Assembles the runtime (device/runtime) into an ELF object. */
IPU_MUST_CHECK int kernel_assemble_runtime(struct buffer *object, struct ipu_error *error);
/* SHA-256 over everything that decides the object of a spec: sources, includes, defines, assembler
 * version, flag set. Empty text when hashing failed. */
void kernel_key(const struct kernel_spec *spec, char text[65]);
void kernel_key_for(const struct kernel_spec *spec, const struct flag_set *flags, char text[65]);

/* Argument block of a call: what $m0 points at. For most families it holds a record for each
 * worker, so that no worker computes its share of the work. kernel_block() returns false when the
 * arguments are beyond the kernel: GEMM rows that the spec does not serve, an x_stride that needs
 * bit 1, more than KERNEL_MAX_UNITS units. Addresses must be final. */
unsigned kernel_block_words(enum kernel_family family);
IPU_MUST_CHECK bool kernel_block(const struct kernel_spec *spec,
                                 const uint32_t args[KERNEL_MAX_ARGS],
                                 uint32_t block[KERNEL_MAX_BLOCK]);

/* Cycles of one call with the given argument values. Pointer arguments are ignored, except that
 * COPY prices its paced path when source and destination are given and lie in different elements.
 * COPY_LIST cannot see its list: it prices empty entries; see kernel_copy_list_cycles(). */
uint32_t kernel_cycles(const struct kernel_spec *spec, const uint32_t args[KERNEL_MAX_ARGS]);
/* Cycles of a COPY_LIST call: `entries` holds {source, destination, bytes} triples. */
uint32_t kernel_copy_list_cycles(const uint32_t (*entries)[3], uint32_t count);

/* Position, in f16 elements inside the 256-element coefficient panel, of weight (k, n), both
 * 0..15. */
unsigned kernel_weight_slot(unsigned k, unsigned n);

#endif
