/* Moves the words of a round from SRAM to SRAM.
 *
 * When no tile sends memory that it also receives in this round, the order does not matter and
 * every piece is one copy. Otherwise (a relay) each piece becomes a read in its first send slot and
 * a write in its first store slot, and these happen in time order. Pieces are cut at element
 * boundaries first: within one element a tile's send and receive windows never overlap
 * (settle_check.c), so a piece's bytes are all read before or all after any write to them.
 *
 * Runs only when no port has faulted, so every address has been checked.
 */
#include "device/sim/settle.h"

#include "device/ipu21/exchange.h"
#include "device/sim/chip_core.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const struct settle_port *active_port(const struct settle *settle, size_t i)
{
    return &settle->ports[((const uint16_t *)settle->active.data)[i]];
}

static uint8_t *at(const struct settle_port *port, uint32_t address)
{
    return port->sram + (address - IPU21_SRAM_BASE);
}

static void touched(const struct settle_port *port, uint32_t address, uint32_t bytes)
{
    if (port->tile && address < IPU21_REGION1_BASE)
        sim_tile_touched(port->tile, address, bytes);
}

/* --- without relays --- */

static void copy_one(void *context, size_t index)
{
    const struct settle *settle = context;
    const struct settle_port *port = active_port(settle, index);
    const struct settle_piece *pieces = port->pieces.data;
    for (size_t i = 0; i < port->pieces.count; i++) {
        const struct settle_piece *piece = &pieces[i];
        uint32_t bytes = piece->items * piece->size;
        memcpy(at(port, piece->to), at(&settle->ports[piece->source], piece->from), bytes);
        touched(port, piece->to, bytes);
    }
}

struct range {
    uint32_t begin, end;
    bool sent;
};

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static uint32_t granules(const struct settle_list *list, bool sends)
{
    uint32_t mask = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (sends) {
            const struct settle_send *send = (const struct settle_send *)list->data + i;
            uint32_t size = (send->control & IPU21_SEND_64) != 0 ? 8 : 4;
            mask |= ipu21_element_mask(send->address, send->items * size);
        } else {
            const struct settle_piece *piece = (const struct settle_piece *)list->data + i;
            mask |= ipu21_element_mask(piece->to, piece->items * piece->size);
        }
    }
    return mask;
}

/* Whether any sent range overlaps any received one. */
static bool ranges_meet(struct range *ranges, size_t count)
{
    uint32_t end[2] = {0, 0};
    qsort(ranges, count, sizeof *ranges, by_begin);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].begin < end[!ranges[i].sent])
            return true;
        if (ranges[i].end > end[ranges[i].sent])
            end[ranges[i].sent] = ranges[i].end;
    }
    return false;
}

static bool relays(const struct settle_port *port, struct settle_list *scratch, bool *failed)
{
    if ((granules(&port->sends, true) & granules(&port->pieces, false)) == 0)
        return false;
    scratch->count = 0;
    for (size_t i = 0; i < port->sends.count + port->pieces.count; i++) {
        struct range *range = settle_push(scratch, sizeof *range);
        if (!range) {
            *failed = true;
            return false;
        }
        if (i < port->sends.count) {
            const struct settle_send *send = (const struct settle_send *)port->sends.data + i;
            uint32_t size = (send->control & IPU21_SEND_64) != 0 ? 8 : 4;
            *range = (struct range){send->address, send->address + send->items * size, true};
        } else {
            const struct settle_piece *piece =
                (const struct settle_piece *)port->pieces.data + (i - port->sends.count);
            *range = (struct range){piece->to, piece->to + piece->items * piece->size, false};
        }
    }
    return ranges_meet(scratch->data, scratch->count);
}

/* --- with relays --- */

struct move {
    int64_t time;
    const struct settle_port *port; /* whose SRAM is read or written */
    uint32_t address, bytes;
    size_t buffer; /* offset of the bytes between read and write */
    size_t order;  /* of creation, for equal times */
    bool write;
};

struct moves {
    struct settle_list list;
    size_t bytes;
};

static int by_time(const void *a, const void *b)
{
    const struct move *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->write != y->write)
        return x->write ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Items from `address` that stay in one element. */
static uint32_t items_in_element(uint32_t address, uint32_t size)
{
    uint32_t granule = ipu21_element(address);
    uint32_t end = granule < 13 ? IPU21_SRAM_BASE + (granule + 1) * IPU21_ELEMENT_BYTES
                                : IPU21_REGION1_BASE + (granule - 12) * IPU21_PAIR_BYTES;
    return (end - address) / size;
}

static bool add_move(struct moves *moves, const struct move *move)
{
    struct move *slot = settle_push(&moves->list, sizeof *slot);
    if (!slot)
        return false;
    *slot = *move;
    slot->order = moves->list.count;
    return true;
}

static bool add_piece(struct moves *moves, const struct settle *settle,
                      const struct settle_port *port, struct settle_piece piece)
{
    while (piece.items > 0) {
        uint32_t items = piece.items, from = items_in_element(piece.from, piece.size);
        uint32_t to = items_in_element(piece.to, piece.size);
        items = items < from ? items : from;
        items = items < to ? items : to;
        uint32_t bytes = items * piece.size;
        struct move read = {.time = piece.sent,
                            .port = &settle->ports[piece.source],
                            .address = piece.from,
                            .bytes = bytes,
                            .buffer = moves->bytes};
        struct move write = {.time = piece.stored + 1,
                             .port = port,
                             .address = piece.to,
                             .bytes = bytes,
                             .buffer = moves->bytes,
                             .write = true};
        if (!add_move(moves, &read) || !add_move(moves, &write))
            return false;
        moves->bytes += bytes;
        piece.items -= items;
        piece.sent += items;
        piece.stored += items;
        piece.from += bytes;
        piece.to += bytes;
    }
    return true;
}

static bool collect_moves(struct moves *moves, const struct settle *settle)
{
    for (size_t i = 0; i < settle->active.count; i++) {
        const struct settle_port *port = active_port(settle, i);
        const struct settle_piece *pieces = port->pieces.data;
        for (size_t k = 0; k < port->pieces.count; k++)
            if (!add_piece(moves, settle, port, pieces[k]))
                return false;
    }
    return true;
}

static bool copy_in_order(const struct settle *settle)
{
    struct moves moves = {0};
    uint8_t *buffer = NULL;
    bool done = collect_moves(&moves, settle);
    if (done && moves.bytes > 0)
        done = (buffer = ipu_malloc(moves.bytes)) != NULL;
    if (done && moves.list.count > 0)
        qsort(moves.list.data, moves.list.count, sizeof(struct move), by_time);
    for (size_t i = 0; buffer && i < moves.list.count; i++) {
        const struct move *move = (const struct move *)moves.list.data + i;
        if (move->write) {
            memcpy(at(move->port, move->address), buffer + move->buffer, move->bytes);
            touched(move->port, move->address, move->bytes);
        } else {
            memcpy(buffer + move->buffer, at(move->port, move->address), move->bytes);
        }
    }
    ipu_free(moves.list.data);
    ipu_free(buffer);
    return done;
}

bool settle_copy(struct settle *settle)
{
    struct settle_list scratch = {0};
    bool relay = false, failed = false;
    for (size_t i = 0; i < settle->active.count; i++)
        if (active_port(settle, i)->faulted)
            return false;
    for (size_t i = 0; i < settle->active.count && !relay && !failed; i++)
        relay = relays(active_port(settle, i), &scratch, &failed);
    ipu_free(scratch.data);
    if (!failed && !relay)
        sim_pool_run(settle->pool, settle->active.count, copy_one, settle);
    else if (!failed)
        failed = !copy_in_order(settle);
    if (failed)
        settle_no_memory(&settle->ports[active_port(settle, 0)->logical]);
    return !failed;
}
