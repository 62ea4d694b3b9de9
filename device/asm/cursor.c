/* Parsing helpers inside one statement: blanks, fixed tokens, names, strings.
 *
 * A cursor never passes the end of its statement: the text is NUL-terminated and holds no other
 * NUL.
 */
#include "device/asm/passes.h"

#include <string.h>

char cursor_peek(struct asm_cursor *cursor)
{
    while (cursor->text->data[cursor->at] == ' ')
        cursor->at++;
    return cursor->text->data[cursor->at];
}

bool cursor_accept(struct asm_cursor *cursor, const char *token)
{
    cursor_peek(cursor);
    if (cursor->text->data[cursor->at] != token[0])
        return false;
    size_t length = strlen(token);
    if (strncmp(cursor->text->data + cursor->at, token, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

int cursor_expect(struct asm_cursor *cursor, const char *token, const char *what)
{
    if (cursor_accept(cursor, token))
        return 0;
    return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected '%s' %s", token, what);
}

size_t cursor_identifier(struct asm_cursor *cursor, const char **name)
{
    cursor_peek(cursor);
    const char *data = cursor->text->data + cursor->at;
    size_t length = 0;
    if (asm_identifier_start(data[0]) || data[0] == '.')
        while (asm_identifier_char(data[length]) || data[length] == '.' || data[length] == '$')
            length++;
    if (length == 1 && data[0] == '.')
        length = 0;
    *name = data;
    cursor->at += length;
    return length;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One escape after a backslash: n t r b f v 0..7 (octal) x (hexadecimal), else the character. */
static char escape(const char *data, size_t *at)
{
    static const char from[] = "ntrbfv", to[] = "\n\t\r\b\f\v";
    char c = data[*at];
    const char *known = c != '\0' ? strchr(from, c) : NULL;
    unsigned value = 0;
    if (known != NULL) {
        (*at)++;
        return to[known - from];
    }
    if (c == 'x' && hex_digit(data[*at + 1]) >= 0) {
        for ((*at)++; hex_digit(data[*at]) >= 0; (*at)++)
            value = (value << 4) | (unsigned)hex_digit(data[*at]);
        return (char)value;
    }
    if (c < '0' || c > '7') {
        *at += c != '\0';
        return c;
    }
    for (unsigned i = 0; i < 3 && data[*at] >= '0' && data[*at] <= '7'; i++, (*at)++)
        value = value * 8 + (unsigned)(data[*at] - '0');
    return (char)value;
}

int cursor_string(struct asm_cursor *cursor, char **data, size_t *length)
{
    if (cursor_peek(cursor) != '"')
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected a string in quotes");
    const char *text = cursor->text->data;
    size_t at = cursor->at + 1, n = 0;
    char *out = asm_alloc(cursor->ctx, cursor->text->length + 1u, 1);
    if (out == NULL)
        return cursor->ctx->failed;
    while (text[at] != '"') {
        if (text[at] == '\0')
            return asm_fail(cursor->ctx, cursor->text, cursor->at, "the string has no end");
        if (text[at] == '\\') {
            at++;
            out[n++] = escape(text, &at);
        } else {
            out[n++] = text[at++];
        }
    }
    cursor->at = at + 1;
    *data = out;
    *length = n;
    return 0;
}

int cursor_end(struct asm_cursor *cursor, const char *after)
{
    if (cursor_peek(cursor) == '\0')
        return 0;
    return asm_fail(cursor->ctx, cursor->text, cursor->at, "unexpected text after %s: '%.40s'",
                    after, cursor->text->data + cursor->at);
}
