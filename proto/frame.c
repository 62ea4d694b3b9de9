/* Frame headers and the decoder: see frame.h.
 *
 * Invariants: bytes[start, size) is what has been received and not given out; no buffer grows for a
 * frame whose header has not been accepted. It fails on an unknown type, a length past the type's
 * limit, or nonzero reserved bytes, and then the connection cannot be trusted any more.
 */
#include "proto/frame.h"

#include "base/alloc.h"
#include "proto/rpc.pb-c.h"
#include "proto/worker.pb-c.h"

#include <string.h>

enum { READ_ROOM = 64 << 10, KEEP_ROOM = 256 << 10 };

int64_t frame_request_limit(uint8_t type)
{
    if (type < IPU__RPC__FRAME_TYPE__FRAME_HELLO || type > IPU__RPC__FRAME_TYPE__FRAME_SELFTEST)
        return -1;
    return type == IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK ? FRAME_BULK_LIMIT
                                                            : FRAME_CONTROL_LIMIT;
}

int64_t frame_reply_limit(uint8_t type)
{
    if (type < IPU__RPC__FRAME_TYPE__REPLY_ERROR || type > IPU__RPC__FRAME_TYPE__REPLY_SELFTEST)
        return -1;
    return FRAME_BULK_LIMIT;
}

int64_t frame_worker_limit(uint8_t type)
{
    if (type < IPU__WORKER__MESSAGE_TYPE__WORKER_COMPILE ||
        type > IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST_END)
        return -1;
    return 2 * FRAME_BULK_LIMIT; /* a kernel object travels inside its message */
}

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void frame_header(uint8_t header[FRAME_HEADER], uint8_t type, uint32_t call, uint32_t size)
{
    memset(header, 0, FRAME_HEADER);
    put_u32(header, size);
    header[4] = type;
    put_u32(header + 8, call);
}

void frame_decoder_init(struct frame_decoder *decoder, frame_limit_fn *limit)
{
    *decoder = (struct frame_decoder){.limit = limit, .wanted = FRAME_HEADER};
}

void frame_decoder_free(struct frame_decoder *decoder)
{
    buffer_free(&decoder->bytes);
}

uint8_t *frame_decoder_room(struct frame_decoder *decoder, size_t *size)
{
    struct buffer *bytes = &decoder->bytes;
    size_t held = bytes->size - decoder->start;
    if (decoder->start) {
        memmove(bytes->data, bytes->data + decoder->start, held);
        bytes->size = held;
        decoder->start = 0;
    }
    size_t need = decoder->wanted > held + READ_ROOM ? decoder->wanted : held + READ_ROOM;
    if (bytes->capacity < need) {
        uint8_t *data = ipu_realloc(bytes->data, need);
        if (!data)
            return NULL;
        bytes->data = data;
        bytes->capacity = need;
    }
    *size = bytes->capacity - bytes->size;
    return bytes->data + bytes->size;
}

void frame_decoder_filled(struct frame_decoder *decoder, size_t size)
{
    decoder->bytes.size += size;
}

/* Gives back the memory of a large frame once nothing is held: idle connections are many. */
static void shrink(struct frame_decoder *decoder)
{
    decoder->bytes.size = decoder->start = 0;
    if (decoder->bytes.capacity > KEEP_ROOM)
        buffer_free(&decoder->bytes);
}

int frame_decoder_next(struct frame_decoder *decoder, struct frame *frame, struct ipu_error *error)
{
    size_t held = decoder->bytes.size - decoder->start;
    decoder->wanted = FRAME_HEADER;
    if (held < FRAME_HEADER) {
        if (held == 0)
            shrink(decoder);
        return 0;
    }
    const uint8_t *header = decoder->bytes.data + decoder->start;
    uint32_t size = get_u32(header);
    int64_t limit = decoder->limit(header[4]);
    if (limit < 0)
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "protocol: unexpected frame type %u",
                             header[4]);
    if (size > limit)
        return ipu_error_set(error, IPU_ERR_PROTOCOL,
                             "protocol: a frame of type %u announces %u bytes, the limit is %lld",
                             header[4], size, (long long)limit);
    if (header[5] || header[6] || header[7])
        return ipu_error_set(error, IPU_ERR_PROTOCOL,
                             "protocol: the reserved bytes of a frame header are not zero");
    decoder->wanted = FRAME_HEADER + (size_t)size;
    if (held < decoder->wanted)
        return 0;
    *frame = (struct frame){header[4], get_u32(header + 8), header + FRAME_HEADER, size};
    decoder->start += decoder->wanted;
    decoder->wanted = FRAME_HEADER;
    return 1;
}

bool frame_decoder_partial(const struct frame_decoder *decoder)
{
    return decoder->bytes.size > decoder->start;
}
