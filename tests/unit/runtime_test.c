/* module: device/sim */
/* The supervisor runtime on the simulated tile: start, samples, rendezvous, completion. */
#include "base/alloc.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/timing.h"
#include "device/ipu21/topology.h"
#include "device/kernels/kernels.h"
#include "device/kernels/sources.h"
#include "device/runtime/runtime.h"
#include "device/sim/tile.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program {
    struct sim_tile *tile;
    uint8_t *sram;
    struct asm_image image;
};

static uint32_t peek(const struct program *p, uint32_t address)
{
    uint32_t value;
    memcpy(&value, p->sram + (address - IPU21_SRAM_BASE), 4);
    return value;
}

static void open_program(struct program *p, unsigned logical, const char *text,
                         const char *const *roots, size_t root_count)
{
    struct buffer runtime = {0}, program = {0};
    struct ipu_error error = {0};
    struct asm_options options = {0};
    ck_assert_msg(kernel_assemble_runtime(&runtime, &error) == 0, "%s", error.text);
    ck_assert_msg(asm_assemble("program", text, strlen(text), &options, &program, &error) == 0,
                  "%s", error.text);
    struct asm_object objects[] = {{runtime.data, runtime.size, "runtime"},
                                   {program.data, program.size, "program"}};
    struct asm_link_options link = {
        .base = IPU21_IMAGE_BASE, .roots = roots, .root_count = root_count};
    memset(p, 0, sizeof *p);
    ck_assert_msg(asm_link(objects, 2, &link, &p->image, &error) == 0, "%s", error.text);
    buffer_free(&runtime);
    buffer_free(&program);
    p->sram = ipu_calloc(1, IPU21_SRAM_BYTES);
    ck_assert_ptr_nonnull(p->sram);
    memcpy(p->sram + (IPU21_IMAGE_BASE - IPU21_SRAM_BASE), p->image.bytes.data,
           p->image.bytes.size);
    p->tile = sim_tile_create(logical, p->sram);
    sim_tile_reset(p->tile, IPU21_IMAGE_BASE + 4, 0);
}

static void close_program(struct program *p)
{
    sim_tile_destroy(p->tile);
    asm_image_free(&p->image);
    ipu_free(p->sram);
}

static void expect_sync(struct program *p, unsigned zone)
{
    ck_assert_int_eq(sim_tile_run(p->tile, 1000000), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_zone(p->tile), zone);
}

static void release(struct program *p)
{
    sim_tile_release(p->tile, sim_tile_cycle(p->tile));
}

static const struct sim_fault *expect_stop(struct program *p)
{
    enum sim_stop stop;
    while ((stop = sim_tile_run(p->tile, 1000000)) == SIM_STOP_SYNC)
        release(p);
    const struct sim_fault *fault = sim_tile_fault(p->tile);
    ck_assert_int_eq(stop, SIM_STOP_FAULT);
    ck_assert_msg(fault->etype == SIM_ETYPE_INVALID_PC, "%s", fault->text);
    return fault;
}

static const char finish_text[] = ".section .text.program, \"ax\"\n.supervisor\n"
                                  ".globl program_entry\nprogram_entry:\nbri rt_finish\n";

START_TEST(start_passes_the_loader_and_the_host_rendezvous)
{
    static const unsigned tiles[] = {0, 1, 77, 1471};
    struct program p;
    open_program(&p, tiles[_i], finish_text, NULL, 0);
    ck_assert_uint_eq(asm_image_symbol(&p.image, RT_SYMBOL_START), IPU21_IMAGE_BASE);
    expect_sync(&p, 3);
    release(&p);
    expect_sync(&p, 7);
    unsigned physical = ipu21_physical(tiles[_i]);
    ck_assert_uint_eq(sim_tile_exchange(p.tile)->incoming_mux,
                      (uint32_t)RT_MUX_HOST + (physical & 0x3d));
    release(&p);
    expect_stop(&p);
    ck_assert_uint_eq(sim_tile_exchange(p.tile)->incoming_mux, RT_MUX_NEUTRAL);
    ck_assert_uint_eq(peek(&p, RT_COMPLETION), 1);
    close_program(&p);
}
END_TEST

START_TEST(start_prepares_every_worker)
{
    struct program p;
    open_program(&p, 5, finish_text, NULL, 0);
    for (unsigned w = 0; w < IPU21_WORKERS; w++) {
        static const uint8_t garbage[] = {1, 2, 3, 4};
        memcpy(p.sram + (RT_WORKER_SCRATCH + w * RT_WORKER_STRIDE - IPU21_SRAM_BASE), garbage, 4);
    }
    expect_stop(&p);
    for (uint32_t w = 0; w < IPU21_WORKERS; w++) {
        uint32_t scratch = RT_WORKER_SCRATCH + w * RT_WORKER_STRIDE;
        ck_assert_uint_eq(peek(&p, scratch + 0xf0), 8 * w);
        ck_assert_uint_eq(peek(&p, scratch + 0xf4), (5 - w) * 8);
        ck_assert_uint_eq(peek(&p, scratch + 0xf8), (5 - w) * 4);
        ck_assert_uint_eq(peek(&p, scratch + 0xfc), (5 - w) * 2);
        for (unsigned i = 0; i < 32; i++)
            ck_assert_float_eq(sim_tile_accumulator(p.tile, w, i), 0);
    }
    ck_assert_uint_le(RT_WORKER_SCRATCH + IPU21_WORKERS * RT_WORKER_STRIDE, RT_STATE_END);
    close_program(&p);
}
END_TEST

/* `pad` instructions, then two samples in a row; the cursor starts at 0x60000. */
static void sample_program(char *text, size_t size, unsigned pad)
{
    snprintf(text, size,
             ".section .text.program, \"ax\"\n.supervisor\n"
             ".globl program_entry\nprogram_entry:\n"
             "setzi $m0, 0x58000\nsetzi $m1, 0x60000 - 0x4c000\nst32 $m1, $m0, $mzero, 3\n"
             ".rept %u\nnop\n.endr\n"
             "call $m10, rt_sample\ncall $m10, rt_sample\ncall $m10, rt_sample\n"
             "bri rt_finish\n",
             pad);
}

START_TEST(samples_land_at_the_cursor_and_cost_the_same)
{
    uint32_t most = 0, least = UINT32_MAX;
    for (unsigned pad = 0; pad < IPU21_SLOTS; pad++) {
        char text[512];
        struct program p;
        sample_program(text, sizeof text, pad);
        open_program(&p, 0, text, NULL, 0);
        expect_stop(&p);
        ck_assert_uint_eq(peek(&p, RT_SAMPLE_CURSOR), 0x6000c - RT_SAMPLE_BIAS);
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t cost = peek(&p, 0x60004 + 4 * i) - peek(&p, 0x60000 + 4 * i);
            most = cost > most ? cost : most;
            least = cost < least ? cost : least;
        }
        ck_assert_uint_eq(peek(&p, 0x6000c), 0);
        close_program(&p);
    }
    ck_assert_uint_eq(most, least);
    ck_assert_uint_eq(most, RT_SAMPLE_CYCLES);
}
END_TEST

START_TEST(linking_by_roots_drops_unused_routines)
{
    static const char *const roots[] = {RT_SYMBOL_START};
    static const char text[] = ".section .text.program, \"ax\"\n.supervisor\n"
                               ".globl program_entry\nprogram_entry:\nbr $mzero\n";
    struct program p;
    open_program(&p, 0, text, roots, 1);
    ck_assert_uint_eq(asm_image_symbol(&p.image, RT_SYMBOL_SAMPLE), 0);
    ck_assert_uint_eq(asm_image_symbol(&p.image, RT_SYMBOL_START), IPU21_IMAGE_BASE);
    expect_stop(&p);
    close_program(&p);
}
END_TEST

START_TEST(barrier_returns_with_idle_workers)
{
    static const char text[] = ".section .text.program, \"ax\"\n.supervisor\n"
                               ".globl program_entry\nprogram_entry:\n"
                               "call $m10, rt_barrier\nbri rt_finish\n";
    struct program p;
    open_program(&p, 0, text, NULL, 0);
    expect_stop(&p);
    for (unsigned w = 0; w < IPU21_WORKERS; w++)
        ck_assert(!sim_tile_worker_active(p.tile, w));
    ck_assert_uint_eq(peek(&p, RT_COMPLETION), 1);
    close_program(&p);
}
END_TEST

/* runtime.inc repeats numbers of runtime.h. */
START_TEST(assembly_and_c_agree_on_the_layout)
{
    static const struct {
        const char *name;
        uint32_t value;
    } rows[] = {{"RT_STATE", RT_STATE},
                {"RT_COMPLETION", RT_COMPLETION},
                {"RT_SAMPLE_CURSOR", RT_SAMPLE_CURSOR},
                {"RT_WORKER_SCRATCH", RT_WORKER_SCRATCH},
                {"RT_WORKER_STRIDE", RT_WORKER_STRIDE},
                {"RT_MUX_NEUTRAL", RT_MUX_NEUTRAL},
                {"RT_MUX_HOST", RT_MUX_HOST}};
    size_t length;
    const char *text = source_find("runtime.inc", &length);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char pattern[64];
        int size = snprintf(pattern, sizeof pattern, "#define %s ", rows[i].name);
        const char *at = strstr(text, pattern);
        ck_assert_ptr_nonnull(at);
        ck_assert_uint_eq(strtoul(at + size, NULL, 0), rows[i].value);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime");
    TCase *tcase = tcase_create("runtime");
    tcase_add_loop_test(tcase, start_passes_the_loader_and_the_host_rendezvous, 0, 4);
    tcase_add_test(tcase, start_prepares_every_worker);
    tcase_add_test(tcase, samples_land_at_the_cursor_and_cost_the_same);
    tcase_add_test(tcase, linking_by_roots_drops_unused_routines);
    tcase_add_test(tcase, barrier_returns_with_idle_workers);
    tcase_add_test(tcase, assembly_and_c_agree_on_the_layout);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
