/* Reports of stopped contexts: see explain.h.
 *
 * A context that has stopped can execute for the debugger, so its own registers and memory are
 * read through it. When the interface fails the report says so and goes on without: what is known
 * is still worth reading. Output is bounded: contexts that stopped alike are one paragraph, and
 * paragraphs are counted.
 */
#include "device/driver/explain.h"

#include "device/asm/asm.h"
#include "device/driver/tdi.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PARAGRAPHS = 64,
    MAX_DETAILED = 8, /* of these with instructions and registers */
    MAX_FAILURES = 4, /* of the debug interface, before it is left alone */
    MAX_RANGES = 16,
    WORDS_BEFORE = 4,
    WORDS = 8
};

struct stopped {
    uint16_t tile;
    uint8_t context, type, receive_error;
    bool known; /* type and pc could be read */
    uint32_t pc;
};

struct survey {
    struct card *card;
    const struct package *package;
    struct buffer *text;
    struct stopped *list; /* in order of tile and context */
    size_t count;
    unsigned tiles, supervisors_active, failures;
    struct ipu_error failure; /* the first of the debug interface */
};

/* --- words --- */

/* facts/driver.md section 4. */
static const struct exception_name {
    const char *name, *words;
} exceptions[16] = {
    {"NONE", "no exception"},
    {"RBRK", "run-break: stopped by the debugger"},
    {"PBRK0", "trap instruction (patched breakpoint 0)"},
    {"PBRK1", "trap instruction (patched breakpoint 1)"},
    {"BOS", "break on synchronisation"},
    {"FP", "floating-point exception"},
    {"CONFLICT", "two accesses to one memory element in one cycle"},
    {"EXCONF", "exchange and access to one memory element in one cycle"},
    {"INVALID_ADDR", "address outside memory, or misaligned"},
    {"INVALID_OP", "operation that the operands or the state do not allow"},
    {"INVALID_PC", "instruction fetch from where no code can lie"},
    {"DBRK", "data breakpoint"},
    {"INVALID_INSTR", "word that is no instruction"},
    {"EXERR", "exchange error"},
    {"MEMERR", "memory parity error"},
    {"IBRK", "instruction breakpoint"},
};
/* facts/exchange.md section 7. */
static const char *const receive_errors[8] = {"none",
                                              "word arrived where an instruction accessed memory",
                                              "word arrived where instructions were fetched",
                                              "word arrived for an address outside memory",
                                              "word arrived while workers were running",
                                              "word hit a data breakpoint",
                                              "configuration",
                                              "format switched at the wrong time"};

void explain_symbol(const struct package *package, uint32_t address, char *text, size_t size)
{
    size_t count = 0;
    const struct package_symbol *symbols = package ? package_symbols(package, &count) : NULL;
    const struct package_symbol *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (symbols[i].address <= address && address - symbols[i].address < symbols[i].size &&
            (!best || symbols[i].size < best->size))
            best = &symbols[i];
    text[0] = '\0';
    if (best)
        snprintf(text, size, "%s+0x%x", best->name, address - best->address);
}

static void context_name(unsigned context, char *text, size_t size)
{
    if (context == 0)
        snprintf(text, size, "supervisor");
    else
        snprintf(text, size, "worker %u", context - 1);
}

/* --- survey --- */

static void note_failure(struct survey *s, const struct ipu_error *error)
{
    if (s->failures++ == 0)
        s->failure = *error;
}

static void look_at(struct survey *s, unsigned tile, unsigned context, unsigned receive_error)
{
    struct stopped *one = &s->list[s->count++];
    struct ipu_error error = {0};
    uint32_t status = 0;
    *one = (struct stopped){.tile = (uint16_t)tile,
                            .context = (uint8_t)context,
                            .receive_error = (uint8_t)receive_error};
    if (s->failures >= MAX_FAILURES)
        return;
    int code = tdi_read_csr(s->card, tile, context, IPU21_HOST_CSR_STATUS, &status, &error);
    if (code == 0)
        code = tdi_read_csr(s->card, tile, context, IPU21_HOST_CSR_PC, &one->pc, &error);
    if (code != 0) {
        note_failure(s, &error);
        return;
    }
    one->type = status >> 4 & 15;
    one->known = true;
}

static void survey_tile(struct survey *s, unsigned tile)
{
    struct tdi_status status = tdi_status_read(s->card, tile);
    size_t before = s->count;
    s->supervisors_active += status.contexts[0] == IPU21_HOST_CONTEXT_ACTIVE;
    for (unsigned c = 0; c < IPU21_HOST_CONTEXTS; c++)
        if (tdi_context_stopped(&status, c))
            look_at(s, tile, c, status.receive_error);
    s->tiles += s->count != before;
}

/* --- writing --- */

static bool alike(const struct stopped *a, const struct stopped *b)
{
    return (a->context == 0) == (b->context == 0) && a->type == b->type && a->pc == b->pc &&
           a->known == b->known && a->receive_error == b->receive_error;
}

static void write_code(struct survey *s, const struct stopped *one)
{
    uint32_t words[WORDS + 1] = {0}, first = one->pc - 4 * WORDS_BEFORE;
    struct ipu_error error = {0};
    char line[160];
    if (one->pc % 4 != 0 || one->pc < IPU21_SRAM_BASE || one->pc >= IPU21_REGION1_BASE)
        return;
    if (first < IPU21_SRAM_BASE || first > one->pc)
        first = IPU21_SRAM_BASE;
    if (tdi_read_memory(s->card, one->tile, one->context, first, words, WORDS, &error) != 0) {
        note_failure(s, &error);
        return;
    }
    for (unsigned i = 0; i < WORDS;) {
        uint32_t address = first + 4 * i;
        unsigned size = asm_disassemble(address, words[i], words[i + 1], line, sizeof line);
        bool here = one->pc >= address && one->pc < address + size;
        if (address < one->pc && address + size > one->pc) { /* in step with the pc again */
            size = one->pc - address;
            here = false;
        }
        buffer_printf(s->text, "  %s 0x%05x  %s\n", here ? "->" : "  ", address, line);
        i += size / 4;
    }
}

static void write_registers(struct survey *s, const struct stopped *one)
{
    uint32_t values[TDI_REGISTERS];
    struct ipu_error error = {0};
    if (tdi_read_registers(s->card, one->tile, one->context, values, &error) != 0) {
        note_failure(s, &error);
        return;
    }
    for (unsigned r = 0; r < TDI_REGISTERS; r++)
        buffer_printf(s->text, "%s$m%u=0x%x%s", r % 8 == 0 ? "   " : " ", r, values[r],
                      r % 8 == 7 ? "\n" : "");
}

static void write_alike(struct survey *s, size_t index, const bool *done)
{
    const struct stopped *one = &s->list[index];
    unsigned others = 0;
    char who[24];
    for (size_t i = index + 1; i < s->count; i++)
        if (!done[i] && alike(one, &s->list[i])) {
            context_name(s->list[i].context, who, sizeof who);
            if (others < MAX_RANGES)
                buffer_printf(s->text, "%stile %u %s", others == 0 ? "and likewise: " : ", ",
                              s->list[i].tile, who);
            others++;
        }
    if (others > MAX_RANGES)
        buffer_printf(s->text, " and %u more", others - MAX_RANGES);
    if (others != 0)
        buffer_printf(s->text, "\n");
}

static void write_paragraph(struct survey *s, size_t index, bool detailed)
{
    const struct stopped *one = &s->list[index];
    char symbol[128], who[24];
    context_name(one->context, who, sizeof who);
    buffer_printf(s->text, "tile %u (physical %u), %s\n", one->tile, ipu21_physical(one->tile),
                  who);
    if (!one->known) {
        buffer_printf(s->text, "stopped by an exception that could not be read\n");
        return;
    }
    explain_symbol(s->package, one->pc, symbol, sizeof symbol);
    buffer_printf(s->text, "exception %u (%s): %s\n", one->type, exceptions[one->type].name,
                  exceptions[one->type].words);
    buffer_printf(s->text, "pc 0x%x%s%s\n", one->pc, symbol[0] ? " in " : "", symbol);
    if (one->receive_error != 0)
        buffer_printf(s->text, "receive error %u: %s\n", one->receive_error,
                      receive_errors[one->receive_error & 7]);
    if (!detailed || s->failures >= MAX_FAILURES)
        return;
    write_code(s, one);
    write_registers(s, one);
}

static void write_paragraphs(struct survey *s, bool *done)
{
    unsigned paragraphs = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (done[i])
            continue;
        if (paragraphs++ >= MAX_PARAGRAPHS)
            continue;
        write_paragraph(s, i, paragraphs <= MAX_DETAILED);
        write_alike(s, i, done);
        for (size_t j = i; j < s->count; j++)
            done[j] = done[j] || alike(&s->list[i], &s->list[j]);
    }
    if (paragraphs > MAX_PARAGRAPHS)
        buffer_printf(s->text, "and %u contexts that stopped elsewhere\n",
                      paragraphs - MAX_PARAGRAPHS);
}

static void write_marks(struct card *card, struct buffer *text)
{
    static const uint32_t marks[2] = {IPU21_HOST_GS1, IPU21_HOST_GS2};
    for (unsigned i = 0; i < 2; i++)
        buffer_printf(text, "mark GS%u (0x%x): last set to %u, should read 0, reads %u\n", i + 1,
                      marks[i], card->expected[i],
                      card_read(card, marks[i]) & IPU21_HOST_MARK_MASK);
}

static void summarize(const struct survey *s, struct explain_summary *summary)
{
    char symbol[128], who[24];
    *summary = (struct explain_summary){.contexts = (unsigned)s->count, .tiles = s->tiles};
    if (s->count == 0)
        return;
    const struct stopped *one = &s->list[0];
    context_name(one->context, who, sizeof who);
    explain_symbol(s->package, one->pc, symbol, sizeof symbol);
    if (one->known)
        snprintf(summary->first, sizeof summary->first, "tile %u, %s: %s (%s) at pc 0x%x%s%s%s",
                 one->tile, who, exceptions[one->type].words, exceptions[one->type].name, one->pc,
                 symbol[0] ? " (" : "", symbol, symbol[0] ? ")" : "");
    else
        snprintf(summary->first, sizeof summary->first, "tile %u, %s: stopped by an exception",
                 one->tile, who);
}

void explain_device(struct card *card, const struct package *package, struct buffer *text,
                    struct explain_summary *summary)
{
    struct survey s = {.card = card, .package = package, .text = text};
    const size_t most = (size_t)IPU21_TILES * IPU21_HOST_CONTEXTS;
    struct ipu_error error = {0};
    *summary = (struct explain_summary){0};
    if (card_check(card, &error) != 0) {
        buffer_printf(text, "%s\n", error.text);
        return;
    }
    write_marks(card, text);
    s.list = ipu_malloc(most * sizeof *s.list);
    bool *done = ipu_calloc(most, sizeof *done);
    if (s.list && done) {
        for (unsigned tile = 0; tile < IPU21_TILES; tile++)
            survey_tile(&s, tile);
        buffer_printf(text,
                      "%zu contexts of %u tiles stopped by an exception; %u supervisors run\n",
                      s.count, s.tiles, s.supervisors_active);
        write_paragraphs(&s, done);
        summarize(&s, summary);
    }
    if (s.failures != 0)
        buffer_printf(text, "the debug interface failed: %s\n", s.failure.text);
    ipu_free(done);
    ipu_free(s.list);
}
