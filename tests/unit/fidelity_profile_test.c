/* module: compiler */
/* Profiles of a whole program beside what hardware shows (facts/exchange.md section 8): phases end
 * a fixed time after the last tile's entry plus their horizon, tiles arrive one after the other,
 * and no synchronisation is free. */
#include "tests/unit/e2e.h"

#include "device/driver/profile.h"
#include "device/ipu21/timing.h"
#include "device/runtime/runtime.h"
#include "proto/profile.pb-c.h"

#include <check.h>
#include <stdlib.h>

enum {
    MOST_PHASES = 64,
    /* What generated code executes around a row: setzi, put of DCOUNT with its wait, sync; call and
     * return (compiler/codegen/internal.h). */
    AROUND = 14 + IPU21_SYNC_INTERNAL + 14
};

/* One execution of an exchange phase, over all tiles. Cycles count from `origin`. */
struct phase {
    uint32_t phase, iteration, origin;
    uint32_t first_entry, last_entry, end, horizon;
    unsigned tiles, partners;
    uint32_t shortest;
};

static struct phase phases[MOST_PHASES];
static unsigned phase_count;
static Ipu__Profile__Profile *profile;

static Ipu__Profile__Profile *run_seed(void)
{
    struct build_mlp mlp = {1,  17, 64,    128,   3,
                            64, 1,  false, false, IPU__WORKLOAD__PROFILE_MODE__PROFILE_FULL};
    struct e2e e = {0};
    struct e2e_options options = {.threads = 2};
    struct buffer bytes = {0};
    ck_assert(build_siglip_mlp(&mlp, &e.workload));
    ck_assert_msg(e2e_run(&e, &options) == 0, "%s", e.error.text);
    ck_assert_int_eq(profile_build(e.session, e.package, &e.summary, &bytes, &e.error), 0);
    Ipu__Profile__Profile *p = ipu__profile__profile__unpack(NULL, bytes.size, bytes.data);
    ck_assert_ptr_nonnull(p);
    buffer_free(&bytes);
    e2e_free(&e);
    return p;
}

static struct phase *find(const Ipu__Profile__Step *step, uint32_t origin)
{
    for (unsigned i = 0; i < phase_count; i++)
        if (phases[i].phase == step->phase && phases[i].iteration == step->iteration)
            return &phases[i];
    ck_assert_uint_lt(phase_count, MOST_PHASES);
    phases[phase_count] = (struct phase){.phase = step->phase,
                                         .iteration = step->iteration,
                                         .origin = origin,
                                         .first_entry = UINT32_MAX,
                                         .shortest = UINT32_MAX};
    return &phases[phase_count++];
}

static void note(const Ipu__Profile__Step *step, uint32_t start, uint32_t cycles)
{
    struct phase *p = find(step, profile->tiles[0]->start - 100000);
    uint32_t entry = start - p->origin, fixed = RT_SAMPLE_CYCLES + AROUND;
    p->tiles++;
    p->first_entry = entry < p->first_entry ? entry : p->first_entry;
    p->last_entry = entry > p->last_entry ? entry : p->last_entry;
    p->end = entry + cycles > p->end ? entry + cycles : p->end;
    p->shortest = cycles < p->shortest ? cycles : p->shortest;
    if (step->kind != IPU__PROFILE__STEP__KIND__EXCHANGE)
        return;
    p->partners++;
    ck_assert_uint_ge(step->predicted, fixed);
    p->horizon = step->predicted - fixed > p->horizon ? step->predicted - fixed : p->horizon;
}

static void setup(void)
{
    profile = run_seed();
    phase_count = 0;
    for (size_t i = 0; i < profile->n_tiles; i++) {
        const Ipu__Profile__Tile *tile = profile->tiles[i];
        const Ipu__Profile__StepList *list = profile->lists[tile->list];
        uint32_t start = tile->start;
        for (size_t k = 0; k < list->n_steps; k++) {
            const Ipu__Profile__Step *step = profile->steps[list->steps[k]];
            if (step->kind == IPU__PROFILE__STEP__KIND__EXCHANGE ||
                step->kind == IPU__PROFILE__STEP__KIND__SYNC)
                note(step, start, tile->cycles[k]);
            start += tile->cycles[k];
        }
    }
}

static void teardown(void)
{
    ipu__profile__profile__free_unpacked(profile, NULL);
}

/* The measured system has 110 cycles of instructions more between its samples (two base registers,
 * a rendezvous of the workers, a longer sample: tests/fidelity/exchange.inc, where the residual is
 * 235). */
START_TEST(phases_end_a_fixed_time_after_the_last_entry_and_their_horizon)
{
    ck_assert_uint_ge(phase_count, 3);
    for (unsigned i = 0; i < phase_count; i++) {
        const struct phase *p = &phases[i];
        uint32_t residual = p->end - p->last_entry - p->horizon;
        ck_assert_uint_ge(p->partners, 2);
        /* The longest row need not be the last to end, and predictions round up. */
        ck_assert_uint_ge(residual, RT_SAMPLE_CYCLES + AROUND - 2 * IPU21_SLOTS);
        ck_assert_uint_le(residual, RT_SAMPLE_CYCLES + AROUND + IPU21_SLOTS);
    }
}
END_TEST

START_TEST(no_synchronisation_is_free)
{
    for (unsigned i = 0; i < phase_count; i++)
        ck_assert_uint_ge(phases[i].shortest, RT_SAMPLE_CYCLES + IPU21_SYNC_INTERNAL);
}
END_TEST

START_TEST(tiles_arrive_one_after_the_other)
{
    unsigned spread = 0;
    for (unsigned i = 0; i < phase_count; i++)
        spread += phases[i].last_entry - phases[i].first_entry >= IPU21_SLOTS;
    ck_assert_uint_ge(spread, 1);
}
END_TEST

START_TEST(samples_of_one_tile_are_multiples_of_six_apart)
{
    for (size_t i = 0; i < profile->n_tiles; i++)
        for (size_t k = 0; k < profile->tiles[i]->n_cycles; k++)
            ck_assert_uint_eq(profile->tiles[i]->cycles[k] % IPU21_SLOTS, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fidelity_profile");
    TCase *test = tcase_create("profile");
    tcase_set_timeout(test, 120);
    tcase_add_unchecked_fixture(test, setup, teardown);
    tcase_add_test(test, phases_end_a_fixed_time_after_the_last_entry_and_their_horizon);
    tcase_add_test(test, no_synchronisation_is_free);
    tcase_add_test(test, tiles_arrive_one_after_the_other);
    tcase_add_test(test, samples_of_one_tile_are_multiples_of_six_apart);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
