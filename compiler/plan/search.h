/* The passes of the search over solutions: budget, pool, beam, local moves, recipes, output.
 *
 * All work on one space and so on one thread. A pool keeps the best solution of each layout
 * family; a budget counts work units and only in an emergency the clock.
 */
#ifndef IPU_PLAN_SEARCH_H
#define IPU_PLAN_SEARCH_H

#include "compiler/plan/internal.h"

/* pool.c */
struct pool {
    unsigned count, capacity;
    struct solution *list; /* best first; layout families differ */
    uint64_t *family;
};
struct budget {
    uint64_t units;       /* stop when space->units reaches this */
    uint64_t deadline_ns; /* hard limit by the clock */
    bool deadline_hit;
    const atomic_bool *cancel;
    void (*progress)(void *context, uint64_t best_cycles, uint64_t candidates, double seconds);
    void *progress_context;
    uint64_t start_ns, reported_ns;
    uint64_t best;  /* cycles of the incumbent, for progress */
    uint32_t looks; /* calls of budget_over(): the clock is read at every 64th */
};
/* Whether to stop: budget used up, cancelled, out of memory. Reports progress on the way. */
bool budget_over(struct space *space, struct budget *budget);
/* A solution without picks; its memory lasts as long as the space. */
bool solution_new(struct space *space, struct solution *solution);
void solution_copy(struct space *space, struct solution *to, const struct solution *from);
uint64_t solution_family(struct space *space, const uint16_t *pick);
bool pool_open(struct pool *pool, struct space *space, unsigned capacity);
/* Takes a copy when the solution is the best of its family and good enough; true when taken. */
bool pool_offer(struct pool *pool, struct space *space, const struct solution *solution);

/* beam.c. One pass over the operations; the first `reach` candidates of each are looked at and cost
 * `memory_price` extra cycles per KiB. Solutions that fit go to the pool; true when one did. */
bool beam_run(struct space *space, unsigned width, uint32_t reach, uint32_t memory_price,
              struct budget *budget, struct pool *pool);
/* The first legal plan. False: nothing of the vocabulary fits (*use is what the leanest needs) or
 * no memory (space->oom). */
bool baseline_run(struct space *space, struct solution *best, struct memory_use *use);

/* improve.c. Local moves from `start` until the budget ends; better solutions go to the pool. */
void improve_run(struct space *space, const struct solution *start, struct pool *pool,
                 struct budget *budget, uint64_t seed);
uint64_t solution_hash(struct space *space, const uint16_t *pick);

/* recipe.c. Reading prices the solution; false when the bytes are no legal plan of this flow. */
bool recipe_write(struct space *space, const uint16_t *pick, struct buffer *out);
bool recipe_read(struct space *space, const uint8_t *data, size_t size, struct solution *out);

/* emit.c */
IPU_MUST_CHECK int emit_plan(struct space *space, const struct solution *solution,
                             const struct memory_use *use, struct arena *arena, struct plan **out,
                             struct ipu_error *error);

#endif
