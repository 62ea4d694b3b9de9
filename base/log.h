/* Structured one-line log events: `time LEVEL phase message key=value ...`.
 *
 * A struct log is a sink plus a level. Records go to the sink synchronously on the calling thread;
 * the sink must be thread-safe if the log is shared. Producers that run in another process send
 * records over the wire and the receiver calls log_write().
 */
#ifndef IPU_BASE_LOG_H
#define IPU_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

struct log_record {
    uint64_t time_us; /* microseconds since the epoch */
    enum log_level level;
    const char *phase;   /* stage name such as "lower_mid", or "" */
    const char *message; /* fixed text, e.g. "retained operator-plan finalist" */
    const char *fields;  /* "key=value key=value", or "" */
};

struct log {
    void (*sink)(void *context, const struct log_record *record);
    void *context;
    enum log_level level;
};

/* Emits one event with the current time; `fields` is a printf format. `log` may be NULL (drops the
 * event). */
void log_event(struct log *log, enum log_level level, const char *phase, const char *message,
               const char *fields, ...) __attribute__((format(printf, 5, 6)));
/* Passes an existing record to the sink when its level is high enough. */
void log_write(struct log *log, const struct log_record *record);
/* Formats `2026-09-06T21:13:18.793271Z  INFO phase message fields` without a newline; returns the
 * length as snprintf does. */
int log_format(const struct log_record *record, char *text, size_t size);
/* A sink that writes lines to the FILE in `context` with one write per line. */
void log_sink_file(void *context, const struct log_record *record);
const char *log_level_name(enum log_level level);

/* A phase timer: logs "package build phase finished phase=... elapsed_ms=... success=..."
 * (facts/seed_log_fields.md, event 2). */
struct log_phase {
    struct log *log;
    const char *phase;
    uint64_t start_ns;
};
struct log_phase log_phase_begin(struct log *log, const char *phase);
void log_phase_end(struct log_phase *phase, int success);

#endif
