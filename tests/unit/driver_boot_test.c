/* module: device/driver */
/* Reset, configuration, autoloader and loader files, against a fake device that keeps a record. */
#include "device/driver/boot.h"

#include "driver_fake_kernel.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- reset: facts/driver.md section 3 --- */

static const struct {
    uint32_t request, argument;
    const char *name;
} sequence[] = {
    {IPU21_HOST_STOP_MONITORING, 0, "STOP_MONITORING"},
    {IPU21_HOST_MAILBOX, 0x4078020e, "MAILBOX"},
    {IPU21_HOST_START_MONITORING, 0, "START_MONITORING"},
    {IPU21_HOST_ACCUMULATE_ERRORS, 0, "ACCUMULATE_ERRORS"},
    {IPU21_HOST_RESET_NOTIFY, 0, "RESET"},
    {IPU21_HOST_SET_SECONDARY_ID, 0, "SET_SECONDARY_IPU_ID"},
};
enum { SEQUENCE = sizeof sequence / sizeof *sequence };

START_TEST(reset_follows_the_order_of_the_kernel_module)
{
    ck_assert_int_eq(boot_reset(&card, &error), 0);
    ck_assert_uint_eq(fake.event_count, SEQUENCE);
    for (unsigned i = 0; i < SEQUENCE; i++) {
        bool pointer = sequence[i].request == IPU21_HOST_SET_SECONDARY_ID;
        expect_event(i, FAKE_IOCTL, sequence[i].request,
                     pointer ? fake.events[i].value : sequence[i].argument);
    }
    ck_assert_uint_ne(fake.events[5].value, 0);
}
END_TEST

START_TEST(reset_ends_at_the_first_ioctl_that_fails)
{
    fake.failing = sequence[_i].request;
    fake.failure = -EIO;
    ck_assert_int_eq(boot_reset(&card, &error), IPU_ERR_DEVICE_FAULT);
    expect_text("reset: device /dev/fake failed in ioctl");
    expect_text(sequence[_i].name);
    ck_assert_uint_eq(fake.event_count, (unsigned)_i + 1);
}
END_TEST

START_TEST(answer_to_another_message_is_a_fault)
{
    fake.reply = 0x4079020e;
    ck_assert_int_eq(boot_reset(&card, &error), IPU_ERR_DEVICE_FAULT);
    expect_text("with 0x4079020e");
    ck_assert_uint_eq(fake.event_count, 2);
}
END_TEST

START_TEST(lower_half_of_the_answer_is_free)
{
    fake.reply = 0x40781234;
    ck_assert_int_eq(boot_reset(&card, &error), 0);
}
END_TEST

/* --- configuration --- */

START_TEST(writes_are_replayed_in_order_but_those_of_the_marks)
{
    struct configuration_write writes[] = {
        {0x2000, 0x402}, {0x302c, 5}, {0x4018, 7}, {0x3030, 6}, {0x2000, 1}};
    struct configuration configuration = {writes, 5};
    ck_assert_int_eq(boot_configure(&card, &configuration, &error), 0);
    ck_assert_uint_eq(fake.event_count, 5);
    expect_event(0, FAKE_WRITE, 0x2000, 0x402);
    expect_event(1, FAKE_WRITE, 0x4018, 7);
    expect_event(2, FAKE_WRITE, 0x2000, 1);
    expect_event(3, FAKE_WRITE, 0x302c, 0);
    expect_event(4, FAKE_WRITE, 0x3030, 0);
}
END_TEST

START_TEST(mark_that_stays_set_is_a_fault)
{
    struct configuration none = {NULL, 0};
    fake.marks_set = true;
    ck_assert_int_eq(boot_configure(&card, &none, &error), IPU_ERR_DEVICE_FAULT);
    expect_text("mark GS1 was cleared after the configuration and reads 5, not 0");
}
END_TEST

START_TEST(device_that_goes_while_it_is_configured_is_noticed)
{
    struct configuration none = {NULL, 0};
    fake.gone = true;
    ck_assert_int_eq(boot_configure(&card, &none, &error), IPU_ERR_DEVICE_FAULT);
    expect_text("has gone");
}
END_TEST

START_TEST(card_needs_a_configuration_and_the_simulator_has_one)
{
    struct configuration configuration;
    struct device_options options = {.device = "/dev/ipu0"};
    ck_assert_int_eq(boot_configuration(&options, &configuration, &error), IPU_ERR_INVALID);
    expect_text("device_configuration");
    options.device = NULL;
    ck_assert_int_eq(boot_configuration(&options, &configuration, &error), 0);
    ck_assert_uint_gt(configuration.count, 1472);
    configuration_free(&configuration);
}
END_TEST

/* --- autoloader: facts/host_protocol.md section 3 --- */

static struct boot_loader loader_of(uint32_t kib)
{
    struct boot_loader loader = {.size = kib * 1024};
    for (uint32_t i = 0; i < loader.size; i++)
        loader.bytes[i] = (uint8_t)(i * 7 + 1);
    return loader;
}

START_TEST(autoloader_gets_words_target_and_go_twice)
{
    uint32_t kib = (uint32_t)_i, words = 256 * kib;
    struct boot_loader loader = loader_of(kib);
    ck_assert_int_eq(boot_autoload(&card, &loader, &error), 0);
    ck_assert_uint_eq(fake.event_count, words + 5);
    expect_event(0, FAKE_WRITE, 0x2068, 0);
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, loader.bytes + 4 * i, 4);
        expect_event(1 + i, FAKE_WRITE, 0x2070, word);
    }
    expect_event(words + 1, FAKE_WRITE, 0x206c, 32u << 20 | kib << 10);
    expect_event(words + 2, FAKE_WRITE, 0x2068, 1u << 20 | 1u << 8 | 63);
    expect_event(words + 3, FAKE_WRITE, 0x206c, 32u << 20 | 624u << 10 | kib);
    expect_event(words + 4, FAKE_WRITE, 0x2068, 1471u << 9 | 1u << 8 | 63);
}
END_TEST

START_TEST(stuck_go_times_out_after_two_seconds)
{
    struct boot_loader loader = loader_of(1);
    fake.go_stuck = true;
    ck_assert_int_eq(boot_autoload(&card, &loader, &error), IPU_ERR_TIMEOUT);
    expect_text("in 2000 ms");
    expect_text("GO 0x100 should be clear");
    ck_assert_uint_ge(fake.now_us, 2000000);
    ck_assert_uint_lt(fake.now_us, 2200000);
}
END_TEST

/* --- loader files --- */

static char path[64];

static void write_file(const void *data, size_t size)
{
    snprintf(path, sizeof path, "/tmp/boot-test-%d.elf", (int)getpid());
    ck_assert_int_eq(buffer_write_file(path, data, size), 0);
}

struct image {
    Elf32_Ehdr header;
    Elf32_Phdr segments[2];
    uint8_t bytes[LOADER_MAX_BYTES];
};

static struct image image_of(uint32_t size)
{
    struct image image = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32,
                                                 ELFDATA2LSB, EV_CURRENT},
                                     .e_type = ET_EXEC,
                                     .e_machine = 248,
                                     .e_version = EV_CURRENT,
                                     .e_phoff = offsetof(struct image, segments),
                                     .e_ehsize = sizeof(Elf32_Ehdr),
                                     .e_phentsize = sizeof(Elf32_Phdr),
                                     .e_phnum = 2}};
    image.segments[0] = (Elf32_Phdr){.p_type = PT_NOTE, .p_vaddr = LOADER_BASE, .p_filesz = 4};
    image.segments[1] = (Elf32_Phdr){.p_type = PT_LOAD,
                                     .p_offset = offsetof(struct image, bytes),
                                     .p_vaddr = LOADER_BASE,
                                     .p_filesz = size,
                                     .p_memsz = size};
    for (unsigned i = 0; i < LOADER_MAX_BYTES; i++)
        image.bytes[i] = (uint8_t)(i + 3);
    return image;
}

static int read_image(const struct image *image, struct boot_loader *loader)
{
    write_file(image, sizeof *image);
    int code = boot_loader_read(path, loader, &error);
    unlink(path);
    return code;
}

START_TEST(loader_segment_is_padded_to_whole_kib)
{
    struct image image = image_of(1500);
    struct boot_loader loader;
    ck_assert_msg(read_image(&image, &loader) == 0, "%s", error.text);
    ck_assert_uint_eq(loader.size, 2048);
    ck_assert(!loader.own);
    ck_assert_mem_eq(loader.bytes, image.bytes, 1500);
    for (unsigned i = 1500; i < 2048; i++)
        ck_assert_uint_eq(loader.bytes[i], 0);
}
END_TEST

static void refuse(const struct image *image, const char *part)
{
    struct boot_loader loader;
    ck_assert_int_eq(read_image(image, &loader), IPU_ERR_INVALID);
    expect_text(part);
    expect_text(path);
}

START_TEST(unsound_loader_files_are_refused)
{
    struct image image = image_of(4);
    image.segments[1].p_vaddr += 16;
    refuse(&image, "no segment at 0x4c000");
    image = image_of(LOADER_MAX_BYTES + 1);
    image.segments[1].p_offset = 0;
    refuse(&image, "a secondary loader of 4097 bytes");
    image = image_of(LOADER_MAX_BYTES);
    image.segments[1].p_offset += 1;
    refuse(&image, "reaches beyond the file");
    image.segments[1].p_offset = UINT32_MAX;
    refuse(&image, "reaches beyond the file");
    image = image_of(4);
    image.header.e_ident[EI_CLASS] = ELFCLASS64;
    refuse(&image, "");
    image.header.e_ident[EI_MAG1] = 'e';
    refuse(&image, "no ELF file");
}
END_TEST

START_TEST(cut_loader_files_are_refused)
{
    struct image image = image_of(64);
    struct boot_loader loader;
    for (size_t size = 0; size < offsetof(struct image, bytes) + 64; size++) {
        write_file(&image, size);
        ck_assert_int_eq(boot_loader_read(path, &loader, &error), IPU_ERR_INVALID);
    }
    unlink(path);
}
END_TEST

START_TEST(own_loader_is_the_default)
{
    struct boot_loader loader, empty;
    ck_assert_msg(boot_loader_read(NULL, &loader, &error) == 0, "%s", error.text);
    ck_assert(loader.own && loader.size > 0 && loader.size % 1024 == 0);
    ck_assert_int_eq(boot_loader_read("", &empty, &error), 0);
    ck_assert_mem_eq(loader.bytes, empty.bytes, sizeof loader.bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_boot");
    TCase *t = tcase_create("boot");
    tcase_add_checked_fixture(t, fake_setup, NULL);
    tcase_add_test(t, reset_follows_the_order_of_the_kernel_module);
    tcase_add_loop_test(t, reset_ends_at_the_first_ioctl_that_fails, 0, SEQUENCE);
    tcase_add_test(t, answer_to_another_message_is_a_fault);
    tcase_add_test(t, lower_half_of_the_answer_is_free);
    tcase_add_test(t, writes_are_replayed_in_order_but_those_of_the_marks);
    tcase_add_test(t, mark_that_stays_set_is_a_fault);
    tcase_add_test(t, device_that_goes_while_it_is_configured_is_noticed);
    tcase_add_test(t, card_needs_a_configuration_and_the_simulator_has_one);
    tcase_add_loop_test(t, autoloader_gets_words_target_and_go_twice, 1, 5);
    tcase_add_test(t, stuck_go_times_out_after_two_seconds);
    tcase_add_test(t, loader_segment_is_padded_to_whole_kib);
    tcase_add_test(t, unsound_loader_files_are_refused);
    tcase_add_test(t, cut_loader_files_are_refused);
    tcase_add_test(t, own_loader_is_the_default);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
