/* Assembler, objects, linker and disassembler of the IPU21 tile dialect (facts/asm_dialect.md).
 *
 * The functions keep no state between calls and may run on any thread. Sources, includes and
 * objects are memory; only the tools touch files.
 */
#ifndef IPU_ASM_ASM_H
#define IPU_ASM_ASM_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct asm_define {
    const char *name;
    const char *value; /* NULL = "1" */
};

struct asm_constant {
    const char *name;
    int64_t value;
};

/* Returns the text of an include file (NUL-terminated, valid for the whole call) or NULL. */
typedef const char *(*asm_include)(void *context, const char *name, size_t *length);

struct asm_options {
    const struct asm_define *defines;
    size_t define_count;
    asm_include include; /* may be NULL: no includes */
    void *include_context;
    /* What stands for the names of flags.def instead of our numbers; NULL = ours. A name that is
     * not among them is not defined. */
    const struct asm_constant *flags;
    size_t flag_count;
};

/* Assembles `text` (named `file` in messages) into an ELF32 relocatable object; `object` must be
 * empty. Errors are IPU_ERR_COMPILE and read "file:line:column: what was expected"; then `object`
 * stays empty. __IPU__=1 and __IPU_ARCH_VERSION__=21 are predefined.
 *
 * Where this dialect decides something (facts/asm_dialect.md leaves it open or differs):
 * - Without .worker or .supervisor, instructions of both modes are accepted.
 * - Targets of bri, br* and call are byte addresses also when they are numbers; the address of send
 *   and sendpicp is a word index when it is a number, and a byte address when it is a label.
 * - Names of prelude.def, flags.def and CSR_*__INDEX (SHIFT, SIZE, MASK) are predefined symbols; a
 *   macro or symbol of the same name wins. Including "gc_tile_defines.h" or "ipu21.inc" (in any
 *   folder, when the caller has no such file) makes them "defined" for #ifdef. */
IPU_MUST_CHECK int asm_assemble(const char *file, const char *text, size_t length,
                                const struct asm_options *options, struct buffer *object,
                                struct ipu_error *error);

struct asm_object {
    const uint8_t *data;
    size_t size;
    const char *name; /* for messages */
};
struct asm_symbol {
    const char *name;
    uint32_t address;
};
/* A linked image: bytes from `base`, symbols sorted by name. Release with asm_image_free(). */
struct asm_image {
    uint32_t base;
    struct buffer bytes;
    struct asm_symbol *symbols;
    size_t symbol_count;
};

/* Links objects at `base`: sections in object order, .text then .rodata then .data then .bss (zero
 * bytes), alignment kept. With `roots` given, sections that no root reaches are dropped (section
 * collection); root sections keep their order. External symbols can be supplied. Errors: undefined
 * or duplicate symbols, overflow or misalignment of a relocation (IPU_ERR_COMPILE). */
struct asm_link_options {
    uint32_t base;
    const char *const *roots;
    size_t root_count; /* 0 = keep everything */
    const struct asm_symbol *externals;
    size_t external_count;
};
IPU_MUST_CHECK int asm_link(const struct asm_object *objects, size_t count,
                            const struct asm_link_options *options, struct asm_image *image,
                            struct ipu_error *error);
void asm_image_free(struct asm_image *image);
/* Address of a global symbol, or 0 when there is none (0 is never a valid SRAM address). */
uint32_t asm_image_symbol(const struct asm_image *image, const char *name);

/* Text of one instruction or bundle at `address`. Returns the number of bytes consumed (4 or 8);
 * undecodable words print as
 * ".long 0x...". `next` is the following word (0 when there is none). */
unsigned asm_disassemble(uint32_t address, uint32_t word, uint32_t next, char *text, size_t size);

#endif
