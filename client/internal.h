/* What the files of libipu share: the connection and its frames. Private to client/libipu*.c. */
#ifndef IPU_CLIENT_INTERNAL_H
#define IPU_CLIENT_INTERNAL_H

#include "client/ipu.h"
#include "proto/frame.h"

struct ipu_client {
    int fd;
    int wake_fd;
    unsigned timeout_ms;
    uint32_t next_call;
    struct frame_decoder in;
    ProtobufCMessage *reply; /* what the last call returned */
    ProtobufCMessage *hello;
    char path[256];
};

/* Sends one request frame; waits when the socket is full. With `early` set, replies that arrive
 * meanwhile end the sending (1): the daemon has refused. */
int client_send(struct ipu_client *client, uint8_t type, uint32_t call, const void *body,
                size_t size, bool early, struct ipu_error *error);
int client_send_message(struct ipu_client *client, uint8_t type, uint32_t call,
                        const ProtobufCMessage *message, struct ipu_error *error);
/* Receives the next frame of `call`; frames of calls that were given up are skipped. REPLY_ERROR of
 * the call becomes its code and sentence. `wake` = the wake descriptor may end the wait (CANCELLED,
 * *woken set). */
int client_receive(struct ipu_client *client, uint32_t call, struct frame *frame, bool wake,
                   bool *woken, struct ipu_error *error);
/* Unpacks a reply body and keeps it in client->reply. */
int client_keep(struct ipu_client *client, const struct frame *frame, uint8_t expected,
                const ProtobufCMessageDescriptor *descriptor, const ProtobufCMessage **out,
                struct ipu_error *error);
int client_unpack(const struct frame *frame, const ProtobufCMessageDescriptor *descriptor,
                  ProtobufCMessage **out, struct ipu_error *error);
/* Asks the daemon to end a call and reads until its end. */
void client_stop(struct ipu_client *client, uint32_t call);
uint32_t client_new_call(struct ipu_client *client);
int client_unexpected(const struct frame *frame, struct ipu_error *error);

#endif
