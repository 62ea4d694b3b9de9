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

/* Which of the slots slot - 1, slot, slot + 1 hold a source select or release (bits 0, 1, 2). */
static unsigned selects_near(const struct tile_line *line, int32_t slot)
{
    const struct port *r = &line->receive;
    unsigned found = 0;
    for (uint32_t i = first_after(r, 0, slot - 2); i < r->count && r->spans[i].start <= slot + 1;
         i++) {
        int32_t start = r->spans[i].start - slot + 1, end = r->spans[i].end - slot + 1;
        if (start >= 0)
            found |= 1u << start;
        if (end <= 2)
            found |= 1u << end;
    }
    return found;
}

/* The same for pointer writes. */
static unsigned pointers_near(const struct tile_line *line, int32_t slot)
{
    const struct port *r = &line->receive;
    int32_t x = slot - line->offset;
    unsigned found = 0;
    for (uint32_t i = first_after(r, 0, x - 1); i < r->count && r->spans[i].start <= x + 1; i++) {
        if (r->spans[i].start >= x - 1)
            found |= 1u << (r->spans[i].start - x + 1);
    }
    return found;
}

/* Whether a send may start in `slot` beside the controls of its tile. */
static bool send_start_is_legal(const struct tile_line *line, int32_t slot)
{
    const struct port *r = &line->receive;
    if (r->count == 0 || r->spans[r->count - 1].end + line->offset < slot - 1)
        return true;
    unsigned selects = selects_near(line, slot), pointers = pointers_near(line, slot);
    return !((selects | pointers) & 3) && !(selects & pointers);
}

/* Whether a control may issue in `slot` beside the sends of its tile. `pair` says what else issues
 * there, and is only asked when a send starts just before. */
enum other { NO_OTHER, OTHER_SELECT, OTHER_POINTER, OTHER_OWN };

static bool control_is_legal(const struct tile_line *line, int32_t slot, enum other other)
{
    const struct port *p = &line->send;
    uint32_t i = first_after(p, 0, slot - 1);
    bool before = false;
    for (; i < p->count && p->spans[i].start <= slot + 1; i++) {
        if (p->spans[i].start >= slot)
            return false;
        before = p->spans[i].start == slot - 1;
    }
    if (!before)
        return true;
    if (other == OTHER_SELECT)
        return !(selects_near(line, slot) & 2);
    return other == OTHER_POINTER ? !(pointers_near(line, slot) & 2) : other != OTHER_OWN;
}

static bool receive_controls_are_legal(const struct tile_line *line, int32_t x, int32_t words)
{
    if (line->send.count == 0 || line->send.spans[line->send.count - 1].start < x - 1)
        return true;                  /* every send has started before the first of the three */
    bool own = words == line->offset; /* release and pointer are one slot */
    return control_is_legal(line, x, OTHER_POINTER) &&
           control_is_legal(line, x + words, own ? OTHER_OWN : OTHER_POINTER) &&
           (own || control_is_legal(line, x + line->offset, OTHER_SELECT));
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
