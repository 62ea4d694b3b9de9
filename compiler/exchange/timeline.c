/* Placement of one piece on the time lines of its tiles: the earliest slot that breaks no rule.
 *
 * Time lines keep spans sorted, so a piece may go into a hole before others. Each check either
 * passes or names the next start worth trying; the start only grows, so the search ends. The rules
 * are those at the top of internal.h plus the granule rule: a send and a receive of one tile may
 * not use one conflict granule in overlapping windows (facts/exchange.md section 7). Cannot fail.
 */
#include "compiler/exchange/internal.h"

#include "device/ipu21/exchange.h"

#include <string.h>

/* Index of the first span that ends after `slot`, from index `low` on. Most questions are about the
 * latest spans. */
static uint32_t first_after(const struct port *port, uint32_t low, int32_t slot)
{
    uint32_t high = port->count, step = 1;
    while (high > low && high - low > step && port->spans[high - step].end > slot) {
        high -= step;
        step *= 2;
    }
    if (high > low + step)
        low = high - step;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (port->spans[middle].end > slot)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* First slot >= start where `words` slots are free. */
static int32_t free_slot(const struct port *port, int32_t start, int32_t words)
{
    if (port->solid && start < port->spans[port->solid - 1].end)
        start = port->spans[port->solid - 1].end;
    for (uint32_t i = first_after(port, port->solid, start);
         i < port->count && port->spans[i].start < start + words; i++)
        start = port->spans[i].end;
    return start;
}

static bool select_at(const struct tile_line *line, int32_t slot)
{
    const struct port *r = &line->receive;
    for (uint32_t i = first_after(r, 0, slot - 1); i < r->count && r->spans[i].start <= slot; i++) {
        if (r->spans[i].start == slot || r->spans[i].end == slot)
            return true;
    }
    return false;
}

static bool pointer_at(const struct tile_line *line, int32_t slot)
{
    const struct port *r = &line->receive;
    uint32_t i = first_after(r, 0, slot - line->offset);
    return i < r->count && r->spans[i].start == slot - line->offset;
}

static bool send_starts_at(const struct tile_line *line, int32_t slot)
{
    const struct port *p = &line->send;
    uint32_t i = first_after(p, 0, slot);
    return i < p->count && p->spans[i].start == slot;
}

/* Whether a send may start in `slot` beside the controls of its tile. */
static bool send_start_is_legal(const struct tile_line *line, int32_t slot)
{
    if (line->receive.count == 0)
        return true;
    for (int32_t t = slot - 1; t <= slot; t++) {
        if (select_at(line, t) || pointer_at(line, t))
            return false;
    }
    return !(select_at(line, slot + 1) && pointer_at(line, slot + 1));
}

/* Whether a control may issue in `slot` beside the sends of its tile; `pair`: the other kind of
 * control issues there, too. */
static bool control_is_legal(const struct tile_line *line, int32_t slot, bool pair)
{
    if (send_starts_at(line, slot) || send_starts_at(line, slot + 1))
        return false;
    return !pair || !send_starts_at(line, slot - 1);
}

static bool receive_controls_are_legal(const struct tile_line *line, int32_t x, int32_t words)
{
    if (line->send.count == 0)
        return true;
    int32_t release = x + words, pointer = x + line->offset;
    if (line->send.spans[line->send.count - 1].start < x - 1)
        return true; /* every send has started before the first of the three */
    return control_is_legal(line, x, pointer_at(line, x)) &&
           control_is_legal(line, release, release == pointer || pointer_at(line, release)) &&
           control_is_legal(line, pointer, release == pointer || select_at(line, pointer));
}

/* The end of the last receive window that a send [start, start + words) would disturb, or start. */
static int32_t send_after_hazards(const struct tile_line *line, int32_t start, int32_t words,
                                  uint32_t elements)
{
    const struct port *r = &line->receive;
    int32_t shift = line->offset + 1; /* select slot to first store */
    uint32_t i = first_after(r, 0, start - shift - IPU21_RECEIVE_GUARD);
    int32_t result = start;
    for (; i < r->count && r->spans[i].start + shift < start + words; i++) {
        int32_t end = r->spans[i].end + shift + IPU21_RECEIVE_GUARD;
        if ((r->spans[i].elements & elements) && end > result)
            result = end;
    }
    return result;
}

/* The smallest select slot >= x whose store window is clear of the sends that end first. */
static int32_t receive_after_hazards(const struct tile_line *line, int32_t x, int32_t words,
                                     uint32_t elements)
{
    const struct port *p = &line->send;
    int32_t shift = line->offset + 1, start = x + shift;
    int32_t end = start + words + IPU21_RECEIVE_GUARD;
    for (uint32_t i = first_after(p, 0, start); i < p->count && p->spans[i].start < end; i++) {
        if (p->spans[i].elements & elements)
            return p->spans[i].end - shift;
    }
    return x;
}

static int32_t fit_send(const struct tile_line *line, const struct piece *p, int32_t start)
{
    for (;;) {
        int32_t at = free_slot(&line->send, start, p->words);
        at = send_after_hazards(line, at, p->words, p->elements);
        if (at == start && send_start_is_legal(line, at))
            return at;
        start = at == start ? at + 1 : at;
    }
}

static int32_t fit_receive(const struct tile_line *line, const struct piece_target *d,
                           int32_t words, int32_t x)
{
    for (;;) {
        int32_t at = free_slot(&line->receive, x, words);
        at = receive_after_hazards(line, at, words, d->elements);
        if (at == x && receive_controls_are_legal(line, at, words))
            return at;
        x = at == x ? at + 1 : at;
    }
}

int32_t exchange_earliest(const struct schedule *s, const struct piece *p, int32_t from)
{
    int32_t start = from > p->earliest ? from : p->earliest, tried;
    const struct piece_target *targets = &s->targets[p->target];
    do {
        tried = start = fit_send(&s->tiles[p->source], p, start);
        for (uint32_t k = 0; k < p->target_count; k++) {
            const struct piece_target *d = &targets[k];
            start = fit_receive(&s->tiles[d->tile], d, p->words, start + d->ttm) - d->ttm;
        }
    } while (start != tried);
    return start;
}

static void insert(struct port *port, struct span span)
{
    uint32_t at = port->count++;
    for (; at > 0 && port->spans[at - 1].start > span.start; at--)
        port->spans[at] = port->spans[at - 1];
    port->spans[at] = span;
    while (port->solid < port->count) {
        int32_t before = port->solid ? port->spans[port->solid - 1].end : 0;
        if (port->spans[port->solid].start - before >= port->smallest)
            break;
        port->solid++;
    }
}

void exchange_place(struct schedule *s, uint32_t index, int32_t start)
{
    struct piece *p = &s->pieces[index];
    p->start = start;
    insert(&s->tiles[p->source].send, (struct span){start, start + p->words, p->elements, index});
    for (uint32_t k = 0; k < p->target_count; k++) {
        const struct piece_target *d = &s->targets[p->target + k];
        int32_t x = start + d->ttm;
        insert(&s->tiles[d->tile].receive, (struct span){x, x + p->words, d->elements, index});
    }
}

void exchange_clear(struct schedule *s, uint32_t component)
{
    for (uint32_t i = s->component_first[component]; i < s->component_first[component + 1]; i++) {
        struct piece *p = &s->pieces[s->component_piece[i]];
        p->start = EXCHANGE_UNPLACED;
        s->tiles[p->source].send.count = s->tiles[p->source].send.solid = 0;
        for (uint32_t k = 0; k < p->target_count; k++) {
            struct port *r = &s->tiles[s->targets[p->target + k].tile].receive;
            r->count = r->solid = 0;
        }
    }
}

int32_t exchange_tile_horizon(const struct schedule *s, unsigned tile)
{
    const struct tile_line *line = &s->tiles[tile];
    int32_t horizon = 0;
    if (line->send.count) {
        horizon = line->send.spans[line->send.count - 1].end;
        horizon = horizon < 6 ? 6 : horizon;
    }
    if (line->receive.count) {
        int32_t end = line->receive.spans[line->receive.count - 1].end + line->offset + 1 +
                      IPU21_RECEIVE_GUARD;
        horizon = end > horizon ? end : horizon;
    }
    return horizon;
}
