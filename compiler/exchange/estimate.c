/* What a phase will cost before it is scheduled: row bytes (safe) and horizon (estimated).
 *
 * Both only read the phase. They accept what exchange_schedule() accepts; malformed transfers are
 * skipped, since the scheduler will name them. Neither can fail or allocate.
 */
#include "compiler/exchange/internal.h"

#include "device/ipu21/exchange.h"
#include "device/ipu21/memory.h"

#include <string.h>

/* Words of a row, by part (encode.c):
 * - a send: idling before it, send, continuation past 64 words; never longer than
 * IPU21_MAX_TRANSFER
 * - a receive: three controls of at most two words each: idling or the rest of a send, and the
 * control. Two that meet in a pair take idling, two words and one word of alignment: no more than
 * apart.
 * - the end: idling and the return; and idling past the longest delay in a huge phase. */
enum { SHORT_SEND_WORDS = 2, LONG_SEND_WORDS = 3, RECEIVE_WORDS = 6, END_WORDS = 2 };

static uint32_t send_bytes(const struct exchange_transfer *t)
{
    uint32_t words = t->words > IPU21_MAX_SEND ? LONG_SEND_WORDS : SHORT_SEND_WORDS;
    return 4 * words * exchange_piece_count(t);
}

bool exchange_may_split(const struct exchange_phase *phase)
{
    uint32_t more[IPU21_TILES] = {0};
    uint32_t most = phase->split_bytes ? phase->split_bytes : EXCHANGE_SPLIT_BYTES;
    for (uint32_t i = 0; i < phase->count; i++) {
        const struct exchange_transfer *t = &phase->transfers[i];
        if (t->source >= IPU21_TILES || t->target_count < 2 ||
            t->target_count > EXCHANGE_SPLIT_TARGETS)
            continue;
        more[t->source] += send_bytes(t) * (t->target_count - 1);
        if (more[t->source] > most)
            return false;
    }
    return true;
}

void exchange_row_bounds(const struct exchange_phase *phase, uint32_t *bytes)
{
    uint64_t slots = 0;
    bool split = exchange_may_split(phase);
    memset(bytes, 0, IPU21_TILES * sizeof *bytes);
    for (uint32_t i = 0; i < phase->count; i++) {
        const struct exchange_transfer *t = &phase->transfers[i];
        uint32_t pieces = exchange_piece_count(t), times = 1;
        if (split && t->target_count > 0 && t->target_count <= EXCHANGE_SPLIT_TARGETS)
            times = t->target_count;
        /* more than any route, guard and granule wait */
        slots += t->words + (uint64_t)pieces * times * 1024;
        if (t->source < IPU21_TILES)
            bytes[t->source] += send_bytes(t) * times;
        for (uint32_t k = 0; k < t->target_count; k++) {
            if (t->targets[k].tile < IPU21_TILES)
                bytes[t->targets[k].tile] += 4 * RECEIVE_WORDS * pieces;
        }
    }
    uint32_t end = 4 * (END_WORDS + (uint32_t)(slots / IPU21_MAX_DELAY));
    for (unsigned t = 0; t < IPU21_TILES; t++)
        bytes[t] = bytes[t] ? (bytes[t] + end + 7) & ~7u : 0;
}

/* --- horizon -------------------------------------------------------------------------------- */

enum { MAXIMUM_PASSES = 32 };

/* What the transfers of a phase ask of one tile. */
struct load {
    int32_t send_words, receive_words;
    uint32_t sends, receives;
    int32_t tail, head;  /* smallest latency of a send; earliest first store of a receive */
    int32_t sent, taken; /* first free slots of the ports in the trial run */
    uint32_t rank;       /* sends passed so far */
    int32_t granule[IPU21_ELEMENTS]; /* words that pass through a conflict granule */
};

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static bool in_sram(uint32_t address, uint32_t words)
{
    return address >= IPU21_SRAM_BASE && address < IPU21_SRAM_END &&
           words <= (IPU21_SRAM_END - address) / 4;
}

static bool is_legal(const struct exchange_transfer *t)
{
    bool legal = t->source < IPU21_TILES && t->words && in_sram(t->address, t->words);
    for (uint32_t k = 0; k < t->target_count && legal; k++)
        legal = t->targets[k].tile < IPU21_TILES && in_sram(t->targets[k].address, t->words);
    return legal;
}

static void add_granules(struct load *load, uint32_t address, uint32_t words)
{
    unsigned last = ipu21_element(address + 4 * words - 1);
    for (unsigned g = ipu21_element(address); g <= last; g++)
        load->granule[g] += (int32_t)words;
}

static void add_load(struct load *loads, const struct exchange_transfer *t)
{
    unsigned id = ipu21_physical(t->source);
    int32_t words = (int32_t)t->words, reach = 0, first = 0;
    for (uint32_t k = 0; k < t->target_count; k++) {
        unsigned d = ipu21_physical(t->targets[k].tile);
        reach = larger(reach, ipu21_latency(id, d));
        first = smaller(first, ipu21_ttm(id, d));
    }
    struct load *from = &loads[t->source];
    from->tail = from->sends++ ? smaller(from->tail, reach) : reach;
    from->send_words += words;
    add_granules(from, t->address, t->words);
    for (uint32_t k = 0; k < t->target_count; k++) {
        struct load *to = &loads[t->targets[k].tile];
        int32_t head = ipu21_latency(id, ipu21_physical(t->targets[k].tile)) - first;
        to->head = to->receives++ ? smaller(to->head, head) : head;
        to->receive_words += words;
        add_granules(to, t->targets[k].address, t->words);
    }
}

/* Sends a transfer as soon as all its ports are free, without looking for holes; returns when its
 * last word is stored. */
static int32_t run_transfer(struct load *loads, const struct exchange_transfer *t)
{
    unsigned id = ipu21_physical(t->source);
    int32_t start = loads[t->source].sent, reach = 0;
    for (uint32_t k = 0; k < t->target_count; k++) {
        unsigned d = ipu21_physical(t->targets[k].tile);
        start = larger(start, loads[t->targets[k].tile].taken - ipu21_ttm(id, d));
        reach = larger(reach, ipu21_latency(id, d));
    }
    loads[t->source].sent = start + (int32_t)t->words;
    for (uint32_t k = 0; k < t->target_count; k++) {
        unsigned d = ipu21_physical(t->targets[k].tile);
        loads[t->targets[k].tile].taken = start + ipu21_ttm(id, d) + (int32_t)t->words;
    }
    return start + reach + (int32_t)t->words + IPU21_RECEIVE_GUARD;
}

/* The horizon of a trial run that takes the first transfers of all sources, then the next ones, and
 * so on; in as many passes as the busiest source has transfers, up to a limit. */
static int32_t trial_horizon(const struct exchange_phase *phase, struct load *loads)
{
    uint32_t most = 1;
    int32_t horizon = 0;
    for (unsigned t = 0; t < IPU21_TILES; t++)
        most = loads[t].sends > most ? loads[t].sends : most;
    uint32_t passes = most < MAXIMUM_PASSES ? most : MAXIMUM_PASSES;
    for (uint32_t pass = 0; pass < passes; pass++) {
        for (unsigned t = 0; t < IPU21_TILES; t++)
            loads[t].rank = 0;
        for (uint32_t i = 0; i < phase->count; i++) {
            const struct exchange_transfer *t = &phase->transfers[i];
            if (t->source >= IPU21_TILES || (uint64_t)loads[t->source].rank * passes / most > pass)
                continue;
            bool legal = is_legal(t);
            uint64_t rank = loads[t->source].rank;
            loads[t->source].rank += legal;
            if (legal && rank * passes / most == pass)
                horizon = larger(horizon, run_transfer(loads, t));
        }
    }
    return horizon;
}

/* The largest need of a tile: its words one way and the shortest route, or what passes through one
 * granule both ways. */
static int32_t port_bound(const struct load *load)
{
    int32_t bound = 0;
    if (load->sends)
        bound = load->send_words + load->tail + IPU21_RECEIVE_GUARD;
    if (load->receives)
        bound = larger(bound, load->receive_words + load->head + IPU21_RECEIVE_GUARD);
    for (unsigned g = 0; g < IPU21_ELEMENTS && load->sends && load->receives; g++)
        bound = larger(bound, load->granule[g] + IPU21_RECEIVE_GUARD);
    return bound;
}

/* Excess over the bound, fitted to schedules of 210 regular and random phases at effort 1: half of
 * what the trial run loses, but hardly more than one and a half slots for each transfer of the
 * busiest tile. */
static int32_t excess(int32_t lost, uint32_t transfers)
{
    int32_t most = lost / 20 + (int32_t)transfers * 8 / 5;
    return lost < 0 ? 0 : smaller(lost / 2, most);
}

uint32_t exchange_estimate(const struct exchange_phase *phase)
{
    struct load loads[IPU21_TILES] = {
        {0}}; /* on the stack: an estimate may not depend on the memory of the host */
    int32_t bound = 0;
    uint32_t transfers = 0;
    for (uint32_t i = 0; i < phase->count; i++) {
        if (is_legal(&phase->transfers[i]))
            add_load(loads, &phase->transfers[i]);
    }
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        int32_t need = port_bound(&loads[t]);
        if (need > bound) {
            bound = need;
            transfers = loads[t].sends > loads[t].receives ? loads[t].sends : loads[t].receives;
        }
    }
    return (uint32_t)(bound + excess(trial_horizon(phase, loads) - bound, transfers));
}
