/* Instructions and bundles: from the text of a statement to the section.
 *
 * A bundle holds exactly two instructions, main lane first. Both must be able to issue together and
 * must not write one register. `.allow_optimizations` lets the halves be swapped into order. Fails
 * with a distinct message for each way in which a bundle can be wrong.
 */
#include "device/asm/passes.h"

#include <string.h>

static int parse_operands(struct asm_cursor *cursor, struct asm_written *written)
{
    if (cursor_peek(cursor) == '\0')
        return 0;
    do {
        if (written->count == ASM_MAX_WRITTEN)
            return asm_fail(cursor->ctx, cursor->text, cursor->at, "too many operands");
        int code = operand_parse(cursor, &written->operands[written->count]);
        if (code != 0)
            return code;
        written->count++;
    } while (cursor_accept(cursor, ","));
    return cursor_end(cursor, "the operands");
}

static int add_to_bundle(struct asm_context *ctx, const struct asm_written *written, unsigned count,
                         const struct asm_inst *inst)
{
    if (count != 1)
        return asm_fail(ctx, inst->text, written->at,
                        "ldconst may take two instructions: it cannot stand in a bundle");
    if (ctx->bundle_count == 2)
        return asm_fail(ctx, inst->text, written->at, "a bundle has two instructions, not more");
    ctx->bundle[ctx->bundle_count++] = *inst;
    return 0;
}

/* A repeat whose body is checked when the sizes are known. */
static int note_repeat(struct asm_context *ctx, const struct asm_inst *inst)
{
    enum isa_form_id form = inst->isa.form;
    if (form != ISA_RPT_MR_ZIMM8 && form != ISA_RPT_ZIMM12_ZIMM8)
        return 0;
    if (ctx->flags.loose_repeat)
        return 0;
    struct asm_repeat *repeat = asm_alloc(ctx, 1, sizeof(*repeat));
    if (repeat == NULL)
        return ctx->failed;
    *repeat = (struct asm_repeat){.section = ctx->section,
                                  .body = section_size(ctx->section),
                                  .inst = *inst,
                                  .optimise = ctx->flags.optimise};
    *ctx->last_repeat = repeat;
    ctx->last_repeat = &repeat->next;
    return 0;
}

int instruction_parse(struct asm_context *ctx, struct asm_text *text, size_t from, size_t to)
{
    struct asm_cursor cursor = {.ctx = ctx, .text = text, .at = to};
    struct asm_written written[2] = {{.at = (uint32_t)from}};
    unsigned count;
    written[0].mnemonic = asm_copy(ctx, text->data + from, to - from);
    if (written[0].mnemonic == NULL)
        return ctx->failed;
    if (isa_find_mnemonic(written[0].mnemonic) == ISA_COUNT &&
        !alias_known(written[0].mnemonic, to - from))
        return asm_fail(ctx, text, from, "unknown instruction '%.60s'", written[0].mnemonic);
    int code = parse_operands(&cursor, &written[0]);
    if (code == 0)
        code = alias_apply(ctx, text, written, &count);
    for (unsigned i = 0; code == 0 && i < count; i++) {
        struct asm_inst inst;
        code = match_form(ctx, text, &written[i], &inst);
        if (code == 0 && ctx->in_bundle)
            code = add_to_bundle(ctx, &written[i], count, &inst);
        else if (code == 0)
            code = emit_instruction(ctx, &inst, false);
        if (code == 0 && !ctx->in_bundle)
            code = note_repeat(ctx, &inst);
    }
    return code;
}

int instruction_open(struct asm_context *ctx, struct asm_text *text)
{
    if (ctx->in_bundle)
        return asm_fail(ctx, text, 0, "a bundle cannot begin inside a bundle");
    ctx->in_bundle = true;
    ctx->bundle_count = 0;
    ctx->bundle_text = text;
    return 0;
}

static enum isa_lane lane(const struct asm_inst *inst)
{
    return isa_forms[inst->isa.form].lane;
}

/* The registers that an instruction writes, zero registers left out: bits 0..15 $m, 16..31 $a. */
static uint32_t written_registers(const struct asm_inst *inst)
{
    const struct isa_form *form = &isa_forms[inst->isa.form];
    uint32_t set = 0;
    for (unsigned i = 0; i < form->operand_count; i++) {
        const struct isa_operand *operand = &form->operands[i];
        if (operand->kind >= ISA_KIND_FIRST_IMMEDIATE || operand->access < ISA_ACCESS_W)
            continue;
        bool m = operand->kind == ISA_KIND_MR || operand->kind == ISA_KIND_MR_PAIR;
        bool pair = operand->kind == ISA_KIND_MR_PAIR || operand->kind == ISA_KIND_AR_PAIR;
        unsigned count = operand->kind == ISA_KIND_AR_QUAD ? 4 : pair ? 2 : 1;
        uint32_t bits = (((1u << count) - 1) << inst->isa.operand[i]) & 0xffff;
        set |= m ? bits & 0x7fff : (bits & 0x3fff) << 16;
    }
    return set;
}

static int check_bundle(struct asm_context *ctx, struct asm_text *close)
{
    struct asm_inst *bundle = ctx->bundle;
    if (ctx->bundle_count == 0)
        return asm_fail(ctx, close, 0, "the bundle is empty: expected two instructions");
    if (ctx->bundle_count == 1)
        return asm_fail(ctx, close, 0, "the bundle has one instruction: expected two");
    if (ctx->mode == ASM_MODE_SUPERVISOR && !ctx->flags.loose_mode)
        return asm_fail(ctx, ctx->bundle_text, 0, "bundle requires: Worker mode");
    if (ctx->flags.optimise && lane(&bundle[0]) == ISA_LANE_AUX &&
        lane(&bundle[1]) == ISA_LANE_MAIN) {
        struct asm_inst swap = bundle[0];
        bundle[0] = bundle[1];
        bundle[1] = swap;
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct isa_form *form = &isa_forms[bundle[i].isa.form];
        if (!form->coissue)
            return asm_fail(ctx, bundle[i].text, 0, "%s cannot stand in a bundle", form->mnemonic);
    }
    if (ctx->flags.loose_bundles)
        return 0;
    if (lane(&bundle[0]) != ISA_LANE_MAIN)
        return asm_fail(ctx, bundle[0].text, 0,
                        "the first instruction of a bundle must be a main-lane one, %s is not",
                        isa_forms[bundle[0].isa.form].mnemonic);
    if (lane(&bundle[1]) != ISA_LANE_AUX)
        return asm_fail(ctx, bundle[1].text, 0,
                        "the second instruction of a bundle must be an aux-lane one, %s is not",
                        isa_forms[bundle[1].isa.form].mnemonic);
    if ((written_registers(&bundle[0]) & written_registers(&bundle[1])) != 0)
        return asm_fail(ctx, bundle[1].text, 0,
                        "both instructions of the bundle write the same register");
    return 0;
}

static bool is_fnop(const struct asm_inst *inst)
{
    return inst->isa.form == ISA_SETZI_AR_ZIMM20 && inst->isa.operand[0] == 13 &&
           inst->isa.operand[1] == 0 && inst->exprs[1] == NULL;
}

/* `{rpt ; fnop}` becomes a lone rpt where that puts the body on 8 bytes. */
static bool lone_repeat(const struct asm_context *ctx)
{
    enum isa_form_id form = ctx->bundle[0].isa.form;
    return ctx->flags.optimise && is_fnop(&ctx->bundle[1]) &&
           (form == ISA_RPT_MR_ZIMM8 || form == ISA_RPT_ZIMM12_ZIMM8) &&
           section_size(ctx->section) % 8 == 4;
}

int instruction_close(struct asm_context *ctx, struct asm_text *text)
{
    if (!ctx->in_bundle)
        return asm_fail(ctx, text, 0, "a bundle ends here that has not begun");
    ctx->in_bundle = false;
    int code = check_bundle(ctx, text);
    if (code == 0 && lone_repeat(ctx)) {
        code = emit_instruction(ctx, &ctx->bundle[0], false);
    } else if (code == 0) {
        code = emit_instruction(ctx, &ctx->bundle[0], true);
        if (code == 0)
            code = emit_instruction(ctx, &ctx->bundle[1], true);
    }
    return code != 0 ? code : note_repeat(ctx, &ctx->bundle[0]);
}
