/* Kernel prices of the planner: thin wrappers around the closed forms of device/kernels.
 *
 * Counts that no kernel accepts (zero cells) cost nothing. Results saturate at UINT32_MAX / 4, so
 * that sums of a few prices never overflow 32 bits. Constant functions, any thread.
 */
#include "compiler/plan/plan_costs.h"

static uint32_t clip(uint64_t cycles)
{
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}

uint32_t plan_cost_gemm(uint32_t rows, uint32_t inners, uint32_t panels)
{
    return clip(294 + (uint64_t)inners * panels * (4ull * rows + 100));
}

uint32_t plan_cost_reduce(uint32_t cells, uint32_t parts)
{
    if (cells == 0 || parts < 2)
        return 0;
    uint64_t waves = (16ull * cells + 47) / 48;
    return clip(200 + waves * 6 * (11 + 2ull * (parts - 1)));
}

uint32_t plan_cost_unary(enum flow_op_kind kind, enum flow_type in, enum flow_type out,
                         uint32_t cells)
{
    if (cells == 0)
        return 0;
    uint64_t waves = (16ull * cells + 95) / 96;
    uint64_t per = kind == FLOW_GELU ? 480 : 100;
    if (in == FLOW_F32 || out == FLOW_F32)
        per *= 2;
    return clip(200 + waves * per);
}

uint32_t plan_cost_add(enum flow_broadcast broadcast, enum flow_type type, uint32_t rows,
                       uint32_t panels)
{
    (void)broadcast;
    uint64_t waves = ((uint64_t)rows * panels + 5) / 6;
    if (waves == 0)
        return 0;
    return clip(220 + waves * (type == FLOW_F32 ? 160 : 100));
}

uint32_t plan_cost_bias_unary(enum flow_op_kind unary, uint32_t rows, uint32_t panels)
{
    uint64_t waves = ((uint64_t)rows * panels + 5) / 6;
    return clip(240 + waves * (unary == FLOW_GELU ? 520 : 120));
}

uint32_t plan_cost_copy(uint32_t bytes)
{
    return bytes == 0 ? 0 : clip(160 + (uint64_t)bytes / 6);
}

uint32_t plan_cost_gather(uint32_t elements, uint32_t element_bytes)
{
    if (elements == 0)
        return 0;
    return clip(200 + (uint64_t)elements * (element_bytes == 4 ? 4 : 5));
}
