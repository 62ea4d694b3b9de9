/* Programs over vectors: sum of partials, GELU, fill, copy, patch lists. Parameters: subjects.def.
 * Data lie in interleaved memory, 32 bytes aligned. */
#include "tests/fidelity/subject.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

enum { IN = RIG_FIRST, OUT = 0xd0000, GUARD = 0x5a5a, MEANT = 0x123 };

/* The element after the last must be untouched. */
static int check_guard(struct subject_run *run, uint32_t count)
{
    return subject_expect(run, count, subject_halves(run, OUT)[count], GUARD, 0);
}

static int check_sum(struct subject_run *run, uint32_t elements, uint32_t partials)
{
    for (uint32_t i = 0; i < elements; i++) {
        float sum = subject_value(run, IN, i);
        for (uint32_t k = 1; k < partials; k++)
            sum = half_to_float(half_from_float(sum + subject_value(run, IN, k * elements + i)));
        int err = subject_expect(run, i, subject_value(run, OUT, i), sum, 0);
        if (err != 0)
            return err;
    }
    return check_guard(run, elements);
}

static int reduce(const uint32_t p[], bool before, uint32_t *cycles, struct ipu_error *error)
{
    uint32_t elements = p[0], partials = p[1];
    struct subject_run run;
    int err = subject_open(&run, "reduce.S", error);
    if (err != 0)
        return err;
    if (before)
        subject_define(&run, "BEFORE", NULL);
    subject_randomise(&run, IN, elements * partials, 1);
    subject_halves(&run, OUT)[elements] = GUARD;
    const uint32_t args[] = {OUT, IN, IN + 2 * elements, partials - 1, elements};
    for (unsigned i = 0; i < 5; i++)
        subject_argument(&run, args[i]);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_sum(&run, elements, partials);
    subject_close(&run);
    return err;
}

int subject_reduce(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    return reduce(p, false, cycles, error);
}

int subject_reduce_old(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles,
                       struct ipu_error *error)
{
    return reduce(p, true, cycles, error);
}

static int check_gelu(struct subject_run *run, uint32_t elements)
{
    for (uint32_t i = 0; i < elements; i++) {
        double x = subject_value(run, IN, i);
        double y = 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
        int err = subject_expect(run, i, subject_value(run, OUT, i), y, 0.003);
        if (err != 0)
            return err;
    }
    return check_guard(run, elements);
}

int subject_gelu(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    static const char *const versions[] = {"0", "1", "2"};
    uint32_t elements = p[1];
    struct subject_run run;
    int err = subject_open(&run, "gelu.S", error);
    if (err != 0)
        return err;
    subject_define(&run, "VERSION", versions[p[0]]);
    subject_randomise(&run, IN, elements, 2);
    subject_halves(&run, OUT)[elements] = GUARD;
    subject_argument(&run, OUT);
    subject_argument(&run, IN);
    subject_argument(&run, elements);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_gelu(&run, elements);
    subject_close(&run);
    return err;
}

/* Pair i of the list writes MEANT + i to word 3 i + 1 of the row. */
static int check_patches(struct subject_run *run, uint32_t words)
{
    const uint32_t *row = rig_memory(&run->rig, OUT);
    for (uint32_t i = 0; i < 3 * words; i++) {
        uint32_t expected = i % 3 == 1 ? MEANT + i / 3 : 0;
        int err = subject_expect(run, i, row[i], expected, 0);
        if (err != 0)
            return err;
    }
    return 0;
}

int subject_patch(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    struct subject_run run;
    int err = subject_open(&run, "patch.S", error);
    if (err != 0)
        return err;
    if (p[0])
        subject_define(&run, "SCALAR", NULL);
    uint32_t *list = rig_memory(&run.rig, IN);
    for (uint32_t i = 0; i < p[1]; i++) {
        list[2 * i] = 3 * i + 1;
        list[2 * i + 1] = MEANT + i;
    }
    subject_argument(&run, IN);
    subject_argument(&run, p[1]);
    subject_argument(&run, OUT);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_patches(&run, p[1]);
    subject_close(&run);
    return err;
}

/* Bytes [0, bytes) of `address` must equal `expected`, the next byte `after`. */
static int check_bytes(struct subject_run *run, uint32_t address, uint32_t bytes, uint8_t first,
                       uint8_t step, uint8_t after)
{
    const uint8_t *memory = rig_memory(&run->rig, address);
    for (uint32_t i = 0; i <= bytes; i++) {
        uint8_t expected = i == bytes ? after : (uint8_t)(first + step * i);
        int err = subject_expect(run, i, memory[i], expected, 0);
        if (err != 0)
            return err;
    }
    return 0;
}

int subject_fill(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    uint32_t bytes = p[0];
    struct subject_run run;
    int err = subject_open(&run, "fill.S", error);
    if (err != 0)
        return err;
    memset(rig_memory(&run.rig, IN), 0x77, bytes + 1);
    subject_argument(&run, IN);
    subject_argument(&run, bytes / 8 / 6);
    subject_argument(&run, bytes / 8 % 6);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_bytes(&run, IN, bytes, 0, 0, 0x77);
    subject_close(&run);
    return err;
}

int subject_copy(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    enum { FAR = 0xc0000 };
    uint32_t bytes = p[0];
    struct subject_run run;
    int err = subject_open(&run, "copy.S", error);
    if (err != 0)
        return err;
    uint8_t *from = rig_memory(&run.rig, IN);
    for (uint32_t i = 0; i < bytes; i++)
        from[i] = (uint8_t)(3 + 7 * i);
    *(uint8_t *)rig_memory(&run.rig, FAR + bytes) = 0x77;
    subject_argument(&run, FAR);
    subject_argument(&run, IN);
    subject_argument(&run, bytes / 8 / 6);
    subject_argument(&run, bytes / 8 % 6);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_bytes(&run, FAR, bytes, 3, 7, 0x77);
    subject_close(&run);
    return err;
}
