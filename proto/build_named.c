/* The named workloads of `ipuctl workload`: see build.h. */
#include "proto/build.h"

#include <stdio.h>

static const Ipu__Workload__ElementType F16 = IPU__WORKLOAD__ELEMENT_TYPE__F16;

static bool finish(struct workload_build *b, struct buffer *out)
{
    bool ok = build_serialize(b, out);
    build_end(b);
    return ok;
}

static void describe(struct workload_build *b, const char *family, const struct build_mlp *p)
{
    b->benchmark.family = arena_strdup(b->arena, family);
    b->benchmark.batch = p->batch;
    b->benchmark.tokens = p->tokens;
    b->benchmark.dimension = p->dimension;
    b->benchmark.hidden_dimension = p->hidden;
    b->benchmark.blocks = p->blocks;
    b->benchmark.biases = p->bias;
    b->message.benchmark = &b->benchmark;
    b->failed = b->failed || !b->benchmark.family;
}

bool build_siglip_mlp(const struct build_mlp *p, struct buffer *out)
{
    char name[128], label[64];
    snprintf(name, sizeof name, "siglip-mlp-f16-b%llu-t%llu-d%llu-h%llu-n%llu",
             (unsigned long long)p->batch, (unsigned long long)p->tokens,
             (unsigned long long)p->dimension, (unsigned long long)p->hidden,
             (unsigned long long)p->blocks);
    struct workload_build b;
    build_begin(&b, name, p->tiles);
    uint32_t *up = b.failed ? NULL : arena_calloc(b.arena, p->blocks, sizeof *up);
    uint32_t *down = b.failed ? NULL : arena_calloc(b.arena, p->blocks, sizeof *down);
    if (!up || !down) {
        build_end(&b);
        return false;
    }
    b.options.profile = p->profile;
    const uint64_t x_shape[3] = {p->batch, p->tokens, p->dimension};
    const uint64_t up_shape[2] = {p->dimension, p->hidden},
                   down_shape[2] = {p->hidden, p->dimension};
    uint32_t x = build_input(&b, "x", F16, x_shape, 3, p->seed, 0);
    for (uint64_t i = 0; i < p->blocks; i++) {
        snprintf(label, sizeof label, "right.%llu.0", (unsigned long long)i);
        up[i] = build_parameter(&b, label, F16, up_shape, 2, p->seed + 1 + 2 * i, 0);
        snprintf(label, sizeof label, "right.%llu.1", (unsigned long long)i);
        down[i] = build_parameter(&b, label, F16, down_shape, 2, p->seed + 2 + 2 * i, 0);
    }
    build_repeat(&b, "blocks", (uint32_t)p->blocks);
    uint32_t inside = build_carry(&b, x);
    uint32_t w1 = build_sequence(&b, up, (uint32_t)p->blocks),
             w2 = build_sequence(&b, down, (uint32_t)p->blocks);
    uint32_t h = build_gelu(&b, "gelu", build_matmul(&b, "up", inside, w1, false, false));
    build_yield(&b, 0, build_matmul(&b, "down", h, w2, false, false));
    build_repeat_end(&b);
    build_output(&b, inside + 1, "output.0");
    describe(&b, "siglip-mlp-f16", p);
    return finish(&b, out);
}

bool build_plain_mlp(const struct build_mlp *p, struct buffer *out)
{
    char name[128];
    uint64_t rows = p->batch * p->tokens;
    snprintf(name, sizeof name, "mlp-f16-m%llu-d%llu-h%llu%s-%s", (unsigned long long)rows,
             (unsigned long long)p->dimension, (unsigned long long)p->hidden,
             p->bias ? "-bias" : "", p->relu ? "relu" : "gelu");
    struct workload_build b;
    build_begin(&b, name, p->tiles);
    if (b.failed)
        return false;
    b.options.profile = p->profile;
    const uint64_t x_shape[2] = {rows, p->dimension}, up_shape[2] = {p->dimension, p->hidden};
    const uint64_t down_shape[2] = {p->hidden, p->dimension}, b1[1] = {p->hidden},
                   b2[1] = {p->dimension};
    uint32_t x = build_input(&b, "x", F16, x_shape, 2, p->seed, 0);
    uint32_t w1 = build_parameter(&b, "w1", F16, up_shape, 2, p->seed + 1, 0);
    uint32_t w2 = build_parameter(&b, "w2", F16, down_shape, 2, p->seed + 2, 0);
    uint32_t h = build_matmul(&b, "up", x, w1, false, false);
    if (p->bias)
        h = build_add(&b, "bias1", h, build_parameter(&b, "b1", F16, b1, 1, p->seed + 3, 0.1));
    h = p->relu ? build_relu(&b, "relu", h) : build_gelu(&b, "gelu", h);
    uint32_t y = build_matmul(&b, "down", h, w2, false, false);
    if (p->bias)
        y = build_add(&b, "bias2", y, build_parameter(&b, "b2", F16, b2, 1, p->seed + 4, 0.1));
    build_output(&b, y, "output.0");
    describe(&b, "mlp-f16", p);
    return finish(&b, out);
}

bool build_gemm(uint64_t rows, uint64_t inner, uint64_t columns, uint32_t tiles, uint64_t seed,
                Ipu__Workload__ProfileMode profile, struct buffer *out)
{
    char name[128];
    snprintf(name, sizeof name, "gemm-f16-m%llu-k%llu-n%llu", (unsigned long long)rows,
             (unsigned long long)inner, (unsigned long long)columns);
    struct workload_build b;
    build_begin(&b, name, tiles);
    if (b.failed)
        return false;
    b.options.profile = profile;
    const uint64_t a_shape[2] = {rows, inner}, w_shape[2] = {inner, columns};
    uint32_t a = build_input(&b, "a", F16, a_shape, 2, seed, 0);
    uint32_t w = build_parameter(&b, "w", F16, w_shape, 2, seed + 1, 0);
    build_output(&b, build_matmul(&b, "gemm", a, w, false, false), "output.0");
    return finish(&b, out);
}
