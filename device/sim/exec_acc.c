/* f32 accumulation, reading accumulators back, and the transpose helpers
 * (facts/isa_semantics.md section 6).
 *
 * Accumulators keep raw bits when they are moved (gina, stacc, istacc), so that packed halves can
 * travel through them. Products are rounded to f32 before they are added [I].
 */
#include "device/sim/float.h"

#include <math.h>

int sim_exec_F32MAC_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    x->acc.even[0][0] += sim_float(x->a[h->r[0]]) * sim_float(x->a[h->r[1]]);
    return 0;
}

int sim_exec_F32V2MAC_ARPAIR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    for (unsigned i = 0; i < 2; i++)
        x->acc.even[0][i] += sim_float(x->a[h->r[0] + i]) * sim_float(x->a[h->r[1] + i]);
    return 0;
}

#define ACCUMULATE4(id, expression)                                                                \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        for (unsigned i = 0; i < 4; i++) {                                                         \
            float a = sim_float(x->a[h->r[0] + i]);                                                \
            x->acc.even[0][i] += expression;                                                       \
        }                                                                                          \
        return 0;                                                                                  \
    }
ACCUMULATE4(F32V4ACC_ARQUAD, a)
ACCUMULATE4(F32V4ABSACC_ARQUAD, fabsf(a))
ACCUMULATE4(F32V4SQACC_ARQUAD, a *a)

/* A := old {E0, E1}; {E0, E1} := TAS * B + C. */
int sim_exec_F32V2AXPY_ARPAIR_ARPAIR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    float scale = sim_float(x->tas), next[2];
    for (unsigned i = 0; i < 2; i++)
        next[i] = scale * sim_float(x->a[h->r[1] + i]) + sim_float(x->a[h->r[2] + i]);
    for (unsigned i = 0; i < 2; i++) {
        x->a[h->r[0] + i] = sim_canonical(x->acc.even[0][i]);
        x->acc.even[0][i] = next[i];
    }
    return 0;
}

/* Which accumulators the flags choose is not public and nobody uses it [?]: only flag 0 is accepted
 * and means {b0c0, b1c0, b0c1, b1c1} into E0..E3. */
int sim_exec_F32V2AOP_ARPAIR_ARPAIR_ENUM8(struct sim_context *x, const struct sim_half *h)
{
    if (h->imm != 0)
        return sim_fault_at(x, SIM_ETYPE_INVALID_OP, "f32v2aop flags other than 0 are not known",
                            0);
    for (unsigned i = 0; i < 4; i++)
        x->acc.even[0][i] += sim_float(x->a[h->r[0] + i % 2]) * sim_float(x->a[h->r[1] + i / 2]);
    return 0;
}

/* Flag bit 0 picks the even or odd chain, bit 1 the set; other bits are ignored [I]. The first two
 * values leave, the others move down, two enter. */
static void gina(struct sim_context *x, uint32_t flags, const float in[2], float out[2])
{
    float *chain = (flags & 1) != 0 ? x->acc.odd[flags >> 1 & 1] : x->acc.even[flags >> 1 & 1];
    memcpy(out, chain, 2 * sizeof *chain);
    memmove(chain, chain + 2, 6 * sizeof *chain);
    memcpy(chain + 6, in, 2 * sizeof *chain);
}

int sim_exec_F32V2GINA_ARPAIR_ARPAIR_GINA12(struct sim_context *x, const struct sim_half *h)
{
    float in[2], out[2];
    memcpy(in, &x->a[h->r[1]], sizeof in);
    gina(x, (uint32_t)h->imm, in, out);
    memcpy(&x->a[h->r[0]], out, sizeof out);
    return 0;
}

int sim_exec_F16V2GINA_AR_AR_GINA12(struct sim_context *x, const struct sim_half *h)
{
    uint32_t word = x->a[h->r[1]], flags = 0;
    float in[2] = {sim_widen((uint16_t)word), sim_widen((uint16_t)(word >> 16))}, out[2];
    gina(x, (uint32_t)h->imm, in, out);
    x->a[h->r[0]] = sim_narrow2(x, out[0], out[1], &flags);
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

/* --- transpose: stacc and istacc move raw words [I] ---
 *
 * Rows enter two at a time. After istacc P0 (rows 0, 1) and P1 (rows 2, 3) the columns 0..3 of the
 * 4x4 block stand in {E0,E1}, {E2,E3}, {O0,O1}, {O2,O3}. stacc P0 returns column 0 and leaves
 * column 1 in {O0,O1}, columns 2 and 3 in {E0..E3}; stacc P1 returns column 1. The next istacc P0
 * and P1 return columns 2 and 3 while they take in the next block. */

static void accumulators_take(float *chain, unsigned i, uint32_t word)
{
    memcpy(&chain[i], &word, sizeof word);
}

static uint32_t word_of(const float *chain, unsigned i)
{
    uint32_t word;
    memcpy(&word, &chain[i], sizeof word);
    return word;
}

int sim_exec_F16V4STACC_ARPAIR_ENUM8(struct sim_context *x, const struct sim_half *h)
{
    float *even = x->acc.even[0], *odd = x->acc.odd[0];
    if (h->imm > 1)
        return sim_fault_at(x, SIM_ETYPE_INVALID_OP, "f16v4stacc has phases 0 and 1", 0);
    if (h->imm == 1) {
        memcpy(&x->a[h->r[0]], odd, 2 * sizeof *odd);
        return 0;
    }
    float old_even[8], old_odd[8];
    memcpy(old_even, even, sizeof old_even);
    memcpy(old_odd, odd, sizeof old_odd);
    memcpy(&x->a[h->r[0]], old_even, 2 * sizeof *even);
    memcpy(odd, old_even + 2, 6 * sizeof *odd);
    memset(odd + 6, 0, 2 * sizeof *odd);
    memcpy(even, old_odd, sizeof old_odd);
    return 0;
}

/* The pair of lane k of two rows. */
static uint32_t column_word(uint64_t first, uint64_t second, unsigned k)
{
    return (uint32_t)(first >> (16 * k) & 0xffff) | (uint32_t)(second >> (16 * k) & 0xffff) << 16;
}

int sim_exec_F16V4ISTACC_ARPAIR_ARPAIR_ARPAIR_ENUM6(struct sim_context *x, const struct sim_half *h)
{
    float *even = x->acc.even[0], *odd = x->acc.odd[0];
    uint64_t b = sim_pair(x, h->r[1]), c = sim_pair(x, h->r[2]);
    if (h->imm > 1)
        return sim_fault_at(x, SIM_ETYPE_INVALID_OP, "f16v4istacc has phases 0 and 1", 0);
    memcpy(&x->a[h->r[0]], even, 2 * sizeof *even);
    if (h->imm == 0) {
        memcpy(even, even + 2, 2 * sizeof *even);
        for (unsigned k = 0; k < 4; k++)
            accumulators_take(odd, k, column_word(b, c, k));
        return 0;
    }
    uint32_t upper[4];
    for (unsigned k = 0; k < 4; k++)
        upper[k] = word_of(odd, k);
    for (unsigned k = 0; k < 4; k++) {
        float *chain = k < 2 ? even : odd;
        accumulators_take(chain, 2 * (k % 2), upper[k]);
        accumulators_take(chain, 2 * (k % 2) + 1, column_word(b, c, k));
    }
    return 0;
}
