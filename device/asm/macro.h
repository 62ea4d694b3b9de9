/* Private: the statement stream of the assembler (macro.c) and .macro definitions (define.c). */
#ifndef IPU_ASM_MACRO_H
#define IPU_ASM_MACRO_H

#include "device/asm/passes.h"

struct asm_parameter {
    const char *name;
    const char *initial; /* default text, "" when none */
    bool required, vararg;
};

struct asm_macro {
    const char *name;
    size_t name_length;
    struct asm_parameter *parameters;
    size_t parameter_count, parameter_capacity;
    struct asm_lines body;
    struct asm_macro *next;
};

/* One level of the statement stream: the file, a macro expansion, or a .rept body. */
struct asm_frame {
    const struct asm_lines *lines;
    size_t next, rounds;
    bool macro; /* .exitm leaves it */
    unsigned condition_depth;
    struct asm_frame *below;
};

/* Collects statements up to the directive that closes `open` (".macro" or ".rept"). */
int macro_collect(struct asm_context *ctx, struct asm_text *open, bool macro,
                  struct asm_lines *body);
/* Replaces \name, \@ and \() in every line of a body. values[i] goes with parameters[i]. */
int macro_substitute(struct asm_context *ctx, const struct asm_macro *macro,
                     const char *const *values, const struct asm_origin *origin,
                     struct asm_lines *out);

#endif
