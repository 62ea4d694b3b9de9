/* module: device/sim */
/* The tile debug interface through registers of the board: what it shows of contexts that run,
 * wait, are held, or stand on an exception, and how it makes them go on. */
#include "tests/unit/board_support.h"

#include "device/asm/asm.h"
#include "device/ipu21/csr.h"
#include "device/ipu21/topology.h"
#include "device/sim/chip.h"

#include <stdio.h>

enum {
    TILE = 100, /* logical */
    OTHER = 101,
    DATA = 0x90000,
    SUPERVISOR = 0,
    WORKER = 1 /* the context of worker 0 */
};

static struct sim_board *board;
static struct asm_image image;

static void setup(void)
{
    board = new_board(1);
    image = (struct asm_image){0};
    reset_board(board);
}

static void teardown(void)
{
    asm_image_free(&image);
    sim_board_destroy(board);
}

/* --- programs --- */

/* Assembles a program whose first word is at 0x4c000 and starts it on every tile. */
static void start(const char *text)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    struct asm_options options = {0};
    ck_assert_msg(asm_assemble("test", text, strlen(text), &options, &object, &error) == 0, "%s",
                  error.text);
    struct asm_object one = {object.data, object.size, "test"};
    struct asm_link_options link = {.base = IPU21_SRAM_BASE};
    ck_assert_msg(asm_link(&one, 1, &link, &image, &error) == 0, "%s", error.text);
    buffer_free(&object);
    buffer_append_zero(&image.bytes, 1024 - image.bytes.size % 1024);
    autoload(board, image.bytes.data, (uint32_t)image.bytes.size);
    sim_board_run(board, POLL_CYCLES, NULL);
}

static uint32_t symbol(const char *name)
{
    uint32_t address = asm_image_symbol(&image, name);
    ck_assert_uint_ne(address, 0);
    return address;
}

/* --- the interface --- */

static uint32_t tdi_read(unsigned tile, enum ipu21_host_tdi r)
{
    return sim_board_read(board, IPU21_HOST_TDI_REGISTER(ipu21_physical(tile), r));
}

static void tdi_write(unsigned tile, enum ipu21_host_tdi r, uint32_t value)
{
    sim_board_write(board, IPU21_HOST_TDI_REGISTER(ipu21_physical(tile), r), value);
}

static unsigned status(unsigned tile, unsigned context)
{
    return tdi_read(tile, IPU21_HOST_TDI_CTXT_STS) >> (2 * context) & 3;
}

/* Bits of STS that the word left, which are cleared again. */
static uint32_t inject(unsigned tile, unsigned context, uint32_t word)
{
    const uint32_t bits = IPU21_HOST_STS_INVALID | IPU21_HOST_STS_DOUBLE;
    tdi_write(tile, IPU21_HOST_TDI_IOWNER, context);
    tdi_write(tile, IPU21_HOST_TDI_IEXEC, word);
    uint32_t left = tdi_read(tile, IPU21_HOST_TDI_STS) & bits;
    tdi_write(tile, IPU21_HOST_TDI_CLR, left);
    ck_assert_uint_eq(tdi_read(tile, IPU21_HOST_TDI_STS) & bits, 0);
    return left;
}

static uint32_t get_m(unsigned tile, unsigned context, unsigned m)
{
    ck_assert_uint_eq(inject(tile, context, IPU21_HOST_INJECT_PUT_DATA(m)), 0);
    return tdi_read(tile, IPU21_HOST_TDI_DATA);
}

static void set_m(unsigned tile, unsigned context, unsigned m, uint32_t value)
{
    tdi_write(tile, IPU21_HOST_TDI_DATA, value);
    ck_assert_uint_eq(inject(tile, context, IPU21_HOST_INJECT_GET(m, IPU21_HOST_CSR_DATA)), 0);
}

static uint32_t get_csr(unsigned tile, unsigned context, unsigned csr)
{
    uint32_t saved = get_m(tile, context, 0);
    ck_assert_uint_eq(inject(tile, context, IPU21_HOST_INJECT_GET(0, csr)), 0);
    uint32_t value = get_m(tile, context, 0);
    set_m(tile, context, 0, saved);
    return value;
}

static unsigned etype(unsigned tile, unsigned context)
{
    return get_csr(tile, context, IPU21_HOST_CSR_STATUS) >> 4 & 15;
}

static uint32_t get_pc(unsigned tile, unsigned context)
{
    return get_csr(tile, context, IPU21_HOST_CSR_PC);
}

static uint32_t read_word(unsigned tile, unsigned context, uint32_t address)
{
    uint32_t m0 = get_m(tile, context, 0), m1 = get_m(tile, context, 1);
    set_m(tile, context, 1, address);
    ck_assert_uint_eq(inject(tile, context, IPU21_HOST_INJECT_LD32_M0_M1), 0);
    uint32_t value = get_m(tile, context, 0);
    set_m(tile, context, 0, m0);
    set_m(tile, context, 1, m1);
    return value;
}

static void write_word(unsigned tile, unsigned context, uint32_t address, uint32_t value)
{
    uint32_t m0 = get_m(tile, context, 0), m1 = get_m(tile, context, 1);
    set_m(tile, context, 0, value);
    set_m(tile, context, 1, address);
    ck_assert_uint_eq(inject(tile, context, IPU21_HOST_INJECT_ST32_M0_M1), 0);
    set_m(tile, context, 0, m0);
    set_m(tile, context, 1, m1);
}

static void set_pc(unsigned tile, unsigned context, uint32_t pc)
{
    uint32_t m0 = get_m(tile, context, 0);
    set_m(tile, context, 0, pc);
    ck_assert_uint_eq(inject(tile, context, 0x43008000 | IPU21_HOST_CSR_PC), 0);
    set_m(tile, context, 0, m0);
}

static void clear(unsigned tile, unsigned context)
{
    tdi_write(tile, IPU21_HOST_TDI_ECLR, 1u << context);
}

static void run(void)
{
    sim_board_run(board, POLL_CYCLES, NULL);
}

/* What SRAM holds, by a way that does not lead through the interface. */
static uint32_t memory(unsigned tile, uint32_t address)
{
    uint32_t value = 0;
    ck_assert(sim_chip_read(sim_board_chip(board), tile, address, &value, 4));
    return value;
}

#define HEAD ".section .text.test, \"ax\"\n.allow_optimizations\n.supervisor\n"
#define WAIT "wait: sync 7\nbri wait\n"

/* --- programs that stop on a trap: one tile, by its physical id in m0 --- */

static char only_tile[2][512];

/* `body` on TILE (and OTHER when `both`), waiting for the host elsewhere. */
static const char *on_tile(const char *body, bool both)
{
    static char text[2048];
    snprintf(only_tile[0], sizeof only_tile[0],
             "get $m0, $TILE_ID\nsetzi $m1, %u\ncmpeq $m1, $m0, $m1\nbrnz $m1, body\n",
             ipu21_physical(TILE));
    snprintf(only_tile[1], sizeof only_tile[1],
             "setzi $m1, %u\ncmpeq $m1, $m0, $m1\nbrnz $m1, body\n", ipu21_physical(OTHER));
    snprintf(text, sizeof text, HEAD "%s%s" WAIT ".globl body\nbody:\n%s", only_tile[0],
             both ? only_tile[1] : "", body);
    return text;
}

static const char trap_body[] = "setzi $m2, 22\nsetzi $m3, 0x90000\nst32 $m2, $m3, $mzero, 0\n"
                                ".globl stop\nstop: trap 0\n"
                                "setzi $m4, 44\nst32 $m4, $m3, $mzero, 1\nbri wait\n";

static const char counting[] =
    "setzi $m3, 0x90000\n.globl loop\nloop: add $m2, $m2, 1\nst32 $m2, $m3, $mzero, 0\n"
    ".globl end\nend: bri loop\n";

/* --- status --- */

START_TEST(waiting_and_idle_contexts_read_0)
{
    start(HEAD WAIT);
    for (unsigned c = 0; c < IPU21_HOST_CONTEXTS; c++)
        ck_assert_uint_eq(status(TILE, c), IPU21_HOST_CONTEXT_INACTIVE);
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_STS), 0);
}
END_TEST

static const char two_workers[] = "setzi $m0, worker\nrun $m0, $mzero, 0\n"
                                  "run $m0, $mzero, 0\n"
                                  "sync 2\nbri wait\n"
                                  ".worker\nworker: add $m3, $m3, 1\nbri worker\n";

START_TEST(running_contexts_read_1)
{
    start(on_tile(two_workers, false));
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_INACTIVE); /* in sync 2 */
    ck_assert_uint_eq(status(TILE, 1), IPU21_HOST_CONTEXT_ACTIVE);
    ck_assert_uint_eq(status(TILE, 2), IPU21_HOST_CONTEXT_ACTIVE);
    ck_assert_uint_eq(status(TILE, 3), IPU21_HOST_CONTEXT_INACTIVE);
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_STS), IPU21_HOST_STS_NOT_QUIESCENT);
}
END_TEST

START_TEST(running_supervisor_reads_1)
{
    start(on_tile("loop: bri loop\n", false));
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_ACTIVE);
}
END_TEST

START_TEST(tiles_are_addressed_by_physical_id)
{
    start(on_tile(trap_body, false));
    for (unsigned i = 0; i < IPU21_TILES; i++)
        ck_assert_uint_eq(status(i, SUPERVISOR),
                          i == TILE ? IPU21_HOST_CONTEXT_DEBUG : IPU21_HOST_CONTEXT_INACTIVE);
}
END_TEST

static const struct {
    const char *body;
    unsigned etype, status;
} stops[] = {
    {"stop: trap 0\n", SIM_ETYPE_PBRK0, IPU21_HOST_CONTEXT_DEBUG},
    {"stop: trap 1\n", SIM_ETYPE_PBRK1, IPU21_HOST_CONTEXT_DEBUG},
    {"setzi $m2, 0x90002\nstop: ld32 $m3, $m2, $mzero, 0\n", SIM_ETYPE_INVALID_ADDR,
     IPU21_HOST_CONTEXT_FAULT},
    {"stop: get $m2, 0x7\n", SIM_ETYPE_INVALID_OP, IPU21_HOST_CONTEXT_FAULT},
    {"stop: .long 0\n", SIM_ETYPE_INVALID_INSTR, IPU21_HOST_CONTEXT_FAULT},
};

START_TEST(exception_shows_its_type_and_pc)
{
    char body[256];
    snprintf(body, sizeof body, ".globl stop\n%s", stops[_i].body);
    start(on_tile(body, false));
    ck_assert_uint_eq(status(TILE, SUPERVISOR), stops[_i].status);
    ck_assert_uint_eq(etype(TILE, SUPERVISOR), stops[_i].etype);
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), symbol("stop"));
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_CTXT_STS) >> 27, 0);
}
END_TEST

START_TEST(branch_to_address_0_shows_invalid_pc)
{
    start(on_tile("br $mzero\n", false));
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_FAULT);
    ck_assert_uint_eq(etype(TILE, SUPERVISOR), SIM_ETYPE_INVALID_PC);
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), 0);
}
END_TEST

START_TEST(worker_exception_stands_in_its_own_context)
{
    start(HEAD "setzi $m0, worker\nrunall $m0, $mzero, 0\nsync 2\n" WAIT
               ".worker\nworker: get $m0, $WSR\nand $m0, $m0, 7\nbrnz $m0, out\n"
               ".globl stop\nstop: trap 1\nout: exitz $mzero\n");
    ck_assert_uint_eq(status(TILE, WORKER), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(etype(TILE, WORKER), SIM_ETYPE_PBRK1);
    ck_assert_uint_eq(get_pc(TILE, WORKER), symbol("stop"));
    ck_assert_uint_eq(get_csr(TILE, WORKER, IPU21_HOST_CSR_STATUS) & 7, 0);
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_INACTIVE); /* in sync 2 */
}
END_TEST

START_TEST(receive_error_shows_in_the_status)
{
    /* A host packet that is cut short: receive error 6. */
    start(on_tile("get $m0, $TILE_ID\nand $m0, $m0, 0x3d\nadd $m0, $m0, 0x600\n"
                  "put $INCOMING_MUX, $m0\nsetzi $m2, 0x90000\nput $OUTGOING_BASE, $m2\n"
                  "setzi $m3, 0xfff\nst32 $m3, $m2, $mzero, 0\nsend 0, 0, 3\nbri wait\n",
                  false));
    uint32_t word = tdi_read(TILE, IPU21_HOST_TDI_CTXT_STS);
    ck_assert_uint_eq(word >> 27, 8 | 6); /* bit 30: exchange error */
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_FAULT);
    ck_assert_uint_eq(etype(TILE, SUPERVISOR), SIM_ETYPE_EXERR);
    clear(TILE, SUPERVISOR);
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_FAULT);
}
END_TEST

/* --- reading --- */

START_TEST(stopped_context_shows_all_registers_and_keeps_them)
{
    char body[1024];
    size_t used = 0;
    for (unsigned r = 0; r < 14; r++)
        used +=
            (size_t)snprintf(body + used, sizeof body - used, "setzi $m%u, %u\n", r, 1000 + 37 * r);
    snprintf(body + used, sizeof body - used, ".globl stop\nstop: trap 0\nbri wait\n");
    start(on_tile(body, false));
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned r = 0; r < 14; r++)
            ck_assert_uint_eq(get_m(TILE, SUPERVISOR, r), 1000 + 37 * r);
        ck_assert_uint_eq(get_m(TILE, SUPERVISOR, 15), 0);
        ck_assert_uint_eq(read_word(TILE, SUPERVISOR, symbol("stop")), 0x41801000);
    }
}
END_TEST

START_TEST(idle_worker_reads_memory_beside_a_running_supervisor)
{
    start(on_tile(counting, false));
    uint32_t before = read_word(TILE, 6, DATA);
    ck_assert_uint_eq(before, memory(TILE, DATA));
    run();
    uint32_t after = read_word(TILE, 6, DATA);
    ck_assert_uint_gt(after, before);
    ck_assert_uint_eq(after, memory(TILE, DATA));
}
END_TEST

START_TEST(written_word_is_executed)
{
    start(on_tile("loop: trap 0\n.globl next\nnext: trap 2\nbri loop\n", false));
    write_word(TILE, SUPERVISOR, symbol("next"), 0x19e00000); /* nop */
    ck_assert_uint_eq(memory(TILE, symbol("next")), 0x19e00000);
    uint32_t loop = get_pc(TILE, SUPERVISOR);
    set_pc(TILE, SUPERVISOR, loop + 4);
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), loop); /* past `next`, round the loop */
}
END_TEST

START_TEST(written_word_is_seen_by_workers)
{
    start(HEAD "setzi $m0, worker\nagain: runall $m0, $mzero, 0\nsync 2\ntrap 0\nbri again\n"
               ".worker\nworker: setzi $m1, 0x90000\n.globl value\nvalue: setzi $m2, 5\n"
               "st32 $m2, $m1, $mzero, 0\nexitz $mzero\n");
    ck_assert_uint_eq(memory(TILE, DATA), 5);
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        write_word(i, SUPERVISOR, symbol("value"), 0x19200000 | 6);
        set_pc(i, SUPERVISOR, get_pc(i, SUPERVISOR) + 4);
        clear(i, SUPERVISOR);
    }
    run();
    ck_assert_uint_eq(memory(TILE, DATA), 6);
    ck_assert_uint_eq(memory(0, DATA), 6);
}
END_TEST

START_TEST(data_count_is_live)
{
    start(on_tile("setzi $m2, 77\nput $INCOMING_DCOUNT, $m2\nbri wait\n", false));
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_DCOUNT), 77);
    ck_assert_uint_eq(tdi_read(OTHER, IPU21_HOST_TDI_DCOUNT), 0);
}
END_TEST

/* --- going on --- */

START_TEST(trapped_context_goes_on_behind_its_trap)
{
    start(on_tile(trap_body, false));
    ck_assert_uint_eq(memory(TILE, DATA), 22);
    ck_assert_uint_eq(memory(TILE, DATA + 4), 0);
    set_pc(TILE, SUPERVISOR, symbol("stop") + 4);
    clear(TILE, SUPERVISOR);
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_ACTIVE);
    run();
    ck_assert_uint_eq(memory(TILE, DATA + 4), 44);
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_INACTIVE); /* waits */
    ck_assert_ptr_null(sim_chip_fault(sim_board_chip(board)));
    /* The chip is whole again: the host's sync releases all tiles. */
    ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
}
END_TEST

START_TEST(branch_moves_the_pc)
{
    start(on_tile(trap_body, false));
    uint32_t pc = symbol("stop") + 4;
    ck_assert_uint_eq(inject(TILE, SUPERVISOR, 0x40800000 | pc >> 2), 0); /* bri */
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), pc);
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_eq(memory(TILE, DATA + 4), 44);
}
END_TEST

START_TEST(trap_that_is_not_passed_traps_again)
{
    start(on_tile(trap_body, false));
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), symbol("stop"));
    ck_assert_uint_eq(memory(TILE, DATA + 4), 0);
}
END_TEST

START_TEST(trapped_worker_goes_on)
{
    start(HEAD "setzi $m0, worker\nrunall $m0, $mzero, 0\nsync 2\n"
               "setzi $m3, 0x90000\nsetzi $m2, 9\nst32 $m2, $m3, $mzero, 0\n" WAIT
               ".worker\nworker: trap 0\nexitz $mzero\n");
    for (unsigned i = 0; i < IPU21_TILES; i++)
        for (unsigned c = 1; c < IPU21_HOST_CONTEXTS; c++) {
            if (status(i, c) != IPU21_HOST_CONTEXT_DEBUG)
                continue;
            set_pc(i, c, get_pc(i, c) + 4);
            clear(i, c);
        }
    ck_assert_uint_eq(memory(TILE, DATA), 0);
    for (unsigned round = 1; round < IPU21_WORKERS; round++) {
        run();
        for (unsigned i = 0; i < IPU21_TILES; i++) {
            unsigned c = 1;
            while (c < 6 && status(i, c) != IPU21_HOST_CONTEXT_DEBUG)
                c++;
            set_pc(i, c, get_pc(i, c) + 4);
            clear(i, c);
        }
    }
    run();
    ck_assert_uint_eq(memory(TILE, DATA), 9);
}
END_TEST

START_TEST(chip_stands_until_the_last_exception_is_cleared)
{
    start(on_tile(trap_body, true));
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(status(OTHER, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    set_pc(TILE, SUPERVISOR, symbol("stop") + 4);
    clear(TILE, SUPERVISOR);
    run();
    const struct sim_fault *fault = sim_chip_fault(sim_board_chip(board));
    ck_assert_ptr_nonnull(fault);
    ck_assert_uint_eq(fault->tile, OTHER);
    set_pc(OTHER, SUPERVISOR, symbol("stop") + 4);
    clear(OTHER, SUPERVISOR);
    run();
    ck_assert_uint_eq(memory(TILE, DATA + 4), 44);
    ck_assert_uint_eq(memory(OTHER, DATA + 4), 44);
}
END_TEST

/* --- run-break and break on sync --- */

START_TEST(run_break_holds_and_releases_a_running_supervisor)
{
    start(on_tile(counting, true));
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, IPU21_HOST_RBRK_RESET | 1);
    run();
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(etype(TILE, SUPERVISOR), SIM_ETYPE_RBRK);
    uint32_t pc = get_pc(TILE, SUPERVISOR), count = get_m(TILE, SUPERVISOR, 2);
    ck_assert(pc >= symbol("loop") && pc <= symbol("end"));
    uint32_t stored = memory(TILE, DATA), other = memory(OTHER, DATA);
    char *where = sim_chip_explain(sim_board_chip(board));
    ck_assert_msg(strstr(where, "1 tile (100) running") && strstr(where, "held by a run-break"),
                  "%s", where);
    free(where);
    ck_assert_uint_le(count - stored, 1);
    run();
    ck_assert_uint_eq(memory(TILE, DATA), stored);
    ck_assert_uint_gt(memory(OTHER, DATA), other);
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, IPU21_HOST_RBRK_RESET);
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG); /* still held */
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_gt(memory(TILE, DATA), stored);
}
END_TEST

START_TEST(cleared_context_is_held_again_while_its_break_stands)
{
    start(on_tile(counting, true));
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, 1);
    uint32_t stored = memory(TILE, DATA);
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(memory(TILE, DATA), stored);
}
END_TEST

START_TEST(run_break_stops_a_worker_at_its_first_instruction)
{
    start(HEAD "trap 0\nsetzi $m0, worker\nrunall $m0, $mzero, 0\nsync 2\n" WAIT
               ".worker\n.globl worker\nworker: setzi $m1, 0x90000\nsetzi $m2, 5\n"
               "st32 $m2, $m1, $mzero, 0\nexitz $mzero\n");
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, 1u << 3);
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        set_pc(i, SUPERVISOR, get_pc(i, SUPERVISOR) + 4);
        clear(i, SUPERVISOR);
    }
    run();
    ck_assert_uint_eq(status(TILE, 3), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(get_pc(TILE, 3), symbol("worker"));
    ck_assert_uint_eq(etype(TILE, 3), SIM_ETYPE_RBRK);
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, 0);
    clear(TILE, 3);
    run();
    for (unsigned c = 0; c < IPU21_HOST_CONTEXTS; c++)
        ck_assert_uint_eq(status(TILE, c), IPU21_HOST_CONTEXT_INACTIVE);
    ck_assert_uint_eq(memory(TILE, DATA), 5);
}
END_TEST

START_TEST(run_break_changes_no_result_and_no_cycle)
{
    static const char timed[] =
        HEAD "setzi $m0, worker\nrunall $m0, $mzero, 0\nsync 2\nsync 3\nsetzi $m0, worker\n"
             "runall $m0, $mzero, 0\nsync 2\n" WAIT
             ".worker\nworker: setzi $m3, 40\n1: brnzdec $m3, 1b\nget $m0, $COUNT_L\n"
             "get $m2, $WSR\nand $m2, $m2, 7\nshl $m2, $m2, 2\nsetzi $m1, 0x90000\nst32 $m0, $m1, "
             "$m2, 0\nexitz $mzero\n";
    uint32_t expected[6];
    start(timed);
    for (unsigned w = 0; w < 6; w++)
        expected[w] = memory(TILE, DATA + 4 * w);
    asm_image_free(&image);
    reset_board(board);
    /* Breaks of contexts that never run are looked for in every cycle and never met. */
    for (unsigned i = 0; i < IPU21_TILES; i++)
        tdi_write(i, IPU21_HOST_TDI_RBRK, 0);
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, 1u << 6);
    start(timed);
    ck_assert_uint_eq(status(TILE, 6), IPU21_HOST_CONTEXT_DEBUG);
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, 0);
    clear(TILE, 6);
    run();
    run();
    for (unsigned w = 0; w < 6; w++)
        ck_assert_uint_eq(memory(TILE, DATA + 4 * w), expected[w]);
}
END_TEST

START_TEST(waiting_supervisor_can_be_held)
{
    start(HEAD "setzi $m2, 3\nwait: sync 7\nadd $m2, $m2, 1\ntrap 0\nbri wait\n");
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, 1);
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(get_m(TILE, SUPERVISOR, 2), 3);
    sim_board_write(board, IPU21_HOST_GS1, 1);
    run();
    ck_assert_uint_eq(get_m(TILE, SUPERVISOR, 2), 3);
    ck_assert_uint_eq(status(OTHER, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(get_m(OTHER, SUPERVISOR, 2), 4);
}
END_TEST

START_TEST(break_on_sync_stops_before_every_sync)
{
    start(on_tile("trap 0\nsetzi $m2, 1\n.globl first\nfirst: sync 2\nsetzi $m2, 2\n"
                  ".globl second\nsecond: sync 2\nsetzi $m2, 3\nbri wait\n",
                  false));
    tdi_write(TILE, IPU21_HOST_TDI_ECSR, 1 << 5);
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_ECSR), 1 << 5);
    set_pc(TILE, SUPERVISOR, get_pc(TILE, SUPERVISOR) + 4);
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_eq(etype(TILE, SUPERVISOR), SIM_ETYPE_BOS);
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), symbol("first"));
    ck_assert_uint_eq(get_m(TILE, SUPERVISOR, 2), 1);
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), symbol("second"));
    ck_assert_uint_eq(get_m(TILE, SUPERVISOR, 2), 2);
    tdi_write(TILE, IPU21_HOST_TDI_ECSR, 0);
    clear(TILE, SUPERVISOR);
    run();
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_INACTIVE);
}
END_TEST

/* --- what is refused --- */

static const uint32_t refused[] = {
    0x41800007, /* sync */
    0x40a00000, /* delay */
    0x78000003, /* send */
    0x14010000, /* run */
    0x41801000, /* trap */
    0x00000000, /* no instruction */
    0xc0000000, /* half a bundle */
    0x43f04000, /* exitz */
};

START_TEST(words_that_are_no_plain_instruction_are_refused)
{
    start(on_tile(trap_body, false));
    ck_assert_uint_eq(inject(TILE, SUPERVISOR, refused[_i]), IPU21_HOST_STS_INVALID);
    ck_assert_uint_eq(inject(TILE, WORKER, refused[_i]), IPU21_HOST_STS_INVALID);
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), symbol("stop"));
}
END_TEST

START_TEST(running_context_executes_nothing)
{
    start(on_tile(two_workers, false));
    ck_assert_uint_eq(inject(TILE, 1, IPU21_HOST_INJECT_PUT_DATA(3)), IPU21_HOST_STS_INVALID);
    ck_assert_uint_eq(inject(TILE, SUPERVISOR, IPU21_HOST_INJECT_PUT_DATA(3)),
                      IPU21_HOST_STS_INVALID);
    ck_assert_uint_eq(inject(TILE, 7, IPU21_HOST_INJECT_PUT_DATA(3)), IPU21_HOST_STS_INVALID);
    ck_assert_uint_eq(inject(TILE, 3, IPU21_HOST_INJECT_PUT_DATA(3)), 0);
}
END_TEST

START_TEST(exception_of_an_injected_word_sets_double_and_changes_nothing)
{
    start(on_tile(trap_body, false));
    set_m(TILE, SUPERVISOR, 1, 0x1000);
    ck_assert_uint_eq(inject(TILE, SUPERVISOR, IPU21_HOST_INJECT_LD32_M0_M1),
                      IPU21_HOST_STS_DOUBLE);
    ck_assert_uint_eq(etype(TILE, SUPERVISOR), SIM_ETYPE_PBRK0);
    ck_assert_uint_eq(get_pc(TILE, SUPERVISOR), symbol("stop"));
    ck_assert_uint_eq(inject(TILE, WORKER, IPU21_HOST_INJECT_GET(0, 0x7)), IPU21_HOST_STS_DOUBLE);
    ck_assert_uint_eq(status(TILE, WORKER), IPU21_HOST_CONTEXT_INACTIVE);
}
END_TEST

START_TEST(reset_forgets_breaks)
{
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_RBRK), IPU21_HOST_RBRK_RESET);
    tdi_write(TILE, IPU21_HOST_TDI_RBRK, 1);
    tdi_write(TILE, IPU21_HOST_TDI_ECSR, 1 << 5);
    tdi_write(TILE, IPU21_HOST_TDI_CTL, 3);
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_CTL), 3);
    reset_board(board);
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_RBRK), IPU21_HOST_RBRK_RESET);
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_ECSR), 0);
    ck_assert_uint_eq(tdi_read(TILE, IPU21_HOST_TDI_CTL), 0);
    start(HEAD "sync 2\n" WAIT);
    ck_assert_uint_eq(status(TILE, SUPERVISOR), IPU21_HOST_CONTEXT_INACTIVE);
}
END_TEST

static Suite *tdi_suite(void)
{
    Suite *suite = suite_create("sim_tdi");
    TCase *shows = tcase_create("shows");
    tcase_add_checked_fixture(shows, setup, teardown);
    tcase_add_test(shows, waiting_and_idle_contexts_read_0);
    tcase_add_test(shows, running_contexts_read_1);
    tcase_add_test(shows, running_supervisor_reads_1);
    tcase_add_test(shows, tiles_are_addressed_by_physical_id);
    tcase_add_loop_test(shows, exception_shows_its_type_and_pc, 0, sizeof stops / sizeof *stops);
    tcase_add_test(shows, branch_to_address_0_shows_invalid_pc);
    tcase_add_test(shows, worker_exception_stands_in_its_own_context);
    tcase_add_test(shows, receive_error_shows_in_the_status);
    tcase_add_test(shows, stopped_context_shows_all_registers_and_keeps_them);
    tcase_add_test(shows, idle_worker_reads_memory_beside_a_running_supervisor);
    tcase_add_test(shows, written_word_is_executed);
    tcase_add_test(shows, written_word_is_seen_by_workers);
    tcase_add_test(shows, data_count_is_live);
    suite_add_tcase(suite, shows);

    TCase *goes_on = tcase_create("goes_on");
    tcase_add_checked_fixture(goes_on, setup, teardown);
    tcase_add_test(goes_on, trapped_context_goes_on_behind_its_trap);
    tcase_add_test(goes_on, branch_moves_the_pc);
    tcase_add_test(goes_on, trap_that_is_not_passed_traps_again);
    tcase_add_test(goes_on, trapped_worker_goes_on);
    tcase_add_test(goes_on, chip_stands_until_the_last_exception_is_cleared);
    tcase_add_test(goes_on, run_break_holds_and_releases_a_running_supervisor);
    tcase_add_test(goes_on, cleared_context_is_held_again_while_its_break_stands);
    tcase_add_test(goes_on, run_break_stops_a_worker_at_its_first_instruction);
    tcase_add_test(goes_on, run_break_changes_no_result_and_no_cycle);
    tcase_add_test(goes_on, waiting_supervisor_can_be_held);
    tcase_add_test(goes_on, break_on_sync_stops_before_every_sync);
    suite_add_tcase(suite, goes_on);

    TCase *refuses = tcase_create("refuses");
    tcase_add_checked_fixture(refuses, setup, teardown);
    tcase_add_loop_test(refuses, words_that_are_no_plain_instruction_are_refused, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(refuses, running_context_executes_nothing);
    tcase_add_test(refuses, exception_of_an_injected_word_sets_double_and_changes_nothing);
    tcase_add_test(refuses, reset_forgets_breaks);
    suite_add_tcase(suite, refuses);
    return suite;
}

int main(void)
{
    return board_run_suite(tdi_suite());
}
