/* ipuctl status and cancel. */
#include "client/command.h"

#include <stdio.h>
#include <time.h>

static void print_time(const char *name, uint64_t us)
{
    char text[40];
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    if (!us || !localtime_r(&seconds, &tm))
        return;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    printf("%-10s %s\n", name, text);
}

static void print_status(const Ipu__Rpc__JobStatus *s)
{
    printf("%-10s %llu\n%-10s %s\n%-10s %s", "job", (unsigned long long)s->job, "name", s->name,
           "state", command_state_name(s->state));
    if (s->position)
        printf(", position %u", s->position);
    puts(s->package_cached ? ", cached package" : "");
    if (s->reason[0])
        printf("%-10s %s\n", "reason", s->reason);
    if (s->phase[0])
        printf("%-10s %s %.0f%%\n", "phase", s->phase, s->progress * 100);
    print_time("submitted", s->submitted_us);
    print_time("started", s->started_us);
    print_time("finished", s->finished_us);
    if (s->cycles)
        printf("%-10s %llu\n", "cycles", (unsigned long long)s->cycles);
    printf("%-10s compile %.1f ms, run %.1f ms, check %.1f ms\n", "times", s->compile_ms, s->run_ms,
           s->check_ms);
    for (size_t i = 0; i < s->n_results; i++)
        puts(s->results[i]);
}

static int list(struct context *c)
{
    Ipu__Rpc__ListRequest request = IPU__RPC__LIST_REQUEST__INIT;
    uint64_t limit;
    if (!option_number(c, "limit", 1, 200, 20, &limit) ||
        !option_number(c, "before", 1, UINT64_MAX, 0, &request.before))
        return command_fail(c);
    request.limit = (uint32_t)limit;
    request.mine = option_flag(c, "mine");
    request.active = option_flag(c, "active");
    const Ipu__Rpc__JobList *jobs;
    if (ipu_list(c->client, &request, &jobs, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &jobs->base);
    printf("%6s %6s %-10s %4s %10s  %s\n", "JOB", "UID", "STATE", "POS", "CYCLES", "NAME");
    for (size_t i = 0; i < jobs->n_jobs; i++) {
        const Ipu__Rpc__JobStatus *s = jobs->jobs[i];
        printf("%6llu %6u %-10s %4u %10llu  %s%s%s\n", (unsigned long long)s->job, s->uid,
               command_state_name(s->state), s->position, (unsigned long long)s->cycles, s->name,
               s->reason[0] ? "  # " : "", s->reason);
    }
    if (jobs->more && jobs->n_jobs)
        fprintf(stderr, "there are earlier jobs: --before %llu shows them\n",
                (unsigned long long)jobs->jobs[jobs->n_jobs - 1]->job);
    return 0;
}

static int run_status(struct context *c)
{
    uint64_t job;
    if (!argument_job(c, 0, &job) || !command_connect(c))
        return command_fail(c);
    if (c->argument_count == 0)
        return list(c);
    const Ipu__Rpc__JobStatus *status;
    if (ipu_status(c->client, job, &status, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &status->base);
    print_status(status);
    return 0;
}

static int run_cancel(struct context *c)
{
    uint64_t job;
    if (!argument_job(c, 0, &job) || !command_connect(c))
        return command_fail(c);
    const Ipu__Rpc__JobStatus *status;
    if (ipu_cancel(c->client, job, &status, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &status->base);
    fprintf(stderr, "job %llu: %s\n", (unsigned long long)status->job,
            command_state_name(status->state));
    return 0;
}

const struct command command_status = {
    .name = "status",
    .arguments = "[JOB]",
    .maximum = 1,
    .summary = "show a job, or list the latest jobs",
    .details = "Without JOB: the latest jobs of all users, latest first.",
    .options = {{"mine", 'm', NULL, "only your jobs"},
                {"active", 'a', NULL, "only jobs that have not ended"},
                {"limit", 'n', "N", "at most N jobs, 1 to 200, 20 by default"},
                {"before", 'b', "JOB", "only jobs before this one: the next page"}},
    .run = run_status,
};

const struct command command_cancel = {
    .name = "cancel",
    .arguments = "JOB",
    .minimum = 1,
    .maximum = 1,
    .summary = "cancel a job in any state",
    .details = "A queued job leaves the line at once; a compile stops and a run is taken off the "
               "device within a\n"
               "second. Jobs that wait for the same compile go on.",
    .run = run_cancel,
};
