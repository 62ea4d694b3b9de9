// relu_f32, gelu_f32: $m0 = {in, out, count}; add_f32: $m0 = {a, b, out, count}. count is a
// multiple of 16. ABI: kernels.h.
//
// gelu_f32 is the tanh form, y = x (1/2 + 1/2 tanh(x (k0 + k1 x^2))): 18 slots for two elements,
// ten of them in f32tanh.

#include "elementwise.inc"

#ifdef KERNEL_RELU_F32
    unary f32v2max $a2:3, $a0:1, $azeros
#endif
#ifdef KERNEL_ADD_F32
    binary f32v2add $a2:3, $a0:1, $a2:3
#endif
#ifdef KERNEL_GELU_F32
#define K0 0x3f4c422a               /* sqrt(2/pi) = 0.79788456 */
#define K1 0x3d122279               /* 0.044715 sqrt(2/pi) = 0.035677407 */
    kernel_begin 3
    {
        ld32 $m1, VB, $mzero, 0
        setzi $a6, K0 & 0xfffff
    }
    {
        ld64step $a0:1, $mzero, $m1+=, 6
        or $a6, $a6, K0 & 0xfff00000
    }
    {
        ld32 $m2, VB, $mzero, 1
        setzi $a7, K1 & 0xfffff
    }
    {
        ld32 $m7, VB, $mzero, 2
        or $a7, $a7, K1 & 0xfff00000
    }
    {
        nop
        or $a4, $azero, 0x3f000000      // 0.5
    }
    {
        rpt $m7, 9
        fnop
    }
    {
        nop
        f32v2mul $a2:3, $a0:1, $a0:1
    }
    {
        nop
        f32v2mul $a2:3, $a7:B, $a2:3
    }
    {
        nop
        f32v2add $a2:3, $a6:B, $a2:3
    }
    {
        nop
        f32v2mul $a2:3, $a0:1, $a2:3
    }
    {
        nop
        f32tanh $a2, $a2
    }
    {
        nop
        f32tanh $a3, $a3
    }
    {
        nop
        f32v2mul $a2:3, $a4:B, $a2:3
    }
    {
        nop
        f32v2add $a2:3, $a4:B, $a2:3
    }
    {
        ld64step $a0:1, $mzero, $m1+=, 6
        f32v2mul $a2:3, $a0:1, $a2:3
    }
    {
        st64step $a2:3, $mzero, $m2+=, 6
        fnop
    }
    exitz $mzero
    kernel_end
#endif
