/* System calls that fail on demand, for tests: this header defines them in the test program, so
 * that the program itself, SQLite and libuv all call these.
 *
 * fault_arm() chooses a call and lets its Nth use fail; with `forever` all later ones fail too, as
 * on a broken disk. A short write writes half and reports that. Waiting for the disk is skipped, so
 * that thousands of runs take seconds. A child process is armed by its environment
 * (fault_arm_from_environment). Include it in one file of a program only.
 */
#ifndef IPU_TESTS_FAULT_IO_H
#define IPU_TESTS_FAULT_IO_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FAULT_CALLS(X)                                                                             \
    X(open64)                                                                                      \
    X(read)                                                                                        \
    X(write)                                                                                       \
    X(pread64)                                                                                     \
    X(pwrite64)                                                                                    \
    X(fdatasync)                                                                                   \
    X(fsync)                                                                                       \
    X(ftruncate64)                                                                                 \
    X(mmap64)                                                                                      \
    X(fstat64)                                                                                     \
    X(unlink)                                                                                      \
    X(lock)                                                                                        \
    X(accept4)                                                                                     \
    X(sendmsg)                                                                                     \
    X(send)                                                                                        \
    X(recv)                                                                                        \
    X(socketpair)                                                                                  \
    X(mkdir)

enum fault_call {
#define FAULT_ENUM(name) FAULT_##name,
    FAULT_CALLS(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
};
static const char *const fault_names[] = {
#define FAULT_NAME(name) #name,
    FAULT_CALLS(FAULT_NAME)
#undef FAULT_NAME
};

enum { FAULT_SHORT = -1 }; /* in place of an error number: half of the bytes are written */

static atomic_int fault_left[FAULT_COUNT]; /* uses until the failing one; 0 = off */
static atomic_int fault_hits;              /* how many have failed */
static int fault_error;
static bool fault_forever;

static inline void fault_disarm(void)
{
    for (int i = 0; i < FAULT_COUNT; i++)
        atomic_store(&fault_left[i], 0);
}

static inline void fault_arm(enum fault_call call, int nth, int error, bool forever)
{
    fault_disarm();
    atomic_store(&fault_hits, 0);
    fault_error = error;
    fault_forever = forever;
    atomic_store(&fault_left[call], nth);
}

/* $FAULT_IO = "call nth error role": role is what must stand in argv[2], or "daemon". */
static inline void fault_arm_from_environment(int argc, char **argv)
{
    char call[32], role[32];
    int nth, error;
    const char *text = getenv("FAULT_IO");
    const char *mine = argc > 2 && strcmp(argv[1], "--worker") == 0 ? argv[2] : "daemon";
    if (!text || sscanf(text, "%31s %d %d %31s", call, &nth, &error, role) != 4 ||
        strcmp(role, mine) != 0)
        return;
    for (int i = 0; i < FAULT_COUNT; i++)
        if (strcmp(fault_names[i], call) == 0)
            fault_arm((enum fault_call)i, nth, error, false);
}

/* With $FAULT_ONCE, the name of a file that does not exist yet, one process of all fails. */
static inline bool fault_is_first(void)
{
    const char *mark = getenv("FAULT_ONCE");
    if (!mark)
        return true;
    long fd = syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    return fd >= 0;
}

/* Whether this use fails. */
static inline bool fault_now(enum fault_call call)
{
    int left = atomic_load(&fault_left[call]);
    if (left <= 0)
        return false;
    if (left == 1 && !fault_is_first()) {
        atomic_store(&fault_left[call], 0);
        return false;
    }
    if (left > 1) {
        atomic_fetch_sub(&fault_left[call], 1);
        return false;
    }
    if (!fault_forever)
        atomic_store(&fault_left[call], 0);
    atomic_fetch_add(&fault_hits, 1);
    if (fault_error != FAULT_SHORT)
        errno = fault_error;
    return true;
}

/* The function that would be called without us. */
#define FAULT_REAL(name)                                                                           \
    static __typeof__(&name) real;                                                                 \
    if (!real) {                                                                                   \
        void *symbol = dlsym(RTLD_NEXT, #name);                                                    \
        memcpy(&real, &symbol, sizeof real);                                                       \
    }

int open64(const char *path, int flags, ...)
{
    FAULT_REAL(open64)
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fault_now(FAULT_open64) ? -1 : real(path, flags, mode);
}

/* Event descriptors and pipes inside a process do not fail, and libuv aborts when they do. */
static inline bool fault_can(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode));
}

ssize_t read(int fd, void *data, size_t size)
{
    FAULT_REAL(read)
    if (!fault_can(fd) || !fault_now(FAULT_read))
        return real(fd, data, size);
    return fault_error == FAULT_SHORT && size > 1 ? real(fd, data, size / 2) : -1;
}

ssize_t write(int fd, const void *data, size_t size)
{
    FAULT_REAL(write)
    if (!fault_can(fd) || !fault_now(FAULT_write))
        return real(fd, data, size);
    return fault_error == FAULT_SHORT ? real(fd, data, (size + 1) / 2) : -1;
}

ssize_t pread64(int fd, void *data, size_t size, off64_t at)
{
    FAULT_REAL(pread64)
    if (!fault_now(FAULT_pread64))
        return real(fd, data, size, at);
    return fault_error == FAULT_SHORT ? real(fd, data, (size + 1) / 2, at) : -1;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    FAULT_REAL(pwrite64)
    if (!fault_now(FAULT_pwrite64))
        return real(fd, data, size, at);
    return fault_error == FAULT_SHORT ? real(fd, data, (size + 1) / 2, at) : -1;
}

static atomic_int fault_syncs; /* how often somebody waited for the disk */

int fdatasync(int fd)
{
    (void)fd;
    atomic_fetch_add(&fault_syncs, 1);
    return fault_now(FAULT_fdatasync) ? -1 : 0;
}

int fsync(int fd)
{
    (void)fd;
    atomic_fetch_add(&fault_syncs, 1);
    return fault_now(FAULT_fsync) ? -1 : 0;
}

int ftruncate64(int fd, off64_t size)
{
    FAULT_REAL(ftruncate64)
    return fault_now(FAULT_ftruncate64) ? -1 : real(fd, size);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
    FAULT_REAL(mmap64)
    bool file = fd >= 0; /* memory for the program itself is another matter (base/alloc.h) */
    return file && fault_now(FAULT_mmap64) ? MAP_FAILED
                                           : real(at, size, protection, flags, fd, offset);
}

int fstat64(int fd, struct stat64 *status)
{
    FAULT_REAL(fstat64)
    return fault_now(FAULT_fstat64) ? -1 : real(fd, status);
}

int unlink(const char *path)
{
    FAULT_REAL(unlink)
    return fault_now(FAULT_unlink) ? -1 : real(path);
}

/* Locks alone can fail. */
int fcntl64(int fd, int command, ...)
{
    FAULT_REAL(fcntl64)
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    bool lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK;
    return lock && fault_now(FAULT_lock) ? -1 : real(fd, command, argument);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    FAULT_REAL(accept4)
    return fault_now(FAULT_accept4) ? -1 : real(fd, address, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    FAULT_REAL(sendmsg)
    return fault_now(FAULT_sendmsg) ? -1 : real(fd, message, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    FAULT_REAL(send)
    if (!fault_now(FAULT_send))
        return real(fd, data, size, flags);
    return fault_error == FAULT_SHORT ? real(fd, data, (size + 1) / 2, flags) : -1;
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    FAULT_REAL(recv)
    return fault_now(FAULT_recv) ? -1 : real(fd, data, size, flags);
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
    FAULT_REAL(socketpair)
    return fault_now(FAULT_socketpair) ? -1 : real(domain, type, protocol, pair);
}

int mkdir(const char *path, mode_t mode)
{
    FAULT_REAL(mkdir)
    return fault_now(FAULT_mkdir) ? -1 : real(path, mode);
}

#endif
