// Local copy of eight-byte units by six workers (M449: 288 cycles and one group of eight bytes):
// each worker moves a run of its own with one paced load and store a group, so source and
// destination lie in different memory elements. Frame: destination, source, quotient and remainder
// of the units by six.

#include "call.inc"

    worker_call kernel, copy_worker, 16, $m2, $m3, $m4, $m5
copy_worker:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    ld32 $m5, FRAME, $mzero, 2
    ld32 $m6, FRAME, $mzero, 3
    or $m7, $m2, $m3                // words that are no pairs would go another way
    and $m7, $m7, 7
    brnz $m7, copy_done
    worker_number $m4
    cmpult $m7, $m4, $m6
    mul $m8, $m4, $m5
    min $m9, $m4, $m6
    add $m8, $m8, $m9
    shl $m8, $m8, 3
    add $m2, $m2, $m8
    add $m3, $m3, $m8
    add $m5, $m5, $m7
    brz $m5, copy_done
    ld64step $a0:1, $mzero, $m3+=, 1
    tapack $m8:9, $m3, $mzero, $m2
    add $m5, $m5, -1
    .align 8
    {
        rpt $m5, 0
        fnop
    }
    {
        ldst64pace $a0:1, $a0:1, $m8:9+=, $mzero, 0
        fnop
    }
    st64pace $a0:1, $m8:9+=, $mzero, 0
copy_done:
    exitz $mzero
