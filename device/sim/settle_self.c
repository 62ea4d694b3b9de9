/* Self reception: a tile hears its own words only when another tile hears them as well
 * (facts/exchange.md section 4).
 *
 * Looks at all pieces of the round once, and only when some port hears itself. A word that only its
 * sender selects is a fault: hardware does not deliver it.
 */
#include "device/sim/settle.h"

#include "base/alloc.h"

#include <stdlib.h>

/* Slots [begin, end) of `source` that another tile hears. */
struct heard {
    int64_t begin, end;
    uint16_t source;
};

static struct settle_port *active_port(const struct settle *settle, size_t i)
{
    return (struct settle_port *)&settle->ports[((const uint16_t *)settle->active.data)[i]];
}

static bool any_hears_itself(const struct settle *settle)
{
    for (size_t i = 0; i < settle->active.count; i++)
        if (active_port(settle, i)->hears_itself)
            return true;
    return false;
}

static bool collect(const struct settle *settle, const struct settle_port *port,
                    struct settle_list *list)
{
    const struct settle_piece *pieces = port->pieces.data;
    for (size_t i = 0; i < port->pieces.count; i++) {
        const struct settle_piece *piece = &pieces[i];
        if (piece->source == port->logical || !settle->ports[piece->source].hears_itself)
            continue;
        struct heard *heard = settle_push(list, sizeof *heard);
        if (!heard)
            return false;
        *heard = (struct heard){piece->sent, piece->sent + piece->items, piece->source};
    }
    return true;
}

static int by_source(const void *a, const void *b)
{
    const struct heard *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Joins stretches that touch. */
static size_t join(struct heard *heard, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct heard *last = kept ? &heard[kept - 1] : NULL;
        if (last && last->source == heard[i].source && heard[i].begin <= last->end) {
            if (heard[i].end > last->end)
                last->end = heard[i].end;
        } else {
            heard[kept++] = heard[i];
        }
    }
    return kept;
}

static bool is_heard(const struct heard *heard, size_t count, const struct settle_piece *piece)
{
    size_t low = 0, high = heard ? count : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct heard *h = &heard[middle];
        if (h->source < piece->source || (h->source == piece->source && h->begin <= piece->sent))
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && heard[low - 1].source == piece->source &&
           piece->sent + piece->items <= heard[low - 1].end;
}

static void check_port(struct settle_port *port, const struct heard *heard, size_t count)
{
    const struct settle_piece *pieces = port->pieces.data;
    for (size_t i = 0; i < port->pieces.count && port->hears_itself; i++) {
        if (pieces[i].source != port->logical || is_heard(heard, count, &pieces[i]))
            continue;
        settle_fault(port, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, pieces[i].sent,
                     port->event_count ? port->events[0].pc : 0,
                     "tile %u sends words to itself that no other tile receives", port->logical);
        return;
    }
}

void settle_check_self(struct settle *settle)
{
    struct settle_list list = {0};
    bool collected = true;
    if (!any_hears_itself(settle))
        return;
    for (size_t i = 0; i < settle->active.count && collected; i++)
        collected = collect(settle, active_port(settle, i), &list);
    if (!collected)
        settle_no_memory(active_port(settle, 0));
    if (list.count > 1)
        qsort(list.data, list.count, sizeof(struct heard), by_source);
    size_t count = join(list.data, list.count);
    for (size_t i = 0; i < settle->active.count && collected; i++)
        check_port(active_port(settle, i), list.data, count);
    ipu_free(list.data);
}
