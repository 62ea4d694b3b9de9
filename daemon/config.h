/* Configuration: one table of keys, read from a file and overridden on the command line.
 */
#ifndef IPU_DAEMON_CONFIG_H
#define IPU_DAEMON_CONFIG_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stdio.h>

enum { CONFIG_TEXT = 512 };

struct config {
#define INTEGER(name, fallback, minimum, maximum, help) long name;
#define TEXT(name, fallback, help)                      char name[CONFIG_TEXT];
#include "daemon/config.def"
#undef INTEGER
#undef TEXT
    enum log_level level; /* of log_level */
    unsigned mode;        /* of socket_mode */
};

/* Defaults, then --config FILE, then the other options of argv[1..]. `*help` is set when --help was
 * asked for. Errors name the file and line, or the option. Ends with config_finish(). */
IPU_MUST_CHECK int config_load(struct config *config, int argc, char **argv, bool *help,
                               struct ipu_error *error);
/* Sets one key by name. */
IPU_MUST_CHECK int config_set(struct config *config, const char *name, const char *value,
                              struct ipu_error *error);
/* Reads `key = value` lines; # begins a comment. `name` is used in messages. */
IPU_MUST_CHECK int config_parse(struct config *config, const char *text, const char *name,
                                struct ipu_error *error);
void config_defaults(struct config *config);
/* Fills in what depends on the environment: directories, numbers of workers. */
IPU_MUST_CHECK int config_finish(struct config *config, struct ipu_error *error);
void config_print_help(FILE *out);

#endif
