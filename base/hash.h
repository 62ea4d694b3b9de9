/* SHA-256 of bytes, as binary and as hexadecimal text, through libcrypto. Safe from any thread. */
#ifndef IPU_BASE_HASH_H
#define IPU_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_BYTES = 32, HASH_TEXT = 65 };

struct hash {
    uint8_t bytes[HASH_BYTES];
};

/* Streaming: hash_begin() returns NULL when libcrypto fails; hash_finish() frees the state. A NULL
 * state is tolerated and yields a false result at the end. */
struct hash_state;
struct hash_state *hash_begin(void);
void hash_update(struct hash_state *state, const void *data, size_t size);
bool hash_finish(struct hash_state *state, struct hash *out);

bool hash_bytes(const void *data, size_t size, struct hash *out);
void hash_text(const struct hash *hash, char text[HASH_TEXT]);
bool hash_parse(const char *text, struct hash *out);
bool hash_equal(const struct hash *a, const struct hash *b);

/* 64-bit mixing hash for in-memory tables only (never stored): FNV-1a over bytes, and the
 * SplitMix64 finaliser. */
uint64_t hash64(const void *data, size_t size);
uint64_t hash64_mix(uint64_t value);

#endif
