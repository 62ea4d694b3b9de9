/* module: device/sim */
/* What the halves of a bundle see of each other, and what a fault leaves behind. */
#include "tests/unit/sim_program.h"

#include "device/ipu21/csr.h"

static struct program p;

static void setup(void)
{
    program_open(&p);
}

static void teardown(void)
{
    program_close(&p);
}

/* The load waits for the aux half, which reads its destination and drops its own result. */
START_TEST(dropped_aux_result_does_not_disturb_a_load)
{
    poke64(&p, DATA, 0x1111222233334444);
    set_m(&p, 2, DATA);
    set_a(&p, 4, 0x3c003c00);
    set_a(&p, 5, 0x40004000);
    put_bundle(&p, I(LD64_ARPAIR_MR_MR_ZIMM12, 4, 2, 15, 0), I(F16V4SUM_ARPAIR_ARPAIR, 14, 4));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 4), 0x33334444);
    ck_assert_uint_eq(a_reg(&p, 5), 0x11112222);
}
END_TEST

START_TEST(faulting_load_leaves_its_destination)
{
    set_m(&p, 2, DATA + 4);
    set_a(&p, 4, 7);
    set_a(&p, 5, 8);
    put_bundle(&p, I(LD64_ARPAIR_MR_MR_ZIMM12, 4, 2, 15, 0), I(F16V4SUM_ARPAIR_ARPAIR, 6, 4));
    const struct sim_fault *fault = run_to_fault(&p);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_INVALID_ADDR);
    ck_assert_uint_eq(a_reg(&p, 4), 7);
    ck_assert_uint_eq(a_reg(&p, 5), 8);
    ck_assert_uint_eq(a_reg(&p, 6), 0);
}
END_TEST

START_TEST(repeat_registers_tell_the_latest_body)
{
    put(&p, I(SETZI_MR_ZIMM20, 14, 0));
    put(&p, I(RPT_ZIMM12_ZIMM8, 3, 1));
    uint32_t body = p.at;
    for (unsigned i = 0; i < 2; i++)
        put_bundle(&p, I(ADD_MR_MR_SIMM16, 3, 3, 1), I(NOT_AR_AR, 2, 2));
    put(&p, I(GET_MR_CSR8, 4, CSR_W_REPEAT_COUNT));
    put(&p, I(GET_MR_CSR8, 5, CSR_W_REPEAT_FIRST));
    put(&p, I(GET_MR_CSR8, 6, CSR_W_REPEAT_END));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 3), 6);
    ck_assert_uint_eq(m_reg(&p, 4), 0);
    ck_assert_uint_eq(m_reg(&p, 5), body);
    ck_assert_uint_eq(m_reg(&p, 6), body + 16);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_bundle");
    TCase *tcase = tcase_create("bundle");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, dropped_aux_result_does_not_disturb_a_load);
    tcase_add_test(tcase, faulting_load_leaves_its_destination);
    tcase_add_test(tcase, repeat_registers_tell_the_latest_body);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
