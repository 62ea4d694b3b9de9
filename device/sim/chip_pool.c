/* Helper threads of one chip. A loop's indices are handed out in small runs from one counter, so
 * the assignment to threads varies, but each index is done exactly once.
 *
 * The owner thread works too. Helpers sleep between loops. A process that forks loses them: create
 * the chip in the process that uses it.
 */
#include "device/sim/chip_core.h"

#include "base/alloc.h"

#include <pthread.h>
#include <unistd.h>

enum { POOL_MAX_THREADS = 64, POOL_SERIAL = 4, POOL_MAX_GRAIN = 16 };

struct sim_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    pthread_t threads[POOL_MAX_THREADS];
    unsigned thread_count;
    uint64_t loop; /* number of the current loop: helpers join each one once */
    unsigned busy; /* helpers in the current loop */
    bool stop;
    void (*function)(void *, size_t);
    void *context;
    size_t count, grain;
    atomic_size_t next;
};

static void work(struct sim_pool *pool)
{
    for (;;) {
        size_t first = atomic_fetch_add(&pool->next, pool->grain);
        if (first >= pool->count)
            return;
        size_t last = first + pool->grain < pool->count ? first + pool->grain : pool->count;
        for (size_t i = first; i < last; i++)
            pool->function(pool->context, i);
    }
}

static void *helper(void *argument)
{
    struct sim_pool *pool = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        if (pool->loop == seen) {
            pthread_cond_wait(&pool->wake, &pool->lock);
            continue;
        }
        seen = pool->loop;
        pool->busy++;
        pthread_mutex_unlock(&pool->lock);
        work(pool);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->idle);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static unsigned processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > POOL_MAX_THREADS ? POOL_MAX_THREADS : (unsigned)count;
}

struct sim_pool *sim_pool_create(unsigned threads)
{
    struct sim_pool *pool = ipu_calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    if (threads == 0)
        threads = processors();
    if (threads > POOL_MAX_THREADS)
        threads = POOL_MAX_THREADS;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    while (pool->thread_count + 1 < threads &&
           pthread_create(&pool->threads[pool->thread_count], NULL, helper, pool) == 0)
        pool->thread_count++;
    return pool;
}

void sim_pool_destroy(struct sim_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->lock);
    ipu_free(pool);
}

void sim_pool_run(struct sim_pool *pool, size_t count, void (*function)(void *, size_t),
                  void *context)
{
    if (!pool || pool->thread_count == 0 || count < POOL_SERIAL) {
        for (size_t i = 0; i < count; i++)
            function(context, i);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    while (pool->busy != 0) /* a helper that woke too late for the last loop */
        pthread_cond_wait(&pool->idle, &pool->lock);
    pool->function = function;
    pool->context = context;
    pool->count = count;
    pool->grain = count / (8 * (pool->thread_count + 1)) + 1;
    if (pool->grain > POOL_MAX_GRAIN)
        pool->grain = POOL_MAX_GRAIN;
    atomic_store(&pool->next, 0);
    pool->loop++;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    work(pool);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy != 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
