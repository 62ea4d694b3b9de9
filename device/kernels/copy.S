// copy, copy_list, fill: bytes moved or set within a tile.
//
// ABI (kernels.h). Addresses and byte counts are multiples of 8; source and destination do not
// overlap. Workers take atoms (8 bytes) in turn, in copy_list whole entries of three words {source,
// destination, bytes}.
//
// copy: one bundle an atom (ldst64pace) when source and destination lie in different 32 KiB blocks,
// so that its two accesses never meet in an element; two bundles otherwise. block.c decides, and
// packs the addresses of the first way.

#include "common.inc"

#ifdef KERNEL_COPY
    kernel_begin 4                  // {n, source, destination} or {-n, packed x 2, source}
    ld32 $m7, VB, $mzero, 0
    ld32 $m2, VB, $mzero, 1
    ld32 $m3, VB, $mzero, 2
    brneg $m7, paced
    .align 8
    {
        rpt $m7, 1
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m2+=, 6
        fnop
    }
    {
        st64step $a0:1, $mzero, $m3+=, 6
        fnop
    }
    exitz $mzero
    .align 8
paced:
    ld32 $m4, VB, $mzero, 3
    ld64 $a0:1, $m4, $mzero, 0
    setzi $m5, 6                    // stride field 1, both addresses
    sub $m7, -1, $m7
    {
        rpt $m7, 0
        fnop
    }
    {
        ldst64pace $a0:1, $a0:1, $m2:3+=, $m5, 5
        fnop
    }
    st64pace $a0:1, $m2:3+=, $mzero, 0
    exitz $mzero
    kernel_end
#endif

#ifdef KERNEL_COPY_LIST
    kernel_begin 0                  // block {list, count}
    ld32 $m5, VB, $mzero, 1
    ld32 $m7, WB, $mzero, RT_WORD_SHARE_3
    shl $m5, $m5, 3
    add $m7, $m7, $m5
    mul $m7, $m7, 10923             // entries of worker w: floor((count + 5 - w) / 6),
    shr $m7, $m7, 19                // exact below 32,680
    add $m7, $m7, -1
    brneg $m7, done
    ld32 $m2, WB, $mzero, RT_WORD_OFFSET
    ld32 $m1, VB, $mzero, 0
    shr $m3, $m2, 1
    add $m2, $m2, $m3               // 12 w
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
    kernel_begin 3                  // record {destination, atoms, value}
    ld32 $m1, VB, $mzero, 0
    ld32 $m7, VB, $mzero, 1
    ld32 $a0, VB, $mzero, 2
    ld32 $a1, VB, $mzero, 2
    .align 8
    {
        rpt $m7, 0
        fnop
    }
    {
        st64step $a0:1, $mzero, $m1+=, 6
        fnop
    }
    exitz $mzero
    kernel_end
#endif
