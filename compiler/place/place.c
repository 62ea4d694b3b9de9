/* The placer: best fit per tile over buffers in several orders.
 *
 * Orders are tried until one succeeds: buffers that stay for the whole program first, then by size;
 * by last use; by size alone. Within an order a buffer goes to the free range that it fills best,
 * in its preferred region, at the lowest legal address; granule wishes between exchange partners
 * are dropped for a buffer that finds no place with them. Fails with IPU_ERR_NO_FIT after the last
 * order.
 */
#include "compiler/place/internal.h"

#include <stdlib.h>
#include <string.h>

enum { ORDERS = 3, UNPLACED = 0, TENSOR_END = IPU21_SRAM_END - KERNEL_OVERREAD };

struct place {
    struct program *program;
    struct place_rules rules;
    struct arena *arena;
    struct ipu_error *error;
    uint32_t *list;   /* buffers of the tile being placed */
    uint32_t *placed; /* those placed so far, by address */
    uint32_t count, placed_count;
    uint32_t end; /* a step past all lifetimes */
    uint32_t region0;
    uint32_t soft_conflicts;
};

struct range {
    uint32_t from, to;
};

static const struct program_buffer *at(const struct place *p, uint32_t buffer)
{
    return &p->program->buffers[buffer];
}

static bool meets(const struct program_buffer *a, const struct program_buffer *b)
{
    if (a->resident || b->resident)
        return true;
    return a->first <= b->last && b->first <= a->last;
}

/* A buffer that nothing uses gets no address. */
static bool is_used(const struct program_buffer *b)
{
    return b->first <= b->last;
}

/* --- granule rules -------------------------------------------------------------------------- */

static uint32_t hard_mask(const struct place *p, uint32_t buffer)
{
    uint32_t mask = 0;
    for (uint32_t i = p->rules.apart[buffer]; i != 0; i = p->rules.links[i - 1].next) {
        const struct program_buffer *other = at(p, p->rules.links[i - 1].value);
        if (other->address != UNPLACED)
            mask |= place_mask(other->address, program_buffer_bytes(other));
    }
    return mask;
}

static bool opposes(const struct place *p, uint32_t a, uint32_t b)
{
    for (uint32_t i = p->rules.roles[a]; i != 0; i = p->rules.links[i - 1].next)
        for (uint32_t k = p->rules.roles[b]; k != 0; k = p->rules.links[k - 1].next)
            if ((p->rules.links[i - 1].value ^ p->rules.links[k - 1].value) == 1)
                return true;
    return false;
}

static uint32_t soft_mask(const struct place *p, uint32_t buffer)
{
    uint32_t mask = 0;
    if (p->rules.roles[buffer] == 0)
        return 0;
    for (uint32_t i = 0; i < p->placed_count; i++) {
        const struct program_buffer *other = at(p, p->placed[i]);
        if (opposes(p, buffer, p->placed[i]))
            mask |= ipu21_element_mask(other->address, (uint32_t)program_buffer_bytes(other));
    }
    return mask;
}

/* First byte after the granule of an address. */
static uint32_t granule_end(uint32_t address)
{
    uint32_t size = address < IPU21_REGION1_BASE ? IPU21_ELEMENT_BYTES : IPU21_PAIR_BYTES;
    uint32_t base = address < IPU21_REGION1_BASE ? IPU21_SRAM_BASE : IPU21_REGION1_BASE;
    return base + (address - base) / size * size + size;
}

/* Lowest legal address in a free range, or UNPLACED. */
static uint32_t legal_address(struct range range, uint64_t bytes, uint32_t hard, uint32_t soft)
{
    uint32_t address = (range.from + PROGRAM_ALIGNMENT - 1) & ~(uint32_t)(PROGRAM_ALIGNMENT - 1);
    while (address + bytes <= range.to) {
        uint32_t clash = place_mask(address, bytes) & hard;
        clash |= ipu21_element_mask(address, (uint32_t)bytes) & soft;
        if (clash == 0)
            return address;
        unsigned last = 31 - (unsigned)__builtin_clz(clash);
        uint32_t probe = address;
        while (ipu21_element(probe) < last && granule_end(probe) < IPU21_SRAM_END)
            probe = granule_end(probe);
        address = granule_end(probe);
    }
    return UNPLACED;
}

/* --- free ranges ---------------------------------------------------------------------------- */

/* Best-fitting address for a buffer inside [region.from, region.to), or UNPLACED. */
static uint32_t best_fit(const struct place *p, uint32_t buffer, struct range region, uint32_t hard,
                         uint32_t soft)
{
    const struct program_buffer *b = at(p, buffer);
    uint64_t bytes = program_buffer_bytes(b);
    uint32_t cursor = region.from, best = UNPLACED, best_left = UINT32_MAX;
    for (uint32_t i = 0; i <= p->placed_count; i++) {
        const struct program_buffer *o = i < p->placed_count ? at(p, p->placed[i]) : NULL;
        if (o != NULL && !meets(o, b))
            continue;
        uint32_t to = o != NULL && o->address < region.to ? o->address : region.to;
        uint32_t address = UNPLACED;
        if (cursor < to && to - cursor >= bytes)
            address = legal_address((struct range){cursor, to}, bytes, hard, soft);
        if (address != UNPLACED && to - cursor - (uint32_t)bytes < best_left) {
            best = address;
            best_left = to - cursor - (uint32_t)bytes;
        }
        uint32_t end = o != NULL ? o->address + (uint32_t)program_buffer_bytes(o) : 0;
        cursor = end > cursor ? end : cursor;
    }
    return best;
}

static uint32_t find_address(struct place *p, uint32_t buffer, uint32_t soft)
{
    const struct program_buffer *b = at(p, buffer);
    uint32_t hard = hard_mask(p, buffer), address = UNPLACED;
    const struct range standard = {p->region0, IPU21_REGION1_BASE};
    const struct range interleaved = {IPU21_REGION1_BASE, TENSOR_END};
    if (!b->interleaved)
        address = best_fit(p, buffer, standard, hard, soft);
    if (address == UNPLACED)
        address = best_fit(p, buffer, interleaved, hard, soft);
    return address;
}

static void insert_placed(struct place *p, uint32_t buffer)
{
    uint32_t i = p->placed_count++;
    while (i > 0 && at(p, p->placed[i - 1])->address > at(p, buffer)->address) {
        p->placed[i] = p->placed[i - 1];
        i--;
    }
    p->placed[i] = buffer;
}

/* --- orders --------------------------------------------------------------------------------- */

struct sort_key {
    uint64_t major, minor;
    uint32_t buffer;
};

static int compare_keys(const void *x, const void *y)
{
    const struct sort_key *a = x, *b = y;
    if (a->major != b->major)
        return a->major > b->major ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor > b->minor ? -1 : 1;
    return a->buffer < b->buffer ? -1 : 1;
}

static struct sort_key key_of(const struct place *p, uint32_t buffer, unsigned order)
{
    const struct program_buffer *b = at(p, buffer);
    uint64_t size = program_buffer_bytes(b), last = b->resident ? p->end : b->last;
    bool whole = b->resident || (b->first == 0 && b->last + 1 >= p->end);
    switch (order) {
    case 0:
        return (struct sort_key){whole, size, buffer};
    case 1:
        return (struct sort_key){last, size, buffer};
    default:
        return (struct sort_key){size, last, buffer};
    }
}

static bool try_order(struct place *p, struct sort_key *keys, unsigned order, uint32_t *failed)
{
    p->placed_count = 0;
    p->soft_conflicts = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        p->program->buffers[p->list[i]].address = UNPLACED;
        keys[i] = key_of(p, p->list[i], order);
    }
    qsort(keys, p->count, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t buffer = keys[i].buffer, soft = soft_mask(p, buffer);
        uint32_t address = find_address(p, buffer, soft);
        if (address == UNPLACED && soft != 0) {
            address = find_address(p, buffer, 0);
            p->soft_conflicts++;
        }
        if (address == UNPLACED) {
            *failed = buffer;
            return false;
        }
        p->program->buffers[buffer].address = address;
        insert_placed(p, buffer);
    }
    return true;
}

/* The step of the buffer's life in which most lives beside it, and how much. */
static uint64_t fullest_step(const struct place *p, const struct program_buffer *b, uint32_t *step)
{
    uint32_t first = b->resident ? 0 : b->first, last = b->resident ? p->end : b->last;
    uint64_t most = 0;
    for (uint32_t s = first; s <= last; s++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < p->count; i++) {
            const struct program_buffer *o = at(p, p->list[i]);
            if (o->resident || (o->first <= s && s <= o->last))
                live += program_buffer_bytes(o);
        }
        *step = live > most ? s : *step;
        most = live > most ? live : most;
    }
    return most;
}

static int no_fit(struct place *p, unsigned tile, uint32_t failed)
{
    const struct program *program = p->program;
    const struct program_buffer *b = at(p, failed);
    uint32_t space = TENSOR_END - p->region0, step = 0;
    uint64_t live = fullest_step(p, b, &step);
    const char *name = step < program->step_count ? program->steps[step].name : "the end";
    return ipu_error_set(
        p->error, IPU_ERR_NO_FIT,
        "place: tile %u needs %llu bytes for data that live together at '%s' (among them %llu "
        "bytes%s "
        "that found no free range); it has %u bytes for tensors, %u of them interleaved",
        tile, (unsigned long long)live, name, (unsigned long long)program_buffer_bytes(b),
        b->interleaved ? " of interleaved memory" : "", space,
        (unsigned)(TENSOR_END - IPU21_REGION1_BASE));
}

static int place_tile(struct place *p, unsigned tile, struct sort_key *keys,
                      struct place_report *report)
{
    uint32_t failed = 0, first_failed = 0;
    unsigned order = 0;
    while (order < ORDERS && !try_order(p, keys, order, &failed)) {
        first_failed = order == 0 ? failed : first_failed;
        order++;
    }
    if (order == ORDERS)
        return no_fit(p, tile, first_failed);
    report->soft_conflicts += p->soft_conflicts;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct program_buffer *b = at(p, p->list[i]);
        uint32_t end = b->address + (uint32_t)program_buffer_bytes(b);
        uint32_t *most =
            b->address < IPU21_REGION1_BASE ? &report->standard_bytes : &report->interleaved_bytes;
        uint32_t base = b->address < IPU21_REGION1_BASE ? p->region0 : IPU21_REGION1_BASE;
        *most = end - base > *most ? end - base : *most;
    }
    return 0;
}

int place_program(struct program *program, const uint32_t region0[PROGRAM_TILES],
                  struct arena *arena, struct place_report *report, struct ipu_error *error)
{
    struct place p = {.program = program, .arena = arena, .error = error};
    memset(report, 0, sizeof *report);
    int code = place_rules_collect(program, arena, &p.rules, error);
    uint32_t *first = ARENA_ARRAY(arena, uint32_t, PROGRAM_TILES + 1);
    uint32_t *list = ARENA_ARRAY(arena, uint32_t, program->buffer_count + 1);
    struct sort_key *keys = ARENA_ARRAY(arena, struct sort_key, program->buffer_count + 1);
    p.placed = ARENA_ARRAY(arena, uint32_t, program->buffer_count + 1);
    if (code != 0)
        return code;
    if (first == NULL || list == NULL || keys == NULL || p.placed == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "place: out of memory");
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        if (!is_used(&program->buffers[i]))
            continue;
        first[program->buffers[i].tile + 1]++;
        if (program->buffers[i].last + 1 > p.end)
            p.end = program->buffers[i].last + 1;
    }
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        first[t + 1] += first[t];
    for (uint32_t i = 0; i < program->buffer_count; i++)
        if (is_used(&program->buffers[i]))
            list[first[program->buffers[i].tile]++] = i;
    for (unsigned t = 0; t < PROGRAM_TILES && code == 0; t++) {
        uint32_t from = t ? first[t - 1] : 0;
        p.list = list + from;
        p.count = first[t] - from;
        p.region0 = region0[t];
        code = place_tile(&p, t, keys, report);
    }
    return code;
}
