/* Programs of more than one idea: softmax, merging attention blocks, bias with GELU. Parameters:
 * subjects.def. */
#include "tests/fidelity/subject.h"

#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IN = RIG_FIRST, BIAS = 0xb8000, OUT = 0xc0000, STATE = 0xa0000, KEYS = 64 };

/* Old and new maxima are equal, so both coefficients are one; sums 2 and 3. */
static float old_value(uint32_t row, uint32_t v)
{
    return 0.25f * (float)(row + 1) + 0.5f * (float)(v % 5);
}

static void merge_data(struct subject_run *run, uint32_t rows, uint32_t values)
{
    float *acc = rig_memory(&run->rig, OUT);
    float *state = rig_memory(&run->rig, STATE + 2 * KEYS * rows);
    subject_randomise(run, IN, rows * (values + 16), 5);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t v = 0; v < values; v++)
            acc[r * (values + 2) + v] = old_value(r, v);
        acc[r * (values + 2) + values] = 1.5f;
        acc[r * (values + 2) + values + 1] = 2;
        state[r] = 1.5f;
        state[rows + r] = 3;
    }
}

static int check_merge(struct subject_run *run, uint32_t rows, uint32_t values, bool last)
{
    const float *acc = rig_memory(&run->rig, OUT);
    for (uint32_t i = 0; i < rows * values; i++) {
        uint32_t r = i / values, v = i % values;
        double sum =
            old_value(r, v) + (double)subject_value(run, IN, v / 16 * rows * 16 + r * 16 + v % 16);
        double expected = last ? sum / 5 : sum;
        int err = subject_expect(run, i, acc[r * (values + 2) + v], expected, 1e-5);
        if (err != 0)
            return err;
    }
    return subject_expect(run, values, acc[values + 1], 5, 0);
}

int subject_merge(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    struct subject_run run;
    char number[16];
    int err = subject_open(&run, "merge.S", error);
    if (err != 0)
        return err;
    snprintf(number, sizeof number, "%u", p[1]);
    subject_define(&run, "VALUES", number);
    subject_define(&run, "KEYS", "64");
    merge_data(&run, p[0], p[1]);
    const uint32_t args[] = {OUT, IN, STATE, p[2], p[0]};
    for (unsigned i = 0; i < 5; i++)
        subject_argument(&run, args[i]);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_merge(&run, p[0], p[1], p[2] != 0);
    subject_close(&run);
    return err;
}

static int check_bias(struct subject_run *run, uint32_t rows, uint32_t width)
{
    for (uint32_t i = 0; i < rows * width; i++) {
        double x = (double)subject_value(run, IN, i) + (double)subject_value(run, BIAS, i % width);
        double y = 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
        int err = subject_expect(run, i, subject_value(run, OUT, i), y, 0.006);
        if (err != 0)
            return err;
    }
    return 0;
}

int subject_bias_gelu(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles,
                      struct ipu_error *error)
{
    struct subject_run run;
    int err = subject_open(&run, "bias_gelu.S", error);
    if (err != 0)
        return err;
    subject_randomise(&run, IN, p[0] * p[1], 6);
    subject_randomise(&run, BIAS, p[1], 7);
    const uint32_t args[] = {OUT, IN, BIAS, p[1], p[0]};
    for (unsigned i = 0; i < 5; i++)
        subject_argument(&run, args[i]);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_bias(&run, p[0], p[1]);
    subject_close(&run);
    return err;
}

static double exponential(struct subject_run *run, uint32_t rows, uint32_t row, uint32_t k,
                          double maximum)
{
    return exp((double)subject_value(run, IN, k / 16 * rows * 16 + row * 16 + k % 16) - maximum);
}

/* Exponentials in place, each row's maximum and sum. */
static int check_softmax(struct subject_run *run, uint32_t rows, uint32_t keys)
{
    const float *maxima = rig_memory(&run->rig, STATE);
    for (uint32_t r = 0; r < rows; r++) {
        double sum = 0;
        for (uint32_t k = 0; k < keys; k++) {
            uint32_t at = k / 16 * rows * 16 + r * 16 + k % 16;
            double value = exponential(run, rows, r, k, (double)maxima[r]);
            int err = subject_expect(run, at, subject_value(run, OUT, at), value, 0.002);
            if (err != 0)
                return err;
            sum += value;
        }
        int err = subject_expect(run, r, (double)maxima[rows + r], sum, sum * 0.002);
        if (err != 0)
            return err;
    }
    return 0;
}

int subject_softmax(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    struct subject_run run;
    char number[16];
    int err = subject_open(&run, "softmax.S", error);
    if (err != 0)
        return err;
    snprintf(number, sizeof number, "%u", p[1]);
    subject_define(&run, "KEYS", number);
    subject_randomise(&run, IN, p[0] * p[1], 8);
    const uint32_t args[] = {OUT, IN, STATE, STATE + 4 * p[0], p[0], p[1], 0};
    for (unsigned i = 0; i < 7; i++)
        subject_argument(&run, args[i]);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_softmax(&run, p[0], p[1]);
    subject_close(&run);
    return err;
}
