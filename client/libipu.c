/* libipu: connecting, frames, small calls: see ipu.h.
 *
 * The socket is non-blocking and every wait is a poll() on it and the wake descriptor, with the
 * timeout. Invariant: between calls no reply is outstanding, as a call that is given up is stopped
 * and read to its end. It fails with UNREACHABLE when the daemon goes away, TIMEOUT when it says
 * nothing, PROTOCOL when it makes no sense.
 */
#include "client/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "proto/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PROTOCOL_VERSION = 1, DEFAULT_TIMEOUT_MS = 30000, STOP_TIMEOUT_MS = 5000 };

static const struct scan_limits reply_limits = {16, 1 << 18, FRAME_BULK_LIMIT, 32 << 20};

/* --- waiting and bytes --- */

static int gone(const struct ipu_client *client, const char *why, struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_UNREACHABLE,
                         "the connection to ipud at %s was lost (%s); jobs go on if it still runs: "
                         "see `ipuctl status`",
                         client->path, why);
}

/* Waits until the socket is readable or, with `writing`, writable. 1 = the wake descriptor, 0 = the
 * socket. */
static int wait_socket(struct ipu_client *client, bool writing, bool wake, short *events,
                       struct ipu_error *error)
{
    uint64_t until = clock_ns() + (uint64_t)client->timeout_ms * 1000000u;
    for (;;) {
        struct pollfd fds[2] = {{client->fd, (short)(POLLIN | (writing ? POLLOUT : 0)), 0},
                                {wake ? client->wake_fd : -1, POLLIN, 0}};
        uint64_t now = clock_ns();
        int left = now < until ? (int)((until - now) / 1000000u) + 1 : 0;
        int n = poll(fds, 2, left);
        if (n < 0 && errno != EINTR)
            return gone(client, strerror(errno), error);
        if (n > 0 && fds[1].revents)
            return 1;
        if (n > 0 && fds[0].revents) {
            *events = fds[0].revents;
            return 0;
        }
        if (n == 0)
            return ipu_error_set(error, IPU_ERR_TIMEOUT,
                                 "ipud at %s has said nothing for %u s; it may be stuck: look at "
                                 "its log",
                                 client->path, client->timeout_ms / 1000);
    }
}

static int read_some(struct ipu_client *client, struct ipu_error *error)
{
    size_t room;
    uint8_t *at = frame_decoder_room(&client->in, &room);
    if (!at)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    ssize_t n = recv(client->fd, at, room, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return gone(client, n == 0 ? "it closed the connection" : strerror(errno), error);
    frame_decoder_filled(&client->in, (size_t)n);
    return 0;
}

static int write_some(struct ipu_client *client, const uint8_t **at, size_t *left,
                      struct ipu_error *error)
{
    ssize_t n = send(client->fd, *at, *left, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        /* What it said before it hung up is more use than that it did. */
        struct frame frame;
        while (read_some(client, error) == 0 && frame_decoder_partial(&client->in)) {
            int rc = client_receive(client, 0, &frame, false, NULL, error);
            if (rc)
                return rc;
        }
        return gone(client, strerror(EPIPE), error);
    }
    if (n > 0) {
        *at += n;
        *left -= (size_t)n;
    }
    return 0;
}

/* Whether the daemon has begun to say no to the request that is being sent. */
static bool answered(const struct ipu_client *client)
{
    const struct frame_decoder *in = &client->in;
    return in->bytes.size - in->start >= FRAME_HEADER &&
           in->bytes.data[in->start + 4] == IPU__RPC__FRAME_TYPE__REPLY_ERROR;
}

static int send_bytes(struct ipu_client *client, const uint8_t *at, size_t left,
                      struct ipu_error *error)
{
    while (left) {
        short events = 0;
        int rc = write_some(client, &at, &left, error);
        if (rc || left == 0)
            return rc;
        rc = wait_socket(client, true, false, &events, error);
        if (rc == 0 && (events & POLLIN))
            rc = read_some(client, error);
        if (rc)
            return rc;
    } /* an answer in the middle of a frame: the frame still has to be sent whole */
    return 0;
}

int client_send(struct ipu_client *client, uint8_t type, uint32_t call, const void *body,
                size_t size, bool early, struct ipu_error *error)
{
    uint8_t header[FRAME_HEADER];
    frame_header(header, type, call, (uint32_t)size);
    int rc = send_bytes(client, header, sizeof header, error);
    if (rc == 0)
        rc = send_bytes(client, body, size, error);
    return rc ? rc : early && answered(client);
}

int client_send_message(struct ipu_client *client, uint8_t type, uint32_t call,
                        const ProtobufCMessage *message, struct ipu_error *error)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *body = ipu_malloc(size + 1);
    if (!body)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    protobuf_c_message_pack(message, body);
    int rc = client_send(client, type, call, body, size, false, error);
    ipu_free(body);
    return rc;
}

/* --- receiving --- */

int client_unpack(const struct frame *frame, const ProtobufCMessageDescriptor *descriptor,
                  ProtobufCMessage **out, struct ipu_error *error)
{
    if (scan_unpack(descriptor, frame->body, frame->size, &reply_limits, out, error))
        return ipu_error_wrap(error, "ipud sent a reply that makes no sense: ");
    return 0;
}

static int error_reply(const struct frame *frame, struct ipu_error *error)
{
    ProtobufCMessage *message;
    int rc = client_unpack(frame, &ipu__rpc__error__descriptor, &message, error);
    if (rc)
        return rc;
    const Ipu__Rpc__Error *reply = (const Ipu__Rpc__Error *)message;
    rc = ipu_error_set(error, reply->code < 0 ? reply->code : IPU_ERR_PROTOCOL, "%s", reply->text);
    scan_free(message);
    return rc;
}

/* Reads what the socket has, once it has anything. */
static int receive_more(struct ipu_client *client, bool wake, bool *woken, struct ipu_error *error)
{
    short events;
    int rc = wait_socket(client, false, wake, &events, error);
    if (rc == 1) {
        if (woken)
            *woken = true;
        return ipu_error_set(error, IPU_ERR_CANCELLED, "interrupted");
    }
    return rc ? rc : read_some(client, error);
}

int client_receive(struct ipu_client *client, uint32_t call, struct frame *frame, bool wake,
                   bool *woken, struct ipu_error *error)
{
    for (;;) {
        int rc = frame_decoder_next(&client->in, frame, error);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            rc = receive_more(client, wake, woken, error);
            if (rc)
                return rc;
            continue;
        }
        bool ours = frame->call == call || frame->call == 0;
        if (ours && frame->type == IPU__RPC__FRAME_TYPE__REPLY_ERROR)
            return error_reply(frame, error);
        if (ours && frame->type != IPU__RPC__FRAME_TYPE__REPLY_KEEPALIVE)
            return 0;
    }
}

int client_unexpected(const struct frame *frame, struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_PROTOCOL, "ipud sent an unexpected reply of type %u",
                         frame->type);
}

int client_keep(struct ipu_client *client, const struct frame *frame, uint8_t expected,
                const ProtobufCMessageDescriptor *descriptor, const ProtobufCMessage **out,
                struct ipu_error *error)
{
    ProtobufCMessage *message;
    if (frame->type != expected)
        return client_unexpected(frame, error);
    int rc = client_unpack(frame, descriptor, &message, error);
    if (rc)
        return rc;
    scan_free(client->reply);
    client->reply = message;
    if (out)
        *out = message;
    return 0;
}

void client_stop(struct ipu_client *client, uint32_t call)
{
    struct ipu_error ignored;
    struct frame frame;
    unsigned timeout = client->timeout_ms;
    client->timeout_ms = STOP_TIMEOUT_MS;
    int rc = client_send(client, IPU__RPC__FRAME_TYPE__FRAME_STOP, call, NULL, 0, false, &ignored);
    while (rc == 0) {
        rc = client_receive(client, call, &frame, false, NULL, &ignored);
        bool end = frame.type == IPU__RPC__FRAME_TYPE__REPLY_OK ||
                   frame.type == IPU__RPC__FRAME_TYPE__REPLY_WATCH_END;
        if (rc == 0 && end)
            break;
    }
    client->timeout_ms = timeout;
}

uint32_t client_new_call(struct ipu_client *client)
{
    uint32_t call = client->next_call++;
    if (client->next_call == 0)
        client->next_call = 1;
    return call;
}

/* --- connecting --- */

void ipu_default_socket(char *path, size_t size)
{
    static const char system_path[] = "/run/ipud/ipud.sock";
    const char *named = getenv("IPUD_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char user[256] = "";
    if (named && *named) {
        snprintf(path, size, "%s", named);
        return;
    }
    if (run && *run && access(run, W_OK) == 0)
        snprintf(user, sizeof user, "%s/ipud.sock", run);
    else if (xdg && *xdg)
        snprintf(user, sizeof user, "%s/ipud/ipud.sock", xdg);
    else if (home && *home)
        snprintf(user, sizeof user, "%s/.local/state/ipud/ipud.sock", home);
    bool system_wide = access(user, F_OK) != 0 && access(system_path, F_OK) == 0;
    snprintf(path, size, "%s", system_wide || !user[0] ? system_path : user);
}

/* A daemon may be there, but not for this user. Its group is the way in (docs/OPERATIONS.md). */
static int not_allowed(const char *path, int problem, struct ipu_error *error)
{
    struct stat status;
    const struct group *group = stat(path, &status) == 0 ? getgrgid(status.st_gid) : NULL;
    bool by_group = group && (status.st_mode & S_IWGRP);
    if (!by_group)
        return ipu_error_set(error, IPU_ERR_UNREACHABLE,
                             "your user may not use the ipud at %s (%s): it belongs to another "
                             "user; start your own with `ipud`, or name another socket with "
                             "--socket or IPUD_SOCKET",
                             path, strerror(problem));
    return ipu_error_set(error, IPU_ERR_UNREACHABLE,
                         "your user may not use the ipud at %s (%s): it has to be in the group "
                         "%s (`usermod -aG %s USER` as root, then log in again)",
                         path, strerror(problem), group->gr_name, group->gr_name);
}

static int open_socket(struct ipu_client *client, struct ipu_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(client->path) >= sizeof address.sun_path)
        return ipu_error_set(error, IPU_ERR_INVALID, "the socket path %s is too long",
                             client->path);
    memcpy(address.sun_path, client->path, strlen(client->path) + 1);
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return ipu_error_set(error, IPU_ERR_IO, "cannot make a socket: %s", strerror(errno));
    int problem = connect(client->fd, (struct sockaddr *)&address, sizeof address) < 0 ? errno : 0;
    if (problem == EACCES || problem == EPERM)
        return not_allowed(client->path, problem, error);
    if (problem)
        return ipu_error_set(error, IPU_ERR_UNREACHABLE,
                             "no ipud answers at %s (%s); start one with `ipud`, or name its "
                             "socket with --socket or IPUD_SOCKET",
                             client->path, strerror(problem));
    int flags = fcntl(client->fd, F_GETFL);
    if (flags < 0 || fcntl(client->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return ipu_error_set(error, IPU_ERR_IO, "cannot use the socket: %s", strerror(errno));
    return 0;
}

static int say_hello(struct ipu_client *client, const char *name, struct ipu_error *error)
{
    Ipu__Rpc__Hello hello = IPU__RPC__HELLO__INIT;
    struct frame frame;
    uint32_t call = client_new_call(client);
    hello.protocol = PROTOCOL_VERSION;
    hello.client = (char *)name;
    int rc =
        client_send_message(client, IPU__RPC__FRAME_TYPE__FRAME_HELLO, call, &hello.base, error);
    if (rc == 0)
        rc = client_receive(client, call, &frame, false, NULL, error);
    if (rc == 0)
        rc = client_keep(client, &frame, IPU__RPC__FRAME_TYPE__REPLY_HELLO,
                         &ipu__rpc__hello_reply__descriptor, NULL, error);
    client->hello = client->reply;
    client->reply = NULL;
    return rc;
}

int ipu_connect(const char *path, const char *name, struct ipu_client **out,
                struct ipu_error *error)
{
    *out = NULL;
    struct ipu_client *client = ipu_calloc(1, sizeof *client);
    if (!client)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    client->fd = -1;
    client->wake_fd = -1;
    client->timeout_ms = DEFAULT_TIMEOUT_MS;
    client->next_call = 1;
    frame_decoder_init(&client->in, frame_reply_limit);
    if (path)
        snprintf(client->path, sizeof client->path, "%s", path);
    else
        ipu_default_socket(client->path, sizeof client->path);
    int rc = open_socket(client, error);
    if (rc == 0)
        rc = say_hello(client, name, error);
    if (rc)
        ipu_close(client);
    else
        *out = client;
    return rc;
}

void ipu_close(struct ipu_client *client)
{
    if (!client)
        return;
    if (client->fd >= 0)
        close(client->fd);
    frame_decoder_free(&client->in);
    scan_free(client->reply);
    scan_free(client->hello);
    ipu_free(client);
}

const Ipu__Rpc__HelloReply *ipu_server(const struct ipu_client *client)
{
    return (const Ipu__Rpc__HelloReply *)client->hello;
}

void ipu_set_timeout(struct ipu_client *client, unsigned milliseconds)
{
    client->timeout_ms = milliseconds;
}

void ipu_set_wake_fd(struct ipu_client *client, int fd)
{
    client->wake_fd = fd;
}
