/* Expressions: text -> tree.
 *
 * Operators and their precedence are those of the GNU assembler (multiplication and shifts bind
 * tightest, then | ^ &, then + -, then comparisons, then && and ||). A `.set` symbol is replaced by
 * its value of the moment; labels and names defined later stay symbols. `name@abs@21` and the like
 * choose a relocation. Fails on malformed text and on nesting beyond ASM_MAX_EXPRESSION.
 */
#include "device/asm/expr.h"

#include "base/half.h"
#include "device/asm/elf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct operator_row {
    const char *text;
    uint8_t precedence;
    uint8_t op;
};

/* Longer spellings first. */
static const struct operator_row operators[] = {
    {"||", 1, OP_OR_ELSE},     {"&&", 2, OP_AND_ALSO},   {"==", 3, OP_EQUAL},
    {"!=", 3, OP_NOT_EQUAL},   {"<>", 3, OP_NOT_EQUAL},  {"<<", 6, OP_SHIFT_LEFT},
    {">>", 6, OP_SHIFT_RIGHT}, {"<=", 3, OP_LESS_EQUAL}, {">=", 3, OP_GREATER_EQUAL},
    {"<", 3, OP_LESS},         {">", 3, OP_GREATER},     {"+", 4, OP_ADD},
    {"-", 4, OP_SUBTRACT},     {"|", 5, OP_OR},          {"^", 5, OP_XOR},
    {"&", 5, OP_AND},          {"*", 6, OP_MULTIPLY},    {"/", 6, OP_DIVIDE},
    {"%", 6, OP_REMAINDER}};

static int parse_binary(struct asm_cursor *cursor, unsigned level, unsigned depth,
                        const struct asm_expr **out);

static struct asm_expr *new_expr(struct asm_context *ctx, enum asm_expr_kind kind)
{
    struct asm_expr *expr = asm_alloc(ctx, 1, sizeof(*expr));
    if (expr != NULL)
        expr->kind = kind;
    return expr;
}

const struct asm_expr *expr_number(struct asm_context *ctx, int64_t number)
{
    struct asm_expr *expr = new_expr(ctx, ASM_EXPR_NUMBER);
    if (expr != NULL)
        expr->number = number;
    return expr;
}

const struct asm_expr *expr_negate(struct asm_context *ctx, const struct asm_expr *operand)
{
    if (operand->kind == ASM_EXPR_NUMBER)
        return expr_number(ctx, (int64_t)(0 - (uint64_t)operand->number));
    struct asm_expr *expr = new_expr(ctx, ASM_EXPR_UNARY);
    if (expr != NULL) {
        expr->op = OP_NEGATE;
        expr->left = operand;
    }
    return expr;
}

static int fail(struct asm_cursor *cursor, const char *message)
{
    return asm_fail(cursor->ctx, cursor->text, cursor->at, "%s", message);
}

static int finish_number(struct asm_cursor *cursor, int64_t number, bool half,
                         const struct asm_expr **out)
{
    struct asm_expr *expr = new_expr(cursor->ctx, ASM_EXPR_NUMBER);
    if (expr == NULL)
        return cursor->ctx->failed;
    expr->number = number;
    expr->half = half;
    *out = expr;
    return 0;
}

static int symbol_expr(struct asm_cursor *cursor, struct asm_name *symbol,
                       const struct asm_expr **out)
{
    struct asm_expr *expr = new_expr(cursor->ctx, ASM_EXPR_SYMBOL);
    if (symbol == NULL || expr == NULL)
        return cursor->ctx->failed;
    symbol->referenced = true;
    expr->symbol = symbol;
    *out = expr;
    return 0;
}

static int local_reference(struct asm_cursor *cursor, size_t digits, const struct asm_expr **out)
{
    const char *data = cursor->text->data + cursor->at;
    uint32_t number = 0;
    if (digits > 8)
        return fail(cursor, "a numeric label has at most eight digits");
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (uint32_t)(data[i] - '0');
    bool forward = data[digits] == 'f';
    struct asm_name *symbol = symbol_local(cursor->ctx, number, forward);
    if (symbol == NULL && !forward && cursor->ctx->failed == 0)
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "there is no label %u before this",
                        number);
    cursor->at += digits + 1;
    return symbol_expr(cursor, symbol, out);
}

/* 1.0h, 3h, 1.5e-3h: half precision; `length` excludes the h. */
static int half_literal(struct asm_cursor *cursor, size_t length, const struct asm_expr **out)
{
    char text[64], *end;
    if (length >= sizeof(text))
        return fail(cursor, "the half-precision literal is too long");
    memcpy(text, cursor->text->data + cursor->at, length);
    text[length] = '\0';
    double value = strtod(text, &end);
    if (*end != '\0')
        return fail(cursor, "expected a half-precision literal such as 1.0h");
    uint16_t bits = half_from_float((float)value);
    if ((bits & 0x7fff) == 0x7c00 && !isinf(value))
        return fail(cursor, "the half-precision literal overflows");
    cursor->at += length + 1;
    return finish_number(cursor, bits, true, out);
}

static int integer(struct asm_cursor *cursor, size_t length, const struct asm_expr **out)
{
    const char *data = cursor->text->data + cursor->at;
    unsigned base = 10;
    size_t at = 0;
    if (data[0] == '0' && length > 1) {
        char kind = (char)(data[1] | 0x20);
        base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
        at = base == 8 ? 1 : 2;
    }
    uint64_t value = 0;
    if (at == length)
        return fail(cursor, "expected digits");
    for (; at < length; at++) {
        char c = (char)(data[at] | 0x20);
        unsigned digit = c >= 'a' ? (unsigned)(c - 'a') + 10u : (unsigned)(data[at] - '0');
        if (digit >= base)
            return asm_fail(cursor->ctx, cursor->text, cursor->at + at,
                            "'%c' is not a digit of a number in base %u", data[at], base);
        if (value > (UINT64_MAX - digit) / base)
            return fail(cursor, "the number does not fit 64 bits");
        value = value * base + digit;
    }
    cursor->at += length;
    return finish_number(cursor, (int64_t)value, false, out);
}

static int number(struct asm_cursor *cursor, const struct asm_expr **out)
{
    const char *data = cursor->text->data + cursor->at;
    size_t digits = 0, length = 0;
    while (data[digits] >= '0' && data[digits] <= '9')
        digits++;
    bool point = false, hex = data[0] == '0' && (data[1] | 0x20) == 'x';
    for (;; length++) {
        bool sign = length > 0 && (data[length] == '+' || data[length] == '-') && point &&
                    (data[length - 1] | 0x20) == 'e';
        if (!asm_identifier_char(data[length]) && data[length] != '.' && !sign)
            break;
        point |= data[length] == '.';
    }
    bool suffix = length == digits + 1;
    bool binary = data[0] == '0' && digits == 1 && data[1] == 'b' && length > 2;
    if (suffix && !binary && (data[digits] == 'b' || data[digits] == 'f'))
        return local_reference(cursor, digits, out);
    if (!hex && length > 1 && data[length - 1] == 'h')
        return half_literal(cursor, length - 1, out);
    if (point)
        return fail(cursor, "expected an integer, or a half-precision literal that ends in h");
    return integer(cursor, length, out);
}

static int character(struct asm_cursor *cursor, const struct asm_expr **out)
{
    const char *data = cursor->text->data + cursor->at;
    static const char from[] = "ntr0\\'\"", to[] = "\n\t\r\0\\'\"";
    size_t length = data[1] == '\\' ? 3 : 2;
    char value = data[1];
    if (data[1] == '\0' || (data[1] == '\\' && data[2] == '\0'))
        return fail(cursor, "the character has no end");
    if (data[1] == '\\') {
        const char *known = strchr(from, data[2]);
        if (known == NULL)
            return fail(cursor, "unknown escape in a character");
        value = to[known - from];
    }
    if (data[length] != '\'')
        return fail(cursor, "expected ' after the character");
    cursor->at += length + 1;
    return finish_number(cursor, (unsigned char)value, false, out);
}

static int csr_number(struct asm_cursor *cursor, const struct csr *csr, const struct asm_expr **out)
{
    struct asm_expr *expr = new_expr(cursor->ctx, ASM_EXPR_NUMBER);
    if (expr == NULL)
        return cursor->ctx->failed;
    expr->number = csr->index - (csr->space == CSR_SPACE_UPPER ? CSR_UPPER_BASE : 0);
    expr->csr = csr;
    *out = expr;
    return 0;
}

/* $NAME: a register of the current mode. Without a mode, workers' names go first. */
static int csr_name(struct asm_cursor *cursor, const struct asm_expr **out)
{
    struct asm_context *ctx = cursor->ctx;
    const char *start = cursor->text->data + cursor->at + 1;
    char name[40];
    size_t length = 0;
    while (asm_identifier_char(start[length]))
        length++;
    if (length == 0 || length >= sizeof(name))
        return fail(cursor, "expected the name of a register after $");
    memcpy(name, start, length);
    name[length] = '\0';
    const struct csr *csr = csr_find(name, ctx->mode == ASM_MODE_SUPERVISOR);
    if (csr == NULL && ctx->mode == ASM_MODE_ANY)
        csr = csr_find(name, true);
    if (csr == NULL && !csr_exists(name))
        return asm_fail(ctx, cursor->text, cursor->at, "there is no register $%s", name);
    if (csr == NULL)
        return asm_fail(ctx, cursor->text, cursor->at, "the CSR $%s cannot be used in %s mode",
                        name, ctx->mode == ASM_MODE_SUPERVISOR ? "Supervisor" : "Worker");
    cursor->at += length + 1;
    return csr_number(cursor, csr, out);
}

static int name(struct asm_cursor *cursor, const struct asm_expr **out)
{
    struct asm_context *ctx = cursor->ctx;
    const char *start;
    int64_t value;
    size_t length = cursor_identifier(cursor, &start);
    if (length == 0) {
        if (!cursor_accept(cursor, "."))
            return fail(cursor, "expected a number, a symbol or (");
        return symbol_expr(cursor, symbol_here(ctx), out);
    }
    const struct asm_name *known = symbol_find(ctx, start, length);
    if (known != NULL && known->kind == ASM_SYMBOL_VALUE) {
        *out = known->value;
        return 0;
    }
    if (known == NULL || known->kind == ASM_SYMBOL_UNDEFINED) {
        if (length == 4 && memcmp(start, "infh", 4) == 0)
            return finish_number(cursor, 0x7c00, true, out);
        if (length == 4 && memcmp(start, "nanh", 4) == 0)
            return finish_number(cursor, 0x7e00, true, out);
        if (prelude_find(ctx, start, length, &value))
            return finish_number(cursor, value, false, out);
    }
    return symbol_expr(cursor, symbol_get(ctx, start, length), out);
}

/* The relocation that `@abs@21`, `@abs18@s2`, `@relative@16@s2` ... ask for, or 0. */
static uint8_t modifier_reloc(bool relative, unsigned bits, unsigned shift)
{
    static const struct {
        bool relative;
        uint8_t bits, shift, reloc;
    } known[] = {{false, 8, 0, R_IPU_8},      {false, 16, 0, R_IPU_16},
                 {false, 20, 0, R_IPU_20},    {false, 32, 0, R_IPU_32},
                 {false, 21, 0, R_IPU_21},    {false, 18, 2, R_IPU_18_S2},
                 {false, 19, 2, R_IPU_19_S2}, {true, 16, 2, R_IPU_RELATIVE_16_S2},
                 {false, 16, 3, R_IPU_16_S3}, {false, 16, 4, R_IPU_16_S4},
                 {false, 16, 5, R_IPU_16_S5}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].relative == relative && known[i].bits == bits && known[i].shift == shift)
            return known[i].reloc;
    return 0;
}

static int modifier(struct asm_cursor *cursor, const struct asm_expr **out)
{
    size_t at = cursor->at;
    bool relative = false;
    unsigned bits = 0, shift = 0;
    while (cursor->text->data[cursor->at] == '@') {
        cursor->at++;
        const char *data = cursor->text->data + cursor->at;
        if (strncmp(data, "abs", 3) == 0)
            cursor->at += 3;
        else if (strncmp(data, "relative", 8) == 0)
            cursor->at += 8, relative = true;
        data = cursor->text->data + cursor->at;
        unsigned *into = data[0] == 's' ? &shift : &bits;
        cursor->at += data[0] == 's';
        unsigned value = 0;
        for (data = cursor->text->data + cursor->at; *data >= '0' && *data <= '9' && value < 100;
             data++, cursor->at++)
            value = value * 10 + (unsigned)(*data - '0');
        *into = value != 0 ? value : *into;
    }
    uint8_t reloc = modifier_reloc(relative, bits, shift);
    if (reloc == 0)
        return asm_fail(cursor->ctx, cursor->text, at,
                        "unknown symbol modifier: expected for example @abs@21, @abs19@s2 or "
                        "@relative@16@s2");
    struct asm_expr *expr = new_expr(cursor->ctx, ASM_EXPR_UNARY);
    if (expr == NULL)
        return cursor->ctx->failed;
    expr->op = OP_PLUS;
    expr->left = *out;
    expr->reloc = reloc;
    *out = expr;
    return 0;
}

static int primary(struct asm_cursor *cursor, unsigned depth, const struct asm_expr **out)
{
    char c = cursor_peek(cursor);
    int code;
    if (c == '(') {
        cursor->at++;
        code = parse_binary(cursor, 1, depth + 1, out);
        if (code == 0)
            code = cursor_expect(cursor, ")", "of the expression");
    } else if (c >= '0' && c <= '9') {
        code = number(cursor, out);
    } else if (c == '\'') {
        code = character(cursor, out);
    } else if (c == '$') {
        code = csr_name(cursor, out);
    } else {
        code = name(cursor, out);
    }
    if (code == 0 && cursor->text->data[cursor->at] == '@')
        code = modifier(cursor, out);
    return code;
}

static int unary(struct asm_cursor *cursor, unsigned depth, const struct asm_expr **out)
{
    char c = cursor_peek(cursor);
    *out = NULL;
    if (depth > ASM_MAX_EXPRESSION)
        return fail(cursor, "the expression is nested too deep");
    if (c != '-' && c != '+' && c != '~' && c != '!')
        return primary(cursor, depth, out);
    cursor->at++;
    const struct asm_expr *operand = NULL;
    int code = unary(cursor, depth + 1, &operand);
    if (code != 0 || operand == NULL)
        return code;
    if (c == '-' && operand->half)
        return finish_number(cursor, operand->number ^ 0x8000, true, out);
    struct asm_expr *expr = new_expr(cursor->ctx, ASM_EXPR_UNARY);
    if (expr == NULL)
        return cursor->ctx->failed;
    expr->op = c == '-' ? OP_NEGATE : c == '~' ? OP_COMPLEMENT : c == '!' ? OP_NOT : OP_PLUS;
    expr->left = operand;
    *out = expr;
    return 0;
}

static const struct operator_row *operator_at(struct asm_cursor *cursor)
{
    char c = cursor_peek(cursor);
    const char *data = cursor->text->data + cursor->at;
    if (c == '\0' || strchr("|&=!<>+-^*/%", c) == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (operators[i].text[0] == c &&
            strncmp(data, operators[i].text, strlen(operators[i].text)) == 0)
            return &operators[i];
    return NULL;
}

static int parse_binary(struct asm_cursor *cursor, unsigned level, unsigned depth,
                        const struct asm_expr **out)
{
    int code = unary(cursor, depth, out);
    const struct operator_row *row;
    while (code == 0 && (row = operator_at(cursor)) != NULL && row->precedence >= level) {
        const struct asm_expr *right = NULL;
        cursor->at += strlen(row->text);
        code = parse_binary(cursor, row->precedence + 1u, depth + 1, &right);
        struct asm_expr *expr = code == 0 ? new_expr(cursor->ctx, ASM_EXPR_BINARY) : NULL;
        if (expr == NULL)
            return cursor->ctx->failed;
        expr->op = row->op;
        expr->left = *out;
        expr->right = right;
        *out = expr;
    }
    return code;
}

int expr_parse(struct asm_cursor *cursor, const struct asm_expr **out)
{
    return parse_binary(cursor, 1, 0, out);
}

int expr_parse_absolute(struct asm_cursor *cursor, int64_t *value)
{
    const struct asm_expr *expr = NULL;
    cursor_peek(cursor);
    size_t at = cursor->at;
    int code = expr_parse(cursor, &expr);
    if (code == 0 && !expr_constant(cursor->ctx, expr, value))
        code = asm_fail(cursor->ctx, cursor->text, at,
                        "expected an expression whose value is known here");
    return code;
}
