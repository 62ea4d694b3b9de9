/* Private to device/driver: the tile debug interface (facts/driver.md section 4). It looks at the
 * contexts of a tile by executing single instructions in one that is stopped by an exception, or,
 * for memory, in an idle worker. Registers that it uses for that are put back.
 *
 * Tiles are named by their logical number. A step that takes longer than 100 ms of device time is
 * IPU_ERR_TIMEOUT.
 */
#ifndef IPU_DRIVER_TDI_H
#define IPU_DRIVER_TDI_H

#include "device/driver/card.h"

enum { TDI_REGISTERS = 16, TDI_ANY_CONTEXT = 15 };

/* CTXT_STS of a tile as it stands. */
struct tdi_status {
    uint8_t contexts[IPU21_HOST_CONTEXTS]; /* enum ipu21_host_context */
    uint8_t receive_error;                 /* facts/exchange.md section 7 */
    bool exchange_error, memory_error;
};
struct tdi_status tdi_status_read(struct card *card, unsigned tile);
bool tdi_context_stopped(const struct tdi_status *status, unsigned context);

/* Executes one instruction in a stopped context, or a worker that is inactive. */
IPU_MUST_CHECK int tdi_execute(struct card *card, unsigned tile, unsigned context, uint32_t word,
                               struct ipu_error *error);
/* A control and status register (PC and SSR/WSR among them) of a context that can execute. */
IPU_MUST_CHECK int tdi_read_csr(struct card *card, unsigned tile, unsigned context, unsigned csr,
                                uint32_t *value, struct ipu_error *error);
/* $m0 to $m15. */
IPU_MUST_CHECK int tdi_read_registers(struct card *card, unsigned tile, unsigned context,
                                      uint32_t values[TDI_REGISTERS], struct ipu_error *error);
/* `count` words of tile memory. TDI_ANY_CONTEXT takes a context that is stopped or, of the workers,
 * idle; IPU_ERR_BUSY when the tile has none. */
IPU_MUST_CHECK int tdi_read_memory(struct card *card, unsigned tile, unsigned context,
                                   uint32_t address, uint32_t *words, unsigned count,
                                   struct ipu_error *error);

/* Stops a running context at its next instruction (run-break), and lets it go on. */
IPU_MUST_CHECK int tdi_stop(struct card *card, unsigned tile, unsigned context,
                            struct ipu_error *error);
IPU_MUST_CHECK int tdi_resume(struct card *card, unsigned tile, unsigned context,
                              struct ipu_error *error);

#endif
