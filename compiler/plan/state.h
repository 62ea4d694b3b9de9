/* The search state in memory: read from bytes, carried through a search, written back.
 *
 * state_read() accepts only a state of this format, cost model and flow; everything else leaves an
 * empty state and a reason. The arrays belong to the arena. Single-threaded.
 */
#ifndef IPU_PLAN_STATE_H
#define IPU_PLAN_STATE_H

#include "base/arena.h"
#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STATE_MAX_FRONTIER = 8, STATE_MAX_VISITED = 4096, STATE_MAX_REFINED = 64 };

struct state_recipe {
    const uint8_t *data;
    size_t size;
    uint64_t cycles;
};

struct search_state {
    uint64_t key, seed, attempts, units;
    uint32_t cost_version, resumes;
    unsigned frontier_count, refined_count;
    struct state_recipe frontier[STATE_MAX_FRONTIER];
    uint64_t refined_recipe[STATE_MAX_REFINED], refined_cycles[STATE_MAX_REFINED];
    uint32_t visited_count;
    const uint64_t *visited;
};

/* False when the bytes are no sound state; *reason says why in a few words. */
bool state_read(const uint8_t *data, size_t size, struct arena *arena, struct search_state *out,
                const char **reason);
bool state_write(const struct search_state *state, struct buffer *out);
/* Refined cycles of a recipe, or 0. */
uint64_t state_refined(const struct search_state *state, uint64_t recipe_hash);

#endif
