/* A daemon with the fake engine as a child process, for tests: start, stop, kill, submit, await.
 * The test program is also the daemon and its workers: its main() begins with fixture_dispatch().
 */
#ifndef IPU_TESTS_DAEMON_FIXTURE_H
#define IPU_TESTS_DAEMON_FIXTURE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "client/ipu.h"
#include "daemon/main.h"
#include "proto/workload.pb-c.h"
#include "tests/unit/fake_engine.h"

#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

struct fixture {
    char dir[64], socket[96], log[96], mark[96], stderr_path[96];
    pid_t pid;
    struct ipu_error error;
    const char *options[12]; /* more options of the daemon, NULL-terminated */
};
static struct fixture fx;

/* When argv asks for the daemon or a worker, runs it and returns its status; else -1. */
static inline int fixture_dispatch(int argc, char **argv)
{
    if (argc >= 2 && strncmp(argv[1], "--", 2) == 0)
        return ipud_main(&fake_engine, argc, argv);
    return -1;
}

static inline void fixture_make_dir(void)
{
    memset(&fx, 0, sizeof fx);
    snprintf(fx.dir, sizeof fx.dir, "/tmp/ipud-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fx.dir));
    snprintf(fx.socket, sizeof fx.socket, "%s/sock", fx.dir);
    snprintf(fx.log, sizeof fx.log, "%s/fake.log", fx.dir);
    snprintf(fx.mark, sizeof fx.mark, "%s/mark", fx.dir);
    snprintf(fx.stderr_path, sizeof fx.stderr_path, "%s/stderr", fx.dir);
    setenv("FAKE_LOG", fx.log, 1);
    setenv("FAKE_MARK", fx.mark, 1);
}

/* Starts the daemon without waiting for it. */
static inline pid_t fixture_spawn(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid)
        return pid;
    const char *argv[24] = {"ipud", "--state-dir", fx.dir, "--socket",  fx.socket, "--device",
                            "sim",  "--workers",   "2",    "--sandbox", "0"};
    size_t n = 11; /* the fake engine writes notes, so no sandbox */
    for (size_t i = 0; fx.options[i]; i++)
        argv[n++] = fx.options[i];
    int fd = open(fx.stderr_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 2);
    signal(SIGTERM, SIG_DFL);
    execv("/proc/self/exe", (char **)(uintptr_t)argv);
    _exit(127);
}

static inline struct ipu_client *fixture_connect(void)
{
    struct ipu_client *client = NULL;
    for (int i = 0; i < 1000; i++) {
        if (ipu_connect(fx.socket, "test", &client, &fx.error) == 0)
            return client;
        poll(NULL, 0, 5); /* the daemon is starting: there is no event to wait for */
    }
    ck_abort_msg("cannot connect: %s", fx.error.text);
    return NULL;
}

static inline void fixture_start(void)
{
    fx.pid = fixture_spawn();
    ipu_close(fixture_connect());
}

/* Sends a signal and returns the wait status. */
static inline int fixture_end(int signal_number)
{
    int status = 0;
    kill(fx.pid, signal_number);
    ck_assert_int_eq(waitpid(fx.pid, &status, 0), fx.pid);
    fx.pid = 0;
    return status;
}

static inline void fixture_setup(void)
{
    fixture_make_dir();
    fixture_start();
}

static inline void fixture_teardown(void)
{
    char command[128];
    if (fx.pid) {
        int status = fixture_end(SIGTERM);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "daemon ended with %d",
                      status);
    }
    snprintf(command, sizeof command, "rm -rf %s", fx.dir);
    ck_assert_int_eq(system(command), 0);
}

/* The bytes of a workload of that name; `salt` makes it another one. */
static inline struct buffer fixture_workload(const char *name, unsigned salt, size_t padding,
                                             const Ipu__Workload__Options *options)
{
    struct buffer bytes = {0};
    Ipu__Workload__Workload workload = IPU__WORKLOAD__WORKLOAD__INIT;
    Ipu__Workload__Options own = IPU__WORKLOAD__OPTIONS__INIT;
    if (options)
        own = *options;
    own.seed = salt;
    workload.version = 1;
    workload.name = (char *)name;
    workload.options = &own;
    buffer_append_zero(&bytes, ipu__workload__workload__get_packed_size(&workload));
    ipu__workload__workload__pack(&workload, bytes.data);
    if (padding) { /* an unknown field of that many bytes */
        uint8_t head[8] = {0xfa, 0x01};
        size_t n = 2;
        for (size_t left = padding; n < 8; left >>= 7) {
            head[n++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
            if (left <= 0x7f)
                break;
        }
        buffer_append(&bytes, head, n);
        buffer_append_zero(&bytes, padding);
    }
    ck_assert(!bytes.failed);
    return bytes;
}

static inline int fixture_ignore(void *context, const Ipu__Rpc__Event *event)
{
    (void)context;
    (void)event;
    return 0;
}

/* Submits and waits for the end; the result of ipu_submit(). The closing status stays valid until
 * the next call. */
static inline int fixture_run(struct ipu_client *client, const char *name, unsigned salt,
                              ipu_event_fn *event, void *context, uint64_t *job,
                              const Ipu__Rpc__JobStatus **status)
{
    struct buffer bytes = fixture_workload(name, salt, 0, NULL);
    const Ipu__Rpc__WatchEnd *end = NULL;
    struct ipu_submit submit = {.data = bytes.data,
                                .size = bytes.size,
                                .event = event ? event : fixture_ignore,
                                .context = context};
    int rc = ipu_submit(client, &submit, job, &end, NULL, &fx.error);
    *status = rc == 0 ? end->status : NULL;
    buffer_free(&bytes);
    return rc;
}

/* Submits without waiting. */
static inline uint64_t fixture_detach(struct ipu_client *client, const char *name, unsigned salt)
{
    struct buffer bytes = fixture_workload(name, salt, 0, NULL);
    struct ipu_submit submit = {.data = bytes.data, .size = bytes.size, .detach = true};
    uint64_t job = 0;
    ck_assert_msg(ipu_submit(client, &submit, &job, NULL, NULL, &fx.error) == 0, "%s",
                  fx.error.text);
    buffer_free(&bytes);
    return job;
}

static inline const Ipu__Rpc__JobStatus *fixture_status(struct ipu_client *client, uint64_t job)
{
    const Ipu__Rpc__JobStatus *status;
    ck_assert_msg(ipu_status(client, job, &status, &fx.error) == 0, "%s", fx.error.text);
    return status;
}

/* Waits until the job is in `state`. */
static inline void fixture_await(struct ipu_client *client, uint64_t job, Ipu__Rpc__JobState state)
{
    for (int i = 0; i < 2000; i++) {
        if (fixture_status(client, job)->state == state)
            return;
        poll(NULL, 0, 5);
    }
    ck_abort_msg("job %llu is in state %d (%s), not %d", (unsigned long long)job,
                 (int)fixture_status(client, job)->state, fixture_status(client, job)->reason,
                 (int)state);
}

/* Follows a job to its end and returns its status. */
static inline const Ipu__Rpc__JobStatus *fixture_follow(struct ipu_client *client, uint64_t job)
{
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    const Ipu__Rpc__WatchEnd *end = NULL;
    watch.job = job;
    watch.follow = true;
    int rc = ipu_watch(client, &watch, fixture_ignore, NULL, &end, NULL, &fx.error);
    ck_assert_msg(rc == 0, "%s", fx.error.text);
    return end->status;
}

/* How many lines of the fake engine's log are `line`. */
static inline unsigned fixture_count(const char *line)
{
    char text[256];
    unsigned n = 0;
    FILE *file = fopen(fx.log, "re");
    while (file && fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = '\0';
        n += strcmp(text, line) == 0;
    }
    if (file)
        fclose(file);
    return n;
}

/* Process id of the daemon's child of that name ("ipud-compile"), the `skip`-th; 0 = none. */
static inline pid_t fixture_child(const char *name, int skip)
{
    DIR *proc = opendir("/proc");
    pid_t found = 0;
    struct dirent *entry;
    while (proc && !found && (entry = readdir(proc))) {
        char path[300], text[64] = "";
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file || !fgets(text, sizeof text, file))
            text[0] = '\0';
        if (file)
            fclose(file);
        if (strcmp(text, name) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        file = fopen(path, "re");
        if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == fx.pid &&
            skip-- <= 0)
            found = (pid_t)atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    if (proc)
        closedir(proc);
    return found;
}

/* Changes the database behind the daemon's back. */
static inline void fixture_sql(const char *text)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/ipud.db", fx.dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 2000);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

#endif
