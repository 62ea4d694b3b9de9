/* module: daemon */
/* Fuzzes the configuration file: every text gives settings within their ranges, or one sentence
 * that names the line; the same for a value that comes from the command line.
 */
#include "daemon/config.h"
#include "tests/fuzz/seed.h"

#include <string.h>

static void require_ranges(const struct config *config)
{
#define INTEGER(name, fallback, minimum, maximum, help)                                            \
    if (config->name < (minimum) || config->name > (maximum))                                      \
        abort();
#define TEXT(name, fallback, help)                                                                 \
    if (memchr(config->name, 0, sizeof config->name) == NULL)                                      \
        abort();
#include "daemon/config.def"
#undef INTEGER
#undef TEXT
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *config = malloc(sizeof *config); /* so that the sanitiser guards its edges */
    char *text = malloc(size + 1);
    struct ipu_error error = {0};
    if (!config || !text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    config_defaults(config);
    require_ranges(config);
    int rc = config_parse(config, text, "ipud.conf", &error);
    if (rc && (error.code != rc || strncmp(error.text, "ipud.conf:", 10) != 0))
        abort();
    require_ranges(config);
    if (rc == 0 && config_finish(config, &error) == 0 &&
        (config->mode > 0777 || config->workers < 1 || config->max_active_per_user < 1))
        abort();
    const char *argv[] = {"ipud", "--log-level", text, "--workers", text};
    bool help;
    if (config_load(config, 5, (char **)(uintptr_t)argv, &help, &error) == 0 && !help)
        require_ranges(config);
    free(text);
    free(config);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char seed[] = "# all keys\n"
#define INTEGER(name, fallback, minimum, maximum, help) #name " = 16 \n"
#define TEXT(name, fallback, help)                      #name " = " fallback "\n"
#include "daemon/config.def"
#undef INTEGER
#undef TEXT
        ;
    (void)argc;
    (void)argv;
    setenv("HOME", "/nowhere", 1);
    fuzz_seed("keys", -1, seed, sizeof seed - 1);
    return 0;
}
