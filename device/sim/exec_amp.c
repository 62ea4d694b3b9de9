/* AMP and SLIC unit by unit, and the coefficient store (facts/isa_semantics.md section 6).
 *
 * Flags are decoded by device/ipu21/flags.h, whose numbers are ours; a flag without a name is
 * INVALID_OP. exec_f16.inc has faster code for the common case and falls back to this one; both
 * use the same sum rule. f32 forms round the product before the sum [I]. The f32 forms leave their
 * input in TAS, which they clobber as temporary storage.
 */
#include "device/sim/amp.h"

#include "device/ipu21/flags.h"
#include "device/sim/float.h"

#include <math.h>

/* What one AMP or SLIC form reads and writes. */
struct matrix_form {
    bool f32, f8;
    uint8_t sets;
    bool half_in, half_out; /* partials and results are f16 */
};

static struct matrix_form matrix_form(unsigned form)
{
    switch (form) {
    case ISA_F32SISOAMP_ARPAIR_AR_ARPAIR_ENUM6:
    case ISA_F32SISOSLIC_ARPAIR_AR_ARPAIR_ENUM6:
        return (struct matrix_form){.f32 = true, .sets = 1};
    case ISA_F32SISOV2AMP_ARPAIR_AR_ARPAIR_ENUM6:
    case ISA_F32SISOV2SLIC_ARPAIR_AR_ARPAIR_ENUM6:
        return (struct matrix_form){.f32 = true, .sets = 2};
    case ISA_F16V4SISOAMP_ARPAIR_ARPAIR_ARPAIR_ENUM6:
    case ISA_F16V4SISOSLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6:
        return (struct matrix_form){.sets = 1};
    case ISA_F16V4SIHOAMP_AR_ARPAIR_ARPAIR_ENUM6:
    case ISA_F16V4SIHOSLIC_AR_ARPAIR_ARPAIR_ENUM6:
        return (struct matrix_form){.sets = 1, .half_out = true};
    case ISA_F16V4HIHOAMP_AR_ARPAIR_AR_ENUM6:
    case ISA_F16V4HIHOSLIC_AR_ARPAIR_AR_ENUM6:
        return (struct matrix_form){.sets = 1, .half_in = true, .half_out = true};
    case ISA_F8V8HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6:
    case ISA_F8V8HIHOV4SLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6:
        return (struct matrix_form){.f8 = true, .sets = 2, .half_in = true, .half_out = true};
    default:
        return (struct matrix_form){.sets = 2, .half_in = true, .half_out = true};
    }
}

/* --- coefficients --- */

float sim_f8_widen(uint32_t code, bool f143)
{
    if (code == 0x80)
        return sim_float(SIM_NAN32);
    unsigned mantissa_bits = f143 ? 3 : 2;
    int bias = f143 ? 8 : 16;
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    int exponent = (int)((code & 0x7f) >> mantissa_bits);
    if (exponent != 0)
        mantissa |= 1u << mantissa_bits;
    else
        exponent = 1;
    float value = ldexpf((float)mantissa, exponent - bias - (int)mantissa_bits);
    return (code & 0x80) != 0 ? -value : value;
}

void sim_weights_widen_f16(struct sim_tile *tile)
{
    for (unsigned slot = 0; slot < SIM_CWEI_SLOTS; slot++) {
        unsigned set = slot / 32, unit = slot / 4 % 8, phase = slot % 4;
        for (unsigned k = 0; k < 4; k++)
            tile->weights.f16[set][phase][k][unit] =
                half_to_float((uint16_t)(tile->cwei[slot] >> (16 * k)));
    }
    tile->f16_valid = true;
}

void sim_weights_widen_f8(struct sim_tile *tile)
{
    bool f143 = (tile->csr[0x31] & 1) != 0; /* FP_INFMT.WEIGHTS */
    for (unsigned slot = 0; slot < SIM_CWEI_SLOTS; slot++) {
        unsigned set = slot / 32, unit = slot / 4 % 8, phase = slot % 4;
        for (unsigned k = 0; k < 8; k++)
            tile->weights.f8[set][phase][k][unit] =
                sim_f8_widen((uint32_t)(tile->cwei[slot] >> (8 * k)) & 255, f143);
    }
    tile->f8_valid = true;
}

void sim_amp_inputs_f8(const struct sim_context *x, uint64_t packed, float inputs[8])
{
    const struct sim_tile *tile = x->tile;
    bool f143 = (tile->csr[0x31] & 2) != 0;              /* FP_INFMT.INPUT */
    int scale = (int)((tile->csr[0x33] & 63) ^ 32) - 32; /* FP_ISCL, six bits signed */
    for (unsigned k = 0; k < 8; k++) {
        float value = sim_f8_widen((uint32_t)(packed >> (8 * k)) & 255, f143);
        inputs[k] = ldexpf(value, scale);
    }
}

/* The input of one instruction, widened; count 1, 4 or 8. */
struct matrix_input {
    float x[8];
};

static void input_read(struct sim_context *x, const struct sim_half *h,
                       const struct matrix_form *form, struct matrix_input *input)
{
    if (form->f32) {
        input->x[0] = sim_float(x->a[h->r[1]]);
        return;
    }
    uint64_t packed = sim_pair(x, h->r[1]);
    if (form->f8) {
        sim_amp_inputs_f8(x, packed, input->x);
        if (!x->tile->f8_valid)
            sim_weights_widen_f8(x->tile);
        return;
    }
    for (unsigned k = 0; k < 4; k++)
        input->x[k] = half_to_float((uint16_t)(packed >> (16 * k)));
    if (!x->tile->f16_valid)
        sim_weights_widen_f16(x->tile);
}

static float dot(const float *x, const float (*w)[8], unsigned unit)
{
    return (x[0] * w[0][unit] + x[1] * w[1][unit]) + (x[2] * w[2][unit] + x[3] * w[3][unit]);
}

/* x . w of one unit; f32 takes the low or high word of slot m, the others all of slot m. */
static float unit_product(const struct sim_context *x, const struct matrix_form *form,
                          const struct matrix_input *input, unsigned set, unsigned unit, unsigned m,
                          bool upper)
{
    const struct sim_tile *tile = x->tile;
    if (form->f32) {
        uint64_t word = tile->cwei[4 * (8 * set + unit) + m];
        return input->x[0] * sim_float((uint32_t)(upper ? word >> 32 : word));
    }
    if (form->f8) {
        const float(*w)[8] = tile->weights.f8[set][m];
        return dot(input->x, w, unit) + dot(input->x + 4, w + 4, unit);
    }
    return dot(input->x, tile->weights.f16[set][m], unit);
}

/* --- partials in, results out: [set][chain] --- */

static void partials_read(const struct sim_context *x, const struct sim_half *h,
                          const struct matrix_form *form, float in[2][2])
{
    const uint32_t *c = &x->a[h->r[2]];
    for (unsigned set = 0; set < 2; set++) {
        if (form->half_in) {
            uint32_t word = set < form->sets ? c[set] : 0;
            in[set][0] = sim_widen((uint16_t)word);
            in[set][1] = sim_widen((uint16_t)(word >> 16));
        } else {
            /* f32 partials belong to the one set that moves in this instruction. */
            in[set][0] = sim_float(c[0]);
            in[set][1] = sim_float(c[1]);
        }
    }
}

static int results_write(struct sim_context *x, const struct sim_half *h,
                         const struct matrix_form *form, float out[2][2], unsigned moving)
{
    uint32_t *a = &x->a[h->r[0]];
    if (!form->half_out) {
        a[0] = sim_canonical(out[moving][0]);
        a[1] = sim_canonical(out[moving][1]);
        return 0;
    }
    uint32_t flags = 0;
    float lanes[4] = {out[0][0], out[0][1], out[1][0], out[1][1]};
    uint64_t packed = sim_narrow4(x, lanes, &flags);
    a[0] = (uint32_t)packed;
    if (form->sets == 2)
        a[1] = (uint32_t)(packed >> 32);
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

/* --- AMP --- */

static void amp_accumulate(struct sim_accumulators *acc, unsigned set, unsigned units,
                           unsigned phase, const float *products)
{
    for (unsigned u = 0; u < units; u++) {
        float even = acc->even[set][u], odd = acc->odd[set][u];
        if (phase == 0) {
            acc->even[set][u] = odd + products[u];
            acc->odd[set][u] = even;
        } else {
            acc->even[set][u] = even + products[u];
        }
    }
}

static void amp_move(struct sim_accumulators *acc, unsigned set, unsigned units, const float in[2],
                     float out[2])
{
    float *odd = acc->odd[set];
    out[0] = odd[0];
    out[1] = odd[1];
    for (unsigned u = 0; u + 2 < units; u++)
        odd[u] = odd[u + 2];
    odd[units - 2] = in[0];
    odd[units - 1] = in[1];
}

int sim_amp_general(struct sim_context *x, const struct sim_half *h)
{
    struct matrix_form form = matrix_form(h->form);
    struct ipu21_amp_flags flags;
    if (!ipu21_amp_decode((uint32_t)h->imm, form.f32, &flags))
        return sim_fault_at(x, SIM_ETYPE_INVALID_OP, "these AMP flags have no name", 0);
    struct matrix_input input;
    float in[2][2], out[2][2] = {{0}};
    const unsigned sets = form.sets == 2 ? 2 : 1;
    unsigned units = 2u * flags.engines, m = form.f32 ? flags.phase / 2u : flags.phase;
    bool odd_phase = form.f32 && flags.phase % 2 != 0;
    input_read(x, h, &form, &input);
    partials_read(x, h, &form, in);
    for (unsigned set = 0; set < sets; set++) {
        float products[8];
        for (unsigned u = 0; u < units; u++)
            products[u] = unit_product(x, &form, &input, set, u, m, odd_phase);
        amp_accumulate(&x->acc, set, units, flags.phase, products);
    }
    /* f32: one set moves, by the parity of the phase; a lone set rests in odd phases and gives 0
     * [?]. Otherwise all sets move. */
    unsigned moving = form.sets == 2 && odd_phase ? 1 : 0;
    for (unsigned set = 0; set < sets; set++) {
        bool moves = !form.f32 || (set == moving && (form.sets == 2 || !odd_phase));
        if (moves)
            amp_move(&x->acc, set, units, in[set], out[set]);
    }
    if (form.f32)
        x->tas = x->a[h->r[1]];
    return results_write(x, h, &form, out, moving);
}

int sim_exec_F32SISOAMP_ARPAIR_AR_ARPAIR_ENUM6(struct sim_context *x, const struct sim_half *h)
{
    return sim_amp_general(x, h);
}

int sim_exec_F32SISOV2AMP_ARPAIR_AR_ARPAIR_ENUM6(struct sim_context *x, const struct sim_half *h)
{
    return sim_amp_general(x, h);
}

/* --- SLIC: per set two chains c of accumulators E_c, E_(c+2), E_(c+4), E_(c+6) --- */

/* Moves one chain: the oldest sum leaves, `in` enters before tap window - 1; products are added. */
static float slic_move(float *even, unsigned chain, unsigned window, float in,
                       const float *products)
{
    float out = even[chain];
    for (unsigned j = 0; j < window; j++) {
        float before = j + 1 < window ? even[2 * (j + 1) + chain] : in;
        even[2 * j + chain] = before + products[j];
    }
    return out;
}

struct slic_step {
    struct ipu21_slic_flags flags;
    struct matrix_form form;
    struct matrix_input input, held; /* held: the lower half's input, kept in TAS */
};

/* Products of taps 0..3 of one chain. */
static void slic_products(const struct sim_context *x, const struct slic_step *s, unsigned set,
                          unsigned chain, float products[4])
{
    for (unsigned j = 0; j < s->flags.window; j++)
        products[j] = unit_product(x, &s->form, &s->input, set, 2 * j + chain, s->flags.bank,
                                   s->form.f32 && s->flags.upper);
}

/* Set 1 of f32sisov2slic moves with the upper half [I, by analogy with f32sisov2amp]: the lower
 * half's product is then made from the input held in TAS. */
static void slic_set(struct sim_context *x, const struct slic_step *s, unsigned set,
                     const float in[2], float out[2])
{
    float *even = x->acc.even[set];
    bool moves = !s->form.f32 || s->flags.upper == (set == 1);
    for (unsigned chain = 0; chain < 2; chain++) {
        float products[4];
        slic_products(x, s, set, chain, products);
        if (!moves && set == 1)
            continue;
        if (!moves) {
            for (unsigned j = 0; j < s->flags.window; j++)
                even[2 * j + chain] += products[j];
            continue;
        }
        for (unsigned j = 0; set == 1 && s->form.f32 && j < s->flags.window; j++)
            products[j] +=
                unit_product(x, &s->form, &s->held, set, 2 * j + chain, s->flags.bank, false);
        out[chain] = slic_move(even, chain, s->flags.window, in[chain], products);
    }
}

static int slic(struct sim_context *x, const struct sim_half *h)
{
    struct slic_step s = {.form = matrix_form(h->form)};
    if (!ipu21_slic_decode((uint32_t)h->imm, s.form.f32, &s.flags))
        return sim_fault_at(x, SIM_ETYPE_INVALID_OP, "these SLIC flags have no name", 0);
    float in[2][2], out[2][2] = {{0}};
    input_read(x, h, &s.form, &s.input);
    s.held.x[0] = sim_float(x->tas);
    partials_read(x, h, &s.form, in);
    for (unsigned set = 0; set < s.form.sets; set++)
        slic_set(x, &s, set, in[set], out[set]);
    if (s.form.f32)
        x->tas = x->a[h->r[1]];
    return results_write(x, h, &s.form, out, s.form.sets == 2 && s.flags.upper ? 1 : 0);
}

#define SLIC(id)                                                                                   \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        return slic(x, h);                                                                         \
    }
SLIC(F16V4SISOSLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6)
SLIC(F16V4SIHOSLIC_AR_ARPAIR_ARPAIR_ENUM6)
SLIC(F16V4HIHOSLIC_AR_ARPAIR_AR_ENUM6)
SLIC(F16V4HIHOV4SLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6)
SLIC(F8V8HIHOV4SLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6)
SLIC(F32SISOSLIC_ARPAIR_AR_ARPAIR_ENUM6)
SLIC(F32SISOV2SLIC_ARPAIR_AR_ARPAIR_ENUM6)
