/* Live display of a job: see follow.h. The signal handler writes one byte to a pipe; nothing else
 * happens in it. */
#include "client/follow.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wake_pipe[2] = {-1, -1};
static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    int saved = errno;
    if (++interrupts > 1)
        _exit(6);
    ssize_t n = write(wake_pipe[1], "x", 1);
    (void)n;
    (void)number;
    errno = saved;
}

bool follow_begin(struct follow *f, struct context *c, bool show_log)
{
    const char *term = getenv("TERM");
    *f = (struct follow){.context = c, .show_log = show_log, .json = c->json};
    f->terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        ipu_error_set(&c->error, IPU_ERR_IO, "cannot create a pipe: %s", strerror(errno));
        return false;
    }
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    ipu_set_wake_fd(c->client, wake_pipe[0]);
    return true;
}

bool follow_interrupted(struct follow *f)
{
    char byte;
    while (read(wake_pipe[0], &byte, 1) > 0)
        ;
    (void)f;
    return interrupts > 0;
}

void follow_end(struct follow *f)
{
    if (f->drawn)
        fputs("\r\033[K", stderr);
    f->drawn = false;
    f->line[0] = '\0';
}

static void draw(struct follow *f, const char *text)
{
    if (!f->terminal || strcmp(text, f->line) == 0)
        return;
    snprintf(f->line, sizeof f->line, "%.159s", text);
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    f->drawn = true;
}

/* A line that stays: the live line is cleared first and comes back with the next progress event. */
static void plain(struct follow *f, const char *text)
{
    follow_end(f);
    fprintf(stderr, "%s\n", text);
}

static void bar(char *text, size_t size, double fraction)
{
    enum { WIDTH = 24 };
    char cells[WIDTH + 1];
    int full = fraction < 0 ? 0 : (int)(fraction * WIDTH + 0.5);
    for (int i = 0; i < WIDTH; i++)
        cells[i] = i < full ? '#' : '.';
    cells[WIDTH] = '\0';
    snprintf(text, size, "[%s]", cells);
}

void follow_upload(void *context, uint64_t done, uint64_t total)
{
    struct follow *f = context;
    char cells[40], text[128];
    double fraction = total ? (double)done / (double)total : 1;
    bar(cells, sizeof cells, fraction);
    snprintf(text, sizeof text, "uploading %s %3.0f%%", cells, fraction * 100);
    draw(f, text);
}

static void on_progress(struct follow *f, const Ipu__Rpc__ProgressEvent *p)
{
    char cells[40], text[160];
    bar(cells, sizeof cells, p->fraction);
    if (p->best_cycles)
        snprintf(text, sizeof text, "%-12.32s %s best %llu cycles, %llu candidates, %.0f/s",
                 p->phase, cells, (unsigned long long)p->best_cycles,
                 (unsigned long long)p->candidates, p->candidates_per_second);
    else
        snprintf(text, sizeof text, "%-12.32s %s %3.0f%%", p->phase, cells,
                 p->fraction < 0 ? 0 : p->fraction * 100);
    draw(f, text);
}

static void on_state(struct follow *f, const Ipu__Rpc__StateEvent *s)
{
    char text[400];
    const char *cached = s->package_cached ? " (cached package)" : "";
    const char *reason = strncmp(s->reason, f->error, sizeof f->error - 1) == 0 ? "" : s->reason;
    if (s->position)
        snprintf(text, sizeof text, "%s%s: position %u%s%.300s", command_state_name(s->state),
                 cached, s->position, reason[0] ? ", " : "", reason);
    else
        snprintf(text, sizeof text, "%s%s%s%.300s", command_state_name(s->state), cached,
                 reason[0] ? ": " : "", reason);
    if (f->terminal)
        draw(f, text);
    else
        plain(f, text);
}

static void on_phase(struct follow *f, const Ipu__Rpc__PhaseEvent *p)
{
    char text[160];
    snprintf(text, sizeof text, "%.64s %.1f ms%s", p->phase, p->elapsed_ms,
             p->success ? "" : " failed");
    if (f->terminal)
        draw(f, text);
    else if (!f->show_log)
        plain(f, text);
}

static void on_log(struct follow *f, const Ipu__Rpc__Event *event)
{
    static const enum log_level levels[] = {LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_LEVEL_WARN,
                                            LOG_LEVEL_ERROR};
    const Ipu__Rpc__LogEvent *l = event->log;
    if (!f->show_log)
        return;
    char text[4096];
    struct log_record record = {event->time_us,
                                (unsigned)l->level < 4 ? levels[l->level] : LOG_LEVEL_INFO,
                                l->phase, l->message, l->fields};
    log_format(&record, text, sizeof text);
    plain(f, text);
}

static void on_results(struct follow *f, const Ipu__Rpc__ResultEvent *r)
{
    follow_end(f);
    for (size_t i = 0; i < r->n_lines; i++)
        puts(r->lines[i]);
    fflush(stdout);
}

static void on_error(struct follow *f, const Ipu__Rpc__Error *e)
{
    snprintf(f->error, sizeof f->error, "%s", e->text);
    plain(f, e->text);
}

static void on_gap(struct follow *f, const Ipu__Rpc__Gap *g)
{
    char text[128];
    snprintf(text, sizeof text, "(events %llu to %llu were dropped: this reader was too slow)",
             (unsigned long long)g->first, (unsigned long long)g->last);
    plain(f, text);
}

int follow_event(void *context, const Ipu__Rpc__Event *event)
{
    struct follow *f = context;
    if (f->json)
        return command_json(f->context, &event->base) ? IPU_ERR_NO_MEMORY : 0;
    switch (event->kind_case) {
    case IPU__RPC__EVENT__KIND_STATE:
        on_state(f, event->state);
        break;
    case IPU__RPC__EVENT__KIND_PHASE:
        on_phase(f, event->phase);
        break;
    case IPU__RPC__EVENT__KIND_PROGRESS:
        on_progress(f, event->progress);
        break;
    case IPU__RPC__EVENT__KIND_LOG:
        on_log(f, event);
        break;
    case IPU__RPC__EVENT__KIND_RESULT:
        on_results(f, event->result);
        break;
    case IPU__RPC__EVENT__KIND_ERROR:
        on_error(f, event->error);
        break;
    case IPU__RPC__EVENT__KIND_GAP:
        on_gap(f, event->gap);
        break;
    default:
        break;
    }
    return 0;
}
