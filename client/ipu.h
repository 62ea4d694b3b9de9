/* libipu: the protocol of ipud for C programs.
 *
 * A client is one connection to the daemon; it is used by one thread at a time. Calls block until
 * their reply has come, the timeout has passed, or the wake descriptor is readable. Messages that a
 * call returns (types of proto/rpc.proto, where every field is explained) belong to the client and
 * stay valid until the next call on it. After IPU_ERR_PROTOCOL, IPU_ERR_TIMEOUT or
 * IPU_ERR_UNREACHABLE the client can only be closed; after every other error it is as usable as
 * before. Depends on proto and base alone.
 */
#ifndef IPU_CLIENT_IPU_H
#define IPU_CLIENT_IPU_H

#include "base/error.h"
#include "proto/rpc.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ipu_client;

/* The socket that is used when none is named: $IPUD_SOCKET, else the user's own
 * ($XDG_RUNTIME_DIR/ipud.sock, without that ipud.sock in ipud's default state directory), else,
 * when that does not exist, /run/ipud/ipud.sock. Writes at most `size` bytes, always terminated. */
void ipu_default_socket(char *path, size_t size);

/* Connects to `path` (NULL = default) and says hello as `name` ("ipuctl 0.1.0").
 * IPU_ERR_UNREACHABLE when nobody answers (the sentence says what to do), IPU_ERR_VERSION when the
 * daemon speaks another protocol. */
IPU_MUST_CHECK int ipu_connect(const char *path, const char *name, struct ipu_client **out,
                               struct ipu_error *error);
void ipu_close(struct ipu_client *client);
const Ipu__Rpc__HelloReply *ipu_server(const struct ipu_client *client);

/* How long a call waits for the daemon to say anything, milliseconds; default 30,000. Watching
 * waits on while keepalives come. */
void ipu_set_timeout(struct ipu_client *client, unsigned milliseconds);
/* A descriptor (self-pipe, signalfd; -1 = none) that, when readable, makes a waiting submit, watch
 * or fetch end with IPU_ERR_CANCELLED. It is not read: empty it before the next call. The job
 * itself goes on until ipu_cancel(). */
void ipu_set_wake_fd(struct ipu_client *client, int fd);

/* --- small calls --- `reply` receives a message that stays valid until the next call. job 0 = the
 * caller's latest. */
IPU_MUST_CHECK int ipu_ping(struct ipu_client *client, uint64_t *round_trip_ns,
                            struct ipu_error *error);
IPU_MUST_CHECK int ipu_info(struct ipu_client *client, const Ipu__Rpc__Info **reply,
                            struct ipu_error *error);
IPU_MUST_CHECK int ipu_status(struct ipu_client *client, uint64_t job,
                              const Ipu__Rpc__JobStatus **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_list(struct ipu_client *client, const Ipu__Rpc__ListRequest *request,
                            const Ipu__Rpc__JobList **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_cancel(struct ipu_client *client, uint64_t job,
                              const Ipu__Rpc__JobStatus **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_outputs(struct ipu_client *client, uint64_t job,
                               const Ipu__Rpc__Outputs **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_cache_stats(struct ipu_client *client, const Ipu__Rpc__CacheStats **reply,
                                   struct ipu_error *error);
IPU_MUST_CHECK int ipu_cache_list(struct ipu_client *client, const char *kind, unsigned limit,
                                  const Ipu__Rpc__CacheList **reply, struct ipu_error *error);
/* Reads every object and drops the damaged ones: may take long for a large cache. */
IPU_MUST_CHECK int ipu_cache_verify(struct ipu_client *client, const Ipu__Rpc__CacheWork **reply,
                                    struct ipu_error *error);
IPU_MUST_CHECK int ipu_cache_gc(struct ipu_client *client, uint64_t target_bytes, bool all,
                                const Ipu__Rpc__CacheWork **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_cache_explain(struct ipu_client *client, uint64_t job,
                                     const Ipu__Rpc__CacheExplain **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_search_list(struct ipu_client *client, unsigned limit,
                                   const Ipu__Rpc__SearchList **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_search_show(struct ipu_client *client, const char *key,
                                   const Ipu__Rpc__SearchState **reply, struct ipu_error *error);
IPU_MUST_CHECK int ipu_search_drop(struct ipu_client *client, const char *key,
                                   struct ipu_error *error);

/* --- watching --- Called once an event, in order of sequence. A nonzero result ends the watch,
 * which then returns it. The event is valid during the call only. No call on the same client may be
 * made from inside. */
typedef int ipu_event_fn(void *context, const Ipu__Rpc__Event *event);

/* Streams the events of a job as `request` says. `end` (may be NULL) receives the closing message.
 * When the callback or the wake descriptor ends the watch, the connection stays usable and `*next`
 * (may be NULL) is the sequence number to resume from. */
IPU_MUST_CHECK int ipu_watch(struct ipu_client *client, const Ipu__Rpc__Watch *request,
                             ipu_event_fn *event, void *context, const Ipu__Rpc__WatchEnd **end,
                             uint64_t *next, struct ipu_error *error);

/* --- testing the device --- Called once a step, and with outcome WAITING while the device is busy.
 */
typedef int ipu_step_fn(void *context, const Ipu__Rpc__SelftestStep *step);
/* Steps through the device (FRAME_SELFTEST): 0 when no step failed, else the code of the first that
 * did; IPU_ERR_BUSY when another test goes on. A nonzero result of `step` and the wake descriptor
 * end the test. */
IPU_MUST_CHECK int ipu_selftest(struct ipu_client *client, ipu_step_fn *step, void *context,
                                struct ipu_error *error);

/* --- submitting --- */
struct ipu_submit {
    const char *name; /* "" or NULL = the workload's own */
    const void *data; /* contents of the workload file */
    size_t size;
    bool detach; /* see SubmitBegin in proto/rpc.proto */
    bool no_cache;
    int priority;
    Ipu__Rpc__LogLevel log_level;
    ipu_event_fn
        *event; /* NULL: return when the job is accepted; else stream its events until it ends */
    void *context;
    void (*accepted)(void *context,
                     uint64_t job); /* may be NULL: called as soon as the job is committed */
    void (*sent)(void *context, uint64_t done, uint64_t total); /* may be NULL: upload progress */
};
/* Uploads a workload. `*job` is set as soon as the job exists, also when the call fails later. With
 * `event`, `end` (may be NULL) receives the closing message and `*next` (may be NULL) is as for
 * ipu_watch(). */
IPU_MUST_CHECK int ipu_submit(struct ipu_client *client, const struct ipu_submit *submit,
                              uint64_t *job, const Ipu__Rpc__WatchEnd **end, uint64_t *next,
                              struct ipu_error *error);

/* --- fetching --- Receives the bytes piece by piece; a nonzero result ends the transfer, which
 * then returns it. */
typedef int ipu_data_fn(void *context, const void *data, size_t size);

/* Streams an object of a job to `data`. `begin` (may be NULL) receives what it is, valid until the
 * next call. The digest is verified: IPU_ERR_CORRUPT when the received bytes are not those that the
 * daemon named. */
IPU_MUST_CHECK int ipu_fetch(struct ipu_client *client, const Ipu__Rpc__Fetch *request,
                             ipu_data_fn *data, void *context, const Ipu__Rpc__FetchBegin **begin,
                             struct ipu_error *error);

#endif
