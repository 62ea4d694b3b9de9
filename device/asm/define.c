/* .macro definitions and the text substitution of their bodies.
 *
 * Bodies are kept as statements; a call copies them with \parameter replaced by the argument's
 * text,
 * \@ by the number of the call and \() by nothing. Unknown \names stay, they may belong to a macro
 * that the body defines. Fails on malformed parameter lists and bodies without .endm.
 */
#include "device/asm/macro.h"

#include <stdio.h>
#include <string.h>

/* The directive that a statement consists of, e.g. ".rept"; 0 when it is something else. */
static size_t directive_name(const struct asm_text *text, const char **name)
{
    size_t length = 0;
    *name = text->data;
    if (text->data[0] == '.')
        do
            length++;
        while (asm_identifier_char(text->data[length]));
    return length;
}

static bool named(const char *name, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(name, wanted, length) == 0;
}

static int nesting_change(const struct asm_text *text, bool macro)
{
    const char *name;
    size_t n = directive_name(text, &name);
    if (macro && named(name, n, ".macro"))
        return 1;
    if (macro && (named(name, n, ".endm") || named(name, n, ".endmacro")))
        return -1;
    if (!macro && (named(name, n, ".rept") || named(name, n, ".rep") || named(name, n, ".irp") ||
                   named(name, n, ".irpc")))
        return 1;
    return !macro && named(name, n, ".endr") ? -1 : 0;
}

int macro_collect(struct asm_context *ctx, struct asm_text *open, bool macro,
                  struct asm_lines *body)
{
    int depth = 1;
    for (;;) {
        struct asm_text *text = macro_next(ctx);
        if (text == NULL)
            return asm_fail(ctx, open, 0,
                            macro ? "this .macro has no .endm" : "this repetition has no .endr");
        depth += nesting_change(text, macro);
        if (depth == 0)
            return 0;
        int code = asm_lines_add(ctx, body, text);
        if (code != 0)
            return code;
    }
}

static int parse_qualifier(struct asm_cursor *cursor, struct asm_parameter *parameter)
{
    const char *name;
    size_t length = cursor_identifier(cursor, &name);
    if (named(name, length, "req"))
        parameter->required = true;
    else if (named(name, length, "vararg"))
        parameter->vararg = true;
    else
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected 'req' or 'vararg'");
    return 0;
}

static int parse_default(struct asm_cursor *cursor, struct asm_parameter *parameter)
{
    cursor_peek(cursor);
    const char *data = cursor->text->data;
    size_t from = cursor->at, to = from;
    if (data[from] == '"') {
        char *text;
        size_t length;
        int code = cursor_string(cursor, &text, &length);
        parameter->initial = text;
        return code;
    }
    while (data[to] != '\0' && data[to] != ',' && data[to] != ' ')
        to++;
    parameter->initial = asm_copy(cursor->ctx, data + from, to - from);
    cursor->at = to;
    return parameter->initial != NULL ? 0 : cursor->ctx->failed;
}

static int parse_parameter(struct asm_cursor *cursor, struct asm_macro *macro)
{
    struct asm_context *ctx = cursor->ctx;
    const char *name;
    struct asm_parameter parameter = {.initial = ""};
    size_t length = cursor_identifier(cursor, &name);
    if (length == 0)
        return asm_fail(ctx, cursor->text, cursor->at, "expected a parameter name");
    if (macro->parameter_count > 0 && macro->parameters[macro->parameter_count - 1].vararg)
        return asm_fail(ctx, cursor->text, cursor->at - length,
                        "a vararg parameter must be the last one");
    parameter.name = asm_copy(ctx, name, length);
    if (parameter.name == NULL)
        return ctx->failed;
    int code = 0;
    if (cursor_accept(cursor, ":"))
        code = parse_qualifier(cursor, &parameter);
    if (code == 0 && cursor_accept(cursor, "="))
        code = parse_default(cursor, &parameter);
    if (code == 0)
        code = asm_grow(ctx, &macro->parameters, macro->parameter_count, &macro->parameter_capacity,
                        sizeof(parameter));
    if (code == 0)
        macro->parameters[macro->parameter_count++] = parameter;
    return code;
}

int macro_define(struct asm_context *ctx, struct asm_text *text, size_t from)
{
    struct asm_cursor cursor = {.ctx = ctx, .text = text, .at = from};
    struct asm_macro *macro = asm_alloc(ctx, 1, sizeof(*macro));
    const char *name;
    size_t length = cursor_identifier(&cursor, &name);
    if (macro == NULL)
        return ctx->failed;
    if (length == 0)
        return asm_fail(ctx, text, cursor.at, "expected a macro name after .macro");
    if (macro_known(ctx, name, length))
        return asm_fail(ctx, text, cursor.at - length, "macro '%.*s' is already defined",
                        (int)length, name);
    macro->name = asm_copy(ctx, name, length);
    macro->name_length = length;
    if (macro->name == NULL)
        return ctx->failed;
    int code = 0;
    cursor_accept(&cursor, ",");
    while (code == 0 && cursor_peek(&cursor) != '\0') {
        code = parse_parameter(&cursor, macro);
        cursor_accept(&cursor, ",");
    }
    if (code == 0)
        code = macro_collect(ctx, text, true, &macro->body);
    if (code != 0)
        return code;
    macro->next = ctx->macros;
    ctx->macros = macro;
    return 0;
}

int macro_purge(struct asm_context *ctx, struct asm_text *text, size_t from)
{
    struct asm_cursor cursor = {.ctx = ctx, .text = text, .at = from};
    do {
        const char *name;
        size_t length = cursor_identifier(&cursor, &name);
        struct asm_macro **at = &ctx->macros;
        while (*at != NULL && !named(name, length, (*at)->name))
            at = &(*at)->next;
        if (*at == NULL)
            return asm_fail(ctx, text, cursor.at - length, "there is no macro '%.*s' to purge",
                            (int)length, name);
        *at = (*at)->next;
    } while (cursor_accept(&cursor, ","));
    return cursor_end(&cursor, ".purgem");
}

/* --- substitution --- */

struct output {
    struct asm_context *ctx;
    char *data;
    uint16_t *columns;
    size_t length, capacity;
};

static int reserve(struct output *out, size_t length)
{
    if (out->data != NULL && out->length + length + 1 <= out->capacity)
        return 0;
    size_t capacity = out->data == NULL ? length + 24 : (out->capacity + length) * 2;
    if (capacity > 16u * ASM_MAX_LINE)
        return asm_fail(out->ctx, NULL, 0,
                        "a macro expands to a statement of more than %d characters",
                        8 * ASM_MAX_LINE);
    char *grown = asm_alloc(out->ctx, capacity, 1);
    uint16_t *columns = asm_alloc(out->ctx, capacity, sizeof(*columns));
    if (grown == NULL || columns == NULL)
        return out->ctx->failed;
    if (out->data != NULL) {
        memcpy(grown, out->data, out->length);
        memcpy(columns, out->columns, out->length * sizeof(*columns));
    }
    out->data = grown;
    out->columns = columns;
    out->capacity = capacity;
    return 0;
}

/* Appends an argument's text; all of it has the column of the parameter. */
static int put_argument(struct output *out, const char *data, uint32_t column)
{
    size_t length = strlen(data);
    int code = reserve(out, length);
    if (code != 0 || out->data == NULL)
        return code;
    memcpy(out->data + out->length, data, length + 1);
    for (size_t i = 0; i < length; i++)
        out->columns[out->length++] = (uint16_t)column;
    return 0;
}

/* Appends the body's own text. */
static int put_body(struct output *out, const struct asm_text *line, size_t from, size_t to)
{
    int code = reserve(out, to - from);
    if (code != 0 || out->data == NULL)
        return code;
    memcpy(out->data + out->length, line->data + from, to - from);
    if (line->columns != NULL)
        memcpy(out->columns + out->length, line->columns + from, (to - from) * sizeof(uint16_t));
    for (size_t i = from; line->columns == NULL && i < to; i++)
        out->columns[out->length + i - from] = (uint16_t)(line->first_column + i);
    out->length += to - from;
    out->data[out->length] = '\0';
    return 0;
}

/* What the backslash at `at` stands for; NULL when it is ordinary text. *skip counts its
 * characters. */
static const char *replacement(const struct asm_macro *macro, const char *const *values,
                               const char *data, size_t *skip, char *number, unsigned counter)
{
    if (data[1] == '@') {
        snprintf(number, 16, "%u", counter);
        *skip = 2;
        return number;
    }
    if (data[1] == '(' && data[2] == ')') {
        *skip = 3;
        return "";
    }
    size_t length = 0;
    while (asm_identifier_char(data[1 + length]))
        length++;
    for (size_t i = 0; length > 0 && i < macro->parameter_count; i++) {
        if (named(data + 1, length, macro->parameters[i].name)) {
            *skip = length + 1;
            return values[i];
        }
    }
    return NULL;
}

static int substitute_line(struct asm_context *ctx, const struct asm_macro *macro,
                           const char *const *values, unsigned counter, const struct asm_text *line,
                           struct asm_text *result)
{
    struct output out = {.ctx = ctx};
    char number[16];
    int code = reserve(&out, line->length);
    for (size_t at = 0; code == 0 && at < line->length;) {
        const char *slash = strchr(line->data + at, '\\');
        size_t end = slash != NULL ? (size_t)(slash - line->data) : line->length, skip = 1;
        if (end > at) {
            code = put_body(&out, line, at, end);
            at = end;
            continue;
        }
        const char *text = replacement(macro, values, slash, &skip, number, counter);
        code = text != NULL ? put_argument(&out, text, asm_column(line, at))
                            : put_body(&out, line, at, at + 1);
        at += skip;
    }
    result->data = out.data;
    result->length = (uint32_t)out.length;
    result->columns = out.columns;
    return code;
}

/* Whether arguments brought in something that makes more than one statement of a line. */
static bool needs_splitting(const struct asm_text *line)
{
    return line->length == 0 || (line->length > 1 && strpbrk(line->data, ";{}") != NULL) ||
           line->data[0] == ' ' || line->data[line->length - 1] == ' ';
}

int macro_substitute(struct asm_context *ctx, const struct asm_macro *macro,
                     const char *const *values, const struct asm_origin *origin,
                     struct asm_lines *out)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < macro->body.count; i++) {
        struct asm_text line = macro->body.items[i];
        if (strchr(line.data, '\\') != NULL)
            code = substitute_line(ctx, macro, values, ctx->macro_counter, &macro->body.items[i],
                                   &line);
        line.origin = origin;
        struct asm_lines one = {.items = &line, .count = 1};
        if (code == 0)
            code = needs_splitting(&line) ? macro_split(ctx, &one, out)
                                          : asm_lines_add(ctx, out, &line);
    }
    return code;
}

/* In a branch that is not taken only the conditions matter, and of them only .elseif is evaluated.
 */
static bool needs_substitution(const struct asm_context *ctx, const struct asm_text *line)
{
    if (!condition_active(ctx) && line->data[0] != '\\' && strncmp(line->data, ".else", 5) != 0)
        return false;
    return strchr(line->data, '\\') != NULL;
}

struct asm_text *macro_expand_line(struct asm_context *ctx, struct asm_frame *frame)
{
    struct asm_text *line = &frame->lines->items[frame->next++];
    struct asm_text *copy = asm_alloc(ctx, 1, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    *copy = *line;
    copy->origin = frame->origin;
    if (!needs_substitution(ctx, line))
        return copy;
    if (substitute_line(ctx, frame->expansion, frame->values, frame->counter, line, copy) != 0)
        return NULL;
    if (!needs_splitting(copy))
        return copy;
    const struct asm_lines one = {.items = copy, .count = 1};
    frame->split = (struct asm_lines){0};
    frame->split_next = 0;
    return macro_split(ctx, &one, &frame->split) == 0 && frame->split.count > 0
               ? &frame->split.items[frame->split_next++]
               : NULL;
}
