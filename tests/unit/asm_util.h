/* Helpers of the assembler's tests: source text -> words, or the message that it fails with. */
#ifndef IPU_TEST_ASM_UTIL_H
#define IPU_TEST_ASM_UTIL_H

#include "device/asm/asm.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

enum { ASM_TEST_BASE = 0x4c000 };

struct asm_words {
    struct asm_image image;
    uint32_t words[4096];
    size_t count;
};

static inline int assemble_with(const char *source, const struct asm_options *options,
                                struct buffer *object, struct ipu_error *error)
{
    return asm_assemble("t.S", source, strlen(source), options, object, error);
}

/* Assembles and links at ASM_TEST_BASE; the test fails when either does. */
static inline void build_with(const char *source, const struct asm_options *options,
                              struct asm_words *out)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    int code = assemble_with(source, options, &object, &error);
    ck_assert_msg(code == 0, "%s\nsource:\n%.300s", error.text, source);
    struct asm_object one = {object.data, object.size, "t.o"};
    struct asm_link_options link = {.base = ASM_TEST_BASE};
    code = asm_link(&one, 1, &link, &out->image, &error);
    ck_assert_msg(code == 0, "%s", error.text);
    buffer_free(&object);
    ck_assert_uint_le(out->image.bytes.size, sizeof(out->words));
    memset(out->words, 0, sizeof(out->words));
    if (out->image.bytes.size != 0)
        memcpy(out->words, out->image.bytes.data, out->image.bytes.size);
    out->count = (out->image.bytes.size + 3) / 4;
}

/* Words of a source, `count` of them expected. */
static inline void expect_words(const char *source, const uint32_t *words, size_t count)
{
    static struct asm_words got;
    build_with(source, NULL, &got);
    ck_assert_msg(got.count == count, "%zu words, expected %zu: %.200s", got.count, count, source);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(got.words[i] == words[i], "word %zu is %08x, expected %08x: %.200s", i,
                      got.words[i], words[i], source);
    asm_image_free(&got.image);
}

/* Both sources give the same bytes. */
static inline void expect_same(const char *a, const char *b)
{
    static struct asm_words left;
    build_with(a, NULL, &left);
    expect_words(b, left.words, left.count);
    asm_image_free(&left.image);
}

/* The source fails with IPU_ERR_COMPILE, at `place` ("3:7"), and its message holds `message`. */
static inline void expect_error(const char *source, const char *place, const char *message)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    char prefix[40] = "t.S:";
    int code = assemble_with(source, NULL, &object, &error);
    ck_assert_msg(code == IPU_ERR_COMPILE, "code %d for: %.200s", code, source);
    ck_assert_ptr_null(object.data);
    strncat(strncat(prefix, place, 20), ": ", 3);
    ck_assert_msg(strncmp(error.text, prefix, strlen(prefix)) == 0, "expected %s, got: %s", prefix,
                  error.text);
    ck_assert_msg(strstr(error.text, message) != NULL, "expected '%s' in: %s", message, error.text);
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

#endif
