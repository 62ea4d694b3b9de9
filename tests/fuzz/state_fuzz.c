/* module: compiler/plan */
/* Fuzzes the search state: a search of one small flow continues from the input.
 *
 * An even first byte: the rest is the body of a state whose check is made to match, so that damage
 * behind the check is reached. An odd one: the rest is the file. Whatever it holds, the search
 * succeeds, its plans prove themselves, and it writes a state that a further search accepts.
 */
#include "base/buffer.h"
#include "base/hash.h"
#include "compiler/plan/plan.h"
#include "proto/plan.pb-c.h"
#include "proto/scan.h"
#include "tests/fuzz/seed.h"
#include "tests/unit/plan_flows.h"

#include <string.h>

static void search(const void *state, size_t size, struct buffer *next)
{
    struct ipu_error error = {0};
    struct arena *arena = arena_create(0);
    struct flow_builder *b = build_mlp(64, 2, 16, 16, 2);
    struct plan_options options = {.search_ms = 1, .finalists = 2, .threads = 1};
    struct plan_result result = {.state = next};
    options.state = state;
    options.state_size = size;
    if (!arena || !b || plan_search(&b->flow, &options, arena, &result, &error)) {
        fprintf(stderr, "the search failed: %s\n", error.text);
        abort();
    }
    for (unsigned i = 0; i < result.count; i++)
        if (plan_verify(&b->flow, result.plans[i], &error)) {
            fprintf(stderr, "a plan does not hold: %s\n", error.text);
            abort();
        }
    free(b);
    arena_destroy(arena);
}

static void wrap(const uint8_t *body, size_t size, struct buffer *out)
{
    Ipu__Plan__State state = IPU__PLAN__STATE__INIT;
    state.version = 1;
    state.body.data = (uint8_t *)(uintptr_t)body;
    state.body.len = size;
    state.check = hash64(body, size);
    buffer_append_zero(out, ipu__plan__state__get_packed_size(&state));
    if (out->failed)
        abort();
    ipu__plan__state__pack(&state, out->data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer file = {0}, next = {0};
    if (size < 1)
        return 0;
    if (data[0] % 2 == 0)
        wrap(data + 1, size - 1, &file);
    else
        buffer_append(&file, data + 1, size - 1);
    search(file.data, file.size, &next);
    if (next.size == 0)
        abort();
    buffer_free(&file);
    buffer_free(&next);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct scan_limits limits = {2, 1 << 16, 4 << 20, 8 << 20};
    struct buffer state = {0};
    ProtobufCMessage *message;
    struct ipu_error error;
    (void)argc;
    (void)argv;
    search(NULL, 0, &state);
    fuzz_seed("file", 1, state.data, state.size);
    if (scan_unpack(&ipu__plan__state__descriptor, state.data, state.size, &limits, &message,
                    &error))
        abort();
    const Ipu__Plan__State *envelope = (const Ipu__Plan__State *)(const void *)message;
    fuzz_seed("body", 0, envelope->body.data, envelope->body.len);
    scan_free(message);
    buffer_free(&state);
    return 0;
}
