/* The assembler's own conditionals: .if and its family.
 *
 * A stack of conditions; text is active when every condition on it is. Expressions of conditions in
 * inactive text are not looked at. Fails on unbalanced directives and on expressions whose value is
 * not known where they stand.
 */
#include "device/asm/passes.h"

#include <string.h>

struct asm_condition {
    bool active, taken, parent_active, seen_else;
    struct asm_text *opened;
    struct asm_condition *below;
};

enum test {
    TEST_NOT_ZERO,
    TEST_ZERO,
    TEST_POSITIVE,
    TEST_NOT_NEGATIVE,
    TEST_NEGATIVE,
    TEST_NOT_POSITIVE,
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_SAME,
    TEST_DIFFERENT,
    TEST_BLANK,
    TEST_NOT_BLANK,
    TEST_STRINGS_SAME,
    TEST_STRINGS_DIFFERENT
};

static const struct {
    const char *name;
    enum test test;
} tests[] = {{".if", TEST_NOT_ZERO},        {".ifne", TEST_NOT_ZERO},
             {".ifeq", TEST_ZERO},          {".ifgt", TEST_POSITIVE},
             {".ifge", TEST_NOT_NEGATIVE},  {".iflt", TEST_NEGATIVE},
             {".ifle", TEST_NOT_POSITIVE},  {".ifdef", TEST_DEFINED},
             {".ifndef", TEST_UNDEFINED},   {".ifnotdef", TEST_UNDEFINED},
             {".ifc", TEST_SAME},           {".ifnc", TEST_DIFFERENT},
             {".ifb", TEST_BLANK},          {".ifnb", TEST_NOT_BLANK},
             {".ifeqs", TEST_STRINGS_SAME}, {".ifnes", TEST_STRINGS_DIFFERENT}};

bool condition_active(const struct asm_context *ctx)
{
    return ctx->condition == NULL || ctx->condition->active;
}

static bool number_passes(enum test test, int64_t value)
{
    switch (test) {
    case TEST_ZERO:
        return value == 0;
    case TEST_POSITIVE:
        return value > 0;
    case TEST_NOT_NEGATIVE:
        return value >= 0;
    case TEST_NEGATIVE:
        return value < 0;
    case TEST_NOT_POSITIVE:
        return value <= 0;
    default:
        return value != 0;
    }
}

/* Compares the two texts around the first comma, blanks at their ends ignored. */
static int same_text(struct asm_cursor *cursor, bool *same)
{
    cursor_peek(cursor);
    const char *a = cursor->text->data + cursor->at, *comma = strchr(a, ',');
    if (comma == NULL)
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected two texts and a comma");
    const char *b = comma + 1;
    while (*b == ' ')
        b++;
    size_t a_length = (size_t)(comma - a), b_length = strlen(b);
    while (a_length > 0 && a[a_length - 1] == ' ')
        a_length--;
    *same = a_length == b_length && memcmp(a, b, a_length) == 0;
    return 0;
}

static int same_strings(struct asm_cursor *cursor, bool *same)
{
    char *a, *b;
    size_t a_length, b_length;
    int code = cursor_string(cursor, &a, &a_length);
    if (code == 0)
        code = cursor_expect(cursor, ",", "between the strings");
    if (code == 0)
        code = cursor_string(cursor, &b, &b_length);
    if (code == 0)
        *same = a_length == b_length && memcmp(a, b, a_length) == 0;
    return code;
}

static int name_defined(struct asm_cursor *cursor, bool *defined)
{
    const char *name;
    size_t length = cursor_identifier(cursor, &name);
    int64_t ignored;
    if (length == 0)
        return asm_fail(cursor->ctx, cursor->text, cursor->at, "expected a symbol name");
    const struct asm_name *symbol = symbol_find(cursor->ctx, name, length);
    *defined = (symbol != NULL && symbol->kind != ASM_SYMBOL_UNDEFINED) ||
               prelude_find(cursor->ctx, name, length, &ignored);
    return cursor_end(cursor, "the symbol name");
}

static int evaluate(struct asm_context *ctx, struct asm_text *text, enum test test, size_t from,
                    bool *holds)
{
    struct asm_cursor cursor = {.ctx = ctx, .text = text, .at = from};
    bool result = false;
    int64_t value = 0;
    int code = 0;
    switch (test) {
    case TEST_DEFINED:
    case TEST_UNDEFINED:
        code = name_defined(&cursor, &result);
        *holds = result == (test == TEST_DEFINED);
        return code;
    case TEST_SAME:
    case TEST_DIFFERENT:
        code = same_text(&cursor, &result);
        *holds = result == (test == TEST_SAME);
        return code;
    case TEST_STRINGS_SAME:
    case TEST_STRINGS_DIFFERENT:
        code = same_strings(&cursor, &result);
        *holds = result == (test == TEST_STRINGS_SAME);
        return code;
    case TEST_BLANK:
    case TEST_NOT_BLANK:
        *holds = (cursor_peek(&cursor) == '\0') == (test == TEST_BLANK);
        return 0;
    default:
        code = expr_parse_absolute(&cursor, &value);
        *holds = number_passes(test, value);
        return code != 0 ? code : cursor_end(&cursor, "the condition");
    }
}

static int open_condition(struct asm_context *ctx, struct asm_text *text, enum test test,
                          size_t from)
{
    if (ctx->condition_depth >= ASM_MAX_CONDITIONS)
        return asm_fail(ctx, text, 0, "conditionals are nested more than %d deep",
                        ASM_MAX_CONDITIONS);
    struct asm_condition *condition = asm_alloc(ctx, 1, sizeof(*condition));
    bool parent = condition_active(ctx), holds = false;
    if (condition == NULL)
        return ctx->failed;
    int code = parent ? evaluate(ctx, text, test, from, &holds) : 0;
    *condition = (struct asm_condition){.active = parent && holds,
                                        .taken = !parent || holds,
                                        .parent_active = parent,
                                        .opened = text,
                                        .below = ctx->condition};
    ctx->condition = condition;
    ctx->condition_depth++;
    return code;
}

static int other_branch(struct asm_context *ctx, struct asm_text *text, size_t from, bool has_test)
{
    struct asm_condition *condition = ctx->condition;
    if (condition == NULL)
        return asm_fail(ctx, text, 0, "there is no .if for this");
    if (condition->seen_else)
        return asm_fail(ctx, text, 0, "the .if already has an .else");
    bool holds = true;
    int code = 0;
    if (has_test && !condition->taken)
        code = evaluate(ctx, text, TEST_NOT_ZERO, from, &holds);
    condition->active = condition->parent_active && !condition->taken && holds;
    condition->taken |= condition->active;
    condition->seen_else = !has_test;
    return code;
}

int condition_directive(struct asm_context *ctx, struct asm_text *text, const char *name,
                        size_t from, bool *handled)
{
    *handled = true;
    if (name[1] != 'i' && name[1] != 'e') {
        *handled = false;
        return 0;
    }
    for (size_t i = 0; name[1] == 'i' && i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strcmp(tests[i].name, name) == 0)
            return open_condition(ctx, text, tests[i].test, from);
    if (strcmp(name, ".elseif") == 0 || strcmp(name, ".else") == 0)
        return other_branch(ctx, text, from, name[5] != '\0');
    if (strcmp(name, ".endif") == 0) {
        if (ctx->condition == NULL)
            return asm_fail(ctx, text, 0, "there is no .if for this .endif");
        ctx->condition = ctx->condition->below;
        ctx->condition_depth--;
        return 0;
    }
    *handled = false;
    return 0;
}

int condition_finish(struct asm_context *ctx)
{
    if (ctx->condition == NULL)
        return 0;
    return asm_fail(ctx, ctx->condition->opened, 0, "this .if has no .endif");
}
