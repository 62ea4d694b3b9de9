/* Tile debug interface: see tdi.h.
 *
 * Words travel through DATA, which the tile sees as CSR 0x70. $m0 and $m1 of the context that
 * executes are saved before and put back after; when that fails in between, the tile is lost
 * anyway.
 */
#include "device/driver/tdi.h"

#include "device/ipu21/topology.h"

/* --- registers of the interface --- */

static uint32_t reg(unsigned tile, enum ipu21_host_tdi which)
{
    return IPU21_HOST_TDI_REGISTER(ipu21_physical(tile), which);
}

struct tdi_status tdi_status_read(struct card *card, unsigned tile)
{
    uint32_t word = card_read(card, reg(tile, IPU21_HOST_TDI_CTXT_STS));
    struct tdi_status status = {.receive_error = (uint8_t)(word >> 27 & 7),
                                .exchange_error = (word >> 30 & 1) != 0,
                                .memory_error = (word >> 31 & 1) != 0};
    for (unsigned c = 0; c < IPU21_HOST_CONTEXTS; c++)
        status.contexts[c] = word >> (2 * c) & 3;
    return status;
}

bool tdi_context_stopped(const struct tdi_status *status, unsigned context)
{
    return status->contexts[context] >= IPU21_HOST_CONTEXT_DEBUG;
}

static int timed_out(struct card *card, unsigned tile, unsigned context, const char *what,
                     uint32_t seen, struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_TIMEOUT,
                         "device %s, debug interface of tile %u, context %u: %s after %d ms "
                         "(reads 0x%08x)",
                         card_name(card), tile, context, what, CARD_DEBUG_MS, seen);
}

/* --- executing --- */

static int wait_ready(struct card *card, unsigned tile, unsigned context, struct ipu_error *error)
{
    uint32_t seen;
    struct card_wait wait = {.offset = reg(tile, IPU21_HOST_TDI_STS),
                             .mask = IPU21_HOST_STS_BUSY,
                             .end_us = card_deadline_us(card, CARD_DEBUG_MS)};
    int code = card_wait(card, &wait, &seen, error);
    return code == IPU_ERR_TIMEOUT ? timed_out(card, tile, context, "busy", seen, error) : code;
}

int tdi_execute(struct card *card, unsigned tile, unsigned context, uint32_t word,
                struct ipu_error *error)
{
    const uint32_t refused = IPU21_HOST_STS_INVALID | IPU21_HOST_STS_DOUBLE;
    int code = wait_ready(card, tile, context, error);
    if (code != 0)
        return code;
    card_write(card, reg(tile, IPU21_HOST_TDI_CLR), refused);
    card_write(card, reg(tile, IPU21_HOST_TDI_IOWNER), context);
    card_write(card, reg(tile, IPU21_HOST_TDI_IEXEC), word);
    code = wait_ready(card, tile, context, error);
    if (code != 0)
        return code;
    uint32_t status = card_read(card, reg(tile, IPU21_HOST_TDI_STS));
    if ((status & refused) == 0)
        return 0;
    card_write(card, reg(tile, IPU21_HOST_TDI_CLR), refused);
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                         "device %s, debug interface of tile %u: context %u did not execute "
                         "0x%08x (status 0x%x)",
                         card_name(card), tile, context, word, status);
}

/* Takes what $m<r> holds. */
static int fetch(struct card *card, unsigned tile, unsigned context, unsigned r, uint32_t *value,
                 struct ipu_error *error)
{
    int code = tdi_execute(card, tile, context, IPU21_HOST_INJECT_PUT_DATA(r), error);
    if (code == 0)
        *value = card_read(card, reg(tile, IPU21_HOST_TDI_DATA));
    return code;
}

static int store(struct card *card, unsigned tile, unsigned context, unsigned r, uint32_t value,
                 struct ipu_error *error)
{
    card_write(card, reg(tile, IPU21_HOST_TDI_DATA), value);
    return tdi_execute(card, tile, context, IPU21_HOST_INJECT_GET(r, IPU21_HOST_CSR_DATA), error);
}

int tdi_read_csr(struct card *card, unsigned tile, unsigned context, unsigned csr, uint32_t *value,
                 struct ipu_error *error)
{
    uint32_t saved;
    int code = fetch(card, tile, context, 0, &saved, error);
    if (code == 0)
        code = tdi_execute(card, tile, context, IPU21_HOST_INJECT_GET(0, csr), error);
    if (code == 0)
        code = fetch(card, tile, context, 0, value, error);
    return code == 0 ? store(card, tile, context, 0, saved, error) : code;
}

int tdi_read_registers(struct card *card, unsigned tile, unsigned context,
                       uint32_t values[TDI_REGISTERS], struct ipu_error *error)
{
    int code = 0;
    for (unsigned r = 0; r < TDI_REGISTERS && code == 0; r++)
        code = fetch(card, tile, context, r, &values[r], error);
    return code;
}

/* --- memory --- */

static int choose_context(struct card *card, unsigned tile, unsigned *context,
                          struct ipu_error *error)
{
    struct tdi_status status = tdi_status_read(card, tile);
    if (*context != TDI_ANY_CONTEXT)
        return 0;
    for (unsigned c = 0; c < IPU21_HOST_CONTEXTS; c++) {
        if (tdi_context_stopped(&status, c) ||
            (c != 0 && status.contexts[c] == IPU21_HOST_CONTEXT_INACTIVE)) {
            *context = c;
            return 0;
        }
    }
    return ipu_error_set(error, IPU_ERR_BUSY,
                         "tile %u: all of its contexts run; none can read its memory", tile);
}

static int read_words(struct card *card, unsigned tile, unsigned context, uint32_t address,
                      uint32_t *words, unsigned count, struct ipu_error *error)
{
    int code = 0;
    for (unsigned i = 0; i < count && code == 0; i++) {
        code = store(card, tile, context, 1, address + 4 * i, error);
        if (code == 0)
            code = tdi_execute(card, tile, context, IPU21_HOST_INJECT_LD32_M0_M1, error);
        if (code == 0)
            code = fetch(card, tile, context, 0, &words[i], error);
    }
    return code;
}

int tdi_read_memory(struct card *card, unsigned tile, unsigned context, uint32_t address,
                    uint32_t *words, unsigned count, struct ipu_error *error)
{
    uint32_t m0, m1;
    int code = choose_context(card, tile, &context, error);
    if (code == 0)
        code = fetch(card, tile, context, 0, &m0, error);
    if (code == 0)
        code = fetch(card, tile, context, 1, &m1, error);
    if (code == 0)
        code = read_words(card, tile, context, address, words, count, error);
    if (code == 0)
        code = store(card, tile, context, 0, m0, error);
    return code == 0 ? store(card, tile, context, 1, m1, error) : code;
}

/* --- stopping --- */

int tdi_stop(struct card *card, unsigned tile, unsigned context, struct ipu_error *error)
{
    uint32_t at = reg(tile, IPU21_HOST_TDI_RBRK), seen;
    /* Both kinds of stop have the upper of the context's two bits set. */
    struct card_wait wait = {.offset = reg(tile, IPU21_HOST_TDI_CTXT_STS),
                             .mask = 2u << (2 * context),
                             .wanted = 2u << (2 * context),
                             .end_us = card_deadline_us(card, CARD_DEBUG_MS)};
    card_write(card, at, card_read(card, at) | 1u << context);
    int code = card_wait(card, &wait, &seen, error);
    if (code == IPU_ERR_TIMEOUT) {
        card_write(card, at, card_read(card, at) & ~(1u << context));
        return timed_out(card, tile, context, "not stopped", seen, error);
    }
    return code;
}

int tdi_resume(struct card *card, unsigned tile, unsigned context, struct ipu_error *error)
{
    uint32_t at = reg(tile, IPU21_HOST_TDI_RBRK);
    card_write(card, at, card_read(card, at) & ~(1u << context));
    card_write(card, reg(tile, IPU21_HOST_TDI_ECLR), 1u << context);
    return card_check(card, error);
}
