/* Traces of a simulated device for people who write kernels: what ipu-run prints for --trace,
 * --watch and --stop-at. One trace per session, used by the session's thread.
 */
#ifndef IPU_DRIVER_TRACE_H
#define IPU_DRIVER_TRACE_H

#include "base/error.h"
#include "device/package/package.h"
#include "device/sim/observe.h"

#include <stdatomic.h>
#include <stdio.h>

struct trace {
    struct sim_observer observer; /* for device_options.observer */
    const struct package *package;
    FILE *out;
    atomic_bool stop; /* for device_options.cancel: set when `stop_at` is reached */
};

/* `package` names addresses; it and `out` must outlive the trace. */
void trace_begin(struct trace *trace, const struct package *package, FILE *out);
/* "TILE[:CONTEXT]": a logical tile, and `supervisor` or a worker 0..5; without a context all of
 * them. May be called for several tiles. */
IPU_MUST_CHECK int trace_tile(struct trace *trace, const char *text, struct ipu_error *error);
/* "ADDRESS" or "SYMBOL[+OFFSET]": a word of the traced tiles, or of every tile when none is. */
IPU_MUST_CHECK int trace_watch(struct trace *trace, const char *text, struct ipu_error *error);
void trace_stop_at(struct trace *trace, uint64_t cycle);
/* NULL when nothing was asked for. Call once, after the others. */
const struct sim_observer *trace_observer(struct trace *trace);

#endif
