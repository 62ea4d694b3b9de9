/* Narrowing to f16, and the random numbers that stochastic rounding and urand take.
 *
 * See float.h. Stochastic rounding [I]: 16 random bits are added right below the kept mantissa and
 * the sum is truncated; values that f16 holds exactly therefore never change.
 */
#include "device/sim/float.h"

#include <math.h>

static uint64_t rotate(uint64_t value, unsigned by)
{
    return value << by | value >> (64 - by);
}

uint64_t sim_random(struct sim_context *c)
{
    uint64_t s0 = c->prng[0], s1 = c->prng[1];
    uint64_t mixed = s0 ^ s1, both = s0 & s1;
    uint64_t out = mixed ^ (rotate(both, 1) | rotate(both, 2));
    c->prng[0] = rotate(s0, 55) ^ mixed ^ mixed << 14;
    c->prng[1] = rotate(mixed, 36);
    return out;
}

/* |value| is finite and below 2^16. One unit in the last place of the result is 2^(e-10), or 2^-24
 * for subnormal results. */
static uint16_t stochastic(float value, uint32_t random)
{
    uint32_t bits = sim_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    float magnitude = fabsf(value);
    int exponent = 0;
    frexpf(magnitude, &exponent); /* magnitude = [0.5, 1) * 2^exponent */
    int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    double scaled = ldexp((double)magnitude, -unit) + (double)(random & 0xffff) * 0x1p-16;
    double kept = ldexp(floor(scaled), unit);
    if (kept >= 65536.0)
        return (uint16_t)(sign | SIM_INF16);
    return (uint16_t)(sign | half_from_float((float)kept));
}

uint16_t sim_narrow(const struct sim_context *c, float value, uint32_t random, uint32_t *flags)
{
    if (sim_is_nan(value))
        return SIM_NAN16;
    uint16_t sign = (uint16_t)(sim_bits(value) >> 16 & 0x8000);
    if (sim_is_inf(value))
        return (uint16_t)(sign | SIM_INF16);
    bool esr = (c->fp_ctl & SIM_FP_ESR) != 0 && fabsf(value) < 65536.0f;
    uint16_t half = esr ? stochastic(value, random) : half_from_float(value);
    if ((half & 0x7fff) != SIM_INF16)
        return half;
    *flags |= SIM_FP_OFLO;
    return (c->fp_ctl & SIM_FP_NANOO) != 0 ? SIM_NAN16 : (uint16_t)(sign | SIM_MAX16);
}
