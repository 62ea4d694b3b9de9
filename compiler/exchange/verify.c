/* Proof that encoded rows do what a phase asks: decode the words, replay them, compare.
 *
 * This file shares nothing with the scheduler but the topology: decode.c turns words into bus
 * segments, multiplexer settings and pointer writes; here each receiver's settings are laid over
 * the bus of the selected source, which gives runs of words that are taken; pointer writes turn
 * these into stores; stores are compared with the transfers, word for word. Then the granule rules
 * are checked. The work is linear in instructions and transfers, apart from sorting. Any difference
 * is IPU_ERR_INTERNAL and names tile and slot.
 */
#include "compiler/exchange/decode.h"

#include "device/ipu21/exchange.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"

#include <stdlib.h>

/* A run of words stored at a tile. */
struct store {
    uint32_t address, words; /* byte address at the receiver */
    uint32_t source_address;
    uint16_t tile, source; /* logical */
};

struct verifier {
    const struct exchange_phase *phase;
    const struct exchange_schedule *schedule;
    struct arena *arena;
    struct ipu_error *error;
    struct decoded_row *rows;
    struct store *stores; /* of one tile */
    uint32_t store_count, store_capacity;
    struct store *wanted; /* of all tiles, by tile */
    uint32_t *wanted_first;
};

#define REFUSE(v, ...)                                                                             \
    ipu_error_set((v)->error, IPU_ERR_INTERNAL, "exchange verifier: " __VA_ARGS__)

static int no_memory(const struct verifier *v)
{
    return ipu_error_set(v->error, IPU_ERR_NO_MEMORY, "exchange verifier: out of memory");
}

/* --- what is wanted ------------------------------------------------------------------------- */

static int compare_stores(const void *a, const void *b)
{
    const struct store *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->words < y->words ? -1 : x->words > y->words;
}

static int list_wanted(struct verifier *v)
{
    v->wanted_first = ARENA_ARRAY(v->arena, uint32_t, IPU21_TILES + 1);
    if (!v->wanted_first)
        return no_memory(v);
    for (uint32_t i = 0; i < v->phase->count; i++) {
        const struct exchange_transfer *t = &v->phase->transfers[i];
        if (t->source >= IPU21_TILES)
            return REFUSE(v, "transfer %u has no source", i);
        for (uint32_t k = 0; k < t->target_count; k++) {
            if (t->targets[k].tile >= IPU21_TILES)
                return REFUSE(v, "transfer %u names tile %u", i, t->targets[k].tile);
            v->wanted_first[t->targets[k].tile + 1]++;
        }
    }
    for (unsigned t = 0; t < IPU21_TILES; t++)
        v->wanted_first[t + 1] += v->wanted_first[t];
    uint32_t *fill = arena_memdup(v->arena, v->wanted_first, IPU21_TILES * sizeof *fill);
    v->wanted = ARENA_ARRAY(v->arena, struct store, v->wanted_first[IPU21_TILES]);
    if (!fill || !v->wanted)
        return no_memory(v);
    for (uint32_t i = 0; i < v->phase->count; i++) {
        const struct exchange_transfer *t = &v->phase->transfers[i];
        for (uint32_t k = 0; k < t->target_count; k++) {
            const struct exchange_target *d = &t->targets[k];
            v->wanted[fill[d->tile]++] =
                (struct store){d->address, t->words, t->address, d->tile, t->source};
        }
    }
    return 0;
}

/* --- what happens --------------------------------------------------------------------------- */

static int add_store(struct verifier *v, struct store store)
{
    if (v->store_count) { /* a run that goes on is one store */
        struct store *last = &v->stores[v->store_count - 1];
        if (last->source == store.source && last->address + 4 * last->words == store.address &&
            last->source_address + 4 * last->words == store.source_address) {
            last->words += store.words;
            return 0;
        }
    }
    if (v->store_count == v->store_capacity) {
        uint32_t capacity = v->store_capacity ? v->store_capacity * 2 : 256;
        struct store *stores = ARENA_ARRAY(v->arena, struct store, capacity);
        if (!stores)
            return no_memory(v);
        for (uint32_t i = 0; i < v->store_count; i++)
            stores[i] = v->stores[i];
        v->stores = stores;
        v->store_capacity = capacity;
    }
    v->stores[v->store_count++] = store;
    return 0;
}

/* Replay of one receiver. */
struct receiver {
    unsigned tile, id;
    int32_t delay;    /* multiplexer slot to pointer slot */
    uint32_t next;    /* next pointer write */
    bool pointed;     /* a pointer has been written */
    uint32_t pointer; /* word address of the next store */
    uint32_t words;   /* stored so far */
    int32_t last;     /* event after the last store */
};

/* Words of `segment` taken in multiplexer slots [from, to): stores them under the pointers in
 * force. */
static int take_run(struct verifier *v, struct receiver *r, const struct bus_segment *segment,
                    unsigned source, int32_t ttm, int32_t from, int32_t to)
{
    const struct decoded_row *row = &v->rows[r->tile];
    while (from < to) {
        while (r->next < row->pointer_count && row->pointers[r->next].slot <= from + r->delay) {
            r->pointer = row->pointers[r->next++].value;
            r->pointed = true;
        }
        if (!r->pointed)
            return REFUSE(v, "tile %u stores in slot %d before any pointer is set", r->tile, from);
        int32_t end = to;
        if (r->next < row->pointer_count && row->pointers[r->next].slot - r->delay < to)
            end = row->pointers[r->next].slot - r->delay;
        uint32_t words = (uint32_t)(end - from);
        uint32_t word = segment->word + (uint32_t)(from - ttm - segment->start);
        int code = add_store(v, (struct store){r->pointer * 4, words, word * 4, (uint16_t)r->tile,
                                               (uint16_t)source});
        if (code)
            return code;
        r->pointer += words;
        r->words += words;
        from = end;
    }
    r->last = to + r->delay + 1;
    return 0;
}

/* First segment of a bus that ends after `slot`. */
static uint32_t find_segment(const struct decoded_row *bus, int32_t slot)
{
    uint32_t low = 0, high = bus->segment_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bus->segments[middle].start + bus->segments[middle].words > slot)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The source `value` is selected in multiplexer slots [from, to): every slot must bring a word. */
static int listen(struct verifier *v, struct receiver *r, uint32_t value, int32_t from, int32_t to)
{
    if (value == IPU21_MUX_NEUTRAL)
        return 0;
    if (value >= IPU21_PHYSICAL_IDS)
        return REFUSE(v, "tile %u selects source 0x%x, which is no tile", r->tile, value);
    unsigned source = ipu21_logical(value);
    const struct decoded_row *bus = &v->rows[source];
    int32_t ttm = ipu21_ttm(value, r->id);
    unsigned direction = ipu21_direction(value, r->id);
    for (uint32_t i = find_segment(bus, from - ttm); from < to; i++) {
        if (i == bus->segment_count || bus->segments[i].start > from - ttm)
            return REFUSE(v, "tile %u listens to the idle bus of tile %u in slot %d", r->tile,
                          source, from);
        const struct bus_segment *segment = &bus->segments[i];
        if (!(segment->control & direction))
            return REFUSE(v, "tile %u listens to tile %u, which sends the other way in slot %d",
                          r->tile, source, from - ttm);
        int32_t end = segment->start + segment->words + ttm;
        int code = take_run(v, r, segment, source, ttm, from, end < to ? end : to);
        if (code)
            return code;
        from = end;
    }
    return 0;
}

static int replay_receiver(struct verifier *v, unsigned tile)
{
    const struct decoded_row *row = &v->rows[tile];
    struct receiver r = {.tile = tile, .id = ipu21_physical(tile)};
    r.delay = 52 + 2 * (int32_t)ipu21_row(r.id);
    v->store_count = 0;
    for (uint32_t i = 0; i < row->select_count; i++) {
        int32_t to = i + 1 < row->select_count ? row->selects[i + 1].slot : row->horizon;
        int code = listen(v, &r, row->selects[i].value, row->selects[i].slot, to);
        if (code)
            return code;
    }
    if (row->select_count && row->selects[row->select_count - 1].value != IPU21_MUX_NEUTRAL)
        return REFUSE(v, "tile %u returns without releasing its source", tile);
    if (r.words && r.last + IPU21_RECEIVE_GUARD > row->horizon)
        return REFUSE(v, "tile %u returns at event %d, its last word is stored at event %d", tile,
                      row->horizon, r.last);
    if (r.words != v->schedule->rows[tile].receive_words)
        return REFUSE(v, "tile %u receives %u words and declares %u", tile, r.words,
                      v->schedule->rows[tile].receive_words);
    return 0;
}

/* Both lists sorted by address: each wanted word must be stored once, from the right source word.
 */
static int compare_tile(struct verifier *v, unsigned tile)
{
    struct store *w = v->wanted + v->wanted_first[tile], *d = v->stores;
    uint32_t wanted = v->wanted_first[tile + 1] - v->wanted_first[tile], done = v->store_count,
             k = 0;
    qsort(w, wanted, sizeof *w, compare_stores);
    if (done)
        qsort(d, done, sizeof *d, compare_stores);
    for (uint32_t i = 0; i < wanted; i++) {
        struct store left = w[i];
        if (i && w[i - 1].address + 4 * w[i - 1].words > left.address)
            return REFUSE(v, "two transfers write 0x%x of tile %u", left.address, tile);
        while (left.words) {
            if (k == done || d[k].address != left.address)
                return REFUSE(v, "tile %u never stores the word from tile %u for 0x%x, or twice",
                              tile, left.source, left.address);
            uint32_t words = d[k].words < left.words ? d[k].words : left.words;
            if (d[k].source != left.source || d[k].source_address != left.source_address)
                return REFUSE(v,
                              "tile %u stores word 0x%x of tile %u at 0x%x, wanted 0x%x of tile %u",
                              tile, d[k].source_address, d[k].source, left.address,
                              left.source_address, left.source);
            left = (struct store){left.address + 4 * words, left.words - words,
                                  left.source_address + 4 * words, left.tile, left.source};
            d[k] = (struct store){d[k].address + 4 * words, d[k].words - words,
                                  d[k].source_address + 4 * words, d[k].tile, d[k].source};
            k += d[k].words == 0;
        }
    }
    return k == done ? 0
                     : REFUSE(v, "tile %u stores %u words at 0x%x that nobody asked for", tile,
                              d[k].words, d[k].address);
}

/* --- granules ------------------------------------------------------------------------------- */

static bool in_sram(uint32_t word, int32_t words)
{
    return word * 4 >= IPU21_SRAM_BASE && word * 4 + (uint32_t)words * 4 <= IPU21_SRAM_END;
}

static int check_send(struct verifier *v, unsigned tile, const struct bus_segment *s)
{
    uint32_t code = v->phase->code_elements ? v->phase->code_elements[tile] : 0;
    if (!in_sram(s->word, s->words))
        return REFUSE(v, "tile %u sends from outside its SRAM in slot %d", tile, s->start);
    if (ipu21_element_mask(s->word * 4, (uint32_t)s->words * 4) & code)
        return REFUSE(v, "tile %u sends from the granule of its row in slot %d", tile, s->start);
    return 0;
}

/* A store window of a tile: receives between two pointer writes or gaps. */
struct window {
    int32_t start, end;
    uint32_t elements;
};

/* Checks the store windows [start, end + guard) against the sends; both come in time order. */
static int check_overlaps(struct verifier *v, unsigned tile, const struct window *windows,
                          uint32_t count)
{
    const struct decoded_row *row = &v->rows[tile];
    uint32_t first = 0;
    for (uint32_t i = 0; i < row->segment_count; i++) {
        const struct bus_segment *s = &row->segments[i];
        uint32_t elements = ipu21_element_mask(s->word * 4, (uint32_t)s->words * 4);
        while (first < count && windows[first].end + IPU21_RECEIVE_GUARD <= s->start)
            first++;
        for (uint32_t k = first; k < count && windows[k].start < s->start + s->words; k++) {
            if (windows[k].elements & elements)
                return REFUSE(v, "tile %u sends and stores in one granule at slot %d", tile,
                              windows[k].start > s->start ? windows[k].start : s->start);
        }
    }
    return 0;
}

/* The windows follow from the selects: every non-neutral slot stores one word under the pointer in
 * force. */
static int check_granules(struct verifier *v, unsigned tile)
{
    const struct decoded_row *row = &v->rows[tile];
    uint32_t code = v->phase->code_elements ? v->phase->code_elements[tile] : 0;
    int32_t delay = 53 + 2 * (int32_t)ipu21_row(ipu21_physical(tile));
    for (uint32_t i = 0; i < row->segment_count; i++) {
        int result = check_send(v, tile, &row->segments[i]);
        if (result)
            return result;
    }
    uint32_t capacity = row->select_count + row->pointer_count, count = 0, next = 0, pointer = 0;
    struct window *windows = ARENA_ARRAY(v->arena, struct window, capacity);
    if (!windows)
        return no_memory(v);
    for (uint32_t i = 0; i + 1 < row->select_count; i++) {
        int32_t from = row->selects[i].slot, to = row->selects[i + 1].slot;
        while (row->selects[i].value != IPU21_MUX_NEUTRAL && from < to) {
            while (next < row->pointer_count && row->pointers[next].slot <= from + delay - 1)
                pointer = row->pointers[next++].value;
            int32_t end = to;
            if (next < row->pointer_count && row->pointers[next].slot - delay + 1 < to)
                end = row->pointers[next].slot - delay + 1;
            if (!in_sram(pointer, end - from))
                return REFUSE(v, "tile %u stores outside its SRAM in slot %d", tile, from);
            uint32_t elements = ipu21_element_mask(pointer * 4, (uint32_t)(end - from) * 4);
            if (elements & code)
                return REFUSE(v, "tile %u stores into the granule of its row in slot %d", tile,
                              from);
            windows[count++] = (struct window){from + delay, end + delay, elements};
            pointer += (uint32_t)(end - from);
            from = end;
        }
    }
    return check_overlaps(v, tile, windows, count);
}

/* --- a transfer may not read what another one writes ------------------------------------------ */

struct interval {
    uint32_t tile, start, end;
};

static int compare_intervals(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->tile != y->tile)
        return x->tile < y->tile ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int check_reads(struct verifier *v)
{
    uint32_t n = v->phase->count;
    struct interval *reads = ARENA_ARRAY(v->arena, struct interval, n);
    if (!reads)
        return no_memory(v);
    for (uint32_t i = 0; i < n; i++) {
        const struct exchange_transfer *t = &v->phase->transfers[i];
        reads[i] = (struct interval){t->source, t->address, t->address + 4 * t->words};
    }
    qsort(reads, n, sizeof *reads, compare_intervals);
    for (uint32_t i = 0; i < n;) {
        unsigned tile = reads[i].tile;
        uint32_t w = v->wanted_first[tile], last = v->wanted_first[tile + 1];
        for (; i < n && reads[i].tile == tile;
             i++) { /* wanted stores are disjoint and sorted by now */
            while (w < last && v->wanted[w].address + 4 * v->wanted[w].words <= reads[i].start)
                w++;
            if (w < last && v->wanted[w].address < reads[i].end)
                return REFUSE(v, "tile %u reads 0x%x, which another transfer of the phase writes",
                              tile, v->wanted[w].address);
        }
    }
    return 0;
}

static int verify_tiles(struct verifier *v)
{
    uint32_t horizon = 0, bytes = 0;
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        int code = exchange_decode(&v->schedule->rows[t], t, v->arena, &v->rows[t], v->error);
        if (code)
            return code;
        const struct exchange_row *row = &v->schedule->rows[t];
        horizon = row->horizon > horizon ? row->horizon : horizon;
        bytes = row->count * 4 > bytes ? row->count * 4 : bytes;
    }
    if (horizon != v->schedule->horizon || bytes != v->schedule->maximum_row_bytes)
        return REFUSE(v, "the summary of the schedule does not match its rows");
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        int code = replay_receiver(v, t);
        if (!code)
            code = compare_tile(v, t);
        if (!code)
            code = check_granules(v, t);
        if (code)
            return code;
    }
    return check_reads(v);
}

int exchange_verify(const struct exchange_phase *phase, const struct exchange_schedule *schedule,
                    struct arena *arena, struct ipu_error *error)
{
    struct verifier v = {.phase = phase, .schedule = schedule, .arena = arena, .error = error};
    v.rows = ARENA_ARRAY(arena, struct decoded_row, IPU21_TILES);
    if (!v.rows)
        return no_memory(&v);
    int code = list_wanted(&v);
    return code ? code : verify_tiles(&v);
}
