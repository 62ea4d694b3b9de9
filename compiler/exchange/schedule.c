/* The scheduler from end to end: prepare, dispatch every component, improve, encode.
 *
 * All state is in the caller's arena. The result depends on the phase and the effort only: ties end
 * in indices, and the random numbers of the improvement are seeded by counters. Fails for an
 * illegal phase and for lack of memory.
 */
#include "compiler/exchange/internal.h"

#include <string.h>

static int encode_rows(const struct schedule *s, struct exchange_schedule *out)
{
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        struct exchange_row *row = &out->rows[t];
        int code = exchange_encode(s, t, row);
        if (code)
            return code;
        if (row->horizon > out->horizon)
            out->horizon = row->horizon;
        if (row->count * 4 > out->maximum_row_bytes)
            out->maximum_row_bytes = row->count * 4;
    }
    return 0;
}

int exchange_schedule(const struct exchange_phase *phase, unsigned effort, struct arena *arena,
                      struct exchange_schedule *out, struct ipu_error *error)
{
    struct schedule s = {.phase = phase, .arena = arena, .error = error};
    memset(out, 0, sizeof *out);
    int code = exchange_prepare(&s);
    if (!code)
        code = exchange_order_prepare(&s);
    if (code)
        return code;
    for (uint32_t c = 0; c < s.components; c++)
        exchange_dispatch(&s, c);
    code = exchange_improve(&s, effort);
    if (code)
        return code;
    out->lower_bound = (uint32_t)s.lower_bound;
    return encode_rows(&s, out);
}
