/* Floating point of the reference interpreter: lanes, rounding under FP_CTL, conversions, classes.
 *
 * Arithmetic is exact (number.h) and rounded once to the format of the result. Transcendentals are
 * not here: no exact result is defined for them (tests/unit/oracle_function_test.c bounds their
 * errors).
 */
#ifndef IPU_TESTS_REFERENCE_FLOAT_H
#define IPU_TESTS_REFERENCE_FLOAT_H

#include "tests/reference/machine.h"

enum { REF_RND_SHIFT = 16, REF_ESR = 1 << 19, REF_NANOO = 1 << 20 };

/* --- narrowing to f16 and f8 --- */

static bool ref_stochastic(const struct ref *r)
{
    return (r->fp_ctl & REF_ESR) != 0;
}

/* One generator step for an instruction that narrows, when rounding is stochastic [?]. */
static uint64_t ref_narrow_random(struct ref *r)
{
    return ref_stochastic(r) ? ref_random(r) : 0;
}

/* |n| in units of 2^unit plus 16 random bits below the unit, truncated [I]. */
static wide ref_stochastic_quantum(struct number n, int unit, uint32_t random)
{
    int by = n.exponent - unit + 16; /* to units of 2^(unit - 16) */
    n = number_make(false, n.magnitude, 0);
    wide scaled = by >= 0 ? n.magnitude << by : by > -126 ? n.magnitude >> -by : 0;
    return (scaled + random) >> 16;
}

/* Narrows to f16: overflow gives the largest number, or NaN with NANOO. Stochastic rounding starts
 * from the f32 result [I]. */
static uint32_t ref_narrow(const struct ref *r, struct number n, uint32_t random, uint32_t *flags)
{
    if (n.kind != NUMBER_FINITE)
        return number_encode(n, &format_f16);
    uint32_t sign = n.negative ? 0x8000 : 0;
    struct number rounded = number_round(n, &format_f16);
    struct number single = number_round(n, &format_f32);
    if (single.kind == NUMBER_INFINITE)
        return sign | 0x7c00;
    bool small = wide_bits(single.magnitude) + single.exponent <= 16;
    if (ref_stochastic(r) && small) {
        int unit = number_unit(single, &format_f16);
        rounded =
            number_make(n.negative, ref_stochastic_quantum(single, unit, random & 0xffff), unit);
        if (number_overflows(rounded, &format_f16))
            rounded.kind = NUMBER_INFINITE;
    }
    if (rounded.kind == NUMBER_FINITE)
        return number_encode(rounded, &format_f16);
    *flags |= REF_OFLO;
    return (r->fp_ctl & REF_NANOO) != 0 ? 0x7e00 : sign | 0x7bff;
}

/* Narrows a number, already scaled, to the f8 format of FP_NFMT. */
static uint32_t ref_narrow8(const struct ref *r, struct number n, uint32_t random, uint32_t *flags)
{
    static const struct format f143 = {4, -10, 4}, f152 = {3, -17, 13};
    const struct format *f = (r->fp_nfmt & 2) != 0 ? &f143 : &f152;
    if (n.kind != NUMBER_FINITE)
        return 0x80;
    if (n.magnitude == 0)
        return 0;
    int unit = number_unit(n, f);
    wide kept = ref_stochastic(r) ? ref_stochastic_quantum(n, unit, random & 0xffff)
                                  : number_quantum(number_abs(n), unit, ROUND_NEAREST_EVEN);
    struct number rounded = number_make(n.negative, kept, unit);
    if (number_overflows(rounded, f)) {
        *flags |= REF_OFLO;
        if ((r->fp_ctl & REF_NANOO) != 0)
            return 0x80;
        return (n.negative ? 0x80u : 0) | 0x7f;
    }
    if (kept == 0)
        return 0;
    uint32_t mantissa =
        (uint32_t)number_quantum(number_abs(rounded), number_unit(rounded, f), ROUND_TO_ZERO);
    uint32_t code = (uint32_t)(number_unit(rounded, f) - f->least) << (f->digits - 1);
    return (n.negative ? 0x80u : 0) | (code + mantissa);
}

/* --- f32 results --- */

/* NaN out of no NaN is INV, infinity out of finite operands OFLO. */
static uint32_t ref_result(struct number n, struct number b, struct number c, uint32_t *flags)
{
    struct number rounded = number_round(n, &format_f32);
    if (n.kind == NUMBER_NAN && b.kind != NUMBER_NAN && c.kind != NUMBER_NAN)
        *flags |= REF_INV;
    if (rounded.kind == NUMBER_INFINITE && b.kind == NUMBER_FINITE && c.kind == NUMBER_FINITE)
        *flags |= REF_OFLO;
    return number_encode(rounded, &format_f32);
}

/* --- element type and lanes, as the mnemonic says --- */

struct ref_lanes {
    bool half;
    unsigned count;
};

static struct ref_lanes ref_lanes(const struct ref *r)
{
    const char *name = isa_forms[r->inst.form].mnemonic;
    struct ref_lanes lanes = {strncmp(name, "f16", 3) == 0, 1};
    if (name[3] == 'v')
        lanes.count = (unsigned)(name[4] - '0');
    return lanes;
}

static struct number ref_lane(const struct ref *r, unsigned operand, unsigned k)
{
    return ref_lanes(r).half ? number_f16(ref_half(r, operand, k))
                             : number_f32(ref_word(r, operand, k));
}

/* Writes f16 results, two to a register. */
static int ref_write_halves(struct ref *r, unsigned operand, const struct number *n, unsigned count,
                            uint32_t flags)
{
    uint64_t random = ref_narrow_random(r);
    uint32_t half[4] = {0};
    for (unsigned k = 0; k < count; k++)
        half[k] = ref_narrow(r, n[k], (uint32_t)(random >> (16 * k)), &flags);
    for (unsigned k = 0; k < count; k += 2)
        ref_write(r, operand, k / 2, half[k] | half[k + 1] << 16);
    return ref_raise(r, flags);
}

typedef struct number lane_operation(struct number b, struct number c);

static int lanes_run(struct ref *r, lane_operation *operation)
{
    struct ref_lanes lanes = ref_lanes(r);
    struct number results[4];
    uint32_t flags = 0;
    for (unsigned k = 0; k < lanes.count; k++) {
        struct number b = ref_lane(r, 1, k), c = ref_lane(r, 2, k), n = operation(b, c);
        if (n.kind == NUMBER_NAN && b.kind != NUMBER_NAN && c.kind != NUMBER_NAN)
            flags |= REF_INV;
        results[k] = n;
        if (!lanes.half)
            ref_write(r, 0, k, ref_result(n, b, c, &flags));
    }
    return lanes.half ? ref_write_halves(r, 0, results, lanes.count, flags) : ref_raise(r, flags);
}

static struct number lane_sub(struct number b, struct number c)
{
    return number_add(b, number_negate(c));
}

static struct number lane_absadd(struct number b, struct number c)
{
    return number_add(number_abs(b), number_abs(c));
}

/* With one NaN the other operand; of equals the second [?]. */
static struct number lane_max(struct number b, struct number c)
{
    if (c.kind == NUMBER_NAN || number_compare(b, c) == 1)
        return b;
    return c;
}

static struct number lane_min(struct number b, struct number c)
{
    if (c.kind == NUMBER_NAN || number_compare(b, c) == -1)
        return b;
    return c;
}

static struct number lane_absmax(struct number b, struct number c)
{
    return lane_max(number_abs(b), number_abs(c));
}

/* --- comparisons: which of less, equal, greater, unordered hold --- */
enum { CMP_LESS = 1, CMP_EQUAL = 2, CMP_GREATER = 4, CMP_UNORDERED = 8 };

static int compare_run(struct ref *r, int accepted)
{
    struct ref_lanes lanes = ref_lanes(r);
    uint64_t truth = 0;
    for (unsigned k = 0; k < lanes.count; k++) {
        int order = number_compare(ref_lane(r, 1, k), ref_lane(r, 2, k));
        bool holds = (accepted >> (order + 1) & 1) != 0;
        if (holds)
            truth |= lanes.half ? 0xffffull << (16 * k) : 0xffffffffull << (32 * k);
    }
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++)
        ref_write(r, 0, k, (uint32_t)(truth >> (32 * k)));
    return 0;
}

static int run_clamp(struct ref *r)
{
    struct ref_lanes lanes = ref_lanes(r);
    struct number low = ref_lane(r, 2, 0), high = ref_lane(r, 2, 1), results[4];
    for (unsigned k = 0; k < lanes.count; k++) {
        results[k] = lane_min(lane_max(ref_lane(r, 1, k), low), high);
        if (!lanes.half)
            ref_write(r, 0, k, number_to_f32(results[k]));
    }
    return lanes.half ? ref_write_halves(r, 0, results, lanes.count, 0) : 0;
}

/* --- division, roots, reciprocals: defined as the rounded exact result --- */

static int quotient(struct ref *r, struct number b, struct number c)
{
    uint32_t flags = 0;
    bool negative = b.negative != c.negative;
    struct number n = number_make(negative, 0, 0);
    if (b.kind == NUMBER_NAN || c.kind == NUMBER_NAN)
        n = number_nan();
    else if ((b.kind == NUMBER_INFINITE && c.kind == NUMBER_INFINITE) ||
             (number_zero(b) && number_zero(c)))
        n = number_nan();
    else if (b.kind == NUMBER_INFINITE || number_zero(c))
        n = (struct number){.kind = NUMBER_INFINITE, .negative = negative};
    else if (c.kind == NUMBER_FINITE)
        n = number_divide(b, c);
    uint32_t bits = ref_result(n, b, c, &flags);
    if (number_zero(c) && b.kind == NUMBER_FINITE && !number_zero(b))
        flags = REF_DIV0;
    ref_write(r, 0, 0, bits);
    return ref_raise(r, flags);
}

static int run_f32div(struct ref *r)
{
    return quotient(r, ref_lane(r, 1, 0), ref_lane(r, 2, 0));
}

static int run_f32oox(struct ref *r)
{
    return quotient(r, number_integer(1), ref_lane(r, 1, 0));
}

static int run_f32sqrt(struct ref *r)
{
    struct number b = ref_lane(r, 1, 0), n = b;
    uint32_t flags = 0;
    if (b.negative && !number_zero(b))
        n = number_nan();
    else if (b.kind == NUMBER_FINITE && !number_zero(b))
        n = number_root(b);
    ref_write(r, 0, 0, ref_result(n, b, b, &flags));
    return ref_raise(r, flags);
}

/* --- conversions --- */

static int run_f16tof32(struct ref *r)
{
    ref_write(r, 0, 0, number_to_f32(number_f16(ref_half(r, 1, 0))));
    return 0;
}

static int run_f16v2tof32(struct ref *r)
{
    for (unsigned k = 0; k < 2; k++)
        ref_write(r, 0, k, number_to_f32(number_f16(ref_half(r, 1, k))));
    return 0;
}

static int run_f32tof16(struct ref *r)
{
    uint32_t flags = 0;
    uint32_t random = (uint32_t)ref_narrow_random(r);
    uint32_t half = ref_narrow(r, number_f32(ref_read(r, 1, 0)), random, &flags);
    ref_write(r, 0, 0, half | half << 16);
    return ref_raise(r, flags);
}

static int words_to_halves(struct ref *r, unsigned count)
{
    struct number n[4];
    for (unsigned k = 0; k < count; k++)
        n[k] = number_f32(ref_read(r, 1, k));
    return ref_write_halves(r, 0, n, count, 0);
}

static int run_f32v2tof16(struct ref *r)
{
    return words_to_halves(r, 2);
}

static int run_f32v4tof16(struct ref *r)
{
    return words_to_halves(r, 4);
}

/* FP_SCL as a signed number of six bits. */
static int ref_scale(uint32_t value)
{
    return (int)(value & 31) - (int)(value & 32);
}

static int halves_to_f8(struct ref *r, unsigned count)
{
    uint32_t flags = 0;
    uint64_t out = 0, random = 0;
    for (unsigned k = 0; k < count; k++) {
        struct number n = number_scale(number_f16(ref_half(r, 1, k)), ref_scale(r->fp_scl));
        if (k % 4 == 0)
            random = ref_narrow_random(r);
        out |= (uint64_t)ref_narrow8(r, n, (uint32_t)(random >> (16 * (k % 4))), &flags) << (8 * k);
    }
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++)
        ref_write(r, 0, k, (uint32_t)(out >> (32 * k)));
    return ref_raise(r, flags);
}

static int run_f16v2tof8(struct ref *r)
{
    return halves_to_f8(r, 2);
}

static int run_f16v8tof8(struct ref *r)
{
    return halves_to_f8(r, 8);
}

static int f8_to_halves(struct ref *r, unsigned count)
{
    struct number n[4];
    for (unsigned k = 0; k < count; k++) {
        uint32_t code = ref_read(r, 1, 0) >> (8 * k) & 0xff;
        n[k] = number_scale(number_f8(code, (r->fp_nfmt & 2) != 0), ref_scale(r->fp_scl));
    }
    return ref_write_halves(r, 0, n, count, 0);
}

static int run_f8v2tof16(struct ref *r)
{
    return f8_to_halves(r, 2);
}

static int run_f8v4tof16(struct ref *r)
{
    return f8_to_halves(r, 4);
}

static int run_f32fromi32(struct ref *r)
{
    uint32_t b = ref_read(r, 1, 0);
    ref_write(r, 0, 0, number_to_f32(number_integer((int64_t)b - (b >> 31 ? 1ll << 32 : 0))));
    return 0;
}

static int run_f32fromui32(struct ref *r)
{
    ref_write(r, 0, 0, number_to_f32(number_integer(ref_read(r, 1, 0))));
    return 0;
}

static int run_f32int(struct ref *r)
{
    struct number b = ref_lane(r, 1, 0);
    uint32_t mode = ref_read(r, 2, 0);
    if (mode > 3)
        return REF_INVALID_OP;
    if (b.kind == NUMBER_FINITE && b.exponent < 0)
        b = number_make(b.negative, number_quantum(b, 0, (enum rounding)mode), 0);
    ref_write(r, 0, 0, number_to_f32(b));
    return 0;
}

/* Out of range saturates with INV, NaN gives 0 with INV [?]. */
static int to_integer(struct ref *r, wide most_negative, wide most_positive)
{
    struct number b = ref_lane(r, 1, 0);
    enum rounding how = (enum rounding)(r->fp_ctl >> REF_RND_SHIFT & 3);
    wide limit = b.negative ? most_negative : most_positive, size = limit + 1;
    if (b.kind == NUMBER_FINITE && b.exponent + wide_bits(b.magnitude) < 40)
        size = number_quantum(b, 0, how);
    if (b.kind == NUMBER_NAN)
        limit = 0;
    wide kept = size > limit || b.kind == NUMBER_NAN ? limit : size;
    ref_write(r, 0, 0, b.negative ? ~(uint32_t)kept + 1 : (uint32_t)kept);
    return ref_raise(r, size > limit || b.kind == NUMBER_NAN ? REF_INV : 0);
}

static int run_f32toi32(struct ref *r)
{
    return to_integer(r, 0x80000000u, 0x7fffffff);
}

static int run_f32toui32(struct ref *r)
{
    return to_integer(r, 0, 0xffffffffu);
}

/* (u + 1/2) / 2^bits - 1/2 */
static struct number symmetric_number(uint32_t u, int bits)
{
    return number_scale(number_integer(2 * (int64_t)u + 1 - (1ll << bits)), -bits - 1);
}

static int run_f32sufromui(struct ref *r)
{
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++)
        ref_write(r, 0, k, number_to_f32(symmetric_number(ref_read(r, 1, k), 32)));
    return 0;
}

static int run_f16sufromui(struct ref *r)
{
    struct number n[4];
    unsigned count = 2 * ref_kind_count(ref_operand(r, 0)->kind);
    for (unsigned k = 0; k < count; k++)
        n[k] = symmetric_number(ref_half(r, 1, k), 16);
    return ref_write_halves(r, 0, n, count, 0);
}

/* --- lateral --- */

static int run_f16sum(struct ref *r)
{
    uint32_t flags = 0;
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++) {
        struct number b = number_f16(ref_half(r, 1, 2 * k));
        struct number c = number_f16(ref_half(r, 1, 2 * k + 1));
        ref_write(r, 0, k, ref_result(number_add(b, c), b, c, &flags));
    }
    return ref_raise(r, flags);
}

/* The larger of two halves as a code; a NaN yields the other, of equals the upper [?]. */
static uint32_t larger_code(uint32_t low, uint32_t high)
{
    struct number b = number_f16(low), c = number_f16(high);
    if (b.kind == NUMBER_NAN && c.kind == NUMBER_NAN)
        return 0x7e00;
    return c.kind == NUMBER_NAN || number_compare(b, c) == 1 ? low : high;
}

static int run_f16v2maxc(struct ref *r)
{
    ref_write(r, 0, 0, larger_code(ref_half(r, 1, 0), ref_half(r, 1, 1)) * 0x10001u);
    return 0;
}

static int run_f16v4maxc(struct ref *r)
{
    ref_write(r, 0, 0,
              larger_code(ref_half(r, 1, 0), ref_half(r, 1, 1)) |
                  larger_code(ref_half(r, 1, 2), ref_half(r, 1, 3)) << 16);
    return 0;
}

/* --- class codes: quiet NaN 2 and -0 5 are known, the order of the others is ours [?] --- */

static uint32_t class_number(struct number n, bool quiet, int digits, int least)
{
    if (n.kind == NUMBER_NAN)
        return quiet ? 2 : 1;
    if (n.kind == NUMBER_INFINITE)
        return n.negative ? 0 : 9;
    if (n.magnitude == 0)
        return n.negative ? 5 : 6;
    bool normal = n.exponent + wide_bits(n.magnitude) >= least + digits;
    return n.negative ? (normal ? 3 : 4) : (normal ? 8 : 7);
}

static uint32_t class16(uint32_t half)
{
    return class_number(number_f16(half), (half & 0x200) != 0, 11, -24);
}

static uint32_t class32(uint32_t word)
{
    return class_number(number_f32(word), (word & 0x400000) != 0, 24, -149);
}

static int run_f32class(struct ref *r)
{
    ref_write(r, 0, 0, class32(ref_read(r, 1, 0)));
    return 0;
}

static int run_f32v2class(struct ref *r)
{
    ref_write(r, 0, 0, class32(ref_read(r, 1, 0)) | class32(ref_read(r, 1, 1)) << 8);
    return 0;
}

static int run_f16class(struct ref *r)
{
    uint32_t out = 0;
    for (unsigned k = 0; k < 2 * ref_kind_count(ref_operand(r, 1)->kind); k++)
        out |= class16(ref_half(r, 1, k)) << (8 * k);
    ref_write(r, 0, 0, out);
    return 0;
}

static int run_f8v4class(struct ref *r)
{
    uint32_t out = 0;
    bool f143 = (r->fp_nfmt & 2) != 0;
    for (unsigned k = 0; k < 4; k++) {
        struct number n = number_f8(ref_read(r, 1, 0) >> (8 * k) & 0xff, f143);
        out |= class_number(n, true, f143 ? 4 : 3, f143 ? -10 : -17) << (8 * k);
    }
    ref_write(r, 0, 0, out);
    return 0;
}

/* --- random numbers --- */

static int run_urand(struct ref *r)
{
    uint64_t random = ref_random(r);
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++)
        ref_write(r, 0, k, (uint32_t)(random >> (32 * k)));
    return 0;
}

/* The sum of four bytes, centred and divided by its standard deviation [?]. */
static struct number normal_number(uint32_t word)
{
    static const uint32_t deviation = 0x4313ccf1; /* 147.80055 */
    uint32_t sum = 0;
    for (unsigned i = 0; i < 4; i++)
        sum += word >> (8 * i) & 0xff;
    struct number centred = number_integer((int64_t)sum - 510);
    if (number_zero(centred))
        return centred;
    return number_round(number_divide(centred, number_f32(deviation)), &format_f32);
}

static int run_f32v2grand(struct ref *r)
{
    uint64_t random = ref_random(r);
    for (unsigned k = 0; k < 2; k++)
        ref_write(r, 0, k, number_to_f32(normal_number((uint32_t)(random >> (32 * k)))));
    return 0;
}

static int run_f16v2grand(struct ref *r)
{
    uint64_t random = ref_random(r);
    struct number n[2] = {normal_number((uint32_t)random), normal_number((uint32_t)(random >> 32))};
    return ref_write_halves(r, 0, n, 2, 0);
}

static int mask_run(struct ref *r, unsigned count, unsigned bits)
{
    uint64_t value = ref_read64(r, 1, 0), random = ref_random(r), kept = 0;
    uint32_t c = ref_read(r, 2, 0);
    for (unsigned k = 0; k < count; k++) {
        uint64_t lane = value >> (bits * k) << (64 - bits) >> (64 - bits);
        uint32_t draw = (uint32_t)(random >> (16 * k)) & 0xffff;
        if ((c & 0x10000) != 0 || draw < (c & 0xffff))
            kept |= lane << (bits * k);
    }
    ref_write64(r, 0, 0, kept);
    return 0;
}

static int run_f16v4rmask(struct ref *r)
{
    return mask_run(r, 4, 16);
}

static int run_f32v2rmask(struct ref *r)
{
    return mask_run(r, 2, 32);
}

#endif
