/* module: device/sim */
/* Random legal exchange schedules deliver every word, and a schedule that is shifted by one event
 * in any control faults or delivers something else.
 *
 * The generator is this file's own, route arithmetic included (facts/exchange.md sections 1 and 2).
 * Its schedules are as tight as the fabric allows: a receiver's streams follow each other without
 * an idle slot, sources send a word more before and after what is meant to be heard, and pointers
 * jump. So no control may come one event early or late.
 */
#include "device/sim/settle.h"

#include "tests/reference/random.h"

#include "base/alloc.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_EVENTS = 64,
    MAX_PORTS = 12,
    MAX_SENDS = 32,
    MAX_STREAMS = 6,
    MAX_WORDS = 40,
    SOURCE = 0x80000,
    SOURCE_BYTES = 0x2000,
    TARGET = 0xc0000,
    TARGET_WORDS = 0x400,
    NEUTRAL = 0x640,
    ROW_PC = 0x70000
};

/* --- the facts, once more --- */

static int physical(int l)
{
    int pair = l / 2, lane = l % 2, block = pair / 23, r = pair % 23;
    if (block % 2 != 0)
        r = 22 - r;
    return 64 * r + block / 2 * 4 + block % 2 + 2 * lane;
}

static int fold(int x)
{
    return x <= 7 ? x : 15 - x;
}

static int displacement(int s, int d)
{
    int sr = s >> 2 & 15, dr = d >> 2 & 15;
    int base = 6 * (fold(dr) - fold(sr) - ((sr >> 3) ^ (s & 1)));
    if ((d & 3) >= 2)
        return base + ((dr >> 3) == (d & 1) ? 2 : 4);
    return base + ((dr >> 3) == (d & 3) ? 1 : 5);
}

static unsigned direction(int s, int d)
{
    return displacement(s, d) < 1 ? 2 : 1;
}

static int ttm(int s, int d)
{
    int sr = s >> 2 & 15, dr = d >> 2 & 15, sl = sr & 7;
    int cross = ((sr & 8) | sl >> 1) - dr + ((sl >> 1) ^ 3);
    int turn = ((s ^ d) & 0x20) == 0 ? sl + 1 : 16 - sl;
    return cross + 4 * fold(sr) + turn - 4 * fold(dr) + 2 * ((s >> 6) - (d >> 6)) +
           abs(displacement(s, d)) - 34;
}

/* --- a schedule --- */

struct tile {
    int logical, physical;
    struct sim_event events[MAX_EVENTS];
    unsigned count;
    struct sim_exchange_state initial, state;
    uint32_t expected[TARGET_WORDS];
    uint32_t source_used, target_used; /* bytes, words */
    struct {
        int from, to;
    } busy[MAX_SENDS]; /* of the outgoing bus */
    unsigned busy_count;
};

struct schedule {
    struct random random;
    struct tile tiles[MAX_PORTS];
    unsigned count;
};

static struct settle *fabric;
static struct schedule plan;

static void setup(void)
{
    fabric = ipu_calloc(1, sizeof *fabric);
    settle_init(fabric);
}

static void teardown(void)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        free(fabric->ports[i].sram);
    settle_free(fabric);
    ipu_free(fabric);
}

static uint32_t source_word(const struct tile *t, uint32_t byte)
{
    return (uint32_t)t->logical << 16 | byte;
}

static void add_event(struct tile *t, struct sim_event event)
{
    ck_assert_uint_lt(t->count, MAX_EVENTS);
    event.pc = ROW_PC + 8 * t->count;
    t->events[t->count++] = event;
}

static void control(struct tile *t, bool pointer, unsigned selector, int slot, uint32_t value)
{
    add_event(t, (struct sim_event){.kind = pointer ? SIM_EVENT_PIC : SIM_EVENT_XPIC,
                                    .selector = (uint8_t)selector,
                                    .slot = (uint32_t)slot,
                                    .value = value});
}

static bool bus_free(const struct tile *t, int from, int to)
{
    for (unsigned i = 0; i < t->busy_count; i++)
        if (from < t->busy[i].to && t->busy[i].from < to)
            return false;
    return from >= 0 && t->busy_count < MAX_SENDS && t->count + 2 < MAX_EVENTS;
}

/* `items` meant to be heard from slot `start` on, one more before and after; returns the byte
 * address of the first meant one. */
static uint32_t add_send(struct tile *t, int start, int items, unsigned sctl)
{
    uint32_t size = (sctl & 4) != 0 ? 8 : 4, address = SOURCE + t->source_used;
    t->busy[t->busy_count].from = start - 1;
    t->busy[t->busy_count++].to = start + items + 1;
    add_event(t, (struct sim_event){.kind = SIM_EVENT_SEND,
                                    .control = (uint8_t)sctl,
                                    .slot = (uint32_t)(start - 1),
                                    .items = (uint32_t)items + 2,
                                    .value = address});
    t->source_used += ((uint32_t)items + 2) * size;
    ck_assert_uint_le(t->source_used, SOURCE_BYTES);
    return address + size;
}

static uint32_t row_delay(const struct tile *t)
{
    return 52 + 2 * (uint32_t)(t->physical >> 6);
}

/* Words that arrive at `target_word` of d, beside a gap. */
static void expect_words(struct tile *d, const struct tile *s, uint32_t address, uint32_t words,
                         uint32_t target_word)
{
    for (uint32_t i = 0; i < words; i++)
        d->expected[target_word + i] = source_word(s, address + 4 * i - SOURCE);
}

static uint32_t take_target(struct tile *d, uint32_t words)
{
    uint32_t at = d->target_used + 2; /* room for a word too many on either side */
    d->target_used = (at + words + 3) & ~1u;
    ck_assert_uint_lt(d->target_used, TARGET_WORDS - 4);
    return at;
}

static void add_select(struct tile *d, const struct tile *s, int slot)
{
    control(d, false, 0, slot, (uint32_t)s->physical);
}

/* The first stream of receivers tiles[1..receivers], from tiles[0] and maybe to itself: a multicast
 * into where the pointer is from the start. Returns the number of words. */
static int lead_stream(struct schedule *p, unsigned receivers, int start, int *cursor)
{
    struct tile *s = &p->tiles[0];
    int words = 2 + (int)random_below(&p->random, MAX_WORDS);
    uint32_t address = add_send(s, start, words, 3);
    for (unsigned i = 0; i <= receivers; i++) {
        struct tile *d = &p->tiles[i];
        if (i == 0 && random_chance(&p->random, 50))
            continue;
        uint32_t at = take_target(d, (uint32_t)words);
        int slot = start + ttm(s->physical, d->physical);
        d->initial.incoming_pointer = TARGET + 4 * at;
        add_select(d, s, slot);
        expect_words(d, s, address, (uint32_t)words, at);
        cursor[i] = slot + words;
    }
    return words;
}

/* One more stream for d right behind the one before, from some tile whose bus is free. */
static bool next_stream(struct schedule *p, struct tile *d, int *cursor)
{
    int words = 1 + (int)random_below(&p->random, MAX_WORDS);
    for (unsigned tries = 0; tries < 12; tries++) {
        struct tile *s = &p->tiles[random_below(&p->random, p->count)];
        int start = *cursor - ttm(s->physical, d->physical);
        if (s == d || !bus_free(s, start - 1, start + words + 1))
            continue;
        uint32_t address = add_send(s, start, words, direction(s->physical, d->physical));
        uint32_t at = take_target(d, (uint32_t)words);
        add_select(d, s, *cursor);
        control(d, true, 0, *cursor + (int)row_delay(d), (TARGET + 4 * at) / 4);
        expect_words(d, s, address, (uint32_t)words, at);
        *cursor += words;
        return true;
    }
    return false;
}

static int by_slot(const void *a, const void *b)
{
    const struct sim_event *x = a, *y = b;
    return x->slot != y->slot ? (x->slot < y->slot ? -1 : 1) : x->pc < y->pc ? -1 : x->pc > y->pc;
}

static void make_tiles(struct schedule *p)
{
    p->count = 4 + random_below(&p->random, MAX_PORTS - 3);
    for (unsigned i = 0; i < p->count; i++) {
        bool taken = true;
        struct tile *t = &p->tiles[i];
        while (taken) {
            t->logical = (int)random_below(&p->random, IPU21_TILES);
            taken = false;
            for (unsigned k = 0; k < i; k++)
                taken |= p->tiles[k].logical == t->logical;
        }
        t->physical = physical(t->logical);
        t->initial.incoming_mux = t->initial.incoming_mux_pair = NEUTRAL;
        t->initial.incoming_pointer = TARGET + 4 * (TARGET_WORDS - 2);
    }
}

static void make_schedule(struct schedule *p, uint64_t seed)
{
    int cursor[MAX_PORTS] = {0};
    *p = (struct schedule){.random = {seed}};
    make_tiles(p);
    unsigned receivers = 1 + random_below(&p->random, p->count - 1);
    lead_stream(p, receivers, 300 + (int)random_below(&p->random, 50), cursor);
    for (unsigned round = 0; round < MAX_STREAMS - 1; round++)
        for (unsigned i = 0; i <= receivers; i++)
            if (cursor[i] != 0 && random_chance(&p->random, 70))
                next_stream(p, &p->tiles[i], &cursor[i]);
    for (unsigned i = 0; i <= receivers; i++)
        if (cursor[i] != 0)
            control(&p->tiles[i], false, 0, cursor[i], NEUTRAL);
    for (unsigned i = 0; i < p->count; i++)
        qsort(p->tiles[i].events, p->tiles[i].count, sizeof p->tiles[i].events[0], by_slot);
}

/* --- running one --- */

static void load_ports(struct schedule *p)
{
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        static struct sim_exchange_state idle = {.incoming_mux = NEUTRAL,
                                                 .incoming_mux_pair = NEUTRAL};
        fabric->ports[i].state = &idle;
        fabric->ports[i].event_count = 0;
        fabric->ports[i].faulted = false;
    }
    for (unsigned i = 0; i < p->count; i++) {
        struct tile *t = &p->tiles[i];
        struct settle_port *port = &fabric->ports[t->logical];
        if (port->sram == NULL)
            port->sram = calloc(1, IPU21_SRAM_BYTES);
        for (uint32_t byte = 0; byte < SOURCE_BYTES; byte += 4) {
            uint32_t word = source_word(t, byte);
            memcpy(port->sram + (SOURCE + byte - IPU21_SRAM_BASE), &word, 4);
        }
        memset(port->sram + (TARGET - IPU21_SRAM_BASE), 0, 4 * TARGET_WORDS);
        t->state = t->initial;
        port->state = &t->state;
        port->epoch = 1000;
        port->events = t->events;
        port->event_count = t->count;
    }
}

/* Whether everything is where it belongs and nothing else has changed. */
static bool delivered(const struct schedule *p)
{
    for (unsigned i = 0; i < p->count; i++) {
        const struct tile *t = &p->tiles[i];
        const uint8_t *sram = fabric->ports[t->logical].sram;
        if (memcmp(sram + (TARGET - IPU21_SRAM_BASE), t->expected, sizeof t->expected) != 0)
            return false;
    }
    return true;
}

static const char *fault_text(const struct schedule *p)
{
    for (unsigned i = 0; i < p->count; i++)
        if (fabric->ports[p->tiles[i].logical].faulted)
            return fabric->ports[p->tiles[i].logical].fault.text;
    return "no fault";
}

START_TEST(random_legal_schedules_deliver_every_word)
{
    unsigned words = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        make_schedule(&plan, seed);
        load_ports(&plan);
        ck_assert_msg(settle_run(fabric), "seed %llu: %s", (unsigned long long)seed,
                      fault_text(&plan));
        ck_assert_msg(delivered(&plan), "seed %llu: some word is missing or wrong",
                      (unsigned long long)seed);
        for (unsigned i = 0; i < plan.count; i++)
            for (unsigned k = 0; k < TARGET_WORDS; k++)
                words += plan.tiles[i].expected[k] != 0;
    }
    ck_assert_uint_gt(words, 20000);
}
END_TEST

/* Moves one event; false when another of its kind is there already (not encodable). */
static bool shift_event(struct tile *t, unsigned which, int by)
{
    struct sim_event *e = &t->events[which];
    uint32_t slot = e->slot + (uint32_t)by;
    for (unsigned i = 0; i < t->count; i++)
        if (i != which && t->events[i].kind == e->kind && t->events[i].slot == slot)
            return false;
    e->slot = slot;
    qsort(t->events, t->count, sizeof t->events[0], by_slot);
    return true;
}

START_TEST(one_event_early_or_late_is_seen)
{
    unsigned faults = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        make_schedule(&plan, seed);
        for (unsigned i = 0; i < plan.count; i++)
            for (unsigned k = 0; k < 2 * plan.tiles[i].count; k++) {
                make_schedule(&plan, seed);
                struct sim_event moved = plan.tiles[i].events[k / 2];
                if (!shift_event(&plan.tiles[i], k / 2, k % 2 != 0 ? 1 : -1))
                    continue;
                load_ports(&plan);
                bool settled = settle_run(fabric);
                ck_assert_msg(!settled || !delivered(&plan),
                              "seed %llu tile %d: kind %u of slot %u moved by %d is not seen",
                              (unsigned long long)seed, plan.tiles[i].logical, moved.kind,
                              moved.slot, k % 2 != 0 ? 1 : -1);
                faults += !settled;
                wrong += settled;
            }
    }
    ck_assert_uint_gt(faults + wrong, 1000);
    ck_assert_uint_gt(wrong, 100);
}
END_TEST

/* --- 64-bit transfers to whole pairs, facts/exchange.md section 5 --- */

/* The controls of one member; slots are issue slots, one before the effective events. */
static void pair_member(struct tile *d, const struct tile *s, bool early, int select, int items,
                        uint32_t at)
{
    int format = select + 51 + 2 * (d->physical >> 6);
    if (early) {
        control(d, false, 1, select, (uint32_t)(s->physical ^ (d->physical & 2)));
        control(d, false, 1, select + items, NEUTRAL);
    }
    control(d, true, 1, format, direction(s->physical, d->physical));
    control(d, true, 0, format + 2, (TARGET + 4 * at) / 4);
    control(d, true, 1, format + items, 0);
}

/* tiles[0] sends to the pairs tiles[1, 2], [3, 4], ... */
static void make_pairs(struct schedule *p, uint64_t seed)
{
    *p = (struct schedule){.random = {seed}};
    make_tiles(p);
    unsigned pairs = 1 + random_below(&p->random, 3);
    struct tile *s = &p->tiles[0];
    p->count = 1 + 2 * pairs;
    for (unsigned i = 1; i < p->count; i++) {
        struct tile *t = &p->tiles[i];
        int half = (s->logical / 2 + 7 * (int)(i / 2 + i % 2)) % (IPU21_TILES / 2);
        *t = (struct tile){.logical = 2 * half + (i % 2 == 0)};
        t->physical = physical(t->logical);
        t->initial.incoming_mux = t->initial.incoming_mux_pair = NEUTRAL;
        t->initial.incoming_pointer = TARGET + 4 * (TARGET_WORDS - 8);
    }
    int items = 64 + (int)random_below(&p->random, 60), start = 300;
    unsigned way = pairs > 1 ? 3 : direction(s->physical, p->tiles[1].physical);
    uint32_t address = add_send(s, start, items, 4 | way);
    for (unsigned i = 1; i < p->count; i++) {
        struct tile *d = &p->tiles[i];
        int own = ttm(s->physical, d->physical), other = ttm(s->physical, d->physical ^ 2);
        uint32_t at = take_target(d, 2 * (uint32_t)items);
        expect_words(d, s, address, 2 * (uint32_t)items, at);
        pair_member(d, s, own < other, start + (own < other ? own : other), items, at);
    }
    for (unsigned i = 0; i < p->count; i++)
        qsort(p->tiles[i].events, p->tiles[i].count, sizeof p->tiles[i].events[0], by_slot);
}

/* Before the first item and after the last one there is time: a format that comes on early or stays
 * on longer, and a pointer that comes early, change nothing. */
static bool pair_shift_is_idle(const struct tile *t, unsigned which, int by)
{
    const struct sim_event *e = &t->events[which];
    if (e->kind != SIM_EVENT_PIC)
        return false;
    bool off = e->selector == 1 && e->value == 0;
    return off ? by > 0 : by < 0;
}

START_TEST(random_pair_transfers_deliver_every_word)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        make_pairs(&plan, seed);
        load_ports(&plan);
        ck_assert_msg(settle_run(fabric), "seed %llu: %s", (unsigned long long)seed,
                      fault_text(&plan));
        ck_assert_msg(delivered(&plan), "seed %llu: some word is missing or wrong",
                      (unsigned long long)seed);
    }
}
END_TEST

START_TEST(pair_control_one_event_off_is_seen_unless_idle)
{
    unsigned seen = 0, idle = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        make_pairs(&plan, seed);
        for (unsigned i = 0; i < plan.count; i++)
            for (unsigned k = 0; k < 2 * plan.tiles[i].count; k++) {
                int by = k % 2 != 0 ? 1 : -1;
                make_pairs(&plan, seed);
                struct sim_event moved = plan.tiles[i].events[k / 2];
                bool expected = pair_shift_is_idle(&plan.tiles[i], k / 2, by);
                if (!shift_event(&plan.tiles[i], k / 2, by))
                    continue;
                load_ports(&plan);
                bool settled = settle_run(fabric);
                ck_assert_msg((settled && delivered(&plan)) == expected,
                              "seed %llu tile %d: kind %u selector %u of slot %u moved by %d: %s",
                              (unsigned long long)seed, plan.tiles[i].logical, moved.kind,
                              moved.selector, moved.slot, by, fault_text(&plan));
                seen += !expected;
                idle += expected;
            }
    }
    ck_assert_uint_gt(seen, 300);
    ck_assert_uint_gt(idle, 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_exchange_property");
    TCase *tcase = tcase_create("property");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, random_legal_schedules_deliver_every_word);
    tcase_add_test(tcase, one_event_early_or_late_is_seen);
    tcase_add_test(tcase, random_pair_transfers_deliver_every_word);
    tcase_add_test(tcase, pair_control_one_event_off_is_seen_unless_idle);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
