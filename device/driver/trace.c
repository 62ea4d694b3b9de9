/* Observations of a simulated device as lines of text.
 *
 * issue:   cycle tile context pc (symbol+offset) instruction | registers that
 * changed watch:   the word, both values, the cycle and who wrote it stop:
 * every context of every traced tile Values are hexadecimal. Nothing here can
 * fail but the parsing of arguments.
 */
#include "device/driver/trace.h"

#include "device/asm/asm.h"
#include "device/driver/explain.h"
#include "device/sim/tile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_CONTEXTS = 0x7f };

static void context_name(unsigned context, char *text, size_t size)
{
    if (context == 0)
        snprintf(text, size, "supervisor");
    else if (context == SIM_CHANGE_FABRIC)
        snprintf(text, size, "exchange or host");
    else
        snprintf(text, size, "worker %u", context - 1);
}

static void print_place(struct trace *trace, uint32_t pc)
{
    char symbol[128];
    explain_symbol(trace->package, pc, symbol, sizeof symbol);
    fprintf(trace->out, "0x%05x", pc);
    if (symbol[0] != '\0')
        fprintf(trace->out, " (%s)", symbol);
}

static void print_issue(void *context, const struct sim_issue *issue)
{
    struct trace *trace = context;
    char who[24], text[160];
    context_name(issue->context, who, sizeof who);
    asm_disassemble(issue->pc, issue->word, issue->next, text, sizeof text);
    fprintf(trace->out, "%" PRIu64 " tile %u %s ", issue->cycle, issue->tile, who);
    print_place(trace, issue->pc);
    fprintf(trace->out, " %s", text);
    for (unsigned i = 0; i < issue->count; i++)
        fprintf(trace->out, "%s$%c%u=0x%x", i == 0 ? " | " : " ", issue->changes[i].file,
                issue->changes[i].number, issue->changes[i].value);
    fputc('\n', trace->out);
}

static void print_change(void *context, const struct sim_change *change)
{
    struct trace *trace = context;
    char who[24], symbol[128];
    context_name(change->context, who, sizeof who);
    explain_symbol(trace->package, change->address, symbol, sizeof symbol);
    fprintf(trace->out, "%" PRIu64 " tile %u watch 0x%05x%s%s%s: 0x%08x -> 0x%08x by %s",
            change->cycle, change->tile, change->address, symbol[0] ? " (" : "", symbol,
            symbol[0] ? ")" : "", change->before, change->after, who);
    if (change->context != SIM_CHANGE_FABRIC) {
        fputs(" at ", trace->out);
        print_place(trace, change->pc);
    }
    fputc('\n', trace->out);
}

static void print_registers(struct trace *trace, const struct sim_tile *tile, unsigned context)
{
    fputs("   ", trace->out);
    for (unsigned r = 0; r < 14; r++)
        fprintf(trace->out, " $m%u=0x%x", r, sim_tile_m(tile, context, r));
    fputc('\n', trace->out);
    if (context == 0)
        return;
    fputs("   ", trace->out);
    for (unsigned r = 0; r < 14; r++)
        fprintf(trace->out, " $a%u=0x%x", r, sim_tile_a(tile, context - 1, r));
    fputc('\n', trace->out);
}

static void print_context(struct trace *trace, struct sim_chip *chip, unsigned number,
                          unsigned context)
{
    const struct sim_tile *tile = sim_chip_tile(chip, number);
    uint32_t pc = sim_tile_pc(tile, context), words[2] = {0, 0};
    char who[24], text[160] = "no code";
    if (context != 0 && !sim_tile_worker_active(tile, context - 1))
        return;
    if (sim_chip_read(chip, number, pc, words, sizeof words))
        asm_disassemble(pc, words[0], words[1], text, sizeof text);
    context_name(context, who, sizeof who);
    fprintf(trace->out, "tile %u %s ", number, who);
    print_place(trace, pc);
    fprintf(trace->out, " %s\n", text);
    print_registers(trace, tile, context);
}

static void print_stop(void *context, struct sim_chip *chip)
{
    struct trace *trace = context;
    if (atomic_exchange(&trace->stop, true))
        return;
    fprintf(trace->out, "stopped at cycle %" PRIu64 "\n", trace->observer.stop_at);
    for (unsigned t = 0; t < IPU21_TILES; t++)
        for (unsigned c = 0; trace->observer.tiles[t] && c < 7; c++)
            if ((trace->observer.contexts >> c & 1) != 0)
                print_context(trace, chip, t, c);
}

void trace_begin(struct trace *trace, const struct package *package, FILE *out)
{
    memset(trace, 0, sizeof *trace);
    trace->package = package;
    trace->out = out;
    trace->observer.stopped = print_stop;
    trace->observer.context = trace;
}

static int bad_tile(const char *text, struct ipu_error *error)
{
    return ipu_error_set(error, IPU_ERR_INVALID,
                         "--trace %s: give TILE or TILE:CONTEXT, with a tile from 0 to %d and as "
                         "context `supervisor` or a worker from 0 to 5",
                         text, IPU21_TILES - 1);
}

int trace_tile(struct trace *trace, const char *text, struct ipu_error *error)
{
    char *end;
    uint8_t contexts = ALL_CONTEXTS;
    errno = 0;
    unsigned long tile = strtoul(text, &end, 10);
    if (end == text || errno != 0 || tile >= IPU21_TILES || text[0] == '-')
        return bad_tile(text, error);
    if (strcmp(end, ":supervisor") == 0)
        contexts = 1;
    else if (end[0] == ':' && end[1] >= '0' && end[1] <= '5' && end[2] == '\0')
        contexts = (uint8_t)(2u << (end[1] - '0'));
    else if (end[0] != '\0')
        return bad_tile(text, error);
    trace->observer.tiles[tile] = true;
    trace->observer.contexts |= contexts;
    trace->observer.issued = print_issue;
    return 0;
}

static const struct package_symbol *symbol_find(const struct package *package, const char *name,
                                                size_t length)
{
    size_t count = 0;
    const struct package_symbol *symbols = package_symbols(package, &count);
    for (size_t i = 0; i < count; i++)
        if (strncmp(symbols[i].name, name, length) == 0 && symbols[i].name[length] == '\0')
            return &symbols[i];
    return NULL;
}

/* False: not a number, or followed by something. */
static bool number_parse(const char *text, unsigned long *value)
{
    char *end;
    errno = 0;
    *value = strtoul(text, &end, 0);
    return end != text && *end == '\0' && errno == 0 && text[0] != '-' && *value <= UINT32_MAX;
}

static bool address_parse(const struct trace *trace, const char *text, unsigned long *address)
{
    size_t length = strcspn(text, "+");
    unsigned long offset = 0;
    if (number_parse(text, address))
        return true;
    const struct package_symbol *symbol = symbol_find(trace->package, text, length);
    if (!symbol || (text[length] == '+' && !number_parse(text + length + 1, &offset)))
        return false;
    *address = symbol->address + offset;
    return true;
}

int trace_watch(struct trace *trace, const char *text, struct ipu_error *error)
{
    unsigned long address;
    struct sim_observer *o = &trace->observer;
    if (!address_parse(trace, text, &address))
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "--watch %s: this is neither an address nor a symbol of the package",
                             text);
    if (address % 4 != 0 || address < IPU21_SRAM_BASE ||
        address > IPU21_SRAM_BASE + IPU21_SRAM_BYTES - 4)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "--watch %s: a watched word has an address from 0x%x to 0x%x, a "
                             "multiple of 4",
                             text, IPU21_SRAM_BASE, IPU21_SRAM_BASE + IPU21_SRAM_BYTES - 4);
    if (o->watch_count == SIM_OBSERVE_WATCHES)
        return ipu_error_set(error, IPU_ERR_INVALID, "--watch %s: at most %d words can be watched",
                             text, SIM_OBSERVE_WATCHES);
    o->watch[o->watch_count++] = (uint32_t)address;
    o->changed = print_change;
    return 0;
}

void trace_stop_at(struct trace *trace, uint64_t cycle)
{
    trace->observer.stop_at = cycle;
}

const struct sim_observer *trace_observer(struct trace *trace)
{
    struct sim_observer *o = &trace->observer;
    bool any = false;
    if (o->watch_count == 0 && !o->issued && o->stop_at == 0)
        return NULL;
    for (unsigned t = 0; t < IPU21_TILES; t++)
        any = any || o->tiles[t];
    for (unsigned t = 0; !any && o->watch_count != 0 && t < IPU21_TILES; t++)
        o->tiles[t] = true;
    if (o->contexts == 0)
        o->contexts = ALL_CONTEXTS;
    return o;
}
