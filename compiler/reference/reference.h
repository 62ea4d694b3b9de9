/* Host evaluation of the checked graph, and the comparison of device outputs with it.
 *
 * The reference computes in f32 (matrix products by BLAS). With PRECISION_DEVICE every f16 value is
 * rounded to f16 after each operation, with saturation, as the tile stores it; f16 partial sums and
 * split-K order are not reproduced (facts/numerics.md section 2). It evaluates the graph, never the
 * flow or the plan. May run on any thread; BLAS threads are set process-wide.
 */
#ifndef IPU_REFERENCE_REFERENCE_H
#define IPU_REFERENCE_REFERENCE_H

#include "base/arena.h"
#include "base/error.h"
#include "compiler/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* values[i] of the result are the elements of graph output i as f32, row-major, in the arena. */
IPU_MUST_CHECK int reference_evaluate(const struct graph *graph, unsigned blas_threads,
                                      struct arena *arena, float ***values,
                                      struct ipu_error *error);

struct reference_compare {
    bool finite;
    double maximum_absolute_error;
    double relative_rms_error; /* RMS of the difference relative to the RMS of the reference */
    double cosine;
    double reference_rms;
    uint64_t worst_element;
};

/* Compares `device` (elements of `type`) with the reference. A zero reference counts a device RMS
 * above 1e-6 as error 1. */
void reference_compare(const float *reference, const uint8_t *device, enum flow_type type,
                       uint64_t elements, struct reference_compare *out);

/* Pass rule: finite, and relative RMS error <= tolerance (default 2e-3 per GEMM depth, at least
 * one). */
double reference_tolerance(const struct graph *graph, unsigned gemm_depth);

#endif
