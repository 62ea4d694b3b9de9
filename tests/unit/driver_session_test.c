/* module: device/driver */
/* The driver against a package made by hand: two tiles read their inputs from pages, transform them
 * and write them back, by the protocol of device/driver/call.h. Everything a session promises. */
#include "device/driver/driver.h"
#include "device/driver/profile.h"
#include "proto/profile.pb-c.h"

#include "sim_chip_support.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>

enum {
    FIRST = 0,    /* physical 0: its own column's owner */
    SECOND = 100, /* physical 260 */
    WORDS = 1500, /* of x for each tile: two batches */
    BATCHES = 2,
    STAGE = 0x50200,
    WEIGHT = 0x50000 + 0x3000,
    STORE = 0x80000, /* received stream */
    PACKETS = 0x90000,
    SAMPLE_AT = 8000 /* byte of the output stream */
};

/* --- tile programs --- */

/* Headers of a page's eight reads of 512 bytes, or sixteen writes of 256 bytes with closes. */
struct image {
    struct code code;
    uint32_t packets[512];
    unsigned packet_count;
};

static uint32_t add_packet(struct image *image, uint32_t first, uint32_t second)
{
    image->packets[image->packet_count] = first;
    image->packets[image->packet_count + 1] = second;
    image->packet_count += 2;
    return PACKETS + 4 * (image->packet_count - 2);
}

static uint32_t page_offset(unsigned tile)
{
    return 4096 + 4096 * tile;
}

static void emit_copy(struct code *code, uint32_t from, uint32_t to, uint32_t words)
{
    emit(code, ipu21_setzi(2, words - 1));
    emit(code, ipu21_setzi(1, from));
    emit(code, ipu21_setzi(3, to));
    uint32_t loop = here(code);
    emit(code, 0x01000000u | 1u << 20 | 0u << 16 | (uint32_t)ZERO << 12);
    emit(code, 0x4f000000u | 3u << 20 | 0u << 16 | (uint32_t)ZERO << 12);
    emit(code, ipu21_add(1, 1, 4));
    emit(code, ipu21_add(3, 3, 4));
    emit(code, ipu21_brnzdec(2, loop));
}

static void emit_grant(struct image *image, unsigned owner)
{
    /* Both tiles lie in different columns, so a grant names one tile. */
    unsigned target = owner == FIRST ? FIRST : SECOND;
    uint32_t id = ipu21_physical(target), k = 2 * (id / 64) + ((id >> 1) & 1);
    uint32_t at = add_packet(image, k < 24 ? 1u << k : 0, k < 24 ? 0 : 1u << (k - 24));
    emit(&image->code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
}

static void emit_input(struct image *image, unsigned tile, bool owner, bool target)
{
    struct code *code = &image->code;
    emit_host_enter(code, tile, owner ? IPU21_ZONE_HOST_MASTER : IPU21_ZONE_HOST);
    if (owner)
        emit_grant(image, tile);
    if (target) {
        uint32_t first = 0;
        for (unsigned i = 0; i < 4; i++) {
            uint32_t word = 0xe0000200u | id_bits(tile) | (STAGE + 1024 * i - 0x50000) >> 5;
            uint32_t at = add_packet(image, word | (i == 3 ? 0x0c000000u : 0),
                                     packet_place(tile, page_offset(tile) + 1024 * i, 1024, true));
            first = i == 0 ? at : first;
        }
        emit_read(code, first, 4, 4096);
    }
    emit_host_leave(code);
}

static void emit_output(struct image *image, unsigned tile, bool owner, bool target, bool first,
                        uint32_t from)
{
    struct code *code = &image->code;
    uint32_t host = owner ? IPU21_ZONE_HOST_MASTER : IPU21_ZONE_HOST;
    emit_host_enter(code, tile, first ? IPU21_ZONE_INTERNAL : host);
    if (owner)
        emit_grant(image, tile);
    if (target) {
        emit_set(code, IPU21_CSR_INCOMING_DCOUNT, 1);
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t at = add_packet(image, 0xa0000000u | id_bits(tile),
                                     packet_place(tile, page_offset(tile) + 256 * i, 256, true));
            emit(code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
            emit(code, ipu21_send(64, (from + 256 * i) / 4, IPU21_SEND_BOTH));
        }
        uint32_t at = add_packet(image, 0xcc00020cu | id_bits(tile), id_bits(tile) >> 15 << 31);
        emit(code, ipu21_send(2, at / 4, IPU21_SEND_BOTH));
        emit(code, ipu21_sync(IPU21_ZONE_RECEIVE));
    }
    emit_host_leave(code);
}

static void emit_sample(struct code *code, uint32_t address)
{
    emit(code, 0x41000000u | 0u << 16 | 0x60); /* m0 = SCOUNT_L */
    emit_store(code, 0, address);
}

/* m4 = m4 + m5 */
static void emit_sum(struct code *code)
{
    struct isa_inst inst = {.form = ISA_ADD_MR_MR_MR, .operand = {4, 4, 5}};
    uint32_t words[2];
    ck_assert(isa_encode(&inst, false, words));
    emit(code, words[0]);
}

enum mode { FINE, TRAPS, LOOPS, WRONG_REPLICA, SILENT };

/* x goes to STORE page by page; w is added to the first word; STORE goes back as y. */
static void emit_program(struct image *image, unsigned tile, enum mode mode)
{
    struct code *code = &image->code;
    bool target = tile == FIRST || tile == SECOND;
    bool owner = tile == FIRST || tile == owner_of(SECOND);
    emit_input(image, tile, owner, target); /* initialize */
    if (target)
        emit_copy(code, STAGE, WEIGHT, 1);
    uint32_t run = here(code);
    for (unsigned b = 0; b < BATCHES; b++) {
        emit_input(image, tile, owner, target);
        if (target)
            emit_copy(code, STAGE, STORE + 4096 * b, 1024);
    }
    if (target) {
        emit_sample(code, STORE + SAMPLE_AT);
        if (mode == TRAPS && tile == SECOND)
            emit(code, ipu21_trap(0));
        if (mode == LOOPS && tile == SECOND)
            emit_jump(code, here(code));
        emit_load(code, 4, STORE);
        emit_load(code, 5, WEIGHT);
        emit_sum(code);
        emit_store(code, 4, STORE);
        if (mode == WRONG_REPLICA && tile == SECOND)
            emit_store(code, 4, STORE + 4 * (WORDS - 1));
        emit(code, ipu21_delay(tile == FIRST ? 500 : 300));
        emit_sample(code, STORE + SAMPLE_AT + 4);
    }
    for (unsigned b = 0; b < BATCHES; b++)
        emit_output(image, tile, owner, target && !(mode == SILENT && b == 1), b == 0,
                    STORE + 4096 * b);
    emit_jump(code, run);
}

/* --- the package --- */

static struct package *package;
static struct device_session *session;
static uint32_t x[2 * WORDS], w[2];
static struct ipu_error error;

static void add_tile(struct package *p, unsigned tile, enum mode mode)
{
    static struct image image;
    memset(&image, 0, sizeof image);
    struct code *code = &image.code;
    bool idle = tile != FIRST && tile != SECOND && tile != owner_of(SECOND);
    /* The start sequence: final mark, then the session. */
    emit(code, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit(code, ipu21_sync(IPU21_ZONE_HOST));
    emit(code, ipu21_sync(IPU21_ZONE_HOST));
    uint32_t loop = here(code);
    if (idle) {
        emit_sit_out(code);
        emit_jump(code, loop);
    } else {
        emit_program(&image, tile, mode);
    }
    int blob = package_add_blob(p, code->words, 4 * code->count);
    ck_assert_int_ge(package_add_segment(p, tile, ENTRY, blob, 0, 4 * code->count), 0);
    if (image.packet_count == 0)
        return;
    blob = package_add_blob(p, image.packets, 4 * image.packet_count);
    ck_assert_int_ge(package_add_segment(p, tile, PACKETS, blob, 0, 4 * image.packet_count), 0);
}

static void add_nest(struct package *p, enum package_call call, unsigned tile, int tensor,
                     uint64_t host, uint32_t stream, uint32_t count)
{
    struct package_nest nest = {.tile = (uint16_t)tile,
                                .tensor = (uint16_t)tensor,
                                .dims = 1,
                                .host_offset = host,
                                .stream_offset = stream};
    nest.dim[0].count = count;
    nest.dim[0].host_stride = 1;
    nest.dim[0].stream_stride = 4;
    ck_assert_int_ge(package_add_nest(p, call, &nest), 0);
}

/* x is [2, WORDS], the rows go to the two tiles; the last element of row 0 is what both return. */
static struct package *build(enum mode mode)
{
    struct package *p = package_create();
    struct package_info info = {.compiler = "0.1.0",
                                .workload = "by-hand",
                                .flag_set = 1,
                                .clock_hz = 1500000000,
                                .execution_tiles = SECOND + 1,
                                .final_mark = 23,
                                .entry = ENTRY,
                                .batches_in = {1, BATCHES},
                                .batches_out = {0, BATCHES},
                                .phases = {2, 2 * BATCHES + 2 * BATCHES - 1},
                                .estimated_cycles = 400};
    package_set_info(p, &info);
    for (unsigned t = 0; t < IPU21_TILES; t++)
        add_tile(p, t, mode);
    struct package_tensor tensors[] = {
        {.name = "w", .role = PACKAGE_PARAMETER, .type = PACKAGE_U32, .rank = 1, .shape = {2}},
        {.name = "x", .role = PACKAGE_INPUT, .type = PACKAGE_U32, .rank = 2, .shape = {2, WORDS}},
        {.name = "y",
         .role = PACKAGE_OUTPUT,
         .type = PACKAGE_U32,
         .rank = 1,
         .shape = {2 * WORDS - 1}},
    };
    tensors[0].data = (const uint8_t *)w;
    tensors[1].data = (const uint8_t *)x;
    tensors[0].bytes = sizeof w;
    tensors[1].bytes = sizeof x;
    tensors[2].bytes = sizeof x - 4;
    int weights = package_add_tensor(p, &tensors[0]), in = package_add_tensor(p, &tensors[1]);
    int out = package_add_tensor(p, &tensors[2]);
    add_nest(p, PACKAGE_INITIALIZE, FIRST, weights, 0, 0, 1);
    add_nest(p, PACKAGE_INITIALIZE, SECOND, weights, 1, 0, 1);
    add_nest(p, PACKAGE_RUN, FIRST, in, 0, 0, WORDS);
    add_nest(p, PACKAGE_RUN, SECOND, in, WORDS, 0, WORDS);
    add_nest(p, PACKAGE_RUN, FIRST, out, 0, 0, WORDS);
    add_nest(p, PACKAGE_RUN, SECOND, out, WORDS - 1, 4 * (WORDS - 1), 1);
    add_nest(p, PACKAGE_RUN, SECOND, out, WORDS, 0, WORDS - 1);
    struct package_step step = {.kind = PACKAGE_STEP_OVERALL, .name = "run", .kernel = ""};
    uint32_t index = (uint32_t)package_add_step(p, &step);
    ck_assert_int_ge(package_add_samples(p, FIRST, SAMPLE_AT, &index, 1), 0);
    ck_assert_int_ge(package_add_samples(p, SECOND, SAMPLE_AT, &index, 1), 0);
    ck_assert_int_ge(package_add_symbol(p, "program", ENTRY, 4 * CODE_WORDS), 0);
    struct buffer file = {0};
    struct package *read = NULL;
    ck_assert_msg(package_write(p, &file, &error) == 0, "%s", error.text);
    ck_assert_msg(package_read(file.data, file.size, &read, &error) == 0, "%s", error.text);
    buffer_free(&file);
    package_destroy(p);
    return read;
}

/* --- fixture --- */

static char log_text[16384];

static void keep_log(void *context, const struct log_record *record)
{
    (void)context;
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s %s\n", record->message, record->fields);
}

static struct log sink = {.sink = keep_log, .level = LOG_LEVEL_INFO};
static atomic_bool cancel;

static void open_session(struct device_options options)
{
    options.log = &sink;
    options.cancel = &cancel;
    options.threads = options.threads ? options.threads : 1;
    options.strict = true;
    ck_assert_msg(device_open(&options, &session, &error) == 0, "%s", error.text);
}

static void setup(void)
{
    for (uint32_t i = 0; i < 2 * WORDS; i++)
        x[i] = 3 * i + 1;
    x[2 * WORDS - 1] = x[WORDS - 1]; /* the replica */
    w[0] = 1000;
    w[1] = 2000;
    atomic_store(&cancel, false);
    log_text[0] = '\0';
    session = NULL;
    package = NULL;
}

static void teardown(void)
{
    device_close(session);
    package_destroy(package);
}

static void load(enum mode mode)
{
    package_destroy(package);
    package = build(mode);
    ck_assert_msg(device_load(session, package, &error) == 0, "%s\n%s", error.text,
                  device_fault_report(session));
}

static void expect_result(const uint32_t *input)
{
    size_t size;
    const uint8_t *bytes = device_output(session, "y", &size);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(size, 4 * (2 * WORDS - 1));
    for (uint32_t i = 0; i < 2 * WORDS - 1; i++) {
        uint32_t value, wanted = input[i];
        memcpy(&value, bytes + 4 * i, 4);
        wanted += i == 0 ? w[0] : i == WORDS ? w[1] : 0;
        ck_assert_uint_eq(value, wanted);
    }
}

static void run_fine(struct device_summary *summary)
{
    ck_assert_msg(device_run(session, summary, &error) == 0, "%s\n%s", error.text,
                  device_fault_report(session));
}

/* --- what works --- */

START_TEST(run_returns_what_the_tiles_made_of_the_input)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    expect_result(x);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(cycles_come_from_the_tiles_samples)
{
    struct device_summary summary;
    size_t words;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    const uint32_t *first = device_samples(session, FIRST, &words);
    ck_assert_uint_eq(words, 2);
    const uint32_t *second = device_samples(session, SECOND, &words);
    ck_assert_uint_eq(summary.cycles, first[1] - first[0]);
    ck_assert_uint_eq(summary.minimum_cycles, second[1] - second[0]);
    ck_assert_uint_eq(summary.cycles - summary.minimum_cycles, 200);
    ck_assert_uint_eq(summary.samples, 2);
    ck_assert_uint_gt(summary.bundles, 2 * 5 * 2048);
    ck_assert_ptr_null(device_samples(session, 5, &words));
}
END_TEST

START_TEST(set_input_replaces_and_null_restores)
{
    struct device_summary summary;
    static uint32_t other[2 * WORDS];
    for (uint32_t i = 0; i < 2 * WORDS; i++)
        other[i] = 77 * i;
    other[2 * WORDS - 1] = other[WORDS - 1];
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    ck_assert_int_eq(device_set_input(session, "x", other, sizeof other, &error), 0);
    run_fine(&summary);
    expect_result(other);
    ck_assert_int_eq(device_set_input(session, "x", NULL, 0, &error), 0);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(wrong_inputs_are_refused)
{
    open_session((struct device_options){.device = "sim"});
    ck_assert_int_eq(device_set_input(session, "x", x, sizeof x, &error), IPU_ERR_INVALID);
    load(FINE);
    ck_assert_int_eq(device_set_input(session, "x", x, 8, &error), IPU_ERR_INVALID);
    ck_assert(strstr(error.text, "12000 bytes, not 8") != NULL);
    ck_assert_int_eq(device_set_input(session, "w", w, sizeof w, &error), IPU_ERR_NOT_FOUND);
    ck_assert_int_eq(device_set_input(session, "z", w, sizeof w, &error), IPU_ERR_NOT_FOUND);
}
END_TEST

START_TEST(events_are_logged_in_order)
{
    static const char *const events[] = {
        "opening IPU device path=\"sim\"",
        "IPU device attached path=sim",
        "initializing IPU device",
        "IPU device initialized",
        "loading application tile_count=1472 final_mark=23",
        "application loaded and initial synchronization completed tile_count=1472",
        "starting host exchange session startup_mark=23",
        "attaching host exchange pages pages=2",
        "host exchange session started",
        "invoking streaming host exchange call call=\"initialize\" command=0 phases=2",
        "invoking streaming host exchange call call=\"run\" command=0 phases=7"};
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    const char *at = log_text;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        const char *found = strstr(at, events[i]);
        ck_assert_msg(found != NULL, "\"%s\" is missing or out of order in:\n%s", events[i],
                      log_text);
        at = found + strlen(events[i]);
    }
    ck_assert_ptr_null(strstr(log_text, "replaying device configuration"));
}
END_TEST

START_TEST(resident_package_is_not_loaded_again)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    run_fine(&summary);
    log_text[0] = '\0';
    load(FINE); /* another object, the same bytes */
    ck_assert_ptr_null(strstr(log_text, "loading application"));
    run_fine(&summary);
    expect_result(x);
    ck_assert(summary.load_ms == 0);
}
END_TEST

START_TEST(other_package_is_loaded)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    w[0] = 5;
    load(FINE);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(threads_change_neither_results_nor_cycles)
{
    struct device_summary one, two;
    open_session((struct device_options){.device = "sim", .threads = 1});
    load(FINE);
    run_fine(&one);
    device_close(session);
    open_session((struct device_options){.device = "sim", .threads = 3});
    load(FINE);
    run_fine(&two);
    expect_result(x);
    ck_assert_uint_eq(one.cycles, two.cycles);
    ck_assert_uint_eq(one.bundles, two.bundles);
}
END_TEST

static void expect_profile(const struct buffer *bytes, const struct device_summary *summary)
{
    Ipu__Profile__Profile *p = ipu__profile__profile__unpack(NULL, bytes->size, bytes->data);
    ck_assert_ptr_nonnull(p);
    ck_assert_str_eq(p->workload, "by-hand");
    ck_assert_str_eq(p->device, "sim");
    ck_assert_mem_eq(p->package.data, package_digest(package)->bytes, HASH_BYTES);
    ck_assert_uint_eq(p->cycles, summary->cycles);
    ck_assert_uint_eq(p->n_steps, 1);
    ck_assert_uint_eq(p->n_lists, 1);
    ck_assert_uint_eq(p->n_tiles, 2);
    ck_assert_uint_eq(p->tiles[1]->tile, SECOND);
    ck_assert_uint_eq(p->tiles[1]->physical, 260);
    ck_assert_uint_eq(p->tiles[0]->cycles[0], summary->cycles);
    ck_assert_uint_eq(p->tiles[1]->cycles[0], summary->minimum_cycles);
    ipu__profile__profile__free_unpacked(p, NULL);
}

START_TEST(profile_joins_steps_and_samples)
{
    struct device_summary summary = {0};
    struct buffer bytes = {0};
    open_session((struct device_options){.device = "sim"});
    load(FINE);
    ck_assert_int_eq(profile_build(session, package, &summary, &bytes, &error), IPU_ERR_INVALID);
    run_fine(&summary);
    ck_assert_int_eq(profile_build(session, package, &summary, &bytes, &error), 0);
    expect_profile(&bytes, &summary);
    buffer_free(&bytes);
}
END_TEST

/* --- what fails --- */

START_TEST(other_devices_are_refused)
{
    struct device_options options = {.device = "/dev/ipu0"};
    ck_assert_int_eq(device_open(&options, &session, &error), IPU_ERR_UNSUPPORTED);
    ck_assert_ptr_null(session);
}
END_TEST

START_TEST(run_without_a_package_is_refused)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_INVALID);
}
END_TEST

START_TEST(fault_is_reported_and_the_next_load_recovers)
{
    struct device_summary summary;
    size_t size;
    open_session((struct device_options){.device = "sim"});
    load(TRAPS);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert(strstr(error.text, "running the application: call \"run\", host phase") != NULL);
    const char *report = device_fault_report(session);
    ck_assert(strstr(report, "tile 100 (physical 260), supervisor\n") != NULL);
    ck_assert(strstr(report, " in program+0x") != NULL);
    ck_assert(strstr(report, "trap") != NULL);
    ck_assert(strstr(report, "\ncycle ") != NULL);
    ck_assert_ptr_null(device_output(session, "y", &size));
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_INVALID);
    load(FINE);
    ck_assert_str_eq(device_fault_report(session), "");
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(faulted_package_is_loaded_again)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(TRAPS);
    ck_assert_int_ne(device_run(session, &summary, &error), 0);
    log_text[0] = '\0';
    load(TRAPS);
    ck_assert(strstr(log_text, "loading application") != NULL);
}
END_TEST

START_TEST(differing_copies_name_tensor_element_and_tiles)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim"});
    load(WRONG_REPLICA);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert_msg(strstr(error.text, "output y: element [1499] from tile 100 is not the same bits "
                                     "as from tile 0") != NULL,
                  "%s", error.text);
}
END_TEST

/* Tiles that do not write their second page must not return what lay there before. */
START_TEST(unwritten_page_is_not_taken_for_output)
{
    struct device_summary summary;
    size_t size;
    open_session((struct device_options){.device = "sim"});
    load(SILENT);
    run_fine(&summary);
    const uint8_t *bytes = device_output(session, "y", &size);
    ck_assert_uint_eq(bytes[4 * (1024 - 1)], (uint8_t)x[1023]);
    for (uint32_t i = 1024; i < WORDS; i++)
        ck_assert_uint_eq(bytes[4 * i], 0xa5);
}
END_TEST

START_TEST(call_beyond_the_cycle_limit_faults)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim", .cycle_limit = 3000000});
    load(LOOPS);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_DEVICE_FAULT);
    ck_assert_msg(strstr(error.text, "more than 3000000 cycles") != NULL, "%s", error.text);
    ck_assert(strstr(device_fault_report(session), "1 tile (100) running") != NULL);
}
END_TEST

START_TEST(phase_beyond_the_timeout_ends)
{
    struct device_summary summary;
    open_session((struct device_options){.device = "sim", .timeout_ms = 200});
    load(LOOPS);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.text, "in 200 ms") != NULL, "%s", error.text);
}
END_TEST

static void *raise_cancel(void *argument)
{
    atomic_store(&cancel, true);
    return argument;
}

START_TEST(cancel_ends_a_run_and_the_session_recovers)
{
    struct device_summary summary;
    pthread_t thread;
    open_session((struct device_options){.device = "sim", .timeout_ms = 60000});
    load(LOOPS);
    ck_assert_int_eq(pthread_create(&thread, NULL, raise_cancel, NULL), 0);
    ck_assert_int_eq(device_run(session, &summary, &error), IPU_ERR_CANCELLED);
    pthread_join(thread, NULL);
    atomic_store(&cancel, false);
    load(FINE);
    run_fine(&summary);
    expect_result(x);
}
END_TEST

START_TEST(exhausted_memory_is_an_error)
{
    struct device_options options = {.device = "sim", .threads = 1};
    long calls = _i;
    package = build(FINE);
    ipu_alloc_fail_after(calls, 1);
    int code = device_open(&options, &session, &error);
    if (code == 0)
        code = device_load(session, package, &error);
    ipu_alloc_fail_after(-1, 0);
    ck_assert_int_eq(code, IPU_ERR_NO_MEMORY);
}
END_TEST

static Suite *driver_suite(void)
{
    Suite *suite = suite_create("driver_session");
    TCase *works = tcase_create("works");
    tcase_add_checked_fixture(works, setup, teardown);
    tcase_set_timeout(works, 60);
    tcase_add_test(works, run_returns_what_the_tiles_made_of_the_input);
    tcase_add_test(works, cycles_come_from_the_tiles_samples);
    tcase_add_test(works, set_input_replaces_and_null_restores);
    tcase_add_test(works, wrong_inputs_are_refused);
    tcase_add_test(works, events_are_logged_in_order);
    tcase_add_test(works, resident_package_is_not_loaded_again);
    tcase_add_test(works, other_package_is_loaded);
    tcase_add_test(works, threads_change_neither_results_nor_cycles);
    tcase_add_test(works, profile_joins_steps_and_samples);
    suite_add_tcase(suite, works);

    TCase *fails = tcase_create("fails");
    tcase_add_checked_fixture(fails, setup, teardown);
    tcase_set_timeout(fails, 60);
    tcase_add_test(fails, other_devices_are_refused);
    tcase_add_test(fails, run_without_a_package_is_refused);
    tcase_add_test(fails, fault_is_reported_and_the_next_load_recovers);
    tcase_add_test(fails, faulted_package_is_loaded_again);
    tcase_add_test(fails, differing_copies_name_tensor_element_and_tiles);
    tcase_add_test(fails, unwritten_page_is_not_taken_for_output);
    tcase_add_test(fails, call_beyond_the_cycle_limit_faults);
    tcase_add_test(fails, phase_beyond_the_timeout_ends);
    tcase_add_test(fails, cancel_ends_a_run_and_the_session_recovers);
    tcase_add_loop_test(fails, exhausted_memory_is_an_error, 0, 8);
    suite_add_tcase(suite, fails);
    return suite;
}

int main(void)
{
    return run_suite(driver_suite());
}
