/* The symbol table of one assembly: names, labels, numeric local labels.
 *
 * Names enter the table at their first mention, in an order that the object file keeps. A label is
 * defined once; `.set` symbols may change. Numeric labels (`1:`, `1b`, `2f`) are symbols of their
 * own for each definition. Fails on a label defined twice.
 */
#include "device/asm/passes.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

enum { LOCAL_BUCKETS = 64 };

struct asm_local_label {
    uint32_t number;
    struct asm_name *last,
        *coming; /* latest definition; the one that references forward wait for */
    struct asm_local_label *next;
};

struct asm_name *symbol_find(struct asm_context *ctx, const char *name, size_t length)
{
    struct asm_name *symbol = ctx->symbols[hash64(name, length) % ASM_SYMBOL_BUCKETS];
    while (symbol != NULL &&
           (strncmp(symbol->name, name, length) != 0 || symbol->name[length] != '\0'))
        symbol = symbol->next_in_bucket;
    return symbol;
}

static struct asm_name *add(struct asm_context *ctx, const char *name, size_t length)
{
    struct asm_name *symbol = asm_alloc(ctx, 1, sizeof(*symbol));
    if (symbol == NULL)
        return NULL;
    symbol->name = asm_copy(ctx, name, length);
    if (symbol->name == NULL)
        return NULL;
    *ctx->last_symbol = symbol;
    ctx->last_symbol = &symbol->next;
    return symbol;
}

struct asm_name *symbol_get(struct asm_context *ctx, const char *name, size_t length)
{
    struct asm_name *symbol = symbol_find(ctx, name, length);
    if (symbol != NULL)
        return symbol;
    symbol = add(ctx, name, length);
    if (symbol == NULL)
        return NULL;
    struct asm_name **bucket = &ctx->symbols[hash64(name, length) % ASM_SYMBOL_BUCKETS];
    symbol->next_in_bucket = *bucket;
    *bucket = symbol;
    return symbol;
}

static void define_here(struct asm_context *ctx, struct asm_name *symbol)
{
    symbol->kind = ASM_SYMBOL_LABEL;
    symbol->section = ctx->section;
    symbol->offset = section_size(ctx->section);
}

struct asm_name *symbol_here(struct asm_context *ctx)
{
    struct asm_name *symbol = add(ctx, ".", 1);
    if (symbol != NULL) {
        symbol->local_number = true;
        define_here(ctx, symbol);
    }
    return symbol;
}

static struct asm_local_label *local_get(struct asm_context *ctx, uint32_t number)
{
    if (ctx->local_labels == NULL)
        ctx->local_labels = asm_alloc(ctx, LOCAL_BUCKETS, sizeof(*ctx->local_labels));
    if (ctx->local_labels == NULL)
        return NULL;
    struct asm_local_label *bucket = &ctx->local_labels[number % LOCAL_BUCKETS];
    for (struct asm_local_label *label = bucket->next; label != NULL; label = label->next)
        if (label->number == number)
            return label;
    struct asm_local_label *label = asm_alloc(ctx, 1, sizeof(*label));
    if (label == NULL)
        return NULL;
    label->number = number;
    label->next = bucket->next;
    bucket->next = label;
    return label;
}

static struct asm_name *add_local(struct asm_context *ctx, uint32_t number)
{
    char name[16];
    int length = snprintf(name, sizeof(name), "%u", number);
    struct asm_name *symbol = add(ctx, name, (size_t)length);
    if (symbol != NULL)
        symbol->local_number = true;
    return symbol;
}

struct asm_name *symbol_local(struct asm_context *ctx, uint32_t number, bool forward)
{
    struct asm_local_label *label = local_get(ctx, number);
    if (label == NULL || !forward)
        return label != NULL ? label->last : NULL;
    if (label->coming == NULL)
        label->coming = add_local(ctx, number);
    return label->coming;
}

static int define_local(struct asm_context *ctx, struct asm_text *text, size_t at, size_t length)
{
    uint32_t number = 0;
    if (length > 8)
        return asm_fail(ctx, text, at, "a numeric label has at most eight digits");
    for (size_t i = 0; i < length; i++)
        number = number * 10 + (uint32_t)(text->data[at + i] - '0');
    struct asm_local_label *label = local_get(ctx, number);
    if (label == NULL)
        return ctx->failed;
    if (label->coming == NULL)
        label->coming = add_local(ctx, number);
    if (label->coming == NULL)
        return ctx->failed;
    define_here(ctx, label->coming);
    label->last = label->coming;
    label->coming = NULL;
    return 0;
}

int symbol_define_label(struct asm_context *ctx, struct asm_text *text, size_t at, size_t length)
{
    const char *name = text->data + at;
    if (name[0] >= '0' && name[0] <= '9')
        return define_local(ctx, text, at, length);
    struct asm_name *symbol = symbol_get(ctx, name, length);
    if (symbol == NULL)
        return ctx->failed;
    if (symbol->kind != ASM_SYMBOL_UNDEFINED)
        return asm_fail(ctx, text, at, "symbol '%s' is already defined", symbol->name);
    define_here(ctx, symbol);
    return 0;
}
