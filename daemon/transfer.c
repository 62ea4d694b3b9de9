/* Feeds and intakes: see transfer.h.
 *
 * Feed: IDLE (waits for room) <-> READING (a store operation is in flight); a dropped feed in
 * READING frees itself when the operation comes back. Intake: operations begin, append*, end run in
 * order on the store thread, where `upload` lives; the first failure is kept and the rest are
 * skipped. An intake frees itself when it has been finished or dropped and no operation is in
 * flight.
 */
#include "daemon/transfer.h"

#include "base/alloc.h"

#include <string.h>

/* --- feed --- */

struct feed {
    struct storeq_op op;
    struct storeq *store;
    struct store_object object;
    struct store_reader *reader; /* store thread */
    struct buffer piece;
    bool reading, last, dropped;
    bool closing; /* for the store thread; only changed while no operation is in flight */
    struct link *link;
    uint8_t type;
    uint32_t call;
    feed_done_fn *done;
    void *context;
};

static int run_feed(struct store *store, struct storeq_op *op)
{
    struct feed *feed = (struct feed *)op;
    int rc = 0;
    if (!feed->reader && !feed->closing)
        rc = store_reader_open(store, &feed->object, &feed->reader, &op->error);
    if (rc == 0 && feed->reader && !feed->closing)
        rc = store_reader_next(store, feed->reader, &feed->piece, &feed->last, &op->error);
    if (rc || feed->last || feed->closing) {
        store_reader_close(store, feed->reader);
        feed->reader = NULL;
    }
    return rc;
}

static void free_feed(struct feed *feed)
{
    buffer_free(&feed->piece);
    ipu_free(feed);
}

static void on_feed(struct storeq_op *op);

static void read_more(struct feed *feed)
{
    feed->reading = true;
    feed->closing = feed->dropped;
    if (!feed->dropped)
        feed->link->feeding = true;
    feed->piece.size = 0;
    feed->op.relaxed = true;
    feed->op.run = run_feed;
    feed->op.done = on_feed;
    storeq_push(feed->store, &feed->op);
}

static void end_feed(struct feed *feed, int rc)
{
    feed_done_fn *done = feed->done;
    void *context = feed->context;
    struct ipu_error error = feed->op.error;
    free_feed(feed);
    done(context, rc, &error);
}

static void on_feed(struct storeq_op *op)
{
    struct feed *feed = (struct feed *)op;
    feed->reading = false;
    if (feed->dropped) {
        if (feed->reader)
            read_more(feed); /* only closes the reader */
        else
            free_feed(feed);
        return;
    }
    feed->link->feeding = false;
    if (op->rc) {
        end_feed(feed, op->rc);
        return;
    }
    if (feed->piece.size)
        link_send(feed->link, feed->type, feed->call, feed->piece.data, feed->piece.size);
    buffer_free(&feed->piece);
    if (feed->last)
        end_feed(feed, 0);
    else
        feed_resume(feed);
}

struct feed *feed_start(struct storeq *store, const struct store_object *object, struct link *link,
                        uint8_t type, uint32_t call, feed_done_fn *done, void *context)
{
    struct feed *feed = ipu_calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    feed->store = store;
    feed->object = *object;
    feed->link = link;
    feed->type = type;
    feed->call = call;
    feed->done = done;
    feed->context = context;
    feed_resume(feed);
    return feed;
}

void feed_resume(struct feed *feed)
{
    bool room = !feed->link->feeding && link_queued(feed->link) < LINK_HIGH;
    if (!feed->reading && !feed->dropped && room)
        read_more(feed);
}

void feed_drop(struct feed *feed)
{
    if (!feed || feed->dropped)
        return;
    feed->dropped = true;
    if (feed->reading)
        feed->link->feeding = false;
    else
        read_more(feed); /* closes the reader on its own thread */
}

/* --- intake --- */

struct intake {
    struct storeq *store;
    enum store_kind kind;
    uint64_t bytes, appended;
    size_t pending;
    unsigned operations; /* in flight */
    bool finished, dropped, was_high;
    int commit_rc;
    struct ipu_error commit_error;
    /* store thread, or the loop when no operation is in flight */
    struct store_upload *upload;
    struct store_object object;
    bool published;
    int rc;
    struct ipu_error error;
    void (*drained)(void *context);
    void *drained_context;
    intake_done_fn *done;
    void *context;
};

struct intake_op {
    struct storeq_op op;
    struct intake *intake;
    size_t size;
    uint8_t data[];
};

static void fail_intake(struct store *store, struct intake *intake, int rc,
                        const struct ipu_error *error)
{
    if (intake->rc == 0) {
        intake->rc = rc;
        intake->error = *error;
    }
    if (intake->upload)
        store_upload_abort(store, intake->upload);
    intake->upload = NULL;
}

static int run_begin(struct store *store, struct storeq_op *op)
{
    struct intake *intake = ((struct intake_op *)op)->intake;
    struct ipu_error error = {0};
    int rc = store_upload_begin(store, intake->kind, intake->bytes, &intake->upload, &error);
    if (rc)
        fail_intake(store, intake, rc, &error);
    return 0;
}

static int run_append(struct store *store, struct storeq_op *op)
{
    struct intake_op *piece = (struct intake_op *)op;
    struct ipu_error error = {0};
    struct intake *intake = piece->intake;
    if (!intake->upload)
        return 0;
    int rc = store_upload_append(store, intake->upload, piece->data, piece->size, &error);
    if (rc)
        fail_intake(store, intake, rc, &error);
    return 0;
}

static int run_end(struct store *store, struct storeq_op *op)
{
    struct intake *intake = ((struct intake_op *)op)->intake;
    struct ipu_error error = {0};
    if (!intake->upload)
        return 0;
    int rc = store_upload_finish(store, intake->upload, &intake->object, &error);
    intake->upload = NULL;
    intake->published = rc == 0;
    if (rc)
        fail_intake(store, intake, rc, &error);
    return 0;
}

static int run_drop(struct store *store, struct storeq_op *op)
{
    struct intake *intake = ((struct intake_op *)op)->intake;
    if (intake->upload)
        store_upload_abort(store, intake->upload);
    intake->upload = NULL;
    if (intake->published)
        store_unpin(store, intake->object.id);
    intake->published = false;
    return 0;
}

static void end_intake(struct intake *intake)
{
    intake_done_fn *done = intake->dropped ? NULL : intake->done;
    int rc = intake->commit_rc ? intake->commit_rc : intake->rc;
    if (rc && intake->published)
        transfer_unpin(intake->store, intake->object.id);
    if (done)
        done(intake->context, rc, &intake->object,
             intake->commit_rc ? &intake->commit_error : &intake->error);
    ipu_free(intake);
}

static void on_intake(struct storeq_op *op)
{
    struct intake_op *piece = (struct intake_op *)op;
    struct intake *intake = piece->intake;
    intake->operations--;
    intake->pending -= piece->size;
    if (op->rc && intake->commit_rc == 0) {
        intake->commit_rc = op->rc;
        intake->commit_error = op->error;
    }
    ipu_free(piece);
    if (intake->operations == 0 && (intake->dropped || intake->finished)) {
        end_intake(intake);
        return;
    }
    if (intake->was_high && intake->pending < INTAKE_HIGH / 2) {
        intake->was_high = false;
        if (intake->drained && !intake->dropped)
            intake->drained(intake->drained_context);
    }
}

static bool push(struct intake *intake, int (*run)(struct store *store, struct storeq_op *op),
                 const void *data, size_t size)
{
    struct intake_op *piece = ipu_malloc(sizeof *piece + size);
    if (!piece)
        return false;
    memset(piece, 0, sizeof *piece);
    piece->op.run = run;
    piece->op.done = on_intake;
    piece->op.weight = size;
    piece->op.relaxed = true; /* the row that refers to the object is committed later */
    piece->intake = intake;
    piece->size = size;
    if (size)
        memcpy(piece->data, data, size);
    intake->operations++;
    intake->pending += size;
    storeq_push(intake->store, &piece->op);
    return true;
}

struct intake *intake_start(struct storeq *store, enum store_kind kind, uint64_t bytes)
{
    struct intake *intake = ipu_calloc(1, sizeof *intake);
    if (!intake)
        return NULL;
    intake->store = store;
    intake->kind = kind;
    intake->bytes = bytes;
    if (!push(intake, run_begin, NULL, 0)) {
        ipu_free(intake);
        return NULL;
    }
    return intake;
}

bool intake_append(struct intake *intake, const void *data, size_t size)
{
    intake->appended += size;
    return push(intake, run_append, data, size);
}

uint64_t intake_missing(const struct intake *intake)
{
    return intake->bytes - intake->appended;
}

bool intake_full(struct intake *intake)
{
    bool full = intake->pending > INTAKE_HIGH ||
                (intake->pending && storeq_weight(intake->store) > STOREQ_HIGH);
    intake->was_high = intake->was_high || full;
    return full;
}

bool intake_idle(const struct intake *intake)
{
    return intake->pending == 0;
}

void intake_on_drained(struct intake *intake, void (*drained)(void *context), void *context)
{
    intake->drained = drained;
    intake->drained_context = context;
}

void intake_finish(struct intake *intake, intake_done_fn *done, void *context)
{
    intake->done = done;
    intake->context = context;
    intake->finished = true;
    if (!push(intake, run_end, NULL, 0)) {
        struct ipu_error error;
        ipu_error_set(&error, IPU_ERR_NO_MEMORY, "out of memory");
        intake_drop(intake);
        done(context, error.code, NULL, &error);
    }
}

void intake_drop(struct intake *intake)
{
    if (!intake || intake->dropped)
        return;
    intake->dropped = true;
    if (!push(intake, run_drop, NULL, 0) && intake->operations == 0)
        ipu_free(intake); /* the upload itself is dropped at the next start */
}

/* --- pins --- */

struct pin_op {
    struct storeq_op op;
    int64_t id;
    bool pin;
};

static int run_pin(struct store *store, struct storeq_op *op)
{
    struct pin_op *pin = (struct pin_op *)op;
    if (pin->pin)
        store_pin(store, pin->id);
    else
        store_unpin(store, pin->id);
    return 0;
}

static void on_pin(struct storeq_op *op)
{
    ipu_free(op);
}

static void push_pin(struct storeq *store, int64_t id, bool pin)
{
    struct pin_op *op = ipu_calloc(1, sizeof *op);
    if (!op)
        return; /* a pin too many only keeps an object longer */
    op->op.run = run_pin;
    op->op.done = on_pin;
    op->op.relaxed = true;
    op->id = id;
    op->pin = pin;
    storeq_push(store, &op->op);
}

void transfer_pin(struct storeq *store, int64_t id)
{
    push_pin(store, id, true);
}

void transfer_unpin(struct storeq *store, int64_t id)
{
    push_pin(store, id, false);
}
