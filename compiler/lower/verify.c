/* The verifier of programs: replays a program on sets of written bytes.
 *
 * Memory of a buffer is tracked in units of 32 bytes: unwritten, written, written in the current
 * exchange. Every read must find written units, every access must stay inside its buffer, its
 * buffer's lifetime and its tile. Shares no code with lowering. Results are errors with the step,
 * the tile and the rule; IPU_ERR_INTERNAL because a broken program is this compiler's fault.
 */
#include "compiler/lower/verify.h"

#include "base/alloc.h"

#include <string.h>

enum { UNIT = 32, UNWRITTEN = 0, WRITTEN = 1, FRESH = 2 };

struct verify {
    const struct flow *flow;
    const struct program *program;
    struct ipu_error *error;
    uint8_t *units;
    uint64_t *base; /* by buffer: first unit */
    uint32_t step;
    int code;
};

#define REFUSE(v, ...)                                                                             \
    ((v)->code = ipu_error_set((v)->error, IPU_ERR_INTERNAL, "lower: verify: step " __VA_ARGS__),  \
     false)

/* --- memory --------------------------------------------------------------------------------- */

static bool in_range(struct verify *v, unsigned tile, struct program_ref ref, uint64_t bytes)
{
    const struct program_buffer *b = &v->program->buffers[ref.buffer];
    if (ref.buffer >= v->program->buffer_count || b->tile != tile)
        return REFUSE(v, "%u: tile %u names buffer %u of another tile", v->step, tile, ref.buffer);
    if (ref.offset + bytes > b->bytes || ref.offset % 4 != 0 || bytes == 0)
        return REFUSE(v, "%u: tile %u reaches bytes %u..%llu of a buffer of %u", v->step, tile,
                      ref.offset, (unsigned long long)(ref.offset + bytes), b->bytes);
    if (v->step < b->first || (v->step > b->last && !b->resident))
        return REFUSE(v, "%u: tile %u uses buffer %u outside its lifetime %u..%u", v->step, tile,
                      ref.buffer, b->first, b->last);
    return true;
}

static uint64_t first_unit(const struct verify *v, struct program_ref ref, uint32_t member)
{
    return v->base[ref.buffer] + (uint64_t)member * (v->program->buffers[ref.buffer].bytes / UNIT) +
           ref.offset / UNIT;
}

static bool reads(struct verify *v, unsigned tile, struct program_ref ref, uint64_t bytes)
{
    if (!in_range(v, tile, ref, bytes))
        return false;
    uint64_t n = (ref.offset % UNIT + bytes + UNIT - 1) / UNIT;
    for (uint32_t m = 0; m < v->program->buffers[ref.buffer].members; m++) {
        const uint8_t *unit = v->units + first_unit(v, ref, m);
        for (uint64_t i = 0; i < n; i++)
            if (unit[i] != WRITTEN)
                return REFUSE(v, "%u: tile %u reads byte %llu of buffer %u, which is %s", v->step,
                              tile, (unsigned long long)(ref.offset + i * UNIT), ref.buffer,
                              unit[i] == FRESH ? "written in the same exchange" : "never written");
    }
    return true;
}

static bool writes(struct verify *v, unsigned tile, struct program_ref ref, uint64_t bytes,
                   uint8_t state)
{
    if (!in_range(v, tile, ref, bytes))
        return false;
    if (v->program->buffers[ref.buffer].members != 1)
        return REFUSE(v, "%u: tile %u writes into a sequence", v->step, tile);
    uint8_t *unit = v->units + first_unit(v, ref, 0);
    uint64_t n = (ref.offset % UNIT + bytes + UNIT - 1) / UNIT;
    for (uint64_t i = 0; i < n; i++) {
        if (state == FRESH && unit[i] == FRESH)
            return REFUSE(v, "%u: two transfers write byte %llu of buffer %u on tile %u", v->step,
                          (unsigned long long)(ref.offset + i * UNIT), ref.buffer, tile);
        unit[i] = state;
    }
    return true;
}

/* --- calls ---------------------------------------------------------------------------------- */

static bool access_runs(struct verify *v, const struct program_call *call,
                        const struct kernel_access *a)
{
    const struct program_arg *arg = &call->args[a->arg];
    if (arg->kind != PROGRAM_BUFFER)
        return REFUSE(v, "%u: argument %u of a kernel on tile %u is no buffer", v->step, a->arg,
                      call->tile);
    for (uint32_t i = 0; i < a->runs; i++) {
        struct program_ref ref = {arg->index, arg->value + i * a->stride};
        if (ref.offset % 8 != 0)
            return REFUSE(v, "%u: an operand on tile %u is misaligned", v->step, call->tile);
        if (!(a->write ? writes(v, call->tile, ref, a->bytes, WRITTEN)
                       : reads(v, call->tile, ref, a->bytes)))
            return false;
    }
    return true;
}

static bool verify_list(struct verify *v, const struct program_call *call)
{
    const struct program_arg *arg = &call->args[0];
    if (arg->kind != PROGRAM_LIST || arg->index >= v->program->list_count ||
        v->program->lists[arg->index].count != call->args[1].value)
        return REFUSE(v, "%u: a copy list of tile %u is wrong", v->step, call->tile);
    const struct program_list *list = &v->program->lists[arg->index];
    for (uint32_t i = 0; i < list->count; i++) {
        const struct program_copy *c = &list->copies[i];
        if (c->bytes % 8 != 0 || v->program->buffers[c->source.buffer].members != 1)
            return REFUSE(v, "%u: a copy of %u bytes on tile %u", v->step, c->bytes, call->tile);
        if (!reads(v, call->tile, c->source, c->bytes) ||
            !writes(v, call->tile, c->destination, c->bytes, WRITTEN))
            return false;
    }
    return true;
}

static bool verify_gather(struct verify *v, const struct program_call *call, uint32_t size)
{
    const struct program_arg *arg = &call->args[0];
    uint32_t count = call->args[3].value;
    if (arg->kind != PROGRAM_TABLE || arg->index >= v->program->table_count || count % 2 != 0 ||
        v->program->tables[arg->index].count < count)
        return REFUSE(v, "%u: a gather table of tile %u is wrong", v->step, call->tile);
    const uint16_t *entries = v->program->tables[arg->index].entries;
    for (uint32_t i = 0; i < count; i++) {
        struct program_ref ref = {call->args[1].index,
                                  call->args[1].value + entries[i] * size / UNIT * UNIT};
        if (!reads(v, call->tile, ref, UNIT))
            return false;
    }
    const struct kernel_access out = {.arg = 2, .write = true, .runs = 1, .bytes = count * size};
    return access_runs(v, call, &out);
}

static bool verify_rules(struct verify *v, const struct program_call *call)
{
    const struct kernel_spec *spec = &v->program->specs[call->spec];
    const struct kernel_info *info = kernel_info(spec->family);
    for (unsigned i = 0; i < info->arg_count; i++)
        if (kernel_operand_of(spec, i) == KERNEL_OPERAND_INTERLEAVED &&
            !v->program->buffers[call->args[i].index].interleaved)
            return REFUSE(v, "%u: operand %s of %s on tile %u is not interleaved", v->step,
                          info->arg_names[i], info->name, call->tile);
    if (info->distinct_a >= 0 &&
        call->args[info->distinct_a].index == call->args[info->distinct_b].index)
        return REFUSE(v, "%u: operands of %s on tile %u share a buffer", v->step, info->name,
                      call->tile);
    return true;
}

static bool verify_call(struct verify *v, const struct program_call *call)
{
    if (call->spec >= v->program->spec_count)
        return REFUSE(v, "%u: a call names kernel %u", v->step, call->spec);
    const struct kernel_spec *spec = &v->program->specs[call->spec];
    if (!verify_rules(v, call))
        return false;
    if (spec->family == KERNEL_COPY_LIST)
        return verify_list(v, call);
    if (spec->family == KERNEL_GATHER16 || spec->family == KERNEL_GATHER32)
        return verify_gather(v, call, spec->family == KERNEL_GATHER32 ? 4 : 2);
    struct kernel_access access[KERNEL_MAX_ACCESSES];
    unsigned n = kernel_accesses(spec, call, access);
    for (unsigned i = 0; i < n; i++)
        if (!access[i].write && !access_runs(v, call, &access[i]))
            return false;
    for (unsigned i = 0; i < n; i++)
        if (access[i].write && !access_runs(v, call, &access[i]))
            return false;
    return true;
}

static bool verify_compute(struct verify *v, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->call_count; i++) {
        if (i > 0 && step->calls[i].tile < step->calls[i - 1].tile)
            return REFUSE(v, "%u: the calls are not sorted by tile", v->step);
        if (!verify_call(v, &step->calls[i]))
            return false;
    }
    return true;
}

/* --- exchanges ------------------------------------------------------------------------------ */

static bool verify_targets(struct verify *v, const struct program_transfer *t)
{
    if (t->words == 0 || t->target_count == 0 ||
        (t->target_count == 1 && t->targets[0].tile == t->tile))
        return REFUSE(v, "%u: tile %u sends to nobody else", v->step, t->tile);
    for (uint32_t i = 0; i < t->target_count; i++) {
        if (i > 0 && t->targets[i].tile <= t->targets[i - 1].tile)
            return REFUSE(v, "%u: the targets of tile %u are not sorted", v->step, t->tile);
        if (!writes(v, t->targets[i].tile, t->targets[i].destination, 4ull * t->words, FRESH))
            return false;
    }
    return true;
}

static void settle(struct verify *v, const struct program_transfer *t)
{
    for (uint32_t i = 0; i < t->target_count; i++) {
        uint8_t *unit = v->units + first_unit(v, t->targets[i].destination, 0);
        memset(unit, WRITTEN, (4 * (size_t)t->words + UNIT - 1) / UNIT);
    }
}

static bool verify_exchange(struct verify *v, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->transfer_count; i++)
        if (!verify_targets(v, &step->transfers[i]))
            return false;
    for (uint32_t i = 0; i < step->transfer_count; i++) {
        const struct program_transfer *t = &step->transfers[i];
        if (v->program->buffers[t->source.buffer].members != 1)
            return REFUSE(v, "%u: tile %u sends a sequence", v->step, t->tile);
        if (!reads(v, t->tile, t->source, 4ull * t->words))
            return false;
    }
    for (uint32_t i = 0; i < step->transfer_count; i++)
        settle(v, &step->transfers[i]);
    return true;
}

/* --- host ----------------------------------------------------------------------------------- */

static bool verify_uploads(struct verify *v)
{
    v->step = 0;
    for (uint32_t i = 0; i < v->program->upload_count; i++) {
        const struct program_upload *u = &v->program->uploads[i];
        const struct program_buffer *b = &v->program->buffers[u->to.buffer];
        if (u->to.buffer >= v->program->buffer_count || u->member >= b->members || b->first != 0)
            return REFUSE(v, "0: upload %u has no place", i);
        if (v->flow->tensors[u->tensor].source == FLOW_PARAMETER && !b->resident)
            return REFUSE(v, "0: the parameter of upload %u may be overwritten", i);
        memset(v->units + first_unit(v, (struct program_ref){u->to.buffer, 0}, u->member), WRITTEN,
               b->bytes / UNIT);
    }
    return true;
}

/* Marks the cells of one download; *missing counts those of the output not yet marked. */
static bool verify_download(struct verify *v, const struct program_download *d, uint8_t *cells,
                            uint64_t *missing)
{
    const struct flow_tensor *t = &v->flow->tensors[v->flow->outputs[d->output].tensor];
    uint64_t panels = plan_panels(t->columns);
    unsigned tile = v->program->buffers[d->from.buffer].tile;
    if (!reads(v, tile, d->from, (uint64_t)d->rows * d->panels * program_cell_bytes(t->type)))
        return false;
    for (uint32_t k = 0; k < d->rows * d->panels; k++) {
        uint64_t row = d->row + k % d->rows, panel = d->panel + k / d->rows;
        if (row >= t->rows || panel >= panels)
            return REFUSE(v, "%u: output %u is read outside itself", v->step, d->output);
        *missing -= !cells[row * panels + panel];
        cells[row * panels + panel] = 1;
    }
    return true;
}

static bool verify_output(struct verify *v, unsigned output)
{
    const struct flow_tensor *t = &v->flow->tensors[v->flow->outputs[output].tensor];
    uint64_t panels = plan_panels(t->columns), missing = t->rows * panels;
    uint8_t *cells = ipu_calloc(t->rows * panels, 1);
    if (cells == NULL) {
        v->code = ipu_error_set(v->error, IPU_ERR_NO_MEMORY, "lower: verify: out of memory");
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < v->program->download_count && good; i++) {
        const struct program_download *d = &v->program->downloads[i];
        if (d->output == output)
            good = verify_download(v, d, cells, &missing);
    }
    ipu_free(cells);
    if (good && missing > 0)
        return REFUSE(v, "%u: %llu cells of output %u are never read back", v->step,
                      (unsigned long long)missing, output);
    return good;
}

/* --- the whole ------------------------------------------------------------------------------ */

static bool verify_steps(struct verify *v)
{
    for (v->step = 0; v->step < v->program->step_count; v->step++) {
        const struct program_step *s = &v->program->steps[v->step];
        bool good = true;
        if (s->kind == PROGRAM_COMPUTE)
            good = verify_compute(v, s);
        else if (s->kind == PROGRAM_EXCHANGE)
            good = verify_exchange(v, s);
        else if (s->other >= v->program->step_count || v->program->steps[s->other].other != v->step)
            good = REFUSE(v, "%u: a repeat has no other end", v->step);
        if (!good)
            return false;
    }
    for (unsigned o = 0; o < v->flow->output_count; o++)
        if (!verify_output(v, o))
            return false;
    return true;
}

int lower_verify(const struct flow *flow, const struct program *program, struct ipu_error *error)
{
    struct verify v = {.flow = flow, .program = program, .error = error};
    uint64_t units = 0;
    v.base = ipu_calloc(program->buffer_count + 1, sizeof *v.base);
    for (uint32_t i = 0; v.base != NULL && i < program->buffer_count; i++) {
        v.base[i] = units;
        units += program_buffer_bytes(&program->buffers[i]) / UNIT;
    }
    v.units = ipu_calloc(units + 1, 1);
    if (v.base == NULL || v.units == NULL)
        v.code = ipu_error_set(error, IPU_ERR_NO_MEMORY, "lower: verify: out of memory");
    else if (verify_uploads(&v))
        verify_steps(&v);
    ipu_free(v.base);
    ipu_free(v.units);
    return v.code;
}
