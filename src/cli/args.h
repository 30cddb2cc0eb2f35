/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * args: the command line, checked.
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "loops.h"
#include "row.h"

typedef enum cli_command {
    CLI_COMMAND_NONE = 0,
    CLI_ACQUIRE = 1,
    CLI_PEEK = 2,
    CLI_RESET = 4,
    CLI_SIMULATE = 8,
    CLI_BENCH = 16
} cli_command;

/* limit.policy points into this struct: it stays where it was filled in. */
typedef struct cli_args {
    cli_command command;
    bool help; /* asked for; nothing else is set then */

    hirate_limit limit;
    char policy[HIRATE_POLICY_SIZE];
    uint64_t cost;
    bool local;
    const char *uri;
    const char *uri_from; /* "--redis" or "HIRATE_REDIS"; NULL: neither, uri is the library's default */
    const char *prefix;
    int64_t deadline_ms;
    const cli_loop *loop;
    cli_format format;

    const char *name; /* acquire, peek, reset */
    size_t name_len;
    bool from_stdin;  /* acquire - */
    const char *file; /* simulate; NULL: stdin */

    uint64_t names; /* bench */
    double zipf;    /* 0: uniform */
    uint64_t in_flight;
    double seconds;
    uint64_t rate; /* 0: closed loop */

    uint32_t given; /* options seen, a bit each; private to args.c */
} cli_args;

/* The command of this name, or CLI_COMMAND_NONE. */
cli_command cli_command_find(const char *name);
const char *cli_command_name(cli_command command);

/* Read what follows the command: argv[0 … argc). 0, or CLI_USAGE after an error line. */
int cli_args_parse(cli_args *args, cli_command command, int argc, char **argv);

/* Client options from args, with the library's defaults for the rest. */
void cli_args_options(const cli_args *args, hirate_options *options);

#endif
