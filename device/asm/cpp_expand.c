/* Expansion of C macros in a line of tokens.
 *
 * Tokens come from a stack of frames: the line at the bottom, one frame for each expansion above
 * it. A macro is inactive while its frame is on the stack; its name met then stays as it is for
 * good, so expansion ends. Arguments are expanded on their own before they replace a parameter,
 * except beside # and ##. Fails on argument lists without end, wrong argument counts, and past the
 * limits on nesting and on produced tokens.
 */
#include "device/asm/cpp.h"

#include <stdio.h>
#include <string.h>

struct frame {
    const struct cpp_token *items;
    size_t count, next;
    struct cpp_macro *macro;
    struct frame *below;
};

struct expander {
    struct cpp *cpp;
    struct frame *top;
    const struct asm_text *line;
    bool more; /* argument lists may take further lines from the reader */
};

static int fail_at(struct expander *ex, const struct cpp_token *token, const char *message)
{
    struct asm_text place = *ex->line;
    place.columns = NULL;
    place.first_column = token->column;
    return asm_fail(ex->cpp->ctx, &place, 0, "macro %.*s: %s", (int)token->length, token->text,
                    message);
}

static int push(struct expander *ex, const struct cpp_token *items, size_t count,
                struct cpp_macro *macro)
{
    struct frame *frame = asm_alloc(ex->cpp->ctx, 1, sizeof(*frame));
    if (frame == NULL)
        return ex->cpp->ctx->failed;
    *frame = (struct frame){.items = items, .count = count, .macro = macro, .below = ex->top};
    if (macro != NULL)
        macro->active = true;
    ex->top = frame;
    return 0;
}

static bool next_token(struct expander *ex, struct cpp_token *token)
{
    while (ex->top != NULL && ex->top->next == ex->top->count) {
        if (ex->top->macro != NULL)
            ex->top->macro->active = false;
        ex->top = ex->top->below;
    }
    if (ex->top == NULL)
        return false;
    *token = ex->top->items[ex->top->next++];
    return true;
}

static bool peek_open(const struct expander *ex)
{
    const struct frame *frame = ex->top;
    while (frame != NULL && frame->next == frame->count)
        frame = frame->below;
    return frame != NULL && frame->items[frame->next].kind == CPP_PUNCTUATION &&
           frame->items[frame->next].text[0] == '(';
}

/* Puts the next source line below everything: only reached when all frames are used up. */
static int refill(struct expander *ex, const struct cpp_token *name)
{
    struct asm_text line;
    bool directive = false;
    int code = ex->more ? cpp_read_line(ex->cpp, &line, &directive) : 0;
    if (code < 0)
        return code;
    if (code == 0 || directive)
        return fail_at(ex, name, "its argument list has no closing )");
    struct cpp_tokens tokens = {0};
    code = cpp_tokenize(ex->cpp, &line, 0, &tokens);
    if (tokens.count > 0)
        tokens.items[0].space = true;
    return code != 0 ? code : push(ex, tokens.items, tokens.count, NULL);
}

struct arguments {
    struct cpp_tokens *items;
    size_t count, capacity;
};

static int new_argument(struct expander *ex, struct arguments *args)
{
    int code =
        asm_grow(ex->cpp->ctx, &args->items, args->count, &args->capacity, sizeof(*args->items));
    if (code == 0)
        args->items[args->count++] = (struct cpp_tokens){0};
    return code;
}

/* Reads `( ... )` after a macro's name. Commas beyond the last parameter of a variadic macro belong
 * to its last argument. */
static int collect(struct expander *ex, const struct cpp_macro *macro, const struct cpp_token *name,
                   struct arguments *args)
{
    struct cpp_token token;
    unsigned depth = 0;
    int code = new_argument(ex, args);
    while (code == 0) {
        if (!next_token(ex, &token)) {
            code = refill(ex, name);
            continue;
        }
        bool mark = token.kind == CPP_PUNCTUATION;
        bool rest = macro->variadic && args->count >= macro->parameter_count;
        if (mark && token.text[0] == '(' && depth++ == 0)
            continue;
        if (mark && token.text[0] == ')' && --depth == 0)
            break;
        if (mark && token.text[0] == ',' && depth == 1 && !rest)
            code = new_argument(ex, args);
        else
            code = cpp_tokens_add(ex->cpp, &args->items[args->count - 1], token);
    }
    return code;
}

static int check_count(struct expander *ex, const struct cpp_macro *macro,
                       const struct cpp_token *name, struct arguments *args)
{
    size_t wanted = macro->parameter_count;
    if (wanted == 0 && args->count == 1 && args->items[0].count == 0)
        args->count = 0;
    while (macro->variadic && args->count < wanted) {
        int code = new_argument(ex, args);
        if (code != 0)
            return code;
    }
    if (args->count == wanted)
        return 0;
    char message[80];
    snprintf(message, sizeof(message), "expected %zu arguments, found %zu", wanted, args->count);
    return fail_at(ex, name, message);
}

static int parameter_index(const struct cpp_macro *macro, const struct cpp_token *token)
{
    if (token->kind != CPP_IDENTIFIER)
        return -1;
    for (uint32_t i = 0; i < macro->parameter_count; i++)
        if (macro->parameters[i].length == token->length &&
            memcmp(macro->parameters[i].text, token->text, token->length) == 0)
            return (int)i;
    return -1;
}

static bool is_hash(const struct cpp_macro *macro, size_t at)
{
    return at < macro->body.count && macro->body.items[at].kind == CPP_PUNCTUATION &&
           macro->body.items[at].text[0] == '#';
}

static bool is_paste(const struct cpp_macro *macro, size_t at)
{
    return is_hash(macro, at) && is_hash(macro, at + 1) && !macro->body.items[at + 1].space;
}

/* The string that #parameter stands for. */
static int stringify(struct expander *ex, const struct cpp_tokens *arg, struct cpp_token *out)
{
    size_t size = 3;
    for (size_t i = 0; i < arg->count; i++)
        size += (size_t)arg->items[i].length * 2 + 1;
    char *text = asm_alloc(ex->cpp->ctx, size, 1);
    if (text == NULL)
        return ex->cpp->ctx->failed;
    size_t n = 0;
    text[n++] = '"';
    for (size_t i = 0; i < arg->count; i++) {
        const struct cpp_token *token = &arg->items[i];
        if (token->space && i > 0)
            text[n++] = ' ';
        for (uint32_t j = 0; j < token->length; j++) {
            bool escape =
                token->text[j] == '"' || (token->kind == CPP_STRING && token->text[j] == '\\');
            if (escape)
                text[n++] = '\\';
            text[n++] = token->text[j];
        }
    }
    text[n++] = '"';
    *out = (struct cpp_token){.text = text, .length = (uint32_t)n, .kind = CPP_STRING};
    return 0;
}

/* Appends a token to an expansion; pasting joins it with the last one. */
static int append(struct expander *ex, struct cpp_tokens *out, struct cpp_token token, bool paste)
{
    struct cpp *cpp = ex->cpp;
    if (++cpp->tokens_made > ASM_MAX_TOKENS)
        return asm_fail(cpp->ctx, ex->line, 0, "macros expand to more than %d tokens",
                        ASM_MAX_TOKENS);
    if (!paste || out->count == 0)
        return cpp_tokens_add(cpp, out, token);
    struct cpp_token *last = &out->items[out->count - 1];
    if (token.kind == CPP_EMPTY)
        return 0;
    if (last->kind == CPP_EMPTY) {
        token.space = last->space;
        *last = token;
        return 0;
    }
    size_t length = (size_t)last->length + token.length;
    char *text = asm_alloc(cpp->ctx, length + 1, 1);
    if (text == NULL)
        return cpp->ctx->failed;
    memcpy(text, last->text, last->length);
    memcpy(text + last->length, token.text, token.length);
    last->text = text;
    last->length = (uint32_t)length;
    if (last->kind == CPP_PUNCTUATION)
        last->kind = token.kind;
    last->frozen = false;
    return 0;
}

/* Appends an argument's tokens, the first one with the parameter's spacing. */
static int append_all(struct expander *ex, struct cpp_tokens *out, const struct cpp_tokens *tokens,
                      bool space, bool paste)
{
    if (tokens->count == 0) {
        struct cpp_token empty = {.text = "", .kind = CPP_EMPTY, .space = space};
        return append(ex, out, empty, paste);
    }
    for (size_t i = 0; i < tokens->count; i++) {
        struct cpp_token token = tokens->items[i];
        if (i == 0)
            token.space = space;
        int code = append(ex, out, token, paste && i == 0);
        if (code != 0)
            return code;
    }
    return 0;
}

static int substitute_one(struct expander *ex, const struct cpp_macro *macro,
                          const struct cpp_token *name, const struct arguments *args, size_t *at,
                          struct cpp_tokens *out)
{
    const struct cpp_token *body = macro->body.items;
    bool paste = *at >= 2 && is_paste(macro, *at - 2);
    struct cpp_token token = body[*at];
    if (macro->function && is_hash(macro, *at) && *at + 1 < macro->body.count) {
        int index = parameter_index(macro, &body[*at + 1]);
        if (index >= 0) {
            bool space = token.space;
            int code = stringify(ex, &args->items[index], &token);
            token.space = space;
            token.column = name->column;
            token.fixed = true;
            (*at)++;
            return code != 0 ? code : append(ex, out, token, paste);
        }
    }
    int index = macro->function ? parameter_index(macro, &token) : -1;
    if (index < 0) {
        token.column = name->column;
        token.fixed = true;
        return append(ex, out, token, paste);
    }
    const struct cpp_tokens *arg = &args->items[index];
    bool rest = macro->variadic && index + 1 == (int)macro->parameter_count;
    if (paste && rest && out->count > 0 && cpp_is(&out->items[out->count - 1], ",")) {
        /* `, ## __VA_ARGS__`: the comma goes when there are no arguments, and stays apart else. */
        if (arg->count == 0) {
            out->count--;
            return 0;
        }
        paste = false;
    }
    if (paste || is_paste(macro, *at + 1))
        return append_all(ex, out, arg, token.space, paste);
    struct cpp_tokens expanded = {0};
    int code = cpp_expand(ex->cpp, ex->line, arg, 0, false, &expanded);
    return code != 0 ? code : append_all(ex, out, &expanded, token.space, false);
}

static int substitute(struct expander *ex, const struct cpp_macro *macro,
                      const struct cpp_token *name, const struct arguments *args,
                      struct cpp_tokens *out)
{
    for (size_t at = 0; at < macro->body.count; at++) {
        if (is_paste(macro, at) && at > 0) {
            at++;
            continue;
        }
        int code = substitute_one(ex, macro, name, args, &at, out);
        if (code != 0)
            return code;
    }
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++)
        if (out->items[i].kind != CPP_EMPTY)
            out->items[kept++] = out->items[i];
    out->count = kept;
    if (kept > 0)
        out->items[0].space = name->space;
    return 0;
}

static int builtin(struct expander *ex, const struct cpp_macro *macro, const struct cpp_token *name,
                   struct cpp_tokens *out)
{
    char *text = asm_alloc(ex->cpp->ctx, strlen(ex->line->file) + 16, 1);
    if (text == NULL)
        return ex->cpp->ctx->failed;
    if (macro->builtin == CPP_LINE)
        sprintf(text, "%u", ex->line->line);
    else if (macro->builtin == CPP_COUNTER)
        sprintf(text, "%u", ex->cpp->counter++);
    else
        sprintf(text, "\"%s\"", ex->line->file);
    struct cpp_token token = *name;
    token.text = text;
    token.length = (uint32_t)strlen(text);
    token.kind = text[0] == '"' ? CPP_STRING : CPP_NUMBER;
    token.fixed = true;
    return cpp_tokens_add(ex->cpp, out, token);
}

static int expand_name(struct expander *ex, struct cpp_macro *macro, struct cpp_token name,
                       struct cpp_tokens *out)
{
    if (macro->builtin != CPP_ORDINARY)
        return builtin(ex, macro, &name, out);
    struct arguments args = {0};
    int code = 0;
    if (macro->function) {
        code = collect(ex, macro, &name, &args);
        if (code == 0)
            code = check_count(ex, macro, &name, &args);
    }
    struct cpp_tokens body = {0};
    if (code == 0)
        code = substitute(ex, macro, &name, &args, &body);
    return code != 0 ? code : push(ex, body.items, body.count, macro);
}

int cpp_expand(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *in, size_t at,
               bool more, struct cpp_tokens *out)
{
    struct expander ex = {.cpp = cpp, .line = line, .more = more};
    if (cpp->nesting >= CPP_MAX_NESTING)
        return asm_fail(cpp->ctx, line, 0, "macro arguments are nested more than %d deep",
                        CPP_MAX_NESTING);
    cpp->nesting++;
    int code = at < in->count ? push(&ex, in->items + at, in->count - at, NULL) : 0;
    struct cpp_token token;
    while (code == 0 && next_token(&ex, &token)) {
        struct cpp_macro *macro = NULL;
        if (token.kind == CPP_IDENTIFIER && !token.frozen)
            macro = cpp_macro_find(cpp, token.text, token.length);
        if (macro != NULL && macro->active) {
            token.frozen = true;
            macro = NULL;
        }
        if (macro != NULL && (!macro->function || peek_open(&ex)))
            code = expand_name(&ex, macro, token, out);
        else
            code = cpp_tokens_add(cpp, out, token);
    }
    cpp->nesting--;
    return code;
}
