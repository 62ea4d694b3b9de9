/* Exchange phases for tests: hand-made, regular patterns, and random legal ones. */
#ifndef IPU_TESTS_EXCHANGE_PHASES_H
#define IPU_TESTS_EXCHANGE_PHASES_H

#include "base/arena.h"
#include "base/hash.h"
#include "compiler/exchange/exchange.h"
#include "device/ipu21/memory.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

enum { PHASE_TILES = 1472, SEND_BASE = 0x90000, RECEIVE_BASE = 0xb8000 };

struct phase_builder {
    struct exchange_transfer *transfers;
    uint32_t count, capacity;
    struct arena *arena;
    uint32_t send[PHASE_TILES], receive[PHASE_TILES]; /* next free byte addresses */
};

static inline void phase_begin(struct phase_builder *b, uint32_t capacity)
{
    memset(b, 0, sizeof *b);
    b->arena = arena_create(0);
    b->transfers = ARENA_ARRAY(b->arena, struct exchange_transfer, capacity);
    b->capacity = capacity;
    for (int t = 0; t < PHASE_TILES; t++) {
        b->send[t] = SEND_BASE;
        b->receive[t] = RECEIVE_BASE;
    }
}

static inline struct exchange_phase phase_end(const struct phase_builder *b)
{
    return (struct exchange_phase){.count = b->count, .transfers = b->transfers};
}

static inline void phase_free(struct phase_builder *b)
{
    arena_destroy(b->arena);
}

static inline uint32_t phase_take(uint32_t *next, uint32_t words)
{
    uint32_t address = *next;
    *next += 4 * words;
    return address;
}

static inline void phase_add_at(struct phase_builder *b, unsigned source, uint32_t address,
                                uint32_t words, const struct exchange_target *targets,
                                uint32_t count)
{
    ck_assert_uint_lt(b->count, b->capacity);
    b->transfers[b->count++] =
        (struct exchange_transfer){(uint16_t)source, address, words, count,
                                   arena_memdup(b->arena, targets, count * sizeof *targets)};
}

/* From the next free words of the source to the next free words of every target. */
static inline void phase_add(struct phase_builder *b, unsigned source, uint32_t words,
                             const uint16_t *tiles, uint32_t count)
{
    struct exchange_target targets[PHASE_TILES];
    for (uint32_t k = 0; k < count; k++)
        targets[k] = (struct exchange_target){tiles[k], phase_take(&b->receive[tiles[k]], words)};
    phase_add_at(b, source, phase_take(&b->send[source], words), words, targets, count);
}

enum phase_pattern { ALL_TO_ALL, ALL_GATHER, GATHER_TO_FIRST, SCATTER_FROM_FIRST };

/* A pattern in every group of `size` tiles {base + k * stride}; `tiles` tiles take part. */
static inline void phase_pattern(struct phase_builder *b, enum phase_pattern pattern,
                                 unsigned tiles, unsigned size, unsigned stride, uint32_t words)
{
    for (unsigned block = 0; block < tiles; block += size * stride) {
        for (unsigned base = block; base < block + stride; base++) {
            for (unsigned i = 0; i < size; i++) {
                uint16_t others[PHASE_TILES];
                uint32_t n = 0;
                for (unsigned j = 1; j < size; j++)
                    others[n++] = (uint16_t)(base + (i + j) % size * stride);
                uint16_t first = (uint16_t)base, me = (uint16_t)(base + i * stride);
                if (pattern == ALL_GATHER)
                    phase_add(b, base + i * stride, words, others, n);
                for (uint32_t k = 0; pattern == ALL_TO_ALL && k < n; k++)
                    phase_add(b, base + i * stride, words, &others[k], 1);
                if (pattern == GATHER_TO_FIRST && i)
                    phase_add(b, base + i * stride, words, &first, 1);
                if (pattern == SCATTER_FROM_FIRST && i)
                    phase_add(b, base, words, &me, 1);
            }
        }
    }
}

struct phase_random {
    uint64_t state;
};

static inline uint32_t phase_below(struct phase_random *r, uint32_t n)
{
    r->state += 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash64_mix(r->state) >> 32) % n;
}

/* Sizes that matter: short, around the limits of instructions, and long. */
static inline uint32_t phase_random_words(struct phase_random *r)
{
    switch (phase_below(r, 8)) {
    case 0:
        return 1 + phase_below(r, 3);
    case 1:
        return 24 + phase_below(r, 8);
    case 2:
        return 50 + phase_below(r, 20);
    case 3:
        return phase_below(r, 6) ? 1 + phase_below(r, 300) : 4100 + phase_below(r, 900);
    default:
        return 1 + phase_below(r, 40);
    }
}

/* Random transfers among `tiles` consecutive tiles from `base`, or, with tiles = 0, anywhere. Sends
 * read one granule range and receives write another, unless `tight`: then both come from the same
 * memory and the granule rule bites. */
static inline void phase_random(struct phase_builder *b, uint64_t seed, unsigned base,
                                unsigned tiles, uint32_t count, bool tight)
{
    struct phase_random r = {seed};
    if (tight) {
        for (int t = 0; t < PHASE_TILES; t++)
            b->receive[t] = b->send[t] + 4 * 32768; /* disjoint bytes, neighbouring granules */
        for (int t = 0; t < PHASE_TILES; t++)
            b->send[t] += 4 * phase_below(&r, 8192);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint16_t tile[16];
        uint32_t n = phase_below(&r, 3) ? 1 : 1 + phase_below(&r, 15), chosen = 0;
        unsigned range = tiles ? tiles : PHASE_TILES;
        unsigned source = (base + phase_below(&r, range)) % PHASE_TILES;
        bool self = false;
        for (uint32_t k = 0; k < n; k++) {
            uint16_t t = (uint16_t)((base + phase_below(&r, range)) % PHASE_TILES);
            bool again = false;
            for (uint32_t j = 0; j < chosen; j++)
                again |= tile[j] == t;
            if (!again)
                tile[chosen++] = t;
            self |= t == source;
        }
        if (self && chosen == 1)
            tile[chosen++] = (uint16_t)((source + 1) % PHASE_TILES);
        uint32_t words = phase_random_words(&r);
        bool room = b->send[source] + 4 * words < (tight ? 0xb0000 : RECEIVE_BASE);
        for (uint32_t k = 0; k < chosen; k++)
            room &= b->receive[tile[k]] + 4 * words < IPU21_SRAM_END;
        if (room)
            phase_add(b, source, words, tile, chosen);
    }
}

#endif
