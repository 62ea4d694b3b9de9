/* A kernel cache as the compiler sees it: assembled objects found and stored by their key. The
 * daemon keeps one in its store; without one every kernel is assembled anew. Both functions are
 * called from the thread that compiles.
 */
#ifndef IPU_COMPILER_CODEGEN_KERNEL_CACHE_H
#define IPU_COMPILER_CODEGEN_KERNEL_CACHE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/* Both functions may be NULL. `key` is the 64-character kernel key. */
struct compile_cache {
    bool (*find)(void *context, const char *key, struct buffer *object);
    void (*store)(void *context, const char *key, const char *name, const void *object,
                  size_t size);
    void *context;
};

#endif
