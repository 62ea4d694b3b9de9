/* From a workload message to a package: the whole compiler as one call. Used by ipud's compile
 * workers and by tests.
 *
 * The pipeline reads: graph_check -> plan_search -> (lower -> place -> exchange -> refine, per
 * finalist) -> codegen -> package. One call per thread; results depend only on the inputs, never on
 * the thread count or the clock, except that a longer search budget may find a better plan: the
 * package of a given search state is always the same.
 */
#ifndef IPU_COMPILER_COMPILE_H
#define IPU_COMPILER_COMPILE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "compiler/codegen/kernel_cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct compile_options {
    unsigned threads; /* 0 = all cores */
    /* Include directory with the vendor's tile header, whose AMP and SLIC flag numbers replace ours
     * (device/kernels/flag_set.h); NULL or "" = our own set, which the simulator runs. */
    const char *flag_headers;
    const uint8_t *search_state; /* stored state of the same search key, or NULL */
    size_t search_state_size;
    struct compile_cache cache;
    struct log *log;
    const atomic_bool *cancel;
    void (*progress)(void *context, const char *phase, uint64_t best_cycles, uint64_t candidates);
    void *progress_context;
};

struct compile_result {
    struct buffer package; /* .ipuexe bytes */
    struct buffer search_state;
    uint64_t estimated_cycles;
    unsigned search_attempts;
    bool resumed;
};

/* The three keys of a workload, 64 hexadecimal characters each: package_key covers everything that
 * decides the package bytes except the search state; search_key covers graph structure, shapes and
 * options but no weight data; both include the compiler build id. */
/* Identifies the compiler's sources; part of every key and of every package. */
const char *compile_build_id(void);

struct compile_keys {
    char package_key[65];
    char search_key[65];
};

/* `workload` is the serialised Workload message. */
IPU_MUST_CHECK int compile_keys(const void *workload, size_t size, struct compile_keys *keys,
                                struct ipu_error *error);
/* The keys under `flag_headers` of the options: another set of flag numbers is another package. */
IPU_MUST_CHECK int compile_keys_for(const void *workload, size_t size, const char *flag_headers,
                                    struct compile_keys *keys, struct ipu_error *error);
IPU_MUST_CHECK int compile_workload(const void *workload, size_t size,
                                    const struct compile_options *options,
                                    struct compile_result *result, struct ipu_error *error);
void compile_result_free(struct compile_result *result);

/* Evaluates the host reference of `workload` and compares device outputs with it. */
struct compile_check {
    bool passed;
    double maximum_absolute_error;
    double relative_rms_error; /* root-mean-square error relative to the reference's RMS, worst
                                  output */
    double cosine;             /* worst output */
    double tolerance;
    double reference_ms;
    char reason[256]; /* why it failed, or "" */
};
struct compile_output {
    const char *name;
    const uint8_t *data; /* device bytes, row-major */
    size_t size;
};
IPU_MUST_CHECK int compile_check_outputs(const void *workload, size_t size,
                                         const struct compile_output *outputs, size_t count,
                                         unsigned blas_threads, struct log *log,
                                         struct compile_check *check, struct ipu_error *error);

/* The `workload=...` result line of facts/seed_log_fields.md section 3 from what was measured.
 * Writes without a newline. */
struct compile_measured {
    uint64_t cycles, minimum_cycles, estimated_cycles;
    uint64_t input_bytes, weight_bytes; /* packed host buffers, replicas and padding included */
    unsigned active_tiles;              /* distinct tiles that hold the first output */
};
IPU_MUST_CHECK int compile_result_line(const void *workload, size_t size,
                                       const struct compile_measured *measured,
                                       const struct compile_check *check, struct buffer *line,
                                       struct ipu_error *error);

#endif
