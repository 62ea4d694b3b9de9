/* The frame of ipuctl: one file a command, each with a self-describing entry; parsing, help and
 * completion come from the entries.
 *
 * Data go to stdout, everything else to stderr. A command returns the exit code of the process
 * (base/errors.def). One thread.
 */
#ifndef IPU_CLIENT_COMMAND_H
#define IPU_CLIENT_COMMAND_H

#include "base/buffer.h"
#include "base/error.h"
#include "client/ipu.h"

#include <stdbool.h>
#include <stdint.h>

enum { COMMAND_MAX_OPTIONS = 24 };

struct command_option {
    const char *name;  /* long option without dashes; NULL ends the list */
    char letter;       /* short form, or 0 */
    const char *value; /* name of the value in help, NULL = a flag */
    const char *help;
};

struct context;
struct command {
    const char *name;
    const char *arguments; /* "JOB", "[JOB]", "WORKLOAD.pb" for the synopsis */
    int minimum, maximum;  /* positional arguments */
    const char *summary;   /* one line */
    const char *details;   /* further help, or "" */
    struct command_option options[COMMAND_MAX_OPTIONS];
    int (*run)(struct context *context);
};

struct context {
    const struct command *command;
    const char
        *values[COMMAND_MAX_OPTIONS]; /* by option row: text, "" for a set flag, NULL when absent */
    char **arguments;
    int argument_count;
    const char *socket; /* NULL = default */
    bool json;
    struct ipu_client *client;
    struct ipu_error error;
};

/* Value of an option of the current command; NULL when absent ("" for a flag that is set). */
const char *option_text(const struct context *c, const char *name);
bool option_flag(const struct context *c, const char *name);
/* Number in [minimum, maximum]; `fallback` when absent. False after reporting a usage error in
 * c->error. */
bool option_number(struct context *c, const char *name, uint64_t minimum, uint64_t maximum,
                   uint64_t fallback, uint64_t *out);
/* Bytes, with an optional suffix K, M, G or T (powers of 1,024). */
bool option_size(struct context *c, const char *name, uint64_t fallback, uint64_t *out);
/* Positional argument `index` as a job number; 0 when absent ("latest"). False after a usage error.
 */
bool argument_job(struct context *c, int index, uint64_t *job);

/* Connects; false with c->error set. */
bool command_connect(struct context *c);
/* Prints c->error to stderr and returns its exit code. */
int command_fail(struct context *c);
/* Sets a usage error and returns its exit code. */
int command_usage(struct context *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Exit code for a job that ended as `status` says. */
int command_job_exit(const Ipu__Rpc__JobStatus *status);
const char *command_state_name(Ipu__Rpc__JobState state);

/* Prints a protobuf message as one line of JSON to stdout: fields by name, enums by name, bytes as
 * base64, 64-bit numbers as numbers. Returns 0 or the exit code of an out-of-memory error. */
int command_json(struct context *c, const ProtobufCMessage *message);
void json_message(struct buffer *out, const ProtobufCMessage *message);
void json_string(struct buffer *out, const char *text);

/* Streams a fetch to FILE (or stdout for "-"), replacing FILE only when complete. Returns the exit
 * code. */
int command_fetch(struct context *c, const Ipu__Rpc__Fetch *request, const char *path);

/* Prints the manual page of all commands in scdoc form. */
void print_man(const struct command *const *commands, int count);

#define COMMAND(name) extern const struct command command_##name;
#include "client/commands.def"
#undef COMMAND

#endif
