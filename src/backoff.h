/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: delays before trying again: 50 ms, doubling, at most 1 s, each ± half at random, so that many clients that
 * lost one server do not come back together. Pure: the random word is an argument.
 */
#ifndef HR_BACKOFF_H
#define HR_BACKOFF_H

#include <stdint.h>

#define HR_BACKOFF_FIRST_US 50000
#define HR_BACKOFF_MOST_US  1000000

typedef struct hr_backoff {
    uint32_t failures; /* since the last success; a zeroed struct is at the start */
} hr_backoff;

/* The next delay in microseconds, in [half, one and a half) of the step but never above HR_BACKOFF_MOST_US. */
int64_t hr_backoff_next(hr_backoff *backoff, uint32_t random);
void hr_backoff_reset(hr_backoff *backoff);

/* A random word for the above, from a state that is never 0 (xorshift; Marsaglia, 2003). */
uint32_t hr_random_next(uint64_t *state);

#endif
