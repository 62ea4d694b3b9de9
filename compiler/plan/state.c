/* Search state: proto/plan.proto in and out, and the feedback after physical scheduling.
 *
 * Bytes are untrusted: they are scanned under limits, the body must have its check, columns must
 * agree in length. Writing is a pure function of the state. Nothing here fails a compile: a state
 * that cannot be read is dropped, one that cannot be written is left empty.
 */
#include "compiler/plan/state.h"

#include "base/hash.h"
#include "compiler/plan/plan.h"
#include "proto/plan.pb-c.h"
#include "proto/scan.h"

#include <string.h>

enum { STATE_VERSION = 1, STATE_MAX_BYTES = 4 << 20, STATE_MAX_RECIPE = 1 << 20 };

static const struct scan_limits limits = {2, 3 * STATE_MAX_VISITED, STATE_MAX_BYTES,
                                          2 * STATE_MAX_BYTES};

static bool copy_columns(const Ipu__Plan__Body *body, struct arena *arena, struct search_state *out)
{
    out->frontier_count = (unsigned)body->n_recipe;
    for (size_t i = 0; i < body->n_recipe; i++) {
        struct state_recipe *r = &out->frontier[i];
        r->size = body->recipe[i].len;
        r->data = arena_memdup(arena, body->recipe[i].data, r->size ? r->size : 1);
        r->cycles = body->cycles[i];
        if (r->data == NULL)
            return false;
    }
    out->refined_count = (unsigned)body->n_refined_recipe;
    for (size_t i = 0; i < body->n_refined_recipe; i++) {
        out->refined_recipe[i] = body->refined_recipe[i];
        out->refined_cycles[i] = body->refined_cycles[i];
    }
    out->visited_count = (uint32_t)body->n_visited;
    uint64_t *visited = ARENA_ARRAY(arena, uint64_t, body->n_visited + 1);
    if (visited == NULL)
        return false;
    for (size_t i = 0; i < body->n_visited; i++)
        visited[i] = body->visited[i];
    out->visited = visited;
    return true;
}

static const char *read_body(const Ipu__Plan__Body *body, struct arena *arena,
                             struct search_state *out)
{
    if (body->n_recipe > STATE_MAX_FRONTIER || body->n_recipe != body->n_cycles ||
        body->n_visited > STATE_MAX_VISITED || body->n_refined_recipe > STATE_MAX_REFINED ||
        body->n_refined_recipe != body->n_refined_cycles)
        return "its columns disagree";
    for (size_t i = 0; i < body->n_recipe; i++)
        if (body->recipe[i].len == 0 || body->recipe[i].len > STATE_MAX_RECIPE)
            return "a recipe has no sound size";
    out->key = body->key;
    out->seed = body->seed;
    out->attempts = body->attempts;
    out->units = body->units;
    out->cost_version = body->cost_version;
    out->resumes = body->resumes;
    return copy_columns(body, arena, out) ? NULL : "no memory";
}

static const char *read_envelope(const Ipu__Plan__State *state, struct arena *arena,
                                 struct search_state *out)
{
    ProtobufCMessage *message = NULL;
    struct ipu_error error;
    if (state->version != STATE_VERSION)
        return "its version is another";
    if (state->check != hash64(state->body.data, state->body.len))
        return "its check does not match";
    if (scan_unpack(&ipu__plan__body__descriptor, state->body.data, state->body.len, &limits,
                    &message, &error) != 0)
        return "its body is damaged";
    const char *reason = read_body((const Ipu__Plan__Body *)(const void *)message, arena, out);
    scan_free(message);
    return reason;
}

bool state_read(const uint8_t *data, size_t size, struct arena *arena, struct search_state *out,
                const char **reason)
{
    ProtobufCMessage *message = NULL;
    struct ipu_error error;
    memset(out, 0, sizeof *out);
    *reason = "it is damaged";
    if (data == NULL ||
        scan_unpack(&ipu__plan__state__descriptor, data, size, &limits, &message, &error) != 0)
        return false;
    *reason = read_envelope((const Ipu__Plan__State *)(const void *)message, arena, out);
    scan_free(message);
    if (*reason != NULL)
        memset(out, 0, sizeof *out);
    return *reason == NULL;
}

static void fill_body(const struct search_state *state, Ipu__Plan__Body *body,
                      ProtobufCBinaryData *recipes, uint64_t *cycles, struct search_state *copy)
{
    *copy = *state;
    body->key = state->key;
    body->seed = state->seed;
    body->attempts = state->attempts;
    body->units = state->units;
    body->cost_version = state->cost_version;
    body->resumes = state->resumes;
    for (unsigned i = 0; i < state->frontier_count; i++) {
        recipes[i].len = state->frontier[i].size;
        recipes[i].data = (uint8_t *)(uintptr_t)state->frontier[i].data;
        cycles[i] = state->frontier[i].cycles;
    }
    body->n_recipe = body->n_cycles = state->frontier_count;
    body->recipe = recipes;
    body->cycles = cycles;
    body->n_visited = state->visited_count;
    body->visited = (uint64_t *)(uintptr_t)state->visited;
    body->n_refined_recipe = body->n_refined_cycles = state->refined_count;
    body->refined_recipe = copy->refined_recipe;
    body->refined_cycles = copy->refined_cycles;
}

bool state_write(const struct search_state *state, struct buffer *out)
{
    Ipu__Plan__Body body = IPU__PLAN__BODY__INIT;
    Ipu__Plan__State envelope = IPU__PLAN__STATE__INIT;
    ProtobufCBinaryData recipes[STATE_MAX_FRONTIER];
    uint64_t cycles[STATE_MAX_FRONTIER];
    struct search_state copy;
    struct buffer packed = {0};
    fill_body(state, &body, recipes, cycles, &copy);
    buffer_append_zero(&packed, ipu__plan__body__get_packed_size(&body));
    if (packed.failed)
        return false;
    ipu__plan__body__pack(&body, packed.data);
    envelope.version = STATE_VERSION;
    envelope.body.data = packed.data;
    envelope.body.len = packed.size;
    envelope.check = hash64(packed.data, packed.size);
    size_t at = out->size;
    buffer_append_zero(out, ipu__plan__state__get_packed_size(&envelope));
    if (!out->failed)
        ipu__plan__state__pack(&envelope, out->data + at);
    buffer_free(&packed);
    return !out->failed;
}

uint64_t state_refined(const struct search_state *state, uint64_t recipe_hash)
{
    for (unsigned i = 0; i < state->refined_count; i++)
        if (state->refined_recipe[i] == recipe_hash)
            return state->refined_cycles[i];
    return 0;
}

static void note(struct search_state *state, uint64_t hash, uint64_t cycles)
{
    unsigned at = 0;
    while (at < state->refined_count && state->refined_recipe[at] != hash)
        at++;
    if (at == STATE_MAX_REFINED) { /* the oldest goes */
        memmove(state->refined_recipe, state->refined_recipe + 1, sizeof(uint64_t) * (at - 1));
        memmove(state->refined_cycles, state->refined_cycles + 1, sizeof(uint64_t) * (at - 1));
        at--;
    } else if (at == state->refined_count) {
        state->refined_count++;
    }
    state->refined_recipe[at] = hash;
    state->refined_cycles[at] = cycles;
}

void plan_state_note(struct buffer *state, const struct plan *plan, uint64_t refined_cycles)
{
    struct search_state read;
    struct buffer written = {0};
    const char *reason;
    struct arena *arena = arena_create(0);
    if (state == NULL || arena == NULL) {
        if (arena != NULL)
            arena_destroy(arena);
        return;
    }
    if (state_read(state->data, state->size, arena, &read, &reason)) {
        note(&read, hash64(plan->recipe, plan->recipe_bytes), refined_cycles);
        if (state_write(&read, &written)) {
            buffer_free(state);
            *state = written;
            written = (struct buffer){0};
        }
    }
    buffer_free(&written);
    arena_destroy(arena);
}
