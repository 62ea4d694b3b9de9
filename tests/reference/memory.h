/* Loads and stores of the reference interpreter (facts/isa_semantics.md section 4). */
#ifndef IPU_TESTS_REFERENCE_MEMORY_H
#define IPU_TESTS_REFERENCE_MEMORY_H

#include "tests/reference/machine.h"

enum { REF_ADDRESS_BITS = 21 };

static uint32_t sign_extend(uint32_t value, unsigned bits)
{
    uint32_t sign = 1u << (bits - 1);
    return ((value & (2 * sign - 1)) ^ sign) - sign;
}

static int access_check(uint32_t address, uint32_t size)
{
    bool legal = ref_reaches(address, size) && (size < 16 || address >= REF_REGION1);
    return legal ? 0 : REF_INVALID_ADDR;
}

/* ld32, lds8step, st64 ...: size and what is made of it, out of the mnemonic. */
struct memory_form {
    bool store, step, broadcast, extend;
    uint32_t size;
};

static struct memory_form memory_form(const struct ref *r)
{
    const char *name = isa_forms[r->inst.form].mnemonic;
    struct memory_form f = {.store = name[0] == 's', .step = strstr(name, "step") != NULL};
    const char *digits = name + 2;
    if (!f.store && (digits[0] < '0' || digits[0] > '9')) {
        f.broadcast = digits[0] == 'b';
        f.extend = digits[0] == 's';
        digits++;
    }
    f.size = (uint32_t)strtoul(digits, NULL, 10) / 8;
    return f;
}

static void load_result(struct ref *r, const struct memory_form *f, uint32_t address)
{
    if (f->size >= 4) {
        for (unsigned k = 0; k < f->size / 4; k++)
            ref_write(r, 0, k, (uint32_t)ref_load(r, address + 4 * k, 4));
        return;
    }
    uint32_t value = (uint32_t)ref_load(r, address, f->size);
    if (f->extend)
        value = sign_extend(value, 8 * f->size);
    if (f->broadcast)
        value *= f->size == 1 ? 0x01010101u : 0x00010001u;
    ref_write(r, 0, 0, value);
}

/* All with operands A, base, delta, offset or stride. */
static int run_memory(struct ref *r)
{
    struct memory_form f = memory_form(r);
    uint32_t base = ref_read(r, 1, 0), delta = ref_read(r, 2, 0), last = ref_read(r, 3, 0);
    uint32_t address = base + delta + (f.step ? 0 : last * f.size);
    int fault = access_check(address, f.size);
    if (fault != 0)
        return fault;
    if (f.store) {
        for (unsigned k = 0; k < f.size / 4; k++)
            ref_store(r, address + 4 * k, 4, ref_read(r, 0, k));
    } else {
        load_result(r, &f, address);
    }
    if (f.step)
        ref_write(r, 2, 0, delta + last * f.size);
    return 0;
}

static int run_stm32(struct ref *r)
{
    uint32_t address = ref_read(r, 1, 0) + 4 * ref_read(r, 2, 0);
    int fault = access_check(address, 4);
    if (fault == 0)
        ref_store(r, address, 4, ref_read(r, 0, 0));
    return fault;
}

static int run_stm32step(struct ref *r)
{
    uint32_t address = ref_read(r, 1, 0);
    int fault = access_check(address, 4);
    if (fault != 0)
        return fault;
    ref_store(r, address, 4, ref_read(r, 0, 0));
    ref_write(r, 1, 0, address + 4 * ref_read(r, 2, 0));
    return 0;
}

/* --- dual-delta forms --- */

static int dual_delta(struct ref *r, uint32_t size, uint32_t shift, uint32_t index_size)
{
    uint32_t index = ref_read(r, 1, 0), delta = ref_read(r, 3, 0) >> shift & 0xffff;
    uint32_t address = ref_read(r, 2, 0) + delta;
    if (access_check(address, size) != 0 || access_check(index, index_size) != 0)
        return REF_INVALID_ADDR;
    uint32_t value = (uint32_t)ref_load(r, address, size < 4 ? size : 4);
    ref_write(r, 0, 0, size == 2 ? value * 0x10001u : value);
    if (size == 8)
        ref_write(r, 0, 1, (uint32_t)ref_load(r, address + 4, 4));
    ref_write(r, 1, 0, index + index_size);
    ref_write(r, 3, 0, (uint32_t)ref_load(r, index, index_size));
    return 0;
}

static int run_ldd16a32(struct ref *r)
{
    return dual_delta(r, 4, 0, 2);
}

static int run_ldd16a64(struct ref *r)
{
    return dual_delta(r, 8, 0, 2);
}

static int run_ldd16b16(struct ref *r)
{
    return dual_delta(r, 2, 0, 2);
}

static int run_ldd16v2a32(struct ref *r)
{
    return dual_delta(r, 4, 16, 4);
}

static int run_ld64a32(struct ref *r)
{
    uint32_t first = ref_read(r, 1, 0), second = ref_read(r, 2, 0) + ref_read(r, 3, 0) % 0x10000;
    if (access_check(first, 8) != 0 || access_check(second, 4) != 0)
        return REF_INVALID_ADDR;
    ref_write(r, 0, 1, (uint32_t)ref_load(r, second, 4));
    ref_write64(r, 0, 2, ref_load(r, first, 8));
    ref_write(r, 1, 0, first + 8);
    return 0;
}

/* Which delta takes the mini-delta is open; docs/MACHINE.md: the upper one, in halves. */
static int run_ldb16b16(struct ref *r)
{
    uint32_t base = ref_read(r, 1, 0), deltas = ref_read(r, 2, 0), mini = ref_read(r, 3, 0);
    uint32_t low = deltas % 0x10000, high = deltas / 0x10000;
    if (access_check(base + low, 2) != 0 || access_check(base + high, 2) != 0)
        return REF_INVALID_ADDR;
    ref_write(r, 0, 0, (uint32_t)ref_load(r, base + low, 2) * 0x10001u);
    ref_write(r, 0, 1, (uint32_t)ref_load(r, base + high, 2) * 0x10001u);
    low = (low + 2) % 0x10000;
    high = (high + 2 * (mini % 16)) % 0x10000;
    ref_write(r, 2, 0, low + high * 0x10000);
    ref_write(r, 3, 0, mini / 16);
    return 0;
}

/* --- pace forms: an address pair, a stride register, selectors --- */

/* Which memory element an access meets: elements of 16 KiB, in region 1 two of them in turns of
 * 8 bytes (facts/memory.md section 2). */
static uint32_t pace_element(uint32_t address)
{
    if (address < REF_REGION1)
        return (address - REF_SRAM) / 0x4000;
    return 100 + (address - REF_REGION1) / 0x8000 * 2 + address / 8 % 2;
}

struct pace {
    uint32_t address[3], stride, selectors;
    bool top; /* bit 31 of the odd register, which no address uses */
};

static struct pace pace_of(const struct ref *r, unsigned pair)
{
    uint32_t even = ref_read(r, pair, 0), odd = ref_read(r, pair, 1);
    return (struct pace){
        .address = {even % (1u << 21), odd % (1u << 21), even >> 21 | (odd >> 21 & 0x3ff) << 11},
        .stride = ref_read(r, pair + 1, 0),
        .selectors = ref_read(r, pair + 2, 0),
        .top = odd >> 31 != 0};
}

/* Moves address `which` by the selector at bit `at`, in units of `unit` bytes. */
static void pace_step(struct pace *p, unsigned which, unsigned at, uint32_t unit)
{
    uint32_t selector = p->selectors >> at & 3, by = 1;
    if (selector != 0)
        by = sign_extend(p->stride >> (10 * (selector - 1)), 10);
    p->address[which] += by * unit;
}

static void pace_finish(struct ref *r, const struct pace *p, unsigned pair)
{
    uint32_t mask = (1u << REF_ADDRESS_BITS) - 1, third = p->address[2] & mask;
    ref_write(r, pair, 0, (p->address[0] & mask) | third << 21);
    ref_write(r, pair, 1, (p->address[1] & mask) | third >> 11 << 21 | (p->top ? 0x80000000u : 0));
}

static int run_pace_loads(struct ref *r, uint32_t second, bool same_region)
{
    struct pace p = pace_of(r, 2);
    if (access_check(p.address[0], 8) != 0 || access_check(p.address[1], second) != 0 ||
        (same_region && p.address[1] < REF_REGION1))
        return REF_INVALID_ADDR;
    if (pace_element(p.address[0]) == pace_element(p.address[1]))
        return REF_CONFLICT;
    ref_write64(r, 0, 0, ref_load(r, p.address[0], 8));
    uint64_t value = ref_load(r, p.address[1], second);
    ref_write(r, 1, 0, second == 2 ? (uint32_t)value * 0x10001u : (uint32_t)value);
    if (second == 8)
        ref_write(r, 1, 1, (uint32_t)(value >> 32));
    pace_step(&p, 0, 0, 8);
    pace_step(&p, 1, 2, second);
    pace_finish(r, &p, 2);
    return 0;
}

static int run_ld2x64pace(struct ref *r)
{
    return run_pace_loads(r, 8, true);
}

static int run_ld64a32pace(struct ref *r)
{
    return run_pace_loads(r, 4, false);
}

static int run_ld64b16pace(struct ref *r)
{
    return run_pace_loads(r, 2, false);
}

static int run_ldst64pace(struct ref *r)
{
    struct pace p = pace_of(r, 2);
    if (access_check(p.address[0], 8) != 0 || access_check(p.address[2], 8) != 0)
        return REF_INVALID_ADDR;
    if (pace_element(p.address[0]) == pace_element(p.address[2]))
        return REF_CONFLICT;
    ref_write64(r, 0, 0, ref_load(r, p.address[0], 8));
    ref_store(r, p.address[2], 8, ref_read64(r, 1, 0));
    pace_step(&p, 0, 0, 8);
    pace_step(&p, 2, 2, 8);
    pace_finish(r, &p, 2);
    return 0;
}

static int run_st64pace(struct ref *r)
{
    struct pace p = pace_of(r, 1);
    if (access_check(p.address[2], 8) != 0)
        return REF_INVALID_ADDR;
    ref_store(r, p.address[2], 8, ref_read64(r, 0, 0));
    pace_step(&p, 2, 0, 8);
    pace_finish(r, &p, 1);
    return 0;
}

static int run_ld2xst64pace(struct ref *r)
{
    struct pace p = pace_of(r, 2);
    uint32_t element[3];
    for (unsigned i = 0; i < 3; i++) {
        if (access_check(p.address[i], 8) != 0)
            return REF_INVALID_ADDR;
        element[i] = pace_element(p.address[i]);
    }
    if (element[0] == element[1] || element[1] == element[2] || element[0] == element[2])
        return REF_CONFLICT;
    ref_write64(r, 0, 0, ref_load(r, p.address[0], 8));
    ref_write64(r, 0, 2, ref_load(r, p.address[1], 8));
    ref_store(r, p.address[2], 8, ref_read64(r, 1, 0));
    for (unsigned i = 0; i < 3; i++)
        pace_step(&p, i, 2 * i, 8);
    pace_finish(r, &p, 2);
    return 0;
}

#endif
