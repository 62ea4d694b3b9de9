/* graph_parse(): untrusted bytes to a workload message, scanned before protobuf-c sees them. */
#include "compiler/graph/graph.h"

#include "proto/scan.h"

/* The handle is the message itself: scan_free() finds its allocator in front of it. */
struct graph_message {
    Ipu__Workload__Workload workload;
};

int graph_parse(const void *data, size_t size, struct graph_message **out, struct ipu_error *error)
{
    ProtobufCMessage *message = NULL;
    int rc = scan_unpack(&ipu__workload__workload__descriptor, data, size, &scan_workload_limits,
                         &message, error);
    if (rc < 0)
        return ipu_error_wrap(error, "workload: ");
    *out = (struct graph_message *)(void *)message;
    return 0;
}

const Ipu__Workload__Workload *graph_message(const struct graph_message *message)
{
    return &message->workload;
}

void graph_release(struct graph_message *message)
{
    if (message)
        scan_free(&message->workload.base);
}
