/* The board around the simulated chip: everything of a card that the host reaches through the
 * kernel module (device/ipu21/host.h): the controller's mailbox, the configuration registers, the
 * autoloader, exchange blocks and the host window, the two marks, pinned pages, and the tile debug
 * interface. It knows no package and no graph: what runs is what the host has written.
 *
 * One owner thread. Register writes take effect at once, in program order; the chip advances only
 * in sim_board_run(). A register that facts/driver.md gives no meaning is plain storage.
 */
#ifndef IPU_SIM_BOARD_H
#define IPU_SIM_BOARD_H

#include "device/ipu21/host.h"
#include "device/sim/chip.h"

struct sim_board;

/* NULL: no memory. */
struct sim_board *sim_board_create(const struct sim_chip_options *options);
void sim_board_destroy(struct sim_board *board);

/* 0 or a negative errno value: EBUSY (attached already), EINVAL (unaligned, empty or overlapping
 * buffer, bad index or value), EFAULT (no argument), EIO (mailbox refused the message), ENODEV
 * (after SIM_BOARD_UNPLUG), ENOTTY. Rules of buffers: board_pages.c. */
int sim_board_ioctl(struct sim_board *board, uint32_t request, uintptr_t argument);
/* Offsets are aligned and inside the window, or the read gives all ones and the write nothing. */
uint32_t sim_board_read(struct sim_board *board, uint32_t offset);
void sim_board_write(struct sim_board *board, uint32_t offset, uint32_t value);

/* Advances the device by at most `cycles`, less when something changes that the host can see (a
 * mark clears, the autoloader finishes) or when `cancel` is set. A device in which nothing can
 * happen any more still advances its clock. */
void sim_board_run(struct sim_board *board, uint64_t cycles, const atomic_bool *cancel);
uint64_t sim_board_cycle(const struct sim_board *board);

/* For strict rows, fault texts and bundle counts only. */
struct sim_chip *sim_board_chip(struct sim_board *board);

/* Faults for tests: the n-th next use of an operation fails as asked. */
enum sim_board_failure {
    SIM_BOARD_UNPLUG,       /* reads give all ones from now on, ioctls ENODEV */
    SIM_BOARD_MAIL_REFUSED, /* the answer does not repeat the request */
    SIM_BOARD_MARK_STUCK,   /* marks never clear */
    SIM_BOARD_LOADER_STUCK  /* GO never clears */
};
void sim_board_fail(struct sim_board *board, enum sim_board_failure what, unsigned after);

#endif
