/* Loads, stores and the pace forms (facts/isa_semantics.md section 4).
 *
 * An access must be naturally aligned and inside SRAM, 128-bit accesses inside region 1, or it is
 * INVALID_ADDR; two accesses of one instruction to the same 16 KiB element are CONFLICT. Memory is
 * accessed at the old address, then addresses and results are written.
 */
#include "device/sim/core.h"
#include "device/sim/pace.h"

static uint32_t load8(const struct sim_context *x, uint32_t address)
{
    return x->sram[address - IPU21_SRAM_BASE];
}

static uint32_t load16(const struct sim_context *x, uint32_t address)
{
    uint16_t value;
    memcpy(&value, x->sram + (address - IPU21_SRAM_BASE), sizeof value);
    return value;
}

/* --- what a load does with its value; r0 is the destination index --- */

static void put_m32(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->m[r0] = sim_load32(x, address);
}

static void put_a32(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->a[r0] = sim_load32(x, address);
}

static void put_a64(struct sim_context *x, unsigned r0, uint32_t address)
{
    sim_set_pair(x, r0, sim_load64(x, address));
}

static void put_a128(struct sim_context *x, unsigned r0, uint32_t address)
{
    sim_set_pair(x, r0, sim_load64(x, address));
    sim_set_pair(x, r0 + 2, sim_load64(x, address + 8));
}

static void put_s8(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->m[r0] = (uint32_t)(int32_t)(int8_t)load8(x, address);
}

static void put_z8(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->m[r0] = load8(x, address);
}

static void put_s16(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->m[r0] = (uint32_t)(int32_t)(int16_t)load16(x, address);
}

static void put_z16(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->m[r0] = load16(x, address);
}

static void put_b8(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->a[r0] = load8(x, address) * 0x01010101u;
}

static void put_b16(struct sim_context *x, unsigned r0, uint32_t address)
{
    x->a[r0] = load16(x, address) * 0x00010001u;
}

static inline int check(struct sim_context *x, uint32_t address, uint32_t size)
{
    if (__builtin_expect(!sim_accessible(address, size), 0))
        return sim_bad_access(x, address, size);
    if (size == 16 && __builtin_expect(address < IPU21_REGION1_BASE, 0))
        return sim_fault_at(x, SIM_ETYPE_INVALID_ADDR,
                            "128-bit accesses need the interleaved region (0x80000 and up), not",
                            address);
    return 0;
}

/* The four addressing shapes of a load: register or immediate offset, with or without step. */
#define LOAD(id, size, put, offset)                                                                \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        uint32_t address = x->m[h->r[1]] + x->m[h->r[2]] + (offset) * (size);                      \
        int etype = check(x, address, size);                                                       \
        if (etype != 0)                                                                            \
            return etype;                                                                          \
        put(x, h->r[0], address);                                                                  \
        return 0;                                                                                  \
    }
#define LOAD_STEP(id, size, put, stride)                                                           \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        uint32_t delta = x->m[h->r[2]], address = x->m[h->r[1]] + delta;                           \
        uint32_t next = delta + (stride) * (size);                                                 \
        int etype = check(x, address, size);                                                       \
        if (etype != 0)                                                                            \
            return etype;                                                                          \
        put(x, h->r[0], address);                                                                  \
        x->m[h->r[4]] = next;                                                                      \
        return 0;                                                                                  \
    }
#define IMMEDIATE ((uint32_t)h->imm)
#define REGISTER  (x->m[h->r[3]])
#define LOADS(name, dst, size, put)                                                                \
    LOAD(name##_##dst##_MR_MR_MR, size, put, REGISTER)                                             \
    LOAD(name##_##dst##_MR_MR_ZIMM12, size, put, IMMEDIATE)                                        \
    LOAD_STEP(name##STEP_##dst##_MR_MR_MR, size, put, REGISTER)                                    \
    LOAD_STEP(name##STEP_##dst##_MR_MR_SIMM8, size, put, IMMEDIATE)

LOADS(LD32, MR, 4, put_m32)
LOADS(LD32, AR, 4, put_a32)
LOADS(LD64, ARPAIR, 8, put_a64)
LOADS(LD128, ARQUAD, 16, put_a128)
LOADS(LDS8, MR, 1, put_s8)
LOADS(LDZ8, MR, 1, put_z8)
LOADS(LDS16, MR, 2, put_s16)
LOADS(LDZ16, MR, 2, put_z16)
LOADS(LDB8, AR, 1, put_b8)
LOADS(LDB16, AR, 2, put_b16)

/* --- stores --- */

static inline int store(struct sim_context *x, uint32_t address, const void *value, uint32_t size)
{
    if (__builtin_expect(!sim_accessible(address, size), 0))
        return sim_bad_access(x, address, size);
    memcpy(x->sram + (address - IPU21_SRAM_BASE), value, size);
    sim_stored(x, address, size);
    return 0;
}

#define STORE(id, file, size, offset)                                                              \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        uint32_t address = x->m[h->r[1]] + x->m[h->r[2]] + (offset) * (size);                      \
        return store(x, address, &x->file[h->r[0]], size);                                         \
    }
#define STORE_STEP(id, file, size, stride)                                                         \
    int sim_exec_##id(struct sim_context *x, const struct sim_half *h)                             \
    {                                                                                              \
        uint32_t delta = x->m[h->r[2]], address = x->m[h->r[1]] + delta;                           \
        uint32_t next = delta + (stride) * (size);                                                 \
        int etype = store(x, address, &x->file[h->r[0]], size);                                    \
        if (etype == 0)                                                                            \
            x->m[h->r[4]] = next;                                                                  \
        return etype;                                                                              \
    }
STORE(ST32_AR_MR_MR_MR, a, 4, REGISTER)
STORE(ST32_AR_MR_MR_ZIMM12, a, 4, IMMEDIATE)
STORE(ST32_MR_MR_MR_ZIMM12, m, 4, IMMEDIATE)
STORE(ST64_ARPAIR_MR_MR_MR, a, 8, REGISTER)
STORE(ST64_ARPAIR_MR_MR_ZIMM12, a, 8, IMMEDIATE)
STORE_STEP(ST32STEP_AR_MR_MR_MR, a, 4, REGISTER)
STORE_STEP(ST32STEP_AR_MR_MR_SIMM8, a, 4, IMMEDIATE)
STORE_STEP(ST32STEP_MR_MR_MR_SIMM8, m, 4, IMMEDIATE)
STORE_STEP(ST64STEP_ARPAIR_MR_MR_MR, a, 8, REGISTER)
STORE_STEP(ST64STEP_ARPAIR_MR_MR_SIMM8, a, 8, IMMEDIATE)

int sim_exec_STM32_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    return store(x, x->m[h->r[1]] + 4 * x->m[h->r[2]], &x->m[h->r[0]], 4);
}

int sim_exec_STM32STEP_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t base = x->m[h->r[1]], next = base + 4 * x->m[h->r[2]];
    int etype = store(x, base, &x->m[h->r[0]], 4);
    if (etype == 0)
        x->m[h->r[4]] = next;
    return etype;
}

/* --- two loads with a delta that is itself loaded: r = A, B (index pointer), C, D (delta) --- */

static int load_delta16(struct sim_context *x, const struct sim_half *h, uint32_t size,
                        void (*put)(struct sim_context *, unsigned, uint32_t))
{
    uint32_t index = x->m[h->r[1]], address = x->m[h->r[2]] + (x->m[h->r[3]] & 0xffff);
    int etype = check(x, address, size);
    if (etype == 0)
        etype = check(x, index, 2);
    if (etype != 0)
        return etype;
    put(x, h->r[0], address);
    x->m[h->r[4]] = index + 2;
    x->m[h->r[5]] = load16(x, index);
    return 0;
}

int sim_exec_LDD16A32_AR_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    return load_delta16(x, h, 4, put_a32);
}

int sim_exec_LDD16A64_ARPAIR_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    return load_delta16(x, h, 8, put_a64);
}

int sim_exec_LDD16B16_AR_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    return load_delta16(x, h, 2, put_b16);
}

int sim_exec_LDD16V2A32_AR_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t index = x->m[h->r[1]], address = x->m[h->r[2]] + (x->m[h->r[3]] >> 16);
    int etype = check(x, address, 4);
    if (etype == 0)
        etype = check(x, index, 4);
    if (etype != 0)
        return etype;
    put_a32(x, h->r[0], address);
    x->m[h->r[4]] = index + 4;
    x->m[h->r[5]] = sim_load32(x, index);
    return 0;
}

int sim_exec_LD64A32_ARQUAD_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t wide = x->m[h->r[1]], narrow = x->m[h->r[2]] + (x->m[h->r[3]] & 0xffff);
    int etype = check(x, wide, 8);
    if (etype == 0)
        etype = check(x, narrow, 4);
    if (etype != 0)
        return etype;
    x->a[h->r[0] + 1] = sim_load32(x, narrow);
    put_a64(x, h->r[0] + 2u, wide);
    x->m[h->r[4]] = wide + 8;
    return 0;
}

/* Which delta takes the mini-delta, and its unit, are not public [?]: the low half advances by 2,
 * the high half by the low four bits of D in halves. */
int sim_exec_LDB16B16_ARPAIR_MR_MR_MR(struct sim_context *x, const struct sim_half *h)
{
    uint32_t base = x->m[h->r[1]], deltas = x->m[h->r[2]], mini = x->m[h->r[3]];
    uint32_t first = base + (deltas & 0xffff), second = base + (deltas >> 16);
    int etype = check(x, first, 2);
    if (etype == 0)
        etype = check(x, second, 2);
    if (etype != 0)
        return etype;
    put_b16(x, h->r[0], first);
    put_b16(x, h->r[0] + 1u, second);
    x->m[h->r[4]] = ((deltas + 2) & 0xffff) | ((deltas >> 16) + 2 * (mini & 15)) << 16;
    x->m[h->r[5]] = mini >> 4;
    return 0;
}

/* --- pace forms: r = data, data, address pair, stride register; imm = selectors --- */

static int conflict(struct sim_context *x, uint32_t address)
{
    return sim_fault_at(x, SIM_ETYPE_CONFLICT,
                        "two accesses of one instruction meet in one memory element, at", address);
}

struct pace_state {
    uint32_t even, odd, stride, selectors;
    uint32_t address[3];
};

static struct pace_state pace_read(const struct sim_context *x, const struct sim_half *h,
                                   unsigned pair)
{
    struct pace_state p = {.even = x->m[h->r[pair]],
                           .odd = x->m[h->r[pair] + 1],
                           .stride = x->m[h->r[pair + 1]],
                           .selectors = (uint32_t)h->imm};
    p.address[0] = p.even & SIM_ADDRESS_MASK;
    p.address[1] = p.odd & SIM_ADDRESS_MASK;
    p.address[2] = sim_packed_address(p.even, p.odd);
    return p;
}

static void pace_write(struct sim_context *x, const struct sim_half *h, const struct pace_state *p)
{
    uint32_t even, odd = p->odd;
    sim_pack_addresses(p->address, &even, &odd);
    x->m[h->r[4]] = even;
    x->m[h->r[4] + 1] = odd;
}

static void pace_advance(struct pace_state *p, unsigned which, unsigned selector, uint32_t unit)
{
    p->address[which] += sim_pace(p->stride, p->selectors >> selector & 3, unit);
}

static int load_two(struct sim_context *x, const struct sim_half *h, uint32_t size,
                    void (*put)(struct sim_context *, unsigned, uint32_t))
{
    struct pace_state p = pace_read(x, h, 2);
    int etype = check(x, p.address[0], 8);
    if (etype == 0)
        etype = check(x, p.address[1], size);
    if (etype != 0)
        return etype;
    if (size == 8 && p.address[1] < IPU21_REGION1_BASE)
        return sim_fault_at(x, SIM_ETYPE_INVALID_ADDR,
                            "address 1 of ld2x64pace may not lie in the executable region: at",
                            p.address[1]);
    if (sim_elements_meet(p.address[0], p.address[1]))
        return conflict(x, p.address[1]);
    put_a64(x, h->r[0], p.address[0]);
    put(x, h->r[1], p.address[1]);
    pace_advance(&p, 0, 0, 8);
    /* The unit of the narrow access is its own size [?]. */
    pace_advance(&p, 1, 2, size);
    pace_write(x, h, &p);
    return 0;
}

int sim_exec_LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4(struct sim_context *x,
                                                      const struct sim_half *h)
{
    return load_two(x, h, 8, put_a64);
}

int sim_exec_LD64A32PACE_ARPAIR_AR_MRPAIR_MR_PACE4(struct sim_context *x, const struct sim_half *h)
{
    return load_two(x, h, 4, put_a32);
}

int sim_exec_LD64B16PACE_ARPAIR_AR_MRPAIR_MR_PACE4(struct sim_context *x, const struct sim_half *h)
{
    return load_two(x, h, 2, put_b16);
}

int sim_exec_LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4(struct sim_context *x,
                                                      const struct sim_half *h)
{
    struct pace_state p = pace_read(x, h, 2);
    uint64_t value = sim_pair(x, h->r[1]);
    int etype = check(x, p.address[0], 8);
    if (etype == 0)
        etype = check(x, p.address[2], 8);
    if (etype != 0)
        return etype;
    if (sim_elements_meet(p.address[0], p.address[2]))
        return conflict(x, p.address[2]);
    put_a64(x, h->r[0], p.address[0]);
    etype = store(x, p.address[2], &value, 8);
    pace_advance(&p, 0, 0, 8);
    pace_advance(&p, 2, 2, 8);
    pace_write(x, h, &p);
    return etype;
}

/* r = data, address pair, stride register. */
int sim_exec_ST64PACE_ARPAIR_MRPAIR_MR_PACE2IN8(struct sim_context *x, const struct sim_half *h)
{
    struct pace_state p = pace_read(x, h, 1);
    int etype = store(x, p.address[2], &x->a[h->r[0]], 8);
    if (etype != 0)
        return etype;
    pace_advance(&p, 2, 0, 8);
    pace_write(x, h, &p);
    return 0;
}

int sim_exec_LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6(struct sim_context *x,
                                                        const struct sim_half *h)
{
    struct pace_state p = pace_read(x, h, 2);
    uint64_t value = sim_pair(x, h->r[1]);
    for (unsigned i = 0; i < 3; i++) {
        int etype = check(x, p.address[i], 8);
        if (etype != 0)
            return etype;
    }
    if (sim_elements_meet(p.address[0], p.address[1]))
        return conflict(x, p.address[1]);
    if (sim_elements_meet(p.address[0], p.address[2]) ||
        sim_elements_meet(p.address[1], p.address[2]))
        return conflict(x, p.address[2]);
    put_a64(x, h->r[0], p.address[0]);
    put_a64(x, h->r[0] + 2u, p.address[1]);
    int etype = store(x, p.address[2], &value, 8);
    pace_advance(&p, 0, 0, 8);
    pace_advance(&p, 1, 2, 8);
    pace_advance(&p, 2, 4, 8);
    pace_write(x, h, &p);
    return etype;
}
