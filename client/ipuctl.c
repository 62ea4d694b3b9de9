/* ipuctl: the thin client of ipud. Parses the command line against the table of commands and runs
 * one of them. */
#include "client/command.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "client/commands.def"
#undef COMMAND
};

enum { COMMANDS = sizeof commands / sizeof commands[0], OPTION_BASE = 256 };

static void print_usage(FILE *out)
{
    fputs("usage: ipuctl [--socket PATH] [--json] COMMAND ...\n\ncommands:\n", out);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`ipuctl COMMAND --help` explains a command. The socket is --socket, $IPUD_SOCKET,\n"
          "$XDG_RUNTIME_DIR/ipud.sock or /run/ipud/ipud.sock.\n"
          "exit codes: 0 passed, 1 ran and failed its check, 2 usage or invalid workload, 3 could "
          "not\n"
          "compile, 4 device fault or timeout, 5 daemon unreachable, 6 cancelled\n",
          out);
}

static void print_help(const struct command *c)
{
    printf("usage: ipuctl [--socket PATH] [--json] %s %s%s\n\n%s\n", c->name, c->arguments,
           c->options[0].name ? " [options]" : "", c->summary);
    if (c->details[0])
        printf("\n%s\n", c->details);
    puts("\noptions:");
    for (const struct command_option *o = c->options; o->name; o++) {
        char left[64], letter[8] = "";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-28s %s\n", left, o->help);
    }
    printf("  %-28s %s\n", "--json", "print data as JSON");
    printf("  %-28s %s\n", "--socket PATH", "socket of the daemon");
    printf("  %-28s %s\n", "-h, --help", "this text");
}

struct parser {
    struct option rows[COMMAND_MAX_OPTIONS + 4];
    char letters[2 * COMMAND_MAX_OPTIONS + 8];
};

static void add_row(struct parser *p, int *n, const char *name, bool value, int code)
{
    p->rows[(*n)++] = (struct option){name, value ? required_argument : no_argument, NULL, code};
}

static void build_parser(const struct command *c, struct parser *p)
{
    int n = 0;
    char *letter = p->letters;
    *letter++ = 'h';
    for (int i = 0; c->options[i].name; i++) {
        const struct command_option *o = &c->options[i];
        add_row(p, &n, o->name, o->value != NULL, OPTION_BASE + i);
        if (!o->letter)
            continue;
        *letter++ = o->letter;
        if (o->value)
            *letter++ = ':';
    }
    *letter = '\0';
    add_row(p, &n, "socket", true, 1);
    add_row(p, &n, "json", false, 2);
    add_row(p, &n, "help", false, 'h');
    p->rows[n] = (struct option){NULL, 0, NULL, 0};
}

static int letter_row(const struct command *c, int letter)
{
    for (int i = 0; c->options[i].name; i++)
        if (c->options[i].letter == letter)
            return i;
    return -1;
}

/* 0 = run, 1 = help was printed, 2 = usage error. */
static int parse_command(struct context *c, int argc, char **argv)
{
    struct parser p;
    build_parser(c->command, &p);
    optind = 1;
    int code;
    while ((code = getopt_long(argc, argv, p.letters, p.rows, NULL)) != -1) {
        if (code == 'h') {
            print_help(c->command);
            return 1;
        }
        int row = code >= OPTION_BASE ? code - OPTION_BASE : letter_row(c->command, code);
        if (code == 1)
            c->socket = optarg;
        else if (code == 2)
            c->json = true;
        else if (code == '?' || row < 0)
            return 2;
        else
            c->values[row] = optarg ? optarg : "";
    }
    c->arguments = argv + optind;
    c->argument_count = argc - optind;
    if (c->argument_count >= c->command->minimum && c->argument_count <= c->command->maximum)
        return 0;
    fprintf(stderr, "ipuctl %s: expects %s; try `ipuctl %s --help`\n", c->command->name,
            c->command->arguments[0] ? c->command->arguments : "no arguments", c->command->name);
    return 2;
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

/* Options before the command name. Returns the index of the command, or a negative exit code - 1.
 */
static int parse_leading(struct context *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--socket") == 0 && i + 1 < argc) {
            c->socket = argv[++i];
        } else if (strncmp(argv[i], "--socket=", 9) == 0) {
            c->socket = argv[i] + 9;
        } else if (strcmp(argv[i], "--json") == 0) {
            c->json = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_usage(stdout);
            return -1;
        } else if (strcmp(argv[i], "--version") == 0) {
            puts("ipuctl 0.1.0");
            return -1;
        } else if (strcmp(argv[i], "--man") == 0) {
            print_man(commands, COMMANDS);
            return -1;
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "ipuctl: unknown option %s\n", argv[i]);
            print_usage(stderr);
            return -3;
        } else {
            return i;
        }
    }
    print_usage(stderr);
    return -3;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    struct context c = {0};
    int at = parse_leading(&c, argc, argv);
    if (at < 0)
        return -at - 1;
    c.command = find_command(argv[at]);
    if (!c.command) {
        fprintf(stderr, "ipuctl: unknown command %s\n", argv[at]);
        print_usage(stderr);
        return 2;
    }
    int parsed = parse_command(&c, argc - at, argv + at);
    if (parsed)
        return parsed == 1 ? 0 : 2;
    int code = c.command->run(&c);
    ipu_close(c.client);
    if (fflush(stdout) != 0 && code == 0) {
        fputs("ipuctl: cannot write to standard output\n", stderr);
        code = 2;
    }
    return code;
}
