/* Kernel prices of the planner: the closed forms of device/kernels for the shapes that occur here.
 *
 * Counts that no kernel accepts (zero cells) cost nothing. Results saturate at UINT32_MAX / 4, so
 * that sums of a few prices never overflow 32 bits. Constant functions, any thread.
 */
#include "compiler/plan/plan_costs.h"

#include "device/kernels/kernels.h"

enum { LARGEST_ARGUMENT = 1 << 24 }; /* beyond: nothing that fits a tile */

static uint32_t clip(uint64_t cycles)
{
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}

uint32_t plan_cost_phase(uint64_t words, uint32_t runs, bool unicast)
{
    if (words == 0)
        return 0;
    unsigned doublings = 0;
    for (uint32_t n = runs; unicast && n > 1; n >>= 1)
        doublings++;
    uint64_t slack = PLAN_SCHEDULE_SLACK + doublings * PLAN_PARTNER_SLACK_EIGHTHS / 8;
    uint64_t busy = words * slack / 16, least = (uint64_t)runs * PLAN_RUN_MINIMUM;
    return clip(PLAN_PHASE_OVERHEAD + PLAN_PHASE_LATENCY + (busy > least ? busy : least));
}

static uint32_t call(enum kernel_family family, const uint32_t params[KERNEL_MAX_PARAMS],
                     const uint32_t args[KERNEL_MAX_ARGS])
{
    struct kernel_spec spec = {.family = family};
    for (unsigned i = 0; params != NULL && i < KERNEL_MAX_PARAMS; i++)
        spec.params[i] = params[i];
    return clip(kernel_cycles(&spec, args));
}

uint32_t plan_cost_gemm(uint32_t rows, uint32_t inners, uint32_t panels)
{
    if (rows > LARGEST_ARGUMENT || (uint64_t)inners * panels > LARGEST_ARGUMENT / 16)
        return UINT32_MAX / 4;
    const uint32_t params[KERNEL_MAX_PARAMS] = {1, 16 * inners, 16 * panels, rows, rows};
    const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 0, rows, 32 * rows, 32 * rows};
    return call(KERNEL_GEMM_F16, params, args);
}

uint32_t plan_cost_reduce(uint32_t cells, uint32_t parts)
{
    if (cells == 0 || parts < 2)
        return 0;
    if (cells > LARGEST_ARGUMENT)
        return UINT32_MAX / 4;
    const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 0, 16 * cells, parts};
    return call(KERNEL_REDUCE_F16, NULL, args);
}

uint32_t plan_cost_unary(enum flow_op_kind kind, enum flow_type in, enum flow_type out,
                         uint32_t cells)
{
    if (cells == 0)
        return 0;
    if (cells > LARGEST_ARGUMENT)
        return UINT32_MAX / 4;
    const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 16 * cells};
    enum kernel_family family;
    if (kind == FLOW_GELU)
        family = in == FLOW_F32 ? KERNEL_GELU_F32 : KERNEL_GELU_F16;
    else if (kind == FLOW_RELU)
        family = in == FLOW_F32 ? KERNEL_RELU_F32 : KERNEL_RELU_F16;
    else
        family = out == FLOW_F32 ? KERNEL_CAST_F16_F32 : KERNEL_CAST_F32_F16;
    return call(family, NULL, args);
}

uint32_t plan_cost_add(enum flow_broadcast broadcast, enum flow_type type, uint32_t rows,
                       uint32_t panels)
{
    if ((uint64_t)rows * panels > LARGEST_ARGUMENT)
        return UINT32_MAX / 4;
    const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 0, rows, panels};
    const uint32_t dense[KERNEL_MAX_ARGS] = {0, 0, 0, 16 * rows * panels};
    if (broadcast == FLOW_DENSE)
        return call(type == FLOW_F32 ? KERNEL_ADD_F32 : KERNEL_ADD_F16, NULL, dense);
    if (broadcast == FLOW_COLUMN)
        return call(type == FLOW_F32 ? KERNEL_ADD_COLUMN_F32 : KERNEL_ADD_COLUMN_F16, NULL, args);
    return call(type == FLOW_F32 ? KERNEL_ADD_ROW_F32 : KERNEL_ADD_ROW_F16, NULL, args);
}

uint32_t plan_cost_bias_unary(enum flow_op_kind unary, uint32_t rows, uint32_t panels)
{
    if ((uint64_t)rows * panels > LARGEST_ARGUMENT)
        return UINT32_MAX / 4;
    const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 0, rows, panels};
    return call(unary == FLOW_GELU ? KERNEL_BIAS_GELU_F16 : KERNEL_BIAS_RELU_F16, NULL, args);
}

uint32_t plan_cost_copy(uint32_t bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes > LARGEST_ARGUMENT)
        return UINT32_MAX / 4;
    const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, (bytes + 7) & ~7u};
    return call(KERNEL_COPY, NULL, args);
}

uint32_t plan_cost_gather(uint32_t elements, uint32_t element_bytes)
{
    if (elements == 0)
        return 0;
    if (elements > LARGEST_ARGUMENT)
        return UINT32_MAX / 4;
    const uint32_t args[KERNEL_MAX_ARGS] = {0, 0, 0, elements};
    return call(element_bytes == 4 ? KERNEL_GATHER32 : KERNEL_GATHER16, NULL, args);
}
