/* The kernel and runtime sources (*.S, *.inc of device/kernels and device/runtime), embedded in the
 * program at build time, so that an installed daemon needs no source tree and its kernel-cache keys
 * cover exactly what it assembles. Constant data. */
#ifndef IPU_KERNELS_SOURCES_H
#define IPU_KERNELS_SOURCES_H

#include <stddef.h>

/* Text of "device/kernels/gemm_f16.S" and its length (a NUL follows), or NULL when there is no such
 * file. A bare file name is looked up in device/kernels/ and device/runtime/. */
const char *source_find(const char *name, size_t *length);
/* The i-th file in name order; NULL past the end. */
const char *source_at(size_t index, const char **name, size_t *length);

#endif
