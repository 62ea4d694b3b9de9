/* From instruction words to decoded operations: see core.h.
 *
 * The instruction table (device/ipu21/isa.def) says which operands a form has; this file turns them
 * into register indices. A write to a zero register becomes a write to a scratch register, so that
 * handlers need no test. In a bundle whose aux half reads a register that the main half loads, the
 * load goes to scratch registers and is committed after both halves: both read old state, then all
 * writes land (facts/isa_semantics.md section 1). Illegal words decode to handlers that fault.
 */
#include "device/sim/core.h"

#define FORM(id, ...) [ISA_##id] = sim_exec_##id,
sim_exec *const sim_handlers[ISA_COUNT] = {
#include "device/ipu21/isa.def"
};
#undef FORM

int sim_exec_none(struct sim_context *c, const struct sim_half *h)
{
    (void)c;
    (void)h;
    return SIM_ETYPE_NONE;
}

int sim_exec_invalid(struct sim_context *c, const struct sim_half *h)
{
    (void)h;
    return sim_fault_at(c, SIM_ETYPE_INVALID_INSTR, "no instruction has this encoding", 0);
}

int sim_exec_invalid_operands(struct sim_context *c, const struct sim_half *h)
{
    (void)h;
    return sim_fault_at(c, SIM_ETYPE_INVALID_OP, "one register is written twice", 0);
}

/* The exception of an instruction of the other mode is not public; INVALID_INSTR is assumed [I]. */
int sim_exec_wrong_mode(struct sim_context *c, const struct sim_half *h)
{
    (void)h;
    return sim_fault_at(c, SIM_ETYPE_INVALID_INSTR,
                        c->number == 0 ? "the supervisor has no aux lane and no bundles, and this "
                                         "instruction is for workers only"
                                       : "this instruction is for the supervisor only",
                        0);
}

static bool kind_is_m(enum isa_kind kind)
{
    return kind == ISA_KIND_MR || kind == ISA_KIND_MR_PAIR;
}

static unsigned kind_registers(enum isa_kind kind)
{
    if (kind == ISA_KIND_AR_QUAD)
        return 4;
    return kind == ISA_KIND_MR_PAIR || kind == ISA_KIND_AR_PAIR ? 2 : 1;
}

/* Registers of an operand as a mask: MRF in bits 15:0, ARF in bits 31:16. */
static uint32_t operand_mask(enum isa_kind kind, unsigned first)
{
    uint32_t mask = ((1u << kind_registers(kind)) - 1) << first;
    return kind_is_m(kind) ? mask : mask << 16;
}

struct half_info {
    uint32_t reads, writes; /* operand_mask() */
    bool twice;             /* one register is written by two operands */
};

/* Dropped M destinations: m15 and m14 of everyone, m13 and m12 of workers (their bases). */
static unsigned m_destination(unsigned first, bool worker)
{
    return first >= (worker ? 12u : 14u) ? SIM_SCRATCH : first;
}

/* $a14 alone is taken to be as constant as in the pair $a14:15 [I]. */
static unsigned a_destination(unsigned first, unsigned count)
{
    return first + count > 14 && count < 4 ? SIM_SCRATCH : first;
}

static uint8_t destination(enum isa_kind kind, unsigned first, bool worker)
{
    if (kind_is_m(kind))
        return (uint8_t)m_destination(first, worker);
    return (uint8_t)a_destination(first, kind_registers(kind));
}

/* Constant registers may be written twice (facts/isa_semantics.md section 1), except by the two
 * destinations of one load. */
static uint32_t real_writes(uint32_t mask, bool worker)
{
    return mask & ~(worker ? 0xc000f000u : 0xc000c000u);
}

static void half_operand(struct sim_half *half, const struct isa_operand *operand, int32_t value,
                         unsigned i, bool worker, struct half_info *info)
{
    if (operand->kind >= ISA_KIND_FIRST_IMMEDIATE) {
        half->extra = (uint32_t)half->imm;
        half->imm = value;
        return;
    }
    unsigned first = (unsigned)value;
    uint32_t mask = operand_mask(operand->kind, first);
    half->r[i] = (uint8_t)first;
    if (operand->access != ISA_ACCESS_W)
        info->reads |= mask;
    if (operand->access == ISA_ACCESS_R)
        return;
    info->twice |= (real_writes(info->writes, worker) & mask) != 0;
    info->writes |= mask;
    if (operand->access == ISA_ACCESS_W)
        half->r[i] = destination(operand->kind, first, worker);
}

static void half_build(const struct isa_inst *inst, bool worker, bool fast, struct sim_half *half,
                       struct half_info *info)
{
    const struct isa_form *form = &isa_forms[inst->form];
    *half = (struct sim_half){.run = sim_handler(inst->form, fast), .form = inst->form};
    *info = (struct half_info){0};
    unsigned next = 4;
    for (unsigned i = 0; i < form->operand_count; i++) {
        const struct isa_operand *operand = &form->operands[i];
        half_operand(half, operand, inst->operand[i], i, worker, info);
        /* The index of a read-write register as destination. */
        if (operand->access == ISA_ACCESS_RW)
            half->r[next++] = destination(operand->kind, (unsigned)inst->operand[i], worker);
    }
    /* Two $azeros destinations of one pace load are refused as well. */
    bool two_pairs = inst->form == ISA_LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4;
    if (two_pairs && inst->operand[0] == inst->operand[1])
        info->twice = true;
}

static unsigned form_slots(unsigned form)
{
    switch (form) {
    case ISA_F32DIV_AR_AR_AR:
        return IPU21_SLOTS_F32DIV;
    case ISA_F32LN_AR_AR:
    case ISA_F32LOG2_AR_AR:
        return IPU21_SLOTS_F32LN;
    case ISA_F32EXP_AR_AR:
    case ISA_F32EXP2_AR_AR:
        return IPU21_SLOTS_F32EXP;
    case ISA_F32TANH_AR_AR:
    case ISA_F32SIGM_AR_AR:
        return IPU21_SLOTS_F32TANH;
    case ISA_F32SQRT_AR_AR:
        return IPU21_SLOTS_F32SQRT;
    case ISA_F32OORX_AR_AR:
        return IPU21_SLOTS_F32OORX;
    case ISA_F32OOX_AR_AR:
        return IPU21_SLOTS_F32OOX;
    case ISA_F16V2LN_AR_AR:
    case ISA_F16V2LOG2_AR_AR:
        return IPU21_SLOTS_F16V2LN;
    case ISA_F16V2EXP_AR_AR:
    case ISA_F16V2EXP2_AR_AR:
        return IPU21_SLOTS_F16V2EXP;
    case ISA_F16V2TANH_AR_AR:
        return IPU21_SLOTS_F16V2TANH;
    case ISA_F16V2SIGM_AR_AR:
        return IPU21_SLOTS_F16V2SIGM;
    default:
        return 1;
    }
}

static void op_fault(struct sim_op *op, sim_exec *run, unsigned size)
{
    *op = (struct sim_op){.shape = SIM_LONE_MAIN,
                          .size = (uint8_t)size,
                          .cycles = IPU21_SLOTS,
                          .main = {.run = run, .form = ISA_COUNT}};
}

/* Redirects the ARF destinations of the main half to scratch registers and notes the copies. */
static void op_stage(struct sim_op *op, const struct isa_inst *inst)
{
    const struct isa_form *form = &isa_forms[inst->form];
    unsigned scratch = SIM_STAGE, used = 0;
    op->shape = SIM_BUNDLE_STAGED;
    for (unsigned i = 0; i < form->operand_count; i++) {
        const struct isa_operand *operand = &form->operands[i];
        if (operand->kind < ISA_KIND_AR || operand->kind >= ISA_KIND_FIRST_IMMEDIATE ||
            operand->access != ISA_ACCESS_W)
            continue;
        unsigned first = (unsigned)inst->operand[i], count = kind_registers(operand->kind);
        /* ld64a32 leaves element 0 of its quad alone. */
        unsigned skip = inst->form == ISA_LD64A32_ARQUAD_MR_MR_MR ? 1 : 0;
        op->main.r[i] = (uint8_t)scratch;
        if (first < 14) {
            unsigned kept = first == 12 && count == 4 ? 2 : count;
            op->commit[used].from = (uint8_t)(scratch + skip);
            op->commit[used].to = (uint8_t)(first + skip);
            op->commit[used++].count = (uint8_t)(kept - skip);
        }
        scratch += count;
    }
}

static bool repeatable(const struct isa_inst *inst)
{
    enum isa_class class_ = isa_forms[inst->form].class_;
    return class_ != ISA_CLASS_CONTROL && class_ != ISA_CLASS_SYSTEM;
}

static void decode_bundle(uint32_t word, uint32_t next, bool fast, struct sim_op *op)
{
    struct isa_inst main, aux;
    if ((next >> 31) == 0 || !isa_decode(word, 0, true, ISA_LANE_MAIN, &main) ||
        !isa_decode(next, 0, true, ISA_LANE_AUX, &aux)) {
        op_fault(op, sim_exec_invalid, 8);
        return;
    }
    if (isa_forms[main.form].contexts == ISA_CONTEXTS_SUPERVISOR) {
        op_fault(op, sim_exec_wrong_mode, 8);
        return;
    }
    struct half_info main_info, aux_info;
    *op = (struct sim_op){.shape = SIM_BUNDLE, .size = 8};
    half_build(&main, true, fast, &op->main, &main_info);
    half_build(&aux, true, fast, &op->aux, &aux_info);
    uint32_t both = main_info.writes & aux_info.writes;
    if (main_info.twice || aux_info.twice || real_writes(both, true) != 0) {
        op_fault(op, sim_exec_invalid_operands, 8);
        return;
    }
    if ((main_info.writes & 0xffff0000u) != 0 &&
        ((main_info.writes & aux_info.reads) != 0 || (main_info.writes >> 28) == 15))
        op_stage(op, &main);
    op->cycles = (uint8_t)(IPU21_SLOTS * form_slots(aux.form));
    op->repeatable = repeatable(&main) && repeatable(&aux);
    if (op->shape == SIM_BUNDLE && aux.form == ISA_SETZI_AR_ZIMM20)
        op->shape = SIM_BUNDLE_SETZI;
    sim_fused_mark(op, &main, &aux);
}

void sim_decode_worker(uint32_t word, uint32_t next, bool fast, struct sim_op *op)
{
    if ((word >> 31) != 0) {
        decode_bundle(word, next, fast, op);
        return;
    }
    struct isa_inst inst;
    struct half_info info;
    if (!isa_decode_lone(word, next, &inst)) {
        op_fault(op, sim_exec_invalid, 4);
        return;
    }
    const struct isa_form *form = &isa_forms[inst.form];
    if (form->contexts == ISA_CONTEXTS_SUPERVISOR) {
        op_fault(op, sim_exec_wrong_mode, 4);
        return;
    }
    *op = (struct sim_op){.size = 4, .cycles = (uint8_t)(IPU21_SLOTS * form_slots(inst.form))};
    if (form->lane == ISA_LANE_AUX) {
        op->shape = SIM_LONE_AUX;
        half_build(&inst, true, fast, &op->aux, &info);
        sim_fused_mark(op, NULL, &inst);
    } else {
        op->shape = SIM_LONE_MAIN;
        half_build(&inst, true, fast, &op->main, &info);
        op->aux.run = sim_exec_none;
        if ((info.writes >> 28) == 15)
            op_stage(op, &inst);
    }
    if (info.twice)
        op_fault(op, sim_exec_invalid_operands, 4);
}

bool sim_decode_supervisor(uint32_t word, uint32_t next, struct sim_half *half,
                           struct isa_inst *inst, uint32_t *reads, uint32_t *writes)
{
    *half = (struct sim_half){.run = sim_exec_invalid, .form = ISA_COUNT};
    *reads = *writes = 0;
    bool pair = (word >> 28) == 15; /* sendpicp has bit 31 set but is no bundle */
    if ((word >> 31) != 0 && !pair) {
        half->run = sim_exec_wrong_mode;
        return false;
    }
    if (!isa_decode_lone(word, next, inst))
        return false;
    if (isa_forms[inst->form].contexts == ISA_CONTEXTS_WORKER) {
        half->run = sim_exec_wrong_mode;
        return false;
    }
    struct half_info info;
    half_build(inst, false, false, half, &info);
    *reads = info.reads & 0xffff;
    *writes = real_writes(info.writes, false) & 0xffff;
    if (info.twice)
        half->run = sim_exec_invalid_operands;
    return !info.twice;
}
