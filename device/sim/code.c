/* Decoded worker code, shared between tiles: struct sim_code of tile.h.
 *
 * Code is decoded a page of 1 KiB at a time. Pages are found by the hash of their bytes, and equal
 * means equal bytes, so 1,472 tiles that run one kernel hold one decoded copy. A page is immutable;
 * a tile whose bytes change lets go of it and looks up the new bytes when it next fetches there.
 * The table is locked only for that look-up. Running out of memory is reported as a NULL page.
 */
#include "device/sim/core.h"

#include "base/alloc.h"

#include <pthread.h>

enum { BUCKETS = 4096 };

struct sim_code {
    pthread_mutex_t lock;
    enum sim_path path;
    bool fast; /* the handlers of hosts with AVX2 */
    sim_fused_run *fused;
    struct sim_page *bucket[BUCKETS];
};

struct sim_code *sim_code_create(enum sim_path path)
{
    struct sim_code *code = ipu_calloc(1, sizeof *code);
    if (code && pthread_mutex_init(&code->lock, NULL) != 0) {
        ipu_free(code);
        return NULL;
    }
    if (code) {
        code->path = path;
        code->fast = path == SIM_PATH_BEST && sim_host_is_fast();
        code->fused = sim_fused_loop(path);
    }
    return code;
}

enum sim_path sim_code_path(const struct sim_code *code)
{
    return code->path;
}

void sim_code_destroy(struct sim_code *code)
{
    if (!code)
        return;
    for (unsigned i = 0; i < BUCKETS; i++) {
        while (code->bucket[i]) {
            struct sim_page *page = code->bucket[i];
            code->bucket[i] = page->next;
            ipu_free(page);
        }
    }
    pthread_mutex_destroy(&code->lock);
    ipu_free(code);
}

static uint64_t page_hash(const uint32_t *words)
{
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (unsigned i = 0; i <= SIM_PAGE_WORDS; i++)
        hash = (hash ^ words[i]) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 29;
}

static struct sim_page *page_create(const struct sim_code *code, const uint32_t *words,
                                    uint64_t hash)
{
    struct sim_page *page = ipu_malloc(sizeof *page);
    if (!page)
        return NULL;
    page->hash = hash;
    page->references = 0;
    page->fused = code->fused;
    memcpy(page->bytes, words, sizeof page->bytes);
    for (unsigned i = 0; i < SIM_PAGE_WORDS; i++)
        sim_decode_worker(words[i], words[i + 1], code->fast, &page->ops[i]);
    sim_fused_mark_moves(page);
    return page;
}

static struct sim_page *code_find(struct sim_code *code, const uint32_t *words, uint64_t hash)
{
    struct sim_page *page = code->bucket[hash % BUCKETS];
    while (page && (page->hash != hash || memcmp(page->bytes, words, sizeof page->bytes) != 0))
        page = page->next;
    return page;
}

/* Returns the page with one more reference. Decoding happens outside the lock; when two tiles race
 * for the same bytes, the second one's copy is dropped. */
static struct sim_page *code_take(struct sim_code *code, const uint32_t *words)
{
    uint64_t hash = page_hash(words);
    pthread_mutex_lock(&code->lock);
    struct sim_page *page = code_find(code, words, hash);
    if (page)
        page->references++;
    pthread_mutex_unlock(&code->lock);
    if (page)
        return page;
    struct sim_page *made = page_create(code, words, hash);
    if (!made)
        return NULL;
    pthread_mutex_lock(&code->lock);
    page = code_find(code, words, hash);
    if (!page) {
        page = made;
        made = NULL;
        page->next = code->bucket[hash % BUCKETS];
        code->bucket[hash % BUCKETS] = page;
    }
    page->references++;
    pthread_mutex_unlock(&code->lock);
    ipu_free(made);
    return page;
}

static void code_release(struct sim_code *code, struct sim_page *page)
{
    pthread_mutex_lock(&code->lock);
    bool last = --page->references == 0;
    if (last) {
        struct sim_page **link = &code->bucket[page->hash % BUCKETS];
        while (*link != page)
            link = &(*link)->next;
        *link = page->next;
    }
    pthread_mutex_unlock(&code->lock);
    if (last)
        ipu_free(page);
}

void sim_code_flush(struct sim_tile *tile)
{
    while (tile->retired_count > 0)
        code_release(tile->code, tile->retired[--tile->retired_count]);
}

const struct sim_page *sim_code_fetch(struct sim_tile *tile, unsigned index)
{
    sim_code_flush(tile);
    if (!tile->code) {
        tile->code = sim_code_create(SIM_PATH_BEST);
        tile->owns_code = tile->code != NULL;
        if (!tile->code)
            return NULL;
    }
    uint32_t words[SIM_PAGE_WORDS + 1] = {0};
    size_t bytes = sizeof words;
    if (index == SIM_PAGES - 1)
        bytes = SIM_PAGE_BYTES; /* the next word cannot be fetched: region 1 */
    memcpy(words, tile->sram + (size_t)index * SIM_PAGE_BYTES, bytes);
    tile->pages[index] = code_take(tile->code, words);
    return tile->pages[index];
}

void sim_code_drop(struct sim_tile *tile, uint32_t address, uint32_t bytes, bool defer)
{
    if (bytes == 0 || address >= IPU21_REGION1_BASE || address + bytes <= IPU21_SRAM_BASE)
        return;
    uint32_t start = address < IPU21_SRAM_BASE ? 0 : address - IPU21_SRAM_BASE;
    uint32_t end = address + bytes - IPU21_SRAM_BASE;
    if (end > SIM_REGION0_BYTES)
        end = SIM_REGION0_BYTES;
    /* The first word of a page is part of the decoding of the page before it. */
    uint32_t first = start / SIM_PAGE_BYTES;
    if (start % SIM_PAGE_BYTES < 4 && first > 0)
        first--;
    for (uint32_t i = first; i <= (end - 1) / SIM_PAGE_BYTES; i++) {
        struct sim_page *page = tile->pages[i];
        if (!page)
            continue;
        tile->pages[i] = NULL;
        tile->retired[tile->retired_count++] = page;
    }
    if (!defer)
        sim_code_flush(tile);
}
