/* Requests about caches and search states: see proto/rpc.proto.
 *
 * Everything runs on the store thread in slices of one object or less, so that a large cache delays
 * nobody. Looking is open to all; evicting and verifying only to root and the daemon's own user,
 * dropping a search state also to the user who made it.
 */
#include "daemon/conn.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint64_t GC_SLICE = 64 << 20;

static int only_admin(const struct call *call, struct ipu_error *error)
{
    return call_may(call, UINT32_MAX)
               ? 0
               : ipu_error_set(error, IPU_ERR_INVALID, "this is for root and the user of ipud");
}

/* --- stats --- */

static int run_stats(struct store *store, struct storeq_op *op)
{
    return store_cache_stats(store, &((struct call *)op)->stats, &op->error);
}

static void reply_stats(struct call *call)
{
    Ipu__Rpc__CacheStats reply = IPU__RPC__CACHE_STATS__INIT;
    Ipu__Rpc__CacheKind kinds[STORE_KINDS], *pointers[STORE_KINDS];
    for (int i = 1; i < STORE_KINDS; i++) {
        const struct store_kind_stats *from = &call->stats.kinds[i];
        Ipu__Rpc__CacheKind *kind = &kinds[i];
        ipu__rpc__cache_kind__init(kind);
        kind->kind = (char *)store_kind_name((enum store_kind)i);
        kind->objects = from->objects;
        kind->bytes = from->bytes;
        kind->hits = from->hits;
        kind->misses = from->misses;
        kind->damaged = from->damaged;
        reply.evicted += from->evicted;
        pointers[reply.n_kinds++] = kind;
    }
    reply.kinds = pointers;
    reply.bytes = call->stats.bytes;
    reply.limit = call->stats.limit;
    reply.pinned_bytes = call->stats.pinned_bytes;
    reply.database_bytes = call->stats.database_bytes;
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_CACHE_STATS, &reply.base);
}

int call_cache_stats(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    (void)request;
    (void)error;
    call_store(call, run_stats, reply_stats);
    return 0;
}

/* --- list --- */

static bool collect_object(void *context, const struct store_object *object)
{
    struct call *call = context;
    if (call->rows.size >= call->limit * sizeof *object) {
        call->more = true;
        return false;
    }
    buffer_append(&call->rows, object, sizeof *object);
    return true;
}

static int run_cache_list(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    return store_cache_list(store, (enum store_kind)call->kind, (unsigned)call->limit + 1,
                            collect_object, call, &op->error);
}

static void reply_cache_list(struct call *call)
{
    const struct store_object *rows = (const struct store_object *)(void *)call->rows.data;
    size_t count = call->rows.size / sizeof *rows;
    Ipu__Rpc__CacheList list = IPU__RPC__CACHE_LIST__INIT;
    Ipu__Rpc__CacheObject *objects = ipu_calloc(count + 1, sizeof *objects);
    Ipu__Rpc__CacheObject **pointers = ipu_calloc(count + 1, sizeof(Ipu__Rpc__CacheObject *));
    char(*digests)[HASH_TEXT] = ipu_calloc(count + 1, HASH_TEXT);
    bool ready = objects && pointers && digests && !call->rows.failed;
    for (size_t i = 0; ready && i < count; i++) {
        ipu__rpc__cache_object__init(&objects[i]);
        hash_text(&rows[i].digest, digests[i]);
        objects[i].digest = digests[i];
        objects[i].kind = (char *)store_kind_name(rows[i].kind);
        objects[i].bytes = rows[i].bytes;
        objects[i].created_us = rows[i].created_us;
        objects[i].used_us = rows[i].used_us;
        objects[i].pinned = rows[i].pinned;
        objects[i].key = (char *)rows[i].key;
        pointers[i] = &objects[i];
    }
    list.n_objects = count;
    list.objects = pointers;
    list.more = call->more;
    if (ready)
        call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_CACHE_LIST, &list.base);
    else
        call_fail(call, IPU_ERR_NO_MEMORY, "ipud is out of memory");
    ipu_free(objects);
    ipu_free(pointers);
    ipu_free(digests);
}

int call_cache_list(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__CacheListRequest *list = (const Ipu__Rpc__CacheListRequest *)request;
    call->kind = (int)store_kind_parse(list->kind);
    if (list->kind[0] && call->kind == STORE_NONE)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "there is no kind \"%.32s\" of objects: workload, package, kernel, "
                             "search, profile, output",
                             list->kind);
    if (list->limit > 500)
        return ipu_error_set(error, IPU_ERR_LIMIT, "a list has at most 500 objects");
    call->limit = list->limit ? list->limit : 100;
    call_store(call, run_cache_list, reply_cache_list);
    return 0;
}

/* --- verify: one piece of one object a slice --- */

static void reply_work(struct call *call)
{
    Ipu__Rpc__CacheWork work = IPU__RPC__CACHE_WORK__INIT;
    work.objects = call->objects;
    work.bytes = call->bytes;
    work.damaged = call->damaged;
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_CACHE_WORK, &work.base);
}

static void end_object(struct store *store, struct call *call, bool good)
{
    store_reader_close(store, call->reader);
    call->reader = NULL;
    call->objects++;
    call->damaged += !good;
}

static int run_verify(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    int rc = 0;
    if (!call->reader) {
        rc = store_object_after(store, (int64_t)call->cursor, &call->object, &op->error);
        if (rc == IPU_ERR_NOT_FOUND) {
            call->found = true; /* the end */
            return 0;
        }
        if (rc == 0)
            rc = store_reader_open(store, &call->object, &call->reader, &op->error);
        call->cursor = (uint64_t)call->object.id;
    }
    bool last = false;
    call->rows.size = 0;
    if (rc == 0)
        rc = store_reader_next(store, call->reader, &call->rows, &last, &op->error);
    call->bytes += call->rows.size;
    if (rc == IPU_ERR_CORRUPT || rc == IPU_ERR_NOT_FOUND) {
        end_object(store, call, rc == IPU_ERR_NOT_FOUND);
        return 0;
    }
    if (rc == 0 && last)
        end_object(store, call, true);
    return rc;
}

static void on_verify(struct call *call)
{
    if (call->found)
        reply_work(call);
    else
        call_store(call, run_verify, on_verify);
}

int call_cache_verify(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    int rc = only_admin(call, error);
    (void)request;
    if (rc == 0)
        call_store(call, run_verify, on_verify);
    return rc;
}

/* --- gc: a bounded number of bytes a slice --- */

static int run_gc(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    uint64_t objects = 0, bytes = 0;
    int rc = store_cache_stats(store, &call->stats, &op->error);
    uint64_t slice = call->stats.bytes > GC_SLICE ? call->stats.bytes - GC_SLICE : 0;
    uint64_t target = slice > call->limit ? slice : call->limit;
    if (rc == 0)
        rc = store_cache_gc(store, target, &objects, &bytes, &op->error);
    call->objects += objects;
    call->bytes += bytes;
    call->found = objects == 0;
    return rc;
}

static void on_gc(struct call *call)
{
    if (call->found)
        reply_work(call);
    else
        call_store(call, run_gc, on_gc);
}

int call_cache_gc(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__CacheGc *gc = (const Ipu__Rpc__CacheGc *)request;
    int rc = only_admin(call, error);
    call->limit = gc->all ? 0 : gc->target_bytes;
    if (rc == 0)
        call_store(call, run_gc, on_gc);
    return rc;
}

/* --- explain --- */

static int run_explain(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    bool known;
    int rc = call_load_job(store, call);
    if (rc == 0)
        rc = store_workload_find(store, call->row.workload_key, &call->known, &known, &op->error);
    if (rc == 0 && !known)
        return ipu_error_set(&op->error, IPU_ERR_NOT_FOUND,
                             "the keys of job %" PRIu64 " are not known yet: it has not been "
                             "compiled",
                             call->job);
    if (rc == 0)
        rc = store_package_find(store, call->known.package_key, &call->package, &call->found,
                                &op->error);
    return rc;
}

static void reply_explain(struct call *call)
{
    Ipu__Rpc__CacheExplain reply = IPU__RPC__CACHE_EXPLAIN__INIT;
    Ipu__Rpc__KeyPart parts[5], *pointers[5];
    char workload[HASH_TEXT], package[HASH_TEXT] = "";
    hash_text(&call->row.workload, workload);
    if (call->found)
        hash_text(&call->package.object.digest, package);
    const char *const texts[5][2] = {
        {"workload", call->known.name},          {"workload_file", workload},
        {"compiler_build", call->daemon->build}, {"file_key", call->row.workload_key},
        {"search_key", call->known.search_key},
    };
    for (size_t i = 0; i < 5; i++) {
        ipu__rpc__key_part__init(&parts[i]);
        parts[i].name = (char *)texts[i][0];
        parts[i].value = (char *)texts[i][1];
        pointers[i] = &parts[i];
    }
    reply.key = call->known.package_key;
    reply.n_parts = 5;
    reply.parts = pointers;
    reply.package = package;
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_CACHE_EXPLAIN, &reply.base);
}

int call_cache_explain(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    (void)error;
    call->job = ((const Ipu__Rpc__JobRequest *)request)->job;
    call_store(call, run_explain, reply_explain);
    return 0;
}

/* --- search states --- */

static void fill_search(const struct store_search *row, Ipu__Rpc__SearchState *state,
                        char digest[HASH_TEXT])
{
    ipu__rpc__search_state__init(state);
    hash_text(&row->object.digest, digest);
    state->key = (char *)row->key;
    state->workload = (char *)row->workload;
    state->bytes = row->object.bytes;
    state->updated_us = row->updated_us;
    state->attempts = row->attempts;
    state->best_cycles = row->best_cycles;
    state->digest = digest;
}

static bool collect_search(void *context, const struct store_search *search)
{
    struct call *call = context;
    if (call->rows.size >= call->limit * sizeof *search) {
        call->more = true;
        return false;
    }
    buffer_append(&call->rows, search, sizeof *search);
    return true;
}

static int run_search_list(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    return store_search_list(store, (unsigned)call->limit + 1, collect_search, call, &op->error);
}

static void reply_search_list(struct call *call)
{
    const struct store_search *rows = (const struct store_search *)(void *)call->rows.data;
    size_t count = call->rows.size / sizeof *rows;
    Ipu__Rpc__SearchList list = IPU__RPC__SEARCH_LIST__INIT;
    Ipu__Rpc__SearchState *states = ipu_calloc(count + 1, sizeof *states);
    Ipu__Rpc__SearchState **pointers = ipu_calloc(count + 1, sizeof(Ipu__Rpc__SearchState *));
    char(*digests)[HASH_TEXT] = ipu_calloc(count + 1, HASH_TEXT);
    bool ready = states && pointers && digests && !call->rows.failed;
    for (size_t i = 0; ready && i < count; i++) {
        fill_search(&rows[i], &states[i], digests[i]);
        pointers[i] = &states[i];
    }
    list.n_states = count;
    list.states = pointers;
    list.more = call->more;
    if (ready)
        call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_SEARCH_LIST, &list.base);
    else
        call_fail(call, IPU_ERR_NO_MEMORY, "ipud is out of memory");
    ipu_free(states);
    ipu_free(pointers);
    ipu_free(digests);
}

int call_search_list(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const Ipu__Rpc__SearchListRequest *list = (const Ipu__Rpc__SearchListRequest *)request;
    if (list->limit > 200)
        return ipu_error_set(error, IPU_ERR_LIMIT, "a list has at most 200 search states");
    call->limit = list->limit ? list->limit : 50;
    call_store(call, run_search_list, reply_search_list);
    return 0;
}

static int run_search_find(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    return store_search_find(store, call->name, &call->search, &op->error);
}

static void reply_search(struct call *call)
{
    Ipu__Rpc__SearchState state;
    char digest[HASH_TEXT], text[512];
    fill_search(&call->search, &state, digest);
    snprintf(text, sizeof text,
             "workload %s\nattempts %" PRIu64 "\nbest estimate %" PRIu64 " cycles\nstate %" PRIu64
             " bytes, sha256 %s\nmade by uid %u\n",
             call->search.workload, call->search.attempts, call->search.best_cycles,
             call->search.object.bytes, digest, call->search.uid);
    state.text = text;
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_SEARCH, &state.base);
}

static int take_key(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    const char *key = ((const Ipu__Rpc__SearchRequest *)request)->key;
    if (strlen(key) >= CALL_ARGUMENT)
        return ipu_error_set(error, IPU_ERR_LIMIT, "the key is too long");
    snprintf(call->name, sizeof call->name, "%s", key);
    return 0;
}

int call_search_show(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    int rc = take_key(call, request, error);
    if (rc == 0)
        call_store(call, run_search_find, reply_search);
    return rc;
}

static int run_search_drop(struct store *store, struct storeq_op *op)
{
    struct call *call = (struct call *)op;
    int rc = store_search_find(store, call->name, &call->search, &op->error);
    if (rc == 0 && !call_may(call, call->search.uid))
        return ipu_error_set(&op->error, IPU_ERR_INVALID,
                             "this search state belongs to another user");
    return rc ? rc : store_search_drop(store, call->search.key, &op->error);
}

static void reply_ok(struct call *call)
{
    call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_OK, NULL);
}

int call_search_drop(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    int rc = take_key(call, request, error);
    if (rc == 0)
        call_store(call, run_search_drop, reply_ok);
    return rc;
}
