/* Decoder of exchange rows for the verifier: words to bus segments, source selects and pointer
 * writes. Written apart from the encoder. Slots count from the first instruction of the row. Any
 * thread. */
#ifndef IPU_EXCHANGE_DECODE_H
#define IPU_EXCHANGE_DECODE_H

#include "compiler/exchange/exchange.h"

#include <stdbool.h>

/* Words word, word + 1, ... on the tile's bus in slots [start, start + words). */
struct bus_segment {
    int32_t start, words;
    uint32_t word; /* word address */
    uint32_t control;
};

/* A control that issues in `slot`: later ones win from that slot on. */
struct control_write {
    int32_t slot;
    uint32_t value;
};

struct decoded_row {
    struct bus_segment *segments;
    struct control_write *selects, *pointers;
    uint32_t segment_count, select_count, pointer_count;
    int32_t horizon;
};

/* Checks every word: known form, fields in range, sendpicp aligned, continuations inside an open
 * stream, controls clear of send starts, one final `br $m10`. A row without words decodes to
 * nothing. */
IPU_MUST_CHECK int exchange_decode(const struct exchange_row *row, unsigned tile,
                                   struct arena *arena, struct decoded_row *out,
                                   struct ipu_error *error);

#endif
