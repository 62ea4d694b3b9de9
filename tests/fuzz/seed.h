/* Seeds of a fuzz target: with FUZZ_SEEDS=DIR in the environment a target writes them there before
 * it starts, so that the corpus needs no binary files in the tree. */
#ifndef IPU_TESTS_FUZZ_SEED_H
#define IPU_TESTS_FUZZ_SEED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* `prefix` >= 0: a byte that goes before the data. */
static inline void fuzz_seed(const char *name, int prefix, const void *data, size_t size)
{
    const char *folder = getenv("FUZZ_SEEDS");
    char path[1024];
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/seed-%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || (prefix >= 0 && fputc(prefix, file) == EOF) ||
        fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        fprintf(stderr, "cannot write the seed %s\n", path);
        exit(1);
    }
}

#endif
