/* module: device/driver */
/* Waiting, marks, delays and cancelling on a fake device whose clock moves by its pauses alone. */
#include "driver_fake_kernel.h"

#include <stdlib.h>

static atomic_bool cancel;

static void setup(void)
{
    fake_setup();
    atomic_store(&cancel, false);
    card.options.cancel = &cancel;
}

START_TEST(rendezvous_writes_the_mark_and_waits_for_zero)
{
    ck_assert_int_eq(card_rendezvous(&card, CARD_GS2, 23, &error), 0);
    ck_assert_uint_eq(fake.event_count, 1);
    expect_event(0, FAKE_WRITE, 0x3030, 23);
    ck_assert_uint_eq(fake.pauses, 1);
    ck_assert_uint_eq(fake.longest_pause, 100);
}
END_TEST

START_TEST(stuck_mark_times_out_after_ten_seconds)
{
    fake.marks_stuck = true;
    ck_assert_int_eq(card_rendezvous(&card, CARD_GS1, 7, &error), IPU_ERR_TIMEOUT);
    expect_text("mark GS1 was set to 7, should read 0 and reads 7");
    ck_assert_uint_ge(fake.now_us, 10000000);
    ck_assert_uint_lt(fake.now_us, 10200000);
    ck_assert_uint_lt(fake.pauses, 2000); /* polls move apart */
}
END_TEST

/* A poll is never late by more than a part of what was waited anyway. */
START_TEST(polls_move_apart_slowly)
{
    uint32_t seen;
    struct card_wait wait = {.offset = 0x4000, .mask = 1, .wanted = 1, .end_us = 100 * (1u << _i)};
    ck_assert_int_eq(card_wait(&card, &wait, &seen, &error), IPU_ERR_TIMEOUT);
    ck_assert_uint_le(fake.longest_pause, 100 + wait.end_us / 8);
}
END_TEST

START_TEST(longer_wall_clock_limit_also_moves_the_limit_of_device_time)
{
    fake.marks_stuck = true;
    card.options.timeout_ms = 20000;
    ck_assert_int_eq(card_rendezvous(&card, CARD_GS1, 7, &error), IPU_ERR_TIMEOUT);
    expect_text("in 20000 ms");
    ck_assert_uint_ge(fake.now_us, 20000000);
}
END_TEST

START_TEST(call_beyond_its_cycles_is_a_fault)
{
    fake.marks_stuck = true;
    card.options.cycle_limit = 1500 * 1000;
    card_begin_call(&card);
    ck_assert_int_eq(card_rendezvous(&card, CARD_GS2, 1, &error), IPU_ERR_DEVICE_FAULT);
    expect_text("more than 1500000 cycles");
    ck_assert_uint_ge(fake.now_us, 1000);
    ck_assert_uint_lt(fake.now_us, 1200);
}
END_TEST

START_TEST(cancel_ends_a_wait)
{
    fake.marks_stuck = true;
    fake.cancel_at = &cancel;
    fake.cancel_after = 5;
    ck_assert_int_eq(card_rendezvous(&card, CARD_GS2, 1, &error), IPU_ERR_CANCELLED);
    ck_assert_uint_eq(fake.pauses, 5);
}
END_TEST

START_TEST(device_of_all_ones_has_gone)
{
    fake.gone = true;
    ck_assert_int_eq(card_rendezvous(&card, CARD_GS2, 1, &error), IPU_ERR_DEVICE_FAULT);
    expect_text("has gone: all of its registers read ones");
    ck_assert_uint_eq(fake.pauses, 0);
}
END_TEST

START_TEST(one_register_of_all_ones_is_a_value)
{
    uint32_t seen;
    struct card_wait wait = {.offset = 0x4000, .mask = 0xf0, .wanted = 0xf0, .end_us = 1000};
    fake.registers[0x4000 / 4] = UINT32_MAX;
    ck_assert_int_eq(card_wait(&card, &wait, &seen, &error), 0);
    ck_assert_uint_eq(seen, UINT32_MAX);
}
END_TEST

/* --- delays --- */

static uint64_t delay_of_mark(void)
{
    uint64_t before = fake.now_us;
    card_mark_write(&card, CARD_GS2, 1);
    return fake.now_us - before;
}

START_TEST(every_mark_is_delayed_by_a_random_time_up_to_the_limit)
{
    uint64_t longest = 0, sum = 0;
    card.options.jitter_us = 1000;
    for (unsigned i = 0; i < 200; i++) {
        uint64_t us = delay_of_mark();
        ck_assert_uint_le(us, 1000);
        longest = us > longest ? us : longest;
        sum += us;
    }
    ck_assert_uint_gt(longest, 900);
    ck_assert_uint_gt(sum, 200 * 400);
    ck_assert_uint_lt(sum, 200 * 600);
}
END_TEST

START_TEST(seed_decides_the_delays)
{
    uint64_t first[8], different = 0;
    card.options.jitter_us = 100000;
    card.random = 11;
    for (unsigned i = 0; i < 8; i++)
        first[i] = delay_of_mark();
    card.random = 11;
    for (unsigned i = 0; i < 8; i++)
        ck_assert_uint_eq(delay_of_mark(), first[i]);
    card.random = 12;
    for (unsigned i = 0; i < 8; i++)
        different += delay_of_mark() != first[i];
    ck_assert_uint_gt(different, 6);
}
END_TEST

START_TEST(without_jitter_marks_are_not_delayed)
{
    ck_assert_uint_eq(delay_of_mark(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_card");
    TCase *t = tcase_create("card");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, rendezvous_writes_the_mark_and_waits_for_zero);
    tcase_add_test(t, stuck_mark_times_out_after_ten_seconds);
    tcase_add_loop_test(t, polls_move_apart_slowly, 4, 16);
    tcase_add_test(t, longer_wall_clock_limit_also_moves_the_limit_of_device_time);
    tcase_add_test(t, call_beyond_its_cycles_is_a_fault);
    tcase_add_test(t, cancel_ends_a_wait);
    tcase_add_test(t, device_of_all_ones_has_gone);
    tcase_add_test(t, one_register_of_all_ones_is_a_value);
    tcase_add_test(t, every_mark_is_delayed_by_a_random_time_up_to_the_limit);
    tcase_add_test(t, seed_decides_the_delays);
    tcase_add_test(t, without_jitter_marks_are_not_delayed);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
