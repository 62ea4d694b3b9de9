/* module: device/sim */
/* Programs that nobody should write: whatever bytes a tile executes, the simulator stops in time,
 * with a fault that names a place or in an ordinary way, and stays whole. Worth most under
 * sanitizers.
 *
 * IPU_TEST_LEVEL=long tries many more; IPU_TEST_SEED=n starts elsewhere.
 */
#include "device/ipu21/exchange.h"
#include "device/sim/core.h"
#include "device/sim/settle.h"
#include "tests/reference/values.h"
#include "tests/unit/sim_program.h"

#include "base/alloc.h"

enum { HOSTILE_CYCLES = 20000, CODE_BYTES = 0x1000, TILES = 6, ROUNDS = 24 };

static struct program p;

static void setup(void)
{
    program_open(&p);
}

static void teardown(void)
{
    program_close(&p);
}

static unsigned tries(unsigned quick)
{
    const char *level = getenv("IPU_TEST_LEVEL");
    return level != NULL && strcmp(level, "long") == 0 ? 50 * quick : quick;
}

static uint64_t first_seed(void)
{
    const char *seed = getenv("IPU_TEST_SEED");
    return seed != NULL ? strtoull(seed, NULL, 0) : 1;
}

/* A word of any kind: legal more often than not, with operands that nobody chose. */
static uint32_t hostile_word(struct random *g)
{
    if (random_chance(g, 10))
        return (uint32_t)random_next(g);
    struct isa_inst inst = {.form = (uint16_t)random_below(g, ISA_COUNT)};
    const struct isa_form *f = &isa_forms[inst.form];
    if (f->words != 1)
        return (uint32_t)random_next(g) | 0xf0000000u;
    for (unsigned i = 0; i < f->operand_count; i++) {
        const struct isa_operand *o = &f->operands[i];
        unsigned count = o->kind < ISA_KIND_FIRST_IMMEDIATE ? ref_kind_count(o->kind) : 1;
        inst.operand[i] =
            (int32_t)(count > 1 ? random_below(g, 16 / count) * count : (uint32_t)random_next(g));
        if (o->kind == ISA_KIND_WADDR)
            inst.operand[i] = (int32_t)(CODE + random_below(g, CODE_BYTES / 4) * 4);
        else if (o->kind < ISA_KIND_FIRST_IMMEDIATE && count == 1)
            inst.operand[i] &= 15;
    }
    return gen_encode(&inst, f->coissue && random_chance(g, 40));
}

/* For supervisors: mostly exchange, launches and control registers. */
static uint32_t hostile_supervisor_word(struct random *g)
{
    uint32_t low = (uint32_t)random_next(g), n = random_below(g, 64);
    switch (random_below(g, 10)) {
    case 0:
        return 0x40a00000u | (low & (random_chance(g, 95) ? 0xff : 0x7ffff));
    case 1:
        return 0x60000000u | (low & 0x3ffffff);
    case 2:
        return 0x64000000u | (low & 0x3ffffff & (random_chance(g, 50) ? ~0x1fffu : ~0u));
    case 3: /* mostly from region 1, so that some go out */
        return 0x78000000u | n << 21 | (0x20000 + (low & 0x3fff)) << 3 | (low >> 29);
    case 4:
        return 0x70000000u | n << 21 | (low & 3) << 14 | (low & 0x78);
    case 5:
        return 0x70100000u | n << 21 | (low & 0xfffff);
    case 6:
        return random_chance(g, 50) ? 0x41800000u | (low & 15) : 0x40c00000u | (low & 7);
    case 7:
        return 0x43008000u | (low & 0xf00000) | 0xa0 | (low & 15);
    default:
        return hostile_word(g);
    }
}

static void fill_code(struct random *g, uint8_t *sram, uint32_t from, bool supervisor)
{
    for (uint32_t at = from; at < from + CODE_BYTES; at += 4) {
        uint32_t word = supervisor ? hostile_supervisor_word(g) : hostile_word(g);
        memcpy(sram + (at - IPU21_SRAM_BASE), &word, 4);
    }
}

/* A register that points somewhere: code, data, the ends of memory, or nowhere. */
static uint32_t hostile_register(struct random *g)
{
    static const uint32_t places[] = {CODE,    0x4c000, 0x4bffc,  0x7fff8, 0x7fffc, 0x80000,
                                      0xe7ff8, 0xe8000, 0xfffff8, 0,       ~0u,     0x58000};
    uint32_t offset = random_below(g, 64) & (random_chance(g, 80) ? ~7u : ~0u);
    return random_chance(g, 70) ? places[random_below(g, 12)] + offset : gen_value(g);
}

static void check_stop(enum sim_stop stop, uint64_t seed)
{
    const struct sim_fault *fault = sim_tile_fault(p.tile);
    ck_assert_msg((stop == SIM_STOP_FAULT) == (fault != NULL), "seed %llu: stop %d",
                  (unsigned long long)seed, (int)stop);
    if (fault == NULL)
        return;
    ck_assert_msg(strlen(fault->text) > 20 && fault->etype != SIM_ETYPE_NONE, "seed %llu: %s",
                  (unsigned long long)seed, fault->text);
    /* A fault is final. */
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_FAULT);
}

static void start_hostile(struct random *g, unsigned worker)
{
    for (unsigned i = 0; i < 14; i++) {
        sim_tile_set_m(p.tile, worker + 1, i, hostile_register(g));
        sim_tile_set_a(p.tile, worker, i, gen_value(g));
    }
    uint32_t start = random_chance(g, 80) ? CODE : IPU21_REGION1_BASE - 0x100;
    sim_tile_start_worker(p.tile, worker, start + 4 * random_below(g, 60), DATA);
}

START_TEST(random_worker_code_stops_in_time)
{
    unsigned faults = 0, count = tries(400);
    for (uint64_t seed = first_seed(); seed < first_seed() + count; seed++) {
        struct random g = {seed};
        fill_code(&g, p.sram, CODE, false);
        fill_code(&g, p.sram, IPU21_REGION1_BASE - CODE_BYTES, false);
        sim_tile_reset(p.tile, 0, 0);
        p.tile->context[0].active = false;
        for (unsigned w = 0; w < IPU21_WORKERS; w++)
            start_hostile(&g, w);
        enum sim_stop stop = sim_tile_run(p.tile, HOSTILE_CYCLES);
        check_stop(stop, seed);
        faults += stop == SIM_STOP_FAULT;
    }
    ck_assert_uint_gt(faults, count / 2);
}
END_TEST

/* --- several tiles and the fabric between them --- */

struct hostile_tile {
    struct sim_tile *tile;
    uint8_t *sram;
    unsigned logical;
};

/* Tiles come in whole pairs, as on a chip. */
static void tile_open(struct hostile_tile *t, unsigned logical, struct settle *fabric,
                      struct random *g)
{
    t->logical = logical;
    t->sram = calloc(1, IPU21_SRAM_BYTES);
    fill_code(g, t->sram, CODE, true);
    t->tile = sim_tile_create(t->logical, t->sram);
    fabric->ports[t->logical].tile = t->tile;
    fabric->ports[t->logical].sram = t->sram;
    sim_tile_reset(t->tile, CODE + 4 * random_below(g, 32), 0);
    for (unsigned i = 0; i < 14; i++)
        sim_tile_set_m(t->tile, 0, i, hostile_register(g));
}

/* Runs a tile to its next stop and hands its log to the fabric. */
static enum sim_stop tile_round(struct hostile_tile *t, struct settle *fabric, uint64_t limit)
{
    struct settle_port *port = &fabric->ports[t->logical];
    enum sim_stop stop = sim_tile_run(t->tile, limit);
    port->events = sim_tile_events(t->tile, &port->event_count);
    port->state = sim_tile_exchange(t->tile);
    port->epoch = sim_tile_epoch(t->tile);
    port->stop_cycle = sim_tile_cycle(t->tile);
    port->went_on = stop == SIM_STOP_SETTLE;
    port->faulted = false;
    if (stop == SIM_STOP_FAULT)
        port->event_count = 0;
    return stop;
}

/* A faulted tile starts over somewhere else. */
static void tile_continue(struct hostile_tile *t, enum sim_stop stop, struct random *g)
{
    uint64_t cycle = sim_tile_cycle(t->tile);
    sim_tile_settled(t->tile);
    if (stop == SIM_STOP_SYNC)
        sim_tile_release(t->tile, cycle + 90);
    if (stop != SIM_STOP_FAULT)
        return;
    sim_tile_reset(t->tile, CODE + 4 * random_below(g, 512), cycle);
    for (unsigned i = 0; i < 14; i++)
        sim_tile_set_m(t->tile, 0, i, hostile_register(g));
}

static void hostile_fabric(uint64_t seed)
{
    static struct sim_exchange_state idle = {.incoming_mux = IPU21_MUX_NEUTRAL,
                                             .incoming_mux_pair = IPU21_MUX_NEUTRAL};
    struct hostile_tile tiles[TILES];
    struct settle *fabric = ipu_calloc(1, sizeof *fabric);
    struct random g = {seed};
    settle_init(fabric);
    for (unsigned i = 0; i < IPU21_TILES; i++)
        fabric->ports[i].state = &idle;
    unsigned first = random_below(&g, IPU21_TILES / 2);
    for (unsigned i = 0; i < TILES; i++)
        tile_open(&tiles[i], 2 * ((first + i / 2 * 211) % (IPU21_TILES / 2)) + i % 2, fabric, &g);
    for (unsigned round = 0; round < ROUNDS; round++) {
        enum sim_stop stop[TILES];
        for (unsigned i = 0; i < TILES; i++)
            stop[i] = tile_round(&tiles[i], fabric, (uint64_t)HOSTILE_CYCLES * (round + 1) * 50);
        (void)settle_run(fabric); /* whether it faults is of no interest here */
        for (unsigned i = 0; i < TILES; i++)
            tile_continue(&tiles[i], stop[i], &g);
    }
    for (unsigned i = 0; i < TILES; i++) {
        sim_tile_destroy(tiles[i].tile);
        free(tiles[i].sram);
    }
    settle_free(fabric);
    ipu_free(fabric);
}

START_TEST(random_supervisor_code_does_not_harm_the_fabric)
{
    unsigned count = tries(60);
    for (uint64_t seed = first_seed(); seed < first_seed() + count; seed++)
        hostile_fabric(seed);
}
END_TEST

/* --- logs of any kind --- */

enum { LOG_EVENTS = 40, LOG_PORTS = 8 };

struct hostile_log {
    struct sim_event events[LOG_EVENTS];
    struct sim_exchange_state state;
    struct settle_row row;
    unsigned tile;
};

static struct sim_event hostile_event(struct random *g, const struct hostile_log *logs)
{
    uint32_t value = (uint32_t)random_next(g);
    struct sim_event e = {.kind = (uint8_t)random_below(g, 4),
                          .selector = (uint8_t)random_below(g, 2),
                          .pc = CODE + 4 * random_below(g, 0x400)};
    if (e.kind == SIM_EVENT_SEND) {
        e.control = (uint8_t)(random_below(g, 3) + 1 + 4 * random_below(g, 2));
        e.items = 1 + random_below(g, random_chance(g, 90) ? 64 : 4096);
        e.value = 0x58000 + (value & 0x7fff8);
    } else if (e.kind == SIM_EVENT_XPIC) {
        e.value = random_chance(g, 70) ? ipu21_physical(logs[random_below(g, LOG_PORTS)].tile)
                                       : value & 0x1fff;
    } else if (e.kind == SIM_EVENT_PIC) {
        e.value = e.selector == 1 && random_chance(g, 80) ? value & 3 : value & 0x3ffff;
    } else {
        e.value = value & 0xffffc;
    }
    return e;
}

static void hostile_port(struct random *g, struct settle_port *port, struct hostile_log *log,
                         const struct hostile_log *logs, unsigned most)
{
    uint32_t slot = random_below(g, 200);
    unsigned count = random_below(g, most);
    for (unsigned i = 0; i < count; i++) {
        log->events[i] = hostile_event(g, logs);
        log->events[i].slot = slot;
        slot += random_below(g, random_chance(g, 50) ? 3 : 120);
    }
    log->state = (struct sim_exchange_state){
        .incoming_mux = random_chance(g, 60) ? IPU21_MUX_NEUTRAL : (uint32_t)random_next(g),
        .incoming_mux_pair = random_chance(g, 60) ? IPU21_MUX_NEUTRAL : (uint32_t)random_next(g),
        .incoming_pointer = (uint32_t)random_next(g) & 0xfffff,
        .incoming_format = random_below(g, 4),
        .incoming_base = random_chance(g, 80) ? 0 : (uint32_t)random_next(g) & 0xfffff,
        .incoming_dcount = (uint32_t)random_next(g) & 0x1ffff};
    log->row = (struct settle_row){CODE, 0x1000, random_below(g, 100)};
    port->events = log->events;
    port->event_count = count;
    port->state = &log->state;
    port->epoch = 1000;
    port->stop_cycle = 1000 + random_below(g, 6000);
    port->went_on = random_chance(g, 20);
    port->faulted = false;
    port->rows = &log->row;
    port->row_count = random_below(g, 2);
}

START_TEST(random_logs_do_not_harm_the_fabric)
{
    static struct sim_exchange_state idle = {.incoming_mux = IPU21_MUX_NEUTRAL,
                                             .incoming_mux_pair = IPU21_MUX_NEUTRAL};
    static struct hostile_log logs[LOG_PORTS];
    struct settle *fabric = ipu_calloc(1, sizeof *fabric);
    unsigned count = tries(2000), settled = 0, words = 0;
    settle_init(fabric);
    for (unsigned i = 0; i < IPU21_TILES; i++)
        fabric->ports[i].state = &idle;
    for (unsigned i = 0; i < LOG_PORTS; i++) {
        logs[i].tile = 100 + 332 * (i / 2) + i % 2; /* whole pairs, as on a chip */
        fabric->ports[logs[i].tile].sram = calloc(1, IPU21_SRAM_BYTES);
    }
    for (uint64_t seed = first_seed(); seed < first_seed() + count; seed++) {
        struct random g = {seed};
        /* Short logs get through now and then, so that words are copied too. */
        unsigned most = seed % 2 != 0 ? LOG_EVENTS : 3;
        fabric->strict = random_chance(&g, 30);
        for (unsigned i = 0; i < LOG_PORTS; i++) {
            hostile_port(&g, &fabric->ports[logs[i].tile], &logs[i], logs, most);
            if (most != LOG_EVENTS && i > 1)
                logs[i].state = idle;
            if (most != LOG_EVENTS && i > 2)
                fabric->ports[logs[i].tile].event_count = 0;
        }
        settled += settle_run(fabric);
    }
    words = (unsigned)fabric->words;
    for (unsigned i = 0; i < LOG_PORTS; i++)
        free(fabric->ports[logs[i].tile].sram);
    settle_free(fabric);
    ipu_free(fabric);
    ck_assert_msg(settled > count / 50 && settled < count, "%u of %u rounds settled", settled,
                  count);
    ck_assert_uint_gt(words, 1000);
}
END_TEST

/* --- one by one --- */

static enum sim_etype worker_fault_at(uint32_t pc)
{
    sim_tile_reset(p.tile, 0, 0);
    p.tile->context[0].active = false;
    sim_tile_start_worker(p.tile, 0, pc, DATA);
    if (sim_tile_run(p.tile, HOSTILE_CYCLES) != SIM_STOP_FAULT)
        return SIM_ETYPE_NONE;
    return sim_tile_fault(p.tile)->etype;
}

START_TEST(code_runs_out_at_the_end_of_region_0)
{
    p.at = IPU21_REGION1_BASE - 8;
    put(&p, I(SETZI_MR_ZIMM20, 2, 1));
    put(&p, I(SETZI_MR_ZIMM20, 3, 1));
    ck_assert_int_eq(worker_fault_at(IPU21_REGION1_BASE - 8), SIM_ETYPE_INVALID_PC);
    ck_assert_uint_eq(sim_tile_fault(p.tile)->pc, IPU21_REGION1_BASE);
    /* The first word of a bundle is the last word of the region. */
    p.at = IPU21_REGION1_BASE - 8;
    put_bundle(&p, I(SETZI_MR_ZIMM20, 2, 1), I(SETZI_AR_ZIMM20, 2, 1));
    ck_assert_int_ne(worker_fault_at(IPU21_REGION1_BASE - 4), SIM_ETYPE_NONE);
    ck_assert_uint_eq(sim_tile_fault(p.tile)->pc, IPU21_REGION1_BASE - 4);
}
END_TEST

START_TEST(repeat_body_that_leaves_region_0_faults)
{
    for (unsigned bundles = 1; bundles <= 256; bundles *= 4) {
        p.at = IPU21_REGION1_BASE - 12;
        put(&p, I(RPT_ZIMM12_ZIMM8, 5, (int32_t)bundles - 1));
        put_bundle(&p, I(ADD_MR_MR_SIMM16, 2, 2, 1), I(SETZI_AR_ZIMM20, 2, 1));
        ck_assert_int_eq(worker_fault_at(IPU21_REGION1_BASE - 12), SIM_ETYPE_INVALID_PC);
        /* One bundle is a whole body; more are not there. */
        ck_assert_uint_eq(sim_tile_m(p.tile, 1, 2), bundles == 1 ? 5 : 1);
    }
}
END_TEST

START_TEST(endless_loops_end_at_the_cycle_limit)
{
    put(&p, I(BRI_WADDR19, CODE));
    sim_tile_start_worker(p.tile, 0, CODE, DATA);
    ck_assert_int_eq(sim_tile_run(p.tile, 600000), SIM_STOP_LIMIT);
    sim_tile_reset(p.tile, CODE, 0);
    ck_assert_int_eq(sim_tile_run(p.tile, 600000), SIM_STOP_LIMIT);
    /* Worker and supervisor at once. */
    p.at = CODE + 0x100;
    put(&p, I(SETZI_MR_ZIMM20, 2, CODE));
    put(&p, I(RUNALL_MR_MR_ZIMM16, 2, 15, 0));
    put(&p, I(SYNC_ZIMM4, 2));
    sim_tile_reset(p.tile, CODE + 0x100, 0);
    ck_assert_int_eq(sim_tile_run(p.tile, 600000), SIM_STOP_LIMIT);
}
END_TEST

START_TEST(code_that_rewrites_itself_runs_as_rewritten)
{
    /* The store changes the instruction right behind it, then the second word of a bundle. */
    uint32_t words[2];
    struct isa_inst late = I(SETZI_MR_ZIMM20, 4, 77);
    ck_assert(isa_encode(&late, false, words));
    poke32(&p, DATA, words[0]);
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 3, 13, 15, 0));
    put(&p, I(SETZI_MR_ZIMM20, 2, CODE + 12));
    put(&p, I(ST32_MR_MR_MR_ZIMM12, 3, 2, 15, 0));
    put(&p, I(SETZI_MR_ZIMM20, 4, 11));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 4), 77);
}
END_TEST

/* 8,192 delays of 2^19 events pass 2^32 cycles: a slot number that wraps must not reach the fabric.
 */
START_TEST(slots_beyond_32_bits_fault)
{
    put_word(&p, ipu21_sync(3));
    put_word(&p, ipu21_delayxpic(5, 0, IPU21_MUX_NEUTRAL));
    put_word(&p, ipu21_setzi(2, 8200));
    uint32_t loop = p.at;
    put_word(&p, ipu21_delay(IPU21_MAX_DELAY));
    put_word(&p, ipu21_brnzdec(2, loop));
    put_word(&p, ipu21_delayxpic(5, 0, 3));
    put_word(&p, ipu21_sync(3));
    sim_tile_reset(p.tile, CODE, 0);
    ck_assert_int_eq(sim_tile_run(p.tile, (uint64_t)1 << 40), SIM_STOP_SYNC);
    sim_tile_release(p.tile, 100);
    ck_assert_int_eq(sim_tile_run(p.tile, (uint64_t)1 << 40), SIM_STOP_FAULT);
    ck_assert_ptr_nonnull(strstr(sim_tile_fault(p.tile)->text, "synchronisation"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_hostile");
    TCase *tcase = tcase_create("hostile");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, random_worker_code_stops_in_time);
    tcase_add_test(tcase, random_supervisor_code_does_not_harm_the_fabric);
    tcase_add_test(tcase, random_logs_do_not_harm_the_fabric);
    tcase_add_test(tcase, code_runs_out_at_the_end_of_region_0);
    tcase_add_test(tcase, repeat_body_that_leaves_region_0_faults);
    tcase_add_test(tcase, endless_loops_end_at_the_cycle_limit);
    tcase_add_test(tcase, code_that_rewrites_itself_runs_as_rewritten);
    tcase_add_test(tcase, slots_beyond_32_bits_fault);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
