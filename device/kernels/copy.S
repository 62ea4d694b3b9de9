// copy, copy_list, fill: bytes moved or set within a tile.
//
// ABI (kernels.h): copy $m0 = {source, destination, bytes}; copy_list $m0 = {list, count}, the list
// holding {source, destination, bytes} words; fill $m0 = {destination, bytes, value}. Addresses and
// byte counts are multiples of 8; source and destination do not overlap. Workers take atoms (8
// bytes) in turn, in copy_list whole entries.
//
// copy: one bundle an atom (ldst64pace) when source and destination lie in different 32 KiB blocks,
// so that its two accesses never meet in an element; two bundles otherwise. Below PACED_MINIMUM
// bytes the test is not worth its time.

#include "common.inc"

#define PACED_MINIMUM 512

#ifdef KERNEL_COPY
    .section .text.kernel, "ax"
    .allow_optimizations
    .align 8
    .globl ENTRY
    .type ENTRY, @function
    .supervisor
ENTRY:
    ld32 $m3, $m0, $mzero, 2
    ld32 $m1, $m0, $mzero, 0
    ld32 $m2, $m0, $mzero, 1
    setzi $m6, worker
    cmpult $m4, $m3, PACED_MINIMUM
    brnz $m4, launch
    add $m4, $m1, $m3
    add $m5, $m2, $m3
    shr $m1, $m1, 15                // first blocks
    shr $m2, $m2, 15
    add $m4, $m4, -1
    add $m5, $m5, -1
    shr $m4, $m4, 15                // last blocks
    shr $m5, $m5, 15
    cmpult $m4, $m4, $m2
    cmpult $m5, $m5, $m1
    or $m4, $m4, $m5
    setzi $m5, worker_paced
    movnz $m6, $m4, $m5
launch:
    runall $m6, $m0, 0
    sync 2
    br $m10

    .worker
.macro copy_begin
    ld32 $m5, VB, $mzero, 2
    worker_units $m7, $m5, 3
    worker_offset $m4
    ld32 $m1, VB, $mzero, 0
    ld32 $m2, VB, $mzero, 1
.endm
    .align 8
worker:
    copy_begin
    mov $m5, $m4
    .align 8
    {
        rpt $m7, 1
        fnop
    }
    {
        ld64step $a0:1, $m1, $m4+=, 6
        fnop
    }
    {
        st64step $a0:1, $m2, $m5+=, 6
        fnop
    }
    exitz $mzero
    .align 8
worker_paced:
    copy_begin
    add $m7, $m7, -1                // at least one atom: PACED_MINIMUM
    add $m1, $m1, $m4
    add $m2, $m2, $m4
    add $m3, $m1, 48
    ld64 $a0:1, $m1, $mzero, 0
    tapack $m2:3, $m3, $mzero, $m2
    setzi $m4, 6                    // stride field 1, both addresses
    .align 8
    {
        rpt $m7, 0
        fnop
    }
    {
        ldst64pace $a0:1, $a0:1, $m2:3+=, $m4, 5
        fnop
    }
    st64pace $a0:1, $m2:3+=, $mzero, 0
    exitz $mzero
    kernel_end
#endif

#ifdef KERNEL_COPY_LIST
    kernel_begin
    ld32 $m5, VB, $mzero, 1
    shl $m5, $m5, 3
    worker_units $m7, $m5, 3
    worker_offset $m2
    ld32 $m1, VB, $mzero, 0
    shr $m3, $m2, 1
    add $m2, $m2, $m3               // 12 w
    add $m7, $m7, -1
    brneg $m7, done
    .align 8
entry:
    {
        ld32step $m3, $m1, $m2+=, 1
        fnop
    }
    {
        ld32step $m4, $m1, $m2+=, 1
        fnop
    }
    {
        ld32step $m5, $m1, $m2+=, 16
        fnop
    }
    {
        shr $m5, $m5, 3
        fnop
    }
    {
        rpt $m5, 1
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m3+=, 1
        fnop
    }
    {
        st64step $a0:1, $mzero, $m4+=, 1
        fnop
    }
    {
        brnzdec $m7, entry
        fnop
    }
done:
    exitz $mzero
    kernel_end
#endif

#ifdef KERNEL_FILL
    kernel_begin
    ld32 $m5, VB, $mzero, 1
    worker_units $m7, $m5, 3
    worker_offset $m4
    ld32 $m1, VB, $mzero, 0
    ld32 $a0, VB, $mzero, 2
    ld32 $a1, VB, $mzero, 2
    .align 8
    {
        rpt $m7, 0
        fnop
    }
    {
        st64step $a0:1, $m1, $m4+=, 6
        fnop
    }
    exitz $mzero
    kernel_end
#endif
