/* What the static analyser, which sees one file at a time, must know of functions of other files.
 * tools/tidy.sh includes it before every source; no build does.
 *
 * ipu_error_set() gives the code back: without this the analyser follows paths on which a failure
 * looks like success. The functions of base/alloc.h are malloc and its family: with this it finds
 * leaks, double frees and blocks used after they were freed.
 */
#ifndef IPU_TOOLS_TIDY_MODEL_H
#define IPU_TOOLS_TIDY_MODEL_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define ipu_error_set(error, code, ...)                                                            \
    ((void)(ipu_error_set)((error), (code), __VA_ARGS__), (code))
#define ipu_malloc(size)         malloc(size)
#define ipu_calloc(count, size)  calloc((count), (size))
#define ipu_realloc(block, size) realloc((block), (size))
#define ipu_strdup(text)         strdup(text)
#define ipu_free(block)          free(block)

#endif
