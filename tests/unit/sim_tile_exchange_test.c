/* module: device/sim */
/* The exchange log, its slots, and when a tile stops for the chip. */
#include "device/ipu21/csr.h"
#include "device/ipu21/exchange.h"
#include "tests/unit/sim_program.h"

static struct program p;

static void setup(void)
{
    program_open(&p);
}

static void teardown(void)
{
    program_close(&p);
}

/* Puts `sync 3`, lets the caller add a row, ends with another sync and runs to it; the epoch starts
 * in cycle 1000. */
static const struct sim_event *run_row(size_t *count)
{
    put(&p, I(SYNC_ZIMM4, 3));
    sim_tile_reset(p.tile, CODE, 0);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
    sim_tile_release(p.tile, 1000);
    enum sim_stop stop = sim_tile_run(p.tile, FOREVER);
    const struct sim_fault *fault = sim_tile_fault(p.tile);
    ck_assert_msg(stop == SIM_STOP_SYNC, "%s", fault ? fault->text : "no fault");
    ck_assert_uint_eq(sim_tile_epoch(p.tile), 1000);
    return sim_tile_events(p.tile, count);
}

static void begin_row(void)
{
    put(&p, I(SYNC_ZIMM4, 3));
}

static void check_event(const struct sim_event *event, enum sim_event_kind kind, uint32_t slot,
                        uint32_t value)
{
    ck_assert_int_eq(event->kind, kind);
    ck_assert_uint_eq(event->slot, slot);
    ck_assert_uint_eq(event->value, value);
}

/* The point-to-point receiver of facts/exchange.md section 4: controls issue in the last event of
 * their delay. */
START_TEST(receiver_row_logs_its_controls_at_their_issue_slots)
{
    size_t count;
    begin_row();
    put_word(&p, ipu21_delayxpic(113, 0, 53));
    put_word(&p, ipu21_delayxpic(3, 0, IPU21_MUX_NEUTRAL));
    put_word(&p, ipu21_delaypic(49, 0, WIDE >> 2));
    put_word(&p, ipu21_delaypic(10, 1, 2));
    put_word(&p, ipu21_delay(8));
    const struct sim_event *events = run_row(&count);
    ck_assert_uint_eq(count, 4);
    check_event(&events[0], SIM_EVENT_XPIC, 112, 53);
    check_event(&events[1], SIM_EVENT_XPIC, 115, IPU21_MUX_NEUTRAL);
    check_event(&events[2], SIM_EVENT_PIC, 164, WIDE >> 2);
    check_event(&events[3], SIM_EVENT_PIC, 174, 2);
    ck_assert_uint_eq(events[3].selector, 1);
    ck_assert_uint_eq(events[0].pc, CODE + 4);
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 1000 + 113 + 3 + 49 + 10 + 8);
}
END_TEST

START_TEST(sender_row_continues_its_stream)
{
    size_t count;
    begin_row();
    put_word(&p, ipu21_delay(135));
    put_word(&p, ipu21_send(64, WIDE >> 2, 2));
    put_word(&p, ipu21_sendoff(100, 0, 2));
    put_word(&p, ipu21_sendoff(1, 3, 1));
    const struct sim_event *events = run_row(&count);
    ck_assert_uint_eq(count, 3);
    check_event(&events[0], SIM_EVENT_SEND, 135, WIDE);
    ck_assert_uint_eq(events[0].items, 64);
    ck_assert_uint_eq(events[0].control, 2);
    check_event(&events[1], SIM_EVENT_SEND, 199, WIDE + 256);
    ck_assert_uint_eq(events[1].items, 100);
    check_event(&events[2], SIM_EVENT_SEND, 299, WIDE + 256 + 400 + 12);
    ck_assert_uint_eq(events[2].control, 1);
    ck_assert_uint_eq(sim_tile_exchange(p.tile)->outgoing_pointer, WIDE + 256 + 400 + 12 + 4);
}
END_TEST

START_TEST(sendpic_sends_on_and_writes_a_control_at_its_first_event)
{
    size_t count;
    begin_row();
    put_word(&p, ipu21_send(4, WIDE >> 2, 1));
    put_word(&p, ipu21_sendpic(6, 1, 77));
    put_word(&p, ipu21_sendpic(2, 2, 0x1234));
    const struct sim_event *events = run_row(&count);
    ck_assert_uint_eq(count, 5);
    check_event(&events[1], SIM_EVENT_XPIC, 4, 77);
    ck_assert_uint_eq(events[1].selector, 1);
    check_event(&events[2], SIM_EVENT_SEND, 4, WIDE + 16);
    ck_assert_uint_eq(events[2].control, 1);
    check_event(&events[3], SIM_EVENT_PIC, 10, 0x1234);
    ck_assert_uint_eq(events[3].selector, 0);
    check_event(&events[4], SIM_EVENT_SEND, 10, WIDE + 40);
}
END_TEST

START_TEST(sendpicp_writes_both_controls_and_restarts_the_stream)
{
    size_t count;
    begin_row();
    put_word(&p, ipu21_delay(1));
    ck_assert_uint_eq(p.at % 8, 0);
    put_word(&p, ipu21_sendpicp0(43, (WIDE >> 2) + 1, 1, 0));
    put_word(&p, ipu21_sendpicp1(IPU21_MUX_NEUTRAL, 0x15000));
    put_word(&p, ipu21_sendpicp0(5, 0, 0, 1));
    put_word(&p, ipu21_sendpicp1(1 << 13 | 9, 1));
    const struct sim_event *events = run_row(&count);
    ck_assert_uint_eq(count, 5);
    check_event(&events[0], SIM_EVENT_XPIC, 1, IPU21_MUX_NEUTRAL);
    check_event(&events[1], SIM_EVENT_PIC, 1, 0x15000);
    check_event(&events[2], SIM_EVENT_SEND, 1, WIDE + 4);
    ck_assert_uint_eq(events[2].items, 43);
    /* Without a direction it only passes time. */
    check_event(&events[3], SIM_EVENT_XPIC, 44, 9);
    ck_assert_uint_eq(events[3].selector, 1);
    check_event(&events[4], SIM_EVENT_PIC, 44, 1);
    ck_assert_uint_eq(events[4].selector, 1);
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 1000 + 1 + 43 + 5);
}
END_TEST

START_TEST(sendpicp_at_an_odd_word_faults)
{
    put_word(&p, ipu21_delay(1));
    put_word(&p, ipu21_sendpicp0(1, WIDE >> 2, 1, 0));
    put_word(&p, ipu21_sendpicp1(0, 0));
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_FAULT);
}
END_TEST

START_TEST(paired_send_moves_eight_bytes_an_item)
{
    size_t count;
    begin_row();
    put_word(&p, ipu21_send(64, WIDE >> 3, 5));
    put_word(&p, ipu21_sendoff(10, 0, 5));
    const struct sim_event *events = run_row(&count);
    check_event(&events[0], SIM_EVENT_SEND, 0, WIDE);
    check_event(&events[1], SIM_EVENT_SEND, 64, WIDE + 512);
}
END_TEST

START_TEST(outgoing_base_is_added_when_the_word_leaves)
{
    size_t count;
    put(&p, I(SETZI_MR_ZIMM20, 0, WIDE));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_OUTGOING_BASE, 0));
    begin_row();
    put_word(&p, ipu21_send(2, 4, 1));
    put(&p, I(SETZI_MR_ZIMM20, 0, WIDE + 0x8000));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_OUTGOING_BASE, 0));
    put_word(&p, ipu21_send(2, 4, 1));
    const struct sim_event *events = run_row(&count);
    check_event(&events[0], SIM_EVENT_SEND, 0, WIDE + 16);
    check_event(&events[1], SIM_EVENT_SEND, 2 + 1 + 13, WIDE + 0x8000 + 16);
}
END_TEST

START_TEST(receive_registers_are_state_before_a_row_and_events_inside_it)
{
    size_t count;
    put(&p, I(SETZI_MR_ZIMM20, 0, 0x60000));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_INCOMING_BASE, 0));
    put(&p, I(SETZI_MR_ZIMM20, 1, 77));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_INCOMING_MUX, 1));
    begin_row();
    put_word(&p, ipu21_delayxpic(1, 0, 5));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_INCOMING_BASE, 15));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_INCOMING_MUX, 1));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_INCOMING_FORMAT, 15));
    const struct sim_event *events = run_row(&count);
    ck_assert_uint_eq(sim_tile_exchange(p.tile)->incoming_base, 0x60000);
    ck_assert_uint_eq(sim_tile_exchange(p.tile)->incoming_mux, 77);
    ck_assert_uint_eq(count, 4);
    check_event(&events[1], SIM_EVENT_BASE_IN, 1 + 12, 0);
    check_event(&events[2], SIM_EVENT_XPIC, 14 + 5, 77);
    check_event(&events[3], SIM_EVENT_PIC, 20 + 5, 0);
    ck_assert_uint_eq(events[3].selector, 1);
}
END_TEST

START_TEST(send_from_the_element_of_its_code_is_a_conflict)
{
    /* The element of the code, and the one that only the 64-byte look-ahead reaches. */
    const uint32_t at[] = {CODE, 0x50000 - 64, 0x50000 - 72};
    const uint32_t from[] = {0x4c800, 0x50000, 0x50000};
    p.at = at[_i];
    put_word(&p, ipu21_send(1, from[_i] >> 2, 1));
    put(&p, I(SYNC_ZIMM4, 3));
    sim_tile_reset(p.tile, at[_i], 0);
    bool conflict = _i < 2;
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), conflict ? SIM_STOP_FAULT : SIM_STOP_SYNC);
    if (conflict)
        ck_assert_int_eq(sim_tile_fault(p.tile)->etype, SIM_ETYPE_CONFLICT);
}
END_TEST

START_TEST(send_outside_sram_faults)
{
    const uint32_t words[] = {ipu21_send(1, 0x40000 >> 2, 1), ipu21_send(2, 0xe7ffc >> 2, 1)};
    put_word(&p, words[_i]);
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_FAULT);
    ck_assert_int_eq(sim_tile_fault(p.tile)->etype, SIM_ETYPE_INVALID_ADDR);
}
END_TEST

struct touch {
    struct isa_inst inst;
    bool settles;
};

START_TEST(tile_settles_before_it_touches_memory_after_events)
{
    const struct touch rows[] = {{I(LD32_MR_MR_MR_ZIMM12, 0, 10, 15, 0), true},
                                 {I(ST32_MR_MR_MR_ZIMM12, 0, 10, 15, 0), true},
                                 {I(RUNALL_MR_MR_ZIMM16, 0, 10, 0), true},
                                 {I(RUN_MR_MR_ZIMM16, 0, 15, 0), true},
                                 {I(LD64PUTCS_CCSR8, 0), true},
                                 {I(GET_MR_CSR8, 0, CSR_S_INCOMING_DELTA), true},
                                 {I(GET_MR_CSR8, 0, CSR_S_TILE_ID), false},
                                 {I(ADD_MR_MR_SIMM16, 0, 0, 1), false},
                                 {I(BRI_WADDR19, CODE + 12), false}};
    put_word(&p, ipu21_delayxpic(20, 0, 5));
    put(&p, rows[_i].inst);
    put(&p, I(SETZI_MR_ZIMM20, 1, 5));
    put(&p, I(SYNC_ZIMM4, 3));
    put_exit(&p);
    sim_tile_reset(p.tile, CODE, 0);
    sim_tile_set_m(p.tile, 0, 10, DATA);
    sim_tile_set_m(p.tile, 0, 0, CODE + 16);
    enum sim_stop stop = sim_tile_run(p.tile, FOREVER);
    if (rows[_i].settles) {
        ck_assert_int_eq(stop, SIM_STOP_SETTLE);
        ck_assert_uint_eq(sim_tile_pc(p.tile, 0), CODE + 4);
        poke32(&p, DATA, 0x99);
        sim_tile_settled(p.tile);
        sim_tile_exchange(p.tile)->incoming_pointer = 0x1230;
        /* 64-bit coefficient loads need an address; the others go on. */
        if (rows[_i].inst.form == ISA_LD64PUTCS_CCSR8)
            return;
        stop = sim_tile_run(p.tile, FOREVER);
    }
    ck_assert_int_eq(stop, SIM_STOP_SYNC);
    if (_i == 0)
        ck_assert_uint_eq(sim_tile_m(p.tile, 0, 0), 0x99);
    if (_i == 5)
        ck_assert_uint_eq(sim_tile_m(p.tile, 0, 0), 0x1230);
}
END_TEST

/* The supervisor reads exchange words without the instruction table; the table is the oracle here:
 * operands of the text (events - 1, addresses in bytes / 4) against what is logged. */
static const uint16_t row_forms[] = {ISA_DELAY_ZIMM19,
                                     ISA_DELAYPIC_ZIMM7_ZIMM1_ZIMM18,
                                     ISA_DELAYXPIC_ZIMM12_ZIMM1_ZIMM13,
                                     ISA_SEND_ZIMM6_WADDR18_SCTL3,
                                     ISA_SENDOFF_ZIMM12_ZIMM11_SCTL3,
                                     ISA_SENDPIC_ZIMM6_ZIMM2_ZIMM18,
                                     ISA_SENDPICP_ZIMM6_WADDR18_SCTL3_ZIMM1_ZIMM14_ZIMM18};

static struct isa_inst random_row_inst(unsigned form, uint32_t *state)
{
    struct isa_inst inst = {.form = (uint16_t)form};
    for (unsigned i = 0; i < isa_forms[form].operand_count; i++) {
        const struct isa_operand *operand = &isa_forms[form].operands[i];
        *state = *state * 1664525u + 1013904223u;
        uint32_t value = *state >> 12 & ((1u << operand->width) - 1);
        if (operand->kind == ISA_KIND_WADDR)
            value = WIDE + 8 * (value % 1000);
        if (operand->kind == ISA_KIND_SCTL)
            value &= 3;
        inst.operand[i] = (int32_t)value;
    }
    return inst;
}

static void check_control(const struct sim_event *event, enum sim_event_kind kind, int32_t selector,
                          int32_t value, uint32_t slot)
{
    check_event(event, kind, slot, (uint32_t)value);
    ck_assert_uint_eq(event->selector, (unsigned)selector);
}

static void check_row_inst(const struct isa_inst *inst, const struct sim_event *e, size_t count)
{
    const int32_t *o = inst->operand;
    switch (inst->form) {
    case ISA_DELAY_ZIMM19:
        ck_assert_uint_eq(count, 0);
        break;
    case ISA_DELAYPIC_ZIMM7_ZIMM1_ZIMM18:
        check_control(e, SIM_EVENT_PIC, o[1], o[2], (uint32_t)o[0]);
        break;
    case ISA_DELAYXPIC_ZIMM12_ZIMM1_ZIMM13:
        check_control(e, SIM_EVENT_XPIC, o[1], o[2], (uint32_t)o[0]);
        break;
    case ISA_SEND_ZIMM6_WADDR18_SCTL3:
        ck_assert_uint_eq(count, o[2] != 0 ? 1 : 0);
        if (o[2] != 0)
            check_event(e, SIM_EVENT_SEND, 0, (uint32_t)o[1]);
        break;
    case ISA_SENDOFF_ZIMM12_ZIMM11_SCTL3:
        ck_assert_uint_eq(count, o[2] != 0 ? 1 : 0);
        if (o[2] != 0)
            check_event(e, SIM_EVENT_SEND, 0, WIDE + 4 * (uint32_t)o[1]);
        break;
    case ISA_SENDPIC_ZIMM6_ZIMM2_ZIMM18:
        check_control(e, o[1] >= 2 ? SIM_EVENT_PIC : SIM_EVENT_XPIC, o[1] & 1, o[2], 0);
        break;
    default:
        ck_assert_uint_eq(count, o[2] != 0 ? 3 : 2);
        check_control(e, SIM_EVENT_XPIC, o[4] >> 13, o[4] & 0x1fff, 0);
        check_control(e + 1, SIM_EVENT_PIC, o[3], o[5], 0);
        break;
    }
}

START_TEST(every_exchange_form_logs_the_operands_of_the_table)
{
    uint32_t state = 7;
    for (unsigned n = 0; n < 200; n++) {
        struct isa_inst inst = random_row_inst(row_forms[_i], &state);
        p.at = CODE;
        put(&p, inst);
        put(&p, I(SYNC_ZIMM4, 3));
        sim_tile_reset(p.tile, CODE, 0);
        sim_tile_exchange(p.tile)->outgoing_pointer = WIDE;
        ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
        size_t count;
        const struct sim_event *events = sim_tile_events(p.tile, &count);
        check_row_inst(&inst, events, count);
        ck_assert_uint_eq(sim_tile_cycle(p.tile), (uint32_t)inst.operand[0] + 1);
        for (size_t i = 0; i < count; i++)
            if (events[i].kind == SIM_EVENT_SEND)
                ck_assert_uint_eq(events[i].items, (uint32_t)inst.operand[0] + 1);
    }
}
END_TEST

START_TEST(sync_stops_with_its_zone_and_local_does_not)
{
    const int zones[] = {0, 1, 3, 4, 7, 15};
    put(&p, I(SYNC_ZIMM4, 2));
    put(&p, I(SYNC_ZIMM4, zones[_i]));
    put(&p, I(SYNC_ZIMM4, 3));
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_zone(p.tile), (unsigned)zones[_i]);
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 1);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC); /* still waits */
    sim_tile_release(p.tile, 50);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_zone(p.tile), 3);
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 50);
    ck_assert_uint_eq(sim_tile_epoch(p.tile), zones[_i] >= 3 ? 50 : 0);
}
END_TEST

START_TEST(sans_counts_the_syncs_to_sit_out)
{
    put(&p, I(SANS_ZIMM19, 0));
    put(&p, I(SANS_ZIMM19, 1));
    put(&p, I(SYNC_ZIMM4, 1));
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_exchange(p.tile)->ans_count, 3);
}
END_TEST

START_TEST(running_workers_finish_before_a_global_sync_is_reported)
{
    uint32_t worker = CODE + 0x40;
    put(&p, I(SETZI_MR_ZIMM20, 0, (int32_t)worker));
    put(&p, I(RUNALL_MR_MR_ZIMM16, 0, 15, 0));
    put(&p, I(SYNC_ZIMM4, 3));
    p.at = worker;
    put(&p, I(SETZI_MR_ZIMM20, 1, 99));
    put_exit(&p);
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    ck_assert(!sim_tile_worker_active(p.tile, 5));
    ck_assert_uint_eq(sim_tile_m(p.tile, 6, 1), 99);
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 12);
    ck_assert_uint_eq(sim_tile_last_exit(p.tile), 19 + 5 + 6); /* worker 0's second slot */
}
END_TEST

START_TEST(chip_fault_stops_the_tile_with_its_text)
{
    put(&p, I(SYNC_ZIMM4, 3));
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    sim_tile_raise(p.tile, SIM_ETYPE_EXERR, 7, 1234, "paired format while words arrive");
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_FAULT);
    const struct sim_fault *fault = sim_tile_fault(p.tile);
    ck_assert_uint_eq(fault->receive_error, 7);
    ck_assert_uint_eq(fault->cycle, 1234);
    ck_assert_ptr_nonnull(strstr(fault->text, "paired format while words arrive"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tile exchange");
    TCase *tests = tcase_create("rows");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, receiver_row_logs_its_controls_at_their_issue_slots);
    tcase_add_test(tests, sender_row_continues_its_stream);
    tcase_add_test(tests, sendpic_sends_on_and_writes_a_control_at_its_first_event);
    tcase_add_test(tests, sendpicp_writes_both_controls_and_restarts_the_stream);
    tcase_add_test(tests, sendpicp_at_an_odd_word_faults);
    tcase_add_test(tests, paired_send_moves_eight_bytes_an_item);
    tcase_add_test(tests, outgoing_base_is_added_when_the_word_leaves);
    tcase_add_test(tests, receive_registers_are_state_before_a_row_and_events_inside_it);
    tcase_add_loop_test(tests, send_from_the_element_of_its_code_is_a_conflict, 0, 3);
    tcase_add_loop_test(tests, send_outside_sram_faults, 0, 2);
    tcase_add_loop_test(tests, tile_settles_before_it_touches_memory_after_events, 0, 9);
    tcase_add_loop_test(tests, every_exchange_form_logs_the_operands_of_the_table, 0, 7);
    tcase_add_loop_test(tests, sync_stops_with_its_zone_and_local_does_not, 0, 6);
    tcase_add_test(tests, sans_counts_the_syncs_to_sit_out);
    tcase_add_test(tests, running_workers_finish_before_a_global_sync_is_reported);
    tcase_add_test(tests, chip_fault_stops_the_tile_with_its_text);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
