/* Private to device/sim: the exchange blocks, which turn packets of tiles into accesses to host
 * pages. Facts: facts/host_protocol.md section 9.
 *
 * A tile whose multiplexer selects its column's block sends it packets. The owner tile of a column
 * first grants targets (XREQ); a target then asks for host words (short or long read), stores words
 * (header and payload) or closes (a read of no bytes). Words that arrive count INCOMING_DCOUNT
 * down, a close counts one [G].
 */
#ifndef IPU_SIM_HOST_H
#define IPU_SIM_HOST_H

#include "device/sim/settle.h"

enum {
    HOST_MAX_PAGES = 64,
    HOST_PAGE = 4096,
    HOST_MAX_WORDS = 1 << 16, /* of one tile that wait: a page has 1,024 */
    HOST_MAX_WRITE = 256,     /* payload bytes of one tile-to-host packet */
    HOST_WRITE_SPACING = 18,  /* slots from a payload to the next header */
    HOST_ROUND_TRIP = 1500    /* cycles from a packet to its completion: PCIe, about 1 us [G] */
};

/* One word on a tile's bus to its exchange block. */
struct host_word {
    int64_t slot;
    uint32_t word, pc;
};

/* Words that no exchange block has served yet. */
struct host_stream {
    struct settle_list words; /* struct host_word */
    uint32_t mux;             /* which block they went to */
    bool listed;              /* in host.pending */
    uint64_t done;            /* completion cycle of the last served packet */
};

struct host_page {
    uint8_t *memory;
    uint64_t offset, bytes; /* device offset */
};

struct host {
    struct host_page pages[HOST_MAX_PAGES];
    unsigned page_count;
    uint64_t granted[IPU21_PHYSICAL_IDS / 64]; /* by physical id, since the last global sync */
    struct settle_list pending;                /* uint16_t logical: streams that are not empty */
    uint64_t disabled; /* by position in the row: exchange blocks that route nothing */
    bool closed;       /* the window to host memory (HEXOPT) is not open */
};

/* False when memory is exhausted. */
bool host_stream_append(struct settle_port *port, const struct sim_event *event, uint32_t mux);
void host_stream_destroy(struct host_stream *stream);

void host_free(struct host *host);
void host_reset(struct host *host);
/* Serves every packet that can be served after settle_run(). False: some port has faulted. */
bool host_serve(struct host *host, struct settle *settle);
/* A global sync ends all grants; packets still waiting for one fault. */
bool host_end_phase(struct host *host, struct settle *settle);
/* The owner tile (logical) that has to grant a tile, and whether it has. */
unsigned host_owner(unsigned logical);
bool host_is_granted(const struct host *host, unsigned logical);
/* Whether a tile has sent packets that wait for a grant. */
bool host_waits(const struct settle_port *port);
/* Cycle at which the last packet of a tile was complete. */
uint64_t host_done(const struct settle_port *port);

#endif
