/* The tile debug interface: facts/driver.md section 4, facts/host_protocol.md section 12.
 *
 * Everything takes effect at once, so STS never reads busy [G]. What is not public [G]:
 * - IEXEC in a context that runs, in no context, or of a word that may not be injected (a sync, a
 *   launch, an exchange instruction, half a bundle) does nothing and sets STS.invalid; an exception
 *   of the injected instruction sets STS.double and leaves the context as it was.
 * - STS.not-quiescent says that some context of the tile runs.
 * - A held or excepted context whose bit is cleared in ECLR while its run-break bit stands is held
 *   again before its next instruction.
 * - CTL is plain storage, as is RBRK but for the run-break bits.
 */
#include "device/sim/board_core.h"

#include <string.h>

enum { SPACING = 0x40, BREAK_MASK = 0x7f, ECSR_BREAK_ON_SYNC = 1 << 5 };

static struct sim_tile *tile_of(const struct sim_board *board, unsigned logical)
{
    return sim_chip_tile(board->chip, logical);
}

void board_tdi_reset(struct sim_board *board)
{
    memset(board->tdi, 0, sizeof board->tdi);
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        board->tdi[i].run_break = IPU21_HOST_RBRK_RESET;
        sim_tile_break(tile_of(board, i), 0);
        sim_tile_break_on_sync(tile_of(board, i), false);
    }
}

static uint32_t context_status(const struct sim_tile *tile)
{
    const struct sim_fault *fault = sim_tile_fault(tile);
    uint32_t value = 0;
    for (unsigned i = 0; i < IPU21_HOST_CONTEXTS; i++)
        value |= (uint32_t)sim_tile_status(tile, i) << (2 * i);
    if (!fault)
        return value;
    value |= (uint32_t)fault->receive_error << 27;
    if (fault->etype == SIM_ETYPE_EXERR)
        value |= UINT32_C(1) << 30;
    if (fault->etype == SIM_ETYPE_MEMERR)
        value |= UINT32_C(1) << 31;
    return value;
}

static uint32_t interface_status(const struct board_tdi *tdi, const struct sim_tile *tile)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < IPU21_HOST_CONTEXTS; i++)
        if (sim_tile_status(tile, i) == SIM_CONTEXT_ACTIVE)
            value = IPU21_HOST_STS_NOT_QUIESCENT;
    return value | (tdi->invalid ? IPU21_HOST_STS_INVALID : 0u) |
           (tdi->doubled ? IPU21_HOST_STS_DOUBLE : 0u);
}

uint32_t board_tdi_read(struct sim_board *board, uint32_t offset)
{
    unsigned logical = ipu21_logical(offset / SPACING);
    const struct board_tdi *tdi = &board->tdi[logical];
    struct sim_tile *tile = tile_of(board, logical);
    switch (offset % SPACING / 4) {
    case IPU21_HOST_TDI_CTXT_STS:
        return context_status(tile);
    case IPU21_HOST_TDI_RBRK:
        return tdi->run_break;
    case IPU21_HOST_TDI_IOWNER:
        return tdi->owner;
    case IPU21_HOST_TDI_ECSR:
        return tdi->break_on_sync ? ECSR_BREAK_ON_SYNC : 0;
    case IPU21_HOST_TDI_DATA:
        return sim_tile_debug_data(tile);
    case IPU21_HOST_TDI_STS:
        return interface_status(tdi, tile);
    case IPU21_HOST_TDI_DCOUNT:
        return sim_tile_exchange(tile)->incoming_dcount;
    case IPU21_HOST_TDI_EXCHANGE_CTL:
        return sim_tile_exchange_control(tile);
    case IPU21_HOST_TDI_CTL:
        return tdi->control;
    default:
        return 0;
    }
}

static void inject(struct board_tdi *tdi, struct sim_tile *tile, uint32_t word)
{
    enum sim_injection result = SIM_INJECT_REFUSED;
    if (tdi->owner < IPU21_HOST_CONTEXTS)
        result = sim_tile_inject(tile, tdi->owner, word);
    tdi->invalid = tdi->invalid || result == SIM_INJECT_REFUSED;
    tdi->doubled = tdi->doubled || result == SIM_INJECT_EXCEPTION;
}

static void clear_exceptions(struct sim_board *board, unsigned logical, uint32_t mask)
{
    for (unsigned i = 0; i < IPU21_HOST_CONTEXTS; i++)
        if ((mask >> i & 1) != 0)
            sim_tile_clear(tile_of(board, logical), i);
    sim_chip_continue(board->chip, logical);
}

void board_tdi_write(struct sim_board *board, uint32_t offset, uint32_t value)
{
    unsigned logical = ipu21_logical(offset / SPACING);
    struct board_tdi *tdi = &board->tdi[logical];
    struct sim_tile *tile = tile_of(board, logical);
    switch (offset % SPACING / 4) {
    case IPU21_HOST_TDI_RBRK:
        tdi->run_break = value;
        sim_tile_break(tile, value & BREAK_MASK);
        return;
    case IPU21_HOST_TDI_IEXEC:
        inject(tdi, tile, value);
        return;
    case IPU21_HOST_TDI_IOWNER:
        tdi->owner = value & 0xf;
        return;
    case IPU21_HOST_TDI_ECSR:
        tdi->break_on_sync = (value & ECSR_BREAK_ON_SYNC) != 0;
        sim_tile_break_on_sync(tile, tdi->break_on_sync);
        return;
    case IPU21_HOST_TDI_ECLR:
        clear_exceptions(board, logical, value);
        return;
    case IPU21_HOST_TDI_DATA:
        sim_tile_set_debug_data(tile, value);
        return;
    case IPU21_HOST_TDI_CLR:
        tdi->invalid = tdi->invalid && (value & IPU21_HOST_STS_INVALID) == 0;
        tdi->doubled = tdi->doubled && (value & IPU21_HOST_STS_DOUBLE) == 0;
        return;
    case IPU21_HOST_TDI_CTL:
        tdi->control = value & 3;
        return;
    default: /* read-only or no register */
        return;
    }
}
