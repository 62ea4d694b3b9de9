/* libipu: calls that stream: watch, submit, fetch: see ipu.h.
 *
 * Invariant: whichever way a stream ends, the connection is in step afterwards, or the error says
 * that it is not (PROTOCOL, TIMEOUT, UNREACHABLE).
 */
#include "client/internal.h"

#include "base/hash.h"
#include "proto/scan.h"

#include <string.h>

static bool broken(int rc)
{
    return rc == IPU_ERR_PROTOCOL || rc == IPU_ERR_TIMEOUT || rc == IPU_ERR_UNREACHABLE;
}

/* --- watch --- */

static int handle_event(const struct frame *frame, ipu_event_fn *event, void *context,
                        uint64_t *next, struct ipu_error *error)
{
    ProtobufCMessage *message;
    int rc = client_unpack(frame, &ipu__rpc__event__descriptor, &message, error);
    if (rc)
        return IPU_ERR_PROTOCOL;
    const Ipu__Rpc__Event *got = (const Ipu__Rpc__Event *)message;
    *next = got->sequence + 1;
    rc = event(context, got);
    scan_free(message);
    if (rc)
        ipu_error_set(error, rc, "the reader of the events ended the watch");
    return rc;
}

static int stream_events(struct ipu_client *client, uint32_t call, ipu_event_fn *event,
                         void *context, const Ipu__Rpc__WatchEnd **end, uint64_t *next,
                         struct ipu_error *error)
{
    for (;;) {
        struct frame frame;
        bool woken = false;
        int rc = client_receive(client, call, &frame, true, &woken, error);
        if (rc) {
            if (woken)
                client_stop(client, call);
            return rc;
        }
        if (frame.type == IPU__RPC__FRAME_TYPE__REPLY_WATCH_END) {
            const ProtobufCMessage *message;
            rc = client_keep(client, &frame, frame.type, &ipu__rpc__watch_end__descriptor, &message,
                             error);
            if (rc == 0 && end)
                *end = (const Ipu__Rpc__WatchEnd *)message;
            return rc;
        }
        if (frame.type != IPU__RPC__FRAME_TYPE__REPLY_EVENT)
            return client_unexpected(&frame, error);
        rc = handle_event(&frame, event, context, next, error);
        if (rc) {
            struct ipu_error copy = *error;
            if (!broken(rc))
                client_stop(client, call);
            *error = copy;
            return rc;
        }
    }
}

int ipu_watch(struct ipu_client *client, const Ipu__Rpc__Watch *request, ipu_event_fn *event,
              void *context, const Ipu__Rpc__WatchEnd **end, uint64_t *next,
              struct ipu_error *error)
{
    uint64_t unused;
    uint32_t call = client_new_call(client);
    if (!next)
        next = &unused;
    *next = request->from ? request->from : 1;
    int rc =
        client_send_message(client, IPU__RPC__FRAME_TYPE__FRAME_WATCH, call, &request->base, error);
    return rc ? rc : stream_events(client, call, event, context, end, next, error);
}

/* --- self-test --- */

static int handle_step(const struct frame *frame, ipu_step_fn *step, void *context,
                       struct ipu_error *error)
{
    ProtobufCMessage *message;
    int rc = client_unpack(frame, &ipu__rpc__selftest_step__descriptor, &message, error);
    if (rc)
        return IPU_ERR_PROTOCOL;
    rc = step(context, (const Ipu__Rpc__SelftestStep *)message);
    scan_free(message);
    return rc ? ipu_error_set(error, rc, "the reader of the steps ended the self-test") : 0;
}

int ipu_selftest(struct ipu_client *client, ipu_step_fn *step, void *context,
                 struct ipu_error *error)
{
    uint32_t call = client_new_call(client);
    int rc = client_send(client, IPU__RPC__FRAME_TYPE__FRAME_SELFTEST, call, NULL, 0, false, error);
    while (rc == 0) {
        struct frame frame;
        bool woken = false;
        rc = client_receive(client, call, &frame, true, &woken, error);
        if (rc && woken)
            client_stop(client, call);
        if (rc || frame.type == IPU__RPC__FRAME_TYPE__REPLY_OK)
            return rc;
        if (frame.type != IPU__RPC__FRAME_TYPE__REPLY_SELFTEST)
            return client_unexpected(&frame, error);
        rc = handle_step(&frame, step, context, error);
        if (rc && !broken(rc)) {
            struct ipu_error copy = *error;
            client_stop(client, call);
            *error = copy;
        }
    }
    return rc;
}

/* --- submit --- */

static int send_begin(struct ipu_client *client, uint32_t call, const struct ipu_submit *submit,
                      struct ipu_error *error)
{
    Ipu__Rpc__SubmitBegin begin = IPU__RPC__SUBMIT_BEGIN__INIT;
    begin.name = (char *)(submit->name ? submit->name : "");
    begin.size = submit->size;
    begin.detach = submit->detach;
    begin.no_cache = submit->no_cache;
    begin.priority = submit->priority;
    begin.log_level = submit->log_level;
    return client_send_message(client, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_BEGIN, call, &begin.base,
                               error);
}

/* Sends the file; 1 when the daemon answers before the end, which is a refusal. */
static int send_file(struct ipu_client *client, uint32_t call, const struct ipu_submit *submit,
                     struct ipu_error *error)
{
    const uint8_t *at = submit->data;
    size_t left = submit->size;
    while (left) {
        size_t n = left < FRAME_BULK_LIMIT ? left : FRAME_BULK_LIMIT;
        int rc =
            client_send(client, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK, call, at, n, true, error);
        if (rc)
            return rc;
        at += n;
        left -= n;
        if (submit->sent)
            submit->sent(submit->context, submit->size - left, submit->size);
    }
    return 0;
}

static int receive_accepted(struct ipu_client *client, uint32_t call,
                            const struct ipu_submit *submit, uint64_t *job, struct ipu_error *error)
{
    struct frame frame;
    const ProtobufCMessage *message;
    bool woken = false;
    int rc = client_receive(client, call, &frame, true, &woken, error);
    if (woken)
        client_stop(client, call);
    if (rc == 0)
        rc = client_keep(client, &frame, IPU__RPC__FRAME_TYPE__REPLY_SUBMITTED,
                         &ipu__rpc__submitted__descriptor, &message, error);
    if (rc)
        return rc;
    *job = ((const Ipu__Rpc__Submitted *)message)->job;
    if (submit->accepted)
        submit->accepted(submit->context, *job);
    return 0;
}

int ipu_submit(struct ipu_client *client, const struct ipu_submit *submit, uint64_t *job,
               const Ipu__Rpc__WatchEnd **end, uint64_t *next, struct ipu_error *error)
{
    uint64_t unused;
    Ipu__Rpc__SubmitEnd last = IPU__RPC__SUBMIT_END__INIT;
    uint32_t call = client_new_call(client);
    if (!next)
        next = &unused;
    *next = 1;
    *job = 0;
    last.watch = submit->event != NULL;
    int rc = send_begin(client, call, submit, error);
    if (rc == 0)
        rc = send_file(client, call, submit, error);
    if (rc == 0)
        rc = client_send_message(client, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_END, call, &last.base,
                                 error);
    if (rc >= 0) /* also after an early answer: it is read like the one at the end */
        rc = receive_accepted(client, call, submit, job, error);
    if (rc || !submit->event)
        return rc;
    return stream_events(client, call, submit->event, submit->context, end, next, error);
}

/* --- fetch --- */

struct fetching {
    struct hash expected;
    struct hash_state *hash;
    uint64_t left;
};

static int take_piece(struct fetching *fetching, const struct frame *frame, ipu_data_fn *data,
                      void *context, struct ipu_error *error)
{
    if (frame->type != IPU__RPC__FRAME_TYPE__REPLY_DATA || frame->size > fetching->left)
        return client_unexpected(frame, error);
    fetching->left -= frame->size;
    hash_update(fetching->hash, frame->body, frame->size);
    int rc = data(context, frame->body, frame->size);
    return rc ? ipu_error_set(error, rc, "the receiver of the data ended the transfer") : 0;
}

static int stream_data(struct ipu_client *client, uint32_t call, struct fetching *fetching,
                       ipu_data_fn *data, void *context, struct ipu_error *error)
{
    for (;;) {
        struct frame frame;
        bool woken = false;
        int rc = client_receive(client, call, &frame, true, &woken, error);
        if (rc == 0 && frame.type == IPU__RPC__FRAME_TYPE__REPLY_OK)
            return 0;
        bool ours = rc == 0;
        if (rc == 0)
            rc = take_piece(fetching, &frame, data, context, error);
        if (rc == 0)
            continue;
        struct ipu_error copy = *error;
        if (woken || (ours && !broken(rc)))
            client_stop(client, call);
        *error = copy;
        return rc;
    }
}

static int check_digest(struct fetching *fetching, struct ipu_error *error)
{
    struct hash got;
    bool hashed = hash_finish(fetching->hash, &got);
    fetching->hash = NULL;
    if (hashed && fetching->left == 0 && hash_equal(&got, &fetching->expected))
        return 0;
    return ipu_error_set(error, IPU_ERR_CORRUPT,
                         "the received bytes are not those that ipud announced");
}

int ipu_fetch(struct ipu_client *client, const Ipu__Rpc__Fetch *request, ipu_data_fn *data,
              void *context, const Ipu__Rpc__FetchBegin **begin, struct ipu_error *error)
{
    struct frame frame;
    struct fetching fetching = {0};
    const ProtobufCMessage *message;
    uint32_t call = client_new_call(client);
    int rc =
        client_send_message(client, IPU__RPC__FRAME_TYPE__FRAME_FETCH, call, &request->base, error);
    if (rc == 0)
        rc = client_receive(client, call, &frame, false, NULL, error);
    if (rc == 0)
        rc = client_keep(client, &frame, IPU__RPC__FRAME_TYPE__REPLY_FETCH,
                         &ipu__rpc__fetch_begin__descriptor, &message, error);
    if (rc)
        return rc;
    const Ipu__Rpc__FetchBegin *head = (const Ipu__Rpc__FetchBegin *)message;
    if (begin)
        *begin = head;
    fetching.left = head->bytes;
    fetching.hash = hash_begin();
    if (!hash_parse(head->digest, &fetching.expected))
        memset(&fetching.expected, 0, sizeof fetching.expected);
    rc = stream_data(client, call, &fetching, data, context, error);
    struct ipu_error ignored;
    int digest = check_digest(&fetching, rc ? &ignored : error);
    return rc ? rc : digest;
}
