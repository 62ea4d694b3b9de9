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
    /* A macro expansion substitutes a line when it is its turn, so that lines of branches not taken
     * cost nothing: the macro, the values of its parameters, where it was called, \@. */
    const struct asm_macro *expansion;
    const char *const *values;
    const struct asm_origin *origin;
    unsigned counter;
    struct asm_lines split; /* statements of the line before, where arguments made several of it */
    size_t split_next;
};

/* Collects statements up to the directive that closes `open` (".macro" or ".rept"). */
int macro_collect(struct asm_context *ctx, struct asm_text *open, bool macro,
                  struct asm_lines *body);
/* The next line of a macro expansion, substituted; NULL: it holds no statement, or ctx->failed. */
struct asm_text *macro_expand_line(struct asm_context *ctx, struct asm_frame *frame);
/* Replaces \name, \@ and \() in every line of a body. values[i] goes with parameters[i]. */
int macro_substitute(struct asm_context *ctx, const struct asm_macro *macro,
                     const char *const *values, const struct asm_origin *origin,
                     struct asm_lines *out);

#endif
