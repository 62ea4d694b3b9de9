/* module: compiler/exchange */
/* How good and how fast schedules are, and how well their cost is foreseen. */
#include "exchange_phases.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "device/ipu21/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
enum { SLOW_HOST = 40 };
#else
enum { SLOW_HOST = 8 }; /* wall-clock limits are this many times the aim: tests run on busy hosts */
#endif

static struct phase_builder builder;

static struct exchange_schedule *schedule(unsigned effort)
{
    struct ipu_error error = {0};
    struct exchange_phase phase = phase_end(&builder);
    struct exchange_schedule *out = ARENA_NEW(builder.arena, struct exchange_schedule);
    int code = exchange_schedule(&phase, effort, builder.arena, out, &error);
    ck_assert_msg(code == 0, "%s", error.text);
    code = exchange_verify(&phase, out, builder.arena, &error);
    ck_assert_msg(code == 0, "%s", error.text);
    return out;
}

static const struct {
    enum phase_pattern pattern;
    unsigned tiles, size, stride;
    uint32_t words;
} regular[] = {
    {ALL_TO_ALL, 64, 8, 1, 12},       {ALL_TO_ALL, 64, 8, 8, 12},
    {ALL_TO_ALL, 64, 16, 1, 12},      {ALL_TO_ALL, 64, 16, 4, 12},
    {ALL_TO_ALL, 64, 8, 1, 8},        {ALL_TO_ALL, 64, 8, 8, 100},
    {ALL_TO_ALL, 64, 16, 4, 40},      {ALL_TO_ALL, 1472, 8, 1, 12},
    {ALL_GATHER, 64, 8, 1, 12},       {ALL_GATHER, 64, 8, 8, 12},
    {ALL_GATHER, 64, 16, 1, 12},      {ALL_GATHER, 64, 16, 4, 12},
    {ALL_GATHER, 64, 8, 1, 8},        {ALL_GATHER, 64, 8, 8, 100},
    {ALL_GATHER, 64, 16, 4, 40},      {ALL_GATHER, 1472, 8, 1, 12},
    {GATHER_TO_FIRST, 64, 16, 1, 12}, {SCATTER_FROM_FIRST, 64, 16, 1, 12},
};

START_TEST(regular_phases_end_within_a_tenth_of_the_bound)
{
    phase_begin(&builder, 20000);
    phase_pattern(&builder, regular[_i].pattern, regular[_i].tiles, regular[_i].size,
                  regular[_i].stride, regular[_i].words);
    struct exchange_schedule *s = schedule(2);
    printf("pattern %d tiles %u group %u stride %u words %u: horizon %u, bound %u\n",
           (int)regular[_i].pattern, regular[_i].tiles, regular[_i].size, regular[_i].stride,
           regular[_i].words, s->horizon, s->lower_bound);
    ck_assert_uint_ge(s->horizon, s->lower_bound);
    ck_assert_uint_le(s->horizon * 10, s->lower_bound * 11);
    phase_free(&builder);
}
END_TEST

START_TEST(the_bound_holds_when_multicasts_are_split)
{
    phase_begin(&builder, 200); /* ends before the bound of its unsplit transfers */
    phase_random(&builder, 90375915, 370, 17, 9, false);
    for (unsigned effort = 0; effort < 3; effort++) {
        struct exchange_schedule *s = schedule(effort);
        ck_assert_uint_ge(s->horizon, s->lower_bound);
    }
    phase_free(&builder);
}
END_TEST

START_TEST(effort_never_costs_more_than_two_percent)
{
    phase_begin(&builder, 300);
    phase_random(&builder, (uint64_t)_i + 99, 200, 24, 300, _i % 2 == 1);
    uint64_t first = schedule(0)->horizon;
    for (unsigned effort = 1; effort < 4;
         effort++) /* the choice of split multicasts gives away 2 % */
        ck_assert_uint_le(schedule(effort)->horizon * UINT64_C(100), first * 102);
    phase_free(&builder);
}
END_TEST

START_TEST(row_bounds_hold)
{
    static uint32_t bounds[PHASE_TILES];
    phase_begin(&builder, 2000);
    if (_i < 8)
        phase_random(&builder, (uint64_t)_i, 0, _i & 1 ? 40 : 4, 400, _i & 2);
    else
        phase_pattern(&builder, (enum phase_pattern)(_i % 4), 64, _i & 1 ? 8 : 32, 2, 70);
    struct exchange_phase phase = phase_end(&builder);
    exchange_row_bounds(&phase, bounds);
    for (unsigned effort = 0; effort < 3; effort++) {
        struct exchange_schedule *s = schedule(effort);
        for (unsigned t = 0; t < PHASE_TILES; t++)
            ck_assert_uint_le(s->rows[t].count * 4, bounds[t]);
    }
    ck_assert_uint_eq(bounds[1471], 0);
    phase_free(&builder);
}
END_TEST

/* --- estimate --- */

static void random_regular(struct phase_random *r)
{
    static const unsigned sizes[] = {4, 8, 12, 16, 23, 32}, strides[] = {1, 2, 4, 8, 23, 46};
    unsigned size = sizes[phase_below(r, 6)], stride = strides[phase_below(r, 6)];
    unsigned groups = 1 + phase_below(r, 3);
    if (size * stride * groups > PHASE_TILES)
        groups = 1;
    if (size * stride > PHASE_TILES)
        stride = 23;
    phase_pattern(&builder, (enum phase_pattern)phase_below(r, 4), size * stride * groups, size,
                  stride, 4 + phase_below(r, 100));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

START_TEST(the_estimate_is_mostly_within_a_fifth)
{
    enum { PHASES = 80 };
    double ratio[PHASES];
    struct phase_random r = {2024};
    unsigned far = 0;
    for (unsigned i = 0; i < PHASES; i++) {
        phase_begin(&builder, 40000);
        if (i % 4 == 3)
            phase_random(&builder, i, phase_below(&r, 1400), 8u << phase_below(&r, 4),
                         20 + phase_below(&r, 300), i % 8 == 7);
        else
            random_regular(&r);
        struct exchange_phase phase = phase_end(&builder);
        ratio[i] = (double)exchange_estimate(&phase) / (double)schedule(1)->horizon;
        far += ratio[i] < 0.8 || ratio[i] > 1.2;
        phase_free(&builder);
    }
    qsort(ratio, PHASES, sizeof *ratio, compare_doubles);
    printf("estimate / horizon over %d phases: minimum %.3f, deciles", PHASES, ratio[0]);
    for (int k = 1; k < 10; k++)
        printf(" %.3f", ratio[PHASES * k / 10]);
    printf(", maximum %.3f; %u further than a fifth\n", ratio[PHASES - 1], far);
    ck_assert_uint_le(far, PHASES / 10);
    ck_assert_double_gt(ratio[0], 0.5);
    ck_assert_double_lt(ratio[PHASES - 1], 1.5);
}
END_TEST

START_TEST(the_estimate_sees_granule_conflicts)
{
    uint32_t horizon[2];
    for (int shared = 0; shared < 2; shared++) {
        phase_begin(&builder, 2);
        struct exchange_target a = {8, shared ? 0x90000 : 0xa0000}, b = {9, 0xc0000};
        phase_add_at(&builder, 9, 0xa0000, 2000, &a, 1);
        phase_add_at(&builder, 8, 0x92000, 2000, &b, 1);
        struct exchange_phase phase = phase_end(&builder);
        horizon[shared] = exchange_estimate(&phase);
        uint32_t real = schedule(1)->horizon;
        ck_assert_uint_lt(horizon[shared] > real ? horizon[shared] - real : real - horizon[shared],
                          real / 10);
        phase_free(&builder);
    }
    ck_assert_uint_gt(horizon[1], horizon[0] + 1800);
}
END_TEST

/* --- speed --- */

START_TEST(ten_thousand_transfers_take_milliseconds)
{
    phase_begin(&builder, 20000);
    phase_pattern(&builder, ALL_TO_ALL, 1472, 8, 1, 12);
    struct exchange_phase phase = phase_end(&builder);
    ck_assert_uint_gt(phase.count, 10000);
    struct exchange_schedule *out = ARENA_NEW(builder.arena, struct exchange_schedule);
    struct ipu_error error = {0};
    uint64_t start = clock_ns();
    ck_assert_int_eq(exchange_schedule(&phase, 0, builder.arena, out, &error), 0);
    uint64_t middle = clock_ns();
    ck_assert_int_eq(exchange_verify(&phase, out, builder.arena, &error), 0);
    printf("%u transfers: schedule %.1f ms, verify %.1f ms\n", phase.count,
           (double)(middle - start) / 1e6, (double)(clock_ns() - middle) / 1e6);
    ck_assert_uint_lt(middle - start, 20000000ull * SLOW_HOST);
    phase_free(&builder);
}
END_TEST

START_TEST(scheduling_without_memory_is_an_error)
{
    phase_begin(&builder, 200);
    phase_random(&builder, 5, 0, 24, 200, false);
    struct exchange_phase phase = phase_end(&builder);
    static struct exchange_schedule out;
    unsigned failures = 0;
    for (size_t budget = 100; budget < 40000000; budget = budget * 9 / 8) {
        struct ipu_error error = {0};
        struct arena *arena = arena_create(budget);
        int code = exchange_schedule(&phase, 1, arena, &out, &error);
        ck_assert(code == 0 || (code == IPU_ERR_NO_MEMORY && error.text[0]));
        failures += code != 0;
        arena_destroy(arena);
    }
    ck_assert_uint_gt(failures, 20);
    phase_free(&builder);
}
END_TEST

/* A schedule that depended on the memory of the host would make packages differ. */
START_TEST(a_failing_allocation_is_an_error_and_never_another_schedule)
{
    phase_begin(&builder, 2000);
    phase_pattern(&builder, ALL_TO_ALL, 64, 8, 1, 12);
    phase_pattern(&builder, ALL_GATHER, 64, 8, 1, 12);
    struct exchange_phase phase = phase_end(&builder);
    struct exchange_schedule *whole = schedule(1),
                             *out = ARENA_NEW(builder.arena, struct exchange_schedule);
    uint32_t estimate = exchange_estimate(&phase);
    unsigned failures = 0, successes = 0;
    /* Each of the first, then fewer: with the address sanitizer an arena asks for every object. */
    for (long after = 0; successes < 3; after += 1 + after / 64) {
        struct ipu_error error = {0};
        struct arena *arena = arena_create(0);
        ipu_alloc_fail_after(after, 1);
        ck_assert_uint_eq(exchange_estimate(&phase), estimate);
        int code = exchange_schedule(&phase, 1, arena, out, &error);
        ipu_alloc_fail_after(-1, 0);
        ck_assert(code == 0 || (code == IPU_ERR_NO_MEMORY && error.text[0]));
        for (unsigned t = 0; t < PHASE_TILES && code == 0; t++) {
            ck_assert_uint_eq(out->rows[t].count, whole->rows[t].count);
            if (out->rows[t].count)
                ck_assert_mem_eq(out->rows[t].words, whole->rows[t].words, out->rows[t].count * 4);
        }
        successes += code == 0;
        failures += code != 0;
        arena_destroy(arena);
    }
    ck_assert_uint_gt(failures, 20);
    phase_free(&builder);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

int main(void)
{
    Suite *suite = suite_create("exchange quality");
    TCase *tc = tcase_create("quality");
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, regular_phases_end_within_a_tenth_of_the_bound, 0, COUNT(regular));
    tcase_add_test(tc, the_bound_holds_when_multicasts_are_split);
    tcase_add_loop_test(tc, effort_never_costs_more_than_two_percent, 0, 6);
    tcase_add_loop_test(tc, row_bounds_hold, 0, 16);
    tcase_add_test(tc, the_estimate_is_mostly_within_a_fifth);
    tcase_add_test(tc, the_estimate_sees_granule_conflicts);
    tcase_add_test(tc, ten_thousand_transfers_take_milliseconds);
    tcase_add_test(tc, scheduling_without_memory_is_an_error);
    tcase_add_test(tc, a_failing_allocation_is_an_error_and_never_another_schedule);
    suite_add_tcase(suite, tc);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
