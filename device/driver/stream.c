/* Packs tensors into pages and gathers outputs: see stream.h.
 *
 * A loop nest is walked with the loop that copies contiguous elements innermost, and parts outside
 * the wanted stretch of the stream are skipped whole.
 */
#include "device/driver/stream.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STREAM_POISON = 0xa5, STREAM_NO_TILE = 0xffff };
static const int64_t STREAM_END = INT64_C(1) << 40; /* beyond every stream */

static uint32_t element_bytes(enum package_type type)
{
    return type == PACKAGE_F16 ? 2 : 4;
}

static bool goes_in(const struct package_tensor *tensor)
{
    return tensor->role == PACKAGE_PARAMETER || tensor->role == PACKAGE_INPUT;
}

/* --- walking a nest --- */

/* A stretch of consecutive or strided elements: `count` elements from host element `host` and
 * stream byte `stream` on. Nonzero stops the walk. */
typedef int walk_fn(void *context, uint64_t host, int64_t host_stride, uint64_t stream,
                    int64_t stream_stride, uint32_t count);

struct walk {
    struct package_nest nest;                                        /* loops reordered */
    int64_t low[PACKAGE_NEST_DIMS + 1], high[PACKAGE_NEST_DIMS + 1]; /* reach of loops k.. */
    int64_t begin, end; /* wanted stretch of the stream */
    walk_fn *visit;
    void *context;
};

static void walk_reach(struct walk *w)
{
    unsigned dims = w->nest.dims;
    w->low[dims] = w->high[dims] = 0;
    for (unsigned k = dims; k-- > 0;) {
        int64_t far = ((int64_t)w->nest.dim[k].count - 1) * w->nest.dim[k].stream_stride;
        w->low[k] = w->low[k + 1] + (far < 0 ? far : 0);
        w->high[k] = w->high[k + 1] + (far > 0 ? far : 0);
    }
}

static void swap_loops(struct package_nest *nest, unsigned a, unsigned b)
{
    struct package_nest before = *nest;
    nest->dim[a] = before.dim[b];
    nest->dim[b] = before.dim[a];
}

static int64_t size_of(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Puts the contiguous loop last, or else the longest; the others by falling stream stride, so that
 * a stretch of the stream is a stretch of the outer loops. */
static void walk_order(struct package_nest *nest, uint32_t unit)
{
    unsigned dims = nest->dims, best = dims - 1;
    if (dims < 2)
        return;
    for (unsigned k = 0; k < dims; k++)
        if (nest->dim[k].count > nest->dim[best].count)
            best = k;
    for (unsigned k = 0; k < dims; k++)
        if (nest->dim[k].host_stride == 1 && nest->dim[k].stream_stride == (int32_t)unit &&
            nest->dim[k].count > 1)
            best = k;
    swap_loops(nest, best, dims - 1);
    for (unsigned k = 1; k + 1 < dims; k++)
        for (unsigned j = k;
             j > 0 && size_of(nest->dim[j].stream_stride) > size_of(nest->dim[j - 1].stream_stride);
             j--)
            swap_loops(nest, j, j - 1);
}

/* Indices [*first, *last) of loop k outside which nothing can lie in the wanted stretch. */
static void clip(const struct walk *w, unsigned k, int64_t stream, uint32_t *first, uint32_t *last)
{
    int64_t stride = w->nest.dim[k].stream_stride, count = w->nest.dim[k].count;
    int64_t low = w->begin - stream - w->high[k + 1], high = w->end - 1 - stream - w->low[k + 1];
    *first = 0;
    *last = (uint32_t)count;
    if (stride == 0 && (low > 0 || high < 0))
        *last = 0;
    if (stride == 0)
        return;
    if (stride < 0) { /* count the loop from its far end */
        int64_t other = -low;
        low = -high;
        high = other;
        stride = -stride;
    }
    int64_t begin = low > 0 ? (low + stride - 1) / stride : 0;
    int64_t end = high < 0 ? 0 : high / stride + 1;
    *first = (uint32_t)(begin < count ? begin : count);
    *last = (uint32_t)(end < count ? end : count);
    if (*last < *first)
        *last = *first;
}

static int walk_loop(const struct walk *w, unsigned k, int64_t host, int64_t stream)
{
    if (k == w->nest.dims) {
        if (stream < w->begin || stream >= w->end)
            return 0;
        return w->visit(w->context, (uint64_t)host, 0, (uint64_t)stream, 0, 1);
    }
    int64_t host_stride = w->nest.dim[k].host_stride;
    int64_t stride = w->nest.dim[k].stream_stride;
    uint32_t first, last;
    clip(w, k, stream, &first, &last);
    if (first == last)
        return 0;
    if (k + 1 == w->nest.dims)
        return w->visit(w->context, (uint64_t)(host + first * host_stride), host_stride,
                        (uint64_t)(stream + first * stride), stride, last - first);
    for (uint32_t i = first; i < last; i++) {
        int code = walk_loop(w, k + 1, host + i * host_stride, stream + i * stride);
        if (code != 0)
            return code;
    }
    return 0;
}

static int walk_nest(const struct package_nest *nest, uint32_t unit, int64_t begin, int64_t end,
                     walk_fn *visit, void *context)
{
    struct walk w = {.nest = *nest, .begin = begin, .end = end, .visit = visit, .context = context};
    walk_order(&w.nest, unit);
    walk_reach(&w);
    return walk_loop(&w, 0, (int64_t)nest->host_offset, nest->stream_offset);
}

/* --- contents and plans --- */

static int plan_begin(struct stream_plan *plan, const struct package *package,
                      enum package_call call, struct ipu_error *error)
{
    size_t count, tensor_count;
    const struct package_nest *nests = package_nests(package, call, &count);
    const struct package_tensor *tensors = package_tensors(package, &tensor_count);
    plan->spans = ipu_calloc(count ? count : 1, sizeof *plan->spans);
    if (!plan->spans)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for %zu loop nests", count);
    for (size_t i = 0; i < count; i++) {
        struct walk w = {.nest = nests[i]};
        const struct package_tensor *tensor = &tensors[nests[i].tensor];
        walk_reach(&w);
        uint64_t low = (uint64_t)(nests[i].stream_offset + w.low[0]);
        uint64_t high =
            (uint64_t)(nests[i].stream_offset + w.high[0]) + element_bytes(tensor->type);
        plan->spans[i].first = (uint32_t)(low / PACKAGE_PAGE_BYTES);
        plan->spans[i].last = (uint32_t)((high - 1) / PACKAGE_PAGE_BYTES);
        if (goes_in(tensor) && high > plan->length[nests[i].tile])
            plan->length[nests[i].tile] = (uint32_t)high;
    }
    return 0;
}

int stream_contents_begin(struct stream_contents *contents, const struct package *package,
                          struct ipu_error *error)
{
    size_t count;
    const struct package_tensor *tensors = package_tensors(package, &count);
    *contents = (struct stream_contents){.count = count};
    contents->data = ipu_calloc(count ? count : 1, sizeof *contents->data);
    contents->replacement = ipu_calloc(count ? count : 1, sizeof *contents->replacement);
    if (!contents->data || !contents->replacement)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++)
        contents->data[i] = tensors[i].data;
    int code = plan_begin(&contents->plans[0], package, PACKAGE_INITIALIZE, error);
    return code ? code : plan_begin(&contents->plans[1], package, PACKAGE_RUN, error);
}

void stream_contents_end(struct stream_contents *contents)
{
    for (size_t i = 0; contents->replacement && i < contents->count; i++)
        ipu_free(contents->replacement[i]);
    ipu_free(contents->plans[0].spans);
    ipu_free(contents->plans[1].spans);
    ipu_free(contents->replacement);
    ipu_free(contents->data);
    *contents = (struct stream_contents){0};
}

int stream_contents_set(struct stream_contents *contents, const struct package *package,
                        size_t tensor, const void *data, struct ipu_error *error)
{
    size_t count;
    const struct package_tensor *t = &package_tensors(package, &count)[tensor];
    uint8_t *copy = NULL;
    if (data) {
        copy = ipu_malloc(t->bytes);
        if (!copy)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for input %s", t->name);
        memcpy(copy, data, t->bytes);
    }
    ipu_free(contents->replacement[tensor]);
    contents->replacement[tensor] = copy;
    contents->data[tensor] = copy ? copy : t->data;
    return 0;
}

/* --- to the device --- */

struct fill {
    const uint8_t *host;
    uint8_t *page;  /* of the tile */
    uint64_t begin; /* stream byte at the page's start */
    uint32_t unit;
};

static int fill_elements(void *context, uint64_t host, int64_t host_stride, uint64_t stream,
                         int64_t stream_stride, uint32_t count)
{
    const struct fill *f = context;
    const uint8_t *from = f->host + host * f->unit;
    uint8_t *to = f->page + (stream - f->begin);
    if (host_stride == 1 && stream_stride == (int64_t)f->unit) {
        memcpy(to, from, (size_t)count * f->unit);
        return 0;
    }
    if (f->unit == 2) {
        for (uint32_t i = 0; i < count; i++)
            memcpy(to + i * stream_stride, from + i * host_stride * 2, 2);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        memcpy(to + i * stream_stride, from + i * host_stride * 4, 4);
    return 0;
}

void stream_fill(const struct package *package, enum package_call call,
                 const struct stream_contents *contents, uint32_t batch, uint8_t *pages)
{
    size_t count, tensor_count;
    const struct package_nest *nests = package_nests(package, call, &count);
    const struct package_tensor *tensors = package_tensors(package, &tensor_count);
    const struct stream_plan *plan = &contents->plans[call];
    uint64_t begin = (uint64_t)batch * PACKAGE_PAGE_BYTES;
    for (unsigned t = 0; t < IPU21_TILES; t++)
        if (plan->length[t] > begin)
            memset(pages + (size_t)t * PACKAGE_PAGE_BYTES, 0, PACKAGE_PAGE_BYTES);
    for (size_t i = 0; i < count; i++) {
        const struct package_tensor *tensor = &tensors[nests[i].tensor];
        if (batch < plan->spans[i].first || batch > plan->spans[i].last || !goes_in(tensor))
            continue;
        struct fill f = {.host = contents->data[nests[i].tensor],
                         .page = pages + (size_t)nests[i].tile * PACKAGE_PAGE_BYTES,
                         .begin = begin,
                         .unit = element_bytes(tensor->type)};
        walk_nest(&nests[i], f.unit, (int64_t)begin, (int64_t)begin + PACKAGE_PAGE_BYTES,
                  fill_elements, &f);
    }
}

/* --- from the device --- */

static void need(struct stream_store *store, unsigned tile, uint64_t bytes)
{
    if (bytes > store->length[tile])
        store->length[tile] = (uint32_t)bytes;
}

static void store_lengths(struct stream_store *store, const struct package *package)
{
    size_t count, tensor_count;
    const struct package_nest *nests = package_nests(package, PACKAGE_RUN, &count);
    const struct package_tensor *tensors = package_tensors(package, &tensor_count);
    for (size_t i = 0; i < count; i++) {
        struct walk w = {.nest = nests[i]};
        const struct package_tensor *tensor = &tensors[nests[i].tensor];
        walk_reach(&w);
        if (!goes_in(tensor))
            need(store, nests[i].tile,
                 (uint64_t)(nests[i].stream_offset + w.high[0]) + element_bytes(tensor->type));
    }
    const struct package_samples *samples = package_sample_lists(package, &count);
    for (size_t i = 0; i < count; i++)
        need(store, samples[i].tile, samples[i].stream_offset + 4 * (samples[i].count + 1));
}

int stream_store_begin(struct stream_store *store, const struct package *package,
                       struct ipu_error *error)
{
    size_t total = 0;
    *store = (struct stream_store){0};
    store_lengths(store, package);
    for (unsigned t = 0; t < IPU21_TILES; t++) {
        uint32_t pages = (store->length[t] + PACKAGE_PAGE_BYTES - 1) / PACKAGE_PAGE_BYTES;
        store->offset[t] = total;
        total += (size_t)pages * PACKAGE_PAGE_BYTES;
    }
    store->data = ipu_calloc(total ? total : 1, 1);
    if (!store->data)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for %zu bytes of outputs", total);
    return 0;
}

void stream_store_end(struct stream_store *store)
{
    ipu_free(store->data);
    *store = (struct stream_store){0};
}

void stream_poison(const struct stream_store *store, uint32_t batch, uint8_t *pages)
{
    for (unsigned t = 0; t < IPU21_TILES; t++)
        if (store->length[t] > (uint64_t)batch * PACKAGE_PAGE_BYTES)
            memset(pages + (size_t)t * PACKAGE_PAGE_BYTES, STREAM_POISON, PACKAGE_PAGE_BYTES);
}

void stream_take(struct stream_store *store, uint32_t batch, const uint8_t *pages)
{
    uint64_t begin = (uint64_t)batch * PACKAGE_PAGE_BYTES;
    for (unsigned t = 0; t < IPU21_TILES; t++)
        if (store->length[t] > begin)
            memcpy(store->data + store->offset[t] + begin, pages + (size_t)t * PACKAGE_PAGE_BYTES,
                   PACKAGE_PAGE_BYTES);
}

struct gather {
    const struct package_tensor *tensor;
    const uint8_t *stream; /* of the tile */
    uint8_t *host;
    uint16_t *owners; /* tile that gave each element */
    uint16_t tile;
    uint32_t unit;
    uint64_t bad; /* element whose copies differ */
};

static int gather_elements(void *context, uint64_t host, int64_t host_stride, uint64_t stream,
                           int64_t stream_stride, uint32_t count)
{
    struct gather *g = context;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t element = host + (uint64_t)((int64_t)i * host_stride);
        const uint8_t *from = g->stream + stream + (int64_t)i * stream_stride;
        uint8_t *to = g->host + element * g->unit;
        if (g->owners[element] == STREAM_NO_TILE) {
            g->owners[element] = g->tile;
            memcpy(to, from, g->unit);
        } else if (memcmp(to, from, g->unit) != 0) {
            g->bad = element;
            return 1;
        }
    }
    return 0;
}

/* "[1,0,5]" */
static void print_index(const struct package_tensor *tensor, uint64_t element, char *text,
                        size_t size)
{
    uint64_t index[PACKAGE_MAX_RANK];
    for (unsigned k = tensor->rank; k-- > 0; element /= tensor->shape[k])
        index[k] = element % tensor->shape[k];
    size_t used = (size_t)snprintf(text, size, "[");
    for (unsigned k = 0; k < tensor->rank && used < size; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, k ? "," : "", index[k]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static int differs(const struct gather *g, struct ipu_error *error)
{
    char index[PACKAGE_MAX_RANK * 21 + 3];
    print_index(g->tensor, g->bad, index, sizeof index);
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                         "output %s: element %s from tile %u is not the same bits as from tile %u",
                         g->tensor->name, index, g->tile, g->owners[g->bad]);
}

static int all_given(const struct gather *g, uint64_t elements, struct ipu_error *error)
{
    char index[PACKAGE_MAX_RANK * 21 + 3];
    for (uint64_t i = 0; i < elements; i++)
        if (g->owners[i] == STREAM_NO_TILE) {
            print_index(g->tensor, i, index, sizeof index);
            return ipu_error_set(error, IPU_ERR_CORRUPT,
                                 "output %s: the package names no tile for element %s",
                                 g->tensor->name, index);
        }
    return 0;
}

static int gather_tensor(uint8_t *host, const struct package *package, size_t tensor,
                         const struct stream_store *store, struct ipu_error *error)
{
    size_t count, tensor_count;
    const struct package_nest *nests = package_nests(package, PACKAGE_RUN, &count);
    struct gather g = {.tensor = &package_tensors(package, &tensor_count)[tensor], .host = host};
    g.unit = element_bytes(g.tensor->type);
    uint64_t elements = g.tensor->bytes / g.unit;
    g.owners = ipu_malloc((size_t)elements * sizeof *g.owners);
    if (!g.owners)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory to gather output %s",
                             g.tensor->name);
    memset(g.owners, 0xff, (size_t)elements * sizeof *g.owners);
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        if (nests[i].tensor != tensor)
            continue;
        g.tile = nests[i].tile;
        g.stream = store->data + store->offset[g.tile];
        if (walk_nest(&nests[i], g.unit, 0, STREAM_END, gather_elements, &g) != 0)
            code = differs(&g, error);
    }
    if (code == 0)
        code = all_given(&g, elements, error);
    ipu_free(g.owners);
    return code;
}

int stream_gather(struct stream_outputs *outputs, const struct package *package,
                  const struct stream_store *store, struct ipu_error *error)
{
    size_t count;
    const struct package_tensor *tensors = package_tensors(package, &count);
    stream_outputs_end(outputs);
    outputs->data = ipu_calloc(count ? count : 1, sizeof *outputs->data);
    if (!outputs->data)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for %zu outputs", count);
    outputs->count = count;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].role != PACKAGE_OUTPUT)
            continue;
        outputs->data[i] = ipu_calloc(1, tensors[i].bytes);
        if (!outputs->data[i])
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for output %s",
                                 tensors[i].name);
        int code = gather_tensor(outputs->data[i], package, i, store, error);
        if (code != 0)
            return code;
    }
    return 0;
}

void stream_outputs_end(struct stream_outputs *outputs)
{
    for (size_t i = 0; outputs->data && i < outputs->count; i++)
        ipu_free(outputs->data[i]);
    ipu_free(outputs->data);
    *outputs = (struct stream_outputs){0};
}
