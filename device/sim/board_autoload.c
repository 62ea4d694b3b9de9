/* The autoloader: a FIFO of words, the fill of the first tile, the broadcast to all.
 *
 * Facts: facts/driver.md section 4, facts/host_protocol.md section 3. What they leave open is [G]:
 * - The first GO (data present) takes its KiB from the FIFO to the start of SRAM of tile 0. With
 *   fewer words there, or other low bits of their number than CSR says, it waits for ever.
 * - The second GO copies that from each tile to the next, in logical order, up to the last tile
 *   that CSR names; SRAM behind it, up to 624 KiB, is filled with zeros. Then all tiles start at
 *   0x4c000.
 * - Both take a cycle for each word and each tile; a target that is none of the two kinds never
 *   ends.
 */
#include "device/sim/board_core.h"

#include <string.h>

enum { KIB_WORDS = 256, POINTER = 0x3f };

struct target {
    uint32_t zone, kib, start;
};

static struct target target(const struct sim_board *board)
{
    uint32_t value = board->registers[IPU21_HOST_AUTOLD_TARGET / 4];
    return (struct target){value >> 20, value >> 10 & 0x3ff, value & 0x3ff};
}

static uint32_t pointer(const struct board_autoloader *loader)
{
    return (loader->words - 1) & POINTER;
}

void board_autoload_reset(struct sim_board *board)
{
    struct board_autoloader *loader = &board->autoloader;
    loader->words = loader->first_kib = loader->csr = 0;
    loader->busy = false;
}

uint32_t board_autoload_status(const struct sim_board *board)
{
    const struct board_autoloader *loader = &board->autoloader;
    uint32_t value = loader->csr & ~(IPU21_HOST_AUTOLD_GO | IPU21_HOST_AUTOLD_PRESENT | POINTER);
    if (loader->words != 0)
        value |= pointer(loader) | (loader->first_kib == 0 ? IPU21_HOST_AUTOLD_PRESENT : 0);
    return value | (loader->busy ? IPU21_HOST_AUTOLD_GO : 0);
}

static bool is_sound(const struct sim_board *board)
{
    const struct board_autoloader *loader = &board->autoloader;
    struct target to = target(board);
    if (to.zone != IPU21_HOST_AUTOLD_ZONE >> 20 || (loader->csr & POINTER) != pointer(loader))
        return false;
    if (!loader->broadcast)
        return to.start == 0 && to.kib != 0 && to.kib * KIB_WORDS <= loader->words;
    return loader->first_kib != 0 && to.start == loader->first_kib &&
           to.kib == IPU21_SRAM_BYTES / 1024;
}

static void go(struct sim_board *board)
{
    struct board_autoloader *loader = &board->autoloader;
    loader->busy = true;
    loader->broadcast = (loader->csr & IPU21_HOST_AUTOLD_PRESENT) == 0;
    loader->kib = target(board).kib; /* what is written to TARGET from here on is for later */
    uint64_t cycles = loader->kib * KIB_WORDS;
    if (loader->broadcast)
        cycles += IPU21_TILES;
    bool ends = is_sound(board) && !board_fails(board, SIM_BOARD_LOADER_STUCK);
    loader->done = ends ? board->cycle + cycles : UINT64_MAX;
}

void board_autoload_write(struct sim_board *board, uint32_t offset, uint32_t value)
{
    struct board_autoloader *loader = &board->autoloader;
    if (offset == IPU21_HOST_AUTOLD_DATA) {
        if (!loader->busy && loader->words < BOARD_FIFO_WORDS)
            loader->fifo[loader->words++] = value;
        return;
    }
    loader->csr = value;
    if ((value & IPU21_HOST_AUTOLD_GO) != 0) {
        go(board);
        return;
    }
    board_autoload_reset(board); /* also ends a GO that would never */
    loader->csr = value;
}

static void broadcast(struct sim_board *board)
{
    const struct board_autoloader *loader = &board->autoloader;
    uint32_t last = loader->csr >> 9 & 0x7ff, bytes = loader->first_kib * 1024;
    sim_chip_broadcast(board->chip, last + 1, loader->fifo, bytes);
    sim_chip_start(board->chip, IPU21_SRAM_BASE);
    board->started = true;
}

void board_autoload_finish(struct sim_board *board)
{
    struct board_autoloader *loader = &board->autoloader;
    loader->busy = false;
    if (loader->broadcast) {
        broadcast(board);
        return;
    }
    loader->first_kib = loader->kib;
    sim_chip_write(board->chip, 0, IPU21_SRAM_BASE, loader->fifo, loader->first_kib * 1024);
}
