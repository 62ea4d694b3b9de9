/* Random number instructions (facts/isa_semantics.md section 5).
 *
 * Every instruction takes one 64-bit step of the worker's generator [?].
 */
#include "device/sim/float.h"

/* The low word of a step [I]. */
int sim_exec_URAND32_AR(struct sim_context *x, const struct sim_half *h)
{
    x->a[h->r[0]] = (uint32_t)sim_random(x);
    return 0;
}

int sim_exec_URAND64_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    sim_set_pair(x, h->r[0], sim_random(x));
    return 0;
}

/* How the hardware approximates a normal distribution is not public [?]. Here: the sum of four
 * uniform bytes, centred and divided by its standard deviation, sqrt(4 (256^2 - 1) / 12). */
static float normal(uint32_t word)
{
    uint32_t sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
    return ((float)sum - 510.0f) / 147.80055f;
}

int sim_exec_F32V2GRAND_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    uint64_t random = sim_random(x);
    x->a[h->r[0]] = sim_bits(normal((uint32_t)random));
    x->a[h->r[0] + 1] = sim_bits(normal((uint32_t)(random >> 32)));
    return 0;
}

int sim_exec_F16V2GRAND_AR(struct sim_context *x, const struct sim_half *h)
{
    uint64_t random = sim_random(x);
    uint32_t flags = 0;
    x->a[h->r[0]] =
        sim_narrow2(x, normal((uint32_t)random), normal((uint32_t)(random >> 32)), &flags);
    return 0;
}

/* An element is kept when its 16 random bits are below C[15:0] [I], or always with C[16]. */
static bool keeps(uint64_t random, unsigned i, uint32_t c)
{
    return (c & 0x10000) != 0 || (uint32_t)(random >> (16 * i) & 0xffff) < (c & 0xffff);
}

int sim_exec_F16V4RMASK_ARPAIR_ARPAIR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint64_t value = sim_pair(x, h->r[1]), random = sim_random(x);
    uint32_t c = x->a[h->r[2]];
    for (unsigned i = 0; i < 4; i++)
        if (!keeps(random, i, c))
            value &= ~(0xffffull << (16 * i));
    sim_set_pair(x, h->r[0], value);
    return 0;
}

int sim_exec_F32V2RMASK_ARPAIR_ARPAIR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint64_t value = sim_pair(x, h->r[1]), random = sim_random(x);
    uint32_t c = x->a[h->r[2]];
    for (unsigned i = 0; i < 2; i++)
        if (!keeps(random, i, c))
            value &= ~(0xffffffffull << (32 * i));
    sim_set_pair(x, h->r[0], value);
    return 0;
}
