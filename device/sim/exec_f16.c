/* The portable build of exec_f16.inc: the definition of what the f16 instructions compute.
 *
 * Conversions come from base/half.h; vector types only group lanes.
 */
#include "base/half.h"

#include <stdint.h>

typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef int16_t v4h __attribute__((vector_size(8)));

static inline v4 widen4(uint64_t packed)
{
    v4 value = {half_to_float((uint16_t)packed), half_to_float((uint16_t)(packed >> 16)),
                half_to_float((uint16_t)(packed >> 32)), half_to_float((uint16_t)(packed >> 48))};
    return value;
}

/* Lanes must satisfy in_range4(). */
static inline uint64_t pack4(v4 value)
{
    return (uint64_t)half_from_float(value[0]) | (uint64_t)half_from_float(value[1]) << 16 |
           (uint64_t)half_from_float(value[2]) << 32 | (uint64_t)half_from_float(value[3]) << 48;
}

/* No NaN and nothing that could overflow. */
static inline int in_range4(v4 value)
{
    int ok = 1;
    for (unsigned i = 0; i < 4; i++)
        ok &= value[i] <= 65504.0f && value[i] >= -65504.0f;
    return ok;
}

#define HANDLER(id) sim_exec_##id
#include "device/sim/exec_f16.inc"

#include "device/sim/fused.inc"
