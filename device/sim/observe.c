/* Runs an observed tile a cycle at a time and tells the observer what each cycle did.
 *
 * The stretch ends of sim_tile_run() never change what a tile computes, so a limit one cycle ahead
 * is all that single-stepping needs. Between two instructions of the supervisor the workers may run
 * up to its next issue, which is what sim_workers_run() is for.
 */
#include "device/sim/observe.h"

#include "device/sim/chip_core.h"
#include "device/sim/core.h"

#include "device/ipu21/exchange.h"

/* What a context looked like before a cycle. */
struct context_view {
    uint32_t m[16], a[16];
    uint64_t cycle, bundles;
    uint32_t pc, word, next;
};

struct tile_view {
    struct context_view context[7];
    uint32_t watched[SIM_OBSERVE_WATCHES];
};

static uint32_t word_at(const struct sim_tile *tile, uint32_t address)
{
    uint32_t offset = address - IPU21_SRAM_BASE, word = 0;
    if (offset <= IPU21_SRAM_BYTES - 4)
        memcpy(&word, tile->sram + offset, 4);
    return word;
}

static void context_look(const struct sim_tile *tile, unsigned number, struct context_view *view)
{
    const struct sim_context *c = &tile->context[number];
    memcpy(view->m, c->m, sizeof view->m);
    memcpy(view->a, c->a, sizeof view->a);
    view->cycle = c->cycle;
    view->bundles = c->bundles;
    view->pc = c->pc;
    view->word = word_at(tile, c->pc);
    view->next = word_at(tile, c->pc + 4);
}

static void tile_look(const struct sim_tile *tile, struct tile_view *view)
{
    for (unsigned i = 0; i < 7; i++)
        context_look(tile, i, &view->context[i]);
}

static void list_changes(struct sim_issue *issue, char file, const uint32_t *before,
                         const uint32_t *after)
{
    for (unsigned r = 0; r < 16 && issue->count < SIM_OBSERVE_CHANGES; r++) {
        if (before[r] == after[r])
            continue;
        issue->changes[issue->count].file = file;
        issue->changes[issue->count].number = (uint8_t)r;
        issue->changes[issue->count++].value = after[r];
    }
}

/* A worker's clock stands at its next issue; the supervisor's has moved past what it issued, or
 * stands at its arrival in a synchronisation. */
static uint64_t issued_in(const struct sim_tile *tile, unsigned number,
                          const struct context_view *before)
{
    const struct sim_context *c = &tile->context[number];
    if (number != 0)
        return before->cycle;
    if (tile->waiting)
        return c->cycle;
    bool local = c->pc == before->pc + 4 && before->word == ipu21_sync(IPU21_ZONE_LOCAL);
    return local ? before->cycle : c->cycle - tile->cost;
}

static void report_issue(const struct sim_observer *observer, const struct sim_tile *tile,
                         unsigned number, const struct context_view *before)
{
    const struct sim_context *c = &tile->context[number];
    struct sim_issue issue = {.tile = tile->logical,
                              .context = number,
                              .cycle = issued_in(tile, number, before),
                              .pc = before->pc,
                              .word = before->word,
                              .next = before->next};
    list_changes(&issue, 'm', before->m, c->m);
    list_changes(&issue, 'a', before->a, c->a);
    observer->issued(observer->context, &issue);
}

static void report_change(const struct sim_observer *observer, const struct sim_tile *tile,
                          unsigned watch, unsigned context, const struct tile_view *view)
{
    struct sim_change change = {.tile = tile->logical,
                                .address = observer->watch[watch],
                                .before = view->watched[watch],
                                .after = word_at(tile, observer->watch[watch]),
                                .context = context};
    if (context == SIM_CHANGE_FABRIC) {
        change.cycle = tile->context[0].cycle;
    } else {
        change.cycle = issued_in(tile, context, &view->context[context]);
        change.pc = view->context[context].pc;
    }
    if (observer->changed)
        observer->changed(observer->context, &change);
}

/* Of the contexts that issued, the one to name for a change: any store of the cycle may have been
 * it; the last to issue wins, as it does in memory. */
static void report_changes(const struct sim_observer *observer, const struct sim_tile *tile,
                           unsigned context, struct tile_view *view)
{
    for (unsigned w = 0; w < observer->watch_count; w++) {
        uint32_t now = word_at(tile, observer->watch[w]);
        if (now != view->watched[w])
            report_change(observer, tile, w, context, view);
        view->watched[w] = now;
    }
}

static void report_cycle(const struct sim_observer *observer, const struct sim_tile *tile,
                         struct tile_view *view)
{
    unsigned last = SIM_CHANGE_FABRIC;
    uint64_t latest = 0;
    for (unsigned i = 0; i < 7; i++) {
        const struct context_view *before = &view->context[i];
        if (tile->context[i].bundles == before->bundles)
            continue;
        if (observer->issued && (observer->contexts >> i & 1) != 0)
            report_issue(observer, tile, i, before);
        if (issued_in(tile, i, before) >= latest) {
            latest = issued_in(tile, i, before);
            last = i;
        }
    }
    report_changes(observer, tile, last, view);
}

/* The first cycle in which the tile may do anything. */
static uint64_t next_cycle(const struct sim_tile *tile)
{
    uint64_t next = tile->context[0].active ? tile->context[0].cycle : UINT64_MAX;
    for (unsigned w = 1; w <= IPU21_WORKERS; w++)
        if (tile->context[w].active && tile->context[w].cycle < next)
            next = tile->context[w].cycle;
    return next;
}

/* Runs the tile up to cycle `until`. */
static enum sim_stop step_to(struct sim_tile *tile, uint64_t until)
{
    const struct sim_context *supervisor = &tile->context[0];
    if (!supervisor->active || supervisor->cycle < until)
        return sim_tile_run(tile, until);
    return sim_workers_run(tile, until) ? SIM_STOP_LIMIT : SIM_STOP_FAULT;
}

enum sim_stop sim_observe_run(struct sim_chip *chip, struct sim_tile *tile, uint64_t limit)
{
    const struct sim_observer *observer = chip->observer;
    uint32_t *watched = chip->watched + tile->logical * SIM_OBSERVE_WATCHES;
    struct tile_view view;
    uint64_t until = 0;
    memcpy(view.watched, watched, sizeof view.watched);
    report_changes(observer, tile, SIM_CHANGE_FABRIC, &view);
    enum sim_stop stop = SIM_STOP_LIMIT;
    while (stop == SIM_STOP_LIMIT && until < limit && !tile->faulted) {
        uint64_t next = next_cycle(tile);
        until = (next > until ? next : until) + 1;
        tile_look(tile, &view);
        stop = step_to(tile, until < limit ? until : limit);
        report_cycle(observer, tile, &view);
    }
    memcpy(watched, view.watched, sizeof view.watched);
    return tile->faulted ? SIM_STOP_FAULT : stop;
}

void sim_chip_observe(struct sim_chip *chip, const struct sim_observer *observer)
{
    chip->observer = observer;
    if (!observer)
        return;
    for (unsigned t = 0; t < IPU21_TILES; t++)
        for (unsigned w = 0; w < observer->watch_count; w++)
            chip->watched[t * SIM_OBSERVE_WATCHES + w] =
                word_at(chip->tiles[t].tile, observer->watch[w]);
}
