/* f32 arithmetic, comparisons, conversions and transcendentals (facts/isa_semantics.md section 5).
 *
 * Subnormals are kept [?]. Transcendentals are computed in double and rounded once [I]. Lanes of a
 * pair are independent. The only faults are enabled floating point exceptions.
 */
#include "device/sim/float.h"

#include <math.h>

static float f32_add(float b, float c)
{
    return b + c;
}

static float f32_sub(float b, float c)
{
    return b - c;
}

static float f32_mul(float b, float c)
{
    return b * c;
}

static float f32_absadd(float b, float c)
{
    return fabsf(b) + fabsf(c);
}

/* max and min with one NaN return the other operand, as IEEE maxNum does [?]. */
static float f32_max(float b, float c)
{
    if (sim_is_nan(b))
        return c;
    return b > c || sim_is_nan(c) ? b : c;
}

static float f32_min(float b, float c)
{
    if (sim_is_nan(b))
        return c;
    return b < c || sim_is_nan(c) ? b : c;
}

static float f32_absmax(float b, float c)
{
    return f32_max(fabsf(b), fabsf(c));
}

static uint32_t truth(bool value)
{
    return value ? 0xffffffffu : 0;
}

#define ONE(name, operation)                                                                       \
    int sim_exec_##name##_AR_AR_AR(struct sim_context *x, const struct sim_half *h)                \
    {                                                                                              \
        float b = sim_float(x->a[h->r[1]]), c = sim_float(x->a[h->r[2]]);                          \
        uint32_t flags = 0;                                                                        \
        x->a[h->r[0]] = sim_result(operation(b, c), b, c, &flags);                                 \
        return flags != 0 ? sim_raise_fp(x, flags) : 0;                                            \
    }
/* The first source of a pair form may be one register for both lanes: `step` 0. */
#define TWO_FORM(id, operation, step)                                                              \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        const uint32_t *b = &x->a[h->r[1]], *c = &x->a[h->r[2]];                                   \
        float b0 = sim_float(b[0]), b1 = sim_float(b[step]);                                       \
        float c0 = sim_float(c[0]), c1 = sim_float(c[1]);                                          \
        uint32_t flags = 0;                                                                        \
        x->a[h->r[0]] = sim_result(operation(b0, c0), b0, c0, &flags);                             \
        x->a[h->r[0] + 1] = sim_result(operation(b1, c1), b1, c1, &flags);                         \
        return flags != 0 ? sim_raise_fp(x, flags) : 0;                                            \
    }
#define TWO(name, operation)   TWO_FORM(name##_ARPAIR_ARPAIR_ARPAIR, operation, 1)
#define TWO_B(name, operation) TWO_FORM(name##_ARPAIR_AR_B_ARPAIR, operation, 0)

ONE(F32ADD, f32_add)
ONE(F32SUB, f32_sub)
ONE(F32MUL, f32_mul)
ONE(F32ABSADD, f32_absadd)
ONE(F32MAX, f32_max)
ONE(F32MIN, f32_min)
ONE(F32ABSMAX, f32_absmax)
TWO(F32V2ADD, f32_add)
TWO_B(F32V2ADD, f32_add)
TWO(F32V2SUB, f32_sub)
TWO_B(F32V2SUB, f32_sub)
TWO(F32V2MUL, f32_mul)
TWO_B(F32V2MUL, f32_mul)
TWO(F32V2ABSADD, f32_absadd)
TWO(F32V2MAX, f32_max)
TWO(F32V2MIN, f32_min)
TWO(F32V2ABSMAX, f32_absmax)

#define COMPARE(name, relation)                                                                    \
    int sim_exec_F32##name##_AR_AR_AR(struct sim_context *x, const struct sim_half *h)             \
    {                                                                                              \
        float b = sim_float(x->a[h->r[1]]), c = sim_float(x->a[h->r[2]]);                          \
        x->a[h->r[0]] = truth(b relation c);                                                       \
        return 0;                                                                                  \
    }                                                                                              \
    COMPARE_TWO(F32V2##name##_ARPAIR_ARPAIR_ARPAIR, relation, 1)                                   \
    COMPARE_TWO(F32V2##name##_ARPAIR_AR_B_ARPAIR, relation, 0)
#define COMPARE_TWO(id, relation, step)                                                            \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        const uint32_t *b = &x->a[h->r[1]], *c = &x->a[h->r[2]];                                   \
        uint32_t low = truth(sim_float(b[0]) relation sim_float(c[0]));                            \
        uint32_t high = truth(sim_float(b[step]) relation sim_float(c[1]));                        \
        x->a[h->r[0]] = low;                                                                       \
        x->a[h->r[0] + 1] = high;                                                                  \
        return 0;                                                                                  \
    }
COMPARE(CMPEQ, ==)
COMPARE(CMPNE, !=)
COMPARE(CMPLT, <)
COMPARE(CMPLE, <=)
COMPARE(CMPGT, >)
COMPARE(CMPGE, >=)

static uint32_t clamp(uint32_t value, float low, float high)
{
    return sim_canonical(f32_min(f32_max(sim_float(value), low), high));
}

int sim_exec_F32CLAMP_AR_AR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    float low = sim_float(x->a[h->r[2]]), high = sim_float(x->a[h->r[2] + 1]);
    x->a[h->r[0]] = clamp(x->a[h->r[1]], low, high);
    return 0;
}

int sim_exec_F32V2CLAMP_ARPAIR_ARPAIR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    float low = sim_float(x->a[h->r[2]]), high = sim_float(x->a[h->r[2] + 1]);
    uint32_t first = clamp(x->a[h->r[1]], low, high);
    x->a[h->r[0] + 1] = clamp(x->a[h->r[1] + 1], low, high);
    x->a[h->r[0]] = first;
    return 0;
}

int sim_exec_F32DIV_AR_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    float b = sim_float(x->a[h->r[1]]), c = sim_float(x->a[h->r[2]]);
    uint32_t flags = 0;
    uint32_t bits = sim_result(b / c, b, c, &flags);
    if (c == 0 && b != 0 && !sim_special(b))
        flags = SIM_FP_DIV0;
    x->a[h->r[0]] = bits;
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

/* --- functions of one value, in double --- */

static double reciprocal(double b)
{
    return 1 / b;
}

static double reciprocal_root(double b)
{
    return 1 / sqrt(b);
}

static double sigmoid(double b)
{
    return 1 / (1 + exp(-b));
}

static int function_of(struct sim_context *x, const struct sim_half *h, double (*f)(double),
                       bool pole)
{
    float b = sim_float(x->a[h->r[1]]);
    uint32_t flags = 0;
    uint32_t bits = sim_result((float)f((double)b), b, b, &flags);
    if (pole && b == 0)
        flags = SIM_FP_DIV0; /* exact infinity from 0 */
    x->a[h->r[0]] = bits;
    return flags != 0 ? sim_raise_fp(x, flags) : 0;
}

#define FUNCTION(id, f, pole)                                                                      \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        return function_of(x, h, f, pole);                                                         \
    }
FUNCTION(F32SQRT_AR_AR, sqrt, false)
FUNCTION(F32OOX_AR_AR, reciprocal, true)
FUNCTION(F32OORX_AR_AR, reciprocal_root, true)
FUNCTION(F32EXP_AR_AR, exp, false)
FUNCTION(F32EXP2_AR_AR, exp2, false)
FUNCTION(F32LN_AR_AR, log, true)
FUNCTION(F32LOG2_AR_AR, log2, true)
FUNCTION(F32TANH_AR_AR, tanh, false)
FUNCTION(F32SIGM_AR_AR, sigmoid, false)

/* --- conversions --- */

int sim_exec_F32FROMI32_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    x->a[h->r[0]] = sim_bits((float)(int32_t)x->a[h->r[1]]);
    return 0;
}

int sim_exec_F32FROMUI32_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    x->a[h->r[0]] = sim_bits((float)x->a[h->r[1]]);
    return 0;
}

/* Rounding modes 0 nearest even, 1 up, 2 down, 3 towards zero. */
static float round_integral(float value, unsigned mode)
{
    switch (mode) {
    case 0:
        return rintf(value);
    case 1:
        return ceilf(value);
    case 2:
        return floorf(value);
    default:
        return truncf(value);
    }
}

int sim_exec_F32INT_AR_AR_RND4(struct sim_context *x, const struct sim_half *h)
{
    if (h->imm > 3)
        return sim_fault_at(x, SIM_ETYPE_INVALID_OP, "f32int has rounding modes 0 to 3", 0);
    float value = sim_float(x->a[h->r[1]]);
    x->a[h->r[0]] = sim_canonical(round_integral(value, (unsigned)h->imm));
    return 0;
}

/* FP_CTL.RND takes the codes of f32int [I]. */
static float round_control(const struct sim_context *x, uint32_t bits)
{
    return round_integral(sim_float(bits), x->fp_ctl >> SIM_FP_RND_SHIFT & 3);
}

/* Out of range saturates and raises INV; NaN becomes 0 [?]. */
int sim_exec_F32TOI32_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    float value = round_control(x, x->a[h->r[1]]);
    if (value >= -2147483648.0f && value < 2147483648.0f) {
        x->a[h->r[0]] = (uint32_t)(int32_t)value;
        return 0;
    }
    x->a[h->r[0]] = sim_is_nan(value) ? 0 : value < 0 ? 0x80000000u : 0x7fffffffu;
    return sim_raise_fp(x, SIM_FP_INV);
}

int sim_exec_F32TOUI32_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    float value = round_control(x, x->a[h->r[1]]);
    if (value >= 0 && value < 4294967296.0f) {
        x->a[h->r[0]] = (uint32_t)value;
        return 0;
    }
    x->a[h->r[0]] = value > 0 ? 0xffffffffu : 0;
    return sim_raise_fp(x, SIM_FP_INV);
}

/* (u + 1/2) / 2^32 - 1/2, rounded once. */
static uint32_t symmetric(uint32_t u)
{
    return sim_bits((float)(((double)u + 0.5) * 0x1p-32 - 0.5));
}

int sim_exec_F32SUFROMUI_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    x->a[h->r[0]] = symmetric(x->a[h->r[1]]);
    return 0;
}

int sim_exec_F32V2SUFROMUI_ARPAIR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t high = symmetric(x->a[h->r[1] + 1]);
    x->a[h->r[0]] = symmetric(x->a[h->r[1]]);
    x->a[h->r[0] + 1] = high;
    return 0;
}

/* --- class codes --- */

/* Quiet NaN 2 and -0 5 are known; the other numbers are ours [?]. */
enum float_class {
    CLASS_NEGATIVE_INFINITY,
    CLASS_SIGNALLING_NAN,
    CLASS_QUIET_NAN,
    CLASS_NEGATIVE_NORMAL,
    CLASS_NEGATIVE_SUBNORMAL,
    CLASS_NEGATIVE_ZERO,
    CLASS_POSITIVE_ZERO,
    CLASS_POSITIVE_SUBNORMAL,
    CLASS_POSITIVE_NORMAL,
    CLASS_POSITIVE_INFINITY
};

static uint32_t class_of(uint32_t bits, unsigned exponent_bits, unsigned mantissa_bits)
{
    uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    bool negative = (bits >> (mantissa_bits + exponent_bits) & 1) != 0;
    if (exponent == (1u << exponent_bits) - 1) {
        if (mantissa != 0)
            return mantissa >> (mantissa_bits - 1) != 0 ? CLASS_QUIET_NAN : CLASS_SIGNALLING_NAN;
        return negative ? CLASS_NEGATIVE_INFINITY : CLASS_POSITIVE_INFINITY;
    }
    if (exponent != 0)
        return negative ? CLASS_NEGATIVE_NORMAL : CLASS_POSITIVE_NORMAL;
    if (mantissa != 0)
        return negative ? CLASS_NEGATIVE_SUBNORMAL : CLASS_POSITIVE_SUBNORMAL;
    return negative ? CLASS_NEGATIVE_ZERO : CLASS_POSITIVE_ZERO;
}

static uint32_t class16(uint32_t word, unsigned lane)
{
    return class_of(word >> (16 * lane) & 0xffff, 5, 10);
}

int sim_exec_F32CLASS_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    x->a[h->r[0]] = class_of(x->a[h->r[1]], 8, 23);
    return 0;
}

int sim_exec_F32V2CLASS_AR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    const uint32_t *b = &x->a[h->r[1]];
    x->a[h->r[0]] = class_of(b[0], 8, 23) | class_of(b[1], 8, 23) << 8;
    return 0;
}

int sim_exec_F16V2CLASS_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t b = x->a[h->r[1]];
    x->a[h->r[0]] = class16(b, 0) | class16(b, 1) << 8;
    return 0;
}

int sim_exec_F16V4CLASS_AR_ARPAIR(struct sim_context *x, const struct sim_half *h)
{
    const uint32_t *b = &x->a[h->r[1]];
    x->a[h->r[0]] =
        class16(b[0], 0) | class16(b[0], 1) << 8 | class16(b[1], 0) << 16 | class16(b[1], 1) << 24;
    return 0;
}

/* f8 has no infinity and one NaN, 0x80; class exponents do not depend on the exponent width beyond
 * "zero or not", but the format decides which codes are subnormal. */
static uint32_t class8(const struct sim_context *x, uint32_t code)
{
    if (code == 0x80)
        return CLASS_QUIET_NAN;
    unsigned mantissa_bits = (x->fp_nfmt & 2) != 0 ? 3 : 2;
    bool negative = code >= 0x80;
    if ((code & 0x7f) == 0)
        return CLASS_POSITIVE_ZERO;
    if ((code & 0x7f) >> mantissa_bits == 0)
        return negative ? CLASS_NEGATIVE_SUBNORMAL : CLASS_POSITIVE_SUBNORMAL;
    return negative ? CLASS_NEGATIVE_NORMAL : CLASS_POSITIVE_NORMAL;
}

int sim_exec_F8V4CLASS_AR_AR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t b = x->a[h->r[1]], packed = 0;
    for (unsigned i = 0; i < 4; i++)
        packed |= class8(x, b >> (8 * i) & 255) << (8 * i);
    x->a[h->r[0]] = packed;
    return 0;
}
