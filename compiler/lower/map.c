/* A hash table from (tensor, tile, box, form) to the buffer that holds it.
 *
 * Open addressing in the arena; the order of entries never reaches a result. Fails only for lack of
 * memory.
 */
#include "compiler/lower/internal.h"

#include "base/hash.h"

#include <string.h>

static uint64_t key_hash(const struct box_key *k)
{
    uint64_t h = hash64_mix((uint64_t)k->tensor << 32 | (uint32_t)k->tile << 16 | k->form);
    h = hash64_mix(h ^ ((uint64_t)k->box.row << 32 | k->box.rows));
    h = hash64_mix(h ^ ((uint64_t)k->box.panel << 32 | k->box.panels));
    return hash64_mix(h ^ k->extra);
}

static bool key_equal(const struct box_key *a, const struct box_key *b)
{
    return a->tensor == b->tensor && a->tile == b->tile && a->form == b->form &&
           a->extra == b->extra && box_equal(&a->box, &b->box);
}

static struct box_entry *slot_of(const struct box_map *map, const struct box_key *key)
{
    uint32_t mask = map->slots - 1;
    uint32_t at = (uint32_t)key_hash(key) & mask;
    while (map->entries[at].used && !key_equal(&map->entries[at].key, key))
        at = (at + 1) & mask;
    return &map->entries[at];
}

struct box_entry *map_find(const struct box_map *map, const struct box_key *key)
{
    if (map->slots == 0)
        return NULL;
    struct box_entry *e = slot_of(map, key);
    return e->used && !e->dropped ? e : NULL;
}

static bool map_grow(struct lower *l, struct box_map *map)
{
    struct box_map wide = {.slots = map->slots ? 2 * map->slots : 256};
    wide.entries = ARENA_ARRAY(l->arena, struct box_entry, wide.slots);
    if (wide.entries == NULL)
        return lower_oom(l);
    for (uint32_t i = 0; i < map->slots; i++) {
        if (!map->entries[i].used || map->entries[i].dropped)
            continue;
        *slot_of(&wide, &map->entries[i].key) = map->entries[i];
        wide.count++;
    }
    *map = wide;
    return true;
}

struct box_entry *map_add(struct lower *l, struct box_map *map, const struct box_key *key)
{
    if (2 * (map->count + 1) > map->slots && !map_grow(l, map))
        return NULL;
    struct box_entry *e = slot_of(map, key);
    map->count += !e->used;
    e->used = true;
    e->dropped = false;
    e->key = *key;
    return e;
}
