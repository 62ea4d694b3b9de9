/* `ipuctl --man`: the manual page in scdoc form, from the table of commands, so that page and
 * program cannot differ. */
#include "client/command.h"

#include <stdio.h>
#include <string.h>

/* What has a meaning in scdoc, anywhere or at the start of a line, is escaped. */
static void escaped(const char *text)
{
    for (; *text; text++) {
        if (strchr("_*\\`#|[]", *text))
            putchar('\\');
        putchar(*text);
    }
}

static void option(const char *name, char letter, const char *value, const char *help)
{
    fputs("*", stdout);
    if (letter)
        printf("-%c*, *", letter);
    printf("--%s*", name);
    if (value)
        printf(" _%s_", value);
    fputs("\n\t", stdout);
    escaped(help);
    fputs("\n\n", stdout);
}

static void command(const struct command *c)
{
    printf("## ipuctl %s ", c->name);
    escaped(c->arguments);
    fputs("\n\n", stdout);
    escaped(c->summary);
    fputs(".\n\n", stdout);
    if (c->details[0]) {
        escaped(c->details);
        fputs("\n\n", stdout);
    }
    for (const struct command_option *o = c->options; o->name; o++)
        option(o->name, o->letter, o->value, o->help);
}

void print_man(const struct command *const *commands, int count)
{
    puts("ipuctl(1)\n\n# NAME\n\nipuctl - client of ipud, the compile-and-execute daemon for the "
         "Graphcore IPU21\n\n"
         "# SYNOPSIS\n\n*ipuctl* [--socket _PATH_] [--json] _COMMAND_ ...\n\n# DESCRIPTION\n\n"
         "Submits tensor workloads to *ipud*(8), shows them while they compile and run, and "
         "fetches what they leave behind. Data "
         "go to standard output, everything else to standard error.\n\n# OPTIONS OF EVERY "
         "COMMAND\n");
    option("socket", 0, "PATH",
           "socket of the daemon; default $IPUD_SOCKET, $XDG_RUNTIME_DIR/ipud.sock, "
           "/run/ipud/ipud.sock");
    option("json", 0, NULL, "print data as JSON");
    option("help", 'h', NULL, "explain the command");
    puts("# COMMANDS\n");
    for (int i = 0; i < count; i++)
        command(commands[i]);
    puts("# EXIT STATUS\n\n0 passed; 1 ran and failed its check; 2 usage or invalid workload; 3 "
         "could not compile; 4 device fault or "
         "timeout; 5 daemon unreachable; 6 cancelled.\n\n# SEE ALSO\n\n*ipud*(8), *ipu-run*(1), "
         "*ipu-as*(1), *ipu-objdump*(1)");
}
