/* Private to device/driver: from an attached device to tiles that run the secondary loader
 * (facts/driver.md section 3, facts/host_protocol.md sections 1 to 3).
 */
#ifndef IPU_DRIVER_BOOT_H
#define IPU_DRIVER_BOOT_H

#include "device/driver/card.h"
#include "device/driver/configuration.h"
#include "device/runtime/loader.h"

/* The secondary loader: the bytes at 0x4c000, zero padded to whole KiB. */
struct boot_loader {
    uint8_t bytes[LOADER_MAX_BYTES];
    uint32_t size; /* a multiple of 1,024 */
    bool own;      /* ours, not one from a file */
};
/* Assembles the project's own (path NULL), or reads the segment at 0x4c000 of an ELF file. */
IPU_MUST_CHECK int boot_loader_read(const char *path, struct boot_loader *out,
                                    struct ipu_error *error);

/* The configuration that options ask for. */
IPU_MUST_CHECK int boot_configuration(const struct device_options *options,
                                      struct configuration *out, struct ipu_error *error);

/* Reset of the device through its controller; everything on it is lost. */
IPU_MUST_CHECK int boot_reset(struct card *card, struct ipu_error *error);
/* Replays the writes but those of the two marks, then clears both and sees that they are clear. */
IPU_MUST_CHECK int boot_configure(struct card *card, const struct configuration *configuration,
                                  struct ipu_error *error);
/* Sends the loader to the first tile and from there to all; the tiles run it afterwards. */
IPU_MUST_CHECK int boot_autoload(struct card *card, const struct boot_loader *loader,
                                 struct ipu_error *error);

#endif
