/* module: device/sim */
/* Integer, logic and byte instructions against values worked out by hand, and bundle semantics. */
#include "tests/unit/sim_program.h"

static struct program p;

static void setup(void)
{
    program_open(&p);
}

static void teardown(void)
{
    program_close(&p);
}

/* A := f(B, C) with B in register 1, C in register 2 or the immediate. */
struct row {
    unsigned form;
    uint32_t b, c, result;
};
#define MROW(id, b, c, r)                                                                          \
    {                                                                                              \
        ISA_##id##_MR_MR_MR, b, c, r                                                               \
    }
#define IROW(id, b, c, r)                                                                          \
    {                                                                                              \
        ISA_##id, b, (uint32_t)(c), r                                                              \
    }

static const struct row m_rows[] = {
    MROW(ADD, 0xffffffff, 2, 1),
    IROW(ADD_MR_MR_SIMM16, 5, -7, 0xfffffffe),
    IROW(ADD_MR_MR_ZIMM16, 1, 0xffff, 0x10000),
    MROW(SUB, 3, 5, 0xfffffffe),
    MROW(MUL, 0x10001, 0x10001, 0x20001),
    IROW(MUL_MR_MR_SIMM16, 7, -3, 0xffffffeb),
    MROW(AND, 0xf0f0f0f0, 0xff00ff00, 0xf000f000),
    IROW(AND_MR_MR_ZIMM12, 0xffffffff, 0xabc, 0xabc),
    MROW(ANDC, 0xffff0000, 0xf0f0f0f0, 0x0f0f0000),
    IROW(ANDC_MR_MR_ZIMM12, 0xffffffff, 0xfff, 0xfffff000),
    MROW(OR, 0x0f000000, 0x000000f0, 0x0f0000f0),
    IROW(OR_MR_MR_ZIMM12, 0xf000, 0xfff, 0xffff),
    IROW(OR_MR_MR_UPPR12, 0x12345, 0xabc00000, 0xabc12345),
    MROW(XOR, 0xff00ff00, 0x0ff00ff0, 0xf0f0f0f0),
    MROW(XNOR, 0xff00ff00, 0x0ff00ff0, 0x0f0f0f0f),
    MROW(SHL, 0x80000001, 31, 0x80000000),
    MROW(SHL, 1, 0, 1),
    IROW(SHL_MR_MR_ZIMM12, 0x00000fff, 20, 0xfff00000),
    MROW(SHR, 0x80000000, 31, 1),
    IROW(SHR_MR_MR_ZIMM12, 0xf0000000, 28, 0xf),
    MROW(SHRS, 0x80000000, 31, 0xffffffff),
    IROW(SHRS_MR_MR_ZIMM12, 0xf0000000, 4, 0xff000000),
    MROW(CMPEQ, 5, 5, 1),
    MROW(CMPEQ, 5, 6, 0),
    IROW(CMPEQ_MR_MR_SIMM16, 0xffffffff, -1, 1),
    IROW(CMPEQ_MR_MR_ZIMM16, 0xffffffff, 0xffff, 0),
    MROW(CMPNE, 5, 6, 1),
    MROW(CMPNE, 6, 6, 0),
    MROW(CMPSLT, 0xffffffff, 0, 1),
    MROW(CMPSLT, 0, 0xffffffff, 0),
    IROW(CMPSLT_MR_MR_SIMM16, 0xfffffff0, -1, 1),
    MROW(CMPULT, 0xffffffff, 0, 0),
    MROW(CMPULT, 0, 0xffffffff, 1),
    IROW(CMPULT_MR_MR_ZIMM16, 0xfffe, 0xffff, 1),
    MROW(MAX, 0xffffffff, 0, 0),
    IROW(MAX_MR_MR_SIMM16, 0xfffffffe, -1, 0xffffffff),
    IROW(MAX_MR_MR_ZIMM16, 0xfffffffe, 0xffff, 0xffff),
    MROW(MIN, 0xffffffff, 0, 0xffffffff),
    IROW(MIN_MR_MR_SIMM16, 3, -1, 0xffffffff),
    IROW(MIN_MR_MR_ZIMM16, 0xfffffffe, 1, 0xfffffffe),
    MROW(ROLL8L, 0xa3a2a1a0, 0xb3b2b1b0, 0xb2b1b0a3),
    MROW(ROLL8R, 0xa3a2a1a0, 0xb3b2b1b0, 0xb0a3a2a1),
    MROW(ROLL16, 0xa3a2a1a0, 0xb3b2b1b0, 0xb1b0a3a2),
    MROW(SHUF8X8LO, 0xa3a2a1a0, 0xb3b2b1b0, 0xb1a1b0a0),
    MROW(SHUF8X8HI, 0xa3a2a1a0, 0xb3b2b1b0, 0xb3a3b2a2),
    MROW(SORT8X8LO, 0xa3a2a1a0, 0xb3b2b1b0, 0xb2b0a2a0),
    MROW(SORT8X8HI, 0xa3a2a1a0, 0xb3b2b1b0, 0xb3b1a3a1),
    MROW(SORT4X16LO, 0xa3a2a1a0, 0xb3b2b1b0, 0xb1b0a1a0),
    MROW(SORT4X16HI, 0xa3a2a1a0, 0xb3b2b1b0, 0xb3b2a3a2),
    /* one source */
    IROW(ABS_MR_MR, 0xfffffff6, 0, 10),
    IROW(ABS_MR_MR, 10, 0, 10),
    IROW(BITREV8_MR_MR, 0x01028003, 0, 0x804001c0),
    IROW(CLZ_MR_MR, 0, 0, 32),
    IROW(CLZ_MR_MR, 0x00010000, 0, 15),
    IROW(CMS_MR_MR, 0xffff0000, 0, 15),
    IROW(CMS_MR_MR, 0x00000001, 0, 30),
    IROW(CMS_MR_MR, 0xffffffff, 0, 31),
    IROW(POPC_MR_MR, 0xf0f00001, 0, 9),
    IROW(SORT8_MR_MR, 0xa3a2a1a0, 0, 0xa3a1a2a0),
    IROW(SWAP8_MR_MR, 0xa3a2a1a0, 0, 0xa2a3a0a1),
};

static struct isa_inst row_inst(const struct row *row)
{
    const struct isa_form *form = &isa_forms[row->form];
    struct isa_inst inst = {.form = (uint16_t)row->form, .operand = {0, 1, 2}};
    if (form->operand_count == 3 && form->operands[2].kind >= ISA_KIND_FIRST_IMMEDIATE)
        inst.operand[2] = (int32_t)row->c;
    return inst;
}

START_TEST(main_lane_integer_instruction_gives_the_expected_word)
{
    const struct row *row = &m_rows[_i];
    set_m(&p, 1, row->b);
    set_m(&p, 2, row->c);
    put(&p, row_inst(row));
    run_worker(&p);
    ck_assert_msg(m_reg(&p, 0) == row->result, "%s: 0x%x, expected 0x%x",
                  isa_forms[row->form].syntax, m_reg(&p, 0), row->result);
}
END_TEST

START_TEST(supervisor_computes_the_same_as_a_worker)
{
    const struct row *row = &m_rows[_i];
    put(&p, row_inst(row));
    put(&p, I(SYNC_ZIMM4, 3));
    sim_tile_reset(p.tile, CODE, 0);
    sim_tile_set_m(p.tile, 0, 1, row->b);
    sim_tile_set_m(p.tile, 0, 2, row->c);
    ck_assert_int_eq(sim_tile_run(p.tile, FOREVER), SIM_STOP_SYNC);
    ck_assert_uint_eq(sim_tile_m(p.tile, 0, 0), row->result);
}
END_TEST

#define AROW(id, b, c, r)                                                                          \
    {                                                                                              \
        ISA_##id##_AR_AR_AR, b, c, r                                                               \
    }
static const struct row a_rows[] = {
    AROW(AND, 0xf0f0f0f0, 0xff00ff00, 0xf000f000),
    IROW(AND_AR_AR_ZIMM12, 0xffffffff, 0xabc, 0xabc),
    IROW(AND_AR_AR_UPPR12, 0xffffffff, 0xabc00000, 0xabc00000),
    AROW(ANDC, 0xffff0000, 0xf0f0f0f0, 0x0f0f0000),
    IROW(ANDC_AR_AR_ZIMM12, 0xffffffff, 0xfff, 0xfffff000),
    IROW(ANDC_AR_AR_UPPR12, 0xffffffff, 0xfff00000, 0x000fffff),
    AROW(OR, 0x0f000000, 0x000000f0, 0x0f0000f0),
    IROW(OR_AR_AR_ZIMM12, 0xf000, 0xfff, 0xffff),
    IROW(OR_AR_AR_UPPR12, 0x12345, 0xabc00000, 0xabc12345),
    AROW(ROLL8L, 0xa3a2a1a0, 0xb3b2b1b0, 0xb2b1b0a3),
    AROW(ROLL8R, 0xa3a2a1a0, 0xb3b2b1b0, 0xb0a3a2a1),
    AROW(ROLL16, 0xa3a2a1a0, 0xb3b2b1b0, 0xb1b0a3a2),
    AROW(SHUF8X8LO, 0xa3a2a1a0, 0xb3b2b1b0, 0xb1a1b0a0),
    AROW(SHUF8X8HI, 0xa3a2a1a0, 0xb3b2b1b0, 0xb3a3b2a2),
    AROW(SORT8X8LO, 0xa3a2a1a0, 0xb3b2b1b0, 0xb2b0a2a0),
    AROW(SORT8X8HI, 0xa3a2a1a0, 0xb3b2b1b0, 0xb3b1a3a1),
    AROW(SORT4X16LO, 0xa3a2a1a0, 0xb3b2b1b0, 0xb1b0a1a0),
    AROW(SORT4X16HI, 0xa3a2a1a0, 0xb3b2b1b0, 0xb3b2a3a2),
    IROW(SORT4X16LO_AR_AR_BU_AR, 0xa3a2a1a0, 0xb3b2b1b0, 0xb1b0a3a2),
    IROW(SORT4X16HI_AR_AR_BL_AR, 0xa3a2a1a0, 0xb3b2b1b0, 0xb3b2a1a0),
    IROW(NOT_AR_AR, 0x12345678, 0, 0xedcba987),
    IROW(SORT8_AR_AR, 0xa3a2a1a0, 0, 0xa3a1a2a0),
    IROW(SWAP8_AR_AR, 0xa3a2a1a0, 0, 0xa2a3a0a1),
};

START_TEST(aux_lane_word_instruction_gives_the_expected_word)
{
    const struct row *row = &a_rows[_i];
    set_a(&p, 1, row->b);
    set_a(&p, 2, row->c);
    put(&p, row_inst(row));
    run_worker(&p);
    ck_assert_msg(a_reg(&p, 0) == row->result, "%s: 0x%x, expected 0x%x",
                  isa_forms[row->form].syntax, a_reg(&p, 0), row->result);
}
END_TEST

struct pair_row {
    unsigned form;
    uint32_t low, high;
};
/* b = {0xb0b0b0b0, 0xb1b1b1b1} in a2:3, c = {0xc0c00000, 0x0000c1c1} in a4:5. */
static const struct pair_row pair_rows[] = {
    {ISA_AND64_ARPAIR_ARPAIR_ARPAIR, 0xb0b0b0b0 & 0xc0c00000, 0xb1b1b1b1 & 0x0000c1c1},
    {ISA_ANDC64_ARPAIR_ARPAIR_ARPAIR, 0xb0b0b0b0 & ~0xc0c00000u, 0xb1b1b1b1 & ~0x0000c1c1u},
    {ISA_OR64_ARPAIR_ARPAIR_ARPAIR, 0xb0b0b0b0 | 0xc0c00000, 0xb1b1b1b1 | 0x0000c1c1},
    {ISA_ROLL32_ARPAIR_ARPAIR_ARPAIR, 0xb1b1b1b1, 0xc0c00000},
    {ISA_SORT4X32LO_ARPAIR_ARPAIR_ARPAIR, 0xb0b0b0b0, 0xc0c00000},
    {ISA_SORT4X32HI_ARPAIR_ARPAIR_ARPAIR, 0xb1b1b1b1, 0x0000c1c1},
    {ISA_NOT64_ARPAIR_ARPAIR, 0x4f4f4f4f, 0x4e4e4e4e},
};

START_TEST(pair_instruction_gives_the_expected_words)
{
    const struct pair_row *row = &pair_rows[_i];
    const uint32_t words[] = {0xb0b0b0b0, 0xb1b1b1b1, 0xc0c00000, 0x0000c1c1};
    for (unsigned i = 0; i < 4; i++)
        set_a(&p, 2 + i, words[i]);
    put(&p, (struct isa_inst){.form = (uint16_t)row->form, .operand = {0, 2, 4}});
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), row->low);
    ck_assert_uint_eq(a_reg(&p, 1), row->high);
}
END_TEST

START_TEST(subtract_from_immediate)
{
    set_m(&p, 1, 3);
    put(&p, I(SUB_MR_SIMM16_MR, 0, -5, 1));
    put(&p, I(SUB_MR_ZIMM16_MR, 2, 0xffff, 1));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 0), (uint32_t)-8);
    ck_assert_uint_eq(m_reg(&p, 2), 0xfffc);
}
END_TEST

START_TEST(movz_moves_if_the_condition_is_not_zero)
{
    set_m(&p, 0, 1);
    set_m(&p, 1, 2);
    set_m(&p, 2, 7);
    put(&p, I(MOVZ_MR_MR_MR, 0, 15, 2));
    put(&p, I(MOVZ_MR_MR_MR, 1, 2, 2));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 0), 1);
    ck_assert_uint_eq(m_reg(&p, 1), 7);
}
END_TEST

START_TEST(setzi_atom_and_tapack)
{
    put(&p, I(SETZI_AR_ZIMM20, 3, 0xfffff));
    put(&p, I(ATOM_MR_AR, 0, 3));
    put(&p, I(SETZI_MR_ZIMM20, 1, 0x80008));
    put(&p, I(SETZI_MR_ZIMM20, 2, 0x90010));
    put(&p, I(SETZI_MR_ZIMM20, 3, 0xabcd8));
    put(&p, I(TAPACK_MRPAIR_MR_MR_MR, 4, 1, 2, 3));
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 0), 0xfffff);
    ck_assert_uint_eq(m_reg(&p, 4), 0x80008u | (0xabcd8u & 0x7ff) << 21);
    ck_assert_uint_eq(m_reg(&p, 5), 0x90010u | (0xabcd8u >> 11) << 21);
}
END_TEST

START_TEST(writes_to_constant_registers_are_dropped)
{
    put(&p, I(SETZI_MR_ZIMM20, 15, 1));
    put(&p, I(SETZI_MR_ZIMM20, 14, 1));
    put(&p, I(SETZI_MR_ZIMM20, 13, 1));
    put(&p, I(SETZI_MR_ZIMM20, 12, 1));
    put(&p, I(SETZI_AR_ZIMM20, 15, 1));
    put(&p, I(F32V2ADD_ARPAIR_ARPAIR_ARPAIR, 14, 0, 0));
    put(&p, I(OR_MR_MR_MR, 0, 15, 13));
    put(&p, I(OR_AR_AR_AR, 1, 15, 15));
    set_a(&p, 0, 0x3f800000);
    set_a(&p, 1, 77);
    run_worker(&p);
    ck_assert_uint_eq(m_reg(&p, 0), DATA); /* the vertex base */
    ck_assert_uint_eq(m_reg(&p, 12), 0);
    ck_assert_uint_eq(a_reg(&p, 1), 0);
    ck_assert_uint_eq(a_reg(&p, 14), 0);
}
END_TEST

START_TEST(bundle_halves_both_read_old_state)
{
    /* The store takes a0:1 from before the bundle; the add writes them. */
    set_m(&p, 0, DATA);
    set_a(&p, 0, 0x3f800000);
    set_a(&p, 1, 0x40000000);
    put_bundle(&p, I(ST64_ARPAIR_MR_MR_ZIMM12, 0, 0, 15, 0),
               I(F32V2ADD_ARPAIR_ARPAIR_ARPAIR, 0, 0, 0));
    run_worker(&p);
    ck_assert_uint_eq(peek64(&p, DATA), 0x400000003f800000u);
    ck_assert_uint_eq(a_reg(&p, 0), 0x40000000);
    ck_assert_uint_eq(a_reg(&p, 1), 0x40800000);
}
END_TEST

START_TEST(bundle_aux_half_does_not_see_the_load_of_its_bundle)
{
    set_m(&p, 0, DATA);
    set_a(&p, 0, 0x3f800000);
    set_a(&p, 1, 0x40000000);
    poke64(&p, DATA, 0x4120000041100000u);
    put_bundle(&p, I(LD64_ARPAIR_MR_MR_ZIMM12, 0, 0, 15, 0),
               I(F32V2ADD_ARPAIR_ARPAIR_ARPAIR, 2, 0, 0));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 2), 0x40000000);
    ck_assert_uint_eq(a_reg(&p, 3), 0x40800000);
    ck_assert_uint_eq(a_reg(&p, 0), 0x41100000);
    ck_assert_uint_eq(a_reg(&p, 1), 0x41200000);
}
END_TEST

START_TEST(bundle_quad_load_into_constant_half_keeps_only_the_lower_pair)
{
    set_m(&p, 0, WIDE);
    for (uint32_t i = 0; i < 4; i++)
        poke32(&p, WIDE + 4 * i, 100 + i);
    put_bundle(&p, I(LD128_ARQUAD_MR_MR_ZIMM12, 12, 0, 15, 0), I(SETZI_AR_ZIMM20, 0, 5));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 12), 100);
    ck_assert_uint_eq(a_reg(&p, 13), 101);
    ck_assert_uint_eq(a_reg(&p, 14), 0);
    ck_assert_uint_eq(a_reg(&p, 15), 0);
    ck_assert_uint_eq(a_reg(&p, 0), 5);
}
END_TEST

START_TEST(bundle_that_writes_a_register_twice_is_invalid_op)
{
    set_m(&p, 0, DATA);
    put_bundle(&p, I(LD64_ARPAIR_MR_MR_ZIMM12, 0, 0, 15, 0), I(SETZI_AR_ZIMM20, 1, 5));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_OP);
}
END_TEST

START_TEST(bundle_may_drop_both_results)
{
    set_m(&p, 0, DATA);
    put_bundle(&p, I(LD64_ARPAIR_MR_MR_ZIMM12, 14, 0, 15, 0),
               I(F32V2ADD_ARPAIR_ARPAIR_ARPAIR, 14, 0, 0));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 15), 0);
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void)
{
    Suite *suite = suite_create("integer instructions");
    TCase *tests = tcase_create("words");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, main_lane_integer_instruction_gives_the_expected_word, 0,
                        COUNT(m_rows));
    tcase_add_loop_test(tests, supervisor_computes_the_same_as_a_worker, 0, COUNT(m_rows));
    tcase_add_loop_test(tests, aux_lane_word_instruction_gives_the_expected_word, 0, COUNT(a_rows));
    tcase_add_loop_test(tests, pair_instruction_gives_the_expected_words, 0, COUNT(pair_rows));
    tcase_add_test(tests, subtract_from_immediate);
    tcase_add_test(tests, movz_moves_if_the_condition_is_not_zero);
    tcase_add_test(tests, setzi_atom_and_tapack);
    tcase_add_test(tests, writes_to_constant_registers_are_dropped);
    suite_add_tcase(suite, tests);
    TCase *bundles = tcase_create("bundles");
    tcase_add_checked_fixture(bundles, setup, teardown);
    tcase_add_test(bundles, bundle_halves_both_read_old_state);
    tcase_add_test(bundles, bundle_aux_half_does_not_see_the_load_of_its_bundle);
    tcase_add_test(bundles, bundle_quad_load_into_constant_half_keeps_only_the_lower_pair);
    tcase_add_test(bundles, bundle_that_writes_a_register_twice_is_invalid_op);
    tcase_add_test(bundles, bundle_may_drop_both_results);
    suite_add_tcase(suite, bundles);
    return run_suite(suite);
}
