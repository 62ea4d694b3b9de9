/* asm_assemble(): the passes in order, and the statement loop.
 *
 * A statement is: labels, then one of a directive, a brace, a macro call, an assignment, an
 * instruction. Everything a run owns is freed at its end, whatever its outcome.
 */
#include "device/asm/passes.h"

#include "base/alloc.h"

#include <elf.h>
#include <string.h>

/* The label at `at`: its length without the colon, or 0. */
static size_t label_length(const struct asm_text *text, size_t at)
{
    const char *data = text->data + at;
    size_t length = 0;
    if (data[0] >= '0' && data[0] <= '9')
        while (data[length] >= '0' && data[length] <= '9')
            length++;
    else if (asm_identifier_start(data[0]) || data[0] == '.')
        while (asm_identifier_char(data[length]) || data[length] == '.' || data[length] == '$')
            length++;
    size_t colon = length;
    while (data[colon] == ' ')
        colon++;
    return length != 0 && data[colon] == ':' ? length : 0;
}

static int labels(struct asm_context *ctx, struct asm_text *text, size_t *at)
{
    size_t length;
    while ((length = label_length(text, *at)) != 0) {
        if (ctx->in_bundle)
            return asm_fail(ctx, text, *at, "a label cannot stand inside a bundle");
        int code = symbol_define_label(ctx, text, *at, length);
        if (code != 0)
            return code;
        *at += length;
        while (text->data[*at] != ':')
            ++*at;
        ++*at;
        while (text->data[*at] == ' ')
            ++*at;
    }
    return 0;
}

/* .if and its family work also in text that is inactive. */
static int conditional(struct asm_context *ctx, struct asm_text *text, bool *handled)
{
    char name[16];
    size_t length = 1;
    *handled = false;
    if (text->data[0] != '.')
        return 0;
    while (asm_identifier_char(text->data[length]))
        length++;
    if (length >= sizeof(name))
        return 0;
    memcpy(name, text->data, length);
    name[length] = '\0';
    return condition_directive(ctx, text, name, length, handled);
}

static int statement(struct asm_context *ctx, struct asm_text *text)
{
    size_t at = 0;
    int code = labels(ctx, text, &at);
    const char *data = text->data + at;
    if (code != 0 || data[0] == '\0')
        return code;
    if (data[0] == '{')
        return instruction_open(ctx, text);
    if (data[0] == '}')
        return instruction_close(ctx, text);
    size_t length = 0;
    while (asm_identifier_char(data[length]) || data[length] == '.')
        length++;
    if (length > 0 && macro_known(ctx, data, length))
        return macro_invoke(ctx, text, at, at + length);
    size_t next = length;
    while (data[next] == ' ')
        next++;
    if (data[0] == '.' || (length > 0 && data[next] == '=' && data[next + 1] != '='))
        return directive_run(ctx, text, at);
    if (length == 0 || !asm_identifier_start(data[0]))
        return asm_fail(ctx, text, at, "expected a label, a directive or an instruction");
    return instruction_parse(ctx, text, at, at + length);
}

int macro_run(struct asm_context *ctx, const struct asm_lines *lines)
{
    struct asm_lines statements = {0};
    struct asm_text *text;
    int code = macro_split(ctx, lines, &statements);
    if (code == 0 && statements.count != 0)
        code = macro_push(ctx, &statements, 1, ".file", &statements.items[0]);
    while (code == 0 && (text = macro_next(ctx)) != NULL) {
        bool handled;
        code = conditional(ctx, text, &handled);
        if (code == 0 && !handled && condition_active(ctx))
            code = statement(ctx, text);
    }
    if (code == 0)
        code = ctx->failed;
    if (code == 0)
        code = condition_finish(ctx);
    if (code == 0 && ctx->in_bundle)
        code = asm_fail(ctx, ctx->bundle_text, 0, "this bundle has no end: expected }");
    return code;
}

static void init(struct asm_context *ctx, const struct asm_options *options,
                 struct ipu_error *error)
{
    *ctx = (struct asm_context){.options = options, .error = error};
    ctx->last_symbol = &ctx->first_symbol;
    ctx->last_section = &ctx->sections;
    ctx->last_pending = &ctx->pending;
    ctx->last_repeat = &ctx->repeats;
}

static void release(struct asm_context *ctx)
{
    for (struct asm_section *section = ctx->sections; section != NULL; section = section->next) {
        buffer_free(&section->bytes);
        ipu_free(section->words);
    }
    arena_destroy(ctx->arena);
}

int asm_assemble(const char *file, const char *text, size_t length,
                 const struct asm_options *options, struct buffer *object, struct ipu_error *error)
{
    static const struct asm_options none = {0};
    struct asm_context ctx;
    struct asm_lines lines = {0};
    init(&ctx, options != NULL ? options : &none, error);
    ctx.arena = arena_create(ASM_MEMORY);
    if (ctx.arena == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory to assemble %s", file);
    ctx.section = section_get(&ctx, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR);
    int code = ctx.section != NULL ? cpp_run(&ctx, file, text, length, &lines) : ctx.failed;
    if (code == 0)
        code = macro_run(&ctx, &lines);
    if (code == 0)
        code = finish_run(&ctx);
    if (code == 0)
        code = object_write(&ctx, object);
    release(&ctx);
    return code;
}
