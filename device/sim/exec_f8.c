/* f8 conversions (facts/isa_semantics.md section 5, FP8).
 *
 * F143 and F152 have no infinity and no -0; code 0x80 is the only NaN. The scale FP_SCL multiplies
 * in both directions. Rounding is to nearest even, or stochastic with FP_CTL.ESR.
 */
#include "device/sim/amp.h"
#include "device/sim/float.h"

#include <math.h>

struct f8_format {
    int mantissa_bits, least; /* 2^least is the smallest subnormal */
    float largest;
};

static bool f143(const struct sim_context *x)
{
    return (x->fp_nfmt & 2) != 0;
}

static struct f8_format format_of(const struct sim_context *x)
{
    if (f143(x))
        return (struct f8_format){3, -10, 240.0f};
    return (struct f8_format){2, -17, 57344.0f};
}

static int scale_of(const struct sim_context *x)
{
    return (int)(x->fp_scl ^ 32) - 32;
}

static uint32_t encode(const struct f8_format *f, double magnitude)
{
    int exponent = 0;
    frexp(magnitude, &exponent); /* [0.5, 1) * 2^exponent */
    int lowest = f->least + f->mantissa_bits;
    if (exponent - 1 < lowest)
        return (uint32_t)ldexp(magnitude, -f->least);
    uint32_t mantissa = (uint32_t)ldexp(magnitude, f->mantissa_bits - (exponent - 1));
    return (uint32_t)(exponent - 1 - lowest) * (1u << f->mantissa_bits) + mantissa;
}

/* `random`: 16 bits for stochastic rounding. */
static uint32_t narrow8(const struct sim_context *x, float value, uint32_t random, uint32_t *flags)
{
    struct f8_format f = format_of(x);
    if (sim_special(value))
        return 0x80; /* NaN, and f16 infinity */
    double magnitude = fabs((double)value);
    int exponent = 0;
    frexp(magnitude, &exponent);
    int unit = exponent - 1 - f.mantissa_bits < f.least ? f.least : exponent - 1 - f.mantissa_bits;
    double scaled = ldexp(magnitude, -unit);
    bool esr = (x->fp_ctl & SIM_FP_ESR) != 0;
    double kept = esr ? floor(scaled + (double)(random & 0xffff) * 0x1p-16) : rint(scaled);
    double rounded = ldexp(kept, unit);
    if (rounded > (double)f.largest) {
        *flags |= SIM_FP_OFLO;
        if ((x->fp_ctl & SIM_FP_NANOO) != 0)
            return 0x80;
        rounded = (double)f.largest;
    }
    if (rounded == 0)
        return 0;
    return encode(&f, rounded) | (value < 0 ? 0x80u : 0);
}

static uint64_t narrow_bytes(struct sim_context *x, const uint32_t *words, unsigned count,
                             uint32_t *flags)
{
    uint64_t packed = 0, random = 0;
    for (unsigned i = 0; i < count; i++) {
        if (i % 4 == 0)
            random = sim_narrow_random(x);
        float value = sim_widen((uint16_t)(words[i / 2] >> (16 * (i % 2))));
        uint32_t bits = (uint32_t)(random >> (16 * (i % 4)));
        packed |= (uint64_t)narrow8(x, ldexpf(value, scale_of(x)), bits, flags) << (8 * i);
    }
    return packed;
}

/* The upper half of the result is not public [?]: zero. */
int sim_exec_F16V2TOF8_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t flags = 0;
    x->a[h->r[0]] = (uint32_t)narrow_bytes(x, &x->a[h->r[1]], 2, &flags);
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

int sim_exec_F16V8TOF8_ARPAIR_ARQUAD(struct sim_context *x, const struct sim_half *h)
{
    uint32_t flags = 0;
    sim_set_pair(x, h->r[0], narrow_bytes(x, &x->a[h->r[1]], 8, &flags));
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

static float widen8(const struct sim_context *x, uint32_t word, unsigned i)
{
    return ldexpf(sim_f8_widen(word >> (8 * i) & 255, f143(x)), scale_of(x));
}

int sim_exec_F8V2TOF16_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t b = x->a[h->r[1]], flags = 0;
    x->a[h->r[0]] = sim_narrow2(x, widen8(x, b, 0), widen8(x, b, 1), &flags);
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

int sim_exec_F8V4TOF16_ARPAIR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t b = x->a[h->r[1]], flags = 0;
    float lanes[4];
    for (unsigned i = 0; i < 4; i++)
        lanes[i] = widen8(x, b, i);
    sim_set_pair(x, h->r[0], sim_narrow4(x, lanes, &flags));
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}
