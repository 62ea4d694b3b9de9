/* The row of one tile: time line to instructions to words.
 *
 * Controls and sends are walked in time order. Between sends, controls ride on delay forms; inside
 * a send they ride on its continuation. Two controls in one slot need sendpicp, which must lie
 * 8-byte aligned. When it would not, the instruction before it starts aligned, and one of two
 * things always works, by the rules of internal.h: an instruction of two or more events is split;
 * one of a single event is replaced by sendpicp with controls that repeat the values in force. (It
 * is not the first word of a send, because slot S + 1 holds no pair.) Fails only for lack of
 * memory.
 */
#include "compiler/exchange/internal.h"

#include "device/ipu21/exchange.h"

enum { NO_VALUE = -1 };

enum kind { DELAY, SEND, CONTINUE }; /* idle; first word of a send here; inside a send */

/* One instruction: `events` slots from `slot`. Controls issue in the first slot of a send form or
 * of a pair, in the last of a delay. */
struct inst {
    enum kind kind;
    int32_t slot, events;
    int32_t select, pointer; /* values, or NO_VALUE */
    uint32_t address;        /* word address of the first word sent */
    uint32_t control;
};

struct encoder {
    const struct schedule *s;
    const struct tile_line *line;
    struct arena *arena;
    struct exchange_row *row;
    uint32_t capacity;
    struct inst last; /* held back, because alignment may change it */
    bool holding;
    int32_t slot;                   /* next free slot */
    uint32_t send, select, pointer; /* positions in the time lines; select counts 2 a span */
    int32_t mux;                    /* source select in force */
    bool failed;
};

/* --- words ---------------------------------------------------------------------------------- */

static void put(struct encoder *e, uint32_t word)
{
    struct exchange_row *row = e->row;
    if (row->count == e->capacity) {
        uint32_t capacity = e->capacity ? e->capacity * 2 : 16;
        uint32_t *words = ARENA_ARRAY(e->arena, uint32_t, capacity);
        if (!words) {
            e->failed = true;
            return;
        }
        for (uint32_t i = 0; i < row->count; i++)
            words[i] = row->words[i];
        row->words = words;
        e->capacity = capacity;
    }
    row->words[row->count++] = word;
}

static void put_pair(struct encoder *e, const struct inst *i)
{
    uint32_t n = (uint32_t)i->events, control = i->kind == DELAY ? 0 : i->control;
    put(e, ipu21_sendpicp0(n, i->kind == DELAY ? 0 : i->address, control, 0));
    put(e, ipu21_sendpicp1((uint32_t)i->select, (uint32_t)i->pointer));
}

static void put_single(struct encoder *e, const struct inst *i)
{
    uint32_t n = (uint32_t)i->events;
    if (i->kind == SEND)
        put(e, ipu21_send(n, i->address, i->control));
    else if (i->kind == CONTINUE && i->select != NO_VALUE)
        put(e, ipu21_sendpic(n, 0, (uint32_t)i->select));
    else if (i->kind == CONTINUE && i->pointer != NO_VALUE)
        put(e, ipu21_sendpic(n, 2, (uint32_t)i->pointer));
    else if (i->kind == CONTINUE)
        put(e, ipu21_sendoff(n, 0, i->control));
    else if (i->select != NO_VALUE)
        put(e, ipu21_delayxpic(n, 0, (uint32_t)i->select));
    else if (i->pointer != NO_VALUE)
        put(e, ipu21_delaypic(n, 0, (uint32_t)i->pointer));
    else
        put(e, ipu21_delay(n));
}

static bool is_pair(const struct inst *i)
{
    return i->select != NO_VALUE && i->pointer != NO_VALUE;
}

static void put_inst(struct encoder *e, const struct inst *i)
{
    if (is_pair(i))
        put_pair(e, i);
    else
        put_single(e, i);
}

/* --- alignment ------------------------------------------------------------------------------ */

/* Word address that a pointer write in `slot` must repeat to change nothing. */
static uint32_t pointer_in_force(const struct encoder *e, int32_t slot)
{
    const struct port *r = &e->line->receive;
    uint32_t at = 0;
    while (at + 1 < r->count && r->spans[at + 1].start + e->line->offset <= slot)
        at++;
    const struct span *span = &r->spans[at];
    const struct piece *p = &e->s->pieces[span->piece];
    const struct piece_target *d = &e->s->targets[p->target];
    while (&e->s->tiles[d->tile] != e->line)
        d++;
    int32_t done = slot - (span->start + e->line->offset);
    if (done < 0)
        done = 0;
    if (done > p->words)
        done = p->words;
    return d->address / 4 + (uint32_t)done;
}

/* Makes the held instruction two words long instead of one. `mux_before` is the select in force
 * before it. */
static void lengthen(struct encoder *e, struct inst *i, int32_t mux_before)
{
    struct inst tail = *i;
    if (i->events == 1) {
        if (i->select == NO_VALUE)
            i->select = mux_before;
        if (i->pointer == NO_VALUE)
            i->pointer = (int32_t)pointer_in_force(e, i->slot);
        return;
    }
    if (i->kind == DELAY) { /* the control issues at the end */
        i->select = i->pointer = NO_VALUE;
        i->events--;
        tail.slot += i->events;
    } else {
        i->events--;
        tail.kind = CONTINUE;
        tail.select = tail.pointer = NO_VALUE;
        tail.slot += i->events;
        tail.address += (uint32_t)i->events;
    }
    tail.events = 1;
    put_inst(e, i);
    *i = tail;
}

static void emit(struct encoder *e, struct inst inst)
{
    if (e->holding) {
        if (is_pair(&inst) && !is_pair(&e->last) && e->row->count % 2 == 0)
            lengthen(e, &e->last, e->mux);
        put_inst(e, &e->last);
        if (e->last.select != NO_VALUE)
            e->mux = e->last.select;
    }
    e->last = inst;
    e->holding = true;
    e->slot = inst.slot + inst.events;
}

/* --- walk ----------------------------------------------------------------------------------- */

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static uint32_t source_of(const struct encoder *e, const struct span *span)
{
    return e->s->pieces[span->piece].physical;
}

/* Moves past select events that change nothing: a release where the next receive follows at once,
 * and a source that is already selected by a receive that ends there. Returns the slot of the next
 * one, or INT32_MAX. */
static int32_t next_select(struct encoder *e, uint32_t *value)
{
    const struct port *r = &e->line->receive;
    for (; e->select < 2 * r->count; e->select++) {
        uint32_t i = e->select / 2;
        bool release = e->select % 2;
        bool joined = release && i + 1 < r->count && r->spans[i + 1].start == r->spans[i].end;
        bool same = !release && i && r->spans[i - 1].end == r->spans[i].start &&
                    source_of(e, &r->spans[i - 1]) == source_of(e, &r->spans[i]);
        if (joined || same)
            continue;
        *value = release ? IPU21_MUX_NEUTRAL : source_of(e, &r->spans[i]);
        return release ? r->spans[i].end : r->spans[i].start;
    }
    return INT32_MAX;
}

static uint32_t receive_address(const struct encoder *e, const struct span *span)
{
    const struct piece_target *d = &e->s->targets[e->s->pieces[span->piece].target];
    while (&e->s->tiles[d->tile] != e->line)
        d++;
    return d->address;
}

/* Moves past pointers that continue the receive before; returns the slot of the next one, or
 * INT32_MAX. */
static int32_t next_pointer(struct encoder *e, uint32_t *value)
{
    const struct port *r = &e->line->receive;
    for (; e->pointer < r->count; e->pointer++) {
        const struct span *span = &r->spans[e->pointer];
        uint32_t address = receive_address(e, span);
        if (e->pointer) {
            int32_t words = span[-1].end - span[-1].start;
            if (receive_address(e, span - 1) + 4 * (uint32_t)words == address)
                continue;
        }
        *value = address / 4;
        return span->start + e->line->offset;
    }
    return INT32_MAX;
}

/* The next controls: the smallest slot, with one or both values in *inst. */
struct controls {
    int32_t slot, select, pointer;
};

static struct controls next_controls(struct encoder *e)
{
    uint32_t select = 0, pointer = 0;
    int32_t x = next_select(e, &select), p = next_pointer(e, &pointer);
    struct controls c = {least(x, p), NO_VALUE, NO_VALUE};
    if (c.slot == INT32_MAX)
        return c;
    if (x == c.slot)
        c.select = (int32_t)select;
    if (p == c.slot)
        c.pointer = (int32_t)pointer;
    return c;
}

static void take_controls(struct encoder *e, const struct controls *c)
{
    e->select += c->select != NO_VALUE;
    e->pointer += c->pointer != NO_VALUE;
}

static void idle_until(struct encoder *e, int32_t slot)
{
    while (e->slot < slot) {
        int32_t n = least(slot - e->slot, IPU21_MAX_DELAY);
        emit(e, (struct inst){DELAY, e->slot, n, NO_VALUE, NO_VALUE, 0, 0});
    }
}

/* Controls between sends; `end` is where idling must end at the latest. */
static void idle_control(struct encoder *e, const struct controls *c, int32_t end)
{
    take_controls(e, c);
    struct inst inst = {DELAY, 0, 0, c->select, c->pointer, 0, 0};
    if (is_pair(&inst)) { /* issues in its first slot and may idle on up to the next control */
        idle_until(e, c->slot);
        struct controls next = next_controls(e);
        inst.slot = c->slot;
        inst.events = least(least(end, next.slot) - c->slot, IPU21_MAX_SEND);
    } else { /* issues in its last slot */
        int32_t limit = c->pointer != NO_VALUE ? IPU21_MAX_DELAYPIC : IPU21_MAX_DELAYXPIC;
        if (c->slot + 1 - e->slot > limit)
            idle_until(e, c->slot + 1 - limit);
        inst.slot = e->slot;
        inst.events = c->slot + 1 - e->slot;
    }
    emit(e, inst);
}

static void continue_send(struct encoder *e, const struct span *span, const struct piece *p,
                          int32_t until)
{
    while (e->slot < until) {
        int32_t n = least(until - e->slot, IPU21_MAX_SENDOFF);
        uint32_t word = p->address / 4 + (uint32_t)(e->slot - span->start);
        emit(e, (struct inst){CONTINUE, e->slot, n, NO_VALUE, NO_VALUE, word, p->control});
    }
}

static void walk_send(struct encoder *e, const struct span *span)
{
    const struct piece *p = &e->s->pieces[span->piece];
    struct inst inst = {SEND, span->start, 0, NO_VALUE, NO_VALUE, p->address / 4, p->control};
    for (;;) {
        struct controls c = next_controls(e);
        int32_t until = least(c.slot, span->end);
        inst.events = least(until - inst.slot, IPU21_MAX_SEND);
        emit(e, inst);
        continue_send(e, span, p, until);
        if (c.slot >= span->end)
            return;
        take_controls(e, &c);
        uint32_t word = p->address / 4 + (uint32_t)(c.slot - span->start);
        inst = (struct inst){CONTINUE, c.slot, 0, c.select, c.pointer, word, p->control};
    }
}

static void walk(struct encoder *e, int32_t horizon)
{
    const struct port *sends = &e->line->send;
    while (e->slot < horizon) {
        const struct span *span = e->send < sends->count ? &sends->spans[e->send] : NULL;
        int32_t end = span ? span->start : horizon;
        for (;;) {
            struct controls c = next_controls(e);
            if (c.slot >= end)
                break;
            idle_control(e, &c, end);
        }
        idle_until(e, end);
        if (span)
            walk_send(e, span);
        e->send++;
    }
}

int exchange_encode(const struct schedule *s, unsigned tile, struct exchange_row *row)
{
    struct encoder e = {
        .s = s, .line = &s->tiles[tile], .arena = s->arena, .row = row, .mux = IPU21_MUX_NEUTRAL};
    int32_t horizon = exchange_tile_horizon(s, tile);
    *row = (struct exchange_row){0};
    if (horizon == 0)
        return 0;
    walk(&e, horizon);
    put_inst(&e, &e.last);
    put(&e, ipu21_br(10));
    if (e.failed)
        return ipu_error_set(s->error, IPU_ERR_NO_MEMORY,
                             "exchange: out of memory for the row of tile %u", tile);
    row->receive_words = (uint32_t)e.line->receive_words;
    row->horizon = (uint32_t)horizon;
    return 0;
}
