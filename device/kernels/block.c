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

static const uint8_t record_words[KERNEL_FAMILIES] = {
    [KERNEL_REDUCE_F16] = 6,     [KERNEL_GELU_F16] = 3,       [KERNEL_RELU_F16] = 3,
    [KERNEL_ADD_F16] = 4,        [KERNEL_ADD_ROW_F16] = 7,    [KERNEL_BIAS_GELU_F16] = 7,
    [KERNEL_BIAS_RELU_F16] = 7,  [KERNEL_ADD_COLUMN_F16] = 7, [KERNEL_GELU_F32] = 3,
    [KERNEL_RELU_F32] = 3,       [KERNEL_ADD_F32] = 4,        [KERNEL_ADD_ROW_F32] = 7,
    [KERNEL_ADD_COLUMN_F32] = 7, [KERNEL_CAST_F16_F32] = 3,   [KERNEL_CAST_F32_F16] = 3,
    [KERNEL_COPY] = 4,           [KERNEL_FILL] = 3,           [KERNEL_GATHER16] = 4,
    [KERNEL_GATHER32] = 4};

unsigned kernel_block_words(enum kernel_family family)
{
    if (family == KERNEL_GEMM_F16)
        return 8;
    return family == KERNEL_COPY_LIST ? 2 : IPU21_WORKERS * record_words[family];
}

/* How many of `units` worker w takes. */
static uint32_t share(uint32_t units, uint32_t w)
{
    return (units + IPU21_WORKERS - 1 - w) / IPU21_WORKERS;
}

/* Bytes of an atom's 8 in units: a pointer of worker w advances by `bytes` w. */
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

/* in, out, n of `units` units; the bytes of a unit on either side. */
static void unary_record(const uint32_t a[], uint32_t w, uint32_t units, const uint32_t bytes[2],
                         uint32_t r[])
{
    r[0] = at(a[0], w, bytes[0]);
    r[1] = at(a[1], w, bytes[1]);
    r[2] = share(units, w);
}

static void binary_record(const uint32_t a[], uint32_t w, uint32_t units, uint32_t r[])
{
    for (unsigned i = 0; i < 3; i++)
        r[i] = at(a[i], w, ATOM);
    r[3] = share(units, w);
}

static void gather_record(const uint32_t a[], uint32_t w, uint32_t bytes, uint32_t r[])
{
    r[0] = at(a[0], w, 4);
    r[1] = a[1];
    r[2] = at(a[2], w, 2 * bytes);
    r[3] = share(a[3] / 2, w);
}

static void record(enum kernel_family family, const uint32_t a[], uint32_t w, uint32_t r[])
{
    static const uint32_t same[2] = {ATOM, ATOM}, widen[2] = {ATOM, 2 * ATOM},
                          narrow[2] = {2 * ATOM, ATOM};
    switch (family) {
    case KERNEL_REDUCE_F16:
        reduce_record(a, w, r);
        return;
    case KERNEL_GELU_F16:
    case KERNEL_RELU_F16:
        unary_record(a, w, a[2] / 4, same, r);
        return;
    case KERNEL_GELU_F32:
    case KERNEL_RELU_F32:
        unary_record(a, w, a[2] / 2, same, r);
        return;
    case KERNEL_CAST_F16_F32:
        unary_record(a, w, a[2] / 4, widen, r);
        return;
    case KERNEL_CAST_F32_F16:
        unary_record(a, w, a[2] / 4, narrow, r);
        return;
    case KERNEL_ADD_F16:
        binary_record(a, w, a[3] / 4, r);
        return;
    case KERNEL_ADD_F32:
        binary_record(a, w, a[3] / 2, r);
        return;
    case KERNEL_ADD_ROW_F16:
    case KERNEL_BIAS_GELU_F16:
    case KERNEL_BIAS_RELU_F16:
        row_record(a, w, 32, r);
        return;
    case KERNEL_ADD_ROW_F32:
        row_record(a, w, 64, r);
        return;
    case KERNEL_ADD_COLUMN_F16:
        column_record(a, w, 32, r);
        return;
    case KERNEL_ADD_COLUMN_F32:
        column_record(a, w, 64, r);
        return;
    case KERNEL_COPY:
        copy_record(a, w, r);
        return;
    case KERNEL_FILL:
        r[0] = at(a[0], w, ATOM);
        r[1] = share(a[1] / ATOM, w);
        r[2] = a[2];
        return;
    case KERNEL_GATHER16:
        gather_record(a, w, 2, r);
        return;
    case KERNEL_GATHER32:
        gather_record(a, w, 4, r);
        return;
    case KERNEL_GEMM_F16:
    case KERNEL_COPY_LIST:
    case KERNEL_FAMILIES:
        return;
    }
}

/* Upper bound of the units of a call, in atoms. */
static uint64_t atoms(enum kernel_family family, const uint32_t a[])
{
    switch (family) {
    case KERNEL_COPY:
        return a[2] / ATOM;
    case KERNEL_FILL:
        return a[1] / ATOM;
    case KERNEL_RELU_F16:
    case KERNEL_GELU_F16:
    case KERNEL_RELU_F32:
    case KERNEL_GELU_F32:
    case KERNEL_CAST_F16_F32:
    case KERNEL_CAST_F32_F16:
        return a[2] / 2;
    case KERNEL_ADD_ROW_F16:
    case KERNEL_BIAS_GELU_F16:
    case KERNEL_BIAS_RELU_F16:
    case KERNEL_ADD_COLUMN_F16:
    case KERNEL_ADD_ROW_F32:
    case KERNEL_ADD_COLUMN_F32:
        return (uint64_t)a[3] * a[4] * 4;
    default:
        return a[3] / 2; /* REDUCE, ADD, GATHER */
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
    if (atoms(spec->family, args) > KERNEL_MAX_UNITS ||
        (spec->family == KERNEL_REDUCE_F16 && args[4] == 0))
        return false;
    for (uint32_t w = 0; w < IPU21_WORKERS; w++)
        record(spec->family, args, w, block + w * record_words[spec->family]);
    return true;
}
