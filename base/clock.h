/* Monotonic and wall clocks. Safe from any thread. */
#ifndef IPU_BASE_CLOCK_H
#define IPU_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);      /* monotonic nanoseconds */
uint64_t clock_wall_us(void); /* microseconds since the epoch */

#endif
