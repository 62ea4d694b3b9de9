/* The waiting line: see queue.h.
 *
 * Invariants: a job stands in the line at most once; `served` of a user never exceeds `picks`. It
 * fails only when memory runs out, on push.
 */
#include "daemon/queue.h"

#include "base/alloc.h"

#include <string.h>

/* Users that were never served stand before all others, in order of arrival: they get numbers from
 * 1 on, served ones from here on, so that no two users are equal. */
static const uint64_t FIRST_PICK = (uint64_t)1 << 32;

void queue_init(struct queue *queue, uint64_t ageing_ns)
{
    *queue = (struct queue){.ageing_ns = ageing_ns, .picks = FIRST_PICK};
}

void queue_free(struct queue *queue)
{
    ipu_free(queue->entries);
    ipu_free(queue->users);
    *queue = (struct queue){0};
}

static bool grow(void **array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return true;
    size_t more = *capacity ? *capacity * 2 : 32;
    void *bigger = ipu_realloc(*array, more * size);
    if (!bigger)
        return false;
    *array = bigger;
    *capacity = more;
    return true;
}

static struct queue_user *find_user(const struct queue *queue, uint32_t uid)
{
    for (size_t i = 0; i < queue->user_count; i++)
        if (queue->users[i].uid == uid)
            return &queue->users[i];
    return NULL;
}

bool queue_push(struct queue *queue, const struct queue_entry *entry)
{
    if (!grow((void **)&queue->entries, &queue->capacity, queue->count, sizeof *queue->entries))
        return false;
    if (!find_user(queue, entry->uid)) {
        if (!grow((void **)&queue->users, &queue->user_capacity, queue->user_count,
                  sizeof *queue->users))
            return false;
        queue->users[queue->user_count] = (struct queue_user){entry->uid, queue->user_count};
        queue->user_count++;
    }
    queue->entries[queue->count++] = *entry;
    return true;
}

static void remove_at(struct queue *queue, size_t index)
{
    memmove(&queue->entries[index], &queue->entries[index + 1],
            (queue->count - index - 1) * sizeof *queue->entries);
    queue->count--;
}

bool queue_remove(struct queue *queue, uint64_t job)
{
    for (size_t i = 0; i < queue->count; i++)
        if (queue->entries[i].job == job) {
            remove_at(queue, i);
            return true;
        }
    return false;
}

static int64_t effective(const struct queue *queue, const struct queue_entry *entry,
                         uint64_t now_ns)
{
    uint64_t waited = now_ns > entry->since_ns ? now_ns - entry->since_ns : 0;
    uint64_t age = queue->ageing_ns ? waited / queue->ageing_ns : 0;
    return entry->priority + (int64_t)(age < QUEUE_AGE_CAP ? age : QUEUE_AGE_CAP);
}

/* Whether `a` goes before `b`. */
static bool before(const struct queue *queue, const struct queue_entry *a,
                   const struct queue_entry *b, uint64_t now_ns)
{
    int64_t ea = effective(queue, a, now_ns), eb = effective(queue, b, now_ns);
    if (ea != eb)
        return ea > eb;
    uint64_t sa = find_user(queue, a->uid)->served, sb = find_user(queue, b->uid)->served;
    if (sa != sb)
        return sa < sb;
    return a->job < b->job;
}

uint64_t queue_pick(struct queue *queue, uint64_t now_ns, bool (*may)(void *context, uint32_t uid),
                    void *context)
{
    size_t best = queue->count;
    for (size_t i = 0; i < queue->count; i++) {
        if (may && !may(context, queue->entries[i].uid))
            continue;
        if (best == queue->count ||
            before(queue, &queue->entries[i], &queue->entries[best], now_ns))
            best = i;
    }
    if (best == queue->count)
        return 0;
    uint64_t job = queue->entries[best].job;
    find_user(queue, queue->entries[best].uid)->served = ++queue->picks;
    remove_at(queue, best);
    return job;
}

/* Entries of `uid` at the same effective priority that come before `job` in its user's own order.
 */
static unsigned rank(const struct queue *queue, const struct queue_entry *of, uint32_t uid,
                     uint64_t now_ns)
{
    unsigned n = 0;
    int64_t level = effective(queue, of, now_ns);
    for (size_t i = 0; i < queue->count; i++) {
        const struct queue_entry *other = &queue->entries[i];
        if (other->uid == uid && effective(queue, other, now_ns) == level &&
            (uid != of->uid || other->job < of->job))
            n++;
    }
    return n;
}

unsigned queue_position(const struct queue *queue, uint64_t job, uint64_t now_ns)
{
    const struct queue_entry *mine = NULL;
    for (size_t i = 0; i < queue->count && !mine; i++)
        if (queue->entries[i].job == job)
            mine = &queue->entries[i];
    if (!mine)
        return 0;
    int64_t level = effective(queue, mine, now_ns);
    unsigned ahead = 0;
    for (size_t i = 0; i < queue->count; i++)
        ahead += effective(queue, &queue->entries[i], now_ns) > level;
    unsigned own = rank(queue, mine, mine->uid, now_ns);
    uint64_t served = find_user(queue, mine->uid)->served;
    for (size_t u = 0; u < queue->user_count; u++) {
        const struct queue_user *user = &queue->users[u];
        if (user->uid == mine->uid)
            continue;
        /* Round robin: before my (own + 1)-th turn every other user has had `own` turns, and one
         * more if it stands before me in the rotation. */
        unsigned theirs = rank(queue, mine, user->uid, now_ns);
        unsigned turns = own + (user->served < served);
        ahead += theirs < turns ? theirs : turns;
    }
    return ahead + own + 1;
}

size_t queue_count_user(const struct queue *queue, uint32_t uid)
{
    size_t n = 0;
    for (size_t i = 0; i < queue->count; i++)
        n += queue->entries[i].uid == uid;
    return n;
}
