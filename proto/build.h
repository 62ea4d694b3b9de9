/* Builds Workload messages: the constructor that ipuctl, tests and benchmarks share.
 *
 * A builder owns every message it makes; value ids are handed out in order. Operations go to the
 * innermost open repeat body. On allocation failure or a limit the builder turns `failed` and
 * build_serialize() reports it. One thread.
 */
#ifndef IPU_PROTO_BUILD_H
#define IPU_PROTO_BUILD_H

#include "base/arena.h"
#include "base/buffer.h"
#include "proto/workload.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUILD_MAX_NESTING = 8 };

struct build_list {
    void **items;
    size_t count, capacity;
};

struct workload_build {
    struct arena *arena;
    Ipu__Workload__Workload message;
    Ipu__Workload__Options options;
    Ipu__Workload__Benchmark benchmark;
    uint32_t next_id;
    bool failed;
    unsigned depth; /* open regions */
    struct build_list operations[BUILD_MAX_NESTING];
    struct build_list inputs, parameters, outputs;
    struct build_list carried[BUILD_MAX_NESTING], sequences[BUILD_MAX_NESTING];
    Ipu__Workload__Operation *repeats[BUILD_MAX_NESTING];
};

/* Starts a workload for `tiles` execution tiles. build_end() frees everything. */
void build_begin(struct workload_build *b, const char *name, uint32_t tiles);
void build_end(struct workload_build *b);

/* Host tensors with normal draws of `seed` times `scale` (0 = the default of workload.proto). Each
 * returns the value id. */
uint32_t build_input(struct workload_build *b, const char *name, Ipu__Workload__ElementType type,
                     const uint64_t *shape, unsigned rank, uint64_t seed, double scale);
uint32_t build_parameter(struct workload_build *b, const char *name,
                         Ipu__Workload__ElementType type, const uint64_t *shape, unsigned rank,
                         uint64_t seed, double scale);
/* Replaces the data of the host tensor added last by raw bytes (copied). */
void build_raw(struct workload_build *b, const void *data, size_t size);

/* Operations; result shape and type are left to be inferred, except where given. */
uint32_t build_matmul(struct workload_build *b, const char *label, uint32_t left, uint32_t right,
                      bool transpose_left, bool transpose_right);
uint32_t build_add(struct workload_build *b, const char *label, uint32_t left, uint32_t right);
uint32_t build_gelu(struct workload_build *b, const char *label, uint32_t input);
uint32_t build_relu(struct workload_build *b, const char *label, uint32_t input);
uint32_t build_cast(struct workload_build *b, const char *label, uint32_t input,
                    Ipu__Workload__ElementType type);
uint32_t build_reshape(struct workload_build *b, const char *label, uint32_t input,
                       const uint64_t *shape, unsigned rank);
uint32_t build_transpose(struct workload_build *b, const char *label, uint32_t input,
                         const uint32_t *permutation, unsigned rank);

/* A repeat: begin, then carried and sequence values (each returns the id inside the body),
 * operations, end. build_yield() says what carried value `index` becomes; the result ids are handed
 * out at build_carry() time: result = inside id + 1. */
void build_repeat(struct workload_build *b, const char *label, uint32_t count);
uint32_t build_carry(struct workload_build *b, uint32_t initial);
uint32_t build_sequence(struct workload_build *b, const uint32_t *members, uint32_t count);
void build_yield(struct workload_build *b, unsigned index, uint32_t value);
void build_repeat_end(struct workload_build *b);

void build_output(struct workload_build *b, uint32_t value, const char *name);
/* Serialises into `out`. False after any failure. */
bool build_serialize(struct workload_build *b, struct buffer *out);

/* --- the named workloads of `ipuctl workload` --- */
struct build_mlp {
    uint64_t batch, tokens, dimension, hidden, blocks;
    uint32_t tiles;
    uint64_t seed;
    bool bias, relu;
    Ipu__Workload__ProfileMode profile;
};
/* siglip-mlp-f16-b{B}-t{T}-d{D}-h{H}-n{N}: a repeat of x -> x W1 -> GELU -> W2 with weights of each
 * block's own. */
bool build_siglip_mlp(const struct build_mlp *p, struct buffer *out);
/* One MLP: x [rows, D] -> H (bias) -> activation -> D (bias). */
bool build_plain_mlp(const struct build_mlp *p, struct buffer *out);
bool build_gemm(uint64_t rows, uint64_t inner, uint64_t columns, uint32_t tiles, uint64_t seed,
                Ipu__Workload__ProfileMode profile, struct buffer *out);

#endif
