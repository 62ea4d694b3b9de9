/* The waiting line: fair between users, with priorities that rise with age.
 *
 * The next entry is the one of highest effective priority (its own, plus one for every `ageing`
 * nanoseconds of waiting, up to QUEUE_AGE_CAP); among equals the user who was served longest ago;
 * of that user the earliest job. A pure data structure: no clock, no loop. It stays short (a cap
 * per user), so it is an array that is searched.
 */
#ifndef IPU_DAEMON_QUEUE_H
#define IPU_DAEMON_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QUEUE_AGE_CAP = 20 };

struct queue_entry {
    uint64_t job;
    uint32_t uid;
    int priority;
    uint64_t since_ns;
};

struct queue_user {
    uint32_t uid;
    uint64_t served; /* number of the pick that last served this user */
};

struct queue {
    struct queue_entry *entries;
    size_t count, capacity;
    struct queue_user *users;
    size_t user_count, user_capacity;
    uint64_t picks;
    uint64_t ageing_ns;
};

void queue_init(struct queue *queue, uint64_t ageing_ns);
void queue_free(struct queue *queue);
/* False when memory runs out. */
bool queue_push(struct queue *queue, const struct queue_entry *entry);
bool queue_remove(struct queue *queue, uint64_t job);
/* Takes the next entry whose user `may` run (NULL = all may). 0 when there is none. */
uint64_t queue_pick(struct queue *queue, uint64_t now_ns, bool (*may)(void *context, uint32_t uid),
                    void *context);
/* How many entries go before `job` if all users may run, plus one; 0 when it is not queued. */
unsigned queue_position(const struct queue *queue, uint64_t job, uint64_t now_ns);
size_t queue_count_user(const struct queue *queue, uint32_t uid);

#endif
