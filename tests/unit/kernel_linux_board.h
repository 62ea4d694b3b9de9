/* A device node that is a simulated board: open, ioctl, mmap, close, clock_gettime and
 * clock_nanosleep of this program are its own, and know the path FAKE_NODE.
 *
 * The register window is mapped without access. A load or store there traps; the handler decodes
 * the 32-bit `mov`, does it on the board and goes on behind it, so the code under test is the very
 * code that would touch a card. While the driver sleeps the board runs, and time passes as it asked
 * for. x86-64 only: FAKE_SUPPORTED says so.
 */
#ifndef TESTS_KERNEL_LINUX_BOARD_H
#define TESTS_KERNEL_LINUX_BOARD_H

#include "device/ipu21/host.h"
#include "device/sim/board.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define FAKE_NODE "/dev/ipu-of-the-test"

#if defined(__x86_64__)
enum { FAKE_SUPPORTED = 1 };
#else
enum { FAKE_SUPPORTED = 0 };
#endif

static struct fake_node {
    struct sim_board *board;
    int fd; /* -1: not open */
    uint8_t *window;
    int open_error, map_error; /* errno values, or 0 */
    uint32_t ioctl_request;    /* fails with ioctl_error, ioctl_failures times (0: always) */
    int ioctl_error;
    unsigned ioctl_failures;
    bool limited;
    int signal; /* sent to the process by every sleep */
    uint64_t slept_ns;
    unsigned loads, stores, ioctls;
} node = {.fd = -1};

/* --- system calls --- */

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    bool fake = strcmp(path, FAKE_NODE) == 0;
    if (fake && node.open_error != 0) {
        errno = node.open_error;
        return -1;
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, fake ? "/dev/null" : path, flags, mode);
    if (fake)
        node.fd = fd;
    return fd;
}

int close(int fd)
{
    if (fd == node.fd)
        node.fd = -1;
    return (int)syscall(SYS_close, fd);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    bool fake = fd >= 0 && fd == node.fd;
    if (fake && node.map_error != 0) {
        errno = node.map_error;
        return MAP_FAILED;
    }
    if (!fake)
        return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
    if (size != IPU21_HOST_WINDOW_BYTES || protection != (PROT_READ | PROT_WRITE) ||
        flags != MAP_SHARED || offset != 0) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    void *window = (void *)syscall(SYS_mmap, NULL, size, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    node.window = window == MAP_FAILED ? NULL : window;
    return window;
}

static bool fails_now(uint32_t request)
{
    if (node.ioctl_error == 0 || request != node.ioctl_request)
        return false;
    if (node.limited && node.ioctl_failures == 0)
        return false;
    node.ioctl_failures -= node.limited;
    return true;
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    uintptr_t argument = va_arg(list, uintptr_t);
    va_end(list);
    if (fd != node.fd)
        return (int)syscall(SYS_ioctl, fd, request, argument);
    node.ioctls++;
    int code = fails_now((uint32_t)request)
                   ? -node.ioctl_error
                   : sim_board_ioctl(node.board, (uint32_t)request, argument);
    if (code < 0)
        errno = -code;
    return code < 0 ? -1 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int code = (int)syscall(SYS_clock_gettime, clock, time);
    uint64_t ns = (uint64_t)time->tv_nsec + node.slept_ns;
    time->tv_sec += (time_t)(ns / 1000000000u);
    time->tv_nsec = (long)(ns % 1000000000u);
    return code;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *request,
                    struct timespec *rest)
{
    uint64_t ns = (uint64_t)request->tv_sec * 1000000000u + (uint64_t)request->tv_nsec;
    (void)clock;
    (void)flags;
    (void)rest;
    if (node.signal != 0)
        kill(getpid(), node.signal);
    for (uint64_t end = sim_board_cycle(node.board) + ns * 3 / 2;
         sim_board_cycle(node.board) < end;)
        sim_board_run(node.board, end - sim_board_cycle(node.board), NULL);
    node.slept_ns += ns;
    return 0;
}

/* --- the register window --- */

#if defined(__x86_64__)
struct access {
    bool store, immediate;
    unsigned reg; /* number of a general register */
    uint32_t value;
    unsigned length;
};

/* Only what a 32-bit access of a volatile object becomes: mov r32, m / mov m, r32 / mov m, imm32.
 */
static bool decode_mov(const uint8_t *code, struct access *a)
{
    unsigned at = 0, rex = 0;
    if ((code[at] & 0xf0) == 0x40)
        rex = code[at++];
    uint8_t opcode = code[at++], modrm = code[at++];
    if ((opcode != 0x8b && opcode != 0x89 && opcode != 0xc7) || (rex & 8) != 0 || modrm >= 0xc0)
        return false;
    unsigned mod = modrm >> 6, base = modrm & 7;
    if (base == 4)
        base = code[at++] & 7;
    if (mod == 1)
        at += 1;
    else if (mod == 2 || base == 5)
        at += 4;
    *a = (struct access){.store = opcode != 0x8b,
                         .immediate = opcode == 0xc7,
                         .reg = (modrm >> 3 & 7) | (rex & 4) << 1};
    if (a->immediate) {
        memcpy(&a->value, code + at, 4);
        at += 4;
    }
    a->length = at;
    return true;
}

static const int gregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};

static void on_access(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t address = (uintptr_t)info->si_addr, window = (uintptr_t)node.window;
    struct access a;
    if (!node.window || address < window || address - window >= IPU21_HOST_WINDOW_BYTES ||
        !decode_mov((const uint8_t *)registers[REG_RIP], &a)) {
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigaction(signal, &standard, NULL);
        return; /* faults again, for good */
    }
    uint32_t offset = (uint32_t)(address - window);
    if (a.store) {
        uint32_t value = a.immediate ? a.value : (uint32_t)registers[gregs[a.reg]];
        sim_board_write(node.board, offset, value);
        node.stores++;
    } else {
        registers[gregs[a.reg]] = sim_board_read(node.board, offset);
        node.loads++;
    }
    registers[REG_RIP] += a.length;
}
#else
static void on_access(int signal, siginfo_t *info, void *context)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    (void)info;
    (void)context;
    sigaction(signal, &standard, NULL);
}
#endif

static inline void node_setup(void)
{
    struct sim_chip_options options = {.threads = 1};
    struct sigaction action = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO | SA_NODEFER};
    node = (struct fake_node){.fd = -1, .board = sim_board_create(&options)};
    ck_assert_ptr_nonnull(node.board);
    sigaction(SIGSEGV, &action, NULL);
}

static inline void node_teardown(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGSEGV, &standard, NULL);
    sim_board_destroy(node.board);
    node = (struct fake_node){.fd = -1};
}

#endif
