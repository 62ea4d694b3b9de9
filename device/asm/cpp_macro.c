/* C macros: their table, and #define.
 *
 * A later #define replaces an earlier one without complaint. Fails on a malformed parameter list.
 */
#include "device/asm/cpp.h"

#include "base/hash.h"

#include <string.h>

static struct cpp_macro **slot(struct cpp *cpp, const char *name, size_t length)
{
    struct cpp_macro **at = &cpp->macros[hash64(name, length) % CPP_BUCKETS];
    while (*at != NULL && ((*at)->length != length || memcmp((*at)->name, name, length) != 0))
        at = &(*at)->next;
    return at;
}

struct cpp_macro *cpp_macro_find(struct cpp *cpp, const char *name, size_t length)
{
    return *slot(cpp, name, length);
}

void cpp_undefine(struct cpp *cpp, const char *name, size_t length)
{
    struct cpp_macro **at = slot(cpp, name, length);
    if (*at != NULL)
        *at = (*at)->next;
}

struct cpp_macro *cpp_macro_add(struct cpp *cpp, const char *name, size_t length)
{
    cpp_undefine(cpp, name, length);
    struct cpp_macro *macro = asm_alloc(cpp->ctx, 1, sizeof(*macro));
    if (macro == NULL)
        return NULL;
    macro->name = asm_copy(cpp->ctx, name, length);
    macro->length = (uint32_t)length;
    if (macro->name == NULL)
        return NULL;
    struct cpp_macro **bucket = &cpp->macros[hash64(name, length) % CPP_BUCKETS];
    macro->next = *bucket;
    *bucket = macro;
    return macro;
}

static int fail_at(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *tokens,
                   size_t at, const char *message)
{
    struct asm_text place = *line;
    place.columns = NULL;
    if (at < tokens->count)
        place.first_column = tokens->items[at].column;
    else if (tokens->count > 0)
        place.first_column =
            tokens->items[tokens->count - 1].column + tokens->items[tokens->count - 1].length;
    return asm_fail(cpp->ctx, &place, 0, "%s", message);
}

static bool punctuation(const struct cpp_tokens *tokens, size_t at, const char *text)
{
    return at < tokens->count && tokens->items[at].kind == CPP_PUNCTUATION &&
           cpp_is(&tokens->items[at], text);
}

static bool ellipsis(const struct cpp_tokens *tokens, size_t at)
{
    return punctuation(tokens, at, ".") && punctuation(tokens, at + 1, ".") &&
           punctuation(tokens, at + 2, ".");
}

static int add_parameter(struct cpp *cpp, struct cpp_macro *macro, struct cpp_tokens *list,
                         struct cpp_token token)
{
    int code = cpp_tokens_add(cpp, list, token);
    macro->parameters = list->items;
    macro->parameter_count = (uint32_t)list->count;
    return code;
}

/* Parses the parameters after `(`; *at ends behind the `)`. */
static int parameters(struct cpp *cpp, const struct asm_text *line, struct cpp_macro *macro,
                      const struct cpp_tokens *tokens, size_t *at)
{
    static const struct cpp_token rest = {
        .text = "__VA_ARGS__", .length = 11, .kind = CPP_IDENTIFIER};
    struct cpp_tokens list = {0};
    if (punctuation(tokens, *at, ")")) {
        (*at)++;
        return 0;
    }
    for (;;) {
        struct cpp_token name = rest;
        if (*at < tokens->count && tokens->items[*at].kind == CPP_IDENTIFIER)
            name = tokens->items[(*at)++];
        else if (!ellipsis(tokens, *at))
            return fail_at(cpp, line, tokens, *at, "expected a macro parameter");
        if (ellipsis(tokens, *at)) {
            macro->variadic = true;
            *at += 3;
        }
        int code = add_parameter(cpp, macro, &list, name);
        if (code != 0)
            return code;
        if (punctuation(tokens, *at, ")"))
            break;
        if (macro->variadic || !punctuation(tokens, *at, ","))
            return fail_at(cpp, line, tokens, *at, "expected , or ) in the macro's parameters");
        (*at)++;
    }
    (*at)++;
    return 0;
}

int cpp_define(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *tokens,
               size_t at)
{
    if (at >= tokens->count || tokens->items[at].kind != CPP_IDENTIFIER ||
        cpp_is(&tokens->items[at], "defined"))
        return fail_at(cpp, line, tokens, at, "expected a macro name after #define");
    const struct cpp_token *name = &tokens->items[at++];
    struct cpp_macro *macro = cpp_macro_add(cpp, name->text, name->length);
    if (macro == NULL)
        return cpp->ctx->failed;
    if (punctuation(tokens, at, "(") && !tokens->items[at].space) {
        macro->function = true;
        at++;
        int code = parameters(cpp, line, macro, tokens, &at);
        if (code != 0)
            return code;
    }
    for (; at < tokens->count; at++) {
        int code = cpp_tokens_add(cpp, &macro->body, tokens->items[at]);
        if (code != 0)
            return code;
    }
    if (macro->body.count > 0)
        macro->body.items[0].space = false;
    return 0;
}
