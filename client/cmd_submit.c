/* ipuctl submit: uploads a workload and, unless detached, shows the job until it ends. */
#include "client/follow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WORKLOAD = 1 << 30 };

static int read_workload(struct context *c, const char *path, struct buffer *data)
{
    int rc = buffer_read_file(data, strcmp(path, "-") == 0 ? "/dev/stdin" : path, MAX_WORKLOAD);
    if (rc == -EFBIG)
        return command_usage(c, "%s is larger than 1 GiB, the most that a workload file may have",
                             path);
    if (rc < 0)
        return command_usage(c, "cannot read %s: %s", path, strerror(-rc));
    if (data->size == 0)
        return command_usage(c, "%s is empty", path);
    return 0;
}

/* After an interrupt: asks the daemon to cancel and says so. */
static int cancel(struct context *c, struct follow *f, uint64_t job)
{
    follow_end(f);
    ipu_set_wake_fd(c->client, -1);
    const Ipu__Rpc__JobStatus *status;
    if (job && ipu_cancel(c->client, job, &status, &c->error) < 0)
        return command_fail(c);
    fprintf(stderr, "ipuctl submit: interrupted, job %llu cancelled\n", (unsigned long long)job);
    return 6;
}

static int submit_and_wait(struct context *c, struct ipu_submit *s)
{
    struct follow f;
    const Ipu__Rpc__WatchEnd *end = NULL;
    uint64_t job = 0;
    if (!follow_begin(&f, c, option_flag(c, "log")))
        return command_fail(c);
    s->event = s->detach ? NULL : follow_event;
    s->context = &f;
    s->sent = follow_upload;
    int rc = ipu_submit(c->client, s, &job, &end, NULL, &c->error);
    follow_end(&f);
    if (rc < 0 && follow_interrupted(&f))
        return cancel(c, &f, job);
    if (rc < 0)
        return command_fail(c);
    if (s->detach && c->json)
        printf("{\"job\":%llu}\n", (unsigned long long)job);
    else if (s->detach)
        printf("%llu\n", (unsigned long long)job);
    return end && end->status ? command_job_exit(end->status) : 0;
}

static int run(struct context *c)
{
    struct buffer data = {0};
    uint64_t priority;
    if (!option_number(c, "priority", 0, 20, 10, &priority))
        return command_fail(c);
    int code = read_workload(c, c->arguments[0], &data);
    if (code == 0 && !command_connect(c))
        code = command_fail(c);
    if (code == 0) {
        struct ipu_submit s = {.name = option_text(c, "name"),
                               .data = data.data,
                               .size = data.size,
                               .detach = option_flag(c, "detach"),
                               .no_cache = option_flag(c, "no-cache"),
                               .priority = (int)priority - 10,
                               .log_level = option_flag(c, "debug")
                                                ? IPU__RPC__LOG_LEVEL__LOG_DEBUG
                                                : IPU__RPC__LOG_LEVEL__LOG_INFO};
        code = submit_and_wait(c, &s);
    }
    buffer_free(&data);
    return code;
}

const struct command command_submit = {
    .name = "submit",
    .arguments = "WORKLOAD.pb",
    .minimum = 1,
    .maximum = 1,
    .summary = "compile, run and check a workload",
    .details = "Waits and shows the job; the exit code tells how it ended. Ctrl-C cancels it. "
               "\"-\" reads standard input.",
    .options = {{"detach", 'd', NULL, "print the job number and return at once"},
                {"log", 'l', NULL, "print every log record"},
                {"debug", 0, NULL, "keep debug records too"},
                {"name", 'n', "NAME", "name of the job in lists"},
                {"no-cache", 0, NULL, "compile even if a package is cached"},
                {"priority", 'p', "N", "0 (late) to 20 (early), 10 by default"}},
    .run = run,
};
