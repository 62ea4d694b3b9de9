/* Writer of packages: lists to columns, columns to one protobuf message, message and blobs to
 * bytes.
 *
 * The bytes depend only on the sequence of adds: strings and nest shapes are numbered by first use,
 * lists are in their sorted order. Columns live in a scratch arena that is freed at the end. Fails
 * for lack of memory, for a failed add before, and for a package that the reader would refuse
 * (IPU_ERR_INTERNAL: a bug of whoever built it).
 */
#include "device/package/internal.h"
#include "proto/package.pb-c.h"

#include "base/alloc.h"

#include <string.h>

/* Strings or byte keys numbered by first use. */
struct intern {
    struct arena *arena;
    struct {
        const void *key;
        size_t size;
        uint32_t index;
    } * slots;
    size_t capacity;
    uint32_t count;
};

struct writer {
    const struct package *package;
    struct arena *arena;
    Ipu__Exe__Header header;
    struct intern text, shapes, lists;
    struct buffer text_bytes;
    const void *last_loops; /* key of last_shape */
    uint32_t last_shape;
    bool failed; /* out of memory */
};

static bool intern_grow(struct intern *in)
{
    size_t old = in->capacity, capacity = old ? old * 2 : 256;
    void *previous = in->slots;
    in->slots = arena_calloc(in->arena, capacity, sizeof *in->slots);
    if (!in->slots)
        return false;
    struct intern from = {.slots = previous};
    for (size_t i = 0; i < old; i++) {
        if (!from.slots[i].key)
            continue;
        size_t at = package_hash(from.slots[i].key, from.slots[i].size) & (capacity - 1);
        while (in->slots[at].key)
            at = (at + 1) & (capacity - 1);
        memcpy(&in->slots[at], &from.slots[i], sizeof *in->slots);
    }
    in->capacity = capacity;
    return true;
}

/* Index of a key, which must stay alive; *fresh tells whether it is new. UINT32_MAX when memory is
 * short. */
static uint32_t intern(struct intern *in, const void *key, size_t size, bool *fresh)
{
    *fresh = false;
    if ((size_t)in->count * 2 >= in->capacity && !intern_grow(in))
        return UINT32_MAX;
    size_t at = package_hash(key, size) & (in->capacity - 1);
    for (; in->slots[at].key; at = (at + 1) & (in->capacity - 1)) {
        if (in->slots[at].size == size && memcmp(in->slots[at].key, key, size) == 0)
            return in->slots[at].index;
    }
    *fresh = true;
    in->slots[at].key = key;
    in->slots[at].size = size;
    return in->slots[at].index = in->count++;
}

static uint32_t text(struct writer *w, const char *string)
{
    bool fresh;
    size_t size = strlen(string) + 1;
    uint32_t index = intern(&w->text, string, size, &fresh);
    if (fresh)
        buffer_append(&w->text_bytes, string, size);
    w->failed |= index == UINT32_MAX;
    return index;
}

/* A column of `count` elements of `size` bytes; sets *n. */
static void *column(struct writer *w, size_t *n, size_t count, size_t size)
{
    void *result = arena_calloc(w->arena, count, size);
    w->failed |= result == NULL;
    *n = result ? count : 0;
    return result;
}

#define COLUMN(w, name, count)                                                                     \
    ((w)->header.name = column((w), &(w)->header.n_##name, (count), sizeof *(w)->header.name))

static void put_info(struct writer *w)
{
    const struct package_info *info = &w->package->info;
    Ipu__Exe__Header *h = &w->header;
    h->compiler = text(w, info->compiler);
    h->workload = text(w, info->workload);
    h->flag_set = info->flag_set;
    h->clock_hz = info->clock_hz;
    h->execution_tiles = info->execution_tiles;
    h->final_mark = info->final_mark;
    h->entry = info->entry;
    h->estimated_cycles = info->estimated_cycles;
    if (!COLUMN(w, batches_in, 2) || !COLUMN(w, batches_out, 2) || !COLUMN(w, phases, 2))
        return;
    for (int call = 0; call < 2; call++) {
        h->batches_in[call] = info->batches_in[call];
        h->batches_out[call] = info->batches_out[call];
        h->phases[call] = info->phases[call];
    }
}

static void put_segments(struct writer *w)
{
    const struct package *p = w->package;
    const struct package_segment *s = p->segments.items;
    const struct blob *b = p->blobs.items;
    size_t n = p->segments.count;
    Ipu__Exe__Header *h = &w->header;
    if (!COLUMN(w, blob_size, p->blobs.count) || !COLUMN(w, segment_tile_step, n) ||
        !COLUMN(w, segment_address, n) || !COLUMN(w, segment_blob, n) ||
        !COLUMN(w, segment_offset, n) || !COLUMN(w, segment_size, n))
        return;
    for (size_t i = 0; i < p->blobs.count; i++)
        h->blob_size[i] = b[i].size;
    for (size_t i = 0; i < n; i++) {
        h->segment_tile_step[i] = (uint32_t)(s[i].tile - (i ? s[i - 1].tile : 0));
        h->segment_address[i] = s[i].address;
        h->segment_blob[i] = s[i].blob;
        h->segment_offset[i] = s[i].blob_offset;
        h->segment_size[i] = s[i].size;
    }
}

static void put_tensors(struct writer *w)
{
    const struct package_tensor *t = w->package->tensors.items;
    const uint32_t *blobs = w->package->tensor_blobs.items;
    size_t n = w->package->tensors.count, axes = 0;
    Ipu__Exe__Header *h = &w->header;
    for (size_t i = 0; i < n; i++)
        axes += t[i].rank;
    if (!COLUMN(w, tensor_name, n) || !COLUMN(w, tensor_role, n) || !COLUMN(w, tensor_type, n) ||
        !COLUMN(w, tensor_rank, n) || !COLUMN(w, tensor_blob, n) || !COLUMN(w, tensor_shape, axes))
        return;
    axes = 0;
    for (size_t i = 0; i < n; i++) {
        h->tensor_name[i] = text(w, t[i].name);
        h->tensor_role[i] = t[i].role;
        h->tensor_type[i] = t[i].type;
        h->tensor_rank[i] = t[i].rank;
        h->tensor_blob[i] = blobs[i];
        for (unsigned k = 0; k < t[i].rank; k++)
            h->tensor_shape[axes++] = t[i].shape[k];
    }
}

/* The loops of a nest without padding, so that equal shapes are equal bytes. */
struct loops {
    int64_t host_stride[PACKAGE_NEST_DIMS];
    int32_t stream_stride[PACKAGE_NEST_DIMS];
    uint32_t count[PACKAGE_NEST_DIMS];
    uint64_t dims;
};

/* Whether the table has these loops already; then they are the last ones. Looks before the key is
 * copied. */
static bool shape_known(struct writer *w, const struct loops *loops)
{
    const struct intern *in = &w->shapes;
    if (!in->capacity)
        return false;
    size_t at = package_hash(loops, sizeof *loops) & (in->capacity - 1);
    while (in->slots[at].key && memcmp(in->slots[at].key, loops, sizeof *loops) != 0)
        at = (at + 1) & (in->capacity - 1);
    if (!in->slots[at].key)
        return false;
    w->last_loops = in->slots[at].key;
    w->last_shape = in->slots[at].index;
    return true;
}

static uint32_t shape(struct writer *w, const struct package_nest *nest, struct buffer *found)
{
    struct loops loops = {.dims = nest->dims};
    for (unsigned k = 0; k < nest->dims; k++) {
        loops.count[k] = nest->dim[k].count;
        loops.host_stride[k] = nest->dim[k].host_stride;
        loops.stream_stride[k] = nest->dim[k].stream_stride;
    }
    if (w->last_loops && memcmp(&loops, w->last_loops, sizeof loops) == 0)
        return w->last_shape; /* neighbouring nests are mostly alike */
    if (shape_known(w, &loops))
        return w->last_shape;
    bool fresh;
    const void *key = arena_memdup(w->arena, &loops, sizeof loops);
    w->last_loops = key;
    w->last_shape = key ? intern(&w->shapes, key, sizeof loops, &fresh) : UINT32_MAX;
    buffer_append(found, &loops, sizeof loops);
    w->failed |= w->last_shape == UINT32_MAX;
    return w->last_shape;
}

static void put_shapes(struct writer *w, const struct loops *loops, size_t n)
{
    size_t total = 0, at = 0;
    Ipu__Exe__Header *h = &w->header;
    for (size_t i = 0; i < n; i++)
        total += loops[i].dims;
    if (!COLUMN(w, shape_dims, n) || !COLUMN(w, shape_count, total) ||
        !COLUMN(w, shape_host_stride, total) || !COLUMN(w, shape_stream_stride, total))
        return;
    for (size_t i = 0; i < n; i++) {
        h->shape_dims[i] = (uint32_t)loops[i].dims;
        for (size_t k = 0; k < loops[i].dims; k++, at++) {
            h->shape_count[at] = loops[i].count[k];
            h->shape_host_stride[at] = loops[i].host_stride[k];
            h->shape_stream_stride[at] = loops[i].stream_stride[k];
        }
    }
}

static void put_nests(struct writer *w)
{
    const struct list *nests = w->package->nests;
    size_t n = nests[0].count + nests[1].count, at = 0;
    Ipu__Exe__Header *h = &w->header;
    struct buffer loops = {0};
    if (!COLUMN(w, nest_calls, 2) || !COLUMN(w, nest_tile_step, n) || !COLUMN(w, nest_tensor, n) ||
        !COLUMN(w, nest_shape, n) || !COLUMN(w, nest_host_offset, n) ||
        !COLUMN(w, nest_stream_offset, n))
        return;
    for (int call = 0; call < 2; call++) {
        const struct package_nest *nest = nests[call].items;
        h->nest_calls[call] = (uint32_t)nests[call].count;
        for (size_t i = 0; i < nests[call].count; i++, at++) {
            h->nest_tile_step[at] = (uint32_t)(nest[i].tile - (i ? nest[i - 1].tile : 0));
            h->nest_tensor[at] = nest[i].tensor;
            h->nest_shape[at] = shape(w, &nest[i], &loops);
            h->nest_host_offset[at] = nest[i].host_offset;
            h->nest_stream_offset[at] = nest[i].stream_offset;
        }
    }
    w->failed |= loops.failed;
    if (!w->failed)
        put_shapes(w, (const struct loops *)(const void *)loops.data, w->shapes.count);
    buffer_free(&loops);
}

static void put_rows(struct writer *w)
{
    const struct package_row *r = w->package->rows.items;
    size_t n = w->package->rows.count;
    Ipu__Exe__Header *h = &w->header;
    if (!COLUMN(w, row_tile_step, n) || !COLUMN(w, row_address, n) || !COLUMN(w, row_bytes, n) ||
        !COLUMN(w, row_words, n))
        return;
    for (size_t i = 0; i < n; i++) {
        h->row_tile_step[i] = (uint32_t)(r[i].tile - (i ? r[i - 1].tile : 0));
        h->row_address[i] = r[i].address;
        h->row_bytes[i] = r[i].bytes;
        h->row_words[i] = r[i].words;
    }
}

static void put_steps(struct writer *w)
{
    const struct package_step *s = w->package->steps.items;
    size_t n = w->package->steps.count;
    Ipu__Exe__Header *h = &w->header;
    if (!COLUMN(w, step_kind, n) || !COLUMN(w, step_name, n) || !COLUMN(w, step_kernel, n) ||
        !COLUMN(w, step_phase, n) || !COLUMN(w, step_iteration, n) || !COLUMN(w, step_predicted, n))
        return;
    for (size_t i = 0; i < n; i++) {
        h->step_kind[i] = s[i].kind;
        h->step_name[i] = text(w, s[i].name);
        h->step_kernel[i] = text(w, s[i].kernel);
        h->step_phase[i] = s[i].phase;
        h->step_iteration[i] = s[i].iteration;
        h->step_predicted[i] = s[i].predicted;
    }
}

static void put_samples(struct writer *w)
{
    const struct package_samples *s = w->package->samples.items;
    size_t n = w->package->samples.count, lists = 0, steps = 0;
    Ipu__Exe__Header *h = &w->header;
    const struct package_samples **first = arena_calloc(w->arena, n, sizeof *first);
    w->failed |= first == NULL;
    if (!first || !COLUMN(w, samples_tile_step, n) || !COLUMN(w, samples_stream_offset, n) ||
        !COLUMN(w, samples_list, n))
        return;
    for (size_t i = 0; i < n; i++) {
        bool fresh;
        h->samples_tile_step[i] = (uint32_t)(s[i].tile - (i ? s[i - 1].tile : 0));
        h->samples_stream_offset[i] = s[i].stream_offset;
        h->samples_list[i] = intern(&w->lists, s[i].steps, s[i].count * sizeof *s[i].steps, &fresh);
        if (fresh) {
            first[lists++] = &s[i];
            steps += s[i].count;
        }
    }
    if (!COLUMN(w, list_count, lists) || !COLUMN(w, list_steps, steps))
        return;
    steps = 0;
    for (size_t i = 0; i < lists; i++) {
        h->list_count[i] = (uint32_t)first[i]->count;
        memcpy(h->list_steps + steps, first[i]->steps, first[i]->count * sizeof *first[i]->steps);
        steps += first[i]->count;
    }
}

static void put_symbols(struct writer *w)
{
    const struct package_symbol *s = w->package->symbols.items;
    size_t n = w->package->symbols.count;
    Ipu__Exe__Header *h = &w->header;
    if (!COLUMN(w, symbol_name, n) || !COLUMN(w, symbol_address, n) || !COLUMN(w, symbol_size, n))
        return;
    for (size_t i = 0; i < n; i++) {
        h->symbol_name[i] = text(w, s[i].name);
        h->symbol_address[i] = s[i].address;
        h->symbol_size[i] = s[i].size;
    }
}

static size_t align8(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

/* Room for exactly `size` more bytes, which the caller fills; NULL when there is no memory. */
static uint8_t *extend(struct buffer *out, size_t size)
{
    if (out->failed || size > SIZE_MAX / 4 - out->size)
        return NULL;
    if (out->size + size > out->capacity) {
        uint8_t *data = ipu_realloc(out->data, out->size + size);
        if (!data)
            return NULL;
        out->data = data;
        out->capacity = out->size + size;
    }
    out->size += size;
    return out->data + out->size - size;
}

/* Zeroes after `size` bytes at `at` up to the next multiple of 8; returns where that is. */
static uint8_t *put_padding(uint8_t *at, size_t size)
{
    memset(at + size, 0, align8(size) - size);
    return at + align8(size);
}

/* Reserves the whole file at once: prefix, message, blobs. */
static int assemble(struct writer *w, struct buffer *out, struct ipu_error *error)
{
    const struct package *p = w->package;
    const struct blob *blobs = p->blobs.items;
    uint64_t sizes[2] = {ipu__exe__header__get_packed_size(&w->header), 0};
    if (sizes[0] > PACKAGE_MAX_HEADER)
        return ipu_error_set(error, IPU_ERR_LIMIT, "package: the header takes %zu bytes, limit %d",
                             (size_t)sizes[0], PACKAGE_MAX_HEADER);
    for (size_t i = 0; i < p->blobs.count; i++)
        sizes[1] += align8(blobs[i].size);
    size_t total = PACKAGE_PREFIX + align8(sizes[0]) + sizes[1];
    uint8_t *file = extend(out, total);
    if (!file)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "package: out of memory for %zu bytes",
                             total);
    static const uint32_t version = PACKAGE_VERSION;
    memset(file, 0, PACKAGE_PREFIX);
    memcpy(file, "IPUEXE1", 8);
    memcpy(file + 8, &version, 4);
    memcpy(file + PACKAGE_SIZES_AT, sizes, sizeof sizes);
    ipu__exe__header__pack(&w->header, file + PACKAGE_PREFIX);
    uint8_t *at = put_padding(file + PACKAGE_PREFIX, sizes[0]);
    for (size_t i = 0; i < p->blobs.count; i++) {
        memcpy(at, blobs[i].data, blobs[i].size);
        at = put_padding(at, blobs[i].size);
    }
    struct hash *digest = &((struct package *)(uintptr_t)p)->digest;
    if (!hash_bytes(file + PACKAGE_SIZES_AT, total - PACKAGE_SIZES_AT, digest))
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "package: SHA-256 failed");
    memcpy(file + PACKAGE_DIGEST_AT, digest->bytes, HASH_BYTES);
    return 0;
}

int package_write(const struct package *package, struct buffer *out, struct ipu_error *error)
{
    struct writer w = {.package = package, .arena = arena_create(0)};
    int code;
    if (!w.arena)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "package: out of memory");
    ipu__exe__header__init(&w.header);
    w.text.arena = w.shapes.arena = w.lists.arena = w.arena;
    package_sort((struct package *)(uintptr_t)package);
    if (package->failure.code) {
        code = ipu_error_set(error, package->failure.code, "%s", package->failure.text);
        goto out;
    }
    code = package_check(package, IPU_ERR_INTERNAL, error);
    if (code)
        goto out;
    static void (*const parts[])(struct writer *) = {put_info,    put_segments, put_tensors,
                                                     put_nests,   put_rows,     put_steps,
                                                     put_samples, put_symbols};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        parts[i](&w);
    w.header.text.data = w.text_bytes.data;
    w.header.text.len = w.text_bytes.size;
    if (w.failed || w.text_bytes.failed)
        code = ipu_error_set(error, IPU_ERR_NO_MEMORY, "package: out of memory");
    else
        code = assemble(&w, out, error);
out:
    buffer_free(&w.text_bytes);
    arena_destroy(w.arena);
    return code;
}
