/* Reading of source text for the preprocessor: logical lines and tokens.
 *
 * A logical line is a line with its backslash continuations; block comments become one space and
 * may span lines. `//` and `#` comments end with the line; a `#` that begins a line and is followed
 * by a directive's name is not a comment. Strings protect all of these. Fails on lines longer than
 * ASM_MAX_LINE and on a block comment without end.
 */
#include "device/asm/cpp.h"

#include <string.h>

static const char *const directive_names[] = {"define", "undef", "include", "if",          "ifdef",
                                              "ifndef", "elif",  "else",    "endif",       "error",
                                              "pragma", "line",  "warning", "include_next"};

/* State of the line under construction. */
struct line_builder {
    struct cpp *cpp;
    size_t length;
    uint32_t column; /* of the next source character, from 1 */
    char quote;
    bool directive, content;
};

static struct asm_text place(const struct cpp_reader *reader, uint32_t column)
{
    struct asm_text text = {
        .data = "", .line = reader->line, .first_column = column, .file = reader->file};
    return text;
}

static char look(const struct cpp_reader *reader, size_t ahead)
{
    size_t at = reader->at + ahead;
    return at < reader->length ? reader->text[at] : '\0';
}

static int put(struct line_builder *builder, char c)
{
    struct cpp *cpp = builder->cpp;
    if (builder->length >= ASM_MAX_LINE) {
        struct asm_text at = place(cpp->reader, builder->column);
        return asm_fail(cpp->ctx, &at, 0, "the line is longer than %d characters", ASM_MAX_LINE);
    }
    cpp->scratch[builder->length] = c;
    uint32_t column = builder->column;
    cpp->scratch_columns[builder->length++] = (uint16_t)(column > 65535 ? 65535 : column);
    if (c != ' ' && c != '\t')
        builder->content = true;
    return 0;
}

/* Bytes of a backslash-newline at the cursor, or 0. */
static size_t continuation(const struct cpp_reader *reader)
{
    if (look(reader, 0) != '\\')
        return 0;
    if (look(reader, 1) == '\n')
        return 2;
    return look(reader, 1) == '\r' && look(reader, 2) == '\n' ? 3 : 0;
}

static void skip_to_newline(struct cpp_reader *reader)
{
    while (reader->at < reader->length && reader->text[reader->at] != '\n') {
        size_t joined = continuation(reader);
        reader->line += joined != 0;
        reader->at += joined != 0 ? joined : 1;
    }
}

static bool starts_directive(const struct cpp_reader *reader)
{
    size_t at = 1;
    while (look(reader, at) == ' ' || look(reader, at) == '\t')
        at++;
    size_t length = 0;
    while (asm_identifier_char(look(reader, at + length)))
        length++;
    for (size_t i = 0; i < sizeof(directive_names) / sizeof(directive_names[0]); i++)
        if (strlen(directive_names[i]) == length &&
            memcmp(directive_names[i], reader->text + reader->at + at, length) == 0)
            return true;
    return false;
}

static int block_comment(struct line_builder *builder)
{
    struct cpp_reader *reader = builder->cpp->reader;
    struct asm_text at = place(reader, builder->column);
    int code = put(builder, ' ');
    reader->at += 2;
    builder->column += 2;
    while (code == 0) {
        if (reader->at >= reader->length)
            return asm_fail(builder->cpp->ctx, &at, 0, "the comment has no end: expected */");
        char c = reader->text[reader->at++];
        builder->column = c == '\n' ? 1 : builder->column + 1;
        reader->line += c == '\n';
        if (c == '*' && look(reader, 0) == '/')
            break;
    }
    reader->at++;
    builder->column++;
    return code;
}

/* Whether the quote at the cursor is closed on this line; a lone apostrophe is ordinary text. */
static bool quote_closes(const struct cpp_reader *reader, char quote)
{
    for (size_t i = 1; look(reader, i) != '\0' && look(reader, i) != '\n'; i++) {
        if (look(reader, i) == '\\')
            i++;
        else if (look(reader, i) == quote)
            return true;
    }
    return false;
}

static int quoted(struct line_builder *builder)
{
    struct cpp_reader *reader = builder->cpp->reader;
    char c = reader->text[reader->at];
    if (c == '\\' && look(reader, 1) != '\n' && look(reader, 1) != '\0') {
        int code = put(builder, c);
        reader->at++;
        builder->column++;
        c = reader->text[reader->at];
        if (code != 0)
            return code;
    } else if (c == builder->quote) {
        builder->quote = 0;
    }
    reader->at++;
    int code = put(builder, c);
    builder->column++;
    return code;
}

/* One step outside strings. Returns 1 when the line has ended. */
static int plain(struct line_builder *builder)
{
    struct cpp_reader *reader = builder->cpp->reader;
    char c = reader->text[reader->at], next = look(reader, 1);
    if (c == '/' && next == '*')
        return block_comment(builder);
    if (c == '#' && !builder->content && starts_directive(reader))
        builder->directive = true;
    if ((c == '/' && next == '/') || (c == '#' && !builder->directive)) {
        skip_to_newline(reader);
        return 0;
    }
    if ((c == '"' || c == '\'') && quote_closes(reader, c))
        builder->quote = c;
    reader->at++;
    int code = 0;
    if (c == '\t' || c == '\r' || c == '\f' || c == '\v')
        c = ' ';
    if (c == '\0') {
        struct asm_text at = place(reader, builder->column);
        return asm_fail(builder->cpp->ctx, &at, 0, "a NUL character is not source text");
    }
    code = put(builder, c);
    builder->column++;
    return code;
}

static int finish(struct line_builder *builder, uint32_t first_line, struct asm_text *line)
{
    struct cpp *cpp = builder->cpp;
    char *data = asm_copy(cpp->ctx, cpp->scratch, builder->length);
    uint16_t *columns = asm_alloc(cpp->ctx, builder->length + 1, sizeof(*columns));
    if (data == NULL || columns == NULL)
        return cpp->ctx->failed;
    memcpy(columns, cpp->scratch_columns, builder->length * sizeof(*columns));
    *line = (struct asm_text){.data = data,
                              .length = (uint32_t)builder->length,
                              .line = first_line,
                              .columns = columns,
                              .first_column = 1,
                              .file = cpp->reader->file};
    return 1;
}

int cpp_read_line(struct cpp *cpp, struct asm_text *line, bool *directive)
{
    struct cpp_reader *reader = cpp->reader;
    struct line_builder builder = {.cpp = cpp, .column = 1};
    uint32_t first_line = reader->line;
    if (reader->at >= reader->length)
        return 0;
    while (reader->at < reader->length) {
        size_t joined = continuation(reader);
        if (joined != 0) {
            reader->at += joined;
            reader->line++;
            builder.column = 1;
            continue;
        }
        if (reader->text[reader->at] == '\n')
            break;
        int code = builder.quote != 0 ? quoted(&builder) : plain(&builder);
        if (code != 0)
            return code;
    }
    int code = finish(&builder, first_line, line);
    if (reader->at < reader->length) {
        reader->at++;
        reader->line++;
    }
    *directive = builder.directive;
    return code;
}

int cpp_tokens_add(struct cpp *cpp, struct cpp_tokens *tokens, struct cpp_token token)
{
    int code = asm_grow(cpp->ctx, &tokens->items, tokens->count, &tokens->capacity, sizeof(token));
    if (code == 0)
        tokens->items[tokens->count++] = token;
    return code;
}

/* A preprocessing number; also local labels (1b) and half literals (1.0h). An exponent's sign
 * belongs to it only after a decimal point, so that 0x1e+N stays three tokens. */
static size_t number_length(const char *data, size_t length)
{
    size_t n = 1;
    bool point = data[0] == '.';
    while (n < length) {
        bool sign = (data[n] == '+' || data[n] == '-') && point && (data[n - 1] | 0x20) == 'e';
        if (!asm_identifier_char(data[n]) && data[n] != '.' && !sign)
            break;
        point |= data[n] == '.';
        n++;
    }
    return n;
}

static size_t string_length(const char *data, size_t length)
{
    for (size_t n = 1; n < length; n++) {
        if (data[n] == '\\')
            n++;
        else if (data[n] == data[0])
            return n + 1;
    }
    return 1;
}

static struct cpp_token token_at(const char *data, size_t length)
{
    struct cpp_token token = {.text = data, .length = 1, .kind = CPP_PUNCTUATION};
    size_t n = 1;
    if (asm_identifier_start(data[0])) {
        while (n < length && asm_identifier_char(data[n]))
            n++;
        token.kind = CPP_IDENTIFIER;
    } else if ((data[0] >= '0' && data[0] <= '9') ||
               (data[0] == '.' && length > 1 && data[1] >= '0' && data[1] <= '9')) {
        n = number_length(data, length);
        token.kind = CPP_NUMBER;
    } else if (data[0] == '"' || data[0] == '\'') {
        n = string_length(data, length);
        token.kind = n > 1 ? CPP_STRING : CPP_PUNCTUATION;
    }
    token.length = (uint32_t)n;
    return token;
}

int cpp_tokenize(struct cpp *cpp, const struct asm_text *line, size_t from, struct cpp_tokens *out)
{
    bool space = false;
    for (size_t at = from; at < line->length;) {
        if (line->data[at] == ' ') {
            space = true;
            at++;
            continue;
        }
        struct cpp_token token = token_at(line->data + at, line->length - at);
        token.space = space;
        token.column = (uint16_t)asm_column(line, at);
        int code = cpp_tokens_add(cpp, out, token);
        if (code != 0)
            return code;
        at += token.length;
        space = false;
    }
    return 0;
}

bool cpp_is(const struct cpp_token *token, const char *text)
{
    return strlen(text) == token->length && memcmp(token->text, text, token->length) == 0;
}
