/* module: compiler/plan */
/* Tests of the search state: continuing, replaying, refusing what is damaged or foreign. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "compiler/plan/state.h"
#include "tests/unit/plan_flows.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

struct heard {
    unsigned loaded, ignored;
    unsigned long long attempts, saved;
};

static struct arena *arena;
static struct ipu_error error;
static struct flow_builder *seed;
static struct plan_result first, again;
static struct buffer buffers[3];
static struct heard heard;

static unsigned long long attempts_of(const struct log_record *record)
{
    const char *at = strstr(record->fields, "attempts=");
    char *end = NULL;
    unsigned long long attempts = at ? strtoull(at + strlen("attempts="), &end, 10) : 0;
    ck_assert_msg(at && end > at + strlen("attempts="), "no attempts in: %s", record->fields);
    return attempts;
}

static void listen_log(void *context, const struct log_record *record)
{
    struct heard *h = context;
    if (strcmp(record->message, "loaded mid-plan search state") == 0) {
        h->loaded++;
        h->attempts = attempts_of(record);
    }
    if (strcmp(record->message, "saved mid-plan search state") == 0)
        h->saved = attempts_of(record);
    h->ignored += strcmp(record->message, "ignored mid-plan search state") == 0;
}

static void drop(struct plan_result *result)
{
    if (result->state != NULL)
        buffer_free(result->state);
    result->count = 0;
}

static void run(const struct flow_builder *b, const void *state, size_t size,
                struct plan_result *out)
{
    struct log log = {listen_log, &heard, LOG_LEVEL_INFO};
    struct plan_options options = {.finalists = 8, .threads = 1, .log = &log};
    options.state = state;
    options.state_size = size;
    memset(&heard, 0, sizeof heard);
    drop(out);
    int status = plan_search(&b->flow, &options, arena, out, &error);
    ck_assert_msg(status == 0, "%s", error.text);
}

static void setup(void)
{
    arena = arena_create(0);
    seed = build_mlp(64, 17, 64, 128, 3);
    first = (struct plan_result){.state = &buffers[0]};
    again = (struct plan_result){.state = &buffers[1]};
    run(seed, NULL, 0, &first);
}

static void teardown(void)
{
    drop(&first);
    drop(&again);
    free(seed);
    arena_destroy(arena);
}

static bool same_plan(const struct plan *x, const struct plan *y)
{
    return x->recipe_bytes == y->recipe_bytes && memcmp(x->recipe, y->recipe, x->recipe_bytes) == 0;
}

START_TEST(resumed_search_is_never_worse_and_counts_on)
{
    unsigned long long attempts = heard.saved;
    run(seed, first.state->data, first.state->size, &again);
    ck_assert_uint_eq(heard.loaded, 1);
    ck_assert_uint_eq(heard.attempts, attempts);
    ck_assert_uint_gt(heard.saved, attempts);
    ck_assert_uint_le(again.plans[0]->estimated_cycles, first.plans[0]->estimated_cycles);
}
END_TEST

/* Such plans fill more of a tile than others may. */
START_TEST(plans_in_passes_resume)
{
    struct flow_builder *b = build_mlp_once(64, 1, 2048, 4000);
    run(b, NULL, 0, &first);
    ck_assert(!first.resumed);
    ck_assert_uint_gt(first.plans[0]->peak_tile_bytes, 512 * 1024);
    run(b, first.state->data, first.state->size, &again);
    ck_assert_uint_eq(heard.loaded, 1);
    ck_assert(again.resumed);
    ck_assert_uint_le(again.plans[0]->estimated_cycles, first.plans[0]->estimated_cycles);
    free(b);
}
END_TEST

START_TEST(resumed_search_replays_the_incumbent)
{
    run(seed, first.state->data, first.state->size, &again);
    if (again.plans[0]->estimated_cycles == first.plans[0]->estimated_cycles) {
        ck_assert(same_plan(again.plans[0], first.plans[0]));
        ck_assert_uint_eq(again.plans[0]->ops[1].job_count, first.plans[0]->ops[1].job_count);
        ck_assert_mem_eq(again.plans[0]->ops[1].jobs, first.plans[0]->ops[1].jobs,
                         sizeof(struct plan_gemm_job) * first.plans[0]->ops[1].job_count);
    }
    ck_assert_int_eq(plan_verify(&seed->flow, again.plans[0], &error), 0);
}
END_TEST

START_TEST(resumed_search_does_little_work)
{
    struct search_state before, after;
    const char *reason;
    run(seed, first.state->data, first.state->size, &again);
    ck_assert(state_read(first.state->data, first.state->size, arena, &before, &reason));
    ck_assert(state_read(again.state->data, again.state->size, arena, &after, &reason));
    ck_assert_uint_lt((after.units - before.units) * 4, before.units);
    ck_assert_uint_eq(after.resumes, 1);
}
END_TEST

START_TEST(resuming_twice_gives_the_same_bytes)
{
    run(seed, first.state->data, first.state->size, &again);
    struct plan_result third = {.state = &buffers[2]};
    run(seed, first.state->data, first.state->size, &third);
    ck_assert_uint_eq(third.state->size, again.state->size);
    ck_assert_mem_eq(third.state->data, again.state->data, again.state->size);
    drop(&third);
}
END_TEST

START_TEST(every_flipped_byte_is_noticed)
{
    struct search_state state;
    const char *reason;
    uint8_t *bytes = malloc(first.state->size);
    for (size_t i = 0; i < first.state->size; i += i < 64 ? 1 : 97) {
        memcpy(bytes, first.state->data, first.state->size);
        bytes[i] ^= 0x10;
        ck_assert_msg(!state_read(bytes, first.state->size, arena, &state, &reason),
                      "byte %zu flipped and accepted", i);
        ck_assert_ptr_nonnull(reason);
    }
    free(bytes);
}
END_TEST

START_TEST(damaged_state_is_ignored_with_one_line)
{
    uint8_t *bytes = malloc(first.state->size);
    memcpy(bytes, first.state->data, first.state->size);
    bytes[first.state->size / 2] ^= 1;
    run(seed, bytes, first.state->size, &again);
    ck_assert_uint_eq(heard.ignored, 1);
    ck_assert_uint_eq(heard.loaded, 0);
    ck_assert(same_plan(again.plans[0], first.plans[0]));
    free(bytes);
}
END_TEST

START_TEST(truncated_and_random_states_are_ignored)
{
    uint8_t noise[512];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)hash64_mix(i + 99);
    run(seed, noise, sizeof noise, &again);
    ck_assert_uint_eq(heard.ignored, 1);
    run(seed, first.state->data, first.state->size - 1, &again);
    ck_assert_uint_eq(heard.ignored, 1);
    ck_assert(same_plan(again.plans[0], first.plans[0]));
}
END_TEST

START_TEST(state_of_another_graph_is_ignored)
{
    struct flow_builder *other = build_mlp(64, 18, 64, 128, 3);
    run(other, first.state->data, first.state->size, &again);
    ck_assert_uint_eq(heard.ignored, 1);
    ck_assert_int_eq(plan_verify(&other->flow, again.plans[0], &error), 0);
    free(other);
}
END_TEST

START_TEST(state_of_another_cost_model_is_ignored)
{
    struct search_state state;
    struct buffer changed = {0};
    const char *reason;
    ck_assert(state_read(first.state->data, first.state->size, arena, &state, &reason));
    state.cost_version++;
    ck_assert(state_write(&state, &changed));
    run(seed, changed.data, changed.size, &again);
    ck_assert_uint_eq(heard.ignored, 1);
    buffer_free(&changed);
}
END_TEST

START_TEST(illegal_recipes_with_a_good_check_are_ignored)
{
    struct search_state state;
    struct buffer changed = {0};
    const char *reason;
    uint8_t recipe[92];
    ck_assert(state_read(first.state->data, first.state->size, arena, &state, &reason));
    ck_assert_uint_eq(state.frontier[0].size, sizeof recipe);
    memcpy(recipe, state.frontier[0].data, sizeof recipe);
    recipe[4 + 22 + 6] = 0xff; /* gm of the first matmul */
    recipe[4 + 22 + 7] = 0xff;
    for (unsigned i = 0; i < state.frontier_count; i++)
        state.frontier[i].data = recipe;
    ck_assert(state_write(&state, &changed));
    run(seed, changed.data, changed.size, &again);
    ck_assert_uint_eq(heard.ignored, 1);
    ck_assert(same_plan(again.plans[0], first.plans[0]));
    buffer_free(&changed);
}
END_TEST

START_TEST(refined_costs_decide_what_is_tried_first)
{
    ck_assert_uint_ge(first.count, 3);
    const struct plan *third = first.plans[2];
    plan_state_note(first.state, first.plans[0], 9000);
    plan_state_note(first.state, third, 8000);
    run(seed, first.state->data, first.state->size, &again);
    ck_assert_uint_eq(heard.loaded, 1);
    ck_assert(same_plan(again.plans[0], third));
    ck_assert_uint_lt(again.count, first.count);
}
END_TEST

START_TEST(noted_costs_survive_a_resume)
{
    struct search_state state;
    const char *reason;
    plan_state_note(first.state, first.plans[0], 7777);
    plan_state_note(first.state, first.plans[0], 7776);
    run(seed, first.state->data, first.state->size, &again);
    ck_assert(state_read(again.state->data, again.state->size, arena, &state, &reason));
    ck_assert_uint_eq(state.refined_count, 1);
    ck_assert_uint_eq(
        state_refined(&state, hash64(first.plans[0]->recipe, first.plans[0]->recipe_bytes)), 7776);
}
END_TEST

START_TEST(noting_on_damaged_bytes_changes_nothing)
{
    struct buffer noise = {0};
    buffer_append(&noise, "nonsense", 8);
    plan_state_note(&noise, first.plans[0], 5);
    ck_assert_uint_eq(noise.size, 8);
    ck_assert_mem_eq(noise.data, "nonsense", 8);
    buffer_free(&noise);
}
END_TEST

START_TEST(state_stays_small_over_many_resumes)
{
    run(seed, first.state->data, first.state->size, &again);
    for (unsigned i = 0; i < 12; i++) {
        struct plan_result next = {.state = &buffers[2]};
        run(seed, again.state->data, again.state->size, &next);
        drop(&again);
        *again.state = *next.state;
        buffers[2] = (struct buffer){0};
    }
    ck_assert_uint_lt(again.state->size, 60000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan state");
    TCase *cases = tcase_create("state");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, resumed_search_is_never_worse_and_counts_on);
    tcase_add_test(cases, resumed_search_replays_the_incumbent);
    tcase_add_test(cases, plans_in_passes_resume);
    tcase_add_test(cases, resumed_search_does_little_work);
    tcase_add_test(cases, resuming_twice_gives_the_same_bytes);
    tcase_add_test(cases, every_flipped_byte_is_noticed);
    tcase_add_test(cases, damaged_state_is_ignored_with_one_line);
    tcase_add_test(cases, truncated_and_random_states_are_ignored);
    tcase_add_test(cases, state_of_another_graph_is_ignored);
    tcase_add_test(cases, state_of_another_cost_model_is_ignored);
    tcase_add_test(cases, illegal_recipes_with_a_good_check_are_ignored);
    tcase_add_test(cases, refined_costs_decide_what_is_tried_first);
    tcase_add_test(cases, noted_costs_survive_a_resume);
    tcase_add_test(cases, noting_on_damaged_bytes_changes_nothing);
    tcase_add_test(cases, state_stays_small_over_many_resumes);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
