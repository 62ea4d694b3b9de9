/* Branches, repeats, exits and control registers of the reference interpreter. */
#ifndef IPU_TESTS_REFERENCE_CONTROL_H
#define IPU_TESTS_REFERENCE_CONTROL_H

#include "tests/reference/machine.h"

static int run_br(struct ref *r)
{
    uint32_t target = ref_read(r, 0, 0);
    if (target % 4 != 0)
        return REF_INVALID_PC;
    r->next_pc = target;
    return 0;
}

static int run_bri(struct ref *r)
{
    r->next_pc = ref_read(r, 0, 0);
    return 0;
}

static int branch_when(struct ref *r, bool taken)
{
    if (taken)
        r->next_pc = ref_read(r, 1, 0);
    return 0;
}

static int run_brz(struct ref *r)
{
    return branch_when(r, ref_read(r, 0, 0) == 0);
}

static int run_brnz(struct ref *r)
{
    return branch_when(r, ref_read(r, 0, 0) != 0);
}

static int run_brneg(struct ref *r)
{
    return branch_when(r, ref_read(r, 0, 0) >= 0x80000000u);
}

static int run_brpos(struct ref *r)
{
    return branch_when(r, ref_read(r, 0, 0) < 0x80000000u);
}

static int run_brnzdec(struct ref *r)
{
    uint32_t a = ref_read(r, 0, 0);
    if (a != 0)
        ref_write(r, 0, 0, a - 1);
    return branch_when(r, a != 0);
}

static int run_call(struct ref *r)
{
    ref_write(r, 0, 0, r->next_pc);
    r->next_pc = ref_read(r, 1, 0) % (1u << 21); /* bit 19 of the field counts for nothing */
    return 0;
}

static int run_rpt(struct ref *r)
{
    uint32_t count = ref_read(r, 0, 0) % 0x10000, bundles = ref_read(r, 1, 0) + 1;
    if (r->next_pc % 8 != 0)
        return REF_INVALID_INSTR;
    r->repeat_first = r->next_pc;
    r->repeat_end = r->next_pc + 8 * bundles;
    r->repeat_count = count;
    if (count == 0)
        r->next_pc = r->repeat_end;
    else
        r->repeating = true;
    return 0;
}

static int exit_with(struct ref *r, bool status)
{
    r->active = false;
    r->status = status;
    return 0;
}

static int run_exitz(struct ref *r)
{
    return exit_with(r, ref_read(r, 0, 0) == 0);
}

static int run_exitnz(struct ref *r)
{
    return exit_with(r, ref_read(r, 0, 0) != 0);
}

static int run_exitneg(struct ref *r)
{
    return exit_with(r, ref_read(r, 0, 0) >= 0x80000000u);
}

static int run_exitpos(struct ref *r)
{
    return exit_with(r, ref_read(r, 0, 0) < 0x80000000u);
}

static int run_trap(struct ref *r)
{
    uint32_t number = ref_read(r, 0, 0);
    r->dbg_brk_id = number != 15 ? number % 2 : 0;
    return 2 + (int)r->dbg_brk_id;
}

/* --- control registers of a worker, facts/csrs.tsv --- */

struct ref_csr {
    bool readable, writable;
    uint32_t *where;
    uint32_t mask; /* of what a write keeps */
};

static struct ref_csr csr_lower(struct ref *r, uint32_t index)
{
    switch (index) {
    case 2: /* VERTEX_BASE */
        return (struct ref_csr){true, true, &r->m[13], ~3u};
    case 3: /* WORKER_BASE */
        return (struct ref_csr){true, false, &r->m[12], 0};
    case 4:
        return (struct ref_csr){true, true, &r->repeat_count, 0xffff};
    case 5:
        return (struct ref_csr){true, true, &r->repeat_first, ~7u};
    case 6:
        return (struct ref_csr){true, true, &r->repeat_end, ~7u};
    case 0x70:
        return (struct ref_csr){true, true, &r->dbg_data, ~0u};
    case 0x71:
        return (struct ref_csr){true, true, &r->dbg_brk_id, 1};
    default:
        return (struct ref_csr){0};
    }
}

static int run_get(struct ref *r)
{
    uint32_t index = ref_read(r, 1, 0);
    uint32_t clock[2] = {(uint32_t)r->cycle, (uint32_t)(r->cycle >> 32)};
    struct ref_csr csr = csr_lower(r, index);
    if (index == 0)
        ref_write(r, 0, 0, r->pc);
    else if (index == 1)
        ref_write(r, 0, 0, r->wsr | r->worker);
    else if (index == 0x60 || index == 0x61)
        ref_write(r, 0, 0, clock[index - 0x60]);
    else if (csr.readable)
        ref_write(r, 0, 0, *csr.where);
    else
        return REF_INVALID_OP;
    return 0;
}

static int run_put(struct ref *r)
{
    struct ref_csr csr = csr_lower(r, ref_read(r, 0, 0));
    if (!csr.writable)
        return REF_INVALID_OP;
    *csr.where = ref_read(r, 1, 0) & csr.mask;
    return 0;
}

static int run_uget(struct ref *r)
{
    const uint32_t values[11] = {r->fp_sts,
                                 0, /* FP_CLR */
                                 r->fp_ctl,
                                 (uint32_t)r->prng[0],
                                 (uint32_t)(r->prng[0] >> 32),
                                 (uint32_t)r->prng[1],
                                 (uint32_t)(r->prng[1] >> 32),
                                 0, /* PRNG_SEED */
                                 r->tas,
                                 r->fp_nfmt,
                                 r->fp_scl};
    uint32_t index = ref_read(r, 1, 0);
    if (index > 10)
        return REF_INVALID_OP;
    ref_write(r, 0, 0, values[index]);
    return 0;
}

static void prng_put(struct ref *r, unsigned word, uint32_t value)
{
    uint64_t *state = &r->prng[word / 2];
    uint64_t other = word % 2 != 0 ? *state & 0xffffffffu : *state & ~0xffffffffull;
    *state = other | (uint64_t)value << (32 * (word % 2));
}

static int run_uput(struct ref *r)
{
    uint32_t index = ref_read(r, 0, 0), v = ref_read(r, 1, 0);
    if (index == 0) {
        r->fp_sts = v & 7;
    } else if (index == 1) {
        r->fp_sts &= ~v;
        if ((v & 8) != 0) {
            memset(r->even, 0, sizeof r->even);
            memset(r->odd, 0, sizeof r->odd);
        }
    } else if (index == 2) {
        r->fp_ctl = v & 0x1f0007;
    } else if (index >= 3 && index <= 6) {
        prng_put(r, index - 3, v);
    } else if (index == 7) {
        prng_put(r, 0, v);
        prng_put(r, 1, ~v);
        prng_put(r, 2, v << 13 | ~v >> 19);
        prng_put(r, 3, ~v << 13 | v >> 19);
    } else if (index == 8) {
        r->tas = v;
    } else if (index == 9) {
        r->fp_nfmt = v & 2;
    } else if (index == 10) {
        r->fp_scl = v & 63;
    } else {
        return REF_INVALID_OP;
    }
    return 0;
}

#endif
