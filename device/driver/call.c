/* Host phases of a call: see call.h for the protocol.
 *
 * The host never touches a page between the write of a mark and its return to
 * 0, except for pages that the protocol says are free.
 */
#include "device/driver/call.h"

#include "base/log.h"

static const char *const call_names[] = {"initialize", "run"};

static uint8_t *tile_pages(const struct device_session *session)
{
    return session->pages + SESSION_COMMAND_PAGE;
}

static int rendezvous(struct device_session *session, struct ipu_error *error)
{
    return card_rendezvous(&session->card, CARD_GS2, 1, error);
}

/* Output batch whose exit is phase `phase`, or -1. */
static int64_t output_batch(uint32_t inputs, uint32_t outputs, uint32_t phase)
{
    if (phase < 2 * inputs || (phase - 2 * inputs) % 2 != 0 || outputs == 0)
        return -1;
    return (phase - 2 * inputs) / 2;
}

/* What the host may do before it lets the device go on from where it waits: the
 * pages are its own in the entries of batches, not between the mark of an entry
 * and the end of its batch. Output batch 0 has no entry of its own, so its
 * pages are prepared in that of the last input batch, those of tiles that read
 * nothing in it. */
static void prepare_pages(struct device_session *session, enum package_call call, uint32_t phase)
{
    const struct package_info *info = package_get_info(session->package);
    uint32_t inputs = info->batches_in[call], outputs = info->batches_out[call];
    int64_t next = output_batch(inputs, outputs, phase + 1);
    if (next > 0)
        stream_poison(&session->streams, (uint32_t)next, tile_pages(session));
    if (phase % 2 != 0 || phase / 2 >= inputs)
        return;
    if (phase / 2 + 1 == inputs && outputs != 0)
        stream_poison(&session->streams, 0, tile_pages(session));
    stream_fill(session->package, call, &session->contents, phase / 2, tile_pages(session));
}

static int run_phase(struct device_session *session, enum package_call call, uint32_t phase,
                     struct ipu_error *error)
{
    const struct package_info *info = package_get_info(session->package);
    int64_t ends = output_batch(info->batches_in[call], info->batches_out[call], phase);
    prepare_pages(session, call, phase);
    int code = rendezvous(session, error);
    if (code == 0 && ends >= 0)
        stream_take(&session->streams, (uint32_t)ends, tile_pages(session));
    return code;
}

int call_run(struct device_session *session, enum package_call call, struct ipu_error *error)
{
    const struct package_info *info = package_get_info(session->package);
    uint32_t phases = info->phases[call];
    log_event(session->options.log, LOG_LEVEL_INFO, "", "invoking streaming host exchange call",
              "call=\"%s\" command=0 phases=%u", call_names[call], phases);
    card_begin_call(&session->card);
    for (uint32_t phase = 0; phase < phases; phase++) {
        session_progress(session, call_names[call], (double)phase / phases);
        int code = run_phase(session, call, phase, error);
        if (code != 0) {
            ipu_error_wrap(error, "call \"%s\", host phase %u of %u: ", call_names[call], phase,
                           phases);
            return code;
        }
    }
    session_progress(session, call_names[call], 1.0);
    return 0;
}
