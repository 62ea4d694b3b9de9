// The AMP GEMM of the measured system: out[R x C] = x[R x K] w, panels of 16 (f16) or 32 (f8)
// inner by 16 columns (facts/timing.md section 4: 294 + panels (4 R + 160)).
//
// For each panel the supervisor waits for the workers, loads 64 coefficients, and launches six
// workers, each on its share of the rows. The first inner panel of a column writes, the later ones
// add to what is in memory. Workers keep addresses in registers from launch to launch. What is not
// the stream of rows is what 160 is made of: join, 32 loads, launch, filling and draining the unit.
//
// RETAINED 1: the panel's stride lies in a register and the clearing stands beside the first load
// (the kernels from 2026-09-13 on). 0: before, a test for an idle worker and a load more each
// launch; 2: the kernels before they were shared between row counts: constants in the code.

#include "call.inc"

#ifdef FP8
#define MULTIPLY f8v8hihov4amp
#define PHASE(p) TAMP_F8V8_E4_P##p
.set INNER, 32
#else
#define MULTIPLY f16v4hihov4amp
#define PHASE(p) TAMP_F16V4_E4_P##p
.set INNER, 16
#endif
#define X $a0:1
#define P $a2:3
#define XP $a0:3
#define S $a4:5
#define T $a6:7
#define POINTERS $m6:7+=
#define WORKER $mworker_base
.set ZAACC, 8
.set QUOTIENT, R / 6
.set REMAINDER, R % 6

.macro coefficients
    .irp group, 0, 8, 16, 24, 32, 40, 48, 56
#ifdef INTERLEAVED
    .irp slot, 0, 2, 4, 6
    ld128putcs \group + \slot
    .endr
#else
    .irp slot, 0, 1, 2, 3, 4, 5, 6, 7
    ld64putcs \group + \slot
    .endr
#endif
    .endr
.endm

    .section .text.kernel, "ax"
    .globl kernel
    .align 4
    .supervisor
kernel:
    add $m11, $m11, -48
    st32 $m2, $m11, $mzero, 0
    st32 $m3, $m11, $mzero, 1
    setzi $m8, 1
    st32 $m8, $m11, $mzero, 5
    setzi $m8, R * 32
    st32 $m8, $m11, $mzero, 7
    get $m8, $FP_ICTL
    st32 $m8, $m11, $mzero, 6
    put $FP_ICTL, $m8
#ifdef FP8
    setzi $m0, 3
#else
    setzi $m0, 0
#endif
    put $FP_INFMT, $m0
    put $FP_ISCL, $m5
    setzi $m8, 4                    // clear the coefficients
    put $CR, $m8
    put $CCCSLOAD, $m4
    zero $m6
    setzi $m0, rows_first
column:
    zero $m7
panel:
    sync TEXCH_SYNCZONE_LOCAL
    coefficients
    runall $m0, $m11, 0
    setzi $m0, rows_later
    add $m7, $m7, 1
    setzi $m8, K / INNER
    cmpult $m8, $m7, $m8
    brnz $m8, panel
    setzi $m0, rows_column
    add $m6, $m6, 1
    setzi $m8, C / 16
    cmpult $m8, $m6, $m8
    brnz $m8, column
    sync TEXCH_SYNCZONE_LOCAL
    ld32 $m8, $m11, $mzero, 6
    put $FP_ICTL, $m8
    add $m11, $m11, 48
    br $m10

// The stream of a worker's rows that writes: x at $m1, out at $m2, rows - 1 in $m8.
.macro stream_first
    setzi $a6, ZAACC
    {
        mov $m5, $m1
        uput $FP_CLR, $a6
    }
    ld64step X, $mzero, $m5+=, 1
    .irp phase, 0, 1, 2, 3, 0       // the unit fills: five atoms in, nothing out
    {
        ld64step X, $mzero, $m5+=, 1
        MULTIPLY S, X, $azeros, PHASE(\phase)
    }
    .endr
    tapack $m6:7, $m5, $mzero, $m2
    .align 8
    {
        rpt $m8, 3
        fnop
    }
    .irp phase, 1, 2, 3, 0
    {
        ldst64pace X, S, POINTERS, $mzero, 0
        MULTIPLY S, X, $azeros, PHASE(\phase)
    }
    .endr
    .irp phase, 1, 2, 3
    {
        st64pace S, POINTERS, $mzero, 0
        MULTIPLY S, $azeros, $azeros, PHASE(\phase)
    }
    .endr
    st64pace S, POINTERS, $mzero, 0
.endm

// The stream that adds to what is in memory; $m4 = the second row of out.
.macro stream_add
    setzi $a6, ZAACC
#if RETAINED == 1
    {
        ld128 XP, $m2, $mzero, 0
        uput $FP_CLR, $a6
    }
#else
    uput $FP_CLR, $a6
    ld128 XP, $m2, $mzero, 0
#endif
    // The first row's partials go in alone; then its atoms with the second row's partials.
    {
        nop
        MULTIPLY S, $azeros, X, PHASE(0)
    }
    {
        ld128 XP, $m2, $mzero, 1
        MULTIPLY S, $azeros, P, PHASE(1)
    }
    {
        tapack $m6:7, $m1, $m4, $m2
        MULTIPLY S, $azeros, X, PHASE(2)
    }
    {
        ld2x64pace X, P, POINTERS, $mzero, 0
        MULTIPLY S, $azeros, P, PHASE(3)
    }
    .irp phase, 0, 1, 2, 3, 0
    {
        ld2x64pace X, P, POINTERS, $mzero, 0
        MULTIPLY S, X, P, PHASE(\phase)
    }
    .endr
    {
        ld2x64pace X, P, POINTERS, $mzero, 0
        MULTIPLY T, X, P, PHASE(1)
    }
    .align 8
    {
        rpt $m8, 3
        fnop
    }
    {
        ld2xst64pace XP, S, POINTERS, $mzero, 0
        MULTIPLY S, X, P, PHASE(2)
    }
    {
        ld2xst64pace XP, T, POINTERS, $mzero, 0
        MULTIPLY T, X, P, PHASE(3)
    }
    {
        ld2xst64pace XP, S, POINTERS, $mzero, 0
        MULTIPLY S, X, P, PHASE(0)
    }
    {
        ld2xst64pace XP, T, POINTERS, $mzero, 0
        MULTIPLY T, X, P, PHASE(1)
    }
    // The last row's results.
    {
        st64pace S, POINTERS, $mzero, 0
        MULTIPLY S, $azeros, $azeros, PHASE(2)
    }
    {
        st64pace T, POINTERS, $mzero, 0
        MULTIPLY T, $azeros, $azeros, PHASE(3)
    }
    st64pace S, POINTERS, $mzero, 0
    st64pace T, POINTERS, $mzero, 0
.endm

    .worker
    .align 8
#ifndef PACKED
// Held from launch to launch: $m8 rows - 1 (negative: none), $m9 bytes before the worker's first
// row, $m1 x and $m2 out at the worker's first row, the former of this panel, $m3 bytes of a
// panel, $m4 the second row of out.

rows_first:
    worker_number $m5
    mul $m9, $m5, QUOTIENT
    setzi $m8, QUOTIENT
    setzi $m3, REMAINDER
    cmpult $m4, $m5, $m3
    add $m8, $m8, $m4
    min $m4, $m5, $m3
    add $m9, $m9, $m4
    shl $m9, $m9, 5
    add $m8, $m8, -1
    brneg $m8, rows_done
    ld32 $m2, FRAME, $mzero, 0
    add $m2, $m2, $m9
    setzi $m3, R * 32
    bri rows_start
rows_column:
#if RETAINED != 2
    brneg $m8, rows_done
#endif
    add $m2, $m2, $m3
rows_start:
    ld32 $m1, FRAME, $mzero, 1
    add $m1, $m1, $m9
    add $m4, $m2, 32
    ld32 $m5, FRAME, $mzero, 5      // a call may add to what is there
    brz $m5, rows_add
    stream_first
    exitz $mzero

rows_later:
#if RETAINED == 0
    brneg $m8, rows_done
    ld32 $m5, FRAME, $mzero, 5
#endif
    add $m1, $m1, $m3
rows_add:
    stream_add
rows_done:
    exitz $mzero
#else
// Packed output: panels of 16 rows with all columns of a panel together, so a worker's rows fall
// into chunks of one panel each. Rows and chunk are found anew at every launch; $m0 out of the
// column and $m10 x of the panel are held. Chunk: $m8 rows - 1, $m9 rows left, $m5 work.
rows_first:
    ld32 $m0, FRAME, $mzero, 0
    ld32 $m10, FRAME, $mzero, 1
    bri packed_rows
rows_column:
    add $m0, $m0, 512
    ld32 $m10, FRAME, $mzero, 1
    bri packed_rows
rows_later:
#if RETAINED == 0
    ld32 $m5, FRAME, $mzero, 7
    add $m10, $m10, $m5
#else
    add $m10, $m10, R * 32
#endif
packed_rows:
    worker_number $m5
    mul $m1, $m5, QUOTIENT
    setzi $m9, QUOTIENT
    setzi $m3, REMAINDER
    cmpult $m4, $m5, $m3
    add $m9, $m9, $m4
    min $m4, $m5, $m3
    add $m3, $m1, $m4               // the first row
    brz $m9, rows_done
    shl $m1, $m3, 5
    add $m1, $m1, $m10
    shr $m2, $m3, 4
    mul $m2, $m2, C * 32
    and $m3, $m3, 15
    shl $m4, $m3, 5
    add $m2, $m2, $m4
    add $m2, $m2, $m0
packed_chunk:
    setzi $m5, 16
    sub $m5, $m5, $m3
    min $m5, $m5, $m9
    add $m8, $m5, -1
    sub $m9, $m9, $m5
    shl $m5, $m5, 5
    st32 $m5, WORKER, $mzero, 0
    ld32 $m5, FRAME, $mzero, 1
    cmpeq $m5, $m5, $m10            // the first inner panel writes
    brz $m5, packed_add
    stream_first
    bri packed_next
packed_add:
    add $m4, $m2, 32
    stream_add
packed_next:
    brz $m9, rows_done
    ld32 $m5, WORKER, $mzero, 0
    add $m1, $m1, $m5
    shl $m3, $m3, 5
    add $m2, $m2, C * 32
    sub $m2, $m2, $m3
    zero $m3
    bri packed_chunk
rows_done:
    exitz $mzero
#endif
