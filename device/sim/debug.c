/* What the host's debug interface does to a tile (tile.h): status, stopping, single instructions.
 *
 * The tile stands between two instructions while the host looks at it. An exception stops its whole
 * tile here, not only its context as on hardware; a tile that is held keeps its clock [G].
 *
 * Debug exceptions (facts/driver.md section 4) leave the context able to go on; those of the
 * exchange cannot be undone, because the words of the round are lost.
 */
#include "device/sim/core.h"

#include "device/ipu21/csr.h"

static const unsigned DEBUG_TYPES = 1u << SIM_ETYPE_RBRK | 1u << SIM_ETYPE_PBRK0 |
                                    1u << SIM_ETYPE_PBRK1 | 1u << SIM_ETYPE_BOS |
                                    1u << SIM_ETYPE_DBRK | 1u << SIM_ETYPE_IBRK;
static const uint32_t ETYPE_FIELD = 0xf0;
static const uint32_t SYNC_WORD = 0x41800000, SYNC_MASK = 0xfffffff0;

static enum sim_etype exception(const struct sim_context *c)
{
    return (enum sim_etype)((c->wsr & ETYPE_FIELD) >> 4);
}

/* In a sync: a global one, or at a local one that workers keep from ending. */
static bool supervisor_waits(const struct sim_tile *tile)
{
    uint32_t offset = tile->context[0].pc - IPU21_SRAM_BASE, word;
    if (tile->waiting)
        return true;
    if (tile->active_workers == 0 || offset >= SIM_REGION0_BYTES)
        return false;
    memcpy(&word, tile->sram + offset, sizeof word);
    return (word & SYNC_MASK) == SYNC_WORD;
}

enum sim_context_status sim_tile_status(const struct sim_tile *tile, unsigned context)
{
    const struct sim_context *c = &tile->context[context];
    if ((tile->halted >> context & 1) != 0)
        return (DEBUG_TYPES >> exception(c) & 1) != 0 ? SIM_CONTEXT_DEBUG : SIM_CONTEXT_FAULT;
    if (!c->active || (context == 0 && supervisor_waits(tile)))
        return SIM_CONTEXT_IDLE;
    return SIM_CONTEXT_ACTIVE;
}

/* --- stopping --- */

static void stop_context(struct sim_tile *tile, unsigned context, enum sim_etype etype)
{
    struct sim_context *c = &tile->context[context];
    tile->halted |= (uint8_t)(1u << context);
    c->wsr = (c->wsr & ~ETYPE_FIELD) | (uint32_t)etype << 4;
}

static void apply_breaks(struct sim_tile *tile)
{
    for (unsigned i = 0; i <= IPU21_WORKERS; i++)
        if ((tile->run_break >> i & 1) != 0 && (tile->halted >> i & 1) == 0 &&
            tile->context[i].active)
            stop_context(tile, i, SIM_ETYPE_RBRK);
}

void sim_tile_break(struct sim_tile *tile, unsigned mask)
{
    tile->run_break = mask & 0x7f;
    apply_breaks(tile);
}

void sim_tile_break_on_sync(struct sim_tile *tile, bool on)
{
    tile->break_on_sync = on;
}

bool sim_debug_stops_sync(struct sim_tile *tile)
{
    struct sim_context *c = &tile->context[0];
    if (tile->passes_sync) {
        tile->passes_sync = false;
        return false;
    }
    sim_fault_at(c, SIM_ETYPE_BOS, "the debug interface has asked for a break on sync", 0);
    sim_tile_record(tile, c, SIM_ETYPE_BOS);
    return true;
}

void sim_tile_clear(struct sim_tile *tile, unsigned context)
{
    struct sim_context *c = &tile->context[context];
    enum sim_etype etype = exception(c);
    if ((tile->halted >> context & 1) == 0 || etype == SIM_ETYPE_EXERR || etype == SIM_ETYPE_MEMERR)
        return;
    tile->halted &= (uint8_t) ~(1u << context);
    c->wsr &= ~ETYPE_FIELD;
    if (etype == SIM_ETYPE_BOS)
        tile->passes_sync = true;
    if (tile->faulted && tile->fault.context == context) {
        tile->faulted = false;
        tile->fault = (struct sim_fault){0};
    }
    apply_breaks(tile);
}

/* The first cycle in which the tile may do anything. */
static uint64_t next_cycle(const struct sim_tile *tile)
{
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i <= IPU21_WORKERS; i++)
        if (tile->context[i].active && tile->context[i].cycle < next)
            next = tile->context[i].cycle;
    return next;
}

/* Workers that issue before the supervisor does must not run ahead of a break. */
static enum sim_stop run_to(struct sim_tile *tile, uint64_t until)
{
    const struct sim_context *supervisor = &tile->context[0];
    if (supervisor->active && supervisor->cycle < until)
        return sim_supervisor_run(tile, until);
    return sim_workers_run(tile, until) ? SIM_STOP_LIMIT : SIM_STOP_FAULT;
}

enum sim_stop sim_debug_run(struct sim_tile *tile, uint64_t limit)
{
    enum sim_stop stop = SIM_STOP_LIMIT;
    uint64_t until = 0;
    for (;;) {
        apply_breaks(tile);
        if (tile->halted != 0)
            break;
        uint64_t next = next_cycle(tile);
        if (next >= limit || until >= limit)
            return SIM_STOP_LIMIT;
        until = (next > until ? next : until) + 1;
        stop = run_to(tile, until);
        sim_code_flush(tile);
        if (stop != SIM_STOP_LIMIT)
            return stop;
    }
    return tile->faulted ? SIM_STOP_FAULT : SIM_STOP_HELD;
}

/* --- single instructions --- */

static bool may_inject(unsigned form)
{
    switch (form) {
    case ISA_GET_MR_CSR8:
    case ISA_PUT_CSR8_MR:
    case ISA_UGET_AR_UCSR8:
    case ISA_UPUT_UCSR8_AR:
        return true;
    case ISA_EXITZ_MR:
    case ISA_EXITNZ_MR:
    case ISA_EXITNEG_MR:
    case ISA_EXITPOS_MR:
    case ISA_RPT_MR_ZIMM8:
    case ISA_RPT_ZIMM12_ZIMM8:
        return false;
    default:
        return isa_forms[form].class_ != ISA_CLASS_SYSTEM;
    }
}

static bool decode(const struct sim_context *c, uint32_t word, struct sim_half *half)
{
    struct isa_inst inst;
    struct sim_op op;
    uint32_t reads, writes;
    if (!isa_decode_lone(word, 0, &inst) || !may_inject(inst.form))
        return false;
    if (c->number == 0)
        return sim_decode_supervisor(word, 0, half, &inst, &reads, &writes);
    sim_decode_worker(word, 0, false, &op);
    *half = op.shape == SIM_LONE_AUX ? op.aux : op.main;
    return true;
}

static int execute(struct sim_context *c, const struct sim_half *half, uint32_t word)
{
    const uint32_t put_pc = 0x43008000, register_field = 0xf00000;
    if ((word & ~register_field) == put_pc) {
        c->next_pc = c->m[word >> 20 & 15];
        return (c->next_pc & 3) == 0 ? 0 : SIM_ETYPE_INVALID_PC;
    }
    return half->run(c, half);
}

enum sim_injection sim_tile_inject(struct sim_tile *tile, unsigned context, uint32_t word)
{
    struct sim_context *c = &tile->context[context];
    struct sim_half half;
    bool stopped = (tile->halted >> context & 1) != 0;
    if (!stopped && (context == 0 || c->active))
        return SIM_INJECT_REFUSED;
    if ((word >> 31) != 0 || !decode(c, word, &half))
        return SIM_INJECT_REFUSED;
    c->next_pc = c->pc;
    int etype = execute(c, &half, word);
    sim_code_flush(tile);
    if (etype != 0)
        return SIM_INJECT_EXCEPTION;
    c->pc = c->next_pc;
    return SIM_INJECTED;
}

uint32_t sim_tile_debug_data(const struct sim_tile *tile)
{
    return tile->csr[CSR_C_DBG_DATA];
}

void sim_tile_set_debug_data(struct sim_tile *tile, uint32_t value)
{
    tile->csr[CSR_C_DBG_DATA] = value;
}

uint32_t sim_tile_exchange_control(const struct sim_tile *tile)
{
    return sim_exchange_get(tile, CSR_S_EXCHANGE_CTL);
}
