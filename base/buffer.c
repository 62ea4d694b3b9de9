/* Growable bytes and whole-file helpers: see buffer.h. */
#include "base/buffer.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void buffer_free(struct buffer *buffer)
{
    ipu_free(buffer->data);
    *buffer = (struct buffer){0};
}

static bool reserve(struct buffer *buffer, size_t more)
{
    if (buffer->failed || more > SIZE_MAX / 4 - buffer->size)
        goto fail;
    size_t need = buffer->size + more;
    if (need <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity * 2 : 256;
    if (capacity < need)
        capacity = need;
    uint8_t *data = ipu_realloc(buffer->data, capacity);
    if (!data)
        goto fail;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
fail:
    buffer->failed = true;
    return false;
}

void buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    if (size == 0 || !reserve(buffer, size))
        return;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

void buffer_append_u32(struct buffer *buffer, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                        (uint8_t)(value >> 24)};
    buffer_append(buffer, bytes, sizeof bytes);
}

void buffer_append_zero(struct buffer *buffer, size_t size)
{
    if (size == 0 || !reserve(buffer, size))
        return;
    memset(buffer->data + buffer->size, 0, size);
    buffer->size += size;
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !reserve(buffer, (size_t)length + 1))
        return;
    va_start(args, format);
    vsnprintf((char *)buffer->data + buffer->size, (size_t)length + 1, format, args);
    va_end(args);
    buffer->size += (size_t)length;
}

static int read_all(int fd, struct buffer *buffer, size_t limit)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (st.st_size > 0 && (size_t)st.st_size <= limit && !reserve(buffer, (size_t)st.st_size + 1))
        return -ENOMEM;
    for (;;) {
        if (!reserve(buffer, 65536))
            return -ENOMEM;
        ssize_t n = read(fd, buffer->data + buffer->size, buffer->capacity - buffer->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        buffer->size += (size_t)n;
        if (buffer->size > limit)
            return -EFBIG;
    }
}

int buffer_read_file(struct buffer *buffer, const char *path, size_t limit)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = read_all(fd, buffer, limit);
    close(fd);
    return rc;
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* A new file beside `path`, with the mode that the process's mask leaves: mkostemp() would make it
 * private, and asking for the mask means setting it, for all threads. */
static int open_beside(const char *path, char *temporary, size_t size)
{
    for (unsigned attempt = 0;; attempt++) {
        int n = snprintf(temporary, size, "%s.tmp-%ld-%u", path, (long)getpid(), attempt);
        if (n < 0 || (size_t)n >= size)
            return -ENAMETOOLONG;
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST || attempt == 1000)
            return -errno;
    }
}

int buffer_write_file(const char *path, const void *data, size_t size)
{
    char temporary[4096];
    int fd = open_beside(path, temporary, sizeof temporary);
    if (fd < 0)
        return fd;
    int rc = write_all(fd, data, size);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && rename(temporary, path) < 0)
        rc = -errno;
    if (rc < 0)
        unlink(temporary);
    return rc;
}
