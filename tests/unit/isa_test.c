/* module: device/ipu21 */
/* The instruction table: every form encodes and decodes to itself at the extremes of its operands,
 * the decoding index agrees with the table, forms do not overlap, illegal register numbers do not
 * decode. The CSR table and the flag numbers that stand beside it.
 */
#include "device/ipu21/csr.h"
#include "device/ipu21/flags.h"
#include "device/ipu21/isa.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Low, high and one middle value that an operand can have. */
static int32_t operand_value(const struct isa_operand *operand, unsigned which)
{
    uint32_t high = (1u << operand->width) - 1;
    switch (operand->kind) {
    case ISA_KIND_MR_PAIR:
    case ISA_KIND_AR_PAIR:
        return which == 0 ? 0 : which == 1 ? 14 : 6;
    case ISA_KIND_AR_QUAD:
        return which == 0 ? 0 : which == 1 ? 12 : 4;
    case ISA_KIND_SIMM: {
        int32_t half = (int32_t)(1u << (operand->width - 1));
        return which == 0 ? -half : which == 1 ? half - 1 : -1;
    }
    case ISA_KIND_UPPR:
        return (int32_t)(which == 0 ? 0 : which == 1 ? 0xfff00000u : 0x12300000u);
    case ISA_KIND_WADDR:
        return (int32_t)(which == 0 ? 0 : which == 1 ? high << 2 : high / 3 << 2);
    default:
        return (int32_t)(which == 0 ? 0 : which == 1 ? high : high / 3);
    }
}

static bool same(const struct isa_inst *a, const struct isa_inst *b)
{
    bool equal = a->form == b->form;
    for (unsigned i = 0; equal && i < isa_forms[a->form].operand_count; i++)
        equal = a->operand[i] == b->operand[i];
    return equal;
}

static bool survives(const struct isa_inst *inst)
{
    const struct isa_form *form = &isa_forms[inst->form];
    struct isa_inst back;
    uint32_t words[2];
    if (!isa_encode(inst, false, words) || (words[0] >> 31) != (form->words == 2))
        return false;
    if (!isa_decode(words[0], words[1], false, form->lane, &back) || !same(inst, &back))
        return false;
    if (!isa_decode_lone(words[0], words[1], &back) || !same(inst, &back))
        return false;
    if (!form->coissue)
        return !isa_encode(inst, true, words);
    return isa_encode(inst, true, words) && (words[0] >> 31) == 1 &&
           isa_decode(words[0], 0, true, form->lane, &back) && same(inst, &back);
}

START_TEST(every_form_decodes_to_what_was_encoded)
{
    for (unsigned id = 0; id < ISA_COUNT; id++) {
        const struct isa_form *form = &isa_forms[id];
        struct isa_inst inst = {.form = (uint16_t)id};
        ck_assert_uint_gt(form->operand_count, 0);
        for (unsigned mask = 0; mask < 729; mask++) {
            unsigned rest = mask;
            for (unsigned i = 0; i < form->operand_count; i++, rest /= 3)
                inst.operand[i] = operand_value(&form->operands[i], rest % 3);
            if (!survives(&inst))
                ck_abort_msg("%s with operand choice %u", form->syntax, mask);
        }
    }
}
END_TEST

static void check_coverage(unsigned id)
{
    const struct isa_form *form = &isa_forms[id];
    uint64_t covered = form->mask;
    for (unsigned i = 0; i < form->operand_count; i++)
        for (unsigned j = 0; j < ISA_MAX_FIELDS; j++) {
            struct isa_field field = form->operands[i].fields[j];
            uint64_t bits = ((1ull << field.width) - 1) << field.bit_low;
            ck_assert_uint_eq(covered & bits, 0);
            covered |= bits;
        }
    /* Bit 31 is the co-issue bit; the second word has no fixed bits. */
    ck_assert_uint_eq(covered | 1ull << 31, form->words == 2 ? ~0ull : 0xffffffffull);
}
START_TEST(every_operand_bit_reaches_the_word)
{
    for (unsigned id = 0; id < ISA_COUNT; id++)
        check_coverage(id);
}
END_TEST

static void check_overlap(unsigned id)
{
    for (unsigned j = 0; j < id; j++) {
        const struct isa_form *a = &isa_forms[id], *b = &isa_forms[j];
        uint32_t both = a->mask & b->mask;
        /* sendpicp is told apart from all others by bit 31, which only bundles set. */
        if (a->words == b->words && (a->match & both) == (b->match & both))
            ck_abort_msg("%s and %s overlap", a->syntax, b->syntax);
    }
}

START_TEST(no_word_matches_two_forms)
{
    for (unsigned id = 0; id < ISA_COUNT; id++)
        check_overlap(id);
}
END_TEST

/* What the table says without the index: a scan of all forms. */
static bool scan(uint32_t word, uint32_t next, struct isa_inst *out)
{
    for (unsigned id = 0; id < ISA_COUNT; id++) {
        const struct isa_form *form = &isa_forms[id];
        if ((word & (form->mask | 1u << 31)) == form->match)
            return isa_decode(word, next, false, form->lane, out) && out->form == id;
    }
    return false;
}

START_TEST(index_finds_exactly_what_a_scan_of_the_table_finds)
{
    uint32_t random = 0x12345678u;
    unsigned hits = 0;
    for (unsigned i = 0; i < 400000; i++) {
        struct isa_inst a, b;
        random = random * 1664525u + 1013904223u;
        /* Half of the words are near a form: its fixed bits with random others. */
        const struct isa_form *form = &isa_forms[random >> 8 & 255];
        uint32_t word = (i & 1) != 0 ? random ^ random << 13
                                     : (form->match | (random * 2654435761u & ~form->mask));
        word &= 0x7fffffffu;
        bool found = isa_decode_lone(word, random, &a), expected = scan(word, random, &b);
        if (found != expected || (found && !same(&a, &b)))
            ck_abort_msg("word %08x: decoded %d, the table says %d", word, found, expected);
        hits += found;
    }
    ck_assert_uint_gt(hits, 100000);
}
END_TEST

START_TEST(forms_are_sorted_so_that_mnemonics_are_found)
{
    for (unsigned i = 1; i < ISA_COUNT; i++)
        ck_assert_int_le(strcmp(isa_forms[i - 1].mnemonic, isa_forms[i].mnemonic), 0);
    for (unsigned i = 0; i < ISA_COUNT; i++) {
        unsigned first = isa_find_mnemonic(isa_forms[i].mnemonic);
        ck_assert_uint_le(first, i);
        ck_assert_str_eq(isa_forms[first].mnemonic, isa_forms[i].mnemonic);
        ck_assert(first == 0 || strcmp(isa_forms[first - 1].mnemonic, isa_forms[i].mnemonic) != 0);
    }
    ck_assert_uint_eq(isa_find_mnemonic("movnz"), ISA_COUNT);
    ck_assert_uint_eq(isa_find_mnemonic(""), ISA_COUNT);
    ck_assert_uint_eq(ISA_COUNT, 368);
}
END_TEST

START_TEST(odd_pairs_and_split_quads_do_not_decode)
{
    static const uint32_t words[] = {0x5f20f010, 0x5f20f030, 0x56422800, 0x564a2800, 0x564e2800};
    struct isa_inst inst;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        ck_assert(!isa_decode_lone(words[i], 0, &inst));
    ck_assert(isa_decode_lone(0x5f20f020, 0, &inst));
    ck_assert(isa_decode_lone(0x56442800, 0, &inst));
}
END_TEST

static void check_limits(unsigned id)
{
    const struct isa_form *form = &isa_forms[id];
    uint32_t words[2];
    for (unsigned i = 0; i < form->operand_count; i++) {
        struct isa_inst inst = {.form = (uint16_t)id};
        const struct isa_operand *operand = &form->operands[i];
        int64_t beyond = (int64_t)operand_value(operand, 1) + 1;
        if (operand->kind == ISA_KIND_WADDR)
            beyond += 3;
        else if (operand->kind == ISA_KIND_UPPR)
            beyond = 0x80000;
        else if (operand->kind < ISA_KIND_FIRST_IMMEDIATE)
            beyond = 16;
        inst.operand[i] = (int32_t)beyond;
        ck_assert_msg(!isa_encode(&inst, false, words), "%s operand %u", form->syntax, i);
        inst.operand[i] = operand->kind == ISA_KIND_SIMM ? operand_value(operand, 0) - 1 : -1;
        ck_assert_msg(!isa_encode(&inst, false, words), "%s operand %u below", form->syntax, i);
    }
}
START_TEST(values_that_do_not_fit_do_not_encode)
{
    for (unsigned id = 0; id < ISA_COUNT; id++)
        check_limits(id);
}
END_TEST

START_TEST(bundle_halves_decode_on_their_own_lane_only)
{
    struct isa_inst inst;
    ck_assert(isa_decode(0xc4203011, 0, true, ISA_LANE_MAIN, &inst));
    ck_assert(!isa_decode(0xc4203011, 0, true, ISA_LANE_AUX, &inst));
    ck_assert(!isa_decode(0xc4203011, 0, false, ISA_LANE_MAIN, &inst));
    /* send has no co-issue bit: its pattern with bit 31 is sendpicp, never half a bundle. */
    ck_assert(!isa_decode(0xf8200033, 0, true, ISA_LANE_MAIN, &inst));
    ck_assert(isa_decode_lone(0xf54a0109, 0x19015000, &inst));
    ck_assert_uint_eq(inst.form, ISA_SENDPICP_ZIMM6_WADDR18_SCTL3_ZIMM1_ZIMM14_ZIMM18);
    ck_assert_int_eq(inst.operand[1], 0x14021 * 4);
    ck_assert_int_eq(inst.operand[5], 0x15000);
}
END_TEST

START_TEST(registers_are_found_by_name_in_their_mode)
{
    ck_assert_uint_eq(csr_find("WSR", false)->index, 1);
    ck_assert_uint_eq(csr_find("SSR", true)->index, 1);
    ck_assert_ptr_null(csr_find("WSR", true));
    ck_assert_ptr_null(csr_find("SSR", false));
    ck_assert(csr_exists("SSR") && csr_exists("WSR") && !csr_exists("NOPE"));
    ck_assert_uint_eq(csr_find("PC", true)->index, csr_find("PC", false)->index);
    ck_assert_uint_eq(csr_find("FP_CTL", false)->index, 0x102);
    ck_assert_uint_eq(csr_find("CWEI_3_1", true)->index, 13);
    ck_assert(!csr_exists("TDI_STS"));
    ck_assert_str_eq(csr_at(CSR_SPACE_LOWER, true, 0xa0)->name, "INCOMING_MUX");
    ck_assert_str_eq(csr_at(CSR_SPACE_UPPER, false, 0x108)->name, "TAS");
    ck_assert_ptr_null(csr_at(CSR_SPACE_LOWER, false, 0xa0));
    ck_assert_str_eq(csr_at(CSR_SPACE_TDI, true, 3)->name, "DBG_IEXEC");
    ck_assert_uint_eq(CSR_S_INCOMING_DCOUNT, 166);
    ck_assert_uint_eq(CSR_W_FP_CLR, 0x101);
}
END_TEST

START_TEST(registers_have_one_index_in_each_space_and_mode)
{
    for (size_t i = 0; i < CSR_COUNT; i++) {
        const struct csr *csr = &csr_table[i];
        bool supervisor = csr->context == CSR_CONTEXT_SUPERVISOR;
        ck_assert_ptr_eq(csr_at(csr->space, supervisor, csr->index), csr);
        for (unsigned j = 0; j < csr->field_count; j++) {
            ck_assert_uint_ge(csr->fields[j].high, csr->fields[j].low);
            ck_assert(j == 0 || csr->fields[j].low > csr->fields[j - 1].high);
        }
    }
}
END_TEST

START_TEST(flags_decode_to_the_phase_and_width_of_their_name)
{
    struct ipu21_amp_flags amp;
    struct ipu21_slic_flags slic;
    ck_assert(ipu21_amp_decode(TAMP_F16V4_E4_P3, false, &amp) && amp.phase == 3 &&
              amp.engines == 4);
    ck_assert(ipu21_amp_decode(TAMP_F16V4_E1_P2, false, &amp) && amp.phase == 2 &&
              amp.engines == 1);
    ck_assert(ipu21_amp_decode(TAMP_F32_E2_P7, true, &amp) && amp.phase == 7 && amp.engines == 2);
    ck_assert(ipu21_amp_decode(TAMP_F8V8_E4_P1, false, &amp) && amp.phase == 1);
    ck_assert(!ipu21_amp_decode(TAMP_F32_E4_P4, false, &amp));
    ck_assert(!ipu21_amp_decode(24, true, &amp));
    ck_assert(ipu21_slic_decode(TSLIC_F16V4_1x4_W1, false, &slic));
    ck_assert(slic.bank == 1 && slic.window == 4 && !slic.upper);
    ck_assert(ipu21_slic_decode(TSLIC_F32_1x3_W2_U, true, &slic));
    ck_assert(slic.bank == 2 && slic.window == 3 && slic.upper);
    ck_assert(!ipu21_slic_decode(TSLIC_F32_1x3_W2_U, false, &slic));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("isa");
    TCase *forms = tcase_create("forms"), *tables = tcase_create("tables");
    tcase_add_test(forms, every_form_decodes_to_what_was_encoded);
    tcase_add_test(forms, every_operand_bit_reaches_the_word);
    tcase_add_test(forms, no_word_matches_two_forms);
    tcase_add_test(forms, values_that_do_not_fit_do_not_encode);
    tcase_add_test(tables, index_finds_exactly_what_a_scan_of_the_table_finds);
    tcase_add_test(tables, forms_are_sorted_so_that_mnemonics_are_found);
    tcase_add_test(tables, odd_pairs_and_split_quads_do_not_decode);
    tcase_add_test(tables, bundle_halves_decode_on_their_own_lane_only);
    tcase_add_test(tables, registers_are_found_by_name_in_their_mode);
    tcase_add_test(tables, registers_have_one_index_in_each_space_and_mode);
    tcase_add_test(tables, flags_decode_to_the_phase_and_width_of_their_name);
    suite_add_tcase(suite, forms);
    suite_add_tcase(suite, tables);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
