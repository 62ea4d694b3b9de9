// reduce_f16: out[count] = sum of `partials` blocks at in + i in_stride, in f32, rounded once.
//
// ABI (kernels.h): $m0 = {in, in_stride, out, count, partials}. count is a multiple of 16, strides
// are multiples of 8; out may be one of the blocks. Workers take atoms (4 elements) in turn.
//
// Two partials are added by one instruction: their f16 sum rounds once, so it equals the f32 sum
// rounded. More go through accumulators E0..E3, one bundle a partial; the two gina that read an
// atom out shift zeros in, which leaves them clear. The store of an atom waits for the next one.

#include "common.inc"

    kernel_begin
    ld32 $m5, VB, $mzero, 3
    worker_units $m7, $m5, 2
    worker_offset $m4               // in the block
    ld32 $m6, VB, $mzero, 4         // partials
    ld32 $m1, VB, $mzero, 0
    ld32 $m2, VB, $mzero, 2
    ld32 $m3, VB, $mzero, 1
    mov $m5, $m4
    cmpeq $m8, $m6, 2
    brz $m8, many

    add $m3, $m1, $m3               // second block
    mov $m6, $m4
    ld64step $a0:1, $m1, $m4+=, 6
    .align 8
    {
        rpt $m7, 2
        fnop
    }
    {
        ld64step $a2:3, $m3, $m6+=, 6
        fnop
    }
    {
        ld64step $a0:1, $m1, $m4+=, 6   // one atom past the last: over-read
        f16v4add $a2:3, $a0:1, $a2:3
    }
    {
        st64step $a2:3, $m2, $m5+=, 6
        fnop
    }
    exitz $mzero

many:
    brz $m7, done
    add $m8, $m6, -1                // inner loop count
    shr $m3, $m3, 3                 // stride in atoms
    mul $m9, $m8, $m3
    sub $m9, 6, $m9                 // from the last partial to the next atom's first
    add $m7, $m7, -1
    brz $m8, single
    add $m8, $m8, -1
    ld64step $a0:1, $m1, $m4+=, $m3
    .align 8
    {
        rpt $m8, 0
        fnop
    }
    {
        ld64step $a0:1, $m1, $m4+=, $m3
        f16v4acc $a0:1
    }
    {
        ld64step $a0:1, $m1, $m4+=, $m9
        f16v4acc $a0:1
    }
    {
        bri middle
        f16v4acc $a0:1
    }
    .align 8
again:
    {
        rpt $m8, 0
        f16v2gina $a3, $azero, 0
    }
    {
        ld64step $a0:1, $m1, $m4+=, $m3
        f16v4acc $a0:1
    }
    {
        ld64step $a0:1, $m1, $m4+=, $m9
        f16v4acc $a0:1
    }
    {
        st64step $a2:3, $m2, $m5+=, 6
        f16v4acc $a0:1
    }
middle:
    {
        ld64step $a0:1, $m1, $m4+=, $m3 // past the last atom: over-read
        f16v2gina $a2, $azero, 0
    }
    {
        brnzdec $m7, again
        fnop
    }
    f16v2gina $a3, $azero, 0
    st64step $a2:3, $m2, $m5+=, 6
done:
    exitz $mzero

single:                             // one partial: a copy
    ld64step $a0:1, $m1, $m4+=, 6
    st64step $a0:1, $m2, $m5+=, 6
    brnzdec $m7, single
    exitz $mzero
    kernel_end
