/* What f16 rounding may do to the values of a flow: variances carried along with the evaluation.
 *
 * Sums of positive and negative terms cancel, and then a rounding error that is small beside the
 * terms is large beside the sum: no fixed bound on the relative error of a result holds for every
 * flow. Here each device rounding adds its variance (of an error uniform in half a unit in the last
 * place) to that of its operands: a product rounds its partial after each inner panel of 16, other
 * operations once, GELU also errs by a share of its argument (docs/KERNELS.md). The estimate knows
 * nothing of plans. */
#ifndef IPU_TESTS_CODEGEN_SPREAD_H
#define IPU_TESTS_CODEGEN_SPREAD_H

#include "compiler/graph/flow.h"

#include <math.h>
#include <stdint.h>

/* Variance of rounding `value` to a type. */
static inline double spread_round(enum flow_type type, double value)
{
    double unit = type == FLOW_F32 ? ldexp(1, -24) : ldexp(1, -11), least = ldexp(1, -25);
    double half = fabs(value) * unit;
    half = half > least ? half : least;
    return half * half / 3;
}

/* One element of a product: its operands' variances and the roundings of its partials. `x` and `w`
 * point at the first factors, `dx` and `dw` at their variances; w is `stride` elements apart. A
 * partial of a reordered or split sum may be as large as the terms make it, so its size is taken
 * from them and not from the sum. */
static inline double spread_product(const double *x, const double *dx, const double *w,
                                    const double *dw, uint64_t depth, uint64_t stride)
{
    double variance = 0, power = 0, sum = 0;
    for (uint64_t k = 0; k < depth; k++) {
        double a = x[k], b = w[k * stride];
        variance += a * a * dw[k * stride] + b * b * dx[k];
        power += a * a * b * b;
        sum += a * b;
        if (k % 16 == 15 || k + 1 == depth)
            variance += spread_round(FLOW_F16, sqrt(power > sum * sum ? power : sum * sum));
    }
    return variance;
}

static inline double spread_gelu(double x, double dx)
{
    enum { SHARE = 2048 }; /* the kernel's tanh is f16: an error of 1 / SHARE of x / 2 */
    double u = 0.7978845608 * (x + 0.044715 * x * x * x), t = tanh(u);
    double slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608 * (1 + 0.134145 * x * x);
    double kernel = x / 2 / SHARE;
    return slope * slope * dx + kernel * kernel;
}

#endif
