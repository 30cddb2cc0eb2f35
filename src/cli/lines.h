/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines: requests read from a descriptor, a line each, with bounded memory.
 *
 * A line ends with \n or the end of the input; a \r before it is part of the line. Lines over CLI_LINE_MAX bytes are
 * read past and reported once.
 */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <hirate/hirate.h>
#include <stdbool.h>

enum {
    CLI_LINE_MAX = 8192, /* a name of 1024 bytes, each escaped as \xHH, and its numbers, with room to spare */
    CLI_LINES_BUFFER = 1 << 16
};

typedef struct cli_lines {
    int fd;
    size_t start, end; /* what is buffered and not returned yet: buffer[start … end) */
    uint64_t number;   /* of the line returned last, from 1 */
    bool skipping;     /* inside a line that was too long */
    bool at_end;
    char buffer[CLI_LINES_BUFFER];
} cli_lines;

typedef enum cli_line { CLI_LINE_NONE = 0, CLI_LINE_READ, CLI_LINE_TOO_LONG } cli_line;

void cli_lines_init(cli_lines *lines, int fd);

/* One read(), which may block. False with errno when it failed; the end of the input sets at_end. */
bool cli_lines_fill(cli_lines *lines);

/* Wait until a read will not block; where a descriptor is non-blocking, as someone else may have made stdin, this is
 * what keeps us from asking in a busy loop. False with errno. */
bool cli_lines_wait(const cli_lines *lines);

/* The next buffered line, valid until the next call of either function. NONE: fill first, or, at_end, no more. */
cli_line cli_lines_next(cli_lines *lines, const char **line, size_t *len);

/* What a line asks for. */
typedef struct cli_asked {
    uint64_t time_us;
    uint64_t cost;
    size_t name_len;
    unsigned char name[HIRATE_NAME_MAX];
} cli_asked;

/* Read COST<TAB>NAME. True, or false with an error line `line N: …`. */
bool cli_lines_parse(const cli_lines *lines, const char *line, size_t len, cli_asked *asked);

/* Read TIME_US<TAB>COST<TAB>NAME; further columns are passed over. */
bool cli_lines_parse_timed(const cli_lines *lines, const char *line, size_t len, cli_asked *asked);

/* Say that the line returned last was too long. */
void cli_lines_too_long(const cli_lines *lines);

#endif
