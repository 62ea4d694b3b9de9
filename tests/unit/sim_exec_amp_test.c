/* module: device/sim */
/* AMP and SLIC: matrix products and convolutions from whole instruction sequences, against sums
 * computed here, and the portable build against the fast one. */
#include "device/ipu21/csr.h"
#include "device/ipu21/flags.h"
#include "device/sim/core.h"
#include "tests/unit/sim_program.h"

#include "base/half.h"

#include <math.h>

static struct program p;
static struct sim_context *c; /* worker 0 */
static int fast;              /* build under test */

static void setup(void)
{
    program_open(&p);
    c = &p.tile->context[1];
    fast = 1;
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

static float value_of(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Small integers: every product and sum below is exact, whatever its order. */
static int number(unsigned i, unsigned j)
{
    uint32_t x = (i * 2654435761u) ^ (j * 40503u + 977);
    x ^= x >> 13;
    x *= 2246822519u;
    return (int)(x >> 20 & 7) - 3;
}

static uint64_t pack4(const int v[4])
{
    uint64_t packed = 0;
    for (unsigned i = 0; i < 4; i++)
        packed |= (uint64_t)half_from_float((float)v[i]) << (16 * i);
    return packed;
}

static void issue(unsigned form, unsigned a, unsigned b, unsigned in, uint32_t flags)
{
    struct sim_half h = {
        .form = (uint16_t)form, .imm = (int32_t)flags, .r = {(uint8_t)a, (uint8_t)b, (uint8_t)in}};
    sim_exec *run = fast != 0 ? sim_handler(form, sim_host_is_fast()) : sim_handlers[form];
    ck_assert_int_eq(run(c, &h), 0);
}

static void set_cwei(unsigned slot, uint64_t value)
{
    p.tile->cwei[slot] = value;
    p.tile->f16_valid = p.tile->f8_valid = false;
}

static float half_lane(const uint32_t *words, unsigned i)
{
    return half_to_float((uint16_t)(words[i / 2] >> (16 * (i % 2))));
}

/* --- f16v4hihov4amp: Y[row][channel] = bias + sum over K of X * W, 16 channels, K = 16 --- */

enum { ROWS = 7, K = 16 };

/* Channel order of stored results: facts/isa_semantics.md section 6, AMP. */
static const unsigned unit_of_channel[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};

static void load_panel(unsigned panel)
{
    for (unsigned unit = 0; unit < 16; unit++)
        for (unsigned phase = 0; phase < 4; phase++) {
            int w[4];
            for (unsigned k = 0; k < 4; k++)
                w[k] = number(100 + panel * K + 4 * phase + k, unit);
            set_cwei(4 * unit + phase, pack4(w));
        }
}

/* Runs one K panel over all rows: partials of row r enter while row r - 1 computes; results of row
 * r leave while row r + 1 computes. partials and results are [ROWS][16] in stored order. */
static void run_panel(unsigned panel, const float (*partials)[16], float (*results)[16])
{
    for (unsigned row = 0; row < ROWS + 2; row++)
        for (unsigned phase = 0; phase < 4; phase++) {
            int x[4] = {0, 0, 0, 0};
            for (unsigned k = 0; row >= 1 && row <= ROWS && k < 4; k++)
                x[k] = number(row - 1, panel * K + 4 * phase + k);
            sim_set_pair(c, 0, pack4(x));
            int in[4] = {0, 0, 0, 0};
            for (unsigned i = 0; row < ROWS && i < 4; i++)
                in[i] = (int)partials[row][4 * phase + i];
            sim_set_pair(c, 2, pack4(in));
            issue(ISA_F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 0, 2, phase);
            for (unsigned i = 0; row >= 2 && i < 4; i++)
                results[row - 2][4 * phase + i] = half_lane(&c->a[4], i);
        }
}

START_TEST(f16_product_accumulates_over_panels_in_two_sets)
{
    fast = _i;
    float partials[ROWS][16], results[ROWS][16];
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned ch = 0; ch < 16; ch++)
            partials[r][ch] = (float)number(r, 500 + ch);
    for (unsigned panel = 0; panel < 3; panel++) {
        load_panel(panel);
        memset(&c->acc, 0, sizeof c->acc);
        run_panel(panel, (const float(*)[16])partials, results);
        memcpy(partials, results, sizeof partials);
    }
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned ch = 0; ch < 16; ch++) {
            int sum = number(r, 500 + ch);
            for (unsigned k = 0; k < 3 * K; k++)
                sum += number(r, k) * number(100 + k, unit_of_channel[ch]);
            ck_assert_msg(results[r][ch] == (float)sum, "row %u channel %u: %g, expected %d", r, ch,
                          (double)results[r][ch], sum);
        }
}
END_TEST

/* --- one set, E4, E2 and E1, f32 and f16 partials --- */

struct one_set {
    unsigned form;
    uint32_t flags; /* of phase 0 */
    unsigned units;
    bool half_in, half_out;
};
static const struct one_set one_sets[] = {
    {ISA_F16V4SISOAMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, TAMP_F16V4_E4_P0, 8, false, false},
    {ISA_F16V4SISOAMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, TAMP_F16V4_E2_P0, 4, false, false},
    {ISA_F16V4SISOAMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, TAMP_F16V4_E1_P0, 2, false, false},
    {ISA_F16V4SIHOAMP_AR_ARPAIR_ARPAIR_ENUM6, TAMP_F16V4_E4_P0, 8, false, true},
    {ISA_F16V4SIHOAMP_AR_ARPAIR_ARPAIR_ENUM6, TAMP_F16V4_E2_P0, 4, false, true},
    {ISA_F16V4HIHOAMP_AR_ARPAIR_AR_ENUM6, TAMP_F16V4_E4_P0, 8, true, true},
    {ISA_F16V4HIHOAMP_AR_ARPAIR_AR_ENUM6, TAMP_F16V4_E1_P0, 2, true, true},
};

/* E engines need E phases of pairs in a block: block b's results leave in block b + 1. */
START_TEST(one_set_product_with_fewer_engines)
{
    const struct one_set *row = &one_sets[_i / 2];
    fast = _i % 2;
    load_panel(0);
    unsigned phases = row->units / 2;
    for (unsigned block = 0; block < ROWS + 2; block++)
        for (unsigned phase = 0; phase < phases; phase++) {
            int x[4] = {0, 0, 0, 0};
            for (unsigned k = 0; block >= 1 && k < 4; k++)
                x[k] = number(block, 4 * phase + k);
            sim_set_pair(c, 0, pack4(x));
            int in[4] = {number(block, 900 + 2 * phase), number(block, 901 + 2 * phase), 0, 0};
            if (row->half_in) {
                c->a[2] = (uint32_t)pack4(in);
            } else {
                c->a[2] = bits((float)in[0]);
                c->a[3] = bits((float)in[1]);
            }
            issue(row->form, 4, 0, 2, row->flags + phase);
            for (unsigned i = 0; block >= 2 && i < 2; i++) {
                unsigned unit = 2 * phase + i;
                int sum = number(block - 2, 900 + unit);
                for (unsigned k = 0; k < 4 * phases; k++)
                    sum += number(block - 1, k) * number(100 + k, unit);
                float got = row->half_out ? half_lane(&c->a[4], i) : value_of(c->a[4 + i]);
                ck_assert_msg(got == (float)sum, "block %u unit %u: %g, expected %d", block, unit,
                              (double)got, sum);
            }
        }
}
END_TEST

/* f32: eight phases of one input each; results of a set leave in its own phases. */
START_TEST(f32_product_in_one_and_two_sets)
{
    unsigned sets = (unsigned)_i + 1;
    unsigned form =
        sets == 2 ? ISA_F32SISOV2AMP_ARPAIR_AR_ARPAIR_ENUM6 : ISA_F32SISOAMP_ARPAIR_AR_ARPAIR_ENUM6;
    for (unsigned unit = 0; unit < 8 * sets; unit++)
        for (unsigned m = 0; m < 4; m++)
            set_cwei(4 * unit + m, bits((float)number(2 * m, unit)) |
                                       (uint64_t)bits((float)number(2 * m + 1, unit)) << 32);
    for (unsigned block = 0; block < ROWS + 2; block++)
        for (unsigned phase = 0; phase < 8; phase++) {
            unsigned set = sets == 2 ? phase % 2 : 0;
            bool moves = sets == 2 || phase % 2 == 0;
            c->a[0] = bits(block >= 1 ? (float)number(block, 700 + phase) : 0);
            for (unsigned i = 0; i < 2; i++)
                c->a[2 + i] = bits((float)number(block, 50 * set + phase / 2 * 2 + i));
            issue(form, 4, 0, 2, phase);
            ck_assert_uint_eq(c->tas, c->a[0]);
            for (unsigned i = 0; block >= 2 && i < 2; i++) {
                unsigned unit = 8 * set + phase / 2 * 2 + i;
                int sum = number(block - 2, 50 * set + unit % 8);
                for (unsigned k = 0; k < 8; k++)
                    sum += number(block - 1, 700 + k) * number(k, unit);
                ck_assert_msg(value_of(c->a[4 + i]) == (moves ? (float)sum : 0),
                              "block %u phase %u: %g, expected %d", block, phase,
                              (double)value_of(c->a[4 + i]), sum);
            }
        }
}
END_TEST

/* f8 with scales: small integers in both formats, inputs F143, weights F152. */
static int f8_input(unsigned phase, unsigned k)
{
    return (int)((phase + 3 * k) % 4) * (k == 5 ? -1 : 1);
}

static int f8_weight(unsigned slot, unsigned k)
{
    return (int)((slot + k) % 4);
}

/* Codes of -3..3: exponent of 1 is the bias, 8 or 16. */
static uint64_t f8_code(int value, unsigned mantissa_bits, unsigned bias)
{
    const unsigned quarters[] = {0, 0, 0, 2}; /* mantissa of 3 = 1.5 * 2, in quarters */
    unsigned magnitude = (unsigned)abs(value);
    if (magnitude == 0)
        return 0;
    unsigned mantissa = quarters[magnitude] << mantissa_bits >> 2;
    unsigned exponent = bias + (magnitude > 1 ? 1 : 0);
    return exponent << mantissa_bits | mantissa | (value < 0 ? 0x80u : 0);
}

static void f8_weights(void)
{
    for (unsigned slot = 0; slot < 64; slot++) {
        uint64_t w = 0;
        for (unsigned k = 0; k < 8; k++)
            w |= f8_code(f8_weight(slot, k), 2, 16) << (8 * k);
        set_cwei(slot, w);
    }
}

START_TEST(f8_product_scales_its_products)
{
    fast = _i;
    p.tile->csr[CSR_S_FP_INFMT] = 2; /* input F143, weights F152 */
    p.tile->csr[CSR_S_FP_ISCL] = 62; /* times 2^-2 */
    f8_weights();
    for (unsigned block = 0; block < 3; block++)
        for (unsigned phase = 0; phase < 4; phase++) {
            uint64_t x = 0;
            for (unsigned k = 0; block == 1 && k < 8; k++)
                x |= f8_code(f8_input(phase, k), 3, 8) << (8 * k);
            sim_set_pair(c, 0, x);
            sim_set_pair(c, 2, 0);
            issue(ISA_F8V8HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 0, 2, phase);
            for (unsigned i = 0; block == 2 && i < 4; i++) {
                unsigned unit = 2 * phase + i % 2 + 8 * (i / 2);
                int sum = 0;
                for (unsigned q = 0; q < 4; q++)
                    for (unsigned k = 0; k < 8; k++)
                        sum += f8_input(q, k) * f8_weight(4 * unit + q, k);
                ck_assert_int_ne(sum, 0);
                ck_assert_msg(half_lane(&c->a[4], i) == (float)sum / 4, "unit %u: %g, expected %g",
                              unit, (double)half_lane(&c->a[4], i), (double)sum / 4);
            }
        }
}
END_TEST

START_TEST(f8_nan_code_poisons_its_unit)
{
    fast = _i;
    f8_weights();
    sim_set_pair(c, 0, 0x80);
    sim_set_pair(c, 2, 0);
    issue(ISA_F8V8HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 0, 2, 1);
    ck_assert(isnan(c->acc.even[0][0]));
    ck_assert_uint_eq(c->a[4], 0); /* the delay line is clean */
}
END_TEST

START_TEST(half_results_follow_nanoo_and_raise_oflo)
{
    fast = _i;
    c->acc.odd[0][0] = 1e6f;
    c->acc.odd[1][1] = -1e6f;
    sim_set_pair(c, 0, 0);
    sim_set_pair(c, 2, 0);
    issue(ISA_F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 0, 2, 1);
    ck_assert_uint_eq(c->a[4], 0x7bff);
    ck_assert_uint_eq(c->a[5], 0xfbff0000);
    ck_assert_uint_eq(c->fp_sts, SIM_FP_OFLO);
}
END_TEST

START_TEST(unknown_flags_are_invalid_op)
{
    const unsigned forms[] = {ISA_F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6,
                              ISA_F16V4SISOSLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6};
    put(&p, (struct isa_inst){.form = (uint16_t)forms[_i], .operand = {0, 2, 4, 63}});
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_OP);
}
END_TEST

/* Random operands of any size: both builds must agree bit for bit, and with the sum rule. */
static uint32_t random_word(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state ^ *state >> 11;
}

START_TEST(both_builds_give_the_same_accumulators)
{
    const unsigned forms[] = {
        ISA_F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, ISA_F16V4HIHOAMP_AR_ARPAIR_AR_ENUM6,
        ISA_F16V4SIHOAMP_AR_ARPAIR_ARPAIR_ENUM6, ISA_F16V4SISOAMP_ARPAIR_ARPAIR_ARPAIR_ENUM6};
    uint32_t state = 12345u + (uint32_t)_i;
    struct sim_accumulators acc = {0};
    for (unsigned slot = 0; slot < 64; slot++) {
        uint64_t w = 0;
        for (unsigned k = 0; k < 4; k++) /* finite codes */
            w |= (uint64_t)(random_word(&state) & 0xbbff) << (16 * k);
        set_cwei(slot, w);
    }
    for (unsigned n = 0; n < 4000; n++) {
        struct sim_accumulators other = acc;
        uint32_t results[2][2];
        for (unsigned i = 0; i < 4; i++)
            c->a[i] = random_word(&state) & 0xb3ffb3ff;
        for (int build = 0; build < 2; build++) {
            fast = build;
            c->acc = build == 0 ? acc : other;
            c->a[5] = 0;
            issue(forms[_i], 4, 0, 2, n % 4);
            memcpy(results[build], &c->a[4], sizeof results[build]);
            if (build == 0)
                acc = c->acc;
        }
        uint32_t bits[2][sizeof acc / 4];
        memcpy(bits[0], &acc, sizeof acc);
        memcpy(bits[1], &c->acc, sizeof acc);
        ck_assert_mem_eq(bits[0], bits[1], sizeof acc);
        ck_assert_uint_eq(results[0][0], results[1][0]);
        ck_assert_uint_eq(results[0][1], results[1][1]);
    }
}
END_TEST

START_TEST(sum_rule_is_pairwise_in_f32)
{
    fast = _i;
    /* Products 2^24, 1, 1, -2^24: ((2^24 + 1) + (1 - 2^24)) = 0 in f32; any other order gives 1
     * or 2. */
    const float x[] = {4096, 1, 1, 4096}, w[] = {4096, 1, 1, -4096};
    uint64_t xp = 0, wp = 0;
    for (unsigned k = 0; k < 4; k++) {
        xp |= (uint64_t)half_from_float(x[k]) << (16 * k);
        wp |= (uint64_t)half_from_float(w[k]) << (16 * k);
    }
    float pair0 = 16777216.0f + 1.0f, pair1 = 1.0f - 16777216.0f;
    set_cwei(1, wp);
    sim_set_pair(c, 0, xp);
    sim_set_pair(c, 2, 0);
    c->acc.even[0][0] = 5;
    issue(ISA_F16V4SISOAMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 0, 2, 1);
    ck_assert_uint_eq(bits(c->acc.even[0][0]), bits(5 + (pair0 + pair1)));
}
END_TEST

/* --- SLIC: a one-dimensional convolution of four inputs a position --- */

struct slic {
    unsigned form;
    unsigned window, sets, bank;
    uint32_t flags;
    bool f32, half_in, half_out;
};
static const struct slic slics[] = {
    {ISA_F16V4SISOSLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 1, 0, TSLIC_F16V4_1x4_W0, 0, 0, 0},
    {ISA_F16V4SISOSLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6, 3, 1, 2, TSLIC_F16V4_1x3_W2, 0, 0, 0},
    {ISA_F16V4SIHOSLIC_AR_ARPAIR_ARPAIR_ENUM6, 4, 1, 1, TSLIC_F16V4_1x4_W1, 0, 0, 1},
    {ISA_F16V4HIHOSLIC_AR_ARPAIR_AR_ENUM6, 3, 1, 3, TSLIC_F16V4_1x3_W3, 0, 1, 1},
    {ISA_F16V4HIHOV4SLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 2, 1, TSLIC_F16V4_1x4_W1, 0, 1, 1},
    {ISA_F16V4HIHOV4SLIC_ARPAIR_ARPAIR_ARPAIR_ENUM6, 3, 2, 0, TSLIC_F16V4_1x3_W0, 0, 1, 1},
    {ISA_F32SISOSLIC_ARPAIR_AR_ARPAIR_ENUM6, 4, 1, 0, TSLIC_F32_1x4_W0_L, 1, 0, 0},
    {ISA_F32SISOV2SLIC_ARPAIR_AR_ARPAIR_ENUM6, 3, 2, 1, TSLIC_F32_1x3_W1_L, 1, 0, 0},
};

static int slic_input(int position, unsigned k)
{
    return number((unsigned)position, 300 + k);
}

static int slic_weight(unsigned set, unsigned unit, unsigned k)
{
    return number(8 * set + unit, 400 + k);
}

static int slic_partial(int position, unsigned set, unsigned chain)
{
    return number((unsigned)position, 800 + 2 * set + chain);
}

/* out(position) = partial(position) + sum over taps j of x(position + j) . w(tap j); tap 0 sits in
 * the last units of the window. */
static int slic_expected(const struct slic *s, int position, unsigned set, unsigned chain)
{
    int sum = slic_partial(position, set, chain);
    for (unsigned j = 0; j < s->window; j++)
        for (unsigned k = 0; k < (s->f32 ? 2u : 4u); k++)
            sum += slic_input(position + (int)j, k) *
                   slic_weight(set, 2 * (s->window - 1 - j) + chain, k);
    return sum;
}

static void slic_weights(const struct slic *s)
{
    for (unsigned set = 0; set < 2; set++)
        for (unsigned unit = 0; unit < 8; unit++) {
            int w[4];
            for (unsigned k = 0; k < 4; k++)
                w[k] = slic_weight(set, unit, k);
            uint64_t word =
                s->f32 ? bits((float)w[0]) | (uint64_t)bits((float)w[1]) << 32 : pack4(w);
            set_cwei(4 * (8 * set + unit) + s->bank, word);
        }
}

static void slic_check(const struct slic *s, int position, unsigned set, unsigned chain, float got)
{
    if (position < 0)
        return;
    int want = slic_expected(s, position, set, chain);
    ck_assert_msg(got == (float)want, "position %d set %u chain %u: %g, expected %d", position, set,
                  chain, (double)got, want);
}

START_TEST(slic_convolves_along_a_row)
{
    const struct slic *s = &slics[_i];
    slic_weights(s);
    for (int position = 0; position < 20; position++) {
        int done = position - (int)s->window; /* its result leaves now */
        int partials[4], x[4];
        for (unsigned i = 0; i < 4; i++) {
            partials[i] = slic_partial(position, i / 2, i % 2);
            x[i] = slic_input(position, i);
        }
        if (s->half_in)
            sim_set_pair(c, 2, pack4(partials));
        for (unsigned half = 0; half < (s->f32 ? 2u : 1u); half++) {
            if (s->f32)
                c->a[0] = bits((float)x[half]);
            else
                sim_set_pair(c, 0, pack4(x));
            unsigned moving = s->sets == 2 && s->f32 ? half : 0;
            for (unsigned i = 0; !s->half_in && i < 2; i++)
                c->a[2 + i] = bits((float)partials[2 * moving + i]);
            issue(s->form, 4, 0, 2, s->flags | (half != 0 ? 8 : 0));
            for (unsigned i = 0; s->half_out && i < 2 * s->sets; i++)
                slic_check(s, done, i / 2, i % 2, half_lane(&c->a[4], i));
            bool moved = half == 0 || s->sets == 2;
            for (unsigned i = 0; !s->half_out && moved && i < 2; i++)
                slic_check(s, done, moving, i, value_of(c->a[4 + i]));
        }
    }
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void)
{
    Suite *suite = suite_create("amp");
    TCase *tests = tcase_create("amp");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, f16_product_accumulates_over_panels_in_two_sets, 0, 2);
    tcase_add_loop_test(tests, one_set_product_with_fewer_engines, 0, 2 * COUNT(one_sets));
    tcase_add_loop_test(tests, f32_product_in_one_and_two_sets, 0, 2);
    tcase_add_loop_test(tests, f8_product_scales_its_products, 0, 2);
    tcase_add_loop_test(tests, f8_nan_code_poisons_its_unit, 0, 2);
    tcase_add_loop_test(tests, half_results_follow_nanoo_and_raise_oflo, 0, 2);
    tcase_add_loop_test(tests, unknown_flags_are_invalid_op, 0, 2);
    tcase_add_loop_test(tests, both_builds_give_the_same_accumulators, 0, 4);
    tcase_add_loop_test(tests, sum_rule_is_pairwise_in_f32, 0, 2);
    suite_add_tcase(suite, tests);
    TCase *slic = tcase_create("slic");
    tcase_add_checked_fixture(slic, setup, teardown);
    tcase_add_loop_test(slic, slic_convolves_along_a_row, 0, COUNT(slics));
    suite_add_tcase(suite, slic);
    return run_suite(suite);
}
