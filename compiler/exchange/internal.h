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
 * are disjoint; no control issues in slot S - 1 or S of a send that starts in slot S; and slot S +
 * 1 holds at most one control (encode.c proves it).
 */
#ifndef IPU_EXCHANGE_INTERNAL_H
#define IPU_EXCHANGE_INTERNAL_H

#include "compiler/exchange/exchange.h"
#include "device/ipu21/topology.h"

#include <stdbool.h>

enum { EXCHANGE_UNPLACED = -1 };

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

/* Spans in time order. Everything before index `solid` has no hole that could take the smallest
 * piece of the port. */
struct port {
    struct span *spans;
    uint32_t count, capacity;
    uint32_t solid;
    int32_t smallest; /* words of the smallest piece */
};

struct tile_line {
    struct port send, receive;
    int32_t offset; /* pointer slot minus select slot */
    int32_t send_words, receive_words;
};

/* Working memory of the greedy passes, sized once. */
struct scratch {
    uint32_t *pending;               /* pieces */
    struct exchange_sender *senders; /* 1472 */
    uint32_t *number; /* 1472: position of a tile among the senders + 1; zero between uses */
    int32_t *left;    /* 1472: words a tile still has to receive; zero between uses */
};

struct schedule {
    const struct exchange_phase *phase;
    struct arena *arena;
    struct ipu_error *error;
    struct piece *pieces;
    uint32_t piece_count;
    struct piece_target *targets;
    uint32_t target_count;
    uint32_t components;
    uint32_t *component_first; /* pieces by component: component_piece[first[c] .. first[c + 1]) */
    uint32_t *component_piece;
    int32_t lower_bound;
    struct tile_line *tiles; /* 1472 */
    struct scratch scratch;
};

/* prepare.c: checks the phase, splits transfers into pieces, sizes the time lines. */
IPU_MUST_CHECK int exchange_prepare(struct schedule *s);
/* Pieces that a transfer is split into. */
uint32_t exchange_piece_count(const struct exchange_transfer *transfer);

/* timeline.c */
/* Earliest legal start of a piece at or after `from` on the current time lines. */
int32_t exchange_earliest(const struct schedule *s, const struct piece *piece, int32_t from);
/* Puts a piece at a start that exchange_earliest() has returned. */
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
/* Places pieces of cleared components in the given order; returns the horizon of these pieces. */
int32_t exchange_list(struct schedule *s, const uint32_t *order, uint32_t count);
/* improve.c: looks for shorter schedules of the components that decide the horizon. */
IPU_MUST_CHECK int exchange_improve(struct schedule *s, unsigned effort);

/* encode.c: the row of one tile. */
IPU_MUST_CHECK int exchange_encode(const struct schedule *s, unsigned tile,
                                   struct exchange_row *row);

#endif
