/* Workload construction: see build.h. Lists grow in the arena; the message points into them at
 * serialisation. */
#include "proto/build.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define MAKE(b, type, message)                                                                     \
    ((type *)make(b, sizeof(type), &ipu__workload__##message##__descriptor))

static void *make(struct workload_build *b, size_t size,
                  const ProtobufCMessageDescriptor *descriptor)
{
    void *object = arena_calloc(b->arena, 1, size);
    if (!object) {
        b->failed = true;
        return NULL;
    }
    protobuf_c_message_init(descriptor, object);
    return object;
}

static void push(struct workload_build *b, struct build_list *list, void *item)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        void **items = arena_calloc(b->arena, capacity, sizeof *items);
        if (!items) {
            b->failed = true;
            return;
        }
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

static char *text(struct workload_build *b, const char *s)
{
    char *copy = arena_strdup(b->arena, s ? s : "");
    if (!copy)
        b->failed = true;
    return copy;
}

void build_begin(struct workload_build *b, const char *name, uint32_t tiles)
{
    *b = (struct workload_build){.next_id = 1, .depth = 1};
    b->arena = arena_create(0);
    b->failed = !b->arena;
    if (b->failed)
        return;
    ipu__workload__workload__init(&b->message);
    ipu__workload__options__init(&b->options);
    ipu__workload__benchmark__init(&b->benchmark);
    b->message.version = 1;
    b->message.name = text(b, name);
    b->message.options = &b->options;
    b->options.tiles = tiles;
}

void build_end(struct workload_build *b)
{
    arena_destroy(b->arena);
    b->arena = NULL;
}

static Ipu__Workload__Value *value(struct workload_build *b, const char *name,
                                   Ipu__Workload__ElementType type, const uint64_t *shape,
                                   unsigned rank)
{
    Ipu__Workload__Value *v = b->failed ? NULL : MAKE(b, Ipu__Workload__Value, value);
    if (!v)
        return NULL;
    v->id = b->next_id++;
    v->name = text(b, name);
    v->type = type;
    v->n_shape = rank;
    v->shape = rank ? arena_memdup(b->arena, shape, rank * sizeof *shape) : NULL;
    b->failed = b->failed || (rank && !v->shape);
    return v;
}

static uint32_t host(struct workload_build *b, struct build_list *list, Ipu__Workload__Value *v,
                     uint64_t seed, double scale)
{
    if (!v)
        return 0;
    Ipu__Workload__Tensor *t = MAKE(b, Ipu__Workload__Tensor, tensor);
    Ipu__Workload__Data *d = MAKE(b, Ipu__Workload__Data, data);
    Ipu__Workload__Generator *g = MAKE(b, Ipu__Workload__Generator, generator);
    if (!t || !d || !g)
        return 0;
    g->seed = seed;
    g->scale = scale;
    d->source_case = IPU__WORKLOAD__DATA__SOURCE_GENERATOR;
    d->generator = g;
    t->value = v;
    t->data = d;
    push(b, list, t);
    return v->id;
}

uint32_t build_input(struct workload_build *b, const char *name, Ipu__Workload__ElementType type,
                     const uint64_t *shape, unsigned rank, uint64_t seed, double scale)
{
    return host(b, &b->inputs, value(b, name, type, shape, rank), seed, scale);
}

uint32_t build_parameter(struct workload_build *b, const char *name,
                         Ipu__Workload__ElementType type, const uint64_t *shape, unsigned rank,
                         uint64_t seed, double scale)
{
    return host(b, &b->parameters, value(b, name, type, shape, rank), seed, scale);
}

void build_raw(struct workload_build *b, const void *data, size_t size)
{
    struct build_list *list = &b->inputs;
    uint32_t newest = 0;
    Ipu__Workload__Tensor *last = NULL;
    for (int pass = 0; pass < 2; pass++, list = &b->parameters) {
        Ipu__Workload__Tensor *t = list->count ? list->items[list->count - 1] : NULL;
        if (t && t->value->id > newest) {
            last = t;
            newest = t->value->id;
        }
    }
    uint8_t *copy = last ? arena_memdup(b->arena, data, size) : NULL;
    if (!copy) {
        b->failed = true;
        return;
    }
    last->data->source_case = IPU__WORKLOAD__DATA__SOURCE_RAW;
    last->data->raw = (ProtobufCBinaryData){size, copy};
}

/* --- operations ------------------------------------------------------------------------------- */

static Ipu__Workload__Operation *operation(struct workload_build *b, const char *label)
{
    Ipu__Workload__Operation *op = b->failed ? NULL : MAKE(b, Ipu__Workload__Operation, operation);
    if (!op)
        return NULL;
    op->label = text(b, label);
    push(b, &b->operations[b->depth - 1], op);
    return op;
}

static uint32_t result(struct workload_build *b, Ipu__Workload__Operation *op,
                       Ipu__Workload__ElementType type, const uint64_t *shape, unsigned rank)
{
    op->result = value(b, "", type, shape, rank);
    return op->result ? op->result->id : 0;
}

static uint32_t inferred(struct workload_build *b, Ipu__Workload__Operation *op)
{
    return result(b, op, IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED, NULL, 0);
}

uint32_t build_matmul(struct workload_build *b, const char *label, uint32_t left, uint32_t right,
                      bool transpose_left, bool transpose_right)
{
    Ipu__Workload__Operation *op = operation(b, label);
    Ipu__Workload__MatMul *m = op ? MAKE(b, Ipu__Workload__MatMul, mat_mul) : NULL;
    if (!m)
        return 0;
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_MATMUL;
    op->matmul = m;
    m->left = left;
    m->right = right;
    m->transpose_left = transpose_left;
    m->transpose_right = transpose_right;
    return inferred(b, op);
}

uint32_t build_add(struct workload_build *b, const char *label, uint32_t left, uint32_t right)
{
    Ipu__Workload__Operation *op = operation(b, label);
    Ipu__Workload__Add *m = op ? MAKE(b, Ipu__Workload__Add, add) : NULL;
    if (!m)
        return 0;
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_ADD;
    op->add = m;
    m->left = left;
    m->right = right;
    return inferred(b, op);
}

uint32_t build_gelu(struct workload_build *b, const char *label, uint32_t input)
{
    Ipu__Workload__Operation *op = operation(b, label);
    Ipu__Workload__Gelu *m = op ? MAKE(b, Ipu__Workload__Gelu, gelu) : NULL;
    if (!m)
        return 0;
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_GELU;
    op->gelu = m;
    m->input = input;
    return inferred(b, op);
}

uint32_t build_relu(struct workload_build *b, const char *label, uint32_t input)
{
    Ipu__Workload__Operation *op = operation(b, label);
    Ipu__Workload__Relu *m = op ? MAKE(b, Ipu__Workload__Relu, relu) : NULL;
    if (!m)
        return 0;
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_RELU;
    op->relu = m;
    m->input = input;
    return inferred(b, op);
}

uint32_t build_cast(struct workload_build *b, const char *label, uint32_t input,
                    Ipu__Workload__ElementType type)
{
    Ipu__Workload__Operation *op = operation(b, label);
    Ipu__Workload__Cast *m = op ? MAKE(b, Ipu__Workload__Cast, cast) : NULL;
    if (!m)
        return 0;
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_CAST;
    op->cast = m;
    m->input = input;
    return result(b, op, type, NULL, 0);
}

uint32_t build_reshape(struct workload_build *b, const char *label, uint32_t input,
                       const uint64_t *shape, unsigned rank)
{
    Ipu__Workload__Operation *op = operation(b, label);
    Ipu__Workload__Reshape *m = op ? MAKE(b, Ipu__Workload__Reshape, reshape) : NULL;
    if (!m)
        return 0;
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_RESHAPE;
    op->reshape = m;
    m->input = input;
    return result(b, op, IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED, shape, rank);
}

uint32_t build_transpose(struct workload_build *b, const char *label, uint32_t input,
                         const uint32_t *permutation, unsigned rank)
{
    Ipu__Workload__Operation *op = operation(b, label);
    Ipu__Workload__Transpose *m = op ? MAKE(b, Ipu__Workload__Transpose, transpose) : NULL;
    if (!m)
        return 0;
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_TRANSPOSE;
    op->transpose = m;
    m->input = input;
    m->n_permutation = rank;
    m->permutation = rank ? arena_memdup(b->arena, permutation, rank * sizeof *permutation) : NULL;
    return inferred(b, op);
}

/* --- repeat ----------------------------------------------------------------------------------- */

void build_repeat(struct workload_build *b, const char *label, uint32_t count)
{
    Ipu__Workload__Operation *op = b->depth < BUILD_MAX_NESTING ? operation(b, label) : NULL;
    Ipu__Workload__Repeat *r = op ? MAKE(b, Ipu__Workload__Repeat, repeat) : NULL;
    if (!r) {
        b->failed = true;
        return;
    }
    op->kind_case = IPU__WORKLOAD__OPERATION__KIND_REPEAT;
    op->repeat = r;
    r->count = count;
    b->repeats[b->depth] = op;
    b->operations[b->depth] = b->carried[b->depth] = b->sequences[b->depth] =
        (struct build_list){0};
    b->depth++;
}

uint32_t build_carry(struct workload_build *b, uint32_t initial)
{
    Ipu__Workload__Carried *c = b->failed ? NULL : MAKE(b, Ipu__Workload__Carried, carried);
    if (!c)
        return 0;
    c->initial = initial;
    c->inside = value(b, "", IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED, NULL, 0);
    c->result = value(b, "", IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED, NULL, 0);
    push(b, &b->carried[b->depth - 1], c);
    return c->inside ? c->inside->id : 0;
}

uint32_t build_sequence(struct workload_build *b, const uint32_t *members, uint32_t count)
{
    Ipu__Workload__Sequence *s = b->failed ? NULL : MAKE(b, Ipu__Workload__Sequence, sequence);
    if (!s)
        return 0;
    s->n_members = count;
    s->members = arena_memdup(b->arena, members, count * sizeof *members);
    s->inside = value(b, "", IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED, NULL, 0);
    b->failed = b->failed || !s->members;
    push(b, &b->sequences[b->depth - 1], s);
    return s->inside ? s->inside->id : 0;
}

void build_yield(struct workload_build *b, unsigned index, uint32_t yielded)
{
    struct build_list *list = &b->carried[b->depth - 1];
    if (b->failed || index >= list->count) {
        b->failed = true;
        return;
    }
    ((Ipu__Workload__Carried *)list->items[index])->yielded = yielded;
}

void build_repeat_end(struct workload_build *b)
{
    Ipu__Workload__Region *body =
        b->failed || b->depth < 2 ? NULL : MAKE(b, Ipu__Workload__Region, region);
    if (!body) {
        b->failed = true;
        return;
    }
    unsigned level = --b->depth;
    Ipu__Workload__Repeat *r = b->repeats[level]->repeat;
    body->n_operations = b->operations[level].count;
    body->operations = (Ipu__Workload__Operation **)(void *)b->operations[level].items;
    r->body = body;
    r->n_carried = b->carried[level].count;
    r->carried = (Ipu__Workload__Carried **)(void *)b->carried[level].items;
    r->n_sequences = b->sequences[level].count;
    r->sequences = (Ipu__Workload__Sequence **)(void *)b->sequences[level].items;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void name_result(struct workload_build *b, uint32_t id, const char *name)
{
    for (size_t i = 0; i < b->operations[0].count; i++) {
        Ipu__Workload__Operation *op = b->operations[0].items[i];
        if (op->result && op->result->id == id)
            op->result->name = text(b, name);
        if (op->kind_case != IPU__WORKLOAD__OPERATION__KIND_REPEAT)
            continue;
        for (size_t k = 0; k < op->repeat->n_carried; k++)
            if (op->repeat->carried[k]->result->id == id)
                op->repeat->carried[k]->result->name = text(b, name);
    }
}

void build_output(struct workload_build *b, uint32_t id, const char *name)
{
    if (b->failed)
        return;
    name_result(b, id, name);
    push(b, &b->outputs, (void *)(uintptr_t)id);
}

bool build_serialize(struct workload_build *b, struct buffer *out)
{
    Ipu__Workload__Region *top = b->failed ? NULL : MAKE(b, Ipu__Workload__Region, region);
    if (!top)
        return false;
    top->n_operations = b->operations[0].count;
    top->operations = (Ipu__Workload__Operation **)(void *)b->operations[0].items;
    b->message.graph = top;
    b->message.n_inputs = b->inputs.count;
    b->message.inputs = (Ipu__Workload__Tensor **)(void *)b->inputs.items;
    b->message.n_parameters = b->parameters.count;
    b->message.parameters = (Ipu__Workload__Tensor **)(void *)b->parameters.items;
    b->message.n_outputs = b->outputs.count;
    b->message.outputs = arena_calloc(b->arena, b->outputs.count + 1, sizeof *b->message.outputs);
    if (!b->message.outputs)
        return false;
    for (size_t i = 0; i < b->outputs.count; i++)
        b->message.outputs[i] = (uint32_t)(uintptr_t)b->outputs.items[i];
    size_t size = ipu__workload__workload__get_packed_size(&b->message), base = out->size;
    buffer_append_zero(out, size);
    if (out->failed)
        return false;
    return ipu__workload__workload__pack(&b->message, out->data + base) == size;
}
