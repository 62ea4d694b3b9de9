/* A space: the memory and caches of one search thread.
 *
 * Everything found stays until the space closes. The arena has a byte budget, so a search that
 * meets too many layouts ends (`oom`) instead of growing without bound; the incumbent stays valid.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"

enum {
    SPACE_ARENA_BYTES = 1 << 30,
    SPACE_LAY_SLOTS = 4096,
    SPACE_MEMO_SLOTS = 1 << 14,
    SPACE_VISITED_SLOTS = 1 << 12
};

void u32_push(struct space *space, struct u32_list *list, uint32_t value)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 256;
        uint32_t *at = ipu_realloc(list->at, sizeof(uint32_t) * capacity);
        if (at == NULL) {
            space->oom = true;
            return;
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = value;
}

static bool space_allocate(struct space *s)
{
    const struct model *m = s->model;
    s->classes = ARENA_ARRAY(s->arena, struct cand_class, m->class_count + 1);
    s->value = ARENA_ARRAY(s->arena, struct lay *, m->op_count + 1);
    s->mark = ARENA_ARRAY(s->arena, uint8_t, m->op_count + 1);
    s->fixed = ARENA_ARRAY(s->arena, struct lay *, m->flow->tensor_count + 1);
    s->staged = ARENA_ARRAY(s->arena, struct lay *, m->flow->tensor_count + 1);
    s->receive = ARENA_ARRAY(s->arena, uint32_t, s->tiles);
    s->send = ARENA_ARRAY(s->arena, uint32_t, s->tiles);
    s->receive_runs = ARENA_ARRAY(s->arena, uint32_t, s->tiles);
    s->send_runs = ARENA_ARRAY(s->arena, uint32_t, s->tiles);
    s->copies = ARENA_ARRAY(s->arena, uint32_t, s->tiles);
    s->stamp = ARENA_ARRAY(s->arena, uint32_t, s->tiles);
    s->lay_slot_count = SPACE_LAY_SLOTS;
    s->lay_slots = ipu_calloc(s->lay_slot_count, sizeof(struct lay *));
    s->memo_slots = SPACE_MEMO_SLOTS;
    s->memo = ipu_calloc(s->memo_slots, sizeof(struct memo_entry));
    s->visited_slots = SPACE_VISITED_SLOTS;
    s->visited = ipu_calloc(s->visited_slots, sizeof(uint64_t));
    s->gemm_prices = ARENA_ARRAY(s->arena, uint64_t, GEMM_PRICE_SLOTS);
    return s->gemm_prices && s->visited && s->classes && s->value && s->mark && s->fixed &&
           s->staged && s->receive && s->send && s->receive_runs && s->send_runs && s->copies &&
           s->stamp && s->lay_slots && s->memo;
}

int space_open(const struct model *model, struct space **out, struct ipu_error *error)
{
    struct space *s = ipu_calloc(1, sizeof *s);
    if (s == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the search");
    s->model = model;
    s->tiles = model->tiles;
    s->limit = PLAN_TILE_BYTES;
    s->arena = arena_create(SPACE_ARENA_BYTES);
    if (s->arena == NULL || !space_allocate(s)) {
        space_close(s);
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory for the search");
    }
    *out = s;
    return 0;
}

void space_close(struct space *space)
{
    if (space == NULL)
        return;
    const struct u32_list *lists[] = {&space->row_cuts, &space->panel_cuts, &space->tiles_list,
                                      &space->pairs_r,  &space->pairs_p,    &space->remote};
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
        ipu_free(lists[i]->at);
    if (space->classes != NULL)
        for (uint32_t c = 0; c < space->model->class_count; c++)
            ipu_free(space->classes[c].list);
    ipu_free(space->lays);
    ipu_free(space->lay_slots);
    ipu_free(space->memo);
    ipu_free(space->visited);
    if (space->arena != NULL)
        arena_destroy(space->arena);
    ipu_free(space);
}

static bool visited_grow(struct space *s)
{
    uint32_t slots = s->visited_slots * 2;
    uint64_t *table = ipu_calloc(slots, sizeof *table);
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < s->visited_slots; i++) {
        uint64_t at = s->visited[i] & (slots - 1);
        while (s->visited[i] != 0 && table[at] != 0)
            at = (at + 1) & (slots - 1);
        if (s->visited[i] != 0)
            table[at] = s->visited[i];
    }
    ipu_free(s->visited);
    s->visited = table;
    s->visited_slots = slots;
    return true;
}

bool visited_add(struct space *space, uint64_t hash)
{
    hash += hash == 0;
    if (space->visited_count * 2 > space->visited_slots && !visited_grow(space)) {
        space->oom = true;
        return true;
    }
    uint64_t at = hash & (space->visited_slots - 1);
    for (; space->visited[at] != 0; at = (at + 1) & (space->visited_slots - 1))
        if (space->visited[at] == hash)
            return true;
    space->visited[at] = hash;
    space->visited_count++;
    return false;
}
