/* Builder and views of a package: see package.h.
 *
 * Items are copied into lists as they come; strings and bytes go to one arena. Equal blobs are
 * found through a hash table of 64-bit content hashes and compared before they are shared. A
 * failing add is remembered, so that package_write() refuses a package that lacks a part even when
 * the caller ignored a return value. Lists are sorted on the first look or write after an add; from
 * then on the package is constant. Fails only for lack of memory and for indices that do not exist.
 */
#include "device/package/internal.h"

#include "base/alloc.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

void *list_add(struct list *list, size_t size)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 16;
        void *items = ipu_realloc(list->items, capacity * size);
        if (!items)
            return NULL;
        list->items = items;
        list->capacity = capacity;
    }
    void *item = (char *)list->items + list->count++ * size;
    memset(item, 0, size);
    return item;
}

bool list_reserve(struct list *list, size_t count, size_t size)
{
    if (count == 0)
        return true;
    list->items = ipu_calloc(count, size);
    list->capacity = list->items ? count : 0;
    return list->items != NULL;
}

struct package *package_create(void)
{
    struct package *package = ipu_calloc(1, sizeof *package);
    if (!package)
        return NULL;
    package->arena = arena_create(0);
    if (!package->arena) {
        ipu_free(package);
        return NULL;
    }
    package->info.compiler = package->info.workload = "";
    return package;
}

void package_destroy(struct package *package)
{
    if (!package)
        return;
    struct list *lists[] = {&package->blobs,      &package->segments,    &package->tensors,
                            &package->nests[0],   &package->nests[1],    &package->rows,
                            &package->steps,      &package->samples,     &package->symbols,
                            &package->blob_table, &package->tensor_blobs};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        ipu_free(lists[i]->items);
    arena_destroy(package->arena);
    ipu_free(package);
}

/* Remembers the first failure; returns its own code. */
static int fail(struct package *package, int code, const char *what)
{
    if (!package->failure.code)
        ipu_error_set(&package->failure, code, "package: cannot add %s: %s", what,
                      code == IPU_ERR_NO_MEMORY ? "out of memory" : "no such index or too many");
    return code;
}

static const char *keep_text(struct package *package, const char *text)
{
    return arena_strdup(package->arena, text ? text : "");
}

void package_set_info(struct package *package, const struct package_info *info)
{
    package->info = *info;
    package->info.compiler = keep_text(package, info->compiler);
    package->info.workload = keep_text(package, info->workload);
    if (!package->info.compiler || !package->info.workload)
        fail(package, IPU_ERR_NO_MEMORY, "the package information");
}

uint64_t package_hash(const void *bytes, size_t size)
{
    const uint8_t *data = bytes;
    uint64_t h = size * 0x9e3779b97f4a7c15u;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        h = (h ^ word) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
    }
    uint64_t tail = 0;
    if (size)
        memcpy(&tail, data, size);
    return hash64_mix(h ^ tail);
}

static bool blob_table_grow(struct package *package)
{
    struct list *table = &package->blob_table;
    size_t capacity = table->capacity ? table->capacity * 2 : 64;
    uint32_t *slots = ipu_calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    const struct blob *blobs = package->blobs.items;
    for (size_t i = 0; i < package->blobs.count; i++) {
        size_t at = package_hash(blobs[i].data, blobs[i].size) & (capacity - 1);
        while (slots[at])
            at = (at + 1) & (capacity - 1);
        slots[at] = (uint32_t)i + 1;
    }
    ipu_free(table->items);
    table->items = slots;
    table->capacity = capacity;
    return true;
}

int package_add_blob(struct package *package, const void *data, size_t size)
{
    struct list *table = &package->blob_table;
    if (package->blobs.count >= PACKAGE_MAX_BLOBS)
        return fail(package, IPU_ERR_LIMIT, "a blob");
    if (package->blobs.count * 2 >= table->capacity && !blob_table_grow(package))
        return fail(package, IPU_ERR_NO_MEMORY, "a blob");
    uint32_t *slots = table->items;
    size_t at = package_hash(data, size) & (table->capacity - 1);
    const struct blob *blobs = package->blobs.items;
    for (; slots[at]; at = (at + 1) & (table->capacity - 1)) {
        const struct blob *b = &blobs[slots[at] - 1];
        if (b->size == size && (size == 0 || memcmp(b->data, data, size) == 0))
            return (int)slots[at] - 1;
    }
    const uint8_t *copy = arena_memdup(package->arena, data, size);
    struct blob *blob = copy ? list_add(&package->blobs, sizeof *blob) : NULL;
    if (!blob)
        return fail(package, IPU_ERR_NO_MEMORY, "a blob");
    *blob = (struct blob){copy, size};
    slots[at] = (uint32_t)package->blobs.count;
    return (int)package->blobs.count - 1;
}

/* Adds an item to a list; `unordered` says that it sorts before its predecessor. */
static int add(struct package *package, struct list *list, const void *item, size_t size,
               size_t limit, const char *what)
{
    if (list->count >= limit)
        return fail(package, IPU_ERR_LIMIT, what);
    void *slot = list_add(list, size);
    if (!slot)
        return fail(package, IPU_ERR_NO_MEMORY, what);
    memcpy(slot, item, size);
    list->unsorted = true;
    return (int)list->count - 1;
}

int package_add_segment(struct package *package, unsigned tile, uint32_t address, int blob,
                        uint32_t offset, uint32_t size)
{
    const struct blob *blobs = package->blobs.items;
    if (tile > UINT16_MAX || blob < 0 || (size_t)blob >= package->blobs.count ||
        offset > blobs[blob].size || size > blobs[blob].size - offset)
        return fail(package, IPU_ERR_INVALID, "a segment");
    struct package_segment segment = {.tile = (uint16_t)tile,
                                      .address = address,
                                      .size = size,
                                      .data = blobs[blob].data + offset,
                                      .blob = (uint32_t)blob,
                                      .blob_offset = offset};
    return add(package, &package->segments, &segment, sizeof segment, PACKAGE_MAX_SEGMENTS,
               "a segment");
}

int package_add_tensor(struct package *package, const struct package_tensor *tensor)
{
    struct package_tensor copy = *tensor;
    copy.name = keep_text(package, tensor->name);
    if (!copy.name)
        return fail(package, IPU_ERR_NO_MEMORY, "a tensor");
    uint32_t reference = 0;
    if (copy.data) {
        int blob = package_add_blob(package, copy.data, copy.bytes);
        if (blob < 0)
            return blob;
        copy.data = ((const struct blob *)package->blobs.items)[blob].data;
        reference = (uint32_t)blob + 1;
    }
    uint32_t *slot = list_add(&package->tensor_blobs, sizeof *slot);
    if (!slot)
        return fail(package, IPU_ERR_NO_MEMORY, "a tensor");
    *slot = reference;
    return add(package, &package->tensors, &copy, sizeof copy, PACKAGE_MAX_TENSORS, "a tensor");
}

int package_add_nest(struct package *package, enum package_call call,
                     const struct package_nest *nest)
{
    if (nest->dims > PACKAGE_NEST_DIMS || nest->tensor >= package->tensors.count)
        return fail(package, IPU_ERR_INVALID, "a loop nest");
    struct package_nest copy = *nest;
    for (unsigned k = nest->dims; k < PACKAGE_NEST_DIMS; k++)
        memset(&copy.dim[k], 0, sizeof copy.dim[k]);
    return add(package, &package->nests[call == PACKAGE_RUN], &copy, sizeof copy, PACKAGE_MAX_NESTS,
               "a loop nest");
}

int package_add_row(struct package *package, unsigned tile, uint32_t address, uint32_t bytes,
                    uint32_t words)
{
    if (tile > UINT16_MAX)
        return fail(package, IPU_ERR_INVALID, "a row");
    struct package_row row = {(uint16_t)tile, address, bytes, words};
    return add(package, &package->rows, &row, sizeof row, PACKAGE_MAX_ROWS, "a row");
}

int package_add_step(struct package *package, const struct package_step *step)
{
    struct package_step copy = *step;
    copy.name = keep_text(package, step->name);
    copy.kernel = keep_text(package, step->kernel);
    if (!copy.name || !copy.kernel)
        return fail(package, IPU_ERR_NO_MEMORY, "a step");
    return add(package, &package->steps, &copy, sizeof copy, PACKAGE_MAX_STEPS, "a step");
}

int package_add_samples(struct package *package, unsigned tile, uint32_t stream_offset,
                        const uint32_t *steps, size_t count)
{
    if (tile > UINT16_MAX || count > PACKAGE_MAX_STEPS)
        return fail(package, IPU_ERR_INVALID, "a sample list");
    const uint32_t *copy = arena_memdup(package->arena, steps, count * sizeof *steps);
    if (!copy)
        return fail(package, IPU_ERR_NO_MEMORY, "a sample list");
    struct package_samples samples = {(uint16_t)tile, stream_offset, copy, count};
    return add(package, &package->samples, &samples, sizeof samples, PACKAGE_MAX_ROWS,
               "a sample list");
}

int package_add_symbol(struct package *package, const char *name, uint32_t address, uint32_t size)
{
    struct package_symbol symbol = {keep_text(package, name), address, size};
    if (!symbol.name)
        return fail(package, IPU_ERR_NO_MEMORY, "a symbol");
    return add(package, &package->symbols, &symbol, sizeof symbol, PACKAGE_MAX_SYMBOLS, "a symbol");
}

/* --- order ---------------------------------------------------------------------------------- */

static uint64_t segment_key(const void *item)
{
    const struct package_segment *s = item;
    return (uint64_t)s->tile << 32 | s->address;
}

static uint64_t nest_key(const void *item)
{
    return ((const struct package_nest *)item)->tile;
}

static uint64_t row_key(const void *item)
{
    const struct package_row *r = item;
    return (uint64_t)r->tile << 32 | r->address;
}

static uint64_t samples_key(const void *item)
{
    const struct package_samples *s = item;
    return (uint64_t)s->tile << 32 | s->stream_offset;
}

static uint64_t symbol_key(const void *item)
{
    return ((const struct package_symbol *)item)->address;
}

struct order {
    uint64_t key;
    size_t index;
};

static int compare_order(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool in_order(const struct list *list, size_t size, uint64_t (*key)(const void *))
{
    for (size_t i = 1; i < list->count; i++) {
        const char *item = (const char *)list->items + i * size;
        if (key(item - size) > key(item))
            return false;
    }
    return true;
}

/* Stable sort by key. */
static void sort(struct package *package, struct list *list, size_t size,
                 uint64_t (*key)(const void *))
{
    if (!list->unsorted)
        return;
    list->unsorted = false;
    if (in_order(list, size, key))
        return;
    struct order *order = ipu_malloc(list->count * sizeof *order);
    char *sorted = ipu_malloc(list->count * size);
    if (!order || !sorted) {
        fail(package, IPU_ERR_NO_MEMORY, "a sorted list");
        goto out;
    }
    const char *items = list->items;
    for (size_t i = 0; i < list->count; i++)
        order[i] = (struct order){key(items + i * size), i};
    qsort(order, list->count, sizeof *order, compare_order);
    for (size_t i = 0; i < list->count; i++)
        memcpy(sorted + i * size, items + order[i].index * size, size);
    ipu_free(list->items);
    list->items = sorted;
    list->capacity = list->count;
    sorted = NULL;
out:
    ipu_free(sorted);
    ipu_free(order);
}

void package_sort(struct package *package)
{
    sort(package, &package->segments, sizeof(struct package_segment), segment_key);
    sort(package, &package->nests[0], sizeof(struct package_nest), nest_key);
    sort(package, &package->nests[1], sizeof(struct package_nest), nest_key);
    sort(package, &package->rows, sizeof(struct package_row), row_key);
    sort(package, &package->samples, sizeof(struct package_samples), samples_key);
    sort(package, &package->symbols, sizeof(struct package_symbol), symbol_key);
}

/* --- views ---------------------------------------------------------------------------------- */

/* Sorting changes the order only, never what the package says; it happens once, before a package is
 * shared (package.h). */
static const void *view(const struct package *package, const struct list *list, size_t *count)
{
    if (list->unsorted)
        package_sort((struct package *)(uintptr_t)package);
    *count = list->count;
    return list->items;
}

const struct hash *package_digest(const struct package *package)
{
    return &package->digest;
}

const struct package_info *package_get_info(const struct package *package)
{
    return &package->info;
}

const struct package_segment *package_segments(const struct package *package, size_t *count)
{
    return view(package, &package->segments, count);
}

const struct package_tensor *package_tensors(const struct package *package, size_t *count)
{
    return view(package, &package->tensors, count);
}

const struct package_nest *package_nests(const struct package *package, enum package_call call,
                                         size_t *count)
{
    return view(package, &package->nests[call == PACKAGE_RUN], count);
}

const struct package_row *package_rows(const struct package *package, size_t *count)
{
    return view(package, &package->rows, count);
}

const struct package_step *package_steps(const struct package *package, size_t *count)
{
    return view(package, &package->steps, count);
}

const struct package_samples *package_sample_lists(const struct package *package, size_t *count)
{
    return view(package, &package->samples, count);
}

const struct package_symbol *package_symbols(const struct package *package, size_t *count)
{
    return view(package, &package->symbols, count);
}

int package_find_tensor(const struct package *package, const char *name)
{
    const struct package_tensor *tensors = package->tensors.items;
    for (size_t i = 0; i < package->tensors.count; i++) {
        if (strcmp(tensors[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}
