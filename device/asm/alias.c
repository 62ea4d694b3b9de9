/* Pseudo-instructions: other spellings, and those that stand for one or two real instructions.
 *
 * Source: facts/asm_dialect.md section 5. An alias rewrites mnemonic and operands before a form is
 * chosen; messages then name the real instruction. Fails on operands that an alias cannot have.
 */
#include "device/asm/passes.h"

#include <string.h>

/* Plain renamings, with the kind of immediate that the spelling insists on. */
static const struct rename {
    const char *name, *mnemonic;
    enum asm_prefer prefer;
} renames[] = {{"adds", "add", ASM_PREFER_SIGNED},
               {"addz", "add", ASM_PREFER_ZERO},
               {"cmpeqs", "cmpeq", ASM_PREFER_SIGNED},
               {"cmpeqz", "cmpeq", ASM_PREFER_ZERO},
               {"maxs", "max", ASM_PREFER_SIGNED},
               {"maxz", "max", ASM_PREFER_ZERO},
               {"mins", "min", ASM_PREFER_SIGNED},
               {"minz", "min", ASM_PREFER_ZERO},
               {"subs", "sub", ASM_PREFER_SIGNED},
               {"subz", "sub", ASM_PREFER_ZERO},
               {"movnz", "movz", ASM_PREFER_ANY},
               {"f16v4sisov2amp", "f16v4sisoamp", ASM_PREFER_ANY},
               {"f16v4sisov2slic", "f16v4sisoslic", ASM_PREFER_ANY}};

static const char *const rewritten[] = {"nop", "fnop", "mov", "zero", "swap16", "strap", "ldconst"};

bool alias_known(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(renames) / sizeof(renames[0]); i++)
        if (strlen(renames[i].name) == length && memcmp(renames[i].name, name, length) == 0)
            return true;
    for (size_t i = 0; i < sizeof(rewritten) / sizeof(rewritten[0]); i++)
        if (strlen(rewritten[i]) == length && memcmp(rewritten[i], name, length) == 0)
            return true;
    return false;
}

static struct asm_operand reg(char file, uint8_t first, uint8_t count, uint32_t at)
{
    return (struct asm_operand){.file = file, .first = first, .count = count, .at = at};
}

static int immediate(struct asm_context *ctx, int64_t value, uint32_t at,
                     struct asm_operand *operand)
{
    *operand = (struct asm_operand){.expr = expr_number(ctx, value), .at = at};
    return operand->expr != NULL ? 0 : ctx->failed;
}

static int wrong(struct asm_context *ctx, struct asm_text *text, const struct asm_written *w,
                 const char *what)
{
    return asm_fail(ctx, text, w->at, "%s: expected %s", w->mnemonic, what);
}

/* nop, fnop: a write to a register that keeps nothing. */
static int no_operation(struct asm_context *ctx, struct asm_text *text, struct asm_written *w,
                        char file, uint8_t number)
{
    if (w->count != 0)
        return wrong(ctx, text, w, "no operands");
    w->mnemonic = "setzi";
    w->count = 2;
    w->operands[0] = reg(file, number, 1, w->at);
    return immediate(ctx, 0, w->at, &w->operands[1]);
}

static int move(struct asm_context *ctx, struct asm_text *text, struct asm_written *w)
{
    const struct asm_operand *to = &w->operands[0], *from = &w->operands[1];
    if (w->count != 2 || to->file == 0 || from->file == 0)
        return wrong(ctx, text, w, "two registers");
    if (to->file == 'm' && from->file == 'a' && to->count == 1 && from->count == 1) {
        w->mnemonic = "atom";
        return 0;
    }
    if (to->file != from->file || to->count != from->count || to->count == 4 ||
        (to->file == 'm' && to->count == 2))
        return wrong(ctx, text, w, "registers of one kind, or $m and $a");
    uint32_t at = from->at;
    w->count = 3;
    if (to->count == 2) {
        w->mnemonic = "or64";
        w->operands[2] = reg('a', 14, 2, at);
        return 0;
    }
    w->mnemonic = "or";
    return immediate(ctx, 0, at, &w->operands[2]);
}

static int zero(struct asm_context *ctx, struct asm_text *text, struct asm_written *w)
{
    const struct asm_operand *to = &w->operands[0];
    if (w->count != 1 || to->file == 0 || to->count == 4 || (to->file == 'm' && to->count == 2))
        return wrong(ctx, text, w, "a register or a pair of $a registers");
    bool pair = to->count == 2;
    w->mnemonic = pair ? "or64" : "or";
    w->operands[1] = w->operands[2] = reg(to->file, pair ? 14 : 15, to->count, to->at);
    w->count = 3;
    return 0;
}

static int repeat_source(struct asm_context *ctx, struct asm_text *text, struct asm_written *w)
{
    if (w->count != 2 || w->operands[1].file == 0)
        return wrong(ctx, text, w, "two registers");
    w->mnemonic = "roll16";
    w->operands[2] = w->operands[1];
    w->count = 3;
    return 0;
}

static int supervisor_trap(struct asm_context *ctx, struct asm_text *text, struct asm_written *w)
{
    if (w->count != 0)
        return wrong(ctx, text, w, "no operands");
    w->mnemonic = "put";
    w->count = 2;
    w->operands[1] = reg('m', 15, 1, w->at);
    return immediate(ctx, 255, w->at, &w->operands[0]);
}

/* setzi of the low 20 bits, then `or` of the upper 12 unless they are zero. */
static int load_constant(struct asm_context *ctx, struct asm_text *text, struct asm_written w[2],
                         unsigned *count)
{
    int64_t value;
    if (w->count != 2 || w->operands[0].file == 0 || w->operands[0].count != 1 ||
        w->operands[1].file != 0)
        return wrong(ctx, text, w, "a register and a 32-bit value");
    w->mnemonic = "setzi";
    if (!expr_constant(ctx, w->operands[1].expr, &value))
        return 0; /* an address: 20 bits are enough for every one */
    if (value < INT32_MIN || value > UINT32_MAX)
        return asm_fail(ctx, text, w->operands[1].at,
                        "ldconst: expected a value that fits 32 bits");
    uint32_t at = w->operands[1].at, bits = (uint32_t)(uint64_t)value;
    int code = immediate(ctx, bits & 0xfffff, at, &w->operands[1]);
    if (code != 0 || (bits >> 20) == 0)
        return code;
    w[1] = w[0];
    w[1].mnemonic = "or";
    w[1].count = 3;
    w[1].operands[1] = w[0].operands[0];
    *count = 2;
    return immediate(ctx, bits & 0xfff00000u, at, &w[1].operands[2]);
}

/* There is no `sub A, B, immediate`. */
static int negate_subtrahend(struct asm_context *ctx, struct asm_written *w)
{
    const struct asm_expr *negated = expr_negate(ctx, w->operands[2].expr);
    if (negated == NULL)
        return ctx->failed;
    w->operands[2].expr = negated;
    w->mnemonic = "add";
    return 0;
}

static void upper_space(struct asm_written *w)
{
    if (strcmp(w->mnemonic, "get") == 0 && w->count == 2 && w->operands[0].file == 'a')
        w->mnemonic = "uget";
    else if (strcmp(w->mnemonic, "put") == 0 && w->count == 2 && w->operands[1].file == 'a')
        w->mnemonic = "uput";
}

int alias_apply(struct asm_context *ctx, struct asm_text *text, struct asm_written written[2],
                unsigned *count)
{
    struct asm_written *w = &written[0];
    const char *name = w->mnemonic;
    *count = 1;
    for (size_t i = 0; i < sizeof(renames) / sizeof(renames[0]); i++) {
        if (strcmp(renames[i].name, name) == 0) {
            w->mnemonic = renames[i].mnemonic;
            w->prefer = renames[i].prefer;
        }
    }
    if (strcmp(name, "nop") == 0)
        return no_operation(ctx, text, w, 'm', 14);
    if (strcmp(name, "fnop") == 0)
        return no_operation(ctx, text, w, 'a', 13);
    if (strcmp(name, "mov") == 0)
        return move(ctx, text, w);
    if (strcmp(name, "zero") == 0)
        return zero(ctx, text, w);
    if (strcmp(name, "swap16") == 0)
        return repeat_source(ctx, text, w);
    if (strcmp(name, "strap") == 0)
        return supervisor_trap(ctx, text, w);
    if (strcmp(name, "ldconst") == 0)
        return load_constant(ctx, text, written, count);
    if (strcmp(w->mnemonic, "sub") == 0 && w->count == 3 && w->operands[1].file == 'm' &&
        w->operands[2].file == 0)
        return negate_subtrahend(ctx, w);
    upper_space(w);
    return 0;
}
