/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate: decide recorded requests on a virtual clock, without Redis. */
#include "client.h"
#include "lines.h"
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
    hirate_request request;
    cli_lines lines;
    cli_asked asked;
    int status;
} simulation;

static void decide(simulation *s)
{
    hirate_result result;
    hirate_error error = {.text = ""};
    hirate_result_init(&result);
    s->request.name = s->asked.name;
    s->request.name_len = s->asked.name_len;
    s->request.cost = s->asked.cost;
    int rc = hirate_local_decide(s->local, &s->request, (int64_t)s->asked.time_us, &result, &error);
    if (rc != 0) {
        cli_complain("line %" PRIu64 ": %s", s->lines.number, *error.text != '\0' ? error.text : hirate_strerror(rc));
        s->status = CLI_USAGE;
        return;
    }
    cli_row row = {s->args->format, false, s->asked.name, s->asked.name_len, &result};
    cli_row_write(&row);
}

static void read_line(simulation *s, cli_line what, const char *line, size_t len)
{
    if (what == CLI_LINE_TOO_LONG) {
        cli_lines_too_long(&s->lines);
        s->status = CLI_USAGE;
    } else if (len > 0 && line[0] == '#') {
        return;
    } else if (cli_lines_parse_timed(&s->lines, line, len, &s->asked)) {
        decide(s);
    } else {
        s->status = CLI_USAGE;
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
            return CLI_USAGE;
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
        cli_lines_init(&s->lines, fd);
        status = run(s);
    }
    if (s != NULL)
        hirate_local_free(s->local);
    free(s);
    if (!from_stdin)
        close(fd);
    return status;
}
