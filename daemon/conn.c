/* Client connections: see conn.h.
 *
 * Invariants: nothing is done for a client before its hello; call numbers of open calls are
 * distinct; a violation of the protocol is answered with one sentence (call 0) and the connection
 * closes; when a connection goes, its watches, fetches and uploads go at once, and attached jobs
 * lose a holder. It fails towards the client only: no input ends anything but its own connection.
 */
#include "daemon/conn.h"

#include "base/alloc.h"
#include "proto/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct request_row {
    uint8_t type;
    const ProtobufCMessageDescriptor *descriptor; /* NULL = empty body */
    call_handler *handler;
};
#define REQUEST(name, message, handler)                                                            \
    {                                                                                              \
        IPU__RPC__FRAME_TYPE__FRAME_##name, &ipu__rpc__##message##__descriptor, handler            \
    }
#define EMPTY(name, handler)                                                                       \
    {                                                                                              \
        IPU__RPC__FRAME_TYPE__FRAME_##name, NULL, handler                                          \
    }
static const struct request_row requests[] = {
    EMPTY(INFO, call_info),
    REQUEST(SUBMIT_BEGIN, submit_begin, call_submit_begin),
    REQUEST(WATCH, watch, call_watch),
    REQUEST(STATUS, job_request, call_status),
    REQUEST(LIST, list_request, call_list),
    REQUEST(CANCEL, job_request, call_cancel),
    REQUEST(OUTPUTS, job_request, call_outputs),
    REQUEST(FETCH, fetch, call_fetch),
    EMPTY(CACHE_STATS, call_cache_stats),
    REQUEST(CACHE_LIST, cache_list_request, call_cache_list),
    EMPTY(CACHE_VERIFY, call_cache_verify),
    REQUEST(CACHE_GC, cache_gc, call_cache_gc),
    REQUEST(CACHE_EXPLAIN, job_request, call_cache_explain),
    REQUEST(SEARCH_LIST, search_list_request, call_search_list),
    REQUEST(SEARCH_SHOW, search_request, call_search_show),
    REQUEST(SEARCH_DROP, search_request, call_search_drop),
    EMPTY(SELFTEST, call_selftest),
};

/* --- calls --- */

static void free_call(struct call *call)
{
    buffer_free(&call->rows);
    ipu_free(call);
}

static int run_close_reader(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    store_reader_close(store, call->reader);
    call->reader = NULL;
    return 0;
}

static void on_reader_closed(struct storeq_op *op)
{
    free_call((struct call *)op);
}

/* Lets go of everything that a call holds; frees it unless the store has it. */
static void release_call(struct call *call)
{
    if (call->testing)
        owner_test_drop(call->daemon->owner, &call->test);
    call->testing = false;
    watch_drop(call->watch);
    feed_drop(call->feed);
    intake_drop(call->intake);
    call->watch = NULL;
    call->feed = NULL;
    call->intake = NULL;
    call->conn = NULL;
    if (call->in_store)
        return;
    if (!call->reader) {
        free_call(call);
        return;
    }
    call->op.run = run_close_reader;
    call->op.done = on_reader_closed;
    storeq_push(call->daemon->store, &call->op);
}

void call_end_orphan(struct call *call)
{
    release_call(call);
}

void call_end(struct call *call)
{
    struct conn *conn = call->conn;
    for (struct call **at = &conn->calls; *at; at = &(*at)->next)
        if (*at == call) {
            *at = call->next;
            conn->call_count--;
            break;
        }
    release_call(call);
}

void call_send(struct call *call, uint8_t type, const ProtobufCMessage *message)
{
    if (message)
        link_send_message(&call->conn->link, type, call->number, message);
    else
        link_send(&call->conn->link, type, call->number, NULL, 0);
}

void call_reply(struct call *call, uint8_t type, const ProtobufCMessage *message)
{
    call_send(call, type, message);
    call_end(call);
}

static void send_error(struct conn *conn, uint32_t number, int code, const char *text, uint64_t job)
{
    Ipu__Rpc__Error error = IPU__RPC__ERROR__INIT;
    error.code = code;
    error.text = (char *)text;
    error.job = job;
    link_send_message(&conn->link, IPU__RPC__FRAME_TYPE__REPLY_ERROR, number, &error.base);
}

void call_fail(struct call *call, int code, const char *text)
{
    send_error(call->conn, call->number, code, text, call->job);
    call_end(call);
}

bool call_may(const struct call *call, uint32_t uid)
{
    return call->uid == uid || call->uid == 0 || call->uid == geteuid();
}

int call_load_job(struct store *store, struct call *call)
{
    int rc = 0;
    if (call->job == 0)
        rc = store_job_latest(store, call->uid, &call->job, &call->op.error);
    if (rc == 0)
        rc = store_job_load(store, call->job, &call->row, &call->op.error);
    return rc;
}

static void on_store(struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    call->in_store = false;
    if (!call->conn) {
        release_call(call);
        return;
    }
    if (call->stopped) {
        call_fail(call, IPU_ERR_CANCELLED, "stopped");
        return;
    }
    if (op->rc) {
        struct ipu_error error = op->error;
        call_fail(call, op->rc, error.text);
        return;
    }
    call->after(call);
}

void call_store(struct call *call, int (*run)(struct store *store, struct storeq_op *op),
                void (*done)(struct call *call))
{
    call->in_store = true;
    call->after = done;
    call->op.run = run;
    call->op.done = on_store;
    storeq_push(call->daemon->store, &call->op);
}

/* --- requests --- */

static struct call *find_call(struct conn *conn, uint32_t number)
{
    for (struct call *call = conn->calls; call; call = call->next)
        if (call->number == number)
            return call;
    return NULL;
}

static struct call *new_call(struct conn *conn, const struct frame *frame, struct ipu_error *error)
{
    if (conn->call_count >= CONN_CALLS) {
        ipu_error_set(error, IPU_ERR_LIMIT, "a connection may have %d calls open", CONN_CALLS);
        return NULL;
    }
    struct call *call = ipu_calloc(1, sizeof *call);
    if (!call) {
        ipu_error_set(error, IPU_ERR_NO_MEMORY, "ipud is out of memory");
        return NULL;
    }
    call->conn = conn;
    call->daemon = conn->daemon;
    call->number = frame->call;
    call->type = frame->type;
    call->uid = conn->uid;
    call->used_ms = uv_now(conn->daemon->loop);
    call->next = conn->calls;
    conn->calls = call;
    conn->call_count++;
    return call;
}

static const struct request_row *find_request(uint8_t type)
{
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (requests[i].type == type)
            return &requests[i];
    return NULL;
}

/* A new request: one call, one handler. Its errors are answered; they do not end the connection. */
static int begin_request(struct conn *conn, const struct frame *frame, struct ipu_error *error)
{
    const struct request_row *row = find_request(frame->type);
    ProtobufCMessage *message = NULL;
    struct ipu_error problem = {0};
    if (!row)
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "protocol: frame type %u is out of order",
                             frame->type);
    int rc = 0;
    struct call *call = NULL;
    if (row->descriptor)
        rc = scan_unpack(row->descriptor, frame->body, frame->size, &scan_control_limits, &message,
                         &problem);
    if (rc == 0 && !(call = new_call(conn, frame, &problem)))
        rc = problem.code;
    if (rc == 0)
        rc = row->handler(call, message, &problem);
    if (rc && call)
        call_fail(call, rc, problem.text);
    else if (rc)
        send_error(conn, frame->call, rc, problem.text, 0);
    scan_free(message);
    return 0;
}

/* FRAME_STOP: ends the watch, fetch, upload or other long call of that number. */
static void stop_call(struct conn *conn, const struct frame *frame)
{
    struct call *call = find_call(conn, frame->call);
    if (!call)
        return; /* its end is already on the way */
    if (call->in_store)
        call->stopped = true;
    else
        call_fail(call, IPU_ERR_CANCELLED, "stopped");
}

static int continue_upload(struct call *call, const struct frame *frame, struct ipu_error *error)
{
    ProtobufCMessage *message = NULL;
    call->used_ms = uv_now(call->daemon->loop);
    struct ipu_error problem = {0};
    int rc;
    if (frame->type == IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK) {
        rc = call_submit_chunk(call, frame, &problem);
    } else if (frame->type == IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_END) {
        rc = scan_unpack(&ipu__rpc__submit_end__descriptor, frame->body, frame->size,
                         &scan_control_limits, &message, &problem);
        if (rc == 0)
            rc = call_submit_end(call, message, &problem);
    } else {
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "protocol: call number %u is in use",
                             call->number);
    }
    if (rc)
        call_fail(call, rc, problem.text);
    scan_free(message);
    return 0;
}

static int on_hello(struct conn *conn, const struct frame *frame, struct ipu_error *error)
{
    if (frame->type != IPU__RPC__FRAME_TYPE__FRAME_HELLO)
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "protocol: the first frame must be a hello");
    ProtobufCMessage *message;
    int rc = scan_unpack(&ipu__rpc__hello__descriptor, frame->body, frame->size,
                         &scan_control_limits, &message, error);
    if (rc)
        return rc;
    const Ipu__Rpc__Hello *hello = (const Ipu__Rpc__Hello *)message;
    uint32_t protocol = hello->protocol;
    snprintf(conn->client, sizeof conn->client, "%s", hello->client);
    scan_free(message);
    if (protocol != 1)
        return ipu_error_set(error, IPU_ERR_VERSION,
                             "this ipud (" DAEMON_VERSION ") speaks protocol 1, the client %u; "
                             "install ipud and ipuctl of the same version",
                             protocol);
    Ipu__Rpc__HelloReply reply = IPU__RPC__HELLO_REPLY__INIT;
    reply.protocol = 1;
    reply.version = (char *)DAEMON_VERSION;
    reply.pid = (uint32_t)getpid();
    reply.uid = conn->uid;
    conn->state = CONN_OPEN;
    link_send_message(&conn->link, IPU__RPC__FRAME_TYPE__REPLY_HELLO, frame->call, &reply.base);
    return 0;
}

static int on_frame(struct link *link, const struct frame *frame, struct ipu_error *error)
{
    struct conn *conn = (struct conn *)link;
    if (conn->state == CONN_FINISHING)
        return 0;
    if (frame->call == 0)
        return ipu_error_set(error, IPU_ERR_PROTOCOL, "protocol: a request needs a call number");
    if (conn->state == CONN_HELLO)
        return on_hello(conn, frame, error);
    if (frame->type == IPU__RPC__FRAME_TYPE__FRAME_STOP) {
        stop_call(conn, frame);
        return 0;
    }
    if (frame->type == IPU__RPC__FRAME_TYPE__FRAME_PING) {
        link_send(link, IPU__RPC__FRAME_TYPE__REPLY_OK, frame->call, NULL, 0);
        return 0;
    }
    struct call *call = find_call(conn, frame->call);
    if (call)
        return continue_upload(call, frame, error);
    if (frame->type == IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK ||
        frame->type == IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_END)
        return 0; /* the rest of an upload that was refused: its sender has not heard of it yet */
    return begin_request(conn, frame, error);
}

/* --- life --- */

static void release_all(struct conn *conn)
{
    while (conn->calls) {
        struct call *call = conn->calls;
        conn->calls = call->next;
        release_call(call);
    }
    conn->call_count = 0;
    for (size_t i = 0; i < conn->held_count; i++) {
        jobs_release(conn->held[i]);
        job_unref(conn->held[i]);
    }
    conn->held_count = 0;
}

void conn_close(struct conn *conn)
{
    if (conn->state == CONN_CLOSING)
        return;
    conn->state = CONN_CLOSING;
    link_close(&conn->link);
    release_all(conn);
}

void conn_refuse(struct conn *conn, const char *text)
{
    if (conn->state == CONN_CLOSING)
        return;
    conn->state = CONN_FINISHING;
    conn->opened_ms = uv_now(conn->daemon->loop);
    send_error(conn, 0, IPU_ERR_BUSY, text, 0);
    release_all(conn);
    link_finish(&conn->link);
}

static void on_broken(struct link *link, const struct ipu_error *error)
{
    struct conn *conn = (struct conn *)link;
    bool violation = error->code == IPU_ERR_PROTOCOL || error->code == IPU_ERR_VERSION ||
                     error->code == IPU_ERR_INVALID || error->code == IPU_ERR_LIMIT;
    if (!violation || conn->state == CONN_FINISHING) {
        conn_close(conn);
        return;
    }
    log_event(conn->daemon->log, LOG_LEVEL_WARN, "conn", "client breaks the protocol",
              "uid=%u pid=%d client=\"%s\" reason=\"%s\"", conn->uid, conn->pid, conn->client,
              error->text);
    conn->state = CONN_FINISHING;
    conn->opened_ms = uv_now(conn->daemon->loop);
    send_error(conn, 0, error->code, error->text, 0);
    release_all(conn);
    link_finish(link);
}

static void on_drained(struct link *link)
{
    struct conn *conn = (struct conn *)link;
    struct call *next;
    for (struct call *call = conn->calls; call && conn->state == CONN_OPEN; call = next) {
        next = call->next; /* a call that goes on can end itself, no other */
        if (call->feed)
            feed_resume(call->feed);
        else if (call->watch)
            watch_resume(call->watch);
    }
}

static void on_closed(struct link *link)
{
    struct conn *conn = (struct conn *)link;
    void (*gone)(struct conn * conn) = conn->gone;
    gone(conn);
    ipu_free(conn->held);
    ipu_free(conn);
}

static void identify(struct conn *conn)
{
    int fd;
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t size = sizeof who;
    if (uv_fileno((uv_handle_t *)&conn->link.pipe, &fd) == 0)
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    conn->uid = who.uid;
    conn->pid = who.pid;
}

struct conn *conn_open(struct daemon *daemon, uv_stream_t *listener,
                       void (*gone)(struct conn *conn))
{
    struct ipu_error error;
    struct conn *conn = ipu_calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->daemon = daemon;
    conn->gone = gone;
    conn->opened_ms = uv_now(daemon->loop);
    conn->link.frame = on_frame;
    conn->link.drained = on_drained;
    conn->link.broken = on_broken;
    conn->link.closed = on_closed;
    if (link_accept(&conn->link, listener, frame_request_limit, &error)) {
        log_event(daemon->log, LOG_LEVEL_WARN, "conn", "cannot accept a client", "reason=\"%s\"",
                  error.text);
        conn->state = CONN_CLOSING;
        link_close(&conn->link);
        return conn;
    }
    identify(conn);
    return conn;
}

static void tick_calls(struct conn *conn, uint64_t now)
{
    bool watching = false;
    struct call *next;
    for (struct call *call = conn->calls; call; call = next) {
        next = call->next;
        watching = watching || call->watch || call->testing;
        if (call->intake && intake_idle(call->intake) && now > call->used_ms + CONN_UPLOAD_MS)
            call_fail(call, IPU_ERR_TIMEOUT, "the upload stalled for a minute and was dropped");
    }
    if (watching && now > conn->link.sent_ms + CONN_KEEPALIVE_MS && link_queued(&conn->link) == 0)
        for (struct call *call = conn->calls; call; call = call->next)
            if (call->watch || call->testing)
                call_send(call, IPU__RPC__FRAME_TYPE__REPLY_KEEPALIVE, NULL);
}

void conn_tick(struct conn *conn)
{
    uint64_t now = uv_now(conn->daemon->loop);
    struct ipu_error error;
    if (conn->state == CONN_CLOSING)
        return;
    if (conn->state == CONN_FINISHING) {
        if (now > conn->opened_ms + CONN_FRAME_MS)
            conn_close(conn); /* does not even read why it is refused */
        return;
    }
    bool half = conn->link.partial_since_ms && now > conn->link.partial_since_ms + CONN_FRAME_MS;
    bool silent = conn->state == CONN_HELLO && now > conn->opened_ms + CONN_FRAME_MS;
    if (half || silent) {
        ipu_error_set(&error, IPU_ERR_PROTOCOL, "protocol: %s did not come within 10 s",
                      half ? "the end of a frame" : "a hello");
        on_broken(&conn->link, &error);
        return;
    }
    tick_calls(conn, now);
}
