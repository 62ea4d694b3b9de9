// add_row_f32, add_column_f32: $m0 = {x, vector, out, rows, panels}. ABI: kernels.h; scheme:
// bias.inc.

#define LOG 3
#include "bias.inc"

#ifdef KERNEL_ADD_ROW_F32
    row_kernel f32v2add $a2:3, $a0:1, $a6:7
#endif
#ifdef KERNEL_ADD_COLUMN_F32
    column_kernel ld32, f32v2add $a2:3, $a6:B, $a0:1
#endif
