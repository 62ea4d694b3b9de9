/* Private structures of code generation.
 *
 *   link_image   runtime and kernels at their addresses
 *   host_plan    what every tile receives and sends in every batch of every call
 *   tile_code    program, data and rows of one tile; built twice, sizes first
 */
#ifndef IPU_CODEGEN_INTERNAL_H
#define IPU_CODEGEN_INTERNAL_H

#include "compiler/codegen/codegen.h"
#include "device/asm/asm.h"

enum {
    LAYOUT_IMAGE = 0x4c010,
    LAYOUT_IMAGE_END = 0x50000,
    LAYOUT_DUMMY = 0x50160,
    LAYOUT_STAGING = 0x50200,
    LAYOUT_DATA = 0x51200,
    LAYOUT_DATA_END = 0x58000,
    LAYOUT_CODE = 0x586e0,
    PAGE_BYTES = 4096,
    MAX_CODE_END = 0x80000,

    /* Supervisor cycles around a step, on top of the kernel or row [D]: setzi of $m0; setzi, put
     * DCOUNT, sync before the rendezvous; call and return of the row after it. */
    CYCLES_CALL_SETUP = 1,
    CYCLES_EXCHANGE_ENTRY = 14,
    CYCLES_ROW_CALL = 14,
    CYCLES_LOOP = 8
};

static inline bool codegen_cancelled(const atomic_bool *cancel)
{
    return cancel != NULL && atomic_load_explicit(cancel, memory_order_relaxed);
}

/* --- link.c --------------------------------------------------------------------------------- */
struct link_image {
    struct asm_image runtime, kernels; /* kernels empty when they are part of runtime */
    uint32_t program;                  /* address of the tile programs */
    uint32_t kernel_bytes;
    uint32_t *entry; /* by spec */
    uint32_t sample; /* rt_sample */
};
/* Where tile programs start when kernels are estimated, not linked. */
uint32_t link_estimate(const struct program *program);
IPU_MUST_CHECK int link_kernels(const struct program *program,
                                const struct codegen_options *options, struct arena *arena,
                                struct link_image *out, struct ipu_error *error);
void link_free(struct link_image *image);

/* --- host.c --------------------------------------------------------------------------------- */
enum host_stream { HOST_INITIALIZE, HOST_RUN_IN, HOST_RUN_OUT, HOST_STREAMS };

/* Bytes [stream, stream + bytes) of a tile's stream are `bytes` at `offset` of a buffer member. */
struct host_item {
    uint32_t buffer, member, offset, bytes, stream;
};
struct host_plan {
    uint32_t batches[HOST_STREAMS];
    uint32_t size[HOST_STREAMS][PROGRAM_TILES];      /* stream bytes by tile */
    uint32_t first[HOST_STREAMS][PROGRAM_TILES + 1]; /* items by tile */
    struct host_item *items[HOST_STREAMS];
    uint32_t samples[PROGRAM_TILES];       /* sample words of a tile, 0 = none */
    uint32_t sample_stream[PROGRAM_TILES]; /* their offset in the output stream */
    uint32_t *member_base;                 /* by buffer: index of its first member */
    uint32_t *stream_at[2];                /* by member: offset in the stream, UINT32_MAX = none */
    uint32_t *download_stream;             /* by download */
};
IPU_MUST_CHECK int host_plan_build(const struct flow *flow, const struct program *program,
                                   enum codegen_profile profile, struct arena *arena,
                                   struct host_plan **out, struct ipu_error *error);
/* Sample words of a tile for one run: one before each sampled step and one after the last. */
uint32_t sample_words(const struct flow *flow, const struct program *program,
                      enum codegen_profile profile, unsigned tile);
/* Bytes that batch b of a stream moves for a tile: a multiple of 64, 0 = it takes no part. */
uint32_t host_plan_bytes(const struct host_plan *plan, enum host_stream stream, unsigned tile,
                         uint32_t batch);
/* Tile (logical) that requests for the group of `tile`. */
unsigned host_plan_owner(unsigned tile);
/* The request mask of an owner for a batch: which tiles of its group take part. */
void host_plan_request(const struct host_plan *plan, enum host_stream stream, unsigned owner,
                       uint32_t batch, uint32_t words[2]);

/* --- nest.c --------------------------------------------------------------------------------- */
IPU_MUST_CHECK int nests_add(const struct flow *flow, const struct program *program,
                             const struct host_plan *plan, struct package *package,
                             struct ipu_error *error);

/* --- emit.c, emit_host.c, data.c ------------------------------------------------------------- */
struct step_index {
    uint32_t **first; /* by step: first[step][tile] .. first[step][tile + 1], NULL without calls */
};
struct codegen {
    const struct flow *flow;
    const struct program *program;
    const struct program_schedule *schedule; /* NULL while sizing */
    const struct codegen_options *options;
    struct arena *arena;
    struct host_plan *host;
    struct step_index index;
    struct link_image image; /* entries are 0 while sizing */
    uint32_t program_base;
    uint32_t host_code_bytes; /* fullest tile, for the log */
};

struct tile_code {
    const struct codegen *codegen;
    unsigned tile, physical;
    bool encode; /* second pass: words are written */
    uint32_t *code;
    uint32_t code_count, code_capacity;
    uint32_t *data, *overflow; /* of the data zone; after the code */
    uint32_t data_used, overflow_used, data_capacity, overflow_capacity; /* bytes */
    uint32_t overflow_base; /* known in the second pass */
    uint32_t *row_address;  /* by phase: 0 = none */
    uint32_t rows_base, rows_bytes;
    uint32_t sample_address;
    struct {
        uint32_t index, address;
    } * tables; /* gather tables that are in the data already */
    uint32_t table_count, table_capacity;
    struct {
        uint32_t stream, bytes, address, count;
    } headers[4];
    uint32_t header_count;
    uint32_t close_address;
    uint32_t host_words;                         /* of the code, for the log */
    uint32_t loop_base, loop_stride, loop_bytes; /* moving argument blocks of the open repeat */
    uint32_t patch_bytes;               /* of all repeats: what each iteration has of its own */
    const struct program_call *refused; /* a call beyond its kernel, or NULL */
    bool failed;                        /* out of memory */
};

/* data.c: reserves bytes (8-byte aligned) and, in the second pass, writes them. */
uint32_t data_reserve(struct tile_code *t, uint32_t bytes);
void data_write(struct tile_code *t, uint32_t address, const void *bytes, uint32_t size);
uint32_t data_add(struct tile_code *t, const void *bytes, uint32_t size);
void code_word(struct tile_code *t, uint32_t word);
uint32_t code_here(const struct tile_code *t);
void code_set(struct tile_code *t, unsigned reg, uint32_t value);
void code_call(struct tile_code *t, uint32_t address);
void code_put(struct tile_code *t, unsigned csr, uint32_t value);
uint32_t buffer_address(const struct codegen *c, struct program_ref ref, uint32_t member);

/* args.c: argument blocks of a call. Returns the address, or the offset from $m7 when *moving. */
uint32_t args_add(struct tile_code *t, const struct program_call *call, bool *moving);
bool args_move(const struct program *program, const struct program_call *call);

void emit_host_input(struct tile_code *t, enum host_stream stream);
void emit_host_output(struct tile_code *t);
/* Emits everything into t, which must be cleared but for codegen, tile and the fields of the pass.
 */
IPU_MUST_CHECK int emit_tile(struct tile_code *t, struct ipu_error *error);
IPU_MUST_CHECK int codegen_index(struct codegen *c, struct ipu_error *error);
/* Bytes of everything that a tile's program takes, rows at their bound. */
IPU_MUST_CHECK int codegen_sizes(struct codegen *c, uint32_t region0[PROGRAM_TILES],
                                 struct ipu_error *error);

/* --- profile.c ------------------------------------------------------------------------------ */
IPU_MUST_CHECK int profile_add(const struct codegen *c, struct package *package,
                               struct ipu_error *error);

/* --- schedule.c ----------------------------------------------------------------------------- */
/* The transfers of a step. Without `placed` all addresses are one and the same, which is the worst
 * case for the size of rows. */
IPU_MUST_CHECK int phase_build(const struct program *program, const struct program_step *step,
                               bool placed, const uint32_t *code_elements, struct arena *arena,
                               struct exchange_phase *out, struct ipu_error *error);
/* Proves the rows of all phases against the program's transfers at their addresses. */
IPU_MUST_CHECK int schedule_verify(const struct program *program, struct program_schedule *schedule,
                                   const struct codegen_options *options, struct arena *arena,
                                   struct ipu_error *error);
/* Predicted cycles of one call, set-up included. */
uint32_t call_cycles(const struct program *program, const struct program_call *call);

#endif
