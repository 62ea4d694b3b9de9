// Bias and GELU in one pass over aligned rows: f16v4mix forms the polynomial, loads stand beside
// the bias addition and the clamping, 15 groups for four elements (facts/timing.md section 6).
// Frame: out, in, bias, elements of a row, rows. TAS holds the two coefficients, the accumulators
// hand a result out one use later, hence f16v4gacc.

#include "call.inc"

#define COEFFICIENTS 0x3a622870     /* half alpha, half alpha beta */
#define BOUNDS 0x4800c800

    worker_call kernel, bias_worker, 24, $m2, $m3, $m4, $m5, $m6
bias_worker:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    ld32 $m4, FRAME, $mzero, 2
    ld32 $m5, FRAME, $mzero, 3
    ld32 $m9, FRAME, $mzero, 4
    worker_number $m8
    or $m0, $m2, $m3                // addresses and width must be whole quads
    or $m0, $m0, $m4
    shl $m1, $m5, 1
    or $m0, $m0, $m1
    and $m0, $m0, 7
    brnz $m0, bias_narrow
    shr $m5, $m5, 2
    cmpult $m0, $m8, $m5
    brz $m0, bias_done
    ldconst $a0, COEFFICIENTS
    uput $TAS, $a0
    setzi $a0, 8                    // clear the accumulators: the first result is read
    uput $FP_CLR, $a0
    ldconst $a7, BOUNDS
    shl $m0, $m8, 3
    add $m2, $m2, $m0
    add $m3, $m3, $m0
    add $m4, $m4, $m0
    sub $m7, $m5, $m8               // quads of this worker: (quads - w + 5) / 6
    add $m7, $m7, 5
    setzi $m0, 43691
    mul $m7, $m7, $m0
    shr $m7, $m7, 18
    mul $m6, $m7, 48                // back to the row's first bias
    add $m9, $m9, -1
bias_row:
    mov $m10, $m4
    .align 8
    {
        rpt $m7, 14
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m3+=, 6
        fnop
    }
    {
        ld64step $a2:3, $mzero, $m10+=, 6
        fnop
    }
    {
        nop
        f16v4add $a4:5, $a0:1, $a2:3
    }
    {
        nop
        f16v4clamp $a0:1, $a4:5, $a7
    }
    {
        nop
        f16v4mul $a2:3, $a0:1, $a0:1
    }
    {
        nop
        f16v4mul $a2:3, $a2:3, $a0:1
    }
    {
        nop
        f16v4mix $a0:1, $a2:3, $a0:1
    }
    {
        nop
        f16v4gacc $a0:1
    }
    {
        nop
        f16v2tanh $a0, $a0
    }
    {
        nop
        f16v2tanh $a1, $a1
    }
    {
        nop
        setzi $a6, 0x3800           // one half
    }
    {
        nop
        f16v4mul $a4:5, $a6:BL, $a4:5
    }
    {
        nop
        f16v4mul $a0:1, $a0:1, $a4:5
    }
    {
        nop
        f16v4add $a0:1, $a0:1, $a4:5
    }
    {
        st64step $a0:1, $mzero, $m2+=, 6
        fnop
    }
    brnzdec $m9, bias_next
bias_done:
    exitz $mzero
bias_next:
    shl $m0, $m5, 3                 // the next row: elements of the row less what was passed
    sub $m0, $m0, $m6
    add $m2, $m2, $m0
    add $m3, $m3, $m0
    bri bias_row
bias_narrow:
    trap 0
