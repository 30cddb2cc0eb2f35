/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing: the tool's reader of requests and traces. It finds the lines that a look at the whole input finds, however
 * the input arrives, and reads of each what it may.
 */
#include "fuzz.h"

#include "cli/lines.h"

#include <fcntl.h>
#include <unistd.h>

/* Complaints go nowhere: they are not what is looked at. */
static int silence(void)
{
    int kept = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    FUZZ_CHECK(kept >= 0 && null >= 0);
    dup2(null, STDERR_FILENO);
    close(null);
    return kept;
}

static void speak(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static void check_asked(const cli_lines *lines, const cli_asked *asked)
{
    const unsigned char *at = asked->bytes;
    FUZZ_CHECK(asked->cost <= HIRATE_COST_MAX && asked->time_us <= HIRATE_COST_MAX);
    FUZZ_CHECK(asked->who.count == 1 || asked->who.count == lines->limits);
    for (size_t i = 0; i < asked->who.count; i++) {
        FUZZ_CHECK(asked->who.names[i].bytes == at && asked->who.names[i].len <= HIRATE_NAME_MAX);
        at += asked->who.names[i].len;
    }
}

/* What the next line is by a plain look; *at moves past it. */
static cli_line look(const uint8_t *data, size_t size, size_t longest, size_t *at, const uint8_t **line, size_t *len)
{
    if (*at == size)
        return CLI_LINE_NONE;
    const uint8_t *newline = memchr(data + *at, '\n', size - *at);
    *line = data + *at;
    *len = newline ? (size_t)(newline - *line) : size - *at;
    *at += *len + (newline != NULL);
    return *len > longest ? CLI_LINE_TOO_LONG : CLI_LINE_READ;
}

static void read_all(cli_lines *lines, const uint8_t *data, size_t size, int into, size_t piece)
{
    size_t at = 0, written = 0;
    const uint8_t *expected;
    size_t expected_len;
    static cli_asked asked;

    for (;;) {
        const char *line;
        size_t len;
        cli_line got = cli_lines_next(lines, &line, &len);
        if (got == CLI_LINE_NONE && !lines->at_end) {
            size_t part = size - written < piece ? size - written : piece;
            if (part)
                FUZZ_CHECK(write(into, data + written, part) == (ssize_t)part);
            else
                close(into);
            written += part;
            FUZZ_CHECK(cli_lines_fill(lines));
            continue;
        }
        FUZZ_CHECK(got == look(data, size, lines->longest, &at, &expected, &expected_len));
        if (got == CLI_LINE_NONE)
            break;
        if (got == CLI_LINE_TOO_LONG)
            continue;
        FUZZ_CHECK(len == expected_len && memcmp(line, expected, len) == 0);
        if (cli_lines_parse(lines, line, len, &asked))
            check_asked(lines, &asked);
        if (cli_lines_parse_timed(lines, line, len, &asked))
            check_asked(lines, &asked);
    }
}

/* The input in pieces, as requests under so many limits. */
static void read_as(size_t limits, const uint8_t *data, size_t size, size_t piece)
{
    static cli_lines lines;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    cli_lines_init(&lines, ends[0], limits);
    read_all(&lines, data, size, ends[1], piece);
    close(ends[0]);
}

int FUZZ_TARGET(lines)(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t piece = (size_t)data[0] * 256 + 1; /* at most what a pipe takes at once */
    int kept = silence();
    read_as(1, data + 1, size - 1, piece);
    read_as(2 + data[0] % (HIRATE_PAIRS_MAX - 1), data + 1, size - 1, piece);
    speak(kept);
    return 0;
}
