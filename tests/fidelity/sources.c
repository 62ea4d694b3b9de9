/* The tile sources of this folder, embedded at build time by tools/embed-sources.sh. */
#include "tests/fidelity/fidelity.h"

#include <string.h>

struct source_row {
    const char *name, *start, *end;
};

extern const struct source_row fidelity_source_table[];
extern const uint64_t fidelity_source_table_count;

const char *fidelity_source(const char *name, size_t *length)
{
    for (size_t i = 0; i < fidelity_source_table_count; i++) {
        const struct source_row *row = &fidelity_source_table[i];
        const char *base = strrchr(row->name, '/');
        if (strcmp(base ? base + 1 : row->name, name) != 0)
            continue;
        *length = (size_t)(row->end - row->start);
        return row->start;
    }
    return NULL;
}
