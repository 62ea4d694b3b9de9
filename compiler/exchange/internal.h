/* What the stages of the exchange scheduler share: pieces, tile time lines, placement. Not for
 * other modules.
 *
 * Time is counted in issue slots of a tile's own row (facts/exchange.md section 2). A piece sent in
 * slots [S, S + n) is taken by the multiplexer of receiver d in slots [x, x + n), x = S + ttm; its
 * source select issues in slot x, its release (or the next source) in slot x + n, its pointer write
 * in slot x + offset(d), offset = 52 + 2 * row, and it is stored at events [x + offset + 1, x +
 * offset + 1 + n).
 *
 * A set of placed pieces can always be encoded when, on every tile: sends are disjoint; receives
 * are disjoint; for every send that starts in slot S, no select or release issues in slots S - 1
 * and S, and no pointer write in slots S - 1, S and S + 1 (encode.c says why).
 */
#ifndef IPU_EXCHANGE_INTERNAL_H
#define IPU_EXCHANGE_INTERNAL_H

#include "compiler/exchange/exchange.h"
#include "device/ipu21/topology.h"

#include <stdbool.h>

enum { EXCHANGE_UNPLACED = -1 };

enum {
    EXCHANGE_SPLIT_TARGETS = 32,     /* multicasts to more targets are never split */
    EXCHANGE_SPLIT_BYTES = 16 * 1024 /* default of phase.split_bytes */
};

/* How multicasts are split: not at all, by the column of the receivers, into single transfers. */
enum exchange_split {
    EXCHANGE_SPLIT_NONE,
    EXCHANGE_SPLIT_COLUMNS,
    EXCHANGE_SPLIT_ALL,
    EXCHANGE_SPLITS
};

/* Part of a transfer that is sent in one go. */
struct piece {
    uint32_t address; /* byte address of the first word at the source */
    int32_t words;
    int32_t start;     /* slot of the first word, or EXCHANGE_UNPLACED */
    int32_t earliest;  /* smallest start that makes every source select slot >= 0 */
    int32_t from;      /* no start before this one is legal any more (order.c) */
    uint32_t elements; /* conflict granules that it reads */
    uint32_t target;   /* first entry in `targets` */
    uint32_t target_count;
    uint32_t component; /* pieces of different components share no tile */
    int32_t reach;      /* largest latency to a target: last store is at start + reach + words */
    uint16_t source;    /* logical */
    uint16_t physical;
    uint8_t control; /* send control: direction bits */
};

struct exchange_sender; /* order.c */
struct timed;           /* improve.c */

struct piece_target {
    uint32_t address; /* byte address of the first word at the receiver */
    uint32_t elements;
    uint16_t tile; /* logical */
    int16_t ttm;
};

/* One send or receive on a tile's time line: slots [start, end). */
struct span {
    int32_t start, end;
    uint32_t elements;
    uint32_t piece;
};

/* Spans in time order, and what the search for holes needs. */
struct port {
    struct span *spans;
    uint32_t count, capacity;
    int32_t low;       /* no piece of the port fits before this slot */
    int32_t smallest;  /* words of the smallest piece */
    uint32_t elements; /* granules of all pieces */
};

/* 64 slots of a tile, a bit a slot. */
enum slot_map { MAP_SEND, MAP_RECEIVE, MAP_START, MAP_SELECT, MAP_POINTER, MAP_COUNT };
struct slot_block {
    uint64_t map[MAP_COUNT];
};

struct tile_line {
    struct port send, receive;
    struct slot_block
        *blocks; /* slot t is bit t % 64 of block t / 64 + 1; one zero block follows */
    uint32_t block_count;
    int32_t offset; /* pointer slot minus select slot */
    int32_t send_words, receive_words;
};

/* Working memory of the greedy passes, sized once. */
struct scratch {
    uint32_t *pending;               /* pieces */
    struct exchange_sender *senders; /* 1472 */
    uint32_t *number;    /* 1472: position of a tile among the senders + 1; zero between uses */
    int32_t *left;       /* 1472: words a tile still has to receive; zero between uses */
    uint32_t *trial;     /* pieces: an order being tried */
    struct timed *timed; /* pieces (improve.c) */
};

struct schedule {
    const struct exchange_phase *phase;
    struct arena *arena;
    struct ipu_error *error;
    enum exchange_split split;
    struct piece *pieces;
    uint32_t piece_count;
    struct piece_target *targets;
    uint32_t target_count;
    uint32_t components;
    uint32_t *component_first; /* pieces by component: component_piece[first[c] .. first[c + 1]) */
    uint32_t *component_piece;
    int32_t *component_bound;   /* no schedule of the component is shorter */
    int32_t lower_bound;        /* the largest of them */
    int32_t *component_horizon; /* of the best starts */
    uint64_t *component_steps;  /* that listing took */
    int32_t *best;              /* best start of every piece */
    uint32_t *order;            /* pieces by component, in the order of placing */
    struct tile_line *tiles;    /* 1472 */
    struct scratch scratch;
    int32_t look_back; /* holes further before the end of both ports are not looked at */
    uint64_t steps;    /* of the searches so far: the measure of effort */
    bool failed;       /* memory ran out: placings and orders since then are not to be used */
};

/* prepare.c: checks the phase, splits transfers into pieces, sizes the time lines. */
IPU_MUST_CHECK int exchange_prepare(struct schedule *s);
/* Whether multicasts of the phase may be split: no tile's row can grow large by it. */
bool exchange_may_split(const struct exchange_phase *phase);
/* Pieces that a transfer is split into. */
uint32_t exchange_piece_count(const struct exchange_transfer *transfer);

/* timeline.c */
/* Earliest legal start of a piece at or after `from` on the current time lines. */
int32_t exchange_earliest(struct schedule *s, const struct piece *piece, int32_t from);
/* Puts a piece at a start that exchange_earliest() has returned. Out of memory is noted in
 * `failed`. */
void exchange_place(struct schedule *s, uint32_t piece, int32_t start);
/* Takes everything of one component off the time lines. */
void exchange_clear(struct schedule *s, uint32_t component);
/* Events until the row of a tile may return. */
int32_t exchange_tile_horizon(const struct schedule *s, unsigned tile);

/* order.c */
/* Gets the scratch memory of the greedy passes. */
IPU_MUST_CHECK int exchange_order_prepare(struct schedule *s);
/* Places all pieces of a cleared component by list scheduling; returns its horizon. */
int32_t exchange_dispatch(struct schedule *s, uint32_t component);
/* Places pieces of cleared components in the given order; returns the horizon of these pieces.
 */
int32_t exchange_list(struct schedule *s, const uint32_t *order, uint32_t count);
/* rounds.c: orders for exchange_list(); `order` has room for the component's pieces. False: the
 * rule does not apply. Out of memory is noted in `failed`, and then the order is not to be used. */
void exchange_order_by_rank(struct schedule *s, uint32_t component, uint32_t *order);
bool exchange_order_by_colour(struct schedule *s, uint32_t component, uint32_t *order);
/* At most `limit` steps. */
bool exchange_order_by_waste(struct schedule *s, uint32_t component, uint64_t limit,
                             uint32_t *order);

/* improve.c */
/* Finds a first schedule of every component. */
IPU_MUST_CHECK int exchange_construct(struct schedule *s);
/* Looks for shorter schedules of the components that decide the horizon. */
IPU_MUST_CHECK int exchange_improve(struct schedule *s, unsigned effort);
/* Puts the best schedule of a component on the time lines. */
void exchange_restore(struct schedule *s, uint32_t component);

/* encode.c: the row of one tile. */
IPU_MUST_CHECK int exchange_encode(const struct schedule *s, unsigned tile,
                                   struct exchange_row *row);

#endif
