/* Flag numbers out of a tile header: see flag_set.h.
 *
 * The header is not parsed here: a probe source that includes it and stores every name it defines
 * is assembled and linked, so the numbers are what the assembler itself would use, whether the
 * header says #define, .set or =. Only files below the configured directory are read, at most
 * MAX_FILES of MAX_FILE_BYTES each. Two headers with equal numbers are one set, whatever their
 * text. Fails when there is no header, when it does not assemble, and on numbers that no
 * instruction field holds.
 */
#include "device/kernels/flag_set.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "device/ipu21/flags.h"
#include "device/ipu21/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_FILES = 64,
    MAX_FILE_BYTES = 4 << 20,
    MAX_PATH = 4096,
    MAX_VALUE = 63 /* the widest flag field has six bits */
};

#define FLAG(name, value) #name,
static const char *const flag_names[] = {
#include "device/ipu21/flags.def"
};
#undef FLAG
enum { FLAG_COUNT = sizeof flag_names / sizeof flag_names[0] };

struct flag_set {
    uint32_t number;
    char digest[HASH_TEXT];
    size_t count;
    struct asm_constant constants[FLAG_COUNT];
};

uint32_t flag_set_number(const struct flag_set *set)
{
    return set ? set->number : (uint32_t)IPU21_FLAG_SET;
}

const char *flag_set_digest(const struct flag_set *set)
{
    return set ? set->digest : "";
}

const struct asm_constant *flag_set_constants(const struct flag_set *set, size_t *count)
{
    *count = set ? set->count : 0;
    return set ? set->constants : NULL;
}

void flag_set_free(struct flag_set *set)
{
    ipu_free(set);
}

/* --- the files of the directory --- */

struct files {
    const char *directory;
    char below[MAX_PATH]; /* folder of the header, with a slash, or "" */
    struct buffer text[MAX_FILES];
    size_t count;
};

/* Only names that stay below the directory. */
static bool name_stays(const char *name)
{
    if (name[0] == '/' || name[0] == '\0')
        return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

static const char *file_read(struct files *files, const char *below, const char *name,
                             size_t *length)
{
    char path[MAX_PATH];
    int size = snprintf(path, sizeof path, "%s/%s%s", files->directory, below, name);
    if (size < 0 || size >= MAX_PATH || files->count == MAX_FILES)
        return NULL;
    struct buffer *text = &files->text[files->count];
    *text = (struct buffer){0};
    if (buffer_read_file(text, path, MAX_FILE_BYTES) != 0) {
        buffer_free(text);
        return NULL;
    }
    files->count++;
    *length = text->size;
    buffer_append_zero(text, 1);
    return text->failed ? NULL : (const char *)text->data;
}

static const char *include(void *context, const char *name, size_t *length)
{
    struct files *files = context;
    if (!name_stays(name))
        return NULL;
    const char *text = file_read(files, "", name, length);
    return text || !files->below[0] ? text : file_read(files, files->below, name, length);
}

/* The include name of the header that the directory holds, or NULL. */
static const char *header_find(struct files *files)
{
    static const char *const headers[] = {"gc_tile_defines.h", "arch/gc_tile_defines.h",
                                          "ipu21.inc"};
    size_t length;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        if (!file_read(files, "", headers[i], &length))
            continue;
        const char *slash = strrchr(headers[i], '/');
        size_t folder = slash ? (size_t)(slash + 1 - headers[i]) : 0;
        memcpy(files->below, headers[i], folder);
        return headers[i];
    }
    return NULL;
}

/* --- the probe --- */

#define PROBE_TABLE "ipu_flag_table"

/* One {index, value} for each name that is a macro or a symbol after the header. */
static void probe_write(const char *header, struct buffer *probe)
{
    buffer_printf(probe,
                  "#include \"%s\"\n.section .data\n.globl " PROBE_TABLE "\n" PROBE_TABLE ":\n",
                  header);
    for (int i = 0; i < FLAG_COUNT; i++) {
        const char *name = flag_names[i];
        buffer_printf(probe,
                      "#ifdef %s\n.long %d, %s\n#else\n.ifdef %s\n.long %d, %s\n.endif\n#endif\n",
                      name, i, name, name, i, name);
    }
    buffer_printf(probe, ".long -1\n");
    buffer_append_zero(probe, 1);
}

static int probe_link(const char *text, size_t length, struct files *files, struct asm_image *image,
                      struct ipu_error *error)
{
    struct buffer object = {0};
    static const struct asm_constant none = {"", 0};
    struct asm_options options = {
        .include = include, .include_context = files, .flags = &none, .flag_count = 0};
    struct asm_link_options link = {.base = IPU21_SRAM_BASE};
    int code = asm_assemble("flag probe", text, length, &options, &object, error);
    struct asm_object input = {object.data, object.size, "flag probe"};
    if (code == 0)
        code = asm_link(&input, 1, &link, image, error);
    buffer_free(&object);
    return code;
}

static uint32_t word_at(const struct asm_image *image, uint32_t address)
{
    uint32_t word = UINT32_MAX;
    if (address - image->base + 4 <= image->bytes.size)
        memcpy(&word, image->bytes.data + (address - image->base), sizeof word);
    return word;
}

static int set_fill(struct flag_set *set, const struct asm_image *image, struct ipu_error *error)
{
    uint32_t at = asm_image_symbol(image, PROBE_TABLE), index;
    for (; (index = word_at(image, at)) < FLAG_COUNT; at += 8) {
        uint32_t value = word_at(image, at + 4);
        if (value > MAX_VALUE)
            return ipu_error_set(
                error, IPU_ERR_INVALID,
                "%s is %d, but a flag number is from 0 to %d: this is not the tile "
                "header of an IPU21",
                flag_names[index], (int)value, MAX_VALUE);
        set->constants[set->count++] = (struct asm_constant){flag_names[index], value};
    }
    if (set->count == 0)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "it defines none of the names TAMP_*, TSLIC_*, TISTACC_*, TSTACC_*");
    return 0;
}

static int set_digest(struct flag_set *set, struct ipu_error *error)
{
    struct hash hash;
    struct hash_state *state = hash_begin();
    for (size_t i = 0; i < set->count; i++) {
        const struct asm_constant *constant = &set->constants[i];
        const uint8_t value = (uint8_t)constant->value;
        hash_update(state, constant->name, strlen(constant->name) + 1);
        hash_update(state, &value, sizeof value);
    }
    if (!hash_finish(state, &hash))
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for the digest of a flag set");
    hash_text(&hash, set->digest);
    uint32_t head;
    memcpy(&head, hash.bytes, sizeof head);
    set->number = head | UINT32_C(0x80000000);
    return 0;
}

static int set_probe(struct flag_set *set, struct files *files, const char *header,
                     struct ipu_error *error)
{
    struct buffer probe = {0};
    struct asm_image image = {0};
    probe_write(header, &probe);
    int code = probe.failed
                   ? ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for a flag probe")
                   : probe_link((const char *)probe.data, probe.size - 1, files, &image, error);
    if (code == IPU_ERR_COMPILE)
        code = error->code = IPU_ERR_INVALID;
    if (code == 0)
        code = set_fill(set, &image, error);
    if (code == 0)
        code = set_digest(set, error);
    asm_image_free(&image);
    buffer_free(&probe);
    return code;
}

int flag_set_read(const char *directory, struct flag_set **out, struct ipu_error *error)
{
    *out = NULL;
    if (!directory || !directory[0])
        return 0;
    struct flag_set *set = ipu_calloc(1, sizeof *set);
    struct files *files = ipu_calloc(1, sizeof *files);
    int code = 0;
    if (!set || !files) {
        code = ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for a flag set");
        goto release;
    }
    files->directory = directory;
    const char *header = header_find(files);
    if (!header) {
        code = ipu_error_set(error, IPU_ERR_NOT_FOUND,
                             "flag headers %.500s: there is no gc_tile_defines.h, "
                             "arch/gc_tile_defines.h or ipu21.inc that can be read",
                             directory);
        goto release;
    }
    code = set_probe(set, files, header, error);
    if (code != 0)
        code = ipu_error_wrap(error, "flag headers %.500s/%s: ", directory, header);
release:
    for (size_t i = 0; files && i < files->count; i++)
        buffer_free(&files->text[i]);
    ipu_free(files);
    if (code != 0)
        flag_set_free(set);
    else
        *out = set;
    return code;
}

int flag_set_number_of(const char *directory, uint32_t *number, struct ipu_error *error)
{
    struct flag_set *set;
    int code = flag_set_read(directory, &set, error);
    if (code == 0)
        *number = flag_set_number(set);
    flag_set_free(set);
    return code;
}
