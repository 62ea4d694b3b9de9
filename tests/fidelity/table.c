/* The constant tables of table.h, built from rows.def, skipped.def, reasons.def, and the formulas
 * that were fitted to hardware (facts/measurements.tsv F01, F04, F06..F09; facts/timing.md). */
#include "tests/fidelity/table.h"

#define UNPACK(...) __VA_ARGS__

static const struct row rows[] = {
#define ROW(id, item, measured, subject, parameters, quick, ascribed)                              \
    {#id, item, measured, SUBJECT_##subject, {UNPACK parameters}, quick, ascribed},
#include "tests/fidelity/rows.def"
#undef ROW
};

static const struct skipped skipped[] = {
#define SKIP(id, item, reason) {#id, item, REASON_##reason},
#include "tests/fidelity/skipped.def"
#undef SKIP
};

static const struct estimate estimates[] = {
#define ESTIMATE(text, where, subject, first, second, cycles)                                      \
    {text, where, SUBJECT_##subject, {UNPACK first}, {UNPACK second}, cycles},
#include "tests/fidelity/estimates.def"
#undef ESTIMATE
};

static const char *const reasons[] = {
#define REASON(id, text) text,
#include "tests/fidelity/reasons.def"
#undef REASON
};

static uint32_t rounds(uint32_t count, uint32_t unit)
{
    return (count + unit - 1) / unit;
}

static uint32_t formula_gemm(const uint32_t p[])
{
    return 294 + rounds(p[4], p[1] ? 32 : 16) * rounds(p[5], 16) * (4 * p[3] + 160);
}

static uint32_t formula_reduce(const uint32_t p[])
{
    return 282 + 6 * rounds(p[0], 48) * (11 + 2 * (p[1] - 1));
}

static uint32_t formula_reduce_old(const uint32_t p[])
{
    return 282 + 6 * rounds(p[0], 48) * (9 + 6 * (p[1] - 1));
}

static uint32_t formula_gelu(const uint32_t p[])
{
    static const uint32_t fixed[] = {300, 330, 330}, round[] = {558, 510, 462};
    return fixed[p[0]] + round[p[0]] * rounds(p[1], 96);
}

/* Worker w owns pairs from 8 w on, 48 pairs a turn: whole blocks and single pairs. */
static uint32_t formula_gelu_uneven(const uint32_t p[])
{
    uint32_t most = 0, pairs = p[1] / 2, block = p[0] == 1 ? 528 : 480;
    for (uint32_t w = 0; w < 6 && 8 * w < pairs; w++) {
        uint32_t own = pairs - 8 * w, blocks = own < 8 ? 0 : (own - 8) / 48 + 1;
        uint32_t rest = own > 48 * blocks ? own - 48 * blocks : 0;
        uint32_t cycles = block * blocks + 120 * rest + (rest ? 342 : 330);
        most = cycles > most ? cycles : most;
    }
    return most;
}

static uint32_t formula_copy(const uint32_t p[])
{
    return 288 + 6 * rounds(p[0], 48);
}

static uint32_t formula_fill(const uint32_t p[])
{
    return 216 + 6 * rounds(p[0], 48);
}

static uint32_t formula_patch(const uint32_t p[])
{
    return 102 + 31 * p[1];
}

static const struct formula formulas[] = {
    {"F01",
     "GEMM f16: 294 + panels (4 R + 160)",
     formula_gemm,
     SUBJECT_GEMM,
     8,
     {{2, 0, 1, 24, 64, 64},
      {2, 0, 1, 48, 16, 16},
      {2, 0, 1, 48, 240, 64},
      {2, 0, 1, 96, 128, 32},
      {2, 0, 1, 120, 80, 272},
      {2, 0, 1, 146, 576, 32},
      {2, 0, 1, 184, 288, 48},
      {2, 0, 1, 256, 160, 64}}},
    {"F04",
     "sum of P partials: 282 + 6 ceil(n/48) (11 + 2 (P-1))",
     formula_reduce,
     SUBJECT_REDUCE,
     9,
     {{8, 2}, {48, 2}, {56, 2}, {96, 28}, {576, 15}, {1264, 6}, {1472, 2}, {2208, 4}, {2208, 28}}},
    {"F05",
     "the same before 2026-08: 282 + 6 ceil(n/48) (9 + 6 (P-1))",
     formula_reduce_old,
     SUBJECT_REDUCE_OLD,
     4,
     {{48, 2}, {576, 15}, {1472, 2}, {2208, 4}}},
    {"F06",
     "GELU f16 v1: 330 + 510 ceil(n/96)",
     formula_gelu,
     SUBJECT_GELU,
     5,
     {{1, 16}, {1, 96}, {1, 112}, {1, 1408}, {1, 8832}}},
    {"F07",
     "GELU f16 v1, n no multiple of 16: blocks and pairs",
     formula_gelu_uneven,
     SUBJECT_GELU,
     7,
     {{1, 2}, {1, 6}, {1, 14}, {1, 18}, {1, 94}, {1, 98}, {1, 2150}}},
    {"F08",
     "GELU f16 v2: 330 + 462 ceil(n/96)",
     formula_gelu,
     SUBJECT_GELU,
     4,
     {{2, 16}, {2, 96}, {2, 2208}, {2, 8832}}},
    {"F09",
     "GELU f16 before the clamp: 300 + 558 ceil(n/96)",
     formula_gelu,
     SUBJECT_GELU,
     4,
     {{0, 16}, {0, 96}, {0, 2208}, {0, 8832}}},
    {"timing.md",
     "zero fill: 216 + bytes / 8",
     formula_fill,
     SUBJECT_FILL,
     5,
     {{48}, {480}, {4800}, {70656}, {200016}}},
    {"timing.md",
     "local copy: 288 + bytes / 8",
     formula_copy,
     SUBJECT_COPY,
     5,
     {{96}, {480}, {4800}, {24000}, {96000}}},
    {"timing.md",
     "patches by the supervisor: 102 + 31 words",
     formula_patch,
     SUBJECT_PATCH,
     4,
     {{1, 1}, {1, 24}, {1, 78}, {1, 1024}}},
};

const struct row *table_row(size_t index)
{
    return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

const struct skipped *table_skipped(size_t index)
{
    return index < sizeof skipped / sizeof *skipped ? &skipped[index] : NULL;
}

const struct formula *table_formula(size_t index)
{
    return index < sizeof formulas / sizeof *formulas ? &formulas[index] : NULL;
}

const struct estimate *table_estimate(size_t index)
{
    return index < sizeof estimates / sizeof *estimates ? &estimates[index] : NULL;
}

const char *table_reason(enum reason reason)
{
    return reasons[reason];
}
