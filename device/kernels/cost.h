/* Inner parts of kernel_cycles(): see kernels.h. */
#ifndef IPU_KERNELS_COST_H
#define IPU_KERNELS_COST_H

#include <stdbool.h>
#include <stdint.h>

/* GEMM_F16 with the parameters and arguments of kernels.def. */
uint32_t cost_gemm(const uint32_t params[], const uint32_t args[]);

/* Whether COPY moves an atom in one bundle: see copy.S. */
bool cost_copy_paced(const uint32_t args[]);

/* Whether REDUCE_F16 takes 8 elements at a time: see reduce_f16.S. */
bool cost_reduce_wide(const uint32_t args[]);

static inline uint32_t cost_ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

#endif
