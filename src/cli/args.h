/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * args: the command line, checked.
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "loops.h"
#include "who.h"

typedef enum cli_command {
    CLI_COMMAND_NONE = 0,
    CLI_ACQUIRE = 1,
    CLI_PEEK = 2,
    CLI_RESET = 4,
    CLI_RELEASE = 8,
    CLI_RENEW = 16,
    CLI_COMMIT = 32,
    CLI_REFUND = 64,
    CLI_SIMULATE = 128,
    CLI_BENCH = 256
} cli_command;

/* Commands of a kind, to be tested with &. */
enum {
    CLI_ONE_NAME = CLI_ACQUIRE | CLI_PEEK | CLI_RESET,
    CLI_PERMITS = CLI_RELEASE | CLI_RENEW | CLI_COMMIT | CLI_REFUND,
    CLI_CONNECTS = CLI_ONE_NAME | CLI_PERMITS | CLI_BENCH
};

typedef enum cli_format { CLI_FORMAT_NONE = 0, CLI_TEXT, CLI_TSV, CLI_JSON } cli_format;

/* It points into itself: it stays where it was filled in. */
typedef struct cli_args {
    cli_command command;
    bool help; /* asked for; nothing else is set then */

    /* The limits of each request, in their order; 1 or more but for the permit commands. */
    size_t limit_count;
    hirate_limit limits[HIRATE_PAIRS_MAX];
    char policies[HIRATE_PAIRS_MAX][HIRATE_POLICY_SIZE];
    const char *specs[HIRATE_PAIRS_MAX]; /* as they were given */
    const char *limits_file;             /* NULL: none */

    uint64_t cost;
    uint64_t hold_us; /* acquire: --reserve; 0: charge */
    bool local;
    const char *uri;
    const char *uri_from; /* "--redis" or "HIRATE_REDIS"; NULL: neither, uri is the library's default */
    const char *prefix;
    int64_t deadline_ms;
    const cli_loop *loop;
    cli_format format;

    cli_who who;      /* acquire, peek, reset; of nobody from stdin */
    bool from_stdin;  /* acquire - */
    const char *file; /* simulate; NULL: stdin */

    const char *permits; /* release, renew, commit, refund: joined by ',' */
    const char *amount_text;
    uint64_t amount; /* commit */

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

/* Read what follows the command: argv[0 … argc). 0, or a status, mostly CLI_USAGE, after an error line. */
int cli_args_parse(cli_args *args, cli_command command, int argc, char **argv);

/* Find out whether what was read fits together, complete it from limits file and environment, and read the limits. 0,
 * or a status after an error line. Called by cli_args_parse(). */
int cli_args_check(cli_args *args);

/* The first limit that is asked for the same policy name and name as one before it, which the library refuses.
 * limit_count: there is none. */
size_t cli_args_clash(const cli_args *args, const cli_who *who);
#define CLI_CLASH "name: two limits of one policy name are asked for the same name; want another for each"

/* Client options from args, with the library's defaults for the rest. */
void cli_args_options(const cli_args *args, hirate_options *options);

#endif
