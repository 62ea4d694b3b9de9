/* The store thread: see storeq.h.
 *
 * Operations collect in `pushed` until the turn of the loop ends (before and after it polls), then
 * go to `todo`. Two lists under one mutex: `todo` is filled by the loop, `finished` by the thread.
 * The thread takes all of `todo` at once and commits it as one batch. Invariant: an operation's
 * `done` never runs before the commit of its batch. When a commit fails, every operation of the
 * batch fails, the store is marked degraded, and the next successful commit clears the mark.
 */
#include "daemon/storeq.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct storeq {
    uv_async_t wake;
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    unsigned handles; /* that have not been closed */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ready;
    struct storeq_op *todo, **todo_end;
    struct storeq_op *finished, **finished_end;
    bool stopping;             /* under the mutex */
    char thread_degraded[256]; /* under the mutex */
    /* loop side */
    struct storeq_op *pushed, **pushed_end;
    char degraded[256];
    size_t weight;
    size_t outstanding;
    struct store *store;
    struct log *log;
    uint64_t keep_jobs;
    void (*stopped)(void *context);
    void *stopped_context;
};

static struct storeq_op *take(struct storeq_op **head, struct storeq_op ***end)
{
    struct storeq_op *list = *head;
    *head = NULL;
    *end = head;
    return list;
}

static void fail_batch(struct storeq_op *list, const struct ipu_error *error)
{
    for (struct storeq_op *op = list; op; op = op->next) {
        if (op->rc)
            continue;
        op->rc = error->code;
        op->error = *error;
    }
}

/* Runs and commits one batch. `degraded` becomes the sentence of a failing disk, or "" once
 * something has been written again. */
static void run_batch(struct storeq *queue, struct storeq_op *list, char *degraded, size_t size)
{
    struct ipu_error error = {0};
    unsigned errors = store_io_errors(queue->store);
    uint64_t changes = store_changes(queue->store);
    bool durable = false;
    for (struct storeq_op *op = list; op; op = op->next)
        durable = durable || !op->relaxed;
    int rc = store_batch_begin(queue->store, durable, &error);
    for (struct storeq_op *op = list; rc == 0 && op; op = op->next)
        op->rc = op->run(queue->store, op);
    if (rc == 0)
        rc = store_batch_end(queue->store, &error);
    if (rc) {
        fail_batch(list, &error);
        snprintf(degraded, size, "%.200s", error.text);
    } else if (store_io_errors(queue->store) != errors) {
        snprintf(degraded, size, "the disk of the state directory is full or failing");
    } else if (store_changes(queue->store) != changes) {
        degraded[0] = '\0';
    }
}

/* Waits for work. NULL: an idle slice may run, or the queue stops. */
static struct storeq_op *wait_for_work(struct storeq *queue, bool idle, bool *stop)
{
    pthread_mutex_lock(&queue->mutex);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    int rc = 0;
    while (!queue->todo && !queue->stopping && rc == 0)
        rc = idle ? pthread_cond_timedwait(&queue->ready, &queue->mutex, &until)
                  : pthread_cond_wait(&queue->ready, &queue->mutex);
    struct storeq_op *list = take(&queue->todo, &queue->todo_end);
    *stop = !list && queue->stopping;
    pthread_mutex_unlock(&queue->mutex);
    return list;
}

static void publish(struct storeq *queue, struct storeq_op *list, const char *degraded)
{
    pthread_mutex_lock(&queue->mutex);
    *queue->finished_end = list;
    while (*queue->finished_end)
        queue->finished_end = &(*queue->finished_end)->next;
    memcpy(queue->thread_degraded, degraded, sizeof queue->thread_degraded);
    pthread_mutex_unlock(&queue->mutex);
    uv_async_send(&queue->wake);
}

static void *store_thread(void *argument)
{
    struct storeq *queue = argument;
    bool idle = true;
    char degraded[256] = "";
    for (;;) {
        bool stop;
        struct storeq_op *list = wait_for_work(queue, idle, &stop);
        if (stop)
            break;
        if (!list) {
            idle = store_idle(queue->store, queue->keep_jobs);
            continue;
        }
        run_batch(queue, list, degraded, sizeof degraded);
        publish(queue, list, degraded);
        idle = true;
    }
    store_close(queue->store);
    uv_async_send(&queue->wake);
    return NULL;
}

static void free_queue(uv_handle_t *handle)
{
    struct storeq *queue = handle->data;
    if (--queue->handles)
        return;
    void (*stopped)(void *context) = queue->stopped;
    void *context = queue->stopped_context;
    pthread_mutex_destroy(&queue->mutex);
    pthread_cond_destroy(&queue->ready);
    ipu_free(queue);
    if (stopped)
        stopped(context);
}

static void close_handles(struct storeq *queue)
{
    uv_close((uv_handle_t *)&queue->before_poll, free_queue);
    uv_close((uv_handle_t *)&queue->after_poll, free_queue);
    uv_close((uv_handle_t *)&queue->wake, free_queue);
}

static void note_health(struct storeq *queue, const char *degraded)
{
    bool was = queue->degraded[0] != '\0', is = degraded[0] != '\0';
    memcpy(queue->degraded, degraded, sizeof queue->degraded);
    if (is && !was)
        log_event(queue->log, LOG_LEVEL_ERROR, "store", "cannot store; jobs wait until it can",
                  "reason=\"%s\"", degraded);
    if (was && !is)
        log_event(queue->log, LOG_LEVEL_INFO, "store", "storing again", "%s", "");
}

static void on_wake(uv_async_t *async)
{
    struct storeq *queue = async->data;
    char degraded[256];
    pthread_mutex_lock(&queue->mutex);
    struct storeq_op *list = take(&queue->finished, &queue->finished_end);
    memcpy(degraded, queue->thread_degraded, sizeof degraded);
    pthread_mutex_unlock(&queue->mutex);
    if (list)
        note_health(queue, degraded);
    while (list) {
        struct storeq_op *op = list;
        list = op->next;
        queue->weight -= op->weight;
        queue->outstanding--;
        op->done(op);
    }
    if (queue->stopped && queue->outstanding == 0 && !uv_is_closing((uv_handle_t *)async)) {
        pthread_mutex_lock(&queue->mutex);
        queue->stopping = true;
        pthread_cond_signal(&queue->ready);
        pthread_mutex_unlock(&queue->mutex);
        pthread_join(queue->thread, NULL);
        close_handles(queue);
    }
}

/* The turn's operations go to the thread together. */
static void hand_over(struct storeq *queue)
{
    if (!queue->pushed)
        return;
    pthread_mutex_lock(&queue->mutex);
    *queue->todo_end = queue->pushed;
    queue->todo_end = queue->pushed_end;
    pthread_cond_signal(&queue->ready);
    pthread_mutex_unlock(&queue->mutex);
    (void)take(&queue->pushed, &queue->pushed_end);
}

static void on_before_poll(uv_prepare_t *prepare)
{
    hand_over(prepare->data);
}

static void on_after_poll(uv_check_t *check)
{
    hand_over(check->data);
}

static void watch_turns(uv_loop_t *loop, struct storeq *queue)
{
    uv_prepare_init(loop, &queue->before_poll);
    uv_check_init(loop, &queue->after_poll);
    queue->before_poll.data = queue->after_poll.data = queue;
    uv_prepare_start(&queue->before_poll, on_before_poll);
    uv_check_start(&queue->after_poll, on_after_poll);
    uv_unref((uv_handle_t *)&queue->before_poll);
    uv_unref((uv_handle_t *)&queue->after_poll);
    queue->handles += 2;
}

int storeq_start(uv_loop_t *loop, struct store *store, uint64_t keep_jobs, struct log *log,
                 struct storeq **out, struct ipu_error *error)
{
    *out = NULL;
    struct storeq *queue = ipu_calloc(1, sizeof *queue);
    if (!queue)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    queue->store = store;
    queue->keep_jobs = keep_jobs;
    queue->log = log;
    queue->todo_end = &queue->todo;
    queue->finished_end = &queue->finished;
    queue->pushed_end = &queue->pushed;
    queue->wake.data = queue;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->ready, NULL);
    int rc = uv_async_init(loop, &queue->wake, on_wake);
    if (rc) {
        ipu_free(queue);
        return ipu_error_set(error, IPU_ERR_IO, "cannot start the store: %s", uv_strerror(rc));
    }
    queue->handles = 1;
    watch_turns(loop, queue);
    rc = pthread_create(&queue->thread, NULL, store_thread, queue);
    if (rc) {
        close_handles(queue);
        return ipu_error_set(error, IPU_ERR_IO, "cannot start the store thread: %s", strerror(rc));
    }
    *out = queue;
    return 0;
}

void storeq_push(struct storeq *queue, struct storeq_op *op)
{
    op->next = NULL;
    op->rc = 0;
    op->error.code = 0;
    op->error.text[0] = '\0';
    queue->weight += op->weight;
    queue->outstanding++;
    *queue->pushed_end = op;
    queue->pushed_end = &op->next;
}

size_t storeq_weight(const struct storeq *queue)
{
    return queue->weight;
}

const char *storeq_degraded(const struct storeq *queue)
{
    return queue->degraded;
}

bool storeq_idle(const struct storeq *queue)
{
    return queue->outstanding == 0;
}

void storeq_stop(struct storeq *queue, void (*stopped)(void *context), void *context)
{
    queue->stopped = stopped;
    queue->stopped_context = context;
    uv_async_send(&queue->wake);
}
