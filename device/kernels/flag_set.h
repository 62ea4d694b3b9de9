/* The numbers behind TAMP_*, TSLIC_*, TISTACC_* and TSTACC_* that a compile uses: ours, or those of
 * the vendor's tile header.
 *
 * The vendor's numbers are not public (facts/asm_dialect.md section 6). Ours (flags.def) are what
 * the simulator decodes; code for a card needs the header of a machine that has the vendor's tools.
 * A set is constant once it is read and may be shared by threads. The absent set, NULL, is ours.
 */
#ifndef IPU_KERNELS_FLAG_SET_H
#define IPU_KERNELS_FLAG_SET_H

#include "base/error.h"
#include "device/asm/asm.h"

struct flag_set;

/* Reads gc_tile_defines.h, arch/gc_tile_defines.h or ipu21.inc of `directory` with everything that
 * it includes from there, and keeps the value of each name of flags.def that it defines. *out is
 * NULL (ours) when `directory` is NULL or empty. Errors: IPU_ERR_NOT_FOUND without a header,
 * IPU_ERR_INVALID when it does not assemble, defines none of the names or one out of 0..63. Reads
 * files: not for an event loop. */
IPU_MUST_CHECK int flag_set_read(const char *directory, struct flag_set **out,
                                 struct ipu_error *error);
void flag_set_free(struct flag_set *set);

/* What a package records and a device compares: 1 for ours, else 31 bits of the digest of the names
 * and values, with bit 31 set. */
uint32_t flag_set_number(const struct flag_set *set);
/* 64 hexadecimal digits over names and values, for cache keys; "" for ours. */
const char *flag_set_digest(const struct flag_set *set);
/* The names and values for struct asm_options; NULL for ours. */
const struct asm_constant *flag_set_constants(const struct flag_set *set, size_t *count);

/* flag_set_number() of a directory, for struct device_options. */
IPU_MUST_CHECK int flag_set_number_of(const char *directory, uint32_t *number,
                                      struct ipu_error *error);

#endif
