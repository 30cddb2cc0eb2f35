/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed_keys SOCKET PREFIX: look at every key that the mixed run (mixed.sh) has left in the server, right after its
 * last client has ended. Exits with 1 when one would not expire, or later than what was taken can count; and when,
 * after the longest of these times, one is still there in which nothing counts any more: only quotas that were charged,
 * whose hour is not over, may be.
 */
#include "support/mixed.h"
#include "support/resp.h"

#include <err.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUOTA_USED_AT = 18 }; /* in a quota's state: a double, how much is used */

static resp_stream server;
static bytes answer;
static int bad;

/* `format` gives words with a space between them. The answer is valid until the next question. */
__attribute__((format(printf, 1, 2))) static const char *ask(const char *format, ...)
{
    char text[512];
    const char *argv[8];
    size_t argc = 0;
    bytes command = {0};
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *word = strtok(text, " "); word && argc < 8; word = strtok(NULL, " "))
        argv[argc++] = word;
    resp_format(&command, argc, argv, NULL);
    bytes_clear(&answer);
    if (!resp_write(server.fd, command.data, command.len) || !resp_read_reply(&server, NULL, &answer))
        errx(1, "the server does not answer");
    bytes_free(&command);
    return answer.data;
}

static const hirate_limit *limit_of(const char *key, const char *prefix)
{
    size_t skip = strlen(prefix) + 1;
    for (size_t i = 0; i < MIXED_LIMIT_COUNT; i++) {
        const hirate_limit *limit = &MIXED_LIMITS[i].limit;
        size_t len = strlen(limit->policy);
        if (strncmp(key + skip, limit->policy, len) == 0 && key[skip + len] == ':')
            return limit;
    }
    errx(1, "%s: a key of no limit of ours", key);
}

static bool was_charged(const hirate_limit *limit, const char *key)
{
    double used = 0;
    if (limit->kind != HIRATE_KIND_QUOTA)
        return false;
    ask("GETRANGE %s %d %d", key, QUOTA_USED_AT, QUOTA_USED_AT + 7);
    if (answer.len == sizeof used)
        memcpy(&used, answer.data, sizeof used);
    return used > 0;
}

/* Returns for how many milliseconds it may still be there, if it is not a quota that was charged. */
static int64_t check_expiry(const char *key, const char *prefix)
{
    const hirate_limit *limit = limit_of(key, prefix);
    int64_t ttl = strtoll(ask("PTTL %s", key), NULL, 10);
    bool charged = was_charged(limit, key);
    int64_t most =
        (limit->kind == HIRATE_KIND_QUOTA && !charged ? MIXED_HOLD_MOST_US : mixed_lasts_us(limit)) / 1000 + 2;

    if (ttl == -1 || ttl > most) {
        printf("%s: expires after %" PRId64 " ms; at most %" PRId64 " are right\n", key, ttl, most);
        bad++;
    }
    return charged ? 0 : ttl;
}

static int64_t check_gone(const char *key, const char *prefix)
{
    if (was_charged(limit_of(key, prefix), key) || strcmp(ask("EXISTS %s", key), "0") == 0)
        return 0;
    printf("%s: is still there\n", key);
    bad++;
    return 0;
}

/* Visit every key; returns the most that `visit` did. */
static int64_t walk(const char *prefix, int64_t (*visit)(const char *, const char *), unsigned *count)
{
    int64_t most = 0;
    char cursor[32] = "0";

    *count = 0;
    do {
        char *keys = strdup(ask("SCAN %s COUNT 1000", cursor)), *rest = NULL;
        if (!keys)
            err(1, "keys");
        snprintf(cursor, sizeof cursor, "%s", strtok_r(keys, "\n", &rest));
        for (char *key = strtok_r(NULL, "\n", &rest); key; key = strtok_r(NULL, "\n", &rest)) {
            if (strncmp(key, prefix, strlen(prefix)) != 0)
                continue;
            int64_t got = visit(key, prefix);
            most = got > most ? got : most;
            ++*count;
        }
        free(keys);
    } while (strcmp(cursor, "0") != 0);
    return most;
}

int main(int argc, char **argv)
{
    unsigned before, after;

    if (argc != 3)
        errx(2, "usage: mixed_keys SOCKET PREFIX");
    int fd = resp_connect_unix(argv[1]);
    if (fd < 0)
        err(1, "%s", argv[1]);
    resp_open(&server, fd);
    int64_t wait_ms = walk(argv[2], check_expiry, &before) + 2;
    nanosleep(&(struct timespec){wait_ms / 1000, (long)(wait_ms % 1000) * 1000000}, NULL);
    walk(argv[2], check_gone, &after);
    printf("keys %u; %u after %" PRId64 " ms, quotas that were charged\n", before, after, wait_ms);
    if (before == 0 || after == 0) {
        printf("no keys to look at\n");
        bad++;
    }
    resp_close(&server);
    bytes_free(&answer);
    return bad ? 1 : 0;
}
