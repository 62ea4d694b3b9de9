/* ipuctl log: the stored log records of a job, one line each, on stdout. */
#include "client/command.h"

#include "base/log.h"

#include <stdio.h>

static int print_record(void *context, const Ipu__Rpc__Event *event)
{
    struct context *c = context;
    static const enum log_level levels[] = {LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_LEVEL_WARN,
                                            LOG_LEVEL_ERROR};
    if (event->kind_case != IPU__RPC__EVENT__KIND_LOG)
        return 0;
    if (c->json)
        return command_json(c, &event->base) ? IPU_ERR_NO_MEMORY : 0;
    const Ipu__Rpc__LogEvent *l = event->log;
    struct log_record record = {event->time_us,
                                (unsigned)l->level < 4 ? levels[l->level] : LOG_LEVEL_INFO,
                                l->phase, l->message, l->fields};
    char text[4096];
    log_format(&record, text, sizeof text);
    puts(text);
    return 0;
}

static int run(struct context *c)
{
    Ipu__Rpc__Watch request = IPU__RPC__WATCH__INIT;
    if (!argument_job(c, 0, &request.job) || !command_connect(c))
        return command_fail(c);
    request.logs_only = true;
    request.log_level =
        option_flag(c, "debug") ? IPU__RPC__LOG_LEVEL__LOG_DEBUG : IPU__RPC__LOG_LEVEL__LOG_INFO;
    request.follow = option_flag(c, "follow");
    if (request.job == 0) {
        const Ipu__Rpc__JobStatus *status;
        if (ipu_status(c->client, 0, &status, &c->error) < 0)
            return command_fail(c);
        request.job = status->job;
    }
    if (ipu_watch(c->client, &request, print_record, c, NULL, NULL, &c->error) < 0)
        return command_fail(c);
    return 0;
}

const struct command command_log = {
    .name = "log",
    .arguments = "[JOB]",
    .maximum = 1,
    .summary = "print the log of a job",
    .details = "Without JOB: your latest.",
    .options = {{"follow", 'f', NULL, "stay until the job ends"},
                {"debug", 0, NULL, "debug records too"}},
    .run = run,
};
