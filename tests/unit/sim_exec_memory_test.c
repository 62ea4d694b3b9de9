/* module: device/sim */
/* Loads, stores, packed addresses, and every way in which an access can be refused. */
#include "tests/unit/sim_program.h"

static struct program p;

static void setup(void)
{
    program_open(&p);
    /* Bytes 0x80, 0x91, 0xa2, ... at DATA and WIDE. */
    for (uint32_t i = 0; i < 64; i++) {
        p.sram[DATA - IPU21_SRAM_BASE + i] = (uint8_t)(0x80 + 0x11 * i);
        p.sram[WIDE - IPU21_SRAM_BASE + i] = (uint8_t)(0x80 + 0x11 * i);
    }
}

static void teardown(void)
{
    program_close(&p);
}

/* The word at byte offset `at` of the pattern, little-endian. */
static uint32_t pattern(uint32_t at, unsigned bytes)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint32_t)(uint8_t)(0x80 + 0x11 * (at + i)) << (8 * i);
    return value;
}

/* Four addressing shapes of one load family: [immediate, register] x [plain, step]. */
struct load {
    unsigned plain_imm, plain_reg, step_imm, step_reg;
    unsigned size;
    bool aux;
    uint32_t (*expect)(uint32_t at, unsigned word);
};

static uint32_t as_words(uint32_t at, unsigned word)
{
    return pattern(at + 4 * word, 4);
}

static uint32_t as_s8(uint32_t at, unsigned word)
{
    (void)word;
    return (uint32_t)(int8_t)pattern(at, 1);
}

static uint32_t as_z8(uint32_t at, unsigned word)
{
    (void)word;
    return pattern(at, 1);
}

static uint32_t as_s16(uint32_t at, unsigned word)
{
    (void)word;
    return (uint32_t)(int16_t)pattern(at, 2);
}

static uint32_t as_z16(uint32_t at, unsigned word)
{
    (void)word;
    return pattern(at, 2);
}

static uint32_t as_b8(uint32_t at, unsigned word)
{
    (void)word;
    uint32_t b = pattern(at, 1);
    return b | b << 8 | b << 16 | b << 24;
}

static uint32_t as_b16(uint32_t at, unsigned word)
{
    (void)word;
    return pattern(at, 2) | pattern(at, 2) << 16;
}

#define FAMILY(name, dst, size, aux, expect)                                                       \
    {                                                                                              \
        ISA_##name##_##dst##_MR_MR_ZIMM12, ISA_##name##_##dst##_MR_MR_MR,                          \
            ISA_##name##STEP_##dst##_MR_MR_SIMM8, ISA_##name##STEP_##dst##_MR_MR_MR, size, aux,    \
            expect                                                                                 \
    }
static const struct load loads[] = {
    FAMILY(LD32, MR, 4, false, as_words),    FAMILY(LD32, AR, 4, true, as_words),
    FAMILY(LD64, ARPAIR, 8, true, as_words), FAMILY(LD128, ARQUAD, 16, true, as_words),
    FAMILY(LDS8, MR, 1, false, as_s8),       FAMILY(LDZ8, MR, 1, false, as_z8),
    FAMILY(LDS16, MR, 2, false, as_s16),     FAMILY(LDZ16, MR, 2, false, as_z16),
    FAMILY(LDB8, AR, 1, true, as_b8),        FAMILY(LDB16, AR, 2, true, as_b16),
};
enum { LOADS = sizeof loads / sizeof *loads };

static void check_loaded(const struct load *load, uint32_t at)
{
    for (unsigned i = 0; i < (load->size + 3) / 4; i++)
        ck_assert_uint_eq(load->aux ? a_reg(&p, i) : m_reg(&p, i), load->expect(at, i));
}

/* Base in m4, delta in m5, register offset or stride in m6. */
static void run_load(unsigned form, uint32_t delta, int32_t last, uint32_t m6)
{
    set_m(&p, 4, WIDE);
    set_m(&p, 5, delta);
    set_m(&p, 6, m6);
    put(&p, (struct isa_inst){.form = (uint16_t)form, .operand = {0, 4, 5, last}});
    run_worker(&p);
}

START_TEST(load_with_immediate_offset_scales_it)
{
    run_load(loads[_i].plain_imm, loads[_i].size, 1, 0);
    check_loaded(&loads[_i], 2 * loads[_i].size);
}
END_TEST

START_TEST(load_with_register_offset_scales_it)
{
    run_load(loads[_i].plain_reg, loads[_i].size, 6, 1);
    check_loaded(&loads[_i], 2 * loads[_i].size);
}
END_TEST

START_TEST(step_load_accesses_first_and_moves_the_delta_back)
{
    run_load(loads[_i].step_imm, 2 * loads[_i].size, -2, 0);
    check_loaded(&loads[_i], 2 * loads[_i].size);
    ck_assert_uint_eq(m_reg(&p, 5), 0);
}
END_TEST

START_TEST(step_load_takes_a_signed_register_stride)
{
    run_load(loads[_i].step_reg, loads[_i].size, 6, (uint32_t)-1);
    check_loaded(&loads[_i], loads[_i].size);
    ck_assert_uint_eq(m_reg(&p, 5), 0);
}
END_TEST

START_TEST(misaligned_load_is_invalid_addr)
{
    if (loads[_i].size == 1)
        return;
    set_m(&p, 4, WIDE + loads[_i].size / 2);
    put(&p, (struct isa_inst){.form = (uint16_t)loads[_i].plain_imm, .operand = {0, 4, 15, 0}});
    const struct sim_fault *fault = run_to_fault(&p);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_INVALID_ADDR);
    ck_assert_ptr_nonnull(strstr(fault->text, "aligned"));
}
END_TEST

START_TEST(load_outside_sram_is_invalid_addr)
{
    const uint32_t outside[] = {0, 0x4bff0, 0xe8000, 0xfffffff0u};
    set_m(&p, 4, outside[_i % 4]);
    put(&p, (struct isa_inst){.form = (uint16_t)loads[_i / 4].plain_imm, .operand = {0, 4, 15, 0}});
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_ADDR);
}
END_TEST

START_TEST(load_of_128_bits_from_region_0_is_invalid_addr)
{
    set_m(&p, 4, DATA);
    put(&p, I(LD128_ARQUAD_MR_MR_ZIMM12, 0, 4, 15, 0));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_ADDR);
}
END_TEST

START_TEST(load_of_last_bytes_of_sram_works)
{
    set_m(&p, 4, IPU21_SRAM_END - 16);
    poke32(&p, IPU21_SRAM_END - 4, 0x1234);
    put(&p, I(LD128_ARQUAD_MR_MR_ZIMM12, 0, 4, 15, 0));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 3), 0x1234);
}
END_TEST

/* --- stores: 0x11.. in register 0.. --- */

struct store {
    unsigned form;
    bool aux;
    unsigned size;
    int32_t last;  /* the last operand */
    uint32_t at;   /* where the value must land, relative to base + delta */
    int32_t moved; /* change of m5 */
};
static const struct store stores[] = {
    {ISA_ST32_AR_MR_MR_MR, true, 4, 6, 8, 0},
    {ISA_ST32_AR_MR_MR_ZIMM12, true, 4, 3, 12, 0},
    {ISA_ST32_MR_MR_MR_ZIMM12, false, 4, 4095, 4 * 4095, 0},
    {ISA_ST64_ARPAIR_MR_MR_MR, true, 8, 6, 16, 0},
    {ISA_ST64_ARPAIR_MR_MR_ZIMM12, true, 8, 0x765, 8 * 0x765, 0},
    {ISA_ST32STEP_AR_MR_MR_MR, true, 4, 6, 0, 8},
    {ISA_ST32STEP_AR_MR_MR_SIMM8, true, 4, -128, 0, -512},
    {ISA_ST32STEP_MR_MR_MR_SIMM8, false, 4, 127, 0, 508},
    {ISA_ST64STEP_ARPAIR_MR_MR_MR, true, 8, 6, 0, 16},
    {ISA_ST64STEP_ARPAIR_MR_MR_SIMM8, true, 8, -2, 0, -16},
};

START_TEST(store_lands_where_its_operands_say)
{
    const struct store *row = &stores[_i];
    set_m(&p, 4, DATA);
    set_m(&p, 5, 64);
    set_m(&p, 6, 2);
    set_m(&p, 0, 0x11111111);
    set_a(&p, 0, 0x11111111);
    set_a(&p, 1, 0x22222222);
    put(&p, (struct isa_inst){.form = (uint16_t)row->form, .operand = {0, 4, 5, row->last}});
    run_worker(&p);
    ck_assert_uint_eq(peek32(&p, DATA + 64 + row->at), 0x11111111);
    ck_assert_uint_eq(peek32(&p, DATA + 64 + row->at + 4), row->size == 8 ? 0x22222222 : 0);
    ck_assert_uint_eq(m_reg(&p, 5), 64 + (uint32_t)row->moved);
}
END_TEST

START_TEST(store_misaligned_or_outside_is_invalid_addr)
{
    const uint32_t bad[] = {DATA + 4, IPU21_SRAM_END, IPU21_SRAM_BASE - 8};
    set_m(&p, 4, bad[_i]);
    put(&p, I(ST64_ARPAIR_MR_MR_ZIMM12, 0, 4, 15, 0));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_ADDR);
}
END_TEST

START_TEST(stm32_adds_a_word_index_and_its_step_moves_the_base)
{
    set_m(&p, 0, 7);
    set_m(&p, 1, DATA);
    set_m(&p, 2, 5);
    put(&p, I(STM32_MR_MR_MR, 0, 1, 2));
    put(&p, I(STM32STEP_MR_MR_MR, 2, 1, 2));
    run_worker(&p);
    ck_assert_uint_eq(peek32(&p, DATA + 20), 7);
    ck_assert_uint_eq(peek32(&p, DATA), 5);
    ck_assert_uint_eq(m_reg(&p, 1), DATA + 20);
}
END_TEST

/* --- dual deltas --- */

static void setup_deltas(void)
{
    set_m(&p, 0, WIDE + 32);  /* index pointer */
    set_m(&p, 1, DATA);       /* data base */
    set_m(&p, 2, 0x00080010); /* deltas: low 16, high 8 */
    poke32(&p, WIDE + 32, 0x00240018);
}

struct delta_row {
    unsigned form;
    uint32_t a0, a1, index_step, next_delta;
};

START_TEST(delta_load_uses_the_old_delta_and_fetches_the_next)
{
    const struct delta_row rows[] = {
        {ISA_LDD16A32_AR_MR_MR_MR, pattern(16, 4), 0, 2, 0x18},
        {ISA_LDD16A64_ARPAIR_MR_MR_MR, pattern(16, 4), pattern(20, 4), 2, 0x18},
        {ISA_LDD16B16_AR_MR_MR_MR, pattern(16, 2) * 0x10001u, 0, 2, 0x18},
        {ISA_LDD16V2A32_AR_MR_MR_MR, pattern(8, 4), 0, 4, 0x00240018}};
    setup_deltas();
    put(&p, (struct isa_inst){.form = (uint16_t)rows[_i].form, .operand = {0, 0, 1, 2}});
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), rows[_i].a0);
    ck_assert_uint_eq(a_reg(&p, 1), rows[_i].a1);
    ck_assert_uint_eq(m_reg(&p, 0), WIDE + 32 + rows[_i].index_step);
    ck_assert_uint_eq(m_reg(&p, 2), rows[_i].next_delta);
}
END_TEST

START_TEST(ld64a32_fills_elements_1_to_3_of_its_quad)
{
    set_m(&p, 0, WIDE);
    set_m(&p, 1, DATA);
    set_m(&p, 2, 12);
    set_a(&p, 4, 0xdead);
    put_bundle(&p, I(LD64A32_ARQUAD_MR_MR_MR, 4, 0, 1, 2), I(OR_AR_AR_AR, 0, 5, 6));
    set_a(&p, 5, 3);
    set_a(&p, 6, 8);
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), 11); /* the registers before the load */
    ck_assert_uint_eq(a_reg(&p, 4), 0xdead);
    ck_assert_uint_eq(a_reg(&p, 5), pattern(12, 4));
    ck_assert_uint_eq(a_reg(&p, 6), pattern(0, 4));
    ck_assert_uint_eq(a_reg(&p, 7), pattern(4, 4));
    ck_assert_uint_eq(m_reg(&p, 0), WIDE + 8);
}
END_TEST

START_TEST(ldb16b16_broadcasts_two_halves)
{
    set_m(&p, 0, DATA);
    set_m(&p, 1, 4 | 10 << 16);
    set_m(&p, 2, 0x23);
    put(&p, I(LDB16B16_ARPAIR_MR_MR_MR, 0, 0, 1, 2));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), pattern(4, 2) * 0x10001u);
    ck_assert_uint_eq(a_reg(&p, 1), pattern(10, 2) * 0x10001u);
    ck_assert_uint_eq(m_reg(&p, 1), 6 | 16 << 16);
    ck_assert_uint_eq(m_reg(&p, 2), 2);
}
END_TEST

/* --- pace forms: addresses WIDE2, WIDE, DATA packed into m4:5 --- */

enum { WIDE2 = WIDE + 0x8000 };

static void pack(uint32_t a0, uint32_t a1, uint32_t a2)
{
    set_m(&p, 0, a0);
    set_m(&p, 1, a1);
    set_m(&p, 2, a2);
    put(&p, I(TAPACK_MRPAIR_MR_MR_MR, 4, 0, 1, 2));
}

static uint32_t address(unsigned which)
{
    uint32_t even = m_reg(&p, 4), odd = m_reg(&p, 5);
    if (which == 2)
        return even >> 21 | (odd >> 21) << 11;
    return (which == 0 ? even : odd) & 0x1fffff;
}

START_TEST(ld2x64pace_loads_two_pairs_and_moves_by_its_selectors)
{
    /* Stride fields: 3, -2, 5. Selector: address 0 by field 2 (-2), address 1 by field 1 (3). */
    set_m(&p, 6, 3 | (0x3feu << 10) | 5 << 20);
    pack(DATA + 16, WIDE, 0xabcd8);
    put(&p, I(LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 6, 2 | 1 << 2));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), pattern(16, 4));
    ck_assert_uint_eq(a_reg(&p, 1), pattern(20, 4));
    ck_assert_uint_eq(a_reg(&p, 2), pattern(0, 4));
    ck_assert_uint_eq(a_reg(&p, 3), pattern(4, 4));
    ck_assert_uint_eq(address(0), DATA);
    ck_assert_uint_eq(address(1), WIDE + 24);
    ck_assert_uint_eq(address(2), 0xabcd8);
}
END_TEST

START_TEST(narrow_pace_loads_move_their_second_address_by_its_size)
{
    bool b16 = _i == 1;
    pack(DATA, WIDE + 8, 0);
    put(&p, b16 ? I(LD64B16PACE_ARPAIR_AR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 0)
                : I(LD64A32PACE_ARPAIR_AR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 0));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 1), pattern(4, 4));
    ck_assert_uint_eq(a_reg(&p, 2), b16 ? pattern(8, 2) * 0x10001u : pattern(8, 4));
    ck_assert_uint_eq(address(0), DATA + 8);
    ck_assert_uint_eq(address(1), WIDE + 8 + (b16 ? 2 : 4));
}
END_TEST

START_TEST(ldst64pace_loads_from_address_0_and_stores_to_address_2)
{
    set_a(&p, 2, 0x33);
    set_a(&p, 3, 0x44);
    pack(DATA, 0x12340, WIDE2);
    put(&p, I(LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 0));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), pattern(0, 4));
    ck_assert_uint_eq(peek64(&p, WIDE2), 0x4400000033u);
    ck_assert_uint_eq(address(0), DATA + 8);
    ck_assert_uint_eq(address(1), 0x12340);
    ck_assert_uint_eq(address(2), WIDE2 + 8);
}
END_TEST

START_TEST(ldst64pace_and_ld2xst64pace_take_a_selector_for_each_address)
{
    /* Fields 2, -3, 4. ldst: load by field 2, store by field 3. ld2xst: fields 1, 3, 2. */
    set_m(&p, 6, 2 | (0x3fdu << 10) | 4 << 20);
    pack(DATA + 64, WIDE + 64, WIDE2 + 64);
    if (_i == 0)
        put(&p, I(LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 6, 2 | 3 << 2));
    else
        put(&p, I(LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6, 0, 4, 4, 6, 1 | 3 << 2 | 2 << 4));
    run_worker(&p);
    ck_assert_uint_eq(address(0), DATA + 64 + (_i == 0 ? -24 : 16));
    ck_assert_uint_eq(address(1), WIDE + 64 + (_i == 0 ? 0 : 32));
    ck_assert_uint_eq(address(2), WIDE2 + 64 + (_i == 0 ? 32 : -24));
}
END_TEST

START_TEST(zero_stride_register_holds_an_address)
{
    pack(DATA, 0, WIDE2);
    put(&p, I(LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 1 | 1 << 2));
    run_worker(&p);
    ck_assert_uint_eq(address(0), DATA);
    ck_assert_uint_eq(address(2), WIDE2);
}
END_TEST

START_TEST(st64pace_stores_to_address_2_only)
{
    set_a(&p, 0, 0x33);
    pack(DATA, 0, WIDE2);
    put(&p, I(ST64PACE_ARPAIR_MRPAIR_MR_PACE2IN8, 0, 4, 15, 0));
    run_worker(&p);
    ck_assert_uint_eq(peek32(&p, WIDE2), 0x33);
    ck_assert_uint_eq(address(0), DATA);
    ck_assert_uint_eq(address(2), WIDE2 + 8);
}
END_TEST

START_TEST(ld2xst64pace_does_three_accesses)
{
    set_a(&p, 4, 0x33);
    pack(DATA, WIDE, WIDE2);
    put(&p, I(LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6, 0, 4, 4, 15, 0));
    run_worker(&p);
    ck_assert_uint_eq(a_reg(&p, 0), pattern(0, 4));
    ck_assert_uint_eq(a_reg(&p, 3), pattern(4, 4));
    ck_assert_uint_eq(peek32(&p, WIDE2), 0x33);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(address(i) & 0xff, 8);
}
END_TEST

START_TEST(two_accesses_to_one_element_are_a_conflict)
{
    pack(DATA, WIDE, DATA + 0x100);
    put(&p, I(LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 0));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_CONFLICT);
}
END_TEST

/* In an interleaved pair, atoms alternate between its two elements. */
START_TEST(atoms_of_one_pair_conflict_only_in_the_same_element)
{
    unsigned apart = (unsigned)_i; /* atoms */
    pack(WIDE, WIDE + 8 * apart, 0);
    put(&p, I(LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 0));
    if (apart % 2 == 1) {
        run_worker(&p);
        ck_assert_uint_eq(a_reg(&p, 2), pattern(8 * apart, 4));
    } else {
        ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_CONFLICT);
    }
}
END_TEST

START_TEST(ld2x64pace_address_1_in_region_0_is_invalid_addr)
{
    pack(WIDE, DATA, 0);
    put(&p, I(LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 0));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_ADDR);
}
END_TEST

START_TEST(pace_load_with_equal_destinations_is_invalid_op)
{
    unsigned pair = _i == 0 ? 2 : 14; /* two $azeros are refused too */
    pack(DATA, WIDE, 0);
    put(&p, I(LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, (int32_t)pair, (int32_t)pair, 4, 15, 0));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_OP);
}
END_TEST

START_TEST(misaligned_pace_access_is_invalid_addr)
{
    pack(DATA + 4, WIDE, WIDE2);
    put(&p, I(LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, 2, 4, 15, 0));
    ck_assert_int_eq(run_to_fault(&p)->etype, SIM_ETYPE_INVALID_ADDR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory instructions");
    TCase *tests = tcase_create("accesses");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, load_with_immediate_offset_scales_it, 0, LOADS);
    tcase_add_loop_test(tests, load_with_register_offset_scales_it, 0, LOADS);
    tcase_add_loop_test(tests, step_load_accesses_first_and_moves_the_delta_back, 0, LOADS);
    tcase_add_loop_test(tests, step_load_takes_a_signed_register_stride, 0, LOADS);
    tcase_add_loop_test(tests, misaligned_load_is_invalid_addr, 0, LOADS);
    tcase_add_loop_test(tests, load_outside_sram_is_invalid_addr, 0, 4 * LOADS);
    tcase_add_test(tests, load_of_128_bits_from_region_0_is_invalid_addr);
    tcase_add_test(tests, load_of_last_bytes_of_sram_works);
    tcase_add_loop_test(tests, store_lands_where_its_operands_say, 0,
                        (int)(sizeof stores / sizeof *stores));
    tcase_add_loop_test(tests, store_misaligned_or_outside_is_invalid_addr, 0, 3);
    tcase_add_test(tests, stm32_adds_a_word_index_and_its_step_moves_the_base);
    tcase_add_loop_test(tests, delta_load_uses_the_old_delta_and_fetches_the_next, 0, 4);
    tcase_add_test(tests, ld64a32_fills_elements_1_to_3_of_its_quad);
    tcase_add_test(tests, ldb16b16_broadcasts_two_halves);
    suite_add_tcase(suite, tests);
    TCase *pace = tcase_create("pace");
    tcase_add_checked_fixture(pace, setup, teardown);
    tcase_add_test(pace, ld2x64pace_loads_two_pairs_and_moves_by_its_selectors);
    tcase_add_loop_test(pace, narrow_pace_loads_move_their_second_address_by_its_size, 0, 2);
    tcase_add_test(pace, ldst64pace_loads_from_address_0_and_stores_to_address_2);
    tcase_add_loop_test(pace, ldst64pace_and_ld2xst64pace_take_a_selector_for_each_address, 0, 2);
    tcase_add_test(pace, zero_stride_register_holds_an_address);
    tcase_add_test(pace, st64pace_stores_to_address_2_only);
    tcase_add_test(pace, ld2xst64pace_does_three_accesses);
    tcase_add_test(pace, two_accesses_to_one_element_are_a_conflict);
    tcase_add_loop_test(pace, atoms_of_one_pair_conflict_only_in_the_same_element, 0, 5);
    tcase_add_test(pace, ld2x64pace_address_1_in_region_0_is_invalid_addr);
    tcase_add_loop_test(pace, pace_load_with_equal_destinations_is_invalid_op, 0, 2);
    tcase_add_test(pace, misaligned_pace_access_is_invalid_addr);
    suite_add_tcase(suite, pace);
    return run_suite(suite);
}
