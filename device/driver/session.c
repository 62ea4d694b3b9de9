/* Sessions: opening, loading, running, results (device/driver/driver.h).
 *
 * A package is resident from a successful load until something fails. Every
 * load begins with a device that has just been reset and configured: there is
 * no partial reset of tiles (facts/driver.md section 5).
 */
#include "device/driver/session.h"

#include "device/driver/call.h"
#include "device/driver/explain.h"
#include "device/driver/hostx.h"
#include "device/driver/load.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "device/ipu21/flags.h"
#include "device/ipu21/topology.h"

#include <string.h>
#include <sys/mman.h>

static struct log *log_of(const struct device_session *session)
{
    return session->options.log;
}

void session_progress(const struct device_session *session, const char *stage, double fraction)
{
    if (session->options.progress)
        session->options.progress(session->options.progress_context, stage, fraction);
}

static double milliseconds_since(uint64_t begin)
{
    return (double)(clock_ns() - begin) / 1e6;
}

/* --- opening --- */

static int map_memory(size_t bytes, uint8_t **out, struct ipu_error *error)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for %zu bytes of host pages",
                             bytes);
    *out = memory;
    return 0;
}

static int allocate_pages(struct device_session *session, struct ipu_error *error)
{
    session->page_bytes = SESSION_COMMAND_PAGE + (size_t)IPU21_TILES * PACKAGE_PAGE_BYTES;
    int code = map_memory(session->page_bytes, &session->pages, error);
    return code == 0 ? map_memory(FRAMES_BUFFER, &session->frames, error) : code;
}

/* Reset and configuration: what every load begins with. */
int session_initialize(struct device_session *session, struct ipu_error *error)
{
    log_event(log_of(session), LOG_LEVEL_INFO, "", "initializing IPU device", "%s", "");
    session->fresh = false;
    int code = boot_reset(&session->card, error);
    if (code == 0)
        code = boot_configure(&session->card, &session->configuration, error);
    if (code != 0)
        return code;
    session->fresh = true;
    log_event(log_of(session), LOG_LEVEL_INFO, "", "IPU device initialized", "%s", "");
    return 0;
}

static int open_card(struct device_session *session, struct ipu_error *error)
{
    const char *device = session->options.device;
    log_event(log_of(session), LOG_LEVEL_INFO, "", "opening IPU device", "path=\"%s\"", device);
    int code = card_open(&session->card, &session->options, error);
    if (code == 0)
        log_event(log_of(session), LOG_LEVEL_INFO, "", "IPU device attached", "path=%s", device);
    return code;
}

int session_open(const struct device_options *options, struct device_session **out,
                 struct ipu_error *error)
{
    struct device_session *session = ipu_calloc(1, sizeof *session);
    *out = NULL;
    if (!session)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for a device session");
    session->options = *options;
    if (!session->options.device)
        session->options.device = "sim";
    int code = boot_configuration(options, &session->configuration, error);
    if (code == 0)
        code = boot_loader_read(options->loader, &session->loader, error);
    if (code == 0)
        code = allocate_pages(session, error);
    if (code == 0)
        code = open_card(session, error);
    if (code != 0) {
        device_close(session);
        return code;
    }
    *out = session;
    return 0;
}

int device_open(const struct device_options *options, struct device_session **out,
                struct ipu_error *error)
{
    int code = session_open(options, out, error);
    if (code != 0)
        return code;
    code = session_initialize(*out, error);
    if (code != 0) {
        device_close(*out);
        *out = NULL;
    }
    return code;
}

static void forget_package(struct device_session *session)
{
    session->ready = session->has_run = false;
    session->package = NULL;
    stream_contents_end(&session->contents);
    stream_store_end(&session->streams);
    stream_outputs_end(&session->outputs);
}

void device_close(struct device_session *session)
{
    if (!session)
        return;
    forget_package(session);
    card_close(&session->card);
    if (session->pages)
        munmap(session->pages, session->page_bytes);
    if (session->frames)
        munmap(session->frames, FRAMES_BUFFER);
    configuration_free(&session->configuration);
    buffer_free(&session->report);
    ipu_free(session);
}

/* --- failing --- */

/* What the device can tell about a stop is worth more than that a mark did not
 * clear. */
static int explain(struct device_session *session, int code, const char *what,
                   struct ipu_error *error)
{
    struct explain_summary summary;
    struct ipu_error plain = error ? *error : (struct ipu_error){.text = "device fault"};
    struct buffer *report = &session->report;
    buffer_printf(report, "%s: %s\n", what, plain.text);
    explain_device(&session->card, session->package, report, &summary);
    kernel_sim_explain(session->card.kernel, report);
    buffer_append_zero(report, 1);
    if (code != IPU_ERR_TIMEOUT || summary.contexts == 0)
        return code;
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "%s; %s", plain.text, summary.first);
}

/* Keeps the long explanation; the device has to be loaded again. */
int session_fail(struct device_session *session, int code, const char *what,
                 struct ipu_error *error)
{
    session->ready = false;
    session->report.size = 0;
    session->report.failed = false;
    if (code == IPU_ERR_DEVICE_FAULT || code == IPU_ERR_TIMEOUT)
        code = explain(session, code, what, error);
    ipu_error_wrap(error, "%s: ", what);
    return code;
}

const char *device_fault_report(const struct device_session *session)
{
    bool written = session->report.size != 0 && !session->report.failed;
    return written ? (const char *)session->report.data : "";
}

/* --- loading --- */

static bool same_package(const struct device_session *session, const struct package *package)
{
    return session->ready && hash_equal(&session->resident, package_digest(package));
}

static int begin_streams(struct device_session *session, const struct package *package,
                         struct ipu_error *error)
{
    int code = stream_contents_begin(&session->contents, package, error);
    return code != 0 ? code : stream_store_begin(&session->streams, package, error);
}

int session_send(struct device_session *session, const struct package *package,
                 struct ipu_error *error)
{
    log_event(log_of(session), LOG_LEVEL_INFO, "", "loading application",
              "tile_count=%d final_mark=%u", IPU21_TILES, package_get_info(package)->final_mark);
    session_progress(session, "load", 0.0);
    session->fresh = false;
    int code = boot_autoload(&session->card, &session->loader, error);
    if (code == 0)
        code =
            load_application(&session->card, package, session->loader.own, session->frames, error);
    return code;
}

int session_synchronise(struct device_session *session, const struct package *package,
                        struct ipu_error *error)
{
    int code = load_synchronise(&session->card, package, error);
    if (code != 0)
        return code;
    session_progress(session, "load", 1.0);
    log_event(log_of(session), LOG_LEVEL_INFO, "",
              "application loaded and initial synchronization completed", "tile_count=%d",
              IPU21_TILES);
    return 0;
}

int session_exchange(struct device_session *session, const struct package *package,
                     struct ipu_error *error)
{
    struct hostx_page pages[] = {
        {session->pages, SESSION_COMMAND_PAGE},
        {session->pages + SESSION_COMMAND_PAGE, IPU21_TILES * PACKAGE_PAGE_BYTES}};
    log_event(log_of(session), LOG_LEVEL_INFO, "", "starting host exchange session",
              "startup_mark=%u", package_get_info(package)->final_mark);
    memset(session->pages, 0, SESSION_COMMAND_PAGE);
    int code = hostx_start(&session->card, pages, sizeof pages / sizeof *pages, error);
    if (code == 0)
        log_event(log_of(session), LOG_LEVEL_INFO, "", "host exchange session started", "%s", "");
    return code;
}

/* Inputs of the new package replace what callers had set; its bytes are already
 * on the device. */
static int reuse(struct device_session *session, const struct package *package,
                 struct ipu_error *error)
{
    forget_package(session);
    session->package = package;
    session->load_ms = session->initialize_ms = 0;
    int code = begin_streams(session, package, error);
    session->ready = code == 0;
    return code;
}

/* Code whose AMP and SLIC numbers are of another set would compute something
 * else without a fault.
 */
int device_check_flags(const struct device_options *options, const struct package *package,
                       struct ipu_error *error)
{
    const char *device = options->device ? options->device : "sim";
    uint32_t set = package_get_info(package)->flag_set, accepted = options->flag_set;
    bool simulated = strcmp(device, "sim") == 0;
    if (simulated)
        accepted = IPU21_FLAG_SET;
    if (set == accepted && set != 0)
        return 0;
    if (simulated)
        return ipu_error_set(error, IPU_ERR_UNSUPPORTED,
                             "the package was compiled with AMP flag set 0x%x of a vendor header, "
                             "and the simulated device runs only this project's set %d: compile it "
                             "without flag_headers",
                             set, IPU21_FLAG_SET);
    if (accepted == 0)
        return ipu_error_set(error, IPU_ERR_UNSUPPORTED,
                             "device %s has no AMP flag numbers: name the include directory of the "
                             "vendor's gc_tile_defines.h as flag_headers and compile again",
                             device);
    return ipu_error_set(error, IPU_ERR_UNSUPPORTED,
                         "the package was compiled with AMP flag set 0x%x, and device %s is "
                         "configured for set 0x%x: compile it with the flag_headers of the device",
                         set, device, accepted);
}

static int load_and_start(struct device_session *session, const struct package *package,
                          struct ipu_error *error)
{
    uint64_t begin = clock_ns();
    int code = session->fresh ? 0 : session_initialize(session, error);
    if (code != 0)
        return session_fail(session, code, "initializing the device", error);
    code = session_send(session, package, error);
    if (code == 0)
        code = session_synchronise(session, package, error);
    if (code != 0)
        return session_fail(session, code, "loading the application", error);
    session->load_ms = milliseconds_since(begin);
    begin = clock_ns();
    code = session_exchange(session, package, error);
    if (code != 0)
        return session_fail(session, code, "starting the host exchange session", error);
    code = call_run(session, PACKAGE_INITIALIZE, error);
    if (code != 0)
        return session_fail(session, code, "initializing the application", error);
    session->initialize_ms = milliseconds_since(begin);
    return 0;
}

int session_load(struct device_session *session, const struct package *package,
                 struct ipu_error *error)
{
    forget_package(session);
    session->package = package;
    session->report.size = 0;
    int code = begin_streams(session, package, error);
    if (code == 0)
        code = load_and_start(session, package, error);
    if (code != 0)
        return code;
    session->resident = *package_digest(package);
    session->ready = true;
    return 0;
}

int device_load(struct device_session *session, const struct package *package,
                struct ipu_error *error)
{
    if (same_package(session, package))
        return reuse(session, package, error);
    int code = device_check_flags(&session->options, package, error);
    return code == 0 ? session_load(session, package, error) : code;
}

int device_set_input(struct device_session *session, const char *name, const void *data,
                     size_t size, struct ipu_error *error)
{
    size_t count;
    if (!session->package)
        return ipu_error_set(error, IPU_ERR_INVALID, "input %s: no package is loaded", name);
    const struct package_tensor *tensors = package_tensors(session->package, &count);
    int index = package_find_tensor(session->package, name);
    if (index < 0 || tensors[index].role != PACKAGE_INPUT)
        return ipu_error_set(error, IPU_ERR_NOT_FOUND, "the package has no input called %s", name);
    if (data && size != tensors[index].bytes)
        return ipu_error_set(error, IPU_ERR_INVALID, "input %s has %llu bytes, not %zu", name,
                             (unsigned long long)tensors[index].bytes, size);
    return stream_contents_set(&session->contents, session->package, (size_t)index, data, error);
}

/* --- running --- */

static uint32_t sample_word(const struct device_session *session,
                            const struct package_samples *samples, size_t i)
{
    uint32_t word;
    memcpy(&word,
           session->streams.data + session->streams.offset[samples->tile] + samples->stream_offset +
               4 * i,
           4);
    return word;
}

/* Cycles of a tile: last sample minus first one, which survives a wrap of the
 * counter. Tiles that do not execute the workload may have samples too; they do
 * not count. */
static void summarize(struct device_session *session, struct device_summary *summary)
{
    size_t count;
    const struct package_samples *lists = package_sample_lists(session->package, &count);
    uint32_t tiles = package_get_info(session->package)->execution_tiles;
    for (size_t i = 0; i < count; i++) {
        summary->samples += lists[i].count;
        if (lists[i].tile >= tiles || lists[i].count == 0)
            continue;
        uint32_t cycles =
            sample_word(session, &lists[i], lists[i].count) - sample_word(session, &lists[i], 0);
        if (cycles > summary->cycles)
            summary->cycles = cycles;
        if (summary->minimum_cycles == 0 || cycles < summary->minimum_cycles)
            summary->minimum_cycles = cycles;
    }
}

int device_run(struct device_session *session, struct device_summary *summary,
               struct ipu_error *error)
{
    *summary = (struct device_summary){.load_ms = session->load_ms,
                                       .initialize_ms = session->initialize_ms};
    if (!session->ready)
        return ipu_error_set(error, IPU_ERR_INVALID, "no package is loaded and ready to run");
    struct kernel *kernel = session->card.kernel;
    uint64_t begin = clock_ns(), bundles = kernel_sim_bundles(kernel);
    session->has_run = false;
    session->report.size = 0;
    int code = call_run(session, PACKAGE_RUN, error);
    if (code != 0)
        return session_fail(session, code, "running the application", error);
    summary->run_ms = milliseconds_since(begin);
    summary->bundles = kernel_sim_bundles(kernel) - bundles;
    code = stream_gather(&session->outputs, session->package, &session->streams, error);
    if (code == IPU_ERR_DEVICE_FAULT)
        return session_fail(session, code, "reading the outputs", error);
    if (code != 0)
        return code;
    summarize(session, summary);
    session->has_run = true;
    return 0;
}

const uint8_t *device_output(const struct device_session *session, const char *name, size_t *size)
{
    size_t count;
    *size = 0;
    if (!session->has_run)
        return NULL;
    const struct package_tensor *tensors = package_tensors(session->package, &count);
    int index = package_find_tensor(session->package, name);
    if (index < 0 || !session->outputs.data[index])
        return NULL;
    *size = tensors[index].bytes;
    return session->outputs.data[index];
}

const uint32_t *device_samples(const struct device_session *session, unsigned tile, size_t *words)
{
    size_t count;
    *words = 0;
    if (!session->has_run)
        return NULL;
    const struct package_samples *lists = package_sample_lists(session->package, &count);
    for (size_t i = 0; i < count; i++)
        if (lists[i].tile == tile) {
            *words = lists[i].count + 1;
            return (const uint32_t *)(const void *)(session->streams.data +
                                                    session->streams.offset[tile] +
                                                    lists[i].stream_offset);
        }
    return NULL;
}
