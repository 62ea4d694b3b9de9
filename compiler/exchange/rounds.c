/* Orders for exchange_list(): rounds, and chains of multicasts.
 *
 * Rounds: when every piece of a component has one receiver, its pieces are the edges of a bipartite
 * multigraph of senders and receivers, which can be coloured with as many colours as the largest
 * degree (König). Pieces of one colour share no port, so they go side by side, and colour after
 * colour leaves hardly a hole when the sizes are alike. Otherwise a round is the position among the
 * pieces of the sender.
 *
 * Chains: multicasts to the same receivers follow each other, and each pair leaves holes where the
 * routes of the two sources differ. A chain goes on with the piece that wastes the fewest receive
 * slots.
 *
 * Working memory is taken and given back here. When there is none, `failed` of the schedule is set
 * and the compile ends with an error: another order would be legal, too, but the package must not
 * depend on the memory of the host.
 */
#include "compiler/exchange/internal.h"

#include "base/alloc.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- colouring ------------------------------------------------------------------------------ */

enum { MAXIMUM_CELLS = 1 << 24 }; /* (port, colour) pairs that colouring may use */

/* What has which colour at which port. Ports are the senders of a component, then its receivers. */
struct colouring {
    uint32_t *piece;  /* [port][colour]: piece + 1, or 0 */
    uint64_t *vacant; /* [port][colour / 64]: free colours */
    uint32_t *path;   /* pieces of an alternating path */
    uint32_t *colour; /* of every piece, in component order */
    uint32_t colours, words, ports;
    uint32_t sender[IPU21_TILES], receiver[IPU21_TILES]; /* port + 1 of a tile */
};

struct component {
    struct schedule *s;
    const uint32_t *pieces;
    uint32_t count;
};

static const struct piece *piece_at(const struct component *c, uint32_t i)
{
    return &c->s->pieces[c->pieces[i]];
}

static uint32_t receiver_of(const struct component *c, uint32_t i)
{
    return c->s->targets[piece_at(c, i)->target].tile;
}

/* Numbers the ports and finds the largest degree; false when some piece has several receivers. */
static bool number_ports(const struct component *c, struct colouring *g)
{
    uint32_t degree[2][IPU21_TILES] = {{0}};
    for (uint32_t i = 0; i < c->count; i++) {
        unsigned from = piece_at(c, i)->source, to = receiver_of(c, i);
        if (piece_at(c, i)->target_count > 1)
            return false;
        if (!g->sender[from])
            g->sender[from] = ++g->ports;
        if (!g->receiver[to])
            g->receiver[to] = ++g->ports;
        uint32_t most = ++degree[0][from];
        most = ++degree[1][to] > most ? degree[1][to] : most;
        g->colours = most > g->colours ? most : g->colours;
    }
    return (uint64_t)g->ports * g->colours <= MAXIMUM_CELLS;
}

static bool allocate(struct colouring *g, uint32_t count)
{
    assert(g->ports != 0 && g->colours != 0 && count != 0); /* no component is empty */
    g->words = (g->colours + 63) / 64;
    g->piece = ipu_calloc((size_t)g->ports * g->colours, sizeof *g->piece);
    g->vacant = ipu_malloc((size_t)g->ports * g->words * sizeof *g->vacant);
    g->path = ipu_malloc(g->ports * sizeof *g->path);
    g->colour = ipu_malloc(count * sizeof *g->colour);
    if (!g->piece || !g->vacant || !g->path || !g->colour)
        return false;
    for (uint32_t p = 0; p < g->ports; p++) {
        for (uint32_t w = 0; w < g->words; w++) {
            uint32_t left = g->colours - 64 * w;
            g->vacant[p * g->words + w] = left >= 64 ? UINT64_MAX : (UINT64_C(1) << left) - 1;
        }
    }
    return true;
}

static void release(struct colouring *g)
{
    ipu_free(g->piece);
    ipu_free(g->vacant);
    ipu_free(g->path);
    ipu_free(g->colour);
}

static uint32_t *cell(const struct colouring *g, uint32_t port, uint32_t colour)
{
    return &g->piece[(size_t)port * g->colours + colour];
}

static void paint(struct colouring *g, uint32_t port, uint32_t colour, uint32_t piece)
{
    *cell(g, port, colour) = piece;
    uint64_t bit = UINT64_C(1) << colour % 64, *word = &g->vacant[port * g->words + colour / 64];
    *word = piece ? *word & ~bit : *word | bit;
}

static uint32_t sender_port(const struct component *c, const struct colouring *g, uint32_t i)
{
    return g->sender[piece_at(c, i)->source] - 1;
}

static uint32_t receiver_port(const struct component *c, const struct colouring *g, uint32_t i)
{
    return g->receiver[receiver_of(c, i)] - 1;
}

static uint32_t first_vacant(const struct colouring *g, uint32_t port)
{
    const uint64_t *word = &g->vacant[port * g->words];
    uint32_t w = 0;
    while (!word[w])
        w++;
    return 64 * w + (uint32_t)__builtin_ctzll(word[w]);
}

/* Makes colour a vacant at receiver port v, where b is vacant, by exchanging both along the path
 * that starts there. The path cannot reach the sender of the new piece, where a is vacant. */
static void flip(const struct component *c, struct colouring *g, uint32_t v, uint32_t a, uint32_t b)
{
    uint32_t count = 0, port = v;
    for (uint32_t colour = a, piece; (piece = *cell(g, port, colour)) != 0;) {
        g->path[count++] = piece - 1;
        uint32_t from = sender_port(c, g, piece - 1), to = receiver_port(c, g, piece - 1);
        port = port == from ? to : from;
        colour = colour == a ? b : a;
    }
    for (uint32_t k = 0; k < count; k++) {
        paint(g, sender_port(c, g, g->path[k]), g->colour[g->path[k]], 0);
        paint(g, receiver_port(c, g, g->path[k]), g->colour[g->path[k]], 0);
    }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = g->path[k];
        g->colour[i] = g->colour[i] == a ? b : a;
        paint(g, sender_port(c, g, i), g->colour[i], i + 1);
        paint(g, receiver_port(c, g, i), g->colour[i], i + 1);
    }
}

static void colour_pieces(const struct component *c, struct colouring *g)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t u = sender_port(c, g, i), v = receiver_port(c, g, i), w = 0;
        const uint64_t *x = &g->vacant[u * g->words], *y = &g->vacant[v * g->words];
        while (w < g->words && !(x[w] & y[w]))
            w++;
        if (w < g->words) {
            g->colour[i] = 64 * w + (uint32_t)__builtin_ctzll(x[w] & y[w]);
        } else {
            g->colour[i] = first_vacant(g, u);
            flip(c, g, v, g->colour[i], first_vacant(g, v));
        }
        paint(g, u, g->colour[i], i + 1);
        paint(g, v, g->colour[i], i + 1);
    }
}

/* --- orders --------------------------------------------------------------------------------- */

struct key {
    int32_t round, reach;
    uint32_t piece;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    if (x->reach != y->reach)
        return x->reach < y->reach ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static void sort_into(const struct component *c, const uint32_t *round, uint32_t *order)
{
    struct key *keys = ipu_malloc(c->count * sizeof *keys);
    if (!keys) {
        c->s->failed = true;
        return;
    }
    for (uint32_t i = 0; i < c->count; i++)
        keys[i] = (struct key){(int32_t)round[i], piece_at(c, i)->reach, c->pieces[i]};
    qsort(keys, c->count, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < c->count; i++)
        order[i] = keys[i].piece;
    ipu_free(keys);
}

static struct component component_of(struct schedule *s, uint32_t component)
{
    uint32_t first = s->component_first[component];
    return (struct component){s, s->component_piece + first,
                              s->component_first[component + 1] - first};
}

bool exchange_order_by_colour(struct schedule *s, uint32_t component, uint32_t *order)
{
    struct component c = component_of(s, component);
    struct colouring g = {0};
    if (!number_ports(&c, &g))
        return false;
    if (allocate(&g, c.count)) {
        colour_pieces(&c, &g);
        sort_into(&c, g.colour, order);
    } else {
        s->failed = true;
    }
    release(&g);
    return true;
}

void exchange_order_by_rank(struct schedule *s, uint32_t component, uint32_t *order)
{
    struct component c = component_of(s, component);
    uint32_t next[IPU21_TILES] = {0};
    uint32_t *rank = ipu_malloc(c.count * sizeof *rank);
    if (!rank) {
        s->failed = true;
        return;
    }
    for (uint32_t i = 0; i < c.count; i++)
        rank[i] = next[piece_at(&c, i)->source]++;
    sort_into(&c, rank, order);
    ipu_free(rank);
}

/* --- chains --------------------------------------------------------------------------------- */

/* First free slots of the ports of every tile when nothing goes into holes. */
struct frontier {
    int32_t send[IPU21_TILES], receive[IPU21_TILES];
};

static int32_t start_of(const struct schedule *s, const struct frontier *f, const struct piece *p)
{
    int32_t start = p->earliest > f->send[p->source] ? p->earliest : f->send[p->source];
    for (uint32_t k = 0; k < p->target_count; k++) {
        const struct piece_target *d = &s->targets[p->target + k];
        int32_t at = f->receive[d->tile] - d->ttm;
        start = at > start ? at : start;
    }
    return start;
}

/* Receive slots that stay empty, for each receiver, in 1/256. */
static int64_t waste_of(const struct schedule *s, const struct frontier *f, const struct piece *p,
                        int32_t start)
{
    int64_t waste = 0;
    assert(p->target_count);
    for (uint32_t k = 0; k < p->target_count; k++) {
        const struct piece_target *d = &s->targets[p->target + k];
        waste += start + d->ttm - f->receive[d->tile];
    }
    return waste * 256 / p->target_count;
}

/* The place in order[from, count) of the piece that wastes least, the lower number if equal. */
static uint32_t least_wasteful(struct schedule *s, const struct frontier *f, const uint32_t *order,
                               uint32_t from, uint32_t count)
{
    uint32_t best = from;
    int64_t least = INT64_MAX;
    for (uint32_t k = from; k < count; k++) {
        const struct piece *p = &s->pieces[order[k]];
        int64_t waste = waste_of(s, f, p, start_of(s, f, p));
        if (waste < least || (waste == least && order[k] < order[best])) {
            least = waste;
            best = k;
        }
    }
    return best;
}

bool exchange_order_by_waste(struct schedule *s, uint32_t component, uint64_t limit,
                             uint32_t *order)
{
    struct component c = component_of(s, component);
    uint64_t targets = 0;
    for (uint32_t i = 0; i < c.count; i++)
        targets += piece_at(&c, i)->target_count;
    if (targets * c.count > limit)
        return false;
    struct frontier *f = ipu_calloc(1, sizeof *f);
    if (!f) {
        s->failed = true;
        return true;
    }
    memcpy(order, c.pieces, c.count * sizeof *order);
    for (uint32_t i = 0; i < c.count; i++) {
        uint32_t best = least_wasteful(s, f, order, i, c.count);
        uint32_t chosen = order[best];
        order[best] = order[i];
        order[i] = chosen;
        const struct piece *p = &s->pieces[chosen];
        int32_t start = start_of(s, f, p);
        f->send[p->source] = start + p->words;
        for (uint32_t k = 0; k < p->target_count; k++)
            f->receive[s->targets[p->target + k].tile] =
                start + s->targets[p->target + k].ttm + p->words;
    }
    ipu_free(f);
    return true;
}
