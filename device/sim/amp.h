/* AMP and SLIC models shared between the fast handlers and the general ones (exec_amp.c). */
#ifndef IPU_SIM_AMP_H
#define IPU_SIM_AMP_H

#include "device/sim/core.h"

/* Any AMP form with any flags, unit by unit. Unknown flags are INVALID_OP. */
int sim_amp_general(struct sim_context *x, const struct sim_half *h);

/* Eight f8 inputs to f32 in the format of FP_INFMT.INPUT, times 2^FP_ISCL. */
void sim_amp_inputs_f8(const struct sim_context *x, uint64_t packed, float inputs[8]);

/* One f8 code as f32; code 0x80 is NaN. f143: 1-4-3, bias 8; otherwise 1-5-2, bias 16. */
float sim_f8_widen(uint32_t code, bool f143);

#endif
