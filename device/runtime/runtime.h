/* What programs must know about the supervisor runtime (runtime.S): state layout, symbols, register
 * conventions, cycle costs. Constants only; runtime.inc holds the same numbers for assembly, and a
 * test compares the two.
 *
 * Registers of the supervisor, at every call and return: $m10 return address; $m0..$m6 are free for
 * the callee; $m7..$m9 and $m11 are the program's. Exchange base registers are 0 after start.
 */
#ifndef IPU_RUNTIME_RUNTIME_H
#define IPU_RUNTIME_RUNTIME_H

/* Symbols of the runtime object. Each routine has a section of its own, so that linking with roots
 * drops what a program does not reach. rt_start must be linked first (at IPU21_IMAGE_BASE). */
#define RT_SYMBOL_START   "rt_start"   /* image base: a nop, the entry is the next word */
#define RT_SYMBOL_SAMPLE  "rt_sample"  /* call $m10, rt_sample: stores one COUNT_L sample */
#define RT_SYMBOL_FINISH  "rt_finish"  /* bri rt_finish: completion word := 1, deliberate stop */
#define RT_SYMBOL_BARRIER "rt_barrier" /* call $m10, rt_barrier: six-worker rendezvous */
/* Defined by the program: where rt_start ends. All registers are undefined there. */
#define RT_SYMBOL_PROGRAM "program_entry"

enum {
    /* Tile state, facts/memory.md section 4. Byte addresses. */
    RT_STATE = 0x58000,
    RT_COMPLETION = 0x58000,    /* rt_finish stores 1 */
    RT_PROFILE_START = 0x58004, /* free for programs: first and last cycle sample */
    RT_PROFILE_END = 0x58008,
    /* Where rt_sample stores next, as address - RT_SAMPLE_BIAS (the form that `run` takes). The
     * program sets it before the first sample; rt_sample adds 4. The image starts it at 0. */
    RT_SAMPLE_CURSOR = 0x5800c,
    RT_SAMPLE_BIAS = 0x4c000,
    /* Words 0x58010..0x580df are free for programs. */
    RT_WORKER_SCRATCH =
        0x580e0, /* WORKER_BASE of worker 0; kernels use it between call and return */
    RT_WORKER_STRIDE = 0x100,
    RT_STATE_END = 0x586e0,

    RT_MUX_NEUTRAL = 0x640, /* INCOMING_MUX outside exchanges [S] */
    RT_MUX_HOST = 0x600, /* + (physical id & 0x3d): the exchange block of the tile's column [S] */

    /* From a sample to the next of two adjacent calls. The count is read 31 to 36 cycles after the
     * call's own cycle, in worker 0's slot. A test holds it to the simulator. */
    RT_SAMPLE_CYCLES = 66
};

#endif
