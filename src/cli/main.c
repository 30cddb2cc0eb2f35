/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hirate command line tool, on the public API only.
 *
 *     main       which command                 client   loop and hirate client
 *     args       the command line, check too   loops    event loops, loop_*.c one each
 *     help       --help                        lines    requests from stdin or a file
 *     say        errors, stdout, numbers       who      the names of a request
 *     escape     names as text                 row      answers as text, tsv, json; answer: kept for that
 *
 *     one        acquire, peek, reset          simulate
 *     stream     acquire -                     bench    bench_redis, bench_local, names, histogram
 *     permits    release, renew, commit, refund
 */
#include "client.h"
#include "help.h"
#include "say.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMANDS "acquire, peek, reset, release, renew, commit, refund, simulate, bench, --help or --version"

static int run(const cli_args *args)
{
    if (args->help) {
        cli_help(args->command);
        return cli_flush() ? CLI_ALLOWED : CLI_NO_VERDICT;
    }
    if ((args->command & CLI_PERMITS) != 0)
        return cli_permits(args);
    switch (args->command) {
    case CLI_SIMULATE:
        return cli_simulate(args);
    case CLI_BENCH:
        return cli_bench(args);
    default:
        return args->from_stdin ? cli_stream(args) : cli_one(args);
    }
}

static int run_without_command(const char *text)
{
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)
        cli_help(CLI_COMMAND_NONE);
    else if (strcmp(text, "--version") == 0)
        printf("hirate %s\n", hirate_version());
    else
        /* What looks like anything else may be an URI with a password, out of place. */
        return cli_fail(CLI_USAGE, "%s: no such command; want %s",
                        text[strspn(text, "abcdefghijklmnopqrstuvwxyz-")] == '\0' ? text : "COMMAND", COMMANDS);
    return cli_flush() ? CLI_ALLOWED : CLI_NO_VERDICT;
}

/* A descriptor that was closed for us must not become a socket that rows or error lines then go to. The one put in
 * its place fails when used, as it should. */
static void fill_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            exit(CLI_NO_VERDICT);
}

int main(int argc, char **argv)
{
    fill_descriptors();
    /* A reader that went away is an error line and a status, not a silent death. */
    signal(SIGPIPE, SIG_IGN);
    cli_stdout_init();
    if (argc < 2)
        return cli_fail(CLI_USAGE, "a command is missing; want %s", COMMANDS);
    cli_command command = cli_command_find(argv[1]);
    if (command == CLI_COMMAND_NONE)
        return run_without_command(argv[1]);
    cli_args args;
    int rc = cli_args_parse(&args, command, argc - 2, argv + 2);
    return rc != 0 ? rc : run(&args);
}
