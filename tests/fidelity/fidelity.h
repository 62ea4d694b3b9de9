/* Timing held against hardware: programs that repeat measurements of facts/measurements.tsv on the
 * simulator (tests/fidelity, `make fidelity`).
 *
 * A program is tile code in the assembler dialect with the loop structure of the code that was
 * measured, called and sampled as there: worker 0 reads COUNT_L before and after. Every program
 * also checks what its code has computed, so that a loop that does nothing cannot pass for one that
 * does.
 */
#ifndef IPU_FIDELITY_H
#define IPU_FIDELITY_H

#include "base/error.h"
#include "device/asm/asm.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RIG_ARGS = 8,        /* $m2.. of a call */
    RIG_DEFINES = 8,     /* of a source */
    RIG_FIRST = 0x80000, /* where data may lie: interleaved memory up to RIG_CELLS */
    RIG_LOW = 0x60000,   /* and standard memory up to RIG_STACK */
    RIG_STACK = 0x7e000,
    RIG_CODE = 0x4c100, /* where images are linked */
    RIG_CELLS = 0x7f000 /* the two samples */
};

/* What is called: a source of this folder, its defines, the registers $m2... */
struct rig_call {
    const char *source; /* "reduce.S" */
    struct asm_define defines[RIG_DEFINES];
    unsigned define_count;
    uint32_t args[RIG_ARGS];
    unsigned arg_count;
};

/* Assembles `text`, which may include the sources of this folder, and links it at RIG_CODE. Release
 * the image with asm_image_free(). */
IPU_MUST_CHECK int rig_assemble(const char *name, const char *text,
                                const struct asm_define *defines, unsigned define_count,
                                struct asm_image *image, struct ipu_error *error);

/* One tile. Zeroed memory; rig_run() may be called once. */
struct rig {
    uint8_t *sram;
    struct sim_tile *tile;
};

IPU_MUST_CHECK int rig_open(struct rig *rig, struct ipu_error *error);
void rig_close(struct rig *rig);
/* Bytes of tile memory at `address`. */
void *rig_memory(struct rig *rig, uint32_t address);
/* Assembles, runs, and gives the difference of the two samples in cycles. */
IPU_MUST_CHECK int rig_run(struct rig *rig, const struct rig_call *call, uint32_t *cycles,
                           struct ipu_error *error);

/* A measured thing: runs with the given parameters on its own rig and checks what it has computed.
 */
enum { SUBJECT_PARAMETERS = 6 };
struct subject {
    const char *name;
    int (*measure)(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error);
};
enum subject_id {
#define SUBJECT(id, ...) SUBJECT_##id,
#include "tests/fidelity/subjects.def"
#undef SUBJECT
    SUBJECT_COUNT
};
const struct subject *subject_find(enum subject_id id);

/* Text of a source of this folder (embedded), or NULL. */
const char *fidelity_source(const char *name, size_t *length);

#endif
