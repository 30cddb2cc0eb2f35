/* SPDX-License-Identifier: BSD-3-Clause */
/* say: exit statuses, error lines, standard output and small numbers in text. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_SIZE = 1024, STDOUT_BUFFER = 1 << 16 };

/* A URI in the wrong place may hold a password: what stands before its '@' is not shown. Our own forms,
 * "redis://[[user]…", are. */
static void hide_credentials(char *line)
{
    for (char *c = strstr(line, "://"); c != NULL; c = strstr(c, "://")) {
        c += 3;
        size_t len = strcspn(c, " \t");
        const char *at = memchr(c, '@', len);
        for (char *x = c; at != NULL && strncmp(c, "[[", 2) != 0 && x < at; x++)
            *x = '*';
    }
}

/* One line whatever the arguments hold: they come from the command line or from a server. */
static void write_line(const char *prefix, const char *format, va_list args)
{
    char line[LINE_SIZE];
    vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    hide_credentials(line);
    fprintf(stderr, "%s%s\n", prefix, line);
}

int cli_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line("hirate: ", format, args);
    va_end(args);
    return status;
}

void cli_complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line("", format, args);
    va_end(args);
}

void cli_stdout_init(void)
{
    static char buffer[STDOUT_BUFFER];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

bool cli_flush(void)
{
    static bool failed;
    if (failed)
        return false;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    failed = true;
    cli_fail(CLI_NO_VERDICT, "standard output: %s", strerror(errno));
    return false;
}

bool cli_parse_u64(const char *text, size_t len, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (len == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (max - digit) / 10 || digit > max)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

bool cli_parse_decimal(const char *text, double min, double max, double *out)
{
    /* strtod() alone would also take blanks, signs, "nan", "inf", exponents and hexadecimal. */
    if (*text == '\0' || text[strspn(text, "0123456789.")] != '\0' || strlen(text) > 30)
        return false;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || value < min || value > max)
        return false;
    *out = value;
    return true;
}

bool cli_parse_duration(const char *text, uint64_t *us)
{
    static const struct {
        const char *name;
        uint64_t us;
    } units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", 3600000000u}, {"d", 86400000000u}};
    size_t digits = strspn(text, "0123456789");
    uint64_t count = 1;
    if (digits > 0 && !cli_parse_u64(text, digits, UINT64_C(9007199254740991), &count))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].name) != 0)
            continue;
        if (count > UINT64_C(9007199254740991) / units[i].us)
            return false;
        *us = count * units[i].us;
        return true;
    }
    return false;
}

int64_t cli_realtime_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t cli_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
