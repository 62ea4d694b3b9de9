/* Links: see link.h.
 *
 * Writing: frames collect in `out`; one uv_write at a time sends the whole of `writing`, then the
 * two change places. Invariants: callbacks are only called in LINK_OPEN, except `closed`; after
 * link_close() no callback but `closed` comes. It fails when the peer goes away, when it breaks the
 * protocol, or when memory runs out; each is reported once through `broken`.
 */
#include "daemon/link.h"

#include <string.h>
#include <sys/socket.h>

static void report(struct link *link, const struct ipu_error *error)
{
    if (link->state == LINK_OPEN)
        link->broken(link, error);
}

static void fail(struct link *link, int code, const char *text)
{
    struct ipu_error error;
    ipu_error_set(&error, code, "%s", text);
    report(link, &error);
}

static void on_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    link->state = LINK_CLOSED;
    frame_decoder_free(&link->in);
    buffer_free(&link->out);
    buffer_free(&link->writing);
    link->closed(link);
}

void link_close(struct link *link)
{
    if (link->state != LINK_OPEN && link->state != LINK_NEW)
        return;
    link->state = LINK_CLOSING;
    uv_close((uv_handle_t *)&link->pipe, on_closed);
}

/* --- reading --- */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct link *link = handle->data;
    size_t size = 0;
    (void)suggested;
    buf->base = (char *)frame_decoder_room(&link->in, &size);
    buf->len = buf->base ? size : 0;
}

/* Hands out whole frames until none is left, the link is paused or gone. */
static void deliver(struct link *link)
{
    struct frame frame;
    struct ipu_error error;
    /* The clock of a half frame runs from its first byte, however slowly the others trickle in. */
    while (link->state == LINK_OPEN && !link->paused && !link->finish) {
        int rc = frame_decoder_next(&link->in, &frame, &error);
        if (rc == 0)
            break;
        link->partial_since_ms = 0;
        if (rc > 0)
            rc = link->frame(link, &frame, &error);
        if (rc < 0) {
            report(link, &error);
            return;
        }
    }
    if (!frame_decoder_partial(&link->in) || link->paused)
        link->partial_since_ms = 0;
    else if (link->partial_since_ms == 0)
        link->partial_since_ms = uv_now(link->pipe.loop);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct link *link = stream->data;
    (void)buf;
    if (count == UV_EOF) {
        fail(link, IPU_OK, "the peer closed the connection");
        return;
    }
    if (count < 0) {
        fail(link, count == UV_ENOBUFS ? IPU_ERR_NO_MEMORY : IPU_ERR_IO, uv_strerror((int)count));
        return;
    }
    frame_decoder_filled(&link->in, (size_t)count);
    deliver(link);
}

void link_pause(struct link *link)
{
    if (link->state != LINK_OPEN || link->paused)
        return;
    link->paused = true;
    uv_read_stop((uv_stream_t *)&link->pipe);
}

void link_resume(struct link *link)
{
    if (link->state != LINK_OPEN || !link->paused)
        return;
    link->paused = false;
    deliver(link);
    if (link->state == LINK_OPEN && !link->paused)
        uv_read_start((uv_stream_t *)&link->pipe, on_room, on_read);
}

/* --- writing --- */

/* A send failed. Its caller may be anywhere in the owner's code, so the news comes through the
 * reading side, from the loop. */
static void doom(struct link *link)
{
    int fd;
    link->doomed = true;
    if (uv_fileno((uv_handle_t *)&link->pipe, &fd) == 0)
        shutdown(fd, SHUT_RDWR);
    if (link->paused) {
        link->paused = false;
        uv_read_start((uv_stream_t *)&link->pipe, on_room, on_read);
    }
}

static void flush(struct link *link);

static void on_written(uv_write_t *request, int status)
{
    struct link *link = request->data;
    link->write_busy = false;
    link->writing.size = 0;
    if (link->writing.capacity > LINK_KEEP)
        buffer_free(&link->writing); /* idle connections are many */
    if (link->state != LINK_OPEN)
        return;
    if (status < 0) {
        fail(link, IPU_ERR_IO, uv_strerror(status));
        return;
    }
    flush(link);
    if (link->state == LINK_OPEN && link->finish && !link->write_busy)
        fail(link, IPU_OK, "finished");
    else if (link->state == LINK_OPEN && link_queued(link) < LINK_HIGH / 2 && link->drained)
        link->drained(link);
}

static void flush(struct link *link)
{
    if (link->write_busy || link->out.size == 0)
        return;
    struct buffer swap = link->writing;
    link->writing = link->out;
    link->out = swap;
    uv_buf_t buf = uv_buf_init((char *)link->writing.data, (unsigned)link->writing.size);
    link->write.data = link;
    link->write_busy = true;
    link->sent_ms = uv_now(link->pipe.loop);
    int rc = uv_write(&link->write, (uv_stream_t *)&link->pipe, &buf, 1, on_written);
    if (rc < 0) {
        link->write_busy = false;
        doom(link);
    }
}

/* A frame is in `out` now. */
static void queued(struct link *link)
{
    if (link->out.failed)
        doom(link);
    else
        flush(link);
}

void link_send(struct link *link, uint8_t type, uint32_t call, const void *body, size_t size)
{
    uint8_t header[FRAME_HEADER];
    if (link->state != LINK_OPEN || link->doomed || link->finish)
        return;
    frame_header(header, type, call, (uint32_t)size);
    buffer_append(&link->out, header, sizeof header);
    buffer_append(&link->out, body, size);
    queued(link);
}

void link_send_message(struct link *link, uint8_t type, uint32_t call,
                       const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t header[FRAME_HEADER];
    if (link->state != LINK_OPEN || link->doomed || link->finish)
        return;
    frame_header(header, type, call, (uint32_t)size);
    buffer_append(&link->out, header, sizeof header);
    buffer_append_zero(&link->out, size);
    if (!link->out.failed)
        protobuf_c_message_pack(message, link->out.data + link->out.size - size);
    queued(link);
}

size_t link_queued(const struct link *link)
{
    return link->out.size + link->writing.size;
}

void link_finish(struct link *link)
{
    if (link->state != LINK_OPEN || link->finish)
        return;
    link->finish = true;
    if (!link->write_busy)
        doom(link);
}

/* --- opening --- */

static int start(struct link *link, frame_limit_fn *limit, struct ipu_error *error)
{
    frame_decoder_init(&link->in, limit);
    link->state = LINK_OPEN;
    link->sent_ms = uv_now(link->pipe.loop);
    int rc = uv_read_start((uv_stream_t *)&link->pipe, on_room, on_read);
    return rc ? ipu_error_set(error, IPU_ERR_IO, "cannot read: %s", uv_strerror(rc)) : 0;
}

static int init(struct link *link, uv_loop_t *loop, struct ipu_error *error)
{
    link->magic = LINK_MAGIC;
    link->state = LINK_NEW;
    int rc = uv_pipe_init(loop, &link->pipe, 0);
    link->pipe.data = link;
    return rc ? ipu_error_set(error, IPU_ERR_IO, "cannot open: %s", uv_strerror(rc)) : 0;
}

int link_open(struct link *link, uv_loop_t *loop, int fd, frame_limit_fn *limit,
              struct ipu_error *error)
{
    int rc = init(link, loop, error);
    if (rc)
        return rc;
    rc = uv_pipe_open(&link->pipe, fd);
    if (rc)
        return ipu_error_set(error, IPU_ERR_IO, "cannot open: %s", uv_strerror(rc));
    return start(link, limit, error);
}

int link_accept(struct link *link, uv_stream_t *server, frame_limit_fn *limit,
                struct ipu_error *error)
{
    int rc = init(link, server->loop, error);
    if (rc)
        return rc;
    rc = uv_accept(server, (uv_stream_t *)&link->pipe);
    if (rc)
        return ipu_error_set(error, IPU_ERR_IO, "cannot accept: %s", uv_strerror(rc));
    return start(link, limit, error);
}
