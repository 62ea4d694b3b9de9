/* module: client */
/* What hostile, broken, slow and dying clients cost: one clear error to themselves, nothing to
 * anyone else. After each of them another client's job runs through. */
#include "tests/unit/daemon_fixture.h"

#include "proto/frame.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#ifdef __SANITIZE_ADDRESS__
enum { MEMORY_FACTOR = 8 }; /* freed memory stays in quarantine */
#else
enum { MEMORY_FACTOR = 1 };
#endif

static struct ipu_client *client;

static void setup(void)
{
    fixture_setup();
    client = fixture_connect();
}

static void teardown(void)
{
    /* Whatever the test did: the daemon serves on. */
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "next", 99, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    ipu_close(client);
    fixture_teardown();
}

/* --- a client made of bytes --- */

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", fx.socket);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void say(int fd, const void *data, size_t size)
{
    ck_assert_int_eq(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void say_frame(int fd, uint8_t type, uint32_t call, const void *body, uint32_t size)
{
    uint8_t header[FRAME_HEADER];
    frame_header(header, type, call, size);
    say(fd, header, sizeof header);
    if (size)
        say(fd, body, size);
}

static void say_message(int fd, uint8_t type, uint32_t call, const ProtobufCMessage *message)
{
    uint8_t body[4096];
    size_t size = protobuf_c_message_pack(message, body);
    say_frame(fd, type, call, body, (uint32_t)size);
}

/* Reads one frame; false at end of file. */
static bool hear(int fd, uint8_t *type, uint32_t *call, struct buffer *body)
{
    uint8_t header[FRAME_HEADER];
    struct pollfd pfd = {fd, POLLIN, 0};
    ck_assert_int_eq(poll(&pfd, 1, 15000), 1);
    ssize_t n = recv(fd, header, sizeof header, MSG_WAITALL);
    if (n <= 0)
        return false;
    ck_assert_int_eq(n, FRAME_HEADER);
    uint32_t size;
    memcpy(&size, header, 4);
    memcpy(call, header + 8, 4);
    *type = header[4];
    body->size = 0;
    buffer_append_zero(body, size + 1);
    body->size = size;
    if (size)
        ck_assert_int_eq(recv(fd, body->data, size, MSG_WAITALL), (ssize_t)size);
    return true;
}

static int dial_open(void)
{
    struct buffer body = {0};
    uint8_t type;
    uint32_t call;
    Ipu__Rpc__Hello hello = IPU__RPC__HELLO__INIT;
    int fd = dial();
    hello.protocol = 1;
    say_message(fd, IPU__RPC__FRAME_TYPE__FRAME_HELLO, 1, &hello.base);
    ck_assert(hear(fd, &type, &call, &body));
    ck_assert_uint_eq(type, IPU__RPC__FRAME_TYPE__REPLY_HELLO);
    ck_assert_uint_eq(call, 1);
    buffer_free(&body);
    return fd;
}

/* The next frame is an error of that code whose sentence contains `says`. */
static void expect_error(int fd, uint32_t call, int code, const char *says)
{
    struct buffer body = {0};
    uint8_t type;
    uint32_t got;
    ck_assert(hear(fd, &type, &got, &body));
    ck_assert_uint_eq(type, IPU__RPC__FRAME_TYPE__REPLY_ERROR);
    Ipu__Rpc__Error *error = ipu__rpc__error__unpack(NULL, body.size, body.data);
    ck_assert_ptr_nonnull(error);
    ck_assert_uint_eq(got, call);
    ck_assert_msg(error->code == code, "%d: %s", error->code, error->text);
    ck_assert_msg(strstr(error->text, says) != NULL, "%s", error->text);
    ipu__rpc__error__free_unpacked(error, NULL);
    buffer_free(&body);
}

static void expect_end(int fd)
{
    struct buffer body = {0};
    uint8_t type;
    uint32_t call;
    ck_assert(!hear(fd, &type, &call, &body));
    buffer_free(&body);
    close(fd);
}

/* --- violations: an error with call 0, then the end --- */

struct bad_row {
    const char *bytes;
    size_t size;
    bool hello; /* said first */
    int code;
    const char *says;
};
static const struct bad_row bad_rows[] = {
    {"\x00\x00\x00\x80\x05\0\0\0\x01\0\0\0", 12, true, IPU_ERR_PROTOCOL, "2147483648"},
    {"\x00\x00\x00\x00\xff\0\0\0\x01\0\0\0", 12, true, IPU_ERR_PROTOCOL, "frame type 255"},
    {"\x00\x00\x00\x00\x02\0\0\0\x00\0\0\0", 12, true, IPU_ERR_PROTOCOL, "call number"},
    {"\x00\x00\x00\x00\x02\x01\0\0\x01\0\0\0", 12, true, IPU_ERR_PROTOCOL, "reserved"},
    {"\x00\x00\x00\x00\x02\0\0\0\x01\0\0\0", 12, false, IPU_ERR_PROTOCOL, "must be a hello"},
    {"\x02\x00\x00\x00\x01\0\0\0\x01\0\0\0\x08\x07", 14, false, IPU_ERR_VERSION, "protocol 1"},
    {"\x02\x00\x00\x00\x01\0\0\0\x01\0\0\0\x08\xff", 14, false, IPU_ERR_INVALID, "malformed"},
    {"\x00\x00\x00\x00\x01\0\0\0\x01\0\0\0", 12, true, IPU_ERR_PROTOCOL, "out of order"},
    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, false, IPU_ERR_PROTOCOL, "protocol"},
};

START_TEST(violation_is_answered_and_ends_the_connection)
{
    const struct bad_row *row = &bad_rows[_i];
    int fd = row->hello ? dial_open() : dial();
    say(fd, row->bytes, row->size);
    expect_error(fd, 0, row->code, row->says);
    expect_end(fd);
}
END_TEST

/* --- bad requests: an error of the call, the connection goes on --- */

struct request_row {
    uint8_t type;
    const char *body;
    uint32_t size;
    int code;
    const char *says;
};
static const struct request_row request_rows[] = {
    {IPU__RPC__FRAME_TYPE__FRAME_STATUS, "\x08", 1, IPU_ERR_INVALID, "malformed"},
    {IPU__RPC__FRAME_TYPE__FRAME_STATUS, "\x0a\x01\x01", 3, IPU_ERR_INVALID, "wire type"},
    {IPU__RPC__FRAME_TYPE__FRAME_STATUS, "\x08\x63", 2, IPU_ERR_NOT_FOUND, "no job 99"},
    {IPU__RPC__FRAME_TYPE__FRAME_LIST, "\x10\xc9\x01", 3, IPU_ERR_LIMIT, "200"},
    {IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_BEGIN, "", 0, IPU_ERR_LIMIT, "1 to 1073741824"},
    {IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_BEGIN, "\x10\x81\x80\x80\x80\x04", 6, IPU_ERR_LIMIT,
     "1073741825"},
    {IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_BEGIN, "\x0a\x02\x1b[\x10\x05", 6, IPU_ERR_INVALID,
     "printable"},
    {IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_BEGIN, "\x10\x05\x28\x16", 4, IPU_ERR_INVALID, "priority"},
    {IPU__RPC__FRAME_TYPE__FRAME_FETCH, "\x08\x01\x10\x63", 4, IPU_ERR_INVALID, "kind 99"},
    {IPU__RPC__FRAME_TYPE__FRAME_CACHE_LIST, "\x10\xf5\x03", 3, IPU_ERR_LIMIT, "500"},
    {IPU__RPC__FRAME_TYPE__FRAME_SEARCH_SHOW, "\x0a\x02zz", 4, IPU_ERR_INVALID, "hexadecimal"},
    {IPU__RPC__FRAME_TYPE__FRAME_WATCH, "\x08\x63", 2, IPU_ERR_NOT_FOUND, "no job 99"},
};

START_TEST(bad_request_ends_only_its_call)
{
    const struct request_row *row = &request_rows[_i];
    struct buffer body = {0};
    uint8_t type;
    uint32_t call;
    int fd = dial_open();
    say_frame(fd, row->type, 5, row->body, row->size);
    expect_error(fd, 5, row->code, row->says);
    say_frame(fd, IPU__RPC__FRAME_TYPE__FRAME_PING, 6, NULL, 0);
    ck_assert(hear(fd, &type, &call, &body));
    ck_assert_uint_eq(type, IPU__RPC__FRAME_TYPE__REPLY_OK);
    ck_assert_uint_eq(call, 6);
    buffer_free(&body);
    close(fd);
}
END_TEST

START_TEST(nested_bomb_as_a_workload_is_one_failed_job)
{
    /* No request nests; a workload does, and it is only looked at in the worker. */
    struct buffer bomb = {0};
    static const uint8_t tags[] = {0x22, 0x52, 0x0a};
    for (unsigned i = 0; i < 9999; i++) {
        struct buffer outer = {0};
        uint8_t head[8] = {tags[i % 3]};
        size_t n = 1;
        for (size_t left = bomb.size;; left >>= 7) {
            head[n++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
            if (left <= 0x7f)
                break;
        }
        buffer_append(&outer, head, n);
        buffer_append(&outer, bomb.data, bomb.size);
        buffer_free(&bomb);
        bomb = outer;
    }
    uint64_t job;
    const Ipu__Rpc__WatchEnd *end;
    struct ipu_submit submit = {.data = bomb.data, .size = bomb.size, .event = fixture_ignore};
    ck_assert_int_eq(ipu_submit(client, &submit, &job, &end, NULL, &fx.error), 0);
    ck_assert_int_eq(end->status->state, IPU__RPC__JOB_STATE__JOB_FAILED);
    ck_assert_int_eq(end->status->code, IPU_ERR_INVALID);
    buffer_free(&bomb);
}
END_TEST

START_TEST(random_frames_never_disturb_the_daemon)
{
    srand((unsigned)_i + 1);
    for (int round = 0; round < 30; round++) {
        int fd = rand() % 2 ? dial_open() : dial();
        for (int n = 0; n < 20; n++) {
            uint8_t frame[FRAME_HEADER + 64];
            uint32_t size = (uint32_t)(rand() % 64);
            frame_header(frame, (uint8_t)(rand() % 4 ? rand() % 24 : rand()),
                         (uint32_t)(rand() % 4), rand() % 8 ? size : (uint32_t)rand());
            for (uint32_t i = 0; i < size; i++)
                frame[FRAME_HEADER + i] = (uint8_t)(rand() % 3 ? rand() % 32 : rand());
            if (send(fd, frame, FRAME_HEADER + size, MSG_NOSIGNAL) < 0)
                break;
        }
        close(fd);
    }
    uint64_t ns;
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
}
END_TEST

/* --- uploads --- */

static void begin_upload(int fd, uint64_t size)
{
    Ipu__Rpc__SubmitBegin begin = IPU__RPC__SUBMIT_BEGIN__INIT;
    begin.size = size;
    say_message(fd, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_BEGIN, 2, &begin.base);
}

START_TEST(upload_of_the_wrong_size_is_refused)
{
    int fd = dial_open();
    begin_upload(fd, 10);
    say_frame(fd, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK, 2, "0123456789a", _i == 0 ? 11 : 5);
    if (_i == 1)
        say_frame(fd, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_END, 2, NULL, 0);
    expect_error(fd, 2, IPU_ERR_INVALID, _i == 0 ? "more bytes" : "5 bytes short");
    close(fd);
}
END_TEST

START_TEST(client_that_dies_in_its_upload_leaves_nothing)
{
    const Ipu__Rpc__CacheStats *stats;
    const Ipu__Rpc__JobList *jobs;
    Ipu__Rpc__ListRequest list = IPU__RPC__LIST_REQUEST__INIT;
    static uint8_t piece[1 << 20];
    int fd = dial_open();
    begin_upload(fd, 100 << 20);
    for (int i = 0; i < 3; i++)
        say_frame(fd, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK, 2, piece, sizeof piece);
    close(fd);
    for (int i = 0; i < 400; i++) {
        ck_assert_int_eq(ipu_cache_stats(client, &stats, &fx.error), 0);
        if (stats->bytes == 0)
            break;
        poll(NULL, 0, 5);
    }
    ck_assert_uint_eq(stats->bytes, 0);
    ck_assert_int_eq(ipu_list(client, &list, &jobs, &fx.error), 0);
    ck_assert_uint_eq(jobs->n_jobs, 0);
}
END_TEST

START_TEST(stopped_upload_is_given_up)
{
    int fd = dial_open();
    begin_upload(fd, 10);
    say_frame(fd, IPU__RPC__FRAME_TYPE__FRAME_SUBMIT_CHUNK, 2, "01234", 5);
    say_frame(fd, IPU__RPC__FRAME_TYPE__FRAME_STOP, 2, NULL, 0);
    expect_error(fd, 2, IPU_ERR_CANCELLED, "stopped");
    close(fd);
}
END_TEST

START_TEST(large_workload_is_accepted_in_bounded_memory)
{
    const Ipu__Rpc__Info *info;
    struct buffer bytes = fixture_workload("plain", 1, 96 << 20, NULL);
    struct ipu_submit submit = {.data = bytes.data, .size = bytes.size, .event = fixture_ignore};
    uint64_t job;
    const Ipu__Rpc__WatchEnd *end;
    ck_assert_int_eq(ipu_submit(client, &submit, &job, &end, NULL, &fx.error), 0);
    ck_assert_msg(end->status->state == IPU__RPC__JOB_STATE__JOB_DONE, "%s", end->status->reason);
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_uint_lt(info->memory_bytes, MEMORY_FACTOR * (uint64_t)(96 << 20));
    buffer_free(&bytes);
}
END_TEST

/* --- slow and silent peers --- */

START_TEST(client_that_never_reads_costs_bounded_memory_and_nobody_else)
{
    const Ipu__Rpc__Info *info;
    uint64_t job, before;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "big", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    before = info->memory_bytes;
    int fds[20];
    for (int i = 0; i < 20; i++) { /* each asks for 32 MiB and reads none of it */
        fds[i] = dial_open();
        Ipu__Rpc__Fetch fetch = IPU__RPC__FETCH__INIT;
        fetch.job = job;
        for (uint32_t n = 2; n < 6; n++)
            say_message(fds[i], IPU__RPC__FRAME_TYPE__FRAME_FETCH, n, &fetch.base);
    }
    ck_assert_int_eq(fixture_run(client, "plain", 5, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(status->state, IPU__RPC__JOB_STATE__JOB_DONE);
    uint64_t ns;
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
    ck_assert_uint_lt(ns, 50000000u);
    ck_assert_int_eq(ipu_info(client, &info, &fx.error), 0);
    ck_assert_uint_lt(info->memory_bytes, before + MEMORY_FACTOR * (uint64_t)(20 << 22));
    for (int i = 0; i < 20; i++)
        close(fds[i]);
}
END_TEST

START_TEST(peers_that_never_finish_are_dropped_after_ten_seconds)
{
    enum { PEERS = 200 };
    static int fds[PEERS];
    uint64_t start = clock_ns(), ns;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = i % 3 == 0 ? dial() : dial_open();
        if (i % 3)
            say(fds[i], "\x10\x00\x00\x00\x07\0\0\0\x01\0\0\0abc", i % 3 == 1 ? 7 : 15);
    }
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
    ck_assert_uint_lt(ns, 50000000u);
    expect_error(fds[0], 0, IPU_ERR_PROTOCOL, "within 10 s");
    expect_error(fds[1], 0, IPU_ERR_PROTOCOL, "within 10 s");
    expect_error(fds[2], 0, IPU_ERR_PROTOCOL, "within 10 s");
    ck_assert_uint_lt(clock_ns() - start, 13000000000u);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
}
END_TEST

START_TEST(hundreds_of_idle_peers_are_no_burden)
{
    enum { PEERS = 500 };
    static struct ipu_client *peers[PEERS];
    uint64_t ns;
    for (int i = 0; i < PEERS; i++)
        peers[i] = fixture_connect();
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
    ck_assert_uint_lt(ns, 50000000u);
    for (int i = 0; i < PEERS; i++)
        ipu_close(peers[i]);
}
END_TEST

START_TEST(connections_above_the_limit_are_told_so)
{
    ipu_close(client);
    fixture_end(SIGTERM);
    fx.options[0] = "--max-connections";
    fx.options[1] = "5";
    fixture_start();
    client = fixture_connect();
    struct ipu_client *more[4], *none = NULL;
    for (int i = 0; i < 4; i++)
        more[i] = fixture_connect();
    ck_assert_int_eq(ipu_connect(fx.socket, "test", &none, &fx.error), IPU_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(fx.error.text, "all the connections"));
    for (int i = 0; i < 4; i++)
        ipu_close(more[i]);
}
END_TEST

START_TEST(running_out_of_descriptors_is_survived)
{
    struct rlimit limit = {40, 40};
    ck_assert_int_eq(prlimit(fx.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    int fds[60];
    for (int i = 0; i < 60; i++) {
        fds[i] = dial();
        poll(NULL, 0, 1);
    }
    uint64_t ns;
    ck_assert_int_eq(ipu_ping(client, &ns, &fx.error), 0);
    ck_assert_uint_lt(ns, 50000000u);
    for (int i = 0; i < 60; i++)
        close(fds[i]);
    limit.rlim_cur = limit.rlim_max = 4096;
    (void)prlimit(fx.pid, RLIMIT_NOFILE, &limit, NULL);
    struct ipu_client *again = fixture_connect();
    ipu_close(again);
}
END_TEST

START_TEST(too_many_calls_on_a_connection_are_refused)
{
    int fd = dial_open();
    uint64_t job = fixture_detach(client, "hang", 1);
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    watch.job = job;
    watch.follow = true;
    watch.from = 1 << 20;
    for (uint32_t n = 2; n < 67; n++)
        say_message(fd, IPU__RPC__FRAME_TYPE__FRAME_WATCH, n, &watch.base);
    struct buffer body = {0};
    uint8_t type = 0;
    uint32_t call;
    while (type != IPU__RPC__FRAME_TYPE__REPLY_ERROR)
        ck_assert(hear(fd, &type, &call, &body));
    ck_assert_uint_eq(call, 66);
    buffer_free(&body);
    close(fd);
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(ipu_cancel(client, job, &status, &fx.error), 0);
}
END_TEST

START_TEST(open_call_number_cannot_be_used_again)
{
    int fd = dial_open();
    begin_upload(fd, 10);
    say_frame(fd, IPU__RPC__FRAME_TYPE__FRAME_INFO, 2, NULL, 0);
    expect_error(fd, 0, IPU_ERR_PROTOCOL, "in use");
    expect_end(fd);
}
END_TEST

START_TEST(keepalives_come_while_a_watch_is_quiet)
{
    uint64_t job = fixture_detach(client, "hang", 1);
    fixture_await(client, job, IPU__RPC__JOB_STATE__JOB_COMPILING);
    int fd = dial_open();
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    watch.job = job;
    watch.follow = true;
    say_message(fd, IPU__RPC__FRAME_TYPE__FRAME_WATCH, 2, &watch.base);
    struct buffer body = {0};
    uint8_t type = 0;
    uint32_t call;
    while (type != IPU__RPC__FRAME_TYPE__REPLY_KEEPALIVE)
        ck_assert(hear(fd, &type, &call, &body));
    buffer_free(&body);
    close(fd);
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(ipu_cancel(client, job, &status, &fx.error), 0);
}
END_TEST

START_TEST(nobody_at_the_socket_is_told_with_what_to_do)
{
    struct ipu_client *none;
    ck_assert_int_eq(ipu_connect("/tmp/no/such/socket", "test", &none, &fx.error),
                     IPU_ERR_UNREACHABLE);
    ck_assert_ptr_nonnull(strstr(fx.error.text, "start one with `ipud`"));
    ck_assert_ptr_null(none);
}
END_TEST

/* --- other users: only root can become one --- */

/* Runs `body` as user `uid` in a child; its result is the exit status. */
static int as_user(uid_t uid, int (*body)(struct ipu_client *own))
{
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(uid) || setuid(uid))
            _exit(99);
        _exit(body(fixture_connect()));
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void open_to_all(void)
{
    ipu_close(client);
    fixture_end(SIGTERM);
    fx.options[0] = "--socket-mode";
    fx.options[1] = "0666";
    ck_assert_int_eq(chmod(fx.dir, 0755), 0);
    fixture_start();
    client = fixture_connect();
}

static int try_job_of_another(struct ipu_client *own)
{
    const Ipu__Rpc__JobStatus *status;
    const Ipu__Rpc__Outputs *outputs;
    const Ipu__Rpc__CacheWork *work;
    Ipu__Rpc__Watch watch = IPU__RPC__WATCH__INIT;
    watch.job = 1;
    if (ipu_status(own, 1, &status, &fx.error) || status->uid != 0)
        return 1;
    if (ipu_cancel(own, 1, &status, &fx.error) != IPU_ERR_INVALID)
        return 2;
    if (ipu_outputs(own, 1, &outputs, &fx.error) != IPU_ERR_INVALID)
        return 3;
    if (ipu_watch(own, &watch, fixture_ignore, NULL, NULL, NULL, &fx.error) != IPU_ERR_INVALID)
        return 4;
    if (ipu_cache_gc(own, 0, true, &work, &fx.error) != IPU_ERR_INVALID)
        return 5;
    if (ipu_server(own)->uid != 1234)
        return 6;
    return strstr(fx.error.text, "root") ? 0 : 7;
}

START_TEST(other_users_see_status_but_cannot_touch)
{
    if (geteuid() != 0)
        return; /* becoming another user takes root */
    open_to_all();
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    ck_assert_int_eq(fixture_run(client, "plain", 1, NULL, NULL, &job, &status), 0);
    ck_assert_int_eq(as_user(1234, try_job_of_another), 0);
}
END_TEST

static int submit_one(struct ipu_client *own)
{
    uint64_t job;
    const Ipu__Rpc__JobStatus *status;
    if (fixture_run(own, "plain", 77, NULL, NULL, &job, &status))
        return 1;
    return status->state == IPU__RPC__JOB_STATE__JOB_DONE ? 0 : 2;
}

START_TEST(one_user_cannot_starve_another)
{
    if (geteuid() != 0)
        return; /* becoming another user takes root */
    open_to_all();
    for (unsigned i = 0; i < 12; i++)
        (void)fixture_detach(client, "slow", i);
    uint64_t start = clock_ns();
    ck_assert_int_eq(as_user(1234, submit_one), 0);
    ck_assert_uint_lt(clock_ns() - start, 1500000000u); /* the twelve take 4.8 s */
    const Ipu__Rpc__JobList *jobs;
    Ipu__Rpc__ListRequest list = IPU__RPC__LIST_REQUEST__INIT;
    list.active = true;
    ck_assert_int_eq(ipu_list(client, &list, &jobs, &fx.error), 0);
    ck_assert_uint_gt(jobs->n_jobs, 4);
}
END_TEST

int main(int argc, char **argv)
{
    int rc = fixture_dispatch(argc, argv);
    if (rc >= 0)
        return rc;
    Suite *suite = suite_create("daemon_protocol");
    TCase *tc = tcase_create("daemon_protocol");
    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 40);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, violation_is_answered_and_ends_the_connection, 0,
                        sizeof bad_rows / sizeof bad_rows[0]);
    tcase_add_loop_test(tc, bad_request_ends_only_its_call, 0,
                        sizeof request_rows / sizeof request_rows[0]);
    tcase_add_test(tc, nested_bomb_as_a_workload_is_one_failed_job);
    tcase_add_loop_test(tc, random_frames_never_disturb_the_daemon, 0, 3);
    tcase_add_loop_test(tc, upload_of_the_wrong_size_is_refused, 0, 2);
    tcase_add_test(tc, client_that_dies_in_its_upload_leaves_nothing);
    tcase_add_test(tc, stopped_upload_is_given_up);
    tcase_add_test(tc, large_workload_is_accepted_in_bounded_memory);
    tcase_add_test(tc, client_that_never_reads_costs_bounded_memory_and_nobody_else);
    tcase_add_test(tc, peers_that_never_finish_are_dropped_after_ten_seconds);
    tcase_add_test(tc, hundreds_of_idle_peers_are_no_burden);
    tcase_add_test(tc, connections_above_the_limit_are_told_so);
    tcase_add_test(tc, running_out_of_descriptors_is_survived);
    tcase_add_test(tc, too_many_calls_on_a_connection_are_refused);
    tcase_add_test(tc, open_call_number_cannot_be_used_again);
    tcase_add_test(tc, keepalives_come_while_a_watch_is_quiet);
    tcase_add_test(tc, nobody_at_the_socket_is_told_with_what_to_do);
    tcase_add_test(tc, other_users_see_status_but_cannot_touch);
    tcase_add_test(tc, one_user_cannot_starve_another);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
