// reduce_f16: out[count] = sum of `partials` blocks at in + i in_stride, in f32, rounded once.
//
// ABI (kernels.h): $m0 = {in, in_stride, out, count, partials}. count is a multiple of 16, strides
// are multiples of 32; out may be one of the blocks. Workers take atoms (4 elements) in turn.
//
// Two partials are added by one instruction: their f16 sum rounds once, so it equals the f32 sum
// rounded. More go through accumulators E0..E3, one bundle a partial; the two gina that read an
// atom out shift zeros in, which leaves them clear. The store of an atom waits for the next one.

#include "common.inc"

// In interleaved memory, where a load brings two atoms, workers may take units of 8 elements: the
// wide way, for three partials and more.
//
// Record {in, out, n, p, step, jump} for n units of P partials. P = 2: n, 0, the second block.
// More: n - 1, P - 2, in_stride in atoms, atoms from the last partial to the next unit's first.
// Wide: the same with -1 - n for n - 1 and 16 bytes for an atom. P = 1: -1 - n, -1.

    kernel_begin 6
    ld32 $m8, VB, $mzero, 3
    ld32 $m1, VB, $mzero, 0
    ld32 $m2, VB, $mzero, 1
    ld32 $m3, VB, $mzero, 4
    ld32 $m7, VB, $mzero, 2
    brnz $m8, many

    ld64step $a0:1, $mzero, $m1+=, 6
    {
        rpt $m7, 2
        fnop
    }
    {
        ld64step $a2:3, $mzero, $m3+=, 6
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m1+=, 6    // one atom past the last: over-read
        f16v4add $a2:3, $a0:1, $a2:3
    }
    {
        st64step $a2:3, $mzero, $m2+=, 6
        fnop
    }
    exitz $mzero

    .align 8
many:
    brneg $m7, few
    ld64step $a0:1, $mzero, $m1+=, $m3
    {
        ld32 $m9, VB, $mzero, 5
        fnop
    }
    {
        rpt $m8, 0
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m1+=, $m3
        f16v4acc $a0:1
    }
    {
        ld64step $a0:1, $mzero, $m1+=, $m9
        f16v4acc $a0:1
    }
    {
        bri middle
        f16v4acc $a0:1
    }
again:
    {
        rpt $m8, 0
        f16v2gina $a3, $azero, 0
    }
    {
        ld64step $a0:1, $mzero, $m1+=, $m3
        f16v4acc $a0:1
    }
    {
        ld64step $a0:1, $mzero, $m1+=, $m9
        f16v4acc $a0:1
    }
    {
        st64step $a2:3, $mzero, $m2+=, 6
        f16v4acc $a0:1
    }
middle:
    {
        ld64step $a0:1, $mzero, $m1+=, $m3  // past the last atom: over-read
        f16v2gina $a2, $azero, 0
    }
    {
        brnzdec $m7, again
        fnop
    }
    f16v2gina $a3, $azero, 0
    st64step $a2:3, $mzero, $m2+=, 6
done:
    exitz $mzero

    .align 8
few:                                // no unit, a copy of one block, or the wide way
    sub $m7, -2, $m7
    brneg $m7, done
    brneg $m8, single

    ld128step $a0:3, $mzero, $m1+=, $m3
    {
        ld32 $m9, VB, $mzero, 5
        fnop
    }
    {
        rpt $m8, 0
        fnop
    }
    {
        ld128step $a0:3, $mzero, $m1+=, $m3
        f16v8acc $a0:3
    }
    {
        ld128step $a0:3, $mzero, $m1+=, $m9
        f16v8acc $a0:3
    }
    {
        nop
        f16v8acc $a0:3
    }
    {
        bri wide_middle
        f16v2gina $a4, $azero, 0
    }
wide_again:
    {
        rpt $m8, 0
        f16v2gina $a7, $azero, 0
    }
    {
        ld128step $a0:3, $mzero, $m1+=, $m3
        f16v8acc $a0:3
    }
    {
        ld128step $a0:3, $mzero, $m1+=, $m9
        f16v8acc $a0:3
    }
    {
        st64step $a4:5, $mzero, $m2+=, 1
        f16v8acc $a0:3
    }
    {
        st64step $a6:7, $mzero, $m2+=, 11
        f16v2gina $a4, $azero, 0
    }
wide_middle:
    {
        ld128step $a0:3, $mzero, $m1+=, $m3 // past the last unit: over-read
        f16v2gina $a5, $azero, 0
    }
    {
        brnzdec $m7, wide_again
        f16v2gina $a6, $azero, 0
    }
    f16v2gina $a7, $azero, 0
    st64step $a4:5, $mzero, $m2+=, 1
    st64step $a6:7, $mzero, $m2+=, 11
    exitz $mzero

single:
    ld64step $a0:1, $mzero, $m1+=, 6
    st64step $a0:1, $mzero, $m2+=, 6
    brnzdec $m7, single
    exitz $mzero
    kernel_end
