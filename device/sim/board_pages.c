/* Pinned buffers and the ways of host packets to them.
 *
 * Rules of attaching: a page-aligned address, a size that is a whole number of pages and not 0, an
 * index that follows the last one or was detached, no overlap with another attached buffer.
 * Anything else is EINVAL. Device offsets follow each other by index [G]: a buffer begins where the
 * one before it ends, so an index can be attached again only with the size it had, unless it is the
 * last.
 */
#include "device/sim/board_core.h"

#include <errno.h>
#include <string.h>

enum { PAGE = 4096 };

static bool overlaps(const struct board_buffer *buffer, uintptr_t address, uint64_t bytes)
{
    uintptr_t start = (uintptr_t)buffer->memory;
    return buffer->memory && address < start + buffer->bytes && start < address + bytes;
}

static bool is_sound(const struct sim_board *board, const struct ipu21_host_buffer *buffer)
{
    if (buffer->address == 0 || buffer->address % PAGE != 0 || buffer->size == 0 ||
        buffer->size % PAGE != 0 || buffer->address > UINTPTR_MAX - buffer->size)
        return false;
    for (unsigned i = 0; i < board->buffer_count; i++)
        if (overlaps(&board->buffers[i], (uintptr_t)buffer->address, buffer->size))
            return false;
    if (buffer->index >= HOST_MAX_PAGES || buffer->index > board->buffer_count)
        return false;
    if (buffer->index == board->buffer_count)
        return true;
    const struct board_buffer *hole = &board->buffers[buffer->index];
    return !hole->memory && hole->bytes == buffer->size;
}

static void map(struct sim_board *board, unsigned index)
{
    const struct board_buffer *b = &board->buffers[index];
    sim_chip_map(board->chip, index, b->memory, b->offset, b->bytes);
}

int board_attach(struct sim_board *board, const struct ipu21_host_buffer *buffer)
{
    if (!buffer)
        return -EFAULT;
    if (!is_sound(board, buffer))
        return -EINVAL;
    struct board_buffer *slot = &board->buffers[buffer->index];
    slot->memory = (uint8_t *)(uintptr_t)buffer->address; /* NOLINT(performance-no-int-to-ptr) */
    slot->bytes = buffer->size;
    slot->offset = buffer->index == 0 ? 0 : slot[-1].offset + slot[-1].bytes;
    if (buffer->index == board->buffer_count)
        board->buffer_count++;
    map(board, buffer->index);
    return 0;
}

int board_detach(struct sim_board *board, uintptr_t index)
{
    if (index >= board->buffer_count || !board->buffers[index].memory)
        return -EINVAL;
    board->buffers[index].memory = NULL;
    map(board, (unsigned)index);
    while (board->buffer_count > 0 && !board->buffers[board->buffer_count - 1].memory)
        board->buffer_count--;
    return 0;
}

void board_detach_all(struct sim_board *board)
{
    board->buffer_count = 0;
    sim_chip_detach_all(board->chip);
}

void board_map_again(struct sim_board *board)
{
    for (unsigned i = 0; i < board->buffer_count; i++)
        map(board, i);
}

/* --- routing --- */

/* A DCXCR holds the ids of four contexts. Which tiles a context serves is not public; 16 blocks of
 * 4 contexts are as many as the positions in a row, so context c of block b is taken to be that of
 * position 4 b + c [G]. A context routes packets when the block is on (bit 1) and its id is not the
 * one that disables [G]. */
static bool routes(uint32_t dcxcr, unsigned context)
{
    return (dcxcr & 2) != 0 && (dcxcr >> (3 + 6 * context) & 0x3f) != 0x3f;
}

void board_route(struct sim_board *board)
{
    uint64_t disabled = 0;
    for (unsigned p = 0; p < IPU21_TILE_GROUP; p++)
        if (!routes(board->registers[IPU21_HOST_DCXCR(p / 4) / 4], p % 4))
            disabled |= UINT64_C(1) << p;
    bool open = (board->registers[IPU21_HOST_WINDOW_BASE / 4] & IPU21_HOST_WINDOW_BASE_HEXOPT) != 0;
    sim_chip_route(board->chip, disabled, !open);
}

bool board_is_route(uint32_t offset)
{
    for (unsigned i = 0; i < IPU21_HOST_BLOCKS; i++)
        if (offset == IPU21_HOST_DCXCR(i))
            return true;
    return offset == IPU21_HOST_WINDOW_BASE;
}
