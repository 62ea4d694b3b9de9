/* For end-to-end tests: compiles a workload, runs the package on the simulated device, checks the
 * outputs with the reference. */
#ifndef IPU_TESTS_E2E_H
#define IPU_TESTS_E2E_H

#include "compiler/compile.h"
#include "device/driver/driver.h"
#include "proto/build.h"

struct e2e {
    struct buffer workload;
    struct compile_result compiled;
    struct package *package;
    struct device_session *session;
    struct device_summary summary;
    struct compile_check check;
    struct ipu_error error;
};

struct e2e_options {
    unsigned threads;
    const struct buffer *state; /* search state to resume */
    struct log *log;
    bool lenient; /* strict mode off */
};

/* Runs all stages on e->workload; returns the first error code (e->error has the sentence) or 0
 * with e->check filled. */
static inline int e2e_run(struct e2e *e, const struct e2e_options *o)
{
    struct compile_options options = {.threads = o->threads, .log = o->log};
    if (o->state) {
        options.search_state = o->state->data;
        options.search_state_size = o->state->size;
    }
    int rc =
        compile_workload(e->workload.data, e->workload.size, &options, &e->compiled, &e->error);
    if (rc == 0)
        rc = package_read(e->compiled.package.data, e->compiled.package.size, &e->package,
                          &e->error);
    struct device_options device = {
        .device = "sim", .threads = o->threads, .strict = !o->lenient, .log = o->log};
    if (rc == 0)
        rc = device_open(&device, &e->session, &e->error);
    if (rc == 0)
        rc = device_load(e->session, e->package, &e->error);
    if (rc == 0)
        rc = device_run(e->session, &e->summary, &e->error);
    if (rc < 0)
        return rc;
    size_t tensors, count = 0;
    const struct package_tensor *t = package_tensors(e->package, &tensors);
    struct compile_output outputs[64];
    for (size_t i = 0; i < tensors && count < 64; i++) {
        if (t[i].role != PACKAGE_OUTPUT)
            continue;
        outputs[count].name = t[i].name;
        outputs[count].data = device_output(e->session, t[i].name, &outputs[count].size);
        count++;
    }
    return compile_check_outputs(e->workload.data, e->workload.size, outputs, count, 2, o->log,
                                 &e->check, &e->error);
}

static inline void e2e_free(struct e2e *e)
{
    device_close(e->session);
    package_destroy(e->package);
    compile_result_free(&e->compiled);
    buffer_free(&e->workload);
    *e = (struct e2e){0};
}

#endif
