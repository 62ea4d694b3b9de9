/* The production engine: the compiler and the device driver behind the table of engine.h.
 *
 * Invariant: a loaded package outlives the session's use of it: it is destroyed after the next load
 * or with the session. Numbers for result lines are counted from the package itself, never from the
 * compiler's memory: what the nests of its calls transfer, replicas included.
 */
#include "daemon/engine.h"

#include "base/alloc.h"
#include "device/driver/profile.h"
#include "device/package/package.h"

#include <string.h>

struct session {
    struct device_session *device;
    struct package *package;
    struct log *log;
    struct device_summary summary; /* of the last run */
};

static uint64_t element_bytes(enum package_type type)
{
    return type == PACKAGE_F16 ? 2 : 4;
}

static uint64_t nest_bytes(const struct package_nest *nest, const struct package_tensor *tensor)
{
    uint64_t n = element_bytes(tensor->type);
    for (unsigned i = 0; i < nest->dims; i++)
        n *= nest->dim[i].count;
    return n;
}

/* Bytes that a call sends for tensors of a role. */
static uint64_t sent_bytes(const struct package *package, enum package_call call,
                           enum package_role role)
{
    size_t nests, tensors;
    uint64_t bytes = 0;
    const struct package_nest *nest = package_nests(package, call, &nests);
    const struct package_tensor *tensor = package_tensors(package, &tensors);
    for (size_t i = 0; i < nests; i++)
        if (nest[i].tensor < tensors && tensor[nest[i].tensor].role == role)
            bytes += nest_bytes(&nest[i], &tensor[nest[i].tensor]);
    return bytes;
}

/* Distinct tiles that hold the first output; nests are sorted by tile. */
static uint32_t output_tiles(const struct package *package)
{
    size_t nests, tensors, first = 0;
    const struct package_nest *nest = package_nests(package, PACKAGE_RUN, &nests);
    const struct package_tensor *tensor = package_tensors(package, &tensors);
    while (first < tensors && tensor[first].role != PACKAGE_OUTPUT)
        first++;
    uint32_t tiles = 0;
    int last = -1;
    for (size_t i = 0; i < nests; i++)
        if (nest[i].tensor == first && nest[i].tile != last) {
            tiles++;
            last = nest[i].tile;
        }
    return tiles;
}

/* Tiles that the package loads. */
static uint32_t loaded_tiles(const struct package *package)
{
    size_t count;
    const struct package_segment *segment = package_segments(package, &count);
    uint32_t tiles = 0;
    for (size_t i = 0; i < count; i++)
        tiles += i == 0 || segment[i].tile != segment[i - 1].tile;
    return tiles;
}

/* Tiles with a record in the profile. */
static uint32_t sampled_tiles(const struct package *package)
{
    size_t count;
    const struct package_samples *list = package_sample_lists(package, &count);
    uint32_t tiles = 0;
    for (size_t i = 0; i < count; i++)
        tiles += list[i].count != 0;
    return tiles;
}

static int open_device(const struct device_options *options, void **out, struct ipu_error *error)
{
    struct session *session = ipu_calloc(1, sizeof *session);
    if (!session)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory");
    session->log = options->log;
    int rc = device_open(options, &session->device, error);
    if (rc)
        ipu_free(session);
    else
        *out = session;
    return rc;
}

static void close_device(void *context)
{
    struct session *session = context;
    device_close(session->device);
    package_destroy(session->package);
    ipu_free(session);
}

static int load(void *context, const void *bytes, size_t size, struct engine_package *info,
                struct ipu_error *error)
{
    struct session *session = context;
    struct package *package;
    log_event(session->log, LOG_LEVEL_INFO, "", "reading application package", "bytes=%zu", size);
    int rc = package_read(bytes, size, &package, error);
    if (rc)
        return rc;
    log_event(session->log, LOG_LEVEL_INFO, "", "application package read", "tiles=%u compiler=%s",
              loaded_tiles(package), package_get_info(package)->compiler);
    rc = device_load(session->device, package, error);
    package_destroy(session->package);
    session->package = package;
    *info = (struct engine_package){
        .estimated_cycles = package_get_info(package)->estimated_cycles,
        .input_bytes = sent_bytes(package, PACKAGE_RUN, PACKAGE_INPUT),
        .weight_bytes = sent_bytes(package, PACKAGE_INITIALIZE, PACKAGE_PARAMETER),
        .tiles = loaded_tiles(package),
        .active_tiles = output_tiles(package),
        .sampled_tiles = sampled_tiles(package),
    };
    return rc;
}

static int run(void *context, struct device_summary *summary, struct ipu_error *error)
{
    struct session *session = context;
    int rc = device_run(session->device, &session->summary, error);
    *summary = session->summary;
    return rc;
}

static bool output(void *context, size_t index, struct engine_output *out)
{
    struct session *session = context;
    size_t count, seen = 0;
    const struct package_tensor *tensor = package_tensors(session->package, &count);
    for (size_t i = 0; i < count; i++) {
        if (tensor[i].role != PACKAGE_OUTPUT || seen++ != index)
            continue;
        *out = (struct engine_output){.name = tensor[i].name,
                                      .type = tensor[i].type, /* numbered as ElementType */
                                      .rank = tensor[i].rank};
        memcpy(out->shape, tensor[i].shape, sizeof out->shape);
        out->data = device_output(session->device, tensor[i].name, &out->size);
        return out->data != NULL;
    }
    return false;
}

static int profile(void *context, struct buffer *out, struct ipu_error *error)
{
    struct session *session = context;
    return profile_build(session->device, session->package, &session->summary, out, error);
}

static const char *fault(void *context)
{
    struct session *session = context;
    return device_fault_report(session->device);
}

const struct engine engine_production = {
    .name = "ipu21",
    .keys = compile_keys_for,
    .compile = compile_workload,
    .compile_free = compile_result_free,
    .check = compile_check_outputs,
    .result_line = compile_result_line,
    .device_open = open_device,
    .device_close = close_device,
    .device_load = load,
    .device_run = run,
    .device_output = output,
    .device_profile = profile,
    .device_fault = fault,
    .device_selftest = device_selftest,
};
