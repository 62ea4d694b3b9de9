/* The bytes of the secondary loader: the project's own, assembled from the embedded source, or one
 * from an ELF file (a vendor's, for a card).
 *
 * An ELF file is not trusted: its segment must lie in the file and in the loader's 4,096 bytes.
 */
#include "device/driver/boot.h"

#include <errno.h>
#include <gelf.h>
#include <string.h>

enum { KIB = 1024, MAX_FILE = 16 << 20, MAX_SEGMENTS = 4096 };
static int take(struct boot_loader *out, const char *name, const uint8_t *bytes, size_t size,
                struct ipu_error *error)
{
    if (size == 0 || size > LOADER_MAX_BYTES)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "%s: a secondary loader of %zu bytes; it has to fit in %d", name, size,
                             LOADER_MAX_BYTES);
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, bytes, size);
    out->size = (uint32_t)((size + KIB - 1) / KIB * KIB);
    return 0;
}

static int build_own(struct boot_loader *out, struct ipu_error *error)
{
    struct buffer bytes = {0};
    int code = loader_build(&bytes, error);
    if (code == 0)
        code = take(out, "own loader", bytes.data, bytes.size, error);
    buffer_free(&bytes);
    out->own = true;
    return code;
}

/* --- ELF --- */

static int bad_elf(const char *path, const char *why, struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_INVALID, "secondary loader %s: %s", path, why);
}

/* gelf copies headers, which may lie at any offset of the file. */
static int take_segment(Elf *elf, const struct buffer *file, const char *path,
                        struct boot_loader *out, struct ipu_error *error)
{
    size_t count;
    GElf_Phdr h;
    if (gelf_getclass(elf) != ELFCLASS32 || elf_getphdrnum(elf, &count) != 0)
        return bad_elf(path, "this is no 32-bit ELF file with segments", error);
    for (size_t i = 0; i < count && i < MAX_SEGMENTS; i++) {
        if (!gelf_getphdr(elf, (int)i, &h))
            return bad_elf(path, "its segments cannot be read", error);
        if (h.p_type != PT_LOAD || h.p_filesz == 0 || h.p_vaddr != LOADER_BASE)
            continue;
        if (h.p_offset > file->size || h.p_filesz > file->size - h.p_offset)
            return bad_elf(path, "its segment at 0x4c000 reaches beyond the file", error);
        return take(out, path, file->data + h.p_offset, h.p_filesz, error);
    }
    return bad_elf(path, "it has no segment at 0x4c000", error);
}

static int read_elf(const char *path, struct boot_loader *out, struct ipu_error *error)
{
    struct buffer file = {0};
    int code = buffer_read_file(&file, path, MAX_FILE);
    if (code != 0) {
        buffer_free(&file);
        return ipu_error_set(error, code == -ENOENT ? IPU_ERR_NOT_FOUND : IPU_ERR_IO,
                             "secondary loader %s: %s", path, strerror(-code));
    }
    elf_version(EV_CURRENT);
    Elf *elf = file.size != 0 ? elf_memory((char *)file.data, file.size) : NULL;
    code = elf && elf_kind(elf) == ELF_K_ELF ? take_segment(elf, &file, path, out, error)
                                             : bad_elf(path, "this is no ELF file", error);
    elf_end(elf);
    buffer_free(&file);
    return code;
}

int boot_loader_read(const char *path, struct boot_loader *out, struct ipu_error *error)
{
    return path && path[0] != '\0' ? read_elf(path, out, error) : build_own(out, error);
}
