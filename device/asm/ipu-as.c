/* ipu-as FILE.S -o FILE.o [-DNAME[=VALUE]] [-IDIR]: assembles one file.
 *
 * Includes are looked for beside the including command's source, in each -I directory in order, and
 * then among the sources built into the program. Messages go to stderr; the object is written
 * atomically. Exit codes are those of base/errors.def: 2 usage, 3 the source does not assemble.
 */
#include "base/alloc.h"
#include "base/buffer.h"
#include "device/asm/asm.h"
#include "device/kernels/sources.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SOURCE = 8 << 20, MAX_PATH = 4096 };

struct loaded {
    struct buffer text;
    struct loaded *next;
};

struct command {
    const char *input, *output;
    struct asm_define *defines;
    size_t define_count;
    const char **directories;
    size_t directory_count;
    struct loaded *loaded; /* include files, freed at the end */
};

static int usage(void)
{
    fputs("usage: ipu-as FILE.S -o FILE.o [-DNAME[=VALUE]]... [-IDIR]...\n", stderr);
    return ipu_err_exit_code(IPU_ERR_INVALID);
}

/* Reads a file that stays until the end; NULL when it cannot be read. */
static const char *load(struct command *command, const char *path, size_t *length)
{
    struct loaded *entry = ipu_calloc(1, sizeof(*entry));
    if (entry == NULL)
        return NULL;
    if (buffer_read_file(&entry->text, path, MAX_SOURCE) != 0) {
        buffer_free(&entry->text);
        ipu_free(entry);
        return NULL;
    }
    *length = entry->text.size;
    buffer_append(&entry->text, "", 1);
    entry->next = command->loaded;
    command->loaded = entry;
    return entry->text.failed ? NULL : (const char *)entry->text.data;
}

static const char *load_from(struct command *command, const char *directory, size_t size,
                             const char *name, size_t *length)
{
    char path[MAX_PATH];
    int n =
        snprintf(path, sizeof(path), "%.*s%s%s", (int)size, directory, size != 0 ? "/" : "", name);
    return n > 0 && n < MAX_PATH ? load(command, path, length) : NULL;
}

static const char *include(void *context, const char *name, size_t *length)
{
    struct command *command = context;
    const char *slash = strrchr(command->input, '/');
    size_t own = slash != NULL ? (size_t)(slash - command->input) : 0;
    const char *text = NULL;
    if (name[0] == '/')
        return load(command, name, length);
    text = load_from(command, command->input, own, name, length);
    for (size_t i = 0; text == NULL && i < command->directory_count; i++) {
        const char *directory = command->directories[i];
        text = load_from(command, directory, strlen(directory), name, length);
    }
    return text != NULL ? text : source_find(name, length);
}

static void add_define(struct command *command, char *text)
{
    char *equals = strchr(text, '=');
    if (equals != NULL)
        *equals++ = '\0';
    command->defines[command->define_count++] = (struct asm_define){.name = text, .value = equals};
}

/* The value of -Dx or -D x; NULL when it is missing. */
static char *option_value(char **argv, int argc, int *at)
{
    if (argv[*at][2] != '\0')
        return argv[*at] + 2;
    return *at + 1 < argc ? argv[++*at] : NULL;
}

static bool parse(struct command *command, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool option = argv[i][0] == '-' && argv[i][1] != '\0';
        char kind = option ? argv[i][1] : '\0';
        if (!option && command->input != NULL)
            return false;
        if (!option) {
            command->input = argv[i];
            continue;
        }
        char *value = option_value(argv, argc, &i);
        if (value == NULL)
            return false;
        if (kind == 'o')
            command->output = value;
        else if (kind == 'D')
            add_define(command, value);
        else if (kind == 'I')
            command->directories[command->directory_count++] = value;
        else
            return false;
    }
    return command->input != NULL && command->output != NULL;
}

static int run(struct command *command)
{
    struct buffer object = {0};
    struct ipu_error error = {0};
    struct asm_options options = {.defines = command->defines,
                                  .define_count = command->define_count,
                                  .include = include,
                                  .include_context = command};
    size_t length;
    const char *text = load(command, command->input, &length);
    if (text == NULL) {
        fprintf(stderr, "ipu-as: cannot read %s: %s\n", command->input, strerror(errno));
        return ipu_err_exit_code(IPU_ERR_INVALID);
    }
    int code = asm_assemble(command->input, text, length, &options, &object, &error);
    if (code == 0) {
        int written = buffer_write_file(command->output, object.data, object.size);
        if (written != 0)
            code = ipu_error_set(&error, IPU_ERR_IO, "ipu-as: cannot write %s: %s", command->output,
                                 strerror(-written));
    }
    buffer_free(&object);
    if (code == 0)
        return 0;
    fprintf(stderr, "%s\n", error.text);
    return ipu_err_exit_code(code);
}

int main(int argc, char **argv)
{
    struct command command = {0};
    command.defines = ipu_calloc((size_t)argc, sizeof(*command.defines));
    command.directories = ipu_calloc((size_t)argc, sizeof(*command.directories));
    int status;
    if (command.defines == NULL || command.directories == NULL)
        status = ipu_err_exit_code(IPU_ERR_NO_MEMORY);
    else
        status = parse(&command, argc, argv) ? run(&command) : usage();
    while (command.loaded != NULL) {
        struct loaded *next = command.loaded->next;
        buffer_free(&command.loaded->text);
        ipu_free(command.loaded);
        command.loaded = next;
    }
    ipu_free(command.defines);
    ipu_free(command.directories);
    return status;
}
