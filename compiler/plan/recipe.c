/* Recipes: the compact identity of a plan.
 *
 * Format, little-endian: u8 version, u8 reserved, u16 number of operations, then per operation of
 * the model 22 bytes: kind, order, replicate, flags (u8 each), gb, gm, gn, gk, sr, sp, offset,
 * chunk (u16 each), row passes, panel passes (u8 each); a REPEAT is all zero. Reading refuses
 * anything that is not a legal choice of the present flow, so that a damaged recipe never becomes a
 * plan.
 */
#include "compiler/plan/search.h"

#include "base/buffer.h"

#include <string.h>

enum { RECIPE_VERSION = 2, RECIPE_HEADER = 4, RECIPE_OP = 22 };

static void put16(struct buffer *out, unsigned value)
{
    const uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    buffer_append(out, bytes, 2);
}

bool recipe_write(struct space *space, const uint16_t *pick, struct buffer *out)
{
    uint32_t count = space->model->op_count;
    put16(out, RECIPE_VERSION);
    put16(out, count & 0xffff);
    for (uint32_t i = 0; i < count; i++) {
        const struct model_op *op = &space->model->ops[i];
        struct plan_choice c = {0};
        if (op->flow->kind != FLOW_REPEAT)
            c = space->classes[op->class_index].list[pick[i]].choice;
        const uint8_t head[4] = {c.kind, c.order, c.replicate, c.flags};
        buffer_append(out, head, 4);
        const uint16_t words[8] = {c.gb, c.gm, c.gn, c.gk, c.sr, c.sp, c.offset, c.chunk};
        for (unsigned w = 0; w < 8; w++)
            put16(out, words[w]);
        const uint8_t passes[2] = {c.row_passes, c.panel_passes};
        buffer_append(out, passes, 2);
    }
    return !out->failed;
}

static unsigned get16(const uint8_t *data)
{
    return data[0] | (unsigned)data[1] << 8;
}

static struct plan_choice read_choice(const uint8_t *d)
{
    return (struct plan_choice){.kind = d[0],
                                .order = d[1],
                                .replicate = d[2],
                                .flags = d[3],
                                .gb = (uint16_t)get16(d + 4),
                                .gm = (uint16_t)get16(d + 6),
                                .gn = (uint16_t)get16(d + 8),
                                .gk = (uint16_t)get16(d + 10),
                                .sr = (uint16_t)get16(d + 12),
                                .sp = (uint16_t)get16(d + 14),
                                .offset = (uint16_t)get16(d + 16),
                                .chunk = (uint16_t)get16(d + 18),
                                .row_passes = d[20],
                                .panel_passes = d[21]};
}

bool recipe_read(struct space *space, const uint8_t *data, size_t size, struct solution *out)
{
    uint32_t count = space->model->op_count;
    if (size != RECIPE_HEADER + (size_t)RECIPE_OP * count || get16(data) != RECIPE_VERSION ||
        get16(data + 2) != (count & 0xffff))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct model_op *op = &space->model->ops[i];
        struct plan_choice c = read_choice(data + RECIPE_HEADER + (size_t)RECIPE_OP * i);
        out->pick[i] = 0;
        if (op->flow->kind == FLOW_REPEAT)
            continue;
        bool gemm = op->flow->kind == FLOW_GEMM;
        if ((c.kind == CHOICE_GEMM) != gemm || c.replicate > 1)
            return false;
        if (!gemm && (c.flags | c.row_passes | c.panel_passes) != 0)
            return false;
        uint32_t at = candidate_find(space, op->class_index, &c);
        if (at > UINT16_MAX - 1)
            return false;
        out->pick[i] = (uint16_t)at;
    }
    return solution_price(space, out);
}
