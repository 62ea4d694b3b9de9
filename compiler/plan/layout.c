/* Separable layouts: building, interning, emitting.
 *
 * A layout is the product of row cuts and panel cuts; each cell of the product has `reps` owners.
 * Interned: two layouts with the same cuts and owners are the same pointer. Owners of one cell are
 * distinct. Parts are never empty. Building fails (NULL, space->oom) only for lack of memory.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static uint64_t lay_hash(const struct space *s, uint32_t reps)
{
    uint64_t h = hash64_mix(reps);
    const struct u32_list *lists[] = {&s->row_cuts, &s->panel_cuts, &s->tiles_list};
    for (unsigned l = 0; l < 3; l++) {
        h = h * 0x100000001b3u + lists[l]->count;
        for (uint32_t i = 0; i < lists[l]->count; i++)
            h = (h ^ lists[l]->at[i]) * 0x9e3779b97f4a7c15u + (h >> 29);
    }
    return hash64_mix(h);
}

static bool lay_same(const struct space *s, const struct lay *lay, uint32_t reps)
{
    if (lay->reps != reps || lay->nr + 1 != s->row_cuts.count || lay->np + 1 != s->panel_cuts.count)
        return false;
    if (memcmp(lay->row_cut, s->row_cuts.at, sizeof(uint32_t) * (lay->nr + 1)) != 0 ||
        memcmp(lay->panel_cut, s->panel_cuts.at, sizeof(uint32_t) * (lay->np + 1)) != 0)
        return false;
    for (uint32_t i = 0; i < s->tiles_list.count; i++)
        if (lay->tile[i] != s->tiles_list.at[i])
            return false;
    return true;
}

static bool lay_measure(struct space *s, struct lay *lay)
{
    lay->cells = ARENA_ARRAY(s->arena, uint32_t, s->tiles);
    if (lay->cells == NULL)
        return false;
    for (uint32_t r = 0; r < lay->nr; r++)
        if (lay->row_cut[r + 1] - lay->row_cut[r] > lay->max_rows)
            lay->max_rows = lay->row_cut[r + 1] - lay->row_cut[r];
    for (uint32_t p = 0; p < lay->np; p++)
        if (lay->panel_cut[p + 1] - lay->panel_cut[p] > lay->max_panels)
            lay->max_panels = lay->panel_cut[p + 1] - lay->panel_cut[p];
    assert(lay->np != 0);
    for (uint32_t t = 0; t < s->tiles; t++) {
        uint32_t blocks = lay->own_at[t + 1] - lay->own_at[t], cells = 0;
        for (uint32_t i = lay->own_at[t]; i < lay->own_at[t + 1]; i++) {
            uint32_t r = lay->own[i] / lay->np, p = lay->own[i] % lay->np;
            cells += (lay->row_cut[r + 1] - lay->row_cut[r]) *
                     (lay->panel_cut[p + 1] - lay->panel_cut[p]);
        }
        lay->active += blocks > 0;
        lay->max_blocks = blocks > lay->max_blocks ? blocks : lay->max_blocks;
        lay->max_cells = cells > lay->max_cells ? cells : lay->max_cells;
        lay->cells[t] = cells;
    }
    return true;
}

static bool lay_index_owners(struct space *s, struct lay *lay)
{
    uint32_t owned = lay->nr * lay->np * lay->reps;
    lay->own_at = ARENA_ARRAY(s->arena, uint32_t, s->tiles + 1);
    lay->own = ARENA_ARRAY(s->arena, uint32_t, owned);
    if (lay->own_at == NULL || lay->own == NULL)
        return false;
    for (uint32_t i = 0; i < owned; i++)
        lay->own_at[lay->tile[i] + 1]++;
    for (uint32_t t = 0; t < s->tiles; t++)
        lay->own_at[t + 1] += lay->own_at[t];
    memcpy(s->stamp, lay->own_at, sizeof(uint32_t) * s->tiles); /* stamp: fill positions */
    for (uint32_t i = 0; i < owned; i++)
        lay->own[s->stamp[lay->tile[i]]++] = i / lay->reps;
    memset(s->stamp, 0, sizeof(uint32_t) * s->tiles);
    s->stamp_now = 0;
    return true;
}

static bool lay_register(struct space *s, struct lay *lay)
{
    if (s->lay_count == s->lay_capacity) {
        uint32_t capacity = s->lay_capacity ? 2 * s->lay_capacity : 256;
        struct lay **lays = ipu_realloc(s->lays, sizeof *lays * capacity);
        if (lays == NULL)
            return false;
        s->lays = lays;
        s->lay_capacity = capacity;
    }
    lay->id = s->lay_count + 1;
    s->lays[s->lay_count++] = lay;
    if (s->lay_count * 2 > s->lay_slot_count) {
        uint32_t slots = s->lay_slot_count * 2;
        struct lay **table = ipu_calloc(slots, sizeof *table);
        if (table == NULL)
            return false;
        ipu_free(s->lay_slots);
        s->lay_slots = table;
        s->lay_slot_count = slots;
        for (uint32_t i = 0; i + 1 < s->lay_count; i++) {
            uint64_t at = s->lays[i]->hash & (slots - 1);
            while (table[at] != NULL)
                at = (at + 1) & (slots - 1);
            table[at] = s->lays[i];
        }
    }
    uint64_t at = lay->hash & (s->lay_slot_count - 1);
    while (s->lay_slots[at] != NULL)
        at = (at + 1) & (s->lay_slot_count - 1);
    s->lay_slots[at] = lay;
    return true;
}

static struct lay *lay_create(struct space *s, uint32_t reps, uint64_t hash)
{
    struct lay *lay = ARENA_NEW(s->arena, struct lay);
    if (lay == NULL)
        return NULL;
    lay->nr = s->row_cuts.count - 1;
    lay->np = s->panel_cuts.count - 1;
    lay->reps = reps;
    lay->hash = hash;
    lay->row_cut = arena_memdup(s->arena, s->row_cuts.at, sizeof(uint32_t) * s->row_cuts.count);
    lay->panel_cut =
        arena_memdup(s->arena, s->panel_cuts.at, sizeof(uint32_t) * s->panel_cuts.count);
    lay->tile = ARENA_ARRAY(s->arena, uint16_t, s->tiles_list.count);
    if (lay->row_cut == NULL || lay->panel_cut == NULL || lay->tile == NULL)
        return NULL;
    for (uint32_t i = 0; i < s->tiles_list.count; i++)
        lay->tile[i] = (uint16_t)s->tiles_list.at[i];
    if (!lay_index_owners(s, lay) || !lay_measure(s, lay) || !lay_register(s, lay))
        return NULL;
    return lay;
}

struct lay *lay_intern(struct space *space, uint32_t reps)
{
    if (space->oom)
        return NULL;
    uint64_t hash = lay_hash(space, reps);
    uint64_t mask = space->lay_slot_count - 1;
    for (uint64_t at = hash & mask; space->lay_slots[at] != NULL; at = (at + 1) & mask)
        if (space->lay_slots[at]->hash == hash && lay_same(space, space->lay_slots[at], reps))
            return space->lay_slots[at];
    struct lay *lay = lay_create(space, reps, hash);
    space->units += 1 + space->tiles_list.count / 128 + space->tiles / 256;
    space->oom |= lay == NULL;
    return lay;
}

struct lay *lay_grid(struct space *space, uint32_t rows, uint32_t panels, uint32_t gm, uint32_t gn,
                     unsigned order, uint32_t offset)
{
    space->row_cuts.count = space->panel_cuts.count = space->tiles_list.count = 0;
    for (uint32_t i = 0; i <= gm; i++)
        u32_push(space, &space->row_cuts, cut_at(rows, gm, i));
    for (uint32_t j = 0; j <= gn; j++)
        u32_push(space, &space->panel_cuts, cut_at(panels, gn, j));
    for (uint32_t i = 0; i < gm; i++)
        for (uint32_t j = 0; j < gn; j++)
            u32_push(space, &space->tiles_list,
                     (offset + (order == 0 ? i * gn + j : j * gm + i)) % space->tiles);
    return lay_intern(space, 1);
}

/* Rows over as many tiles as there are rows, then panels over what remains. */
void lay_balanced_grid(uint64_t rows, uint64_t panels, uint32_t tiles, uint32_t *gm, uint32_t *gn)
{
    *gm = (uint32_t)(rows < tiles ? rows : tiles);
    uint32_t rest = tiles / *gm;
    *gn = (uint32_t)(panels < rest ? panels : rest);
}

struct lay *lay_balanced(struct space *space, uint32_t tensor)
{
    if (space->fixed[tensor] == NULL) {
        const struct flow_tensor *t = &space->model->flow->tensors[tensor];
        uint32_t panels = (uint32_t)plan_panels(t->columns), gm, gn;
        lay_balanced_grid(t->rows, panels, space->tiles, &gm, &gn);
        space->fixed[tensor] = lay_grid(space, (uint32_t)t->rows, panels, gm, gn, 0, 0);
    }
    return space->fixed[tensor];
}

struct lay *lay_staged(struct space *space, uint32_t tensor)
{
    if (space->staged[tensor] == NULL) {
        const struct flow_tensor *t = &space->model->flow->tensors[tensor];
        uint32_t panels = (uint32_t)plan_panels(t->columns), rows = (uint32_t)t->rows;
        uint32_t gn = panels < space->tiles ? panels : space->tiles, gm = space->tiles / gn;
        gm = gm < rows ? gm : rows;
        space->staged[tensor] = lay_grid(space, rows, panels, gm, gn, 0, 0);
    }
    return space->staged[tensor];
}

static const uint8_t grid_orders[GRID_ORDERS][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0},
                                                    {2, 0, 1}, {2, 1, 0}}; /* slowest to fastest */

struct grid_strides grid_strides(const struct plan_choice *c, uint32_t tiles)
{
    const uint32_t size[3] = {c->gm, c->gn, c->gk};
    const uint8_t *order = grid_orders[c->order];
    uint32_t stride[3];
    stride[order[2]] = 1;
    stride[order[1]] = size[order[2]];
    stride[order[0]] = size[order[2]] * size[order[1]];
    return (struct grid_strides){
        c->offset, size[0] * size[1] * size[2], stride[0], stride[1], stride[2], tiles};
}

static int compare_blocks(const void *x, const void *y)
{
    const struct plan_block *a = x, *b = y;
    if (a->tile != b->tile)
        return a->tile < b->tile ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->panel < b->panel ? -1 : a->panel > b->panel;
}

bool lay_emit(const struct lay *lay, struct arena *arena, struct plan_layout *out)
{
    out->count = lay->nr * lay->np * lay->reps;
    out->blocks = ARENA_ARRAY(arena, struct plan_block, out->count);
    if (out->blocks == NULL)
        return false;
    for (uint32_t i = 0; i < out->count; i++) {
        uint32_t cell = i / lay->reps, r = cell / lay->np, p = cell % lay->np;
        out->blocks[i] = (struct plan_block){.tile = lay->tile[i],
                                             .row = lay->row_cut[r],
                                             .rows = lay->row_cut[r + 1] - lay->row_cut[r],
                                             .panel = lay->panel_cut[p],
                                             .panels = lay->panel_cut[p + 1] - lay->panel_cut[p]};
    }
    qsort(out->blocks, out->count, sizeof *out->blocks, compare_blocks);
    return true;
}
