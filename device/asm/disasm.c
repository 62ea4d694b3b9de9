/* Disassembly: the text of a word or bundle, in the assembler's own dialect.
 *
 * The text assembles to the same words again, with one exception: a bundle whose halves are in the
 * wrong lanes is shown although the assembler refuses it. Branch targets print as byte addresses,
 * send addresses as words. What no form matches prints as `.long`.
 */
#include "device/asm/passes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct writer {
    char *text;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer, const char *format,
                                                      ...)
{
    va_list args;
    if (writer->used >= writer->size)
        return;
    va_start(args, format);
    int n = vsnprintf(writer->text + writer->used, writer->size - writer->used, format, args);
    va_end(args);
    writer->used += n > 0 ? (size_t)n : 0;
}

static void put_operand(struct writer *writer, const struct isa_operand *operand, int32_t value)
{
    unsigned number = (unsigned)value;
    switch (operand->kind) {
    case ISA_KIND_MR:
        put(writer, "$m%u", number);
        break;
    case ISA_KIND_MR_PAIR:
        put(writer, "$m%u:%u", number, number + 1);
        break;
    case ISA_KIND_AR:
    case ISA_KIND_AR_B:
    case ISA_KIND_AR_BL:
    case ISA_KIND_AR_BU:
        put(writer, "$a%u", number);
        break;
    case ISA_KIND_AR_PAIR:
        put(writer, "$a%u:%u", number, number + 1);
        break;
    case ISA_KIND_AR_QUAD:
        put(writer, "$a%u:%u", number, number + 3);
        break;
    case ISA_KIND_SIMM:
        put(writer, "%" PRId32, value);
        break;
    case ISA_KIND_UPPR:
        put(writer, "0x%x", number);
        break;
    case ISA_KIND_WADDR:
        if (operand->width >= 19)
            put(writer, "0x%x", number);
        else
            put(writer, "0x%x", number >> 2);
        break;
    default:
        put(writer, operand->width > 12 ? "0x%x" : "%u", number);
        break;
    }
}

/* A value that another form of the mnemonic would take needs the spelling that insists on this one.
 */
static const char *spelling(const struct isa_inst *inst)
{
    static const struct {
        enum isa_form_id form;
        unsigned operand;
        const char *name;
    } zero_forms[] = {{ISA_ADD_MR_MR_ZIMM16, 2, "addz"},
                      {ISA_CMPEQ_MR_MR_ZIMM16, 2, "cmpeqz"},
                      {ISA_MAX_MR_MR_ZIMM16, 2, "maxz"},
                      {ISA_MIN_MR_MR_ZIMM16, 2, "minz"},
                      {ISA_SUB_MR_ZIMM16_MR, 1, "subz"}};
    for (size_t i = 0; i < sizeof(zero_forms) / sizeof(zero_forms[0]); i++)
        if (zero_forms[i].form == inst->form && inst->operand[zero_forms[i].operand] < 0x8000)
            return zero_forms[i].name;
    return isa_forms[inst->form].mnemonic;
}

/* The two fillers have names of their own. */
static const char *filler(const struct isa_inst *inst)
{
    if (inst->operand[1] != 0)
        return NULL;
    if (inst->form == ISA_SETZI_MR_ZIMM20 && inst->operand[0] == 14)
        return "nop";
    return inst->form == ISA_SETZI_AR_ZIMM20 && inst->operand[0] == 13 ? "fnop" : NULL;
}

static void put_inst(struct writer *writer, const struct isa_inst *inst)
{
    const char *name = filler(inst);
    if (name != NULL) {
        put(writer, "%s", name);
        return;
    }
    const struct isa_form *form = &isa_forms[inst->form];
    put(writer, "%s", spelling(inst));
    const char *at = strchr(form->syntax, ' ');
    for (; at != NULL && *at != '\0'; at++) {
        if (*at == '$')
            continue;
        unsigned index = (unsigned)(*at - 'A');
        bool letter = at[-1] == '$' || at[-1] == ' ';
        if (letter && index < form->operand_count)
            put_operand(writer, &form->operands[index], inst->operand[index]);
        else
            put(writer, "%c", *at);
    }
}

/* An upper-immediate of zero reads back as the plain form: only raw words can say it. */
static bool ambiguous(const struct isa_inst *inst)
{
    const struct isa_form *form = &isa_forms[inst->form];
    unsigned last = form->operand_count - 1u;
    return form->operands[last].kind == ISA_KIND_UPPR && inst->operand[last] == 0;
}

/* Two results in one register: the assembler refuses the text. */
static bool same_destination(const struct isa_inst *inst)
{
    const struct isa_form *form = &isa_forms[inst->form];
    uint32_t seen[2] = {0, 0};
    for (unsigned i = 0; i < form->operand_count; i++) {
        const struct isa_operand *operand = &form->operands[i];
        if (operand->kind >= ISA_KIND_FIRST_IMMEDIATE || operand->access < ISA_ACCESS_W)
            continue;
        bool m = operand->kind == ISA_KIND_MR || operand->kind == ISA_KIND_MR_PAIR;
        bool pair = operand->kind == ISA_KIND_MR_PAIR || operand->kind == ISA_KIND_AR_PAIR;
        unsigned count = operand->kind == ISA_KIND_AR_QUAD ? 4 : pair ? 2 : 1;
        uint32_t bits = ((1u << count) - 1) << inst->operand[i];
        if (m)
            bits &= 0x7fff;
        if ((seen[m] & bits) != 0)
            return true;
        seen[m] |= bits;
    }
    return false;
}

static bool sane(const struct isa_inst *inst)
{
    return !ambiguous(inst) && !same_destination(inst);
}

static bool decode_half(uint32_t word, enum isa_lane lane, struct isa_inst *inst)
{
    enum isa_lane other = lane == ISA_LANE_MAIN ? ISA_LANE_AUX : ISA_LANE_MAIN;
    return (isa_decode(word, 0, true, lane, inst) || isa_decode(word, 0, true, other, inst)) &&
           sane(inst);
}

unsigned asm_disassemble(uint32_t address, uint32_t word, uint32_t next, char *text, size_t size)
{
    struct writer writer = {.text = text, .size = size};
    struct isa_inst first, second;
    bool top = (word >> 31) != 0;
    if (size != 0)
        text[0] = '\0';
    if (isa_decode_lone(word, next, &first) && sane(&first) &&
        (isa_forms[first.form].words == 1 || address % 8 == 0)) {
        put_inst(&writer, &first);
        return 4u * isa_forms[first.form].words;
    }
    if (top && (next >> 31) != 0 && decode_half(word, ISA_LANE_MAIN, &first) &&
        decode_half(next, ISA_LANE_AUX, &second)) {
        put(&writer, "{ ");
        put_inst(&writer, &first);
        put(&writer, " ; ");
        put_inst(&writer, &second);
        put(&writer, " }");
        return 8;
    }
    put(&writer, ".long 0x%08" PRIx32, word);
    return 4;
}
