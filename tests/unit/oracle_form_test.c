/* module: device/sim */
/* One test for each instruction form: directed inputs and an oracle apart from the simulator's
 * code.
 *
 * tests/reference/oracle.def names the oracle of each form, and a form without one fails here.
 * Forms with a defined result run alone in the simulator and in tests/reference, and all state must
 * agree, in every rounding mode. Functions are held against long double.
 */
#include "tests/reference/compare.h"
#include "tests/reference/values.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum oracle_kind {
    ORACLE_NONE,
    ORACLE_INTEGER,
    ORACLE_SINGLE,
    ORACLE_HALF,
    ORACLE_QUARTER,
    ORACLE_RANDOM,
    ORACLE_ACCUMULATOR,
    ORACLE_MATRIX,
    ORACLE_MEMORY,
    ORACLE_CONTROL,
    ORACLE_REGISTER,
    ORACLE_FUNCTION,
    ORACLE_LAUNCH,
    ORACLE_EXCHANGE
};

#define ORACLE(form, kind) [ISA_##form] = ORACLE_##kind,
static const uint8_t oracles[ISA_COUNT] = {
#include "tests/reference/oracle.def"
};
#undef ORACLE

/* For millions of checks: ck_assert writes to a file each time. */
#define PROVE(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

enum { CASE_CODE = 0x4c100, CASE_LIMIT = 600, STATES = 64 };
static struct ref states[STATES]; /* random machines */
static unsigned next_state;
static uint8_t *reference_sram, *simulator_sram;
static struct sim_tile *tile;
static struct random numbers;

static void setup(void)
{
    reference_sram = calloc(1, IPU21_SRAM_BYTES);
    simulator_sram = calloc(1, IPU21_SRAM_BYTES);
    tile = sim_tile_create(3, simulator_sram);
    ck_assert_ptr_nonnull(tile);
    numbers = (struct random){2};
    for (unsigned i = 0; i < STATES; i++) {
        states[i] = (struct ref){.sram = reference_sram};
        gen_state(&numbers, &states[i]);
        states[i].worker = 2;
        states[i].cycle = 2;
        states[i].pc = CASE_CODE;
    }
}

static void teardown(void)
{
    sim_tile_destroy(tile);
    free(reference_sram);
    free(simulator_sram);
}

static void put_both(uint32_t address, uint32_t word)
{
    memcpy(reference_sram + (address - REF_SRAM), &word, sizeof word);
    memcpy(simulator_sram + (address - REF_SRAM), &word, sizeof word);
    sim_tile_touched(tile, address, 4);
}

/* --- one instruction in both machines --- */

/* An instruction between exits; branches of a case lead to another exit. */
static void put_case(const struct isa_inst *inst)
{
    struct isa_inst leave = GEN(EXITZ_MR, 15);
    for (uint32_t at = CASE_CODE; at < CASE_CODE + 0x80; at += 4)
        put_both(at, gen_encode(&leave, false));
    put_both(CASE_CODE, gen_encode(inst, false));
}

static void start_state(struct ref *r)
{
    *r = states[next_state++ % STATES];
}

/* A fault stops a tile for good: then it starts over, without a supervisor. */
static void load_case(const struct ref *r)
{
    struct sim_context *c = &tile->context[r->worker + 1];
    if (sim_tile_fault(tile) != NULL || c->active) {
        sim_tile_reset(tile, 0, 0);
        tile->context[0].active = false;
    }
    tile->context[0].cycle = 0;
    c->bundles = 0;
    c->repeat_first = r->repeat_first;
    c->repeat_last = r->repeat_end;
    c->repeat_left = r->repeat_count;
    compare_load(r, tile);
}

static void run_case(struct ref *r, const struct isa_inst *inst, bool memory)
{
    struct compare_report report = {.used = 0};
    struct ref before = *r;
    load_case(r);
    sim_tile_run(tile, CASE_LIMIT);
    while (r->active && r->fault == 0 && r->cycle < CASE_LIMIT)
        ref_step(r);
    if (r->fault != 0)
        r->wsr = (uint32_t)r->fault << 4 | (r->repeating ? 1u << 9 : 0);
    compare_state(r, tile, &report);
    if (memory)
        compare_memory(&report, r->sram, simulator_sram);
    if (report.used != 0) {
        char registers[512];
        size_t used = 0;
        for (unsigned i = 0; i < 14; i++)
            used += (size_t)snprintf(registers + used, sizeof registers - used, " %x/%x",
                                     before.m[i], before.a[i]);
        ck_abort_msg("%s [%d %d %d %d] fp_ctl %x, m/a before:%s\n%s", isa_forms[inst->form].syntax,
                     inst->operand[0], inst->operand[1], inst->operand[2], inst->operand[3],
                     before.fp_ctl, registers, report.text);
    }
}

/* --- inputs --- */

static const uint32_t words32[] = {
    0,          1,          2,          0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe,
    0x55555555, 0xaaaaaaaa, 0x00ff00ff, 0xff00ff00, 0x12345678, 0x89abcdef, 31,         32,
    33,         0x0000ffff, 0xffff0000, 0x00010000, 0x01020304, 0x00000fff, 0xfff00000, 0x80808080};

static const uint32_t singles[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0x3effffff, 0xbf000000, 0x3fc00000,
    0x40200000, 0xc0200000, 0x3f800001, 0x3f7fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
    0x7fc00000, 0xffc00001, 0x7f800001, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x00800001,
    0x4effffff, 0x4f000000, 0xcf000000, 0xcf000001, 0x4f7fffff, 0x4f800000, 0x477fe000, 0x477fefff,
    0x477ff000, 0x477ff001, 0xc77ff000, 0x47800000, 0x38800000, 0x387fffff, 0x33800000, 0x33000000,
    0x33000001, 0x32ffffff, 0x3f801000, 0x3f803000, 0x3f801001, 0x3f800fff, 0x5f7fffff, 0x1f800000,
    0x4b000001, 0x4b7fffff, 0x3e99999a, 0x4049000f};

static const uint16_t halves[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x3801, 0x37ff, 0x0001,
                                  0x8001, 0x03ff, 0x0400, 0x0401, 0x7bff, 0xfbff, 0x7bfe, 0x7c00,
                                  0xfc00, 0x7e00, 0xfe00, 0x7d01, 0x1400, 0x6400, 0x6401, 0x5bff,
                                  0x3c01, 0x3bff, 0x4100, 0xc500, 0x2e66, 0x0800, 0x8400, 0x7800};

enum {
    WORDS32 = sizeof words32 / sizeof words32[0],
    SINGLES = sizeof singles / sizeof singles[0],
    HALVES = sizeof halves / sizeof halves[0]
};

static uint32_t input_word(enum oracle_kind kind, unsigned i)
{
    if (kind == ORACLE_SINGLE)
        return singles[i % SINGLES];
    if (kind == ORACLE_HALF)
        return halves[i % HALVES] | (uint32_t)halves[(i / HALVES + 7 * i + 3) % HALVES] << 16;
    return words32[i % WORDS32];
}

static unsigned input_count(enum oracle_kind kind)
{
    return kind == ORACLE_SINGLE ? SINGLES : kind == ORACLE_HALF ? HALVES : WORDS32;
}

/* Modes worth a run of their own: FP_CTL values. */
static const uint32_t modes[] = {0,
                                 REF_NANOO,
                                 REF_ESR,
                                 REF_ESR | REF_NANOO,
                                 1 << REF_RND_SHIFT,
                                 2 << REF_RND_SHIFT,
                                 3 << REF_RND_SHIFT,
                                 REF_INV,
                                 REF_DIV0,
                                 REF_OFLO};

enum { MODES = sizeof modes / sizeof modes[0] };

/* --- operands --- */

enum variant { VARIANT_DISTINCT, VARIANT_SHARED, VARIANT_DROPPED, VARIANTS };

static int32_t edge_immediate(const struct isa_operand *o, unsigned i)
{
    uint32_t all = (1u << o->width) - 1;
    const uint32_t edges[] = {0, 1, all, all >> 1, (all >> 1) + 1, 5, all - 1};
    uint32_t raw = edges[i % 7] & all;
    if (o->kind == ISA_KIND_SIMM)
        return (int32_t)sign_extend(raw, o->width);
    return (int32_t)(o->kind == ISA_KIND_UPPR ? raw << 20 : raw);
}

/* Registers: all apart, all the same, or a result that is dropped. False when the form cannot. */
static bool make_operands(struct isa_inst *inst, enum variant variant, unsigned immediate)
{
    const struct isa_form *f = &isa_forms[inst->form];
    int32_t next_m = 2, next_a = 0;
    for (unsigned i = 0; i < f->operand_count; i++) {
        const struct isa_operand *o = &f->operands[i];
        int32_t count = o->kind < ISA_KIND_FIRST_IMMEDIATE ? (int32_t)ref_kind_count(o->kind) : 0;
        int32_t *next = ref_kind_main(o->kind) ? &next_m : &next_a;
        if (count == 0) {
            inst->operand[i] = edge_immediate(o, immediate);
            continue;
        }
        *next = (*next + count - 1) / count * count;
        inst->operand[i] = variant == VARIANT_SHARED ? 4 : *next;
        if (variant == VARIANT_DROPPED && o->access == ISA_ACCESS_W)
            inst->operand[i] = 16 - count;
        *next += count;
    }
    bool twice = false;
    ref_writes(inst, &twice);
    return next_a <= 14 && next_m <= 12 && !twice;
}

static unsigned immediates_of(unsigned form)
{
    for (unsigned i = 0; i < isa_forms[form].operand_count; i++)
        if (isa_forms[form].operands[i].kind >= ISA_KIND_FIRST_IMMEDIATE)
            return 7;
    return 1;
}

/* Fills the sources with inputs number b and c; lanes beyond the first get their neighbours. */
static void set_inputs(struct ref *r, const struct isa_inst *inst, enum oracle_kind kind,
                       unsigned b, unsigned c)
{
    const struct isa_form *f = &isa_forms[inst->form];
    unsigned source = 0;
    for (unsigned i = 0; i < f->operand_count; i++) {
        const struct isa_operand *o = &f->operands[i];
        if (o->kind >= ISA_KIND_FIRST_IMMEDIATE || o->access == ISA_ACCESS_W)
            continue;
        uint32_t *file = ref_kind_main(o->kind) ? r->m : r->a;
        unsigned most = ref_kind_main(o->kind) ? 12 : 14;
        for (unsigned k = 0; k < ref_kind_count(o->kind); k++)
            if ((unsigned)inst->operand[i] + k < most)
                file[inst->operand[i] + (int32_t)k] =
                    input_word(kind, (source % 2 == 0 ? b : c) + 11 * k + source / 2);
        source++;
    }
}

static void prove_arithmetic(unsigned form, enum oracle_kind kind)
{
    struct isa_inst inst = {.form = (uint16_t)form};
    unsigned count = input_count(kind), mode_count = kind == ORACLE_INTEGER ? 1 : MODES;
    unsigned cases = 0;
    for (unsigned v = 0; v < VARIANTS; v++)
        for (unsigned k = 0; k < immediates_of(form); k++) {
            if (!make_operands(&inst, (enum variant)v, k))
                continue;
            put_case(&inst);
            /* Every pair of inputs once; other registers and immediates see a part of them. */
            unsigned step = v + k == 0 ? 1 : 7;
            for (unsigned i = 0; i < count * count; i += step) {
                unsigned mode = i % 2 == 0 ? i / 2 % mode_count : 0;
                struct ref r;
                start_state(&r);
                r.fp_ctl = modes[mode];
                set_inputs(&r, &inst, kind, i / count, i % count);
                run_case(&r, &inst, false);
                cases++;
            }
        }
    ck_assert_uint_gt(cases, 300);
}

/* Random state and every value of the flags, also unnamed ones. */
static void prove_random_state(unsigned form, unsigned rounds)
{
    const struct isa_form *f = &isa_forms[form];
    struct isa_inst inst = {.form = (uint16_t)form};
    for (unsigned i = 0; i < rounds; i++) {
        if (!make_operands(&inst, (enum variant)(i % VARIANTS), 0))
            continue;
        for (unsigned k = 0; k < f->operand_count; k++)
            if (f->operands[k].kind >= ISA_KIND_FIRST_IMMEDIATE)
                inst.operand[k] = (int32_t)(i % (1u << f->operands[k].width));
        struct ref r;
        start_state(&r);
        r.fp_ctl = modes[random_below(&numbers, MODES)];
        bool raw = gen_raw_move(f->mnemonic);
        for (unsigned u = 0; u < 16 && raw; u++)
            r.even[u / 8][u % 8] &= 0xff7fffff; /* not a NaN: its bits are not defined */
        put_case(&inst);
        run_case(&r, &inst, false);
    }
}

/* All 256 codes in each lane, both formats, scales at the ends and in the middle. */
static void prove_quarter(unsigned form)
{
    static const uint32_t scales[] = {0, 1, 5, 14, 31, 32, 40, 50, 63};
    struct isa_inst inst = {.form = (uint16_t)form};
    make_operands(&inst, VARIANT_DISTINCT, 0);
    put_case(&inst);
    bool from_half = strncmp(isa_forms[form].mnemonic, "f16", 3) == 0;
    int32_t source = inst.operand[1];
    for (unsigned i = 0; i < 9 * 2 * 4 * 256; i++) {
        struct ref r;
        start_state(&r);
        r.fp_scl = scales[i % 9];
        r.fp_nfmt = i / 9 % 2 * 2;
        r.fp_ctl = modes[i / 18 % 4];
        uint32_t code = i / 72;
        for (int32_t k = 0; k < 4 && source + k < 14; k++)
            r.a[source + k] =
                from_half ? (code << 8 | ((code * 37 + (uint32_t)k * 91) & 0xff)) * 0x10001u ^
                                (uint32_t)k * 0x10400
                          : code | ((code + 85) & 0xff) << 8 | (255 - code) << 16 | code << 24;
        run_case(&r, &inst, false);
    }
}

/* --- memory: addresses that work, at the edges, misaligned, outside --- */

static const uint32_t places[] = {0x58000, 0x58004, 0x58002, 0x58001, 0x58008, 0x58010, 0x80000,
                                  0x80010, 0x80008, 0x80018, 0x88000, 0x7fff8, 0x7fffc, 0x7fffe,
                                  0x4bffc, 0x4c000, 0xe7ff0, 0xe7ff8, 0xe7ffc, 0xe7fff, 0xe8000,
                                  0,       ~7u,     ~3u,     0x90000, 0x5c000, 0x5bff8};

enum { PLACES = sizeof places / sizeof places[0] };

static void set_pace(struct ref *r, const struct isa_inst *inst, unsigned pair, const uint32_t *at)
{
    uint32_t address[3];
    for (unsigned i = 0; i < 3; i++)
        address[i] = at[i] & 0x1fffff;
    int32_t even = inst->operand[pair];
    r->m[even] = address[0] | address[2] << 21;
    r->m[even + 1] = address[1] | address[2] >> 11 << 21 | (at[0] & 1u) << 31;
    r->m[inst->operand[pair + 1]] = (uint32_t)random_next(&numbers);
}

static void prove_memory_case(struct isa_inst *inst, unsigned i, unsigned j)
{
    const struct isa_form *f = &isa_forms[inst->form];
    struct ref r;
    start_state(&r);
    uint32_t at[3] = {places[i], places[j], places[(i + 2 * j) % PLACES]};
    for (unsigned k = 0; k < f->operand_count; k++)
        if (f->operands[k].kind >= ISA_KIND_FIRST_IMMEDIATE)
            inst->operand[k] = edge_immediate(&f->operands[k], i + j);
    if (strstr(f->mnemonic, "pace") != NULL) {
        set_pace(&r, inst, strcmp(f->mnemonic, "st64pace") == 0 ? 1 : 2, at);
    } else {
        static const uint32_t deltas[] = {0, 8, 0x10, ~0xfu, 2, 0xfff8, 0x80000};
        r.m[inst->operand[1]] = places[i];
        r.m[inst->operand[2]] =
            strncmp(f->mnemonic, "ldd", 3) == 0 || strcmp(f->mnemonic, "ld64a32") == 0
                ? places[j]
                : deltas[j % 7];
        if (f->operand_count > 3 && f->operands[3].kind == ISA_KIND_MR)
            r.m[inst->operand[3]] = deltas[(i + j) % 7];
        if (strcmp(f->mnemonic, "ldb16b16") == 0)
            r.m[inst->operand[2]] = 2 * j | 4 * i << 16;
    }
    put_case(inst);
    /* A wrong store stays wrong: comparing all memory now and then finds it. */
    run_case(&r, inst, i % 9 == 0 && j % 9 == 0);
}

static void prove_memory(unsigned form)
{
    struct isa_inst inst = {.form = (uint16_t)form};
    for (uint32_t at = 0x57f00; at < 0x58200; at += 4)
        put_both(at, gen_value(&numbers));
    for (uint32_t at = 0x7ff00; at < 0x80200; at += 4)
        put_both(at, gen_value(&numbers));
    for (uint32_t at = 0xe7f00; at < 0xe8000; at += 4)
        put_both(at, gen_value(&numbers));
    for (unsigned v = 0; v < 2; v++) {
        if (!make_operands(&inst, v == 0 ? VARIANT_DISTINCT : VARIANT_DROPPED, 0))
            continue;
        for (unsigned i = 0; i < PLACES; i++)
            for (unsigned j = 0; j < PLACES; j += 1 + v)
                prove_memory_case(&inst, i, j);
    }
    struct compare_report report = {.used = 0};
    compare_memory(&report, reference_sram, simulator_sram);
    ck_assert_msg(report.used == 0, "%s\n%s", isa_forms[form].syntax, report.text);
}

/* --- control --- */

static void prove_control(unsigned form)
{
    const struct isa_form *f = &isa_forms[form];
    struct isa_inst inst = {.form = (uint16_t)form};
    for (unsigned i = 0; i < 14 * WORDS32; i++) {
        struct ref r;
        start_state(&r);
        r.repeat_end &= ~7u;
        for (unsigned k = 0; k < f->operand_count; k++) {
            const struct isa_operand *o = &f->operands[k];
            inst.operand[k] = o->kind == ISA_KIND_WADDR ? CASE_CODE + 0x20 + 4 * (int32_t)(i % 5)
                              : o->kind == ISA_KIND_MR  ? (int32_t)(i / WORDS32) + 2
                                                        : (int32_t)(i % 4);
        }
        if (inst.operand[0] < 12)
            r.m[inst.operand[0]] = form == ISA_BR_MR          ? CASE_CODE + 0x20 + i % 7
                                   : form == ISA_RPT_MR_ZIMM8 ? i % 5 + (i % 2 << 16)
                                                              : words32[i % WORDS32];
        put_case(&inst);
        /* Bodies for rpt: bundles behind the word, which is at an odd or an even place. */
        struct isa_inst add = GEN(ADD_MR_MR_SIMM16, 5, 5, 3), not = GEN(NOT_AR_AR, 5, 5);
        uint32_t at = CASE_CODE + 4;
        bool shifted = strcmp(f->mnemonic, "rpt") == 0 && i % 3 != 0;
        if (shifted) {
            put_both(CASE_CODE, 0x19e00000);
            put_both(at, gen_encode(&inst, false));
            at += 4;
        }
        for (unsigned k = 0; k < 4 && strcmp(f->mnemonic, "rpt") == 0; k++, at += 8) {
            put_both(at, gen_encode(&add, true));
            put_both(at + 4, gen_encode(&not, true));
        }
        run_case(&r, &inst, false);
    }
}

static void prove_register(unsigned form)
{
    const struct isa_form *f = &isa_forms[form];
    struct isa_inst inst = {.form = (uint16_t)form};
    for (unsigned i = 0; i < 256 * 6; i++) {
        struct ref r;
        start_state(&r);
        for (unsigned k = 0; k < f->operand_count; k++)
            inst.operand[k] = f->operands[k].kind < ISA_KIND_FIRST_IMMEDIATE
                                  ? (int32_t)(i / 256) * 3
                                  : (int32_t)(i % (1u << f->operands[k].width));
        r.m[0] = words32[i % WORDS32];
        r.fp_ctl = modes[i % MODES];
        put_case(&inst);
        run_case(&r, &inst, false);
    }
}

/* --- functions: error bound in units of the last place --- */

static long double function_value(const char *name, long double x)
{
    const char *f = strchr(name, 'v') != NULL ? name + 5 : name + 3;
    if (strcmp(f, "exp") == 0)
        return expl(x);
    if (strcmp(f, "exp2") == 0)
        return exp2l(x);
    if (strcmp(f, "ln") == 0)
        return logl(x);
    if (strcmp(f, "log2") == 0)
        return log2l(x);
    if (strcmp(f, "tanh") == 0)
        return tanhl(x);
    if (strcmp(f, "sigm") == 0)
        return 1 / (1 + expl(-x));
    ck_assert_str_eq(f, "oorx");
    return 1 / sqrtl(x);
}

static long double bits_value(uint32_t bits, bool half)
{
    struct number n = half ? number_f16(bits) : number_f32(bits);
    long double magnitude = ldexpl((long double)(uint64_t)n.magnitude, n.exponent);
    if (n.kind == NUMBER_NAN)
        return NAN;
    if (n.kind == NUMBER_INFINITE)
        magnitude = INFINITY;
    return n.negative ? -magnitude : magnitude;
}

/* Within one unit of the last place, subnormals included; beyond the format: the largest number or
 * infinity as the mode says; flags as IEEE 754 gives them. */
static void check_function(const char *name, uint32_t in, uint32_t out, uint32_t flags, bool half)
{
    long double x = bits_value(in, half), exact = function_value(name, x);
    long double found = bits_value(out, half), largest = half ? 65504.0L : 0x1.fffffep127L;
    uint32_t expected = 0;
    if (isnan(exact)) {
        PROVE(isnan(found), "%s(%Lg) is not NaN", name, x);
        expected = isnan(x) ? 0u : (uint32_t)REF_INV;
    } else if (isinf(exact) && (x == 0 || isinf(x))) {
        PROVE(found == exact, "%s(%Lg) = %Lg", name, x, found);
        expected = x == 0 ? (uint32_t)REF_DIV0 : 0u;
    } else if (fabsl(exact) > largest * (1 + (half ? 0x1p-12L : 0x1p-25L))) {
        /* f16 saturates as long as NANOO is 0. */
        PROVE(fabsl(found) == (half ? largest : (long double)INFINITY), "%s(%Lg) = %Lg", name, x,
              found);
        expected = REF_OFLO;
    } else {
        int exponent = half ? -14 : -126;
        if (exact != 0 && ilogbl(exact) > exponent)
            exponent = ilogbl(exact);
        long double unit = ldexpl(1, exponent - (half ? 10 : 23));
        PROVE(fabsl(found - exact) <= unit, "%s(%La) = %La, not %La", name, x, found, exact);
    }
    PROVE(flags == expected, "%s(%Lg): flags %x, not %x", name, x, flags, expected);
}

static uint32_t function_input(uint32_t i, bool half)
{
    if (half)
        return i * 0x10001u;
    if (i < SINGLES)
        return singles[i];
    uint32_t any = (uint32_t)random_next(&numbers);
    return i % 2 != 0 ? any : (any & 0x83ffffff) | 0x3c000000;
}

/* Runs the function of $a5 into $a3. */
static void function_case(const char *name, uint32_t in, bool half)
{
    struct sim_context *c = &tile->context[3];
    struct ref r;
    start_state(&r);
    r.a[5] = in;
    load_case(&r);
    PROVE(sim_tile_run(tile, CASE_LIMIT) == SIM_STOP_SYNC, "%s faults", name);
    PROVE(!half || c->a[3] >> 16 == (c->a[3] & 0xffff), "%s: halves differ", name);
    PROVE(c->a[5] == in && c->a[4] == r.a[4], "%s changes another register", name);
    check_function(name, half ? in & 0xffff : in, half ? c->a[3] & 0xffff : c->a[3], c->fp_sts,
                   half);
}

static void prove_function(unsigned form)
{
    const char *name = isa_forms[form].mnemonic;
    bool half = strncmp(name, "f16", 3) == 0;
    struct isa_inst inst = {.form = (uint16_t)form, .operand = {3, 5}};
    put_case(&inst);
    for (uint32_t i = 0; i < (half ? 65536 : 16384); i++)
        function_case(name, function_input(i, half), half);
}

/* --- the gate, and the loop over all forms --- */

START_TEST(every_form_has_an_oracle)
{
    for (unsigned form = 0; form < ISA_COUNT; form++) {
        ck_assert_msg(oracles[form] != ORACLE_NONE, "%s has no oracle", isa_forms[form].syntax);
        if (oracles[form] < ORACLE_FUNCTION)
            ck_assert_msg(ref_action_find(form) != NULL, "%s is unknown to the reference",
                          isa_forms[form].syntax);
    }
}
END_TEST

START_TEST(form_agrees_with_its_oracle)
{
    unsigned form = (unsigned)_i;
    switch ((enum oracle_kind)oracles[form]) {
    case ORACLE_INTEGER:
    case ORACLE_SINGLE:
    case ORACLE_HALF:
        prove_arithmetic(form, (enum oracle_kind)oracles[form]);
        break;
    case ORACLE_QUARTER:
        prove_quarter(form);
        break;
    case ORACLE_RANDOM:
    case ORACLE_ACCUMULATOR:
    case ORACLE_MATRIX:
        prove_random_state(form, 2000);
        break;
    case ORACLE_MEMORY:
        prove_memory(form);
        break;
    case ORACLE_CONTROL:
        prove_control(form);
        break;
    case ORACLE_REGISTER:
        prove_register(form);
        break;
    case ORACLE_FUNCTION:
        prove_function(form);
        break;
    case ORACLE_LAUNCH:
    case ORACLE_EXCHANGE: /* oracle_supervisor_test.c */
        break;
    case ORACLE_NONE:
        ck_abort_msg("%s has no oracle", isa_forms[form].syntax);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle_form");
    TCase *tcase = tcase_create("forms");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, every_form_has_an_oracle);
    tcase_add_loop_test(tcase, form_agrees_with_its_oracle, 0, ISA_COUNT);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
