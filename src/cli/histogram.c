/* SPDX-License-Identifier: BSD-3-Clause */
/* histogram: durations in nanoseconds, kept to within one part in 128 at any size. */
#include "histogram.h"

/* The middle of bucket `index`, in nanoseconds; undoes cli_histogram_index(). */
static double middle(unsigned index)
{
    if (index < 2 * CLI_HISTOGRAM_SPLIT)
        return index;
    unsigned shift = index / CLI_HISTOGRAM_SPLIT - 1;
    double width = (double)(UINT64_C(1) << shift);
    return (index % CLI_HISTOGRAM_SPLIT + CLI_HISTOGRAM_SPLIT + 0.5) * width;
}

double cli_histogram_us(const cli_histogram *histogram, double part)
{
    double wanted = part * (double)histogram->count;
    uint64_t seen = 0;
    for (unsigned i = 0; i < CLI_HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= wanted)
            return middle(i) / 1000;
    }
    return 0;
}
