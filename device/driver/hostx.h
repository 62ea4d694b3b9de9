/* Private to device/driver: the start of a host exchange session (facts/host_protocol.md section
 * 7). The phases of calls are in call.h.
 */
#ifndef IPU_DRIVER_HOSTX_H
#define IPU_DRIVER_HOSTX_H

#include "device/driver/card.h"

struct hostx_page {
    void *memory; /* page-aligned; stays valid until the buffers are detached */
    uint32_t bytes;
};
/* Attaches the pages as buffers 0, 1, ... in place of all others and passes the synchronisation
 * that starts the session. */
IPU_MUST_CHECK int hostx_start(struct card *card, const struct hostx_page *pages, unsigned count,
                               struct ipu_error *error);

#endif
