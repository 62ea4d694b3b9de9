/* Frames on a byte stream: the 12-byte header of proto/rpc.proto, and a decoder that is fed bytes
 * as they come.
 *
 * The decoder holds at most one frame beyond what has been read, and never allocates for a length
 * before that length has passed the limit of its type. Not thread-safe; one per connection.
 */
#ifndef IPU_PROTO_FRAME_H
#define IPU_PROTO_FRAME_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER = 12,
    FRAME_CONTROL_LIMIT = 64 << 10, /* requests */
    FRAME_BULK_LIMIT = 1 << 20      /* chunks and replies */
};

struct frame {
    uint8_t type;
    uint32_t call;
    const uint8_t *body; /* valid until the next call on the decoder */
    uint32_t size;
};

/* Largest body of a frame type that this reader expects; negative = such a type is not expected. */
typedef int64_t frame_limit_fn(uint8_t type);
/* Limits for frames that a client sends, that a daemon sends to clients, and between daemon and
 * workers. */
int64_t frame_request_limit(uint8_t type);
int64_t frame_reply_limit(uint8_t type);
int64_t frame_worker_limit(uint8_t type);

void frame_header(uint8_t header[FRAME_HEADER], uint8_t type, uint32_t call, uint32_t size);

struct frame_decoder {
    struct buffer bytes;
    size_t start;  /* of what has not been given out */
    size_t wanted; /* bytes of the frame in progress, header included, as far as known */
    frame_limit_fn *limit;
};

void frame_decoder_init(struct frame_decoder *decoder, frame_limit_fn *limit);
void frame_decoder_free(struct frame_decoder *decoder);
/* Room for reading: a pointer and its size, at least 1; NULL when memory runs out. */
uint8_t *frame_decoder_room(struct frame_decoder *decoder, size_t *size);
/* Tells that `size` bytes were written to the room. */
void frame_decoder_filled(struct frame_decoder *decoder, size_t size);
/* Takes the next whole frame: 1, 0 when more bytes are needed, IPU_ERR_PROTOCOL with a sentence
 * when the stream is broken (it stays so). */
IPU_MUST_CHECK int frame_decoder_next(struct frame_decoder *decoder, struct frame *frame,
                                      struct ipu_error *error);
/* Whether a frame has begun but not ended. */
bool frame_decoder_partial(const struct frame_decoder *decoder);

#endif
