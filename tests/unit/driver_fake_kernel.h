/* A device behind the kernel boundary that keeps what the driver does to it and fails as asked. It
 * has registers and a clock and nothing that runs: GO and marks clear by themselves, one pause
 * after they were set. */
#ifndef TESTS_DRIVER_FAKE_KERNEL_H
#define TESTS_DRIVER_FAKE_KERNEL_H

#include "device/driver/card.h"

#include <check.h>
#include <errno.h>
#include <string.h>

enum fake_kind { FAKE_IOCTL, FAKE_WRITE };
struct fake_event {
    enum fake_kind kind;
    uint32_t where, value;
};
enum { FAKE_EVENTS = 8192 };

struct fake_kernel {
    struct kernel base;
    uint32_t registers[IPU21_HOST_WINDOW_BYTES / 4];
    struct fake_event events[FAKE_EVENTS];
    unsigned event_count;
    uint64_t now_us;
    unsigned pauses;
    uint32_t longest_pause;
    bool go_stuck, marks_stuck, marks_set, gone;
    uint32_t failing; /* ioctl that answers with `failure` */
    int failure;
    uint32_t reply;         /* word 0 of the controller's answer */
    atomic_bool *cancel_at; /* set by the n-th pause */
    unsigned cancel_after;
    bool closed;
};

static void fake_event(struct fake_kernel *f, enum fake_kind kind, uint32_t where, uint32_t value)
{
    ck_assert_uint_lt(f->event_count, FAKE_EVENTS);
    f->events[f->event_count++] = (struct fake_event){kind, where, value};
}

static void fake_close(struct kernel *kernel)
{
    ((struct fake_kernel *)kernel)->closed = true;
}

static int fake_ioctl(struct kernel *kernel, uint32_t request, uintptr_t argument)
{
    struct fake_kernel *f = (struct fake_kernel *)kernel;
    fake_event(f, FAKE_IOCTL, request, request == IPU21_HOST_MAILBOX ? 0 : (uint32_t)argument);
    if (request == f->failing)
        return f->failure;
    if (request == IPU21_HOST_MAILBOX) {
        const struct ipu21_host_mail *mail = (const struct ipu21_host_mail *)argument;
        f->events[f->event_count - 1].value = mail->request->word[0];
        mail->reply->word[0] = f->reply;
    }
    return 0;
}

static uint32_t fake_read(struct kernel *kernel, uint32_t offset)
{
    struct fake_kernel *f = (struct fake_kernel *)kernel;
    ck_assert(offset % 4 == 0 && offset < IPU21_HOST_WINDOW_BYTES);
    return f->gone ? UINT32_C(0xffffffff) : f->registers[offset / 4];
}

static void fake_write(struct kernel *kernel, uint32_t offset, uint32_t value)
{
    struct fake_kernel *f = (struct fake_kernel *)kernel;
    ck_assert(offset % 4 == 0 && offset < IPU21_HOST_WINDOW_BYTES);
    fake_event(f, FAKE_WRITE, offset, value);
    if (f->marks_set && (offset == IPU21_HOST_GS1 || offset == IPU21_HOST_GS2))
        value |= 5;
    f->registers[offset / 4] = value;
}

static uint64_t fake_now_us(struct kernel *kernel)
{
    return ((struct fake_kernel *)kernel)->now_us;
}

static int fake_pause(struct kernel *kernel, uint32_t microseconds, const atomic_bool *cancel)
{
    struct fake_kernel *f = (struct fake_kernel *)kernel;
    (void)cancel;
    ck_assert_uint_gt(microseconds, 0);
    f->now_us += microseconds;
    f->pauses++;
    if (microseconds > f->longest_pause)
        f->longest_pause = microseconds;
    if (f->cancel_at && f->pauses >= f->cancel_after)
        atomic_store(f->cancel_at, true);
    if (!f->go_stuck)
        f->registers[IPU21_HOST_AUTOLD_CSR / 4] &= ~IPU21_HOST_AUTOLD_GO;
    if (!f->marks_stuck)
        f->registers[IPU21_HOST_GS1 / 4] = f->registers[IPU21_HOST_GS2 / 4] = 0;
    return 0;
}

static const struct kernel_ops fake_ops = {
    .close = fake_close,
    .ioctl = fake_ioctl,
    .read = fake_read,
    .write = fake_write,
    .now_us = fake_now_us,
    .pause = fake_pause,
};

static struct fake_kernel fake;
static struct card card;
static struct ipu_error error;

static inline void fake_setup(void)
{
    memset(&fake, 0, sizeof fake);
    fake.base = (struct kernel){.ops = &fake_ops, .name = "/dev/fake"};
    fake.reply = IPU21_HOST_MESSAGE_RESET & UINT32_C(0xffff0000);
    card = (struct card){.kernel = &fake.base, .call_end_us = UINT64_MAX};
    error = (struct ipu_error){0};
}

static inline void expect_event(unsigned index, enum fake_kind kind, uint32_t where, uint32_t value)
{
    ck_assert_uint_lt(index, fake.event_count);
    const struct fake_event *e = &fake.events[index];
    ck_assert_msg(e->kind == kind && e->where == where && e->value == value,
                  "event %u: kind %d 0x%x = 0x%x, not kind %d 0x%x = 0x%x", index, (int)e->kind,
                  e->where, e->value, (int)kind, where, value);
}

static inline void expect_text(const char *part)
{
    ck_assert_msg(strstr(error.text, part) != NULL, "\"%s\" is not in: %s", part, error.text);
}

#endif
