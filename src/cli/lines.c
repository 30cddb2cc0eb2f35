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

void cli_lines_init(cli_lines *lines, int fd, size_t limits)
{
    lines->fd = fd;
    lines->limits = limits;
    lines->longest = limits * CLI_LINE_NAME + CLI_LINE_REST;
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
    if (*len > lines->longest) {
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
    bool too_long = lines->skipping || *len > lines->longest;
    lines->skipping = false;
    return too_long ? CLI_LINE_TOO_LONG : CLI_LINE_READ;
}

void cli_lines_too_long(const cli_lines *lines)
{
    cli_complain("line %" PRIu64 ": longer than %zu bytes", lines->number, lines->longest);
}

typedef struct column {
    const char *text;
    size_t len;
} column;

enum { COLUMNS_MOST = 2 + HIRATE_PAIRS_MAX };

/* Split a line at its tabs into at most `most` columns; returns how many there are, most + 1 if there are more. */
static size_t split(column *columns, size_t most, const char *line, size_t len)
{
    for (size_t count = 0; count < most; count++) {
        const char *tab = memchr(line, '\t', len);
        columns[count] = (column){line, tab != NULL ? (size_t)(tab - line) : len};
        if (tab == NULL)
            return count + 1;
        len -= columns[count].len + 1;
        line = tab + 1;
    }
    return most + 1;
}

static bool complain(const cli_lines *lines, const char *field, const char *why)
{
    cli_complain("line %" PRIu64 ": %s: %s", lines->number, field, why);
    return false;
}

#define WANT_NUMBER "want a whole number 0 to 9007199254740991"

static bool parse_cost(const cli_lines *lines, column text, cli_asked *asked)
{
    return cli_parse_u64(text.text, text.len, HIRATE_COST_MAX, &asked->cost) || complain(lines, "cost", WANT_NUMBER);
}

static bool parse_names(const cli_lines *lines, const column *texts, size_t count, cli_asked *asked)
{
    unsigned char *to = asked->bytes;
    asked->who.count = count;
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const char *wrong = cli_unescape(to, HIRATE_NAME_MAX, texts[i].text, texts[i].len, &len);
        if (wrong != NULL)
            return complain(lines, "name", wrong);
        asked->who.names[i] = (cli_name){to, len};
        to += len;
    }
    return true;
}

static bool complain_columns(const cli_lines *lines, size_t names)
{
    if (lines->limits == 1)
        return complain(lines, "columns",
                        names == 0 ? "want COST<TAB>NAME" : "want COST<TAB>NAME; a tab in a name is written \\t");
    cli_complain("line %" PRIu64 ": columns: want COST<TAB>NAME, or COST and %zu names, one for each limit",
                 lines->number, lines->limits);
    return false;
}

bool cli_lines_parse(const cli_lines *lines, const char *line, size_t len, cli_asked *asked)
{
    column columns[COLUMNS_MOST];
    size_t names = split(columns, 1 + lines->limits, line, len) - 1;
    asked->time_us = 0;
    if (names != 1 && names != lines->limits)
        return complain_columns(lines, names);
    return parse_cost(lines, columns[0], asked) && parse_names(lines, columns + 1, names, asked);
}

static bool column_is(column c, const char *word)
{
    return strlen(word) == c.len && memcmp(c.text, word, c.len) == 0;
}

/* Is this the row of an earlier run, and not the names of so many limits? */
static bool is_row(const column *columns, size_t count)
{
    uint64_t remaining;
    if (count < 8 ||
        !(column_is(columns[3], "allowed") || column_is(columns[3], "denied") || column_is(columns[3], "error")))
        return false;
    return column_is(columns[4], "-") || cli_parse_u64(columns[4].text, columns[4].len, UINT64_MAX, &remaining);
}

bool cli_lines_parse_timed(const cli_lines *lines, const char *line, size_t len, cli_asked *asked)
{
    column columns[COLUMNS_MOST];
    size_t count = split(columns, 2 + lines->limits, line, len);
    if (count < 3)
        return complain(lines, "columns", "want TIME_US<TAB>COST<TAB>NAME");
    if (!cli_parse_u64(columns[0].text, columns[0].len, HIRATE_COST_MAX, &asked->time_us))
        return complain(lines, "time_us", WANT_NUMBER);
    bool all = count == 2 + lines->limits && !is_row(columns, count);
    return parse_cost(lines, columns[1], asked) && parse_names(lines, columns + 2, all ? lines->limits : 1, asked);
}
