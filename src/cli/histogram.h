/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: durations in nanoseconds, kept to within one part in 128 at any size, in 58 KB.
 *
 * Below 128 ns each value has its own bucket; above, each power of two is split into 128 equal ones. Adding is a few
 * instructions and touches one counter.
 */
#ifndef CLI_HISTOGRAM_H
#define CLI_HISTOGRAM_H

#include <stdint.h>

enum { CLI_HISTOGRAM_SPLIT = 128, CLI_HISTOGRAM_BUCKETS = (64 - 7 + 1) * CLI_HISTOGRAM_SPLIT };

typedef struct cli_histogram {
    uint64_t count;
    uint64_t buckets[CLI_HISTOGRAM_BUCKETS];
} cli_histogram;

/* The bucket of a value. */
static inline unsigned cli_histogram_index(uint64_t ns)
{
    if (ns < CLI_HISTOGRAM_SPLIT)
        return (unsigned)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - 7u;
    return shift * CLI_HISTOGRAM_SPLIT + (unsigned)(ns >> shift);
}

/* Add one duration; a negative one counts as 0. Zero the struct first. */
static inline void cli_histogram_add(cli_histogram *histogram, int64_t ns)
{
    histogram->buckets[cli_histogram_index(ns < 0 ? 0 : (uint64_t)ns)]++;
    histogram->count++;
}

/* The duration in microseconds that the given part of all, 0 < part <= 1, did not exceed: the middle of its bucket.
 * 0 when nothing was added. */
double cli_histogram_us(const cli_histogram *histogram, double part);

#endif
