/* AMP, SLIC and accumulator-transpose flags: numbers of flags.def and their decoders.
 *
 * Everything here is constant. The numbers are ours ([G], flag set 1; see flags.def); a package
 * records the set it was built with, so that a machine with the vendor's numbers can refuse it.
 */
#ifndef IPU_IPU21_FLAGS_H
#define IPU_IPU21_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IPU21_FLAG_SET = 1 };

enum ipu21_flag {
#define FLAG(name, value) name = (value),
#include "device/ipu21/flags.def"
#undef FLAG
};

struct ipu21_amp_flags {
    uint8_t phase;   /* 0..3 (f16v4, f8v8) or 0..7 (f32) */
    uint8_t engines; /* 4, 2 or 1; twice as many units of each set take part */
};

struct ipu21_slic_flags {
    uint8_t bank;   /* CWEI slot m, 0..3 */
    uint8_t window; /* 3 or 4 taps */
    bool upper;     /* f32 only: the instruction that adds the high word's product */
};

/* Decode an operand; false when no name of flags.def has that number for that element type. */
static inline bool ipu21_amp_decode(uint32_t flags, bool f32, struct ipu21_amp_flags *out)
{
    out->phase = flags & 7;
    out->engines = (uint8_t)(4u >> (flags >> 3 & 3));
    return flags < 24 && (f32 || out->phase < 4);
}

static inline bool ipu21_slic_decode(uint32_t flags, bool f32, struct ipu21_slic_flags *out)
{
    out->bank = flags & 3;
    out->window = (flags & 4) != 0 ? 4 : 3;
    out->upper = (flags & 8) != 0;
    return flags < (f32 ? 16u : 8u);
}

#endif
