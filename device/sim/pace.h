/* Addresses of the pace forms, and memory elements: shared by exec_mem.c and the fused loops.
 *
 * Facts: facts/isa_semantics.md section 4, facts/memory.md section 2.
 */
#ifndef IPU_SIM_PACE_H
#define IPU_SIM_PACE_H

#include "device/ipu21/memory.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIM_ADDRESS_MASK = 0x1fffff }; /* the pace forms use 21-bit byte addresses */

/* Whether two accesses meet in one memory element: 16 KiB in region 0; in a pair of region 1
 * consecutive 8-byte atoms alternate between the two elements. Bits in which addresses of one
 * element agree; an address of the other region differs in bit 19. */
static inline bool sim_elements_meet(uint32_t x, uint32_t y)
{
    uint32_t same =
        x >= IPU21_REGION1_BASE ? ~(IPU21_PAIR_BYTES - 1u) | 8u : ~(IPU21_ELEMENT_BYTES - 1u);
    return ((x ^ y) & same) == 0;
}

/* Selector 0 moves one unit on, 1..3 by a signed 10-bit field of the stride register. */
static inline uint32_t sim_pace(uint32_t stride, uint32_t selector, uint32_t unit)
{
    if (selector == 0)
        return unit;
    uint32_t field = stride >> (10 * (selector - 1)) & 0x3ff;
    return (uint32_t)((int32_t)(field << 22) >> 22) * unit;
}

/* A register pair holds three addresses: one in the low bits of each register, the third in their
 * high bits. */
static inline uint32_t sim_packed_address(uint32_t even, uint32_t odd)
{
    return even >> 21 | (odd >> 21 & 0x3ff) << 11;
}

static inline void sim_pack_addresses(const uint32_t address[3], uint32_t *even, uint32_t *odd)
{
    uint32_t third = address[2] & SIM_ADDRESS_MASK;
    *even = (address[0] & SIM_ADDRESS_MASK) | third << 21;
    *odd = (*odd & 0x80000000u) | (address[1] & SIM_ADDRESS_MASK) | third >> 11 << 21;
}

#endif
