/* Reader of packages: bytes to lists, trusting nothing.
 *
 * Order of trust: magic and version, sizes against the file's length, the digest over all the rest,
 * then the message. The message is unpacked through an allocator with a budget, because protobuf-c
 * alone would let a small file claim much memory; a file that this project wrote stays far below
 * the budget. Columns are checked for equal length and become lists, references are bounded, and
 * package_check() applies the rules that the writer kept. The package owns a copy of everything;
 * the input may go away.
 */
#include "device/ipu21/topology.h"
#include "device/package/internal.h"
#include "proto/package.pb-c.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A packed column costs 1 byte an element in the file and at most 8 in memory, plus one scan record
 * for each field. */
enum { BUDGET_FACTOR = 9, BUDGET_BASE = 1 << 16 };

struct reader {
    struct package *package;
    const Ipu__Exe__Header *header;
    const char **text; /* strings by ordinal */
    size_t text_count;
    struct ipu_error *error;
};

struct budget {
    size_t left;
};

/* Each block is preceded by its size, so that freeing gives the bytes back. */
static void *budget_alloc(void *data, size_t size)
{
    struct budget *budget = data;
    if (size > budget->left || budget->left - size < 16)
        return NULL;
    size_t *block = ipu_malloc(size + 16);
    if (!block)
        return NULL;
    budget->left -= size + 16;
    *block = size;
    return (char *)block + 16;
}

static void budget_free(void *data, void *pointer)
{
    struct budget *budget = data;
    if (!pointer)
        return;
    size_t *block = (size_t *)(void *)((char *)pointer - 16);
    budget->left += *block + 16;
    ipu_free(block);
}

static int refuse(const struct reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int refuse(const struct reader *r, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ipu_error_set(r->error, IPU_ERR_CORRUPT, "package: %s", text);
}

static int no_memory(const struct reader *r)
{
    return ipu_error_set(r->error, IPU_ERR_NO_MEMORY, "package: out of memory");
}

static int read_text(struct reader *r)
{
    const ProtobufCBinaryData *bytes = &r->header->text;
    if (bytes->len == 0 || bytes->data[bytes->len - 1] != 0)
        return refuse(r, "the string table is not terminated");
    char *copy = arena_memdup(r->package->arena, bytes->data, bytes->len);
    for (size_t i = 0; i < bytes->len; i++)
        r->text_count += bytes->data[i] == 0;
    r->text = arena_calloc(r->package->arena, r->text_count, sizeof *r->text);
    if (!copy || !r->text)
        return no_memory(r);
    for (size_t i = 0; i < r->text_count; i++) {
        r->text[i] = copy;
        copy += strlen(copy) + 1;
    }
    return 0;
}

/* The string of an ordinal; an unknown one yields NULL, which `bad` remembers. */
static const char *text(const struct reader *r, uint32_t index, bool *bad)
{
    if (index < r->text_count)
        return r->text[index];
    *bad = true;
    return "";
}

static int read_info(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    struct package_info *info = &r->package->info;
    bool bad = h->n_batches_in != 2 || h->n_batches_out != 2 || h->n_phases != 2;
    info->compiler = text(r, h->compiler, &bad);
    info->workload = text(r, h->workload, &bad);
    if (bad)
        return refuse(r, "the package information is incomplete");
    info->flag_set = h->flag_set;
    info->clock_hz = h->clock_hz;
    info->execution_tiles = h->execution_tiles;
    info->final_mark = h->final_mark;
    info->entry = h->entry;
    info->estimated_cycles = h->estimated_cycles;
    for (int call = 0; call < 2; call++) {
        info->batches_in[call] = h->batches_in[call];
        info->batches_out[call] = h->batches_out[call];
        info->phases[call] = h->phases[call];
    }
    return 0;
}

static int read_blobs(struct reader *r, const uint8_t *data, uint64_t size)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->n_blob_size;
    if (n > PACKAGE_MAX_BLOBS)
        return refuse(r, "%zu blobs, the limit is %d", n, PACKAGE_MAX_BLOBS);
    const uint8_t *copy = arena_memdup(r->package->arena, data, size);
    if (!copy || !list_reserve(&r->package->blobs, n, sizeof(struct blob)))
        return no_memory(r);
    struct blob *blobs = r->package->blobs.items;
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t room = size - at;
        if (h->blob_size[i] > room || ((h->blob_size[i] + 7) & ~UINT64_C(7)) > room)
            return refuse(r, "blob %zu of %zu leaves the file", i, n);
        blobs[i] = (struct blob){copy + at, h->blob_size[i]};
        at += (h->blob_size[i] + 7) & ~UINT64_C(7);
    }
    if (at != size)
        return refuse(r, "the blobs do not fill their part of the file");
    r->package->blobs.count = n;
    return 0;
}

/* Adds a tile step; a sum past the chip is caught by `bad`. */
static uint16_t step_tile(uint32_t *tile, uint32_t step, bool *bad)
{
    if (step >= IPU21_TILES || *tile + step >= IPU21_TILES) {
        *bad = true;
        return 0;
    }
    *tile += step;
    return (uint16_t)*tile;
}

static int read_segments(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    const struct blob *blobs = r->package->blobs.items;
    size_t n = h->n_segment_tile_step;
    if (n > PACKAGE_MAX_SEGMENTS || h->n_segment_address != n || h->n_segment_blob != n ||
        h->n_segment_offset != n || h->n_segment_size != n)
        return refuse(r, "the columns of the segments differ in length");
    if (!list_reserve(&r->package->segments, n, sizeof(struct package_segment)))
        return no_memory(r);
    struct package_segment *s = r->package->segments.items;
    uint32_t tile = 0;
    bool bad = false;
    for (size_t i = 0; i < n && !bad; i++) {
        uint32_t blob = h->segment_blob[i], offset = h->segment_offset[i];
        if (blob >= r->package->blobs.count || offset > blobs[blob].size ||
            h->segment_size[i] > blobs[blob].size - offset)
            return refuse(r, "segment %zu leaves its blob", i);
        s[i] = (struct package_segment){.tile = step_tile(&tile, h->segment_tile_step[i], &bad),
                                        .address = h->segment_address[i],
                                        .size = h->segment_size[i],
                                        .data = blobs[blob].data + offset,
                                        .blob = blob,
                                        .blob_offset = offset};
        bad = bad || (i && s[i].tile == s[i - 1].tile && s[i].address < s[i - 1].address);
    }
    if (bad)
        return refuse(r, "the segments name a tile past the chip or are out of order");
    r->package->segments.count = n;
    return 0;
}

static int read_tensor(struct reader *r, size_t i, size_t *axis)
{
    const Ipu__Exe__Header *h = r->header;
    struct package_tensor *t = (struct package_tensor *)r->package->tensors.items + i;
    const struct blob *blobs = r->package->blobs.items;
    bool bad = h->tensor_rank[i] > PACKAGE_MAX_RANK ||
               h->tensor_rank[i] > h->n_tensor_shape - *axis ||
               h->tensor_role[i] > PACKAGE_SAMPLES || h->tensor_type[i] > PACKAGE_U32 ||
               h->tensor_type[i] == 0 || h->tensor_blob[i] > r->package->blobs.count;
    t->name = text(r, h->tensor_name[i], &bad);
    if (bad)
        return refuse(r, "tensor %zu is described badly", i);
    t->role = (enum package_role)h->tensor_role[i];
    t->type = (enum package_type)h->tensor_type[i];
    t->rank = h->tensor_rank[i];
    t->bytes = package_element_bytes(t->type);
    for (unsigned k = 0; k < t->rank; k++) {
        t->shape[k] = h->tensor_shape[(*axis)++];
        if (__builtin_mul_overflow(t->bytes, t->shape[k], &t->bytes))
            return refuse(r, "tensor %s has an illegal shape", t->name);
    }
    ((uint32_t *)r->package->tensor_blobs.items)[i] = h->tensor_blob[i];
    if (h->tensor_blob[i]) {
        const struct blob *blob = &blobs[h->tensor_blob[i] - 1];
        if (blob->size != t->bytes)
            return refuse(r, "the contents of tensor %s do not have its size", t->name);
        t->data = blob->data;
    }
    return 0;
}

static int read_tensors(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    struct package *p = r->package;
    size_t n = h->n_tensor_name, axis = 0;
    if (n > PACKAGE_MAX_TENSORS || h->n_tensor_role != n || h->n_tensor_type != n ||
        h->n_tensor_rank != n || h->n_tensor_blob != n)
        return refuse(r, "the columns of the tensors differ in length");
    if (!list_reserve(&p->tensors, n, sizeof(struct package_tensor)) ||
        !list_reserve(&p->tensor_blobs, n, sizeof(uint32_t)))
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        int code = read_tensor(r, i, &axis);
        if (code)
            return code;
    }
    if (axis != h->n_tensor_shape)
        return refuse(r, "the tensor shapes do not fill their column");
    p->tensors.count = p->tensor_blobs.count = n;
    return 0;
}

/* First loop of every shape. */
static int read_shapes(struct reader *r, size_t **starts)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->n_shape_dims, loops = h->n_shape_count, at = 0;
    if (h->n_shape_host_stride != loops || h->n_shape_stream_stride != loops)
        return refuse(r, "the columns of the loop shapes differ in length");
    *starts = ipu_calloc(n + 1, sizeof **starts);
    if (!*starts)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        (*starts)[i] = at;
        if (h->shape_dims[i] > PACKAGE_NEST_DIMS || h->shape_dims[i] > loops - at)
            return refuse(r, "loop shape %zu has %u loops", i, h->shape_dims[i]);
        at += h->shape_dims[i];
    }
    return at == loops ? 0 : refuse(r, "the loop shapes do not fill their columns");
}

static int read_call_nests(struct reader *r, int call, size_t first, const size_t *starts)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->nest_calls[call];
    struct list *list = &r->package->nests[call];
    if (!list_reserve(list, n, sizeof(struct package_nest)))
        return no_memory(r);
    struct package_nest *nest = list->items;
    uint32_t tile = 0;
    bool bad = false;
    for (size_t i = 0, k = first; i < n && !bad; i++, k++) {
        uint32_t shape = h->nest_shape[k];
        if (shape >= h->n_shape_dims || h->nest_tensor[k] >= r->package->tensors.count)
            return refuse(r, "loop nest %zu names a shape or tensor that does not exist", k);
        nest[i].tile = step_tile(&tile, h->nest_tile_step[k], &bad);
        nest[i].tensor = (uint16_t)h->nest_tensor[k];
        nest[i].dims = (uint8_t)h->shape_dims[shape];
        nest[i].host_offset = h->nest_host_offset[k];
        nest[i].stream_offset = h->nest_stream_offset[k];
        for (unsigned d = 0; d < nest[i].dims; d++) {
            nest[i].dim[d].count = h->shape_count[starts[shape] + d];
            nest[i].dim[d].host_stride = h->shape_host_stride[starts[shape] + d];
            nest[i].dim[d].stream_stride = h->shape_stream_stride[starts[shape] + d];
        }
    }
    list->count = n;
    return bad ? refuse(r, "a loop nest names a tile past the chip") : 0;
}

static int read_nests(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->n_nest_tile_step;
    if (h->n_nest_calls != 2 || n > PACKAGE_MAX_NESTS || h->n_nest_tensor != n ||
        h->n_nest_shape != n || h->n_nest_host_offset != n || h->n_nest_stream_offset != n ||
        (uint64_t)h->nest_calls[0] + h->nest_calls[1] != n)
        return refuse(r, "the columns of the loop nests differ in length");
    size_t *starts = NULL;
    int code = read_shapes(r, &starts);
    if (!code && starts)
        code = read_call_nests(r, 0, 0, starts);
    if (!code && starts)
        code = read_call_nests(r, 1, h->nest_calls[0], starts);
    ipu_free(starts);
    return code;
}

static int read_rows(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->n_row_tile_step;
    if (n > PACKAGE_MAX_ROWS || h->n_row_address != n || h->n_row_bytes != n || h->n_row_words != n)
        return refuse(r, "the columns of the exchange rows differ in length");
    if (!list_reserve(&r->package->rows, n, sizeof(struct package_row)))
        return no_memory(r);
    struct package_row *row = r->package->rows.items;
    uint32_t tile = 0;
    bool bad = false;
    for (size_t i = 0; i < n && !bad; i++) {
        row[i].tile = step_tile(&tile, h->row_tile_step[i], &bad);
        row[i].address = h->row_address[i];
        row[i].bytes = h->row_bytes[i];
        row[i].words = h->row_words[i];
        bad = bad || (i && row[i].tile == row[i - 1].tile && row[i].address < row[i - 1].address);
    }
    r->package->rows.count = n;
    return bad ? refuse(r, "the exchange rows name a tile past the chip or are out of order") : 0;
}

static int read_steps(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->n_step_kind;
    if (n > PACKAGE_MAX_STEPS || h->n_step_name != n || h->n_step_kernel != n ||
        h->n_step_phase != n || h->n_step_iteration != n || h->n_step_predicted != n)
        return refuse(r, "the columns of the steps differ in length");
    if (!list_reserve(&r->package->steps, n, sizeof(struct package_step)))
        return no_memory(r);
    struct package_step *s = r->package->steps.items;
    bool bad = false;
    for (size_t i = 0; i < n; i++) {
        bad |= h->step_kind[i] > PACKAGE_STEP_COPY;
        s[i].kind = bad ? PACKAGE_STEP_OVERALL : (enum package_step_kind)h->step_kind[i];
        s[i].name = text(r, h->step_name[i], &bad);
        s[i].kernel = text(r, h->step_kernel[i], &bad);
        s[i].phase = h->step_phase[i];
        s[i].iteration = h->step_iteration[i];
        s[i].predicted = h->step_predicted[i];
    }
    r->package->steps.count = n;
    return bad ? refuse(r, "a step has an unknown kind or name") : 0;
}

static int read_samples(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->n_samples_tile_step, at = 0;
    if (n > IPU21_TILES || h->n_samples_stream_offset != n || h->n_samples_list != n)
        return refuse(r, "the columns of the sample lists differ in length");
    const uint32_t *steps =
        arena_memdup(r->package->arena, h->list_steps, h->n_list_steps * sizeof *h->list_steps);
    const uint32_t **lists = arena_calloc(r->package->arena, h->n_list_count, sizeof *lists);
    if (!steps || !lists || !list_reserve(&r->package->samples, n, sizeof(struct package_samples)))
        return no_memory(r);
    for (size_t i = 0; i < h->n_list_count; at += h->list_count[i++]) {
        if (h->list_count[i] > h->n_list_steps - at)
            return refuse(r, "step list %zu leaves its column", i);
        lists[i] = steps + at;
    }
    struct package_samples *s = r->package->samples.items;
    uint32_t tile = 0;
    bool bad = at != h->n_list_steps;
    for (size_t i = 0; i < n && !bad; i++) {
        uint32_t list = h->samples_list[i];
        if (list >= h->n_list_count)
            return refuse(r, "sample list %zu does not exist", i);
        s[i].tile = step_tile(&tile, h->samples_tile_step[i], &bad);
        s[i].stream_offset = h->samples_stream_offset[i];
        s[i].steps = lists[list];
        s[i].count = h->list_count[list];
    }
    r->package->samples.count = n;
    return bad ? refuse(r, "the sample lists name a tile past the chip or are incomplete") : 0;
}

static int read_symbols(struct reader *r)
{
    const Ipu__Exe__Header *h = r->header;
    size_t n = h->n_symbol_name;
    if (n > PACKAGE_MAX_SYMBOLS || h->n_symbol_address != n || h->n_symbol_size != n)
        return refuse(r, "the columns of the symbols differ in length");
    if (!list_reserve(&r->package->symbols, n, sizeof(struct package_symbol)))
        return no_memory(r);
    struct package_symbol *s = r->package->symbols.items;
    bool bad = false;
    for (size_t i = 0; i < n; i++) {
        s[i].name = text(r, h->symbol_name[i], &bad);
        s[i].address = h->symbol_address[i];
        s[i].size = h->symbol_size[i];
        bad |= i && s[i].address < s[i - 1].address;
    }
    r->package->symbols.count = n;
    return bad ? refuse(r, "a symbol has no name or is out of order") : 0;
}

static int read_message(struct reader *r, const uint8_t *data, const uint64_t sizes[2])
{
    struct budget budget = {.left = sizes[0] * BUDGET_FACTOR + BUDGET_BASE};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
    Ipu__Exe__Header *header = ipu__exe__header__unpack(&allocator, sizes[0], data);
    if (!header)
        return refuse(r, "the header is no valid message or claims too much memory");
    static int (*const parts[])(struct reader *) = {
        read_segments, read_tensors, read_nests, read_rows, read_steps, read_samples, read_symbols};
    r->header = header;
    int code = header->base.n_unknown_fields ? refuse(r, "the header has unknown fields") : 0;
    if (!code)
        code = read_text(r);
    if (!code)
        code = read_info(r);
    if (!code)
        code = read_blobs(r, data + ((sizes[0] + 7) & ~UINT64_C(7)), sizes[1]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !code; i++)
        code = parts[i](r);
    ipu__exe__header__free_unpacked(header, &allocator);
    return code;
}

/* Magic, version, sizes and digest. */
static int check_prefix(struct reader *r, const uint8_t *file, size_t size, uint64_t sizes[2])
{
    uint32_t words[2];
    if (size < PACKAGE_PREFIX || memcmp(file, "IPUEXE1", 8) != 0)
        return refuse(r, "no executable package (the magic number is missing)");
    memcpy(words, file + 8, sizeof words);
    if (words[0] != PACKAGE_VERSION || words[1] != 0)
        return ipu_error_set(r->error, IPU_ERR_VERSION,
                             "package: format version %u, this program reads version %d", words[0],
                             PACKAGE_VERSION);
    memcpy(sizes, file + PACKAGE_SIZES_AT, 2 * sizeof *sizes);
    uint64_t rest = size - PACKAGE_PREFIX;
    if (sizes[0] > PACKAGE_MAX_HEADER || sizes[0] > rest ||
        ((sizes[0] + 7) & ~UINT64_C(7)) > rest ||
        sizes[1] != rest - ((sizes[0] + 7) & ~UINT64_C(7)))
        return refuse(r, "the file is cut off or has %zu bytes too many or too few", size);
    struct hash *digest = &r->package->digest;
    if (!hash_bytes(file + PACKAGE_SIZES_AT, size - PACKAGE_SIZES_AT, digest))
        return ipu_error_set(r->error, IPU_ERR_INTERNAL, "package: SHA-256 failed");
    if (memcmp(digest->bytes, file + PACKAGE_DIGEST_AT, HASH_BYTES) != 0)
        return refuse(r, "the contents do not match their digest");
    return 0;
}

int package_read(const void *data, size_t size, struct package **out, struct ipu_error *error)
{
    struct reader r = {.package = package_create(), .error = error};
    uint64_t sizes[2] = {0};
    *out = NULL;
    if (!r.package)
        return no_memory(&r);
    int code = check_prefix(&r, data, size, sizes);
    if (!code)
        code = read_message(&r, (const uint8_t *)data + PACKAGE_PREFIX, sizes);
    if (!code)
        code = package_check(r.package, IPU_ERR_CORRUPT, error);
    if (code) {
        package_destroy(r.package);
        return code;
    }
    *out = r.package;
    return 0;
}
