/* Private data of the assembler: what the passes (passes.h) hand to each other, and its limits.
 *
 *   cpp_*.c     source text -> logical lines (includes, conditionals, C macros, comments gone)
 *   macro.c     lines -> statements (`;`, braces, .macro, .rept, .if)
 *   statement.c labels, directives, bundles, instructions
 *   expr.c, operand.c, match.c, alias.c: operands and the choice of an instruction form
 *   emit.c      sections, words, pending operands; finish.c resolves them and checks repeat bodies
 *   object.c    sections and symbols -> ELF
 *
 * One struct asm_context lives for one asm_assemble(); all memory but section bytes comes from its
 * arena. The first error ends the assembly: every function returns 0 or the code that asm_fail()
 * set.
 */
#ifndef IPU_ASM_INTERNAL_H
#define IPU_ASM_INTERNAL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "device/asm/asm.h"
#include "device/ipu21/csr.h"
#include "device/ipu21/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits: each has one clear error when passed. */
enum {
    ASM_MAX_SOURCE = 8 << 20,    /* bytes of one file */
    ASM_MAX_LINE = 65535,        /* characters of a logical line */
    ASM_MAX_INCLUDES = 32,       /* nesting */
    ASM_MAX_FRAMES = 64,         /* nesting of .macro and .rept expansions */
    ASM_MAX_CONDITIONS = 64,     /* nesting of .if and #if */
    ASM_MAX_EXPRESSION = 64,     /* nesting of parentheses */
    ASM_MAX_STATEMENTS = 400000, /* executed statements, .rept rounds included */
    ASM_MAX_TOKENS = 2000000,    /* tokens produced by C macros */
    ASM_MAX_OUTPUT = 4 << 20,    /* bytes of all sections */
    ASM_MAX_SECTIONS = 2048,
    ASM_MAX_ALIGNMENT = 1 << 16,
    ASM_MEMORY = 512 << 20 /* bytes of arena */
};

/* Where an expansion came from, for messages. */
struct asm_origin {
    const char *macro; /* name, or ".rept" */
    const struct asm_text *call;
};

/* A piece of source: a logical line or a statement. `columns` maps each character to its column in
 * the file (NULL: consecutive from first_column). */
struct asm_text {
    const char *data; /* NUL-terminated */
    uint32_t length;
    uint32_t line;
    const uint16_t *columns;
    uint32_t first_column;
    const char *file;
    const struct asm_origin *origin;
};

struct asm_lines {
    struct asm_text *items;
    size_t count, capacity;
};

struct asm_section;
struct asm_expr;

enum asm_symbol_kind { ASM_SYMBOL_UNDEFINED, ASM_SYMBOL_LABEL, ASM_SYMBOL_VALUE };

struct asm_name {
    const char *name;
    struct asm_name *next_in_bucket, *next; /* `next`: in order of first mention */
    enum asm_symbol_kind kind;
    bool global, weak, local_number, referenced, equated;
    uint8_t type; /* STT_* */
    struct asm_section *section;
    uint32_t offset;
    const struct asm_expr *value; /* ASM_SYMBOL_VALUE */
    const struct asm_expr *size;  /* .size, or NULL */
    uint32_t index;               /* in the ELF symbol table */
    uint32_t visiting;            /* guards evaluation against cycles */
};

enum asm_expr_kind { ASM_EXPR_NUMBER, ASM_EXPR_SYMBOL, ASM_EXPR_UNARY, ASM_EXPR_BINARY };

struct asm_expr {
    enum asm_expr_kind kind;
    uint8_t op;    /* enum asm_op */
    uint8_t reloc; /* relocation that a modifier asks for, 0 = by context */
    bool half;     /* a half-precision literal: negation flips its sign bit */
    int64_t number;
    struct asm_name *symbol;
    const struct csr *csr; /* the number was written as this CSR's name */
    const struct asm_expr *left, *right;
};

/* constant + plus - minus; minus is only left when the difference is not known. */
struct asm_value {
    int64_t constant;
    const struct asm_name *plus, *minus;
    uint8_t reloc;
};

enum asm_post { ASM_POST_NONE, ASM_POST_ADD, ASM_POST_INCREMENT, ASM_POST_SHIFT, ASM_POST_AT };
enum asm_broadcast { ASM_BROADCAST_NONE, ASM_BROADCAST_B, ASM_BROADCAST_BL, ASM_BROADCAST_BU };

struct asm_operand {
    char file; /* 'm', 'a', or 0 for an immediate */
    uint8_t first, count;
    enum asm_broadcast broadcast;
    enum asm_post post;
    const struct asm_expr *expr; /* immediates */
    uint32_t at;                 /* offset in the statement */
};

/* Which immediate forms an alias such as `addz` allows. */
enum asm_prefer { ASM_PREFER_ANY, ASM_PREFER_SIGNED, ASM_PREFER_ZERO };

enum { ASM_MAX_WRITTEN = 8 }; /* operands that can be written after a mnemonic */

/* A matched instruction; exprs[i] is set where the operand's value is not known yet. */
struct asm_inst {
    struct isa_inst isa;
    const struct asm_expr *exprs[ISA_MAX_OPERANDS];
    uint32_t at[ISA_MAX_OPERANDS];
    struct asm_text *text;
};

enum asm_mark { ASM_MARK_DATA, ASM_MARK_SINGLE, ASM_MARK_BUNDLE, ASM_MARK_TAIL };

struct asm_word {
    uint8_t mark;
    bool control; /* class control or system: not allowed in a repeat body */
    const struct asm_text *text;
};

/* An instruction with operands that are resolved at the end, or (data) an expression of `bytes`. */
struct asm_pending {
    struct asm_section *section;
    uint32_t offset;
    bool bundled;
    uint8_t bytes; /* 0: instruction; 1, 2, 4, 8: data */
    uint16_t order;
    struct asm_inst inst;
    struct asm_pending *next;
};

struct asm_reloc {
    uint32_t offset, type;
    const struct asm_name *symbol;
    int32_t addend;
};

/* A rpt whose body is checked at the end. */
struct asm_repeat {
    struct asm_section *section;
    uint32_t body; /* offset */
    struct asm_inst inst;
    bool optimise;
    struct asm_repeat *next;
};

struct asm_section {
    const char *name;
    uint32_t type, flags, alignment, index;
    uint32_t nobits_size;
    struct buffer bytes;
    struct asm_word *words; /* one per 4 bytes of an executable section, malloc'd */
    size_t word_capacity;
    struct asm_reloc *relocs;
    size_t reloc_count, reloc_capacity;
    struct asm_section *next;
};

enum asm_mode { ASM_MODE_ANY, ASM_MODE_WORKER, ASM_MODE_SUPERVISOR };

struct asm_macro;
struct asm_frame;
struct asm_condition;
struct asm_local_label;

struct asm_flags {
    bool optimise, loose_operands, loose_mode, loose_bundles, loose_repeat;
};

enum { ASM_SYMBOL_BUCKETS = 512, ASM_SECTION_STACK = 16 };

struct asm_context {
    struct arena *arena;
    const struct asm_options *options;
    struct ipu_error *error;
    int failed; /* first error code */

    struct asm_name *symbols[ASM_SYMBOL_BUCKETS];
    struct asm_name *first_symbol, **last_symbol;
    struct asm_local_label *local_labels;
    struct asm_section *sections, **last_section, *section;
    struct asm_section *section_stack[ASM_SECTION_STACK], *previous_section;
    unsigned section_depth;
    size_t section_count, output_bytes;
    struct asm_pending *pending, **last_pending;
    struct asm_repeat *repeats, **last_repeat;

    struct asm_macro *macros;
    struct asm_frame *frame;
    unsigned frame_depth, macro_counter;
    struct asm_condition *condition;
    unsigned condition_depth;
    size_t statements;

    enum asm_mode mode;
    struct asm_flags flags;
    bool in_bundle;
    unsigned bundle_count;
    struct asm_inst bundle[2];
    struct asm_text *bundle_text;
};

/* --- context.c --- */
/* Records "file:line:column: ..." for the character at `offset` of `text`; returns the code. */
int asm_fail(struct asm_context *ctx, const struct asm_text *text, size_t offset,
             const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Arena memory; NULL after recording that there is none. */
void *asm_alloc(struct asm_context *ctx, size_t count, size_t size);
/* A copy of `length` bytes with a NUL. */
char *asm_copy(struct asm_context *ctx, const char *data, size_t length);
/* Grows an arena array to hold one more item. */
int asm_grow(struct asm_context *ctx, void *items, size_t count, size_t *capacity, size_t size);
int asm_lines_add(struct asm_context *ctx, struct asm_lines *lines, const struct asm_text *line);
uint32_t asm_column(const struct asm_text *text, size_t offset);
/* A part of a text that keeps its place. */
struct asm_text asm_slice(struct asm_context *ctx, const struct asm_text *text, size_t from,
                          size_t to);
static inline bool asm_identifier_start(char c)
{
    return (unsigned char)((c | 0x20) - 'a') < 26 || c == '_';
}
static inline bool asm_identifier_char(char c)
{
    return asm_identifier_start(c) || (unsigned char)(c - '0') < 10;
}

#endif
