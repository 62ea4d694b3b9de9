/* A growable byte buffer with little-endian writers. On allocation failure the buffer turns
 * `failed` and later appends do nothing, so that a writer checks once at the end. Not thread-safe.
 */
#ifndef IPU_BASE_BUFFER_H
#define IPU_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
    bool failed;
};

void buffer_free(struct buffer *buffer);
void buffer_append(struct buffer *buffer, const void *data, size_t size);
void buffer_append_u32(struct buffer *buffer, uint32_t value);
void buffer_append_zero(struct buffer *buffer, size_t size);
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads a whole regular file of at most `limit` bytes into `buffer` (which the caller frees). 0 or
 * -errno; -EFBIG past limit. */
int buffer_read_file(struct buffer *buffer, const char *path, size_t limit);
/* Writes atomically: temporary file beside `path`, fsync, rename. 0 or -errno. */
int buffer_write_file(const char *path, const void *data, size_t size);

#endif
