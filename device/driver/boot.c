/* Reset, configuration, autoloader: see boot.h.
 *
 * Every step ends with something that the device itself confirms: the controller repeats the
 * request, the marks read 0, GO clears. A step that fails leaves the device as it is; the next
 * reset starts over.
 */
#include "device/driver/boot.h"

#include "base/log.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"

#include <string.h>

static const uint32_t MESSAGE_KIND = UINT32_C(0xffff0000);
enum { FLUSH_WORDS = 32 /* the FIFO is read back so often */ };

/* --- reset --- */

static int mail_reset(struct card *card, struct ipu_error *error)
{
    struct ipu21_host_message request = {{IPU21_HOST_MESSAGE_RESET}}, reply = {{0}};
    struct ipu21_host_mail mail = {&request, &reply};
    int code = card_ioctl(card, IPU21_HOST_MAILBOX, (uintptr_t)&mail, error);
    if (code != 0)
        return code;
    if ((reply.word[0] & MESSAGE_KIND) == (request.word[0] & MESSAGE_KIND))
        return 0;
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                         "device %s: its controller answered the reset request 0x%08x with 0x%08x; "
                         "power the card off and on",
                         card_name(card), request.word[0], reply.word[0]);
}

int boot_reset(struct card *card, struct ipu_error *error)
{
    uint32_t secondary = 0;
    int code = card_ioctl(card, IPU21_HOST_STOP_MONITORING, 0, error);
    if (code == 0)
        code = mail_reset(card, error);
    if (code == 0)
        code = card_ioctl(card, IPU21_HOST_START_MONITORING, 0, error);
    if (code == 0)
        code = card_ioctl(card, IPU21_HOST_ACCUMULATE_ERRORS, 0, error);
    if (code == 0)
        code = card_ioctl(card, IPU21_HOST_RESET_NOTIFY, 0, error);
    if (code == 0)
        code = card_ioctl(card, IPU21_HOST_SET_SECONDARY_ID, (uintptr_t)&secondary, error);
    if (code != 0)
        ipu_error_wrap(error, "reset: ");
    return code;
}

/* --- configuration --- */

int boot_configuration(const struct device_options *options, struct configuration *out,
                       struct ipu_error *error)
{
    struct buffer own = {0};
    *out = (struct configuration){0};
    if (options->configuration && options->configuration[0] != '\0')
        return configuration_read_file(options->configuration, out, error);
    if (options->device && options->device[0] == '/')
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "device %s needs a configuration file (IPUCFG1) of its card: name it "
                             "as device_configuration",
                             options->device);
    configuration_append_sim(&own);
    int code = own.failed
                   ? ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for a device configuration")
                   : configuration_read(own.data, own.size, "sim", out, error);
    buffer_free(&own);
    return code;
}

static int clear_mark(struct card *card, enum card_mark which, struct ipu_error *error)
{
    card_write(card, (uint32_t)which, 0);
    uint32_t value = card_read(card, (uint32_t)which) & IPU21_HOST_MARK_MASK;
    if (value == 0)
        return 0;
    int code = card_check(card, error);
    if (code != 0)
        return code;
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                         "device %s: mark GS%d was cleared after the configuration and reads %u, "
                         "not 0",
                         card_name(card), which == CARD_GS1 ? 1 : 2, value);
}

int boot_configure(struct card *card, const struct configuration *configuration,
                   struct ipu_error *error)
{
    log_event(card->options.log, LOG_LEVEL_INFO, "", "replaying device configuration",
              "register_writes=%zu", configuration->count);
    for (size_t i = 0; i < configuration->count; i++) {
        const struct configuration_write *write = &configuration->writes[i];
        if (write->offset != IPU21_HOST_GS1 && write->offset != IPU21_HOST_GS2)
            card_write(card, write->offset, write->value);
    }
    int code = clear_mark(card, CARD_GS1, error);
    return code != 0 ? code : clear_mark(card, CARD_GS2, error);
}

/* --- autoloader --- */

static uint32_t word_at(const struct boot_loader *loader, uint32_t i)
{
    uint32_t word;
    memcpy(&word, loader->bytes + 4 * i, 4);
    return word;
}

static int wait_for_go(struct card *card, const char *step, struct ipu_error *error)
{
    uint32_t seen;
    struct card_wait wait = {.offset = IPU21_HOST_AUTOLD_CSR,
                             .mask = IPU21_HOST_AUTOLD_GO,
                             .end_us = card_deadline_us(card, CARD_AUTOLOADER_MS)};
    int code = card_wait(card, &wait, &seen, error);
    if (code == IPU_ERR_TIMEOUT)
        ipu_error_set(error, code,
                      "the autoloader has not finished %s in %d ms (AUTOLD_CSR reads 0x%08x, GO "
                      "0x%x should be clear): reset the device",
                      step, CARD_AUTOLOADER_MS, seen, (unsigned)IPU21_HOST_AUTOLD_GO);
    return code;
}

int boot_autoload(struct card *card, const struct boot_loader *loader, struct ipu_error *error)
{
    uint32_t words = loader->size / 4, kib = loader->size / 1024, last = (words - 1) & 0x3f;
    card_write(card, IPU21_HOST_AUTOLD_CSR, 0);
    for (uint32_t i = 0; i < words; i++) {
        card_write(card, IPU21_HOST_AUTOLD_DATA, word_at(loader, i));
        if (i % FLUSH_WORDS == FLUSH_WORDS - 1)
            (void)card_read(card, IPU21_HOST_AUTOLD_CSR);
    }
    card_write(card, IPU21_HOST_AUTOLD_TARGET, IPU21_HOST_AUTOLD_ZONE | kib << 10);
    card_write(card, IPU21_HOST_AUTOLD_CSR,
               IPU21_HOST_AUTOLD_PRESENT | IPU21_HOST_AUTOLD_GO | last);
    int code = wait_for_go(card, "filling the first tile", error);
    if (code != 0)
        return code;
    card_write(card, IPU21_HOST_AUTOLD_TARGET,
               IPU21_HOST_AUTOLD_ZONE | (IPU21_SRAM_BYTES / 1024u) << 10 | kib);
    card_write(card, IPU21_HOST_AUTOLD_CSR, (IPU21_TILES - 1u) << 9 | IPU21_HOST_AUTOLD_GO | last);
    return wait_for_go(card, "filling the other tiles", error);
}
