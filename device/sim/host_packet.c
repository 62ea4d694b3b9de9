/* Exchange blocks: parsing packets, granting, moving words between host pages and tiles.
 *
 * Every malformed or unanswerable packet is a fault that names it: hardware would write nothing,
 * return stale data or hang. Packets wait for a grant until the next global sync.
 */
#include "device/sim/host.h"

#include "device/ipu21/exchange.h"

#include "base/alloc.h"

#include <string.h>

/* Header fields, facts/host_protocol.md section 9. */
enum {
    KIND_READ = 3, /* host to tile */
    KIND_WRITE = 2,
    READ_FLAG = 0x200,
    LAST_READ = 0x0c000000
};

struct packet {
    unsigned kind;
    bool is_long, last, close;
    unsigned id; /* physical */
    uint64_t offset;
    uint32_t bytes;
    uint32_t address; /* of a read */
};

/* --- streams --- */

bool host_stream_append(struct settle_port *port, const struct sim_event *event, uint32_t mux)
{
    uint32_t words = event->items * ((event->control & IPU21_SEND_64) != 0 ? 2 : 1);
    if (!port->host && !(port->host = ipu_calloc(1, sizeof *port->host)))
        return false;
    port->host->mux = mux;
    if (port->host->words.count + words > HOST_MAX_WORDS) {
        settle_fault(port, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION,
                     (int64_t)(port->epoch + event->slot), event->pc,
                     "more than %d words for the host wait to be served", HOST_MAX_WORDS);
        return true;
    }
    for (uint32_t i = 0; i < words; i++) {
        struct host_word *word = settle_push(&port->host->words, sizeof *word);
        if (!word)
            return false;
        word->slot = (int64_t)(port->epoch + event->slot + i);
        word->pc = event->pc;
        memcpy(&word->word, port->sram + (event->value + 4 * i - IPU21_SRAM_BASE), 4);
    }
    return true;
}

void host_stream_destroy(struct host_stream *stream)
{
    if (stream)
        ipu_free(stream->words.data);
    ipu_free(stream);
}

void host_free(struct host *host)
{
    ipu_free(host->pending.data);
}

void host_reset(struct host *host)
{
    memset(host->granted, 0, sizeof host->granted);
    host->pending.count = 0;
}

unsigned host_owner(unsigned logical)
{
    return ipu21_logical(ipu21_physical(logical) & 0x3d);
}

bool host_is_granted(const struct host *host, unsigned logical)
{
    unsigned id = ipu21_physical(logical);
    return (host->granted[id / 64] >> (id % 64) & 1) != 0;
}

bool host_waits(const struct settle_port *port)
{
    return port->host && port->host->words.count != 0;
}

uint64_t host_done(const struct settle_port *port)
{
    return port->host ? port->host->done : 0;
}

/* --- packets --- */

static struct host_word *word_at(const struct settle_port *port, size_t i)
{
    return (struct host_word *)port->host->words.data + i;
}

static bool refuse(struct settle_port *port, size_t at, const char *why)
{
    const struct host_word *word = word_at(port, at);
    uint32_t second = at + 1 < port->host->words.count ? word[1].word : 0;
    settle_fault(port, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, word->slot, word->pc,
                 "host packet 0x%08x 0x%08x of tile %u: %s", word->word, second, port->logical,
                 why);
    return false;
}

static bool is_grant(uint32_t word)
{
    return word >> 24 == 0;
}

/* Bit k of the two words names row k / 2, pair member k % 2 of the owner's column. */
static bool take_grant(struct host *host, struct settle_port *port, size_t at)
{
    if (at + 2 > port->host->words.count)
        return refuse(port, at, "XREQ is cut short");
    uint32_t low = word_at(port, at)->word, high = word_at(port, at + 1)->word;
    if ((port->physical & 0x3d) != port->physical)
        return refuse(port, at, "XREQ from a tile that does not own its column's exchange block");
    if (high >> 22 != 0)
        return refuse(port, at, "XREQ names tiles that do not exist");
    for (unsigned k = 0; k < 46; k++) {
        uint32_t bit = k < 24 ? low >> k & 1 : high >> (k - 24) & 1;
        if (bit != 0)
            host->granted[k / 2] |= 1ull << (port->physical + 2 * (k & 1));
    }
    return true;
}

static bool header_is_sound(const struct packet *p, uint32_t first, uint32_t second,
                            const char **why)
{
    *why = "is no known packet";
    if (p->kind < KIND_WRITE || (first >> 28 & 1) != 0 || (first & 0x7c00) != 0)
        return false;
    if (p->kind == KIND_READ && (first & READ_FLAG) == 0)
        return false;
    if (p->kind == KIND_READ && !p->last && (first & LAST_READ) != 0)
        return false;
    if (p->kind == KIND_WRITE && (first & (LAST_READ | 0x3ff)) != 0)
        return false;
    *why = "its two words name different tiles";
    if ((first >> 15 & 1) != second >> 31)
        return false;
    *why = "a write needs a length";
    return p->kind == KIND_READ || p->bytes != 0;
}

static bool parse_header(struct settle_port *port, size_t at, struct packet *p)
{
    const char *why;
    if (at + 2 > port->host->words.count)
        return refuse(port, at, "is cut short");
    uint32_t first = word_at(port, at)->word, second = word_at(port, at + 1)->word;
    uint32_t units = second & 15;
    p->kind = first >> 30;
    p->is_long = (first >> 29 & 1) != 0;
    p->last = (first & LAST_READ) == LAST_READ;
    p->id = (first >> 16 & 0x3ff) << 1 | (first >> 15 & 1);
    p->offset = (uint64_t)(second >> 4 & 0x7ffffff) * (p->is_long ? 64 : 4);
    p->bytes = p->is_long ? (units ? units : 16) * 64 : units * 4;
    p->address = IPU21_HOST_WINDOW + (first & 0x1ff) * 32;
    p->close = p->kind == KIND_READ && p->bytes == 0;
    if (!header_is_sound(p, first, second, &why))
        return refuse(port, at, why);
    if (p->id != port->physical)
        return refuse(port, at, "names another tile than its sender");
    if (port->host->mux != (IPU21_MUX_HOST | (port->physical & 0x3d)))
        return refuse(port, at, "went to the exchange block of another column");
    return true;
}

/* Whether the block of the tile's column routes anything: facts/driver.md section 4 [G]. */
static bool is_routed(const struct host *host, struct settle_port *port, size_t at)
{
    if ((host->disabled >> (port->physical & 63) & 1) != 0)
        return refuse(port, at, "its exchange block is disabled (DCXCR)");
    if (host->closed)
        return refuse(port, at, "the window to host memory is closed (HEXOPT)");
    return true;
}

static uint8_t *page_memory(const struct host *host, const struct packet *p)
{
    for (unsigned i = 0; i < host->page_count; i++) {
        const struct host_page *page = &host->pages[i];
        if (p->offset >= page->offset && p->offset - page->offset < page->bytes &&
            p->bytes <= page->bytes - (p->offset - page->offset))
            return page->memory + (p->offset - page->offset);
    }
    return NULL;
}

static uint8_t *find_memory(const struct host *host, struct settle_port *port, size_t at,
                            const struct packet *p)
{
    uint8_t *memory = page_memory(host, p);
    if (p->offset / HOST_PAGE != (p->offset + p->bytes - 1) / HOST_PAGE) {
        refuse(port, at, "crosses a 4 KiB page");
        return NULL;
    }
    if (!memory)
        refuse(port, at, "leaves the attached host pages");
    return memory;
}

static bool count_down(struct settle_port *port, size_t at, uint32_t words)
{
    if (port->state->incoming_dcount < words)
        return refuse(port, at, "brings more words than INCOMING_DCOUNT expects");
    port->state->incoming_dcount -= words;
    port->host->done = (uint64_t)word_at(port, at)->slot + HOST_ROUND_TRIP + words;
    return true;
}

static bool serve_read(const struct host *host, struct settle_port *port, size_t at,
                       const struct packet *p)
{
    if (p->close)
        return count_down(port, at, 1);
    const uint8_t *memory = find_memory(host, port, at, p);
    if (!memory)
        return false;
    if (p->address + p->bytes > IPU21_HOST_WINDOW_END)
        return refuse(port, at, "reaches beyond the host window of tile memory");
    if ((ipu21_element_mask(p->address, p->bytes) & port->code_mask) != 0)
        return refuse(port, at, "brings words into the element of the code that asked for them");
    memcpy(port->sram + (p->address - IPU21_SRAM_BASE), memory, p->bytes);
    if (port->tile)
        sim_tile_touched(port->tile, p->address, p->bytes);
    return count_down(port, at, p->bytes / 4);
}

/* The block needs 18 slots from a payload to the next header; a close must follow. */
static bool serve_write(const struct host *host, struct settle_port *port, size_t at,
                        const struct packet *p)
{
    size_t payload = at + 2, next = payload + p->bytes / 4;
    if (p->bytes > HOST_MAX_WRITE)
        return refuse(port, at, "writes more than 256 bytes");
    if (next > port->host->words.count)
        return refuse(port, at, "its payload is shorter than its length");
    if (next == port->host->words.count)
        return refuse(port, at, "no closing packet follows it");
    if (word_at(port, next)->slot - word_at(port, payload)->slot < HOST_WRITE_SPACING)
        return refuse(port, at, "the next packet follows its payload in less than 18 slots");
    uint8_t *memory = find_memory(host, port, at, p);
    if (!memory)
        return false;
    for (size_t i = payload; i < next; i++)
        memcpy(memory + 4 * (i - payload), &word_at(port, i)->word, 4);
    return true;
}

/* --- serving --- */

static size_t grants_at_front(struct host *host, struct settle_port *port)
{
    size_t at = 0;
    while (at < port->host->words.count && is_grant(word_at(port, at)->word)) {
        if (!take_grant(host, port, at))
            return 0;
        at += 2;
    }
    return at;
}

static void drop_front(struct settle_port *port, size_t words)
{
    struct settle_list *list = &port->host->words;
    list->count -= words;
    if (words != 0 && list->count != 0)
        memmove(list->data, (struct host_word *)list->data + words,
                list->count * sizeof(struct host_word));
}

static void serve_port(struct host *host, struct settle_port *port)
{
    size_t at = 0, count = port->host->words.count;
    bool more = false; /* the last read announced another one */
    while (at < count) {
        struct packet p = {0};
        if (is_grant(word_at(port, at)->word)) {
            if (!take_grant(host, port, at))
                return;
            at += 2;
            continue;
        }
        if (!parse_header(port, at, &p) || !is_routed(host, port, at))
            return;
        bool served =
            p.kind == KIND_READ ? serve_read(host, port, at, &p) : serve_write(host, port, at, &p);
        if (!served)
            return;
        if (p.kind == KIND_READ)
            more = !p.last;
        at += 2 + (p.kind == KIND_WRITE ? p.bytes / 4 : 0);
    }
    if (more) {
        refuse(port, count - 2, "announces another read, but none follows");
        return;
    }
    port->host->words.count = 0;
}

static bool list_pending(struct host *host, struct settle *settle)
{
    const uint16_t *active = settle->active.data;
    for (size_t i = 0; i < settle->active.count; i++) {
        struct settle_port *port = &settle->ports[active[i]];
        if (!host_waits(port) || port->host->listed)
            continue;
        uint16_t *slot = settle_push(&host->pending, sizeof *slot);
        if (!slot) {
            settle_no_memory(port);
            return false;
        }
        *slot = (uint16_t)port->logical;
        port->host->listed = true;
    }
    return true;
}

bool host_serve(struct host *host, struct settle *settle)
{
    bool sound = list_pending(host, settle);
    uint16_t *pending = host->pending.data;
    size_t kept = 0;
    for (size_t i = 0; i < host->pending.count; i++) {
        struct settle_port *port = &settle->ports[pending[i]];
        size_t granted = grants_at_front(host, port);
        drop_front(port, granted);
    }
    for (size_t i = 0; i < host->pending.count; i++) {
        struct settle_port *port = &settle->ports[pending[i]];
        if (host_waits(port) && host_is_granted(host, port->logical))
            serve_port(host, port);
        sound = sound && !port->faulted;
        port->host->listed = host_waits(port);
        if (port->host->listed)
            pending[kept++] = (uint16_t)port->logical;
    }
    host->pending.count = kept;
    return sound;
}

bool host_end_phase(struct host *host, struct settle *settle)
{
    const uint16_t *pending = host->pending.data;
    bool sound = host->pending.count == 0;
    for (size_t i = 0; i < host->pending.count; i++)
        refuse(&settle->ports[pending[i]], 0, "its column's owner has not granted the tile (XREQ)");
    memset(host->granted, 0, sizeof host->granted);
    return sound;
}
