/* SHA-256 and table hashes: see hash.h. */
#include "base/hash.h"

#include <openssl/evp.h>
#include <string.h>

struct hash_state {
    char unused;
};

static EVP_MD_CTX *context(struct hash_state *state)
{
    return (EVP_MD_CTX *)(void *)state;
}

struct hash_state *hash_begin(void)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c);
        c = NULL;
    }
    return (struct hash_state *)(void *)c;
}

void hash_update(struct hash_state *state, const void *data, size_t size)
{
    if (state && size)
        EVP_DigestUpdate(context(state), data, size);
}

bool hash_finish(struct hash_state *state, struct hash *out)
{
    if (!state)
        return false;
    unsigned length = 0;
    int ok = EVP_DigestFinal_ex(context(state), out->bytes, &length);
    EVP_MD_CTX_free(context(state));
    return ok == 1 && length == HASH_BYTES;
}

bool hash_bytes(const void *data, size_t size, struct hash *out)
{
    struct hash_state *state = hash_begin();
    hash_update(state, data, size);
    return hash_finish(state, out);
}

void hash_text(const struct hash *hash, char text[HASH_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < HASH_BYTES; i++) {
        text[2 * i] = digits[hash->bytes[i] >> 4];
        text[2 * i + 1] = digits[hash->bytes[i] & 15];
    }
    text[2 * HASH_BYTES] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool hash_parse(const char *text, struct hash *out)
{
    if (strlen(text) != 2 * HASH_BYTES)
        return false;
    for (int i = 0; i < HASH_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool hash_equal(const struct hash *a, const struct hash *b)
{
    return memcmp(a->bytes, b->bytes, HASH_BYTES) == 0;
}

uint64_t hash64(const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

uint64_t hash64_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}
