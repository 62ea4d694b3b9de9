/* Allocation seam: see alloc.h. The armed counter is the only mutable global of the project; it
 * exists for tests. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_after = -1;
static atomic_int fail_once;

static int should_fail(void)
{
    if (atomic_load_explicit(&fail_after, memory_order_relaxed) < 0)
        return 0;
    long left = atomic_fetch_sub(&fail_after, 1);
    if (left > 0)
        return 0;
    atomic_store(&fail_after, atomic_load(&fail_once) ? -1 : 0);
    return 1;
}

void *ipu_malloc(size_t size)
{
    return should_fail() ? NULL : malloc(size);
}

void *ipu_calloc(size_t count, size_t size)
{
    return should_fail() ? NULL : calloc(count, size);
}

void *ipu_realloc(void *block, size_t size)
{
    return should_fail() ? NULL : realloc(block, size);
}

char *ipu_strdup(const char *text)
{
    return should_fail() ? NULL : strdup(text);
}

void ipu_free(void *block)
{
    free(block);
}

void ipu_alloc_fail_after(long calls, int once)
{
    atomic_store(&fail_once, once);
    atomic_store(&fail_after, calls);
}
