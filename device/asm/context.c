/* What all passes of the assembler share: errors with a place, arena growth, slices of text.
 *
 * The first error wins: asm_fail() keeps it and later calls only return its code. A place is file,
 * line and column of the text as it was written, also for text that macros have rearranged.
 */
#include "device/asm/passes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t asm_column(const struct asm_text *text, size_t offset)
{
    if (text->columns == NULL)
        return text->first_column + (uint32_t)offset;
    if (text->length == 0)
        return text->first_column;
    if (offset >= text->length)
        return text->columns[text->length - 1] + 1u;
    return text->columns[offset];
}

static void append_origin(struct ipu_error *error, const struct asm_origin *origin)
{
    for (unsigned depth = 0; origin != NULL && depth < 4; depth++) {
        size_t used = strlen(error->text);
        snprintf(error->text + used, sizeof(error->text) - used, " (in %s at %s:%u)", origin->macro,
                 origin->call->file, origin->call->line);
        origin = origin->call->origin;
    }
}

int asm_fail(struct asm_context *ctx, const struct asm_text *text, size_t offset,
             const char *format, ...)
{
    if (ctx->failed != 0)
        return ctx->failed;
    char message[640];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    struct ipu_error scratch, *error = ctx->error != NULL ? ctx->error : &scratch;
    ctx->failed = IPU_ERR_COMPILE;
    if (text == NULL)
        return ipu_error_set(error, IPU_ERR_COMPILE, "%s", message);
    ipu_error_set(error, IPU_ERR_COMPILE, "%.200s:%u:%u: %s", text->file, text->line,
                  asm_column(text, offset), message);
    append_origin(error, text->origin);
    return ctx->failed;
}

void *asm_alloc(struct asm_context *ctx, size_t count, size_t size)
{
    void *block = arena_calloc(ctx->arena, count, size);
    if (block == NULL && ctx->failed == 0)
        ctx->failed = ipu_error_set(ctx->error, IPU_ERR_NO_MEMORY,
                                    "assembling needs more memory than its limit of %d MiB",
                                    ASM_MEMORY >> 20);
    return block;
}

char *asm_copy(struct asm_context *ctx, const char *data, size_t length)
{
    char *copy = asm_alloc(ctx, length + 1, 1);
    if (copy != NULL && length != 0)
        memcpy(copy, data, length);
    return copy;
}

int asm_grow(struct asm_context *ctx, void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return 0;
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *block = asm_alloc(ctx, wanted, size);
    if (block == NULL)
        return ctx->failed;
    void *old;
    memcpy(&old, items, sizeof(old));
    if (count != 0)
        memcpy(block, old, count * size);
    memcpy(items, &block, sizeof(block));
    *capacity = wanted;
    return 0;
}

int asm_lines_add(struct asm_context *ctx, struct asm_lines *lines, const struct asm_text *line)
{
    int code = asm_grow(ctx, &lines->items, lines->count, &lines->capacity, sizeof(*line));
    if (code == 0)
        lines->items[lines->count++] = *line;
    return code;
}

struct asm_text asm_slice(struct asm_context *ctx, const struct asm_text *text, size_t from,
                          size_t to)
{
    struct asm_text slice = *text;
    const char *copy = asm_copy(ctx, text->data + from, to - from);
    slice.data = copy != NULL ? copy : "";
    slice.length = copy != NULL ? (uint32_t)(to - from) : 0;
    slice.first_column = asm_column(text, from);
    slice.columns = text->columns != NULL ? text->columns + from : NULL;
    return slice;
}
