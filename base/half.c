/* binary16 conversions: see half.h. Integer arithmetic only, so that no compiler flag changes the
 * bits. */
#include "base/half.h"

#include <string.h>

float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t mantissa = half & 1023u;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else if (mantissa) {
        unsigned shift = (unsigned)__builtin_clz(mantissa) - 21;
        bits = sign | (113 - shift) << 23 | ((mantissa << shift) & 1023u) << 13;
    } else {
        bits = sign;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t half_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    if (rest >= 0x7f800000u)
        return (uint16_t)(sign | 0x7c00u |
                          (rest > 0x7f800000u ? 0x200u | ((rest >> 13) & 1023u) : 0));
    if (rest >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        /* Subnormal result: value = mantissa * 2^(exponent - 150), a unit of the last place is
         * 2^-24. */
        uint32_t exponent = rest >> 23;
        if (exponent < 101)
            return (uint16_t)sign;
        uint32_t mantissa = (rest & 0x7fffffu) | 0x800000u;
        unsigned shift = 126 - exponent;
        uint32_t kept = mantissa >> shift;
        uint32_t lost = mantissa & ((1u << shift) - 1), tie = 1u << (shift - 1);
        kept += lost > tie || (lost == tie && (kept & 1));
        return (uint16_t)(sign | kept);
    }
    uint32_t rounded = rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1);
    return (uint16_t)(sign | rounded >> 13);
}

uint16_t half_from_float_saturate(float value)
{
    uint16_t half = half_from_float(value);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((half & 0x7fffu) == 0x7c00u && (bits & 0x7fffffffu) < 0x7f800000u)
        return (uint16_t)((half & 0x8000u) | 0x7bffu);
    return half;
}
