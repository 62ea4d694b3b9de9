/* ipuctl info and ping. */
#include "client/command.h"

#include <stdio.h>

static int run_info(struct context *c)
{
    const Ipu__Rpc__Info *i;
    if (!command_connect(c) || ipu_info(c->client, &i, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &i->base);
    printf(
        "version    %s (protocol %u)\nbuild      %s\npid        %u\nstate      %s\nsocket     %s\n",
        i->version, i->protocol, i->compiler_build, i->pid, i->state_dir, i->socket);
    printf("device     %s, %s\nresident   %s\n", i->device, i->device_state,
           i->resident_package[0] ? i->resident_package : "-");
    printf(
        "workers    %u of %u busy, %llu restarts\njobs       %u queued, %u active\nclients    %u\n",
        i->workers_busy, i->workers, (unsigned long long)i->worker_restarts, i->jobs_queued,
        i->jobs_active, i->connections);
    printf("memory     %llu KiB\nhealth     %s%s\n", (unsigned long long)i->memory_bytes / 1024,
           i->degraded[0] ? "degraded: " : "good", i->degraded);
    if (i->draining)
        puts("draining   yes: running jobs finish, then the daemon stops");
    return 0;
}

static int run_ping(struct context *c)
{
    uint64_t ns;
    if (!command_connect(c) || ipu_ping(c->client, &ns, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        printf("{\"round_trip_ns\":%llu}\n", (unsigned long long)ns);
    else
        printf("%.3f ms\n", (double)ns / 1e6);
    return 0;
}

const struct command command_info = {
    .name = "info",
    .arguments = "",
    .summary = "what the daemon is and does now",
    .details = "Answers at once, whatever the device and the compiler do. docs/OPERATIONS.md "
               "explains the lines.",
    .run = run_info,
};
const struct command command_ping = {
    .name = "ping",
    .arguments = "",
    .summary = "round trip to the daemon",
    .details = "The exit code tells whether it serves: 0, or 5 when it cannot be reached.",
    .run = run_ping,
};
