/* module: compiler/plan */
/* Fuzzes workloads from bytes to a plan: parse, check, flow, first plan.
 *
 * Whatever the bytes, each step ends with success or with one sentence and a code of
 * base/errors.def that blames the input (never INTERNAL or COMPILE); a plan of an accepted workload
 * proves itself. Only small graphs are planned, so that an input takes milliseconds.
 */
#include "compiler/graph/graph.h"
#include "compiler/plan/plan.h"
#include "proto/build.h"
#include "tests/fuzz/seed.h"

#include <string.h>

enum { ARENA_BYTES = 256 << 20, SMALL_ELEMENTS = 1 << 14, SMALL_OPS = 12, SMALL_TILES = 128 };

static void require_sentence(int code, const struct ipu_error *error)
{
    if (code != error->code || error->text[0] == '\0' || code == IPU_ERR_INTERNAL ||
        code == IPU_ERR_COMPILE) {
        fprintf(stderr, "%d: %s\n", code, error->text);
        abort();
    }
}

static bool small(const struct flow *flow)
{
    uint64_t elements = 0;
    unsigned ops = 0;
    for (unsigned i = 0; i < flow->tensor_count; i++)
        elements += flow->tensors[i].rows * flow->tensors[i].columns;
    for (unsigned i = 0; i < flow->region_count; i++)
        ops += flow->regions[i].op_count;
    return elements <= SMALL_ELEMENTS && ops <= SMALL_OPS && flow->tiles <= SMALL_TILES;
}

static void plan(const struct flow *flow, struct arena *arena, struct ipu_error *error)
{
    struct plan_options options = {.search_ms = 1, .finalists = 1, .threads = 1};
    struct plan_result result = {0};
    int rc = plan_search(flow, &options, arena, &result, error);
    if (rc) {
        require_sentence(rc, error);
        return;
    }
    if (result.count == 0 || plan_verify(flow, result.plans[0], error)) {
        fprintf(stderr, "the plan does not hold: %s\n", error->text);
        abort();
    }
}

static int read_data(const struct graph *graph, struct arena *arena, struct ipu_error *error)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const uint8_t *data;
        uint64_t bytes;
        if (!graph->values[i].host || graph->values[i].elements > SMALL_ELEMENTS)
            continue;
        int rc = graph_host_data(graph, i, arena, &data, &bytes, error);
        if (rc)
            return rc;
    }
    return 0;
}

static int follow(const struct graph_message *message, struct arena *arena, struct ipu_error *error)
{
    struct graph *graph;
    struct flow *flow;
    int rc = graph_check(graph_message(message), arena, &graph, error);
    if (rc == 0)
        rc = read_data(graph, arena, error);
    if (rc == 0)
        rc = graph_flow(graph, arena, &flow, error);
    if (rc == 0 && small(flow))
        plan(flow, arena, error);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct graph_message *message = NULL;
    struct ipu_error error = {0};
    int rc = graph_parse(data, size, &message, &error);
    if (rc) {
        require_sentence(rc, &error);
        return 0;
    }
    struct arena *arena = arena_create(ARENA_BYTES);
    if (arena) {
        rc = follow(message, arena, &error);
        if (rc)
            require_sentence(rc, &error);
        arena_destroy(arena);
    }
    graph_release(message);
    return 0;
}

/* One operation of each kind, and a repeat with a sequence. */
static void seed_kinds(void)
{
    struct workload_build b;
    struct buffer out = {0};
    const uint64_t wide[] = {2, 3, 16}, weights[] = {16, 16}, flat[] = {6, 16};
    build_begin(&b, "kinds", 64);
    uint32_t x = build_input(&b, "x", IPU__WORKLOAD__ELEMENT_TYPE__F16, wide, 3, 1, 0);
    uint32_t w = build_parameter(&b, "w", IPU__WORKLOAD__ELEMENT_TYPE__F16, weights, 2, 2, 0);
    uint32_t v = build_parameter(&b, "v", IPU__WORKLOAD__ELEMENT_TYPE__F16, weights, 2, 3, 0);
    uint32_t members[] = {w, v};
    uint32_t y = build_reshape(&b, "flat", build_matmul(&b, "up", x, w, false, true), flat, 2);
    build_repeat(&b, "loop", 2);
    uint32_t inside = build_carry(&b, build_gelu(&b, "act", y));
    uint32_t member = build_sequence(&b, members, 2);
    build_yield(&b, 0,
                build_add(&b, "sum", build_matmul(&b, "in", inside, member, false, false), y));
    build_repeat_end(&b);
    uint32_t wider = build_cast(&b, "cast", inside + 1, IPU__WORKLOAD__ELEMENT_TYPE__F32);
    build_output(&b, build_transpose(&b, "turn", build_relu(&b, "relu", wider), NULL, 0), "y");
    if (!build_serialize(&b, &out))
        abort();
    fuzz_seed("kinds", -1, out.data, out.size);
    build_end(&b);
    buffer_free(&out);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct buffer out = {0};
    struct build_mlp p = {.batch = 1,
                          .tokens = 3,
                          .dimension = 16,
                          .hidden = 32,
                          .blocks = 2,
                          .tiles = 64,
                          .seed = 1,
                          .bias = true};
    if (!build_siglip_mlp(&p, &out))
        abort();
    fuzz_seed("siglip", -1, out.data, out.size);
    buffer_free(&out);
    if (!build_plain_mlp(&p, &out))
        abort();
    fuzz_seed("mlp", -1, out.data, out.size);
    buffer_free(&out);
    seed_kinds();
    return 0;
}
