/* module: device/asm */
/* Objects and the linker: the ELF that the assembler writes, as libelf reads it; collection,
 * layout, symbols, every relocation with its limits; damaged objects; memory failures.
 */
#include "base/alloc.h"
#include "device/asm/elf.h"
#include "tests/unit/asm_util.h"

#include <check.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>

enum { BASE = ASM_TEST_BASE, MAX_OBJECTS = 4 };

struct linked {
    struct buffer objects[MAX_OBJECTS];
    struct asm_image image;
    struct ipu_error error;
    int code;
};

static struct linked run(const char *const *sources, size_t count,
                         const struct asm_link_options *options)
{
    static const char *const names[] = {"a.o", "b.o", "c.o", "d.o"};
    struct linked result = {0};
    struct asm_object objects[MAX_OBJECTS];
    for (size_t i = 0; i < count; i++) {
        struct ipu_error error = {0};
        int code = assemble_with(sources[i], NULL, &result.objects[i], &error);
        ck_assert_msg(code == 0, "%s", error.text);
        objects[i] = (struct asm_object){result.objects[i].data, result.objects[i].size, names[i]};
    }
    result.code = asm_link(objects, count, options, &result.image, &result.error);
    if (result.code == 0)
        result.error.text[0] = '\0';
    return result;
}

static struct linked run_one(const char *source)
{
    struct asm_link_options options = {.base = BASE};
    return run(&source, 1, &options);
}

static void release(struct linked *linked)
{
    for (size_t i = 0; i < MAX_OBJECTS; i++)
        buffer_free(&linked->objects[i]);
    asm_image_free(&linked->image);
}

static uint32_t word(const struct linked *linked, uint32_t address)
{
    uint32_t value;
    ck_assert_uint_ge(address, linked->image.base);
    ck_assert_uint_le(address + 4 - linked->image.base, linked->image.bytes.size);
    memcpy(&value, linked->image.bytes.data + (address - linked->image.base), 4);
    return value;
}

/* --- the object file --- */

START_TEST(objects_are_standard_elf)
{
    static const char source[] =
        ".section .text.k, \"ax\"\n.globl k\n.type k, @function\n.align 8\n"
        "k: bri k\n nop\n.size k, . - k\ncall $lr, ext\n.bss\n.space 12\n"
        ".data\nlocal: .long k + 4\n.Lhidden: .long 1\n";
    struct buffer object = {0};
    struct ipu_error error;
    ck_assert_int_eq(assemble_with(source, NULL, &object, &error), 0);
    elf_version(EV_CURRENT);
    Elf *elf = elf_memory((char *)object.data, object.size);
    Elf32_Ehdr *header = elf32_getehdr(elf);
    ck_assert_ptr_nonnull(header);
    ck_assert_uint_eq(header->e_machine, 248);
    ck_assert_uint_eq(header->e_flags, 0x21);
    ck_assert_uint_eq(header->e_ident[EI_OSABI], 255);
    ck_assert_uint_eq(header->e_type, ET_REL);
    size_t names, symbols = 0, relocs = 0, functions = 0, hidden = 0, bss = 0;
    ck_assert_int_eq(elf_getshdrstrndx(elf, &names), 0);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        Elf32_Shdr *shdr = elf32_getshdr(section);
        Elf_Data *data = elf_getdata(section, NULL);
        const char *name = elf_strptr(elf, names, shdr->sh_name);
        if (strcmp(name, ".text.k") == 0) {
            ck_assert_uint_eq(shdr->sh_flags, SHF_ALLOC | SHF_EXECINSTR);
            ck_assert_uint_eq(shdr->sh_addralign, 8);
            ck_assert_uint_eq(shdr->sh_size, 12);
        }
        if (strcmp(name, ".bss") == 0)
            bss = shdr->sh_type == SHT_NOBITS ? shdr->sh_size : 0;
        if (shdr->sh_type == SHT_RELA)
            relocs += shdr->sh_size / sizeof(Elf32_Rela);
        if (shdr->sh_type != SHT_SYMTAB)
            continue;
        const Elf32_Sym *table = data->d_buf;
        symbols = shdr->sh_size / sizeof(Elf32_Sym);
        for (size_t i = 0; i < symbols; i++) {
            const char *text = elf_strptr(elf, shdr->sh_link, table[i].st_name);
            bool global = ELF32_ST_BIND(table[i].st_info) == STB_GLOBAL;
            ck_assert(global == (i >= shdr->sh_info));
            hidden += strcmp(text, ".Lhidden") == 0;
            functions += strcmp(text, "k") == 0 && table[i].st_size == 8 &&
                         ELF32_ST_TYPE(table[i].st_info) == STT_FUNC;
        }
    }
    ck_assert_uint_eq(bss, 12);
    ck_assert_uint_eq(relocs, 3);
    ck_assert_uint_eq(functions, 1);
    ck_assert_uint_eq(hidden, 0);
    elf_end(elf);
    buffer_free(&object);
}
END_TEST

START_TEST(the_same_source_gives_the_same_bytes)
{
    static const char source[] = ".globl a, b\na: call $lr, b\nb: bri 1f\n1: nop\n.data\n.long a\n";
    struct buffer one = {0}, two = {0};
    struct ipu_error error;
    ck_assert_int_eq(assemble_with(source, NULL, &one, &error), 0);
    ck_assert_int_eq(assemble_with(source, NULL, &two, &error), 0);
    ck_assert_uint_eq(one.size, two.size);
    ck_assert_mem_eq(one.data, two.data, one.size);
    buffer_free(&one);
    buffer_free(&two);
}
END_TEST

/* --- layout and symbols --- */

START_TEST(groups_follow_each_other_in_object_order)
{
    static const char *const sources[] = {
        ".data\n.globl d1\nd1: .long 1\n.text\n.globl t1\nt1: nop\n.bss\n.align 16\n.globl z\nz: "
        ".space 8\n",
        ".section .rodata\n.globl r2\nr2: .long 2\n.text\n.align 8\n.globl t2\nt2: br $lr\n"};
    struct asm_link_options options = {.base = BASE + 4};
    struct linked out = run(sources, 2, &options);
    ck_assert_msg(out.code == 0, "%s", out.error.text);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "t1"), BASE + 4);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "t2"), BASE + 8);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "r2"), BASE + 12);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "d1"), BASE + 16);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "z"), BASE + 32);
    ck_assert_uint_eq(out.image.base + out.image.bytes.size, BASE + 40);
    ck_assert_uint_eq(word(&out, BASE + 8), 0x43a00000);
    ck_assert_uint_eq(word(&out, BASE + 12), 2);
    ck_assert_uint_eq(word(&out, BASE + 36), 0);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "nothing"), 0);
    for (size_t i = 1; i < out.image.symbol_count; i++)
        ck_assert_int_lt(strcmp(out.image.symbols[i - 1].name, out.image.symbols[i].name), 0);
    release(&out);
}
END_TEST

START_TEST(only_what_the_roots_reach_is_kept)
{
    static const char *const sources[] = {
        ".section .text.root, \"ax\"\n.globl root\nroot: call $lr, used\n"
        ".section .text.dead, \"ax\"\n.globl dead\ndead: call $lr, missing\n",
        ".section .text.used, \"ax\"\n.globl used\nused: setzi $m0, table\nbr $lr\n"
        ".section .rodata.table, \"a\"\ntable: .long used\n"
        ".section .rodata.other, \"a\"\n.globl other\nother: .long 7\n"};
    const char *const roots[] = {"root"};
    struct asm_link_options options = {.base = BASE, .roots = roots, .root_count = 1};
    struct linked out = run(sources, 2, &options);
    ck_assert_msg(out.code == 0, "%s", out.error.text);
    ck_assert_uint_eq(out.image.bytes.size, 16);
    ck_assert_uint_eq(out.image.symbol_count, 2);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "used"), BASE + 4);
    ck_assert_uint_eq(word(&out, BASE + 12), BASE + 4);
    release(&out);
    options.root_count = 0;
    out = run(sources, 2, &options);
    ck_assert_int_eq(out.code, IPU_ERR_COMPILE);
    ck_assert_ptr_nonnull(strstr(out.error.text, "symbol 'missing' is not defined"));
    release(&out);
}
END_TEST

START_TEST(externals_and_absolute_symbols_resolve)
{
    const char *source = "call $lr, ext\n.long ext + 4, other\n.globl n\n.set n, 0x123\n.long m\n";
    const char *sources[] = {source, ".globl m\n.set m, 0x777\n"};
    struct asm_symbol externals[] = {{"ext", 0x50000}, {"other", 0xffffffff}};
    struct asm_link_options options = {.base = BASE, .externals = externals, .external_count = 2};
    struct linked out = run(sources, 2, &options);
    ck_assert_msg(out.code == 0, "%s", out.error.text);
    ck_assert_uint_eq(word(&out, BASE), 0x18a00000 | 0x50000 >> 2);
    ck_assert_uint_eq(word(&out, BASE + 4), 0x50004);
    ck_assert_uint_eq(word(&out, BASE + 8), 0xffffffff);
    ck_assert_uint_eq(word(&out, BASE + 12), 0x777);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "n"), 0x123);
    release(&out);
}
END_TEST

START_TEST(weak_symbols_yield_and_may_be_missing)
{
    const char *sources[] = {".weak f\n.globl f\nf: .long 1\n.weak none\n.long none, f\n",
                             ".globl f\nf: .long 2\n"};
    struct asm_link_options options = {.base = BASE};
    struct linked out = run(sources, 2, &options);
    ck_assert_msg(out.code == 0, "%s", out.error.text);
    ck_assert_uint_eq(word(&out, BASE + 4), 0);
    ck_assert_uint_eq(word(&out, BASE + 8), BASE + 12);
    ck_assert_uint_eq(asm_image_symbol(&out.image, "f"), BASE + 12);
    release(&out);
}
END_TEST

START_TEST(undefined_duplicate_and_missing_roots_are_named)
{
    static const char *const twice[] = {".globl f\nf: nop\n", ".globl f\nf: nop\n"};
    static const char *const one[] = {"bri nowhere\n"};
    const char *const roots[] = {"ghost"};
    struct asm_link_options options = {.base = BASE};
    struct linked out = run(twice, 2, &options);
    ck_assert_int_eq(out.code, IPU_ERR_COMPILE);
    ck_assert_ptr_nonnull(strstr(out.error.text, "'f' is defined twice: in a.o and in b.o"));
    release(&out);
    out = run(one, 1, &options);
    ck_assert_ptr_nonnull(strstr(out.error.text, "a.o: symbol 'nowhere' is not defined"));
    release(&out);
    options.roots = roots;
    options.root_count = 1;
    out = run(twice, 1, &options);
    ck_assert_ptr_nonnull(strstr(out.error.text, "root symbol 'ghost' is not defined"));
    release(&out);
}
END_TEST

/* --- relocations --- */

/* A use of every relocation; `half` is the second half-word before the label `here`. */
static const char *all_relocations(const char *half)
{
    static char source[1024];
    snprintf(source, sizeof(source), "%s%s%s",
             "setzi $m3, here\nbri here\nrun $m0, $m1, here\nsend 2, here, 3\n"
             ".long here@abs18@s2, here@abs@21\n.half here@relative@16@s2, ",
             half,
             "\nhere: rpt $m0, small\ncmpult $m0, $m1, small\ndelaypic 1, 0, here\n"
             ".quad here\n.byte small, small\n.half small + 0x1000\n");
    return source;
}

START_TEST(each_relocation_reaches_its_field)
{
    /* here = BASE + 0x1c: region offset 0x1c, word address 0x13007, not a multiple of 16. */
    const char *sources[] = {all_relocations("here@abs@16@s4"), ".globl small\n.set small, 0x25\n"};
    struct asm_link_options options = {.base = BASE};
    struct linked out = run(sources, 2, &options);
    ck_assert_int_eq(out.code, IPU_ERR_COMPILE);
    ck_assert_ptr_nonnull(strstr(out.error.text, "is not aligned (relocation 15)"));
    release(&out);
    sources[0] = all_relocations("small + 0x1234");
    out = run(sources, 2, &options);
    ck_assert_msg(out.code == 0, "%s", out.error.text);
    ck_assert_uint_eq(word(&out, BASE), 0x19300000u | (BASE + 0x1c));
    ck_assert_uint_eq(word(&out, BASE + 4), 0x40800000 | 0x13007);
    ck_assert_uint_eq(word(&out, BASE + 8), 0x14001007);
    ck_assert_uint_eq(word(&out, BASE + 12), 0x78000000u | 2u << 21 | 0x13007u << 3 | 3);
    ck_assert_uint_eq(word(&out, BASE + 16), 0x13007);
    ck_assert_uint_eq(word(&out, BASE + 20), BASE + 0x1c);
    ck_assert_uint_eq(word(&out, BASE + 24), 0x12590007);
    ck_assert_uint_eq(word(&out, BASE + 28), 0x4300a025);
    ck_assert_uint_eq(word(&out, BASE + 32), 0x2a100025);
    ck_assert_uint_eq(word(&out, BASE + 36), 0x60080000 | 0x13007);
    ck_assert_uint_eq(word(&out, BASE + 40), BASE + 0x1c);
    ck_assert_uint_eq(word(&out, BASE + 44), 0);
    ck_assert_uint_eq(word(&out, BASE + 48), 0x10252525);
    release(&out);
}
END_TEST

START_TEST(run_splits_its_offset)
{
    struct linked out = run_one("run $m0, $m0, far\n.space 0x11234 - 4\nfar: nop\n");
    ck_assert_msg(out.code == 0, "%s", out.error.text);
    ck_assert_uint_eq(word(&out, BASE), 0x1404048d);
    release(&out);
}
END_TEST

START_TEST(values_that_do_not_fit_their_field_are_refused)
{
    static const struct {
        const char *source, *message;
    } cases[] = {{"setzi $m0, ext\n", "the value 0x100000 of 'ext' does not fit (relocation 3)"},
                 {"bri ext + 2\n", "the value 0x100002 of 'ext' is not aligned (relocation 8)"},
                 {"bri ext + 0x100000\n", "does not fit (relocation 8)"},
                 {".half ext\n", "does not fit (relocation 2)"},
                 {".byte ext\n", "does not fit (relocation 1)"},
                 {"run $m0, $m0, ext\n", "does not fit (relocation 9)"},
                 {"run $m0, $m0, low\n", "does not fit (relocation 9)"},
                 {".long ext@abs@21 + 0x100000\n", "does not fit (relocation 17)"},
                 {"send 0, ext + 1, 3\n", "is not aligned (relocation 200)"},
                 {"send 0, ext, 3\n", "does not fit (relocation 200)"},
                 {"nop\nsetzi $m0, ext\n", "section .text + 0x4"}};
    struct asm_symbol externals[] = {{"ext", 0x100000}, {"low", 0x1000}};
    struct asm_link_options options = {.base = BASE, .externals = externals, .external_count = 2};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct linked out = run(&cases[i].source, 1, &options);
        ck_assert_msg(out.code == IPU_ERR_COMPILE, "%s linked", cases[i].source);
        ck_assert_msg(strstr(out.error.text, cases[i].message) != NULL, "%s", out.error.text);
        release(&out);
    }
}
END_TEST

/* --- damaged objects, memory --- */

static int link_bytes(const uint8_t *data, size_t size, struct ipu_error *error)
{
    struct asm_object object = {data, size, "damaged.o"};
    struct asm_link_options options = {.base = BASE};
    struct asm_image image;
    int code = asm_link(&object, 1, &options, &image, error);
    if (code == 0)
        asm_image_free(&image);
    else
        ck_assert_ptr_null(image.bytes.data);
    return code;
}

static void make_object(struct buffer *object)
{
    struct ipu_error error;
    ck_assert_int_eq(assemble_with(".globl f\nf: setzi $m0, t\nbri f\n.data\nt: .long f, 1\n.bss\n"
                                   ".space 4\n",
                                   NULL, object, &error),
                     0);
}

START_TEST(damaged_objects_are_errors_or_link)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    make_object(&object);
    ck_assert_int_eq(link_bytes(object.data, object.size, &error), 0);
    uint8_t *copy = malloc(object.size);
    ck_assert_ptr_nonnull(copy);
    size_t refused = 0;
    for (size_t i = 0; i < object.size; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(copy, object.data, object.size);
            copy[i] ^= (uint8_t)(1u << bit);
            error.text[0] = '\0';
            int code = link_bytes(copy, object.size, &error);
            if (code != 0 && (code != IPU_ERR_COMPILE || error.text[0] == '\0'))
                ck_abort_msg("byte %zu bit %u: code %d '%s'", i, bit, code, error.text);
            refused += code != 0;
        }
    ck_assert_uint_gt(refused, 500);
    free(copy);
    buffer_free(&object);
}
END_TEST

START_TEST(truncated_objects_are_refused)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    make_object(&object);
    for (size_t size = 0; size < object.size; size++) {
        uint8_t *copy = malloc(size + 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, object.data, size);
        int code = link_bytes(copy, size, &error);
        free(copy);
        if (code != IPU_ERR_COMPILE || strncmp(error.text, "damaged.o: ", 11) != 0)
            ck_abort_msg("size %zu: code %d %s", size, code, error.text);
    }
    buffer_free(&object);
}
END_TEST

START_TEST(linking_survives_memory_failures)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    make_object(&object);
    int succeeded = 0;
    for (long n = 0; n < 200 && !succeeded; n++) {
        ipu_alloc_fail_after(n, 0);
        int code = link_bytes(object.data, object.size, &error);
        ipu_alloc_fail_after(-1, 0);
        ck_assert_msg(code == 0 || code == IPU_ERR_NO_MEMORY, "call %ld: %d", n, code);
        succeeded = code == 0;
        ck_assert(n > 1 || !succeeded);
    }
    ck_assert(succeeded);
    buffer_free(&object);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asm_link");
    TCase *objects = tcase_create("objects"), *layout = tcase_create("layout");
    TCase *relocs = tcase_create("relocations"), *damage = tcase_create("damage");
    tcase_set_timeout(damage, 60);
    tcase_add_test(objects, objects_are_standard_elf);
    tcase_add_test(objects, the_same_source_gives_the_same_bytes);
    tcase_add_test(layout, groups_follow_each_other_in_object_order);
    tcase_add_test(layout, only_what_the_roots_reach_is_kept);
    tcase_add_test(layout, externals_and_absolute_symbols_resolve);
    tcase_add_test(layout, weak_symbols_yield_and_may_be_missing);
    tcase_add_test(layout, undefined_duplicate_and_missing_roots_are_named);
    tcase_add_test(relocs, each_relocation_reaches_its_field);
    tcase_add_test(relocs, run_splits_its_offset);
    tcase_add_test(relocs, values_that_do_not_fit_their_field_are_refused);
    tcase_add_test(damage, damaged_objects_are_errors_or_link);
    tcase_add_test(damage, truncated_objects_are_refused);
    tcase_add_test(damage, linking_survives_memory_failures);
    suite_add_tcase(suite, objects);
    suite_add_tcase(suite, layout);
    suite_add_tcase(suite, relocs);
    suite_add_tcase(suite, damage);
    return run_suite(suite);
}
