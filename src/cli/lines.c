/* SPDX-License-Identifier: BSD-3-Clause */
/* lines: requests read from a descriptor, a line each, with bounded memory. */
#include "lines.h"

#include "escape.h"
#include "say.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

void cli_lines_init(cli_lines *lines, int fd)
{
    lines->fd = fd;
    lines->start = lines->end = 0;
    lines->number = 0;
    lines->skipping = lines->at_end = false;
}

bool cli_lines_fill(cli_lines *lines)
{
    memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
    lines->end -= lines->start;
    lines->start = 0;
    if (lines->end == sizeof lines->buffer)
        return true; /* a read of nothing would look like the end */
    ssize_t got = read(lines->fd, lines->buffer + lines->end, sizeof lines->buffer - lines->end);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    lines->end += (size_t)got;
    lines->at_end = got == 0;
    return true;
}

bool cli_lines_wait(const cli_lines *lines)
{
    struct pollfd input = {.fd = lines->fd, .events = POLLIN};
    return poll(&input, 1, -1) >= 0 || errno == EINTR;
}

/* No line end is buffered: wait for more, start to skip, or take what is there as the last line. */
static cli_line next_unended(cli_lines *lines, const char **line, size_t *len)
{
    *line = lines->buffer + lines->start;
    *len = lines->end - lines->start;
    if (*len > CLI_LINE_MAX) {
        lines->skipping = true;
        lines->start = lines->end;
    }
    if (!lines->at_end || (*len == 0 && !lines->skipping))
        return CLI_LINE_NONE;
    lines->number++;
    lines->start = lines->end;
    cli_line what = lines->skipping ? CLI_LINE_TOO_LONG : CLI_LINE_READ;
    lines->skipping = false;
    return what;
}

cli_line cli_lines_next(cli_lines *lines, const char **line, size_t *len)
{
    char *from = lines->buffer + lines->start;
    char *newline = memchr(from, '\n', lines->end - lines->start);
    if (newline == NULL)
        return next_unended(lines, line, len);
    *line = from;
    *len = (size_t)(newline - from);
    lines->number++;
    lines->start += *len + 1;
    bool too_long = lines->skipping || *len > CLI_LINE_MAX;
    lines->skipping = false;
    return too_long ? CLI_LINE_TOO_LONG : CLI_LINE_READ;
}

void cli_lines_too_long(const cli_lines *lines)
{
    cli_complain("line %" PRIu64 ": longer than %d bytes", lines->number, CLI_LINE_MAX);
}

/* Cut the column that ends at the next tab, or at the end, off the line. False: there is none. */
static bool take_column(const char **line, size_t *len, const char **column, size_t *column_len)
{
    if (*line == NULL)
        return false;
    const char *tab = memchr(*line, '\t', *len);
    *column = *line;
    *column_len = tab != NULL ? (size_t)(tab - *line) : *len;
    *len -= tab != NULL ? *column_len + 1 : *column_len;
    *line = tab != NULL ? tab + 1 : NULL;
    return true;
}

static bool complain(const cli_lines *lines, const char *field, const char *why)
{
    cli_complain("line %" PRIu64 ": %s: %s", lines->number, field, why);
    return false;
}

#define WANT_NUMBER "want a whole number 0 to 9007199254740991"

static bool parse_name(const cli_lines *lines, const char *text, size_t len, cli_asked *asked)
{
    const char *wrong = cli_unescape(asked->name, sizeof asked->name, text, len, &asked->name_len);
    return wrong == NULL || complain(lines, "name", wrong);
}

bool cli_lines_parse(const cli_lines *lines, const char *line, size_t len, cli_asked *asked)
{
    const char *cost, *name;
    size_t cost_len, name_len;
    asked->time_us = 0;
    take_column(&line, &len, &cost, &cost_len);
    if (!take_column(&line, &len, &name, &name_len))
        return complain(lines, "columns", "want COST<TAB>NAME");
    if (line != NULL)
        return complain(lines, "columns", "want COST<TAB>NAME; a tab in a name is written \\t");
    if (!cli_parse_u64(cost, cost_len, HIRATE_COST_MAX, &asked->cost))
        return complain(lines, "cost", WANT_NUMBER);
    return parse_name(lines, name, name_len, asked);
}

bool cli_lines_parse_timed(const cli_lines *lines, const char *line, size_t len, cli_asked *asked)
{
    const char *time, *cost, *name;
    size_t time_len, cost_len, name_len;
    take_column(&line, &len, &time, &time_len);
    if (!take_column(&line, &len, &cost, &cost_len) || !take_column(&line, &len, &name, &name_len))
        return complain(lines, "columns", "want TIME_US<TAB>COST<TAB>NAME");
    if (!cli_parse_u64(time, time_len, HIRATE_COST_MAX, &asked->time_us))
        return complain(lines, "time_us", WANT_NUMBER);
    if (!cli_parse_u64(cost, cost_len, HIRATE_COST_MAX, &asked->cost))
        return complain(lines, "cost", WANT_NUMBER);
    return parse_name(lines, name, name_len, asked);
}
