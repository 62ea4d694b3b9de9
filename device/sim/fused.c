/* Which bundles the fused loop of fused.inc takes, and the choice of its build.
 *
 * A bundle is fused when it multiplies (f16v4hihov4amp with all eight units) beside one of a few
 * loads and stores, or alone. The mark is made once, at decoding; everything that depends on
 * register contents is left to the loop. A bundle that is not marked only runs more slowly.
 */
#include "device/sim/core.h"

#include "device/ipu21/flags.h"

static enum sim_fused main_kind(unsigned form)
{
    switch (form) {
    case ISA_LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6:
        return SIM_FUSED_LD2XST64PACE;
    case ISA_LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4:
        return SIM_FUSED_LDST64PACE;
    case ISA_LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4:
        return SIM_FUSED_LD2X64PACE;
    case ISA_ST64PACE_ARPAIR_MRPAIR_MR_PACE2IN8:
        return SIM_FUSED_ST64PACE;
    case ISA_LD64_ARPAIR_MR_MR_ZIMM12:
        return SIM_FUSED_LD64;
    case ISA_ST64_ARPAIR_MR_MR_ZIMM12:
        return SIM_FUSED_ST64;
    default:
        return SIM_FUSED_NONE;
    }
}

/* The addresses stand in a pair that the worker may write and that is not the stride as well. */
static bool pace_is_plain(const struct sim_half *half, enum sim_fused kind)
{
    unsigned i = kind == SIM_FUSED_ST64PACE ? 1 : 2;
    unsigned pair = half->r[i], stride = half->r[i + 1];
    return half->r[4] == pair && stride != pair && stride != pair + 1;
}

static uint8_t load_target(unsigned pair)
{
    return (uint8_t)(pair < 14 ? pair : SIM_SCRATCH);
}

static void mark_loads(struct sim_op *op, const struct isa_inst *main, enum sim_fused kind)
{
    unsigned first = (unsigned)main->operand[0];
    op->load[0] = load_target(first);
    op->load[1] =
        load_target(kind == SIM_FUSED_LD2XST64PACE ? first + 2 : (unsigned)main->operand[1]);
}

void sim_fused_mark(struct sim_op *op, const struct isa_inst *main, const struct isa_inst *aux)
{
    struct ipu21_amp_flags flags;
    if (aux->form != ISA_F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6 ||
        !ipu21_amp_decode((uint32_t)op->aux.imm, false, &flags) || flags.engines != 4)
        return;
    enum sim_fused kind = main ? main_kind(main->form) : SIM_FUSED_AMP;
    if (kind >= SIM_FUSED_LD2XST64PACE && kind <= SIM_FUSED_ST64PACE &&
        !pace_is_plain(&op->main, kind))
        return;
    if (main && kind != SIM_FUSED_NONE)
        mark_loads(op, main, kind);
    op->fused = (uint8_t)kind;
}
