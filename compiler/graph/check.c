/* graph_check(): proves the rules of docs/WORKLOADS.md on a workload message and infers what it
 * leaves out.
 *
 * The message is untrusted. Values are defined strictly before use, so cycles and dangling ids are
 * one kind of error. A value is visible in its own region and in the bodies inside it. Every
 * message names the operation by position, kind and label.
 */
#include "compiler/graph/check.h"

#include <stdio.h>
#include <string.h>

static const char *const op_names[] = {
#define GRAPH_OP(id, name) name,
#include "compiler/graph/ops.def"
#undef GRAPH_OP
};

const char *graph_op_name(enum graph_op_kind kind)
{
    return (unsigned)kind < GRAPH_OP_KINDS ? op_names[kind] : "unknown";
}

const char *graph_shape_text(const uint64_t *shape, unsigned rank, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (unsigned i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%llu", i ? ", " : "",
                                 (unsigned long long)shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

int check_fail(const struct check *c, int code, const char *format, ...)
{
    char sentence[IPU_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (c->where[0])
        return ipu_error_set(c->error, code, "%s: %s", c->where, sentence);
    return ipu_error_set(c->error, code, "workload: %s", sentence);
}

/* --- values ----------------------------------------------------------------------------------- */

static int type_of(const struct check *c, Ipu__Workload__ElementType type, enum flow_type *out)
{
    switch (type) {
    case IPU__WORKLOAD__ELEMENT_TYPE__F16:
        *out = FLOW_F16;
        return 0;
    case IPU__WORKLOAD__ELEMENT_TYPE__F32:
        *out = FLOW_F32;
        return 0;
    case IPU__WORKLOAD__ELEMENT_TYPE__F8_F143:
    case IPU__WORKLOAD__ELEMENT_TYPE__F8_F152:
        return check_fail(c, IPU_ERR_UNSUPPORTED,
                          "element type f8 is not supported by this version; use F16 or F32");
    default:
        return check_fail(c, IPU_ERR_INVALID, "element type %d is unknown; use F16 or F32",
                          (int)type);
    }
}

static int shape_of(const struct check *c, const Ipu__Workload__Value *value,
                    struct graph_value *out)
{
    if (value->n_shape == 0 || value->n_shape > GRAPH_MAX_RANK)
        return check_fail(c, IPU_ERR_INVALID, "value %u has %zu axes; 1 to %d are allowed",
                          value->id, value->n_shape, GRAPH_MAX_RANK);
    uint64_t elements = 1;
    for (size_t i = 0; i < value->n_shape; i++) {
        uint64_t n = value->shape[i];
        if (n == 0 || n > INT32_MAX)
            return check_fail(c, IPU_ERR_INVALID,
                              "value %u: axis %zu has %llu elements; 1 to 2147483647 are allowed",
                              value->id, i, (unsigned long long)n);
        elements *= n;
        if (elements > GRAPH_MAX_HOST_BYTES / 2)
            return check_fail(c, IPU_ERR_NO_FIT,
                              "value %u has more than %d elements; the tile memories of one device "
                              "hold 919,797,760 bytes",
                              value->id, GRAPH_MAX_HOST_BYTES / 2);
        out->shape[i] = n;
    }
    out->rank = (unsigned)value->n_shape;
    out->elements = elements;
    return 0;
}

static int name_of(struct check *c, const char *name, const char **out)
{
    size_t length = strlen(name);
    if (length > GRAPH_MAX_NAME)
        return check_fail(c, IPU_ERR_INVALID, "name \"%.16s...\" is longer than %d characters",
                          name, GRAPH_MAX_NAME);
    for (size_t i = 0; i < length; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", name[i]))
            return check_fail(c, IPU_ERR_INVALID,
                              "name \"%s\" has a character outside [A-Za-z0-9_.-]", name);
    *out = arena_strdup(c->arena, name);
    return *out ? 0 : check_fail(c, IPU_ERR_NO_MEMORY, "out of memory");
}

int check_lookup(const struct check *c, uint32_t id)
{
    uint32_t mask = c->slot_count - 1;
    for (uint32_t i = (uint32_t)hash64_mix(id) & mask; c->slots[i].id; i = (i + 1) & mask)
        if (c->slots[i].id == id)
            return (int)c->slots[i].index;
    return -1;
}

/* Registers a value and returns its index; `visible` values can be named from now on. */
int check_define(struct check *c, const Ipu__Workload__Value *value, struct graph_value *v)
{
    if (value->id == 0)
        return check_fail(c, IPU_ERR_INVALID, "value id 0 is not allowed; ids start at 1");
    if (check_lookup(c, value->id) >= 0)
        return check_fail(c, IPU_ERR_INVALID, "value id %u is defined twice", value->id);
    if (c->graph->value_count >= GRAPH_MAX_VALUES)
        return check_fail(c, IPU_ERR_LIMIT, "more than %d values", GRAPH_MAX_VALUES);
    int rc = name_of(c, value->name, &v->name);
    if (rc < 0)
        return rc;
    uint32_t index = c->graph->value_count++;
    v->id = value->id;
    c->graph->values[index] = *v;
    c->visible[index] = true;
    uint32_t mask = c->slot_count - 1, i = (uint32_t)hash64_mix(value->id) & mask;
    while (c->slots[i].id)
        i = (i + 1) & mask;
    c->slots[i].id = value->id;
    c->slots[i].index = index;
    return (int)index;
}

int check_use(const struct check *c, uint32_t id, const char *role)
{
    int index = id ? check_lookup(c, id) : -1;
    if (index < 0)
        return check_fail(c, IPU_ERR_INVALID,
                          "%s names value %u, which is not defined before this operation (dangling "
                          "or part of a cycle)",
                          role, id);
    if (!c->visible[index])
        return check_fail(
            c, IPU_ERR_INVALID,
            "%s names value %u, which belongs to a repeat body and is not visible here", role, id);
    return index;
}

static int check_tensor(struct check *c, const Ipu__Workload__Tensor *tensor, bool parameter,
                        size_t position)
{
    snprintf(c->where, sizeof c->where, "%s %zu", parameter ? "parameter" : "input", position);
    if (!tensor->value)
        return check_fail(c, IPU_ERR_INVALID, "has no value");
    if (tensor->value->name[0])
        snprintf(c->where, sizeof c->where, "%s %zu (%.64s)", parameter ? "parameter" : "input",
                 position, tensor->value->name);
    if (!tensor->value->name[0])
        return check_fail(c, IPU_ERR_INVALID, "has no name");
    struct graph_value v = {.host = true, .parameter = parameter, .data = tensor->data};
    int rc = type_of(c, tensor->value->type, &v.type);
    if (rc == 0)
        rc = shape_of(c, tensor->value, &v);
    if (rc < 0)
        return rc;
    if (!tensor->data || tensor->data->source_case == IPU__WORKLOAD__DATA__SOURCE__NOT_SET)
        return check_fail(c, IPU_ERR_INVALID,
                          "has no data; give raw bytes, a generator or a constant");
    uint64_t bytes = v.elements * (v.type == FLOW_F16 ? 2 : 4);
    if (tensor->data->source_case == IPU__WORKLOAD__DATA__SOURCE_RAW &&
        tensor->data->raw.len != bytes) {
        char shape[128];
        return check_fail(c, IPU_ERR_INVALID, "has %zu bytes of raw data, but shape %s needs %llu",
                          tensor->data->raw.len,
                          graph_shape_text(v.shape, v.rank, shape, sizeof shape),
                          (unsigned long long)bytes);
    }
    c->host_bytes += bytes;
    if (c->host_bytes > GRAPH_MAX_HOST_BYTES)
        return check_fail(
            c, IPU_ERR_NO_FIT,
            "inputs and parameters need more than %d bytes; the tiles hold 919,797,760",
            GRAPH_MAX_HOST_BYTES);
    for (uint32_t i = 0; i < c->graph->value_count; i++)
        if (strcmp(c->graph->values[i].name, tensor->value->name) == 0)
            return check_fail(c, IPU_ERR_INVALID, "the name \"%s\" is used twice",
                              tensor->value->name);
    return check_define(c, tensor->value, &v);
}

/* The result of an operation: `v` holds what was inferred; what the message declares must agree. */
int check_result(struct check *c, const Ipu__Workload__Value *declared, struct graph_value *v)
{
    if (!declared)
        return check_fail(c, IPU_ERR_INVALID, "has no result value");
    if (declared->type != IPU__WORKLOAD__ELEMENT_TYPE__ELEMENT_UNSPECIFIED) {
        enum flow_type type = v->type;
        int rc = type_of(c, declared->type, &type);
        if (rc < 0)
            return rc;
        if (type != v->type)
            return check_fail(
                c, IPU_ERR_INVALID, "result is declared %s but the operation gives %s",
                type == FLOW_F16 ? "f16" : "f32", v->type == FLOW_F16 ? "f16" : "f32");
    }
    v->elements = 1;
    for (unsigned i = 0; i < v->rank; i++) {
        v->elements *= v->shape[i];
        if (v->elements > GRAPH_MAX_HOST_BYTES / 2)
            return check_fail(c, IPU_ERR_NO_FIT, "the result has more than %d elements",
                              GRAPH_MAX_HOST_BYTES / 2);
    }
    bool same = declared->n_shape == v->rank;
    for (unsigned i = 0; same && i < v->rank; i++)
        same = declared->shape[i] == v->shape[i];
    if (declared->n_shape && !same) {
        char want[128], got[128];
        unsigned rank =
            declared->n_shape > GRAPH_MAX_RANK ? GRAPH_MAX_RANK : (unsigned)declared->n_shape;
        return check_fail(c, IPU_ERR_INVALID,
                          "result is declared with shape %s but the operation gives %s",
                          graph_shape_text(declared->shape, rank, want, sizeof want),
                          graph_shape_text(v->shape, v->rank, got, sizeof got));
    }
    return check_define(c, declared, v);
}

/* --- the whole message ------------------------------------------------------------------------ */

static size_t count_values(const Ipu__Workload__Region *region, unsigned depth)
{
    size_t n = 0;
    if (!region || depth > 32)
        return 0;
    for (size_t i = 0; i < region->n_operations; i++) {
        const Ipu__Workload__Operation *op = region->operations[i];
        n++;
        if (op->kind_case == IPU__WORKLOAD__OPERATION__KIND_REPEAT)
            n += 2 * op->repeat->n_carried + op->repeat->n_sequences +
                 count_values(op->repeat->body, depth + 1);
    }
    return n;
}

static int check_options(struct check *c, const Ipu__Workload__Options *options)
{
    uint32_t tiles = options && options->tiles ? options->tiles : 1472;
    if (tiles % 64 || tiles > 1472)
        return check_fail(c, IPU_ERR_INVALID,
                          "options.tiles is %u; it must be a multiple of 64 from 64 to 1472",
                          tiles);
    c->graph->tiles = tiles;
    if (!options)
        return 0;
    if ((unsigned)options->profile > IPU__WORKLOAD__PROFILE_MODE__PROFILE_FULL)
        return check_fail(c, IPU_ERR_INVALID, "options.profile %d is unknown",
                          (int)options->profile);
    if ((unsigned)options->precision > IPU__WORKLOAD__PRECISION_POLICY__PRECISION_FP32)
        return check_fail(c, IPU_ERR_INVALID, "options.precision %d is unknown",
                          (int)options->precision);
    if (!(options->relative_rms_tolerance >= 0 && options->relative_rms_tolerance <= 1))
        return check_fail(c, IPU_ERR_INVALID, "options.relative_rms_tolerance must be from 0 to 1");
    if (options->inferences > 1000)
        return check_fail(c, IPU_ERR_INVALID, "options.inferences is %u; at most 1000 are allowed",
                          options->inferences);
    if (options->clock_hz > 4000000000ull)
        return check_fail(c, IPU_ERR_INVALID, "options.clock_hz is above 4 GHz");
    return 0;
}

static int check_outputs(struct check *c)
{
    const Ipu__Workload__Workload *m = c->graph->message;
    c->where[0] = '\0';
    if (m->n_outputs == 0)
        return check_fail(c, IPU_ERR_INVALID, "there are no outputs; name at least one value");
    if (m->n_outputs > 64)
        return check_fail(c, IPU_ERR_LIMIT, "%zu outputs; at most 64 are allowed", m->n_outputs);
    c->graph->outputs = ARENA_ARRAY(c->arena, uint32_t, m->n_outputs);
    if (!c->graph->outputs)
        return check_fail(c, IPU_ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < m->n_outputs; i++) {
        snprintf(c->where, sizeof c->where, "output %zu", i);
        int index = check_use(c, m->outputs[i], "it");
        if (index < 0)
            return index;
        struct graph_value *v = &c->graph->values[index];
        if (!v->name[0])
            v->name = arena_printf(c->arena, "output.%zu", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(c->graph->values[c->graph->outputs[k]].name, v->name) == 0)
                return check_fail(c, IPU_ERR_INVALID, "the name \"%s\" is used twice", v->name);
        c->graph->outputs[c->graph->output_count++] = (uint32_t)index;
    }
    return 0;
}

static int prepare(struct check *c)
{
    const Ipu__Workload__Workload *m = c->graph->message;
    size_t n = m->n_inputs + m->n_parameters + count_values(m->graph, 0);
    if (n > GRAPH_MAX_VALUES)
        return check_fail(c, IPU_ERR_LIMIT, "more than %d values", GRAPH_MAX_VALUES);
    c->slot_count = 16;
    while (c->slot_count < 2 * n + 2)
        c->slot_count *= 2;
    c->slots = ARENA_ARRAY(c->arena, struct check_slot, c->slot_count);
    c->visible = ARENA_ARRAY(c->arena, bool, n + 1);
    c->graph->values = ARENA_ARRAY(c->arena, struct graph_value, n + 1);
    if (!c->slots || !c->visible || !c->graph->values)
        return check_fail(c, IPU_ERR_NO_MEMORY, "out of memory");
    return 0;
}

static int check_message(struct check *c)
{
    const Ipu__Workload__Workload *m = c->graph->message;
    if (m->version != 1)
        return check_fail(c, IPU_ERR_VERSION, "version is %u; this program reads version 1",
                          m->version);
    int rc = name_of(c, m->name, &c->graph->name);
    const char *family;
    if (rc == 0 && m->benchmark)
        rc = name_of(c, m->benchmark->family, &family);
    if (rc == 0)
        rc = check_options(c, m->options);
    if (rc == 0)
        rc = prepare(c);
    for (size_t i = 0; rc >= 0 && i < m->n_inputs; i++)
        rc = check_tensor(c, m->inputs[i], false, i);
    for (size_t i = 0; rc >= 0 && i < m->n_parameters; i++)
        rc = check_tensor(c, m->parameters[i], true, i);
    c->where[0] = '\0';
    if (rc >= 0 && (!m->graph || m->graph->n_operations == 0))
        rc = check_fail(c, IPU_ERR_INVALID, "the graph has no operations");
    if (rc >= 0)
        rc = check_region(c, m->graph, &c->graph->top, "");
    if (rc >= 0)
        rc = check_outputs(c);
    return rc;
}

int graph_check(const Ipu__Workload__Workload *message, struct arena *arena, struct graph **out,
                struct ipu_error *error)
{
    struct check c = {.arena = arena, .error = error};
    c.graph = ARENA_NEW(arena, struct graph);
    if (!c.graph)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "workload: out of memory");
    c.graph->message = message;
    int rc = check_message(&c);
    if (rc < 0)
        return rc;
    *out = c.graph;
    return 0;
}
