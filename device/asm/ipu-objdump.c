/* ipu-objdump -d FILE.o|FILE.ipuexe [--tile N]: shows the instructions of an object or a package.
 *
 * For an object: every executable section with its labels and relocations. For a package: the
 * segments of one tile (the first that has any, or N) that lie in executable memory, with the
 * package's symbols. Text goes to stdout, messages to stderr. Exit codes are those of
 * base/errors.def.
 */
#include "base/buffer.h"
#include "device/asm/link.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"
#include "device/package/package.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 30, MAX_TEXT = 512 };

static uint32_t word_at(const uint8_t *data, size_t size, size_t at)
{
    uint32_t word = 0;
    for (size_t i = 0; i < 4 && at + i < size; i++)
        word |= (uint32_t)data[at + i] << (8 * i);
    return word;
}

/* Something to print at an address: labels before an instruction, relocations after it. */
struct notes {
    const void *context;
    void (*before)(const void *context, uint32_t address);
    void (*after)(const void *context, uint32_t address, uint32_t bytes);
};

static void dump(uint32_t base, const uint8_t *data, size_t size, const struct notes *notes)
{
    char text[MAX_TEXT];
    for (size_t at = 0; at < size;) {
        uint32_t address = base + (uint32_t)at, word = word_at(data, size, at);
        uint32_t next = at + 8 <= size ? word_at(data, size, at + 4) : 0;
        unsigned used = asm_disassemble(address, word, next, text, sizeof(text));
        notes->before(notes->context, address);
        if (used == 8)
            printf("%8" PRIx32 ":  %08" PRIx32 " %08" PRIx32 "  %s", address, word, next, text);
        else
            printf("%8" PRIx32 ":  %08" PRIx32 "           %s", address, word, text);
        notes->after(notes->context, address, used);
        putchar('\n');
        at += used;
    }
}

/* --- objects --- */

static void object_labels(const void *context, uint32_t address)
{
    const struct link_section *section = context;
    const struct link_object *object = section->object;
    for (size_t i = 0; i < object->symbol_count; i++) {
        const struct link_symbol *symbol = &object->symbols[i];
        if (symbol->section == section && symbol->value == address && symbol->name[0] != '\0')
            printf("%s:\n", symbol->name);
    }
}

static void object_relocs(const void *context, uint32_t address, uint32_t bytes)
{
    const struct link_section *section = context;
    for (size_t i = 0; i < section->reloc_count; i++) {
        const Elf32_Rela *rela = &section->relocs[i];
        if (rela->r_offset < address || rela->r_offset >= address + bytes)
            continue;
        const struct link_symbol *symbol = &section->object->symbols[ELF32_R_SYM(rela->r_info)];
        const char *name = symbol->name[0] != '\0'   ? symbol->name
                           : symbol->section != NULL ? symbol->section->name
                                                     : "*ABS*";
        printf("  // reloc %u %s%+" PRId32, ELF32_R_TYPE(rela->r_info), name, rela->r_addend);
    }
}

static int dump_object(const char *path, const struct buffer *file, struct ipu_error *error)
{
    struct link link = {.error = error, .arena = arena_create(LINK_MEMORY)};
    struct asm_object from = {.data = file->data, .size = file->size, .name = path};
    struct link_object object = {0};
    if (link.arena == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory to read %s", path);
    elf_version(EV_CURRENT);
    int code = link_load(&link, &from, &object);
    for (size_t i = 0; code == 0 && i < object.section_count; i++) {
        const struct link_section *section = &object.sections[i];
        if (!section->loaded || section->group != LINK_TEXT || section->size == 0)
            continue;
        struct notes notes = {section, object_labels, object_relocs};
        printf("\nsection %s (%" PRIu32 " bytes, aligned to %" PRIu32 ")\n", section->name,
               section->size, section->alignment);
        dump(0, section->data, section->size, &notes);
    }
    arena_destroy(link.arena);
    return code;
}

/* --- packages --- */

static void package_labels(const void *context, uint32_t address)
{
    size_t count;
    const struct package_symbol *symbols = package_symbols(context, &count);
    for (size_t i = 0; i < count; i++)
        if (symbols[i].address == address)
            printf("%s:\n", symbols[i].name);
}

static void package_nothing(const void *context, uint32_t address, uint32_t bytes)
{
    (void)context;
    (void)address;
    (void)bytes;
}

static int dump_package(const char *path, const struct buffer *file, long tile,
                        struct ipu_error *error)
{
    struct package *package = NULL;
    int code = package_read(file->data, file->size, &package, error);
    if (code != 0)
        return ipu_error_wrap(error, "%s: ", path);
    size_t count;
    const struct package_segment *segments = package_segments(package, &count);
    struct notes notes = {package, package_labels, package_nothing};
    bool any = false;
    if (tile < 0 && count != 0)
        tile = segments[0].tile;
    for (size_t i = 0; i < count; i++) {
        const struct package_segment *segment = &segments[i];
        if (segment->tile != tile || segment->address >= IPU21_REGION1_BASE)
            continue;
        any = true;
        printf("\ntile %ld, 0x%" PRIx32 ", %" PRIu32 " bytes\n", tile, segment->address,
               segment->size);
        dump(segment->address, segment->data, segment->size, &notes);
    }
    if (!any)
        code = ipu_error_set(error, IPU_ERR_NOT_FOUND, "%s: tile %ld has no code", path, tile);
    package_destroy(package);
    return code;
}

/* --- command --- */

static int usage(void)
{
    fputs("usage: ipu-objdump -d FILE.o|FILE.ipuexe [--tile N]\n", stderr);
    return ipu_err_exit_code(IPU_ERR_INVALID);
}

static bool parse_tile(const char *text, long *tile)
{
    char *end;
    *tile = strtol(text, &end, 10);
    return text[0] != '\0' && *end == '\0' && *tile >= 0 && *tile < IPU21_TILES;
}

int main(int argc, char **argv)
{
    const char *path = NULL;
    long tile = -1;
    bool disassemble = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-d") == 0)
            disassemble = true;
        else if (strcmp(argv[i], "--tile") == 0 && i + 1 < argc && parse_tile(argv[i + 1], &tile))
            i++;
        else if (argv[i][0] != '-' && path == NULL)
            path = argv[i];
        else
            return usage();
    }
    if (!disassemble || path == NULL)
        return usage();
    struct buffer file = {0};
    struct ipu_error error = {0};
    int code = buffer_read_file(&file, path, MAX_FILE);
    if (code != 0)
        code = ipu_error_set(&error, IPU_ERR_IO, "cannot read %s: %s", path, strerror(-code));
    else if (file.size >= 4 && memcmp(file.data, "\177ELF", 4) == 0)
        code = dump_object(path, &file, &error);
    else
        code = dump_package(path, &file, tile, &error);
    buffer_free(&file);
    if (code == 0 && fflush(stdout) != 0)
        code = ipu_error_set(&error, IPU_ERR_IO, "cannot write the output");
    if (code != 0)
        fprintf(stderr, "ipu-objdump: %s\n", error.text);
    return code == 0 ? 0 : ipu_err_exit_code(code);
}
