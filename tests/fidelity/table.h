/* The table of measurements: every row of facts/measurements.tsv, repeated by a program or with the
 * reason why not, and the formulas that were fitted to hardware. Constant data (rows.def,
 * formulas.def). */
#ifndef IPU_FIDELITY_TABLE_H
#define IPU_FIDELITY_TABLE_H

#include "tests/fidelity/fidelity.h"

#include <stddef.h>

/* Why a measurement cannot be repeated on one chip by a program of known code. */
enum reason {
#define REASON(id, text) REASON_##id,
#include "tests/fidelity/reasons.def"
#undef REASON
    REASON_COUNT
};

struct row {
    const char *id, *item;
    uint32_t measured;
    enum subject_id subject;
    uint32_t parameters[SUBJECT_PARAMETERS];
    bool quick;           /* part of the unit test */
    const char *ascribed; /* "" = nothing to explain */
};

struct skipped {
    const char *id, *item;
    enum reason reason;
};

enum { FORMULA_POINTS = 12 };
struct formula {
    const char *id, *text;
    uint32_t (*cycles)(const uint32_t p[SUBJECT_PARAMETERS]);
    enum subject_id subject;
    unsigned points;
    uint32_t parameters[FORMULA_POINTS][SUBJECT_PARAMETERS];
};

/* What a vendor estimator says lies between two runs of one program. */
struct estimate {
    const char *text, *where;
    enum subject_id subject;
    uint32_t first[SUBJECT_PARAMETERS], second[SUBJECT_PARAMETERS];
    uint32_t cycles;
};

const struct row *table_row(size_t index); /* NULL past the end */
const struct skipped *table_skipped(size_t index);
const struct formula *table_formula(size_t index);
const struct estimate *table_estimate(size_t index);
const char *table_reason(enum reason reason);

#endif
