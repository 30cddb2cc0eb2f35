/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines: requests read from a descriptor, a line each, with bounded memory.
 *
 * A line ends with \n or the end of the input; a \r before it is part of the line. Lines that are too long are read
 * past and reported once.
 */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "who.h"

#include <stdbool.h>

enum {
    CLI_LINE_NAME = 4 * HIRATE_NAME_MAX, /* a name, each byte escaped as \xHH */
    CLI_LINE_REST = 4096,                /* numbers and tabs, with room to spare */
    CLI_LINES_BUFFER = 1 << 17           /* more than the longest line of the most names */
};

typedef struct cli_lines {
    int fd;
    size_t limits;     /* that each request names: a line has one name for all, or as many */
    size_t longest;    /* line that is accepted, without its end */
    size_t start, end; /* what is buffered and not returned yet: buffer[start … end) */
    uint64_t number;   /* of the line returned last, from 1 */
    bool skipping;     /* inside a line that was too long */
    bool at_end;
    char buffer[CLI_LINES_BUFFER];
} cli_lines;

typedef enum cli_line { CLI_LINE_NONE = 0, CLI_LINE_READ, CLI_LINE_TOO_LONG } cli_line;

/* `limits`: 1 … HIRATE_PAIRS_MAX. */
void cli_lines_init(cli_lines *lines, int fd, size_t limits);

/* One read(), which may block. False with errno when it failed; the end of the input sets at_end. */
bool cli_lines_fill(cli_lines *lines);

/* Wait until a read will not block; where a descriptor is non-blocking, as someone else may have made stdin, this is
 * what keeps us from asking in a busy loop. False with errno. */
bool cli_lines_wait(const cli_lines *lines);

/* The next buffered line, valid until the next call of either function. NONE: fill first, or, at_end, no more. */
cli_line cli_lines_next(cli_lines *lines, const char **line, size_t *len);

/* What a line asks for. It points into itself. */
typedef struct cli_asked {
    uint64_t time_us;
    uint64_t cost;
    cli_who who;
    unsigned char bytes[HIRATE_PAIRS_MAX * HIRATE_NAME_MAX]; /* of its names */
} cli_asked;

/* Read COST<TAB>NAME, or COST and a name for each limit. True, or false with an error line `line N: …`. */
bool cli_lines_parse(const cli_lines *lines, const char *line, size_t len, cli_asked *asked);

/* Read TIME_US<TAB>COST<TAB>NAME. If nothing follows but a column for each limit except the first, these are their
 * names, unless the line is a row that was printed earlier; other further columns are passed over. */
bool cli_lines_parse_timed(const cli_lines *lines, const char *line, size_t len, cli_asked *asked);

/* Say that the line returned last was too long. */
void cli_lines_too_long(const cli_lines *lines);

#endif
