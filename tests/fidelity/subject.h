/* What the programs of tests/fidelity share: a rig with its call, memory of f16 values, verdicts.
 */
#ifndef IPU_FIDELITY_SUBJECT_H
#define IPU_FIDELITY_SUBJECT_H

#include "tests/fidelity/fidelity.h"

struct subject_run {
    struct rig rig;
    struct rig_call call;
    struct ipu_error *error;
};

/* Opens the rig for a call of `source`. */
IPU_MUST_CHECK int subject_open(struct subject_run *run, const char *source,
                                struct ipu_error *error);
void subject_close(struct subject_run *run);
/* `value` must outlive the run. */
void subject_define(struct subject_run *run, const char *name, const char *value);
void subject_argument(struct subject_run *run, uint32_t value);
IPU_MUST_CHECK int subject_go(struct subject_run *run, uint32_t *cycles);

uint16_t *subject_halves(struct subject_run *run, uint32_t address);
/* Small f16 values that differ from element to element: about -1 to 1. */
void subject_randomise(struct subject_run *run, uint32_t address, uint32_t count, uint64_t seed);
float subject_value(struct subject_run *run, uint32_t address, uint32_t index);
/* IPU_ERR_CHECK_FAILED unless |found - expected| <= tolerance. */
IPU_MUST_CHECK int subject_expect(struct subject_run *run, uint32_t index, double found,
                                  double expected, double tolerance);

#define SUBJECT(id, function, ...)                                                                 \
    int function(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error);
#include "tests/fidelity/subjects.def"
#undef SUBJECT

#endif
