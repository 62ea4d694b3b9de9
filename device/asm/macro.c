/* The statement stream: splitting of lines, expansion frames, .rept, .irp, and macro calls.
 *
 * A statement is what stands between newlines, `;` and braces; `{` and `}` are statements of their
 * own, so that bundles may span lines and contain macro calls. Frames nest: the innermost one
 * delivers the next statement. Fails past ASM_MAX_FRAMES and ASM_MAX_STATEMENTS, on blocks without
 * end and on macro arguments that do not fit the definition.
 */
#include "device/asm/macro.h"

#include <stdio.h>
#include <string.h>

/* Adds [from, to) of a line as a statement unless it is blank. */
static int add_statement(struct asm_context *ctx, const struct asm_text *line, size_t from,
                         size_t to, struct asm_lines *out)
{
    while (from < to && line->data[from] == ' ')
        from++;
    while (to > from && line->data[to - 1] == ' ')
        to--;
    if (from == to)
        return 0;
    struct asm_text statement = asm_slice(ctx, line, from, to);
    return ctx->failed != 0 ? ctx->failed : asm_lines_add(ctx, out, &statement);
}

static int split_line(struct asm_context *ctx, const struct asm_text *line, struct asm_lines *out)
{
    size_t from = 0;
    char quote = 0;
    for (size_t i = 0; i < line->length; i++) {
        char c = line->data[i];
        if (quote != 0) {
            if (c == '\\')
                i++;
            else if (c == quote)
                quote = 0;
            continue;
        }
        if (c == '"' || (c == '\'' && i + 2 < line->length &&
                         (line->data[i + 1] == '\\' || line->data[i + 2] == '\'')))
            quote = c;
        bool brace = c == '{' || c == '}';
        if (c != ';' && !brace)
            continue;
        int code = add_statement(ctx, line, from, i, out);
        if (code == 0 && brace)
            code = add_statement(ctx, line, i, i + 1, out);
        if (code != 0)
            return code;
        from = i + 1;
    }
    return add_statement(ctx, line, from, line->length, out);
}

int macro_split(struct asm_context *ctx, const struct asm_lines *lines, struct asm_lines *out)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < lines->count; i++)
        code = split_line(ctx, &lines->items[i], out);
    return code;
}

int macro_push(struct asm_context *ctx, const struct asm_lines *lines, size_t rounds,
               const char *name, const struct asm_text *call)
{
    if (ctx->frame_depth >= ASM_MAX_FRAMES)
        return asm_fail(ctx, call, 0, "%s: macros and repetitions are nested more than %d deep",
                        name, ASM_MAX_FRAMES);
    if (rounds == 0 || lines->count == 0)
        return 0;
    struct asm_frame *frame = asm_alloc(ctx, 1, sizeof(*frame));
    if (frame == NULL)
        return ctx->failed;
    *frame = (struct asm_frame){.lines = lines,
                                .rounds = rounds,
                                .macro = name[0] != '.',
                                .condition_depth = ctx->condition_depth,
                                .below = ctx->frame};
    ctx->frame = frame;
    ctx->frame_depth++;
    return 0;
}

/* The innermost frame that has lines left, or NULL. */
static struct asm_frame *open_frame(struct asm_context *ctx)
{
    struct asm_frame *frame = ctx->frame;
    while (frame != NULL && frame->next == frame->lines->count &&
           frame->split_next == frame->split.count) {
        frame->rounds--;
        frame->next = 0;
        if (frame->rounds == 0) {
            ctx->frame = frame = frame->below;
            ctx->frame_depth--;
        }
    }
    return frame;
}

struct asm_text *macro_next(struct asm_context *ctx)
{
    struct asm_text *text = NULL;
    while (text == NULL) {
        struct asm_frame *frame = open_frame(ctx);
        if (frame == NULL || ctx->failed != 0)
            return NULL;
        if (frame->split_next < frame->split.count)
            text = &frame->split.items[frame->split_next++];
        else if (frame->expansion != NULL)
            text = macro_expand_line(ctx, frame);
        else
            text = &frame->lines->items[frame->next++];
    }
    if (++ctx->statements > ASM_MAX_STATEMENTS) {
        asm_fail(ctx, text, 0, "the source expands to more than %d statements", ASM_MAX_STATEMENTS);
        return NULL;
    }
    return text;
}

int macro_exit(struct asm_context *ctx, struct asm_text *text)
{
    struct asm_frame *frame = ctx->frame;
    unsigned popped = 0;
    while (frame != NULL && !frame->macro) {
        frame = frame->below;
        popped++;
    }
    if (frame == NULL)
        return asm_fail(ctx, text, 0, ".exitm outside a macro");
    while (ctx->condition_depth > frame->condition_depth) {
        int code = 0;
        bool handled;
        struct asm_text end = *text;
        code = condition_directive(ctx, &end, ".endif", end.length, &handled);
        if (code != 0)
            return code;
    }
    ctx->frame = frame->below;
    ctx->frame_depth -= popped + 1;
    return 0;
}

int macro_repeat(struct asm_context *ctx, struct asm_text *text, size_t from)
{
    struct asm_cursor cursor = {.ctx = ctx, .text = text, .at = from};
    int64_t rounds;
    int code = expr_parse_absolute(&cursor, &rounds);
    if (code == 0)
        code = cursor_end(&cursor, "the count of .rept");
    struct asm_lines *body = code == 0 ? asm_alloc(ctx, 1, sizeof(*body)) : NULL;
    if (body == NULL)
        return ctx->failed;
    code = macro_collect(ctx, text, false, body);
    if (code != 0)
        return code;
    if (rounds < 0)
        return asm_fail(ctx, text, from, "the count of .rept is negative");
    return macro_push(ctx, body, (size_t)rounds, ".rept", text);
}

/* Splits `.irp` values at commas, or `.irpc` text into characters. */
static int next_value(struct asm_cursor *cursor, bool characters, const char **value)
{
    const char *data = cursor->text->data;
    if (!characters)
        cursor_peek(cursor);
    size_t from = cursor->at, to = from;
    if (characters)
        to = from + 1;
    else
        while (data[to] != '\0' && data[to] != ',')
            to++;
    *value = asm_copy(cursor->ctx, data + from, to - from);
    cursor->at = to + (!characters && data[to] == ',');
    return *value != NULL ? 0 : cursor->ctx->failed;
}

int macro_irp(struct asm_context *ctx, struct asm_text *text, size_t from, bool characters)
{
    struct asm_cursor cursor = {.ctx = ctx, .text = text, .at = from};
    const char *name;
    size_t length = cursor_identifier(&cursor, &name);
    if (length == 0)
        return asm_fail(ctx, text, cursor.at, "expected the name of the loop parameter");
    struct asm_parameter parameter = {.name = asm_copy(ctx, name, length), .initial = ""};
    struct asm_macro macro = {.name = ".irp", .parameters = &parameter, .parameter_count = 1};
    struct asm_lines *rounds = asm_alloc(ctx, 1, sizeof(*rounds));
    struct asm_origin *origin = asm_alloc(ctx, 1, sizeof(*origin));
    if (parameter.name == NULL || rounds == NULL || origin == NULL)
        return ctx->failed;
    *origin = (struct asm_origin){.macro = ".irp", .call = text};
    cursor_accept(&cursor, ",");
    int code = macro_collect(ctx, text, false, &macro.body);
    while (code == 0 && cursor_peek(&cursor) != '\0') {
        const char *value;
        code = next_value(&cursor, characters, &value);
        if (code == 0)
            code = macro_substitute(ctx, &macro, &value, origin, rounds);
    }
    return code != 0 ? code : macro_push(ctx, rounds, 1, ".irp", text);
}

/* --- calls --- */

static bool joins(char c)
{
    return c != '\0' && strchr("+-*/%&|^~<>=!,", c) != NULL;
}

/* The end of an argument: a comma, or a blank between two things that no operator joins. */
static size_t argument_end(const char *data, size_t at)
{
    unsigned depth = 0;
    char quote = 0;
    for (; data[at] != '\0'; at++) {
        char c = data[at];
        if (quote != 0) {
            if (c == '\\' && data[at + 1] != '\0')
                at++;
            else if (c == quote)
                quote = 0;
            continue;
        }
        if (c == '"')
            quote = c;
        depth += c == '(';
        depth -= c == ')' && depth > 0;
        if (depth > 0)
            continue;
        if (c == ',')
            return at;
        if (c != ' ')
            continue;
        char next = data[at + 1];
        if (!joins(next) && !joins(data[at - 1]) && next != '\0')
            return at;
        if (next == ',')
            return at;
    }
    return at;
}

/* Strips the quotes of an argument that is one string, as the vendor's assembler does. */
static char *argument_text(struct asm_context *ctx, const char *data, size_t length)
{
    if (length >= 2 && data[0] == '"' && data[length - 1] == '"' &&
        memchr(data + 1, '"', length - 2) == NULL)
        return asm_copy(ctx, data + 1, length - 2);
    return asm_copy(ctx, data, length);
}

/* Whether the argument at the cursor reads `name=`; its parameter's index, or -1. */
static int keyword(const struct asm_macro *macro, const char *data, size_t *skip)
{
    size_t length = 0;
    while (asm_identifier_char(data[length]))
        length++;
    size_t at = length;
    while (data[at] == ' ')
        at++;
    if (length == 0 || data[at] != '=' || data[at + 1] == '=')
        return -1;
    for (size_t i = 0; i < macro->parameter_count; i++) {
        if (strlen(macro->parameters[i].name) == length &&
            memcmp(macro->parameters[i].name, data, length) == 0) {
            *skip = at + 1;
            return (int)i;
        }
    }
    return -1;
}

static int read_arguments(struct asm_cursor *cursor, const struct asm_macro *macro,
                          const char **values)
{
    const char *data = cursor->text->data;
    size_t position = 0;
    while (cursor_peek(cursor) != '\0') {
        size_t skip = 0;
        int named = keyword(macro, data + cursor->at, &skip);
        size_t index = named >= 0 ? (size_t)named : position;
        size_t at = cursor->at;
        cursor->at += skip;
        cursor_peek(cursor);
        if (index >= macro->parameter_count)
            return asm_fail(cursor->ctx, cursor->text, at,
                            "too many arguments: macro %s has %zu parameters", macro->name,
                            macro->parameter_count);
        bool rest = macro->parameters[index].vararg;
        size_t end = rest ? cursor->text->length : argument_end(data, cursor->at);
        size_t length = end - cursor->at;
        values[index] = rest ? asm_copy(cursor->ctx, data + cursor->at, length)
                             : argument_text(cursor->ctx, data + cursor->at, length);
        if (values[index] == NULL)
            return cursor->ctx->failed;
        cursor->at = end;
        cursor_accept(cursor, ",");
        position = index + 1;
    }
    return 0;
}

static struct asm_macro *find(const struct asm_context *ctx, const char *name, size_t length)
{
    for (struct asm_macro *macro = ctx->macros; macro != NULL; macro = macro->next)
        if (macro->name_length == length && memcmp(macro->name, name, length) == 0)
            return macro;
    return NULL;
}

bool macro_known(const struct asm_context *ctx, const char *name, size_t length)
{
    return find(ctx, name, length) != NULL;
}

int macro_invoke(struct asm_context *ctx, struct asm_text *call, size_t name_from, size_t name_to)
{
    const struct asm_macro *macro = find(ctx, call->data + name_from, name_to - name_from);
    struct asm_cursor cursor = {.ctx = ctx, .text = call, .at = name_to};
    const char **values = asm_alloc(ctx, macro->parameter_count + 1, sizeof(*values));
    struct asm_origin *origin = asm_alloc(ctx, 1, sizeof(*origin));
    if (values == NULL || origin == NULL)
        return ctx->failed;
    *origin = (struct asm_origin){.macro = macro->name, .call = call};
    int code = read_arguments(&cursor, macro, values);
    for (size_t i = 0; code == 0 && i < macro->parameter_count; i++) {
        const struct asm_parameter *parameter = &macro->parameters[i];
        if (parameter->required && (values[i] == NULL || values[i][0] == '\0'))
            code = asm_fail(ctx, call, name_from, "macro %s needs a value for '%s'", macro->name,
                            parameter->name);
        if (values[i] == NULL || values[i][0] == '\0')
            values[i] = parameter->initial;
    }
    const struct asm_frame *below = ctx->frame;
    if (code == 0)
        code = macro_push(ctx, &macro->body, 1, macro->name, call);
    if (code == 0 && ctx->frame != below) {
        ctx->frame->expansion = macro;
        ctx->frame->values = values;
        ctx->frame->origin = origin;
        ctx->frame->counter = ctx->macro_counter;
    }
    ctx->macro_counter++;
    return code;
}
