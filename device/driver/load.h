/* Private to device/driver: the application onto the tiles and up to its first synchronisation
 * (facts/host_protocol.md section 4).
 */
#ifndef IPU_DRIVER_LOAD_H
#define IPU_DRIVER_LOAD_H

#include "device/driver/boot.h"
#include "device/driver/card.h"
#include "device/driver/frames.h"

/* From tiles that run the secondary loader to tiles that run the application. `own`: it is our
 * loader, not a vendor's. `buffer` holds FRAMES_BUFFER bytes, page-aligned, and stays attached.
 * Progress goes from 0 to 1. Errors: those of card_rendezvous(), and IPU_ERR_CORRUPT for a package
 * that cannot be loaded. */
IPU_MUST_CHECK int load_application(struct card *card, const struct package *package, bool own,
                                    uint8_t *buffer, struct ipu_error *error);
/* The final mark: all tiles pass their first host synchronisation. */
IPU_MUST_CHECK int load_synchronise(struct card *card, const struct package *package,
                                    struct ipu_error *error);

#endif
