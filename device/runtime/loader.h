/* The secondary loader (loader.S) and what the host must do for it. Constants for the host; the
 * same numbers stand in loader.inc for assembly, and a test compares the two. Facts:
 * facts/host_protocol.md sections 3 and 4, facts/memory.md section 5.
 *
 * Contract. The host side is that of facts/host_protocol.md section 4, with these choices, which
 * the facts leave open [G]:
 * - Batch b, of LOADER_BATCHES, loads the tiles of physical row b; slot i of the descriptor area
 *   belongs to physical id 64 b + i. A slot without frames is {0, 0}. All batches are sent.
 * - All 16 exchange blocks must be enabled from before the first batch: each tile reads through the
 *   block of its own column. (A vendor's loader reads through the first eight.)
 * - A frame's offset is a multiple of LOADER_FRAME. A frame goes to loader_address(its index);
 *   frames may come in any order, each index at most once, and indices that hold nothing of the
 *   image may be left out: their memory stays what the autoloader made of it. Only frames outside
 *   every segment may be left out; a frame of zeros inside one may not.
 * - LOADER_LAST must be in the flags of the frame that stands last, and in no other.
 * - An image must hold frame 0, where it is entered, and its entry word must not be 0. There is no
 *   least size (a vendor's loader needs IPU21_IMAGE_MINIMUM).
 * - GS1 reads 0 again when the batch has been read: the buffer is the host's.
 * - After the last batch the whole buffer, or at least the descriptor area, is 0xff: then the mark
 *   starts every image at LOADER_ENTRY.
 *
 * A tile that finds something else stops on a trap, which the tile debug interface shows:
 * enum loader_trap. Frames that carry another tile's id are passed over.
 */
#ifndef IPU_RUNTIME_LOADER_H
#define IPU_RUNTIME_LOADER_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

enum {
    LOADER_BASE = 0x4c000, /* where the autoloader puts it and starts it */
    LOADER_MAX_BYTES = 4096,
    LOADER_IMAGE = 0x4c010, /* image address of frame 0 */
    LOADER_ENTRY = 0x4c014,
    LOADER_BATCHES = 23,
    LOADER_SLOTS = 64,              /* tiles of a batch */
    LOADER_DESCRIPTOR_BYTES = 4096, /* area at the start of the buffer */
    LOADER_FRAME = 1024,
    LOADER_PAYLOAD = 992,
    LOADER_FRAMES = 643, /* of one image, at most */
    LOADER_LAST = 0x08000000,
    LOADER_BUFFER_BYTES = 0x2842000, /* attach index 0 */
    LOADER_FINAL_MARK = 23
};

/* Slot of the descriptor area. 0xff in all bytes: no batch, execute. */
struct loader_descriptor {
    uint32_t offset; /* of the first frame, in bytes from the start of the buffer */
    uint32_t frames;
};

struct loader_frame {
    uint32_t index; /* payload goes to loader_address(index) */
    uint32_t tile;  /* physical id */
    uint32_t flags; /* LOADER_LAST or 0 */
    uint32_t zero;
    uint8_t payload[LOADER_PAYLOAD];
    uint8_t trailer[16]; /* 0xff */
};

/* Operand of the trap that a tile stands on. */
enum loader_trap {
    LOADER_TRAP_TORN = 2,      /* a frame does not end in 0xff: it was overwritten or misplaced */
    LOADER_TRAP_INDEX = 4,     /* a frame index is LOADER_FRAMES or more */
    LOADER_TRAP_TRUNCATED = 6, /* the last frame has no LOADER_LAST */
    LOADER_TRAP_NO_IMAGE = 8,  /* started without frame 0 */
    LOADER_TRAP_EARLY = 10,    /* an invalid descriptor where a batch was due */
    LOADER_TRAP_LATE = 12      /* a valid descriptor after the last batch */
};

static inline uint32_t loader_address(uint32_t index)
{
    return LOADER_IMAGE + index * LOADER_PAYLOAD;
}

/* The loader's bytes from LOADER_BASE on, zero padded to a multiple of 1 KiB: what goes through the
 * autoloader. `bytes` must be empty. Takes about a millisecond; any thread. */
IPU_MUST_CHECK int loader_build(struct buffer *bytes, struct ipu_error *error);

#endif
