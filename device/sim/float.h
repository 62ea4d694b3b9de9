/* Floating point rules that all handler files share: flags, canonical NaNs, narrowing.
 *
 * Every NaN that an instruction produces is the canonical quiet one [I], so that results do not
 * depend on the host. Rounding is to nearest even on the host FPU; results narrowed to f16 or f8
 * are rounded stochastically when FP_CTL.ESR is set. Facts: facts/isa_semantics.md section 5.
 */
#ifndef IPU_SIM_FLOAT_H
#define IPU_SIM_FLOAT_H

#include "device/sim/core.h"

#include "base/half.h"

enum { SIM_NAN32 = 0x7fc00000, SIM_NAN16 = 0x7e00, SIM_MAX16 = 0x7bff, SIM_INF16 = 0x7c00 };

static inline bool sim_special(float value)
{
    return (sim_bits(value) & 0x7f800000u) == 0x7f800000u;
}

static inline bool sim_is_nan(float value)
{
    return value != value;
}

static inline bool sim_is_inf(float value)
{
    return (sim_bits(value) & 0x7fffffffu) == 0x7f800000u;
}

/* Bits of an f32 result of x and y: NaNs canonical; INV for a NaN out of no NaN, OFLO for an
 * infinity out of finite operands are added to *flags. */
static inline uint32_t sim_result(float result, float x, float y, uint32_t *flags)
{
    if (__builtin_expect(!sim_special(result), 1))
        return sim_bits(result);
    if (sim_is_nan(result)) {
        if (!sim_is_nan(x) && !sim_is_nan(y))
            *flags |= SIM_FP_INV;
        return SIM_NAN32;
    }
    if (!sim_special(x) && !sim_special(y))
        *flags |= SIM_FP_OFLO;
    return sim_bits(result);
}

static inline uint32_t sim_canonical(float value)
{
    return sim_is_nan(value) ? (uint32_t)SIM_NAN32 : sim_bits(value);
}

/* An f16 code to f32 with canonical NaN. */
static inline float sim_widen(uint16_t half)
{
    float value = half_to_float(half);
    return sim_is_nan(value) ? sim_float(SIM_NAN32) : value;
}

/* Narrows to f16 under FP_CTL (ESR, NANOO) with 16 random bits for ESR; OFLO joins *flags. */
uint16_t sim_narrow(const struct sim_context *c, float value, uint32_t random, uint32_t *flags);

/* Random bits for up to four narrowed lanes: one generator step when ESR is set, else 0. */
static inline uint64_t sim_narrow_random(struct sim_context *c)
{
    return (c->fp_ctl & SIM_FP_ESR) != 0 ? sim_random(c) : 0;
}

/* Two or four f16 lanes of a register or pair, and back. */
static inline uint32_t sim_narrow2(struct sim_context *c, float low, float high, uint32_t *flags)
{
    uint64_t random = sim_narrow_random(c);
    return (uint32_t)(sim_narrow(c, low, (uint32_t)random, flags) |
                      (uint32_t)sim_narrow(c, high, (uint32_t)(random >> 16), flags) << 16);
}

static inline uint64_t sim_narrow4(struct sim_context *c, const float value[4], uint32_t *flags)
{
    uint64_t random = sim_narrow_random(c), packed = 0;
    for (unsigned i = 0; i < 4; i++)
        packed |= (uint64_t)sim_narrow(c, value[i], (uint32_t)(random >> 16 * i), flags) << 16 * i;
    return packed;
}

#endif
