/* Runs the table and prints it: see report.h. Errors are |simulated / measured - 1|. */
#include "tests/fidelity/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double median_limit = 0.02, row_limit = 0.10, formula_limit = 0.03;

struct printer {
    FILE *out;
    bool markdown;
};

static void print_head(const struct printer *p)
{
    if (!p->out)
        return;
    if (p->markdown)
        fputs("| row | what | measured | simulated | ratio | ascribed to |\n"
              "|---|---|---:|---:|---:|---|\n",
              p->out);
    else
        fprintf(p->out, "%-5s %-62s %9s %9s %6s  %s\n", "row", "what", "measured", "simulated",
                "ratio", "ascribed to");
}

static void print_row(const struct printer *p, const struct row *row, uint32_t cycles)
{
    double ratio = (double)cycles / row->measured;
    if (!p->out)
        return;
    if (p->markdown)
        fprintf(p->out, "| %s | %s | %u | %u | %.3f | %s |\n", row->id, row->item, row->measured,
                cycles, ratio, row->ascribed);
    else
        fprintf(p->out, "%-5s %-62.62s %9u %9u %6.3f  %s\n", row->id, row->item, row->measured,
                cycles, ratio, row->ascribed);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void add_error(struct report *report, double errors[], const struct row *row, double error)
{
    errors[report->rows++] = error;
    if (error > row_limit && row->ascribed[0] == '\0')
        report->unexplained++;
    if (error < report->worst)
        return;
    report->worst = error;
    snprintf(report->worst_id, sizeof report->worst_id, "%s", row->id);
}

static int run_rows(const struct report_options *options, const struct printer *printer,
                    struct report *report, struct ipu_error *error)
{
    double errors[REPORT_ROWS];
    const struct row *row;
    print_head(printer);
    for (size_t i = 0; (row = table_row(i)) && report->rows < REPORT_ROWS; i++) {
        uint32_t cycles = 0;
        if (options->quick && !row->quick)
            continue;
        if (subject_find(row->subject)->measure(row->parameters, &cycles, error) != 0)
            return ipu_error_wrap(error, "row %s", row->id);
        print_row(printer, row, cycles);
        add_error(report, errors, row, fabs((double)cycles / row->measured - 1));
    }
    qsort(errors, report->rows, sizeof *errors, compare);
    report->median = report->rows ? errors[report->rows / 2] : 0;
    return 0;
}

/* The largest error over the points of a formula. */
static int formula_error(const struct formula *f, unsigned points, double *most,
                         struct ipu_error *error)
{
    *most = 0;
    for (unsigned i = 0; i < points; i++) {
        uint32_t cycles = 0;
        if (subject_find(f->subject)->measure(f->parameters[i], &cycles, error) != 0)
            return ipu_error_wrap(error, "formula %s, point %u", f->id, i);
        *most = fmax(*most, fabs((double)cycles / f->cycles(f->parameters[i]) - 1));
    }
    return 0;
}

static void print_formula_head(const struct printer *p)
{
    if (p->out && p->markdown)
        fputs("\n| formula | points | largest error | target of 3 % |\n|---|---:|---:|---|\n",
              p->out);
    else if (p->out)
        fputs("\nfitted formulas, largest error over their range (target 3 %)\n", p->out);
}

static void print_formula(const struct printer *p, const struct formula *f, unsigned points,
                          double most)
{
    const char *verdict = most > formula_limit ? "missed" : "met";
    if (p->out && p->markdown)
        fprintf(p->out, "| %s: %s | %u | %.2f %% | %s |\n", f->id, f->text, points, 100 * most,
                verdict);
    else if (p->out)
        fprintf(p->out, "%-9s %-62s %2u points %6.2f %%  %s\n", f->id, f->text, points, 100 * most,
                verdict);
}

static int run_formulas(const struct report_options *options, const struct printer *printer,
                        struct report *report, struct ipu_error *error)
{
    const struct formula *f;
    print_formula_head(printer);
    for (size_t i = 0; (f = table_formula(i)); i++) {
        unsigned points = options->quick && f->points > 2 ? 2 : f->points;
        double most;
        int err = formula_error(f, points, &most, error);
        if (err != 0)
            return err;
        report->formulas++;
        report->formulas_off += most > formula_limit;
        print_formula(printer, f, points, most);
    }
    return 0;
}

static int run_estimate(const struct estimate *e, uint32_t *cycles, struct ipu_error *error)
{
    const struct subject *subject = subject_find(e->subject);
    uint32_t first, second;
    if (subject->measure(e->first, &first, error) != 0 ||
        subject->measure(e->second, &second, error) != 0)
        return ipu_error_wrap(error, "estimate \"%s\"", e->text);
    *cycles = second - first;
    return 0;
}

static void print_estimate(const struct printer *p, const struct estimate *e, uint32_t cycles)
{
    if (p->out && p->markdown)
        fprintf(p->out, "| %s | %s | %u | %u |\n", e->text, e->where, e->cycles, cycles);
    else if (p->out)
        fprintf(p->out, "%-62s %-15s %9u %9u  %s\n", e->text, e->where, e->cycles, cycles,
                e->cycles == cycles ? "" : "differs");
}

static int run_estimates(const struct printer *printer, struct report *report,
                         struct ipu_error *error)
{
    const struct estimate *e;
    if (printer->out)
        fputs(
            printer->markdown
                ? "\n| PopLibs estimate or difference of two rows | source | cycles | simulated |\n"
                  "|---|---|---:|---:|\n"
                : "\nvendor estimates and differences of rows: cycles between two runs, "
                  "simulated\n",
            printer->out);
    for (size_t i = 0; (e = table_estimate(i)); i++) {
        uint32_t cycles = 0;
        if (run_estimate(e, &cycles, error) != 0)
            return error->code;
        report->estimates++;
        report->estimates_off += cycles != e->cycles;
        print_estimate(printer, e, cycles);
    }
    return 0;
}

static void print_skipped(const struct printer *p)
{
    unsigned counts[REASON_COUNT] = {0}, total = 0;
    const struct skipped *s;
    for (size_t i = 0; (s = table_skipped(i)); i++, total++)
        counts[s->reason]++;
    fprintf(p->out, "\n%u measurements without a program (tests/fidelity/skipped.def):\n%s", total,
            p->markdown ? "\n" : "");
    for (unsigned r = 0; r < REASON_COUNT; r++)
        fprintf(p->out, "%s%u: %s\n", p->markdown ? "* " : "  ", counts[r],
                table_reason((enum reason)r));
}

static void print_sum(const struct printer *p, const struct report *report)
{
    fprintf(p->out,
            "\n%u rows: median error %.2f %% (target under 2 %%), worst %.2f %% (%s), %u over 10 "
            "%% without "
            "an explanation; %u of %u formulas within 3 %%; %u of %u estimates met\n",
            report->rows, 100 * report->median, 100 * report->worst, report->worst_id,
            report->unexplained, report->formulas - report->formulas_off, report->formulas,
            report->estimates - report->estimates_off, report->estimates);
}

int report_run(const struct report_options *options, struct report *report, struct ipu_error *error)
{
    struct printer printer = {options->out, options->markdown};
    memset(report, 0, sizeof *report);
    int err = run_rows(options, &printer, report, error);
    if (err == 0)
        err = run_formulas(options, &printer, report, error);
    if (err == 0)
        err = run_estimates(&printer, report, error);
    if (err != 0 || !options->out)
        return err;
    print_skipped(&printer);
    print_sum(&printer, report);
    return 0;
}

bool report_passes(const struct report *report)
{
    return report->rows != 0 && report->median < median_limit && report->unexplained == 0 &&
           report->formulas_off == 0 && report->estimates_off == 0;
}
