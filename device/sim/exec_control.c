/* Branches, repeats, exits, traps and control register instructions of both modes.
 *
 * Branches set next_pc; the issue loops advance to it. The semantics are facts/isa_semantics.md
 * section 3.
 */
#include "device/sim/core.h"

#include "device/ipu21/csr.h"

int sim_exec_BR_MR(struct sim_context *c, const struct sim_half *h)
{
    uint32_t target = c->m[h->r[0]];
    if ((target & 3) != 0)
        return sim_fault_at(c, SIM_ETYPE_INVALID_PC, "a branch target must be a multiple of 4", 0);
    c->next_pc = target;
    return 0;
}

int sim_exec_BRI_WADDR19(struct sim_context *c, const struct sim_half *h)
{
    c->next_pc = (uint32_t)h->imm;
    return 0;
}

#define BRANCH(id, condition)                                                                      \
    int sim_exec_##id(struct sim_context *c, const struct sim_half *h)                             \
    {                                                                                              \
        uint32_t a = c->m[h->r[0]];                                                                \
        if (condition)                                                                             \
            c->next_pc = (uint32_t)h->imm;                                                         \
        return 0;                                                                                  \
    }
BRANCH(BRZ_MR_WADDR19, a == 0)
BRANCH(BRNZ_MR_WADDR19, a != 0)
BRANCH(BRNEG_MR_WADDR19, (a >> 31) != 0)
BRANCH(BRPOS_MR_WADDR19, (a >> 31) == 0)

int sim_exec_BRNZDEC_MR_WADDR19(struct sim_context *c, const struct sim_half *h)
{
    uint32_t a = c->m[h->r[0]];
    if (a != 0) {
        c->m[h->r[4]] = a - 1;
        c->next_pc = (uint32_t)h->imm;
    }
    return 0;
}

int sim_exec_CALL_MR_WADDR20(struct sim_context *c, const struct sim_half *h)
{
    c->m[h->r[0]] = c->next_pc;
    /* Bit 19 of the field is ignored (facts/isa_semantics.md section 3). */
    c->next_pc = (uint32_t)h->imm & ((1u << 21) - 1);
    return 0;
}

static int repeat_start(struct sim_context *c, uint32_t count, uint32_t bundles)
{
    uint32_t end = c->next_pc + 8 * bundles;
    if ((c->next_pc & 7) != 0)
        return sim_fault_at(c, SIM_ETYPE_INVALID_INSTR, "an rpt body must start at a multiple of 8",
                            0);
    c->repeat_first = c->next_pc;
    c->repeat_last = end;
    c->repeat_left = count;
    if (count == 0)
        c->next_pc = end;
    else
        c->repeat_end = end;
    return 0;
}

int sim_exec_RPT_MR_ZIMM8(struct sim_context *c, const struct sim_half *h)
{
    return repeat_start(c, c->m[h->r[0]] & 0xffff, (uint32_t)h->imm + 1);
}

int sim_exec_RPT_ZIMM12_ZIMM8(struct sim_context *c, const struct sim_half *h)
{
    return repeat_start(c, h->extra, (uint32_t)h->imm + 1);
}

static int worker_exit(struct sim_context *c, bool status)
{
    c->active = false;
    struct sim_tile *tile = c->tile;
    tile->active_workers--;
    if (c->cycle + IPU21_SYNC_LOCAL > tile->joined)
        tile->joined = c->cycle + IPU21_SYNC_LOCAL;
    tile->consensus = tile->consensus && status;
    return 0;
}

#define EXIT(id, condition)                                                                        \
    int sim_exec_##id(struct sim_context *c, const struct sim_half *h)                             \
    {                                                                                              \
        uint32_t a = c->m[h->r[0]];                                                                \
        return worker_exit(c, condition);                                                          \
    }
EXIT(EXITZ_MR, a == 0)
EXIT(EXITNZ_MR, a != 0)
EXIT(EXITNEG_MR, (a >> 31) != 0)
EXIT(EXITPOS_MR, (a >> 31) == 0)

int sim_exec_TRAP_ZIMM4(struct sim_context *c, const struct sim_half *h)
{
    bool second = (h->imm & 1) != 0;
    /* trap 15 is the debugger's spelling of PBRK0 (facts/isa_semantics.md section 3). */
    if (h->imm == 15)
        second = false;
    c->dbg_brk_id = second;
    return sim_fault_at(c, second ? SIM_ETYPE_PBRK1 : SIM_ETYPE_PBRK0,
                        "a trap instruction was reached", 0);
}

int sim_exec_GET_MR_CSR8(struct sim_context *c, const struct sim_half *h)
{
    uint32_t value = 0;
    int etype = sim_csr_get(c, (unsigned)h->imm, &value);
    if (etype == 0)
        c->m[h->r[0]] = value;
    return etype;
}

int sim_exec_PUT_CSR8_MR(struct sim_context *c, const struct sim_half *h)
{
    return sim_csr_put(c, (unsigned)h->imm, c->m[h->r[1]]);
}

int sim_exec_UGET_AR_UCSR8(struct sim_context *c, const struct sim_half *h)
{
    uint32_t value = 0;
    int etype = sim_csr_get(c, CSR_UPPER_BASE + (unsigned)h->imm, &value);
    if (etype == 0)
        c->a[h->r[0]] = value;
    return etype;
}

int sim_exec_UPUT_UCSR8_AR(struct sim_context *c, const struct sim_half *h)
{
    return sim_csr_put(c, CSR_UPPER_BASE + (unsigned)h->imm, c->a[h->r[1]]);
}
