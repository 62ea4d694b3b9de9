/* module: device/driver */
/* Looking at tiles through the debug interface, and the reports that are made of it. */
#include "device/driver/tdi.h"

#include "device/driver/explain.h"
#include "device/driver/session.h"

#include "driver_package.h"

#include <stdio.h>

static struct device_session *session;
static struct package *package;
static struct card *card;

static void setup(void)
{
    struct device_options options = {.device = "sim", .threads = 1, .timeout_ms = 200};
    fill_inputs();
    package = NULL;
    error = (struct ipu_error){0};
    ck_assert_int_eq(device_open(&options, &session, &error), 0);
    card = &session->card;
}

static void teardown(void)
{
    device_close(session);
    package_destroy(package);
}

static void load(struct buffer file)
{
    ck_assert_msg(package_read(file.data, file.size, &package, &error) == 0, "%s", error.text);
    buffer_free(&file);
    ck_assert_msg(device_load(session, package, &error) == 0, "%s", error.text);
}

/* --- debug interface --- */

START_TEST(memory_is_read_through_an_idle_worker_without_a_trace)
{
    uint32_t words[40], registers[2][TDI_REGISTERS];
    load(build(FINE));
    ck_assert_int_eq(tdi_read_registers(card, SECOND, 1, registers[0], &error), 0);
    ck_assert_int_eq(tdi_read_memory(card, SECOND, TDI_ANY_CONTEXT, PACKETS, words, 40, &error), 0);
    ck_assert_int_eq(tdi_read_registers(card, SECOND, 1, registers[1], &error), 0);
    ck_assert_mem_eq(registers[0], registers[1], sizeof registers[0]);
    size_t count;
    const struct package_segment *s = package_segments(package, &count);
    while (s->tile != SECOND || s->address != PACKETS)
        s++;
    ck_assert_mem_eq(words, s->data, sizeof words);
}
END_TEST

START_TEST(program_goes_on_after_it_was_looked_at)
{
    uint32_t word;
    struct device_summary before, after;
    load(build(FINE));
    ck_assert_int_eq(device_run(session, &before, &error), 0);
    for (unsigned tile = 0; tile < 200; tile++)
        ck_assert_int_eq(tdi_read_memory(card, tile, TDI_ANY_CONTEXT, 0x4c014, &word, 1, &error),
                         0);
    ck_assert_int_eq(device_run(session, &after, &error), 0);
    size_t size;
    const uint8_t *bytes = device_output(session, "y", &size);
    expect_y(bytes, size, x);
    ck_assert_uint_eq(before.cycles, after.cycles);
}
END_TEST

START_TEST(running_context_stops_and_goes_on)
{
    struct device_summary summary;
    uint32_t pc, again;
    load(build(LOOPS));
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_TIMEOUT);
    struct tdi_status status = tdi_status_read(card, SECOND);
    ck_assert_uint_eq(status.contexts[0], IPU21_HOST_CONTEXT_ACTIVE);
    ck_assert_msg(tdi_stop(card, SECOND, 0, &error) == 0, "%s", error.text);
    status = tdi_status_read(card, SECOND);
    ck_assert_uint_eq(status.contexts[0], IPU21_HOST_CONTEXT_DEBUG);
    ck_assert_int_eq(tdi_read_csr(card, SECOND, 0, IPU21_HOST_CSR_PC, &pc, &error), 0);
    ck_assert_uint_ge(pc, 0x4c014);
    ck_assert_int_eq(tdi_resume(card, SECOND, 0, &error), 0);
    ck_assert_int_eq(tdi_stop(card, SECOND, 0, &error), 0);
    ck_assert_int_eq(tdi_read_csr(card, SECOND, 0, IPU21_HOST_CSR_PC, &again, &error), 0);
    ck_assert_uint_eq(pc, again); /* a loop of one instruction */
}
END_TEST

START_TEST(context_that_waits_stops_and_goes_on)
{
    struct device_summary summary;
    load(build(FINE));
    ck_assert_int_eq(tdi_stop(card, SECOND, 0, &error), 0);
    ck_assert_int_eq(tdi_resume(card, SECOND, 0, &error), 0);
    ck_assert_int_eq(device_run(session, &summary, &error), 0);
}
END_TEST

START_TEST(context_that_is_idle_cannot_be_stopped)
{
    struct device_summary summary;
    load(build(FINE));
    ck_assert_int_eq(tdi_stop(card, SECOND, 3, &error), IPU_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.text, "tile 100, context 3: not stopped after 100 ms") != NULL, "%s",
                  error.text);
    ck_assert_int_eq(device_run(session, &summary, &error), 0); /* the run-break is off again */
}
END_TEST

START_TEST(context_that_runs_executes_nothing)
{
    struct device_summary summary;
    load(build(LOOPS));
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_TIMEOUT);
    ck_assert_int_eq(tdi_execute(card, SECOND, 0, IPU21_HOST_INJECT_GET(0, 0), &error),
                     IPU_ERR_DEVICE_FAULT);
    ck_assert_msg(strstr(error.text, "context 0 did not execute 0x41000000") != NULL, "%s",
                  error.text);
}
END_TEST

/* --- reports --- */

/* Every tile stops on a trap as soon as the session starts; those below `limit` at other places. */
static struct buffer build_traps(unsigned limit)
{
    static const struct package_info info = {.compiler = "test",
                                             .workload = "traps",
                                             .flag_set = 1,
                                             .clock_hz = 1500000000,
                                             .execution_tiles = 64,
                                             .final_mark = 23,
                                             .entry = ENTRY};
    struct package *p = package_create();
    struct buffer file = {0};
    package_set_info(p, &info);
    for (unsigned tile = 0; tile < IPU21_TILES; tile++) {
        static struct code code;
        code.count = 0;
        emit(&code, ipu21_delay(1));
        emit(&code, ipu21_sync(IPU21_ZONE_INTERNAL));
        emit(&code, ipu21_sync(IPU21_ZONE_HOST));
        for (unsigned i = tile; i < limit; i++)
            emit(&code, ipu21_delay(1));
        emit(&code, ipu21_trap(1));
        int blob = package_add_blob(p, code.words, 4 * code.count);
        package_add_segment(p, tile, ENTRY - 4, blob, 0, 4 * code.count);
    }
    package_add_symbol(p, "everywhere", ENTRY, 0x1000);
    ck_assert_int_eq(package_write(p, &file, &error), 0);
    package_destroy(p);
    return file;
}

static const char *report_of(unsigned limit)
{
    struct buffer file = build_traps(limit);
    ck_assert_int_eq(package_read(file.data, file.size, &package, &error), 0);
    buffer_free(&file);
    ck_assert_int_eq(device_load(session, package, &error), IPU_ERR_DEVICE_FAULT);
    return device_fault_report(session);
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

START_TEST(contexts_that_stopped_alike_share_a_paragraph)
{
    const char *report = report_of(0);
    ck_assert_msg(strstr(report, "1472 contexts of 1472 tiles stopped by an exception") != NULL,
                  "%s", report);
    ck_assert_uint_eq(count_of(report, "exception 3 (PBRK1)"), 1);
    ck_assert(strstr(report, "pc 0x4c01c in everywhere+0x8\n") != NULL);
    ck_assert(strstr(report, "and likewise: tile 1 supervisor, tile 2 supervisor") != NULL);
    ck_assert(strstr(report, " and 1455 more\n") != NULL);
    ck_assert_uint_lt(strlen(report), 4000);
}
END_TEST

START_TEST(report_of_many_places_is_bounded)
{
    const char *report = report_of(100);
    ck_assert_uint_eq(count_of(report, "exception 3 (PBRK1)"), 64);
    ck_assert_uint_eq(count_of(report, "$m15="), 8);
    ck_assert_msg(strstr(report, " contexts that stopped elsewhere\n") != NULL, "%s", report);
    ck_assert_uint_lt(strlen(report), 16000);
}
END_TEST

START_TEST(instructions_around_the_pc_are_shown)
{
    const char *report = report_of(3);
    ck_assert_msg(strstr(report, "  -> 0x4c028  trap") != NULL, "%s", report);
    ck_assert(strstr(report, "     0x4c018  sync 7\n") != NULL);
    ck_assert(strstr(report, "     0x4c024  delay") != NULL);
}
END_TEST

START_TEST(symbols_are_the_innermost)
{
    char text[64];
    struct package *p = package_create();
    package_add_symbol(p, "all", 0x4c000, 0x1000);
    package_add_symbol(p, "inner", 0x4c100, 0x10);
    explain_symbol(p, 0x4c104, text, sizeof text);
    ck_assert_str_eq(text, "inner+0x4");
    explain_symbol(p, 0x4c110, text, sizeof text);
    ck_assert_str_eq(text, "all+0x110");
    explain_symbol(p, 0x4d000, text, sizeof text);
    ck_assert_str_eq(text, "");
    explain_symbol(NULL, 0x4c104, text, sizeof text);
    ck_assert_str_eq(text, "");
    package_destroy(p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_tdi");
    TCase *t = tcase_create("tdi");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, memory_is_read_through_an_idle_worker_without_a_trace);
    tcase_add_test(t, program_goes_on_after_it_was_looked_at);
    tcase_add_test(t, running_context_stops_and_goes_on);
    tcase_add_test(t, context_that_waits_stops_and_goes_on);
    tcase_add_test(t, context_that_is_idle_cannot_be_stopped);
    tcase_add_test(t, context_that_runs_executes_nothing);
    tcase_add_test(t, contexts_that_stopped_alike_share_a_paragraph);
    tcase_add_test(t, report_of_many_places_is_bounded);
    tcase_add_test(t, instructions_around_the_pc_are_shown);
    tcase_add_test(t, symbols_are_the_innermost);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
