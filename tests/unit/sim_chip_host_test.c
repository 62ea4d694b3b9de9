/* module: device/sim */
/* Host exchange: grants, reads, writes and closes as packets of running tiles, the vendor's header
 * vectors, and everything an exchange block refuses. */
#include "sim_chip_support.h"

#include <stdio.h>

enum { TARGET = 100 /* physical 260, owner physical 4 */, DATA = 0x80000 };

static struct sim_chip *chip;
static uint8_t *command, *page;

static void setup(void)
{
    chip = new_chip(1, true);
    command = aligned_alloc(4096, 4096);
    page = aligned_alloc(4096, 8192);
    for (unsigned i = 0; i < 8192; i++)
        page[i] = (uint8_t)(i * 7 + i / 256);
    memset(command, 0x11, 4096);
    ck_assert(sim_chip_attach(chip, 0, command, 4096));
    ck_assert(sim_chip_attach(chip, 1, page, 8192));
}

static void teardown(void)
{
    sim_chip_destroy(chip);
    free(command);
    free(page);
}

/* All tiles sit one host phase out, the owner grants the target, and `body` is the target's part
 * between the syncs. */
static void load_phase(const struct code *body, bool grant)
{
    struct code idle = {0}, owner = {0}, target = {0};
    unsigned column = owner_of(TARGET);
    emit_sit_out(&idle);
    emit_end(&idle);
    load_everywhere(chip, &idle);
    emit_host_enter(&owner, column, IPU21_ZONE_HOST_MASTER);
    if (grant)
        emit(&owner, ipu21_send(2, HEADERS / 4, IPU21_SEND_BOTH));
    emit_host_leave(&owner);
    emit_end(&owner);
    load_code(chip, column, &owner);
    put_grant(chip, column, HEADERS, TARGET);
    emit_host_enter(&target, TARGET, IPU21_ZONE_HOST);
    for (uint32_t i = 0; i < body->count; i++)
        emit(&target, body->words[i]);
    emit_host_leave(&target);
    emit_end(&target);
    load_code(chip, TARGET, &target);
    sim_chip_start(chip, ENTRY);
    sim_chip_set_mark(chip, 1, 23);
}

static void expect_state(enum sim_chip_state wanted)
{
    enum sim_chip_state state = sim_chip_run(chip, FAR_LIMIT, NULL);
    if (state == wanted)
        return;
    char *where = sim_chip_explain(chip);
    const struct sim_fault *fault = sim_chip_fault(chip);
    ck_abort_msg("state %d instead of %d: %s\n%s", state, wanted, fault ? fault->text : "", where);
}

static void expect_refusal(const char *words)
{
    expect_state(SIM_CHIP_FAULTED);
    const struct sim_fault *fault = sim_chip_fault(chip);
    ck_assert_uint_eq(fault->tile, TARGET);
    ck_assert_msg(strstr(fault->text, words) != NULL, "\"%s\" is not in: %s", words, fault->text);
}

static void expect_in_explanation(const char *words)
{
    char *text = sim_chip_explain(chip);
    ck_assert_msg(strstr(text, words) != NULL, "\"%s\" is not in:\n%s", words, text);
    free(text);
}

static void expect_window(uint32_t address, const uint8_t *bytes, uint32_t size)
{
    uint8_t memory[2048];
    ck_assert(sim_chip_read(chip, TARGET, address, memory, size));
    ck_assert_mem_eq(memory, bytes, size);
}

/* --- what works --- */

static const uint32_t read_sizes[] = {4, 32, 60, 64, 512, 1024};

START_TEST(read_brings_page_bytes_into_the_window)
{
    struct code body = {0};
    uint32_t bytes = read_sizes[_i];
    emit_read(&body, HEADERS, 1, bytes);
    load_phase(&body, true);
    put_read(chip, TARGET, HEADERS, 4096 + 1024, bytes, WINDOW, true);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    expect_window(WINDOW, page + 1024, bytes);
    ck_assert_uint_eq(chip_word(chip, TARGET, WINDOW + bytes), 0);
}
END_TEST

START_TEST(several_reads_are_one_stream)
{
    struct code body = {0};
    emit_read(&body, HEADERS, 3, 1024 + 256 + 32);
    load_phase(&body, true);
    put_read(chip, TARGET, HEADERS, 4096 + 4096, 1024, WINDOW, false);
    put_read(chip, TARGET, HEADERS + 8, 4096, 256, WINDOW + 1024, false);
    put_read(chip, TARGET, HEADERS + 16, 32, 32, WINDOW + 1280, true);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    expect_window(WINDOW, page + 4096, 1024);
    expect_window(WINDOW + 1024, page, 256);
    expect_window(WINDOW + 1280, command + 32, 32);
}
END_TEST

static const uint32_t write_sizes[] = {4, 16, 60, 64, 128, 256};

START_TEST(write_reaches_the_page_and_nothing_else)
{
    struct code body = {0};
    uint32_t bytes = write_sizes[_i];
    uint8_t before[8192], data[256];
    memcpy(before, page, sizeof before);
    for (uint32_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(200 - i);
    emit_write(&body, HEADERS, DATA, bytes / 4);
    load_phase(&body, true);
    put_write(chip, TARGET, HEADERS, 4096 + 2048, bytes);
    put_close(chip, TARGET, HEADERS + 8);
    ck_assert(sim_chip_write(chip, TARGET, DATA, data, bytes));
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    memcpy(before + 2048, data, bytes);
    ck_assert_mem_eq(page, before, sizeof before);
}
END_TEST

/* The words that the vendor's compiler emits for physical tile 260: a long read to 0x50120, and the
 * store of 64 bytes at 0x50120 with its closing read to 0x50180. */
START_TEST(vendor_read_header_is_understood)
{
    struct code body = {0};
    emit_read(&body, HEADERS, 1, 64);
    load_phase(&body, true);
    put_chip_word(chip, TARGET, HEADERS, 0xec820209);
    put_chip_word(chip, TARGET, HEADERS + 4, 0x00000011);
    ck_assert_uint_eq(chip_word(chip, owner_of(TARGET), HEADERS), 0x100);
    ck_assert_uint_eq(chip_word(chip, owner_of(TARGET), HEADERS + 4), 0);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    expect_window(0x50120, command + 64, 64);
}
END_TEST

START_TEST(vendor_write_sequence_is_understood)
{
    struct code body = {0};
    uint8_t data[64];
    memset(data, 0x5c, sizeof data);
    emit_set(&body, IPU21_CSR_INCOMING_DCOUNT, 1);
    emit(&body, ipu21_send(2, 0x50160 / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_send(16, 0x50120 / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_delay(2));
    emit(&body, ipu21_send(2, 0x50168 / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_sync(IPU21_ZONE_RECEIVE));
    load_phase(&body, true);
    put_chip_word(chip, TARGET, 0x50160, 0xa0820000);
    put_chip_word(chip, TARGET, 0x50164, 0x00000011);
    put_chip_word(chip, TARGET, 0x50168, 0xcc82020c);
    put_chip_word(chip, TARGET, 0x5016c, 0);
    ck_assert(sim_chip_write(chip, TARGET, 0x50120, data, sizeof data));
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    ck_assert_mem_eq(command + 64, data, 64);
    ck_assert_uint_eq(command[128], 0x11);
}
END_TEST

/* Grant words of physical tiles 31, 81, 768 and 1471, and the owner of 31. */
START_TEST(vendor_grants_name_their_tiles)
{
    static const struct {
        unsigned physical;
        uint32_t words[2];
    } vectors[] = {{31, {2, 0}}, {81, {4, 0}}, {768, {0, 1}}, {1471, {0, 1u << 21}}};
    unsigned tile = ipu21_logical(vectors[_i].physical), owner = owner_of(tile);
    put_grant(chip, owner, HEADERS, tile);
    ck_assert_uint_eq(chip_word(chip, owner, HEADERS), vectors[_i].words[0]);
    ck_assert_uint_eq(chip_word(chip, owner, HEADERS + 4), vectors[_i].words[1]);
    ck_assert_uint_eq(ipu21_physical(owner_of(ipu21_logical(31))), 29);
    struct code idle = {0}, grant = {0}, target = {0};
    emit_sit_out(&idle);
    emit_end(&idle);
    load_everywhere(chip, &idle);
    emit_host_enter(&target, tile, IPU21_ZONE_HOST);
    emit_read(&target, HEADERS + 64, 1, 64);
    emit_host_leave(&target);
    emit_end(&target);
    emit_host_enter(&grant, owner, IPU21_ZONE_HOST_MASTER);
    emit(&grant, ipu21_send(2, HEADERS / 4, IPU21_SEND_BOTH));
    if (owner == tile)
        emit_read(&grant, HEADERS + 64, 1, 64);
    emit_host_leave(&grant);
    emit_end(&grant);
    load_code(chip, tile, &target);
    load_code(chip, owner, &grant);
    put_read(chip, tile, HEADERS + 64, 4096, 64, WINDOW, true);
    sim_chip_start(chip, ENTRY);
    sim_chip_set_mark(chip, 1, 23);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    uint8_t memory[64];
    ck_assert(sim_chip_read(chip, tile, WINDOW, memory, 64));
    ck_assert_mem_eq(memory, page, 64);
}
END_TEST

START_TEST(owner_can_be_its_own_target)
{
    struct code idle = {0}, both = {0};
    emit_sit_out(&idle);
    emit_end(&idle);
    load_everywhere(chip, &idle);
    emit_host_enter(&both, 0, IPU21_ZONE_HOST_MASTER);
    emit(&both, ipu21_send(2, HEADERS / 4, IPU21_SEND_BOTH));
    emit_read(&both, HEADERS + 64, 1, 128);
    emit_host_leave(&both);
    emit_end(&both);
    load_code(chip, 0, &both);
    put_grant(chip, 0, HEADERS, 0);
    put_read(chip, 0, HEADERS + 64, 4096, 128, WINDOW, true);
    sim_chip_start(chip, ENTRY);
    sim_chip_set_mark(chip, 1, 23);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    uint8_t memory[128];
    ck_assert(sim_chip_read(chip, 0, WINDOW, memory, sizeof memory));
    ck_assert_mem_eq(memory, page, sizeof memory);
}
END_TEST

START_TEST(pages_follow_each_other_in_device_offsets)
{
    sim_chip_detach_all(chip);
    ck_assert(!sim_chip_attach(chip, 1, page, 4096));
    ck_assert(!sim_chip_attach(chip, 0, page, 100));
    ck_assert(sim_chip_attach(chip, 0, page, 8192));
    ck_assert(sim_chip_attach(chip, 1, command, 4096));
    struct code body = {0};
    emit_read(&body, HEADERS, 1, 64);
    load_phase(&body, true);
    put_read(chip, TARGET, HEADERS, 8192, 64, WINDOW, true);
    expect_state(SIM_CHIP_WAITS_FOR_HOST);
    expect_window(WINDOW, command, 64);
}
END_TEST

/* --- what hangs --- */

START_TEST(missing_grant_hangs_and_says_who_should_have_granted)
{
    struct code body = {0};
    char text[96];
    emit_read(&body, HEADERS, 1, 64);
    load_phase(&body, false);
    put_read(chip, TARGET, HEADERS, 4096, 64, WINDOW, true);
    expect_state(SIM_CHIP_DEADLOCK);
    snprintf(text, sizeof text, "tile 100 has no XREQ grant from its column's owner, tile %u",
             owner_of(TARGET));
    expect_in_explanation(text);
    expect_in_explanation("1 tile (100) in sync 0 (receive)");
    expect_in_explanation("waits for 16 words");
}
END_TEST

START_TEST(too_few_words_hang_and_say_so)
{
    struct code body = {0};
    emit_read(&body, HEADERS, 1, 96);
    load_phase(&body, true);
    put_read(chip, TARGET, HEADERS, 4096, 64, WINDOW, true);
    expect_state(SIM_CHIP_DEADLOCK);
    expect_in_explanation("waits for 8 words");
    expect_in_explanation("asked for fewer words than INCOMING_DCOUNT expects");
}
END_TEST

/* --- what faults --- */

START_TEST(ungranted_packet_faults_at_the_end_of_its_phase)
{
    struct code body = {0};
    emit(&body, ipu21_send(2, HEADERS / 4, IPU21_SEND_BOTH)); /* and no sync 0 */
    load_phase(&body, false);
    put_close(chip, TARGET, HEADERS);
    ck_assert_int_eq(sim_chip_run(chip, FAR_LIMIT, NULL), SIM_CHIP_WAITS_FOR_HOST);
    sim_chip_set_mark(chip, 2, 1);
    expect_refusal("owner has not granted the tile");
}
END_TEST

static const struct {
    uint32_t first, second;
    const char *why;
} bad_headers[] = {
    {0x4c82020c, 0x11, "no known packet"},
    {0xdc82020c, 0x11, "no known packet"},
    {0xec820009, 0x11, "no known packet"},
    {0xe4820209, 0x11, "no known packet"},
    {0xec820609, 0x11, "no known packet"},
    {0xec830209, 0x11, "another tile than its sender"},
    {0xec820209, 0x80000011, "name different tiles"},
    {0xec820209, 0xc01, "leaves the attached host pages"},
    {0xec820209, 0x7ffffff1, "leaves the attached host pages"},
    {0xec820209, 0x000007f2, "crosses a 4 KiB page"},
    {0xec8203ff, 0x00000410, "beyond the host window"},
    {0xe0820209, 0x11, "announces another read"},
    {0xa0820001, 0x11, "no known packet"},
    {0x80820000, 0x10, "a write needs a length"},
};

START_TEST(malformed_header_faults_and_is_named)
{
    struct code body = {0};
    char named[32];
    emit_read(&body, HEADERS, 1, 64);
    load_phase(&body, true);
    put_chip_word(chip, TARGET, HEADERS, bad_headers[_i].first);
    put_chip_word(chip, TARGET, HEADERS + 4, bad_headers[_i].second);
    snprintf(named, sizeof named, "host packet 0x%08x", bad_headers[_i].first);
    expect_refusal(named);
    expect_refusal(bad_headers[_i].why);
}
END_TEST

START_TEST(more_words_than_expected_fault)
{
    struct code body = {0};
    emit_read(&body, HEADERS, 1, 32);
    load_phase(&body, true);
    put_read(chip, TARGET, HEADERS, 4096, 64, WINDOW, true);
    expect_refusal("more words than INCOMING_DCOUNT expects");
}
END_TEST

START_TEST(write_over_256_bytes_faults)
{
    struct code body = {0};
    emit_write(&body, HEADERS, DATA, 64);
    load_phase(&body, true);
    put_write(chip, TARGET, HEADERS, 4096, 320);
    put_close(chip, TARGET, HEADERS + 8);
    expect_refusal("writes more than 256 bytes");
}
END_TEST

START_TEST(short_payload_faults)
{
    struct code body = {0};
    emit_write(&body, HEADERS, DATA, 30);
    load_phase(&body, true);
    put_write(chip, TARGET, HEADERS, 4096, 256);
    put_close(chip, TARGET, HEADERS + 8);
    expect_refusal("payload is shorter than its length");
}
END_TEST

START_TEST(close_that_comes_too_soon_faults)
{
    struct code body = {0};
    emit_set(&body, IPU21_CSR_INCOMING_DCOUNT, 1);
    emit(&body, ipu21_send(2, HEADERS / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_send(16, DATA / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_delay(1));
    emit(&body, ipu21_send(2, (HEADERS + 8) / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_sync(IPU21_ZONE_RECEIVE));
    load_phase(&body, true);
    put_write(chip, TARGET, HEADERS, 4096, 64);
    put_close(chip, TARGET, HEADERS + 8);
    expect_refusal("less than 18 slots");
}
END_TEST

START_TEST(write_without_a_close_faults)
{
    struct code body = {0};
    emit(&body, ipu21_send(2, HEADERS / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_send(16, DATA / 4, IPU21_SEND_BOTH));
    load_phase(&body, true);
    put_write(chip, TARGET, HEADERS, 4096, 64);
    expect_refusal("no closing packet");
}
END_TEST

START_TEST(packet_cut_short_faults)
{
    struct code body = {0};
    emit(&body, ipu21_send(1, HEADERS / 4, IPU21_SEND_BOTH));
    load_phase(&body, true);
    put_close(chip, TARGET, HEADERS);
    expect_refusal("is cut short");
}
END_TEST

START_TEST(wrong_column_faults)
{
    struct code body = {0};
    emit_set(&body, IPU21_CSR_INCOMING_MUX, IPU21_MUX_HOST + 8);
    emit_read(&body, HEADERS, 1, 64);
    load_phase(&body, true);
    put_read(chip, TARGET, HEADERS, 4096, 64, WINDOW, true);
    expect_refusal("exchange block of another column");
}
END_TEST

START_TEST(grant_from_a_tile_that_is_no_owner_faults)
{
    struct code body = {0};
    emit(&body, ipu21_send(2, HEADERS / 4, IPU21_SEND_BOTH));
    load_phase(&body, true);
    put_chip_word(chip, TARGET, HEADERS, 1);
    expect_refusal("does not own its column");
}
END_TEST

START_TEST(endless_packets_fault)
{
    struct code body = {0};
    emit(&body, ipu21_send(64, DATA / 4, IPU21_SEND_BOTH));
    emit(&body, ipu21_sendoff(4000, 0, IPU21_SEND_BOTH));
    for (unsigned i = 0; i < 20; i++)
        emit(&body, ipu21_sendoff(4000, 0, IPU21_SEND_BOTH));
    load_phase(&body, true);
    expect_refusal("wait to be served");
}
END_TEST

static Suite *host_suite(void)
{
    Suite *suite = suite_create("sim_chip_host");
    TCase *works = tcase_create("works");
    tcase_add_checked_fixture(works, setup, teardown);
    tcase_add_loop_test(works, read_brings_page_bytes_into_the_window, 0, 6);
    tcase_add_test(works, several_reads_are_one_stream);
    tcase_add_loop_test(works, write_reaches_the_page_and_nothing_else, 0, 6);
    tcase_add_test(works, vendor_read_header_is_understood);
    tcase_add_test(works, vendor_write_sequence_is_understood);
    tcase_add_loop_test(works, vendor_grants_name_their_tiles, 0, 4);
    tcase_add_test(works, owner_can_be_its_own_target);
    tcase_add_test(works, pages_follow_each_other_in_device_offsets);
    suite_add_tcase(suite, works);

    TCase *refused = tcase_create("refused");
    tcase_add_checked_fixture(refused, setup, teardown);
    tcase_add_test(refused, missing_grant_hangs_and_says_who_should_have_granted);
    tcase_add_test(refused, too_few_words_hang_and_say_so);
    tcase_add_test(refused, ungranted_packet_faults_at_the_end_of_its_phase);
    tcase_add_loop_test(refused, malformed_header_faults_and_is_named, 0,
                        sizeof bad_headers / sizeof *bad_headers);
    tcase_add_test(refused, more_words_than_expected_fault);
    tcase_add_test(refused, write_over_256_bytes_faults);
    tcase_add_test(refused, short_payload_faults);
    tcase_add_test(refused, close_that_comes_too_soon_faults);
    tcase_add_test(refused, write_without_a_close_faults);
    tcase_add_test(refused, packet_cut_short_faults);
    tcase_add_test(refused, wrong_column_faults);
    tcase_add_test(refused, grant_from_a_tile_that_is_no_owner_faults);
    tcase_add_test(refused, endless_packets_fault);
    suite_add_tcase(suite, refused);
    return suite;
}

int main(void)
{
    return run_suite(host_suite());
}
