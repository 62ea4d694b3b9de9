/* The table of control and status registers and its searches: see csr.h.
 *
 * Searches are linear: 137 rows, used while assembling and disassembling, never while simulating.
 */
#include "device/ipu21/csr.h"

#include <string.h>

#define FIELD(name, high, low)                       +1
#define CSR(id, name, space, context, index, fields) FIELDS_##id = 0 fields,
enum field_counts {
#include "device/ipu21/csr.def"
};
#undef FIELD
#undef CSR

#define FIELD(name_, high_, low_) {.name = #name_, .high = high_, .low = low_},
#define CSR(id, name_, space_, context_, index_, fields_)                                          \
    {.name = name_,                                                                                \
     .space = CSR_SPACE_##space_,                                                                  \
     .context = CSR_CONTEXT_##context_,                                                            \
     .index = index_,                                                                              \
     .field_count = FIELDS_##id,                                                                   \
     .fields = {fields_}},

const struct csr csr_table[] = {
#include "device/ipu21/csr.def"
};
const size_t CSR_COUNT = sizeof(csr_table) / sizeof(csr_table[0]);

static bool visible(const struct csr *csr, bool supervisor)
{
    if (csr->context == CSR_CONTEXT_BOTH)
        return true;
    return csr->context == (supervisor ? CSR_CONTEXT_SUPERVISOR : CSR_CONTEXT_WORKER);
}

const struct csr *csr_find(const char *name, bool supervisor)
{
    for (size_t i = 0; i < CSR_COUNT; i++)
        if (visible(&csr_table[i], supervisor) && strcmp(csr_table[i].name, name) == 0)
            return &csr_table[i];
    return NULL;
}

bool csr_exists(const char *name)
{
    for (size_t i = 0; i < CSR_COUNT; i++)
        if (csr_table[i].space != CSR_SPACE_TDI && strcmp(csr_table[i].name, name) == 0)
            return true;
    return false;
}

const struct csr *csr_at(enum csr_space space, bool supervisor, unsigned index)
{
    for (size_t i = 0; i < CSR_COUNT; i++) {
        const struct csr *csr = &csr_table[i];
        bool match = space == CSR_SPACE_TDI || visible(csr, supervisor);
        if (match && csr->space == space && csr->index == index)
            return csr;
    }
    return NULL;
}
