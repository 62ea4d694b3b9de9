/* The one seam through which this project allocates, so that tests can fail the Nth call.
 *
 * In a normal build the functions are malloc and friends. A test arms a failure with
 * ipu_alloc_fail_after(); the counter is per process and only meant for tests.
 */
#ifndef IPU_BASE_ALLOC_H
#define IPU_BASE_ALLOC_H

#include <stddef.h>

void *ipu_malloc(size_t size);
void *ipu_calloc(size_t count, size_t size);
void *ipu_realloc(void *block, size_t size);
char *ipu_strdup(const char *text);
void ipu_free(void *block);

/* Lets `calls` allocations succeed, then fails every one (`once` = 0) or only the next (`once` =
 * 1). calls < 0 disarms. */
void ipu_alloc_fail_after(long calls, int once);

#endif
