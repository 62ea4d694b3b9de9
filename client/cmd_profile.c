/* ipuctl profile: saves the .ipuprofile of a job, or prints what it says: cycles by kernel and by
 * exchange phase, predicted beside measured. A group's cycles are, summed over its steps and
 * iterations, those of the slowest tile: what the step cost the program.
 */
#include "client/command.h"

#include "proto/profile.pb-c.h"
#include "proto/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROFILE = 256 << 20 };

struct group {
    const char *name;
    const char *kernel;
    Ipu__Profile__Step__Kind kind;
    uint32_t phase;
    uint64_t measured, predicted, work;
    uint32_t tiles, executions;
};

struct summary {
    const Ipu__Profile__Profile *profile;
    uint32_t *slowest, *fastest, *tiles; /* by step */
    uint64_t *work;
    struct group *groups;
    size_t group_count;
};

static int collect(void *context, const void *data, size_t size)
{
    struct buffer *out = context;
    buffer_append(out, data, size);
    return out->failed || out->size > MAX_PROFILE ? IPU_ERR_NO_MEMORY : 0;
}

static void measure_steps(struct summary *s)
{
    const Ipu__Profile__Profile *p = s->profile;
    for (size_t i = 0; i < p->n_tiles; i++) {
        const Ipu__Profile__Tile *t = p->tiles[i];
        if (t->list >= p->n_lists)
            continue;
        const Ipu__Profile__StepList *list = p->lists[t->list];
        for (size_t k = 0; k < list->n_steps && k < t->n_cycles; k++) {
            uint32_t step = list->steps[k], cycles = t->cycles[k];
            if (step >= p->n_steps)
                continue;
            if (s->tiles[step] == 0 || cycles < s->fastest[step])
                s->fastest[step] = cycles;
            if (cycles > s->slowest[step])
                s->slowest[step] = cycles;
            s->work[step] += cycles;
            s->tiles[step]++;
        }
    }
}

static bool same_group(const struct group *g, const Ipu__Profile__Step *step)
{
    return g->kind == step->kind && g->phase == step->phase && strcmp(g->name, step->name) == 0 &&
           strcmp(g->kernel, step->kernel) == 0;
}

static struct group *group_of(struct summary *s, const Ipu__Profile__Step *step)
{
    for (size_t i = 0; i < s->group_count; i++)
        if (same_group(&s->groups[i], step))
            return &s->groups[i];
    struct group *g = &s->groups[s->group_count++];
    *g = (struct group){
        .name = step->name, .kernel = step->kernel, .kind = step->kind, .phase = step->phase};
    return g;
}

/* An exchange is over for everyone at the same moment: what it costs is the time after the last
 * tile arrived, the fastest sample. */
static void add_step(struct summary *s, size_t index)
{
    const Ipu__Profile__Step *step = s->profile->steps[index];
    if (s->tiles[index] == 0)
        return;
    struct group *g = group_of(s, step);
    bool shared_end = step->kind == IPU__PROFILE__STEP__KIND__EXCHANGE ||
                      step->kind == IPU__PROFILE__STEP__KIND__SYNC;
    g->measured += shared_end ? s->fastest[index] : s->slowest[index];
    g->predicted += step->predicted;
    g->work += s->work[index];
    g->executions++;
    if (s->tiles[index] > g->tiles)
        g->tiles = s->tiles[index];
}

static void print_groups(const struct summary *s, bool exchanges)
{
    printf("%-28s %-40s %6s %6s %10s %10s %7s\n", exchanges ? "EXCHANGE" : "STEP",
           exchanges ? "" : "KERNEL", "TIMES", "TILES", "MEASURED", "PREDICTED", "RATIO");
    for (size_t i = 0; i < s->group_count; i++) {
        const struct group *g = &s->groups[i];
        bool is_exchange = g->kind == IPU__PROFILE__STEP__KIND__EXCHANGE ||
                           g->kind == IPU__PROFILE__STEP__KIND__SYNC;
        if (is_exchange != exchanges)
            continue;
        char phase[32] = "";
        if (is_exchange)
            snprintf(phase, sizeof phase, "phase %u%s", g->phase,
                     g->kind == IPU__PROFILE__STEP__KIND__SYNC ? " (waiting tiles)" : "");
        printf("%-28.28s %-40.40s %6u %6u %10llu %10llu %7.3f\n", g->name,
               is_exchange ? phase : g->kernel, g->executions, g->tiles,
               (unsigned long long)g->measured, (unsigned long long)g->predicted,
               g->predicted ? (double)g->measured / (double)g->predicted : 0);
    }
}

static bool summarise(struct summary *s)
{
    size_t n = s->profile->n_steps + 1;
    s->slowest = calloc(n, sizeof *s->slowest);
    s->fastest = calloc(n, sizeof *s->fastest);
    s->tiles = calloc(n, sizeof *s->tiles);
    s->work = calloc(n, sizeof *s->work);
    s->groups = calloc(n, sizeof *s->groups);
    if (!s->slowest || !s->fastest || !s->tiles || !s->work || !s->groups)
        return false;
    measure_steps(s);
    for (size_t i = 0; i < s->profile->n_steps; i++)
        add_step(s, i);
    return true;
}

static void release(struct summary *s)
{
    free(s->slowest);
    free(s->fastest);
    free(s->tiles);
    free(s->work);
    free(s->groups);
}

static int print_summary(struct context *c, const Ipu__Profile__Profile *p)
{
    struct summary s = {.profile = p};
    if (!summarise(&s)) {
        release(&s);
        return command_usage(c, "out of memory");
    }
    printf("workload=%s device=%s clock=%llu tiles=%u executionTiles=%u samples=%llu\n",
           p->workload, p->device, (unsigned long long)p->clock_hz, p->chip_tiles,
           p->execution_tiles, (unsigned long long)p->samples);
    printf("cycles=%llu minimumTileCycles=%llu predicted=%llu ratio=%.3f\n",
           (unsigned long long)p->cycles, (unsigned long long)p->minimum_cycles,
           (unsigned long long)p->estimated_cycles,
           p->estimated_cycles ? (double)p->cycles / (double)p->estimated_cycles : 0);
    print_groups(&s, false);
    print_groups(&s, true);
    release(&s);
    return 0;
}

static int summary(struct context *c, const Ipu__Rpc__Fetch *request)
{
    struct buffer data = {0};
    ProtobufCMessage *message = NULL;
    int code;
    if (ipu_fetch(c->client, request, collect, &data, NULL, &c->error) < 0 ||
        scan_unpack(&ipu__profile__profile__descriptor, data.data, data.size, &scan_workload_limits,
                    &message, &c->error) < 0)
        code = command_fail(c);
    else
        code = c->json ? command_json(c, message)
                       : print_summary(c, (Ipu__Profile__Profile *)(void *)message);
    if (message)
        scan_free(message);
    buffer_free(&data);
    return code;
}

static int run(struct context *c)
{
    Ipu__Rpc__Fetch request = IPU__RPC__FETCH__INIT;
    const char *path = option_text(c, "file");
    if (!argument_job(c, 0, &request.job))
        return command_fail(c);
    if (!path && !option_flag(c, "summary"))
        return command_usage(c, "-o FILE or --summary is required");
    if (!command_connect(c))
        return command_fail(c);
    request.kind = IPU__RPC__FETCH_KIND__FETCH_PROFILE;
    if (path) {
        int code = command_fetch(c, &request, path);
        if (code || !option_flag(c, "summary"))
            return code;
    }
    return summary(c, &request);
}

const struct command command_profile = {
    .name = "profile",
    .arguments = "JOB",
    .minimum = 1,
    .maximum = 1,
    .summary = "save or summarise the cycle profile of a job",
    .details = "The summary shows cycles by kernel and by exchange phase, predicted beside "
               "measured; step by step for workloads\n"
               "written with --profile full.",
    .options = {{"file", 'o', "FILE", "save the .ipuprofile; \"-\" is standard output"},
                {"summary", 's', NULL, "print cycles by step and by exchange phase"}},
    .run = run,
};
