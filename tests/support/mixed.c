/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: the limits and records of the mixed run (see mixed.h). */
#include "mixed.h"

#include <err.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS(n) HIRATE_MILLISECONDS(n)

/* Small and short, so that all of them deny now and then and all but the quotas are soon forgotten. */
const mixed_limit MIXED_LIMITS[] = {
    {HIRATE_TOKEN_BUCKET("token", 20, HIRATE_RATE(1, MS(25))), .names = 4},
    {HIRATE_TOKEN_BUCKET("token-fast", 5, HIRATE_RATE(7, MS(13))), .names = 2},
    {HIRATE_LEAKY_BUCKET("leaky", 30, HIRATE_RATE(3, MS(50))), .names = 4},
    {HIRATE_FIXED_WINDOW("fixed", 40, MS(300)), .names = 4},
    {HIRATE_FIXED_WINDOW_WITH("fixed-odd", 20, HIRATE_MICROSECONDS(777777), HIRATE_LIMIT_CACHE_DENIALS,
                              HIRATE_FAIL_ERROR),
     .names = 4},
    {HIRATE_QUOTA("quota", 300, HIRATE_PER_HOUR, 0), .names = 2},
    {HIRATE_QUOTA("quota-wide", 20000, HIRATE_PER_HOUR, 345), .names = 1, .may_not_deny = true},
    {HIRATE_QUOTA("quota-held", 30, HIRATE_PER_HOUR, -90), .names = 2, .never_charged = true},
    {HIRATE_SLIDING_LOG("log", 40, MS(500)), .names = 4},
    {HIRATE_SLIDING_LOG("log-large", 300, MS(1000)), .names = 2},
    {HIRATE_SLIDING_WINDOW("sliding", 50, MS(400)), .names = 4},
    {HIRATE_SLIDING_WINDOW("sliding-odd", 20, HIRATE_MICROSECONDS(333333)), .names = 3},
    {HIRATE_CONCURRENCY("slots", 10, MS(400)), .names = 4},
    {HIRATE_CONCURRENCY("slots-wide", 100, MS(1500)), .names = 2},
    {HIRATE_FIXED_WINDOW_WITH("shadow-fixed", 20, MS(500), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR), .names = 3},
    {HIRATE_TOKEN_BUCKET_WITH("shadow-token", 10, HIRATE_RATE(1, MS(50)), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR),
     .names = 3},
    {HIRATE_CONCURRENCY_WITH("shadow-slots", 5, MS(300), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR), .names = 3},
};
const size_t MIXED_LIMIT_COUNT = sizeof MIXED_LIMITS / sizeof *MIXED_LIMITS;

int64_t mixed_lasts_us(const hirate_limit *limit)
{
    const hirate_rate *rate = &limit->rate;

    switch (limit->kind) {
    case HIRATE_KIND_QUOTA:
        return HIRATE_HOURS(1);
    case HIRATE_KIND_SLIDING_WINDOW:
        return 2 * (int64_t)limit->window_us;
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_SLIDING_LOG:
        return (int64_t)limit->window_us;
    case HIRATE_KIND_CONCURRENCY:
        return (int64_t)limit->lease_us;
    default:
        return (int64_t)((limit->capacity * rate->period_us + rate->tokens - 1) / rate->tokens);
    }
}

int64_t mixed_quota_end_us(const hirate_limit *limit, int64_t now_us)
{
    const int64_t offset_us = HIRATE_MINUTES(limit->offset_minutes);
    return ((now_us + offset_us) / HIRATE_HOURS(1) + 1) * HIRATE_HOURS(1) - offset_us;
}

const char *mixed_kind_name(const hirate_limit *limit)
{
    static const char *const names[] = {"",      "token-bucket", "leaky-bucket",   "fixed-window",
                                        "quota", "sliding-log",  "sliding-window", "concurrency"};
    return names[limit->kind];
}

static mixed_file *map(const char *path, int fd)
{
    void *at = mmap(NULL, MIXED_FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        err(1, "%s", path);
    close(fd);
    return at;
}

mixed_file *mixed_file_make(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)MIXED_FILE_SIZE) != 0)
        err(1, "%s", path);
    return map(path, fd);
}

mixed_file *mixed_file_map(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0)
        err(1, "%s", path);
    if (info.st_size != (off_t)MIXED_FILE_SIZE)
        errx(1, "%s: is not a file of records", path);
    return map(path, fd);
}
