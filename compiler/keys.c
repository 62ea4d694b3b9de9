/* The cache keys of a workload: see compile.h.
 *
 * A key is a SHA-256 over a tagged list of parts: format version, compiler build id, and the
 * canonical message with whatever must not matter left out. The message is re-packed, so that
 * unknown fields and encodings of the same content do not split keys.
 */
#include "compiler/compile.h"

#include "base/hash.h"
#include "build_id.h"
#include "compiler/graph/graph.h"
#include "device/kernels/flag_set.h"

#include <string.h>

const char *compile_build_id(void)
{
    return IPU_BUILD_ID;
}

/* What only decides how a package is run or judged is not part of what it is. */
static Ipu__Workload__Options options_of(const Ipu__Workload__Workload *message)
{
    Ipu__Workload__Options o = IPU__WORKLOAD__OPTIONS__INIT;
    if (message->options)
        o = *message->options;
    o.relative_rms_tolerance = 0;
    o.precision = IPU__WORKLOAD__PRECISION_POLICY__PRECISION_DEVICE;
    o.compile_timeout_ms = o.run_timeout_ms = o.inferences = 0;
    o.tiles = o.tiles ? o.tiles : 1472;
    return o;
}

static bool digest(const char *tag, const Ipu__Workload__Workload *message,
                   const struct flag_set *flags, char text[65])
{
    size_t size = ipu__workload__workload__get_packed_size(message);
    struct buffer bytes = {0};
    buffer_append_zero(&bytes, size);
    struct hash hash;
    bool ok = !bytes.failed;
    if (ok) {
        ipu__workload__workload__pack(message, bytes.data);
        struct hash_state *state = hash_begin();
        hash_update(state, tag, strlen(tag) + 1);
        hash_update(state, IPU_BUILD_ID, sizeof IPU_BUILD_ID);
        hash_update(state, flag_set_digest(flags), strlen(flag_set_digest(flags)) + 1);
        hash_update(state, bytes.data, bytes.size);
        ok = hash_finish(state, &hash);
    }
    buffer_free(&bytes);
    if (ok)
        hash_text(&hash, text);
    return ok;
}

static bool search_digest(const Ipu__Workload__Workload *message, Ipu__Workload__Workload *plain,
                          char text[65])
{
    /* Structure only: swap the data out for the duration of the digest; the message is ours alone.
     */
    size_t count = message->n_inputs + message->n_parameters;
    Ipu__Workload__Data **saved = NULL;
    struct arena *arena = arena_create(0);
    if (arena)
        saved = ARENA_ARRAY(arena, Ipu__Workload__Data *, count + 1);
    if (!saved) {
        arena_destroy(arena);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        Ipu__Workload__Tensor *t =
            i < message->n_inputs ? message->inputs[i] : message->parameters[i - message->n_inputs];
        saved[i] = t->data;
        t->data = NULL;
    }
    bool ok = digest("ipud-search", plain, NULL, text);
    for (size_t i = 0; i < count; i++) {
        Ipu__Workload__Tensor *t =
            i < message->n_inputs ? message->inputs[i] : message->parameters[i - message->n_inputs];
        t->data = saved[i];
    }
    arena_destroy(arena);
    return ok;
}

/* A plan does not depend on flag numbers, so sets share their search states. */
int compile_keys_for(const void *workload, size_t size, const char *flag_headers,
                     struct compile_keys *keys, struct ipu_error *error)
{
    struct flag_set *flags = NULL;
    struct graph_message *message = NULL;
    int rc = flag_set_read(flag_headers, &flags, error);
    if (rc == 0)
        rc = graph_parse(workload, size, &message, error);
    if (rc < 0) {
        flag_set_free(flags);
        return rc;
    }
    Ipu__Workload__Workload plain = *graph_message(message);
    Ipu__Workload__Options options = options_of(&plain);
    plain.options = &options;
    plain.benchmark = NULL;
    plain.base.n_unknown_fields = 0;
    plain.base.unknown_fields = NULL;
    bool ok = digest("ipud-package", &plain, flags, keys->package_key);
    ok = ok && search_digest(graph_message(message), &plain, keys->search_key);
    graph_release(message);
    flag_set_free(flags);
    return ok ? 0
              : ipu_error_set(error, IPU_ERR_NO_MEMORY,
                              "workload: out of memory for its cache key");
}

int compile_keys(const void *workload, size_t size, struct compile_keys *keys,
                 struct ipu_error *error)
{
    return compile_keys_for(workload, size, NULL, keys, error);
}
