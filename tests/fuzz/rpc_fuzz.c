/* module: proto */
/* Fuzzes the messages of the protocol: the first byte chooses a message type, the rest is its
 * bytes. What the scan accepts, protobuf-c must unpack within the budget, and pack again to bytes
 * that the scan accepts.
 */
#include "proto/rpc.pb-c.h"
#include "proto/scan.h"
#include "proto/worker.pb-c.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const types[] = {
    &ipu__rpc__hello__descriptor,
    &ipu__rpc__submit_begin__descriptor,
    &ipu__rpc__submit_end__descriptor,
    &ipu__rpc__watch__descriptor,
    &ipu__rpc__job_request__descriptor,
    &ipu__rpc__list_request__descriptor,
    &ipu__rpc__fetch__descriptor,
    &ipu__rpc__cache_list_request__descriptor,
    &ipu__rpc__cache_gc__descriptor,
    &ipu__rpc__search_request__descriptor,
    &ipu__rpc__search_list_request__descriptor,
    &ipu__rpc__event__descriptor,
    &ipu__rpc__watch_end__descriptor,
    &ipu__rpc__job_list__descriptor,
    &ipu__rpc__info__descriptor,
    &ipu__rpc__outputs__descriptor,
    &ipu__rpc__cache_stats__descriptor,
    &ipu__rpc__error__descriptor,
    &ipu__worker__keys__descriptor,
    &ipu__worker__check_task__descriptor,
    &ipu__worker__stream__descriptor,
    &ipu__worker__ran__descriptor,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ProtobufCMessage *message;
    struct ipu_error error;
    if (size < 1)
        return 0;
    const ProtobufCMessageDescriptor *type = types[data[0] % (sizeof types / sizeof types[0])];
    int accepted = scan_message(type, data + 1, size - 1, &scan_control_limits, &error);
    int rc = scan_unpack(type, data + 1, size - 1, &scan_control_limits, &message, &error);
    if (accepted && rc == 0)
        abort();
    if (rc)
        return 0;
    size_t packed = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(packed + 1);
    if (!bytes || protobuf_c_message_pack(message, bytes) != packed)
        abort();
    struct scan_limits wide = scan_control_limits;
    wide.bytes = wide.elements = SIZE_MAX / 2;
    if (scan_message(type, bytes, packed, &wide, &error))
        abort();
    free(bytes);
    scan_free(message);
    return 0;
}
