/* What the programs share (subject.h), and the table of them. Values come from a counter-based
 * generator, so runs repeat exactly. Fails with IPU_ERR_CHECK_FAILED when a program has computed
 * something else than it should. */
#include "tests/fidelity/subject.h"

#include "base/half.h"
#include "base/hash.h"

#include <math.h>
#include <string.h>

static const struct subject subjects[SUBJECT_COUNT] = {
#define SUBJECT(id, function, text) [SUBJECT_##id] = {#id, function},
#include "tests/fidelity/subjects.def"
#undef SUBJECT
};

const struct subject *subject_find(enum subject_id id)
{
    return &subjects[id];
}

int subject_open(struct subject_run *run, const char *source, struct ipu_error *error)
{
    memset(run, 0, sizeof *run);
    run->call.source = source;
    run->error = error;
    return rig_open(&run->rig, error);
}

void subject_close(struct subject_run *run)
{
    rig_close(&run->rig);
}

void subject_define(struct subject_run *run, const char *name, const char *value)
{
    run->call.defines[run->call.define_count++] = (struct asm_define){name, value};
}

void subject_argument(struct subject_run *run, uint32_t value)
{
    run->call.args[run->call.arg_count++] = value;
}

int subject_go(struct subject_run *run, uint32_t *cycles)
{
    return rig_run(&run->rig, &run->call, cycles, run->error);
}

uint16_t *subject_halves(struct subject_run *run, uint32_t address)
{
    return rig_memory(&run->rig, address);
}

void subject_randomise(struct subject_run *run, uint32_t address, uint32_t count, uint64_t seed)
{
    uint16_t *halves = subject_halves(run, address);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = hash64_mix(seed * 0x9e3779b97f4a7c15u + i);
        halves[i] = half_from_float((float)(bits >> 44) / 524288.0f - 1.0f);
    }
}

float subject_value(struct subject_run *run, uint32_t address, uint32_t index)
{
    return half_to_float(subject_halves(run, address)[index]);
}

int subject_expect(struct subject_run *run, uint32_t index, double found, double expected,
                   double tolerance)
{
    if (fabs(found - expected) <= tolerance)
        return 0;
    return ipu_error_set(run->error, IPU_ERR_CHECK_FAILED,
                         "fidelity: %s computed %g for element %u instead of %g", run->call.source,
                         found, index, expected);
}
