/* The linker: symbols of all objects, collection of sections, addresses, image.
 *
 * Sections are placed group by group (code, constants, data, zeros), in object order inside a
 * group. With roots, a section lives when a root's section reaches it over relocations. Everything
 * is checked while objects are loaded; later passes only fail on what several objects disagree
 * about: undefined or duplicate symbols, and values that do not fit.
 */
#include "device/asm/link.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

void *link_alloc(struct link *link, size_t count, size_t size, int *code)
{
    void *block = arena_calloc(link->arena, count, size);
    if (block == NULL)
        *code =
            ipu_error_set(link->error, IPU_ERR_NO_MEMORY,
                          "linking needs more memory than its limit of %d MiB", LINK_MEMORY >> 20);
    return block;
}

uint32_t link_symbol_address(const struct link_symbol *symbol)
{
    return symbol->value + (symbol->section != NULL ? symbol->section->address : 0);
}

static struct link_symbol **slot(const struct link *link, const char *name)
{
    struct link_symbol **at = &link->table[hash64(name, strlen(name)) % link->table_size];
    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next_in_bucket;
    return at;
}

struct link_symbol *link_find(const struct link *link, const char *name)
{
    return *slot(link, name);
}

static int define(struct link *link, struct link_symbol *symbol)
{
    struct link_symbol **at = slot(link, symbol->name), *known = *at;
    if (known != NULL && !known->weak && !symbol->weak)
        return ipu_error_set(link->error, IPU_ERR_COMPILE,
                             "symbol '%s' is defined twice: in %s and in %s", symbol->name,
                             known->object != NULL ? known->object->name : "the externals",
                             symbol->object != NULL ? symbol->object->name : "the externals");
    if (known != NULL && symbol->weak)
        return 0;
    symbol->next_in_bucket = known != NULL ? known->next_in_bucket : NULL;
    *at = symbol;
    return 0;
}

static int build_table(struct link *link)
{
    size_t count = link->options->external_count + 16;
    int code = 0;
    for (size_t i = 0; i < link->object_count; i++)
        count += link->objects[i].symbol_count;
    link->table_size = count;
    link->table = link_alloc(link, count, sizeof(struct link_symbol *), &code);
    for (size_t i = 0; code == 0 && i < link->object_count; i++) {
        struct link_object *object = &link->objects[i];
        for (size_t j = 0; code == 0 && j < object->symbol_count; j++)
            if (object->symbols[j].global && object->symbols[j].defined)
                code = define(link, &object->symbols[j]);
    }
    for (size_t i = 0; code == 0 && i < link->options->external_count; i++) {
        const struct asm_symbol *external = &link->options->externals[i];
        struct link_symbol *symbol = link_alloc(link, 1, sizeof(*symbol), &code);
        if (symbol == NULL)
            return code;
        *symbol = (struct link_symbol){
            .name = external->name, .value = external->address, .defined = true, .global = true};
        code = define(link, symbol);
    }
    return code;
}

static void resolve(struct link *link)
{
    for (size_t i = 0; i < link->object_count; i++)
        for (size_t j = 0; j < link->objects[i].symbol_count; j++)
            if (link->objects[i].symbols[j].global)
                link->objects[i].symbols[j].definition =
                    link_find(link, link->objects[i].symbols[j].name);
}

/* --- collection --- */

struct worklist {
    struct link_section **items;
    size_t count;
};

static void enliven(struct worklist *list, struct link_section *section)
{
    if (section == NULL || section->live || !section->loaded)
        return;
    section->live = true;
    list->items[list->count++] = section;
}

static void follow(struct worklist *list, const struct link_section *section)
{
    for (size_t i = 0; i < section->reloc_count; i++) {
        const struct link_symbol *symbol =
            &section->object->symbols[ELF32_R_SYM(section->relocs[i].r_info)];
        const struct link_symbol *target = symbol->global ? symbol->definition : symbol;
        if (target != NULL)
            enliven(list, target->section);
    }
}

static int collect(struct link *link)
{
    const struct asm_link_options *options = link->options;
    struct worklist list = {0};
    size_t total = 1;
    int code = 0;
    for (size_t i = 0; i < link->object_count; i++)
        total += link->objects[i].section_count;
    list.items = link_alloc(link, total, sizeof(struct link_section *), &code);
    if (list.items == NULL)
        return code;
    for (size_t i = 0; options->root_count == 0 && i < link->object_count; i++)
        for (size_t j = 0; j < link->objects[i].section_count; j++)
            enliven(&list, &link->objects[i].sections[j]);
    for (size_t i = 0; i < options->root_count; i++) {
        const struct link_symbol *root = link_find(link, options->roots[i]);
        if (root == NULL)
            return ipu_error_set(link->error, IPU_ERR_COMPILE,
                                 "the root symbol '%s' is not defined", options->roots[i]);
        enliven(&list, root->section);
    }
    for (size_t i = 0; i < list.count; i++)
        follow(&list, list.items[i]);
    return 0;
}

/* --- placement --- */

static int place(struct link *link, struct link_section *section, uint64_t *end)
{
    uint64_t alignment = section->alignment;
    uint64_t start = (*end + alignment - 1) & ~(alignment - 1);
    if (start + section->size > (uint64_t)link->options->base + LINK_MAX_IMAGE ||
        start + section->size > UINT32_MAX)
        return ipu_error_set(link->error, IPU_ERR_COMPILE,
                             "the image grows beyond %d bytes in section %s of %s", LINK_MAX_IMAGE,
                             section->name, section->object->name);
    section->address = (uint32_t)start;
    *end = start + section->size;
    return 0;
}

static int place_all(struct link *link)
{
    uint64_t end = link->options->base;
    int code = 0;
    for (unsigned group = 0; group < LINK_GROUPS; group++)
        for (size_t i = 0; i < link->object_count; i++)
            for (size_t j = 0; code == 0 && j < link->objects[i].section_count; j++) {
                struct link_section *section = &link->objects[i].sections[j];
                if (section->live && section->group == group)
                    code = place(link, section, &end);
            }
    if (code == 0)
        buffer_append_zero(link->bytes, (size_t)(end - link->options->base));
    if (code == 0 && link->bytes->failed)
        code = ipu_error_set(link->error, IPU_ERR_NO_MEMORY, "no memory for the image");
    return code;
}

static int fill(struct link *link)
{
    int code = 0;
    for (size_t i = 0; i < link->object_count; i++)
        for (size_t j = 0; code == 0 && j < link->objects[i].section_count; j++) {
            struct link_section *section = &link->objects[i].sections[j];
            if (!section->live || section->data == NULL || section->size == 0)
                continue;
            memcpy(link->bytes->data + (section->address - link->options->base), section->data,
                   section->size);
            code = link_relocate(link, section);
        }
    return code;
}

/* --- symbols of the image --- */

static bool exported(const struct link_symbol *symbol)
{
    if (!symbol->global || !symbol->defined || symbol->definition != symbol)
        return false;
    return symbol->section == NULL || symbol->section->live;
}

static int by_name(const void *a, const void *b)
{
    const struct asm_symbol *left = a, *right = b;
    return strcmp(left->name, right->name);
}

/* One block: the array, then the names it points to. */
static int export_symbols(struct link *link, struct asm_image *image)
{
    size_t count = 0, text = 0;
    for (size_t i = 0; i < link->object_count; i++)
        for (size_t j = 0; j < link->objects[i].symbol_count; j++)
            if (exported(&link->objects[i].symbols[j])) {
                count++;
                text += strlen(link->objects[i].symbols[j].name) + 1;
            }
    if (count == 0)
        return 0;
    image->symbols = ipu_malloc(count * sizeof(*image->symbols) + text);
    if (image->symbols == NULL)
        return ipu_error_set(link->error, IPU_ERR_NO_MEMORY, "no memory for the image's symbols");
    char *names = (char *)(image->symbols + count);
    for (size_t i = 0; i < link->object_count; i++)
        for (size_t j = 0; j < link->objects[i].symbol_count; j++) {
            const struct link_symbol *symbol = &link->objects[i].symbols[j];
            if (!exported(symbol))
                continue;
            size_t size = strlen(symbol->name) + 1;
            memcpy(names, symbol->name, size);
            image->symbols[image->symbol_count++] =
                (struct asm_symbol){.name = names, .address = link_symbol_address(symbol)};
            names += size;
        }
    qsort(image->symbols, count, sizeof(*image->symbols), by_name);
    return 0;
}

static int run(struct link *link, const struct asm_object *objects, struct asm_image *image)
{
    int code = 0;
    link->objects = link_alloc(link, link->object_count + 1, sizeof(*link->objects), &code);
    for (size_t i = 0; code == 0 && i < link->object_count; i++)
        code = link_load(link, &objects[i], &link->objects[i]);
    if (code == 0)
        code = build_table(link);
    if (code != 0)
        return code;
    resolve(link);
    code = collect(link);
    if (code == 0)
        code = place_all(link);
    if (code == 0)
        code = fill(link);
    return code != 0 ? code : export_symbols(link, image);
}

int asm_link(const struct asm_object *objects, size_t count, const struct asm_link_options *options,
             struct asm_image *image, struct ipu_error *error)
{
    *image = (struct asm_image){.base = options->base};
    struct link link = {
        .error = error, .options = options, .object_count = count, .bytes = &image->bytes};
    elf_version(EV_CURRENT);
    link.arena = arena_create(LINK_MEMORY);
    if (link.arena == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory to link");
    int code = run(&link, objects, image);
    arena_destroy(link.arena);
    if (code != 0)
        asm_image_free(image);
    return code;
}

void asm_image_free(struct asm_image *image)
{
    buffer_free(&image->bytes);
    ipu_free(image->symbols);
    image->symbols = NULL;
    image->symbol_count = 0;
}

uint32_t asm_image_symbol(const struct asm_image *image, const char *name)
{
    size_t low = 0, high = image->symbol_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(image->symbols[middle].name, name);
        if (order == 0)
            return image->symbols[middle].address;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}
