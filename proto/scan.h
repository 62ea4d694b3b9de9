/* Untrusted protobuf bytes: checked before protobuf-c sees them, then unpacked under a byte budget.
 *
 * protobuf-c recurses without a depth limit and can turn 10 MB of input into 1 GB of structures, so
 * no byte that came over a socket, from a file or from the store is handed to it directly. The scan
 * walks the wire format once with an explicit stack, guided by the message descriptor; it allocates
 * nothing. Safe from any thread.
 */
#ifndef IPU_PROTO_SCAN_H
#define IPU_PROTO_SCAN_H

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCAN_MAX_DEPTH = 64 };

struct scan_limits {
    unsigned depth;  /* nested messages, the outermost counts as 1; at most SCAN_MAX_DEPTH */
    size_t elements; /* fields, repeated elements and messages together */
    size_t bytes;    /* of the input */
    size_t memory;   /* that unpacking may allocate */
};

/* Limits for the daemon's control messages: 64 KiB, 4,096 elements, 1 MiB of structures. */
extern const struct scan_limits scan_control_limits;
/* Limits for a workload file: 1 GiB, 4 million elements; memory 2.25 GiB covers one copy of the
 * data. */
extern const struct scan_limits scan_workload_limits;

/* Checks `data` as a message of `descriptor`: field numbers, wire types, lengths, depth, counts,
 * strings (UTF-8 without NUL). IPU_ERR_LIMIT past a cap, else IPU_ERR_INVALID; the sentence names
 * the message type, the field and the byte offset. */
IPU_MUST_CHECK int scan_message(const ProtobufCMessageDescriptor *descriptor, const void *data,
                                size_t size, const struct scan_limits *limits,
                                struct ipu_error *error);

/* Scans, then unpacks. The message is freed with scan_free(). */
IPU_MUST_CHECK int scan_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
                               size_t size, const struct scan_limits *limits,
                               ProtobufCMessage **out, struct ipu_error *error);
void scan_free(ProtobufCMessage *message);

/* Finds the last occurrence of a length-delimited field at the top level of a message without
 * unpacking it: true and its span (empty when absent); false when the bytes are not a message. */
bool scan_find_bytes(const void *data, size_t size, uint32_t field, const uint8_t **span,
                     size_t *length);

#endif
