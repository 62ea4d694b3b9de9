/* Argument blocks, copy lists and gather tables of kernel calls.
 *
 * A call whose operands move with the iterations of its repeat gets one block per iteration, at
 * the same offset of each iteration's set; all others get one fixed block.
 */
#include "compiler/codegen/internal.h"

#include "base/alloc.h"

bool args_move(const struct program *program, const struct program_call *call)
{
    for (unsigned i = 0; i < KERNEL_MAX_ARGS; i++)
        if (call->args[i].kind == PROGRAM_BUFFER &&
            program->buffers[call->args[i].index].members > 1)
            return true;
    return false;
}

static uint32_t list_address(struct tile_code *t, uint32_t index)
{
    const struct program_list *list = &t->codegen->program->lists[index];
    uint32_t address = data_reserve(t, list->count * 12);
    for (uint32_t i = 0; t->encode && i < list->count; i++) {
        const struct program_copy *c = &list->copies[i];
        const uint32_t entry[3] = {buffer_address(t->codegen, c->source, 0),
                                   buffer_address(t->codegen, c->destination, 0), c->bytes};
        data_write(t, address + 12 * i, entry, sizeof entry);
    }
    return address;
}

static uint32_t table_address(struct tile_code *t, uint32_t index)
{
    for (uint32_t i = 0; i < t->table_count; i++)
        if (t->tables[i].index == index)
            return t->tables[i].address;
    if (t->table_count == t->table_capacity) {
        uint32_t capacity = t->table_capacity ? 2 * t->table_capacity : 8;
        void *tables = ipu_realloc(t->tables, capacity * sizeof *t->tables);
        if (tables == NULL) {
            t->failed = true;
            return 0;
        }
        t->tables = tables;
        t->table_capacity = capacity;
    }
    const struct program_table *table = &t->codegen->program->tables[index];
    uint32_t address = data_add(t, table->entries, table->count * 2);
    t->tables[t->table_count].index = index;
    t->tables[t->table_count++].address = address;
    return address;
}

static uint32_t arg_value(struct tile_code *t, const struct program_arg *a, uint32_t iteration)
{
    switch ((enum program_arg_kind)a->kind) {
    case PROGRAM_BUFFER:
        return buffer_address(t->codegen, (struct program_ref){a->index, a->value}, iteration);
    case PROGRAM_LIST:
        return list_address(t, a->index);
    case PROGRAM_TABLE:
        return table_address(t, a->index) + a->value;
    case PROGRAM_NUMBER:
        break;
    }
    return a->value;
}

uint32_t args_add(struct tile_code *t, const struct program_call *call, bool *moving)
{
    const struct program *p = t->codegen->program;
    const struct kernel_spec *spec = &p->specs[call->spec];
    unsigned count = kernel_info(spec->family)->arg_count;
    uint32_t bytes = 4 * kernel_block_words(spec->family);
    uint32_t args[KERNEL_MAX_ARGS] = {0}, block[KERNEL_MAX_BLOCK], iterations = 1, offset = 0;
    *moving = args_move(p, call);
    for (unsigned i = 0; *moving && i < count; i++)
        if (call->args[i].kind == PROGRAM_BUFFER && p->buffers[call->args[i].index].members > 1)
            iterations = p->buffers[call->args[i].index].members;
    if (*moving) {
        offset = t->loop_bytes;
        t->loop_bytes += (bytes + 7) & ~7u;
    }
    uint32_t set = t->loop_base;
    for (unsigned i = 0; i < count; i++)
        args[i] = arg_value(t, &call->args[i], 0);
    if (!kernel_block(spec, args, block))
        t->refused = call;
    if (!*moving)
        return data_add(t, block, bytes);
    for (uint32_t n = 0; n < iterations; n++) {
        for (unsigned i = 0; i < count; i++)
            if (call->args[i].kind == PROGRAM_BUFFER)
                args[i] = arg_value(t, &call->args[i], n);
        if (!kernel_block(spec, args, block))
            t->refused = call;
        data_write(t, set + offset + n * t->loop_stride, block, bytes);
    }
    return offset;
}
