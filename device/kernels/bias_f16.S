// add_row_f16, bias_relu_f16, bias_gelu_f16, add_column_f16: $m0 = {x, vector, out, rows, panels}.
// ABI: kernels.h; scheme: bias.inc. x plus bias is rounded to f16 before the activation.
//
// bias_gelu uses the logistic form of the same function, y = v / (1 + exp(-2 u)) with
// u = sqrt(2/pi) (v + 0.044715 v^3): nine slots an atom, and no constant beside TAS, so that the
// bias has registers. See gelu_f16.S for f16v4mix: a step starts row g and finishes row g-1.

#define LOG 2
#include "bias.inc"

#ifdef KERNEL_ADD_ROW_F16
    row_kernel f16v4add $a2:3, $a0:1, $a6:7
#endif
#ifdef KERNEL_ADD_COLUMN_F16
    column_kernel ldb16, f16v4add $a2:3, $a6:BL, $a0:1
#endif

#ifdef KERNEL_BIAS_RELU_F16
    row_setup
    add $m8, $m8, -1
column:
    row_column
    ld64step $a0:1, $m1, $m5+=, CELL / 8
    {
        ld64step $a0:1, $m1, $m5+=, CELL / 8
        f16v4add $a2:3, $a0:1, $a6:7
    }
    f16v4max $a4:5, $a2:3, $azeros
    .align 8
    {
        rpt $m8, 1
        fnop
    }
    {
        ld64step $a0:1, $m1, $m5+=, CELL / 8    // two rows ahead at the end: over-read
        f16v4add $a2:3, $a0:1, $a6:7
    }
    {
        st64step $a4:5, $m2, $m6+=, CELL / 8
        f16v4max $a4:5, $a2:3, $azeros
    }
    st64step $a4:5, $m2, $m6+=, CELL / 8
    brnzdec $m7, column
done:
    exitz $mzero
    kernel_end
#endif

#ifdef KERNEL_BIAS_GELU_F16
#define K0K1 0x3e622c91            /* f16 2 sqrt(2/pi) = 1.5957 and 2 . 0.044715 sqrt(2/pi) */

.macro gelu_rest new, old
    {
        nop
        f16v4mul $a4:5, \new, \new
    }
    {
        nop
        f16v4mul $a4:5, $a4:5, \new
    }
    {
        nop
        f16v4mix $a4:5, $a4:5, \new
    }
    {
        nop
        f16v2sigm $a4, $a4
    }
    {
        nop
        f16v2sigm $a5, $a5
    }
    {
        ld64step $a4:5, $m1, $m5+=, CELL / 8    // after the last row: over-read
        f16v4mul \old, \old, $a4:5
    }
.endm
.macro gelu_step new, old
    {
        st64step \new, $m2, $m6+=, CELL / 8
        f16v4add \new, $a4:5, $a6:7
    }
    gelu_rest \new, \old
.endm
.macro gelu_finish last
    f16v2sigm $a4, $a4
    f16v2sigm $a5, $a5
    f16v4mul \last, \last, $a4:5
    st64step \last, $m2, $m6+=, CELL / 8
    brnzdec $m7, column
    exitz $mzero
.endm

    row_setup
    {
        add $m8, $m8, -2
        setzi $a6, K0K1 & 0xfffff
    }
    {
        shr $m0, $m8, 1
        or $a6, $a6, K0K1 & 0xfff00000
    }
    {
        and $m11, $m8, 1
        uput $TAS, $a6
    }
column:
    row_column
    ld64step $a4:5, $m1, $m5+=, CELL / 8
    f16v4add $a0:1, $a4:5, $a6:7
    f16v4mul $a4:5, $a0:1, $a0:1
    f16v4mul $a4:5, $a4:5, $a0:1
    {
        brneg $m8, one
        f16v4mix $a4:5, $a4:5, $a0:1
    }
    ld64step $a4:5, $m1, $m5+=, CELL / 8
    f16v4add $a2:3, $a4:5, $a6:7
    gelu_rest $a2:3, $a0:1
    .align 8
    {
        rpt $m0, 13
        fnop
    }
    gelu_step $a0:1, $a2:3
    gelu_step $a2:3, $a0:1
    brnz $m11, odd
    {
        st64step $a0:1, $m2, $m6+=, CELL / 8
        f16v4mix $a4:5, $azeros, $azeros
    }
    gelu_finish $a2:3
odd:
    gelu_step $a0:1, $a2:3
    {
        st64step $a2:3, $m2, $m6+=, CELL / 8
        f16v4mix $a4:5, $azeros, $azeros
    }
    gelu_finish $a0:1
one:
    f16v4mix $a4:5, $azeros, $azeros
    gelu_finish $a0:1
done:
    exitz $mzero
    kernel_end
#endif
