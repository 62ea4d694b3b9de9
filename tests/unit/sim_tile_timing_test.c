/* module: device/sim */
/* Cycle anchors of facts/timing_isa.md and facts/timing.md: what a supervisor and workers cost. */
#include "device/ipu21/exchange.h"
#include "device/ipu21/timing.h"
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

/* Arrival of a final `sync 3`: the cycles that the program before it took. */
static uint64_t supervisor_cycles(void)
{
    put(&p, I(SYNC_ZIMM4, 3));
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_zone(p.tile), 3);
    return sim_tile_cycle(p.tile);
}

START_TEST(independent_supervisor_instructions_take_one_cycle)
{
    for (int i = 0; i < 5; i++)
        put(&p, I(SETZI_MR_ZIMM20, i, 3));
    ck_assert_uint_eq(supervisor_cycles(), 5);
}
END_TEST

START_TEST(dependent_chain_load_shift_shift_store_takes_19_cycles)
{
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 0, 10, 15, 0));
    put(&p, I(SHL_MR_MR_ZIMM12, 1, 0, 4));
    put(&p, I(SHR_MR_MR_ZIMM12, 2, 1, 4));
    put(&p, I(ST32_MR_MR_MR_ZIMM12, 2, 10, 15, 1));
    put(&p, I(SYNC_ZIMM4, 3));
    poke32(&p, DATA, 0x12345678);
    sim_tile_reset(p.tile, CODE, 0);
    sim_tile_set_m(p.tile, 0, 10, DATA);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 19);
    ck_assert_uint_eq(peek32(&p, DATA + 4), 0x02345678);
}
END_TEST

START_TEST(taken_branch_takes_6_cycles_and_untaken_1)
{
    put(&p, I(BRZ_MR_WADDR19, 15, CODE + 8));
    put(&p, I(TRAP_ZIMM4, 0));
    put(&p, I(BRNZ_MR_WADDR19, 15, CODE));
    ck_assert_uint_eq(supervisor_cycles(), 7);
}
END_TEST

START_TEST(brnzdec_loop_of_n_passes_takes_6_n_minus_1_plus_1)
{
    put(&p, I(SETZI_MR_ZIMM20, 0, 9)); /* ten passes */
    for (int i = 0; i < 5; i++)
        put(&p, I(SETZI_MR_ZIMM20, 1, 0));
    put(&p, I(BRNZDEC_MR_WADDR19, 0, CODE + 24));
    ck_assert_uint_eq(supervisor_cycles(), 6 + 6 * 9 + 1);
}
END_TEST

/* Two dependent loads, a dependent add and store, a count and a dependent branch: 31 cycles a word
 * (facts/exchange.md section 10). */
START_TEST(patch_loop_takes_31_cycles_a_word)
{
    enum { WORDS = 64 };
    uint32_t loop = CODE + 3 * 4;
    put(&p, I(SETZI_MR_ZIMM20, 3, DATA));
    put(&p, I(SETZI_MR_ZIMM20, 4, 8));
    put(&p, I(SETZI_MR_ZIMM20, 2, WORDS));
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 0, 3, 15, 0));
    put(&p, I(ADD_MR_MR_SIMM16, 3, 3, 4));
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 1, 0, 15, 0));
    put(&p, I(ADD_MR_MR_MR, 1, 1, 4));
    put(&p, I(ST32_MR_MR_MR_ZIMM12, 1, 0, 15, 0));
    put(&p, I(ADD_MR_MR_SIMM16, 2, 2, -1));
    put(&p, I(BRNZ_MR_WADDR19, 2, (int32_t)loop));
    for (uint32_t i = 0; i < WORDS; i++)
        poke32(&p, DATA + 4 * i, WIDE + 4 * i);
    uint64_t cycles = supervisor_cycles();
    ck_assert_uint_eq(peek32(&p, WIDE + 4 * (WORDS - 1)), 8);
    /* Three setzi, one wait for the first use, no taken branch at the end. */
    ck_assert_uint_ge(cycles, 31 * WORDS);
    ck_assert_uint_le(cycles, 31 * WORDS + 6);
}
END_TEST

START_TEST(put_takes_6_and_a_base_put_13)
{
    put(&p, I(PUT_CSR8_MR, 0x50, 15));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_OUTGOING_BASE, 15));
    ck_assert_uint_eq(supervisor_cycles(), 6 + 13);
}
END_TEST

START_TEST(setzi_put_put_of_bases_takes_27_as_measured)
{
    put(&p, I(SETZI_MR_ZIMM20, 8, 0x60000));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_INCOMING_BASE, 8));
    put(&p, I(PUT_CSR8_MR, IPU21_CSR_OUTGOING_BASE, 15));
    ck_assert_uint_eq(supervisor_cycles(), 27);
}
END_TEST

START_TEST(coefficient_loads_take_one_cycle_each)
{
    put(&p, I(PUT_CSR8_MR, 0x50, 10));
    for (int i = 0; i < 32; i++)
        put(&p, I(LD128PUTCS_CCSR8, 2 * i));
    put(&p, I(SYNC_ZIMM4, 3));
    sim_tile_reset(p.tile, CODE, 0);
    sim_tile_set_m(p.tile, 0, 10, WIDE);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 6 + 32);
}
END_TEST

/* setzi, runall, six exits at once, sync: launch 13, consecutive slots, join 13 after the last. */
START_TEST(empty_launch_and_join_takes_37_cycles)
{
    uint32_t worker = CODE + 4 * 4;
    put(&p, I(SETZI_MR_ZIMM20, 0, (int32_t)worker));
    put(&p, I(RUNALL_MR_MR_ZIMM16, 0, 15, 0));
    put(&p, I(SYNC_ZIMM4, 2));
    put(&p, I(SYNC_ZIMM4, 3));
    put_exit(&p);
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    /* runall issues in cycle 6 (its operand), the exits in 19..24, the supervisor goes on in 37. */
    ck_assert_uint_eq(sim_tile_cycle(p.tile), 37);
}
END_TEST

START_TEST(worker_bundle_loop_takes_6_cycles_a_group)
{
    enum { COUNT = 100 };
    uint32_t worker = CODE + 5 * 4;
    put(&p, I(SETZI_MR_ZIMM20, 0, (int32_t)worker));
    put(&p, I(SETZI_MR_ZIMM20, 1, DATA));
    put(&p, I(RUNALL_MR_MR_ZIMM16, 0, 1, 0));
    put(&p, I(SYNC_ZIMM4, 2));
    put(&p, I(SYNC_ZIMM4, 3));
    /* worker: group of six between two counter samples of worker 0 */
    put(&p, I(GET_MR_CSR8, 0, 0x60));
    align8(&p);
    put(&p, I(SETZI_MR_ZIMM20, 2, 0));
    put(&p, I(RPT_ZIMM12_ZIMM8, COUNT, 1));
    put_bundle(&p, I(ADD_MR_MR_SIMM16, 3, 3, 1), I(F32ADD_AR_AR_AR, 0, 1, 2));
    put_bundle(&p, I(ADD_MR_MR_SIMM16, 3, 3, 1), I(F32ADD_AR_AR_AR, 0, 1, 2));
    put(&p, I(GET_MR_CSR8, 1, 0x60));
    put(&p, I(ADD_MR_MR_SIMM16, 1, 1, 0));
    put(&p, I(SUB_MR_MR_MR, 0, 1, 0));
    put_exit(&p);
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    for (unsigned w = 1; w <= 6; w++) {
        uint32_t groups = sim_tile_m(p.tile, w, 0) / 6;
        ck_assert_uint_eq(sim_tile_m(p.tile, w, 0) % 6, 0);
        ck_assert_uint_ge(groups, 2 * COUNT + 3);
        ck_assert_uint_le(groups, 2 * COUNT + 4);
        ck_assert_uint_eq(sim_tile_m(p.tile, w, 3), 2 * COUNT);
    }
}
END_TEST

struct slots {
    struct isa_inst inst;
    unsigned slots;
};

START_TEST(multi_slot_instructions_take_their_slots)
{
    const struct slots table[] = {
        {I(F32DIV_AR_AR_AR, 0, 1, 2), 3}, {I(F32LN_AR_AR, 0, 1), 6},
        {I(F32LOG2_AR_AR, 0, 1), 6},      {I(F32EXP_AR_AR, 0, 1), 3},
        {I(F32EXP2_AR_AR, 0, 1), 3},      {I(F32TANH_AR_AR, 0, 1), 5},
        {I(F32SIGM_AR_AR, 0, 1), 5},      {I(F16V2LN_AR_AR, 0, 1), 2},
        {I(F16V2EXP_AR_AR, 0, 1), 1},     {I(F16V2TANH_AR_AR, 0, 1), 1},
        {I(F16V2SIGM_AR_AR, 0, 1), 2},    {I(F32MUL_AR_AR_AR, 0, 1, 2), 1}};
    struct slots row = table[_i];
    put(&p, I(GET_MR_CSR8, 0, 0x60));
    put(&p, row.inst);
    put(&p, I(GET_MR_CSR8, 1, 0x60));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 1) - m_reg(&p, 0), 6 * (1 + row.slots));
}
END_TEST

START_TEST(worker_slots_follow_the_worker_number)
{
    for (unsigned w = 0; w < 6; w++) {
        p.at = CODE;
        put(&p, I(GET_MR_CSR8, 0, 0x60));
        put_exit(&p);
        run_worker_at(&p, w, CODE);
        ck_assert_uint_eq(sim_tile_m(p.tile, w + 1, 0) % 6, w);
    }
}
END_TEST

START_TEST(supervisor_gets_only_the_slots_that_workers_leave)
{
    /* One worker counts to itself; twelve supervisor instructions then take 12 * 6/5 cycles. */
    uint32_t worker = CODE + 4 * 32;
    put(&p, I(SETZI_MR_ZIMM20, 0, (int32_t)worker));
    put(&p, I(SETZI_MR_ZIMM20, 2, 0));
    put(&p, I(RUN_MR_MR_ZIMM16, 0, 15, 0));
    for (int i = 0; i < 12; i++)
        put(&p, I(SETZI_MR_ZIMM20, 3, i));
    put(&p, I(GET_MR_CSR8, 4, 0x60));
    put(&p, I(SYNC_ZIMM4, 3));
    p.at = worker;
    for (int i = 0; i < 20; i++)
        put(&p, I(SETZI_MR_ZIMM20, 1, i));
    put_exit(&p);
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    /* run issues in 6, the first setzi in 13 (12 is worker 0's), the get 12 free slots later. */
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 4), 13 + 12 + 2);
}
END_TEST

START_TEST(supervisor_waits_while_all_six_workers_run)
{
    uint32_t worker = CODE + 4 * 8;
    put(&p, I(SETZI_MR_ZIMM20, 0, (int32_t)worker));
    put(&p, I(RUNALL_MR_MR_ZIMM16, 0, 15, 0));
    put(&p, I(GET_MR_CSR8, 4, 0x60));
    put(&p, I(SYNC_ZIMM4, 3));
    p.at = worker;
    for (int i = 0; i < 10; i++)
        put(&p, I(SETZI_MR_ZIMM20, 1, i));
    put_exit(&p);
    ck_assert_int_eq(run_supervisor(&p), SIM_STOP_SYNC);
    /* Workers 1..5 start in 19..23, worker 0 in 24; worker 1 exits first, in 19 + 60, and its next
     * slot, 85, is free; 80 to 84 belong to the others, which exit there. */
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 4), 85);
}
END_TEST

START_TEST(limit_stops_an_endless_worker_and_an_endless_supervisor)
{
    put(&p, I(BRI_WADDR19, CODE));
    sim_tile_start_worker(p.tile, 0, CODE, DATA);
    ck_assert_int_eq(sim_tile_run(p.tile, 6000), SIM_STOP_LIMIT);
    ck_assert_uint_eq(sim_tile_bundles(p.tile), 1000);
    sim_tile_reset(p.tile, CODE, 0);
    ck_assert_int_eq(sim_tile_run(p.tile, 600), SIM_STOP_LIMIT);
    ck_assert_uint_eq(sim_tile_bundles(p.tile), 100);
}
END_TEST

START_TEST(counters_of_supervisor_and_workers_read_the_chip_cycle)
{
    put(&p, I(GET_MR_CSR8, 0, 0x60));
    put(&p, I(GET_MR_CSR8, 1, 0x61));
    put(&p, I(SYNC_ZIMM4, 3));
    sim_tile_reset(p.tile, CODE, 0x500000010u);
    ck_assert_int_eq(sim_tile_run(p.tile, UINT64_MAX), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 0), 0x10);
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 1), 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tile timing");
    TCase *tests = tcase_create("anchors");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, independent_supervisor_instructions_take_one_cycle);
    tcase_add_test(tests, dependent_chain_load_shift_shift_store_takes_19_cycles);
    tcase_add_test(tests, taken_branch_takes_6_cycles_and_untaken_1);
    tcase_add_test(tests, brnzdec_loop_of_n_passes_takes_6_n_minus_1_plus_1);
    tcase_add_test(tests, patch_loop_takes_31_cycles_a_word);
    tcase_add_test(tests, put_takes_6_and_a_base_put_13);
    tcase_add_test(tests, setzi_put_put_of_bases_takes_27_as_measured);
    tcase_add_test(tests, coefficient_loads_take_one_cycle_each);
    tcase_add_test(tests, empty_launch_and_join_takes_37_cycles);
    tcase_add_test(tests, worker_bundle_loop_takes_6_cycles_a_group);
    tcase_add_loop_test(tests, multi_slot_instructions_take_their_slots, 0, 12);
    tcase_add_test(tests, worker_slots_follow_the_worker_number);
    tcase_add_test(tests, supervisor_gets_only_the_slots_that_workers_leave);
    tcase_add_test(tests, supervisor_waits_while_all_six_workers_run);
    tcase_add_test(tests, limit_stops_an_endless_worker_and_an_endless_supervisor);
    tcase_add_test(tests, counters_of_supervisor_and_workers_read_the_chip_cycle);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
