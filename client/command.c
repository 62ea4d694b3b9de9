/* Shared parts of the ipuctl commands: options, connection, errors, fetching to a file. See
 * command.h. */
#include "client/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const state_names[] = {"none",      "queued",   "compiling", "waiting",
                                          "running",   "checking", "done",      "failed",
                                          "cancelled", "timed-out"};

const char *command_state_name(Ipu__Rpc__JobState state)
{
    return (unsigned)state < 10 ? state_names[state] : "unknown";
}

const char *option_text(const struct context *c, const char *name)
{
    for (int i = 0; c->command->options[i].name; i++)
        if (strcmp(c->command->options[i].name, name) == 0)
            return c->values[i];
    return NULL;
}

bool option_flag(const struct context *c, const char *name)
{
    return option_text(c, name) != NULL;
}

static bool number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *out)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value < minimum || value > maximum)
        return false;
    *out = value;
    return true;
}

bool option_number(struct context *c, const char *name, uint64_t minimum, uint64_t maximum,
                   uint64_t fallback, uint64_t *out)
{
    const char *text = option_text(c, name);
    *out = fallback;
    if (!text || number(text, minimum, maximum, out))
        return true;
    ipu_error_set(&c->error, IPU_ERR_INVALID,
                  "--%s expects a whole number from %llu to %llu, not \"%s\"", name,
                  (unsigned long long)minimum, (unsigned long long)maximum, text);
    return false;
}

bool option_size(struct context *c, const char *name, uint64_t fallback, uint64_t *out)
{
    static const char suffixes[] = "KMGT";
    const char *text = option_text(c, name);
    char digits[32];
    *out = fallback;
    if (!text)
        return true;
    size_t length = strlen(text);
    const char *suffix = length ? strchr(suffixes, text[length - 1]) : NULL;
    unsigned shift = suffix && *suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    snprintf(digits, sizeof digits, "%.*s", (int)(length - (shift ? 1 : 0)), text);
    if (length < sizeof digits && number(digits, 0, UINT64_MAX >> shift, out)) {
        *out <<= shift;
        return true;
    }
    ipu_error_set(&c->error, IPU_ERR_INVALID,
                  "--%s expects bytes, such as 1048576, 500M or 2G, not \"%s\"", name, text);
    return false;
}

bool argument_job(struct context *c, int index, uint64_t *job)
{
    *job = 0;
    if (index >= c->argument_count || number(c->arguments[index], 1, UINT64_MAX, job))
        return true;
    ipu_error_set(&c->error, IPU_ERR_INVALID, "\"%s\" is not a job number", c->arguments[index]);
    return false;
}

bool command_connect(struct context *c)
{
    return ipu_connect(c->socket, "ipuctl 0.1.0", &c->client, &c->error) == 0;
}

int command_fail(struct context *c)
{
    fprintf(stderr, "ipuctl %s: %s\n", c->command->name, c->error.text);
    return ipu_err_exit_code(c->error.code);
}

int command_usage(struct context *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    c->error.code = IPU_ERR_INVALID;
    vsnprintf(c->error.text, sizeof c->error.text, format, args);
    va_end(args);
    return command_fail(c);
}

int command_job_exit(const Ipu__Rpc__JobStatus *status)
{
    switch (status->state) {
    case IPU__RPC__JOB_STATE__JOB_DONE:
        return 0;
    case IPU__RPC__JOB_STATE__JOB_CANCELLED:
        return 6;
    case IPU__RPC__JOB_STATE__JOB_FAILED:
    case IPU__RPC__JOB_STATE__JOB_TIMED_OUT:
        return status->code < 0 ? ipu_err_exit_code(status->code) : 4;
    default:
        return 0;
    }
}

int command_json(struct context *c, const ProtobufCMessage *message)
{
    struct buffer out = {0};
    json_message(&out, message);
    buffer_append(&out, "\n", 1);
    int code = 0;
    if (out.failed) {
        ipu_error_set(&c->error, IPU_ERR_NO_MEMORY, "out of memory");
        code = command_fail(c);
    } else {
        fwrite(out.data, 1, out.size, stdout);
    }
    buffer_free(&out);
    return code;
}

/* --- fetching --------------------------------------------------------------------------------- */

struct sink {
    FILE *file;
    int error;
};

static int sink_write(void *context, const void *data, size_t size)
{
    struct sink *sink = context;
    if (fwrite(data, 1, size, sink->file) == size)
        return 0;
    sink->error = errno ? errno : EIO;
    return IPU_ERR_IO;
}

static int fetch_to(struct context *c, const Ipu__Rpc__Fetch *request, FILE *file, const char *path)
{
    struct sink sink = {file, 0};
    int rc = ipu_fetch(c->client, request, sink_write, &sink, NULL, &c->error);
    if (rc == 0 && (fflush(file) != 0 || (file != stdout && fsync(fileno(file)) != 0)))
        sink.error = errno;
    if (sink.error)
        rc =
            ipu_error_set(&c->error, IPU_ERR_IO, "cannot write %s: %s", path, strerror(sink.error));
    return rc;
}

int command_fetch(struct context *c, const Ipu__Rpc__Fetch *request, const char *path)
{
    if (strcmp(path, "-") == 0)
        return fetch_to(c, request, stdout, "standard output") < 0 ? command_fail(c) : 0;
    char temporary[4096];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid()) >=
        sizeof temporary)
        return command_usage(c, "the path %s is too long", path);
    FILE *file = fopen(temporary, "wbe");
    if (!file) {
        ipu_error_set(&c->error, IPU_ERR_IO, "cannot create %s: %s", temporary, strerror(errno));
        return command_fail(c);
    }
    int rc = fetch_to(c, request, file, path);
    if (fclose(file) != 0 && rc == 0)
        rc = ipu_error_set(&c->error, IPU_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (rc == 0 && rename(temporary, path) != 0)
        rc = ipu_error_set(&c->error, IPU_ERR_IO, "cannot create %s: %s", path, strerror(errno));
    if (rc < 0)
        unlink(temporary);
    return rc < 0 ? command_fail(c) : 0;
}
