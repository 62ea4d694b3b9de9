/* Builds the secondary loader from its embedded source: see device/runtime/loader.h.
 *
 * The source is part of the program, so that an error here is an error of this build: it is
 * reported as internal, with the assembler's own sentence.
 */
#include "device/runtime/loader.h"

#include "device/asm/asm.h"
#include "device/kernels/sources.h"

static const char *include_source(void *context, const char *name, size_t *length)
{
    (void)context;
    return source_find(name, length);
}

static int pad(struct buffer *bytes, const struct asm_image *image, struct ipu_error *error)
{
    static const uint8_t zeros[1024];
    size_t size = image->bytes.size, rest = (1024 - size % 1024) % 1024;
    if (size + rest > LOADER_MAX_BYTES)
        return ipu_error_set(error, IPU_ERR_INTERNAL, "secondary loader: %zu bytes, more than %d",
                             size, LOADER_MAX_BYTES);
    if (asm_image_symbol(image, "resident_end") > LOADER_IMAGE + LOADER_PAYLOAD)
        return ipu_error_set(error, IPU_ERR_INTERNAL,
                             "secondary loader: its resident part is longer than a frame");
    buffer_append(bytes, image->bytes.data, size);
    buffer_append(bytes, zeros, rest);
    return bytes->failed ? ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for the loader") : 0;
}

int loader_build(struct buffer *bytes, struct ipu_error *error)
{
    struct buffer object = {0};
    struct asm_image image = {0};
    struct asm_options options = {.include = include_source};
    size_t length;
    const char *text = source_find("loader.S", &length);
    if (!text)
        return ipu_error_set(error, IPU_ERR_INTERNAL, "the source loader.S is not built in");
    int code = asm_assemble("loader.S", text, length, &options, &object, error);
    if (code == 0) {
        struct asm_object one = {object.data, object.size, "loader"};
        struct asm_link_options link = {.base = LOADER_BASE};
        code = asm_link(&one, 1, &link, &image, error);
    }
    if (code != 0)
        ipu_error_wrap(error, "secondary loader: ");
    else
        code = pad(bytes, &image, error);
    asm_image_free(&image);
    buffer_free(&object);
    return code;
}
