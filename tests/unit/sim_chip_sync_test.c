/* module: device/sim */
/* The chip's loop: synchronisation, sitting out, exchanges between running tiles, deadlock reports,
 * limits, cancelling, faults, and that threads change nothing. */
#include "sim_chip_support.h"

#include "base/hash.h"
#include "device/ipu21/timing.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { DATA = 0x80000, RESULT = 0xc0000, ROW_BYTES = 16 };

static struct sim_chip *chip;

static void setup(void)
{
    chip = new_chip(2, true);
}

static void teardown(void)
{
    sim_chip_destroy(chip);
}

static void expect_state(enum sim_chip_state wanted)
{
    enum sim_chip_state state = sim_chip_run(chip, FAR_LIMIT, NULL);
    if (state == wanted)
        return;
    char *where = sim_chip_explain(chip);
    const struct sim_fault *fault = sim_chip_fault(chip);
    ck_abort_msg("state %d instead of %d: %s\n%s", state, wanted, fault ? fault->text : "", where);
}

static void expect_in_explanation(const char *words)
{
    char *text = sim_chip_explain(chip);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strstr(text, words) != NULL, "\"%s\" is not in:\n%s", words, text);
    free(text);
}

/* Every tile sits out one internal sync, then waits for the host. */
static void load_idle(void)
{
    struct code idle = {0};
    emit(&idle, ipu21_sans(0));
    emit(&idle, ipu21_sync(IPU21_ZONE_ANS));
    emit_end(&idle);
    load_everywhere(chip, &idle);
}

/* Tile 0 sends 40 words to tile 1286; the rows follow `sync 3` directly. */
static void load_transfer(uint32_t declared, uint32_t words)
{
    struct code sender = {0}, receiver = {0};
    load_idle();
    for (uint32_t i = 0; i < 40; i++)
        put_chip_word(chip, 0, DATA + 4 * i, 7000 + i);
    emit(&sender, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_send_row(&sender, 0, 1286, words, DATA);
    emit_end(&sender);
    load_code(chip, 0, &sender);
    emit(&receiver, ipu21_sync(IPU21_ZONE_INTERNAL));
    uint32_t row = here(&receiver);
    emit_receive_row(&receiver, 0, 1286, 40, RESULT);
    emit_load(&receiver, 0, RESULT + 4);
    emit_store(&receiver, 0, RESULT + 0x1000);
    emit_end(&receiver);
    load_code(chip, 1286, &receiver);
    sim_chip_declare_row(chip, 1286, row, ROW_BYTES, declared);
}

START_TEST(words_travel_between_two_tiles)
{
    load_transfer(40, 40);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    for (uint32_t i = 0; i < 40; i++)
        ck_assert_uint_eq(chip_word(chip, 1286, RESULT + 4 * i), 7000 + i);
    ck_assert_uint_eq(chip_word(chip, 1286, RESULT + 160), 0);
}
END_TEST

START_TEST(supervisor_sees_received_words_at_once)
{
    load_transfer(40, 40);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(chip_word(chip, 1286, RESULT + 0x1000), 7001);
}
END_TEST

START_TEST(missing_words_fault_in_strict_mode)
{
    load_transfer(40, 39);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_FAULTED);
    const struct sim_fault *fault = sim_chip_fault(chip);
    ck_assert_uint_eq(fault->tile, 1286);
    ck_assert(strstr(fault->text, "receives 39 words, its package declares 40") != NULL);
    expect_in_explanation("1 tile (1286) stopped by a fault");
    ck_assert_int_eq(sim_chip_run(chip, FAR_LIMIT, NULL), SIM_CHIP_FAULTED);
}
END_TEST

START_TEST(missing_words_pass_without_strict_mode)
{
    sim_chip_destroy(chip);
    chip = new_chip(1, false);
    load_transfer(40, 39);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(chip_word(chip, 1286, RESULT + 4 * 39), 0);
}
END_TEST

START_TEST(internal_sync_releases_all_after_the_last_arrival)
{
    struct code early = {0}, late = {0};
    emit(&early, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_end(&early);
    load_everywhere(chip, &early);
    emit(&late, ipu21_delay(5000));
    emit(&late, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_end(&late);
    load_code(chip, 77, &late);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    for (unsigned i = 0; i < IPU21_TILES; i += 7)
        ck_assert_uint_eq(sim_tile_epoch(sim_chip_tile(chip, i)), 5000 + IPU21_SYNC_INTERNAL);
}
END_TEST

/* `sans 1; sync 1` sits out two syncs, `sans 0; sync 1` one. */
START_TEST(sans_sits_out_as_many_syncs_as_it_says)
{
    struct code worker = {0}, idle = {0};
    emit(&worker, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit(&worker, ipu21_delay(1000));
    emit(&worker, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit(&worker, ipu21_delay(2000));
    emit(&worker, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_end(&worker);
    emit(&idle, ipu21_sans(1));
    emit(&idle, ipu21_sync(IPU21_ZONE_ANS));
    emit(&idle, ipu21_sans(0));
    emit(&idle, ipu21_sync(IPU21_ZONE_ANS));
    emit_end(&idle);
    load_everywhere(chip, &idle);
    load_code(chip, 3, &worker);
    load_code(chip, 1400, &worker);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    uint64_t expected =
        1 + IPU21_SYNC_INTERNAL + 1000 + IPU21_SYNC_INTERNAL + 2000 + IPU21_SYNC_INTERNAL;
    ck_assert_uint_eq(sim_tile_cycle(sim_chip_tile(chip, 3)), expected);
    ck_assert_uint_eq(sim_tile_cycle(sim_chip_tile(chip, 5)), expected);
}
END_TEST

START_TEST(first_host_sync_answers_to_gs1_later_ones_to_gs2)
{
    struct code code = {0};
    emit_end(&code);
    load_everywhere(chip, &code);
    sim_chip_start(chip, ENTRY);
    sim_chip_set_mark(chip, 2, 1);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(sim_chip_mark(chip, 2), 1);
    sim_chip_set_mark(chip, 2, 0);
    sim_chip_set_mark(chip, 1, 23);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(sim_chip_mark(chip, 1), 0);
    uint64_t first = sim_chip_cycle(chip);
    sim_chip_set_mark(chip, 1, 1);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(sim_chip_mark(chip, 1), 1);
    ck_assert_uint_eq(sim_chip_cycle(chip), first);
    sim_chip_set_mark(chip, 2, 1);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(sim_chip_mark(chip, 2), 0);
    ck_assert_uint_gt(sim_chip_cycle(chip), first);
}
END_TEST

START_TEST(master_and_slave_zones_of_a_group_meet)
{
    struct code slave = {0}, master = {0};
    emit_end(&slave);
    load_everywhere(chip, &slave);
    emit(&master, ipu21_sync(IPU21_ZONE_HOST_MASTER));
    emit_end(&master);
    load_code(chip, 0, &master);
    sim_chip_start(chip, ENTRY);
    sim_chip_set_mark(chip, 1, 23);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(sim_chip_mark(chip, 1), 0);
}
END_TEST

START_TEST(different_zones_deadlock_and_say_who_waits_where)
{
    struct code host = {0}, internal = {0};
    emit_end(&host);
    load_everywhere(chip, &host);
    emit(&internal, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_end(&internal);
    load_code(chip, 5, &internal);
    load_code(chip, 6, &internal);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_DEADLOCK);
    expect_in_explanation("deadlock: tiles wait in different sync zones");
    expect_in_explanation("2 tiles (5-6) in sync 3 (internal), pc 0x4c018");
    expect_in_explanation("1470 tiles (0-4,7-1471) in sync 7 (host GS2H), pc 0x4c018");
}
END_TEST

START_TEST(everybody_sitting_out_deadlocks)
{
    load_idle();
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_DEADLOCK);
    expect_in_explanation("no tile takes part");
    expect_in_explanation("1472 tiles (0-1471) in sync 1 (sit out)");
    expect_in_explanation("sits out 1 more");
}
END_TEST

START_TEST(waiting_in_a_sync_that_is_sat_out_deadlocks)
{
    struct code code = {0};
    emit(&code, ipu21_sans(0));
    emit(&code, ipu21_sync(IPU21_ZONE_INTERNAL));
    load_everywhere(chip, &code);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_DEADLOCK);
    expect_in_explanation("agreed to sit out");
}
END_TEST

START_TEST(chip_that_was_not_started_says_so)
{
    expect_state(SIM_CHIP_DEADLOCK);
    expect_in_explanation("has not been started");
}
END_TEST

static void load_loop(void)
{
    struct code code = {0};
    emit_jump(&code, here(&code));
    load_everywhere(chip, &code);
    sim_chip_start(chip, ENTRY);
}

START_TEST(limit_stops_and_a_higher_limit_continues)
{
    load_loop();
    ck_assert_int_eq(sim_chip_run(chip, 1000, NULL), SIM_CHIP_LIMIT);
    uint64_t bundles = sim_chip_bundles(chip);
    ck_assert_int_eq(sim_chip_run(chip, 2000, NULL), SIM_CHIP_LIMIT);
    ck_assert_uint_gt(sim_chip_bundles(chip), bundles);
    ck_assert_uint_ge(sim_chip_cycle(chip), 2000);
    ck_assert_uint_lt(sim_chip_cycle(chip), 2100);
}
END_TEST

static atomic_bool stop_flag;

static void *raise_flag(void *argument)
{
    atomic_store(&stop_flag, true);
    return argument;
}

START_TEST(cancel_stops_endless_programs)
{
    pthread_t thread;
    load_loop();
    atomic_store(&stop_flag, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, raise_flag, NULL), 0);
    ck_assert_int_eq(sim_chip_run(chip, UINT64_MAX / 2, &stop_flag), SIM_CHIP_CANCELLED);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(endless_row_faults_before_it_fills_memory)
{
    struct code code = {0}, fine = {0};
    emit_end(&fine);
    load_everywhere(chip, &fine);
    uint32_t loop = here(&code);
    emit(&code, ipu21_delayxpic(1, 0, IPU21_MUX_NEUTRAL));
    emit_jump(&code, loop);
    load_code(chip, 4, &code);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_FAULTED);
    ck_assert(strstr(sim_chip_fault(chip)->text, "without a synchronisation") != NULL);
}
END_TEST

/* --- programs of random exchange words: any outcome, but never undefined behaviour --- */

static uint32_t random_word(uint64_t *state)
{
    uint64_t r = *state = hash64_mix(*state + 0x9e3779b97f4a7c15u);
    uint32_t n = (uint32_t)(r >> 8) % 60 + 1, sel = (uint32_t)(r >> 20) & 1;
    uint32_t tile = (uint32_t)(r >> 24) % 8, control = (uint32_t)(r >> 30) & 7;
    uint32_t address = (IPU21_SRAM_BASE + (uint32_t)(r >> 33) % IPU21_SRAM_BYTES) / 4;
    switch (r % 16) {
    case 0:
    case 1:
        return ipu21_send(n, control & 4 ? address / 2 : address, control);
    case 2:
        return ipu21_sendoff(n, 0, control);
    case 3:
    case 4:
        return ipu21_delayxpic(n, sel, (r >> 40 & 3) ? ipu21_physical(tile) : (uint32_t)(r >> 50));
    case 5:
    case 6:
        return ipu21_delaypic(n, sel, sel ? (uint32_t)(r >> 42) & 3 : address);
    case 7:
        return ipu21_sendpic(n, control & 3, control & 2 ? address : ipu21_physical(tile));
    case 8:
        return ipu21_put(0xa0 + (uint32_t)(r >> 44) % 12, 8);
    case 9:
        return ipu21_setzi(8, (uint32_t)(r >> 40) % 0x700);
    case 10:
        return ipu21_sync((uint32_t)(r >> 44) % 4 == 0 ? (uint32_t)(r >> 48) & 15 : 3);
    case 11:
        return (r >> 44 & 7) == 0 ? (uint32_t)(r >> 16) : ipu21_delay(n);
    default:
        return ipu21_delay(n);
    }
}

START_TEST(random_exchange_programs_only_fault)
{
    uint64_t state = (uint64_t)_i;
    struct code fine = {0};
    if (_i % 4 != 0) { /* without counting, programs get further */
        sim_chip_destroy(chip);
        chip = new_chip(1, false);
    }
    uint32_t loop = here(&fine);
    emit(&fine, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_jump(&fine, loop);
    load_everywhere(chip, &fine);
    for (unsigned t = 0; t < 8; t++) {
        struct code code = {0};
        emit(&code, ipu21_sync(IPU21_ZONE_INTERNAL));
        for (unsigned i = 0; i < 40; i++)
            emit(&code, random_word(&state));
        emit_jump(&code, ENTRY);
        load_code(chip, t, &code);
    }
    sim_chip_start(chip, ENTRY);
    enum sim_chip_state end = sim_chip_run(chip, 20000, NULL);
    ck_assert_int_ne(end, SIM_CHIP_CANCELLED);
    ck_assert((end == SIM_CHIP_FAULTED) == (sim_chip_fault(chip) != NULL));
    char *text = sim_chip_explain(chip);
    ck_assert_ptr_nonnull(text);
    free(text);
}
END_TEST

/* Tile 9 traps first, tile 4 later: the report is about tile 9. */
START_TEST(first_fault_in_time_is_reported)
{
    struct code fine = {0}, early = {0}, late = {0};
    emit_end(&fine);
    load_everywhere(chip, &fine);
    emit(&early, ipu21_delay(10));
    emit(&early, ipu21_trap(0));
    emit(&late, ipu21_delay(20));
    emit(&late, ipu21_trap(0));
    load_code(chip, 4, &late);
    load_code(chip, 9, &early);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_FAULTED);
    ck_assert_uint_eq(sim_chip_fault(chip)->tile, 9);
    ck_assert_int_eq(sim_chip_fault(chip)->etype, SIM_ETYPE_PBRK0);
}
END_TEST

START_TEST(restart_runs_again_from_the_same_state)
{
    load_transfer(40, 40);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    uint64_t cycle = sim_chip_cycle(chip);
    put_chip_word(chip, 0, DATA, 1);
    sim_chip_start(chip, ENTRY);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(chip_word(chip, 1286, RESULT), 1);
    ck_assert_uint_eq(sim_chip_cycle(chip), cycle);
}
END_TEST

START_TEST(reset_clears_memory)
{
    put_chip_word(chip, 700, DATA, 5);
    sim_chip_reset(chip);
    ck_assert_uint_eq(chip_word(chip, 700, DATA), 0);
}
END_TEST

START_TEST(loader_refuses_what_is_not_loadable)
{
    uint32_t word = 1;
    ck_assert(!sim_chip_write(chip, 0, IPU21_SRAM_BASE - 4, &word, 4));
    ck_assert(!sim_chip_write(chip, 0, IPU21_LOAD_END, &word, 4));
    ck_assert(!sim_chip_write(chip, 0, IPU21_LOAD_END - 2, &word, 4));
    ck_assert(!sim_chip_write(chip, IPU21_TILES, DATA, &word, 4));
    ck_assert(!sim_chip_write(chip, 0, 0xfffffffc, &word, 8));
    ck_assert(sim_chip_write(chip, 0, IPU21_LOAD_END - 4, &word, 4));
    ck_assert(sim_chip_read(chip, 0, IPU21_SRAM_END - 4, &word, 4));
    ck_assert(!sim_chip_read(chip, 0, IPU21_SRAM_END, &word, 4));
}
END_TEST

/* --- a ring: tile t sends 32 words to tile (t + 5) % 1472, all at once --- */

enum { RING_WORDS = 32, RING_STEP = 5 };

struct control {
    uint32_t slot;
    bool pointer;
    uint32_t value;
};

/* Emits the slots [at, until) of a row that sends RING_WORDS words from slot `start` on. */
static void emit_slots(struct code *code, uint32_t at, uint32_t until, uint32_t start, uint32_t dir)
{
    while (at < until) {
        uint32_t end = start + RING_WORDS, stop = until;
        if (at < start && stop > start)
            stop = start;
        if (at >= start && at < end && stop > end)
            stop = end;
        if (at == start)
            emit(code, ipu21_send(stop - at, DATA / 4, dir));
        else if (at > start && at < end)
            emit(code, ipu21_sendoff(stop - at, 0, dir));
        else
            emit(code, ipu21_delay(stop - at));
        at = stop;
    }
}

static void emit_control(struct code *code, const struct control *c, uint32_t start)
{
    bool sending = c->slot > start && c->slot < start + RING_WORDS;
    if (sending)
        emit(code, ipu21_sendpic(1, c->pointer ? 2 : 0, c->value));
    else if (c->pointer)
        emit(code, ipu21_delaypic(1, 0, c->value));
    else
        emit(code, ipu21_delayxpic(1, 0, c->value));
}

static void ring_controls(unsigned t, uint32_t select, struct control controls[3])
{
    unsigned before = (t + IPU21_TILES - RING_STEP) % IPU21_TILES;
    controls[0] = (struct control){select, false, ipu21_physical(before)};
    controls[1] = (struct control){select + RING_WORDS, false, IPU21_MUX_NEUTRAL};
    controls[2] =
        (struct control){select + 52 + 2 * ipu21_row(ipu21_physical(t)), true, RESULT / 4};
}

static uint32_t ring_start(unsigned t, const uint32_t select[IPU21_TILES])
{
    unsigned next = (t + RING_STEP) % IPU21_TILES;
    return (uint32_t)((int)select[next] - route(t, next));
}

/* No control may ride on the first word of a send: later selects where one would. */
static void ring_selects(uint32_t select[IPU21_TILES])
{
    for (unsigned t = 0; t < IPU21_TILES; t++)
        select[t] = 112;
    for (unsigned k = 0, t = 0; k < IPU21_TILES; k++, t = (t + RING_STEP) % IPU21_TILES) {
        struct control controls[3];
        ring_controls(t, select[t], controls);
        for (unsigned i = 0; i < 3; i++)
            if (controls[i].slot == ring_start(t, select)) {
                select[(t + RING_STEP) % IPU21_TILES]++;
                i = UINT32_MAX;
            }
    }
}

static uint32_t emit_ring_row(struct code *code, unsigned t, const uint32_t select[IPU21_TILES])
{
    unsigned next = (t + RING_STEP) % IPU21_TILES;
    uint32_t dir = ipu21_direction(ipu21_physical(t), ipu21_physical(next));
    uint32_t at = 0, start = ring_start(t, select), row = here(code);
    struct control controls[3];
    ring_controls(t, select[t], controls);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_ne(controls[i].slot, start);
        emit_slots(code, at, controls[i].slot, start, dir);
        emit_control(code, &controls[i], start);
        at = controls[i].slot + 1;
    }
    emit_slots(code, at, 400, start, dir);
    return row;
}

static void load_ring(uint32_t rounds)
{
    static uint32_t select[IPU21_TILES];
    ring_selects(select);
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        struct code code = {0};
        for (uint32_t i = 0; i < RING_WORDS; i++)
            put_chip_word(chip, t, DATA + 4 * i, t * 1000 + i);
        emit(&code, ipu21_setzi(2, rounds - 1));
        uint32_t loop = here(&code);
        emit(&code, ipu21_sync(IPU21_ZONE_INTERNAL));
        uint32_t row = emit_ring_row(&code, t, select);
        sim_chip_declare_row(chip, t, row, here(&code) - row, RING_WORDS);
        emit_load(&code, 0, RESULT + 8);
        emit_store(&code, 0, DATA + 12);
        emit(&code, ipu21_brnzdec(2, loop));
        emit_end(&code);
        load_code(chip, t, &code);
    }
}

static void memory_hash(struct hash *hash)
{
    static uint8_t bytes[0x2000];
    struct hash_state *state = hash_begin();
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        ck_assert(sim_chip_read(chip, t, RESULT, bytes, sizeof bytes));
        hash_update(state, bytes, sizeof bytes);
        ck_assert(sim_chip_read(chip, t, DATA, bytes, 0x200));
        hash_update(state, bytes, 0x200);
    }
    ck_assert(hash_finish(state, hash));
}

START_TEST(thread_count_changes_nothing)
{
    struct hash first = {0};
    uint64_t cycle = 0, bundles = 0;
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct hash hash;
        sim_chip_destroy(chip);
        chip = new_chip(threads, true);
        load_ring(3);
        sim_chip_start(chip, ENTRY);
        expect_state(SIM_CHIP_WAITS_FOR_HOST);
        /* Word 3 is what the tile before the sender put there two rounds ago. */
        for (unsigned t = 0; t < IPU21_TILES; t++) {
            unsigned sender = (t + IPU21_TILES - 5) % IPU21_TILES;
            unsigned before = (t + IPU21_TILES - 10) % IPU21_TILES;
            ck_assert_uint_eq(chip_word(chip, t, RESULT + 4 * 4), sender * 1000 + 4);
            ck_assert_uint_eq(chip_word(chip, t, RESULT + 4 * 3), before * 1000 + 2);
        }
        memory_hash(&hash);
        if (threads == 1) {
            first = hash;
            cycle = sim_chip_cycle(chip);
            bundles = sim_chip_bundles(chip);
        }
        ck_assert(hash_equal(&hash, &first));
        ck_assert_uint_eq(sim_chip_cycle(chip), cycle);
        ck_assert_uint_eq(sim_chip_bundles(chip), bundles);
    }
}
END_TEST

/* 300 phases in which nobody but tile 0 takes part. The bound is ten times what an idle machine
 * needs. */
START_TEST(idle_phases_cost_less_than_a_millisecond)
{
    struct code idle = {0}, worker = {0};
    emit(&idle, ipu21_setzi(2, 299));
    uint32_t loop = here(&idle);
    emit(&idle, ipu21_sans(0));
    emit(&idle, ipu21_sync(IPU21_ZONE_ANS));
    emit(&idle, ipu21_brnzdec(2, loop));
    emit_end(&idle);
    load_everywhere(chip, &idle);
    emit(&worker, ipu21_setzi(2, 299));
    loop = here(&worker);
    emit(&worker, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit(&worker, ipu21_brnzdec(2, loop));
    emit_end(&worker);
    load_code(chip, 0, &worker);
    sim_chip_start(chip, ENTRY);
    clock_t begin = clock(); /* of the processor: other work on the machine does not count */
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    uint64_t each = (uint64_t)(clock() - begin) * (1000000000 / CLOCKS_PER_SEC) / 300;
    printf("idle phase: %llu ns\n", (unsigned long long)each);
    ck_assert_uint_lt(each, 10000000);
}
END_TEST

static Suite *chip_suite(void)
{
    Suite *suite = suite_create("sim_chip_sync");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_set_timeout(core, 60);
    tcase_add_test(core, words_travel_between_two_tiles);
    tcase_add_test(core, supervisor_sees_received_words_at_once);
    tcase_add_test(core, missing_words_fault_in_strict_mode);
    tcase_add_test(core, missing_words_pass_without_strict_mode);
    tcase_add_test(core, internal_sync_releases_all_after_the_last_arrival);
    tcase_add_test(core, sans_sits_out_as_many_syncs_as_it_says);
    tcase_add_test(core, first_host_sync_answers_to_gs1_later_ones_to_gs2);
    tcase_add_test(core, master_and_slave_zones_of_a_group_meet);
    tcase_add_test(core, different_zones_deadlock_and_say_who_waits_where);
    tcase_add_test(core, everybody_sitting_out_deadlocks);
    tcase_add_test(core, waiting_in_a_sync_that_is_sat_out_deadlocks);
    tcase_add_test(core, chip_that_was_not_started_says_so);
    tcase_add_test(core, limit_stops_and_a_higher_limit_continues);
    tcase_add_test(core, cancel_stops_endless_programs);
    tcase_add_test(core, endless_row_faults_before_it_fills_memory);
    tcase_add_loop_test(core, random_exchange_programs_only_fault, 0, 150);
    tcase_add_test(core, first_fault_in_time_is_reported);
    tcase_add_test(core, restart_runs_again_from_the_same_state);
    tcase_add_test(core, reset_clears_memory);
    tcase_add_test(core, loader_refuses_what_is_not_loadable);
    tcase_add_test(core, thread_count_changes_nothing);
    tcase_add_test(core, idle_phases_cost_less_than_a_millisecond);
    suite_add_tcase(suite, core);
    return suite;
}

int main(void)
{
    return run_suite(chip_suite());
}
