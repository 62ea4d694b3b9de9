/* Arena: memory that is allocated piecewise and freed whole, under a byte budget.
 *
 * Not thread-safe: one arena per thread, or a lock outside. All results are zeroed and aligned to
 * 16 bytes. Allocation beyond the budget, or a failing malloc, returns NULL; arena_exhausted()
 * tells which arenas hit their budget.
 */
#ifndef IPU_BASE_ARENA_H
#define IPU_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena;

/* Creates an arena that may hand out at most `budget` bytes (0 = no limit). NULL when malloc fails.
 */
struct arena *arena_create(size_t budget);
void arena_destroy(struct arena *arena);

/* count * size zeroed bytes, or NULL (overflow of the product counts as exhaustion). */
void *arena_calloc(struct arena *arena, size_t count, size_t size);
/* Copies of bytes and strings. */
void *arena_memdup(struct arena *arena, const void *data, size_t size);
char *arena_strdup(struct arena *arena, const char *text);
/* Formats into the arena. */
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes handed out so far; whether an allocation has been refused. */
size_t arena_used(const struct arena *arena);
bool arena_exhausted(const struct arena *arena);

#define ARENA_NEW(arena, type)          ((type *)arena_calloc((arena), 1, sizeof(type)))
#define ARENA_ARRAY(arena, type, count) ((type *)arena_calloc((arena), (count), sizeof(type)))

#endif
