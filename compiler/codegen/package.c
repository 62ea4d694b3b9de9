/* Building the package: reserve, link, emit every tile, describe everything.
 *
 * Tiles are emitted in ascending order by several threads into slots of their own and added to the
 * package in order, so the bytes do not depend on the threads. The order of host tensors in the
 * package is that of the flow, outputs follow.
 */
#include "compiler/codegen/internal.h"

#include "base/alloc.h"
#include "compiler/place/place.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/timing.h"
#include "device/ipu21/topology.h"
#include "device/kernels/flag_set.h"
#include "device/runtime/runtime.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 64, RESCHEDULE_EFFORT = 3, STATE_BYTES = RT_WORKER_SCRATCH - RT_STATE };

/* --- reserve -------------------------------------------------------------------------------- */

static int codegen_open(struct codegen *c, const struct flow *flow, const struct program *program,
                        const struct codegen_options *options, struct arena *arena,
                        struct ipu_error *error)
{
    memset(c, 0, sizeof *c);
    c->flow = flow;
    c->program = program;
    c->options = options;
    c->arena = arena;
    int code = host_plan_build(flow, program, options->profile, arena, &c->host, error);
    return code ? code : codegen_index(c, error);
}

int codegen_reserve(const struct flow *flow, const struct program *program,
                    const struct codegen_options *options, struct arena *arena,
                    uint32_t region0[PROGRAM_TILES], struct ipu_error *error)
{
    struct codegen c;
    int code = codegen_open(&c, flow, program, options, arena, error);
    if (code != 0)
        return code;
    c.program_base = link_estimate(program);
    return codegen_sizes(&c, region0, error);
}

/* --- emission ------------------------------------------------------------------------------- */

struct emission {
    struct codegen *codegen;
    struct tile_code *tiles;
    atomic_uint next;
    atomic_int code;
    pthread_mutex_t lock;
    struct ipu_error *error; /* of the lowest failing tile */
    unsigned failed;
};

static int encode_tile(const struct codegen *c, struct tile_code *t, struct ipu_error *error)
{
    t->codegen = c;
    t->row_address = ipu_calloc(c->program->phase_count + 1, sizeof *t->row_address);
    if (t->row_address == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    int code = emit_tile(t, error);
    if (code != 0)
        return code;
    uint32_t words = t->code_count, data = t->data_used, overflow = t->overflow_used;
    t->overflow_base = c->program_base + ((4 * words + 7) & ~7u);
    t->rows_base = t->overflow_base + overflow;
    t->encode = true;
    code = emit_tile(t, error);
    if (code == 0 &&
        (words != t->code_count || data != t->data_used || overflow != t->overflow_used))
        return ipu_error_set(error, IPU_ERR_INTERNAL,
                             "codegen: the passes over tile %u disagree about its size", t->tile);
    if (code == 0 &&
        t->rows_base + t->rows_bytes + IPU21_FETCH_AHEAD > c->schedule->region0[t->tile])
        return ipu_error_set(error, IPU_ERR_INTERNAL,
                             "codegen: the rows of tile %u are larger than their bound", t->tile);
    return code;
}

static void *emit_thread(void *context)
{
    struct emission *e = context;
    for (;;) {
        unsigned tile = atomic_fetch_add(&e->next, 1);
        struct ipu_error error;
        if (tile >= PROGRAM_TILES || atomic_load(&e->code) != 0)
            return NULL;
        e->tiles[tile].tile = tile;
        int code =
            codegen_cancelled(e->codegen->options->cancel)
                ? ipu_error_set(&error, IPU_ERR_CANCELLED, "codegen: the compile was cancelled")
                : encode_tile(e->codegen, &e->tiles[tile], &error);
        if (code == 0)
            continue;
        pthread_mutex_lock(&e->lock);
        if (tile < e->failed) {
            e->failed = tile;
            *e->error = error;
        }
        atomic_store(&e->code, code);
        pthread_mutex_unlock(&e->lock);
    }
}

static int emit_all(struct codegen *c, struct tile_code *tiles, struct ipu_error *error)
{
    struct emission e = {.codegen = c, .tiles = tiles, .error = error, .failed = PROGRAM_TILES};
    pthread_t handles[MAX_THREADS];
    unsigned started = 0, threads = c->options->threads;
    if (threads == 0)
        threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads > MAX_THREADS ? MAX_THREADS : threads;
    pthread_mutex_init(&e.lock, NULL);
    while (started + 1 < threads && pthread_create(&handles[started], NULL, emit_thread, &e) == 0)
        started++;
    emit_thread(&e);
    for (unsigned i = 0; i < started; i++)
        pthread_join(handles[i], NULL);
    pthread_mutex_destroy(&e.lock);
    return e.failed < PROGRAM_TILES ? error->code : 0;
}

static void free_tiles(struct tile_code *tiles)
{
    for (unsigned t = 0; tiles != NULL && t < PROGRAM_TILES; t++) {
        ipu_free(tiles[t].code);
        ipu_free(tiles[t].data);
        ipu_free(tiles[t].overflow);
        ipu_free(tiles[t].row_address);
        ipu_free(tiles[t].tables);
    }
    ipu_free(tiles);
}

/* --- segments ------------------------------------------------------------------------------- */

static int check(int index, struct ipu_error *error)
{
    if (index >= 0)
        return 0;
    return ipu_error_set(error, index, "codegen: the package refuses a part");
}

static int add_bytes(struct package *package, unsigned tile, uint32_t address, const void *bytes,
                     uint32_t size, struct ipu_error *error)
{
    if (size == 0)
        return 0;
    int blob = package_add_blob(package, bytes, size);
    if (blob < 0)
        return check(blob, error);
    return check(package_add_segment(package, tile, address, blob, 0, size), error);
}

/* Code, overflow data and rows of a tile as one run of words from the program's base. */
static int add_code(const struct codegen *c, struct package *package, const struct tile_code *t,
                    struct ipu_error *error)
{
    uint32_t size = t->rows_base + t->rows_bytes - c->program_base;
    uint32_t *words = ipu_calloc(size / 4 + 1, 4);
    if (words == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    memcpy(words, t->code, 4 * (size_t)t->code_count);
    uint32_t at = (t->overflow_base - c->program_base) / 4;
    uint32_t held =
        t->overflow_capacity < t->overflow_used ? t->overflow_capacity : t->overflow_used;
    if (held > 0)
        memcpy(words + at, t->overflow, held);
    int code = 0;
    for (uint32_t i = 0; i < c->program->phase_count && code == 0; i++) {
        const struct exchange_row *row = &c->schedule->phases[i]->rows[t->tile];
        if (row->words == NULL)
            continue;
        memcpy(words + (t->row_address[i] - c->program_base) / 4, row->words, 4 * row->count);
        code = check(package_add_row(package, t->tile, t->row_address[i], 4 * row->count,
                                     row->receive_words),
                     error);
    }
    if (code == 0)
        code = add_bytes(package, t->tile, c->program_base, words, size, error);
    ipu_free(words);
    return code;
}

static int add_image(struct package *package, unsigned tile, const struct asm_image *image,
                     int blob, struct ipu_error *error)
{
    uint32_t size = (uint32_t)image->bytes.size & ~3u;
    if (size == 0)
        return 0;
    return check(package_add_segment(package, tile, image->base, blob, 0, size), error);
}

static int image_blob(struct package *package, struct asm_image *image)
{
    while (image->bytes.size % 4 != 0 && !image->bytes.failed)
        buffer_append_zero(&image->bytes, 1);
    return image->bytes.size ? package_add_blob(package, image->bytes.data, image->bytes.size) : 0;
}

static int add_segments(struct codegen *c, struct package *package, const struct tile_code *tiles,
                        struct ipu_error *error)
{
    static const uint32_t state[STATE_BYTES / 4];
    int runtime = image_blob(package, &c->image.runtime);
    int kernels = image_blob(package, &c->image.kernels);
    int code = runtime < 0 ? check(runtime, error) : kernels < 0 ? check(kernels, error) : 0;
    for (unsigned t = 0; t < PROGRAM_TILES && code == 0; t++) {
        const struct tile_code *tile = &tiles[t];
        uint32_t data =
            tile->data_used < tile->data_capacity ? tile->data_used : tile->data_capacity;
        code = add_image(package, t, &c->image.runtime, runtime, error);
        if (code == 0)
            code = add_image(package, t, &c->image.kernels, kernels, error);
        if (code == 0)
            code = add_bytes(package, t, LAYOUT_DATA, tile->data, data, error);
        if (code == 0)
            code = add_bytes(package, t, RT_STATE, state, STATE_BYTES, error);
        if (code == 0)
            code = add_code(c, package, tile, error);
    }
    return code;
}

/* --- tensors -------------------------------------------------------------------------------- */

static int add_tensor(struct package *package, struct package_tensor *t, const char *prefix,
                      unsigned number, struct ipu_error *error)
{
    char name[128];
    snprintf(name, sizeof name, "%s", t->name);
    if (name[0] == '\0' || package_find_tensor(package, name) >= 0)
        snprintf(name, sizeof name, "%s.%u", prefix, number);
    t->name = name;
    int index = package_add_tensor(package, t);
    t->name = NULL;
    return check(index, error);
}

static int add_tensors(const struct flow *flow, struct package *package, struct ipu_error *error)
{
    int code = 0;
    for (unsigned i = 0; i < flow->host_count && code == 0; i++) {
        const struct flow_host *h = &flow->hosts[i];
        struct package_tensor t = {.name = h->name,
                                   .role = h->parameter ? PACKAGE_PARAMETER : PACKAGE_INPUT,
                                   .type = (enum package_type)h->type,
                                   .rank = h->rank,
                                   .data = h->data,
                                   .bytes = h->bytes};
        memcpy(t.shape, h->shape, sizeof t.shape);
        code = add_tensor(package, &t, h->parameter ? "parameter" : "input", i, error);
    }
    for (unsigned i = 0; i < flow->output_count && code == 0; i++) {
        const struct flow_output *o = &flow->outputs[i];
        const struct flow_tensor *v = &flow->tensors[o->tensor];
        struct package_tensor t = {.name = o->name,
                                   .role = PACKAGE_OUTPUT,
                                   .type = (enum package_type)v->type,
                                   .rank = o->rank};
        memcpy(t.shape, o->shape, sizeof t.shape);
        t.bytes = v->rows * v->columns * (v->type == FLOW_F32 ? 4 : 2);
        code = add_tensor(package, &t, "output", i, error);
    }
    return code;
}

static void add_info(const struct codegen *c, struct package *package)
{
    const struct host_plan *h = c->host;
    struct package_info info = {
        .compiler = c->options->compiler ? c->options->compiler : "",
        .workload = c->flow->name ? c->flow->name : "",
        .flag_set = flag_set_number(c->options->flags),
        .clock_hz = c->options->clock_hz ? c->options->clock_hz : IPU21_CLOCK_HZ,
        .execution_tiles = c->program->tiles,
        .final_mark = IPU21_TILES / IPU21_TILE_GROUP,
        .entry = LAYOUT_IMAGE + 4,
        .batches_in = {h->batches[HOST_INITIALIZE], h->batches[HOST_RUN_IN]},
        .batches_out = {0, h->batches[HOST_RUN_OUT]},
        .estimated_cycles = c->schedule->cycles};
    for (int call = 0; call < 2; call++)
        info.phases[call] = 2 * info.batches_in[call] +
                            (info.batches_out[call] ? 2 * info.batches_out[call] - 1 : 0);
    package_set_info(package, &info);
}

static int add_symbols(const struct asm_image *image, struct package *package,
                       struct ipu_error *error)
{
    uint32_t end = image->base + (uint32_t)image->bytes.size;
    int code = 0;
    for (size_t i = 0; i < image->symbol_count && code == 0; i++) {
        const struct asm_symbol *s = &image->symbols[i];
        uint32_t next = end;
        if (s->address < image->base || s->address >= end)
            continue;
        for (size_t k = 0; k < image->symbol_count; k++)
            if (image->symbols[k].address > s->address && image->symbols[k].address < next)
                next = image->symbols[k].address;
        code = check(package_add_symbol(package, s->name, s->address, next - s->address), error);
    }
    return code;
}

/* --- the whole ------------------------------------------------------------------------------ */

static int fill_package(struct codegen *c, struct package *package, const struct tile_code *tiles,
                        struct ipu_error *error)
{
    add_info(c, package);
    int code = add_tensors(c->flow, package, error);
    if (code == 0)
        code = nests_add(c->flow, c->program, c->host, package, error);
    if (code == 0)
        code = add_segments(c, package, tiles, error);
    if (code == 0)
        code = profile_add(c, package, error);
    if (code == 0)
        code = add_symbols(&c->image.runtime, package, error);
    if (code == 0)
        code = add_symbols(&c->image.kernels, package, error);
    return code;
}

static void log_support(const struct codegen *c, const struct tile_code *tiles)
{
    uint32_t code = 0, data = 0, profile = 0, region0 = 0, patches = 0;
    for (unsigned t = 0; t < PROGRAM_TILES; t++) {
        uint32_t words = tiles[t].code_count * 4;
        code = words > code ? words : code;
        patches = tiles[t].patch_bytes > patches ? tiles[t].patch_bytes : patches;
        uint32_t bytes = tiles[t].data_used + tiles[t].overflow_used;
        data = bytes > data ? bytes : data;
        profile = c->host->samples[t] * 4 > profile ? c->host->samples[t] * 4 : profile;
        region0 = c->schedule->region0[t] > region0 ? c->schedule->region0[t] : region0;
    }
    const struct asm_image *last =
        c->image.kernels.bytes.size ? &c->image.kernels : &c->image.runtime;
    log_event(c->options->log, LOG_LEVEL_INFO, "build", "exchange table and repeat patch storage",
              "exchange_table_bytes=%u maximum_uncompressed_repeat_patch_bytes=%u "
              "maximum_elided_arithmetic_patch_bytes=0",
              c->schedule->exchange_table_bytes, patches);
    log_event(c->options->log, LOG_LEVEL_INFO, "build", "allocated package support memory",
              "linked_end=%u profile_bytes=%u exchange_table_bytes=%u host_code_bytes=%u "
              "host_data_bytes=%u generated_code_bytes=%u code_address=%u "
              "standard_ranges=[(%u,%u)]",
              last->base + (uint32_t)last->bytes.size, profile, c->schedule->exchange_table_bytes,
              c->host_code_bytes, data, code, c->program_base, region0, IPU21_REGION1_BASE);
}

/* Places again when the linked kernels moved the tile programs, and proves the placement. */
static int settle_storage(struct codegen *c, struct program *program, const uint32_t *region0,
                          bool *moved, struct ipu_error *error)
{
    struct place_report report;
    struct log_phase phase = log_phase_begin(c->options->log, "place_storage");
    int code = 0;
    *moved = memcmp(region0, c->schedule->region0, sizeof c->schedule->region0) != 0;
    if (*moved)
        code = place_program(program, region0, c->arena, &report, error);
    if (code == 0)
        code = place_verify(program, region0, c->arena, error);
    log_phase_end(&phase, code == 0);
    return code;
}

static int settle(struct codegen *c, struct program *program, struct program_schedule *schedule,
                  struct ipu_error *error)
{
    uint32_t *region0 = ARENA_ARRAY(c->arena, uint32_t, PROGRAM_TILES);
    struct program_schedule *fresh;
    bool moved = false;
    if (region0 == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    c->program_base = c->image.program;
    struct log_phase phase = log_phase_begin(c->options->log, "size_tile_code");
    int code = codegen_sizes(c, region0, error);
    log_phase_end(&phase, code == 0);
    c->schedule = schedule;
    if (code == 0)
        code = settle_storage(c, program, region0, &moved, error);
    if (code != 0)
        return code;
    phase = log_phase_begin(c->options->log, "lower_exchanges");
    if (moved) {
        code = program_schedule(program, region0, RESCHEDULE_EFFORT, c->options, c->arena, &fresh,
                                error);
        if (code == 0)
            *schedule = *fresh;
    }
    if (code == 0)
        code = schedule_verify(program, schedule, c->options, c->arena, error);
    for (uint32_t i = 0; i < schedule->phase_count && code == 0 && !moved; i++)
        log_event(c->options->log, LOG_LEVEL_INFO, "lower_exchanges",
                  "reused exchange optimization after validating relocated rows", "phase=%u", i);
    log_phase_end(&phase, code == 0);
    return code;
}

static int build(struct codegen *c, struct package *package, struct ipu_error *error)
{
    struct tile_code *tiles = ipu_calloc(PROGRAM_TILES, sizeof *tiles);
    if (tiles == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    struct log_phase phase = log_phase_begin(c->options->log, "emit_tile_code");
    int code = emit_all(c, tiles, error);
    log_phase_end(&phase, code == 0);
    if (code == 0) {
        c->host_code_bytes = tiles[0].host_words * 4;
        for (unsigned t = 1; t < PROGRAM_TILES; t++)
            if (tiles[t].host_words * 4 > c->host_code_bytes)
                c->host_code_bytes = tiles[t].host_words * 4;
        log_support(c, tiles);
        phase = log_phase_begin(c->options->log, "build_tile_images");
        code = fill_package(c, package, tiles, error);
        log_phase_end(&phase, code == 0);
    }
    free_tiles(tiles);
    return code;
}

int codegen_package(const struct flow *flow, struct program *program,
                    struct program_schedule *schedule, const struct codegen_options *options,
                    struct arena *arena, struct package **out, struct ipu_error *error)
{
    struct codegen c;
    log_event(options->log, LOG_LEVEL_INFO, "build", "lowered graph for package construction",
              "logical_shards=%u exchange_phases=%u", program->buffer_count, program->phase_count);
    struct log_phase phase = log_phase_begin(options->log, "prepare_tile_code");
    int code = lower_verify(flow, program, error);
    if (code == 0)
        code = codegen_open(&c, flow, program, options, arena, error);
    log_phase_end(&phase, code == 0);
    if (code == 0)
        code = link_kernels(program, options, arena, &c.image, error);
    if (code != 0)
        return code;
    struct package *package = package_create();
    if (package == NULL)
        code = ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    if (code == 0)
        code = settle(&c, program, schedule, error);
    if (code == 0) {
        log_event(options->log, LOG_LEVEL_INFO, "build", "costed final placed program",
                  "final_cycles=%" PRIu64 " final_exchange=%" PRIu64, schedule->cycles,
                  schedule->exchange_cycles);
        code = build(&c, package, error);
    }
    link_free(&c.image);
    if (code != 0)
        package_destroy(package);
    else
        *out = package;
    return code;
}

void codegen_summarise(const struct flow *flow, const struct program *program,
                       struct codegen_summary *out)
{
    bool seen[PROGRAM_TILES] = {false};
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < program->upload_count; i++) {
        const struct program_upload *u = &program->uploads[i];
        const struct flow_tensor *t = &flow->tensors[u->tensor];
        uint64_t bytes = (uint64_t)u->rows * u->panels * program_cell_bytes(t->type);
        if (u->form == PROGRAM_WEIGHTS)
            bytes = (uint64_t)((u->rows + 15) / 16) * u->panels * 512;
        uint64_t *sum = t->source == FLOW_PARAMETER ? &out->weight_bytes : &out->input_bytes;
        *sum += bytes;
    }
    for (uint32_t i = 0; i < program->download_count; i++) {
        const struct program_download *d = &program->downloads[i];
        unsigned tile = program->buffers[d->from.buffer].tile;
        out->active_tiles += d->output == 0 && !seen[tile];
        seen[tile] |= d->output == 0;
    }
}
