/* Watching a simulated chip at work: each instruction of chosen tiles as it issues, each change of
 * chosen memory words, and a stop at a cycle. For traces and debuggers; it changes nothing that the
 * program computes, nor any cycle.
 *
 * Observed tiles run one at a time, in ascending order, on the thread that calls sim_chip_run(),
 * one cycle at a time, so callbacks need no locks and come in the same order every time: within a
 * tile by cycle, between tiles by the stretch from one synchronisation to the next. Other tiles run
 * at full speed.
 */
#ifndef IPU_SIM_OBSERVE_H
#define IPU_SIM_OBSERVE_H

#include "device/sim/chip.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIM_OBSERVE_CHANGES = 32, SIM_OBSERVE_WATCHES = 16 };

/* One instruction or bundle that has just issued. */
struct sim_issue {
    unsigned tile, context; /* 0 supervisor, 1..6 workers 0..5 */
    uint64_t cycle;         /* of issue */
    uint32_t pc, word, next;
    unsigned count; /* registers whose value changed */
    struct {
        char file; /* 'm' or 'a' */
        uint8_t number;
        uint32_t value;
    } changes[SIM_OBSERVE_CHANGES];
};

/* A watched word has another value than when it was last looked at. */
struct sim_change {
    unsigned tile;
    uint32_t address, before, after;
    uint64_t cycle;   /* by which it had changed */
    unsigned context; /* that issued in that cycle: 0..6; SIM_CHANGE_FABRIC: exchange or host */
    uint32_t pc;      /* of what issued; 0 for the fabric */
};
enum { SIM_CHANGE_FABRIC = 7 };

struct sim_observer {
    bool tiles[IPU21_TILES]; /* observed, by logical number */
    uint8_t contexts;        /* bit c: report what context c issues */
    uint64_t stop_at;        /* 0: never. No observed or other tile runs on from this cycle */
    unsigned watch_count;
    uint32_t watch[SIM_OBSERVE_WATCHES]; /* word addresses, in every observed tile */
    void (*issued)(void *context, const struct sim_issue *issue);
    void (*changed)(void *context, const struct sim_change *change);
    /* The chip has reached `stop_at`: sim_chip_run() answers SIM_CHIP_CANCELLED after it. */
    void (*stopped)(void *context, struct sim_chip *chip);
    void *context;
};

/* From now on, until it is given NULL. The observer must stay where it is; callbacks may be NULL.
 * Addresses outside SRAM are never seen to change. */
void sim_chip_observe(struct sim_chip *chip, const struct sim_observer *observer);

#endif
