/* module: device/sim */
/* Decoded code: shared between tiles with equal bytes, dropped when bytes change. */
#include "device/sim/core.h"
#include "tests/unit/sim_program.h"

#include <pthread.h>

static struct program p;

static void setup(void)
{
    program_open(&p);
}

static void teardown(void)
{
    program_close(&p);
}

START_TEST(tiles_with_equal_code_share_one_page)
{
    struct program q;
    program_open(&q);
    struct sim_code *code = sim_code_create(SIM_PATH_BEST);
    sim_tile_share(p.tile, code);
    sim_tile_share(q.tile, code);
    put(&p, I(SETZI_MR_ZIMM20, 0, 5));
    put(&q, I(SETZI_MR_ZIMM20, 0, 5));
    run_worker(&p);
    run_worker(&q);
    unsigned page = (CODE - IPU21_SRAM_BASE) / SIM_PAGE_BYTES;
    ck_assert_ptr_nonnull(p.tile->pages[page]);
    ck_assert_ptr_eq(p.tile->pages[page], q.tile->pages[page]);
    ck_assert_uint_eq(p.tile->pages[page]->references, 2);

    /* A change in one of them leaves the other alone. */
    struct isa_inst other = I(SETZI_MR_ZIMM20, 0, 6);
    uint32_t words[2];
    ck_assert(isa_encode(&other, false, words));
    poke32(&q, CODE, words[0]);
    sim_tile_touched(q.tile, CODE, 4);
    ck_assert_uint_eq(p.tile->pages[page]->references, 1);
    run_worker_at(&p, 0, CODE);
    run_worker_at(&q, 0, CODE);
    ck_assert_uint_eq(sim_tile_m(p.tile, 1, 0), 5);
    ck_assert_uint_eq(sim_tile_m(q.tile, 1, 0), 6);
    program_close(&q);
    ck_assert_uint_eq(p.tile->pages[page]->references, 1);
    sim_tile_share(p.tile, NULL);
    sim_code_destroy(code);
}
END_TEST

/* A worker overwrites an instruction that lies ahead of it, in its own page or in one that begins
 * with the second word of a bundle. */
START_TEST(worker_store_into_code_takes_effect)
{
    uint32_t at = _i == 0 ? CODE + 8 : IPU21_SRAM_BASE + 2 * SIM_PAGE_BYTES - 4;
    struct isa_inst main_half = I(SETZI_MR_ZIMM20, 0, 1), patch = I(SETZI_AR_ZIMM20, 1, 77);
    uint32_t words[2];
    ck_assert(isa_encode(&patch, true, words));
    set_m(&p, 5, at + 4);
    set_m(&p, 6, words[0]);
    p.at = CODE;
    put(&p, I(BRNZDEC_MR_WADDR19, 7, (int32_t)at)); /* second pass: m7 == 0 */
    put(&p, I(BRI_WADDR19, (int32_t)at));
    p.at = at;
    put_bundle(&p, main_half, I(SETZI_AR_ZIMM20, 1, 5));
    put(&p, I(BRNZ_MR_WADDR19, 8, (int32_t)at + 24));
    put(&p, I(ST32_MR_MR_MR_ZIMM12, 6, 5, 15, 0));
    put(&p, I(SETZI_MR_ZIMM20, 8, 1));
    put(&p, I(BRI_WADDR19, CODE));
    put_exit(&p);
    set_m(&p, 7, 1);
    run_worker_at(&p, 0, CODE);
    ck_assert_uint_eq(a_reg(&p, 1), 77);
}
END_TEST

START_TEST(supervisor_sees_patched_words_at_once)
{
    struct isa_inst patch = I(SETZI_MR_ZIMM20, 2, 55);
    uint32_t words[2];
    ck_assert(isa_encode(&patch, false, words));
    put(&p, I(ST32_MR_MR_MR_ZIMM12, 1, 0, 15, 0));
    put(&p, I(SETZI_MR_ZIMM20, 2, 5));
    put(&p, I(SYNC_ZIMM4, 3));
    sim_tile_reset(p.tile, CODE, 0);
    sim_tile_set_m(p.tile, 0, 0, CODE + 4);
    sim_tile_set_m(p.tile, 0, 1, words[0]);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 2), 55);
}
END_TEST

START_TEST(reset_forgets_decoded_code)
{
    put(&p, I(SETZI_MR_ZIMM20, 0, 5));
    run_worker(&p);
    sim_tile_reset(p.tile, CODE, 0);
    ck_assert_ptr_null(p.tile->pages[(CODE - IPU21_SRAM_BASE) / SIM_PAGE_BYTES]);
}
END_TEST

START_TEST(bundle_may_cross_a_page)
{
    p.at = IPU21_SRAM_BASE + SIM_PAGE_BYTES - 4;
    uint32_t entry = p.at;
    put_bundle(&p, I(SETZI_MR_ZIMM20, 0, 3), I(SETZI_AR_ZIMM20, 0, 4));
    put_exit(&p);
    run_worker_at(&p, 0, entry);
    ck_assert_uint_eq(m_reg(&p, 0), 3);
    ck_assert_uint_eq(a_reg(&p, 0), 4);
}
END_TEST

/* Threads that decode the same code at the same time. */
enum { THREADS = 4, ROUNDS = 50 };

static void *run_tile(void *argument)
{
    struct program *q = argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        sim_tile_touched(q->tile, CODE, 4);
        sim_tile_start_worker(q->tile, 0, CODE, DATA);
        if (sim_tile_run(q->tile, FOREVER) != SIM_STOP_SYNC)
            return q;
    }
    return NULL;
}

START_TEST(threads_share_code_safely)
{
    struct program q[THREADS];
    pthread_t thread[THREADS];
    struct sim_code *code = sim_code_create(SIM_PATH_BEST);
    for (unsigned i = 0; i < THREADS; i++) {
        program_open(&q[i]);
        sim_tile_share(q[i].tile, code);
        put(&q[i], I(ADD_MR_MR_SIMM16, 0, 0, 1));
        put_exit(&q[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, run_tile, &q[i]), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(thread[i], &failed), 0);
        ck_assert_ptr_null(failed);
        ck_assert_uint_eq(sim_tile_m(q[i].tile, 1, 0), ROUNDS);
    }
    for (unsigned i = 0; i < THREADS; i++)
        program_close(&q[i]);
    sim_code_destroy(code);
}
END_TEST

START_TEST(every_form_has_a_handler)
{
    for (unsigned form = 0; form < ISA_COUNT; form++) {
        ck_assert_ptr_nonnull(sim_handlers[form]);
        ck_assert_ptr_nonnull(sim_handler(form, sim_host_is_fast()));
    }
}
END_TEST

START_TEST(fault_text_names_tile_context_pc_and_instruction)
{
    put(&p, I(SETZI_MR_ZIMM20, 1, 2));
    put(&p, I(LD32_MR_MR_MR_ZIMM12, 0, 1, 15, 0));
    put_exit(&p);
    run_worker_at(&p, 3, CODE + 8);
    sim_tile_start_worker(p.tile, 3, CODE, DATA);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_FAULT);
    const struct sim_fault *fault = sim_tile_fault(p.tile);
    ck_assert_uint_eq(fault->context, 4);
    ck_assert_uint_eq(fault->pc, CODE + 4);
    ck_assert_ptr_nonnull(strstr(fault->text, "INVALID_ADDR"));
    ck_assert_ptr_nonnull(strstr(fault->text, "tile 7"));
    ck_assert_ptr_nonnull(strstr(fault->text, "worker 3"));
    ck_assert_ptr_nonnull(strstr(fault->text, "0x4c104"));
    ck_assert_ptr_nonnull(strstr(fault->text, "ld32"));
    ck_assert_ptr_nonnull(strstr(fault->text, "0x2"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tile code");
    TCase *tests = tcase_create("code");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, tiles_with_equal_code_share_one_page);
    tcase_add_loop_test(tests, worker_store_into_code_takes_effect, 0, 2);
    tcase_add_test(tests, supervisor_sees_patched_words_at_once);
    tcase_add_test(tests, reset_forgets_decoded_code);
    tcase_add_test(tests, bundle_may_cross_a_page);
    tcase_add_test(tests, threads_share_code_safely);
    tcase_add_test(tests, every_form_has_a_handler);
    tcase_add_test(tests, fault_text_names_tile_context_pc_and_instruction);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
