/* module: device/sim */
/* The board: every ioctl and its errors, the rules of its registers, the autoloader, the marks, the
 * clock, and failures on demand. */
#include "tests/unit/board_support.h"

#include "device/ipu21/exchange.h"
#include "device/sim/chip.h"
#include "device/sim/observe.h"

#include <errno.h>
#include <stdatomic.h>

enum { PAGE = 4096, FREE_REGISTER = 0x403c };

static struct sim_board *board;
static uint8_t *pages;

static void setup(void)
{
    board = new_board(1);
    pages = new_pages(64 * PAGE);
    reset_board(board);
}

static void teardown(void)
{
    munmap(pages, 64 * PAGE);
    sim_board_destroy(board);
}

static int control(uint32_t request, uintptr_t argument)
{
    return sim_board_ioctl(board, request, argument);
}

static uint32_t tile_word(unsigned tile, uint32_t address)
{
    uint32_t word = 0;
    ck_assert(sim_chip_read(sim_board_chip(board), tile, address, &word, 4));
    return word;
}

/* Waits for the host for ever, from 0x4c000 on. */
static const uint32_t waiting[] = {0x41800007, 0x40800000 | IPU21_SRAM_BASE >> 2};

static void start_waiting(void)
{
    autoload_words(board, waiting, 2);
}

/* --- ioctls --- */

START_TEST(device_belongs_to_one_process)
{
    ck_assert_int_eq(control(IPU21_HOST_USER_ATTACH, 1), -EINVAL);
    ck_assert_int_eq(control(IPU21_HOST_USER_ATTACH, 0), 0);
    ck_assert_int_eq(control(IPU21_HOST_USER_ATTACH, 0), -EBUSY);
}
END_TEST

static const uint32_t plain_requests[] = {
    IPU21_HOST_SET_IPU_ID,        IPU21_HOST_STOP_MONITORING, IPU21_HOST_START_MONITORING,
    IPU21_HOST_ACCUMULATE_ERRORS, IPU21_HOST_HEXOPT_IDENTITY, IPU21_HOST_RESET_NOTIFY,
    IPU21_HOST_BUFFER_DETACH_ALL,
};

START_TEST(plain_request_succeeds)
{
    ck_assert_int_eq(control(plain_requests[_i], 0), 0);
}
END_TEST

static const struct {
    uintptr_t argument;
    uint32_t request;
    int error;
} refused[] = {
    {1, IPU21_HOST_SET_IPU_ID, -EINVAL},       {1, IPU21_HOST_RESET_NOTIFY, -EINVAL},
    {0, IPU21_HOST_SET_SECONDARY_ID, -EFAULT}, {0, IPU21_HOST_BUFFER_ATTACH, -EFAULT},
    {0, IPU21_HOST_MAILBOX, -EFAULT},          {0, IPU21_HOST_BUFFER_DETACH, -EINVAL},
    {0, IPU21_HOST_IOCTL(0, 0, 99), -ENOTTY},  {0, IPU21_HOST_USER_ATTACH ^ 0x100, -ENOTTY},
};

START_TEST(bad_request_is_refused)
{
    ck_assert_int_eq(control(refused[_i].request, refused[_i].argument), refused[_i].error);
}
END_TEST

START_TEST(secondary_id_is_0)
{
    uint32_t id = 0;
    ck_assert_int_eq(control(IPU21_HOST_SET_SECONDARY_ID, (uintptr_t)&id), 0);
    id = 1;
    ck_assert_int_eq(control(IPU21_HOST_SET_SECONDARY_ID, (uintptr_t)&id), -EINVAL);
}
END_TEST

START_TEST(unknown_mail_is_an_io_error)
{
    struct ipu21_host_message request = {{IPU21_HOST_MESSAGE_RESET + 1}}, reply = {{7}};
    struct ipu21_host_mail mail = {&request, &reply};
    ck_assert_int_eq(control(IPU21_HOST_MAILBOX, (uintptr_t)&mail), -EIO);
    ck_assert_uint_eq(reply.word[0], 7);
}
END_TEST

START_TEST(reset_clears_registers_marks_and_memory)
{
    start_waiting();
    sim_board_write(board, FREE_REGISTER, 5);
    sim_board_write(board, IPU21_HOST_GS2, 3);
    ck_assert_uint_eq(tile_word(9, IPU21_SRAM_BASE), waiting[0]);
    reset_board(board);
    ck_assert_uint_eq(sim_board_read(board, FREE_REGISTER), 0);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_GS2), 0);
    ck_assert_uint_eq(tile_word(9, IPU21_SRAM_BASE), 0);
    /* Nothing runs: a mark stays. */
    ck_assert(!rendezvous(board, IPU21_HOST_GS1, 1));
}
END_TEST

/* --- buffers --- */

START_TEST(buffers_follow_each_other)
{
    ck_assert_int_eq(attach(board, 1, pages, PAGE), -EINVAL);
    ck_assert_int_eq(attach(board, 0, pages, PAGE), 0);
    ck_assert_int_eq(attach(board, 0, pages + 8 * PAGE, PAGE), -EINVAL);
    ck_assert_int_eq(attach(board, 1, pages + 2 * PAGE, 3 * PAGE), 0);
    ck_assert_int_eq(control(IPU21_HOST_BUFFER_DETACH_ALL, 0), 0);
    ck_assert_int_eq(attach(board, 1, pages, PAGE), -EINVAL);
    ck_assert_int_eq(attach(board, 0, pages, PAGE), 0);
}
END_TEST

START_TEST(unsound_buffer_is_refused)
{
    ck_assert_int_eq(attach(board, 0, pages + 4, PAGE), -EINVAL);
    ck_assert_int_eq(attach(board, 0, pages, 0), -EINVAL);
    ck_assert_int_eq(attach(board, 0, pages, 100), -EINVAL);
    ck_assert_int_eq(attach(board, 0, NULL, PAGE), -EINVAL);
    struct ipu21_host_buffer beyond = {0, 2 * PAGE, UINT64_MAX - PAGE + 1};
    ck_assert_int_eq(control(IPU21_HOST_BUFFER_ATTACH, (uintptr_t)&beyond), -EINVAL);
    ck_assert_int_eq(attach(board, UINT32_MAX, pages, PAGE), -EINVAL);
}
END_TEST

START_TEST(overlapping_buffer_is_refused)
{
    ck_assert_int_eq(attach(board, 0, pages + 4 * PAGE, 4 * PAGE), 0);
    ck_assert_int_eq(attach(board, 1, pages + 7 * PAGE, PAGE), -EINVAL);
    ck_assert_int_eq(attach(board, 1, pages, 5 * PAGE), -EINVAL);
    ck_assert_int_eq(attach(board, 1, pages, 4 * PAGE), 0);
    ck_assert_int_eq(attach(board, 2, pages + 8 * PAGE, PAGE), 0);
}
END_TEST

START_TEST(detached_buffer_leaves_a_hole_of_its_size)
{
    ck_assert_int_eq(attach(board, 0, pages, PAGE), 0);
    ck_assert_int_eq(attach(board, 1, pages + PAGE, 2 * PAGE), 0);
    ck_assert_int_eq(attach(board, 2, pages + 4 * PAGE, PAGE), 0);
    ck_assert_int_eq(control(IPU21_HOST_BUFFER_DETACH, 1), 0);
    ck_assert_int_eq(control(IPU21_HOST_BUFFER_DETACH, 1), -EINVAL);
    ck_assert_int_eq(attach(board, 1, pages + 8 * PAGE, PAGE), -EINVAL);
    ck_assert_int_eq(attach(board, 1, pages + 8 * PAGE, 2 * PAGE), 0);
    ck_assert_int_eq(control(IPU21_HOST_BUFFER_DETACH, 2), 0);
    ck_assert_int_eq(attach(board, 2, pages + 8 * PAGE, PAGE), -EINVAL); /* overlaps */
    ck_assert_int_eq(attach(board, 2, pages + 12 * PAGE, 4 * PAGE), 0);  /* the last: any size */
}
END_TEST

START_TEST(no_more_buffers_than_there_are_entries)
{
    unsigned count = 0;
    while (count < 64 && attach(board, count, pages + (size_t)count * PAGE, PAGE) == 0)
        count++;
    ck_assert_uint_eq(count, 64);
    uint8_t *more = new_pages(PAGE);
    ck_assert_int_eq(attach(board, 64, more, PAGE), -EINVAL);
    munmap(more, PAGE);
}
END_TEST

/* Tile 0 owns its column: it grants itself a read of 64 bytes at device offset 3 * PAGE. */
static void start_reader(void)
{
    uint32_t headers[] = {1, 0, 0xec000200, 3 * PAGE / 64 << 4 | 1};
    uint32_t code[64] = {0}, n = 0;
    code[n++] = ipu21_setzi(8, IPU21_MUX_HOST);
    code[n++] = ipu21_put(IPU21_CSR_INCOMING_MUX, 8);
    code[n++] = 0x41000000 | 3 | 2 << 16;                           /* get $m2, $TILE_ID */
    code[n++] = 0x13000000 | 2 << 20 | (IPU21_SRAM_BASE + 32) >> 2; /* brz $m2, reader */
    code[n++] = ipu21_sans(0);
    code[n++] = ipu21_sync(IPU21_ZONE_ANS);
    code[n++] = ipu21_sync(IPU21_ZONE_HOST);
    code[n++] = 0x40800000 | (IPU21_SRAM_BASE + 24) >> 2;
    ck_assert_uint_eq(n, 8); /* reader: the headers go where no code is */
    code[n++] = ipu21_setzi(3, 0x90000);
    for (unsigned i = 0; i < 4; i++) {
        code[n++] = ipu21_setzi(4, headers[i] & 0xfffff);
        code[n++] = 0x4200c000 | 4 << 20 | 4 << 16 | headers[i] >> 20; /* or $m4, $m4, high bits */
        code[n++] = 0x4f000000 | 3 << 20 | 4 << 16 | 15 << 12 | i;     /* st32 */
    }
    code[n++] = ipu21_setzi(8, 16);
    code[n++] = ipu21_sync(IPU21_ZONE_HOST_MASTER);
    code[n++] = ipu21_put(IPU21_CSR_INCOMING_DCOUNT, 8);
    code[n++] = ipu21_send(2, 0x90000 / 4, IPU21_SEND_BOTH);
    code[n++] = ipu21_send(2, 0x90008 / 4, IPU21_SEND_BOTH);
    code[n++] = ipu21_sync(IPU21_ZONE_RECEIVE);
    code[n] = 0x40800000 | (IPU21_SRAM_BASE + 24) >> 2;
    autoload_words(board, code, n + 1);
}

START_TEST(device_offsets_run_through_the_buffers)
{
    ck_assert_int_eq(attach(board, 0, pages, 2 * PAGE), 0);
    ck_assert_int_eq(attach(board, 1, pages + 8 * PAGE, 4 * PAGE), 0);
    memset(pages + 9 * PAGE, 0x77, 64);
    start_reader();
    ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
    ck_assert_uint_eq(tile_word(0, IPU21_HOST_WINDOW), 0x77777777);
    ck_assert_uint_eq(tile_word(0, IPU21_HOST_WINDOW + 60), 0x77777777);
    ck_assert_uint_eq(tile_word(0, IPU21_HOST_WINDOW + 64), 0);
}
END_TEST

START_TEST(buffers_outlive_a_reset)
{
    ck_assert_int_eq(attach(board, 0, pages, 4 * PAGE), 0);
    memset(pages + 3 * PAGE, 0x31, 64);
    reset_board(board);
    start_reader();
    ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
    ck_assert_uint_eq(tile_word(0, IPU21_HOST_WINDOW), 0x31313131);
}
END_TEST

static void expect_fault(const char *words)
{
    ck_assert(!rendezvous(board, IPU21_HOST_GS1, 1));
    const struct sim_fault *fault = sim_chip_fault(sim_board_chip(board));
    ck_assert_ptr_nonnull(fault);
    ck_assert_msg(strstr(fault->text, words) != NULL, "\"%s\" is not in: %s", words, fault->text);
}

START_TEST(detached_buffer_cannot_be_reached)
{
    ck_assert_int_eq(attach(board, 0, pages, 3 * PAGE), 0);
    ck_assert_int_eq(attach(board, 1, pages + 8 * PAGE, 3 * PAGE), 0);
    ck_assert_int_eq(attach(board, 2, pages + 16 * PAGE, 3 * PAGE), 0);
    ck_assert_int_eq(control(IPU21_HOST_BUFFER_DETACH, 1), 0);
    start_reader();
    expect_fault("leaves the attached host pages");
}
END_TEST

START_TEST(closed_window_passes_nothing)
{
    ck_assert_int_eq(attach(board, 0, pages, 4 * PAGE), 0);
    sim_board_write(board, IPU21_HOST_WINDOW_BASE, ~IPU21_HOST_WINDOW_BASE_HEXOPT);
    start_reader();
    expect_fault("closed (HEXOPT)");
}
END_TEST

/* Context 0 of block 0 serves tile 0. */
static const struct {
    uint32_t dcxcr;
    bool passes;
} blocks[] = {
    {IPU21_HOST_DCXCR_PRIMARY, true},   {IPU21_HOST_DCXCR_SECONDARY, true},
    {IPU21_HOST_DCXCR_DISABLED, false}, {0, false},
    {2u | 0x3fu << 3, false},           {2u | 0x3fu << 9, true},
};

START_TEST(exchange_block_routes_by_its_register)
{
    ck_assert_int_eq(attach(board, 0, pages, 4 * PAGE), 0);
    sim_board_write(board, IPU21_HOST_DCXCR(0), blocks[_i].dcxcr);
    start_reader();
    if (blocks[_i].passes)
        ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
    else
        expect_fault("disabled (DCXCR)");
}
END_TEST

/* --- registers --- */

START_TEST(registers_without_meaning_are_storage)
{
    static const uint32_t offsets[] = {0,
                                       IPU21_HOST_CCSR,
                                       FREE_REGISTER,
                                       0x4018,
                                       0x5400,
                                       IPU21_HOST_DCXCR(15),
                                       IPU21_HOST_WINDOW_BYTES - 4};
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++)
        sim_board_write(board, offsets[i], 0x1000 + i);
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++)
        ck_assert_uint_eq(sim_board_read(board, offsets[i]), 0x1000 + i);
}
END_TEST

START_TEST(accesses_beyond_the_window_or_unaligned_do_nothing)
{
    sim_board_write(board, FREE_REGISTER, 5);
    sim_board_write(board, FREE_REGISTER + 2, 6);
    sim_board_write(board, IPU21_HOST_WINDOW_BYTES, 6);
    sim_board_write(board, UINT32_MAX - 3, 6);
    ck_assert_uint_eq(sim_board_read(board, FREE_REGISTER), 5);
    ck_assert_uint_eq(sim_board_read(board, FREE_REGISTER + 2), UINT32_MAX);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_WINDOW_BYTES), UINT32_MAX);
    ck_assert_uint_eq(sim_board_read(board, UINT32_MAX - 3), UINT32_MAX);
}
END_TEST

START_TEST(marks_have_16_bits)
{
    sim_board_write(board, IPU21_HOST_GS1, 0x12340017);
    sim_board_write(board, IPU21_HOST_GS2, 0xffff0000);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_GS1), 0x17);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_GS2), 0);
}
END_TEST

/* --- autoloader --- */

static const uint32_t pattern[256] = {0x19e00000, 0x41800007, 0x40800000 | LOADER_ENTRY >> 2, 77};

START_TEST(autoloader_fills_and_starts_every_tile)
{
    autoload_words(board, pattern, 256);
    sim_board_run(board, POLL_CYCLES, NULL);
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        ck_assert_uint_eq(tile_word(i, IPU21_SRAM_BASE + 12), 77);
        ck_assert_uint_eq(sim_tile_pc(sim_chip_tile(sim_board_chip(board), i), 0), 0x4c008);
    }
}
END_TEST

START_TEST(first_go_fills_the_first_tile_alone_and_starts_nothing)
{
    fill_fifo(board, pattern, 1024);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_AUTOLD_CSR), IPU21_HOST_AUTOLD_PRESENT | 63);
    ck_assert(go_first(board, 1024));
    ck_assert_uint_eq(tile_word(0, IPU21_SRAM_BASE + 12), 77);
    ck_assert_uint_eq(tile_word(1, IPU21_SRAM_BASE + 12), 0);
    ck_assert(!rendezvous(board, IPU21_HOST_GS1, 1));
}
END_TEST

START_TEST(go_clears_after_device_time_and_the_host_is_woken)
{
    fill_fifo(board, pattern, 1024);
    sim_board_write(board, IPU21_HOST_AUTOLD_TARGET, IPU21_HOST_AUTOLD_ZONE | 1u << 10);
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR,
                    IPU21_HOST_AUTOLD_PRESENT | IPU21_HOST_AUTOLD_GO | 63);
    ck_assert_uint_ne(sim_board_read(board, IPU21_HOST_AUTOLD_CSR) & IPU21_HOST_AUTOLD_GO, 0);
    uint64_t before = sim_board_cycle(board);
    sim_board_run(board, 10, NULL);
    ck_assert_uint_ne(sim_board_read(board, IPU21_HOST_AUTOLD_CSR) & IPU21_HOST_AUTOLD_GO, 0);
    sim_board_run(board, PATIENCE, NULL);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_AUTOLD_CSR) & IPU21_HOST_AUTOLD_GO, 0);
    ck_assert_uint_eq(sim_board_cycle(board), before + 256); /* not PATIENCE */
}
END_TEST

START_TEST(target_written_during_a_go_does_not_change_it)
{
    fill_fifo(board, pattern, 1024);
    sim_board_write(board, IPU21_HOST_AUTOLD_TARGET, IPU21_HOST_AUTOLD_ZONE | 1u << 10);
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR,
                    IPU21_HOST_AUTOLD_PRESENT | IPU21_HOST_AUTOLD_GO | 63);
    sim_board_write(board, IPU21_HOST_AUTOLD_TARGET, IPU21_HOST_AUTOLD_ZONE | 624u << 10);
    uint32_t before = tile_word(0, IPU21_SRAM_BASE + 1024);
    sim_board_run(board, PATIENCE, NULL);
    ck_assert_uint_eq(tile_word(0, IPU21_SRAM_BASE + 12), 77);
    for (uint32_t at = 1024; at < IPU21_SRAM_BYTES; at += 4)
        if (tile_word(0, IPU21_SRAM_BASE + at) != before)
            ck_abort_msg("the word at 0x%x is not what it was", IPU21_SRAM_BASE + at);
}
END_TEST

START_TEST(broadcast_zeroes_the_rest_of_sram)
{
    struct sim_chip *chip = sim_board_chip(board);
    uint32_t dirt = 0xdddddddd;
    ck_assert(sim_chip_write(chip, 1471, 0x90000, &dirt, 4));
    ck_assert(sim_chip_write(chip, 0, 0x4c400, &dirt, 4));
    autoload_words(board, pattern, 256);
    ck_assert_uint_eq(tile_word(1471, 0x90000), 0);
    ck_assert_uint_eq(tile_word(0, 0x4c400), 0);
}
END_TEST

START_TEST(broadcast_ends_at_the_tile_that_it_names)
{
    fill_fifo(board, pattern, 1024);
    ck_assert(go_first(board, 1024));
    sim_board_write(board, IPU21_HOST_AUTOLD_TARGET, IPU21_HOST_AUTOLD_ZONE | 624u << 10 | 1);
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR, 99u << 9 | IPU21_HOST_AUTOLD_GO | 63);
    ck_assert(wait_clear(board, IPU21_HOST_AUTOLD_CSR, IPU21_HOST_AUTOLD_GO));
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_AUTOLD_CSR), 99u << 9 | 63);
    ck_assert_uint_eq(tile_word(99, IPU21_SRAM_BASE + 12), 77);
    ck_assert_uint_eq(tile_word(100, IPU21_SRAM_BASE + 12), 0);
}
END_TEST

/* TARGET and CSR of a first GO with 256 words in the FIFO. */
static const struct {
    uint32_t target, csr;
} stuck[] = {
    {IPU21_HOST_AUTOLD_ZONE | 2u << 10, 63},     /* more KiB than there are words */
    {IPU21_HOST_AUTOLD_ZONE | 1u << 10, 62},     /* another number of words */
    {IPU21_HOST_AUTOLD_ZONE | 1u << 10 | 1, 63}, /* not at the start */
    {IPU21_HOST_AUTOLD_ZONE, 63},                /* nothing */
    {IPU21_HOST_AUTOLD_ZONE / 2 | 1u << 10, 63}, /* another zone */
};

START_TEST(unsound_go_never_ends_until_csr_is_cleared)
{
    fill_fifo(board, pattern, 1024);
    sim_board_write(board, IPU21_HOST_AUTOLD_TARGET, stuck[_i].target);
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR,
                    IPU21_HOST_AUTOLD_PRESENT | IPU21_HOST_AUTOLD_GO | stuck[_i].csr);
    ck_assert(!wait_clear(board, IPU21_HOST_AUTOLD_CSR, IPU21_HOST_AUTOLD_GO));
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR, 0);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_AUTOLD_CSR), 0);
    start_waiting();
    ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
}
END_TEST

START_TEST(broadcast_without_a_first_fill_never_ends)
{
    fill_fifo(board, pattern, 1024);
    ck_assert(!go_broadcast(board, 1024));
}
END_TEST

START_TEST(overlong_fifo_is_cut)
{
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR, 0);
    for (unsigned i = 0; i < IPU21_SRAM_BYTES / 4 + 100; i++)
        sim_board_write(board, IPU21_HOST_AUTOLD_DATA, i);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_AUTOLD_CSR) & 0x3f,
                      (IPU21_SRAM_BYTES / 4 - 1) & 0x3f);
}
END_TEST

/* --- marks and time --- */

START_TEST(mark_releases_one_sync)
{
    start_waiting();
    for (unsigned i = 0; i < 5; i++)
        ck_assert(rendezvous(board, i == 0 ? IPU21_HOST_GS1 : IPU21_HOST_GS2, 1));
    sim_board_write(board, IPU21_HOST_GS1, 1);
    sim_board_run(board, PATIENCE, NULL);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_GS1), 1); /* nobody waits in GS1 now */
}
END_TEST

/* Both syncs of a round, a long delay after each: when does the mark read 0? */
static void start_delayed(uint32_t zone)
{
    const uint32_t code[] = {ipu21_sync(IPU21_ZONE_HOST), ipu21_sync(zone), ipu21_delay(100000),
                             0x40800000 | (IPU21_SRAM_BASE + 4) >> 2};
    autoload_words(board, code, 4);
    ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
    sim_board_run(board, PATIENCE, NULL);
}

static uint64_t cycles_of(uint32_t offset)
{
    uint64_t before = sim_chip_cycle(sim_board_chip(board));
    ck_assert(rendezvous(board, offset, 1));
    return sim_chip_cycle(sim_board_chip(board)) - before;
}

START_TEST(gs2_reads_0_when_its_sync_is_passed)
{
    start_delayed(7);
    ck_assert_uint_lt(cycles_of(IPU21_HOST_GS2), 100000);
}
END_TEST

START_TEST(gs1_reads_0_when_all_tiles_have_met_again)
{
    start_delayed(5);
    ck_assert_uint_ge(cycles_of(IPU21_HOST_GS1), 100000);
}
END_TEST

START_TEST(clock_goes_on_while_nothing_can_happen)
{
    start_waiting();
    sim_board_run(board, POLL_CYCLES, NULL);
    uint64_t before = sim_board_cycle(board), chip = sim_chip_cycle(sim_board_chip(board));
    sim_board_run(board, 12345, NULL);
    ck_assert_uint_eq(sim_board_cycle(board), before + 12345);
    ck_assert_uint_eq(sim_chip_cycle(sim_board_chip(board)), chip);
    reset_board(board);
    before = sim_board_cycle(board);
    sim_board_run(board, 100, NULL);
    ck_assert_uint_eq(sim_board_cycle(board), before + 100);
}
END_TEST

/* Never waits. */
static const uint32_t loop[] = {0x40800000 | IPU21_SRAM_BASE >> 2};

START_TEST(running_device_advances_by_what_was_asked)
{
    autoload_words(board, loop, 1);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t before = sim_board_cycle(board);
        sim_board_run(board, 1000, NULL);
        ck_assert_uint_ge(sim_board_cycle(board), before + 1000);
        ck_assert_uint_le(sim_board_cycle(board), before + 1010);
    }
}
END_TEST

START_TEST(cancelled_run_returns_at_once)
{
    atomic_bool cancel = true;
    autoload_words(board, loop, 1);
    uint64_t before = sim_board_cycle(board);
    sim_board_run(board, UINT64_MAX / 4, &cancel);
    ck_assert_uint_lt(sim_board_cycle(board), before + PATIENCE);
}
END_TEST

static void count_stop(void *context, struct sim_chip *chip)
{
    (void)chip;
    ++*(unsigned *)context;
}

START_TEST(clock_goes_on_when_an_observer_has_stopped_the_chip)
{
    static struct sim_observer observer; /* too big for the stack of a test */
    unsigned stops = 0;
    observer = (struct sim_observer){.stop_at = 5000, .stopped = count_stop, .context = &stops};
    autoload_words(board, loop, 1);
    sim_chip_observe(sim_board_chip(board), &observer);
    uint64_t before = sim_board_cycle(board);
    sim_board_run(board, 20000, NULL);
    ck_assert_uint_eq(stops, 1);
    ck_assert_uint_eq(sim_board_cycle(board), before + 20000);
    ck_assert_uint_lt(sim_chip_cycle(sim_board_chip(board)), 5010);
}
END_TEST

/* --- failures on demand --- */

START_TEST(unplugged_board_is_gone)
{
    sim_board_write(board, FREE_REGISTER, 5);
    sim_board_fail(board, SIM_BOARD_UNPLUG, 2);
    ck_assert_uint_eq(sim_board_read(board, FREE_REGISTER), 5);
    ck_assert_int_eq(control(IPU21_HOST_SET_IPU_ID, 0), 0);
    ck_assert_uint_eq(sim_board_read(board, FREE_REGISTER), UINT32_MAX);
    ck_assert_int_eq(control(IPU21_HOST_SET_IPU_ID, 0), -ENODEV);
    ck_assert_int_eq(attach(board, 0, pages, PAGE), -ENODEV);
    sim_board_write(board, FREE_REGISTER, 6);
    sim_board_run(board, 100, NULL);
    ck_assert_uint_eq(sim_board_read(board, FREE_REGISTER), UINT32_MAX);
}
END_TEST

START_TEST(refused_mail_is_answered_with_something_else)
{
    struct ipu21_host_message request = {{IPU21_HOST_MESSAGE_RESET}}, reply = {{0}};
    struct ipu21_host_mail mail = {&request, &reply};
    sim_board_write(board, FREE_REGISTER, 5);
    sim_board_fail(board, SIM_BOARD_MAIL_REFUSED, 0);
    ck_assert_int_eq(control(IPU21_HOST_MAILBOX, (uintptr_t)&mail), 0);
    ck_assert_uint_ne(reply.word[0] >> 16, IPU21_HOST_MESSAGE_RESET >> 16);
    ck_assert_uint_eq(sim_board_read(board, FREE_REGISTER), 5); /* nothing was reset */
}
END_TEST

START_TEST(stuck_mark_never_clears)
{
    start_waiting();
    ck_assert(rendezvous(board, IPU21_HOST_GS1, 1));
    sim_board_fail(board, SIM_BOARD_MARK_STUCK, 1);
    ck_assert(rendezvous(board, IPU21_HOST_GS2, 1));
    ck_assert(!rendezvous(board, IPU21_HOST_GS2, 9));
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_GS2), 9);
    ck_assert_uint_eq(sim_board_read(board, IPU21_HOST_GS1), 0);
}
END_TEST

START_TEST(stuck_loader_never_ends)
{
    sim_board_fail(board, SIM_BOARD_LOADER_STUCK, 1);
    fill_fifo(board, pattern, 1024);
    ck_assert(go_first(board, 1024));
    ck_assert(!go_broadcast(board, 1024));
}
END_TEST

static void add_device_cases(Suite *suite)
{
    TCase *registers = tcase_create("registers");
    tcase_add_checked_fixture(registers, setup, teardown);
    tcase_add_test(registers, registers_without_meaning_are_storage);
    tcase_add_test(registers, accesses_beyond_the_window_or_unaligned_do_nothing);
    tcase_add_test(registers, marks_have_16_bits);
    suite_add_tcase(suite, registers);

    TCase *autoloader = tcase_create("autoloader");
    tcase_add_checked_fixture(autoloader, setup, teardown);
    tcase_add_test(autoloader, autoloader_fills_and_starts_every_tile);
    tcase_add_test(autoloader, first_go_fills_the_first_tile_alone_and_starts_nothing);
    tcase_add_test(autoloader, go_clears_after_device_time_and_the_host_is_woken);
    tcase_add_test(autoloader, target_written_during_a_go_does_not_change_it);
    tcase_add_test(autoloader, broadcast_zeroes_the_rest_of_sram);
    tcase_add_test(autoloader, broadcast_ends_at_the_tile_that_it_names);
    tcase_add_loop_test(autoloader, unsound_go_never_ends_until_csr_is_cleared, 0,
                        sizeof stuck / sizeof *stuck);
    tcase_add_test(autoloader, broadcast_without_a_first_fill_never_ends);
    tcase_add_test(autoloader, overlong_fifo_is_cut);
    suite_add_tcase(suite, autoloader);

    TCase *times = tcase_create("times");
    tcase_add_checked_fixture(times, setup, teardown);
    tcase_add_test(times, mark_releases_one_sync);
    tcase_add_test(times, gs2_reads_0_when_its_sync_is_passed);
    tcase_add_test(times, gs1_reads_0_when_all_tiles_have_met_again);
    tcase_add_test(times, clock_goes_on_while_nothing_can_happen);
    tcase_add_test(times, running_device_advances_by_what_was_asked);
    tcase_add_test(times, cancelled_run_returns_at_once);
    tcase_add_test(times, clock_goes_on_when_an_observer_has_stopped_the_chip);
    suite_add_tcase(suite, times);

    TCase *failures = tcase_create("failures");
    tcase_add_checked_fixture(failures, setup, teardown);
    tcase_add_test(failures, unplugged_board_is_gone);
    tcase_add_test(failures, refused_mail_is_answered_with_something_else);
    tcase_add_test(failures, stuck_mark_never_clears);
    tcase_add_test(failures, stuck_loader_never_ends);
    suite_add_tcase(suite, failures);
}

static Suite *board_suite(void)
{
    Suite *suite = suite_create("sim_board");
    TCase *ioctls = tcase_create("ioctls");
    tcase_add_checked_fixture(ioctls, setup, teardown);
    tcase_add_test(ioctls, device_belongs_to_one_process);
    tcase_add_loop_test(ioctls, plain_request_succeeds, 0,
                        sizeof plain_requests / sizeof *plain_requests);
    tcase_add_loop_test(ioctls, bad_request_is_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_test(ioctls, secondary_id_is_0);
    tcase_add_test(ioctls, unknown_mail_is_an_io_error);
    tcase_add_test(ioctls, reset_clears_registers_marks_and_memory);
    suite_add_tcase(suite, ioctls);

    TCase *buffers = tcase_create("buffers");
    tcase_add_checked_fixture(buffers, setup, teardown);
    tcase_add_test(buffers, buffers_follow_each_other);
    tcase_add_test(buffers, unsound_buffer_is_refused);
    tcase_add_test(buffers, overlapping_buffer_is_refused);
    tcase_add_test(buffers, detached_buffer_leaves_a_hole_of_its_size);
    tcase_add_test(buffers, no_more_buffers_than_there_are_entries);
    tcase_add_test(buffers, device_offsets_run_through_the_buffers);
    tcase_add_test(buffers, buffers_outlive_a_reset);
    tcase_add_test(buffers, detached_buffer_cannot_be_reached);
    tcase_add_test(buffers, closed_window_passes_nothing);
    tcase_add_loop_test(buffers, exchange_block_routes_by_its_register, 0,
                        sizeof blocks / sizeof *blocks);
    suite_add_tcase(suite, buffers);
    add_device_cases(suite);
    return suite;
}

int main(void)
{
    return board_run_suite(board_suite());
}
