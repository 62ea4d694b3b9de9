/* module: device/sim */
/* The two builds of exec_f16.inc leave the same state, and no instruction, however odd its
 * operands, breaks the rules of the register files. */
#include "device/sim/core.h"
#include "tests/unit/sim_program.h"

#include <math.h>

static struct program p;
static struct sim_context *c;
static uint32_t state;

static void setup(void)
{
    program_open(&p);
    c = &p.tile->context[1];
    state = 2463534242u;
}

static void teardown(void)
{
    program_close(&p);
}

static uint32_t random_word(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* Words that mean something as f16 pairs, as f32 and as anything. */
static uint32_t operand_word(void)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7c007c00, 0x7e00fc00,
                                       0x7bff7bff, 0x00010001, 0x7f800000, 0x7fc00000,
                                       0x477fe000, 0x7c017d00, 0x04008400, 0x3c00bc00};
    uint32_t pick = random_word();
    if (pick % 4 == 0)
        return special[pick / 4 % (sizeof special / sizeof *special)];
    return pick % 4 == 1 ? random_word() & 0xbfffbfff : random_word();
}

static const uint16_t fast_forms[] = {
#define FAST(id) ISA_##id,
#include "device/sim/fast.def"
#undef FAST
};

static void randomise(void)
{
    static const uint32_t controls[] = {0,           SIM_FP_ESR, SIM_FP_NANOO,
                                        SIM_FP_OFLO, SIM_FP_INV, SIM_FP_ESR | SIM_FP_NANOO};
    for (unsigned i = 0; i < 14; i++)
        c->a[i] = operand_word();
    for (unsigned i = 0; i < 32; i++)
        (&c->acc.even[0][0])[i] = (float)(int32_t)random_word() * 0x1p-16f;
    for (unsigned i = 0; i < SIM_CWEI_SLOTS; i++)
        p.tile->cwei[i] = (uint64_t)operand_word() << 32 | operand_word();
    p.tile->f16_valid = p.tile->f8_valid = false;
    c->prng[0] = (uint64_t)random_word() << 32 | random_word();
    c->prng[1] = (uint64_t)random_word() << 32 | random_word();
    c->tas = operand_word();
    c->fp_sts = 0;
    c->fp_ctl = controls[random_word() % 6];
}

static bool same_floats(const struct sim_accumulators *x, const struct sim_accumulators *y)
{
    const float *a = &x->even[0][0], *b = &y->even[0][0];
    for (unsigned i = 0; i < 32; i++)
        if (sim_bits(a[i]) != sim_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

START_TEST(fast_and_portable_build_agree)
{
    unsigned form = fast_forms[_i];
    const char *name = isa_forms[form].syntax;
    for (unsigned n = 0; n < 3000; n++) {
        randomise();
        struct sim_half h = {.form = (uint16_t)form, .r = {4, 8, 0}, .imm = (int32_t)(n % 4)};
        if (isa_forms[form].operands[0].access == ISA_ACCESS_R)
            h.r[0] = 0;
        struct sim_context before = *c;
        int portable = sim_handlers[form](c, &h);
        struct sim_context after = *c;
        *c = before;
        int fast = sim_handler(form, sim_host_is_fast())(c, &h);
        if (portable != fast || memcmp(after.a, c->a, sizeof c->a) != 0 ||
            !same_floats(&after.acc, &c->acc) || after.fp_sts != c->fp_sts ||
            memcmp(after.prng, c->prng, sizeof c->prng) != 0)
            ck_abort_msg("%s differs in trial %u: %08x %08x, %08x %08x", name, n, after.a[4],
                         after.a[5], c->a[4], c->a[5]);
    }
}
END_TEST

/* A random instance of a form; false when the numbers drawn do not encode. */
static bool random_inst(unsigned form, struct isa_inst *inst)
{
    *inst = (struct isa_inst){.form = (uint16_t)form};
    for (unsigned i = 0; i < isa_forms[form].operand_count; i++) {
        const struct isa_operand *operand = &isa_forms[form].operands[i];
        uint32_t value = random_word() & ((1u << operand->width) - 1);
        switch (operand->kind) {
        case ISA_KIND_MR_PAIR:
        case ISA_KIND_AR_PAIR:
            value &= ~1u;
            break;
        case ISA_KIND_AR_QUAD:
            value &= ~3u;
            break;
        case ISA_KIND_WADDR:
            value = CODE + 8;
            break;
        case ISA_KIND_SIMM:
            value = (uint32_t)((int32_t)(value << (32 - operand->width)) >> (32 - operand->width));
            break;
        case ISA_KIND_UPPR:
            value <<= 20;
            break;
        default:
            break;
        }
        inst->operand[i] = (int32_t)value;
    }
    uint32_t words[2];
    return isa_encode(inst, false, words);
}

/* Addresses near memory, so that some accesses succeed. */
static void random_registers(void)
{
    randomise();
    for (unsigned i = 0; i < 12; i++)
        c->m[i] = i % 3 == 0   ? 8 * (random_word() % 16)
                  : i % 3 == 1 ? WIDE + 16 * (random_word() % 4096)
                               : random_word();
}

START_TEST(constant_registers_survive_every_worker_instruction)
{
    unsigned form = (unsigned)_i;
    if (isa_forms[form].contexts == ISA_CONTEXTS_SUPERVISOR)
        return;
    for (unsigned n = 0; n < 50; n++) {
        struct isa_inst inst;
        if (!random_inst(form, &inst))
            continue;
        p.at = CODE;
        put(&p, inst);
        for (int i = 0; i < 2; i++)
            put_exit(&p);
        random_registers();
        sim_tile_reset(p.tile, CODE, 0);
        c->tile->context[0].active = false;
        random_registers();
        sim_tile_start_worker(p.tile, 0, CODE, DATA);
        enum sim_stop stop = sim_tile_run(p.tile, 6000);
        ck_assert(stop == SIM_STOP_SYNC || stop == SIM_STOP_FAULT || stop == SIM_STOP_LIMIT);
        if (stop == SIM_STOP_FAULT)
            ck_assert_ptr_nonnull(strstr(sim_tile_fault(p.tile)->text, "worker 0"));
        ck_assert_uint_eq(c->a[14] | c->a[15] | c->m[14] | c->m[15] | c->m[12], 0);
        if (form != ISA_PUT_CSR8_MR)
            ck_assert_uint_eq(c->m[13], DATA);
    }
}
END_TEST

/* Whatever bytes are executed, a tile stops with a reason. */
START_TEST(random_words_never_escape)
{
    for (unsigned n = 0; n < 300; n++) {
        p.at = CODE;
        for (unsigned i = 0; i < 40; i++) {
            struct isa_inst inst;
            if (random_word() % 3 != 0 && random_inst(random_word() % ISA_COUNT, &inst))
                put(&p, inst);
            else
                put_word(&p, random_word());
        }
        sim_tile_reset(p.tile, CODE, 0);
        p.tile->context[0].active = _i == 0;
        random_registers();
        for (unsigned i = 0; i < 12; i++)
            p.tile->context[0].m[i] = c->m[i];
        if (_i == 1)
            sim_tile_start_worker(p.tile, 0, CODE, DATA);
        enum sim_stop stop = sim_tile_run(p.tile, 30000);
        for (unsigned k = 0; stop == SIM_STOP_SETTLE && k < 50; k++) {
            sim_tile_settled(p.tile);
            stop = sim_tile_run(p.tile, 30000);
        }
        ck_assert_int_ge((int)stop, 0);
        ck_assert_uint_eq(p.tile->context[0].m[15], 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handlers");
    TCase *tests = tcase_create("random");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, fast_and_portable_build_agree, 0,
                        (int)(sizeof fast_forms / sizeof *fast_forms));
    tcase_add_loop_test(tests, constant_registers_survive_every_worker_instruction, 0, ISA_COUNT);
    tcase_add_loop_test(tests, random_words_never_escape, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
