// relu_f16: $m0 = {in, out, count}; add_f16: $m0 = {a, b, out, count}. count is a multiple of 16.
// ABI: kernels.h. Sums round to nearest even and saturate.

#include "elementwise.inc"

#ifdef KERNEL_RELU_F16
    unary f16v4max $a2:3, $a0:1, $azeros
#endif
#ifdef KERNEL_ADD_F16
    binary f16v4add $a2:3, $a0:1, $a2:3
#endif
