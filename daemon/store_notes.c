/* Notes of the store: times of last use, hits and misses, kept in memory and written together.
 *
 * A cache hit must not cost a write. Whoever needs the numbers (eviction, lists, statistics,
 * housekeeping, closing) has the notes written first, so nobody sees old ones; a crash loses those
 * of the last second, which only makes eviction less clever and counters smaller. It cannot fail:
 * notes that cannot be written are dropped.
 */
#include "daemon/store_sql.h"

#include "base/clock.h"

void store_note_use(struct store *store, int64_t id)
{
    uint64_t now = clock_wall_us();
    for (size_t i = 0; i < store->use_count; i++)
        if (store->uses[i].id == id) {
            store->uses[i].us = now;
            return;
        }
    if (store->use_count == STORE_USES)
        store_notes_write(store);
    store->uses[store->use_count++] = (struct store_use){id, now};
}

void store_note_hit(struct store *store, enum store_kind kind, bool hit)
{
    store->found[kind][hit]++;
}

static void write_uses(struct store *store)
{
    struct ipu_error ignored;
    for (size_t i = 0; i < store->use_count; i++)
        (void)sql_finish(store,
                         sql_bind(store, SQL_OBJECT_TOUCH, &ignored, "ii",
                                  (int64_t)store->uses[i].us, store->uses[i].id),
                         &ignored);
    store->use_count = 0;
}

static void write_counts(struct store *store)
{
    struct ipu_error ignored;
    for (int kind = 0; kind < STORE_KINDS; kind++) {
        unsigned *found = store->found[kind];
        if (found[0])
            (void)sql_finish(
                store,
                sql_bind(store, SQL_COUNT_MISSES, &ignored, "ii", (int64_t)kind, (int64_t)found[0]),
                &ignored);
        if (found[1])
            (void)sql_finish(
                store,
                sql_bind(store, SQL_COUNT_HITS, &ignored, "ii", (int64_t)kind, (int64_t)found[1]),
                &ignored);
        found[0] = found[1] = 0;
    }
}

void store_notes_write(struct store *store)
{
    struct ipu_error ignored;
    bool any = store->use_count > 0;
    for (int kind = 0; kind < STORE_KINDS; kind++)
        any = any || store->found[kind][0] || store->found[kind][1];
    if (!any || sql_guard_begin(store, &ignored))
        return;
    write_uses(store);
    write_counts(store);
    (void)sql_guard_end(store, 0, &ignored);
}
