/* The self-test of a device: see selftest.h.
 *
 * Every step leaves behind what the next one needs, so the first failure ends the test; the steps
 * after it are reported as skipped. Programs compare their results themselves and stop on a trap
 * when a word is wrong, so most steps need nothing of the device but its marks; a failure is
 * explained through the debug interface.
 */
#include "device/driver/selftest.h"

#include "device/driver/selftest_programs.h"
#include "device/driver/session.h"
#include "device/driver/tdi.h"
#include "device/ipu21/flags.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct selftest_run {
    const struct device_options *options;
    struct device_session *session;
    struct package *package; /* on the device */
    uint32_t flag_set;
    char detail[512];
};

static struct card *card_of(struct selftest_run *run)
{
    return &run->session->card;
}

#define DETAIL(run, ...) snprintf((run)->detail, sizeof(run)->detail, __VA_ARGS__)

/* --- steps --- */

static int step_open(struct selftest_run *run, struct ipu_error *error)
{
    int code = session_open(run->options, &run->session, error);
    if (code == 0)
        DETAIL(run, "device %s opened, registers mapped, process attached",
               card_name(card_of(run)));
    return code;
}

static int step_reset(struct selftest_run *run, struct ipu_error *error)
{
    int code = boot_reset(card_of(run), error);
    if (code == 0)
        code = card_check(card_of(run), error);
    if (code == 0)
        DETAIL(run, "the controller answered the reset request");
    return code;
}

static int step_configuration(struct selftest_run *run, struct ipu_error *error)
{
    int code = boot_configure(card_of(run), &run->session->configuration, error);
    if (code == 0)
        DETAIL(run, "%zu register writes, both marks read 0", run->session->configuration.count);
    run->session->fresh = code == 0;
    return code;
}

/* Puts another program on the device, up to its second host synchronisation. */
static int change_package(struct selftest_run *run, struct package *package,
                          struct ipu_error *error)
{
    struct package *before = run->package;
    run->package = package;
    int code = session_load(run->session, package, error);
    package_destroy(before);
    return code;
}

static int step_load(struct selftest_run *run, struct ipu_error *error)
{
    int code = selftest_program_load(run->flag_set, &run->package, error);
    if (code != 0)
        return code;
    run->session->package = run->package;
    code = session_send(run->session, run->package, error);
    if (code != 0)
        return session_fail(run->session, code, "loading", error);
    DETAIL(run, "all tiles have taken the loader and their image");
    return 0;
}

/* The program's result is read through the debug interface. */
static int check_result(struct selftest_run *run, struct ipu_error *error)
{
    uint32_t word = 0;
    int code =
        tdi_read_memory(card_of(run), 0, TDI_ANY_CONTEXT, SELFTEST_SYMBOL_ADDRESS, &word, 1, error);
    if (code != 0) {
        ipu_error_wrap(error, "reading the program's result: ");
        return code;
    }
    if (word != SELFTEST_RESULT)
        return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                             "the program of tile 0 left 0x%08x, not 0x%08x", word,
                             SELFTEST_RESULT);
    return 0;
}

static int step_synchronise(struct selftest_run *run, struct ipu_error *error)
{
    int code = session_synchronise(run->session, run->package, error);
    if (code == 0)
        code = session_exchange(run->session, run->package, error);
    if (code == 0)
        code = card_rendezvous(card_of(run), CARD_GS2, 1, error);
    if (code == 0)
        code = check_result(run, error);
    if (code != 0)
        return session_fail(run->session, code, "synchronising", error);
    DETAIL(run, "three host synchronisations; tile 0 computed 0x%08x", SELFTEST_RESULT);
    return 0;
}

/* Runs a program that compares its results before one more host synchronisation. */
static int run_checked(struct selftest_run *run, struct package *package, const char *what,
                       struct ipu_error *error)
{
    int code = change_package(run, package, error);
    if (code != 0)
        return code;
    card_begin_call(card_of(run));
    code = card_rendezvous(card_of(run), CARD_GS2, 1, error);
    return code == 0 ? 0 : session_fail(run->session, code, what, error);
}

static int step_exchange(struct selftest_run *run, struct ipu_error *error)
{
    struct package *package;
    int code = selftest_program_exchange(run->flag_set, &package, error);
    if (code == 0)
        code = run_checked(run, package, "exchange pair", error);
    if (code == 0)
        DETAIL(run, "tiles %d and %d sent each other words and compared them", SELFTEST_FIRST,
               SELFTEST_SECOND);
    return code;
}

static int step_kernel(struct selftest_run *run, struct ipu_error *error)
{
    struct package *package;
    bool amp;
    int code = selftest_program_kernel(run->flag_set, &package, &amp, error);
    if (code == 0)
        code = run_checked(run, package, "kernel", error);
    if (code == 0)
        DETAIL(run, "%s",
               amp ? "the GEMM on the AMP units gave the exact product"
                   : "the addition gave the exact sums (not the GEMM: the device takes other AMP "
                     "flag numbers than ours)");
    return code;
}

static int compare_pages(struct selftest_run *run, const uint32_t *input, struct ipu_error *error)
{
    size_t size, words = (size_t)SELFTEST_PAGE_TILES * SELFTEST_PAGE_WORDS;
    const uint8_t *bytes = device_output(run->session, "y", &size);
    if (!bytes || size != 4 * words)
        return ipu_error_set(error, IPU_ERR_INTERNAL, "the program has no output");
    for (size_t i = 0; i < words; i++) {
        uint32_t word, wanted = input[i] + selftest_key((unsigned)(i / SELFTEST_PAGE_WORDS));
        memcpy(&word, bytes + 4 * i, 4);
        if (word != wanted)
            return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                                 "word %zu of page %zu came back as 0x%08x, not 0x%08x",
                                 i % SELFTEST_PAGE_WORDS, i / SELFTEST_PAGE_WORDS, word, wanted);
    }
    return 0;
}

static int step_pages(struct selftest_run *run, struct ipu_error *error)
{
    static const unsigned rounds = 3;
    uint32_t input[SELFTEST_PAGE_TILES * SELFTEST_PAGE_WORDS];
    struct device_summary summary;
    struct package *package;
    int code = selftest_program_pages(run->flag_set, &package, error);
    if (code == 0)
        code = change_package(run, package, error);
    for (uint32_t round = 0; round < rounds && code == 0; round++) {
        for (uint32_t i = 0; i < SELFTEST_PAGE_TILES * SELFTEST_PAGE_WORDS; i++)
            input[i] = (i + 1) * UINT32_C(0x9e3779b9) + round;
        code = device_set_input(run->session, "x", input, sizeof input, error);
        if (code == 0)
            code = device_run(run->session, &summary, error);
        if (code == 0)
            code = compare_pages(run, input, error);
    }
    if (code == 0)
        DETAIL(run, "%d pages went out and came back %u times, every word as it should",
               SELFTEST_PAGE_TILES, rounds);
    return code;
}

static const struct step {
    const char *name;
    int (*run)(struct selftest_run *run, struct ipu_error *error);
} steps[] = {
    {"open", step_open},
    {"reset", step_reset},
    {"configuration", step_configuration},
    {"load", step_load},
    {"synchronise", step_synchronise},
    {"exchange", step_exchange},
    {"kernel", step_kernel},
    {"host pages", step_pages},
};
enum { STEPS = sizeof steps / sizeof *steps };

/* --- the test --- */

const char *selftest_step_name(unsigned index)
{
    return index < STEPS ? steps[index].name : NULL;
}

const char *selftest_outcome_name(enum selftest_outcome outcome)
{
    static const char *const names[] = {"passed", "failed", "skipped"};
    return names[outcome];
}

static int run_step(struct selftest_run *run, unsigned index, struct selftest_step *step,
                    struct ipu_error *error)
{
    uint64_t begin = clock_ns();
    run->detail[0] = '\0';
    if (run->session)
        run->session->report.size = 0;
    int code = steps[index].run(run, error);
    step->milliseconds = (double)(clock_ns() - begin) / 1e6;
    step->outcome = code == 0 ? SELFTEST_PASSED : SELFTEST_FAILED;
    step->detail = code == 0 ? run->detail : error->text;
    if (code != 0 && run->session)
        step->report = device_fault_report(run->session);
    return code;
}

int device_selftest(const struct device_options *options, selftest_callback callback, void *context,
                    struct ipu_error *error)
{
    struct selftest_run run = {.options = options, .flag_set = options->flag_set};
    struct ipu_error own = {0};
    char skipped[64];
    int code = 0;
    if (!options->device || strcmp(options->device, "sim") == 0)
        run.flag_set = IPU21_FLAG_SET;
    if (!error)
        error = &own;
    for (unsigned i = 0; i < STEPS; i++) {
        struct selftest_step step = {
            .index = i, .count = STEPS, .name = steps[i].name, .report = ""};
        if (code == 0) {
            code = run_step(&run, i, &step, error);
            snprintf(skipped, sizeof skipped, "not tried: step \"%s\" failed", steps[i].name);
        } else {
            step.outcome = SELFTEST_SKIPPED;
            step.detail = skipped;
        }
        if (callback)
            callback(context, &step);
    }
    device_close(run.session);
    package_destroy(run.package);
    return code;
}
