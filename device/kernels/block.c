/* Argument blocks: the arguments of a call turned into what the worker code wants to find.
 *
 * Invariant: worker w of six takes units w, w + 6, ... of its kernel, so a record holds pointers to
 * its first unit and a count. The record layouts stand in the sources (device/kernels/X.S); tests
 * run every kernel through its block. Fails by returning false: see kernels.h.
 */
#include "device/kernels/cost.h"
#include "device/kernels/kernels.h"

#include "device/ipu21/memory.h"
#include "device/runtime/runtime.h"

#include <string.h>

enum { ATOM = 8, SPILL = 0x40 /* gemm_f16.S */ };

enum kind { WHOLE, UNARY, BINARY, ROW, COLUMN, GATHER, REDUCE, COPY, FILL };

/* Record kind, words of a record (of the block where WHOLE), elements of a unit, bytes of a unit of
 * input and output; ROW, COLUMN: bytes of a cell; GATHER: bytes of an element. */
static const struct layout {
    uint8_t kind, words, elements, in, out;
} layouts[KERNEL_FAMILIES] = {[KERNEL_GEMM_F16] = {WHOLE, 8, 0, 0, 0},
                              [KERNEL_REDUCE_F16] = {REDUCE, 6, 4, 8, 8},
                              [KERNEL_GELU_F16] = {UNARY, 3, 4, 8, 8},
                              [KERNEL_RELU_F16] = {UNARY, 3, 4, 8, 8},
                              [KERNEL_ADD_F16] = {BINARY, 4, 4, 8, 8},
                              [KERNEL_ADD_ROW_F16] = {ROW, 7, 0, 32, 32},
                              [KERNEL_BIAS_GELU_F16] = {ROW, 7, 0, 32, 32},
                              [KERNEL_BIAS_RELU_F16] = {ROW, 7, 0, 32, 32},
                              [KERNEL_ADD_COLUMN_F16] = {COLUMN, 7, 0, 32, 32},
                              [KERNEL_GELU_F32] = {UNARY, 3, 2, 8, 8},
                              [KERNEL_RELU_F32] = {UNARY, 3, 2, 8, 8},
                              [KERNEL_ADD_F32] = {BINARY, 4, 2, 8, 8},
                              [KERNEL_ADD_ROW_F32] = {ROW, 7, 0, 64, 64},
                              [KERNEL_ADD_COLUMN_F32] = {COLUMN, 7, 0, 64, 64},
                              [KERNEL_CAST_F16_F32] = {UNARY, 3, 4, 8, 16},
                              [KERNEL_CAST_F32_F16] = {UNARY, 3, 4, 16, 8},
                              [KERNEL_COPY] = {COPY, 4, 0, 8, 8},
                              [KERNEL_COPY_LIST] = {WHOLE, 2, 0, 0, 0},
                              [KERNEL_FILL] = {FILL, 3, 0, 8, 8},
                              [KERNEL_GATHER16] = {GATHER, 4, 2, 2, 2},
                              [KERNEL_GATHER32] = {GATHER, 4, 2, 4, 4}};

unsigned kernel_block_words(enum kernel_family family)
{
    const struct layout *l = &layouts[family];
    return l->kind == WHOLE ? l->words : (unsigned)IPU21_WORKERS * l->words;
}

/* How many of `units` worker w takes. */
static uint32_t share(uint32_t units, uint32_t w)
{
    return (units + IPU21_WORKERS - 1 - w) / IPU21_WORKERS;
}

/* Where worker w starts when a unit has `bytes`. */
static uint32_t at(uint32_t base, uint32_t w, uint32_t bytes)
{
    return base + w * bytes;
}

/* --- GEMM ------------------------------------------------------------------------------------ */

static uint32_t stride_word(const struct kernel_spec *spec, uint32_t x_stride, uint32_t rows)
{
    bool far = (spec->params[0] & 2) || spec->params[4] > 128;
    if (far)
        return x_stride - 32 * rows;
    uint32_t back = 1 - 4 * rows;
    return (back & 0x3ff) << 10 | ((x_stride / ATOM + back) & 0x3ff);
}

static bool gemm_reaches(const struct kernel_spec *spec, const uint32_t args[])
{
    uint32_t rows = args[3];
    if (rows == 0 || rows > KERNEL_GEMM_MAX_ROWS ||
        (rows != spec->params[3] && rows != spec->params[4]))
        return false;
    bool near = !(spec->params[0] & 2) && spec->params[4] <= 128;
    return !near || spec->params[1] == 16 || rows <= 12 || args[4] <= KERNEL_GEMM_NEAR_STRIDE;
}

static void gemm_block(const struct kernel_spec *spec, const uint32_t args[], uint32_t block[])
{
    uint32_t x = args[0], rows = args[3], x_stride = args[4];
    uint32_t n = cost_ceil_div(rows, IPU21_WORKERS), tail = rows % n;
    uint32_t last = x + (n <= 2 ? (spec->params[1] / 16 - 1) * x_stride : 0);
    block[0] = args[1];
    block[1] = x;
    block[2] = x_stride;
    block[3] = args[2] - last;
    block[4] = rows != spec->params[3];
    block[5] = n <= 2 ? RT_WORKER_SCRATCH + SPILL - last : stride_word(spec, x_stride, n);
    block[6] = n <= 2 ? 0 : stride_word(spec, x_stride, tail);
    block[7] = args[5];
}

/* --- records --------------------------------------------------------------------------------- */

static void reduce_record(const uint32_t a[], uint32_t w, uint32_t r[])
{
    bool wide = cost_reduce_wide(a);
    uint32_t unit = wide ? 2 * ATOM : ATOM, n = share(2 * a[3] / unit, w);
    uint32_t partials = a[4], stride = a[1];
    r[0] = at(a[0], w, unit);
    r[1] = at(a[2], w, unit);
    r[2] = partials == 2 ? n : wide || partials == 1 ? 0u - 1 - n : n - 1;
    r[3] = partials == 1 ? 0u - 1 : partials - 2;
    r[4] = partials == 2 ? r[0] + stride : stride / unit;
    r[5] = IPU21_WORKERS - (partials - 1) * (stride / unit);
}

/* The two addresses of ldst64pace as tapack would pack them: load, then store in the upper bits. */
static void copy_record(const uint32_t a[], uint32_t w, uint32_t r[])
{
    uint32_t n = share(a[2] / ATOM, w), from = at(a[0], w, ATOM), to = at(a[1], w, ATOM);
    bool paced = cost_copy_paced(a);
    r[0] = paced ? 0u - n : n;
    r[1] = paced ? (from + IPU21_WORKERS * ATOM) | (to & 0x7ff) << 21 : from;
    r[2] = paced ? (to >> 11 & 0x3ff) << 21 : to;
    r[3] = from;
}

/* x, vector, out, rows, panels: see bias.inc. */
static void row_record(const uint32_t a[], uint32_t w, uint32_t cell, uint32_t r[])
{
    const uint32_t words[] = {a[0], a[2],        a[1],    share(a[4] * (cell / ATOM), w) - 1,
                              a[3], a[3] * cell, ATOM * w};
    memcpy(r, words, sizeof words);
}

static void column_record(const uint32_t a[], uint32_t w, uint32_t cell, uint32_t r[])
{
    const uint32_t words[] = {
        a[0], a[2], a[1], share(a[3], w) - 1, a[4], (a[3] - 1) * (cell / ATOM) + 1, cell * w};
    memcpy(r, words, sizeof words);
}

static void gather_record(const uint32_t a[], uint32_t w, uint32_t bytes, uint32_t r[])
{
    r[0] = at(a[0], w, 4);
    r[1] = a[1];
    r[2] = at(a[2], w, 2 * bytes);
    r[3] = share(a[3] / 2, w);
}

static void record(const struct layout *l, const uint32_t a[], uint32_t w, uint32_t r[])
{
    switch ((enum kind)l->kind) {
    case UNARY:
        r[0] = at(a[0], w, l->in);
        r[1] = at(a[1], w, l->out);
        r[2] = share(a[2] / l->elements, w);
        return;
    case BINARY:
        for (unsigned i = 0; i < 3; i++)
            r[i] = at(a[i], w, ATOM);
        r[3] = share(a[3] / l->elements, w);
        return;
    case ROW:
        row_record(a, w, l->in, r);
        return;
    case COLUMN:
        column_record(a, w, l->in, r);
        return;
    case GATHER:
        gather_record(a, w, l->in, r);
        return;
    case REDUCE:
        reduce_record(a, w, r);
        return;
    case COPY:
        copy_record(a, w, r);
        return;
    case FILL:
        r[0] = at(a[0], w, ATOM);
        r[1] = share(a[1] / ATOM, w);
        r[2] = a[2];
        return;
    case WHOLE:
        return;
    }
}

/* Upper bound of the atoms that a call deals out. */
static uint64_t atoms(const struct layout *l, const uint32_t a[])
{
    switch ((enum kind)l->kind) {
    case COPY:
        return a[2] / ATOM;
    case FILL:
        return a[1] / ATOM;
    case UNARY:
        return a[2] / 2;
    case ROW:
    case COLUMN:
        return (uint64_t)a[3] * a[4] * 8;
    default:
        return a[3] / 2;
    }
}

bool kernel_block(const struct kernel_spec *spec, const uint32_t args[KERNEL_MAX_ARGS],
                  uint32_t block[KERNEL_MAX_BLOCK])
{
    if (spec->family == KERNEL_GEMM_F16) {
        if (!gemm_reaches(spec, args))
            return false;
        gemm_block(spec, args, block);
        return true;
    }
    if (spec->family == KERNEL_COPY_LIST) {
        memcpy(block, args, 8);
        return args[1] <= KERNEL_MAX_LIST;
    }
    const struct layout *l = &layouts[spec->family];
    if (l->kind == WHOLE || atoms(l, args) > KERNEL_MAX_UNITS ||
        (l->kind == REDUCE && args[4] == 0))
        return false;
    for (uint32_t w = 0; w < IPU21_WORKERS; w++)
        record(l, args, w, block + w * l->words);
    return true;
}
