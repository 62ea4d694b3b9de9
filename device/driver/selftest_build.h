/* Private to device/driver: assembling and packaging the programs of the self-test.
 *
 * Roles: a program is assembled once for each role that a tile can have, with ROLE and the numbers
 * of the role defined; tiles of a role share the bytes.
 */
#ifndef IPU_DRIVER_SELFTEST_BUILD_H
#define IPU_DRIVER_SELFTEST_BUILD_H

#include "device/asm/asm.h"
#include "device/package/package.h"

enum {
    SELFTEST_IDLE,
    SELFTEST_ROLES = 4,
    SELFTEST_DEFINES = 20,
    /* Data of the programs, each in an element of its own. */
    SELFTEST_SOURCE = 0x64000,
    SELFTEST_TARGET = 0x68000,
    SELFTEST_EXPECTED = 0x6c000
};

/* How every text begins. `compare` stops the tile at `mismatch` when words differ. */
#define SELFTEST_HEAD                                                                              \
    "    .macro compare words, found, expected\n"                                                  \
    "    setzi $m0, \\found\n"                                                                     \
    "    setzi $m1, \\expected\n"                                                                  \
    "    setzi $m2, \\words - 1\n"                                                                 \
    "2:  ld32step $m3, $mzero, $m0+=, 1\n"                                                         \
    "    ld32step $m4, $mzero, $m1+=, 1\n"                                                         \
    "    cmpeq $m3, $m3, $m4\n"                                                                    \
    "    brz $m3, mismatch\n"                                                                      \
    "    brnzdec $m2, 2b\n"                                                                        \
    "    .endm\n"                                                                                  \
    "    .section .text.program, \"ax\"\n"                                                         \
    "    .supervisor\n"                                                                            \
    "    .align 8\n"                                                                               \
    "    .globl program_entry\n"                                                                   \
    "program_entry:\n"                                                                             \
    "    sync 7\n" /* the session starts */
/* How a program that checks itself ends: one host synchronisation. */
#define SELFTEST_TAIL                                                                              \
    "    sync 7\n"                                                                                 \
    "1:  sync 7\n"                                                                                 \
    "    bri 1b\n"                                                                                 \
    "    .globl mismatch\n"                                                                        \
    "mismatch:\n"                                                                                  \
    "    trap 0\n"

struct selftest_defines {
    struct asm_define list[SELFTEST_DEFINES];
    char values[SELFTEST_DEFINES][16];
    size_t count;
};
void selftest_define(struct selftest_defines *defines, const char *name, uint32_t value);

struct selftest_build {
    struct package *package;
    struct package_info info;
    struct buffer runtime, kernel; /* objects; `kernel` may be empty */
    const char *name;
    int blobs[SELFTEST_ROLES];
    uint32_t sizes[SELFTEST_ROLES];
    uint32_t rows[SELFTEST_ROLES][2]; /* symbols `row` and `row_end`, or 0 */
    struct ipu_error *error;
};
/* `info` may be changed until selftest_finish(). */
IPU_MUST_CHECK int selftest_begin(struct selftest_build *b, const char *name, uint32_t flag_set,
                                  struct ipu_error *error);
/* Assembles `text` for the roles below `count`; extra[role] are its definitions, or NULL. */
IPU_MUST_CHECK int selftest_make_roles(struct selftest_build *b, const char *text, unsigned count,
                                       const struct selftest_defines *extra);
/* Images of all tiles, by their role. */
void selftest_place(struct selftest_build *b, const uint8_t *roles);
void selftest_add_data(struct selftest_build *b, unsigned tile, uint32_t address, const void *data,
                       uint32_t bytes);
/* Serialises and reads back, as every package that a device runs; frees the build. `code`: of what
 * went before. */
IPU_MUST_CHECK int selftest_finish(struct selftest_build *b, int code, struct package **out);

#endif
