/* Exchange phases at their addresses, their schedules, and the refined cycles of a program.
 *
 * Refining walks the steps with one clock per tile: calls add their kernels' cycles, an exchange
 * waits for the last tile of the chip and adds the synchronisation and the tile's own row. Loops
 * are walked a few times and extrapolated. Phases are independent: they are scheduled by several
 * threads, with results that do not depend on how many.
 */
#include "compiler/codegen/internal.h"

#include "base/alloc.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/timing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum {
    WALKED_ITERATIONS = 3,
    MAX_THREADS = 64,
    SPLIT_BYTES = 32 * 1024 /* by which splitting multicasts may lengthen the rows of a tile */
};

static uint32_t address_of(const struct program *p, struct program_ref ref)
{
    return p->buffers[ref.buffer].address + ref.offset;
}

int phase_build(const struct program *program, const struct program_step *step, bool placed,
                const uint32_t *code_elements, struct arena *arena, struct exchange_phase *out,
                struct ipu_error *error)
{
    uint64_t targets = 0;
    for (uint32_t i = 0; i < step->transfer_count; i++)
        targets += step->transfers[i].target_count;
    struct exchange_transfer *list =
        ARENA_ARRAY(arena, struct exchange_transfer, step->transfer_count + 1);
    struct exchange_target *to = ARENA_ARRAY(arena, struct exchange_target, targets + 1);
    if (list == NULL || to == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory for transfers");
    for (uint32_t i = 0; i < step->transfer_count; i++) {
        const struct program_transfer *t = &step->transfers[i];
        uint32_t address = placed ? address_of(program, t->source) : IPU21_REGION1_BASE;
        list[i] = (struct exchange_transfer){t->tile, address, t->words, t->target_count, to};
        for (uint32_t k = 0; k < t->target_count; k++) {
            if (placed)
                address = address_of(program, t->targets[k].destination);
            *to++ = (struct exchange_target){t->targets[k].tile, address};
        }
    }
    *out = (struct exchange_phase){.count = step->transfer_count,
                                   .transfers = list,
                                   .code_elements = code_elements,
                                   .split_bytes = SPLIT_BYTES / program->phase_count};
    return 0;
}

/* --- scheduling ----------------------------------------------------------------------------- */

struct job {
    const struct program *program;
    const uint32_t *code_elements;
    unsigned effort;
    bool verify; /* instead of scheduling */
    struct program_schedule *schedule;
    const struct program_step **steps; /* by phase */
    struct arena **arenas;             /* by phase: results live here until they are copied */
    struct ipu_error *errors;          /* by phase */
    int *codes;
    const atomic_bool *cancel;
    atomic_uint next;
};

static int schedule_phase(struct job *job, uint32_t index)
{
    struct exchange_phase phase;
    struct arena *arena = job->arenas[index];
    struct ipu_error *error = &job->errors[index];
    struct exchange_schedule *out = ARENA_NEW(arena, struct exchange_schedule);
    if (out == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory for a schedule");
    int code = phase_build(job->program, job->steps[index], true, job->code_elements, arena, &phase,
                           error);
    if (code == 0)
        code = exchange_schedule(&phase, job->effort, arena, out, error);
    job->schedule->phases[index] = out;
    return code;
}

/* Decodes the rows of a phase again and replays them against the transfers. */
static int verify_phase(struct job *job, uint32_t index)
{
    struct exchange_phase phase;
    struct arena *arena = job->arenas[index];
    struct ipu_error *error = &job->errors[index];
    int code = phase_build(job->program, job->steps[index], true, job->code_elements, arena, &phase,
                           error);
    return code ? code : exchange_verify(&phase, job->schedule->phases[index], arena, error);
}

static void *schedule_thread(void *context)
{
    struct job *job = context;
    for (;;) {
        uint32_t index = atomic_fetch_add(&job->next, 1);
        if (index >= job->schedule->phase_count)
            return NULL;
        if (codegen_cancelled(job->cancel))
            job->codes[index] = ipu_error_set(&job->errors[index], IPU_ERR_CANCELLED,
                                              "codegen: the compile was cancelled");
        else
            job->codes[index] = job->verify ? verify_phase(job, index) : schedule_phase(job, index);
    }
}

static void run_threads(struct job *job, unsigned threads)
{
    pthread_t handles[MAX_THREADS];
    unsigned started = 0;
    if (threads == 0)
        threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads > MAX_THREADS ? MAX_THREADS : threads;
    threads = threads > job->schedule->phase_count ? job->schedule->phase_count : threads;
    while (started + 1 < threads &&
           pthread_create(&handles[started], NULL, schedule_thread, job) == 0)
        started++;
    schedule_thread(job);
    for (unsigned i = 0; i < started; i++)
        pthread_join(handles[i], NULL);
}

/* Copies a schedule out of its own arena. */
static int keep_schedule(struct program_schedule *s, uint32_t index, struct arena *arena,
                         struct ipu_error *error)
{
    struct exchange_schedule *kept = arena_memdup(arena, s->phases[index], sizeof **s->phases);
    if (kept == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory for a schedule");
    for (unsigned t = 0; t < PROGRAM_TILES; t++) {
        struct exchange_row *row = &kept->rows[t];
        if (row->words == NULL)
            continue;
        row->words = arena_memdup(arena, row->words, row->count * sizeof *row->words);
        if (row->words == NULL)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory for rows");
    }
    s->phases[index] = kept;
    return 0;
}

static int schedule_all(struct job *job, unsigned threads, struct arena *arena,
                        struct ipu_error *error)
{
    struct program_schedule *s = job->schedule;
    int code = 0;
    for (uint32_t i = 0; i < s->phase_count; i++) {
        job->arenas[i] = arena_create(0);
        if (job->arenas[i] == NULL)
            code = ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory for schedules");
    }
    if (code == 0)
        run_threads(job, threads);
    for (uint32_t i = 0; i < s->phase_count && code == 0; i++) {
        code = job->codes[i];
        if (code != 0)
            *error = job->errors[i];
        else if (!job->verify)
            code = keep_schedule(s, i, arena, error);
    }
    for (uint32_t i = 0; i < s->phase_count; i++)
        arena_destroy(job->arenas[i]);
    return code;
}

static void code_mask(const struct program_schedule *s, uint32_t *mask)
{
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        mask[t] = ipu21_element_mask(LAYOUT_CODE, s->region0[t] - LAYOUT_CODE);
}

/* --- refined cycles ------------------------------------------------------------------------- */

uint32_t call_cycles(const struct program *p, const struct program_call *call)
{
    const struct kernel_spec *spec = &p->specs[call->spec];
    uint32_t args[KERNEL_MAX_ARGS] = {0};
    for (unsigned i = 0; i < KERNEL_MAX_ARGS; i++) {
        const struct program_arg *a = &call->args[i];
        args[i] = a->value;
        if (a->kind == PROGRAM_BUFFER)
            args[i] = address_of(p, (struct program_ref){a->index, a->value});
    }
    if (spec->family != KERNEL_COPY_LIST)
        return CYCLES_CALL_SETUP + kernel_cycles(spec, args);
    const struct program_list *list = &p->lists[call->args[0].index];
    uint32_t(*entries)[3] = ipu_calloc(list->count ? list->count : 1, sizeof *entries);
    if (entries == NULL)
        return CYCLES_CALL_SETUP + kernel_cycles(spec, args);
    for (uint32_t i = 0; i < list->count; i++) {
        entries[i][0] = address_of(p, list->copies[i].source);
        entries[i][1] = address_of(p, list->copies[i].destination);
        entries[i][2] = list->copies[i].bytes;
    }
    uint32_t cycles =
        kernel_copy_list_cycles((const uint32_t(*)[3])(const void *)entries, list->count);
    ipu_free(entries);
    return CYCLES_CALL_SETUP + cycles;
}

struct clock {
    const struct program *program;
    struct program_schedule *schedule;
    uint32_t **cost; /* by step: cycles of every call */
    uint64_t now[PROGRAM_TILES];
    uint64_t exchange, horizon; /* on the path of the slowest tile */
    uint32_t phases;
};

static int price_calls(struct clock *c, struct arena *arena, struct ipu_error *error)
{
    const struct program *p = c->program;
    c->cost = arena_calloc(arena, p->step_count + 1, sizeof *c->cost);
    if (c->cost == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct program_step *step = &p->steps[s];
        c->cost[s] = ARENA_ARRAY(arena, uint32_t, step->call_count + 1);
        if (c->cost[s] == NULL)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
        for (uint32_t i = 0; i < step->call_count; i++)
            c->cost[s][i] = call_cycles(p, &step->calls[i]);
    }
    return 0;
}

static void walk_exchange(struct clock *c, const struct program_step *step)
{
    const struct exchange_schedule *e = c->schedule->phases[step->phase];
    uint64_t last = 0;
    for (unsigned t = 0; t < PROGRAM_TILES; t++) {
        uint64_t arrival = c->now[t] + (e->rows[t].words ? CYCLES_EXCHANGE_ENTRY : 2);
        last = arrival > last ? arrival : last;
    }
    for (unsigned t = 0; t < PROGRAM_TILES; t++) {
        const struct exchange_row *row = &e->rows[t];
        uint64_t after = row->words ? CYCLES_ROW_CALL + (uint64_t)row->horizon : 0;
        c->now[t] = last + IPU21_SYNC_INTERNAL + after;
    }
    c->exchange += CYCLES_EXCHANGE_ENTRY + IPU21_SYNC_INTERNAL + CYCLES_ROW_CALL + e->horizon;
    c->horizon += e->horizon;
    c->phases++;
}

static void walk_steps(struct clock *c, uint32_t first, uint32_t end)
{
    const struct program *p = c->program;
    for (uint32_t s = first; s < end; s++) {
        const struct program_step *step = &p->steps[s];
        for (uint32_t i = 0; i < step->call_count; i++)
            c->now[step->calls[i].tile] += c->cost[s][i];
        if (step->kind == PROGRAM_EXCHANGE)
            walk_exchange(c, step);
        if (step->kind != PROGRAM_REPEAT)
            continue;
        uint32_t walked =
            step->iterations < WALKED_ITERATIONS ? step->iterations : WALKED_ITERATIONS;
        struct clock before = *c;
        for (uint32_t n = 0; n < walked; n++) {
            before = *c;
            walk_steps(c, s + 1, step->other);
            for (unsigned t = 0; t < PROGRAM_TILES; t++)
                c->now[t] += CYCLES_LOOP;
        }
        uint64_t more = step->iterations - walked;
        for (unsigned t = 0; t < PROGRAM_TILES; t++)
            c->now[t] += more * (c->now[t] - before.now[t]);
        c->exchange += more * (c->exchange - before.exchange);
        c->horizon += more * (c->horizon - before.horizon);
        c->phases += (uint32_t)more * (c->phases - before.phases);
        s = step->other;
    }
}

static int refine(struct program_schedule *s, const struct program *program, struct arena *arena,
                  struct ipu_error *error)
{
    struct clock *c = ARENA_NEW(arena, struct clock);
    if (c == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    c->program = program;
    c->schedule = s;
    int code = price_calls(c, arena, error);
    if (code != 0)
        return code;
    walk_steps(c, 0, program->step_count);
    for (unsigned t = 0; t < program->tiles; t++)
        s->cycles = c->now[t] > s->cycles ? c->now[t] : s->cycles;
    s->exchange_cycles = c->exchange;
    s->horizon_cycles = c->horizon;
    s->executed_phases = c->phases;
    return 0;
}

static void count_row_bytes(struct program_schedule *s)
{
    for (unsigned t = 0; t < PROGRAM_TILES; t++) {
        uint32_t bytes = 0;
        for (uint32_t i = 0; i < s->phase_count; i++)
            bytes += (s->phases[i]->rows[t].count * 4 + 7) & ~7u;
        s->exchange_table_bytes = bytes > s->exchange_table_bytes ? bytes : s->exchange_table_bytes;
    }
}

/* What scheduling and verifying need: steps and arenas by phase, code granules by tile. */
static int job_open(struct job *job, const struct program *program,
                    struct program_schedule *schedule, struct arena *arena, struct ipu_error *error)
{
    uint32_t phases = program->phase_count, *mask = ARENA_ARRAY(arena, uint32_t, PROGRAM_TILES);
    memset(job, 0, sizeof *job);
    job->program = program;
    job->code_elements = mask;
    job->schedule = schedule;
    job->steps = arena_calloc(arena, phases + 1, sizeof *job->steps);
    job->arenas = arena_calloc(arena, phases + 1, sizeof *job->arenas);
    job->errors = ARENA_ARRAY(arena, struct ipu_error, phases + 1);
    job->codes = ARENA_ARRAY(arena, int, phases + 1);
    if (mask == NULL || !job->steps || !job->arenas || !job->errors || !job->codes)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    code_mask(schedule, mask);
    for (uint32_t i = 0; i < program->step_count; i++)
        if (program->steps[i].kind == PROGRAM_EXCHANGE)
            job->steps[program->steps[i].phase] = &program->steps[i];
    return 0;
}

int program_schedule(const struct program *program, const uint32_t region0[PROGRAM_TILES],
                     unsigned effort, const struct codegen_options *options, struct arena *arena,
                     struct program_schedule **out, struct ipu_error *error)
{
    struct program_schedule *s = ARENA_NEW(arena, struct program_schedule);
    struct job job;
    if (s == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    s->phase_count = program->phase_count;
    s->phases = arena_calloc(arena, s->phase_count + 1, sizeof *s->phases);
    if (s->phases == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    memcpy(s->region0, region0, sizeof s->region0);
    int code = job_open(&job, program, s, arena, error);
    job.effort = effort;
    job.cancel = options->cancel;
    if (code == 0)
        code = schedule_all(&job, options->threads, arena, error);
    if (code != 0)
        return code;
    count_row_bytes(s);
    *out = s;
    return refine(s, program, arena, error);
}

int schedule_verify(const struct program *program, struct program_schedule *schedule,
                    const struct codegen_options *options, struct arena *arena,
                    struct ipu_error *error)
{
    struct job job;
    int code = job_open(&job, program, schedule, arena, error);
    job.verify = true;
    job.cancel = options->cancel;
    if (code == 0)
        code = schedule_all(&job, options->threads, arena, error);
    return code;
}
