/* plan_search(): first legal plan, beam, improvement, finalists, state.
 *
 * The first legal plan is secured before anything is improved. The budget in milliseconds maps to
 * work units (priced layouts), not to the clock, so the result is the same on any machine and for
 * any number of threads; the clock only stops a search that takes ten times its budget. A stored
 * state replaces the first plan and the beam: its incumbent is replayed exactly, then improved
 * within a small budget.
 */
#include "compiler/plan/search.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "compiler/plan/state.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    SEARCH_UNITS_PER_MS = 400, /* calibrated on the development machine; only scales budgets */
    SEARCH_GRIDS = 48,         /* GEMM grids kept by enumeration */
    SEARCH_ISLAND_MS = 400,    /* budgets from here on are split over two islands */
    SEARCH_RESUME_SHARE = 16,  /* a resumed search gets this part of the budget */
    SEARCH_BEAM_NARROW = 3,
    SEARCH_BEAM_WIDTH = 16
};

struct search {
    const struct flow *flow;
    const struct plan_options *options;
    struct arena *arena;
    struct model *model;
    struct space *space;
    struct pool pool;
    struct budget budget;
    struct search_state state;
    uint32_t budget_ms;
    bool resumed;
    uint64_t island_attempts;
};

static int no_memory(struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the search");
}

static int no_fit(struct space *space, const struct solution *leanest, const struct memory_use *use,
                  struct ipu_error *error)
{
    const struct model_op *op = &space->model->ops[use->op];
    static const char *const names[] = {"matmul", "add",     "gelu",  "relu",
                                        "cast",   "permute", "repeat"};
    const char *label = op->flow->label != NULL ? op->flow->label : "";
    bool interleaved = use->total <= space->limit;
    uint64_t needed = interleaved ? use->bound : use->total;
    uint64_t there = interleaved ? PLAN_INTERLEAVED_BYTES : space->limit;
    return ipu_error_set(
        error, IPU_ERR_NO_FIT,
        "plan: operation %u (%s%s%s): no layout fits the %u tiles: a tile needs %llu bytes of %s, "
        "%llu of them for this operation alone, and has %llu",
        op->op, names[op->flow->kind], *label ? " " : "", label, space->tiles,
        (unsigned long long)needed, interleaved ? "interleaved memory" : "memory",
        (unsigned long long)candidate_bytes(space, use->op, leanest->pick[use->op]),
        (unsigned long long)there);
}

/* Small graphs get 40 ms, full-size layers about 1.5 s. Random starts reach the same plans as the
 * beam within these budgets (tests/unit/plan_improve_test.c). */
static uint32_t default_budget(const struct model *model)
{
    uint64_t ms = 40, operations = 0;
    for (uint32_t c = 0; c < model->class_count; c++) {
        const struct model_op *op = &model->ops[model->class_op[c]];
        uint64_t work = (uint64_t)op->batch * op->rows * op->panels * op->inners;
        uint64_t useful = work / 64 < model->tiles ? work / 64 : model->tiles;
        ms += useful > 64 ? (useful - 64) / 2 : 0;
        operations += op->inners > 0;
    }
    ms += operations > 4 ? 4 * (operations - 4) : 0;
    return (uint32_t)(ms < 4000 ? ms : 4000);
}

static void set_budget(struct search *search, uint64_t units)
{
    search->budget.units = search->space->units + units;
    search->budget.cancel = search->options->cancel;
    search->budget.progress = search->options->progress;
    search->budget.progress_context = search->options->progress_context;
    search->budget.start_ns = clock_ns();
    search->budget.deadline_ns =
        search->budget.start_ns + (uint64_t)search->budget_ms * 10 * 1000000;
}

static uint64_t recipe_hash(struct space *space, const uint16_t *pick)
{
    struct buffer recipe = {0};
    uint64_t hash = recipe_write(space, pick, &recipe) ? hash64(recipe.data, recipe.size) : 0;
    buffer_free(&recipe);
    return hash;
}

static void offer_frontier(struct search *search, struct solution *solution)
{
    struct space *s = search->space;
    for (unsigned i = 0; i < search->state.frontier_count; i++) {
        const struct state_recipe *r = &search->state.frontier[i];
        struct memory_use use;
        if (recipe_read(s, r->data, r->size, solution) &&
            solution_memory(s, solution->pick, &use) && memory_fits(s, &use))
            pool_offer(&search->pool, s, solution);
    }
}

static void set_limits(struct search *search)
{
    uint32_t asked = search->options->tile_bytes;
    search->space->count_text = asked != 0;
    search->space->limit = asked != 0 ? asked : PLAN_TILE_BYTES;
}

/* What thrifty plans are held to: all that a tile has, less the text of their passes. */
static void count_thriftily(struct search *search)
{
    search->space->count_text = true;
    if (search->options->tile_bytes == 0)
        search->space->limit = PLAN_TILE_MOST;
}

/* Takes over the frontier of a stored state; false when nothing of it is usable. */
static bool resume_frontier(struct search *search)
{
    struct space *s = search->space;
    struct solution solution;
    if (!solution_new(s, &solution))
        return false;
    offer_frontier(search, &solution);
    if (search->pool.count == 0) { /* found when nothing else fitted? */
        count_thriftily(search);
        offer_frontier(search, &solution);
    }
    for (uint32_t i = 0; search->pool.count > 0 && i < search->state.visited_count; i++)
        visited_add(s, search->state.visited[i]);
    return search->pool.count > 0;
}

static void load_state(struct search *search)
{
    const struct plan_options *o = search->options;
    const char *reason = NULL;
    uint64_t key = model_hash(search->flow);
    set_limits(search);
    if (o->state != NULL && o->state_size > 0) {
        if (!state_read(o->state, o->state_size, search->arena, &search->state, &reason))
            ;
        else if (search->state.key != key)
            reason = "it belongs to another graph";
        else if (search->state.cost_version != PLAN_COST_VERSION)
            reason = "its cost model is another";
        else if (!resume_frontier(search))
            reason = "its plans are not legal here";
        if (reason == NULL) {
            search->resumed = true;
            search->state.resumes++;
            log_event(o->log, LOG_LEVEL_INFO, "lower_mid", "loaded mid-plan search state",
                      "attempts=%llu frontier=%u resumes=%u",
                      (unsigned long long)search->state.attempts, search->state.frontier_count,
                      search->state.resumes);
            return;
        }
        log_event(o->log, LOG_LEVEL_WARN, "lower_mid", "ignored mid-plan search state",
                  "reason=\"%s\" bytes=%zu", reason, o->state_size);
    }
    set_limits(search);
    memset(&search->state, 0, sizeof search->state);
    search->state.key = key;
    search->state.seed = o->seed;
    search->state.cost_version = PLAN_COST_VERSION;
}

/* Thriftier products only when nothing else fits. Their passes add to the program's text, so that
 * is counted from then on, and in return the limit is all that a tile has. */
static bool first_plan(struct search *search, struct solution *first, struct memory_use *use)
{
    struct space *s = search->space;
    for (enum thrift thrift = THRIFT_NONE; thrift < THRIFT_LEVELS && !s->oom; thrift++) {
        if (thrift != THRIFT_NONE && !candidates_enumerate(s, SEARCH_GRIDS, thrift))
            return false;
        if (baseline_run(s, first, use))
            return true;
        count_thriftily(search);
    }
    return false;
}

static int fresh_start(struct search *search, struct ipu_error *error)
{
    struct solution first;
    struct memory_use use = {0};
    if (!solution_new(search->space, &first))
        return no_memory(error);
    if (!first_plan(search, &first, &use))
        return search->space->oom ? no_memory(error) : no_fit(search->space, &first, &use, error);
    pool_offer(&search->pool, search->space, &first);
    return 0;
}

/* A second searcher with a space of its own: what it finds comes back as recipes. */
struct island {
    struct search *search;
    struct buffer start;
    struct buffer found[STATE_MAX_FRONTIER];
    unsigned found_count;
    uint64_t units, seed, attempts;
    pthread_t thread;
    bool running;
};

static void island_search(struct island *island, struct space *space)
{
    struct solution start;
    struct pool pool;
    struct budget budget = island->search->budget;
    if (!candidates_enumerate(space, SEARCH_GRIDS, THRIFT_NONE) || !solution_new(space, &start) ||
        !pool_open(&pool, space, STATE_MAX_FRONTIER) ||
        !recipe_read(space, island->start.data, island->start.size, &start))
        return;
    space->limit = island->search->space->limit;
    space->count_text = island->search->space->count_text;
    budget.units = space->units + island->units;
    budget.progress = NULL;
    improve_run(space, &start, &pool, &budget, island->seed);
    for (unsigned i = 0; i < pool.count; i++)
        if (recipe_write(space, pool.list[i].pick, &island->found[island->found_count]))
            island->found_count++;
    island->attempts = space->candidates;
}

static void *island_run(void *argument)
{
    struct island *island = argument;
    struct space *space;
    struct ipu_error error;
    if (space_open(island->search->model, &space, &error) != 0)
        return NULL;
    island_search(island, space);
    space_close(space);
    return NULL;
}

static void island_merge(struct search *search, struct island *island)
{
    struct solution solution;
    bool room = solution_new(search->space, &solution);
    for (unsigned i = 0; i < island->found_count; i++) {
        struct buffer *recipe = &island->found[i];
        if (room && recipe_read(search->space, recipe->data, recipe->size, &solution))
            pool_offer(&search->pool, search->space, &solution);
        buffer_free(recipe);
    }
    buffer_free(&island->start);
    search->island_attempts += island->attempts;
}

/* The main island starts from the best plan, the second from the runner-up family. The split and
 * the merge do not depend on threads; a second thread only overlaps them in time. */
static void improve(struct search *search, uint64_t units)
{
    struct space *s = search->space;
    uint64_t seed = search->options->seed ^ hash64_mix(search->state.attempts);
    bool two = search->budget_ms >= SEARCH_ISLAND_MS && !search->resumed;
    struct island island = {.search = search, .units = units / 2, .seed = seed + 1};
    struct solution start;
    if (!solution_new(s, &start))
        return;
    solution_copy(s, &start, &search->pool.list[search->pool.count > 1 ? 1 : 0]);
    if (two && !recipe_write(s, start.pick, &island.start))
        two = false;
    if (two && search->options->threads > 1)
        island.running = pthread_create(&island.thread, NULL, island_run, &island) == 0;
    solution_copy(s, &start, &search->pool.list[0]);
    search->budget.units = s->units + (two ? units / 2 : units);
    improve_run(s, &start, &search->pool, &search->budget, seed);
    if (two && island.running)
        pthread_join(island.thread, NULL);
    else if (two)
        island_run(&island);
    if (two)
        island_merge(search, &island);
    else
        buffer_free(&island.start);
}

static int run(struct search *search, struct ipu_error *error)
{
    uint64_t units = (uint64_t)search->budget_ms * SEARCH_UNITS_PER_MS;
    load_state(search);
    if (!search->resumed) {
        int status = fresh_start(search, error);
        if (status != 0)
            return status;
        set_budget(search, units / 2);
        /* A narrow beam first: on long graphs the wide one may not come to its end. */
        beam_run(search->space, SEARCH_BEAM_NARROW, UINT32_MAX, 0, &search->budget, &search->pool);
        beam_run(search->space, SEARCH_BEAM_WIDTH, UINT32_MAX, 0, &search->budget, &search->pool);
        units /= 2;
    } else if (search->options->search_ms == 0) {
        units /= SEARCH_RESUME_SHARE;
    }
    set_budget(search, units);
    improve(search, units);
    if (search->budget.deadline_hit)
        log_event(search->options->log, LOG_LEVEL_WARN, "lower_mid",
                  "stopped the plan search at its time limit", "limit_ms=%u attempts=%llu",
                  search->budget_ms * 10, (unsigned long long)search->space->candidates);
    if (search->options->cancel != NULL && atomic_load(search->options->cancel))
        return ipu_error_set(error, IPU_ERR_CANCELLED, "plan: cancelled");
    return search->pool.count > 0 ? 0 : no_memory(error);
}

/* The set of tile counts that the operations use, as "{36,48}". */
static void write_active_tiles(const struct search *search, const struct solution *solution,
                               struct buffer *text)
{
    struct space *s = search->space;
    bool used[PLAN_MAX_TILES + 1] = {false};
    for (uint32_t i = 0; i < search->model->op_count; i++) {
        if (search->model->ops[i].flow->kind == FLOW_REPEAT || s->value[i] == NULL)
            continue;
        const struct cand *cand = candidate_get(s, i, solution->pick[i]);
        used[cand->partial ? cand->partial->active : s->value[i]->active] = true;
    }
    const char *comma = "{";
    for (uint32_t count = 1; count <= PLAN_MAX_TILES; count++) {
        if (!used[count])
            continue;
        buffer_printf(text, "%s%u", comma, count);
        comma = ",";
    }
    buffer_append(text, "}", 2);
}

/* Bytes of exchange rows and calls on the fullest tile. */
static uint64_t row_bytes_of(struct search *search, const struct solution *solution)
{
    uint64_t *text = ARENA_ARRAY(search->arena, uint64_t, search->space->tiles), most = 0;
    if (text == NULL || !solution_text(search->space, solution->pick, text))
        return 0;
    for (uint32_t t = 0; t < search->space->tiles; t++)
        most = text[t] > most ? text[t] : most;
    return most;
}

static void log_finalist(struct search *search, unsigned rank, const struct solution *solution,
                         const struct memory_use *use)
{
    struct buffer text = {0};
    uint64_t row_bytes = row_bytes_of(search, solution);
    write_active_tiles(search, solution, &text);
    const char *counts = text.failed ? "{}" : (const char *)text.data;
    log_event(search->options->log, LOG_LEVEL_INFO, "lower_mid", "retained operator-plan finalist",
              "finalist=%u values=%u operations=%u estimated_cycles=%llu "
              "estimated_exchange_cycles=%llu exchange_row_bytes=%llu peak_standard_bytes=%llu "
              "peak_interleaved_bytes=%llu peak_total_bytes=%llu "
              "maximum_standard_allocation_bytes=%llu active_tile_counts=%s "
              "padding_group_counts={} conversion_sources=[]",
              rank, search->flow->tensor_count, search->flow->regions[0].op_count,
              (unsigned long long)solution->cost.cycles,
              (unsigned long long)solution->cost.exchange, (unsigned long long)row_bytes,
              (unsigned long long)use->standard, (unsigned long long)use->interleaved,
              (unsigned long long)use->total, (unsigned long long)use->largest_standard, counts);
    buffer_free(&text);
}

/* The order in which finalists go out: by refined cycles where a resumed state knows them, a new
 * plan only when its estimate beats that of the incumbent. */
static unsigned choose_finalists(struct search *search, unsigned *chosen)
{
    struct pool *pool = &search->pool;
    unsigned wanted = search->options->finalists, best = UINT32_MAX, count = 0;
    uint64_t best_refined = UINT64_MAX, known[STATE_MAX_FRONTIER] = {0};
    wanted = wanted < 1 ? 1 : wanted > STATE_MAX_FRONTIER ? STATE_MAX_FRONTIER : wanted;
    for (unsigned i = 0; i < pool->count; i++) {
        known[i] = state_refined(&search->state, recipe_hash(search->space, pool->list[i].pick));
        if (known[i] != 0 && known[i] < best_refined) {
            best_refined = known[i];
            best = i;
        }
    }
    if (best == UINT32_MAX) {
        for (; count < pool->count && count < wanted; count++)
            chosen[count] = count;
        return count;
    }
    chosen[count++] = best;
    for (unsigned i = 0; i < best && count < wanted; i++)
        if (known[i] == 0)
            chosen[count++] = i;
    return count;
}

static int emit_finalists(struct search *search, struct plan_result *out, struct ipu_error *error)
{
    unsigned chosen[STATE_MAX_FRONTIER], count = choose_finalists(search, chosen);
    for (unsigned i = 0; i < count; i++) {
        const struct solution *solution = &search->pool.list[chosen[i]];
        struct memory_use use;
        if (!solution_memory(search->space, solution->pick, &use))
            return no_memory(error);
        int status = emit_plan(search->space, solution, &use, search->arena, &out->plans[i], error);
        if (status != 0)
            return status;
        log_finalist(search, i, solution, &use);
        out->count = i + 1;
    }
    return 0;
}

static int save_state(struct search *search, struct plan_result *out, struct ipu_error *error)
{
    struct space *s = search->space;
    struct search_state *state = &search->state;
    struct buffer recipes[STATE_MAX_FRONTIER] = {{0}};
    uint64_t *visited = ARENA_ARRAY(search->arena, uint64_t, STATE_MAX_VISITED);
    struct buffer written = {0};
    bool good = visited != NULL;
    state->frontier_count = search->pool.count;
    for (unsigned i = 0; good && i < search->pool.count; i++) {
        good = recipe_write(s, search->pool.list[i].pick, &recipes[i]);
        state->frontier[i] = (struct state_recipe){recipes[i].data, recipes[i].size,
                                                   search->pool.list[i].cost.cycles};
    }
    state->visited_count = 0;
    state->visited = visited;
    for (uint32_t i = 0; good && i < s->visited_slots; i++)
        if (s->visited[i] != 0 && state->visited_count < STATE_MAX_VISITED)
            visited[state->visited_count++] = s->visited[i];
    good = good && state_write(state, &written);
    for (unsigned i = 0; i < STATE_MAX_FRONTIER; i++)
        buffer_free(&recipes[i]);
    if (good) {
        log_event(search->options->log, LOG_LEVEL_INFO, "lower_mid", "saved mid-plan search state",
                  "attempts=%llu bytes=%zu", (unsigned long long)state->attempts, written.size);
        buffer_free(out->state);
        *out->state = written;
        return 0;
    }
    buffer_free(&written);
    return no_memory(error);
}

static void report(const struct search *search)
{
    if (search->options->progress == NULL)
        return;
    double seconds = (double)(clock_ns() - search->budget.start_ns) / 1e9;
    search->options->progress(search->options->progress_context, search->pool.list[0].cost.cycles,
                              search->state.attempts, seconds);
}

static int search_all(struct search *search, struct plan_result *out, struct ipu_error *error)
{
    if (!candidates_enumerate(search->space, SEARCH_GRIDS, THRIFT_NONE) ||
        !pool_open(&search->pool, search->space, STATE_MAX_FRONTIER))
        return no_memory(error);
    int status = run(search, error);
    if (status == 0)
        status = emit_finalists(search, out, error);
    search->state.attempts += search->space->candidates + search->island_attempts;
    search->state.units += search->space->units;
    if (status == 0 && out->state != NULL)
        status = save_state(search, out, error);
    if (status == 0)
        report(search);
    return status;
}

int plan_search(const struct flow *flow, const struct plan_options *options, struct arena *arena,
                struct plan_result *out, struct ipu_error *error)
{
    struct search *search = ARENA_NEW(arena, struct search);
    out->count = 0;
    if (search == NULL)
        return no_memory(error);
    search->flow = flow;
    search->options = options;
    search->arena = arena;
    int status = model_build(flow, arena, &search->model, error);
    if (status == 0)
        status = space_open(search->model, &search->space, error);
    if (status != 0)
        return status;
    search->budget_ms = options->search_ms ? options->search_ms : default_budget(search->model);
    status = search_all(search, out, error);
    out->resumed = search->resumed;
    space_close(search->space);
    return status;
}
