/* Runtime and kernels: assembled or taken from the cache, linked once for all tiles.
 *
 * The image starts at LAYOUT_IMAGE. When runtime and kernels together would reach the host window,
 * the kernels are linked by themselves at LAYOUT_CODE and tile programs follow them. The program's
 * entry is the one external symbol of the runtime.
 */
#include "compiler/codegen/internal.h"

#include "base/alloc.h"
#include "compiler/codegen/kernel_cache.h"
#include "device/kernels/kernels.h"
#include "device/runtime/runtime.h"

#include <string.h>

enum { ESTIMATE_GEMM = 1280, ESTIMATE_KERNEL = 512, ESTIMATE_RUNTIME = 512, CODE_GUARD = 64 };

struct link {
    const struct program *program;
    const struct codegen_options *options;
    struct ipu_error *error;
    struct buffer *objects; /* 0: runtime, 1 + i: spec i */
    char (*names)[KERNEL_NAME_BYTES];
    char (*keys)[65];
    struct asm_object *list;
    const char **roots;
};

uint32_t link_estimate(const struct program *program)
{
    uint32_t bytes = ESTIMATE_RUNTIME;
    for (uint32_t i = 0; i < program->spec_count; i++)
        bytes += program->specs[i].family == KERNEL_GEMM_F16 ? ESTIMATE_GEMM : ESTIMATE_KERNEL;
    if (LAYOUT_IMAGE + bytes <= LAYOUT_IMAGE_END)
        return LAYOUT_CODE;
    return (LAYOUT_CODE + bytes + 31) & ~31u;
}

/* --- objects -------------------------------------------------------------------------------- */

static int kernel_object(struct link *k, uint32_t index)
{
    const struct kernel_spec *spec = &k->program->specs[index];
    const struct compile_cache *cache = k->options->cache;
    const char *key = k->keys[index], *name = k->names[index];
    struct buffer *object = &k->objects[1 + index];
    if (cache != NULL && cache->find != NULL && key[0] != '\0' &&
        cache->find(cache->context, key, object))
        return 0;
    buffer_free(object);
    log_event(k->options->log, LOG_LEVEL_INFO, "compile_kernels", "compiling kernel",
              "source=%s name=%s target=ipu21", kernel_info(spec->family)->source, name);
    int code = kernel_assemble_for(spec, k->options->flags, object, k->error);
    if (code != 0)
        return code;
    log_event(k->options->log, LOG_LEVEL_INFO, "compile_kernels", "kernel artifact created",
              "key=%s", key);
    if (cache != NULL && cache->store != NULL && key[0] != '\0')
        cache->store(cache->context, key, name, object->data, object->size);
    return 0;
}

static int collect_objects(struct link *k)
{
    struct log_phase phase = log_phase_begin(k->options->log, "compile_runtime");
    int code = kernel_assemble_runtime(&k->objects[0], k->error);
    log_phase_end(&phase, code == 0);
    phase = log_phase_begin(k->options->log, "plan_kernels");
    for (uint32_t i = 0; i < k->program->spec_count; i++) {
        kernel_name(&k->program->specs[i], k->names[i]);
        kernel_key_for(&k->program->specs[i], k->options->flags, k->keys[i]);
    }
    log_phase_end(&phase, code == 0);
    phase = log_phase_begin(k->options->log, "compile_kernels");
    for (uint32_t i = 0; code == 0 && i < k->program->spec_count; i++)
        code = kernel_object(k, i);
    log_phase_end(&phase, code == 0);
    return code;
}

/* --- linking -------------------------------------------------------------------------------- */

static int link_range(struct link *k, uint32_t first, uint32_t count, uint32_t base,
                      uint32_t program, struct asm_image *image)
{
    static const char *const runtime_roots[] = {RT_SYMBOL_START, RT_SYMBOL_SAMPLE};
    const struct asm_symbol entry = {RT_SYMBOL_PROGRAM, program};
    struct asm_link_options options = {
        .base = base, .roots = k->roots, .externals = &entry, .external_count = 1};
    for (uint32_t i = 0; i < count; i++) {
        const struct buffer *b = &k->objects[first + i];
        const char *name = first + i ? k->names[first + i - 1] : "runtime";
        k->list[i] = (struct asm_object){b->data, b->size, name};
        if (first + i)
            k->roots[options.root_count++] = name;
    }
    for (unsigned i = 0; first == 0 && i < 2; i++)
        k->roots[options.root_count++] = runtime_roots[i];
    return asm_link(k->list, count, &options, image, k->error);
}

static uint32_t image_end(const struct asm_image *image)
{
    return (image->base + (uint32_t)image->bytes.size + CODE_GUARD + 31) & ~31u;
}

static int link_all(struct link *k, struct link_image *out)
{
    uint32_t specs = k->program->spec_count;
    out->program = LAYOUT_CODE;
    int code = link_range(k, 0, specs + 1, LAYOUT_IMAGE, LAYOUT_CODE, &out->runtime);
    if (code != 0 || image_end(&out->runtime) <= LAYOUT_IMAGE_END)
        return code;
    asm_image_free(&out->runtime);
    code = link_range(k, 1, specs, LAYOUT_CODE, LAYOUT_CODE, &out->kernels);
    if (code != 0)
        return code;
    out->program = image_end(&out->kernels);
    return link_range(k, 0, 1, LAYOUT_IMAGE, out->program, &out->runtime);
}

static int find_entries(struct link *k, struct link_image *out)
{
    const struct asm_image *kernels = out->kernels.bytes.size ? &out->kernels : &out->runtime;
    out->kernel_bytes = (uint32_t)(out->runtime.bytes.size + out->kernels.bytes.size);
    out->sample = asm_image_symbol(&out->runtime, RT_SYMBOL_SAMPLE);
    uint32_t start = asm_image_symbol(&out->runtime, RT_SYMBOL_START);
    if (out->sample == 0 || start != LAYOUT_IMAGE)
        return ipu_error_set(k->error, IPU_ERR_INTERNAL,
                             "codegen: the runtime's start is linked at 0x%x, not at 0x%x", start,
                             LAYOUT_IMAGE);
    for (uint32_t i = 0; i < k->program->spec_count; i++) {
        out->entry[i] = asm_image_symbol(kernels, k->names[i]);
        if (out->entry[i] == 0)
            return ipu_error_set(k->error, IPU_ERR_INTERNAL, "codegen: kernel %s defines no entry",
                                 k->names[i]);
    }
    return 0;
}

int link_kernels(const struct program *program, const struct codegen_options *options,
                 struct arena *arena, struct link_image *out, struct ipu_error *error)
{
    uint32_t n = program->spec_count;
    struct link k = {.program = program, .options = options, .error = error};
    memset(out, 0, sizeof *out);
    k.objects = ARENA_ARRAY(arena, struct buffer, n + 1);
    k.names = arena_calloc(arena, n + 1, sizeof *k.names);
    k.keys = arena_calloc(arena, n + 1, sizeof *k.keys);
    k.list = ARENA_ARRAY(arena, struct asm_object, n + 1);
    k.roots = arena_calloc(arena, n + 3, sizeof *k.roots);
    out->entry = ARENA_ARRAY(arena, uint32_t, n + 1);
    if (!k.objects || !k.names || !k.keys || !k.list || !k.roots || !out->entry)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "codegen: out of memory");
    int code = collect_objects(&k);
    if (code == 0) {
        struct log_phase phase = log_phase_begin(options->log, "link_runtime");
        code = link_all(&k, out);
        if (code == 0)
            code = find_entries(&k, out);
        log_phase_end(&phase, code == 0);
    }
    for (uint32_t i = 0; i <= n; i++)
        buffer_free(&k.objects[i]);
    if (code != 0)
        link_free(out);
    return code;
}

void link_free(struct link_image *image)
{
    asm_image_free(&image->runtime);
    asm_image_free(&image->kernels);
}
