/* module: proto */
/* Fuzzes the frame decoder: the input's first bytes choose how the rest is cut into reads; whatever
 * comes out lies within what was read, and the decoder holds no more than one frame beyond it.
 */
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static frame_limit_fn *const limits[] = {frame_request_limit, frame_reply_limit,
                                         frame_worker_limit};

static void feed(struct frame_decoder *decoder, const uint8_t *data, size_t size)
{
    while (size) {
        size_t room;
        uint8_t *at = frame_decoder_room(decoder, &room);
        if (!at)
            abort();
        size_t n = size < room ? size : room;
        memcpy(at, data, n);
        frame_decoder_filled(decoder, n);
        data += n;
        size -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct frame_decoder decoder;
    struct ipu_error error;
    struct frame frame;
    size_t step = (size_t)data[1] + 1;
    int rc = 0;
    frame_decoder_init(&decoder, limits[data[0] % 3]);
    for (size_t at = 2; at < size && rc >= 0; at += step) {
        feed(&decoder, data + at, size - at < step ? size - at : step);
        while ((rc = frame_decoder_next(&decoder, &frame, &error)) > 0) {
            const uint8_t *first = decoder.bytes.data, *last = first + decoder.bytes.size;
            if (frame.body < first || frame.body + frame.size > last)
                abort();
        }
        if (decoder.bytes.capacity > 2 * FRAME_BULK_LIMIT + (256 << 10))
            abort();
    }
    frame_decoder_free(&decoder);
    return 0;
}
