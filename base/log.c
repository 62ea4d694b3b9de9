/* Log formatting and sinks: see log.h. */
#include "base/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const level_names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

const char *log_level_name(enum log_level level)
{
    return (unsigned)level < 4 ? level_names[level] : "INFO";
}

void log_write(struct log *log, const struct log_record *record)
{
    if (log && log->sink && record->level >= log->level)
        log->sink(log->context, record);
}

void log_event(struct log *log, enum log_level level, const char *phase, const char *message,
               const char *fields, ...)
{
    if (!log || !log->sink || level < log->level)
        return;
    char text[2048];
    va_list args;
    va_start(args, fields);
    vsnprintf(text, sizeof text, fields, args);
    va_end(args);
    struct log_record record = {clock_wall_us(), level, phase ? phase : "", message, text};
    log->sink(log->context, &record);
}

int log_format(const struct log_record *record, char *text, size_t size)
{
    time_t seconds = (time_t)(record->time_us / 1000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char stamp[40];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    return snprintf(text, size, "%s.%06uZ %5s %s%s%s%s%s", stamp,
                    (unsigned)(record->time_us % 1000000), log_level_name(record->level),
                    record->phase, record->phase[0] ? " " : "", record->message,
                    record->fields[0] ? " " : "", record->fields);
}

void log_sink_file(void *context, const struct log_record *record)
{
    char line[4096];
    int n = log_format(record, line, sizeof line - 1);
    if (n < 0)
        return;
    size_t length = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    line[length] = '\n';
    fwrite(line, 1, length + 1, context);
    fflush(context);
}

struct log_phase log_phase_begin(struct log *log, const char *phase)
{
    return (struct log_phase){log, phase, clock_ns()};
}

void log_phase_end(struct log_phase *phase, int success)
{
    unsigned long long ms = (clock_ns() - phase->start_ns) / 1000000;
    log_event(phase->log, LOG_LEVEL_INFO, phase->phase, "package build phase finished",
              "phase=\"%s\" elapsed_ms=%llu success=%s", phase->phase, ms,
              success ? "true" : "false");
}
