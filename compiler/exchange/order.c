/* Greedy passes: in which order the pieces of a component are placed.
 *
 * exchange_dispatch() is a list scheduler. A heap holds the senders by the clock of their next
 * piece; the earliest sender picks, among its first few pending pieces, the one that can start
 * first (of equals the one whose receiver has most left to receive). If that piece would have to
 * wait beyond the next sender's clock, the sender goes back into the heap. The clock is the event
 * of the first store, not the slot of the first send: it makes tiles at both ends of the chip
 * comparable. exchange_list() places pieces in a given order. Both put every piece into the
 * earliest hole that fits, so neither can fail.
 */
#include "compiler/exchange/internal.h"

#include "device/ipu21/exchange.h"

#include <limits.h>

/* Pending pieces that a sender looks at: all that small phases have, few enough for half a million
 * transfers in two seconds. */
enum { WINDOW = 12 };

struct exchange_sender {
    int32_t clock;
    uint32_t first, count; /* pending pieces */
    uint16_t tile;
};

int exchange_order_prepare(struct schedule *s)
{
    struct scratch *w = &s->scratch;
    w->pending = ARENA_ARRAY(s->arena, uint32_t, s->piece_count);
    w->senders = ARENA_ARRAY(s->arena, struct exchange_sender, IPU21_TILES);
    w->number = ARENA_ARRAY(s->arena, uint32_t, IPU21_TILES);
    w->left = ARENA_ARRAY(s->arena, int32_t, IPU21_TILES);
    if (w->pending && w->senders && w->number && w->left)
        return 0;
    return ipu_error_set(s->error, IPU_ERR_NO_MEMORY, "exchange: out of memory for %u pieces",
                         s->piece_count);
}

static int32_t largest(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t piece_end(const struct piece *p)
{
    return p->start + p->reach + p->words + IPU21_RECEIVE_GUARD;
}

static bool sooner(const struct exchange_sender *a, const struct exchange_sender *b)
{
    return a->clock != b->clock ? a->clock < b->clock : a->tile < b->tile;
}

static void sift(struct exchange_sender *heap, uint32_t count, uint32_t at)
{
    struct exchange_sender moving = heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < count && sooner(&heap[child + 1], &heap[child]))
            child++;
        if (child >= count || !sooner(&heap[child], &moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Lists the senders of a component with their pieces in index order, and what every receiver has
 * left. */
static uint32_t list_senders(struct schedule *s, uint32_t component)
{
    struct scratch *w = &s->scratch;
    uint32_t senders = 0, first = s->component_first[component];
    uint32_t count = s->component_first[component + 1] - first;
    const uint32_t *pieces = s->component_piece + first;
    for (uint32_t i = 0; i < count; i++) {
        const struct piece *p = &s->pieces[pieces[i]];
        if (!w->number[p->source]) {
            w->senders[senders] = (struct exchange_sender){0, 0, 0, p->source};
            w->number[p->source] = ++senders;
        }
        w->senders[w->number[p->source] - 1].count++;
        for (uint32_t k = 0; k < p->target_count; k++)
            w->left[s->targets[p->target + k].tile] += p->words;
    }
    for (uint32_t i = 0, at = 0; i < senders; i++) {
        w->senders[i].first = at;
        at += w->senders[i].count;
        w->senders[i].count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct piece *p = &s->pieces[pieces[i]];
        struct exchange_sender *sender = &w->senders[w->number[p->source] - 1];
        w->pending[sender->first + sender->count++] = pieces[i];
        p->from = p->earliest;
    }
    for (uint32_t i = 0; i < senders; i++) {
        w->number[w->senders[i].tile] = 0;
        w->senders[i].clock = INT_MIN; /* not known before the first look */
    }
    return senders;
}

/* Index in the sender's pending list of the piece to send next. Starts only grow, so the last
 * answer is where to look on. */
static uint32_t choose(struct schedule *s, const struct exchange_sender *sender)
{
    const struct scratch *w = &s->scratch;
    uint32_t best = 0;
    int32_t best_pressure = 0;
    for (uint32_t i = 0; i < sender->count && i < WINDOW; i++) {
        struct piece *p = &s->pieces[w->pending[sender->first + i]];
        const struct piece *champion = &s->pieces[w->pending[sender->first + best]];
        if (i && p->from > champion->from)
            continue;
        p->from = exchange_earliest(s, p, p->from);
        if (i && p->from > champion->from)
            continue;
        int32_t pressure = 0;
        for (uint32_t k = 0; k < p->target_count; k++)
            pressure = largest(pressure, w->left[s->targets[p->target + k].tile]);
        if (i == 0 || p->from < champion->from || pressure > best_pressure) {
            best = i;
            best_pressure = pressure;
        }
    }
    return best;
}

static void place(struct schedule *s, struct exchange_sender *sender, uint32_t chosen)
{
    struct scratch *w = &s->scratch;
    uint32_t index = w->pending[sender->first + chosen];
    const struct piece *p = &s->pieces[index];
    exchange_place(s, index, p->from);
    for (uint32_t k = 0; k < p->target_count; k++)
        w->left[s->targets[p->target + k].tile] -= p->words;
    for (; chosen > 0; chosen--) /* keeps the order of the others */
        w->pending[sender->first + chosen] = w->pending[sender->first + chosen - 1];
    sender->first++;
    sender->count--;
    sender->clock += p->words;
}

int32_t exchange_dispatch(struct schedule *s, uint32_t component)
{
    struct exchange_sender *heap = s->scratch.senders;
    uint32_t count = list_senders(s, component);
    int32_t horizon = 0;
    for (uint32_t i = count; i-- > 0;)
        sift(heap, count, i);
    while (count) {
        uint32_t chosen = choose(s, &heap[0]), index = s->scratch.pending[heap[0].first + chosen];
        const struct piece *p = &s->pieces[index];
        heap[0].clock = p->from + p->reach;
        if ((count > 1 && sooner(&heap[1], &heap[0])) ||
            (count > 2 && sooner(&heap[2], &heap[0]))) {
            sift(heap, count, 0);
            continue;
        }
        place(s, &heap[0], chosen);
        horizon = largest(horizon, piece_end(p));
        if (heap[0].count == 0)
            heap[0] = heap[--count];
        if (count)
            sift(heap, count, 0);
    }
    return horizon;
}

int32_t exchange_list(struct schedule *s, const uint32_t *order, uint32_t count)
{
    int32_t horizon = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct piece *p = &s->pieces[order[i]];
        exchange_place(s, order[i], exchange_earliest(s, p, 0));
        horizon = largest(horizon, piece_end(p));
    }
    return horizon;
}
