/* The socket: see server.h.
 *
 * The file of the socket is protected by a lock beside it, held while we serve: whoever holds the
 * lock may replace the file, so a stale one never hinders a start, and a live one is never taken.
 * The file appears by rename, complete with its permissions. Invariant: only a file that we made
 * (same inode) is removed at the end. With systemd, the socket is inherited and no file is touched.
 */
#include "daemon/server.h"

#include "base/alloc.h"
#include "daemon/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { TICK_MS = 1000, BACKLOG = 256 };

struct server {
    struct daemon *daemon;
    uv_pipe_t listener;
    uv_timer_t timer;
    bool listening, closing;
    bool pending; /* a connection could not be taken for want of memory; libuv listens no further */
    struct conn *conns;
    unsigned count;
    int lock_fd;
    char path[CONFIG_TEXT]; /* "" = inherited */
    dev_t device;
    ino_t inode;
};

/* --- locks --- */

static int take_lock(const char *path, int *fd)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0)
        return -errno;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int rc = -errno;
    close(*fd);
    *fd = -1;
    return rc;
}

int server_lock(const char *state_dir, int *fd, struct ipu_error *error)
{
    char path[CONFIG_TEXT + 16];
    snprintf(path, sizeof path, "%s/ipud.lock", state_dir);
    int rc = take_lock(path, fd);
    if (rc == -EWOULDBLOCK)
        return ipu_error_set(error, IPU_ERR_BUSY,
                             "another ipud is already serving the state directory %s", state_dir);
    if (rc)
        return ipu_error_set(error, IPU_ERR_IO, "cannot lock %s: %s", path, strerror(-rc));
    return 0;
}

/* --- connections --- */

static void on_conn_gone(struct conn *conn)
{
    struct server *server = conn->daemon->server;
    for (struct conn **at = &server->conns; *at; at = &(*at)->next)
        if (*at == conn) {
            *at = conn->next;
            server->count--;
            return;
        }
}

static void take_connection(struct server *server)
{
    struct conn *conn = conn_open(server->daemon, (uv_stream_t *)&server->listener, on_conn_gone);
    server->pending = !conn;
    if (!conn)
        return;
    conn->next = server->conns;
    server->conns = conn;
    server->count++;
    if (server->count > (unsigned)server->daemon->config->max_connections)
        conn_refuse(conn, "this ipud has all the connections that it allows");
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct server *server = listener->data;
    if (status < 0)
        log_event(server->daemon->log, LOG_LEVEL_WARN, "server", "cannot accept", "reason=\"%s\"",
                  uv_strerror(status));
    else
        take_connection(server);
}

static void on_tick(uv_timer_t *timer)
{
    struct server *server = timer->data;
    struct conn *next;
    for (struct conn *conn = server->conns; conn; conn = next) {
        next = conn->next; /* closing is asynchronous: no connection leaves the list here */
        conn_tick(conn);
    }
    if (server->pending && server->listening)
        take_connection(server);
    sd_notify(0, "WATCHDOG=1");
}

/* --- listening --- */

/* Whether somebody serves the socket file at this moment, lock or no lock. */
static bool answered(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool alive =
        connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN;
    close(fd);
    return alive;
}

static int bind_path(struct server *server, const char *path, unsigned mode, int *out,
                     struct ipu_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX}, temporary = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(path) + 5 > sizeof address.sun_path)
        return ipu_error_set(error, IPU_ERR_LIMIT,
                             "the socket path %s is longer than the %zu bytes of a Unix socket",
                             path, sizeof address.sun_path - 5);
    memcpy(address.sun_path, path, strlen(path) + 1);
    memcpy(temporary.sun_path, path, strlen(path));
    memcpy(temporary.sun_path + strlen(path), ".new", 5);
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return ipu_error_set(error, IPU_ERR_INVALID, "%s exists and is no socket", path);
    if (answered(&address))
        return ipu_error_set(error, IPU_ERR_BUSY, "another program is serving the socket %s", path);
    unlink(temporary.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&temporary, sizeof temporary) < 0 ||
        chmod(temporary.sun_path, mode) < 0 || listen(fd, BACKLOG) < 0 ||
        rename(temporary.sun_path, path) < 0 || lstat(path, &st) < 0) {
        int problem = errno;
        if (fd >= 0)
            close(fd);
        unlink(temporary.sun_path);
        return ipu_error_set(error, IPU_ERR_IO, "cannot listen on %s: %s", path, strerror(problem));
    }
    snprintf(server->path, sizeof server->path, "%s", path);
    server->device = st.st_dev;
    server->inode = st.st_ino;
    *out = fd;
    return 0;
}

static int open_socket(struct server *server, int *fd, struct ipu_error *error)
{
    const struct config *config = server->daemon->config;
    char lock[CONFIG_TEXT + 8];
    int inherited = sd_listen_fds(1);
    if (inherited > 1)
        return ipu_error_set(error, IPU_ERR_INVALID, "systemd passed %d sockets, ipud takes one",
                             inherited);
    if (inherited == 1) {
        *fd = SD_LISTEN_FDS_START;
        int flags = fcntl(*fd, F_GETFL); /* an inherited socket is blocking */
        if (flags < 0 || fcntl(*fd, F_SETFL, flags | O_NONBLOCK) < 0)
            return ipu_error_set(error, IPU_ERR_IO, "the inherited socket is unusable: %s",
                                 strerror(errno));
        return 0;
    }
    snprintf(lock, sizeof lock, "%s.lock", config->socket);
    int rc = take_lock(lock, &server->lock_fd);
    if (rc == -EWOULDBLOCK)
        return ipu_error_set(error, IPU_ERR_BUSY, "another ipud is already serving the socket %s",
                             config->socket);
    if (rc)
        return ipu_error_set(error, IPU_ERR_IO, "cannot lock %s: %s", lock, strerror(-rc));
    return bind_path(server, config->socket, config->mode, fd, error);
}

int server_create(struct daemon *daemon, struct server **out, struct ipu_error *error)
{
    struct server *server = ipu_calloc(1, sizeof *server);
    int fd = -1;
    *out = server;
    if (!server)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    server->daemon = daemon;
    server->lock_fd = -1;
    uv_timer_init(daemon->loop, &server->timer);
    server->timer.data = server;
    uv_timer_start(&server->timer, on_tick, TICK_MS, TICK_MS);
    uv_pipe_init(daemon->loop, &server->listener, 0);
    server->listener.data = server;
    int rc = open_socket(server, &fd, error);
    if (rc)
        return rc;
    rc = uv_pipe_open(&server->listener, fd);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
    if (rc)
        return ipu_error_set(error, IPU_ERR_IO, "cannot listen: %s", uv_strerror(rc));
    server->listening = true;
    return 0;
}

unsigned server_connections(const struct server *server)
{
    return server->count;
}

/* --- the end --- */

static void remove_file(struct server *server)
{
    struct stat st;
    if (server->path[0] && lstat(server->path, &st) == 0 && st.st_ino == server->inode &&
        st.st_dev == server->device)
        unlink(server->path);
    server->path[0] = '\0';
}

void server_drain(struct server *server)
{
    if (!uv_is_closing((uv_handle_t *)&server->listener))
        uv_close((uv_handle_t *)&server->listener, NULL);
    remove_file(server);
    server->listening = false;
    struct conn *next;
    for (struct conn *conn = server->conns; conn; conn = next) {
        next = conn->next;
        if (conn->call_count == 0)
            conn_close(conn);
    }
}

void server_close(struct server *server)
{
    server_drain(server);
    if (!server->closing)
        uv_close((uv_handle_t *)&server->timer, NULL);
    server->closing = true;
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        conn_close(conn);
}

bool server_closed(const struct server *server)
{
    return server->count == 0;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    if (server->lock_fd >= 0)
        close(server->lock_fd);
    ipu_free(server);
}
