/* The store thread: runs store operations one after another, off the event loop.
 *
 * An operation is embedded in its owner. `run` is called on the store thread inside a transaction
 * shared with whatever else was waiting (one fsync for all); `done` is called on the loop after the
 * commit has succeeded, or with `rc` and `error` set when it has not. What is pushed in one turn of
 * the loop is one batch, or part of one. Between storeq_push() and `done` the operation belongs to
 * the queue. All functions are called on the loop thread.
 */
#ifndef IPU_DAEMON_STOREQ_H
#define IPU_DAEMON_STOREQ_H

#include "base/error.h"
#include "base/log.h"
#include "daemon/store.h"

#include <uv.h>

struct storeq;

struct storeq_op {
    int (*run)(struct store *store, struct storeq_op *op); /* result goes to rc */
    void (*done)(struct storeq_op *op);
    int rc;
    struct ipu_error error;
    size_t weight; /* bytes that the operation holds, for back pressure */
    /* Nobody is told of it as done: it may be lost in a power cut (never in a crash), so that its
     * commit need not wait for the disk. A later commit that waits makes it safe as well. */
    bool relaxed;
    struct storeq_op *next;
};

/* Takes over `store`. */
IPU_MUST_CHECK int storeq_start(uv_loop_t *loop, struct store *store, uint64_t keep_jobs,
                                struct log *log, struct storeq **out, struct ipu_error *error);
void storeq_push(struct storeq *queue, struct storeq_op *op);
/* Bytes held by operations that have not run: readers pause above STOREQ_HIGH. */
enum { STOREQ_HIGH = 32 << 20 };
size_t storeq_weight(const struct storeq *queue);
/* "" or why nothing can be stored at present. */
const char *storeq_degraded(const struct storeq *queue);
/* Whether everything pushed has been answered. */
bool storeq_idle(const struct storeq *queue);
/* Finishes what was pushed, joins the thread, closes the store, then calls `stopped` on the loop.
 */
void storeq_stop(struct storeq *queue, void (*stopped)(void *context), void *context);

#endif
