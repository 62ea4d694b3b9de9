/* The device owner process: one, holding the device. Loop thread only. */
#ifndef IPU_DAEMON_OWNER_H
#define IPU_DAEMON_OWNER_H

#include "daemon/daemon.h"

IPU_MUST_CHECK int owner_create(struct daemon *daemon, struct owner **out, struct ipu_error *error);
/* Runs the next waiting job when the device is idle. */
void owner_kick(struct owner *owner);
/* Writes the state for `info`: "idle", "running", "starting", "broken: ...". */
void owner_describe(const struct owner *owner, char *text, size_t size);
const char *owner_resident(const struct owner *owner);
uint64_t owner_deaths(const struct owner *owner);
bool owner_busy(const struct owner *owner);
void owner_close(struct owner *owner);
bool owner_closed(const struct owner *owner);
void owner_free(struct owner *owner);

#endif
