/* Arena: a list of chunks, the newest in front. Big requests get a chunk of their own. Under the
 * address sanitizer every request does, to the byte, so that a step beyond an object is seen; what
 * counts against the budget is the same in all builds.
 */
#include "base/arena.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
enum { CHUNK_BYTES = 0, EXACT = 1 };
#else
enum { CHUNK_BYTES = 1 << 18, EXACT = 0 };
#endif
enum { ALIGN = 16 };

struct chunk {
    struct chunk *next;
    size_t size;
    size_t used;
    size_t pad;
    unsigned char bytes[];
};

struct arena {
    struct chunk *chunks;
    size_t budget;
    size_t used;
    bool exhausted;
};

struct arena *arena_create(size_t budget)
{
    struct arena *arena = ipu_calloc(1, sizeof *arena);
    if (arena)
        arena->budget = budget;
    return arena;
}

void arena_destroy(struct arena *arena)
{
    if (!arena)
        return;
    for (struct chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        ipu_free(c);
    }
    ipu_free(arena);
}

static void *refuse(struct arena *arena)
{
    arena->exhausted = true;
    return NULL;
}

static struct chunk *chunk_add(struct arena *arena, size_t need)
{
    bool large = need > CHUNK_BYTES / 4;
    size_t size = large ? need : CHUNK_BYTES;
    struct chunk *c = ipu_calloc(1, sizeof *c + size);
    if (!c)
        return NULL;
    c->size = size;
    if (large && arena->chunks) {
        c->next = arena->chunks->next;
        arena->chunks->next = c;
    } else {
        c->next = arena->chunks;
        arena->chunks = c;
    }
    return c;
}

void *arena_calloc(struct arena *arena, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX / 2) / size)
        return refuse(arena);
    size_t need = (count * size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (need == 0)
        need = ALIGN;
    if (arena->budget && need > arena->budget - arena->used)
        return refuse(arena);
    size_t taken = EXACT ? count * size : need;
    struct chunk *c = arena->chunks;
    if (EXACT || !c || c->size - c->used < taken)
        c = chunk_add(arena, taken);
    if (!c)
        return refuse(arena);
    void *result = c->bytes + c->used;
    c->used += taken;
    arena->used += need;
    return result;
}

void *arena_memdup(struct arena *arena, const void *data, size_t size)
{
    void *copy = arena_calloc(arena, 1, size);
    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_memdup(arena, text, strlen(text) + 1);
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return NULL;
    char *text = arena_calloc(arena, 1, (size_t)length + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

size_t arena_used(const struct arena *arena)
{
    return arena->used;
}

bool arena_exhausted(const struct arena *arena)
{
    return arena->exhausted;
}
