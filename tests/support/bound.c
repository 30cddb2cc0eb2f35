/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: is what was admitted within capacity + rate * interval, for every interval? (See bound.h.)
 *
 * With S(j) the units admitted up to and with record j, the interval from record i to record j is within bounds when
 *     S(j) - S(i-1) <= full + n * (t(j) - t(i)),
 * that is (S(j) - n * t(j)) - (S(i-1) - n * t(i)) <= full. For each j the worst i is the one with the least second
 * term, which a running minimum knows. An interval is closed: what came in one microsecond lies side by side after
 * sorting, and the pair of its first and last record stands for all of it.
 */
#include "bound.h"

static const hirate_limit LIMITS[] = {
    HIRATE_TOKEN_BUCKET("bound-login", 20, HIRATE_RATE(1, HIRATE_MILLISECONDS(300))),
    HIRATE_TOKEN_BUCKET("bound-fast", 5, HIRATE_RATE(7, HIRATE_MILLISECONDS(13))),
    HIRATE_TOKEN_BUCKET("bound-large", 1000, HIRATE_PER_SECOND(333)),
    HIRATE_TOKEN_BUCKET("bound-single", 1, HIRATE_RATE(1, HIRATE_MILLISECONDS(7))),
    HIRATE_TOKEN_BUCKET("bound-slow", 64, HIRATE_RATE(1, HIRATE_MINUTES(1))),
};

const hirate_limit *bound_limit(unsigned name)
{
    return &LIMITS[name % (sizeof LIMITS / sizeof *LIMITS)];
}

bound_record bound_end(uint64_t submitted)
{
    return (bound_record){.time_us = (int64_t)submitted, .name = BOUND_END_NAME};
}

int bound_by_time(const void *a, const void *b)
{
    int64_t x = ((const bound_record *)a)->time_us, y = ((const bound_record *)b)->time_us;
    return (x > y) - (x < y);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bound_worst bound_check(const bound_record *records, size_t count, unsigned name, const hirate_limit *limit)
{
    uint64_t g = gcd(limit->rate.tokens, limit->rate.period_us);
    int64_t n = (int64_t)(limit->rate.tokens / g), p = (int64_t)(limit->rate.period_us / g);
    int64_t full = (int64_t)limit->capacity * p, sum = 0, begin = 0;
    int64_t least = 0, least_sum = 0, least_time = 0; /* of S(i-1) - n * t(i), and its parts */
    bound_worst worst = {.p = p};

    for (size_t i = 0; i < count; i++) {
        const bound_record *r = &records[i];
        if (r->name != name || r->verdict != HIRATE_ALLOWED || r->cost == 0)
            continue;
        if (!worst.any)
            begin = r->time_us;
        int64_t t = r->time_us - begin; /* small, so that n * t stays far below 2^63 */
        if (!worst.any || sum - n * t < least) {
            least = sum - n * t;
            least_sum = sum;
            least_time = t;
        }
        sum += (int64_t)r->cost * p;
        int64_t used = sum - least_sum, allowed = full + n * (t - least_time);
        if (!worst.any || allowed - used < worst.slack)
            worst = (bound_worst){true, allowed - used, used, allowed, t - least_time, p};
    }
    return worst;
}
