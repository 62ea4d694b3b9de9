/* module: device/sim */
/* Branches, calls, repeats, exits, launches, control registers and illegal instructions. */
#include "device/ipu21/csr.h"
#include "device/ipu21/exchange.h"
#include "device/ipu21/topology.h"
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

/* --- branches --- */

struct branch {
    unsigned form;
    uint32_t value;
    bool taken;
};

START_TEST(conditional_branch_tests_its_register)
{
    const struct branch rows[] = {{ISA_BRZ_MR_WADDR19, 0, true},
                                  {ISA_BRZ_MR_WADDR19, 1, false},
                                  {ISA_BRNZ_MR_WADDR19, 0x80000000, true},
                                  {ISA_BRNZ_MR_WADDR19, 0, false},
                                  {ISA_BRNEG_MR_WADDR19, 0xffffffff, true},
                                  {ISA_BRNEG_MR_WADDR19, 1, false},
                                  {ISA_BRPOS_MR_WADDR19, 0, true},
                                  {ISA_BRPOS_MR_WADDR19, 0x80000000, false}};
    set_m(&p, 0, rows[_i].value);
    put(&p, (struct isa_inst){.form = (uint16_t)rows[_i].form, .operand = {0, CODE + 8}});
    put(&p, I(SETZI_MR_ZIMM20, 1, 1));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 1), rows[_i].taken ? 0 : 1);
}
END_TEST

START_TEST(call_returns_behind_itself)
{
    put(&p, I(CALL_MR_WADDR20, 10, CODE + 12));
    put(&p, I(SETZI_MR_ZIMM20, 1, 1));
    put_exit(&p);
    put(&p, I(SETZI_MR_ZIMM20, 2, 2));
    put(&p, I(BR_MR, 10));
    run_worker_at(&p, 0, CODE);
    ck_assert_uint_eq(m_reg(&p, 10), CODE + 4);
    ck_assert_uint_eq(m_reg(&p, 1), 1);
    ck_assert_uint_eq(m_reg(&p, 2), 2);
}
END_TEST

START_TEST(call_in_a_bundle_returns_behind_the_bundle)
{
    put_bundle(&p, I(CALL_MR_WADDR20, 10, CODE + 16), I(SETZI_AR_ZIMM20, 0, 9));
    put_exit(&p);
    put_word(&p, 0);
    put(&p, I(BR_MR, 10));
    run_worker_at(&p, 0, CODE);
    ck_assert_uint_eq(m_reg(&p, 10), CODE + 8);
    ck_assert_uint_eq(a_reg(&p, 0), 9);
}
END_TEST

START_TEST(brnzdec_leaves_zero_alone)
{
    put(&p, I(BRNZDEC_MR_WADDR19, 0, CODE));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 0), 0);
}
END_TEST

START_TEST(branch_to_a_misaligned_address_is_invalid_pc)
{
    set_m(&p, 0, CODE + 2);
    put(&p, I(BR_MR, 0));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_PC);
}
END_TEST

START_TEST(code_outside_region_0_is_invalid_pc)
{
    const uint32_t targets[] = {0, IPU21_SRAM_BASE - 4, IPU21_REGION1_BASE, IPU21_SRAM_END - 4};
    set_m(&p, 0, targets[_i]);
    put(&p, I(BR_MR, 0));
    const struct sim_fault *fault = run_to_fault(&p);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_INVALID_PC);
    ck_assert_uint_eq(fault->pc, targets[_i]);
}
END_TEST

/* --- repeats --- */

static void put_repeat(uint32_t count)
{
    align8(&p);
    put(&p, I(SETZI_MR_ZIMM20, 14, 0));
    put(&p, I(RPT_ZIMM12_ZIMM8, (int32_t)count, 1));
    put_bundle(&p, I(ADD_MR_MR_SIMM16, 0, 0, 1), I(OR_AR_AR_ZIMM12, 0, 15, 1));
    put_bundle(&p, I(ADD_MR_MR_SIMM16, 1, 1, 2), I(OR_AR_AR_ZIMM12, 0, 15, 2));
    put(&p, I(ADD_MR_MR_SIMM16, 2, 2, 1));
}

START_TEST(repeat_runs_its_body_count_times_and_goes_on)
{
    uint32_t count = (uint32_t)_i;
    put_repeat(count);
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 0), count);
    ck_assert_uint_eq(m_reg(&p, 1), 2 * count);
    ck_assert_uint_eq(m_reg(&p, 2), 1);
}
END_TEST

START_TEST(repeat_count_in_a_register_has_16_bits)
{
    set_m(&p, 3, 0x10003);
    align8(&p);
    put_bundle(&p, I(RPT_MR_ZIMM8, 3, 0), I(SETZI_AR_ZIMM20, 1, 5));
    put_bundle(&p, I(ADD_MR_MR_SIMM16, 0, 0, 1), I(SETZI_AR_ZIMM20, 0, 1));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 0), 3);
    ck_assert_uint_eq(a_reg(&p, 1), 5);
}
END_TEST

START_TEST(repeat_body_at_odd_word_is_invalid_instr)
{
    align8(&p);
    put(&p, I(RPT_ZIMM12_ZIMM8, 2, 0));
    put_bundle(&p, I(ADD_MR_MR_SIMM16, 0, 0, 1), I(SETZI_AR_ZIMM20, 0, 1));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_INSTR);
}
END_TEST

START_TEST(repeat_body_refuses_lone_words_control_and_system)
{
    align8(&p);
    put(&p, I(SETZI_MR_ZIMM20, 14, 0));
    put(&p, I(RPT_ZIMM12_ZIMM8, 2, 0));
    switch (_i) {
    case 0:
        put(&p, I(SETZI_MR_ZIMM20, 0, 0));
        put(&p, I(SETZI_MR_ZIMM20, 0, 0));
        break;
    case 1:
        put_bundle(&p, I(BRNZ_MR_WADDR19, 15, CODE), I(SETZI_AR_ZIMM20, 0, 1));
        break;
    case 2:
        put_bundle(&p, I(RPT_ZIMM12_ZIMM8, 1, 0), I(SETZI_AR_ZIMM20, 0, 1));
        break;
    case 3:
        put_bundle(&p, I(GET_MR_CSR8, 0, 1), I(SETZI_AR_ZIMM20, 0, 1));
        break;
    default:
        put_bundle(&p, I(SETZI_MR_ZIMM20, 0, 1), I(UGET_AR_UCSR8, 0, 0));
        break;
    }
    const struct sim_fault *fault = run_to_fault(&p);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_INVALID_INSTR);
    ck_assert_ptr_nonnull(strstr(fault->text, "rpt body"));
    /* WSR.ERPT marks an exception inside a repeat. */
}
END_TEST

START_TEST(repeat_survives_a_cycle_limit_in_its_middle)
{
    put_repeat(1000);
    put_exit(&p);
    sim_tile_start_worker(p.tile, 0, CODE, DATA);
    for (uint64_t limit = 100; sim_tile_run(p.tile, limit) == SIM_STOP_LIMIT; limit += 97)
        ck_assert_uint_lt(limit, 100000);
    ck_assert_uint_eq(m_reg(&p, 0), 1000);
    ck_assert_uint_eq(m_reg(&p, 1), 2000);
}
END_TEST

/* --- illegal instructions --- */

START_TEST(undefined_word_is_invalid_instr)
{
    const uint32_t words[] = {0x7fffffff, 0x5fffffff, 0x42006000};
    put_word(&p, words[_i]);
    const struct sim_fault *fault = run_to_fault(&p);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_INVALID_INSTR);
    ck_assert_uint_eq(fault->pc, CODE);
    ck_assert_uint_eq(fault->context, 1);
}
END_TEST

START_TEST(bundle_without_second_bundle_bit_is_invalid_instr)
{
    uint32_t words[2];
    struct isa_inst inst = I(ADD_MR_MR_SIMM16, 0, 0, 1);
    ck_assert(isa_encode(&inst, true, words));
    put_word(&p, words[0]);
    put(&p, I(SETZI_AR_ZIMM20, 0, 1));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_INSTR);
}
END_TEST

START_TEST(worker_refuses_supervisor_instructions)
{
    put(&p, _i == 0 ? I(SYNC_ZIMM4, 3) : I(DELAY_ZIMM19, 3));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_INSTR);
}
END_TEST

START_TEST(supervisor_refuses_aux_lane_bundles_and_worker_instructions)
{
    if (_i == 0)
        put(&p, I(SETZI_AR_ZIMM20, 0, 1));
    else if (_i == 1)
        put_bundle(&p, I(SETZI_MR_ZIMM20, 0, 1), I(SETZI_AR_ZIMM20, 0, 1));
    else
        put_exit(&p);
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_FAULT);
    const struct sim_fault *fault = sim_tile_fault(p.tile);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_INVALID_INSTR);
    ck_assert_uint_eq(fault->context, 0);
    ck_assert_uint_eq(fault->tile, 7);
}
END_TEST

START_TEST(trap_stops_on_itself_with_a_patched_breakpoint)
{
    const int numbers[] = {0, 1, 15};
    put(&p, I(TRAP_ZIMM4, numbers[_i]));
    const struct sim_fault *fault = run_to_fault(&p);
    ck_assert_int_eq(fault->etype, numbers[_i] == 1 ? SIM_ETYPE_PBRK1 : SIM_ETYPE_PBRK0);
    ck_assert_uint_eq(fault->pc, CODE);
}
END_TEST

/* --- launches and exits --- */

enum { WORKER = CODE + 0x100 };

static enum sim_stop launch(struct isa_inst run, uint32_t base)
{
    put(&p, run);
    put(&p, I(SYNC_ZIMM4, 2));
    put(&p, I(GET_MR_CSR8, 5, CSR_S_SSR));
    put(&p, I(SYNC_ZIMM4, 3));
    sim_tile_reset(p.tile, CODE, 0);
    sim_tile_set_m(p.tile, 0, 0, WORKER);
    sim_tile_set_m(p.tile, 0, 1, base);
    return sim_tile_run(p.tile, FOREVER);
}

START_TEST(runall_gives_each_worker_its_vertex_base)
{
    p.at = WORKER;
    put(&p, I(OR_MR_MR_MR, 0, 13, 15));
    put(&p, I(GET_MR_CSR8, 1, CSR_W_VERTEX_BASE));
    put(&p, I(GET_MR_CSR8, 2, CSR_W_WSR));
    put_exit(&p);
    p.at = CODE;
    ck_assert_int_eq(launch(I(RUNALL_MR_MR_ZIMM16, 0, 1, 0x1234), DATA), SIM_STOP_SYNC);
    for (unsigned w = 0; w < 6; w++) {
        ck_assert_uint_eq(sim_tile_m(p.tile, w + 1, 0), DATA + w * 4 * 0x1234);
        ck_assert_uint_eq(sim_tile_m(p.tile, w + 1, 1), DATA + w * 4 * 0x1234);
        ck_assert_uint_eq(sim_tile_m(p.tile, w + 1, 2) & 7, w);
    }
}
END_TEST

START_TEST(run_adds_the_region_base_and_takes_the_lowest_idle_worker)
{
    p.at = WORKER;
    put(&p, I(OR_MR_MR_MR, 0, 13, 15));
    put_exit(&p);
    p.at = CODE;
    put(&p, I(RUN_MR_MR_ZIMM16, 0, 1, 3));
    ck_assert_int_eq(launch(I(RUN_MR_MR_ZIMM16, 0, 1, 5), 0x100), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_m(p.tile, 1, 0), IPU21_SRAM_BASE + 0x100 + 12);
    ck_assert_uint_eq(sim_tile_m(p.tile, 2, 0), IPU21_SRAM_BASE + 0x100 + 20);
    ck_assert_uint_eq(sim_tile_m(p.tile, 3, 0), 0);
}
END_TEST

START_TEST(launch_refuses_bad_entries_and_bases)
{
    const uint32_t entries[] = {WORKER + 2, IPU21_REGION1_BASE, WORKER};
    put(&p, I(RUNALL_MR_MR_ZIMM16, 0, 1, 0));
    sim_tile_reset(p.tile, CODE, 0);
    sim_tile_set_m(p.tile, 0, 0, entries[_i]);
    sim_tile_set_m(p.tile, 0, 1, DATA + 2);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_FAULT);
    ck_assert_int_eq(sim_tile_fault(p.tile)->etype,
                     _i == 2 ? SIM_ETYPE_INVALID_ADDR : SIM_ETYPE_INVALID_PC);
}
END_TEST

START_TEST(runall_over_an_active_worker_faults)
{
    p.at = WORKER;
    for (int i = 0; i < 40; i++)
        put(&p, I(SETZI_MR_ZIMM20, 1, i));
    put_exit(&p);
    p.at = CODE;
    put(&p, I(RUN_MR_MR_ZIMM16, 0, 1, 0));
    ck_assert_int_eq(launch(I(RUNALL_MR_MR_ZIMM16, 0, 1, 0), 0x100), SIM_STOP_FAULT);
    ck_assert_ptr_nonnull(strstr(sim_tile_fault(p.tile)->text, "idle"));
}
END_TEST

START_TEST(registers_survive_a_launch_and_fp_state_is_fresh)
{
    p.at = WORKER;
    put(&p, I(UGET_AR_UCSR8, 0, CSR_W_FP_CTL - CSR_UPPER_BASE));
    put(&p, I(UGET_AR_UCSR8, 1, CSR_W_FP_STS - CSR_UPPER_BASE));
    put(&p, I(ADD_MR_MR_SIMM16, 7, 7, 1));
    put_exit(&p);
    p.at = CODE;
    put(&p, I(SETZI_MR_ZIMM20, 3, 0x80000));
    put(&p, I(PUT_CSR8_MR, CSR_S_FP_ICTL, 3));
    put(&p, I(RUNALL_MR_MR_ZIMM16, 0, 1, 0));
    put(&p, I(SYNC_ZIMM4, 2));
    ck_assert_int_eq(launch(I(RUNALL_MR_MR_ZIMM16, 0, 1, 0), DATA), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_a(p.tile, 5, 0), 0x80000);
    ck_assert_uint_eq(sim_tile_a(p.tile, 5, 1), 0);
    ck_assert_uint_eq(sim_tile_m(p.tile, 6, 7), 2);
}
END_TEST

START_TEST(exit_statuses_meet_in_the_local_consensus)
{
    const unsigned forms[] = {ISA_EXITZ_MR, ISA_EXITNZ_MR, ISA_EXITPOS_MR, ISA_EXITNEG_MR};
    /* Workers test their number minus 2: not all have the same status. */
    p.at = WORKER;
    put(&p, _i < 4 ? I(SETZI_MR_ZIMM20, 0, 0) : I(GET_MR_CSR8, 0, CSR_W_WSR));
    put(&p, I(AND_MR_MR_ZIMM12, 0, 0, 7));
    put(&p, (struct isa_inst){.form = (uint16_t)forms[_i % 4], .operand = {0}});
    p.at = CODE;
    ck_assert_int_eq(launch(I(RUNALL_MR_MR_ZIMM16, 0, 1, 0), DATA), SIM_STOP_SYNC);
    const bool all[] = {true, false, true, false, false, false, true, false};
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 5) & 1, all[_i] ? 1 : 0);
}
END_TEST

START_TEST(worker_base_is_set_by_the_supervisor)
{
    p.at = WORKER;
    put(&p, I(OR_MR_MR_MR, 0, 12, 15));
    put(&p, I(GET_MR_CSR8, 1, CSR_W_WORKER_BASE));
    put_exit(&p);
    p.at = CODE;
    put(&p, I(SETZI_MR_ZIMM20, 3, DATA + 0x100));
    put(&p, I(PUT_CSR8_MR, CSR_S_WORKER0_BASE + 1, 3));
    ck_assert_int_eq(launch(I(RUNALL_MR_MR_ZIMM16, 0, 1, 0), DATA), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_m(p.tile, 2, 0), DATA + 0x100);
    ck_assert_uint_eq(sim_tile_m(p.tile, 2, 1), DATA + 0x100);
    ck_assert_uint_eq(sim_tile_m(p.tile, 3, 0), 0);
}
END_TEST

START_TEST(workers_see_supervisor_stores_in_time_order)
{
    /* The worker samples memory once early and once late; the supervisor stores in between. */
    p.at = WORKER;
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 0, 13, 15, 0));
    for (int i = 0; i < 20; i++)
        put(&p, I(SETZI_MR_ZIMM20, 2, i));
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 1, 13, 15, 0));
    put_exit(&p);
    p.at = CODE;
    put(&p, I(SETZI_MR_ZIMM20, 3, DATA));
    put(&p, I(SETZI_MR_ZIMM20, 4, 99));
    put(&p, I(RUN_MR_MR_ZIMM16, 0, 1, 0));
    for (int i = 0; i < 30; i++)
        put(&p, I(SETZI_MR_ZIMM20, 6, i));
    put(&p, I(ST32_MR_MR_MR_ZIMM12, 4, 3, 15, 0));
    ck_assert_int_eq(launch(I(SETZI_MR_ZIMM20, 6, 0), DATA - IPU21_SRAM_BASE), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_m(p.tile, 1, 0), 0);
    ck_assert_uint_eq(sim_tile_m(p.tile, 1, 1), 99);
}
END_TEST

START_TEST(earliest_fault_of_several_workers_is_reported)
{
    /* Worker w loads from 0 after 10 - w or 10 + w passes: worker 5 or worker 0 faults first. */
    p.at = WORKER;
    put(&p, I(GET_MR_CSR8, 0, CSR_W_WSR));
    put(&p, _i == 0 ? I(SUB_MR_SIMM16_MR, 0, 10, 0) : I(ADD_MR_MR_SIMM16, 0, 0, 10));
    put(&p, I(BRNZDEC_MR_WADDR19, 0, WORKER + 8));
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 0, 15, 15, 0));
    p.at = CODE;
    ck_assert_int_eq(launch(I(RUNALL_MR_MR_ZIMM16, 0, 1, 0), DATA), SIM_STOP_FAULT);
    ck_assert_uint_eq(sim_tile_fault(p.tile)->context, _i == 0 ? 6 : 1);
    ck_assert_int_eq(sim_tile_fault(p.tile)->etype, SIM_ETYPE_INVALID_ADDR);
}
END_TEST

/* --- control registers --- */

START_TEST(illegal_csr_index_is_invalid_op)
{
    put(&p, _i == 0   ? I(GET_MR_CSR8, 0, 0x55)
            : _i == 1 ? I(PUT_CSR8_MR, 0x60, 0)
                      : I(UGET_AR_UCSR8, 0, 0x50));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_OP);
}
END_TEST

START_TEST(supervisor_registers_read_back)
{
    const unsigned index[] = {CSR_S_FP_ICTL,       CSR_S_CCCSLOAD,        CSR_S_INCOMING_MUX,
                              CSR_S_OUTGOING_BASE, CSR_S_INCOMING_DCOUNT, CSR_C_DBG_DATA};
    put(&p, I(SETZI_MR_ZIMM20, 0, 0x80000 | 4));
    put(&p, I(PUT_CSR8_MR, (int32_t)index[_i], 0));
    put(&p, I(GET_MR_CSR8, 1, (int32_t)index[_i]));
    put(&p, I(SYNC_ZIMM4, 3));
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    uint32_t mask = index[_i] == CSR_S_INCOMING_DCOUNT ? 0x1ffff : 0xfffff;
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 1), (0x80000 | 4) & mask);
}
END_TEST

START_TEST(tile_id_reads_the_physical_id)
{
    put(&p, I(GET_MR_CSR8, 1, CSR_S_TILE_ID));
    put(&p, I(SYNC_ZIMM4, 3));
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 1), ipu21_physical(7));
}
END_TEST

START_TEST(uput_and_uget_reach_the_worker_registers)
{
    const unsigned index[] = {CSR_W_TAS, CSR_W_FP_SCL, CSR_W_PRNG_0_1, CSR_W_PRNG_1_0};
    set_a(&p, 0, 0x2b);
    put(&p, I(UPUT_UCSR8_AR, (int32_t)(index[_i] - CSR_UPPER_BASE), 0));
    put(&p, I(UGET_AR_UCSR8, 1, (int32_t)(index[_i] - CSR_UPPER_BASE)));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 1), 0x2b);
}
END_TEST

START_TEST(prng_seed_expands_into_the_state)
{
    uint32_t v = 0x12345678;
    set_a(&p, 0, v);
    put(&p, I(UPUT_UCSR8_AR, 7, 0));
    for (int i = 0; i < 4; i++)
        put(&p, I(UGET_AR_UCSR8, 1 + i, 3 + i));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 1), v);
    ck_assert_uint_eq(a_reg(&p, 2), ~v);
    ck_assert_uint_eq(a_reg(&p, 3), v << 13 | ~v >> 19);
    ck_assert_uint_eq(a_reg(&p, 4), ~v << 13 | v >> 19);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control");
    TCase *flow = tcase_create("flow");
    tcase_add_checked_fixture(flow, setup, teardown);
    tcase_add_loop_test(flow, conditional_branch_tests_its_register, 0, 8);
    tcase_add_test(flow, call_returns_behind_itself);
    tcase_add_test(flow, call_in_a_bundle_returns_behind_the_bundle);
    tcase_add_test(flow, brnzdec_leaves_zero_alone);
    tcase_add_test(flow, branch_to_a_misaligned_address_is_invalid_pc);
    tcase_add_loop_test(flow, code_outside_region_0_is_invalid_pc, 0, 4);
    tcase_add_loop_test(flow, repeat_runs_its_body_count_times_and_goes_on, 0, 4);
    tcase_add_test(flow, repeat_count_in_a_register_has_16_bits);
    tcase_add_test(flow, repeat_body_at_odd_word_is_invalid_instr);
    tcase_add_loop_test(flow, repeat_body_refuses_lone_words_control_and_system, 0, 5);
    tcase_add_test(flow, repeat_survives_a_cycle_limit_in_its_middle);
    tcase_add_loop_test(flow, undefined_word_is_invalid_instr, 0, 3);
    tcase_add_test(flow, bundle_without_second_bundle_bit_is_invalid_instr);
    tcase_add_loop_test(flow, worker_refuses_supervisor_instructions, 0, 2);
    tcase_add_loop_test(flow, supervisor_refuses_aux_lane_bundles_and_worker_instructions, 0, 3);
    tcase_add_loop_test(flow, trap_stops_on_itself_with_a_patched_breakpoint, 0, 3);
    suite_add_tcase(suite, flow);
    TCase *launches = tcase_create("launches");
    tcase_add_checked_fixture(launches, setup, teardown);
    tcase_add_test(launches, runall_gives_each_worker_its_vertex_base);
    tcase_add_test(launches, run_adds_the_region_base_and_takes_the_lowest_idle_worker);
    tcase_add_loop_test(launches, launch_refuses_bad_entries_and_bases, 0, 3);
    tcase_add_test(launches, runall_over_an_active_worker_faults);
    tcase_add_test(launches, registers_survive_a_launch_and_fp_state_is_fresh);
    tcase_add_loop_test(launches, exit_statuses_meet_in_the_local_consensus, 0, 8);
    tcase_add_test(launches, worker_base_is_set_by_the_supervisor);
    tcase_add_test(launches, workers_see_supervisor_stores_in_time_order);
    tcase_add_loop_test(launches, earliest_fault_of_several_workers_is_reported, 0, 2);
    suite_add_tcase(suite, launches);
    TCase *csrs = tcase_create("control registers");
    tcase_add_checked_fixture(csrs, setup, teardown);
    tcase_add_loop_test(csrs, illegal_csr_index_is_invalid_op, 0, 3);
    tcase_add_loop_test(csrs, supervisor_registers_read_back, 0, 6);
    tcase_add_test(csrs, tile_id_reads_the_physical_id);
    tcase_add_loop_test(csrs, uput_and_uget_reach_the_worker_registers, 0, 4);
    tcase_add_test(csrs, prng_seed_expands_into_the_state);
    suite_add_tcase(suite, csrs);
    return run_suite(suite);
}
