/* Builds a profile message from a package and the samples of a session. Everything is allocated in
 * one arena that lives as long as the call; the only failure is memory, or a session that has not
 * run.
 */
#include "device/driver/profile.h"

#include "device/driver/session.h"

#include "base/arena.h"
#include "device/ipu21/topology.h"
#include "proto/profile.pb-c.h"

#include <string.h>

enum { PROFILE_VERSION = 1 };

struct build {
    struct arena *arena;
    const struct package *package;
    const struct device_session *session;
    Ipu__Profile__Profile profile;
};

static char *text(struct build *b, const char *value)
{
    return arena_strdup(b->arena, value ? value : "");
}

static bool add_steps(struct build *b)
{
    size_t count;
    const struct package_step *steps = package_steps(b->package, &count);
    Ipu__Profile__Step **list = ARENA_ARRAY(b->arena, Ipu__Profile__Step *, count + 1);
    for (size_t i = 0; list && i < count; i++) {
        Ipu__Profile__Step *step = ARENA_NEW(b->arena, Ipu__Profile__Step);
        if (!step)
            return false;
        ipu__profile__step__init(step);
        step->kind = (Ipu__Profile__Step__Kind)steps[i].kind;
        step->name = text(b, steps[i].name);
        step->kernel = text(b, steps[i].kernel);
        step->phase = steps[i].phase;
        step->iteration = steps[i].iteration;
        step->predicted = steps[i].predicted;
        if (!step->name || !step->kernel)
            return false;
        list[i] = step;
    }
    b->profile.n_steps = count;
    b->profile.steps = list;
    return list != NULL;
}

static bool same_steps(const Ipu__Profile__StepList *list, const struct package_samples *samples)
{
    return list->n_steps == samples->count &&
           memcmp(list->steps, samples->steps, samples->count * sizeof *list->steps) == 0;
}

/* Index of the step list of a tile; tiles with equal lists usually follow each other. */
static bool find_list(struct build *b, const struct package_samples *samples, uint32_t *index)
{
    Ipu__Profile__Profile *p = &b->profile;
    for (size_t i = p->n_lists; i-- > 0;)
        if (same_steps(p->lists[i], samples)) {
            *index = (uint32_t)i;
            return true;
        }
    Ipu__Profile__StepList *list = ARENA_NEW(b->arena, Ipu__Profile__StepList);
    if (!list)
        return false;
    ipu__profile__step_list__init(list);
    list->n_steps = samples->count;
    list->steps = arena_memdup(b->arena, samples->steps, samples->count * sizeof *samples->steps);
    if (samples->count != 0 && !list->steps)
        return false;
    *index = (uint32_t)p->n_lists;
    p->lists[p->n_lists++] = list;
    return true;
}

static bool add_tile(struct build *b, const struct package_samples *samples)
{
    size_t words;
    const uint32_t *counters = device_samples(b->session, samples->tile, &words);
    Ipu__Profile__Tile *tile = ARENA_NEW(b->arena, Ipu__Profile__Tile);
    if (!tile || !counters)
        return false;
    ipu__profile__tile__init(tile);
    tile->tile = samples->tile;
    tile->physical = ipu21_physical(samples->tile);
    tile->start = counters[0];
    tile->n_cycles = samples->count;
    tile->cycles = ARENA_ARRAY(b->arena, uint32_t, samples->count + 1);
    if (!tile->cycles || !find_list(b, samples, &tile->list))
        return false;
    for (size_t i = 0; i < samples->count; i++)
        tile->cycles[i] = counters[i + 1] - counters[i];
    b->profile.tiles[b->profile.n_tiles++] = tile;
    return true;
}

static bool add_tiles(struct build *b)
{
    size_t count;
    const struct package_samples *samples = package_sample_lists(b->package, &count);
    b->profile.lists = ARENA_ARRAY(b->arena, Ipu__Profile__StepList *, count + 1);
    b->profile.tiles = ARENA_ARRAY(b->arena, Ipu__Profile__Tile *, count + 1);
    if (!b->profile.lists || !b->profile.tiles)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!add_tile(b, &samples[i]))
            return false;
    return true;
}

static bool add_head(struct build *b, const struct device_summary *summary)
{
    const struct package_info *info = package_get_info(b->package);
    const struct hash *digest = package_digest(b->package);
    Ipu__Profile__Profile *p = &b->profile;
    p->version = PROFILE_VERSION;
    p->compiler = text(b, info->compiler);
    p->workload = text(b, info->workload);
    p->device = text(b, card_name(&b->session->card));
    p->package.len = HASH_BYTES;
    p->package.data = arena_memdup(b->arena, digest->bytes, HASH_BYTES);
    p->clock_hz = info->clock_hz;
    p->chip_tiles = IPU21_TILES;
    p->execution_tiles = info->execution_tiles;
    p->cycles = summary->cycles;
    p->minimum_cycles = summary->minimum_cycles;
    p->estimated_cycles = info->estimated_cycles;
    p->samples = summary->samples;
    return p->compiler && p->workload && p->device && p->package.data;
}

static bool pack(const Ipu__Profile__Profile *profile, struct buffer *out)
{
    size_t size = ipu__profile__profile__get_packed_size(profile), begin = out->size;
    buffer_append_zero(out, size);
    if (out->failed)
        return false;
    ipu__profile__profile__pack(profile, out->data + begin);
    return true;
}

int profile_build(const struct device_session *session, const struct package *package,
                  const struct device_summary *summary, struct buffer *out, struct ipu_error *error)
{
    struct build b = {.arena = arena_create(0), .package = package, .session = session};
    size_t lists, words;
    const struct package_samples *samples = package_sample_lists(package, &lists);
    if (lists != 0 && !device_samples(session, samples[0].tile, &words)) {
        arena_destroy(b.arena);
        return ipu_error_set(error, IPU_ERR_INVALID, "there is no profile before a run");
    }
    ipu__profile__profile__init(&b.profile);
    bool built =
        b.arena && add_head(&b, summary) && add_steps(&b) && add_tiles(&b) && pack(&b.profile, out);
    arena_destroy(b.arena);
    if (!built)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for the profile");
    return 0;
}
