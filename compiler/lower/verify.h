/* What kernel calls read and write, stated apart from lowering: for verifiers. */
#ifndef IPU_LOWER_VERIFY_H
#define IPU_LOWER_VERIFY_H

#include "compiler/lower/lower.h"

enum { KERNEL_MAX_ACCESSES = 4 };

/* `runs` stretches of `bytes`, `stride` bytes apart, from the address in argument `arg` on. */
struct kernel_access {
    unsigned arg;
    bool write;
    uint32_t runs, bytes, stride;
};

/* The accesses of a call whose operands are all plain buffers; returns how many. COPY_LIST and
 * GATHER have none: their operands are lists. */
unsigned kernel_accesses(const struct kernel_spec *spec, const struct program_call *call,
                         struct kernel_access access[KERNEL_MAX_ACCESSES]);

#endif
