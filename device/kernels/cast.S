// cast_f16_f32, cast_f32_f16: $m0 = {in, out, count}, count a multiple of 16; in and out do not
// overlap. ABI: kernels.h. Workers take four elements in turn, three slots each. Values beyond the
// f16 range saturate.

#include "common.inc"

    kernel_begin
    ld32 $m5, VB, $mzero, 2
    worker_units $m7, $m5, 2
    worker_offset $m4
    ld32 $m1, VB, $mzero, 0
    ld32 $m2, VB, $mzero, 1
    shl $m5, $m4, 1                 // 16 w
#ifdef KERNEL_CAST_F16_F32
    ld64step $a0:1, $m1, $m4+=, 6
    .align 8
    {
        rpt $m7, 2
        fnop
    }
    {
        ld64step $a6:7, $m1, $m4+=, 6
        f16v2tof32 $a2:3, $a0
    }
    {
        st64step $a2:3, $m2, $m5+=, 1
        f16v2tof32 $a4:5, $a1
    }
    {
        st64step $a4:5, $m2, $m5+=, 11
        mov $a0:1, $a6:7
    }
#endif
#ifdef KERNEL_CAST_F32_F16
    ld64step $a0:1, $m1, $m5+=, 1
    ld64step $a2:3, $m1, $m5+=, 11
    .align 8
    {
        rpt $m7, 2
        fnop
    }
    {
        ld64step $a0:1, $m1, $m5+=, 1
        f32v4tof16 $a4:5, $a0:3
    }
    {
        ld64step $a2:3, $m1, $m5+=, 11
        fnop
    }
    {
        st64step $a4:5, $m2, $m4+=, 6
        fnop
    }
#endif
    exitz $mzero
    kernel_end
