/* `ipud --worker compile`: compiles and checks, one task at a time.
 *
 * A compile task: workload in, keys out; the daemon answers with what it has; then package and
 * search state go out in streams. A check task: workload and device outputs in, verdict out. The
 * last workload stays in memory, as a check usually follows its compile. Limits on memory and CPU
 * time are set on the process itself, so that the kernel enforces them; the daemon sees the death
 * and retries.
 */
#include "daemon/child.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "proto/frame.h"
#include "proto/scan.h"
#include "proto/worker.pb-c.h"
#include "proto/workload.pb-c.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

struct worker {
    struct child *child;
    const struct engine *engine;
    struct log *log; /* of the task */
    long cpu_s;
    const char *flag_headers; /* directory, or "" */
    char held[HASH_TEXT];     /* digest of `workload`, or "" */
    struct buffer workload;
    pthread_mutex_t kernel_mutex; /* the compiler may look kernels up from several threads */
};

/* --- limits --- */

static const char *text_option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return "";
}

static long option(int argc, char **argv, const char *name)
{
    return strtol(text_option(argc, argv, name), NULL, 10);
}

static void limit_process(int argc, char **argv)
{
    long memory = option(argc, argv, "--memory-mib");
    struct rlimit none = {0, 0};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    if (memory > 0) {
        struct rlimit limit = {(rlim_t)memory << 20, (rlim_t)memory << 20};
        setrlimit(RLIMIT_AS, &limit);
    }
}

/* Gives the coming task its CPU seconds. */
static void limit_cpu(long seconds)
{
    struct rusage used;
    struct rlimit limit;
    if (seconds <= 0 || getrusage(RUSAGE_SELF, &used) || getrlimit(RLIMIT_CPU, &limit))
        return;
    limit.rlim_cur = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds + 1);
    setrlimit(RLIMIT_CPU, &limit);
}

/* --- what the daemon must know of a workload --- */

static const struct scan_limits options_limits = {4, 64, 4096, 8192};

static void read_facts(const struct buffer *workload, Ipu__Worker__Facts *facts, char name[129])
{
    const uint8_t *span;
    size_t length;
    ProtobufCMessage *message;
    struct ipu_error ignored;
    name[0] = '\0';
    if (scan_find_bytes(workload->data, workload->size, 2, &span, &length) && span)
        snprintf(name, 129, "%.*s", (int)(length < 128 ? length : 128), (const char *)span);
    facts->inferences = 1;
    if (!scan_find_bytes(workload->data, workload->size, 7, &span, &length) || !span ||
        scan_unpack(&ipu__workload__options__descriptor, span, length, &options_limits, &message,
                    &ignored))
        return;
    Ipu__Workload__Options *options = (Ipu__Workload__Options *)message;
    facts->compile_timeout_ms = options->compile_timeout_ms;
    facts->run_timeout_ms = options->run_timeout_ms;
    facts->inferences = options->inferences ? options->inferences : 1;
    facts->profile = (uint32_t)options->profile;
    scan_free(message);
}

static void send_keys(struct worker *worker, const struct compile_keys *keys)
{
    Ipu__Worker__Keys message = IPU__WORKER__KEYS__INIT;
    Ipu__Worker__Facts facts = IPU__WORKER__FACTS__INIT;
    char name[129];
    read_facts(&worker->workload, &facts, name);
    message.package_key = (char *)keys->package_key;
    message.search_key = (char *)keys->search_key;
    message.name = name;
    message.facts = &facts;
    child_send_message(worker->child, IPU__WORKER__MESSAGE_TYPE__WORKER_KEYS, &message.base);
}

/* --- kernel cache, seen from the compiler --- */

static bool find_kernel(void *context, const char *key, struct buffer *object)
{
    struct worker *worker = context;
    uint64_t start = clock_ns();
    Ipu__Worker__Kernel ask = IPU__WORKER__KERNEL__INIT;
    ask.key = (char *)key;
    pthread_mutex_lock(&worker->kernel_mutex);
    child_send_message(worker->child, IPU__WORKER__MESSAGE_TYPE__WORKER_KERNEL_FIND, &ask.base);
    struct child_message *message = child_receive(worker->child);
    pthread_mutex_unlock(&worker->kernel_mutex);
    Ipu__Worker__Kernel *answer =
        (Ipu__Worker__Kernel *)child_unpack(message, &ipu__worker__kernel__descriptor);
    bool found = answer && answer->found && strcmp(answer->key, key) == 0;
    if (found)
        buffer_append(object, answer->object.data, answer->object.len);
    scan_free((ProtobufCMessage *)answer);
    child_message_free(message);
    log_event(worker->log, LOG_LEVEL_DEBUG, "compile_kernels",
              found ? "kernel cache hit" : "kernel cache miss", "key=%.16s elapsed_us=%llu", key,
              (unsigned long long)((clock_ns() - start) / 1000));
    return found && !object->failed;
}

static void store_kernel(void *context, const char *key, const char *name, const void *object,
                         size_t size)
{
    struct worker *worker = context;
    Ipu__Worker__Kernel kernel = IPU__WORKER__KERNEL__INIT;
    if (size > FRAME_BULK_LIMIT)
        return; /* no kernel is that large; it would only be assembled again */
    kernel.key = (char *)key;
    kernel.name = (char *)name;
    kernel.object.data = (uint8_t *)(uintptr_t)object;
    kernel.object.len = size;
    child_send_message(worker->child, IPU__WORKER__MESSAGE_TYPE__WORKER_KERNEL_STORE, &kernel.base);
}

static void on_progress(void *context, const char *phase, uint64_t best_cycles, uint64_t candidates)
{
    struct worker *worker = context;
    child_progress(worker->child, phase, -1, best_cycles, candidates);
}

/* --- tasks --- */

static int receive_workload(struct worker *worker, const char *digest, uint64_t bytes,
                            bool resident, struct ipu_error *error)
{
    if (resident && strcmp(digest, worker->held) == 0)
        return 0;
    if (resident)
        return ipu_error_set(error, IPU_ERR_INTERNAL, "worker: the workload is not resident");
    worker->held[0] = '\0';
    buffer_free(&worker->workload);
    int rc = child_receive_bytes(worker->child, bytes, &worker->workload, error);
    if (rc == 0)
        snprintf(worker->held, sizeof worker->held, "%s", digest);
    return rc;
}

static void send_stream(struct worker *worker, Ipu__Worker__StreamKind kind,
                        const struct buffer *bytes)
{
    Ipu__Worker__Stream stream = IPU__WORKER__STREAM__INIT;
    stream.kind = kind;
    stream.bytes = bytes->size;
    child_send_message(worker->child, IPU__WORKER__MESSAGE_TYPE__WORKER_STREAM, &stream.base);
    child_send_bytes(worker->child, bytes->data, bytes->size);
}

/* The daemon's answer to the keys: whether the package exists, else the search state so far. */
static int receive_answer(struct worker *worker, bool *cached, struct buffer *search,
                          struct ipu_error *error)
{
    struct child_message *message = child_receive(worker->child);
    Ipu__Worker__KeysAnswer *answer = message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_KEYS_ANSWER
                                          ? (Ipu__Worker__KeysAnswer *)child_unpack(
                                                message, &ipu__worker__keys_answer__descriptor)
                                          : NULL;
    child_message_free(message);
    if (!answer)
        return ipu_error_set(error, IPU_ERR_INTERNAL, "worker: no answer to the keys");
    *cached = answer->cached;
    uint64_t bytes = answer->search_bytes;
    scan_free((ProtobufCMessage *)answer);
    int rc = child_receive_bytes(worker->child, bytes, search, error);
    if (rc == IPU_ERR_CORRUPT) { /* a damaged search state costs time, not the job */
        search->size = 0;
        rc = 0;
    }
    return rc;
}

static void send_compiled(struct worker *worker, const struct compile_result *result,
                          uint64_t start_ns, bool skipped)
{
    Ipu__Worker__Compiled done = IPU__WORKER__COMPILED__INIT;
    done.skipped = skipped;
    done.estimated_cycles = result->estimated_cycles;
    done.search_attempts = result->search_attempts;
    done.resumed = result->resumed;
    done.elapsed_ms = (double)(clock_ns() - start_ns) / 1e6;
    child_send_message(worker->child, IPU__WORKER__MESSAGE_TYPE__WORKER_COMPILED, &done.base);
}

static int run_compile(struct worker *worker, const Ipu__Worker__CompileTask *task,
                       struct ipu_error *error)
{
    uint64_t start = clock_ns();
    struct buffer search = {0};
    struct compile_keys keys;
    struct compile_result result = {0};
    bool cached = false;
    struct log *log = worker->log = child_log(worker->child, task->log_level);
    int rc = receive_workload(worker, task->workload, task->workload_bytes, task->resident, error);
    if (rc == 0)
        rc = worker->engine->keys(worker->workload.data, worker->workload.size,
                                  worker->flag_headers, &keys, error);
    if (rc)
        return rc;
    send_keys(worker, &keys);
    rc = receive_answer(worker, &cached, &search, error);
    if (rc == 0 && !cached) {
        struct compile_options options = {
            .threads = task->threads,
            .flag_headers = worker->flag_headers,
            .search_state = search.size ? search.data : NULL,
            .search_state_size = search.size,
            .cache = {find_kernel, store_kernel, worker},
            .log = log,
            .cancel = child_cancel(worker->child),
            .progress = on_progress,
            .progress_context = worker,
        };
        rc = worker->engine->compile(worker->workload.data, worker->workload.size, &options,
                                     &result, error);
        if (rc == 0)
            send_stream(worker, IPU__WORKER__STREAM_KIND__STREAM_PACKAGE, &result.package);
        if (rc == 0 && result.search_state.size)
            send_stream(worker, IPU__WORKER__STREAM_KIND__STREAM_SEARCH, &result.search_state);
    }
    if (rc == 0)
        send_compiled(worker, &result, start, cached);
    worker->engine->compile_free(&result);
    buffer_free(&search);
    return rc;
}

static void send_checked(struct worker *worker, const struct compile_check *check,
                         struct buffer *line, uint64_t start_ns)
{
    Ipu__Worker__Checked done = IPU__WORKER__CHECKED__INIT;
    char *lines[1] = {(char *)line->data};
    done.passed = check->passed;
    done.reason = (char *)check->reason;
    done.n_lines = 1;
    done.lines = lines;
    done.elapsed_ms = (double)(clock_ns() - start_ns) / 1e6;
    child_send_message(worker->child, IPU__WORKER__MESSAGE_TYPE__WORKER_CHECKED, &done.base);
}

static int evaluate(struct worker *worker, const Ipu__Worker__CheckTask *task,
                    const struct compile_output *outputs, struct ipu_error *error)
{
    uint64_t start = clock_ns();
    struct compile_check check = {0};
    struct buffer line = {0};
    struct compile_measured measured = {.cycles = task->cycles,
                                        .minimum_cycles = task->minimum_cycles,
                                        .estimated_cycles = task->estimated_cycles,
                                        .input_bytes = task->input_bytes,
                                        .weight_bytes = task->weight_bytes,
                                        .active_tiles = task->active_tiles};
    int rc = worker->engine->check(worker->workload.data, worker->workload.size, outputs,
                                   task->n_outputs, task->threads,
                                   child_log(worker->child, task->log_level), &check, error);
    if (rc == 0)
        rc = worker->engine->result_line(worker->workload.data, worker->workload.size, &measured,
                                         &check, &line, error);
    buffer_append_zero(&line, 1);
    if (rc == 0 && line.failed)
        rc = ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    if (rc == 0)
        send_checked(worker, &check, &line, start);
    buffer_free(&line);
    return rc;
}

static int run_check(struct worker *worker, const Ipu__Worker__CheckTask *task,
                     struct ipu_error *error)
{
    size_t count = task->n_outputs;
    struct buffer *bytes = ipu_calloc(count + 1, sizeof *bytes);
    struct compile_output *outputs = ipu_calloc(count + 1, sizeof *outputs);
    int rc = bytes && outputs ? 0 : ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    if (rc == 0)
        rc = receive_workload(worker, task->workload, task->workload_bytes, task->resident, error);
    for (size_t i = 0; rc == 0 && bytes && outputs && i < count; i++) {
        rc = child_receive_bytes(worker->child, task->outputs[i]->bytes, &bytes[i], error);
        outputs[i] = (struct compile_output){task->outputs[i]->name, bytes[i].data, bytes[i].size};
    }
    if (rc == 0)
        rc = evaluate(worker, task, outputs, error);
    for (size_t i = 0; bytes && i < count; i++)
        buffer_free(&bytes[i]);
    ipu_free(bytes);
    ipu_free(outputs);
    if (worker->workload.size > CHILD_KEEP_BYTES) {
        buffer_free(&worker->workload);
        worker->held[0] = '\0';
    }
    return rc;
}

static void serve(struct worker *worker, const struct child_message *message)
{
    struct ipu_error error = {0};
    int rc = IPU_ERR_INTERNAL;
    ProtobufCMessage *task = NULL;
    limit_cpu(worker->cpu_s);
    ipu_error_set(&error, rc, "worker: unexpected message %u", message->type);
    if (message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_COMPILE) {
        task = child_unpack(message, &ipu__worker__compile_task__descriptor);
        if (task)
            rc = run_compile(worker, (Ipu__Worker__CompileTask *)task, &error);
    } else if (message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_CHECK) {
        task = child_unpack(message, &ipu__worker__check_task__descriptor);
        if (task)
            rc = run_check(worker, (Ipu__Worker__CheckTask *)task, &error);
    } else if (message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_DATA ||
               message->type == IPU__WORKER__MESSAGE_TYPE__WORKER_DATA_LOST) {
        return; /* the rest of a task that has failed already */
    }
    if (rc)
        child_send_failure(worker->child, rc, error.text, NULL);
    scan_free(task);
}

int child_compile_main(const struct engine *engine, int argc, char **argv)
{
    struct worker worker = {.engine = engine,
                            .cpu_s = option(argc, argv, "--cpu-s"),
                            .flag_headers = text_option(argc, argv, "--flag-headers")};
    limit_process(argc, argv);
    if (option(argc, argv, "--sandbox"))
        child_enter_sandbox();
    pthread_mutex_init(&worker.kernel_mutex, NULL);
    worker.child = child_create((int)option(argc, argv, "--fd"));
    if (!worker.child)
        return 70;
    Ipu__Worker__Ready ready = IPU__WORKER__READY__INIT;
    ready.engine = (char *)engine->name;
    child_send_message(worker.child, IPU__WORKER__MESSAGE_TYPE__WORKER_READY, &ready.base);
    for (;;) {
        struct child_message *message = child_receive(worker.child);
        serve(&worker, message);
        child_message_free(message);
    }
}
