/* Placement of one piece on the time lines of its tiles: the earliest slot that breaks no rule.
 *
 * Every tile has bit maps over slots: busy sending, busy receiving, send starts, selects (and
 * releases), pointer writes. The legal starts of a piece among 64 consecutive slots are one word:
 * the sender's free runs and control rules, shifted against those of every receiver, and-ed
 * together. So a piece may go into any hole, and the search costs a few operations for 64 slots.
 * Sorted spans beside the maps serve the encoder and the granule rule: a send and a receive of one
 * tile may not use one conflict granule in overlapping windows (facts/exchange.md section 7); it is
 * asked for the one slot that the maps offer. Fails only for lack of memory, which is noted in the
 * schedule.
 */
#include "compiler/exchange/internal.h"

#include "device/ipu21/exchange.h"

#include <string.h>

enum { BLOCK = 64 };

/* --- bit maps ------------------------------------------------------------------------------- */

/* The 64 slots from `slot` >= -BLOCK on. */
static inline uint64_t slots(const struct tile_line *line, enum slot_map map, int32_t slot)
{
    uint32_t at = (uint32_t)(slot + BLOCK), block = at / BLOCK, shift = at % BLOCK;
    if (block >= line->block_count)
        return 0;
    uint64_t low = line->blocks[block].map[map], high = line->blocks[block + 1].map[map];
    return low >> shift | high << 1 << (BLOCK - 1 - shift);
}

/* First busy slot in [slot, limit), or limit. */
static int32_t next_busy(const struct tile_line *line, enum slot_map map, int32_t slot,
                         int32_t limit)
{
    for (; slot < limit; slot += BLOCK) {
        uint64_t busy = slots(line, map, slot);
        if (busy) {
            slot += __builtin_ctzll(busy);
            break;
        }
    }
    return slot < limit ? slot : limit;
}

/* Bit i: slots [slot + i, slot + i + words) are free. */
static uint64_t free_runs(const struct tile_line *line, enum slot_map map, int32_t slot,
                          int32_t words)
{
    uint64_t busy = slots(line, map, slot);
    if (words <= BLOCK) { /* smear every busy slot over the words - 1 slots before it */
        unsigned __int128 wide = (unsigned __int128)slots(line, map, slot + BLOCK) << BLOCK | busy;
        for (int32_t done = 1; done < words;) {
            int32_t step = done < words - done ? done : words - done;
            wide |= wide >> step;
            done += step;
        }
        return ~(uint64_t)wide;
    }
    uint64_t result = busy ? ~(UINT64_MAX >> __builtin_clzll(busy)) : UINT64_MAX;
    int32_t last = next_busy(line, map, slot + BLOCK, slot + BLOCK + words) - words - slot;
    if (last < 0)
        return 0;
    return last < BLOCK - 1 ? result & ((UINT64_C(2) << last) - 1) : result;
}

/* Grows the maps so that slots before `end` exist. */
static bool reach_slot(struct schedule *s, struct tile_line *line, int32_t end)
{
    uint32_t need = (uint32_t)end / BLOCK + 2;
    if (need <= line->block_count)
        return true;
    uint32_t count = need + line->block_count;
    struct slot_block *blocks = ARENA_ARRAY(s->arena, struct slot_block, count + 1);
    if (!blocks) {
        s->failed = true;
        return false;
    }
    if (line->block_count)
        memcpy(blocks, line->blocks, line->block_count * sizeof *blocks);
    line->blocks = blocks;
    line->block_count = count;
    return true;
}

static void set_slots(struct tile_line *line, enum slot_map map, int32_t start, int32_t end)
{
    for (uint32_t at = (uint32_t)(start + BLOCK), last = (uint32_t)(end + BLOCK); at < last;) {
        uint32_t shift = at % BLOCK, count = BLOCK - shift;
        count = count < last - at ? count : last - at;
        line->blocks[at / BLOCK].map[map] |= (UINT64_MAX >> (BLOCK - count)) << shift;
        at += count;
    }
}

/* --- granules ------------------------------------------------------------------------------- */

/* Index of the first span that ends after `slot`. Most questions are about the latest spans. */
static uint32_t first_after(const struct port *port, int32_t slot)
{
    uint32_t low = 0, high = port->count, step = 1;
    while (high > step && port->spans[high - step].end > slot) {
        high -= step;
        step *= 2;
    }
    if (high > step)
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

/* The end of the last receive window that a send [start, start + words) would disturb, or start. */
static int32_t send_after_hazards(const struct tile_line *line, int32_t start, int32_t words,
                                  uint32_t elements)
{
    const struct port *r = &line->receive;
    int32_t shift = line->offset + 1; /* select slot to first store */
    int32_t result = start;
    if (!(r->elements & elements))
        return start;
    for (uint32_t i = first_after(r, start - shift - IPU21_RECEIVE_GUARD);
         i < r->count && r->spans[i].start + shift < start + words; i++) {
        int32_t end = r->spans[i].end + shift + IPU21_RECEIVE_GUARD;
        if ((r->spans[i].elements & elements) && end > result)
            result = end;
    }
    return result;
}

/* The smallest select slot >= x whose store window is clear of the send that disturbs it first, or
 * x. */
static int32_t receive_after_hazards(const struct tile_line *line, int32_t x, int32_t words,
                                     uint32_t elements)
{
    const struct port *p = &line->send;
    int32_t shift = line->offset + 1, start = x + shift;
    int32_t end = start + words + IPU21_RECEIVE_GUARD;
    if (!(p->elements & elements))
        return x;
    for (uint32_t i = first_after(p, start); i < p->count && p->spans[i].start < end; i++) {
        if (p->spans[i].elements & elements)
            return p->spans[i].end - shift;
    }
    return x;
}

/* Start, or the next one worth trying. */
static int32_t after_hazards(const struct schedule *s, const struct piece *p, int32_t start)
{
    int32_t result = send_after_hazards(&s->tiles[p->source], start, p->words, p->elements);
    for (uint32_t k = 0; k < p->target_count; k++) {
        const struct piece_target *d = &s->targets[p->target + k];
        int32_t x = result + d->ttm;
        result += receive_after_hazards(&s->tiles[d->tile], x, p->words, d->elements) - x;
    }
    return result;
}

/* --- search --------------------------------------------------------------------------------- */

/* Bit i: the sender could start in slot + i. */
static uint64_t legal_sends(const struct tile_line *line, int32_t slot, int32_t words)
{
    uint64_t selects = slots(line, MAP_SELECT, slot) | slots(line, MAP_SELECT, slot - 1);
    uint64_t pointers = slots(line, MAP_POINTER, slot - 1) | slots(line, MAP_POINTER, slot) |
                        slots(line, MAP_POINTER, slot + 1);
    return free_runs(line, MAP_SEND, slot, words) & ~(selects | pointers);
}

/* Bit i: the receiver could select the source in slot x + i. */
static uint64_t legal_receives(const struct tile_line *line, int32_t x, int32_t words)
{
    uint64_t legal = free_runs(line, MAP_RECEIVE, x, words);
    if (!legal || line->send.count == 0)
        return legal;
    int32_t release = x + words, pointer = x + line->offset;
    return legal & ~(slots(line, MAP_START, x) | slots(line, MAP_START, x + 1) |
                     slots(line, MAP_START, release) | slots(line, MAP_START, release + 1) |
                     slots(line, MAP_START, pointer - 1) | slots(line, MAP_START, pointer) |
                     slots(line, MAP_START, pointer + 1));
}

static int32_t later(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t frontier(const struct port *port)
{
    return port->count ? port->spans[port->count - 1].end : 0;
}

/* Where looking for holes begins. */
static int32_t first_look(const struct schedule *s, const struct piece *p, int32_t from)
{
    const struct tile_line *sender = &s->tiles[p->source];
    int32_t start = later(later(from, p->earliest), sender->send.low);
    int32_t nearest = frontier(&sender->send);
    for (uint32_t k = 0; k < p->target_count; k++) {
        const struct piece_target *d = &s->targets[p->target + k];
        const struct port *receive = &s->tiles[d->tile].receive;
        int32_t front = frontier(receive) - d->ttm;
        start = later(start, receive->low - d->ttm);
        nearest = front < nearest ? front : nearest;
    }
    return later(start, nearest - s->look_back);
}

int32_t exchange_earliest(struct schedule *s, const struct piece *p, int32_t from)
{
    const struct piece_target *targets = &s->targets[p->target];
    const struct tile_line *sender = &s->tiles[p->source];
    int32_t start = first_look(s, p, from);
    for (;; s->steps += p->target_count) {
        uint64_t legal = legal_sends(sender, start, p->words);
        for (uint32_t k = 0; k < p->target_count && legal; k++)
            legal &= legal_receives(&s->tiles[targets[k].tile], start + targets[k].ttm, p->words);
        if (!legal) {
            start += BLOCK;
            continue;
        }
        start += __builtin_ctzll(legal);
        int32_t clear = after_hazards(s, p, start);
        if (clear == start) {
            s->steps += p->target_count;
            return start;
        }
        start = clear;
    }
}

/* --- placing -------------------------------------------------------------------------------- */

/* Moves `low` past slots that are busy and holes that are too small. */
static void raise_low(const struct tile_line *line, struct port *port, enum slot_map map)
{
    for (;;) {
        uint64_t vacant = ~slots(line, map, port->low);
        if (!(vacant & 1)) {
            port->low += vacant ? __builtin_ctzll(vacant) : BLOCK;
            continue;
        }
        int32_t end = next_busy(line, map, port->low, port->low + port->smallest);
        if (end == port->low + port->smallest)
            return;
        port->low = end;
    }
}

static void insert(struct port *port, struct span span)
{
    uint32_t at = port->count++;
    for (; at > 0 && port->spans[at - 1].start > span.start; at--)
        port->spans[at] = port->spans[at - 1];
    port->spans[at] = span;
}

static void place_receive(struct schedule *s, const struct piece_target *d, struct span span)
{
    struct tile_line *line = &s->tiles[d->tile];
    int32_t pointer = span.start + line->offset;
    if (!reach_slot(s, line, later(span.end, pointer) + 1))
        return;
    set_slots(line, MAP_RECEIVE, span.start, span.end);
    set_slots(line, MAP_SELECT, span.start, span.start + 1);
    set_slots(line, MAP_SELECT, span.end, span.end + 1);
    set_slots(line, MAP_POINTER, pointer, pointer + 1);
    insert(&line->receive, span);
    raise_low(line, &line->receive, MAP_RECEIVE);
}

void exchange_place(struct schedule *s, uint32_t index, int32_t start)
{
    struct piece *p = &s->pieces[index];
    struct tile_line *sender = &s->tiles[p->source];
    p->start = start;
    if (!reach_slot(s, sender, start + p->words))
        return;
    set_slots(sender, MAP_SEND, start, start + p->words);
    set_slots(sender, MAP_START, start, start + 1);
    insert(&sender->send, (struct span){start, start + p->words, p->elements, index});
    raise_low(sender, &sender->send, MAP_SEND);
    for (uint32_t k = 0; k < p->target_count; k++) {
        const struct piece_target *d = &s->targets[p->target + k];
        int32_t x = start + d->ttm;
        place_receive(s, d, (struct span){x, x + p->words, d->elements, index});
    }
}

static void clear_line(struct tile_line *line)
{
    line->send.count = line->receive.count = 0;
    line->send.low = line->receive.low = 0;
    if (line->block_count)
        memset(line->blocks, 0, line->block_count * sizeof *line->blocks);
}

void exchange_clear(struct schedule *s, uint32_t component)
{
    for (uint32_t i = s->component_first[component]; i < s->component_first[component + 1]; i++) {
        struct piece *p = &s->pieces[s->component_piece[i]];
        p->start = EXCHANGE_UNPLACED;
        if (s->tiles[p->source].send.count)
            clear_line(&s->tiles[p->source]);
        for (uint32_t k = 0; k < p->target_count; k++) {
            struct tile_line *line = &s->tiles[s->targets[p->target + k].tile];
            if (line->receive.count)
                clear_line(line);
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
