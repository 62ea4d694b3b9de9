/* The granule rules of a program: kernel operands that must lie apart, exchange roles.
 *
 * Rules are chains of links by buffer. A rule between two buffers is entered on both. Fails only
 * for lack of memory.
 */
#include "compiler/place/internal.h"

#include <string.h>

static int link_add(struct place_rules *r, uint32_t *head, uint32_t value, struct arena *arena,
                    struct ipu_error *error)
{
    for (uint32_t at = *head; at != 0; at = r->links[at - 1].next)
        if (r->links[at - 1].value == value)
            return 0;
    if (r->count == r->capacity) {
        uint32_t capacity = r->capacity ? 2 * r->capacity : 1024;
        struct place_link *links = ARENA_ARRAY(arena, struct place_link, capacity);
        if (links == NULL)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "place: out of memory");
        if (r->count > 0)
            memcpy(links, r->links, r->count * sizeof *links);
        r->links = links;
        r->capacity = capacity;
    }
    r->links[r->count++] = (struct place_link){value, *head};
    *head = r->count;
    return 0;
}

static int call_rules(const struct program *p, const struct program_call *call,
                      struct place_rules *r, struct arena *arena, struct ipu_error *error)
{
    const struct kernel_info *info = kernel_info(p->specs[call->spec].family);
    if (info->distinct_a < 0 || info->distinct_b < 0)
        return 0;
    const struct program_arg *a = &call->args[info->distinct_a], *b = &call->args[info->distinct_b];
    if (a->kind != PROGRAM_BUFFER || b->kind != PROGRAM_BUFFER)
        return 0;
    if (a->index == b->index)
        return ipu_error_set(error, IPU_ERR_INTERNAL,
                             "place: two operands of %s that must lie apart are one buffer",
                             info->name);
    int code = link_add(r, &r->apart[a->index], b->index, arena, error);
    return code ? code : link_add(r, &r->apart[b->index], a->index, arena, error);
}

static int transfer_rules(const struct program_transfer *t, uint32_t phase, struct place_rules *r,
                          struct arena *arena, struct ipu_error *error)
{
    int code = link_add(r, &r->roles[t->source.buffer], phase << 1, arena, error);
    for (uint32_t i = 0; code == 0 && i < t->target_count; i++)
        code =
            link_add(r, &r->roles[t->targets[i].destination.buffer], phase << 1 | 1, arena, error);
    return code;
}

int place_rules_collect(const struct program *program, struct arena *arena,
                        struct place_rules *rules, struct ipu_error *error)
{
    memset(rules, 0, sizeof *rules);
    rules->apart = ARENA_ARRAY(arena, uint32_t, program->buffer_count + 1);
    rules->roles = ARENA_ARRAY(arena, uint32_t, program->buffer_count + 1);
    if (rules->apart == NULL || rules->roles == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "place: out of memory");
    for (uint32_t s = 0; s < program->step_count; s++) {
        const struct program_step *step = &program->steps[s];
        int code = 0;
        for (uint32_t i = 0; code == 0 && i < step->call_count; i++)
            code = call_rules(program, &step->calls[i], rules, arena, error);
        for (uint32_t i = 0; code == 0 && i < step->transfer_count; i++)
            code = transfer_rules(&step->transfers[i], step->phase, rules, arena, error);
        if (code != 0)
            return code;
    }
    return 0;
}
