/* What the builder, the writer, the reader and the checker of packages share. Not for other
 * modules. */
#ifndef IPU_PACKAGE_INTERNAL_H
#define IPU_PACKAGE_INTERNAL_H

#include "base/arena.h"
#include "device/package/package.h"

#include <stdbool.h>

enum {
    PACKAGE_VERSION = 1,
    PACKAGE_PREFIX = 64, /* magic, version, digest, two sizes */
    PACKAGE_DIGEST_AT = 16,
    PACKAGE_SIZES_AT = 48
};

/* Limits of the format, checked on both sides. */
enum {
    PACKAGE_MAX_HEADER = 256 << 20,
    PACKAGE_MAX_TEXT = 255, /* bytes of one string */
    PACKAGE_MAX_BLOBS = 1 << 20,
    PACKAGE_MAX_SEGMENTS = 1 << 20,
    PACKAGE_MAX_TENSORS = 4096,
    PACKAGE_MAX_NESTS = 8 << 20,
    PACKAGE_MAX_ROWS = 1 << 20,
    PACKAGE_MAX_STEPS = 1 << 20,
    PACKAGE_MAX_SAMPLES = 1 << 24, /* of all tiles together */
    PACKAGE_MAX_SYMBOLS = 1 << 16,
    PACKAGE_MAX_BATCHES = 1 << 18, /* a tile's stream stays below 2^30 bytes */
    PACKAGE_MAX_ROW_WORDS = 1 << 24
};

struct list {
    void *items;
    size_t count, capacity;
    bool unsorted;
};

struct blob {
    const uint8_t *data;
    uint64_t size;
};

struct package {
    struct arena *arena; /* strings, blobs, tensor data, step lists */
    struct package_info info;
    struct list blobs, segments, tensors, nests[2], rows, steps, samples, symbols;
    struct list tensor_blobs; /* uint32_t per tensor: blob index + 1, or 0 */
    struct list blob_table;   /* open addressing, uint32_t index + 1; builder only */
    struct ipu_error failure; /* of the first add that failed; code 0: none */
    struct hash digest;
};

/* Room for one more item of `size` bytes at the end, zeroed, or NULL. */
void *list_add(struct list *list, size_t size);
/* Room for exactly `count` items. */
bool list_reserve(struct list *list, size_t count, size_t size);

/* A quick content hash for in-memory tables, eight bytes at a step. */
uint64_t package_hash(const void *data, size_t size);

/* Sorts the lists that are out of order. */
void package_sort(struct package *package);

static inline unsigned package_element_bytes(enum package_type type)
{
    return type == PACKAGE_F16 ? 2 : 4;
}

/* Checks everything that the format promises about the lists, with `code` on failure. Sorted lists
 * are required. */
IPU_MUST_CHECK int package_check(const struct package *package, int code, struct ipu_error *error);

#endif
