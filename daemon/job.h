/* One job that has not ended, or whose last readers are still reading: state, events, subscribers.
 *
 * Created and owned by jobs.h; references keep the memory until the last reader is done. Every
 * change of state goes through job_move() or job_end(), which check the table job_states.def, tell
 * readers, and have the row saved. Loop thread only.
 */
#ifndef IPU_DAEMON_JOB_H
#define IPU_DAEMON_JOB_H

#include "daemon/daemon.h"
#include "daemon/events.h"
#include "daemon/store_cache.h"
#include "proto/worker.pb-c.h"

enum job_state {
    JOB_NONE,
#define STATE(name, number, text, successors, cancel) JOB_##name = (number),
#include "daemon/job_states.def"
#undef STATE
    JOB_STATES
};
const char *job_state_name(enum job_state state);
bool job_state_allowed(enum job_state from, enum job_state to);
static inline bool job_state_terminal(enum job_state state)
{
    return state >= JOB_DONE && state <= JOB_TIMED_OUT;
}

struct worker;
struct watch;
enum { JOB_OUTPUTS = 64 };

/* Why the task in progress is being stopped. */
enum job_stop { JOB_STOP_NONE, JOB_STOP_CANCEL, JOB_STOP_TIMEOUT };

struct job {
    struct daemon *daemon;
    struct job *next; /* in jobs.h's list */
    struct store_job row;
    enum job_state state; /* row.state follows, but for ENDING */
    enum job_state told;  /* what others may know: the last state before ENDING */
    unsigned references;
    unsigned holders; /* connections that submitted or watch it: 0 cancels an attached job */
    bool attached;

    struct events events;
    uint64_t visible; /* readers may see events below this number */
    struct watch *watches;

    /* The compile. */
    struct worker *worker; /* at work on it now */
    struct job *shares;    /* does the same compile; this one waits for its package */
    enum job_stop stop;
    unsigned crashes; /* workers that died with it */
    struct store_object workload;
    struct store_workload known; /* keys; facts in `facts` */
    bool is_known;
    Ipu__Worker__Facts facts;
    struct store_package package;
    bool has_package;

    /* The run. */
    struct store_output outputs[JOB_OUTPUTS];
    struct store_object output_objects[JOB_OUTPUTS]; /* pinned */
    size_t output_count;
    struct store_object profile; /* pinned when row.has_profile */
    uint64_t cycles, minimum_cycles, input_bytes, weight_bytes, samples;
    uint32_t tiles, active_tiles, sampled_tiles;

    char phase[64];
    double progress;

    /* Saving: one operation at a time; what happens meanwhile goes into the next. */
    struct storeq_op save;
    struct store_job saving;
    struct buffer unsaved, saving_events; /* (sequence u64, size u32, body)* */
    bool save_busy, save_again, save_failed;
    bool looking;  /* in QUEUED: where its package comes from is being looked up */
    bool deciding; /* in CHECKING: whether a check is needed is being looked up */
};

struct job *job_create(struct daemon *daemon, const struct store_job *row, uint64_t next_sequence);
void job_ref(struct job *job);
void job_unref(struct job *job);

/* Moves to a state that is not terminal. `reason` is what it waits for, or "". */
void job_move(struct job *job, enum job_state state, const char *reason);
/* Decides the outcome. Readers and lists learn of it when it has been committed. */
void job_end(struct job *job, enum job_state state, int code, const char *reason);
/* Appends an event; `keep` = also in the store. */
void job_event(struct job *job, Ipu__Rpc__Event *event, bool keep);
/* A log record of the job: to its readers, its stored log, and the daemon's log. job_log() drops
 * what is less severe than the job asked for. */
void job_log_record(struct job *job, const struct log_record *record);
void job_log(struct job *job, enum log_level level, const char *phase, const char *message,
             const char *fields, ...) __attribute__((format(printf, 5, 6)));
/* The least severe record that the job wants; above LOG_LEVEL_ERROR = none. */
unsigned job_log_level(const struct job *job);
void job_result_lines(struct job *job);
/* Saves the row and events that wait; a terminal state at once, the rest when the flush timer
 * comes. */
void job_save(struct job *job);
bool job_dirty(const struct job *job);
void job_set_reason(struct job *job, const char *reason);

#endif
