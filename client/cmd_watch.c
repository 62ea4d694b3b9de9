/* ipuctl watch: shows a job from any moment on; leaving it does not touch the job. */
#include "client/follow.h"

#include <stdio.h>

static int run(struct context *c)
{
    Ipu__Rpc__Watch request = IPU__RPC__WATCH__INIT;
    if (!argument_job(c, 0, &request.job) ||
        !option_number(c, "from", 0, UINT64_MAX, 0, &request.from))
        return command_fail(c);
    if (!command_connect(c))
        return command_fail(c);
    if (request.job == 0) {
        const Ipu__Rpc__JobStatus *status;
        if (ipu_status(c->client, 0, &status, &c->error) < 0)
            return command_fail(c);
        request.job = status->job;
    }
    struct follow f;
    if (!follow_begin(&f, c, option_flag(c, "log")))
        return command_fail(c);
    request.follow = true;
    const Ipu__Rpc__WatchEnd *end = NULL;
    int rc = ipu_watch(c->client, &request, follow_event, &f, &end, NULL, &c->error);
    follow_end(&f);
    if (rc < 0 && follow_interrupted(&f)) {
        fprintf(stderr, "ipuctl watch: left; the job goes on\n");
        return 0;
    }
    if (rc < 0)
        return command_fail(c);
    return end && end->status ? command_job_exit(end->status) : 0;
}

const struct command command_watch = {
    .name = "watch",
    .arguments = "[JOB]",
    .maximum = 1,
    .summary = "follow a job until it ends",
    .details = "Without JOB: your latest. Any number of watchers may follow a job.",
    .options = {{"log", 'l', NULL, "print every log record"},
                {"from", 0, "N", "start at event N instead of the first"}},
    .run = run,
};
