/* Private structures of the planner, in the order in which they are built.
 *
 *   model     the flow flattened: every operation with its operands resolved to producers
 *   lay       a separable layout: row cuts x panel cuts, `reps` owners per cell; interned, so equal
 *             layouts are the same pointer
 *   choice    the decision for one operation, 22 bytes: what recipes consist of
 *   cand      a choice made concrete for a class of equally shaped operations
 *   solution  one candidate index per operation: a whole plan (search.h searches over them)
 *
 * A space owns all of them for one thread; nothing is shared between spaces. Memory comes from the
 * space's arena; when it runs out `space->oom` is set and lookups return NULL.
 */
#ifndef IPU_PLAN_INTERNAL_H
#define IPU_PLAN_INTERNAL_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/plan_costs.h"

#include <assert.h>

enum source_kind { SOURCE_NONE, SOURCE_HOST, SOURCE_OP, SOURCE_FIXED };

/* Where an operand's layout comes from: the host (any layout), the operation `index` that produces
 * it, or the balanced layout of tensor `index`. */
struct model_source {
    enum source_kind kind;
    uint32_t index;
    uint32_t tensor;
    uint32_t copies; /* HOST: resident copies: members of a sequence, else 1 */
};

struct model_op {
    const struct flow_op *flow;
    uint32_t region, op;
    uint64_t executions;     /* counts of the enclosing repeats multiplied */
    uint32_t batch, rows;    /* GEMM: rows per batch; else rows of the result */
    uint32_t inners, panels; /* GEMM: inner panels; panels of the result */
    uint32_t out_words;      /* 32-bit words of a result cell: 8 (f16), 16 (f32) */
    struct model_source a, b;
    uint32_t class_index;
    uint32_t begin, end;      /* lifetime of the result, as positions in execution order */
    uint32_t position, close; /* own position; REPEAT: position after its body */
    bool in_place;            /* the first operand dies here */
    bool fusable;             /* ADD whose unary successor may join it */
};

struct model {
    const struct flow *flow;
    uint32_t op_count, class_count, tiles;
    struct model_op *ops;        /* in the order of plan.ops */
    uint32_t *order;             /* op indices in execution order, a REPEAT before its body */
    uint32_t *first_op;          /* by region */
    uint32_t *class_op;          /* by class: a representative op */
    uint32_t *producer;          /* by tensor: op index of a COMPUTED tensor, UINT32_MAX else */
    uint32_t *last_use;          /* by tensor: last position that reads it, 0 = never */
    struct model_source *source; /* by tensor */
    struct flow_carried **carry; /* by tensor: carried record of CARRIED and RESULT tensors */
};

struct lay {
    uint32_t id;
    uint32_t nr, np, reps;
    uint32_t *row_cut, *panel_cut; /* nr + 1, np + 1 */
    uint16_t *tile;                /* [(r * np + p) * reps + q] */
    uint32_t *own_at, *own;        /* cells of tile t: own[own_at[t] .. own_at[t + 1]) */
    uint32_t *cells;               /* by tile: cells owned */
    uint32_t max_cells, max_blocks, max_rows, max_panels, active;
    uint64_t hash;
};

enum choice_kind { CHOICE_NONE, CHOICE_GEMM, CHOICE_FOLLOW_A, CHOICE_FOLLOW_B, CHOICE_GRID };
enum choice_flag {
    CHOICE_ANYWHERE = 1, /* weights in either memory region */
    CHOICE_STAGED = 2    /* the left operand, a host tensor, travels from a balanced layout */
};
/* How much speed the enumerated products give for memory: nothing; passes with large operands; the
 * passes that take least memory together with their text. */
enum thrift { THRIFT_NONE, THRIFT_SOME, THRIFT_MOST, THRIFT_LEVELS };
enum { GRID_ORDERS = 6, GEMM_PRICE_SLOTS = 1 << 13 };

struct plan_choice {
    uint8_t kind;
    uint8_t order;     /* which grid axis is fastest in tile numbers */
    uint8_t replicate; /* GEMM: every K partner owns the whole reduced block */
    uint8_t flags;     /* GEMM: enum choice_flag */
    uint16_t gb, gm, gn, gk;
    uint16_t sr, sp; /* GEMM: row and panel parts of a block scattered over K partners */
    uint16_t offset; /* first tile */
    uint16_t chunk;  /* GEMM: inner panels per f16 partial */
    uint8_t row_passes, panel_passes; /* GEMM: plan.h; at least 1 */
};

struct cand {
    struct plan_choice choice;
    bool ready, bad;
    struct lay *out;             /* NULL for FOLLOW choices */
    struct lay *need_a, *need_b; /* GEMM operand boxes: rows x inner panels, inner rows x panels */
    struct lay *partial;         /* GEMM: the jobs' own blocks, reps = gk */
    uint32_t compute;            /* cycles outside exchanges */
    uint32_t exchange;           /* cycles of the reduction's exchange */
    uint32_t parts;              /* partials per cell */
    uint32_t *cells;             /* PERMUTE: source cells that each tile needs */
};

struct cand_class {
    uint32_t count, capacity;
    struct cand *list;
    uint32_t ranked; /* the first `ranked` come from enumeration, best proxy first */
};

struct cost {
    uint64_t cycles, exchange;
};
struct op_cost {
    uint32_t cycles, exchange;
};

struct solution {
    uint16_t *pick; /* candidate index by op */
    struct cost cost;
};

struct memory_use {
    uint64_t total, interleaved, standard; /* peaks over tiles and time, bytes */
    uint64_t bound; /* peak of what only region 1 can hold: interleaved and large buffers */
    uint64_t largest_standard; /* largest single standard buffer */
    uint64_t text;             /* of the fullest tile, where it is counted */
    uint32_t tile, op;         /* where the total peaks */
};

struct u32_list {
    uint32_t *at;
    uint32_t count, capacity;
};

struct memo_entry {
    uint64_t key; /* 0 = empty */
    struct op_cost cost;
};

struct space {
    struct arena *arena;
    const struct model *model;
    uint32_t tiles;
    struct cand_class *classes;
    struct lay **lays, **lay_slots;
    uint32_t lay_count, lay_capacity, lay_slot_count;
    struct memo_entry *memo;
    uint64_t *gemm_prices; /* direct-mapped: key in the high half, cycles in the low half */
    uint32_t memo_count, memo_slots;
    struct lay **value;  /* scratch: layout by op of the solution being priced */
    uint8_t *mark;       /* scratch for cycle detection */
    struct lay **fixed;  /* by tensor: balanced layouts made so far */
    struct lay **staged; /* by tensor: layouts of staged host operands */
    uint32_t *receive, *send, *receive_runs, *send_runs, *copies; /* scratch by tile */
    uint32_t *stamp;                                              /* scratch by tile */
    uint32_t stamp_now;
    bool unicast; /* of the traffic being added: some runs have one receiver */
    struct u32_list row_cuts, panel_cuts, tiles_list, pairs_r, pairs_p, remote;
    uint64_t *visited; /* open addressing, 0 = empty: hashes of recipes tried */
    uint32_t visited_count, visited_slots;
    uint64_t units;      /* work done: one unit = one layout-aware price */
    uint64_t candidates; /* whole plans priced */
    uint64_t limit;      /* bytes of a tile that a plan may fill */
    bool count_text;     /* argument blocks and exchange rows are part of them */
    bool oom;
};

/* model.c */
IPU_MUST_CHECK int model_build(const struct flow *flow, struct arena *arena, struct model **out,
                               struct ipu_error *error);
uint64_t model_hash(const struct flow *flow);

/* space.c */
IPU_MUST_CHECK int space_open(const struct model *model, struct space **out,
                              struct ipu_error *error);
void space_close(struct space *space);
/* Recipes seen before: true when `hash` was already in the set; adds it otherwise. */
bool visited_add(struct space *space, uint64_t hash);
void u32_push(struct space *space, struct u32_list *list, uint32_t value);

/* layout.c. Balanced cut: part i of n items in g parts begins at i * n / g. */
static inline uint32_t cut_at(uint32_t n, uint32_t g, uint32_t i)
{
    assert(g != 0);
    return (uint32_t)((uint64_t)n * i / g);
}
/* Interns what row_cuts, panel_cuts and tiles_list hold. */
struct lay *lay_intern(struct space *space, uint32_t reps);
struct lay *lay_grid(struct space *space, uint32_t rows, uint32_t panels, uint32_t gm, uint32_t gn,
                     unsigned order, uint32_t offset);
struct lay *lay_balanced(struct space *space, uint32_t tensor);
/* A host operand that travels: each tile has as many rows of as few panels as there can be, so that
 * boxes of it travel in long runs. */
struct lay *lay_staged(struct space *space, uint32_t tensor);
void lay_balanced_grid(uint64_t rows, uint64_t panels, uint32_t tiles, uint32_t *gm, uint32_t *gn);
/* Tile numbers of a GEMM grid: coordinates times strides, from the choice's offset. */
struct grid_strides {
    uint32_t offset, group, i, j, k, tiles;
};
struct grid_strides grid_strides(const struct plan_choice *c, uint32_t tiles);
static inline uint32_t grid_tile(const struct grid_strides *g, uint32_t group, uint32_t i,
                                 uint32_t j, uint32_t k)
{
    uint32_t tile = g->offset + group * g->group + i * g->i + j * g->j + k * g->k;
    return tile < g->tiles ? tile : tile - g->tiles;
}
bool lay_emit(const struct lay *lay, struct arena *arena, struct plan_layout *out);

/* gemm.c: layouts and own cost of a GEMM choice. */
void gemm_ready(struct space *space, const struct model_op *op, struct cand *cand);
/* Bytes by which a tile's slots for partials may exceed their cells, per job. */
uint64_t gemm_gap_bytes(const struct model_op *op, const struct plan_choice *c);
/* The boxes of the right operand, made at first use; NULL when memory is out. */
struct lay *gemm_right(struct space *space, const struct model_op *op, struct cand *cand);
uint32_t gemm_group(uint32_t batch, uint32_t groups, uint32_t b);
/* Cycles of the fullest tile: products and reduction; *exchange gets the reduction's exchange. */
uint32_t gemm_compute_cycles(struct space *space, const struct model_op *op,
                             const struct plan_choice *c, uint32_t *exchange);
/* plan_cost_gemm() remembered and, past a few panels, extended along its constant slopes. */
uint32_t gemm_call_cycles(struct space *space, uint32_t rows, uint32_t inners, uint32_t panels);
uint32_t gemm_chunks(uint32_t inners, uint32_t chunk);
/* Fills in the defaults that follow from the grid; false when the choice is not legal. */
bool gemm_choice_fix(const struct model_op *op, uint32_t tiles, struct plan_choice *choice);
/* Rows and panels of the largest job of one pass, and its largest piece of the scattered result. */
struct gemm_pass {
    uint32_t rows, panels, piece_rows, piece_panels;
};
struct gemm_pass gemm_pass_of(const struct model_op *op, const struct plan_choice *choice);
static inline uint32_t gemm_passes(const struct plan_choice *c)
{
    return (uint32_t)c->row_passes * c->panel_passes;
}

/* permute.c: source cells that each tile needs for its blocks of a permuted result. */
bool permute_cells(struct space *space, const struct model_op *op, const struct lay *out,
                   uint32_t *by_tile);

/* thrift.c. Bytes of the fullest tile for this operation alone. */
uint64_t gemm_choice_bytes(const struct model_op *op, const struct plan_choice *choice);
/* Of one owner of a piece of a scattered result, over all passes: calls that sum (a piece cut by
 * row passes is summed panel by panel) and runs in which it receives each other partial. */
struct gemm_sums {
    uint64_t calls, runs;
};
struct gemm_sums gemm_sums_of(const struct model_op *op, const struct plan_choice *choice);
/* Flags and passes of a grid with its scatter; gemm_choice_fix() is still to be called. */
void choice_thrift(const struct model_op *op, enum thrift thrift, struct plan_choice *choice);

/* candidates.c. Appends to the lists; called once for each level of thrift that is needed. */
bool candidates_enumerate(struct space *space, unsigned limit, enum thrift thrift);
/* Index of the candidate with this choice, added when new; UINT32_MAX when illegal. */
uint32_t candidate_find(struct space *space, uint32_t class_index,
                        const struct plan_choice *choice);
struct cand *candidate_get(struct space *space, uint32_t op, uint32_t pick);

/* price.c */
void traffic_reset(struct space *space);
void traffic_add(struct space *space, const struct lay *source, const struct lay *need,
                 uint32_t words);
/* Whether every box that tile t needs lies inside one of its own blocks of `source`. */
bool traffic_local(const struct lay *source, const struct lay *need, uint32_t t);
uint32_t traffic_cycles(struct space *space, uint32_t *copy_cycles);
struct lay *need_second(struct space *space, const struct model_op *op, struct lay *out);
struct op_cost price_op(struct space *space, uint32_t op, uint32_t pick, struct lay *a,
                        struct lay *b, struct lay *out);
/* Resolves the layout of every operation's result; false when one is not available. */
bool solution_layouts(struct space *space, const uint16_t *pick);
struct lay *solution_source(struct space *space, const struct model_source *source);
/* The layout from which the left operand of an operation travels; NULL: from the host. */
struct lay *solution_left(struct space *space, const struct model_op *op, const struct cand *cand);
bool solution_price(struct space *space, struct solution *solution);
struct op_cost solution_op_cost(struct space *space, const uint16_t *pick, uint32_t op);

/* memory.c */
bool solution_memory(struct space *space, const uint16_t *pick, struct memory_use *use);
bool memory_fits(const struct space *space, const struct memory_use *use);
/* By how many bytes the limits are exceeded. */
uint64_t memory_excess(const struct space *space, const struct memory_use *use);
uint64_t candidate_bytes(struct space *space, uint32_t op, uint32_t pick);
/* By tile: bytes of exchange rows and of the calls of products, an estimate from runs and passes.
 */
bool solution_text(struct space *space, const uint16_t *pick, uint64_t *text);

#endif
