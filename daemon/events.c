/* The event ring: see events.h.
 *
 * Invariant: items[i] has sequence number first + i, without holes. It fails only when memory runs
 * out: then the event is lost before it was numbered, so that readers never see a hole.
 */
#include "daemon/events.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <string.h>

void events_init(struct events *events, uint64_t next)
{
    *events = (struct events){.first = next};
}

void events_free(struct events *events)
{
    for (size_t i = 0; i < events->count; i++)
        ipu_free(events->items[i].body);
    ipu_free(events->items);
    *events = (struct events){0};
}

uint64_t events_next(const struct events *events)
{
    return events->first + events->count;
}

static void let_go(struct events *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        events->bytes -= events->items[i].size;
        ipu_free(events->items[i].body);
    }
    memmove(events->items, events->items + n, (events->count - n) * sizeof *events->items);
    events->count -= n;
    events->first += n;
}

/* Lets a quarter go when there are too many, and as many as needed when they are too large. */
static void trim(struct events *events)
{
    if (events->count > EVENTS_MAX)
        let_go(events, EVENTS_MAX / 4);
    size_t n = 0, bytes = events->bytes;
    while (bytes > EVENTS_BYTES && n + 1 < events->count)
        bytes -= events->items[n++].size;
    if (n)
        let_go(events, n);
}

static bool reserve(struct events *events)
{
    if (events->count < events->capacity)
        return true;
    size_t capacity = events->capacity ? events->capacity * 2 : 64;
    struct event *items = ipu_realloc(events->items, capacity * sizeof *items);
    if (!items)
        return false;
    events->items = items;
    events->capacity = capacity;
    return true;
}

const struct event *events_add(struct events *events, Ipu__Rpc__Event *event)
{
    event->sequence = events_next(events);
    if (event->time_us == 0)
        event->time_us = clock_wall_us();
    size_t size = ipu__rpc__event__get_packed_size(event);
    uint8_t *body = reserve(events) ? ipu_malloc(size ? size : 1) : NULL;
    if (!body)
        return NULL;
    ipu__rpc__event__pack(event, body);
    Ipu__Rpc__LogLevel level = IPU__RPC__LOG_LEVEL__LOG_INFO;
    if (event->kind_case == IPU__RPC__EVENT__KIND_LOG)
        level = event->log->level;
    events->items[events->count++] =
        (struct event){body, (uint32_t)size, (uint8_t)event->kind_case, (uint8_t)level};
    events->bytes += size;
    trim(events);
    return &events->items[events->count - 1];
}

const struct event *events_get(const struct events *events, uint64_t sequence)
{
    if (sequence < events->first || sequence >= events_next(events))
        return NULL;
    return &events->items[sequence - events->first];
}

int events_severity(Ipu__Rpc__LogLevel level)
{
    switch (level) {
    case IPU__RPC__LOG_LEVEL__LOG_DEBUG:
        return 0;
    case IPU__RPC__LOG_LEVEL__LOG_WARN:
        return 2;
    case IPU__RPC__LOG_LEVEL__LOG_ERROR:
        return 3;
    case IPU__RPC__LOG_LEVEL__LOG_NONE:
        return 4;
    default:
        return 1;
    }
}

bool events_wanted(const struct event *event, bool logs_only, bool profile,
                   Ipu__Rpc__LogLevel level)
{
    if (event->kind == IPU__RPC__EVENT__KIND_LOG)
        return events_severity((Ipu__Rpc__LogLevel)event->level) >= events_severity(level);
    if (event->kind == IPU__RPC__EVENT__KIND_PROFILE)
        return profile && !logs_only;
    return !logs_only;
}
