/* Random numbers of tests: SplitMix64, so that a printed seed repeats a program anywhere. */
#ifndef IPU_TESTS_REFERENCE_RANDOM_H
#define IPU_TESTS_REFERENCE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static inline uint32_t random_below(struct random *g, uint32_t limit)
{
    return (uint32_t)((random_next(g) >> 32) * limit >> 32);
}

static inline bool random_chance(struct random *g, uint32_t percent)
{
    return random_below(g, 100) < percent;
}

#endif
