/* Private to device/sim: the parts of a board that its files share (board.h). */
#ifndef IPU_SIM_BOARD_CORE_H
#define IPU_SIM_BOARD_CORE_H

#include "device/sim/board.h"

#include "device/ipu21/memory.h"
#include "device/sim/host.h"

enum {
    BOARD_WORDS = IPU21_HOST_WINDOW_BYTES / 4,
    BOARD_FIFO_WORDS = IPU21_SRAM_BYTES / 4,
    BOARD_FAILURES = SIM_BOARD_LOADER_STUCK + 1
};

/* A buffer that the host has attached. Its place in device offsets stays when it is detached. */
struct board_buffer {
    uint8_t *memory; /* NULL: detached */
    uint64_t offset, bytes;
};

struct board_autoloader {
    uint32_t *fifo;     /* BOARD_FIFO_WORDS */
    uint32_t words;     /* in it */
    uint32_t first_kib; /* words of the first tile that a GO has filled, in KiB; 0: none */
    uint32_t csr;       /* as written */
    uint32_t kib;       /* of the GO in progress */
    bool busy, broadcast;
    uint64_t done; /* board cycle at which the GO in progress ends */
};

/* What the debug interface of a tile remembers. */
struct board_tdi {
    uint32_t run_break; /* RBRK */
    uint32_t control;   /* CTL */
    uint8_t owner;
    bool break_on_sync, invalid, doubled;
};

struct sim_board {
    struct sim_chip *chip;
    uint64_t cycle; /* the board's clock; the chip's own stands while all tiles wait */
    bool attached, unplugged, started;
    uint32_t registers[BOARD_WORDS];
    struct board_buffer buffers[HOST_MAX_PAGES];
    unsigned buffer_count;
    struct board_autoloader autoloader;
    struct board_tdi tdi[IPU21_TILES]; /* by logical tile */
    struct {
        bool armed;
        unsigned after;
    } failures[BOARD_FAILURES];
    uint16_t stuck[3]; /* marks that never reach the chip, by group */
};

/* Whether an armed failure strikes this use. */
bool board_fails(struct sim_board *board, enum sim_board_failure what);

/* --- board_pages.c: 0 or a negative errno value --- */
int board_attach(struct sim_board *board, const struct ipu21_host_buffer *buffer);
int board_detach(struct sim_board *board, uintptr_t index);
void board_detach_all(struct sim_board *board);
/* The chip has forgotten the buffers. */
void board_map_again(struct sim_board *board);
/* WINDOW_BASE or a DCXCR has been written. */
void board_route(struct sim_board *board);
bool board_is_route(uint32_t offset);

/* --- board_autoload.c --- */
void board_autoload_reset(struct sim_board *board);
uint32_t board_autoload_status(const struct sim_board *board);
void board_autoload_write(struct sim_board *board, uint32_t offset, uint32_t value);
/* The GO in progress has come to its end. */
void board_autoload_finish(struct sim_board *board);

/* --- board_tdi.c: `offset` counts from IPU21_HOST_TDI --- */
void board_tdi_reset(struct sim_board *board);
uint32_t board_tdi_read(struct sim_board *board, uint32_t offset);
void board_tdi_write(struct sim_board *board, uint32_t offset, uint32_t value);

#endif
