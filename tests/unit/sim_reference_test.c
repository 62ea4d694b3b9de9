/* module: device/sim */
/* Random programs run in the simulator and in the slow reference interpreter (tests/reference) and
 * must agree in everything: registers, accumulators, memory, control registers, cycle and fault.
 *
 * IPU_TEST_SEED=n runs the programs from seed n on; IPU_TEST_LEVEL=long runs many more. Every
 * execution path of the simulator is tried.
 */
#include "device/asm/asm.h"
#include "tests/reference/compare.h"
#include "tests/reference/generate.h"

#include <check.h>
#include <stdlib.h>

enum { QUICK_PROGRAMS = 500, LONG_PROGRAMS = 15000, CYCLES = 60000 };

static uint8_t *reference_sram, *simulator_sram;
static struct sim_tile *tile;
static struct sim_code *code;    /* of the path that is tested */
static uint64_t seen[ISA_COUNT]; /* executions of each form */

static void setup(void)
{
    reference_sram = calloc(1, IPU21_SRAM_BYTES);
    simulator_sram = calloc(1, IPU21_SRAM_BYTES);
}

static void teardown(void)
{
    free(reference_sram);
    free(simulator_sram);
}

static unsigned programs(void)
{
    const char *level = getenv("IPU_TEST_LEVEL");
    return level != NULL && strcmp(level, "long") == 0 ? LONG_PROGRAMS : QUICK_PROGRAMS;
}

static uint64_t first_seed(void)
{
    const char *seed = getenv("IPU_TEST_SEED");
    return seed != NULL ? strtoull(seed, NULL, 0) : 1;
}

static void fill_memory(struct generator *g)
{
    static const uint32_t windows[][2] = {{0x58000, 0x1000}, {0x5c000, 0x1000}, {0x60000, 0x1000},
                                          {0x7b000, 0x2000}, {0x80000, 0x1000}, {0x88000, 0x1000},
                                          {0x90000, 0x1000}, {0xe7000, 0x1000}};
    for (unsigned i = 0; i < sizeof windows / sizeof windows[0]; i++)
        for (uint32_t at = 0; at < windows[i][1]; at += 4) {
            uint32_t value = gen_value(&g->random);
            memcpy(g->sram + (windows[i][0] + at - REF_SRAM), &value, sizeof value);
        }
}

static void count_forms(const struct ref *r)
{
    struct ref_decoded d;
    ref_decode_at(r, r->pc, &d);
    for (unsigned i = 0; i < d.halves && d.fault == 0; i++)
        seen[d.half[i].form]++;
}

/* The program and the state of a seed, in the reference and in a new tile. */
static void prepare(uint64_t seed, struct generator *g, struct ref *r)
{
    memset(reference_sram, 0, IPU21_SRAM_BYTES);
    fill_memory(g);
    gen_program(g);
    gen_state(&g->random, r);
    memcpy(simulator_sram, reference_sram, IPU21_SRAM_BYTES);
    tile = sim_tile_create(7, simulator_sram);
    ck_assert_msg(tile != NULL, "seed %llu", (unsigned long long)seed);
    sim_tile_share(tile, code);
    compare_load(r, tile);
}

static void note_fault(struct ref *r)
{
    if (r->fault != 0)
        r->wsr = (uint32_t)r->fault << 4 | (r->repeating ? 1u << 9 : 0);
}

/* Repeats a program that differed, one instruction at a time, and names the first one that does. */
static void explain(uint64_t seed, struct generator g, struct compare_report *report)
{
    struct ref r = {.sram = reference_sram};
    char text[128] = "";
    sim_tile_destroy(tile);
    prepare(seed, &g, &r);
    struct compare_report found = {.used = 0};
    while (found.used == 0 && r.active && r.fault == 0 && r.cycle < CYCLES) {
        uint32_t pc = r.pc;
        asm_disassemble(pc, (uint32_t)ref_load(&r, pc, 4), (uint32_t)ref_load(&r, pc + 4, 4), text,
                        sizeof text);
        ref_step(&r);
        note_fault(&r);
        sim_tile_run(tile, r.fault != 0 ? r.cycle + 1 : r.cycle);
        compare_all(&r, tile, &found);
        if (found.used != 0)
            snprintf(report->text, sizeof report->text, "at 0x%x %s\n%.3500s", pc, text,
                     found.text);
    }
}

static void run_one(uint64_t seed, unsigned mess, bool raw_moves)
{
    struct generator g = {.random = {seed}, .sram = reference_sram, .mess = mess};
    struct ref r = {.sram = reference_sram};
    g.raw_moves = raw_moves;
    struct generator again = g;
    prepare(seed, &g, &r);
    sim_tile_run(tile, CYCLES);
    while (r.active && r.fault == 0 && r.cycle < CYCLES) {
        count_forms(&r);
        ref_step(&r);
    }
    note_fault(&r);
    struct compare_report report = {.used = 0};
    compare_all(&r, tile, &report);
    if (report.used != 0)
        explain(seed, again, &report);
    ck_assert_msg(report.used == 0, "IPU_TEST_SEED=%llu mess %u raw %d: %s",
                  (unsigned long long)seed, mess, raw_moves, report.text);
    sim_tile_destroy(tile);
}

START_TEST(random_programs_agree_with_the_reference)
{
    static const unsigned mess[] = {0, 0, 1, 3};
    unsigned count = programs();
    code = sim_code_create((enum sim_path)_i);
    ck_assert_ptr_nonnull(code);
    for (unsigned i = 0; i < count; i++)
        run_one(first_seed() + i, mess[(first_seed() + i) % 4], (first_seed() + i) % 8 >= 6);
    /* Every form that the reference knows and that can stand in a worker's program was executed. */
    for (unsigned form = 0; form < ISA_COUNT; form++)
        if (ref_action_find(form) != NULL)
            ck_assert_msg(seen[form] != 0, "%s (form %u) was never executed",
                          isa_forms[form].syntax, form);
    sim_code_destroy(code);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_reference");
    TCase *tcase = tcase_create("random");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 900);
    tcase_add_loop_test(tcase, random_programs_agree_with_the_reference, SIM_PATH_BEST,
                        SIM_PATH_PLAIN + 1);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
