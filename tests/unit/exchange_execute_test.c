/* module: compiler/exchange */
/* Rows of the scheduler executed by simulated tiles: every word of random phases arrives, nothing
 * else changes, and a row that starts one event early or late is seen.
 */
#include "device/ipu21/exchange.h"
#include "device/sim/settle.h"
#include "tests/unit/exchange_phases.h"

#include "base/alloc.h"

#include <stdlib.h>

enum {
    END = 0x60000, /* sync 3: the row returns here */
    ROW_SYNC = END + 4,
    ROW = END + 8,
    DATA_BYTES = IPU21_SRAM_END - IPU21_REGION1_BASE,
    CYCLES = 1 << 24
};

static struct settle *fabric;
static struct sim_tile *tiles[PHASE_TILES];
static uint8_t *expected[PHASE_TILES]; /* region 1 */
static struct settle_row rows[PHASE_TILES];
static uint32_t code_elements[PHASE_TILES];
static struct phase_builder builder;
static struct exchange_schedule *schedule;

static void setup(void)
{
    fabric = ipu_calloc(1, sizeof *fabric);
    settle_init(fabric);
    fabric->strict = true;
    for (int t = 0; t < PHASE_TILES; t++)
        code_elements[t] = ipu21_element_mask(END, 0x8000);
}

static void teardown(void)
{
    for (int t = 0; t < PHASE_TILES; t++) {
        sim_tile_destroy(tiles[t]);
        free(fabric->ports[t].sram);
        free(expected[t]);
        tiles[t] = NULL;
        expected[t] = NULL;
    }
    settle_free(fabric);
    ipu_free(fabric);
    phase_free(&builder);
}

static uint32_t pattern(unsigned tile, uint32_t address)
{
    return tile << 20 | address >> 2;
}

static void fill(unsigned tile, uint8_t *data)
{
    for (uint32_t at = 0; at < DATA_BYTES; at += 4) {
        uint32_t word = pattern(tile, IPU21_REGION1_BASE + at);
        memcpy(data + at, &word, sizeof word);
    }
}

static void use_tile(unsigned t)
{
    struct settle_port *port = &fabric->ports[t];
    if (expected[t] != NULL)
        return;
    port->sram = calloc(1, IPU21_SRAM_BYTES);
    expected[t] = malloc(DATA_BYTES);
    fill(t, expected[t]);
    tiles[t] = sim_tile_create(t, port->sram);
    port->tile = tiles[t];
}

/* Schedules a phase and says what memory must be afterwards. */
static void make_phase(uint64_t seed)
{
    struct ipu_error error = {0};
    phase_begin(&builder, 40);
    phase_random(&builder, seed, (unsigned)(seed * 97 % PHASE_TILES), seed % 3 != 0 ? 12 : 0,
                 seed % 3 != 0 ? 40 : 12, seed % 4 == 1);
    struct exchange_phase phase = phase_end(&builder);
    phase.code_elements = code_elements;
    schedule = ARENA_NEW(builder.arena, struct exchange_schedule);
    int code = exchange_schedule(&phase, seed % 2, builder.arena, schedule, &error);
    ck_assert_msg(code == 0, "seed %llu: %s", (unsigned long long)seed, error.text);
    for (unsigned t = 0; t < PHASE_TILES; t++)
        if (schedule->rows[t].words != NULL)
            use_tile(t);
    for (uint32_t i = 0; i < phase.count; i++) {
        const struct exchange_transfer *x = &phase.transfers[i];
        for (uint32_t k = 0; k < x->target_count; k++)
            for (uint32_t w = 0; w < x->words; w++) {
                uint32_t word = pattern(x->source, x->address + 4 * w);
                memcpy(expected[x->targets[k].tile] + x->targets[k].address + 4 * w -
                           IPU21_REGION1_BASE,
                       &word, sizeof word);
            }
    }
}

static void put(unsigned t, uint32_t address, uint32_t word)
{
    memcpy(fabric->ports[t].sram + (address - IPU21_SRAM_BASE), &word, sizeof word);
}

/* Runs the tile's row up to the sync behind it; false: a fault. */
static bool run_row(unsigned t)
{
    struct settle_port *port = &fabric->ports[t];
    const struct exchange_row *row = &schedule->rows[t];
    fill(t, port->sram + (IPU21_REGION1_BASE - IPU21_SRAM_BASE));
    put(t, END, ipu21_sync(IPU21_ZONE_INTERNAL));
    put(t, ROW_SYNC, ipu21_sync(IPU21_ZONE_INTERNAL));
    for (uint32_t i = 0; i < row->count; i++)
        put(t, ROW + 4 * i, row->words[i]);
    sim_tile_reset(tiles[t], ROW_SYNC, 0);
    sim_tile_set_m(tiles[t], 0, 10, END);
    ck_assert_int_eq(sim_tile_run(tiles[t], CYCLES), SIM_STOP_SYNC);
    sim_tile_release(tiles[t], 1000);
    if (sim_tile_run(tiles[t], CYCLES) != SIM_STOP_SYNC)
        return false;
    ck_assert_uint_eq(sim_tile_pc(tiles[t], 0), END + 4);
    rows[t] = (struct settle_row){ROW, 4 * row->count, row->receive_words};
    port->events = sim_tile_events(tiles[t], &port->event_count);
    port->state = sim_tile_exchange(tiles[t]);
    port->epoch = sim_tile_epoch(tiles[t]);
    port->stop_cycle = sim_tile_cycle(tiles[t]);
    port->went_on = false;
    port->faulted = false;
    port->rows = &rows[t];
    port->row_count = 1;
    return true;
}

/* NULL when everything arrived and nothing else changed, or what is wrong. */
static const char *run_phase(void)
{
    static struct sim_exchange_state idle = {.incoming_mux = IPU21_MUX_NEUTRAL,
                                             .incoming_mux_pair = IPU21_MUX_NEUTRAL};
    for (unsigned t = 0; t < PHASE_TILES; t++) {
        fabric->ports[t].state = &idle;
        fabric->ports[t].event_count = 0;
        if (tiles[t] != NULL && !run_row(t))
            return sim_tile_fault(tiles[t])->text;
    }
    bool settled = settle_run(fabric);
    for (unsigned t = 0; t < PHASE_TILES; t++) {
        const struct settle_port *port = &fabric->ports[t];
        if (port->faulted)
            return port->fault.text;
        if (tiles[t] != NULL && memcmp(port->sram + (IPU21_REGION1_BASE - IPU21_SRAM_BASE),
                                       expected[t], DATA_BYTES) != 0)
            return "a word is missing, wrong or too many";
    }
    return settled ? NULL : "a fault without a port";
}

START_TEST(rows_of_a_random_phase_deliver_every_word)
{
    make_phase((uint64_t)_i);
    const char *wrong = run_phase();
    ck_assert_msg(wrong == NULL, "seed %d: %s", _i, wrong);
    for (unsigned t = 0; t < PHASE_TILES; t++)
        ck_assert_uint_eq(fabric->ports[t].received, schedule->rows[t].receive_words);
}
END_TEST

/* The events of the first instruction of a row, if it waits, one more or less: everything behind it
 * moves. False when it does not wait or has no event to spare. */
static bool shift_row(struct exchange_row *row, int by)
{
    uint32_t word = row->words[0], shift = 0, mask = 0;
    if ((word & 0xfff80000u) == 0x40a00000u)
        mask = 0x7ffff;
    else if ((word & 0xfc000000u) == 0x60000000u)
        mask = 0x7f, shift = 19;
    else if ((word & 0xfc000000u) == 0x64000000u)
        mask = 0xfff, shift = 14;
    uint32_t field = (word >> shift & mask) + (uint32_t)by;
    row->words[0] = (word & ~(mask << shift)) | (field & mask) << shift;
    return mask != 0 && field <= mask;
}

START_TEST(row_one_event_off_is_seen)
{
    unsigned tried = 0;
    make_phase((uint64_t)_i);
    for (unsigned t = 0; t < PHASE_TILES; t++)
        for (int by = -1; by <= 1 && schedule->rows[t].words != NULL; by += 2) {
            struct exchange_row *row = &schedule->rows[t];
            uint32_t *whole = row->words;
            row->words = malloc(4 * row->count);
            memcpy(row->words, whole, 4 * row->count);
            if (shift_row(row, by)) {
                const char *wrong = run_phase();
                ck_assert_msg(wrong != NULL, "seed %d: tile %u is off by %d", _i, t, by);
                tried++;
            }
            free(row->words);
            row->words = whole;
        }
    ck_assert_uint_gt(tried, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange_execute");
    TCase *tcase = tcase_create("execute");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, rows_of_a_random_phase_deliver_every_word, 1, 13);
    tcase_add_loop_test(tcase, row_one_event_off_is_seen, 1, 5);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
