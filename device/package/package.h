/* The executable format .ipuexe: what ELF is to a loader. One builder, one writer, one reader.
 *
 * A package holds, for each of the 1,472 tiles, the memory segments to load; the host tensors and
 * how their elements map to the pages that tiles read and write; the calls (batches of pages, in
 * order); what each exchange row must receive; and the profile plan. It holds no graph and no plan.
 * Tiles are LOGICAL numbers. A struct package is built or read by one thread; a finished one is
 * constant and may be shared: look at one list, or write it, before sharing, since the first look
 * after an add sorts the lists.
 *
 * File: 16-byte magic and version, SHA-256 of everything after it, sizes, a protobuf header
 * (proto/package.proto) and raw blobs. The reader checks the digest, every offset, size, address,
 * tile and index before anything is used; the writer refuses what the reader would refuse.
 */
#ifndef IPU_PACKAGE_PACKAGE_H
#define IPU_PACKAGE_PACKAGE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>

struct package;

enum package_type { PACKAGE_F32 = 1, PACKAGE_F16 = 2, PACKAGE_U32 = 3 };
enum package_role {
    PACKAGE_PARAMETER, /* contents travel in the package; sent by call 0, "initialize" */
    PACKAGE_INPUT,     /* contents travel in the package as default; sent by call 1, "run" */
    PACKAGE_OUTPUT,    /* read back by call "run" */
    PACKAGE_SAMPLES    /* cycle samples of one tile, u32; read back by call "run" */
};
enum package_call { PACKAGE_INITIALIZE, PACKAGE_RUN };
enum { PACKAGE_MAX_RANK = 8, PACKAGE_NEST_DIMS = 6, PACKAGE_PAGE_BYTES = 4096 };

struct package_tensor {
    const char *name;
    enum package_role role;
    enum package_type type;
    unsigned rank;
    uint64_t shape[PACKAGE_MAX_RANK];
    const uint8_t *data; /* parameters and inputs: shape x element size bytes; else NULL */
    uint64_t bytes;
};

/* How elements of a tensor map into a tile's stream: an affine loop nest. Element at loop indices
 * i[] has host index host_offset + sum i[k] * host_stride[k] (elements) and stream byte
 * stream_offset + sum i[k] * stream_stride[k].
 *
 * A tile's stream for one call and direction is the concatenation of its pages: byte s is at offset
 * s % 4096 of batch s / 4096. Stream bytes that no nest names are zero on the way in and ignored on
 * the way out. When several nests of an OUTPUT name the same host element the copies must be
 * bit-identical (the driver checks, a difference is a device fault). */
struct package_nest {
    uint16_t tile;
    uint16_t tensor; /* index from package_add_tensor() */
    uint8_t dims;
    uint64_t host_offset;
    uint32_t stream_offset;
    struct {
        uint32_t count;
        int64_t host_stride;   /* elements */
        int32_t stream_stride; /* bytes */
    } dim[PACKAGE_NEST_DIMS];
};

/* Profile plan. A step is static text shared by tiles; a tile's samples name steps in the order of
 * its sample words: word i is the counter before step i, and one more word ends the last step. */
enum package_step_kind {
    PACKAGE_STEP_OVERALL,
    PACKAGE_STEP_COMPUTE,
    PACKAGE_STEP_EXCHANGE,
    PACKAGE_STEP_SYNC,
    PACKAGE_STEP_COPY
};
struct package_step {
    enum package_step_kind kind;
    const char *name;   /* operation label, e.g. "repeat/up" */
    const char *kernel; /* kernel name, or "" */
    uint32_t phase;     /* exchange phase index, or 0 */
    uint32_t iteration; /* of the enclosing repeat */
    uint32_t predicted; /* predicted cycles */
};

struct package_info {
    const char *compiler; /* "0.1.0" */
    const char *workload; /* name */
    uint32_t flag_set; /* which AMP/SLIC flag numbers the code uses: 1 = ours (docs/MACHINE.md) */
    uint64_t clock_hz;
    uint32_t execution_tiles;
    uint32_t final_mark;     /* 23 */
    uint32_t entry;          /* 0x4c014 */
    uint32_t batches_in[2];  /* per call: input batches */
    uint32_t batches_out[2]; /* per call: output batches */
    uint32_t phases[2];      /* per call: host phases, facts/host_protocol.md section 8 */
    uint64_t estimated_cycles;
};

/* --- build --- All add functions copy what they are given. Return values >= 0 are indices, < 0
 * errors; package_write() reports the first error again, so a caller may check there only. */
struct package *package_create(void);
void package_destroy(struct package *package);
void package_set_info(struct package *package, const struct package_info *info);
/* A blob is bytes that any number of segments may share; equal blobs are stored once. */
int package_add_blob(struct package *package, const void *data, size_t size);
/* Loads blob bytes [offset, offset + size) at `address` of `tile`. Segments of a tile may not
 * overlap. address and size are multiples of 4. */
int package_add_segment(struct package *package, unsigned tile, uint32_t address, int blob,
                        uint32_t offset, uint32_t size);
int package_add_tensor(struct package *package, const struct package_tensor *tensor);
int package_add_nest(struct package *package, enum package_call call,
                     const struct package_nest *nest);
/* Declares that the row whose code occupies [address, address + bytes) of `tile` receives `words`
 * 32-bit words per execution. */
int package_add_row(struct package *package, unsigned tile, uint32_t address, uint32_t bytes,
                    uint32_t words);
int package_add_step(struct package *package, const struct package_step *step);
/* The samples of a tile: stream offset (call RUN, output) of its first word, and the steps in order
 * (count words + 1 are stored). */
int package_add_samples(struct package *package, unsigned tile, uint32_t stream_offset,
                        const uint32_t *steps, size_t count);
/* A symbol for explaining addresses (kernels, runtime, rows): shared by all tiles. */
int package_add_symbol(struct package *package, const char *name, uint32_t address, uint32_t size);

/* --- file --- */
IPU_MUST_CHECK int package_write(const struct package *package, struct buffer *out,
                                 struct ipu_error *error);
IPU_MUST_CHECK int package_read(const void *data, size_t size, struct package **out,
                                struct ipu_error *error);
/* The digest in the file, which identifies its bytes (valid after write or read). */
const struct hash *package_digest(const struct package *package);

/* --- look --- Pointers stay valid until the package is destroyed. */
struct package_segment {
    uint16_t tile;
    uint32_t address, size;
    const uint8_t *data;
    uint32_t blob; /* index: equal (blob, offset) mean equal bytes, which lets a simulator share
                      decoded code */
    uint32_t blob_offset;
};
struct package_row {
    uint16_t tile;
    uint32_t address, bytes, words;
};
struct package_samples {
    uint16_t tile;
    uint32_t stream_offset;
    const uint32_t *steps;
    size_t count;
};
struct package_symbol {
    const char *name;
    uint32_t address, size;
};
const struct package_info *package_get_info(const struct package *package);
/* Each list is sorted by tile (then address); *count receives its length. */
const struct package_segment *package_segments(const struct package *package, size_t *count);
const struct package_tensor *package_tensors(const struct package *package, size_t *count);
const struct package_nest *package_nests(const struct package *package, enum package_call call,
                                         size_t *count);
const struct package_row *package_rows(const struct package *package, size_t *count);
const struct package_step *package_steps(const struct package *package, size_t *count);
const struct package_samples *package_sample_lists(const struct package *package, size_t *count);
const struct package_symbol *package_symbols(const struct package *package, size_t *count);
/* Index of a tensor by name, or -1. */
int package_find_tensor(const struct package *package, const char *name);

#endif
