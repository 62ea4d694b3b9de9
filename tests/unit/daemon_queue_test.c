/* module: daemon */
/* Tests of the waiting line: fairness between users, priorities, ageing, positions. */
#include "daemon/queue.h"

#include "base/alloc.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t SECOND = 1000000000u;
static struct queue queue;

static void setup(void)
{
    queue_init(&queue, 60 * SECOND);
}

static void teardown(void)
{
    queue_free(&queue);
}

static void push(uint64_t job, uint32_t uid, int priority, uint64_t since)
{
    struct queue_entry entry = {job, uid, priority, since};
    ck_assert(queue_push(&queue, &entry));
}

static void expect_order(const uint64_t *jobs, size_t count, uint64_t now)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(queue_pick(&queue, now, NULL, NULL), jobs[i]);
    ck_assert_uint_eq(queue_pick(&queue, now, NULL, NULL), 0);
}

START_TEST(one_user_is_served_in_order)
{
    push(1, 7, 0, 0);
    push(2, 7, 0, 0);
    push(3, 7, 0, 0);
    expect_order((uint64_t[]){1, 2, 3}, 3, 0);
}
END_TEST

START_TEST(users_take_turns)
{
    for (uint64_t i = 1; i <= 4; i++)
        push(i, 7, 0, 0);
    push(5, 8, 0, 0);
    push(6, 8, 0, 0);
    push(7, 9, 0, 0);
    expect_order((uint64_t[]){1, 5, 7, 2, 6, 3, 4}, 7, 0);
}
END_TEST

START_TEST(newcomer_goes_before_all_who_were_served)
{
    for (uint64_t i = 1; i <= 6; i++)
        push(i, 7 + (uint32_t)(i % 2), 0, 0);
    ck_assert_uint_eq(queue_pick(&queue, 0, NULL, NULL), 1);
    ck_assert_uint_eq(queue_pick(&queue, 0, NULL, NULL), 2);
    push(7, 9, 0, 0);
    push(8, 10, 0, 0);
    ck_assert_uint_eq(queue_position(&queue, 7, 0), 1);
    ck_assert_uint_eq(queue_position(&queue, 8, 0), 2);
    expect_order((uint64_t[]){7, 8, 3, 4, 5, 6}, 6, 0);
}
END_TEST

START_TEST(higher_priority_goes_first)
{
    push(1, 7, 0, 0);
    push(2, 8, 5, 0);
    push(3, 7, -5, 0);
    expect_order((uint64_t[]){2, 1, 3}, 3, 0);
}
END_TEST

START_TEST(waiting_raises_priority_up_to_a_cap)
{
    push(1, 7, -3, 0);
    push(2, 8, 0, 240 * SECOND);
    expect_order((uint64_t[]){1, 2}, 2, 241 * SECOND);
    push(3, 7, -10, 0);
    push(4, 8, 10, 1000000 * SECOND);
    ck_assert_uint_eq(queue_pick(&queue, 1000001 * SECOND, NULL, NULL), 3);
    push(5, 7, -10, 0);
    push(6, 8, 11, 1000000 * SECOND);
    ck_assert_uint_eq(queue_pick(&queue, 1000001 * SECOND, NULL, NULL), 6);
}
END_TEST

static bool only(void *context, uint32_t uid)
{
    return uid == *(uint32_t *)context;
}

START_TEST(user_at_the_cap_is_passed_over)
{
    uint32_t uid = 8;
    push(1, 7, 9, 0);
    push(2, 8, 0, 0);
    ck_assert_uint_eq(queue_pick(&queue, 0, only, &uid), 2);
    ck_assert_uint_eq(queue_pick(&queue, 0, only, &uid), 0);
    ck_assert_uint_eq(queue.count, 1);
}
END_TEST

START_TEST(removed_job_is_not_picked)
{
    push(1, 7, 0, 0);
    push(2, 7, 0, 0);
    ck_assert(queue_remove(&queue, 1));
    ck_assert(!queue_remove(&queue, 1));
    expect_order((uint64_t[]){2}, 1, 0);
}
END_TEST

START_TEST(positions_of_equal_priority_match_the_picks)
{
    srand((unsigned)_i + 1);
    for (uint64_t job = 1; job <= 40; job++) {
        push(job, (uint32_t)(rand() % 5), 0, 0);
        if (rand() % 3 == 0)
            queue_pick(&queue, 0, NULL, NULL);
    }
    for (unsigned place = 1; queue.count; place++) {
        unsigned found = 0;
        for (size_t i = 0; i < queue.count; i++)
            if (queue_position(&queue, queue.entries[i].job, 0) == 1)
                found++;
        ck_assert_uint_eq(found, 1);
        uint64_t last = 0;
        for (size_t i = 0; i < queue.count; i++)
            if (queue_position(&queue, queue.entries[i].job, 0) == queue.count)
                last = queue.entries[i].job;
        ck_assert_uint_ne(last, 0);
        uint64_t first = 0;
        for (size_t i = 0; i < queue.count; i++)
            if (queue_position(&queue, queue.entries[i].job, 0) == 1)
                first = queue.entries[i].job;
        ck_assert_uint_eq(queue_pick(&queue, 0, NULL, NULL), first);
        ck_assert(queue.count == 0 || queue_position(&queue, last, 0) == queue.count);
    }
    ck_assert_uint_eq(queue_position(&queue, 1, 0), 0);
}
END_TEST

START_TEST(push_without_memory_changes_nothing)
{
    struct queue_entry entry = {1, 7, 0, 0};
    ipu_alloc_fail_after(_i, 1);
    ck_assert(!queue_push(&queue, &entry));
    ipu_alloc_fail_after(-1, 0);
    ck_assert_uint_eq(queue.count, 0);
    ck_assert(queue_push(&queue, &entry));
    ck_assert_uint_eq(queue_count_user(&queue, 7), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tc = tcase_create("queue");
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, one_user_is_served_in_order);
    tcase_add_test(tc, users_take_turns);
    tcase_add_test(tc, newcomer_goes_before_all_who_were_served);
    tcase_add_test(tc, higher_priority_goes_first);
    tcase_add_test(tc, waiting_raises_priority_up_to_a_cap);
    tcase_add_test(tc, user_at_the_cap_is_passed_over);
    tcase_add_test(tc, removed_job_is_not_picked);
    tcase_add_loop_test(tc, positions_of_equal_priority_match_the_picks, 0, 20);
    tcase_add_loop_test(tc, push_without_memory_changes_nothing, 0, 2);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
