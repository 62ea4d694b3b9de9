/* The child's end of a worker connection: see child.h.
 *
 * Invariants: frames are written whole and in order under `send_mutex`; streams wait in `out` for
 * the message that ends the task, so that small ones reach the daemon in one piece; the inbox holds
 * at most INBOX_HIGH bytes (the reader waits, so that a large workload is in memory once); `cancel`
 * is cleared by the reader when it sees a task message, so that a late cancellation cannot hit the
 * next task. When the socket fails the process exits: there is nobody left to tell.
 */
#include "daemon/child.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "proto/frame.h"
#include "proto/scan.h"
#include "proto/worker.pb-c.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INBOX_HIGH = 8 << 20, PROGRESS_INTERVAL_MS = 50, OUT_KEEP = 64 << 10 };

struct child {
    int fd;
    atomic_bool cancel;
    pthread_t reader;
    pthread_mutex_t send_mutex;
    struct buffer out;     /* under send_mutex */
    pthread_mutex_t mutex; /* of the inbox */
    pthread_cond_t changed;
    struct child_message *inbox, **inbox_end;
    size_t inbox_bytes;
    struct log log;
    uint64_t progress_ns, search_start_ns, improved_ns, best_cycles;
};

/* --- sending --- */

static void write_all(int fd, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0); /* the daemon is gone */
        at += n;
        size -= (size_t)n;
    }
}

static bool may_wait(uint8_t type)
{
    return type == IPU__WORKER__MESSAGE_TYPE__WORKER_STREAM ||
           type == IPU__WORKER__MESSAGE_TYPE__WORKER_DATA;
}

void child_send(struct child *child, uint8_t type, const void *body, size_t size)
{
    uint8_t header[FRAME_HEADER];
    bool large = size > OUT_KEEP;
    frame_header(header, type, 0, (uint32_t)size);
    pthread_mutex_lock(&child->send_mutex);
    buffer_append(&child->out, header, sizeof header);
    if (!large)
        buffer_append(&child->out, body, size);
    if (child->out.failed)
        _exit(70);
    if (large || child->out.size > OUT_KEEP || !may_wait(type)) {
        write_all(child->fd, child->out.data, child->out.size);
        child->out.size = 0;
    }
    if (large)
        write_all(child->fd, body, size);
    pthread_mutex_unlock(&child->send_mutex);
}

void child_send_message(struct child *child, uint8_t type, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t small[1024];
    uint8_t *body = size <= sizeof small ? small : ipu_malloc(size);
    if (!body)
        _exit(70); /* the daemon sees a dead worker and retries */
    protobuf_c_message_pack(message, body);
    child_send(child, type, body, size);
    if (body != small)
        ipu_free(body);
}

void child_send_bytes(struct child *child, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        size_t n = size < FRAME_BULK_LIMIT ? size : FRAME_BULK_LIMIT;
        child_send(child, IPU__WORKER__MESSAGE_TYPE__WORKER_DATA, at, n);
        at += n;
        size -= n;
    }
}

void child_send_failure(struct child *child, int code, const char *text, const char *detail)
{
    Ipu__Worker__Failure failure = IPU__WORKER__FAILURE__INIT;
    failure.code = code;
    failure.text = (char *)text;
    failure.detail = (char *)(detail ? detail : "");
    child_send_message(child, IPU__WORKER__MESSAGE_TYPE__WORKER_FAILED, &failure.base);
}

/* --- receiving --- */

void child_message_free(struct child_message *message)
{
    if (!message)
        return;
    ipu_free(message->body);
    ipu_free(message);
}

static bool is_task(uint8_t type)
{
    return type == IPU__WORKER__MESSAGE_TYPE__WORKER_COMPILE ||
           type == IPU__WORKER__MESSAGE_TYPE__WORKER_CHECK ||
           type == IPU__WORKER__MESSAGE_TYPE__WORKER_RUN ||
           type == IPU__WORKER__MESSAGE_TYPE__WORKER_SELFTEST;
}

static void enqueue(struct child *child, const struct frame *frame)
{
    struct child_message *message = ipu_calloc(1, sizeof *message);
    if (!message || (frame->size && !(message->body = ipu_malloc(frame->size))))
        _exit(70);
    message->type = frame->type;
    message->size = frame->size;
    if (frame->size)
        memcpy(message->body, frame->body, frame->size);
    pthread_mutex_lock(&child->mutex);
    while (child->inbox_bytes > INBOX_HIGH)
        pthread_cond_wait(&child->changed, &child->mutex);
    *child->inbox_end = message;
    child->inbox_end = &message->next;
    child->inbox_bytes += message->size;
    pthread_cond_broadcast(&child->changed);
    pthread_mutex_unlock(&child->mutex);
}

static void accept_frame(struct child *child, const struct frame *frame)
{
    if (frame->type == IPU__WORKER__MESSAGE_TYPE__WORKER_CANCEL) {
        atomic_store(&child->cancel, true);
        return;
    }
    if (is_task(frame->type))
        atomic_store(&child->cancel, false);
    enqueue(child, frame);
}

static void read_some(struct child *child, struct frame_decoder *decoder)
{
    size_t room;
    uint8_t *at = frame_decoder_room(decoder, &room);
    if (!at)
        _exit(70);
    ssize_t n = recv(child->fd, at, room, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        _exit(0);
    frame_decoder_filled(decoder, (size_t)n);
    struct frame frame;
    struct ipu_error error;
    int rc;
    while ((rc = frame_decoder_next(decoder, &frame, &error)) > 0)
        accept_frame(child, &frame);
    if (rc < 0)
        _exit(71);
}

static void *reader_thread(void *argument)
{
    struct child *child = argument;
    struct frame_decoder decoder;
    frame_decoder_init(&decoder, frame_worker_limit);
    uint64_t beat = clock_ns();
    for (;;) {
        struct pollfd pfd = {child->fd, POLLIN, 0};
        int n = poll(&pfd, 1, 500);
        if (n > 0)
            read_some(child, &decoder);
        if (clock_ns() - beat > 1000000000u) {
            beat = clock_ns();
            child_send(child, IPU__WORKER__MESSAGE_TYPE__WORKER_HEARTBEAT, NULL, 0);
        }
    }
    return NULL;
}

struct child *child_create(int fd)
{
    struct child *child = ipu_calloc(1, sizeof *child);
    if (!child)
        return NULL;
    child->fd = fd;
    child->inbox_end = &child->inbox;
    pthread_mutex_init(&child->send_mutex, NULL);
    pthread_mutex_init(&child->mutex, NULL);
    pthread_cond_init(&child->changed, NULL);
    if (pthread_create(&child->reader, NULL, reader_thread, child)) {
        ipu_free(child);
        return NULL;
    }
    return child;
}

struct child_message *child_receive(struct child *child)
{
    pthread_mutex_lock(&child->mutex);
    while (!child->inbox)
        pthread_cond_wait(&child->changed, &child->mutex);
    struct child_message *message = child->inbox;
    child->inbox = message->next;
    if (!child->inbox)
        child->inbox_end = &child->inbox;
    child->inbox_bytes -= message->size;
    pthread_cond_broadcast(&child->changed);
    pthread_mutex_unlock(&child->mutex);
    message->next = NULL;
    return message;
}

static const struct scan_limits message_limits = {8, 1 << 16, 2 * FRAME_BULK_LIMIT, 8 << 20};

ProtobufCMessage *child_unpack(const struct child_message *message,
                               const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *out;
    struct ipu_error ignored;
    return scan_unpack(descriptor, message->body, message->size, &message_limits, &out, &ignored)
               ? NULL
               : out;
}

static int lost(const struct child_message *message, struct ipu_error *error)
{
    Ipu__Worker__Failure *failure =
        (Ipu__Worker__Failure *)child_unpack(message, &ipu__worker__failure__descriptor);
    int rc = ipu_error_set(error, IPU_ERR_CORRUPT, "%s",
                           failure ? failure->text : "the daemon could not deliver the bytes");
    scan_free((ProtobufCMessage *)failure);
    return rc;
}

int child_receive_bytes(struct child *child, uint64_t size, struct buffer *out,
                        struct ipu_error *error)
{
    uint64_t got = 0;
    int rc = 0;
    while (rc == 0 && got < size) {
        struct child_message *message = child_receive(child);
        if (message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_DATA) {
            buffer_append(out, message->body, message->size);
            got += message->size;
        } else {
            rc = lost(message, error);
        }
        child_message_free(message);
    }
    if (rc == 0 && (out->failed || got != size))
        rc = ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory for %llu bytes",
                           (unsigned long long)size);
    return rc;
}

const atomic_bool *child_cancel(const struct child *child)
{
    return &child->cancel;
}

/* --- log and progress --- */

static void send_phase(struct child *child, const struct log_record *record)
{
    Ipu__Worker__Phase phase = IPU__WORKER__PHASE__INIT;
    const char *elapsed = strstr(record->fields, "elapsed_ms=");
    unsigned long long ms = elapsed ? strtoull(elapsed + strlen("elapsed_ms="), NULL, 10) : 0;
    phase.phase = (char *)record->phase;
    phase.elapsed_ms = (double)ms;
    phase.success = strstr(record->fields, "success=true") != NULL;
    child_send_message(child, IPU__WORKER__MESSAGE_TYPE__WORKER_PHASE, &phase.base);
}

static void log_sink(void *context, const struct log_record *record)
{
    struct child *child = context;
    Ipu__Worker__Log log = IPU__WORKER__LOG__INIT;
    log.time_us = record->time_us;
    log.level = (uint32_t)record->level;
    log.phase = (char *)record->phase;
    log.message = (char *)record->message;
    log.fields = (char *)record->fields;
    child_send_message(child, IPU__WORKER__MESSAGE_TYPE__WORKER_LOG, &log.base);
    if (strcmp(record->message, "package build phase finished") == 0)
        send_phase(child, record);
}

struct log *child_log(struct child *child, unsigned level)
{
    child->log = (struct log){log_sink, child, (enum log_level)level};
    return &child->log;
}

void child_progress(struct child *child, const char *phase, double fraction, uint64_t best_cycles,
                    uint64_t candidates)
{
    uint64_t now = clock_ns();
    if (candidates <= 1 || child->search_start_ns == 0)
        child->search_start_ns = child->improved_ns = now;
    if (best_cycles != child->best_cycles) {
        child->best_cycles = best_cycles;
        child->improved_ns = now;
    }
    if (now - child->progress_ns < PROGRESS_INTERVAL_MS * 1000000u)
        return;
    child->progress_ns = now;
    double seconds = (double)(now - child->search_start_ns) / 1e9;
    Ipu__Worker__Progress progress = IPU__WORKER__PROGRESS__INIT;
    progress.phase = (char *)(phase ? phase : "");
    progress.fraction = fraction;
    progress.best_cycles = best_cycles;
    progress.candidates = candidates;
    progress.candidates_per_second = seconds > 0 ? (double)candidates / seconds : 0;
    progress.since_improvement_ms = (double)(now - child->improved_ns) / 1e6;
    child_send_message(child, IPU__WORKER__MESSAGE_TYPE__WORKER_PROGRESS, &progress.base);
}
