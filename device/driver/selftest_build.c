/* Assembling and packaging the programs of the self-test: see selftest_build.h.
 *
 * The add functions of the package keep the first error; writing reports it.
 */
#include "device/driver/selftest_build.h"

#include "device/driver/selftest_programs.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"
#include "device/kernels/kernels.h"
#include "device/runtime/loader.h"
#include "device/runtime/runtime.h"

#include <stdio.h>
#include <string.h>

void selftest_define(struct selftest_defines *d, const char *name, uint32_t value)
{
    snprintf(d->values[d->count], sizeof d->values[0], "0x%x", value);
    d->list[d->count] = (struct asm_define){name, d->values[d->count]};
    d->count++;
}

int selftest_begin(struct selftest_build *b, const char *name, uint32_t flag_set,
                   struct ipu_error *error)
{
    static const struct package_info info = {.compiler = "selftest",
                                             .clock_hz = 1500000000,
                                             .execution_tiles = 64,
                                             .final_mark = LOADER_FINAL_MARK,
                                             .entry = LOADER_ENTRY};
    *b = (struct selftest_build){.name = name, .info = info, .error = error};
    b->package = package_create();
    if (!b->package)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for a package");
    b->info.workload = name;
    b->info.flag_set = flag_set;
    return kernel_assemble_runtime(&b->runtime, error);
}

static void add_symbols(struct selftest_build *b, const struct asm_image *image, int role)
{
    uint32_t end = image->base + (uint32_t)image->bytes.size;
    uint32_t mismatch = asm_image_symbol(image, "mismatch");
    uint32_t program = asm_image_symbol(image, RT_SYMBOL_PROGRAM);
    b->rows[role][0] = asm_image_symbol(image, "row");
    b->rows[role][1] = asm_image_symbol(image, "row_end");
    if (role == SELFTEST_IDLE)
        return;
    if (mismatch != 0)
        package_add_symbol(b->package, "mismatch", mismatch, 4);
    package_add_symbol(b->package, b->name, program, end - program);
}

static int link_role(struct selftest_build *b, int role, const struct buffer *object)
{
    struct asm_object list[3] = {{b->runtime.data, b->runtime.size, "runtime"},
                                 {object->data, object->size, b->name},
                                 {b->kernel.data, b->kernel.size, "kernel"}};
    struct asm_link_options options = {.base = IPU21_IMAGE_BASE};
    struct asm_image image = {0};
    bool kernel = b->kernel.size != 0 && role != SELFTEST_IDLE;
    int code = asm_link(list, kernel ? 3 : 2, &options, &image, b->error);
    if (code != 0)
        return code;
    b->sizes[role] = (uint32_t)(image.bytes.size + 3) / 4 * 4;
    buffer_append_zero(&image.bytes, b->sizes[role] - image.bytes.size);
    b->blobs[role] =
        image.bytes.failed ? -1 : package_add_blob(b->package, image.bytes.data, b->sizes[role]);
    add_symbols(b, &image, role);
    asm_image_free(&image);
    return b->blobs[role] >= 0
               ? 0
               : ipu_error_set(b->error, IPU_ERR_NO_MEMORY, "no memory for a test program");
}

/* Assembles `text` with ROLE and `extra` defined. */
static int make_role(struct selftest_build *b, int role, const char *text,
                     const struct selftest_defines *extra)
{
    struct selftest_defines defines = {0};
    struct asm_options options = {.defines = defines.list};
    struct buffer object = {0};
    for (size_t i = 0; extra && i < extra->count; i++)
        defines.list[defines.count++] = extra->list[i];
    selftest_define(&defines, "ROLE", (uint32_t)role);
    selftest_define(&defines, "SOURCE", SELFTEST_SOURCE);
    selftest_define(&defines, "TARGET", SELFTEST_TARGET);
    selftest_define(&defines, "EXPECTED", SELFTEST_EXPECTED);
    selftest_define(&defines, "RESULT", SELFTEST_SYMBOL_ADDRESS);
    options.define_count = defines.count;
    int code = asm_assemble(b->name, text, strlen(text), &options, &object, b->error);
    if (code == 0)
        code = link_role(b, role, &object);
    buffer_free(&object);
    return code;
}

int selftest_make_roles(struct selftest_build *b, const char *text, unsigned count,
                        const struct selftest_defines *extra)
{
    int code = 0;
    for (unsigned role = 0; role < count && code == 0; role++)
        code = make_role(b, (int)role, text, extra ? &extra[role] : NULL);
    return code;
}

void selftest_place(struct selftest_build *b, const uint8_t *roles)
{
    for (unsigned tile = 0; tile < IPU21_TILES; tile++)
        package_add_segment(b->package, tile, IPU21_IMAGE_BASE, b->blobs[roles[tile]], 0,
                            b->sizes[roles[tile]]);
}

void selftest_add_data(struct selftest_build *b, unsigned tile, uint32_t address, const void *data,
                       uint32_t bytes)
{
    int blob = package_add_blob(b->package, data, bytes);
    package_add_segment(b->package, tile, address, blob, 0, bytes);
}

int selftest_finish(struct selftest_build *b, int code, struct package **out)
{
    struct buffer bytes = {0};
    *out = NULL;
    if (code == 0) {
        package_set_info(b->package, &b->info);
        code = package_write(b->package, &bytes, b->error);
    }
    if (code == 0)
        code = package_read(bytes.data, bytes.size, out, b->error);
    if (code != 0)
        ipu_error_wrap(b->error, "self-test program \"%s\": ", b->name);
    buffer_free(&bytes);
    buffer_free(&b->runtime);
    buffer_free(&b->kernel);
    package_destroy(b->package);
    return code;
}
