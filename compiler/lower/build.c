/* Growing a program: buffers, steps, calls, and the final sorted form.
 *
 * Every use of a buffer is noted with buffer_touch(), so lifetimes follow from the calls and
 * transfers themselves. Fails only for lack of memory (l->code).
 */
#include "compiler/lower/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool lower_fail(struct lower *l, int code, const char *format, ...)
{
    if (l->code != 0)
        return false;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->code = ipu_error_set(l->error, code, "lower: %s%s%s", l->name ? l->name : "",
                            l->name ? ": " : "", text);
    return false;
}

bool lower_oom(struct lower *l)
{
    return lower_fail(l, IPU_ERR_NO_MEMORY, "out of memory");
}

void *vec_push(struct lower *l, struct vec *vec, size_t size)
{
    if (vec->count == vec->capacity) {
        uint32_t capacity = vec->capacity ? 2 * vec->capacity : 16;
        void *items = arena_calloc(l->arena, capacity, size);
        if (items == NULL) {
            lower_oom(l);
            return NULL;
        }
        if (vec->count > 0)
            memcpy(items, vec->items, vec->count * size);
        vec->items = items;
        vec->capacity = capacity;
    }
    void *item = (char *)vec->items + vec->count++ * size;
    memset(item, 0, size);
    return item;
}

bool box_common(const struct box *a, const struct box *b, struct box *out)
{
    uint32_t row = a->row > b->row ? a->row : b->row;
    uint32_t panel = a->panel > b->panel ? a->panel : b->panel;
    uint32_t a_row = a->row + a->rows, b_row = b->row + b->rows;
    uint32_t a_panel = a->panel + a->panels, b_panel = b->panel + b->panels;
    uint32_t row_end = a_row < b_row ? a_row : b_row;
    uint32_t panel_end = a_panel < b_panel ? a_panel : b_panel;
    if (row >= row_end || panel >= panel_end)
        return false;
    *out = (struct box){row, row_end - row, panel, panel_end - panel};
    return true;
}

int64_t view_at(const struct flow_view *view, uint64_t flat)
{
    int64_t at = 0;
    for (unsigned i = view->axes; i-- > 0;) {
        at += (int64_t)(flat % view->axis[i].count) * view->axis[i].stride;
        flat /= view->axis[i].count;
    }
    return at;
}

/* --- buffers -------------------------------------------------------------------------------- */

uint32_t buffer_new(struct lower *l, unsigned tile, uint64_t bytes, uint32_t members)
{
    struct program_buffer *b = vec_push(l, &l->buffers, sizeof *b);
    if (b == NULL)
        return 0;
    if (bytes * members > UINT32_MAX / 2)
        lower_fail(l, IPU_ERR_NO_FIT, "a buffer of %llu bytes on tile %u does not fit 624 KiB",
                   (unsigned long long)(bytes * members), tile);
    b->tile = (uint16_t)tile;
    b->bytes = (uint32_t)((bytes + PROGRAM_ALIGNMENT - 1) / PROGRAM_ALIGNMENT * PROGRAM_ALIGNMENT);
    b->members = members;
    b->first = UINT32_MAX;
    return l->buffers.count - 1;
}

struct program_buffer *buffer_at(struct lower *l, uint32_t buffer)
{
    return (struct program_buffer *)l->buffers.items + buffer;
}

void buffer_touch(struct lower *l, uint32_t buffer, uint32_t step)
{
    struct program_buffer *b = buffer_at(l, buffer);
    b->first = step < b->first ? step : b->first;
    b->last = step > b->last ? step : b->last;
}

/* --- steps and calls ------------------------------------------------------------------------ */

struct program_step *step_at(struct lower *l, uint32_t step)
{
    return (struct program_step *)l->steps.items + step;
}

uint32_t step_next(const struct lower *l)
{
    return l->steps.count;
}

uint32_t step_new(struct lower *l, enum program_step_kind kind)
{
    struct program_step *s = vec_push(l, &l->steps, sizeof *s);
    if (s == NULL || vec_push(l, &l->open, sizeof(struct open_step)) == NULL)
        return 0;
    s->kind = kind;
    s->name = l->name ? l->name : "";
    return l->steps.count - 1;
}

static int spec_index(struct lower *l, const struct kernel_spec *spec)
{
    struct kernel_spec *specs = l->specs.items;
    for (uint32_t i = 0; i < l->specs.count; i++)
        if (memcmp(&specs[i], spec, sizeof *spec) == 0)
            return (int)i;
    struct kernel_spec *fresh = vec_push(l, &l->specs, sizeof *fresh);
    if (fresh == NULL)
        return -1;
    *fresh = *spec;
    return (int)l->specs.count - 1;
}

struct program_call *call_new(struct lower *l, uint32_t step, unsigned tile,
                              const struct kernel_spec *spec)
{
    int index = spec_index(l, spec);
    struct open_step *open = (struct open_step *)l->open.items + step;
    struct program_call *call = vec_push(l, &open->calls, sizeof *call);
    if (call == NULL || index < 0)
        return NULL;
    call->tile = (uint16_t)tile;
    call->spec = (uint16_t)index;
    return call;
}

struct program_call *call_plain(struct lower *l, uint32_t step, unsigned tile,
                                enum kernel_family family)
{
    struct kernel_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.family = family;
    return call_new(l, step, tile, &spec);
}

void call_buffer(struct lower *l, uint32_t step, struct program_call *call, unsigned arg,
                 struct program_ref ref)
{
    call->args[arg] = (struct program_arg){PROGRAM_BUFFER, ref.buffer, ref.offset};
    buffer_touch(l, ref.buffer, step);
    const struct kernel_spec *spec = (struct kernel_spec *)l->specs.items + call->spec;
    if (kernel_operand_of(spec, arg) == KERNEL_OPERAND_INTERLEAVED)
        buffer_at(l, ref.buffer)->interleaved = true;
}

void call_number(struct program_call *call, unsigned arg, uint32_t value)
{
    call->args[arg] = (struct program_arg){PROGRAM_NUMBER, 0, value};
}

/* --- finish --------------------------------------------------------------------------------- */

/* Stable: calls of one tile keep their order. */
static bool sort_calls(struct lower *l, const struct vec *calls, struct program_step *step)
{
    const struct program_call *from = calls->items;
    struct program_call *to = ARENA_ARRAY(l->arena, struct program_call, calls->count);
    uint32_t *at = ARENA_ARRAY(l->arena, uint32_t, PROGRAM_TILES + 1);
    if (to == NULL || at == NULL)
        return lower_oom(l);
    for (uint32_t i = 0; i < calls->count; i++)
        at[from[i].tile + 1]++;
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        at[t + 1] += at[t];
    for (uint32_t i = 0; i < calls->count; i++)
        to[at[from[i].tile]++] = from[i];
    step->calls = to;
    step->call_count = calls->count;
    return true;
}

static void count_transfers(struct program *p, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->transfer_count; i++)
        p->exchanged_words += (uint64_t)step->transfers[i].words * step->transfers[i].target_count;
}

static bool finish_steps(struct lower *l)
{
    struct program *p = l->program;
    for (uint32_t i = 0; i < p->step_count; i++) {
        struct program_step *s = &p->steps[i];
        const struct open_step *open = (const struct open_step *)l->open.items + i;
        s->transfers = open->transfers.items;
        s->transfer_count = open->transfers.count;
        count_transfers(p, s);
        if (s->kind == PROGRAM_EXCHANGE)
            s->phase = p->phase_count++;
        if (open->calls.count > 0 && !sort_calls(l, &open->calls, s))
            return false;
    }
    return true;
}

static bool sort_uploads(struct lower *l)
{
    struct program *p = l->program;
    const struct program_upload *from = l->uploads.items;
    p->uploads = ARENA_ARRAY(l->arena, struct program_upload, l->uploads.count + 1);
    uint32_t *at = ARENA_ARRAY(l->arena, uint32_t, PROGRAM_TILES + 1);
    if (p->uploads == NULL || at == NULL)
        return lower_oom(l);
    for (uint32_t i = 0; i < l->uploads.count; i++)
        at[p->buffers[from[i].to.buffer].tile + 1]++;
    for (unsigned t = 0; t < PROGRAM_TILES; t++)
        at[t + 1] += at[t];
    for (uint32_t i = 0; i < l->uploads.count; i++)
        p->uploads[at[p->buffers[from[i].to.buffer].tile]++] = from[i];
    p->upload_count = l->uploads.count;
    return true;
}

bool program_finish(struct lower *l)
{
    struct program *p = l->program;
    struct kernel_spec pages; /* host pages are copied by every program */
    memset(&pages, 0, sizeof pages);
    pages.family = KERNEL_COPY_LIST;
    if (spec_index(l, &pages) < 0)
        return false;
    p->buffers = l->buffers.items;
    p->buffer_count = l->buffers.count;
    p->steps = l->steps.items;
    p->step_count = l->steps.count;
    p->specs = l->specs.items;
    p->spec_count = l->specs.count;
    p->lists = l->lists.items;
    p->list_count = l->lists.count;
    p->tables = l->tables.items;
    p->table_count = l->tables.count;
    p->downloads = l->downloads.items;
    p->download_count = l->downloads.count;
    return finish_steps(l) && sort_uploads(l);
}
