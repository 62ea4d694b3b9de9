/* The accesses of each kernel family, from the argument descriptions of kernels.def. */
#include "compiler/lower/verify.h"

static uint32_t number(const struct program_call *call, unsigned arg)
{
    return call->args[arg].value;
}

static struct kernel_access reads(unsigned arg, uint32_t bytes)
{
    return (struct kernel_access){arg, false, 1, bytes, 0};
}

static struct kernel_access writes(unsigned arg, uint32_t bytes)
{
    return (struct kernel_access){arg, true, 1, bytes, 0};
}

static unsigned gemm_accesses(const struct kernel_spec *spec, const struct program_call *call,
                              struct kernel_access access[])
{
    uint32_t inners = spec->params[1] / 16, panels = spec->params[2] / 16, rows = number(call, 3);
    access[0] = (struct kernel_access){0, false, inners, rows * 32, number(call, 4)};
    access[1] = reads(1, inners * panels * 512);
    access[2] = (struct kernel_access){2, true, panels, rows * 32, number(call, 5)};
    return 3;
}

static unsigned reduce_accesses(const struct program_call *call, struct kernel_access access[])
{
    uint32_t bytes = number(call, 3) * 2;
    access[0] = (struct kernel_access){0, false, number(call, 4), bytes, number(call, 1)};
    access[1] = writes(2, bytes);
    return 2;
}

static unsigned unary_accesses(const struct program_call *call, uint32_t in, uint32_t out,
                               struct kernel_access access[])
{
    access[0] = reads(0, number(call, 2) * in);
    access[1] = writes(1, number(call, 2) * out);
    return 2;
}

/* x[rows x panels] and a second operand of `second` cells. */
static unsigned broadcast_accesses(const struct program_call *call, uint32_t cell, uint32_t second,
                                   struct kernel_access access[])
{
    uint32_t bytes = number(call, 3) * number(call, 4) * cell;
    access[0] = reads(0, bytes);
    access[1] = reads(1, second * cell);
    access[2] = writes(2, bytes);
    return 3;
}

static unsigned add_accesses(const struct program_call *call, uint32_t size,
                             struct kernel_access access[])
{
    uint32_t bytes = number(call, 3) * size;
    access[0] = reads(0, bytes);
    access[1] = reads(1, bytes);
    access[2] = writes(2, bytes);
    return 3;
}

unsigned kernel_accesses(const struct kernel_spec *spec, const struct program_call *call,
                         struct kernel_access access[KERNEL_MAX_ACCESSES])
{
    switch (spec->family) {
    case KERNEL_GEMM_F16:
        return gemm_accesses(spec, call, access);
    case KERNEL_REDUCE_F16:
        return reduce_accesses(call, access);
    case KERNEL_GELU_F16:
    case KERNEL_RELU_F16:
        return unary_accesses(call, 2, 2, access);
    case KERNEL_GELU_F32:
    case KERNEL_RELU_F32:
        return unary_accesses(call, 4, 4, access);
    case KERNEL_CAST_F16_F32:
        return unary_accesses(call, 2, 4, access);
    case KERNEL_CAST_F32_F16:
        return unary_accesses(call, 4, 2, access);
    case KERNEL_ADD_F16:
        return add_accesses(call, 2, access);
    case KERNEL_ADD_F32:
        return add_accesses(call, 4, access);
    case KERNEL_ADD_ROW_F16:
    case KERNEL_BIAS_GELU_F16:
    case KERNEL_BIAS_RELU_F16:
        return broadcast_accesses(call, 32, number(call, 4), access);
    case KERNEL_ADD_ROW_F32:
        return broadcast_accesses(call, 64, number(call, 4), access);
    case KERNEL_ADD_COLUMN_F16:
        return broadcast_accesses(call, 32, number(call, 3), access);
    case KERNEL_ADD_COLUMN_F32:
        return broadcast_accesses(call, 64, number(call, 3), access);
    case KERNEL_COPY:
        access[0] = reads(0, number(call, 2));
        access[1] = writes(1, number(call, 2));
        return 2;
    case KERNEL_FILL:
        access[0] = writes(0, number(call, 1));
        return 1;
    default:
        return 0;
    }
}
