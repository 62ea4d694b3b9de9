// gelu_f16: out[count] = GELU(in[count]), tanh form; out may equal in.
//
// ABI (kernels.h): $m0 = {in, out, count}. count is a multiple of 16. Workers take atoms (4
// elements) in turn.
//
// y = h + h tanh(k0 h + k1 h^3) with h = x/2, k0 = 2 sqrt(2/pi), k1 = 8 . 0.044715 sqrt(2/pi):
// eight auxiliary-lane instructions an atom. f16v4mix forms the polynomial in f32 (TAS holds
// {k1, k0}) but hands out the result of its previous use; so a step starts atom g and finishes atom
// g-1, and its first bundle stores atom g-2. Every finite input gives a finite result: powers
// saturate, tanh is then +-1. The last f16v4mix takes zeros in, which clears the accumulators.

#include "common.inc"

#define K0K1 0x3e623491             /* f16 1.5957 and 0.28540 */

// Atom g in $a4:5; h of atom g-1 in \old, which becomes the result g-1.
.macro gelu_step new, old
    {
        st64step \new, $mzero, $m2+=, 6
        f16v4mul \new, $a6:BL, $a4:5
    }
    gelu_rest \new, \old
.endm
.macro gelu_rest new, old
    {
        nop
        f16v4mul $a4:5, \new, \new
    }
    {
        nop
        f16v4mul $a4:5, $a4:5, \new
    }
    {
        nop
        f16v4mix $a4:5, $a4:5, \new
    }
    {
        nop
        f16v2tanh $a4, $a4
    }
    {
        nop
        f16v2tanh $a5, $a5
    }
    {
        nop
        f16v4mul $a4:5, $a4:5, \old
    }
    {
        ld64step $a4:5, $mzero, $m1+=, 6   // after the last atom: over-read
        f16v4add \old, \old, $a4:5
    }
.endm
// Finishes the last atom, whose h is in \last.
.macro gelu_finish last
    f16v2tanh $a4, $a4
    f16v2tanh $a5, $a5
    f16v4mul $a4:5, $a4:5, \last
    f16v4add \last, \last, $a4:5
    st64step \last, $mzero, $m2+=, 6
    exitz $mzero
.endm

    kernel_begin 3                  // record {in, out, atoms}
    {
        ld32 $m1, VB, $mzero, 0
        setzi $a6, K0K1 & 0xfffff
    }
    {
        ld64step $a4:5, $mzero, $m1+=, 6
        or $a6, $a6, K0K1 & 0xfff00000
    }
    {
        ld32 $m7, VB, $mzero, 2
        uput $TAS, $a6
    }
    {
        ld32 $m2, VB, $mzero, 1
        setzi $a6, 0x3800               // 0.5
    }
    {
        add $m7, $m7, -2
        f16v4mul $a0:1, $a6:BL, $a4:5
    }
    {
        shr $m6, $m7, 1
        f16v4mul $a4:5, $a0:1, $a0:1
    }
    {
        ld64step $a2:3, $mzero, $m1+=, 6
        f16v4mul $a4:5, $a4:5, $a0:1
    }
    {
        brneg $m7, few
        f16v4mix $a4:5, $a4:5, $a0:1
    }
    {
        and $m7, $m7, 1
        f16v4mul $a2:3, $a6:BL, $a2:3
    }
    gelu_rest $a2:3, $a0:1
    {
        rpt $m6, 15
        fnop
    }
    gelu_step $a0:1, $a2:3
    gelu_step $a2:3, $a0:1
    {
        brnz $m7, odd
        fnop
    }
    {
        st64step $a0:1, $mzero, $m2+=, 6
        f16v4mix $a4:5, $azeros, $azeros
    }
    gelu_finish $a2:3
    .align 8
odd:
    gelu_step $a0:1, $a2:3
    {
        st64step $a2:3, $mzero, $m2+=, 6
        f16v4mix $a4:5, $azeros, $azeros
    }
    gelu_finish $a0:1
few:
    {
        add $m7, $m7, 1                 // 0 for one atom, -1 for none
        f16v4mix $a4:5, $azeros, $azeros
    }
    brnz $m7, done
    gelu_finish $a0:1
done:
    exitz $mzero
    kernel_end
