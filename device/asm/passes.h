/* Private functions of the assembler, pass by pass: see internal.h for the order and the data.
 *
 * Every int result is 0 or the code that asm_fail() recorded.
 */
#ifndef IPU_ASM_PASSES_H
#define IPU_ASM_PASSES_H

#include "device/asm/internal.h"

/* --- cpp.c --- */
int cpp_run(struct asm_context *ctx, const char *file, const char *text, size_t length,
            struct asm_lines *out);

/* --- prelude.c --- */
/* Value of a predefined constant (flags, CSR_*__INDEX, TMEM_* ...). */
bool prelude_find(const struct asm_context *ctx, const char *name, size_t length, int64_t *value);
/* Whether an include name is the header that the assembler itself supplies. */
bool prelude_is_header(const char *name);

/* --- macro.c --- */
int macro_run(struct asm_context *ctx, const struct asm_lines *lines);
int macro_split(struct asm_context *ctx, const struct asm_lines *lines, struct asm_lines *out);
int macro_push(struct asm_context *ctx, const struct asm_lines *lines, size_t rounds,
               const char *name, const struct asm_text *call);
/* The next statement of the innermost expansion; NULL at the end of input. */
struct asm_text *macro_next(struct asm_context *ctx);
bool macro_known(const struct asm_context *ctx, const char *name, size_t length);
int macro_invoke(struct asm_context *ctx, struct asm_text *call, size_t name_from, size_t name_to);
int macro_define(struct asm_context *ctx, struct asm_text *text, size_t from);
int macro_purge(struct asm_context *ctx, struct asm_text *text, size_t from);
int macro_repeat(struct asm_context *ctx, struct asm_text *text, size_t from);
int macro_irp(struct asm_context *ctx, struct asm_text *text, size_t from, bool characters);
int macro_exit(struct asm_context *ctx, struct asm_text *text);

/* --- condition.c --- */
/* Handles `.if` and its family. *handled tells whether the directive was one. */
int condition_directive(struct asm_context *ctx, struct asm_text *text, const char *name,
                        size_t from, bool *handled);
bool condition_active(const struct asm_context *ctx);
int condition_finish(struct asm_context *ctx);

/* --- cursor helpers (cursor.c): parsing inside one statement --- */
struct asm_cursor {
    struct asm_context *ctx;
    struct asm_text *text;
    size_t at;
};
char cursor_peek(struct asm_cursor *cursor); /* skips blanks; 0 at the end */
bool cursor_accept(struct asm_cursor *cursor, const char *token);
int cursor_expect(struct asm_cursor *cursor, const char *token, const char *what);
/* Length of the identifier at the cursor (after blanks), 0 when there is none. */
size_t cursor_identifier(struct asm_cursor *cursor, const char **name);
/* A quoted string with escapes resolved, in the arena. */
int cursor_string(struct asm_cursor *cursor, char **data, size_t *length);
int cursor_end(struct asm_cursor *cursor, const char *after);

/* --- symbol.c --- */
struct asm_name *symbol_get(struct asm_context *ctx, const char *name, size_t length);
struct asm_name *symbol_find(struct asm_context *ctx, const char *name, size_t length);
int symbol_define_label(struct asm_context *ctx, struct asm_text *text, size_t at, size_t length);
struct asm_name *symbol_local(struct asm_context *ctx, uint32_t number, bool forward);
struct asm_name *symbol_here(struct asm_context *ctx);

/* --- expr.c, eval.c --- */
int expr_parse(struct asm_cursor *cursor, const struct asm_expr **out);
/* Parses an expression whose value must be known now. */
int expr_parse_absolute(struct asm_cursor *cursor, int64_t *value);
/* False when the expression has no value of the form constant + symbol - symbol. */
bool expr_evaluate(struct asm_context *ctx, const struct asm_expr *expr, struct asm_value *value);
bool expr_constant(struct asm_context *ctx, const struct asm_expr *expr, int64_t *value);
const struct asm_expr *expr_number(struct asm_context *ctx, int64_t number);
const struct asm_expr *expr_negate(struct asm_context *ctx, const struct asm_expr *expr);

/* --- operand.c --- */
int operand_parse(struct asm_cursor *cursor, struct asm_operand *operand);
const char *operand_describe(const struct isa_operand *operand, char *text, size_t size);

/* --- alias.c, match.c, instruction.c --- */
/* Rewrites pseudo-instructions; fills up to two (mnemonic, operands) pairs. */
struct asm_written {
    const char *mnemonic;
    enum asm_prefer prefer;
    unsigned count;
    uint32_t at; /* of the mnemonic */
    struct asm_operand operands[ASM_MAX_WRITTEN];
};
int alias_apply(struct asm_context *ctx, struct asm_text *text, struct asm_written written[2],
                unsigned *count);
int match_form(struct asm_context *ctx, struct asm_text *text, const struct asm_written *written,
               struct asm_inst *inst);
enum asm_post match_post(const struct isa_form *form, unsigned operand);
bool alias_known(const char *name, size_t length);
int instruction_parse(struct asm_context *ctx, struct asm_text *text, size_t from, size_t to);
int instruction_open(struct asm_context *ctx, struct asm_text *text);
int instruction_close(struct asm_context *ctx, struct asm_text *text);

/* --- directive.c, data.c --- */
int directive_run(struct asm_context *ctx, struct asm_text *text, size_t from);
int data_directive(struct asm_cursor *cursor, const char *name, bool *handled);

/* --- emit.c --- */
struct asm_section *section_get(struct asm_context *ctx, const char *name, uint32_t type,
                                uint32_t flags);
uint32_t section_size(const struct asm_section *section);
int emit_bytes(struct asm_context *ctx, const struct asm_text *text, const void *data, size_t size);
int emit_zero(struct asm_context *ctx, const struct asm_text *text, uint64_t size, uint8_t fill);
int emit_align(struct asm_context *ctx, const struct asm_text *text, uint32_t alignment,
               const uint8_t *fill, uint32_t limit);
int emit_value(struct asm_context *ctx, struct asm_text *text, uint32_t at,
               const struct asm_expr *expr, unsigned bytes);
int emit_instruction(struct asm_context *ctx, const struct asm_inst *inst, bool bundled);

/* --- finish.c --- */
int finish_run(struct asm_context *ctx);

/* --- object.c --- */
int object_write(struct asm_context *ctx, struct buffer *object);

#endif
