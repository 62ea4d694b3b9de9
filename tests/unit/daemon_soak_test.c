/* module: client */
/* Long use and rough treatment: kills of every process at random moments, crowds of clients,
 * readers that never read, uploads that stall, hundreds of jobs. IPUD_TEST_LEVEL=long makes them
 * long. */
#include "tests/unit/daemon_fixture.h"

#include <inttypes.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct ipu_client *client;

static void setup(void)
{
    fixture_setup();
    client = fixture_connect();
}

static void teardown(void)
{
    ipu_close(client);
    client = NULL;
    fixture_teardown();
}

static unsigned by_level(unsigned quick, unsigned all, unsigned longest)
{
    const char *level = getenv("IPUD_TEST_LEVEL"), *cycles = getenv("IPUD_SOAK");
    if (cycles)
        return (unsigned)strtoul(cycles, NULL, 10);
    return level && strcmp(level, "long") == 0  ? longest
           : level && strcmp(level, "all") == 0 ? all
                                                : quick;
}

static unsigned long resident_kib(pid_t pid)
{
    char path[64], line[128];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    if (file)
        fclose(file);
    return kib;
}

static unsigned open_files(pid_t pid)
{
    char path[64];
    unsigned n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static int ends;

static int count_ends(void *context, const Ipu__Rpc__Event *event)
{
    (void)context;
    ends += event->kind_case == IPU__RPC__EVENT__KIND_STATE &&
            event->state->state >= IPU__RPC__JOB_STATE__JOB_DONE;
    return 0;
}

/* A job that was acknowledged has ended, once, and well, or because its workers were killed. */
static void expect_ended_once(uint64_t job)
{
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    const Ipu__Rpc__JobStatus *status = fixture_follow(client, job);
    bool killed = strstr(status->reason, "died twice") != NULL;
    ck_assert_msg(status->state == IPU__RPC__JOB_STATE__JOB_DONE || killed,
                  "job %" PRIu64 ": state %d, %s", job, (int)status->state, status->reason);
    ends = 0;
    watch.job = job;
    ck_assert_msg(ipu_watch(client, &watch, count_ends, NULL, NULL, NULL, &fx.error) == 0, "%s",
                  fx.error.text);
    ck_assert_msg(ends == 1, "job %" PRIu64 " ended %d times", job, ends);
}

static void expect_sound_database(void)
{
    sqlite3 *db;
    char path[128];
    sqlite3_stmt *row;
    snprintf(path, sizeof path, "%s/ipud.db", fx.dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &row, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(row), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(row, 0), "ok");
    sqlite3_finalize(row);
    sqlite3_close(db);
}

static void kill_somebody(void)
{
    pid_t victim = 0;
    int who = rand() % 4;
    if (who == 1)
        victim = fixture_child("ipud-compile", rand() % 2);
    else if (who == 2)
        victim = fixture_child("ipud-device", 0);
    if (victim) {
        kill(victim, SIGKILL);
        return;
    }
    ipu_close(client);
    client = NULL;
    (void)fixture_end(SIGKILL);
    uint64_t start = clock_ns();
    fixture_start();
    client = fixture_connect();
    uint64_t ms = (clock_ns() - start) / 1000000;
    ck_assert_msg(ms < 5000, "the restart took %" PRIu64 " ms", ms); /* 1 s on an idle machine */
}

START_TEST(kills_of_any_process_lose_no_job_and_end_none_twice)
{
    enum { MOST = 1000, EACH = 3 };
    static const char *const names[] = {"plain", "big", "kernel", "slow", "plain"};
    static uint64_t jobs[MOST * EACH];
    unsigned cycles = by_level(8, 40, MOST), seed = (unsigned)clock_ns();
    size_t count = 0;
    const char *given = getenv("IPUD_SEED");
    seed = given ? (unsigned)strtoul(given, NULL, 10) : seed;
    printf("seed %u\n", seed);
    srand(seed);
    for (unsigned cycle = 0; cycle < cycles && cycle < MOST; cycle++) {
        for (unsigned i = 0; i < EACH; i++, count++)
            jobs[count] = fixture_detach(client, names[rand() % 5], (unsigned)rand() % 100);
        poll(NULL, 0, rand() % 80);
        kill_somebody();
    }
    for (size_t i = 0; i < count; i++)
        expect_ended_once(jobs[i]);
    expect_sound_database();
}
END_TEST

/* --- crowds --- */

enum { CROWD = 50, DISTINCT = 10 };

static int be_one_of_many(unsigned me)
{
    struct ipu_client *mine = fixture_connect();
    ipu_set_timeout(mine, 60000);
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        uint64_t job;
        const Ipu__Rpc__JobStatus *status;
        unsigned salt = (me * 7 + i) % DISTINCT;
        snprintf(name, sizeof name, "crowd-%u", salt);
        int rc = fixture_run(mine, name, salt, NULL, NULL, &job, &status);
        if (rc || status->state != IPU__RPC__JOB_STATE__JOB_DONE)
            return 1;
    }
    ipu_close(mine);
    return 0;
}

START_TEST(fifty_clients_at_once_are_served_and_equal_work_is_compiled_once)
{
    pid_t pids[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0)
            _exit(be_one_of_many(i));
    }
    uint64_t slowest = 0;
    for (int i = 0; i < 50; i++) {
        uint64_t ns;
        ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
        slowest = ns > slowest ? ns : slowest;
        poll(NULL, 0, 5);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "client %u: %x", i, status);
    }
    for (unsigned i = 0; i < DISTINCT; i++) {
        char line[48];
        snprintf(line, sizeof line, "compile crowd-%u", i);
        ck_assert_uint_eq(fixture_count(line), 1);
    }
    ck_assert_uint_lt(slowest, 1000000000u);
}
END_TEST

/* --- readers that never read, uploads that stall --- */

static int raw_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", fx.socket);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void raw_send(int fd, uint8_t type, uint32_t call, const ProtobufCMessage *message)
{
    uint8_t frame[512] = {0};
    size_t size = protobuf_c_message_pack(message, frame + 12);
    frame[0] = (uint8_t)size;
    frame[1] = (uint8_t)(size >> 8);
    frame[4] = type;
    frame[8] = (uint8_t)call;
    ck_assert_int_eq(write(fd, frame, 12 + size), (ssize_t)(12 + size));
}

static int raw_hello(void)
{
    Ipu__Rpc__Hello hello = IPU__RPC__HELLO__INIT;
    int fd = raw_connect();
    hello.protocol = 1;
    hello.client = (char *)"raw";
    raw_send(fd, IPU__RPC__FRAME_TYPE__FRAME_HELLO, 1, &hello.base);
    return fd;
}

START_TEST(readers_that_never_read_cost_a_bounded_amount_of_memory)
{
    enum { DEAF = 40 };
    int fds[DEAF];
    uint64_t job = fixture_detach(client, "chatty-slow", 1); /* 20,000 records of 250 bytes */
    for (int i = 0; i < DEAF; i++) {
        Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
        fds[i] = raw_hello();
        watch.job = job;
        watch.follow = true;
        raw_send(fds[i], IPU__RPC__FRAME_TYPE__FRAME_WATCH, 2, &watch.base);
    }
    ck_assert_int_eq(fixture_follow(client, job)->state, IPU__RPC__JOB_STATE__JOB_DONE);
    unsigned long kib = resident_kib(fx.pid);
    ck_assert_msg(kib < 160 * 1024, "resident: %lu KiB with %d deaf readers", kib, (int)DEAF);
    for (int i = 0; i < DEAF; i++)
        close(fds[i]);
}
END_TEST

START_TEST(stalled_uploads_hinder_nobody_and_are_dropped)
{
    enum { STALLED = 20 };
    int fds[STALLED];
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    for (int i = 0; i < STALLED; i++) {
        Ipu__Rpc__SubmitBegin begin = IPU__RPC__SUBMIT_BEGIN__INIT;
        fds[i] = raw_hello();
        begin.size = 100 << 20;
        begin.name = (char *)"stalled";
        raw_send(fds[i], IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_BEGIN, 2, &begin.base);
    }
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    if (by_level(0, 0, 1)) { /* a minute passes until they are told */
        poll(NULL, 0, 63000);
        for (int i = 0; i < STALLED; i++) {
            uint8_t reply[256];
            ck_assert_int_gt(recv(fds[i], reply, sizeof reply, MSG_DONTWAIT), 12);
        }
    }
    for (int i = 0; i < STALLED; i++)
        close(fds[i]);
    const Ipu__Rpc__CacheStats *stats;
    for (int i = 0; i < 1000; i++) { /* what they had reserved comes back */
        ck_assert_int_eq(ipu_cache_stats(client, &stats, &fx.error), 0);
        if (stats->bytes < 1 << 20)
            break;
        poll(NULL, 0, 5);
    }
    ck_assert_uint_lt(stats->bytes, 1 << 20);
}
END_TEST

/* --- flatness --- */

static void run_jobs(unsigned count, unsigned salt)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t job;
        const Ipu__Rpc__JobStatus *status;
        const char *name = i % 3 == 2 ? "kernel" : "plain"; /* every third package is new */
        ck_assert_int_eq(
            fixture_run(client, name, i % 3 == 2 ? salt + i : 1, NULL, NULL, &job, &status), 0);
        ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    }
}

START_TEST(memory_and_files_stay_flat_over_many_jobs)
{
    unsigned count = by_level(60, 150, 500);
    pid_t pids[3] = {fx.pid, fixture_child("ipud-device", 0), fixture_child("ipud-compile", 0)};
    unsigned long before[3];
    unsigned files[3];
    run_jobs(count / 2, 1000); /* caches of SQLite and malloc fill */
    for (int i = 0; i < 3; i++) {
        before[i] = resident_kib(pids[i]);
        files[i] = open_files(pids[i]);
    }
    run_jobs(count, 2000);
    for (int i = 0; i < 3; i++) {
        unsigned long after = resident_kib(pids[i]);
        /* SQLite's page cache may still fill, up to its 8 MiB (schema.c). */
        unsigned long room = i == 0 ? 9 * 1024 : 1024;
        ck_assert_msg(after < before[i] + room + count, "process %d: %lu -> %lu KiB", i, before[i],
                      after);
        ck_assert_uint_le(open_files(pids[i]), files[i] + 1);
    }
}
END_TEST

int main(int argc, char **argv)
{
    int code = fixture_dispatch(argc, argv);
    if (code >= 0)
        return code;
    Suite *suite = suite_create("daemon_soak");
    TCase *tc = tcase_create("soak");
    tcase_set_timeout(tc, 120 + 4 * by_level(8, 40, 1000));
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, kills_of_any_process_lose_no_job_and_end_none_twice);
    tcase_add_test(tc, fifty_clients_at_once_are_served_and_equal_work_is_compiled_once);
    tcase_add_test(tc, readers_that_never_read_cost_a_bounded_amount_of_memory);
    tcase_add_test(tc, stalled_uploads_hinder_nobody_and_are_dropped);
    suite_add_tcase(suite, tc);
    TCase *flat = tcase_create("flat");
    tcase_set_timeout(flat, 120 + 4 * by_level(60, 150, 500));
    tcase_add_checked_fixture(flat, setup, teardown);
    tcase_add_test(flat, memory_and_files_stay_flat_over_many_jobs);
    suite_add_tcase(suite, flat);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
