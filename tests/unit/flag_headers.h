/* For tests: a folder with a tile header that gives the flag names other numbers than ours. */
#ifndef IPU_TESTS_FLAG_HEADERS_H
#define IPU_TESTS_FLAG_HEADERS_H

#include "base/buffer.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char header_folder[64];

static inline void header_folder_make(void)
{
    strcpy(header_folder, "/tmp/ipu-flags-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(header_folder));
}

static inline void header_folder_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", header_folder);
    ck_assert_int_eq(system(command), 0);
}

static inline void header_put(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", header_folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    mkdir(path, 0755);
    *slash = '/';
    ck_assert_int_eq(buffer_write_file(path, text, strlen(text)), 0);
}

/* The GEMM's four phases, each `shift` more than ours. */
static inline void header_put_phases(const char *name, unsigned shift)
{
    char text[512];
    snprintf(text, sizeof text,
             "#ifndef GUARD\n#define GUARD\n#define TAMP_F16V4_E4_P0 (%u)\n"
             "#define TAMP_F16V4_E4_P1 (TAMP_F16V4_E4_P0 + 1)\n"
             "#define TAMP_F16V4_E4_P2 0x%x\n#define TAMP_F16V4_E4_P3 %u\n#endif\n",
             shift, shift + 2, shift + 3);
    header_put(name, text);
}

#endif
