/* module: compiler */
/* Random graphs through compile, simulation and reference: every ordinary shape must compile and
 * pass. */
#include "compiler/graph/graph.h"
#include "compiler/reference/reference.h"
#include "tests/unit/e2e.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Ipu__Workload__ElementType F16 = IPU__WORKLOAD__ELEMENT_TYPE__F16,
                                        F32 = IPU__WORKLOAD__ELEMENT_TYPE__F32;

struct maker {
    struct workload_build b;
    uint64_t random;
    unsigned hosts;
    char text[1024]; /* what the graph is, for the failure message */
};

static uint64_t draw(struct maker *m, uint64_t n)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (m->random >> 33) % n;
}

static uint64_t size(struct maker *m)
{
    static const uint64_t usual[] = {1,  2,  3,  5,  7,  8,  15, 16,  17,  31,
                                     32, 33, 48, 50, 64, 70, 96, 100, 128, 130};
    return usual[draw(m, sizeof usual / sizeof usual[0])];
}

static void note(struct maker *m, const char *what, uint64_t a, uint64_t b)
{
    size_t used = strlen(m->text);
    snprintf(m->text + used, sizeof m->text - used, " %s(%llu,%llu)", what, (unsigned long long)a,
             (unsigned long long)b);
}

static uint32_t host(struct maker *m, bool parameter, Ipu__Workload__ElementType type,
                     const uint64_t *shape, unsigned rank)
{
    char name[32];
    snprintf(name, sizeof name, "h%u", m->hosts++);
    return parameter ? build_parameter(&m->b, name, type, shape, rank, draw(m, 1000), 0)
                     : build_input(&m->b, name, type, shape, rank, draw(m, 1000), 0);
}

struct cursor {
    uint32_t value;
    uint64_t batch, rows, columns; /* batch 0 = rank 2 */
    Ipu__Workload__ElementType type;
};

static unsigned shape_of(const struct cursor *c, uint64_t *shape)
{
    unsigned rank = 0;
    if (c->batch)
        shape[rank++] = c->batch;
    shape[rank++] = c->rows;
    shape[rank++] = c->columns;
    return rank;
}

static void add_matmul(struct maker *m, struct cursor *c)
{
    uint64_t n = size(m), shape[3];
    bool flip = draw(m, 4) == 0, batched = c->batch && draw(m, 3) == 0;
    unsigned rank = 0;
    if (batched)
        shape[rank++] = c->batch;
    shape[rank++] = flip ? n : c->columns;
    shape[rank++] = flip ? c->columns : n;
    uint32_t w = host(m, draw(m, 4) != 0, F16, shape, rank);
    c->value = build_matmul(&m->b, "", c->value, w, false, flip);
    c->columns = n;
    note(m, batched ? "bmm" : flip ? "matmulT" : "matmul", n, 0);
}

static void add_add(struct maker *m, struct cursor *c)
{
    uint64_t shape[3], kind = draw(m, 5);
    unsigned rank = shape_of(c, shape);
    const uint64_t *first = shape;
    if (kind == 0) { /* bias */
        first = shape + rank - 1;
        rank = 1;
    } else if (kind == 1) { /* column */
        shape[rank - 1] = 1;
    } else if (kind == 2) { /* scalar */
        shape[0] = 1;
        rank = 1;
    } else if (kind == 3 && rank == 3) { /* one matrix for every batch */
        first = shape + 1;
        rank = 2;
    }
    uint32_t other = host(m, draw(m, 2), c->type, first, rank);
    if (draw(m, 3) == 0)
        other = build_relu(&m->b, "", other);
    c->value =
        draw(m, 2) ? build_add(&m->b, "", c->value, other) : build_add(&m->b, "", other, c->value);
    note(m, "add", kind, rank);
}

static void add_transpose(struct maker *m, struct cursor *c)
{
    c->value = build_transpose(&m->b, "", c->value, NULL, 0);
    uint64_t rows = c->rows;
    c->rows = c->columns;
    c->columns = rows;
    note(m, "transpose", c->rows, c->columns);
}

static void add_reshape(struct maker *m, struct cursor *c)
{
    uint64_t flat = c->rows * (c->batch ? c->batch : 1), shape[2] = {flat, c->columns};
    if (draw(m, 2) && flat % 2 == 0) {
        shape[0] = flat / 2;
        shape[1] = c->columns * 2;
    }
    c->value = build_reshape(&m->b, "", c->value, shape, 2);
    *c = (struct cursor){c->value, 0, shape[0], shape[1], c->type};
    note(m, "reshape", shape[0], shape[1]);
}

static void add_step(struct maker *m, struct cursor *c)
{
    switch (draw(m, 9)) {
    case 0:
    case 1:
    case 2:
        if (c->type == F16)
            add_matmul(m, c);
        else
            add_add(m, c);
        return;
    case 3:
        add_add(m, c);
        return;
    case 4:
        c->value = build_gelu(&m->b, "", c->value);
        note(m, "gelu", 0, 0);
        return;
    case 5:
        c->value = build_relu(&m->b, "", c->value);
        note(m, "relu", 0, 0);
        return;
    case 6:
        c->type = c->type == F16 ? F32 : F16;
        c->value = build_cast(&m->b, "", c->value, c->type);
        note(m, "cast", 0, 0);
        return;
    case 7:
        add_transpose(m, c);
        return;
    default:
        add_reshape(m, c);
        return;
    }
}

static void add_repeat(struct maker *m, struct cursor *c)
{
    uint32_t count = 2 + (uint32_t)draw(m, 3), members[2][8];
    uint64_t hidden = size(m), up[2] = {c->columns, hidden}, down[2] = {hidden, c->columns};
    for (uint32_t i = 0; i < count; i++) {
        members[0][i] = host(m, true, F16, up, 2);
        members[1][i] = host(m, true, F16, down, 2);
    }
    build_repeat(&m->b, "loop", count);
    uint32_t inside = build_carry(&m->b, c->value);
    uint32_t w1 = build_sequence(&m->b, members[0], count),
             w2 = build_sequence(&m->b, members[1], count);
    uint32_t h = build_gelu(&m->b, "", build_matmul(&m->b, "", inside, w1, false, false));
    uint32_t y = build_matmul(&m->b, "", h, w2, false, false);
    if (draw(m, 2))
        y = build_add(&m->b, "", y, inside);
    build_yield(&m->b, 0, y);
    build_repeat_end(&m->b);
    c->value = inside + 1;
    note(m, "repeat", count, hidden);
}

static void make_graph(struct maker *m, uint64_t seed, struct buffer *out)
{
    memset(m, 0, sizeof *m);
    m->random = seed * 0x9e3779b97f4a7c15u + 1;
    static const uint32_t tiles[] = {64, 64, 64, 128, 192, 320, 1472};
    uint32_t t = tiles[draw(m, sizeof tiles / sizeof tiles[0])];
    build_begin(&m->b, "property", t);
    struct cursor c = {0, draw(m, 3) == 0 ? 1 + draw(m, 4) : 0, size(m), size(m),
                       draw(m, 8) ? F16 : F32};
    uint64_t shape[3];
    unsigned rank = shape_of(&c, shape);
    note(m, "input", c.rows, c.columns);
    note(m, "batch,tiles", c.batch, t);
    c.value = host(m, false, c.type, shape, rank);
    unsigned steps = 1 + (unsigned)draw(m, 5);
    for (unsigned i = 0; i < steps; i++)
        add_step(m, &c);
    if (c.type == F16 && draw(m, 3) == 0)
        add_repeat(m, &c);
    if (draw(m, 4) == 0)
        build_output(&m->b, c.value, "first");
    c.value = build_relu(&m->b, "", c.value);
    build_output(&m->b, c.value, "last");
    if (!build_serialize(&m->b, out))
        abort();
    build_end(&m->b);
}

/* The outputs of a workload on the host, with or without the device's rounding. */
static float **host_values(const struct buffer *workload, bool round, struct arena *arena,
                           struct graph **graph)
{
    struct graph_message *message;
    struct ipu_error error;
    struct buffer bytes = {0};
    Ipu__Workload__Workload *w =
        ipu__workload__workload__unpack(NULL, workload->size, workload->data);
    w->options->precision = round ? IPU__WORKLOAD__PRECISION_POLICY__PRECISION_DEVICE
                                  : IPU__WORKLOAD__PRECISION_POLICY__PRECISION_FP32;
    uint8_t *packed = malloc(ipu__workload__workload__get_packed_size(w));
    buffer_append(&bytes, packed, ipu__workload__workload__pack(w, packed));
    float **values = NULL;
    if (graph_parse(bytes.data, bytes.size, &message, &error) != 0 ||
        graph_check(graph_message(message), arena, graph, &error) != 0 ||
        reference_evaluate(*graph, 1, arena, &values, &error) != 0)
        ck_abort_msg("%s", error.text);
    graph_release(message);
    ipu__workload__workload__free_unpacked(w, NULL);
    buffer_free(&bytes);
    free(packed);
    return values;
}

static uint64_t elements_of(const struct graph *g, unsigned output)
{
    const struct graph_value *v = &g->values[g->outputs[output]];
    uint64_t n = 1;
    for (unsigned i = 0; i < v->rank; i++)
        n *= v->shape[i];
    return n;
}

/* By how much rounding each operation to f16 moves the worst output, relative to its RMS: how
 * ill-conditioned the graph is. Well-conditioned ones have a few 1e-4. */
static double rounding_moves(const struct buffer *workload)
{
    struct arena *arena = arena_create(0);
    struct graph *graph;
    float **rounded = host_values(workload, true, arena, &graph);
    float **exact = host_values(workload, false, arena, &graph);
    double worst = 0;
    for (unsigned o = 0; o < graph->output_count; o++) {
        double moved = 0, power = 0;
        for (uint64_t i = 0; i < elements_of(graph, o); i++) {
            double d = (double)rounded[o][i] - (double)exact[o][i];
            moved += d * d;
            power += (double)rounded[o][i] * (double)rounded[o][i];
        }
        double relative = power > 0 ? sqrt(moved / power) : 0;
        worst = relative > worst ? relative : worst;
    }
    arena_destroy(arena);
    return worst;
}

/* The device rounds partials too, in an order of its own: it may err by a few times what rounding
 * operations alone does. Two of a thousand graphs need this: repeats of rank one whose values
 * cancel, by 3.5 % and 2.4 % where rounding moves 1.8 % and 1.4 %. */
static bool explained(const struct e2e *e)
{
    enum { TIMES = 4 };
    return isfinite(e->check.relative_rms_error) &&
           e->check.relative_rms_error <= TIMES * rounding_moves(&e->workload);
}

/* Empty when the graph of this seed compiles, runs and passes; else what went wrong. */
static void try_seed(uint64_t seed, char *text, size_t size)
{
    struct maker m;
    struct e2e e = {0};
    make_graph(&m, seed, &e.workload);
    int rc = e2e_run(&e, &(struct e2e_options){.threads = 2});
    text[0] = '\0';
    if (rc != 0)
        snprintf(text, size, "seed %llu:%s: %s\n%s", (unsigned long long)seed, m.text, e.error.text,
                 e.session ? device_fault_report(e.session) : "");
    else if (!e.check.passed && !explained(&e))
        snprintf(text, size, "seed %llu:%s: %s", (unsigned long long)seed, m.text, e.check.reason);
    e2e_free(&e);
}

static int first_seed(void)
{
    const char *text = getenv("IPUD_PROPERTY_SEED");
    if (!text)
        return 0;
    char *end;
    long seed = strtol(text, &end, 10);
    ck_assert_msg(end != text && *end == '\0' && seed >= 0 && seed <= INT32_MAX / 2,
                  "IPUD_PROPERTY_SEED=%s is no seed", text);
    return (int)seed;
}

START_TEST(only_ill_conditioned_graphs_are_excused)
{
    static char text[8192];
    struct maker m;
    struct e2e well = {0}, ill = {0};
    make_graph(&m, 1, &well.workload);
    make_graph(&m, 5804, &ill.workload);
    ck_assert_double_lt(rounding_moves(&well.workload), 5e-4);
    ck_assert_double_gt(rounding_moves(&ill.workload), 1e-2);
    well.check.relative_rms_error = 4e-3;
    ck_assert(!explained(&well));
    ill.check.relative_rms_error = 1;
    ck_assert(!explained(&ill));
    e2e_free(&well);
    e2e_free(&ill);
    try_seed(5804, text, sizeof text);
    ck_assert_msg(text[0] == '\0', "%s", text);
    try_seed(5879, text, sizeof text);
    ck_assert_msg(text[0] == '\0', "%s", text);
}
END_TEST

START_TEST(random_graphs_compile_run_and_pass)
{
    static char text[8192];
    for (int i = 0; i < 20; i++) {
        try_seed((uint64_t)(first_seed() + _i * 20 + i), text, sizeof text);
        ck_assert_msg(text[0] == '\0', "%s", text);
    }
}
END_TEST

int main(void)
{
    const char *level = getenv("IPUD_TEST_LEVEL"), *only = getenv("IPUD_PROPERTY_ONLY");
    if (only) { /* IPUD_PROPERTY_ONLY=first[:last] runs seeds outside the test runner */
        static char text[8192];
        int failures = 0;
        char *end;
        uint64_t first = strtoull(only, &end, 10),
                 last = *end == ':' ? strtoull(end + 1, NULL, 10) : first;
        for (uint64_t seed = first; seed <= last; seed++) {
            try_seed(seed, text, sizeof text);
            printf("%s%s", text, text[0] ? "\n" : "");
            fflush(stdout);
            failures += text[0] != '\0';
        }
        printf("%d of %llu seeds failed\n", failures, (unsigned long long)(last - first + 1));
        return failures != 0;
    }
    int groups = level && strcmp(level, "long") == 0    ? 100
                 : level && strcmp(level, "quick") == 0 ? 1
                                                        : 10;
    Suite *s = suite_create("property");
    TCase *t = tcase_create("property");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, only_ill_conditioned_graphs_are_excused);
    tcase_add_loop_test(t, random_graphs_compile_run_and_pass, 0, groups);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
