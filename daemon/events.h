/* The recent events of one job, as serialised ipu.rpc.Event messages, for any number of readers.
 *
 * A ring by sequence number: readers keep the number of the next event that they want. Old events
 * are let go above a size; a reader that finds its event gone sends a gap marker. Loop thread only.
 */
#ifndef IPU_DAEMON_EVENTS_H
#define IPU_DAEMON_EVENTS_H

#include "proto/rpc.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVENTS_MAX = 4096, EVENTS_BYTES = 4 << 20 };

struct event {
    uint8_t *body;
    uint32_t size;
    uint8_t kind;  /* Ipu__Rpc__Event__KindCase */
    uint8_t level; /* of log records: Ipu__Rpc__LogLevel */
};

struct events {
    struct event *items; /* of sequence first + i */
    size_t count, capacity;
    uint64_t first; /* sequence number of items[0] */
    size_t bytes;
};

/* The next event gets number `next`. */
void events_init(struct events *events, uint64_t next);
void events_free(struct events *events);
/* Numbers and serialises `event`; NULL when memory runs out (the number is then not used). */
const struct event *events_add(struct events *events, Ipu__Rpc__Event *event);
/* Number that the next event will get. */
uint64_t events_next(const struct events *events);
/* The event of that number, or NULL when it is gone or has not happened. */
const struct event *events_get(const struct events *events, uint64_t sequence);
/* Whether a reader wants it. */
bool events_wanted(const struct event *event, bool logs_only, bool profile,
                   Ipu__Rpc__LogLevel level);
/* Rank of a log level by severity; NONE ranks above all. */
int events_severity(Ipu__Rpc__LogLevel level);

#endif
