/* The tile debug interface. */
#include "device/sim/board_core.h"

#include <string.h>

void board_tdi_reset(struct sim_board *board)
{
    memset(board->tdi, 0, sizeof board->tdi);
    for (unsigned i = 0; i < IPU21_TILES; i++)
        board->tdi[i].run_break = IPU21_HOST_RBRK_RESET;
}

uint32_t board_tdi_read(struct sim_board *board, uint32_t offset)
{
    unsigned tile = ipu21_logical(offset / 0x40);
    switch (offset % 0x40 / 4) {
    case IPU21_HOST_TDI_RBRK:
        return board->tdi[tile].run_break;
    default:
        return 0;
    }
}

void board_tdi_write(struct sim_board *board, uint32_t offset, uint32_t value)
{
    unsigned tile = ipu21_logical(offset / 0x40);
    if (offset % 0x40 / 4 == IPU21_HOST_TDI_RBRK)
        board->tdi[tile].run_break = value;
}
