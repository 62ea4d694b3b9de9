/* ipuctl device selftest: how far a device gets, step by step. */
#include "client/command.h"

#include <stdio.h>
#include <string.h>

static const char *const outcomes[] = {"passed", "FAILED", "skipped", "waiting"};

struct test {
    struct context *context;
    unsigned failed;
};

/* A report has many lines; they stand under their step. */
static void print_report(const char *report)
{
    while (*report) {
        size_t length = strcspn(report, "\n");
        printf("    %.*s\n", (int)length, report);
        report += length + (report[length] == '\n');
    }
}

static int on_step(void *context, const Ipu__Rpc__SelftestStep *step)
{
    struct test *test = context;
    bool waits = step->outcome == IPU__RPC__SELFTEST_OUTCOME__SELFTEST_WAITING;
    test->failed += step->outcome == IPU__RPC__SELFTEST_OUTCOME__SELFTEST_FAILED;
    if (waits) {
        fprintf(stderr, "ipuctl device: %s\n", step->detail);
    } else if (test->context->json) {
        if (command_json(test->context, &step->base))
            return IPU_ERR_NO_MEMORY;
    } else {
        printf("%u/%u %-14s %-8s %9.1f ms%s%s\n", step->index + 1, step->count, step->name,
               (unsigned)step->outcome < 4 ? outcomes[step->outcome] : "?", step->milliseconds,
               step->detail[0] ? "  " : "", step->detail);
        print_report(step->report);
    }
    return fflush(stdout) ? IPU_ERR_IO : 0;
}

static int run_device(struct context *c)
{
    struct test test = {.context = c};
    if (strcmp(c->arguments[0], "selftest") != 0)
        return command_usage(c, "unknown \"%s\"; expects selftest", c->arguments[0]);
    if (!command_connect(c))
        return command_fail(c);
    int rc = ipu_selftest(c->client, on_step, &test, &c->error);
    if (rc == 0)
        return 0;
    int code = command_fail(c);
    return test.failed ? 4 : code;
}

const struct command command_device = {
    .name = "device",
    .arguments = "selftest",
    .minimum = 1,
    .maximum = 1,
    .summary = "test the device step by step",
    .details = "selftest: open, reset, configuration, load, synchronise, exchange, kernel, host "
               "pages; one line a\n"
               "step, with what the device said when a step fails. Waits until the device is idle; "
               "jobs wait\n"
               "meanwhile, and the resident package is unloaded. Exit code 0 when no step failed, "
               "else 4.",
    .run = run_device,
};
