/* The boundary of the kernel module of a card: facts/driver.md sections 1 and 2.
 *
 * While the device is open its thread takes no signals but those of its own faults, and the signals
 * that the module raises at the attached process are ignored unless somebody handles them: by
 * default they would end the process. Both are put back by close(), which the same thread calls.
 * Nothing here has yet met a card.
 */
#include "device/driver/kernel.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FIRST_SIGNAL = 44, /* exception, doorbell and the edges of both marks */
    LAST_SIGNAL = 49,
    PAUSE_SLICE_US = 10000 /* between looks at the cancel flag */
};

struct kernel_linux {
    struct kernel base;
    int fd;
    volatile uint32_t *window;
    sigset_t mask; /* of the thread, before */
    bool masked;
    struct sigaction actions[LAST_SIGNAL - FIRST_SIGNAL + 1];
    bool ignored[LAST_SIGNAL - FIRST_SIGNAL + 1];
    char name[];
};

static struct kernel_linux *linux_of(struct kernel *kernel)
{
    return (struct kernel_linux *)kernel;
}

/* --- signals --- */

static void signals_hold(struct kernel_linux *k)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&set, own[i]);
    k->masked = pthread_sigmask(SIG_BLOCK, &set, &k->mask) == 0;
    for (int s = FIRST_SIGNAL; s <= LAST_SIGNAL; s++) {
        struct sigaction *old = &k->actions[s - FIRST_SIGNAL];
        if (sigaction(s, NULL, old) == 0 && old->sa_handler == SIG_DFL)
            k->ignored[s - FIRST_SIGNAL] = sigaction(s, &ignore, NULL) == 0;
    }
}

/* The mask first: what the module has raised meanwhile is pending, and is to be ignored. */
static void signals_restore(struct kernel_linux *k)
{
    if (k->masked)
        pthread_sigmask(SIG_SETMASK, &k->mask, NULL);
    for (int s = FIRST_SIGNAL; s <= LAST_SIGNAL; s++)
        if (k->ignored[s - FIRST_SIGNAL])
            sigaction(s, &k->actions[s - FIRST_SIGNAL], NULL);
}

/* --- the boundary --- */

static void linux_close(struct kernel *kernel)
{
    struct kernel_linux *k = linux_of(kernel);
    if (k->window)
        munmap((void *)(uintptr_t)k->window, IPU21_HOST_WINDOW_BYTES);
    if (k->fd >= 0)
        close(k->fd);
    signals_restore(k);
    ipu_free(k);
}

static int linux_ioctl(struct kernel *kernel, uint32_t request, uintptr_t argument)
{
    int result;
    do
        result = ioctl(linux_of(kernel)->fd, (unsigned long)request, argument);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
}

static uint32_t linux_read(struct kernel *kernel, uint32_t offset)
{
    return linux_of(kernel)->window[offset / 4];
}

static void linux_write(struct kernel *kernel, uint32_t offset, uint32_t value)
{
    linux_of(kernel)->window[offset / 4] = value;
}

static uint64_t linux_now_us(struct kernel *kernel)
{
    (void)kernel;
    return clock_ns() / 1000;
}

static int linux_pause(struct kernel *kernel, uint32_t microseconds, const atomic_bool *cancel)
{
    uint64_t end = linux_now_us(kernel) + microseconds;
    for (uint64_t now; (now = linux_now_us(kernel)) < end;) {
        uint64_t slice = end - now < PAUSE_SLICE_US ? end - now : PAUSE_SLICE_US;
        struct timespec time = {.tv_nsec = (long)slice * 1000};
        if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
            return 0;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    }
    return 0;
}

static const struct kernel_ops linux_ops = {
    .close = linux_close,
    .ioctl = linux_ioctl,
    .read = linux_read,
    .write = linux_write,
    .now_us = linux_now_us,
    .pause = linux_pause,
};

/* --- opening --- */

static int cannot_open(const char *path, int code, struct ipu_error *error)
{
    switch (code) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
        return ipu_error_set(error, IPU_ERR_NOT_FOUND,
                             "%s: no device (%s); check that the card is seated and its kernel "
                             "module loaded, or use the simulated device \"sim\"",
                             path, strerror(code));
    case EACCES:
    case EPERM:
        return ipu_error_set(error, IPU_ERR_IO,
                             "%s: permission denied; join the group that owns the node, or let its "
                             "udev rule be installed",
                             path);
    case EBUSY:
        return ipu_error_set(error, IPU_ERR_BUSY,
                             "%s is busy: another process has opened it; stop that process or wait "
                             "for it",
                             path);
    default:
        return ipu_error_set(error, IPU_ERR_IO, "%s: cannot be opened: %s", path, strerror(code));
    }
}

static int open_node(struct kernel_linux *k, struct ipu_error *error)
{
    struct stat status;
    k->fd = open(k->name, O_RDWR | O_CLOEXEC);
    if (k->fd < 0)
        return cannot_open(k->name, errno, error);
    if (fstat(k->fd, &status) != 0 || !S_ISCHR(status.st_mode))
        return ipu_error_set(error, IPU_ERR_INVALID, "%s is no device node", k->name);
    void *window =
        mmap(NULL, IPU21_HOST_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, k->fd, 0);
    if (window == MAP_FAILED)
        return ipu_error_set(error, IPU_ERR_IO, "%s: its registers cannot be mapped: %s", k->name,
                             strerror(errno));
    k->window = window;
    return 0;
}

int kernel_linux_open(const char *path, struct kernel **out, struct ipu_error *error)
{
    size_t length = strlen(path) + 1;
    struct kernel_linux *k = ipu_calloc(1, sizeof *k + length);
    *out = NULL;
    if (!k)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for device %s", path);
    memcpy(k->name, path, length);
    k->base = (struct kernel){.ops = &linux_ops, .name = k->name};
    k->fd = -1;
    signals_hold(k);
    int code = open_node(k, error);
    if (code != 0) {
        linux_close(&k->base);
        return code;
    }
    *out = &k->base;
    return 0;
}
