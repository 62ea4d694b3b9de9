/* Starting a host exchange session: see hostx.h.
 *
 * The mark in GS1 announces the session [S]; programs of this project answer in GS2 alone, so it
 * stays set until the next reset.
 */
#include "device/driver/hostx.h"

#include "base/log.h"

/* Both marks must be free before the session takes them. */
static int marks_are_free(struct card *card, struct ipu_error *error)
{
    return card_mark_wait(card, CARD_GS2, error);
}

static int attach_pages(struct card *card, const struct hostx_page *pages, unsigned count,
                        struct ipu_error *error)
{
    int code = card_detach_all(card, error);
    log_event(card->options.log, LOG_LEVEL_INFO, "", "attaching host exchange pages", "pages=%u",
              count);
    for (unsigned i = 0; i < count && code == 0; i++) {
        card_write(card, IPU21_HOST_WINDOW_BASE, IPU21_HOST_WINDOW_BASE_HEXOPT);
        code = card_attach(card, i, pages[i].memory, pages[i].bytes, error);
    }
    return code;
}

int hostx_start(struct card *card, const struct hostx_page *pages, unsigned count,
                struct ipu_error *error)
{
    card_write(card, IPU21_HOST_WINDOW_BASE, IPU21_HOST_WINDOW_BASE_HEXOPT);
    card_mark_write(card, CARD_GS1, 1);
    int code = marks_are_free(card, error);
    if (code == 0)
        code = attach_pages(card, pages, count, error);
    if (code == 0)
        code = card_rendezvous(card, CARD_GS2, 1, error);
    return code;
}
