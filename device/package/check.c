/* The rules of a package, checked by the writer on what was built and by the reader on what a file
 * says.
 *
 * Everything a loader or driver later uses as an index, an address or a size is bounded here, so
 * that neither checks again: segments lie in loadable SRAM and do not overlap, loop nests stay
 * inside their tensor and their stream, steps and sample lists name existing things. Every check is
 * linear in the size of the lists. The first broken rule is reported with its numbers.
 */
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"
#include "device/package/internal.h"

#include <inttypes.h>
#include <string.h>

struct check {
    const struct package *package;
    int code;
    struct ipu_error *error;
};

#define REFUSE(check, ...) ipu_error_set((check)->error, (check)->code, "package: " __VA_ARGS__)

static bool text_is_legal(const char *text)
{
    size_t length = strnlen(text, PACKAGE_MAX_TEXT + 1);
    if (length > PACKAGE_MAX_TEXT)
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    }
    return true;
}

static int check_info(const struct check *c)
{
    const struct package_info *info = &c->package->info;
    if (!text_is_legal(info->compiler) || !text_is_legal(info->workload))
        return REFUSE(c, "the compiler or workload name is too long or holds control characters");
    if (info->execution_tiles > IPU21_TILES)
        return REFUSE(c, "%u execution tiles, the chip has %u", info->execution_tiles, IPU21_TILES);
    if (info->entry % 4 || info->entry < IPU21_SRAM_BASE || info->entry >= IPU21_REGION1_BASE)
        return REFUSE(c, "entry 0x%x is no executable address", info->entry);
    for (int call = 0; call < 2; call++) {
        uint32_t in = info->batches_in[call], out = info->batches_out[call];
        if (in > PACKAGE_MAX_BATCHES || out > PACKAGE_MAX_BATCHES)
            return REFUSE(c, "call %d has %u input and %u output batches, the limit is %d", call,
                          in, out, PACKAGE_MAX_BATCHES);
        uint32_t phases = 2 * in + (out ? 2 * out - 1 : 0);
        if (info->phases[call] != phases)
            return REFUSE(c,
                          "call %d has %u host phases, its %u input and %u output batches need %u",
                          call, info->phases[call], in, out, phases);
    }
    return 0;
}

static int check_segments(const struct check *c)
{
    const struct package_segment *s = c->package->segments.items;
    for (size_t i = 0; i < c->package->segments.count; i++) {
        if (s[i].tile >= IPU21_TILES)
            return REFUSE(c, "segment %zu names tile %u, the chip has %u", i, s[i].tile,
                          IPU21_TILES);
        if (s[i].address % 4 || s[i].size % 4 || s[i].size == 0)
            return REFUSE(c, "segment 0x%x of %u bytes on tile %u is not made of whole words",
                          s[i].address, s[i].size, s[i].tile);
        if (s[i].address < IPU21_SRAM_BASE || s[i].address >= IPU21_LOAD_END ||
            s[i].size > IPU21_LOAD_END - s[i].address)
            return REFUSE(c, "segment 0x%x of %u bytes on tile %u leaves loadable SRAM 0x%x..0x%x",
                          s[i].address, s[i].size, s[i].tile, IPU21_SRAM_BASE, IPU21_LOAD_END);
        if (i && s[i].tile == s[i - 1].tile && s[i].address < s[i - 1].address + s[i - 1].size)
            return REFUSE(c, "segments 0x%x and 0x%x of tile %u overlap", s[i - 1].address,
                          s[i].address, s[i].tile);
    }
    return 0;
}

/* Number of elements; false when the shape is illegal or the product overflows. */
static bool tensor_elements(const struct package_tensor *t, uint64_t *elements)
{
    *elements = 1;
    for (unsigned k = 0; k < t->rank; k++) {
        if (t->shape[k] == 0 || t->shape[k] > UINT32_MAX)
            return false;
        *elements *= t->shape[k];
        if (*elements > UINT64_C(1) << 40)
            return false;
    }
    return true;
}

static int check_tensors(const struct check *c)
{
    const struct package_tensor *t = c->package->tensors.items;
    for (size_t i = 0; i < c->package->tensors.count; i++) {
        uint64_t elements;
        if (!text_is_legal(t[i].name) || t[i].name[0] == '\0')
            return REFUSE(c, "tensor %zu has no legal name", i);
        if (t[i].role > PACKAGE_SAMPLES || t[i].type < PACKAGE_F32 || t[i].type > PACKAGE_U32)
            return REFUSE(c, "tensor %s has an unknown role or type", t[i].name);
        if (t[i].rank > PACKAGE_MAX_RANK || !tensor_elements(&t[i], &elements))
            return REFUSE(c, "tensor %s has an illegal shape", t[i].name);
        if (t[i].bytes != elements * package_element_bytes(t[i].type))
            return REFUSE(c, "tensor %s has %" PRIu64 " bytes, its shape needs %" PRIu64, t[i].name,
                          t[i].bytes, elements * package_element_bytes(t[i].type));
        bool contents = t[i].role == PACKAGE_PARAMETER || t[i].role == PACKAGE_INPUT;
        if (contents != (t[i].data != NULL))
            return REFUSE(c, "tensor %s %s contents", t[i].name,
                          contents ? "lacks" : "may not have");
        for (size_t j = 0; j < i; j++) {
            if (strcmp(t[i].name, t[j].name) == 0)
                return REFUSE(c, "two tensors are called %s", t[i].name);
        }
    }
    return 0;
}

/* Adds the reach of one loop to [*low, *high]; false past 2^62, which no legal nest needs. */
static bool reach(uint32_t count, int64_t stride, int64_t *low, int64_t *high)
{
    int64_t far;
    if (__builtin_mul_overflow((int64_t)count - 1, stride, &far))
        return false;
    int64_t *end = far < 0 ? low : high;
    return !__builtin_add_overflow(*end, far, end) && *end < INT64_C(1) << 62 &&
           *end > -(INT64_C(1) << 62);
}

static int check_nest(const struct check *c, int call, const struct package_nest *n, size_t index)
{
    const struct package_info *info = &c->package->info;
    if (n->tile >= IPU21_TILES || n->tensor >= c->package->tensors.count ||
        n->dims > PACKAGE_NEST_DIMS)
        return REFUSE(c, "loop nest %zu names tile %u, tensor %u or %u loops", index, n->tile,
                      n->tensor, n->dims);
    const struct package_tensor *t = (struct package_tensor *)c->package->tensors.items + n->tensor;
    bool in = t->role == PACKAGE_PARAMETER || t->role == PACKAGE_INPUT;
    if ((t->role == PACKAGE_PARAMETER) != (call == PACKAGE_INITIALIZE))
        return REFUSE(c, "tensor %s does not travel in call %d", t->name, call);
    uint32_t unit = package_element_bytes(t->type);
    int64_t elements = (int64_t)(t->bytes / unit);
    int64_t stream =
        (int64_t)PACKAGE_PAGE_BYTES * (in ? info->batches_in : info->batches_out)[call];
    if (n->host_offset >= (uint64_t)elements || n->stream_offset % unit)
        return REFUSE(c, "loop nest %zu of tensor %s starts outside or misaligned", index, t->name);
    int64_t host_low = (int64_t)n->host_offset, host_high = host_low;
    int64_t low = n->stream_offset, high = low, total = 1;
    bool legal = true;
    for (unsigned k = 0; k < n->dims && legal; k++) {
        legal = n->dim[k].count > 0 && ((uint32_t)n->dim[k].stream_stride & (unit - 1)) == 0 &&
                reach(n->dim[k].count, n->dim[k].host_stride, &host_low, &host_high) &&
                reach(n->dim[k].count, n->dim[k].stream_stride, &low, &high);
        total *= n->dim[k].count;
        legal = legal && total <= stream / unit;
    }
    if (!legal || host_low < 0 || host_high >= elements || low < 0 || high > stream - unit)
        return REFUSE(c,
                      "loop nest %zu of tensor %s on tile %u leaves the tensor (%" PRId64
                      " elements) or the stream (%" PRId64 " bytes)",
                      index, t->name, n->tile, elements, stream);
    return 0;
}

static int check_nests(const struct check *c)
{
    for (int call = 0; call < 2; call++) {
        const struct package_nest *n = c->package->nests[call].items;
        for (size_t i = 0; i < c->package->nests[call].count; i++) {
            int code = check_nest(c, call, &n[i], i);
            if (code)
                return code;
        }
    }
    return 0;
}

static int check_rows(const struct check *c)
{
    const struct package_row *r = c->package->rows.items;
    for (size_t i = 0; i < c->package->rows.count; i++) {
        if (r[i].tile >= IPU21_TILES || r[i].words > PACKAGE_MAX_ROW_WORDS)
            return REFUSE(c, "exchange row %zu names tile %u or receives %u words", i, r[i].tile,
                          r[i].words);
        if (r[i].address % 8 || r[i].bytes % 4 || r[i].bytes == 0 ||
            r[i].address < IPU21_SRAM_BASE || r[i].address >= IPU21_REGION1_BASE ||
            r[i].bytes > IPU21_REGION1_BASE - r[i].address)
            return REFUSE(c, "exchange row 0x%x of %u bytes on tile %u is not executable",
                          r[i].address, r[i].bytes, r[i].tile);
        if (i && r[i].tile == r[i - 1].tile && r[i].address < r[i - 1].address + r[i - 1].bytes)
            return REFUSE(c, "exchange rows 0x%x and 0x%x of tile %u overlap", r[i - 1].address,
                          r[i].address, r[i].tile);
    }
    return 0;
}

static int check_steps(const struct check *c)
{
    const struct package_step *s = c->package->steps.items;
    for (size_t i = 0; i < c->package->steps.count; i++) {
        if (s[i].kind > PACKAGE_STEP_COPY || !text_is_legal(s[i].name) ||
            !text_is_legal(s[i].kernel))
            return REFUSE(c, "step %zu has an unknown kind or an illegal name", i);
    }
    return 0;
}

static int check_samples(const struct check *c)
{
    const struct package_samples *s = c->package->samples.items;
    uint64_t stream = (uint64_t)PACKAGE_PAGE_BYTES * c->package->info.batches_out[PACKAGE_RUN];
    uint64_t total = 0;
    for (size_t i = 0; i < c->package->samples.count; i++) {
        total += s[i].count;
        if (s[i].count > PACKAGE_MAX_STEPS || total > PACKAGE_MAX_SAMPLES)
            return REFUSE(c, "more than %d samples", PACKAGE_MAX_SAMPLES);
        if (s[i].tile >= IPU21_TILES || (i && s[i].tile == s[i - 1].tile))
            return REFUSE(c, "tile %u has two sample lists or does not exist", s[i].tile);
        if (s[i].stream_offset % 4 || s[i].stream_offset + 4 * ((uint64_t)s[i].count + 1) > stream)
            return REFUSE(c, "the %zu samples of tile %u leave its output stream", s[i].count + 1,
                          s[i].tile);
        for (size_t k = 0; k < s[i].count; k++) {
            if (s[i].steps[k] >= c->package->steps.count)
                return REFUSE(c, "sample %zu of tile %u names step %u of %zu", k, s[i].tile,
                              s[i].steps[k], c->package->steps.count);
        }
    }
    return 0;
}

static int check_symbols(const struct check *c)
{
    const struct package_symbol *s = c->package->symbols.items;
    for (size_t i = 0; i < c->package->symbols.count; i++) {
        if (!text_is_legal(s[i].name) || s[i].address > IPU21_SRAM_END ||
            s[i].size > IPU21_SRAM_END - s[i].address)
            return REFUSE(c, "symbol %zu has an illegal name or leaves the address space", i);
    }
    return 0;
}

int package_check(const struct package *package, int code, struct ipu_error *error)
{
    static int (*const checks[])(const struct check *) = {
        check_info, check_segments, check_tensors, check_nests,
        check_rows, check_steps,    check_samples, check_symbols};
    struct check check = {package, code, error};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        int result = checks[i](&check);
        if (result)
            return result;
    }
    return 0;
}
