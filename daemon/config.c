/* Configuration: see config.h. Every key, its default, range and help come from config.def; nothing
 * else in the daemon knows a key's name. It fails on unknown keys, values out of range, and files
 * that cannot be read.
 */
#include "daemon/config.h"

#include "base/buffer.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_FILE_LIMIT = 1 << 20 };

struct key {
    const char *name;
    size_t offset;
    bool text;
    long minimum, maximum;
    const char *fallback;
    const char *help;
};

#define NUMBER_TEXT(x) #x
static const struct key keys[] = {
#define INTEGER(name, fallback, minimum, maximum, help)                                            \
    {#name,     offsetof(struct config, name), false, (minimum),                                   \
     (maximum), NUMBER_TEXT(fallback),         help},
#define TEXT(name, fallback, help)                                                                 \
    {#name, offsetof(struct config, name), true, 0, 0, fallback, help},
#include "daemon/config.def"
#undef INTEGER
#undef TEXT
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < KEYS; i++) {
        const char *a = keys[i].name, *b = name;
        while (*a && (*a == *b || (*a == '_' && *b == '-'))) {
            a++;
            b++;
        }
        if (*a == '\0' && *b == '\0')
            return &keys[i];
    }
    return NULL;
}

static int set_key(struct config *config, const struct key *key, const char *value,
                   struct ipu_error *error)
{
    char *at = (char *)config + key->offset;
    if (key->text) {
        if (strlen(value) >= CONFIG_TEXT)
            return ipu_error_set(error, IPU_ERR_LIMIT, "%s is longer than %d bytes", key->name,
                                 CONFIG_TEXT - 1);
        memcpy(at, value, strlen(value) + 1);
        return 0;
    }
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (errno || end == value || *end || number < key->minimum || number > key->maximum)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "%s must be a number from %ld to %ld, not \"%.80s\"", key->name,
                             key->minimum, key->maximum, value);
    memcpy(at, &number, sizeof number);
    return 0;
}

int config_set(struct config *config, const char *name, const char *value, struct ipu_error *error)
{
    const struct key *key = find_key(name);
    if (!key)
        return ipu_error_set(error, IPU_ERR_INVALID, "there is no setting \"%.80s\"", name);
    return set_key(config, key, value, error);
}

void config_defaults(struct config *config)
{
    struct ipu_error ignored;
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < KEYS; i++)
        if (set_key(config, &keys[i], keys[i].fallback, &ignored)) {
            long minimum = keys[i].minimum; /* a default written as an expression never occurs */
            memcpy((char *)config + keys[i].offset, &minimum, sizeof minimum);
        }
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static int parse_line(struct config *config, char *line, struct ipu_error *error)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment = '\0';
    char *name = trim(line);
    if (*name == '\0')
        return 0;
    char *equals = strchr(name, '=');
    if (!equals)
        return ipu_error_set(error, IPU_ERR_INVALID, "expected \"key = value\"");
    *equals = '\0';
    return config_set(config, trim(name), trim(equals + 1), error);
}

int config_parse(struct config *config, const char *text, const char *name, struct ipu_error *error)
{
    for (unsigned number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");
        char line[2 * CONFIG_TEXT];
        if (length >= sizeof line)
            return ipu_error_set(error, IPU_ERR_LIMIT, "%s:%u: the line is too long", name, number);
        memcpy(line, text, length);
        line[length] = '\0';
        if (parse_line(config, line, error))
            return ipu_error_wrap(error, "%s:%u: ", name, number);
        text += length + (text[length] == '\n');
    }
    return 0;
}

static int load_file(struct config *config, const char *path, struct ipu_error *error)
{
    struct buffer text = {0};
    int rc = buffer_read_file(&text, path, CONFIG_FILE_LIMIT);
    if (rc) {
        buffer_free(&text);
        return ipu_error_set(error, IPU_ERR_IO, "cannot read %s: %s", path, strerror(-rc));
    }
    bool binary = text.size && memchr(text.data, 0, text.size);
    buffer_append_zero(&text, 1);
    rc = text.failed ? ipu_error_set(error, IPU_ERR_NO_MEMORY, "out of memory")
         : binary    ? ipu_error_set(error, IPU_ERR_INVALID, "%s is not a text file", path)
                     : config_parse(config, (char *)text.data, path, error);
    buffer_free(&text);
    return rc;
}

/* Splits "--name=value" or "--name" "value"; advances *i over what was used. */
static int take_option(int argc, char **argv, int *i, char name[128], const char **value,
                       struct ipu_error *error)
{
    const char *argument = argv[*i];
    if (strncmp(argument, "--", 2) != 0)
        return ipu_error_set(error, IPU_ERR_INVALID, "unexpected argument \"%.80s\"", argument);
    const char *equals = strchr(argument, '=');
    size_t length = equals ? (size_t)(equals - argument - 2) : strlen(argument + 2);
    snprintf(name, 128, "%.*s", (int)length, argument + 2);
    *value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    if (!*value)
        return ipu_error_set(error, IPU_ERR_INVALID, "--%s needs a value", name);
    return 0;
}

static int walk_options(struct config *config, int argc, char **argv, bool files,
                        struct ipu_error *error)
{
    for (int i = 1; i < argc; i++) {
        char name[128] = "";
        const char *value = NULL;
        int rc = take_option(argc, argv, &i, name, &value, error);
        if (rc || !value)
            return rc;
        bool is_file = strcmp(name, "config") == 0;
        if (is_file && files)
            rc = load_file(config, value, error);
        else if (!is_file && !files && (rc = config_set(config, name, value, error)))
            ipu_error_wrap(error, "--%s: ", name);
        if (rc)
            return rc;
    }
    return 0;
}

int config_load(struct config *config, int argc, char **argv, bool *help, struct ipu_error *error)
{
    *help = false;
    config_defaults(config);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *help = true;
            return 0;
        }
    int rc = walk_options(config, argc, argv, true, error);
    if (rc == 0)
        rc = walk_options(config, argc, argv, false, error);
    return rc ? rc : config_finish(config, error);
}

static int default_state_dir(struct config *config, struct ipu_error *error)
{
    const char *systemd = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME"),
               *home = getenv("HOME");
    int n = -1;
    if (systemd && *systemd)
        n = snprintf(config->state_dir, CONFIG_TEXT, "%s", systemd);
    else if (xdg && *xdg)
        n = snprintf(config->state_dir, CONFIG_TEXT, "%s/ipud", xdg);
    else if (home && *home)
        n = snprintf(config->state_dir, CONFIG_TEXT, "%s/.local/state/ipud", home);
    if (n < 0 || n >= CONFIG_TEXT)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "no state directory: set HOME or give --state-dir");
    return 0;
}

static int default_socket(struct config *config, struct ipu_error *error)
{
    const char *named = getenv("IPUD_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
    char path[2 * CONFIG_TEXT];
    if (named && *named)
        snprintf(path, sizeof path, "%s", named);
    else if (run && *run && access(run, W_OK) == 0)
        snprintf(path, sizeof path, "%s/ipud.sock", run);
    else
        snprintf(path, sizeof path, "%s/ipud.sock", config->state_dir);
    if (strlen(path) >= CONFIG_TEXT)
        return ipu_error_set(error, IPU_ERR_LIMIT, "the socket path is too long");
    memcpy(config->socket, path, strlen(path) + 1);
    return 0;
}

static int parse_level(struct config *config, struct ipu_error *error)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++)
        if (strcmp(config->log_level, names[i]) == 0) {
            config->level = (enum log_level)i;
            return 0;
        }
    return ipu_error_set(error, IPU_ERR_INVALID,
                         "log_level must be debug, info, warn or error, not \"%.80s\"",
                         config->log_level);
}

int config_finish(struct config *config, struct ipu_error *error)
{
    int rc = config->state_dir[0] ? 0 : default_state_dir(config, error);
    if (rc == 0 && !config->socket[0])
        rc = default_socket(config, error);
    if (rc == 0)
        rc = parse_level(config, error);
    if (rc)
        return rc;
    char *end;
    unsigned long mode = strtoul(config->socket_mode, &end, 8);
    if (end == config->socket_mode || *end || mode > 0777)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "socket_mode must be an octal number such as 0660, not \"%.80s\"",
                             config->socket_mode);
    config->mode = (unsigned)mode;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cores = cores < 1 ? 1 : cores > 256 ? 256 : cores;
    if (config->threads == 0)
        config->threads = cores;
    if (config->workers == 0)
        config->workers = cores > 8 ? 8 : cores;
    if (config->max_active_per_user == 0)
        config->max_active_per_user = config->workers > 1 ? config->workers - 1 : 1;
    return 0;
}

void config_print_help(FILE *out)
{
    fputs("ipud: compiles and runs workloads on an IPU21, for the users of this machine\n\n"
          "usage: ipud [--config FILE] [--KEY VALUE]...\n\n"
          "Stays in the foreground and logs to stderr. SIGTERM drains. Keys (in FILE: key = "
          "value):\n",
          out);
    for (size_t i = 0; i < KEYS; i++) {
        char option[64];
        snprintf(option, sizeof option, "--%s", keys[i].name);
        for (char *at = option + 2; *at; at++)
            if (*at == '_')
                *at = '-';
        fprintf(out, "  %-24s %s%s%s%s\n", option, keys[i].help, keys[i].fallback[0] ? " [" : "",
                keys[i].fallback, keys[i].fallback[0] ? "]" : "");
    }
}
