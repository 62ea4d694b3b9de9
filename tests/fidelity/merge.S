// Merging a block of attention values into f32 accumulators: 34 groups a row, one more and three a
// panel of 16, six a pair of values, five when the rows are normalised at the end
// (facts/measurements.tsv F13). Frame: accumulators, values, block state, 1 = last block, rows.
//
// An accumulator row is VALUES f32 and behind them the running maximum and sum. Values lie in
// panels of 16 columns; the block's maxima and sums lie KEYS halves a row behind the start of its
// state.

#include "call.inc"

.set PANELS, VALUES / 16
.set PAIRS, VALUES % 16 / 2

.macro merge_pair
    ld32step $a0, $mzero, $m1+=, 1
    f16v2tof32 $a0:1, $a0
    {
        ld64 $a2:3, $m0, $mzero, 0
        f32v2mul $a0:1, $a6:B, $a0:1
    }
    f32v2mul $a2:3, $a5:B, $a2:3
    f32v2add $a2:3, $a0:1, $a2:3
    st64step $a2:3, $mzero, $m0+=, 1
.endm

    worker_call kernel, merge_worker, 24, $m2, $m3, $m4, $m5, $m6
merge_worker:
    ld32 $m5, FRAME, $mzero, 4
    ld32 $m7, FRAME, $mzero, 3
    worker_number $m9
    cmpult $m0, $m9, $m5
    brz $m0, merge_done
    add $m10, $m5, -1               // from panel to panel, less the row just read
    shl $m10, $m10, 5
merge_row:
    setzi $m2, KEYS * 2             // the block's maximum and sum of this row
    mul $m2, $m5, $m2
    ld32 $m4, FRAME, $mzero, 2
    add $m4, $m4, $m2
    shl $m2, $m9, 2
    add $m4, $m4, $m2
    ld32 $a0, $m4, $mzero, 0
    shl $m2, $m5, 2
    add $m4, $m4, $m2
    ld32 $a1, $m4, $mzero, 0
    ld32 $m0, FRAME, $mzero, 0
    setzi $m8, VALUES * 4 + 8
    mul $m8, $m9, $m8
    add $m0, $m0, $m8
    add $m8, $m0, VALUES * 4
    ld32 $m1, FRAME, $mzero, 1
    shl $m2, $m9, 5
    add $m1, $m1, $m2
    ld32 $a2, $m8, $mzero, 0
    ld32 $a3, $m8, $mzero, 1
    f32max $a4, $a0, $a2
    f32sub $a5, $a2, $a4
    f32exp $a5, $a5
    f32sub $a6, $a0, $a4
    f32exp $a6, $a6
    f32mul $a3, $a3, $a5
    f32mul $a1, $a1, $a6
    f32add $a3, $a1, $a3
    st32 $a4, $m8, $mzero, 0
    st32 $a3, $m8, $mzero, 1
    brz $m7, merge_panels
    f32oox $a7, $a3                 // the last block: coefficients over the sum
    f32mul $a5, $a5, $a7
    f32mul $a6, $a6, $a7
merge_panels:
    setzi $m2, PANELS
merge_panel:
    .rept 8
    merge_pair
    .endr
    add $m1, $m1, $m10
    add $m2, $m2, -1
    brnz $m2, merge_panel
    .rept PAIRS
    merge_pair
    .endr
    add $m9, $m9, 6
    cmpult $m0, $m9, $m5
    brnz $m0, merge_row
merge_done:
    exitz $mzero
