// Zero fill: loads, context number, share, branch and repeat, then one store of eight bytes a group
// (facts/timing.md section 4).
// Frame: destination, quotient and remainder of the count of eight-byte units by six.

#include "call.inc"

    worker_call kernel, fill_worker, 16, $m2, $m3, $m4
fill_worker:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    ld32 $m5, FRAME, $mzero, 2
    worker_number $m4
    cmpult $m6, $m4, $m5
    add $m3, $m3, $m6
    shl $m7, $m4, 3
    add $m2, $m2, $m7
    brz $m3, fill_done
    .align 8
    {
        rpt $m3, 0
        fnop
    }
    {
        st64step $azeros, $mzero, $m2+=, 6
        fnop
    }
fill_done:
    exitz $mzero
