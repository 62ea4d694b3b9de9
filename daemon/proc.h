/* A child process of the daemon with its link: spawned from our own program image, watched, killed.
 *
 * Embedded in its owner. `gone` is called once per successful spawn, when the process has been
 * reaped and the link is closed; only then may it be spawned again. Loop thread only.
 */
#ifndef IPU_DAEMON_PROC_H
#define IPU_DAEMON_PROC_H

#include "daemon/link.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct proc {
    uv_process_t process;
    struct link link;
    bool alive, linked, reaped;
    int64_t status;   /* exit status, valid in `gone` */
    int signal;       /* that ended it, or 0 */
    uint64_t beat_ms; /* last frame of any kind */
    int (*frame)(struct proc *proc, const struct frame *frame, struct ipu_error *error);
    void (*drained)(struct proc *proc);
    void (*gone)(struct proc *proc);
    void *owner;
};

/* Starts /proc/self/exe with `arguments` (NULL-terminated, argv[0] first). The child's socket is
 * descriptor PROC_FD. */
enum { PROC_FD = 3 };
IPU_MUST_CHECK int proc_spawn(struct proc *proc, uv_loop_t *loop, const char *const *arguments,
                              struct ipu_error *error);
/* SIGKILL; `gone` follows. */
void proc_kill(struct proc *proc);
/* Whether proc_spawn() may be called. */
bool proc_free(const struct proc *proc);
/* Text such as "killed by signal 9" or "exit status 70". */
void proc_describe(const struct proc *proc, char *text, size_t size);

#endif
