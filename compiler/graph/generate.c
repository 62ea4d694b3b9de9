/* Host data: raw bytes, constants and the seeded normal generator.
 *
 * The generator is a pure function of (seed, index): SplitMix64 makes 64 uniform bits from seed XOR
 * mixed index, and the inverse normal distribution (Wichura's AS 241, PPND16; relative accuracy
 * about 1e-16) turns them into a draw, so that any shard or sample of a tensor can be made alone
 * (facts/numerics.md section 1). Data are refused when they hold NaN or infinity.
 */
#include "compiler/graph/graph.h"

#include "base/half.h"
#include "base/hash.h"

#include <math.h>
#include <string.h>

static double rational(const double n[8], const double d[8], double x)
{
    double top = n[7], bottom = d[7];
    for (int i = 6; i >= 0; i--) {
        top = top * x + n[i];
        bottom = bottom * x + d[i];
    }
    return top / bottom;
}

static double inverse_normal(double p)
{
    static const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[8] = {1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
    static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * rational(a, b, 0.180625 - q * q);
    double r = sqrt(-log(q < 0 ? p : 1 - p));
    double x = r <= 5 ? rational(c, d, r - 1.6) : rational(e, f, r - 5);
    return q < 0 ? -x : x;
}

double graph_normal(uint64_t seed, uint64_t index)
{
    uint64_t bits = hash64_mix((seed ^ index) + 0x9e3779b97f4a7c15u);
    return inverse_normal(((double)(bits >> 11) + 0.5) * 0x1p-53);
}

static void store(uint8_t *out, enum flow_type type, uint64_t i, double value)
{
    if (type == FLOW_F16) {
        uint16_t half = half_from_float_saturate((float)value);
        memcpy(out + 2 * i, &half, sizeof half);
    } else {
        float single = (float)value;
        memcpy(out + 4 * i, &single, sizeof single);
    }
}

static bool finite_at(const uint8_t *data, enum flow_type type, uint64_t i)
{
    if (type == FLOW_F16) {
        uint16_t half;
        memcpy(&half, data + 2 * i, sizeof half);
        return (half & 0x7c00u) != 0x7c00u;
    }
    uint32_t bits;
    memcpy(&bits, data + 4 * i, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

static int fail(const struct graph_value *v, struct ipu_error *error, uint64_t element)
{
    return ipu_error_set(error, IPU_ERR_INVALID,
                         "%s %s: element %llu is NaN or infinite; every element must be finite",
                         v->parameter ? "parameter" : "input", v->name,
                         (unsigned long long)element);
}

static int check_scale(const struct graph_value *v, double scale, struct ipu_error *error)
{
    if (isfinite(scale) && fabs(scale) <= 60000)
        return 0;
    return ipu_error_set(error, IPU_ERR_INVALID,
                         "%s %s: scale or constant must be finite and at most 60000",
                         v->parameter ? "parameter" : "input", v->name);
}

static int generate(const struct graph_value *v, uint8_t *out, struct ipu_error *error)
{
    const Ipu__Workload__Data *data = v->data;
    if (data->source_case == IPU__WORKLOAD__DATA__SOURCE_CONSTANT) {
        for (uint64_t i = 0; i < v->elements; i++)
            store(out, v->type, i, data->constant);
        return check_scale(v, data->constant, error);
    }
    double scale = data->generator->scale;
    if (scale == 0)
        scale = v->parameter && v->rank >= 2 ? 1 / sqrt((double)v->shape[v->rank - 2]) : 1;
    int rc = check_scale(v, scale, error);
    for (uint64_t i = 0; rc == 0 && i < v->elements; i++)
        store(out, v->type, i, scale * graph_normal(data->generator->seed, i));
    return rc;
}

int graph_host_data(const struct graph *graph, uint32_t value, struct arena *arena,
                    const uint8_t **data, uint64_t *bytes, struct ipu_error *error)
{
    const struct graph_value *v = &graph->values[value];
    *bytes = v->elements * (v->type == FLOW_F16 ? 2 : 4);
    if (v->data->source_case == IPU__WORKLOAD__DATA__SOURCE_RAW) {
        *data = v->data->raw.data;
    } else {
        uint8_t *out = arena_calloc(arena, 1, *bytes);
        if (!out)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "%s: out of memory for %llu bytes",
                                 v->name, (unsigned long long)*bytes);
        int rc = generate(v, out, error);
        if (rc < 0)
            return rc;
        *data = out;
    }
    for (uint64_t i = 0; i < v->elements; i++)
        if (!finite_at(*data, v->type, i))
            return fail(v, error, i);
    return 0;
}
