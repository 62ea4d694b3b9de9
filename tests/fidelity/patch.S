// Patching the instruction words of an exchange row (facts/exchange.md section 10). A list holds
// pairs {word index, value}; arguments: list, pairs, row.
//
// SCALAR: the supervisor's loop alone: eight instructions, two loads and a store that depend on
// each other, one taken branch. Else the helper that gives lists of 24 pairs and more to six
// workers, nine groups a pair.

#include "call.inc"

.macro patch_loop
    brz $m3, patch_return
patch_word:
    ld32 $m0, $m2, $mzero, 0
    ld32 $m1, $m2, $mzero, 1
    shl $m0, $m0, 2
    add $m2, $m2, 8
    add $m0, $m0, $m4
    st32 $m1, $m0, $mzero, 0
    add $m3, $m3, -1
    brnz $m3, patch_word
patch_return:
    br $m10
.endm

#ifdef SCALAR
    .section .text.kernel, "ax"
    .globl kernel
    .align 4
    .supervisor
kernel:
    patch_loop
#else
    .section .text.dispatch, "ax"
    .globl kernel
    .align 4
    .supervisor
kernel:
    cmpult $m0, $m3, 24
    brz $m0, patch_by_workers
    patch_loop

    worker_call patch_by_workers, patch_worker, 16, $m2, $m3, $m4
patch_worker:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    ld32 $m5, FRAME, $mzero, 2
    worker_number $m4
    cmpult $m0, $m4, $m3
    brz $m0, patch_done
    shl $m0, $m4, 3
    add $m2, $m2, $m0
patch_next:
    ld32 $m0, $m2, $mzero, 0
    ld32 $m1, $m2, $mzero, 1
    shl $m0, $m0, 2
    add $m0, $m0, $m5
    st32 $m1, $m0, $mzero, 0
    add $m2, $m2, 48
    add $m4, $m4, 6
    cmpult $m0, $m4, $m3
    brnz $m0, patch_next
patch_done:
    exitz $mzero
#endif
