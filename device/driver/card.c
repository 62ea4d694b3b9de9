/* One opened device: see card.h.
 *
 * Time. Limits count the device's own time, which is wall-clock time for a card and cycles for a
 * simulated device, whose speed no limit can foresee. A wall-clock limit comes on top when the
 * caller asks for one. Polls begin 100 us apart (facts/driver.md section 5) and move apart while
 * nothing happens, as long as a poll stays short for the host as well.
 */
#include "device/driver/card.h"

#include "base/clock.h"
#include "base/hash.h"
#include "device/ipu21/timing.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    POLL_US = 100,
    POLL_MAX_US = 100000,
    POLL_PATIENCE = 16,      /* a poll may last this part of what has been waited already */
    POLL_SHORT_NS = 1000000, /* of the host's time: may grow */
    POLL_LONG_NS = 10000000, /* must shrink */
    CYCLES_PER_US = IPU21_CLOCK_HZ / 1000000
};
static const uint64_t DEFAULT_CYCLES = UINT64_C(1) << 36; /* of a call on a simulated device */
static const uint32_t ALL_ONES = UINT32_C(0xffffffff);

/* --- opening --- */

const char *card_name(const struct card *card)
{
    return card->kernel->name;
}

int card_open(struct card *card, const struct device_options *options, struct ipu_error *error)
{
    const char *device = options->device ? options->device : "sim";
    *card = (struct card){.options = *options, .random = options->jitter_seed};
    card->simulated = strcmp(device, "sim") == 0;
    card->call_end_us = UINT64_MAX;
    if (!card->simulated && device[0] != '/')
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "device %s: give \"sim\" or the path of a device node", device);
    int code = card->simulated ? kernel_sim_open(options, &card->kernel, error)
                               : kernel_linux_open(device, &card->kernel, error);
    if (code == 0)
        code = card_ioctl(card, IPU21_HOST_USER_ATTACH, 0, error);
    if (code == 0)
        code = card_ioctl(card, IPU21_HOST_SET_IPU_ID, 0, error);
    if (code != 0)
        card_close(card);
    return code;
}

void card_close(struct card *card)
{
    if (!card->kernel)
        return;
    if (card->attached)
        card->kernel->ops->ioctl(card->kernel, IPU21_HOST_BUFFER_DETACH_ALL, 0);
    card->kernel->ops->close(card->kernel);
    *card = (struct card){0};
}

/* --- ioctls --- */

static const struct ioctl_name {
    uint32_t request;
    const char *name;
} ioctl_names[] = {
    {IPU21_HOST_USER_ATTACH, "USER_ATTACH"},
    {IPU21_HOST_BUFFER_ATTACH, "BUFFER_ATTACH"},
    {IPU21_HOST_BUFFER_DETACH, "BUFFER_DETACH"},
    {IPU21_HOST_SET_IPU_ID, "SET_IPU_ID"},
    {IPU21_HOST_BUFFER_DETACH_ALL, "BUFFER_DETACH_ALL"},
    {IPU21_HOST_MAILBOX, "MAILBOX"},
    {IPU21_HOST_STOP_MONITORING, "STOP_MONITORING"},
    {IPU21_HOST_START_MONITORING, "START_MONITORING"},
    {IPU21_HOST_ACCUMULATE_ERRORS, "ACCUMULATE_ERRORS"},
    {IPU21_HOST_HEXOPT_IDENTITY, "SET_HEXOPT_IDENTITY_TABLE"},
    {IPU21_HOST_RESET_NOTIFY, "RESET"},
    {IPU21_HOST_SET_SECONDARY_ID, "SET_SECONDARY_IPU_ID"},
};

static const char *ioctl_name(uint32_t request)
{
    for (size_t i = 0; i < sizeof ioctl_names / sizeof *ioctl_names; i++)
        if (ioctl_names[i].request == request)
            return ioctl_names[i].name;
    return "unknown";
}

static int refused(const struct card *card, uint32_t request, int code, struct ipu_error *error)
{
    const char *device = card_name(card), *name = ioctl_name(request);
    switch (-code) {
    case EBUSY:
        return ipu_error_set(error, IPU_ERR_BUSY,
                             "device %s is busy (ioctl %s): another process has attached to it; "
                             "stop that process or wait for it",
                             device, name);
    case ENODEV:
    case ENXIO:
        return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                             "device %s has gone (ioctl %s): check its seat and its power, then "
                             "load the kernel module again",
                             device, name);
    case ENOMEM:
        return ipu_error_set(error, IPU_ERR_NO_MEMORY,
                             "device %s: no memory could be pinned (ioctl %s); raise the limit of "
                             "locked memory",
                             device, name);
    case ENOTTY:
        return ipu_error_set(error, IPU_ERR_UNSUPPORTED,
                             "device %s does not know ioctl %s: it is no IPU or its kernel module "
                             "is of another version",
                             device, name);
    default:
        return ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "device %s failed in ioctl %s: %s",
                             device, name, strerror(-code));
    }
}

int card_ioctl(struct card *card, uint32_t request, uintptr_t argument, struct ipu_error *error)
{
    int code = card->kernel->ops->ioctl(card->kernel, request, argument);
    return code >= 0 ? 0 : refused(card, request, code, error);
}

int card_attach(struct card *card, uint32_t index, void *memory, uint32_t bytes,
                struct ipu_error *error)
{
    struct ipu21_host_buffer buffer = {index, bytes, (uintptr_t)memory};
    int code = card_ioctl(card, IPU21_HOST_BUFFER_ATTACH, (uintptr_t)&buffer, error);
    if (code == 0)
        card->attached = true;
    return code;
}

int card_detach_all(struct card *card, struct ipu_error *error)
{
    int code = card_ioctl(card, IPU21_HOST_BUFFER_DETACH_ALL, 0, error);
    if (code == 0)
        card->attached = false;
    return code;
}

/* --- registers --- */

uint32_t card_read(struct card *card, uint32_t offset)
{
    return card->kernel->ops->read(card->kernel, offset);
}

void card_write(struct card *card, uint32_t offset, uint32_t value)
{
    card->kernel->ops->write(card->kernel, offset, value);
}

/* These never all read ones on a device that is there. */
int card_check(struct card *card, struct ipu_error *error)
{
    static const uint32_t probes[] = {IPU21_HOST_WINDOW_BASE, IPU21_HOST_AUTOLD_TARGET,
                                      IPU21_HOST_DCXCR(0), IPU21_HOST_CCSR};
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (card_read(card, probes[i]) != ALL_ONES)
            return 0;
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                         "device %s has gone: all of its registers read ones; check its seat and "
                         "its power, then load the kernel module again",
                         card_name(card));
}

/* --- waiting --- */

static bool cancelled(const struct card *card)
{
    return card->options.cancel && atomic_load_explicit(card->options.cancel, memory_order_relaxed);
}

static int say_cancelled(struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_CANCELLED, "the run was cancelled");
}

/* How long the next poll may last after one of `poll` us that took `wall` ns of the host's time. */
static uint32_t next_poll(uint32_t poll, uint64_t wall, uint64_t waited)
{
    if (wall > POLL_LONG_NS && poll > POLL_US)
        return poll / 2;
    if (wall < POLL_SHORT_NS && poll < POLL_MAX_US && waited >= (uint64_t)POLL_PATIENCE * poll)
        return 2 * poll;
    return poll;
}

static int pause_for(struct card *card, uint32_t *poll, uint64_t begin, struct ipu_error *error)
{
    struct kernel *kernel = card->kernel;
    uint64_t before = clock_ns();
    int code = kernel->ops->pause(kernel, *poll, card->options.cancel);
    if (code < 0)
        return card_check(card, error);
    *poll = next_poll(*poll, clock_ns() - before, kernel->ops->now_us(kernel) - begin);
    return 0;
}

int card_wait(struct card *card, const struct card_wait *wait, uint32_t *seen,
              struct ipu_error *error)
{
    struct kernel *kernel = card->kernel;
    uint64_t begin = kernel->ops->now_us(kernel), wall = clock_ns();
    uint32_t poll = POLL_US;
    for (;;) {
        *seen = card_read(card, wait->offset);
        int code = *seen == ALL_ONES ? card_check(card, error) : 0;
        if (code != 0)
            return code;
        if ((*seen & wait->mask) == wait->wanted)
            return 0;
        if (cancelled(card))
            return say_cancelled(error);
        if (kernel->ops->now_us(kernel) >= wait->end_us ||
            (wait->wall_ms != 0 && clock_ns() - wall >= UINT64_C(1000000) * wait->wall_ms))
            return IPU_ERR_TIMEOUT;
        code = pause_for(card, &poll, begin, error);
        if (code != 0)
            return code;
    }
}

uint64_t card_deadline_us(struct card *card, uint32_t milliseconds)
{
    return card->kernel->ops->now_us(card->kernel) + UINT64_C(1000) * milliseconds;
}

/* --- marks --- */

void card_begin_call(struct card *card)
{
    uint64_t now = card->kernel->ops->now_us(card->kernel), cycles = card->options.cycle_limit;
    card->call_end_us = UINT64_MAX;
    if (cycles == 0 && card->simulated)
        cycles = DEFAULT_CYCLES;
    card->call_cycles = cycles;
    if (cycles != 0 && cycles / CYCLES_PER_US < UINT64_MAX - now - 1)
        card->call_end_us = now + (cycles + CYCLES_PER_US - 1) / CYCLES_PER_US;
}

/* For tests of the protocol, which has to bear any delay of the host. */
static void delay(struct card *card)
{
    struct kernel *kernel = card->kernel;
    if (card->options.jitter_us == 0)
        return;
    card->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t us = hash64_mix(card->random) % ((uint64_t)card->options.jitter_us + 1);
    uint64_t now = kernel->ops->now_us(kernel), end = now + us;
    while (now < end && !cancelled(card)) {
        if (kernel->ops->pause(kernel, (uint32_t)(end - now), card->options.cancel) < 0)
            return;
        now = kernel->ops->now_us(kernel);
    }
}

static unsigned mark_index(enum card_mark which)
{
    return which == CARD_GS1 ? 0 : 1;
}

void card_mark_write(struct card *card, enum card_mark which, uint16_t value)
{
    delay(card);
    card->expected[mark_index(which)] = value;
    atomic_thread_fence(memory_order_seq_cst);
    card_write(card, (uint32_t)which, value);
    (void)card_read(card, (uint32_t)which); /* makes the write arrive */
}

/* A simulated device knows why. */
static int too_long(const struct card *card, enum card_mark which, uint32_t seen, bool call,
                    struct ipu_error *error)
{
    uint32_t limit = card->options.timeout_ms;
    int verdict = kernel_sim_verdict(card->kernel, error);
    if (verdict != 0)
        return verdict;
    if (call)
        return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                             "the call has run for more than %" PRIu64 " cycles",
                             card->call_cycles);
    return ipu_error_set(error, IPU_ERR_TIMEOUT,
                         "the device did not reach its next host synchronisation in %u ms%s: mark "
                         "GS%u was set to %u, should read 0 and reads %u",
                         limit ? limit : CARD_MARK_MS,
                         limit || !card->simulated ? "" : " of its own time", mark_index(which) + 1,
                         card->expected[mark_index(which)], seen & IPU21_HOST_MARK_MASK);
}

int card_mark_wait(struct card *card, enum card_mark which, struct ipu_error *error)
{
    uint32_t seen, limit = card->options.timeout_ms;
    struct card_wait wait = {
        .offset = (uint32_t)which,
        .mask = IPU21_HOST_MARK_MASK,
        .wall_ms = limit,
        .end_us = card_deadline_us(card, limit > CARD_MARK_MS ? limit : CARD_MARK_MS)};
    bool call = wait.end_us >= card->call_end_us;
    if (call)
        wait.end_us = card->call_end_us;
    int code = card_wait(card, &wait, &seen, error);
    if (code != IPU_ERR_TIMEOUT)
        return code;
    call = call && card->kernel->ops->now_us(card->kernel) >= wait.end_us;
    return too_long(card, which, seen, call, error);
}

int card_rendezvous(struct card *card, enum card_mark which, uint16_t value,
                    struct ipu_error *error)
{
    card_mark_write(card, which, value);
    return card_mark_wait(card, which, error);
}
