/* What the parts of the daemon share: the loop, the configuration, and each other.
 */
#ifndef IPU_DAEMON_DAEMON_H
#define IPU_DAEMON_DAEMON_H

#include "base/log.h"
#include "daemon/config.h"
#include "daemon/engine.h"
#include "daemon/storeq.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct jobs;
struct pool;
struct owner;
struct server;

#define DAEMON_VERSION "0.1.0"

struct daemon {
    uv_loop_t *loop;
    const struct config *config;
    const struct engine *engine;
    struct log *log;
    struct storeq *store;
    struct jobs *jobs;
    struct pool *pool;     /* compile workers */
    struct owner *owner;   /* device owner */
    struct server *server; /* connections */
    uint64_t started_us;
    bool draining;        /* no new work; jobs on the device or in a check may end */
    char build[17];       /* of this program: part of every cache key */
    uint32_t flag_set;    /* of flag_headers, as device_options wants it; 0 = ours */
    char flag_digest[65]; /* of their names and values: part of every cache key */
};

#endif
