/* Directives: modes, sections, symbols, alignment; data.c has those that emit bytes.
 *
 * One table maps a name to its handler. Directives that only carry debugging information are
 * accepted and ignored. Fails on unknown directives and on operands that a directive does not take.
 */
#include "device/asm/passes.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

/* --- modes and checks --- */

static int set_mode(struct asm_cursor *cursor, int mode)
{
    cursor->ctx->mode = (enum asm_mode)mode;
    return 0;
}

enum flag { OPTIMISE, LOOSE_OPERANDS, LOOSE_MODE, LOOSE_BUNDLES, LOOSE_REPEAT, FLAG_OFF = 16 };

static int set_flag(struct asm_cursor *cursor, int argument)
{
    struct asm_flags *flags = &cursor->ctx->flags;
    bool on = (argument & FLAG_OFF) == 0;
    switch (argument & 15) {
    case OPTIMISE:
        flags->optimise = on;
        break;
    case LOOSE_OPERANDS:
        flags->loose_operands = on;
        break;
    case LOOSE_MODE:
        flags->loose_mode = on;
        break;
    case LOOSE_BUNDLES:
        flags->loose_bundles = on;
        break;
    default:
        flags->loose_repeat = on;
        break;
    }
    return 0;
}

/* --- sections --- */

static int enter(struct asm_context *ctx, const char *name, uint32_t type, uint32_t flags)
{
    struct asm_section *section = section_get(ctx, name, type, flags);
    if (section == NULL)
        return ctx->failed;
    ctx->previous_section = ctx->section;
    ctx->section = section;
    return 0;
}

static bool prefix(const char *name, const char *start)
{
    size_t length = strlen(start);
    return strncmp(name, start, length) == 0 && (name[length] == '\0' || name[length] == '.');
}

static void default_flags(const char *name, uint32_t *type, uint32_t *flags)
{
    *type = SHT_PROGBITS;
    *flags = 0;
    if (prefix(name, ".text") || prefix(name, ".init"))
        *flags = SHF_ALLOC | SHF_EXECINSTR;
    else if (prefix(name, ".data"))
        *flags = SHF_ALLOC | SHF_WRITE;
    else if (prefix(name, ".rodata"))
        *flags = SHF_ALLOC;
    else if (prefix(name, ".bss")) {
        *type = SHT_NOBITS;
        *flags = SHF_ALLOC | SHF_WRITE;
    }
}

static int parse_flags(struct asm_cursor *cursor, uint32_t *flags)
{
    char *text;
    size_t length;
    int code = cursor_string(cursor, &text, &length);
    *flags = 0;
    for (size_t i = 0; code == 0 && i < length; i++) {
        if (text[i] == 'a')
            *flags |= SHF_ALLOC;
        else if (text[i] == 'w')
            *flags |= SHF_WRITE;
        else if (text[i] == 'x')
            *flags |= SHF_EXECINSTR;
        else if (strchr("GMSTRo?", text[i]) == NULL)
            code = asm_fail(cursor->ctx, cursor->text, cursor->at,
                            "unknown section flag '%c': expected a, w or x", text[i]);
    }
    return code;
}

static int parse_section_type(struct asm_cursor *cursor, uint32_t *type)
{
    const char *name;
    if (!cursor_accept(cursor, "@") && !cursor_accept(cursor, "%"))
        return cursor_expect(cursor, "@", "before the section type");
    size_t length = cursor_identifier(cursor, &name);
    *type = length == 6 && memcmp(name, "nobits", 6) == 0 ? SHT_NOBITS : SHT_PROGBITS;
    return 0;
}

/* A section's name, quoted or not; it may hold dashes. */
static int parse_section_name(struct asm_cursor *cursor, char **name)
{
    size_t length = 0;
    if (cursor_peek(cursor) == '"')
        return cursor_string(cursor, name, &length);
    const char *data = cursor->text->data + cursor->at;
    while (asm_identifier_char(data[length]) ||
           (data[length] != '\0' && strchr(".$-:*", data[length]) != NULL))
        length++;
    if (length == 0)
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected a section name");
    *name = asm_copy(cursor->ctx, data, length);
    cursor->at += length;
    return *name != NULL ? 0 : cursor->ctx->failed;
}

static int section(struct asm_cursor *cursor, int argument)
{
    (void)argument;
    struct asm_context *ctx = cursor->ctx;
    char *name = NULL;
    uint32_t type, flags;
    int code = parse_section_name(cursor, &name);
    if (code != 0 || name == NULL)
        return code;
    if (name[0] == '\0' || strlen(name) > 200)
        return asm_fail(ctx, cursor->text, 0, "expected a section name of 1..200 characters");
    default_flags(name, &type, &flags);
    if (cursor_accept(cursor, ","))
        code = parse_flags(cursor, &flags);
    if (code == 0 && cursor_accept(cursor, ","))
        code = parse_section_type(cursor, &type);
    while (code == 0 && cursor_accept(cursor, ",")) { /* entry size, group: not needed */
        const char *ignored;
        int64_t number;
        if (cursor_identifier(cursor, &ignored) == 0)
            code = expr_parse_absolute(cursor, &number);
    }
    return code != 0 ? code : enter(ctx, name, type, flags);
}

static int named_section(struct asm_cursor *cursor, int argument)
{
    static const char *const names[] = {".text", ".data", ".bss", ".rodata"};
    uint32_t type, flags;
    int64_t ignored = 0;
    if (cursor_peek(cursor) != '\0' && expr_parse_absolute(cursor, &ignored) != 0)
        return cursor->ctx->failed;
    default_flags(names[argument], &type, &flags);
    return enter(cursor->ctx, names[argument], type, flags);
}

static int push_section(struct asm_cursor *cursor, int argument)
{
    struct asm_context *ctx = cursor->ctx;
    if (ctx->section_depth == ASM_SECTION_STACK)
        return asm_fail(ctx, cursor->text, 0, ".pushsection is nested more than %d deep",
                        ASM_SECTION_STACK);
    ctx->section_stack[ctx->section_depth++] = ctx->section;
    return section(cursor, argument);
}

static int pop_section(struct asm_cursor *cursor, int argument)
{
    struct asm_context *ctx = cursor->ctx;
    struct asm_section *to = ctx->previous_section;
    if (argument == 1 && ctx->section_depth == 0)
        return asm_fail(ctx, cursor->text, 0, "there is no .pushsection for this .popsection");
    if (argument == 1)
        to = ctx->section_stack[--ctx->section_depth];
    if (to == NULL)
        return asm_fail(ctx, cursor->text, 0, "there is no previous section");
    ctx->previous_section = ctx->section;
    ctx->section = to;
    return 0;
}

/* --- symbols --- */

enum binding { BIND_GLOBAL, BIND_WEAK, BIND_NONE };

static int bind(struct asm_cursor *cursor, int argument)
{
    do {
        const char *name;
        size_t length = cursor_identifier(cursor, &name);
        if (length == 0)
            return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected a symbol name");
        struct asm_name *symbol = symbol_get(cursor->ctx, name, length);
        if (symbol == NULL)
            return cursor->ctx->failed;
        symbol->global |= argument == BIND_GLOBAL;
        symbol->weak |= argument == BIND_WEAK;
    } while (cursor_accept(cursor, ","));
    return 0;
}

static int assign(struct asm_cursor *cursor, const char *name, size_t length, size_t at, bool once)
{
    struct asm_context *ctx = cursor->ctx;
    const struct asm_expr *expr;
    int64_t value;
    int code = expr_parse(cursor, &expr);
    struct asm_name *symbol = code == 0 ? symbol_get(ctx, name, length) : NULL;
    if (symbol == NULL)
        return ctx->failed;
    if (symbol->kind == ASM_SYMBOL_LABEL || (once && symbol->kind != ASM_SYMBOL_UNDEFINED))
        return asm_fail(ctx, cursor->text, at, "symbol '%s' is already defined", symbol->name);
    /* Known values are stored as numbers, so that counting in a loop does not build a tree. */
    if (expr->csr == NULL && !expr->half && expr_constant(ctx, expr, &value))
        expr = expr_number(ctx, value);
    if (expr == NULL)
        return ctx->failed;
    symbol->kind = ASM_SYMBOL_VALUE;
    symbol->value = expr;
    return 0;
}

static int set(struct asm_cursor *cursor, int argument)
{
    const char *name;
    size_t length = cursor_identifier(cursor, &name);
    if (length == 0)
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected a symbol name");
    size_t at = cursor->at - length;
    int code = cursor_expect(cursor, ",", "after the symbol");
    return code != 0 ? code : assign(cursor, name, length, at, argument == 1);
}

static int symbol_type(struct asm_cursor *cursor, int argument)
{
    (void)argument;
    const char *name, *kind;
    size_t length = cursor_identifier(cursor, &name);
    int code = cursor_expect(cursor, ",", "after the symbol");
    if (code != 0)
        return code;
    if (!cursor_accept(cursor, "@") && !cursor_accept(cursor, "%"))
        cursor_accept(cursor, "#");
    size_t size = cursor_identifier(cursor, &kind);
    struct asm_name *symbol = length != 0 ? symbol_get(cursor->ctx, name, length) : NULL;
    if (symbol == NULL)
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected a symbol name");
    if ((size == 8 && memcmp(kind, "function", 8) == 0) ||
        (size == 8 && memcmp(kind, "STT_FUNC", 8) == 0))
        symbol->type = STT_FUNC;
    else if ((size == 6 && memcmp(kind, "object", 6) == 0) ||
             (size == 10 && memcmp(kind, "STT_OBJECT", 10) == 0))
        symbol->type = STT_OBJECT;
    else if (size != 6 || memcmp(kind, "notype", 6) != 0)
        return asm_fail(cursor->ctx, cursor->text, cursor->at - size,
                        "expected @function, @object or @notype");
    return 0;
}

static int symbol_size(struct asm_cursor *cursor, int argument)
{
    (void)argument;
    const char *name;
    size_t length = cursor_identifier(cursor, &name);
    int code = cursor_expect(cursor, ",", "after the symbol");
    if (code != 0)
        return code;
    struct asm_name *symbol = length != 0 ? symbol_get(cursor->ctx, name, length) : NULL;
    if (symbol == NULL)
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected a symbol name");
    return expr_parse(cursor, &symbol->size);
}

/* --- messages and blocks --- */

static int error(struct asm_cursor *cursor, int argument)
{
    (void)argument;
    char *text;
    size_t length;
    if (cursor_peek(cursor) != '"')
        return asm_fail(cursor->ctx, cursor->text, 0, ".error");
    int code = cursor_string(cursor, &text, &length);
    return code != 0 ? code : asm_fail(cursor->ctx, cursor->text, 0, "%.300s", text);
}

static int ignore(struct asm_cursor *cursor, int argument)
{
    (void)argument;
    cursor->at = cursor->text->length;
    return 0;
}

static int end(struct asm_cursor *cursor, int argument)
{
    static const char *const opens[] = {".macro", ".rept"};
    return asm_fail(cursor->ctx, cursor->text, 0, "there is no %s for this", opens[argument]);
}

static const struct directive {
    const char *name;
    int (*run)(struct asm_cursor *cursor, int argument);
    int argument;
} directives[] = {
    {".worker", set_mode, ASM_MODE_WORKER},
    {".supervisor", set_mode, ASM_MODE_SUPERVISOR},
    {".allow_optimizations", set_flag, OPTIMISE},
    {".allow_invalid_operands", set_flag, LOOSE_OPERANDS},
    {".error_on_invalid_operands", set_flag, LOOSE_OPERANDS | FLAG_OFF},
    {".allow_invalid_execution_mode", set_flag, LOOSE_MODE},
    {".error_on_invalid_execution_mode", set_flag, LOOSE_MODE | FLAG_OFF},
    {".warn_on_invalid_bundles", set_flag, LOOSE_BUNDLES},
    {".error_on_invalid_bundles", set_flag, LOOSE_BUNDLES | FLAG_OFF},
    {".allow_invalid_repeat", set_flag, LOOSE_REPEAT},
    {".section", section, 0},
    {".text", named_section, 0},
    {".data", named_section, 1},
    {".bss", named_section, 2},
    {".rodata", named_section, 3},
    {".pushsection", push_section, 0},
    {".popsection", pop_section, 1},
    {".previous", pop_section, 0},
    {".globl", bind, BIND_GLOBAL},
    {".global", bind, BIND_GLOBAL},
    {".extern", bind, BIND_NONE},
    {".local", bind, BIND_NONE},
    {".hidden", bind, BIND_NONE},
    {".weak", bind, BIND_WEAK},
    {".set", set, 0},
    {".equ", set, 0},
    {".equiv", set, 1},
    {".type", symbol_type, 0},
    {".size", symbol_size, 0},
    {".error", error, 0},
    {".err", error, 0},
    {".endm", end, 0},
    {".endmacro", end, 0},
    {".endr", end, 1},
    {".warning", ignore, 0},
    {".print", ignore, 0},
    {".file", ignore, 0},
    {".loc", ignore, 0},
    {".ident", ignore, 0},
};

/* Directives that take over the statement stream; they parse the rest of the statement themselves.
 */
static int stream_directive(struct asm_context *ctx, struct asm_text *text, const char *name,
                            size_t at, bool *handled)
{
    *handled = true;
    if (strcmp(name, ".macro") == 0)
        return macro_define(ctx, text, at);
    if (strcmp(name, ".purgem") == 0)
        return macro_purge(ctx, text, at);
    if (strcmp(name, ".exitm") == 0)
        return macro_exit(ctx, text);
    if (strcmp(name, ".rept") == 0 || strcmp(name, ".rep") == 0)
        return macro_repeat(ctx, text, at);
    if (strcmp(name, ".irp") == 0 || strcmp(name, ".irpc") == 0)
        return macro_irp(ctx, text, at, name[4] == 'c');
    *handled = false;
    return 0;
}

static int assignment(struct asm_cursor *cursor, const char *name, size_t length, size_t at)
{
    cursor_accept(cursor, "=");
    int code = assign(cursor, name, length, at, false);
    return code != 0 ? code : cursor_end(cursor, "the assignment");
}

int directive_run(struct asm_context *ctx, struct asm_text *text, size_t from)
{
    struct asm_cursor cursor = {.ctx = ctx, .text = text, .at = from};
    const char *start;
    char name[48];
    size_t length = cursor_identifier(&cursor, &start);
    if (cursor_peek(&cursor) == '=' && text->data[cursor.at + 1] != '=')
        return assignment(&cursor, start, length, from);
    if (length == 0 || length >= sizeof(name))
        return asm_fail(ctx, text, from, "expected a directive or an instruction");
    memcpy(name, start, length);
    name[length] = '\0';
    bool handled;
    int code = stream_directive(ctx, text, name, cursor.at, &handled);
    if (handled)
        return code;
    if (strncmp(name, ".cfi_", 5) == 0)
        return 0;
    code = data_directive(&cursor, name, &handled);
    for (size_t i = 0; !handled && i < sizeof(directives) / sizeof(directives[0]); i++) {
        if (strcmp(directives[i].name, name) == 0) {
            handled = true;
            code = directives[i].run(&cursor, directives[i].argument);
        }
    }
    if (!handled)
        return asm_fail(ctx, text, from, "unknown directive '%s'", name);
    return code != 0 ? code : cursor_end(&cursor, name);
}
