/* libipu: calls of one request and one reply: see ipu.h. Each is a row of the same shape: request
 * type and message, reply type and message.
 */
#include "client/internal.h"

#include "base/clock.h"

/* One request, one reply. `request` may be NULL (empty body). */
static int simple(struct ipu_client *client, uint8_t type, const ProtobufCMessage *request,
                  uint8_t reply, const ProtobufCMessageDescriptor *descriptor,
                  const ProtobufCMessage **out, struct ipu_error *error)
{
    struct frame frame;
    uint32_t call = client_new_call(client);
    int rc = request ? client_send_message(client, type, call, request, error)
                     : client_send(client, type, call, NULL, 0, false, error);
    if (rc == 0)
        rc = client_receive(client, call, &frame, false, NULL, error);
    if (rc)
        return rc;
    if (!descriptor)
        return frame.type == reply ? 0 : client_unexpected(&frame, error);
    return client_keep(client, &frame, reply, descriptor, out, error);
}

#define CALL(type, request, reply_type, message)                                                   \
    simple(client, IPU__RPC__FRAME_TYPE__FRAME_##type, request,                                    \
           IPU__RPC__FRAME_TYPE__REPLY_##reply_type, &ipu__rpc__##message##__descriptor,           \
           (const ProtobufCMessage **)(void *)reply, error)

int ipu_ping(struct ipu_client *client, uint64_t *round_trip_ns, struct ipu_error *error)
{
    uint64_t start = clock_ns();
    int rc = simple(client, IPU__RPC__FRAME_TYPE__FRAME_PING, NULL, IPU__RPC__FRAME_TYPE__REPLY_OK,
                    NULL, NULL, error);
    if (round_trip_ns)
        *round_trip_ns = clock_ns() - start;
    return rc;
}

int ipu_info(struct ipu_client *client, const Ipu__Rpc__Info **reply, struct ipu_error *error)
{
    return CALL(INFO, NULL, INFO, info);
}

int ipu_status(struct ipu_client *client, uint64_t job, const Ipu__Rpc__JobStatus **reply,
               struct ipu_error *error)
{
    Ipu__Rpc__JobRequest request = IPU__RPC__JOB_REQUEST__INIT;
    request.job = job;
    return CALL(STATUS, &request.base, STATUS, job_status);
}

int ipu_list(struct ipu_client *client, const Ipu__Rpc__ListRequest *request,
             const Ipu__Rpc__JobList **reply, struct ipu_error *error)
{
    return CALL(LIST, &request->base, LIST, job_list);
}

int ipu_cancel(struct ipu_client *client, uint64_t job, const Ipu__Rpc__JobStatus **reply,
               struct ipu_error *error)
{
    Ipu__Rpc__JobRequest request = IPU__RPC__JOB_REQUEST__INIT;
    request.job = job;
    return CALL(CANCEL, &request.base, STATUS, job_status);
}

int ipu_outputs(struct ipu_client *client, uint64_t job, const Ipu__Rpc__Outputs **reply,
                struct ipu_error *error)
{
    Ipu__Rpc__JobRequest request = IPU__RPC__JOB_REQUEST__INIT;
    request.job = job;
    return CALL(OUTPUTS, &request.base, OUTPUTS, outputs);
}

int ipu_cache_stats(struct ipu_client *client, const Ipu__Rpc__CacheStats **reply,
                    struct ipu_error *error)
{
    return CALL(CACHE_STATS, NULL, CACHE_STATS, cache_stats);
}

int ipu_cache_list(struct ipu_client *client, const char *kind, unsigned limit,
                   const Ipu__Rpc__CacheList **reply, struct ipu_error *error)
{
    Ipu__Rpc__CacheListRequest request = IPU__RPC__CACHE_LIST_REQUEST__INIT;
    request.kind = (char *)(kind ? kind : "");
    request.limit = limit;
    return CALL(CACHE_LIST, &request.base, CACHE_LIST, cache_list);
}

/* Calls whose reply comes when the work is done, however long that takes. */
static int patient(struct ipu_client *client, uint8_t type, const ProtobufCMessage *request,
                   const Ipu__Rpc__CacheWork **reply, struct ipu_error *error)
{
    enum { PATIENCE_MS = 24 * 3600 * 1000 };
    unsigned timeout = client->timeout_ms;
    client->timeout_ms = PATIENCE_MS;
    int rc =
        simple(client, type, request, IPU__RPC__FRAME_TYPE__REPLY_CACHE_WORK,
               &ipu__rpc__cache_work__descriptor, (const ProtobufCMessage **)(void *)reply, error);
    client->timeout_ms = timeout;
    return rc;
}

int ipu_cache_verify(struct ipu_client *client, const Ipu__Rpc__CacheWork **reply,
                     struct ipu_error *error)
{
    return patient(client, IPU__RPC__FRAME_TYPE__FRAME_CACHE_VERIFY, NULL, reply, error);
}

int ipu_cache_gc(struct ipu_client *client, uint64_t target_bytes, bool all,
                 const Ipu__Rpc__CacheWork **reply, struct ipu_error *error)
{
    Ipu__Rpc__CacheGc request = IPU__RPC__CACHE_GC__INIT;
    request.target_bytes = target_bytes;
    request.all = all;
    return patient(client, IPU__RPC__FRAME_TYPE__FRAME_CACHE_GC, &request.base, reply, error);
}

int ipu_cache_explain(struct ipu_client *client, uint64_t job, const Ipu__Rpc__CacheExplain **reply,
                      struct ipu_error *error)
{
    Ipu__Rpc__JobRequest request = IPU__RPC__JOB_REQUEST__INIT;
    request.job = job;
    return CALL(CACHE_EXPLAIN, &request.base, CACHE_EXPLAIN, cache_explain);
}

int ipu_search_list(struct ipu_client *client, unsigned limit, const Ipu__Rpc__SearchList **reply,
                    struct ipu_error *error)
{
    Ipu__Rpc__SearchListRequest request = IPU__RPC__SEARCH_LIST_REQUEST__INIT;
    request.limit = limit;
    return CALL(SEARCH_LIST, &request.base, SEARCH_LIST, search_list);
}

int ipu_search_show(struct ipu_client *client, const char *key, const Ipu__Rpc__SearchState **reply,
                    struct ipu_error *error)
{
    Ipu__Rpc__SearchRequest request = IPU__RPC__SEARCH_REQUEST__INIT;
    request.key = (char *)key;
    return CALL(SEARCH_SHOW, &request.base, SEARCH, search_state);
}

int ipu_search_drop(struct ipu_client *client, const char *key, struct ipu_error *error)
{
    Ipu__Rpc__SearchRequest request = IPU__RPC__SEARCH_REQUEST__INIT;
    request.key = (char *)key;
    return simple(client, IPU__RPC__FRAME_TYPE__FRAME_SEARCH_DROP, &request.base,
                  IPU__RPC__FRAME_TYPE__REPLY_OK, NULL, NULL, error);
}
