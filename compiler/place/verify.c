/* The verifier of placements: every pair of buffers of a tile, every rule, nothing shared with the
 * placer but the header. Errors are IPU_ERR_INTERNAL and name the tile and both buffers. */
#include "compiler/place/place.h"

#include "device/ipu21/memory.h"

static uint32_t end_of(const struct program_buffer *b)
{
    return b->address + (uint32_t)program_buffer_bytes(b);
}

static bool used(const struct program_buffer *b)
{
    return b->first <= b->last;
}

static int check_range(const struct program_buffer *b, uint32_t index, uint32_t region0,
                       struct ipu_error *error)
{
    bool standard = b->address >= region0 && end_of(b) <= IPU21_REGION1_BASE && !b->interleaved;
    bool interleaved =
        b->address >= IPU21_REGION1_BASE && end_of(b) + KERNEL_OVERREAD <= IPU21_SRAM_END;
    if (b->address % PROGRAM_ALIGNMENT == 0 && (standard || interleaved))
        return 0;
    return ipu_error_set(error, IPU_ERR_INTERNAL,
                         "place: verify: buffer %u of tile %u lies at 0x%x..0x%x", index, b->tile,
                         b->address, end_of(b));
}

static int check_pair(const struct program *p, uint32_t i, uint32_t k, struct ipu_error *error)
{
    const struct program_buffer *a = &p->buffers[i], *b = &p->buffers[k];
    bool together = a->resident || b->resident || (a->first <= b->last && b->first <= a->last);
    if (!together || a->address >= end_of(b) || b->address >= end_of(a))
        return 0;
    return ipu_error_set(error, IPU_ERR_INTERNAL,
                         "place: verify: buffers %u and %u of tile %u overlap at 0x%x", i, k,
                         a->tile, a->address > b->address ? a->address : b->address);
}

static uint32_t granules(const struct program_buffer *b)
{
    return ipu21_element_mask(b->address, (uint32_t)program_buffer_bytes(b) + KERNEL_OVERREAD);
}

static int check_call(const struct program *p, const struct program_call *call,
                      struct ipu_error *error)
{
    const struct kernel_info *info = kernel_info(p->specs[call->spec].family);
    for (unsigned i = 0; i < info->arg_count; i++)
        if (kernel_operand_of(&p->specs[call->spec], i) == KERNEL_OPERAND_INTERLEAVED &&
            p->buffers[call->args[i].index].address < IPU21_REGION1_BASE)
            return ipu_error_set(error, IPU_ERR_INTERNAL,
                                 "place: verify: operand %s of %s on tile %u is not interleaved",
                                 info->arg_names[i], info->name, call->tile);
    if (info->distinct_a < 0)
        return 0;
    const struct program_buffer *a = &p->buffers[call->args[info->distinct_a].index];
    const struct program_buffer *b = &p->buffers[call->args[info->distinct_b].index];
    if ((granules(a) & granules(b)) == 0)
        return 0;
    return ipu_error_set(error, IPU_ERR_INTERNAL,
                         "place: verify: operands of %s on tile %u share a granule", info->name,
                         call->tile);
}

static int check_tile(const struct program *p, const uint32_t *list, uint32_t count,
                      uint32_t region0, struct ipu_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        int code = check_range(&p->buffers[list[i]], list[i], region0, error);
        for (uint32_t k = 0; k < i && code == 0; k++)
            code = check_pair(p, list[i], list[k], error);
        if (code != 0)
            return code;
    }
    return 0;
}

/* Buffers by tile: those of tile t are list[first[t + 1] .. first[t + 2]). */
static void index_buffers(const struct program *p, uint32_t *first, uint32_t *list)
{
    for (uint32_t i = 0; i < p->buffer_count; i++)
        if (used(&p->buffers[i]))
            first[p->buffers[i].tile + 1]++;
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        first[t + 1] += first[t];
    for (uint32_t i = p->buffer_count; i-- > 0;)
        if (used(&p->buffers[i]))
            list[--first[p->buffers[i].tile + 1]] = i;
}

int place_verify(const struct program *program, const uint32_t region0[PROGRAM_TILES],
                 struct arena *arena, struct ipu_error *error)
{
    uint32_t *list = ARENA_ARRAY(arena, uint32_t, program->buffer_count + 1);
    uint32_t *first = ARENA_ARRAY(arena, uint32_t, PROGRAM_TILES + 2);
    int code = 0;
    if (list == NULL || first == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "place: out of memory");
    index_buffers(program, first, list);
    first[PROGRAM_TILES + 1] = 0;
    for (uint32_t i = 0; i < program->buffer_count; i++)
        first[PROGRAM_TILES + 1] += used(&program->buffers[i]);
    for (unsigned t = 0; t < PROGRAM_TILES && code == 0; t++)
        code = check_tile(program, list + first[t + 1], first[t + 2] - first[t + 1], region0[t],
                          error);
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t i = 0; i < program->steps[s].call_count && code == 0; i++)
            code = check_call(program, &program->steps[s].calls[i], error);
    return code;
}
