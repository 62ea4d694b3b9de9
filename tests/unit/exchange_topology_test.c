/* module: device/ipu21 */
/* Tile numbering and route arithmetic against the known values of facts/exchange.md sections 1
 * and 2. */
#include "device/ipu21/topology.h"

#include <check.h>
#include <stdlib.h>

static const struct {
    unsigned logical, physical;
} numbers[] = {{0, 0},     {46, 1409}, {274, 9},   {736, 32}, {1286, 53},
               {100, 260}, {32, 1024}, {1471, 63}, {1, 2},    {2, 64}};

START_TEST(logical_numbers_have_the_vendor_s_ids)
{
    ck_assert_uint_eq(ipu21_physical(numbers[_i].logical), numbers[_i].physical);
    ck_assert_uint_eq(ipu21_logical(numbers[_i].physical), numbers[_i].logical);
}
END_TEST

START_TEST(numbering_is_a_bijection_that_keeps_pairs_together)
{
    unsigned char seen[IPU21_PHYSICAL_IDS] = {0};
    for (unsigned l = 0; l < IPU21_TILES; l++) {
        unsigned id = ipu21_physical(l);
        ck_assert_uint_lt(id, IPU21_PHYSICAL_IDS);
        ck_assert_uint_eq(seen[id]++, 0);
        ck_assert_uint_eq(ipu21_logical(id), l);
        ck_assert_uint_eq(ipu21_physical(l ^ 1), id ^ 2);
        ck_assert_uint_lt(ipu21_row(id), 23);
    }
}
END_TEST

static const struct {
    unsigned source, target;
    int ttm;
} routes[] = {{0, 53, -23}, {32, 260, 49}, {53, 63, -14}, {1024, 0, 3},
              {0, 32, -4},  {0, 2, -28},   {0, 64, -31},  {0, 66, -30}};

START_TEST(known_routes_have_their_time_to_mux)
{
    ck_assert_int_eq(ipu21_ttm(routes[_i].source, routes[_i].target), routes[_i].ttm);
}
END_TEST

static const struct {
    unsigned source, target, direction; /* logical; the direction bits of the vendor's rows */
} directions[] = {{0, 1286, 1}, {736, 100, 2}, {1286, 1471, 2}, {32, 0, 1}};

START_TEST(known_routes_have_their_direction)
{
    ck_assert_uint_eq(ipu21_direction(ipu21_physical(directions[_i].source),
                                      ipu21_physical(directions[_i].target)),
                      directions[_i].direction);
}
END_TEST

START_TEST(all_routes_keep_the_derived_ranges)
{
    int least = 1000, most = -1000, shortest = 1000, longest = 0;
    unsigned long ones = 0, broken = 0;
    for (unsigned s = 0; s < IPU21_PHYSICAL_IDS; s++) {
        for (unsigned d = 0; d < IPU21_PHYSICAL_IDS; d++) {
            int ttm = ipu21_ttm(s, d), other = ipu21_ttm(s, d ^ 2), latency = ipu21_latency(s, d);
            int displacement = abs(ipu21_displacement(s, d));
            broken += abs(ttm - other) != 1;
            broken += ipu21_ttm_pair(s, d) != (ttm > other ? ttm : other);
            broken += displacement == 0 || displacement > 47;
            broken += latency != ipu21_latency(s, d & 63); /* whatever the row of the target */
            least = ttm < least ? ttm : least;
            most = ttm > most ? ttm : most;
            shortest = latency < shortest ? latency : shortest;
            longest = latency > longest ? latency : longest;
            ones += ipu21_direction(s, d) == 1;
        }
        broken += ipu21_ttm(s, s) != -28 && ipu21_ttm(s, s) != -29;
    }
    ck_assert_uint_eq(broken, 0);
    ck_assert_int_eq(least, -78);
    ck_assert_int_eq(most, 112);
    ck_assert_int_eq(shortest, 19);
    ck_assert_int_eq(longest, 165);
    ck_assert_uint_eq(ones * 2, (unsigned long)IPU21_PHYSICAL_IDS * IPU21_PHYSICAL_IDS);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

int main(void)
{
    Suite *suite = suite_create("exchange topology");
    TCase *tc = tcase_create("topology");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, logical_numbers_have_the_vendor_s_ids, 0, COUNT(numbers));
    tcase_add_test(tc, numbering_is_a_bijection_that_keeps_pairs_together);
    tcase_add_loop_test(tc, known_routes_have_their_time_to_mux, 0, COUNT(routes));
    tcase_add_loop_test(tc, known_routes_have_their_direction, 0, COUNT(directions));
    tcase_add_test(tc, all_routes_keep_the_derived_ranges);
    suite_add_tcase(suite, tc);
    SRunner *sr = srunner_create(suite);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
