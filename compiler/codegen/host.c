/* Host streams: which buffer bytes travel in which batch, and who requests for whom.
 *
 * A tile's stream is the concatenation of its uploaded buffer members (in the order of the
 * uploads), or of its output blocks and samples. A batch moves at most a page per tile. Sizes are
 * multiples of 32 bytes; what travels is rounded up to 64.
 */
#include "compiler/codegen/internal.h"

#include "device/ipu21/topology.h"

#include <string.h>

enum { UNIT = 64, NO_STREAM = -1 };

struct builder {
    const struct flow *flow;
    const struct program *program;
    struct host_plan *plan;
    struct arena *arena;
    struct ipu_error *error;
};

static int no_memory(const struct builder *b)
{
    return ipu_error_set(b->error, IPU_ERR_NO_MEMORY, "codegen: out of memory for host streams");
}

static enum host_stream stream_of(const struct builder *b, const struct program_upload *u)
{
    return b->flow->tensors[u->tensor].source == FLOW_PARAMETER ? HOST_INITIALIZE : HOST_RUN_IN;
}

static uint32_t member_index(const struct builder *b, const struct program_upload *u)
{
    return b->plan->member_base[u->to.buffer] + u->member;
}

/* --- input streams -------------------------------------------------------------------------- */

static int number_members(struct builder *b)
{
    uint32_t n = 0;
    b->plan->member_base = ARENA_ARRAY(b->arena, uint32_t, b->program->buffer_count + 1);
    if (b->plan->member_base == NULL)
        return no_memory(b);
    for (uint32_t i = 0; i < b->program->buffer_count; i++) {
        b->plan->member_base[i] = n;
        n += b->program->buffers[i].members;
    }
    b->plan->member_base[b->program->buffer_count] = n;
    for (int k = 0; k < 2; k++) {
        b->plan->stream_at[k] = ARENA_ARRAY(b->arena, uint32_t, n + 1);
        if (b->plan->stream_at[k] == NULL)
            return no_memory(b);
        memset(b->plan->stream_at[k], 0xff, n * sizeof(uint32_t));
    }
    return 0;
}

static int input_streams(struct builder *b)
{
    struct host_plan *plan = b->plan;
    uint32_t counts[2] = {0};
    for (int k = 0; k < 2; k++) {
        plan->items[k] = ARENA_ARRAY(b->arena, struct host_item, b->program->upload_count + 1);
        if (plan->items[k] == NULL)
            return no_memory(b);
    }
    for (uint32_t i = 0; i < b->program->upload_count; i++) {
        const struct program_upload *u = &b->program->uploads[i];
        const struct program_buffer *buffer = &b->program->buffers[u->to.buffer];
        enum host_stream s = stream_of(b, u);
        uint32_t *at = &plan->stream_at[s][member_index(b, u)];
        if (*at != UINT32_MAX)
            continue;
        *at = plan->size[s][buffer->tile];
        plan->size[s][buffer->tile] += buffer->bytes;
        plan->first[s][buffer->tile + 1]++;
        plan->items[s][counts[s]++] =
            (struct host_item){u->to.buffer, u->member, 0, buffer->bytes, *at};
    }
    return 0;
}

/* --- output stream -------------------------------------------------------------------------- */

static uint32_t block_bytes(const struct builder *b, const struct program_download *d)
{
    enum flow_type type = b->flow->tensors[b->flow->outputs[d->output].tensor].type;
    return d->rows * d->panels * program_cell_bytes(type);
}

static int output_stream(struct builder *b)
{
    struct host_plan *plan = b->plan;
    const struct program *p = b->program;
    uint32_t *first = plan->first[HOST_RUN_OUT];
    plan->items[HOST_RUN_OUT] = ARENA_ARRAY(b->arena, struct host_item, p->download_count + 1);
    plan->download_stream = ARENA_ARRAY(b->arena, uint32_t, p->download_count + 1);
    if (plan->items[HOST_RUN_OUT] == NULL || plan->download_stream == NULL)
        return no_memory(b);
    for (uint32_t i = 0; i < p->download_count; i++)
        first[p->buffers[p->downloads[i].from.buffer].tile + 1]++;
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        first[t + 1] += first[t];
    for (uint32_t i = 0; i < p->download_count; i++) {
        const struct program_download *d = &p->downloads[i];
        unsigned tile = p->buffers[d->from.buffer].tile;
        uint32_t *size = &plan->size[HOST_RUN_OUT][tile];
        plan->items[HOST_RUN_OUT][first[tile]++] =
            (struct host_item){d->from.buffer, 0, d->from.offset, block_bytes(b, d), *size};
        plan->download_stream[i] = *size;
        *size += block_bytes(b, d);
    }
    memmove(first + 1, first, PROGRAM_TILES * sizeof *first);
    first[0] = 0;
    for (unsigned t = 0; t < PROGRAM_TILES; t++) {
        plan->sample_stream[t] = plan->size[HOST_RUN_OUT][t];
        plan->size[HOST_RUN_OUT][t] += (plan->samples[t] * 4 + 31) & ~31u;
    }
    return 0;
}

static void count_batches(struct host_plan *plan)
{
    for (int s = 0; s < HOST_STREAMS; s++)
        for (unsigned t = 0; t < PROGRAM_TILES; t++) {
            uint32_t batches = (plan->size[s][t] + PAGE_BYTES - 1) / PAGE_BYTES;
            plan->batches[s] = batches > plan->batches[s] ? batches : plan->batches[s];
        }
}

/* Every run starts with an input batch: a run without inputs moves one empty packet. */
static void ensure_start(struct host_plan *plan)
{
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        if (plan->size[HOST_RUN_IN][t] > 0)
            return;
    plan->size[HOST_RUN_IN][0] = UNIT;
}

int host_plan_build(const struct flow *flow, const struct program *program,
                    enum codegen_profile profile, struct arena *arena, struct host_plan **out,
                    struct ipu_error *error)
{
    struct builder b = {flow, program, NULL, arena, error};
    struct host_plan *plan = b.plan = ARENA_NEW(arena, struct host_plan);
    if (plan == NULL)
        return no_memory(&b);
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        plan->samples[t] = sample_words(flow, program, profile, t);
    int code = number_members(&b);
    if (code == 0)
        code = input_streams(&b);
    if (code == 0)
        code = output_stream(&b);
    if (code != 0)
        return code;
    for (int s = HOST_INITIALIZE; s <= HOST_RUN_IN; s++)
        for (unsigned t = 0; t < PROGRAM_TILES; t++)
            plan->first[s][t + 1] += plan->first[s][t];
    ensure_start(plan);
    count_batches(plan);
    *out = plan;
    return 0;
}

/* --- batches -------------------------------------------------------------------------------- */

uint32_t host_plan_bytes(const struct host_plan *plan, enum host_stream stream, unsigned tile,
                         uint32_t batch)
{
    uint64_t size = plan->size[stream][tile], from = (uint64_t)batch * PAGE_BYTES;
    if (size <= from)
        return 0;
    uint64_t left = size - from;
    uint32_t bytes = left < PAGE_BYTES ? (uint32_t)left : PAGE_BYTES;
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

unsigned host_plan_owner(unsigned tile)
{
    return ipu21_logical(ipu21_physical(tile) & 0x3d);
}

void host_plan_request(const struct host_plan *plan, enum host_stream stream, unsigned owner,
                       uint32_t batch, uint32_t words[2])
{
    unsigned base = ipu21_physical(owner);
    words[0] = words[1] = 0;
    for (unsigned k = 0; k < 46; k++) {
        unsigned tile = ipu21_logical((k / 2) << 6 | base | (k & 1) << 1);
        if (host_plan_bytes(plan, stream, tile, batch) > 0)
            words[k / 24] |= 1u << (k % 24);
    }
}
