/* Private to device/driver: why a device does not answer, for people. Everything comes through the
 * tile debug interface, so a card can tell it as well as a simulated device.
 */
#ifndef IPU_DRIVER_EXPLAIN_H
#define IPU_DRIVER_EXPLAIN_H

#include "device/driver/card.h"

#include "base/buffer.h"

struct explain_summary {
    unsigned contexts, tiles; /* stopped by an exception, and tiles that have such */
    char first[256];          /* a sentence about the first of them, or "" */
};
/* Appends the marks (expected and observed) and every context that an exception has stopped: tile,
 * context, exception in words, PC with symbol, instructions around it, registers, receive error.
 * Contexts that stopped alike share a paragraph. `package` names addresses and may be NULL. */
void explain_device(struct card *card, const struct package *package, struct buffer *text,
                    struct explain_summary *summary);

/* "symbol+0x10" for an address, or "". */
void explain_symbol(const struct package *package, uint32_t address, char *text, size_t size);

#endif
