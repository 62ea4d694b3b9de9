/* One simulated tile: life, faults, and what the chip and tests see of it (device/sim/tile.h).
 *
 * A tile starts with an idle supervisor; sim_tile_reset() starts it. Registers and weights are zero
 * after a reset, which hardware does not promise. A fault stops the tile for good.
 */
#include "device/sim/core.h"

#include "device/asm/asm.h"
#include "device/ipu21/exchange.h"

#include "base/alloc.h"

#include <stdio.h>

static void contexts_clear(struct sim_tile *tile)
{
    memset(tile->context, 0, sizeof tile->context);
    for (unsigned i = 0; i <= IPU21_WORKERS; i++) {
        tile->context[i].tile = tile;
        tile->context[i].sram = tile->sram;
        tile->context[i].number = (uint8_t)i;
        tile->context[i].repeat_end = SIM_NO_REPEAT;
    }
}

struct sim_tile *sim_tile_create(unsigned logical, uint8_t *sram)
{
    size_t align = _Alignof(struct sim_tile);
    void *block = ipu_calloc(1, sizeof(struct sim_tile) + align);
    if (!block)
        return NULL;
    struct sim_tile *tile = (void *)(((uintptr_t)block + align - 1) & ~(uintptr_t)(align - 1));
    tile->block = block;
    tile->logical = logical;
    tile->sram = sram;
    tile->words = sim_words_create();
    if (!tile->words) {
        ipu_free(block);
        return NULL;
    }
    contexts_clear(tile);
    tile->exchange.incoming_mux = tile->exchange.incoming_mux_pair = IPU21_MUX_NEUTRAL;
    return tile;
}

void sim_tile_destroy(struct sim_tile *tile)
{
    if (!tile)
        return;
    sim_code_drop(tile, IPU21_SRAM_BASE, SIM_REGION0_BYTES, false);
    if (tile->owns_code)
        sim_code_destroy(tile->code);
    ipu_free(tile->words);
    ipu_free(tile->events);
    ipu_free(tile->block);
}

void sim_tile_share(struct sim_tile *tile, struct sim_code *code)
{
    sim_code_drop(tile, IPU21_SRAM_BASE, SIM_REGION0_BYTES, false);
    if (tile->owns_code)
        sim_code_destroy(tile->code);
    tile->owns_code = false;
    tile->code = code;
    tile->plain = code && sim_code_path(code) == SIM_PATH_PLAIN;
}

void sim_tile_reset(struct sim_tile *tile, uint32_t entry_pc, uint64_t cycle)
{
    sim_code_drop(tile, IPU21_SRAM_BASE, SIM_REGION0_BYTES, false);
    contexts_clear(tile);
    memset(tile->cwei, 0, sizeof tile->cwei);
    memset(tile->csr, 0, sizeof tile->csr);
    memset(tile->ready, 0, sizeof tile->ready);
    memset(&tile->exchange, 0, sizeof tile->exchange);
    tile->exchange.incoming_mux = tile->exchange.incoming_mux_pair = IPU21_MUX_NEUTRAL;
    tile->f16_valid = tile->f8_valid = false;
    tile->consensus = tile->run_error = false;
    tile->active_workers = 0;
    tile->ahead = false;
    tile->joined = 0;
    tile->epoch = cycle;
    tile->stream_control = 0;
    tile->event_count = 0;
    tile->waiting = tile->faulted = tile->passes_sync = false;
    tile->halted = 0;
    tile->fault = (struct sim_fault){0};
    tile->context[0].pc = entry_pc;
    tile->context[0].cycle = cycle;
    tile->context[0].active = true;
}

/* Without a supervisor (instruction tests) the workers run alone; the end of the last one looks
 * like a local sync. */
static enum sim_stop run_workers_alone(struct sim_tile *tile, uint64_t limit)
{
    if (!sim_workers_run(tile, limit))
        return SIM_STOP_FAULT;
    if (tile->active_workers != 0)
        return SIM_STOP_LIMIT;
    tile->zone = IPU21_ZONE_LOCAL;
    if (tile->joined > tile->context[0].cycle)
        tile->context[0].cycle = tile->joined;
    return SIM_STOP_SYNC;
}

enum sim_stop sim_tile_run(struct sim_tile *tile, uint64_t cycle_limit)
{
    if (tile->faulted)
        return SIM_STOP_FAULT;
    if (tile->run_break != 0 || tile->halted != 0)
        return sim_debug_run(tile, cycle_limit);
    enum sim_stop stop = tile->context[0].active ? sim_supervisor_run(tile, cycle_limit)
                                                 : run_workers_alone(tile, cycle_limit);
    sim_code_flush(tile);
    return stop;
}

unsigned sim_tile_zone(const struct sim_tile *tile)
{
    return tile->zone;
}

uint64_t sim_tile_cycle(const struct sim_tile *tile)
{
    return tile->context[0].cycle;
}

void sim_tile_release(struct sim_tile *tile, uint64_t cycle)
{
    tile->waiting = false;
    tile->context[0].cycle = cycle;
    if (tile->zone >= IPU21_ZONE_INTERNAL)
        tile->epoch = cycle;
}

void sim_tile_settled(struct sim_tile *tile)
{
    tile->event_count = 0;
}

const struct sim_event *sim_tile_events(const struct sim_tile *tile, size_t *count)
{
    *count = tile->event_count;
    return tile->events;
}

struct sim_exchange_state *sim_tile_exchange(struct sim_tile *tile)
{
    return &tile->exchange;
}

uint64_t sim_tile_epoch(const struct sim_tile *tile)
{
    return tile->epoch;
}

void sim_tile_touched(struct sim_tile *tile, uint32_t address, uint32_t bytes)
{
    sim_code_drop(tile, address, bytes, false);
}

/* --- faults --- */

int sim_bad_access(struct sim_context *c, uint32_t address, uint32_t size)
{
    if ((address & (size - 1)) != 0)
        return sim_fault_at(c, SIM_ETYPE_INVALID_ADDR, "the access is not aligned to its size, at",
                            address);
    return sim_fault_at(c, SIM_ETYPE_INVALID_ADDR,
                        "the access is outside SRAM (0x4c000-0xe7fff), at", address);
}

static const char *etype_name(enum sim_etype etype)
{
    static const char *const names[] = {"no exception",  "RBRK",       "PBRK0",      "PBRK1",
                                        "BOS",           "FP",         "CONFLICT",   "EXCONF",
                                        "INVALID_ADDR",  "INVALID_OP", "INVALID_PC", "DBRK",
                                        "INVALID_INSTR", "EXERR",      "MEMERR",     "IBRK"};
    return (unsigned)etype < sizeof names / sizeof *names ? names[etype] : "unknown exception";
}

static void describe_code(const struct sim_tile *tile, uint32_t pc, char *text, size_t size)
{
    uint32_t offset = pc - IPU21_SRAM_BASE, words[2] = {0, 0};
    if ((pc & 3) != 0 || offset >= SIM_REGION0_BYTES) {
        snprintf(text, size, "no code");
        return;
    }
    memcpy(words, tile->sram + offset, offset + 8 <= SIM_REGION0_BYTES ? 8 : 4);
    asm_disassemble(pc, words[0], words[1], text, size);
}

static void fault_fill(struct sim_tile *tile, const struct sim_context *c, enum sim_etype etype,
                       uint64_t cycle)
{
    tile->faulted = true;
    tile->halted |= (uint8_t)(1u << c->number);
    tile->fault = (struct sim_fault){
        .etype = etype, .tile = tile->logical, .context = c->number, .pc = c->pc, .cycle = cycle};
}

static void fault_print(struct sim_tile *tile, const char *sentence)
{
    struct sim_fault *fault = &tile->fault;
    char code[96], who[24] = "supervisor";
    describe_code(tile, fault->pc, code, sizeof code);
    if (fault->context != 0)
        snprintf(who, sizeof who, "worker %u", fault->context - 1);
    snprintf(fault->text, sizeof fault->text,
             "%s in tile %u, %s, at pc 0x%x (%.60s), cycle %llu: %.100s", etype_name(fault->etype),
             fault->tile, who, fault->pc, code, (unsigned long long)fault->cycle, sentence);
}

void sim_tile_record(struct sim_tile *tile, struct sim_context *c, enum sim_etype etype)
{
    char sentence[128];
    fault_fill(tile, c, etype, c->cycle);
    /* WSR/SSR.ETYPE, and ERPT for an exception inside a repeat body. */
    c->wsr = (uint32_t)etype << 4 | (c->repeat_end != SIM_NO_REPEAT ? 1u << 9 : 0);
    const char *reason = c->reason ? c->reason : "the instruction is illegal";
    if (c->address != 0)
        snprintf(sentence, sizeof sentence, "%s 0x%x", reason, c->address);
    else
        snprintf(sentence, sizeof sentence, "%s", reason);
    fault_print(tile, sentence);
}

void sim_tile_raise(struct sim_tile *tile, enum sim_etype etype, unsigned receive_error,
                    uint64_t cycle, const char *text)
{
    fault_fill(tile, &tile->context[0], etype, cycle);
    tile->context[0].wsr = (uint32_t)etype << 4;
    tile->fault.receive_error = receive_error;
    fault_print(tile, text);
}

const struct sim_fault *sim_tile_fault(const struct sim_tile *tile)
{
    return tile->faulted ? &tile->fault : NULL;
}

/* --- look --- */

uint32_t sim_tile_pc(const struct sim_tile *tile, unsigned context)
{
    return tile->context[context].pc;
}

uint32_t sim_tile_m(const struct sim_tile *tile, unsigned context, unsigned reg)
{
    return tile->context[context].m[reg];
}

uint32_t sim_tile_a(const struct sim_tile *tile, unsigned worker, unsigned reg)
{
    return tile->context[worker + 1].a[reg];
}

float sim_tile_accumulator(const struct sim_tile *tile, unsigned worker, unsigned index)
{
    const struct sim_accumulators *acc = &tile->context[worker + 1].acc;
    unsigned set = index / 16, unit = index % 16 / 2;
    return index % 2 != 0 ? acc->odd[set][unit] : acc->even[set][unit];
}

bool sim_tile_worker_active(const struct sim_tile *tile, unsigned worker)
{
    return tile->context[worker + 1].active;
}

uint64_t sim_tile_last_exit(const struct sim_tile *tile)
{
    if (tile->active_workers != 0)
        return UINT64_MAX;
    return tile->joined == 0 ? 0 : tile->joined - IPU21_SYNC_LOCAL;
}

uint64_t sim_tile_bundles(const struct sim_tile *tile)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i <= IPU21_WORKERS; i++)
        sum += tile->context[i].bundles;
    return sum;
}

void sim_tile_set_m(struct sim_tile *tile, unsigned context, unsigned reg, uint32_t value)
{
    if (reg < 14)
        tile->context[context].m[reg] = value;
}

void sim_tile_set_a(struct sim_tile *tile, unsigned worker, unsigned reg, uint32_t value)
{
    if (reg < 14)
        tile->context[worker + 1].a[reg] = value;
}

void sim_tile_start_worker(struct sim_tile *tile, unsigned worker, uint32_t pc,
                           uint32_t vertex_base)
{
    sim_worker_start(tile, worker, pc, vertex_base, tile->context[0].cycle);
}
