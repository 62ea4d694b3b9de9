// gemm_f16: out[rows x C] = x[rows x K] . w, f16 in and out, f16 partials over K.
//
// ABI (kernels.h): arguments {x, w, out, rows, x_stride, out_stride}; rows is R0 or R1. x and out
// are in PANEL order, w is a sequence of 512-byte coefficient panels, columns outer. The block is
// {w, x, x_stride, D, rows != R0, word 5, word 6, out_stride}, made by block.c: D is word 0 of the
// workers below; words 5 and 6 are the way of idle workers (one and two rows) or the strides of the
// full workers and of the last one (more rows).
//
// Scheme: per coefficient panel the supervisor fills the 64 AMP weight slots (CCCSLOAD moves by
// itself, so the whole of w needs one put) and launches the workers with VERTEX_BASE = x + w 32 n:
// each works on n = ceil(rows / 6) successive rows, the last one on the remainder. A column of
// panels starts with a FIRST launch and ends with a LAST one, which leaves the accumulators zero;
// ONLY is both. The worker code is in gemm_f16.inc, one family for one, two and more rows. What the
// supervisor does between runall and sync costs nothing: it fills the wait for the last worker.
//
// Each worker finds in its scratch area: word 0 = out - x, for one and two rows with x of the LAST
// panel, else of the FIRST; word 1 = the same for the second row (two rows), or the strides (more).
// Idle workers of the one- and two-row families multiply rows past the end of x and store into
// their own scratch area, so that the others pay no test.
//
// x moves from panel to panel by a 10-bit stride field. Where that may not reach (more than 128
// rows, or INTERLEAVED & 2: an x_stride far beyond the rows) it takes an instruction, one slot a
// panel more. Without that bit a stride out of reach ends in a trap, never in wrong values.

#include "common.inc"
#include "gemm_f16.inc"

.set KP, K / 16
.set NP, C / 16
.set far, (INTERLEAVED & 2) || R1 > 128
.set SPILL, 0x40                    // in the scratch area: where idle workers store

.set GEMM_IS_START_first, 1
.set GEMM_IS_START_only, 1
.set GEMM_IS_START_mid, 0
.set GEMM_IS_START_last, 0

// The next \count coefficient pairs, and all 32.
#if INTERLEAVED & 1
.macro coefficients count
    .rept \count
    ld128putcs 2 * slot
    .set slot, slot + 1
    .endr
.endm
.macro all_coefficients
    .irp i, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
    ld128putcs \i
    .endr
    .irp i, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62
    ld128putcs \i
    .endr
.endm
#else
.macro coefficients count
    .rept \count
    ld64putcs 2 * slot
    ld64putcs 2 * slot + 1
    .set slot, slot + 1
    .endr
.endm
.macro all_coefficients
    .set slot, 0
    coefficients 32
.endm
#endif

// --- worker code of \n rows: labels first_\t, mid_\t, last_\t or only_\t -------------------------

.macro gemm_only_code n
    .if \n == 1
    gemm1_only
    .elseif \n == 2
    gemm2_only
    .else
    gemmn_first GEMM_ONLY, \n
    .endif
.endm
.macro gemm_first_code n, absolute
    .if \n == 1
    gemm1_first \absolute
    .elseif \n == 2
    gemm2_first \absolute
    .else
    gemmn_first GEMM_FIRST, \n
    .endif
.endm
.macro gemm_mid_code n
    .if \n == 1
    gemm1_mid
    .elseif \n == 2
    gemm2_mid
    .else
    gemm_stream GEMM_MID, \n
    .endif
.endm
.macro gemm_last_code n, absolute
    .if \n >= 3
    gemm_stream GEMM_LAST, \n
    .elseif \n == 1 && \absolute
    gemm1_last 1, $m0, $mzero
    .elseif \n == 1
    gemm1_last 0, VB, $m0
    .elseif \absolute
    gemm2_last 1, $m0, $mzero, $mzero
    .else
    gemm2_last 0, VB, $m0, $m1
    .endif
.endm

.macro gemm_workers n, t, absolute
    .worker
    .align 8
    .if KP == 1
only_\t:
    gemm_only_code \n
    .else
first_\t:
    gemm_first_code \n, \absolute
        .if KP > 2
    .align 8
mid_\t:
    gemm_mid_code \n
        .endif
    .align 8
last_\t:
    gemm_last_code \n, \absolute
    .endif
.endm

// --- dispatch: the first workers run code n\w, one runs m\s if \m, the others none --------------

.macro gemm_branch kind, s, w, m
    brnz $m9, \kind\()_n\w
    .if \m
        .if GEMM_IS_START_\kind
    cmpeq $m8, $m8, 8 * q_\s
        .endif
    brnz $m8, \kind\()_m\s
    .endif
    exitz $mzero
.endm
.macro gemm_dispatch s, w, m
    .worker
    .align 8
start_\s:
    ld32 $m8, WB, $mzero, RT_WORD_OFFSET
    cmpult $m9, $m8, 8 * q_\s
    .if KP == 1
    gemm_branch only, \s, \w, \m
    .else
    gemm_branch first, \s, \w, \m
        .if KP > 2
dmid_\s:
    gemm_branch mid, \s, \w, \m
        .endif
dlast_\s:
    gemm_branch last, \s, \w, \m
    .endif
.endm

// --- supervisor ---------------------------------------------------------------------------------

// $m1 := entry of a launch.
.macro gemm_entry kind, s, w
    .if mixed_\s == 0
    setzi $m1, \kind\()_n\w
    .elseif GEMM_IS_START_\kind
    setzi $m1, start_\s
    .else
    setzi $m1, d\kind\()_\s
    .endif
.endm
// x of the next panel, where workers take it from VERTEX_BASE.
.macro gemm_advance s
    .if n_\s <= 2 || (mixed_\s && (m_\s == 1 || m_\s == 2))
    add $m2, $m2, $m3
    .endif
.endm

.macro gemm_load
    sync 2
    all_coefficients
.endm
.macro gemm_mid_panels s, count
    .rept \count
    gemm_load
    runall $m1, $m2, 8 * n_\s
    gemm_advance \s
    .endr
.endm

// The middle launches: straight up to four, else in a loop of two.
.macro gemm_middle s
    .if KP - 2 <= 4
    gemm_mid_panels \s, KP - 2
    .else
    setzi $m5, (KP - 2) / 2 - 1
    gemm_mid_panels \s, (KP - 2) % 2
middle_\s:
    gemm_mid_panels \s, 2
    brnzdec $m5, middle_\s
    .endif
.endm

// The launches of a column after the one that has been started.
.macro gemm_column_launches s, w
    .if KP > 1
        .if KP > 2
    gemm_entry mid, \s, \w
    gemm_advance \s
    gemm_middle \s
        .else
    gemm_advance \s
        .endif
    gemm_entry last, \s, \w
    gemm_load
    runall $m1, $m2, 8 * n_\s
    .endif
.endm

// Scratch words of worker \w (at $m6): $m4 where the row exists, else a way into its own area.
.macro gemm_word2 s, w
    .if n_\s * (\w) < rows_\s
    st32 $m4, $m6, $mzero, 64 * (\w)
    .endif
    .if n_\s * (\w) + n_\s > rows_\s
    add $m5, $m1, (\w) * (RT_WORKER_STRIDE - 32 * n_\s)
        .if slot <= 28
    coefficients 4
        .endif
        .if n_\s * (\w) >= rows_\s
    st32 $m5, $m6, $mzero, 64 * (\w)
        .endif
        .if n_\s == 2
    st32 $m5, $m6, $mzero, 64 * (\w) + 1
        .endif
    .elseif n_\s == 2
    st32 $m4, $m6, $mzero, 64 * (\w) + 1
    .endif
.endm

.macro gemm_table2 s
    .if n_\s * 6 > rows_\s
    ld32 $m1, $m0, $mzero, 5
    .endif
    setzi $m6, RT_WORKER_SCRATCH
    coefficients 5
    .irp w, 0, 1, 2, 3, 4, 5
    gemm_word2 \s, \w
    .endr
.endm

.macro gemm_tablen s
    .if KP > 1
    ld32 $m5, $m0, $mzero, 5
        .if m_\s >= 3
    ld32 $m1, $m0, $mzero, 6
        .endif
    .endif
    setzi $m6, RT_WORKER_SCRATCH
    coefficients 5
    .irp w, 0, 1, 2, 3, 4, 5
        .if n_\s * \w < rows_\s
    st32 $m4, $m6, $mzero, 64 * \w
            .if n_\s * \w + n_\s > rows_\s && m_\s < 3
    st32 $m4, $m6, $mzero, 64 * \w + 1
            .elseif KP > 1 && n_\s * \w + n_\s > rows_\s
    st32 $m1, $m6, $mzero, 64 * \w + 1
            .elseif KP > 1
    st32 $m5, $m6, $mzero, 64 * \w + 1
            .endif
        .endif
    .endr
.endm

// The next column: out and with it word 0 (and word 1 for two rows) move on.
.macro gemm_column s
    ld32 $m5, $m0, $mzero, 7
    ld32 $m2, $m0, $mzero, 1
    setzi $m1, RT_WORKER_SCRATCH
    sync 2
    .set slot, 0
    coefficients 5
    add $m4, $m4, $m5
    coefficients 5
    .irp w, 0, 1, 2, 3, 4, 5
        .if n_\s * \w < rows_\s
    st32 $m4, $m1, $mzero, 64 * \w
            .if (n_\s == 2 && 2 * \w + 1 < rows_\s) || (n_\s * \w + 2 == rows_\s)
    st32 $m4, $m1, $mzero, 64 * \w + 1
            .endif
        .endif
    .endr
.endm

.macro gemm_column_start s, w
    .if KP == 1
    gemm_entry only, \s, \w
    .else
    gemm_entry first, \s, \w
    .endif
    coefficients 32 - slot
    runall $m1, $m2, 8 * n_\s
.endm

// A whole call for \rows rows; the coefficients that are loaded already are counted by `slot`.
.macro gemm_section s, w, rows
    .set rows_\s, \rows
    .set n_\s, (\rows + 5) / 6
    .set q_\s, \rows / n_\s
    .set m_\s, \rows - n_\s * q_\s
    .set mixed_\s, n_\s >= 3 && q_\s < 6
    .if n_\s <= 2
    gemm_table2 \s
    .else
    gemm_tablen \s
    .endif
    .if NP > 1
    setzi $m6, NP - 1
    .endif
    gemm_column_start \s, \w
column_\s:
    gemm_column_launches \s, \w
    .if NP > 1
    brnzdec $m6, next_\s
    .endif
    sync 2
    br $m10
    .if NP > 1
next_\s:
    gemm_column \s
    gemm_column_start \s, \w
    bri column_\s
    .endif
.endm

.macro gemm_section_workers s
    .if mixed_\s && m_\s
    gemm_workers m_\s, m\s, 1
    .endif
.endm

    .section .text.kernel, "ax"
    .allow_optimizations
    .align 8
    .globl ENTRY
    .type ENTRY, @function
    .supervisor
ENTRY:
    ld32 $m1, $m0, $mzero, 0
    ld32 $m2, $m0, $mzero, 1
    ld32 $m3, $m0, $mzero, 2
    ld32 $m4, $m0, $mzero, 3
    .if R0 != R1
    ld32 $m5, $m0, $mzero, 4
    .endif
    put $CCCSLOAD, $m1
    .set slot, 0
    .if R0 != R1
    brnz $m5, rows_b_entry
    .endif
    gemm_section a, a, R0
    .if R0 != R1
rows_b_entry:
    .set slot, 0
        .if (R0 + 5) / 6 == (R1 + 5) / 6
    gemm_section b, a, R1
        .else
    gemm_section b, b, R1
        .endif
    .endif

    gemm_workers n_a, na, 0
    gemm_section_workers a
    .if mixed_a
    gemm_dispatch a, a, m_a
    .endif
    .if R0 != R1
        .if n_a != n_b
    gemm_workers n_b, nb, 0
        .endif
    gemm_section_workers b
        .if mixed_b
            .if n_a == n_b
    gemm_dispatch b, a, m_b
            .else
    gemm_dispatch b, b, m_b
            .endif
        .endif
    .endif
    .size ENTRY, . - ENTRY
