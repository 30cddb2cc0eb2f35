/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate: decide recorded requests on a virtual clock, without Redis. */
#include "client.h"
#include "lines.h"
#include "row.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_KEYS ((size_t)1 << 31)

typedef struct simulation {
    const cli_args *args;
    hirate_local *local;
    cli_request request;
    cli_lines lines;
    cli_asked asked;
    cli_answer answer; /* the result alone is used: a row has no more */
    int status;
} simulation;

/* The line read last cannot be decided. */
static void refuse(simulation *s, const char *why)
{
    cli_complain("line %" PRIu64 ": %s", s->lines.number, why);
    s->status = CLI_USAGE;
}

static void decide(simulation *s)
{
    hirate_error error = {.text = ""};
    cli_row row = {s->args, &s->asked.who, &s->answer};
    cli_request_name(&s->request, &s->asked.who);
    s->request.request.cost = s->asked.cost;
    hirate_result_init(&s->answer.result);
    int rc = hirate_local_decide(s->local, &s->request.request, (int64_t)s->asked.time_us, &s->answer.result, &error);
    if (rc != 0)
        refuse(s, *error.text != '\0' ? error.text : hirate_strerror(rc));
    else
        cli_row_write(&row);
}

static void read_line(simulation *s, cli_line what, const char *line, size_t len)
{
    if (what == CLI_LINE_TOO_LONG) {
        cli_lines_too_long(&s->lines);
        s->status = CLI_USAGE;
    } else if (len > 0 && line[0] == '#') {
        return;
    } else if (!cli_lines_parse_timed(&s->lines, line, len, &s->asked)) {
        s->status = CLI_USAGE;
    } else if (cli_args_clash(s->args, &s->asked.who) != s->args->limit_count) {
        refuse(s, CLI_CLASH);
    } else {
        decide(s);
    }
}

static int run(simulation *s)
{
    for (;;) {
        const char *line;
        size_t len;
        cli_line what = cli_lines_next(&s->lines, &line, &len);
        if (what != CLI_LINE_NONE) {
            read_line(s, what, line, len);
            continue;
        }
        /* Rows decided so far go out before a read that may wait: a program at the other end may want them. */
        if (!cli_flush())
            return CLI_NO_VERDICT;
        if (s->lines.at_end)
            return s->status;
        if (!cli_lines_wait(&s->lines) || !cli_lines_fill(&s->lines))
            return cli_fail(CLI_USAGE, "%s: %s", s->args->file != NULL ? s->args->file : "stdin", strerror(errno));
    }
}

int cli_simulate(const cli_args *args)
{
    bool from_stdin = args->file == NULL || strcmp(args->file, "-") == 0;
    int fd = from_stdin ? STDIN_FILENO : open(args->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cli_fail(CLI_USAGE, "%s: %s", args->file, strerror(errno));
    int status = CLI_USAGE;
    simulation *s = calloc(1, sizeof *s);
    if (s == NULL || hirate_local_new(&s->local, MAX_KEYS) != 0) {
        cli_fail(CLI_USAGE, "%s", hirate_strerror(HIRATE_ENOMEM));
    } else {
        s->args = args;
        cli_request_init(&s->request, args, HIRATE_OP_ACQUIRE);
        cli_lines_init(&s->lines, fd, args->limit_count);
        status = run(s);
    }
    if (s != NULL)
        hirate_local_free(s->local);
    free(s);
    if (!from_stdin)
        close(fd);
    return status;
}
