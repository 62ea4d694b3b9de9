/* The build of exec_f16.inc for hosts with AVX2 and F16C, and the choice between the two builds.
 *
 * F16C converts exactly as base/half.h does for the lanes that reach pack4(), and signalling NaNs
 * become quiet ones that later become canonical either way. FMA is not in the target: products and
 * sums must round as in the portable build.
 */
#include "device/sim/core.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef int16_t v4h __attribute__((vector_size(8)));

#define FAST(id) sim_exec sim_fast_##id;
#include "device/sim/fast.def"
#undef FAST
sim_fused_run sim_fast_FUSED;

static inline v4 widen4(uint64_t packed)
{
    return (v4)_mm_cvtph_ps(_mm_cvtsi64_si128((long long)packed));
}

static inline uint64_t pack4(v4 value)
{
    __m128i packed = _mm_cvtps_ph((__m128)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (uint64_t)_mm_cvtsi128_si64(packed);
}

static inline int in_range4(v4 value)
{
    __m128 magnitude = _mm_andnot_ps(_mm_set1_ps(-0.0f), (__m128)value);
    return _mm_movemask_ps(_mm_cmple_ps(magnitude, _mm_set1_ps(65504.0f))) == 15;
}

#define HANDLER(id) sim_fast_##id
#include "device/sim/exec_f16.inc"

#include "device/sim/fused.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool host_has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool sim_host_is_fast(void)
{
    return __builtin_cpu_supports("avx2") && host_has_f16c();
}

sim_exec *sim_handler(unsigned form, bool fast)
{
#define FAST(id) [ISA_##id] = sim_fast_##id,
    static sim_exec *const twins[ISA_COUNT] = {
#include "device/sim/fast.def"
    };
#undef FAST
    return fast && twins[form] ? twins[form] : sim_handlers[form];
}

sim_fused_run *sim_fused_loop(enum sim_path path)
{
    if (path == SIM_PATH_PLAIN)
        return NULL;
    return path == SIM_PATH_BEST && sim_host_is_fast() ? sim_fast_FUSED : sim_exec_FUSED;
}

#else

sim_fused_run *sim_fused_loop(enum sim_path path)
{
    return path == SIM_PATH_PLAIN ? NULL : sim_exec_FUSED;
}

bool sim_host_is_fast(void)
{
    return false;
}

sim_exec *sim_handler(unsigned form, bool fast)
{
    (void)fast;
    return sim_handlers[form];
}

#endif
