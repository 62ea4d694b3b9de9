/* Relocations: one row of constants each, one function that applies them.
 *
 * value = (S + A - base) >> shift goes into the low `bits` bits of a little-endian field of `bytes`
 * bytes. Source: facts/asm_dialect.md section 7. Fails when the value is not a multiple of 1 <<
 * shift or does not fit, naming symbol, section and address.
 */
#include "device/asm/link.h"

#include "device/ipu21/memory.h"

#include <string.h>

static const struct reloc_row {
    uint8_t type, bytes, bits, shift;
    bool relative;  /* to the base of region 0 */
    bool is_signed; /* negative values of this width are also right */
} rows[] = {{R_IPU_8, 1, 8, 0, false, true},       {R_IPU_16, 2, 16, 0, false, true},
            {R_IPU_20, 4, 20, 0, false, false},    {R_IPU_32, 4, 32, 0, false, true},
            {R_IPU_64, 8, 64, 0, false, true},     {R_IPU_RELATIVE_16_S2, 2, 16, 2, true, false},
            {R_IPU_18_S2, 4, 18, 2, false, false}, {R_IPU_19_S2, 4, 19, 2, false, false},
            {R_IPU_RUN, 4, 16, 2, true, false},    {R_IPU_16_S3, 2, 16, 3, false, false},
            {R_IPU_16_S4, 2, 16, 4, false, false}, {R_IPU_16_S5, 2, 16, 5, false, false},
            {R_IPU_21, 4, 21, 0, false, false},    {R_IPU_SEND_18_S2, 4, 18, 2, false, false}};

static const struct reloc_row *find_row(uint32_t type)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

static int target_address(struct link *link, const struct link_section *section,
                          const Elf32_Rela *rela, int64_t *address)
{
    const struct link_symbol *symbol = &section->object->symbols[ELF32_R_SYM(rela->r_info)];
    const struct link_symbol *definition = symbol->global ? symbol->definition : symbol;
    *address = 0;
    if (definition != NULL && definition->section != NULL && !definition->section->loaded)
        return ipu_error_set(link->error, IPU_ERR_COMPILE,
                             "%s: section %s refers to symbol '%s', which has no address",
                             section->object->name, section->name, symbol->name);
    if (definition != NULL && definition->defined)
        *address = link_symbol_address(definition);
    else if (!symbol->weak && ELF32_R_SYM(rela->r_info) != 0)
        return ipu_error_set(link->error, IPU_ERR_COMPILE,
                             "%s: symbol '%s' is not defined (used in section %s)",
                             section->object->name, symbol->name, section->name);
    return 0;
}

/* Puts the value's bits into the field as the type lays them out. */
static uint64_t insert(const struct reloc_row *row, uint64_t field, uint64_t value)
{
    uint64_t mask = row->bits >= 64 ? ~0ull : (1ull << row->bits) - 1;
    if (row->type == R_IPU_RUN) {
        mask = 0xf0fff;
        value = (value & 0xf000) << 4 | (value & 0xfff);
    } else if (row->type == R_IPU_SEND_18_S2) {
        mask <<= 3;
        value <<= 3;
    }
    return (field & ~mask) | (value & mask);
}

static int misfit(struct link *link, const struct link_section *section, const Elf32_Rela *rela,
                  int64_t value, const char *what)
{
    const struct link_symbol *symbol = &section->object->symbols[ELF32_R_SYM(rela->r_info)];
    return ipu_error_set(
        link->error, IPU_ERR_COMPILE,
        "%s: section %s + 0x%x: the value 0x%llx of '%s' %s (relocation %u)", section->object->name,
        section->name, rela->r_offset, (unsigned long long)value,
        symbol->name[0] != '\0' ? symbol->name : "a local label", what, ELF32_R_TYPE(rela->r_info));
}

static int apply(struct link *link, const struct link_section *section, const Elf32_Rela *rela)
{
    const struct reloc_row *row = find_row(ELF32_R_TYPE(rela->r_info));
    int64_t address;
    if (ELF32_R_TYPE(rela->r_info) == R_IPU_NONE)
        return 0;
    if (row == NULL)
        return ipu_error_set(link->error, IPU_ERR_COMPILE, "%s: unknown relocation type %u",
                             section->object->name, ELF32_R_TYPE(rela->r_info));
    if (section->size - rela->r_offset < row->bytes)
        return ipu_error_set(link->error, IPU_ERR_COMPILE,
                             "%s: section %s: a relocation goes beyond the section's end",
                             section->object->name, section->name);
    int code = target_address(link, section, rela, &address);
    if (code != 0)
        return code;
    int64_t value = address + rela->r_addend - (row->relative ? IPU21_SRAM_BASE : 0);
    if (row->shift != 0 && (value & (((int64_t)1 << row->shift) - 1)) != 0)
        return misfit(link, section, rela, value, "is not aligned");
    int64_t scaled = row->shift != 0 ? value / ((int64_t)1 << row->shift) : value;
    if (row->bits < 64) {
        int64_t limit = (int64_t)1 << row->bits;
        int64_t least = row->is_signed ? -limit / 2 : 0;
        if (scaled < least || scaled >= limit)
            return misfit(link, section, rela, value, "does not fit");
    }
    uint8_t *at = link->bytes->data + (section->address - link->options->base) + rela->r_offset;
    uint64_t field = 0;
    for (unsigned i = 0; i < row->bytes; i++)
        field |= (uint64_t)at[i] << (8 * i);
    field = insert(row, field, (uint64_t)scaled);
    for (unsigned i = 0; i < row->bytes; i++)
        at[i] = (uint8_t)(field >> (8 * i));
    return 0;
}

int link_relocate(struct link *link, const struct link_section *section)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < section->reloc_count; i++)
        code = apply(link, section, &section->relocs[i]);
    return code;
}
