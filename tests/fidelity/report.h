/* The fidelity report: runs the table, prints it, sums it up. One thread; fails when a program
 * does. */
#ifndef IPU_FIDELITY_REPORT_H
#define IPU_FIDELITY_REPORT_H

#include "tests/fidelity/table.h"

#include <stdio.h>

enum { REPORT_ROWS = 400 };

struct report_options {
    bool quick;    /* only the rows marked for the unit test, and two points a formula */
    bool markdown; /* tables for docs/MACHINE.md */
    FILE *out;     /* NULL: print nothing */
};

struct report {
    unsigned rows, unexplained; /* unexplained: off by more than 10 % with nothing ascribed */
    double median, worst;       /* errors, as fractions */
    char worst_id[16];
    unsigned formulas, formulas_off; /* off: somewhere by more than 3 % */
    unsigned estimates, estimates_off;
};

IPU_MUST_CHECK int report_run(const struct report_options *options, struct report *report,
                              struct ipu_error *error);
bool report_passes(const struct report *report);

#endif
