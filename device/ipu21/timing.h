/* Cycle costs of the IPU21 tile and of its synchronisation: the one table that the simulator
 * charges and the planner prices.
 *
 * Tags as in facts/: [M] measured, [V] vendor estimator, [D] derived, [I] inferred, [G] guess.
 * Every [I] and [G] is listed in docs/MACHINE.md. Sources: facts/timing.md, facts/timing_isa.md,
 * facts/exchange.md section 8.
 */
#ifndef IPU_IPU21_TIMING_H
#define IPU_IPU21_TIMING_H

enum {
    IPU21_CLOCK_HZ = 1500000000,     /* C600 default of the open stack [S] */
    IPU21_SLOTS = 6,                 /* barrel: a worker issues every sixth cycle [V] */
    IPU21_SUPERVISOR_DEPENDENCY = 6, /* a result may be used 6 cycles after issue [V] */
    /* Costs from issue to the next issue. The sources count "setzi, runall, br" as 1 + 6 + 6 and a
     * brnzdec loop of n passes as 6 (n - 1) + 1, and a patch loop of two dependent loads, a
     * dependent add, a dependent store and a dependent branch measures 31: six in all, not six more
     * [V/M]. */
    IPU21_SUPERVISOR_BRANCH = 6, /* taken branch, br, bri, call */
    IPU21_SUPERVISOR_PUT = 6,    /* put to a control register [V] */
    IPU21_TIMED_BASE_PUT = 13, /* put to INCOMING_BASE/OUTGOING_BASE, in rows [M], elsewhere [I] */
    IPU21_RUNALL = 6,          /* runall, run [V] */
    /* Launch and join. PopLibs counts 6 for the supervisor's side of each; hardware shows more than
     * one pass through the six-deep pipeline on either side: of the GELU calls of
     * facts/measurements.tsv (M068, M088, M092; their code is known to the instruction) 24 to 26
     * cycles are left for the two together, of the scalar patch loop (M044, M046) 26 or more. Only
     * the sum is measured; that the halves are equal is a guess [D/G]. */
    IPU21_WORKER_LAUNCH = 13, /* runall issue to the first of six consecutive first slots */
    IPU21_SYNC_LOCAL = 13,    /* from the last worker's exit to the supervisor's next issue */
    /* Last arrival to slot 0 of every tile: what the row handoff of 177..180 cycles (M001..M005)
     * leaves when the instructions around the row are taken off. The same value gives the phase
     * residuals of 230 and more (M025..M032). PopLibs' 90 include the code around the sync [D]. */
    IPU21_SYNC_INTERNAL = 30,
    IPU21_SYNC_HOST = 600, /* host sync release; not inside any measured region [G] */

    /* Worker slots of multi-slot instructions (all others: 1). facts/timing_isa.md section 2. */
    IPU21_SLOTS_F32DIV = 3,
    IPU21_SLOTS_F32LN = 6,
    IPU21_SLOTS_F32EXP = 3,
    IPU21_SLOTS_F32TANH = 5,
    IPU21_SLOTS_F32SQRT = 5, /* [I] */
    IPU21_SLOTS_F32OORX = 4, /* [I] */
    IPU21_SLOTS_F32OOX = 3,  /* three groups a normalised row: F13, M149 [M] */
    IPU21_SLOTS_F16V2LN = 2,
    IPU21_SLOTS_F16V2EXP =
        1, /* PopLibs: 2; softmax on a C600 (M145, M203) leaves room for one [M] */
    IPU21_SLOTS_F16V2TANH = 1,
    IPU21_SLOTS_F16V2SIGM = 2
};

#endif
