/* One round of the fabric: which ports take part, the order of the steps, faults.
 *
 * Ports with an empty log whose multiplexer listens to no tile cost one comparison. Steps that read
 * other ports only read what an earlier step finished, so each step runs on all ports in parallel
 * and the result does not depend on the number of threads.
 */
#include "device/sim/settle.h"

#include "device/sim/chip_core.h"

#include "base/alloc.h"

#include "device/asm/asm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *settle_push(struct settle_list *list, size_t size)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        void *grown = ipu_realloc(list->data, room * size);
        if (!grown)
            return NULL;
        list->data = grown;
        list->room = room;
    }
    return (uint8_t *)list->data + size * list->count++;
}

void settle_init(struct settle *settle)
{
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        settle->ports[i].logical = i;
        settle->ports[i].physical = ipu21_physical(i);
    }
}

static void port_free(struct settle_port *port)
{
    for (unsigned i = 0; i < SETTLE_TIMELINES; i++)
        ipu_free(port->timeline[i].data);
    ipu_free(port->sends.data);
    ipu_free(port->runs.data);
    ipu_free(port->pieces.data);
    host_stream_destroy(port->host);
}

void settle_free(struct settle *settle)
{
    for (unsigned i = 0; i < IPU21_TILES; i++)
        port_free(&settle->ports[i]);
    ipu_free(settle->active.data);
}

static const char *const error_names[] = {"",
                                          "clash with an access",
                                          "clash with instruction fetch",
                                          "address",
                                          "workers",
                                          "data break",
                                          "configuration",
                                          "mode"};

static void describe(const struct settle_port *port, uint32_t pc, char *text, size_t size)
{
    uint32_t words[2] = {0, 0}, offset = pc - IPU21_SRAM_BASE;
    snprintf(text, size, "no code");
    if ((pc & 3) != 0 || offset > IPU21_REGION1_BASE - IPU21_SRAM_BASE - 8)
        return;
    memcpy(words, port->sram + offset, sizeof words);
    asm_disassemble(pc, words[0], words[1], text, size);
}

/* The exceptions that the fabric raises. */
static const char *etype_name(enum sim_etype etype)
{
    return etype == SIM_ETYPE_INVALID_ADDR ? "INVALID_ADDR"
           : etype == SIM_ETYPE_EXCONF     ? "EXCONF"
                                           : "EXERR";
}

void settle_fault(struct settle_port *port, enum sim_etype etype, enum settle_receive_error error,
                  int64_t cycle, uint32_t pc, const char *format, ...)
{
    uint64_t when = cycle > 0 ? (uint64_t)cycle : 0;
    if (port->faulted && port->fault.cycle <= when)
        return;
    char code[64], kind[48] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(port->sentence, sizeof port->sentence, format, arguments);
    va_end(arguments);
    describe(port, pc, code, sizeof code);
    if (error != SETTLE_NO_ERROR)
        snprintf(kind, sizeof kind, " (receive error %u: %s)", error, error_names[error]);
    port->faulted = true;
    port->fault = (struct sim_fault){
        .etype = etype, .tile = port->logical, .pc = pc, .cycle = when, .receive_error = error};
    char text[512]; /* longer than the record: a long sentence loses its end */
    snprintf(text, sizeof text, "%s in tile %u, exchange, at pc 0x%x (%.40s), cycle %llu: %s%s",
             etype_name(etype), port->logical, pc, code, (unsigned long long)when, port->sentence,
             kind);
    text[sizeof port->fault.text - 1] = '\0';
    memcpy(port->fault.text, text, sizeof port->fault.text);
}

void settle_no_memory(struct settle_port *port)
{
    settle_fault(port, SIM_ETYPE_EXERR, SETTLE_NO_ERROR, 0, 0,
                 "the simulator ran out of host memory");
}

static void collect_one(void *context, size_t index)
{
    struct settle *settle = context;
    const uint16_t *active = settle->active.data;
    settle_collect(&settle->ports[active[index]]);
}

static void receive_one(void *context, size_t index)
{
    struct settle *settle = context;
    const uint16_t *active = settle->active.data;
    struct settle_port *port = &settle->ports[active[index]];
    settle_receive(settle, port);
    settle_place(settle, port);
}

static void check_one(void *context, size_t index)
{
    struct settle *settle = context;
    const uint16_t *active = settle->active.data;
    settle_check(settle, &settle->ports[active[index]]);
}

static bool activate(struct settle *settle, unsigned logical)
{
    struct settle_port *port = &settle->ports[logical];
    if (port->active)
        return true;
    uint16_t *slot = settle_push(&settle->active, sizeof *slot);
    if (!slot) {
        settle_no_memory(port);
        return false;
    }
    *slot = (uint16_t)logical;
    port->active = true;
    return true;
}

/* The late member of a pair receives through the select of the early one. */
static bool choose_ports(struct settle *settle)
{
    settle->active.count = 0;
    bool chosen = true;
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct settle_port *port = &settle->ports[i];
        port->received = port->misdirected = 0;
        port->hears_itself = false;
        port->sends.count = port->runs.count = port->pieces.count = 0;
        for (unsigned t = 0; t < SETTLE_TIMELINES; t++)
            port->timeline[t].count = 0;
        if (port->event_count != 0 || settle_is_tile(port->state->incoming_mux))
            chosen = activate(settle, i) && chosen;
        if (settle_is_tile(port->state->incoming_mux_pair))
            chosen = activate(settle, i) && activate(settle, i ^ 1) && chosen;
    }
    return chosen;
}

bool settle_run(struct settle *settle)
{
    if (!choose_ports(settle))
        return false;
    const uint16_t *active = settle->active.data;
    size_t count = settle->active.count;
    if (count == 0)
        return true;
    sim_pool_run(settle->pool, count, collect_one, settle);
    sim_pool_run(settle->pool, count, receive_one, settle);
    sim_pool_run(settle->pool, count, check_one, settle);
    settle_check_self(settle);
    bool sound = settle_copy(settle);
    for (size_t i = 0; i < count; i++) {
        struct settle_port *port = &settle->ports[active[i]];
        settle_update(port);
        settle->words += port->received;
        port->active = false;
        sound = sound && !port->faulted;
    }
    return sound;
}
