/* Cycle costs of kernel calls: closed forms over the issue counts of the sources.
 *
 * Invariants: tests compare every form with the simulated tile. A worker issues one bundle in six
 * cycles, so a call with one launch costs a constant and six times the longest worker's issue
 * count; the worst phase of the barrel counts (see kernels.h). GEMM is in cost_gemm.c. Cannot fail.
 */
#include "device/kernels/cost.h"

#include "device/ipu21/memory.h"
#include "device/ipu21/timing.h"
#include "device/kernels/kernels.h"

/* Call, two instructions, launch, join, return: everything but the slots of the longest worker. */
enum {
    CALL = 2 * IPU21_SUPERVISOR_BRANCH + IPU21_SUPERVISOR_DEPENDENCY + IPU21_WORKER_LAUNCH +
           IPU21_SYNC_LOCAL - 1,
    PACED_MINIMUM = 256 /* bytes: six atoms a worker */
};

static uint32_t call(uint32_t slots)
{
    return CALL + IPU21_SLOTS * slots;
}

/* Units of the busiest worker. */
static uint32_t share(uint32_t units)
{
    return cost_ceil_div(units, IPU21_WORKERS);
}

static uint32_t reduce_narrow_slots(const uint32_t args[])
{
    uint32_t n = share(args[3] / 4), partials = args[4];
    if (partials <= 2)
        return (partials == 1 ? 11 : 9) + 3 * n;
    return 12 + (partials + 3) * n;
}

static uint32_t reduce_wide_slots(const uint32_t args[])
{
    return 16 + (args[4] + 4) * share(args[3] / 8);
}

bool cost_reduce_wide(const uint32_t args[])
{
    return args[0] >= IPU21_REGION1_BASE && args[4] >= 3 &&
           reduce_wide_slots(args) < reduce_narrow_slots(args);
}

static uint32_t reduce_cycles(const uint32_t args[])
{
    return call(cost_reduce_wide(args) ? reduce_wide_slots(args) : reduce_narrow_slots(args));
}

static uint32_t gelu_slots(uint32_t n)
{
    return n == 1 ? 16 : 9 + 8 * n;
}

static uint32_t bias_gelu_slots(uint32_t columns, uint32_t rows)
{
    return 12 + columns * (rows == 1 ? 19 : 13 + 9 * rows);
}

/* Without pointers the plain path is priced. */
bool cost_copy_paced(const uint32_t args[])
{
    uint32_t from = args[0], to = args[1], bytes = args[2];
    return from && to && bytes >= PACED_MINIMUM &&
           ((from + bytes - 1) >> 15 < to >> 15 || (to + bytes - 1) >> 15 < from >> 15);
}

static uint32_t copy_cycles(const uint32_t args[])
{
    uint32_t n = share(args[2] / 8);
    return cost_copy_paced(args) ? call(10 + n) : call(6 + 2 * n);
}

uint32_t kernel_copy_list_cycles(const uint32_t (*entries)[3], uint32_t count)
{
    uint32_t slots[IPU21_WORKERS] = {0}, most = 0;
    for (uint32_t i = 0; i < count; i++)
        slots[i % IPU21_WORKERS] += 6 + entries[i][2] / 4;
    for (unsigned w = 0; w < IPU21_WORKERS; w++)
        most = slots[w] > most ? slots[w] : most;
    return call(13 + most);
}

static uint32_t elementwise_cycles(enum kernel_family family, uint32_t count)
{
    switch (family) {
    case KERNEL_GELU_F16:
        return call(gelu_slots(share(count / 4)));
    case KERNEL_RELU_F16:
        return call(6 + 2 * share(count / 4));
    case KERNEL_RELU_F32:
        return call(6 + 2 * share(count / 2));
    case KERNEL_GELU_F32:
        return call(7 + 18 * share(count / 2));
    case KERNEL_ADD_F16:
        return call(7 + 3 * share(count / 4));
    case KERNEL_ADD_F32:
        return call(7 + 3 * share(count / 2));
    case KERNEL_CAST_F16_F32:
        return call(6 + 3 * share(count / 4));
    case KERNEL_CAST_F32_F16:
        return call(7 + 3 * share(count / 4));
    case KERNEL_GATHER16:
        return call(6 + 6 * share(count / 2));
    default:
        return call(6 + 5 * share(count / 2)); /* GATHER32 */
    }
}

static uint32_t vector_cycles(enum kernel_family family, uint32_t rows, uint32_t panels)
{
    switch (family) {
    case KERNEL_ADD_ROW_F16:
        return call(9 + share(4 * panels) * (10 + 2 * rows));
    case KERNEL_ADD_ROW_F32:
        return call(9 + share(8 * panels) * (10 + 2 * rows));
    case KERNEL_BIAS_RELU_F16:
        return call(10 + share(4 * panels) * (11 + 2 * rows));
    case KERNEL_BIAS_GELU_F16:
        return call(bias_gelu_slots(share(4 * panels), rows));
    case KERNEL_ADD_COLUMN_F16:
        return call(9 + share(rows) * (6 + 8 * panels));
    default:
        return call(9 + share(rows) * (6 + 16 * panels)); /* ADD_COLUMN_F32 */
    }
}

uint32_t kernel_cycles(const struct kernel_spec *spec, const uint32_t args[KERNEL_MAX_ARGS])
{
    switch (spec->family) {
    case KERNEL_GEMM_F16:
        return cost_gemm(spec->params, args);
    case KERNEL_REDUCE_F16:
        return reduce_cycles(args);
    case KERNEL_GELU_F16:
    case KERNEL_RELU_F16:
    case KERNEL_GELU_F32:
    case KERNEL_RELU_F32:
    case KERNEL_CAST_F16_F32:
    case KERNEL_CAST_F32_F16:
        return elementwise_cycles(spec->family, args[2]);
    case KERNEL_ADD_F16:
    case KERNEL_ADD_F32:
    case KERNEL_GATHER16:
    case KERNEL_GATHER32:
        return elementwise_cycles(spec->family, args[3]);
    case KERNEL_ADD_ROW_F16:
    case KERNEL_ADD_ROW_F32:
    case KERNEL_BIAS_RELU_F16:
    case KERNEL_BIAS_GELU_F16:
    case KERNEL_ADD_COLUMN_F16:
    case KERNEL_ADD_COLUMN_F32:
        return vector_cycles(spec->family, args[3], args[4]);
    case KERNEL_COPY:
        return copy_cycles(args);
    case KERNEL_COPY_LIST:
        return call(13 + 6 * share(args[1]));
    case KERNEL_FILL:
        return call(6 + share(args[1] / 8));
    case KERNEL_FAMILIES:
        break;
    }
    return 0;
}
