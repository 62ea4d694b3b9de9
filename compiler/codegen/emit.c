/* The program of a tile: host batches, then for ever a run: inputs, steps, outputs.
 *
 * Two passes over the same code: the first counts, the second writes. Registers: $m7 walks argument
 * blocks (page copies; moving blocks of a repeat), $m8 values on their way to control registers,
 * $m9 loop counters. Rows stand last, each 8-byte aligned, followed by a fetch guard.
 */
#include "compiler/codegen/internal.h"

#include "base/alloc.h"
#include "device/ipu21/csr.h"
#include "device/ipu21/exchange.h"
#include "device/ipu21/isa.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"
#include "device/runtime/runtime.h"

#include <string.h>

enum { LIMIT_MOVING = 32760, MZERO = 15 };

int codegen_index(struct codegen *c, struct ipu_error *error)
{
    const struct program *p = c->program;
    c->index.first = arena_calloc(c->arena, p->step_count + 1, sizeof *c->index.first);
    if (c->index.first == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct program_step *step = &p->steps[s];
        if (step->call_count == 0)
            continue;
        uint32_t *first = ARENA_ARRAY(c->arena, uint32_t, PROGRAM_TILES + 1);
        if (first == NULL)
            return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
        for (uint32_t i = 0; i < step->call_count; i++)
            first[step->calls[i].tile + 1]++;
        for (unsigned t = 0; t < PROGRAM_TILES; t++)
            first[t + 1] += first[t];
        c->index.first[s] = first;
    }
    return 0;
}

static uint32_t calls_of(const struct codegen *c, uint32_t step, unsigned tile, uint32_t *first)
{
    const uint32_t *index = c->index.first[step];
    *first = index ? index[tile] : 0;
    return index ? index[tile + 1] - index[tile] : 0;
}

/* --- steps ---------------------------------------------------------------------------------- */

static bool samples_all(const struct tile_code *t)
{
    return t->codegen->options->profile == CODEGEN_PROFILE_FULL &&
           t->codegen->host->samples[t->tile] > 0;
}

static void emit_sample(struct tile_code *t)
{
    code_call(t, t->codegen->image.sample);
}

static void emit_cursor(struct tile_code *t)
{
    const struct isa_inst store = {ISA_ST32_MR_MR_MR_ZIMM12, {1, 0, MZERO, 0}};
    uint32_t words[2] = {0};
    if (!isa_encode(&store, false, words))
        t->failed = true;
    code_set(t, 0, RT_SAMPLE_CURSOR);
    code_set(t, 1, t->sample_address - RT_SAMPLE_BIAS);
    code_word(t, words[0]);
}

static void emit_compute(struct tile_code *t, uint32_t s)
{
    const struct codegen *c = t->codegen;
    uint32_t first, count = calls_of(c, s, t->tile, &first);
    if (count > 0 && samples_all(t))
        emit_sample(t);
    for (uint32_t i = first; i < first + count; i++) {
        const struct program_call *call = &c->program->steps[s].calls[i];
        bool moving;
        uint32_t args = args_add(t, call, &moving);
        code_word(t, moving ? ipu21_add(0, 7, args) : ipu21_setzi(0, args));
        code_call(t, c->image.entry ? c->image.entry[call->spec] : 0);
    }
}

static bool takes_part(const struct tile_code *t, const struct program_step *step)
{
    if (t->codegen->schedule != NULL)
        return t->codegen->schedule->phases[step->phase]->rows[t->tile].words != NULL;
    return t->row_address[step->phase] != 0;
}

static void emit_exchange(struct tile_code *t, uint32_t s)
{
    const struct program_step *step = &t->codegen->program->steps[s];
    if (samples_all(t))
        emit_sample(t);
    if (!takes_part(t, step)) {
        code_word(t, ipu21_sans(0));
        code_word(t, ipu21_sync(IPU21_ZONE_ANS));
        return;
    }
    code_put(t, CSR_S_INCOMING_DCOUNT, 1);
    code_word(t, ipu21_sync(IPU21_ZONE_INTERNAL));
    code_call(t, t->row_address[step->phase]);
}

/* Bytes of the moving argument blocks that one iteration of the repeat at step s uses. */
static uint32_t moving_bytes(const struct tile_code *t, uint32_t s)
{
    const struct program *p = t->codegen->program;
    uint32_t bytes = 0;
    for (uint32_t i = s + 1; i < p->steps[s].other; i++) {
        uint32_t first, count = calls_of(t->codegen, i, t->tile, &first);
        for (uint32_t k = first; k < first + count; k++) {
            const struct program_call *call = &p->steps[i].calls[k];
            if (args_move(p, call))
                bytes += (4 * kernel_block_words(p->specs[call->spec].family) + 7) & ~7u;
        }
    }
    return bytes;
}

struct open_loop {
    uint32_t label, bytes;
};

static int emit_steps(struct tile_code *t, struct ipu_error *error)
{
    const struct program *p = t->codegen->program;
    struct open_loop loop = {0, 0};
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct program_step *step = &p->steps[s];
        if (step->kind == PROGRAM_COMPUTE)
            emit_compute(t, s);
        if (step->kind == PROGRAM_EXCHANGE)
            emit_exchange(t, s);
        if (step->kind == PROGRAM_REPEAT) {
            loop.bytes = moving_bytes(t, s);
            if (loop.bytes > LIMIT_MOVING)
                return ipu_error_set(error, IPU_ERR_LIMIT,
                                     "codegen: the repeat '%s' has more kernel calls on tile %u "
                                     "than its argument blocks can address",
                                     step->name, t->tile);
            t->loop_stride = loop.bytes;
            t->loop_bytes = 0;
            t->patch_bytes += loop.bytes * step->iterations;
            t->loop_base = loop.bytes ? data_reserve(t, loop.bytes * step->iterations) : 0;
            if (loop.bytes > 0)
                code_set(t, 7, t->loop_base);
            code_set(t, 9, step->iterations - 1);
            loop.label = code_here(t);
        }
        if (step->kind == PROGRAM_REPEAT_END) {
            if (loop.bytes > 0)
                code_word(t, ipu21_add(7, 7, loop.bytes));
            code_word(t, ipu21_brnzdec(9, loop.label));
        }
    }
    return 0;
}

/* --- rows ----------------------------------------------------------------------------------- */

static void place_rows(struct tile_code *t)
{
    const struct program_schedule *schedule = t->codegen->schedule;
    uint32_t at = t->rows_base;
    for (uint32_t i = 0; schedule != NULL && i < schedule->phase_count; i++) {
        const struct exchange_row *row = &schedule->phases[i]->rows[t->tile];
        t->row_address[i] = row->words ? at : 0;
        if (row->words != NULL)
            at += (row->count * 4 + 7) & ~7u;
    }
    t->rows_bytes = at - t->rows_base;
}

/* --- the program ---------------------------------------------------------------------------- */

/* Tiles that take no part in the last input batch are through with it some 700 cycles before those
 * that copy its page. They wait for each other here, so that no tile's first sample counts the
 * host's time. */
static void emit_start(struct tile_code *t)
{
    bool sampled = t->codegen->host->samples[t->tile] > 0;
    if (t->codegen->options->profile == CODEGEN_PROFILE_NONE)
        return;
    if (!sampled) {
        code_word(t, ipu21_sans(0));
        code_word(t, ipu21_sync(IPU21_ZONE_ANS));
        return;
    }
    code_word(t, ipu21_sync(IPU21_ZONE_INTERNAL));
    emit_cursor(t);
    if (t->codegen->options->profile == CODEGEN_PROFILE_OVERALL)
        emit_sample(t);
}

int emit_tile(struct tile_code *t, struct ipu_error *error)
{
    const struct codegen *c = t->codegen;
    bool sampled = c->host->samples[t->tile] > 0;
    t->code_count = t->data_used = t->overflow_used = t->table_count = t->header_count = 0;
    t->close_address = t->patch_bytes = 0;
    t->physical = ipu21_physical(t->tile);
    place_rows(t);
    if (sampled)
        t->sample_address = data_reserve(t, (c->host->samples[t->tile] * 4 + 31) & ~31u);
    code_word(t, ipu21_sync(IPU21_ZONE_HOST)); /* the session starts */
    emit_host_input(t, HOST_INITIALIZE);
    uint32_t run = code_here(t);
    emit_host_input(t, HOST_RUN_IN);
    t->host_words = t->code_count;
    emit_start(t);
    int code = emit_steps(t, error);
    if (code != 0)
        return code;
    if (sampled)
        emit_sample(t);
    uint32_t computed = t->code_count;
    emit_host_output(t);
    t->host_words += t->code_count - computed;
    code_set(t, 10, run);
    code_word(t, ipu21_br(10));
    if (t->refused != NULL) {
        char name[KERNEL_NAME_BYTES];
        kernel_name(&t->codegen->program->specs[t->refused->spec], name);
        return ipu_error_set(error, IPU_ERR_INTERNAL,
                             "codegen: a call of tile %u is beyond the reach of the kernel %s",
                             t->tile, name);
    }
    if (t->failed)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    return 0;
}

/* --- samples -------------------------------------------------------------------------------- */

uint32_t sample_words(const struct flow *flow, const struct program *program,
                      enum codegen_profile profile, unsigned tile)
{
    uint32_t n = 0, times = 1;
    if (profile == CODEGEN_PROFILE_NONE)
        return 0;
    if (profile == CODEGEN_PROFILE_OVERALL)
        return tile < flow->tiles ? 2 : 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const struct program_step *step = &program->steps[s];
        bool here = step->kind == PROGRAM_EXCHANGE;
        uint32_t lo = 0, hi = step->call_count; /* calls are sorted by tile */
        while (lo < hi) {
            uint32_t mid = (lo + hi) / 2;
            if (step->calls[mid].tile < tile)
                lo = mid + 1;
            else
                hi = mid;
        }
        here |= lo < step->call_count && step->calls[lo].tile == tile;
        if (step->kind == PROGRAM_REPEAT)
            times = step->iterations;
        if (step->kind == PROGRAM_REPEAT_END)
            times = 1;
        n += here ? times : 0;
    }
    return n > 0 || tile < flow->tiles ? n + 1 : 0;
}

/* --- sizes ---------------------------------------------------------------------------------- */

static int row_bounds(struct codegen *c, uint32_t *total, uint8_t *parts, struct ipu_error *error)
{
    const struct program *p = c->program;
    uint32_t *bytes = ARENA_ARRAY(c->arena, uint32_t, PROGRAM_TILES);
    if (bytes == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    for (uint32_t s = 0; s < p->step_count; s++) {
        if (p->steps[s].kind != PROGRAM_EXCHANGE)
            continue;
        struct exchange_phase phase;
        int code = phase_build(p, &p->steps[s], false, NULL, c->arena, &phase, error);
        if (code != 0)
            return code;
        exchange_row_bounds(&phase, bytes);
        for (unsigned t = 0; t < PROGRAM_TILES; t++) {
            total[t] += (bytes[t] + 7) & ~7u;
            parts[t * p->phase_count + p->steps[s].phase] = bytes[t] > 0;
        }
    }
    return 0;
}

static int size_tile(struct codegen *c, struct tile_code *t, uint32_t rows, const uint8_t *parts,
                     uint32_t *region0, struct ipu_error *error)
{
    for (uint32_t i = 0; i < c->program->phase_count; i++)
        t->row_address[i] = parts[i];
    int code = emit_tile(t, error);
    if (code != 0)
        return code;
    uint64_t end = (uint64_t)c->program_base + ((4 * t->code_count + 7) & ~7u) + t->overflow_used +
                   rows + IPU21_FETCH_AHEAD;
    end = (end - IPU21_SRAM_BASE + IPU21_ELEMENT_BYTES - 1) / IPU21_ELEMENT_BYTES *
              IPU21_ELEMENT_BYTES +
          IPU21_SRAM_BASE;
    if (end > MAX_CODE_END)
        return ipu_error_set(error, IPU_ERR_NO_FIT,
                             "codegen: the program of tile %u needs %u bytes of code, %u of data "
                             "and %u of exchange rows; executable memory ends at 0x%x",
                             t->tile, 4 * t->code_count, t->data_used + t->overflow_used, rows,
                             MAX_CODE_END);
    *region0 = (uint32_t)end;
    return 0;
}

int codegen_sizes(struct codegen *c, uint32_t region0[PROGRAM_TILES], struct ipu_error *error)
{
    uint32_t phases = c->program->phase_count;
    uint32_t *rows = ARENA_ARRAY(c->arena, uint32_t, PROGRAM_TILES);
    uint8_t *parts = ARENA_ARRAY(c->arena, uint8_t, (size_t)PROGRAM_TILES * (phases + 1));
    uint32_t *addresses = ARENA_ARRAY(c->arena, uint32_t, phases + 1);
    if (rows == NULL || parts == NULL || addresses == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    int code = row_bounds(c, rows, parts, error);
    struct tile_code t = {.codegen = c, .row_address = addresses};
    for (unsigned tile = 0; tile < PROGRAM_TILES && code == 0; tile++) {
        t.tile = tile;
        code = size_tile(c, &t, rows[tile], parts + (size_t)tile * phases, &region0[tile], error);
    }
    ipu_free(t.tables);
    return code;
}
