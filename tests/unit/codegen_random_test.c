/* module: compiler/codegen */
/* Random flows through planning, lowering, placement, scheduling, code generation and execution on
 * the simulated device, compared with a plain evaluation. The seed of a failing flow is its loop
 * index in the report. */
#include "tests/unit/codegen_flows.h"

enum { FLOWS = 48 };

struct dice {
    uint64_t state;
};

static uint32_t roll(struct dice *d, uint32_t sides)
{
    d->state = hash64_mix(d->state + 0x9e3779b97f4a7c15u);
    return (uint32_t)(d->state >> 33) % sides;
}

/* Mostly small, sometimes at or around multiples of 16. */
static uint32_t extent(struct dice *d)
{
    switch (roll(d, 6)) {
    case 0:
        return 1;
    case 1:
        return 16 * (1 + roll(d, 6));
    case 2:
        return 15 + roll(d, 3);
    default:
        return 1 + roll(d, 90);
    }
}

static uint32_t weights(struct maker *m, struct dice *d, uint32_t rows, uint32_t columns)
{
    return maker_host(m, roll(d, 3) != 0, FLOW_F16, rows, columns, 1 / sqrt((double)rows));
}

static uint32_t transposed(struct maker *m, uint32_t a)
{
    uint64_t rows = m->tensors[a].rows, columns = m->tensors[a].columns;
    const struct flow_view view = {.axes = 2, .axis = {{columns, 1}, {rows, (int64_t)columns}}};
    return maker_permute(m, a, columns, rows, view);
}

static uint32_t any_gemm(struct maker *m, struct dice *d, uint32_t a)
{
    uint32_t k = (uint32_t)m->tensors[a].columns, rows = (uint32_t)m->tensors[a].rows;
    uint32_t batch = roll(d, 4) == 0 ? 1 + roll(d, 4) : 1;
    bool computed = m->tensors[a].source == FLOW_COMPUTED && roll(d, 5) == 0;
    if (computed && rows <= 64)
        return maker_gemm(m, a, transposed(m, a), 1);
    if (rows % batch != 0)
        batch = 1;
    uint32_t w = maker_host(m, roll(d, 3) != 0, FLOW_F16, batch * k, extent(d), 1 / sqrt(k));
    return maker_gemm(m, a, w, batch);
}

static uint32_t any_add(struct maker *m, struct dice *d, uint32_t a)
{
    const struct flow_tensor t = m->tensors[a];
    uint32_t sum = a;
    switch (roll(d, 4)) {
    case 0:
        sum = maker_add(m, a, maker_host(m, roll(d, 2), t.type, 1, t.columns, 1), FLOW_ROW);
        break;
    case 1:
        sum = maker_add(m, a, maker_host(m, roll(d, 2), t.type, t.rows, t.columns, 1), FLOW_DENSE);
        break;
    case 2:
        sum = maker_add(m, a, a, FLOW_DENSE);
        break;
    default:
        if (t.type == FLOW_F32)
            return a;
        sum = maker_add(m, a, maker_gemm(m, a, weights(m, d, (uint32_t)t.columns, 1), 1),
                        FLOW_COLUMN);
    }
    return roll(d, 2) ? maker_unary(m, roll(d, 2) ? FLOW_GELU : FLOW_RELU, sum) : sum;
}

static uint32_t any_repeat(struct maker *m, struct dice *d, uint32_t x)
{
    uint32_t k = (uint32_t)m->tensors[x].columns, h = extent(d), count = 2 + roll(d, 3);
    uint32_t inside = maker_repeat(m, count, x), y = inside;
    if (roll(d, 3) != 0) {
        uint32_t up = maker_sequence(m, count, k, h, 1 / sqrt(k));
        uint32_t down = maker_sequence(m, count, h, k, 1 / sqrt(h));
        y = maker_unary(m, FLOW_GELU, maker_gemm(m, inside, up, 1));
        y = maker_gemm(m, y, down, 1);
    }
    if (roll(d, 2))
        y = maker_add(m, y, inside, FLOW_DENSE);
    if (roll(d, 2))
        y = maker_add(m, y, maker_sequence(m, count, 1, k, 1), FLOW_ROW);
    return maker_yield(m, maker_unary(m, FLOW_GELU, y));
}

static uint32_t any_op(struct maker *m, struct dice *d, uint32_t a)
{
    bool wide = m->tensors[a].type == FLOW_F32;
    switch (roll(d, 8)) {
    case 0:
        return maker_unary(m, FLOW_CAST, a);
    case 1:
        return maker_unary(m, roll(d, 2) ? FLOW_GELU : FLOW_RELU, a);
    case 2:
        return m->tensors[a].rows * m->tensors[a].columns < 6000 ? transposed(m, a) : a;
    case 3:
        return any_add(m, d, a);
    case 4:
        if (!wide)
            return any_repeat(m, d, a);
        return maker_unary(m, FLOW_CAST, a);
    default:
        return wide ? any_add(m, d, a) : any_gemm(m, d, a);
    }
}

static void random_flow(struct maker *m, uint64_t seed)
{
    static const uint32_t tiles[] = {64, 64, 128, 192, 1472};
    struct dice d = {seed * 1000003 + 17};
    maker_begin(m, tiles[roll(&d, 5)]);
    uint32_t y = maker_host(m, roll(&d, 4) == 0, FLOW_F16, extent(&d), extent(&d), 1);
    uint32_t ops = 1 + roll(&d, 5), middle = y;
    for (uint32_t i = 0; i < ops; i++) {
        y = any_op(m, &d, y);
        middle = roll(&d, 3) == 0 ? y : middle;
    }
    if (m->tensors[y].source != FLOW_COMPUTED && m->tensors[y].source != FLOW_RESULT)
        y = maker_unary(m, FLOW_RELU, y);
    maker_output(m, y);
    if (middle != y && m->tensors[middle].source == FLOW_COMPUTED)
        maker_output(m, middle);
}

START_TEST(random_flow_equals_its_evaluation)
{
    static struct maker maker;
    random_flow(&maker, (uint64_t)_i);
    run_flow(&maker, plan_of(&maker, 1 + (unsigned)_i % 5), (enum codegen_profile)(1 + _i % 2),
             1e-2);
    maker_end(&maker);
}
END_TEST

/* Their last sums cancel to less than a fiftieth of their terms: errors of 1e-2 to 5e-2 of the
 * result, which is what rounding the partials to f16 must be expected to do (codegen_spread.h). */
START_TEST(cancelling_sums_err_no_more_than_their_roundings)
{
    static const uint64_t seeds[] = {1840, 1936, 2123, 2485};
    static struct maker maker;
    random_flow(&maker, seeds[_i]);
    run_flow(&maker, plan_of(&maker, 1 + (unsigned)seeds[_i] % 5),
             (enum codegen_profile)(1 + seeds[_i] % 2), 1e-2);
    maker_end(&maker);
}
END_TEST

int main(int argc, char **argv)
{
    int first = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    int count = argc > 2 ? (int)strtol(argv[2], NULL, 10) : FLOWS;
    Suite *s = suite_create("codegen_random");
    TCase *t = tcase_create("random");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, random_flow_equals_its_evaluation, first, first + count);
    tcase_add_loop_test(t, cancelling_sums_err_no_more_than_their_roundings, 0, argc > 1 ? 0 : 4);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
