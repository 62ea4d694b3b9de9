/* module: device/asm */
/* Conformance with known pairs of text and words (tests/unit/encoding_golden.tsv), and the full
 * circle word -> text -> word over every instruction form at the extremes of its operands.
 */
#include "base/buffer.h"
#include "device/ipu21/isa.h"
#include "tests/unit/asm_util.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ROWS = 400, MAX_WORDS = 4 };

struct row {
    char *text, *note;
    uint32_t words[MAX_WORDS];
    size_t count;
};

static struct row rows[MAX_ROWS];
static size_t row_count;
static struct buffer file;

static void read_row(char *line)
{
    char *tab = strchr(line, '\t'), *second = tab != NULL ? strchr(tab + 1, '\t') : NULL;
    if (line[0] == '#' || strncmp(line, "asm\t", 4) == 0 || second == NULL)
        return;
    struct row *row = &rows[row_count++];
    ck_assert_uint_lt(row_count, MAX_ROWS);
    *tab = *second = '\0';
    row->text = line;
    row->note = strrchr(second + 1, '\t') + 1;
    for (char *at = tab + 1; *at != '\0';) {
        ck_assert_uint_lt(row->count, MAX_WORDS);
        row->words[row->count++] = (uint32_t)strtoul(at, &at, 16);
        while (*at == ' ')
            at++;
    }
}

static void load_rows(void)
{
    const char *path = "tests/unit/encoding_golden.tsv";
    ck_assert_msg(buffer_read_file(&file, path, 1 << 20) == 0, "cannot read %s", path);
    buffer_append(&file, "", 1);
    row_count = 0;
    memset(rows, 0, sizeof(rows));
    for (char *line = (char *)file.data, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        read_row(line);
    }
    ck_assert_uint_gt(row_count, 190);
}

static void free_rows(void)
{
    buffer_free(&file);
}

static bool invalid(const struct row *row)
{
    return strcmp(row->text, "(invalid)") == 0;
}

static bool decode_only(const struct row *row)
{
    return strncmp(row->note, "decode only", 11) == 0;
}

START_TEST(known_text_assembles_to_the_known_words)
{
    size_t checked = 0;
    for (size_t i = 0; i < row_count; i++) {
        if (invalid(&rows[i]) || decode_only(&rows[i]))
            continue;
        expect_words(rows[i].text, rows[i].words, rows[i].count);
        checked++;
    }
    ck_assert_uint_ge(checked, 190);
}
END_TEST

START_TEST(known_words_decode_to_text_with_the_same_words)
{
    for (size_t i = 0; i < row_count; i++) {
        char text[200];
        if (invalid(&rows[i]) || decode_only(&rows[i]))
            continue;
        unsigned used =
            asm_disassemble(ASM_TEST_BASE, rows[i].words[0], rows[i].words[1], text, sizeof(text));
        ck_assert_uint_eq(used, 4 * rows[i].count);
        ck_assert_msg(strncmp(text, ".long", 5) != 0, "%s is not decoded", rows[i].text);
        expect_words(text, rows[i].words, rows[i].count);
    }
}
END_TEST

START_TEST(invalid_words_do_not_decode)
{
    size_t checked = 0;
    for (size_t i = 0; i < row_count; i++) {
        char text[200];
        struct isa_inst inst;
        if (!invalid(&rows[i]))
            continue;
        ck_assert(!isa_decode_lone(rows[i].words[0], 0, &inst));
        ck_assert_uint_eq(asm_disassemble(0, rows[i].words[0], 0, text, sizeof(text)), 4);
        ck_assert_int_eq(strncmp(text, ".long 0x", 8), 0);
        checked++;
    }
    ck_assert_uint_eq(checked, 5);
}
END_TEST

START_TEST(bundles_that_can_only_be_read_are_shown_as_written)
{
    size_t checked = 0;
    for (size_t i = 0; i < row_count; i++) {
        char text[200];
        if (!decode_only(&rows[i]))
            continue;
        ck_assert_uint_eq(
            asm_disassemble(0, rows[i].words[0], rows[i].words[1], text, sizeof(text)), 8);
        ck_assert_str_eq(text, rows[i].text);
        checked++;
    }
    ck_assert_uint_eq(checked, 2);
}
END_TEST

/* --- every form --- */

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
    /* An upper immediate of zero has no spelling of its own. */
    case ISA_KIND_UPPR:
        return (int32_t)(which == 0 ? 0x100000u : which == 1 ? 0xfff00000u : 1u << 31);
    case ISA_KIND_WADDR:
        return (int32_t)(which == 0 ? 0 : which == 1 ? high << 2 : high / 3 << 2);
    default:
        return (int32_t)(which == 0 ? 0 : which == 1 ? high : high / 3);
    }
}

/* Registers that an instruction writes twice are refused by the assembler: choose others. */
static void avoid_same_destination(struct isa_inst *inst)
{
    const struct isa_form *form = &isa_forms[inst->form];
    int seen[2] = {-1, -1};
    for (unsigned i = 0; i < form->operand_count; i++) {
        const struct isa_operand *operand = &form->operands[i];
        if (operand->kind >= ISA_KIND_FIRST_IMMEDIATE || operand->access < ISA_ACCESS_W)
            continue;
        bool m = operand->kind == ISA_KIND_MR || operand->kind == ISA_KIND_MR_PAIR;
        if (seen[m] >= 0 && (seen[m] ^ inst->operand[i]) < 4)
            inst->operand[i] ^= 8;
        seen[m] = inst->operand[i];
    }
}

static const char header[] = ".allow_invalid_repeat\n.align 8\n";

static void check_text(const struct isa_inst *inst, const uint32_t *words, size_t count)
{
    static struct asm_words got;
    char text[256], source[512];
    unsigned used = asm_disassemble(ASM_TEST_BASE, words[0], words[1], text, sizeof(text));
    ck_assert_msg(used == 4 * count && strncmp(text, ".long", 5) != 0, "%s: %s",
                  isa_forms[inst->form].syntax, text);
    snprintf(source, sizeof(source), "%s%s\n", header, text);
    build_with(source, NULL, &got);
    bool same = got.count == count && memcmp(got.words, words, 4 * count) == 0;
    if (!same)
        ck_abort_msg("%s: '%s' gives %08x %08x, not %08x %08x", isa_forms[inst->form].syntax, text,
                     got.words[0], got.words[1], words[0], words[1]);
    asm_image_free(&got.image);
}

/* The other half of a bundle, one that writes nothing. */
static uint32_t filler(enum isa_lane lane)
{
    struct isa_inst inst = {.form =
                                lane == ISA_LANE_MAIN ? ISA_SETZI_MR_ZIMM20 : ISA_SETZI_AR_ZIMM20,
                            .operand = {15, 0}};
    uint32_t words[2];
    ck_assert(isa_encode(&inst, true, words));
    return words[0];
}

static void check_form(unsigned id)
{
    const struct isa_form *form = &isa_forms[id];
    for (unsigned choice = 0; choice < 9; choice++) {
        struct isa_inst inst = {.form = (uint16_t)id};
        uint32_t words[2] = {0, 0}, bundle[2];
        for (unsigned i = 0; i < form->operand_count; i++)
            inst.operand[i] =
                operand_value(&form->operands[i], choice < 3 ? choice : (choice * (i + 2) + i) % 3);
        avoid_same_destination(&inst);
        ck_assert(isa_encode(&inst, false, words));
        check_text(&inst, words, form->words);
        if (!form->coissue || form->contexts == ISA_CONTEXTS_SUPERVISOR)
            continue;
        ck_assert(isa_encode(&inst, true, words));
        bundle[0] = form->lane == ISA_LANE_MAIN ? words[0] : filler(ISA_LANE_MAIN);
        bundle[1] = form->lane == ISA_LANE_AUX ? words[0] : filler(ISA_LANE_AUX);
        check_text(&inst, bundle, 2);
    }
}

START_TEST(every_form_survives_disassembly_and_assembly)
{
    for (unsigned id = (unsigned)_i; id < ISA_COUNT; id += 4)
        check_form(id);
}
END_TEST

START_TEST(text_is_never_longer_than_its_buffer)
{
    for (size_t size = 0; size < 60; size++) {
        char text[64];
        memset(text, 'x', sizeof(text));
        ck_assert_uint_eq(asm_disassemble(0, 0xc64e2000, 0xdb420740, text, size), 8);
        for (size_t i = size; i < sizeof(text); i++)
            ck_assert(text[i] == 'x');
        if (size > 0)
            ck_assert_ptr_nonnull(memchr(text, '\0', size));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asm_golden");
    TCase *golden = tcase_create("golden"), *circle = tcase_create("circle");
    tcase_add_checked_fixture(golden, load_rows, free_rows);
    tcase_set_timeout(golden, 60);
    tcase_set_timeout(circle, 120);
    tcase_add_test(golden, known_text_assembles_to_the_known_words);
    tcase_add_test(golden, known_words_decode_to_text_with_the_same_words);
    tcase_add_test(golden, invalid_words_do_not_decode);
    tcase_add_test(golden, bundles_that_can_only_be_read_are_shown_as_written);
    tcase_add_loop_test(circle, every_form_survives_disassembly_and_assembly, 0, 4);
    tcase_add_test(circle, text_is_never_longer_than_its_buffer);
    suite_add_tcase(suite, golden);
    suite_add_tcase(suite, circle);
    return run_suite(suite);
}
