/* The cost of a GEMM call: its supervisor code followed instruction by instruction, its launches by
 * the issue counts of the worker code.
 *
 * Mirrors gemm_f16.S macro by macro (same names); tests compare the two over ranges of shapes. With
 * workers that are not equally busy a launch depends on the phase of the barrel, so the worst of
 * six start phases counts. Constants come from device/ipu21/timing.h. Cannot fail.
 */
#include "device/kernels/cost.h"

#include "device/ipu21/memory.h"
#include "device/ipu21/timing.h"

#include <stdbool.h>
#include <string.h>

enum { UNROLL = 6, WORKERS = IPU21_WORKERS };
enum launch { FIRST, MID, LAST, ONLY };

/* Instructions between runall and sync, first in bit 0: 1 = a taken branch, 0 = any other. */
struct beside {
    uint8_t count, branches;
};

struct line {
    uint32_t t;         /* earliest issue of the next instruction */
    uint32_t ready[16]; /* of M registers */
    uint32_t put, slot; /* instructions a coefficient pair, pairs loaded */
    uint32_t inner, columns, rows, n, q, m;
    bool far, mixed;
    uint16_t slots[4][WORKERS]; /* of each kind of launch and worker */
    /* Cycles from runall to the end of sync of a MID launch: by what stands beside it, by phase. */
    uint32_t mid[4][IPU21_SLOTS];
};

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Registers are given as a mask. */
enum { M0 = 1, M1 = 2, M2 = 4, M3 = 8, M4 = 16, M5 = 32, M6 = 64 };

static uint32_t operands(const struct line *l, unsigned reads)
{
    uint32_t t = l->t;
    for (; reads; reads &= reads - 1)
        t = later(t, l->ready[__builtin_ctz(reads)]);
    return t;
}

/* One instruction with no worker active. */
static void op(struct line *l, unsigned reads, unsigned write)
{
    uint32_t issue = operands(l, reads);
    if (write)
        l->ready[__builtin_ctz(write)] = issue + IPU21_SUPERVISOR_DEPENDENCY;
    l->t = issue + 1;
}

static void coefficients(struct line *l, uint32_t count)
{
    l->t += count * l->put;
    l->slot += count;
}

/* --- launches -------------------------------------------------------------------------------- */

static uint32_t stream_slots(const struct line *l, enum launch kind, uint32_t n)
{
    uint32_t loop = n > UNROLL ? 1 : 0, slots = 4 * n + loop + 1;
    if (kind == LAST || kind == ONLY)
        return slots + 6u + (kind == ONLY ? 4u : 0u);
    if (kind == MID)
        return slots + (l->far ? 1u : 0u);
    return slots + (l->far ? 7u : 5u + loop);
}

static uint32_t code_slots(const struct line *l, enum launch kind, uint32_t n, bool absolute)
{
    static const uint8_t one[] = {6, 6, 15, 11}, two[] = {10, 11, 19, 19};
    if (n >= 3)
        return stream_slots(l, kind, n);
    return (n == 1 ? one[kind] : two[kind]) + (absolute && kind == FIRST ? 1u : 0u);
}

static uint32_t worker_slots(const struct line *l, enum launch kind, uint32_t w)
{
    bool start = kind == FIRST || kind == ONLY;
    if (!l->mixed)
        return code_slots(l, kind, l->n, false);
    if (w < l->q)
        return code_slots(l, kind, l->n, false) + (start ? 3u : 1u);
    if (w == l->q && l->m)
        return code_slots(l, kind, l->m, true) + (start ? 5u : 2u);
    return (start ? 4u : 2u) + (l->m == 0 ? 0u : start ? 2u : 1u);
}

/* Cycles from runall to the end of sync for a runall at cycle `issue`. */
static uint32_t launch_cycles(const struct line *l, enum launch kind, struct beside beside,
                              uint32_t issue)
{
    uint32_t first = issue + IPU21_WORKER_LAUNCH, last = 0, exits[WORKERS];
    for (uint32_t w = 0; w < WORKERS; w++) {
        uint32_t wait = (w + IPU21_SLOTS - first % IPU21_SLOTS) % IPU21_SLOTS;
        exits[w] = first + wait + IPU21_SLOTS * (l->slots[kind][w] - 1u);
        last = later(last, exits[w]);
    }
    /* The supervisor gets the slots that no active worker owns. */
    uint32_t t = issue + IPU21_RUNALL;
    for (unsigned i = 0; i < beside.count; i++) {
        while (exits[t % WORKERS] >= t && last >= t)
            t++;
        t += beside.branches >> i & 1 ? IPU21_SUPERVISOR_BRANCH : 1;
    }
    return later(t + 1, last + IPU21_SYNC_LOCAL) - issue;
}

static void launch(struct line *l, enum launch kind, struct beside beside)
{
    l->t = operands(l, M1 | M2);
    l->t += launch_cycles(l, kind, beside, l->t);
    l->slot = 0;
}

static bool advances(const struct line *l)
{
    return l->n <= 2 || (l->mixed && (l->m == 1 || l->m == 2));
}

/* --- tables ---------------------------------------------------------------------------------- */

static void word2(struct line *l, uint32_t w)
{
    uint32_t row = l->n * w;
    if (row < l->rows)
        op(l, M4 | M6, 0);
    if (row + l->n > l->rows) {
        op(l, M1, M5);
        coefficients(l, l->slot <= 28 ? 4 : 0);
        if (row >= l->rows)
            op(l, M5 | M6, 0);
        if (l->n == 2)
            op(l, M5 | M6, 0);
    } else if (l->n == 2) {
        op(l, M4 | M6, 0);
    }
}

static void table2(struct line *l)
{
    if (l->n * WORKERS > l->rows)
        op(l, M0, M1);
    op(l, 0, M6);
    coefficients(l, 5);
    for (uint32_t w = 0; w < WORKERS; w++)
        word2(l, w);
}

static void table_n(struct line *l)
{
    if (l->inner > 1) {
        op(l, M0, M5);
        if (l->m >= 3)
            op(l, M0, M1);
    }
    op(l, 0, M6);
    coefficients(l, 5);
    for (uint32_t w = 0; l->n * w < l->rows && w < WORKERS; w++) {
        bool full = l->n * w + l->n <= l->rows;
        op(l, M4 | M6, 0);
        if (!full && l->m < 3)
            op(l, M4 | M6, 0);
        else if (l->inner > 1)
            op(l, (full ? M5 : M1) | M6, 0);
    }
}

/* --- the call -------------------------------------------------------------------------------- */

static void prologue(struct line *l, const uint32_t params[])
{
    bool two = params[3] != params[4], taken = l->rows != params[3];
    l->t += IPU21_SUPERVISOR_BRANCH; /* the call */
    op(l, M0, M1);
    op(l, M0, M2);
    op(l, M0, M3);
    op(l, M0, M4);
    if (two)
        op(l, M0, M5);
    op(l, M1, 0);
    l->t += IPU21_SUPERVISOR_PUT - 1;
    if (!two)
        return;
    op(l, M5, 0);
    l->t += taken ? IPU21_SUPERVISOR_BRANCH - 1 : 0;
}

/* What stands beside the launches, in the order of the source. */
static struct beside beside_mid(const struct line *l, bool loop, bool taken, bool final)
{
    struct beside b = {.count = advances(l) ? 1 : 0};
    if (loop) {
        b.branches = (uint8_t)((taken ? 1u : 0u) << b.count);
        b.count++;
    }
    b.count = (uint8_t)(b.count + (final ? 1 : 0));
    return b;
}

static struct beside beside_first(const struct line *l, bool later_column)
{
    struct beside b = {later_column ? 1 : 0, later_column ? 1 : 0};
    if (l->inner == 1)
        return b;
    unsigned count = b.count + (advances(l) ? 1u : 0u);
    count += l->inner == 2 ? 1u : 0u;                    /* entry of LAST */
    count += l->inner > 2 ? 1u : 0u;                     /* entry of MID */
    count += l->inner - 2 > 4 && l->inner > 2 ? 1u : 0u; /* loop counter */
    b.count = (uint8_t)count;
    return b;
}

static struct beside beside_last(const struct line *l, bool final)
{
    if (l->columns == 1)
        return (struct beside){0, 0};
    return final ? (struct beside){1, 0} : (struct beside){4, 1};
}

static void mid_panel(struct line *l, unsigned memo, struct beside beside)
{
    l->t += 32 * l->put;
    uint32_t *cycles = &l->mid[memo][l->t % IPU21_SLOTS];
    if (*cycles == 0)
        *cycles = launch_cycles(l, MID, beside, l->t);
    l->t += *cycles;
}

static void middle(struct line *l)
{
    uint32_t count = l->inner - 2, loops = count > 4 ? count / 2 : 0, straight = count - 2 * loops;
    for (uint32_t i = 0; i < straight; i++) {
        bool final = !loops && i + 1 == straight;
        mid_panel(l, final ? 3 : 0, beside_mid(l, false, false, final));
    }
    for (uint32_t i = 0; i < loops; i++) {
        bool taken = i + 1 < loops;
        mid_panel(l, 0, beside_mid(l, false, false, false));
        mid_panel(l, taken ? 1 : 2, beside_mid(l, true, taken, !taken));
    }
}

/* From the coefficients of the first panel to the end of the column's last launch. */
static void column(struct line *l, uint32_t index)
{
    bool final = index + 1 == l->columns;
    op(l, 0, M1);
    coefficients(l, 32 - l->slot);
    if (l->inner == 1) {
        struct beside b = beside_last(l, final);
        if (index > 0) {
            b.branches = (uint8_t)(b.branches << 1 | 1);
            b.count++;
        }
        launch(l, ONLY, b);
        return;
    }
    launch(l, FIRST, beside_first(l, index > 0));
    if (l->inner > 2)
        middle(l);
    l->t += 32 * l->put;
    launch(l, LAST, beside_last(l, final));
}

/* New table words; their loads stood beside the last launch. */
static void next_column(struct line *l)
{
    coefficients(l, 5);
    op(l, M4 | M5, M4);
    coefficients(l, 5);
    for (uint32_t w = 0; l->n * w < l->rows && w < WORKERS; w++) {
        op(l, M4 | M1, 0);
        if ((l->n == 2 && 2 * w + 1 < l->rows) || l->n * w + 2 == l->rows)
            op(l, M4 | M1, 0);
    }
}

static uint32_t call_cycles(const uint32_t params[], uint32_t rows, uint32_t phase)
{
    struct line l = {.t = phase,
                     .put = params[0] & 1 ? 1 : 2,
                     .inner = params[1] / 16,
                     .columns = params[2] / 16,
                     .rows = rows,
                     .n = cost_ceil_div(rows, WORKERS),
                     .far = (params[0] & 2) || params[4] > 128};
    l.q = rows / l.n;
    l.m = rows % l.n;
    l.mixed = l.n >= 3 && l.q < WORKERS;
    for (unsigned kind = FIRST; kind <= ONLY; kind++)
        for (uint32_t w = 0; w < WORKERS; w++)
            l.slots[kind][w] = (uint16_t)worker_slots(&l, (enum launch)kind, w);
    prologue(&l, params);
    if (l.n <= 2)
        table2(&l);
    else
        table_n(&l);
    if (l.columns > 1)
        op(&l, 0, M6);
    for (uint32_t c = 0; c < l.columns; c++) {
        if (c > 0)
            next_column(&l);
        column(&l, c);
    }
    return l.t + IPU21_SUPERVISOR_BRANCH - phase;
}

uint32_t cost_gemm(const uint32_t params[], const uint32_t args[])
{
    uint32_t rows = args[3], n = cost_ceil_div(rows, WORKERS), most = 0;
    uint32_t phases = n >= 3 && rows / n < WORKERS ? IPU21_SLOTS : 1;
    for (uint32_t phase = 0; phase < phases; phase++) {
        uint32_t cycles = call_cycles(params, rows, phase);
        most = cycles > most ? cycles : most;
    }
    return most;
}
