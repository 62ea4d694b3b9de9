/* Words and data of one tile under construction.
 *
 * Both passes make the same sequence of requests, so sizes and addresses agree; only the second
 * stores anything. Data go to the data zone until it is full, then behind the code. Out of memory
 * sets t->failed.
 */
#include "compiler/codegen/internal.h"

#include "base/alloc.h"
#include "device/ipu21/exchange.h"

#include <string.h>

static bool grow(struct tile_code *t, uint32_t **words, uint32_t *capacity, uint32_t needed)
{
    if (needed <= *capacity)
        return true;
    uint32_t wanted = *capacity ? *capacity : 1024;
    while (wanted < needed)
        wanted *= 2;
    uint32_t *fresh = ipu_realloc(*words, wanted);
    if (fresh == NULL) {
        t->failed = true;
        return false;
    }
    memset((uint8_t *)fresh + *capacity, 0, wanted - *capacity);
    *words = fresh;
    *capacity = wanted;
    return true;
}

uint32_t data_reserve(struct tile_code *t, uint32_t bytes)
{
    uint32_t size = (bytes + 7) & ~7u;
    if (t->data_used + size <= LAYOUT_DATA_END - LAYOUT_DATA) {
        t->data_used += size;
        return LAYOUT_DATA + t->data_used - size;
    }
    t->overflow_used += size;
    return t->overflow_base + t->overflow_used - size;
}

void data_write(struct tile_code *t, uint32_t address, const void *bytes, uint32_t size)
{
    if (!t->encode || size == 0)
        return;
    bool zone = address >= LAYOUT_DATA && address < LAYOUT_DATA_END;
    uint32_t at = address - (zone ? LAYOUT_DATA : t->overflow_base);
    uint32_t **words = zone ? &t->data : &t->overflow;
    uint32_t *capacity = zone ? &t->data_capacity : &t->overflow_capacity;
    if (grow(t, words, capacity, at + size))
        memcpy((uint8_t *)*words + at, bytes, size);
}

uint32_t data_add(struct tile_code *t, const void *bytes, uint32_t size)
{
    uint32_t address = data_reserve(t, size);
    data_write(t, address, bytes, size);
    return address;
}

void code_word(struct tile_code *t, uint32_t word)
{
    if (t->encode && grow(t, &t->code, &t->code_capacity, 4 * (t->code_count + 1)))
        t->code[t->code_count] = word;
    t->code_count++;
}

uint32_t code_here(const struct tile_code *t)
{
    return t->codegen->program_base + 4 * t->code_count;
}

void code_set(struct tile_code *t, unsigned reg, uint32_t value)
{
    code_word(t, ipu21_setzi(reg, value));
}

void code_call(struct tile_code *t, uint32_t address)
{
    code_word(t, ipu21_call(10, address));
}

/* Through $m8, which belongs to the program. */
void code_put(struct tile_code *t, unsigned csr, uint32_t value)
{
    code_set(t, 8, value);
    code_word(t, ipu21_put(csr, 8));
}

uint32_t buffer_address(const struct codegen *c, struct program_ref ref, uint32_t member)
{
    const struct program_buffer *b = &c->program->buffers[ref.buffer];
    return b->address + (b->members > 1 ? member * b->bytes : 0) + ref.offset;
}
