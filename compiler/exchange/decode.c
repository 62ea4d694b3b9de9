/* See decode.h. One pass over the words keeps the slot, the open outgoing stream and the slots that
 * may not hold a control; every word is matched against the encodings of facts/exchange.md section
 * 3 anew, from literal bit patterns. Malformed rows are IPU_ERR_INTERNAL and name tile and word.
 */
#include "compiler/exchange/decode.h"

enum { NO_SLOT = -2, MAX_SLOTS = 1 << 30 };

struct decoder {
    const struct exchange_row *row;
    unsigned tile;
    uint32_t at; /* word index */
    struct decoded_row *out;
    struct ipu_error *error;
    int32_t slot;
    bool open; /* the previous instruction transmitted, so a stream can go on */
    uint32_t next_word, control;
};

static int refuse(const struct decoder *d, const char *what)
{
    uint32_t word = d->row->words && d->at < d->row->count ? d->row->words[d->at] : 0;
    return ipu_error_set(d->error, IPU_ERR_INTERNAL,
                         "exchange verifier: row of tile %u, word %u (0x%08x): %s", d->tile, d->at,
                         word, what);
}

/* A send that starts in `slot` forbids controls in slots slot - 1 and slot. Controls before it are
 * in the lists already. */
static int start_send(struct decoder *d)
{
    const struct decoded_row *o = d->out;
    int32_t before = d->slot - 1;
    if ((o->select_count && o->selects[o->select_count - 1].slot >= before) ||
        (o->pointer_count && o->pointers[o->pointer_count - 1].slot >= before))
        return refuse(d, "a send starts in the slot after a control");
    return 0;
}

static void transmit(struct decoder *d, uint32_t word, int32_t count, uint32_t control)
{
    struct decoded_row *o = d->out;
    struct bus_segment *last = o->segment_count ? &o->segments[o->segment_count - 1] : NULL;
    if (last && last->start + last->words == d->slot && last->control == control &&
        last->word + (uint32_t)last->words == word)
        last->words += count;
    else
        o->segments[o->segment_count++] = (struct bus_segment){d->slot, count, word, control};
    d->next_word = word + (uint32_t)count;
    d->control = control;
}

static void write_select(struct decoder *d, int32_t slot, uint32_t value)
{
    d->out->selects[d->out->select_count++] = (struct control_write){slot, value};
}

static void write_pointer(struct decoder *d, int32_t slot, uint32_t value)
{
    d->out->pointers[d->out->pointer_count++] = (struct control_write){slot, value};
}

static int decode_delay(struct decoder *d, uint32_t word, int32_t *events)
{
    if ((word & 0xfff80000u) == 0x40a00000u) {
        *events = (int32_t)(word & 0x7ffff) + 1;
    } else if ((word & 0xfc000000u) == 0x60000000u && !(word & 0x40000)) {
        *events = (int32_t)(word >> 19 & 0x7f) + 1;
        write_pointer(d, d->slot + *events - 1, word & 0x3ffff);
    } else if ((word & 0xfc000000u) == 0x64000000u && !(word & 0x2000)) {
        *events = (int32_t)(word >> 14 & 0xfff) + 1;
        write_select(d, d->slot + *events - 1, word & 0x1fff);
    } else {
        return refuse(d, "no instruction of an ordinary exchange row");
    }
    d->open = false;
    return 0;
}

static int decode_send(struct decoder *d, uint32_t word, int32_t *events)
{
    uint32_t control = word & 7;
    if (control == 0 || control > 3)
        return refuse(d, "a send without direction, or of 64-bit items");
    *events = (int32_t)(word >> 21 & 63) + 1;
    int code = start_send(d);
    transmit(d, word >> 3 & 0x3ffff, *events, control);
    d->open = true;
    return code;
}

/* sendoff and sendpic continue the stream that is open. */
static int decode_continuation(struct decoder *d, uint32_t word, int32_t *events)
{
    if (!d->open)
        return refuse(d, "a continuation of no open stream");
    *events = (int32_t)(word >> 21 & 63) + 1;
    if (!(word & 0x100000)) { /* sendoff */
        *events += (int32_t)(word >> 14 & 63) << 6;
        if ((word >> 3 & 0x7ff) || (word & 7) != d->control)
            return refuse(d, "a continuation that jumps or turns");
    } else if (word & 0x80000) { /* sendpic with a pointer */
        if (word & 0x40000)
            return refuse(d, "a receive format in an ordinary row");
        write_pointer(d, d->slot, word & 0x3ffff);
    } else {
        if ((word & 0x40000) || (word & 0x3e000))
            return refuse(d, "a select of the second lane in an ordinary row");
        write_select(d, d->slot, word & 0x1fff);
    }
    transmit(d, d->next_word, *events, d->control);
    return 0;
}

static int decode_pair(struct decoder *d, uint32_t word, int32_t *events)
{
    if (d->at % 2 || d->at + 1 >= d->row->count)
        return refuse(d, "a two-word instruction that is not 8-byte aligned or is cut off");
    uint32_t inline_word = d->row->words[d->at + 1], control = word & 7;
    if ((word & 0x08000000u) || (inline_word & 0x80000000u))
        return refuse(d, "a format or second lane in an ordinary row");
    *events = (int32_t)(word >> 21 & 63) + 1;
    if (control) { /* must go on exactly where the open stream is: a stream cannot start with
                      controls */
        if (!d->open || control != d->control || (word >> 3 & 0x3ffff) != d->next_word)
            return refuse(d, "a stream that starts with controls");
        transmit(d, d->next_word, *events, control);
    } else {
        if (word >> 3 & 0x3ffff)
            return refuse(d, "a timed pair of controls with an address");
        d->open = false;
    }
    write_select(d, d->slot, inline_word >> 18 & 0x1fff);
    write_pointer(d, d->slot, inline_word & 0x3ffff);
    d->at++;
    return 0;
}

static int decode_word(struct decoder *d)
{
    uint32_t word = d->row->words[d->at];
    int32_t events = 0;
    int code;
    if ((word & 0xf8000000u) == 0x78000000u)
        code = decode_send(d, word, &events);
    else if ((word & 0xf8000000u) == 0x70000000u)
        code = decode_continuation(d, word, &events);
    else if ((word & 0xf0000000u) == 0xf0000000u)
        code = decode_pair(d, word, &events);
    else
        code = decode_delay(d, word, &events);
    if (code)
        return code;
    d->slot += events;
    d->at++;
    return d->slot > MAX_SLOTS ? refuse(d, "the row is too long") : 0;
}

int exchange_decode(const struct exchange_row *row, unsigned tile, struct arena *arena,
                    struct decoded_row *out, struct ipu_error *error)
{
    struct decoder d = {.row = row, .tile = tile, .out = out, .error = error};
    *out = (struct decoded_row){0};
    if (!row->words) {
        if (row->count || row->horizon || row->receive_words)
            return refuse(&d, "an absent row that claims something");
        return 0;
    }
    if (row->count == 0 || row->words[row->count - 1] != 0x43a00000u)
        return refuse(&d, "the row does not end with br $m10");
    out->segments = ARENA_ARRAY(arena, struct bus_segment, row->count);
    out->selects = ARENA_ARRAY(arena, struct control_write, row->count);
    out->pointers = ARENA_ARRAY(arena, struct control_write, row->count);
    if (!out->segments || !out->selects || !out->pointers)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "exchange verifier: out of memory");
    while (d.at + 1 < row->count) {
        int code = decode_word(&d);
        if (code)
            return code;
    }
    if (d.at != row->count - 1)
        return refuse(&d, "the last instruction swallows the return");
    out->horizon = d.slot;
    if ((uint32_t)d.slot != row->horizon)
        return refuse(&d, "the row takes another time than it declares");
    return d.slot < 6 ? refuse(&d, "the row is shorter than a send may be") : 0;
}
