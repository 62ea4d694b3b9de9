/* module: compiler/exchange */
/* The verifier must refuse whatever is wrong: here right schedules are damaged in every way that
 * one can think of. */
#include "exchange_phases.h"

#include "device/ipu21/exchange.h"
#include "device/ipu21/topology.h"

#include <stdio.h>
#include <stdlib.h>

struct subject {
    struct phase_builder builder;
    struct exchange_phase phase;
    struct exchange_schedule *schedule;
};

static struct subject subject;

/* Unicasts, multicasts, chains, a self-receive and long sends on a few tiles: rows with every kind
 * of instruction. */
static void set_up(void)
{
    struct subject *s = &subject;
    struct ipu_error error = {0};
    phase_begin(&s->builder, 64);
    phase_random(&s->builder, 4242, 30, 6, 60, false);
    s->phase = phase_end(&s->builder);
    s->schedule = ARENA_NEW(s->builder.arena, struct exchange_schedule);
    int code = exchange_schedule(&s->phase, 0, s->builder.arena, s->schedule, &error);
    ck_assert_msg(code == 0, "%s", error.text);
}

static void tear_down(void)
{
    phase_free(&subject.builder);
}

static int verify(void)
{
    struct ipu_error error = {0};
    struct arena *arena = arena_create(0);
    int code = exchange_verify(&subject.phase, subject.schedule, arena, &error);
    arena_destroy(arena);
    ck_assert(code == 0 || code == IPU_ERR_INTERNAL);
    ck_assert((code == 0) == (error.text[0] == '\0'));
    return code;
}

static struct exchange_row *row_of(unsigned tile)
{
    struct exchange_row *row = &subject.schedule->rows[tile];
    ck_assert_ptr_nonnull(row->words);
    return row;
}

START_TEST(the_undamaged_schedule_is_accepted)
{
    ck_assert_int_eq(verify(), 0);
}
END_TEST

static bool is_send(uint32_t word)
{
    return word >> 27 == 15 || (word >> 28 == 7 && !(word & 0x00100000) && word >> 27 != 15) ||
           (word >> 28 == 15 && (word & 7));
}

static void flip_each_bit(uint32_t *word, bool second)
{
    const uint32_t old = *word;
    for (unsigned bit = 0; bit < 32; bit++) {
        *word = old ^ UINT32_C(1) << bit;
        /* another set of directions may reach all receivers, too: see the next test */
        bool turned = bit < 2 && !second && is_send(old) && (*word & 3);
        int code = verify();
        ck_assert_msg(turned || code, "bit %u: %08x became %08x", bit, old, *word);
    }
    *word = old;
}

START_TEST(every_flipped_bit_is_refused)
{
    unsigned tried = 0;
    for (unsigned t = 30; t < 36; t++) {
        struct exchange_row *row = row_of(t);
        for (uint32_t i = 0; i < row->count; i++) {
            bool second =
                i && row->words[i - 1] >> 28 == 15; /* operands of a two-word form, maybe */
            flip_each_bit(&row->words[i], second);
            tried += 32;
        }
    }
    ck_assert_uint_gt(tried, 2000);
}
END_TEST

START_TEST(a_send_in_the_wrong_direction_is_refused)
{
    for (uint16_t target = 1; target < 1472; target += 97) {
        struct phase_builder b;
        struct ipu_error error = {0};
        phase_begin(&b, 1);
        phase_add(&b, 0, 3, &target, 1);
        struct exchange_phase phase = phase_end(&b);
        struct exchange_schedule *out = ARENA_NEW(b.arena, struct exchange_schedule);
        ck_assert_int_eq(exchange_schedule(&phase, 0, b.arena, out, &error), 0);
        uint32_t *words = out->rows[0].words;
        uint32_t *send = words[0] >> 27 == 15 ? &words[0] : &words[1];
        ck_assert_uint_eq(*send & 7, ipu21_direction(ipu21_physical(0), ipu21_physical(target)));
        *send ^= 3;
        ck_assert_int_ne(exchange_verify(&phase, out, b.arena, &error), 0);
        ck_assert_msg(strstr(error.text, "other way") != NULL, "%s", error.text);
        phase_free(&b);
    }
}
END_TEST

/* A control that moves by one event while the row keeps its length: two neighbouring counts change
 * against each other. */
START_TEST(every_shifted_control_is_refused)
{
    unsigned tried = 0;
    for (unsigned t = 30; t < 36; t++) {
        struct exchange_row *row = row_of(t);
        for (uint32_t i = 0; i + 1 < row->count; i++) {
            uint32_t a = row->words[i], b = row->words[i + 1];
            bool select = a >> 26 == 0x19, pointer = a >> 26 == 0x18,
                 delay = b >> 19 == 0x40a00000u >> 19;
            if ((!select && !pointer) || !delay || (b & 0x7ffff) == 0)
                continue;
            row->words[i] += select ? 1u << 14 : 1u << 19;
            row->words[i + 1]--;
            ck_assert_int_ne(verify(), 0);
            row->words[i] = a;
            row->words[i + 1] = b;
            tried++;
        }
    }
    ck_assert_uint_gt(tried, 5);
}
END_TEST

START_TEST(every_swap_of_two_rows_is_refused)
{
    for (unsigned a = 30; a < 36; a++) {
        for (unsigned b = a + 1; b < 36; b++) {
            struct exchange_row x = *row_of(a), y = *row_of(b);
            subject.schedule->rows[a] = y;
            subject.schedule->rows[b] = x;
            ck_assert_int_ne(verify(), 0);
            subject.schedule->rows[a] = x;
            subject.schedule->rows[b] = y;
        }
    }
}
END_TEST

START_TEST(every_swap_of_two_words_is_refused)
{
    for (unsigned t = 30; t < 36; t++) {
        struct exchange_row *row = row_of(t);
        for (uint32_t i = 0; i + 1 < row->count; i++) {
            uint32_t a = row->words[i], b = row->words[i + 1];
            if (a == b)
                continue;
            row->words[i] = b;
            row->words[i + 1] = a;
            bool idle = a >> 19 == 0x40a00000u >> 19 && b >> 19 == 0x40a00000u >> 19;
            ck_assert_msg(idle || verify() != 0, "tile %u words %u and %u", t, i, i + 1);
            row->words[i] = a;
            row->words[i + 1] = b;
        }
    }
}
END_TEST

START_TEST(a_missing_row_is_refused)
{
    for (unsigned t = 30; t < 36; t++) {
        struct exchange_row old = *row_of(t);
        subject.schedule->rows[t] = (struct exchange_row){0};
        ck_assert_int_ne(verify(), 0);
        subject.schedule->rows[t] = old;
    }
}
END_TEST

START_TEST(a_row_without_need_is_refused)
{
    static uint32_t words[] = {0x40a00007, 0x43a00000};
    subject.schedule->rows[700] = (struct exchange_row){words, 2, 0, 8};
    ck_assert_int_eq(verify(), 0); /* idling alone does no harm */
    static uint32_t sends[] = {0x78000000 | 7u << 21 | 0x20000 << 3 | 3, 0x43a00000};
    subject.schedule->rows[700] = (struct exchange_row){sends, 2, 0, 8};
    ck_assert_int_eq(verify(), 0); /* nor does a send that nobody hears */
    static uint32_t listens[] = {0x64000000 | 4u << 14 | 0, 0x64000000 | 3u << 14 | 0x640,
                                 0x60000000 | 60u << 19 | 0x20000, 0x40a00040, 0x43a00000};
    subject.schedule->rows[700] = (struct exchange_row){listens, 5, 4, 5 + 4 + 61 + 65};
    ck_assert_int_ne(verify(), 0);
}
END_TEST

START_TEST(wrong_declarations_are_refused)
{
    for (int field = 0; field < 3; field++) { /* an absent row claims words, receives or time */
        struct exchange_row absent = {NULL, field == 0, field == 1, field == 2};
        subject.schedule->rows[700] = absent;
        ck_assert_int_ne(verify(), 0);
    }
    subject.schedule->rows[700] = (struct exchange_row){0};
    struct exchange_row *row = row_of(31);
    row->receive_words++;
    ck_assert_int_ne(verify(), 0);
    row->receive_words--;
    row->horizon++;
    ck_assert_int_ne(verify(), 0);
    row->horizon--;
    subject.schedule->horizon++;
    ck_assert_int_ne(verify(), 0);
    subject.schedule->horizon--;
    ck_assert_int_eq(verify(), 0);
}
END_TEST

START_TEST(a_transfer_that_is_not_in_the_rows_is_refused)
{
    subject.phase.count--;
    ck_assert_int_ne(verify(), 0);
    subject.phase.count++;
    struct exchange_transfer *t = &subject.builder.transfers[3];
    t->address += 4;
    ck_assert_int_ne(verify(), 0);
    t->address -= 4;
    t->words--;
    ck_assert_int_ne(verify(), 0);
    t->words++;
    ck_assert_int_eq(verify(), 0);
}
END_TEST

/* --- phases that no schedule makes right --- */

static int schedule_and_verify(struct phase_builder *b, const uint32_t *code, char *text)
{
    struct ipu_error error = {0};
    struct exchange_phase phase = phase_end(b);
    struct exchange_schedule *out = ARENA_NEW(b->arena, struct exchange_schedule);
    int result = exchange_schedule(&phase, 0, b->arena, out, &error);
    phase.code_elements = code;
    if (!result)
        result = exchange_verify(&phase, out, b->arena, &error);
    memcpy(text, error.text, sizeof error.text);
    return result;
}

START_TEST(two_transfers_to_one_word_are_refused)
{
    struct phase_builder b;
    char text[IPU_ERROR_TEXT];
    struct exchange_target one = {5, 0x60000}, two = {5, 0x60010};
    phase_begin(&b, 2);
    phase_add_at(&b, 0, 0x90000, 5, &one, 1);
    phase_add_at(&b, 1, 0x90000, 5, &two, 1);
    ck_assert_int_ne(schedule_and_verify(&b, NULL, text), 0);
    phase_free(&b);
}
END_TEST

START_TEST(a_transfer_that_reads_what_another_writes_is_refused)
{
    struct phase_builder b;
    char text[IPU_ERROR_TEXT];
    struct exchange_target one = {5, 0x60000}, two = {6, 0x70000};
    phase_begin(&b, 2);
    phase_add_at(&b, 0, 0x90000, 5, &one, 1);
    phase_add_at(&b, 5, 0x60010, 5, &two, 1);
    ck_assert_int_ne(schedule_and_verify(&b, NULL, text), 0);
    ck_assert_msg(strstr(text, "another transfer") != NULL, "%s", text);
    phase_free(&b);
}
END_TEST

START_TEST(a_granule_of_the_row_code_is_refused)
{
    static uint32_t code[PHASE_TILES] = {[5] = 1u << 5}; /* 0x60000 */
    struct phase_builder b;
    char text[IPU_ERROR_TEXT];
    struct exchange_target to = {5, 0x60000};
    phase_begin(&b, 1);
    phase_add_at(&b, 0, 0x90000, 5, &to, 1);
    ck_assert_int_ne(schedule_and_verify(&b, code, text), 0);
    ck_assert_msg(strstr(text, "granule of its row") != NULL, "%s", text);
    phase_free(&b);
}
END_TEST

/* A tile that sends and stores in one granule at once: made by lying about the address of the send
 * afterwards. */
START_TEST(a_send_and_a_store_in_one_granule_are_refused)
{
    struct phase_builder b;
    struct ipu_error error = {0};
    struct exchange_target to = {0, 0x60000}, from = {1, 0x60000};
    phase_begin(&b, 2);
    phase_add_at(&b, 1, 0x90000, 600, &to, 1);
    phase_add_at(&b, 0, 0x90000, 600, &from, 1);
    struct exchange_phase phase = phase_end(&b);
    struct exchange_schedule *out = ARENA_NEW(b.arena, struct exchange_schedule);
    ck_assert_int_eq(exchange_schedule(&phase, 0, b.arena, out, &error), 0);
    ck_assert_int_eq(exchange_verify(&phase, out, b.arena, &error), 0);
    struct exchange_row *row = &out->rows[0];
    for (uint32_t i = 0; i < row->count;
         i++) { /* every absolute address moves to the granule of 0x60000 */
        bool absolute = row->words[i] >> 27 == 15 && (row->words[i] & 7);
        bool pair = row->words[i] >> 28 == 15 && (row->words[i] & 7);
        if (absolute || pair)
            row->words[i] -= (0x90000 - 0x62000) / 4 << 3;
        i += row->words[i] >> 28 == 15;
    }
    b.transfers[1].address = 0x62000;
    ck_assert_int_ne(exchange_verify(&phase, out, b.arena, &error), 0);
    ck_assert_msg(strstr(error.text, "one granule") != NULL, "%s", error.text);
    phase_free(&b);
}
END_TEST

START_TEST(verifying_without_memory_is_an_error)
{
    for (size_t budget = 1000; budget < 400000; budget += 7919) {
        struct ipu_error error = {0};
        struct arena *arena = arena_create(budget);
        int code = exchange_verify(&subject.phase, subject.schedule, arena, &error);
        ck_assert(code == 0 || code == IPU_ERR_NO_MEMORY);
        arena_destroy(arena);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange verifier");
    TCase *tc = tcase_create("damage");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, the_undamaged_schedule_is_accepted);
    tcase_add_test(tc, every_flipped_bit_is_refused);
    tcase_add_test(tc, a_send_in_the_wrong_direction_is_refused);
    tcase_add_test(tc, every_shifted_control_is_refused);
    tcase_add_test(tc, every_swap_of_two_rows_is_refused);
    tcase_add_test(tc, every_swap_of_two_words_is_refused);
    tcase_add_test(tc, a_missing_row_is_refused);
    tcase_add_test(tc, a_row_without_need_is_refused);
    tcase_add_test(tc, wrong_declarations_are_refused);
    tcase_add_test(tc, a_transfer_that_is_not_in_the_rows_is_refused);
    tcase_add_test(tc, two_transfers_to_one_word_are_refused);
    tcase_add_test(tc, a_transfer_that_reads_what_another_writes_is_refused);
    tcase_add_test(tc, a_granule_of_the_row_code_is_refused);
    tcase_add_test(tc, a_send_and_a_store_in_one_granule_are_refused);
    tcase_add_test(tc, verifying_without_memory_is_an_error);
    suite_add_tcase(suite, tc);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
