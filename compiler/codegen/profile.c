/* The profile plan of a package: which step each sample of each tile begins.
 *
 * Steps are static texts shared by tiles: equal (kind, name, kernel, phase, iteration, prediction)
 * are one. The order of a tile's samples is that in which its program takes them (emit.c).
 */
#include "compiler/codegen/internal.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "device/ipu21/timing.h"
#include "device/runtime/runtime.h"

#include <assert.h>
#include <string.h>

struct step_slot {
    struct package_step step;
    uint32_t index; /* + 1; 0 = empty */
};

struct profile {
    const struct codegen *codegen;
    struct package *package;
    struct ipu_error *error;
    struct step_slot *slots;
    uint32_t slot_count, used;
    char (*names)[KERNEL_NAME_BYTES]; /* by spec */
    uint32_t *list;                   /* steps of the tile in progress */
    uint32_t count, capacity;
};

static uint64_t step_hash(const struct package_step *s)
{
    uint64_t h = hash64_mix((uint64_t)s->kind << 32 ^ s->predicted);
    h = hash64_mix(h ^ ((uint64_t)s->phase << 32 | s->iteration));
    h = hash64_mix(h ^ hash64(s->name, strlen(s->name)));
    return hash64_mix(h ^ hash64(s->kernel, strlen(s->kernel)));
}

static bool step_equal(const struct package_step *a, const struct package_step *b)
{
    return a->kind == b->kind && a->phase == b->phase && a->iteration == b->iteration &&
           a->predicted == b->predicted && strcmp(a->name, b->name) == 0 &&
           strcmp(a->kernel, b->kernel) == 0;
}

static struct step_slot *find_slot(const struct profile *p, const struct package_step *step)
{
    uint64_t at = step_hash(step) & (p->slot_count - 1);
    while (p->slots[at].index != 0 && !step_equal(&p->slots[at].step, step))
        at = (at + 1) & (p->slot_count - 1);
    return &p->slots[at];
}

static int no_memory(struct profile *p)
{
    return ipu_error_set(p->error, IPU_ERR_NO_MEMORY, "codegen: out of memory for the profile");
}

static int grow_slots(struct profile *p)
{
    struct profile wide = *p;
    wide.slot_count = p->slot_count ? 2 * p->slot_count : 1024;
    wide.slots = ipu_calloc(wide.slot_count, sizeof *wide.slots);
    if (wide.slots == NULL)
        return no_memory(p);
    for (uint32_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].index != 0)
            *find_slot(&wide, &p->slots[i].step) = p->slots[i];
    ipu_free(p->slots);
    *p = wide;
    return 0;
}

static int note(struct profile *p, const struct package_step *step)
{
    if (2 * (p->used + 1) > p->slot_count) {
        int code = grow_slots(p);
        if (code != 0)
            return code;
    }
    assert(p->slots != NULL);
    struct step_slot *slot = find_slot(p, step);
    if (slot->index == 0) {
        int index = package_add_step(p->package, step);
        if (index < 0)
            return ipu_error_set(p->error, index, "codegen: the package refuses a profile step");
        *slot = (struct step_slot){*step, (uint32_t)index + 1};
        p->used++;
    }
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 256;
        uint32_t *list = ipu_realloc(p->list, capacity * sizeof *list);
        if (list == NULL)
            return no_memory(p);
        p->list = list;
        p->capacity = capacity;
    }
    p->list[p->count++] = slot->index - 1;
    return 0;
}

/* --- steps of a tile ------------------------------------------------------------------------ */

static int note_compute(struct profile *p, uint32_t s, unsigned tile, uint32_t iteration)
{
    const struct codegen *c = p->codegen;
    const struct program_step *step = &c->program->steps[s];
    const uint32_t *first = c->index.first[s];
    uint32_t most = 0, spec = 0;
    struct package_step out = {.kind = PACKAGE_STEP_COPY,
                               .name = step->name,
                               .iteration = iteration,
                               .predicted = RT_SAMPLE_CYCLES};
    if (first == NULL || first[tile] == first[tile + 1])
        return 0;
    for (uint32_t i = first[tile]; i < first[tile + 1]; i++) {
        const struct program_call *call = &step->calls[i];
        uint32_t cycles = call_cycles(c->program, call);
        enum kernel_family family = c->program->specs[call->spec].family;
        out.predicted += cycles;
        if (family != KERNEL_COPY && family != KERNEL_COPY_LIST && family != KERNEL_FILL)
            out.kind = PACKAGE_STEP_COMPUTE;
        if (cycles >= most) {
            most = cycles;
            spec = call->spec;
        }
    }
    out.kernel = p->names[spec];
    return note(p, &out);
}

static int note_exchange(struct profile *p, uint32_t s, unsigned tile, uint32_t iteration)
{
    const struct program_step *step = &p->codegen->program->steps[s];
    const struct exchange_schedule *e = p->codegen->schedule->phases[step->phase];
    bool here = e->rows[tile].words != NULL;
    struct package_step out = {.kind = here ? PACKAGE_STEP_EXCHANGE : PACKAGE_STEP_SYNC,
                               .name = step->name,
                               .kernel = "",
                               .phase = step->phase,
                               .iteration = iteration,
                               .predicted = RT_SAMPLE_CYCLES + IPU21_SYNC_INTERNAL};
    if (here)
        out.predicted += CYCLES_EXCHANGE_ENTRY + CYCLES_ROW_CALL + e->rows[tile].horizon;
    return note(p, &out);
}

static int note_steps(struct profile *p, unsigned tile, uint32_t first, uint32_t end,
                      uint32_t iteration)
{
    const struct program *program = p->codegen->program;
    int code = 0;
    for (uint32_t s = first; s < end && code == 0; s++) {
        const struct program_step *step = &program->steps[s];
        if (step->kind == PROGRAM_COMPUTE)
            code = note_compute(p, s, tile, iteration);
        if (step->kind == PROGRAM_EXCHANGE)
            code = note_exchange(p, s, tile, iteration);
        if (step->kind != PROGRAM_REPEAT)
            continue;
        for (uint32_t i = 0; i < step->iterations && code == 0; i++)
            code = note_steps(p, tile, s + 1, step->other, i);
        s = step->other;
    }
    return code;
}

static int note_tile(struct profile *p, unsigned tile)
{
    const struct codegen *c = p->codegen;
    const struct package_step overall = {.kind = PACKAGE_STEP_OVERALL,
                                         .name = "run",
                                         .kernel = "",
                                         .predicted = (uint32_t)c->schedule->cycles};
    p->count = 0;
    int code = c->options->profile == CODEGEN_PROFILE_OVERALL
                   ? note(p, &overall)
                   : note_steps(p, tile, 0, c->program->step_count, 0);
    if (code != 0)
        return code;
    if (p->count + 1 != c->host->samples[tile])
        return ipu_error_set(p->error, IPU_ERR_INTERNAL,
                             "codegen: tile %u takes %u samples, its steps need %u", tile,
                             c->host->samples[tile], p->count + 1);
    int added =
        package_add_samples(p->package, tile, c->host->sample_stream[tile], p->list, p->count);
    return added < 0 ? ipu_error_set(p->error, added, "codegen: the package refuses a sample list")
                     : 0;
}

int profile_add(const struct codegen *c, struct package *package, struct ipu_error *error)
{
    struct profile p = {.codegen = c, .package = package, .error = error};
    p.names = arena_calloc(c->arena, c->program->spec_count + 1, sizeof *p.names);
    if (p.names == NULL)
        return no_memory(&p);
    for (uint32_t i = 0; i < c->program->spec_count; i++)
        kernel_name(&c->program->specs[i], p.names[i]);
    int code = 0;
    for (unsigned t = 0; t < PROGRAM_TILES && code == 0; t++)
        if (c->host->samples[t] > 0)
            code = note_tile(&p, t);
    ipu_free(p.slots);
    ipu_free(p.list);
    return code;
}
