/* Private to device/driver: the little programs of the self-test, as packages.
 *
 * Each is assembled from its text for the roles that tiles have in it, linked behind the supervisor
 * runtime, and packaged with the data of each tile. A tile that finds a wrong word stops on a trap
 * at the symbol `mismatch`. Caller frees with package_destroy(). Errors: those of assembler, linker
 * and package writer, and IPU_ERR_NO_MEMORY.
 */
#ifndef IPU_DRIVER_SELFTEST_PROGRAMS_H
#define IPU_DRIVER_SELFTEST_PROGRAMS_H

#include "base/error.h"
#include "device/package/package.h"

#include <stdint.h>

enum {
    SELFTEST_SYMBOL_ADDRESS = 0x58010, /* where the one-tile program leaves its result */
    SELFTEST_PAGE_TILES = 6,
    SELFTEST_PAGE_WORDS = PACKAGE_PAGE_BYTES / 4,
    SELFTEST_FIRST = 0, /* the pair that exchanges */
    SELFTEST_SECOND = 1001
};

/* Tile 0 computes SELFTEST_RESULT after the session has started; one more host synchronisation. */
#define SELFTEST_RESULT UINT32_C(0x600dbeef)
IPU_MUST_CHECK int selftest_program_load(uint32_t flag_set, struct package **out,
                                         struct ipu_error *error);
/* The pair sends 32 words there and back; both compare; one host synchronisation. */
IPU_MUST_CHECK int selftest_program_exchange(uint32_t flag_set, struct package **out,
                                             struct ipu_error *error);
/* Tile 0 calls a kernel and compares its result: the GEMM on the AMP units when the flag set is
 * ours, else an addition (*amp says which); one host synchronisation. */
IPU_MUST_CHECK int selftest_program_kernel(uint32_t flag_set, struct package **out, bool *amp,
                                           struct ipu_error *error);
/* Input "x" [SELFTEST_PAGE_TILES, SELFTEST_PAGE_WORDS], output "y": y = x + selftest_key(i) in row
 * i. */
IPU_MUST_CHECK int selftest_program_pages(uint32_t flag_set, struct package **out,
                                          struct ipu_error *error);
uint32_t selftest_key(unsigned index);

#endif
