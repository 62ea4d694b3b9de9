/* The socket and its connections. Loop thread only. */
#ifndef IPU_DAEMON_SERVER_H
#define IPU_DAEMON_SERVER_H

#include "daemon/daemon.h"

/* Takes the lock of the state directory: IPU_ERR_BUSY with a sentence when another ipud has it. The
 * descriptor is the lock; keep it open. */
IPU_MUST_CHECK int server_lock(const char *state_dir, int *fd, struct ipu_error *error);
/* Listens on the socket that systemd passed, else on config->socket. A socket file that nobody
 * serves is replaced; one that somebody serves is IPU_ERR_BUSY. */
IPU_MUST_CHECK int server_create(struct daemon *daemon, struct server **out,
                                 struct ipu_error *error);
unsigned server_connections(const struct server *server);
/* Stops listening and removes the socket file if it is ours; closes connections that have no call
 * open, later the rest. */
void server_drain(struct server *server);
void server_close(struct server *server);
bool server_closed(const struct server *server);
void server_free(struct server *server);

#endif
