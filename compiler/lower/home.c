/* Homes: where computed values live, and which blocks hold the same cells.
 *
 * Blocks are sorted by tile; groups are sorted by box, the members of a group by tile. Requires
 * layouts that cover every cell at least once. Fails only for lack of memory.
 */
#include "compiler/lower/internal.h"

#include <stdlib.h>
#include <string.h>

bool home_from_layout(struct lower *l, const struct plan_layout *layout, enum flow_type type,
                      struct home *out)
{
    uint32_t cell = program_cell_bytes(type);
    memset(out, 0, sizeof *out);
    out->type = type;
    out->count = layout->count;
    out->blocks = ARENA_ARRAY(l->arena, struct home_block, layout->count);
    if (out->blocks == NULL)
        return lower_oom(l);
    for (uint32_t i = 0; i < layout->count; i++) {
        const struct plan_block *p = &layout->blocks[i];
        struct home_block *b = &out->blocks[i];
        b->box = (struct box){p->row, p->rows, p->panel, p->panels};
        b->tile = p->tile;
        b->stride = p->rows * cell;
        b->ref.buffer = buffer_new(l, p->tile, (uint64_t)p->rows * p->panels * cell, 1);
    }
    return l->code == 0 && home_index(l, out);
}

struct keyed {
    struct box box;
    uint32_t index;
};

static int compare_u32(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_boxes(const struct box *a, const struct box *b)
{
    int c = compare_u32(a->row, b->row);
    c = c ? c : compare_u32(a->panel, b->panel);
    c = c ? c : compare_u32(a->rows, b->rows);
    return c ? c : compare_u32(a->panels, b->panels);
}

static int compare_keyed(const void *x, const void *y)
{
    const struct keyed *a = x, *b = y;
    int c = compare_boxes(&a->box, &b->box);
    return c ? c : compare_u32(a->index, b->index);
}

static bool index_tiles(struct lower *l, struct home *h)
{
    h->by_tile = ARENA_ARRAY(l->arena, uint32_t, PROGRAM_TILES + 1);
    if (h->by_tile == NULL)
        return lower_oom(l);
    for (uint32_t i = 0; i < h->count; i++) {
        h->by_tile[h->blocks[i].tile + 1]++;
        if (i > 0 && h->blocks[i].tile < h->blocks[i - 1].tile)
            return lower_fail(l, IPU_ERR_INTERNAL, "the blocks of a layout are not sorted");
    }
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        h->by_tile[t + 1] += h->by_tile[t];
    return true;
}

bool home_index(struct lower *l, struct home *h)
{
    struct keyed *keys = ARENA_ARRAY(l->arena, struct keyed, h->count);
    h->members = ARENA_ARRAY(l->arena, uint32_t, h->count);
    h->groups = ARENA_ARRAY(l->arena, struct home_group, h->count);
    if (keys == NULL || h->members == NULL || h->groups == NULL)
        return lower_oom(l);
    for (uint32_t i = 0; i < h->count; i++)
        keys[i] = (struct keyed){h->blocks[i].box, i};
    qsort(keys, h->count, sizeof *keys, compare_keyed);
    h->group_count = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        if (i == 0 || !box_equal(&keys[i].box, &keys[i - 1].box))
            h->groups[h->group_count++] = (struct home_group){keys[i].box, i, 0};
        h->groups[h->group_count - 1].count++;
        h->members[i] = keys[i].index;
    }
    h->known = true;
    return index_tiles(l, h);
}

const struct home_block *home_local(const struct home *home, unsigned tile, const struct box *box)
{
    for (uint32_t i = home->by_tile[tile]; i < home->by_tile[tile + 1]; i++)
        if (box_inside(box, &home->blocks[i].box))
            return &home->blocks[i];
    return NULL;
}

struct program_ref home_ref(const struct home_block *block, const struct box *box,
                            enum flow_type type)
{
    return ref_add(block->ref, (box->panel - block->box.panel) * block->stride +
                                   (box->row - block->box.row) * program_cell_bytes(type));
}

void home_touch(struct lower *l, const struct home *home, uint32_t step)
{
    for (uint32_t i = 0; i < home->count; i++)
        buffer_touch(l, home->blocks[i].ref.buffer, step);
}

bool home_same_blocks(const struct home *a, const struct home *b)
{
    if (a->count != b->count || a->type != b->type)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->blocks[i].tile != b->blocks[i].tile ||
            !box_equal(&a->blocks[i].box, &b->blocks[i].box) ||
            a->blocks[i].stride != b->blocks[i].stride)
            return false;
    return true;
}
