/* The IPU21 instruction table: forms, operands, encode, decode.
 *
 * One table (isa.def) drives the assembler, the disassembler and the simulator's decoder.
 * Everything here is constant and safe from any thread. Field layouts come from facts/isa.tsv,
 * conventions from facts/isa_semantics.md and facts/asm_dialect.md.
 */
#ifndef IPU_IPU21_ISA_H
#define IPU_IPU21_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* One enumerator per form: ISA_ADD_MR_MR_MR, ISA_ADD_MR_MR_SIMM16, ... ISA_COUNT. */
enum isa_form_id {
#define FORM(id, ...) ISA_##id,
#include "device/ipu21/isa.def"
#undef FORM
    ISA_COUNT
};

enum isa_lane { ISA_LANE_MAIN, ISA_LANE_AUX };
enum isa_contexts { ISA_CONTEXTS_BOTH, ISA_CONTEXTS_WORKER, ISA_CONTEXTS_SUPERVISOR };
enum isa_class {
    ISA_CLASS_PLAIN,
    ISA_CLASS_LOAD,
    ISA_CLASS_STORE,
    ISA_CLASS_LOAD_STORE,
    ISA_CLASS_CONTROL,
    ISA_CLASS_SYSTEM
};

/* Operand kinds. Register kinds first; ISA_KIND_FIRST_IMMEDIATE starts the immediates. */
enum isa_kind {
    ISA_KIND_MR,
    ISA_KIND_MR_PAIR,
    ISA_KIND_AR,
    ISA_KIND_AR_BL, /* one AR, low half copied to all lanes */
    ISA_KIND_AR_BU, /* one AR, high half copied to all lanes */
    ISA_KIND_AR_B,  /* one AR copied to both f32 lanes */
    ISA_KIND_AR_PAIR,
    ISA_KIND_AR_QUAD,
    ISA_KIND_FIRST_IMMEDIATE,
    ISA_KIND_ZIMM = ISA_KIND_FIRST_IMMEDIATE, /* zero-extended */
    ISA_KIND_SIMM,                            /* sign-extended */
    ISA_KIND_UPPR,                            /* value = field << 20 */
    ISA_KIND_CSR,                             /* lower CSR index */
    ISA_KIND_UCSR,                            /* upper CSR index minus 256 */
    ISA_KIND_CCSR,                            /* CWEI slot */
    ISA_KIND_WADDR,                           /* byte address >> 2 */
    ISA_KIND_ENUM,                            /* rounding mode, AMP/SLIC/gina/stacc flags */
    ISA_KIND_PACE,                            /* packed stride selectors */
    ISA_KIND_SCTL                             /* send control */
};
enum isa_access { ISA_ACCESS_I, ISA_ACCESS_R, ISA_ACCESS_W, ISA_ACCESS_RW };

enum { ISA_MAX_OPERANDS = 6, ISA_MAX_FIELDS = 3 };

struct isa_field {
    uint8_t value_low; /* lowest value bit this piece holds */
    uint8_t width;     /* 0 ends the list */
    uint8_t bit_low;   /* lowest instruction bit; 32.. = second word */
};

struct isa_operand {
    enum isa_kind kind;
    enum isa_access access;
    uint8_t width; /* value bits of an immediate: 2..20; 4 for registers */
    struct isa_field fields[ISA_MAX_FIELDS];
};

struct isa_form {
    const char *mnemonic;
    const char *syntax; /* as in isa.def, e.g. "ld64step $A, $B, $C+=, D" */
    uint8_t words;      /* 1, or 2 for sendpicp */
    uint8_t operand_count;
    enum isa_lane lane;
    enum isa_contexts contexts;
    bool coissue;
    enum isa_class class_;
    bool ipu21_only;
    uint32_t mask, match;
    struct isa_operand operands[ISA_MAX_OPERANDS];
};

extern const struct isa_form isa_forms[ISA_COUNT];

/* Operand values of one decoded instruction, in the order of the text. Registers: number of the
 * first register. Immediates: signed values are sign-extended, UPPR is already shifted, WADDR is a
 * BYTE address. */
struct isa_inst {
    uint16_t form; /* enum isa_form_id */
    int32_t operand[ISA_MAX_OPERANDS];
};

/* Decodes one word on the given lane (a bundle's words are decoded one by one with bit 31 ignored;
 * `bundled` says so). For sendpicp `next` supplies the second word. Returns false when no form
 * matches. */
bool isa_decode(uint32_t word, uint32_t next, bool bundled, enum isa_lane lane,
                struct isa_inst *out);

/* Lone words choose their lane by bits; tries main then aux. */
bool isa_decode_lone(uint32_t word, uint32_t next, struct isa_inst *out);

/* Encodes into words[0] (and words[1] for two-word forms); bit 31 is set when `bundled`. Returns
 * false when an operand does not fit its field, is misaligned, or a register number is not legal
 * for its kind. */
bool isa_encode(const struct isa_inst *inst, bool bundled, uint32_t words[2]);

/* Finds a form by identifier text ("add(MR,MR,simm16)" is not kept; use the enumerator) - by
 * mnemonic: the first form of that mnemonic or ISA_COUNT; forms of one mnemonic are contiguous. */
unsigned isa_find_mnemonic(const char *mnemonic);

#endif
