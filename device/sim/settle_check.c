/* What is illegal about a round, facts/exchange.md section 7: one sentence for each case.
 *
 * The port's pieces are checked against its own SRAM map, receive format, sends and code, and the
 * words it got against what its rows declare. Hardware notices some of these, corrupts data in
 * others; here all of them are faults.
 */
#include "device/sim/settle.h"

#include "device/ipu21/exchange.h"

static const struct settle_send *send_at(const struct settle_port *port, size_t i)
{
    return (const struct settle_send *)port->sends.data + i;
}

static const struct settle_piece *piece_at(const struct settle_port *port, size_t i)
{
    return (const struct settle_piece *)port->pieces.data + i;
}

/* The instruction whose control was in force when a word was stored. */
static uint32_t pointer_pc(const struct settle_port *port, int64_t stored)
{
    const struct settle_control *controls = port->timeline[SETTLE_POINTER].data;
    uint32_t pc = port->event_count ? port->events[0].pc : 0;
    for (size_t i = 0; i < port->timeline[SETTLE_POINTER].count && controls[i].slot <= stored; i++)
        pc = controls[i].pc;
    return pc;
}

static bool check_address(struct settle_port *port, const struct settle_piece *piece)
{
    uint64_t bytes = (uint64_t)piece->items * piece->size;
    uint32_t offset = piece->to - IPU21_SRAM_BASE;
    bool inside = piece->to >= IPU21_SRAM_BASE && offset + bytes <= IPU21_SRAM_BYTES;
    if (inside && piece->to % piece->size == 0)
        return true;
    settle_fault(port, SIM_ETYPE_EXERR, SETTLE_BAD_ADDRESS, piece->stored + 1,
                 pointer_pc(port, piece->stored),
                 "%u items of %u bytes from tile %u are received at 0x%x: %s", piece->items,
                 piece->size, piece->source, piece->to, inside ? "misaligned" : "outside SRAM");
    return false;
}

/* The format must be `wanted` in all slots [begin, end]. */
static bool format_holds(const struct settle_port *port, int64_t begin, int64_t end,
                         uint32_t wanted)
{
    const struct settle_list *list = &port->timeline[SETTLE_FORMAT];
    const struct settle_control *controls = list->data;
    if (settle_value_at(port, SETTLE_FORMAT, begin) != wanted)
        return false;
    for (size_t i = 0; i < list->count; i++)
        if (controls[i].slot > begin && controls[i].slot <= end && controls[i].value != wanted)
            return false;
    return true;
}

/* A format becomes active two events before the pointer of its words: paired words need theirs
 * then, and ordinary words must have drained by then. */
static void check_format(struct settle_port *port, const struct settle_piece *piece)
{
    bool pair = piece->size == 8;
    int64_t begin = piece->stored - 2, last = piece->stored + piece->items - 1;
    if (format_holds(port, begin, pair ? last - 2 : last, pair ? piece->direction : 0))
        return;
    settle_fault(port, SIM_ETYPE_EXERR, SETTLE_MODE, piece->stored + 1,
                 pointer_pc(port, piece->stored),
                 "the receive format is not that of the %s words that arrive from tile %u",
                 pair ? "paired" : "ordinary", piece->source);
}

/* --- memory elements --- */

/* Granules that row code is fetched from while [begin, end) passes. */
static uint32_t code_granules(const struct settle_port *port, int64_t begin, int64_t end)
{
    uint32_t mask = 0;
    for (size_t i = 0; i < port->event_count; i++) {
        const struct sim_event *event = &port->events[i];
        int64_t from = (int64_t)(port->epoch + event->slot);
        bool last = i + 1 == port->event_count;
        if (from >= end)
            break;
        if (!last && (int64_t)(port->epoch + event[1].slot) < begin)
            continue;
        if (event->pc < IPU21_SRAM_BASE || event->pc >= IPU21_REGION1_BASE)
            continue;
        uint32_t stop = event->pc + 8 + IPU21_FETCH_AHEAD;
        if (stop > IPU21_REGION1_BASE)
            stop = IPU21_REGION1_BASE;
        mask |= ipu21_element_mask(event->pc, stop - event->pc);
    }
    return mask;
}

static void check_fetch(struct settle_port *port, const struct settle_piece *piece)
{
    uint32_t mask = ipu21_element_mask(piece->to, piece->items * piece->size);
    int64_t begin = piece->stored + 1;
    if ((mask & port->code_mask) == 0 ||
        (mask & code_granules(port, begin, begin + piece->items)) == 0)
        return;
    settle_fault(port, SIM_ETYPE_EXERR, SETTLE_CLASH_FETCH, begin, pointer_pc(port, piece->stored),
                 "words from tile %u are received at 0x%x, in the element of the row's own code",
                 piece->source, piece->to);
}

/* When an access of `items` items of `size` bytes from `address`, one a cycle from `start`, is in
 * granule `granule`. */
static void granule_window(uint32_t granule, uint32_t address, uint32_t items, uint32_t size,
                           int64_t start, int64_t *begin, int64_t *end)
{
    uint32_t low = granule < 13 ? IPU21_SRAM_BASE + granule * IPU21_ELEMENT_BYTES
                                : IPU21_REGION1_BASE + (granule - 13) * IPU21_PAIR_BYTES;
    uint32_t high = low + (granule < 13 ? IPU21_ELEMENT_BYTES : IPU21_PAIR_BYTES);
    uint32_t first = address >= low ? 0 : (low - address + size - 1) / size;
    uint32_t last = high - address >= items * size ? items : (high - address + size - 1) / size;
    *begin = start + first;
    *end = start + last;
}

static void check_overlap(struct settle_port *port, const struct settle_send *send,
                          const struct settle_piece *piece)
{
    uint32_t size = (send->control & IPU21_SEND_64) != 0 ? 8 : 4;
    uint32_t mask = ipu21_element_mask(send->address, send->items * size) &
                    ipu21_element_mask(piece->to, piece->items * piece->size);
    for (; mask != 0; mask &= mask - 1) {
        uint32_t granule = (uint32_t)__builtin_ctz(mask);
        int64_t a, b, c, d;
        granule_window(granule, send->address, send->items, size, send->start, &a, &b);
        granule_window(granule, piece->to, piece->items, piece->size, piece->stored + 1, &c, &d);
        if (a >= d || c >= b)
            continue;
        settle_fault(port, SIM_ETYPE_EXCONF, SETTLE_CLASH_ACCESS, a > c ? a : c, send->pc,
                     "a send reads the element (0x%x) that words from tile %u are stored in (0x%x)",
                     send->address, piece->source, piece->to);
    }
}

static void check_elements(struct settle_port *port)
{
    size_t i = 0, j = 0;
    while (i < port->sends.count && j < port->pieces.count) {
        const struct settle_send *send = send_at(port, i);
        const struct settle_piece *piece = piece_at(port, j);
        int64_t send_end = send->start + send->items;
        int64_t piece_end = piece->stored + 1 + piece->items;
        if (send->start < piece_end && piece->stored + 1 < send_end)
            check_overlap(port, send, piece);
        if (send_end <= piece_end)
            i++;
        else
            j++;
    }
}

/* --- buses --- */

/* A 64-bit send uses the partner's bus as well. */
static void check_lent(const struct settle *settle, struct settle_port *port)
{
    const struct settle_port *partner = &settle->ports[port->logical ^ 1];
    size_t i = 0, j = 0;
    while (i < port->sends.count && j < partner->sends.count) {
        const struct settle_send *own = send_at(port, i), *other = send_at(partner, j);
        int64_t own_end = own->start + own->items, other_end = other->start + other->items;
        if (own->start < other_end && other->start < own_end &&
            (other->control & IPU21_SEND_64) != 0)
            settle_fault(port, SIM_ETYPE_EXCONF, SETTLE_NO_ERROR,
                         own->start > other->start ? own->start : other->start, own->pc,
                         "tile %u sends while its bus is lent to the 64-bit send of tile %u",
                         port->logical, partner->logical);
        if (own_end <= other_end)
            i++;
        else
            j++;
    }
}

/* --- the tile behind the port --- */

static void check_late(struct settle_port *port)
{
    if (port->pieces.count == 0)
        return;
    const struct settle_piece *last = piece_at(port, port->pieces.count - 1);
    int64_t end = last->stored + last->items + 1;
    if (end > port->last_store)
        port->last_store = end;
    if (port->went_on && end > (int64_t)port->stop_cycle)
        settle_fault(port, SIM_ETYPE_EXERR, SETTLE_WORKERS, (int64_t)port->stop_cycle,
                     pointer_pc(port, last->stored),
                     "words from tile %u arrive until cycle %lld, but the tile went on before",
                     last->source, (long long)end - 1);
    for (unsigned w = 0; port->tile && w < IPU21_WORKERS; w++)
        if (sim_tile_worker_active(port->tile, w))
            settle_fault(port, SIM_ETYPE_EXERR, SETTLE_WORKERS, last->stored + 1,
                         pointer_pc(port, last->stored),
                         "words from tile %u arrive while worker %u runs", last->source, w);
}

/* The declared row that contains `pc`, or NULL. */
static const struct settle_row *find_row(const struct settle_port *port, uint32_t pc)
{
    size_t low = 0, high = port->row_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (port->rows[middle].address <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    const struct settle_row *row = low > 0 ? &port->rows[low - 1] : NULL;
    return row && pc - row->address < row->bytes ? row : NULL;
}

static void check_count(struct settle_port *port)
{
    uint64_t declared = 0;
    const struct settle_row *previous = NULL;
    uint32_t pc = port->event_count ? port->events[0].pc : 0;
    for (size_t i = 0; i < port->event_count; i++) {
        const struct settle_row *row = find_row(port, port->events[i].pc);
        if (!row || row == previous)
            continue;
        declared += row->words;
        previous = row;
        pc = row->address;
    }
    if (declared == port->received)
        return;
    const char *hint = port->misdirected != 0 ? " (selected sources send the other way)" : "";
    settle_fault(port, SIM_ETYPE_EXERR, SETTLE_NO_ERROR, (int64_t)port->epoch, pc,
                 "the row receives %llu words, its package declares %llu%s",
                 (unsigned long long)port->received, (unsigned long long)declared, hint);
}

/* The port's pieces are in time order, so the first illegal one is the earliest. */
void settle_check(struct settle *settle, struct settle_port *port)
{
    for (size_t i = 0; i < port->pieces.count && !port->faulted; i++) {
        const struct settle_piece *piece = piece_at(port, i);
        if (!check_address(port, piece))
            continue;
        check_format(port, piece);
        check_fetch(port, piece);
        port->hears_itself = port->hears_itself || piece->source == port->logical;
    }
    if (!port->faulted)
        check_elements(port);
    check_lent(settle, port);
    check_late(port);
    if (settle->strict)
        check_count(port);
}
