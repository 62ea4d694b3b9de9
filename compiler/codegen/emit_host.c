/* Host batches of a tile's program (device/driver/call.h, facts/host_protocol.md section 9).
 *
 * Consecutive batches that need the same code become one loop: same role, same packet headers, same
 * request mask. Input lands in the staging page and is copied to its buffers after the exit sync;
 * output is copied into the staging page before the entry sync. Copies of a page are cut so that
 * all six workers share them.
 */
#include "compiler/codegen/internal.h"

#include "device/ipu21/csr.h"
#include "device/ipu21/exchange.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"
#include "device/kernels/kernels.h"
#include "device/runtime/runtime.h"

#include <string.h>

enum {
    READ_BYTES = 1024,
    WRITE_BYTES = 256,
    WRITE_EVENTS = 18, /* least events from a payload to the next header */
    DEVICE_PAGES = 4096
};

struct batch_role {
    uint32_t bytes; /* own traffic, 0 = none */
    uint32_t owner; /* not bool: roles are compared as bytes */
    uint32_t request[2];
};

static struct batch_role role_of(const struct tile_code *t, enum host_stream s, uint32_t batch)
{
    struct batch_role role;
    memset(&role, 0, sizeof role);
    role.bytes = host_plan_bytes(t->codegen->host, s, t->tile, batch);
    if (host_plan_owner(t->tile) == t->tile) {
        host_plan_request(t->codegen->host, s, t->tile, batch, role.request);
        role.owner = (role.request[0] | role.request[1]) != 0;
    }
    return role;
}

/* --- packet headers ------------------------------------------------------------------------- */

static uint32_t id_bits(const struct tile_code *t)
{
    return (t->physical >> 1) << 16 | (t->physical & 1) << 15;
}

static uint32_t add_headers(struct tile_code *t, enum host_stream s, uint32_t bytes)
{
    uint32_t words[2 * PAGE_BYTES / WRITE_BYTES], n = 0;
    uint32_t step = s == HOST_RUN_OUT ? WRITE_BYTES : READ_BYTES;
    uint32_t page = DEVICE_PAGES + PAGE_BYTES * t->tile, side = (t->physical & 1) << 31;
    for (uint32_t at = 0; at < bytes; at += step) {
        uint32_t left = bytes - at, size = left < step ? left : step;
        uint32_t units = size / 64 & 15; /* 1024 bytes are coded as 0 */
        uint32_t first = 0xa0000000u | id_bits(t);
        if (s != HOST_RUN_OUT)
            first = (left > step ? 0xe0000200u : 0xec000200u) | id_bits(t) |
                    (LAYOUT_STAGING + at - IPU21_HOST_WINDOW) >> 5;
        words[n++] = first;
        words[n++] = side | ((page + at) / 64) << 4 | units;
    }
    return data_add(t, words, 4 * n);
}

/* Headers of a batch: those of equal batches are kept once. */
static uint32_t headers_of(struct tile_code *t, enum host_stream s, uint32_t bytes)
{
    uint32_t direction = s == HOST_RUN_OUT;
    for (uint32_t i = 0; i < t->header_count; i++)
        if (t->headers[i].stream == direction && t->headers[i].bytes == bytes)
            return t->headers[i].address;
    uint32_t address = add_headers(t, s, bytes);
    if (t->header_count < sizeof t->headers / sizeof *t->headers) {
        t->headers[t->header_count].stream = direction;
        t->headers[t->header_count].bytes = bytes;
        t->headers[t->header_count++].address = address;
    }
    return address;
}

static uint32_t close_header(struct tile_code *t)
{
    const uint32_t words[2] = {0xcc000200u | id_bits(t) | (LAYOUT_DUMMY - IPU21_HOST_WINDOW) >> 5,
                               (t->physical & 1) << 31};
    if (t->close_address == 0)
        t->close_address = data_add(t, words, sizeof words);
    return t->close_address;
}

/* --- copies between page and buffers -------------------------------------------------------- */

struct page_copy {
    struct tile_code *t;
    enum host_stream stream;
    uint32_t from, to; /* stream bytes of the page */
    uint32_t chunk;
    uint32_t entries;
    uint32_t address; /* of the list, once reserved */
};

static void page_piece(struct page_copy *p, uint32_t address, uint32_t stream, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += p->chunk) {
        uint32_t n = bytes - at < p->chunk ? bytes - at : p->chunk;
        uint32_t staging = LAYOUT_STAGING + (stream + at) % PAGE_BYTES;
        const uint32_t out[3] = {address + at, staging, n}, in[3] = {staging, address + at, n};
        if (p->address != 0)
            data_write(p->t, p->address + 12 * p->entries, p->stream == HOST_RUN_OUT ? out : in,
                       12);
        p->entries++;
    }
}

static void page_item(struct page_copy *p, uint32_t address, uint32_t stream, uint32_t bytes)
{
    uint32_t from = stream > p->from ? stream : p->from;
    uint32_t end = stream + bytes < p->to ? stream + bytes : p->to;
    if (from < end)
        page_piece(p, address + (from - stream), from, end - from);
}

static void page_walk(struct page_copy *p)
{
    const struct host_plan *h = p->t->codegen->host;
    unsigned tile = p->t->tile;
    p->entries = 0;
    for (uint32_t i = h->first[p->stream][tile]; i < h->first[p->stream][tile + 1]; i++) {
        const struct host_item *item = &h->items[p->stream][i];
        const struct program_ref ref = {item->buffer, item->offset};
        if (item->stream >= p->to)
            break;
        page_item(p, buffer_address(p->t->codegen, ref, item->member), item->stream, item->bytes);
    }
    if (p->stream == HOST_RUN_OUT && h->samples[tile] > 0)
        page_item(p, p->t->sample_address, h->sample_stream[tile],
                  (h->samples[tile] * 4 + 31) & ~31u);
}

/* Argument blocks {list, count} for batches first .. first + count; the address of the first. */
static uint32_t add_page_copies(struct tile_code *t, enum host_stream s, uint32_t first,
                                uint32_t count)
{
    uint32_t args = data_reserve(t, 8 * count);
    for (uint32_t b = 0; b < count; b++) {
        uint32_t from = (first + b) * PAGE_BYTES, size = t->codegen->host->size[s][t->tile];
        uint32_t to = size - from < PAGE_BYTES ? size : from + PAGE_BYTES;
        struct page_copy p = {.t = t, .stream = s, .from = from, .to = to};
        p.chunk = ((to - from) / IPU21_WORKERS + 31) & ~31u;
        p.chunk = p.chunk ? p.chunk : 32;
        page_walk(&p);
        p.address = data_reserve(t, 12 * p.entries);
        page_walk(&p);
        const uint32_t block[2] = {p.address, p.entries};
        data_write(t, args + 8 * b, block, sizeof block);
    }
    return args;
}

static void emit_page_copy(struct tile_code *t)
{
    const struct codegen *c = t->codegen;
    code_word(t, ipu21_add(0, 7, 0));
    uint32_t entry = 0;
    for (uint32_t i = 0; c->image.entry != NULL && i < c->program->spec_count; i++)
        if (c->program->specs[i].family == KERNEL_COPY_LIST)
            entry = c->image.entry[i];
    code_call(t, entry);
    code_word(t, ipu21_add(7, 7, 8));
}

/* --- one batch ------------------------------------------------------------------------------ */

static void emit_entry(struct tile_code *t, const struct batch_role *role, bool internal)
{
    code_put(t, CSR_S_INCOMING_MUX, IPU21_MUX_HOST + ((t->physical & 0x3f) & ~2u));
    if (internal)
        code_word(t, ipu21_sync(IPU21_ZONE_INTERNAL));
    else
        code_word(t, ipu21_sync(role->owner ? IPU21_ZONE_HOST_MASTER : IPU21_ZONE_HOST));
}

static void emit_request(struct tile_code *t, const struct batch_role *role)
{
    if (!role->owner)
        return;
    uint32_t address = data_add(t, role->request, sizeof role->request);
    code_word(t, ipu21_send(2, address >> 2, IPU21_SEND_BOTH));
}

static void emit_exit(struct tile_code *t)
{
    code_word(t, ipu21_sync(IPU21_ZONE_HOST));
    code_put(t, CSR_S_INCOMING_MUX, IPU21_MUX_NEUTRAL);
}

static void emit_read(struct tile_code *t, const struct batch_role *role)
{
    emit_entry(t, role, false);
    if (role->bytes > 0)
        code_put(t, CSR_S_INCOMING_DCOUNT, role->bytes / 4);
    emit_request(t, role);
    if (role->bytes > 0) {
        uint32_t address = headers_of(t, HOST_RUN_IN, role->bytes);
        code_word(t, ipu21_send(2, address >> 2, IPU21_SEND_BOTH));
        for (uint32_t at = READ_BYTES; at < role->bytes; at += READ_BYTES)
            code_word(t, ipu21_sendoff(2, 0, IPU21_SEND_BOTH));
        code_word(t, ipu21_sync(IPU21_ZONE_RECEIVE));
    }
    emit_exit(t);
}

static void emit_write(struct tile_code *t, const struct batch_role *role, bool first)
{
    emit_entry(t, role, first);
    if (role->bytes > 0)
        code_put(t, CSR_S_INCOMING_DCOUNT, 1);
    emit_request(t, role);
    if (role->bytes > 0) {
        uint32_t address = headers_of(t, HOST_RUN_OUT, role->bytes);
        for (uint32_t at = 0; at < role->bytes; at += WRITE_BYTES) {
            uint32_t left = role->bytes - at, words = (left < WRITE_BYTES ? left : WRITE_BYTES) / 4;
            code_word(t, ipu21_send(2, (address + at / WRITE_BYTES * 8) >> 2, IPU21_SEND_BOTH));
            code_word(t, ipu21_send(words, (LAYOUT_STAGING + at) >> 2, IPU21_SEND_BOTH));
            if (words < WRITE_EVENTS)
                code_word(t, ipu21_delay(WRITE_EVENTS - words));
        }
        code_word(t, ipu21_send(2, close_header(t) >> 2, IPU21_SEND_BOTH));
        code_word(t, ipu21_sync(IPU21_ZONE_RECEIVE));
    }
    emit_exit(t);
}

static void emit_absent(struct tile_code *t, bool first_output)
{
    if (first_output) {
        code_word(t, ipu21_sans(0));
        code_word(t, ipu21_sync(IPU21_ZONE_ANS));
        code_word(t, ipu21_sans(0));
    } else {
        code_word(t, ipu21_sans(1));
    }
    code_word(t, ipu21_sync(IPU21_ZONE_ANS));
}

static void emit_batch(struct tile_code *t, enum host_stream s, const struct batch_role *role,
                       bool first)
{
    bool output = s == HOST_RUN_OUT, copies = role->bytes > 0;
    copies &=
        output || t->codegen->host->first[s][t->tile] < t->codegen->host->first[s][t->tile + 1];
    if (role->bytes == 0 && !role->owner) {
        emit_absent(t, output && first);
        return;
    }
    if (output && copies)
        emit_page_copy(t);
    if (output)
        emit_write(t, role, first);
    else
        emit_read(t, role);
    if (!output && copies)
        emit_page_copy(t);
}

/* Batches first .. first + count of one kind. */
static void emit_run(struct tile_code *t, enum host_stream s, const struct batch_role *role,
                     uint32_t first, uint32_t count)
{
    if (role->bytes > 0)
        code_set(t, 7, add_page_copies(t, s, first, count));
    if (count > 1)
        code_set(t, 9, count - 1);
    uint32_t loop = code_here(t);
    emit_batch(t, s, role, s == HOST_RUN_OUT && first == 0);
    if (count > 1)
        code_word(t, ipu21_brnzdec(9, loop));
}

static void emit_stream(struct tile_code *t, enum host_stream s)
{
    uint32_t batches = t->codegen->host->batches[s];
    for (uint32_t b = 0; b < batches;) {
        struct batch_role role = role_of(t, s, b);
        uint32_t n = 1;
        while (b + n < batches && !(s == HOST_RUN_OUT && b == 0)) {
            struct batch_role next = role_of(t, s, b + n);
            if (memcmp(&role, &next, sizeof role) != 0)
                break;
            n++;
        }
        emit_run(t, s, &role, b, n);
        b += n;
    }
}

void emit_host_input(struct tile_code *t, enum host_stream stream)
{
    emit_stream(t, stream);
}

void emit_host_output(struct tile_code *t)
{
    emit_stream(t, HOST_RUN_OUT);
}
