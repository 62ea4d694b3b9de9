/* Writing of ELF32 relocatable objects.
 *
 * Layout: header, contents of the sections in source order, their RELA sections, symbol table,
 * string tables, section headers. libelf translates every structure to its file form. The same
 * source gives the same bytes. Fails only without memory, or when a symbol's value is not an
 * address or a number.
 */
#include "device/asm/passes.h"

#include "device/asm/elf.h"

#include <libelf.h>
#include <stdio.h>
#include <string.h>

struct writer {
    struct asm_context *ctx;
    struct buffer *out;
    struct buffer symbols, strings, names;
    Elf32_Shdr *headers;
    uint32_t header_count, first_global;
};

/* Appends `count` structures in file form. */
static int append_struct(struct writer *writer, struct buffer *to, const void *data, size_t size,
                         Elf_Type type)
{
    uint8_t bytes[64];
    Elf_Data from = {
        .d_buf = (void *)(uintptr_t)data, .d_type = type, .d_version = EV_CURRENT, .d_size = size};
    Elf_Data file = {.d_buf = bytes, .d_version = EV_CURRENT, .d_size = sizeof(bytes)};
    if (size > sizeof(bytes) || elf32_xlatetof(&file, &from, ELFDATA2LSB) == NULL)
        return writer->ctx->failed = ipu_error_set(writer->ctx->error, IPU_ERR_INTERNAL,
                                                   "libelf: %s", elf_errmsg(-1));
    buffer_append(to, bytes, size);
    return 0;
}

static uint32_t add_string(struct buffer *strings, const char *text)
{
    uint32_t at = (uint32_t)strings->size;
    buffer_append(strings, text, strlen(text) + 1);
    return at;
}

static uint32_t align_output(struct buffer *out, uint32_t alignment)
{
    buffer_append_zero(out, (alignment - out->size % alignment) % alignment);
    return (uint32_t)out->size;
}

static int add_symbol(struct writer *writer, const char *name, Elf32_Sym symbol)
{
    if (name != NULL)
        symbol.st_name = add_string(&writer->strings, name);
    return append_struct(writer, &writer->symbols, &symbol, sizeof(symbol), ELF_T_SYM);
}

/* The section and value that a defined symbol has in the table. */
static int locate(struct asm_context *ctx, const struct asm_name *name, Elf32_Sym *symbol)
{
    if (name->kind == ASM_SYMBOL_UNDEFINED) {
        symbol->st_shndx = SHN_UNDEF;
        return 0;
    }
    if (name->kind == ASM_SYMBOL_LABEL) {
        symbol->st_shndx = (Elf32_Section)name->section->index;
        symbol->st_value = name->offset;
        return 0;
    }
    struct asm_value value = {0};
    bool ok = expr_evaluate(ctx, name->value, &value) && value.minus == NULL;
    if (!ok || (value.plus != NULL && value.plus->kind != ASM_SYMBOL_LABEL))
        return asm_fail(ctx, NULL, 0, "symbol '%s' has no address and no number as its value",
                        name->name);
    symbol->st_shndx = SHN_ABS;
    symbol->st_value = (Elf32_Addr)(uint64_t)value.constant;
    if (value.plus != NULL) {
        symbol->st_shndx = (Elf32_Section)value.plus->section->index;
        symbol->st_value += value.plus->offset;
    }
    return 0;
}

static unsigned char symbol_info(unsigned binding, unsigned type)
{
    return (unsigned char)(binding << 4 | (type & 15));
}

static bool is_global(const struct asm_name *name)
{
    bool used = name->kind != ASM_SYMBOL_UNDEFINED || name->referenced;
    bool bound = name->global || name->weak || name->kind == ASM_SYMBOL_UNDEFINED;
    return !name->local_number && used && bound;
}

static bool is_local(const struct asm_name *name)
{
    return name->kind == ASM_SYMBOL_LABEL && !name->global && !name->weak && !name->local_number &&
           strncmp(name->name, ".L", 2) != 0;
}

static int write_symbols(struct writer *writer, bool global, uint32_t *index)
{
    struct asm_context *ctx = writer->ctx;
    for (struct asm_name *name = ctx->first_symbol; name != NULL; name = name->next) {
        if (global ? !is_global(name) : !is_local(name))
            continue;
        unsigned binding = !global ? STB_LOCAL : name->weak ? STB_WEAK : STB_GLOBAL;
        Elf32_Sym symbol = {.st_info = symbol_info(binding, name->type)};
        int64_t size;
        if (name->size != NULL && expr_constant(ctx, name->size, &size))
            symbol.st_size = (Elf32_Word)(uint64_t)size;
        int code = locate(ctx, name, &symbol);
        if (code == 0)
            code = add_symbol(writer, name->name, symbol);
        if (code != 0)
            return code;
        name->index = (*index)++;
    }
    return 0;
}

/* Null symbol, one for each section, local names, then globals. */
static int build_symbols(struct writer *writer)
{
    struct asm_context *ctx = writer->ctx;
    uint32_t index = 1;
    Elf32_Sym none = {0};
    buffer_append_zero(&writer->strings, 1);
    int code = add_symbol(writer, NULL, none);
    for (struct asm_section *section = ctx->sections; code == 0 && section != NULL;
         section = section->next, index++) {
        Elf32_Sym symbol = {.st_info = symbol_info(STB_LOCAL, STT_SECTION),
                            .st_shndx = (Elf32_Section)section->index};
        code = add_symbol(writer, NULL, symbol);
    }
    if (code == 0)
        code = write_symbols(writer, false, &index);
    writer->first_global = index;
    return code != 0 ? code : write_symbols(writer, true, &index);
}

static void write_contents(struct writer *writer)
{
    for (struct asm_section *section = writer->ctx->sections; section != NULL;
         section = section->next) {
        writer->headers[section->index] =
            (Elf32_Shdr){.sh_name = add_string(&writer->names, section->name),
                         .sh_type = section->type,
                         .sh_flags = section->flags,
                         .sh_offset = align_output(writer->out, section->alignment),
                         .sh_size = section_size(section),
                         .sh_addralign = section->alignment};
        buffer_append(writer->out, section->bytes.data, section->bytes.size);
    }
}

static int write_relocs(struct writer *writer, const struct asm_section *section, uint32_t symtab)
{
    char name[216];
    snprintf(name, sizeof(name), ".rela%s", section->name);
    Elf32_Shdr *header = &writer->headers[writer->header_count++];
    *header = (Elf32_Shdr){.sh_name = add_string(&writer->names, name),
                           .sh_type = SHT_RELA,
                           .sh_flags = SHF_INFO_LINK,
                           .sh_offset = align_output(writer->out, 4),
                           .sh_size = (Elf32_Word)(section->reloc_count * sizeof(Elf32_Rela)),
                           .sh_link = symtab,
                           .sh_info = section->index,
                           .sh_addralign = 4,
                           .sh_entsize = sizeof(Elf32_Rela)};
    for (size_t i = 0; i < section->reloc_count; i++) {
        const struct asm_reloc *reloc = &section->relocs[i];
        const struct asm_name *target = reloc->symbol;
        uint32_t index = target->index;
        int32_t addend = reloc->addend;
        /* A local label is named through its section, which has the same index as symbol. */
        if (target->kind == ASM_SYMBOL_LABEL && !target->global && !target->weak) {
            index = target->section->index;
            addend = (int32_t)((uint32_t)addend + target->offset);
        }
        Elf32_Rela rela = {.r_offset = reloc->offset,
                           .r_info = ELF32_R_INFO(index, reloc->type),
                           .r_addend = addend};
        int code = append_struct(writer, writer->out, &rela, sizeof(rela), ELF_T_RELA);
        if (code != 0)
            return code;
    }
    return 0;
}

static void write_table(struct writer *writer, const char *name, uint32_t type,
                        const struct buffer *data)
{
    uint32_t name_at = add_string(&writer->names, name);
    Elf32_Shdr *header = &writer->headers[writer->header_count++];
    *header = (Elf32_Shdr){.sh_name = name_at,
                           .sh_type = type,
                           .sh_offset = align_output(writer->out, 4),
                           .sh_size = (Elf32_Word)data->size,
                           .sh_addralign = type == SHT_SYMTAB ? 4 : 1};
    if (type == SHT_SYMTAB) {
        header->sh_link = writer->header_count;
        header->sh_info = writer->first_global;
        header->sh_entsize = sizeof(Elf32_Sym);
    }
    buffer_append(writer->out, data->data, data->size);
}

static int write_headers(struct writer *writer, size_t start)
{
    Elf32_Ehdr header = {.e_type = ET_REL,
                         .e_machine = ELF_MACHINE_IPU,
                         .e_version = EV_CURRENT,
                         .e_shoff = align_output(writer->out, 4),
                         .e_flags = ELF_FLAGS_IPU21,
                         .e_ehsize = sizeof(Elf32_Ehdr),
                         .e_shentsize = sizeof(Elf32_Shdr),
                         .e_shnum = (Elf32_Half)writer->header_count,
                         .e_shstrndx = (Elf32_Half)(writer->header_count - 1)};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS32;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_OSABI] = ELF_OSABI_IPU;
    for (uint32_t i = 0; i < writer->header_count; i++) {
        int code = append_struct(writer, writer->out, &writer->headers[i], sizeof(*writer->headers),
                                 ELF_T_SHDR);
        if (code != 0)
            return code;
    }
    struct buffer first = {0};
    int code = append_struct(writer, &first, &header, sizeof(header), ELF_T_EHDR);
    if (code == 0 && first.data != NULL && !writer->out->failed)
        memcpy(writer->out->data + start, first.data, sizeof(header));
    writer->out->failed |= first.failed;
    buffer_free(&first);
    return code;
}

static int write_all(struct writer *writer)
{
    struct asm_context *ctx = writer->ctx;
    uint32_t symtab = 1, count = 1;
    for (struct asm_section *section = ctx->sections; section != NULL; section = section->next) {
        section->index = count++;
        symtab += section->reloc_count != 0 ? 2u : 1u;
    }
    writer->header_count = count;
    writer->headers = asm_alloc(ctx, 2 * (size_t)count + 4, sizeof(*writer->headers));
    if (writer->headers == NULL)
        return ctx->failed;
    size_t start = writer->out->size;
    buffer_append_zero(writer->out, sizeof(Elf32_Ehdr));
    buffer_append_zero(&writer->names, 1);
    int code = build_symbols(writer);
    if (code != 0)
        return code;
    write_contents(writer);
    for (struct asm_section *section = ctx->sections; section != NULL; section = section->next)
        if (section->reloc_count != 0 && (code = write_relocs(writer, section, symtab)) != 0)
            return code;
    write_table(writer, ".symtab", SHT_SYMTAB, &writer->symbols);
    write_table(writer, ".strtab", SHT_STRTAB, &writer->strings);
    add_string(&writer->names, ".shstrtab");
    /* The name table names itself: its own entry was added last. */
    uint32_t own = (uint32_t)(writer->names.size - sizeof(".shstrtab"));
    struct buffer names = writer->names;
    Elf32_Shdr *header = &writer->headers[writer->header_count++];
    *header = (Elf32_Shdr){.sh_name = own,
                           .sh_type = SHT_STRTAB,
                           .sh_offset = (Elf32_Off)writer->out->size,
                           .sh_size = (Elf32_Word)names.size,
                           .sh_addralign = 1};
    buffer_append(writer->out, names.data, names.size);
    return write_headers(writer, start);
}

int object_write(struct asm_context *ctx, struct buffer *object)
{
    struct writer writer = {.ctx = ctx, .out = object};
    size_t start = object->size;
    elf_version(EV_CURRENT);
    int code = start != 0 ? ipu_error_set(ctx->error, IPU_ERR_INTERNAL,
                                          "asm_assemble: the object buffer is not empty")
                          : write_all(&writer);
    bool failed =
        object->failed || writer.symbols.failed || writer.strings.failed || writer.names.failed;
    buffer_free(&writer.symbols);
    buffer_free(&writer.strings);
    buffer_free(&writer.names);
    if (code == 0 && failed)
        code = ipu_error_set(ctx->error, IPU_ERR_NO_MEMORY, "no memory for the object file");
    if (code != 0 && start == 0)
        buffer_free(object);
    return code;
}
