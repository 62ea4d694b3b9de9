// gather16, gather32: $m0 = {table, source, destination, count}. Destination element i is source
// element table[i]; the table holds u16, count is even. ABI: kernels.h.
//
// gather16: workers take words (two halves) in turn, six slots each. gather32: they take pairs of
// words, five slots a pair.

#include "common.inc"

    kernel_begin 4                  // record {table, source, destination, pairs}
    ld32 $m1, VB, $mzero, 0
    ld32 $m2, VB, $mzero, 1
    ld32 $m3, VB, $mzero, 2
    ld32 $m7, VB, $mzero, 3
#ifdef KERNEL_GATHER16
    .align 8
    {
        rpt $m7, 5
        fnop
    }
    {
        ldz16step $m8, $mzero, $m1+=, 1
        fnop
    }
    {
        ldz16step $m9, $mzero, $m1+=, 11
        fnop
    }
    {
        ldb16 $a0, $m2, $mzero, $m8
        fnop
    }
    {
        ldb16 $a1, $m2, $mzero, $m9
        fnop
    }
    {
        nop
        sort4x16lo $a0, $a0, $a1
    }
    {
        st32step $a0, $mzero, $m3+=, 6
        fnop
    }
#endif
#ifdef KERNEL_GATHER32
    .align 8
    {
        rpt $m7, 4
        fnop
    }
    {
        ldz16step $m8, $mzero, $m1+=, 1
        fnop
    }
    {
        ldz16step $m9, $mzero, $m1+=, 11
        fnop
    }
    {
        ld32 $a0, $m2, $mzero, $m8
        fnop
    }
    {
        ld32 $a1, $m2, $mzero, $m9
        fnop
    }
    {
        st64step $a0:1, $mzero, $m3+=, 6
        fnop
    }
#endif
    exitz $mzero
    kernel_end
