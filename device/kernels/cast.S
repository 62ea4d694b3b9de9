// cast_f16_f32, cast_f32_f16: $m0 = {in, out, count}, count a multiple of 16; in and out do not
// overlap. ABI: kernels.h. Workers take four elements in turn, three slots each. Values beyond the
// f16 range saturate.

#include "common.inc"

    kernel_begin 3                  // record {in, out, groups of four elements}
    ld32 $m1, VB, $mzero, 0
    ld32 $m2, VB, $mzero, 1
    ld32 $m7, VB, $mzero, 2
#ifdef KERNEL_CAST_F16_F32
    ld64step $a0:1, $mzero, $m1+=, 6
    .align 8
    {
        rpt $m7, 2
        fnop
    }
    {
        ld64step $a6:7, $mzero, $m1+=, 6
        f16v2tof32 $a2:3, $a0
    }
    {
        st64step $a2:3, $mzero, $m2+=, 1
        f16v2tof32 $a4:5, $a1
    }
    {
        st64step $a4:5, $mzero, $m2+=, 11
        mov $a0:1, $a6:7
    }
#endif
#ifdef KERNEL_CAST_F32_F16
    ld64step $a0:1, $mzero, $m1+=, 1
    {
        ld64step $a2:3, $mzero, $m1+=, 11
        fnop
    }
    .align 8
    {
        rpt $m7, 2
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m1+=, 1
        f32v4tof16 $a4:5, $a0:3
    }
    {
        ld64step $a2:3, $mzero, $m1+=, 11
        fnop
    }
    {
        st64step $a4:5, $mzero, $m2+=, 6
        fnop
    }
#endif
    exitz $mzero
    kernel_end
