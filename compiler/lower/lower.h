/* Lowering: from a plan to the program of every tile, without addresses.
 *
 * A program is a list of steps that all tiles pass in the same order. COMPUTE steps hold kernel
 * calls, EXCHANGE steps hold transfers, REPEAT steps bracket a loop body. Data live in buffers: a
 * buffer belongs to one tile, has a size, a memory class that follows from its uses, and a lifetime
 * in steps; placement gives it an address. A buffer with members > 1 holds one copy per iteration
 * of the loop that reads it, at a constant distance: inside the loop a reference means the member
 * of the current iteration. Matrices are in PANEL order (device/kernels/kernels.h).
 *
 * Requires a plan that plan_verify() accepts. Everything lives in the caller's arena; nothing
 * depends on pointers or threads, so equal inputs give equal programs.
 */
#ifndef IPU_LOWER_LOWER_H
#define IPU_LOWER_LOWER_H

#include "base/arena.h"
#include "base/error.h"
#include "compiler/graph/flow.h"
#include "compiler/plan/plan.h"
#include "device/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PROGRAM_NONE = -1,
    PROGRAM_TILES = 1472,
    PROGRAM_ALIGNMENT = 32 /* of every buffer: a cell of f16 */
};

struct program_buffer {
    uint16_t tile;
    bool interleaved;     /* a kernel needs it in region 1 */
    bool resident;        /* written by `initialize`: survives from run to run, never shared */
    bool exchanged;       /* source or destination of a transfer */
    uint32_t bytes;       /* of one member, a multiple of 32 */
    uint32_t members;     /* 1, or iterations of the loop that reads it */
    uint32_t first, last; /* steps, both included; inputs are written before step 0 */
    uint32_t address;     /* set by placement */
};

struct program_ref {
    uint32_t buffer;
    uint32_t offset; /* bytes */
};

/* One argument of a kernel call. */
enum program_arg_kind {
    PROGRAM_NUMBER, /* value */
    PROGRAM_BUFFER, /* address of buffer `index` + value */
    PROGRAM_LIST,   /* address of copy list `index` */
    PROGRAM_TABLE   /* address of gather table `index` + value */
};
struct program_arg {
    uint32_t kind;
    uint32_t index;
    uint32_t value;
};

struct program_call {
    uint16_t tile;
    uint16_t spec; /* index in program.specs */
    struct program_arg args[KERNEL_MAX_ARGS];
};

struct program_copy {
    struct program_ref source, destination;
    uint32_t bytes; /* multiple of 8 */
};
struct program_list {
    uint32_t count;
    struct program_copy *copies;
};
struct program_table {
    uint32_t count; /* u16 entries, even */
    uint16_t *entries;
};

struct program_target {
    uint16_t tile;
    struct program_ref destination;
};
struct program_transfer {
    uint16_t tile; /* source */
    struct program_ref source;
    uint32_t words;
    uint32_t target_count;
    struct program_target *targets; /* sorted by tile, each tile once */
};

enum program_step_kind { PROGRAM_COMPUTE, PROGRAM_EXCHANGE, PROGRAM_REPEAT, PROGRAM_REPEAT_END };
struct program_step {
    enum program_step_kind kind;
    const char *name;    /* operation label */
    uint32_t call_count; /* COMPUTE: calls sorted by tile, in order within a tile */
    struct program_call *calls;
    uint32_t transfer_count; /* EXCHANGE */
    struct program_transfer *transfers;
    uint32_t phase;      /* EXCHANGE: index among the exchange steps */
    uint32_t iterations; /* REPEAT and REPEAT_END */
    uint32_t other;      /* REPEAT: step of its end, and the other way round */
};

/* How host elements fill (a part of) a buffer. */
enum program_form {
    PROGRAM_CELLS,  /* panel order */
    PROGRAM_WEIGHTS /* coefficient panels: chunks of inner panels, in each n outer, k inner */
};
struct program_upload {
    uint32_t tensor; /* host tensor of the flow: PARAMETER or INPUT */
    enum program_form form;
    struct program_ref to;
    uint32_t member;
    uint32_t row, rows;              /* of the tensor; WEIGHTS: the inner rows, padding left out */
    uint32_t panel, panels;          /* of the tensor */
    uint32_t panel_stride;           /* CELLS: bytes from panel to panel */
    uint32_t chunk;                  /* WEIGHTS: inner panels per chunk */
    const struct flow_view *row_map; /* CELLS: row i of the box is row map(row + i), or NULL */
};
/* A block of an output tensor as it lies in a buffer. */
struct program_download {
    uint32_t output; /* index in flow.outputs */
    struct program_ref from;
    uint32_t row, rows, panel, panels;
};

struct program {
    uint32_t tiles; /* execution tiles */
    uint32_t buffer_count, step_count, spec_count, list_count, table_count;
    uint32_t upload_count, download_count, phase_count;
    struct program_buffer *buffers;
    struct program_step *steps;
    struct kernel_spec *specs;
    struct program_list *lists;
    struct program_table *tables;
    struct program_upload *uploads; /* sorted by tile of the buffer */
    struct program_download *downloads;
    /* By sequence: distinct operands that had to be gathered by local copies, for logs. */
    uint64_t copied_bytes, exchanged_words;
};

IPU_MUST_CHECK int lower_program(const struct flow *flow, const struct plan *plan,
                                 struct arena *arena, struct program **out,
                                 struct ipu_error *error);

/* Proves a program sound apart from lowering: every read of a buffer is covered by earlier writes,
 * transfers and copies stay inside their buffers and whole words, kernel operands obey the rules of
 * kernels.def, lifetimes cover all uses, outputs are complete. For tests and debug builds. */
IPU_MUST_CHECK int lower_verify(const struct flow *flow, const struct program *program,
                                struct ipu_error *error);

/* Bytes of a cell (16 elements) of a type. */
static inline uint32_t program_cell_bytes(enum flow_type type)
{
    return type == FLOW_F32 ? 64 : 32;
}
/* Bytes of all members. */
static inline uint64_t program_buffer_bytes(const struct program_buffer *buffer)
{
    return (uint64_t)buffer->bytes * buffer->members;
}

#endif
