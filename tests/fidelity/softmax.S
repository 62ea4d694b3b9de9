// Softmax over whole rows of f16 scores in panels of 16: 43 issue groups a panel, 9 of them for
// the maximum (facts/measurements.tsv F11, later per-panel term). Frame: out, in, rows, keys,
// maxima, sums.
//
// Per panel the accumulators are cleared, f16v4mix forms score - maximum and hands it out one use
// later, four quads are exponentiated, stored and summed in f16, and the panel's sum is added in
// f32. Nothing is scaled: the coefficients in TAS are 1 and -1.

#include "call.inc"

.set PANELS, KEYS / 16

.macro exponentiate
    f16v2exp $a2, $a2
    f16v2exp $a3, $a3
    {
        st32step $a2, $mzero, $m2+=, 1
        f16v2add $a6, $a2, $a6
    }
    {
        st32step $a3, $mzero, $m2+=, 1
        f16v2add $a6, $a3, $a6
    }
.endm

    .section .text.kernel, "ax"
    .globl kernel
    .align 4
    .supervisor
kernel:
    add $m11, $m11, -24
    st32 $m2, $m11, $mzero, 0
    st32 $m3, $m11, $mzero, 1
    st32 $m6, $m11, $mzero, 2
    st32 $m7, $m11, $mzero, 3
    st32 $m4, $m11, $mzero, 4
    st32 $m5, $m11, $mzero, 5
    brz $m8, whole                  // the other way splits a row over two workers
    trap 0
whole:
    setzi $m0, softmax_worker
    runall $m0, $m11, 0
    sync TEXCH_SYNCZONE_LOCAL
    add $m11, $m11, 24
    br $m10

    .worker
    .align 8
softmax_worker:
    ld32 $m5, FRAME, $mzero, 2
    worker_number $m4
    cmpult $m0, $m4, $m5
    brz $m0, softmax_done
    add $m8, $m5, -1                // from a row's cell to the next panel's
    shl $m8, $m8, 5
softmax_row:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    shl $m0, $m4, 5
    add $m2, $m2, $m0
    add $m3, $m3, $m0
    mov $m9, $m3
    ldconst $a6, 0xfbfffbff
    setzi $m7, PANELS - 1
softmax_maximum:
    mov $a7, $a6
    ld64step $a0:1, $mzero, $m3+=, 1
    .rept 3
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        f16v4max $a6:7, $a0:1, $a6:7
    }
    .endr
    f16v4max $a6:7, $a0:1, $a6:7
    f16v2max $a6, $a7, $a6
    add $m3, $m3, $m8
    brnzdec $m7, softmax_maximum
    f16v2tof32 $a6:7, $a6
    f32max $a6, $a6, $a7
    ld32 $m6, FRAME, $mzero, 4
    shl $m0, $m4, 2
    add $m6, $m6, $m0
    st32 $a6, $m6, $mzero, 0
    mov $a7, $a6
    f32v2tof16 $a4, $a6:7
    mov $a5, $a4
    ldconst $a0, 0xbc003c00         // -1, 1
    uput $TAS, $a0
    setzi $a7, 0
    setzi $a6, 0
    mov $m3, $m9
    setzi $m7, PANELS - 1
softmax_panel:
    setzi $a0, 8
    uput $FP_CLR, $a0
    ld64step $a0:1, $mzero, $m3+=, 1
    f16v4mix $a2:3, $a0:1, $a4:5
    .rept 3
    ld64step $a0:1, $mzero, $m3+=, 1
    f16v4mix $a2:3, $a0:1, $a4:5
    exponentiate
    .endr
    f16v4gacc $a2:3
    exponentiate
    f16v2tof32 $a0:1, $a6
    f32add $a0, $a0, $a1
    f32add $a7, $a0, $a7
    setzi $a6, 0
    add $m3, $m3, $m8
    add $m2, $m2, $m8
    brnzdec $m7, softmax_panel
    ld32 $m6, FRAME, $mzero, 5
    shl $m0, $m4, 2
    add $m6, $m6, $m0
    st32 $a7, $m6, $mzero, 0
    add $m4, $m4, 6
    cmpult $m0, $m4, $m5
    brnz $m0, softmax_row
softmax_done:
    exitz $mzero
