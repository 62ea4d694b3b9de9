/* ipuctl profile: saves the .ipuprofile of a job, or prints what it says: cycles by kernel and by
 * exchange phase, predicted beside measured. A group's cycles are, summed over its steps and
 * iterations, those of the slowest tile: what the step cost the program.
 */
#include "client/command.h"

#include "base/arena.h"
#include "proto/profile.pb-c.h"
#include "proto/scan.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PROFILE = 256 << 20 };

/* One execution of a step by the whole program: all tiles of one operation, kernel or phase, and
 * iteration. The compiler writes a step of its own for every different prediction, so several steps
 * make one execution. */
struct execution {
    const Ipu__Profile__Step *step;
    uint32_t slowest, predicted, tiles;
    int32_t last_arrival, last_exit; /* relative to the first counter of the file */
};

struct group {
    const Ipu__Profile__Step *step;
    uint64_t measured, predicted;
    uint32_t tiles, times;
};

struct summary {
    const Ipu__Profile__Profile *profile;
    struct arena *arena;
    uint32_t *execution_of; /* by step */
    struct execution *executions;
    size_t execution_count;
    struct group *groups;
    size_t group_count;
};

static bool is_exchange(const Ipu__Profile__Step *step)
{
    return step->kind == IPU__PROFILE__STEP__KIND__EXCHANGE ||
           step->kind == IPU__PROFILE__STEP__KIND__SYNC;
}

static bool same_place(const Ipu__Profile__Step *a, const Ipu__Profile__Step *b)
{
    if (is_exchange(a) != is_exchange(b) || a->phase != b->phase || strcmp(a->name, b->name) != 0)
        return false;
    return is_exchange(a) || (a->kind == b->kind && strcmp(a->kernel, b->kernel) == 0);
}

static int collect(void *context, const void *data, size_t size)
{
    struct buffer *out = context;
    buffer_append(out, data, size);
    return out->failed || out->size > MAX_PROFILE ? IPU_ERR_NO_MEMORY : 0;
}

static void find_executions(struct summary *s)
{
    for (size_t i = 0; i < s->profile->n_steps; i++) {
        const Ipu__Profile__Step *step = s->profile->steps[i];
        size_t k = 0;
        while (k < s->execution_count && !(s->executions[k].step->iteration == step->iteration &&
                                           same_place(s->executions[k].step, step)))
            k++;
        if (k == s->execution_count)
            s->executions[s->execution_count++] =
                (struct execution){.step = step, .last_arrival = INT32_MIN, .last_exit = INT32_MIN};
        if (step->predicted > s->executions[k].predicted)
            s->executions[k].predicted = step->predicted;
        s->execution_of[i] = (uint32_t)k;
    }
}

static void measure_sample(struct execution *e, int32_t start, uint32_t cycles)
{
    int32_t end = (int32_t)((uint32_t)start + cycles);
    e->slowest = cycles > e->slowest ? cycles : e->slowest;
    e->last_arrival = start > e->last_arrival ? start : e->last_arrival;
    e->last_exit = end > e->last_exit ? end : e->last_exit;
    e->tiles++;
}

static void measure(struct summary *s)
{
    const Ipu__Profile__Profile *p = s->profile;
    for (size_t i = 0; i < p->n_tiles; i++) {
        const Ipu__Profile__Tile *t = p->tiles[i];
        const Ipu__Profile__StepList *list = t->list < p->n_lists ? p->lists[t->list] : NULL;
        uint32_t at = t->start - p->tiles[0]->start;
        for (size_t k = 0; list && k < list->n_steps && k < t->n_cycles; k++) {
            if (list->steps[k] < p->n_steps)
                measure_sample(&s->executions[s->execution_of[list->steps[k]]], (int32_t)at,
                               t->cycles[k]);
            at += t->cycles[k];
        }
    }
}

/* An exchange costs the program the time from the last tile's arrival to the last tile's exit; the
 * counters of all tiles read one clock on the simulated device. A compute step costs what its
 * slowest tile takes. */
static void add_execution(struct summary *s, const struct execution *e)
{
    size_t i = 0;
    if (e->tiles == 0)
        return;
    while (i < s->group_count && !same_place(s->groups[i].step, e->step))
        i++;
    if (i == s->group_count)
        s->groups[s->group_count++] = (struct group){.step = e->step};
    struct group *g = &s->groups[i];
    g->measured += is_exchange(e->step) ? (uint32_t)(e->last_exit - e->last_arrival) : e->slowest;
    g->predicted += e->predicted;
    g->times++;
    g->tiles = e->tiles > g->tiles ? e->tiles : g->tiles;
}

static void print_groups(const struct summary *s, bool exchanges)
{
    printf("%-28s %-40s %6s %6s %10s %10s %7s\n", exchanges ? "EXCHANGE" : "STEP",
           exchanges ? "" : "KERNEL", "TIMES", "TILES", "MEASURED", "PREDICTED", "RATIO");
    for (size_t i = 0; i < s->group_count; i++) {
        const struct group *g = &s->groups[i];
        if (is_exchange(g->step) != exchanges)
            continue;
        char phase[32];
        snprintf(phase, sizeof phase, "phase %u", g->step->phase);
        printf("%-28.28s %-40.40s %6u %6u %10llu %10llu %7.3f\n", g->step->name,
               exchanges ? phase : g->step->kernel, g->times, g->tiles,
               (unsigned long long)g->measured, (unsigned long long)g->predicted,
               g->predicted ? (double)g->measured / (double)g->predicted : 0);
    }
}

static bool summarise(struct summary *s)
{
    size_t n = s->profile->n_steps + 1;
    s->execution_of = ARENA_ARRAY(s->arena, uint32_t, n);
    s->executions = ARENA_ARRAY(s->arena, struct execution, n);
    s->groups = ARENA_ARRAY(s->arena, struct group, n);
    if (!s->execution_of || !s->executions || !s->groups)
        return false;
    find_executions(s);
    measure(s);
    for (size_t i = 0; i < s->execution_count; i++)
        add_execution(s, &s->executions[i]);
    return true;
}

static int print_summary(struct context *c, const Ipu__Profile__Profile *p)
{
    struct summary s = {.profile = p, .arena = arena_create(0)};
    if (!s.arena || !summarise(&s)) {
        arena_destroy(s.arena);
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
    arena_destroy(s.arena);
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
