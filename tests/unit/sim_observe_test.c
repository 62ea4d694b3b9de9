/* module: device/sim */
/* Observers: what is reported, in which order and cycle, watches, stops, and that observing changes
 * neither results nor cycles. */
#include "device/sim/observe.h"
#include "sim_chip_support.h"

#include "device/asm/asm.h"

#include <stdio.h>

enum { BASE = 0x4c010, WATCHED = 0x58104, MAX_LINES = 400 };

static const char program[] = "    .section .text.start, \"ax\"\n"
                              "    .supervisor\n"
                              "    .globl start\n"
                              "start:\n"
                              "    nop\n"
                              "    setzi $m0, worker\n"
                              "    runall $m0, $mzero, 0\n"
                              "    sync 2\n"
                              "    setzi $m1, 0x58100\n"
                              "    setzi $m2, 77\n"
                              "    st32 $m2, $m1, $mzero, 1\n"
                              "wait:\n"
                              "    sync 7\n"
                              "    bri wait\n"
                              "    .worker\n"
                              "    .align 8\n"
                              "worker:\n"
                              "    get $m0, $WSR\n"
                              "    and $m0, $m0, 7\n"
                              "    setzi $m1, 0x58200\n"
                              "    shl $m2, $m0, 2\n"
                              "    add $m1, $m1, $m2\n"
                              "    .align 8\n"
                              "    {\n"
                              "        rpt 3, 0\n"
                              "        fnop\n"
                              "    }\n"
                              "    {\n"
                              "        st32step $m0, $mzero, $m1+=, 6\n"
                              "        setzi $a2, 9\n"
                              "    }\n"
                              "    exitz $mzero\n";

/* What an observer has seen, as text. */
struct seen {
    char lines[MAX_LINES][96];
    unsigned count, changes, stops;
    struct sim_change change;
};
static struct seen seen;
static struct sim_chip *chip;
static struct sim_observer observer;

static void note_issue(void *context, const struct sim_issue *issue)
{
    struct seen *s = context;
    char text[64], value[24] = "";
    asm_disassemble(issue->pc, issue->word, issue->next, text, sizeof text);
    if (issue->count != 0)
        snprintf(value, sizeof value, " %c%u=%u", issue->changes[0].file, issue->changes[0].number,
                 issue->changes[0].value);
    ck_assert_uint_lt(s->count, MAX_LINES);
    snprintf(s->lines[s->count++], sizeof s->lines[0], "%u:%u %llu %.40s%s", issue->tile,
             issue->context, (unsigned long long)issue->cycle, text, value);
}

static void note_change(void *context, const struct sim_change *change)
{
    struct seen *s = context;
    s->change = *change;
    s->changes++;
}

static void note_stop(void *context, struct sim_chip *stopped)
{
    struct seen *s = context;
    ck_assert_ptr_eq(stopped, chip);
    s->stops++;
}

static void load_program(void)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    struct asm_options options = {0};
    struct asm_image image = {0};
    ck_assert_msg(asm_assemble("observe.S", program, strlen(program), &options, &object, &error) ==
                      0,
                  "%s", error.text);
    struct asm_object part = {object.data, object.size, "observe"};
    struct asm_link_options link = {.base = BASE};
    ck_assert_msg(asm_link(&part, 1, &link, &image, &error) == 0, "%s", error.text);
    for (unsigned t = 0; t < IPU21_TILES; t++)
        ck_assert(sim_chip_write(chip, t, BASE, image.bytes.data, (uint32_t)image.bytes.size));
    asm_image_free(&image);
    buffer_free(&object);
}

static void setup(void)
{
    seen = (struct seen){0};
    observer = (struct sim_observer){.contexts = 0x7f,
                                     .issued = note_issue,
                                     .changed = note_change,
                                     .stopped = note_stop,
                                     .context = &seen};
    chip = new_chip(2, true);
    load_program();
}

static void teardown(void)
{
    sim_chip_destroy(chip);
}

static enum sim_chip_state run_observed(void)
{
    sim_chip_observe(chip, &observer);
    sim_chip_start(chip, ENTRY);
    return sim_chip_run(chip, FAR_LIMIT, NULL);
}

/* The number in front of which `mark` stands for the first time: "TILE:CONTEXT CYCLE ...". */
static unsigned long long number_after(const char *line, char mark)
{
    const char *at = strchr(line, mark);
    ck_assert_ptr_nonnull(at);
    char *end;
    unsigned long long number = strtoull(at + 1, &end, 10);
    ck_assert_msg(end > at + 1, "no number after '%c' in \"%s\"", mark, line);
    return number;
}

static unsigned long long cycle_of(const char *line)
{
    return number_after(line, ' ');
}

static unsigned lines_of(unsigned context)
{
    unsigned count = 0;
    for (unsigned i = 0; i < seen.count; i++)
        count += number_after(seen.lines[i], ':') == context;
    return count;
}

static const char *line_of(unsigned context, unsigned index)
{
    for (unsigned i = 0; i < seen.count; i++)
        if (number_after(seen.lines[i], ':') == context && index-- == 0)
            return seen.lines[i];
    return "";
}

START_TEST(each_instruction_of_the_supervisor_is_reported_with_its_cycle)
{
    static const char *const wanted[] = {"5:0 0 setzi $m0, 0x4c0",
                                         "5:0 6 runall $m0, $m15, 0x0",
                                         "sync 2",
                                         "setzi $m1, 0x58100 m1=360704",
                                         "setzi $m2, 0x4d m2=77",
                                         "st32 $m2",
                                         "sync 7"};
    observer.tiles[5] = true;
    ck_assert_int_eq(run_observed(), SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(lines_of(0), 7);
    for (unsigned i = 0; i < 7; i++)
        ck_assert_msg(strstr(line_of(0, i), wanted[i]) != NULL, "line %u is \"%s\", not \"%s\"", i,
                      line_of(0, i), wanted[i]);
}
END_TEST

/* Every trip of a repeat shows, six cycles apart. */
START_TEST(each_bundle_of_each_worker_is_reported_six_cycles_apart)
{
    observer.tiles[5] = true;
    run_observed();
    for (unsigned w = 1; w <= 6; w++) {
        unsigned lines = lines_of(w);
        ck_assert_uint_ge(lines, 10); /* with or without a nop for alignment */
        ck_assert_uint_le(lines, 11);
        unsigned long long first = cycle_of(line_of(w, 0));
        for (unsigned i = 1; i < lines; i++) {
            ck_assert_uint_eq(cycle_of(line_of(w, i)), first + 6);
            first += 6;
        }
        ck_assert_ptr_nonnull(strstr(line_of(w, lines - 1), "exitz"));
        ck_assert_ptr_nonnull(strstr(line_of(w, lines - 2), "st32step"));
        ck_assert_ptr_nonnull(strstr(line_of(w, lines - 4), "st32step"));
    }
}
END_TEST

START_TEST(only_the_chosen_contexts_and_tiles_are_reported)
{
    observer.tiles[7] = observer.tiles[1471] = true;
    observer.contexts = 1u << 3;
    run_observed();
    ck_assert_uint_ge(seen.count, 16);
    for (unsigned i = 0; i < seen.count; i++)
        ck_assert_msg(strncmp(seen.lines[i], "7:3 ", 4) == 0 ||
                          strncmp(seen.lines[i], "1471:3 ", 7) == 0,
                      "%s", seen.lines[i]);
}
END_TEST

START_TEST(a_watched_word_tells_who_changed_it)
{
    observer.tiles[5] = true;
    observer.watch[observer.watch_count++] = 0x58000;
    observer.watch[observer.watch_count++] = WATCHED;
    run_observed();
    ck_assert_uint_eq(seen.changes, 1);
    ck_assert_uint_eq(seen.change.tile, 5);
    ck_assert_uint_eq(seen.change.address, WATCHED);
    ck_assert_uint_eq(seen.change.before, 0);
    ck_assert_uint_eq(seen.change.after, 77);
    ck_assert_uint_eq(seen.change.context, 0);
    ck_assert_uint_eq(seen.change.pc, ENTRY + 20);
}
END_TEST

START_TEST(words_from_the_exchange_are_changes_by_the_fabric)
{
    struct code sender = {0}, receiver = {0};
    put_chip_word(chip, 0, 0x80000, 7);
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        struct code idle = {0};
        emit(&idle, ipu21_sans(0));
        emit(&idle, ipu21_sync(IPU21_ZONE_ANS));
        emit_end(&idle);
        load_code(chip, t, &idle);
    }
    emit(&sender, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_send_row(&sender, 0, 1286, 1, 0x80000);
    emit_end(&sender);
    load_code(chip, 0, &sender);
    emit(&receiver, ipu21_sync(IPU21_ZONE_INTERNAL));
    sim_chip_declare_row(chip, 1286, here(&receiver), 16, 1);
    emit_receive_row(&receiver, 0, 1286, 1, 0xc0000);
    emit_load(&receiver, 0, 0xc0000);
    emit_end(&receiver);
    load_code(chip, 1286, &receiver);
    observer.tiles[1286] = true;
    observer.watch[observer.watch_count++] = 0xc0000;
    ck_assert_msg(run_observed() == SIM_CHIP_WAITS_FOR_HOST, "%s", sim_chip_fault(chip)->text);
    ck_assert_uint_eq(seen.changes, 1);
    ck_assert_uint_eq(seen.change.after, 7);
    ck_assert_uint_eq(seen.change.context, SIM_CHANGE_FABRIC);
}
END_TEST

START_TEST(the_chip_stops_at_the_cycle_and_can_go_on)
{
    observer.tiles[5] = true;
    observer.stop_at = 20;
    ck_assert_int_eq(run_observed(), SIM_CHIP_CANCELLED);
    ck_assert_uint_eq(seen.stops, 1);
    for (unsigned i = 0; i < seen.count; i++)
        ck_assert_uint_lt(cycle_of(seen.lines[i]), 20);
    ck_assert_uint_eq(chip_word(chip, 9, WATCHED), 0);
    sim_chip_observe(chip, NULL);
    ck_assert_int_eq(sim_chip_run(chip, FAR_LIMIT, NULL), SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_uint_eq(chip_word(chip, 5, WATCHED), 77);
    ck_assert_uint_eq(chip_word(chip, 9, WATCHED), 77);
}
END_TEST

START_TEST(observing_changes_neither_results_nor_cycles)
{
    static uint8_t plain[IPU21_SRAM_BYTES], watched[IPU21_SRAM_BYTES];
    sim_chip_start(chip, ENTRY);
    ck_assert_int_eq(sim_chip_run(chip, FAR_LIMIT, NULL), SIM_CHIP_WAITS_FOR_HOST);
    uint64_t cycle = sim_tile_cycle(sim_chip_tile(chip, 5));
    uint64_t bundles = sim_chip_bundles(chip);
    ck_assert(sim_chip_read(chip, 5, IPU21_SRAM_BASE, plain, sizeof plain));
    teardown();
    setup();
    observer.tiles[5] = true;
    run_observed();
    ck_assert(sim_chip_read(chip, 5, IPU21_SRAM_BASE, watched, sizeof watched));
    ck_assert_uint_eq(sim_tile_cycle(sim_chip_tile(chip, 5)), cycle);
    ck_assert_uint_eq(sim_chip_bundles(chip), bundles);
    ck_assert_mem_eq(plain, watched, sizeof plain);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_observe");
    TCase *tc = tcase_create("observe");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, each_instruction_of_the_supervisor_is_reported_with_its_cycle);
    tcase_add_test(tc, each_bundle_of_each_worker_is_reported_six_cycles_apart);
    tcase_add_test(tc, only_the_chosen_contexts_and_tiles_are_reported);
    tcase_add_test(tc, a_watched_word_tells_who_changed_it);
    tcase_add_test(tc, words_from_the_exchange_are_changes_by_the_fabric);
    tcase_add_test(tc, the_chip_stops_at_the_cycle_and_can_go_on);
    tcase_add_test(tc, observing_changes_neither_results_nor_cycles);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
