/* Predefined constants of the assembler: prelude.def, the flag numbers, and the CSR constants.
 *
 * They act like the names of the vendor's tile header without that file: symbols everywhere, values
 * in #if, and "defined" once the header has been included. A macro, label or .set of the same name
 * wins. A caller may replace our flag numbers. CSR names are taken
 * apart: CSR_S_FP_ICTL__INDEX, CSR_W_FP_CLR__ZAACC__SHIFT (or SIZE, WIDTH, MASK; a mask is
 * unshifted). Registers of every context answer to C, S and W.
 */
#include "device/asm/passes.h"

#include "device/ipu21/flags.h"

#include <string.h>

#define CONSTANT(name, value) {#name, value},
static const struct asm_constant constants[] = {
#include "device/asm/prelude.def"
};

#define FLAG(name, value) {#name, value},
static const struct asm_constant flags[] = {
#include "device/ipu21/flags.def"
};

static bool table_find(const struct asm_constant *table, size_t count, const char *name,
                       size_t length, int64_t *value)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(table[i].name, name, length) == 0 && table[i].name[length] == '\0') {
            *value = table[i].value;
            return true;
        }
    }
    return false;
}

static bool field_value(const struct csr *csr, const char *rest, size_t length, int64_t *value)
{
    for (unsigned i = 0; i < csr->field_count; i++) {
        const struct csr_field *field = &csr->fields[i];
        size_t n = strlen(field->name);
        if (length < n + 2 || strncmp(rest, field->name, n) != 0 || rest[n] != '_' ||
            rest[n + 1] != '_')
            continue;
        const char *what = rest + n + 2;
        size_t size = length - n - 2;
        unsigned width = field->high - field->low + 1u;
        if (size == 5 && memcmp(what, "SHIFT", 5) == 0)
            *value = field->low;
        else if ((size == 4 && memcmp(what, "SIZE", 4) == 0) ||
                 (size == 5 && memcmp(what, "WIDTH", 5) == 0))
            *value = width;
        else if (size == 4 && memcmp(what, "MASK", 4) == 0)
            *value = width >= 63 ? -1 : ((int64_t)1 << width) - 1;
        else
            continue;
        return true;
    }
    return false;
}

static bool csr_letter_fits(const struct csr *csr, char letter)
{
    if (csr->context == CSR_CONTEXT_BOTH)
        return letter == 'C' || letter == 'S' || letter == 'W';
    return letter == (csr->context == CSR_CONTEXT_WORKER ? 'W' : 'S');
}

/* CSR_<context>_<name>__INDEX or CSR_<context>_<name>__<field>__<what>. */
static bool csr_value(const char *name, size_t length, int64_t *value)
{
    if (length < 8 || memcmp(name, "CSR_", 4) != 0 || name[5] != '_')
        return false;
    const char *start = name + 6;
    size_t rest = length - 6;
    for (size_t i = 0; i < CSR_COUNT; i++) {
        const struct csr *csr = &csr_table[i];
        size_t n = strlen(csr->name);
        if (csr->space == CSR_SPACE_TDI || rest < n + 2 || memcmp(start, csr->name, n) != 0 ||
            start[n] != '_' || start[n + 1] != '_' || !csr_letter_fits(csr, name[4]))
            continue;
        if (rest == n + 7 && memcmp(start + n + 2, "INDEX", 5) == 0) {
            *value = csr->index;
            return true;
        }
        if (field_value(csr, start + n + 2, rest - n - 2, value))
            return true;
    }
    return false;
}

bool prelude_find(const struct asm_context *ctx, const char *name, size_t length, int64_t *value)
{
    if (table_find(constants, sizeof constants / sizeof constants[0], name, length, value))
        return true;
    const struct asm_constant *own = ctx->options->flags;
    size_t count = own ? ctx->options->flag_count : sizeof flags / sizeof flags[0];
    if (table_find(own ? own : flags, count, name, length, value))
        return true;
    return csr_value(name, length, value);
}

bool prelude_is_header(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    return strcmp(base, "gc_tile_defines.h") == 0 || strcmp(base, "ipu21.inc") == 0;
}
