/* Exchange, launch and coefficient instructions of the supervisor.
 *
 * Exchange instructions only append to the tile's log; the chip moves the data when it settles
 * (device/sim/chip.h). Encodings and timing are facts/exchange.md sections 3 and 6: a control
 * written by a delay form issues in its last event, one written by a send form in its first. The
 * handlers of the exchange forms get the instruction word in imm and the second one in extra.
 */
#include "device/sim/core.h"

#include "device/ipu21/csr.h"
#include "device/ipu21/exchange.h"

#include "base/alloc.h"

static uint32_t bits(uint32_t word, unsigned low, unsigned width)
{
    return word >> low & ((1u << width) - 1);
}

static uint32_t slot_now(const struct sim_context *c)
{
    return (uint32_t)(c->cycle - c->tile->epoch);
}

/* Slots have 32 bits: nothing that is timed may happen so late that one could wrap. */
static int log_event(struct sim_tile *tile, struct sim_event event)
{
    if ((tile->context[0].cycle - tile->epoch) >> 31 != 0)
        return sim_fault_at(&tile->context[0], SIM_ETYPE_EXERR,
                            "an exchange event lies more than 2^31 cycles after the last "
                            "synchronisation",
                            0);
    if (tile->event_count == tile->event_room) {
        size_t room = tile->event_room ? 2 * tile->event_room : 64;
        struct sim_event *grown = ipu_realloc(tile->events, room * sizeof *grown);
        if (!grown)
            return sim_fault_at(&tile->context[0], SIM_ETYPE_EXERR,
                                "the simulator ran out of memory", 0);
        tile->events = grown;
        tile->event_room = room;
    }
    event.pc = tile->context[0].pc;
    tile->events[tile->event_count++] = event;
    return 0;
}

static int log_control(struct sim_context *c, enum sim_event_kind kind, uint32_t selector,
                       uint32_t value, uint32_t slot)
{
    struct sim_event event = {
        .kind = (uint8_t)kind, .selector = (uint8_t)selector, .slot = slot, .value = value};
    return log_event(c->tile, event);
}

int sim_exec_DELAY_ZIMM19(struct sim_context *c, const struct sim_half *h)
{
    c->tile->cost = bits((uint32_t)h->imm, 0, 19) + 1;
    return 0;
}

int sim_exec_DELAYPIC_ZIMM7_ZIMM1_ZIMM18(struct sim_context *c, const struct sim_half *h)
{
    uint32_t word = (uint32_t)h->imm, events = bits(word, 19, 7) + 1;
    c->tile->cost = events;
    return log_control(c, SIM_EVENT_PIC, bits(word, 18, 1), bits(word, 0, 18),
                       slot_now(c) + events - 1);
}

int sim_exec_DELAYXPIC_ZIMM12_ZIMM1_ZIMM13(struct sim_context *c, const struct sim_half *h)
{
    uint32_t word = (uint32_t)h->imm, events = bits(word, 14, 12) + 1;
    c->tile->cost = events;
    return log_control(c, SIM_EVENT_XPIC, bits(word, 13, 1), bits(word, 0, 13),
                       slot_now(c) + events - 1);
}

/* Code that is being fetched: the instruction and the look-ahead behind it. */
static uint32_t fetch_mask(const struct sim_context *c, uint32_t size)
{
    uint32_t end = c->pc + size + IPU21_FETCH_AHEAD;
    if (end > IPU21_REGION1_BASE)
        end = IPU21_REGION1_BASE;
    return ipu21_element_mask(c->pc, end - c->pc);
}

/* Sends `items` from the outgoing cursor with the control of the open stream. */
static int stream_send(struct sim_context *c, uint32_t items, uint32_t size)
{
    struct sim_tile *tile = c->tile;
    tile->cost = items;
    uint32_t control = tile->stream_control;
    if ((control & IPU21_SEND_BOTH) == 0)
        return 0;
    uint32_t width = (control & IPU21_SEND_64) != 0 ? 8 : 4;
    uint32_t address = tile->exchange.outgoing_base + tile->exchange.outgoing_pointer;
    uint32_t bytes = items * width;
    if ((address & (width - 1)) != 0 || address < IPU21_SRAM_BASE || address >= IPU21_SRAM_END ||
        bytes > IPU21_SRAM_END - address)
        return sim_fault_at(c, SIM_ETYPE_INVALID_ADDR,
                            "a send reads outside SRAM or misaligned, from", address);
    if ((fetch_mask(c, size) & ipu21_element_mask(address, bytes)) != 0)
        return sim_fault_at(c, SIM_ETYPE_CONFLICT,
                            "a send reads the memory element that its own code is fetched from, at",
                            address);
    struct sim_event event = {.kind = SIM_EVENT_SEND,
                              .control = (uint8_t)control,
                              .slot = slot_now(c),
                              .items = items,
                              .value = address};
    tile->exchange.outgoing_pointer += bytes;
    return log_event(tile, event);
}

static int stream_start(struct sim_context *c, uint32_t word, uint32_t size)
{
    struct sim_tile *tile = c->tile;
    uint32_t control = bits(word, 0, 3), item = bits(word, 3, 18);
    tile->stream_control = control;
    tile->exchange.outgoing_pointer = item << ((control & IPU21_SEND_64) != 0 ? 3 : 2);
    return stream_send(c, bits(word, 21, 6) + 1, size);
}

int sim_exec_SEND_ZIMM6_WADDR18_SCTL3(struct sim_context *c, const struct sim_half *h)
{
    return stream_start(c, (uint32_t)h->imm, 4);
}

int sim_exec_SENDOFF_ZIMM12_ZIMM11_SCTL3(struct sim_context *c, const struct sim_half *h)
{
    struct sim_tile *tile = c->tile;
    uint32_t word = (uint32_t)h->imm;
    tile->stream_control = bits(word, 0, 3);
    tile->exchange.outgoing_pointer += 4 * bits(word, 3, 11);
    return stream_send(c, (bits(word, 14, 6) << 6 | bits(word, 21, 6)) + 1, 4);
}

int sim_exec_SENDPIC_ZIMM6_ZIMM2_ZIMM18(struct sim_context *c, const struct sim_half *h)
{
    uint32_t word = (uint32_t)h->imm, selector = bits(word, 18, 2);
    enum sim_event_kind kind = selector >= 2 ? SIM_EVENT_PIC : SIM_EVENT_XPIC;
    int etype = log_control(c, kind, selector & 1, bits(word, 0, 18), slot_now(c));
    return etype != 0 ? etype : stream_send(c, bits(word, 21, 6) + 1, 4);
}

int sim_exec_SENDPICP_ZIMM6_WADDR18_SCTL3_ZIMM1_ZIMM14_ZIMM18(struct sim_context *c,
                                                              const struct sim_half *h)
{
    uint32_t word = (uint32_t)h->imm, second = h->extra;
    if ((c->pc & 7) != 0)
        return sim_fault_at(c, SIM_ETYPE_INVALID_PC, "sendpicp must be at a multiple of 8", 0);
    int etype =
        log_control(c, SIM_EVENT_XPIC, bits(second, 31, 1), bits(second, 18, 13), slot_now(c));
    if (etype == 0)
        etype = log_control(c, SIM_EVENT_PIC, bits(word, 27, 1), bits(second, 0, 18), slot_now(c));
    if (etype != 0)
        return etype;
    if (bits(word, 0, 3) != 0)
        return stream_start(c, word, 8);
    c->tile->cost = bits(word, 21, 6) + 1;
    return 0;
}

/* `sans n` sits out n + 1 coming global syncs [I]. */
int sim_exec_SANS_ZIMM19(struct sim_context *c, const struct sim_half *h)
{
    c->tile->exchange.ans_count += (uint32_t)h->imm + 1;
    return 0;
}

/* Zones other than LOCAL, which the supervisor's loop resolves itself. */
int sim_exec_SYNC_ZIMM4(struct sim_context *c, const struct sim_half *h)
{
    c->tile->zone = (unsigned)h->imm;
    c->tile->waiting = true;
    return 0;
}

static uint32_t *exchange_register(struct sim_exchange_state *state, unsigned index)
{
    switch (index) {
    case CSR_S_INCOMING_MUX:
        return &state->incoming_mux;
    case CSR_S_INCOMING_MUXPAIR:
        return &state->incoming_mux_pair;
    case CSR_S_INCOMING_DELTA:
        return &state->incoming_pointer;
    case CSR_S_INCOMING_FORMAT:
        return &state->incoming_format;
    case CSR_S_INCOMING_BASE:
        return &state->incoming_base;
    case CSR_S_INCOMING_DCOUNT:
        return &state->incoming_dcount;
    case CSR_S_OUTGOING_BASE:
        return &state->outgoing_base;
    case CSR_S_OUTGOING_DELTA:
        return &state->outgoing_pointer;
    case CSR_S_ANS_DCOUNT:
        return &state->ans_count;
    default:
        return NULL;
    }
}

uint32_t sim_exchange_get(const struct sim_tile *tile, unsigned index)
{
    struct sim_exchange_state state = tile->exchange;
    const uint32_t *value = exchange_register(&state, index);
    return value ? *value : tile->csr[index];
}

/* Before any event of a row a receive register simply has its value when the row begins; after one,
 * the write has to be ordered with the row's controls and joins the log. */
int sim_exchange_put(struct sim_tile *tile, unsigned index, uint32_t value)
{
    struct sim_context *c = &tile->context[0];
    tile->cost = IPU21_SUPERVISOR_PUT;
    if (index == CSR_S_INCOMING_BASE || index == CSR_S_OUTGOING_BASE)
        tile->cost = IPU21_TIMED_BASE_PUT;
    uint32_t slot = slot_now(c) + tile->cost - 1;
    if (tile->event_count != 0 && index == CSR_S_INCOMING_MUX)
        return log_control(c, SIM_EVENT_XPIC, 0, value & 0x1fff, slot);
    if (tile->event_count != 0 && index == CSR_S_INCOMING_MUXPAIR)
        return log_control(c, SIM_EVENT_XPIC, 1, value & 0x1fff, slot);
    if (tile->event_count != 0 && index == CSR_S_INCOMING_FORMAT)
        return log_control(c, SIM_EVENT_PIC, 1, value & 3, slot);
    if (tile->event_count != 0 && index == CSR_S_INCOMING_BASE)
        return log_control(c, SIM_EVENT_BASE_IN, 0, value & 0xffffc, slot);
    uint32_t *target = exchange_register(&tile->exchange, index);
    if (target)
        *target = index == CSR_S_INCOMING_DCOUNT ? value & 0x1ffff : value & 0xfffff;
    else
        tile->csr[index] = value;
    return 0;
}

/* --- launches --- */

static int launch_check(struct sim_context *c, uint32_t entry, uint32_t base)
{
    if ((entry & 3) != 0 || entry - IPU21_SRAM_BASE >= SIM_REGION0_BYTES)
        return sim_fault_at(c, SIM_ETYPE_INVALID_PC, "a worker entry must be code: entry", entry);
    if ((base & 3) != 0)
        return sim_fault_at(c, SIM_ETYPE_INVALID_ADDR,
                            "a vertex base must be a multiple of 4: base", base);
    return 0;
}

/* The consensus of a new set of workers starts true [G]. */
static void launch_begin(struct sim_tile *tile)
{
    tile->cost = IPU21_RUNALL;
    if (tile->active_workers == 0)
        tile->consensus = true;
}

int sim_exec_RUN_MR_MR_ZIMM16(struct sim_context *c, const struct sim_half *h)
{
    struct sim_tile *tile = c->tile;
    uint32_t entry = c->m[h->r[0]];
    uint32_t base = c->m[h->r[1]] + 4 * (uint32_t)h->imm + IPU21_SRAM_BASE;
    int etype = launch_check(c, entry, base);
    if (etype != 0)
        return etype;
    launch_begin(tile);
    /* The lowest idle worker [I]; with none idle the supervisor could not have issued. */
    for (unsigned w = 0; w < IPU21_WORKERS; w++)
        if (!tile->context[w + 1].active) {
            sim_worker_start(tile, w, entry, base, c->cycle + IPU21_WORKER_LAUNCH);
            return 0;
        }
    return sim_fault_at(c, SIM_ETYPE_EXERR, "no worker is idle", 0);
}

int sim_exec_RUNALL_MR_MR_ZIMM16(struct sim_context *c, const struct sim_half *h)
{
    struct sim_tile *tile = c->tile;
    uint32_t entry = c->m[h->r[0]], base = c->m[h->r[1]], step = 4 * (uint32_t)h->imm;
    int etype = launch_check(c, entry, base);
    if (etype != 0)
        return etype;
    if (tile->active_workers != 0) {
        tile->run_error = true;
        return sim_fault_at(c, SIM_ETYPE_EXERR, "runall needs all workers idle (SSR.RAERR is set)",
                            0);
    }
    launch_begin(tile);
    for (unsigned w = 0; w < IPU21_WORKERS; w++)
        sim_worker_start(tile, w, entry, base + w * step, c->cycle + IPU21_WORKER_LAUNCH);
    return 0;
}

/* --- coefficients --- */

static int coefficient_load(struct sim_context *c, unsigned slot, unsigned words)
{
    struct sim_tile *tile = c->tile;
    uint32_t address = tile->csr[CSR_S_CCCSLOAD], size = 8 * words;
    if (slot + words > SIM_CWEI_SLOTS)
        return sim_fault_at(c, SIM_ETYPE_INVALID_OP, "there are 64 weight slots; slot", slot);
    if (!sim_accessible(address, size))
        return sim_bad_access(c, address, size);
    if (words == 2 && address < IPU21_REGION1_BASE)
        return sim_fault_at(c, SIM_ETYPE_INVALID_ADDR,
                            "128-bit accesses need the interleaved region (0x80000 and up), not",
                            address);
    for (unsigned i = 0; i < words; i++)
        tile->cwei[slot + i] = sim_load64(c, address + 8 * i);
    tile->f16_valid = tile->f8_valid = false;
    tile->csr[CSR_S_CCCSLOAD] = address + size;
    return 0;
}

int sim_exec_LD64PUTCS_CCSR8(struct sim_context *c, const struct sim_half *h)
{
    return coefficient_load(c, (unsigned)h->imm, 1);
}

int sim_exec_LD128PUTCS_CCSR8(struct sim_context *c, const struct sim_half *h)
{
    return coefficient_load(c, (unsigned)h->imm, 2);
}
