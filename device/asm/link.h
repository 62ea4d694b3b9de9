/* Private: what the linker's passes share. link_load.c reads objects, link_reloc.c patches words.
 */
#ifndef IPU_ASM_LINK_H
#define IPU_ASM_LINK_H

#include "base/arena.h"
#include "device/asm/asm.h"
#include "device/asm/elf.h"

#include <libelf.h>
#include <stdbool.h>

enum {
    LINK_MAX_IMAGE = 16 << 20, /* bytes */
    LINK_MAX_OBJECT = 64 << 20,
    LINK_MEMORY = 256 << 20
};

enum link_group { LINK_TEXT, LINK_RODATA, LINK_DATA, LINK_BSS, LINK_GROUPS };

struct link_object;

struct link_section {
    const char *name;
    struct link_object *object;
    const uint8_t *data; /* NULL for zero bytes */
    uint32_t size, alignment, address;
    enum link_group group;
    bool loaded; /* it takes memory on the tile */
    bool live;
    const Elf32_Rela *relocs;
    size_t reloc_count;
};

/* A symbol of one object; globals point to the definition that all objects share. */
struct link_symbol {
    const char *name;
    struct link_section *section; /* NULL: absolute, or not defined here */
    uint32_t value;
    bool defined, weak, global;
    struct link_object *object;
    struct link_symbol *definition; /* for globals */
    struct link_symbol *next_in_bucket;
};

struct link_object {
    const char *name;
    struct link_section *sections; /* by ELF index */
    size_t section_count;
    struct link_symbol *symbols;
    size_t symbol_count;
};

struct link {
    struct arena *arena;
    struct ipu_error *error;
    const struct asm_link_options *options;
    struct link_object *objects;
    size_t object_count;
    struct link_symbol **table; /* globals by name */
    size_t table_size;
    struct buffer *bytes;
};

void *link_alloc(struct link *link, size_t count, size_t size, int *code);
/* Reads one object into the arena; every index and range is checked here, once. */
int link_load(struct link *link, const struct asm_object *from, struct link_object *object);
/* The definition of a global name, or NULL. */
struct link_symbol *link_find(const struct link *link, const char *name);
uint32_t link_symbol_address(const struct link_symbol *symbol);
/* Applies the relocations of one placed section. */
int link_relocate(struct link *link, const struct link_section *section);

#endif
