/* Integer, logic and byte operations of the reference interpreter, one function each. */
#ifndef IPU_TESTS_REFERENCE_INTEGER_H
#define IPU_TESTS_REFERENCE_INTEGER_H

#include "tests/reference/machine.h"

static uint32_t byte(uint32_t word, unsigned i)
{
    return word >> (8 * i) & 0xff;
}

static uint32_t bytes(uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3)
{
    return b3 << 24 | b2 << 16 | b1 << 8 | b0;
}

static bool signed_less(uint32_t b, uint32_t c)
{
    return (b ^ 0x80000000u) < (c ^ 0x80000000u);
}

/* --- b op c, both words; for unary operations c is 0 --- */
static uint32_t int_add(uint32_t b, uint32_t c)
{
    return (uint32_t)((uint64_t)b + c);
}

static uint32_t int_sub(uint32_t b, uint32_t c)
{
    return (uint32_t)((uint64_t)b + ~c + 1);
}

static uint32_t int_mul(uint32_t b, uint32_t c)
{
    return (uint32_t)((uint64_t)b * c);
}

static uint32_t int_and(uint32_t b, uint32_t c)
{
    return b & c;
}

static uint32_t int_andc(uint32_t b, uint32_t c)
{
    return b & ~c;
}

static uint32_t int_or(uint32_t b, uint32_t c)
{
    return b | c;
}

static uint32_t int_xor(uint32_t b, uint32_t c)
{
    return b ^ c;
}

static uint32_t int_xnor(uint32_t b, uint32_t c)
{
    return ~(b ^ c);
}

static uint32_t int_not(uint32_t b, uint32_t c)
{
    (void)c;
    return ~b;
}

/* Amounts above 31 are open; docs/MACHINE.md: everything is shifted out. */
static uint32_t int_shl(uint32_t b, uint32_t c)
{
    for (uint32_t i = 0; i < c && i < 32; i++)
        b += b;
    return b;
}

static uint32_t int_shr(uint32_t b, uint32_t c)
{
    for (uint32_t i = 0; i < c && i < 32; i++)
        b /= 2;
    return b;
}

static uint32_t int_shrs(uint32_t b, uint32_t c)
{
    for (uint32_t i = 0; i < c && i < 32; i++)
        b = b / 2 | (b & 0x80000000u);
    return b;
}

static uint32_t int_cmpeq(uint32_t b, uint32_t c)
{
    return b == c ? 1 : 0;
}

static uint32_t int_cmpne(uint32_t b, uint32_t c)
{
    return b == c ? 0 : 1;
}

static uint32_t int_cmpslt(uint32_t b, uint32_t c)
{
    return signed_less(b, c) ? 1 : 0;
}

static uint32_t int_cmpult(uint32_t b, uint32_t c)
{
    return b < c ? 1 : 0;
}

static uint32_t int_max(uint32_t b, uint32_t c)
{
    return signed_less(b, c) ? c : b;
}

static uint32_t int_min(uint32_t b, uint32_t c)
{
    return signed_less(b, c) ? b : c;
}

static uint32_t int_abs(uint32_t b, uint32_t c)
{
    (void)c;
    return b >= 0x80000000u ? ~b + 1 : b;
}

static uint32_t int_clz(uint32_t b, uint32_t c)
{
    uint32_t count = 0;
    (void)c;
    while (count < 32 && (b >> (31 - count) & 1) == 0)
        count++;
    return count;
}

static uint32_t int_cms(uint32_t b, uint32_t c)
{
    uint32_t count = 0;
    (void)c;
    while (count < 31 && (b >> (30 - count) & 1) == b >> 31)
        count++;
    return count;
}

static uint32_t int_popc(uint32_t b, uint32_t c)
{
    uint32_t count = 0;
    (void)c;
    for (unsigned i = 0; i < 32; i++)
        count += b >> i & 1;
    return count;
}

static uint32_t int_bitrev8(uint32_t b, uint32_t c)
{
    uint32_t out = 0;
    (void)c;
    for (unsigned i = 0; i < 32; i++)
        out |= (b >> i & 1) << (i / 8 * 8 + 7 - i % 8);
    return out;
}

static uint32_t int_roll8l(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 3), byte(b, 0), byte(b, 1), byte(b, 2));
}

static uint32_t int_roll8r(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 1), byte(a, 2), byte(a, 3), byte(b, 0));
}

static uint32_t int_roll16(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 2), byte(a, 3), byte(b, 0), byte(b, 1));
}

static uint32_t int_shuf_lo(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 0), byte(b, 0), byte(a, 1), byte(b, 1));
}

static uint32_t int_shuf_hi(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 2), byte(b, 2), byte(a, 3), byte(b, 3));
}

static uint32_t int_sort8x8lo(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 0), byte(a, 2), byte(b, 0), byte(b, 2));
}

static uint32_t int_sort8x8hi(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 1), byte(a, 3), byte(b, 1), byte(b, 3));
}

static uint32_t int_sort8(uint32_t a, uint32_t b)
{
    (void)b;
    return bytes(byte(a, 0), byte(a, 2), byte(a, 1), byte(a, 3));
}

static uint32_t int_swap8(uint32_t a, uint32_t b)
{
    (void)b;
    return bytes(byte(a, 1), byte(a, 0), byte(a, 3), byte(a, 2));
}

static uint32_t int_sort4x16lo(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 0), byte(a, 1), byte(b, 0), byte(b, 1));
}

static uint32_t int_sort4x16hi(uint32_t a, uint32_t b)
{
    return bytes(byte(a, 2), byte(a, 3), byte(b, 2), byte(b, 3));
}

static uint32_t int_setzi(uint32_t b, uint32_t c)
{
    (void)c;
    return b;
}

/* The source as the operation sees it: a broadcast half stands in both halves. */
static uint32_t int_source(const struct ref *r, unsigned i, unsigned k)
{
    enum isa_kind kind = ref_operand(r, i)->kind;
    if (kind == ISA_KIND_AR_BL || kind == ISA_KIND_AR_BU)
        return ref_half(r, i, 0) * 0x10001u;
    return ref_read(r, i, k);
}

typedef uint32_t int_operation(uint32_t b, uint32_t c);

/* A := B op C for each word of A. */
static int int_run(struct ref *r, int_operation *operation)
{
    unsigned count = isa_forms[r->inst.form].operand_count;
    for (unsigned k = 0; k < ref_kind_count(ref_operand(r, 0)->kind); k++) {
        uint32_t b = int_source(r, 1, k), c = count > 2 ? int_source(r, 2, k) : 0;
        ref_write(r, 0, k, operation(b, c));
    }
    return 0;
}

/* --- the ones of another shape --- */
static int run_roll32(struct ref *r)
{
    ref_write(r, 0, 0, ref_read(r, 1, 1));
    ref_write(r, 0, 1, ref_read(r, 2, 0));
    return 0;
}

static int run_sort4x32lo(struct ref *r)
{
    ref_write(r, 0, 0, ref_read(r, 1, 0));
    ref_write(r, 0, 1, ref_read(r, 2, 0));
    return 0;
}

static int run_sort4x32hi(struct ref *r)
{
    ref_write(r, 0, 0, ref_read(r, 1, 1));
    ref_write(r, 0, 1, ref_read(r, 2, 1));
    return 0;
}

static int run_movnz(struct ref *r)
{
    if (ref_read(r, 1, 0) != 0)
        ref_write(r, 0, 0, ref_read(r, 2, 0));
    return 0;
}

static int run_atom(struct ref *r)
{
    ref_write(r, 0, 0, ref_read(r, 1, 0));
    return 0;
}

static int run_tapack(struct ref *r)
{
    uint32_t address0 = ref_read(r, 1, 0) % (1u << 21), address1 = ref_read(r, 2, 0) % (1u << 21);
    uint32_t address2 = ref_read(r, 3, 0) % (1u << 21);
    ref_write(r, 0, 0, address0 + (address2 % (1u << 11) << 21));
    ref_write(r, 0, 1, address1 + (address2 / (1u << 11) << 21));
    return 0;
}

#endif
