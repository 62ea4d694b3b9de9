/* Flows for compiler tests: built by hand, evaluated in plain C, run on the simulated device. */
#ifndef IPU_TESTS_CODEGEN_FLOWS_H
#define IPU_TESTS_CODEGEN_FLOWS_H

#include "base/alloc.h"
#include "base/arena.h"
#include "base/half.h"
#include "base/hash.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/plan.h"
#include "tests/unit/codegen_spread.h"
#ifndef CODEGEN_FLOWS_LOWER_ONLY
#include "compiler/codegen/codegen.h"
#include "compiler/place/place.h"
#include "device/driver/driver.h"
#endif

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOW_MAX = 256 };

struct maker {
    struct arena *arena;
    struct flow flow;
    struct flow_tensor tensors[FLOW_MAX];
    struct flow_host hosts[FLOW_MAX];
    struct flow_region regions[8];
    struct flow_op ops[8][64];
    struct flow_output outputs[8];
    uint32_t region;
};

static inline void maker_begin(struct maker *m, uint32_t tiles)
{
    memset(m, 0, sizeof *m);
    m->arena = arena_create(0);
    m->flow = (struct flow){.name = "test",
                            .region_count = 1,
                            .tensors = m->tensors,
                            .hosts = m->hosts,
                            .regions = m->regions,
                            .outputs = m->outputs,
                            .tiles = tiles};
    for (int i = 0; i < 8; i++)
        m->regions[i].ops = m->ops[i];
}

static inline void maker_end(struct maker *m)
{
    arena_destroy(m->arena);
}

static inline uint32_t maker_tensor(struct maker *m, enum flow_source source, enum flow_type type,
                                    uint64_t rows, uint64_t columns)
{
    uint32_t id = m->flow.tensor_count++;
    ck_assert_uint_lt(id, FLOW_MAX);
    m->tensors[id] = (struct flow_tensor){.id = id,
                                          .source = source,
                                          .type = type,
                                          .rows = rows,
                                          .columns = columns,
                                          .name = "",
                                          .region = m->region};
    return id;
}

static inline double maker_draw(uint64_t seed, uint64_t index)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum +=
            (double)(hash64_mix(seed * 7919 + index * 13 + (uint64_t)i) >> 11) / 9007199254740992.0;
    return sum;
}

/* A host tensor of normal draws times `scale`. */
static inline uint32_t maker_host(struct maker *m, bool parameter, enum flow_type type,
                                  uint64_t rows, uint64_t columns, double scale)
{
    uint32_t h = m->flow.host_count++, saved = m->region;
    uint64_t n = rows * columns, unit = type == FLOW_F32 ? 4 : 2;
    uint8_t *data = arena_calloc(m->arena, n, unit);
    for (uint64_t i = 0; i < n; i++) {
        float value = (float)(scale * maker_draw(h + 1, i));
        uint16_t half = half_from_float(value);
        memcpy(data + i * unit, unit == 4 ? (void *)&value : (void *)&half, unit);
    }
    m->hosts[h] = (struct flow_host){.name = arena_printf(m->arena, "host%u", h),
                                     .parameter = parameter,
                                     .type = type,
                                     .rank = 2,
                                     .shape = {rows, columns},
                                     .data = data,
                                     .bytes = n * unit};
    m->region = 0;
    uint32_t t = maker_tensor(m, parameter ? FLOW_PARAMETER : FLOW_INPUT, type, rows, columns);
    m->region = saved;
    m->tensors[t].host = h;
    m->tensors[t].view = (struct flow_view){.axes = 1, .axis = {{n, 1}}};
    return t;
}

static inline struct flow_op *maker_op(struct maker *m, enum flow_op_kind kind, const char *label)
{
    struct flow_region *r = &m->regions[m->region];
    struct flow_op *op = &r->ops[r->op_count++];
    *op = (struct flow_op){.kind = kind, .label = label, .batch = 1};
    return op;
}

static inline uint32_t maker_gemm(struct maker *m, uint32_t a, uint32_t b, uint32_t batch)
{
    struct flow_op *op = maker_op(m, FLOW_GEMM, "gemm");
    op->a = a;
    op->b = b;
    op->batch = batch;
    return op->out =
               maker_tensor(m, FLOW_COMPUTED, FLOW_F16, m->tensors[a].rows, m->tensors[b].columns);
}

static inline uint32_t maker_unary(struct maker *m, enum flow_op_kind kind, uint32_t a)
{
    struct flow_op *op = maker_op(m, kind, kind == FLOW_GELU ? "gelu" : "unary");
    enum flow_type type = m->tensors[a].type;
    op->a = a;
    if (kind == FLOW_CAST)
        type = type == FLOW_F32 ? FLOW_F16 : FLOW_F32;
    return op->out =
               maker_tensor(m, FLOW_COMPUTED, type, m->tensors[a].rows, m->tensors[a].columns);
}

static inline uint32_t maker_add(struct maker *m, uint32_t a, uint32_t b,
                                 enum flow_broadcast broadcast)
{
    struct flow_op *op = maker_op(m, FLOW_ADD, "add");
    op->a = a;
    op->b = b;
    op->broadcast = broadcast;
    return op->out = maker_tensor(m, FLOW_COMPUTED, m->tensors[a].type, m->tensors[a].rows,
                                  m->tensors[a].columns);
}

static inline uint32_t maker_permute(struct maker *m, uint32_t a, uint64_t rows, uint64_t columns,
                                     struct flow_view view)
{
    struct flow_op *op = maker_op(m, FLOW_PERMUTE, "permute");
    op->a = a;
    op->view = view;
    return op->out = maker_tensor(m, FLOW_COMPUTED, m->tensors[a].type, rows, columns);
}

static inline uint32_t maker_sequence(struct maker *m, uint32_t count, uint64_t rows,
                                      uint64_t columns, double scale)
{
    uint32_t *members = ARENA_ARRAY(m->arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++)
        members[i] = maker_host(m, true, FLOW_F16, rows, columns, scale);
    uint32_t t = maker_tensor(m, FLOW_SEQUENCE, FLOW_F16, rows, columns);
    m->tensors[t].view = m->tensors[members[0]].view;
    m->tensors[t].member_count = count;
    m->tensors[t].members = members;
    return t;
}

/* Opens a repeat with one carried value; returns the tensor inside. */
static inline uint32_t maker_repeat(struct maker *m, uint32_t count, uint32_t initial)
{
    struct flow_op *op = maker_op(m, FLOW_REPEAT, "repeat");
    op->count = count;
    op->region = m->flow.region_count++;
    op->carried_count = 1;
    op->carried = ARENA_ARRAY(m->arena, struct flow_carried, 1);
    op->carried->initial = initial;
    m->region = op->region;
    return op->carried->inside =
               maker_tensor(m, FLOW_CARRIED, m->tensors[initial].type, m->tensors[initial].rows,
                            m->tensors[initial].columns);
}

static inline uint32_t maker_yield(struct maker *m, uint32_t yielded)
{
    struct flow_region *top = &m->regions[0];
    struct flow_carried *c = top->ops[top->op_count - 1].carried;
    c->yielded = yielded;
    m->region = 0;
    return c->result = maker_tensor(m, FLOW_RESULT, m->tensors[yielded].type,
                                    m->tensors[yielded].rows, m->tensors[yielded].columns);
}

static inline void maker_output(struct maker *m, uint32_t tensor)
{
    unsigned i = m->flow.output_count++;
    m->outputs[i] =
        (struct flow_output){.name = arena_printf(m->arena, "out%u", i),
                             .tensor = tensor,
                             .rank = 2,
                             .shape = {m->tensors[tensor].rows, m->tensors[tensor].columns}};
}

/* --- plans by hand -------------------------------------------------------------------------- */

enum scatter { SCATTER_ROWS, SCATTER_PANELS, SCATTER_NONE, SCATTER_FOREIGN, SCATTER_REPLICATE };

static inline uint32_t cut(uint32_t n, uint32_t parts, uint32_t i)
{
    return n * i / parts;
}

static inline int compare_blocks(const void *x, const void *y)
{
    const struct plan_block *a = x, *b = y;
    if (a->tile != b->tile)
        return a->tile < b->tile ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->panel < b->panel ? -1 : a->panel > b->panel;
}

static inline void sort_layout(struct plan_layout *layout)
{
    qsort(layout->blocks, layout->count, sizeof *layout->blocks, compare_blocks);
}

/* gm x gn blocks, block (i, j) on tile first + i * gn + j. */
static inline struct plan_layout grid_layout(struct maker *m, uint32_t tensor, uint32_t gm,
                                             uint32_t gn, uint32_t first)
{
    uint32_t rows = (uint32_t)m->tensors[tensor].rows;
    uint32_t panels = (uint32_t)plan_panels(m->tensors[tensor].columns);
    struct plan_layout out = {gm * gn, ARENA_ARRAY(m->arena, struct plan_block, gm * gn)};
    for (uint32_t i = 0; i < gm * gn; i++) {
        struct plan_block *b = &out.blocks[i];
        b->tile = (uint16_t)(first + i);
        b->row = cut(rows, gm, i / gn);
        b->rows = cut(rows, gm, i / gn + 1) - b->row;
        b->panel = cut(panels, gn, i % gn);
        b->panels = cut(panels, gn, i % gn + 1) - b->panel;
    }
    return out;
}

static inline void push_part(struct plan_layout *out, const struct plan_gemm_job *j, uint32_t part,
                             uint32_t parts, enum scatter scatter)
{
    struct plan_block b = {j->tile, 0, j->row, j->rows, j->panel, j->panels};
    if (scatter == SCATTER_ROWS) {
        b.row += cut(j->rows, parts, part);
        b.rows = cut(j->rows, parts, part + 1) - cut(j->rows, parts, part);
    }
    if (scatter == SCATTER_PANELS) {
        b.panel += cut(j->panels, parts, part);
        b.panels = cut(j->panels, parts, part + 1) - cut(j->panels, parts, part);
    }
    if (scatter == SCATTER_FOREIGN)
        b.tile = (uint16_t)(63 - j->tile);
    bool all = scatter == SCATTER_REPLICATE || part == 0;
    if (b.rows > 0 && b.panels > 0 && (scatter <= SCATTER_PANELS || all))
        out->blocks[out->count++] = b;
}

/* A product on a gm x gn x gk grid, k fastest: the op's plan with its layout. */
static inline struct plan_op grid_gemm(struct maker *m, unsigned op, uint32_t gm, uint32_t gn,
                                       uint32_t gk, uint32_t chunk, enum scatter scatter)
{
    const struct flow_op *f = &m->regions[m->region].ops[op];
    uint32_t rows = (uint32_t)m->tensors[f->a].rows, count = gm * gn * gk;
    uint32_t inners = (uint32_t)plan_panels(m->tensors[f->a].columns);
    uint32_t panels = (uint32_t)plan_panels(m->tensors[f->out].columns);
    struct plan_op out = {
        .region = m->region, .op = op, .job_count = count, .inner_parts = gk, .chunk = chunk};
    out.jobs = ARENA_ARRAY(m->arena, struct plan_gemm_job, count);
    out.out.blocks = ARENA_ARRAY(m->arena, struct plan_block, count);
    for (uint32_t t = 0; t < count; t++) {
        uint32_t k = t % gk, j = t / gk % gn, i = t / gk / gn;
        struct plan_gemm_job *job = &out.jobs[t];
        *job = (struct plan_gemm_job){.tile = (uint16_t)t,
                                      .row = cut(rows, gm, i),
                                      .rows = cut(rows, gm, i + 1) - cut(rows, gm, i),
                                      .inner = cut(inners, gk, k),
                                      .inners = cut(inners, gk, k + 1) - cut(inners, gk, k),
                                      .panel = cut(panels, gn, j),
                                      .panels = cut(panels, gn, j + 1) - cut(panels, gn, j)};
        push_part(&out.out, job, k, gk, scatter);
    }
    sort_layout(&out.out);
    return out;
}

/* --- evaluation ----------------------------------------------------------------------------- */

struct evaluation {
    struct maker *m;
    double *values[FLOW_MAX];
    double *spread[FLOW_MAX]; /* variance of each element by the device's roundings */
};

static inline double eval_round(enum flow_type type, double value)
{
    return type == FLOW_F32 ? (double)(float)value
                            : (double)half_to_float(half_from_float_saturate((float)value));
}

static inline int64_t eval_view(const struct flow_view *view, uint64_t flat)
{
    int64_t at = 0;
    for (unsigned i = view->axes; i-- > 0;) {
        at += (int64_t)(flat % view->axis[i].count) * view->axis[i].stride;
        flat /= view->axis[i].count;
    }
    return at;
}

static inline void eval_host(struct evaluation *e, uint32_t tensor, uint32_t host_tensor)
{
    const struct flow_tensor *t = &e->m->tensors[host_tensor];
    const struct flow_host *h = &e->m->hosts[t->host];
    for (uint64_t i = 0; i < t->rows * t->columns; i++) {
        int64_t at = eval_view(&t->view, i);
        float f;
        uint16_t half;
        memcpy(&half, h->data + 2 * at, 2);
        if (t->type == FLOW_F32)
            memcpy(&f, h->data + 4 * at, 4);
        else
            f = half_to_float(half);
        e->values[tensor][i] = (double)f;
    }
}

static inline double eval_unary(enum flow_op_kind kind, double x)
{
    if (kind == FLOW_GELU)
        return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    return kind == FLOW_RELU && x < 0 ? 0 : x;
}

static inline double eval_element(struct evaluation *e, const struct flow_op *op, uint64_t r,
                                  uint64_t c)
{
    const struct flow_tensor *a = &e->m->tensors[op->a], *b = &e->m->tensors[op->b],
                             *o = &e->m->tensors[op->out];
    uint64_t row = op->row_map.axes ? (uint64_t)eval_view(&op->row_map, r) : r;
    double sum = 0;
    switch (op->kind) {
    case FLOW_GEMM:
        for (uint64_t k = 0; k < a->columns; k++)
            sum += e->values[op->a][r * a->columns + k] *
                   e->values[op->b][(r / (o->rows / op->batch) * a->columns + k) * b->columns + c];
        return sum;
    case FLOW_ADD:
        if (op->broadcast == FLOW_ROW || op->broadcast == FLOW_SCALAR)
            row = 0;
        return e->values[op->a][r * o->columns + c] +
               e->values[op->b]
                        [row * b->columns +
                         (op->broadcast == FLOW_COLUMN || op->broadcast == FLOW_SCALAR ? 0 : c)];
    case FLOW_PERMUTE:
        return e->values[op->a][eval_view(&op->view, r * o->columns + c)];
    default:
        return eval_unary(op->kind, e->values[op->a][r * o->columns + c]);
    }
}

static inline double spread_element(struct evaluation *e, const struct flow_op *op, uint64_t r,
                                    uint64_t c)
{
    const struct flow_tensor *a = &e->m->tensors[op->a], *b = &e->m->tensors[op->b],
                             *o = &e->m->tensors[op->out];
    double **v = e->values, **d = e->spread;
    uint64_t row = op->row_map.axes ? (uint64_t)eval_view(&op->row_map, r) : r, from = r;
    bool one_row = op->broadcast == FLOW_ROW || op->broadcast == FLOW_SCALAR;
    bool one_column = op->broadcast == FLOW_COLUMN || op->broadcast == FLOW_SCALAR;
    switch (op->kind) {
    case FLOW_GEMM:
        from = r / (o->rows / op->batch) * a->columns * b->columns + c;
        return spread_product(v[op->a] + r * a->columns, d[op->a] + r * a->columns, v[op->b] + from,
                              d[op->b] + from, a->columns, b->columns);
    case FLOW_ADD:
        return d[op->a][r * o->columns + c] +
               d[op->b][(one_row ? 0 : row) * b->columns + (one_column ? 0 : c)];
    case FLOW_PERMUTE:
        return d[op->a][eval_view(&op->view, r * o->columns + c)];
    case FLOW_GELU:
        return spread_gelu(v[op->a][r * o->columns + c], d[op->a][r * o->columns + c]);
    default:
        return d[op->a][r * o->columns + c];
    }
}

/* Computes one operation, and what rounding does to it. */
static inline void eval_op(struct evaluation *e, const struct flow_op *op)
{
    const struct flow_tensor *o = &e->m->tensors[op->out];
    for (uint64_t r = 0; r < o->rows; r++)
        for (uint64_t c = 0; c < o->columns; c++) {
            uint64_t at = r * o->columns + c;
            e->values[op->out][at] = eval_round(o->type, eval_element(e, op, r, c));
            e->spread[op->out][at] =
                spread_element(e, op, r, c) + spread_round(o->type, e->values[op->out][at]);
        }
}

/* initial -> inside, yielded -> inside, inside -> result. */
static inline void eval_carried(struct evaluation *e, const struct flow_op *op, int stage)
{
    for (unsigned i = 0; i < op->carried_count; i++) {
        const struct flow_carried *c = &op->carried[i];
        const struct flow_tensor *t = &e->m->tensors[c->inside];
        uint32_t from = stage == 0 ? c->initial : stage == 1 ? c->yielded : c->inside;
        uint32_t to = stage == 2 ? c->result : c->inside;
        memcpy(e->values[to], e->values[from], t->rows * t->columns * sizeof(double));
        memcpy(e->spread[to], e->spread[from], t->rows * t->columns * sizeof(double));
    }
}

static inline void eval_region(struct evaluation *e, uint32_t region, uint32_t iteration)
{
    struct maker *m = e->m;
    for (uint32_t t = 0; region != 0 && t < m->flow.tensor_count; t++)
        if (m->tensors[t].source == FLOW_SEQUENCE && m->tensors[t].region == region)
            eval_host(e, t, m->tensors[t].members[iteration]);
    for (unsigned i = 0; i < m->regions[region].op_count; i++) {
        const struct flow_op *op = &m->regions[region].ops[i];
        if (op->kind == FLOW_REPEAT) {
            eval_carried(e, op, 0);
            for (uint32_t n = 0; n < op->count; n++) {
                eval_region(e, op->region, n);
                eval_carried(e, op, 1);
            }
            eval_carried(e, op, 2);
            continue;
        }
        eval_op(e, op);
    }
}

static inline struct evaluation *evaluate(struct maker *m)
{
    struct evaluation *e = ARENA_NEW(m->arena, struct evaluation);
    e->m = m;
    for (uint32_t t = 0; t < m->flow.tensor_count; t++) {
        e->values[t] = ARENA_ARRAY(m->arena, double, m->tensors[t].rows * m->tensors[t].columns);
        e->spread[t] = ARENA_ARRAY(m->arena, double, m->tensors[t].rows * m->tensors[t].columns);
        if (m->tensors[t].source == FLOW_PARAMETER || m->tensors[t].source == FLOW_INPUT)
            eval_host(e, t, t);
    }
    eval_region(e, 0, 0);
    return e;
}

/* --- compile and run ------------------------------------------------------------------------ */

static inline void expect_ok(int code, const struct ipu_error *error)
{
    if (code != 0)
        ck_abort_msg("%d: %s", code, error->text);
}

static inline struct plan *plan_of(struct maker *m, unsigned search_ms)
{
    struct plan_result result = {0};
    struct ipu_error error;
    struct buffer state = {0};
    struct plan_options options = {.search_ms = search_ms, .finalists = 1, .threads = 1};
    result.state = &state;
    expect_ok(plan_search(&m->flow, &options, m->arena, &result, &error), &error);
    buffer_free(&state);
    return result.plans[0];
}

#ifndef CODEGEN_FLOWS_LOWER_ONLY
struct compiled {
    struct program *program;
    struct program_schedule *schedule;
    struct package *package;
    uint32_t region0[PROGRAM_TILES];
    struct ipu_error error;
};

static inline void lower_and_place(struct maker *m, const struct plan *plan, struct compiled *c,
                                   const struct codegen_options *options)
{
    struct place_report report;
    struct ipu_error *e = &c->error;
    expect_ok(lower_program(&m->flow, plan, m->arena, &c->program, e), e);
    expect_ok(lower_verify(&m->flow, c->program, e), e);
    expect_ok(codegen_reserve(&m->flow, c->program, options, m->arena, c->region0, e), e);
    expect_ok(place_program(c->program, c->region0, m->arena, &report, e), e);
    expect_ok(place_verify(c->program, c->region0, m->arena, e), e);
    expect_ok(program_schedule(c->program, c->region0, 1, options, m->arena, &c->schedule, e), e);
}

static inline void compile_flow(struct maker *m, const struct plan *plan, struct compiled *c,
                                enum codegen_profile profile)
{
    const struct codegen_options options = {.threads = 2, .profile = profile, .compiler = "test"};
    memset(c, 0, sizeof *c);
    lower_and_place(m, plan, c, &options);
    expect_ok(codegen_package(&m->flow, c->program, c->schedule, &options, m->arena, &c->package,
                              &c->error),
              &c->error);
}

static inline struct device_session *open_device(void)
{
    struct device_session *device;
    struct ipu_error error;
    const struct device_options options = {
        .device = "sim", .threads = 2, .strict = true, .cycle_limit = 50000000};
    expect_ok(device_open(&options, &device, &error), &error);
    return device;
}

static inline void expect_run(struct device_session *d, struct device_summary *summary,
                              struct ipu_error *error, int code)
{
    (void)summary;
    if (code != 0)
        ck_abort_msg("%s\n%s", error->text, device_fault_report(d));
}

static inline double read_element(const uint8_t *data, enum flow_type type, uint64_t i)
{
    float f;
    uint16_t half;
    if (type == FLOW_F32) {
        memcpy(&f, data + 4 * i, 4);
        return (double)f;
    }
    memcpy(&half, data + 2 * i, 2);
    return (double)half_to_float(half);
}

/* Relative RMS error of every output against the evaluation must stay below `tolerance`, or below
 * three deviations of what rounding alone is expected to do where terms cancel. */
static inline void expect_outputs(struct maker *m, const struct device_session *d,
                                  const struct evaluation *e, double tolerance)
{
    for (unsigned o = 0; o < m->flow.output_count; o++) {
        const struct flow_tensor *t = &m->tensors[m->outputs[o].tensor];
        size_t size;
        const uint8_t *data = device_output(d, m->outputs[o].name, &size);
        ck_assert_ptr_nonnull(data);
        double error = 0, power = 0, spread = 0;
        uint64_t worst = 0;
        double most = 0;
        for (uint64_t i = 0; i < t->rows * t->columns; i++) {
            double want = e->values[t->id][i], got = read_element(data, t->type, i);
            error += (got - want) * (got - want);
            power += want * want;
            spread += e->spread[t->id][i];
            if (fabs(got - want) >= most) {
                most = fabs(got - want);
                worst = i;
            }
        }
        if (!(sqrt(error) <= tolerance * sqrt(power) || sqrt(error) <= 3 * sqrt(spread)))
            ck_abort_msg(
                "output %u: relative RMS error %g (rounding explains %g), worst at row %llu column "
                "%llu: %g not %g",
                o, sqrt(error / power), sqrt(spread / power),
                (unsigned long long)(worst / t->columns), (unsigned long long)(worst % t->columns),
                read_element(data, t->type, worst), e->values[t->id][worst]);
    }
}

/* Compiles, runs twice and compares with the evaluation. */
static inline struct device_summary run_flow(struct maker *m, const struct plan *plan,
                                             enum codegen_profile profile, double tolerance)
{
    struct compiled c;
    struct device_summary summary;
    struct ipu_error error;
    compile_flow(m, plan, &c, profile);
    struct evaluation *e = evaluate(m);
    struct device_session *d = open_device();
    expect_run(d, &summary, &error, device_load(d, c.package, &error));
    for (int i = 0; i < 2; i++) {
        expect_run(d, &summary, &error, device_run(d, &summary, &error));
        expect_outputs(m, d, e, tolerance);
    }
    device_close(d);
    package_destroy(c.package);
    return summary;
}

#endif

#endif
