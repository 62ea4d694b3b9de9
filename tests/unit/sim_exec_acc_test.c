/* module: device/sim */
/* Accumulation, reading accumulators back, transposes, random numbers. */
#include "device/ipu21/flags.h"
#include "device/sim/core.h"
#include "tests/unit/sim_program.h"

#include "base/half.h"

#include <math.h>

static struct program p;
static struct sim_context *c;

static void setup(void)
{
    program_open(&p);
    c = &p.tile->context[1];
}

static void teardown(void)
{
    program_close(&p);
}

static uint32_t bits(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static uint32_t two(float low, float high)
{
    return half_from_float(low) | (uint32_t)half_from_float(high) << 16;
}

/* Runs a form with the registers of `r`; both builds must do. */
static void issue(unsigned form, int fast, int32_t imm, unsigned r0, unsigned r1, unsigned r2)
{
    struct sim_half h = {
        .form = (uint16_t)form, .imm = imm, .r = {(uint8_t)r0, (uint8_t)r1, (uint8_t)r2}};
    ck_assert_int_eq(
        (fast != 0 ? sim_handler(form, sim_host_is_fast()) : sim_handlers[form])(c, &h), 0);
}

struct accumulate {
    unsigned form;
    float want[8]; /* added to E0.. */
};
/* a0.. hold f32 {1.5, -2, 3, -4} for the f32 forms; f16 {1.5, -2, 3, -4, 0.5, 6, -7, 8} else. */
static const struct accumulate rows[] = {
    {ISA_F32V4ACC_ARQUAD, {1.5f, -2, 3, -4}},
    {ISA_F32V4ABSACC_ARQUAD, {1.5f, 2, 3, 4}},
    {ISA_F32V4SQACC_ARQUAD, {2.25f, 4, 9, 16}},
    {ISA_F16V4ACC_ARPAIR, {1.5f, -2, 3, -4}},
    {ISA_F16V4ABSACC_ARPAIR, {1.5f, 2, 3, 4}},
    {ISA_F16V8ACC_ARQUAD, {1.5f, -2, 3, -4, 0.5f, 6, -7, 8}},
    {ISA_F16V8ABSACC_ARQUAD, {1.5f, 2, 3, 4, 0.5f, 6, 7, 8}},
    {ISA_F16V8SQACC_ARQUAD, {2.25f, 4, 9, 16, 0.25f, 36, 49, 64}},
};

START_TEST(accumulation_adds_to_the_even_accumulators)
{
    const struct accumulate *row = &rows[_i / 2];
    bool f32 = row->form <= ISA_F32V4SQACC_ARQUAD && row->form >= ISA_F32V4ABSACC_ARQUAD;
    const float values[] = {1.5f, -2, 3, -4, 0.5f, 6, -7, 8};
    for (unsigned i = 0; i < 4; i++)
        c->a[i] = f32 ? bits(values[i]) : two(values[2 * i], values[2 * i + 1]);
    for (unsigned i = 0; i < 8; i++)
        c->acc.even[0][i] = 10 * (float)i;
    issue(row->form, _i % 2, 0, 0, 0, 0);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_uint_eq(bits(sim_tile_accumulator(p.tile, 0, 2 * i)),
                          bits(10 * (float)i + row->want[i]));
        ck_assert_uint_eq(bits(sim_tile_accumulator(p.tile, 0, 2 * i + 1)), 0);
    }
}
END_TEST

START_TEST(multiply_accumulate_forms)
{
    int fast = _i;
    c->a[0] = bits(3);
    c->a[1] = bits(-2);
    c->a[2] = bits(5);
    c->a[3] = bits(7);
    issue(ISA_F32MAC_AR_AR, fast, 0, 0, 2, 0);
    issue(ISA_F32V2MAC_ARPAIR_ARPAIR, fast, 0, 0, 2, 0);
    ck_assert_uint_eq(bits(c->acc.even[0][0]), bits(30));
    ck_assert_uint_eq(bits(c->acc.even[0][1]), bits(-14));
    c->a[0] = two(1, 2);
    c->a[1] = two(3, 4);
    c->a[2] = two(10, 20);
    c->a[3] = two(30, 40);
    issue(ISA_F16V2CMAC_AR_AR, fast, 0, 0, 2, 0);
    ck_assert_uint_eq(bits(c->acc.even[0][0]), bits(30 + 50));
    issue(ISA_F16V4CMAC_ARPAIR_ARPAIR, fast, 0, 0, 2, 0);
    ck_assert_uint_eq(bits(c->acc.even[0][0]), bits(80 + 50));
    ck_assert_uint_eq(bits(c->acc.even[0][1]), bits(-14 + 250));
    c->a[0] = bits(1);
    c->a[1] = bits(2);
    c->a[2] = bits(3);
    c->a[3] = bits(4);
    memset(&c->acc, 0, sizeof c->acc);
    issue(ISA_F32V2AOP_ARPAIR_ARPAIR_ENUM8, fast, 0, 0, 2, 0);
    const float outer[] = {3, 6, 4, 8};
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(bits(c->acc.even[0][i]), bits(outer[i]));
}
END_TEST

START_TEST(axpy_returns_the_old_sum_and_starts_the_next)
{
    c->tas = bits(2);
    c->acc.even[0][0] = 11;
    c->acc.even[0][1] = 12;
    for (unsigned i = 0; i < 4; i++)
        c->a[2 + i] = bits((float)i + 1);
    issue(ISA_F32V2AXPY_ARPAIR_ARPAIR_ARPAIR, 0, 0, 0, 2, 4);
    ck_assert_uint_eq(c->a[0], bits(11));
    ck_assert_uint_eq(c->a[1], bits(12));
    ck_assert_uint_eq(bits(c->acc.even[0][0]), bits(2 * 1 + 3));
    ck_assert_uint_eq(bits(c->acc.even[0][1]), bits(2 * 2 + 4));
}
END_TEST

START_TEST(mix_scales_two_vectors_and_gacc_reads_them)
{
    int fast = _i;
    c->tas = two(2, -1);
    c->a[2] = two(1, 2);
    c->a[3] = two(3, 4);
    c->a[4] = two(10, 20);
    c->a[5] = two(30, 40);
    c->acc.even[0][2] = 7;
    issue(ISA_F16V4MIX_ARPAIR_ARPAIR_ARPAIR, fast, 0, 0, 2, 4);
    ck_assert_uint_eq(c->a[0], 0);
    ck_assert_uint_eq(c->a[1], two(7, 0));
    issue(ISA_F16V4GACC_ARPAIR, fast, 0, 0, 0, 0);
    issue(ISA_F16V4GACC_ARPAIR, fast, 0, 6, 0, 0);
    ck_assert_uint_eq(c->a[0], two(2 - 10, 4 - 20));
    ck_assert_uint_eq(c->a[1], two(6 - 30, 8 - 40));
    ck_assert_uint_eq(c->a[6], c->a[0]);
}
END_TEST

static float *chain(unsigned which)
{
    return which % 2 != 0 ? c->acc.odd[which / 2] : c->acc.even[which / 2];
}

START_TEST(gina_shifts_its_chain)
{
    for (unsigned i = 0; i < 8; i++)
        chain((unsigned)_i)[i] = (float)(i + 1);
    c->a[2] = bits(100);
    c->a[3] = bits(200);
    issue(ISA_F32V2GINA_ARPAIR_ARPAIR_GINA12, 0, _i | 4, 0, 2, 0);
    ck_assert_uint_eq(c->a[0], bits(1));
    ck_assert_uint_eq(c->a[1], bits(2));
    const float want[] = {3, 4, 5, 6, 7, 8, 100, 200};
    for (unsigned i = 0; i < 8; i++)
        ck_assert_uint_eq(bits(chain((unsigned)_i)[i]), bits(want[i]));
    c->a[4] = two(0.5f, -0.25f);
    issue(ISA_F16V2GINA_AR_AR_GINA12, 0, _i, 1, 4, 0);
    ck_assert_uint_eq(c->a[1], two(3, 4));
    ck_assert_uint_eq(bits(chain((unsigned)_i)[6]), bits(0.5f));
    ck_assert_uint_eq(bits(chain((unsigned)_i)[7]), bits(-0.25f));
}
END_TEST

START_TEST(stacc_p0_makes_room_for_gina_on_the_odd_chain)
{
    for (unsigned i = 0; i < 4; i++) {
        c->acc.even[0][i] = (float)i + 1;
        c->acc.odd[0][i] = (float)i + 11;
    }
    issue(ISA_F16V4STACC_ARPAIR_ENUM8, 0, TSTACC_P0, 0, 0, 0);
    ck_assert_uint_eq(c->a[0], bits(1));
    ck_assert_uint_eq(c->a[1], bits(2));
    issue(ISA_F32V2GINA_ARPAIR_ARPAIR_GINA12, 0, 1, 4, 14, 0);
    ck_assert_uint_eq(c->a[4], bits(3));
    ck_assert_uint_eq(c->a[5], bits(4));
    ck_assert_uint_eq(bits(c->acc.even[0][0]), bits(11));
}
END_TEST

/* A stream of 4x4 blocks: istacc P0, istacc P1, stacc P0, stacc P1, and again; columns 2 and 3 of a
 * block come back from the next block's istacc. */
START_TEST(transpose_idiom_returns_the_columns)
{
    for (unsigned block = 0; block < 4; block++) {
        uint64_t row[4];
        for (unsigned r = 0; r < 4; r++) {
            row[r] = 0;
            for (unsigned k = 0; k < 4; k++)
                row[r] |= (uint64_t)(block << 8 | r << 4 | k) << (16 * k);
        }
        uint64_t column[4];
        for (unsigned k = 0; k < 4; k++) {
            column[k] = 0;
            for (unsigned r = 0; r < 4; r++)
                column[k] |= (uint64_t)(block << 8 | r << 4 | k) << (16 * r);
        }
        for (unsigned half = 0; half < 2; half++) {
            sim_set_pair(c, 2, row[2 * half]);
            sim_set_pair(c, 4, row[2 * half + 1]);
            issue(ISA_F16V4ISTACC_ARPAIR_ARPAIR_ARPAIR_ENUM6, 0, (int32_t)half, 0, 2, 4);
            if (block > 0)
                for (unsigned r = 0; r < 4; r++)
                    ck_assert_uint_eq(sim_pair(c, 0) >> (16 * r) & 0xffff,
                                      (block - 1) << 8 | r << 4 | (2 + half));
        }
        for (unsigned half = 0; half < 2; half++) {
            issue(ISA_F16V4STACC_ARPAIR_ENUM8, 0, (int32_t)half, 0, 0, 0);
            ck_assert_uint_eq(sim_pair(c, 0), column[half]);
        }
    }
}
END_TEST

START_TEST(fp_clr_zeroes_all_accumulators)
{
    memset(&c->acc, 0x3f, sizeof c->acc);
    put(&p, I(SETZI_AR_ZIMM20, 0, 8));
    put(&p, I(UPUT_UCSR8_AR, 1, 0));
    run_worker(&p);
    for (unsigned i = 0; i < 32; i++)
        ck_assert_uint_eq(bits(sim_tile_accumulator(p.tile, 0, i)), 0);
}
END_TEST

/* --- random numbers --- */

static void seed(uint64_t s0, uint64_t s1)
{
    c->prng[0] = s0;
    c->prng[1] = s1;
}

/* The generator step by step with the words of the public definition. */
START_TEST(urand_steps_xoroshiro128aox)
{
    seed(1, 2);
    issue(ISA_URAND64_ARPAIR, 0, 0, 0, 0, 0);
    ck_assert_uint_eq(sim_pair(c, 0), 3); /* 1 ^ 2, and nothing in common */
    ck_assert_uint_eq(c->prng[0], (1ull << 55) ^ 3 ^ (3ull << 14));
    ck_assert_uint_eq(c->prng[1], 3ull << 36);
    seed(0xf000000000000001u, 0xb000000000000001u);
    issue(ISA_URAND64_ARPAIR, 0, 0, 0, 0, 0);
    uint64_t both = 0xb000000000000001u;
    uint64_t turned = (both << 1 | both >> 63) | (both << 2 | both >> 62);
    ck_assert_uint_eq(sim_pair(c, 0), 0x4000000000000000u ^ turned);
    seed(1, 2);
    issue(ISA_URAND32_AR, 0, 0, 0, 0, 0);
    ck_assert_uint_eq(c->a[0], 3);
}
END_TEST

START_TEST(rmask_keeps_with_the_given_probability)
{
    enum { TRIALS = 4000 };
    seed(88172645463325252u, 1234567);
    unsigned kept16 = 0, kept32 = 0;
    c->a[2] = c->a[3] = 0xffffffff;
    c->a[4] = 0x4000; /* a quarter */
    for (unsigned t = 0; t < TRIALS; t++) {
        issue(ISA_F16V4RMASK_ARPAIR_ARPAIR_AR, 0, 0, 0, 2, 4);
        kept16 += (unsigned)__builtin_popcountll(sim_pair(c, 0)) / 16;
        issue(ISA_F32V2RMASK_ARPAIR_ARPAIR_AR, 0, 0, 0, 2, 4);
        kept32 += (unsigned)__builtin_popcountll(sim_pair(c, 0)) / 32;
    }
    ck_assert_double_eq_tol((double)kept16 / (4 * TRIALS), 0.25, 0.02);
    ck_assert_double_eq_tol((double)kept32 / (2 * TRIALS), 0.25, 0.02);
    c->a[4] = 0x10000;
    issue(ISA_F16V4RMASK_ARPAIR_ARPAIR_AR, 0, 0, 0, 2, 4);
    ck_assert_uint_eq(sim_pair(c, 0), UINT64_MAX);
    c->a[4] = 0;
    issue(ISA_F32V2RMASK_ARPAIR_ARPAIR_AR, 0, 0, 0, 2, 4);
    ck_assert_uint_eq(sim_pair(c, 0), 0);
}
END_TEST

START_TEST(grand_has_mean_0_and_variance_1)
{
    enum { TRIALS = 20000 };
    seed(88172645463325252u, 7654321);
    double sum = 0, squares = 0;
    for (unsigned t = 0; t < TRIALS; t++) {
        issue(ISA_F32V2GRAND_ARPAIR, 0, 0, 0, 0, 0);
        issue(ISA_F16V2GRAND_AR, 0, 0, 2, 0, 0);
        float values[4] = {sim_float(c->a[0]), sim_float(c->a[1]), half_to_float((uint16_t)c->a[2]),
                           half_to_float((uint16_t)(c->a[2] >> 16))};
        for (unsigned i = 0; i < 4; i++) {
            sum += (double)values[i];
            squares += (double)values[i] * (double)values[i];
        }
    }
    ck_assert_double_eq_tol(sum / (4 * TRIALS), 0, 0.02);
    ck_assert_double_eq_tol(squares / (4 * TRIALS), 1, 0.03);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("accumulators");
    TCase *tests = tcase_create("accumulators");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, accumulation_adds_to_the_even_accumulators, 0,
                        2 * (int)(sizeof rows / sizeof *rows));
    tcase_add_loop_test(tests, multiply_accumulate_forms, 0, 2);
    tcase_add_test(tests, axpy_returns_the_old_sum_and_starts_the_next);
    tcase_add_loop_test(tests, mix_scales_two_vectors_and_gacc_reads_them, 0, 2);
    tcase_add_loop_test(tests, gina_shifts_its_chain, 0, 4);
    tcase_add_test(tests, stacc_p0_makes_room_for_gina_on_the_odd_chain);
    tcase_add_test(tests, transpose_idiom_returns_the_columns);
    tcase_add_test(tests, fp_clr_zeroes_all_accumulators);
    suite_add_tcase(suite, tests);
    TCase *random = tcase_create("random");
    tcase_add_checked_fixture(random, setup, teardown);
    tcase_add_test(random, urand_steps_xoroshiro128aox);
    tcase_add_test(random, rmask_keeps_with_the_given_probability);
    tcase_add_test(random, grand_has_mean_0_and_variance_1);
    suite_add_tcase(suite, random);
    return run_suite(suite);
}
