/* module: device/sim */
/* The supervisor's own forms against a model written here from facts/exchange.md sections 3 and 6
 * and facts/isa_semantics.md section 3: random rows of every exchange encoding, launches, weight
 * loads; and the main lane as the supervisor runs it, against tests/reference.
 */
#include "tests/reference/compare.h"
#include "tests/reference/values.h"
#include "tests/unit/sim_program.h"

static struct program p;
static struct random numbers;

static void setup(void)
{
    program_open(&p);
    numbers = (struct random){77};
}

static void teardown(void)
{
    program_close(&p);
}

static uint32_t below(uint32_t limit)
{
    return random_below(&numbers, limit);
}

/* --- rows --- */

enum { ROW_MAX = 400, ROW_SYNC = 3, EVENT_EPOCH = 5000 };

/* What a row must log. */
struct model {
    struct sim_event events[ROW_MAX];
    unsigned count;
    uint32_t slot;            /* of the next instruction */
    uint32_t cursor, control; /* of the outgoing stream */
    uint32_t base;
    uint32_t used[ISA_COUNT];
};

static void model_event(struct model *m, struct sim_event event)
{
    event.pc = p.at;
    m->events[m->count++] = event;
}

static void model_control(struct model *m, bool pointer, uint32_t selector, uint32_t value,
                          uint32_t slot)
{
    model_event(m, (struct sim_event){.kind = (uint8_t)(pointer ? SIM_EVENT_PIC : SIM_EVENT_XPIC),
                                      .selector = (uint8_t)selector,
                                      .value = value,
                                      .slot = slot});
}

/* n items leave from the cursor; with no direction time passes and nothing else happens. */
static void model_send(struct model *m, uint32_t items)
{
    if ((m->control & 3) != 0) {
        model_event(m, (struct sim_event){.kind = SIM_EVENT_SEND,
                                          .control = (uint8_t)m->control,
                                          .items = items,
                                          .value = m->base + m->cursor,
                                          .slot = m->slot});
        m->cursor += items * (m->control >= 4 ? 8 : 4);
    }
    m->slot += items;
}

/* An item address that keeps every send of a row inside SRAM and out of the code's element. */
static uint32_t item_address(uint32_t control)
{
    uint32_t byte = 0x80000 + below(0x1000) * 8;
    return control >= 4 ? byte / 8 : byte / 4;
}

/* Fields as facts/exchange.md section 3 lists them; n is the number of events. */
static void row_delay(struct model *m)
{
    uint32_t n = 1 + below(below(2) != 0 ? 20 : 524288);
    put_word(&p, 0x40a00000 + (n - 1));
    m->slot += n;
    m->used[ISA_DELAY_ZIMM19]++;
}

static void row_delaypic(struct model *m)
{
    uint32_t n = 1 + below(128), selector = below(2), value = below(1 << 18);
    model_control(m, true, selector, value, m->slot + n - 1);
    put_word(&p, 0x60000000 + ((n - 1) << 19) + (selector << 18) + value);
    m->slot += n;
    m->used[ISA_DELAYPIC_ZIMM7_ZIMM1_ZIMM18]++;
}

static void row_delayxpic(struct model *m)
{
    uint32_t n = 1 + below(4096), selector = below(2), value = below(1 << 13);
    model_control(m, false, selector, value, m->slot + n - 1);
    put_word(&p, 0x64000000 + ((n - 1) << 14) + (selector << 13) + value);
    m->slot += n;
    m->used[ISA_DELAYXPIC_ZIMM12_ZIMM1_ZIMM13]++;
}

static void row_send(struct model *m)
{
    uint32_t n = 1 + below(64), control = below(8), item = item_address(control);
    m->control = control;
    m->cursor = item * (control >= 4 ? 8 : 4);
    model_send(m, n);
    put_word(&p, 0x78000000 + ((n - 1) << 21) + (item << 3) + control);
    m->used[ISA_SEND_ZIMM6_WADDR18_SCTL3]++;
}

/* The stream goes on: an 8-byte item needs an 8-byte cursor. */
static void row_sendoff(struct model *m)
{
    uint32_t delta = 2 * below(200), n = 1 + below(300);
    m->control = m->cursor == 0 ? 0 : m->control;
    m->cursor += 4 * delta;
    model_send(m, n);
    put_word(&p, 0x70000000 + (((n - 1) & 63) << 21) + (((n - 1) >> 6) << 14) + (delta << 3) +
                     m->control);
    m->used[ISA_SENDOFF_ZIMM12_ZIMM11_SCTL3]++;
}

static void row_sendpic(struct model *m)
{
    uint32_t n = 1 + below(64), selector = below(4), value = below(1 << 18);
    model_control(m, selector >= 2, selector & 1, value, m->slot);
    model_send(m, n);
    put_word(&p, 0x70100000 + ((n - 1) << 21) + (selector << 18) + value);
    m->used[ISA_SENDPIC_ZIMM6_ZIMM2_ZIMM18]++;
}

static void row_sendpicp(struct model *m)
{
    uint32_t n = 1 + below(64), control = below(2) != 0 ? below(8) : 0;
    uint32_t item = item_address(control), xpic = below(1 << 14), selector = below(2);
    uint32_t value = below(1 << 18);
    if (p.at % 8 != 0)
        return;
    model_control(m, false, xpic >> 13, xpic & 0x1fff, m->slot);
    model_control(m, true, selector, value, m->slot);
    if (control == 0) {
        m->slot += n;
    } else {
        m->control = control;
        m->cursor = item * (control >= 4 ? 8 : 4);
        model_send(m, n);
    }
    put_word(&p, 0xf0000000 + (selector << 27) + ((n - 1) << 21) + (item << 3) + control);
    put_word(&p, (xpic << 18) + value);
    m->used[ISA_SENDPICP_ZIMM6_WADDR18_SCTL3_ZIMM1_ZIMM14_ZIMM18]++;
}

static void row_instruction(struct model *m)
{
    static void (*const forms[])(struct model *) = {
        row_delay, row_delaypic, row_delayxpic, row_send, row_sendoff, row_sendpic, row_sendpicp};
    forms[below(7)](m);
}

static void check_row(const struct model *m)
{
    size_t count;
    put_word(&p, 0x41800000 + ROW_SYNC);
    sim_tile_reset(p.tile, CODE, 0);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
    sim_tile_release(p.tile, EVENT_EPOCH);
    sim_tile_exchange(p.tile)->outgoing_base = m->base;
    enum sim_stop stop = sim_tile_run(p.tile, (uint64_t)1 << 40);
    const struct sim_fault *fault = sim_tile_fault(p.tile);
    ck_assert_msg(stop == SIM_STOP_SYNC, "%s", fault != NULL ? fault->text : "no fault");
    const struct sim_event *events = sim_tile_events(p.tile, &count);
    ck_assert_uint_eq(count, m->count);
    for (unsigned i = 0; i < count; i++) {
        const struct sim_event *e = &events[i], *x = &m->events[i];
        ck_assert_msg(e->kind == x->kind && e->selector == x->selector &&
                          e->control == x->control && e->slot == x->slot && e->items == x->items &&
                          e->value == x->value && e->pc == x->pc,
                      "event %u: kind %u sel %u control %u slot %u items %u value %x pc %x", i,
                      e->kind, e->selector, e->control, e->slot, e->items, e->value, e->pc);
    }
    ck_assert_uint_eq(sim_tile_cycle(p.tile), EVENT_EPOCH + (uint64_t)m->slot);
    ck_assert_uint_eq(sim_tile_exchange(p.tile)->outgoing_pointer, m->cursor);
}

START_TEST(random_rows_log_what_the_encodings_say)
{
    static struct model m;
    uint32_t used[ISA_COUNT] = {0};
    for (unsigned row = 0; row < 400; row++) {
        m = (struct model){.base = row % 3 == 2 ? 8 * below(0x400) : 0};
        p.at = CODE;
        put_word(&p, 0x41800000 + ROW_SYNC);
        for (unsigned i = below(40) + 1; i > 0; i--)
            row_instruction(&m);
        check_row(&m);
        for (unsigned form = 0; form < ISA_COUNT; form++)
            used[form] += m.used[form];
    }
#define ORACLE(form, kind) FORM_##kind(form)
#define FORM_INTEGER(form)
#define FORM_SINGLE(form)
#define FORM_HALF(form)
#define FORM_QUARTER(form)
#define FORM_RANDOM(form)
#define FORM_ACCUMULATOR(form)
#define FORM_MATRIX(form)
#define FORM_MEMORY(form)
#define FORM_CONTROL(form)
#define FORM_REGISTER(form)
#define FORM_FUNCTION(form)
#define FORM_LAUNCH(form)
#define FORM_EXCHANGE(form)                                                                        \
    if (ISA_##form != ISA_SANS_ZIMM19 && ISA_##form != ISA_SYNC_ZIMM4)                             \
        ck_assert_msg(used[ISA_##form] >= 50, "%s stood in %u places", #form, used[ISA_##form]);
#include "tests/reference/oracle.def"
}
END_TEST

/* Rows of oracle.def that this file proves; a new form of these kinds needs a test here. */
START_TEST(every_launch_and_exchange_form_is_proven_here)
{
#undef FORM_LAUNCH
#undef FORM_EXCHANGE
#define FORM_LAUNCH(form)   launches++;
#define FORM_EXCHANGE(form) exchanges++;
    unsigned launches = 0, exchanges = 0;
#include "tests/reference/oracle.def"
    ck_assert_uint_eq(launches, 4);  /* run, runall, ld64putcs, ld128putcs */
    ck_assert_uint_eq(exchanges, 9); /* sync, sans and the seven of row_instruction() */
}
END_TEST

/* --- sync and sans --- */

START_TEST(sync_stops_in_its_zone_and_sans_counts)
{
    for (uint32_t zone = 0; zone < 16; zone++) {
        p.at = CODE;
        uint32_t first = below(1 << 18), second = below(1 << 18);
        put_word(&p, 0x40c00000 + first);
        put_word(&p, 0x40c00000 + second);
        put_word(&p, 0x41800000 + zone);
        put_word(&p, 0x41800000 + 3);
        ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
        ck_assert_uint_eq(sim_tile_exchange(p.tile)->ans_count, first + second + 2);
        /* Zone 2 is the tile's own: no worker is active. */
        ck_assert_uint_eq(sim_tile_zone(p.tile), zone == 2 ? 3 : zone);
    }
}
END_TEST

/* --- launches --- */

/* Each worker stores its vertex base at WIDE + 4 * worker. */
static void put_store_base(void)
{
    put(&p, I(GET_MR_CSR8, 2, 1)); /* WSR: the worker's number */
    put(&p, I(AND_MR_MR_ZIMM12, 2, 2, 7));
    put(&p, I(SETZI_MR_ZIMM20, 3, WIDE));
    put(&p, I(STM32_MR_MR_MR, 13, 3, 2));
    put_exit(&p);
}

START_TEST(runall_gives_worker_n_base_plus_4_c_n)
{
    for (unsigned i = 0; i < 40; i++) {
        uint32_t c = below(1 << 16), base = 4 * below(1 << 16), entry = CODE + 0x40;
        p.at = entry;
        put_store_base();
        p.at = CODE;
        put_word(&p, 0x19000000 + (4 << 20) + entry);
        put_word(&p, 0x19000000 + (5 << 20) + base);
        put(&p, I(RUNALL_MR_MR_ZIMM16, 4, 5, (int32_t)c));
        put_word(&p, 0x41800002);
        put_word(&p, 0x41800003);
        ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
        for (uint32_t n = 0; n < 6; n++)
            ck_assert_uint_eq(peek32(&p, WIDE + 4 * n), base + n * 4 * c);
    }
}
END_TEST

START_TEST(run_adds_the_region_base_and_starts_one_worker)
{
    for (unsigned i = 0; i < 40; i++) {
        uint32_t c = below(1 << 16), base = 4 * below(1 << 16), entry = CODE + 0x40;
        p.at = entry;
        put_store_base();
        poke32(&p, WIDE, 0);
        poke32(&p, WIDE + 4, 0);
        p.at = CODE;
        put_word(&p, 0x19000000 + (4 << 20) + entry);
        put_word(&p, 0x19000000 + (5 << 20) + base);
        put(&p, I(RUN_MR_MR_ZIMM16, 4, 5, (int32_t)c));
        put_word(&p, 0x41800002);
        put_word(&p, 0x41800003);
        ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
        ck_assert_uint_eq(peek32(&p, WIDE), base + 4 * c + 0x4c000);
        ck_assert_uint_eq(peek32(&p, WIDE + 4), 0);
    }
}
END_TEST

/* --- weights --- */

START_TEST(weight_loads_fill_their_slots_and_advance_the_pointer)
{
    for (unsigned both = 0; both < 2; both++)
        for (uint32_t slot = 0; slot + both < 64; slot++) {
            uint64_t low = random_next(&numbers), high = random_next(&numbers);
            poke64(&p, WIDE + 0x40, low);
            poke64(&p, WIDE + 0x48, high);
            p.at = CODE;
            put_word(&p, 0x19000000 + (2 << 20) + WIDE + 0x40);
            put(&p, I(PUT_CSR8_MR, 0x50, 2));
            put(&p,
                both != 0 ? I(LD128PUTCS_CCSR8, (int32_t)slot) : I(LD64PUTCS_CCSR8, (int32_t)slot));
            put(&p, I(GET_MR_CSR8, 3, 0x50));
            put_word(&p, 0x41800003);
            ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
            for (uint32_t i = 0; i < 64; i++)
                ck_assert_uint_eq(p.tile->cwei[i], i == slot               ? low
                                                   : both && i == slot + 1 ? high
                                                                           : 0);
            ck_assert_uint_eq(sim_tile_m(p.tile, 0, 3), WIDE + 0x40 + 8 + 8 * both);
        }
}
END_TEST

static enum sim_etype weight_fault(struct isa_inst inst, uint32_t address)
{
    p.at = CODE;
    put_word(&p, 0x19000000 + (2 << 20) + address);
    put(&p, I(PUT_CSR8_MR, 0x50, 2));
    put(&p, inst);
    put_word(&p, 0x41800003);
    if (run_supervisor(&p) != SIM_STOP_FAULT)
        return SIM_ETYPE_NONE;
    ck_assert_uint_eq(sim_tile_fault(p.tile)->pc, CODE + 8);
    return sim_tile_fault(p.tile)->etype;
}

START_TEST(weight_loads_refuse_bad_addresses_and_slots)
{
    struct isa_inst one = I(LD64PUTCS_CCSR8, 3), two = I(LD128PUTCS_CCSR8, 4);
    ck_assert_int_eq(weight_fault(one, 0x58004), SIM_ETYPE_INVALID_ADDR);
    ck_assert_int_eq(weight_fault(one, 0x4bff8), SIM_ETYPE_INVALID_ADDR);
    ck_assert_int_eq(weight_fault(one, 0xe8000), SIM_ETYPE_INVALID_ADDR);
    ck_assert_int_eq(weight_fault(one, 0xe7ff8), SIM_ETYPE_NONE);
    ck_assert_int_eq(weight_fault(two, 0x58000), SIM_ETYPE_INVALID_ADDR);
    ck_assert_int_eq(weight_fault(two, 0x80008), SIM_ETYPE_INVALID_ADDR);
    ck_assert_int_eq(weight_fault(two, 0xe7ff0), SIM_ETYPE_NONE);
    two.operand[0] = 63;
    ck_assert_int_eq(weight_fault(two, WIDE), SIM_ETYPE_INVALID_OP);
    one.operand[0] = 64;
    ck_assert_int_eq(weight_fault(one, WIDE), SIM_ETYPE_INVALID_OP);
    one.operand[0] = 255;
    ck_assert_int_eq(weight_fault(one, WIDE), SIM_ETYPE_INVALID_OP);
}
END_TEST

/* --- the main lane of the supervisor --- */

static void compare_supervisor(const struct ref *r, const struct isa_inst *inst)
{
    const struct sim_fault *fault = sim_tile_fault(p.tile);
    int etype = fault != NULL ? (int)fault->etype : 0;
    ck_assert_msg(etype == r->fault, "%s: fault %d, reference %d", isa_forms[inst->form].syntax,
                  etype, r->fault);
    for (unsigned i = 0; i < 12; i++)
        ck_assert_msg(sim_tile_m(p.tile, 0, i) == r->m[i], "%s: m%u 0x%x, reference 0x%x",
                      isa_forms[inst->form].syntax, i, sim_tile_m(p.tile, 0, i), r->m[i]);
}

START_TEST(supervisor_runs_the_main_lane_as_workers_do)
{
    const struct isa_form *f = &isa_forms[_i];
    if (f->contexts != ISA_CONTEXTS_BOTH || f->class_ == ISA_CLASS_CONTROL ||
        f->class_ == ISA_CLASS_SYSTEM || f->lane != ISA_LANE_MAIN)
        return;
    uint8_t *memory = calloc(1, IPU21_SRAM_BYTES);
    for (unsigned i = 0; i < 120; i++) {
        struct isa_inst inst = {.form = (uint16_t)_i};
        struct ref r = {.sram = memory};
        gen_state(&numbers, &r);
        r.m[2] = DATA + 4 * below(64);
        r.m[3] = 4 * below(8);
        for (unsigned k = 0; k < f->operand_count; k++) {
            const struct isa_operand *o = &f->operands[k];
            inst.operand[k] = o->kind >= ISA_KIND_FIRST_IMMEDIATE
                                  ? (int32_t)below(1u << (o->width - 1))
                                  : (int32_t)(k == 0 ? 4 : k + 1);
        }
        for (uint32_t at = 0; at < 0x200; at += 4)
            poke32(&p, DATA + at, gen_value(&numbers));
        p.at = CODE;
        put_word(&p, gen_encode(&inst, false));
        put_word(&p, 0x41800003);
        memcpy(memory, p.sram, IPU21_SRAM_BYTES);
        sim_tile_reset(p.tile, CODE, 0);
        for (unsigned k = 0; k < 14; k++)
            sim_tile_set_m(p.tile, 0, k, r.m[k]);
        r.pc = CODE;
        r.active = true;
        ref_step(&r);
        sim_tile_run(p.tile, FOREVER);
        compare_supervisor(&r, &inst);
        ck_assert(memcmp(memory, p.sram, IPU21_SRAM_BYTES) == 0);
    }
    free(memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle_supervisor");
    TCase *tcase = tcase_create("supervisor");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, random_rows_log_what_the_encodings_say);
    tcase_add_test(tcase, every_launch_and_exchange_form_is_proven_here);
    tcase_add_test(tcase, sync_stops_in_its_zone_and_sans_counts);
    tcase_add_test(tcase, runall_gives_worker_n_base_plus_4_c_n);
    tcase_add_test(tcase, run_adds_the_region_base_and_starts_one_worker);
    tcase_add_test(tcase, weight_loads_fill_their_slots_and_advance_the_pointer);
    tcase_add_test(tcase, weight_loads_refuse_bad_addresses_and_slots);
    tcase_add_loop_test(tcase, supervisor_runs_the_main_lane_as_workers_do, 0, ISA_COUNT);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
