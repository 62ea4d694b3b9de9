/* Cycle costs of kernel calls: closed forms over the issue counts of the sources.
 *
 * Invariants: tests compare each form with the simulated tile. A worker issues one bundle in six
 * cycles, so a call costs its supervisor instructions and stalls plus six times the longest
 * worker's issue count. Cannot fail.
 */
#include "device/ipu21/memory.h"
#include "device/kernels/kernels.h"

enum { WAVE_PANEL = 96 };

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t gemm_slots(uint32_t rows_per_worker, uint32_t panels)
{
    uint32_t n = rows_per_worker, middle = panels > 2 ? panels - 2 : 0;
    if (n == 1)
        return panels == 1 ? 11 : 6 + 15 + 6 * middle;
    if (n == 2)
        return panels == 1 ? 20 : 10 + 20 + 11 * middle;
    return panels == 1 ? 4 * n + 11 : 8 * n + 12 + (4 * n + 2) * middle;
}

static uint32_t gemm_cycles(const uint32_t params[], const uint32_t args[])
{
    uint32_t inner = params[1] / 16, columns = params[2] / 16, load = params[0] ? 32 : 64;
    uint32_t slots = gemm_slots(ceil_div(args[3], IPU21_WORKERS), inner);
    return 40 + columns * (6 * slots + inner * (load + 20));
}

uint32_t kernel_copy_list_cycles(const uint32_t (*entries)[3], uint32_t count)
{
    uint32_t slots[IPU21_WORKERS] = {0}, most = 0;
    for (uint32_t i = 0; i < count; i++)
        slots[i % IPU21_WORKERS] += 8 + entries[i][2] / 4;
    for (unsigned w = 0; w < IPU21_WORKERS; w++)
        most = slots[w] > most ? slots[w] : most;
    return 60 + 6 * most;
}

static uint32_t copy_cycles(const uint32_t args[])
{
    return 120 + 6 * ceil_div(args[2], 24);
}

uint32_t kernel_cycles(const struct kernel_spec *spec, const uint32_t args[KERNEL_MAX_ARGS])
{
    switch (spec->family) {
    case KERNEL_GEMM_F16:
        return gemm_cycles(spec->params, args);
    case KERNEL_REDUCE_F16:
        return 120 + 6 * ceil_div(args[3], 48) * (9 + 2 * args[4]);
    case KERNEL_GELU_F16:
        return 120 + 222 * ceil_div(args[2], WAVE_PANEL);
    case KERNEL_RELU_F16:
    case KERNEL_GELU_F32:
    case KERNEL_RELU_F32:
    case KERNEL_CAST_F16_F32:
    case KERNEL_CAST_F32_F16:
        return 120 + 60 * ceil_div(args[2], WAVE_PANEL);
    case KERNEL_ADD_F16:
    case KERNEL_ADD_F32:
        return 120 + 72 * ceil_div(args[3], WAVE_PANEL);
    case KERNEL_ADD_ROW_F16:
    case KERNEL_BIAS_RELU_F16:
    case KERNEL_ADD_COLUMN_F16:
    case KERNEL_ADD_ROW_F32:
    case KERNEL_ADD_COLUMN_F32:
        return 120 + 72 * args[4] * ceil_div(args[3], IPU21_WORKERS);
    case KERNEL_BIAS_GELU_F16:
        return 120 + 246 * args[4] * ceil_div(args[3], IPU21_WORKERS);
    case KERNEL_COPY:
        return copy_cycles(args);
    case KERNEL_COPY_LIST:
        return 60 + 48 * ceil_div(args[1], IPU21_WORKERS);
    case KERNEL_FILL:
        return 90 + args[1] / 8;
    case KERNEL_GATHER16:
    case KERNEL_GATHER32:
        return 120 + 6 * args[3];
    case KERNEL_FAMILIES:
        break;
    }
    return 0;
}
