/* module: compiler/exchange */
/* Exchange schedules: vendor vectors word for word, random legal phases proven by the verifier,
 * refusals, bounds. */
#include "exchange_phases.h"

#include "device/ipu21/exchange.h"
#include "device/ipu21/topology.h"

#include <stdio.h>
#include <stdlib.h>

struct run {
    struct arena *arena;
    struct exchange_schedule *out;
};

static struct run schedule(const struct exchange_phase *phase, unsigned effort)
{
    struct run r = {arena_create(0), NULL};
    struct ipu_error error = {0};
    r.out = ARENA_NEW(r.arena, struct exchange_schedule);
    int code = exchange_schedule(phase, effort, r.arena, r.out, &error);
    ck_assert_msg(code == 0, "%s", error.text);
    code = exchange_verify(phase, r.out, r.arena, &error);
    ck_assert_msg(code == 0, "%s", error.text);
    return r;
}

static void assert_row(const struct run *r, unsigned tile, const uint32_t *words, uint32_t count)
{
    const struct exchange_row *row = &r->out->rows[tile];
    for (uint32_t i = 0; i < count && i < row->count; i++)
        ck_assert_msg(row->words[i] == words[i], "tile %u word %u: %08x, expected %08x", tile, i,
                      row->words[i], words[i]);
    ck_assert_uint_eq(row->count, count);
}

/* --- vendor vectors (facts/exchange.md sections 3 to 5) --- */

START_TEST(vendor_multicast_of_three_words_is_reproduced)
{
    struct phase_builder b;
    phase_begin(&b, 1);
    struct exchange_target to[] = {{274, 0x50000}, {1286, 0x50000}};
    phase_add_at(&b, 0, 0x60000, 3, to, 2);
    struct exchange_phase phase = phase_end(&b);
    struct run r = schedule(&phase, 0);
    /* delay imm 0x16, both directions */
    const uint32_t sender[] = {0x40a00016, ipu21_send(3, 0x18000, 3), 0x43a00000};
    const uint32_t receiver[] = {0x64000000, ipu21_delayxpic(3, 0, 0x640), 0x61814000,
                                 ipu21_delay(8), 0x43a00000};
    assert_row(&r, 0, sender, 3);
    assert_row(&r, 1286, receiver, 5);
    ck_assert_uint_eq(r.out->rows[1286].horizon, 0 + 1 + 52 + 3 + 5);
    ck_assert_uint_eq(r.out->rows[274].receive_words, 3);
    arena_destroy(r.arena);
    phase_free(&b);
}
END_TEST

/* Logical source and target, words, and what the vendor's point-to-point rows say: sender delay =
 * 112 - ttm events. */
static const struct {
    uint16_t source, target;
    uint32_t words, delay, direction;
} points[] = {{0, 1286, 3, 0x86, 1},
              {736, 100, 52, 0x3e, 2},
              {1286, 1471, 65, 0x7d, 2},
              {32, 0, 4148, 0x6c, 1}};

START_TEST(vendor_point_to_point_routes_are_reproduced)
{
    struct phase_builder b;
    phase_begin(&b, 1);
    struct exchange_target to = {points[_i].target, 0x50000};
    phase_add_at(&b, points[_i].source, 0x90000, points[_i].words, &to, 1);
    struct exchange_phase phase = phase_end(&b);
    struct run r = schedule(&phase, 0);
    int ttm = 111 - (int)points[_i].delay, start = ttm < 0 ? -ttm : 0;
    const uint32_t *words = r.out->rows[points[_i].source].words;
    uint32_t sent = points[_i].words < 64 ? points[_i].words : 64;
    if (start > 0)
        ck_assert_uint_eq(*words++, ipu21_delay((uint32_t)start));
    ck_assert_uint_eq(*words++, ipu21_send(sent, 0x24000, points[_i].direction));
    if (sent < points[_i].words)
        ck_assert_uint_eq(*words++,
                          ipu21_sendoff(points[_i].words - sent, 0, points[_i].direction));
    ck_assert_uint_eq(r.out->rows[points[_i].target].words[0] & 0xfffc0000,
                      ipu21_delayxpic((uint32_t)(start + ttm + 1), 0, 0) & 0xfffc0000);
    arena_destroy(r.arena);
    phase_free(&b);
}
END_TEST

START_TEST(vendor_chain_of_four_receives_cuts_over_directly)
{
    /* Four sources to a tile of row 0, 52 words each: selects 52 slots apart. */
    struct phase_builder b;
    phase_begin(&b, 4);
    unsigned target = ipu21_logical(0);
    unsigned from[4] = {ipu21_logical(4), ipu21_logical(66), ipu21_logical(128), ipu21_logical(20)};
    for (unsigned k = 0; k < 4; k++) {
        struct exchange_target to = {(uint16_t)target, 0x54000 + 0x800 * k};
        phase_add_at(&b, from[k], 0x90000, 52, &to, 1);
    }
    struct exchange_phase phase = phase_end(&b);
    struct run r = schedule(&phase, 0);
    const struct exchange_row *row = &r.out->rows[target];
    uint32_t first = row->words[0] >> 14 & 0xfff; /* slot of the first select */
    ck_assert_uint_eq(row->words[0] >> 26, 0x19);
    /* then select and pointer coincide every 52 events: row 0, so the pointer is 52 after its
     * select */
    ck_assert_uint_eq(row->horizon, first + 1 + 4 * 52 + 52 + 5);
    unsigned pairs = 0;
    for (uint32_t i = 0; i + 1 < row->count; i += row->words[i] >> 28 == 15 ? 2 : 1) {
        if (row->words[i] >> 28 == 15) {
            ck_assert_uint_eq(i % 2, 0);
            pairs++;
        }
    }
    ck_assert_uint_eq(pairs, 4);
    arena_destroy(r.arena);
    phase_free(&b);
}
END_TEST

START_TEST(vendor_timed_pair_word_is_reproduced)
{
    ck_assert_uint_eq(ipu21_sendpicp0(43, 0x14021, 1, 0), 0xf54a0109);
    ck_assert_uint_eq(ipu21_sendpicp1(0x640, 0x15000), 0x19015000);
}
END_TEST
/* --- properties --- */

START_TEST(random_phases_verify)
{
    struct phase_builder b;
    static const struct {
        unsigned base, tiles;
        uint32_t count;
    } shapes[] = {{0, 2, 6}, {40, 4, 40}, {0, 0, 300}, {700, 16, 200}, {1460, 30, 150}, {3, 9, 12}};
    unsigned k = (unsigned)_i % 6;
    phase_begin(&b, shapes[k].count);
    phase_random(&b, (uint64_t)_i * 1000003, shapes[k].base, shapes[k].tiles, shapes[k].count,
                 false);
    struct exchange_phase phase = phase_end(&b);
    struct run r = schedule(&phase, (unsigned)_i / 6 % 2);
    ck_assert_uint_ge(r.out->horizon, r.out->lower_bound);
    arena_destroy(r.arena);
    phase_free(&b);
}
END_TEST

START_TEST(random_phases_in_shared_granules_verify)
{
    struct phase_builder b;
    phase_begin(&b, 120);
    phase_random(&b, (uint64_t)_i * 7919 + 5, 50, 8, 120, true);
    struct exchange_phase phase = phase_end(&b);
    struct run r = schedule(&phase, (unsigned)_i % 2);
    arena_destroy(r.arena);
    phase_free(&b);
}
END_TEST

START_TEST(self_receive_of_every_size_verifies)
{
    for (uint32_t words = 1; words < 130; words++) {
        struct phase_builder b;
        phase_begin(&b, 2);
        unsigned tile = (words * 131) % 1472;
        /* the second one reads and writes one granule of the sender */
        struct exchange_target one[] = {{(uint16_t)tile, 0xb8000},
                                        {(uint16_t)((tile + 5) % 1472), 0xb8000}};
        struct exchange_target two[] = {{(uint16_t)((tile + 9) % 1472), 0xb9000},
                                        {(uint16_t)tile, 0x91000}};
        phase_add_at(&b, tile, 0x88000, words, one, 2);
        phase_add_at(&b, tile, 0x90000, words, two, 2);
        struct exchange_phase phase = phase_end(&b);
        struct run r = schedule(&phase, 0);
        arena_destroy(r.arena);
        phase_free(&b);
    }
}
END_TEST

START_TEST(equal_phases_give_equal_rows)
{
    struct phase_builder b;
    phase_begin(&b, 200);
    phase_random(&b, 77, 100, 24, 200, false);
    struct exchange_phase phase = phase_end(&b);
    struct run x = schedule(&phase, 2), y = schedule(&phase, 2);
    for (unsigned t = 0; t < 1472; t++) {
        const struct exchange_row *p = &x.out->rows[t], *q = &y.out->rows[t];
        ck_assert_uint_eq(p->count, q->count);
        if (p->count)
            ck_assert_mem_eq(p->words, q->words, p->count * 4);
    }
    arena_destroy(x.arena);
    arena_destroy(y.arena);
    phase_free(&b);
}
END_TEST

START_TEST(an_empty_phase_has_no_rows)
{
    struct exchange_phase phase = {0};
    struct run r = schedule(&phase, 3);
    ck_assert_uint_eq(r.out->horizon, 0);
    ck_assert_ptr_null(r.out->rows[0].words);
    arena_destroy(r.arena);
}
END_TEST

/* --- refusals --- */

static const struct {
    unsigned source;
    uint32_t address, words;
    unsigned target;
    uint32_t target_address;
    const char *what;
} malformed[] = {{1472, 0x60000, 1, 1, 0x60000, "malformed"},
                 {0, 0x60002, 1, 1, 0x60000, "malformed"},
                 {0, 0x60000, 0, 1, 0x60000, "malformed"},
                 {0, 0xe7ffc, 2, 1, 0x60000, "malformed"},
                 {0, 0x4bffc, 1, 1, 0x60000, "malformed"},
                 {0, 0x60000, 1, 1472, 0x60000, "tile 1472"},
                 {0, 0x60000, 1, 1, 0xe8000, "0xe8000"},
                 {3, 0x60000, 1, 3, 0x64000, "to itself alone"},
                 {7, 0x4c000, 1, 1, 0x60000, "beside the running row"},
                 {1, 0x60000, 1, 7, 0x4c000, "beside the running row"}};

START_TEST(a_malformed_transfer_is_refused)
{
    struct phase_builder b;
    static uint32_t code[1472] = {[7] = 1};
    phase_begin(&b, 1);
    struct exchange_target to = {(uint16_t)malformed[_i].target, malformed[_i].target_address};
    phase_add_at(&b, malformed[_i].source, malformed[_i].address, malformed[_i].words, &to, 1);
    struct exchange_phase phase = phase_end(&b);
    phase.code_elements = code;
    struct ipu_error error = {0};
    static struct exchange_schedule out;
    int result = exchange_schedule(&phase, 0, b.arena, &out, &error);
    ck_assert_int_eq(result, IPU_ERR_INTERNAL);
    ck_assert_msg(strstr(error.text, malformed[_i].what) != NULL, "%s", error.text);
    phase_free(&b);
}
END_TEST

START_TEST(a_tile_named_twice_is_refused)
{
    struct phase_builder b;
    phase_begin(&b, 1);
    struct exchange_target to[] = {{4, 0x60000}, {4, 0x68000}};
    phase_add_at(&b, 0, 0x60000, 4, to, 2);
    struct exchange_phase phase = phase_end(&b);
    struct ipu_error error = {0};
    static struct exchange_schedule out;
    int result = exchange_schedule(&phase, 0, b.arena, &out, &error);
    ck_assert_int_eq(result, IPU_ERR_INTERNAL);
    phase_free(&b);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

int main(void)
{
    Suite *suite = suite_create("exchange schedule");
    TCase *tc = tcase_create("schedule");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, vendor_multicast_of_three_words_is_reproduced);
    tcase_add_loop_test(tc, vendor_point_to_point_routes_are_reproduced, 0, COUNT(points));
    tcase_add_test(tc, vendor_chain_of_four_receives_cuts_over_directly);
    tcase_add_test(tc, vendor_timed_pair_word_is_reproduced);
    tcase_add_loop_test(tc, random_phases_verify, 0, 60);
    tcase_add_loop_test(tc, random_phases_in_shared_granules_verify, 0, 20);
    tcase_add_test(tc, self_receive_of_every_size_verifies);
    tcase_add_test(tc, equal_phases_give_equal_rows);
    tcase_add_test(tc, an_empty_phase_has_no_rows);
    tcase_add_loop_test(tc, a_malformed_transfer_is_refused, 0, COUNT(malformed));
    tcase_add_test(tc, a_tile_named_twice_is_refused);
    suite_add_tcase(suite, tc);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
