/* A link: one stream of frames on the loop, to a client or to a child process.
 *
 * Embedded in its owner, who sets the callbacks. States: OPEN -> CLOSING -> CLOSED; `closed` is
 * called exactly once, from the close callback of the handle, and is the last thing that happens to
 * a link. Outgoing bytes queue in memory without limit here: owners that stream ask link_queued()
 * first and go on in `drained`. Loop thread only.
 */
#ifndef IPU_DAEMON_LINK_H
#define IPU_DAEMON_LINK_H

#include "base/buffer.h"
#include "base/error.h"
#include "proto/frame.h"

#include <protobuf-c/protobuf-c.h>
#include <uv.h>

enum link_state { LINK_NEW, LINK_OPEN, LINK_CLOSING, LINK_CLOSED };
enum { LINK_HIGH = 512 << 10, LINK_KEEP = 128 << 10, LINK_MAGIC = 0x6c696e6b };

struct link {
    unsigned magic;
    enum link_state state;
    uv_pipe_t pipe;
    uv_write_t write;
    struct frame_decoder in;
    struct buffer out;               /* collects what is to be written next */
    struct buffer writing;           /* in flight */
    bool write_busy, paused, finish; /* finish: close when everything is written */
    bool feeding; /* a feed reads its next piece: one at a time, so that memory is bounded */
    bool doomed;  /* a send failed; `broken` comes from the loop */
    uint64_t partial_since_ms; /* when the frame in progress began; 0 = none */
    uint64_t sent_ms;          /* last time that something was sent */
    /* One frame came in. A nonzero result closes the link with that reason. */
    int (*frame)(struct link *link, const struct frame *frame, struct ipu_error *error);
    /* The outgoing queue has fallen below LINK_HIGH / 2. */
    void (*drained)(struct link *link);
    /* The peer closed, or the link failed (`error` tells); the owner should link_close(). */
    void (*broken)(struct link *link, const struct ipu_error *error);
    void (*closed)(struct link *link);
    void *owner;
};

/* Wraps a connected socket, which it then owns. */
IPU_MUST_CHECK int link_open(struct link *link, uv_loop_t *loop, int fd, frame_limit_fn *limit,
                             struct ipu_error *error);
/* Wraps the next connection of a listening pipe. */
IPU_MUST_CHECK int link_accept(struct link *link, uv_stream_t *server, frame_limit_fn *limit,
                               struct ipu_error *error);
void link_close(struct link *link);
/* Writes what is queued, then reports `broken` with code 0. */
void link_finish(struct link *link);
/* Queues a frame. On a link that is not open, or without memory, nothing happens (the latter breaks
 * the link). */
void link_send(struct link *link, uint8_t type, uint32_t call, const void *body, size_t size);
void link_send_message(struct link *link, uint8_t type, uint32_t call,
                       const ProtobufCMessage *message);
size_t link_queued(const struct link *link);
/* Stops and restarts reading. */
void link_pause(struct link *link);
void link_resume(struct link *link);

#endif
