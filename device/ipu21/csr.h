/* Control and status registers: names, indices and fields. One table (csr.def, from
 * facts/csrs.tsv).
 *
 * Indices are architectural: the upper space (uget/uput, workers only) starts at 0x100, and its
 * instructions carry the index minus 0x100. Below 0x70 the same lower index means different
 * registers in worker and supervisor mode. Constant data and pure functions, any thread.
 */
#ifndef IPU_IPU21_CSR_H
#define IPU_IPU21_CSR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum csr_space {
    CSR_SPACE_LOWER, /* get, put */
    CSR_SPACE_UPPER, /* uget, uput */
    CSR_SPACE_CCCS,  /* ld64putcs, ld128putcs: AMP weights */
    CSR_SPACE_TDI    /* host debug port, not reachable by instructions */
};
enum csr_context { CSR_CONTEXT_BOTH, CSR_CONTEXT_SUPERVISOR, CSR_CONTEXT_WORKER, CSR_CONTEXT_HOST };

enum { CSR_UPPER_BASE = 0x100, CSR_MAX_FIELDS = 10 };

/* Indices: CSR_S_x of the supervisor, CSR_W_x of workers (both spaces), CSR_C_x of every context,
 * CSR_CCCS_CWEI_n_m weight slots, CSR_TDI_x of the debug port. */
enum csr_index {
#define CSR(id, name, space, context, index, fields) CSR_##id = (index),
#include "device/ipu21/csr.def"
#undef CSR
};

struct csr_field {
    const char *name;
    uint8_t high, low; /* bit numbers */
};

struct csr {
    const char *name;
    enum csr_space space;
    enum csr_context context;
    uint16_t index;
    uint8_t field_count;
    struct csr_field fields[CSR_MAX_FIELDS];
};

/* The table in the order of csr.def, CSR_COUNT rows. */
extern const struct csr csr_table[];
extern const size_t CSR_COUNT;

/* The register that instructions of a mode reach under `name` (no leading $), or NULL: no such
 * name, or not in this mode (csr_exists() tells the two apart). */
const struct csr *csr_find(const char *name, bool supervisor);
bool csr_exists(const char *name);
/* The register at an index of a space in a mode, or NULL. */
const struct csr *csr_at(enum csr_space space, bool supervisor, unsigned index);

#endif
