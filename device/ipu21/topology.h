/* Tile numbering and exchange route arithmetic. Source: facts/exchange.md sections 1, 2, 5.
 * Constant functions, any thread. */
#ifndef IPU_IPU21_TOPOLOGY_H
#define IPU_IPU21_TOPOLOGY_H

#include <stdint.h>

enum { IPU21_TILES = 1472, IPU21_TILE_GROUP = 64, IPU21_PHYSICAL_IDS = 1472 };

/* Logical tile number (0..1471, what compilers use) to physical id (11 bits) and back. */
unsigned ipu21_physical(unsigned logical);
unsigned ipu21_logical(unsigned physical);

/* Row of a physical id, 0..22. The pair partner is id ^ 2. */
static inline unsigned ipu21_row(unsigned physical)
{
    return physical >> 6;
}

/* Time-to-mux from physical source to physical destination: the receiver issues its source select
 * in slot S + ttm, where S is the slot of the sender's first word. -78..112. */
int ipu21_ttm(unsigned source, unsigned destination);
/* max over the destination's pair: for 64-bit transfers. */
int ipu21_ttm_pair(unsigned source, unsigned destination);
/* Signed displacement and the direction bit (1 or 2) of the send control. */
int ipu21_displacement(unsigned source, unsigned destination);
unsigned ipu21_direction(unsigned source, unsigned destination);
/* Slots from launch at the sender to the pointer-effective event at the receiver: ttm + 53 + 2 *
 * row(destination). */
int ipu21_latency(unsigned source, unsigned destination);

#endif
