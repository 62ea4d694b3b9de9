/* Kernel table, names, keys and assembly of the embedded sources.
 *
 * Invariants: the table is generated from kernels.def; a kernel's object depends only on what
 * kernel_key() hashes. Fails when a source is missing (a build error of ours) or does not assemble.
 */
#include "device/kernels/kernels.h"

#include "base/hash.h"
#include "device/kernels/flag_set.h"
#include "device/kernels/sources.h"

#include <stdio.h>
#include <string.h>

/* Changes whenever the assembler or linker would give other bytes for the same text. */
#define KERNEL_TOOLCHAIN "ipud-asm-1"

enum { MAX_DEFINES = KERNEL_MAX_PARAMS + 2, DEFINE_BYTES = 24 };

struct family {
    const char *id;
    struct kernel_info info;
    const char *params[KERNEL_MAX_PARAMS + 1]; /* NULL-terminated */
    const char *args[KERNEL_MAX_ARGS + 1];
};

#define LIST(...)   __VA_ARGS__
#define NONE        KERNEL_OPERAND_NONE
#define ANY         KERNEL_OPERAND_ANY
#define INTERLEAVED KERNEL_OPERAND_INTERLEAVED
#define COUNT(...)  (sizeof((const char *const[]){"", __VA_ARGS__}) / sizeof(char *) - 1)
#define KERNEL(id_, name_, source_, params_, args_, operands_, a_, b_)                             \
    [KERNEL_##id_] = {.id = #id_,                                                                  \
                      .info = {.name = name_,                                                      \
                               .source = source_,                                                  \
                               .param_count = COUNT params_,                                       \
                               .arg_count = COUNT args_,                                           \
                               .param_names = families[KERNEL_##id_].params,                       \
                               .arg_names = families[KERNEL_##id_].args,                           \
                               .operands = {LIST operands_},                                       \
                               .distinct_a = a_,                                                   \
                               .distinct_b = b_},                                                  \
                      .params = {LIST params_},                                                    \
                      .args = {LIST args_}},
static const struct family families[KERNEL_FAMILIES] = {
#include "device/kernels/kernels.def"
};
#undef KERNEL
#undef COUNT
#undef INTERLEAVED
#undef ANY
#undef NONE
#undef LIST

const struct kernel_info *kernel_info(enum kernel_family family)
{
    return &families[family].info;
}

enum kernel_operand kernel_operand_of(const struct kernel_spec *spec, unsigned arg)
{
    enum { WEIGHTS = 1 };
    if (spec->family == KERNEL_GEMM_F16 && arg == WEIGHTS && (spec->params[0] & 1) == 0)
        return KERNEL_OPERAND_ANY;
    return kernel_info(spec->family)->operands[arg];
}

void kernel_name(const struct kernel_spec *spec, char name[KERNEL_NAME_BYTES])
{
    const struct kernel_info *info = kernel_info(spec->family);
    const uint32_t *p = spec->params;
    if (spec->family == KERNEL_GEMM_F16)
        snprintf(name, KERNEL_NAME_BYTES, "%s_%s%s_k%u_c%u_r%u_r%u", info->name,
                 p[0] & 1 ? "interleaved" : "standard", p[0] & 2 ? "_far" : "", p[1], p[2], p[3],
                 p[4]);
    else
        snprintf(name, KERNEL_NAME_BYTES, "%s", info->name);
}

/* --- assembling ------------------------------------------------------------------------------ */

static const char *include_source(void *context, const char *name, size_t *length)
{
    (void)context;
    return source_find(name, length);
}

struct defines {
    struct asm_define list[MAX_DEFINES];
    size_t count;
    char values[KERNEL_MAX_PARAMS][DEFINE_BYTES];
    char name[KERNEL_NAME_BYTES];
    char family[KERNEL_NAME_BYTES];
};

/* -DENTRY=<symbol>, -DKERNEL_<ID>, and one define a parameter. */
static void list_defines(const struct kernel_spec *spec, struct defines *out)
{
    const struct family *family = &families[spec->family];
    kernel_name(spec, out->name);
    snprintf(out->family, sizeof out->family, "KERNEL_%s", family->id);
    out->list[0] = (struct asm_define){"ENTRY", out->name};
    out->list[1] = (struct asm_define){out->family, "1"};
    out->count = 2;
    for (unsigned i = 0; i < family->info.param_count; i++) {
        snprintf(out->values[i], DEFINE_BYTES, "%u", spec->params[i]);
        out->list[out->count++] = (struct asm_define){family->params[i], out->values[i]};
    }
}

static int assemble(const char *source, const struct defines *defines, const struct flag_set *flags,
                    struct buffer *object, struct ipu_error *error)
{
    size_t length;
    const char *text = source_find(source, &length);
    if (!text)
        return ipu_error_set(error, IPU_ERR_INTERNAL, "the source %s is not built in", source);
    struct asm_options options = {.include = include_source};
    options.flags = flag_set_constants(flags, &options.flag_count);
    if (defines) {
        options.defines = defines->list;
        options.define_count = defines->count;
    }
    return asm_assemble(source, text, length, &options, object, error);
}

static bool spec_valid(const struct kernel_spec *spec)
{
    const uint32_t *p = spec->params;
    if (spec->family != KERNEL_GEMM_F16)
        return (unsigned)spec->family < KERNEL_FAMILIES;
    return p[0] <= 3 && p[1] && p[1] % 16 == 0 && p[2] && p[2] % 16 == 0 && p[3] && p[3] <= p[4] &&
           p[4] <= KERNEL_GEMM_MAX_ROWS;
}

int kernel_assemble_for(const struct kernel_spec *spec, const struct flag_set *flags,
                        struct buffer *object, struct ipu_error *error)
{
    if (!spec_valid(spec))
        return ipu_error_set(error, IPU_ERR_INTERNAL, "kernel parameters are out of range");
    struct defines defines;
    list_defines(spec, &defines);
    int result = assemble(kernel_info(spec->family)->source, &defines, flags, object, error);
    if (result)
        ipu_error_wrap(error, "kernel %s: ", defines.name);
    return result;
}

int kernel_assemble(const struct kernel_spec *spec, struct buffer *object, struct ipu_error *error)
{
    return kernel_assemble_for(spec, NULL, object, error);
}

int kernel_assemble_runtime(struct buffer *object, struct ipu_error *error)
{
    int result = assemble("runtime.S", NULL, NULL, object, error);
    if (result)
        ipu_error_wrap(error, "tile runtime: ");
    return result;
}

/* --- keys ------------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The source itself and every .inc file: more than it may include, never less. */
static void hash_sources(struct hash_state *state, const char *source)
{
    const char *name, *text;
    size_t length;
    for (size_t i = 0; (text = source_at(i, &name, &length)); i++) {
        const char *base = strrchr(name, '/');
        if (!ends_with(name, ".inc") && (!base || strcmp(base + 1, source) != 0))
            continue;
        hash_update(state, name, strlen(name) + 1);
        hash_update(state, text, length + 1);
    }
}

void kernel_key_for(const struct kernel_spec *spec, const struct flag_set *flags, char text[65])
{
    struct defines defines;
    struct hash hash;
    struct hash_state *state = hash_begin();
    char head[128];
    snprintf(head, sizeof head, "%s flags %u %s", KERNEL_TOOLCHAIN, flag_set_number(flags),
             flag_set_digest(flags));
    hash_update(state, head, strlen(head) + 1);
    list_defines(spec, &defines);
    for (size_t i = 0; i < defines.count; i++) {
        hash_update(state, defines.list[i].name, strlen(defines.list[i].name) + 1);
        hash_update(state, defines.list[i].value, strlen(defines.list[i].value) + 1);
    }
    hash_sources(state, kernel_info(spec->family)->source);
    text[0] = 0;
    if (hash_finish(state, &hash))
        hash_text(&hash, text);
}

void kernel_key(const struct kernel_spec *spec, char text[65])
{
    kernel_key_for(spec, NULL, text);
}

/* The AMP drains unit pairs in the order 0,1 of set 0, 0,1 of set 1, 2,3, ... and keeps the four
 * inner quarters of a unit in four successive slots (facts/isa_semantics.md section 6). */
unsigned kernel_weight_slot(unsigned k, unsigned n)
{
    unsigned unit = 2 * (n / 4) + n % 2 + (n % 4 >= 2 ? 8 : 0);
    return (4 * unit + k / 4) * 4 + k % 4;
}
