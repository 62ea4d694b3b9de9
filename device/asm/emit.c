/* Sections and what goes into them: bytes, padding, instruction words, pending values.
 *
 * Sizes are final when something is emitted; only values may come later (finish.c). Each word of an
 * executable section remembers what it is, for the check of repeat bodies. Fails past
 * ASM_MAX_OUTPUT and ASM_MAX_SECTIONS, on instructions outside executable sections or off a 4-byte
 * boundary.
 */
#include "device/asm/passes.h"

#include "base/alloc.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { NOP_WORD = 0x19e00000 };

struct asm_section *section_get(struct asm_context *ctx, const char *name, uint32_t type,
                                uint32_t flags)
{
    for (struct asm_section *section = ctx->sections; section != NULL; section = section->next)
        if (strcmp(section->name, name) == 0)
            return section;
    if (ctx->section_count == ASM_MAX_SECTIONS) {
        asm_fail(ctx, NULL, 0, "the source has more than %d sections", ASM_MAX_SECTIONS);
        return NULL;
    }
    struct asm_section *section = asm_alloc(ctx, 1, sizeof(*section));
    if (section == NULL)
        return NULL;
    section->name = asm_copy(ctx, name, strlen(name));
    section->type = type;
    section->flags = flags;
    section->alignment = (flags & SHF_EXECINSTR) != 0 ? 4 : 1;
    *ctx->last_section = section;
    ctx->last_section = &section->next;
    ctx->section_count++;
    return section->name != NULL ? section : NULL;
}

uint32_t section_size(const struct asm_section *section)
{
    return section->type == SHT_NOBITS ? section->nobits_size : (uint32_t)section->bytes.size;
}

static int grow_words(struct asm_context *ctx, struct asm_section *section, size_t count)
{
    if (count <= section->word_capacity)
        return 0;
    size_t capacity = section->word_capacity == 0 ? 256 : section->word_capacity * 2;
    if (capacity < count)
        capacity = count;
    struct asm_word *words = ipu_realloc(section->words, capacity * sizeof(*words));
    if (words == NULL)
        return ctx->failed =
                   ipu_error_set(ctx->error, IPU_ERR_NO_MEMORY, "no memory for a section's words");
    memset(words + section->word_capacity, 0, (capacity - section->word_capacity) * sizeof(*words));
    section->words = words;
    section->word_capacity = capacity;
    return 0;
}

static int reserve(struct asm_context *ctx, const struct asm_text *text, uint64_t size)
{
    if (size > ASM_MAX_OUTPUT || ctx->output_bytes + size > ASM_MAX_OUTPUT)
        return asm_fail(ctx, text, 0, "the sections grow beyond %d bytes", ASM_MAX_OUTPUT);
    if (ctx->in_bundle)
        return asm_fail(ctx, text, 0, "only instructions can stand in a bundle");
    ctx->output_bytes += size;
    struct asm_section *section = ctx->section;
    if ((section->flags & SHF_EXECINSTR) == 0)
        return 0;
    return grow_words(ctx, section, ((size_t)section_size(section) + size + 3) / 4);
}

int emit_bytes(struct asm_context *ctx, const struct asm_text *text, const void *data, size_t size)
{
    int code = reserve(ctx, text, size);
    if (code != 0)
        return code;
    struct asm_section *section = ctx->section;
    if (section->type == SHT_NOBITS)
        return asm_fail(ctx, text, 0, "section %s can only hold zeros", section->name);
    buffer_append(&section->bytes, data, size);
    if (section->bytes.failed)
        return ctx->failed =
                   ipu_error_set(ctx->error, IPU_ERR_NO_MEMORY, "no memory for section contents");
    return 0;
}

int emit_zero(struct asm_context *ctx, const struct asm_text *text, uint64_t size, uint8_t fill)
{
    int code = reserve(ctx, text, size);
    if (code != 0)
        return code;
    struct asm_section *section = ctx->section;
    if (section->type == SHT_NOBITS && fill == 0) {
        section->nobits_size += (uint32_t)size;
        return 0;
    }
    if (section->type == SHT_NOBITS)
        return asm_fail(ctx, text, 0, "section %s can only hold zeros", section->name);
    size_t before = section->bytes.size;
    buffer_append_zero(&section->bytes, (size_t)size);
    if (section->bytes.failed)
        return ctx->failed =
                   ipu_error_set(ctx->error, IPU_ERR_NO_MEMORY, "no memory for section contents");
    if (fill != 0)
        memset(section->bytes.data + before, fill, (size_t)size);
    return 0;
}

static int pad_with_nops(struct asm_context *ctx, const struct asm_text *text, uint32_t padding)
{
    static const uint8_t nop[4] = {NOP_WORD & 0xff, NOP_WORD >> 8 & 0xff, NOP_WORD >> 16 & 0xff,
                                   NOP_WORD >> 24};
    int code = emit_zero(ctx, text, padding % 4, 0);
    for (uint32_t i = 0; code == 0 && i < padding / 4; i++) {
        size_t index = section_size(ctx->section) / 4;
        code = emit_bytes(ctx, text, nop, sizeof(nop));
        if (code == 0)
            ctx->section->words[index] = (struct asm_word){.mark = ASM_MARK_SINGLE, .text = text};
    }
    return code;
}

int emit_align(struct asm_context *ctx, const struct asm_text *text, uint32_t alignment,
               const uint8_t *fill, uint32_t limit)
{
    struct asm_section *section = ctx->section;
    uint32_t padding = (alignment - section_size(section) % alignment) % alignment;
    if (limit != 0 && padding > limit)
        return 0;
    if (section->alignment < alignment)
        section->alignment = alignment;
    if ((section->flags & SHF_EXECINSTR) != 0 && fill == NULL)
        return pad_with_nops(ctx, text, padding);
    return emit_zero(ctx, text, padding, fill != NULL ? *fill : 0);
}

static int add_pending(struct asm_context *ctx, struct asm_pending pending)
{
    struct asm_pending *entry = asm_alloc(ctx, 1, sizeof(*entry));
    if (entry == NULL)
        return ctx->failed;
    *entry = pending;
    *ctx->last_pending = entry;
    ctx->last_pending = &entry->next;
    return 0;
}

int emit_value(struct asm_context *ctx, struct asm_text *text, uint32_t at,
               const struct asm_expr *expr, unsigned bytes)
{
    struct asm_pending pending = {.section = ctx->section,
                                  .offset = section_size(ctx->section),
                                  .bytes = (uint8_t)bytes,
                                  .inst = {.text = text}};
    uint8_t data[8] = {0};
    int64_t value;
    pending.inst.exprs[0] = expr;
    pending.inst.at[0] = at;
    if (!expr_constant(ctx, expr, &value)) {
        int code = add_pending(ctx, pending);
        return code != 0 ? code : emit_bytes(ctx, text, data, bytes);
    }
    int64_t limit = bytes < 8 ? (int64_t)1 << (8 * bytes) : 0;
    if (bytes < 8 && (value >= limit || value < -limit / 2))
        return asm_fail(ctx, text, at, "the value %lld does not fit %u bytes", (long long)value,
                        bytes);
    for (unsigned i = 0; i < bytes; i++)
        data[i] = (uint8_t)((uint64_t)value >> (8 * i));
    return emit_bytes(ctx, text, data, bytes);
}

static int check_place(struct asm_context *ctx, const struct asm_inst *inst)
{
    const struct asm_section *section = ctx->section;
    uint32_t words = isa_forms[inst->isa.form].words;
    if ((section->flags & SHF_EXECINSTR) == 0)
        return asm_fail(ctx, inst->text, 0,
                        "an instruction stands in section %s, which is not "
                        "executable",
                        section->name);
    if (section_size(section) % 4 != 0)
        return asm_fail(ctx, inst->text, 0, "an instruction must be aligned to 4 bytes");
    if (words == 2 && section_size(section) % 8 != 0)
        return asm_fail(ctx, inst->text, 0, "%s must be aligned to 8 bytes",
                        isa_forms[inst->isa.form].mnemonic);
    return 0;
}

int emit_instruction(struct asm_context *ctx, const struct asm_inst *inst, bool bundled)
{
    struct asm_section *section = ctx->section;
    const struct isa_form *form = &isa_forms[inst->isa.form];
    int code = check_place(ctx, inst);
    if (code != 0)
        return code;
    uint32_t words[2], offset = section_size(section);
    if (!isa_encode(&inst->isa, bundled, words))
        return asm_fail(ctx, inst->text, 0, "%s: an operand has no encoding", form->mnemonic);
    if (form->words == 2 && section->alignment < 8)
        section->alignment = 8;
    struct asm_pending pending = {
        .section = section, .offset = offset, .bundled = bundled, .inst = *inst};
    bool open = false;
    for (unsigned i = 0; i < form->operand_count; i++)
        open |= inst->exprs[i] != NULL;
    if (open)
        code = add_pending(ctx, pending);
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(words[i / 4] >> (8 * (i % 4)));
    if (code == 0)
        code = emit_bytes(ctx, inst->text, bytes, 4u * form->words);
    if (code != 0)
        return code;
    /* The second half of a bundle follows its first half. */
    bool tail = bundled && form->lane == ISA_LANE_AUX;
    uint8_t mark = tail ? ASM_MARK_TAIL : bundled ? ASM_MARK_BUNDLE : ASM_MARK_SINGLE;
    bool control = form->class_ == ISA_CLASS_CONTROL || form->class_ == ISA_CLASS_SYSTEM;
    section->words[offset / 4] =
        (struct asm_word){.mark = mark, .control = control, .text = inst->text};
    return 0;
}
