// GELU f16 (tanh form, argument clamped to +-8), two elements a register, by six workers that take
// blocks of eight pairs in turn (facts/measurements.tsv F06..F09). Frame: out, in, elements.
//
// VERSION 0: before the clamp, two-wide arithmetic: 93 groups a block. VERSION 1: four-wide with
// the clamp, 85. VERSION 2: the operand is read again beside the arithmetic, 77. A count that is
// no multiple of 16 takes the second loop, three groups more a block, and pairs of 20 groups.
//
// Registers: $a0:1 the elements, $a2:3 work, $a4 beta, $a5 alpha, $a6 one, $a7 half or the bounds.

#include "call.inc"

#define HALF 0x3800
#define BETA 0x29b929b9
#define ALPHA 0x3a623a62
#define ONE 0x3c003c00
#define BOUNDS 0x4800c800

// Words of the frame where constants wait that have no register of their own.
.set FRAME_BOUNDS, 4
.set FRAME_HALF, 5

.macro constants
    ldconst $a4, BETA
    ldconst $a5, ALPHA
    ldconst $a6, ONE
#if VERSION == 0
    ldconst $a7, HALF << 16 | HALF
#endif
.endm

// One pair register at a time: a form of two registers per instruction pair.
.macro two op, d0, d1, s0, s1, t0, t1
    \op \d0, \s0, \t0
    \op \d1, \s1, \t1
.endm

#if VERSION == 0
.macro quad at
    ld32 $a0, $m3, $mzero, \at
    ld32 $a1, $m3, $mzero, \at + 1
    two f16v2mul, $a2, $a3, $a0, $a1, $a0, $a1
    two f16v2mul, $a2, $a3, $a2, $a3, $a0, $a1
    two f16v2mul, $a2, $a3, $a4, $a4, $a2, $a3
    two f16v2add, $a2, $a3, $a0, $a1, $a2, $a3
    two f16v2mul, $a2, $a3, $a5, $a5, $a2, $a3
    f16v2tanh $a2, $a2
    f16v2tanh $a3, $a3
    two f16v2add, $a2, $a3, $a6, $a6, $a2, $a3
    two f16v2mul, $a2, $a3, $a7, $a7, $a2, $a3
    two f16v2mul, $a2, $a3, $a0, $a1, $a2, $a3
    st32 $a2, $m2, $mzero, \at
    st32 $a3, $m2, $mzero, \at + 1
.endm
#else
.macro polynomial
    f16v4mul $a2:3, $a0:1, $a0:1
    f16v4mul $a2:3, $a2:3, $a0:1
    f16v4mul $a2:3, $a4:BL, $a2:3
    f16v4add $a2:3, $a2:3, $a0:1
    f16v4mul $a2:3, $a5:BL, $a2:3
    f16v2tanh $a2, $a2
    f16v2tanh $a3, $a3
.endm
.macro quad at
    ld32 $a0, $m3, $mzero, \at
    ld32 $a1, $m3, $mzero, \at + 1
    ld32 $a7, FRAME, $mzero, FRAME_BOUNDS
#if VERSION == 1
    f16v2clamp $a0, $a0, $a7
    f16v2clamp $a1, $a1, $a7
    polynomial
    ld32 $a7, FRAME, $mzero, FRAME_HALF
    f16v4add $a2:3, $a6:BL, $a2:3
#else
    f16v4clamp $a0:1, $a0:1, $a7
    polynomial
    {
        ld32 $a7, FRAME, $mzero, FRAME_HALF
        f16v4add $a2:3, $a6:BL, $a2:3
    }
#endif
    ld32 $a0, $m3, $mzero, \at
    ld32 $a1, $m3, $mzero, \at + 1
    f16v4mul $a2:3, $a7:BL, $a2:3
    f16v4mul $a2:3, $a0:1, $a2:3
    st32 $a2, $m2, $mzero, \at
    st32 $a3, $m2, $mzero, \at + 1
.endm
#endif

.macro block
    quad 0
    quad 2
    quad 4
    quad 6
    add $m2, $m2, 192
    add $m3, $m3, 192
    add $m4, $m4, 48
.endm

.macro pair
    ld32 $a0, $m3, $mzero, 0
    ld32 $a7, FRAME, $mzero, FRAME_BOUNDS
    f16v2clamp $a0, $a0, $a7
    f16v2mul $a2, $a0, $a0
    f16v2mul $a2, $a2, $a0
    f16v2mul $a2, $a4, $a2
    f16v2add $a2, $a0, $a2
    f16v2mul $a2, $a5, $a2
    f16v2tanh $a2, $a2
    ld32 $a7, FRAME, $mzero, FRAME_HALF
    f16v2add $a2, $a6, $a2
    ld32 $a0, $m3, $mzero, 0
    f16v2mul $a2, $a7, $a2
    f16v2mul $a2, $a0, $a2
    st32 $a2, $m2, $mzero, 0
    add $m2, $m2, 4
    add $m3, $m3, 4
    add $m4, $m4, 1
.endm

    worker_call kernel, gelu_worker, 24, $m2, $m3, $m4
gelu_worker:
    ld32 $m2, FRAME, $mzero, 0
    ld32 $m3, FRAME, $mzero, 1
    ld32 $m8, FRAME, $mzero, 2
    shr $m8, $m8, 1                 // pairs
    worker_number $m4
    shl $m4, $m4, 3
    cmpult $m6, $m4, $m8
    brz $m6, gelu_done
    constants
#if VERSION != 0
    ldconst $m5, BOUNDS             // every worker leaves the same words
    st32 $m5, FRAME, $mzero, FRAME_BOUNDS
    ldconst $m5, HALF << 16 | HALF
    st32 $m5, FRAME, $mzero, FRAME_HALF
#endif
    shl $m5, $m4, 2
    add $m2, $m2, $m5
    add $m3, $m3, $m5
    setzi $m5, 8
    add $m6, $m5, -1
    and $m6, $m8, $m6
    brnz $m6, gelu_uneven
gelu_even:
    block
    cmpult $m6, $m4, $m8
    brnz $m6, gelu_even
    bri gelu_done
gelu_uneven:
    sub $m6, $m8, $m4
    cmpult $m6, $m6, $m5
    brnz $m6, gelu_pair
    block
    cmpult $m6, $m4, $m8
    brnz $m6, gelu_uneven
    bri gelu_done
gelu_pair:
    pair
    cmpult $m6, $m4, $m8
    brnz $m6, gelu_pair
gelu_done:
    exitz $mzero
