/* Directives that emit data or padding.
 *
 * Numbers may be expressions of later labels; they become relocations or are filled in at the end.
 * Fails on values that do not fit and on alignments that are no power of two.
 */
#include "device/asm/passes.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

static int values(struct asm_cursor *cursor, unsigned bytes)
{
    if (cursor_peek(cursor) == '\0')
        return 0;
    do {
        const struct asm_expr *expr;
        cursor_peek(cursor);
        size_t at = cursor->at;
        int code = expr_parse(cursor, &expr);
        if (code == 0)
            code = emit_value(cursor->ctx, cursor->text, (uint32_t)at, expr, bytes);
        if (code != 0)
            return code;
    } while (cursor_accept(cursor, ","));
    return 0;
}

static int strings(struct asm_cursor *cursor, bool terminated)
{
    do {
        char *text;
        size_t length;
        int code = cursor_string(cursor, &text, &length);
        if (code == 0)
            code = emit_bytes(cursor->ctx, cursor->text, text, length + terminated);
        if (code != 0)
            return code;
    } while (cursor_accept(cursor, ","));
    return 0;
}

static int floats(struct asm_cursor *cursor, unsigned unused)
{
    (void)unused;
    do {
        cursor_peek(cursor);
        const char *data = cursor->text->data + cursor->at;
        char *end;
        float value = strtof(data, &end);
        if (end == data)
            return asm_fail(cursor->ctx, cursor->text, cursor->at,
                            "expected a floating-point number");
        cursor->at += (size_t)(end - data);
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                            (uint8_t)(bits >> 24)};
        int code = emit_bytes(cursor->ctx, cursor->text, bytes, sizeof(bytes));
        if (code != 0)
            return code;
    } while (cursor_accept(cursor, ","));
    return 0;
}

/* An optional `, number`; *given tells whether it was there. */
static int optional(struct asm_cursor *cursor, int64_t *value, bool *given)
{
    *given = false;
    if (!cursor_accept(cursor, ","))
        return 0;
    char next = cursor_peek(cursor);
    if (next == ',' || next == '\0')
        return 0;
    *given = true;
    return expr_parse_absolute(cursor, value);
}

/* .align and .balign take bytes, .p2align a power. */
static int align(struct asm_cursor *cursor, unsigned is_power)
{
    int64_t alignment, fill = 0, limit = 0;
    bool has_fill = false, has_limit;
    size_t at = cursor->at;
    int code = expr_parse_absolute(cursor, &alignment);
    if (code == 0)
        code = optional(cursor, &fill, &has_fill);
    if (code == 0)
        code = optional(cursor, &limit, &has_limit);
    if (code != 0)
        return code;
    if (is_power)
        alignment = alignment >= 0 && alignment < 31 ? (int64_t)1 << alignment : -1;
    if (alignment == 0)
        alignment = 1;
    if (alignment < 0 || alignment > ASM_MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
        return asm_fail(cursor->ctx, cursor->text, at,
                        "expected an alignment that is a power of two up to %d", ASM_MAX_ALIGNMENT);
    uint8_t byte = (uint8_t)fill;
    if (limit < 0 || limit > ASM_MAX_ALIGNMENT)
        limit = 0;
    return emit_align(cursor->ctx, cursor->text, (uint32_t)alignment, has_fill ? &byte : NULL,
                      (uint32_t)limit);
}

static int space(struct asm_cursor *cursor, unsigned unused)
{
    (void)unused;
    int64_t size, fill = 0;
    bool given;
    size_t at = cursor->at;
    int code = expr_parse_absolute(cursor, &size);
    if (code == 0)
        code = optional(cursor, &fill, &given);
    if (code != 0)
        return code;
    if (size < 0)
        return asm_fail(cursor->ctx, cursor->text, at, "the size is negative");
    return emit_zero(cursor->ctx, cursor->text, (uint64_t)size, (uint8_t)fill);
}

/* .fill count, size, value */
static int fill(struct asm_cursor *cursor, unsigned unused)
{
    (void)unused;
    int64_t count, size = 1, value = 0;
    bool given;
    size_t at = cursor->at;
    int code = expr_parse_absolute(cursor, &count);
    if (code == 0)
        code = optional(cursor, &size, &given);
    if (code == 0)
        code = optional(cursor, &value, &given);
    if (code != 0)
        return code;
    if (count < 0 || count > ASM_MAX_OUTPUT || size < 0 || size > 8)
        return asm_fail(cursor->ctx, cursor->text, at, "expected a count and a size of 0..8");
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)value >> (8 * i));
    for (int64_t i = 0; code == 0 && i < count; i++)
        code = emit_bytes(cursor->ctx, cursor->text, bytes, (size_t)size);
    return code;
}

static int strings_of(struct asm_cursor *cursor, unsigned terminated)
{
    return strings(cursor, terminated != 0);
}

static const struct {
    const char *name;
    int (*run)(struct asm_cursor *cursor, unsigned argument);
    unsigned argument;
} table[] = {{".byte", values, 1},      {".short", values, 2},      {".half", values, 2},
             {".hword", values, 2},     {".2byte", values, 2},      {".long", values, 4},
             {".int", values, 4},       {".word", values, 4},       {".4byte", values, 4},
             {".quad", values, 8},      {".8byte", values, 8},      {".ascii", strings_of, 0},
             {".asciz", strings_of, 1}, {".string", strings_of, 1}, {".float", floats, 0},
             {".single", floats, 0},    {".align", align, 0},       {".balign", align, 0},
             {".p2align", align, 1},    {".space", space, 0},       {".skip", space, 0},
             {".zero", space, 0},       {".fill", fill, 0}};

int data_directive(struct asm_cursor *cursor, const char *name, bool *handled)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            *handled = true;
            cursor_peek(cursor);
            return table[i].run(cursor, table[i].argument);
        }
    }
    *handled = false;
    return 0;
}
