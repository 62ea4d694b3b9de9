/* module: device/sim */
/* Rounding between f32, f16 and f8 over whole formats, by searching the values of the formats: the
 * nearest code, ties to the even one. Instructions stream over memory, so that all codes go through
 * instruction words. Stochastic rounding is held against its distribution.
 */
#include "tests/unit/sim_program.h"

#include "tests/reference/random.h"

#include <math.h>

enum {
    SOURCE = 0x80000,
    RESULT = 0xb4000,
    CHUNK = 0x8000,
    F16_FINITE = 0x7c00, /* codes from 0 up to infinity */
    CONTROL_ESR = 1 << 19,
    CONTROL_NANOO = 1 << 20,
    OFLO = 4
};

static struct program p;
static long double f16_values[F16_FINITE + 1], f8_values[2][129]; /* ascending, one past the end */

static long double half_value(uint32_t code)
{
    uint32_t exponent = code >> 10 & 31, mantissa = code & 1023;
    return ldexpl(exponent != 0 ? 1024 + mantissa : mantissa,
                  (exponent != 0 ? (int)exponent : 1) - 25);
}

static long double quarter_value(uint32_t code, bool f143)
{
    unsigned bits = f143 ? 3 : 2;
    uint32_t exponent = code >> bits, mantissa = code & ((1u << bits) - 1);
    int least = f143 ? -10 : -17;
    return ldexpl(exponent != 0 ? (1u << bits) + mantissa : mantissa,
                  (exponent != 0 ? (int)exponent : 1) - 1 + least);
}

static void setup(void)
{
    program_open(&p);
    for (uint32_t i = 0; i <= F16_FINITE; i++)
        f16_values[i] = half_value(i);
    for (uint32_t i = 0; i <= 128; i++) {
        f8_values[0][i] = quarter_value(i, false);
        f8_values[1][i] = quarter_value(i, true);
    }
}

static void teardown(void)
{
    program_close(&p);
}

/* The index of the value nearest to `x`, of two the even one; the last index stands for overflow.
 */
static uint32_t nearest(const long double *values, uint32_t last, long double x)
{
    uint32_t low = 0, high = last;
    if (x >= values[last])
        return last;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (values[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    long double below = x - values[low], above = values[high] - x;
    if (below != above)
        return below < above ? low : high;
    return low % 2 == 0 ? low : high;
}

static long double single_value(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (long double)value;
}

/* --- the stream --- */

struct stream {
    unsigned form; /* A := f(B), one register each */
    uint32_t control, format, scale, seed;
    uint32_t in[CHUNK], out[CHUNK];
    uint32_t flags;
};

static struct stream s;

static void put_uput(unsigned index, uint32_t value)
{
    put(&p, I(SETZI_AR_ZIMM20, 2, (int32_t)(value & 0xfffff)));
    if (value >> 20 != 0)
        put(&p, I(OR_AR_AR_UPPR12, 2, 2, (int32_t)(value & 0xfff00000)));
    put(&p, I(UPUT_UCSR8_AR, (int32_t)index, 2));
}

static void stream_run(uint32_t count)
{
    struct isa_inst nop = I(SETZI_MR_ZIMM20, 14, 0), idle = I(SETZI_AR_ZIMM20, 15, 0);
    struct isa_inst convert = {.form = (uint16_t)s.form, .operand = {1, 0}};
    memcpy(p.sram + (SOURCE - IPU21_SRAM_BASE), s.in, 4 * count);
    p.at = CODE;
    put_uput(2, s.control);
    put_uput(9, s.format);
    put_uput(10, s.scale);
    if (s.seed != 0)
        put_uput(7, s.seed);
    put(&p, I(SETZI_MR_ZIMM20, 0, SOURCE));
    put(&p, I(SETZI_MR_ZIMM20, 1, 0));
    put(&p, I(SETZI_MR_ZIMM20, 2, RESULT));
    put(&p, I(SETZI_MR_ZIMM20, 3, 0));
    put(&p, I(SETZI_MR_ZIMM20, 4, (int32_t)count));
    if (p.at % 8 == 0)
        put(&p, nop);
    put(&p, I(RPT_MR_ZIMM8, 4, 2));
    put_bundle(&p, I(LD32STEP_AR_MR_MR_SIMM8, 0, 0, 1, 1), idle);
    put_bundle(&p, nop, convert);
    put_bundle(&p, I(ST32STEP_AR_MR_MR_SIMM8, 1, 2, 3, 1), idle);
    put(&p, I(UGET_AR_UCSR8, 4, 0));
    run_worker(&p);
    memcpy(s.out, p.sram + (RESULT - IPU21_SRAM_BASE), 4 * count);
    s.flags = a_reg(&p, 4);
}

/* --- f16 and f32 --- */

START_TEST(every_f16_code_widens_exactly_and_comes_back)
{
    for (uint32_t first = 0; first < 0x10000; first += CHUNK) {
        s.form = ISA_F16TOF32_AR_AR;
        for (uint32_t i = 0; i < CHUNK; i++)
            s.in[i] = (first + i) | (first + i) * 7 << 16;
        stream_run(CHUNK);
        for (uint32_t i = 0; i < CHUNK; i++) {
            uint32_t code = first + i, size = code & 0x7fff;
            long double value = single_value(s.out[i]);
            bool right = size > F16_FINITE ? s.out[i] == 0x7fc00000
                         : size == F16_FINITE
                             ? s.out[i] == (0x7f800000 | (code & 0x8000) << 16)
                             : fabsl(value) == f16_values[size] && s.out[i] >> 31 == code >> 15;
            if (!right)
                ck_abort_msg("f16 %04x widens to %08x", code, s.out[i]);
        }
        memcpy(s.in, s.out, sizeof s.in);
        s.form = ISA_F32TOF16_AR_AR;
        stream_run(CHUNK);
        for (uint32_t i = 0; i < CHUNK; i++) {
            uint32_t code = first + i;
            if ((code & 0x7fff) > F16_FINITE)
                code = 0x7e00;
            if (s.out[i] != code * 0x10001u)
                ck_abort_msg("f16 %04x comes back as %08x", code, s.out[i]);
        }
        ck_assert_uint_eq(s.flags, 0);
    }
}
END_TEST

/* Between every two neighbours: the half, the f32 below and above it, quarters; both signs. */
START_TEST(halfway_cases_go_to_the_even_code)
{
    static const int offsets[] = {-1, 0, 1};
    uint32_t control = _i == 0 ? 0 : CONTROL_NANOO, at = 0, overflows = 0;
    s = (struct stream){.form = ISA_F32TOF16_AR_AR, .control = control};
    for (uint32_t code = 0; code < F16_FINITE; code++) {
        float middle = (float)((f16_values[code] + f16_values[code + 1]) / 2);
        for (unsigned k = 0; k < 6; k++, at++) {
            uint32_t bits;
            memcpy(&bits, &middle, sizeof bits);
            s.in[at] = (bits + (uint32_t)offsets[k % 3]) | (k >= 3 ? 0x80000000 : 0);
        }
        if (at + 6 <= CHUNK && code + 1 < F16_FINITE)
            continue;
        stream_run(at);
        for (uint32_t i = 0; i < at; i++) {
            uint32_t sign = s.in[i] >> 16 & 0x8000;
            uint32_t want = nearest(f16_values, F16_FINITE, fabsl(single_value(s.in[i])));
            overflows += want == F16_FINITE;
            if (want == F16_FINITE)
                want = _i == 0 ? 0x7bff : 0x7e00;
            if (want != 0x7e00)
                want |= sign;
            if (s.out[i] != want * 0x10001u)
                ck_abort_msg("f32 %08x: %08x, expected %04x", s.in[i], s.out[i], want);
        }
        at = 0;
    }
    ck_assert_uint_eq(overflows, 4); /* 65520 and the f32 above it, twice */
    ck_assert_uint_eq(s.flags, OFLO);
}
END_TEST

/* --- f8 --- */

/* What one f16 becomes: 0x80 for NaN, infinity and, with NANOO, overflow. */
static uint32_t quarter_expected(uint32_t code, bool f143, int scale, bool nanoo, bool *overflow)
{
    if ((code & 0x7fff) >= F16_FINITE)
        return 0x80;
    /* The value after the largest one, 256 or 65536, would be the code 128. */
    uint32_t size = nearest(f8_values[f143], 128, ldexpl(f16_values[code & 0x7fff], scale));
    if (size == 128) {
        *overflow = true;
        return nanoo ? 0x80u : 0x7f | (code >> 8 & 0x80);
    }
    return size == 0 ? 0 : size | (code >> 8 & 0x80);
}

START_TEST(every_f16_code_rounds_to_the_nearest_f8)
{
    static const int scales[] = {0, 1, -1, 5, -7, 10, -14, 24, -32, 31};
    int scale = scales[_i / 2];
    bool f143 = _i % 2 != 0, nanoo = _i % 4 >= 2;
    s = (struct stream){.form = ISA_F16V2TOF8_AR_AR,
                        .control = nanoo ? CONTROL_NANOO : 0,
                        .format = f143 ? 2 : 0,
                        .scale = (uint32_t)scale & 63};
    for (uint32_t i = 0; i < CHUNK; i++)
        s.in[i] = i | (0xffff - i) << 16;
    stream_run(CHUNK);
    bool overflow = false;
    for (uint32_t i = 0; i < CHUNK; i++) {
        uint32_t want = quarter_expected(i, f143, scale, nanoo, &overflow);
        want |= quarter_expected(0xffff - i, f143, scale, nanoo, &overflow) << 8;
        if (s.out[i] != want)
            ck_abort_msg("f16 %04x %04x scale %d f143 %d: %08x, expected %04x", i, 0xffff - i,
                         scale, f143, s.out[i], want);
    }
    ck_assert_uint_eq(s.flags, overflow ? OFLO : 0);
}
END_TEST

/* All codes, formats and scales; rounding only where f16 is too narrow for them. */
START_TEST(every_f8_code_widens_with_every_scale)
{
    for (int scale = -32; scale < 32; scale++)
        for (unsigned f143 = 0; f143 < 2; f143++) {
            s = (struct stream){
                .form = ISA_F8V2TOF16_AR_AR, .format = 2 * f143, .scale = (uint32_t)scale & 63};
            for (uint32_t i = 0; i < 256; i++)
                s.in[i] = i | (i ^ 0x55) << 8 | 0xdead0000;
            stream_run(256);
            for (uint32_t i = 0; i < 512; i++) {
                uint32_t code = i < 256 ? i : (i - 256) ^ 0x55;
                uint32_t found = s.out[i % 256] >> (i < 256 ? 0 : 16) & 0xffff;
                uint32_t want =
                    nearest(f16_values, F16_FINITE, ldexpl(f8_values[f143][code & 0x7f], scale));
                want = want == F16_FINITE ? 0x7bff : want;
                want = code == 0x80 ? 0x7e00 : want | (code & 0x80) << 8;
                if (found != want)
                    ck_abort_msg("f8 %02x scale %d f143 %u: %04x, expected %04x", code, scale, f143,
                                 found, want);
            }
        }
}
END_TEST

/* --- stochastic rounding --- */

/* Of `count` roundings of a value that lies `fraction` of the way up, how many may go up. */
static void check_binomial(uint32_t ups, uint32_t count, double fraction, const char *what)
{
    double mean = count * fraction, sigma = sqrt(count * fraction * (1 - fraction));
    ck_assert_msg(fabs(ups - mean) <= 5 * sigma + 0.01, "%s: %u of %u up, expected %g +- %g", what,
                  ups, count, mean, sigma);
}

START_TEST(stochastic_f16_goes_up_as_often_as_its_fraction_says)
{
    static const uint32_t codes[] = {0, 1, 0x3ff, 0x400, 0x3c00, 0x5678, 0x7bfe};
    static const double fractions[] = {0, 1.0 / 64, 0.25, 0.5, 0.8125, 1 - 1.0 / 128};
    for (unsigned c = 0; c < 7; c++)
        for (unsigned f = 0; f < 6; f++) {
            uint32_t code = codes[c], ups = 0, sign = (c + f) % 2 << 15;
            float value = (float)(f16_values[code] + (long double)fractions[f] *
                                                         (f16_values[code + 1] - f16_values[code]));
            s = (struct stream){
                .form = ISA_F32TOF16_AR_AR, .control = CONTROL_ESR, .seed = 1000 + 10 * c + f};
            value = sign != 0 ? -value : value;
            for (uint32_t i = 0; i < CHUNK / 2; i++)
                memcpy(&s.in[i], &value, sizeof value);
            stream_run(CHUNK / 2);
            for (uint32_t i = 0; i < CHUNK / 2; i++) {
                uint32_t found = s.out[i] & 0xffff;
                ups += found == (sign | (code + 1));
                if (found != (sign | code) && found != (sign | (code + 1)))
                    ck_abort_msg("%a becomes %04x", (double)value, found);
            }
            check_binomial(ups, CHUNK / 2, fractions[f], "f16");
        }
}
END_TEST

START_TEST(stochastic_f8_goes_up_as_often_as_its_fraction_says)
{
    /* F143 around 1: steps of 1/8, f16 has 2^-10. */
    for (uint32_t part = 0; part < 128; part += 9) {
        uint32_t ups[2] = {0, 0}, both = 0;
        s = (struct stream){
            .form = ISA_F16V2TOF8_AR_AR, .control = CONTROL_ESR, .format = 2, .seed = 77 + part};
        for (uint32_t i = 0; i < CHUNK / 2; i++)
            s.in[i] = (0x3c00 + part) * 0x10001u;
        stream_run(CHUNK / 2);
        for (uint32_t i = 0; i < CHUNK / 2; i++) {
            uint32_t low = s.out[i] & 0xff, high = s.out[i] >> 8;
            if (low - 0x40 > 1 || high - 0x40 > 1)
                ck_abort_msg("%u/128 above 1 becomes %04x", part, s.out[i]);
            ups[0] += low - 0x40;
            ups[1] += high - 0x40;
            both += low - 0x40 && high - 0x40;
        }
        double fraction = part / 128.0;
        check_binomial(ups[0], CHUNK / 2, fraction, "low lane");
        check_binomial(ups[1], CHUNK / 2, fraction, "high lane");
        check_binomial(both, CHUNK / 2, fraction * fraction, "lanes together");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle_rounding");
    TCase *tcase = tcase_create("rounding");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_f16_code_widens_exactly_and_comes_back);
    tcase_add_loop_test(tcase, halfway_cases_go_to_the_even_code, 0, 2);
    tcase_add_loop_test(tcase, every_f16_code_rounds_to_the_nearest_f8, 0, 20);
    tcase_add_test(tcase, every_f8_code_widens_with_every_scale);
    tcase_add_test(tcase, stochastic_f16_goes_up_as_often_as_its_fraction_says);
    tcase_add_test(tcase, stochastic_f8_goes_up_as_often_as_its_fraction_says);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
