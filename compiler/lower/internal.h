/* Private structures of lowering.
 *
 *   home      where a computed value lives: blocks of buffers, grouped by equal boxes (replicas)
 *   need      a box of a value that a tile wants in a buffer of its own
 *   flush     turns the collected needs into one exchange step and local copies
 *
 * Errors are kept in lower.code: functions return false (or the code) and callers unwind.
 */
#ifndef IPU_LOWER_INTERNAL_H
#define IPU_LOWER_INTERNAL_H

#include "compiler/lower/lower.h"

enum { LOWER_MAX_SLOTS = 4096 /* partials of one cell */ };

/* A growable array in the arena. */
struct vec {
    void *items;
    uint32_t count, capacity;
};

struct box {
    uint32_t row, rows, panel, panels;
};

/* A box as it lies in memory: panel p, row r at ref + (p - panel) * stride + (r - row) * cell. */
struct home_block {
    struct box box;
    uint16_t tile;
    struct program_ref ref;
    uint32_t stride;
};

/* Blocks with one and the same box: members[first .. first + count). */
struct home_group {
    struct box box;
    uint32_t first, count;
};

struct home {
    bool known;
    bool read_only; /* shares memory that must keep its contents */
    enum flow_type type;
    uint32_t ready; /* step in which the last of it is written */
    uint32_t count;
    struct home_block *blocks; /* sorted by tile */
    uint32_t *by_tile;         /* blocks of tile t: [by_tile[t], by_tile[t + 1]) */
    uint32_t group_count;
    struct home_group *groups;
    uint32_t *members; /* block indices */
};

struct need {
    uint32_t tensor;
    struct box box;
    uint16_t tile;
    struct program_ref to;
    uint32_t stride;
};

/* An operand box ready for a kernel. */
struct operand {
    struct program_ref ref;
    uint32_t stride;
};

struct box_key {
    uint32_t tensor;
    uint16_t tile, form;
    struct box box;
    uint32_t extra;
};
struct box_entry {
    struct box_key key;
    struct operand operand;
    bool used, dropped;
};
struct box_map {
    struct box_entry *entries;
    uint32_t count, slots;
};

struct local_copy {
    uint16_t tile;
    struct program_copy copy;
};

struct open_step {
    struct vec calls, transfers;
};

struct lower {
    const struct flow *flow;
    const struct plan *plan;
    struct arena *arena;
    struct ipu_error *error;
    int code;
    struct program *program;
    struct home *homes; /* by tensor */
    struct home *store; /* by tensor: buffers of carried values, under the `inside` tensor */
    uint32_t *last_use; /* by tensor: op position, UINT32_MAX for outputs */
    uint32_t
        *yielded_for; /* by tensor: `inside` tensor + 1 of the carried value it is yielded for */
    uint32_t *region_end;  /* by region: position of the end of its repeat */
    uint32_t *first_op;    /* by region: index of its first plan op */
    uint32_t position;     /* of the op being lowered */
    uint32_t region_start; /* first step that belongs to the region instance being lowered */
    uint32_t iterations;   /* of the repeat being lowered; 1 outside */
    const char *name;      /* label of the op being lowered */
    struct vec buffers, steps, specs, lists, tables, uploads, downloads; /* of the program */
    struct vec open; /* struct open_step by step */
    struct vec needs;
    struct vec copies;       /* local copies for the next compute step */
    struct box_map fetched;  /* boxes of computed values that tiles hold beside the homes */
    struct box_map uploaded; /* boxes of host values */
    uint32_t tensor_count;   /* homes[tensor_count ..] are those of partials */
    uint32_t weight_table;   /* index + 1 of the table for computed weights */
    uint32_t *load;          /* scratch by tile */
};

/* build.c */
void *vec_push(struct lower *l, struct vec *vec, size_t size);
bool lower_fail(struct lower *l, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool lower_oom(struct lower *l);
uint32_t buffer_new(struct lower *l, unsigned tile, uint64_t bytes, uint32_t members);
void buffer_touch(struct lower *l, uint32_t buffer, uint32_t step);
struct program_buffer *buffer_at(struct lower *l, uint32_t buffer);
struct program_step *step_at(struct lower *l, uint32_t step);
uint32_t step_new(struct lower *l, enum program_step_kind kind);
/* The number that the next step will get. */
uint32_t step_next(const struct lower *l);
struct program_call *call_new(struct lower *l, uint32_t step, unsigned tile,
                              const struct kernel_spec *spec);
void call_buffer(struct lower *l, uint32_t step, struct program_call *call, unsigned arg,
                 struct program_ref ref);
void call_number(struct program_call *call, unsigned arg, uint32_t value);
/* A call of a kernel without parameters. */
struct program_call *call_plain(struct lower *l, uint32_t step, unsigned tile,
                                enum kernel_family family);
bool program_finish(struct lower *l);

static inline struct program_ref ref_add(struct program_ref ref, uint32_t bytes)
{
    return (struct program_ref){ref.buffer, ref.offset + bytes};
}
static inline uint32_t cells_of(const struct box *box)
{
    return box->rows * box->panels;
}
static inline bool box_equal(const struct box *a, const struct box *b)
{
    return a->row == b->row && a->rows == b->rows && a->panel == b->panel && a->panels == b->panels;
}
static inline bool box_inside(const struct box *in, const struct box *out)
{
    return in->row >= out->row && in->row + in->rows <= out->row + out->rows &&
           in->panel >= out->panel && in->panel + in->panels <= out->panel + out->panels;
}
bool box_common(const struct box *a, const struct box *b, struct box *out);
int64_t view_at(const struct flow_view *view, uint64_t flat);

/* map.c */
struct box_entry *map_find(const struct box_map *map, const struct box_key *key);
struct box_entry *map_add(struct lower *l, struct box_map *map, const struct box_key *key);

/* home.c */
bool home_from_layout(struct lower *l, const struct plan_layout *layout, enum flow_type type,
                      struct home *out);
bool home_index(struct lower *l, struct home *home);
/* The block of `tile` that holds the whole box, or NULL. */
const struct home_block *home_local(const struct home *home, unsigned tile, const struct box *box);
struct program_ref home_ref(const struct home_block *block, const struct box *box,
                            enum flow_type type);
void home_touch(struct lower *l, const struct home *home, uint32_t step);
bool home_same_blocks(const struct home *a, const struct home *b);

/* fetch.c */
bool fetch_need(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                struct program_ref to, uint32_t stride);
/* Emits the exchange for all needs (none when all are local); local copies go to l->copies.
 * `hoist`: all destinations are fresh, so the exchange may join an earlier one. */
bool fetch_flush(struct lower *l, bool hoist);
/* Opens the compute step of the op and puts the local copies first. */
bool compute_open(struct lower *l, uint32_t *step);

/* operand.c */
bool is_host(const struct lower *l, uint32_t tensor);
/* The box of a value on a tile: an alias, an upload, or a need collected for the next flush. With
 * `contiguous` the stride is rows * cell. */
bool operand_box(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                 bool contiguous, struct operand *out);
/* Uploads a host value once, in a layout; boxes of it then travel like those of computed values. */
bool staged_home(struct lower *l, uint32_t tensor, const struct plan_layout *layout);
bool operand_staged(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile,
                    struct operand *out);
/* Rows map(row) .. of a value in the order of the map (map NULL: row 0 for every row). */
bool operand_mapped(struct lower *l, uint32_t tensor, const struct box *box,
                    const struct flow_view *map, unsigned tile, struct operand *out);
/* Forgets a fetched box because its buffer gets other contents. */
void operand_forget(struct lower *l, uint32_t tensor, const struct box *box, unsigned tile);
bool upload_new(struct lower *l, uint32_t tensor, const struct program_upload *form);
bool dead_after(const struct lower *l, uint32_t tensor);

/* The ops. */
bool lower_gemm(struct lower *l, const struct flow_op *op, const struct plan_op *plan);
/* Summing partials: reduce_plan() decides where every job writes its partials (outs, by job),
 * reduce_emit() exchanges and sums them into the result's home after compute step `step`. */
struct reduce;
struct reduce *reduce_plan(struct lower *l, const struct flow_op *op, const struct plan_op *plan,
                           const struct home *home, struct operand *outs);
bool reduce_emit(struct reduce *r, uint32_t step);
bool lower_elementwise(struct lower *l, const struct flow_op *op, const struct flow_op *next,
                       const struct plan_op *plan);
bool lower_permute(struct lower *l, const struct flow_op *op, const struct plan_op *plan);
bool lower_repeat(struct lower *l, const struct flow_op *op, uint32_t plan_index);
bool lower_region(struct lower *l, uint32_t region);
/* Prepares l->homes[tensor]: fresh buffers in `layout`, or those of the carried value that the
 * tensor is yielded for when nothing reads them any more. `in_place_of`: operand (tensor + 1) that
 * an elementwise op may overwrite, 0 = none, RESULT_LATE = the result is written after all operands
 * have been read. */
#define RESULT_LATE UINT32_MAX
bool result_home(struct lower *l, uint32_t tensor, const struct plan_layout *layout,
                 uint32_t in_place_of);

#endif
