/* The device owner process: one, holding the device. Loop thread only. */
#ifndef IPU_DAEMON_OWNER_H
#define IPU_DAEMON_OWNER_H

#include "daemon/daemon.h"
#include "proto/rpc.pb-c.h"

IPU_MUST_CHECK int owner_create(struct daemon *daemon, struct owner **out, struct ipu_error *error);
/* Runs the next waiting job when the device is idle. */
void owner_kick(struct owner *owner);
/* Writes the state for `info`: "idle", "running", "starting", "broken: ...". */
void owner_describe(const struct owner *owner, char *text, size_t size);
const char *owner_resident(const struct owner *owner);
uint64_t owner_deaths(const struct owner *owner);
bool owner_busy(const struct owner *owner);

/* A self-test of the device: waits until the device is idle, then is run by its owner. */
struct selftest {
    /* Loop thread: a step has ended, or (outcome WAITING) the test waits. */
    void (*step)(void *context, const Ipu__Rpc__SelftestStep *step);
    /* Once, unless it is dropped before: 0, or why it ended badly. */
    void (*done)(void *context, int rc, const char *text);
    void *context;
};
/* IPU_ERR_BUSY when another one waits or runs. `test` stays the caller's until done() or
 * owner_test_drop(). */
IPU_MUST_CHECK int owner_test(struct owner *owner, struct selftest *test, struct ipu_error *error);
/* Its reader has gone: a waiting test leaves the line, a running one is stopped. */
void owner_test_drop(struct owner *owner, const struct selftest *test);

void owner_close(struct owner *owner);
bool owner_closed(const struct owner *owner);
void owner_free(struct owner *owner);

#endif
