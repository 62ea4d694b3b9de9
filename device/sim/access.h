/* Memory and registers as handlers reach them; part of core.h.
 *
 * Addresses must have passed sim_accessible(). The indices of pairs are those of their even
 * register or of a scratch register.
 */
#ifndef IPU_SIM_ACCESS_H
#define IPU_SIM_ACCESS_H

#include "device/sim/core.h"

/* --- memory --- */
static inline bool sim_accessible(uint32_t address, uint32_t size)
{
    return address - IPU21_SRAM_BASE <= IPU21_SRAM_BYTES - size && (address & (size - 1)) == 0;
}

/* A store may hit decoded code; the first word of a page also belongs to the page before it. */
static inline void sim_stored(struct sim_context *c, uint32_t address, uint32_t size)
{
    uint32_t offset = address - IPU21_SRAM_BASE;
    if (offset >= SIM_REGION0_BYTES)
        return;
    struct sim_page *const *page = &c->tile->pages[offset / SIM_PAGE_BYTES];
    bool first = offset % SIM_PAGE_BYTES < 4 && offset != 0;
    if (__builtin_expect(*page != NULL || (first && page[-1] != NULL), 0))
        sim_code_drop(c->tile, address, size, true);
}

static inline uint32_t sim_load32(const struct sim_context *c, uint32_t address)
{
    uint32_t value;
    memcpy(&value, c->sram + (address - IPU21_SRAM_BASE), sizeof value);
    return value;
}

static inline uint64_t sim_load64(const struct sim_context *c, uint32_t address)
{
    uint64_t value;
    memcpy(&value, c->sram + (address - IPU21_SRAM_BASE), sizeof value);
    return value;
}

/* --- registers --- */
static inline uint64_t sim_pair(const struct sim_context *c, unsigned index)
{
    uint64_t value;
    memcpy(&value, &c->a[index], sizeof value);
    return value;
}

static inline void sim_set_pair(struct sim_context *c, unsigned index, uint64_t value)
{
    memcpy(&c->a[index], &value, sizeof value);
}

static inline float sim_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t sim_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
