/* The end of an assembly: pending values become bits or relocations, repeat bodies are checked.
 *
 * All labels are known here. A value of the form symbol + constant leaves a relocation whose type
 * the operand (or the source, by a modifier) decides. Fails on names that are used as numbers and
 * have no value, on values that do not fit, and on repeat bodies that the hardware would refuse.
 */
#include "device/asm/passes.h"

#include "device/asm/elf.h"

#include <elf.h>
#include <string.h>

/* The relocation of an instruction's operand, by where its field lies; 0 when there is none. */
static uint32_t operand_reloc(const struct isa_form *form, unsigned index)
{
    const struct isa_operand *operand = &form->operands[index];
    const struct isa_field *field = &operand->fields[0];
    if (operand->kind == ISA_KIND_WADDR)
        return operand->width >= 19 ? R_IPU_19_S2 : R_IPU_SEND_18_S2;
    if (strcmp(form->mnemonic, "run") == 0)
        return R_IPU_RUN;
    /* bit 32 is bit 0 of the second word of sendpicp */
    if (operand->kind != ISA_KIND_ZIMM || field->bit_low % 32 != 0 || operand->fields[1].width != 0)
        return 0;
    switch (operand->width) {
    case 8:
        return R_IPU_8;
    case 16:
        return R_IPU_16;
    case 18:
        return R_IPU_18_S2;
    case 20:
        return R_IPU_20;
    default:
        return 0;
    }
}

static uint32_t data_reloc(unsigned bytes)
{
    switch (bytes) {
    case 1:
        return R_IPU_8;
    case 2:
        return R_IPU_16;
    case 4:
        return R_IPU_32;
    default:
        return R_IPU_64;
    }
}

static int undefined(struct asm_context *ctx, const struct asm_pending *pending, unsigned index,
                     const struct asm_value *value)
{
    const struct asm_inst *inst = &pending->inst;
    if (value->plus != NULL && value->plus->local_number &&
        value->plus->kind == ASM_SYMBOL_UNDEFINED)
        return asm_fail(ctx, inst->text, inst->at[index], "there is no label %s after this",
                        value->plus->name);
    if (value->minus != NULL && value->minus->kind == ASM_SYMBOL_UNDEFINED)
        return asm_fail(ctx, inst->text, inst->at[index], "symbol '%s' is not defined",
                        value->minus->name);
    if (value->plus != NULL && value->minus != NULL)
        return asm_fail(ctx, inst->text, inst->at[index],
                        "the difference of '%s' and '%s' is not known: they are not in one section",
                        value->plus->name, value->minus->name);
    return asm_fail(ctx, inst->text, inst->at[index],
                    "the value of this expression is not known to the assembler or the linker");
}

/* Adds a relocation unless the value is a number. *constant receives the number. */
static int resolve(struct asm_context *ctx, const struct asm_pending *pending, unsigned index,
                   uint32_t type, bool *known, int64_t *constant)
{
    struct asm_section *section = pending->section;
    struct asm_value value = {0};
    bool ok = expr_evaluate(ctx, pending->inst.exprs[index], &value);
    *known = ok && value.plus == NULL && value.minus == NULL;
    *constant = value.constant;
    if (*known)
        return 0;
    bool lost =
        value.plus != NULL && value.plus->local_number && value.plus->kind == ASM_SYMBOL_UNDEFINED;
    if (!ok || value.minus != NULL || lost)
        return undefined(ctx, pending, index, &value);
    if (value.reloc != 0)
        type = value.reloc;
    if (type == 0)
        return asm_fail(ctx, pending->inst.text, pending->inst.at[index],
                        "this operand cannot hold an address: expected a number, not '%s'",
                        value.plus != NULL ? value.plus->name : "");
    if (value.constant < INT32_MIN || value.constant > INT32_MAX)
        return asm_fail(ctx, pending->inst.text, pending->inst.at[index],
                        "the offset from symbol '%s' does not fit 32 bits", value.plus->name);
    int code = asm_grow(ctx, &section->relocs, section->reloc_count, &section->reloc_capacity,
                        sizeof(*section->relocs));
    if (code != 0)
        return code;
    const struct isa_operand *operand = &isa_forms[pending->inst.isa.form].operands[index];
    uint32_t second = pending->bytes == 0 && operand->fields[0].bit_low >= 32 ? 4 : 0;
    section->relocs[section->reloc_count++] = (struct asm_reloc){.offset = pending->offset + second,
                                                                 .type = type,
                                                                 .symbol = value.plus,
                                                                 .addend = (int32_t)value.constant};
    return 0;
}

static int finish_data(struct asm_context *ctx, const struct asm_pending *pending)
{
    bool known;
    int64_t value;
    int code = resolve(ctx, pending, 0, data_reloc(pending->bytes), &known, &value);
    if (code != 0 || !known)
        return code;
    int64_t limit = pending->bytes < 8 ? (int64_t)1 << (8 * pending->bytes) : 0;
    if (pending->bytes < 8 && (value >= limit || value < -limit / 2))
        return asm_fail(ctx, pending->inst.text, pending->inst.at[0],
                        "the value %lld does not fit %u bytes", (long long)value, pending->bytes);
    for (unsigned i = 0; i < pending->bytes; i++)
        pending->section->bytes.data[pending->offset + i] = (uint8_t)((uint64_t)value >> (8 * i));
    return 0;
}

static int does_not_fit(struct asm_context *ctx, const struct asm_pending *pending, unsigned index,
                        int64_t value)
{
    char what[64];
    const struct isa_form *form = &isa_forms[pending->inst.isa.form];
    return asm_fail(ctx, pending->inst.text, pending->inst.at[index],
                    "%s: operand %u: the value %lld does not fit: expected %s", form->mnemonic,
                    index + 1, (long long)value,
                    operand_describe(&form->operands[index], what, sizeof(what)));
}

static int finish_instruction(struct asm_context *ctx, struct asm_pending *pending)
{
    const struct isa_form *form = &isa_forms[pending->inst.isa.form];
    struct isa_inst inst = pending->inst.isa;
    uint32_t words[2];
    for (unsigned i = 0; i < form->operand_count; i++) {
        bool known;
        int64_t value;
        if (pending->inst.exprs[i] == NULL)
            continue;
        int code = resolve(ctx, pending, i, operand_reloc(form, i), &known, &value);
        if (code != 0)
            return code;
        if (!known)
            continue;
        if (form->operands[i].kind == ISA_KIND_WADDR && form->operands[i].width < 19)
            value *= value < (1 << 18) && value >= 0 ? 4 : 1;
        inst.operand[i] = (int32_t)value;
        if (value != inst.operand[i] || !isa_encode(&inst, pending->bundled, words))
            return does_not_fit(ctx, pending, i, value);
    }
    if (!isa_encode(&inst, pending->bundled, words))
        return asm_fail(ctx, pending->inst.text, 0, "%s: an operand has no encoding",
                        form->mnemonic);
    for (unsigned i = 0; i < 4u * form->words; i++)
        pending->section->bytes.data[pending->offset + i] =
            (uint8_t)(words[i / 4] >> (8 * (i % 4)));
    return 0;
}

/* --- repeat bodies (facts/isa_semantics.md section 3, rpt) --- */

static int check_body(struct asm_context *ctx, const struct asm_repeat *repeat, uint32_t bundles)
{
    const struct asm_section *section = repeat->section;
    uint32_t size = section_size(section);
    if (repeat->body % 8 != 0)
        return asm_fail(ctx, repeat->inst.text, 0,
                        "the repeat body begins at offset 0x%x: it must be aligned to 8 bytes",
                        repeat->body);
    if (section->alignment < 8)
        return asm_fail(ctx, repeat->inst.text, 0,
                        "the repeat body needs a section aligned to 8 bytes: expected .align 8 or "
                        ".allow_optimizations");
    for (uint32_t i = 0; i < bundles; i++) {
        uint32_t at = repeat->body + 8 * i;
        if (at + 8 > size)
            return asm_fail(ctx, repeat->inst.text, 0,
                            "the repeat body of %u bundles goes beyond the end of its section",
                            bundles);
        const struct asm_word *word = &section->words[at / 4], *tail = &section->words[at / 4 + 1];
        const struct asm_text *text = word->text != NULL ? word->text : repeat->inst.text;
        if (word->mark != ASM_MARK_BUNDLE || tail->mark != ASM_MARK_TAIL)
            return asm_fail(ctx, text, 0, "a repeat body may hold only bundles (rpt at line %u)",
                            repeat->inst.text->line);
        if (word->control || tail->control)
            return asm_fail(ctx, word->control ? text : tail->text, 0,
                            "a repeat body may not hold a control or system instruction (rpt at "
                            "line %u)",
                            repeat->inst.text->line);
    }
    return 0;
}

static int check_repeat(struct asm_context *ctx, struct asm_repeat *repeat)
{
    const struct asm_expr *count = repeat->inst.exprs[0], *bundles = repeat->inst.exprs[1];
    int64_t body = repeat->inst.isa.operand[1], rounds = repeat->inst.isa.operand[0];
    if (bundles != NULL && !expr_constant(ctx, bundles, &body))
        return 0; /* a relocation: the linker's value cannot be checked here */
    bool fixed = repeat->inst.isa.form == ISA_RPT_ZIMM12_ZIMM8 &&
                 (count == NULL || expr_constant(ctx, count, &rounds));
    if (fixed && rounds == 0)
        return 0; /* the body is skipped: its words are never repeated */
    if (repeat->optimise && repeat->section->alignment < 8)
        repeat->section->alignment = 8;
    return check_body(ctx, repeat, (uint32_t)body + 1);
}

int finish_run(struct asm_context *ctx)
{
    int code = 0;
    for (struct asm_pending *p = ctx->pending; code == 0 && p != NULL; p = p->next)
        code = p->bytes != 0 ? finish_data(ctx, p) : finish_instruction(ctx, p);
    for (struct asm_repeat *r = ctx->repeats; code == 0 && r != NULL; r = r->next)
        code = check_repeat(ctx, r);
    return code;
}
