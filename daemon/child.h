/* The child's end of a worker connection: used by `ipud --worker compile` and `ipud --worker
 * device`.
 *
 * Two threads: a reader that only reads frames, notes cancellation and beats once a second, and the
 * main thread that works. The reader ends the process when the daemon is gone, so that no child
 * ever outlives its daemon. Sending may be done by any thread.
 */
#ifndef IPU_DAEMON_CHILD_H
#define IPU_DAEMON_CHILD_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/engine.h"

#include <protobuf-c/protobuf-c.h>
#include <stdatomic.h>

struct child;

struct child_message {
    uint8_t type;
    uint8_t *body;
    size_t size;
    struct child_message *next;
};

/* `fd` is the socket to the daemon. NULL when memory or threads run out. */
struct child *child_create(int fd);
/* Waits for the next message other than a cancellation; free with child_message_free(). */
struct child_message *child_receive(struct child *child);
void child_message_free(struct child_message *message);
/* Unpacks the body (from our own daemon, but scanned all the same); NULL when it is malformed. */
ProtobufCMessage *child_unpack(const struct child_message *message,
                               const ProtobufCMessageDescriptor *descriptor);
/* Receives `size` announced bytes, appended to `out`. IPU_ERR_CORRUPT when the daemon lost them. */
IPU_MUST_CHECK int child_receive_bytes(struct child *child, uint64_t size, struct buffer *out,
                                       struct ipu_error *error);
void child_send(struct child *child, uint8_t type, const void *body, size_t size);
void child_send_message(struct child *child, uint8_t type, const ProtobufCMessage *message);
/* Announced bytes, in WORKER_DATA frames. */
void child_send_bytes(struct child *child, const void *data, size_t size);
void child_send_failure(struct child *child, int code, const char *text, const char *detail);
/* Set while the task should end; cleared when the next task comes in. */
const atomic_bool *child_cancel(const struct child *child);
/* A log whose records travel to the daemon; finished phases also as phase messages. */
struct log *child_log(struct child *child, unsigned level);
/* Progress, at most 20 a second. */
void child_progress(struct child *child, const char *phase, double fraction, uint64_t best_cycles,
                    uint64_t candidates);

/* A worker keeps the workload of its last task up to this size; both ends know it. */
enum { CHILD_KEEP_BYTES = 64 << 20 };

/* Takes the right to write files from this process and what it starts, as far as the kernel can. */
void child_enter_sandbox(void);

/* The two programs; they return an exit status. */
int child_compile_main(const struct engine *engine, int argc, char **argv);
int child_device_main(const struct engine *engine, int argc, char **argv);

#endif
