/* Private to device/driver: one open device and the package on it. */
#ifndef IPU_DRIVER_SESSION_H
#define IPU_DRIVER_SESSION_H

#include "device/driver/boot.h"
#include "device/driver/card.h"
#include "device/driver/configuration.h"
#include "device/driver/driver.h"
#include "device/driver/stream.h"

#include "base/buffer.h"

enum { SESSION_COMMAND_PAGE = 4096 /* bytes of page 0 */ };

struct device_session {
    struct device_options options;
    struct card card;
    struct configuration configuration;
    struct boot_loader loader;
    bool fresh;                    /* reset and configured, nothing loaded */
    const struct package *package; /* loaded, or NULL */
    struct hash resident;          /* digest of what is on the device; meaningful when `ready` */
    bool ready;                    /* loaded, initialised and waiting for a run */
    bool has_run;
    uint8_t *pages; /* page 0, then page 1: both attached */
    size_t page_bytes;
    uint8_t *frames;                 /* what the secondary loader reads: FRAMES_BUFFER bytes */
    struct stream_contents contents; /* of inputs and parameters, by tensor */
    struct stream_store streams;     /* output pages of the last run, by tile */
    struct stream_outputs outputs;   /* gathered tensors, by tensor */
    struct buffer report;            /* of the last fault, NUL-terminated */
    double load_ms, initialize_ms;
};

/* As device_open(), without reset and configuration. */
IPU_MUST_CHECK int session_open(const struct device_options *options, struct device_session **out,
                                struct ipu_error *error);
/* Reset and configuration: what a load begins with. */
IPU_MUST_CHECK int session_initialize(struct device_session *session, struct ipu_error *error);
/* Loader and application onto the tiles; their first synchronisation; the host exchange session
 * (facts/host_protocol.md sections 3, 4, 7). In this order, once after each initialisation. */
IPU_MUST_CHECK int session_send(struct device_session *session, const struct package *package,
                                struct ipu_error *error);
IPU_MUST_CHECK int session_synchronise(struct device_session *session,
                                       const struct package *package, struct ipu_error *error);
IPU_MUST_CHECK int session_exchange(struct device_session *session, const struct package *package,
                                    struct ipu_error *error);
/* As device_load(), for a package of any flag set. */
IPU_MUST_CHECK int session_load(struct device_session *session, const struct package *package,
                                struct ipu_error *error);
/* Keeps the long explanation of a failed step, wraps its sentence; the device has to be loaded
 * again. Returns the code, which the explanation may have made a better one. */
int session_fail(struct device_session *session, int code, const char *what,
                 struct ipu_error *error);
void session_progress(const struct device_session *session, const char *stage, double fraction);

#endif
