/* Moving bytes between links and the store, in pieces and with back pressure.
 *
 * A feed reads an object and sends it as data frames. An intake takes bytes as they come and makes
 * an object of them. Both live until their end or until they are dropped; dropping is allowed at
 * any time and detaches the owner at once, while store operations in flight finish on their own.
 * Loop thread only.
 */
#ifndef IPU_DAEMON_TRANSFER_H
#define IPU_DAEMON_TRANSFER_H

#include "daemon/link.h"
#include "daemon/storeq.h"

struct feed;
struct intake;

/* Called once: rc 0 when the last byte has been queued on the link, else what went wrong. The feed
 * is gone then. */
typedef void feed_done_fn(void *context, int rc, const struct ipu_error *error);

/* Sends `object` over `link` in frames of `type` and `call`. NULL when memory runs out. */
struct feed *feed_start(struct storeq *store, const struct store_object *object, struct link *link,
                        uint8_t type, uint32_t call, feed_done_fn *done, void *context);
/* The link has room again. */
void feed_resume(struct feed *feed);
void feed_drop(struct feed *feed);

/* Result of an intake; `object` is pinned in the store until intake_unpin(). */
typedef void intake_done_fn(void *context, int rc, const struct store_object *object,
                            const struct ipu_error *error);

struct intake *intake_start(struct storeq *store, enum store_kind kind, uint64_t bytes);
/* False when memory runs out; the intake then fails at its end. */
bool intake_append(struct intake *intake, const void *data, size_t size);
/* Bytes announced and not yet appended. */
uint64_t intake_missing(const struct intake *intake);
/* Whether too many bytes wait for the store: then the source must pause, and is told through
 * `drained` when it may go on. */
enum { INTAKE_HIGH = 4 << 20 };
bool intake_full(struct intake *intake);
/* Whether nothing of it waits for the store. */
bool intake_idle(const struct intake *intake);
void intake_on_drained(struct intake *intake, void (*drained)(void *context), void *context);
/* All bytes have been appended. The intake is gone when `done` has been called. */
void intake_finish(struct intake *intake, intake_done_fn *done, void *context);
void intake_drop(struct intake *intake);

/* Releases the pin of a finished intake, or takes and releases one by id. */
void transfer_pin(struct storeq *store, int64_t id);
void transfer_unpin(struct storeq *store, int64_t id);

#endif
