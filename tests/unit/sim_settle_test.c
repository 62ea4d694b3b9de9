/* module: device/sim */
/* The exchange fabric against logs written by hand: the vendor's vectors of facts/exchange.md
 * sections 4 and 5, and one test for each thing that is illegal. Slots below are ISSUE slots: an
 * effective event E of the facts is issue slot E - 1. */
#include "device/sim/settle.h"

#include "base/alloc.h"
#include "device/ipu21/exchange.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_EVENTS = 64, SOURCE = 0x80000, TARGET = 0xc0000, ROW_PC = 0x70000 };

struct log {
    struct sim_event events[PORT_EVENTS];
    size_t count;
    struct sim_exchange_state state;
};

static struct settle *fabric;
static struct log *logs[IPU21_TILES];

static void setup(void)
{
    static struct sim_exchange_state idle = {.incoming_mux = IPU21_MUX_NEUTRAL,
                                             .incoming_mux_pair = IPU21_MUX_NEUTRAL};
    fabric = ipu_calloc(1, sizeof *fabric);
    settle_init(fabric);
    fabric->strict = false;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        fabric->ports[i].state = &idle;
}

static void teardown(void)
{
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        free(fabric->ports[i].sram);
        free(logs[i]);
        logs[i] = NULL;
    }
    settle_free(fabric);
    ipu_free(fabric);
}

static struct log *use(unsigned tile)
{
    if (logs[tile])
        return logs[tile];
    struct settle_port *port = &fabric->ports[tile];
    logs[tile] = calloc(1, sizeof *logs[tile]);
    logs[tile]->state.incoming_mux = logs[tile]->state.incoming_mux_pair = IPU21_MUX_NEUTRAL;
    port->sram = calloc(1, IPU21_SRAM_BYTES);
    port->state = &logs[tile]->state;
    port->epoch = 1000; /* any cycle will do */
    return logs[tile];
}

static struct sim_event *add(unsigned tile, uint8_t kind, uint32_t slot, uint32_t value)
{
    struct log *log = use(tile);
    ck_assert_uint_lt(log->count, PORT_EVENTS);
    struct sim_event *event = &log->events[log->count++];
    *event = (struct sim_event){.kind = kind, .slot = slot, .value = value};
    event->pc = ROW_PC + 8 * (uint32_t)log->count;
    fabric->ports[tile].events = log->events;
    fabric->ports[tile].event_count = log->count;
    return event;
}

static void send(unsigned tile, uint32_t slot, uint32_t items, uint32_t address, uint8_t control)
{
    struct sim_event *event = add(tile, SIM_EVENT_SEND, slot, address);
    event->items = items;
    event->control = control;
}

static struct sim_event *xpic(unsigned tile, uint32_t slot, uint8_t selector, uint32_t value)
{
    struct sim_event *event = add(tile, SIM_EVENT_XPIC, slot, value);
    event->selector = selector;
    return event;
}

static struct sim_event *pic(unsigned tile, uint32_t slot, uint8_t selector, uint32_t value)
{
    struct sim_event *event = add(tile, SIM_EVENT_PIC, slot, value);
    event->selector = selector;
    return event;
}

static void put_word(unsigned tile, uint32_t address, uint32_t value)
{
    use(tile);
    memcpy(fabric->ports[tile].sram + (address - IPU21_SRAM_BASE), &value, 4);
}

static uint32_t get_word(unsigned tile, uint32_t address)
{
    uint32_t value;
    memcpy(&value, fabric->ports[tile].sram + (address - IPU21_SRAM_BASE), 4);
    return value;
}

static uint32_t pattern(unsigned tile, uint32_t word)
{
    return 0x10000000u + tile * 0x10000u + word;
}

static void fill(unsigned tile, uint32_t address, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        put_word(tile, address + 4 * i, pattern(tile, i));
}

static void expect(unsigned tile, uint32_t address, uint32_t words, unsigned from, uint32_t first)
{
    for (uint32_t i = 0; i < words; i++)
        ck_assert_uint_eq(get_word(tile, address + 4 * i), pattern(from, first + i));
    ck_assert_uint_eq(get_word(tile, address - 4), 0);
    ck_assert_uint_eq(get_word(tile, address + 4 * words), 0);
}

static void clear_logs(void)
{
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        fabric->ports[i].event_count = 0;
        if (logs[i])
            logs[i]->count = 0;
    }
}

static uint8_t direction(unsigned source, unsigned target)
{
    return (uint8_t)ipu21_direction(ipu21_physical(source), ipu21_physical(target));
}

static int ttm(unsigned source, unsigned target)
{
    return ipu21_ttm(ipu21_physical(source), ipu21_physical(target));
}

static uint32_t row2(unsigned tile)
{
    return 2 * ipu21_row(ipu21_physical(tile));
}

/* The receive controls of `words` ordinary words whose first one passes the multiplexer in `slot`.
 */
static void receive(unsigned tile, unsigned source, uint32_t slot, uint32_t words, uint32_t address)
{
    uint32_t pointer = slot + 52 + row2(tile);
    xpic(tile, slot, 0, ipu21_physical(source));
    if (slot + words < pointer) {
        xpic(tile, slot + words, 0, IPU21_MUX_NEUTRAL);
        pic(tile, pointer, 0, address / 4);
    } else {
        pic(tile, pointer, 0, address / 4);
        xpic(tile, slot + words, 0, IPU21_MUX_NEUTRAL);
    }
}

static const struct sim_fault *expect_fault(unsigned tile, enum sim_etype etype, unsigned error,
                                            const char *words)
{
    ck_assert(!settle_run(fabric));
    const struct settle_port *port = &fabric->ports[tile];
    ck_assert(port->faulted);
    ck_assert_int_eq(port->fault.etype, etype);
    ck_assert_uint_eq(port->fault.receive_error, error);
    ck_assert_msg(strstr(port->fault.text, words) != NULL, "%s", port->fault.text);
    ck_assert_uint_eq(port->fault.tile, tile);
    return &port->fault;
}

/* --- the vendor's vectors --- */

START_TEST(multicast_vector_reaches_both_receivers)
{
    fill(0, SOURCE, 3);
    send(0, 0x16 + 1, 3, SOURCE, IPU21_SEND_BOTH);
    /* The first receiver selects in slot 0, its pointer word 0x61814000 follows the neutral. */
    xpic(1286, 0, 0, 0);
    xpic(1286, 3, 0, IPU21_MUX_NEUTRAL);
    pic(1286, 3 + ((0x61814000u >> 19) & 127) + 1, 0, 0x61814000u & 0x3ffff);
    receive(274, 0, (uint32_t)(23 + ttm(0, 274)), 3, 0x50000);
    ck_assert(settle_run(fabric));
    expect(1286, 0x50000, 3, 0, 0);
    expect(274, 0x50000, 3, 0, 0);
    ck_assert_uint_eq(fabric->ports[1286].received, 3);
}
END_TEST

static const struct {
    unsigned source, target;
    uint32_t words, delay;
    uint8_t control;
} unicast[] = {
    {0, 1286, 3, 0x86, 1},
    {736, 100, 52, 0x3e, 2},
    {1286, 1471, 65, 0x7d, 2},
    {32, 0, 4148, 0x6c, 1},
};

START_TEST(unicast_vectors_deliver)
{
    unsigned source = unicast[_i].source, target = unicast[_i].target;
    uint32_t words = unicast[_i].words, first = words < 64 ? words : 64;
    fill(source, SOURCE, words);
    use(target);
    send(source, unicast[_i].delay + 1, first, SOURCE, unicast[_i].control);
    if (words > first)
        send(source, unicast[_i].delay + 1 + first, words - first, SOURCE + 4 * first,
             unicast[_i].control);
    receive(target, source, 112, words, TARGET);
    ck_assert(settle_run(fabric));
    expect(target, TARGET, words, source, 0);
    ck_assert_uint_eq(fabric->ports[target].received, words);
    ck_assert_uint_eq(logs[target]->state.incoming_mux, IPU21_MUX_NEUTRAL);
    ck_assert_uint_eq(logs[target]->state.incoming_pointer, TARGET + 4 * words);
}
END_TEST

/* XPIC effective at 2, 54, 106, 158 and PIC at 56, 108, 160, 212: a receiver in row 1. */
START_TEST(chained_transfers_follow_each_other_without_a_gap)
{
    static const unsigned sources[4] = {500, 700, 900, 1100};
    unsigned target = ipu21_logical(64 + 21);
    for (unsigned k = 0; k < 4; k++) {
        fill(sources[k], SOURCE, 52);
        send(sources[k], (uint32_t)(200 + (int)(1 + 52 * k) - ttm(sources[k], target)), 52, SOURCE,
             direction(sources[k], target));
    }
    for (unsigned k = 0; k < 4; k++) {
        xpic(target, 200 + 1 + 52 * k, 0, ipu21_physical(sources[k]));
        if (k > 0)
            pic(target, 200 + 55 + 52 * (k - 1), 0, (TARGET + 0x1000 * (k - 1)) / 4);
    }
    xpic(target, 200 + 1 + 52 * 4, 0, IPU21_MUX_NEUTRAL);
    pic(target, 200 + 55 + 52 * 3, 0, (TARGET + 0x3000) / 4);
    ck_assert(settle_run(fabric));
    for (unsigned k = 0; k < 4; k++)
        expect(target, TARGET + 0x1000 * k, 52, sources[k], 0);
}
END_TEST

static void pair_row(void)
{
    send(0, 31, 64, SOURCE, 5);
    xpic(2, 0, 1, 0);
    pic(2, 53, 1, 1);
    pic(2, 55, 0, TARGET / 4);
    xpic(2, 64, 1, IPU21_MUX_NEUTRAL);
    pic(2, 117, 1, 0);
    pic(3, 53, 1, 1);
    pic(3, 55, 0, TARGET / 4);
    pic(3, 117, 1, 0);
}

START_TEST(pair_vector_reaches_both_members)
{
    fill(0, SOURCE, 128);
    pair_row();
    ck_assert(settle_run(fabric));
    expect(2, TARGET, 128, 0, 0);
    expect(3, TARGET, 128, 0, 0);
    ck_assert_uint_eq(fabric->ports[3].received, 128);
    ck_assert_uint_eq(logs[2]->state.incoming_mux_pair, IPU21_MUX_NEUTRAL);
    ck_assert_uint_eq(logs[2]->state.incoming_format, 0);
}
END_TEST

/* Four 352-word transfers: XPIC 1, 177, 353, 529; PIC 56, ...; format on at 54, off at 758. The
 * sources are such that the same member hears all of them first, in one direction. */
START_TEST(back_to_back_pair_transfers_keep_the_format)
{
    unsigned sources[4], found = 0;
    for (unsigned s = 4; s < IPU21_TILES && found < 4; s += 6)
        if (ttm(s, 2) < ttm(s, 3) && direction(s, 2) == 1 && direction(s, 3) == 1)
            sources[found++] = s;
    ck_assert_uint_eq(found, 4);
    for (unsigned k = 0; k < 4; k++) {
        fill(sources[k], SOURCE, 352);
        send(sources[k], (uint32_t)(300 + (int)(176 * k) - ttm(sources[k], 2)), 176, SOURCE, 5);
    }
    pic(2, 300 + 53, 1, 1);
    pic(3, 300 + 53, 1, 1);
    for (unsigned k = 0; k < 4; k++) {
        xpic(2, 300 + 176 * k, 1, ipu21_physical(sources[k]));
        pic(2, 300 + 55 + 176 * k, 0, (TARGET + 0x1000 * k) / 4);
        pic(3, 300 + 55 + 176 * k, 0, (TARGET + 0x1000 * k) / 4);
    }
    xpic(2, 300 + 176 * 4, 1, IPU21_MUX_NEUTRAL);
    pic(2, 300 + 757, 1, 0);
    pic(3, 300 + 757, 1, 0);
    /* The first select must precede the format in the log's order of issue. */
    struct sim_event select = logs[2]->events[1];
    logs[2]->events[1] = logs[2]->events[0];
    logs[2]->events[0] = select;
    ck_assert(settle_run(fabric));
    for (unsigned k = 0; k < 4; k++) {
        expect(2, TARGET + 0x1000 * k, 352, sources[k], 0);
        expect(3, TARGET + 0x1000 * k, 352, sources[k], 0);
    }
}
END_TEST

/* --- data that does not arrive as meant --- */

START_TEST(early_select_loses_nothing_late_select_loses_a_word)
{
    fill(0, SOURCE, 4);
    send(0, 135, 4, SOURCE, 1);
    xpic(1286, 113, 0, 0);
    xpic(1286, 116, 0, IPU21_MUX_NEUTRAL);
    pic(1286, 165, 0, TARGET / 4);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET, 3, 0, 1);
}
END_TEST

START_TEST(late_pointer_stores_the_first_word_elsewhere)
{
    fill(0, SOURCE, 4);
    use(1286)->state.incoming_pointer = 0xd0000;
    send(0, 135, 4, SOURCE, 1);
    xpic(1286, 112, 0, 0);
    xpic(1286, 116, 0, IPU21_MUX_NEUTRAL);
    pic(1286, 165, 0, TARGET / 4);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET, 3, 0, 1);
    ck_assert_uint_eq(get_word(1286, 0xd0000), pattern(0, 0));
}
END_TEST

START_TEST(wrong_direction_is_not_heard)
{
    fill(0, SOURCE, 3);
    send(0, 135, 3, SOURCE, 3 ^ 1);
    receive(1286, 0, 112, 3, TARGET);
    ck_assert(settle_run(fabric));
    ck_assert_uint_eq(fabric->ports[1286].received, 0);
    ck_assert_uint_eq(fabric->ports[1286].misdirected, 3);
    ck_assert_uint_eq(get_word(1286, TARGET), 0);
}
END_TEST

START_TEST(idle_slots_store_nothing_and_keep_the_pointer)
{
    fill(0, SOURCE, 8);
    send(0, 135, 4, SOURCE, 1);
    send(0, 160, 4, SOURCE + 16, 1);
    receive(1286, 0, 112, 40, TARGET);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET, 8, 0, 0);
}
END_TEST

START_TEST(pointer_change_scatters_one_stream)
{
    fill(0, SOURCE, 10);
    send(0, 135, 10, SOURCE, 1);
    xpic(1286, 112, 0, 0);
    xpic(1286, 122, 0, IPU21_MUX_NEUTRAL);
    pic(1286, 164, 0, TARGET / 4);
    pic(1286, 170, 0, (TARGET + 0x100) / 4);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET, 6, 0, 0);
    expect(1286, TARGET + 0x100, 4, 0, 6);
}
END_TEST

START_TEST(incoming_base_is_added_to_pointers)
{
    fill(0, SOURCE, 3);
    use(1286)->state.incoming_base = 0x1000;
    send(0, 135, 3, SOURCE, 1);
    receive(1286, 0, 112, 3, TARGET);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET + 0x1000, 3, 0, 0);
    ck_assert_uint_eq(logs[1286]->state.incoming_pointer, TARGET + 12);
}
END_TEST

/* 64 words arrive at tile 1286 and leave it again in the same round (facts/exchange.md section 9).
 */
START_TEST(relay_forwards_what_it_received)
{
    uint32_t again = 135 - 23 + 53 + 64 + 10;
    fill(0, SOURCE, 64);
    send(0, 135, 64, SOURCE, 1);
    receive(1286, 0, 112, 64, TARGET);
    send(1286, again, 64, TARGET, direction(1286, 274));
    receive(274, 1286, (uint32_t)((int)again + ttm(1286, 274)), 64, TARGET);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET, 64, 0, 0);
    expect(274, TARGET, 64, 0, 0);
}
END_TEST

/* A tile sends a buffer away before another tile's words replace it. */
START_TEST(sender_may_be_overwritten_after_its_send)
{
    fill(1286, TARGET, 16);
    fill(0, SOURCE, 16);
    send(1286, 100, 16, TARGET, direction(1286, 274));
    receive(274, 1286, (uint32_t)(100 + ttm(1286, 274)), 16, TARGET);
    send(0, 135, 16, SOURCE, 1);
    receive(1286, 0, 112, 16, TARGET);
    ck_assert(settle_run(fabric));
    expect(274, TARGET, 16, 1286, 0);
    expect(1286, TARGET, 16, 0, 0);
}
END_TEST

START_TEST(self_reception_needs_another_receiver)
{
    fill(0, SOURCE, 8);
    send(0, 135, 8, SOURCE, IPU21_SEND_BOTH);
    receive(0, 0, (uint32_t)(135 + ttm(0, 0)), 8, TARGET);
    receive(1286, 0, 112, 8, TARGET);
    ck_assert(settle_run(fabric));
    expect(0, TARGET, 8, 0, 0);
    expect(1286, TARGET, 8, 0, 0);
    clear_logs();
    send(0, 135, 8, SOURCE, IPU21_SEND_BOTH);
    receive(0, 0, (uint32_t)(135 + ttm(0, 0)), 8, TARGET);
    expect_fault(0, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, "no other tile receives");
}
END_TEST

/* Two receivers that take turns cover the stream; with a word between their turns they do not. */
START_TEST(self_reception_needs_each_word_to_be_heard_elsewhere)
{
    uint32_t gap = (uint32_t)_i, at = (uint32_t)(135 + ttm(0, 274));
    fill(0, SOURCE, 8);
    send(0, 135, 8, SOURCE, IPU21_SEND_BOTH);
    receive(0, 0, (uint32_t)(135 + ttm(0, 0)), 8, TARGET);
    receive(1286, 0, 112, 4, TARGET);
    receive(274, 0, at + 4 + gap, 4 - gap, TARGET);
    if (gap == 0)
        ck_assert(settle_run(fabric));
    else
        expect_fault(0, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, "no other tile receives");
}
END_TEST

/* --- illegal rows --- */

START_TEST(address_outside_sram_is_receive_error_3)
{
    fill(0, SOURCE, 3);
    send(0, 135, 3, SOURCE, 1);
    receive(1286, 0, 112, 3, IPU21_SRAM_END - 8);
    const struct sim_fault *fault =
        expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_BAD_ADDRESS, "outside SRAM");
    ck_assert_uint_eq(fault->cycle, 1000 + 112 + 52 + 1);
}
END_TEST

START_TEST(misaligned_pair_pointer_is_receive_error_3)
{
    fill(0, SOURCE, 128);
    pair_row();
    logs[3]->events[1].value = TARGET / 4 + 1;
    expect_fault(3, SIM_ETYPE_EXERR, SETTLE_BAD_ADDRESS, "misaligned");
}
END_TEST

START_TEST(send_and_receive_in_one_element_conflict)
{
    fill(0, SOURCE, 64);
    fill(1286, TARGET + 0x4000, 64);
    send(0, 135, 64, SOURCE, 1);
    receive(1286, 0, 112, 64, TARGET);
    send(1286, 170, 64, TARGET + 0x4000, 3);
    expect_fault(1286, SIM_ETYPE_EXCONF, SETTLE_CLASH_ACCESS, "words from tile 0 are stored in");
}
END_TEST

START_TEST(send_and_receive_in_one_element_at_different_times_are_legal)
{
    fill(0, SOURCE, 64);
    fill(1286, TARGET + 0x4000, 64);
    send(1286, 90, 64, TARGET + 0x4000, 3);
    send(0, 135, 64, SOURCE, 1);
    receive(1286, 0, 112, 64, TARGET);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET, 64, 0, 0);
}
END_TEST

START_TEST(receive_into_the_element_of_row_code_is_receive_error_2)
{
    fill(0, SOURCE, 3);
    send(0, 135, 3, SOURCE, 1);
    receive(1286, 0, 112, 3, ROW_PC + 0x800);
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_CLASH_FETCH, "row's own code");
}
END_TEST

START_TEST(words_after_the_tile_went_on_are_receive_error_4)
{
    fill(0, SOURCE, 3);
    send(0, 135, 3, SOURCE, 1);
    receive(1286, 0, 112, 3, TARGET);
    fabric->ports[1286].went_on = true;
    fabric->ports[1286].stop_cycle = 1000 + 167;
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_WORKERS, "went on before");
}
END_TEST

START_TEST(ordinary_words_in_pair_format_are_receive_error_7)
{
    fill(0, SOURCE, 8);
    send(0, 135, 8, SOURCE, 1);
    receive(1286, 0, 112, 8, TARGET);
    pic(1286, 170, 1, 1); /* before the last word has drained */
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_MODE, "ordinary words");
}
END_TEST

START_TEST(pair_words_without_pair_format_are_receive_error_7)
{
    fill(0, SOURCE, 128);
    pair_row();
    logs[3]->events[0].value = 2;
    expect_fault(3, SIM_ETYPE_EXERR, SETTLE_MODE, "paired words");
}
END_TEST

START_TEST(ordinary_select_of_a_64_bit_send_is_receive_error_7)
{
    fill(0, SOURCE, 8);
    send(0, 135, 4, SOURCE, 5);
    receive(1286, 0, 112, 4, TARGET);
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_MODE, "sends 64-bit items");
}
END_TEST

START_TEST(listening_to_a_lent_bus_is_receive_error_7)
{
    fill(1, SOURCE, 16);
    use(0);
    send(1, 130, 8, SOURCE, 7);
    receive(1286, 0, 112, 4, TARGET);
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_MODE, "lent to the 64-bit send of tile 1");
}
END_TEST

START_TEST(sending_on_a_lent_bus_is_a_conflict)
{
    fill(0, SOURCE, 64);
    fill(1, SOURCE, 8);
    send(0, 31, 32, SOURCE, 5);
    send(1, 62, 8, SOURCE, 3);
    expect_fault(1, SIM_ETYPE_EXCONF, SETTLE_NO_ERROR, "bus is lent");
}
END_TEST

START_TEST(late_member_must_not_select)
{
    fill(0, SOURCE, 128);
    pair_row();
    logs[2]->events[0].value = logs[2]->events[3].value = IPU21_MUX_NEUTRAL;
    xpic(3, 200, 1, 2);
    struct sim_event select = logs[3]->events[3];
    memmove(&logs[3]->events[1], &logs[3]->events[0], 3 * sizeof select);
    select.slot = 0;
    logs[3]->events[0] = select;
    expect_fault(3, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, "hears it first");
}
END_TEST

START_TEST(pair_select_with_pointer_in_one_sendpicp_is_an_address_error)
{
    struct sim_event *first = xpic(2, 50, 1, 0);
    struct sim_event *second = pic(2, 50, 0, TARGET / 4);
    second->pc = first->pc;
    expect_fault(2, SIM_ETYPE_EXERR, SETTLE_BAD_ADDRESS, "ordinary pointer");
}
END_TEST

START_TEST(pair_select_with_format_in_one_sendpicp_faults)
{
    struct sim_event *first = xpic(2, 50, 1, IPU21_MUX_NEUTRAL);
    struct sim_event *second = pic(2, 50, 1, 0);
    second->pc = first->pc;
    expect_fault(2, SIM_ETYPE_EXERR, SETTLE_CONFIGURATION, "receive format");
}
END_TEST

START_TEST(overlapping_sends_of_a_tile_conflict)
{
    fill(0, SOURCE, 64);
    send(0, 10, 20, SOURCE, 3);
    send(0, 29, 20, SOURCE, 3);
    expect_fault(0, SIM_ETYPE_EXCONF, SETTLE_NO_ERROR, "before the previous one");
}
END_TEST

/* --- counting --- */

static struct settle_row declared = {.address = ROW_PC, .bytes = 0x100};

static void declare(unsigned tile, uint32_t words)
{
    declared.words = words;
    fabric->ports[tile].rows = &declared;
    fabric->ports[tile].row_count = 1;
    fabric->strict = true;
}

static void one_transfer(void)
{
    fill(0, SOURCE, 3);
    send(0, 135, 3, SOURCE, 1);
    receive(1286, 0, 112, 3, TARGET);
}

START_TEST(strict_accepts_exactly_the_declared_words)
{
    one_transfer();
    declare(1286, 3);
    ck_assert(settle_run(fabric));
    expect(1286, TARGET, 3, 0, 0);
}
END_TEST

START_TEST(strict_refuses_missing_words)
{
    one_transfer();
    declare(1286, 4);
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_NO_ERROR,
                 "receives 3 words, its package declares 4");
}
END_TEST

START_TEST(strict_names_the_direction_when_words_go_the_other_way)
{
    one_transfer();
    logs[0]->events[0].control = 2;
    declare(1286, 3);
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_NO_ERROR, "the other way");
}
END_TEST

START_TEST(strict_refuses_words_of_an_undeclared_row)
{
    one_transfer();
    fabric->strict = true;
    expect_fault(1286, SIM_ETYPE_EXERR, SETTLE_NO_ERROR,
                 "receives 3 words, its package declares 0");
}
END_TEST

START_TEST(faulted_round_copies_nothing)
{
    one_transfer();
    declare(1286, 4);
    ck_assert(!settle_run(fabric));
    ck_assert_uint_eq(get_word(1286, TARGET), 0);
}
END_TEST

START_TEST(exhausted_memory_is_reported_as_a_fault)
{
    one_transfer();
    ipu_alloc_fail_after(_i, 1);
    bool sound = settle_run(fabric);
    ipu_alloc_fail_after(-1, 0);
    ck_assert(!sound);
    ck_assert(fabric->ports[0].faulted || fabric->ports[1286].faulted);
}
END_TEST

static Suite *settle_suite(void)
{
    Suite *suite = suite_create("sim_settle");
    TCase *vectors = tcase_create("vectors");
    tcase_add_checked_fixture(vectors, setup, teardown);
    tcase_add_test(vectors, multicast_vector_reaches_both_receivers);
    tcase_add_loop_test(vectors, unicast_vectors_deliver, 0, 4);
    tcase_add_test(vectors, chained_transfers_follow_each_other_without_a_gap);
    tcase_add_test(vectors, pair_vector_reaches_both_members);
    tcase_add_test(vectors, back_to_back_pair_transfers_keep_the_format);
    suite_add_tcase(suite, vectors);

    TCase *data = tcase_create("data");
    tcase_add_checked_fixture(data, setup, teardown);
    tcase_add_test(data, early_select_loses_nothing_late_select_loses_a_word);
    tcase_add_test(data, late_pointer_stores_the_first_word_elsewhere);
    tcase_add_test(data, wrong_direction_is_not_heard);
    tcase_add_test(data, idle_slots_store_nothing_and_keep_the_pointer);
    tcase_add_test(data, pointer_change_scatters_one_stream);
    tcase_add_test(data, incoming_base_is_added_to_pointers);
    tcase_add_test(data, relay_forwards_what_it_received);
    tcase_add_test(data, sender_may_be_overwritten_after_its_send);
    tcase_add_test(data, self_reception_needs_another_receiver);
    tcase_add_loop_test(data, self_reception_needs_each_word_to_be_heard_elsewhere, 0, 2);
    suite_add_tcase(suite, data);

    TCase *illegal = tcase_create("illegal");
    tcase_add_checked_fixture(illegal, setup, teardown);
    tcase_add_test(illegal, address_outside_sram_is_receive_error_3);
    tcase_add_test(illegal, misaligned_pair_pointer_is_receive_error_3);
    tcase_add_test(illegal, send_and_receive_in_one_element_conflict);
    tcase_add_test(illegal, send_and_receive_in_one_element_at_different_times_are_legal);
    tcase_add_test(illegal, receive_into_the_element_of_row_code_is_receive_error_2);
    tcase_add_test(illegal, words_after_the_tile_went_on_are_receive_error_4);
    tcase_add_test(illegal, ordinary_words_in_pair_format_are_receive_error_7);
    tcase_add_test(illegal, pair_words_without_pair_format_are_receive_error_7);
    tcase_add_test(illegal, ordinary_select_of_a_64_bit_send_is_receive_error_7);
    tcase_add_test(illegal, listening_to_a_lent_bus_is_receive_error_7);
    tcase_add_test(illegal, sending_on_a_lent_bus_is_a_conflict);
    tcase_add_test(illegal, late_member_must_not_select);
    tcase_add_test(illegal, pair_select_with_pointer_in_one_sendpicp_is_an_address_error);
    tcase_add_test(illegal, pair_select_with_format_in_one_sendpicp_faults);
    tcase_add_test(illegal, overlapping_sends_of_a_tile_conflict);
    suite_add_tcase(suite, illegal);

    TCase *strict = tcase_create("strict");
    tcase_add_checked_fixture(strict, setup, teardown);
    tcase_add_test(strict, strict_accepts_exactly_the_declared_words);
    tcase_add_test(strict, strict_refuses_missing_words);
    tcase_add_test(strict, strict_names_the_direction_when_words_go_the_other_way);
    tcase_add_test(strict, strict_refuses_words_of_an_undeclared_row);
    tcase_add_test(strict, faulted_round_copies_nothing);
    tcase_add_loop_test(strict, exhausted_memory_is_reported_as_a_fault, 0, 6);
    suite_add_tcase(suite, strict);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(settle_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
