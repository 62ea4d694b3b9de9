/* Private to device/driver: host tensors to page contents and back, by the loop nests of a package.
 *
 * Everything that indexes memory here has been bounded by the package reader
 * (device/package/check.c).
 */
#ifndef IPU_DRIVER_STREAM_H
#define IPU_DRIVER_STREAM_H

#include "base/error.h"
#include "device/ipu21/topology.h"
#include "device/package/package.h"

#include <stdbool.h>

/* Which batches each loop nest of a call touches, and how long each tile's input stream is. */
struct stream_span {
    uint32_t first, last; /* batches */
};
struct stream_plan {
    struct stream_span *spans;    /* by nest */
    uint32_t length[IPU21_TILES]; /* bytes that input nests reach */
};

/* Contents of each tensor that goes to the device: the package's own or the caller's. */
struct stream_contents {
    size_t count;
    const uint8_t **data;        /* by tensor; NULL for outputs */
    uint8_t **replacement;       /* owned copies, or NULL */
    struct stream_plan plans[2]; /* by call */
};
IPU_MUST_CHECK int stream_contents_begin(struct stream_contents *contents,
                                         const struct package *package, struct ipu_error *error);
void stream_contents_end(struct stream_contents *contents);
/* Replaces (copies) or restores (NULL) an input; sizes have been checked. */
IPU_MUST_CHECK int stream_contents_set(struct stream_contents *contents,
                                       const struct package *package, size_t tensor,
                                       const void *data, struct ipu_error *error);

/* Fills the pages of all tiles that input batch `batch` of `call` concerns. `pages` holds 4,096
 * bytes for each tile, by logical number. */
void stream_fill(const struct package *package, enum package_call call,
                 const struct stream_contents *contents, uint32_t batch, uint8_t *pages);

/* Output streams of call `run` for the tiles that have one. */
struct stream_store {
    uint8_t *data;
    size_t offset[IPU21_TILES];   /* into data */
    uint32_t length[IPU21_TILES]; /* bytes, 0: the tile returns nothing */
};
IPU_MUST_CHECK int stream_store_begin(struct stream_store *store, const struct package *package,
                                      struct ipu_error *error);
void stream_store_end(struct stream_store *store);
/* Overwrites the pages that output batch `batch` will fill with a pattern, so that bytes a tile
 * fails to write are not taken for its output. The device must not be using the pages. */
void stream_poison(const struct stream_store *store, uint32_t batch, uint8_t *pages);
void stream_take(struct stream_store *store, uint32_t batch, const uint8_t *pages);

/* Output tensors. Copies of an element from several tiles must be the same bits. */
struct stream_outputs {
    size_t count;
    uint8_t **data; /* by tensor; NULL when it is no output */
};
IPU_MUST_CHECK int stream_gather(struct stream_outputs *outputs, const struct package *package,
                                 const struct stream_store *store, struct ipu_error *error);
void stream_outputs_end(struct stream_outputs *outputs);

#endif
