/* A client connection and its calls.
 *
 * Connection states: HELLO -> OPEN -> FINISHING -> CLOSING. A call is one request that has not been
 * answered to its end; it is owned by its connection, or, while a store operation is in flight
 * after the connection has gone, by that operation. Loop thread only.
 */
#ifndef IPU_DAEMON_CONN_H
#define IPU_DAEMON_CONN_H

#include "daemon/jobs.h"
#include "daemon/link.h"
#include "daemon/owner.h"
#include "daemon/transfer.h"
#include "daemon/watch.h"
#include "proto/rpc.pb-c.h"

enum conn_state { CONN_HELLO, CONN_OPEN, CONN_FINISHING, CONN_CLOSING };
enum { CONN_CALLS = 64, CONN_FRAME_MS = 10000, CONN_UPLOAD_MS = 60000, CONN_KEEPALIVE_MS = 5000 };

struct call;

struct conn {
    struct link link; /* first */
    struct daemon *daemon;
    enum conn_state state;
    uint32_t uid;
    int pid;
    char client[65];
    struct call *calls;
    unsigned call_count;
    struct job **held; /* attached jobs that it submitted */
    size_t held_count, held_capacity;
    uint64_t opened_ms;
    struct conn *next; /* server's list */
    void (*gone)(struct conn *conn);
};

enum { CALL_ARGUMENT = 129 };

struct call {
    struct storeq_op op; /* first */
    struct conn *conn;   /* NULL: the client has gone */
    struct daemon *daemon;
    struct call *next;
    uint32_t number;
    uint8_t type;
    uint32_t uid;
    void (*after)(struct call *call); /* when the store has done its part */
    bool in_store;
    bool stopped;     /* FRAME_STOP came while a store operation was in flight */
    uint64_t used_ms; /* last frame from the client */

    /* Arguments and results of the store's part. */
    uint64_t job, limit, before, cursor;
    bool mine, active, all, more;
    int kind;
    char name[CALL_ARGUMENT];
    struct store_job row;
    struct buffer rows; /* array of what the call lists */
    struct store_object object;
    struct store_output output;
    struct store_stats stats;
    struct store_search search;
    struct store_workload known;
    struct store_package package;
    bool found;
    struct store_reader *reader;
    uint64_t objects, bytes, damaged;

    /* Long calls. */
    struct watch *watch;
    struct watch_options options;
    struct feed *feed;
    struct intake *intake;
    struct store_object workload; /* pinned once uploaded */
    struct selftest test;
    bool testing; /* `test` is with the device owner */
};

/* Opens a connection accepted from `listener`. NULL without memory: the connection then still waits
 * to be taken. */
struct conn *conn_open(struct daemon *daemon, uv_stream_t *listener,
                       void (*gone)(struct conn *conn));
void conn_close(struct conn *conn);
/* Sends a sentence and closes. */
void conn_refuse(struct conn *conn, const char *text);
/* Once a second: half frames, missing hellos, stalled uploads, keepalives. */
void conn_tick(struct conn *conn);

/* --- for the files that handle requests --- */
typedef int call_handler(struct call *call, const ProtobufCMessage *request,
                         struct ipu_error *error);
/* Answers and ends the call. */
void call_reply(struct call *call, uint8_t type, const ProtobufCMessage *message);
void call_fail(struct call *call, int code, const char *text);
void call_end(struct call *call);
/* Frees a call whose client has gone, when what it waited for has come back. */
void call_end_orphan(struct call *call);
/* Sends a frame without ending the call. */
void call_send(struct call *call, uint8_t type, const ProtobufCMessage *message);
/* Runs the store's part, then `done` on the loop, unless the client has gone meanwhile. */
void call_store(struct call *call, int (*run)(struct store *store, struct storeq_op *op),
                void (*done)(struct call *call));
/* Whether the client may see and change what belongs to `uid`. */
bool call_may(const struct call *call, uint32_t uid);
/* Store side: resolves call->job (0 = latest of the user) and loads call->row. */
int call_load_job(struct store *store, struct call *call);

/* The handlers; see proto/rpc.proto. A handler that returns an error has its call failed with it.
 */
call_handler call_info, call_submit_begin, call_submit_end, call_watch, call_status, call_list,
    call_cancel, call_outputs, call_fetch, call_cache_stats, call_cache_list, call_cache_verify,
    call_cache_gc, call_cache_explain, call_search_list, call_search_show, call_search_drop,
    call_selftest;
/* A chunk of an upload; raw. */
int call_submit_chunk(struct call *call, const struct frame *frame, struct ipu_error *error);

#endif
