/* The compiler as one call: see compile.h. The pipeline is the list of calls in compile_message().
 *
 * Every finalist of the search is lowered, placed and scheduled physically; the one with the fewest
 * refined cycles wins, ties by index. A finalist that does not fit is passed over; only when none
 * fits does the compile fail, with the reason of the best one. All intermediate data live in one
 * arena with a byte budget, freed whole.
 */
#include "compiler/compile.h"

#include "compiler/codegen/codegen.h"
#include "compiler/graph/graph.h"
#include "compiler/place/place.h"
#include "compiler/plan/plan.h"
#include "device/kernels/flag_set.h"

#include <string.h>

enum {
    FINALISTS = 4,
    SCREEN_EFFORT = 1,
    FINAL_EFFORT = 3,
    TIGHTER = 5,                /* searches under lower limits when no finalist can be placed */
    TIGHTER_FIRST = 536 * 1024, /* bytes of a tile */
    TIGHTER_STEP = 24 * 1024
};
static const size_t ARENA_BUDGET = (size_t)8 << 30;

struct compile {
    const struct compile_options *options;
    struct compile_result *result;
    struct ipu_error *error;
    struct arena *arena;
    const struct flow *flow;
    struct codegen_options codegen;
    struct plan_result plans;
};

struct finalist {
    const struct plan *plan;
    struct program *program;
    struct program_schedule *schedule;
    uint32_t region0[PROGRAM_TILES];
};

static void progress(const struct compile *c, const char *phase)
{
    if (c->options->progress)
        c->options->progress(c->options->progress_context, phase, 0, 0);
}

static void search_progress(void *context, uint64_t best, uint64_t candidates, double seconds)
{
    const struct compile *c = context;
    (void)seconds;
    c->result->search_attempts = (unsigned)candidates; /* the last report is the whole count */
    if (c->options->progress)
        c->options->progress(c->options->progress_context, "lower_mid", best, candidates);
}

static int cancelled(const struct compile *c)
{
    if (c->options->cancel && atomic_load_explicit(c->options->cancel, memory_order_relaxed))
        return ipu_error_set(c->error, IPU_ERR_CANCELLED, "the compile was cancelled");
    return 0;
}

static int search(struct compile *c, const Ipu__Workload__Options *options, uint32_t tile_bytes)
{
    struct plan_options o = {.finalists = FINALISTS,
                             .threads = c->options->threads,
                             .tile_bytes = tile_bytes,
                             .state = c->options->search_state,
                             .state_size = c->options->search_state_size,
                             .log = c->options->log,
                             .cancel = c->options->cancel,
                             .progress = search_progress,
                             .progress_context = c};
    if (options) {
        o.search_ms = options->search_ms;
        o.seed = options->seed;
    }
    c->plans.state = &c->result->search_state;
    struct log_phase phase = log_phase_begin(c->options->log, "lower_mid");
    int rc = plan_search(c->flow, &o, c->arena, &c->plans, c->error);
    log_phase_end(&phase, rc == 0);
    return rc;
}

static int build_finalist(struct compile *c, struct finalist *f, unsigned effort)
{
    struct place_report report;
    int rc = cancelled(c);
    if (rc == 0)
        rc = lower_program(c->flow, f->plan, c->arena, &f->program, c->error);
    if (rc == 0)
        rc = codegen_reserve(c->flow, f->program, &c->codegen, c->arena, f->region0, c->error);
    if (rc == 0)
        rc = place_program(f->program, f->region0, c->arena, &report, c->error);
    if (rc == 0)
        rc = program_schedule(f->program, f->region0, effort, &c->codegen, c->arena, &f->schedule,
                              c->error);
    return rc;
}

static void log_finalist(const struct compile *c, unsigned index, const struct finalist *f)
{
    const struct plan *p = f->plan;
    uint64_t scheduled = f->schedule->exchange_cycles;
    log_event(
        c->options->log, LOG_LEVEL_INFO, "select_finalist", "modelled expanded operator plan",
        "finalist=%u modelled_cycles=%llu estimated_cycles=%llu estimated_exchange_cycles=%llu",
        index, (unsigned long long)f->schedule->cycles, (unsigned long long)p->estimated_cycles,
        (unsigned long long)p->estimated_exchange_cycles);
    log_event(c->options->log, LOG_LEVEL_INFO, "select_finalist",
              "scheduled operator-plan finalist",
              "finalist=%u mapped=false analytical_cycles=%llu analytical_exchange_cycles=%llu "
              "scheduled_exchange_cycles=%llu "
              "refined_cycles=%llu",
              index, (unsigned long long)p->estimated_cycles,
              (unsigned long long)p->estimated_exchange_cycles, (unsigned long long)scheduled,
              (unsigned long long)(p->estimated_cycles - p->estimated_exchange_cycles + scheduled));
}

/* A finalist that does not fit, or whose schedule the verifier does not prove, costs only itself as
 * long as another one serves. */
static bool passed_over(const struct compile *c, unsigned index, int code)
{
    if (code != IPU_ERR_NO_FIT && code != IPU_ERR_INTERNAL)
        return false;
    log_event(c->options->log, code == IPU_ERR_INTERNAL ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
              "select_finalist", "passed over operator-plan finalist", "finalist=%u reason=\"%s\"",
              index, c->error->text);
    return true;
}

/* Keeps the better of two finalists; arenas keep both until the end. */
static int select_finalist(struct compile *c, struct finalist *best)
{
    struct ipu_error first = {0};
    int selected = -1;
    for (unsigned i = 0; i < c->plans.count; i++) {
        struct finalist *f = ARENA_NEW(c->arena, struct finalist);
        if (!f)
            return ipu_error_set(c->error, IPU_ERR_NO_MEMORY, "compile: out of memory");
        f->plan = c->plans.plans[i];
        int rc = build_finalist(c, f, SCREEN_EFFORT);
        if (rc < 0 && !passed_over(c, i, rc))
            return rc;
        if (rc < 0 && !first.code)
            first = *c->error;
        if (rc < 0)
            continue;
        log_finalist(c, i, f);
        plan_state_note(c->plans.state, f->plan, f->schedule->cycles);
        if (selected < 0 || f->schedule->cycles < best->schedule->cycles) {
            *best = *f;
            selected = (int)i;
        }
    }
    if (selected < 0) {
        *c->error = first;
        return first.code;
    }
    log_event(c->options->log, LOG_LEVEL_INFO, "select_finalist",
              "selected physically scheduled operator-plan finalist", "selected=%d mapped=false",
              selected);
    return 0;
}

static int choose(struct compile *c, struct finalist *best)
{
    progress(c, "select_finalist");
    struct log_phase phase = log_phase_begin(c->options->log, "select_finalist");
    int rc = select_finalist(c, best);
    if (rc == 0)
        rc = program_schedule(best->program, best->region0, FINAL_EFFORT, &c->codegen, c->arena,
                              &best->schedule, c->error);
    log_phase_end(&phase, rc == 0);
    return rc;
}

/* Plans are made against an estimate of what a tile has left beside code and exchange rows. When
 * none of them could be placed, leaner ones are tried; the first refusal is the one to report. */
static int choose_tighter(struct compile *c, const Ipu__Workload__Options *options,
                          struct finalist *best)
{
    struct ipu_error refusal = *c->error;
    for (unsigned i = 0; i < TIGHTER; i++) {
        int rc = search(c, options, TIGHTER_FIRST - i * TIGHTER_STEP);
        if (rc == 0)
            rc = choose(c, best);
        if (rc != IPU_ERR_NO_FIT)
            return rc;
    }
    *c->error = refusal;
    return refusal.code;
}

static int emit(struct compile *c, struct finalist *best)
{
    struct package *package = NULL;
    progress(c, "emit");
    int rc = codegen_package(c->flow, best->program, best->schedule, &c->codegen, c->arena,
                             &package, c->error);
    if (rc == 0) {
        log_event(c->options->log, LOG_LEVEL_INFO, "", "writing application package", "tiles=%d",
                  PROGRAM_TILES);
        rc = package_write(package, &c->result->package, c->error);
    }
    if (rc == 0)
        log_event(c->options->log, LOG_LEVEL_INFO, "", "application package written", "bytes=%zu",
                  c->result->package.size);
    package_destroy(package);
    return rc;
}

static int compile_message(struct compile *c, const Ipu__Workload__Workload *message)
{
    struct graph *graph = NULL;
    struct flow *flow = NULL;
    struct finalist best = {0};
    int rc = graph_check(message, c->arena, &graph, c->error);
    if (rc == 0)
        rc = graph_flow(graph, c->arena, &flow, c->error);
    c->flow = flow;
    if (rc == 0)
        rc = search(c, message->options, 0);
    if (rc == 0)
        rc = choose(c, &best);
    if (rc == IPU_ERR_NO_FIT && c->plans.count > 0)
        rc = choose_tighter(c, message->options, &best);
    if (rc == 0)
        rc = emit(c, &best);
    if (rc)
        return rc;
    c->result->resumed = c->plans.resumed;
    if (best.schedule)
        c->result->estimated_cycles = best.schedule->cycles;
    log_event(c->options->log, LOG_LEVEL_INFO, "build", "validated search incumbent",
              "cycles=%llu resuming=%s", (unsigned long long)c->result->estimated_cycles,
              c->result->resumed ? "true" : "false");
    return 0;
}

static enum codegen_profile profile_of(const Ipu__Workload__Options *options)
{
    if (!options || options->profile == IPU__WORKLOAD__PROFILE_MODE__PROFILE_OVERALL)
        return CODEGEN_PROFILE_OVERALL;
    return options->profile == IPU__WORKLOAD__PROFILE_MODE__PROFILE_FULL ? CODEGEN_PROFILE_FULL
                                                                         : CODEGEN_PROFILE_NONE;
}

int compile_workload(const void *workload, size_t size, const struct compile_options *options,
                     struct compile_result *result, struct ipu_error *error)
{
    struct graph_message *message = NULL;
    struct flag_set *flags = NULL;
    *result = (struct compile_result){0};
    int rc = flag_set_read(options->flag_headers, &flags, error);
    if (rc == 0)
        rc = graph_parse(workload, size, &message, error);
    if (rc < 0) {
        flag_set_free(flags);
        return rc;
    }
    const Ipu__Workload__Options *o = graph_message(message)->options;
    struct compile c = {
        .options = options, .result = result, .error = error, .arena = arena_create(ARENA_BUDGET)};
    c.codegen = (struct codegen_options){.threads = options->threads,
                                         .cache = &options->cache,
                                         .profile = profile_of(o),
                                         .clock_hz = o ? o->clock_hz : 0,
                                         .compiler = "0.1.0",
                                         .flags = flags,
                                         .log = options->log,
                                         .cancel = options->cancel};
    rc = c.arena ? compile_message(&c, graph_message(message))
                 : ipu_error_set(error, IPU_ERR_NO_MEMORY, "compile: out of memory");
    arena_destroy(c.arena);
    graph_release(message);
    flag_set_free(flags);
    if (rc < 0)
        compile_result_free(result);
    return rc;
}

void compile_result_free(struct compile_result *result)
{
    buffer_free(&result->package);
    buffer_free(&result->search_state);
}
