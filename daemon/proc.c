/* Child processes: see proc.h.
 *
 * Invariants: our end of the socketpair is close-on-exec, so that the child's death always shows as
 * end of file; a link that breaks while the process lives gets the process killed; what the process
 * wrote before its death is still read. It fails when the kernel refuses a process or a socket.
 */
#include "daemon/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool proc_free(const struct proc *proc)
{
    return !proc->alive && !proc->linked;
}

static void maybe_gone(struct proc *proc)
{
    if (proc_free(proc) && proc->reaped) {
        proc->reaped = false;
        proc->gone(proc);
    }
}

static void on_process_closed(uv_handle_t *handle)
{
    struct proc *proc = handle->data;
    proc->alive = false;
    proc->reaped = true;
    maybe_gone(proc);
}

static void on_exit_status(uv_process_t *process, int64_t status, int signal)
{
    struct proc *proc = process->data;
    proc->status = status;
    proc->signal = signal;
    link_resume(&proc->link); /* so that the end of file is seen */
    uv_close((uv_handle_t *)process, on_process_closed);
}

static int on_frame(struct link *link, const struct frame *frame, struct ipu_error *error)
{
    struct proc *proc = link->owner;
    proc->beat_ms = uv_now(link->pipe.loop);
    return proc->frame(proc, frame, error);
}

static void on_drained(struct link *link)
{
    struct proc *proc = link->owner;
    if (proc->drained)
        proc->drained(proc);
}

static void on_broken(struct link *link, const struct ipu_error *error)
{
    struct proc *proc = link->owner;
    (void)error;
    proc_kill(proc);
    link_close(link);
}

static void on_link_closed(struct link *link)
{
    struct proc *proc = link->owner;
    proc->linked = false;
    maybe_gone(proc);
}

void proc_kill(struct proc *proc)
{
    if (proc->alive && uv_is_active((uv_handle_t *)&proc->process))
        uv_process_kill(&proc->process, SIGKILL);
}

static int spawn(struct proc *proc, uv_loop_t *loop, const char *const *arguments, int fd)
{
    uv_stdio_container_t stdio[PROC_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = 2}, /* nothing of a child may reach our stdout */
        {.flags = UV_INHERIT_FD, .data.fd = 2},
        {.flags = UV_INHERIT_FD, .data.fd = fd},
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_status,
        .file = "/proc/self/exe",
        .args = (char **)(uintptr_t)arguments,
        .stdio_count = PROC_FD + 1,
        .stdio = stdio,
    };
    memset(&proc->process, 0, sizeof proc->process);
    proc->process.data = proc;
    return uv_spawn(loop, &proc->process, &options);
}

int proc_spawn(struct proc *proc, uv_loop_t *loop, const char *const *arguments,
               struct ipu_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return ipu_error_set(error, IPU_ERR_IO, "cannot start a worker: %s", strerror(errno));
    memset(&proc->link, 0, sizeof proc->link);
    proc->link.owner = proc;
    proc->link.frame = on_frame;
    proc->link.drained = on_drained;
    proc->link.broken = on_broken;
    proc->link.closed = on_link_closed;
    int rc = spawn(proc, loop, arguments, pair[1]);
    close(pair[1]);
    if (rc) {
        ipu_error_set(error, IPU_ERR_IO, "cannot start a worker: %s", uv_strerror(rc));
        close(pair[0]);
        if (proc->process.loop) { /* libuv initialised the handle before it failed */
            proc->alive = true;
            proc->status = -1;
            uv_close((uv_handle_t *)&proc->process, on_process_closed);
        }
        return IPU_ERR_IO;
    }
    proc->alive = true;
    proc->linked = true;
    proc->status = 0;
    proc->signal = 0;
    proc->beat_ms = uv_now(loop);
    rc = link_open(&proc->link, loop, pair[0], frame_worker_limit, error);
    if (rc) {
        proc_kill(proc);
        link_close(&proc->link);
    }
    return 0; /* from here on `gone` tells */
}

void proc_describe(const struct proc *proc, char *text, size_t size)
{
    if (proc->signal)
        snprintf(text, size, "killed by signal %d (%s)", proc->signal, strsignal(proc->signal));
    else
        snprintf(text, size, "exit status %lld", (long long)proc->status);
}
