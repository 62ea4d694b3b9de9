/* Puts the state of the reference into a simulated tile and compares the two afterwards.
 *
 * The only file of tests/reference that knows the insides of device/sim.
 */
#ifndef IPU_TESTS_REFERENCE_COMPARE_H
#define IPU_TESTS_REFERENCE_COMPARE_H

#include <stdio.h>

#include "device/sim/core.h"
#include "tests/reference/run.h"

/* Worker r->worker of `tile`, whose SRAM is a copy of r->sram, becomes what r is. */
static inline void compare_load(const struct ref *r, struct sim_tile *tile)
{
    struct sim_context *c = &tile->context[r->worker + 1];
    tile->csr[0x20] = r->fp_ctl; /* FP_ICTL: copied at launch */
    tile->csr[0x21 + r->worker] = r->m[12];
    tile->csr[0x31] = r->fp_infmt;
    tile->csr[0x33] = r->fp_iscl;
    tile->csr[0x70] = r->dbg_data;
    memcpy(tile->cwei, r->cwei, sizeof tile->cwei);
    tile->f16_valid = tile->f8_valid = false;
    memcpy(c->m, r->m, sizeof r->m);
    memcpy(c->a, r->a, sizeof r->a);
    memcpy(c->acc.even, r->even, sizeof r->even);
    memcpy(c->acc.odd, r->odd, sizeof r->odd);
    c->fp_nfmt = r->fp_nfmt;
    c->fp_scl = r->fp_scl;
    c->tas = r->tas;
    memcpy(c->prng, r->prng, sizeof c->prng);
    c->wsr = r->wsr;
    c->dbg_brk_id = r->dbg_brk_id;
    sim_tile_start_worker(tile, r->worker, r->pc, r->m[13]);
}

struct compare_report {
    char text[4096];
    size_t used;
};

static inline void compare_note(struct compare_report *report, const char *what, unsigned index,
                                uint64_t expected, uint64_t found)
{
    if (expected == found || report->used + 128 > sizeof report->text)
        return;
    int n = snprintf(report->text + report->used, sizeof report->text - report->used,
                     "%s %u: reference 0x%llx, simulator 0x%llx\n", what, index,
                     (unsigned long long)expected, (unsigned long long)found);
    report->used += (size_t)n;
}

static inline bool compare_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

/* The bits of a NaN inside an accumulator are not defined (docs/MACHINE.md) as long as it is one.
 */
static inline void compare_chain(struct compare_report *report, const char *what,
                                 const uint32_t expected[8], const float found[8])
{
    for (unsigned u = 0; u < 8; u++) {
        uint32_t bits;
        memcpy(&bits, &found[u], sizeof bits);
        if (!compare_nan(bits) || !compare_nan(expected[u]))
            compare_note(report, what, u, expected[u], bits);
    }
}

static inline void compare_memory(struct compare_report *report, const uint8_t *expected,
                                  const uint8_t *found)
{
    if (memcmp(expected, found, REF_END - REF_SRAM) == 0)
        return;
    for (uint32_t i = 0; i < REF_END - REF_SRAM; i++)
        compare_note(report, "byte", REF_SRAM + i, expected[i], found[i]);
}

/* Everything a program can change but memory, and how it stopped. */
static inline void compare_state(const struct ref *r, const struct sim_tile *tile,
                                 struct compare_report *report)
{
    const struct sim_context *c = &tile->context[r->worker + 1];
    for (unsigned i = 0; i < 16; i++)
        compare_note(report, "m", i, r->m[i], c->m[i]);
    for (unsigned i = 0; i < 16; i++)
        compare_note(report, "a", i, r->a[i], c->a[i]);
    for (unsigned set = 0; set < 2; set++) {
        compare_chain(report, set != 0 ? "set 1 even" : "even", r->even[set], c->acc.even[set]);
        compare_chain(report, set != 0 ? "set 1 odd" : "odd", r->odd[set], c->acc.odd[set]);
    }
    for (unsigned i = 0; i < 64; i++)
        compare_note(report, "cwei", i, r->cwei[i], tile->cwei[i]);
    compare_note(report, "fp_ctl", 0, r->fp_ctl, c->fp_ctl);
    compare_note(report, "fp_sts", 0, r->fp_sts, c->fp_sts);
    compare_note(report, "fp_nfmt", 0, r->fp_nfmt, c->fp_nfmt);
    compare_note(report, "fp_scl", 0, r->fp_scl, c->fp_scl);
    compare_note(report, "tas", 0, r->tas, c->tas);
    compare_note(report, "prng", 0, r->prng[0], c->prng[0]);
    compare_note(report, "prng", 1, r->prng[1], c->prng[1]);
    compare_note(report, "wsr", 0, r->wsr, c->wsr);
    compare_note(report, "dbg_data", 0, r->dbg_data, tile->csr[0x70]);
    compare_note(report, "dbg_brk_id", 0, r->dbg_brk_id, c->dbg_brk_id);
    compare_note(report, "repeat_first", 0, r->repeat_first, c->repeat_first);
    compare_note(report, "repeat_end", 0, r->repeat_end, c->repeat_last);
    compare_note(report, "repeat_count", 0, r->repeat_count, c->repeat_left);
    compare_note(report, "pc", 0, r->pc, c->pc);
    compare_note(report, "cycle", 0, r->cycle, c->cycle);
    compare_note(report, "instructions", 0, r->instructions, c->bundles);
    compare_note(report, "active", 0, r->active, c->active);
    const struct sim_fault *fault = sim_tile_fault(tile);
    compare_note(report, "fault", 0, (uint64_t)r->fault, fault != NULL ? fault->etype : 0);
    if (fault != NULL) {
        compare_note(report, "fault pc", 0, r->pc, fault->pc);
        compare_note(report, "fault cycle", 0, r->cycle, fault->cycle);
        compare_note(report, "fault context", 0, r->worker + 1, fault->context);
    }
}

static inline void compare_all(const struct ref *r, const struct sim_tile *tile,
                               struct compare_report *report)
{
    compare_state(r, tile, report);
    compare_memory(report, r->sram, tile->sram);
}

#endif
