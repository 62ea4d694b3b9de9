// Supervisor runtime of a tile: start, cycle samples, completion.
//
// The loader puts the image at 0x4c010 and starts every tile at 0x4c014 (facts/host_protocol.md
// section 5). rt_start brings the tile from there to `program_entry`, which the program defines.
// Every routine stands in a section of its own and depends only on runtime.inc. Registers and
// cycle costs are stated in runtime.h. Nothing here can fail; rt_finish stops by design.

#include "runtime.inc"

    .allow_optimizations

// --- start: at the image base ------------------------------------------------------------------

    .section .text.rt_start, "ax"
    .align 8
    .globl rt_start
    .type rt_start, @function
    .supervisor
rt_start:
    nop                         // 0x4c010; execution enters at the next word
    sync 3                      // every tile is loaded
    sync 2                      // the boot loader's workers have retired
    setzi $m0, RT_MUX_NEUTRAL
    put $INCOMING_MUX, $m0
    put $OUTGOING_BASE, $mzero
    put $INCOMING_BASE, $mzero
    put $FP_ICTL, $mzero        // no traps, round to nearest, overflow saturates
    setzi $m1, RT_WORKER_SCRATCH
    add $m2, $m1, RT_WORKER_STRIDE
    add $m3, $m1, 2 * RT_WORKER_STRIDE
    add $m4, $m1, 3 * RT_WORKER_STRIDE
    add $m5, $m1, 4 * RT_WORKER_STRIDE
    add $m6, $m1, 5 * RT_WORKER_STRIDE
    put $WORKER0_BASE, $m1
    put $WORKER1_BASE, $m2
    put $WORKER2_BASE, $m3
    put $WORKER3_BASE, $m4
    put $WORKER4_BASE, $m5
    put $WORKER5_BASE, $m6
    setzi $m0, rt_init_worker
    runall $m0, $mzero, 0
    sync 2
    get $m0, $TILE_ID           // physical id
    and $m0, $m0, 0x3d
    add $m0, $m0, RT_MUX_HOST
    put $INCOMING_MUX, $m0
    sync 7                      // first rendezvous with the host
    setzi $m0, RT_MUX_NEUTRAL
    put $INCOMING_MUX, $m0
    bri program_entry

    .worker
// Accumulators to zero (the kernels' invariant, kernels.h), the words of runtime.inc, the random
// generator to a fixed state that differs between workers.
    .align 8
rt_init_worker:
    get $m0, $WSR
    and $m0, $m0, 7
    shl $m1, $m0, 3
    st32 $m1, $mworker_base, $mzero, RT_WORD_OFFSET
    sub $m1, 5, $m0
    shl $m2, $m1, 3
    st32 $m2, $mworker_base, $mzero, RT_WORD_SHARE_3
    shl $m2, $m1, 2
    st32 $m2, $mworker_base, $mzero, RT_WORD_SHARE_2
    shl $m2, $m1, 1
    st32 $m2, $mworker_base, $mzero, RT_WORD_SHARE_1
    mul $m0, $m0, 0x2545
    add $m0, $m0, 0x5eed
    st32 $m0, $mworker_base, $mzero, 0
    ld32 $a0, $mworker_base, $mzero, 0
    uput $PRNG_SEED, $a0
    setzi $a0, 8                // FP_CLR.ZAACC
    uput $FP_CLR, $a0
    .align 8
    {
        rpt 15, 0               // the generator needs a few steps after seeding
        fnop
    }
    {
        nop
        urand64 $a0:1
    }
    exitz $mzero
    .size rt_start, . - rt_start

// --- one cycle sample --------------------------------------------------------------------------

    .section .text.rt_sample, "ax"
    .align 8
    .globl rt_sample
    .type rt_sample, @function
    .supervisor
rt_sample:
    setzi $m0, RT_STATE
    setzi $m1, rt_sample_worker
    ld32 $m2, $m0, $mzero, (RT_SAMPLE_CURSOR - RT_STATE) / 4
    run $m1, $m2, 0             // VERTEX_BASE = cursor + 0x4c000
    add $m2, $m2, 4
    st32 $m2, $m0, $mzero, (RT_SAMPLE_CURSOR - RT_STATE) / 4
    sync 2
    br $m10

    .worker
rt_sample_worker:
    get $m0, $COUNT_L
    st32 $m0, $mvertex_base, $mzero, 0
    exitz $mzero
    .size rt_sample, . - rt_sample

// --- rendezvous of the six workers -------------------------------------------------------------

    .section .text.rt_barrier, "ax"
    .align 8
    .globl rt_barrier
    .type rt_barrier, @function
    .supervisor
rt_barrier:
    setzi $m0, rt_barrier_worker
    runall $m0, $mzero, 0
    sync 2
    br $m10

    .worker
rt_barrier_worker:
    exitz $mzero
    .size rt_barrier, . - rt_barrier

// --- end ---------------------------------------------------------------------------------------

    .section .text.rt_finish, "ax"
    .align 8
    .globl rt_finish
    .type rt_finish, @function
    .supervisor
rt_finish:
    setzi $m0, RT_STATE
    setzi $m1, 1
    st32 $m1, $m0, $mzero, (RT_COMPLETION - RT_STATE) / 4
    br $mzero                   // INVALID_PC at address 0: the deliberate stop
    .size rt_finish, . - rt_finish
