/* Workers: launch, the issue loop, repeats.
 *
 * A worker issues one instruction or bundle per slot; slots come every sixth cycle, and worker w
 * owns the cycles that are w modulo 6 (a choice: facts/timing.md only says that durations seen by
 * one worker are multiples of 6). A worker's registers and clock are its own, so the issue loop may
 * run it far ahead of its siblings; workers that race on the same memory are a program error. An
 * instruction that faults leaves the PC on itself.
 */
#include "device/sim/core.h"

void sim_worker_start(struct sim_tile *tile, unsigned worker, uint32_t pc, uint32_t base,
                      uint64_t cycle)
{
    struct sim_context *c = &tile->context[worker + 1];
    uint64_t phase = (cycle + IPU21_SLOTS - worker) % IPU21_SLOTS;
    c->cycle = cycle + (phase == 0 ? 0 : IPU21_SLOTS - phase);
    c->pc = pc;
    c->m[13] = base;
    c->m[12] = tile->csr[0x21 + worker];
    c->fp_ctl = tile->csr[0x20];
    c->fp_sts = 0;
    c->repeat_end = SIM_NO_REPEAT;
    c->active = true;
    tile->active_workers++;
}

static void commit_copy(struct sim_context *c, const struct sim_op *op)
{
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < op->commit[k].count; i++)
            c->a[op->commit[k].to + i] = c->a[op->commit[k].from + i];
}

static inline int op_run(struct sim_context *c, const struct sim_op *op)
{
    int etype;
    switch (op->shape) {
    case SIM_LONE_MAIN:
        return op->main.run(c, &op->main);
    case SIM_LONE_AUX:
        return op->aux.run(c, &op->aux);
    case SIM_BUNDLE_SETZI:
        etype = op->main.run(c, &op->main);
        if (etype == 0)
            c->a[op->aux.r[0]] = (uint32_t)op->aux.imm;
        return etype;
    case SIM_BUNDLE:
        etype = op->main.run(c, &op->main);
        return etype != 0 ? etype : op->aux.run(c, &op->aux);
    default:
        etype = op->main.run(c, &op->main);
        if (etype != 0)
            return etype; /* nothing was loaded */
        etype = op->aux.run(c, &op->aux);
        if (op->commit[0].count == 2 && op->commit[1].count == 0)
            sim_set_pair(c, op->commit[0].to, sim_pair(c, op->commit[0].from));
        else
            commit_copy(c, op);
        return etype;
    }
}

static int invalid_pc(struct sim_context *c)
{
    return sim_fault_at(c, SIM_ETYPE_INVALID_PC, "code must lie in region 0 (0x4c000-0x7ffff)", 0);
}

static int invalid_body(struct sim_context *c)
{
    return sim_fault_at(c, SIM_ETYPE_INVALID_INSTR,
                        "an rpt body may hold only bundles without control or system instructions",
                        0);
}

/* The end of a repeat body: once more, or on to what follows. */
static void repeat_next(struct sim_context *c)
{
    if (--c->repeat_left != 0) {
        c->next_pc = c->repeat_first;
        return;
    }
    c->repeat_end = SIM_NO_REPEAT;
}

static inline uint64_t fused_run(struct sim_context *c, const struct sim_page *page,
                                 const struct sim_op *op, uint64_t until)
{
    if (op->fused == SIM_FUSED_NONE || !page->fused)
        return 0;
    return op->fused >= SIM_FUSED_COPY ? sim_fused_move(c, op, until) : page->fused(c, page, until);
}

/* Runs instructions of the page that the PC is in, until it leaves the page or the page changes. */
static int page_run(struct sim_context *c, struct sim_page *const *slot, uint64_t until)
{
    const struct sim_page *page = *slot;
    uint32_t start = c->pc & ~(SIM_PAGE_BYTES - 1u);
    do {
        const struct sim_op *op = &page->ops[(c->pc - start) / 4];
        if (fused_run(c, page, op, until) != 0)
            continue;
        if (__builtin_expect(c->repeat_end != SIM_NO_REPEAT && !op->repeatable, 0))
            return invalid_body(c);
        c->next_pc = c->pc + op->size;
        int etype = op_run(c, op);
        if (__builtin_expect(etype != 0, 0))
            return etype;
        c->bundles++;
        if (c->next_pc == c->repeat_end)
            repeat_next(c);
        c->pc = c->next_pc;
        c->cycle += op->cycles;
    } while (c->active && c->cycle < until && c->pc - start < SIM_PAGE_BYTES && *slot == page);
    return 0;
}

int sim_worker_run(struct sim_tile *tile, struct sim_context *c, uint64_t until)
{
    while (c->active && c->cycle < until) {
        uint32_t offset = c->pc - IPU21_SRAM_BASE, index = offset / SIM_PAGE_BYTES;
        if (offset >= SIM_REGION0_BYTES)
            return invalid_pc(c);
        if (!tile->pages[index] && !sim_code_fetch(tile, index))
            return sim_fault_at(c, SIM_ETYPE_EXERR, "the simulator ran out of memory", 0);
        int etype = page_run(c, &tile->pages[index], until);
        if (etype != 0)
            return etype;
    }
    return 0;
}

bool sim_workers_run(struct sim_tile *tile, uint64_t until)
{
    struct sim_context *faulting = NULL;
    int etype = 0;
    for (unsigned w = 0; w < IPU21_WORKERS && tile->active_workers != 0; w++) {
        struct sim_context *c = &tile->context[w + 1];
        int result = sim_worker_run(tile, c, until);
        if (result == 0)
            continue;
        /* Later workers run up to this fault: one of them may have an earlier one. */
        faulting = c;
        etype = result;
        until = c->cycle;
    }
    if (faulting)
        sim_tile_record(tile, faulting, (enum sim_etype)etype);
    return !faulting;
}
