/* module: device/driver */
/* Delays of the host before its acknowledgements change neither results nor cycles: the protocol
 * has to bear any (facts/host_protocol.md section 8). */
#include "device/driver/driver.h"

#include "driver_package.h"

#include <stdio.h>

static struct package *package;

static struct package *read_built(void)
{
    struct buffer file = build(FINE);
    struct package *read = NULL;
    ck_assert_msg(package_read(file.data, file.size, &read, &error) == 0, "%s", error.text);
    buffer_free(&file);
    return read;
}

static void setup(void)
{
    fill_inputs();
    package = read_built();
}

static void teardown(void)
{
    package_destroy(package);
}

/* Cycles of the second of two runs; the outputs of both are checked. */
static uint64_t run_with(uint32_t jitter_us, uint64_t seed)
{
    struct device_options options = {
        .device = "sim", .threads = 1, .strict = true, .jitter_us = jitter_us, .jitter_seed = seed};
    struct device_session *session = NULL;
    struct device_summary summary = {0};
    size_t size;
    ck_assert_msg(device_open(&options, &session, &error) == 0, "%s", error.text);
    ck_assert_msg(device_load(session, package, &error) == 0, "seed %d: %s\n%s", (int)seed,
                  error.text, device_fault_report(session));
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(device_run(session, &summary, &error) == 0, "seed %d: %s\n%s", (int)seed,
                      error.text, device_fault_report(session));
        const uint8_t *bytes = device_output(session, "y", &size);
        expect_y(bytes, size, x);
    }
    device_close(session);
    return summary.cycles;
}

START_TEST(delays_change_neither_results_nor_cycles)
{
    static const uint32_t longest[] = {1, 20, 300, 5000};
    const char *level = getenv("IPUD_TEST_LEVEL");
    uint64_t seeds = level && strcmp(level, "long") == 0 ? 200 : 4, cycles = run_with(0, 0);
    for (uint64_t seed = 0; seed < seeds; seed++)
        ck_assert_uint_eq(run_with(longest[_i], 4 * seed + (uint64_t)_i), cycles);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_jitter");
    TCase *t = tcase_create("jitter");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, delays_change_neither_results_nor_cycles, 0, 4);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
