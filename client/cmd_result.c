/* ipuctl result and package: what a finished job left behind. */
#include "client/command.h"

#include <stdio.h>

static int list_outputs(struct context *c, uint64_t job)
{
    const Ipu__Rpc__JobStatus *status;
    if (ipu_status(c->client, job, &status, &c->error) < 0)
        return command_fail(c);
    int exit_code = command_job_exit(status);
    job = status->job;
    if (!c->json)
        for (size_t i = 0; i < status->n_results; i++)
            puts(status->results[i]);
    const Ipu__Rpc__Outputs *outputs;
    if (ipu_outputs(c->client, job, &outputs, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &outputs->base);
    for (size_t i = 0; i < outputs->n_outputs; i++) {
        const Ipu__Rpc__Output *o = outputs->outputs[i];
        printf("output=%s type=%s shape=", o->name, o->type == 1 ? "f32" : "f16");
        for (size_t k = 0; k < o->n_shape; k++)
            printf("%s%llu", k ? "x" : "", (unsigned long long)o->shape[k]);
        printf(" bytes=%llu sha256=%s\n", (unsigned long long)o->bytes, o->digest);
    }
    return exit_code;
}

static int run_result(struct context *c)
{
    Ipu__Rpc__Fetch request = IPU__RPC__FETCH__INIT;
    if (!argument_job(c, 0, &request.job) || !command_connect(c))
        return command_fail(c);
    const char *path = option_text(c, "file"), *name = option_text(c, "output");
    if (!path && name)
        return command_usage(c, "--output needs -o FILE (\"-\" for standard output)");
    if (!path)
        return list_outputs(c, request.job);
    request.kind = IPU__RPC__FETCH_KIND__FETCH_OUTPUT;
    request.name = (char *)(name ? name : "");
    return command_fetch(c, &request, path);
}

static int run_package(struct context *c)
{
    Ipu__Rpc__Fetch request = IPU__RPC__FETCH__INIT;
    if (!argument_job(c, 0, &request.job))
        return command_fail(c);
    if (!option_text(c, "file"))
        return command_usage(c, "-o FILE is required (\"-\" for standard output)");
    if (!command_connect(c))
        return command_fail(c);
    request.kind = IPU__RPC__FETCH_KIND__FETCH_PACKAGE;
    return command_fetch(c, &request, option_text(c, "file"));
}

const struct command command_result = {
    .name = "result",
    .arguments = "JOB",
    .minimum = 1,
    .maximum = 1,
    .summary = "list the outputs of a job, or save one",
    .details = "Outputs are raw little-endian elements, row-major.",
    .options = {{"output", 0, "NAME", "which output; may be left out when there is one"},
                {"file", 'o', "FILE", "save it; \"-\" is standard output"}},
    .run = run_result,
};

const struct command command_package = {
    .name = "package",
    .arguments = "JOB",
    .minimum = 1,
    .maximum = 1,
    .summary = "save the package of a job (.ipuexe)",
    .details = "`ipu-run FILE.ipuexe` executes it without a daemon.",
    .options = {{"file", 'o', "FILE", "where to; \"-\" is standard output"}},
    .run = run_package,
};
