/* From logs to received pieces: the sends of a port, its control timelines, what it heard, where
 * that was stored. The arithmetic is explained at the top of settle.h.
 *
 * Idle bus slots store nothing, do not move the pointer and do not count [G]. INCOMING_BASE is
 * added when a pointer control takes effect [G].
 */
#include "device/sim/settle.h"

#include "device/ipu21/exchange.h"
#include "device/sim/host.h"

#include <stdlib.h>

static const int64_t ALWAYS = INT64_MIN / 4, NEVER = INT64_MAX / 4;

/* --- collecting --- */

static bool push_control(struct settle_port *port, enum settle_timeline which,
                         const struct sim_event *event)
{
    struct settle_control *control = settle_push(&port->timeline[which], sizeof *control);
    if (!control)
        return false;
    *control = (struct settle_control){.slot = (int64_t)(port->epoch + event->slot),
                                       .value = event->value,
                                       .pc = event->pc,
                                       .base = event->kind == SIM_EVENT_BASE_IN};
    return true;
}

/* Stretches of one stream that follow each other without a gap become one. */
static bool push_send(struct settle_port *port, const struct sim_event *event)
{
    struct settle_send *sends = port->sends.data;
    struct settle_send *last = port->sends.count ? &sends[port->sends.count - 1] : NULL;
    int64_t start = (int64_t)(port->epoch + event->slot);
    uint32_t size = (event->control & IPU21_SEND_64) != 0 ? 8 : 4;
    if (last && start < last->start + last->items)
        settle_fault(port, SIM_ETYPE_EXCONF, SETTLE_NO_ERROR, start, event->pc,
                     "a send begins before the previous one of this tile has ended");
    if (last && last->control == event->control && start == last->start + last->items &&
        event->value == last->address + last->items * size) {
        last->items += event->items;
        return true;
    }
    struct settle_send *send = settle_push(&port->sends, sizeof *send);
    if (!send)
        return false;
    *send = (struct settle_send){.start = start,
                                 .items = event->items,
                                 .address = event->value,
                                 .pc = event->pc,
                                 .control = event->control};
    return true;
}

static bool send_is_legal(struct settle_port *port, const struct sim_event *event)
{
    uint32_t size = (event->control & IPU21_SEND_64) != 0 ? 8 : 4;
    uint64_t bytes = (uint64_t)event->items * size;
    uint32_t offset = event->value - IPU21_SRAM_BASE;
    if ((event->value & (size - 1)) == 0 && event->value >= IPU21_SRAM_BASE &&
        offset + bytes <= IPU21_SRAM_BYTES)
        return true;
    settle_fault(port, SIM_ETYPE_INVALID_ADDR, SETTLE_NO_ERROR,
                 (int64_t)(port->epoch + event->slot), event->pc,
                 "a send of %u items of %u bytes reads at 0x%x: outside SRAM or misaligned",
                 event->items, size, event->value);
    return false;
}

/* A pair select may share a slot with a pointer or format control of one sendpicp only in the
 * combinations that hardware accepts, facts/exchange.md section 7. */
static void check_coincident(struct settle_port *port, const struct sim_event *xpic,
                             const struct sim_event *pic)
{
    if (xpic->kind != SIM_EVENT_XPIC || pic->kind != SIM_EVENT_PIC || xpic->selector != 1 ||
        xpic->slot != pic->slot || xpic->pc != pic->pc)
        return;
    int64_t cycle = (int64_t)(port->epoch + pic->slot);
    if (pic->selector == 0)
        settle_fault(port, SIM_ETYPE_EXERR, SETTLE_BAD_ADDRESS, cycle, pic->pc,
                     "one sendpicp sets a pair select and an ordinary pointer");
    else
        settle_fault(port, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, cycle, pic->pc,
                     "one sendpicp sets a pair select and the receive format");
}

static void note_code(struct settle_port *port, uint32_t pc)
{
    uint32_t end = pc + 8 + IPU21_FETCH_AHEAD;
    if (pc < IPU21_SRAM_BASE || pc >= IPU21_REGION1_BASE)
        return;
    if (end > IPU21_REGION1_BASE)
        end = IPU21_REGION1_BASE;
    port->code_mask |= ipu21_element_mask(pc, end - pc);
}

static bool collect_send(struct settle_port *port, const struct sim_event *event, uint32_t mux)
{
    if (!send_is_legal(port, event))
        return true;
    if (settle_is_host(mux))
        return host_stream_append(port, event, mux);
    return push_send(port, event);
}

static bool collect_event(struct settle_port *port, const struct sim_event *event, uint32_t *mux)
{
    switch (event->kind) {
    case SIM_EVENT_SEND:
        return collect_send(port, event, *mux);
    case SIM_EVENT_XPIC:
        if (event->selector == 0)
            *mux = event->value;
        return push_control(port, event->selector == 0 ? SETTLE_MUX : SETTLE_PAIR, event);
    case SIM_EVENT_PIC:
        return push_control(port, event->selector == 0 ? SETTLE_POINTER : SETTLE_FORMAT, event);
    default:
        return push_control(port, SETTLE_POINTER, event);
    }
}

void settle_collect(struct settle_port *port)
{
    uint32_t mux = port->state->incoming_mux;
    port->code_mask = 0;
    for (size_t i = 0; i < port->event_count; i++) {
        const struct sim_event *event = &port->events[i];
        note_code(port, event->pc);
        if (i > 0)
            check_coincident(port, event - 1, event);
        if (!collect_event(port, event, &mux)) {
            settle_no_memory(port);
            return;
        }
    }
}

/* --- timelines --- */

static size_t first_after(const struct settle_list *list, int64_t slot)
{
    const struct settle_control *controls = list->data;
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (controls[middle].slot <= slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t settle_value_at(const struct settle_port *port, enum settle_timeline which, int64_t slot)
{
    const struct settle_list *list = &port->timeline[which];
    const struct settle_control *controls = list->data;
    size_t after = first_after(list, slot);
    return after == 0 ? settle_initial(port, which) : controls[after - 1].value;
}

/* --- hearing --- */

/* A stretch of slots during which a port listens to `source`, a physical id. */
struct hearing {
    struct settle_port *port;
    const struct settle_port *from;
    int64_t begin, end; /* of the sender's slots */
    int64_t delay;      /* sender's slot to pointer slot */
    uint32_t direction;
    bool pair;
};

static size_t first_send(const struct settle_port *from, int64_t slot)
{
    const struct settle_send *sends = from->sends.data;
    size_t low = 0, high = from->sends.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sends[middle].start + sends[middle].items <= slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void wrong_mode(const struct hearing *h, const struct settle_send *send, int64_t slot)
{
    settle_fault(h->port, SIM_ETYPE_EXERR, SETTLE_MODE, slot + h->delay, send->pc,
                 "tile %u listens with its %s select to tile %u, which sends %s items",
                 h->port->logical, h->pair ? "pair" : "ordinary", h->from->logical,
                 h->pair ? "32-bit" : "64-bit");
}

static void hear_send(const struct hearing *h, const struct settle_send *send)
{
    int64_t begin = send->start > h->begin ? send->start : h->begin;
    int64_t end = send->start + send->items;
    if (end > h->end)
        end = h->end;
    uint32_t size = (send->control & IPU21_SEND_64) != 0 ? 8 : 4;
    if (begin >= end)
        return;
    if ((send->control & h->direction) == 0) {
        h->port->misdirected += (uint64_t)(end - begin) * size / 4;
        return;
    }
    if (h->pair != (size == 8)) {
        wrong_mode(h, send, begin);
        return;
    }
    struct settle_piece *run = settle_push(&h->port->runs, sizeof *run);
    if (!run) {
        settle_no_memory(h->port);
        return;
    }
    *run = (struct settle_piece){.sent = begin,
                                 .stored = begin + h->delay,
                                 .from = send->address + (uint32_t)(begin - send->start) * size,
                                 .items = (uint32_t)(end - begin),
                                 .source = (uint16_t)h->from->logical,
                                 .size = (uint8_t)size,
                                 .direction = (uint8_t)h->direction};
}

/* While a tile's bus is lent to its partner it carries halves of the partner's 64-bit items. */
static void hear_lent(const struct settle *settle, const struct hearing *h)
{
    const struct settle_port *lender = &settle->ports[h->from->logical ^ 1];
    const struct settle_send *sends = lender->sends.data;
    for (size_t i = first_send(lender, h->begin); i < lender->sends.count; i++) {
        if (sends[i].start >= h->end)
            return;
        if ((sends[i].control & IPU21_SEND_64) == 0 || (sends[i].control & h->direction) == 0)
            continue;
        settle_fault(h->port, SIM_ETYPE_EXERR, SETTLE_MODE, sends[i].start + h->delay, sends[i].pc,
                     "tile %u listens to tile %u, whose bus is lent to the 64-bit send of tile %u",
                     h->port->logical, h->from->logical, lender->logical);
    }
}

static void hear(const struct hearing *h)
{
    const struct settle_send *sends = h->from->sends.data;
    for (size_t i = first_send(h->from, h->begin); i < h->from->sends.count; i++) {
        if (sends[i].start >= h->end)
            return;
        hear_send(h, &sends[i]);
    }
}

/* The slots [begin, end) of stretch `i` (0: before the first control) of a timeline. */
static uint32_t stretch(const struct settle_port *port, enum settle_timeline which, size_t i,
                        int64_t *begin, int64_t *end)
{
    const struct settle_control *controls = port->timeline[which].data;
    *begin = i == 0 ? ALWAYS : controls[i - 1].slot;
    *end = i == port->timeline[which].count ? NEVER : controls[i].slot;
    return i == 0 ? settle_initial(port, which) : controls[i - 1].value;
}

static void hear_ordinary(struct settle *settle, struct settle_port *port)
{
    for (size_t i = 0; i <= port->timeline[SETTLE_MUX].count; i++) {
        int64_t begin, end;
        uint32_t source = stretch(port, SETTLE_MUX, i, &begin, &end);
        if (!settle_is_tile(source) || begin >= end)
            continue;
        const struct settle_port *from = &settle->ports[ipu21_logical(source)];
        const struct settle_port *lender = &settle->ports[from->logical ^ 1];
        if (from->sends.count == 0 && lender->sends.count == 0)
            continue;
        int64_t ttm = ipu21_ttm(source, port->physical);
        struct hearing h = {.port = port,
                            .from = from,
                            .begin = begin - ttm,
                            .end = end - ttm,
                            .delay = ttm + SETTLE_POINTER_DELAY + 2 * ipu21_row(port->physical),
                            .direction = ipu21_direction(source, port->physical)};
        hear(&h);
        hear_lent(settle, &h);
    }
}

/* Both members of a pair receive what the select of the early member chooses, at the time of the
 * late one; facts/exchange.md section 5. `owner` is the member whose selects are looked at. */
static void hear_pair(struct settle *settle, struct settle_port *port, struct settle_port *owner)
{
    for (size_t i = 0; i <= owner->timeline[SETTLE_PAIR].count; i++) {
        int64_t begin, end;
        uint32_t value = stretch(owner, SETTLE_PAIR, i, &begin, &end);
        if (!settle_is_tile(value) || begin >= end)
            continue;
        uint32_t source = value ^ (owner->physical & 2);
        const struct settle_port *from = &settle->ports[ipu21_logical(source)];
        int64_t ttm = ipu21_ttm(source, owner->physical);
        int64_t both = ipu21_ttm_pair(source, owner->physical);
        struct hearing h = {.port = port,
                            .from = from,
                            .begin = begin - ttm,
                            .end = end - ttm,
                            .delay = both + SETTLE_POINTER_DELAY + 2 * ipu21_row(port->physical),
                            .direction = ipu21_direction(source, port->physical),
                            .pair = true};
        size_t heard = port->runs.count;
        hear(&h);
        if (ttm == both && port->runs.count != heard) {
            port->runs.count = heard;
            settle_fault(port, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, begin, 0,
                         "tile %u selects a pair source, but of its pair tile %u hears it first",
                         owner->logical, owner->logical ^ 1);
        }
    }
}

static int by_store(const void *a, const void *b)
{
    const struct settle_piece *x = a, *y = b;
    return (x->stored > y->stored) - (x->stored < y->stored);
}

void settle_receive(struct settle *settle, struct settle_port *port)
{
    struct settle_port *partner = &settle->ports[port->logical ^ 1];
    hear_ordinary(settle, port);
    size_t ordinary = port->runs.count;
    hear_pair(settle, port, port);
    hear_pair(settle, port, partner);
    if (port->runs.count != ordinary && port->runs.count > 1)
        qsort(port->runs.data, port->runs.count, sizeof(struct settle_piece), by_store);
}

/* --- placing --- */

struct placing {
    struct settle_port *port;
    size_t next;      /* control of the pointer timeline */
    uint32_t base;    /* INCOMING_BASE for later pointers */
    uint32_t pointer; /* byte address of the next item */
};

static void placing_advance(struct placing *p, int64_t slot)
{
    const struct settle_list *list = &p->port->timeline[SETTLE_POINTER];
    const struct settle_control *controls = list->data;
    for (; p->next < list->count && controls[p->next].slot <= slot; p->next++) {
        if (controls[p->next].base)
            p->base = controls[p->next].value;
        else
            p->pointer = p->base + 4 * controls[p->next].value;
    }
}

static int64_t next_pointer(const struct placing *p)
{
    const struct settle_list *list = &p->port->timeline[SETTLE_POINTER];
    const struct settle_control *controls = list->data;
    for (size_t i = p->next; i < list->count; i++)
        if (!controls[i].base)
            return controls[i].slot;
    return NEVER;
}

static bool place_run(struct placing *p, struct settle_piece run)
{
    while (run.items > 0) {
        placing_advance(p, run.stored);
        int64_t room = next_pointer(p) - run.stored;
        struct settle_piece *piece = settle_push(&p->port->pieces, sizeof *piece);
        if (!piece)
            return false;
        *piece = run;
        piece->to = p->pointer;
        if (room < (int64_t)run.items)
            piece->items = (uint32_t)room;
        p->pointer += piece->items * run.size;
        run.from += piece->items * run.size;
        run.sent += piece->items;
        run.stored += piece->items;
        run.items -= piece->items;
    }
    return true;
}

void settle_place(struct settle *settle, struct settle_port *port)
{
    (void)settle;
    const struct settle_piece *runs = port->runs.data;
    struct placing p = {.port = port,
                        .base = port->state->incoming_base,
                        .pointer = port->state->incoming_base + port->state->incoming_pointer};
    for (size_t i = 0; i < port->runs.count; i++) {
        if (i > 0 && runs[i].stored < runs[i - 1].stored + runs[i - 1].items)
            settle_fault(port, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, runs[i].stored, 0,
                         "words from tiles %u and %u reach memory in the same slot",
                         runs[i - 1].source, runs[i].source);
        if (!place_run(&p, runs[i])) {
            settle_no_memory(port);
            return;
        }
        port->received += (uint64_t)runs[i].items * runs[i].size / 4;
    }
    placing_advance(&p, NEVER);
    port->final_base = p.base;
    port->final_pointer = p.pointer - p.base;
}

void settle_update(struct settle_port *port)
{
    struct sim_exchange_state *state = port->state;
    state->incoming_mux = settle_value_at(port, SETTLE_MUX, NEVER);
    state->incoming_mux_pair = settle_value_at(port, SETTLE_PAIR, NEVER);
    state->incoming_format = settle_value_at(port, SETTLE_FORMAT, NEVER);
    state->incoming_base = port->final_base;
    state->incoming_pointer = port->final_pointer;
}
