/* Loading an application through the secondary loader: see load.h.
 *
 * While frames move, only the exchange blocks that the loader uses are enabled, and the PCIe side
 * neither snoops nor checks; the configuration comes back before the application goes past its
 * first synchronisation, or not at all when loading fails (the next reset replays it).
 */
#include "device/driver/load.h"

#include <string.h>

struct exchange_setup {
    uint32_t ccsr;
};

static void set_block(struct card *card, unsigned block, bool enabled)
{
    uint32_t value = !enabled                            ? IPU21_HOST_DCXCR_DISABLED
                     : block < IPU21_HOST_PRIMARY_BLOCKS ? IPU21_HOST_DCXCR_PRIMARY
                                                         : IPU21_HOST_DCXCR_SECONDARY;
    card_write(card, IPU21_HOST_DCXCR(block), value);
}

/* Our loader reads through the block of each tile's column, a vendor's through the primary ones. */
static void enter_loading(struct card *card, bool own, struct exchange_setup *saved)
{
    unsigned enabled = own ? IPU21_HOST_BLOCKS : IPU21_HOST_PRIMARY_BLOCKS;
    saved->ccsr = card_read(card, IPU21_HOST_CCSR);
    for (unsigned i = 0; i < IPU21_HOST_BLOCKS; i++)
        set_block(card, i, false);
    card_write(card, IPU21_HOST_CCSR,
               saved->ccsr & ~(IPU21_HOST_CCSR_NO_SNOOP | IPU21_HOST_CCSR_ECRC));
    for (unsigned i = 0; i < enabled; i++)
        set_block(card, i, true);
}

static void leave_loading(struct card *card, const struct exchange_setup *saved)
{
    for (unsigned i = 0; i < IPU21_HOST_BLOCKS; i++)
        set_block(card, i, true);
    card_write(card, IPU21_HOST_CCSR, saved->ccsr);
}

static void progress(const struct card *card, unsigned batch)
{
    if (card->options.progress)
        card->options.progress(card->options.progress_context, "load",
                               (double)batch / (LOADER_BATCHES + 1));
}

static int send_batches(struct card *card, const struct frames *frames, uint8_t *buffer,
                        struct ipu_error *error)
{
    int code = 0;
    for (unsigned batch = 0; batch < LOADER_BATCHES && code == 0; batch++) {
        progress(card, batch);
        frames_write(frames, batch, buffer);
        code = card_rendezvous(card, CARD_GS1, 1, error);
        if (code != 0)
            ipu_error_wrap(error,
                           "tiles %u to %u (physical), batch %u of %d: ", batch * LOADER_SLOTS,
                           (batch + 1) * LOADER_SLOTS - 1, batch, LOADER_BATCHES);
    }
    return code;
}

/* Descriptors of ones tell the loader to go to the application. A vendor's is given a whole buffer
 * of them [S]; ours needs the descriptors, and 40 MB more would be the largest part of a load. */
static int execute(struct card *card, bool own, uint8_t *buffer, struct ipu_error *error)
{
    progress(card, LOADER_BATCHES);
    memset(buffer, 0xff, own ? (size_t)LOADER_DESCRIPTOR_BYTES : (size_t)FRAMES_BUFFER);
    int code = card_rendezvous(card, CARD_GS1, 1, error);
    if (code != 0)
        ipu_error_wrap(error, "starting the application: ");
    return code;
}

int load_application(struct card *card, const struct package *package, bool own, uint8_t *buffer,
                     struct ipu_error *error)
{
    struct exchange_setup saved;
    struct frames frames;
    int code = frames_begin(&frames, package, !own, error);
    if (code == 0)
        code = card_detach_all(card, error);
    if (code != 0)
        return code;
    card_write(card, IPU21_HOST_WINDOW_BASE, IPU21_HOST_WINDOW_BASE_HEXOPT);
    code = card_ioctl(card, IPU21_HOST_HEXOPT_IDENTITY, 0, error);
    if (code == 0)
        code = card_attach(card, 0, buffer, FRAMES_BUFFER, error);
    if (code != 0)
        return code;
    enter_loading(card, own, &saved);
    code = card_check(card, error);
    if (code == 0)
        code = send_batches(card, &frames, buffer, error);
    if (code == 0)
        code = execute(card, own, buffer, error);
    if (code == 0)
        leave_loading(card, &saved);
    return code;
}

int load_synchronise(struct card *card, const struct package *package, struct ipu_error *error)
{
    uint32_t mark = package_get_info(package)->final_mark;
    if (mark == 0)
        mark = LOADER_FINAL_MARK;
    kernel_sim_declare(card->kernel, package);
    kernel_sim_observe(card->kernel, true);
    card_begin_call(card);
    int code = card_rendezvous(card, CARD_GS1, (uint16_t)mark, error);
    if (code != 0)
        ipu_error_wrap(error, "first synchronisation of the application: ");
    return code;
}
