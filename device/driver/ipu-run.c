/* ipu-run: executes a package on a device, with no daemon and no compiler in the process.
 *
 * Results go to stdout as key=value lines, everything else to stderr. Exit codes are those of
 * base/errors.def: 0 ran, 2 usage or invalid input, 3 damaged package or no memory, 4 device fault
 * or timeout.
 */
#include "device/driver/driver.h"
#include "device/driver/profile.h"
#include "device/driver/trace.h"

#include "base/buffer.h"
#include "base/log.h"
#include "device/ipu21/topology.h"
#include "device/kernels/flag_set.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BINDINGS = 64, MAX_TRACES = 16, USAGE = 2 };
static const size_t MAX_PACKAGE = (size_t)4 << 30, MAX_INPUT = (size_t)1 << 30;

struct binding {
    char *name;
    const char *file;
};

struct arguments {
    const char *package, *profile, *device, *configuration, *loader, *flag_headers;
    struct binding inputs[MAX_BINDINGS], outputs[MAX_BINDINGS];
    unsigned input_count, output_count;
    const char *traces[MAX_TRACES], *watches[MAX_TRACES];
    unsigned trace_count, watch_count;
    unsigned threads, repeat, timeout_ms, jitter_us;
    uint64_t stop_at;
    bool strict, log;
};

static void print_help(FILE *out)
{
    fputs("usage: ipu-run FILE.ipuexe [options]\n"
          "Loads a package on a device, runs it and prints what its cycle samples say.\n"
          "  --input NAME=FILE   contents of an input, row-major; default: those in the package\n"
          "  --output NAME=FILE  where to write an output\n"
          "  --profile FILE      write the profile (proto/profile.proto)\n"
          "  --repeat N          run N times (1)\n"
          "  --threads N         host threads of the simulated device (all processors)\n"
          "  --strict            count received words against the package's declarations\n"
          "  --timeout MS        wall clock for each host synchronisation (10 s of device time)\n"
          "  --device NAME       device to use: sim (default), or a node such as /dev/ipu0\n"
          "  --configuration FILE  what the boot replays (IPUCFG1); a card needs one\n"
          "  --loader FILE       secondary loader (ELF) instead of this project's own\n"
          "  --flag-headers DIR  the vendor's gc_tile_defines.h, for packages of its AMP flags\n"
          "  --jitter US         random delays of the host of up to US, to test the protocol\n"
          "  --log               print log events to stderr\n"
          "For kernel writers, on a simulated device, to stderr:\n"
          "  --trace TILE[:CONTEXT]  print what a tile issues; CONTEXT: supervisor or 0 to 5\n"
          "  --watch ADDRESS     print changes of a word of the traced tiles (of all without\n"
          "                      --trace); ADDRESS may be SYMBOL+OFFSET\n"
          "  --stop-at CYCLE     stop there, counted as in traces (the load comes first),\n"
          "                      and print the registers of the traced tiles\n",
          out);
}

static int usage(const char *why, const char *what)
{
    fprintf(stderr, "ipu-run: %s%s\n", why, what);
    print_help(stderr);
    return USAGE;
}

static bool parse_binding(struct binding *list, unsigned *count, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text || equals[1] == '\0' || *count == MAX_BINDINGS)
        return false;
    *equals = '\0';
    list[(*count)++] = (struct binding){text, equals + 1};
    return true;
}

static bool parse_number(const char *text, unsigned low, unsigned *value)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || *text == '-' || number < low ||
        number > 1000000000)
        return false;
    *value = (unsigned)number;
    return true;
}

static bool parse_cycle(const char *text, uint64_t *cycle)
{
    char *end;
    errno = 0;
    *cycle = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && end != text && *text != '-' && *cycle != 0;
}

static bool add_text(const char **list, unsigned *count, const char *text)
{
    if (*count == MAX_TRACES)
        return false;
    list[(*count)++] = text;
    return true;
}

static const struct option option_table[] = {{"input", required_argument, NULL, 'i'},
                                             {"output", required_argument, NULL, 'o'},
                                             {"profile", required_argument, NULL, 'p'},
                                             {"threads", required_argument, NULL, 't'},
                                             {"repeat", required_argument, NULL, 'r'},
                                             {"strict", no_argument, NULL, 's'},
                                             {"timeout", required_argument, NULL, 'w'},
                                             {"device", required_argument, NULL, 'd'},
                                             {"configuration", required_argument, NULL, 'c'},
                                             {"loader", required_argument, NULL, 'L'},
                                             {"flag-headers", required_argument, NULL, 'f'},
                                             {"jitter", required_argument, NULL, 'j'},

                                             {"log", no_argument, NULL, 'l'},
                                             {"trace", required_argument, NULL, 'T'},
                                             {"watch", required_argument, NULL, 'W'},
                                             {"stop-at", required_argument, NULL, 'S'},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static bool apply_option(struct arguments *a, int option)
{
    switch (option) {
    case 'i':
        return parse_binding(a->inputs, &a->input_count, optarg);
    case 'o':
        return parse_binding(a->outputs, &a->output_count, optarg);
    case 'p':
        a->profile = optarg;
        return true;
    case 't':
        return parse_number(optarg, 0, &a->threads);
    case 'r':
        return parse_number(optarg, 1, &a->repeat);
    case 'w':
        return parse_number(optarg, 1, &a->timeout_ms);
    case 'd':
        a->device = optarg;
        return true;
    case 'c':
        a->configuration = optarg;
        return true;
    case 'L':
        a->loader = optarg;
        return true;
    case 'f':
        a->flag_headers = optarg;
        return true;
    case 'j':
        return parse_number(optarg, 0, &a->jitter_us);
    case 'T':
        return add_text(a->traces, &a->trace_count, optarg);
    case 'W':
        return add_text(a->watches, &a->watch_count, optarg);
    case 'S':
        return parse_cycle(optarg, &a->stop_at);
    case 's':
        a->strict = true;
        return true;
    default:
        a->log = true;
        return true;
    }
}

/* 0, or an exit code; *done: nothing is left to do. */
static int parse(struct arguments *a, int argc, char **argv, bool *done)
{
    int option;
    *done = false;
    while ((option = getopt_long(argc, argv, "", option_table, NULL)) != -1) {
        if (option == 'h') {
            print_help(stdout);
            *done = true;
            return 0;
        }
        if (option == '?')
            return USAGE;
        if (!apply_option(a, option))
            return usage("bad value: ", optarg);
    }
    if (optind + 1 != argc)
        return usage("one package is needed", "");
    a->package = argv[optind];
    return 0;
}

static int read_package(const char *path, struct package **out, struct ipu_error *error)
{
    struct buffer file = {0};
    int code = buffer_read_file(&file, path, MAX_PACKAGE);
    if (code != 0) {
        buffer_free(&file);
        return ipu_error_set(error, code == -ENOENT ? IPU_ERR_NOT_FOUND : IPU_ERR_IO, "%s: %s",
                             path, strerror(-code));
    }
    code = package_read(file.data, file.size, out, error);
    buffer_free(&file);
    if (code != 0)
        ipu_error_wrap(error, "%s: ", path);
    return code;
}

static int set_inputs(struct device_session *session, const struct arguments *a,
                      struct ipu_error *error)
{
    for (unsigned i = 0; i < a->input_count; i++) {
        struct buffer file = {0};
        int code = buffer_read_file(&file, a->inputs[i].file, MAX_INPUT);
        if (code != 0)
            code = ipu_error_set(error, IPU_ERR_NOT_FOUND, "%s: %s", a->inputs[i].file,
                                 strerror(-code));
        else
            code = device_set_input(session, a->inputs[i].name, file.data, file.size, error);
        buffer_free(&file);
        if (code != 0)
            return code;
    }
    return 0;
}

static int write_file(const char *path, const void *data, size_t size, struct ipu_error *error)
{
    int code = buffer_write_file(path, data, size);
    if (code != 0)
        return ipu_error_set(error, IPU_ERR_IO, "%s: %s", path, strerror(-code));
    return 0;
}

static int write_outputs(const struct device_session *session, const struct arguments *a,
                         struct ipu_error *error)
{
    for (unsigned i = 0; i < a->output_count; i++) {
        size_t size;
        const uint8_t *data = device_output(session, a->outputs[i].name, &size);
        if (!data)
            return ipu_error_set(error, IPU_ERR_NOT_FOUND, "the package has no output called %s",
                                 a->outputs[i].name);
        int code = write_file(a->outputs[i].file, data, size, error);
        if (code != 0)
            return code;
    }
    return 0;
}

static int write_profile(const struct device_session *session, const struct package *package,
                         const struct device_summary *summary, const char *path,
                         struct ipu_error *error)
{
    struct buffer bytes = {0};
    int code = profile_build(session, package, summary, &bytes, error);
    if (code == 0)
        code = write_file(path, bytes.data, bytes.size, error);
    buffer_free(&bytes);
    if (code == 0)
        printf("profile=%s tiles=%d samples=%" PRIu64 "\n", path, IPU21_TILES, summary->samples);
    return code;
}

static int run(struct device_session *session, const struct package *package,
               const struct arguments *a, struct ipu_error *error)
{
    struct device_summary summary = {0};
    int code = device_load(session, package, error);
    if (code == 0)
        code = set_inputs(session, a, error);
    for (unsigned i = 0; i < a->repeat && code == 0; i++) {
        code = device_run(session, &summary, error);
        if (code == 0)
            printf("cycles=%" PRIu64 " minimumTileCycles=%" PRIu64 " samples=%" PRIu64
                   " bundles=%" PRIu64 " loadMilliseconds=%.3f initializeMilliseconds=%.3f"
                   " runMilliseconds=%.3f\n",
                   summary.cycles, summary.minimum_cycles, summary.samples, summary.bundles,
                   summary.load_ms, summary.initialize_ms, summary.run_ms);
    }
    if (code == 0)
        code = write_outputs(session, a, error);
    if (code == 0 && a->profile)
        code = write_profile(session, package, &summary, a->profile, error);
    return code;
}

static int trace_set(struct trace *trace, const struct package *package, const struct arguments *a,
                     struct ipu_error *error)
{
    int code = 0;
    trace_begin(trace, package, stderr);
    for (unsigned i = 0; i < a->trace_count && code == 0; i++)
        code = trace_tile(trace, a->traces[i], error);
    for (unsigned i = 0; i < a->watch_count && code == 0; i++)
        code = trace_watch(trace, a->watches[i], error);
    trace_stop_at(trace, a->stop_at);
    return code;
}

static int open_device(struct device_session **session, const struct arguments *a,
                       struct trace *trace, struct log *log, struct ipu_error *error)
{
    struct device_options options = {.device = a->device,
                                     .configuration = a->configuration,
                                     .loader = a->loader,
                                     .jitter_us = a->jitter_us,
                                     .threads = a->threads,
                                     .strict = a->strict,
                                     .timeout_ms = a->timeout_ms,
                                     .observer = trace_observer(trace),
                                     .cancel = &trace->stop,
                                     .log = a->log ? log : NULL};
    int code = a->flag_headers ? flag_set_number_of(a->flag_headers, &options.flag_set, error) : 0;
    return code == 0 ? device_open(&options, session, error) : code;
}

int main(int argc, char **argv)
{
    struct arguments a = {.device = "sim", .repeat = 1};
    struct ipu_error error = {0};
    struct package *package = NULL;
    struct trace trace;
    struct device_session *session = NULL;
    struct log log = {.sink = log_sink_file, .context = stderr, .level = LOG_LEVEL_INFO};
    bool done;
    int code = parse(&a, argc, argv, &done);
    if (code != 0 || done)
        return code;
    code = read_package(a.package, &package, &error);
    if (code == 0)
        code = trace_set(&trace, package, &a, &error);
    if (code == 0)
        code = open_device(&session, &a, &trace, &log, &error);
    if (code == 0)
        code = run(session, package, &a, &error);
    if (code == IPU_ERR_CANCELLED && atomic_load(&trace.stop))
        code = 0; /* what --stop-at asked for */
    if (code != 0) {
        fprintf(stderr, "ipu-run: %s: %s\n", ipu_err_text(code), error.text);
        if (session)
            fputs(device_fault_report(session), stderr);
    }
    device_close(session);
    package_destroy(package);
    return code == 0 ? 0 : ipu_err_exit_code(code);
}
