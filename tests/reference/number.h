/* Exact numbers for the reference interpreter: sign, 128-bit magnitude, power of two.
 *
 * Every operation is exact, or exact up to a sticky lowest bit that no rounding of up to 60 bits
 * can confuse; rounding to a format happens once, in number_round(). Integers only: nothing here
 * can depend on the host's floating point unit, and nothing is shared with device/sim or
 * base/half.h.
 */
#ifndef IPU_TESTS_REFERENCE_NUMBER_H
#define IPU_TESTS_REFERENCE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 wide;

enum number_kind { NUMBER_FINITE, NUMBER_INFINITE, NUMBER_NAN };

struct number {
    enum number_kind kind;
    bool negative;
    wide magnitude; /* times 2^exponent; 0 is a signed zero */
    int exponent;
};

/* A binary format: `digits` significand bits with the hidden one, unit of the subnormals 2^least,
 * largest finite value (2^digits - 1) * 2^top. */
struct format {
    int digits, least, top;
};

static const struct format format_f32 = {24, -149, 104};
static const struct format format_f16 = {11, -24, 5};

static inline int wide_bits(wide value)
{
    uint64_t high = (uint64_t)(value >> 64), low = (uint64_t)value;
    if (high != 0)
        return 128 - __builtin_clzll(high);
    return low != 0 ? 64 - __builtin_clzll(low) : 0;
}

static inline struct number number_nan(void)
{
    return (struct number){.kind = NUMBER_NAN};
}

static inline struct number number_make(bool negative, wide magnitude, int exponent)
{
    return (struct number){NUMBER_FINITE, negative, magnitude, exponent};
}

/* The value of a code of an interchange format. */
static inline struct number number_decode(uint32_t bits, int exponent_bits, int mantissa_bits)
{
    uint32_t all = (1u << exponent_bits) - 1, mantissa = bits & ((1u << mantissa_bits) - 1);
    uint32_t exponent = bits >> mantissa_bits & all;
    int bias = (int)(all >> 1);
    struct number n = {NUMBER_FINITE, (bits >> (exponent_bits + mantissa_bits) & 1) != 0, 0, 0};
    if (exponent == all) {
        n.kind = mantissa != 0 ? NUMBER_NAN : NUMBER_INFINITE;
        return n;
    }
    n.magnitude = exponent != 0 ? mantissa | 1u << mantissa_bits : mantissa;
    n.exponent = (exponent != 0 ? (int)exponent : 1) - bias - mantissa_bits;
    return n;
}

static inline struct number number_f32(uint32_t bits)
{
    return number_decode(bits, 8, 23);
}

static inline struct number number_f16(uint32_t bits)
{
    return number_decode(bits & 0xffff, 5, 10);
}

/* f8: 1-4-3 with bias 8 or 1-5-2 with bias 16, no infinity, NaN 0x80 (facts/isa_semantics.md). */
static inline struct number number_f8(uint32_t code, bool f143)
{
    int mantissa_bits = f143 ? 3 : 2, bias = f143 ? 8 : 16;
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    int exponent = (int)(code & 0x7f) >> mantissa_bits;
    if (code == 0x80)
        return number_nan();
    if (exponent != 0)
        mantissa |= 1u << mantissa_bits;
    return number_make(code > 0x80, mantissa, (exponent ? exponent : 1) - bias - mantissa_bits);
}

static inline struct number number_integer(int64_t value)
{
    return number_make(value < 0, value < 0 ? (wide)(-(value + 1)) + 1 : (wide)value, 0);
}

static inline struct number number_scale(struct number n, int power)
{
    n.exponent += power;
    return n;
}

static inline struct number number_negate(struct number n)
{
    n.negative = !n.negative;
    return n;
}

static inline struct number number_abs(struct number n)
{
    n.negative = false;
    return n;
}

static inline bool number_zero(struct number n)
{
    return n.kind == NUMBER_FINITE && n.magnitude == 0;
}

/* Shifts right, keeping whether anything was lost in the lowest bit. */
static inline wide wide_jam(wide value, int by)
{
    if (by <= 0)
        return value;
    if (by >= 127)
        return value != 0;
    wide kept = value >> by;
    return kept | ((kept << by) != value);
}

/* Brings the top bit to bit 119, so that sums have room and 60 guard bits. */
static inline struct number number_normal(struct number n)
{
    int by = 120 - wide_bits(n.magnitude);
    n.magnitude <<= by;
    n.exponent -= by;
    return n;
}

static inline struct number number_add_finite(struct number b, struct number c)
{
    if (b.magnitude == 0 || c.magnitude == 0) {
        struct number n = b.magnitude == 0 ? c : b;
        if (n.magnitude == 0)
            n.negative = b.negative && c.negative;
        return n;
    }
    b = number_normal(b);
    c = number_normal(c);
    if (b.exponent < c.exponent) {
        struct number swap = b;
        b = c;
        c = swap;
    }
    c.magnitude = wide_jam(c.magnitude, b.exponent - c.exponent);
    if (b.negative == c.negative) {
        b.magnitude += c.magnitude;
    } else if (b.magnitude >= c.magnitude) {
        b.magnitude -= c.magnitude;
    } else {
        b.magnitude = c.magnitude - b.magnitude;
        b.negative = c.negative;
    }
    if (b.magnitude == 0)
        b.negative = false;
    return b;
}

static inline struct number number_add(struct number b, struct number c)
{
    if (b.kind == NUMBER_NAN || c.kind == NUMBER_NAN)
        return number_nan();
    if (b.kind == NUMBER_INFINITE && c.kind == NUMBER_INFINITE && b.negative != c.negative)
        return number_nan();
    if (b.kind == NUMBER_INFINITE || c.kind == NUMBER_INFINITE)
        return b.kind == NUMBER_INFINITE ? b : c;
    return number_add_finite(b, c);
}

/* Factors of at most 60 bits each. */
static inline struct number number_multiply(struct number b, struct number c)
{
    if (b.kind == NUMBER_NAN || c.kind == NUMBER_NAN)
        return number_nan();
    if (b.kind == NUMBER_INFINITE || c.kind == NUMBER_INFINITE) {
        if (number_zero(b) || number_zero(c))
            return number_nan();
        return (struct number){.kind = NUMBER_INFINITE, .negative = b.negative != c.negative};
    }
    return number_make(b.negative != c.negative, b.magnitude * c.magnitude,
                       b.exponent + c.exponent);
}

/* A quotient of finite numbers of at most 30 bits, c not 0, with a sticky bit. */
static inline struct number number_divide(struct number b, struct number c)
{
    wide shifted = b.magnitude << 90, quotient = shifted / c.magnitude;
    quotient = quotient << 1 | (shifted % c.magnitude != 0);
    return number_make(b.negative != c.negative, quotient, b.exponent - 91 - c.exponent);
}

/* The square root of a finite positive number of at most 30 bits, with a sticky bit. */
static inline struct number number_root(struct number b)
{
    int by = (b.exponent & 1) != 0 ? 91 : 90;
    wide square = b.magnitude << by, root = 0;
    for (wide bit = (wide)1 << 62; bit != 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= square)
            root |= bit;
    return number_make(false, root << 1 | (root * root != square), (b.exponent - by) / 2 - 1);
}

/* -1, 0, 1; 2 when one of them is NaN. */
static inline int number_compare(struct number b, struct number c)
{
    if (b.kind == NUMBER_NAN || c.kind == NUMBER_NAN)
        return 2;
    if (b.kind == NUMBER_INFINITE && c.kind == NUMBER_INFINITE && b.negative == c.negative)
        return 0;
    struct number difference = number_add(b, number_negate(c));
    if (number_zero(difference))
        return 0;
    return difference.negative ? -1 : 1;
}

/* How digits below the last place are rounded. */
enum rounding { ROUND_NEAREST_EVEN, ROUND_UP, ROUND_DOWN, ROUND_TO_ZERO };

/* The integer nearest to a finite number in units of 2^unit, without its sign. */
static inline wide number_quantum(struct number n, int unit, enum rounding how)
{
    int by = unit - n.exponent;
    if (by <= 0)
        return n.magnitude << -by;
    if (by > 125) {
        bool away = n.magnitude != 0 && how == (n.negative ? ROUND_DOWN : ROUND_UP);
        return away ? 1 : 0;
    }
    wide kept = n.magnitude >> by, lost = n.magnitude - (kept << by), half = (wide)1 << (by - 1);
    bool up = false;
    switch (how) {
    case ROUND_NEAREST_EVEN:
        up = lost > half || (lost == half && (kept & 1) != 0);
        break;
    case ROUND_UP:
        up = lost != 0 && !n.negative;
        break;
    case ROUND_DOWN:
        up = lost != 0 && n.negative;
        break;
    case ROUND_TO_ZERO:
        break;
    }
    return kept + up;
}

/* The unit of the last place of a finite number in a format. */
static inline int number_unit(struct number n, const struct format *f)
{
    int unit = n.exponent + wide_bits(n.magnitude) - f->digits;
    return unit < f->least ? f->least : unit;
}

static inline bool number_overflows(struct number n, const struct format *f)
{
    int bits = wide_bits(n.magnitude);
    return n.magnitude != 0 && n.exponent + bits > f->top + f->digits;
}

/* Rounds to nearest even; infinite when the rounded value is beyond the format. */
static inline struct number number_round(struct number n, const struct format *f)
{
    if (n.kind != NUMBER_FINITE || n.magnitude == 0)
        return n;
    int unit = number_unit(n, f);
    n.magnitude = number_quantum(n, unit, ROUND_NEAREST_EVEN);
    n.exponent = unit;
    if (number_overflows(n, f))
        n.kind = NUMBER_INFINITE;
    return n;
}

/* The code of a number that the format holds; NaN is the canonical quiet one. */
static inline uint32_t number_encode(struct number n, const struct format *f)
{
    int mantissa_bits = f->digits - 1, all = f->top - f->least + 2;
    uint32_t sign = n.negative ? (uint32_t)((f->digits == 24 ? 0x80000000u : 0x8000u)) : 0;
    if (n.kind == NUMBER_NAN)
        return (uint32_t)all << mantissa_bits | 1u << (mantissa_bits - 1);
    if (n.kind == NUMBER_INFINITE)
        return sign | (uint32_t)all << mantissa_bits;
    if (n.magnitude == 0)
        return sign;
    int unit = number_unit(n, f);
    uint32_t mantissa = (uint32_t)number_quantum(n, unit, ROUND_TO_ZERO);
    uint32_t biased = (uint32_t)(unit - f->least) + (mantissa >> mantissa_bits);
    return sign | (biased << mantissa_bits) | (mantissa & ((1u << mantissa_bits) - 1));
}

static inline uint32_t number_to_f32(struct number n)
{
    return number_encode(number_round(n, &format_f32), &format_f32);
}

#endif
