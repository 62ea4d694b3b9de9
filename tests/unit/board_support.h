/* A board as the host uses it: registers, ioctls and marks only, for tests. */
#ifndef TESTS_BOARD_SUPPORT_H
#define TESTS_BOARD_SUPPORT_H

#include "device/ipu21/memory.h"
#include "device/runtime/loader.h"
#include "device/sim/board.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    POLL_CYCLES = 150000, /* 100 us */
    PATIENCE = 150000000, /* cycles: 100 ms */
    BUFFER_BYTES = LOADER_BUFFER_BYTES
};

static inline struct sim_board *new_board(unsigned threads)
{
    struct sim_chip_options options = {.threads = threads, .strict = true};
    struct sim_board *board = sim_board_create(&options);
    ck_assert_ptr_nonnull(board);
    return board;
}

static inline void *new_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    return pages;
}

static inline int attach(struct sim_board *board, uint32_t index, void *memory, uint32_t bytes)
{
    struct ipu21_host_buffer buffer = {index, bytes, (uint64_t)(uintptr_t)memory};
    return sim_board_ioctl(board, IPU21_HOST_BUFFER_ATTACH, (uintptr_t)&buffer);
}

/* Polls until the masked bits of a register are 0; false: not in PATIENCE cycles. */
static inline bool wait_clear(struct sim_board *board, uint32_t offset, uint32_t mask)
{
    uint64_t end = sim_board_cycle(board) + PATIENCE;
    while ((sim_board_read(board, offset) & mask) != 0) {
        if (sim_board_cycle(board) >= end)
            return false;
        sim_board_run(board, POLL_CYCLES, NULL);
    }
    return true;
}

static inline bool rendezvous(struct sim_board *board, uint32_t offset, uint32_t mark)
{
    sim_board_write(board, offset, mark);
    return wait_clear(board, offset, IPU21_HOST_MARK_MASK);
}

/* Mailbox reset, routing and window as a configuration leaves them. */
static inline void reset_board(struct sim_board *board)
{
    struct ipu21_host_message request = {{IPU21_HOST_MESSAGE_RESET}}, reply = {{0}};
    struct ipu21_host_mail mail = {&request, &reply};
    ck_assert_int_eq(sim_board_ioctl(board, IPU21_HOST_MAILBOX, (uintptr_t)&mail), 0);
    ck_assert_uint_eq(reply.word[0] >> 16, IPU21_HOST_MESSAGE_RESET >> 16);
    for (unsigned i = 0; i < IPU21_HOST_BLOCKS; i++)
        sim_board_write(board, IPU21_HOST_DCXCR(i),
                        i < IPU21_HOST_PRIMARY_BLOCKS ? IPU21_HOST_DCXCR_PRIMARY
                                                      : IPU21_HOST_DCXCR_SECONDARY);
    sim_board_write(board, IPU21_HOST_WINDOW_BASE, IPU21_HOST_WINDOW_BASE_HEXOPT);
}

static inline void fill_fifo(struct sim_board *board, const void *bytes, uint32_t size)
{
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR, 0);
    for (uint32_t i = 0; i < size; i += 4) {
        uint32_t word;
        memcpy(&word, (const uint8_t *)bytes + i, 4);
        sim_board_write(board, IPU21_HOST_AUTOLD_DATA, word);
    }
}

static inline bool go_first(struct sim_board *board, uint32_t size)
{
    sim_board_write(board, IPU21_HOST_AUTOLD_TARGET, IPU21_HOST_AUTOLD_ZONE | size / 1024 << 10);
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR,
                    IPU21_HOST_AUTOLD_PRESENT | IPU21_HOST_AUTOLD_GO | ((size / 4 - 1) & 0x3f));
    return wait_clear(board, IPU21_HOST_AUTOLD_CSR, IPU21_HOST_AUTOLD_GO);
}

static inline bool go_broadcast(struct sim_board *board, uint32_t size)
{
    sim_board_write(board, IPU21_HOST_AUTOLD_TARGET,
                    IPU21_HOST_AUTOLD_ZONE | 624u << 10 | size / 1024);
    sim_board_write(board, IPU21_HOST_AUTOLD_CSR,
                    (IPU21_TILES - 1u) << 9 | IPU21_HOST_AUTOLD_GO | ((size / 4 - 1) & 0x3f));
    return wait_clear(board, IPU21_HOST_AUTOLD_CSR, IPU21_HOST_AUTOLD_GO);
}

/* Bytes (a multiple of 1 KiB) at 0x4c000 of every tile, started there. */
static inline void autoload(struct sim_board *board, const void *bytes, uint32_t size)
{
    fill_fifo(board, bytes, size);
    ck_assert(go_first(board, size));
    ck_assert(go_broadcast(board, size));
}

/* Words from 0x4c000 on. */
static inline void autoload_words(struct sim_board *board, const uint32_t *words, size_t count)
{
    uint32_t code[1024] = {0};
    ck_assert_uint_le(count, 1024);
    memcpy(code, words, 4 * count);
    autoload(board, code, (uint32_t)((4 * count + 1023) / 1024 * 1024));
}

static inline void autoload_loader(struct sim_board *board)
{
    struct buffer loader = {0};
    struct ipu_error error = {0};
    ck_assert_msg(loader_build(&loader, &error) == 0, "%s", error.text);
    autoload(board, loader.data, (uint32_t)loader.size);
    buffer_free(&loader);
}

static inline int board_run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
