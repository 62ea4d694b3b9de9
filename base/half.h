/* IEEE binary16 conversions in software: the same bits on every host and thread. */
#ifndef IPU_BASE_HALF_H
#define IPU_BASE_HALF_H

#include <stdint.h>

/* Exact widening; NaN payloads are kept in the upper mantissa bits. */
float half_to_float(uint16_t half);
/* Round to nearest even; overflow gives infinity; NaN stays NaN (quiet). Subnormals supported. */
uint16_t half_from_float(float value);
/* The same, but overflow of a finite value saturates to +-65504, as the tile does with FP_CTL.NANOO
 * = 0. */
uint16_t half_from_float_saturate(float value);

#endif
