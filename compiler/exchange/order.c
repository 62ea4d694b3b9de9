#include "compiler/exchange/internal.h"
int32_t exchange_dispatch(struct schedule *s, uint32_t component, unsigned rule)
{
    (void)rule;
    int32_t horizon = 0;
    for (uint32_t i = s->component_first[component]; i < s->component_first[component + 1]; i++) {
        uint32_t k = s->component_piece[i];
        int32_t at = exchange_earliest(s, &s->pieces[k], 0);
        exchange_place(s, k, at);
        int32_t end = at + s->pieces[k].reach + s->pieces[k].words + 5;
        horizon = end > horizon ? end : horizon;
    }
    return horizon;
}
