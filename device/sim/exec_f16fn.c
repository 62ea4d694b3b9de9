/* f16 instructions that are not lane-wise arithmetic: functions, lateral sums and maxima, symmetric
 * uniforms (facts/isa_semantics.md section 5).
 *
 * Functions are computed in double and rounded once to f32, then to f16 [I].
 */
#include "device/sim/float.h"

#include <float.h>
#include <math.h>

static double sigmoid(double b)
{
    return 1 / (1 + exp(-b));
}

/* A NaN out of a number is INV, an infinity out of 0 is DIV0. A number beyond f32 is the largest
 * one of f32 here, so that narrowing to f16 overflows as it does for smaller ones. */
static float apply(double (*f)(double), float b, uint32_t *flags)
{
    float result = (float)f((double)b);
    if (sim_is_nan(result) && !sim_is_nan(b))
        *flags |= SIM_FP_INV;
    if (!sim_is_inf(result) || sim_is_inf(b))
        return result;
    if (b == 0)
        *flags |= SIM_FP_DIV0;
    return b == 0 ? result : copysignf(FLT_MAX, result);
}

static int two_halves(struct sim_context *x, const struct sim_half *h, double (*f)(double))
{
    uint32_t b = x->a[h->r[1]], flags = 0;
    float low = apply(f, sim_widen((uint16_t)b), &flags);
    float high = apply(f, sim_widen((uint16_t)(b >> 16)), &flags);
    x->a[h->r[0]] = sim_narrow2(x, low, high, &flags);
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

#define FUNCTION(id, f)                                                                            \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        return two_halves(x, h, f);                                                                \
    }
FUNCTION(F16V2EXP_AR_AR, exp)
FUNCTION(F16V2EXP2_AR_AR, exp2)
FUNCTION(F16V2LN_AR_AR, log)
FUNCTION(F16V2LOG2_AR_AR, log2)
FUNCTION(F16V2TANH_AR_AR, tanh)
FUNCTION(F16V2SIGM_AR_AR, sigmoid)

static float lane(uint32_t word, unsigned i)
{
    return sim_widen((uint16_t)(word >> (16 * i)));
}

int sim_exec_F16V2SUM_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t b = x->a[h->r[1]], flags = 0;
    x->a[h->r[0]] = sim_result(lane(b, 0) + lane(b, 1), lane(b, 0), lane(b, 1), &flags);
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

/* {e0 + e1, e2 + e3} [I]. */
int sim_exec_F16V4SUM_ARPAIR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t b0 = x->a[h->r[1]], b1 = x->a[h->r[1] + 1], flags = 0;
    x->a[h->r[0]] = sim_result(lane(b0, 0) + lane(b0, 1), lane(b0, 0), lane(b0, 1), &flags);
    x->a[h->r[0] + 1] = sim_result(lane(b1, 0) + lane(b1, 1), lane(b1, 0), lane(b1, 1), &flags);
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

/* The larger half of a word; one NaN yields the other half [?]. */
static uint32_t larger_half(uint32_t word)
{
    float low = lane(word, 0), high = lane(word, 1);
    if (sim_is_nan(low))
        return sim_is_nan(high) ? SIM_NAN16 : word >> 16;
    return low > high || sim_is_nan(high) ? word & 0xffff : word >> 16;
}

int sim_exec_F16V2MAXC_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    x->a[h->r[0]] = larger_half(x->a[h->r[1]]) * 0x00010001u;
    return 0;
}

/* {max(e0, e1), max(e2, e3)} [?]. */
int sim_exec_F16V4MAXC_AR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    const uint32_t *b = &x->a[h->r[1]];
    x->a[h->r[0]] = larger_half(b[0]) | larger_half(b[1]) << 16;
    return 0;
}

/* (u + 1/2) / 2^16 - 1/2 of one half. */
static float symmetric(uint32_t word, unsigned i)
{
    return ((float)(word >> (16 * i) & 0xffff) + 0.5f) * 0x1p-16f - 0.5f;
}

int sim_exec_F16V2SUFROMUI_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t b = x->a[h->r[1]], flags = 0;
    x->a[h->r[0]] = sim_narrow2(x, symmetric(b, 0), symmetric(b, 1), &flags);
    return 0;
}

int sim_exec_F16V4SUFROMUI_ARPAIR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    const uint32_t *b = &x->a[h->r[1]];
    float lanes[4] = {symmetric(b[0], 0), symmetric(b[0], 1), symmetric(b[1], 0),
                      symmetric(b[1], 1)};
    uint32_t flags = 0;
    sim_set_pair(x, h->r[0], sim_narrow4(x, lanes, &flags));
    return 0;
}
