/* Values of #if expressions: C precedence, 64-bit signed integers, unknown names are 0.
 *
 * Names of predefined constants (prelude.c) have their values here although they are not macros.
 * Fails on anything that is not an expression, on a division by zero, and on deep nesting.
 */
#include "device/asm/cpp.h"

#include <stdlib.h>
#include <string.h>

struct evaluator {
    struct cpp *cpp;
    const struct asm_text *line;
    const struct cpp_tokens *tokens;
    size_t at;
    unsigned depth;
    bool skip; /* inside an operand that does not count: no errors for division */
};

struct level_op {
    const char *text;
    uint8_t level;
    char op;
};

/* Longer spellings first. */
static const struct level_op operators[] = {
    {"||", 1, 'O'}, {"&&", 2, 'A'}, {"==", 6, '='}, {"!=", 6, '!'}, {"<<", 8, 'l'}, {">>", 8, 'r'},
    {"<=", 7, 'L'}, {">=", 7, 'G'}, {"|", 3, '|'},  {"^", 4, '^'},  {"&", 5, '&'},  {"<", 7, '<'},
    {">", 7, '>'},  {"+", 9, '+'},  {"-", 9, '-'},  {"*", 10, '*'}, {"/", 10, '/'}, {"%", 10, '%'}};

static int fail(struct evaluator *ev, const char *message)
{
    struct asm_text place = *ev->line;
    place.columns = NULL;
    const struct cpp_tokens *tokens = ev->tokens;
    if (ev->at < tokens->count)
        place.first_column = tokens->items[ev->at].column;
    else if (tokens->count != 0)
        place.first_column =
            tokens->items[tokens->count - 1].column + tokens->items[tokens->count - 1].length;
    return asm_fail(ev->cpp->ctx, &place, 0, "%s", message);
}

static const struct cpp_token *look(const struct evaluator *ev, size_t ahead)
{
    size_t at = ev->at + ahead;
    return at < ev->tokens->count ? &ev->tokens->items[at] : NULL;
}

/* Whether the tokens ahead spell `text` without spaces between. */
static bool spelled(const struct evaluator *ev, const char *text)
{
    for (size_t i = 0; text[i] != '\0'; i++) {
        const struct cpp_token *token = look(ev, i);
        if (token == NULL || token->kind != CPP_PUNCTUATION || token->text[0] != text[i] ||
            (i > 0 && token->space))
            return false;
    }
    return true;
}

static int expression(struct evaluator *ev, unsigned level, int64_t *value);

static int ternary(struct evaluator *ev, int64_t *value)
{
    int code = expression(ev, 1, value);
    if (code != 0 || !spelled(ev, "?"))
        return code;
    ev->at++;
    int64_t yes = 0, no = 0;
    bool skip = ev->skip, chosen = *value != 0;
    ev->skip = skip || !chosen;
    if ((code = ternary(ev, &yes)) != 0)
        return code;
    if (!spelled(ev, ":"))
        return fail(ev, "expected : of the conditional expression");
    ev->at++;
    ev->skip = skip || chosen;
    code = ternary(ev, &no);
    ev->skip = skip;
    *value = chosen ? yes : no;
    return code;
}

static int character(struct evaluator *ev, const struct cpp_token *token, int64_t *value)
{
    const char *text = token->text;
    if (text[0] != '\'' || token->length < 3)
        return fail(ev, "expected a number");
    *value = text[1] == '\\' ? (text[2] == 'n' ? '\n' : text[2] == '0' ? 0 : text[2]) : text[1];
    return 0;
}

static int number(struct evaluator *ev, const struct cpp_token *token, int64_t *value)
{
    char text[80], *end;
    if (token->length >= sizeof(text))
        return fail(ev, "the number is too long");
    memcpy(text, token->text, token->length);
    text[token->length] = '\0';
    bool binary = text[0] == '0' && (text[1] | 0x20) == 'b';
    *value = (int64_t)strtoull(binary ? text + 2 : text, &end, binary ? 2 : 0);
    while (*end == 'u' || *end == 'U' || *end == 'l' || *end == 'L')
        end++;
    return *end == '\0' ? 0 : fail(ev, "expected an integer");
}

static int primary(struct evaluator *ev, int64_t *value)
{
    *value = 0;
    const struct cpp_token *token = look(ev, 0);
    if (token == NULL)
        return fail(ev, "expected an expression");
    if (token->kind == CPP_PUNCTUATION && token->text[0] == '(') {
        ev->at++;
        int code = ternary(ev, value);
        if (code == 0 && !spelled(ev, ")"))
            code = fail(ev, "expected )");
        ev->at++;
        return code;
    }
    if (token->kind == CPP_PUNCTUATION || token->kind == CPP_EMPTY)
        return fail(ev, "expected an expression");
    int code = 0;
    if (token->kind == CPP_NUMBER)
        code = number(ev, token, value);
    else if (token->kind == CPP_STRING)
        code = character(ev, token, value);
    else if (!prelude_find(ev->cpp->ctx, token->text, token->length, value))
        *value = 0;
    ev->at++;
    return code;
}

static int unary(struct evaluator *ev, int64_t *value)
{
    *value = 0;
    const struct cpp_token *token = look(ev, 0);
    char op = token != NULL && token->kind == CPP_PUNCTUATION ? token->text[0] : '\0';
    if (op != '!' && op != '-' && op != '+' && op != '~')
        return primary(ev, value);
    if (++ev->depth > CPP_MAX_NESTING)
        return fail(ev, "the expression is nested too deep");
    ev->at++;
    int code = unary(ev, value);
    ev->depth--;
    if (op == '!')
        *value = *value == 0;
    else if (op == '-')
        *value = (int64_t)(0 - (uint64_t)*value);
    else if (op == '~')
        *value = ~*value;
    return code;
}

static const struct level_op *operator_at(const struct evaluator *ev)
{
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (spelled(ev, operators[i].text))
            return &operators[i];
    return NULL;
}

static int divide(struct evaluator *ev, char op, int64_t a, int64_t b, int64_t *value)
{
    *value = 0;
    if (b == 0)
        return ev->skip ? 0 : fail(ev, "division by zero");
    if (b == -1)
        *value = op == '/' ? (int64_t)(0 - (uint64_t)a) : 0;
    else
        *value = op == '/' ? a / b : a % b;
    return 0;
}

static int apply(struct evaluator *ev, char op, int64_t a, int64_t b, int64_t *value)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (op) {
    case 'O':
        *value = a != 0 || b != 0;
        break;
    case 'A':
        *value = a != 0 && b != 0;
        break;
    case '=':
        *value = a == b;
        break;
    case '!':
        *value = a != b;
        break;
    case 'l':
        *value = ub < 64 ? (int64_t)(ua << ub) : 0;
        break;
    case 'r':
        *value = ub < 64 ? a >> ub : 0;
        break;
    case 'L':
        *value = a <= b;
        break;
    case 'G':
        *value = a >= b;
        break;
    case '|':
        *value = a | b;
        break;
    case '^':
        *value = a ^ b;
        break;
    case '&':
        *value = a & b;
        break;
    case '<':
        *value = a < b;
        break;
    case '>':
        *value = a > b;
        break;
    case '+':
        *value = (int64_t)(ua + ub);
        break;
    case '-':
        *value = (int64_t)(ua - ub);
        break;
    case '*':
        *value = (int64_t)(ua * ub);
        break;
    default:
        return divide(ev, op, a, b, value);
    }
    return 0;
}

static int expression(struct evaluator *ev, unsigned level, int64_t *value)
{
    if (++ev->depth > CPP_MAX_NESTING)
        return fail(ev, "the expression is nested too deep");
    int code = unary(ev, value);
    const struct level_op *op;
    while (code == 0 && (op = operator_at(ev)) != NULL && op->level >= level) {
        int64_t right = 0;
        bool skip = ev->skip;
        ev->at += strlen(op->text);
        ev->skip = skip || (op->op == 'A' && *value == 0) || (op->op == 'O' && *value != 0);
        code = expression(ev, op->level + 1u, &right);
        if (code == 0)
            code = apply(ev, op->op, *value, right, value);
        ev->skip = skip;
    }
    ev->depth--;
    return code;
}

/* Replaces `defined NAME` and `defined(NAME)` by 0 or 1 before macros are expanded. */
static int replace_defined(struct cpp *cpp, const struct asm_text *line,
                           const struct cpp_tokens *in, size_t at, struct cpp_tokens *out)
{
    struct evaluator place = {.cpp = cpp, .line = line, .tokens = in, .at = at};
    for (; at < in->count; at++) {
        struct cpp_token token = in->items[at];
        if (token.kind == CPP_IDENTIFIER && cpp_is(&token, "defined")) {
            bool open = at + 1 < in->count && cpp_is(&in->items[at + 1], "(");
            at += open ? 2u : 1u;
            place.at = at;
            if (at >= in->count || in->items[at].kind != CPP_IDENTIFIER)
                return fail(&place, "expected a name after defined");
            const struct cpp_token *name = &in->items[at];
            int64_t ignored;
            bool known = cpp_macro_find(cpp, name->text, name->length) != NULL ||
                         (cpp->prelude_included &&
                          prelude_find(cpp->ctx, name->text, name->length, &ignored));
            token.kind = CPP_NUMBER;
            token.text = known ? "1" : "0";
            token.length = 1;
            place.at = at + 1;
            if (open && (++at >= in->count || !cpp_is(&in->items[at], ")")))
                return fail(&place, "expected ) after defined(NAME");
        }
        int code = cpp_tokens_add(cpp, out, token);
        if (code != 0)
            return code;
    }
    return 0;
}

int cpp_evaluate(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *tokens,
                 size_t at, int64_t *value)
{
    struct cpp_tokens known = {0}, expanded = {0};
    int code = replace_defined(cpp, line, tokens, at, &known);
    if (code == 0)
        code = cpp_expand(cpp, line, &known, 0, false, &expanded);
    if (code != 0)
        return code;
    struct evaluator ev = {.cpp = cpp, .line = line, .tokens = &expanded};
    code = ternary(&ev, value);
    if (code == 0 && ev.at < expanded.count)
        code = fail(&ev, "unexpected text after the expression");
    return code;
}
