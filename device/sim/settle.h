/* Private to device/sim: the exchange fabric. Moves the words of one round.
 *
 * A round begins when every tile has stopped. Each tile is a port: its log of sends and receive
 * controls, its registers as they were when the log began, and its SRAM. settle_run() decides which
 * word every port heard in which slot, where it is stored, and copies. All times are chip cycles
 * (slot 0 of a log is port.epoch). Facts: facts/exchange.md sections 2 to 7.
 *
 * Numbering. A send puts its first word on the bus in slot S. The receiver's multiplexer passes it
 * in its own slot m = S + ttm; the select in force is the latest one ISSUED in a slot <= m. Memory
 * takes it with the pointer issued latest in a slot <= m + 52 + 2 * row, called `stored` here; the
 * store itself is the event after that.
 */
#ifndef IPU_SIM_SETTLE_H
#define IPU_SIM_SETTLE_H

#include "device/ipu21/topology.h"
#include "device/sim/tile.h"

struct sim_pool;
struct host_stream;

enum {
    SETTLE_POINTER_DELAY = 52 /* mux slot to pointer slot in row 0, facts/exchange.md section 2 */
};

/* Receive error codes, facts/exchange.md section 7. */
enum settle_receive_error {
    SETTLE_NO_ERROR,
    SETTLE_CLASH_ACCESS,
    SETTLE_CLASH_FETCH,
    SETTLE_BAD_ADDRESS,
    SETTLE_WORKERS,
    SETTLE_DATA_BREAK,
    SETTLE_CONFIGURATION,
    SETTLE_MODE
};

/* A contiguous stretch of one outgoing bus. */
struct settle_send {
    int64_t start;
    uint32_t items, address, pc;
    uint8_t control;
};

/* A stretch of words that one port receives from one source at consecutive addresses. */
struct settle_piece {
    int64_t sent, stored;
    uint32_t from, to, items;
    uint16_t source; /* logical */
    uint8_t size;    /* bytes of an item: 4 or 8 */
    uint8_t direction;
};

/* A write to a receive register, in issue order. */
struct settle_control {
    int64_t slot;
    uint32_t value, pc;
    bool base; /* in the pointer list: INCOMING_BASE changes, not the pointer */
};

struct settle_row {
    uint32_t address, bytes, words;
};

struct settle_list {
    void *data;
    size_t count, room;
};

enum settle_timeline { SETTLE_MUX, SETTLE_PAIR, SETTLE_POINTER, SETTLE_FORMAT, SETTLE_TIMELINES };

struct settle_port {
    /* given for a round */
    struct sim_tile *tile; /* may be NULL: synthetic ports of tests */
    unsigned logical, physical;
    uint8_t *sram;
    const struct sim_event *events;
    size_t event_count;
    uint64_t epoch;
    uint64_t stop_cycle; /* where the tile stopped */
    bool went_on;        /* it stopped to touch memory or start workers, not in a sync */
    struct sim_exchange_state *state; /* when the log began; updated by the round */
    const struct settle_row *rows;    /* sorted by address */
    size_t row_count;

    /* the round's working state */
    bool active;
    bool hears_itself; /* some piece comes from the port's own bus */
    struct settle_list timeline[SETTLE_TIMELINES];
    struct settle_list sends, runs, pieces;
    struct host_stream *host;
    uint32_t code_mask;                 /* conflict granules that row code is fetched from */
    uint32_t final_base, final_pointer; /* of INCOMING_BASE and the receive pointer */

    /* results */
    uint64_t received;    /* words */
    uint64_t misdirected; /* words that a selected source sent the other way */
    int64_t last_store;   /* cycle after the last store since a sync released the tile, or 0 */
    bool faulted;
    struct sim_fault fault;
    char sentence[128]; /* of the fault, without its place */
};

struct settle {
    struct settle_port ports[IPU21_TILES]; /* by logical tile */
    struct sim_pool *pool;
    bool strict;
    struct settle_list active; /* uint16_t logical numbers of this round */
    uint64_t words;            /* moved since creation, for statistics */
};

/* Ports must be zeroed; settle_init() fills numbers. */
void settle_init(struct settle *settle);
void settle_free(struct settle *settle);
/* Settles the ports that have events or listen to a tile. False: some port has faulted. */
bool settle_run(struct settle *settle);

/* --- shared by the settle files --- */
/* Room for one more element; NULL when memory is exhausted. */
void *settle_push(struct settle_list *list, size_t size);
/* Keeps the earliest fault of a port. */
void settle_fault(struct settle_port *port, enum sim_etype etype, enum settle_receive_error error,
                  int64_t cycle, uint32_t pc, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
void settle_no_memory(struct settle_port *port);
/* Splits a port's log into sends, timelines and host words. */
void settle_collect(struct settle_port *port);
/* What the port heard (runs), and where it went (pieces). Reads other ports' sends. */
void settle_receive(struct settle *settle, struct settle_port *port);
void settle_place(struct settle *settle, struct settle_port *port);
/* Conflicts on the port, late data, received words of its rows. */
void settle_check(struct settle *settle, struct settle_port *port);
/* Words that only their sender hears, after settle_check() of all ports. */
void settle_check_self(struct settle *settle);
/* Copies all pieces of the round. */
bool settle_copy(struct settle *settle);
/* The registers after the round. */
void settle_update(struct settle_port *port);

static inline bool settle_is_tile(uint32_t mux)
{
    return mux < IPU21_PHYSICAL_IDS;
}
static inline bool settle_is_host(uint32_t mux)
{
    return mux >= 0x600 && mux < 0x640;
}
static inline uint32_t settle_initial(const struct settle_port *port, enum settle_timeline which)
{
    const struct sim_exchange_state *state = port->state;
    return which == SETTLE_MUX    ? state->incoming_mux
           : which == SETTLE_PAIR ? state->incoming_mux_pair
                                  : state->incoming_format;
}
/* Value of a timeline in `slot`: that of the latest control issued in a slot <= it. */
uint32_t settle_value_at(const struct settle_port *port, enum settle_timeline which, int64_t slot);

#endif
