/* Private to device/sim: contexts, decoded instructions, and what instruction handlers share.
 *
 * A handler executes one half of an instruction word or bundle. It reads and writes registers by
 * index; index 16 and up are scratch registers that stand in for dropped destinations (zero
 * registers) and for loads whose result must not be seen by the other half of the bundle. Handlers
 * return 0 or a tile exception type.
 */
#ifndef IPU_SIM_CORE_H
#define IPU_SIM_CORE_H

#include "device/ipu21/timing.h"
#include "device/sim/tile.h"

#include <string.h>

enum {
    SIM_SCRATCH = 16, /* first scratch index of both register files: dropped results */
    SIM_STAGE = 20,   /* ARF: loads of a bundle that wait for its aux half, which may drop too */
    SIM_M_COUNT = 18,
    SIM_A_COUNT = 24,
    SIM_PAGE_BYTES = 1024,
    SIM_PAGE_WORDS = SIM_PAGE_BYTES / 4,
    SIM_REGION0_BYTES = IPU21_REGION1_BASE - IPU21_SRAM_BASE,
    SIM_PAGES = SIM_REGION0_BYTES / SIM_PAGE_BYTES,
    SIM_CWEI_SLOTS = 64,
    SIM_NO_REPEAT = 1 /* never a PC: instructions are 4-byte aligned */
};

/* FP_CTL, FP_ICTL and FP_STS bits, facts/csrs.tsv. */
enum {
    SIM_FP_INV = 1,
    SIM_FP_DIV0 = 2,
    SIM_FP_OFLO = 4,
    SIM_FP_RND_SHIFT = 16,
    SIM_FP_ESR = 1 << 19,
    SIM_FP_NANOO = 1 << 20,
    SIM_FP_CTL_MASK = 0x1f0007
};

struct sim_context;
struct sim_half;
typedef int sim_exec(struct sim_context *c, const struct sim_half *h);

/* One decoded lane. r[i] is the register index of operand i (write index for destinations, read
 * index otherwise); read-write operands get their write index in r[4], a second one in r[5]. imm is
 * the (last) immediate, extra the first of two. */
struct sim_half {
    sim_exec *run;
    int32_t imm;
    uint32_t extra;
    uint8_t r[6];
    uint16_t form;
};

enum sim_shape {
    SIM_LONE_MAIN,
    SIM_LONE_AUX,
    SIM_BUNDLE,
    SIM_BUNDLE_SETZI, /* the aux half is setzi, which fnop is */
    SIM_BUNDLE_STAGED /* the main half's loads land in scratch registers first */
};

/* Bundles that run many at a time. Those of fused.inc: f16v4hihov4amp in all its units beside ...
 */
enum sim_fused {
    SIM_FUSED_NONE,
    SIM_FUSED_LD2XST64PACE,
    SIM_FUSED_LDST64PACE,
    SIM_FUSED_LD2X64PACE,
    SIM_FUSED_ST64PACE,
    SIM_FUSED_LD64, /* ld64 and st64 with an immediate offset */
    SIM_FUSED_ST64,
    SIM_FUSED_AMP,  /* nothing: the lone instruction */
    SIM_FUSED_COPY, /* first bundle of a repeat that moves memory: fused_move.c */
    SIM_FUSED_FILL
};

/* One decoded instruction or bundle as a worker sees it. */
struct sim_op {
    struct sim_half main, aux;
    uint8_t shape;
    uint8_t size;       /* bytes: 4 or 8 */
    uint8_t cycles;     /* 6 * issue slots */
    uint8_t repeatable; /* may stand in an rpt body */
    uint8_t fused;      /* enum sim_fused */
    uint8_t load[2];    /* fused: register pairs that the main half loads, or scratch */
    struct {
        uint8_t from, to, count;
    } commit[2]; /* scratch to destination, after both halves */
};

/* Accumulators by set and unit: even[s][u] is AACC[16s + 2u], odd[s][u] the one after it. */
struct sim_accumulators {
    float even[2][8], odd[2][8];
} __attribute__((aligned(64)));

/* A worker or the supervisor (which uses only the main lane). */
struct sim_context {
    uint32_t m[SIM_M_COUNT];
    uint32_t a[SIM_A_COUNT];
    struct sim_accumulators acc;
    struct sim_tile *tile;
    uint8_t *sram;
    uint64_t cycle; /* issue cycle of the next instruction */
    uint64_t prng[2];
    uint32_t pc, next_pc;
    uint32_t repeat_first, repeat_end, repeat_left; /* repeat_end SIM_NO_REPEAT = none */
    uint32_t repeat_last; /* REPEAT_END as get sees it: after the latest body */
    uint32_t fp_ctl, fp_sts, fp_nfmt, fp_scl, tas;
    uint32_t wsr, dbg_data, dbg_brk_id;
    uint64_t bundles;
    const char *reason; /* of a fault: constant sentence part */
    uint32_t address;   /* of a fault: the data address, when reason asks for it */
    uint8_t number;     /* 0 supervisor, 1..6 workers */
    bool active;
};

/* Coefficients widened to f32, one vector of eight units for each k: [set][phase][k][unit]. */
struct sim_weights {
    float f16[2][4][4][8];
    float f8[2][4][8][8];
} __attribute__((aligned(64)));

struct sim_page;

struct sim_tile {
    struct sim_context context[7]; /* 0 supervisor */
    void *block;                   /* the allocation that holds this aligned struct */
    uint8_t *sram;
    struct sim_code *code;
    bool owns_code;
    bool plain; /* SIM_PATH_PLAIN */
    unsigned logical;
    struct sim_page *pages[SIM_PAGES];   /* decoded worker code, NULL = not decoded */
    struct sim_page *retired[SIM_PAGES]; /* dropped while a bundle of theirs may still execute */
    unsigned retired_count;

    uint64_t cwei[SIM_CWEI_SLOTS]; /* slot 4 * unit + m */
    struct sim_weights weights;
    bool f16_valid, f8_valid;  /* weights hold the widened cwei */
    uint32_t csr[256];         /* supervisor registers without other storage */
    bool consensus, run_error; /* SSR.LC, SSR.RAERR */
    unsigned active_workers;
    bool ahead;      /* workers may have run past the supervisor: supervisor.c */
    uint64_t joined; /* when a local sync may end: after the latest exit */
    uint32_t cost;   /* cycles of the supervisor instruction being executed */

    uint64_t ready[SIM_M_COUNT]; /* cycle from which a supervisor register may be used */
    struct sim_word *words;      /* supervisor decode cache, see supervisor.c */
    uint64_t epoch;
    struct sim_exchange_state exchange;
    uint32_t stream_control; /* sctl of the open outgoing stream */
    struct sim_event *events;
    size_t event_count, event_room;

    bool waiting; /* in a sync other than LOCAL */
    unsigned zone;
    uint8_t halted;     /* contexts stopped by an exception, bit 0 the supervisor */
    uint8_t run_break;  /* contexts to be stopped */
    bool break_on_sync; /* stop before each sync ... */
    bool passes_sync;   /* ... but the next one */
    bool faulted;
    struct sim_fault fault;
};

/* One handler for each form. A missing definition fails to link: no instruction is without
 * semantics. */
#define FORM(id, ...) sim_exec sim_exec_##id;
#include "device/ipu21/isa.def"
#undef FORM
extern sim_exec *const sim_handlers[ISA_COUNT];

/* --- decode.c --- */
sim_exec sim_exec_none, sim_exec_invalid, sim_exec_invalid_operands, sim_exec_wrong_mode;
/* Decodes what a worker sees at a word; `next` is the following word; `fast` as in sim_handler().
 */
void sim_decode_worker(uint32_t word, uint32_t next, bool fast, struct sim_op *op);
/* Decodes a supervisor word; reads and writes are register masks. False: no legal instruction. */
bool sim_decode_supervisor(uint32_t word, uint32_t next, struct sim_half *half,
                           struct isa_inst *inst, uint32_t *reads, uint32_t *writes);

/* --- fused.c --- */
/* Fills op->fused and op->load of a legal instruction; `main` NULL: a lone aux instruction. */
void sim_fused_mark(struct sim_op *op, const struct isa_inst *main, const struct isa_inst *aux);
/* Runs fused bundles from the PC on that issue before `until` and lie in `page`, and leaves off
 * before anything unusual: a fault, a store into code, a result that f16 does not hold. Returns
 * their number, which may be 0. */
typedef uint64_t sim_fused_run(struct sim_context *c, const struct sim_page *page, uint64_t until);
sim_fused_run sim_exec_FUSED;
/* The fused loop of a path, or NULL. */
sim_fused_run *sim_fused_loop(enum sim_path path);

/* --- fused_move.c --- */
struct sim_page;
/* Marks the repeats of a decoded page that copy or fill. */
void sim_fused_mark_moves(struct sim_page *page);
/* Runs whole trips of such a repeat that issue before `until`; returns the bundles, or 0. */
uint64_t sim_fused_move(struct sim_context *c, const struct sim_op *op, uint64_t until);

/* --- code.c --- */
struct sim_page {
    struct sim_page *next; /* hash chain */
    sim_fused_run *fused;  /* NULL: instructions run one at a time */
    uint64_t hash;
    unsigned references;
    uint32_t bytes[SIM_PAGE_WORDS + 1]; /* with the first word of the following page */
    struct sim_op ops[SIM_PAGE_WORDS];
};
enum sim_path sim_code_path(const struct sim_code *code);
/* The decoded page `index` of a tile, decoding it when needed; NULL: out of memory. */
const struct sim_page *sim_code_fetch(struct sim_tile *tile, unsigned index);
/* A byte range of region 0 changed. `defer`: a decoded instruction of the tile is executing. */
void sim_code_drop(struct sim_tile *tile, uint32_t address, uint32_t bytes, bool defer);
void sim_code_flush(struct sim_tile *tile);

/* --- worker.c --- */
/* Runs a worker's instructions that issue before `until`. Returns 0 or an exception type. */
int sim_worker_run(struct sim_tile *tile, struct sim_context *c, uint64_t until);
/* Starts an idle worker; its first slot is the first one of its phase at or after `cycle`. */
void sim_worker_start(struct sim_tile *tile, unsigned worker, uint32_t pc, uint32_t base,
                      uint64_t cycle);

/* Runs all workers' instructions before `until`; records the earliest fault and returns false. */
bool sim_workers_run(struct sim_tile *tile, uint64_t until);

/* --- supervisor.c --- */
enum { SIM_WORD_CACHE = 64 };
struct sim_word *sim_words_create(void);
enum sim_stop sim_supervisor_run(struct sim_tile *tile, uint64_t limit);

/* --- exec_exchange.c --- */
/* The exchange registers of CSR space 0xa0..0xab. */
uint32_t sim_exchange_get(const struct sim_tile *tile, unsigned index);
int sim_exchange_put(struct sim_tile *tile, unsigned index, uint32_t value);

/* --- tile.c --- */
/* INVALID_ADDR with the reason: not aligned to its size, or outside SRAM. */
int sim_bad_access(struct sim_context *c, uint32_t address, uint32_t size);
/* Records the fault of a context with its reason. */
void sim_tile_record(struct sim_tile *tile, struct sim_context *c, enum sim_etype etype);

/* --- debug.c --- */
/* sim_tile_run() of a tile that has run-breaks. */
enum sim_stop sim_debug_run(struct sim_tile *tile, uint64_t limit);
/* Whether the supervisor has to stop before the sync it is about to execute. */
bool sim_debug_stops_sync(struct sim_tile *tile);

/* --- exec_amp.c --- */
void sim_weights_widen_f16(struct sim_tile *tile);
void sim_weights_widen_f8(struct sim_tile *tile);

/* --- exec_f16_avx2.c --- */
/* Whether this host has AVX2 and F16C. Asks the processor: call it once, not for each word. */
bool sim_host_is_fast(void);
/* The handler of a form; with `fast` its faster twin if there is one (same bits). */
sim_exec *sim_handler(unsigned form, bool fast);

/* --- csr.c --- */
int sim_csr_get(struct sim_context *c, unsigned index, uint32_t *value);
int sim_csr_put(struct sim_context *c, unsigned index, uint32_t value);

/* Sets the reason of a fault and returns its type; a nonzero address is printed behind it. */
static inline int sim_fault_at(struct sim_context *c, int etype, const char *reason,
                               uint32_t address)
{
    c->reason = reason;
    c->address = address;
    return etype;
}

/* Raises floating point flags; returns the exception type when one of them is enabled. */
static inline int sim_raise_fp(struct sim_context *c, uint32_t flags)
{
    c->fp_sts |= flags;
    if ((c->fp_ctl & flags) == 0)
        return SIM_ETYPE_NONE;
    return sim_fault_at(c, SIM_ETYPE_FP, "an enabled floating point exception was raised", 0);
}

/* One step of xoroshiro128aox, facts/isa_semantics.md section 5. */
uint64_t sim_random(struct sim_context *c);

#include "device/sim/access.h"

#endif
