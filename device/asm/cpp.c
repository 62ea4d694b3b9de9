/* The preprocessor's driver: directives, conditionals, includes, output lines.
 *
 * Output lines keep, character by character, the column they came from; text that a macro produced
 * has the column of the macro's name. Include files come from the caller's callback; a name that it
 * does not know but that is the tile's constant header is satisfied by the prelude. Fails on
 * unknown includes, on #error, on unbalanced conditionals, and past the limits in internal.h.
 */
#include "device/asm/cpp.h"

#include <string.h>

static int fail_token(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *tokens,
                      size_t at, const char *message)
{
    struct asm_text place = *line;
    place.columns = NULL;
    if (tokens->items == NULL)
        place.first_column = asm_column(line, line->length);
    else if (at < tokens->count)
        place.first_column = tokens->items[at].column;
    else if (tokens->count > 0)
        place.first_column =
            tokens->items[tokens->count - 1].column + tokens->items[tokens->count - 1].length;
    return asm_fail(cpp->ctx, &place, 0, "%s", message);
}

static bool active(const struct cpp *cpp)
{
    return cpp->condition == NULL || cpp->condition->active;
}

/* Joins tokens to a line and remembers their columns. */
static int emit_line(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *tokens)
{
    size_t length = 0;
    for (size_t i = 0; i < tokens->count; i++)
        length += (size_t)tokens->items[i].length + (tokens->items[i].space ? 1 : 0);
    if (length == 0)
        return 0;
    if (length > 16u * ASM_MAX_LINE)
        return asm_fail(cpp->ctx, line, 0, "the line expands to more than %d characters",
                        16 * ASM_MAX_LINE);
    char *data = asm_alloc(cpp->ctx, length + 1, 1);
    uint16_t *columns = asm_alloc(cpp->ctx, length + 1, sizeof(*columns));
    if (data == NULL || columns == NULL)
        return cpp->ctx->failed;
    size_t n = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        const struct cpp_token *token = &tokens->items[i];
        if (token->space) {
            columns[n] = token->column;
            data[n++] = ' ';
        }
        for (uint32_t j = 0; j < token->length; j++) {
            columns[n] = (uint16_t)(token->column + (token->fixed ? 0 : j));
            data[n++] = token->text[j];
        }
    }
    struct asm_text out = *line;
    out.data = data;
    out.columns = columns;
    out.length = (uint32_t)n;
    return asm_lines_add(cpp->ctx, cpp->out, &out);
}

static int open_condition(struct cpp *cpp, const struct asm_text *line, bool holds)
{
    if (cpp->condition_depth >= ASM_MAX_CONDITIONS)
        return asm_fail(cpp->ctx, line, 0, "conditionals are nested more than %d deep",
                        ASM_MAX_CONDITIONS);
    struct cpp_condition *condition = asm_alloc(cpp->ctx, 1, sizeof(*condition));
    if (condition == NULL)
        return cpp->ctx->failed;
    bool parent = active(cpp);
    *condition = (struct cpp_condition){.taken = holds || !parent,
                                        .active = holds && parent,
                                        .parent_active = parent,
                                        .opened = *line,
                                        .below = cpp->condition};
    cpp->condition = condition;
    cpp->condition_depth++;
    return 0;
}

static int directive_if(struct cpp *cpp, const struct asm_text *line,
                        const struct cpp_tokens *tokens, bool names, bool negate)
{
    int64_t value = 0;
    int code = 0;
    if (active(cpp) && names) {
        if (tokens->count < 3 || tokens->items[2].kind != CPP_IDENTIFIER)
            return fail_token(cpp, line, tokens, 2, "expected a macro name");
        const struct cpp_token *name = &tokens->items[2];
        value = cpp_macro_find(cpp, name->text, name->length) != NULL ||
                (cpp->prelude_included && prelude_find(cpp->ctx, name->text, name->length, &value));
        value ^= negate;
    } else if (active(cpp)) {
        code = cpp_evaluate(cpp, line, tokens, 2, &value);
    }
    return code != 0 ? code : open_condition(cpp, line, value != 0);
}

static int directive_else(struct cpp *cpp, const struct asm_text *line,
                          const struct cpp_tokens *tokens, bool has_test)
{
    struct cpp_condition *condition = cpp->condition;
    if (condition == NULL || condition->seen_else)
        return fail_token(cpp, line, tokens, 1,
                          condition == NULL ? "there is no #if for this"
                                            : "second #else of one #if");
    int64_t value = 1;
    if (has_test && !condition->taken) {
        int code = cpp_evaluate(cpp, line, tokens, 2, &value);
        if (code != 0)
            return code;
    }
    condition->active = condition->parent_active && !condition->taken && value != 0;
    condition->taken |= condition->active;
    condition->seen_else = !has_test;
    return 0;
}

static int directive_endif(struct cpp *cpp, const struct asm_text *line,
                           const struct cpp_tokens *tokens)
{
    if (cpp->condition == NULL)
        return fail_token(cpp, line, tokens, 1, "there is no #if for this #endif");
    cpp->condition = cpp->condition->below;
    cpp->condition_depth--;
    return 0;
}

static int run_file(struct cpp *cpp, const char *file, const char *text, size_t length);

/* The name between quotes or angle brackets; NULL after an error. */
static const char *include_name(struct cpp *cpp, const struct asm_text *line,
                                const struct cpp_tokens *tokens)
{
    struct cpp_tokens expanded = {0};
    size_t at = 2;
    if (tokens->count > 2 && tokens->items[2].kind == CPP_IDENTIFIER) {
        if (cpp_expand(cpp, line, tokens, 2, false, &expanded) != 0)
            return NULL;
        tokens = &expanded;
        at = 0;
    }
    const struct cpp_token *token = at < tokens->count ? &tokens->items[at] : NULL;
    if (token != NULL && token->kind == CPP_STRING && token->length > 2)
        return asm_copy(cpp->ctx, token->text + 1, token->length - 2);
    if (token != NULL && cpp_is(token, "<")) {
        size_t length = 0, capacity = line->length + 1;
        char *name = asm_alloc(cpp->ctx, capacity, 1);
        if (name == NULL)
            return NULL;
        for (at++; at < tokens->count && !cpp_is(&tokens->items[at], ">"); at++) {
            size_t more = tokens->items[at].length;
            if (length + more >= capacity)
                break;
            memcpy(name + length, tokens->items[at].text, more);
            length += more;
        }
        if (at < tokens->count && length > 0)
            return name;
    }
    fail_token(cpp, line, tokens, at, "expected \"file\" or <file> after #include");
    return NULL;
}

static int directive_include(struct cpp *cpp, const struct asm_text *line,
                             const struct cpp_tokens *tokens)
{
    const struct asm_options *options = cpp->ctx->options;
    const char *name = include_name(cpp, line, tokens), *text = NULL;
    size_t length = 0;
    if (name == NULL)
        return cpp->ctx->failed;
    if (options->include != NULL)
        text = options->include(options->include_context, name, &length);
    if (text != NULL)
        return run_file(cpp, name, text, length);
    if (!prelude_is_header(name))
        return asm_fail(cpp->ctx, line, 0, "cannot find the include file '%.200s'", name);
    cpp->prelude_included = true;
    return 0;
}

static int directive_undef(struct cpp *cpp, const struct asm_text *line,
                           const struct cpp_tokens *tokens)
{
    if (tokens->count < 3 || tokens->items[2].kind != CPP_IDENTIFIER)
        return fail_token(cpp, line, tokens, 2, "expected a macro name after #undef");
    cpp_undefine(cpp, tokens->items[2].text, tokens->items[2].length);
    return 0;
}

static int directive_error(struct cpp *cpp, const struct asm_text *line,
                           const struct cpp_tokens *tokens)
{
    struct asm_text place = *line;
    place.first_column = tokens->items[0].column;
    place.columns = NULL;
    const char *text = line->data;
    while (*text != '\0' && strncmp(text, "error", 5) != 0)
        text++;
    text += *text != '\0' ? 5 : 0;
    while (*text == ' ')
        text++;
    return asm_fail(cpp->ctx, &place, 0, "#error %.300s", text);
}

static int directive(struct cpp *cpp, const struct asm_text *line)
{
    struct cpp_tokens tokens = {0};
    int code = cpp_tokenize(cpp, line, 0, &tokens);
    if (code != 0 || tokens.count < 2)
        return code;
    const struct cpp_token *name = &tokens.items[1];
    if (cpp_is(name, "if"))
        return directive_if(cpp, line, &tokens, false, false);
    if (cpp_is(name, "ifdef"))
        return directive_if(cpp, line, &tokens, true, false);
    if (cpp_is(name, "ifndef"))
        return directive_if(cpp, line, &tokens, true, true);
    if (cpp_is(name, "elif") || cpp_is(name, "else"))
        return directive_else(cpp, line, &tokens, cpp_is(name, "elif"));
    if (cpp_is(name, "endif"))
        return directive_endif(cpp, line, &tokens);
    if (!active(cpp))
        return 0;
    if (cpp_is(name, "define"))
        return cpp_define(cpp, line, &tokens, 2);
    if (cpp_is(name, "undef"))
        return directive_undef(cpp, line, &tokens);
    if (cpp_is(name, "include"))
        return directive_include(cpp, line, &tokens);
    if (cpp_is(name, "error"))
        return directive_error(cpp, line, &tokens);
    if (cpp_is(name, "include_next"))
        return fail_token(cpp, line, &tokens, 1, "#include_next is not supported");
    return 0; /* #pragma, #line, #warning: nothing to do */
}

/* Whether a line names a macro: most do not and pass through as they are. */
static bool names_macro(struct cpp *cpp, const struct asm_text *line)
{
    const char *data = line->data;
    for (size_t at = 0; at < line->length;) {
        size_t from = at;
        while (asm_identifier_char(data[at]))
            at++;
        if (at == from)
            at++;
        else if (cpp_macro_find(cpp, data + from, at - from) != NULL)
            return true;
    }
    return false;
}

static int text_line(struct cpp *cpp, const struct asm_text *line)
{
    struct cpp_tokens tokens = {0}, expanded = {0};
    if (!names_macro(cpp, line))
        return line->length != 0 ? asm_lines_add(cpp->ctx, cpp->out, line) : 0;
    int code = cpp_tokenize(cpp, line, 0, &tokens);
    if (code == 0)
        code = cpp_expand(cpp, line, &tokens, 0, true, &expanded);
    return code != 0 ? code : emit_line(cpp, line, &expanded);
}

static int run_lines(struct cpp *cpp)
{
    for (;;) {
        struct asm_text line;
        bool is_directive = false;
        int code = cpp_read_line(cpp, &line, &is_directive);
        if (code <= 0)
            return code;
        code = 0;
        if (is_directive)
            code = directive(cpp, &line);
        else if (active(cpp))
            code = text_line(cpp, &line);
        if (code != 0)
            return code;
    }
}

static int run_file(struct cpp *cpp, const char *file, const char *text, size_t length)
{
    struct cpp_reader reader = {.file = file, .text = text, .length = length, .line = 1};
    struct asm_text start = {.data = "", .file = file, .line = 1, .first_column = 1};
    if (cpp->include_depth >= ASM_MAX_INCLUDES)
        return asm_fail(cpp->ctx, &start, 0, "includes are nested more than %d deep",
                        ASM_MAX_INCLUDES);
    if (length > ASM_MAX_SOURCE)
        return asm_fail(cpp->ctx, &start, 0, "the file is larger than %d bytes", ASM_MAX_SOURCE);
    struct cpp_reader *above = cpp->reader;
    struct cpp_condition *condition = cpp->condition;
    cpp->reader = &reader;
    cpp->include_depth++;
    int code = run_lines(cpp);
    cpp->include_depth--;
    cpp->reader = above;
    if (code == 0 && cpp->condition != condition)
        code = cpp->condition != NULL && cpp->condition_depth > 0 &&
                       cpp->condition->opened.file == file
                   ? asm_fail(cpp->ctx, &cpp->condition->opened, 0, "this #if has no #endif")
                   : asm_fail(cpp->ctx, &start, 0, "the file ends an #if that it did not begin");
    return code;
}

static int predefine(struct cpp *cpp, const char *name, const char *value)
{
    struct asm_text line = {.data = value,
                            .length = (uint32_t)strlen(value),
                            .line = 1,
                            .first_column = 1,
                            .file = "<command line>"};
    size_t length = strcspn(name, "(");
    if (length == 0 || length != strlen(name))
        return asm_fail(cpp->ctx, &line, 0, "'%.100s' is not a macro name", name);
    struct cpp_macro *macro = cpp_macro_add(cpp, name, length);
    if (macro == NULL)
        return cpp->ctx->failed;
    return cpp_tokenize(cpp, &line, 0, &macro->body);
}

static int predefine_all(struct cpp *cpp)
{
    static const struct asm_define fixed[] = {
        {"__IPU__", "1"}, {"__IPU_ARCH_VERSION__", "21"}, {"__ASSEMBLER__", "1"}};
    static const struct {
        const char *name;
        enum cpp_builtin kind;
    } builtins[] = {{"__LINE__", CPP_LINE}, {"__FILE__", CPP_FILE}, {"__COUNTER__", CPP_COUNTER}};
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
        struct cpp_macro *macro = cpp_macro_add(cpp, builtins[i].name, strlen(builtins[i].name));
        if (macro == NULL)
            return cpp->ctx->failed;
        macro->builtin = (uint8_t)builtins[i].kind;
    }
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof(fixed) / sizeof(fixed[0]); i++)
        code = predefine(cpp, fixed[i].name, fixed[i].value);
    const struct asm_options *options = cpp->ctx->options;
    for (size_t i = 0; code == 0 && i < options->define_count; i++) {
        const char *value = options->defines[i].value;
        code = predefine(cpp, options->defines[i].name, value != NULL ? value : "1");
    }
    return code;
}

int cpp_run(struct asm_context *ctx, const char *file, const char *text, size_t length,
            struct asm_lines *out)
{
    struct cpp *cpp = asm_alloc(ctx, 1, sizeof(*cpp));
    if (cpp == NULL)
        return ctx->failed;
    cpp->ctx = ctx;
    cpp->out = out;
    cpp->scratch = asm_alloc(ctx, ASM_MAX_LINE + 1, 1);
    cpp->scratch_columns = asm_alloc(ctx, ASM_MAX_LINE + 1, sizeof(*cpp->scratch_columns));
    if (cpp->scratch == NULL || cpp->scratch_columns == NULL)
        return ctx->failed;
    int code = predefine_all(cpp);
    return code != 0 ? code : run_file(cpp, file, text, length);
}
