/* `make fidelity`: repeats hardware measurements on the simulator and prints the table.
 *
 * fidelity [--quick] [--markdown]: measured, simulated and their ratio for every row that a program
 * repeats, the fitted formulas over their range, and what cannot be repeated. Exit code 1 when the
 * median error is 2 % or more, a row is off by more than 10 % without an explanation, a formula by
 * more than 3 %, or a program fails.
 */
#include "tests/fidelity/report.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct report_options options = {.out = stdout};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            options.quick = true;
        else if (strcmp(argv[i], "--markdown") == 0)
            options.markdown = true;
        else {
            fprintf(stderr, "usage: fidelity [--quick] [--markdown]\n");
            return 2;
        }
    }
    struct ipu_error error = {0};
    struct report report;
    if (report_run(&options, &report, &error) != 0) {
        fprintf(stderr, "fidelity: %s\n", error.text);
        return 1;
    }
    return report_passes(&report) ? 0 : 1;
}
