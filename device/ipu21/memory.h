/* Tile SRAM map, elements and loader limits of the IPU21. Source: facts/memory.md sections 1, 2,
 * 4, 5. All byte addresses. */
#ifndef IPU_IPU21_MEMORY_H
#define IPU_IPU21_MEMORY_H

#include <stdint.h>

enum {
    IPU21_SRAM_BASE = 0x4c000, /* region 0: 13 elements of 16 KiB, the only executable region */
    IPU21_REGION1_BASE =
        0x80000, /* region 1: interleaved pairs of elements, 32 KiB each, data only */
    IPU21_SRAM_END = 0xe8000,
    IPU21_SRAM_BYTES = IPU21_SRAM_END - IPU21_SRAM_BASE,
    IPU21_LOAD_END = 0xe7bb0,     /* the loader cannot fill beyond */
    IPU21_IMAGE_BASE = 0x4c010,   /* application load base (a nop); entry is the next word */
    IPU21_IMAGE_MINIMUM = 0x4134, /* bytes; shorter images are never acknowledged by the loader */
    IPU21_ELEMENT_BYTES = 0x4000,
    IPU21_PAIR_BYTES = 0x8000,
    IPU21_ELEMENTS = 26, /* 13 elements + 13 pairs: the conflict granules */
    IPU21_FETCH_AHEAD =
        64, /* bytes past the executing supervisor instruction that count as fetched */
    IPU21_HOST_WINDOW = 0x50000, /* host packets can name 0x50000..0x53fff */
    IPU21_HOST_WINDOW_END = 0x54000,
    IPU21_APERTURE_END = 0x58000,
    IPU21_STATE_BASE =
        0x58000, /* +0 completion, +4 start cycles, +8 end cycles, then worker scratch */
    IPU21_WORKERS = 6
};

/* Conflict granule of an address: 0..12 region 0, 13..25 region 1 pairs. The address must lie in
 * SRAM. */
static inline unsigned ipu21_element(uint32_t address)
{
    if (address < IPU21_REGION1_BASE)
        return (address - IPU21_SRAM_BASE) / IPU21_ELEMENT_BYTES;
    return 13 + (address - IPU21_REGION1_BASE) / IPU21_PAIR_BYTES;
}

/* Bit mask of the granules that [address, address + bytes) touches. */
static inline uint32_t ipu21_element_mask(uint32_t address, uint32_t bytes)
{
    if (bytes == 0)
        return 0;
    unsigned first = ipu21_element(address) & 31, last = ipu21_element(address + bytes - 1) & 31;
    return (uint32_t)(((1ull << (last + 1)) - 1) & ~((1ull << first) - 1));
}

#endif
