/* The compile workers. Loop thread only. */
#ifndef IPU_DAEMON_POOL_H
#define IPU_DAEMON_POOL_H

#include "daemon/daemon.h"
#include "daemon/jobs.h"

struct worker;

IPU_MUST_CHECK int pool_create(struct daemon *daemon, struct pool **out, struct ipu_error *error);
/* Gives work to idle workers. */
void pool_kick(struct pool *pool);
/* The compile in progress goes on for another job. */
void pool_hand_over(struct worker *worker, struct job *heir);
unsigned pool_busy(const struct pool *pool);
uint64_t pool_deaths(const struct pool *pool);
/* Kills the workers; `closed` when all are gone. */
void pool_close(struct pool *pool);
bool pool_closed(const struct pool *pool);
void pool_free(struct pool *pool);

/* Tells the child of a worker to end its task; used by jobs_stop(). */
void worker_stop(struct worker *worker);

#endif
