/* module: device/driver */
/* Fuzzes the reader of device configurations: every file gives writes of registers that add up to
 * its bytes, or one sentence that names it; and the reader of loader files through its ELF segment.
 * The first byte chooses.
 */
#include "device/driver/boot.h"
#include "device/driver/configuration.h"
#include "device/ipu21/host.h"
#include "tests/fuzz/seed.h"

#include <string.h>
#include <unistd.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void try_configuration(const uint8_t *data, size_t size)
{
    struct configuration configuration;
    struct ipu_error error = {0};
    int code = configuration_read(data, size, "fuzz", &configuration, &error);
    if (code != 0) {
        require(code == error.code && strncmp(error.text, "fuzz: ", 6) == 0);
        require(!configuration.writes);
        return;
    }
    require(size == 12 + 8 * configuration.count);
    for (size_t i = 0; i < configuration.count; i++) {
        uint32_t words[2];
        memcpy(words, data + 12 + 8 * i, sizeof words);
        require(configuration.writes[i].offset == words[0] &&
                configuration.writes[i].value == words[1]);
        require(words[0] % 4 == 0 && words[0] < IPU21_HOST_WINDOW_BYTES);
    }
    configuration_free(&configuration);
}

static void try_loader(const uint8_t *data, size_t size)
{
    struct boot_loader loader;
    struct ipu_error error = {0};
    char path[64];
    snprintf(path, sizeof path, "/tmp/configuration-fuzz-%d", (int)getpid());
    FILE *file = fopen(path, "wb");
    require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    int code = boot_loader_read(path, &loader, &error);
    unlink(path);
    if (code != 0)
        require(code == error.code && strstr(error.text, path));
    else
        require(loader.size != 0 && loader.size <= sizeof loader.bytes && loader.size % 1024 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t *copy = malloc(size); /* so that the sanitiser guards its edges */
    require(copy);
    memcpy(copy, data + 1, size - 1);
    if (data[0] % 4 != 3)
        try_configuration(copy, size - 1);
    else
        try_loader(copy, size - 1);
    free(copy);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const uint8_t elf[] = {
        0x7f, 'E', 'L', 'F', 1,  1, 1, 0, 0,  0,    0,  0, 0,  0, 0, 0, /* identification */
        2,    0,   248, 0,   1,  0, 0, 0, 0,  0,    0,  0, 52, 0, 0, 0, /* program headers at 52 */
        0,    0,   0,   0,   0,  0, 0, 0, 52, 0,    32, 0, 1,  0, 0, 0,
        0,    0,   0,   0,                                              /* one of 32 bytes */
        1,    0,   0,   0,   84, 0, 0, 0, 0,  0xc0, 4,  0, 0,  0, 0, 0, /* load 0x4c000 */
        4,    0,   0,   0,   4,  0, 0, 0, 0,  0,    0,  0, 0,  0, 0, 0,
        1,    2,   3,   4};
    struct buffer own = {0};
    (void)argc;
    (void)argv;
    configuration_append_sim(&own);
    fuzz_seed("own", 0, own.data, own.size);
    fuzz_seed("three", 0, own.data, 12 + 3 * 8);
    fuzz_seed("elf", 3, elf, sizeof elf);
    buffer_free(&own);
    return 0;
}
