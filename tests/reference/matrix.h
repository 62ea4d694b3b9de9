/* Accumulators, AMP and SLIC of the reference interpreter, unit by unit and sum by sum.
 *
 * Sum rule (docs/MACHINE.md): products rounded to f32 (exact for f16 and f8), added in pairs:
 * E' = E + ((p0 + p1) + (p2 + p3)); f8 adds a second such group to the first before E. Accumulators
 * raise no flags. A NaN in an accumulator is the canonical one here; which bits it has in the
 * simulator before it leaves as a result is not defined.
 */
#ifndef IPU_TESTS_REFERENCE_MATRIX_H
#define IPU_TESTS_REFERENCE_MATRIX_H

#include "tests/reference/float.h"

static uint32_t sum32(uint32_t b, uint32_t c)
{
    return number_to_f32(number_add(number_f32(b), number_f32(c)));
}

static uint32_t product32(struct number b, struct number c)
{
    return number_to_f32(number_multiply(b, c));
}

static struct number half_of(const struct ref *r, unsigned operand, unsigned k)
{
    return number_f16(ref_half(r, operand, k));
}

static struct number word_of(const struct ref *r, unsigned operand, unsigned k)
{
    return number_f32(ref_read(r, operand, k));
}

/* --- simple accumulation --- */

static int run_f32mac(struct ref *r)
{
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++)
        r->even[0][k] = sum32(r->even[0][k], product32(word_of(r, 0, k), word_of(r, 1, k)));
    return 0;
}

static int run_f16cmac(struct ref *r)
{
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++) {
        uint32_t low = product32(half_of(r, 0, 2 * k), half_of(r, 1, 2 * k));
        uint32_t high = product32(half_of(r, 0, 2 * k + 1), half_of(r, 1, 2 * k + 1));
        r->even[0][k] = sum32(r->even[0][k], sum32(low, high));
    }
    return 0;
}

typedef struct number acc_operation(struct number x);

static struct number acc_plain(struct number x)
{
    return x;
}

static struct number acc_square(struct number x)
{
    return number_multiply(x, x);
}

/* E_k += f(x_k) for each element of the operand. */
static int acc_run(struct ref *r, acc_operation *f)
{
    bool half = ref_lanes(r).half;
    unsigned count = ref_lanes(r).count;
    for (unsigned k = 0; k < count; k++) {
        struct number x = half ? half_of(r, 0, k) : word_of(r, 0, k);
        r->even[0][k] = sum32(r->even[0][k], number_to_f32(f(x)));
    }
    return 0;
}

static int run_f32v2axpy(struct ref *r)
{
    for (unsigned k = 0; k < 2; k++) {
        ref_write(r, 0, k, number_to_f32(number_f32(r->even[0][k])));
        uint32_t scaled = product32(number_f32(r->tas), word_of(r, 1, k));
        r->even[0][k] = sum32(scaled, ref_read(r, 2, k));
    }
    return 0;
}

static int run_f16v4gacc(struct ref *r)
{
    struct number n[4];
    for (unsigned k = 0; k < 4; k++)
        n[k] = number_f32(r->even[0][k]);
    return ref_write_halves(r, 0, n, 4, 0);
}

static int run_f16v4mix(struct ref *r)
{
    int fault = run_f16v4gacc(r);
    struct number first = number_f16(r->tas & 0xffff), second = number_f16(r->tas >> 16);
    for (unsigned k = 0; k < 4; k++)
        r->even[0][k] =
            sum32(product32(first, half_of(r, 1, k)), product32(second, half_of(r, 2, k)));
    return fault;
}

static int run_f32v2aop(struct ref *r)
{
    if (ref_read(r, 2, 0) != 0)
        return REF_INVALID_OP;
    for (unsigned k = 0; k < 4; k++)
        r->even[0][k] = sum32(r->even[0][k], product32(word_of(r, 0, k % 2), word_of(r, 1, k / 2)));
    return 0;
}

/* --- moving accumulators --- */

/* Two values leave a chain and two enter it. */
static void chain_shift(uint32_t *chain, unsigned units, const uint32_t in[2], uint32_t out[2])
{
    out[0] = chain[0];
    out[1] = chain[1];
    for (unsigned u = 0; u + 2 < units; u++)
        chain[u] = chain[u + 2];
    chain[units - 2] = in[0];
    chain[units - 1] = in[1];
}

static uint32_t *gina_chain(struct ref *r, uint32_t e)
{
    unsigned set = (e & 2) != 0 ? 1 : 0;
    return (e & 1) != 0 ? r->odd[set] : r->even[set];
}

static int run_f32v2gina(struct ref *r)
{
    uint32_t in[2] = {ref_read(r, 1, 0), ref_read(r, 1, 1)}, out[2];
    chain_shift(gina_chain(r, ref_read(r, 2, 0)), 8, in, out);
    ref_write(r, 0, 0, out[0]);
    ref_write(r, 0, 1, out[1]);
    return 0;
}

static int run_f16v2gina(struct ref *r)
{
    uint32_t in[2] = {number_to_f32(half_of(r, 1, 0)), number_to_f32(half_of(r, 1, 1))}, out[2];
    chain_shift(gina_chain(r, ref_read(r, 2, 0)), 8, in, out);
    struct number n[2] = {number_f32(out[0]), number_f32(out[1])};
    return ref_write_halves(r, 0, n, 2, 0);
}

static int run_f16v4stacc(struct ref *r)
{
    uint32_t phase = ref_read(r, 1, 0);
    if (phase > 1)
        return REF_INVALID_OP;
    const uint32_t *from = phase == 1 ? r->odd[0] : r->even[0];
    ref_write(r, 0, 0, from[0]);
    ref_write(r, 0, 1, from[1]);
    if (phase == 1)
        return 0;
    uint32_t even[8];
    memcpy(even, r->even[0], sizeof even);
    memcpy(r->even[0], r->odd[0], sizeof even);
    for (unsigned u = 0; u < 8; u++)
        r->odd[0][u] = u < 6 ? even[u + 2] : 0;
    return 0;
}

static int run_f16v4istacc(struct ref *r)
{
    uint32_t phase = ref_read(r, 3, 0), *even = r->even[0], *odd = r->odd[0];
    if (phase > 1)
        return REF_INVALID_OP;
    ref_write(r, 0, 0, even[0]);
    ref_write(r, 0, 1, even[1]);
    uint32_t column[4];
    for (unsigned k = 0; k < 4; k++)
        column[k] = ref_half(r, 1, k) | ref_half(r, 2, k) << 16;
    if (phase == 0) {
        even[0] = even[2];
        even[1] = even[3];
        memcpy(odd, column, sizeof column);
        return 0;
    }
    uint32_t upper[4];
    memcpy(upper, odd, sizeof upper);
    even[0] = upper[0], even[1] = column[0], even[2] = upper[1], even[3] = column[1];
    odd[0] = upper[2], odd[1] = column[2], odd[2] = upper[3], odd[3] = column[3];
    return 0;
}

/* --- AMP and SLIC --- */

enum matrix_element { MATRIX_F32, MATRIX_F16, MATRIX_F8 };

struct matrix {
    enum matrix_element element;
    unsigned sets;
    bool half_in, half_out;
};

/* As the mnemonic says: si/hi = f32/f16 partials, so/ho results, v2 and v4 two sets. */
static struct matrix matrix_of(const struct ref *r)
{
    const char *name = isa_forms[r->inst.form].mnemonic;
    struct matrix m = {MATRIX_F16, 1, strstr(name, "hi") != NULL, strstr(name, "ho") != NULL};
    if (strncmp(name, "f32", 3) == 0)
        m.element = MATRIX_F32;
    if (strncmp(name, "f8", 2) == 0)
        m.element = MATRIX_F8;
    if (strstr(name, "ov2") != NULL || strstr(name, "ov4") != NULL)
        m.sets = 2;
    return m;
}

/* x . w of CWEI slot 4 * (8 set + unit) + m; f32 takes one word of it. */
static uint32_t matrix_dot(const struct ref *r, const struct matrix *mx, unsigned set,
                           unsigned unit, unsigned m, bool upper)
{
    uint64_t w = r->cwei[4 * (8 * set + unit) + m];
    uint32_t group[2] = {0, 0}, p[4];
    if (mx->element == MATRIX_F32)
        return product32(word_of(r, 1, 0), number_f32((uint32_t)(upper ? w >> 32 : w)));
    unsigned groups = mx->element == MATRIX_F8 ? 2 : 1;
    for (unsigned g = 0; g < groups; g++) {
        for (unsigned k = 0; k < 4; k++) {
            unsigned i = 4 * g + k;
            if (mx->element == MATRIX_F16) {
                p[k] = product32(half_of(r, 1, i), number_f16((uint32_t)(w >> (16 * i)) & 0xffff));
                continue;
            }
            uint32_t code = ref_read(r, 1, i / 4) >> (8 * (i % 4)) & 0xff;
            struct number x = number_f8(code, (r->fp_infmt & 2) != 0);
            struct number c = number_f8((uint32_t)(w >> (8 * i)) & 0xff, (r->fp_infmt & 1) != 0);
            p[k] = product32(number_scale(x, ref_scale(r->fp_iscl)), c);
        }
        group[g] = sum32(sum32(p[0], p[1]), sum32(p[2], p[3]));
    }
    return groups == 2 ? sum32(group[0], group[1]) : group[0];
}

static void matrix_partials(const struct ref *r, const struct matrix *mx, unsigned set,
                            uint32_t in[2])
{
    for (unsigned k = 0; k < 2; k++)
        in[k] = mx->half_in ? number_to_f32(half_of(r, 2, 2 * set + k)) : ref_read(r, 2, k);
}

static int matrix_results(struct ref *r, const struct matrix *mx, uint32_t out[2][2],
                          unsigned moving)
{
    struct number n[4];
    for (unsigned k = 0; k < 4; k++)
        n[k] = number_f32(out[k / 2][k % 2]);
    if (mx->half_out)
        return ref_write_halves(r, 0, n, 2 * mx->sets, 0);
    ref_write(r, 0, 0, number_to_f32(n[2 * moving]));
    ref_write(r, 0, 1, number_to_f32(n[2 * moving + 1]));
    return 0;
}

/* Flags of set 1 (device/ipu21/flags.def): bits 2:0 phase, 4:3 engines 4, 2, 1. */
static int run_amp(struct ref *r)
{
    struct matrix mx = matrix_of(r);
    uint32_t flags = ref_read(r, 3, 0), phase = flags % 8, out[2][2] = {{0}};
    bool single = mx.element == MATRIX_F32;
    if (flags >= 24 || (!single && phase > 3))
        return REF_INVALID_OP;
    unsigned units = 8u >> flags / 8, moving = single && mx.sets == 2 ? phase % 2 : 0;
    for (unsigned set = 0; set < mx.sets; set++) {
        for (unsigned u = 0; u < units; u++) {
            uint32_t dot = matrix_dot(r, &mx, set, u, single ? phase / 2 : phase, phase % 2 != 0);
            uint32_t before = r->even[set][u];
            r->even[set][u] = sum32(phase == 0 ? r->odd[set][u] : before, dot);
            if (phase == 0)
                r->odd[set][u] = before;
        }
        bool moves = !single || (mx.sets == 2 ? set == moving : phase % 2 == 0);
        uint32_t in[2];
        matrix_partials(r, &mx, set, in);
        if (moves)
            chain_shift(r->odd[set], units, in, out[set]);
    }
    if (single)
        r->tas = ref_read(r, 1, 0);
    return matrix_results(r, &mx, out, moving);
}

/* One chain of a SLIC: the oldest sum leaves, the partial enters before the last tap. */
static uint32_t slic_step(uint32_t *even, unsigned window, uint32_t in, const uint32_t *product,
                          unsigned chain)
{
    uint32_t out = even[chain];
    for (unsigned j = 0; j < window; j++)
        even[2 * j + chain] = sum32(j + 1 < window ? even[2 * (j + 1) + chain] : in, product[j]);
    return out;
}

/* f32: the lower instruction moves set 0, the upper one adds to it; with two sets the upper one
 * moves set 1, whose lower product it makes from the input that TAS kept [I]. */
static int run_slic(struct ref *r)
{
    struct matrix mx = matrix_of(r);
    uint32_t flags = ref_read(r, 3, 0), out[2][2] = {{0}};
    bool single = mx.element == MATRIX_F32, upper = (flags & 8) != 0;
    if (flags >= (single ? 16u : 8u))
        return REF_INVALID_OP;
    unsigned window = (flags & 4) != 0 ? 4 : 3, bank = flags & 3;
    for (unsigned set = 0; set < mx.sets; set++)
        for (unsigned chain = 0; chain < 2; chain++) {
            uint32_t product[4], in[2];
            matrix_partials(r, &mx, set, in);
            for (unsigned j = 0; j < window; j++) {
                unsigned unit = 2 * j + chain;
                product[j] = matrix_dot(r, &mx, set, unit, bank, upper);
                if (single && set == 1) {
                    uint32_t low = (uint32_t)r->cwei[4 * (8 + unit) + bank];
                    product[j] = sum32(product[j], product32(number_f32(r->tas), number_f32(low)));
                }
            }
            if (!single || upper == (set == 1))
                out[set][chain] = slic_step(r->even[set], window, in[chain], product, chain);
            else if (set == 0)
                for (unsigned j = 0; j < window; j++)
                    r->even[0][2 * j + chain] = sum32(r->even[0][2 * j + chain], product[j]);
        }
    if (single)
        r->tas = ref_read(r, 1, 0);
    return matrix_results(r, &mx, out, single && mx.sets == 2 && upper ? 1 : 0);
}

#endif
