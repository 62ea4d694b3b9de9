/* Private structures of placement: items of one tile and the rules between them. */
#ifndef IPU_PLACE_INTERNAL_H
#define IPU_PLACE_INTERNAL_H

#include "compiler/place/place.h"

#include "device/ipu21/memory.h"

/* Chains in arrays of links: rules of a buffer. */
struct place_link {
    uint32_t value; /* partner buffer, or phase << 1 | role */
    uint32_t next;  /* index + 1, 0 ends */
};

struct place_rules {
    uint32_t *apart; /* by buffer: first link to buffers in other granules (hard) */
    uint32_t *roles; /* by buffer: first link to exchange roles (soft) */
    struct place_link *links;
    uint32_t count, capacity;
};

IPU_MUST_CHECK int place_rules_collect(const struct program *program, struct arena *arena,
                                       struct place_rules *rules, struct ipu_error *error);

/* Granules that a buffer touches at its address, with what kernels may read past its end. */
static inline uint32_t place_mask(uint32_t address, uint64_t bytes)
{
    uint64_t end = address + bytes + KERNEL_OVERREAD;
    if (end > IPU21_SRAM_END)
        end = IPU21_SRAM_END;
    return ipu21_element_mask(address, (uint32_t)(end - address));
}

#endif
