/* Reading of ELF objects for the linker, through libelf, from memory.
 *
 * Objects may come from anywhere: every offset, size, index, string and alignment is checked before
 * it is used, and what the checks pass is copied into the link's arena. Fails with IPU_ERR_COMPILE
 * and a sentence that names the object.
 */
#include "device/asm/link.h"

#include <string.h>

struct loader {
    struct link *link;
    struct link_object *object;
    Elf *elf;
    Elf32_Ehdr *header;
    const char *strings; /* of the symbol table */
    size_t string_size;
};

static int bad(struct loader *loader, const char *what)
{
    return ipu_error_set(loader->link->error, IPU_ERR_COMPILE, "%s: not a valid IPU object: %s",
                         loader->object->name, what);
}

/* A NUL-terminated string inside a table, or NULL. */
static const char *string_at(const char *table, size_t size, size_t at)
{
    if (table == NULL || at >= size || memchr(table + at, '\0', size - at) == NULL)
        return NULL;
    return table + at;
}

static const char *copy_string(struct loader *loader, const char *text, int *code)
{
    size_t length = strlen(text) + 1;
    char *copy = link_alloc(loader->link, length, 1, code);
    if (copy != NULL)
        memcpy(copy, text, length);
    return copy;
}

static Elf_Data *section_data(struct loader *loader, size_t index, Elf32_Shdr **header)
{
    Elf_Scn *section = elf_getscn(loader->elf, index);
    *header = section != NULL ? elf32_getshdr(section) : NULL;
    if (*header == NULL)
        return NULL;
    Elf_Data *data = elf_getdata(section, NULL);
    if (data == NULL || (data->d_buf == NULL && data->d_size != 0) ||
        data->d_size != (*header)->sh_size)
        return NULL;
    return data;
}

/* Checks that the header's own fields describe tables inside the file: libelf then reads only
 * those. */
static const char *check_ranges(const uint8_t *file, size_t size)
{
    Elf32_Ehdr header;
    if (size < sizeof(header))
        return "the file is too short";
    memcpy(&header, file, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS32 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB)
        return "it is not a 32-bit little-endian ELF file";
    if (header.e_machine != ELF_MACHINE_IPU)
        return "it is for another machine";
    if (header.e_type != ET_REL)
        return "it is not a relocatable file";
    if (header.e_shentsize != sizeof(Elf32_Shdr) || header.e_shoff % 4 != 0 ||
        header.e_shnum == 0 || header.e_phnum != 0 || header.e_shoff > size ||
        (size - header.e_shoff) / sizeof(Elf32_Shdr) < header.e_shnum)
        return "its section headers lie outside the file";
    for (size_t i = 0; i < header.e_shnum; i++) {
        Elf32_Shdr section;
        memcpy(&section, file + header.e_shoff + i * sizeof(section), sizeof(section));
        bool empty = section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL;
        if (!empty && (section.sh_offset > size || section.sh_size > size - section.sh_offset))
            return "a section lies outside the file";
        if ((section.sh_type == SHT_SYMTAB || section.sh_type == SHT_RELA) &&
            section.sh_offset % 4 != 0)
            return "a table is not aligned";
        if ((section.sh_flags & SHF_COMPRESSED) != 0)
            return "compressed sections are not supported";
    }
    return NULL;
}

static enum link_group group_of(const Elf32_Shdr *header)
{
    if (header->sh_type == SHT_NOBITS)
        return LINK_BSS;
    if ((header->sh_flags & SHF_EXECINSTR) != 0)
        return LINK_TEXT;
    return (header->sh_flags & SHF_WRITE) != 0 ? LINK_DATA : LINK_RODATA;
}

static int load_section(struct loader *loader, size_t index, const char *names, size_t name_size)
{
    Elf32_Shdr *header;
    struct link_section *section = &loader->object->sections[index];
    Elf_Data *data = section_data(loader, index, &header);
    int code = 0;
    if (header == NULL)
        return bad(loader, "a section header cannot be read");
    const char *name = string_at(names, name_size, header->sh_name);
    section->object = loader->object;
    section->name = copy_string(loader, name != NULL ? name : "?", &code);
    section->loaded = (header->sh_flags & SHF_ALLOC) != 0 &&
                      (header->sh_type == SHT_PROGBITS || header->sh_type == SHT_NOBITS);
    if (code != 0 || !section->loaded)
        return code;
    section->size = header->sh_size;
    section->alignment = header->sh_addralign != 0 ? header->sh_addralign : 1;
    section->group = group_of(header);
    if ((section->alignment & (section->alignment - 1)) != 0 || section->alignment > 1u << 20)
        return bad(loader, "a section's alignment is not a power of two up to 1 MiB");
    if (section->size > LINK_MAX_IMAGE)
        return bad(loader, "a section is larger than any image");
    if (header->sh_type == SHT_NOBITS)
        return 0;
    if (data == NULL)
        return bad(loader, "a section's contents cannot be read");
    uint8_t *copy = link_alloc(loader->link, section->size + 1u, 1, &code);
    if (copy != NULL && section->size != 0)
        memcpy(copy, data->d_buf, section->size);
    section->data = copy;
    return code;
}

static int load_symbol(struct loader *loader, const Elf32_Sym *from, size_t index)
{
    struct link_symbol *symbol = &loader->object->symbols[index];
    const char *name = string_at(loader->strings, loader->string_size, from->st_name);
    int code = 0;
    if (name == NULL && from->st_name != 0)
        return bad(loader, "a symbol's name lies outside the string table");
    symbol->object = loader->object;
    symbol->name = copy_string(loader, name != NULL ? name : "", &code);
    symbol->value = from->st_value;
    symbol->global = ELF32_ST_BIND(from->st_info) != STB_LOCAL;
    symbol->weak = ELF32_ST_BIND(from->st_info) == STB_WEAK;
    symbol->defined = from->st_shndx != SHN_UNDEF && index != 0;
    if (from->st_shndx == SHN_UNDEF || from->st_shndx == SHN_ABS)
        return code;
    if (from->st_shndx >= loader->object->section_count)
        return bad(loader, "a symbol's section does not exist");
    symbol->section = &loader->object->sections[from->st_shndx];
    if (symbol->section->loaded && symbol->value > symbol->section->size)
        return bad(loader, "a symbol lies outside its section");
    return code;
}

static int load_symbols(struct loader *loader, size_t table)
{
    Elf32_Shdr *header, *string_header;
    Elf_Data *data = section_data(loader, table, &header);
    if (data == NULL || header->sh_entsize != sizeof(Elf32_Sym) ||
        header->sh_size % sizeof(Elf32_Sym) != 0)
        return bad(loader, "the symbol table cannot be read");
    Elf_Data *strings = section_data(loader, header->sh_link, &string_header);
    if (strings == NULL || string_header->sh_type != SHT_STRTAB)
        return bad(loader, "the symbol table has no string table");
    if (loader->object->symbols != NULL)
        return bad(loader, "it has two symbol tables");
    loader->strings = strings->d_buf;
    loader->string_size = strings->d_size;
    size_t count = header->sh_size / sizeof(Elf32_Sym);
    int code = 0;
    loader->object->symbols =
        link_alloc(loader->link, count + 1, sizeof(struct link_symbol), &code);
    loader->object->symbol_count = count;
    for (size_t i = 0; code == 0 && i < count; i++) {
        Elf32_Sym symbol;
        memcpy(&symbol, (const uint8_t *)data->d_buf + i * sizeof(symbol), sizeof(symbol));
        code = load_symbol(loader, &symbol, i);
    }
    return code;
}

static int load_relocs(struct loader *loader, size_t index)
{
    Elf32_Shdr *header;
    struct link_object *object = loader->object;
    Elf_Data *data = section_data(loader, index, &header);
    if (data == NULL || header->sh_entsize != sizeof(Elf32_Rela) ||
        header->sh_size % sizeof(Elf32_Rela) != 0 || header->sh_info >= object->section_count)
        return bad(loader, "a relocation table cannot be read");
    struct link_section *section = &object->sections[header->sh_info];
    if (!section->loaded)
        return 0;
    if (section->relocs != NULL || section->data == NULL)
        return bad(loader, "a section's relocations make no sense");
    size_t count = header->sh_size / sizeof(Elf32_Rela);
    int code = 0;
    Elf32_Rela *relocs = link_alloc(loader->link, count + 1, sizeof(*relocs), &code);
    if (relocs == NULL)
        return code;
    if (count != 0)
        memcpy(relocs, data->d_buf, count * sizeof(*relocs));
    for (size_t i = 0; i < count; i++) {
        if (ELF32_R_SYM(relocs[i].r_info) >= object->symbol_count)
            return bad(loader, "a relocation names a symbol that does not exist");
        if (relocs[i].r_offset >= section->size)
            return bad(loader, "a relocation lies outside its section");
    }
    section->relocs = relocs;
    section->reloc_count = count;
    return 0;
}

static int load_tables(struct loader *loader)
{
    struct link_object *object = loader->object;
    size_t names_index = loader->header->e_shstrndx;
    Elf32_Shdr *header;
    Elf_Data *names = section_data(loader, names_index, &header);
    if (names == NULL || header->sh_type != SHT_STRTAB)
        return bad(loader, "it has no table of section names");
    int code = 0;
    for (size_t i = 1; code == 0 && i < object->section_count; i++)
        code = load_section(loader, i, names->d_buf, names->d_size);
    for (uint32_t type = SHT_SYMTAB; code == 0 && type != SHT_NULL;
         type = type == SHT_SYMTAB ? SHT_RELA : SHT_NULL) {
        for (size_t i = 1; code == 0 && i < object->section_count; i++) {
            Elf_Scn *section = elf_getscn(loader->elf, i);
            header = section != NULL ? elf32_getshdr(section) : NULL;
            if (header == NULL || header->sh_type != type)
                continue;
            code = type == SHT_SYMTAB ? load_symbols(loader, i) : load_relocs(loader, i);
        }
    }
    return code;
}

int link_load(struct link *link, const struct asm_object *from, struct link_object *object)
{
    struct loader loader = {.link = link, .object = object};
    int code = 0;
    object->name = from->name != NULL ? from->name : "object";
    if (from->size > LINK_MAX_OBJECT)
        return bad(&loader, "it is too large");
    const char *problem = check_ranges(from->data, from->size);
    if (problem != NULL)
        return bad(&loader, problem);
    char *copy = link_alloc(link, from->size, 1, &code);
    if (copy == NULL)
        return code;
    memcpy(copy, from->data, from->size);
    loader.elf = elf_memory(copy, from->size);
    loader.header = loader.elf != NULL ? elf32_getehdr(loader.elf) : NULL;
    if (loader.header == NULL) {
        code = bad(&loader, elf_errmsg(-1));
    } else {
        object->section_count = loader.header->e_shnum;
        object->sections =
            link_alloc(link, object->section_count, sizeof(*object->sections), &code);
        if (code == 0)
            code = load_tables(&loader);
    }
    elf_end(loader.elf);
    return code;
}
