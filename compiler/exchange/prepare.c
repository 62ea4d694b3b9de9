/* From transfers to pieces: checks, splitting, components, lower bound.
 *
 * A transfer becomes one piece, or several when it is longer than one send may be, or when it comes
 * back to its own source and would disturb itself: its release would issue beside its own send
 * start, or it would be stored into the granule that it is still being read from. Components are
 * sets of tiles that exchange with each other; they are scheduled apart. Fails for a phase that
 * breaks the contract of exchange.h (IPU_ERR_INTERNAL: whoever made the phase is wrong) and for
 * lack of memory.
 */
#include "compiler/exchange/internal.h"

#include "device/ipu21/exchange.h"
#include "device/ipu21/memory.h"

#include <limits.h>

#define REFUSE(s, ...) ipu_error_set((s)->error, IPU_ERR_INTERNAL, "exchange: " __VA_ARGS__)

static int no_memory(const struct schedule *s)
{
    return ipu_error_set(s->error, IPU_ERR_NO_MEMORY, "exchange: out of memory for %u transfers",
                         s->phase->count);
}

static bool range_is_legal(uint32_t address, uint32_t words)
{
    return address % 4 == 0 && address >= IPU21_SRAM_BASE && address < IPU21_SRAM_END &&
           words <= (IPU21_SRAM_END - address) / 4;
}

/* Whether the row code of `tile` may touch a granule of the range. */
static bool touches_code(const struct schedule *s, unsigned tile, uint32_t address, uint32_t words)
{
    const uint32_t *code = s->phase->code_elements;
    return code && (code[tile] & ipu21_element_mask(address, words * 4));
}

static int check_transfer(const struct schedule *s, uint32_t index)
{
    const struct exchange_transfer *t = &s->phase->transfers[index];
    if (t->source >= IPU21_TILES || t->words == 0 || t->target_count == 0 ||
        !range_is_legal(t->address, t->words))
        return REFUSE(s, "transfer %u (%u words from 0x%x of tile %u to %u tiles) is malformed",
                      index, t->words, t->address, t->source, t->target_count);
    if (touches_code(s, t->source, t->address, t->words))
        return REFUSE(s, "transfer %u reads 0x%x of tile %u beside the running row", index,
                      t->address, t->source);
    for (uint32_t k = 0; k < t->target_count; k++) {
        const struct exchange_target *d = &t->targets[k];
        if (d->tile >= IPU21_TILES || !range_is_legal(d->address, t->words))
            return REFUSE(s, "transfer %u writes %u words to 0x%x of tile %u", index, t->words,
                          d->address, d->tile);
        if (touches_code(s, d->tile, d->address, t->words))
            return REFUSE(s, "transfer %u writes 0x%x of tile %u beside the running row", index,
                          d->address, d->tile);
        if (d->tile == t->source && t->target_count == 1)
            return REFUSE(s, "transfer %u goes from tile %u to itself alone", index, t->source);
    }
    return 0;
}

/* Refuses a tile that one transfer names twice; `seen` holds the last transfer + 1 of every tile.
 */
static int check_targets(const struct schedule *s, uint32_t index, uint32_t *seen)
{
    const struct exchange_transfer *t = &s->phase->transfers[index];
    for (uint32_t k = 0; k < t->target_count; k++) {
        uint32_t *mark = &seen[t->targets[k].tile];
        if (*mark == index + 1)
            return REFUSE(s, "transfer %u names tile %u twice", index, t->targets[k].tile);
        *mark = index + 1;
    }
    return 0;
}

/* The own address of a transfer that returns to its source, or 0. */
static uint32_t self_address(const struct exchange_transfer *t)
{
    for (uint32_t k = 0; k < t->target_count; k++) {
        if (t->targets[k].tile == t->source)
            return t->targets[k].address;
    }
    return 0;
}

/* Words of the next piece when `left` words of a transfer remain, starting at word `at`. */
static uint32_t piece_words(const struct exchange_transfer *t, uint32_t at, uint32_t left)
{
    uint32_t words = left < IPU21_MAX_TRANSFER ? left : IPU21_MAX_TRANSFER;
    uint32_t own = self_address(t);
    if (!own)
        return words;
    unsigned id = ipu21_physical(t->source);
    int ttm = ipu21_ttm(id, id), latency = ipu21_latency(id, id);
    uint32_t reads = ipu21_element_mask(t->address + at * 4, words * 4);
    uint32_t writes = ipu21_element_mask(own + at * 4, words * 4);
    if ((reads & writes) && words > (uint32_t)latency)
        words = (uint32_t)latency;
    if ((int)words + ttm == 0 || (int)words + ttm == -1) /* release beside the own send start */
        words -= 2;
    return words;
}

uint32_t exchange_piece_count(const struct exchange_transfer *t)
{
    if (!self_address(t))
        return (t->words + IPU21_MAX_TRANSFER - 1) / IPU21_MAX_TRANSFER;
    uint32_t count = 0;
    for (uint32_t at = 0; at < t->words; count++)
        at += piece_words(t, at, t->words - at);
    return count;
}

/* One piece to targets [first, last) of a transfer. */
static void add_piece(struct schedule *s, const struct exchange_transfer *t, uint32_t at,
                      uint32_t words, const uint32_t *targets, uint32_t count)
{
    struct piece *p = &s->pieces[s->piece_count++];
    p->address = t->address + at * 4;
    p->words = (int32_t)words;
    p->start = EXCHANGE_UNPLACED;
    p->elements = ipu21_element_mask(p->address, words * 4);
    p->target = s->target_count;
    p->target_count = count;
    p->source = t->source;
    p->physical = (uint16_t)ipu21_physical(t->source);
    p->reach = INT_MIN;
    int first = INT_MAX;
    for (uint32_t k = 0; k < count; k++) {
        const struct exchange_target *from = &t->targets[targets[k]];
        struct piece_target *d = &s->targets[s->target_count++];
        unsigned id = ipu21_physical(from->tile);
        d->address = from->address + at * 4;
        d->elements = ipu21_element_mask(d->address, words * 4);
        d->tile = from->tile;
        d->ttm = (int16_t)ipu21_ttm(p->physical, id);
        int latency = ipu21_latency(p->physical, id);
        p->reach = latency > p->reach ? latency : p->reach;
        first = d->ttm < first ? d->ttm : first;
        p->control = (uint8_t)(count > 1 ? IPU21_SEND_BOTH : ipu21_direction(p->physical, id));
    }
    p->earliest = first < 0 ? -first : 0;
}

/* Where a target goes when multicasts are split: targets of one class stay together. */
static uint32_t target_class(const struct schedule *s, const struct exchange_transfer *t,
                             uint32_t k)
{
    if (s->split == EXCHANGE_SPLIT_NONE)
        return 0;
    return s->split == EXCHANGE_SPLIT_ALL ? k : ipu21_physical(t->targets[k].tile) & 61;
}

/* Adds the pieces of words [at, at + words), one for each class of targets. A transfer that returns
 * to its source stays whole, because a tile cannot send to itself alone; one to very many targets
 * does, because its row would grow. */
static void add_pieces(struct schedule *s, const struct exchange_transfer *t, uint32_t at,
                       uint32_t words)
{
    uint32_t chosen[IPU21_TILES], taken[(IPU21_TILES + 31) / 32] = {0};
    bool whole = self_address(t) != 0 || t->target_count > EXCHANGE_SPLIT_TARGETS;
    for (uint32_t first = 0; first < t->target_count; first++) {
        if (taken[first / 32] >> first % 32 & 1)
            continue;
        uint32_t count = 0, class = whole ? 0 : target_class(s, t, first);
        for (uint32_t k = first; k < t->target_count; k++) {
            if ((taken[k / 32] >> k % 32 & 1) || (!whole && target_class(s, t, k) != class))
                continue;
            taken[k / 32] |= 1u << k % 32;
            chosen[count++] = k;
            if (!whole && s->split == EXCHANGE_SPLIT_ALL)
                break;
        }
        add_piece(s, t, at, words, chosen, count);
    }
}

static int split(struct schedule *s)
{
    uint64_t pieces = 0, targets = 0;
    for (uint32_t i = 0; i < s->phase->count; i++) {
        const struct exchange_transfer *t = &s->phase->transfers[i];
        uint64_t count = exchange_piece_count(t);
        pieces += s->split == EXCHANGE_SPLIT_NONE ? count : count * t->target_count;
        targets += count * t->target_count;
    }
    if (pieces > INT32_MAX || targets > INT32_MAX)
        return REFUSE(s, "%u transfers are too many for one phase", s->phase->count);
    s->pieces = ARENA_ARRAY(s->arena, struct piece, pieces);
    s->targets = ARENA_ARRAY(s->arena, struct piece_target, targets);
    if (!s->pieces || !s->targets)
        return no_memory(s);
    for (uint32_t i = 0; i < s->phase->count; i++) {
        const struct exchange_transfer *t = &s->phase->transfers[i];
        for (uint32_t at = 0; at < t->words;) {
            uint32_t words = piece_words(t, at, t->words - at);
            add_pieces(s, t, at, words);
            at += words;
        }
    }
    return 0;
}

/* --- time lines ----------------------------------------------------------------------------- */

static void count_use(struct port *port, int32_t words, uint32_t elements)
{
    port->capacity++;
    port->elements |= elements;
    if (!port->smallest || words < port->smallest)
        port->smallest = words;
}

static int size_lines(struct schedule *s)
{
    s->tiles = ARENA_ARRAY(s->arena, struct tile_line, IPU21_TILES);
    struct span *spans = ARENA_ARRAY(s->arena, struct span, s->piece_count + s->target_count);
    if (!s->tiles || !spans)
        return no_memory(s);
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const struct piece *p = &s->pieces[i];
        struct tile_line *from = &s->tiles[p->source];
        count_use(&from->send, p->words, p->elements);
        if (__builtin_add_overflow(from->send_words, p->words, &from->send_words) ||
            from->send_words > INT32_MAX / 8)
            return REFUSE(s, "tile %u sends too much in one phase", p->source);
        for (uint32_t k = 0; k < p->target_count; k++) {
            struct tile_line *to = &s->tiles[s->targets[p->target + k].tile];
            count_use(&to->receive, p->words, s->targets[p->target + k].elements);
            if (__builtin_add_overflow(to->receive_words, p->words, &to->receive_words) ||
                to->receive_words > INT32_MAX / 8)
                return REFUSE(s, "tile %u receives too much in one phase",
                              s->targets[p->target + k].tile);
        }
    }
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        struct tile_line *line = &s->tiles[t];
        line->offset = 52 + 2 * (int32_t)ipu21_row(ipu21_physical(t));
        line->send.spans = spans;
        spans += line->send.capacity;
        line->receive.spans = spans;
        spans += line->receive.capacity;
    }
    return 0;
}

/* --- components ----------------------------------------------------------------------------- */

static uint16_t root(uint16_t *parent, uint16_t tile)
{
    while (parent[tile] != tile) {
        parent[tile] = parent[parent[tile]];
        tile = parent[tile];
    }
    return tile;
}

static int find_components(struct schedule *s)
{
    uint16_t parent[IPU21_TILES];
    uint32_t number[IPU21_TILES] = {0};
    for (unsigned t = 0; t < IPU21_TILES; t++)
        parent[t] = (uint16_t)t;
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const struct piece *p = &s->pieces[i];
        uint16_t a = root(parent, p->source);
        for (uint32_t k = 0; k < p->target_count; k++)
            parent[root(parent, s->targets[p->target + k].tile)] = a;
    }
    for (uint32_t i = 0; i < s->piece_count; i++) { /* numbered by first piece */
        uint32_t *n = &number[root(parent, s->pieces[i].source)];
        if (!*n)
            *n = ++s->components;
        s->pieces[i].component = *n - 1;
    }
    s->component_first = ARENA_ARRAY(s->arena, uint32_t, s->components + 1);
    s->component_piece = ARENA_ARRAY(s->arena, uint32_t, s->piece_count);
    if (!s->component_first || !s->component_piece)
        return no_memory(s);
    uint32_t *first = s->component_first;
    for (uint32_t i = 0; i < s->piece_count; i++)
        first[s->pieces[i].component + 1]++;
    for (uint32_t c = 0; c < s->components; c++)
        first[c + 1] += first[c];
    for (uint32_t i = s->piece_count;
         i-- > 0;) /* fills from the back, so that first[] is left at the starts */
        s->component_piece[--first[s->pieces[i].component + 1]] = i;
    for (uint32_t c = 0; c < s->components; c++)
        first[c] = first[c + 1];
    first[s->components] = s->piece_count;
    return 0;
}

/* --- lower bound ---------------------------------------------------------------------------- */

enum { BUCKETS = 512 }; /* more than any latency, or first arrival, in slots */

/* Words of a tile's pieces by the slots that pass before (receives) or after (sends) their time on
 * the port. */
struct profile {
    int32_t words[BUCKETS];
    int32_t total;
    int32_t earliest; /* of the sends */
};

static int32_t bucket(int32_t slots)
{
    return slots < 0 ? 0 : slots < BUCKETS ? slots : BUCKETS - 1;
}

/* Those pieces that have at least k slots to go take their words and then k slots more, for every
 * k; the first one may not start before `earliest`. The same holds for heads, turned round. */
static int32_t profile_bound(const struct profile *p)
{
    int32_t words = 0, bound = 0;
    for (int32_t k = BUCKETS; k-- > 0 && words < p->total;) {
        words += p->words[k];
        if (p->words[k] && words + k > bound)
            bound = words + k;
    }
    return bound ? bound + p->earliest + IPU21_RECEIVE_GUARD : 0;
}

static void add_profiles(const struct schedule *s, const struct piece *p, struct profile *sends,
                         struct profile *receives)
{
    struct profile *from = &sends[p->source];
    from->words[bucket(p->reach)] += p->words;
    from->total += p->words;
    if (p->earliest < from->earliest)
        from->earliest = p->earliest;
    for (uint32_t k = 0; k < p->target_count; k++) {
        const struct piece_target *d = &s->targets[p->target + k];
        int32_t head = p->earliest + d->ttm + s->tiles[d->tile].offset + 1;
        receives[d->tile].words[bucket(head)] += p->words;
        receives[d->tile].total += p->words;
    }
}

static int find_lower_bounds(struct schedule *s)
{
    struct profile *sends = ARENA_ARRAY(s->arena, struct profile, 2 * IPU21_TILES);
    struct profile *receives = sends + IPU21_TILES;
    s->component_bound = ARENA_ARRAY(s->arena, int32_t, s->components + 1);
    if (!sends || !s->component_bound)
        return no_memory(s);
    for (uint32_t i = 0; i < s->piece_count; i++)
        sends[s->pieces[i].source].earliest = INT_MAX;
    for (uint32_t i = 0; i < s->piece_count; i++)
        add_profiles(s, &s->pieces[i], sends, receives);
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const struct piece *p = &s->pieces[i];
        int32_t *bound = &s->component_bound[p->component];
        struct profile *from = &sends[p->source];
        int32_t most = profile_bound(from);
        *bound = most > *bound ? most : *bound;
        from->total = 0; /* once a tile */
        for (uint32_t k = 0; k < p->target_count; k++) {
            struct profile *to = &receives[s->targets[p->target + k].tile];
            most = profile_bound(to);
            *bound = most > *bound ? most : *bound;
            to->total = 0;
        }
        s->lower_bound = *bound > s->lower_bound ? *bound : s->lower_bound;
    }
    return 0;
}

int exchange_prepare(struct schedule *s)
{
    uint32_t *seen = ARENA_ARRAY(s->arena, uint32_t, IPU21_TILES);
    if (!seen)
        return no_memory(s);
    for (uint32_t i = 0; i < s->phase->count; i++) {
        int code = check_transfer(s, i);
        if (!code)
            code = check_targets(s, i, seen);
        if (code)
            return code;
    }
    int code = split(s);
    if (!code)
        code = size_lines(s);
    if (!code)
        code = find_components(s);
    if (!code)
        code = find_lower_bounds(s);
    return code;
}
