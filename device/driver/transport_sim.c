/* The transport to a simulated chip in this process.
 *
 * Waiting for a mark runs the chip. The chip is run in stretches of cycles so that the wall-clock
 * timeout is noticed; results do not depend on where stretches end.
 */
#include "device/driver/transport.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "device/ipu21/timing.h"
#include "device/sim/chip.h"
#include "device/sim/observe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    STRETCH = 1 << 18,        /* cycles between looks at the clock */
    DEVICE_TIMEOUT_MS = 10000 /* for one mark, facts/host_protocol.md section 6 */
};

struct transport_sim {
    struct transport base;
    struct sim_chip *chip;
    uint64_t limit;  /* cycle at which the current call has taken too long */
    uint64_t cycles; /* that it may take */
    const struct sim_observer *observer;
};

static struct transport_sim *sim(struct transport *transport)
{
    return (struct transport_sim *)transport;
}

static void sim_close(struct transport *transport)
{
    sim_chip_destroy(sim(transport)->chip);
    ipu_free(transport);
}

static int sim_reset(struct transport *transport, struct ipu_error *error)
{
    (void)error;
    sim_chip_reset(sim(transport)->chip);
    return 0;
}

static int sim_load(struct transport *transport, const struct package *package,
                    struct ipu_error *error)
{
    struct sim_chip *chip = sim(transport)->chip;
    size_t count;
    const struct package_segment *segments = package_segments(package, &count);
    for (size_t i = 0; i < count; i++)
        if (!sim_chip_write(chip, segments[i].tile, segments[i].address, segments[i].data,
                            segments[i].size))
            return ipu_error_set(error, IPU_ERR_CORRUPT,
                                 "tile %u: the segment at 0x%x of %u bytes cannot be loaded",
                                 segments[i].tile, segments[i].address, segments[i].size);
    const struct package_row *rows = package_rows(package, &count);
    for (size_t i = 0; i < count; i++)
        sim_chip_declare_row(chip, rows[i].tile, rows[i].address, rows[i].bytes, rows[i].words);
    return 0;
}

static int sim_start(struct transport *transport, uint32_t entry, struct ipu_error *error)
{
    (void)error;
    sim_chip_start(sim(transport)->chip, entry);
    return 0;
}

static int sim_attach(struct transport *transport, unsigned index, void *memory, uint64_t bytes,
                      struct ipu_error *error)
{
    if (sim_chip_attach(sim(transport)->chip, index, memory, bytes))
        return 0;
    return ipu_error_set(error, IPU_ERR_INTERNAL,
                         "host page %u of %" PRIu64 " bytes cannot be attached", index, bytes);
}

static void sim_detach_all(struct transport *transport)
{
    sim_chip_detach_all(sim(transport)->chip);
}

static void sim_begin(struct transport *transport, uint64_t cycles)
{
    struct transport_sim *s = sim(transport);
    uint64_t now = sim_chip_cycle(s->chip);
    sim_chip_observe(s->chip, s->observer);
    s->cycles = cycles;
    s->limit = cycles > UINT64_MAX / 2 - now ? UINT64_MAX / 2 : now + cycles;
}

static int sim_mark_write(struct transport *transport, enum transport_mark which, uint16_t value,
                          struct ipu_error *error)
{
    (void)error;
    sim_chip_set_mark(sim(transport)->chip, which, value);
    return 0;
}

static int sim_deadlock(struct transport_sim *s, struct ipu_error *error)
{
    char *where = sim_chip_explain(s->chip);
    char line[200] = "deadlock";
    if (where)
        snprintf(line, sizeof line, "%.*s", (int)strcspn(where, "\n"), where);
    ipu_free(where);
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "%s", line);
}

static int sim_too_long(struct transport_sim *s, uint32_t timeout_ms, struct ipu_error *error)
{
    if (sim_chip_cycle(s->chip) >= s->limit)
        return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                             "the call has run for more than %" PRIu64 " cycles", s->cycles);
    return ipu_error_set(
        error, IPU_ERR_TIMEOUT, "the device did not reach its next host synchronisation in %u ms%s",
        timeout_ms ? timeout_ms : DEVICE_TIMEOUT_MS, timeout_ms ? "" : " of its own time");
}

/* A simulated device is slower than a card by an unknown factor, so only a timeout that was asked
 * for is one of wall-clock time; the default is one of device time. */
static int sim_mark_wait(struct transport *transport, enum transport_mark which,
                         uint32_t timeout_ms, const atomic_bool *cancel, struct ipu_error *error)
{
    struct transport_sim *s = sim(transport);
    uint64_t deadline = timeout_ms ? clock_ns() + (uint64_t)timeout_ms * 1000000 : UINT64_MAX;
    uint64_t last = sim_chip_cycle(s->chip) + DEVICE_TIMEOUT_MS * (IPU21_CLOCK_HZ / UINT64_C(1000));
    if (timeout_ms != 0 || last > s->limit)
        last = s->limit;
    for (;;) {
        uint64_t until = sim_chip_cycle(s->chip) + STRETCH;
        switch (sim_chip_run(s->chip, until < last ? until : last, cancel)) {
        case SIM_CHIP_WAITS_FOR_HOST:
            if (sim_chip_mark(s->chip, which) == 0)
                return 0;
            return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                                 "the device waits for another mark than the host has written");
        case SIM_CHIP_FAULTED:
            return ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "%s", sim_chip_fault(s->chip)->text);
        case SIM_CHIP_DEADLOCK:
            return sim_deadlock(s, error);
        case SIM_CHIP_CANCELLED:
            return ipu_error_set(error, IPU_ERR_CANCELLED, "the run was cancelled");
        case SIM_CHIP_LIMIT:
            break;
        }
        if (until >= last || clock_ns() > deadline)
            return sim_too_long(s, timeout_ms, error);
    }
}

static void explain_fault(const struct package *package, const struct sim_fault *fault,
                          struct buffer *text)
{
    char symbol[128];
    transport_symbol(package, fault->pc, symbol, sizeof symbol);
    buffer_printf(text, "tile %u (physical %u), ", fault->tile, ipu21_physical(fault->tile));
    if (fault->context == 0)
        buffer_printf(text, "supervisor\n");
    else
        buffer_printf(text, "worker %u\n", fault->context - 1);
    buffer_printf(text, "pc 0x%x%s%s\n", fault->pc, symbol[0] ? " in " : "", symbol);
    buffer_printf(text, "cycle %" PRIu64 "\n", fault->cycle);
    buffer_printf(text, "%s\n", fault->text);
}

static void sim_explain(struct transport *transport, const struct package *package,
                        struct buffer *text)
{
    struct sim_chip *chip = sim(transport)->chip;
    const struct sim_fault *fault = sim_chip_fault(chip);
    char *where = sim_chip_explain(chip);
    if (fault)
        explain_fault(package, fault, text);
    if (where)
        buffer_append(text, where, strlen(where));
    ipu_free(where);
}

static int sim_read(struct transport *transport, unsigned tile, uint32_t address, void *data,
                    uint32_t size, struct ipu_error *error)
{
    if (sim_chip_read(sim(transport)->chip, tile, address, data, size))
        return 0;
    return ipu_error_set(error, IPU_ERR_INVALID, "tile %u has no %u bytes at 0x%x", tile, size,
                         address);
}

static uint64_t sim_bundles(struct transport *transport)
{
    return sim_chip_bundles(sim(transport)->chip);
}

static const struct transport_ops sim_ops = {
    .close = sim_close,
    .reset = sim_reset,
    .load = sim_load,
    .start = sim_start,
    .attach = sim_attach,
    .detach_all = sim_detach_all,
    .begin = sim_begin,
    .mark_write = sim_mark_write,
    .mark_wait = sim_mark_wait,
    .explain = sim_explain,
    .read = sim_read,
    .bundles = sim_bundles,
};

int transport_sim_open(const struct device_options *options, struct transport **out,
                       struct ipu_error *error)
{
    struct sim_chip_options chip_options = {.threads = options->threads, .strict = options->strict};
    struct transport_sim *s = ipu_calloc(1, sizeof *s);
    *out = NULL;
    if (s)
        s->chip = sim_chip_create(&chip_options);
    if (!s || !s->chip) {
        ipu_free(s);
        return ipu_error_set(error, IPU_ERR_NO_MEMORY,
                             "no memory for a simulated device (about 1 GiB of address space)");
    }
    s->base = (struct transport){.ops = &sim_ops, .name = "sim"};
    s->limit = UINT64_MAX / 2;
    s->observer = options->observer;
    *out = &s->base;
    return 0;
}

void transport_symbol(const struct package *package, uint32_t address, char *text, size_t size)
{
    size_t count = 0;
    const struct package_symbol *symbols = package ? package_symbols(package, &count) : NULL;
    const struct package_symbol *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (symbols[i].address <= address && address - symbols[i].address < symbols[i].size &&
            (!best || symbols[i].size < best->size))
            best = &symbols[i];
    text[0] = '\0';
    if (best)
        snprintf(text, size, "%s+0x%x", best->name, address - best->address);
}
