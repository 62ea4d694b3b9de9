/* The AMP matrix products of the measured system (gemm.S). The product is checked against f32 sums
 * with the partials rounded to f16 as the kernel does between inner panels; f8 products of ones
 * against the inner dimension. x, out and w lie in different pairs of memory elements. */
#include "tests/fidelity/subject.h"

#include "base/half.h"
#include "device/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { X = RIG_FIRST, PAIR = 0x8000, LOW_WEIGHTS = RIG_LOW, F8_ONE = 0x40 };

struct shape {
    uint32_t fp8, rows, inner, columns;
    bool packed;
    uint32_t x, w, out;
};

static uint32_t after(uint32_t address, uint32_t bytes)
{
    return (address + bytes + PAIR - 1) & ~(uint32_t)(PAIR - 1);
}

static struct shape shape_of(const uint32_t p[SUBJECT_PARAMETERS])
{
    struct shape s = {.fp8 = p[1], .rows = p[3], .inner = p[4], .columns = p[5], .x = X};
    s.out = after(s.x, s.rows * s.inner * (s.fp8 ? 1 : 2) + 64);
    s.w = p[2] ? after(s.out, s.rows * s.columns * 2 + 64) : LOW_WEIGHTS;
    return s;
}

/* Element (k, n) of the weights; panels of a column lie one after another. */
static uint32_t weight_at(const struct shape *s, uint32_t k, uint32_t n)
{
    uint32_t panel = n / 16 * (s->inner / 16) + k / 16;
    return 256 * panel + kernel_weight_slot(k % 16, n % 16);
}

/* Element (row, n) of the product: panels of 16 columns, or of 16 rows and then columns. */
static uint32_t product_at(const struct shape *s, uint32_t row, uint32_t n)
{
    if (s->packed)
        return row / 16 * 16 * s->columns + n / 16 * 256 + row % 16 * 16 + n % 16;
    return n / 16 * s->rows * 16 + row * 16 + n % 16;
}

static int check_product(struct subject_run *run, const struct shape *s, uint32_t row, uint32_t n)
{
    double sum = 0, magnitude = 0;
    for (uint32_t k = 0; k < s->inner; k++) {
        uint32_t at = k / 16 * s->rows * 16 + row * 16 + k % 16;
        double part =
            (double)subject_value(run, s->x, at) * subject_value(run, s->w, weight_at(s, k, n));
        sum += part;
        magnitude += fabs(part);
    }
    uint32_t at = product_at(s, row, n);
    return subject_expect(run, at, subject_value(run, s->out, at), sum,
                          magnitude * (double)s->inner / 16 / 2048);
}

/* Every row of some columns, every column of some rows. */
static int check_f16(struct subject_run *run, const struct shape *s)
{
    for (uint32_t row = 0; row < s->rows; row++)
        for (uint32_t n = row % 7; n < s->columns; n += 7) {
            int err = check_product(run, s, row, n);
            if (err != 0)
                return err;
        }
    return 0;
}

static int check_f8(struct subject_run *run, const struct shape *s)
{
    for (uint32_t i = 0; i < s->rows * s->columns; i++) {
        int err = subject_expect(run, i, subject_value(run, s->out, i), s->inner, 0);
        if (err != 0)
            return err;
    }
    return 0;
}

static void give_data(struct subject_run *run, const struct shape *s)
{
    if (s->fp8) {
        memset(rig_memory(&run->rig, s->x), F8_ONE, s->rows * s->inner);
        memset(rig_memory(&run->rig, s->w), F8_ONE, s->inner * s->columns);
        return;
    }
    subject_randomise(run, s->x, s->rows * s->inner, 3);
    subject_randomise(run, s->w, s->inner * s->columns, 4);
}

static int product(const uint32_t p[], bool packed, uint32_t *cycles, struct ipu_error *error)
{
    static const char *const generations[] = {"0", "1", "2"};
    struct shape s = shape_of(p);
    struct subject_run run;
    char numbers[3][16];
    int err = subject_open(&run, "gemm.S", error);
    if (err != 0)
        return err;
    static const char *const names[] = {"R", "K", "C"};
    for (unsigned i = 0; i < 3; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%u", p[3 + i]);
        subject_define(&run, names[i], numbers[i]);
    }
    subject_define(&run, "RETAINED", generations[p[0]]);
    s.packed = packed;
    if (packed)
        subject_define(&run, "PACKED", NULL);
    if (s.fp8)
        subject_define(&run, "FP8", NULL);
    if (p[2])
        subject_define(&run, "INTERLEAVED", NULL);
    give_data(&run, &s);
    const uint32_t args[] = {s.out, s.x, s.w, 0};
    for (unsigned i = 0; i < 4; i++)
        subject_argument(&run, args[i]);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = s.fp8 ? check_f8(&run, &s) : check_f16(&run, &s);
    subject_close(&run);
    return err;
}

int subject_gemm(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    return product(p, false, cycles, error);
}

int subject_packed_gemm(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles,
                        struct ipu_error *error)
{
    return product(p, true, cycles, error);
}
