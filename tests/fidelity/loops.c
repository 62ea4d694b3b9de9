/* The loops for which PopLibs publishes issue counts (loops.S). Every worker works on the same
 * ones, so what is stored or accumulated tells how many passes have run. */
#include "tests/fidelity/subject.h"

#include "base/half.h"
#include "device/sim/tile.h"

#include <stdio.h>
#include <string.h>

enum { IN = RIG_FIRST, OUT = 0xc0000, UNTOUCHED = 0x5a, MOST_PASSES = 8192 };

/* LOOP and FUNCTION of loops.S; bytes stored a pass; is the input f32? What the first accumulator
 * gains in a pass (0: the pass stores). */
static const struct kind {
    const char *loop, *function;
    uint32_t stored;
    bool f32;
    uint32_t gained;
} kinds[] = {
    {"1", "nop", 0, false, 1},       {"2", "nop", 0, false, 1},
    {"3", "nop", 8, false, 0},       {"4", "nop", 4, false, 0},
    {"5", "nop", 32, false, 0},      {"6", "f16v2tanh", 8, false, 0},
    {"6", "f16v2sigm", 8, false, 0}, {"6", "f16v2exp", 8, false, 0},
    {"6", "f16v2ln", 8, false, 0},   {"6", "f32exp", 8, true, 0},
    {"6", "f32tanh", 8, true, 0},    {"6", "f32ln", 8, true, 0},
    {"6", "f32sqrt", 8, true, 0},    {"6", "f32oorx", 8, true, 0},
    {"6", "f32oox", 8, true, 0},     {"7", "nop", 8, false, 0},
    {"8", "nop", 0, false, 3},       {"9", "nop", 4, false, 0},
    {"10", "nop", 4, false, 0},
};

static void give_ones(struct subject_run *run, const struct kind *kind)
{
    uint16_t *halves = subject_halves(run, IN);
    float *floats = rig_memory(&run->rig, IN);
    for (uint32_t i = 0; i < 4 * MOST_PASSES; i++) {
        if (!kind->f32)
            halves[i] = half_from_float(1);
        else if (i < 2 * MOST_PASSES)
            floats[i] = 1;
    }
    memset(rig_memory(&run->rig, OUT), UNTOUCHED, 8 * MOST_PASSES);
}

/* Stored bytes end where the last pass has stored. */
static int check_passes(struct subject_run *run, const struct kind *kind, uint32_t passes)
{
    uint32_t end = kind->stored * passes;
    const uint8_t *out = rig_memory(&run->rig, OUT);
    if (kind->stored == 0)
        return subject_expect(run, 0, sim_tile_accumulator(run->rig.tile, 0, 0),
                              passes * kind->gained, 0);
    int err = subject_expect(run, end, out[end], UNTOUCHED, 0);
    if (err != 0 || out[end - 1] != UNTOUCHED || out[end - 2] != UNTOUCHED)
        return err;
    return subject_expect(run, end - 1, UNTOUCHED, 0, 0);
}

int subject_loop(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    const struct kind *kind = &kinds[p[0]];
    struct subject_run run;
    int err = subject_open(&run, "loops.S", error);
    if (err != 0)
        return err;
    subject_define(&run, "LOOP", kind->loop);
    subject_define(&run, "FUNCTION", kind->function);
    give_ones(&run, kind);
    subject_argument(&run, p[1]);
    subject_argument(&run, IN);
    subject_argument(&run, OUT);
    err = subject_go(&run, cycles);
    if (err == 0)
        err = check_passes(&run, kind, p[1]);
    subject_close(&run);
    return err;
}

int subject_supervisor_loop(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles,
                            struct ipu_error *error)
{
    struct subject_run run;
    int err = subject_open(&run, "loops.S", error);
    if (err != 0)
        return err;
    subject_define(&run, "SUPERVISOR_LOOP", NULL);
    subject_argument(&run, p[0]);
    err = subject_go(&run, cycles);
    subject_close(&run);
    return err;
}

int subject_uneven(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    struct subject_run run;
    char numbers[2][16];
    int err = subject_open(&run, "loops.S", error);
    if (err != 0)
        return err;
    static const char *const names[] = {"MAX", "MIN"};
    subject_define(&run, "UNEVEN", NULL);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%u", p[i]);
        subject_define(&run, names[i], numbers[i]);
    }
    err = subject_go(&run, cycles);
    subject_close(&run);
    return err;
}
