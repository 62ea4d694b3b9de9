/* The supervisor: issue loop, stalls, waiting for workers, reasons to stop.
 *
 * Timing follows facts/timing_isa.md section 3: one instruction a cycle; a result or a new PC is
 * usable six cycles after issue; with k active workers only the 6 - k slots they do not own are
 * left. Workers run up to the supervisor's issue cycle before it issues, so that memory is seen in
 * time order; in `sync LOCAL` they simply run to completion. So do they when nothing but
 * instructions that see and change registers alone stands between a launch and its `sync LOCAL`:
 * the slots of those follow from the cycles in which the workers exited ("ahead").
 *
 * Words are decoded through a small cache that is checked against memory on every fetch: rows are
 * patched, and each tile's rows differ, so decoded rows are not worth keeping.
 */
#include "device/sim/core.h"

#include "device/ipu21/csr.h"
#include "device/ipu21/exchange.h"

#include "base/alloc.h"

enum {
    AHEAD_MAX = 8,    /* instructions looked at before `sync LOCAL` */
    FETCH_AHEAD = 512 /* bytes, of the host's cache */
};

enum word_kind {
    WORD_PLAIN,
    WORD_BRANCH,
    WORD_MEMORY, /* loads, stores, launches: received data must be in place */
    WORD_GET,
    WORD_PUT,
    WORD_SYNC
};

struct sim_word {
    uint32_t word, next;
    bool valid, pure; /* pure: reads and writes $m and the PC alone */
    uint8_t kind, size;
    uint16_t reads, writes;
    struct sim_half half;
};

struct sim_word *sim_words_create(void)
{
    return ipu_calloc(SIM_WORD_CACHE + 1, sizeof(struct sim_word)); /* the last: row_word() */
}

static enum word_kind form_kind(unsigned form)
{
    switch (isa_forms[form].class_) {
    case ISA_CLASS_CONTROL:
        return WORD_BRANCH;
    case ISA_CLASS_LOAD:
    case ISA_CLASS_STORE:
    case ISA_CLASS_LOAD_STORE:
        return WORD_MEMORY;
    default:
        break;
    }
    switch (form) {
    case ISA_RUN_MR_MR_ZIMM16:
    case ISA_RUNALL_MR_MR_ZIMM16:
        return WORD_MEMORY;
    case ISA_GET_MR_CSR8:
        return WORD_GET;
    case ISA_PUT_CSR8_MR:
        return WORD_PUT;
    case ISA_SYNC_ZIMM4:
        return WORD_SYNC;
    default:
        return WORD_PLAIN;
    }
}

/* The exchange forms take their fields from the words themselves: see exec_exchange.c. */
static bool takes_words(unsigned form)
{
    const struct isa_form *f = &isa_forms[form];
    return f->contexts == ISA_CONTEXTS_SUPERVISOR && f->class_ == ISA_CLASS_SYSTEM &&
           form != ISA_RUN_MR_MR_ZIMM16 && form != ISA_RUNALL_MR_MR_ZIMM16 &&
           form != ISA_SANS_ZIMM19 && form != ISA_SYNC_ZIMM4;
}

static void word_decode(struct sim_word *entry, uint32_t word, uint32_t next)
{
    struct isa_inst inst;
    uint32_t reads, writes;
    bool legal = sim_decode_supervisor(word, next, &entry->half, &inst, &reads, &writes);
    entry->word = word;
    entry->next = next;
    entry->valid = true;
    entry->reads = (uint16_t)reads;
    entry->writes = (uint16_t)writes;
    entry->size = (word >> 28) == 15 ? 8 : 4;
    entry->kind = WORD_PLAIN;
    entry->pure = false;
    if (!legal)
        return;
    entry->kind = (uint8_t)form_kind(inst.form);
    entry->pure = isa_forms[inst.form].class_ == ISA_CLASS_PLAIN || entry->kind == WORD_BRANCH;
    if (takes_words(inst.form)) {
        entry->half.imm = (int32_t)word;
        entry->half.extra = next;
    }
}

/* The exchange form of a word, or ISA_COUNT: what isa_decode() says, from the leading bits. Rows
 * are long and run once, so their words are not worth the table (nor a place in the cache). */
static unsigned row_form(uint32_t word)
{
    switch (word >> 26) {
    case 0x60000000u >> 26:
        return ISA_DELAYPIC_ZIMM7_ZIMM1_ZIMM18;
    case 0x64000000u >> 26:
        return ISA_DELAYXPIC_ZIMM12_ZIMM1_ZIMM13;
    case 0x70000000u >> 26:
    case 0x74000000u >> 26:
        return (word & 0x100000) != 0 ? ISA_SENDPIC_ZIMM6_ZIMM2_ZIMM18
                                      : ISA_SENDOFF_ZIMM12_ZIMM11_SCTL3;
    case 0x78000000u >> 26:
    case 0x7c000000u >> 26:
        return ISA_SEND_ZIMM6_WADDR18_SCTL3;
    case 0xf0000000u >> 26:
    case 0xf4000000u >> 26:
    case 0xf8000000u >> 26:
    case 0xfc000000u >> 26:
        return ISA_SENDPICP_ZIMM6_WADDR18_SCTL3_ZIMM1_ZIMM14_ZIMM18;
    default:
        return ISA_COUNT;
    }
}

static const struct sim_word *row_word(struct sim_tile *tile, unsigned form, uint32_t word,
                                       uint32_t next)
{
    struct sim_word *entry = &tile->words[SIM_WORD_CACHE];
    entry->half.run = sim_handlers[form];
    entry->half.imm = (int32_t)word;
    entry->half.extra = next;
    entry->size = (word >> 28) == 15 ? 8 : 4;
    entry->kind = WORD_PLAIN;
    return entry;
}

static const struct sim_word *word_find(struct sim_tile *tile, uint32_t word, uint32_t next)
{
    unsigned form = row_form(word);
    if (form != ISA_COUNT)
        return row_word(tile, form, word, next);
    struct sim_word *entry = &tile->words[(word * 0x9e3779b1u) >> 26];
    if (!entry->valid || entry->word != word || (entry->size == 8 && entry->next != next))
        word_decode(entry, word, next);
    return entry;
}

static uint64_t operands_ready(const struct sim_tile *tile, unsigned mask, uint64_t cycle)
{
    for (; mask != 0; mask &= mask - 1) {
        unsigned r = (unsigned)__builtin_ctz(mask);
        if (tile->ready[r] > cycle)
            cycle = tile->ready[r];
    }
    return cycle;
}

/* Whether the worker holds its slots in cycle `t`: it has not issued its exit before. Its clock
 * stands one slot after the exit. */
static bool busy(const struct sim_context *worker, uint64_t t)
{
    return worker->active || worker->cycle >= t + IPU21_SLOTS;
}

static unsigned busy_workers(const struct sim_tile *tile, uint64_t t)
{
    unsigned count = 0;
    for (unsigned w = 1; w <= IPU21_WORKERS; w++)
        count += busy(&tile->context[w], t);
    return count;
}

/* When all workers are busy: the first cycle in which one may have exited. */
static uint64_t next_exit(const struct sim_tile *tile)
{
    uint64_t next = UINT64_MAX;
    for (unsigned w = 1; w <= IPU21_WORKERS; w++) {
        const struct sim_context *worker = &tile->context[w];
        uint64_t exit = worker->active ? worker->cycle : worker->cycle - IPU21_SLOTS;
        if (exit < next)
            next = exit;
    }
    return next + 1;
}

/* Moves the issue cycle to a slot that no worker holds. Workers run up to it; when they may run
 * ahead, to `limit`. What they hold follows from the times of their exits, so it does not matter
 * how far they have come. False: a worker faulted before. Past `limit` the answer no longer
 * matters. */
static bool find_slot(struct sim_tile *tile, uint64_t *issue, uint64_t limit)
{
    while (*issue < limit) {
        if (!tile->faulted)
            sim_workers_run(tile, tile->ahead ? limit : *issue);
        if (tile->faulted && tile->fault.cycle < *issue)
            return false;
        if (busy_workers(tile, *issue) == IPU21_WORKERS)
            *issue = next_exit(tile); /* suspended until one exits */
        else if (busy(&tile->context[1 + *issue % IPU21_SLOTS], *issue))
            ++*issue;
        else
            return true;
    }
    return true;
}

/* Lets all workers finish. Returns false when the limit or a fault stopped them. */
static bool drain(struct sim_tile *tile, uint64_t limit)
{
    if (tile->faulted)
        return false;
    return tile->active_workers == 0 || (sim_workers_run(tile, limit) && tile->active_workers == 0);
}

static enum sim_stop stop_reason(const struct sim_tile *tile)
{
    return tile->faulted ? SIM_STOP_FAULT : SIM_STOP_LIMIT;
}

static void issue_done(struct sim_tile *tile, const struct sim_word *entry, uint64_t issue)
{
    struct sim_context *c = &tile->context[0];
    for (unsigned mask = entry->writes; mask != 0; mask &= mask - 1)
        tile->ready[__builtin_ctz(mask)] = issue + IPU21_SUPERVISOR_DEPENDENCY;
    if (entry->kind == WORD_BRANCH && c->next_pc != c->pc + 4)
        tile->cost = IPU21_SUPERVISOR_BRANCH;
    c->bundles++;
    c->pc = c->next_pc;
    c->cycle = issue + tile->cost;
}

/* A register of the exchange that traffic changes. */
static bool live_register(const struct sim_word *entry)
{
    return entry->kind == WORD_GET && entry->half.imm >= CSR_S_INCOMING_MUX &&
           entry->half.imm <= CSR_S_EXCHANGE_ADJ;
}

static bool needs_settling(const struct sim_tile *tile, const struct sim_word *entry)
{
    return tile->event_count != 0 && (entry->kind == WORD_MEMORY || live_register(entry));
}

/* The word at `pc`, or NULL when that is no place for code. */
static const struct sim_word *fetch(struct sim_tile *tile, uint32_t pc)
{
    const struct sim_context *c = &tile->context[0];
    uint32_t offset = pc - IPU21_SRAM_BASE, next = 0;
    if (offset >= SIM_REGION0_BYTES)
        return NULL;
    if (offset + 4 < SIM_REGION0_BYTES)
        next = sim_load32(c, pc + 4);
    /* Rows are long, and the memory of 1,472 tiles is in no cache. */
    __builtin_prefetch(c->sram + offset + FETCH_AHEAD);
    return word_find(tile, sim_load32(c, pc), next);
}

/* Whether only pure instructions stand between the supervisor and `sync LOCAL`. A copy of its
 * registers executes them, so that branches are followed. */
static bool joins_soon(struct sim_tile *tile)
{
    struct sim_context probe = tile->context[0];
    for (unsigned i = 0; i < AHEAD_MAX; i++) {
        const struct sim_word *entry = fetch(tile, probe.pc);
        if (!entry)
            return false;
        if (entry->kind == WORD_SYNC)
            return entry->half.imm == IPU21_ZONE_LOCAL && !tile->break_on_sync;
        probe.next_pc = probe.pc + entry->size;
        if (!entry->pure || entry->half.run(&probe, &entry->half) != 0)
            return false;
        probe.pc = probe.next_pc;
    }
    return false;
}

static uint64_t issue_cycle(const struct sim_tile *tile, const struct sim_word *entry)
{
    const struct sim_context *c = &tile->context[0];
    /* A put to an exchange base takes 13 cycles in all, waiting for its operand included: setzi,
     * put, put measures 27 (facts/exchange.md section 3) [I]. */
    bool base_put = entry->kind == WORD_PUT && (entry->half.imm == CSR_S_INCOMING_BASE ||
                                                entry->half.imm == CSR_S_OUTGOING_BASE);
    return base_put ? c->cycle : operands_ready(tile, entry->reads, c->cycle);
}

static void sync_local(struct sim_tile *tile, uint64_t issue)
{
    struct sim_context *c = &tile->context[0];
    c->pc += 4;
    c->bundles++;
    c->cycle = issue + 1 > tile->joined ? issue + 1 : tile->joined;
    tile->ahead = false;
}

/* Finds the issue cycle with regard to active workers and runs these up to it. False: the tile
 * stops first. */
static bool issue_among_workers(struct sim_tile *tile, const struct sim_word *entry,
                                uint64_t *issue, uint64_t limit)
{
    if (entry->kind == WORD_SYNC)
        return drain(tile, limit) && *issue < limit;
    return find_slot(tile, issue, limit) && *issue < limit;
}

/* Executes one instruction. Returns true and the reason when the tile stops. */
static bool step(struct sim_tile *tile, uint64_t limit, enum sim_stop *stop)
{
    struct sim_context *c = &tile->context[0];
    if (tile->active_workers != 0 && !tile->ahead && !tile->plain)
        tile->ahead = joins_soon(tile);
    const struct sim_word *entry = fetch(tile, c->pc);
    if (!entry) {
        sim_fault_at(c, SIM_ETYPE_INVALID_PC, "code must lie in region 0 (0x4c000-0x7ffff)", 0);
        sim_tile_record(tile, c, SIM_ETYPE_INVALID_PC);
        *stop = SIM_STOP_FAULT;
        return true;
    }
    uint64_t issue = issue_cycle(tile, entry);
    if ((tile->active_workers != 0 || tile->joined > issue) &&
        !issue_among_workers(tile, entry, &issue, limit)) {
        *stop = stop_reason(tile);
        return true;
    }
    if (needs_settling(tile, entry)) {
        *stop = SIM_STOP_SETTLE;
        return true;
    }
    if (entry->kind == WORD_SYNC && tile->break_on_sync && sim_debug_stops_sync(tile)) {
        *stop = SIM_STOP_FAULT;
        return true;
    }
    if (entry->kind == WORD_SYNC && entry->half.imm == IPU21_ZONE_LOCAL) {
        sync_local(tile, issue);
        return false;
    }
    c->cycle = issue;
    c->next_pc = c->pc + entry->size;
    tile->cost = entry->kind == WORD_PUT ? IPU21_SUPERVISOR_PUT : 1;
    int etype = entry->half.run(c, &entry->half);
    if (etype != 0) {
        sim_tile_record(tile, c, (enum sim_etype)etype);
        *stop = SIM_STOP_FAULT;
        return true;
    }
    issue_done(tile, entry, issue);
    if (tile->waiting)
        c->cycle = issue; /* arrival */
    *stop = SIM_STOP_SYNC;
    return tile->waiting;
}

enum sim_stop sim_supervisor_run(struct sim_tile *tile, uint64_t limit)
{
    enum sim_stop stop = SIM_STOP_LIMIT;
    if (tile->waiting)
        return SIM_STOP_SYNC;
    while (tile->context[0].cycle < limit)
        if (step(tile, limit, &stop))
            return stop;
    return stop_reason(tile);
}
