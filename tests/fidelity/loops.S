// The inner loops for which PopLibs publishes issue counts (facts/timing_isa.md sections 3 and 6):
// one entry, one worker code, a count of passes. Frame: passes, data, more data. LOOP selects the
// body.

#include "call.inc"

#ifdef SUPERVISOR_LOOP
// A counted loop of the supervisor: 6 (n - 1) + 1 cycles when nothing else stands in it.
    .section .text.kernel, "ax"
    .globl kernel
    .align 4
    .supervisor
kernel:
    add $m2, $m2, -1
    nop
    nop
    nop
    nop
    nop
loop:
    brnzdec $m2, loop
    br $m10
#elif defined(UNEVEN)
// Six workers, MIN groups each but for worker 5 with MAX; beside them the supervisor has 14 cycles
// of work, which it can begin when the first worker is gone: max(6 MAX, 6 MIN + 14).
    .section .text.kernel, "ax"
    .globl kernel
    .align 4
    .supervisor
kernel:
    setzi $m0, uneven_worker
    runall $m0, $mzero, 0
    put $CCCSLOAD, $mzero
    put $CCCSLOAD, $mzero
    setzi $m1, 0
    setzi $m1, 0
    sync TEXCH_SYNCZONE_LOCAL
    br $m10
    .worker
    .align 8
uneven_worker:
    worker_number $m4
    cmpeq $m4, $m4, 5
    mul $m4, $m4, MAX - MIN
    add $m4, $m4, MIN - 8           // the groups around the repeat
    .align 8
    {
        rpt $m4, 0
        fnop
    }
    {
        nop
        fnop
    }
    exitz $mzero
#else
    worker_call kernel, loop_worker, 16, $m2, $m3, $m4
loop_worker:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    ld32 $m4, FRAME, $mzero, 2
    tapack $m6:7, $m3, $mzero, $m4
    ldconst $a4, 0x3f800000
    ldconst $a5, 0x3f800000
    .align 8
#if LOOP == 1                           /* f16v8acc: two groups for 128 bits */
    {
        rpt $m2, 1
        fnop
    }
    {
        ld128step $a0:3, $mzero, $m3+=, 1
        fnop
    }
    {
        nop
        f16v8acc $a0:3
    }
#elif LOOP == 2                         /* one stream: one group for 64 bits */
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        fnop
    }
    {
        rpt $m2, 0
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        f16v4acc $a0:1
    }
#elif LOOP == 3                         /* f16v4 multiplication: one group for 4 halves */
    {
        rpt $m2, 0
        fnop
    }
    {
        ldst64pace $a0:1, $a2:3, $m6:7+=, $mzero, 0
        f16v4mul $a2:3, $a0:1, $a0:1
    }
#elif LOOP == 4                         /* half division: 5 bundles, 9 groups for 2 halves */
    {
        rpt $m2, 4
        fnop
    }
    {
        ld32step $a0, $mzero, $m3+=, 1
        f16v2tof32 $a2:3, $a0
    }
    {
        nop
        f32div $a2, $a2, $a4
    }
    {
        nop
        f32div $a3, $a3, $a5
    }
    {
        nop
        f32v2tof16 $a2, $a2:3
    }
    {
        st32step $a2, $mzero, $m4+=, 1
        fnop
    }
#elif LOOP == 5                         /* AMP f16: 4 groups for a row of 16 channels, K = 16 */
    {
        rpt $m2, 3
        fnop
    }
    .irp phase, 0, 1, 2, 3
    {
        ldst64pace $a0:1, $a2:3, $m6:7+=, $mzero, 0
        f16v4hihov4amp $a2:3, $a0:1, $azeros, TAMP_F16V4_E4_P\phase
    }
    .endr
#elif LOOP == 7                         /* addition: 4 groups for 4 halves */
    {
        rpt $m2, 3
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        fnop
    }
    {
        ld64step $a2:3, $mzero, $m3+=, -1
        fnop
    }
    {
        add $m3, $m3, 8
        f16v4add $a2:3, $a0:1, $a2:3
    }
    {
        st64step $a2:3, $mzero, $m4+=, 1
        fnop
    }
#elif LOOP == 8                         /* moments: 3 groups for 8 halves, then 6 for 4 */
    {
        rpt $m2, 2
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        fnop
    }
    {
        ld64step $a2:3, $mzero, $m3+=, 1
        fnop
    }
    {
        nop
        f16v8acc $a0:3
    }
    add $m2, $m2, $m2
    ld32 $m3, FRAME, $mzero, 1
    .align 8
    {
        rpt $m2, 5
        setzi $a2, 0                    // the mean, negative
    }
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        fnop
    }
    {
        nop
        f16v2tof32 $a4:5, $a0
    }
    {
        nop
        f16v2tof32 $a6:7, $a1
    }
    {
        nop
        f32v2add $a4:5, $a2:B, $a4:5
    }
    {
        nop
        f32v2add $a6:7, $a2:B, $a6:7
    }
    {
        nop
        f32v4sqacc $a4:7
    }
#elif LOOP == 9                         /* normalisation of a pair in 6 groups */
    {
        rpt $m2, 5
        fnop
    }
    {
        ld32step $a0, $mzero, $m3+=, 1
        fnop
    }
    {
        nop
        f16v2tof32 $a2:3, $a0
    }
    {
        nop
        f32v2add $a2:3, $a5:B, $a2:3
    }
    {
        nop
        f32v2mul $a2:3, $a4:B, $a2:3
    }
    {
        nop
        f32v2tof16 $a2, $a2:3
    }
    {
        st32step $a2, $mzero, $m4+=, 1
        fnop
    }
#elif LOOP == 10                        /* the same with scale and shift in 10 */
    {
        rpt $m2, 9
        fnop
    }
    {
        ld32step $a0, $mzero, $m3+=, 1
        fnop
    }
    {
        ld32 $a1, $m3, $mzero, 0
        f16v2tof32 $a2:3, $a0
    }
    {
        ld32 $a0, $m3, $mzero, 1
        f32v2add $a2:3, $a5:B, $a2:3
    }
    {
        nop
        f16v2tof32 $a6:7, $a1
    }
    {
        nop
        f32v2mul $a2:3, $a4:B, $a2:3
    }
    {
        nop
        f32v2mul $a2:3, $a6:7, $a2:3
    }
    {
        nop
        f16v2tof32 $a6:7, $a0
    }
    {
        nop
        f32v2add $a2:3, $a6:7, $a2:3
    }
    {
        nop
        f32v2tof16 $a2, $a2:3
    }
    {
        st32step $a2, $mzero, $m4+=, 1
        fnop
    }
#else                                   /* FUNCTION on two registers, load and store beside it */
    {
        rpt $m2, 1
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        FUNCTION $a2, $a0
    }
    {
        st64step $a2:3, $mzero, $m4+=, 1
        FUNCTION $a3, $a1
    }
#endif
    exitz $mzero
#endif
