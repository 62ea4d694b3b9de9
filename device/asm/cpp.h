/* Private: the C preprocessor of the assembler. Tokens, macros and the pieces that cpp.c drives.
 *
 * `$` and `.` are punctuation, so that `#define w_ptr m8:9` serves `$w_ptr`. Token text points into
 * the source or the arena and is never freed. Nothing here survives asm_assemble().
 */
#ifndef IPU_ASM_CPP_H
#define IPU_ASM_CPP_H

#include "device/asm/passes.h"

enum cpp_kind { CPP_IDENTIFIER, CPP_NUMBER, CPP_STRING, CPP_PUNCTUATION, CPP_EMPTY };

struct cpp_token {
    const char *text;
    uint32_t length;
    uint16_t column;
    uint8_t kind;
    bool space;  /* white space stands before it */
    bool frozen; /* a macro name met inside its own expansion */
    bool fixed;  /* from a macro: all characters share `column` */
};

struct cpp_tokens {
    struct cpp_token *items;
    size_t count, capacity;
};

enum cpp_builtin { CPP_ORDINARY, CPP_LINE, CPP_FILE, CPP_COUNTER };

struct cpp_macro {
    const char *name;
    uint32_t length;
    uint8_t builtin;
    bool function, variadic, active;
    uint32_t parameter_count;
    struct cpp_token *parameters;
    struct cpp_tokens body;
    struct cpp_macro *next;
};

enum { CPP_BUCKETS = 256, CPP_MAX_NESTING = 100 };

struct cpp_condition {
    bool taken, active, parent_active, seen_else;
    struct asm_text opened;
    struct cpp_condition *below;
};

/* A file being read. */
struct cpp_reader {
    const char *file, *text;
    size_t length, at;
    uint32_t line;
};

struct cpp {
    struct asm_context *ctx;
    struct cpp_macro *macros[CPP_BUCKETS];
    struct cpp_condition *condition;
    unsigned condition_depth, include_depth, nesting;
    struct asm_lines *out;
    struct cpp_reader *reader;
    size_t tokens_made;
    unsigned counter;
    bool prelude_included;
    char *scratch; /* one logical line under construction, ASM_MAX_LINE + 1 bytes */
    uint16_t *scratch_columns;
};

/* --- cpp_read.c --- The next logical line: continued lines joined, comments removed. *directive
 * tells whether its first character is a `#` that starts a known directive. Returns 1, 0 at the
 * end, or an error code. */
int cpp_read_line(struct cpp *cpp, struct asm_text *line, bool *directive);
int cpp_tokenize(struct cpp *cpp, const struct asm_text *line, size_t from, struct cpp_tokens *out);
int cpp_tokens_add(struct cpp *cpp, struct cpp_tokens *tokens, struct cpp_token token);

/* --- cpp_macro.c --- */
struct cpp_macro *cpp_macro_find(struct cpp *cpp, const char *name, size_t length);
int cpp_define(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *tokens,
               size_t at);
void cpp_undefine(struct cpp *cpp, const char *name, size_t length);
struct cpp_macro *cpp_macro_add(struct cpp *cpp, const char *name, size_t length);

/* --- cpp_expand.c --- Expands macros; with `more`, an argument list may go on in the next lines.
 */
int cpp_expand(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *in, size_t at,
               bool more, struct cpp_tokens *out);

/* --- cpp_if.c --- The value of an #if expression. */
int cpp_evaluate(struct cpp *cpp, const struct asm_text *line, const struct cpp_tokens *tokens,
                 size_t at, int64_t *value);

bool cpp_is(const struct cpp_token *token, const char *text);

#endif
