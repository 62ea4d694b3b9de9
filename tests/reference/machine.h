/* The slow, obvious worker: one struct of state, operands read and written by their kinds.
 *
 * It is written from facts/isa_semantics.md to check device/sim, and shares nothing with it but the
 * instruction table. Where the facts leave something open it follows docs/MACHINE.md. A half of an
 * instruction reads the state before the instruction; its register writes are collected and land
 * together, so the order of the halves cannot matter.
 */
#ifndef IPU_TESTS_REFERENCE_MACHINE_H
#define IPU_TESTS_REFERENCE_MACHINE_H

#include "device/ipu21/isa.h"
#include "tests/reference/number.h"

#include <string.h>

enum {
    REF_SRAM = 0x4c000,
    REF_REGION1 = 0x80000,
    REF_END = 0xe8000,
    REF_FP = 5,
    REF_CONFLICT = 6,
    REF_INVALID_ADDR = 8,
    REF_INVALID_OP = 9,
    REF_INVALID_PC = 10,
    REF_INVALID_INSTR = 12,
    REF_INV = 1,
    REF_DIV0 = 2,
    REF_OFLO = 4,
    REF_WRITES = 16
};

struct ref_write {
    bool aux; /* ARF */
    uint8_t index;
    uint32_t value;
};

struct ref {
    uint32_t m[16], a[16];
    uint32_t even[2][8], odd[2][8]; /* accumulators, as bits */
    uint64_t cwei[64];
    uint8_t *sram;
    uint32_t fp_ctl, fp_sts, fp_nfmt, fp_scl, tas;
    uint32_t fp_infmt, fp_iscl; /* of the supervisor */
    uint64_t prng[2];
    uint32_t wsr, dbg_data, dbg_brk_id;
    uint32_t repeat_first, repeat_end, repeat_count;
    bool repeating;
    uint32_t pc, next_pc;
    uint64_t cycle, instructions;
    unsigned worker;
    bool active, status;
    int fault; /* exception type, 0 none */

    /* The instruction being executed. */
    struct isa_inst inst; /* the half */
    struct ref_write writes[REF_WRITES];
    unsigned write_count;
};

/* --- memory --- */
static inline bool ref_reaches(uint32_t address, uint32_t size)
{
    return address >= REF_SRAM && address < REF_END && size <= REF_END - address &&
           address % size == 0;
}

static inline uint64_t ref_load(const struct ref *r, uint32_t address, uint32_t size)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; i++)
        value |= (uint64_t)r->sram[address - REF_SRAM + i] << (8 * i);
    return value;
}

static inline void ref_store(struct ref *r, uint32_t address, uint32_t size, uint64_t value)
{
    for (uint32_t i = 0; i < size; i++)
        r->sram[address - REF_SRAM + i] = (uint8_t)(value >> (8 * i));
}

/* --- operands --- */
static inline const struct isa_operand *ref_operand(const struct ref *r, unsigned i)
{
    return &isa_forms[r->inst.form].operands[i];
}

static inline bool ref_kind_main(enum isa_kind kind)
{
    return kind == ISA_KIND_MR || kind == ISA_KIND_MR_PAIR;
}

static inline unsigned ref_kind_count(enum isa_kind kind)
{
    if (kind == ISA_KIND_AR_QUAD)
        return 4;
    return kind == ISA_KIND_AR_PAIR || kind == ISA_KIND_MR_PAIR ? 2 : 1;
}

/* Word `k` of a register operand, or the value of an immediate. */
static inline uint32_t ref_read(const struct ref *r, unsigned i, unsigned k)
{
    const struct isa_operand *o = ref_operand(r, i);
    unsigned index = (unsigned)r->inst.operand[i] + k;
    if (o->kind >= ISA_KIND_FIRST_IMMEDIATE)
        return (uint32_t)r->inst.operand[i];
    return ref_kind_main(o->kind) ? r->m[index] : r->a[index];
}

static inline uint64_t ref_read64(const struct ref *r, unsigned i, unsigned k)
{
    return ref_read(r, i, k) | (uint64_t)ref_read(r, i, k + 1) << 32;
}

/* Half `k` of an f16 operand, broadcast forms included. */
static inline uint32_t ref_half(const struct ref *r, unsigned i, unsigned k)
{
    enum isa_kind kind = ref_operand(r, i)->kind;
    if (kind == ISA_KIND_AR_BL || kind == ISA_KIND_AR_BU)
        return ref_read(r, i, 0) >> (kind == ISA_KIND_AR_BU ? 16 : 0) & 0xffff;
    return ref_read(r, i, k / 2) >> (16 * (k % 2)) & 0xffff;
}

/* f32 lane `k`; `:B` is the one register for both. */
static inline uint32_t ref_word(const struct ref *r, unsigned i, unsigned k)
{
    return ref_read(r, i, ref_operand(r, i)->kind == ISA_KIND_AR_B ? 0 : k);
}

static inline void ref_write(struct ref *r, unsigned i, unsigned k, uint32_t value)
{
    struct ref_write *w = &r->writes[r->write_count++];
    w->aux = !ref_kind_main(ref_operand(r, i)->kind);
    w->index = (uint8_t)((unsigned)r->inst.operand[i] + k);
    w->value = value;
}

static inline void ref_write64(struct ref *r, unsigned i, unsigned k, uint64_t value)
{
    ref_write(r, i, k, (uint32_t)value);
    ref_write(r, i, k + 1, (uint32_t)(value >> 32));
}

static inline void ref_commit(struct ref *r)
{
    for (unsigned i = 0; i < r->write_count; i++) {
        const struct ref_write *w = &r->writes[i];
        /* m15 and a15 are zero, m14 is nobody's, a14 is taken for half of $azeros [I]; m12 and m13
         * are a worker's bases. */
        if (w->aux ? w->index < 14 : w->index < 12)
            *(w->aux ? &r->a[w->index] : &r->m[w->index]) = w->value;
    }
    r->write_count = 0;
}

/* Raises floating point flags; REF_FP when one of them is enabled. Results land all the same [G].
 */
static inline int ref_raise(struct ref *r, uint32_t flags)
{
    r->fp_sts |= flags;
    return (r->fp_ctl & flags & 7) != 0 ? REF_FP : 0;
}

/* One step of xoroshiro128aox. */
static inline uint64_t ref_random(struct ref *r)
{
    uint64_t s0 = r->prng[0], s1 = r->prng[1], x = s0 ^ s1, t = s0 & s1;
    uint64_t once = t << 1 | t >> 63, twice = t << 2 | t >> 62;
    r->prng[0] = (s0 << 55 | s0 >> 9) ^ x ^ x << 14;
    r->prng[1] = x << 36 | x >> 28;
    return x ^ (once | twice);
}

#endif
