/* The board: ioctls, the register window, and the clock (board.h).
 *
 * The clock of the board runs while the chip runs, while the autoloader works, and on while nothing
 * can happen. The chip's own clock, which tiles read, stands while all of them wait for the host:
 * so what a program measures does not depend on the host [G].
 */
#include "device/sim/board_core.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>

struct sim_board *sim_board_create(const struct sim_chip_options *options)
{
    struct sim_board *board = ipu_calloc(1, sizeof *board);
    if (!board)
        return NULL;
    board->chip = sim_chip_create(options);
    board->autoloader.fifo = ipu_malloc(BOARD_FIFO_WORDS * sizeof *board->autoloader.fifo);
    if (!board->chip || !board->autoloader.fifo) {
        sim_board_destroy(board);
        return NULL;
    }
    sim_chip_stop_on_marks(board->chip);
    board_tdi_reset(board);
    board_route(board);
    return board;
}

void sim_board_destroy(struct sim_board *board)
{
    if (!board)
        return;
    sim_chip_destroy(board->chip);
    ipu_free(board->autoloader.fifo);
    ipu_free(board);
}

struct sim_chip *sim_board_chip(struct sim_board *board)
{
    return board->chip;
}

uint64_t sim_board_cycle(const struct sim_board *board)
{
    return board->cycle;
}

/* --- failures on demand --- */

void sim_board_fail(struct sim_board *board, enum sim_board_failure what, unsigned after)
{
    board->failures[what].armed = true;
    board->failures[what].after = after;
}

bool board_fails(struct sim_board *board, enum sim_board_failure what)
{
    if (!board->failures[what].armed)
        return false;
    if (board->failures[what].after == 0)
        return true;
    board->failures[what].after--;
    return false;
}

/* Every use of the board may be the one at which it goes. */
static bool is_gone(struct sim_board *board)
{
    board->unplugged = board->unplugged || board_fails(board, SIM_BOARD_UNPLUG);
    return board->unplugged;
}

/* --- ioctls --- */

/* All registers read 0 after a reset, marks included; buffers stay attached. */
static void reset(struct sim_board *board)
{
    sim_chip_reset(board->chip);
    board->started = false;
    memset(board->registers, 0, sizeof board->registers);
    memset(board->stuck, 0, sizeof board->stuck);
    board_autoload_reset(board);
    board_tdi_reset(board);
    board_map_again(board);
    board_route(board);
}

static int mailbox(struct sim_board *board, const struct ipu21_host_mail *mail)
{
    if (!mail || !mail->request || !mail->reply)
        return -EFAULT;
    struct ipu21_host_message request = *mail->request;
    if (request.word[0] != IPU21_HOST_MESSAGE_RESET)
        return -EIO; /* the only message of facts/driver.md section 3 */
    *mail->reply = (struct ipu21_host_message){0};
    if (board_fails(board, SIM_BOARD_MAIL_REFUSED))
        return 0;
    mail->reply->word[0] = request.word[0] & 0xffff0000u;
    reset(board);
    return 0;
}

static int user_attach(struct sim_board *board, uintptr_t value)
{
    if (value != 0)
        return -EINVAL;
    if (board->attached)
        return -EBUSY;
    board->attached = true;
    return 0;
}

static int secondary_id(uintptr_t argument)
{
    const uint32_t *id = (const uint32_t *)argument; /* NOLINT(performance-no-int-to-ptr) */
    if (!id)
        return -EFAULT;
    return *id == 0 ? 0 : -EINVAL;
}

int sim_board_ioctl(struct sim_board *board, uint32_t request, uintptr_t argument)
{
    if (is_gone(board))
        return -ENODEV;
    switch (request) {
    case IPU21_HOST_USER_ATTACH:
        return user_attach(board, argument);
    case IPU21_HOST_BUFFER_ATTACH: /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        return board_attach(board, (const struct ipu21_host_buffer *)argument);
    case IPU21_HOST_BUFFER_DETACH:
        return board_detach(board, argument);
    case IPU21_HOST_BUFFER_DETACH_ALL:
        board_detach_all(board);
        return 0;
    case IPU21_HOST_MAILBOX: /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        return mailbox(board, (const struct ipu21_host_mail *)argument);
    case IPU21_HOST_SET_IPU_ID:
    case IPU21_HOST_RESET_NOTIFY:
        return argument == 0 ? 0 : -EINVAL;
    case IPU21_HOST_SET_SECONDARY_ID:
        return secondary_id(argument);
    case IPU21_HOST_STOP_MONITORING:
    case IPU21_HOST_START_MONITORING:
    case IPU21_HOST_ACCUMULATE_ERRORS:
    case IPU21_HOST_HEXOPT_IDENTITY: /* the table is the identity from the start [G] */
        return 0;
    default:
        return -ENOTTY;
    }
}

/* --- registers --- */

static bool is_register(uint32_t offset)
{
    return offset % 4 == 0 && offset < IPU21_HOST_WINDOW_BYTES;
}

static bool is_tdi(uint32_t offset)
{
    return offset >= IPU21_HOST_TDI && offset < IPU21_HOST_TDI_REGISTER(IPU21_PHYSICAL_IDS, 0);
}

static unsigned mark_group(uint32_t offset)
{
    return offset == IPU21_HOST_GS1 ? 1 : 2;
}

static uint32_t mark_read(const struct sim_board *board, unsigned group)
{
    return board->stuck[group] ? board->stuck[group] : sim_chip_mark(board->chip, group);
}

static void mark_write(struct sim_board *board, unsigned group, uint32_t value)
{
    uint16_t mark = value & IPU21_HOST_MARK_MASK;
    board->stuck[group] = 0;
    if (mark != 0 && board_fails(board, SIM_BOARD_MARK_STUCK))
        board->stuck[group] = mark;
    else
        sim_chip_set_mark(board->chip, group, mark);
}

uint32_t sim_board_read(struct sim_board *board, uint32_t offset)
{
    if (is_gone(board) || !is_register(offset))
        return UINT32_MAX;
    if (is_tdi(offset))
        return board_tdi_read(board, offset - IPU21_HOST_TDI);
    switch (offset) {
    case IPU21_HOST_GS1:
    case IPU21_HOST_GS2:
        return mark_read(board, mark_group(offset));
    case IPU21_HOST_AUTOLD_CSR:
        return board_autoload_status(board);
    case IPU21_HOST_AUTOLD_DATA: /* a FIFO that only the autoloader empties */
        return 0;
    default:
        return board->registers[offset / 4];
    }
}

void sim_board_write(struct sim_board *board, uint32_t offset, uint32_t value)
{
    if (is_gone(board) || !is_register(offset))
        return;
    if (is_tdi(offset)) {
        board_tdi_write(board, offset - IPU21_HOST_TDI, value);
        return;
    }
    switch (offset) {
    case IPU21_HOST_GS1:
    case IPU21_HOST_GS2:
        mark_write(board, mark_group(offset), value);
        return;
    case IPU21_HOST_AUTOLD_CSR:
    case IPU21_HOST_AUTOLD_DATA:
        board_autoload_write(board, offset, value);
        return;
    default:
        board->registers[offset / 4] = value;
        if (board_is_route(offset))
            board_route(board);
    }
}

/* --- time --- */

/* True when the chip stopped early because the host can see a change. */
static bool run_chip(struct sim_board *board, uint64_t end, const atomic_bool *cancel)
{
    uint64_t before = sim_chip_cycle(board->chip);
    uint16_t marks[2] = {sim_chip_mark(board->chip, 1), sim_chip_mark(board->chip, 2)};
    enum sim_chip_state state = sim_chip_run(board->chip, before + (end - board->cycle), cancel);
    board->cycle += sim_chip_cycle(board->chip) - before;
    /* An observer's stop looks like a cancel; the chip then stands for good. */
    bool cancelled = state == SIM_CHIP_CANCELLED && cancel && atomic_load(cancel);
    return cancelled || marks[0] != sim_chip_mark(board->chip, 1) ||
           marks[1] != sim_chip_mark(board->chip, 2);
}

void sim_board_run(struct sim_board *board, uint64_t cycles, const atomic_bool *cancel)
{
    uint64_t end = board->cycle + cycles;
    struct board_autoloader *loader = &board->autoloader;
    if (loader->busy && loader->done <= end) {
        if (loader->done > board->cycle)
            board->cycle = loader->done;
        board_autoload_finish(board);
        return;
    }
    if (board->started && run_chip(board, end, cancel))
        return;
    if (end > board->cycle)
        board->cycle = end;
}
