/* The instruction table and its codec: see isa.h.
 *
 * isa_forms[] is isa.def, row for row. Decoding looks bits 30:24 and 11:8 up in a constant
 * index (isa_index.def, derived from isa.def and checked against it by tests/unit/isa_test.c),
 * tries the few forms listed there, and then checks the register numbers: an odd pair or a quad
 * that is not a multiple of four is not an instruction. No two forms match the same word (also
 * tested), so the order of the candidates has no meaning. Nothing here allocates or keeps state.
 */
#include "device/ipu21/isa.h"

#include <string.h>

/* How many operands each form has. */
#define OP(...) +1
#define FORM(id, n, text, words, mask, match, lane, contexts, coissue, cls, cpu, ops)              \
    OPERANDS_##id = 0 ops,
enum operand_counts {
#include "device/ipu21/isa.def"
};
#undef OP
#undef FORM

#define F(value_low, width, bit_low)    {value_low, width, bit_low},
#define OP(kind, width, access, fields) {ISA_KIND_##kind, ISA_ACCESS_##access, width, {fields}},
#define FLAG_YES                        true
#define FLAG_NO                         false
#define CPU_ANY                         false
#define CPU_IPU21_ONLY                  true
#define FORM(id, name, text, word_count, mask_, match_, lane_, contexts_, coissue_, cls, cpu, ops) \
    {.mnemonic = name,                                                                             \
     .syntax = text,                                                                               \
     .words = word_count,                                                                          \
     .operand_count = OPERANDS_##id,                                                               \
     .lane = ISA_LANE_##lane_,                                                                     \
     .contexts = ISA_CONTEXTS_##contexts_,                                                         \
     .coissue = FLAG_##coissue_,                                                                   \
     .class_ = ISA_CLASS_##cls,                                                                    \
     .ipu21_only = CPU_##cpu,                                                                      \
     .mask = mask_,                                                                                \
     .match = match_,                                                                              \
     .operands = {ops}},

const struct isa_form isa_forms[ISA_COUNT] = {
#include "device/ipu21/isa.def"
};
#undef FORM

#define CANDIDATE(id) ISA_##id,
static const uint16_t candidates[] = {
#include "device/ipu21/isa_index.def"
};
#undef CANDIDATE

struct candidate_row {
    uint16_t first, count;
};
#define ROW(first, count) {first, count},
static const struct candidate_row rows[2048] = {
#include "device/ipu21/isa_index.def"
};
#undef ROW

enum { BUNDLE_BIT_SHIFT = 31, SECOND_WORD_BIT = 32 };

static uint32_t low_mask(unsigned width)
{
    return width >= 32 ? 0xffffffffu : (1u << width) - 1;
}

static bool register_legal(enum isa_kind kind, uint32_t number)
{
    if (number > 15)
        return false;
    if (kind == ISA_KIND_MR_PAIR || kind == ISA_KIND_AR_PAIR)
        return (number & 1) == 0;
    if (kind == ISA_KIND_AR_QUAD)
        return (number & 3) == 0;
    return true;
}

static uint32_t field_collect(const struct isa_operand *operand, uint32_t word, uint32_t next)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < ISA_MAX_FIELDS && operand->fields[i].width != 0; i++) {
        struct isa_field field = operand->fields[i];
        uint32_t source = field.bit_low >= SECOND_WORD_BIT ? next : word;
        unsigned shift = field.bit_low % SECOND_WORD_BIT;
        value |= ((source >> shift) & low_mask(field.width)) << field.value_low;
    }
    return value;
}

static bool operand_decode(const struct isa_operand *operand, uint32_t raw, int32_t *value)
{
    *value = (int32_t)raw;
    if (operand->kind < ISA_KIND_FIRST_IMMEDIATE)
        return register_legal(operand->kind, raw);
    if (operand->kind == ISA_KIND_SIMM && (raw >> (operand->width - 1)) != 0)
        *value = (int32_t)(raw | ~low_mask(operand->width));
    else if (operand->kind == ISA_KIND_UPPR)
        *value = (int32_t)(raw << 20);
    else if (operand->kind == ISA_KIND_WADDR)
        *value = (int32_t)(raw << 2);
    return true;
}

static bool form_decode(unsigned id, uint32_t word, uint32_t next, struct isa_inst *out)
{
    const struct isa_form *form = &isa_forms[id];
    struct isa_inst inst = {.form = (uint16_t)id};
    for (unsigned i = 0; i < form->operand_count; i++) {
        uint32_t raw = field_collect(&form->operands[i], word, next);
        if (!operand_decode(&form->operands[i], raw, &inst.operand[i]))
            return false;
    }
    *out = inst;
    return true;
}

bool isa_decode(uint32_t word, uint32_t next, bool bundled, enum isa_lane lane,
                struct isa_inst *out)
{
    if (bundled)
        word &= low_mask(BUNDLE_BIT_SHIFT);
    struct candidate_row row = rows[(word >> 24 & 0x7f) << 4 | (word >> 8 & 0xf)];
    for (unsigned i = 0; i < row.count; i++) {
        unsigned id = candidates[row.first + i];
        const struct isa_form *form = &isa_forms[id];
        /* The masks of forms that can be co-issued leave bit 31 out; outside a bundle it is 0. */
        uint32_t mask = form->mask | (1u << BUNDLE_BIT_SHIFT);
        if ((word & mask) == form->match)
            return form->lane == lane && (!bundled || form->coissue) &&
                   form_decode(id, word, next, out);
    }
    return false;
}

bool isa_decode_lone(uint32_t word, uint32_t next, struct isa_inst *out)
{
    return isa_decode(word, next, false, ISA_LANE_MAIN, out) ||
           isa_decode(word, next, false, ISA_LANE_AUX, out);
}

/* The field bits of a value, or false when the value has no encoding in this operand. */
static bool operand_encode(const struct isa_operand *operand, int32_t value, uint32_t *raw)
{
    uint32_t bits = (uint32_t)value;
    if (operand->kind < ISA_KIND_FIRST_IMMEDIATE) {
        *raw = bits;
        return register_legal(operand->kind, bits);
    }
    if (operand->kind == ISA_KIND_SIMM) {
        int32_t limit = (int32_t)1 << (operand->width - 1);
        *raw = bits & low_mask(operand->width);
        return value >= -limit && value < limit;
    }
    unsigned scale = operand->kind == ISA_KIND_UPPR ? 20 : operand->kind == ISA_KIND_WADDR ? 2 : 0;
    *raw = bits >> scale;
    return (bits & low_mask(scale)) == 0 && *raw <= low_mask(operand->width);
}

bool isa_encode(const struct isa_inst *inst, bool bundled, uint32_t words[2])
{
    if (inst->form >= ISA_COUNT)
        return false;
    const struct isa_form *form = &isa_forms[inst->form];
    if (bundled && !form->coissue)
        return false;
    uint64_t bits = form->match | ((uint64_t)bundled << BUNDLE_BIT_SHIFT);
    for (unsigned i = 0; i < form->operand_count; i++) {
        const struct isa_operand *operand = &form->operands[i];
        uint32_t raw;
        if (!operand_encode(operand, inst->operand[i], &raw))
            return false;
        for (unsigned j = 0; j < ISA_MAX_FIELDS && operand->fields[j].width != 0; j++) {
            struct isa_field field = operand->fields[j];
            uint64_t piece = (raw >> field.value_low) & low_mask(field.width);
            bits |= piece << field.bit_low;
        }
    }
    words[0] = (uint32_t)bits;
    words[1] = (uint32_t)(bits >> 32);
    return true;
}

/* isa.def is sorted by mnemonic (tested), so the first row of a mnemonic is a lower bound. */
unsigned isa_find_mnemonic(const char *mnemonic)
{
    unsigned low = 0, high = ISA_COUNT;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (strcmp(isa_forms[middle].mnemonic, mnemonic) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < ISA_COUNT && strcmp(isa_forms[low].mnemonic, mnemonic) == 0)
        return low;
    return ISA_COUNT;
}
