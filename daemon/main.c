/* ipud from start to end: see main.h.
 *
 * Start: configuration, lock of the state directory, store, loop, jobs of earlier runs, workers,
 * socket, READY. End (SIGTERM, SIGINT): no new connections and no new work; what runs on the device
 * or in a check may end within drain_s; then workers are killed, what is unfinished stays in the
 * store for the next start, and the store is closed. A second signal ends the wait. Any failure
 * before READY is one sentence on stderr and exit status 1 (2 for a wrong setting).
 */
#include "daemon/main.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "daemon/child.h"
#include "daemon/jobs.h"
#include "daemon/owner.h"
#include "daemon/pool.h"
#include "daemon/server.h"
#include "device/kernels/flag_set.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { DRAIN_TICK_MS = 20 };

enum phase { PHASE_RUNNING, PHASE_DRAINING, PHASE_KILLING, PHASE_STORING, PHASE_STOPPED };

struct program {
    struct daemon daemon; /* first */
    struct config config;
    struct log log;
    uv_loop_t loop;
    uv_signal_t terminate, interrupt;
    uv_timer_t drain;
    enum phase phase;
    uint64_t drain_until_ms;
    int lock_fd;
    bool abandoned; /* handles of a half-started loop still point into this */
};

/* --- shutting down --- */

static bool work_left(const struct program *program)
{
    for (const struct job *job = program->daemon.jobs->list; job; job = job->next)
        if (job->worker || job->save_busy || job->state == JOB_ENDING || job->state == JOB_CHECKING)
            return true;
    return false;
}

static void on_store_stopped(void *context)
{
    struct program *program = context;
    program->phase = PHASE_STOPPED;
    uv_close((uv_handle_t *)&program->drain, NULL);
    uv_close((uv_handle_t *)&program->terminate, NULL);
    uv_close((uv_handle_t *)&program->interrupt, NULL);
}

static void on_drain_tick(uv_timer_t *timer)
{
    struct program *program = timer->data;
    struct daemon *daemon = &program->daemon;
    bool late = uv_now(timer->loop) >= program->drain_until_ms;
    if (program->phase == PHASE_DRAINING && (late || !work_left(program))) {
        program->phase = PHASE_KILLING;
        for (struct job *job = daemon->jobs->list; job; job = job->next)
            if (job_dirty(job))
                job_save(job); /* the stored log keeps what came last */
        jobs_close(daemon->jobs);
        server_close(daemon->server);
        pool_close(daemon->pool);
        owner_close(daemon->owner);
    }
    if (program->phase == PHASE_KILLING && server_closed(daemon->server) &&
        pool_closed(daemon->pool) && owner_closed(daemon->owner)) {
        program->phase = PHASE_STORING;
        storeq_stop(daemon->store, on_store_stopped, program);
    }
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct program *program = signal->data;
    struct daemon *daemon = &program->daemon;
    if (program->phase != PHASE_RUNNING) {
        program->drain_until_ms = 0; /* asked twice: do not wait */
        return;
    }
    log_event(daemon->log, LOG_LEVEL_INFO, "ipud", "stopping", "signal=%d drain_s=%ld", number,
              program->config.drain_s);
    sd_notify(0, "STOPPING=1");
    daemon->draining = true;
    program->phase = PHASE_DRAINING;
    program->drain_until_ms = uv_now(&program->loop) + (uint64_t)program->config.drain_s * 1000;
    server_drain(daemon->server);
    uv_timer_start(&program->drain, on_drain_tick, 0, DRAIN_TICK_MS);
}

/* --- starting up --- */

/* Makes a directory and those above it. */
static int make_dirs(const char *path, struct ipu_error *error)
{
    char text[CONFIG_TEXT];
    snprintf(text, sizeof text, "%s", path);
    for (char *at = text + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        mkdir(text, 0755);
        *at = '/';
    }
    if (mkdir(text, 0700) == 0 || errno == EEXIST)
        return 0;
    return ipu_error_set(error, IPU_ERR_IO, "cannot make the state directory %s: %s", path,
                         strerror(errno));
}

/* What this program is: a change of the compiler changes every cache key. */
static int find_build(struct daemon *daemon, struct ipu_error *error)
{
    struct buffer image = {0};
    struct hash digest;
    char text[HASH_TEXT];
    int rc = buffer_read_file(&image, "/proc/self/exe", (size_t)1 << 30);
    bool hashed = rc == 0 && hash_bytes(image.data, image.size, &digest);
    buffer_free(&image);
    if (!hashed)
        return ipu_error_set(error, IPU_ERR_IO, "cannot read the program's own file: %s",
                             strerror(rc ? -rc : EIO));
    hash_text(&digest, text);
    snprintf(daemon->build, sizeof daemon->build, "%.16s", text);
    return 0;
}

/* The numbers of the vendor's tile header, when one is configured. */
static int find_flags(struct daemon *daemon, struct ipu_error *error)
{
    struct flag_set *flags = NULL;
    const char *directory = daemon->config->flag_headers;
    int rc = flag_set_read(directory, &flags, error);
    if (rc == 0) {
        daemon->flag_set = flags ? flag_set_number(flags) : 0;
        snprintf(daemon->flag_digest, sizeof daemon->flag_digest, "%s", flag_set_digest(flags));
    } else {
        ipu_error_wrap(error, "flag_headers: ");
    }
    flag_set_free(flags);
    return rc;
}

struct restore {
    struct store_job *rows;
    size_t count, capacity;
};

static bool collect_job(void *context, const struct store_job *row)
{
    struct restore *restore = context;
    if (restore->count == restore->capacity) {
        size_t capacity = restore->capacity ? restore->capacity * 2 : 64;
        struct store_job *rows = ipu_realloc(restore->rows, capacity * sizeof *rows);
        if (!rows)
            return false;
        restore->rows = rows;
        restore->capacity = capacity;
    }
    restore->rows[restore->count++] = *row;
    return true;
}

/* Jobs of an earlier run, oldest first. Their events go on above every number that a reader can
 * have seen, also those that were never stored. */
static int restore_jobs(struct daemon *daemon, const struct restore *restore,
                        struct ipu_error *error)
{
    enum { UNSEEN = 1 << 20 };
    for (size_t i = 0; i < restore->count; i++) {
        const struct store_job *row = &restore->rows[i];
        int rc = jobs_restore(daemon->jobs, row, row->last_sequence + UNSEEN, error);
        if (rc)
            return rc;
    }
    return 0;
}

static int open_store(struct program *program, struct restore *restore, struct ipu_error *error)
{
    struct store_job_query query = {.limit = 1 << 30, .oldest_first = true};
    struct store *store;
    int rc = store_open(program->config.state_dir, (uint64_t)program->config.cache_limit_mib << 20,
                        &program->log, &store, error);
    if (rc)
        return rc;
    rc = store_job_list(store, &query, collect_job, restore, error);
    if (rc == 0)
        rc = storeq_start(&program->loop, store, (uint64_t)program->config.keep_jobs, &program->log,
                          &program->daemon.store, error);
    if (rc)
        store_close(store);
    return rc;
}

static void watch_signals(struct program *program)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a file size limit is a full disk, not a death */
    uv_signal_init(&program->loop, &program->terminate);
    uv_signal_init(&program->loop, &program->interrupt);
    uv_timer_init(&program->loop, &program->drain);
    program->terminate.data = program->interrupt.data = program->drain.data = program;
    uv_signal_start(&program->terminate, on_signal, SIGTERM);
    uv_signal_start(&program->interrupt, on_signal, SIGINT);
}

static int start(struct program *program, struct ipu_error *error)
{
    struct daemon *daemon = &program->daemon;
    struct restore restore = {0};
    int rc = make_dirs(program->config.state_dir, error);
    if (rc == 0)
        rc = server_lock(program->config.state_dir, &program->lock_fd, error);
    if (rc == 0)
        rc = find_build(daemon, error);
    if (rc == 0)
        rc = find_flags(daemon, error);
    if (rc == 0)
        rc = open_store(program, &restore, error);
    if (rc) {
        ipu_free(restore.rows);
        return rc;
    }
    watch_signals(program);
    rc = jobs_create(daemon, &daemon->jobs, error);
    if (rc == 0)
        rc = server_create(daemon, &daemon->server, error);
    if (rc == 0)
        rc = pool_create(daemon, &daemon->pool, error);
    if (rc == 0)
        rc = owner_create(daemon, &daemon->owner, error);
    if (rc == 0)
        rc = restore_jobs(daemon, &restore, error);
    ipu_free(restore.rows);
    return rc;
}

static void serve(struct program *program)
{
    struct daemon *daemon = &program->daemon;
    log_event(&program->log, LOG_LEVEL_INFO, "ipud", "serving",
              "version=" DAEMON_VERSION " build=%s state_dir=%s socket=%s device=%s workers=%ld",
              daemon->build, program->config.state_dir, program->config.socket,
              program->config.device, program->config.workers);
    sd_notify(0, "READY=1");
    uv_run(&program->loop, UV_RUN_DEFAULT);
    server_free(daemon->server);
    pool_free(daemon->pool);
    owner_free(daemon->owner);
    jobs_free(daemon->jobs);
    uv_loop_close(&program->loop);
    close(program->lock_fd);
    log_event(&program->log, LOG_LEVEL_INFO, "ipud", "stopped", "%s", "");
}

static int run_program(struct program *program, const struct engine *engine)
{
    struct ipu_error error = {0};
    program->log = (struct log){log_sink_file, stderr, program->config.level};
    program->daemon.config = &program->config;
    program->daemon.engine = engine;
    program->daemon.log = &program->log;
    program->daemon.loop = &program->loop;
    program->daemon.started_us = clock_wall_us();
    program->lock_fd = -1;
    uv_loop_init(&program->loop);
    if (start(program, &error)) {
        fprintf(stderr, "ipud: %s\n", error.text);
        /* With anything on the loop the kernel cleans up; nothing has been promised to anyone. */
        program->abandoned = uv_loop_close(&program->loop) != 0;
        return 1;
    }
    serve(program);
    return 0;
}

static int run_daemon(const struct engine *engine, int argc, char **argv)
{
    struct program *program = ipu_calloc(1, sizeof *program);
    struct ipu_error error = {0};
    bool help = false;
    if (!program)
        return 1;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("ipud %s\n", DAEMON_VERSION);
        ipu_free(program);
        return 0;
    }
    int rc = config_load(&program->config, argc, argv, &help, &error);
    if (rc == 0 && strlen(program->config.state_dir) > CONFIG_TEXT - 32)
        rc = ipu_error_set(&error, IPU_ERR_LIMIT, "the path of the state directory is too long");
    if (help) {
        config_print_help(stdout);
    } else if (rc) {
        fprintf(stderr, "ipud: %s\n", error.text);
        rc = 2;
    } else {
        rc = run_program(program, engine);
    }
    if (!program->abandoned)
        ipu_free(program);
    return rc;
}

int ipud_main(const struct engine *engine, int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) {
        if (strcmp(argv[2], "compile") == 0)
            return child_compile_main(engine, argc, argv);
        if (strcmp(argv[2], "device") == 0)
            return child_device_main(engine, argc, argv);
        fprintf(stderr, "ipud: there is no worker \"%.40s\"\n", argv[2]);
        return 2;
    }
    return run_daemon(engine, argc, argv);
}
