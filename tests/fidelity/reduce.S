// Sum of P partials, f16, eight elements a turn (facts/timing.md section 6: 11 + 2 (P - 1) issue
// groups): the next partial is loaded while the one before is added, nothing is read past the
// input. BEFORE: the loop of 9 + 6 (P - 1) groups that it replaced. Frame: out, first partial,
// second partial, P - 1, elements; the partials lie one after another.

#include "call.inc"

    worker_call kernel, sum_worker, 32, $m2, $m3, $m4, $m5, $m6
sum_worker:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    ld32 $m7, FRAME, $mzero, 2
    ld32 $m8, FRAME, $mzero, 3
    ld32 $m9, FRAME, $mzero, 4
    shr $m9, $m9, 3                 // turns of eight
    worker_number $m4
    cmpult $m0, $m4, $m9
    brz $m0, sum_done
    shl $m1, $m4, 4
    add $m2, $m2, $m1
    add $m3, $m3, $m1
    add $m7, $m7, $m1
    sub $m6, $m9, $m4               // (turns - 1 - w) / 6 more turns for worker w
    add $m6, $m6, -1
    setzi $m0, 43691
    mul $m6, $m6, $m0
    shr $m6, $m6, 18
    shl $m9, $m9, 1                 // from the second half of a partial to the next partial
    add $m9, $m9, -1
#ifndef BEFORE
    add $m8, $m8, -1
#endif
#ifdef BEFORE
sum_turn:                           // loads and adds one after the other, a counted loop
    ld64step $a0:1, $mzero, $m3+=, 1
    ld64step $a2:3, $mzero, $m3+=, 11
    mov $m5, $m7
    mov $m10, $m8
sum_partial:
    ld64step $a4:5, $mzero, $m5+=, 1
    ld64step $a6:7, $mzero, $m5+=, $m9
    f16v4add $a0:1, $a0:1, $a4:5
    f16v4add $a2:3, $a2:3, $a6:7
    add $m10, $m10, -1
    brnz $m10, sum_partial
    add $m7, $m7, 96
    st64step $a0:1, $mzero, $m2+=, 1
    st64step $a2:3, $mzero, $m2+=, 11
    add $m6, $m6, -1
    brpos $m6, sum_turn
#else
    .align 8
sum_turn:                           // five words, so that one no-operation aligns the repeat
    ld64step $a0:1, $mzero, $m3+=, 1
    ld64step $a2:3, $mzero, $m3+=, 11
    mov $m5, $m7
    ld64step $a4:5, $mzero, $m5+=, 1
    ld64step $a6:7, $mzero, $m5+=, $m9
    .align 8
    {
        rpt $m8, 1
        fnop
    }
    {
        ld64step $a4:5, $mzero, $m5+=, 1
        f16v4add $a0:1, $a0:1, $a4:5
    }
    {
        ld64step $a6:7, $mzero, $m5+=, $m9
        f16v4add $a2:3, $a2:3, $a6:7
    }
    f16v4add $a0:1, $a0:1, $a4:5
    f16v4add $a2:3, $a2:3, $a6:7
    add $m7, $m7, 96
    st64step $a0:1, $mzero, $m2+=, 1
    st64step $a2:3, $mzero, $m2+=, 11
    brnzdec $m6, sum_turn
#endif
sum_done:
    exitz $mzero
