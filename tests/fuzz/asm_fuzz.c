/* module: device/asm */
/* Fuzzing of the assembler and the linker (libFuzzer entry).
 *
 * The first byte chooses: source text; object bytes; or instruction words, whose disassembly must
 * be text that assembles to the same words. Nothing may crash, leak or run long; an accepted source
 * must give an object that the linker can read.
 */
#include "device/asm/asm.h"
#include "device/ipu21/isa.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x4c000 };

static int link_one(const uint8_t *data, size_t size, struct asm_image *image)
{
    struct ipu_error error;
    struct asm_object object = {data, size, "fuzz.o"};
    struct asm_link_options options = {.base = BASE};
    return asm_link(&object, 1, &options, image, &error);
}

static const char *no_file(void *context, const char *name, size_t *length)
{
    (void)context;
    *length = 14;
    return strcmp(name, "a.h") == 0 ? "#define A $m1\n" : NULL;
}

static void fuzz_source(const uint8_t *data, size_t size)
{
    struct asm_options options = {.include = no_file};
    struct buffer object = {0};
    struct ipu_error error;
    struct asm_image image;
    char *text = malloc(size + 1);
    if (text == NULL)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (asm_assemble("fuzz.S", text, size, &options, &object, &error) == 0) {
        int code = link_one(object.data, object.size, &image);
        if (code == 0)
            asm_image_free(&image);
        else if (code != IPU_ERR_COMPILE && code != IPU_ERR_NO_MEMORY)
            abort();
    }
    buffer_free(&object);
    free(text);
}

static void fuzz_object(const uint8_t *data, size_t size)
{
    struct asm_image image;
    if (link_one(data, size, &image) == 0)
        asm_image_free(&image);
}

static void fuzz_words(const uint8_t *data, size_t size)
{
    uint32_t words[2] = {0, 0};
    char text[256], source[400];
    struct buffer object = {0};
    struct ipu_error error;
    struct asm_image image;
    memcpy(words, data, size < 8 ? size : 8);
    unsigned used = asm_disassemble(BASE, words[0], words[1], text, sizeof(text));
    struct isa_inst ignored;
    /* Only bundles in lane order can be assembled. */
    if (used == 8 && words[0] >> 28 != 0xf &&
        (!isa_decode(words[0], 0, true, ISA_LANE_MAIN, &ignored) ||
         !isa_decode(words[1], 0, true, ISA_LANE_AUX, &ignored)))
        return;
    int n = snprintf(source, sizeof(source),
                     ".allow_invalid_repeat\n.warn_on_invalid_bundles\n.align 8\n%s\n", text);
    if (asm_assemble("words.S", source, (size_t)n, NULL, &object, &error) != 0 ||
        link_one(object.data, object.size, &image) != 0) {
        fprintf(stderr, "%08x %08x: %s: %s\n", words[0], words[1], text, error.text);
        abort();
    }
    if (image.bytes.size != used || memcmp(image.bytes.data, words, used) != 0) {
        fprintf(stderr, "%08x %08x: %s assembles to other words\n", words[0], words[1], text);
        abort();
    }
    asm_image_free(&image);
    buffer_free(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 4 == 0)
        fuzz_object(data + 1, size - 1);
    else if (data[0] % 4 == 1)
        fuzz_words(data + 1, size - 1);
    else
        fuzz_source(data + 1, size - 1);
    return 0;
}
