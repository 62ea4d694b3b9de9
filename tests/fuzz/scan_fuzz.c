/* module: proto */
/* Fuzzes the scan with workloads, the deepest of our messages: it never reads outside its input,
 * never lets more through than its limits, and what it lets through unpacks within its memory or is
 * refused.
 */
#include "proto/scan.h"
#include "proto/workload.pb-c.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct scan_limits limits = {SCAN_MAX_DEPTH, 4096, 1 << 20, 1 << 20};
    ProtobufCMessage *message;
    struct ipu_error error;
    const uint8_t *span;
    size_t length;
    if (scan_find_bytes(data, size, 2, &span, &length) && span &&
        (span < data || span + length > data + size))
        abort();
    if (scan_unpack(&ipu__workload__workload__descriptor, data, size, &limits, &message, &error) ==
        0)
        scan_free(message);
    return 0;
}
